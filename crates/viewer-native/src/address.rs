//! Where the session's address comes from: standard input, a file, the environment or the command
//! line. From cli.rs, to target.rs, which parses it. Every user of a computer can read the
//! arguments of all processes, and a link's token opens the session once, to the first who uses it:
//! a token does not stay in the arguments. Never opens a connection.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use crate::error::ViewError;
use crate::target::Target;

/// Holds the address if the command line names none. Other users cannot read it.
const VARIABLE: &str = "THINC_LINK";
/// The address on the command line that means standard input.
const STANDARD_INPUT: &str = "-";
/// Longest line or file that is read, in bytes; a longer one is not an address.
const BYTES_MAX: u64 = 4096;

/// The address: the argument, the first line of this file, or the variable; the argument "-" is the
/// first line of standard input, of which the rest is left to its other readers.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn read(argument: Option<&str>, file: Option<&Path>) -> Result<String, ViewError> {
    let from_file = |path: &Path, error| ViewError::File { path: path.to_owned(), error };
    if let Some(path) = file {
        let opened = std::fs::File::open(path).map_err(|error| from_file(path, error))?;
        let line = first_line(std::io::BufReader::new(opened));
        return named(line.map_err(|error| from_file(path, error))?, &path.display().to_string());
    }
    match argument {
        Some(STANDARD_INPUT) => {
            let line = first_line(std::io::stdin().lock());
            named(
                line.map_err(|error| from_file(Path::new("/dev/stdin"), error))?,
                "standard input",
            )
        }
        Some(address) => Ok(address.to_owned()),
        None => match std::env::var(VARIABLE) {
            Ok(address) => named(address, VARIABLE),
            Err(_) => Err(ViewError::NoAddress),
        },
    }
}

fn first_line(mut input: impl std::io::BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    input.by_ref().take(BYTES_MAX).read_line(&mut line)?;
    Ok(line)
}

fn named(line: String, source: &str) -> Result<String, ViewError> {
    let address = line.trim();
    if address.is_empty() {
        return Err(ViewError::EmptyAddress(source.to_owned()));
    }
    Ok(address.to_owned())
}

/// Starts this program again, in the same process, with a link's token in the environment instead
/// of the arguments. Returns if there is no token in them, or if that fails.
pub fn hide_token(argument: Option<&str>) {
    let Some(link) = argument.filter(|address| has_token(address)) else { return };
    if std::io::stderr().is_terminal() {
        let _ = writeln!(
            std::io::stderr(),
            "thinc-view: for a moment other users of this computer could read this link in the \
             list of processes. To avoid that, give it on standard input: thinc-view -"
        );
    }
    let mut arguments = std::env::args_os();
    let (Some(name), Ok(program)) = (arguments.next(), std::env::current_exe()) else { return };
    // What fails here is not worth a message: the viewer works with the link as it was given.
    let _ = Command::new(program)
        .arg0(name)
        .args(without(arguments, OsStr::new(link)))
        .env(VARIABLE, link)
        .exec();
}

fn has_token(address: &str) -> bool {
    matches!(address.parse(), Ok(Target::Link(link)) if link.token.is_some())
}

fn without<'a>(
    arguments: impl Iterator<Item = OsString> + 'a,
    link: &'a OsStr,
) -> impl Iterator<Item = OsString> + 'a {
    let mut is_found = false;
    arguments.filter(move |argument| {
        let is_link = !is_found && argument == link;
        is_found |= is_link;
        !is_link
    })
}
