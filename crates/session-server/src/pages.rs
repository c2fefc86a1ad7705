//! Pages that are connected over WebTransport. Browsers do not end such a connection when its page
//! is left, and QUIC's own time-out is half a minute: the page says so by a request of its own over
//! HTTPS, which a browser sends after the page has gone. Beside the path: from webtransport.rs and
//! http.rs, of a session and of the broker's front. Knows numbers of pages, and whose they are;
//! never what a page shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Deserialize;
use thinc_transport::base64url;
use tokio::sync::Notify;

/// A page's number has 16 random bytes, which it makes when it is loaded: a page that was loaded
/// again is not ended by the one before it.
const PAGE_BYTES: usize = 16;
/// Below a desktop's address: what a page that is left requests.
pub const LEFT: &str = "left";

/// A page's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageId([u8; PAGE_BYTES]);

impl PageId {
    /// As pages write it, in base64url.
    pub fn parse(text: &str) -> Option<PageId> {
        base64url::decode(text)?.try_into().ok().map(PageId)
    }
}

/// The body of a request of a page that is left.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftBody {
    /// See [`PageId::parse`].
    pub page: String,
}

/// What the address of a page's WebTransport says: `key=KEY`, or `key=KEY&page=PAGE`.
#[derive(Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Stands for its login.
    pub key: Vec<u8>,
    /// Its number; older pages have none.
    pub page: Option<PageId>,
}

impl PageQuery {
    /// Reads the part after the question mark.
    pub fn parse(query: Option<&str>) -> Option<PageQuery> {
        let rest = query?.strip_prefix("key=")?;
        let (key, page) = match rest.split_once("&page=") {
            Some((key, page)) => (key, Some(PageId::parse(page)?)),
            None => (rest, None),
        };
        Some(PageQuery { key: base64url::decode(key)?, page })
    }
}

/// A connection of a page.
struct Entry {
    owner: Vec<u8>,
    page: PageId,
    left: Arc<Notify>,
}

#[derive(Default)]
struct Table {
    last: u64,
    entries: HashMap<u64, Entry>,
}

/// All that are connected. Connections are limited elsewhere, and so are these.
#[derive(Default)]
pub struct OpenPages(Mutex<Table>);

/// A page's connection, until this is dropped.
pub struct OpenPage {
    pages: Arc<OpenPages>,
    number: u64,
    left: Arc<Notify>,
}

impl OpenPages {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("no holder of this lock can panic")
    }

    /// A page of this owner is connected. `owner`: what its login is known by; nobody else's
    /// request ends it.
    pub fn enter(self: &Arc<Self>, owner: &[u8], page: PageId) -> OpenPage {
        let left = Arc::new(Notify::new());
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        table.entries.insert(number, Entry { owner: owner.to_owned(), page, left: left.clone() });
        OpenPage { pages: self.clone(), number, left }
    }

    /// Ends the connections of a page that is left.
    pub fn leave(&self, owner: &[u8], page: PageId) {
        let table = self.lock();
        let is_it = |entry: &&Entry| entry.owner == owner && entry.page == page;
        table.entries.values().filter(is_it).for_each(|entry| entry.left.notify_one());
    }
}

impl OpenPage {
    /// Waits until the page is left.
    pub async fn has_left(&self) {
        self.left.notified().await;
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.pages.lock().entries.remove(&self.number);
    }
}

/// Waits until a page is left; without a number it never says so.
pub async fn has_left(page: Option<&OpenPage>) {
    match page {
        Some(page) => page.has_left().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn an_address_has_a_key_and_perhaps_a_page() {
        let key = base64url::encode(&[5; 40]);
        let page = base64url::encode(&[7; PAGE_BYTES]);
        let parsed = |text: &str| PageQuery::parse(Some(text));
        let with = Some(PageQuery { key: vec![5; 40], page: Some(PageId([7; PAGE_BYTES])) });
        assert_eq!(parsed(&format!("key={key}&page={page}")), with);
        let without = Some(PageQuery { key: vec![5; 40], page: None });
        assert_eq!(parsed(&format!("key={key}")), without);
        let bad = ["", "key", "page=", &format!("key={key}&page="), &format!("key={key}&x=1")];
        for bad in bad {
            assert_eq!(parsed(bad), None, "{bad}");
        }
        assert_eq!(parsed(&format!("key={key}&page={}", &page[1..])), None);
        assert_eq!(PageQuery::parse(None), None);
    }

    #[test]
    fn only_the_owner_ends_a_page_and_only_that_page() {
        let pages = Arc::new(OpenPages::default());
        let (one, two) = (PageId([1; PAGE_BYTES]), PageId([2; PAGE_BYTES]));
        let open = pages.enter(b"anna", one);
        let is_over = |open: &OpenPage| {
            let mut context = Context::from_waker(Waker::noop());
            pin!(open.has_left()).poll(&mut context).is_ready()
        };
        pages.leave(b"otto", one);
        pages.leave(b"anna", two);
        assert!(!is_over(&open));
        pages.leave(b"anna", one);
        assert!(is_over(&open));
        drop(open);
        assert!(pages.lock().entries.is_empty());
    }
}
