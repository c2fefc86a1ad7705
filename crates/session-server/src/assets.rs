//! The web viewer's files, embedded in this binary. From build.rs, to http.rs. Knows names and
//! types; never who may have them.

use sha2::{Digest as _, Sha256};
use thinc_transport::base64url;

/// Name and contents of each file of web/dist.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/web_dist.rs"));

/// The only files served without a cookie.
const PUBLIC_FILES: [&str; 3] = ["login.html", "login.js", "style.css"];

/// See [`monitor`].
const MONITOR_FILES: [&str; 3] = ["monitor.html", "monitor.js", "monitor.css"];

/// One file.
#[derive(Debug)]
pub struct Asset {
    /// Its name in web/dist.
    pub name: &'static str,
    /// What is in it.
    pub bytes: &'static [u8],
    /// For the header of that name.
    pub content_type: &'static str,
    /// Changes with the bytes.
    pub etag: String,
}

impl Asset {
    /// True for the files of the login page.
    pub(crate) fn is_public(&self) -> bool {
        PUBLIC_FILES.contains(&self.name)
    }
}

/// Served if this binary was built without web/dist.
const NO_VIEWER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
    <title>thinc</title>\
    <h1>This build of thinc has no web viewer</h1>\
    <p>It was compiled before web/dist was built. Run <code>./dev build</code>, which builds \
    both, and start the session again; or open it with <code>thinc-view</code> and the \
    thinc:// link.</p></html>";

/// The page with figures, which is served on the port for them alone; nothing without web/dist.
pub(crate) fn monitor() -> Vec<Asset> {
    let files = FILES.iter().filter(|(name, _)| MONITOR_FILES.contains(name));
    files.map(|&(name, bytes)| asset(name, bytes)).collect()
}

/// All others, with their ETags; the pages always exist.
pub fn all() -> Vec<Asset> {
    let files = FILES.iter().filter(|(name, _)| !MONITOR_FILES.contains(name));
    let mut assets: Vec<Asset> = files.map(|&(name, bytes)| asset(name, bytes)).collect();
    for page in ["index.html", "login.html", "account.html", "desk.html"] {
        if !assets.iter().any(|asset| asset.name == page) {
            assets.push(asset(page, NO_VIEWER.as_bytes()));
        }
    }
    assets
}

fn asset(name: &'static str, bytes: &'static [u8]) -> Asset {
    let etag = format!("\"{}\"", base64url::encode(&Sha256::digest(bytes)[..12]));
    Asset { name, bytes, content_type: content_type(name), etag }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_pages_always_exist_and_only_the_login_page_is_public() {
        let assets = all();
        let find = |name: &str| assets.iter().find(|asset| asset.name == name).unwrap();
        assert!(find("login.html").is_public());
        assert!(!find("index.html").is_public());
        assert!(
            assets.iter().all(|asset| asset.name.ends_with(".html")
                || !asset.content_type.starts_with("text/html"))
        );
        // They are served on the port for figures alone.
        assert!(!assets.iter().any(|asset| asset.name.starts_with("monitor.")));
    }
}
