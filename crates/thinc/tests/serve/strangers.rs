//! Strangers: whoever has no token gets a login page or a clear refusal, holds nothing up and breaks nothing.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use thinc_protocol::auth::Auth;
use thinc_protocol::frame::Deframer;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_transport::{ALPN_NATIVE, ConnectError, ConnectOptions, SpkiPin, connect, reach};

use crate::harness::{Browser, LONG, Session, read_to_end, timed, tls};

/// What a session says to a native stranger that sends these bytes.
fn refusal(session: &Session, bytes: &[u8]) -> Option<(CloseCode, String)> {
    let mut stream = tls(session.address(), &[&rustls::version::TLS13], Some(ALPN_NATIVE)).unwrap();
    stream.write_all(bytes).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
    let answer = read_to_end(&mut stream);
    let mut frames = Deframer::new(4096);
    frames.push(&answer);
    let frame = frames.next().unwrap()?;
    let SessionMessage::Close(close) = SessionMessage::decode(&frame).unwrap() else { panic!("no close") };
    Some((close.code, close.reason.to_owned()))
}

#[test]
fn wrong_and_used_tokens_are_refused_in_words() {
    let session = Session::start(&[]);
    let link = session.link();
    drop(connect(&link, &ConnectOptions::default()).unwrap());
    let mut wrong = session.link();
    wrong.token.as_mut().unwrap()[20] ^= 1;
    let mut foreign = session.link();
    foreign.token = Some(vec![7; 128]);
    // A viewer says what follows in the same breath, and is told why it is not heard all the same.
    let more = vec![1; 30_000];
    for (link, more) in [(&link, &[][..]), (&wrong, &[]), (&foreign, &[]), (&link, &more)] {
        let options = ConnectOptions::default();
        let error = reach(link, &options).unwrap().enter(more, options.timeout).unwrap_err();
        let ConnectError::Refused { code, reason } = error else { panic!("{error}") };
        assert_eq!(code, CloseCode::Unauthorized);
        assert_eq!(
            reason,
            "the link's token was used, wrong or too old: run `thinc link NAME` on the server for a new one"
        );
    }
    let key = ConnectOptions { session_key: Some(vec![1; 48]), ..ConnectOptions::default() };
    assert!(matches!(connect(&session.link(), &key), Err(ConnectError::Refused { .. })));
    session.viewer().whole();
}

#[test]
fn another_key_than_the_links_is_refused_by_the_viewer() {
    let session = Session::start(&[]);
    let mut link = session.link();
    link.pin = Some(SpkiPin([9; 32]));
    let error = connect(&link, &ConnectOptions::default()).unwrap_err();
    assert!(matches!(error, ConnectError::WrongKey { .. }), "{error}");
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    // True: the token is still good.
    link.pin = session.link().pin;
    connect(&link, &ConnectOptions::default()).unwrap();
}

#[test]
fn a_key_seen_first_is_remembered_and_another_one_refused() {
    let (first, second) = (Session::start(&[]), Session::start(&[]));
    let known_hosts = Some(first.place.folder.join("known_hosts"));
    let options = ConnectOptions { known_hosts: known_hosts.clone(), ..ConnectOptions::default() };
    let mut link = first.link();
    link.pin = None;
    assert!(matches!(connect(&link, &ConnectOptions::default()), Err(ConnectError::NoPin)));
    connect(&link, &options).unwrap();
    let text = std::fs::read_to_string(known_hosts.as_ref().unwrap()).unwrap();
    assert_eq!(text, format!("{} {}\n", link.authority(), first.link().pin.unwrap()));
    // The same place with another key behind it: what a man in the middle looks like.
    let mut moved = second.link();
    moved.pin = None;
    std::fs::write(known_hosts.as_ref().unwrap(), text.replace(&link.authority(), &moved.authority())).unwrap();
    let error = connect(&moved, &options).unwrap_err();
    assert!(matches!(error, ConnectError::ChangedKey { .. }), "{error}");
}

/// What a client says first that knows nothing newer than TLS 1.2 (RFC 5246, section 7.4.1.2), in a record of its own.
fn hello_of_tls_1_2() -> Vec<u8> {
    let suites: &[u8] = &[0xc0, 0x2b, 0xc0, 0x2f, 0xcc, 0xa9]; // ECDHE with AES-128-GCM and ChaCha20
    let extensions: &[&[u8]] = &[
        &[0, 10, 0, 4, 0, 2, 0, 23],      // supported_groups: secp256r1
        &[0, 11, 0, 2, 1, 0],             // ec_point_formats: uncompressed
        &[0, 13, 0, 6, 0, 4, 4, 3, 4, 1], // signature_algorithms: ECDSA and RSA with SHA-256
    ];
    let extensions = extensions.concat();
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.push(0); // no session to resume
    body.extend((suites.len() as u16).to_be_bytes());
    body.extend(suites);
    body.extend([1, 0]); // no compression
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let mut record = vec![22, 3, 1];
    record.extend(length(body.len() + 4));
    record.extend([1, 0]); // client_hello, and a length of three bytes
    record.extend(length(body.len()));
    record.extend(body);
    record
}

#[test]
fn tls_1_2_is_refused() {
    let session = Session::start(&[]);
    let mut stream = TcpStream::connect(session.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(&hello_of_tls_1_2()).unwrap();
    let answer = read_to_end(&mut stream);
    // A record of one alert: fatal, protocol_version (RFC 5246, section 7.2).
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
    session.viewer().whole();
}

#[test]
fn garbage_on_the_port_ends_that_connection_alone() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.whole();
    let noise: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [&b""[..], b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", &noise] {
        let mut stream = TcpStream::connect(session.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // A session that has hung up already makes the rest of the noise fail, which is fine.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        read_to_end(&mut stream);
    }
    // A person who typed http:// is told.
    let mut plain = TcpStream::connect(session.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_to_end(&mut plain)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("use a link with https://.\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    // Every start of a good credential, cut short: no answer is owed, only an end.
    let mut auth = Vec::new();
    Auth::Token(&[5; 56]).encode(&mut auth);
    for length in [0, 1, 2, 3, auth.len() - 1] {
        assert_eq!(refusal(&session, &auth[..length]), None, "{length} bytes");
    }
    for bytes in [&noise[..200], &[1, 0][..], &[1, 0xff, 0xff, 0xff, 0xff, 0x0f], &[1, 2, 9, 9], &[2, 1, 0]] {
        let (code, reason) = refusal(&session, bytes).expect("an answer");
        assert_eq!(code, CloseCode::Protocol, "{bytes:?}: {reason}");
    }
    viewer.say(&thinc_protocol::viewer::ViewerMessage::Ping(7));
    viewer.until(|said| *said == crate::harness::Said::Pong);
    assert_eq!(session.status()["restarts"], 0);
}

#[test]
fn whoever_says_nothing_holds_nobody_up_and_is_dropped() {
    let session = Session::start(&[]);
    // More than one source may have, and more than all may.
    let mut silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(session.address()).unwrap()).collect();
    let (_, took) = timed(|| session.viewer().whole());
    assert!(took < Duration::from_secs(2), "an honest viewer waited {took:?}");
    // The oldest were dropped for the newer ones; the grace ends for the rest. One of them drips bytes.
    let mut dripping = silent.pop().unwrap();
    dripping.write_all(b"\x16\x03\x01").unwrap();
    for mut stream in silent.into_iter().chain([dripping]) {
        stream.set_read_timeout(Some(LONG)).unwrap();
        // A read that has a time limit is not taken up again by the kernel when something interrupts it.
        let mut read = || loop {
            match stream.read(&mut [0; 16]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other,
            }
        };
        match read() {
            Ok(0) => {}
            Ok(count) => panic!("a stranger got {count} bytes"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    session.viewer().whole();
}

#[test]
fn without_a_cookie_only_the_login_page_is_answered() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    let page = browser.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let login_page = page.body;
    for path in
        ["/index.html", "/main.js", "/viewer.wasm", "/worker.js", "/nothing", "/ws", "/../etc/passwd", "/%2e%2e/"]
    {
        let answer = browser.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.text().contains("thinc link"), "{path}");
    }
    assert_eq!(browser.open("PUT", "/", &[], "").0.status, 401);
    browser.cookie = Some("__Host-thinc-0000000000000000=AAAA".into());
    assert_eq!(browser.get("/index.html").status, 401);
    for header in ["content-security-policy", "x-content-type-options", "referrer-policy", "x-frame-options"] {
        assert!(page.headers.contains_key(header), "{header}");
    }
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe-inline"), "{policy}");

    // Not the browser's: no token, too long, a form, another site's page.
    browser.cookie = None;
    let json = ("Content-Type", "application/json");
    let post = |headers: &[(&str, &str)], body: &str| browser.open("POST", "/login", headers, body).0.status;
    assert_eq!(post(&[json], "{}"), 400);
    assert_eq!(post(&[json], &"x".repeat(5000)), 413);
    assert_eq!(post(&[("Content-Type", "text/plain")], "{\"token\":\"AAAA\"}"), 415);
    assert_eq!(post(&[json, ("Origin", "https://evil.example")], "{\"token\":\"AAAA\"}"), 403);
    assert_eq!(post(&[json], "{\"token\":\"AAAA\"}"), 401);

    let link = session.link();
    let answer = browser.login(&link);
    assert_eq!(answer.status, 204, "{}", answer.text());
    let cookie = &answer.headers["set-cookie"];
    assert!(cookie.starts_with("__Host-thinc-"), "{cookie}");
    for attribute in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let index = browser.get("/");
    assert_eq!(index.status, 200);
    assert!(index.body != login_page || index.text().contains("no web viewer"), "the same page as for strangers");
    let mut second = Browser::new(&session);
    assert_eq!(second.login(&link).status, 401, "a token is good once");
}

#[test]
fn a_base_path_is_the_only_place_where_anything_is() {
    let session = Session::start(&["--base-path", "/desk"]);
    let link = session.link();
    assert_eq!(link.base_path, "/desk/");
    let mut browser = Browser::new(&session);
    assert_eq!(browser.get("/").status, 401);
    assert_eq!(browser.get("/desk").headers["location"], "/desk/");
    assert_eq!(browser.get("/desk/").status, 200);
    assert_eq!(browser.login(&link).status, 204);
    assert_eq!(browser.get("/").status, 404);
    assert_eq!(browser.get("/desk/index.html").status, 200);
}
