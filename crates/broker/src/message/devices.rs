//! The messages about remembered devices, between front and helper, and between helper and login
//! process. Beside the path: a part of message.rs, whose fields and limits these have. Knows bytes
//! and limits; never which device is remembered.
//!
//! ```text
//! to the helper:    10 | 1 SIGN_IN attempt u64 | source 16 bytes | device 16 bytes | place text
//!                   10 | 2 SIGNED  attempt u64 | signature 64 bytes
//!                   10 | 3 REMEMBER attempt u64 | cookie 32 bytes | public key 65 bytes
//!                      | name text
//!                   10 | 4 LIST    attempt u64 | cookie 32 bytes
//!                   10 | 5 FORGET  attempt u64 | cookie 32 bytes | device 16 bytes
//! to the login process: 2 as above, and first
//!                   10 | 6 VERIFY  attempt u64 | source 16 bytes | device 16 bytes | place text
//!                      | known u8 | if known: user text | user ID u32 | public key 65 bytes
//!                      | has password u8 | if it has: hash of it 32 bytes
//! from the helper:   9 | 1 CHALLENGE attempt u64 | challenge 32 bytes
//!                    9 | 2 REMEMBERED attempt u64 | device 16 bytes | seconds u64
//!                    9 | 3 DEVICES attempt u64 | count u8 | count × (device 16 bytes | name text
//!                      | made u64 | used u64 | until u64 | own u8), times in seconds since 1970
//!                    9 | 4 FORGOTTEN attempt u64
//!                    9 | 5 ENDED  hash of a login's cookie 32 bytes
//! from the login process: 1 as above, and
//!                    9 | 6 CHANGED attempt u64
//! ```

use std::net::Ipv6Addr;

use thinc_protocol::wire::is_deceptive;
use thinc_transport::device::{
    Challenge, DEVICE_NAME_BYTES_MAX, DeviceId, PLACE_BYTES_MAX, PublicKey, Signature,
};

use super::{Fields, MessageError, Secret, USER_BYTES_MAX, cut, put_text};

/// Devices of one account.
pub const DEVICES_PER_USER_MAX: usize = 16;

/// To the helper, and to a login process.
#[derive(Clone, PartialEq, Eq)]
pub enum DeviceRequest {
    /// A device at `source` wants to sign its person in.
    SignIn {
        /// Names this attempt, as with a login.
        attempt: u64,
        /// Its address; IPv4 is mapped.
        source: Ipv6Addr,
        /// Which.
        device: DeviceId,
        /// The server as the device knows it.
        place: String,
    },
    /// The device has signed the challenge.
    Signed {
        /// As above.
        attempt: u64,
        /// With its key.
        signature: Signature,
    },
    /// A person who has just logged in wants this device to be remembered.
    Remember {
        /// Names this request in its reply.
        attempt: u64,
        /// Of the login.
        cookie: Secret,
        /// Of the device.
        key: PublicKey,
        /// For the person.
        name: String,
    },
    /// A person wants to see their devices.
    List {
        /// As above.
        attempt: u64,
        /// Of the login.
        cookie: Secret,
    },
    /// A person wants a device of theirs to be forgotten.
    Forget {
        /// As above.
        attempt: u64,
        /// Of the login.
        cookie: Secret,
        /// Which.
        device: DeviceId,
    },
    /// To a login process: whom a device may sign in, once it has signed.
    Verify(Verify),
}

/// What a login process checks.
#[derive(Clone, PartialEq, Eq)]
pub struct Verify {
    /// Of the attempt.
    pub attempt: u64,
    /// Where the device is.
    pub source: Ipv6Addr,
    /// Which it is.
    pub device: DeviceId,
    /// The server as the device knows it.
    pub place: String,
    /// `None`: nobody knows the device, and it learns that as late as any other refusal.
    pub known: Option<Known>,
}

/// Whom a device signs in.
#[derive(Clone, PartialEq, Eq)]
pub struct Known {
    /// The account.
    pub user: String,
    /// Its number when the device was remembered.
    pub uid: u32,
    /// The device's.
    pub key: PublicKey,
    /// A hash of what shadow(5) had when the device was remembered.
    pub password: Option<Secret>,
}

/// For logs: neither key nor hash.
impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Known({:?}, {})", self.user, self.uid)
    }
}

/// From the helper, and from a login process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceReply {
    /// What the device has to sign.
    Challenge {
        /// Of the request.
        attempt: u64,
        /// For one signature.
        challenge: Challenge,
    },
    /// The device is remembered, on the disk too.
    Remembered {
        /// Of the request.
        attempt: u64,
        /// Names it.
        device: DeviceId,
        /// For how long.
        seconds: u64,
    },
    /// The person's devices.
    Devices {
        /// Of the request.
        attempt: u64,
        /// The last used first.
        devices: Vec<ListedDevice>,
    },
    /// The device is forgotten, on the disk too.
    Forgotten {
        /// Of the request.
        attempt: u64,
    },
    /// For the front: a login that a forgotten device has opened has ended.
    Ended {
        /// Of its cookie.
        cookie_hash: Secret,
    },
    /// From a login process: the account is not the one any more that the device was remembered
    /// for.
    Changed {
        /// Of the request.
        attempt: u64,
    },
}

/// A device, for its person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedDevice {
    /// Names it.
    pub device: DeviceId,
    /// For the person.
    pub name: String,
    /// Seconds since 1970.
    pub made_s: u64,
    /// When it last signed in, or was remembered.
    pub used_s: u64,
    /// When it is forgotten.
    pub until_s: u64,
    /// It has opened the login that asks.
    pub is_own: bool,
}

/// A name for a device, as people may choose it: it is shown on pages and terminals.
pub fn is_device_name(name: &str) -> bool {
    (1..=DEVICE_NAME_BYTES_MAX).contains(&name.len()) && !name.contains(is_deceptive)
}

/// A server as a device knows it, which is a line of what the device signs.
pub fn is_place(place: &str) -> bool {
    (1..=PLACE_BYTES_MAX).contains(&place.len())
        && place.bytes().all(|byte| byte.is_ascii_graphic())
}

impl Fields<'_> {
    fn device(&mut self) -> Result<DeviceId, MessageError> {
        self.array().map(DeviceId)
    }

    fn device_name(&mut self) -> Result<String, MessageError> {
        let name = self.text("a device's name", DEVICE_NAME_BYTES_MAX)?;
        if is_device_name(&name) { Ok(name) } else { Err(MessageError::Text("a device's name")) }
    }

    fn place(&mut self) -> Result<String, MessageError> {
        let place = self.text("a place", PLACE_BYTES_MAX)?;
        if is_place(&place) { Ok(place) } else { Err(MessageError::Text("a place")) }
    }

    fn known(&mut self) -> Result<Option<Known>, MessageError> {
        if !self.is()? {
            return Ok(None);
        }
        Ok(Some(Known {
            user: self.user()?,
            uid: self.array().map(u32::from_le_bytes)?,
            key: self.array()?,
            password: if self.is()? { Some(self.array()?) } else { None },
        }))
    }

    pub(super) fn device_request(&mut self) -> Result<DeviceRequest, MessageError> {
        let kind = self.u8()?;
        let attempt = self.u64()?;
        Ok(match kind {
            1 => DeviceRequest::SignIn {
                attempt,
                source: Ipv6Addr::from(self.array::<16>()?),
                device: self.device()?,
                place: self.place()?,
            },
            2 => DeviceRequest::Signed { attempt, signature: self.array()? },
            3 => DeviceRequest::Remember {
                attempt,
                cookie: self.array()?,
                key: self.array()?,
                name: self.device_name()?,
            },
            4 => DeviceRequest::List { attempt, cookie: self.array()? },
            5 => DeviceRequest::Forget { attempt, cookie: self.array()?, device: self.device()? },
            6 => DeviceRequest::Verify(Verify {
                attempt,
                source: Ipv6Addr::from(self.array::<16>()?),
                device: self.device()?,
                place: self.place()?,
                known: self.known()?,
            }),
            other => return Err(MessageError::Unknown("a request about a device", other)),
        })
    }

    pub(super) fn device_reply(&mut self) -> Result<DeviceReply, MessageError> {
        Ok(match self.u8()? {
            1 => DeviceReply::Challenge { attempt: self.u64()?, challenge: self.array()? },
            2 => DeviceReply::Remembered {
                attempt: self.u64()?,
                device: self.device()?,
                seconds: self.u64()?,
            },
            3 => {
                let attempt = self.u64()?;
                let count = usize::from(self.u8()?);
                if count > DEVICES_PER_USER_MAX {
                    return Err(MessageError::Limit("a list", count, DEVICES_PER_USER_MAX));
                }
                let listed = |_| {
                    Ok(ListedDevice {
                        device: self.device()?,
                        name: self.device_name()?,
                        made_s: self.u64()?,
                        used_s: self.u64()?,
                        until_s: self.u64()?,
                        is_own: self.is()?,
                    })
                };
                let devices = (0..count).map(listed).collect::<Result<_, _>>()?;
                DeviceReply::Devices { attempt, devices }
            }
            4 => DeviceReply::Forgotten { attempt: self.u64()? },
            5 => DeviceReply::Ended { cookie_hash: self.array()? },
            6 => DeviceReply::Changed { attempt: self.u64()? },
            other => return Err(MessageError::Unknown("a reply about a device", other)),
        })
    }
}

impl DeviceRequest {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let mut begin = |kind: u8, attempt: u64| {
            out.push(kind);
            out.extend(attempt.to_le_bytes());
        };
        match self {
            DeviceRequest::SignIn { attempt, source, device, place } => {
                begin(1, *attempt);
                out.extend(source.octets());
                out.extend(device.0);
                put_text(out, cut(place, PLACE_BYTES_MAX).as_bytes());
            }
            DeviceRequest::Signed { attempt, signature } => {
                begin(2, *attempt);
                out.extend(signature);
            }
            DeviceRequest::Remember { attempt, cookie, key, name } => {
                begin(3, *attempt);
                out.extend(cookie);
                out.extend(key);
                put_text(out, cut(name, DEVICE_NAME_BYTES_MAX).as_bytes());
            }
            DeviceRequest::List { attempt, cookie } => {
                begin(4, *attempt);
                out.extend(cookie);
            }
            DeviceRequest::Forget { attempt, cookie, device } => {
                begin(5, *attempt);
                out.extend(cookie);
                out.extend(device.0);
            }
            DeviceRequest::Verify(Verify { attempt, source, device, place, known }) => {
                begin(6, *attempt);
                out.extend(source.octets());
                out.extend(device.0);
                put_text(out, cut(place, PLACE_BYTES_MAX).as_bytes());
                out.push(known.is_some().into());
                if let Some(Known { user, uid, key, password }) = known {
                    put_text(out, cut(user, USER_BYTES_MAX).as_bytes());
                    out.extend(uid.to_le_bytes());
                    out.extend(key);
                    out.push(password.is_some().into());
                    out.extend(password.iter().flatten());
                }
            }
        }
    }
}

impl DeviceReply {
    /// The request that it answers, if there is one.
    pub fn attempt(&self) -> Option<u64> {
        match self {
            DeviceReply::Challenge { attempt, .. }
            | DeviceReply::Remembered { attempt, .. }
            | DeviceReply::Devices { attempt, .. }
            | DeviceReply::Forgotten { attempt }
            | DeviceReply::Changed { attempt } => Some(*attempt),
            DeviceReply::Ended { .. } => None,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            DeviceReply::Challenge { attempt, challenge } => {
                out.push(1);
                out.extend(attempt.to_le_bytes());
                out.extend(challenge);
            }
            DeviceReply::Remembered { attempt, device, seconds } => {
                out.push(2);
                out.extend(attempt.to_le_bytes());
                out.extend(device.0);
                out.extend(seconds.to_le_bytes());
            }
            DeviceReply::Devices { attempt, devices } => {
                out.push(3);
                out.extend(attempt.to_le_bytes());
                let devices = &devices[..devices.len().min(DEVICES_PER_USER_MAX)];
                out.push(devices.len() as u8);
                for ListedDevice { device, name, made_s, used_s, until_s, is_own } in devices {
                    out.extend(device.0);
                    put_text(out, cut(name, DEVICE_NAME_BYTES_MAX).as_bytes());
                    out.extend(
                        [made_s, used_s, until_s].iter().flat_map(|time| time.to_le_bytes()),
                    );
                    out.push((*is_own).into());
                }
            }
            DeviceReply::Forgotten { attempt } => {
                out.push(4);
                out.extend(attempt.to_le_bytes());
            }
            DeviceReply::Ended { cookie_hash } => {
                out.push(5);
                out.extend(cookie_hash);
            }
            DeviceReply::Changed { attempt } => {
                out.push(6);
                out.extend(attempt.to_le_bytes());
            }
        }
    }
}

/// For logs: never shows a secret.
impl std::fmt::Debug for DeviceRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceRequest::SignIn { attempt, source, device, place } => {
                write!(f, "SignIn({attempt}, {source}, {device}, {place:?})")
            }
            DeviceRequest::Signed { attempt, .. } => write!(f, "Signed({attempt})"),
            DeviceRequest::Remember { attempt, name, .. } => {
                write!(f, "Remember({attempt}, {name:?})")
            }
            DeviceRequest::List { attempt, .. } => write!(f, "List({attempt})"),
            DeviceRequest::Forget { attempt, device, .. } => {
                write!(f, "Forget({attempt}, {device})")
            }
            DeviceRequest::Verify(Verify { attempt, source, device, place, known }) => {
                let user = known.as_ref().map(|known| &known.user);
                write!(f, "Verify({attempt}, {source}, {device}, {place:?}, {user:?})")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MESSAGE_BYTES_MAX, Reply, Request};
    use super::*;

    fn requests() -> Vec<DeviceRequest> {
        let (source, device, place) = (Ipv6Addr::LOCALHOST, DeviceId([3; 16]), "https://a:1");
        let known =
            Known { user: "anna".into(), uid: 1000, key: [4; 65], password: Some([97; 32]) };
        let verify = |known| {
            DeviceRequest::Verify(Verify { attempt: 6, source, device, place: place.into(), known })
        };
        vec![
            DeviceRequest::SignIn { attempt: 1, source, device, place: place.into() },
            DeviceRequest::Signed { attempt: 2, signature: [97; 64] },
            DeviceRequest::Remember {
                attempt: 3,
                cookie: [97; 32],
                key: [4; 65],
                name: "Firefox, Linux".into(),
            },
            DeviceRequest::List { attempt: 4, cookie: [97; 32] },
            DeviceRequest::Forget { attempt: 5, cookie: [97; 32], device },
            verify(None),
            verify(Some(Known { password: None, ..known.clone() })),
            verify(Some(known)),
        ]
    }

    fn replies() -> Vec<DeviceReply> {
        let device = DeviceId([3; 16]);
        let listed = ListedDevice {
            device,
            name: "é".repeat(32),
            made_s: 1,
            used_s: 2,
            until_s: u64::MAX,
            is_own: true,
        };
        vec![
            DeviceReply::Challenge { attempt: 1, challenge: [1; 32] },
            DeviceReply::Remembered { attempt: 2, device, seconds: 3 },
            DeviceReply::Devices { attempt: 3, devices: vec![listed; DEVICES_PER_USER_MAX] },
            DeviceReply::Devices { attempt: 3, devices: Vec::new() },
            DeviceReply::Forgotten { attempt: 4 },
            DeviceReply::Ended { cookie_hash: [5; 32] },
            DeviceReply::Changed { attempt: 6 },
        ]
    }

    #[test]
    fn each_message_survives_and_no_part_or_extension_of_it_is_one() {
        for request in requests().into_iter().map(Request::Device) {
            let packet = request.encode();
            assert_eq!(Request::decode(&packet).unwrap(), request);
            assert!((0..packet.len()).all(|end| Request::decode(&packet[..end]).is_err()));
            assert!(Request::decode(&[packet, vec![0]].concat()).is_err());
        }
        for reply in replies().into_iter().map(Reply::Device) {
            let packet = reply.encode();
            assert!(packet.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(Reply::decode(&packet).unwrap(), reply);
            assert!((0..packet.len()).all(|end| Reply::decode(&packet[..end]).is_err()));
            assert!(Reply::decode(&[packet, vec![0]].concat()).is_err());
        }
    }

    #[test]
    fn names_and_places_have_limits_and_logs_show_no_secret() {
        let remember = |name: String| {
            let (attempt, cookie, key) = (1, [0; 32], [0; 65]);
            Request::Device(DeviceRequest::Remember { attempt, cookie, key, name }).encode()
        };
        assert!(Request::decode(&remember("x".repeat(DEVICE_NAME_BYTES_MAX))).is_ok());
        for bad in ["", "a\nb", "a\u{202e}b"] {
            assert!(Request::decode(&remember(bad.to_owned())).is_err());
        }
        let sign_in = |place: &str| {
            let (attempt, source, device) = (1, 0.into(), DeviceId([0; 16]));
            let place = place.to_owned();
            Request::Device(DeviceRequest::SignIn { attempt, source, device, place }).encode()
        };
        assert!(Request::decode(&sign_in(&"x".repeat(PLACE_BYTES_MAX))).is_ok());
        for bad in ["", "a\nb", "a b", "ä"] {
            assert!(Request::decode(&sign_in(bad)).is_err());
        }
        assert!(!format!("{:?}", requests()).contains("97"));
    }
}
