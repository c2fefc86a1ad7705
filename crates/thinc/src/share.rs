//! `thinc share`: invites guests to a running session, lists them, and changes or ends their
//! visits. From the user's shell, to the session process (session-server's share.rs) through a Unix
//! socket in the session's private folder. Knows requests and answers; the session process decides
//! and keeps the record.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Uid, geteuid};
use thinc_session_server::{
    ANSWER_BYTES_MAX, InvitationStatus, REQUEST_BYTES_MAX, ShareAnswer, ShareRequest, ViewerStatus,
};
use thinc_transport::password;

use crate::cli::{GuestClipboard, GuestSound, Share};
use crate::port::now_s;
use crate::terminal::print;
use crate::{MainError, clients, runtime_dir};

/// The session process answers from its event loop, after a password was hashed; while it is being
/// restarted, requests wait for the next one.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// `thinc share`.
pub(crate) fn share(options: &Share) -> Result<ExitCode, MainError> {
    let name = clients::only_session(options.name.as_deref())?;
    let request = request(options)?;
    match (&request, send(&name, &request)?) {
        (
            ShareRequest::Invite { control, life_s, uses, password, .. },
            ShareAnswer::Invited { invitation, link },
        ) => {
            print(&link);
            let guests = if *uses == 1 { "one guest".to_owned() } else { format!("{uses} guests") };
            let what = if *control { "see and control" } else { "see" };
            let secret = if password.is_some() { ", who has to know the password" } else { "" };
            let life = duration(*life_s);
            crate::terminal::print_error(&format!(
                "Invitation {invitation}: the link lets {guests} {what} the session for {life}\
                 {secret}. `thinc share {name} --revoke {invitation}` ends it."
            ));
        }
        (ShareRequest::List, ShareAnswer::List { invitations, viewers }) => {
            if options.json {
                let all = serde_json::json!({ "invitations": invitations, "viewers": viewers });
                print(&serde_json::to_string_pretty(&all)?);
            } else {
                print(&table(&invitations, &viewers, now_s()));
            }
        }
        (ShareRequest::Revoke(number), ShareAnswer::Done) => {
            print(&format!("Invitation {number} has ended, and with it the visits of its guests."))
        }
        (ShareRequest::ThrowOut(number), ShareAnswer::Done) => {
            print(&format!("The visit of guest {number} has ended."))
        }
        (ShareRequest::Control { guest, control }, ShareAnswer::Done) => {
            let what = if *control { "may type and point" } else { "only sees the screen" };
            print(&format!("Guest {guest} {what} now."));
        }
        (_, ShareAnswer::Error(error)) => return Err(error.into()),
        (_, other) => return Err(format!("unexpected answer {other:?}").into()),
    }
    Ok(ExitCode::SUCCESS)
}

fn request(options: &Share) -> Result<ShareRequest, MainError> {
    if options.list {
        return Ok(ShareRequest::List);
    }
    if let Some(number) = options.revoke {
        return Ok(ShareRequest::Revoke(number));
    }
    if let Some(number) = options.throw_out {
        return Ok(ShareRequest::ThrowOut(number));
    }
    if let Some(guest) = options.give_control {
        return Ok(ShareRequest::Control { guest, control: true });
    }
    if let Some(guest) = options.take_control {
        return Ok(ShareRequest::Control { guest, control: false });
    }
    let password = if options.password {
        let prompt = "Password for the guests";
        Some(password::read(prompt).map_err(|error| format!("no password: {error}"))?)
    } else {
        None
    };
    let clipboard = options.clipboard;
    Ok(ShareRequest::Invite {
        name: options.title.clone().unwrap_or_default(),
        control: options.control,
        clipboard_to_session: matches!(clipboard, GuestClipboard::ToSession | GuestClipboard::Both),
        clipboard_to_guest: matches!(clipboard, GuestClipboard::ToGuest | GuestClipboard::Both),
        without_sound: options.sound == GuestSound::Off,
        life_s: options.life.as_secs(),
        uses: options.uses,
        password,
        native: options.native,
    })
}

pub(crate) fn send(name: &str, request: &ShareRequest) -> Result<ShareAnswer, MainError> {
    Ok(begin(name, request)?.0)
}

/// The answer, and the connection that it came over.
pub(crate) fn begin(
    name: &str,
    request: &ShareRequest,
) -> Result<(ShareAnswer, UnixStream), MainError> {
    let path = runtime_dir::share_socket(name);
    match begin_at(&path, geteuid(), request) {
        Err(SendError::Connect(error)) => Err(match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                clients::not_running(name)
            }
            _ => format!("cannot reach the session {name} at {}: {error}", path.display()),
        }
        .into()),
        Err(error) => Err(error.into()),
        Ok(answer) => Ok(answer),
    }
}

/// Why a session process gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SendError {
    /// Nobody listens, or another user.
    #[error("it cannot be reached: {0}")]
    Connect(io::Error),
    /// Too long.
    #[error("the request has {0} bytes, and {REQUEST_BYTES_MAX} is the limit")]
    TooLong(usize),
    /// The connection broke.
    #[error("it gave no answer: {0}")]
    Broken(#[from] io::Error),
    /// Of another version, perhaps.
    #[error("it gave no valid answer; is it another version of thinc?")]
    Invalid(#[from] serde_json::Error),
}

/// Asks the session process of this user that listens here.
pub(crate) fn send_to(
    path: &Path,
    user: Uid,
    request: &ShareRequest,
) -> Result<ShareAnswer, SendError> {
    Ok(begin_at(path, user, request)?.0)
}

/// The same for a request that is answered after any time.
pub(crate) fn send_waiting(path: &Path, request: &ShareRequest) -> Result<ShareAnswer, SendError> {
    Ok(begin_within(path, geteuid(), request, None)?.0)
}

fn begin_at(
    path: &Path,
    user: Uid,
    request: &ShareRequest,
) -> Result<(ShareAnswer, UnixStream), SendError> {
    begin_within(path, user, request, Some(ANSWER_TIMEOUT))
}

fn begin_within(
    path: &Path,
    user: Uid,
    request: &ShareRequest,
    answer_timeout: Option<Duration>,
) -> Result<(ShareAnswer, UnixStream), SendError> {
    let stream = runtime_dir::connect_of(path, user).map_err(SendError::Connect)?;
    stream.set_read_timeout(answer_timeout)?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    if line.len() > REQUEST_BYTES_MAX {
        return Err(SendError::TooLong(line.len()));
    }
    (&stream).write_all(&line)?;
    let mut answer = String::new();
    // Nothing follows the answer until the connection is used for something else.
    BufReader::new(&stream).take(ANSWER_BYTES_MAX as u64).read_line(&mut answer)?;
    Ok((serde_json::from_str(&answer)?, stream))
}

/// For people: whole units, the largest that divides it.
fn duration(seconds: u64) -> String {
    let (number, unit) = match seconds {
        seconds if seconds % 86_400 == 0 => (seconds / 86_400, "day"),
        seconds if seconds % 3600 == 0 => (seconds / 3600, "hour"),
        seconds if seconds % 60 == 0 => (seconds / 60, "minute"),
        seconds => (seconds, "second"),
    };
    format!("{number} {unit}{}", if number == 1 { "" } else { "s" })
}

fn table(invitations: &[InvitationStatus], viewers: &[ViewerStatus], now_s: u64) -> String {
    let mut lines =
        vec!["INVITATION  GUESTS    RIGHTS   SOUND  PASSWORD  ENDS      STATE    TITLE".into()];
    for invitation in invitations {
        let InvitationStatus {
            invitation,
            name,
            control,
            sound,
            used,
            uses,
            password,
            expiry_s,
            state,
        } = invitation;
        let ends = match expiry_s.saturating_sub(now_s) {
            0 => "-".to_owned(),
            left if left < 3600 => format!("{} min", left.div_ceil(60)),
            left => format!("{} h", left.div_ceil(3600)),
        };
        let (used, rights) = (format!("{used} of {uses}"), rights(*control));
        let yes = |is: bool| if is { "yes" } else { "no" };
        let (sound, password) = (yes(*sound), yes(*password));
        lines.push(format!(
            "{invitation:<10}  {used:<8}  {rights:<7}  {sound:<5}  {password:<8}  {ends:<8}  \
             {state:<7}  {name}"
        ));
    }
    lines.push(String::new());
    lines.push("GUEST  INVITATION  RIGHTS   NAME                 FROM".into());
    for viewer in viewers {
        let ViewerStatus { guest, invitation, name, control, from, .. } = viewer;
        let number = |number: &Option<u32>| number.map_or("-".to_owned(), |n| n.to_string());
        let (guest, invitation) = (number(guest), number(invitation));
        let name = name.as_deref().unwrap_or("(owner)");
        let rights = if invitation == "-" { "owner" } else { rights(*control) };
        lines.push(format!("{guest:<5}  {invitation:<10}  {rights:<7}  {name:<19}  {from}"));
    }
    lines.join("\n")
}

fn rights(control: bool) -> &'static str {
    if control { "control" } else { "view" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_whole_units() {
        let written = [1, 90, 60, 7200, 86_400, 90_000].map(duration);
        assert_eq!(written, ["1 second", "90 seconds", "1 minute", "2 hours", "1 day", "25 hours"]);
    }

    #[test]
    fn the_list_names_invitations_guests_and_the_owner() {
        let invitations = [InvitationStatus {
            invitation: 3,
            name: "review".into(),
            control: false,
            sound: true,
            used: 1,
            uses: 2,
            password: true,
            expiry_s: 8000,
            state: "open".into(),
        }];
        let viewer = |guest: Option<u32>, name: Option<&str>| ViewerStatus {
            guest,
            invitation: guest.map(|_| 3),
            name: name.map(str::to_owned),
            control: guest.is_none(),
            from: "192.0.2.1:5".into(),
            since_s: 0,
        };
        let viewers = [viewer(None, None), viewer(Some(7), Some("Ada"))];
        let table = table(&invitations, &viewers, 1000);
        let lines: Vec<String> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines[1], "3 1 of 2 view yes yes 2 h open review");
        assert_eq!(lines[4], "- - owner (owner) 192.0.2.1:5");
        assert_eq!(lines[5], "7 3 view Ada 192.0.2.1:5");
    }
}
