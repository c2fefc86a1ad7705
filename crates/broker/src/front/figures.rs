//! What the front counts for monitoring: who is connected how. Beside the path: from mod.rs, where
//! viewers and connections are, over a socket that the helper sends, to monitor/. Knows counts;
//! never people.

use std::os::fd::OwnedFd;

use tracing::warn;

use crate::monitor::{FrontFigures, TRANSPORTS};
use crate::packets;

/// Sends the viewers of each transport, and the connections without a login; who asked may have
/// gone.
pub(super) fn send(to: &OwnedFd, viewers: [u64; TRANSPORTS.len()], unauthenticated: usize) {
    let figures = FrontFigures { viewers, unauthenticated: unauthenticated as u64 };
    let json = serde_json::to_vec(&figures).expect("numbers have a JSON form");
    if let Err(error) = packets::send(to, &json, &[]) {
        warn!("cannot tell figures: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::FRONT_BYTES_MAX;

    #[test]
    fn the_largest_figures_are_read_again() {
        let (near, far) = packets::pair().unwrap();
        let viewers = [u64::MAX; TRANSPORTS.len()];
        send(&far, viewers, usize::MAX);
        let packet = packets::receive(&near, FRONT_BYTES_MAX).unwrap();
        let told: FrontFigures = serde_json::from_slice(&packet.bytes).unwrap();
        assert_eq!((told.viewers, told.unauthenticated), (viewers, usize::MAX as u64));
    }
}
