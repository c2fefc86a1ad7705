//! Question: how do OpenGL programs look and what do they cost on every system, as the VirtualGL
//! study measured it? Peers with and without VirtualGL in one run. Claims are those of the workload
//! 3d-gl. Knows which workloads; never how one is measured.

use clap::Args;

use super::Question;
use crate::Error;
use crate::run::choose;
use crate::workloads::Workload;
use crate::workloads::gl::{Gl, programs, users};
use crate::workloads::threed;

/// Options of `3d`.
#[derive(Args)]
pub struct ThreeD {
    /// What is measured: `3d-gl` (scenes, free, held and by motions), `3d-users` (several at once),
    /// `3d-programs` (GLXSpheres, vkcube and Blender, where installed), `3d` (the same frames
    /// without OpenGL).
    #[arg(long, value_delimiter = ',', default_value = "3d-gl,3d-users,3d-programs")]
    what: Vec<String>,
}

impl Question for ThreeD {
    const NAME: &'static str = "3d";
    const PEERS: &'static str = "local,thinc,tigervnc,tigervnc-vgl,turbovnc,turbovnc-vgl";
    const LINKS: &'static [&'static str] = &["lan"];
    /// The study's: the program covers the proxy's whole screen.
    const SIZE: &'static str = "1240x900";

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        let all: Vec<Box<dyn Workload>> = vec![
            Box::new(Gl),
            Box::new(users::Users),
            Box::new(programs::Programs),
            Box::new(threed::ThreeD),
        ];
        choose("workload", all, &self.what, |workload| workload.name())
    }
}
