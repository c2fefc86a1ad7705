//! The broker's agent: starts, lists, opens and ends the sessions of the user that it has become.
//! From the broker's front, to the supervisors of the user's sessions, which it finds by their
//! locks and sockets as `thinc list` does. Knows the user's own sessions; never the network, nor
//! another user.

use std::os::fd::OwnedFd;

use thinc_broker::BrokerError;
use thinc_broker::agent::{
    AgentAnswer, AgentRequest, CHOICES_MAX, Chosen, DesktopFigures, DesktopInfo, FIGURES_MAX,
    SESSIONS_MAX, SessionInfo, is_session_name,
};
use thinc_broker::limits::{Begin, Starts};
use thinc_broker::{DEFAULT_OPENING, OPENING_VARIABLE};
use thinc_session_server::preferences::{self, Preferences};
use thinc_session_server::{Opening, ShareAnswer, ShareRequest};

use crate::control::Status;
use crate::desktop::{self, Program};
use crate::stdio::{self, Runs};
use crate::{MainError, clients, runtime_dir, share};

/// Serves until the front and the helper have gone.
pub(crate) fn agent(uid: u32, gid: u32) -> Result<(), BrokerError> {
    thinc_broker::agent::serve(uid, gid, |request, starts| {
        answer(request, starts)
            .unwrap_or_else(|error| (AgentAnswer::Error(error.to_string()), None))
    })
}

fn answer(
    request: AgentRequest,
    starts: &Starts,
) -> Result<(AgentAnswer, Option<OwnedFd>), MainError> {
    Ok(match request {
        AgentRequest::List => {
            let sessions = clients::statuses()?.into_iter().take(SESSIONS_MAX).map(|status| {
                let Status { name, title, command, started_s, .. } = status;
                SessionInfo { name, title, command, started_s }
            });
            (AgentAnswer::Sessions(sessions.collect()), None)
        }
        AgentRequest::Start => {
            let name = Program::find(&[], None)?.name;
            let starting = starts.one_at_a_time()?;
            let is_new = stdio::connect(&name).is_none();
            if is_new {
                let begun = match starting.begin()? {
                    Begin::Begun(begun) => begun,
                    Begin::Waits(waiting) => return Ok((AgentAnswer::Waiting(waiting), None)),
                };
                drop(stdio::start(&name, None, &Runs::Command(&[]), begun.priority())?);
            }
            (AgentAnswer::Started { name, is_new }, None)
        }
        AgentRequest::Choices => {
            let desktops = desktop::installed().into_iter().take(CHOICES_MAX);
            let desktops = desktops.map(|(id, name)| DesktopInfo { id, name });
            (AgentAnswer::Choices(desktops.collect()), None)
        }
        AgentRequest::StartChosen { what, name } => {
            let (command, desktop) = match what {
                Chosen::Default => (Vec::new(), None),
                Chosen::Desktop(id) => (Vec::new(), Some(id)),
                Chosen::Program(line) => (desktop::typed_command(&line)?, None),
            };
            // What cannot be started is an error that names it, before a session is begun.
            let program = Program::find(&command, desktop.as_deref())?;
            let name = name.unwrap_or(program.name);
            let starting = starts.one_at_a_time()?;
            let is_running = stdio::connect(checked(&name)?).is_some();
            if is_running || clients::called(&name, None)?.is_some() {
                let error = format!("a session called {name} is running already: choose a name");
                return Err(error.into());
            }
            let begun = match starting.begin()? {
                Begin::Begun(begun) => begun,
                Begin::Waits(waiting) => return Ok((AgentAnswer::Waiting(waiting), None)),
            };
            let runs = match &desktop {
                Some(id) => Runs::Desktop(id),
                None => Runs::Command(&command),
            };
            drop(stdio::start(&name, None, &runs, begun.priority())?);
            (AgentAnswer::Started { name, is_new: true }, None)
        }
        AgentRequest::Open(name) => {
            let session = stdio::connect(checked(&name)?);
            let session = session.ok_or_else(|| clients::not_running(&name))?;
            (AgentAnswer::Opened, Some(session.into()))
        }
        AgentRequest::Preferences => {
            let own = Preferences::read(&preferences::path()?)?;
            (AgentAnswer::Preferences(with_opening(own)), None)
        }
        AgentRequest::Prefer(change) => {
            let changed = Preferences::change(&preferences::path()?, &change)?;
            // Each reads the file, so that of two changes at once all have the last. One that is
            // being restarted does at the next connection.
            for name in runtime_dir::running()? {
                let _ = share::send(&name, &ShareRequest::PreferencesChanged);
            }
            (AgentAnswer::Preferences(with_opening(changed)), None)
        }
        AgentRequest::Rename { name, title } => {
            clients::give_title(checked(&name)?, &title)?;
            (AgentAnswer::Renamed, None)
        }
        AgentRequest::End(name) => {
            clients::end(checked(&name)?)?;
            (AgentAnswer::Ended, None)
        }
        AgentRequest::Figures => {
            let statuses = clients::statuses()?.into_iter().take(FIGURES_MAX);
            let figures = statuses.map(|status| DesktopFigures {
                figures: match share::begin(&status.name, &ShareRequest::Figures) {
                    Ok((ShareAnswer::Figures(figures), _)) => Some(*figures),
                    _ => None,
                },
                name: status.name,
                started_s: status.started_s,
            });
            (AgentAnswer::Figures(figures.collect()), None)
        }
        AgentRequest::Thumbnail(name) => (share_answer(&name, &ShareRequest::Thumbnail)?, None),
        AgentRequest::Share { name, origin, owner } => {
            let opening = administrators_opening();
            (share_answer(&name, &ShareRequest::Behind { origin, owner, opening })?, None)
        }
        AgentRequest::Admit { name, token, guest, password, from } => {
            let request = ShareRequest::Admit { token, name: guest, password, from };
            (share_answer(&name, &request)?, None)
        }
        AgentRequest::Visit { name, credential, from } => {
            let visit = ShareRequest::Visit { credential, from };
            match share::begin(checked(&name)?, &visit)? {
                (ShareAnswer::Done, connection) => (AgentAnswer::Opened, Some(connection.into())),
                (other, _) => (of_share(other), None),
            }
        }
        AgentRequest::Leave { name, credential } => {
            (share_answer(&name, &ShareRequest::Leave { credential })?, None)
        }
    })
}

fn share_answer(name: &str, request: &ShareRequest) -> Result<AgentAnswer, MainError> {
    Ok(of_share(share::begin(checked(name)?, request)?.0))
}

fn of_share(answer: ShareAnswer) -> AgentAnswer {
    match answer {
        ShareAnswer::Thumbnail { screen, jpeg } => AgentAnswer::Thumbnail { screen, jpeg },
        ShareAnswer::Behind { id } => AgentAnswer::Shared { id },
        ShareAnswer::Admitted { credential } => AgentAnswer::Admitted { credential },
        ShareAnswer::NotInvited => AgentAnswer::NotInvited,
        ShareAnswer::Done => AgentAnswer::Ended,
        ShareAnswer::Error(error) => AgentAnswer::Error(error),
        other => AgentAnswer::Error(format!("unexpected answer {other:?}")),
    }
}

/// What this person prefers, and what holds where they have not said how desktops are opened.
fn with_opening(own: Preferences) -> Preferences {
    let opening = own.opening.or(administrators_opening()).unwrap_or(DEFAULT_OPENING);
    Preferences { opening: Some(opening), ..own }
}

/// What the broker's administrator has chosen, which came with the environment.
fn administrators_opening() -> Option<Opening> {
    std::env::var(OPENING_VARIABLE).ok()?.parse().ok()
}

/// Names become parts of paths.
fn checked(name: &str) -> Result<&str, MainError> {
    if is_session_name(name) { Ok(name) } else { Err("no session has such a name".into()) }
}
