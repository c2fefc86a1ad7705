//! A browser's end of WebTransport, made of the same library's client half, and a listener on the
//! loopback.

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
use crate::quic::{Accepted, QuicListener};
use crate::token::SessionSecret;

/// A certificate verifier like a page's `serverCertificateHashes`.
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
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &self.1.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.1.signature_verification_algorithms.supported_schemes()
    }
}

/// A listener, and its address.
fn listener() -> (QuicListener, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    (QuicListener::new(socket, identity(), &SessionSecret([7; 32]), Duration::ZERO).unwrap(), at)
}

/// A browser's connection that expects a certificate of this hash.
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

/// The next connection, which must be a browser's.
async fn browser(listener: &QuicListener) -> Browser {
    match listener.accept().await.unwrap().accept().await.unwrap() {
        Accepted::Browser(browser) => browser,
        Accepted::Viewer(_) => panic!("its ALPN names are a browser's"),
    }
}

/// Parses a request's `url`, whose type this crate cannot name.
fn parsed<U: FromStr<Err: std::fmt::Debug>>(text: &str, _: fn(ConnectRequest) -> U) -> U {
    text.parse().unwrap()
}

fn request(at: SocketAddr) -> ConnectRequest {
    let url = parsed(&format!("https://{at}/desk/webtransport?key=a-_b"), |request| request.url);
    ConnectRequest::new(url)
        .with_header(header::ORIGIN, HeaderValue::from_str(&format!("https://{at}")).unwrap())
}

/// Sends a request; the second stream brings the answer.
async fn ask(connection: &Connection, request: &ConnectRequest) -> (SendStream, RecvStream) {
    // In Chromium's order: it waits for the session's settings before its request.
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
async fn a_page_that_knows_the_hash_is_accepted_and_opens_its_stream() {
    let (listener, at) = listener();
    let hash = listener.certificate().unwrap().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        assert!(
            connection.max_datagram_size().is_some(),
            "browsers refuse a session without datagrams"
        );
        let (asked, mut answer) = ask(&connection, &request(at)).await;
        assert_eq!(ConnectResponse::read(&mut answer).await.unwrap().status, StatusCode::OK);
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        let mut head = Vec::new();
        Frame::WEBTRANSPORT.encode(&mut head);
        VarInt::from_u64(asked.id().into()).unwrap().encode(&mut head);
        send.write_all(&head).await.unwrap();
        let sent: Vec<u8> =
            (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let mut received = vec![0; sent.len()];
        let (written, read) =
            tokio::join!(send.write_all(&sent), receive.read_exact(&mut received));
        written.unwrap();
        read.unwrap();
        assert!(received == sent, "bytes were changed in transit");
        // A page that closes its session resets its streams.
        send.reset(quinn::VarInt::from_u32(0)).unwrap();
        assert_eq!(
            receive.read_to_end(1).await.unwrap(),
            b"",
            "the page sees the end of the stream"
        );
    };
    let session = async {
        let request = browser(&listener).await.request().await.unwrap();
        let RequestHead { authority, path, query, origin } = request.head();
        assert_eq!(
            (authority, path, query),
            (at.to_string().as_str(), "/desk/webtransport", Some("key=a-_b"))
        );
        assert_eq!(origin, Some(format!("https://{at}").as_str()));
        let mut stream = request.accept().await.unwrap();
        stream.set_authenticated();
        let mut buffer = vec![0; 16 * 1024];
        while let count @ 1.. = stream.read(&mut buffer).await.unwrap() {
            stream.write_all(&buffer[..count]).await.unwrap();
        }
        stream.shutdown().await.unwrap();
    };
    tokio::join!(page, session);
}

/// A page whose request was accepted, and the session's end of its stream.
async fn accept_page(listener: &QuicListener, at: SocketAddr) -> (Connection, QuicStream) {
    let hash = listener.certificate().unwrap().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        let (asked, mut answer) = ask(&connection, &request(at)).await;
        ConnectResponse::read(&mut answer).await.unwrap();
        let (mut send, receive) = connection.open_bi().await.unwrap();
        send.write_all(&[0x40, 0x41, 0]).await.unwrap();
        std::mem::forget((asked, answer, send, receive));
        connection
    };
    let session =
        async { browser(listener).await.request().await.unwrap().accept().await.unwrap() };
    tokio::join!(page, session)
}

#[tokio::test]
async fn datagrams_carry_their_session_id() {
    let (listener, at) = listener();
    let (page, stream) = accept_page(&listener, at).await;
    let datagrams = stream.datagrams();
    assert!(datagrams.are_supported());
    assert_eq!(
        datagrams.max_len() + 1,
        page.max_datagram_size().unwrap(),
        "the session ID takes a byte"
    );
    let longest = vec![7; datagrams.max_len()];
    datagrams.send(&longest);
    let received = page.read_datagram().await.unwrap();
    assert!(
        received[0] == 0 && received[1..] == longest,
        "the session ID is that of the first stream"
    );
    // Of another session, then of this one; the ID may be encoded longer than necessary.
    for bytes in [&[1, 8][..], &[0x7f, 0xff, 8], &[0x40, 0, 5], &[0, 6], &[0]] {
        page.send_datagram(bytes.to_vec().into()).unwrap();
    }
    for wanted in [&[5][..], &[6], &[]] {
        assert_eq!(datagrams.receive().await.unwrap(), wanted);
    }
}

#[tokio::test]
async fn a_datagram_without_a_valid_session_id_ends_the_connection() {
    let (listener, at) = listener();
    for wrong in [&[][..], &[0x40], &[0xc0, 0, 0, 0], &[0xd0, 0, 0, 0, 0, 0, 0, 0, 1]] {
        let (page, stream) = accept_page(&listener, at).await;
        page.send_datagram(wrong.to_vec().into()).unwrap();
        let error = stream.datagrams().receive().await.unwrap_err();
        assert_eq!(error.to_string(), "a datagram without a session ID", "{wrong:?}");
        match page.closed().await {
            quinn::ConnectionError::ApplicationClosed(why) => {
                assert_eq!(u64::from(why.error_code), 0x33)
            }
            other => panic!("{wrong:?}: {other}"),
        }
    }
}

#[tokio::test]
async fn a_refused_page_gets_the_status_and_one_with_another_hash_sends_nothing() {
    let (listener, at) = listener();
    let hash = listener.certificate().unwrap().hash(Duration::ZERO);
    let page = async {
        let connection = browse(at, hash).await.unwrap();
        let (_asked, mut answer) = ask(&connection, &request(at)).await;
        let error = ConnectResponse::read(&mut answer).await.unwrap_err();
        assert!(error.to_string().contains("403"), "{error}");
    };
    tokio::join!(page, async {
        browser(&listener).await.request().await.unwrap().refuse(403).await.unwrap()
    });
    let incoming = async { listener.accept().await.unwrap().accept().await };
    let (page, visit) = tokio::join!(browse(at, [1; 32]), incoming);
    assert!(page.is_err());
    if let Ok(Accepted::Browser(browser)) = visit {
        assert!(browser.request().await.is_err());
    }
}

#[tokio::test]
async fn an_invalid_webtransport_request_ends_the_connection() {
    let (listener, at) = listener();
    let hash = listener.certificate().unwrap().hash(Duration::ZERO);
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
    // Truncated; a length that is never reached; another method (GET is entry 17 of QPACK's table);
    // random bytes in the frame, and without one.
    let mut wrong = vec![
        whole[..whole.len() - 1].to_vec(),
        vec![0x01, 0xbf, 0xff, 0xff, 0xff],
        vec![0x01, 3, 0, 0, 0xc0 | 17],
    ];
    for length in [1, 20, 60, 200] {
        wrong.push(
            [&[0x01, 0x40 | (length >> 8) as u8, length as u8][..], &random(length)].concat(),
        );
        wrong.push(random(length));
    }
    for bytes in wrong {
        let page = async {
            let connection = browse(at, hash).await.unwrap();
            let (mut send, _receive) = connection.open_bi().await.unwrap();
            // The session may have closed before everything was sent.
            let _ = send.write_all(&bytes).await;
            let _ = send.finish();
            connection.closed().await
        };
        let session =
            async { assert!(browser(&listener).await.request().await.is_err(), "{bytes:?}") };
        tokio::join!(page, session);
    }
}

#[tokio::test]
async fn a_stream_of_another_session_is_refused() {
    let (listener, at) = listener();
    let hash = listener.certificate().unwrap().hash(Duration::ZERO);
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
        let session = async {
            assert!(
                browser(&listener).await.request().await.unwrap().accept().await.is_err(),
                "{head:?}"
            )
        };
        tokio::join!(page, session);
    }
}
