//! The administrator's socket: tells root what the broker does, and lets root drain it. Beside the
//! path: from `thinc admin`, to helper.rs. Every part has a length and a limit; only root is
//! answered, as the kernel says who is there. Knows bytes; never a session.
//!
//! ```text
//! request:  what u8 (0 STATUS, 1 DRAIN, 2 RESUME, 6 VIEWERS), or
//!           what u8 (3 ENDED, 4 TOLD) | user text | session text, for the audit log, or
//!           what u8 (5 FORGET) | user text | device text, empty for all
//! answer:   draining u8 | logins u32 | viewers u32, little-endian
//! after VIEWERS also: count u32 | count × (user text | session text | address 16 bytes
//!                     | seconds u64 | guest u8)
//! text:     length u8 | bytes
//! ```

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thinc_transport::device::DeviceId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::BrokerError;
use crate::agent::is_session_name;

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
/// Most viewers in an answer: those of 256 desktops with as many viewers as one may have.
pub const VIEWERS_TOLD_MAX: usize = 4096;
/// Longest answer with viewers: two texts and what has a fixed length, of each.
const VIEWERS_BYTES_MAX: u64 = (VIEWERS_TOLD_MAX * (2 * 256 + 16 + 8 + 1) + 4) as u64;

/// What root asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminRequest {
    /// What the broker does.
    Status,
    /// From now on no new logins and no new desktops.
    Drain,
    /// From now on both.
    Resume,
    /// For the audit log: root has ended this desktop.
    Ended(Named),
    /// For the audit log: root has shown a message there.
    Told(Named),
    /// This account's remembered device is forgotten, or all of them.
    Forget {
        /// Its name.
        user: String,
        /// `None`: all.
        device: Option<DeviceId>,
    },
    /// Who is connected through the broker.
    Viewers,
}

/// A desktop of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The account's name, or its number.
    pub user: String,
    /// The desktop's name.
    pub session: String,
}

fn put_texts(bytes: &mut Vec<u8>, texts: [&str; 2]) {
    for text in texts {
        let text = &text[..text.floor_char_boundary(usize::from(u8::MAX))];
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    }
}

fn encode_texts(what: u8, texts: [&str; 2]) -> Vec<u8> {
    let mut bytes = vec![what];
    put_texts(&mut bytes, texts);
    bytes
}

/// A user's name, and another text; with what follows them.
fn take_texts(bytes: &[u8]) -> Option<(String, String, &[u8])> {
    let text = |bytes: &[u8]| -> Option<(String, usize)> {
        let (&length, rest) = bytes.split_first()?;
        let text = std::str::from_utf8(rest.get(..usize::from(length))?).ok()?;
        Some((text.to_owned(), 1 + text.len()))
    };
    let (user, end) = text(bytes)?;
    let (other, length) = text(&bytes[end..])?;
    let is_named = !user.is_empty() && !user.contains(char::is_control);
    is_named.then(|| (user, other, &bytes[end + length..]))
}

/// The same, and nothing follows.
fn decode_texts(bytes: &[u8]) -> Option<(String, String)> {
    let (user, other, rest) = take_texts(bytes)?;
    rest.is_empty().then_some((user, other))
}

impl Named {
    fn encode(&self, what: u8) -> Vec<u8> {
        encode_texts(what, [&self.user, &self.session])
    }

    fn decode(bytes: &[u8]) -> Option<Named> {
        let (user, session) = decode_texts(bytes)?;
        is_session_name(&session).then_some(Named { user, session })
    }
}

/// A viewer that is connected with a desktop through the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminViewer {
    /// Whose desktop, and which.
    pub of: Named,
    /// The viewer's address.
    pub from: IpAddr,
    /// How long it has been connected.
    pub seconds: u64,
    /// It is a guest's.
    pub is_guest: bool,
}

impl AdminViewer {
    /// As many as an answer may have.
    pub fn encode_all(viewers: &[AdminViewer]) -> Vec<u8> {
        let viewers = &viewers[..viewers.len().min(VIEWERS_TOLD_MAX)];
        let mut bytes = (viewers.len() as u32).to_le_bytes().to_vec();
        for viewer in viewers {
            put_texts(&mut bytes, [&viewer.of.user, &viewer.of.session]);
            let from = match viewer.from.to_canonical() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            bytes.extend(from.octets());
            bytes.extend(viewer.seconds.to_le_bytes());
            bytes.push(viewer.is_guest.into());
        }
        bytes
    }

    /// Reads what [`AdminViewer::encode_all`] writes.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<AdminViewer>> {
        let (count, mut rest) = bytes.split_first_chunk()?;
        let count = u32::from_le_bytes(*count) as usize;
        if count > VIEWERS_TOLD_MAX {
            return None;
        }
        let mut viewers = Vec::new();
        for _ in 0..count {
            let (user, session, after) = take_texts(rest)?;
            if !is_session_name(&session) {
                return None;
            }
            let (from, after) = after.split_first_chunk::<16>()?;
            let (seconds, after) = after.split_first_chunk()?;
            let (&guest @ 0..=1, after) = after.split_first()? else { return None };
            rest = after;
            viewers.push(AdminViewer {
                of: Named { user, session },
                from: IpAddr::from(Ipv6Addr::from(*from)).to_canonical(),
                seconds: u64::from_le_bytes(*seconds),
                is_guest: guest == 1,
            });
        }
        rest.is_empty().then_some(viewers)
    }
}

impl AdminRequest {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            AdminRequest::Status => vec![0],
            AdminRequest::Drain => vec![1],
            AdminRequest::Resume => vec![2],
            AdminRequest::Ended(named) => named.encode(3),
            AdminRequest::Told(named) => named.encode(4),
            AdminRequest::Forget { user, device } => {
                let device = device.map_or_else(String::new, |device| device.to_string());
                encode_texts(5, [user, &device])
            }
            AdminRequest::Viewers => vec![6],
        }
    }

    /// Reads a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<AdminRequest> {
        match bytes {
            [0] => Some(AdminRequest::Status),
            [1] => Some(AdminRequest::Drain),
            [2] => Some(AdminRequest::Resume),
            [3, named @ ..] => Named::decode(named).map(AdminRequest::Ended),
            [4, named @ ..] => Named::decode(named).map(AdminRequest::Told),
            [5, texts @ ..] => {
                let (user, device) = decode_texts(texts)?;
                let device = match device.as_str() {
                    "" => None,
                    id => Some(id.parse().ok()?),
                };
                Some(AdminRequest::Forget { user, device })
            }
            [6] => Some(AdminRequest::Viewers),
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
pub fn ask(state: &Path, request: &AdminRequest) -> Result<AdminStatus, BrokerError> {
    answer(state, request, 0, |status, _| Some(status))
}

/// Asks it who is connected through it.
pub fn ask_viewers(state: &Path) -> Result<Vec<AdminViewer>, BrokerError> {
    answer(state, &AdminRequest::Viewers, VIEWERS_BYTES_MAX, |_, bytes| {
        AdminViewer::decode_all(bytes)
    })
}

/// An answer, with at most `more` bytes after the status.
fn answer<T>(
    state: &Path,
    request: &AdminRequest,
    more: u64,
    read: impl FnOnce(AdminStatus, &[u8]) -> Option<T>,
) -> Result<T, BrokerError> {
    let path = state.join(SOCKET);
    let asked = || -> io::Result<Option<T>> {
        let mut stream = std::os::unix::net::UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(&request.encode())?;
        let mut status = [0; ANSWER_BYTES];
        stream.read_exact(&mut status)?;
        let mut rest = Vec::new();
        stream.take(more).read_to_end(&mut rest)?;
        Ok(AdminStatus::decode(&status).and_then(|status| read(status, &rest)))
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

    /// Answers, one after the other, without end. `answer` also gets the user ID with which the
    /// administrator logged in, where the kernel knows it (pam_loginuid).
    pub(crate) async fn serve(&self, answer: impl AsyncFn(AdminRequest, Option<u32>) -> Vec<u8>) {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Some(peer) = stream.peer_cred().ok().filter(|peer| peer.uid() == 0) else {
                continue;
            };
            let read = timeout(REQUEST_TIMEOUT, read_request(&mut stream)).await;
            if let Ok(Ok(Some(request))) = read {
                let by = peer.pid().and_then(login_uid);
                let bytes = answer(request, by).await;
                let _ = timeout(REQUEST_TIMEOUT, stream.write_all(&bytes)).await;
            }
        }
    }
}

async fn read_request(stream: &mut UnixStream) -> io::Result<Option<AdminRequest>> {
    let mut bytes = vec![stream.read_u8().await?];
    if [3, 4, 5].contains(&bytes[0]) {
        for _ in 0..2 {
            let length = stream.read_u8().await?;
            bytes.push(length);
            let start = bytes.len();
            bytes.resize(start + usize::from(length), 0);
            stream.read_exact(&mut bytes[start..]).await?;
        }
    }
    Ok(AdminRequest::decode(&bytes))
}

/// Of a process that has asked; it is still there, as it waits for the answer.
fn login_uid(process: i32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/loginuid")).ok()?;
    // The largest number means that nobody has logged in.
    text.trim().parse().ok().filter(|&uid| uid != u32::MAX)
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
        let named =
            |user: &str, session: &str| Named { user: user.into(), session: session.into() };
        for request in [
            AdminRequest::Status,
            AdminRequest::Drain,
            AdminRequest::Resume,
            AdminRequest::Ended(named("anna", "xfce")),
            AdminRequest::Told(named("anna", "xfce")),
            AdminRequest::Forget { user: "anna".into(), device: None },
            AdminRequest::Forget { user: "anna".into(), device: Some(DeviceId([7; 16])) },
            AdminRequest::Viewers,
        ] {
            let bytes = request.encode();
            assert!((0..bytes.len()).all(|end| AdminRequest::decode(&bytes[..end]).is_none()));
            assert!(AdminRequest::decode(&[&bytes[..], &[0]].concat()).is_none());
            assert_eq!(AdminRequest::decode(&bytes), Some(request));
        }
        for wrong in [named("", "xfce"), named("a\nb", "xfce"), named("anna", "../x")] {
            assert!(AdminRequest::decode(&AdminRequest::Told(wrong.clone()).encode()).is_none());
        }
        let unknown = encode_texts(5, ["anna", "no ID"]);
        assert_eq!(AdminRequest::decode(&unknown), None);
        assert!([&[][..], &[3], &[0, 0]].iter().all(|bytes| AdminRequest::decode(bytes).is_none()));
        let status = AdminStatus { is_draining: true, logins: 258, viewers: u32::MAX };
        let bytes = status.encode();
        assert_eq!(bytes, [1, 2, 1, 0, 0, 255, 255, 255, 255]);
        assert_eq!(AdminStatus::decode(&bytes), Some(status));
        assert_eq!(AdminStatus::decode(&bytes[..8]), None);
        assert_eq!(AdminStatus::decode(&[2, 0, 0, 0, 0, 0, 0, 0, 0]), None);

        let viewer = |from: &str, is_guest| AdminViewer {
            of: named("anna", "xfce"),
            from: from.parse().unwrap(),
            seconds: 61,
            is_guest,
        };
        let viewers = [viewer("192.0.2.7", false), viewer("2001:db8::7", true)];
        let bytes = AdminViewer::encode_all(&viewers);
        assert_eq!(bytes[..15], *b"\x02\0\0\0\x04anna\x04xfce\0");
        assert_eq!(AdminViewer::decode_all(&bytes), Some(viewers.to_vec()));
        assert!((0..bytes.len()).all(|end| AdminViewer::decode_all(&bytes[..end]).is_none()));
        assert!(AdminViewer::decode_all(&[&bytes[..], &[0]].concat()).is_none());
        let many = vec![viewer("192.0.2.7", false); VIEWERS_TOLD_MAX + 1];
        let mut bytes = AdminViewer::encode_all(&many);
        assert_eq!(AdminViewer::decode_all(&bytes).unwrap().len(), VIEWERS_TOLD_MAX);
        bytes[..4].copy_from_slice(&(VIEWERS_TOLD_MAX as u32 + 1).to_le_bytes());
        assert_eq!(AdminViewer::decode_all(&bytes), None);
        let longest = named(&"u".repeat(300), &"s".repeat(64));
        let longest = vec![AdminViewer { of: longest, ..viewer("::1", false) }; VIEWERS_TOLD_MAX];
        assert!(AdminViewer::encode_all(&longest).len() as u64 <= VIEWERS_BYTES_MAX);
    }
}
