//! The command line: every subcommand and option with its help, the only source for the program,
//! its man pages and its completions. From the user's shell, to supervisor.rs and clients.rs. Knows
//! arguments; checks only what does not depend on the system.

mod admin;
mod files;
mod share;
mod trace;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use thinc_broker::config::Config;
use thinc_broker::limits::Limits;
use thinc_broker::{BrokerError, BrokerOptions};
use thinc_protocol::limits::CLIP_BYTES_MAX;
use thinc_session_server::log::LogFormat;
use thinc_session_server::monitor::parse_address;
use thinc_session_server::{
    ClipboardConfig, GpuEncoding, OPENINGS, Opening, RATE_RULE, VIDEO_ELEMENTS, VideoConfig,
    VideoEncoder, parse_rate,
};
use thinc_transport::offer::UdpPorts;

pub(crate) use admin::{
    Admin, AdminBroker, AdminCommand, AdminDevices, AdminDrain, AdminEnd, AdminForget,
    AdminMessage, AdminSessions,
};
pub(crate) use files::{Files, SendFiles};
pub(crate) use share::{GuestClipboard, GuestSound, Share};
pub(crate) use trace::{Trace, TraceCommand, TraceInfo, TraceRecord, TraceRedact, TraceReplay};

use crate::gpu::{Found, Gpu};
use share::parse_life;

/// Use Linux desktops and applications that run on this machine from anywhere: in a viewer window
/// or a browser tab.
#[derive(Debug, Parser)]
#[command(name = "thinc", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `thinc` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a session: an X server, COMMAND in it, and a port for viewers
    ///
    /// COMMAND runs in a new X server that only this session's viewers and COMMAND itself can
    /// connect to. It has its own D-Bus and XDG_RUNTIME_DIR, so that its programs do not interfere
    /// with those of another desktop. The session ends when COMMAND ends, on Ctrl-C, on SIGTERM and
    /// with `thinc stop NAME`. It continues when the terminal hangs up, with or without --detach.
    ///
    /// Prints two links, one for a browser and one for thinc-view. Each opens the session once;
    /// `thinc link NAME` prints more.
    Serve(Box<Serve>),
    /// List the sessions of this user on this machine
    List(List),
    /// Print a new link to a session; each link opens it once
    Link(Link),
    /// Invite others to a session, and list, change or end their visits
    ///
    /// Prints a link for guests, who need no account. A guest only sees the screen, unless the
    /// invitation says --control or you give control later. What a guest may not do has no effect
    /// in the session, whatever its viewer sends. Nobody can see more than what the session shows,
    /// but everything that it shows while the visit lasts.
    Share(Share),
    /// Send files and folders from a session to the computer of the person who shows it
    ///
    /// They are asked there, and get the files into their folder for downloads. The command ends
    /// once the files have arrived; Ctrl-C cancels it. A viewer that loses its connection meanwhile
    /// gets the rest when it is back.
    Send(SendFiles),
    /// Call a session something else, in lists and in the titles of viewers
    Rename(Rename),
    /// Show which programs of a session answer its person, which compute, and what was moved why
    ///
    /// While somebody types, what answers them gets the processor first: the X server, thinc, and
    /// the program whose window is typed into. A program in the background that uses a processor
    /// for seconds goes behind everything else, and so does a session that nobody uses. See
    /// --priority of `thinc help serve`.
    Top(Top),
    /// End a session and everything in it
    Stop(Stop),
    /// Record what a session draws, and replay, redact or describe such a recording
    ///
    /// A trace contains everything that the X server's driver sent to the session, and the
    /// resulting pixels. A replay sends it through the whole pipeline without an X server, with the
    /// same result each time: for bug reports, tests and benchmarks. A trace shows what was on the
    /// screen; `thinc trace redact` removes that.
    Trace(Trace),
    /// Let everybody with an account on this machine log in and use a desktop; needs root
    ///
    /// People open https://HOST/ in a browser and log in with the name and password of their
    /// account, as PAM checks them. A person without a session gets the system's default desktop,
    /// which continues when they leave and is found again from any device. Sessions outlive the
    /// broker.
    ///
    /// The part that speaks with the network runs as --front-user in a sandbox; the part that is
    /// root checks passwords and starts each person's processes as that person. doc/hosting.md is
    /// the administrator's guide.
    Broker(Broker),
    /// List and end the desktops of everybody on this machine; needs root
    ///
    /// Desktops are found as the kernel knows them: those that `thinc broker` started for people,
    /// and those of `thinc serve` and of thinc-view over ssh.
    Admin(Admin),
    /// A process of `thinc broker`, which starts it
    #[command(hide = true)]
    BrokerPart(BrokerPart),
    /// The process between the X server and the viewers; started by `thinc serve`. With --stdio:
    /// one viewer's connection to it over ssh
    #[command(hide = true)]
    Session(Session),
    /// The sound server and printer of a session; started by `thinc serve`
    #[command(hide = true)]
    Desk {
        /// Folder of print jobs
        #[arg(long)]
        spool: Option<PathBuf>,
    },
    /// Runs a program in a process session of its own; used by `thinc serve`
    #[command(hide = true)]
    Launch(Launch),
    /// Draws a frame by OpenGL, and prints what drew it; used by `thinc serve`
    #[command(hide = true)]
    GlProbe(GlProbe),
}

/// Start a session.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = SERVE_NOTES)]
pub(crate) struct Serve {
    /// Address and port to listen on, or none
    ///
    /// Default: 127.0.0.1 and port 8443, or the next free port after it. A port given here must be
    /// free; port 0 takes any free one. Listening on another address than 127.0.0.1 lets viewers
    /// connect from other machines; the connection is encrypted, and without a link the session
    /// answers with a login page only. With "none" there is no port: viewers connect only through
    /// ssh (`thinc-view ssh://HOST/NAME`), which works for every session.
    #[arg(long, value_name = "ADDR:PORT|none", value_parser = parse_listen)]
    pub(crate) listen: Option<Listen>,
    /// Accept viewers over QUIC too, over UDP on the same port
    ///
    /// With QUIC, lost packets delay less, and a viewer keeps its connection when its address
    /// changes. Viewers connect over TCP if their network blocks UDP; a firewall must let UDP
    /// through to this port like TCP. With "off", viewers that come through ssh stay in its tunnel.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Quic::On)]
    pub(crate) quic: Quic,
    /// Size of the screen until a viewer requests another one
    #[arg(long, value_name = "WxH", default_value = "1280x800", value_parser = parse_size)]
    pub(crate) size: (u32, u32),
    /// Name of the session: A-Z, a-z, 0-9, dot, dash and underscore
    ///
    /// Default: the name of COMMAND or of the desktop.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// End the session after this time without any input: 30min, 8h, 2d
    ///
    /// Who shows it is told five minutes and one minute before.
    #[arg(long, value_name = "TIME", value_parser = parse_life, env = "THINC_END_IDLE")]
    pub(crate) end_idle: Option<Duration>,
    /// End the session after this time without any viewer: 30min, 8h, 2d
    #[arg(long, value_name = "TIME", value_parser = parse_life, env = "THINC_END_DISCONNECTED")]
    pub(crate) end_disconnected: Option<Duration>,
    /// When you open the session, and it is shown elsewhere
    ///
    /// `take-over`: it is shown here only, and the other viewers are told. `join`: it is shown in
    /// all places. `ask`: you are asked. What you choose in a viewer goes before it.
    #[arg(long, value_name = "WHAT", default_value = "join", env = "THINC_OPENING",
        value_parser = opening())]
    pub(crate) opening: Opening,
    /// Run in the background once the session is ready
    ///
    /// The links are printed first. Later messages go to the session's log.
    #[arg(long)]
    pub(crate) detach: bool,
    /// How lines of session.log look: text, or one JSON object each; default: text
    #[arg(long, value_name = "FORMAT", value_parser = log_format(), env = "THINC_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Serve figures for monitoring, for everybody on this machine: OpenMetrics at /metrics, and a
    /// page with plots at /
    ///
    /// The address has to be one of this machine alone, such as 127.0.0.1:9187. doc/hosting.md says
    /// what each figure is.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Write {"link", "display", "xauthority", "pids", …} to FILE once a viewer can connect
    #[arg(long, value_name = "FILE")]
    pub(crate) ready_json: Option<PathBuf>,
    /// Certificate chain (PEM) to show instead of the self-signed one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM, mode 0600) of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Path under which a reverse proxy serves the session, for example /desk/
    ///
    /// The proxy must pass the path on unchanged (nginx: location /desk/ { proxy_pass
    /// https://127.0.0.1:8443; } with the headers Host, Upgrade and Connection), and --public names
    /// the proxy. Browsers connect through it; thinc-view speaks no HTTP and connects to the
    /// session directly.
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = parse_base_path)]
    pub(crate) base_path: String,
    /// Host in the links, if it differs from the address that the session listens on; the port
    /// defaults to the one listened on
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) public: Option<String>,
    /// Whether photographs may be sent lossy while the connection is slow
    ///
    /// They are replaced by their exact pixels as soon as they stop changing. Where the connection
    /// is fast, what moves in the windows of 3D programs is lossy. Text that stands still and
    /// everything else is exact at any speed. A viewer can mark the areas that are lossy.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Lossy::Auto)]
    pub(crate) lossy: Lossy,
    /// How videos are sent to viewers that support video streams
    ///
    /// Plain frames show exactly what the session shows; encoded ones are lossy, and are replaced
    /// by the exact pixels when the video stops. With `--lossy never` no video is encoded. Text in
    /// front of a video that was found on the screen, such as a browser's, is sent exactly.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Video::Auto)]
    pub(crate) video: Video,
    /// What encodes videos: a GPU where one can (auto), or always this library
    ///
    /// The GPU is the one of `--gpu`. It needs the system's GStreamer, with its plugins va for
    /// Intel's and AMD's GPUs or nvcodec for NVIDIA's, and is used after it has encoded a few
    /// frames right. Otherwise auto is the first of the libraries, those that this thinc was built
    /// with.
    #[arg(long, value_name = "WHAT", default_value = VideoEncoding::AUTO)]
    #[arg(value_parser = video_encoding())]
    pub(crate) video_encoder: VideoEncoding,
    /// Send all viewers of the session together at most this many bits a second: 500K, 20M, 1G
    ///
    /// Headers of packets count. Viewers that want more share it equally. Input responses go first,
    /// then sound; the screen, files and the clipboard wait, and pictures are coded for this rate,
    /// as on a slower network. Default: as much as each viewer's path carries.
    #[arg(long, value_name = "RATE", value_parser = parse_max_rate)]
    pub(crate) max_rate: Option<u64>,
    /// Direction in which the clipboard is shared: from the session to viewers, from viewers to the
    /// session, both or neither
    #[arg(long, value_name = "DIRECTION", value_enum, default_value_t = Clipboard::Both)]
    pub(crate) clipboard: Clipboard,
    /// Direction in which files may be sent: with `thinc send` to the computer of the person who
    /// shows the session, who is asked there; from there into the folder for downloads; both or
    /// neither
    #[arg(long, value_name = "DIRECTION", value_enum, default_value_t = Files::Both)]
    pub(crate) files: Files,
    /// Longest content of the clipboard in either direction, for example 300K or 16M; at most 256M
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_clipboard_bytes)]
    pub(crate) clipboard_max: u64,
    /// Whether programs of the session can play sound
    ///
    /// They find a sound server of their own, which speaks PulseAudio's protocol; programs that
    /// know ALSA alone need the package libasound2-plugins, those that know PipeWire alone the
    /// packages pipewire and wireplumber. With "off" there is none, and programs do not find the
    /// user's own one either.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    #[arg(env = "THINC_SOUND")]
    pub(crate) sound: Switch,
    /// Whether programs of the session can print where the session is shown
    ///
    /// They find a printer "thinc" beside those of this machine. What they print on it arrives as
    /// PDF at the viewer of the person who types, who decides there. With "off" they find this
    /// machine's printers only.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    #[arg(env = "THINC_PRINTING")]
    pub(crate) printing: Switch,
    /// Whether programs of the session can record the microphone of a viewer of its owner's, whose
    /// person is asked there; needs sound
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    #[arg(env = "THINC_MICROPHONE")]
    pub(crate) microphone: Switch,
    /// Whether what answers the person who types gets the processor first
    ///
    /// Programs in the background that use a processor for seconds go behind it, and all of the
    /// session behind others while nobody uses it. `thinc top` shows who is where and why. This
    /// uses the control groups of `thinc broker`. Without one, background programs that compute,
    /// and were never typed into, get a lower priority (nice 19), and no more: the kernel may not
    /// let them leave it again.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    #[arg(env = "THINC_PRIORITY")]
    pub(crate) priority: Switch,
    /// Whether programs that draw whole frames without end are held to what viewers take
    ///
    /// Software OpenGL and Vulkan draw as fast as the processor lets them. A program that puts
    /// image after image into a window is held to the frames that the fastest viewer takes, at most
    /// 60 a second and at least 10; nothing else waits. `thinc top` shows it. With "off" they draw
    /// as fast as they can, for example to measure it.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    #[arg(env = "THINC_PACE")]
    pub(crate) pace: Switch,
    /// Whether OpenGL and Vulkan programs draw on a GPU of this machine: auto, off, or a render
    /// node such as /dev/dri/renderD128
    ///
    /// "auto" takes the first one with a driver of Mesa's (Intel, AMD, virtio and others) that this
    /// account may use. Without one, and with "off", the processor draws. doc/3d.md has more.
    #[arg(long, value_name = "auto|off|PATH", default_value = "auto", env = "THINC_GPU")]
    pub(crate) gpu: Gpu,
    /// Order in which changes are sent: shortest remaining first, or in the order of drawing, for
    /// comparison
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Scheduler::Srsf)]
    #[arg(help_heading = MEASURING)]
    pub(crate) scheduler: Scheduler,
    /// Track what programs draw into pixmaps, or send it as new pixels once it is shown, for
    /// comparison
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On)]
    #[arg(help_heading = MEASURING)]
    pub(crate) offscreen: Switch,
    /// Write a trace of the session from its first record on; see `thinc help trace`
    ///
    /// FILE must not exist. A session process that was restarted continues in FILE.2, and so on.
    #[arg(long, value_name = "FILE", help_heading = MEASURING)]
    pub(crate) trace: Option<PathBuf>,
    /// Register a damage object in the X server, so that tests can compare the recorded damage with
    /// the actual one
    #[arg(long, hide = true)]
    pub(crate) oracle: bool,
    /// Standard input is a socket to the login process that has made control groups for this
    /// session
    #[arg(long, hide = true)]
    pub(crate) priority_socket: bool,
    /// This process is the supervisor that --detach started
    #[arg(long, hide = true)]
    pub(crate) supervise: bool,
    /// Desktop to run, one of those that are installed for X11, for example xfce, plasmax11 or mate
    ///
    /// They are listed in /usr/share/xsessions; a wrong name prints the list.
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) desktop: Option<String>,
    /// Window manager for COMMAND
    ///
    /// With one, the application's window fills the screen and follows the size of the viewer's
    /// window, dialogs have frames, and keys go to the active window wherever the pointer is. It is
    /// openbox, which has to be installed. Say "none" if COMMAND is a program or script that starts
    /// a window manager of its own and is not known for that.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = WindowManager::Auto)]
    pub(crate) window_manager: WindowManager,
    /// Program to run and its arguments
    ///
    /// Default: the desktop that the system has chosen (x-session-manager), else one that is
    /// installed, else openbox with a terminal, else xterm alone.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Whether viewers may connect over QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quic {
    /// Over UDP, in addition to TCP.
    On,
    /// TCP only.
    Off,
}

/// Whether COMMAND gets a window manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WindowManager {
    /// Unless COMMAND is a desktop or a window manager, or a shell command that names one
    Auto,
    /// Always
    On,
    /// Never
    None,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// No port.
    None,
    /// This address and port.
    At(SocketAddr),
}

impl Serve {
    pub(crate) fn clipboard(&self) -> ClipboardConfig {
        let (to_viewers, to_session) = match self.clipboard {
            Clipboard::Both => (true, true),
            Clipboard::ToViewer => (true, false),
            Clipboard::ToSession => (false, true),
            Clipboard::Off => (false, false),
        };
        ClipboardConfig { to_viewers, to_session, bytes_max: self.clipboard_max }
    }
}

const MEASURING: &str = "Options for measurements";

/// In which direction the clipboard is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clipboard {
    /// In both directions.
    Both,
    /// What is copied in the session can be pasted at viewers.
    ToViewer,
    /// What is copied at viewers can be pasted in the session.
    ToSession,
    /// Not at all.
    Off,
}

/// When pixels may be sent lossy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lossy {
    /// Photographs while the connection is slower than about 50 Mbit/s, and what moves in frames
    /// above.
    Auto,
    /// Never.
    Never,
}

/// What encodes videos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VideoEncoding {
    /// A GPU where one can, else the first library.
    Auto,
    /// This library.
    Library(VideoEncoder),
}

impl VideoEncoding {
    const AUTO: &str = "auto";

    /// The library that encodes what no GPU does.
    pub(crate) fn library(self) -> VideoEncoder {
        match self {
            VideoEncoding::Auto => VideoEncoder::ALL[0],
            VideoEncoding::Library(library) => library,
        }
    }

    /// Which GPU may encode, of what was found.
    pub(crate) fn gpu(self, found: &Found) -> Option<GpuEncoding> {
        // A person who names elements has chosen, whatever was found.
        let named = || std::env::var_os(VIDEO_ELEMENTS).is_some();
        match (self, found) {
            (VideoEncoding::Library(_), _) | (_, Found::Off) => None,
            (VideoEncoding::Auto, Found::Node(path)) => {
                Some(GpuEncoding { node: Some(path.clone()) })
            }
            (VideoEncoding::Auto, Found::Nvidia) => Some(GpuEncoding { node: None }),
            (VideoEncoding::Auto, Found::Locked(..) | Found::Nothing) => {
                named().then_some(GpuEncoding { node: None })
            }
        }
    }
}

fn video_encoding() -> impl TypedValueParser<Value = VideoEncoding> {
    let libraries = VideoEncoder::ALL.iter().map(|encoder| encoder.name());
    let names = std::iter::once(VideoEncoding::AUTO).chain(libraries);
    PossibleValuesParser::new(names).try_map(|name| match name.as_str() {
        VideoEncoding::AUTO => Ok(VideoEncoding::Auto),
        name => name.parse::<VideoEncoder>().map(VideoEncoding::Library),
    })
}

fn opening() -> impl TypedValueParser<Value = Opening> {
    PossibleValuesParser::new(OPENINGS).try_map(|word| word.parse::<Opening>())
}

fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>())
}

/// How videos are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Video {
    /// As video frames, plain if the connection is fast enough, else encoded.
    Auto,
    /// As pixels, like everything else.
    Off,
    /// As plain frames if programs play them through XVideo, else as pixels.
    Plain,
    /// As frames encoded with H.264, or with AV1 or 4:4:4 where the GPU and the viewer have it.
    H264,
}

impl Video {
    /// The session process's setting.
    pub(crate) fn config(self) -> VideoConfig {
        match self {
            Video::Auto => VideoConfig::Auto,
            Video::Off => VideoConfig::Off,
            Video::Plain => VideoConfig::Plain,
            Video::H264 => VideoConfig::H264,
        }
    }
}

/// Order in which changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scheduler {
    /// Responses to input first, then the shortest remaining first.
    Srsf,
    /// First in, first out.
    Fifo,
}

/// A part of thinc that can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// The default.
    On,
    /// Without it.
    Off,
}

const SERVE_NOTES: &str = "\
Files:
  $XDG_STATE_HOME/thinc        key and certificate, generated at the first start; logs
                               (default: ~/.local/state/thinc)
  $XDG_RUNTIME_DIR/thinc/NAME  sockets and secrets of a running session
                               (/tmp/thinc-UID/NAME without XDG_RUNTIME_DIR)

Environment:
  THINC_XORG        path of the X server's binary, if it is not in a usual place
  THINC_DRIVER_DIR  folder of thinc_drv.so, if it is neither installed with this program nor in the
                    source tree
  THINC_GPU_CODEC   path of thinc-gpu-codec, which encodes videos on a GPU, for the same case
  THINC_VIDEO_ELEMENTS
                    elements of GStreamer's that encode, as PLUGIN/ELEMENT, separated by commas;
                    they need not use a GPU
  THINC_LOG         log level of the session process: error, warn, info (default), debug or trace
  THINC_LOG_FORMAT  as --log-format

Examples:
  thinc serve                                    a desktop, for viewers on this machine
  thinc serve --listen 0.0.0.0:8443 -- firefox   a browser, for viewers on any machine
  thinc serve --detach --name work --desktop mate";

/// Log people in.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = BROKER_NOTES)]
pub(crate) struct Broker {
    /// Configuration file (TOML); doc/hosting.md explains every key
    ///
    /// Default: /etc/thinc/broker.toml if it exists. Options of the command line take precedence.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Say what is wrong with configuration, account, PAM's rules and certificate, and end
    #[arg(long)]
    pub(crate) check: bool,
    /// Address and port to listen on; may be given several times
    ///
    /// Default: port 443 of every address.
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Certificate chain (PEM) to show instead of the self-signed one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key (PEM, mode 0600) of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Account that the part that speaks with the network runs as; default: thinc-front
    #[arg(long, value_name = "USER")]
    pub(crate) front_user: Option<String>,
    /// PAM's rules for logins: a file in /etc/pam.d; default: thinc
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) pam_service: Option<String>,
    /// Folder for the self-signed certificate and its key; default: /var/lib/thinc
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state: Option<PathBuf>,
    /// How lines of the log look: text, or one JSON object each; default: text
    #[arg(long, value_name = "FORMAT", value_parser = log_format(), env = "THINC_LOG_FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
}

impl Broker {
    /// As the broker takes them, with those of the configuration file.
    pub(crate) fn options(self) -> Result<BrokerOptions, BrokerError> {
        let file = Config::load(self.config.as_deref())?;
        let command_line = Config {
            listen: Some(self.listen).filter(|addresses| !addresses.is_empty()),
            certificate: self.tls_cert.zip(self.tls_key),
            acme: Default::default(),
            quic: None,
            sharing: None,
            opening: None,
            remember: None,
            sound: None,
            printing: None,
            microphone: None,
            trusted_proxies: None,
            front_user: self.front_user,
            pam_service: self.pam_service,
            state: self.state,
            audit_log: None,
            end_idle: None,
            end_disconnected: None,
            limits: Limits::default(),
            priority: None,
            rates: Default::default(),
            banner: None,
            log_format: self.log_format,
            metrics: None,
        };
        Ok(BrokerOptions::new(command_line, file))
    }
}

const BROKER_NOTES: &str = "\
Files:
  /etc/thinc/broker.toml       the configuration, see --config
  /etc/pam.d/thinc             who may log in, and what a login sets up
  /var/lib/thinc/identity.pem  key and self-signed certificate, generated at the first start
  /var/lib/thinc/devices       on which devices people stay signed in, see thinc admin devices

Signals:
  SIGHUP makes the broker read certificate and key again at once.
  SIGTERM and SIGINT end the broker and the connections of all people; sessions continue, and a
  broker that is started again within five minutes finds them and the logins";

/// A process of the broker.
#[derive(Clone, Debug, Args)]
pub(crate) struct BrokerPart {
    /// Which.
    #[command(subcommand)]
    pub(crate) part: Part,
}

/// The broker's processes; standard input is the socket to the one that started it.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Part {
    /// Speaks with the network
    Front,
    /// Gets certificates
    Acme,
    /// Serves figures for monitoring
    Monitor,
    /// One login, as root
    Login {
        /// PAM's rules
        #[arg(long)]
        pam_service: String,
        /// The broker's folder
        #[arg(long)]
        state: PathBuf,
        /// Of desktops, as the broker writes them
        #[arg(long)]
        limits: Limits,
    },
    /// Starts and finds the sessions of a user, as that user
    Agent {
        /// User to become
        #[arg(long)]
        uid: u32,
        /// Their group
        #[arg(long)]
        gid: u32,
    },
}

/// List sessions.
#[derive(Clone, Debug, Args)]
pub(crate) struct List {
    /// Print JSON, one object for each session
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print a link.
#[derive(Clone, Debug, Args)]
pub(crate) struct Link {
    /// The session; not needed if only one is running
    #[arg(value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// Print a thinc:// link, which only thinc-view opens, instead of an https:// link, which
    /// browsers and thinc-view open
    #[arg(long)]
    pub(crate) native: bool,
    /// First make all links, logins of browsers and session credentials of this session so far
    /// invalid, and disconnect the viewers that used them. Viewers through ssh reconnect
    #[arg(long)]
    pub(crate) revoke: bool,
}

/// Rename a session.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rename {
    /// The session. Links, other commands and ssh addresses go on with this name
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// What it is called: at most 64 bytes, and no other session of yours is called so. Without it,
    /// the session is called by its name again
    pub(crate) title: Option<String>,
}

/// Show processes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Top {
    /// The session; not needed if only one is running
    #[arg(value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// Print it once, instead of again every two seconds until Ctrl-C
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, once
    #[arg(long)]
    pub(crate) json: bool,
}

/// End a session.
#[derive(Clone, Debug, Args)]
pub(crate) struct Stop {
    /// The session
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
}

/// The session process, or a viewer's connection to one.
#[derive(Clone, Debug, Args)]
pub(crate) struct Session {
    /// The configuration that the supervisor wrote
    #[arg(long, value_name = "FILE", conflicts_with = "stdio", required_unless_present = "stdio")]
    pub(crate) config: Option<PathBuf>,
    /// Connect one viewer: find or start the session, then forward the protocol over standard input
    /// and output
    #[arg(long)]
    pub(crate) stdio: bool,
    /// The session; default: the name of COMMAND
    #[arg(long, value_name = "NAME", value_parser = parse_name, requires = "stdio")]
    pub(crate) name: Option<String>,
    /// Fail if the session is not running, instead of starting it
    #[arg(long, requires = "stdio")]
    pub(crate) attach: bool,
    /// Size of the screen, if the session has to be started
    #[arg(long, value_name = "WxH", value_parser = parse_size, requires = "stdio")]
    pub(crate) size: Option<(u32, u32)>,
    /// Offer the viewer a UDP port of this range, on the address that ssh came to
    #[arg(long, value_name = "FIRST-LAST", requires = "stdio")]
    pub(crate) udp_ports: Option<UdpPorts>,
    /// COMMAND's words are escaped so that no shell changes them
    #[arg(long, requires = "stdio")]
    pub(crate) escaped: bool,
    /// Program to run, and its arguments, if the session has to be started
    #[arg(last = true, value_name = "COMMAND", requires = "stdio")]
    pub(crate) command: Vec<OsString>,
}

/// A program in a process session of its own.
#[derive(Clone, Debug, Args)]
pub(crate) struct Launch {
    /// Process ID of the supervisor; the program ends together with it
    #[arg(long)]
    pub(crate) parent: i32,
    /// The program
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// A frame in a session.
#[derive(Clone, Debug, Args)]
pub(crate) struct GlProbe {
    /// Something waits for it: it does not yield to other programs
    #[arg(long)]
    pub(crate) at_once: bool,
}

/// Longest name of a session, in bytes; keeps the path of its sockets short.
const NAME_BYTES_MAX: usize = 32;

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} characters"));
    }
    if !text.bytes().all(is_allowed) || text.starts_with(['.', '-']) {
        return Err(
            "a name consists of A-Z, a-z, 0-9, \".\", \"-\" and \"_\", and must not begin with \
            \".\" or \"-\""
                .into(),
        );
    }
    Ok(text.to_owned())
}

/// The default name of a session: that of its command or desktop, without the characters that names
/// must not contain.
pub(crate) fn name_from(command: &OsString) -> String {
    let file = std::path::Path::new(command)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name: String =
        file.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(24).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen::None);
    }
    let expected =
        "expected ADDRESS:PORT, for example 127.0.0.1:8443, 0.0.0.0:8443 or [::]:8443, or none";
    text.parse().map(Listen::At).map_err(|_| expected.to_owned())
}

fn parse_max_rate(text: &str) -> Result<u64, String> {
    parse_rate(text).ok_or_else(|| RATE_RULE.to_owned())
}

fn parse_clipboard_bytes(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(['K', 'k', 'M', 'm']);
    let factor = match &text[number.len()..] {
        "" => 1,
        "K" | "k" => 1024,
        "M" | "m" => 1024 * 1024,
        _ => return Err("expected a number of bytes, followed by K or M if needed".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|&bytes| (1..=CLIP_BYTES_MAX).contains(&bytes))
        .ok_or_else(|| "expected 1 to 256M".to_owned())
}

fn parse_size(text: &str) -> Result<(u32, u32), String> {
    use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX, SCREEN_EDGE_MIN};
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .ok_or("expected WIDTHxHEIGHT, for example 1280x800")?;
    let edge = SCREEN_EDGE_MIN..=SCREEN_EDGE_MAX;
    if !edge.contains(&width) || !edge.contains(&height) {
        return Err(format!(
            "a screen must be {SCREEN_EDGE_MIN} to {SCREEN_EDGE_MAX} pixels wide and high"
        ));
    }
    if u64::from(width) * u64::from(height) > SCREEN_AREA_MAX {
        return Err(format!("a screen must have at most {SCREEN_AREA_MAX} pixels"));
    }
    Ok((width, height))
}

fn parse_base_path(text: &str) -> Result<String, String> {
    thinc_transport::link::normalize_base_path(text)
        .ok_or_else(|| "expected a path such as /desk/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        crate::command().debug_assert();
    }

    #[test]
    fn the_help_of_serve_tells_when_a_session_ends() {
        let mut program = crate::command();
        let help = program
            .find_subcommand_mut("serve")
            .expect("the subcommand exists")
            .render_long_help()
            .to_string();
        for words in ["new X server", "hangs up", "THINC_DRIVER_DIR"] {
            assert!(help.contains(words), "{words:?} is not in:\n{help}");
        }
    }

    #[test]
    fn the_clipboard_is_shared_in_the_chosen_direction() {
        let config = |words: &str| -> Result<ClipboardConfig, clap::Error> {
            let words = std::iter::once("thinc serve").chain(words.split_whitespace());
            let matches = Serve::augment_args(clap::Command::new("thinc serve"))
                .try_get_matches_from(words)?;
            Ok(<Serve as clap::FromArgMatches>::from_arg_matches(&matches)?.clipboard())
        };
        let directions =
            |words| config(words).map(|config| (config.to_viewers, config.to_session)).unwrap();
        assert_eq!(directions(""), (true, true));
        assert_eq!(directions("--clipboard to-viewer"), (true, false));
        assert_eq!(directions("--clipboard to-session"), (false, true));
        assert_eq!(directions("--clipboard off"), (false, false));
        for (size, bytes) in [("1", 1), ("300k", 300 << 10), ("16M", 16 << 20), ("256M", 256 << 20)]
        {
            assert_eq!(config(&format!("--clipboard-max {size}")).unwrap().bytes_max, bytes);
        }
        for wrong in ["0", "257M", "M", "1G", "-1", "1MM", "99999999999999999999"] {
            assert!(config(&format!("--clipboard-max={wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invitation_shares_nothing_by_default_and_actions_exclude_each_other() {
        let parse = |words: &str| {
            let words = ["thinc", "share"].into_iter().chain(words.split_whitespace());
            Cli::try_parse_from(words).map(|cli| match cli.command {
                Command::Share(share) => share,
                _ => panic!("the subcommand is share"),
            })
        };
        let share = parse("").unwrap();
        assert!(!share.control && share.uses == 1 && share.clipboard == GuestClipboard::Off);
        assert_eq!(share.life, Duration::from_secs(7200));
        for (text, seconds) in [("90s", 90), ("30min", 1800), ("5m", 300), ("30d", 2_592_000)] {
            assert_eq!(parse(&format!("--for {text}")).unwrap().life.as_secs(), seconds);
        }
        assert_eq!(share.sound, GuestSound::On);
        for right in
            ["work --control --clipboard both --sound off", "x --list --json", "--revoke 3"]
        {
            assert!(parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "--view --control",
            "--clipboard both",
            "--list --revoke 1",
            "--throw-out 1 --give-control 1",
            "--revoke 1 --control",
            "--for 0s",
            "--for 31d",
            "--for 2",
            "--uses 0",
            "--json",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_checked_and_derived_from_the_command() {
        for good in ["a", "work", "demo-12", "x_1.b"] {
            assert_eq!(parse_name(good).unwrap(), good);
        }
        for bad in ["", ".", "..", ".a", "-a", "a/b", "a b", "é", &"a".repeat(33)] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
        assert_eq!(name_from(&"/usr/bin/xterm".into()), "xterm");
        assert_eq!(name_from(&"..".into()), "session");
        assert_eq!(name_from(&"a b\n/c d".into()), "cd");
    }

    #[test]
    fn sizes_are_checked() {
        assert_eq!(parse_size("1024x768"), Ok((1024, 768)));
        for bad in ["1024", "x", "0x0", "63x64", "16385x64", "16384x16384", "-1x5", "1024x768x24"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn arguments_after_the_dashes_are_the_command() {
        let cli =
            Cli::try_parse_from(["thinc", "serve", "--size", "800x600", "--", "xterm", "--detach"])
                .unwrap();
        let Command::Serve(serve) = cli.command else { panic!("the subcommand is serve") };
        assert!(!serve.detach);
        assert_eq!(serve.command, ["xterm", "--detach"]);
        assert!(
            Cli::try_parse_from(["thinc", "serve", "--tls-cert", "x"]).is_err(),
            "a certificate needs its key"
        );
        assert!(Cli::try_parse_from(["thinc", "serve", "--listen", "8443"]).is_err());
    }
}
