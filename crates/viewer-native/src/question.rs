//! Beside the path: questions that a person answers on the terminal.
//! From install.rs and client/connection.rs. Knows the terminal; never what is asked about.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, QueueSelector, tcflush, tcgetattr, tcsetattr};

/// 3: unclear answers to a question count as no.
const QUESTIONS_MAX: usize = 3;

/// Whether somebody can answer; standard input may hold a script.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal; the answer is not taken from a script that standard input may hold.
pub(crate) fn ask(question: &str) -> bool {
    let Ok(mut terminal) = File::open("/dev/tty") else { return false };
    for _ in 0..QUESTIONS_MAX {
        // What was typed before the question is no answer to it.
        let _ = tcflush(&terminal, QueueSelector::IFlush);
        let _ = write!(io::stderr(), "{question} [y/N] ");
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() < 100 && matches!(terminal.read(&mut byte), Ok(1)) {
            if byte == *b"\n" {
                match is_yes(&String::from_utf8_lossy(&line)) {
                    Some(answer) => return answer,
                    None => break,
                }
            }
            line.push(byte[0]);
        }
        // The end of the terminal's input.
        if byte != *b"\n" {
            let _ = writeln!(io::stderr());
            return false;
        }
    }
    false
}

/// Whether what is typed is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// As usual.
    On,
    /// Not: it is a password.
    Off,
}

/// 511: longest answer in bytes, as PAM limits it.
const ANSWER_BYTES_MAX: usize = 511;

/// The line that the person types, without its end; `None` at the end of the terminal's input, or
/// if the line is too long.
pub(crate) fn read_line(question: &str, echo: Echo) -> Option<String> {
    let mut terminal = File::open("/dev/tty").ok()?;
    let usual = tcgetattr(&terminal).ok()?;
    if echo == Echo::Off {
        let mut hidden = usual.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        // What was typed before the question was shown on the screen.
        tcsetattr(&terminal, OptionalActions::Flush, &hidden).ok()?;
    }
    let _ = write!(io::stderr(), "{question}");
    let mut line = Vec::new();
    let mut byte = [0];
    let is_whole = loop {
        match terminal.read(&mut byte) {
            Ok(1) if byte == *b"\n" => break true,
            Ok(1) if line.len() < ANSWER_BYTES_MAX => line.push(byte[0]),
            _ => break false,
        }
    };
    if echo == Echo::Off {
        let _ = tcsetattr(&terminal, OptionalActions::Now, &usual);
        let _ = writeln!(io::stderr());
    }
    String::from_utf8(line).ok().filter(|_| is_whole)
}

/// `None`: unclear.
fn is_yes(answer: &str) -> Option<bool> {
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "" | "n" | "no" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_is_one() {
        assert_eq!(
            (is_yes(""), is_yes(" Y "), is_yes("no")),
            (Some(false), Some(true), Some(false))
        );
        assert_eq!(is_yes("what"), None);
    }
}
