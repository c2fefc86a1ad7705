//! `thinc`: the supervisor of a session and the commands that speak to it.
//! From the person's shell, to Xorg, the command and the session process, which it starts and takes with it.
//! Knows processes, files and the control socket; never pixels or the protocol of viewers.
#![forbid(unsafe_code)]

pub mod cli;
mod clients;
mod control;
mod detach;
mod launch;
mod log;
mod port;
mod runtime_dir;
mod search;
mod stdio;
mod supervisor;
mod terminal;
mod trace;
mod xauthority;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

pub use runtime_dir::RuntimeError;
pub use search::SearchError;
pub use supervisor::ServeError;

/// Every subcommand and option, for man pages and completions.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// Runs what the command line says.
pub fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Serve(serve) if serve.detach && !serve.supervise => detach::serve_detached(),
        cli::Command::Serve(serve) => supervisor::serve(serve),
        cli::Command::List(list) => clients::list(&list),
        cli::Command::Link(link) => clients::link(&link),
        cli::Command::Stop(stop) => clients::stop(&stop),
        cli::Command::Trace(trace) => trace::trace(&trace.command),
        cli::Command::Session(session) => match &session.config {
            Some(config) => thinc_session_server::main(config).map_err(Into::into),
            None => stdio::stdio(&session),
        },
        cli::Command::Launch(launch) => launch::launch(&launch),
    };
    result.unwrap_or_else(|error| {
        terminal::complain(&format!("thinc: {error}"));
        ExitCode::FAILURE
    })
}

/// Anything that ends the program; the text is for the person.
pub(crate) type MainError = Box<dyn std::error::Error>;
