//! Path beside the pixels, in both directions: under fetch.rs, paste.rs and drag.rs.
//! Paths of files as applications exchange them: `text/uri-list` (RFC 2483 §5), and the list of
//! GNOME's file managers. Knows URIs; thinc-files-disk knows files.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Characters that a path keeps in a `file:` URI (RFC 3986 §2.3, and `/`).
const KEPT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The paths as `text/uri-list`.
pub(crate) fn uri_list<P: AsRef<Path>>(paths: &[P]) -> Vec<u8> {
    let lines = paths.iter().map(|path| format!("{}\r\n", uri(path.as_ref())));
    lines.collect::<String>().into_bytes()
}

/// A `text/uri-list` as `x-special/gnome-copied-files`: they are copied, not moved.
pub(crate) fn gnome_list(uri_list: &[u8]) -> Vec<u8> {
    let list = String::from_utf8_lossy(uri_list);
    let lines = list.lines().map(|line| format!("\n{line}"));
    format!("copy{}", lines.collect::<String>()).into_bytes()
}

/// The paths of either list; none if it has none, or names something that is no file of this
/// computer.
pub(crate) fn paths(list: &[u8]) -> Option<Vec<PathBuf>> {
    let list = std::str::from_utf8(list).ok()?;
    let lines = list.lines().map(|line| line.trim_end_matches('\0'));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.enumerate().filter(|&(at, line)| at > 0 || !matches!(line, "copy" | "cut"));
    let paths = lines.map(|(_, line)| path(line)).collect::<Option<Vec<PathBuf>>>()?;
    (!paths.is_empty()).then_some(paths)
}

fn uri(path: &Path) -> String {
    format!("file://{}", percent_encode(path.as_os_str().as_bytes(), KEPT))
}

fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file:")?;
    // RFC 8089 §2: with an authority or without.
    let path = match rest.strip_prefix("//") {
        Some(rest) => rest.strip_prefix("localhost").unwrap_or(rest),
        None => rest,
    };
    let path = PathBuf::from(OsString::from_vec(percent_decode_str(path).collect()));
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uris() {
        let paths = [Path::new("/home/u/Downloads/a b#ü.txt"), Path::new("/x-~_.y")];
        let list = uri_list(&paths);
        let lines = "file:///home/u/Downloads/a%20b%23%C3%BC.txt\r\nfile:///x-~_.y\r\n";
        assert_eq!(std::str::from_utf8(&list).unwrap(), lines);
        assert_eq!(super::paths(&list).unwrap(), paths);
        let gnome = gnome_list(&list);
        let lines = "copy\nfile:///home/u/Downloads/a%20b%23%C3%BC.txt\nfile:///x-~_.y";
        assert_eq!(std::str::from_utf8(&gnome).unwrap(), lines);
        assert_eq!(super::paths(&gnome).unwrap(), paths);
    }

    #[test]
    fn only_files_of_this_computer_have_paths() {
        let path = |list: &str| paths(list.as_bytes());
        let a = Some(vec![PathBuf::from("/a")]);
        for list in ["file:///a", "file:/a\n", "#x\r\nfile://localhost/a\r\n", "cut\nfile:///a"] {
            assert_eq!(path(list), a, "{list}");
        }
        for list in ["", "copy", "http://h/a", "file://other/a", "/a", "file:///a\nsftp://h/b"] {
            assert_eq!(path(list), None, "{list}");
        }
        let bytes = PathBuf::from(OsString::from_vec(b"/\xff".to_vec()));
        assert_eq!(path("file:///%FF"), Some(vec![bytes]));
    }
}
