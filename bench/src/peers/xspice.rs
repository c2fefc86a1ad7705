//! Xspice, an Xorg with a driver that is also a SPICE server, shown by spicy, the client of
//! spice-gtk. It gets a configuration file of its own: the package's sets no sizes of the three
//! buffers, and the server crashes. Knows options of both; never their protocol.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use x11rb::connection::Connection;
use x11rb::protocol::xproto::ConnectionExt as _;

use super::programs::{self, Needed};
use super::{Desk, Peer, listening};
use crate::Error;
use crate::display::DisplayNumber;
use crate::net::testbed::Side;
use crate::observe;
use crate::observe::account::Group;
use crate::process::{Running, wait_for};
use crate::results::PeerRecord;
use crate::stage::Site;

const XORG: &str = "/usr/lib/xorg/Xorg";
const DRIVER: &str = "/usr/lib/xorg/modules/drivers/spiceqxl_drv.so";
const VIEWER: &str = "spicy";
const WINDOW_MANAGER: &str = "openbox";
const PORT: u16 = 5930;
/// Defaults according to the package's notes, MiB; the picture is at the start of the commands'
/// buffer.
const BUFFER_MIB: u32 = 128;
const PICTURE_MIB: u32 = 16;
/// The driver's notes: the commands' buffer should be seven times the picture, which is one of
/// them.
const COMMANDS_PER_PICTURE: u32 = 8;
const X_START_MAX: Duration = Duration::from_secs(20);
const SHOWN_MAX: Duration = Duration::from_secs(40);
/// No bindings of keys or buttons: all input goes to the viewer.
const NO_BINDINGS: &str = r#"<openbox_config xmlns="http://openbox.org/3.4/rc">
<focus><focusNew>yes</focusNew></focus>
<desktops><number>1</number><popupTime>0</popupTime></desktops>
<keyboard/><mouse/>
</openbox_config>
"#;

/// Options for lossless output at the best compression: no JPEG, which it uses if it considers the
/// client's link slow, and no video.
const EXACT: &str = r#" Option "SpiceImageCompression" "auto_glz"
 Option "SpiceJpegWanCompression" "never"
 Option "SpiceZlibGlzWanCompression" "always"
 Option "SpiceStreamingVideo" "off"
"#;

/// Xspice and spicy.
pub struct Xspice {
    /// Whether everything is to be lossless.
    pub lossless: bool,
}

impl Peer for Xspice {
    fn name(&self) -> &'static str {
        if self.lossless { "xspice-lossless" } else { "xspice" }
    }

    fn record(&self) -> PeerRecord {
        let needed = [
            Needed { program: DRIVER, install: "xserver-xspice" },
            Needed { program: XORG, install: "xserver-xorg-core" },
            Needed { program: VIEWER, install: "spice-client-gtk" },
            Needed { program: WINDOW_MANAGER, install: "openbox" },
        ];
        let settings = if self.lossless {
            "image compression auto_glz, JPEG never, zlib over GLZ always, streaming off; the \
                rest as xspice's"
        } else {
            "defaults (image compression auto_glz, streaming filter), no ticket and no \
                encryption; surface, \
                        command and frame buffers of explicit size; spicy --full-screen without \
                        sound and USB, which \
                        needs a window manager on the client (openbox, counted there)"
        };
        let name = if self.lossless { "Xspice lossless" } else { "Xspice" };
        programs::record(name, &needed, settings)
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let display = DisplayNumber::reserve()?;
        let mut server = serve(site, &display, self.lossless)?;
        listening::wait(site, "Xspice", &mut server, PORT)?;
        let window_manager = manage(site)?;
        let mut viewer = programs::command(site, Group::Client, VIEWER)?;
        viewer
            .env("DISPLAY", site.screen.display())
            .args(["--full-screen", "--spice-disable-audio"]);
        viewer
            .env("DBUS_SESSION_BUS_ADDRESS", "disabled:")
            .env("GSETTINGS_BACKEND", "memory")
            .env("NO_AT_BRIDGE", "1");
        viewer.args([
            "--spice-disable-usbredir",
            "-h",
            &site.bed.address(Side::Server).to_string(),
        ]);
        let viewer = programs::start(site, VIEWER, viewer.args(["-p", &PORT.to_string()]))?;

        let mut desk = Desk {
            display: display.name(),
            held: vec![viewer, window_manager, server],
            displays: vec![display],
            ..Desk::default()
        };
        programs::wait_until_shown(site, &mut desk, SHOWN_MAX)?;
        Ok(desk)
    }
}

/// Starts the Xorg; returns once it accepts connections.
fn serve(site: &Site, display: &DisplayNumber, lossless: bool) -> Result<Running, Error> {
    let config = site.folder.path().join("xspice.conf");
    let more = if lossless { EXACT } else { "" };
    fs::write(
        &config,
        configuration(&site.bed.address(Side::Server).to_string(), site.size, more),
    )?;
    let mut server = programs::command(site, Group::Server, XORG)?;
    server.arg(display.name()).arg("-config").arg(&config);
    server.arg("-logfile").arg(site.folder.path().join("xspice-xorg.log"));
    server.args(["-noreset", "-ac", "-nolisten", "tcp", "-novtswitch", "-sharevts"]);
    // The driver prints every command that it polls for: a log would grow without bound, and a pipe
    // would fill. So the display number is not read from there; the option makes the server ignore
    // our lock.
    server.args(["-displayfd", "1"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut server = Running::start("Xspice", &mut server)?;
    let ready = wait_for("Xspice takes X connections", X_START_MAX, || {
        if let Err(error) = server.check() {
            return Some(Err(error));
        }
        observe::connect(&display.name(), None).is_ok().then_some(Ok(()))
    });
    ready.and_then(|end| end).map_err(|error| programs::failure(site, &error.to_string()))?;
    Ok(server)
}

/// A window manager on the client's screen: GTK requests fullscreen from it, and waits forever if
/// there is none.
fn manage(site: &Site) -> Result<Running, Error> {
    let config = site.folder.path().join("client-openbox.xml");
    fs::write(&config, NO_BINDINGS)?;
    let mut command = programs::command(site, Group::Client, WINDOW_MANAGER)?;
    command.env("DISPLAY", site.screen.display()).arg("--config-file").arg(&config);
    let mut openbox = programs::start(site, "client-openbox", &mut command)?;
    let x = site.screen.connect()?;
    let root = x.setup().roots.first().ok_or("the client's X server has no screen")?.root;
    let name = x.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK")?.reply()?.atom;
    let ready = wait_for("openbox manages the client's screen", X_START_MAX, || {
        if let Err(error) = openbox.check() {
            return Some(Err(error));
        }
        let reply = x.get_property(false, root, name, x11rb::NONE, 0, 1).ok()?.reply().ok()?;
        (reply.value_len == 1).then_some(Ok(()))
    });
    ready.and_then(|end| end).map_err(|error| programs::failure(site, &error.to_string()))?;
    Ok(openbox)
}

/// The Xorg's configuration: the driver, its keyboard and pointer, no devices of the machine, and a
/// mode of the wanted size. `more` are options of the driver.
fn configuration(address: &str, (width, height): (u32, u32), more: &str) -> String {
    let picture = (width * height * 4).div_ceil(1 << 20).max(PICTURE_MIB);
    let commands = (picture * COMMANDS_PER_PICTURE).max(BUFFER_MIB);
    // Any clock will do, there is no monitor: this one is 60 Hz.
    let [across, down] = [width + 24, height + 9];
    let clock = f64::from(across) * f64::from(down) * 60.0 / 1e6;
    let mode = format!(
        "Modeline \"{width}x{height}\" {clock:.2} {width} {} {} {across} {height} {} {} {down}",
        width + 8,
        width + 16,
        height + 3,
        height + 6
    );
    format!(
        r#"Section "ServerFlags"
 Option "AutoAddDevices" "False"
 Option "DontVTSwitch" "True"
EndSection
Section "Device"
 Identifier "device"
 Driver "spiceqxl"
 Option "SpiceAddr" "{address}"
 Option "SpicePort" "{PORT}"
 Option "SpiceDisableTicketing" "True"
 Option "NumHeads" "1"
 Option "SurfaceBufferSize" "{BUFFER_MIB}"
 Option "CommandBufferSize" "{commands}"
 Option "FrameBufferSize" "{picture}"
{more}EndSection
Section "InputDevice"
 Identifier "pointer"
 Driver "xspice pointer"
EndSection
Section "InputDevice"
 Identifier "keyboard"
 Driver "xspice keyboard"
EndSection
Section "Monitor"
 Identifier "monitor"
 HorizSync 1-1000
 VertRefresh 1-1000
 {mode}
EndSection
Section "Screen"
 Identifier "screen"
 Monitor "monitor"
 Device "device"
 DefaultDepth 24
 SubSection "Display"
  Depth 24
  Modes "{width}x{height}"
 EndSubSection
EndSection
Section "ServerLayout"
 Identifier "layout"
 Screen "screen"
 InputDevice "keyboard"
 InputDevice "pointer"
EndSection
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_with_the_screen() {
        let small = configuration("10.0.0.1", (1024, 768), "");
        assert!(
            small.contains("\"FrameBufferSize\" \"16\"")
                && small.contains("\"CommandBufferSize\" \"128\""),
            "{small}"
        );
        let large = configuration("10.0.0.1", (3840, 2160), EXACT);
        assert!(
            large.contains("\"FrameBufferSize\" \"32\"")
                && large.contains("\"CommandBufferSize\" \"256\""),
            "{large}"
        );
        assert!(large.contains("Modes \"3840x2160\""), "{large}");
        let exact = "\"SpiceJpegWanCompression\" \"never\"";
        assert!(large.contains(exact) && !small.contains(exact), "{large}");
    }
}
