//! Path 0/13 on a native connection: before the first ViewerMessage, from thinc-view to transport
//! and back.
//! The viewer presents a token, a session credential or the name of an account, for which it
//! answers questions, and receives a session credential; a refusal is a `Close`. A browser
//! authenticates over HTTP instead and starts with its hello. Knows bytes and their limits; never
//! which tokens are valid.

use crate::framing::{MessageFrame, put_message, put_message_parts};
use crate::limits::{
    AUTH_PROMPTS_MAX, CREDENTIAL_BYTES_MAX, NAME_BYTES_MAX, PASSWORD_BYTES_MAX, TEXT_BYTES_MAX,
};
use crate::wire::{Reader, WireError, put_text, put_varint};

/// Kind of `Auth`, of its answer, and of answers to questions.
const KIND: u8 = 0x01;
/// Kind of questions.
const KIND_PROMPTS: u8 = 0x7f;
/// Form of answers to questions.
const FORM_ANSWERS: u8 = 3;
/// Form of a guest's credential.
const FORM_GUEST: u8 = 4;

/// First message of a native connection.
///
/// ```text
/// 0x01 | length | form u8 (0 token, 1 session credential, 2 account) | 1 to 128 bytes
/// 0x01 | length | form u8 (4 guest) | length varint | 1 to 128 bytes | name text | password text
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Auth<'a> {
    /// The one-time token of a link.
    Token(&'a [u8]),
    /// The key from an earlier [`AuthOk`]: the viewer reconnects.
    SessionCredential(&'a [u8]),
    /// The name of an account; questions follow.
    Account(&'a [u8]),
    /// The token of an invitation.
    Guest {
        /// From the link.
        token: &'a [u8],
        /// What the guest calls itself, at most 64 bytes.
        name: &'a str,
        /// Empty without one; at most 256 bytes.
        password: &'a str,
    },
}

/// How a text before authentication is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptStyle {
    /// A question; the answer is not shown.
    Hidden,
    /// A question; the answer may be shown.
    Shown,
    /// Something to read.
    Text,
}

/// A question to the person who logs in, or something to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthPrompt<'a> {
    /// How it is shown.
    pub style: PromptStyle,
    /// What it says.
    pub text: &'a str,
}

/// Texts and questions for an [`Auth::Account`].
///
/// ```text
/// 0x7f | length | count u8 | count × (style u8 (0 hidden, 1 shown, 2 text) | text)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthPrompts<'a>(pub Vec<AuthPrompt<'a>>);

/// The answers to the questions among [`AuthPrompts`], in order.
///
/// ```text
/// 0x01 | length | form u8 (3) | count u8 | count × (length varint | bytes)
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct AuthAnswers<'a>(pub Vec<&'a [u8]>);

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
            Auth::Account(name) => write!(f, "Account({} bytes)", name.len()),
            Auth::Guest { token, name, .. } => write!(f, "Guest({} bytes, {name:?})", token.len()),
        }
    }
}

/// The same for answers.
impl std::fmt::Debug for AuthAnswers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthAnswers({} of them)", self.0.len())
    }
}

fn count(reader: &mut Reader<'_>) -> Result<usize, WireError> {
    let count = usize::from(reader.u8("a count of prompts")?);
    if count > AUTH_PROMPTS_MAX {
        let (value, limit) = (count as u64, AUTH_PROMPTS_MAX as u64);
        return Err(WireError::OverLimit { what: "a count of prompts", value, limit });
    }
    Ok(count)
}

impl<'a> AuthPrompts<'a> {
    /// Appends the message; prompts past the limit are left out, and longer texts cut.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let prompts = &self.0[..self.0.len().min(AUTH_PROMPTS_MAX)];
        let mut body = vec![prompts.len() as u8];
        for prompt in prompts {
            body.push(prompt.style as u8);
            put_text(&mut body, prompt.text, TEXT_BYTES_MAX);
        }
        put_message_parts(out, KIND_PROMPTS, &body, &[]);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<AuthPrompts<'a>, WireError> {
        expect_kind(frame.kind, KIND_PROMPTS)?;
        let mut reader = Reader::new(frame.body);
        let mut prompts = Vec::new();
        for _ in 0..count(&mut reader)? {
            let style = match reader.u8("a prompt's style")? {
                0 => PromptStyle::Hidden,
                1 => PromptStyle::Shown,
                2 => PromptStyle::Text,
                other => {
                    let value = u64::from(other);
                    return Err(WireError::Unknown { what: "a prompt's style", value });
                }
            };
            let text = reader.text("a prompt", TEXT_BYTES_MAX)?;
            prompts.push(AuthPrompt { style, text });
        }
        reader.end("prompts")?;
        Ok(AuthPrompts(prompts))
    }
}

impl<'a> AuthAnswers<'a> {
    /// Appends the message; who receives it checks the limits.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut body = vec![FORM_ANSWERS, self.0.len() as u8];
        for answer in &self.0 {
            put_varint(&mut body, answer.len() as u64);
            body.extend_from_slice(answer);
        }
        put_message_parts(out, KIND, &body, &[]);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<AuthAnswers<'a>, WireError> {
        expect_kind(frame.kind, KIND)?;
        let mut reader = Reader::new(frame.body);
        let form = reader.u8("a credential's form")?;
        if form != FORM_ANSWERS {
            let value = u64::from(form);
            return Err(WireError::Unknown { what: "the form of answers", value });
        }
        let answers = (0..count(&mut reader)?)
            .map(|_| {
                let len = reader.at_most("an answer's length", TEXT_BYTES_MAX as u64)?;
                reader.take("an answer", len as usize)
            })
            .collect::<Result<_, _>>()?;
        reader.end("answers")?;
        Ok(AuthAnswers(answers))
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
            Auth::Account(name) => (2, name),
            Auth::Guest { token, name, password } => {
                return put_message(out, KIND, |out| {
                    out.push(FORM_GUEST);
                    put_varint(out, token.len() as u64);
                    out.extend_from_slice(token);
                    put_text(out, name, NAME_BYTES_MAX);
                    put_text(out, password, PASSWORD_BYTES_MAX);
                });
            }
        };
        put_message_parts(out, KIND, &[form], bytes);
    }

    /// Reads the message.
    pub fn decode(frame: &MessageFrame<'a>) -> Result<Auth<'a>, WireError> {
        expect_kind(frame.kind, KIND)?;
        let mut reader = Reader::new(frame.body);
        let form = reader.u8("a credential's form")?;
        match form {
            0 => Ok(Auth::Token(credential(reader.rest())?)),
            1 => Ok(Auth::SessionCredential(credential(reader.rest())?)),
            2 => Ok(Auth::Account(credential(reader.rest())?)),
            FORM_GUEST => {
                let length =
                    reader.at_most("a credential's length", CREDENTIAL_BYTES_MAX as u64)?;
                let token = credential(reader.take("a credential", length as usize)?)?;
                let name = reader.text("a guest's name", NAME_BYTES_MAX)?;
                let password = reader.text("a password", PASSWORD_BYTES_MAX)?;
                reader.end("a guest's credential")?;
                Ok(Auth::Guest { token, name, password })
            }
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
        expect_kind(frame.kind, KIND)?;
        Ok(AuthOk { session_credential: credential(frame.body)? })
    }
}

fn expect_kind(kind: u8, expected: u8) -> Result<(), WireError> {
    if kind == expected {
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
            (Auth::Account(b"anna"), &[1, 5, 2, b'a', b'n', b'n', b'a']),
            (
                Auth::Guest { token: b"tok", name: "Ada", password: "pw" },
                &[1, 12, 4, 3, b't', b'o', b'k', 3, b'A', b'd', b'a', 2, b'p', b'w'],
            ),
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
    fn questions_and_answers_have_golden_bytes_and_limits() {
        let prompt = |style, text| AuthPrompt { style, text };
        let prompts = AuthPrompts(vec![
            prompt(PromptStyle::Text, "old"),
            prompt(PromptStyle::Hidden, "new?"),
            prompt(PromptStyle::Shown, "ID"),
        ]);
        let mut out = Vec::new();
        prompts.encode(&mut out);
        let body = b"\x03\x02\x03old\x00\x04new?\x01\x02ID";
        assert_eq!(out, [&[0x7f, body.len() as u8], &body[..]].concat());
        assert_eq!(AuthPrompts::decode(&MessageFrame { kind: 0x7f, body }), Ok(prompts));
        let answers = AuthAnswers(vec![b"x", b""]);
        let mut out = Vec::new();
        answers.encode(&mut out);
        assert_eq!(out, [1, 5, 3, 2, 1, b'x', 0]);
        assert_eq!(AuthAnswers::decode(&MessageFrame { kind: 1, body: &out[2..] }), Ok(answers));
        for bad in
            [&b""[..], b"\x07", b"\x01\x03\x00", b"\x01\x00", b"\x00\x00", b"\x01\x00\x01\xff"]
        {
            assert!(AuthPrompts::decode(&MessageFrame { kind: 0x7f, body: bad }).is_err());
        }
        for bad in [&b""[..], b"\x03", b"\x03\x07", b"\x03\x01", b"\x02\x00", b"\x03\x00\x00"] {
            assert!(AuthAnswers::decode(&MessageFrame { kind: 1, body: bad }).is_err());
        }
        assert_eq!(format!("{:?}", AuthAnswers(vec![b"secret"])), "AuthAnswers(1 of them)");
    }

    #[test]
    fn empty_long_and_unknown_credentials_are_refused() {
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0; 130] }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[0; 129] }).is_ok());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[3, 1] }).is_err());
        for body in [
            // No token, no name, no password, more than a password, a control character.
            &[4, 0, 1, b'A', 0][..],
            &[4, 1, 7],
            &[4, 1, 7, 1, b'A'],
            &[4, 1, 7, 1, b'A', 0, 0],
            &[4, 1, 7, 1, 27, 0],
        ] {
            assert!(Auth::decode(&MessageFrame { kind: 1, body }).is_err(), "{body:?}");
        }
        let long = [&[4, 1, 7, 65][..], &[b'A'; 65], &[0]].concat();
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &long }).is_err());
        assert!(Auth::decode(&MessageFrame { kind: 1, body: &[4, 1, 7, 0, 0] }).is_ok());
        assert!(Auth::decode(&MessageFrame { kind: 2, body: &[0, 1] }).is_err());
        assert!(AuthOk::decode(&MessageFrame { kind: 1, body: &[] }).is_err());
    }

    #[test]
    fn debug_output_contains_no_secret() {
        assert_eq!(format!("{:?}", Auth::Token(b"secret")), "Token(6 bytes)");
        let guest = Auth::Guest { token: b"secret", name: "Ada", password: "hidden" };
        assert_eq!(format!("{guest:?}"), "Guest(6 bytes, \"Ada\")");
    }
}
