//! Path 10/13: beside client.rs; QUIC and TCP set out for a session at the same time, and one of them is kept.
//! Both shake hands and check the key; only the one that is kept says the token, which is good once.
//! Knows times; never what is said.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{ConnectError, Deadlines, Opening, TransportChoice, Trust, Via, quic, remaining, tcp};

/// 1 ms: a session that answers TCP's first packet so soon is on this machine or behind a cable. There nothing gets lost, and QUIC
/// would cost three times the CPU for each bit.
const NEAR: Duration = Duration::from_millis(1);
/// 200 ms that TCP waits for QUIC once its hands are shaken. QUIC needs a round trip less, so it is there already but where packets
/// of it were lost, which are said again after 60, 180 and 420 ms, or where no UDP gets through: there it is time that a person
/// who has just started a viewer does not notice, and where packets are lost, TCP is what they notice.
const GRACE: Duration = Duration::from_millis(200);

enum Arrival {
    /// TCP's first packet was answered, after this time.
    Answered(Duration),
    Shaken(Via, Result<Box<dyn Opening>, ConnectError>),
}

/// The way that is kept.
type Kept = (Via, Box<dyn Opening>);

/// What has arrived so far, and what that means.
#[derive(Default)]
struct Standing {
    near: bool,
    tcp: Option<Box<dyn Opening>>,
    quic: Option<Box<dyn Opening>>,
    tcp_error: Option<ConnectError>,
    quic_error: Option<ConnectError>,
    /// Until then TCP, or what it says of its failure, waits for QUIC.
    grace_ends: Option<Instant>,
}

impl Standing {
    /// Which is kept, once that is clear.
    fn kept(&mut self, now: Instant) -> Option<Result<Kept, ConnectError>> {
        let tcp_may_come = self.tcp_error.is_none() && self.tcp.is_none();
        if (!self.near || self.tcp_error.is_some())
            && let Some(quic) = self.quic.take()
        {
            return Some(Ok((Via::Quic, quic)));
        }
        let over = self.grace_ends.is_some_and(|at| at <= now);
        if (self.near || self.quic_error.is_some() || over)
            && let Some(tcp) = self.tcp.take()
        {
            return Some(Ok((Via::Tcp, tcp)));
        }
        if tcp_may_come || self.tcp.is_some() {
            return None;
        }
        // TCP says more clearly what is wrong, and sooner: no UDP port refuses anybody.
        if self.quic_error.is_none() && !over {
            return None;
        }
        self.tcp_error.take().map(Err)
    }
}

/// Connects by the way that was chosen, or by the better of both.
pub(super) fn run(
    addresses: Vec<SocketAddr>,
    trust: Trust,
    choice: TransportChoice,
    deadlines: Deadlines,
) -> Result<Kept, ConnectError> {
    let (send, receive) = channel();
    let authority = trust.authority.clone();
    let failed = |error| ConnectError::Connect(authority.clone(), error);
    let late = || failed(io::Error::new(io::ErrorKind::TimedOut, "nothing came back"));
    let mut standing = Standing::default();
    // Whoever is not there when this returns is not waited for any more.
    let (_waits, wanted) = oneshot::channel();
    if choice != TransportChoice::Tcp {
        let (addresses, trust, send) = (addresses.clone(), trust.clone(), send.clone());
        std::thread::Builder::new()
            .name("thinc-quic".into())
            .spawn(move || {
                quic::run(&addresses, &trust, deadlines.quic_shakes, wanted, |result| {
                    report(&send, Via::Quic, result.map(|quic| Box::new(quic) as Box<dyn Opening>));
                });
            })
            .map_err(failed)?;
    } else {
        standing.quic_error = Some(late());
    }
    if choice != TransportChoice::Quic {
        std::thread::Builder::new()
            .name("thinc-tcp".into())
            .spawn(move || {
                let begun = Instant::now();
                let opened = tcp::open(&addresses, &trust.authority, deadlines.tcp_answers).and_then(|tcp| {
                    let _ = send.send(Arrival::Answered(begun.elapsed()));
                    tcp::shake_hands(tcp, &trust, deadlines.all)
                });
                report(&send, Via::Tcp, opened.map(|tcp| Box::new(tcp) as Box<dyn Opening>));
            })
            .map_err(failed)?;
    } else {
        drop(send);
    }
    loop {
        let now = Instant::now();
        if let Some(result) = standing.kept(now) {
            return result;
        }
        let until = standing.grace_ends.map_or(deadlines.all, |at| at.min(deadlines.all));
        match receive.recv_timeout(remaining(until)) {
            Ok(Arrival::Answered(time)) => standing.near = time < NEAR && choice == TransportChoice::Auto,
            Ok(Arrival::Shaken(Via::Tcp, Ok(tcp))) => {
                standing.tcp = Some(tcp);
                standing.grace_ends = Some(Instant::now() + GRACE);
            }
            Ok(Arrival::Shaken(Via::Quic, Ok(quic))) => standing.quic = Some(quic),
            Ok(Arrival::Shaken(Via::Tcp, Err(error))) => {
                standing.tcp_error = Some(error);
                standing.grace_ends = Some(Instant::now() + GRACE);
            }
            // There was no other way to wait for.
            Ok(Arrival::Shaken(Via::Quic, Err(error))) if choice == TransportChoice::Quic => return Err(error),
            Ok(Arrival::Shaken(Via::Quic, Err(error))) => standing.quic_error = Some(error),
            Err(_) if Instant::now() >= deadlines.all => return Err(standing.tcp_error.take().unwrap_or_else(late)),
            Err(_) => {}
        }
    }
}

/// Whoever is no longer waited for is dropped, and with that closed.
fn report(send: &Sender<Arrival>, via: Via, result: Result<Box<dyn Opening>, ConnectError>) {
    let _ = send.send(Arrival::Shaken(via, result));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ReadHalf, WriteHalf};
    use crate::pin::SpkiPin;

    #[derive(Debug)]
    struct Way;

    impl Opening for Way {
        fn pin(&self) -> SpkiPin {
            SpkiPin([0; 32])
        }

        fn peer(&self) -> SocketAddr {
            ([127, 0, 0, 1], 1).into()
        }

        fn takes_datagrams(&self) -> bool {
            false
        }

        fn say(&mut self, _: &[u8], _: Instant) -> io::Result<()> {
            Ok(())
        }

        fn hear(&mut self, _: &mut Vec<u8>, _: Instant) -> io::Result<usize> {
            Ok(0)
        }

        fn split(self: Box<Self>) -> io::Result<(ReadHalf, WriteHalf)> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn way() -> Option<Box<dyn Opening>> {
        Some(Box::new(Way))
    }

    fn error(words: &str) -> Option<ConnectError> {
        Some(ConnectError::NotThinc(words.to_owned()))
    }

    fn via(mut standing: Standing, now: Instant) -> Option<Via> {
        standing.kept(now).map(|result| result.map_or_else(|error| panic!("{error}"), |(via, _)| via))
    }

    #[test]
    fn quic_is_kept_as_soon_as_it_is_there() {
        let now = Instant::now();
        assert_eq!(via(Standing { quic: way(), ..Standing::default() }, now), Some(Via::Quic));
        let both = Standing { quic: way(), tcp: way(), grace_ends: Some(now), ..Standing::default() };
        assert_eq!(via(both, now), Some(Via::Quic));
    }

    #[test]
    fn tcp_waits_for_quic_no_longer_than_its_grace_and_not_where_that_has_failed() {
        let now = Instant::now();
        let waiting = || Standing { tcp: way(), grace_ends: Some(now + GRACE), ..Standing::default() };
        assert_eq!(via(waiting(), now), None);
        assert_eq!(via(waiting(), now + GRACE), Some(Via::Tcp));
        assert_eq!(via(Standing { quic_error: error("no"), ..waiting() }, now), Some(Via::Tcp));
    }

    #[test]
    fn nearby_tcp_is_kept_unless_it_fails() {
        let now = Instant::now();
        assert_eq!(via(Standing { near: true, quic: way(), ..Standing::default() }, now), None);
        assert_eq!(via(Standing { near: true, tcp: way(), ..Standing::default() }, now), Some(Via::Tcp));
        let failed = Standing { near: true, quic: way(), tcp_error: error("no"), ..Standing::default() };
        assert_eq!(via(failed, now), Some(Via::Quic));
    }

    #[test]
    fn where_both_fail_tcp_says_why() {
        let now = Instant::now();
        assert!(Standing { tcp_error: error("tcp"), ..Standing::default() }.kept(now).is_none());
        let mut both = Standing { tcp_error: error("tcp"), quic_error: error("quic"), ..Standing::default() };
        let words = both.kept(now).unwrap().err().unwrap().to_string();
        assert!(words.starts_with("tcp "), "{words}");
        let mut refused = Standing { tcp_error: error("tcp"), grace_ends: Some(now + GRACE), ..Standing::default() };
        assert!(refused.kept(now).is_none());
        assert!(refused.kept(now + GRACE).unwrap().is_err());
    }
}
