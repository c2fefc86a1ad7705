//! Beside the path: replaces gpu.rs in builds without the feature "gpu", for present.rs, which gets
//! the reason. Knows nothing else.

use sdl3::VideoSubsystem;
use sdl3::video::Window;
use thinc_region::Region;
use thinc_viewer_core::Viewer;

use crate::compose::Scene;

/// Cannot be constructed.
pub(super) enum Gpu {}

/// Which renderers are acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renderers {
    /// Only a GPU.
    Hardware,
    /// Also a software renderer.
    Any,
}

/// Windows need no OpenGL attributes.
pub(super) fn ask(_: &VideoSubsystem) {}

/// Nor a buffer for each eye.
pub(super) fn ask_stereo(_: &VideoSubsystem, _: bool) {}

impl Gpu {
    pub(super) fn new(_: &VideoSubsystem, _: &Window, _: Renderers) -> Result<Gpu, String> {
        Err("built without the feature \"gpu\"".to_owned())
    }

    pub(super) fn has_stereo(&self) -> bool {
        match *self {}
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
