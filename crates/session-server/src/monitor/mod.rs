//! Figures for monitoring, on a port of this machine alone: as OpenMetrics, and as a page with
//! plots. Beside the path: from the process of the broker for it, or from a session process, to
//! Prometheus and to browsers. Knows numbers and names; never who may see what: everybody on the
//! machine may.

mod http;
mod own;
mod text;

use std::net::SocketAddr;

use serde::Serialize;

use crate::figures::Counts;

pub use http::{Source, serve};
pub(crate) use own::serve_own;

/// Most sessions in the page's table.
pub const ROWS_MAX: usize = 1000;

/// All figures of one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Sessions that run.
    pub sessions: u64,
    /// Those that a viewer shows.
    pub viewed_sessions: u64,
    /// Viewers, by transport.
    pub viewers: Vec<(&'static str, u64)>,
    /// What sessions count, all together. It decreases only when this process is started again.
    pub counts: Counts,
    /// Bytes of memory, by part.
    pub memory: Vec<(&'static str, u64)>,
    /// What only a broker has.
    pub broker: Option<BrokerFigures>,
    /// For the page alone: names are no labels.
    pub rows: Vec<Row>,
}

/// Figures of a broker.
#[derive(Clone, Debug, Default, Serialize)]
pub struct BrokerFigures {
    /// Logins that are open.
    pub open_logins: u64,
    /// Logins since the broker was started.
    pub logins: u64,
    /// Attempts that were refused since then, by reason.
    pub refusals: Vec<(&'static str, u64)>,
    /// Connections that have shown no login yet.
    pub unauthenticated: u64,
    /// It takes no new logins.
    pub is_draining: bool,
    /// People who wait for a desktop, because the machine is short of something.
    pub waiting: u64,
    /// Desktops that were not started for that reason.
    pub refused_starts: u64,
    /// Desktops that were started after a wait.
    pub waited_starts: u64,
    /// Part of the last 10 s in which some process had to wait, by resource.
    pub pressure_percent: Vec<(&'static str, u64)>,
    /// Times that a session's figures were impossible, and left out.
    pub implausible: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Whose it is.
    pub user: String,
    /// Its name.
    pub name: String,
    /// Seconds since it was started.
    pub age_s: u64,
    /// Width and height; none from a session of an earlier version.
    pub screen: Option<(u32, u32)>,
    /// Viewers of its owner.
    pub viewers: usize,
    /// Viewers of guests.
    pub guests: usize,
    /// The longest smoothed round trip of its viewers.
    pub round_trip_us: Option<u64>,
}

/// An address for figures: of this machine alone, as everybody who reaches it is answered.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let wrong = || {
        "it has to be an address of this machine alone and a port, such as 127.0.0.1:9187 or \
         [::1]:9187: the figures are for everybody who reaches it"
            .to_owned()
    };
    let address: SocketAddr = text.parse().map_err(|_| wrong())?;
    if address.ip().to_canonical().is_loopback() { Ok(address) } else { Err(wrong()) }
}

/// Bytes that a process has for itself alone, from its /proc/PID/status (proc(5)); none for a
/// thread of the kernel.
pub fn anonymous_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(1024 * line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HOST, HeaderMap};

    use super::*;

    #[test]
    fn memory_is_that_of_a_process_alone() {
        assert_eq!(
            anonymous_memory("Name:\tx\nRssAnon:\t    1028 kB\nRssFile:\t 9 kB\n"),
            Some(1028 << 10)
        );
        assert_eq!(anonymous_memory("Name:\tkthreadd\nPPid:\t0\n"), None);
    }

    #[test]
    fn figures_are_for_this_machine_alone() {
        for good in ["127.0.0.1:9187", "[::1]:0", "127.8.9.1:1", "[::ffff:127.0.0.1]:9187"] {
            let address = parse_address(good).unwrap();
            // Who opens it there is answered.
            let host = address.to_string().parse().unwrap();
            let headers = HeaderMap::from_iter([(HOST, host)]);
            assert!(http::names_this_machine(&headers), "{good}");
        }
        for bad in ["0.0.0.0:9187", "[::]:9187", "192.0.2.1:9187", "localhost:9187", "9187", ""] {
            let error = parse_address(bad).unwrap_err();
            assert!(error.contains("this machine alone"), "{bad}: {error}");
        }
    }
}
