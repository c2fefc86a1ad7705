//! Path back, beside the pixels: under client.rs, between the session, which wants the microphone
//! while a program records, its person, who gives it or not, and the window, which opens the
//! device. Knows what was asked and answered; never samples or devices.

#[cfg(feature = "window")]
use std::sync::Arc;

#[cfg(feature = "window")]
use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophoneWant;
use thinc_protocol::viewer::ViewerCaps;

#[cfg(feature = "window")]
use super::Client;
use super::State;

/// Whether programs of the session may hear the microphone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MicrophoneChoice {
    /// The person is asked when the first program records.
    #[default]
    Ask,
    /// They may.
    On,
    /// The session is told that there is none.
    Off,
}

/// What the menu says of it.
#[cfg(feature = "window")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MicrophoneSide<'a> {
    /// Why it could not be opened.
    pub(crate) failed: Option<&'a str>,
    /// The person has said that it stays off.
    pub(crate) is_refused: bool,
    /// A program of the session records.
    pub(crate) is_wanted: bool,
    /// The session hears it.
    pub(crate) is_open: bool,
}

/// The microphone, for all connections of this viewer.
#[derive(Debug)]
pub(crate) struct Microphone {
    choice: MicrophoneChoice,
    /// What the person has answered; None: they were not asked.
    agreed: Option<bool>,
    /// What the session wants now, if it wants it; None while there is no connection.
    want: Option<MicrophoneWant>,
    /// Why the device could not be opened for this recording.
    failed: Option<String>,
}

impl Microphone {
    pub(super) fn new(choice: MicrophoneChoice) -> Microphone {
        let agreed = (choice == MicrophoneChoice::On).then_some(true);
        Microphone { choice, agreed, want: None, failed: None }
    }

    /// The capability of a new connection.
    pub(super) fn caps(&self) -> u32 {
        if self.choice == MicrophoneChoice::Off { 0 } else { ViewerCaps::MICROPHONE }
    }

    #[cfg(feature = "window")]
    fn question(&self) -> Option<String> {
        (self.want.is_some() && self.agreed.is_none()).then(|| {
            "A program in the session records. May it, and those that record later, hear your\n\
             microphone, until you close this viewer or turn it off (Ctrl+Alt+K)?\n\n\
             Ctrl+Alt+Y: microphone on, Ctrl+Alt+X: off"
                .to_owned()
        })
    }

    /// Whether the key turns it off: it is open, or would be for the next program; or the person is
    /// asked, and presses the key for off.
    #[cfg(feature = "window")]
    fn is_on(&self) -> bool {
        self.failed.is_none() && self.agreed != Some(false)
    }

    /// For what the device has to be open.
    #[cfg(feature = "window")]
    fn wanted(&self) -> Option<MicrophoneWant> {
        self.want.filter(|_| self.agreed == Some(true) && self.failed.is_none())
    }
}

impl State {
    /// The session wants the microphone, or no longer.
    pub(super) fn handle_microphone_wanted(&mut self, want: Option<MicrophoneWant>) {
        self.microphone.want = want;
        self.microphone.failed = None;
        if want.is_some() && self.microphone.agreed == Some(false) {
            self.viewers.shown.give_microphone(false);
        }
        self.news.microphone = true;
    }

    /// The connection is lost or has ended, or a new one has not asked for anything yet: the device
    /// is closed.
    pub(super) fn end_microphone(&mut self) {
        self.microphone.want = None;
        self.news.microphone = true;
    }
}

#[cfg(feature = "window")]
impl State {
    /// For the menu: whether this viewer's option switches it off, and how it is.
    pub(crate) fn microphone_side(&self) -> (bool, MicrophoneSide<'_>) {
        let Microphone { choice, agreed, want, failed } = &self.microphone;
        let side = MicrophoneSide {
            failed: failed.as_deref(),
            is_refused: *agreed == Some(false),
            is_wanted: want.is_some(),
            is_open: self.viewers.shown.gives_microphone(),
        };
        (*choice == MicrophoneChoice::Off, side)
    }

    /// What the person is asked.
    pub(crate) fn microphone_question(&self) -> Option<String> {
        self.microphone.question()
    }

    /// Their answer.
    pub(crate) fn answer_microphone(&mut self, agrees: bool) {
        self.microphone.agreed = Some(agrees);
        if !agrees {
            self.viewers.shown.give_microphone(false);
            self.flush();
        }
        self.news.microphone = true;
    }

    /// For what the device has to be open now; None: it has to be closed.
    pub(crate) fn microphone_to_open(&self) -> Option<MicrophoneWant> {
        self.microphone.wanted()
    }

    /// The device is open for this, which the session of this connection may not know yet.
    pub(crate) fn set_microphone_open(&mut self, open: MicrophoneWant) {
        if self.microphone.wanted() == Some(open) && !self.viewers.shown.gives_microphone() {
            self.viewers.shown.give_microphone(true);
            self.flush();
        }
    }

    /// The device cannot be opened.
    pub(crate) fn handle_microphone_failed(&mut self, why: String) {
        self.microphone.failed = Some(why);
        self.viewers.shown.give_microphone(false);
        self.flush();
    }

    /// A coded frame, the first sample of which was heard at `time`.
    fn handle_microphone_frame(&mut self, frame: &[u8], time: Micros) {
        if self.is_connected() {
            let now = self.clock.now();
            self.viewers.shown.handle_microphone_frame(frame, time, now);
            self.flush();
        }
    }

    /// The person wants the microphone off, at once, or on again; returns words for them.
    pub(crate) fn toggle_microphone(&mut self) -> &'static str {
        if self.microphone.choice == MicrophoneChoice::Off {
            return "This viewer gives no microphone (--microphone)";
        }
        let is_on = self.microphone.is_on();
        if !is_on && !self.viewers.shown.may_give_microphone() {
            return "The session takes no microphone";
        }
        self.microphone.agreed = Some(!is_on);
        self.microphone.failed = None;
        // While a program records, the window says so once the device is open.
        if is_on || self.microphone.want.is_none() {
            self.viewers.shown.give_microphone(!is_on);
        }
        self.flush();
        self.news.microphone = true;
        match (is_on, self.microphone.want.is_some()) {
            (true, true) => "Microphone off",
            (true, false) => "The microphone stays off, whatever records",
            (false, true) => "Microphone on",
            (false, false) => "The microphone is on while a program of the session records",
        }
    }
}

#[cfg(feature = "window")]
impl Client {
    /// What the device's thread calls with each coded frame and its time; it does nothing once the
    /// client is gone. Nobody who holds the client's lock may wait for that thread.
    pub(crate) fn microphone_frames(&self) -> impl FnMut(&[u8], Micros) + Send + 'static {
        let shared = Arc::downgrade(&self.shared);
        move |frame, time| {
            if let Some(shared) = shared.upgrade() {
                shared.lock().handle_microphone_frame(frame, time);
            }
        }
    }
}

#[cfg(all(test, feature = "window"))]
mod tests {
    use super::*;

    const WANT: MicrophoneWant =
        MicrophoneWant { generation: 1, wanted: true, channels: 1, frame: 480 };

    #[test]
    fn the_person_is_asked_once_and_only_when_a_program_records() {
        let mut microphone = Microphone::new(MicrophoneChoice::Ask);
        assert_eq!(microphone.question(), None);
        microphone.want = Some(WANT);
        assert!(microphone.question().is_some() && microphone.wanted().is_none());
        microphone.agreed = Some(true);
        assert_eq!((microphone.question(), microphone.wanted()), (None, Some(WANT)));
        microphone.agreed = Some(false);
        assert_eq!((microphone.question(), microphone.wanted()), (None, None));
        let mut microphone = Microphone::new(MicrophoneChoice::On);
        microphone.want = Some(WANT);
        assert_eq!((microphone.question(), microphone.wanted()), (None, Some(WANT)));
        assert_eq!(Microphone::new(MicrophoneChoice::Off).caps(), 0);
    }

    #[test]
    fn the_key_never_opens_a_device_that_is_asked_for_and_a_failure_is_tried_again() {
        let mut microphone = Microphone::new(MicrophoneChoice::Ask);
        assert!(microphone.is_on(), "the next program may ask");
        microphone.want = Some(WANT);
        assert!(microphone.is_on() && microphone.wanted().is_none(), "the key refuses");
        microphone.agreed = Some(true);
        assert!(microphone.is_on());
        microphone.failed = Some("no device".to_owned());
        assert!(!microphone.is_on() && microphone.wanted().is_none(), "the key tries again");
    }
}
