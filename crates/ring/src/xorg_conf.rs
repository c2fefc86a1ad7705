//! Beside control.rs: the configuration that makes an unmodified Xorg load the driver.
//! The module's options and the ABI belong together, so the text lives here and not with the server that writes it.
//! Knows option names; never where files lie.

use std::fmt::Write as _;
use std::path::Path;

use crate::abi::SCREEN_MAX;

/// What Xorg is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct XorgConf<'a> {
    /// Where the driver listens for the session, at most 107 bytes.
    pub socket: &'a Path,
    /// First width of the screen in pixels.
    pub width: u32,
    /// First height of the screen in pixels.
    pub height: u32,
    /// Registers a damage object on the screen, so that tests can compare recorded area with it. Costs time per op.
    pub oracle: bool,
}

/// The text of an xorg.conf for a session. Xorg is run as
/// `/usr/lib/xorg/Xorg -config FILE -modulepath DRIVER_DIR,/usr/lib/xorg/modules -noreset -novtswitch -sharevts
/// -nolisten tcp -auth FILE -displayfd N -logfile FILE`, all paths absolute.
///
/// # Panics
/// When the path holds a quote or a line break, which this file format cannot carry.
pub fn xorg_conf(socket: &Path, width: u32, height: u32) -> String {
    XorgConf { socket, width, height, oracle: false }.to_text()
}

impl XorgConf<'_> {
    /// As [`xorg_conf`].
    pub fn to_text(&self) -> String {
        let socket = self.socket.to_string_lossy();
        assert!(!socket.contains(['"', '\n', '\r']), "a socket path in xorg.conf cannot hold a quote or a line break");
        let (width, height) = (self.width.clamp(1, SCREEN_MAX), self.height.clamp(1, SCREEN_MAX));
        let mut text = String::from(HEAD);
        let _ = write!(
            text,
            "Section \"Device\"\n    Identifier \"thinc\"\n    Driver \"thinc\"\n    Option \"Socket\" \"{socket}\"\n    \
             Option \"Size\" \"{width}x{height}\"\n"
        );
        if self.oracle {
            text.push_str("    Option \"Oracle\" \"true\"\n");
        }
        text.push_str("EndSection\n");
        text.push_str(TAIL);
        text
    }
}

const HEAD: &str = r#"Section "ServerFlags"
    Option "AutoAddDevices" "false"
    Option "AutoEnableDevices" "false"
    Option "AutoAddGPU" "false"
    Option "DontVTSwitch" "true"
    Option "DontZap" "true"
    Option "BlankTime" "0"
    Option "StandbyTime" "0"
    Option "SuspendTime" "0"
    Option "OffTime" "0"
EndSection

"#;

const TAIL: &str = r#"
Section "Screen"
    Identifier "thinc"
    Device "thinc"
    DefaultDepth 24
EndSection

Section "ServerLayout"
    Identifier "thinc"
    Screen "thinc"
EndSection
"#;
