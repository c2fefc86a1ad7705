//! The broker's agent: starts, lists, opens and ends the sessions of the user that it has become.
//! From the broker's front, to the supervisors of the user's sessions, which it finds by their
//! locks and sockets as `thinc list` does. Knows the user's own sessions; never the network, nor
//! another user.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use thinc_broker::BrokerError;
use thinc_broker::agent::{AgentAnswer, AgentRequest, SESSIONS_MAX, SessionInfo, is_session_name};

use crate::desktop::Program;
use crate::{MainError, clients, stdio};

/// Serves until the front and the helper have gone.
pub(crate) fn agent(uid: u32, gid: u32) -> Result<(), BrokerError> {
    // Two pages of a person that open at once start one desktop.
    let starting = Arc::new(Mutex::new(()));
    thinc_broker::agent::serve(uid, gid, move |request| {
        answer(request, &starting)
            .unwrap_or_else(|error| (AgentAnswer::Error(error.to_string()), None))
    })
}

fn answer(
    request: AgentRequest,
    starting: &Mutex<()>,
) -> Result<(AgentAnswer, Option<OwnedFd>), MainError> {
    Ok(match request {
        AgentRequest::List => {
            let sessions = clients::statuses()?.into_iter().take(SESSIONS_MAX).map(|status| {
                let (name, command, started_s) = (status.name, status.command, status.started_s);
                SessionInfo { name, command, started_s }
            });
            (AgentAnswer::Sessions(sessions.collect()), None)
        }
        AgentRequest::Start => {
            let name = Program::find(&[], None)?.name;
            let _one_at_a_time = starting.lock().map_err(|_| "an earlier start failed")?;
            let is_new = stdio::connect(&name).is_none();
            if is_new {
                drop(stdio::start(&name, None, &[])?);
            }
            (AgentAnswer::Started { name, is_new }, None)
        }
        AgentRequest::Open(name) => {
            let session = stdio::connect(checked(&name)?);
            let session = session.ok_or_else(|| clients::not_running(&name))?;
            (AgentAnswer::Opened, Some(session.into()))
        }
        AgentRequest::End(name) => {
            clients::end(checked(&name)?)?;
            (AgentAnswer::Ended, None)
        }
    })
}

/// Names become parts of paths.
fn checked(name: &str) -> Result<&str, MainError> {
    if is_session_name(name) { Ok(name) } else { Err("no session has such a name".into()) }
}
