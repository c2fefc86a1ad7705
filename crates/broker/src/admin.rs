//! The administrator's socket: tells root what the broker does, and lets root drain it. Beside the
//! path: from `thinc admin`, to helper.rs. Messages have a fixed length; only root is answered, as
//! the kernel says who is there. Knows bytes; never a session.
//!
//! ```text
//! request:  what u8 (0 STATUS, 1 DRAIN, 2 RESUME)
//! answer:   draining u8 | logins u32 | viewers u32, little-endian
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::time::timeout;

use crate::BrokerError;

/// In the broker's state folder, which only root can enter.
const SOCKET: &str = "admin.sock";
/// The helper answers from its event loop, which nothing blocks.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that does not ask in time makes room for the next.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted: probably no descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of an answer.
const ANSWER_BYTES: usize = 9;

/// What root asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdminRequest {
    /// What the broker does.
    Status,
    /// From now on no new logins and no new desktops.
    Drain,
    /// From now on both.
    Resume,
}

impl AdminRequest {
    /// The message.
    pub fn encode(self) -> [u8; 1] {
        [self as u8]
    }

    /// Reads a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<AdminRequest> {
        match bytes {
            [0] => Some(AdminRequest::Status),
            [1] => Some(AdminRequest::Drain),
            [2] => Some(AdminRequest::Resume),
            _ => None,
        }
    }
}

/// What the broker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminStatus {
    /// It takes no new logins and no new desktops.
    pub is_draining: bool,
    /// Logins that open desktops.
    pub logins: u32,
    /// Viewers that are connected with a desktop through the broker.
    pub viewers: u32,
}

impl AdminStatus {
    /// The message.
    pub fn encode(self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_draining)];
        bytes.extend(self.logins.to_le_bytes());
        bytes.extend(self.viewers.to_le_bytes());
        bytes
    }

    /// Reads a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<AdminStatus> {
        let bytes: &[u8; ANSWER_BYTES] = bytes.try_into().ok()?;
        let [draining, l0, l1, l2, l3, viewers @ ..] = *bytes;
        Some(AdminStatus {
            is_draining: match draining {
                0 => false,
                1 => true,
                _ => return None,
            },
            logins: u32::from_le_bytes([l0, l1, l2, l3]),
            viewers: u32::from_le_bytes(viewers),
        })
    }
}

/// Asks the broker whose state folder this is.
pub fn ask(state: &Path, request: AdminRequest) -> Result<AdminStatus, BrokerError> {
    let path = state.join(SOCKET);
    let asked = || -> io::Result<Option<AdminStatus>> {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(&request.encode())?;
        let mut answer = [0; ANSWER_BYTES];
        stream.read_exact(&mut answer)?;
        Ok(AdminStatus::decode(&answer))
    };
    let failed = |error| BrokerError::Admin(path.clone(), error);
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "an answer of another version");
    asked().map_err(failed)?.ok_or_else(|| failed(invalid()))
}

/// Where requests come in. The file goes with it.
pub(crate) struct AdminSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl AdminSocket {
    pub(crate) fn bind(state: &Path) -> io::Result<AdminSocket> {
        let path = state.join(SOCKET);
        // Of a broker that was killed: this one has the port already.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(AdminSocket { listener, path })
    }

    /// Answers, one after the other, without end.
    pub(crate) async fn serve(&self, answer: impl Fn(AdminRequest) -> AdminStatus) {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if stream.peer_cred().map_or(true, |peer| peer.uid() != 0) {
                continue;
            }
            let mut request = [0; 1];
            let read = timeout(REQUEST_TIMEOUT, stream.read_exact(&mut request)).await;
            if let (Ok(Ok(_)), Some(request)) = (read, AdminRequest::decode(&request)) {
                let bytes = answer(request).encode();
                let _ = timeout(REQUEST_TIMEOUT, stream.write_all(&bytes)).await;
            }
        }
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_survives_and_no_part_or_extension_of_it_is_one() {
        for request in [AdminRequest::Status, AdminRequest::Drain, AdminRequest::Resume] {
            assert_eq!(AdminRequest::decode(&request.encode()), Some(request));
        }
        assert!([&[][..], &[3], &[0, 0]].iter().all(|bytes| AdminRequest::decode(bytes).is_none()));
        let status = AdminStatus { is_draining: true, logins: 258, viewers: u32::MAX };
        let bytes = status.encode();
        assert_eq!(bytes, [1, 2, 1, 0, 0, 255, 255, 255, 255]);
        assert_eq!(AdminStatus::decode(&bytes), Some(status));
        assert_eq!(AdminStatus::decode(&bytes[..8]), None);
        assert_eq!(AdminStatus::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
