//! The systems under test. Each adapter names the programs that it needs and their versions, starts
//! its server for a screen of a given size, and shows its viewer on the client's own screen; the
//! programs are not modified. Knows programs and their options; never what is measured.

pub(crate) mod accounts;
pub(crate) mod broker;
pub mod kasmvnc;
mod kiosk;
mod listening;
pub mod local;
pub mod nxagent;
mod programs;
pub(crate) mod rfb;
mod sshd;
pub mod thinc;
pub mod tigervnc;
pub mod turbovnc;
pub mod virtualgl;
pub mod x11;
pub mod xpra;
pub mod xrdp;
pub mod xspice;

use std::path::PathBuf;

pub(crate) use programs::{failure, runtime_folder};

use crate::Error;
use crate::display::DisplayNumber;
use crate::observe::screen::Listen;
use crate::process::Running;
use crate::results::PeerRecord;
use crate::stage::Site;

/// Shell functions of the scripts that run servers in namespaces of their own.
const PRIVATE: &str = include_str!("private.sh");

/// One system that shows a server's desktop on a client.
pub trait Peer: Send + Sync {
    /// Its name on the command line and in results: "tigervnc".
    fn name(&self) -> &'static str;

    /// Its programs and their versions; `missing` says what to install.
    fn record(&self) -> PeerRecord;

    /// Whether the client's own X server also listens on TCP: only plain X needs that.
    fn listen(&self) -> Listen {
        Listen::Unix
    }

    /// Why no sound of the session is heard at the viewer; by default because the system has none.
    fn sound(&self) -> Result<(), String> {
        Err(format!("{} carries no sound", self.name()))
    }

    /// Starts server and viewer; returns when the viewer shows the empty desktop on the client's
    /// screen, or with the end of the log of the program that failed.
    fn start(&self, site: &Site) -> Result<Desk, Error>;
}

/// A running desktop: the display for applications, and the processes that end with it.
#[derive(Default)]
pub struct Desk {
    /// The X display that applications draw on, as in DISPLAY: ":7", or "10.77.0.2:7" for plain X.
    pub display: String,
    /// The cookie file of the display, if it needs one.
    pub xauthority: Option<PathBuf>,
    /// Other environment variables for applications.
    pub env: Vec<(String, String)>,
    /// Viewer, server and other processes: ended in this order.
    pub held: Vec<Running>,
    /// Display numbers of its X servers, free again when these have ended.
    pub displays: Vec<DisplayNumber>,
    /// The process that buffers pending updates for viewers, if the adapter knows it.
    pub session: Option<u32>,
    /// The X server, where that is another process.
    pub x_server: Option<u32>,
    /// Words before the command of an OpenGL program: "vglrun".
    pub gl_words: Vec<String>,
    /// The session's sound server, if the adapter knows it.
    pub sound: Option<u32>,
}

/// Every peer that thinc-bench knows, in the order of reports.
pub fn all() -> Vec<Box<dyn Peer>> {
    use thinc::{Setting, Viewer};
    vec![
        Box::new(local::Local),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Default }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Fifo }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::OffscreenOn }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::OffscreenOff }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Lossless }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Exact }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::High }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Medium }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Low }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Quic }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::Tcp }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::QuicPlain }),
        Box::new(thinc::Thinc { viewer: Viewer::Native, setting: Setting::TcpPlain }),
        Box::new(thinc::Thinc { viewer: Viewer::Ssh, setting: Setting::Tunnel }),
        Box::new(thinc::Thinc { viewer: Viewer::Ssh, setting: Setting::Quic }),
        Box::new(thinc::Thinc { viewer: Viewer::Browser, setting: Setting::Default }),
        Box::new(thinc::Thinc { viewer: Viewer::Browser, setting: Setting::Quic }),
        Box::new(thinc::Thinc { viewer: Viewer::Browser, setting: Setting::Tcp }),
        Box::new(thinc::Thinc { viewer: Viewer::Firefox, setting: Setting::Default }),
        Box::new(tigervnc::TigerVnc { lossless: false }),
        Box::new(tigervnc::TigerVnc { lossless: true }),
        Box::new(xpra::Xpra),
        Box::new(xrdp::Xrdp { remotefx: false }),
        Box::new(xrdp::Xrdp { remotefx: true }),
        Box::new(xspice::Xspice { lossless: false }),
        Box::new(xspice::Xspice { lossless: true }),
        Box::new(nxagent::NxAgent),
        Box::new(turbovnc::TurboVnc),
        Box::new(virtualgl::VirtualGl {
            under: Box::new(tigervnc::TigerVnc { lossless: false }),
            name: "tigervnc-vgl",
        }),
        Box::new(virtualgl::VirtualGl {
            under: Box::new(turbovnc::TurboVnc),
            name: "turbovnc-vgl",
        }),
        Box::new(kasmvnc::KasmVnc),
        Box::new(x11::X11),
    ]
}
