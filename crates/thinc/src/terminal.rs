//! Words for the person at the terminal, who may have gone: a terminal that hung up must not end a session.
//! From every subcommand, to standard output and standard error.
//! Knows texts; a write that fails is nobody's concern.

use std::io::Write as _;

/// To standard output, with a line break.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// To standard error, with a line break.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
