//! The certificate that people's browsers are shown: self-made, or the administrator's files, which
//! are read again when they have changed and on SIGHUP. Beside the path: from files, to helper.rs,
//! which passes it to the front through a pipe. Runs as root; knows files and keys; never who
//! connects.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use thinc_transport::SpkiPin;
use thinc_transport::identity::{Identity, IdentityError};
use thinc_transport::renewal::{IdentityFiles, Loaded};
use tokio::signal::unix::Signal;
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use crate::acme::Folder;
use crate::{BrokerError, BrokerOptions};

/// Key and chain together: the pipe that they go through holds this much.
pub(crate) const IDENTITY_BYTES_MAX: usize = 60 * 1024;

/// What the front shows, with its private key, as PEM.
pub(crate) type Pem = Rc<Vec<u8>>;

/// Where it comes from.
pub(crate) struct Certificate {
    files: IdentityFiles,
    is_self_made: bool,
    /// Where what ACME brings is, if it is used.
    acme: Option<PathBuf>,
}

impl Certificate {
    /// The files that the options name, or the self-made one, which is made if there is none.
    pub(crate) fn open(options: &BrokerOptions) -> Result<(Certificate, Loaded), BrokerError> {
        let is_acme = !options.acme.names.is_empty();
        let acme = is_acme.then(|| Folder::of(&options.state).certificate());
        if let Some(path) = &acme {
            let mut files = IdentityFiles::new(path, path);
            match checked(files.load()) {
                Ok(loaded) => {
                    return Ok((Certificate { files, is_self_made: false, acme }, loaded));
                }
                // There is none yet.
                Err(_) if !path.exists() => {}
                Err(error) => warn!("{error}; another one is asked for by ACME"),
            }
        }
        let is_self_made = options.certificate.is_none();
        let own = options.state.join("identity.pem");
        if is_self_made {
            Identity::load_or_create(&options.state)?;
        }
        let (chain, key) = options.certificate.as_ref().map_or((&own, &own), |(c, k)| (c, k));
        let files = IdentityFiles::new(chain, key);
        let mut certificate = Certificate { files, is_self_made, acme };
        let loaded = checked(certificate.files.load())?;
        Ok((certificate, loaded))
    }

    /// A note for the line with the key's SHA-256.
    pub(crate) fn kind(&self) -> &'static str {
        if self.is_self_made { ", self-signed" } else { "" }
    }

    /// Passes each pair that the files come to hold, without end. One that cannot be used is
    /// reported, and the last one stays.
    /// `issued`: by ACME.
    pub(crate) async fn renew(
        mut self,
        mut hangup: Signal,
        issued: Rc<Notify>,
        shown: watch::Sender<Pem>,
    ) {
        loop {
            let result = tokio::select! {
                result = self.files.changed() => result,
                _ = hangup.recv() => self.files.load(),
                () = issued.notified() => {
                    let path = self.acme.as_ref().expect("it is used");
                    self.files = IdentityFiles::new(path, path);
                    self.files.load()
                }
            };
            let path = self.files.certificates().display();
            match checked(result) {
                Ok(new) => {
                    info!(
                        "new connections get the certificate that is in {path} now; the SHA-256 of \
                            its public key: {}",
                        hex(&new.identity.pin())
                    );
                    shown.send_replace(Rc::new(new.pem));
                }
                Err(error) => {
                    warn!("the certificate stays the one from before: {error}");
                }
            }
        }
    }
}

fn checked(loaded: Result<Loaded, IdentityError>) -> Result<Loaded, BrokerError> {
    let loaded = loaded?;
    if loaded.pem.len() > IDENTITY_BYTES_MAX {
        return Err(BrokerError::LongIdentity(loaded.pem.len(), IDENTITY_BYTES_MAX));
    }
    Ok(loaded)
}

/// A pin as people compare it.
pub(crate) fn hex(pin: &SpkiPin) -> String {
    pin.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The reading end of a pipe that holds it: the front opens no file.
pub(crate) fn pipe_with(pem: &[u8]) -> io::Result<OwnedFd> {
    let (read, mut write) = io::pipe()?;
    write.write_all(pem)?;
    Ok(read.into())
}
