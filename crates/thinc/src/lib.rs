//! `thinc`: the supervisor of a session, and the commands that talk to it. From the user's shell,
//! to Xorg, the command and the session process, which it starts and ends. Knows processes, files
//! and the control socket; never pixels or the protocol of viewers.
#![forbid(unsafe_code)]

mod admin;
mod agent;
mod cli;
mod clients;
mod control;
mod descendants;
mod desk;
mod desktop;
mod detach;
mod display;
mod gpu;
mod graphics;
mod launch;
mod log;
mod pipewire;
mod port;
mod printing;
mod priority;
mod processes;
mod restarts;
mod runtime_dir;
mod search;
mod send;
mod serve_error;
mod share;
mod sound;
mod stdio;
mod supervisor;
mod terminal;
mod top;
mod trace;
mod window_manager;
mod xauthority;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use thinc_session_server::log::LogFormat;

/// Every subcommand and option, for man pages and completions.
pub fn command() -> clap::Command {
    cli::Cli::command()
}

/// Runs the subcommand of the command line.
pub fn main() -> ExitCode {
    if let Err(error) = thinc_transport::core_dumps::forbid() {
        terminal::print_error(&format!("thinc: core dumps stay possible: {error}"));
    }
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| terminal::exit_with(&error));
    let result = match cli.command {
        cli::Command::Serve(serve) if serve.detach && !serve.supervise => detach::serve_detached(),
        cli::Command::Serve(serve) => supervisor::serve(*serve),
        cli::Command::List(list) => clients::list(&list),
        cli::Command::Link(link) => clients::link(&link),
        cli::Command::Share(share) => share::share(&share),
        cli::Command::Send(files) => send::send(&files),
        cli::Command::Rename(rename) => clients::rename(&rename),
        cli::Command::Stop(stop) => clients::stop(&stop),
        cli::Command::Top(options) => top::top(&options),
        cli::Command::Trace(trace) => trace::trace(&trace.command),
        cli::Command::Session(session) => match &session.config {
            Some(config) => thinc_session_server::main(config).map_err(Into::into),
            None => stdio::stdio(&session),
        },
        cli::Command::Desk { spool } => {
            use thinc_session_server::log;
            let user = std::env::var("USER").ok();
            log::start(log::Process { part: "desk", user, session: None });
            thinc_desk::main(spool).map_err(Into::into)
        }
        cli::Command::Launch(launch) => launch::launch(&launch),
        cli::Command::GlProbe(options) => Ok(graphics::probe(&options)),
        cli::Command::Broker(broker) => {
            let is_check = broker.check;
            let result = broker.options().and_then(|options| {
                if is_check { thinc_broker::check(&options) } else { thinc_broker::serve(options) }
            });
            result.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        cli::Command::Admin(admin) => match admin.command {
            cli::AdminCommand::Sessions(options) => admin::sessions(&options),
            cli::AdminCommand::End(options) => admin::end(&options),
            cli::AdminCommand::Message(options) => admin::message(&options),
            cli::AdminCommand::Devices(options) => admin::devices::devices(options),
            cli::AdminCommand::Forget(options) => admin::devices::forget(options),
            cli::AdminCommand::Drain(options) => admin::drain(options),
            cli::AdminCommand::Logout(broker) => admin::logout(broker),
        },
        cli::Command::BrokerPart(part) => {
            let result = match part.part {
                cli::Part::Front => thinc_broker::front(),
                cli::Part::Acme => thinc_broker::acme(),
                cli::Part::Monitor => thinc_broker::monitor(),
                cli::Part::Login { pam_service, state, limits } => {
                    thinc_broker::login(&pam_service, &state, &limits)
                }
                cli::Part::Agent { uid, gid } => agent::agent(uid, gid),
            };
            result.map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    result.unwrap_or_else(|error| {
        match thinc_session_server::log::format() {
            LogFormat::Text => terminal::print_error(&format!("thinc: {error}")),
            LogFormat::Json => thinc_session_server::log::print_error(&error.to_string()),
        }
        ExitCode::FAILURE
    })
}

/// An error that ends the program; its text is for the user.
pub(crate) type MainError = Box<dyn std::error::Error>;
