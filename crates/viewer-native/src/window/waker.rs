//! Path 12/13: from the client's and the audio device's threads, to the window's loop.
//! Wakes the loop by an event, once for all news since the loop last took them. Knows how to push
//! an event; never what the news are.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pushes the event that wakes the loop; false if the queue has no room, or is shutting down.
type Push = Box<dyn Fn() -> bool + Send + Sync>;

/// Wakes the window's loop.
#[derive(Default)]
pub(super) struct Waker {
    /// Set once there is a loop; until then it takes the news by itself.
    push: OnceLock<Push>,
    /// An event is in the queue.
    pending: AtomicBool,
}

impl Waker {
    /// There is news.
    pub(super) fn wake(&self) {
        if let Some(push) = self.push.get()
            && !self.pending.swap(true, Ordering::AcqRel)
            && !push()
        {
            // The next news tries again.
            self.pending.store(false, Ordering::Release);
        }
    }

    /// The loop has begun, and is woken like this.
    pub(super) fn connect(&self, push: impl Fn() -> bool + Send + Sync + 'static) {
        assert!(self.push.set(Box::new(push)).is_ok(), "there is one loop");
    }

    /// The loop takes the news now; what comes later wakes it again.
    pub(super) fn handle_woken(&self) {
        self.pending.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn one_event_wakes_for_all_news_until_they_are_taken() {
        let (waker, pushed) = (Waker::default(), Arc::new(AtomicU32::new(0)));
        waker.wake();
        let count = pushed.clone();
        // The first push finds a full queue.
        waker.connect(move || count.fetch_add(1, Ordering::Relaxed) > 0);
        waker.wake();
        assert_eq!(pushed.load(Ordering::Relaxed), 1);
        waker.wake();
        waker.wake();
        assert_eq!(pushed.load(Ordering::Relaxed), 2, "the failure was tried again, once");
        waker.handle_woken();
        waker.wake();
        assert_eq!(pushed.load(Ordering::Relaxed), 3);
    }
}
