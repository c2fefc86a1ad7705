//! Beside the path, in place of gpu.rs where the program is built without the feature "gpu": a graphics processor that there never is.
//! From present.rs, which asks, and back with the reason why not. Knows nothing else.

use sdl3::VideoSubsystem;
use sdl3::video::Window;
use thinc_region::Region;
use thinc_viewer_core::Viewer;

use crate::compose::Scene;

/// None can be made.
pub(super) enum Gpu {}

/// Which processors would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    /// A graphics processor.
    Real,
    /// Also one that this program's processor plays.
    Any,
}

/// Windows need nothing of the kind.
pub(super) fn ask(_: &VideoSubsystem) {}

impl Gpu {
    pub(super) fn new(_: &VideoSubsystem, _: &Window, _: Processor) -> Result<Gpu, String> {
        Err("this program was built without it (feature \"gpu\")".to_owned())
    }

    pub(super) fn handle_damage(&mut self, _: &Region) {
        match *self {}
    }

    pub(super) fn draw(&mut self, _: &Window, _: &Viewer, _: &Scene<'_>) -> Result<(), String> {
        match *self {}
    }

    pub(super) fn show(&self, _: &Window) -> Result<(), String> {
        match *self {}
    }
}
