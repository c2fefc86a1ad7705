//! NX as X2Go uses it: nxagent, an X server without a screen, whose requests nxproxy draws on the
//! client's own X server, compressed between the two and without round trips. Its settings are
//! those of X2Go. Knows options of both; never their protocol.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::programs::{self, Needed};
use super::{Desk, Peer, listening};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe;
use crate::observe::account::Group;
use crate::process::{Running, wait_for};
use crate::results::PeerRecord;
use crate::stage::Site;

const AGENT: &str = "nxagent";
const PROXY: &str = "nxproxy";
/// NX's base port, and the display number of the session.
const PORT: u16 = 4000;
/// The agent starts when the proxy has connected, and requests the keymap from it: a second, and a
/// few round trips.
const START_MAX: Duration = Duration::from_secs(30);

/// nxagent and nxproxy.
pub struct NxAgent;

impl Peer for NxAgent {
    fn name(&self) -> &'static str {
        "nxagent"
    }

    fn record(&self) -> PeerRecord {
        let needed = [
            Needed { program: AGENT, install: "nxagent" },
            Needed { program: PROXY, install: "nxproxy" },
        ];
        let settings = "desktop over the whole screen, link=adsl (as X2Go starts it: ZLIB, \
            adaptive packing, caches in \
                        memory and on disk), keyboard=query, no clipboard, magic pixel and \
                        encryption";
        programs::record("nxagent", &needed, settings)
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let mut display = DisplayNumber::reserve()?;
        let [agent_root, proxy_root] =
            ["nx-agent", "nx-proxy"].map(|name| site.folder.path().join(name));
        for root in [&agent_root, &proxy_root] {
            fs::create_dir_all(root)?;
        }
        let options = site.folder.path().join("nx-options");
        fs::write(
            &options,
            agent_options(&site.bed.address(Side::Client).to_string(), site.size, &agent_root),
        )?;
        let mut agent = programs::command(site, Group::Server, AGENT)?;
        agent.env("DISPLAY", format!("nx/nx,options={}:{}", options.display(), display.number()));
        // It locks the display itself: only root may use -nolock.
        display.unlock();
        agent.args([
            "-D",
            "-ac",
            "-noreset",
            "-nomagicpixel",
            "-nolisten",
            "tcp",
            "-name",
            "bench",
        ]);
        agent.arg("-options").arg(&options).arg(display.name());
        let mut agent = programs::start(site, AGENT, &mut agent)?;
        listening::wait(site, AGENT, &mut agent, PORT)?;

        let mut proxy = programs::command(site, Group::Client, PROXY)?;
        proxy.env("DISPLAY", site.screen.display()).arg("-S");
        let server = site.bed.address(Side::Server);
        let root = proxy_root.display();
        proxy.arg(format!("nx/nx,connect={server},port={PORT},root={root}:{}", display.number()));
        let mut proxy = programs::start(site, PROXY, &mut proxy)?;
        takes_connections(site, &display, [&mut agent, &mut proxy])?;

        let mut desk = Desk {
            display: display.name(),
            held: vec![proxy, agent],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, START_MAX)?;
        Ok(desk)
    }
}

/// Waits until the agent has its screen and applications can draw on it.
fn takes_connections(
    site: &Site,
    display: &DisplayNumber,
    mut halves: [&mut Running; 2],
) -> Result<(), Error> {
    let ready = wait_for("nxagent takes X connections", START_MAX, || {
        for half in &mut halves {
            if let Err(error) = half.check() {
                return Some(Err(error));
            }
        }
        observe::connect(&display.name(), None).is_ok().then_some(Ok(()))
    });
    ready.and_then(|end| end).map_err(|error| programs::failure(site, &error.to_string()))
}

/// The agent's options on one line; the proxy gets its part from the agent.
fn agent_options(client: &str, (width, height): (u32, u32), root: &Path) -> String {
    format!(
        "nx/nx,listen={PORT},accept={client},link=adsl,keyboard=query,clipboard=none,resize=0,menu=0,magicpixel=0,\
         fullscreen=1,geometry={width}x{height}+0+0,root={}\n",
        root.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_told_its_peer_and_its_size() {
        let options = agent_options("10.77.0.2", (1024, 768), Path::new("/f"));
        assert!(
            options.contains(",accept=10.77.0.2,") && options.contains(",geometry=1024x768+0+0,"),
            "{options}"
        );
        assert_eq!(options.lines().count(), 1, "{options}");
    }
}
