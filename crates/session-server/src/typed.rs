//! Who is there, and which program they type into. Beside the path: from actor.rs, which sees
//! input, to the supervisor, which gives the processes that answer a person the processor first.
//! An ordinary X client on a thread of its own asks for the window with the focus; the X server
//! itself names the process of its client (X-Resource), which no property can forge. Knows windows
//! and process IDs; never control groups.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use thinc_protocol::Micros;
use thinc_protocol::viewer::{InputEvent, TouchPhase};
use tracing::{info, warn};
use x11rb::connection::Connection as _;
use x11rb::protocol::Event as XEvent;
use x11rb::protocol::res::{ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{
    Atom, AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, EventMask, InputFocus, Window,
};
use x11rb::rust_connection::RustConnection;

/// Without a viewer a person has left after so long: one that reconnects is back by then.
const LEFT: Micros = 30_000_000;
/// Who shows the session, and has neither typed nor clicked nor heard anything for so long, is
/// elsewhere. What they do next is answered by processes that go first again within milliseconds.
const QUIET: Micros = 600_000_000;
/// Who does something after so long without it may find their programs paged out: as long as a
/// program that takes all memory needs for that.
const AWAY: Micros = 60_000_000;
/// While keys come, the focus is asked for this often: a round trip to the X server, which is
/// about to handle a key.
const QUESTION_INTERVAL: Micros = 250_000;
/// Longest line of news, in bytes.
pub const NEWS_BYTES_MAX: u64 = 256;

/// What the session process tells the supervisor: a line of JSON each, on standard output, after
/// [`READY_LINE`](crate::READY_LINE).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionNews {
    /// Somebody types, clicks or has just opened the session; or nobody has for a while.
    Present(bool),
    /// They have come back: the first viewer or the first input after a minute without either.
    Returned,
    /// The process of the X client whose window has the keyboard.
    Typed(u32),
    /// The process of the window manager, which draws frames and gives windows the focus.
    Manager(u32),
}

/// What the thread reads when it is woken.
#[derive(Debug, Default)]
struct Flags {
    is_present: AtomicBool,
    /// Until the thread has told it.
    is_back: AtomicBool,
}

/// What the actor knows of a person, and the way to the thread.
#[derive(Debug)]
pub(crate) struct Attention {
    flags: Arc<Flags>,
    wake: Option<UnixStream>,
    /// When a person was last seen; none while nobody is present.
    seen_at: Option<Micros>,
    /// When they last did something.
    acted_at: Option<Micros>,
    is_viewed: bool,
    asked_at: Option<Micros>,
}

impl Attention {
    /// Starts the thread, which does not delay the end of the process.
    pub(crate) fn start(display: &str) -> Attention {
        let flags = Arc::<Flags>::default();
        let wake = match pair() {
            Ok((ours, theirs)) => {
                let (display, flags) = (display.to_owned(), flags.clone());
                thread::spawn(move || {
                    if let Err(error) = run(&display, &flags, theirs) {
                        info!("it is no longer tracked which program is typed into: {error}");
                    }
                });
                Some(ours)
            }
            Err(error) => {
                warn!("it is not tracked which program is typed into: {error}");
                None
            }
        };
        Attention::new(flags, wake)
    }

    fn new(flags: Arc<Flags>, wake: Option<UnixStream>) -> Attention {
        let (seen_at, acted_at, asked_at) = (None, None, None);
        Attention { flags, wake, seen_at, acted_at, is_viewed: false, asked_at }
    }

    /// A viewer has connected.
    pub(crate) fn handle_person(&mut self, now: Micros) {
        self.seen_at = Some(now);
        let is_back = self.acted_at.replace(now).is_none_or(|at| now >= at + AWAY);
        let was_present = self.flags.is_present.swap(true, Ordering::Relaxed);
        // The thread that sees this sees that they are there.
        self.flags.is_back.fetch_or(is_back, Ordering::Release);
        if !was_present || is_back {
            self.ask(now);
        }
    }

    pub(crate) fn handle_input(&mut self, input: &InputEvent, now: Micros) {
        let (is_often, is_click) = match input {
            InputEvent::Key { down, .. } => (*down, false),
            InputEvent::Char(_) => (true, false),
            // Each sample says that the tip is down.
            InputEvent::Pen(sample) => (sample.buttons != 0, false),
            InputEvent::Button { .. } => (false, true),
            InputEvent::Touch { phase, .. } => (false, *phase != TouchPhase::Update),
            _ => (false, false),
        };
        self.handle_person(now);
        let is_due = self.asked_at.is_none_or(|at| now >= at + QUESTION_INTERVAL);
        // A click is what changes the focus where no window manager says so.
        if is_click || (is_often && is_due) {
            self.ask(now);
        }
    }

    /// Whether any viewer is connected.
    pub(crate) fn set_viewed(&mut self, is_viewed: bool, now: Micros) {
        if self.is_viewed && !is_viewed && self.seen_at.is_some() {
            self.seen_at = Some(now);
        }
        self.is_viewed = is_viewed;
    }

    /// A program plays sound: a video has no input.
    pub(crate) fn handle_sound(&mut self, now: Micros) {
        if self.is_viewed && self.seen_at.is_some() {
            self.seen_at = Some(now);
        }
    }

    /// When [`Attention::handle_time`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Micros> {
        Some(self.seen_at? + if self.is_viewed { QUIET } else { LEFT })
    }

    pub(crate) fn handle_time(&mut self, now: Micros) {
        if self.deadline().is_some_and(|at| at <= now) {
            self.seen_at = None;
            self.flags.is_present.store(false, Ordering::Relaxed);
            self.ask(now);
        }
    }

    fn ask(&mut self, now: Micros) {
        self.asked_at = Some(now);
        if let Some(wake) = &mut self.wake {
            // Full: the thread is about to ask. Closed: it has ended.
            let _ = wake.write(&[0]);
        }
    }
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    theirs.set_nonblocking(true)?;
    Ok((ours, theirs))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Prints news until this process ends, or nobody reads them.
fn run(display: &str, flags: &Flags, mut wake: UnixStream) -> Result<(), Failure> {
    let mut told = Told::default();
    let mut focus: Option<Focus> = None;
    loop {
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        if let Some(focus) = &focus {
            fds.push(PollFd::new(focus.x.stream(), PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_asked = match wake.read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(error.into()),
        };
        let is_back = flags.is_back.swap(false, Ordering::Acquire);
        let present = flags.is_present.load(Ordering::Relaxed);
        if present != told.present {
            told.present = present;
            tell(SessionNews::Present(present))?;
        }
        // Before the X server is asked, which may be paged out itself.
        if is_back {
            tell(SessionNews::Returned)?;
        }
        // Until somebody is there, this is no client of the X server.
        if focus.is_none() && !(present && is_asked) {
            continue;
        }
        let found = match &focus {
            Some(focus) => focus.news(is_asked, &mut told),
            None => Focus::connect(display).and_then(|new| {
                let news = new.news(true, &mut told);
                focus = Some(new);
                news
            }),
        };
        match found {
            Ok(news) => news.into_iter().try_for_each(tell)?,
            Err(error) => {
                // Presence is told all the same; the next question connects again.
                focus = None;
                if !std::mem::replace(&mut told.failure, true) {
                    info!("it is not known which program is typed into: {error}");
                }
            }
        }
    }
}

/// What the supervisor knows already.
#[derive(Debug, Default)]
struct Told {
    present: bool,
    typed: Option<u32>,
    manager: Option<u32>,
    failure: bool,
}

/// Blocks this thread, and nothing else, while the supervisor does not read.
fn tell(news: SessionNews) -> Result<(), Failure> {
    let mut line = serde_json::to_vec(&news)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// Which properties of the root window are new.
#[derive(Default)]
struct Changed {
    active: bool,
    manager: bool,
}

/// The connection to the X server.
struct Focus {
    x: RustConnection,
    root: Window,
    /// Window managers write both to the root window (EWMH): the window that is active, and one of
    /// their own.
    active: Atom,
    manager: Atom,
}

impl Focus {
    fn connect(display: &str) -> Result<Focus, Failure> {
        // Reads XAUTHORITY from the environment, where the supervisor put it.
        let (x, screen) = x11rb::connect(Some(display))?;
        let version = x.res_query_version(1, 2)?.reply()?;
        if (version.server_major, version.server_minor) < (1, 2) {
            return Err("the X server does not name the processes of its clients".into());
        }
        let root = x.setup().roots[screen].root;
        let active = x.intern_atom(false, b"_NET_ACTIVE_WINDOW")?;
        let manager = x.intern_atom(false, b"_NET_SUPPORTING_WM_CHECK")?;
        let (active, manager) = (active.reply()?.atom, manager.reply()?.atom);
        let events = ChangeWindowAttributesAux::new().event_mask(EventMask::PROPERTY_CHANGE);
        x.change_window_attributes(root, &events)?.check()?;
        Ok(Focus { x, root, active, manager })
    }

    /// What has changed since it was told. `is_asked`: even if no event says so.
    fn news(&self, is_asked: bool, told: &mut Told) -> Result<Vec<SessionNews>, Failure> {
        let mut news = Vec::new();
        let mut is_due = is_asked;
        // Until no event is left: those that arrive during a request are queued in x11rb, where
        // poll does not see them.
        loop {
            let changed = self.take_events()?;
            if !changed.active && !changed.manager && !std::mem::take(&mut is_due) {
                return Ok(news);
            }
            if changed.manager || told.manager.is_none() {
                let manager = self.window_manager()?;
                if manager.is_some() && manager != told.manager {
                    told.manager = manager;
                    news.extend(manager.map(SessionNews::Manager));
                }
            }
            let typed = self.process()?;
            if typed.is_some() && typed != told.typed {
                told.typed = typed;
                news.extend(typed.map(SessionNews::Typed));
            }
        }
    }

    /// What the window manager has written since.
    fn take_events(&self) -> Result<Changed, Failure> {
        let mut changed = Changed::default();
        while let Some(event) = self.x.poll_for_event()? {
            if let XEvent::PropertyNotify(event) = event {
                changed.active |= event.atom == self.active;
                changed.manager |= event.atom == self.manager;
            }
        }
        Ok(changed)
    }

    /// The process of the window manager, if there is one.
    fn window_manager(&self) -> Result<Option<u32>, Failure> {
        let kind = AtomEnum::WINDOW;
        let window = self.x.get_property(false, self.root, self.manager, kind, 0, 1)?.reply()?;
        match window.value32().and_then(|mut values| values.next()) {
            Some(window) => self.process_of(window),
            None => Ok(None),
        }
    }

    /// The process whose window gets keys; none if no window does, or its client is on another
    /// machine.
    fn process(&self) -> Result<Option<u32>, Failure> {
        let focus = self.x.get_input_focus()?.reply()?.focus;
        let window = if focus == Window::from(InputFocus::NONE) {
            return Ok(None);
        } else if focus == Window::from(InputFocus::POINTER_ROOT) || focus == self.root {
            // Without a window manager keys go to where the pointer is.
            match self.x.query_pointer(self.root)?.reply()?.child {
                x11rb::NONE => return Ok(None),
                window => self.deepest(window)?,
            }
        } else {
            focus
        };
        self.process_of(window)
    }

    fn process_of(&self, window: Window) -> Result<Option<u32>, Failure> {
        let spec = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
        let Ok(answer) = self.x.res_query_client_ids(&[spec])?.reply() else {
            // The window has gone meanwhile.
            return Ok(None);
        };
        Ok(answer.ids.first().and_then(|id| id.value.first().copied()).filter(|&pid| pid != 0))
    }

    /// The window at the pointer, inside a frame: the frame is the window manager's.
    fn deepest(&self, mut window: Window) -> Result<Window, Failure> {
        // Windows are not nested deeper; another client may change them meanwhile.
        for _ in 0..32 {
            match self.x.query_pointer(window)?.reply() {
                Ok(inside) if inside.child != x11rb::NONE => window = inside.child,
                _ => break,
            }
        }
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: InputEvent = InputEvent::Key { code: 30, keysym: 0, down: true };

    /// Without a thread: what it would be asked stays in the other end.
    fn attention() -> (Attention, UnixStream) {
        let (ours, theirs) = pair().unwrap();
        (Attention::new(Arc::default(), Some(ours)), theirs)
    }

    fn questions(thread: &mut UnixStream) -> usize {
        thread.read(&mut [0; 64]).unwrap_or(0)
    }

    #[test]
    fn a_person_is_there_from_the_first_input_until_long_after_the_last() {
        let (mut attention, mut thread) = attention();
        assert_eq!(attention.deadline(), None);
        attention.set_viewed(true, 0);
        attention.handle_sound(1);
        assert_eq!(attention.deadline(), None, "nobody has been there");
        attention.handle_input(&InputEvent::Motion { x: 1, y: 1 }, 5);
        assert!(attention.flags.is_present.load(Ordering::Relaxed));
        assert_eq!(questions(&mut thread), 1, "who gets keys is asked at once");
        assert_eq!(attention.deadline(), Some(5 + QUIET));
        attention.handle_input(&InputEvent::Motion { x: 2, y: 1 }, 10);
        assert_eq!(questions(&mut thread), 0, "the pointer's way changes nothing");
        attention.handle_sound(20);
        attention.handle_time(10 + QUIET);
        assert!(attention.flags.is_present.load(Ordering::Relaxed), "they watch a video");
        attention.handle_time(20 + QUIET);
        assert!(!attention.flags.is_present.load(Ordering::Relaxed));
        assert_eq!((questions(&mut thread), attention.deadline()), (1, None));
        attention.handle_person(21 + QUIET);
        assert_eq!(questions(&mut thread), 1);
    }

    #[test]
    fn without_a_viewer_a_person_has_left_soon_unless_they_come_back() {
        let (mut attention, _thread) = attention();
        attention.set_viewed(true, 0);
        attention.handle_person(0);
        attention.set_viewed(false, 100);
        attention.handle_sound(200);
        assert_eq!(attention.deadline(), Some(100 + LEFT), "nobody hears it");
        attention.set_viewed(true, 300);
        assert_eq!(attention.deadline(), Some(100 + QUIET));
    }

    #[test]
    fn who_does_something_after_a_minute_without_has_come_back() {
        let (mut attention, mut thread) = attention();
        let is_back = |of: &Attention| of.flags.is_back.swap(false, Ordering::Relaxed);
        attention.handle_person(0);
        assert!(is_back(&attention), "the first viewer");
        attention.set_viewed(true, 0);
        attention.handle_input(&KEY, 1);
        attention.handle_sound(AWAY);
        attention.handle_person(AWAY);
        assert!(!is_back(&attention), "another viewer, within the minute");
        questions(&mut thread);
        attention.handle_sound(2 * AWAY - 1);
        let motion = InputEvent::Motion { x: 1, y: 1 };
        attention.handle_input(&motion, 2 * AWAY);
        assert!(is_back(&attention), "what is heard is not done by them");
        assert_eq!(questions(&mut thread), 1, "it is told at once");
        attention.handle_input(&motion, 2 * AWAY + 1);
        assert!(!is_back(&attention) && questions(&mut thread) == 0);
    }

    #[test]
    fn keys_ask_for_the_focus_now_and_then_and_clicks_always() {
        let (mut attention, mut thread) = attention();
        for at in 0..10 {
            attention.handle_input(&KEY, at * 50_000);
        }
        assert_eq!(questions(&mut thread), 2, "at 0 and 250 ms");
        attention.handle_input(&InputEvent::Key { code: 30, keysym: 0, down: false }, 900_000);
        assert_eq!(questions(&mut thread), 0, "a release goes where its press went");
        for at in [900_001, 900_002] {
            attention.handle_input(&InputEvent::Button { button: 1, down: true }, at);
        }
        assert_eq!(questions(&mut thread), 2);
    }

    #[test]
    fn news_is_one_short_line() {
        for news in
            [SessionNews::Present(true), SessionNews::Returned, SessionNews::Manager(u32::MAX)]
        {
            let line = serde_json::to_string(&news).unwrap();
            assert!(line.len() as u64 + 1 < NEWS_BYTES_MAX && !line.contains('\n'));
            assert_eq!(serde_json::from_str::<SessionNews>(&line).unwrap(), news);
        }
    }
}
