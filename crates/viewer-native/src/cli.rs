//! The command line of `thinc-view`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{CommandFactory as _, Parser, ValueEnum};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::viewer::KeyboardLayout;
use thinc_region::Size;
use thinc_transport::offer::UdpPorts;
use thinc_transport::{GuestLogin, TransportChoice, password};
use thinc_viewer_core::{ClipboardPolicy, StereoMode};

use crate::address;
use crate::client::{MicrophoneChoice, Opening, SoundChoice};
use crate::decoder_choice::DecoderChoice;
use crate::desktops::DesktopChoice;
use crate::device_key::{DeviceOptions, Remember};
use crate::error::ViewError;
use crate::files::FilesChoice;
use crate::gamma::GammaChoice;
use crate::install::{InstallMode, InstallOptions};
use crate::printing::{PrintChoice, parse_printer};
use crate::saved::CacheOptions;
use crate::script;
use crate::ssh::SshTransport;
use crate::target::Target;
use crate::view::{ViewChoice, parse_view};

/// Shows a thinc session in a window, or without one for scripts and tests.
#[derive(Debug, Parser)]
#[command(name = "thinc-view", version, after_long_help = AFTER_HELP)]
pub struct Cli {
    /// Address of the session: ssh://[USER@]HOST[:PORT][/SESSION], or thinc://HOST:PORT/#t=…&k=… or
    /// https://… as the server printed it; "-": the first line of standard input. Default:
    /// $THINC_LINK.
    ///
    /// A thinc:// or https:// link opens the session once, to the first that uses it, and other
    /// users of this computer can read the arguments of programs: prefer "-" for them. One without
    /// its last part, https://HOST, is that of a server where people log in (thinc broker):
    /// thinc-view asks for name and password on the terminal.
    ///
    /// Through ssh, thinc-view finds or starts the session: the desktop, or the session called
    /// SESSION, or one that runs COMMAND. The session goes on when the viewer is closed. The host
    /// needs an sshd, Xorg, and no open port. If it has no thinc, thinc-view can copy it there.
    #[arg(value_name = "LINK")]
    pub link: Option<String>,

    /// Reads the address from the first line of this file.
    #[arg(long, value_name = "FILE", conflicts_with = "link")]
    pub link_file: Option<PathBuf>,

    /// With the link of an invitation: the name that the others see. Default: your account's.
    ///
    /// If the invitation has a password, it is asked for on the terminal; if standard input is no
    /// terminal, its next line is the password.
    #[arg(long, value_name = "NAME")]
    pub guest_name: Option<String>,

    /// With ssh://: program and arguments that a new session runs. Default: the desktop.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// With ssh://: the ssh program and its first arguments, split at spaces.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh: String,

    /// With ssh://: path of thinc on the host, for example ~/bin/thinc; then nothing is copied.
    ///
    /// Default: thinc in PATH there if it has the version of this thinc-view; otherwise the copy
    /// that --install has made.
    #[arg(long, value_name = "PATH", conflicts_with = "uninstall")]
    pub thinc: Option<String>,

    /// With ssh://: whether to copy thinc and its driver for Xorg to a host that has none, or has
    /// another version.
    ///
    /// They are copied through the same ssh into ~/.local/share/thinc/VERSION of your account, and
    /// used again the next time. Nothing else of the host is changed. Without a terminal, "ask"
    /// copies nothing. If nothing is copied, a thinc of another version in PATH is used.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Install::Ask)]
    pub install: Install,

    /// With ssh://: folder of the files that --install copies, on this machine: thinc and
    /// thinc_drv*.so, or an unpacked package (dpkg -x thinc-desktop-server_*.deb DIR). Default:
    /// where the package thinc-desktop-server has them, next to this thinc-view.
    #[arg(long, value_name = "DIR")]
    pub install_from: Option<PathBuf>,

    /// With ssh://: removes what --install has copied to the host, in all versions, and ends.
    /// Running sessions go on.
    #[arg(long, conflicts_with_all = ["headless", "command"])]
    pub uninstall: bool,

    /// After a login at a server for many people: lists your desktops on the terminal, also if
    /// there is one only, to open, start, rename or end one.
    #[arg(long, conflicts_with_all = ["headless", "desktop", "new"])]
    pub list: bool,

    /// After such a login: opens the desktop with this name, or that you call so.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["headless", "new"])]
    pub desktop: Option<String>,

    /// After such a login: starts another desktop with this name, and opens it.
    #[arg(long, value_name = "NAME", conflicts_with = "headless")]
    pub new: Option<String>,

    /// With --new: what it runs, a program with its arguments, instead of the usual desktop.
    #[arg(long, value_name = "PROGRAM", requires = "new")]
    pub program: Option<String>,

    /// Where the session is shown at another viewer of yours: closes that one. Without this and
    /// --join, as you or the server's administrator have chosen.
    #[arg(long, conflicts_with_all = ["headless", "join"])]
    pub take_over: bool,

    /// Where the session is shown at another viewer of yours: shows it at both.
    #[arg(long, conflicts_with = "headless")]
    pub join: bool,

    /// Fills the whole screen and grabs the keyboard, including shortcuts of the local desktop.
    #[arg(long, conflicts_with = "headless")]
    pub fullscreen: bool,

    /// Fills all monitors: opens a window on each, and gives the session the same monitor layout.
    /// Monitors may be plugged in and out.
    #[arg(long, conflicts_with_all = ["headless", "fullscreen", "size", "view"])]
    pub monitors: bool,

    /// Opens N windows, each a monitor of the session, side by side in this order. Closing a window
    /// removes its monitor, closing the last one closes the viewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=WINDOWS_MAX),
        conflicts_with_all = ["headless", "fullscreen", "monitors", "view"])]
    pub windows: Option<u8>,

    /// Size of the window (of each, with --windows) and of the session, in pixels. Default: the
    /// session's own size, as far as it fits.
    #[arg(long, value_name = "WxH", value_parser = script::parse_screen_size)]
    pub size: Option<Size>,

    /// Part of the session to show; the session keeps its size: fit (all of it, scaled to the
    /// window by the session), WxH (all of it at this size), WxH+X+Y (this part of it) or
    /// WxH=PWxPH+X+Y (that part at this size). A smaller view needs less bandwidth.
    #[arg(long, value_name = "VIEW", value_parser = parse_view, conflicts_with = "size")]
    pub view: Option<ViewChoice>,

    /// Shows the statistics from the start.
    #[arg(long, conflicts_with = "headless")]
    pub stats: bool,

    /// How pixels are presented in the window.
    #[arg(long, value_enum, default_value_t = Present::Auto, conflicts_with = "headless")]
    pub present: Present,

    /// Keyboard layout of the session while you type: the local one (auto), the session's own
    /// (session), or by name, such as us, de(nodeadkeys) or "fr compose:caps".
    #[arg(long, value_name = "LAYOUT", default_value = "auto", value_parser = parse_keyboard,
        conflicts_with = "headless")]
    pub layout: LayoutChoice,

    /// Shows an error also in a window of its own, if it ends the viewer before there was another.
    /// For programs that start thinc-view where nobody sees its standard error: the desktop entry
    /// for thinc:// links.
    #[arg(long, conflicts_with = "headless")]
    pub error_window: bool,

    /// Runs without a display.
    #[arg(long)]
    pub headless: bool,

    /// With --headless: writes the screen as a PNG before the viewer ends.
    #[arg(long, value_name = "FILE", requires = "headless")]
    pub screenshot: Option<PathBuf>,

    /// With --headless: waits at the end until everything drawn is shown and no update follows.
    #[arg(long, requires = "headless")]
    pub when_quiet: bool,

    /// Writes the connection's statistics as JSON before the viewer ends.
    #[arg(long, value_name = "FILE")]
    pub stats_json: Option<PathBuf>,

    /// With --headless: runs the commands in this file ("-": standard input); see below.
    #[arg(long, value_name = "FILE", requires = "headless")]
    pub script: Option<PathBuf>,

    /// Time-out for connecting (with ssh 150 s more, to enter a password) and, with --headless, for
    /// each wait.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub timeout: Duration,

    /// The transport. QUIC is less affected by packet loss and survives a change of networks.
    ///
    /// With a link it needs UDP to the same port number, and auto uses it if it gets through and
    /// the session is not on the same machine or local wired network, and moves to it when the path
    /// becomes long or loses packets. With ssh://, auto begins in ssh's tunnel and moves to QUIC,
    /// on a UDP port that the host opens for this viewer, if that gets through; ssh ends then.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,

    /// With ssh://: UDP ports of the host, one of which it opens for this viewer. A firewall has to
    /// let them through.
    #[arg(long, value_name = "FIRST-LAST", default_value_t = UdpPorts::default())]
    pub udp_ports: UdpPorts,

    /// File of remembered server keys, for links that name none. Default: thinc/known_hosts under
    /// $XDG_CONFIG_HOME or ~/.config.
    #[arg(long, value_name = "FILE")]
    pub pin_store: Option<PathBuf>,

    /// Where people log in (thinc broker): whether the server is to remember this device, so that
    /// it signs you in the next time without a question. Only on a device of your own: its key is
    /// a file of yours in thinc/devices under $XDG_STATE_HOME or ~/.local/state.
    ///
    /// The list of your desktops in a browser shows the devices, and forgets them.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = RememberWhen::Ask,
        num_args = 0..=1, require_equals = true, default_missing_value = "yes")]
    pub remember: RememberWhen,

    /// Memory for cached pixels that are shown again: animations, windows, pages in the history. 0
    /// for none.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_bytes)]
    pub cache: u64,

    /// Saves the cache in this folder when the viewer ends, and loads it at the next start. The
    /// files hold parts of your screen. Default: it is not saved.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Direction of copy and paste. A copied content is transferred only when it is pasted.
    #[arg(long, value_enum, default_value_t = Clipboard::Both)]
    pub clipboard: Clipboard,

    /// Largest content that can be pasted, in either direction; the session has a limit of its own.
    /// At max 256M.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_clipboard_bytes)]
    pub clipboard_max: u64,

    /// Direction in which files are sent: dropped on the window, to the session; by programs of the
    /// session, to this computer, after a question each time.
    #[arg(long, value_enum, default_value_t = Files::Both)]
    pub files: Files,

    /// Documents that programs of the session print: this computer's program for PDF opens them,
    /// after a question each time.
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Printing::On)]
    pub printing: Printing,

    /// Printer of this computer that prints them at once, without a question; `lpstat -e` lists
    /// its printers.
    #[arg(long, value_name = "NAME", value_parser = parse_printer)]
    pub printer: Option<String>,

    /// How good pictures are while they move, and photographs on a slow path.
    ///
    /// Text that stands still is always exact, and so is all of the screen as soon as it rests.
    /// Ctrl+Alt+H and the menu change it.
    #[arg(long, value_enum, default_value_t = Quality::Auto)]
    pub quality: Quality,

    /// Whether night colours, gamma and brightness that programs of the session set are shown.
    ///
    /// off: where this desktop has night colours of its own, which would count twice. Screenshots
    /// and what is copied have the session's own colours in any case.
    #[arg(long, value_enum, default_value_t = Gamma::Session)]
    pub gamma: Gamma,

    /// How programs that draw for each eye (stereo 3D) are shown. All else looks as ever.
    ///
    /// Ctrl+Alt+W, and the menu while such a program is shown, change it.
    #[arg(long, value_enum, default_value_t = Stereo::Off)]
    pub stereo: Stereo,

    /// Sound of the session.
    #[arg(long, value_enum, default_value_t = Sound::On, conflicts_with = "headless")]
    pub sound: Sound,

    /// Whether programs of the session that record hear your microphone. It is open only while one
    /// records, the window says so, and Ctrl+Alt+K turns it off. Cameras are never used.
    #[arg(long, value_enum, default_value_t = Microphone::Ask, conflicts_with = "headless")]
    pub microphone: Microphone,

    /// What decodes videos: the processor, or the graphics processor of this computer.
    ///
    /// auto: the graphics processor where it decodes videos of 1280x720 and more exactly as the
    /// processor does, and faster: both decode some frames of each video, and are compared.
    /// hardware: small videos too, and even where it is slower. It needs the
    /// program thinc-gpu-codec and a driver for VA-API, or NVIDIA's. Ctrl+Alt+S says what decodes,
    /// and why it is not the graphics processor.
    #[arg(long, value_enum, default_value_t = Decoder::Auto)]
    pub decoder: Decoder,
}

impl Cli {
    /// The target that the command line names. Reads it from standard input if it says so, once.
    pub fn target(&self) -> Result<Target, ViewError> {
        let mut target = address::read(self.link.as_deref(), self.link_file.as_deref())?.parse()?;
        match &mut target {
            Target::Ssh(ssh) => {
                ssh.command.clone_from(&self.command);
                ssh.size = self.size;
                ssh.program = self.ssh.split_whitespace().map(str::to_owned).collect();
                ssh.thinc.clone_from(&self.thinc);
                ssh.install = InstallOptions {
                    mode: match self.install {
                        // Standard input is not the terminal's then, but the script's.
                        Install::Ask if self.script.as_deref() == Some(Path::new("-")) => {
                            InstallMode::Never
                        }
                        Install::Ask => InstallMode::Ask,
                        Install::Never => InstallMode::Never,
                        Install::Always => InstallMode::Always,
                    },
                    from: self.install_from.clone(),
                };
                ssh.udp_ports = self.udp_ports;
                ssh.transport = match self.transport {
                    Transport::Auto => SshTransport::Auto,
                    Transport::Quic => SshTransport::Quic,
                    Transport::Tunnel => SshTransport::Tunnel,
                    Transport::Tcp => return Err(ViewError::NoTcp),
                };
                ssh.check()?;
            }
            Target::Link(_) if self.transport == Transport::Tunnel => {
                return Err(ViewError::NoTunnel);
            }
            Target::Link(_) if !self.command.is_empty() => return Err(ViewError::NoCommand),
            Target::Link(_) if self.uninstall => return Err(ViewError::NoUninstall),
            Target::Link(link) => {
                if let Some(hint) = link.invitation() {
                    link.guest = Some(self.guest(hint.password)?);
                }
            }
        }
        Ok(target)
    }

    /// What the session has to know of a person who was invited.
    fn guest(&self, has_password: bool) -> Result<GuestLogin, ViewError> {
        let account = || std::env::var("USER").unwrap_or_default();
        let name = self.guest_name.clone().unwrap_or_else(account);
        let password = if has_password {
            password::read("Password of the invitation").map_err(ViewError::NoPassword)?
        } else {
            String::new()
        };
        Ok(GuestLogin { name, password })
    }

    /// How a server remembers this device.
    pub fn devices(&self) -> DeviceOptions {
        let remember = match self.remember {
            RememberWhen::Ask => Remember::Ask,
            RememberWhen::Yes => Remember::Yes,
            RememberWhen::No => Remember::No,
        };
        let folder = base("XDG_STATE_HOME", ".local/state");
        DeviceOptions { remember, folder: folder.map(|base| base.join("thinc").join("devices")) }
    }

    /// The pixel cache: its size and folder.
    pub fn cache(&self) -> CacheOptions {
        CacheOptions { bytes: self.cache, dir: self.cache_dir.clone() }
    }

    /// Which of the person's desktops is opened.
    pub fn desktop_choice(&self) -> DesktopChoice {
        match (&self.new, &self.desktop) {
            (Some(name), _) => {
                DesktopChoice::New { name: name.clone(), program: self.program.clone() }
            }
            (None, Some(name)) => DesktopChoice::Named(name.clone()),
            (None, None) if self.list => DesktopChoice::List,
            (None, None) => DesktopChoice::Any,
        }
    }

    /// What happens where the session is shown elsewhere.
    pub fn opening(&self) -> Opening {
        match (self.take_over, self.join) {
            (true, _) => Opening::TakeOver,
            (false, true) => Opening::Join,
            (false, false) => Opening::Default,
        }
    }

    /// In which directions files are sent.
    pub fn files(&self) -> FilesChoice {
        FilesChoice {
            to_viewer: matches!(self.files, Files::Both | Files::ToViewer),
            to_session: matches!(self.files, Files::Both | Files::ToSession),
        }
    }

    /// What is done with documents that programs of the session print.
    pub fn prints(&self) -> PrintChoice {
        match (self.printing, &self.printer) {
            (Printing::Off, _) => PrintChoice::Off,
            (Printing::On, Some(name)) => PrintChoice::Printer(name.clone()),
            (Printing::On, None) if self.headless => PrintChoice::Keep,
            (Printing::On, None) => PrintChoice::Open,
        }
    }

    /// How the viewer takes part in the clipboard.
    pub fn clipboard(&self) -> ClipboardPolicy {
        let (give, take) = match self.clipboard {
            Clipboard::Both => (true, true),
            Clipboard::ToSession => (true, false),
            Clipboard::FromSession => (false, true),
            Clipboard::Off => (false, false),
        };
        let FilesChoice { to_viewer, to_session } = self.files();
        ClipboardPolicy {
            give,
            take,
            give_files: to_session,
            take_files: to_viewer,
            bytes_max: self.clipboard_max,
        }
    }
}

/// Whether to copy thinc to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Install {
    /// Copies nothing.
    Never,
    /// Asks on the terminal.
    Ask,
    /// Copies without a question.
    Always,
}

/// Whether a server is to remember this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RememberWhen {
    /// Asks on the terminal after a login.
    Ask,
    /// After a login, without a question.
    Yes,
    /// Not, and a key that there is for the server is deleted.
    No,
}

/// Most monitors of a session.
const WINDOWS_MAX: i64 = thinc_protocol::limits::DISPLAYS_MAX as i64;

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// QUIC if it gets through. Otherwise TCP, also if the session is on this machine or on the
    /// local wired network; with ssh://, the tunnel.
    Auto,
    /// QUIC only; with ssh://, after the login.
    Quic,
    /// With a link: TLS over TCP only.
    Tcp,
    /// With ssh://: ssh's tunnel only; the host opens no UDP port.
    Tunnel,
}

impl Transport {
    /// The choice as thinc-transport takes it.
    pub fn choice(self) -> TransportChoice {
        match self {
            // No link takes the tunnel: `Cli::target` refuses it.
            Transport::Auto | Transport::Tunnel => TransportChoice::Auto,
            Transport::Quic => TransportChoice::Quic,
            Transport::Tcp => TransportChoice::Tcp,
        }
    }
}

/// Direction of copy and paste.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clipboard {
    /// The local desktop and the session share clipboard and selection.
    Both,
    /// What is copied locally can be pasted in the session, not the other way round.
    ToSession,
    /// What is copied in the session can be pasted locally, not the other way round.
    FromSession,
    /// Each side keeps its own clipboard.
    Off,
}

/// Direction in which files are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Files {
    /// In both directions.
    Both,
    /// From the session only; each time the person is asked.
    ToViewer,
    /// To the session only.
    ToSession,
    /// None.
    Off,
}

/// Whether programs of the session print here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Printing {
    /// They do.
    On,
    /// This viewer is no printer.
    Off,
}

/// Sound of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sound {
    /// It is played, coded at a rate that suits the network.
    On,
    /// It is played, as plain samples (1.6 Mbit/s) where the network is fast enough.
    Lossless,
    /// None is sent.
    Off,
}

impl Sound {
    /// The choice as the client takes it.
    pub fn choice(self) -> SoundChoice {
        match self {
            Sound::On => SoundChoice::On,
            Sound::Lossless => SoundChoice::Lossless,
            Sound::Off => SoundChoice::Off,
        }
    }
}

/// Whether night colours and gamma of the session are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gamma {
    /// As the session's programs want it.
    Session,
    /// Colours are shown as they are.
    Off,
}

impl Gamma {
    /// The choice as the client takes it.
    pub fn choice(self) -> GammaChoice {
        match self {
            Gamma::Session => GammaChoice::Session,
            Gamma::Off => GammaChoice::Off,
        }
    }
}

/// How programs that draw for each eye are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stereo {
    /// The left eye's picture.
    Off,
    /// Red of the left one, green and blue of the right one, for red-cyan glasses.
    Anaglyph,
    /// The left one in the left half of the program's window, the right one in the right half.
    SideBySide,
    /// Even rows of the left one, odd rows of the right one, for displays with polarised rows: in
    /// fullscreen, unscaled.
    Interleaved,
    /// A display with a picture for each eye (quad-buffered OpenGL); needs --present gpu or auto.
    Quad,
}

impl Stereo {
    /// The choice as the client takes it.
    pub fn choice(self) -> StereoMode {
        match self {
            Stereo::Off => StereoMode::Off,
            Stereo::Anaglyph => StereoMode::Anaglyph,
            Stereo::SideBySide => StereoMode::SideBySide,
            Stereo::Interleaved => StereoMode::Interleaved,
            Stereo::Quad => StereoMode::Quad,
        }
    }
}

/// How good pictures are while they move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Quality {
    /// As the path allows.
    Auto,
    /// Lossless; fewer frames a second where the path does not carry them all.
    Exact,
    /// JPEG of full colour at quality 95, which nobody tells from exact; videos as with auto.
    High,
    /// A slight difference: JPEG at quality 80, or H.264 with two fifths of the bits.
    Medium,
    /// Few bytes: JPEG at quality 30, or H.264 with a seventh of the bits.
    Low,
}

impl Quality {
    /// The choice as the client takes it.
    pub fn choice(self) -> PictureQuality {
        match self {
            Quality::Auto => PictureQuality::Auto,
            Quality::Exact => PictureQuality::Exact,
            Quality::High => PictureQuality::High,
            Quality::Medium => PictureQuality::Medium,
            Quality::Low => PictureQuality::Low,
        }
    }
}

/// The microphone, for programs of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Microphone {
    /// You are asked when the first program records.
    Ask,
    /// Without a question.
    On,
    /// Never.
    Off,
}

impl Microphone {
    /// The choice as the client takes it.
    pub fn choice(self) -> MicrophoneChoice {
        match self {
            Microphone::Ask => MicrophoneChoice::Ask,
            Microphone::On => MicrophoneChoice::On,
            Microphone::Off => MicrophoneChoice::Off,
        }
    }
}

/// What decodes videos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decoder {
    /// Whichever is faster.
    Auto,
    /// The processor.
    Software,
    /// The graphics processor, where its frames are right.
    Hardware,
}

impl Decoder {
    /// The choice as the client takes it.
    pub fn choice(self) -> DecoderChoice {
        match self {
            Decoder::Auto => DecoderChoice::Auto,
            Decoder::Software => DecoderChoice::Software,
            Decoder::Hardware => DecoderChoice::Hardware,
        }
    }
}

/// Keyboard layout of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutChoice {
    /// The local keyboard's layout.
    Auto,
    /// The session's own layout.
    Session,
    /// This layout.
    Named(KeyboardLayout),
}

fn parse_keyboard(text: &str) -> Result<LayoutChoice, String> {
    match text {
        "auto" => Ok(LayoutChoice::Auto),
        "session" => Ok(LayoutChoice::Session),
        name => script::parse_layout(name).map(LayoutChoice::Named),
    }
}

/// How pixels are presented in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Present {
    /// `gpu` if there is a GPU; otherwise `surface`, or `renderer` if nothing else works.
    Auto,
    /// Damage is uploaded; the GPU converts and scales videos, and scales the screen.
    Gpu,
    /// Pixels are copied to the window; best without a GPU.
    Surface,
    /// Pixels are uploaded to an SDL texture.
    Renderer,
}

const AFTER_HELP: &str = "\
Keys in the window:
  Ctrl+Alt+F    Toggle fullscreen
  Ctrl+Alt+S    Toggle statistics
  Ctrl+Alt+E    Show lossy areas: on slow paths photographs are lossy until they are refreshed
  Ctrl+Alt+H    Next quality of pictures that move: auto, exact, high, medium, low
  Ctrl+Alt+A    Show exactly what is there now, also while it moves
  Ctrl+Alt+W    Next way to show stereo programs: off, anaglyph, side-by-side, interleaved, and quad
                where the display has it
  Ctrl+Alt+G    Toggle keyboard grab: the session gets shortcuts of the local desktop too (Alt+Tab,
                Super…); fullscreen grabs by itself
  Ctrl+Alt+P    Release a captured pointer, or let an application capture it
  Ctrl+Alt+B    On X: Alt and Super with the mouse are for the session (default), or your desktop
  Ctrl+Alt+V    Mute the session's sound, or hear it again
  Ctrl+Alt+comma, Ctrl+Alt+period   Softer, louder
  Ctrl+Alt+K    Turn your microphone off at once, or on again for programs that record
  Ctrl+Alt+M    Open the menu, which also sends keys that the local desktop keeps: Ctrl+Alt+Del,
                Alt+Tab, Super, Print
  Ctrl+Alt+Plus, Ctrl+Alt+Minus   Zoom in at the pointer, zoom out
  Ctrl+Alt+0    Reset the zoom; zoomed in, Ctrl+Alt+arrows pan
                (if the local desktop keeps these keys: after Ctrl+Alt+G)
  Ctrl+Alt+Q    Close the viewer; the session goes on
  Ctrl+Alt+R    After a loss: retry now; of a session that you opened elsewhere: take it back

Exit codes: 0 done or closed by the user, also once the session was opened elsewhere, 1 window, file
or script error, 2 command line or link, 3 unreachable, busy or connection lost, 4 the server's key
differs from the link's, 5 token or session credential not accepted, 6 protocol violation or
connection closed by the session, 7 time-out, 8 session ended.

Commands of a script, one per line (each is answered by one line, `ok …` or `error …`):
  type TEXT           types the rest of the line (\\n is Return, \\t is Tab, \\\\ is a backslash)
  text TEXT           enters the rest of the line as an input method does, by characters
  layout LAYOUT[(VARIANT)][,…] [OPTION…]   sets the keyboard layout, for example
                      layout de(nodeadkeys) compose:caps
  locks none|caps|num|both   sets which locks are on
  key NAME[+NAME…]    presses keys in order and releases them: key Control_L+c, key Return, key F5
  keydown NAME, keyup NAME
  move X Y            moves the pointer
  move-by DX DY       moves the pointer by a distance, as a captured pointer does
  click N, buttondown N, buttonup N   N: 1 left, 2 middle, 3 right, 8 back, 9 forward
  scroll DX DY        in 1/120 of a wheel notch; positive is right and down
  touch ID begin|update|end X Y
  pen X Y PRESSURE TILTX TILTY [BUTTONS] [eraser]   a sample of a pen that is near: X and Y may have
                      fractions, PRESSURE is 0 to 65535, the tilts -90 to 90 degrees, BUTTONS the
                      sum of 1 the tip, 2 and 4 the barrel's
  penout              the pen leaves
  release             releases all keys, buttons and touches
  keep LINE           runs the command without waiting for a connection: while it is lost,
                      keystrokes are buffered for the next one, as in a window
  barrier             waits until everything drawn before is shown
  wait-quiet          repeats barriers until one brings no update
  wait-unresponsive   waits until the session is unresponsive: an answer is due and does not come
  wait-connection N   waits for this connection (the first is 1): after a loss, until the viewer
                      has reconnected
  wait-pixel X Y RRGGBB   waits until this pixel has this colour
  size                answers `ok WxH`
  resize WxH          resizes the session, 64x64 at least, and waits until it has this size
  view VIEW           sets the view as --view does, and waits for it; fit: the whole screen at
                      its own size
  quality auto|exact|high|medium|low   sets how good pictures that move are
  exact               asks for what is shown now lossless, also while it moves
  stereo off|anaglyph|side-by-side|interleaved|quad   sets how stereo programs are shown
  wait-right yes|no   waits until the right eye sees a stereo program, or none
  right-bounds        answers `ok WxH+X+Y` of where stereo programs are, or `ok none`
  right-pixel X Y     answers `ok RRGGBB` as the right eye sees it; pixel is the left eye's
  wait-right-pixel X Y RRGGBB   waits until the right eye sees this colour there
  screenshot-right FILE   writes a PNG of what the right eye sees; screenshot is the left eye's
  screenshot-shown FILE   writes a PNG of both pictures as a window shows them in this mode
  hash                answers `ok` and xxh3 of the pixels (little-endian 0x00RRGGBB)
  pixel X Y           answers `ok RRGGBB`
  cursor              answers `ok WxH+HOTX+HOTY` of the cursor's image, or `ok none`
  cursor-pixel X Y    answers `ok aarrggbb` of the cursor's image, premultiplied
  cursor-shown        answers `ok yes`, or `ok no` if the session hides the cursor
  gamma X Y RRGGBB    answers `ok RRGGBB`, what this colour is shown as at a pixel of the screen;
                      the viewer's pixels stay as they are
  wait-gamma X Y RRGGBB RRGGBB   waits until the first colour is shown as the second there
  relative-wanted     answers `ok yes` if an application wants the pointer's motion, or `ok no`
  wait-relative yes|no   waits until an application wants the pointer's motion, or none does
  announcement              waits for a message of the session or its administrator, and answers
                      `ok TEXT`
  warped              answers `ok X Y`, the pointer position set by an application, or `ok none`
  clip-copy SELECTION FORMAT FILE   copies the file's content on the viewer's side, in this format
                      only.
                      SELECTION: clipboard, primary; FORMAT: text, html, png, files
  clip-add SELECTION FORMAT FILE    adds another format of the copied content
  clip-wait SELECTION [FORMAT…]     waits until the session offers exactly these formats; none: no
                      offer
  clip-paste SELECTION FORMAT FILE  pastes the session's selection into a file
  files-send PATH     sends a file or folder to the session, and waits until it is there
  files-drop X Y PATH the same, as a drop on the session's window at these pixels
  files-question      waits until the session offers files, or a program prints, and answers
                      `ok TEXT`
  files-answer yes|no   receives the files, and waits until they are there, or refuses them
  screenshot FILE     writes a PNG
  stats FILE          writes the statistics as JSON
  timeout SECONDS     sets the limit of each later wait
  quit                ends the script
Empty lines and lines that start with # are skipped.";

/// The command line for clap, for manual pages and completions.
pub fn command() -> clap::Command {
    Cli::command()
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|limit| !limit.is_zero() && *limit <= Duration::from_secs(24 * 3600))
        .ok_or_else(|| format!("{text:?} is not a number of seconds above 0"))
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    parse_size_within(text, thinc_protocol::limits::CACHE_BYTES_MAX)
}

fn parse_clipboard_bytes(text: &str) -> Result<u64, String> {
    parse_size_within(text, thinc_protocol::limits::CLIP_BYTES_MAX)
}

fn parse_size_within(text: &str, max: u64) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes
        .filter(|&bytes| bytes <= max)
        .ok_or_else(|| format!("{text:?} is not a size such as 64M, of at most {}M", max >> 20))
}

/// Default file of remembered server keys.
pub fn default_pin_store() -> Option<PathBuf> {
    Some(base("XDG_CONFIG_HOME", ".config")?.join("thinc").join("known_hosts"))
}

/// A folder of the XDG base directory specification, or the usual one in the home folder.
fn base(variable: &str, usual: &str) -> Option<PathBuf> {
    let set =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set(variable).filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_valid() {
        command().debug_assert();
        let help = command().render_long_help().to_string();
        assert!(
            help.starts_with("Shows a thinc session"),
            "the help starts with the program's purpose: {help}"
        );
        for word in ["--headless", "--when-quiet", "Ctrl+Alt+F", "Ctrl+Alt+E", "wait-quiet"] {
            assert!(help.contains(word), "{word} is not in --help");
        }
    }

    #[test]
    fn conflicting_options_are_refused() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("thinc-view thinc://h/#t=a --fullscreen --size 800x600").is_ok());
        assert!(
            parse("thinc-view thinc://h/#t=a --screenshot x.png").is_err(),
            "without --headless"
        );
        assert!(parse("thinc-view thinc://h/#t=a --headless --fullscreen").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --size 0x5").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --timeout 0").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --windows 2 --size 800x600").is_ok());
        assert!(parse("thinc-view thinc://h/#t=a --windows 2 --monitors").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --windows 17").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --monitors --view fit").is_err());
        assert!(parse("thinc-view --link-file f").is_ok());
        assert!(parse("thinc-view --link-file f ssh://h").is_err());
        assert!(parse("thinc-view ssh://h --udp-ports 60000-61000").is_ok());
        assert!(parse("thinc-view ssh://h --udp-ports 61000-60000").is_err());
        assert!(parse("thinc-view ssh://h --uninstall").is_ok());
        assert!(parse("thinc-view ssh://h --uninstall --headless").is_err());
        assert!(parse("thinc-view ssh://h --uninstall -- xterm").is_err());
    }

    #[test]
    fn nobody_is_asked_where_standard_input_is_a_script() {
        let mode = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().target() {
            Ok(Target::Ssh(ssh)) => ssh.install.mode,
            other => panic!("{other:?}"),
        };
        assert_eq!(mode("thinc-view ssh://h"), InstallMode::Ask);
        assert_eq!(mode("thinc-view ssh://h --headless --script f"), InstallMode::Ask);
        assert_eq!(mode("thinc-view ssh://h --headless --script -"), InstallMode::Never);
        assert_eq!(
            mode("thinc-view ssh://h --headless --script - --install always"),
            InstallMode::Always
        );
        let link = Cli::try_parse_from(["thinc-view", "thinc://h/#t=AAAA", "--uninstall"]);
        assert!(matches!(link.unwrap().target(), Err(ViewError::NoUninstall)));
    }

    #[test]
    fn a_transport_that_the_address_does_not_have_is_refused() {
        let target = |line: &str| Cli::try_parse_from(line.split(' ')).unwrap().target();
        assert!(matches!(target("thinc-view ssh://h --transport tcp"), Err(ViewError::NoTcp)));
        assert!(matches!(
            target("thinc-view thinc://h/#t=AAAA --transport tunnel"),
            Err(ViewError::NoTunnel)
        ));
        for (name, expected) in [
            ("auto", SshTransport::Auto),
            ("quic", SshTransport::Quic),
            ("tunnel", SshTransport::Tunnel),
        ] {
            let parsed = target(&format!("thinc-view ssh://h --transport {name} --udp-ports 7"));
            let Ok(Target::Ssh(ssh)) = parsed else { panic!("{name}") };
            assert_eq!((ssh.transport, ssh.udp_ports.to_string()), (expected, "7-7".to_owned()));
        }
    }
}
