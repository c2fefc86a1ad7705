//! Path 0/13 on a native connection to a broker: beside auth.rs, what a device sends that a broker
//! remembers, and to be remembered. Knows bytes and their limits; never whether a signature is
//! right.

use crate::framing::{MessageFrame, put_message_parts};
use crate::limits::{CREDENTIAL_BYTES_MAX, NAME_BYTES_MAX};
use crate::wire::{Reader, WireError, put_text, put_varint};

/// Kind of what a viewer sends before it is authenticated, as in auth.rs.
const KIND: u8 = 0x01;
/// Kind of a challenge.
const KIND_CHALLENGE: u8 = 0x7e;
/// Forms of `KIND`; auth.rs has those below.
const FORM_REMEMBER: u8 = 5;
const FORM_DEVICE: u8 = 6;
const FORM_SIGNATURE: u8 = 7;

/// Bytes of a device's public key: a point of P-256, uncompressed (SEC 1, section 2.3.3).
pub const DEVICE_KEY_BYTES: usize = 65;
/// Bytes of a device's ID: the first half of its public key's SHA-256.
pub const DEVICE_ID_BYTES: usize = 16;
/// Bytes of a challenge, which is random.
pub const CHALLENGE_BYTES: usize = 32;
/// Bytes of a signature: both its numbers (IEEE P1363).
pub const SIGNATURE_BYTES: usize = 64;

/// From a viewer.
///
/// ```text
/// 0x01 | length | form u8 (5 remember) | length varint | 1 to 128 bytes | key 65 bytes | name text
/// 0x01 | length | form u8 (6 device) | ID 16 bytes | 0 to 128 bytes: earlier session credential
/// 0x01 | length | form u8 (7 signature) | 64 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DeviceAuth<'a> {
    /// First message: the person of this login wants the device to be remembered. The answer is an
    /// `AuthOk` with the device's ID.
    Remember {
        /// Of the login.
        session_credential: &'a [u8],
        /// The public half.
        key: &'a [u8; DEVICE_KEY_BYTES],
        /// For the person, at most 64 bytes.
        name: &'a str,
    },
    /// First message: this device signs its person in. A challenge follows.
    Device {
        /// Which.
        id: &'a [u8; DEVICE_ID_BYTES],
        /// Names the desktop that was open in an earlier login, and opens nothing; or empty.
        earlier: &'a [u8],
    },
    /// The answer to the challenge.
    Signature(&'a [u8; SIGNATURE_BYTES]),
}

/// What a device has to sign.
///
/// ```text
/// 0x7e | length | 32 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthChallenge<'a>(pub &'a [u8; CHALLENGE_BYTES]);

/// Keeps secrets out of logs.
impl std::fmt::Debug for DeviceAuth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DeviceAuth::Remember { .. } => "Remember",
            DeviceAuth::Device { .. } => "Device",
            DeviceAuth::Signature(_) => "Signature",
        })
    }
}

fn array<'a, const N: usize>(
    reader: &mut Reader<'a>,
    what: &'static str,
) -> Result<&'a [u8; N], WireError> {
    reader.take(what, N)?.try_into().map_err(|_| WireError::Truncated(what))
}

fn expect_kind(kind: u8, expected: u8) -> Result<(), WireError> {
    if kind == expected {
        return Ok(());
    }
    Err(WireError::Unknown { what: "a device's message of kind", value: u64::from(kind) })
}

impl<'a> DeviceAuth<'a> {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        match self {
            DeviceAuth::Remember { session_credential, key, name } => {
                body.push(FORM_REMEMBER);
                put_varint(&mut body, session_credential.len() as u64);
                body.extend_from_slice(session_credential);
                body.extend_from_slice(*key);
                put_text(&mut body, name, NAME_BYTES_MAX);
            }
            DeviceAuth::Device { id, earlier } => {
                body.push(FORM_DEVICE);
                body.extend_from_slice(*id);
                body.extend_from_slice(earlier);
            }
            DeviceAuth::Signature(signature) => {
                body.push(FORM_SIGNATURE);
                body.extend_from_slice(*signature);
            }
        }
        put_message_parts(out, KIND, &body, &[]);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<DeviceAuth<'a>, WireError> {
        expect_kind(frame.kind, KIND)?;
        let mut reader = Reader::new(frame.body);
        let message = match reader.u8("a form of a device")? {
            FORM_REMEMBER => {
                let max = CREDENTIAL_BYTES_MAX as u64;
                let length = reader.at_most("a credential's length", max)?;
                if length == 0 {
                    return Err(WireError::Truncated("a credential"));
                }
                DeviceAuth::Remember {
                    session_credential: reader.take("a credential", length as usize)?,
                    key: array(&mut reader, "a device's key")?,
                    name: reader.text("a device's name", NAME_BYTES_MAX)?,
                }
            }
            FORM_DEVICE => {
                let id = array(&mut reader, "a device's ID")?;
                let earlier = reader.rest();
                if earlier.len() > CREDENTIAL_BYTES_MAX {
                    let (value, limit) = (earlier.len() as u64, CREDENTIAL_BYTES_MAX as u64);
                    return Err(WireError::OverLimit { what: "a credential", value, limit });
                }
                return Ok(DeviceAuth::Device { id, earlier });
            }
            FORM_SIGNATURE => DeviceAuth::Signature(array(&mut reader, "a signature")?),
            other => {
                let value = u64::from(other);
                return Err(WireError::Unknown { what: "a form of a device", value });
            }
        };
        reader.end("a device's message")?;
        Ok(message)
    }
}

impl<'a> AuthChallenge<'a> {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_message_parts(out, KIND_CHALLENGE, self.0, &[]);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<AuthChallenge<'a>, WireError> {
        expect_kind(frame.kind, KIND_CHALLENGE)?;
        let mut reader = Reader::new(frame.body);
        let challenge = array(&mut reader, "a challenge")?;
        reader.end("a challenge")?;
        Ok(AuthChallenge(challenge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Deframer;

    #[test]
    fn golden_bytes() {
        let remember =
            DeviceAuth::Remember { session_credential: b"key!", key: &[4; 65], name: "laptop" };
        let long = [&[1, 78, 5, 4, b'k', b'e', b'y', b'!'][..], &[4; 65], b"\x06laptop"].concat();
        for (message, golden) in [
            (remember, long),
            (DeviceAuth::Signature(&[8; 64]), [&[1, 65, 7][..], &[8; 64]].concat()),
        ] {
            let mut out = Vec::new();
            message.encode(&mut out);
            assert_eq!(out, golden);
            let mut deframer = Deframer::new(4096);
            deframer.push(&golden);
            assert_eq!(DeviceAuth::decode(&deframer.next().unwrap().unwrap()), Ok(message));
            let body = &golden[2..];
            for wrong in [&body[..body.len() - 1], &[body, &[0]].concat()] {
                assert!(DeviceAuth::decode(&MessageFrame { kind: 1, body: wrong }).is_err());
            }
            assert!(DeviceAuth::decode(&MessageFrame { kind: 2, body }).is_err());
        }
        for earlier in [&b""[..], b"key!"] {
            let mut out = Vec::new();
            let message = DeviceAuth::Device { id: &[9; 16], earlier };
            message.encode(&mut out);
            let length = 17 + earlier.len() as u8;
            assert_eq!(out, [&[1, length, 6][..], &[9; 16], earlier].concat());
            let frame = MessageFrame { kind: 1, body: &out[2..] };
            assert_eq!(DeviceAuth::decode(&frame), Ok(message));
        }
        for length in [0, 15, 16 + 129] {
            let body = [&[6][..], &vec![9; length]].concat();
            assert!(DeviceAuth::decode(&MessageFrame { kind: 1, body: &body }).is_err());
        }
        let mut out = Vec::new();
        AuthChallenge(&[7; 32]).encode(&mut out);
        assert_eq!(out, [&[0x7e, 32][..], &[7; 32]].concat());
        for wrong in [&out[2..33], &[&out[2..], &[0]].concat()] {
            assert!(AuthChallenge::decode(&MessageFrame { kind: 0x7e, body: wrong }).is_err());
        }
        assert!(AuthChallenge::decode(&MessageFrame { kind: 0x7e, body: &out[2..] }).is_ok());
    }

    #[test]
    fn other_forms_and_names_that_deceive_are_refused() {
        for body in [&[0, 1][..], &[4, 1], &[8; 65], &[]] {
            assert!(DeviceAuth::decode(&MessageFrame { kind: 1, body }).is_err(), "{body:?}");
        }
        for (credential, name) in [(&[][..], "a"), (&[1; 129], "a")] {
            let mut body = vec![5];
            put_varint(&mut body, credential.len() as u64);
            body.extend(credential.iter().chain(&[4; 65]));
            body.extend([&[name.len() as u8], name.as_bytes()].concat());
            assert!(DeviceAuth::decode(&MessageFrame { kind: 1, body: &body }).is_err());
        }
        let body = [&[5, 1, 7][..], &[4; 65], &[1, 27]].concat();
        assert!(DeviceAuth::decode(&MessageFrame { kind: 1, body: &body }).is_err());
    }
}
