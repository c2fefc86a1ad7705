//! Requests of `thinc share` and `thinc send`, and the answers: one line of JSON each, over a Unix
//! socket in the session's private folder. From the owner's shell, to the record of invitations
//! (guests.rs) and to actor.rs, which closes connections. Knows requests, answers and limits; the
//! kernel tells that the client is the same user (SO_PEERCRED).

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thinc_codec_enc::thumbnail;
use thinc_protocol::limits::{NOTICE_BYTES_MAX, PASSWORD_BYTES_MAX};
use thinc_protocol::wire::is_deceptive;
use thinc_transport::identity::Identity;
use thinc_transport::invitation::{
    GuestRights, Invitation, InvitationError, InvitationRefusal, Terms, clean_name,
};
use thinc_transport::{DESKTOP_ID_BYTES, Link, Scheme, base64url};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::connection::{Event, Events};
use crate::figures::SessionFigures;
use crate::files::FilesEvent;
use crate::front::{ACCEPT_PAUSE, Front, since_1970};
use crate::guests::{Guests, hash_password};
use crate::local::{self, trusted_peer};
use crate::opening::Opening;
use crate::title::{TITLE_RULE, title};

/// Longest request, in bytes: paths of some hundred files.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Longest answer, in bytes: a list of all invitations and viewers.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Why there is no link for guests.
const NO_PORT: &str =
    "the session has no port (--listen none), and so no link for guests: start it with a port";
const FORBIDDEN: &str = "the administrator of this server allows no guests";
/// What the record has for an invitation without a name.
pub(crate) const UNNAMED: &str = "-";
/// Connections at one time, and how long a request may take to arrive.
const CONNECTIONS_MAX: usize = 4;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A request.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareRequest {
    /// A new invitation.
    Invite {
        /// What the owner calls it; may be empty.
        name: String,
        /// Guests may type and point.
        control: bool,
        /// The session takes what guests with control copy.
        clipboard_to_session: bool,
        /// Guests with control may paste what was copied in the session.
        clipboard_to_guest: bool,
        /// Guests do not hear the session.
        #[serde(default)]
        without_sound: bool,
        /// Seconds.
        life_s: u64,
        /// How many guests may come.
        uses: u32,
        /// What guests have to know.
        password: Option<String>,
        /// `thinc://` instead of `https://`.
        native: bool,
    },
    /// All invitations and viewers.
    List,
    /// A small picture of the screen.
    Thumbnail,
    /// Ends an invitation and its guests' visits.
    Revoke(u32),
    /// Ends a guest's visit.
    ThrowOut(u32),
    /// Lets a guest type and point, or not any more.
    Control {
        /// The guest's number.
        guest: u32,
        /// Whether it may.
        control: bool,
    },
    /// The broker serves this session, and guests come through it.
    Behind {
        /// The broker's link, without a token; none if its administrator allows no guests.
        origin: Option<String>,
        /// 16 hexadecimal digits that name the owner to the broker.
        owner: String,
        /// What its administrator has chosen for sessions that are opened and shown elsewhere.
        #[serde(default)]
        opening: Option<Opening>,
    },
    /// The broker asks for a guest's credential, which each admission is a use of the invitation
    /// for.
    Admit {
        /// Of the invitation, base64url.
        token: String,
        /// What the guest calls itself.
        name: String,
        /// Empty without one.
        password: String,
        /// The guest's address.
        from: SocketAddr,
    },
    /// From the answer on the connection is that of a guest's viewer.
    Visit {
        /// Base64url.
        credential: String,
        /// The guest's address.
        from: SocketAddr,
    },
    /// A guest ends its visit.
    Leave {
        /// Base64url.
        credential: String,
    },
    /// The session's person calls it this from now on.
    Rename(String),
    /// The supervisor has found out what draws 3D programs.
    Graphics(String),
    /// The file with what the session's person prefers has changed.
    PreferencesChanged,
    /// Shows this to the people at all viewers; where there is none, to the owner's next one.
    Notice(String),
    /// Sends files to a viewer of the owner's. The answer follows once they have arrived; who ends
    /// the connection before cancels it.
    Send {
        /// Absolute paths without links, as base64url.
        paths: Vec<String>,
        /// Viewers show why they were not sent.
        notify: bool,
    },
    /// Figures for monitoring.
    Figures,
}

/// An answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShareAnswer {
    /// To `Invite`.
    Invited {
        /// Its number.
        invitation: u32,
        /// Opens the session for guests.
        link: String,
    },
    /// To `List`.
    List {
        /// All, the oldest first.
        invitations: Vec<InvitationStatus>,
        /// All that are connected, the oldest first.
        viewers: Vec<ViewerStatus>,
    },
    /// To `Thumbnail`.
    Thumbnail {
        /// The screen's width and height.
        screen: (u32, u32),
        /// A JPEG file, base64url.
        jpeg: String,
    },
    /// To `Behind`.
    Behind {
        /// The desktop's, 16 hexadecimal digits.
        id: String,
    },
    /// To `Admit`.
    Admitted {
        /// Base64url.
        credential: String,
    },
    /// To `Admit`, `Visit` and `Leave`: there is no such invitation or guest, whatever the reason.
    NotInvited,
    /// To `Notice`: at how many viewers it is shown.
    Noticed(usize),
    /// To `Figures`.
    Figures(Box<SessionFigures>),
    /// To the others.
    Done,
    /// The request was invalid, or could not be met.
    Error(String),
}

/// One invitation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InvitationStatus {
    /// Its number.
    pub invitation: u32,
    /// What the owner calls it.
    pub name: String,
    /// Guests may type and point.
    pub control: bool,
    /// Guests hear the session.
    #[serde(default = "yes")]
    pub sound: bool,
    /// Guests that have come, and that may.
    pub used: u32,
    /// See `used`.
    pub uses: u32,
    /// It has a password.
    pub password: bool,
    /// Seconds since 1970.
    pub expiry_s: u64,
    /// `open`, `used`, `expired`, `revoked`, or `locked` after too many wrong passwords.
    pub state: String,
}

/// Of a session process that has no such right yet.
fn yes() -> bool {
    true
}

/// One connected viewer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ViewerStatus {
    /// A guest's number; none for the owner's viewers.
    pub guest: Option<u32>,
    /// The guest's invitation.
    pub invitation: Option<u32>,
    /// What the guest calls itself.
    pub name: Option<String>,
    /// Its input takes effect.
    pub control: bool,
    /// Its address and kind.
    pub from: String,
    /// When it was connected, in seconds since 1970; 0 from a session before this field.
    #[serde(default)]
    pub since_s: u64,
}

/// What requests need.
pub(crate) struct Sharing {
    pub(crate) front: Front,
    pub(crate) guests: Arc<Guests>,
    /// The session's link without a token; none without a port.
    pub(crate) link: Option<Link>,
    /// Whose pin links have.
    pub(crate) identity: Identity,
    pub(crate) events: Events,
    /// The broker that guests come through, which goes before the session's own port.
    pub(crate) broker: Mutex<Option<Broker>>,
}

/// What a broker has told of itself.
#[derive(Clone)]
pub(crate) struct Broker {
    /// With its pin; none if guests are not allowed.
    origin: Option<Link>,
    /// Names the desktop to it.
    desktop: [u8; DESKTOP_ID_BYTES],
    /// What its administrator has chosen.
    opening: Option<Opening>,
}

impl Broker {
    /// Where guests get in who have this token.
    fn link(self, mut token: Vec<u8>) -> Option<Link> {
        token.extend_from_slice(&self.desktop);
        let id: String = self.desktop.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Link { base_path: format!("/join/{id}/"), token: Some(token), ..self.origin? })
    }
}

/// Answers requests on this socket, without end.
pub(crate) fn listen(path: &Path, sharing: Arc<Sharing>) -> io::Result<()> {
    // A socket of an earlier session process.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    // The folder's mode keeps other users out; this mode does so again.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    tokio::spawn(async move {
        let free_connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while let Ok(permit) = free_connections.clone().acquire_owned().await {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept a request: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if trusted_peer(&stream).is_none() {
                continue;
            }
            let sharing = sharing.clone();
            tokio::spawn(async move {
                if let Err(error) = sharing.serve(stream, permit).await {
                    warn!("a request to share the session failed: {error}");
                }
            });
        }
    });
    Ok(())
}

impl Sharing {
    /// Only a few connections are served at a time; files that are sent wait for hours, and are
    /// limited by themselves.
    async fn serve(&self, stream: UnixStream, permit: OwnedSemaphorePermit) -> io::Result<()> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        let mut limited = (&mut reader).take(REQUEST_BYTES_MAX as u64);
        if !matches!(timeout(REQUEST_TIMEOUT, limited.read_line(&mut line)).await, Ok(Ok(_))) {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Ok(ShareRequest::Visit { credential, from }) => {
                return self.visit(&credential, from, reader.into_inner()).await;
            }
            Ok(ShareRequest::Send { paths, notify }) => {
                drop(permit);
                return self.send(paths, notify, reader.into_inner()).await;
            }
            Ok(request) => self.answer(request).await.unwrap_or_else(ShareAnswer::Error),
            Err(error) => ShareAnswer::Error(format!("invalid request: {error}")),
        };
        write_answer(&mut reader.into_inner(), &answer).await
    }

    /// Sends files, and answers at the end; the end of the connection cancels it.
    async fn send(
        &self,
        paths: Vec<String>,
        notify: bool,
        mut stream: UnixStream,
    ) -> io::Result<()> {
        let paths = paths
            .iter()
            .map(|path| Some(PathBuf::from(OsString::from_vec(base64url::decode(path)?))));
        let Some(paths) = paths.collect::<Option<Vec<PathBuf>>>() else {
            let invalid = ShareAnswer::Error("invalid request: a path".to_owned());
            return write_answer(&mut stream, &invalid).await;
        };
        let (answer, mut outcome) = oneshot::channel();
        let _ = self.events.send(Event::Files(FilesEvent::Send(paths, notify, answer))).await;
        let mut more = [0];
        let answer = tokio::select! {
            ended = &mut outcome => match ended {
                Ok(Ok(())) => ShareAnswer::Done,
                Ok(Err(why)) => ShareAnswer::Error(why),
                Err(_) => ShareAnswer::Error("the session is ending".to_owned()),
            },
            _ = stream.read(&mut more) => {
                drop(outcome);
                let _ = self.events.send(Event::Files(FilesEvent::GivenUp)).await;
                return Ok(());
            }
        };
        write_answer(&mut stream, &answer).await
    }

    /// The connection becomes that of a guest's viewer.
    async fn visit(
        &self,
        credential: &str,
        from: SocketAddr,
        mut stream: UnixStream,
    ) -> io::Result<()> {
        let Some(grant) = self.front.guest_of_credential(credential) else {
            return write_answer(&mut stream, &ShareAnswer::NotInvited).await;
        };
        // The broker sends nothing before it.
        write_answer(&mut stream, &ShareAnswer::Done).await?;
        let label = format!("{from} (through the broker)");
        local::serve_viewer(stream, label, Some(grant), self.front.ids(), self.events.clone());
        Ok(())
    }

    pub(crate) async fn answer(&self, request: ShareRequest) -> Result<ShareAnswer, String> {
        let text = |error: InvitationError| error.to_string();
        match request {
            ShareRequest::Invite {
                name,
                control,
                clipboard_to_session,
                clipboard_to_guest,
                without_sound,
                life_s,
                uses,
                password,
                native,
            } => {
                let broker = self.broker().clone();
                let own = match &broker {
                    Some(Broker { origin: None, .. }) => return Err(FORBIDDEN.to_owned()),
                    Some(_) => None,
                    None => Some(self.link.as_ref().ok_or(NO_PORT)?),
                };
                let password = match password {
                    Some(password) => Some(hashed(password).await?),
                    None => None,
                };
                let now_s = since_1970().as_secs();
                let terms = Terms {
                    name: clean_name(&name, UNNAMED),
                    expiry_s: now_s.saturating_add(life_s),
                    uses,
                    rights: GuestRights {
                        control,
                        clipboard_to_session,
                        clipboard_to_guest,
                        without_sound,
                    },
                    password,
                };
                let (number, token) = {
                    let mut record = self.guests.record();
                    let invitation = record.invite(terms, now_s).map_err(text)?.clone();
                    (invitation.number, record.token(&invitation))
                };
                self.changed().await;
                let scheme = if native { Scheme::Thinc } else { Scheme::Https };
                let link = match (broker, own) {
                    (Some(broker), _) => broker.link(token).ok_or(FORBIDDEN)?,
                    (None, own) => {
                        let pin = Some(self.identity.pin());
                        Link { token: Some(token), pin, ..own.ok_or(NO_PORT)?.clone() }
                    }
                };
                let link = link.with_scheme(scheme);
                info!("invitation {number}: created");
                Ok(ShareAnswer::Invited { invitation: number, link: link.to_string() })
            }
            ShareRequest::List => {
                let (answer, viewers) = oneshot::channel();
                let _ = self.events.send(Event::ListViewers(answer)).await;
                let viewers = viewers.await.map_err(|_| "the session is ending".to_owned())?;
                let record = self.guests.record();
                let now_s = since_1970().as_secs();
                let invitations = record
                    .all()
                    .iter()
                    .map(|invitation| status(invitation, record.state(invitation, now_s)))
                    .collect();
                Ok(ShareAnswer::List { invitations, viewers })
            }
            ShareRequest::Thumbnail => {
                let (answer, picture) = oneshot::channel();
                let _ = self.events.send(Event::Thumbnail(answer)).await;
                let picture = picture.await.map_err(|_| "the session is ending".to_owned())?;
                let (screen, size) = (picture.screen, picture.size);
                let file = tokio::task::spawn_blocking(move || {
                    thumbnail(&picture.pixels, (size.width, size.height))
                });
                let file = file.await.ok().flatten().ok_or("no thumbnail could be made")?;
                let jpeg = base64url::encode(&file);
                Ok(ShareAnswer::Thumbnail { screen: (screen.width, screen.height), jpeg })
            }
            ShareRequest::Behind { origin, owner, opening } => {
                let invalid = |what: &dyn fmt::Display| format!("invalid broker: {what}");
                let origin: Option<Link> = match origin {
                    Some(link) => Some(link.parse().map_err(|error| invalid(&error))?),
                    None => None,
                };
                let owner = u64::from_str_radix(&owner, 16).map_err(|error| invalid(&error))?;
                let id = self.front.session_id();
                let own = u64::from_str_radix(&id, 16).expect("it has 16 hexadecimal digits");
                let desktop = (u128::from(owner) << 64 | u128::from(own)).to_be_bytes();
                *self.broker() = Some(Broker { origin, desktop, opening });
                Ok(ShareAnswer::Behind { id })
            }
            ShareRequest::Admit { token, name, password, from } => {
                let token = base64url::decode(&token).unwrap_or_default();
                Ok(match self.guests.admit(&token, &name, &password, from).await {
                    None => ShareAnswer::NotInvited,
                    Some(grant) => {
                        let credential = base64url::encode(&self.front.new_credential(grant));
                        ShareAnswer::Admitted { credential }
                    }
                })
            }
            // `serve` needs the connection itself.
            ShareRequest::Visit { .. } => Err("a visit begins a connection".to_owned()),
            ShareRequest::Send { .. } => Err("sending files keeps its connection".to_owned()),
            ShareRequest::Leave { credential } => {
                let grant = self.front.guest_of_credential(&credential);
                let guest = grant.and_then(|grant| self.guests.number_of(grant));
                let Some(guest) = guest else { return Ok(ShareAnswer::NotInvited) };
                self.guests.record().throw_out(guest).map(drop).map_err(text)?;
                info!("guest {guest}: left");
                self.changed().await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Revoke(number) => {
                self.guests.record().revoke(number).map_err(text)?;
                info!("invitation {number}: revoked");
                self.changed().await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Rename(text) => {
                let title = title(&text).ok_or(TITLE_RULE)?;
                let _ = self.events.send(Event::Renamed(title)).await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Graphics(line) => {
                if line.len() > NOTICE_BYTES_MAX {
                    let (length, most) = (line.len(), NOTICE_BYTES_MAX);
                    return Err(format!("the line has {length} bytes; up to {most} are allowed"));
                }
                let _ = self.events.send(Event::Graphics(line)).await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::PreferencesChanged => {
                let _ = self.events.send(Event::PreferencesChanged).await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Notice(text) => {
                if text.is_empty() || text.len() > NOTICE_BYTES_MAX {
                    let (length, most) = (text.len(), NOTICE_BYTES_MAX);
                    return Err(format!("the message has {length} bytes; 1 to {most} are allowed"));
                }
                let (answer, shown) = oneshot::channel();
                let _ = self.events.send(Event::Notice(text, answer)).await;
                let shown = shown.await.map_err(|_| "the session is ending".to_owned())?;
                Ok(ShareAnswer::Noticed(shown))
            }
            ShareRequest::Figures => {
                let (answer, figures) = oneshot::channel();
                let _ = self.events.send(Event::Figures(answer)).await;
                let figures = figures.await.map_err(|_| "the session is ending".to_owned())?;
                Ok(ShareAnswer::Figures(Box::new(figures)))
            }
            ShareRequest::ThrowOut(guest) => {
                self.guests.record().throw_out(guest).map(drop).map_err(text)?;
                info!("guest {guest}: thrown out");
                self.changed().await;
                Ok(ShareAnswer::Done)
            }
            ShareRequest::Control { guest, control } => {
                self.guests.record().set_control(guest, control).map(drop).map_err(text)?;
                info!("guest {guest}: control {}", if control { "given" } else { "taken" });
                self.changed().await;
                Ok(ShareAnswer::Done)
            }
        }
    }

    /// What the administrator of the broker has chosen that the session was opened through.
    pub(crate) fn opening(&self) -> Option<Opening> {
        self.broker().as_ref()?.opening
    }

    fn broker(&self) -> MutexGuard<'_, Option<Broker>> {
        self.broker.lock().expect("no holder of this lock can panic")
    }

    /// The actor ends visits and changes rights before the answer is sent.
    async fn changed(&self) {
        let (done, changed) = oneshot::channel();
        if self.events.send(Event::GuestsChanged(done)).await.is_ok() {
            let _ = changed.await;
        }
    }
}

async fn write_answer(stream: &mut UnixStream, answer: &ShareAnswer) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(answer)?;
    bytes.push(b'\n');
    timeout(REQUEST_TIMEOUT, stream.write_all(&bytes)).await.unwrap_or(Ok(()))
}

async fn hashed(password: String) -> Result<String, String> {
    let is_valid = !password.is_empty() && password.len() <= PASSWORD_BYTES_MAX;
    if !is_valid || password.contains(is_deceptive) {
        return Err(format!(
            "a password has 1 to {PASSWORD_BYTES_MAX} bytes, and no control characters"
        ));
    }
    let hash = tokio::task::spawn_blocking(move || hash_password(&password));
    let hash = hash.await.map_err(|error| format!("cannot hash the password: {error}"))?;
    hash.map_err(|error| format!("cannot hash the password: {error}"))
}

fn status(invitation: &Invitation, state: Result<(), InvitationRefusal>) -> InvitationStatus {
    let Invitation { number, terms, used, .. } = invitation;
    let state = match state {
        Ok(()) => "open",
        Err(InvitationRefusal::Used) => "used",
        Err(InvitationRefusal::Expired) => "expired",
        Err(InvitationRefusal::Locked) => "locked",
        Err(InvitationRefusal::Revoked | InvitationRefusal::Invalid) => "revoked",
        Err(InvitationRefusal::StoreUnavailable) => "full",
    };
    InvitationStatus {
        invitation: *number,
        name: terms.name.clone(),
        control: terms.rights.control,
        sound: !terms.rights.without_sound,
        used: *used,
        uses: terms.uses,
        password: terms.password.is_some(),
        expiry_s: terms.expiry_s,
        state: state.to_owned(),
    }
}
