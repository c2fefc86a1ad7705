//! Path beside the pixels: under worker.rs, which asks whether a new owner has anything new.
//! Clipboard managers: programs that paste whatever comes and then own it themselves, on both sides of a connection.
//! Knows who was given what, as numbers; never keeps a content.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipFormat, ClipFormats};

/// Programs that are remembered to have pasted; past it the oldest is forgotten.
const GIVEN_MAX: usize = 16;
/// A program that owns what it was given this long ago copied it by itself, and not by a person's hand.
const AT_ONCE: Duration = Duration::from_secs(2);
/// So often in so long a program may own something else at once after it pasted: a person is slower, and a manager that
/// changes what it keeps, with another on the other side, would go on for ever.
const ECHOES_MAX: usize = 5;
const ECHOES_TIME: Duration = Duration::from_secs(15);

/// What is known of copies of one selection.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    given: Vec<Given>,
    /// When a program that had just pasted became the owner, lately.
    echoes: Vec<Instant>,
    /// What was ours until the newest owner came.
    pub(crate) lent: Option<ClipFormats>,
    /// The same, where the owner has nothing but a copy of it.
    pub(crate) kept: Option<ClipFormats>,
}

/// A content that a program pasted.
#[derive(Debug)]
struct Given {
    client: u32,
    format: ClipFormat,
    bytes: usize,
    digest: u64,
    at: Instant,
}

/// What a new owner is suspected of.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It has something new.
    None,
    /// It may own what it was given; this format of it tells.
    Compare(ClipFormat),
    /// It answers whatever it is given, and has done so too often.
    Echo,
}

impl Copies {
    /// Another content is there now, ours or a program's.
    pub(crate) fn begin(&mut self) {
        self.given.clear();
        self.lent = None;
        self.kept = None;
    }

    pub(crate) fn give(&mut self, client: u32, format: ClipFormat, content: &[u8], at: Instant) {
        self.given.retain(|given| (given.client, given.format) != (client, format));
        if self.given.len() == GIVEN_MAX {
            self.given.remove(0);
        }
        self.given.push(Given { client, format, bytes: content.len(), digest: digest(content), at });
    }

    /// A program owns the selection, with these formats.
    pub(crate) fn suspect(&mut self, client: u32, formats: ClipFormats, now: Instant) -> Suspicion {
        let pasted = self.given.iter().filter(|given| given.client == client && formats.has(given.format));
        // Text, where there is: it is the shortest, and what managers change least.
        let Some(given) = pasted.min_by_key(|given| given.format as u8).filter(|_| self.lent.is_some()) else {
            return Suspicion::None;
        };
        if now.saturating_duration_since(given.at) < AT_ONCE {
            self.echoes.retain(|&at| now.saturating_duration_since(at) < ECHOES_TIME);
            if self.echoes.len() == ECHOES_MAX {
                return Suspicion::Echo;
            }
            self.echoes.push(now);
        }
        Suspicion::Compare(given.format)
    }

    /// This is what the program was given.
    pub(crate) fn was_given(&self, client: u32, format: ClipFormat, content: &[u8]) -> bool {
        let same = |given: &Given| {
            (given.client, given.format, given.bytes) == (client, format, content.len())
                && given.digest == digest(content)
        };
        self.given.iter().any(same)
    }
}

fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANAGER: u32 = 0x20_0000;
    const TEXT: ClipFormats = ClipFormats::NONE.with(ClipFormat::Text);

    fn lent() -> Copies {
        Copies { lent: Some(TEXT), ..Copies::default() }
    }

    #[test]
    fn only_who_was_given_it_can_have_a_copy() {
        let (mut copies, now) = (lent(), Instant::now());
        copies.give(MANAGER, ClipFormat::Text, b"text", now);
        assert_eq!(copies.suspect(MANAGER + 0x20_0000, TEXT, now), Suspicion::None);
        assert_eq!(copies.suspect(MANAGER, ClipFormats::NONE.with(ClipFormat::Png), now), Suspicion::None);
        assert_eq!(copies.suspect(MANAGER, TEXT, now), Suspicion::Compare(ClipFormat::Text));
        assert!(copies.was_given(MANAGER, ClipFormat::Text, b"text"));
        assert!(!copies.was_given(MANAGER, ClipFormat::Text, b"another text"));
        copies.begin();
        assert_eq!(copies.suspect(MANAGER, TEXT, now), Suspicion::None);
    }

    #[test]
    fn a_manager_that_changes_what_it_keeps_is_stopped_and_a_person_is_not() {
        let begin = Instant::now();
        for (pause, echoes) in [(Duration::from_millis(300), true), (Duration::from_secs(4), false)] {
            let mut copies = Copies::default();
            let answers: Vec<Suspicion> = (0..20)
                .map(|round| {
                    let now = begin + pause * round;
                    copies.begin();
                    copies.give(MANAGER, ClipFormat::Text, b"text", now);
                    copies.lent = Some(TEXT);
                    copies.suspect(MANAGER, TEXT, now + pause / 10)
                })
                .collect();
            assert_eq!(answers.contains(&Suspicion::Echo), echoes, "{pause:?}");
        }
    }
}
