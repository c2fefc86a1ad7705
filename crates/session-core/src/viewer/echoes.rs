//! Path 5/13: under viewer.rs, from session.rs, for what is drawn next.
//! Which inputs of a viewer have reached a window and await their echo. Knows numbers, windows and
//! times; never what was typed or drawn.

use std::collections::VecDeque;

use thinc_protocol::Micros;

use crate::queue::command_queue::Echo;

/// Most inputs whose echo is awaited; past it the oldest gets none.
const AWAITED_MAX: usize = 16;
/// How long after its delivery an input may still get its echo.
const AGE_MAX: Micros = 1_000_000;

/// One viewer's inputs, from the oldest.
#[derive(Debug, Default)]
pub(super) struct Echoes {
    awaited: VecDeque<Echo>,
}

impl Echoes {
    /// An input has reached a window: the first change in it is its echo.
    pub(super) fn await_echo(&mut self, echo: Echo) {
        if self.awaited.len() == AWAITED_MAX {
            self.awaited.pop_front();
        }
        self.awaited.push_back(echo);
    }

    /// The newest input delivered to `window`, once; the same change answers older ones.
    pub(super) fn take(&mut self, window: u32, now: Micros) -> Option<Echo> {
        if self.awaited.is_empty() {
            return None;
        }
        self.awaited.retain(|echo| now.saturating_sub(echo.delivered) <= AGE_MAX);
        let answers = |echo: &Echo| echo.window == window || echo.window == 0;
        let newest = self.awaited.iter().rev().copied().find(answers)?;
        self.awaited.retain(|echo| !answers(echo));
        Some(newest)
    }

    /// # Panics
    /// If there are more than their limit.
    pub(super) fn check_invariants(&self) {
        assert!(self.awaited.len() <= AWAITED_MAX, "at most {AWAITED_MAX} echoes are awaited");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn echo(seq: u32, window: u32, delivered: Micros) -> Echo {
        Echo { seq, window, delivered }
    }

    #[test]
    fn one_change_in_a_window_answers_all_its_inputs_and_no_others() {
        let mut echoes = Echoes::default();
        for (seq, window) in [(1, 5), (2, 6), (3, 5), (4, 0)] {
            echoes.await_echo(echo(seq, window, 0));
        }
        let seq = |echo: Option<Echo>| echo.map(|echo| echo.seq);
        assert_eq!(seq(echoes.take(5, 0)), Some(4), "it may be any window's");
        assert_eq!(seq(echoes.take(5, 0)), None);
        assert_eq!(seq(echoes.take(6, 0)), Some(2));
    }

    #[test]
    fn an_input_gets_no_echo_after_a_second() {
        let mut echoes = Echoes::default();
        echoes.await_echo(echo(1, 5, 1_000));
        echoes.await_echo(echo(2, 6, 1_000));
        assert!(echoes.take(5, 1_000 + AGE_MAX).is_some());
        assert_eq!(echoes.take(6, 1_001 + AGE_MAX), None);
    }

    #[test]
    fn the_oldest_of_too_many_gets_none() {
        let mut echoes = Echoes::default();
        (0..=AWAITED_MAX as u32).for_each(|seq| echoes.await_echo(echo(seq, seq + 1, 0)));
        echoes.check_invariants();
        assert_eq!(echoes.take(1, 0), None);
        assert!(echoes.take(2, 0).is_some());
    }
}
