//! What a person prefers, on whatever device they open a session of theirs: a file of their own,
//! which their session processes and their part of the broker read and write. Beside the path:
//! from connections, as each begins, to actor.rs. Knows the file; never who asks for a change.

pub(crate) mod keeper;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::viewer::KeyboardLayout;
use thinc_session_core::Rights;
use thiserror::Error;

use crate::opening::Opening;

/// Longest file; all that there can be in it has less than 1 KiB.
pub const PREFERENCES_BYTES_MAX: usize = 4096;
/// Longest name of a layout or variant, in bytes.
const LAYOUT_BYTES_MAX: usize = 32;
/// In percent.
const SCALES: std::ops::RangeInclusive<u16> = 50..=400;

/// What a person has chosen; `None` where they have not. Fields of other versions are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Preferences {
    /// When a session is opened that is shown elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
    /// What is copied and pasted between a session and their viewers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clipboard: Option<ClipChoice>,
    /// The keyboard layout, as `de` or `de(nodeadkeys)`, in place of each device's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<String>,
    /// The scale at which programs draw, in percent, in place of each device's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u16>,
}

/// What is copied and pasted between a session and its owner's viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClipChoice {
    /// In both directions.
    Both,
    /// What is copied in the session may be pasted at viewers.
    ToViewer,
    /// What is copied at viewers may be pasted in the session.
    ToSession,
    /// Nothing.
    Off,
}

impl ClipChoice {
    /// As viewers are told.
    pub fn directions(self) -> ClipDirections {
        ClipDirections {
            to_session: matches!(self, ClipChoice::Both | ClipChoice::ToSession),
            to_viewer: matches!(self, ClipChoice::Both | ClipChoice::ToViewer),
        }
    }

    /// The choice that a viewer has made.
    pub fn of(directions: ClipDirections) -> ClipChoice {
        match (directions.to_session, directions.to_viewer) {
            (true, true) => ClipChoice::Both,
            (false, true) => ClipChoice::ToViewer,
            (true, false) => ClipChoice::ToSession,
            (false, false) => ClipChoice::Off,
        }
    }
}

/// The layout and variant of a name such as `de(nodeadkeys)`, if it may be one.
fn parse_layout(name: &str) -> Option<KeyboardLayout> {
    let (layout, variant) = match name.split_once('(') {
        Some((layout, variant)) => (layout, variant.strip_suffix(')')?),
        None => (name, ""),
    };
    let is_name = |text: &str| {
        text.len() <= LAYOUT_BYTES_MAX
            && !text.starts_with('-')
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    // Names of XKB's rules that are no layouts, and end the X server.
    let is_layout = !layout.is_empty() && !matches!(layout, "terminate" | "srvr_ctrl");
    (is_layout && is_name(layout) && is_name(variant)).then(|| KeyboardLayout {
        layout: layout.to_owned(),
        variant: variant.to_owned(),
        ..KeyboardLayout::default()
    })
}

/// Why preferences are not read, or not kept.
#[derive(Debug, Error)]
pub enum PreferencesError {
    /// The environment names no folder.
    #[error("neither XDG_CONFIG_HOME nor HOME is an absolute path: no folder for preferences")]
    NoFolder,
    /// The file or its folder.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    /// It is too long.
    #[error(
        "{path} has more than {PREFERENCES_BYTES_MAX} bytes: remove it, and choose again",
        path = .0.display()
    )]
    TooLong(PathBuf),
    /// A choice that there is not.
    #[error("{0}")]
    Change(String),
    /// It is not what this version has written.
    #[error("{path}: {1}; remove it, and choose again", path = .0.display())]
    Invalid(PathBuf, #[source] serde_json::Error),
}

/// The file of the user that this process runs as.
pub fn path() -> Result<PathBuf, PreferencesError> {
    let set =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    Ok(folder.ok_or(PreferencesError::NoFolder)?.join("thinc/preferences.json"))
}

impl Preferences {
    /// Reads the bytes of a file.
    pub fn parse(bytes: &[u8]) -> serde_json::Result<Preferences> {
        // serde takes a list for a struct, too.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(serde::de::Error::custom("expected an object"));
        }
        let preferences: Preferences = serde_json::from_slice(bytes)?;
        preferences.check().map_err(serde::de::Error::custom)?;
        Ok(preferences)
    }

    /// Where there is a file that cannot be read: nobody is offered a clipboard that its owner may
    /// have turned off.
    pub(crate) fn unknown() -> Preferences {
        Preferences { clipboard: Some(ClipChoice::Off), ..Preferences::default() }
    }

    fn check(&self) -> Result<(), String> {
        match (&self.layout, self.scale) {
            (Some(name), _) if parse_layout(name).is_none() => Err(format!(
                "layout {name:?}: expected a name such as de or de(nodeadkeys), as setxkbmap has it"
            )),
            (_, Some(scale)) if !SCALES.contains(&scale) => Err(format!(
                "scale {scale}: it has to be {} to {} percent",
                SCALES.start(),
                SCALES.end()
            )),
            _ => Ok(()),
        }
    }

    /// These, changed by what `change` names: an empty layout and a scale of 0 are those of each
    /// device. The error is for people.
    pub fn changed(&self, change: &Preferences) -> Result<Preferences, String> {
        let changed = Preferences {
            opening: change.opening.or(self.opening),
            clipboard: change.clipboard.or(self.clipboard),
            layout: change.layout.clone().or(self.layout.clone()).filter(|name| !name.is_empty()),
            scale: change.scale.or(self.scale).filter(|scale| *scale != 0),
        };
        changed.check().map(|()| changed)
    }

    /// The keyboard layout, if it is not that of each device.
    pub(crate) fn keyboard_layout(&self) -> Option<KeyboardLayout> {
        parse_layout(self.layout.as_ref()?)
    }

    /// In which directions the clipboard is shared with the owner's viewers.
    pub(crate) fn clip_directions(&self) -> ClipDirections {
        self.clipboard.unwrap_or(ClipChoice::Both).directions()
    }

    /// What the owner's viewers may do.
    pub(crate) fn rights(&self) -> Rights {
        let ClipDirections { to_session, to_viewer } = self.clip_directions();
        Rights { clipboard_to_session: to_session, clipboard_to_viewer: to_viewer, ..Rights::ALL }
    }

    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("choices are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// Reads a file; without one, nothing was chosen.
    pub fn read(path: &Path) -> Result<Preferences, PreferencesError> {
        let failed = |error| PreferencesError::File(path.to_owned(), error);
        // A FIFO in its place keeps nobody waiting.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            other => other.map_err(failed)?,
        };
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::other("it is not a file")));
        }
        let mut bytes = Vec::new();
        file.take(PREFERENCES_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > PREFERENCES_BYTES_MAX {
            return Err(PreferencesError::TooLong(path.to_owned()));
        }
        Self::parse(&bytes).map_err(|error| PreferencesError::Invalid(path.to_owned(), error))
    }

    /// Changes a file: a process that reads meanwhile finds the old or the new one, whole, and of
    /// two changes at once neither is lost.
    pub fn change(path: &Path, change: &Preferences) -> Result<Preferences, PreferencesError> {
        let failed = |error| PreferencesError::File(path.to_owned(), error);
        let folder = path.parent().ok_or(PreferencesError::NoFolder)?;
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let open = |path: &Path| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path)
        };
        let lock: File = open(&path.with_extension("lock")).map_err(failed)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        // What cannot be read is replaced: the person has chosen now.
        let old = Self::read(path).unwrap_or_else(|_| Preferences::unknown());
        let preferences = old.changed(change).map_err(PreferencesError::Change)?;
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut file = open(&new).map_err(failed)?;
        file.write_all(&preferences.to_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&new, path).map_err(failed)?;
        Ok(preferences)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_changed_whole_and_only_by_its_owner() {
        let folder = std::env::temp_dir().join(format!("thinc-preferences-{}", std::process::id()));
        let path = folder.join("thinc/preferences.json");
        assert_eq!(Preferences::read(&path).unwrap(), Preferences::default());
        let opens = |opening| Preferences { opening: Some(opening), ..Preferences::default() };
        let changed = Preferences::change(&path, &opens(Opening::Join)).unwrap();
        assert_eq!(changed.opening, Some(Opening::Join));
        assert_eq!(Preferences::read(&path).unwrap(), changed);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // What a crash has left, and what somebody has broken.
        fs::write(path.with_extension("new"), "{").unwrap();
        fs::write(&path, "{\"opening\":\"sometimes\"}").unwrap();
        assert!(matches!(Preferences::read(&path), Err(PreferencesError::Invalid(..))));
        Preferences::change(&path, &opens(Opening::Ask)).unwrap();
        let clipboard = Some(ClipChoice::Off);
        let expected = Preferences { clipboard, ..opens(Opening::Ask) };
        assert_eq!(Preferences::read(&path).unwrap(), expected, "it may have been off");
        fs::write(&path, vec![b' '; PREFERENCES_BYTES_MAX + 1]).unwrap();
        assert!(matches!(Preferences::read(&path), Err(PreferencesError::TooLong(_))));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(Preferences::read(&path), Err(PreferencesError::File(..))));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn changes_at_once_are_all_kept() {
        let folder = std::env::temp_dir().join(format!("thinc-changes-{}", std::process::id()));
        let path = folder.join("preferences.json");
        let writers: Vec<_> = (0..8)
            .map(|number| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let change = match number % 2 {
                        0 => Preferences { scale: Some(150), ..Preferences::default() },
                        _ => Preferences { opening: Some(Opening::Ask), ..Preferences::default() },
                    };
                    for _ in 0..20 {
                        let changed = Preferences::change(&path, &change).unwrap();
                        assert_eq!(changed.changed(&change).as_ref(), Ok(&changed));
                        Preferences::read(&path).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let both = Preferences::read(&path).unwrap();
        assert_eq!((both.opening, both.scale), (Some(Opening::Ask), Some(150)));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_choices_that_there_are_are_read() {
        let all = Preferences {
            opening: Some(Opening::TakeOver),
            clipboard: Some(ClipChoice::ToViewer),
            layout: Some("de(nodeadkeys)".to_owned()),
            scale: Some(150),
        };
        assert_eq!(Preferences::parse(&all.to_bytes()).unwrap(), all);
        assert!(all.to_bytes().len() < PREFERENCES_BYTES_MAX);
        assert_eq!(Preferences::parse(b"{}").unwrap(), Preferences::default());
        let newer = Preferences::parse(br#"{"other":[1],"clipboard":"off"}"#).unwrap();
        assert_eq!(newer.clipboard, Some(ClipChoice::Off), "another field takes nothing away");
        for bad in [
            "",
            "[]",
            "{\"opening\":1}",
            "{} {}",
            "{\"clipboard\":\"some\"}",
            "{\"layout\":\"\"}",
            "{\"layout\":\"us+terminate(ctrl)\"}",
            "{\"layout\":\"terminate\"}",
            "{\"layout\":\"../x\"}",
            "{\"layout\":\"de(x\"}",
            "{\"scale\":49}",
            "{\"scale\":401}",
            "{\"scale\":-1}",
        ] {
            assert!(Preferences::parse(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_change_replaces_what_it_names_and_empty_is_as_on_each_device() {
        let own = Preferences {
            clipboard: Some(ClipChoice::Off),
            layout: Some("fr".to_owned()),
            scale: Some(200),
            ..Preferences::default()
        };
        assert_eq!(own.changed(&Preferences::default()).as_ref(), Ok(&own));
        let reset =
            Preferences { layout: Some(String::new()), scale: Some(0), ..Preferences::default() };
        let expected = Preferences { clipboard: Some(ClipChoice::Off), ..Preferences::default() };
        assert_eq!(own.changed(&reset), Ok(expected));
        let wrong = Preferences { scale: Some(1000), ..Preferences::default() };
        assert!(own.changed(&wrong).unwrap_err().contains("50 to 400"));
        let rights = own.rights();
        assert!(rights.input && !rights.clipboard_to_session && !rights.clipboard_to_viewer);
    }

    #[test]
    fn choices_are_directions() {
        for choice in
            [ClipChoice::Both, ClipChoice::ToViewer, ClipChoice::ToSession, ClipChoice::Off]
        {
            assert_eq!(ClipChoice::of(choice.directions()), choice);
        }
        assert!(!ClipChoice::ToViewer.directions().to_session);
    }
}
