//! Beside the path, under the adapters whose servers do not report that they are ready: whether a
//! process listens on a port, read from /proc. It does not connect, because some servers take the
//! first connection for the viewer's. Knows network namespaces and ports; never which server it is.

use std::fs;
use std::time::Duration;

use super::programs;
use crate::Error;
use crate::process::{Running, wait_for};
use crate::stage::Site;

/// 30 s: the slowest of these servers, xpra, takes 3 s on two idle cores.
const LISTEN_MAX: Duration = Duration::from_secs(30);
/// State of a listening socket in /proc/net/tcp.
const LISTENING: &str = "0A";

/// Waits until something listens on TCP `port` in the namespace of `server`, which must not end
/// meanwhile.
pub(super) fn wait(site: &Site, name: &str, server: &mut Running, port: u16) -> Result<(), Error> {
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{}/net/{table}", server.pid()));
    let found = wait_for(&format!("{name} listens on port {port}"), LISTEN_MAX, || {
        if let Err(error) = server.check() {
            return Some(Err(error));
        }
        let listens =
            |path: &String| fs::read_to_string(path).is_ok_and(|table| has_listener(&table, port));
        tables.iter().any(listens).then_some(Ok(()))
    });
    found.and_then(|end| end).map_err(|error| programs::failure(site, &error.to_string()))
}

/// Whether a table of /proc/net has a listening socket of this port: ` 0: 0100007F:0CEA
/// 00000000:0000 0A …`.
fn has_listener(table: &str, port: u16) -> bool {
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        let local = words.next().and_then(|local| local.rsplit(':').next());
        let listens = words.nth(1) == Some(LISTENING);
        listens && local.and_then(|hex| u16::from_str_radix(hex, 16).ok()) == Some(port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
                     0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
                     1: 0100007F:0D3D 0100007F:E2B4 01 00000000:00000000 00:00000000 00000000\n";
        assert!(has_listener(table, 0x0cea));
        assert!(!has_listener(table, 0x0d3d), "it is connected, and nobody listens");
        assert!(!has_listener(table, 1));
        assert!(!has_listener("", 0));
    }

    #[test]
    fn this_process_is_seen_to_listen() -> Result<(), Error> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        assert!(has_listener(&fs::read_to_string("/proc/self/net/tcp")?, port));
        Ok(())
    }
}
