//! `thinc list`, `link`, `rename` and `stop`: send requests to the supervisors of this user's
//! sessions. From the user's shell, through control.rs, to supervisor.rs. Knows names and answers;
//! finds sessions by their locks, never by process IDs in files.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use thinc_session_server::{ShareRequest, TITLE_RULE, title};

use crate::MainError;
use crate::cli::{Link, List, Rename, Stop};
use crate::control::{ANSWER_BYTES_MAX, Answer, Request, Status};
use crate::terminal::print;
use crate::{runtime_dir, share};

/// A supervisor answers from its event loop, which nothing blocks; ending a session may take all
/// its time-outs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn send_request(
    name: &str,
    request: &Request,
) -> Result<(Answer, BufReader<UnixStream>), MainError> {
    let path = runtime_dir::control_socket(name);
    let stream = runtime_dir::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => not_running(name),
        _ => format!("cannot reach the session {name} at {}: {error}", path.display()),
    })?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    (&stream).write_all(&line)?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    reader.by_ref().take(ANSWER_BYTES_MAX as u64).read_line(&mut answer)?;
    match serde_json::from_str(&answer) {
        Ok(Answer::Error(error)) => Err(error.into()),
        Ok(answer) => Ok((answer, reader)),
        Err(_) => {
            Err(format!("the session {name} gave no valid answer; is it another version of thinc?")
                .into())
        }
    }
}

pub(crate) fn not_running(name: &str) -> String {
    let others = runtime_dir::running().unwrap_or_default();
    match others.as_slice() {
        [] => format!("no session called {name} is running, nor any other"),
        _ => format!("no session called {name} is running; there is {}", others.join(", ")),
    }
}

/// The status of every session of this user.
pub(crate) fn statuses() -> Result<Vec<Status>, MainError> {
    let mut found: Vec<Status> = Vec::new();
    for name in runtime_dir::running()? {
        // A session that is just starting or ending does not answer.
        if let Ok((Answer::Status(status), _)) = send_request(&name, &Request::Status) {
            found.push(status);
        }
    }
    Ok(found)
}

/// `thinc list`.
pub(crate) fn list(options: &List) -> Result<ExitCode, MainError> {
    let found = statuses()?;
    if options.json {
        print(&serde_json::to_string_pretty(&found)?);
    } else if found.is_empty() {
        print("No session is running. `thinc serve` starts one.");
    } else {
        let width = found.iter().map(|status| status.name.len()).max().unwrap_or(0).max(4);
        print(&format!(
            "{:width$}  {:21}  {:8}  {:>8}  COMMAND",
            "NAME", "LISTENS ON", "DISPLAY", "AGE"
        ));
        let lines = graphics_lines(&found);
        for status in found {
            let age = age(status.started_s);
            let Status { name, title, listen, display, command, .. } = status;
            let listen = listen.unwrap_or_else(|| "ssh only".to_owned());
            let title = title.map_or(String::new(), |title| format!("  \"{title}\""));
            print(&format!("{name:width$}  {listen:21}  {display:8}  {age:>8}  {command}{title}"));
        }
        lines.iter().for_each(|line| print(line));
    }
    Ok(ExitCode::SUCCESS)
}

/// What draws 3D programs; with the sessions' names unless it is known and the same in all.
fn graphics_lines(sessions: &[Status]) -> Vec<String> {
    let mut lines: Vec<(&str, Vec<&str>)> = Vec::new();
    for Status { name, graphics, .. } in sessions {
        let Some(line) = graphics.as_deref() else { continue };
        match lines.iter_mut().find(|(other, _)| *other == line) {
            Some((_, names)) => names.push(name),
            None => lines.push((line, vec![name])),
        }
    }
    match lines.as_slice() {
        [(line, names)] if names.len() == sessions.len() => vec![(*line).to_owned()],
        _ => lines.iter().map(|(line, names)| format!("{}: {line}", names.join(", "))).collect(),
    }
}

/// The age in its largest unit.
fn age(started_s: u64) -> String {
    let now =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    age_text(now.saturating_sub(started_s))
}

/// A time in its largest unit.
pub(crate) fn age_text(age_s: u64) -> String {
    let (s, m, h) = (1, 60, 3600);
    match age_s {
        age if age < m => format!("{} s", age / s),
        age if age < h => format!("{} min", age / m),
        age if age < 48 * h => format!("{} h", age / h),
        age => format!("{} d", age / (24 * h)),
    }
}

/// The named session, or the only one that runs.
pub(crate) fn only_session(name: Option<&str>) -> Result<String, MainError> {
    match (name, runtime_dir::running()?.as_slice()) {
        (Some(name), _) => Ok(name.to_owned()),
        (None, []) => Err("no session is running".into()),
        (None, [one]) => Ok(one.clone()),
        (None, many) => {
            Err(format!("several sessions are running: name one of {}", many.join(", ")).into())
        }
    }
}

/// `thinc link`.
pub(crate) fn link(options: &Link) -> Result<ExitCode, MainError> {
    let name = only_session(options.name.as_deref())?;
    let native = options.native;
    let request =
        if options.revoke { Request::Revoke { native } } else { Request::Link { native } };
    match send_request(&name, &request)?.0 {
        Answer::Link(link) => print(&link),
        other => return Err(format!("unexpected answer {other:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

/// `thinc rename`.
pub(crate) fn rename(options: &Rename) -> Result<ExitCode, MainError> {
    let Rename { name, title } = options;
    match give_title(name, title.as_deref().unwrap_or(name))? {
        Some(title) => print(&format!("The session {name} is called \"{title}\" now.")),
        None => print(&format!("The session {name} is called by its name now.")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls a session this in lists and in the titles of viewers; by its own name it is called
/// nothing else. Each of a person's sessions is called something different.
pub(crate) fn give_title(name: &str, text: &str) -> Result<Option<String>, MainError> {
    let title = title(text).ok_or(TITLE_RULE)?;
    // Until the end, so that no other session is called so meanwhile.
    let _lock = runtime_dir::lock_titles()?;
    if let Some(other) = called(&title, Some(name))? {
        return Err(format!("your session {other} is called \"{title}\" already").into());
    }
    let title = Some(title).filter(|title| title != name);
    match send_request(name, &Request::Rename { title: title.clone() })?.0 {
        Answer::Renamed => {}
        other => return Err(format!("unexpected answer {other:?}").into()),
    }
    let shown = title.clone().unwrap_or_else(|| name.to_owned());
    // One that is being restarted, or of an older version, shows it later.
    let _ = share::send(name, &ShareRequest::Rename(shown));
    Ok(title)
}

/// The name of a session that is called so, or has this name, in upper or lower case.
pub(crate) fn called(title: &str, but: Option<&str>) -> Result<Option<String>, MainError> {
    let title = title.to_lowercase();
    let is_it = |status: &Status| {
        let titles = [Some(&status.name), status.title.as_ref()];
        titles.into_iter().flatten().any(|other| other.to_lowercase() == title)
    };
    let mut others = statuses()?.into_iter().filter(|status| Some(&*status.name) != but);
    Ok(others.find(is_it).map(|status| status.name))
}

/// `thinc stop`.
pub(crate) fn stop(options: &Stop) -> Result<ExitCode, MainError> {
    end(&options.name)?;
    print(&format!("The session {} has ended.", options.name));
    Ok(ExitCode::SUCCESS)
}

/// Ends a session; returns once everything of it has ended.
pub(crate) fn end(name: &str) -> Result<(), MainError> {
    let (_, mut rest) = send_request(name, &Request::Stop)?;
    rest.get_ref().set_read_timeout(Some(STOP_TIMEOUT))?;
    // The supervisor keeps this connection open until it ends: its end is that of the session.
    match rest.read_to_end(&mut Vec::new()) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(format!("the session {name} did not end within {STOP_TIMEOUT:?}").into())
        }
        _ => Ok(()),
    }
}
