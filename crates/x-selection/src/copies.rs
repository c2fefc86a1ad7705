//! Path beside the pixels: under worker.rs, which asks whether a new owner has new content.
//! Detects clipboard managers: applications that paste every content and then own it themselves, on
//! both sides of a connection. Knows hashes of what was given to whom; never keeps a content.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipFormat, ClipFormats};

/// 16: pastes remembered; beyond it the oldest is forgotten.
const GIVEN_MAX: usize = 16;
/// 2 s: an application that owns its paste again within this time did not do so at a user's
/// request.
const ECHO_TIME_MAX: Duration = Duration::from_secs(2);
/// 5 in 15 s: how often an application may own another content directly after it pasted. A user is
/// slower, and a manager that modifies its copies, with another on the other side, would loop
/// endlessly.
const ECHOES_MAX: usize = 5;
const ECHOES_TIME: Duration = Duration::from_secs(15);

/// What is known about copies of one selection.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    given: Vec<Given>,
    /// When an application that had just pasted became the owner, recently.
    echoes: Vec<Instant>,
    /// Our formats until the newest owner.
    pub(crate) lent: Option<ClipFormats>,
    /// The same, if the owner has only a copy of it.
    pub(crate) kept: Option<ClipFormats>,
}

/// A content that an application pasted.
#[derive(Debug)]
struct Given {
    client: u32,
    format: ClipFormat,
    bytes: usize,
    digest: u64,
    at: Instant,
}

/// Suspicion about a new owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It has new content.
    None,
    /// It may own what it pasted; comparing this format decides.
    Compare(ClipFormat),
    /// It owns every paste again, and has done so too often.
    Echo,
}

impl Copies {
    /// The selection has a new content, ours or an application's.
    pub(crate) fn reset(&mut self) {
        self.given.clear();
        self.lent = None;
        self.kept = None;
    }

    pub(crate) fn give(&mut self, client: u32, format: ClipFormat, content: &[u8], at: Instant) {
        self.given.retain(|given| (given.client, given.format) != (client, format));
        if self.given.len() == GIVEN_MAX {
            self.given.remove(0);
        }
        self.given.push(Given {
            client,
            format,
            bytes: content.len(),
            digest: digest(content),
            at,
        });
    }

    /// Judges an application that owns the selection in these formats.
    pub(crate) fn suspect(&mut self, client: u32, formats: ClipFormats, now: Instant) -> Suspicion {
        let pasted =
            self.given.iter().filter(|given| given.client == client && formats.has(given.format));
        // Text if there is any: it is the shortest, and managers modify it least.
        let Some(given) =
            pasted.min_by_key(|given| given.format as u8).filter(|_| self.lent.is_some())
        else {
            return Suspicion::None;
        };
        if now.saturating_duration_since(given.at) < ECHO_TIME_MAX {
            self.echoes.retain(|&at| now.saturating_duration_since(at) < ECHOES_TIME);
            if self.echoes.len() == ECHOES_MAX {
                return Suspicion::Echo;
            }
            self.echoes.push(now);
        }
        Suspicion::Compare(given.format)
    }

    /// True if this is what the application pasted.
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
    fn only_an_application_that_pasted_can_have_a_copy() {
        let (mut copies, now) = (lent(), Instant::now());
        copies.give(MANAGER, ClipFormat::Text, b"text", now);
        assert_eq!(copies.suspect(MANAGER + 0x20_0000, TEXT, now), Suspicion::None);
        assert_eq!(
            copies.suspect(MANAGER, ClipFormats::NONE.with(ClipFormat::Png), now),
            Suspicion::None
        );
        assert_eq!(copies.suspect(MANAGER, TEXT, now), Suspicion::Compare(ClipFormat::Text));
        assert!(copies.was_given(MANAGER, ClipFormat::Text, b"text"));
        assert!(!copies.was_given(MANAGER, ClipFormat::Text, b"another text"));
        copies.reset();
        assert_eq!(copies.suspect(MANAGER, TEXT, now), Suspicion::None);
    }

    #[test]
    fn a_manager_that_modifies_its_copies_is_stopped_and_a_user_is_not() {
        let start = Instant::now();
        for (pause, echoes) in [(Duration::from_millis(300), true), (Duration::from_secs(4), false)]
        {
            let mut copies = Copies::default();
            let answers: Vec<Suspicion> = (0..20)
                .map(|round| {
                    let now = start + pause * round;
                    copies.reset();
                    copies.give(MANAGER, ClipFormat::Text, b"text", now);
                    copies.lent = Some(TEXT);
                    copies.suspect(MANAGER, TEXT, now + pause / 10)
                })
                .collect();
            assert_eq!(answers.contains(&Suspicion::Echo), echoes, "{pause:?}");
        }
    }
}
