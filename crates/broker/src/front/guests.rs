//! Guests of people's desktops, who have no account: a page at `/join/ID/` and viewers in windows,
//! with the token of an invitation. Beside the path: from http.rs and native.rs, to the owner's
//! agent, which asks the session process; it alone decides who is let in, and what they may do.
//! The page itself is the broker's: a session's owner could change what its own process serves, and
//! all pages here have one origin. Knows IDs, tokens and credentials, of which it keeps none.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thinc_session_server::answer::{self, Answer, plain, serve_asset, with_header};
use thinc_session_server::gate::WRONG_SECRET_DELAY;
use thinc_session_server::pages::LEFT;
use thinc_session_server::websocket;
use thinc_transport::token::PAGE_KEY_LIFE_S;
use thinc_transport::{DESKTOP_ID_BYTES, Link, base64url, split_desktop_id, token::random};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::http::{self, Connection, ORIGIN_SECRET, Shared, check_origin};
use super::logins::Login;
use super::proxied::Peer;
use super::{relay, webtransport};
use crate::agent::{AgentAnswer, AgentRequest, SESSIONS_MAX};
use crate::message::Deed;

/// Where guests' pages are.
pub(super) const JOIN: &str = "/join/";
/// How long the owner's viewer waits until the session knows how guests get in. A session process
/// that is stopped, or busy, learns it later, and keeps nobody from its desktop.
const OFFER_WAIT: Duration = Duration::from_millis(500);
/// Before the bytes of a viewer's credential, which differ from those of an owner's by it.
const CREDENTIAL_MARK: &[u8; 8] = b"thinc-g1";
/// A guest's credential of a session is shorter.
const CREDENTIAL_BYTES_MAX: usize = 96;

/// Keys of guests' pages; past it the oldest is worth nothing, and its page uses a WebSocket.
const PAGE_KEYS_MAX: usize = 1024;

/// The answer to every refusal of a guest, whatever the reason.
pub(super) const NOT_INVITED: &str = "the invitation does not let you in: it was used, has \
    ended, was not copied completely, or the password is wrong; ask the owner of the desktop";

/// What links name a desktop by.
pub(super) type DesktopId = [u8; DESKTOP_ID_BYTES];

/// A desktop, and whose.
#[derive(Clone)]
struct Desktop {
    user: String,
    name: String,
}

/// The desktops that guests can be invited to.
pub(super) struct Guests {
    /// The administrator allows guests.
    is_allowed: bool,
    /// For links of people whose viewers name a host only.
    port: u16,
    desktops: Mutex<HashMap<DesktopId, Desktop>>,
    /// Of guests' pages, for WebTransport; the oldest first.
    page_keys: Mutex<VecDeque<PageKey>>,
}

/// Stands for a guest's credential where a page can show neither cookie nor secret.
struct PageKey {
    key: [u8; 32],
    guest: Admitted,
    ends: Instant,
}

/// A guest that was let in.
#[derive(Clone)]
pub(super) struct Admitted {
    id: DesktopId,
    credential: Vec<u8>,
}

/// A guest's connection to a session.
pub(super) struct Visit {
    pub(super) owner: Arc<Login>,
    pub(super) name: String,
    pub(super) session: UnixStream,
}

/// Why a guest who was let in is not connected.
pub(super) enum NoVisit {
    /// It may not stay.
    NotInvited,
    /// The desktop is not to be had now: a front that was just started learns of it when its owner
    /// opens it, or reconnects, which viewers do by themselves. So do those of guests.
    Later(String),
}

/// Names a user in the IDs of their desktops, so that no agent can register another user's.
fn owner_of(user: &str) -> [u8; 8] {
    let tag = Sha256::new_with_prefix(b"thinc desktop owner").chain_update(user).finalize();
    tag[..8].try_into().expect("a hash is longer")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The ID in a path.
pub(super) fn parse_id(text: &str) -> Option<DesktopId> {
    let is_id = text.len() == 2 * DESKTOP_ID_BYTES
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    is_id.then(|| u128::from_str_radix(text, 16).ok().map(u128::to_be_bytes)).flatten()
}

impl Guests {
    pub(super) fn new(is_allowed: bool, port: u16) -> Guests {
        Guests { is_allowed, port, desktops: Mutex::default(), page_keys: Mutex::default() }
    }

    fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
        mutex.lock().expect("no holder of this lock can panic")
    }

    /// A host as it stands in this server's links.
    pub(super) fn with_port(&self, host: &str) -> String {
        format!("{host}:{}", self.port)
    }

    /// A desktop of this user has this ID from now on. Each user has as many as they may have
    /// desktops, whatever their agent says, so that nobody's make room for another's.
    fn insert(&self, id: DesktopId, desktop: Desktop) {
        let mut desktops = Guests::lock(&self.desktops);
        desktops.retain(|_, other| other.user != desktop.user || other.name != desktop.name);
        let is_own = |(_, other): &(&DesktopId, &Desktop)| other.user == desktop.user;
        if desktops.iter().filter(is_own).count() >= SESSIONS_MAX
            && let Some((&own, _)) = desktops.iter().find(is_own)
        {
            desktops.remove(&own);
        }
        desktops.insert(id, desktop);
    }

    /// A key for pages of this guest.
    fn mint_page_key(&self, guest: Admitted) -> [u8; 32] {
        let mut keys = Guests::lock(&self.page_keys);
        if keys.len() >= PAGE_KEYS_MAX {
            keys.pop_front();
        }
        let (key, ends) = (random(), Instant::now() + Duration::from_secs(PAGE_KEY_LIFE_S));
        keys.push_back(PageKey { key, guest, ends });
        key
    }

    /// The guest of a key that this front has minted for pages of this desktop.
    pub(super) fn of_page_key(&self, id: DesktopId, key: &[u8]) -> Option<Admitted> {
        let keys = Guests::lock(&self.page_keys);
        // Of 256 random bits: how long comparing takes tells nothing of use.
        let found = keys.iter().find(|entry| entry.key == key && entry.guest.id == id)?;
        (found.ends > Instant::now()).then(|| found.guest.clone())
    }

    fn desktop(&self, id: &DesktopId) -> Option<Desktop> {
        Guests::lock(&self.desktops).get(id).cloned().filter(|_| self.is_allowed)
    }
}

/// Tells a session whose owner has opened it how guests get in. `host`: where the owner's viewer
/// has found the broker, with the port; without it the session has no links.
pub(super) async fn offer(
    shared: &Arc<Shared>,
    login: &Arc<Login>,
    name: &str,
    host: Option<String>,
) {
    let (shared, login, name) = (shared.clone(), login.clone(), name.to_owned());
    let offered = tokio::spawn(async move {
        let origin = host.and_then(|host| format!("https://{host}/").parse::<Link>().ok());
        let pin = Some(shared.identity.pin());
        let origin = origin.map(|link| Link { pin, ..link }.to_string());
        let owner = owner_of(&login.user);
        let request = AgentRequest::Share {
            name: name.clone(),
            origin: origin.filter(|_| shared.guests.is_allowed),
            owner: hex(&owner),
        };
        match login.ask(&request).await {
            Ok((AgentAnswer::Shared { id }, _)) => {
                let Ok(own) = u64::from_str_radix(&id, 16) else { return };
                let id = [owner, own.to_be_bytes()].concat().try_into().expect("two halves");
                shared.guests.insert(id, Desktop { user: login.user.clone(), name });
            }
            Ok(_) => {}
            // An agent, or a session, of a version without guests.
            Err(error) => debug!("{}'s desktop {name} has no guests: {error}", login.user),
        }
    });
    let _ = timeout(OFFER_WAIT, offered).await;
}

/// Lets a guest in who has this token, of an invitation and with the desktop's ID.
pub(super) async fn admit(
    shared: &Shared,
    token: &[u8],
    name: &str,
    password: &str,
    peer: Peer,
) -> Option<Admitted> {
    let found = split_desktop_id(token).and_then(|(token, id)| {
        let desktop = shared.guests.desktop(&id)?;
        Some((token, id, shared.logins.of_user(&desktop.user)?, desktop))
    });
    let Some((token, id, owner, desktop)) = found else {
        info!("{peer}: an invitation to no desktop");
        tokio::time::sleep(WRONG_SECRET_DELAY).await;
        return None;
    };
    let request = AgentRequest::Admit {
        name: desktop.name,
        token: base64url::encode(token),
        guest: name.to_owned(),
        password: password.to_owned(),
        from: peer.socket_address(),
    };
    match owner.ask_for_guest(&request).await {
        Ok((AgentAnswer::Admitted { credential }, _)) => {
            let credential = base64url::decode(&credential)
                .filter(|credential| credential.len() <= CREDENTIAL_BYTES_MAX)?;
            Some(Admitted { id, credential })
        }
        Ok((AgentAnswer::NotInvited, _)) => None,
        other => {
            warn!("{peer}: {}", relay::reason_of(other.map(|(answer, _)| answer)));
            None
        }
    }
}

impl Admitted {
    /// What a viewer in a window reconnects with.
    pub(super) fn viewer_credential(&self) -> Vec<u8> {
        [&CREDENTIAL_MARK[..], &self.id, &self.credential].concat()
    }

    /// The same read again; none if it is not a guest's.
    pub(super) fn of_viewer_credential(bytes: &[u8]) -> Option<Admitted> {
        let (id, credential) = bytes.strip_prefix(CREDENTIAL_MARK)?.split_first_chunk()?;
        Some(Admitted { id: *id, credential: credential.to_vec() })
    }

    /// Opens the session's side of a connection.
    pub(super) async fn visit(&self, shared: &Shared, peer: Peer) -> Result<Visit, NoVisit> {
        let (owner, name) = self.find(shared)?;
        let request = AgentRequest::Visit {
            name: name.clone(),
            credential: base64url::encode(&self.credential),
            from: peer.socket_address(),
        };
        match owner.ask_for_guest(&request).await {
            Ok((AgentAnswer::Opened, Some(session))) => {
                let session = relay::connected(session).map_err(NoVisit::Later)?;
                Ok(Visit { owner, name, session })
            }
            Ok((AgentAnswer::NotInvited, _)) => Err(NoVisit::NotInvited),
            other => Err(NoVisit::Later(relay::reason_of(other.map(|(answer, _)| answer)))),
        }
    }

    /// Whose desktop it is, and its name.
    fn find(&self, shared: &Shared) -> Result<(Arc<Login>, String), NoVisit> {
        let found = shared
            .guests
            .desktop(&self.id)
            .and_then(|desktop| Some((shared.logins.of_user(&desktop.user)?, desktop.name)));
        found.ok_or_else(|| NoVisit::Later("its owner has not opened the desktop".to_owned()))
    }

    async fn leave(&self, shared: &Shared) -> Result<(), NoVisit> {
        let (owner, name) = self.find(shared)?;
        let credential = base64url::encode(&self.credential);
        let request = AgentRequest::Leave { name, credential };
        match owner.ask_for_guest(&request).await {
            Ok((AgentAnswer::Ended | AgentAnswer::NotInvited, _)) => Ok(()),
            other => Err(NoVisit::Later(relay::reason_of(other.map(|(answer, _)| answer)))),
        }
    }

    /// A cookie and an origin secret of which neither alone tells anything of the credential.
    fn split(&self) -> ([u8; CREDENTIAL_BYTES_MAX], Vec<u8>) {
        let pad: [u8; CREDENTIAL_BYTES_MAX] = random();
        (pad, xor(&self.credential, &pad))
    }

    /// The guest of a request: both halves.
    fn of_headers(id: DesktopId, headers: &HeaderMap, secret: Option<Vec<u8>>) -> Option<Admitted> {
        let (secret, pad) = (secret?, cookie_of(&id, headers)?);
        let is_possible = (1..=pad.len()).contains(&secret.len());
        is_possible.then(|| Admitted { id, credential: xor(&secret, &pad) })
    }
}

fn xor(bytes: &[u8], pad: &[u8]) -> Vec<u8> {
    bytes.iter().zip(pad).map(|(byte, pad)| byte ^ pad).collect()
}

/// `__Host-`: only this host can set it, over https.
fn cookie_name(id: &DesktopId) -> String {
    format!("__Host-thinc-guest-{}", hex(id))
}

fn cookie_of(id: &DesktopId, headers: &HeaderMap) -> Option<[u8; CREDENTIAL_BYTES_MAX]> {
    let name = cookie_name(id);
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(cookie, _)| *cookie == name)
        .find_map(|(_, value)| base64url::decode(value)?.try_into().ok())
}

fn secret_of(headers: &HeaderMap) -> Option<Vec<u8>> {
    base64url::decode(headers.get(ORIGIN_SECRET)?.to_str().ok()?)
}

/// Answers a request below `/join/ID/`.
pub(super) async fn route(
    connection: &Arc<Connection>,
    id: DesktopId,
    file: &str,
    request: Request<Incoming>,
) -> Answer {
    match (request.method(), file) {
        (&Method::POST, "login") => log_in(connection, id, request).await,
        (&Method::POST, "logout") => leave(connection, id, request.headers()).await,
        (&Method::POST, LEFT) => {
            let headers = request.headers();
            let guest = Admitted::of_headers(id, headers, secret_of(headers));
            match (check_origin(headers), guest) {
                (Err(reason), _) => plain(StatusCode::FORBIDDEN, reason),
                (Ok(()), None) => not_invited(),
                (Ok(()), Some(guest)) => {
                    http::left(&connection.shared, &guest.viewer_credential(), request).await
                }
            }
        }
        (&Method::GET, "ws") => open(connection, id, request).await,
        // A page whose connection failed asks whether it may still come.
        (&Method::GET, "login") => {
            let headers = request.headers();
            let guest = Admitted::of_headers(id, headers, secret_of(headers));
            let Some(guest) = guest else { return not_invited() };
            match guest.visit(&connection.shared, connection.peer).await {
                Ok(_) => {
                    connection.set_guest();
                    plain(StatusCode::NO_CONTENT, "")
                }
                Err(reason) => no_visit(connection.peer, reason),
            }
        }
        (&Method::GET, webtransport::FILE) => {
            let (shared, headers) = (&connection.shared, request.headers());
            let guest = Admitted::of_headers(id, headers, secret_of(headers));
            let Some(guest) = guest else { return not_invited() };
            // Only guests get keys: strangers could use up those that there may be.
            match guest.visit(shared, connection.peer).await {
                Ok(_) => {
                    connection.set_guest();
                    connection.offer_webtransport(&shared.guests.mint_page_key(guest))
                }
                Err(reason) => no_visit(connection.peer, reason),
            }
        }
        (&Method::GET | &Method::HEAD, file) => {
            let file = match file {
                "" if cookie_of(&id, request.headers()).is_some() => "index.html",
                "" => "login.html",
                other => other,
            };
            match connection.shared.asset(file) {
                Some(asset) => serve_asset(asset, &request),
                None => plain(StatusCode::NOT_FOUND, "there is no such page"),
            }
        }
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD and POST only"),
    }
}

fn no_visit(peer: Peer, reason: NoVisit) -> Answer {
    match reason {
        NoVisit::NotInvited => {
            info!("{peer}: a guest is refused");
            not_invited()
        }
        NoVisit::Later(reason) => {
            info!("{peer}: a guest has to wait: {reason}");
            plain(StatusCode::SERVICE_UNAVAILABLE, "the desktop is not to be had at this moment")
        }
    }
}

fn not_invited() -> Answer {
    plain(StatusCode::UNAUTHORIZED, NOT_INVITED)
}

/// The body of a guest's login, as a page of `thinc serve` sends it.
#[derive(Deserialize)]
struct LoginBody {
    token: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: String,
}

#[derive(Serialize)]
struct LoggedIn {
    #[serde(rename = "originSecret")]
    origin_secret: String,
}

async fn log_in(connection: &Arc<Connection>, id: DesktopId, request: Request<Incoming>) -> Answer {
    if let Err(reason) = check_origin(request.headers()) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let LoginBody { token, name, password } =
        match answer::login_body(request, "expected {\"token\": \"…\"}").await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
    let token = base64url::decode(&token).unwrap_or_default();
    // The page is that of one desktop, and so are its cookie and its secret.
    let is_of_page = split_desktop_id(&token).is_some_and(|(_, of_token)| of_token == id);
    let (shared, peer) = (&connection.shared, connection.peer);
    let token = if is_of_page { token.as_slice() } else { &[] };
    let Some(guest) = admit(shared, token, &name, &password, peer).await else {
        return not_invited();
    };
    connection.set_guest();
    let (cookie, origin_secret) = guest.split();
    let cookie = format!(
        "{}={}; Secure; HttpOnly; SameSite=Strict; Path=/",
        cookie_name(&id),
        base64url::encode(&cookie)
    );
    let answer = answer::json(&LoggedIn { origin_secret: base64url::encode(&origin_secret) });
    with_header(answer, header::SET_COOKIE, &cookie)
}

async fn leave(connection: &Arc<Connection>, id: DesktopId, headers: &HeaderMap) -> Answer {
    if let Err(reason) = check_origin(headers) {
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let Some(guest) = Admitted::of_headers(id, headers, secret_of(headers)) else {
        return not_invited();
    };
    if let Err(reason) = guest.leave(&connection.shared).await {
        return no_visit(connection.peer, reason);
    }
    let gone =
        format!("{}=; Secure; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", cookie_name(&id));
    with_header(plain(StatusCode::NO_CONTENT, ""), header::SET_COOKIE, &gone)
}

/// Opens the desktop: from here on the viewer's bytes go to the session process and back.
async fn open(
    connection: &Arc<Connection>,
    id: DesktopId,
    mut request: Request<Incoming>,
) -> Answer {
    let peer = connection.peer;
    if let Err(reason) = check_origin(request.headers()) {
        info!("{peer}: WebSocket refused: {reason}");
        return plain(StatusCode::FORBIDDEN, reason);
    }
    let secret = websocket::offered_secret(request.headers());
    let Some(guest) = Admitted::of_headers(id, request.headers(), secret) else {
        return not_invited();
    };
    let visit = match guest.visit(&connection.shared, peer).await {
        Ok(visit) => visit,
        Err(reason) => return no_visit(peer, reason),
    };
    connection.set_guest();
    let Some(tcp) = connection.take_tcp() else {
        return plain(StatusCode::CONFLICT, "this connection is a WebSocket already");
    };
    let (upgraded, answer) = websocket::accept(&mut request);
    let Some(upgraded) = upgraded else { return answer };
    let connection = connection.clone();
    tokio::spawn(async move {
        let Visit { owner, name, session } = visit;
        let socket = match upgraded.await {
            Ok(upgraded) => websocket::over(upgraded).await,
            Err(error) => return debug!("{peer}: {error}"),
        };
        let (number, user) = (connection.number, owner.user.as_str());
        info!(connection = number, user, session = name, "{peer}: a guest of {user} sees {name}");
        let showing = connection.show(&owner, Deed::Visited, &name).await;
        if let Err(error) = relay::run(socket, session, tcp, showing.place()).await {
            debug!("{peer}: {error}");
        }
        info!(connection = number, user, session = name, "{peer}: a guest of {user} has left");
    });
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_32_hexadecimal_digits() {
        let id = [0x1f; 16];
        assert_eq!(parse_id(&hex(&id)), Some(id));
        let text = hex(&id);
        for bad in
            ["", &text[1..], &format!("{text}0"), &text.to_uppercase(), "../../../etc/passwd"]
        {
            assert_eq!(parse_id(bad), None, "{bad}");
        }
        let signed = format!("+{}", &text[1..]);
        assert_eq!(parse_id(&signed), None);
    }

    #[test]
    fn a_credential_is_read_from_both_halves_and_from_neither_alone() {
        let guest = Admitted { id: [3; 16], credential: vec![7; 64] };
        let (cookie, secret) = guest.split();
        assert_ne!(secret, guest.credential);
        let mut headers = HeaderMap::new();
        let text = format!("a=b; {}={}", cookie_name(&guest.id), base64url::encode(&cookie));
        headers.insert(header::COOKIE, text.parse().unwrap());
        let read = |id, secret| Admitted::of_headers(id, &headers, secret);
        let both = read(guest.id, Some(secret.clone())).unwrap();
        assert_eq!(both.credential, guest.credential);
        assert!(read(guest.id, None).is_none());
        assert!(read(guest.id, Some(Vec::new())).is_none());
        assert!(read(guest.id, Some(vec![0; 200])).is_none());
        assert!(read([4; 16], Some(secret)).is_none(), "another desktop's cookie");
        assert_ne!(guest.split().0, cookie, "fresh each time");

        let credential = guest.viewer_credential();
        let read = Admitted::of_viewer_credential(&credential).unwrap();
        assert_eq!((read.id, read.credential), (guest.id, guest.credential));
        assert!(Admitted::of_viewer_credential(&credential[..20]).is_none());
        assert!(Admitted::of_viewer_credential(&[0; 90]).is_none());
    }

    #[test]
    fn a_page_key_is_of_one_guest_and_one_desktop() {
        let guests = Guests::new(true, 443);
        let guest = |id| Admitted { id: [id; 16], credential: vec![id; 64] };
        let keys = [1, 2].map(|id| guests.mint_page_key(guest(id)));
        let found = guests.of_page_key([1; 16], &keys[0]).unwrap();
        assert_eq!((found.id, found.credential), ([1; 16], vec![1; 64]));
        assert!(guests.of_page_key([2; 16], &keys[0]).is_none());
        assert!(guests.of_page_key([1; 16], &keys[0][1..]).is_none());
        for _ in 0..PAGE_KEYS_MAX - 1 {
            guests.mint_page_key(guest(3));
        }
        assert!(guests.of_page_key([1; 16], &keys[0]).is_none(), "the oldest has made room");
        assert!(guests.of_page_key([2; 16], &keys[1]).is_some());
    }

    #[test]
    fn a_user_makes_no_room_among_the_desktops_of_others() {
        let guests = Guests::new(true, 443);
        let id = |number: usize| (number as u128).to_be_bytes();
        let of = |user: &str, name: String| Desktop { user: user.to_owned(), name };
        guests.insert(id(0), of("anna", "xfce".to_owned()));
        for number in 1..10_000 {
            guests.insert(id(number), of("otto", number.to_string()));
        }
        assert!(guests.desktop(&id(0)).is_some());
        assert_eq!(Guests::lock(&guests.desktops).len(), 1 + SESSIONS_MAX);
        // A desktop has one ID: the newest.
        guests.insert(id(1), of("anna", "xfce".to_owned()));
        assert!(guests.desktop(&id(0)).is_none() && guests.desktop(&id(1)).is_some());
    }

    #[test]
    fn desktops_of_two_users_have_different_ids() {
        assert_ne!(owner_of("anna"), owner_of("otto"));
    }
}
