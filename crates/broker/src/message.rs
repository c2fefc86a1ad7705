//! The messages between front and helper, and between helper and login process: a few kinds, each
//! field with a length and a limit. Beside the path: from helper.rs, front/ and login.rs, to the
//! other end of a socket pair, where one message is one packet. Knows bytes and limits; never who
//! may log in.
//!
//! ```text
//! to the helper:    1 BEGIN   attempt u64 | source 16 bytes | user text
//!                   2 ANSWERS attempt u64 | count u8 | count × text
//!                   3 CANCEL  attempt u64
//!                   4 RESUME  attempt u64 | cookie 32 bytes | origin secret 32 bytes
//!                   5 END     attempt u64 | cookie 32 bytes
//!                   6 NOTE    cookie 32 bytes | source 16 bytes | viewer u64 | deed u8
//!                             | session text
//! to the login process: 1 and 2 as above, once the person is admitted:
//!                   7 KEEP    login u64 | open u8, 1 or 2 | hash of the cookie 32 bytes
//!                             | hash of the origin secret 32 bytes | if 2: device 16 bytes
//!                     (again when a device of the login is remembered)
//!                   8 FORGET
//! from the login process: 1 to 3 as below, to the next helper:
//!                   5 KEPT    login u64 | age u64, ms | user text | open u8
//!                             | if open is 1 or 2: as above; 1 from earlier versions
//!                     (with the socket of the user's agent if open)
//! to the helper:    9 ANSWERING name text
//!                  10 about remembered devices: message/devices.rs
//! from the helper:  1 PROMPTS attempt u64 | count u8 | count × (style u8 | text)
//!                   2 REFUSED attempt u64 | reason u8
//!                   3 ADMITTED attempt u64 | cookie 32 bytes | origin secret 32 bytes | user text
//!                     (with one descriptor: the socket of the user's agent)
//!                   4 DRAIN   draining u8
//!                   6 ENDED   attempt u64
//!                   7 CERTIFICATE (with one descriptor: a pipe that holds key and chain as PEM)
//!                   8 CHALLENGE name text (with one descriptor: a pipe as with CERTIFICATE)
//!                   9 about remembered devices: message/devices.rs
//!                  10 FIGURES (with one descriptor: where the figures go)
//! first to a front: START, then UDP sockets u8 | guests u8 | remembered u32, s | banner text
//!                   | count u8 | count × network text
//!                   (with a pipe as with CERTIFICATE, and the listening sockets)
//! text: length u16, little-endian | bytes
//! ```

mod devices;

use std::net::Ipv6Addr;

use thinc_transport::device::DeviceId;
use thiserror::Error;

use crate::agent::is_session_name;
use crate::banner;
use crate::limits::Rates;
use crate::proxy::{TRUSTED_MAX, TrustedProxies};

pub use devices::{
    DEVICES_PER_USER_MAX, DeviceReply, DeviceRequest, Known, ListedDevice, Verify, is_device_name,
    is_place,
};

/// Longest message in bytes; a longer packet is invalid whatever it holds.
pub const MESSAGE_BYTES_MAX: usize = 4096;
/// Longest user name: Linux allows 32 bytes, directories allow more.
pub const USER_BYTES_MAX: usize = 256;
/// Most questions and texts of one module call, and the longest of each.
pub const PROMPTS_MAX: usize = 6;
/// See [`PROMPTS_MAX`]; that of an answer is PAM's.
pub const TEXT_BYTES_MAX: usize = thinc_pam::ANSWER_BYTES_MAX;

/// Longest DNS name (RFC 1035, section 2.3.4, as text).
pub const NAME_BYTES_MAX: usize = 253;
/// Longest address with a prefix.
const NETWORK_BYTES_MAX: usize = 64;

/// A secret that opens a login: a cookie, or what belongs to it.
pub type Secret = [u8; 32];

/// To the helper, and from there to the login process of the attempt.
#[derive(Clone, PartialEq, Eq)]
pub enum Request {
    /// Somebody at `source` wants to log in.
    Begin {
        /// Chosen by the front; names this attempt in all later messages.
        attempt: u64,
        /// Their address; IPv4 is mapped.
        source: Ipv6Addr,
        /// The name as it was typed.
        user: String,
    },
    /// Answers to the questions of the last prompts.
    Answers {
        /// As above.
        attempt: u64,
        /// One for each question.
        answers: Vec<Vec<u8>>,
    },
    /// They have gone.
    Cancel {
        /// As above.
        attempt: u64,
    },
    /// A front that has just started asks whose login this is.
    Resume {
        /// As above.
        attempt: u64,
        /// As the browser sent it.
        cookie: Secret,
        /// As the page sent it.
        origin_secret: Secret,
    },
    /// A person logs out.
    End {
        /// Names this request in its reply.
        attempt: u64,
        /// Of the login.
        cookie: Secret,
    },
    /// A person has done something with a session of theirs, for the audit log.
    Note {
        /// Of the login.
        cookie: Secret,
        /// Their address; IPv4 is mapped.
        source: Ipv6Addr,
        /// The connection; one that leaves has opened before.
        viewer: u64,
        /// What they did.
        deed: Deed,
        /// The session's name.
        session: String,
    },
    /// To a login process: what the next helper has to know, should this one end.
    Keep(Kept),
    /// To a login process: this login has ended. No helper learns its secrets any more.
    Forget,
    /// The front answers an ACME server that asks for this name.
    Answering {
        /// Of the challenge.
        name: String,
    },
    /// About remembered devices.
    Device(DeviceRequest),
}

/// What opens a login, kept by its login process for the next helper.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub login: u64,
    /// SHA-256.
    pub cookie_hash: Secret,
    /// SHA-256.
    pub origin_secret_hash: Secret,
    /// A remembered device that has opened it, or was remembered with it.
    pub device: Option<DeviceId>,
}

impl Kept {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(1 + u8::from(self.device.is_some()));
        out.extend(self.cookie_hash);
        out.extend(self.origin_secret_hash);
        out.extend(self.device.iter().flat_map(|device| device.0));
    }
}

/// What a person does with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It was started for them.
    Started,
    /// A viewer is connected with it.
    Opened,
    /// That viewer is not any more.
    Left,
    /// They have ended it.
    Ended,
    /// A guest of theirs is connected with it.
    Visited,
}

/// How a text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// A question; the answer is not shown.
    Hidden,
    /// A question; the answer may be shown.
    Shown,
    /// Something to read.
    Text,
}

/// A question, or something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// How it is shown.
    pub style: Style,
    /// Cut at [`TEXT_BYTES_MAX`].
    pub text: String,
}

/// Why an attempt has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Wrong, unknown, locked, expired, forbidden: nobody learns which.
    Refused,
    /// Too many attempts at this moment.
    Busy,
    /// The administrator wants no new logins.
    Draining,
}

/// The first packet to a front: how it differs from others.
const START: &[u8] = b"thinc front 4";

/// What a front has to know from the beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Reverse proxies whose word on the client's address counts.
    pub trusted_proxies: TrustedProxies,
    /// How many of the sockets, at the end, are UDP's.
    pub udp_sockets: u8,
    /// People may invite guests.
    pub has_guests: bool,
    /// How long a device may be remembered, in seconds; 0: none is.
    pub remember_s: u32,
    /// What everybody reads before a login; it may be empty.
    pub banner: String,
    /// What may be sent to viewers.
    pub rates: Rates,
}

impl Start {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = START.to_vec();
        out.push(self.udp_sockets);
        out.push(self.has_guests.into());
        out.extend(self.remember_s.to_le_bytes());
        // 0: no limit.
        for rate in [self.rates.uplink, self.rates.session] {
            out.extend(rate.unwrap_or(0).to_le_bytes());
        }
        put_text(&mut out, self.banner.as_bytes());
        let networks = &self.trusted_proxies.0;
        assert!(networks.len() <= TRUSTED_MAX, "the configuration has no more");
        out.push(networks.len() as u8);
        networks.iter().for_each(|network| put_text(&mut out, network.to_string().as_bytes()));
        out
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<Start, MessageError> {
        let mut fields = Fields::of(packet.strip_prefix(START).ok_or(MessageError::Length)?)?;
        let udp_sockets = fields.u8()?;
        let has_guests = match fields.u8()? {
            flag @ 0..=1 => flag == 1,
            other => return Err(MessageError::Unknown("a flag", other)),
        };
        let remember_s = fields.array().map(u32::from_le_bytes)?;
        let mut rate = || {
            let rate = fields.array().map(u64::from_le_bytes)?;
            Ok(Some(rate).filter(|&rate| rate > 0))
        };
        let rates = Rates { uplink: rate()?, session: rate()? };
        let banner = fields.bytes("a banner", banner::BANNER_BYTES_MAX)?;
        let banner = banner::parse(banner).map_err(|_| MessageError::Text("a banner"))?;
        let count = usize::from(fields.u8()?);
        if count > TRUSTED_MAX {
            return Err(MessageError::Limit("a list", count, TRUSTED_MAX));
        }
        let network = |_| {
            let text = fields.text("a network", NETWORK_BYTES_MAX)?;
            text.parse().map_err(|_| MessageError::Text("a network"))
        };
        let trusted_proxies = TrustedProxies((0..count).map(network).collect::<Result<_, _>>()?);
        fields.end()?;
        Ok(Start { trusted_proxies, udp_sockets, has_guests, remember_s, banner, rates })
    }
}

/// From the helper.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// Texts and questions for the person.
    Prompts {
        /// Of the request.
        attempt: u64,
        /// At least one.
        prompts: Vec<Prompt>,
    },
    /// The attempt has ended.
    Refused {
        /// Of the request.
        attempt: u64,
        /// For the person.
        reason: Reason,
    },
    /// The person is who they say; a descriptor comes along.
    Admitted {
        /// Of the request.
        attempt: u64,
        /// Opens the login again, together with the origin secret.
        cookie: Secret,
        /// See `cookie`.
        origin_secret: Secret,
        /// The account.
        user: String,
    },
    /// For the front: whether desktops may be started.
    Drain {
        /// They may not.
        is_draining: bool,
    },
    /// From a login process to a helper that was started after it.
    Kept {
        /// The login's number.
        login: u64,
        /// Milliseconds since the person was admitted.
        age_ms: u64,
        /// The account.
        user: String,
        /// What opens it, and then a descriptor comes along; `None` once it has ended.
        kept: Option<Kept>,
    },
    /// For the front: the login of an END is not opened by any helper any more.
    Ended {
        /// Of the request.
        attempt: u64,
    },
    /// For the front: what new connections are shown; a descriptor comes along.
    Certificate,
    /// For the front: what an ACME server is shown that asks for this name; a descriptor comes
    /// along. Answered with `Request::Answering`.
    Challenge {
        /// A DNS name.
        name: String,
    },
    /// About remembered devices.
    Device(DeviceReply),
    /// For the front: what it counts is asked for; a descriptor for the answer comes along.
    Figures,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MessageError {
    /// Longer than a message may be.
    #[error("{0} bytes; {MESSAGE_BYTES_MAX} is the limit")]
    TooLong(usize),
    /// It ends within a field, or after its last.
    #[error("its length does not fit its fields")]
    Length,
    /// An undefined value.
    #[error("{1} is not {0}")]
    Unknown(&'static str, u8),
    /// A field past its limit.
    #[error("{0} has {1}; {2} is the limit")]
    Limit(&'static str, usize, usize),
    /// A text that is not UTF-8, or contains control characters.
    #[error("{0} is not text")]
    Text(&'static str),
}

/// A name that an account may have, as people type it. These rules are the same at both ends: the
/// helper ends a front that sends what it cannot read.
pub fn is_user_name(user: &str) -> bool {
    (1..=USER_BYTES_MAX).contains(&user.len()) && !user.contains(char::is_control)
}

/// Answers that a message may have; see [`is_user_name`].
pub fn are_answers(answers: &[impl AsRef<[u8]>]) -> bool {
    let fits = |answer: &[u8]| answer.len() <= TEXT_BYTES_MAX;
    answers.len() <= PROMPTS_MAX && answers.iter().all(|answer| fits(answer.as_ref()))
}

struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of(packet: &'a [u8]) -> Result<Fields<'a>, MessageError> {
        if packet.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLong(packet.len()));
        }
        Ok(Fields(packet))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let (field, rest) = self.0.split_first_chunk().ok_or(MessageError::Length)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u8(&mut self) -> Result<u8, MessageError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        self.array().map(u64::from_le_bytes)
    }

    fn bytes(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], MessageError> {
        let length = usize::from(self.array().map(u16::from_le_bytes)?);
        if length > max {
            return Err(MessageError::Limit(what, length, max));
        }
        let (field, rest) = self.0.split_at_checked(length).ok_or(MessageError::Length)?;
        self.0 = rest;
        Ok(field)
    }

    fn text(&mut self, what: &'static str, max: usize) -> Result<String, MessageError> {
        let text = std::str::from_utf8(self.bytes(what, max)?);
        text.map(str::to_owned).map_err(|_| MessageError::Text(what))
    }

    fn user(&mut self) -> Result<String, MessageError> {
        let user = self.text("a user name", USER_BYTES_MAX)?;
        if is_user_name(&user) { Ok(user) } else { Err(MessageError::Text("a user name")) }
    }

    fn session(&mut self) -> Result<String, MessageError> {
        let session = self.text("a session's name", USER_BYTES_MAX)?;
        if is_session_name(&session) {
            Ok(session)
        } else {
            Err(MessageError::Text("a session's name"))
        }
    }

    fn count(&mut self) -> Result<usize, MessageError> {
        let count = usize::from(self.u8()?);
        if count > PROMPTS_MAX {
            return Err(MessageError::Limit("a list", count, PROMPTS_MAX));
        }
        Ok(count)
    }

    fn kept(&mut self, login: u64) -> Result<Option<Kept>, MessageError> {
        let has_device = match self.u8()? {
            0 => return Ok(None),
            open @ (1 | 2) => open == 2,
            other => return Err(MessageError::Unknown("whether a login is open", other)),
        };
        Ok(Some(Kept {
            login,
            cookie_hash: self.array()?,
            origin_secret_hash: self.array()?,
            device: if has_device { Some(self.array().map(DeviceId)?) } else { None },
        }))
    }

    fn is(&mut self) -> Result<bool, MessageError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(MessageError::Unknown("a truth value", other)),
        }
    }

    fn end(self) -> Result<(), MessageError> {
        if self.0.is_empty() { Ok(()) } else { Err(MessageError::Length) }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    let length = u16::try_from(text.len()).expect("texts are cut at their limit");
    out.extend(length.to_le_bytes());
    out.extend(text);
}

/// The text, cut at a limit of bytes between two characters.
fn cut(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

impl Request {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Request::Begin { attempt, source, user } => {
                out.push(1);
                out.extend(attempt.to_le_bytes());
                out.extend(source.octets());
                put_text(&mut out, user.as_bytes());
            }
            Request::Answers { attempt, answers } => {
                out.push(2);
                out.extend(attempt.to_le_bytes());
                out.push(answers.len() as u8);
                answers.iter().for_each(|answer| put_text(&mut out, answer));
            }
            Request::Cancel { attempt } => {
                out.push(3);
                out.extend(attempt.to_le_bytes());
            }
            Request::Resume { attempt, cookie, origin_secret } => {
                out.push(4);
                out.extend(attempt.to_le_bytes());
                out.extend(cookie);
                out.extend(origin_secret);
            }
            Request::End { attempt, cookie } => {
                out.push(5);
                out.extend(attempt.to_le_bytes());
                out.extend(cookie);
            }
            Request::Note { cookie, source, viewer, deed, session } => {
                out.push(6);
                out.extend(cookie);
                out.extend(source.octets());
                out.extend(viewer.to_le_bytes());
                out.push(*deed as u8);
                put_text(&mut out, session.as_bytes());
            }
            Request::Keep(kept) => {
                out.push(7);
                out.extend(kept.login.to_le_bytes());
                kept.put(&mut out);
            }
            Request::Forget => out.push(8),
            Request::Answering { name } => {
                out.push(9);
                put_text(&mut out, cut(name, NAME_BYTES_MAX).as_bytes());
            }
            Request::Device(request) => {
                out.push(10);
                request.put(&mut out);
            }
        }
        out
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<Request, MessageError> {
        let mut fields = Fields::of(packet)?;
        let request = match fields.u8()? {
            1 => Request::Begin {
                attempt: fields.u64()?,
                source: Ipv6Addr::from(fields.array::<16>()?),
                user: fields.user()?,
            },
            2 => {
                let attempt = fields.u64()?;
                let answers = (0..fields.count()?)
                    .map(|_| fields.bytes("an answer", TEXT_BYTES_MAX).map(<[u8]>::to_vec))
                    .collect::<Result<_, _>>()?;
                Request::Answers { attempt, answers }
            }
            3 => Request::Cancel { attempt: fields.u64()? },
            4 => Request::Resume {
                attempt: fields.u64()?,
                cookie: fields.array()?,
                origin_secret: fields.array()?,
            },
            5 => Request::End { attempt: fields.u64()?, cookie: fields.array()? },
            6 => Request::Note {
                cookie: fields.array()?,
                source: Ipv6Addr::from(fields.array::<16>()?),
                viewer: fields.u64()?,
                deed: match fields.u8()? {
                    0 => Deed::Started,
                    1 => Deed::Opened,
                    2 => Deed::Left,
                    3 => Deed::Ended,
                    4 => Deed::Visited,
                    other => return Err(MessageError::Unknown("a deed", other)),
                },
                session: fields.session()?,
            },
            7 => {
                let login = fields.u64()?;
                let closed = MessageError::Unknown("whether a login is open", 0);
                Request::Keep(fields.kept(login)?.ok_or(closed)?)
            }
            8 => Request::Forget,
            9 => Request::Answering { name: fields.text("a name", NAME_BYTES_MAX)? },
            10 => Request::Device(fields.device_request()?),
            other => return Err(MessageError::Unknown("a request", other)),
        };
        fields.end()?;
        Ok(request)
    }
}

impl Reply {
    /// The packet. Longer texts are cut, and further prompts left out.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Reply::Prompts { attempt, prompts } => {
                out.push(1);
                out.extend(attempt.to_le_bytes());
                let prompts = &prompts[..prompts.len().min(PROMPTS_MAX)];
                out.push(prompts.len() as u8);
                for Prompt { style, text } in prompts {
                    out.push(*style as u8);
                    put_text(&mut out, cut(text, TEXT_BYTES_MAX).as_bytes());
                }
            }
            Reply::Refused { attempt, reason } => {
                out.push(2);
                out.extend(attempt.to_le_bytes());
                out.push(*reason as u8);
            }
            Reply::Admitted { attempt, cookie, origin_secret, user } => {
                out.push(3);
                out.extend(attempt.to_le_bytes());
                out.extend(cookie);
                out.extend(origin_secret);
                put_text(&mut out, cut(user, USER_BYTES_MAX).as_bytes());
            }
            Reply::Drain { is_draining } => out.extend([4, u8::from(*is_draining)]),
            Reply::Kept { login, age_ms, user, kept } => {
                out.push(5);
                out.extend(login.to_le_bytes());
                out.extend(age_ms.to_le_bytes());
                put_text(&mut out, cut(user, USER_BYTES_MAX).as_bytes());
                match kept {
                    Some(kept) => kept.put(&mut out),
                    None => out.push(0),
                }
            }
            Reply::Ended { attempt } => {
                out.push(6);
                out.extend(attempt.to_le_bytes());
            }
            Reply::Certificate => out.push(7),
            Reply::Challenge { name } => {
                out.push(8);
                put_text(&mut out, cut(name, NAME_BYTES_MAX).as_bytes());
            }
            Reply::Device(reply) => {
                out.push(9);
                reply.put(&mut out);
            }
            Reply::Figures => out.push(10),
        }
        out
    }

    /// Reads a packet.
    pub fn decode(packet: &[u8]) -> Result<Reply, MessageError> {
        let mut fields = Fields::of(packet)?;
        let reply = match fields.u8()? {
            1 => {
                let attempt = fields.u64()?;
                let prompts = (0..fields.count()?)
                    .map(|_| {
                        let style = match fields.u8()? {
                            0 => Style::Hidden,
                            1 => Style::Shown,
                            2 => Style::Text,
                            other => return Err(MessageError::Unknown("a style", other)),
                        };
                        Ok(Prompt { style, text: fields.text("a prompt", TEXT_BYTES_MAX)? })
                    })
                    .collect::<Result<_, _>>()?;
                Reply::Prompts { attempt, prompts }
            }
            2 => {
                let attempt = fields.u64()?;
                let reason = match fields.u8()? {
                    0 => Reason::Refused,
                    1 => Reason::Busy,
                    2 => Reason::Draining,
                    other => return Err(MessageError::Unknown("a reason", other)),
                };
                Reply::Refused { attempt, reason }
            }
            3 => Reply::Admitted {
                attempt: fields.u64()?,
                cookie: fields.array()?,
                origin_secret: fields.array()?,
                user: fields.user()?,
            },
            4 => Reply::Drain { is_draining: fields.is()? },
            5 => {
                let (login, age_ms) = (fields.u64()?, fields.u64()?);
                let user = fields.user()?;
                let kept = fields.kept(login)?;
                Reply::Kept { login, age_ms, user, kept }
            }
            6 => Reply::Ended { attempt: fields.u64()? },
            7 => Reply::Certificate,
            8 => Reply::Challenge { name: fields.text("a name", NAME_BYTES_MAX)? },
            9 => Reply::Device(fields.device_reply()?),
            10 => Reply::Figures,
            other => return Err(MessageError::Unknown("a reply", other)),
        };
        fields.end()?;
        Ok(reply)
    }
}

/// For logs: never shows an answer or a secret.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Request::Begin { attempt, source, user } => {
                write!(f, "Begin({attempt}, {source}, {user:?})")
            }
            Request::Answers { attempt, answers } => {
                write!(f, "Answers({attempt}, {} of them)", answers.len())
            }
            Request::Cancel { attempt } => write!(f, "Cancel({attempt})"),
            Request::Resume { attempt, .. } => write!(f, "Resume({attempt})"),
            Request::End { attempt, .. } => write!(f, "End({attempt})"),
            Request::Note { source, viewer, deed, session, .. } => {
                write!(f, "Note({source}, {viewer}, {deed:?}, {session})")
            }
            Request::Keep(kept) => write!(f, "Keep({})", kept.login),
            Request::Forget => write!(f, "Forget"),
            Request::Answering { name } => write!(f, "Answering({name:?})"),
            Request::Device(request) => write!(f, "{request:?}"),
        }
    }
}

/// For logs: never shows a secret.
impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reply::Prompts { attempt, prompts } => write!(f, "Prompts({attempt}, {prompts:?})"),
            Reply::Refused { attempt, reason } => write!(f, "Refused({attempt}, {reason:?})"),
            Reply::Admitted { attempt, user, .. } => write!(f, "Admitted({attempt}, {user:?})"),
            Reply::Drain { is_draining } => write!(f, "Drain({is_draining})"),
            Reply::Kept { login, age_ms, user, kept } => {
                write!(f, "Kept({login}, {age_ms}, {user:?}, {})", kept.is_some())
            }
            Reply::Ended { attempt } => write!(f, "Ended({attempt})"),
            Reply::Certificate => write!(f, "Certificate"),
            Reply::Challenge { name } => write!(f, "Challenge({name:?})"),
            Reply::Device(reply) => write!(f, "{reply:?}"),
            Reply::Figures => write!(f, "Figures"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn kept() -> Kept {
        Kept { login: 7, cookie_hash: [97; 32], origin_secret_hash: [97; 32], device: None }
    }

    fn requests() -> Vec<Request> {
        vec![
            Request::Begin { attempt: 1, source: Ipv6Addr::LOCALHOST, user: "jürgen".into() },
            Request::Answers { attempt: 2, answers: vec![b"a".to_vec(), vec![]] },
            Request::Cancel { attempt: u64::MAX },
            Request::Resume { attempt: 4, cookie: [5; 32], origin_secret: [6; 32] },
            Request::End { attempt: 4, cookie: [7; 32] },
            Request::Keep(kept()),
            Request::Keep(Kept { device: Some(DeviceId([3; 16])), ..kept() }),
            Request::Forget,
            Request::Note {
                cookie: [8; 32],
                source: Ipv6Addr::LOCALHOST,
                viewer: 9,
                deed: Deed::Ended,
                session: "desk".into(),
            },
            Request::Answering { name: "desk.example".into() },
        ]
    }

    fn replies() -> Vec<Reply> {
        let prompt = |style, text: &str| Prompt { style, text: text.to_owned() };
        vec![
            Reply::Prompts {
                attempt: 1,
                prompts: vec![
                    prompt(Style::Text, "Expired"),
                    prompt(Style::Hidden, "Password:"),
                    prompt(Style::Shown, "Code:"),
                ],
            },
            Reply::Refused { attempt: 2, reason: Reason::Busy },
            Reply::Refused { attempt: 2, reason: Reason::Refused },
            Reply::Refused { attempt: 2, reason: Reason::Draining },
            Reply::Drain { is_draining: true },
            Reply::Kept { login: 7, age_ms: 5, user: "anna".into(), kept: Some(kept()) },
            Reply::Kept {
                login: 7,
                age_ms: 5,
                user: "anna".into(),
                kept: Some(Kept { device: Some(DeviceId([3; 16])), ..kept() }),
            },
            Reply::Kept { login: 8, age_ms: 6, user: "otto".into(), kept: None },
            Reply::Ended { attempt: 1 },
            Reply::Certificate,
            Reply::Challenge { name: "desk.example".into() },
            Reply::Figures,
            Reply::Admitted {
                attempt: 3,
                cookie: [1; 32],
                origin_secret: [2; 32],
                user: "anna".into(),
            },
        ]
    }

    #[test]
    fn each_message_survives_and_no_part_or_extension_of_it_is_one() {
        for request in requests() {
            let packet = request.encode();
            assert_eq!(Request::decode(&packet).unwrap(), request);
            assert!((0..packet.len()).all(|end| Request::decode(&packet[..end]).is_err()));
            assert!(Request::decode(&[packet, vec![0]].concat()).is_err());
        }
        for reply in replies() {
            let packet = reply.encode();
            assert_eq!(Reply::decode(&packet).unwrap(), reply);
            assert!((0..packet.len()).all(|end| Reply::decode(&packet[..end]).is_err()));
            assert!(Reply::decode(&[packet, vec![0]].concat()).is_err());
        }
    }

    #[test]
    fn a_front_is_told_whom_to_trust() {
        let network = "10.0.0.0/8".parse().unwrap();
        let start = Start {
            trusted_proxies: TrustedProxies(vec![network; TRUSTED_MAX]),
            udp_sockets: 16,
            has_guests: true,
            remember_s: 86_400,
            banner: vec!["x".repeat(499); 4].join("\n"),
            rates: Rates { uplink: Some(2_500_000), session: None },
        };
        let packet = start.encode();
        assert!(packet.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(Start::decode(&packet), Ok(start));
        assert!((0..packet.len()).all(|end| Start::decode(&packet[..end]).is_err()));
        assert!(Start::decode(&[packet, vec![0]].concat()).is_err());
    }

    #[test]
    fn limits_are_kept() {
        let begin = |user: String| Request::Begin { attempt: 1, source: 0.into(), user }.encode();
        assert!(Request::decode(&begin("x".repeat(USER_BYTES_MAX))).is_ok());
        for bad in ["x".repeat(USER_BYTES_MAX + 1), String::new(), "a\nb".into(), "a\0".into()] {
            assert!(Request::decode(&begin(bad)).is_err());
        }
        let answers = |count: usize, bytes: usize| {
            Request::Answers { attempt: 1, answers: vec![vec![b'x'; bytes]; count] }.encode()
        };
        assert!(Request::decode(&answers(PROMPTS_MAX, TEXT_BYTES_MAX)).is_ok());
        assert!(Request::decode(&answers(PROMPTS_MAX + 1, 1)).is_err());
        assert!(Request::decode(&answers(1, TEXT_BYTES_MAX + 1)).is_err());
        assert_eq!(Request::decode(&[3; 5000]), Err(MessageError::TooLong(5000)));

        let long = Prompt { style: Style::Text, text: "ü".repeat(TEXT_BYTES_MAX) };
        let reply = Reply::Prompts { attempt: 1, prompts: vec![long; PROMPTS_MAX + 3] };
        let packet = reply.encode();
        assert!(packet.len() <= MESSAGE_BYTES_MAX);
        let Ok(Reply::Prompts { prompts, .. }) = Reply::decode(&packet) else { panic!() };
        assert_eq!((prompts.len(), prompts[0].text.len()), (PROMPTS_MAX, TEXT_BYTES_MAX - 1));
    }

    /// Texts of all kinds, of which each rule allows some and forbids others.
    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            "[!-~]{0,310}",
            "[ -~\\t]{0,80}",
            "[a-z0-9_.-]{0,70}",
            ".{0,300}",
            any::<String>()
        ]
    }

    proptest! {
        #[test]
        fn the_helper_reads_what_the_rules_of_the_front_allow(text in texts()) {
            let reads = |request: Request| Request::decode(&request.encode()).is_ok();
            let (attempt, source) = (1, Ipv6Addr::LOCALHOST);
            let user = text.clone();
            prop_assert_eq!(is_user_name(&text), reads(Request::Begin { attempt, source, user }));
            let (cookie, viewer, deed) = ([1; 32], 1, Deed::Opened);
            let session = text.clone();
            let note = Request::Note { cookie, source, viewer, deed, session };
            prop_assert_eq!(is_session_name(&text), reads(note));
            // Longer ones are cut.
            let (device, place) = (DeviceId([1; 16]), text.clone());
            let sign_in = DeviceRequest::SignIn { attempt, source, device, place };
            prop_assert!(!is_place(&text) || reads(Request::Device(sign_in)));
            let (key, name) = ([4; 65], text.clone());
            let remember = DeviceRequest::Remember { attempt, cookie, key, name };
            prop_assert!(!is_device_name(&text) || reads(Request::Device(remember)));
        }

        #[test]
        fn the_helper_reads_the_answers_that_fit(
            lengths in vec(0..TEXT_BYTES_MAX + 2, 0..PROMPTS_MAX + 2)
        ) {
            let answer = |bytes| vec![b'x'; bytes];
            let answers: Vec<Vec<u8>> = lengths.into_iter().map(answer).collect();
            let fit = are_answers(&answers);
            let packet = Request::Answers { attempt: 1, answers }.encode();
            prop_assert_eq!(fit, Request::decode(&packet).is_ok());
        }
    }

    #[test]
    fn logs_show_no_secret() {
        let shown = format!("{:?} {:?}", requests(), replies());
        assert!(!shown.contains("97") && !shown.contains("[5, 5") && !shown.contains("[1, 1"));
    }
}
