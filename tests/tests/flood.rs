//! A viewer that connects while somebody behind the same address floods the port. A real session
//! and a headless viewer at the two ends of an emulated link. Needs root, or a kernel that lets
//! users make namespaces.

use std::collections::VecDeque;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thinc_bench::Error;
use thinc_bench::net::testbed::{Side, Testbed};
use thinc_bench::process::{Headless, Session, binary, wait_for};
use thinc_e2e::EVENT_TIMEOUT;

/// 66 ms, over which no UDP passes: the viewer connects over TCP.
const PATH: &str = "wan,udp=off";
/// Each connects again as soon as it is connected, so all of them 212 times a second.
const THREADS: usize = 14;
/// Connections that each of them keeps open: as many as the port may hold, and more.
const KEPT: usize = 32;

#[test]
fn a_viewer_connects_while_its_own_source_floods_the_port() -> Result<(), Error> {
    thinc_bench::net::as_user_namespace()?;
    let bed = Testbed::start(&PATH.parse()?, None)?;
    let listen = format!("{}:0", bed.address(Side::Server));
    let session = Session::start_by(
        bed.command(Side::Server, binary("thinc")?),
        &listen,
        ("flood", "300x200"),
        &[],
        &["sleep", "1000"],
    )?;
    let port: u16 = session
        .link
        .split(['/', '#'])
        .find_map(|part| part.rsplit_once(':')?.1.parse().ok())
        .ok_or("the link has a port")?;
    let address = SocketAddr::new(bed.address(Side::Server).into(), port);
    let namespace = File::open(bed.namespace(Side::Client))?;
    let (over, connected) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network)
                    .expect("the testbed's owner may enter its namespaces");
                let mut kept = VecDeque::new();
                while !over.load(Ordering::Relaxed) {
                    kept.extend(TcpStream::connect(address));
                    connected.fetch_add(1, Ordering::Relaxed);
                    if kept.len() > KEPT {
                        kept.pop_front();
                    }
                }
            });
        }
        let outcome = (|| {
            // More than the port holds, so that each further one takes the place of another.
            wait_for("the flood", EVENT_TIMEOUT, || {
                (connected.load(Ordering::Relaxed) > 300).then_some(())
            })?;
            let mut viewer = Headless::start_by(
                bed.command(Side::Client, binary("thinc-view")?),
                &session.link,
                &[],
            )?;
            viewer.say("wait-quiet")?;
            viewer.finish()
        })();
        over.store(true, Ordering::Relaxed);
        outcome
    })
}
