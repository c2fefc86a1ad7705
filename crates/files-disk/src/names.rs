//! Beside the path: under source.rs and inbox.rs. Names for the wire, which the other side accepts,
//! and names that are still free. Knows the rules of `thinc_protocol::file::check_path`; never a
//! disk.

use std::ffi::OsStr;

use thinc_protocol::limits::FILE_NAME_BYTES_MAX;
use thinc_protocol::wire::is_deceptive;

/// A component of a path as the other side accepts it. `_` replaces what it may not contain, so
/// that a person recognises the file.
pub(crate) fn wire_name(name: &OsStr, is_top_level: bool) -> String {
    let refused = |character: char| is_deceptive(character) || matches!(character, '\\' | '/');
    let mut name = name.to_string_lossy().replace(refused, "_");
    if name.is_empty() || name == "." || name == ".." {
        return "_".to_owned();
    }
    if name.starts_with('-') || (is_top_level && name.starts_with('.')) {
        name.replace_range(..1, "_");
    }
    name.truncate(name.floor_char_boundary(FILE_NAME_BYTES_MAX));
    name
}

/// The name with a number: `report (2).pdf`. Longer than a name may be, its stem is cut.
pub(crate) fn numbered(name: &str, number: u32, has_ending: bool) -> String {
    let ending = if has_ending { name.rfind('.').filter(|&at| at > 0) } else { None };
    let (stem, ending) = name.split_at(ending.unwrap_or(name.len()));
    let number = format!(" ({number})");
    let room = FILE_NAME_BYTES_MAX.saturating_sub(number.len() + ending.len());
    // An ending that leaves no room is part of the name.
    let (stem, ending) = if room == 0 { (name, "") } else { (stem, ending) };
    let room = FILE_NAME_BYTES_MAX - number.len() - ending.len();
    let stem = &stem[..stem.floor_char_boundary(room)];
    format!("{stem}{number}{ending}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use thinc_protocol::file::check_path;

    use super::*;

    #[test]
    fn names_that_the_other_side_refuses_are_changed() {
        for (name, top, below) in [
            (&b"report.pdf"[..], "report.pdf", "report.pdf"),
            (b".bashrc", "_bashrc", ".bashrc"),
            (b"-rf", "_rf", "_rf"),
            (b"a\nb", "a_b", "a_b"),
            (b"gpj.\xe2\x80\xaeexe", "gpj._exe", "gpj._exe"),
            (b"a\\b", "a_b", "a_b"),
            (b"caf\xe9", "caf\u{fffd}", "caf\u{fffd}"),
            (b"..", "_", "_"),
        ] {
            let name = OsStr::from_bytes(name);
            assert_eq!(wire_name(name, true), top);
            assert_eq!(wire_name(name, false), below);
            assert_eq!(check_path(&wire_name(name, true)), Ok(()));
            assert_eq!(check_path(&format!("d/{}", wire_name(name, false))), Ok(()));
        }
        let long = vec![0xff; 255];
        assert_eq!(check_path(&wire_name(OsStr::from_bytes(&long), true)), Ok(()));
    }

    #[test]
    fn a_number_stands_before_the_ending() {
        assert_eq!(numbered("report.pdf", 2, true), "report (2).pdf");
        assert_eq!(numbered("photos.2026", 2, false), "photos.2026 (2)");
        assert_eq!(numbered("README", 12, true), "README (12)");
        let long = format!("{}.pdf", "é".repeat(125));
        let name = numbered(&long, 2, true);
        assert!(name.len() <= FILE_NAME_BYTES_MAX && name.ends_with("é (2).pdf"), "{name}");
        let ending = format!("a.{}", "b".repeat(253));
        assert_eq!(numbered(&ending, 2, true).len(), FILE_NAME_BYTES_MAX);
    }
}
