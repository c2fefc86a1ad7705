//! Path 10/13 over WebTransport: one browser's viewer over QUIC, on one stream as over a WebSocket,
//! and with datagrams. From front.rs, to native.rs, which forwards the bytes; a page authenticated
//! by its login (http.rs) shows a key, because browsers send no cookies here. Knows requests and
//! keys; never what the stream carries.

use std::sync::Arc;

use thinc_transport::path::Path;
use thinc_transport::quic::{Browser, Datagrams, RequestHead};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info};

use crate::front::{Login, NewConnection, Shared};
use crate::gate::{AUTH_TIMEOUT, WRONG_SECRET_DELAY};
use crate::pages::{PageId, PageQuery, has_left};
use crate::{http, native};

/// Below the session's base path: an HTTPS request gets the connection's parameters, an HTTP/3
/// CONNECT opens the connection.
pub(crate) const FILE: &str = "webtransport";

/// Serves a browser until its connection ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    browser: Browser,
    mut connection: NewConnection,
    deadline: Instant,
) {
    let peer = connection.peer;
    let admitted = async {
        let request = browser.request().await?;
        let refusal = match check(&shared, request.head()) {
            Ok(page) => return Ok(Some((request.accept().await?, page))),
            Err(refusal) => refusal,
        };
        info!("{peer}: WebTransport refused: {}", refusal.reason());
        if matches!(refusal, Refusal::Key) {
            tokio::time::sleep(WRONG_SECRET_DELAY).await;
        }
        request.refuse(refusal.status()).await.map(|()| None)
    };
    match timeout_at(deadline, admitted).await {
        Err(_) => debug!("{peer}: no WebTransport session within {AUTH_TIMEOUT:?}"),
        Ok(Err(error)) => debug!("{peer}: {error}"),
        Ok(Ok(None)) => {}
        Ok(Ok(Some((stream, (login, page))))) => {
            connection.guest = login.grant;
            let page = page.map(|page| shared.pages.enter(&login.id.0, page));
            let over = async {
                tokio::select! {
                    () = shared.login_ended([login.id]) => {}
                    () = has_left(page.as_ref()) => debug!("{peer}: the page was left"),
                }
            };
            stream.set_authenticated();
            let path = Some(Path::Quic(stream.path()));
            let label = format!("{peer} (browser, WebTransport)");
            let datagrams = Some(stream.datagrams()).filter(Datagrams::are_supported);
            native::serve_authenticated(
                &shared,
                stream,
                connection,
                label,
                (path, datagrams),
                Vec::new(),
                over,
            )
            .await;
        }
    }
}

/// Why a page is refused.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It requests another path.
    Path,
    /// Its origin is another site, or is missing.
    Origin(&'static str),
    /// Its key is wrong or has expired.
    Key,
}

impl Refusal {
    fn status(&self) -> u16 {
        match self {
            Refusal::Path => 404,
            Refusal::Origin(_) => 403,
            Refusal::Key => 401,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Refusal::Path => "there is nothing at this address",
            Refusal::Origin(reason) => reason,
            Refusal::Key => "its key is wrong or has expired",
        }
    }
}

/// The login of the page that requests, and its number.
fn check(shared: &Shared, request: RequestHead<'_>) -> Result<(Login, Option<PageId>), Refusal> {
    if request.path.strip_prefix(shared.site.base_path.as_str()) != Some(FILE) {
        return Err(Refusal::Path);
    }
    let origin = request.origin.ok_or(Refusal::Origin("the request has no Origin header"))?;
    http::check_origin(&shared.site, origin, Some(request.authority)).map_err(Refusal::Origin)?;
    let PageQuery { key, page } = PageQuery::parse(request.query).ok_or(Refusal::Key)?;
    Ok((shared.login_of_page_key(&key).ok_or(Refusal::Key)?, page))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, OnceLock};

    use thinc_transport::base64url;
    use thinc_transport::invitation::{GuestRights, Invitations, Terms};
    use thinc_transport::token::{SessionSecret, TokenVerifier};

    use super::*;
    use crate::PortConfig;
    use crate::connection::{self, ConnectionIds};
    use crate::guests::Guests;
    use crate::http::Site;

    fn shared() -> Shared {
        // Each of the tests that run at once has its own.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("thinc-webtransport-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let config = PortConfig {
            secret: String::new(),
            used_tokens: folder.clone(),
            invitations: folder.clone(),
            link: None,
            udp_ports: None,
            tls_cert: folder.clone(),
            tls_key: folder.clone(),
            is_renewed: false,
            base_path: "/desk/".into(),
            authority: "desk.example:8443".into(),
        };
        let secret = SessionSecret([7; 32]);
        let site = Site::new(&config, &secret);
        let tokens = Mutex::new(TokenVerifier::open(secret, &folder).unwrap());
        let invitations = Invitations::open(SessionSecret([7; 32]), &folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        let (events, _) = connection::channel();
        Shared {
            tokens,
            guests: Arc::new(Guests::new(invitations)),
            events,
            ids: ConnectionIds::default(),
            site,
            logins_ended: Default::default(),
            browsers: crate::gate::BrowserConnections::default(),
            pages: Arc::default(),
            web_certificate: OnceLock::new(),
        }
    }

    #[test]
    fn only_a_page_of_the_session_with_a_valid_key_is_accepted() {
        let shared = shared();
        let login = shared.login_of_cookie(&shared.new_browser_login(None).cookie).unwrap();
        let good = format!("key={}", base64url::encode(&shared.new_page_key(login)));
        let request = RequestHead {
            authority: "127.0.0.1:8443",
            path: "/desk/webtransport",
            query: Some(&good),
            origin: Some("https://127.0.0.1:8443"),
        };
        assert_eq!(check(&shared, request), Ok((login, None)));
        let page = base64url::encode(&[7; 16]);
        let numbered = format!("{good}&page={page}");
        assert_eq!(
            check(&shared, RequestHead { query: Some(&numbered), ..request }),
            Ok((login, PageId::parse(&page))),
        );
        assert_eq!(
            check(&shared, RequestHead { origin: Some("https://desk.example:8443"), ..request }),
            Ok((login, None)),
            "behind a proxy"
        );
        for path in
            ["/webtransport", "/desk/", "/desk/ws", "/desk/webtransport/", "/desk//webtransport"]
        {
            assert_eq!(
                check(&shared, RequestHead { path, ..request }),
                Err(Refusal::Path),
                "{path}"
            );
        }
        for origin in [
            None,
            Some("https://127.0.0.1:9"),
            Some("http://127.0.0.1:8443"),
            Some("https://evil.example"),
            Some("null"),
        ] {
            assert!(
                matches!(
                    check(&shared, RequestHead { origin, ..request }),
                    Err(Refusal::Origin(_))
                ),
                "{origin:?}"
            );
        }
        let token =
            shared.tokens.lock().unwrap().secret().mint_token(crate::front::since_1970().as_secs());
        let session_credential = shared.new_session_credential(None);
        let wrong =
            [token, session_credential].map(|key| format!("key={}", base64url::encode(&key)));
        let wrong = [
            None,
            Some(""),
            Some("key="),
            Some(&good[4..]),
            Some(&good[..good.len() - 1]),
            Some(&wrong[0]),
            Some(&wrong[1]),
        ];
        for query in wrong {
            assert_eq!(
                check(&shared, RequestHead { query, ..request }),
                Err(Refusal::Key),
                "{query:?}"
            );
        }
        shared.end_login(login.id).unwrap();
        assert_eq!(check(&shared, request), Err(Refusal::Key), "it ends with the login");
    }

    #[test]
    fn a_guests_key_opens_a_guests_connection_until_the_visit_ends() {
        let shared = shared();
        let now_s = crate::front::since_1970().as_secs();
        let terms = Terms {
            name: "-".into(),
            expiry_s: now_s + 100,
            uses: 1,
            rights: GuestRights::default(),
            password: None,
        };
        let grant = {
            let mut record = shared.guests.record();
            let invitation = record.invite(terms, now_s).unwrap().clone();
            let token = record.token(&invitation);
            record.admit(&token, "Ada", now_s).unwrap()
        };
        let login = shared.login_of_cookie(&shared.new_browser_login(Some(grant)).cookie).unwrap();
        assert_eq!(login.grant, Some(grant));
        let key = format!("key={}", base64url::encode(&shared.new_page_key(login)));
        let request = RequestHead {
            authority: "127.0.0.1:8443",
            path: "/desk/webtransport",
            query: Some(&key),
            origin: Some("https://127.0.0.1:8443"),
        };
        let expected = Ok((login, None));
        assert_eq!(check(&shared, request), expected, "of a guest, never of the owner");
        shared.guests.record().throw_out(1).unwrap();
        assert_eq!(check(&shared, request), Err(Refusal::Key), "it ends with the visit");
    }
}
