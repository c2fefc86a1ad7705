//! Beside control.rs: the configuration that makes an unmodified Xorg load the driver. It is here
//! and not with the server that writes it because the module's options belong to the ABI. Knows
//! option names; never where files lie.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

use crate::abi::SCREEN_MAX;

/// The driver's configuration in xorg.conf.
#[derive(Clone, Copy, Debug)]
pub struct XorgConf<'a> {
    /// The socket on which the driver listens for the session, at most 107 bytes.
    pub socket: &'a Path,
    /// Initial width of the screen in pixels.
    pub width: u32,
    /// Initial height of the screen in pixels.
    pub height: u32,
    /// Holds X clients that put whole images in a row to the clock of frames
    /// ([`crate::Ring::set_frame_rate`]).
    pub pace: bool,
    /// The GPU that OpenGL and Vulkan programs draw on: /dev/dri/renderD128, for example. None:
    /// there is no DRI3, and the processor draws.
    pub render_node: Option<&'a Path>,
    /// Registers a damage object on the screen, so that tests can compare the recorded area with
    /// it. It costs time per op.
    pub oracle: bool,
}

impl XorgConf<'_> {
    /// The text of an xorg.conf for a session. Run Xorg as `/usr/lib/xorg/Xorg -config FILE
    /// -modulepath DRIVER_DIR,/usr/lib/xorg/modules -noreset -novtswitch -sharevts -nolisten tcp
    /// -auth FILE -displayfd N -logfile FILE`, with absolute paths.
    ///
    /// # Panics
    /// If a path contains a quote or a line break, which xorg.conf cannot express.
    pub fn to_text(&self) -> String {
        let socket = quotable(self.socket);
        let (width, height) = (self.width.clamp(1, SCREEN_MAX), self.height.clamp(1, SCREEN_MAX));
        let mut text = String::from(HEAD);
        let _ = write!(
            text,
            "Section \"Device\"\n    Identifier \"thinc\"\n    Driver \"thinc\"\n    \
             Option \"Socket\" \"{socket}\"\n    Option \"Size\" \"{width}x{height}\"\n"
        );
        if !self.pace {
            text.push_str("    Option \"Pace\" \"false\"\n");
        }
        if let Some(node) = self.render_node {
            let _ = writeln!(text, "    Option \"RenderNode\" \"{}\"", quotable(node));
        }
        if self.oracle {
            text.push_str("    Option \"Oracle\" \"true\"\n");
        }
        text.push_str("EndSection\n");
        text.push_str(TAIL);
        text
    }
}

fn quotable(path: &Path) -> Cow<'_, str> {
    let path = path.to_string_lossy();
    assert!(
        !path.contains(['"', '\n', '\r']),
        "a path in xorg.conf cannot contain a quote or a line break"
    );
    path
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
