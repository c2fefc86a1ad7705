//! A viewer in a window that logs in: the name of an account, PAM's questions, or the credential of
//! an earlier login; then the bytes of its person's desktop in both directions. Beside the path:
//! from mod.rs and quic.rs, for connections of the protocol "thinc/1", to logins.rs and relay.rs.
//! Knows the authenticating messages; everything after them passes through unread.

use std::io;
use std::sync::Arc;

use thinc_protocol::auth::{Auth, AuthAnswers, AuthOk, AuthPrompt, AuthPrompts, PromptStyle};
use thinc_protocol::device_auth::{AuthChallenge, DeviceAuth};
use thinc_protocol::framing::Deframer;
use thinc_protocol::limits::{AUTH_PROMPTS_MAX, PREAUTH_MESSAGE_BYTES_MAX};
use thinc_protocol::session::{Close, CloseCode, SessionMessage};
use thinc_session_server::gate::{AUTH_TIMEOUT, WRONG_SECRET_DELAY};
use thinc_transport::device::{DeviceId, PublicKey, Signature, place_of};
use thinc_transport::split_desktop_id;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Duration, timeout};
use tracing::{debug, info};

use super::devices::NOT_REMEMBERED;
use super::guests::{self, Admitted, NOT_INVITED, NoVisit, Visit};
use super::http::{NewConnection, Shared};
use super::logins::{Login, Logins};
use super::proxied::Peer;
use super::relay::{self, ViewerTransport, reason_of};
use crate::agent::{AgentAnswer, AgentRequest, is_session_name};
use crate::message::{
    Deed, DeviceReply, Prompt, Reason, Reply, Secret, Style, are_answers, is_device_name,
    is_user_name,
};

/// As long as the helper lets an attempt take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);

/// Why a viewer may not connect: for the viewer, and in words for its person.
#[derive(Clone, Copy)]
struct Refusal<'a> {
    code: CloseCode,
    reason: &'a str,
}

impl<'a> Refusal<'a> {
    /// Its credential opens nothing.
    const fn unauthorized(reason: &'a str) -> Refusal<'a> {
        Refusal { code: CloseCode::Unauthorized, reason }
    }

    /// The viewer may try the same again later.
    const fn later(reason: &'a str) -> Refusal<'a> {
        Refusal { code: CloseCode::Restart, reason }
    }
}

const REFUSED: Refusal<'_> =
    Refusal::unauthorized("the login was refused, or is not valid any more");
const NO_LINKS: Refusal<'_> =
    Refusal::unauthorized("this server has no links: log in with the name of your account");
const BUSY: Refusal<'_> =
    Refusal::later("too many people are logging in at this moment; try again in a few seconds");
const DRAINING: Refusal<'_> = Refusal::later(
    "this server takes no new logins at this moment: its administrator is preparing maintenance",
);
const NO_ANSWER: Refusal<'_> = Refusal::later("nobody can log in at this moment");

/// A connection before its viewer is admitted.
struct Viewer<S> {
    stream: S,
    frames: Deframer,
    /// What was read since the last message.
    bytes: Vec<u8>,
}

/// A message of a viewer.
enum Message {
    Account(String),
    Credential(Vec<u8>),
    Answers(Vec<Vec<u8>>),
    /// An invitation's token, with a name and a password.
    Guest(Vec<u8>, String, String),
    Token,
    /// A login's credential, a device's key and its name.
    Remember(Vec<u8>, PublicKey, String),
    /// A remembered device, and the credential of its last login.
    Device(DeviceId, Vec<u8>),
    Signature(Signature),
}

/// Which desktop a viewer opens.
enum Wanted {
    Named(String),
    /// The first, or the one that is started for who has none.
    Default,
    /// The same, but only if the viewer goes on with this connection: it has what it needs to have
    /// its person choose.
    DefaultLater,
}

impl<S: ViewerTransport> Viewer<S> {
    /// Whether it sends anything after its credential.
    async fn goes_on(&mut self) -> bool {
        if self.bytes.is_empty() {
            let mut buffer = [0; 1024];
            if let Ok(Ok(count)) = timeout(AUTH_TIMEOUT, self.stream.read(&mut buffer)).await {
                self.bytes.extend_from_slice(&buffer[..count]);
            }
        }
        !self.bytes.is_empty()
    }

    /// Tells it what opens this desktop again.
    async fn accept(&mut self, secrets: &(Secret, Secret), desktop: &str) -> io::Result<()> {
        let credential = [&secrets.0[..], &secrets.1, desktop.as_bytes()].concat();
        let mut answer = Vec::new();
        AuthOk { session_credential: &credential }.encode(&mut answer);
        self.send(&answer).await
    }

    /// The next message; an error if it is none of these.
    async fn next(&mut self) -> io::Result<Message> {
        let invalid = |error: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        };
        let mut buffer = [0; 1024];
        loop {
            let count = self.stream.read(&mut buffer).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.bytes.extend_from_slice(&buffer[..count]);
            self.frames.push(&buffer[..count]);
            let Some(frame) = self.frames.next().map_err(|error| invalid(&error))? else {
                continue;
            };
            let mut whole = Vec::new();
            let message = if let Ok(answers) = AuthAnswers::decode(&frame) {
                answers.encode(&mut whole);
                Message::Answers(answers.0.into_iter().map(<[u8]>::to_vec).collect())
            } else if let Ok(device) = DeviceAuth::decode(&frame) {
                device.encode(&mut whole);
                match device {
                    DeviceAuth::Remember { session_credential, key, name } => {
                        Message::Remember(session_credential.to_vec(), *key, name.to_owned())
                    }
                    DeviceAuth::Device { id, earlier } => {
                        Message::Device(DeviceId(*id), earlier.to_vec())
                    }
                    DeviceAuth::Signature(signature) => Message::Signature(*signature),
                }
            } else {
                let auth = Auth::decode(&frame).map_err(|error| invalid(&error))?;
                auth.encode(&mut whole);
                match auth {
                    Auth::Account(name) => {
                        let name = std::str::from_utf8(name).map_err(|error| invalid(&error))?;
                        Message::Account(name.to_owned())
                    }
                    Auth::SessionCredential(credential) => Message::Credential(credential.to_vec()),
                    Auth::Guest { token, name, password } if is_guests(token) => {
                        Message::Guest(token.to_vec(), name.to_owned(), password.to_owned())
                    }
                    Auth::Token(token) if is_guests(token) => {
                        Message::Guest(token.to_vec(), String::new(), String::new())
                    }
                    Auth::Token(_) | Auth::Guest { .. } => Message::Token,
                }
            };
            self.bytes.drain(..whole.len().min(self.bytes.len()));
            return Ok(message);
        }
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    async fn refuse(&mut self, Refusal { code, reason }: Refusal<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        SessionMessage::Close(Close { code, reason }).encode(&mut bytes);
        self.send(&bytes).await?;
        self.stream.shutdown().await
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve<S: ViewerTransport>(
    shared: Arc<Shared>,
    stream: S,
    connection: NewConnection,
) {
    let peer = connection.peer;
    let frames = Deframer::new(PREAUTH_MESSAGE_BYTES_MAX);
    let mut viewer = Viewer { stream, frames, bytes: Vec::new() };
    if let Err(error) = admit(&shared, &mut viewer, connection).await {
        debug!("{peer}: {error}");
    }
}

async fn admit<S: ViewerTransport>(
    shared: &Arc<Shared>,
    viewer: &mut Viewer<S>,
    connection: NewConnection,
) -> io::Result<()> {
    let (peer, logins) = (connection.peer, &shared.logins);
    let first = timeout(AUTH_TIMEOUT, viewer.next()).await??;
    let (login, secrets, wanted) = match first {
        Message::Token | Message::Answers(_) | Message::Signature(_) => {
            return viewer.refuse(NO_LINKS).await;
        }
        Message::Remember(credential, key, name) => {
            return remember(shared, viewer, &credential, key, name, peer).await;
        }
        Message::Device(device, earlier) => match sign_in(shared, viewer, device, peer).await? {
            Ok((login, secrets)) => {
                // Its name alone: the desktop is the person's own, or is not found.
                let named = parse_credential(&earlier).and_then(|(_, _, name)| name);
                (login, secrets, named.map_or(Wanted::DefaultLater, Wanted::Named))
            }
            Err(refusal) => return viewer.refuse(refusal).await,
        },
        Message::Guest(token, name, password) => {
            let admitted = guests::admit(shared, &token, &name, &password, peer);
            return match timeout(AUTH_TIMEOUT, admitted).await.ok().flatten() {
                Some(guest) => serve_guest(shared, viewer, connection, guest).await,
                None => viewer.refuse(Refusal::unauthorized(NOT_INVITED)).await,
            };
        }
        Message::Credential(bytes) => {
            if let Some(guest) = Admitted::of_viewer_credential(&bytes) {
                return serve_guest(shared, viewer, connection, guest).await;
            }
            let parsed = parse_credential(&bytes);
            let login = match &parsed {
                Some((cookie, secret, _)) => logins.of_secrets(cookie, secret, peer.address).await,
                None => None,
            };
            match (login, parsed) {
                (Some(login), Some((cookie, secret, name))) => {
                    (login, (cookie, secret), name.map_or(Wanted::Default, Wanted::Named))
                }
                _ => return viewer.refuse(REFUSED).await,
            }
        }
        Message::Account(name) => match log_in(shared, viewer, &name, &connection).await? {
            Ok((login, secrets)) => (login, secrets, Wanted::DefaultLater),
            Err(refusal) => return viewer.refuse(refusal).await,
        },
    };
    let NewConnection { number, pass, .. } = connection;
    drop(pass);
    viewer.stream.set_authenticated();
    let is_accepted = matches!(wanted, Wanted::DefaultLater);
    if is_accepted {
        viewer.accept(&secrets, "").await?;
        if !viewer.goes_on().await {
            return Ok(());
        }
    }
    let desktop = match wanted {
        Wanted::Named(name) => Ok(name),
        Wanted::Default | Wanted::DefaultLater => {
            default_desktop(logins, &login, peer, number).await
        }
    };
    let opened = match desktop {
        Ok(name) => relay::open(&login, &name).await.map(|session| (name, session)),
        Err(reason) => Err(reason),
    };
    let (name, session) = match opened {
        Ok(opened) => opened,
        // The login is good: the viewer must not take it for one that has ended.
        Err(reason) => {
            return viewer.refuse(Refusal { code: CloseCode::Protocol, reason: &reason }).await;
        }
    };
    if !is_accepted {
        viewer.accept(&secrets, &name).await?;
    }

    let host = viewer.stream.host().map(|host| shared.guests.with_port(&host));
    guests::offer(shared, &login, &name, host).await;
    let (connection, user) = (number, login.user.as_str());
    info!(
        connection,
        user,
        session = name,
        "{peer}: {user} opens {name} in a window ({})",
        S::NAME
    );
    let transport = S::TRANSPORT;
    let showing = logins.show(&login, peer.address, number, Deed::Opened, &name, transport).await;
    let first = std::mem::take(&mut viewer.bytes);
    let result = tokio::select! {
        result = viewer.stream.relay_to(session, first, showing.place()) => result,
        () = login.has_ended() => Ok(()),
    };
    info!(connection, user, session = name, "{peer}: {user} has left");
    result
}

async fn serve_guest<S: ViewerTransport>(
    shared: &Shared,
    viewer: &mut Viewer<S>,
    connection: NewConnection,
    guest: Admitted,
) -> io::Result<()> {
    let NewConnection { number, peer, pass, .. } = connection;
    let Visit { owner, name, session } = match guest.visit(shared, peer).await {
        Ok(visit) => visit,
        Err(NoVisit::NotInvited) => {
            tokio::time::sleep(WRONG_SECRET_DELAY).await;
            return viewer.refuse(Refusal::unauthorized(NOT_INVITED)).await;
        }
        // The viewer tries again.
        Err(NoVisit::Later(reason)) => {
            tokio::time::sleep(WRONG_SECRET_DELAY).await;
            return Err(io::Error::other(reason));
        }
    };
    drop(pass);
    viewer.stream.set_authenticated();
    let mut answer = Vec::new();
    AuthOk { session_credential: &guest.viewer_credential() }.encode(&mut answer);
    viewer.send(&answer).await?;
    let (connection, user) = (number, owner.user.as_str());
    info!(
        connection,
        user,
        session = name,
        "{peer}: a guest of {user} sees {name} in a window ({})",
        S::NAME
    );
    let (logins, transport) = (&shared.logins, S::TRANSPORT);
    let showing = logins.show(&owner, peer.address, number, Deed::Visited, &name, transport).await;
    let first = std::mem::take(&mut viewer.bytes);
    let result = viewer.stream.relay_to(session, first, showing.place()).await;
    info!(connection, user, session = name, "{peer}: a guest of {user} has left");
    result
}

/// A token of an invitation to a desktop behind a broker.
fn is_guests(token: &[u8]) -> bool {
    split_desktop_id(token).is_some()
}

/// A cookie, its origin secret, and the name of a desktop; without a name the default one is meant.
fn parse_credential(bytes: &[u8]) -> Option<(Secret, Secret, Option<String>)> {
    let (cookie, rest) = bytes.split_first_chunk()?;
    let (secret, name) = rest.split_first_chunk()?;
    if name.is_empty() {
        return Some((*cookie, *secret, None));
    }
    let name = std::str::from_utf8(name).ok().filter(|name| is_session_name(name))?;
    Some((*cookie, *secret, Some(name.to_owned())))
}

/// The login, with its secrets; or why there is none.
async fn log_in<S: ViewerTransport>(
    shared: &Shared,
    viewer: &mut Viewer<S>,
    user: &str,
    connection: &NewConnection,
) -> io::Result<Result<(Arc<Login>, (Secret, Secret)), Refusal<'static>>> {
    if !is_user_name(user) {
        return Ok(Err(REFUSED));
    }
    let (peer, logins) = (connection.peer, &shared.logins);
    if !show_banner(viewer, &shared.banner).await? {
        return Ok(Err(REFUSED));
    }
    let mut attempt = logins.begin(peer.address, user.to_owned()).await?;
    loop {
        let Some((reply, agent)) = logins.next(&mut attempt).await else {
            return Ok(Err(NO_ANSWER));
        };
        match reply {
            Reply::Prompts { prompts, .. } => {
                let mut bytes = Vec::new();
                AuthPrompts(prompts.iter().map(shown).collect()).encode(&mut bytes);
                viewer.send(&bytes).await?;
                let message = timeout(ANSWER_TIMEOUT, viewer.next()).await;
                match message {
                    Ok(Ok(Message::Answers(answers))) if are_answers(&answers) => {
                        logins.answer(&attempt, answers).await?;
                    }
                    _ => {
                        logins.give_up(&attempt).await?;
                        return Ok(Err(REFUSED));
                    }
                }
            }
            Reply::Drain { .. }
            | Reply::Kept { .. }
            | Reply::Ended { .. }
            | Reply::Certificate
            | Reply::Challenge { .. }
            | Reply::Device(_)
            | Reply::Figures => return Ok(Err(REFUSED)),
            Reply::Refused { reason, .. } => {
                info!(connection = connection.number, "{peer}: login refused");
                return Ok(Err(refusal_of(reason)));
            }
            Reply::Admitted { cookie, origin_secret, .. } => {
                let Some(login) = logins.admit(reply, agent) else { return Ok(Err(REFUSED)) };
                let (connection, user) = (connection.number, login.user.as_str());
                info!(connection, user, "{peer}: {user} logged in");
                return Ok(Ok((login, (cookie, origin_secret))));
            }
        }
    }
}

/// The login that a remembered device has opened, with its secrets; or why there is none.
async fn sign_in<S: ViewerTransport>(
    shared: &Shared,
    viewer: &mut Viewer<S>,
    device: DeviceId,
    peer: Peer,
) -> io::Result<Result<(Arc<Login>, (Secret, Secret)), Refusal<'static>>> {
    let logins = &shared.logins;
    let place = place_of(&shared.identity.pin());
    let mut attempt = logins.begin_sign_in(peer.address, device, place).await?;
    loop {
        let Some((reply, agent)) = logins.next(&mut attempt).await else {
            return Ok(Err(NO_ANSWER));
        };
        match reply {
            Reply::Device(DeviceReply::Challenge { challenge, .. }) => {
                let mut bytes = Vec::new();
                AuthChallenge(&challenge).encode(&mut bytes);
                viewer.send(&bytes).await?;
                match timeout(AUTH_TIMEOUT, viewer.next()).await {
                    Ok(Ok(Message::Signature(signature))) => {
                        logins.sign(&attempt, signature).await?;
                    }
                    _ => {
                        logins.give_up(&attempt).await?;
                        return Ok(Err(REFUSED));
                    }
                }
            }
            Reply::Refused { reason, .. } => {
                info!("{peer}: a device was refused");
                return Ok(Err(refusal_of(reason)));
            }
            Reply::Admitted { cookie, origin_secret, .. } => {
                let Some(login) = logins.admit(reply, agent) else { return Ok(Err(REFUSED)) };
                info!("{peer}: a device has signed {} in", login.user);
                return Ok(Ok((login, (cookie, origin_secret))));
            }
            _ => return Ok(Err(REFUSED)),
        }
    }
}

/// Has the device of a person remembered who has just logged in.
async fn remember<S: ViewerTransport>(
    shared: &Shared,
    viewer: &mut Viewer<S>,
    credential: &[u8],
    key: PublicKey,
    name: String,
    peer: Peer,
) -> io::Result<()> {
    let Some((cookie, secret, _)) = parse_credential(credential) else {
        return viewer.refuse(REFUSED).await;
    };
    let login = shared.logins.of_secrets(&cookie, &secret, peer.address).await;
    let Some(login) = login.filter(|_| is_device_name(&name)) else {
        return viewer.refuse(REFUSED).await;
    };
    match shared.logins.remember(&login, peer.address, key, name).await {
        Some(_) => {
            info!("{peer}: a device of {} is remembered", login.user);
            let mut bytes = Vec::new();
            AuthOk { session_credential: &DeviceId::of(&key).0 }.encode(&mut bytes);
            viewer.send(&bytes).await?;
            viewer.stream.shutdown().await
        }
        None => viewer.refuse(Refusal::unauthorized(NOT_REMEMBERED)).await,
    }
}

fn refusal_of(reason: Reason) -> Refusal<'static> {
    match reason {
        Reason::Refused => REFUSED,
        Reason::Busy => BUSY,
        Reason::Draining => DRAINING,
    }
}

/// Shows the text line by line, as a viewer takes control characters for an attack; false if it
/// does not go on.
async fn show_banner<S: ViewerTransport>(viewer: &mut Viewer<S>, text: &str) -> io::Result<bool> {
    let lines: Vec<AuthPrompt<'_>> =
        text.lines().map(|text| AuthPrompt { style: PromptStyle::Text, text }).collect();
    for some in lines.chunks(AUTH_PROMPTS_MAX) {
        let mut bytes = Vec::new();
        AuthPrompts(some.to_vec()).encode(&mut bytes);
        viewer.send(&bytes).await?;
        match timeout(AUTH_TIMEOUT, viewer.next()).await {
            Ok(Ok(Message::Answers(answers))) if answers.is_empty() => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

fn shown(prompt: &Prompt) -> AuthPrompt<'_> {
    let style = match prompt.style {
        Style::Hidden => PromptStyle::Hidden,
        Style::Shown => PromptStyle::Shown,
        Style::Text => PromptStyle::Text,
    };
    AuthPrompt { style, text: &prompt.text }
}

/// The first desktop, or the one that is started for who has none. Who has several chooses with the
/// login's secrets (viewer-native's desktops.rs).
async fn default_desktop(
    logins: &Logins,
    login: &Login,
    peer: Peer,
    number: u64,
) -> Result<String, String> {
    if let Ok((AgentAnswer::Sessions(sessions), _)) = login.ask(&AgentRequest::List).await
        && let [first, ..] = sessions.as_slice()
        && is_session_name(&first.name)
    {
        return Ok(first.name.clone());
    }
    // One that has to wait is refused with its place: it gives up after ten seconds without an
    // answer. Viewers that choose by the page's requests wait there (viewer-native's desktops.rs).
    match logins.start(login).await {
        Ok(AgentAnswer::Started { name, is_new }) if is_session_name(&name) => {
            if is_new {
                logins.note(login, peer.address, number, Deed::Started, &name).await;
            }
            Ok(name)
        }
        other => Err(reason_of(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_has_two_secrets_and_may_have_a_name() {
        let credential = [&[1; 32][..], &[2; 32], b"desk"].concat();
        let named = Some(([1; 32], [2; 32], Some("desk".to_owned())));
        assert_eq!(parse_credential(&credential), named);
        assert_eq!(parse_credential(&credential[..64]), Some(([1; 32], [2; 32], None)));
        for bad in [&credential[..63], &credential[..10], &[&credential[..64], b"../x"].concat()] {
            assert_eq!(parse_credential(bad), None);
        }
    }
}
