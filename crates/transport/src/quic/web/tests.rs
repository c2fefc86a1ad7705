//! A browser as far as WebTransport goes, made of the same library's other half, at a door on the loopback.

use std::net::{SocketAddr, UdpSocket};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connection, Endpoint, RecvStream, SendStream};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use web_transport_proto::http::HeaderValue;

use super::super::tests::identity;
use super::*;
use crate::ALPN_HTTP3;
use crate::quic::{Door, Visit};
use crate::token::SessionSecret;

/// As a page passes it on: `serverCertificateHashes`.
#[derive(Debug)]
struct ByHash([u8; 32], CryptoProvider);

impl ServerCertVerifier for ByHash {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if <[u8; 32]>::from(Sha256::digest(end_entity)) == self.0 {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        unreachable!("QUIC has TLS 1.3")
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.1.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// A door, and its address.
fn door() -> (Door, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    (Door::open(socket, identity(), &SessionSecret([7; 32]), Duration::ZERO).unwrap(), at)
}

/// A browser's connection, where the door shows a certificate of this hash.
async fn browse(at: SocketAddr, hash: [u8; 32]) -> Result<Connection, quinn::ConnectionError> {
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(ByHash(hash, ring::default_provider())))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN_HTTP3.to_vec()];
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let endpoint = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.connect_with(config, at, "localhost").unwrap().await
}

/// The browser that has come.
async fn browser(door: &Door) -> Browser {
    match door.next().await.unwrap().accept().await.unwrap() {
        Visit::Browser(browser) => browser,
        Visit::Viewer(_) => panic!("it did not say that it is a viewer"),
    }
}

/// What a request's `url` is made of a text, whose type this crate has no name for.
fn parsed<U: FromStr<Err: std::fmt::Debug>>(text: &str, _: fn(ConnectRequest) -> U) -> U {
    text.parse().unwrap()
}

fn request(at: SocketAddr) -> ConnectRequest {
    let url = parsed(&format!("https://{at}/desk/webtransport?key=a-_b"), |request| request.url);
    ConnectRequest::new(url).with_header(header::ORIGIN, HeaderValue::from_str(&format!("https://{at}")).unwrap())
}

/// Its request, and where the answer comes.
async fn ask(connection: &Connection, request: &ConnectRequest) -> (SendStream, RecvStream) {
    // In the order of Chromium's, which waits for the session's settings before it asks.
    let mut control = connection.open_uni().await.unwrap();
    let mut settings = Settings::default();
    settings.enable_webtransport(1);
    settings.write(&mut control).await.unwrap();
    let mut theirs = connection.accept_uni().await.unwrap();
    assert_eq!(Settings::read(&mut theirs).await.unwrap().supports_webtransport(), 1);
    std::mem::forget((control, theirs));
    let (mut send, receive) = connection.open_bi().await.unwrap();
    request.write(&mut send).await.unwrap();
    (send, receive)
}

#[tokio::test]
async fn a_page_that_knows_the_hash_comes_in_and_has_its_stream() {
    let (door, at) = door();
    let hash = door.certificate().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        assert!(connection.max_datagram_size().is_some(), "without datagrams no browser would have it");
        let (asked, mut answer) = ask(&connection, &request(at)).await;
        assert_eq!(ConnectResponse::read(&mut answer).await.unwrap().status, StatusCode::OK);
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let mut head = Vec::new();
        Frame::WEBTRANSPORT.encode(&mut head);
        VarInt::from_u64(asked.id().into()).unwrap().encode(&mut head);
        send.write_all(&head).await.unwrap();
        let sent: Vec<u8> = (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut received = vec![0; sent.len()];
        let (written, read) = tokio::join!(send.write_all(&sent), receive.read_exact(&mut received));
        written.unwrap();
        read.unwrap();
        assert!(received == sent, "bytes were changed on the way");
        // A page that closes its session resets its streams.
        send.reset(quinn::VarInt::from_u32(0)).unwrap();
        assert_eq!(receive.read_to_end(1).await.unwrap(), b"", "and is told the end as any other");
    };
    let session = async {
        let request = browser(&door).await.request().await.unwrap();
        let Asked { authority, path, query, origin } = request.asked();
        assert_eq!((authority, path, query), (at.to_string().as_str(), "/desk/webtransport", Some("key=a-_b")));
        assert_eq!(origin, Some(format!("https://{at}").as_str()));
        let mut stream = request.accept().await.unwrap();
        stream.trust();
        let mut buffer = vec![0; 16 * 1024];
        while let count @ 1.. = stream.read(&mut buffer).await.unwrap() {
            stream.write_all(&buffer[..count]).await.unwrap();
        }
        stream.shutdown().await.unwrap();
    };
    tokio::join!(page, session);
}

/// A page that was let in; the session's end of its stream.
async fn let_in(door: &Door, at: SocketAddr) -> (Connection, QuicStream) {
    let hash = door.certificate().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        let (asked, mut answer) = ask(&connection, &request(at)).await;
        ConnectResponse::read(&mut answer).await.unwrap();
        let (mut send, receive) = connection.open_bi().await.unwrap();
        send.write_all(&[0x40, 0x41, 0]).await.unwrap();
        std::mem::forget((asked, answer, send, receive));
        connection
    };
    let session = async { browser(door).await.request().await.unwrap().accept().await.unwrap() };
    tokio::join!(page, session)
}

#[tokio::test]
async fn datagrams_say_whose_they_are() {
    let (door, at) = door();
    let (page, stream) = let_in(&door, at).await;
    let datagrams = stream.datagrams();
    assert!(datagrams.are_taken());
    assert_eq!(datagrams.room() + 1, page.max_datagram_size().unwrap(), "what stands before them takes a byte");
    let longest = vec![7; datagrams.room()];
    datagrams.send(&longest);
    let came = page.read_datagram().await.unwrap();
    assert!(came[0] == 0 && came[1..] == longest, "the first stream asked for the session");
    // Of another session, and then of this one, whose number may be written longer than it need be.
    for bytes in [&[1, 8][..], &[0x7f, 0xff, 8], &[0x40, 0, 5], &[0, 6], &[0]] {
        page.send_datagram(bytes.to_vec().into()).unwrap();
    }
    for wanted in [&[5][..], &[6], &[]] {
        assert_eq!(datagrams.receive().await.unwrap(), wanted);
    }
}

#[tokio::test]
async fn a_datagram_of_no_session_ends_the_connection() {
    let (door, at) = door();
    for wrong in [&[][..], &[0x40], &[0xc0, 0, 0, 0], &[0xd0, 0, 0, 0, 0, 0, 0, 0, 1]] {
        let (page, stream) = let_in(&door, at).await;
        page.send_datagram(wrong.to_vec().into()).unwrap();
        let error = stream.datagrams().receive().await.unwrap_err();
        assert_eq!(error.to_string(), "a datagram of no session", "{wrong:?}");
        match page.closed().await {
            quinn::ConnectionError::ApplicationClosed(why) => assert_eq!(u64::from(why.error_code), 0x33),
            other => panic!("{wrong:?}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_page_that_is_refused_is_told_so_and_one_with_another_hash_says_nothing() {
    let (door, at) = door();
    let hash = door.certificate().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        let (_asked, mut answer) = ask(&connection, &request(at)).await;
        let error = ConnectResponse::read(&mut answer).await.unwrap_err();
        assert!(error.to_string().contains("403"), "{error}");
    };
    tokio::join!(page, async { browser(&door).await.request().await.unwrap().refuse(403).await.unwrap() });
    let knock = async { door.next().await.unwrap().accept().await };
    let (page, visit) = tokio::join!(browse(at, [1; 32]), knock);
    assert!(page.is_err());
    if let Ok(Visit::Browser(browser)) = visit {
        assert!(browser.request().await.is_err());
    }
}

#[tokio::test]
async fn what_is_no_request_of_webtransport_ends_the_connection() {
    let (door, at) = door();
    let hash = door.certificate().hash(Duration::ZERO);
    let mut noise = 0x5EED_u64;
    let mut random = |length: usize| -> Vec<u8> {
        let next = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        std::iter::repeat_with(next).take(length).collect()
    };
    let whole = {
        let mut bytes = Vec::new();
        request(at).encode(&mut bytes).unwrap();
        bytes
    };
    // Cut short; a length that never comes; another method (GET is entry 17 of QPACK's table); noise in the frame, and without one.
    let mut wrong =
        vec![whole[..whole.len() - 1].to_vec(), vec![0x01, 0xbf, 0xff, 0xff, 0xff], vec![0x01, 3, 0, 0, 0xc0 | 17]];
    for length in [1, 20, 60, 200] {
        wrong.push([&[0x01, 0x40 | (length >> 8) as u8, length as u8][..], &random(length)].concat());
        wrong.push(random(length));
    }
    for bytes in wrong {
        let page = async {
            let connection = browse(at, hash).await.unwrap();
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            // The session may have given up before all was said.
            let _ = send.write_all(&bytes).await;
            let _ = send.finish();
            connection.closed().await
        };
        let session = async { assert!(browser(&door).await.request().await.is_err(), "{bytes:?}") };
        tokio::join!(page, session);
    }
}

#[tokio::test]
async fn a_stream_of_another_session_is_none() {
    let (door, at) = door();
    let hash = door.certificate().hash(Duration::ZERO);
    for head in [&[0x40, 0x41, 4][..], &[0x40, 0x42, 0], &[0x01, 0], &[0x40]] {
        let page = async {
            let connection = browse(at, hash).await.unwrap();
            let (_asked, mut answer) = ask(&connection, &request(at)).await;
            ConnectResponse::read(&mut answer).await.unwrap();
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            let _ = send.write_all(head).await;
            let _ = send.finish();
            connection.closed().await
        };
        let session =
            async { assert!(browser(&door).await.request().await.unwrap().accept().await.is_err(), "{head:?}") };
        tokio::join!(page, session);
    }
}
