//! Path 10/13: from session-core/delivery/ledger.rs, to viewer-core/decode.rs.
//! Links, pinned keys, and connections over QUIC or over TLS 1.3 and TCP; with the feature `server`
//! also tokens and the session's identity. Knows bytes, addresses and secrets; never what the bytes
//! mean after authentication.
#![deny(unsafe_code)]

mod append;
pub mod base64url;
mod client;
mod congestion;
pub mod core_dumps;
pub mod device;
pub mod host;
#[cfg(feature = "server")]
pub mod identity;
#[cfg(feature = "server")]
pub mod invitation;
pub mod link;
pub mod offer;
pub mod parity;
pub mod password;
#[cfg(feature = "server")]
pub mod path;
mod pin;
pub mod quic;
#[cfg(feature = "server")]
pub mod relay;
#[cfg(feature = "server")]
pub mod renewal;
pub mod socket;
pub mod stdio;
#[cfg(feature = "server")]
pub mod token;
#[cfg(feature = "server")]
pub mod web_certificate;

pub use client::{
    Answer, ConnectError, ConnectOptions, Connection, Established, Reader, Received,
    TransportChoice, TransportKind, Writer, connect, establish, https, is_near,
};
pub use link::{
    DESKTOP_ID_BYTES, GuestLogin, InvitationHint, Link, LinkError, Scheme, split_desktop_id,
};
pub use pin::SpkiPin;

/// ALPN name of the native protocol; a TCP connection that offers anything else is answered as
/// HTTP/1.1.
pub const ALPN_NATIVE: &[u8] = b"thinc/1";

/// ALPN name of HTTP/1.1, for browsers.
pub(crate) const ALPN_HTTP: &[u8] = b"http/1.1";

/// ALPN name of HTTP/3, for browsers that connect with WebTransport.
pub(crate) const ALPN_HTTP3: &[u8] = b"h3";

/// The default port of a session, and that of a `thinc://` link that names none.
pub const DEFAULT_PORT: u16 = 8443;
