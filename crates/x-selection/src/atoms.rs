//! Path beside the pixels: under worker.rs, fetch.rs and paste.rs.
//! Atoms of selections and targets (ICCCM §2.6.2), the format of each target, and the targets that
//! are converted to a format. Knows names; never contents.

use thinc_clip_convert::{Conversion, ImageKind};
use thinc_protocol::clip::{ClipFormat, ClipFormats, Selection};
use x11rb::atom_manager;
use x11rb::protocol::xproto::{Atom, AtomEnum};

atom_manager! {
    /// Atoms that are not predefined.
    pub(crate) Atoms:
    /// Replies that are pending.
    AtomsCookie {
        CLIPBOARD,
        TARGETS,
        MULTIPLE,
        TIMESTAMP,
        ATOM_PAIR,
        INCR,
        UTF8_STRING,
        TEXT,
        PLAIN_UTF8: b"text/plain;charset=utf-8",
        PLAIN: b"text/plain",
        HTML: b"text/html",
        PNG: b"image/png",
        JPEG: b"image/jpeg",
        BMP: b"image/bmp",
        X_BMP: b"image/x-bmp",
        X_MS_BMP: b"image/x-MS-bmp",
        TIFF: b"image/tiff",
        URI_LIST: b"text/uri-list",
        GNOME_FILES: b"x-special/gnome-copied-files",
        // Properties of our own: for contents sent to us, and to read the server's time.
        THINC_CONTENT,
        THINC_CLOCK,
    }
}

/// 4: targets tried if the owner does not know TARGETS; obsolete clients have text.
const TEXT_FIRST: usize = 4;

impl Atoms {
    pub(crate) fn selection(&self, selection: Selection) -> Atom {
        match selection {
            Selection::Clipboard => self.CLIPBOARD,
            Selection::Primary => AtomEnum::PRIMARY.into(),
        }
    }

    pub(crate) fn which(&self, atom: Atom) -> Option<Selection> {
        Selection::ALL.into_iter().find(|&selection| self.selection(selection) == atom)
    }

    /// The targets of a format, best first. `text/plain` does not declare its encoding; it is UTF-8
    /// today.
    pub(crate) fn targets(&self, format: ClipFormat) -> Vec<Atom> {
        match format {
            ClipFormat::Text => {
                vec![
                    self.UTF8_STRING,
                    self.PLAIN_UTF8,
                    AtomEnum::STRING.into(),
                    self.TEXT,
                    self.PLAIN,
                ]
            }
            ClipFormat::Html => vec![self.HTML],
            ClipFormat::Png => vec![self.PNG],
            ClipFormat::Files => vec![self.URI_LIST, self.GNOME_FILES],
        }
    }

    /// The format of a target.
    pub(crate) fn format(&self, target: Atom) -> Option<ClipFormat> {
        ClipFormat::ALL.into_iter().find(|&format| self.targets(format).contains(&target))
    }

    /// The targets that are converted to a format, best first.
    pub(crate) fn convertible(&self, format: ClipFormat) -> Vec<(Atom, Conversion)> {
        let with_targets = |&conversion: &Conversion| {
            let targets = match conversion {
                Conversion::TextOfHtml => vec![self.HTML],
                Conversion::PngOf(ImageKind::Jpeg) => vec![self.JPEG],
                Conversion::PngOf(ImageKind::Bmp) => vec![self.BMP, self.X_BMP, self.X_MS_BMP],
                Conversion::PngOf(ImageKind::Tiff) => vec![self.TIFF],
            };
            targets.into_iter().map(move |target| (target, conversion))
        };
        Conversion::to(format).iter().flat_map(with_targets).collect()
    }

    /// The formats in which an owner's content can be had: those among its targets, and those that
    /// its targets are converted to.
    pub(crate) fn available(&self, targets: &[Atom]) -> ClipFormats {
        let converted = |&format: &ClipFormat| {
            self.convertible(format).iter().any(|(target, _)| targets.contains(target))
        };
        let own = self.formats(targets);
        let available = |format: &ClipFormat| own.has(*format) || converted(format);
        ClipFormat::ALL.into_iter().filter(available).collect()
    }

    /// The formats among an owner's targets.
    pub(crate) fn formats(&self, targets: &[Atom]) -> ClipFormats {
        targets.iter().filter_map(|&target| self.format(target)).collect()
    }

    /// The targets tried with an owner that does not know TARGETS.
    pub(crate) fn fallback_targets(&self) -> Vec<Atom> {
        let mut text = self.targets(ClipFormat::Text);
        text.truncate(TEXT_FIRST);
        text
    }
}
