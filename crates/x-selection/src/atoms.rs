//! Path beside the pixels: under worker.rs, fetch.rs and paste.rs.
//! The names by which X programs know selections and their forms (ICCCM §2.6.2), and which of them is which format.
//! Knows names; never contents.

use thinc_protocol::clip::{ClipFormat, ClipFormats, Selection};
use x11rb::atom_manager;
use x11rb::protocol::xproto::{Atom, AtomEnum};

atom_manager! {
    /// What is not predefined.
    pub(crate) Atoms:
    /// The same, asked for and not answered.
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
        // Contents lie here on their way to us, and the server's time is read here.
        THINC_CONTENT,
        THINC_CLOCK,
    }
}

/// What is asked for where the owner does not say what it has: programs from before TARGETS have text.
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

    /// The names under which a format is asked for, the best first. Plain `text/plain` says nothing of its encoding; it
    /// is UTF-8 today.
    pub(crate) fn targets(&self, format: ClipFormat) -> Vec<Atom> {
        match format {
            ClipFormat::Text => {
                vec![self.UTF8_STRING, self.PLAIN_UTF8, AtomEnum::STRING.into(), self.TEXT, self.PLAIN]
            }
            ClipFormat::Html => vec![self.HTML],
            ClipFormat::Png => vec![self.PNG],
        }
    }

    /// The format that a name stands for.
    pub(crate) fn format(&self, target: Atom) -> Option<ClipFormat> {
        ClipFormat::ALL.into_iter().find(|&format| self.targets(format).contains(&target))
    }

    /// The formats among an owner's names.
    pub(crate) fn formats(&self, targets: &[Atom]) -> ClipFormats {
        targets.iter().filter_map(|&target| self.format(target)).collect()
    }

    /// What an owner that does not know TARGETS may be asked for.
    pub(crate) fn usual(&self) -> Vec<Atom> {
        let mut text = self.targets(ClipFormat::Text);
        text.truncate(TEXT_FIRST);
        text
    }
}
