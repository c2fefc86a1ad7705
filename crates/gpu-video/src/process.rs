//! A codec process: it is started, asked and ended here. Frames and access units pass through
//! memory that both processes have as a file: written once and read once, by system calls, so that
//! neither maps what the other may change. One request at a time. Knows requests and one process;
//! never when it is worth having one.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use rustix::process::{PidfdFlags, pidfd_open};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::{Planes, PlanesRef};

use crate::message::{
    ANSWER_BYTES_MAX, Answer, MEMORY_BYTES, Rates, Request, UNIT_AT, UNIT_BYTES_MAX, fits,
};

/// Names GStreamer elements, each as PLUGIN/ELEMENT, separated by commas: these are tried, in this
/// order, and no others.
pub const ELEMENTS: &str = "THINC_VIDEO_ELEMENTS";
/// Names another program than the one installed.
const PROGRAM: &str = "THINC_GPU_CODEC";
const NAME: &str = "thinc-gpu-codec";
/// Where packages install it, from the folder of programs.
const INSTALLED: &str = "../lib/thinc";

/// 10 s: longest time until a process is ready. A GPU that sleeps takes 2 s to wake.
const START_WAIT: Duration = Duration::from_secs(10);
/// 1 s: longest wait for an answer; a frame takes some milliseconds.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// 100 ms: longest wait for the status of a process that has closed its socket.
const END_WAIT: Duration = Duration::from_millis(100);

/// Of the environment, only what libraries of graphics processors read: links can be in it.
const KEPT: [&str; 12] = [
    "AMD_",
    "CUDA_",
    "DRI_PRIME",
    "GST_",
    "LD_LIBRARY_PATH",
    "LIBVA_",
    "LIBGL_",
    "MESA_",
    "NVIDIA_",
    "NV_",
    "THINC_VIDEO_",
    "VK_",
];

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Frames become access units.
    Encode,
    /// Access units become frames.
    Decode,
}

impl Purpose {
    /// Its name on the program's command line.
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Encode => "encode",
            Purpose::Decode => "decode",
        }
    }
}

/// A codec's name on the program's command line.
pub const fn codec_name(codec: FrameCodec) -> &'static str {
    match codec {
        FrameCodec::H264 => "h264",
        FrameCodec::Av1 => "av1",
        FrameCodec::H264Yuv444 => "h264-444",
    }
}

/// Which codec a process offers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What it is for.
    pub purpose: Purpose,
    /// What it encodes or decodes.
    pub codec: FrameCodec,
    /// The render node of the GPU; any if None.
    pub node: Option<PathBuf>,
    /// Elements that were tried and do not work.
    pub without: Vec<String>,
}

impl Settings {
    /// Any GPU, and any element.
    pub fn new(purpose: Purpose, codec: FrameCodec) -> Settings {
        Settings { purpose, codec, node: None, without: Vec::new() }
    }
}

/// Why there is no process.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// The program is not installed.
    #[error("{} is not installed", .0.display())]
    NotInstalled(PathBuf),
    /// The system refuses.
    #[error("{NAME} cannot be started: {0}")]
    System(#[from] io::Error),
    /// It ended or was late before it said anything.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Nothing here codes.
    #[error("{0}")]
    Nothing(String),
}

/// The process is gone or does not answer, and is of no further use.
#[derive(Debug, thiserror::Error)]
#[error("the process that codes video on the graphics processor {0}")]
pub struct Lost(String);

/// What has become of a frame or an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coded {
    /// It is coded.
    Done {
        /// It was encoded as a keyframe.
        keyframe: bool,
    },
    /// It is not; the stream continues with a keyframe.
    Failed,
    /// The stream cannot be coded here.
    Refused,
}

/// A codec process that has said what it codes with.
#[derive(Debug)]
pub struct Process {
    /// None: it was ended.
    child: Option<Child>,
    id: u32,
    socket: OwnedFd,
    memory: File,
    name: String,
    /// Of all its frames.
    layout: SampleLayout,
    /// Working memory: a frame's samples.
    samples: Vec<u8>,
}

/// The program: the one that the environment names, that lies beside this program, or that is
/// installed with it.
pub fn program() -> PathBuf {
    if let Some(named) = std::env::var_os(PROGRAM) {
        return named.into();
    }
    let here = std::env::current_exe().unwrap_or_default();
    let folder = here.parent().unwrap_or(Path::new("/usr/bin"));
    let beside = folder.join(NAME);
    if beside.is_file() { beside } else { folder.join(INSTALLED).join(NAME) }
}

impl Process {
    /// Starts a process and waits until it says what it codes with. One that decodes ends with the
    /// thread that has started it.
    pub fn start(program: &Path, settings: &Settings) -> Result<Process, NotStarted> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(io::Error::from)?;
        let memory = memfd_create("thinc-video", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(io::Error::from)?;
        let memory = File::from(memory);
        memory.set_len(MEMORY_BYTES)?;
        fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(io::Error::from)?;
        // Its own folder is another one.
        let program = &std::path::absolute(program)?;
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| is_kept(name)))
            // GStreamer neither scans what is installed nor writes what it has found.
            .env("GST_REGISTRY_DISABLE", "yes")
            .args([settings.purpose.name(), codec_name(settings.codec)])
            .args(&settings.without);
        if let Some(node) = &settings.node {
            command.arg("--node").arg(node);
        }
        let child = command
            .current_dir("/")
            // Keys of the terminal are the viewer's.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(memory.try_clone()?))
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => NotStarted::NotInstalled(program.clone()),
                _ => NotStarted::System(error),
            })?;
        // It has the other end of the socket, whose close says that the process has ended.
        drop(command);
        let mut process = Process {
            id: child.id(),
            child: Some(child),
            socket,
            memory,
            name: String::new(),
            layout: settings.codec.layout(),
            samples: Vec::new(),
        };
        match process.answer(START_WAIT) {
            Ok(Answer::Ready(name)) => {
                process.name = name;
                Ok(process)
            }
            Ok(Answer::Nothing(reason)) => Err(NotStarted::Nothing(reason)),
            Ok(_) => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            Err(error) => Err(process.lost(&error).into()),
        }
    }

    /// What it codes with: the element's name, and the GPU's behind a colon where that is known.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Starts a stream of frames with even edges, of which `rates` matter if it is encoded.
    pub fn begin(&mut self, stream: u64, size: Size, rates: Rates) -> Result<Coded, Lost> {
        if !fits(size) {
            return Ok(Coded::Refused);
        }
        self.ask(Request::Start { stream, size, rates }).map(|(coded, _)| coded)
    }

    /// Encodes the next frame of a stream, of its size and in the codec's layout; appends its
    /// access unit.
    pub fn encode(
        &mut self,
        stream: u64,
        frame: &PlanesRef<'_>,
        rates: Rates,
        keyframe: bool,
        out: &mut Vec<u8>,
    ) -> Result<Coded, Lost> {
        let size = frame.size();
        if !fits(size) || frame.layout() != self.layout {
            return Ok(Coded::Refused);
        }
        self.write(frame).map_err(|error| self.lost(&error))?;
        let request = Request::Next { stream, size, bytes: 0, rates, keyframe };
        let (coded, bytes) = self.ask(request)?;
        if let Coded::Done { .. } = coded {
            if bytes == 0 {
                return Ok(Coded::Failed);
            }
            let at = out.len();
            out.resize(at + bytes as usize, 0);
            let read = self.memory.read_exact_at(&mut out[at..], UNIT_AT);
            read.map_err(|error| self.lost(&error))?;
        }
        Ok(coded)
    }

    /// Sets `out` to the frame of a stream's next access unit; leaves it alone if there is none.
    pub fn decode(
        &mut self,
        stream: u64,
        size: Size,
        unit: &[u8],
        out: &mut Planes,
    ) -> Result<Coded, Lost> {
        if !fits(size) {
            return Ok(Coded::Refused);
        }
        if unit.len() > UNIT_BYTES_MAX {
            return Ok(Coded::Failed);
        }
        self.memory.write_all_at(unit, UNIT_AT).map_err(|error| self.lost(&error))?;
        let (bytes, rates) = (unit.len() as u32, Rates::default());
        let request = Request::Next { stream, size, bytes, rates, keyframe: false };
        let (coded, _) = self.ask(request)?;
        if let Coded::Done { .. } = coded {
            out.reset(size, self.layout);
            let read = self.memory.read_exact_at(out.data_mut(), 0);
            read.map_err(|error| self.lost(&error))?;
        }
        Ok(coded)
    }

    /// A stream has ended.
    pub fn end(&mut self, stream: u64) -> Result<(), Lost> {
        self.send(Request::End { stream }).map_err(|error| self.lost(&error))
    }

    /// Writes a frame's planes without padding.
    fn write(&mut self, frame: &PlanesRef<'_>) -> io::Result<()> {
        let sizes = [0, 1, 2].map(|plane| frame.plane_size(plane));
        let is_packed = |plane: usize| frame.plane(plane).1 == sizes[plane].width as usize;
        if !(0..3).all(is_packed) {
            self.samples.clear();
            frame.write_packed(&mut self.samples);
            return self.memory.write_all_at(&self.samples, 0);
        }
        let mut at = 0;
        for (plane, size) in sizes.into_iter().enumerate() {
            let samples = &frame.plane(plane).0[..size.area() as usize];
            self.memory.write_all_at(samples, at)?;
            at += size.area();
        }
        Ok(())
    }

    fn ask(&mut self, request: Request) -> Result<(Coded, u32), Lost> {
        match self.send(request).and_then(|()| self.answer(ANSWER_WAIT)) {
            Ok(Answer::Done { bytes, keyframe }) => Ok((Coded::Done { keyframe }, bytes)),
            Ok(Answer::Failed) => Ok((Coded::Failed, 0)),
            Ok(Answer::Refused) => Ok((Coded::Refused, 0)),
            Ok(_) => Err(self.lost(&io::ErrorKind::InvalidData.into())),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn send(&self, request: Request) -> io::Result<()> {
        // Where the socket is full, the process has not read for long: an error like others.
        send(&self.socket, &request.encode(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    fn answer(&self, wait: Duration) -> io::Result<Answer> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
                Ok(0) => {
                    let why = format!("no answer for {} s", wait.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // One byte more than the longest answer has.
        let mut message = [0; ANSWER_BYTES_MAX + 1];
        let (_, length) = recv(&self.socket, &mut message, RecvFlags::DONTWAIT)?;
        Answer::decode(message.get(..length).unwrap_or_default())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer that is none"))
    }

    /// Ends the process, and says what had become of it.
    fn lost(&mut self, error: &io::Error) -> Lost {
        // A process whose socket is closed is about to end, and its status says why.
        let silent = error.kind() == io::ErrorKind::TimedOut;
        let status = self.child.as_mut().and_then(|child| if silent { None } else { ended(child) });
        self.finish();
        Lost(status.map_or_else(|| format!("gave {error}"), |status| format!("ended: {status}")))
    }

    /// Kills the process. One that hangs inside of a GPU's driver may never end: nobody waits for
    /// it but a thread.
    fn finish(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let _ = child.kill();
        if ended(&mut child).is_none() {
            let wait = move || drop(child.wait());
            let _ = std::thread::Builder::new().name("ended-codec".into()).spawn(wait);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The status of a process that ends by itself, or was killed, within a short time.
fn ended(child: &mut Child) -> Option<ExitStatus> {
    let id = rustix::process::Pid::from_child(child);
    if let Ok(ended) = pidfd_open(id, PidfdFlags::empty()) {
        let most = Timespec { tv_sec: 0, tv_nsec: END_WAIT.subsec_nanos().into() };
        let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&most));
    }
    child.try_wait().ok().flatten()
}

fn is_kept(name: &OsString) -> bool {
    KEPT.iter().any(|kept| name.as_encoded_bytes().starts_with(kept.as_bytes()))
}
