//! A program that plays a sound which can be recognised: bursts, a tone, or music. On the server,
//! through the session's PulseAudio server, with a queue of 10 ms as a game has. It says on its
//! output when it wrote what, by the clock of the whole machine. Knows PulseAudio's protocol from a
//! program's side; nothing of X.

use std::io::{BufReader, Cursor, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pulseaudio::protocol::stream::{BufferAttr, StreamFlags};
use pulseaudio::protocol::{
    self, AuthParams, AuthReply, ChannelMap, Command, CommandReply, CreatePlaybackStreamReply,
    MAX_VERSION, PlaybackStreamParams, Prop, Props, SampleFormat, SampleSpec, SetClientNameReply,
    SetPlaybackStreamBufferAttrParams, SetPlaybackStreamBufferAttrReply,
};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, sendmsg};
use rustix::process::{getgid, getpid, getuid};

use crate::Error;
use crate::observe::clock::now_ns;
use crate::observe::heard::AMPLITUDE;

/// Of the tone.
pub const TONE_HZ: f64 = 440.0;
const RATE: u32 = 48_000;
/// Left and right, 16 bits each.
const FRAME_BYTES: usize = 4;
/// Of a burst: 3 ms of a square of 2 kHz. A codec keeps it, as it does not keep single samples.
const BURST_SAMPLES: usize = 144;
const BURST_HALF_PERIOD: usize = 12;
/// From one burst to the next: irregular, so that a delay of several is seen as such.
const BURST_INTERVAL: std::ops::Range<u64> = 250_000_000..350_000_000;
/// Longest wait for the sound server.
const SERVER_LIMIT: Duration = Duration::from_secs(20);

/// Options of `thinc-bench app sound`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// What it plays
    #[arg(long, value_enum)]
    pattern: Pattern,
    /// For how long
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Sound that it keeps in its queue, ms
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(5..=2000))]
    queue_ms: u32,
}

/// What it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pattern {
    /// 3 ms of a square of 2 kHz each 0.25 to 0.35 s
    Bursts,
    /// A sine of 440 Hz
    Tone,
    /// Chords with noise, which a codec cannot make small
    Music,
}

impl Pattern {
    /// Its name as an option.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pattern::Bursts => "bursts",
            Pattern::Tone => "tone",
            Pattern::Music => "music",
        }
    }
}

/// Plays; prints "began NS" before the first sample is written, "burst NS" before each burst, and
/// "ended NS" once the server has played all.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut connection = Connection::open(&server_path()?)?;
    let (channel, requested) = connection.create_stream(options.queue_ms)?;
    let mut generator = Generator::new(options.pattern);
    let end = Instant::now() + Duration::from_secs_f64(options.seconds);
    println!("began {}", now_ns());
    let mut wanted = requested;
    while Instant::now() < end {
        if wanted > 0 {
            let (samples, burst_ns) = generator.next(wanted as usize / FRAME_BYTES);
            connection.write(channel, &samples)?;
            if let Some(ns) = burst_ns {
                println!("burst {ns}");
            }
        }
        wanted = connection.wait_for_request(channel)?;
    }
    connection.drain(channel, options.queue_ms)?;
    println!("ended {}", now_ns());
    Ok(())
}

/// A queue of so many milliseconds, which begins to play once it holds so many.
fn buffer_attr(queue_ms: u32, prebuffer_ms: u32) -> BufferAttr {
    let bytes = |ms: u32| RATE / 1000 * ms * FRAME_BYTES as u32;
    BufferAttr {
        target_length: bytes(queue_ms),
        minimum_request_length: bytes(queue_ms.min(10) / 2),
        pre_buffering: bytes(prebuffer_ms),
        ..BufferAttr::default()
    }
}

/// A connection to the sound server of the environment.
struct Connection {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
    version: u16,
    number: u32,
    /// Asked for and not written yet.
    requested: u32,
}

impl Connection {
    fn open(path: &Path) -> Result<Connection, Error> {
        let stream = UnixStream::connect(path)
            .map_err(|error| format!("no PulseAudio at {}: {error}", path.display()))?;
        stream.set_read_timeout(Some(SERVER_LIMIT))?;
        let reader = BufReader::new(stream.try_clone()?);
        let version = MAX_VERSION;
        let mut connection = Connection { stream, reader, version, number: 0, requested: 0 };
        let auth = AuthParams {
            version: MAX_VERSION,
            supports_shm: false,
            supports_memfd: false,
            cookie: cookie(),
        };
        let reply: AuthReply = connection.ask(&Command::Auth(auth))?;
        connection.version = MAX_VERSION.min(reply.version);
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c"thinc-bench");
        let _: SetClientNameReply = connection.ask(&Command::SetClientName(props))?;
        Ok(connection)
    }

    fn create_stream(&mut self, queue_ms: u32) -> Result<(u32, u32), Error> {
        let params = PlaybackStreamParams {
            sample_spec: SampleSpec { format: SampleFormat::S16Le, channels: 2, sample_rate: RATE },
            channel_map: ChannelMap::stereo(),
            buffer_attr: buffer_attr(queue_ms, 0),
            flags: StreamFlags { adjust_latency: true, ..StreamFlags::default() },
            ..PlaybackStreamParams::default()
        };
        let reply: CreatePlaybackStreamReply = self.ask(&Command::CreatePlaybackStream(params))?;
        Ok((reply.channel, reply.requested_bytes))
    }

    /// Waits until the server has played all.
    fn drain(&mut self, channel: u32, queue_ms: u32) -> Result<(), Error> {
        // A stream that does not prebuffer never ends for PulseAudio: it plays silence instead.
        let params = SetPlaybackStreamBufferAttrParams {
            index: channel,
            buffer_attr: buffer_attr(queue_ms, 1),
            adjust_latency: true,
            early_requests: false,
        };
        let _: SetPlaybackStreamBufferAttrReply =
            self.ask(&Command::SetPlaybackStreamBufferAttr(params))?;
        self.ask_ack(&Command::DrainPlaybackStream(channel))
    }

    fn send(&mut self, command: &Command) -> Result<u32, Error> {
        self.number += 1;
        let mut bytes = Vec::new();
        protocol::write_command_message(&mut bytes, self.number, command, self.version)?;
        // As libpulse does: a server whose cookie is not in this home folder knows the user by it.
        let user = UCred { pid: getpid(), uid: getuid(), gid: getgid() };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmCredentials(user)), "there is room for it");
        let parts = [IoSlice::new(&bytes)];
        let sent = sendmsg(&self.stream, &parts, &mut ancillary, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&bytes[sent..])?;
        Ok(self.number)
    }

    fn write(&mut self, channel: u32, sound: &[u8]) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(sound.len() + protocol::DESCRIPTOR_SIZE);
        protocol::write_memblock(&mut bytes, channel, sound, 0)?;
        Ok(self.stream.write_all(&bytes)?)
    }

    /// One message, with its head.
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; protocol::DESCRIPTOR_SIZE];
        self.reader.read_exact(&mut bytes).map_err(|error| format!("the sound server: {error}"))?;
        let length = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
        if length > protocol::MAX_MEMBLOCKQ_LENGTH {
            return Err(format!("the sound server says a message of {length} bytes").into());
        }
        bytes.resize(protocol::DESCRIPTOR_SIZE + length, 0);
        self.reader.read_exact(&mut bytes[protocol::DESCRIPTOR_SIZE..])?;
        Ok(bytes)
    }

    /// The answer to this command; requests for sound that come before are kept.
    fn answer(&mut self, command: &Command) -> Result<Vec<u8>, Error> {
        let asked = self.send(command)?;
        loop {
            let bytes = self.read()?;
            let mut body = Cursor::new(&bytes[protocol::DESCRIPTOR_SIZE..]);
            match Command::read_tag_prefixed(&mut body, self.version) {
                Ok((number, Command::Reply)) if number == asked => return Ok(bytes),
                Ok((number, Command::Error(error))) if number == asked => {
                    return Err(format!("the sound server: {error}").into());
                }
                Ok((_, Command::Request(request))) => self.requested += request.length,
                _ => {}
            }
        }
    }

    fn ask<R: CommandReply>(&mut self, command: &Command) -> Result<R, Error> {
        let bytes = self.answer(command)?;
        Ok(protocol::read_reply_message(&mut Cursor::new(bytes), self.version)?.1)
    }

    fn ask_ack(&mut self, command: &Command) -> Result<(), Error> {
        self.answer(command).map(drop)
    }

    /// Waits until the server asks for sound; how many bytes.
    fn wait_for_request(&mut self, channel: u32) -> Result<u32, Error> {
        loop {
            let kept = std::mem::take(&mut self.requested);
            if kept > 0 {
                return Ok(kept);
            }
            let bytes = self.read()?;
            let mut body = Cursor::new(&bytes[protocol::DESCRIPTOR_SIZE..]);
            match Command::read_tag_prefixed(&mut body, self.version) {
                Ok((_, Command::Request(request))) if request.channel == channel => {
                    return Ok(request.length);
                }
                Ok((_, Command::PlaybackStreamKilled(_))) => {
                    return Err("the sound server has ended the stream".into());
                }
                _ => {}
            }
        }
    }
}

/// As libpulse looks for it: PULSE_SERVER, then the runtime folder.
fn server_path() -> Result<PathBuf, Error> {
    if let Some(server) = std::env::var("PULSE_SERVER").ok().filter(|server| !server.is_empty()) {
        // "{ID}unix:/path" or "unix:/path" or "/path"; the first of several.
        let first = server.split_whitespace().next().unwrap_or_default();
        let place = first.rsplit_once('}').map_or(first, |(_, place)| place);
        let place = place.strip_prefix("unix:").unwrap_or(place);
        if !place.starts_with('/') {
            return Err(format!("PULSE_SERVER={server}: only sockets of files are known").into());
        }
        return Ok(place.into());
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").ok_or("XDG_RUNTIME_DIR is not set")?;
    Ok(PathBuf::from(runtime).join("pulse/native"))
}

/// What PulseAudio knows its user by; its own size where there is none, as thinc needs none.
fn cookie() -> Vec<u8> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let named = std::env::var_os("PULSE_COOKIE").map(PathBuf::from);
    let places = named.into_iter().chain([home.join(".config/pulse/cookie")]);
    let read = |path: PathBuf| std::fs::read(path).ok().filter(|cookie| cookie.len() == 256);
    places.into_iter().find_map(read).unwrap_or(vec![0; 256])
}

/// Makes the samples.
struct Generator {
    pattern: Pattern,
    /// Samples so far.
    at: u64,
    /// Samples of a burst that are left.
    burst: usize,
    /// When the next burst is due.
    due_ns: u64,
    /// Of a generator of Marsaglia's (xorshift, 2003): every run has the same bursts and noise.
    seed: u64,
}

impl Generator {
    fn new(pattern: Pattern) -> Generator {
        let due_ns = now_ns() + BURST_INTERVAL.start;
        Generator { pattern, at: 0, burst: 0, due_ns, seed: 0x7468_696e_6373_6e64 }
    }

    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    /// So many samples of left and right, and the time of a burst that begins with the first.
    fn next(&mut self, samples: usize) -> (Vec<u8>, Option<u64>) {
        let mut burst_ns = None;
        let now = now_ns();
        if self.pattern == Pattern::Bursts && self.burst == 0 && now >= self.due_ns && samples > 0 {
            let spread = BURST_INTERVAL.end - BURST_INTERVAL.start;
            self.due_ns = now + BURST_INTERVAL.start + self.random() % spread;
            (self.burst, burst_ns) = (BURST_SAMPLES, Some(now));
        }
        let mut bytes = Vec::with_capacity(samples * FRAME_BYTES);
        for _ in 0..samples {
            let value = (self.sample() * 32_767.0).round() as i16;
            bytes.extend([value.to_le_bytes(), value.to_le_bytes()].concat());
            self.at += 1;
        }
        (bytes, burst_ns)
    }

    fn sample(&mut self) -> f32 {
        let seconds = self.at as f64 / f64::from(RATE);
        match self.pattern {
            Pattern::Bursts if self.burst == 0 => 0.0,
            Pattern::Bursts => {
                let done = BURST_SAMPLES - self.burst;
                self.burst -= 1;
                if (done / BURST_HALF_PERIOD).is_multiple_of(2) { AMPLITUDE } else { -AMPLITUDE }
            }
            Pattern::Tone => (std::f64::consts::TAU * TONE_HZ * seconds).sin() as f32 * AMPLITUDE,
            Pattern::Music => {
                // Four chords a second of three sawtooth notes each, with a drum's noise.
                let chord = (self.at / u64::from(RATE / 4)) % 5;
                let root = 110.0 * 2f64.powf(chord as f64 * 5.0 / 12.0);
                let note = |factor: f64| (seconds * root * factor).fract() * 2.0 - 1.0;
                let chord = (note(1.0) + note(1.26) + note(1.5)) / 3.0;
                let beat = (self.at % u64::from(RATE / 4)) as f64 / f64::from(RATE / 4);
                let noise = self.random() as f64 / u64::MAX as f64 * 2.0 - 1.0;
                ((chord * 0.7 + noise * 0.3 * (1.0 - beat)) * f64::from(AMPLITUDE)) as f32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::observe::ear::{Ear, Piece};
    use crate::observe::heard::{Tone, onsets_ns};

    fn heard(bytes: &[u8]) -> Piece {
        let frames = bytes.as_chunks::<FRAME_BYTES>().0.iter();
        let samples =
            frames.map(|f| f32::from(i16::from_le_bytes([f[0], f[1]])) / 32_768.0).collect();
        Piece { start_ns: 0, rate: RATE, samples }
    }

    #[test]
    fn a_burst_begins_with_the_sample_whose_time_is_said() {
        let mut generator = Generator::new(Pattern::Bursts);
        assert_eq!(generator.next(240).1, None, "the first is not due yet");
        generator.due_ns = now_ns();
        let (bytes, ns) = generator.next(100);
        assert!(ns.is_some());
        let rest = generator.next(240);
        assert_eq!(rest.1, None, "it goes on");
        let piece = heard(&[bytes, rest.0].concat());
        assert_eq!(onsets_ns(std::slice::from_ref(&piece)), [0]);
        let loud = piece.samples.iter().filter(|sample| sample.abs() > 0.4).count();
        assert_eq!(loud, BURST_SAMPLES);
    }

    /// Chromium writes no more than the server asks for, stops a stream by a flush and starts it
    /// again.
    #[test]
    fn the_ear_asks_for_what_a_flush_threw_away_though_nothing_plays() {
        let runtime = std::env::temp_dir().join(format!("thinc-flush-{}", std::process::id()));
        let ear = Ear::start(&runtime).unwrap();
        let mut connection = Connection::open(&runtime.join("pulse/native")).unwrap();
        let (channel, requested) = connection.create_stream(20).unwrap();
        // Half of it, of a queue that begins to play with all of it.
        let params = SetPlaybackStreamBufferAttrParams {
            index: channel,
            buffer_attr: buffer_attr(20, 20),
            adjust_latency: true,
            early_requests: false,
        };
        let _: SetPlaybackStreamBufferAttrReply =
            connection.ask(&Command::SetPlaybackStreamBufferAttr(params)).unwrap();
        connection.ask_ack(&Command::PrebufPlaybackStream(channel)).unwrap();
        let half = requested / 2;
        connection.write(channel, &vec![0; half as usize]).unwrap();
        connection.ask_ack(&Command::FlushPlaybackStream(channel)).unwrap();
        assert_eq!(connection.wait_for_request(channel).unwrap(), half);
        drop((connection, ear));
        fs::remove_dir_all(&runtime).unwrap();
    }

    #[test]
    fn the_tone_is_whole_and_music_is_none() {
        let tone = Generator::new(Pattern::Tone).next(RATE as usize).0;
        let found = Tone::new(&[heard(&tone)], TONE_HZ);
        assert_eq!((found.silent_ms, found.wrong_ms, found.jumps), (0.0, 0.0, 0));
        let music = heard(&Generator::new(Pattern::Music).next(RATE as usize).0);
        assert!(Tone::new(std::slice::from_ref(&music), TONE_HZ).wrong_ms > 500.0);
        assert!(music.samples.iter().all(|sample| sample.abs() <= AMPLITUDE));
    }
}
