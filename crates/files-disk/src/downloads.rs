//! Beside the path: where a person expects what they receive. Knows xdg-user-dirs' file; never the
//! environment, which callers read.

use std::path::{Path, PathBuf};

/// 64 KiB: longest configuration that is read; xdg-user-dirs writes less than one.
const CONFIG_BYTES_MAX: usize = 64 * 1024;

/// The person's folder for downloads: what `user-dirs.dirs` in their configuration names, else
/// `Downloads` in their home. Never the home itself, which xdg-user-dirs names where the folder is
/// missing: a received `.bashrc` there would be a program.
pub fn downloads_folder(home: &Path, config: &Path) -> PathBuf {
    let text = std::fs::read(config.join("user-dirs.dirs")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text[..text.len().min(CONFIG_BYTES_MAX)]);
    let named = text.lines().rev().find_map(|line| {
        let value = line.trim().strip_prefix("XDG_DOWNLOAD_DIR=")?;
        let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        match value.strip_prefix("$HOME") {
            Some(rest) => Some(home.join(rest.trim_start_matches('/'))),
            None => Some(PathBuf::from(value)).filter(|path| path.is_absolute()),
        }
    });
    // Compared by components, so that a slash at the end makes no difference.
    let named = named.filter(|path| !home.starts_with(path));
    named.unwrap_or_else(|| home.join("Downloads"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::TestFolder;

    #[test]
    fn downloads_are_never_in_the_home_itself() {
        let config = TestFolder::new();
        let home = Path::new("/home/u");
        assert_eq!(downloads_folder(home, config.path()), home.join("Downloads"));
        for (line, folder) in [
            ("XDG_DOWNLOAD_DIR=\"$HOME/Téléchargements\"", "/home/u/Téléchargements"),
            ("XDG_DOWNLOAD_DIR=\"/data/in\"\n# XDG_DOWNLOAD_DIR=\"/no\"", "/data/in"),
            ("XDG_DOWNLOAD_DIR=\"$HOME/\"", "/home/u/Downloads"),
            ("XDG_DOWNLOAD_DIR=\"$HOME\"", "/home/u/Downloads"),
            ("XDG_DOWNLOAD_DIR=\"/home/u/\"", "/home/u/Downloads"),
            ("XDG_DOWNLOAD_DIR=\"/home\"", "/home/u/Downloads"),
            ("XDG_DOWNLOAD_DIR=\"relative\"", "/home/u/Downloads"),
            ("XDG_DOWNLOAD_DIR=$HOME/x", "/home/u/Downloads"),
            ("XDG_MUSIC_DIR=\"$HOME/Music\"", "/home/u/Downloads"),
        ] {
            config.write("user-dirs.dirs", line.as_bytes());
            assert_eq!(downloads_folder(home, config.path()), Path::new(folder), "{line}");
        }
    }
}
