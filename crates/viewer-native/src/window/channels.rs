//! Path beside the pixels, over clipboard.rs, sound.rs and microphone.rs: what the windows exchange
//! with the session beside pictures and input. Knows when there are news; never their content.

use std::path::PathBuf;

use super::clipboard::WindowClipboard;
use super::microphone::WindowMicrophone;
use super::sound::WindowSound;

/// What the windows exchange with the session beside pictures and input.
pub(super) struct Channels {
    pub(super) clipboard: WindowClipboard,
    pub(super) sound: WindowSound,
    pub(super) microphone: WindowMicrophone,
    drops: Drops,
}

impl Channels {
    pub(super) fn new(
        clipboard: WindowClipboard,
        sound: WindowSound,
        microphone: WindowMicrophone,
    ) -> Channels {
        Channels { clipboard, sound, microphone, drops: Drops::default() }
    }

    /// News of what the session plays and records have arrived.
    pub(super) fn handle_news(&mut self, sound: bool, microphone: bool) {
        self.sound.handle_news(sound);
        self.microphone.handle_news(microphone);
    }

    /// A file of a drop that is not complete.
    pub(super) fn add_dropped(&mut self, path: PathBuf) {
        self.drops.0.push(path);
    }

    /// The drop is complete: its files.
    pub(super) fn take_dropped(&mut self) -> Vec<PathBuf> {
        self.drops.take()
    }
}

/// Files of a drop, which SDL reports one by one.
#[derive(Debug, Default)]
struct Drops(Vec<PathBuf>);

impl Drops {
    fn take(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_drop_has_its_own_files() {
        let mut drops = Drops(vec!["/a".into(), "/b".into()]);
        assert_eq!(drops.take(), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert!(drops.take().is_empty());
    }
}
