//! Keeps what a person prefers, beside the path: from a viewer's menu and from the owner's other
//! sessions, by actor/preferences.rs, to their file; and what is read from it back to actor.rs.
//! Changes and readings are done one after the other, so that the last one counts. Knows choices
//! and the order of readings; never viewers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thinc_protocol::clip_policy::ClipDirections;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tracing::warn;

use super::{ClipChoice, Preferences, PreferencesError, path};
use crate::connection::{Event, Events};

/// A home folder on a network that does not answer keeps nobody from their session.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

/// How many readings have begun. It is locked for as long as one takes: a file that does not answer
/// holds one thread.
static READINGS: tokio::sync::Mutex<u64> = tokio::sync::Mutex::const_new(0);

/// One reading of the file.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// 1 and more: of two the later one has the larger number. 0: it has not ended in time.
    pub(crate) number: u64,
    /// `None`: the file is there, or may be, and what it says is not known.
    pub(crate) preferences: Option<Preferences>,
}

/// Reads the user's own, however long that takes.
async fn read() -> Reading {
    let mut count = READINGS.lock().await;
    let number = *count + 1;
    let reading = tokio::task::spawn_blocking(move || {
        *count = number;
        match path() {
            Ok(path) => Preferences::read(&path),
            // Without a folder nobody has chosen anything.
            Err(_) => Ok(Preferences::default()),
        }
    });
    let preferences = match reading.await {
        Ok(Ok(preferences)) => Some(preferences),
        Ok(Err(error)) => {
            warn!("preferences are not used: {error}");
            None
        }
        Err(error) => {
            warn!("preferences are not used: {error}");
            None
        }
    };
    Reading { number, preferences }
}

/// The user's own, for a connection that begins.
pub(crate) async fn read_in_time() -> Reading {
    timeout(READ_TIMEOUT, read()).await.unwrap_or_else(|_| {
        warn!("preferences are not used: their file is not read within {READ_TIMEOUT:?}");
        Reading { number: 0, preferences: None }
    })
}

/// What is to be done.
#[derive(Debug, Default)]
struct Wishes {
    /// To be written. Who clicks faster than files are written has the last of these choices.
    clipboard: Mutex<Option<ClipDirections>>,
    wake: Notify,
}

/// Writes choices, and reads the file after each of them and whenever somebody else has.
#[derive(Clone, Debug)]
pub(crate) struct Keeper(Arc<Wishes>);

impl Keeper {
    /// Starts its task, which ends with the actor.
    pub(crate) fn start(events: Events) -> Keeper {
        let wishes = Arc::new(Wishes::default());
        tokio::spawn(run(wishes.clone(), events));
        Keeper(wishes)
    }

    /// Keeps a choice; `Event::PreferencesRead` answers, whether it was kept or not.
    pub(crate) fn keep_clipboard(&self, directions: ClipDirections) {
        *self.0.clipboard.lock().unwrap_or_else(PoisonError::into_inner) = Some(directions);
        self.0.wake.notify_one();
    }

    /// Reads the file; `Event::PreferencesRead` answers.
    pub(crate) fn read_again(&self) {
        self.0.wake.notify_one();
    }
}

async fn run(wishes: Arc<Wishes>, events: Events) {
    loop {
        wishes.wake.notified().await;
        let wanted = wishes.clipboard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(directions) = wanted
            && let Err(error) = write(directions).await
        {
            warn!("a preference is not kept: {error}");
            let text = format!("Your choice could not be kept: {error}");
            let _ = events.send(Event::Notice(text, oneshot::channel().0)).await;
        }
        if events.send(Event::PreferencesRead(read().await)).await.is_err() {
            return;
        }
    }
}

async fn write(directions: ClipDirections) -> Result<(), PreferencesError> {
    let clipboard = Some(ClipChoice::of(directions));
    let change = Preferences { clipboard, ..Preferences::default() };
    let changed = tokio::task::spawn_blocking(move || Preferences::change(&path()?, &change));
    match changed.await {
        Ok(changed) => changed.map(drop),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
