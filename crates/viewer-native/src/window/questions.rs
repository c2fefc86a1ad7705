//! Path 13/13, and path back: from the client's questions about files and the microphone, to the
//! window and to the user's answer.
//! One question is asked at a time, and nobody answers one that they have not read. Knows words and
//! times; never who carries an answer out.

use std::time::{Duration, Instant};

use thinc_region::Size;

use super::drawing::{Placed, in_middle};
use crate::overlay::Panel;

/// Half a second: nobody reads a question and answers it sooner.
const ANSWER_TIME_MIN: Duration = Duration::from_millis(500);

/// What the user is asked.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// The question, and since when it is shown.
    asked: Option<(String, Instant)>,
}

impl Questions {
    /// The question that is shown.
    pub(super) fn asked(&self) -> Option<&str> {
        self.asked.as_ref().map(|(question, _)| question.as_str())
    }

    /// These are open. A question that is shown stays until it is answered, so that nobody answers
    /// another one. True if another is shown now, or none.
    pub(super) fn set(&mut self, open: [Option<String>; 2], now: Instant) -> bool {
        let stays = |question: &Option<String>| question.as_deref() == self.asked();
        if open.iter().any(|question| question.is_some() && stays(question)) {
            return false;
        }
        let next = open.into_iter().flatten().next();
        let changes = next.is_some() || self.asked.is_some();
        self.asked = next.map(|question| (question, now));
        changes
    }

    /// The question that a key answers now; None if it was for something else.
    pub(super) fn answered(&self, now: Instant) -> Option<&str> {
        let (question, at) = self.asked.as_ref()?;
        (now.saturating_duration_since(*at) >= ANSWER_TIME_MIN).then_some(question.as_str())
    }

    /// The question, where it hides the least of what the user does.
    pub(super) fn draw(&self, window: Size, dot: u32) -> Option<Placed> {
        let panel = Panel::draw_within(self.asked()?, dot * 2, window.width);
        let x = in_middle(window.width, panel.size.width);
        let y = (window.height as i32 - panel.size.height as i32).max(0) / 4;
        Some((panel, x, y))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_stays_until_it_is_answered_and_is_read_first() {
        let (mut questions, start) = (Questions::default(), Instant::now());
        let [microphone, files] = ["microphone?", "files?"].map(|text| Some(text.to_owned()));
        assert!(!questions.set([None, None], start));
        assert!(questions.set([None, files.clone()], start));
        assert!(!questions.set([microphone.clone(), files], start + ANSWER_TIME_MIN / 2));
        assert_eq!(questions.asked(), Some("files?"));
        assert_eq!(questions.answered(start + ANSWER_TIME_MIN / 2), None, "nobody has read it");
        assert_eq!(questions.answered(start + ANSWER_TIME_MIN), Some("files?"));
        let later = start + 2 * ANSWER_TIME_MIN;
        assert!(questions.set([microphone, None], later));
        assert_eq!((questions.asked(), questions.answered(later)), (Some("microphone?"), None));
        assert!(questions.draw(Size { width: 800, height: 600 }, 1).is_some());
        assert!(questions.set([None, None], later) && questions.asked().is_none());
    }
}
