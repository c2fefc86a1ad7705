//! Beside the path: a password that a person types on the terminal, for invitations.
//! From `thinc share` and thinc-view, to token or connection. Knows the terminal; never what the
//! password is for, and keeps no copy.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios};
use rustix::termios::{tcflush, tcgetattr, tcsetattr};
use thinc_protocol::limits::PASSWORD_BYTES_MAX;

/// Ctrl-C and Ctrl-D as bytes.
const INTERRUPT: u8 = 3;
const END: u8 = 4;

/// The terminal without echo; as it was once this is dropped.
struct Quiet<'a> {
    terminal: &'a File,
    before: Termios,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Asks for a password on the terminal, without showing it. If standard input is no terminal, its
/// first line is the password: a script gives it.
///
/// # Errors
/// There is neither, the person has cancelled, or it is empty or too long.
pub fn read(prompt: &str) -> io::Result<String> {
    let password = if io::stdin().is_terminal() {
        ask(prompt)?
    } else {
        let mut line = String::new();
        io::stdin().lock().take(PASSWORD_BYTES_MAX as u64 + 2).read_line(&mut line)?;
        line.trim_end_matches(['\n', '\r']).to_owned()
    };
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        let words = format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    Ok(password)
}

fn ask(prompt: &str) -> io::Result<String> {
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    write!(terminal, "{prompt}: ")?;
    let before = tcgetattr(&terminal)?;
    let mut quiet = before.clone();
    // Without signals Ctrl-C is a byte, so that echo is on again before the program ends.
    quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG | LocalModes::ICANON);
    // What was typed before the question is no answer to it.
    let _ = tcflush(&terminal, QueueSelector::IFlush);
    tcsetattr(&terminal, OptionalActions::Now, &quiet)?;
    let line = {
        let _quiet = Quiet { terminal: &terminal, before };
        read_line(&terminal)
    };
    writeln!(terminal)?;
    String::from_utf8(line?).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn read_line(mut terminal: &File) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() <= PASSWORD_BYTES_MAX && terminal.read(&mut byte)? == 1 {
        match byte[0] {
            b'\n' | b'\r' => return Ok(line),
            INTERRUPT | END => return Err(io::ErrorKind::Interrupted.into()),
            0x08 | 0x7f => {
                // A whole character of UTF-8.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    Ok(line)
}
