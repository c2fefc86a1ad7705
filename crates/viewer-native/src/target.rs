//! What a person names on the command line: a link to a session's port, or a place where ssh leads.
//! From cli.rs, to client.rs, which connects there again and again.
//! Knows words; never sockets.

use std::time::Duration;

use thinc_transport::{Link, SpkiPin};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::ViewError;
use crate::ssh::{LOGIN_TIME, SshTarget};

/// Where a session is and what opens it.
#[derive(Clone, Debug)]
pub enum Target {
    /// TLS, with a token.
    Link(Link),
    /// Whatever ssh asks for.
    Ssh(SshTarget),
}

impl Target {
    /// For the window's title and messages.
    pub fn host(&self) -> String {
        match self {
            Target::Link(link) => link.authority(),
            Target::Ssh(target) => target.host().to_owned(),
        }
    }

    /// How long the first connection may take where nothing but connecting may take this long: ssh may ask for a password.
    pub(crate) fn connect_limit(&self, timeout: Duration) -> Duration {
        match self {
            Target::Link(_) => timeout,
            Target::Ssh(_) => timeout + LOGIN_TIME,
        }
    }

    /// Names what is kept of this session's pixels: by the server's key, or by where ssh leads, which checks that itself.
    pub(crate) fn cache_name(&self, pin: Option<&SpkiPin>) -> String {
        let key: String = pin.map_or("ssh".to_owned(), |pin| pin.0.iter().map(|byte| format!("{byte:02x}")).collect());
        let place = match self {
            Target::Link(link) => format!("{}{}", link.authority(), link.base_path),
            Target::Ssh(target) => target.to_string(),
        };
        format!("{key}-{:016x}", xxh3_64(place.as_bytes()))
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Target {
        Target::Link(link)
    }
}

impl std::str::FromStr for Target {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Target, ViewError> {
        match text.trim().strip_prefix(SshTarget::SCHEME) {
            Some(place) => Ok(Target::Ssh(SshTarget::parse(place)?)),
            None => Ok(Target::Link(text.parse()?)),
        }
    }
}
