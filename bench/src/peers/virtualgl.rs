//! Another peer with VirtualGL: its server and viewer unchanged, its OpenGL programs started by
//! `vglrun`, which renders off screen and puts whole frames (the study's way). With the EGL back
//! end, which works on software rendering too. Knows `vglrun`; never which peer it stands before.

use super::programs::{self, Needed};
use super::{Desk, Peer};
use crate::Error;
use crate::observe::screen::Listen;
use crate::results::PeerRecord;
use crate::stage::Site;

/// Where VirtualGL's own package has it; it puts nothing into PATH.
const PROGRAM: &str = "/opt/VirtualGL/bin/vglrun";
/// The first EGL device, whether that is a graphics processor or software.
const OPTIONS: [&str; 2] = ["-d", "egl"];

/// A peer whose OpenGL programs run under VirtualGL.
pub struct VirtualGl {
    /// The peer without it.
    pub under: Box<dyn Peer>,
    /// The name of both together.
    pub name: &'static str,
}

/// `vglrun` as a word of a command line.
fn program() -> String {
    programs::find("vglrun").map_or(PROGRAM.to_owned(), |path| path.to_string_lossy().into_owned())
}

impl Peer for VirtualGl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn record(&self) -> PeerRecord {
        let own = self.under.record();
        let title = format!("{} with VirtualGL", own.title);
        if own.missing.is_some() {
            return PeerRecord { title, ..own };
        }
        let found = if programs::find("vglrun").is_some() { "vglrun" } else { PROGRAM };
        let install = "the package virtualgl of https://virtualgl.org";
        let needed = [Needed { program: found, install }];
        let settings = format!("{}; OpenGL programs by vglrun {}", own.settings, OPTIONS.join(" "));
        let with = programs::record(&title, &needed, &settings);
        match with.missing {
            Some(_) => with,
            None => PeerRecord { version: format!("{}, {}", own.version, with.version), ..with },
        }
    }

    fn listen(&self) -> Listen {
        self.under.listen()
    }

    fn start(&self, site: &Site) -> Result<Desk, Error> {
        let mut desk = self.under.start(site)?;
        desk.gl_words = std::iter::once(program()).chain(OPTIONS.map(String::from)).collect();
        Ok(desk)
    }
}
