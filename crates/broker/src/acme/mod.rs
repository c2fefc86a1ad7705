//! Certificates by ACME (RFC 8555): what the helper does for it. Beside the path: between
//! process.rs, which speaks with the ACME server as an account without privileges, certificate.rs,
//! which shows what was issued, and the front, which answers the challenge. Runs as root; reads no
//! byte of the network; knows files, and PEM.
//!
//! Packets, one kind each: to the process a [`Start`] as JSON, then READY; from it the kinds of
//! [`Told`].

pub(crate) mod client;
pub(crate) mod process;

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::unistd::User;
use serde::{Deserialize, Serialize};
use thinc_transport::identity::Identity;
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::warn;

use crate::certificate::IDENTITY_BYTES_MAX;
use crate::packets::{self, Channel};
use crate::{BrokerError, BrokerOptions};

/// Names of one certificate.
pub const NAMES_MAX: usize = 32;
/// Let's Encrypt.
const DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
/// Longest packet of either side: key and chain, or what a new process is told.
const PACKET_BYTES_MAX: usize = 2 * IDENTITY_BYTES_MAX;
/// Longest account, and longest failure that is recorded, in bytes.
const ACCOUNT_BYTES_MAX: usize = 4096;
const FAILURE_BYTES_MAX: usize = 1024;
/// A process that ends is started again after this.
const RESTART_DELAY: Duration = Duration::from_secs(60);

/// What an administrator wants of ACME; nothing without names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcmeOptions {
    /// DNS names of the certificate.
    pub names: Vec<String>,
    /// Where the ACME server writes to.
    pub contact: Option<String>,
    /// The ACME server's directory, another one than Let's Encrypt's.
    pub directory: Option<String>,
    /// Certificates that the ACME server is trusted by, instead of the system's.
    pub roots: Option<PathBuf>,
}

/// What a process is told first.
#[derive(Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) names: Vec<String>,
    pub(crate) contact: Option<String>,
    pub(crate) directory: String,
    pub(crate) roots: Option<PathBuf>,
    /// As it was told before.
    pub(crate) account: Option<String>,
    /// Key and chain as PEM.
    pub(crate) certificate: Option<String>,
}

/// The packet that says that the front answers a challenge.
pub(crate) const READY: &[u8] = b"ready";

/// What a process tells: a byte for the kind, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The account, to be kept.
    Account(Vec<u8>),
    /// The name, and key and certificate of its challenge, as PEM; answered with [`READY`].
    Challenge(String, Vec<u8>),
    /// Key and chain, as PEM.
    Certificate(Vec<u8>),
    /// Why there is none, and when it is tried again.
    Failed(String),
}

impl Told {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, bytes) = match self {
            Told::Account(bytes) => (1, bytes.as_slice()),
            Told::Challenge(name, bytes) => {
                return [&[2], name.as_bytes(), b"\n", bytes].concat();
            }
            Told::Certificate(bytes) => (3, bytes.as_slice()),
            Told::Failed(text) => {
                (4, &text.as_bytes()[..text.floor_char_boundary(FAILURE_BYTES_MAX)])
            }
        };
        [&[kind], bytes].concat()
    }

    /// `None` for what no process sends.
    pub fn decode(packet: &[u8]) -> Option<Told> {
        let (kind, bytes) = packet.split_first()?;
        match (kind, bytes.len()) {
            (1, 1..=ACCOUNT_BYTES_MAX) => Some(Told::Account(bytes.to_vec())),
            (2, 1..=IDENTITY_BYTES_MAX) => {
                let at = bytes.iter().position(|&byte| byte == b'\n')?;
                let name = std::str::from_utf8(&bytes[..at]).ok()?.to_owned();
                Some(Told::Challenge(name, bytes[at + 1..].to_vec()))
            }
            (3, 1..=IDENTITY_BYTES_MAX) => Some(Told::Certificate(bytes.to_vec())),
            (4, 0..=FAILURE_BYTES_MAX) => {
                let text = std::str::from_utf8(bytes).ok()?;
                Some(Told::Failed(text.replace(char::is_control, " ")))
            }
            _ => None,
        }
    }
}

/// The folder with account, certificate and the last failure.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn of(state: &Path) -> Folder {
        Folder(state.join("acme"))
    }

    /// Key and chain in one file.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.0.join("certificate.pem")
    }

    fn account(&self) -> PathBuf {
        self.0.join("account.json")
    }

    fn failure(&self) -> PathBuf {
        self.0.join("failure")
    }

    /// The last failure with its time, unless a certificate came after it.
    pub(crate) fn last_failure(&self) -> Option<String> {
        fs::read_to_string(self.failure()).ok()
    }

    /// Written whole or not at all, and for root only.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let new = path.with_extension("new");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    }
}

/// What the rest of the helper does for ACME.
pub(crate) enum Event {
    /// The front has to answer for this name with this; then say so.
    Challenge(String, Vec<u8>, oneshot::Sender<()>),
    /// A certificate was issued, and is in the folder.
    Issued,
}

/// Keeps a process that gets and renews the certificate, without end.
pub(crate) async fn run(
    options: AcmeOptions,
    folder: Folder,
    user: User,
    events: mpsc::Sender<Event>,
) {
    loop {
        match run_one(&options, &folder, &user, &events).await {
            Ok(()) => warn!("the process for ACME has ended; restarting it"),
            Err(error) => warn!("the process for ACME: {error}; restarting it"),
        }
        sleep(RESTART_DELAY).await;
    }
}

async fn run_one(
    options: &AcmeOptions,
    folder: &Folder,
    user: &User,
    events: &mpsc::Sender<Event>,
) -> io::Result<()> {
    let (mut process, channel) = spawn(user)?;
    let directory = options.directory.clone().unwrap_or_else(|| DIRECTORY.to_owned());
    let start = Start {
        names: options.names.clone(),
        contact: options.contact.clone(),
        directory,
        roots: options.roots.clone(),
        account: fs::read_to_string(folder.account()).ok(),
        certificate: fs::read_to_string(folder.certificate()).ok(),
    };
    channel.send(&serde_json::to_vec(&start)?, &[]).await?;
    drop(start);
    loop {
        let packet = channel.receive(PACKET_BYTES_MAX).await?;
        if packet.bytes.is_empty() {
            process.wait().await?;
            return Ok(());
        }
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "it sent what it must not");
        match Told::decode(&packet.bytes).ok_or_else(invalid)? {
            Told::Account(account) => folder.write(&folder.account(), &account)?,
            Told::Challenge(name, _) if !options.names.contains(&name) => return Err(invalid()),
            Told::Challenge(name, pem) => {
                let (answered, answer) = oneshot::channel();
                let _ = events.send(Event::Challenge(name, pem, answered)).await;
                // A front that ends meanwhile does not answer: the order fails, and another begins.
                if answer.await.is_ok() {
                    channel.send(READY, &[]).await?;
                }
            }
            Told::Certificate(pem) => {
                let path = folder.certificate();
                // The pair has to belong together before it takes the old one's place.
                Identity::from_pem((&path, &pem), (&path, &pem))
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                folder.write(&path, &pem)?;
                let _ = fs::remove_file(folder.failure());
                let _ = events.send(Event::Issued).await;
            }
            Told::Failed(text) => {
                warn!("no certificate by ACME: {text}");
                let now = humantime::format_rfc3339_seconds(SystemTime::now());
                folder.write(&folder.failure(), format!("{now}: {text}").as_bytes())?;
            }
        }
    }
}

fn spawn(user: &User) -> io::Result<(Child, Channel)> {
    let (near, far) = packets::pair()?;
    // A packet is as long as the buffer allows.
    for end in [near.as_fd(), far.as_fd()] {
        rustix::net::sockopt::set_socket_send_buffer_size(end, 4 * PACKET_BYTES_MAX)?;
    }
    let child = crate::spawn_part("acme", user, far)?;
    Ok((child, Channel::new(near)?))
}

/// What is wrong with the last attempt, for `thinc broker --check`.
pub(crate) fn check(options: &BrokerOptions) -> Result<(), BrokerError> {
    match Folder::of(&options.state).last_failure() {
        Some(failure) if !options.acme.names.is_empty() => Err(BrokerError::Acme(failure)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_tells_is_read_again_and_nothing_else() {
        let told = [
            Told::Account(b"{}".to_vec()),
            Told::Challenge("desk.example".to_owned(), b"x".to_vec()),
            Told::Certificate(vec![b'y'; IDENTITY_BYTES_MAX]),
            Told::Failed("no such host".to_owned()),
        ];
        for told in told {
            assert_eq!(Told::decode(&told.encode()), Some(told));
        }
        let long = Told::Certificate(vec![b'y'; IDENTITY_BYTES_MAX + 1]).encode();
        for bad in [&b""[..], &[0], &[1], &[2, 1], &[5, 1], &[4, 0xff], &long] {
            assert_eq!(Told::decode(bad), None);
        }
        let cut = Told::Failed("ü".repeat(1000)).encode();
        assert!(matches!(Told::decode(&cut), Some(Told::Failed(text)) if text.len() == 1024));
        assert_eq!(Told::decode(b"\x04a\nb"), Some(Told::Failed("a b".to_owned())));
    }
}
