//! When a process that died by itself is started again. Beside supervisor.rs. Knows times; no
//! processes.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

/// After this lifetime a process counts as healthy: its death starts a new count.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// Delay before the second restart in a row, doubled for each further one; the first is immediate.
const RESTART_DELAY: Duration = Duration::from_millis(200);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);

/// The restarts of one process.
#[derive(Debug)]
pub(crate) struct Restarts {
    started: Instant,
    /// Deaths since it was healthy last.
    pub(crate) in_row: u32,
    due: Option<Instant>,
}

impl Restarts {
    /// Of a process that was just started.
    pub(crate) fn new() -> Restarts {
        Restarts { started: Instant::now(), in_row: 0, due: None }
    }

    /// It has died; returns after what time it is due to be started.
    pub(crate) fn died(&mut self) -> Duration {
        let was_healthy = self.started.elapsed() >= HEALTHY_AFTER;
        self.in_row = if was_healthy { 1 } else { self.in_row + 1 };
        self.plan(restart_delay(self.in_row))
    }

    /// It could not be started.
    pub(crate) fn failed(&mut self) {
        self.in_row += 1;
        self.plan(restart_delay(self.in_row));
    }

    /// It was ended on purpose, and is needed again.
    pub(crate) fn ended(&mut self) {
        self.plan(Duration::ZERO);
    }

    fn plan(&mut self, delay: Duration) -> Duration {
        self.due = Some(Instant::now() + delay);
        delay
    }

    /// Waits until it is due to be started; without end if it is not. From then on it counts as
    /// started.
    pub(crate) async fn due(&mut self) {
        match self.due {
            Some(due) => sleep_until(due.into()).await,
            None => std::future::pending().await,
        }
        self.due = None;
        self.started = Instant::now();
    }
}

/// The first restart is immediate; each further one in a row waits twice as long.
fn restart_delay(deaths_in_row: u32) -> Duration {
    match deaths_in_row {
        0 | 1 => Duration::ZERO,
        n => (RESTART_DELAY * 2u32.saturating_pow((n - 2).min(16))).min(RESTART_DELAY_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_further_ones_are_delayed_more_and_more() {
        let waits: Vec<Duration> = (1..=20).map(restart_delay).collect();
        assert_eq!(waits[0], Duration::ZERO);
        assert_eq!(waits[1], RESTART_DELAY);
        assert!(waits.is_sorted());
        assert_eq!(waits[19], RESTART_DELAY_MAX);
        let mut restarts = Restarts::new();
        let planned = [restarts.died(), restarts.died(), restarts.died()];
        assert_eq!(planned, [Duration::ZERO, RESTART_DELAY, 2 * RESTART_DELAY]);
    }
}
