//! The front: TLS, HTTP and QUIC for everybody on the network. Beside the path: from the port,
//! which the helper passes, to http.rs, native.rs and quic.rs. An account without privileges, and a
//! sandbox: no file, no program, no connection of its own. Knows bytes of every person who is
//! connected; never a password longer than it takes to pass it on.

mod certificates;
mod desktops;
mod devices;
mod figures;
mod guests;
mod http;
mod login;
mod logins;
mod native;
mod proxied;
mod quic;
mod relay;
pub(crate) mod sandbox;
mod uplink;
mod viewers;
mod webtransport;

use std::io::{self, Read as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use thinc_session_server::front::since_1970;
use thinc_session_server::front::{ACCEPT_PAUSE, PLAIN_HTTP_ANSWER, prepare, speaks_plain_http};
use thinc_session_server::gate::{AUTH_TIMEOUT, HandshakeLimiter, Pass};
use thinc_session_server::log::{self, Process};
use thinc_transport::ALPN_NATIVE;
use thinc_transport::identity::Identity;
use thinc_transport::quic::QuicListener;
use thinc_transport::token::SessionSecret;
use thinc_transport::web_certificate::WebCertificate;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout_at;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::BrokerError;
use crate::certificate::IDENTITY_BYTES_MAX;
use crate::message::{MESSAGE_BYTES_MAX, Start};
use crate::packets::{self, Channel};
use certificates::{ALPN_ACME, Certificates};
use guests::Guests;
use http::{NewConnection, Shared};
use logins::Logins;
use proxied::Peer;
use uplink::Uplink;

/// Runs until the helper ends it.
pub(crate) fn main(socket: OwnedFd) -> Result<(), BrokerError> {
    log::start(Process { part: "front", ..Process::default() });
    let start = |error| BrokerError::System("receive the port from the helper", error);
    let packet = packets::receive(&socket, MESSAGE_BYTES_MAX).map_err(start)?;
    let mut descriptors = packet.descriptors.into_iter();
    let (Some(pem), Ok(told)) = (descriptors.next(), Start::decode(&packet.bytes)) else {
        return Err(start(io::Error::new(io::ErrorKind::InvalidData, "no port came")));
    };
    let (identity, reset_secret) = read_identity(pem)?;
    let certificates = Arc::new(Certificates::new(identity));
    let tls = Arc::new(certificates.server_config()?);
    let mut listeners: Vec<OwnedFd> = descriptors.collect();
    let first_udp = listeners.len().saturating_sub(told.udp_sockets.into());
    let udp_sockets = listeners.split_off(first_udp);
    crate::raise_descriptor_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BrokerError::System("start the event loop", error))?;
    // QUIC asks the system what its sockets can, which the sandbox forbids.
    let (quic, web_certificate) = {
        let _runtime = runtime.enter();
        listen_quic(udp_sockets, &certificates.identity, &reset_secret)
            .map_err(|error| BrokerError::System("listen for QUIC", error))?
    };
    sandbox::enter()?;
    runtime.block_on(async {
        let listen = |socket: OwnedFd| {
            let listener = TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            tokio::net::TcpListener::from_std(listener)
        };
        let listeners = listeners
            .into_iter()
            .map(listen)
            .collect::<io::Result<Vec<_>>>()
            .map_err(|error| BrokerError::System("listen", error))?;
        let helper = Channel::new(socket)
            .map_err(|error| BrokerError::System("listen to the helper", error))?;
        let uplink = Uplink::new(told.rates);
        let logins = Arc::new(Logins::new(helper, uplink.clone()));
        let port = listeners.first().and_then(|listener| listener.local_addr().ok());
        let guests = Guests::new(told.has_guests, port.map_or(0, |address| address.port()));
        let identity = certificates.identity.clone();
        let shared = Shared::new(logins.clone(), told, web_certificate, guests, identity);
        let gate = shared.gate.clone();
        let send_figures = |to: &OwnedFd| figures::send(to, logins.viewers.count(), gate.count());
        tokio::select! {
            // Without the helper nobody can log in, and a new helper starts its own front.
            () = logins.dispatch(&certificates, send_figures) => Ok(()),
            () = accept_all(Arc::new(shared), listeners, quic, TlsAcceptor::from(tls)) => Ok(()),
            () = divide(uplink) => Ok(()),
        }
    })
}

/// Divides the uplink, without end, if it has a limit.
async fn divide(uplink: Option<Arc<Uplink>>) {
    match uplink {
        Some(uplink) => uplink.run().await,
        None => std::future::pending().await,
    }
}

/// Serves QUIC on these sockets, with one certificate for pages.
fn listen_quic(
    sockets: Vec<OwnedFd>,
    identity: &Identity,
    reset_secret: &SessionSecret,
) -> io::Result<(Vec<QuicListener>, Option<Arc<WebCertificate>>)> {
    if sockets.is_empty() {
        return Ok((Vec::new(), None));
    }
    let certificate = Arc::new(WebCertificate::make(since_1970()).map_err(io::Error::other)?);
    let listen = |socket: OwnedFd| {
        QuicListener::with_certificate(socket.into(), identity, reset_secret, certificate.clone())
    };
    let listeners = sockets.into_iter().map(listen).collect::<io::Result<_>>()?;
    Ok((listeners, Some(certificate)))
}

/// Key and chain from a pipe that the helper has filled, and a secret that follows from them: with
/// it the next front ends the QUIC connections of this one at once.
fn read_identity(pem: OwnedFd) -> Result<(Identity, SessionSecret), BrokerError> {
    let mut text = Vec::new();
    std::fs::File::from(pem)
        .take(IDENTITY_BYTES_MAX as u64)
        .read_to_end(&mut text)
        .map_err(|error| BrokerError::System("receive the certificate from the helper", error))?;
    let path = Path::new("the broker's certificate");
    let identity = Identity::from_pem((path, &text), (path, &text))?;
    let secret = Sha256::new_with_prefix(b"thinc-front-resets").chain_update(&text).finalize();
    Ok((identity, SessionSecret(secret.into())))
}

/// Accepts connections on all of these, without end.
async fn accept_all(
    shared: Arc<Shared>,
    listeners: Vec<tokio::net::TcpListener>,
    quic: Vec<QuicListener>,
    acceptor: TlsAcceptor,
) {
    let limiter = Mutex::new(HandshakeLimiter::default());
    let tcp = listeners.into_iter().map(|listener| accept(&shared, listener, &acceptor, &limiter));
    let quic = quic.into_iter().map(|listener| quic::accept(&shared, listener, &limiter));
    tokio::join!(futures_util::future::join_all(tcp), futures_util::future::join_all(quic));
}

async fn accept(
    shared: &Arc<Shared>,
    listener: tokio::net::TcpListener,
    acceptor: &TlsAcceptor,
    limiter: &Mutex<HandshakeLimiter>,
) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Probably out of descriptors: the end of open connections frees some.
                warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // The next ones wait in the kernel's queue, which costs this process nothing.
        let wait =
            limiter.lock().expect("no holder of this lock can panic").delay_of_next(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        let peer = Peer::from(peer);
        let is_proxied = shared.trusted_proxies.contains(peer.address);
        let place = match is_proxied.then(|| shared.proxied.clone().try_acquire_owned()) {
            Some(Err(_)) => {
                warn!("{peer}: this reverse proxy has too many connections; closing one");
                continue;
            }
            Some(Ok(place)) => Some(place),
            None => None,
        };
        let (send, receive) = oneshot::channel();
        let acceptor = acceptor.clone();
        let number = shared.next_number();
        let for_task = shared.clone();
        let task = tokio::spawn(async move {
            // The entry can only be made once there is a task that it can abort.
            let Ok(connection) = receive.await else { return };
            serve(for_task, acceptor, stream, connection).await;
            drop(place);
        });
        let task = task.abort_handle();
        // A proxy's connections are everybody's: who each is for is known later.
        let pass = (!is_proxied).then(|| shared.gate.enter(number, peer.address, task.clone()));
        let _ = send.send(NewConnection { number, peer, task, pass });
    }
}

async fn serve(
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
    mut stream: TcpStream,
    mut connection: NewConnection,
) {
    let peer = connection.peer;
    if let Err(error) = prepare(&stream) {
        return debug!("{peer}: {error}");
    }
    let deadline = tokio::time::Instant::now() + AUTH_TIMEOUT;
    if connection.pass.is_none() {
        match timeout_at(deadline, proxied::read_header(&mut stream)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(client))) => connection.set_peer(&shared, client.into()),
            Ok(Err(error)) => return warn!("{peer}: {error}"),
            Err(_) => return debug!("{peer}: nothing within {AUTH_TIMEOUT:?}"),
        }
    }
    let peer = connection.peer;
    match timeout_at(deadline, speaks_plain_http(&stream)).await {
        Ok(Ok(false)) => {}
        Ok(Ok(true)) => {
            let _ = timeout_at(deadline, stream.write_all(PLAIN_HTTP_ANSWER.as_bytes())).await;
            let _ = timeout_at(deadline, stream.shutdown()).await;
            return;
        }
        Ok(Err(_)) | Err(_) => return,
    }
    connection.pass.iter().for_each(Pass::set_has_sent);
    match timeout_at(deadline, acceptor.accept(stream)).await {
        Err(_) => debug!("{peer}: no TLS handshake within {AUTH_TIMEOUT:?}"),
        // Port scanners, old TLS: rustls has sent an alert if it could.
        Ok(Err(error)) => debug!("{peer}: {error}"),
        Ok(Ok(tls)) if tls.get_ref().1.alpn_protocol() == Some(ALPN_NATIVE) => {
            // Viewers in windows say nothing of who they are, and come through no web server.
            connection.ensure_pass(&shared);
            native::serve(shared, tls, connection).await;
        }
        // An ACME server has seen what it wants to.
        Ok(Ok(tls)) if tls.get_ref().1.alpn_protocol() == Some(ALPN_ACME) => {}
        Ok(Ok(tls)) => http::serve(shared, tls, connection).await,
    }
}
