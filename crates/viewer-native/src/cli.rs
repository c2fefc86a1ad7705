//! What `thinc-view` may be told on its command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, ValueEnum};
use thinc_protocol::viewer::Layout;
use thinc_region::Size;
use thinc_transport::TransportChoice;
use thinc_viewer_core::ClipboardPolicy;

use crate::error::ViewError;
use crate::saved::CacheOptions;
use crate::script;
use crate::target::Target;
use crate::view::{ViewChoice, parse_view};

/// Shows a thinc session in a window, or without one for scripts and tests.
#[derive(Debug, Parser)]
#[command(name = "thinc-view", version, after_long_help = AFTER_HELP)]
pub struct Cli {
    /// Where the session is: ssh://[USER@]HOST[:PORT][/SESSION], or thinc://HOST:PORT/#t=…&k=… or https://… as the server
    /// printed it.
    ///
    /// Through ssh, the session is found or started: the desktop, or the one called SESSION, or one with COMMAND. It goes on
    /// when the viewer is closed. The host needs an sshd and thinc, and no open port.
    #[arg(value_name = "LINK")]
    pub link: String,

    /// With ssh://: the program that a session is started with, and its arguments. Without it: the desktop.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// With ssh://: the program that is called ssh, and its first arguments, split at spaces.
    #[arg(long, value_name = "PROGRAM", default_value = "ssh")]
    pub ssh: String,

    /// With ssh://: where thinc is on the host, if its shell does not find it, for example ~/bin/thinc.
    #[arg(long, value_name = "PATH", default_value = "thinc")]
    pub thinc: String,

    /// Fills the whole screen, and takes the keys the desktop would keep for itself.
    #[arg(long, conflicts_with = "headless")]
    pub fullscreen: bool,

    /// Fills all monitors: a window on each, and the session has a display for each, as they lie here. Monitors may come and go.
    #[arg(long, conflicts_with_all = ["headless", "fullscreen", "size", "view"])]
    pub monitors: bool,

    /// Opens N windows, each a display of the session, side by side in this order. Closing one takes its display away, closing the
    /// last one closes the viewer.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=WINDOWS_MAX),
        conflicts_with_all = ["headless", "fullscreen", "monitors", "view"])]
    pub windows: Option<u8>,

    /// Size of the window (of each, with --windows), and of the session, in pixels. Default: the session's own size, as far as it fits.
    #[arg(long, value_name = "WxH", value_parser = script::parse_size)]
    pub size: Option<Size>,

    /// What is shown of the session, which keeps its size: fit (all of it, scaled to the window by the session), WxH (all of it at
    /// this size), WxH+X+Y (this part of it) or WxH=PWxPH+X+Y (that part at this size). A small picture takes a small picture's bytes.
    #[arg(long, value_name = "VIEW", value_parser = parse_view, conflicts_with = "size")]
    pub view: Option<ViewChoice>,

    /// Begins with the statistics shown.
    #[arg(long, conflicts_with = "headless")]
    pub stats: bool,

    /// How the picture gets into the window.
    #[arg(long, value_enum, default_value_t = Present::Auto, conflicts_with = "headless")]
    pub present: Present,

    /// How the session's keyboard is to be laid out while you type: as yours here (auto), as it is (session), or by a name such
    /// as us, de(nodeadkeys) or "fr compose:caps".
    #[arg(long, value_name = "LAYOUT", default_value = "auto", value_parser = parse_keyboard, conflicts_with = "headless")]
    pub layout: KeyboardLayout,

    /// Runs without a display.
    #[arg(long)]
    pub headless: bool,

    /// With --headless: writes what the viewer shows as a PNG before it ends.
    #[arg(long, value_name = "FILE", requires = "headless")]
    pub screenshot: Option<PathBuf>,

    /// With --headless: first waits until everything drawn has been shown and nothing more comes.
    #[arg(long, requires = "headless")]
    pub when_quiet: bool,

    /// Writes the connection's figures as JSON before it ends.
    #[arg(long, value_name = "FILE")]
    pub stats_json: Option<PathBuf>,

    /// With --headless: does what the lines of this file say ("-": standard input); see below.
    #[arg(long, value_name = "FILE", requires = "headless")]
    pub script: Option<PathBuf>,

    /// Longest time for connecting (ssh gets 150 s more, to ask for a password) and, with --headless, for each wait.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub timeout: Duration,

    /// With a link: what carries the connection. QUIC suffers less from what is lost on the way and survives a change of networks; it
    /// needs UDP to the port's number, and is taken where that gets through and the session is further away than a cable reaches.
    #[arg(long, value_enum, default_value_t = Transport::Auto)]
    pub transport: Transport,

    /// Where the keys of servers are remembered whose links name none. Default: thinc/known_hosts under
    /// $XDG_CONFIG_HOME or ~/.config.
    #[arg(long, value_name = "FILE")]
    pub pin_store: Option<PathBuf>,

    /// Memory for pixels that are shown again: animations, windows and pages one goes back to. 0 for none.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_bytes)]
    pub cache: u64,

    /// Keeps these pixels in files of this folder when the program ends, for the next time it is started. They are parts of
    /// your screen. Default: they are not kept.
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Which way copying and pasting goes. What is copied travels when it is pasted, and not before.
    #[arg(long, value_enum, default_value_t = Clipboard::Both)]
    pub clipboard: Clipboard,

    /// Longest content that is pasted, either way; the session has a limit of its own. At most 256M.
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_clipboard_bytes)]
    pub clipboard_max: u64,
}

impl Cli {
    /// Where to go.
    pub fn target(&self) -> Result<Target, ViewError> {
        let mut target = self.link.parse()?;
        match &mut target {
            Target::Ssh(ssh) => {
                ssh.command.clone_from(&self.command);
                ssh.size = self.size;
                ssh.program = self.ssh.split_whitespace().map(str::to_owned).collect();
                ssh.thinc.clone_from(&self.thinc);
                ssh.check()?;
            }
            Target::Link(_) if !self.command.is_empty() => return Err(ViewError::NoCommand),
            Target::Link(_) => {}
        }
        Ok(target)
    }

    /// What may be kept of what is shown.
    pub fn cache(&self) -> CacheOptions {
        CacheOptions { bytes: self.cache, dir: self.cache_dir.clone() }
    }

    /// How the viewer takes part in the clipboard.
    pub fn clipboard(&self) -> ClipboardPolicy {
        let (give, take) = match self.clipboard {
            Clipboard::Both => (true, true),
            Clipboard::ToSession => (true, false),
            Clipboard::FromSession => (false, true),
            Clipboard::Off => (false, false),
        };
        ClipboardPolicy { give, take, bytes_max: self.clipboard_max }
    }
}

/// Displays that a session may have.
const WINDOWS_MAX: i64 = thinc_protocol::limits::DISPLAYS_MAX as i64;

/// What carries a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// QUIC where it gets through, TCP elsewhere and where the session is on this machine or behind a cable.
    Auto,
    /// QUIC alone.
    Quic,
    /// TLS over TCP alone.
    Tcp,
}

impl Transport {
    /// The same, for who connects.
    pub fn choice(self) -> TransportChoice {
        match self {
            Transport::Auto => TransportChoice::Auto,
            Transport::Quic => TransportChoice::Quic,
            Transport::Tcp => TransportChoice::Tcp,
        }
    }
}

/// Which way copying and pasting goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clipboard {
    /// Programs here and in the session share what is copied, and what is marked.
    Both,
    /// What is copied here can be pasted in the session, and not the other way.
    ToSession,
    /// What is copied in the session can be pasted here, and not the other way.
    FromSession,
    /// Each side keeps its own.
    Off,
}

/// How the session's keyboard is to be laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyboardLayout {
    /// As the keyboard here.
    Auto,
    /// As it is.
    Session,
    /// Like this.
    Named(Layout),
}

fn parse_keyboard(text: &str) -> Result<KeyboardLayout, String> {
    match text {
        "auto" => Ok(KeyboardLayout::Auto),
        "session" => Ok(KeyboardLayout::Session),
        name => script::parse_layout(name).map(KeyboardLayout::Named),
    }
}

/// How the picture gets into the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Present {
    /// `gpu` where there is a graphics processor; else `surface`, or `renderer` where there is no other way.
    Auto,
    /// What changes is uploaded; the graphics processor converts and scales videos and scales the picture.
    Gpu,
    /// Pixels are copied to the window; best without a graphics processor.
    Surface,
    /// Pixels are uploaded to a texture of SDL's.
    Renderer,
}

const AFTER_HELP: &str = "\
Keys in the window:
  Ctrl+Alt+F    fullscreen on and off
  Ctrl+Alt+S    statistics on and off
  Ctrl+Alt+E    hatches what is not exact yet, on and off: on slow links photographs are shown before they are exact
  Ctrl+Alt+G    the keys of the desktop (Alt+Tab, Super…) go to the session, or no longer; on by itself in fullscreen
  Ctrl+Alt+M    a menu, which also sends keys that the desktop here keeps: Ctrl+Alt+Del, Alt+Tab, Super, Print
  Ctrl+Alt+Plus, Ctrl+Alt+Minus   zoom in at the pointer, and out; Ctrl+Alt+0: as large as it is. Zoomed in, Ctrl+Alt with arrows pans
                (where the desktop here keeps those to itself: after Ctrl+Alt+G)
  Ctrl+Alt+Q    closes the viewer; the session goes on
  Ctrl+Alt+R    after a loss: tries again now

Exit codes: 0 done or closed by the person, 1 window, file or script, 2 command line or link, 3 not reachable or lost,
4 another key than the link says, 5 the token or session key is not accepted, 6 the protocol was broken or the session
closed the connection, 7 it took too long, 8 the session ended.

Lines of a script (each is answered by one line, `ok …` or `error …`):
  type TEXT           types the rest of the line (\\n is Return, \\t is Tab, \\\\ is a backslash)
  text TEXT           says the rest of the line as an input method does, character by character
  layout LAYOUT[(VARIANT)][,…] [OPTION…]   says how the keyboard is laid out: layout de(nodeadkeys) compose:caps
  locks none|caps|num|both   says which locks are on
  key NAME[+NAME…]    presses keys in order and releases them: key Control_L+c, key Return, key F5
  keydown NAME, keyup NAME
  move X Y            moves the pointer
  click N, buttondown N, buttonup N   N: 1 left, 2 middle, 3 right, 8 back, 9 forward
  scroll DX DY        in 1/120 of a wheel notch; positive is right and down
  touch ID begin|update|end X Y
  release             nothing is held any more
  keep LINE           runs the line as a person does who types on without a connection: nothing waits, keys are kept for the next one
  barrier             waits until everything drawn before it is shown
  wait-quiet          repeats barriers until one brings no update
  wait-silence        waits until nothing is heard of a session that should have answered
  wait-pixel X Y RRGGBB   waits until that pixel has that colour
  size                answers `ok WxH`
  resize WxH          waits until the session has that size
  view VIEW           shows what --view would, and waits for it; fit: all of the screen at its own size
  hash                answers `ok` and xxh3 of the pixels (little-endian 0x00RRGGBB)
  pixel X Y           answers `ok RRGGBB`
  cursor              answers `ok WxH+HOTX+HOTY` of the cursor's image, or `ok none`
  cursor-pixel X Y    answers `ok aarrggbb` of the cursor's image, premultiplied
  cursor-shown        answers `ok yes`, or `ok no` where the session hides it
  warped              answers `ok X Y` where an application last put the pointer, or `ok none`
  clip-copy SELECTION FORMAT FILE   copies: the file's content is what the viewer's side has to paste, in this form only.
                      SELECTION: clipboard, primary; FORMAT: text, html, png
  clip-add SELECTION FORMAT FILE    the same content in one more form
  clip-wait SELECTION [FORMAT…]     waits until the session has something to paste in exactly these forms; none: nothing
  clip-paste SELECTION FORMAT FILE  pastes what the session has copied, into a file
  screenshot FILE     writes a PNG
  stats FILE          writes the figures as JSON
  timeout SECONDS     limit of each later wait
  quit                ends (so does the end of the script)
Empty lines and lines that begin with # are skipped.";

/// The command line as clap knows it, for manual pages and completions.
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

fn parse_size_within(text: &str, most: u64) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes
        .filter(|&bytes| bytes <= most)
        .ok_or_else(|| format!("{text:?} is no size like 64M, of at most {}M", most >> 20))
}

/// Where keys of servers are remembered unless told otherwise.
pub fn default_pin_store() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base =
        set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or_else(|| Some(set("HOME")?.join(".config")))?;
    Some(base.join("thinc").join("known_hosts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
        let help = command().render_long_help().to_string();
        assert!(help.starts_with("Shows a thinc session"), "it says first what it is for: {help}");
        for word in ["--headless", "--when-quiet", "Ctrl+Alt+F", "Ctrl+Alt+E", "wait-quiet"] {
            assert!(help.contains(word), "{word} is not in --help");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("thinc-view thinc://h/#t=a --fullscreen --size 800x600").is_ok());
        assert!(parse("thinc-view thinc://h/#t=a --screenshot x.png").is_err(), "without --headless");
        assert!(parse("thinc-view thinc://h/#t=a --headless --fullscreen").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --size 0x5").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --timeout 0").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --windows 2 --size 800x600").is_ok());
        assert!(parse("thinc-view thinc://h/#t=a --windows 2 --monitors").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --windows 17").is_err());
        assert!(parse("thinc-view thinc://h/#t=a --monitors --view fit").is_err());
        assert!(parse("thinc-view").is_err());
    }
}
