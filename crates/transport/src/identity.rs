//! A server's certificate and key: generated at the first start and reused, or given by the
//! administrator. From files, to the TLS acceptor of session or broker and the pin in every link;
//! renewal.rs reads files again. Knows keys and certificates; never what a connection carries.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::pin::SpkiPin;
use crate::renewal::IdentityFiles;
use crate::{ALPN_HTTP, ALPN_NATIVE};

/// Why there is no identity.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// A file or folder cannot be used.
    #[error("cannot {what} {path}: {error}")]
    File {
        /// "read", "create", …
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The key can be read by others.
    #[error(
        "{path} can be read or changed by others (mode {mode:o}): run chmod 600 {path}",
        path = .path.display()
    )]
    Mode {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Not PEM, or without the expected content.
    #[error("{path} holds no usable {what}: {error}")]
    Content {
        /// "certificate" or "private key".
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// rcgen failed.
    #[error("cannot make a certificate: {0}")]
    Make(String),
}

/// What a server proves its identity with. Clones are the same identity, and so are the TLS
/// configurations made from one: when it is replaced, each new handshake shows the new one.
#[derive(Clone, Debug)]
pub struct Identity(Arc<RwLock<Shown>>);

/// What a handshake shows.
#[derive(Debug)]
struct Shown {
    /// The chain, end entity first, with its key.
    certified: Arc<CertifiedKey>,
    /// The pin in links.
    pin: SpkiPin,
}

impl Identity {
    /// The identity in `folder` (key and certificate in one file, `identity.pem`, mode 0600), made
    /// if there is none.
    pub fn load_or_create(folder: &Path) -> Result<Identity, IdentityError> {
        let path = folder.join("identity.pem");
        let file = |what, error| IdentityError::File { what, path: path.clone(), error };
        if !path.try_exists().map_err(|error| file("read", error))? {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
                IdentityError::File { what: "create", path: folder.to_owned(), error }
            })?;
            let pem = make_pem().map_err(|error| IdentityError::Make(error.to_string()))?;
            // Two first starts at the same time: each writes its own file, the first hard link
            // wins, and both read the winner's file.
            let mine = folder.join(format!(".identity.{}", std::process::id()));
            let written = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&mine)
                .and_then(|mut out| out.write_all(pem.as_bytes()).and_then(|()| out.sync_all()))
                .and_then(|()| match fs::hard_link(&mine, &path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    other => other,
                });
            let _ = fs::remove_file(&mine);
            written.map_err(|error| file("create", error))?;
        }
        Identity::load(&path, &path)
    }

    /// The identity in these PEM files; both may be one file.
    pub fn load(certificates: &Path, key: &Path) -> Result<Identity, IdentityError> {
        IdentityFiles::new(certificates, key).load().map(|loaded| loaded.identity)
    }

    /// The identity in the contents of these PEM files; the paths are for errors.
    pub fn from_pem(
        (certificates, chain): (&Path, &[u8]),
        (key, private): (&Path, &[u8]),
    ) -> Result<Identity, IdentityError> {
        let content = |what, path: &Path, error: String| IdentityError::Content {
            what,
            path: path.to_owned(),
            error,
        };
        let private = PrivateKeyDer::from_pem_slice(private)
            .map_err(|error| content("private key", key, error.to_string()))?;
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| content("certificate", certificates, error.to_string()))?;
        let first = chain
            .first()
            .ok_or_else(|| content("certificate", certificates, "none in it".to_owned()))?;
        let pin = SpkiPin::of_certificate(first)
            .map_err(|error| content("certificate", certificates, error.to_string()))?;
        // Fails now, and not at the first viewer, if key and certificate do not belong together.
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(chain, private, &provider)
            .map_err(|error| content("pair of certificate and key", key, error.to_string()))?;
        Ok(Identity(Arc::new(RwLock::new(Shown { certified: Arc::new(certified), pin }))))
    }

    /// The SHA-256 of the public key, as in links.
    pub fn pin(&self) -> SpkiPin {
        self.0.read().expect("no holder of this lock can panic").pin
    }

    /// From now on handshakes show what `new` shows; established connections go on.
    pub fn replace(&self, new: &Identity) {
        let (certified, pin) = (new.certified(), new.pin());
        *self.0.write().expect("no holder of this lock can panic") = Shown { certified, pin };
    }

    fn certified(&self) -> Arc<CertifiedKey> {
        self.0.read().expect("no holder of this lock can panic").certified.clone()
    }

    /// TLS 1.3 and nothing older; `thinc/1` for native viewers, else HTTP/1.1; no resumption, no
    /// early data.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.clone()));
        config.alpn_protocols = vec![ALPN_NATIVE.to_vec(), ALPN_HTTP.to_vec()];
        // A viewer connects once and stays connected: session tickets would only cost bytes and
        // memory.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certified())
    }
}

/// Key and self-signed certificate as PEM. It is valid for decades because viewers pin the key and
/// ignore dates.
fn make_pem() -> Result<String, rcgen::Error> {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if !host.is_empty()
        && !names.contains(&host)
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
    {
        names.push(host);
    }
    let mut params = rcgen::CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "thinc session");
    params.not_before = rcgen::date_time_ymd(2025, 1, 1);
    params.not_after = rcgen::date_time_ymd(2099, 1, 1);
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = params.self_signed(&key)?;
    Ok(format!("{}{}", key.serialize_pem(), certificate.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("thinc-identity-{name}-{}", std::process::id()))
    }

    #[test]
    fn an_identity_is_created_once_with_mode_0600_and_reused() {
        let folder = folder("made");
        let first = Identity::load_or_create(&folder).unwrap();
        let again = Identity::load_or_create(&folder).unwrap();
        assert_eq!(first.pin(), again.pin());
        assert_eq!(first.certified().cert, again.certified().cert);
        let mode = fs::metadata(folder.join("identity.pem")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no half-made file stays");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_readable_by_others_or_a_damaged_file_is_refused_with_a_reason() {
        let folder = folder("refused");
        drop(Identity::load_or_create(&folder).unwrap());
        let path = folder.join("identity.pem");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = Identity::load_or_create(&folder).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "no PEM").unwrap();
        let error = Identity::load_or_create(&folder).unwrap_err().to_string();
        assert!(error.contains("no usable private key"), "{error}");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_key_is_of_curve_p256() {
        let pem = make_pem().unwrap();
        let key = rcgen::KeyPair::from_pem(&pem).unwrap();
        assert!(key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256));
    }
}
