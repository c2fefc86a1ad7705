//! Keyboard and mouse of the client's user, through XTEST on the client's own X server.
//! From names of keys to key codes by the server's own keyboard mapping; says when it was done.
//! Knows keys and buttons; never who takes them.

use std::time::Instant;

use x11rb::rust_connection::RustConnection;

use super::screen::ClientScreen;
use crate::Error;

/// Hands on one X display.
pub struct Input {
    x: RustConnection,
    root: u32,
}

impl Input {
    /// Hands on the client's screen.
    pub fn new(screen: &ClientScreen) -> Result<Input, Error> {
        Input::on(screen.display(), None)
    }

    /// Hands on any display.
    pub fn on(display: &str, xauthority: Option<&std::path::Path>) -> Result<Input, Error> {
        let (x, screen) = super::connect_screen(display, xauthority)?;
        let root = x11rb::connection::Connection::setup(&x).roots[screen].root;
        Ok(Input { x, root })
    }

    /// Presses and lets go one key: a character ("a", "A", "%"), a name ("Return", "Next", "Control_L", "F5"), or
    /// several held at once ("Control_L+Shift_L+t"). Returns the time just before the press was sent.
    pub fn key(&self, name: &str) -> Result<Instant, Error> {
        let _ = (name, &self.x, self.root);
        Err("not yet".into())
    }

    /// Presses one key.
    pub fn key_down(&self, name: &str) -> Result<Instant, Error> {
        self.key(name)
    }

    /// Lets one key go.
    pub fn key_up(&self, name: &str) -> Result<Instant, Error> {
        self.key(name)
    }

    /// Types a text, a key after another without a pause.
    pub fn text(&self, text: &str) -> Result<Instant, Error> {
        self.key(text)
    }

    /// Moves the pointer.
    pub fn move_to(&self, x: i32, y: i32) -> Result<Instant, Error> {
        let _ = (x, y);
        Err("not yet".into())
    }

    /// Presses and lets go a button: 1 left, 2 middle, 3 right.
    pub fn click(&self, button: u8) -> Result<Instant, Error> {
        let _ = button;
        Err("not yet".into())
    }

    /// Presses a button.
    pub fn button_down(&self, button: u8) -> Result<Instant, Error> {
        self.click(button)
    }

    /// Lets a button go.
    pub fn button_up(&self, button: u8) -> Result<Instant, Error> {
        self.click(button)
    }

    /// Turns the wheel, down where `lines` is positive.
    pub fn scroll(&self, lines: i32) -> Result<Instant, Error> {
        let _ = lines;
        Err("not yet".into())
    }

    /// Gives the keyboard to the largest window and puts the pointer into its middle; nothing where no window is shown.
    pub fn focus_viewer(&self) -> Result<Option<u32>, Error> {
        Err("not yet".into())
    }
}
