//! What `thinc-view` may be told on its command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, ValueEnum};
use thinc_region::Size;

use crate::saved::CacheOptions;
use crate::script;

/// Shows a thinc session in a window, or without one for scripts and tests.
#[derive(Debug, Parser)]
#[command(name = "thinc-view", version, after_long_help = AFTER_HELP)]
pub struct Cli {
    /// Where the session is and what opens it: thinc://HOST:PORT/#t=…&k=… or https://… as the server printed it.
    pub link: String,

    /// Fills the whole screen, and takes the keys the desktop would keep for itself.
    #[arg(long, conflicts_with = "headless")]
    pub fullscreen: bool,

    /// Size of the window, and of the session, in pixels. Default: the session's own size, as far as it fits.
    #[arg(long, value_name = "WxH", value_parser = script::parse_size)]
    pub size: Option<Size>,

    /// Begins with the statistics shown.
    #[arg(long, conflicts_with = "headless")]
    pub stats: bool,

    /// How the picture gets into the window.
    #[arg(long, value_enum, default_value_t = Present::Auto, conflicts_with = "headless")]
    pub present: Present,

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

    /// Longest time for connecting and, with --headless, for each wait.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = parse_seconds)]
    pub timeout: Duration,

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
}

impl Cli {
    /// What may be kept of what is shown.
    pub fn cache(&self) -> CacheOptions {
        CacheOptions { bytes: self.cache, dir: self.cache_dir.clone() }
    }
}

/// How the picture gets into the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Present {
    /// `renderer` where there is a graphics processor or no other way, else `surface`.
    Auto,
    /// Pixels are copied to the window; best without a graphics processor.
    Surface,
    /// Pixels are uploaded to a texture; best with one.
    Renderer,
}

const AFTER_HELP: &str = "\
Keys in the window:
  Ctrl+Alt+F    fullscreen on and off
  Ctrl+Alt+S    statistics on and off
  Ctrl+Alt+E    hatches what is not exact yet, on and off: on slow links photographs are shown before they are exact
  Ctrl+Alt+G    the keys of the desktop (Alt+Tab, Super…) go to the session, or no longer; on by itself in fullscreen
  Ctrl+Alt+Q    closes the viewer; the session goes on
  Ctrl+Alt+R    after a loss: tries again now

Exit codes: 0 done or closed by the person, 1 window, file or script, 2 command line or link, 3 not reachable or lost,
4 another key than the link says, 5 the token or session key is not accepted, 6 the protocol was broken or the session
closed the connection, 7 it took too long, 8 the session ended.

Lines of a script (each is answered by one line, `ok …` or `error …`):
  type TEXT           types the rest of the line (\\n is Return, \\t is Tab, \\\\ is a backslash)
  key NAME[+NAME…]    presses keys in order and releases them: key Control_L+c, key Return, key F5
  keydown NAME, keyup NAME
  move X Y            moves the pointer
  click N, buttondown N, buttonup N   N: 1 left, 2 middle, 3 right, 8 back, 9 forward
  scroll DX DY        in 1/120 of a wheel notch; positive is right and down
  touch ID begin|update|end X Y
  release             nothing is held any more
  barrier             waits until everything drawn before it is shown
  wait-quiet          repeats barriers until one brings no update
  wait-pixel X Y RRGGBB   waits until that pixel has that colour
  size                answers `ok WxH`
  resize WxH          waits until the session has that size
  hash                answers `ok` and xxh3 of the pixels (little-endian 0x00RRGGBB)
  pixel X Y           answers `ok RRGGBB`
  cursor              answers `ok WxH+HOTX+HOTY` of the cursor's image, or `ok none`
  cursor-pixel X Y    answers `ok aarrggbb` of the cursor's image, premultiplied
  cursor-shown        answers `ok yes`, or `ok no` where the session hides it
  warped              answers `ok X Y` where an application last put the pointer, or `ok none`
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
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    let most = thinc_protocol::limits::CACHE_BYTES_MAX;
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
        assert!(parse("thinc-view").is_err());
    }
}
