//! `thinc send`: sends files of a session to the computer of the person who shows it. From a
//! program or a user's shell, to the session process (session-server's share.rs and files.rs),
//! which reads them. Knows paths and how the transfer ended.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use thinc_session_server::{ShareAnswer, ShareRequest};
use thinc_transport::base64url;

use crate::cli::SendFiles;
use crate::share::{self, SendError};
use crate::terminal::{print, print_error};
use crate::{MainError, clients, runtime_dir};

/// Programs of a session find its socket by this variable: their `XDG_RUNTIME_DIR` is the session's
/// own, in which no other session is found.
pub(crate) const SOCKET_VARIABLE: &str = "THINC_SHARE_SOCKET";

/// `thinc send`.
pub(crate) fn send(options: &SendFiles) -> Result<ExitCode, MainError> {
    let own = std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from);
    let socket = match (&options.session, own) {
        (None, Some(socket)) => socket,
        (name, _) => runtime_dir::share_socket(&clients::only_session(name.as_deref())?),
    };
    let paths = options.files.iter().map(|path| whole_path(path)).collect::<Result<_, _>>()?;
    print_error("Waiting for the person at the viewer; Ctrl-C cancels.");
    let request = ShareRequest::Send { paths, notify: options.notify };
    let answer = share::send_waiting(&socket, &request);
    match answer {
        Ok(ShareAnswer::Done) => {
            print("Sent.");
            Ok(ExitCode::SUCCESS)
        }
        Ok(ShareAnswer::Error(error)) => Err(format!("not sent: {error}").into()),
        Ok(other) => Err(format!("unexpected answer {other:?}").into()),
        Err(SendError::Connect(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("no session is running at {}", socket.display()).into())
        }
        Err(error) => Err(error.into()),
    }
}

/// The file itself, wherever links lead: the session process follows none.
fn whole_path(path: &Path) -> Result<String, MainError> {
    let whole = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(base64url::encode(whole.as_os_str().as_bytes()))
}
