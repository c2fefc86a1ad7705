//! The window manager of a session that runs one application: which COMMANDs need it, and how it is
//! configured. From supervisor.rs, to openbox, a program of its own. Knows words of command lines;
//! starts nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

use crate::search;
use crate::terminal::print_error;

/// It starts in 0.1 s on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// What it prints once it manages windows: one that is mapped while it starts may be lost.
const READY: &str = "thinc-ready";
/// Longest line that it is asked to print, with room for others.
const LINE_BYTES_MAX: u64 = 1024;
/// For people whose system has none.
pub(crate) const MISSING: &str = "thinc: openbox is not installed: windows have no frames, and do \
    not follow the size of the viewer's window";

/// The main window, which is any that is no dialog, fills the screen and has no frame; dialogs have
/// one. No keys and no desktop of its own, except what is needed to reach and close a window.
const CONFIG: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<openbox_config xmlns="http://openbox.org/3.4/rc">
  <focus><focusNew>yes</focusNew><followMouse>no</followMouse><focusLast>yes</focusLast></focus>
  <placement><policy>Smart</policy><center>yes</center></placement>
  <theme><name>Clearlooks</name><titleLayout>LC</titleLayout></theme>
  <desktops><number>1</number><popupTime>0</popupTime></desktops>
  <resize><drawContents>yes</drawContents><popupShow>Never</popupShow></resize>
  <keyboard>
    <keybind key="A-Tab"><action name="NextWindow"/></keybind>
    <keybind key="A-S-Tab"><action name="PreviousWindow"/></keybind>
    <keybind key="A-F4"><action name="Close"/></keybind>
  </keyboard>
  <mouse>
    <context name="Titlebar">
      <mousebind button="Left" action="Press">
        <action name="Focus"/><action name="Raise"/>
      </mousebind>
      <mousebind button="Left" action="Drag"><action name="Move"/></mousebind>
    </context>
    <context name="Close">
      <mousebind button="Left" action="Click"><action name="Close"/></mousebind>
    </context>
    <context name="Client">
      <mousebind button="Left" action="Press">
        <action name="Focus"/><action name="Raise"/>
      </mousebind>
      <mousebind button="Middle" action="Press">
        <action name="Focus"/><action name="Raise"/>
      </mousebind>
      <mousebind button="Right" action="Press">
        <action name="Focus"/><action name="Raise"/>
      </mousebind>
    </context>
    <context name="Left Right Top Bottom TLCorner TRCorner BLCorner BRCorner">
      <mousebind button="Left" action="Drag"><action name="Resize"/></mousebind>
    </context>
  </mouse>
  <applications>
    <application type="normal"><decor>no</decor><maximized>yes</maximized></application>
  </applications>
</openbox_config>
"#;

/// Programs that manage windows, or start one that does.
const MANAGERS: [&str; 60] = [
    "awesome",
    "blackbox",
    "bspwm",
    "budgie-desktop",
    "budgie-wm",
    "cinnamon",
    "cinnamon-session",
    "compiz",
    "ctwm",
    "dwm",
    "e16",
    "enlightenment",
    "enlightenment_start",
    "evilwm",
    "fluxbox",
    "fvwm",
    "fvwm2",
    "fvwm3",
    "gnome-flashback",
    "gnome-session",
    "gnome-shell",
    "herbstluftwm",
    "i3",
    "icewm",
    "icewm-session",
    "jwm",
    "kwin",
    "kwin_x11",
    "lxqt-session",
    "lxsession",
    "marco",
    "matchbox-window-manager",
    "mate-session",
    "metacity",
    "muffin",
    "mutter",
    "mwm",
    "notion",
    "openbox",
    "openbox-session",
    "pekwm",
    "plasma_session",
    "qtile",
    "ratpoison",
    "sawfish",
    "spectrwm",
    "startfluxbox",
    "startkde",
    "startlxde",
    "startlxqt",
    "startplasma-x11",
    "startxfce4",
    "stumpwm",
    "twm",
    "wmaker",
    "x-session-manager",
    "x-window-manager",
    "xfce4-session",
    "xfwm4",
    "xmonad",
];

/// Programs that run another one, which their arguments name.
const RUNNERS: [&str; 15] = [
    "Xsession",
    "bash",
    "dash",
    "dbus-launch",
    "dbus-run-session",
    "env",
    "fish",
    "ksh",
    "nice",
    "setsid",
    "sh",
    "ssh-agent",
    "timeout",
    "vglrun",
    "zsh",
];

/// Whether COMMAND brings a window manager, as far as its words tell.
pub(crate) fn brings_its_own(command: &[OsString]) -> bool {
    let Some((program, arguments)) = command.split_first() else { return false };
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    if MANAGERS.contains(&&*name) {
        return true;
    }
    let is_name = |c: char| c.is_alphanumeric() || "._-".contains(c);
    RUNNERS.contains(&&*name)
        && arguments.iter().any(|argument| {
            argument.to_string_lossy().split(|c| !is_name(c)).any(|word| MANAGERS.contains(&word))
        })
}

/// Its program, if it is installed.
pub(crate) fn program() -> Option<PathBuf> {
    search::program("openbox".as_ref())
}

/// Writes its configuration; returns its command line.
pub(crate) fn command(program: PathBuf, config: &Path) -> std::io::Result<Vec<OsString>> {
    std::fs::write(config, CONFIG)?;
    let ready = format!("echo {READY}");
    Ok(vec![
        program.into(),
        "--sm-disable".into(),
        "--config-file".into(),
        config.into(),
        "--startup".into(),
        ready.into(),
    ])
}

/// Starts it; its standard output is for [`wait_until_ready`], its standard error for a log.
pub(crate) fn spawn(command: &mut Command) -> std::io::Result<(Child, ChildStdout, ChildStderr)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    Ok((child, out.expect("its output is piped"), err.expect("its output is piped")))
}

/// Waits until it manages windows, if there is one. Its further output is read and dropped: it
/// must not write to a closed pipe.
pub(crate) async fn wait_until_ready(output: Option<ChildStdout>) {
    let Some(mut output) = output.map(BufReader::new) else { return };
    let ready = async {
        loop {
            let mut line = String::new();
            match (&mut output).take(LINE_BYTES_MAX).read_line(&mut line).await {
                Ok(1..) if line.trim_end() == READY => return true,
                Ok(1..) => {}
                Ok(0) | Err(_) => return false,
            }
        }
    };
    if !timeout(START_TIMEOUT, ready).await.unwrap_or(false) {
        print_error("thinc: openbox did not start; see window-manager.log");
    }
    tokio::spawn(async move { tokio::io::copy(&mut output, &mut tokio::io::sink()).await });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_bring_a_window_manager_are_known_by_their_words() {
        let brings =
            |words: &[&str]| brings_its_own(&words.iter().map(OsString::from).collect::<Vec<_>>());
        for words in [
            &["startxfce4"][..],
            &["/usr/bin/openbox", "--startup", "xterm"],
            &["sh", "-c", "export A=b; exec mutter --x11"],
            &["/usr/bin/dbus-run-session", "--", "/usr/bin/mate-session"],
            &["env", "A=b", "i3"],
            &["/opt/VirtualGL/bin/vglrun", "-d", "egl", "startxfce4"],
        ] {
            assert!(brings(words), "{words:?}");
        }
        for words in [
            &["firefox", "https://example.org/openbox"][..],
            &["sh", "-c", "exec xterm -title twmx"],
            &["libreoffice"],
            &[],
        ] {
            assert!(!brings(words), "{words:?}");
        }
    }
}
