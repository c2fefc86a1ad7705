//! Path back, beside keyboard.rs: keys that the window itself acts on, and what they do.
//! From SDL's key events, to mod.rs. Knows keys and names of commands; never what they change.

use sdl3::keyboard::{Keycode, Mod};

use super::zoom::Step;

/// Keys that only change what others mean.
pub(super) fn is_modifier(keycode: Keycode) -> bool {
    use Keycode as K;
    matches!(
        keycode,
        K::LCtrl
            | K::RCtrl
            | K::LAlt
            | K::RAlt
            | K::LShift
            | K::RShift
            | K::LGui
            | K::RGui
            | K::Mode
    )
}

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
    /// The session's sound.
    Mute,
    /// Louder by so many steps.
    Volume(i8),
    /// Turns the microphone off at once, or on again.
    Microphone,
    /// The next choice of what is copied between this desktop and the session.
    Copying,
    /// The next quality of pictures that move.
    Quality,
    /// What is shown now, lossless.
    ExactFrame,
    /// The next way to show stereo programs.
    Stereo,
    /// Something about files.
    Files(FilesCommand),
    /// Lets an application have the pointer, or takes it back.
    Capture,
    Zoom(Step),
    /// By this many quarters of the visible part.
    Pan(i32, i32),
}

/// A command about files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilesCommand {
    /// Those that the session sends are received.
    Take,
    /// They are refused, or transfers are cancelled.
    Stop,
    /// How far transfers are.
    Show,
}

/// The answer to a question about files or the microphone, which nobody types by chance: Ctrl+Alt+Y
/// is yes, Ctrl+Alt+X no. Without a question the session gets these keys.
pub(super) fn answers_question(keycode: Option<Keycode>, keymod: Mod) -> Option<FilesCommand> {
    if !keymod.intersects(Mod::LCTRLMOD | Mod::RCTRLMOD)
        || !keymod.intersects(Mod::LALTMOD | Mod::RALTMOD)
    {
        return None;
    }
    match keycode? {
        Keycode::Y => Some(FilesCommand::Take),
        Keycode::X => Some(FilesCommand::Stop),
        _ => None,
    }
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
        Keycode::H => Command::Quality,
        Keycode::A => Command::ExactFrame,
        Keycode::W => Command::Stereo,
        Keycode::G => Command::Grab,
        Keycode::B => Command::ModifiedButtons,
        Keycode::M => Command::Menu,
        Keycode::U => Command::People,
        Keycode::Q => Command::Quit,
        Keycode::R => Command::Retry,
        Keycode::P => Command::Capture,
        Keycode::V => Command::Mute,
        Keycode::K => Command::Microphone,
        Keycode::Comma => Command::Volume(-1),
        Keycode::Period => Command::Volume(1),
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
