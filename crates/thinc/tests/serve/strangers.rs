//! Unauthenticated peers: without a token they get a login page or a clear refusal, and neither
//! block nor break anything.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::auth::Auth;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_transport::{ALPN_NATIVE, ConnectError, ConnectOptions, SpkiPin, connect, establish};

use crate::harness::{Browser, Session, TIMEOUT, connect_options, read_to_end, tls};

/// The refusal that a session sends to a native viewer that sends these bytes.
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
    let SessionMessage::Close(close) = SessionMessage::decode(&frame).unwrap() else {
        panic!("no close")
    };
    Some((close.code, close.reason.to_owned()))
}

#[test]
fn wrong_and_used_tokens_are_refused_with_a_reason() {
    let session = Session::start(&[]);
    let link = session.link();
    drop(connect(&link, &connect_options()).unwrap());
    let mut wrong = session.link();
    wrong.token.as_mut().unwrap()[20] ^= 1;
    let mut foreign = session.link();
    foreign.token = Some(vec![7; 128]);
    // A viewer may send its first messages together with the credential, and still gets the reason.
    let more = vec![1; 30_000];
    for (link, more) in [(&link, &[][..]), (&wrong, &[]), (&foreign, &[]), (&link, &more)] {
        let options = connect_options();
        let error =
            establish(link, &options).unwrap().authenticate(more, options.timeout).unwrap_err();
        let ConnectError::Refused { code, reason } = error else { panic!("{error}") };
        assert_eq!(code, CloseCode::Unauthorized);
        assert_eq!(
            reason,
            "the link's token was used, wrong or too old: run `thinc link NAME` on the server for \
                a new one"
        );
    }
    let key = ConnectOptions { session_credential: Some(vec![1; 48]), ..connect_options() };
    assert!(matches!(connect(&session.link(), &key), Err(ConnectError::Refused { .. })));
    session.viewer().wait_complete();
}

#[test]
fn the_viewer_refuses_another_key_than_the_links() {
    let session = Session::start(&[]);
    let mut link = session.link();
    link.pin = Some(SpkiPin([9; 32]));
    let error = connect(&link, &connect_options()).unwrap_err();
    assert!(matches!(error, ConnectError::WrongKey { .. }), "{error}");
    assert!(error.to_string().contains("nothing was sent"), "{error}");
    // It is true: the token is still valid.
    link.pin = session.link().pin;
    connect(&link, &connect_options()).unwrap();
}

#[test]
fn the_first_key_is_remembered_and_another_one_refused() {
    let (first, second) = (Session::start(&[]), Session::start(&[]));
    let known_hosts = Some(first.environment.folder.join("known_hosts"));
    let options = ConnectOptions { known_hosts: known_hosts.clone(), ..connect_options() };
    let mut link = first.link();
    link.pin = None;
    assert!(matches!(connect(&link, &connect_options()), Err(ConnectError::NoPin)));
    connect(&link, &options).unwrap();
    let text = std::fs::read_to_string(known_hosts.as_ref().unwrap()).unwrap();
    assert_eq!(text, format!("{} {}\n", link.authority(), first.link().pin.unwrap()));
    // Another key at the same address: a man in the middle.
    let mut moved = second.link();
    moved.pin = None;
    std::fs::write(
        known_hosts.as_ref().unwrap(),
        text.replace(&link.authority(), &moved.authority()),
    )
    .unwrap();
    let error = connect(&moved, &options).unwrap_err();
    assert!(matches!(error, ConnectError::ChangedKey { .. }), "{error}");
}

/// The first record of a client that supports nothing newer than TLS 1.2 (RFC 5246, section
/// 7.4.1.2).
fn hello_of_tls_1_2() -> Vec<u8> {
    // ECDHE with AES-128-GCM and ChaCha20
    let suites: &[u8] = &[0xc0, 0x2b, 0xc0, 0x2f, 0xcc, 0xa9];
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
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(&hello_of_tls_1_2()).unwrap();
    let answer = read_to_end(&mut stream);
    // A record with one alert: fatal, protocol_version (RFC 5246, section 7.2).
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 70]);
    session.viewer().wait_complete();
}

#[test]
fn garbage_on_the_port_ends_only_that_connection() {
    let session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let noise: Vec<u8> =
        (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [&b""[..], b"\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff", &noise] {
        let mut stream = TcpStream::connect(session.address()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The rest of the noise fails if the session has closed already, which is fine.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        read_to_end(&mut stream);
    }
    // A user who typed http:// gets an explanation.
    let mut plain = TcpStream::connect(session.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let answer = String::from_utf8(read_to_end(&mut plain)).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.ends_with("use a link with https://.\n"),
        "{answer}"
    );
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    // Every truncated beginning of a valid credential: the session just closes.
    let mut auth = Vec::new();
    Auth::Token(&[5; 56]).encode(&mut auth);
    for length in [0, 1, 2, 3, auth.len() - 1] {
        assert_eq!(refusal(&session, &auth[..length]), None, "{length} bytes");
    }
    for bytes in
        [&noise[..200], &[1, 0][..], &[1, 0xff, 0xff, 0xff, 0xff, 0x0f], &[1, 2, 9, 9], &[2, 1, 0]]
    {
        let (code, reason) = refusal(&session, bytes).expect("an answer");
        assert_eq!(code, CloseCode::Protocol, "{bytes:?}: {reason}");
    }
    viewer.send(&thinc_protocol::viewer::ViewerMessage::Ping(7));
    viewer.until(|message| *message == crate::harness::Message::Pong);
    assert_eq!(session.status()["restarts"], 0);
}

/// True until the peer closes the connection.
fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn idle_unauthenticated_connections_block_nobody_and_are_dropped() {
    let session = Session::start(&[]);
    // More than the limits for one source and for all of them.
    let flood = || -> Vec<TcpStream> {
        (0..100).map(|_| TcpStream::connect(session.address()).unwrap()).collect()
    };
    // They were accepted before the viewer, and are dropped after AUTH_TIMEOUT. A viewer that had
    // to wait for that would find none open. A slow machine may take as long, but not each time.
    let mut idle = (0..5)
        .find_map(|_| {
            let idle = flood();
            session.viewer().wait_complete();
            idle.iter().any(is_open).then_some(idle)
        })
        .expect("an authenticated viewer waits for no idle connection");
    // The oldest were dropped for newer ones; the rest time out. One of them sends single bytes.
    let mut dripping = idle.pop().unwrap();
    dripping.write_all(b"\x16\x03\x01").unwrap();
    for mut stream in idle.into_iter().chain([dripping]) {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        // The kernel does not restart a read with a time-out after an interruption.
        let mut read = || loop {
            match stream.read(&mut [0; 16]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => return other,
            }
        };
        match read() {
            Ok(0) => {}
            Ok(count) => panic!("an unauthenticated peer got {count} bytes"),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    session.viewer().wait_complete();
}

#[test]
fn without_a_cookie_only_the_login_page_is_answered() {
    let session = Session::start(&[]);
    let mut browser = Browser::new(&session);
    let page = browser.get("/");
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
    let login_page = page.body;
    for path in [
        "/index.html",
        "/main.js",
        "/viewer.wasm",
        "/worker.js",
        "/nothing",
        "/ws",
        "/../etc/passwd",
        "/%2e%2e/",
    ] {
        let answer = browser.get(path);
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.text().contains("thinc link"), "{path}");
    }
    assert_eq!(browser.open("PUT", "/", &[], "").0.status, 401);
    browser.cookie = Some("__Host-thinc-0000000000000000=AAAA".into());
    assert_eq!(browser.get("/index.html").status, 401);
    for header in
        ["content-security-policy", "x-content-type-options", "referrer-policy", "x-frame-options"]
    {
        assert!(page.headers.contains_key(header), "{header}");
    }
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe-inline"),
        "{policy}"
    );
    assert!(policy.contains("; frame-src blob:;"), "what is printed, and no other frame: {policy}");

    // Invalid requests: no token, too long, a form, another site's page.
    browser.cookie = None;
    let json = ("Content-Type", "application/json");
    let post = |headers: &[(&str, &str)], body: &str| {
        browser.open("POST", "/login", headers, body).0.status
    };
    assert_eq!(post(&[json], "{}"), 400);
    assert_eq!(post(&[json], &"x".repeat(5000)), 413);
    assert_eq!(post(&[("Content-Type", "text/plain")], "{\"token\":\"AAAA\"}"), 415);
    assert_eq!(post(&[json, ("Origin", "https://evil.example")], "{\"token\":\"AAAA\"}"), 403);
    assert_eq!(post(&[json], "{\"token\":\"AAAA\"}"), 401);

    let link = session.link();
    let answer = browser.login(&link);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let cookie = &answer.headers["set-cookie"];
    assert!(cookie.starts_with("__Host-thinc-"), "{cookie}");
    for attribute in ["Secure", "HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let index = browser.get("/");
    assert_eq!(index.status, 200);
    assert!(
        index.body != login_page || index.text().contains("no web viewer"),
        "the same page as without a cookie"
    );
    let mut second = Browser::new(&session);
    assert_eq!(second.login(&link).status, 401, "a token is valid once");
}

/// Browsers send the cookie to every port of the host, and other users may listen there.
#[test]
fn a_cookie_without_the_secret_of_its_origin_opens_nothing() {
    let session = Session::start(&[]);
    let own = format!("https://{}", session.address());
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login(&session.link()).status, 200);
    let mut other = Browser::new(&session);
    assert_eq!(other.login(&session.link()).status, 200);

    let value = |cookie: &str| cookie.split_once('=').unwrap().1.to_owned();
    let stolen = value(browser.cookie.as_deref().unwrap());
    let forged = "A".repeat(stolen.len());
    for secret in [None, Some(String::new()), Some(stolen.clone()), Some(forged)] {
        let thief = Browser {
            cookie: browser.cookie.clone(),
            secret: secret.clone(),
            ..Browser::new(&session)
        };
        assert_eq!(thief.websocket(Some(&own)).0.status, 401, "{secret:?}");
        assert_eq!(thief.get_as_page("/webtransport").status, 401, "{secret:?}");
        assert_eq!(thief.get_as_page("/login").status, 401, "{secret:?}");
    }
    // Nor is it a credential of a native viewer, and the secret is none without a cookie.
    for stolen in [stolen, browser.secret.clone().unwrap()] {
        let options = ConnectOptions {
            session_credential: thinc_transport::base64url::decode(&stolen),
            ..connect_options()
        };
        let mut link = session.link();
        link.token = None;
        assert!(connect(&link, &options).is_err());
    }
    let bare = Browser { cookie: None, ..browser };
    assert_eq!(bare.websocket(Some(&own)).0.status, 401);
    assert_eq!(bare.get_as_page("/webtransport").status, 401);

    // A tab that remembers the secret of an earlier login goes on with a newer cookie.
    let tab = Browser { cookie: other.cookie.clone(), ..bare };
    for page in [&tab, &other] {
        assert_eq!(page.get_as_page("/webtransport").status, 200);
        assert_eq!(page.get_as_page("/login").status, 204);
        assert_eq!(page.websocket(Some(&own)).0.status, 101);
    }
    // The secret is in a header, which no log has, and nowhere else.
    let secret = other.secret.clone().unwrap();
    let query = Browser { secret: None, ..other };
    assert_eq!(query.get(&format!("/webtransport?thinc-origin-secret={secret}")).status, 401);
    assert!(!session.environment.log("t", "session.log").contains(&secret));
}

#[test]
fn a_logout_ends_the_login_and_the_connections_of_its_pages() {
    let session = Session::start(&[]);
    let own = format!("https://{}", session.address());
    let mut browser = Browser::new(&session);
    let mut other = Browser::new(&session);
    for browser in [&mut browser, &mut other] {
        assert_eq!(browser.login(&session.link()).status, 200);
    }
    let (answer, mut page) = browser.websocket(Some(&own));
    assert_eq!(answer.status, 101);
    let (_, mut others_page) = other.websocket(Some(&own));
    let logout = |browser: &Browser, origin: &str, secret: Option<&str>| {
        let mut headers = vec![("Origin", origin)];
        headers.extend(secret.map(|secret| ("Thinc-Origin-Secret", secret)));
        browser.open("POST", "/logout", &headers, "").0
    };
    let secret = browser.secret.clone().unwrap();
    assert_eq!(logout(&browser, "https://evil.example", Some(&secret)).status, 403);
    assert_eq!(logout(&browser, &own, None).status, 401, "the cookie may be known elsewhere");
    assert_eq!(browser.get_as_page("/login").status, 204, "nothing has ended so far");

    let answer = logout(&browser, &own, Some(&secret));
    assert_eq!(answer.status, 204);
    let cookie = &answer.headers["set-cookie"];
    assert!(cookie.starts_with("__Host-thinc-") && cookie.ends_with("Max-Age=0"), "{cookie}");
    assert!(read_to_end(&mut page).is_empty(), "its open page is disconnected");
    for is_restarted in [false, true] {
        if is_restarted {
            let pid = i32::try_from(session.pid("session")).unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            // It was connected until then.
            assert!(read_to_end(&mut others_page).is_empty());
        }
        assert_eq!(browser.get_as_page("/login").status, 401);
        assert_eq!(browser.get_as_page("/index.html").status, 401);
        assert_eq!(browser.websocket(Some(&own)).0.status, 401);
        let mixed = Browser {
            cookie: other.cookie.clone(),
            secret: Some(secret.clone()),
            ..Browser::new(&session)
        };
        assert_eq!(mixed.websocket(Some(&own)).0.status, 401, "nor beside another cookie");
        assert_eq!(other.get_as_page("/login").status, 204, "another browser stays");
    }
}

#[test]
fn nothing_is_served_outside_the_base_path() {
    let session = Session::start(&["--base-path", "/desk"]);
    let link = session.link();
    assert_eq!(link.base_path, "/desk/");
    let mut browser = Browser::new(&session);
    assert_eq!(browser.get("/").status, 401);
    assert_eq!(browser.get("/desk").headers["location"], "/desk/");
    assert_eq!(browser.get("/desk/").status, 200);
    assert_eq!(browser.login(&link).status, 200);
    assert_eq!(browser.get("/").status, 404);
    assert_eq!(browser.get("/desk/index.html").status, 200);
}
