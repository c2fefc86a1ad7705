//! Path 11/13: from client/video.rs, to a process of its own that decodes H.264, and back.
//! The library is C++ and reads what a session, or an impostor, sends. The process that it runs in
//! (process.rs) can do nothing but that (sandbox.rs); if it dies or does not answer, its streams
//! continue with their next keyframes, in another process. A unit and a frame pass through memory
//! that both processes have as a file: written once and read once, by system calls, so that
//! neither maps what the other may change. Knows streams and one process; never what a frame
//! covers.

mod message;
mod process;
mod sandbox;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use thinc_protocol::video::SampleLayout;
use thinc_region::Size;
use thinc_video::Planes;

use message::{Answer, MEMORY_BYTES, Request, UNIT_AT, UNIT_BYTES_MAX};
pub use process::run;

/// The argument that makes `thinc-view` the decoder process. It is not for people: descriptors 0
/// and 1 are the socket and the memory.
pub const ARGUMENT: &str = "--video-decoder-process";

/// 3 s: longest wait for an answer; the largest frame takes 0.1 s. Less than the 5 s after which
/// viewer-core refuses a stream for good: a stream may continue in a new process.
const ANSWER_WAIT: Duration = Duration::from_secs(3);
/// 3 processes may die within 10 minutes; after that streams are refused, and the session sends
/// pixels.
const DEATHS_MAX: usize = 3;
const DEATHS_TIME: Duration = Duration::from_secs(600);

/// What has become of an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The frame is in the planes.
    Frame,
    /// It cannot be decoded; the stream continues with a keyframe.
    Failed,
    /// The stream cannot be decoded here.
    Refused,
}

/// The decoders of a connection's streams, in a process that is started for the first of them.
#[derive(Debug)]
pub struct Decoders {
    /// What is executed.
    program: PathBuf,
    running: Option<Running>,
    /// When processes died, of the last [`DEATHS_TIME`].
    deaths: Vec<Instant>,
}

/// A decoder process.
#[derive(Debug)]
struct Running {
    child: Child,
    socket: OwnedFd,
    memory: File,
}

impl Decoders {
    /// `program` becomes the decoder process when it is executed with [`ARGUMENT`].
    pub fn new(program: &Path) -> Decoders {
        Decoders { program: program.to_owned(), running: None, deaths: Vec::new() }
    }

    /// A stream starts; false if it cannot be decoded.
    pub fn start(&mut self, stream: u64, size: Size) -> bool {
        self.ask(Request::Start { stream, size }) == Answer::Done
    }

    /// Sets `out` to the frame of a stream's next access unit, with edges rounded up to even
    /// numbers; leaves it alone if there is none.
    pub fn decode(&mut self, stream: u64, size: Size, unit: &[u8], out: &mut Planes) -> Decoded {
        if unit.len() > UNIT_BYTES_MAX {
            return Decoded::Failed;
        }
        let bytes = unit.len() as u32;
        let written = match self.running() {
            Ok(running) => running.memory.write_all_at(unit, UNIT_AT),
            Err(_) => return Decoded::Refused,
        };
        let answer = match written {
            Ok(()) => self.ask(Request::Decode { stream, size, bytes }),
            Err(error) => self.lost(&error),
        };
        match answer {
            Answer::Done => self.take(thinc_h264::coded_size(size), out),
            Answer::Failed => Decoded::Failed,
            Answer::Refused => Decoded::Refused,
        }
    }

    /// A stream has ended.
    pub fn end(&mut self, stream: u64) {
        if let Some(running) = &self.running
            && let Err(error) = running.send(Request::End { stream })
        {
            self.lost(&error);
        }
    }

    /// Ends the process, and with it all streams.
    pub fn end_all(&mut self) {
        self.running = None;
    }

    /// The process's id, if one runs.
    pub fn process_id(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Copies a frame out of the memory. Its size is the viewer's own; the samples may be anything.
    fn take(&mut self, size: Size, out: &mut Planes) -> Decoded {
        let Some(running) = &self.running else { return Decoded::Failed };
        if !thinc_h264::fits(size) {
            return Decoded::Refused;
        }
        out.reset(size, SampleLayout::Yuv420);
        match running.memory.read_exact_at(out.data_mut(), 0) {
            Ok(()) => Decoded::Frame,
            Err(error) => {
                self.lost(&error);
                Decoded::Failed
            }
        }
    }

    fn ask(&mut self, request: Request) -> Answer {
        let asked = match self.running() {
            Ok(running) => running.send(request).and_then(|()| running.answer()),
            Err(_) => return Answer::Refused,
        };
        asked.unwrap_or_else(|error| self.lost(&error))
    }

    /// The process, which is started if none runs.
    fn running(&mut self) -> io::Result<&Running> {
        if self.running.is_none() {
            self.deaths.retain(|death| death.elapsed() < DEATHS_TIME);
            if self.deaths.len() >= DEATHS_MAX {
                return Err(io::Error::other("too many decoder processes have died"));
            }
            match Running::start(&self.program) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    self.count_death(&format!("cannot be started: {error}"));
                    return Err(error);
                }
            }
        }
        Ok(self.running.as_ref().expect("it was started"))
    }

    /// The process has died or does not answer.
    fn lost(&mut self, error: &io::Error) -> Answer {
        let Some(mut running) = self.running.take() else { return Answer::Failed };
        let _ = running.child.kill();
        let why = match running.child.wait() {
            Ok(status) if error.kind() != io::ErrorKind::TimedOut => status.to_string(),
            _ => error.to_string(),
        };
        self.count_death(&format!("has ended: {why}"));
        Answer::Failed
    }

    fn count_death(&mut self, why: &str) {
        self.deaths.push(Instant::now());
        let further = if self.deaths.len() < DEATHS_MAX {
            "its videos continue in another one"
        } else {
            "videos are shown without H.264 for ten minutes"
        };
        crate::error::report(format_args!("the process that decodes videos {why}; {further}"));
    }
}

impl Running {
    fn start(program: &Path) -> io::Result<Running> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let memory = memfd_create("thinc-video", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let memory = File::from(memory);
        memory.set_len(MEMORY_BYTES)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let mut command = Command::new(program);
        // Of the environment only what the program's start may need: links can be in it.
        let kept = ["LD_LIBRARY_PATH", thinc_transport::core_dumps::ALLOWED];
        command
            .env_clear()
            .envs(kept.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        let child = command
            .arg0(OsStr::new("thinc-view"))
            .arg(ARGUMENT)
            .current_dir("/")
            // Keys of the terminal are the viewer's.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(memory.try_clone()?))
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, socket, memory })
    }

    fn send(&self, request: Request) -> io::Result<()> {
        // Where the socket is full, the process has not read for long: an error like others.
        send(&self.socket, &request.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    fn answer(&self) -> io::Result<Answer> {
        let until = Instant::now() + ANSWER_WAIT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!("no answer for {} s", ANSWER_WAIT.as_secs()),
                    ));
                }
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // One byte more than an answer has.
        let mut message = [0; 2];
        let (_, length) = recv(&self.socket, &mut message, RecvFlags::DONTWAIT)?;
        Answer::decode(message.get(..length).unwrap_or_default())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no answer"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
