//! The target on the command line: a link to a session's port, or a host reached through ssh.
//! From cli.rs, to client.rs, which connects to it repeatedly. Knows names; never sockets.

use std::time::Duration;

use thinc_transport::{Link, SpkiPin};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::ViewError;
use crate::ssh::{LOGIN_TIME, SshTarget};

/// Address of a session and the credentials for it.
#[derive(Clone, Debug)]
pub enum Target {
    /// A link with a token, over QUIC or TLS.
    Link(Link),
    /// Through ssh, which authenticates itself.
    Ssh(SshTarget),
}

impl Target {
    /// The host, for the window's title and messages.
    pub fn host(&self) -> String {
        match self {
            Target::Link(link) => link.authority(),
            Target::Ssh(target) => target.host().to_owned(),
        }
    }

    /// Time-out of the first connection: ssh or a broker may prompt for a password, and a person
    /// may compare a key that the link does not name.
    pub(crate) fn connect_limit(&self, timeout: Duration) -> Duration {
        match self {
            Target::Link(link) if link.pin.is_none() || link.token.is_none() => {
                timeout + LOGIN_TIME
            }
            Target::Link(_) => timeout,
            Target::Ssh(_) => timeout + LOGIN_TIME,
        }
    }

    /// File name of this session's cached pixels: from the server's key, or from the ssh target,
    /// whose host key ssh checks itself.
    pub(crate) fn cache_name(&self, pin: Option<&SpkiPin>) -> String {
        let key: String = pin.map_or("ssh".to_owned(), |pin| {
            pin.0.iter().map(|byte| format!("{byte:02x}")).collect()
        });
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
