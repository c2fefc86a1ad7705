//! A fake session: real TLS and real messages, a generated screen, and a log of the viewer's
//! messages. For the tests of this crate; the behaviour of a real session is session-core's.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustls::ServerConnection;
use thinc_protocol::auth::{Auth, AuthAnswers, AuthOk, AuthPrompt, AuthPrompts, PromptStyle};
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::device_auth::{AuthChallenge, DeviceAuth};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::limits::VIEWER_MESSAGE_BYTES_MAX;
use thinc_protocol::session::{
    Close, CloseCode, CursorImage, Geometry, SessionCaps, SessionHello, SessionMessage, Update,
};
use thinc_protocol::video::VideoStatus;
use thinc_protocol::viewer::{InputEvent, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_transport::device::{DeviceId, PublicKey, is_signed, place_of, sign_in_message};
use thinc_transport::identity::Identity;
use thinc_transport::{Link, Scheme, SpkiPin};

/// Longest wait for an event: longer than any step takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// The fake session.
pub(crate) struct Fake {
    pub(crate) shared: Arc<Shared>,
    pub(crate) said: Receiver<ViewerMessage>,
    pub(crate) folder: PathBuf,
    identity: Identity,
    port: u16,
    accepting: Option<JoinHandle<()>>,
}

pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    log: Mutex<Sender<ViewerMessage>>,
}

pub(crate) struct State {
    pub(crate) size: Size,
    pub(crate) pixels: Vec<u32>,
    pub(crate) tokens: Vec<Vec<u8>>,
    /// Who has tried to log in.
    pub(crate) account: String,
    pub(crate) session_credential: Vec<u8>,
    /// The device that it remembers, as a broker does.
    pub(crate) device: Option<PublicKey>,
    /// How often that has signed its person in.
    pub(crate) signed_in: u32,
    /// The credential of an earlier login that it has shown last.
    pub(crate) earlier: Vec<u8>,
    /// How the next devices are refused that sign, or want to be remembered; the next at the end.
    pub(crate) refusals: Vec<CloseCode>,
    /// Its own key, which a device signs for.
    pin: SpkiPin,
    /// Geometries are not answered: the session keeps its size.
    pub(crate) stubborn: bool,
    /// Barriers are remembered and not answered.
    pub(crate) hold_barriers: bool,
    /// A viewer that connects gets the geometry, but no pixels yet.
    pub(crate) hold_picture: bool,
    /// Pings are not answered until the viewer has another connection, as if the path were dead.
    pub(crate) deaf: bool,
    /// Connections are accepted, and their handshakes wait.
    pub(crate) hold_handshakes: bool,
    /// The newest input that it reports to a viewer that reconnects.
    pub(crate) seen: Option<u32>,
    pub(crate) held_barriers: Vec<u32>,
    pub(crate) connections: u32,
    /// Authenticated connections that are open.
    open: u32,
    /// The maximum of these and one that is accepted.
    pub(crate) open_most: u32,
    stop: bool,
    epoch: u32,
    seq: u64,
    wire: Option<Arc<Wire>>,
    cursor: Option<(Size, u16, u16, Vec<u8>)>,
    /// What its hello announces besides.
    pub(crate) more_caps: u32,
}

/// The sending half of the open connection.
struct Wire {
    tcp: TcpStream,
    tls: Mutex<ServerConnection>,
}

impl Wire {
    fn send(&self, bytes: &[u8]) {
        let mut tls = self.tls.lock().unwrap();
        for piece in bytes.chunks(16 * 1024) {
            tls.writer().write_all(piece).unwrap();
            while tls.wants_write() {
                if tls.write_tls(&mut &self.tcp).is_err() {
                    return;
                }
            }
        }
    }
}

/// A screen in which no pixel equals its neighbour.
pub(crate) fn ramp(size: Size) -> Vec<u32> {
    (0..size.area() as u32).map(|i| i.wrapping_mul(0x0009_1F35) & 0xff_ffff).collect()
}

impl Fake {
    pub(crate) fn start(size: Size) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let folder =
            std::env::temp_dir().join(format!("thinc-view-test-{}-{port}", std::process::id()));
        let identity = Identity::load_or_create(&folder).unwrap();
        let config = identity.server_config().unwrap();
        let (log, said) = mpsc::channel();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                size,
                pixels: ramp(size),
                tokens: vec![b"first".to_vec()],
                account: String::new(),
                session_credential: b"the key of this session".to_vec(),
                device: None,
                signed_in: 0,
                earlier: Vec::new(),
                refusals: Vec::new(),
                pin: identity.pin(),
                stubborn: false,
                hold_barriers: false,
                hold_picture: false,
                deaf: false,
                hold_handshakes: false,
                seen: None,
                held_barriers: Vec::new(),
                connections: 0,
                open: 0,
                open_most: 0,
                stop: false,
                epoch: 1,
                seq: 0,
                wire: None,
                cursor: None,
                more_caps: SessionCaps::STEREO | SessionCaps::VIDEO_CODECS | SessionCaps::QUALITY,
            }),
            log: Mutex::new(log),
        });
        let accepting = std::thread::spawn({
            let shared = shared.clone();
            move || {
                for tcp in listener.incoming() {
                    if shared.state.lock().unwrap().stop {
                        return;
                    }
                    let tls = ServerConnection::new(config.clone()).unwrap();
                    shared.serve(tcp.unwrap(), tls);
                }
            }
        });
        Fake { shared, said, folder, identity, port, accepting: Some(accepting) }
    }

    pub(crate) fn link(&self) -> Link {
        Link {
            scheme: Scheme::Thinc,
            host: "127.0.0.1".into(),
            port: self.port,
            base_path: "/".into(),
            token: Some(b"first".to_vec()),
            pin: Some(self.identity.pin()),
            guest: None,
        }
    }

    pub(crate) fn screen(&self) -> Vec<u32> {
        self.shared.state.lock().unwrap().pixels.clone()
    }

    /// Fills a rectangle and sends it in an update.
    pub(crate) fn fill(&self, rect: Rect, color: u32, echo: Option<u32>) {
        let mut state = self.shared.state.lock().unwrap();
        let width = state.size.width as usize;
        for y in rect.y1 as usize..rect.y2 as usize {
            state.pixels[y * width + rect.x1 as usize..y * width + rect.x2 as usize].fill(color);
        }
        let mut commands = Vec::new();
        Command::Sfill { region: Region::from(rect), color }.encode(&mut commands);
        state.update(&commands, echo);
    }

    /// Sends commands in one update that ends a burst.
    pub(crate) fn commands(&self, commands: &[Command<'_>]) {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        self.shared.state.lock().unwrap().update(&bytes, None);
    }

    /// The viewer's next video report.
    pub(crate) fn video_state(&self) -> VideoStatus {
        self.wait_for("how a stream stands", |message| match message {
            ViewerMessage::Video(state) => Some(*state),
            _ => None,
        })
    }

    /// Changes the size, with a new screen.
    pub(crate) fn set_size(&self, size: Size) {
        self.shared.state.lock().unwrap().set_size(size);
    }

    pub(crate) fn set_cursor(&self, size: Size, hot: (u16, u16), pixels: &[u32]) {
        let bytes: Vec<u8> = pixels.iter().flat_map(|p| p.to_le_bytes()).collect();
        let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
        let count = zstd_safe::compress(&mut packed[..], &bytes, 1).unwrap();
        packed.truncate(count);
        let mut state = self.shared.state.lock().unwrap();
        state.cursor = Some((size, hot.0, hot.1, packed));
        state.send_cursor();
    }

    pub(crate) fn send(&self, message: &SessionMessage<'_>) {
        self.shared.state.lock().unwrap().send(message);
    }

    pub(crate) fn close(&self, code: CloseCode, reason: &str) {
        let mut state = self.shared.state.lock().unwrap();
        state.send(&SessionMessage::Close(Close { code, reason }));
        state.cut();
    }

    /// Aborts the connection without a close message.
    pub(crate) fn cut(&self) {
        self.shared.state.lock().unwrap().cut();
    }

    /// Raw bytes instead of messages.
    pub(crate) fn send_bytes(&self, bytes: &[u8]) {
        let wire = self.shared.state.lock().unwrap().wire.clone();
        wire.expect("a connection").send(bytes);
    }

    /// The viewer's next message that `wanted` accepts; earlier ones are skipped.
    pub(crate) fn wait_for<T>(
        &self,
        what: &str,
        mut wanted: impl FnMut(&ViewerMessage) -> Option<T>,
    ) -> T {
        let until = Instant::now() + LONG;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self
                .said
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("the viewer never sent: {what}"));
            if let Some(found) = wanted(&message) {
                return found;
            }
        }
    }

    /// The first wanted message of those that have arrived, if there is one.
    pub(crate) fn arrived<T>(&self, wanted: impl FnMut(ViewerMessage) -> Option<T>) -> Option<T> {
        self.said.try_iter().find_map(wanted)
    }

    /// The next `count` key events as (code, keysym, down).
    pub(crate) fn keys(&self, count: usize) -> Vec<(u16, u32, bool)> {
        (0..count)
            .map(|_| {
                self.wait_for("a key", |message| match message {
                    ViewerMessage::Input(input) => match input.event {
                        InputEvent::Key { code, keysym, down } => Some((code, keysym, down)),
                        _ => None,
                    },
                    _ => None,
                })
            })
            .collect()
    }

    /// The next input event other than a motion.
    pub(crate) fn input(&self) -> (u32, InputEvent) {
        self.wait_for("an input event", |message| match message {
            ViewerMessage::Input(input) if !matches!(input.event, InputEvent::Motion { .. }) => {
                Some((input.seq, input.event))
            }
            _ => None,
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        {
            let mut state =
                self.shared.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.stop = true;
            state.cut();
        }
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.accepting.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the fake session panicked");
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl State {
    fn send(&mut self, message: &SessionMessage<'_>) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if let Some(wire) = &self.wire {
            wire.send(&bytes);
        }
    }

    fn cut(&mut self) {
        if let Some(wire) = self.wire.take() {
            let _ = wire.tcp.shutdown(Shutdown::Both);
        }
    }

    fn update(&mut self, commands: &[u8], echo: Option<u32>) {
        self.seq += 1;
        let update = Update {
            seq: self.seq,
            after: 0,
            epoch: self.epoch,
            echo,
            end_of_frame: true,
            packed: None,
            commands,
        };
        self.send(&SessionMessage::Update(update));
    }

    fn set_size(&mut self, size: Size) {
        self.size = size;
        self.pixels = ramp(size);
        self.epoch += 1;
        self.send_all();
    }

    fn send_cursor(&mut self) {
        if let Some((size, hot_x, hot_y, pixels)) = self.cursor.take() {
            self.send(&SessionMessage::Cursor(CursorImage { size, hot_x, hot_y, pixels: &pixels }));
            self.cursor = Some((size, hot_x, hot_y, pixels));
        }
    }

    fn send_geometry(&mut self) {
        let geometry = Geometry { epoch: self.epoch, size: self.size, shown: None };
        self.send(&SessionMessage::Geometry(geometry));
    }

    /// Sends the geometry and the whole screen.
    fn send_all(&mut self) {
        self.send_geometry();
        self.send_cursor();
        let data: Vec<u8> =
            self.pixels.iter().flat_map(|p| p.to_le_bytes()[..3].to_vec()).collect();
        let mut commands = Vec::new();
        Command::Raw { rect: self.size.rect(), encoding: Encoding::Plain, data: &data }
            .encode(&mut commands);
        self.update(&commands, None);
    }
}

impl Shared {
    fn serve(self: &Arc<Shared>, tcp: TcpStream, mut tls: ServerConnection) {
        tcp.set_nodelay(true).unwrap();
        loop {
            let mut state = self.state.lock().unwrap();
            state.open_most = state.open_most.max(state.open + 1);
            if !state.hold_handshakes || state.stop {
                break;
            }
            drop(state);
            std::thread::sleep(Duration::from_millis(5));
        }
        while tls.is_handshaking() {
            if tls.complete_io(&mut &tcp).is_err() {
                return;
            }
        }
        let wire = Arc::new(Wire { tcp, tls: Mutex::new(tls) });
        // One connection at a time: the newest.
        let shared = self.clone();
        std::thread::spawn(move || shared.read(&wire));
    }

    fn read(&self, wire: &Arc<Wire>) {
        let mut frames = Deframer::new(VIEWER_MESSAGE_BYTES_MAX);
        let mut raw = vec![0; 32 * 1024];
        let mut authenticated = false;
        let mut plain = Vec::new();
        // Bytes that arrived with the end of the handshake are in `tls` already, so the first round
        // reads nothing.
        let mut count = 0;
        loop {
            plain.clear();
            {
                let mut tls = wire.tls.lock().unwrap();
                let mut rest = &raw[..count];
                loop {
                    let state = tls.process_new_packets().unwrap();
                    let at = plain.len();
                    plain.resize(at + state.plaintext_bytes_to_read(), 0);
                    tls.reader().read_exact(&mut plain[at..]).unwrap();
                    if rest.is_empty() {
                        break;
                    }
                    tls.read_tls(&mut rest).unwrap();
                }
            }
            frames.push(&plain);
            while let Some(frame) = frames.next().unwrap() {
                if authenticated {
                    let message = ViewerMessage::decode(&frame).unwrap();
                    self.handle(wire, &message);
                    let _ = self.log.lock().unwrap().send(message);
                } else if let Some(is_welcome) = self.log_in(wire, &frame) {
                    if !is_welcome {
                        let _ = wire.tcp.shutdown(Shutdown::Both);
                        return;
                    }
                } else {
                    authenticated = self.authenticate(wire, &Auth::decode(&frame).unwrap());
                    if !authenticated {
                        let _ = wire.tcp.shutdown(Shutdown::Both);
                        return;
                    }
                }
            }
            match (&wire.tcp).read(&mut raw) {
                Ok(0) | Err(_) => {
                    self.state.lock().unwrap().open -= u32::from(authenticated);
                    return;
                }
                Ok(more) => count = more,
            }
        }
    }

    /// What a broker does with the name of an account, and with answers: the password is swordfish.
    /// `None`: this is neither.
    fn log_in(&self, wire: &Arc<Wire>, frame: &MessageFrame<'_>) -> Option<bool> {
        let mut bytes = Vec::new();
        let answers = AuthAnswers::decode(frame);
        if let Ok(device) = DeviceAuth::decode(frame) {
            return Some(self.meet_device(wire, &device));
        }
        let is_welcome = match (Auth::decode(frame), &answers) {
            (Ok(Auth::Account(name)), _) => {
                self.state.lock().unwrap().account = String::from_utf8(name.to_vec()).unwrap();
                let prompt = |style, text| AuthPrompt { style, text };
                let password = prompt(PromptStyle::Hidden, "Password:");
                AuthPrompts(vec![prompt(PromptStyle::Text, "Be welcome."), password])
                    .encode(&mut bytes);
                true
            }
            (_, Ok(AuthAnswers(answers))) if answers.as_slice() == [b"swordfish"] => {
                let state = self.state.lock().unwrap();
                AuthOk { session_credential: &state.session_credential }.encode(&mut bytes);
                true
            }
            (_, Ok(_)) => {
                let close = Close { code: CloseCode::Unauthorized, reason: "login refused" };
                SessionMessage::Close(close).encode(&mut bytes);
                false
            }
            _ => return None,
        };
        wire.send(&bytes);
        Some(is_welcome)
    }

    /// What a broker does with a device; false for one that it does not remember.
    fn meet_device(&self, wire: &Arc<Wire>, device: &DeviceAuth<'_>) -> bool {
        const CHALLENGE: [u8; 32] = [7; 32];
        let mut state = self.state.lock().unwrap();
        let known = state.device.map(|key| (DeviceId::of(&key), key));
        let mut bytes = Vec::new();
        let mut code = CloseCode::Unauthorized;
        let is_welcome = match device {
            DeviceAuth::Device { earlier, .. } => {
                state.earlier = earlier.to_vec();
                // As a broker: who is refused learns it once they have signed.
                AuthChallenge(&CHALLENGE).encode(&mut bytes);
                true
            }
            _ if !state.refusals.is_empty() => {
                code = state.refusals.pop().unwrap();
                false
            }
            DeviceAuth::Remember { session_credential, key, name } => {
                assert!(name.starts_with("thinc-view"), "{name}");
                let is_known = *session_credential == state.session_credential;
                if is_known {
                    state.device = Some(**key);
                    AuthOk { session_credential: &DeviceId::of(key).0 }.encode(&mut bytes);
                }
                is_known
            }
            DeviceAuth::Signature(signature) => {
                let place = place_of(&state.pin);
                let is_good = known.is_some_and(|(id, key)| {
                    is_signed(&key, &sign_in_message(&place, id, &CHALLENGE), signature)
                });
                if is_good {
                    state.signed_in += 1;
                    let session_credential = &state.session_credential;
                    AuthOk { session_credential }.encode(&mut bytes);
                }
                is_good
            }
        };
        if !is_welcome {
            let close = Close { code, reason: "login refused" };
            SessionMessage::Close(close).encode(&mut bytes);
        }
        drop(state);
        wire.send(&bytes);
        is_welcome
    }

    fn authenticate(&self, wire: &Arc<Wire>, auth: &Auth<'_>) -> bool {
        let mut state = self.state.lock().unwrap();
        let good = match auth {
            Auth::Token(token) | Auth::Guest { token, .. } => {
                let before = state.tokens.len();
                state.tokens.retain(|other| other != token);
                state.tokens.len() < before
            }
            Auth::SessionCredential(key) => state.session_credential == *key,
            Auth::Account(_) => unreachable!("it is answered before"),
        };
        let mut bytes = Vec::new();
        if good {
            AuthOk { session_credential: &state.session_credential }.encode(&mut bytes);
            state.wire = Some(wire.clone());
            state.connections += 1;
            state.open += 1;
            state.deaf = false;
        } else {
            let reason = "this link was used already";
            SessionMessage::Close(Close { code: CloseCode::Unauthorized, reason })
                .encode(&mut bytes);
        }
        wire.send(&bytes);
        good
    }

    fn handle(&self, wire: &Arc<Wire>, message: &ViewerMessage) {
        let mut state = self.state.lock().unwrap();
        // What a connection sent before the next one replaced it is not answered on that one.
        if !state.wire.as_ref().is_some_and(|current| Arc::ptr_eq(current, wire)) {
            return;
        }
        match message {
            ViewerMessage::Hello(hello) => {
                let sound =
                    if hello.caps & ViewerCaps::SOUND != 0 { SessionCaps::SOUND } else { 0 };
                let caps =
                    SessionCaps::CLIPBOARD | SessionCaps::RELATIVE | SessionCaps::FILES | sound;
                let caps = caps | state.more_caps;
                let answer = SessionHello {
                    version: 1,
                    caps,
                    name: "fake".into(),
                    message_bytes_max: 65536,
                };
                state.send(&SessionMessage::Hello(answer));
                if let Some(input) = state.seen.filter(|_| state.connections > 1) {
                    assert!(
                        hello.caps & ViewerCaps::RESUME_INPUT != 0,
                        "the viewer has asked for it"
                    );
                    state.send(&SessionMessage::InputReceived(input));
                }
                if hello.size.area() > 0 && !state.stubborn {
                    state.size = hello.size;
                    state.pixels = ramp(hello.size);
                }
                state.epoch += 1;
                if state.hold_picture {
                    state.send_geometry();
                } else {
                    state.send_all();
                }
            }
            ViewerMessage::Ping(_) if state.deaf => {}
            ViewerMessage::Ping(id) => state.send(&SessionMessage::Pong(*id)),
            ViewerMessage::Barrier(id) if state.hold_barriers => state.held_barriers.push(*id),
            ViewerMessage::Barrier(id) => state.send(&SessionMessage::Barrier(*id)),
            ViewerMessage::Resize(size) if !state.stubborn => state.set_size(*size),
            ViewerMessage::Displays(displays) if !state.stubborn => {
                let rects: Vec<Rect> =
                    displays.displays.iter().map(|display| display.rect).collect();
                let edge =
                    |far: fn(&Rect) -> i32| rects.iter().map(far).max().unwrap_or(1).unsigned_abs();
                state.set_size(Size { width: edge(|rect| rect.x2), height: edge(|rect| rect.y2) });
                state.send(&SessionMessage::Displays(rects));
            }
            _ => {}
        }
    }
}
