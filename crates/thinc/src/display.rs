//! The display number of a session's X server. From the files in which X servers say which numbers
//! they have, to supervisor.rs. Knows numbers; starts nothing.

use std::fs;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;

/// The first that is tried. A display manager that starts later expects to get :0; desktops and VNC
/// servers take the numbers that follow, ssh (X11DisplayOffset) those from 10 on.
pub(crate) const FIRST: u32 = 200;
/// Beyond it every number counts as taken: more sessions than a machine has memory for.
const LAST: u32 = 4095;

/// The lowest number from this one on that no X server has. Another one may take it meanwhile.
pub(crate) fn free(from: u32) -> Option<u32> {
    (from..=LAST).find(|&number| !taken(number))
}

/// Whether an X server has this number, or a dead one's socket bars us from it.
pub(crate) fn taken(number: u32) -> bool {
    taken_in(Path::new("/tmp"), number, rustix::process::geteuid().as_raw())
}

/// Whether the user `own` cannot start X server `number`. Ours make no lock, as none does that is
/// started with -displayfd: they are found by the socket where they listen, which is in the file
/// system and, for servers that share our network namespace, abstract too. A server that was
/// killed leaves its files; the next one removes them, but not those of another user's server,
/// since their folder is sticky.
fn taken_in(folder: &Path, number: u32, own: u32) -> bool {
    match fs::read_to_string(folder.join(format!(".X{number}-lock"))) {
        Ok(text) => match text.trim().parse::<u32>() {
            Ok(process) if Path::new("/proc").join(process.to_string()).exists() => return true,
            Ok(_) => {}
            Err(_) => return true,
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(_) => return true,
    }
    let path = folder.join(format!(".X11-unix/X{number}"));
    let can_remove = match fs::symlink_metadata(&path) {
        Ok(found) => own == 0 || found.uid() == own,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let nobody_listens = |address: std::io::Result<SocketAddr>| {
        address.and_then(|address| UnixStream::connect_addr(&address)).is_err_and(|error| {
            matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
        })
    };
    !can_remove
        || !nobody_listens(SocketAddr::from_pathname(&path))
        || !nobody_listens(SocketAddr::from_abstract_name(path.as_os_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_number_is_taken_while_its_server_lives() {
        let folder = std::env::temp_dir().join(format!("thinc-displays-{}", std::process::id()));
        fs::create_dir_all(folder.join(".X11-unix")).unwrap();
        let lock = |number: u32, text: &str| {
            fs::write(folder.join(format!(".X{number}-lock")), text).unwrap();
            fs::write(folder.join(format!(".X11-unix/X{number}")), "").unwrap();
        };
        lock(1, &format!("{:10}\n", std::process::id()));
        // No process has this number: the kernel's limit is lower.
        lock(2, "2000000000\n");
        lock(3, "nonsense");
        let socket =
            |number: u32| UnixListener::bind(folder.join(format!(".X11-unix/X{number}"))).unwrap();
        let listens = socket(4);
        drop(socket(5));
        let path = folder.join(".X11-unix/X7");
        let name = SocketAddr::from_abstract_name(path.as_os_str().as_bytes()).unwrap();
        let abstract_one = UnixListener::bind_addr(&name).unwrap();
        let own = rustix::process::geteuid().as_raw();
        let found = [1, 2, 3, 4, 5, 6, 7].map(|number| taken_in(&folder, number, own));
        assert_eq!(found, [true, false, true, true, false, false, true]);
        // What a dead server of one user has left, only root and that user can remove.
        let of_user = |user: u32| [2, 5, 6].map(|number| taken_in(&folder, number, user));
        assert_eq!(of_user(own + 1), [true, true, false]);
        assert_eq!(of_user(0), [false; 3]);
        drop((listens, abstract_one));
        fs::remove_dir_all(&folder).unwrap();
    }
}
