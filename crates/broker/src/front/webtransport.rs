//! A page's viewer over WebTransport, of a person or a guest: the key that its own request over
//! HTTPS has brought it, then the bytes of a desktop in both directions. Beside the path: from
//! quic.rs, to relay.rs. Browsers send no cookies here. Knows keys and names of desktops; never
//! what the stream carries.

use std::sync::Arc;

use thinc_session_server::front::since_1970;
use thinc_session_server::gate::{AUTH_TIMEOUT, WRONG_SECRET_DELAY};
use thinc_session_server::pages::{OpenPage, PageQuery, has_left};
use thinc_transport::quic::{Browser, QuicStream, RequestHead};
use thinc_transport::token::{LoginId, SessionSecret};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use super::guests::{self, Admitted, DesktopId, JOIN, NoVisit, Visit};
use super::http::{DESKS, NewConnection, Shared};
use super::logins::{Login, Logins};
use super::relay::{self, ViewerTransport as _};
use crate::agent::is_session_name;
use crate::message::Deed;
use crate::monitor::TransportKind;

/// Below a desktop's address: an HTTPS request gets the connection's parameters, an HTTP/3 CONNECT
/// opens the connection.
pub(super) const FILE: &str = "webtransport";

/// Mints and checks the keys of pages; those of a front before this one are worth nothing.
pub(super) struct PageKeys(SessionSecret);

impl PageKeys {
    pub(super) fn new() -> PageKeys {
        PageKeys(SessionSecret(thinc_transport::token::random()))
    }

    /// A key for pages of this login.
    pub(super) fn mint(&self, login: &Login) -> Vec<u8> {
        self.0.mint_page_key(LoginId(login.number()), since_1970().as_secs())
    }

    fn login(&self, key: &[u8], logins: &Logins) -> Option<Arc<Login>> {
        let LoginId(number) = self.0.login_of_page_key(key, since_1970().as_secs())?;
        logins.of_number(number)
    }
}

/// Why a page is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It requests another path.
    Path,
    /// Its origin is another site, or is missing.
    Origin,
    /// Its key is wrong or has expired.
    Key,
    /// Its desktop does not run any more.
    Desktop,
}

impl Refusal {
    fn status(&self) -> u16 {
        match self {
            Refusal::Path | Refusal::Desktop => 404,
            Refusal::Origin => 403,
            Refusal::Key => 401,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Refusal::Path => "there is nothing at this address",
            Refusal::Origin => "another site may not use this one",
            Refusal::Key => "its key is wrong or has expired",
            Refusal::Desktop => "there is no such desktop",
        }
    }
}

/// What a page may open.
enum Wanted {
    /// A desktop of this person.
    Own(Arc<Login>, String),
    /// The desktop that this guest was let in to.
    Guests(Admitted),
}

impl Wanted {
    /// What the page's login is known by.
    fn owner(&self) -> Vec<u8> {
        match self {
            Wanted::Own(login, _) => login.number().to_vec(),
            Wanted::Guests(guest) => guest.viewer_credential(),
        }
    }
}

/// What a page has opened.
struct Opened {
    stream: QuicStream,
    owner: Arc<Login>,
    name: String,
    session: UnixStream,
    /// Its viewer is the owner's, or a guest's.
    deed: Deed,
    page: Option<OpenPage>,
}

/// Serves a browser until its connection ends.
pub(super) async fn serve(
    shared: Arc<Shared>,
    browser: Browser,
    connection: NewConnection,
    deadline: Instant,
) {
    let NewConnection { number, peer, task: _, pass } = connection;
    let admitted = async {
        let request = browser.request().await?;
        let wanted = check(&shared, request.head());
        let page = wanted.as_ref().ok().and_then(|wanted| {
            let page = PageQuery::parse(request.head().query)?.page?;
            Some(shared.pages.enter(&wanted.owner(), page))
        });
        let opened = match wanted {
            Err(refusal) => Err(refusal),
            Ok(Wanted::Own(owner, name)) => match relay::open(&owner, &name).await {
                Err(reason) => {
                    let (connection, user) = (number, owner.user.as_str());
                    info!(connection, user, session = name, "{peer}: cannot open {name}: {reason}");
                    Err(Refusal::Desktop)
                }
                Ok(session) => {
                    let host = Some(request.head().authority.to_owned());
                    guests::offer(&shared, &owner, &name, host).await;
                    Ok((owner, name, session, Deed::Opened))
                }
            },
            Ok(Wanted::Guests(guest)) => match guest.visit(&shared, peer).await {
                Err(NoVisit::NotInvited) => Err(Refusal::Key),
                Err(NoVisit::Later(reason)) => {
                    info!("{peer}: a guest has to wait: {reason}");
                    Err(Refusal::Desktop)
                }
                Ok(Visit { owner, name, session }) => Ok((owner, name, session, Deed::Visited)),
            },
        };
        let refusal = match opened {
            Ok((owner, name, session, deed)) => {
                let stream = request.accept().await?;
                return Ok(Some(Opened { stream, owner, name, session, deed, page }));
            }
            Err(refusal) => refusal,
        };
        info!(connection = number, "{peer}: WebTransport refused: {}", refusal.reason());
        if refusal == Refusal::Key {
            tokio::time::sleep(WRONG_SECRET_DELAY).await;
        }
        request.refuse(refusal.status()).await.map(|()| None)
    };
    let opened = match timeout_at(deadline, admitted).await {
        Err(_) => return debug!("{peer}: no WebTransport session within {AUTH_TIMEOUT:?}"),
        Ok(Err::<_, std::io::Error>(error)) => return debug!("{peer}: {error}"),
        Ok(Ok(None)) => return,
        Ok(Ok(Some(opened))) => opened,
    };
    let Opened { mut stream, owner, name, session, deed, page } = opened;
    drop(pass);
    stream.set_authenticated();
    let is_guest = deed == Deed::Visited;
    let who = if is_guest { "a guest of " } else { "" };
    let (connection, user) = (number, owner.user.as_str());
    info!(connection, user, session = name, "{peer}: {who}{user} opens {name} (WebTransport)");
    let (logins, transport) = (&shared.logins, TransportKind::WebTransport);
    let showing = logins.show(&owner, peer.address, number, deed, &name, transport).await;
    let owner_left = async {
        match is_guest {
            true => std::future::pending().await,
            false => owner.has_ended().await,
        }
    };
    tokio::select! {
        result = stream.relay_to(session, Vec::new(), showing.place()) => {
            if let Err(error) = result {
                warn_unless_ended(peer, &error);
            }
        }
        () = owner_left => {}
        () = has_left(page.as_ref()) => {}
    }
    info!(connection, user, session = name, "{peer}: {who}{user} has left");
}

fn warn_unless_ended(peer: super::proxied::Peer, error: &std::io::Error) {
    match error.kind() {
        std::io::ErrorKind::InvalidData => warn!("{peer}: {error}"),
        _ => debug!("{peer}: {error}"),
    }
}

/// Whose page requests which desktop.
fn check(shared: &Shared, request: RequestHead<'_>) -> Result<Wanted, Refusal> {
    let desktop = desktop_of(request.path).ok_or(Refusal::Path)?;
    let origin = request.origin.and_then(|origin| origin.strip_prefix("https://"));
    if !origin.is_some_and(|origin| origin.eq_ignore_ascii_case(request.authority)) {
        return Err(Refusal::Origin);
    }
    let PageQuery { key, .. } = PageQuery::parse(request.query).ok_or(Refusal::Key)?;
    match desktop {
        Desktop::Own(name) => {
            let login = shared.page_keys.login(&key, &shared.logins).ok_or(Refusal::Key)?;
            Ok(Wanted::Own(login, name.to_owned()))
        }
        Desktop::Guests(id) => {
            shared.guests.of_page_key(id, &key).map(Wanted::Guests).ok_or(Refusal::Key)
        }
    }
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
enum Desktop<'a> {
    Own(&'a str),
    Guests(DesktopId),
}

fn desktop_of(path: &str) -> Option<Desktop<'_>> {
    if let Some(rest) = path.strip_prefix(JOIN) {
        let (id, file) = rest.split_once('/')?;
        return guests::parse_id(id).filter(|_| file == FILE).map(Desktop::Guests);
    }
    let (name, file) = path.strip_prefix(DESKS)?.split_once('/')?;
    (file == FILE && is_session_name(name)).then_some(Desktop::Own(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_address_of_a_desktop_is_served() {
        assert_eq!(desktop_of("/desk/xfce/webtransport"), Some(Desktop::Own("xfce")));
        let id = "0".repeat(31) + "7";
        let guests = desktop_of(&format!("/join/{id}/webtransport")).map(|it| format!("{it:?}"));
        assert!(guests.is_some_and(|it| it.starts_with("Guests")));
        assert_eq!(desktop_of(&format!("/join/{id}/ws")), None);
        for path in [
            "/webtransport",
            "/desk/webtransport",
            "/desk//webtransport",
            "/desk/../webtransport",
            "/desk/xfce/ws",
            "/desk/xfce/webtransport/",
            "/desk/xfce",
            "/join/xfce/webtransport",
        ] {
            assert_eq!(desktop_of(path), None, "{path}");
        }
    }
}
