//! What the front counts for monitoring: who is connected how. Beside the path: from mod.rs, where
//! viewers and connections are, over a socket that the helper sends, to monitor/. Knows counts;
//! never people.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;

use crate::monitor::{FrontFigures, TRANSPORTS};
use crate::packets;

/// Viewers now, by transport.
#[derive(Clone, Debug, Default)]
pub(super) struct Viewers(Arc<[AtomicU64; TRANSPORTS.len()]>);

/// A viewer, until it is dropped.
#[derive(Debug)]
pub(super) struct Counted(Viewers, usize);

impl Viewers {
    /// Counts a viewer that is connected by one of [`TRANSPORTS`].
    pub(super) fn count(&self, transport: &str) -> Counted {
        let at = TRANSPORTS.iter().position(|name| name.eq_ignore_ascii_case(transport));
        let at = at.expect("every transport has a name");
        self.0[at].fetch_add(1, Ordering::Relaxed);
        Counted(self.clone(), at)
    }

    /// Sends what is counted; who asked may have gone.
    pub(super) fn send(&self, to: &OwnedFd, unauthenticated: usize) {
        let viewers = std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed));
        let figures = FrontFigures { viewers, unauthenticated: unauthenticated as u64 };
        let json = serde_json::to_vec(&figures).expect("numbers have a JSON form");
        if let Err(error) = packets::send(to, &json, &[]) {
            warn!("cannot tell figures: {error}");
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0[self.1].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::FRONT_BYTES_MAX;

    #[test]
    fn a_viewer_counts_while_it_is_connected() {
        let viewers = Viewers::default();
        let told = || {
            let (near, far) = packets::pair().unwrap();
            viewers.send(&far, 3);
            let packet = packets::receive(&near, FRONT_BYTES_MAX).unwrap();
            serde_json::from_slice::<FrontFigures>(&packet.bytes).unwrap()
        };
        let one = viewers.count("TCP");
        let other = viewers.count("websocket");
        assert_eq!((told().viewers, told().unauthenticated), ([1, 0, 1, 0], 3));
        drop(one);
        assert_eq!(told().viewers, [0, 0, 1, 0]);
        drop(other);
        assert_eq!(told().viewers, [0; 4]);
    }
}
