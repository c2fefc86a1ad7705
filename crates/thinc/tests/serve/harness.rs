//! Starts `thinc`, speaks to its port as a viewer or a browser would, and clears everything away.
//! Used by every test here.
//! Knows processes, TLS and HTTP in their simplest form.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use thinc_protocol::frame::Deframer;
use thinc_protocol::limits::SESSION_FRAME_BYTES_MAX;
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{Ack, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_transport::{ConnectOptions, Connection, Link, Reader, Writer, connect};

/// No step of these tests takes this long, not even on a busy machine: what does, hangs.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Folders of one test, and the environment that leads `thinc` to them.
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Short: a socket's path has 107 bytes.
        let name = format!("thinc-t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["run", "state"] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(part)).unwrap();
        }
        Place { folder }
    }

    pub(crate) fn thinc(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .env("XDG_STATE_HOME", self.folder.join("state"));
        if std::env::var_os("THINC_DRIVER_DIR").is_none() {
            let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/build");
            assert!(driver.join("thinc_drv.so").is_file(), "the driver is not built: make -C driver");
            command.env("THINC_DRIVER_DIR", driver);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs to its end, which has to come.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.thinc(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let watch = Watchdog::new(pid);
        let output = child.wait_with_output().unwrap();
        drop(watch);
        output
    }

    /// Must fail; what it said.
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        failed(&self.run(arguments))
    }

    pub(crate) fn log(&self, session: &str, log: &str) -> String {
        fs::read_to_string(self.folder.join("state/thinc/log").join(session).join(log)).unwrap_or_default()
    }
}

pub(crate) fn failed(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it was to fail, but did not: {words}");
    words
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("left for a look: {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Kills a process that takes too long, so that a test fails instead of hanging.
struct Watchdog(#[expect(dead_code, reason = "its end is what counts")] std::sync::mpsc::Sender<()>);

impl Watchdog {
    fn new(pid: Pid) -> Watchdog {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if receiver.recv_timeout(LONG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        });
        Watchdog(sender)
    }
}

/// A running session.
pub(crate) struct Session {
    pub(crate) place: Place,
    pub(crate) name: String,
    pub(crate) child: Child,
    /// What it prints, read as far as "ready".
    pub(crate) said: Vec<String>,
    pub(crate) ready: serde_json::Value,
    _watch: Watchdog,
}

impl Session {
    /// With a command that draws nothing and ends with its X server.
    pub(crate) fn start(options: &[&str]) -> Session {
        Session::start_with(Place::new(), options, &["sleep", "1000"])
    }

    pub(crate) fn start_with(place: Place, options: &[&str], command: &[&str]) -> Session {
        let ready = place.folder.join("ready.json");
        let mut arguments =
            vec!["serve", "--listen", "127.0.0.1:0", "--name", "t", "--ready-json", ready.to_str().unwrap()];
        arguments.extend(options);
        arguments.push("--");
        arguments.extend(command);
        let mut command = place.thinc(&arguments);
        // A job of its own, as a shell starts it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let watch = Watchdog::new(Pid::from_child(&child));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = Vec::new();
        loop {
            let line = lines.next().expect("it said no more, and was never ready").unwrap();
            let last = line.starts_with("Ctrl-C");
            said.push(line);
            if last {
                break;
            }
        }
        // Held open until the end: its writer must not meet a closed pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let ready = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
        Session { place, name: "t".into(), child, said, ready, _watch: watch }
    }

    pub(crate) fn pid(&self, part: &str) -> u32 {
        u32::try_from(self.ready["pids"][part].as_u64().unwrap()).unwrap()
    }

    /// As the supervisor says it now.
    pub(crate) fn status(&self) -> serde_json::Value {
        let output = self.place.run(&["list", "--json"]);
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        list.as_array().unwrap().iter().find(|status| status["name"] == self.name.as_str()).unwrap().clone()
    }

    pub(crate) fn link(&self) -> Link {
        let output = self.place.run(&["link", &self.name]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().parse().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ready["listen"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) fn viewer(&self) -> Viewer {
        Viewer::new(connect(&self.link(), &ConnectOptions::default()).unwrap())
    }

    /// Waits for its end and gives its exit code.
    pub(crate) fn end_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// To the whole job, as a terminal does.
    pub(crate) fn signal_job(&self, signal: Signal) {
        rustix::process::kill_process_group(Pid::from_child(&self.child), signal).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal(Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Waits for the end of a process that is not ours, as the kernel tells it.
pub(crate) fn wait_for_end(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else { return };
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let timeout = rustix::event::Timespec { tv_sec: LONG.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 1, "process {pid} did not end");
}

/// True while there is such a process, zombies not counted.
pub(crate) fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
}

/// A viewer that says hello and acknowledges.
pub(crate) struct Viewer {
    reader: Reader,
    pub(crate) writer: Writer,
    frames: Deframer,
    pub(crate) session_key: Vec<u8>,
    pub(crate) acknowledges: bool,
}

/// What a session said, as far as these tests look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Hello(String),
    Geometry(Size),
    Update { seq: u64, bytes: usize },
    Barrier(u32),
    Pong,
    Seen(u32),
    Close(CloseCode, String),
    Other,
}

impl Viewer {
    pub(crate) fn new(connection: Connection) -> Viewer {
        Viewer::with_caps(connection, 0)
    }

    pub(crate) fn with_caps(connection: Connection, caps: u32) -> Viewer {
        let session_key = connection.session_key.clone();
        let (reader, writer) = connection.split();
        let mut viewer =
            Viewer { reader, writer, frames: Deframer::new(SESSION_FRAME_BYTES_MAX), session_key, acknowledges: true };
        let ViewerMessage::Hello(hello) = hello() else { unreachable!() };
        viewer.say(&ViewerMessage::Hello(ViewerHello { caps, ..hello }));
        viewer
    }

    pub(crate) fn say(&mut self, message: &ViewerMessage) {
        self.try_say(message).unwrap();
    }

    fn try_say(&mut self, message: &ViewerMessage) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.writer.write_all(&bytes)
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Said> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                let said = look(&SessionMessage::decode(&frame).unwrap());
                if let (Said::Update { seq, .. }, true) = (&said, self.acknowledges) {
                    // A session that ends may have hung up already; its last words are still to be read.
                    let _ = self.try_say(&ViewerMessage::Ack(Ack { update: *seq, presented: None }));
                }
                return Some(said);
            }
            let mut buffer = [0; 4096];
            match self.reader.read(&mut buffer) {
                Ok(count @ 1..) => self.frames.push(&buffer[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Reads on until a message that `wanted` is true for.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Said) -> bool) -> Said {
        loop {
            let said = self.next().expect("the connection ended first");
            if wanted(&said) {
                return said;
            }
        }
    }

    /// The screen's size, once all that was drawn so far has been sent.
    pub(crate) fn whole(&mut self) -> Size {
        let Said::Geometry(size) = self.until(|said| matches!(said, Said::Geometry(_))) else { unreachable!() };
        self.say(&ViewerMessage::Barrier(1));
        self.until(|said| *said == Said::Barrier(1));
        size
    }

    /// Reads to the end; why the session closed.
    pub(crate) fn closed(&mut self) -> (CloseCode, String) {
        let Said::Close(code, reason) = self.until(|said| matches!(said, Said::Close(..))) else { unreachable!() };
        assert_eq!(self.next(), None, "nothing follows a close");
        (code, reason)
    }
}

pub(crate) fn hello() -> ViewerMessage {
    ViewerMessage::Hello(ViewerHello {
        version: thinc_protocol::VERSION,
        caps: 0,
        size: Size { width: 0, height: 0 },
        frame_bytes_max: SESSION_FRAME_BYTES_MAX as u32,
        name: "test".into(),
    })
}

fn look(message: &SessionMessage<'_>) -> Said {
    match message {
        SessionMessage::Hello(hello) => Said::Hello(hello.name.clone()),
        SessionMessage::Geometry(geometry) => Said::Geometry(geometry.size),
        SessionMessage::Update(update) => Said::Update { seq: update.seq, bytes: update.commands.len() },
        SessionMessage::Barrier(id) => Said::Barrier(*id),
        SessionMessage::Pong(_) => Said::Pong,
        SessionMessage::Seen(input) => Said::Seen(*input),
        SessionMessage::Close(close) => Said::Close(close.code, close.reason.to_owned()),
        _ => Said::Other,
    }
}

/// Takes any certificate, as a browser whose person pressed "go on".
#[derive(Debug)]
struct Careless(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A TLS connection that offers these versions and this protocol; the handshake has been done.
pub(crate) fn tls(
    address: SocketAddr,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: Option<&[u8]>,
) -> io::Result<Tls> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Careless(provider)))
        .with_no_client_auth();
    config.alpn_protocols.extend(alpn.map(<[u8]>::to_vec));
    let name = ServerName::try_from("localhost").unwrap();
    let tcp = TcpStream::connect(address)?;
    tcp.set_read_timeout(Some(LONG))?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Everything until the other side closes, however it does.
pub(crate) fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

/// A browser, as far as the session can tell.
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: Option<String>,
}

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Browser {
    pub(crate) fn new(session: &Session) -> Browser {
        Browser { address: session.address(), cookie: None }
    }

    /// A connection on which nothing has been asked yet.
    pub(crate) fn connect(&self) -> Tls {
        tls(self.address, &[&rustls::version::TLS13], Some(b"http/1.1")).unwrap()
    }

    /// One request on a connection of its own, which stays open for what may follow an upgrade.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        extra: &[(&str, &str)],
        body: &str,
    ) -> (Answer, BufReader<Tls>) {
        self.ask(self.connect(), method, path, extra, body)
    }

    /// The same on this connection.
    fn ask(
        &self,
        mut stream: Tls,
        method: &str,
        path: &str,
        extra: &[(&str, &str)],
        body: &str,
    ) -> (Answer, BufReader<Tls>) {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n", self.address, body.len());
        if let Some(cookie) = &self.cookie {
            request += &format!("Cookie: other=1; {cookie}\r\n");
        }
        for (name, value) in extra {
            request += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {line:?}")).parse().unwrap();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length = headers.get("content-length").map_or(0, |length: &String| length.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        reader.read_exact(&mut body).unwrap();
        (Answer { status, headers, body }, reader)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.open("GET", path, &[], "").0
    }

    /// Shows the link's token; keeps the cookie.
    pub(crate) fn login(&mut self, link: &Link) -> Answer {
        let token = thinc_transport::base64url::encode(link.token.as_ref().unwrap());
        let path = format!("{}login", link.base_path);
        let origin = format!("https://{}", self.address);
        let headers = [("Content-Type", "application/json"), ("Origin", origin.as_str())];
        let (answer, _) = self.open("POST", &path, &headers, &format!("{{\"token\":\"{token}\"}}"));
        if let Some(cookie) = answer.headers.get("set-cookie") {
            self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        }
        answer
    }

    pub(crate) fn websocket(&self, origin: Option<&str>) -> (Answer, BufReader<Tls>) {
        self.websocket_over(self.connect(), origin)
    }

    pub(crate) fn websocket_over(&self, connection: Tls, origin: Option<&str>) -> (Answer, BufReader<Tls>) {
        let mut headers = vec![
            ("Connection", "keep-alive, Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        self.ask(connection, "GET", "/ws", &headers, "")
    }
}

/// A masked binary message of at most 125 bytes, as browsers send them.
pub(crate) fn websocket_message(bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0x82, 0x80 | u8::try_from(bytes.len()).unwrap(), 1, 2, 3, 4];
    message.extend(bytes.iter().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
    message
}

/// The bytes of the next binary message; `None` at the end of the connection.
pub(crate) fn next_websocket_message(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    assert_eq!(head[0], 0x82, "one whole binary message");
    let length_bytes = match head[1] {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let mut length = [0; 8];
    stream.read_exact(&mut length[8 - length_bytes..]).ok()?;
    let length = if length_bytes == 0 { head[1].into() } else { u64::from_be_bytes(length) };
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

/// How long something took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed())
}
