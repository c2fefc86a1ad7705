//! Beside the path: what SDL is told before it starts. Knows SDL's names; decides nothing else.

use super::sound;

/// Sets what SDL reads before it starts.
pub(super) fn set_hints() {
    for (hint, value) in [
        // Without a GPU, pixels are passed through shared memory, not through software OpenGL.
        ("SDL_FRAMEBUFFER_ACCELERATION", "0"),
        // No emulation of mouse events by touch, or the other way round.
        ("SDL_TOUCH_MOUSE_EVENTS", "0"),
        ("SDL_MOUSE_TOUCH_EVENTS", "0"),
        // A pen is no finger. It is a mouse for menus, and for sessions that take no pens.
        ("SDL_PEN_TOUCH_EVENTS", "0"),
        // The session also gets the click that focuses the window.
        ("SDL_MOUSE_FOCUS_CLICKTHROUGH", "1"),
        // Fullscreen remains when another monitor gets the focus, and the session gets Alt+Tab
        // while the keyboard is grabbed.
        ("SDL_VIDEO_MINIMIZE_ON_FOCUS_LOSS", "0"),
        ("SDL_ALLOW_ALT_TAB_WHILE_GRABBED", "0"),
        ("SDL_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR", "0"),
        // A captured pointer is as fast as one that is not.
        ("SDL_MOUSE_RELATIVE_SYSTEM_SCALE", "1"),
        ("SDL_APP_ID", "thinc-view"),
    ]
    .into_iter()
    .chain(sound::HINTS)
    {
        sdl3::hint::set(hint, value);
    }
}
