//! The link that a person opens: where a session is, the key that it must show, and a token that
//! opens it once. From `thinc serve` and `thinc link`, to a browser's address line or thinc-view's
//! argument. Knows text; every part of a parsed link is valid.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::DEFAULT_PORT;
use crate::base64url;
use crate::pin::SpkiPin;

/// Longest link that is parsed, in bytes.
const LINK_BYTES_MAX: usize = 2048;
/// Longest token, in bytes; `Auth` frames have the same limit.
const TOKEN_BYTES_MAX: usize = 128;

/// Length of the token of an invitation, one byte more than an owner's: its first byte is the form.
pub(crate) const INVITATION_TOKEN_BYTES: usize = 57;
/// Behind a broker the ID of the desktop follows, which the broker finds the session by.
pub const DESKTOP_ID_BYTES: usize = 16;
/// Forms of an invitation's token: a guest has to give a name.
pub(crate) const INVITATION_NAME: u8 = 1;
/// The same, and a password.
pub(crate) const INVITATION_PASSWORD: u8 = 2;

/// What a viewer has to ask a person for who was invited. A hint: the session decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvitationHint {
    /// The invitation has a password.
    pub password: bool,
}

/// The viewer that a link is written for; both forms name the same place, and every viewer accepts
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `https://`: opens in a browser.
    Https,
    /// `thinc://`: opens in thinc-view.
    Thinc,
}

/// `https://host:port/base/#t=TOKEN&k=PIN`, or the same with `thinc://`.
///
/// Token and pin stand in the fragment: browsers never send it to a server, nor in a `Referer`.
#[derive(Clone, PartialEq, Eq)]
pub struct Link {
    /// The form it was written in.
    pub scheme: Scheme,
    /// Name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Begins and ends with `/`; `/` alone where the session is at the top.
    pub base_path: String,
    /// Opens the session once; absent if a session credential is used instead.
    pub token: Option<Vec<u8>>,
    /// The public key the session must show; absent: the key seen first is remembered.
    pub pin: Option<SpkiPin>,
    /// What a person who was invited has answered; no part of the text.
    pub guest: Option<GuestLogin>,
}

/// The answers of a person who was invited.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct GuestLogin {
    /// What the others see.
    pub name: String,
    /// Empty if the invitation has none.
    pub password: String,
}

/// Why a text is not a link.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LinkError {
    /// Longer than LINK_BYTES_MAX.
    #[error("the link has {0} bytes; {LINK_BYTES_MAX} is the limit")]
    TooLong(usize),
    /// Neither scheme.
    #[error("a link must begin with https:// or thinc://")]
    Scheme,
    /// No host, or characters that no host has.
    #[error("\"{0}\" is not a host name or address")]
    Host(String),
    /// Not 1 to 65535.
    #[error("\"{0}\" is not a port number: use 1 to 65535")]
    Port(String),
    /// Characters that are not allowed in the path.
    #[error("\"{0}\" is not a path: use A-Z a-z 0-9 / - . _ ~ %")]
    Path(String),
    /// An invalid part of the fragment.
    #[error("the part \"{0}=\" of the link is damaged: was the whole link copied?")]
    Fragment(char),
}

impl Link {
    /// The same link in the form of this scheme.
    pub fn with_scheme(&self, scheme: Scheme) -> Link {
        Link { scheme, ..self.clone() }
    }

    /// What the viewer has to ask a person for, if the link is an invitation.
    pub fn invitation(&self) -> Option<InvitationHint> {
        match self.token.as_deref()? {
            [form @ (INVITATION_NAME | INVITATION_PASSWORD), rest @ ..]
                if rest.len() + 1 == INVITATION_TOKEN_BYTES
                    || rest.len() + 1 == INVITATION_TOKEN_BYTES + DESKTOP_ID_BYTES =>
            {
                Some(InvitationHint { password: *form == INVITATION_PASSWORD })
            }
            _ => None,
        }
    }

    /// `host:port` as it is written in a link or a `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// The token of an invitation, and the ID of the desktop behind a broker that follows it there.
pub fn split_desktop_id(token: &[u8]) -> Option<(&[u8], [u8; DESKTOP_ID_BYTES])> {
    let (token, id) = token.split_at_checked(INVITATION_TOKEN_BYTES)?;
    Some((token, id.try_into().ok()?))
}

/// The form of `path` that links and the session use: `/`, or `/…/`; `None` for an invalid path.
pub fn normalize_base_path(path: &str) -> Option<String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%".contains(&byte);
    let inner = path.trim_matches('/');
    if !path.bytes().all(is_allowed)
        || inner.split('/').any(|part| part == "." || part == "..")
        || inner.contains("//")
    {
        return None;
    }
    Some(if inner.is_empty() { "/".to_owned() } else { format!("/{inner}/") })
}

impl FromStr for Link {
    type Err = LinkError;

    fn from_str(text: &str) -> Result<Link, LinkError> {
        let text = text.trim();
        if text.len() > LINK_BYTES_MAX {
            return Err(LinkError::TooLong(text.len()));
        }
        let (scheme, default_port, rest) = if let Some(rest) = text.strip_prefix("https://") {
            (Scheme::Https, 443, rest)
        } else if let Some(rest) = text.strip_prefix("thinc://") {
            (Scheme::Thinc, DEFAULT_PORT, rest)
        } else {
            return Err(LinkError::Scheme);
        };
        let (place, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (authority, path) = match place.find('/') {
            Some(at) => place.split_at(at),
            None => (place, "/"),
        };
        let (host, port) = split_authority(authority)?;
        let port = match port {
            None => default_port,
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|&port: &u16| port != 0 && digits.bytes().all(|byte| byte.is_ascii_digit()))
                .ok_or_else(|| LinkError::Port(digits.to_owned()))?,
        };
        let base_path =
            normalize_base_path(path).ok_or_else(|| LinkError::Path(path.to_owned()))?;
        let (mut token, mut pin) = (None, None);
        for part in fragment.split('&').filter(|part| !part.is_empty()) {
            // Unknown parts are ignored: later versions may define them.
            if let Some(value) = part.strip_prefix("t=") {
                let bytes = base64url::decode(value)
                    .filter(|bytes| (1..=TOKEN_BYTES_MAX).contains(&bytes.len()));
                token = Some(bytes.ok_or(LinkError::Fragment('t'))?);
            } else if let Some(value) = part.strip_prefix("k=") {
                pin = Some(value.parse().map_err(|_| LinkError::Fragment('k'))?);
            }
        }
        Ok(Link { scheme, host: host.to_owned(), port, base_path, token, pin, guest: None })
    }
}

fn split_authority(authority: &str) -> Result<(&str, Option<&str>), LinkError> {
    let invalid = || LinkError::Host(authority.to_owned());
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(invalid)?;
        // Zone names ("%eth0") are accepted: link-local addresses need them.
        if host
            .split('%')
            .next()
            .is_none_or(|address| address.parse::<std::net::Ipv6Addr>().is_err())
        {
            return Err(invalid());
        }
        (
            host,
            if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(invalid)?) },
        )
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(is_allowed) {
        return Err(invalid());
    }
    Ok((host, port))
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Https => "https",
            Scheme::Thinc => "thinc",
        };
        write!(f, "{scheme}://{}{}", self.authority(), self.base_path)?;
        let token = self.token.as_ref().map(|token| format!("t={}", base64url::encode(token)));
        let pin = self.pin.as_ref().map(|pin| format!("k={pin}"));
        let parts: Vec<String> = token.into_iter().chain(pin).collect();
        if !parts.is_empty() {
            write!(f, "#{}", parts.join("&"))?;
        }
        Ok(())
    }
}

/// For logs: never shows the token.
impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "(secret)");
        f.debug_struct("Link")
            .field("authority", &self.authority())
            .field("base_path", &self.base_path)
            .field("token", &token)
            .field("pin", &self.pin)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn both_schemes_name_the_same_place() {
        let browser: Link = format!("https://127.0.0.1:8443/desk/#t=Zm9v&k={PIN}").parse().unwrap();
        let native: Link = format!("thinc://127.0.0.1:8443/desk/#t=Zm9v&k={PIN}").parse().unwrap();
        assert_eq!(browser.with_scheme(Scheme::Thinc), native);
        assert_eq!(native.with_scheme(Scheme::Https), browser);
        assert_eq!(native.token.as_deref(), Some(&b"foo"[..]));
        assert_eq!(native.base_path, "/desk/");
        for link in [browser, native] {
            assert_eq!(link.to_string().parse::<Link>().unwrap(), link);
        }
    }

    #[test]
    fn default_ports_and_ipv6_addresses_are_parsed() {
        let link: Link = "thinc://[::1]".parse().unwrap();
        assert_eq!(
            (link.host.as_str(), link.port, link.base_path.as_str()),
            ("::1", DEFAULT_PORT, "/")
        );
        assert_eq!(link.to_string(), "thinc://[::1]:8443/");
        let link: Link = "https://server.example".parse().unwrap();
        assert_eq!((link.port, link.token, link.pin), (443, None, None));
        let link: Link = "thinc://[fe80::1%eth0]:9/".parse().unwrap();
        assert_eq!(link.host, "fe80::1%eth0");
    }

    #[test]
    fn the_error_names_the_damaged_part_of_a_link() {
        let error = |text: &str| text.parse::<Link>().unwrap_err();
        assert_eq!(error("http://host/"), LinkError::Scheme);
        assert_eq!(error("thinc:///"), LinkError::Host(String::new()));
        assert_eq!(error("thinc://user@host/"), LinkError::Host("user@host".into()));
        assert_eq!(error("thinc://[::g]:1/"), LinkError::Host("[::g]:1".into()));
        for port in ["0", "65536", "+1", "x", ""] {
            assert_eq!(error(&format!("thinc://host:{port}/")), LinkError::Port(port.into()));
        }
        assert_eq!(error("thinc://host/../x"), LinkError::Path("/../x".into()));
        assert_eq!(error("thinc://host/a?b"), LinkError::Path("/a?b".into()));
        assert_eq!(error("thinc://host/#t=Z"), LinkError::Fragment('t'));
        assert_eq!(error("thinc://host/#k=Zm9v"), LinkError::Fragment('k'));
        assert_eq!(
            error(&format!("thinc://host/#t={}", "A".repeat(3000))),
            LinkError::TooLong(3016)
        );
        assert_eq!(
            error(&format!("thinc://host/#t={}", "A".repeat(1000))),
            LinkError::Fragment('t')
        );
    }

    #[test]
    fn debug_output_does_not_contain_the_token() {
        let link: Link = format!("thinc://host/#t=c2VjcmV0c2VjcmV0&k={PIN}").parse().unwrap();
        assert!(!format!("{link:?}").contains("c2VjcmV0"));
    }
}
