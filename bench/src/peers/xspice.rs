//! Xspice, an Xorg with a driver that is a SPICE server too, seen with spicy, the client that comes with spice-gtk.
//! Its own configuration file, as the package's has no size and lets the server crash: all three of its buffers must be
//! given their sizes. Knows options of both; never what they send.

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
/// What the package's own notes give as defaults, MiB; the picture lies at the front of the commands' buffer.
const BUFFER_MIB: u32 = 128;
const PICTURE_MIB: u32 = 16;
/// The driver's notes: the commands' buffer should be seven times the picture, which is one of them.
const COMMANDS_PER_PICTURE: u32 = 8;
const X_START_MAX: Duration = Duration::from_secs(20);
const SHOWN_MAX: Duration = Duration::from_secs(40);
/// No keys and no buttons: everything goes to the viewer.
const NO_BINDINGS: &str = "<openbox_config xmlns=\"http://openbox.org/3.4/rc\"><focus><focusNew>yes</focusNew></focus><desktops><number>1</number><popupTime>0</popupTime></desktops>\
                           <keyboard/><mouse/></openbox_config>\n";

/// What makes it exact, at its best compression: no JPEG, which it uses where it takes the client's link for slow, and no video.
const EXACT: &str = " Option \"SpiceImageCompression\" \"auto_glz\"\n Option \"SpiceJpegWanCompression\" \"never\"\n \
                     Option \"SpiceZlibGlzWanCompression\" \"always\"\n Option \"SpiceStreamingVideo\" \"off\"\n";

/// Xspice and spicy.
pub struct Xspice {
    /// Whether everything is to be exact.
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
            "image compression auto_glz, JPEG never, zlib over GLZ always, streaming off; the rest as xspice's"
        } else {
            "defaults (image compression auto_glz, streaming filter), no ticket and no encryption; surface, \
                        command and frame buffers of explicit size; spicy --full-screen without sound and USB, which \
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
        viewer.env("DISPLAY", site.screen.display()).args(["--full-screen", "--spice-disable-audio"]);
        viewer.env("DBUS_SESSION_BUS_ADDRESS", "disabled:").env("GSETTINGS_BACKEND", "memory").env("NO_AT_BRIDGE", "1");
        viewer.args(["--spice-disable-usbredir", "-h", &site.bed.address(Side::Server).to_string()]);
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

/// The Xorg, when it takes connections.
fn serve(site: &Site, display: &DisplayNumber, lossless: bool) -> Result<Running, Error> {
    let config = site.folder.path().join("xspice.conf");
    let more = if lossless { EXACT } else { "" };
    fs::write(&config, configuration(&site.bed.address(Side::Server).to_string(), site.size, more))?;
    let mut server = programs::command(site, Group::Server, XORG)?;
    server.arg(display.name()).arg("-config").arg(&config);
    server.arg("-logfile").arg(site.folder.path().join("xspice-xorg.log"));
    server.args(["-noreset", "-ac", "-nolisten", "tcp", "-novtswitch", "-sharevts"]);
    // The driver says every command that it looks for on its output: a log would grow without end, and a pipe would fill.
    // So the display is not read from there; the option keeps the server from minding our lock.
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

/// A window manager on the client's screen: GTK asks one for the whole screen, and waits for ever where there is none.
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

/// For the Xorg: the driver, its keyboard and its pointer, nothing of the machine's, and a mode of the wanted size.
/// `more` are options of the driver.
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
        "Section \"ServerFlags\"\n Option \"AutoAddDevices\" \"False\"\n Option \"DontVTSwitch\" \"True\"\nEndSection\n\
         Section \"Device\"\n Identifier \"device\"\n Driver \"spiceqxl\"\n Option \"SpiceAddr\" \"{address}\"\n \
         Option \"SpicePort\" \"{PORT}\"\n Option \"SpiceDisableTicketing\" \"True\"\n Option \"NumHeads\" \"1\"\n \
         Option \"SurfaceBufferSize\" \"{BUFFER_MIB}\"\n Option \"CommandBufferSize\" \"{commands}\"\n \
         Option \"FrameBufferSize\" \"{picture}\"\n{more}EndSection\n\
         Section \"InputDevice\"\n Identifier \"pointer\"\n Driver \"xspice pointer\"\nEndSection\n\
         Section \"InputDevice\"\n Identifier \"keyboard\"\n Driver \"xspice keyboard\"\nEndSection\n\
         Section \"Monitor\"\n Identifier \"monitor\"\n HorizSync 1-1000\n VertRefresh 1-1000\n {mode}\nEndSection\n\
         Section \"Screen\"\n Identifier \"screen\"\n Monitor \"monitor\"\n Device \"device\"\n DefaultDepth 24\n \
         SubSection \"Display\"\n  Depth 24\n  Modes \"{width}x{height}\"\n EndSubSection\nEndSection\n\
         Section \"ServerLayout\"\n Identifier \"layout\"\n Screen \"screen\"\n InputDevice \"keyboard\"\n \
         InputDevice \"pointer\"\nEndSection\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_with_the_screen() {
        let small = configuration("10.0.0.1", (1024, 768), "");
        assert!(
            small.contains("\"FrameBufferSize\" \"16\"") && small.contains("\"CommandBufferSize\" \"128\""),
            "{small}"
        );
        let large = configuration("10.0.0.1", (3840, 2160), EXACT);
        assert!(
            large.contains("\"FrameBufferSize\" \"32\"") && large.contains("\"CommandBufferSize\" \"256\""),
            "{large}"
        );
        assert!(large.contains("Modes \"3840x2160\""), "{large}");
        let exact = "\"SpiceJpegWanCompression\" \"never\"";
        assert!(large.contains(exact) && !small.contains(exact), "{large}");
    }
}
