//! Requests of a page about its person's desktops: what there is, what can be started, and what a
//! desktop shows. Beside the path: from http.rs, which knows whose page it is, to the person's
//! agent. Knows requests and answers; the agent is the person's own, and its words are not trusted.

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName};
use hyper::{Request, StatusCode};
use serde::{Deserialize, Serialize};
use thinc_session_server::Opening;
use thinc_session_server::answer::{self, Answer, plain, with_header};
use thinc_session_server::preferences::{ClipChoice, Preferences};
use thinc_session_server::{TITLE_RULE, title};
use thinc_transport::base64url;
use tracing::warn;

use super::http::{Connection, unauthorized, with_text};
use super::logins::{Login, Logins};
use super::relay::reason_of;
use super::viewers::ShownAt;
use crate::agent::{
    AgentAnswer, AgentRequest, CHOICES_MAX, CHOSEN_BYTES_MAX, Chosen, DesktopInfo, SESSIONS_MAX,
    SessionInfo, is_session_name,
};
use crate::message::Deed;

/// Longest body of a request.
const BODY_BYTES_MAX: usize = 4096;
/// The size of the screen that a thumbnail is of.
const SCREEN: HeaderName = HeaderName::from_static("thinc-screen");

/// The body of a request to start a desktop other than the default one.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartBody {
    what: Chosen,
    name: Option<String>,
}

/// What the body asks for; none if it is empty.
fn chosen(body: &[u8]) -> Result<Option<StartBody>, &'static str> {
    if body.is_empty() {
        return Ok(None);
    }
    let body: StartBody =
        serde_json::from_slice(body).map_err(|_| "expected what to start, and its name")?;
    let is_named = body.name.as_deref().is_none_or(is_session_name);
    match &body.what {
        _ if !is_named => Err("a name has 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore"),
        Chosen::Desktop(text) | Chosen::Program(text)
            if text.len() > CHOSEN_BYTES_MAX || text.contains(char::is_control) =>
        {
            Err("a program and its arguments have at most 1024 bytes and no control characters")
        }
        _ => Ok(Some(body)),
    }
}

/// What a page or viewer that can show a place in the line knows of it: `waits` before it has one,
/// then how many wait before its person, `waits=NUMBER`. It is answered once that changes, or the
/// desktop has started. One of an earlier version says neither.
fn known_place(query: Option<&str>) -> Option<Option<u32>> {
    match query?.strip_prefix("waits")? {
        "" => Some(None),
        number => number.strip_prefix('=')?.parse().ok().map(Some),
    }
}

pub(super) async fn start(
    connection: &Connection,
    login: &Login,
    request: Request<Incoming>,
) -> Answer {
    let known = known_place(request.uri().query());
    let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await else {
        return plain(StatusCode::PAYLOAD_TOO_LARGE, "a start has at most 4096 bytes");
    };
    let logins = &connection.shared.logins;
    let chosen = match chosen(&body.to_bytes()) {
        Ok(chosen) => chosen,
        Err(reason) => return plain(StatusCode::BAD_REQUEST, reason),
    };
    let ask = || async {
        match chosen.clone() {
            None => logins.start(login).await,
            Some(StartBody { what, name }) => logins.start_chosen(login, what, name).await,
        }
    };
    match logins.start_after(known.flatten(), ask).await {
        waiting @ Ok(AgentAnswer::Waiting(_)) if known.is_none() => {
            with_text(StatusCode::CONFLICT, reason_of(waiting))
        }
        Ok(AgentAnswer::Waiting(waiting)) => {
            let mut answer = answer::json(&waiting);
            *answer.status_mut() = StatusCode::ACCEPTED;
            answer
        }
        Ok(AgentAnswer::Started { name, is_new }) if is_session_name(&name) => {
            if is_new {
                connection.note(login, Deed::Started, &name).await;
            }
            answer::json(&Started { name })
        }
        other => agent_failed(connection, other),
    }
}

#[derive(Serialize)]
struct Started {
    name: String,
}

/// The desktops that can be started.
#[derive(Serialize)]
struct Choices {
    desktops: Vec<DesktopInfo>,
}

pub(super) async fn choices(connection: &Connection, login: &Login) -> Answer {
    match login.ask(&AgentRequest::Choices).await {
        Ok((AgentAnswer::Choices(mut desktops), _)) => {
            desktops.truncate(CHOICES_MAX);
            answer::json(&Choices { desktops })
        }
        other => agent_failed(connection, other.map(|(answer, _)| answer)),
    }
}

pub(super) async fn preferences(connection: &Connection, login: &Login) -> Answer {
    told(connection, login, &AgentRequest::Preferences).await
}

/// What a person wants to prefer. A choice that this version does not know is refused, as it would
/// not be kept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PreferBody {
    opening: Option<Opening>,
    clipboard: Option<ClipChoice>,
    layout: Option<String>,
    scale: Option<u16>,
}

pub(super) async fn prefer(
    connection: &Connection,
    login: &Login,
    request: Request<Incoming>,
) -> Answer {
    let expected = "expected opening, clipboard, layout or scale";
    let change = match answer::login_body::<PreferBody>(request, expected).await {
        Ok(PreferBody { opening, clipboard, layout, scale }) => {
            Preferences { opening, clipboard, layout, scale }
        }
        Err(answer) => return answer,
    };
    match Preferences::default().changed(&change) {
        Ok(_) => told(connection, login, &AgentRequest::Prefer(change)).await,
        Err(reason) => with_text(StatusCode::BAD_REQUEST, reason),
    }
}

async fn told(connection: &Connection, login: &Login, request: &AgentRequest) -> Answer {
    match login.ask(request).await {
        Ok((AgentAnswer::Preferences(preferences), _)) => answer::json(&preferences),
        other => agent_failed(connection, other.map(|(answer, _)| answer)),
    }
}

/// What a desktop is to be called.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RenameBody {
    title: String,
}

pub(super) async fn rename(
    connection: &Connection,
    login: &Login,
    name: &str,
    request: Request<Incoming>,
) -> Answer {
    let RenameBody { title: text } =
        match answer::login_body(request, "expected {\"title\": \"…\"}").await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
    let Some(title) = title(&text) else { return plain(StatusCode::BAD_REQUEST, TITLE_RULE) };
    match login.ask(&AgentRequest::Rename { name: name.to_owned(), title }).await {
        Ok((AgentAnswer::Renamed, _)) => plain(StatusCode::NO_CONTENT, ""),
        other => agent_failed(connection, other.map(|(answer, _)| answer)),
    }
}

/// The sessions of a person, and who they are.
#[derive(Serialize)]
struct Sessions {
    user: String,
    sessions: Vec<Listed>,
}

/// A desktop, and where it is shown.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    session: SessionInfo,
    shown: Vec<ShownAt>,
}

pub(super) async fn list(logins: &Logins, login: &Login) -> Answer {
    match login.ask(&AgentRequest::List).await {
        Ok((AgentAnswer::Sessions(mut sessions), _)) => {
            sessions.retain(|session| is_session_name(&session.name));
            for session in &mut sessions {
                session.title = session.title.take().and_then(|text| title(&text));
            }
            sessions.truncate(SESSIONS_MAX);
            let listed = |session: SessionInfo| {
                let shown = logins.shown(&login.user, &session.name);
                Listed { session, shown }
            };
            let sessions = sessions.into_iter().map(listed).collect();
            answer::json(&Sessions { user: login.user.clone(), sessions })
        }
        Ok((other, _)) => agent_error(other),
        Err(error) => {
            warn!(user = login.user, "the agent of {} does not answer: {error}", login.user);
            // The login has no agent any more: another login brings a new one.
            unauthorized()
        }
    }
}

/// A small picture of what a desktop shows, for the list.
pub(super) async fn thumbnail(login: &Login, name: &str) -> Answer {
    let picture = match login.ask(&AgentRequest::Thumbnail(name.to_owned())).await {
        Ok((AgentAnswer::Thumbnail { screen, jpeg }, _)) => {
            base64url::decode(&jpeg).map(|bytes| (screen, bytes))
        }
        _ => None,
    };
    // Sessions of an older version have none.
    let Some(((width, height), bytes)) = picture else {
        return plain(StatusCode::NOT_FOUND, "there is no picture of this desktop");
    };
    let mut answer = plain(StatusCode::OK, "");
    *answer.body_mut() = bytes.into();
    let answer = with_header(answer, header::CONTENT_TYPE, "image/jpeg");
    with_header(answer, SCREEN, &format!("{width}x{height}"))
}

/// Asked by a page whose connection failed.
pub(super) async fn is_running(login: &Login, name: &str) -> Answer {
    match login.ask(&AgentRequest::List).await {
        Ok((AgentAnswer::Sessions(sessions), _))
            if !sessions.iter().any(|session| session.name == name) =>
        {
            plain(StatusCode::NOT_FOUND, "the desktop has ended")
        }
        Ok(_) => plain(StatusCode::NO_CONTENT, ""),
        Err(_) => unauthorized(),
    }
}

pub(super) fn agent_failed(
    connection: &Connection,
    answer: std::io::Result<AgentAnswer>,
) -> Answer {
    match answer {
        Ok(other) => agent_error(other),
        Err(error) => {
            warn!("{}: the user's agent does not answer: {error}", connection.peer);
            plain(StatusCode::BAD_GATEWAY, "your part of the broker does not answer; log in again")
        }
    }
}

/// The agent is the user's own, and so is its text.
fn agent_error(answer: AgentAnswer) -> Answer {
    let AgentAnswer::Error(text) = answer else {
        return plain(StatusCode::BAD_GATEWAY, "an answer of another version of thinc");
    };
    with_text(StatusCode::CONFLICT, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_number_and_anything_else_is_none() {
        assert_eq!(known_place(Some("waits")), Some(None));
        assert_eq!(known_place(Some("waits=3")), Some(Some(3)));
        for other in ["", "waits=", "waits=-1", "waits=4294967296", "waits3", "other"] {
            assert_eq!(known_place(Some(other)), None, "{other}");
        }
        assert_eq!(known_place(None), None);
    }

    #[test]
    fn what_is_started_is_checked() {
        assert!(chosen(b"").unwrap().is_none());
        let body = chosen(br#"{"what":{"program":"xterm -e top"},"name":"two"}"#).unwrap().unwrap();
        assert_eq!(body.what, Chosen::Program("xterm -e top".to_owned()));
        assert_eq!(body.name.as_deref(), Some("two"));
        assert_eq!(chosen(br#"{"what":"default"}"#).unwrap().unwrap().what, Chosen::Default);
        let long = "x".repeat(CHOSEN_BYTES_MAX + 1);
        for bad in [
            "x",
            r#"{"what":"other"}"#,
            r#"{"what":"default","name":"../a"}"#,
            r#"{"what":{"program":"a\nb"}}"#,
            &format!(r#"{{"what":{{"desktop":"{long}"}}}}"#),
        ] {
            assert!(chosen(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
