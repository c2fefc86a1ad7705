//! Path 10/13 by WebTransport: one browser's viewer over QUIC, on one stream as over a WebSocket, and in datagrams beside it.
//! From front.rs, to native.rs, which moves the bytes; a page that the cookie let in (http.rs) brings a key, for browsers send no
//! cookies here. Knows requests and keys; never what the stream carries.

use std::sync::Arc;

use thinc_transport::base64url;
use thinc_transport::path::Path;
use thinc_transport::quic::{Asked, Browser, Datagrams};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info};

use crate::front::{Shared, Visitor};
use crate::gate::{LOGIN_GRACE, PENALTY};
use crate::{http, native};

/// Below the session's base path: over HTTPS how to come, over HTTP/3 the coming.
pub(crate) const FILE: &str = "webtransport";

/// Serves a browser until its connection ends.
pub(crate) async fn serve(shared: Arc<Shared>, browser: Browser, visitor: Visitor, deadline: Instant) {
    let peer = visitor.peer;
    let admitted = async {
        let request = browser.request().await?;
        let Err(refusal) = check(&shared, request.asked()) else { return request.accept().await.map(Some) };
        info!("{peer}: WebTransport refused: {}", refusal.words());
        if matches!(refusal, Refusal::Key) {
            tokio::time::sleep(PENALTY).await;
        }
        request.refuse(refusal.status()).await.map(|()| None)
    };
    match timeout_at(deadline, admitted).await {
        Err(_) => debug!("{peer}: no session of WebTransport within {LOGIN_GRACE:?}"),
        Ok(Err(error)) => debug!("{peer}: {error}"),
        Ok(Ok(None)) => {}
        Ok(Ok(Some(stream))) => {
            stream.trust();
            let path = Some(Path::Quic(stream.path()));
            let label = format!("{peer} (browser, WebTransport)");
            let datagrams = Some(stream.datagrams()).filter(Datagrams::are_taken);
            native::carry(&shared, stream, visitor, label, (path, datagrams), Vec::new()).await;
        }
    }
}

/// Why a page is not let in.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It asks for something else.
    Path,
    /// It is another site's, or does not say whose.
    Origin(&'static str),
    /// Its key is wrong or too old.
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

    fn words(&self) -> &'static str {
        match self {
            Refusal::Path => "there is nothing at this address",
            Refusal::Origin(words) => words,
            Refusal::Key => "its key is wrong or too old",
        }
    }
}

fn check(shared: &Shared, asked: Asked<'_>) -> Result<(), Refusal> {
    if asked.path.strip_prefix(shared.site.base_path.as_str()) != Some(FILE) {
        return Err(Refusal::Path);
    }
    let origin = asked.origin.ok_or(Refusal::Origin("the browser does not say which page asks"))?;
    http::check_origin(&shared.site, origin, Some(asked.authority)).map_err(Refusal::Origin)?;
    let key = asked.query.and_then(|query| query.strip_prefix("key=")).and_then(base64url::decode);
    if key.is_some_and(|key| shared.is_page_key(&key)) { Ok(()) } else { Err(Refusal::Key) }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, OnceLock};

    use thinc_transport::token::{SessionSecret, TokenGate};

    use super::*;
    use crate::PortConfig;
    use crate::connection::{self, Ids};
    use crate::http::Site;

    fn shared() -> Shared {
        let folder = std::env::temp_dir().join(format!("thinc-webtransport-{}", std::process::id()));
        let config = PortConfig {
            secret: String::new(),
            used_tokens: folder.clone(),
            tls_cert: folder.clone(),
            tls_key: folder.clone(),
            base_path: "/desk/".into(),
            authority: "desk.example:8443".into(),
        };
        let secret = SessionSecret([7; 32]);
        let site = Site::new(&config, &secret);
        let tokens = Mutex::new(TokenGate::open(secret, &folder).unwrap());
        std::fs::remove_file(&folder).unwrap();
        let (events, _) = connection::channel();
        Shared { tokens, events, ids: Ids::default(), site, web_certificate: OnceLock::new() }
    }

    #[test]
    fn only_a_page_of_the_session_with_a_key_of_its_own_comes_in() {
        let shared = shared();
        let good = format!("key={}", base64url::encode(&shared.new_page_key()));
        let asked = Asked {
            authority: "127.0.0.1:8443",
            path: "/desk/webtransport",
            query: Some(&good),
            origin: Some("https://127.0.0.1:8443"),
        };
        assert_eq!(check(&shared, asked), Ok(()));
        assert_eq!(
            check(&shared, Asked { origin: Some("https://desk.example:8443"), ..asked }),
            Ok(()),
            "behind a proxy"
        );
        for path in ["/webtransport", "/desk/", "/desk/ws", "/desk/webtransport/", "/desk//webtransport"] {
            assert_eq!(check(&shared, Asked { path, ..asked }), Err(Refusal::Path), "{path}");
        }
        for origin in [
            None,
            Some("https://127.0.0.1:9"),
            Some("http://127.0.0.1:8443"),
            Some("https://evil.example"),
            Some("null"),
        ] {
            assert!(matches!(check(&shared, Asked { origin, ..asked }), Err(Refusal::Origin(_))), "{origin:?}");
        }
        let token = shared.tokens.lock().unwrap().secret().mint_token(crate::front::since_1970().as_secs());
        let session_key = shared.new_session_key();
        let wrong = [token, session_key].map(|key| format!("key={}", base64url::encode(&key)));
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
            assert_eq!(check(&shared, Asked { query, ..asked }), Err(Refusal::Key), "{query:?}");
        }
    }
}
