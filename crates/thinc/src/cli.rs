//! The command line: every subcommand, option and its help, once for the program, its man pages and completions.
//! From the person's shell, to supervisor.rs and clients.rs.
//! Knows words; checks what can be checked without looking at the system.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use thinc_protocol::limits::CLIP_BYTES_MAX;
use thinc_session_server::{ClipboardConfig, VideoConfig, VideoEncoder};

/// Use Linux desktops and applications that run on this machine from anywhere: in a viewer window or a browser tab.
#[derive(Debug, Parser)]
#[command(name = "thinc", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `thinc` can do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a session: an X server, COMMAND in it, and a port for viewers
    ///
    /// COMMAND runs in a fresh X server that only this session's viewers and COMMAND itself can reach, with a D-Bus and an
    /// XDG_RUNTIME_DIR of its own, so that its programs do not meet those of another desktop. When COMMAND ends, the
    /// session ends. So it does on Ctrl-C, on SIGTERM and with `thinc stop NAME`; it does not when the terminal
    /// hangs up, with or without --detach.
    ///
    /// Two links are printed, one for a browser and one for thinc-view. Each opens the session once; `thinc link NAME`
    /// prints more.
    Serve(Serve),
    /// List the sessions of this user on this machine
    List(List),
    /// Print a new link to a session; each link opens it once
    Link(Link),
    /// End a session and everything in it
    Stop(Stop),
    /// Record what a session draws, and replay, redact or describe such a recording
    ///
    /// A trace holds what the X server's driver told the session, and the pixels that came of it. Replayed, it goes through
    /// the whole pipeline without an X server, the same way each time: for bug reports, tests and benchmarks. A trace shows
    /// what was on the screen; `thinc trace redact` takes that out.
    Trace(Trace),
    /// The process between the X server and the viewers; started by `thinc serve`. With --stdio, the way to it behind ssh
    #[command(hide = true)]
    Session(Session),
    /// Runs a program in a process session of its own; used by `thinc serve`
    #[command(hide = true)]
    Launch(Launch),
}

/// Start a session.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = SERVE_NOTES)]
pub struct Serve {
    /// Address and port to listen on, or none
    ///
    /// Without this option: 127.0.0.1 and port 8443, or the next free one after it. A port given here must be free;
    /// port 0 takes any. Listening on another address than 127.0.0.1 lets viewers connect from other machines; what
    /// they send and see is encrypted, and nothing but a login page is answered without a link.
    /// With "none" there is no port: the session is reached by `thinc-view ssh://HOST/NAME` alone, which reaches every
    /// session.
    #[arg(long, value_name = "ADDR:PORT|none", value_parser = parse_listen)]
    pub listen: Option<Listen>,
    /// Let viewers come by QUIC as well, over UDP on the same port
    ///
    /// What is lost on the way then holds up less, and a viewer keeps its connection when its address changes. Viewers
    /// whose way blocks UDP come by TCP; a firewall has to let UDP through to this port as it does TCP.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Quic::On)]
    pub quic: Quic,
    /// Size of the screen until a viewer asks for another one
    #[arg(long, value_name = "WxH", default_value = "1280x800", value_parser = parse_size)]
    pub size: (u32, u32),
    /// Name of the session: letters, digits, dot, dash and underscore
    ///
    /// Without this option it is called after COMMAND.
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<String>,
    /// Go to the background once the session is ready
    ///
    /// The links are printed first. What would have been printed later goes to the session's log.
    #[arg(long)]
    pub detach: bool,
    /// Write {"link", "display", "xauthority", "pids", …} to FILE once a viewer can connect
    #[arg(long, value_name = "FILE")]
    pub ready_json: Option<PathBuf>,
    /// Certificate chain (PEM) to show instead of the self-signed one
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM, mode 0600) of --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Path under which a reverse proxy shows the session, for example /desk/
    ///
    /// The proxy passes the path on as it is (nginx: location /desk/ { proxy_pass https://127.0.0.1:8443; } with the
    /// headers Host, Upgrade and Connection), and --public names the proxy. Browsers come through it; thinc-view speaks
    /// no HTTP and connects to the session itself.
    #[arg(long, value_name = "PATH", default_value = "/", value_parser = parse_base_path)]
    pub base_path: String,
    /// Host that links name, where it is another than the address listened on; without a port, the one listened on
    #[arg(long, value_name = "HOST[:PORT]")]
    pub public: Option<String>,
    /// Send photographs nearly as they are where the link is slow, and exactly as soon as they rest; or never
    ///
    /// Text and everything that is no photograph is exact at any speed. A viewer shows what is not exact yet.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Lossy::Auto)]
    pub lossy: Lossy,
    /// Send videos as streams of pictures to viewers that can show them: plain where the path carries that, else coded
    ///
    /// Plain pictures show exactly what the session shows; coded ones nearly, and exactly as soon as they rest. With `--lossy never` nothing is
    /// coded. What is found to be a video on the screen of a browser has letters before it sent exactly.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Video::Auto)]
    pub video: Video,
    /// Encoder that makes coded pictures of videos, of those that this thinc was built with
    #[arg(long, value_name = "LIBRARY", default_value = VideoEncoder::ALL[0].name(), value_parser = video_encoder())]
    pub video_encoder: VideoEncoder,
    /// Which way what is copied may go: from the session to viewers, from viewers to the session, both or neither
    #[arg(long, value_name = "WAY", value_enum, default_value_t = Clipboard::Both)]
    pub clipboard: Clipboard,
    /// Longest content of the clipboard, either way, as in 300K or 16M; at most 256M
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_clipboard_bytes)]
    pub clipboard_max: u64,
    /// Order in which what changed leaves: shortest remaining first, or as it was drawn, for comparison
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Scheduler::Srsf, help_heading = MEASURING)]
    pub scheduler: Scheduler,
    /// Follow what programs draw into pixmaps, or take it for new pixels once it is shown, for comparison
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On, help_heading = MEASURING)]
    pub offscreen: Switch,
    /// Write a trace of the session from its first record on; see `thinc help trace`
    ///
    /// FILE must not be there yet. A session process that had to be started again goes on in FILE.2, and so on.
    #[arg(long, value_name = "FILE", help_heading = MEASURING)]
    pub trace: Option<PathBuf>,
    /// Register a damage object in the X server, so that tests can compare what was recorded with what was drawn
    #[arg(long, hide = true)]
    pub oracle: bool,
    /// This process is the supervisor that --detach started
    #[arg(long, hide = true)]
    pub supervise: bool,
    /// Program to run and its arguments
    ///
    /// Without it: Xfce's desktop if it is installed, else openbox with a terminal, else xterm alone.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Whether viewers may come by QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Quic {
    /// Over UDP, beside TCP.
    On,
    /// TCP alone.
    Off,
}

/// Where to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    None,
    /// There.
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

/// Which way the clipboard goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clipboard {
    /// Both ways.
    Both,
    /// What is copied in the session can be pasted at viewers.
    ToViewer,
    /// What is copied at viewers can be pasted in the session.
    ToSession,
    /// Not at all.
    Off,
}

/// When photographs may be sent lossy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lossy {
    /// Below about 50 Mbit/s.
    Auto,
    /// Never.
    Never,
}

fn video_encoder() -> impl TypedValueParser<Value = VideoEncoder> {
    let names = VideoEncoder::ALL.iter().map(|encoder| encoder.name());
    PossibleValuesParser::new(names).try_map(|name| name.parse::<VideoEncoder>())
}

/// How videos are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Video {
    /// As pictures, plain or coded as the path is.
    Auto,
    /// As pixels, like all else.
    Off,
    /// As plain pictures where programs play them through XVideo, else as pixels.
    Plain,
    /// As coded pictures.
    H264,
}

impl Video {
    /// As the session process knows it.
    pub(crate) fn config(self) -> VideoConfig {
        match self {
            Video::Auto => VideoConfig::Auto,
            Video::Off => VideoConfig::Off,
            Video::Plain => VideoConfig::Plain,
            Video::H264 => VideoConfig::H264,
        }
    }
}

/// Order in which what changed leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// Answers to a hand, then the shortest remaining first.
    Srsf,
    /// First in, first out.
    Fifo,
}

/// A part of thinc that can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// As it should be.
    On,
    /// Without it.
    Off,
}

const SERVE_NOTES: &str = "\
Files:
  $XDG_STATE_HOME/thinc (~/.local/state/thinc)  key and certificate, made at the first start; logs
  $XDG_RUNTIME_DIR/thinc/NAME                   sockets and secrets of a running session
                                                (/tmp/thinc-UID/NAME where there is no XDG_RUNTIME_DIR)

Environment:
  THINC_XORG        the X server's binary, where it is in no usual place
  THINC_DRIVER_DIR  the folder of thinc_drv.so, where it is neither beside this program nor in the source tree
  THINC_LOG         what the session process logs: error, warn, info (the default), debug or trace

Examples:
  thinc serve                                    a desktop, for viewers on this machine
  thinc serve --listen 0.0.0.0:8443 -- firefox   a browser, for viewers from anywhere
  thinc serve --detach --name work -- startxfce4";

/// List sessions.
#[derive(Clone, Debug, Args)]
pub struct List {
    /// Print JSON, one object a session
    #[arg(long)]
    pub json: bool,
}

/// Print a link.
#[derive(Clone, Debug, Args)]
pub struct Link {
    /// The session; may be left out where there is only one
    #[arg(value_parser = parse_name)]
    pub name: Option<String>,
    /// Write it as thinc://, which only thinc-view opens, instead of https://, which browsers and thinc-view open
    #[arg(long)]
    pub native: bool,
}

/// End a session.
#[derive(Clone, Debug, Args)]
pub struct Stop {
    /// The session
    #[arg(value_parser = parse_name)]
    pub name: String,
}

/// Recordings of sessions.
#[derive(Clone, Debug, Args)]
pub struct Trace {
    /// What to do with one.
    #[command(subcommand)]
    pub command: TraceCommand,
}

/// What `thinc trace` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum TraceCommand {
    /// Record a running session until Ctrl-C, or as long or as much as was asked for
    ///
    /// The session does not wait for the recording: what this program cannot take in time is left out, and the trace
    /// says where. A full disk ends the recording, never the session. Of what programs drew into pixmaps before, a trace
    /// knows nothing: where that matters, begin one with `thinc serve --trace`.
    Record(TraceRecord),
    /// Send a trace through the pipeline to a viewer that is only there for it, and print what came of it
    ///
    /// No X server is needed, and time is virtual: the same file with the same options prints the same, down to a hash of
    /// every frame sent. How long the work took is printed to standard error.
    Replay(TraceReplay),
    /// Write a copy of a trace that shows nothing of what was on the screen
    ///
    /// What stays: where something was drawn, as what kind of drawing, in which order, and in which second. What goes:
    /// pixels, text, colours, window numbers, keys, and when within a second something happened. A replay draws
    /// something in its place. Widths of pieces of text stay: who knows the font may guess at words.
    Redact(TraceRedact),
    /// Say what is in a trace
    Info(TraceInfo),
}

/// Record a session.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true)]
pub struct TraceRecord {
    /// The session; may be left out where there is only one
    #[arg(value_parser = parse_name)]
    pub session: Option<String>,
    /// The file to write; it must not be there yet
    #[arg(required = true)]
    pub file: PathBuf,
    /// End after this time
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// End when the file has this size
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = value_parser!(u64).range(1..))]
    pub max: u64,
}

/// Replay a trace.
#[derive(Clone, Debug, Args)]
pub struct TraceReplay {
    /// The trace
    pub file: PathBuf,
    /// The path to the viewer: bits a second each way, and the round trip
    #[arg(long, value_name = "RATE,DELAY", default_value = "1gbit,1ms")]
    pub link: thinc_trace::LinkSpec,
    /// Go through the trace so many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "records")]
    pub times: u64,
    /// Go through the trace until there were so many records
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub records: Option<u64>,
    /// Compare what the viewer shows with the screen whenever everything has come to rest; a difference is an error
    #[arg(long)]
    pub verify: bool,
    /// Stop at the queues: what records cost, and what they become, without pixels
    #[arg(long, conflicts_with = "verify")]
    pub queues: bool,
    /// As for `thinc serve`
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Scheduler::Srsf)]
    pub scheduler: Scheduler,
    /// As for `thinc serve`; only with a trace of a session that had it on
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On)]
    pub offscreen: Switch,
}

/// Redact a trace.
#[derive(Clone, Debug, Args)]
pub struct TraceRedact {
    /// The trace
    #[arg(value_name = "IN")]
    pub from: PathBuf,
    /// The file to write; it must not be there yet
    #[arg(value_name = "OUT")]
    pub to: PathBuf,
    /// Leave the colours of plain areas as they are
    #[arg(long)]
    pub keep_colors: bool,
}

/// Describe a trace.
#[derive(Clone, Debug, Args)]
pub struct TraceInfo {
    /// The trace
    pub file: PathBuf,
}

/// The session process, or the way to one.
#[derive(Clone, Debug, Args)]
pub struct Session {
    /// What the supervisor wrote
    #[arg(long, value_name = "FILE", conflicts_with = "stdio", required_unless_present = "stdio")]
    pub config: Option<PathBuf>,
    /// Be the connection of one viewer: find or start the session, then carry the protocol over standard input and output
    #[arg(long)]
    pub stdio: bool,
    /// The session; without it, the one called after COMMAND
    #[arg(long, value_name = "NAME", value_parser = parse_name, requires = "stdio")]
    pub name: Option<String>,
    /// Start none where it is not running
    #[arg(long, requires = "stdio")]
    pub attach: bool,
    /// Size of the screen of a session that has to be started
    #[arg(long, value_name = "WxH", value_parser = parse_size, requires = "stdio")]
    pub size: Option<(u32, u32)>,
    /// COMMAND's words are written so that no shell changes them
    #[arg(long, requires = "stdio")]
    pub escaped: bool,
    /// Program to run in a session that has to be started, and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "stdio")]
    pub command: Vec<OsString>,
}

/// A program in a process session of its own.
#[derive(Clone, Debug, Args)]
pub struct Launch {
    /// Process id of the supervisor, with which the program is to end
    #[arg(long)]
    pub parent: i32,
    /// The program
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Longest name of a session, in bytes; keeps the path of its sockets short.
const NAME_BYTES_MAX: usize = 32;

fn parse_name(text: &str) -> Result<String, String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if text.is_empty() || text.len() > NAME_BYTES_MAX {
        return Err(format!("a name has 1 to {NAME_BYTES_MAX} letters"));
    }
    if !text.bytes().all(fine) || text.starts_with(['.', '-']) {
        return Err("a name has letters, digits, \".\", \"-\" and \"_\" only, and begins with none of \".-\"".into());
    }
    Ok(text.to_owned())
}

/// The name of a session that was given none: its command's, with all that no name may hold left out.
pub(crate) fn name_from(command: &OsString) -> String {
    let file = std::path::Path::new(command).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name: String = file.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(24).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "session".to_owned() } else { name.to_owned() }
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen::None);
    }
    let expected = "expected ADDRESS:PORT, for example 127.0.0.1:8443, 0.0.0.0:8443 or [::]:8443, or none";
    text.parse().map(Listen::At).map_err(|_| expected.to_owned())
}

fn parse_clipboard_bytes(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(['K', 'k', 'M', 'm']);
    let factor = match &text[number.len()..] {
        "" => 1,
        "K" | "k" => 1024,
        "M" | "m" => 1024 * 1024,
        _ => return Err("a size is a number, and K or M behind it".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|&bytes| (1..=CLIP_BYTES_MAX).contains(&bytes)).ok_or_else(|| "1 to 256M".to_owned())
}

fn parse_size(text: &str) -> Result<(u32, u32), String> {
    use thinc_protocol::limits::{SCREEN_AREA_MAX, SCREEN_EDGE_MAX};
    let (width, height) = text
        .split_once(['x', 'X'])
        .and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)))
        .ok_or("expected WIDTHxHEIGHT, for example 1280x800")?;
    let edge = 64..=SCREEN_EDGE_MAX;
    if !edge.contains(&width) || !edge.contains(&height) {
        return Err(format!("a screen is 64 to {SCREEN_EDGE_MAX} pixels wide and high"));
    }
    if u64::from(width) * u64::from(height) > SCREEN_AREA_MAX {
        return Err(format!("a screen has at most {SCREEN_AREA_MAX} pixels"));
    }
    Ok((width, height))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds, for example 10 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a time that is longer than none".to_owned()),
    }
}

fn parse_base_path(text: &str) -> Result<String, String> {
    thinc_transport::link::normal_base_path(text).ok_or_else(|| "expected a path such as /desk/".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        crate::command().debug_assert();
    }

    #[test]
    fn help_says_when_a_session_ends() {
        let mut program = crate::command();
        let help = program.find_subcommand_mut("serve").expect("it is there").render_long_help().to_string();
        for words in ["fresh X server", "hangs up", "THINC_DRIVER_DIR"] {
            assert!(help.contains(words), "{words:?} is not in:\n{help}");
        }
    }

    #[test]
    fn the_clipboard_goes_where_it_is_told_to() {
        let config = |words: &str| -> Result<ClipboardConfig, clap::Error> {
            let words = std::iter::once("thinc serve").chain(words.split_whitespace());
            let matches = Serve::augment_args(clap::Command::new("thinc serve")).try_get_matches_from(words)?;
            Ok(<Serve as clap::FromArgMatches>::from_arg_matches(&matches)?.clipboard())
        };
        let ways = |words| config(words).map(|config| (config.to_viewers, config.to_session)).unwrap();
        assert_eq!(ways(""), (true, true));
        assert_eq!(ways("--clipboard to-viewer"), (true, false));
        assert_eq!(ways("--clipboard to-session"), (false, true));
        assert_eq!(ways("--clipboard off"), (false, false));
        for (size, bytes) in [("1", 1), ("300k", 300 << 10), ("16M", 16 << 20), ("256M", 256 << 20)] {
            assert_eq!(config(&format!("--clipboard-max {size}")).unwrap().bytes_max, bytes);
        }
        for wrong in ["0", "257M", "M", "1G", "-1", "1MM", "99999999999999999999"] {
            assert!(config(&format!("--clipboard-max={wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names() {
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
    fn sizes() {
        assert_eq!(parse_size("1024x768"), Ok((1024, 768)));
        for bad in ["1024", "x", "0x0", "63x64", "16385x64", "16384x16384", "-1x5", "1024x768x24"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_follows_the_dashes_is_the_command() {
        let cli = Cli::try_parse_from(["thinc", "serve", "--size", "800x600", "--", "xterm", "--detach"]).unwrap();
        let Command::Serve(serve) = cli.command else { panic!("serve was said") };
        assert!(!serve.detach);
        assert_eq!(serve.command, ["xterm", "--detach"]);
        assert!(Cli::try_parse_from(["thinc", "serve", "--tls-cert", "x"]).is_err(), "a certificate needs its key");
        assert!(Cli::try_parse_from(["thinc", "serve", "--listen", "8443"]).is_err());
    }
}
