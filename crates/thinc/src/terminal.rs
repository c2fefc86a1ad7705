//! Output to the user's terminal, which may be closed: a terminal that hung up must not end a
//! session. From every subcommand, to standard output and standard error. Knows texts; ignores
//! failed writes.

use std::io::Write as _;

use thinc_protocol::wire::printable;

/// Writes to standard output, with a line break.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", printable(text)).and_then(|()| out.flush());
}

/// Writes to standard error, with a line break.
pub(crate) fn print_error(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
}

/// Ends the program with clap's message, which may quote an argument that came from elsewhere.
pub(crate) fn exit_with(error: &clap::Error) -> ! {
    let text = error.render().to_string();
    match printable(&text) {
        std::borrow::Cow::Borrowed(_) => error.exit(),
        std::borrow::Cow::Owned(text) => {
            let _ = write!(std::io::stderr().lock(), "{text}");
            std::process::exit(error.exit_code())
        }
    }
}
