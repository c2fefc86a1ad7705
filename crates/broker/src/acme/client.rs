//! HTTPS to an ACME server, for the crate instant-acme: one connection each request, as there are a
//! dozen in two months. Beside the path: used by process.rs. Knows requests; never what they mean.

use std::error::Error;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Limited;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Who is trusted to say who an ACME server is, as Debian's package ca-certificates has it.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// Longest answer; chains have less than 20 KiB.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The longest wait for the head of an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

type AnyError = Box<dyn Error + Send + Sync>;

/// Trusts servers whose certificates these roots have issued.
#[derive(Clone)]
pub(crate) struct Https {
    tls: Arc<ClientConfig>,
}

impl Https {
    /// Reads the roots in this file, or the system's.
    pub(crate) fn new(roots: Option<&Path>) -> Result<Https, AnyError> {
        let path = roots.unwrap_or(Path::new(ROOTS));
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(certificates.filter_map(Result::ok));
        if added == 0 {
            return Err(failed(&"there is no certificate in it").into());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        Ok(Https { tls: Arc::new(config) })
    }
}

impl HttpClient for Https {
    fn request(
        &self,
        request: Request<BodyWrapper<bytes::Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let tls = self.tls.clone();
        Box::pin(async move {
            let uri = request.uri().clone();
            let answer = match timeout(ANSWER_TIMEOUT, exchange(tls, request)).await {
                Ok(answer) => answer,
                Err(_) => Err(format!("no answer within {ANSWER_TIMEOUT:?}").into()),
            };
            answer.map_err(|error| {
                let host = uri.authority().map_or("", |authority| authority.as_str());
                instant_acme::Error::Other(format!("{host}: {error}").into())
            })
        })
    }
}

async fn exchange(
    tls: Arc<ClientConfig>,
    mut request: Request<BodyWrapper<bytes::Bytes>>,
) -> Result<BytesResponse, AnyError> {
    let uri = request.uri().clone();
    if uri.scheme_str() != Some("https") {
        return Err("ACME servers are asked over https only".into());
    }
    let authority = uri.authority().ok_or("an address without a host")?;
    let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
    let tcp = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443))).await?;
    let stream = TlsConnector::from(tls).connect(ServerName::try_from(host)?, tcp).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer.
    tokio::spawn(connection);
    request.headers_mut().insert(header::HOST, HeaderValue::from_str(authority.as_str())?);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>()?;
    let answer = sender.send_request(request).await?;
    Ok(BytesResponse::from(answer.map(|body| Limited::new(body, ANSWER_BYTES_MAX))))
}
