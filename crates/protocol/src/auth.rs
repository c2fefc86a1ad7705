//! Path 0/13 on a native connection: before the first ViewerMessage, from thinc-view to transport
//! and back.
//! The viewer presents a token or a session credential and receives a session credential; a refusal
//! is a `Close` with `Unauthorized`. A browser authenticates over HTTP instead and starts with its
//! hello. Knows bytes and their limits; never which tokens are valid.

use crate::framing::{MessageFrame, put_message_parts};
use crate::limits::CREDENTIAL_BYTES_MAX;
use crate::wire::{Reader, WireError};

/// Kind of both messages.
const KIND: u8 = 0x01;

/// First message of a native connection.
///
/// ```text
/// 0x01 | length | form u8 (0 token, 1 session credential) | 1 to 128 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Auth<'a> {
    /// The one-time token of a link.
    Token(&'a [u8]),
    /// The key from an earlier [`AuthOk`]: the viewer reconnects.
    SessionCredential(&'a [u8]),
}

/// The session's answer to an accepted [`Auth`].
///
/// ```text
/// 0x01 | length | 1 to 128 bytes of session credential
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthOk<'a> {
    /// Lets the viewer reconnect without a new link.
    pub session_credential: &'a [u8],
}

/// Keeps secrets out of logs: prints only the form and the length.
impl std::fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::Token(bytes) => write!(f, "Token({} bytes)", bytes.len()),
            Auth::SessionCredential(bytes) => write!(f, "SessionCredential({} bytes)", bytes.len()),
        }
    }
}

impl std::fmt::Debug for AuthOk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthOk({} bytes)", self.session_credential.len())
    }
}

impl<'a> Auth<'a> {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (form, bytes) = match self {
            Auth::Token(bytes) => (0, bytes),
            Auth::SessionCredential(bytes) => (1, bytes),
        };
        put_message_parts(out, KIND, &[form], bytes);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<Auth<'a>, WireError> {
        expect_kind(frame.kind)?;
        let mut reader = Reader::new(frame.body);
        let form = reader.u8("a credential's form")?;
        let bytes = credential(reader.rest())?;
        match form {
            0 => Ok(Auth::Token(bytes)),
            1 => Ok(Auth::SessionCredential(bytes)),
            other => {
                Err(WireError::Unknown { what: "a credential's form", value: u64::from(other) })
            }
        }
    }
}

impl<'a> AuthOk<'a> {
    /// Appends the message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_message_parts(out, KIND, self.session_credential, &[]);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<AuthOk<'a>, WireError> {
        expect_kind(frame.kind)?;
        Ok(AuthOk { session_credential: credential(frame.body)? })
    }
}

fn expect_kind(kind: u8) -> Result<(), WireError> {
    if kind == KIND {
        return Ok(());
    }
    Err(WireError::Unknown { what: "an unauthenticated message of kind", value: u64::from(kind) })
}

fn credential(bytes: &[u8]) -> Result<&[u8], WireError> {
    if bytes.is_empty() {
        return Err(WireError::Truncated("a credential"));
    }
    if bytes.len() > CREDENTIAL_BYTES_MAX {
        let (value, limit) = (bytes.len() as u64, CREDENTIAL_BYTES_MAX as u64);
        return Err(WireError::OverLimit { what: "a credential's length", value, limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Deframer;

    #[test]
    fn golden_bytes() {
        for (auth, golden) in [
            (Auth::Token(b"tok"), &[1, 4, 0, b't', b'o', b'k'][..]),
            (Auth::SessionCredential(b"key!"), &[1, 5, 1, b'k', b'e', b'y', b'!']),
        ] {
            let mut out = Vec::new();
            auth.encode(&mut out);
            assert_eq!(out, golden);
            let mut deframer = Deframer::new(4096);
            deframer.push(golden);
            assert_eq!(Auth::decode(&deframer.next().unwrap().unwrap()), Ok(auth));
        }
        let mut out = Vec::new();
        AuthOk { session_credential: b"key!" }.encode(&mut out);
        assert_eq!(out, [1, 4, b'k', b'e', b'y', b'!']);
        assert_eq!(
            AuthOk::decode(&MessageFrame { kind: 1, body: b"key!" }),
            Ok(AuthOk { session_credential: b"key!" })
        );
    }

    #[test]
    fn empty_long_and_unknown_credentials_are_refused() {
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0; 130] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0; 129] }).is_ok());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[2, 1] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 2, body: &[0, 1] }).is_err());
        assert!(AuthOk::decode(&MessageFrame { kind: 1, body: &[] }).is_err());
    }

    #[test]
    fn debug_output_contains_no_secret() {
        assert_eq!(format!("{:?}", Auth::Token(b"secret")), "Token(6 bytes)");
    }
}
