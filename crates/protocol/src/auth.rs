//! Path 0/13 on a native connection: before the first ViewerMessage, from thinc-view to transport and back.
//! A token or session key from the viewer, a session key as the answer; a refusal is a `Close` that says `Unauthorized`.
//! Knows bytes and their limits; never what a token is worth. A browser does this over HTTP and starts at its hello.

use crate::frame::{Frame, put_frame_of};
use crate::limits::CREDENTIAL_BYTES_MAX;
use crate::wire::{Reader, WireError};

/// Kind of both frames.
const KIND: u8 = 0x01;

/// First frame of a native connection.
///
/// ```text
/// 0x01 | length | form u8 (0 token, 1 session key) | 1 to 128 bytes
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Auth<'a> {
    /// The single-use token of a link.
    Token(&'a [u8]),
    /// The key an earlier [`AuthOk`] gave: the viewer comes back.
    SessionKey(&'a [u8]),
}

/// The answer.
///
/// ```text
/// 0x01 | length | 1 to 128 bytes of session key
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthOk<'a> {
    /// Opens the session again without a new link.
    pub session_key: &'a [u8],
}

/// Secrets stay out of logs: only which form and how long.
impl std::fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Auth::Token(bytes) => write!(f, "Token({} bytes)", bytes.len()),
            Auth::SessionKey(bytes) => write!(f, "SessionKey({} bytes)", bytes.len()),
        }
    }
}

impl std::fmt::Debug for AuthOk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthOk({} bytes)", self.session_key.len())
    }
}

impl<'a> Auth<'a> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (form, bytes) = match self {
            Auth::Token(bytes) => (0, bytes),
            Auth::SessionKey(bytes) => (1, bytes),
        };
        put_frame_of(out, KIND, &[form], bytes);
    }

    /// Reads a frame.
    pub fn decode(frame: &Frame<'a>) -> Result<Auth<'a>, WireError> {
        expect_kind(frame.kind)?;
        let mut reader = Reader::new(frame.body);
        let form = reader.u8("a credential's form")?;
        let bytes = credential(reader.rest())?;
        match form {
            0 => Ok(Auth::Token(bytes)),
            1 => Ok(Auth::SessionKey(bytes)),
            other => Err(WireError::Unknown { what: "a credential's form", value: u64::from(other) }),
        }
    }
}

impl<'a> AuthOk<'a> {
    /// Appends the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_frame_of(out, KIND, self.session_key, &[]);
    }

    /// Reads a frame.
    pub fn decode(frame: &Frame<'a>) -> Result<AuthOk<'a>, WireError> {
        expect_kind(frame.kind)?;
        Ok(AuthOk { session_key: credential(frame.body)? })
    }
}

fn expect_kind(kind: u8) -> Result<(), WireError> {
    if kind == KIND {
        return Ok(());
    }
    Err(WireError::Unknown { what: "before authentication a frame of kind", value: u64::from(kind) })
}

fn credential(bytes: &[u8]) -> Result<&[u8], WireError> {
    if bytes.is_empty() {
        return Err(WireError::Truncated("a credential"));
    }
    if bytes.len() > CREDENTIAL_BYTES_MAX {
        let (value, limit) = (bytes.len() as u64, CREDENTIAL_BYTES_MAX as u64);
        return Err(WireError::TooMuch { what: "a credential's length", value, limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Deframer;

    #[test]
    fn golden_bytes() {
        for (auth, golden) in [
            (Auth::Token(b"tok"), &[1, 4, 0, b't', b'o', b'k'][..]),
            (Auth::SessionKey(b"key!"), &[1, 5, 1, b'k', b'e', b'y', b'!']),
        ] {
            let mut out = Vec::new();
            auth.encode(&mut out);
            assert_eq!(out, golden);
            let mut deframer = Deframer::new(4096);
            deframer.push(golden);
            assert_eq!(Auth::decode(&deframer.next().unwrap().unwrap()), Ok(auth));
        }
        let mut out = Vec::new();
        AuthOk { session_key: b"key!" }.encode(&mut out);
        assert_eq!(out, [1, 4, b'k', b'e', b'y', b'!']);
        assert_eq!(AuthOk::decode(&Frame { kind: 1, body: b"key!" }), Ok(AuthOk { session_key: b"key!" }));
    }

    #[test]
    fn empty_long_and_unknown_credentials_are_refused() {
        assert!(Auth::decode(&Frame { kind: 1, body: &[] }).is_err());
        assert!(Auth::decode(&Frame { kind: 1, body: &[0] }).is_err());
        assert!(Auth::decode(&Frame { kind: 1, body: &[0; 130] }).is_err());
        assert!(Auth::decode(&Frame { kind: 1, body: &[0; 129] }).is_ok());
        assert!(Auth::decode(&Frame { kind: 1, body: &[2, 1] }).is_err());
        assert!(Auth::decode(&Frame { kind: 2, body: &[0, 1] }).is_err());
        assert!(AuthOk::decode(&Frame { kind: 1, body: &[] }).is_err());
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Auth::Token(b"secret")), "Token(6 bytes)");
    }
}
