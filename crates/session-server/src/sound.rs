//! What the session's programs play, from the sound server (`thinc desk`), which outlives this
//! process, and what they record of a viewer's microphone. From thinc-desk's process.rs, over a
//! Unix socket, to the encoders of viewers' sound; and back, from microphone.rs.
//! Knows the bytes of the link and the session's clock; never programs, codecs or viewers.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use thinc_desk::link::{
    self, LATENCY_MAX, LINK_VERSION, MESSAGE_BYTES_MAX, Message, SessionMessage, Wish,
};
use thinc_protocol::Micros;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::connection::{Event, Events};
use crate::microphone::Microphone;

pub use thinc_desk::link::{CHANNELS, FRAME_SAMPLES, RATE};

/// Frames that wait to be encoded: 80 ms. With more the newest are left out, and a later one has
/// the mark "discontinuity".
const WAITING_FRAMES_MAX: usize = 8;
/// Before connecting again after the sound server has ended. The supervisor, which restarts it,
/// keeps its socket: the new connection waits there.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// 10 ms of what the session's programs play.
#[derive(Clone, Debug, PartialEq)]
pub struct SoundFrame {
    /// When its first sample was due, by the session's clock, like the time of a video frame.
    /// Frames without a mark are exactly 10 ms apart.
    pub time: Micros,
    /// No frame follows until something can be heard again; this one is silent.
    pub silence_follows: bool,
    /// Samples are missing between the last frame and this one.
    pub discontinuity: bool,
    /// 480 samples of left and right, interleaved, at 48 kHz, from -1 to 1.
    pub samples: Box<[f32; FRAME_SAMPLES * CHANNELS]>,
}

/// The session's sound.
#[derive(Debug)]
pub struct Sound {
    /// What programs play, while somebody listens and it is not silent.
    pub frames: mpsc::Receiver<SoundFrame>,
    /// Names of the programs that play now.
    pub players: watch::Receiver<Vec<String>>,
    /// Whether a program records the microphone.
    pub recorded: watch::Receiver<bool>,
    /// What is wanted of it.
    pub control: SoundControl,
}

/// Tells the sound server what viewers need. Repeating a wish costs nothing.
#[derive(Clone, Debug)]
pub struct SoundControl(watch::Sender<Wish>);

impl SoundControl {
    /// A viewer listens, or none does: then no frames are sent, and programs are read less often.
    pub fn set_listening(&self, listening: bool) {
        self.change(|wish| wish.listening = listening);
    }

    /// How much later sound is heard than its picture is seen, at most 1 s: players delay their
    /// pictures by it.
    pub fn set_latency(&self, latency: Duration) {
        let latency = Micros::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX);
        self.change(|wish| wish.latency = latency.min(LATENCY_MAX));
    }

    fn change(&self, change: impl FnOnce(&mut Wish)) {
        self.0.send_if_modified(|wish| {
            let before = *wish;
            change(wish);
            *wish != before
        });
    }
}

/// Connects to the sound server at `socket`, again and again. `start` is the zero of the session's
/// clock.
pub fn start(socket: &Path, start: Instant) -> Sound {
    start_with(socket, start, None)
}

/// The same; programs record this microphone.
fn start_with(socket: &Path, start: Instant, microphone: Option<Microphone>) -> Sound {
    let (sender, frames) = mpsc::channel(WAITING_FRAMES_MAX);
    let (wish, wishes) = watch::channel(Wish::default());
    let (tell_players, players) = watch::channel(Vec::new());
    let (tell_recorded, recorded) = watch::channel(false);
    let connector = Connector {
        socket: socket.to_owned(),
        start,
        zero: zero(start),
        frames: sender,
        players: tell_players,
        microphone,
        recorded: tell_recorded,
        wishes,
    };
    tokio::spawn(connector.run());
    Sound { frames, players, recorded, control: SoundControl(wish) }
}

/// The same for the session's actor, which codes it.
pub(crate) fn connect(
    socket: &Path,
    zero: Instant,
    microphone: Option<Microphone>,
    events: Events,
) -> SoundControl {
    let sound = start_with(socket, zero, microphone);
    let Sound { mut frames, mut players, mut recorded, control } = sound;
    let (names, records) = (events.clone(), events.clone());
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if events.send(Event::Sound(frame)).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while players.changed().await.is_ok() {
            let newest = players.borrow_and_update().clone();
            if names.send(Event::Players(newest)).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while recorded.changed().await.is_ok() {
            let newest = *recorded.borrow_and_update();
            if records.send(Event::Recorded(newest)).await.is_err() {
                return;
            }
        }
    });
    control
}

/// The session's zero on CLOCK_MONOTONIC, which `Instant` is too.
fn zero(start: Instant) -> Micros {
    let now = clock_gettime(ClockId::Monotonic);
    let now = now.tv_sec as Micros * 1_000_000 + now.tv_nsec as Micros / 1000;
    now.saturating_sub(start.elapsed().as_micros() as Micros)
}

struct Connector {
    socket: PathBuf,
    start: Instant,
    zero: Micros,
    frames: mpsc::Sender<SoundFrame>,
    players: watch::Sender<Vec<String>>,
    /// What programs record; None: silence, of which the sound server has its own.
    microphone: Option<Microphone>,
    recorded: watch::Sender<bool>,
    wishes: watch::Receiver<Wish>,
}

impl Connector {
    /// Until nobody takes the frames, or the sound server cannot be understood.
    async fn run(mut self) {
        while let Err(error) = self.receive().await {
            self.tell_players(Vec::new());
            self.tell_recorded(false);
            match error.kind() {
                io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::BrokenPipe => info!("the sound server has ended; reconnecting"),
                // The socket is there as long as the session.
                _ => {
                    warn!("the session has no sound: {}: {error}", self.socket.display());
                    return;
                }
            }
            sleep(RECONNECT_DELAY).await;
        }
    }

    /// Ends without an error if nobody takes frames any more.
    async fn receive(&mut self) -> io::Result<()> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        if socket_peercred(&stream)?.uid != geteuid() {
            let reason = "the socket belongs to another user";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let (mut reader, mut writer) = stream.split();
        writer.write_all(&[LINK_VERSION]).await?;
        let first = *self.wishes.borrow_and_update();
        writer.write_all(&first.encode()).await?;
        let mut version = [0];
        reader.read_exact(&mut version).await?;
        if version != [LINK_VERSION] {
            let reason = format!(
                "the sound server is of another build of thinc (version {} of the link, not \
                    {LINK_VERSION}); sessions that are started from now on have sound",
                version[0]
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        let (mut bytes, mut filled) = ([0; MESSAGE_BYTES_MAX], 0);
        let mut has_gap = false;
        loop {
            tokio::select! {
                read = reader.read(&mut bytes[filled..]) => {
                    filled += match read? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        read => read,
                    };
                    let mut taken = 0;
                    while let Some((message, length)) = Message::decode(&bytes[taken..filled])
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
                    {
                        taken += length;
                        match message {
                            Message::Players(players) => self.tell_players(players),
                            Message::Microphone(blocks) => {
                                self.tell_recorded(blocks > 0);
                                let sound = self.record(blocks);
                                // The sound server reads at any time, and asks for little.
                                writer.write_all(&sound).await?;
                            }
                            Message::Frame(frame) => {
                                if !self.pass_on(frame, &mut has_gap) {
                                    return Ok(());
                                }
                            }
                        }
                    }
                    bytes.copy_within(taken..filled, 0);
                    filled -= taken;
                }
                changed = self.wishes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let wish = *self.wishes.borrow_and_update();
                    // A few bytes, which the sound server always reads.
                    writer.write_all(&wish.encode()).await?;
                }
            }
        }
    }

    fn tell_players(&self, players: Vec<String>) {
        self.players.send_if_modified(|told| {
            let is_new = *told != players;
            *told = players;
            is_new
        });
    }

    fn tell_recorded(&self, is_recorded: bool) {
        self.recorded.send_if_modified(|told| {
            let is_new = *told != is_recorded && self.microphone.is_some();
            *told = is_recorded;
            is_new
        });
    }

    /// So many blocks of the microphone.
    fn record(&self, blocks: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        let now = self.start.elapsed().as_micros() as Micros;
        if let Some(microphone) = &self.microphone {
            for _ in 0..blocks {
                SessionMessage::encode_microphone(&microphone.pull(now), &mut bytes);
            }
        }
        bytes
    }

    /// False if nobody takes frames any more.
    fn pass_on(&self, frame: link::Frame, has_gap: &mut bool) -> bool {
        let link::Frame { time, silence_follows, discontinuity, samples } = frame;
        let frame = SoundFrame {
            time: time.saturating_sub(self.zero),
            silence_follows,
            discontinuity: discontinuity || *has_gap,
            samples,
        };
        match self.frames.try_send(frame) {
            Ok(()) => *has_gap = false,
            Err(mpsc::error::TrySendError::Full(_)) => *has_gap = true,
            Err(mpsc::error::TrySendError::Closed(_)) => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    fn socket(name: &str) -> (PathBuf, UnixListener) {
        let path = std::env::temp_dir().join(format!("thinc-sound-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        (path, listener)
    }

    fn frame(time: Micros) -> link::Frame {
        let samples = Box::new([0.25; FRAME_SAMPLES * CHANNELS]);
        link::Frame { time, silence_follows: false, discontinuity: false, samples }
    }

    async fn accept(listener: &UnixListener) -> UnixStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut version = [0];
        stream.read_exact(&mut version).await.unwrap();
        assert_eq!(version, [LINK_VERSION]);
        stream.write_all(&[LINK_VERSION]).await.unwrap();
        stream
    }

    async fn wish(stream: &mut UnixStream) -> Wish {
        let mut bytes = [0; link::WISH_BYTES];
        stream.read_exact(&mut bytes).await.unwrap();
        Wish::decode(bytes)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn frames_arrive_on_the_sessions_clock_and_wishes_outlive_a_restart() {
        let (path, listener) = socket("clock");
        let zero_at = Instant::now();
        let mut sound = start(&path, zero_at);
        let mut desk = accept(&listener).await;
        assert_eq!(wish(&mut desk).await, Wish::default());
        sound.control.set_listening(true);
        sound.control.set_latency(Duration::from_millis(40));
        // One message or two, as it comes; the last one says both.
        let wanted = Wish { listening: true, latency: 40_000 };
        while wish(&mut desk).await != wanted {}
        // In one piece: who plays, a frame, and half of who plays later.
        let mut bytes = Vec::new();
        Message::encode_players(&["mpv".into()], &mut bytes);
        frame(zero(zero_at) + 70_000).encode(&mut bytes);
        let whole = bytes.len();
        Message::encode_players(&["Firefox".into()], &mut bytes);
        desk.write_all(&bytes[..whole + 4]).await.unwrap();
        let received = sound.frames.recv().await.unwrap();
        assert_eq!(*sound.players.borrow_and_update(), ["mpv"]);
        desk.write_all(&bytes[whole + 4..]).await.unwrap();
        sound.players.changed().await.unwrap();
        assert_eq!(*sound.players.borrow_and_update(), ["Firefox"]);
        assert!(received.time.abs_diff(70_000) < 1000, "{}", received.time);
        assert_eq!(received.samples[3], 0.25);
        drop(desk);
        let mut desk = accept(&listener).await;
        assert_eq!(wish(&mut desk).await, wanted);
        assert!(sound.players.borrow_and_update().is_empty(), "the server has ended");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn frames_that_nobody_takes_are_left_out_and_marked() {
        let (sender, mut frames) = mpsc::channel(WAITING_FRAMES_MAX);
        let (_, wishes) = watch::channel(Wish::default());
        let (players, _) = watch::channel(Vec::new());
        let (recorded, _) = watch::channel(false);
        let connector = Connector {
            socket: PathBuf::new(),
            start: Instant::now(),
            zero: 5,
            frames: sender,
            players,
            microphone: None,
            recorded,
            wishes,
        };
        let mut has_gap = false;
        let mut pass_on = |time| connector.pass_on(frame(time), &mut has_gap);
        for time in 0..20 {
            assert!(pass_on(time * 10_000));
        }
        let times = |frames: &mut mpsc::Receiver<SoundFrame>| -> Vec<(Micros, bool)> {
            std::iter::from_fn(|| frames.try_recv().ok())
                .map(|frame| (frame.time, frame.discontinuity))
                .collect()
        };
        let taken = times(&mut frames);
        assert_eq!(taken.len(), WAITING_FRAMES_MAX);
        assert_eq!((taken[0], taken[7]), ((0, false), (69_995, false)));
        assert!(pass_on(200_000) && pass_on(210_000));
        assert_eq!(times(&mut frames), [(199_995, true), (209_995, false)]);
        drop(frames);
        assert!(!pass_on(220_000));
    }
}
