//! Path back, beside keyboard.rs: the viewer's own shortcuts, which the session does not get.
//! From keys of SDL, to the commands of the window and of its menu. Knows keys; never what a command
//! does.

use sdl3::keyboard::{Keycode, Mod};

use super::zoom::Step;

/// A shortcut's command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Fullscreen,
    Statistics,
    LossyAreas,
    Grab,
    ModifiedButtons,
    Menu,
    /// The menu's page of who is there.
    People,
    Quit,
    Retry,
    /// The next choice of what is copied between this desktop and the session.
    Copying,
    /// Lets an application have the pointer, or takes it back.
    Capture,
    Zoom(Step),
    /// By this many quarters of the visible part.
    Pan(i32, i32),
}

/// Ctrl+Alt+Enter, which no desktop uses.
pub(super) fn closes_announcement(keycode: Option<Keycode>, keymod: Mod) -> bool {
    keymod.intersects(Mod::LCTRLMOD | Mod::RCTRLMOD)
        && keymod.intersects(Mod::LALTMOD | Mod::RALTMOD)
        && matches!(keycode, Some(Keycode::Return | Keycode::KpEnter))
}

/// The command of a shortcut. If `zoomed`, arrows pan; otherwise the session gets them.
pub(super) fn shortcut(keycode: Option<Keycode>, keymod: Mod, zoomed: bool) -> Option<Command> {
    let with = |either: Mod| keymod.intersects(either);
    if !with(Mod::LCTRLMOD | Mod::RCTRLMOD) || !with(Mod::LALTMOD | Mod::RALTMOD) {
        return None;
    }
    Some(match keycode? {
        Keycode::F => Command::Fullscreen,
        Keycode::S => Command::Statistics,
        Keycode::E => Command::LossyAreas,
        Keycode::G => Command::Grab,
        Keycode::B => Command::ModifiedButtons,
        Keycode::M => Command::Menu,
        Keycode::U => Command::People,
        Keycode::Q => Command::Quit,
        Keycode::R => Command::Retry,
        Keycode::P => Command::Capture,
        Keycode::Plus | Keycode::Equals | Keycode::KpPlus => Command::Zoom(Step::In),
        Keycode::Minus | Keycode::KpMinus => Command::Zoom(Step::Out),
        Keycode::_0 | Keycode::Kp0 => Command::Zoom(Step::Reset),
        Keycode::Left if zoomed => Command::Pan(-1, 0),
        Keycode::Right if zoomed => Command::Pan(1, 0),
        Keycode::Up if zoomed => Command::Pan(0, -1),
        Keycode::Down if zoomed => Command::Pan(0, 1),
        _ => return None,
    })
}
