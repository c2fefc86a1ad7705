//! Path 10/13: from session-core/update.rs, to viewer-core/decode.rs.
//! Links, pinned keys and connections by TLS 1.3 over TCP or by QUIC; with the feature `server` also tokens and the session's identity.
//! Knows bytes, addresses and secrets; never what the bytes mean beyond the first, authenticating, frames.
#![deny(unsafe_code)]

pub mod base64url;
pub mod client;
mod congestion;
#[cfg(feature = "server")]
pub mod identity;
pub mod link;
#[cfg(feature = "server")]
pub mod path;
pub mod pin;
pub mod quic;
#[cfg(feature = "server")]
pub mod socket;
pub mod stdio;
#[cfg(feature = "server")]
pub mod token;
#[cfg(feature = "server")]
pub mod web_certificate;

pub use client::{
    Came, ConnectError, ConnectOptions, Connection, Credential, Reached, Reader, TransportChoice, Via, Writer, connect,
    reach,
};
pub use link::{Link, LinkError, Scheme};
pub use pin::SpkiPin;

/// ALPN name of the native protocol; a connection that offers anything else is answered as HTTP/1.1.
pub const ALPN_NATIVE: &[u8] = b"thinc/1";

/// ALPN name of HTTP/1.1, for browsers.
pub const ALPN_HTTP: &[u8] = b"http/1.1";

/// ALPN name of HTTP/3, for browsers that come by WebTransport.
pub const ALPN_HTTP3: &[u8] = b"h3";

/// The port a session listens on unless told otherwise, and the one a `thinc://` link means when it names none.
pub const DEFAULT_PORT: u16 = 8443;
