//! Starts `thinc`, connects to its port like a viewer or a browser, and cleans up. Used by every
//! test here. Knows processes, TLS and HTTP in their simplest form.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use thinc_protocol::clip::{ClipFormats, ClipMessage};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::file::FileMessage;
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::SESSION_MESSAGE_BYTES_MAX;
use thinc_protocol::microphone::MicrophoneWant;
use thinc_protocol::people::{OpenInvitation, People, PersonPointer, Shared};
use thinc_protocol::session::{CloseCode, SessionMessage};
use thinc_protocol::viewer::{Ack, ViewerHello, ViewerMessage};
use thinc_region::Size;
use thinc_transport::{ConnectOptions, Connection, Link, Reader, Writer, connect};

/// No step of these tests takes this long, even on a busy machine: one that does hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// Options that wait as long as these tests do.
pub(crate) fn connect_options() -> ConnectOptions {
    ConnectOptions { timeout: TIMEOUT, answer_timeout: TIMEOUT, ..ConnectOptions::default() }
}

/// Waits for a result that no event announces.
pub(crate) fn wait_until<T>(what: &str, mut result: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(result) = result() {
            return result;
        }
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The folders of one test, and the environment that makes `thinc` use them.
pub(crate) struct TestEnvironment {
    pub(crate) folder: PathBuf,
    /// What is set beside the folders.
    pub(crate) variables: Vec<(String, String)>,
}

impl TestEnvironment {
    pub(crate) fn new() -> TestEnvironment {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // Short: a socket's path has at most 107 bytes.
        let name =
            format!("thinc-t{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["run", "state"] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder.join(part)).unwrap();
        }
        TestEnvironment { folder, variables: Vec::new() }
    }

    pub(crate) fn thinc(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        if std::env::var_os("THINC_DRIVER_DIR").is_none() {
            let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/build");
            assert!(
                driver.join("thinc_drv.so").is_file(),
                "the driver is not built: make -C driver"
            );
            command.env("THINC_DRIVER_DIR", driver);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs `thinc` until it ends.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.thinc(arguments);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let watch = Watchdog::new(pid);
        let output = child.wait_with_output().unwrap();
        drop(watch);
        output
    }

    /// Runs `thinc`, which must fail; returns its error output.
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        failed(&self.run(arguments))
    }

    pub(crate) fn log(&self, session: &str, log: &str) -> String {
        fs::read_to_string(self.folder.join("state/thinc/log").join(session).join(log))
            .unwrap_or_default()
    }
}

pub(crate) fn failed(output: &Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "it did not fail: {words}");
    words
}

impl Drop for TestEnvironment {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for inspection: {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Kills a process that takes too long, so that a test fails instead of hanging.
struct Watchdog(
    #[expect(dead_code, reason = "dropping it ends the watch")] std::sync::mpsc::Sender<()>,
);

impl Watchdog {
    fn new(pid: Pid) -> Watchdog {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        std::thread::spawn(move || {
            if receiver.recv_timeout(TIMEOUT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        });
        Watchdog(sender)
    }
}

/// A running session.
pub(crate) struct Session {
    pub(crate) environment: TestEnvironment,
    pub(crate) name: String,
    pub(crate) child: Child,
    /// The lines that it printed until it was ready.
    pub(crate) output: Vec<String>,
    pub(crate) ready: serde_json::Value,
    /// What it printed after that.
    later: Arc<Mutex<String>>,
    errors: Arc<Mutex<String>>,
    _watch: Watchdog,
}

impl Session {
    /// With a command that draws nothing and ends with its X server.
    pub(crate) fn start(options: &[&str]) -> Session {
        Session::start_with(TestEnvironment::new(), options, &["sleep", "1000"])
    }

    pub(crate) fn start_with(
        environment: TestEnvironment,
        options: &[&str],
        command: &[&str],
    ) -> Session {
        let ready = environment.folder.join("ready.json");
        let mut arguments = vec![
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--name",
            "t",
            "--ready-json",
            ready.to_str().unwrap(),
        ];
        arguments.extend(options);
        arguments.extend(["--window-manager", "none"]);
        arguments.push("--");
        arguments.extend(command);
        let mut command = environment.thinc(&arguments);
        // In a process group of its own, as a shell starts jobs.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let watch = Watchdog::new(Pid::from_child(&child));
        let errors = Arc::new(Mutex::new(String::new()));
        std::thread::spawn({
            let (lines, errors) = (BufReader::new(child.stderr.take().unwrap()), errors.clone());
            move || {
                for line in lines.lines().map_while(Result::ok) {
                    eprintln!("{line}");
                    *errors.lock().unwrap() += &(line + "\n");
                }
            }
        });
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut output = Vec::new();
        loop {
            let line = lines.next().expect("it ended its output and was never ready").unwrap();
            let last = line.starts_with("Ctrl-C");
            output.push(line);
            if last {
                break;
            }
        }
        // Read until the end: the program must not write to a closed pipe.
        let later = Arc::new(Mutex::new(String::new()));
        std::thread::spawn({
            let later = later.clone();
            move || {
                let lines = lines.map_while(Result::ok);
                lines.for_each(|line| *later.lock().unwrap() += &(line + "\n"));
            }
        });
        let ready = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
        Session {
            environment,
            name: "t".into(),
            child,
            output,
            ready,
            later,
            errors,
            _watch: watch,
        }
    }

    /// What it has written to its error output so far, which contains this.
    pub(crate) fn errors_with(&self, words: &str) -> String {
        wait_until(words, || {
            let errors = self.errors.lock().unwrap();
            errors.contains(words).then(|| errors.clone())
        })
    }

    /// Waits until it has printed this, once it was ready.
    pub(crate) fn prints(&self, words: &str) {
        wait_until(words, || self.later.lock().unwrap().contains(words).then_some(()));
    }

    pub(crate) fn pid(&self, part: &str) -> u32 {
        u32::try_from(self.ready["pids"][part].as_u64().unwrap()).unwrap()
    }

    /// The supervisor's current status.
    pub(crate) fn status(&self) -> serde_json::Value {
        let output = self.environment.run(&["list", "--json"]);
        let list: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        list.as_array()
            .unwrap()
            .iter()
            .find(|status| status["name"] == self.name.as_str())
            .unwrap()
            .clone()
    }

    pub(crate) fn link(&self) -> Link {
        let output = self.environment.run(&["link", &self.name]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().parse().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.ready["listen"].as_str().unwrap().parse().unwrap()
    }

    pub(crate) fn viewer(&self) -> Viewer {
        Viewer::new(connect(&self.link(), &connect_options()).unwrap())
    }

    /// Waits until it ends; returns its exit code.
    pub(crate) fn end_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Sends a signal to the whole process group, as a terminal does.
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

/// Waits for the end of a process that is not our child.
pub(crate) fn wait_for_end(pid: u32) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
        return;
    };
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let timeout = rustix::event::Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
    assert_eq!(
        rustix::event::poll(&mut fds, Some(&timeout)).unwrap(),
        1,
        "process {pid} did not end"
    );
}

/// True while the process runs; zombies do not count.
pub(crate) fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().trim().starts_with('Z'))
}

/// A viewer that sends a hello and acknowledges updates.
pub(crate) struct Viewer {
    reader: Reader,
    pub(crate) writer: Writer,
    frames: Deframer,
    pub(crate) session_credential: Vec<u8>,
    pub(crate) acknowledges: bool,
}

/// A message of the session, reduced to what these tests check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Hello(String),
    Geometry(Size),
    Update {
        seq: u64,
        bytes: usize,
    },
    Barrier(u32),
    Pong,
    Seen(u32),
    Close(CloseCode, String),
    /// What the session's clipboard has, in these formats.
    Offered(ClipFormats),
    People(People),
    Invitations(Vec<OpenInvitation>),
    Shared(Shared),
    Pointer(PersonPointer),
    Notice(String),
    ClipPolicy(ClipDirections),
    File(FileMessage),
    /// The frame of a packet of sound, without repeats.
    Sound(Vec<u8>),
    Players(Vec<String>),
    Microphone(MicrophoneWant),
    Graphics(String),
    Other,
}

impl Viewer {
    pub(crate) fn new(connection: Connection) -> Viewer {
        Viewer::with_caps(connection, 0)
    }

    pub(crate) fn with_caps(connection: Connection, caps: u32) -> Viewer {
        let session_credential = connection.session_credential.clone();
        let (reader, writer) = connection.split();
        let mut viewer = Viewer {
            reader,
            writer,
            frames: Deframer::new(SESSION_MESSAGE_BYTES_MAX),
            session_credential,
            acknowledges: true,
        };
        let ViewerMessage::Hello(hello) = hello() else { unreachable!() };
        viewer.send(&ViewerMessage::Hello(ViewerHello { caps, ..hello }));
        viewer
    }

    pub(crate) fn send(&mut self, message: &ViewerMessage) {
        self.try_send(message).unwrap();
    }

    fn try_send(&mut self, message: &ViewerMessage) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.writer.write_all(&bytes)
    }

    /// The next message; `None` at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(frame) = self.frames.next().unwrap() {
                let message = summarize(&SessionMessage::decode(&frame).unwrap());
                if let (Message::Update { seq, .. }, true) = (&message, self.acknowledges) {
                    // A session that ends may have closed already; its last messages still have to
                    // be read.
                    let _ =
                        self.try_send(&ViewerMessage::Ack(Ack { update: *seq, presented: None }));
                }
                return Some(message);
            }
            let mut buffer = [0; 4096];
            match self.reader.read(&mut buffer) {
                Ok(count @ 1..) => self.frames.push(&buffer[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    /// Reads until a message for which `wanted` is true.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        loop {
            let message = self.next().expect("the connection ended first");
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Waits until everything drawn so far was sent; returns the screen's size.
    pub(crate) fn wait_complete(&mut self) -> Size {
        let Message::Geometry(size) = self.until(|message| matches!(message, Message::Geometry(_)))
        else {
            unreachable!()
        };
        self.send(&ViewerMessage::Barrier(1));
        self.until(|message| *message == Message::Barrier(1));
        size
    }

    /// Reads to the end; returns why the session closed.
    pub(crate) fn closed(&mut self) -> (CloseCode, String) {
        let Message::Close(code, reason) =
            self.until(|message| matches!(message, Message::Close(..)))
        else {
            unreachable!()
        };
        assert_eq!(self.next(), None, "nothing follows a close");
        (code, reason)
    }
}

pub(crate) fn hello() -> ViewerMessage {
    ViewerMessage::Hello(ViewerHello {
        version: thinc_protocol::VERSION,
        caps: 0,
        size: Size { width: 0, height: 0 },
        message_bytes_max: SESSION_MESSAGE_BYTES_MAX as u32,
        name: "test".into(),
    })
}

fn summarize(message: &SessionMessage<'_>) -> Message {
    match message {
        SessionMessage::Hello(hello) => Message::Hello(hello.name.clone()),
        SessionMessage::Geometry(geometry) => Message::Geometry(geometry.size),
        SessionMessage::Update(update) => {
            Message::Update { seq: update.seq, bytes: update.commands.len() }
        }
        SessionMessage::Barrier(id) => Message::Barrier(*id),
        SessionMessage::Pong(_) => Message::Pong,
        SessionMessage::ClipPolicy(directions) => Message::ClipPolicy(*directions),
        SessionMessage::File(message) => Message::File(message.clone()),
        SessionMessage::InputReceived(input) => Message::Seen(*input),
        SessionMessage::Close(close) => Message::Close(close.code, close.reason.to_owned()),
        SessionMessage::Clip(ClipMessage::Offer { formats, .. }) => Message::Offered(*formats),
        SessionMessage::People(people) => Message::People(people.clone()),
        SessionMessage::Invitations(list) => Message::Invitations(list.clone()),
        SessionMessage::Shared(answer) => Message::Shared(answer.clone()),
        SessionMessage::PersonPointer(pointer) => Message::Pointer(*pointer),
        SessionMessage::Notice(text) | SessionMessage::BriefNotice(text) => {
            Message::Notice(text.clone())
        }
        SessionMessage::Sound(packet) => Message::Sound(packet.frames[0].bytes.to_vec()),
        SessionMessage::MicrophoneWant(want) => Message::Microphone(*want),
        SessionMessage::SoundPlayers(players) => Message::Players(players.clone()),
        SessionMessage::Graphics(line) => Message::Graphics(line.clone()),
        _ => Message::Other,
    }
}

/// Accepts any certificate, like a browser whose user ignored the warning.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for AcceptAnyCertificate {
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

/// A TLS connection that offers these versions and this protocol, after the handshake.
pub(crate) fn tls(
    address: SocketAddr,
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: Option<&[u8]>,
) -> io::Result<Tls> {
    tls_over(TcpStream::connect(address)?, client_config(versions, alpn))
}

/// What offers these versions and this protocol.
pub(crate) fn client_config(
    versions: &[&'static rustls::SupportedProtocolVersion],
    alpn: Option<&[u8]>,
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols.extend(alpn.map(<[u8]>::to_vec));
    Arc::new(config)
}

/// The same over a connection that is open.
pub(crate) fn tls_over(tcp: TcpStream, config: Arc<ClientConfig>) -> io::Result<Tls> {
    tls_named(tcp, config, "localhost")
}

/// A connection from this address of this machine.
pub(crate) fn dial(source: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    // Another test may start a program at this moment, which would inherit it.
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddr::from((source, 0)))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// The same, to a server that may have several names.
fn tls_named(tcp: TcpStream, config: Arc<ClientConfig>, name: &str) -> io::Result<Tls> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    tcp.set_read_timeout(Some(TIMEOUT))?;
    let mut stream = StreamOwned::new(ClientConnection::new(config, name).unwrap(), tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Everything until the peer closes the connection, in order or not.
pub(crate) fn read_to_end(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

/// A browser, from the session's point of view.
pub(crate) struct Browser {
    pub(crate) address: SocketAddr,
    pub(crate) cookie: Option<String>,
    /// The origin secret, as in the answer to a login.
    pub(crate) secret: Option<String>,
    /// The address of this machine that it connects from.
    pub(crate) source: Option<Ipv4Addr>,
    /// Host and port as in the address bar, if they are others than those of `address`.
    pub(crate) public: Option<String>,
}

/// The answer to a request.
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
        Browser::at(session.address())
    }

    pub(crate) fn at(address: SocketAddr) -> Browser {
        Browser { address, cookie: None, secret: None, source: None, public: None }
    }

    /// Host and port as in the address bar.
    pub(crate) fn host(&self) -> String {
        self.public.clone().unwrap_or_else(|| self.address.to_string())
    }

    /// A connection without requests so far.
    pub(crate) fn connect(&self) -> Tls {
        self.try_connect().unwrap()
    }

    pub(crate) fn try_connect(&self) -> io::Result<Tls> {
        let tcp = match self.source {
            Some(source) => dial(source, self.address)?,
            None => TcpStream::connect(self.address)?,
        };
        let config = client_config(&[&rustls::version::TLS13], Some(b"http/1.1"));
        let name = self.public.as_deref().and_then(|host| host.split(':').next());
        tls_named(tcp, config, name.unwrap_or("localhost"))
    }

    /// One request on a new connection, which stays open for what may follow an upgrade.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        extra: &[(&str, &str)],
        body: &str,
    ) -> (Answer, BufReader<Tls>) {
        self.request_on(self.connect(), method, path, extra, body)
    }

    /// The same on this connection.
    pub(crate) fn request_on(
        &self,
        mut stream: Tls,
        method: &str,
        path: &str,
        extra: &[(&str, &str)],
        body: &str,
    ) -> (Answer, BufReader<Tls>) {
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n",
            self.host(),
            body.len()
        );
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
        let status = line
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("no status in {line:?}"))
            .parse()
            .unwrap();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let length =
            headers.get("content-length").map_or(0, |length: &String| length.parse().unwrap());
        let mut body = vec![0; if method == "HEAD" { 0 } else { length }];
        reader.read_exact(&mut body).unwrap();
        (Answer { status, headers, body }, reader)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.open("GET", path, &[], "").0
    }

    /// As the page requests it: with the origin secret.
    pub(crate) fn get_as_page(&self, path: &str) -> Answer {
        let headers: Vec<_> =
            self.secret.iter().map(|secret| ("Thinc-Origin-Secret", secret.as_str())).collect();
        self.open("GET", path, &headers, "").0
    }

    /// Logs in with the link's token; keeps the cookie and the origin secret.
    pub(crate) fn login(&mut self, link: &Link) -> Answer {
        self.login_with(link, "")
    }

    /// Logs in as a guest.
    pub(crate) fn login_as(&mut self, link: &Link, name: &str, password: &str) -> Answer {
        self.login_with(link, &format!(",\"name\":\"{name}\",\"password\":\"{password}\""))
    }

    fn login_with(&mut self, link: &Link, more: &str) -> Answer {
        let token = thinc_transport::base64url::encode(link.token.as_ref().unwrap());
        let path = format!("{}login", link.base_path);
        let origin = format!("https://{}", self.address);
        let headers = [("Content-Type", "application/json"), ("Origin", origin.as_str())];
        let body = format!("{{\"token\":\"{token}\"{more}}}");
        let (answer, _) = self.open("POST", &path, &headers, &body);
        if let Some(cookie) = answer.headers.get("set-cookie") {
            self.cookie = Some(cookie.split(';').next().unwrap().to_owned());
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            self.secret = Some(body["originSecret"].as_str().unwrap().to_owned());
        }
        answer
    }

    pub(crate) fn websocket(&self, origin: Option<&str>) -> (Answer, BufReader<Tls>) {
        self.websocket_over(self.connect(), origin)
    }

    pub(crate) fn websocket_over(
        &self,
        connection: Tls,
        origin: Option<&str>,
    ) -> (Answer, BufReader<Tls>) {
        self.websocket_at("/ws", connection, origin)
    }

    /// The same at this path.
    pub(crate) fn websocket_at(
        &self,
        path: &str,
        connection: Tls,
        origin: Option<&str>,
    ) -> (Answer, BufReader<Tls>) {
        let mut headers = vec![
            ("Connection", "keep-alive, Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let protocols = match &self.secret {
            Some(secret) => format!("thinc, thinc.origin-secret.{secret}"),
            None => "thinc".into(),
        };
        headers.push(("Sec-WebSocket-Protocol", &protocols));
        self.request_on(connection, "GET", path, &headers, "")
    }
}

/// A masked binary message of at most 125 bytes, as browsers send them.
pub(crate) fn websocket_message(bytes: &[u8]) -> Vec<u8> {
    let mut message = vec![0x82, 0x80 | u8::try_from(bytes.len()).unwrap(), 1, 2, 3, 4];
    message
        .extend(bytes.iter().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
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
