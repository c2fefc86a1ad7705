//! The viewer without a window: the same client, driven by blocking calls.
//! Path 13/13: from client.rs, to scripts and tests: screen and statistics as files and values.
//! Knows the protocol's events; every wait has a time-out and names what it waited for.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thinc_protocol::clip::{ClipFormat, ClipFormats, Selection};
use thinc_protocol::file::FilePurpose;
use thinc_protocol::pen::PenSample;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{InputEvent, KeyboardLayout, View};
use thinc_region::{Rect, Size};
use thinc_transport::TransportChoice;
use thinc_viewer_core::{ClipboardPolicy, CursorPixels, StereoMode};

use crate::client::{
    Client, ClientConfig, MicrophoneChoice, NewKeys, Opening, Reconnect, SoundChoice, State,
    Status, this_program,
};
use crate::clipboard;
use crate::clipboard::board::Board;
use crate::decoder_choice::DecoderChoice;
use crate::desktops::DesktopChoice;
use crate::device_key::DeviceOptions;
use crate::error::ViewError;
use crate::files::FilesChoice;
use crate::gamma::{self, GammaChoice};
use crate::keys::{self, Key};
use crate::printing::PrintChoice;
use crate::report::Report;
use crate::saved::CacheOptions;
use crate::shot;
use crate::target::Target;

/// 10 s: the default time-out of one wait.
pub(crate) const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Most messages that wait for a script.
const ANNOUNCEMENTS_MAX: usize = 16;

/// How a headless viewer is started.
#[derive(Clone, Debug)]
pub struct HeadlessOptions {
    /// Time-out of each wait.
    pub timeout: Duration,
    /// Size requested from the session; `None` keeps its own.
    pub size: Option<Size>,
    /// The view; `None`: the whole screen at its own size.
    pub view: Option<View>,
    /// File of remembered server keys, for links without a pin.
    pub known_hosts: Option<PathBuf>,
    /// Transport to use for a link.
    pub transport: TransportChoice,
    /// How a server remembers this device.
    pub devices: DeviceOptions,
    /// Whether to reconnect after a loss.
    pub reconnect: Reconnect,
    /// The pixel cache: its size and folder.
    pub cache: CacheOptions,
    /// In which directions the clipboard is shared.
    pub clipboard: ClipboardPolicy,
    /// In which directions files are sent.
    pub files: FilesChoice,
    /// What is done with what its programs print.
    pub prints: PrintChoice,
    /// How good pictures that move are, until a script chooses.
    pub quality: PictureQuality,
    /// Whether a script may ask what colours are shown as.
    pub gamma: GammaChoice,
    /// How stereo programs are shown, until a script chooses.
    pub stereo: StereoMode,
    /// The `thinc-view` that is started to decode videos.
    pub decoder: PathBuf,
    /// What decodes them.
    pub decoding: DecoderChoice,
}

impl Default for HeadlessOptions {
    fn default() -> HeadlessOptions {
        HeadlessOptions {
            timeout: TIMEOUT_DEFAULT,
            size: None,
            view: None,
            known_hosts: None,
            transport: TransportChoice::Auto,
            devices: DeviceOptions::default(),
            reconnect: Reconnect::Never,
            cache: CacheOptions::default(),
            clipboard: ClipboardPolicy::default(),
            files: FilesChoice { to_viewer: true, to_session: true },
            prints: PrintChoice::Keep,
            quality: PictureQuality::Auto,
            gamma: GammaChoice::Session,
            stereo: StereoMode::Off,
            decoder: this_program(),
            decoding: DecoderChoice::Auto,
        }
    }
}

/// The screen as the viewer shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Pixels.
    pub size: Size,
    /// 0x00RRGGBB, row after row.
    pub pixels: Vec<u32>,
}

impl Screen {
    fn new(size: Size, pixels: &[u32]) -> Screen {
        Screen { size, pixels: pixels.iter().map(|pixel| pixel & 0x00ff_ffff).collect() }
    }

    /// The pixel at (x, y), 0x00RRGGBB; None outside the screen.
    pub fn pixel(&self, x: u32, y: u32) -> Option<u32> {
        (x < self.size.width && y < self.size.height)
            .then(|| self.pixels[y as usize * self.size.width as usize + x as usize])
    }
}

/// A viewer without a window.
pub struct Headless {
    client: Client,
    /// The clipboard of the script.
    board: Board,
    timeout: Duration,
    /// The cursor's newest state; the news are taken while waiting.
    cursor: Option<CursorPixels>,
    cursor_shown: bool,
    pointer: Option<(u16, u16)>,
    announcements: VecDeque<String>,
    answered: Vec<u32>,
    /// Without a connection, keystrokes are buffered, as in a window; otherwise input waits for
    /// one.
    buffers_input: bool,
}

impl Headless {
    /// Connects with default options and waits for the screen's size.
    pub fn connect(link: &str) -> Result<Headless, ViewError> {
        Headless::connect_with(link, HeadlessOptions::default())
    }

    /// Connects and waits for the screen's size.
    pub fn connect_with(link: &str, options: HeadlessOptions) -> Result<Headless, ViewError> {
        Headless::open(link.parse::<Target>()?, options)
    }

    /// Connects to a parsed target.
    pub fn open(
        target: impl Into<Target>,
        options: HeadlessOptions,
    ) -> Result<Headless, ViewError> {
        let target = target.into();
        let limit = target.connect_limit(options.timeout);
        let config = ClientConfig {
            target,
            known_hosts: options.known_hosts,
            new_keys: NewKeys::Tell,
            transport: options.transport,
            devices: options.devices,
            size: options.size.unwrap_or_default(),
            view: options.view,
            connect_timeout: options.timeout,
            reconnect: options.reconnect,
            cache: options.cache,
            clipboard: options.clipboard,
            files: options.files,
            prints: options.prints,
            desktop: DesktopChoice::Any,
            // A script watches the session, and takes it from nobody.
            opening: Opening::Join,
            quality: options.quality,
            gamma: options.gamma,
            stereo: options.stereo,
            sound: SoundChoice::Off,
            microphone: MicrophoneChoice::Off,
            decoder: options.decoder,
            decoding: options.decoding,
        };
        let client =
            Client::start(config, || ()).map_err(|error| ViewError::Lost(error.to_string()))?;
        let board = Board::default();
        {
            let mut state = client.lock();
            state.set_desktop(Box::new(board.clone()));
            Selection::ALL
                .into_iter()
                .for_each(|selection| state.desktop_event(board.owned(selection)));
        }
        let mut headless = Headless {
            client,
            board,
            timeout: limit,
            cursor: None,
            cursor_shown: true,
            pointer: None,
            announcements: VecDeque::new(),
            answered: Vec::new(),
            buffers_input: false,
        };
        headless.wait("connecting", |state, _| state.is_connected().then_some(()))?;
        headless.timeout = options.timeout;
        Ok(headless)
    }

    /// Changes the time-out of each wait.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Waits until `ready` returns something; fails early if the session ends.
    fn wait<T>(
        &mut self,
        what: &'static str,
        mut ready: impl FnMut(&mut State, &[u32]) -> Option<T>,
    ) -> Result<T, ViewError> {
        let (cursor, pointer, answered) = (&mut self.cursor, &mut self.pointer, &mut self.answered);
        let (cursor_shown, announcements) = (&mut self.cursor_shown, &mut self.announcements);
        let deadline = Instant::now() + self.timeout;
        let found = self.client.wait_until(deadline, |state| {
            let news = state.take_news();
            if news.cursor.is_some() {
                *cursor = news.cursor;
            }
            *cursor_shown = news.cursor_show.unwrap_or(*cursor_shown);
            if news.cursor_move.is_some() {
                *pointer = news.cursor_move;
            }
            answered.extend(news.barriers);
            if let Some(announcement) = news.announcement {
                announcements.extend(announcement.lines().map(str::to_owned));
                let surplus = announcements.len().saturating_sub(ANNOUNCEMENTS_MAX);
                announcements.drain(..surplus);
            }
            if let Some(found) = ready(state, answered) {
                return Some(Ok(found));
            }
            match &mut state.status {
                Status::Ended(error) => Some(Err(take_reason(error))),
                Status::TakenOver => Some(Err(ViewError::Closed {
                    code: CloseCode::Replaced,
                    reason: "the session was opened elsewhere".to_owned(),
                })),
                _ => None,
            }
        });
        found.unwrap_or(Err(ViewError::Timeout { what, limit: self.timeout }))
    }

    /// Waits until the viewer shows everything that was drawn before this call.
    pub fn barrier(&mut self) -> Result<(), ViewError> {
        self.answered.clear();
        let mut asked: Option<(u32, u32)> = None;
        self.wait("a barrier", |state, answered| {
            // A barrier requested on a lost connection is never answered: request it on the new
            // one.
            if asked.is_none_or(|(_, connection)| connection != state.viewers.connections()) {
                asked = state.barrier().map(|id| (id, state.viewers.connections()));
            }
            asked.filter(|(id, _)| answered.contains(id)).map(drop)
        })
    }

    /// Repeats barriers until one is answered without an update before it: nothing more is pending.
    pub fn wait_quiet(&mut self) -> Result<(), ViewError> {
        let until = Instant::now() + self.timeout;
        loop {
            let before = self.updates();
            self.barrier()?;
            if self.updates() == before {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(ViewError::Timeout {
                    what: "waiting for a screen at rest",
                    limit: self.timeout,
                });
            }
        }
    }

    /// Waits until the screen satisfies `ready`, which is called after every update.
    pub(crate) fn wait_screen(
        &mut self,
        what: &'static str,
        mut ready: impl FnMut(Size, &[u32]) -> bool,
    ) -> Result<(), ViewError> {
        self.wait(what, |state, _| {
            let framebuffer = state.viewer().framebuffer();
            ready(framebuffer.size(), framebuffer.pixels()).then_some(())
        })
    }

    /// Updates applied so far, over all connections of the newest viewer.
    pub fn updates(&self) -> u64 {
        let state = self.client.lock();
        u64::from(state.viewers.connections()) << 48 | state.viewer().stats().updates
    }

    /// The screen as the viewer shows it; of stereo programs, the left eye's picture.
    pub fn screen(&self) -> Screen {
        let state = self.client.lock();
        let framebuffer = state.viewer().framebuffer();
        Screen::new(framebuffer.size(), framebuffer.pixels())
    }

    /// The screen as the right eye sees it: stereo programs' right pictures over the framebuffer.
    pub fn right_screen(&self) -> Screen {
        let state = self.client.lock();
        let (framebuffer, right) = (state.viewer().framebuffer(), state.viewer().right_eye());
        let size = framebuffer.size();
        let mut pixels = framebuffer.pixels().to_vec();
        for (y, row) in (0..).zip(pixels.chunks_exact_mut((size.width as usize).max(1))) {
            right.overlay(0, y, row);
        }
        Screen::new(size, &pixels)
    }

    /// Both eyes' pictures as a window shows them in the mode that was chosen.
    pub fn shown_screen(&self) -> Screen {
        let mut state = self.client.lock();
        // Nobody else presents.
        let _ = state.take_damage();
        Screen::new(state.viewer().framebuffer().size(), state.viewer().picture())
    }

    /// The smallest rectangle around the places of stereo programs, if the right eye sees any.
    pub fn right_bounds(&self) -> Option<Rect> {
        let bounds = self.client.lock().viewer().right_eye().bounds();
        (!bounds.is_empty()).then_some(bounds)
    }

    /// How stereo programs are shown from now on.
    ///
    /// # Errors
    /// The session has no stereo.
    pub fn choose_stereo(&mut self, mode: StereoMode) -> Result<(), ViewError> {
        self.wait("the connection", |state, _| state.is_connected().then_some(()))?;
        let mut state = self.client.lock();
        if mode.is_on() && !state.viewer().takes_stereo() {
            return Err(ViewError::Script("this session has no stereo".to_owned()));
        }
        state.choose_stereo(mode);
        Ok(())
    }

    /// Waits until the right eye sees this colour, 0xRRGGBB, at a pixel.
    pub(crate) fn wait_right_pixel(
        &mut self,
        (x, y): (u32, u32),
        color: u32,
    ) -> Result<(), ViewError> {
        self.wait("the right eye's pixel", |state, _| {
            let framebuffer = state.viewer().framebuffer();
            let size = framebuffer.size();
            if x >= size.width || y >= size.height {
                return None;
            }
            let mut pixel = [framebuffer.row(y as usize)[x as usize]];
            state.viewer().right_eye().overlay(x as i32, y as i32, &mut pixel);
            (pixel[0] & 0x00ff_ffff == color).then_some(())
        })
    }

    /// Waits until the right eye sees a stereo program, or none.
    pub(crate) fn wait_right(&mut self, sees: bool) -> Result<(), ViewError> {
        self.wait("the right eye's picture", |state, _| {
            (state.viewer().right_eye().is_empty() != sees).then_some(())
        })
    }

    /// The screen's size.
    pub fn size(&self) -> Size {
        self.client.lock().viewer().framebuffer().size()
    }

    /// xxh3 of the screen.
    pub fn hash(&self) -> u64 {
        shot::hash(self.client.lock().viewer().framebuffer().pixels())
    }

    /// The cursor's newest image, if there is one.
    pub fn cursor(&self) -> Option<&CursorPixels> {
        self.cursor.as_ref()
    }

    /// Whether the session shows its cursor.
    pub(crate) fn cursor_shown(&self) -> bool {
        self.cursor_shown
    }

    /// The pointer position last set by an application.
    pub fn pointer(&self) -> Option<(u16, u16)> {
        self.pointer
    }

    /// The next message of the session or its administrator, once there is one.
    pub fn announcement(&mut self) -> Result<String, ViewError> {
        loop {
            let known = self.client.lock().session.announcements();
            // What was told before is in the news, or taken from them.
            self.wait("the news", |_, _| Some(()))?;
            if let Some(announcement) = self.announcements.pop_front() {
                return Ok(announcement);
            }
            self.wait("a message", |state, _| {
                (state.session.announcements() != known).then_some(())
            })?;
        }
    }

    /// The statistics, as `--stats-json` writes them.
    pub fn report(&self) -> Report {
        Report::new(&self.client.lock())
    }

    /// Sends one input event, once connected; returns its number.
    pub fn input(&mut self, event: InputEvent) -> Result<u32, ViewError> {
        let buffers_input = self.buffers_input;
        self.wait("the connection", |state, _| {
            if buffers_input { state.input_or_buffer(event) } else { state.input(event) }
        })
    }

    /// Sets whether keystrokes are buffered without a connection, as in a window, instead of
    /// waiting for one.
    pub(crate) fn set_buffers_input(&mut self, buffers_input: bool) {
        self.buffers_input = buffers_input;
    }

    /// Presses or releases a key.
    pub fn key(&mut self, key: &Key, down: bool) -> Result<u32, ViewError> {
        self.input(InputEvent::Key { code: key.code, keysym: key.keysym, down })
    }

    /// Presses keys in this order and releases them in reverse: `Control_L+Alt_L+t`.
    pub fn chord(&mut self, names: &str) -> Result<(), ViewError> {
        // "+" alone, or at the end of a chord, names the plus key.
        let (rest, plus) = match names.strip_suffix('+') {
            Some(rest) if rest.is_empty() || rest.ends_with('+') => {
                (rest.trim_end_matches('+'), true)
            }
            _ => (names, false),
        };
        let mut pressed = Vec::new();
        for name in rest.split('+').filter(|name| !name.is_empty()) {
            let key = keys::by_name(name)
                .ok_or_else(|| ViewError::Script(format!("unknown key {name:?}")))?;
            pressed.push((*key).to_owned());
        }
        if plus {
            pressed.push(*keys::by_name("equal").expect("in the table"));
        }
        if pressed.is_empty() {
            return Err(ViewError::Script("a key name is missing".into()));
        }
        for key in &pressed {
            self.key(key, true)?;
        }
        for key in pressed.iter().rev() {
            self.key(key, false)?;
        }
        Ok(())
    }

    /// Types a text as on a US keyboard; other characters are sent as keysyms without a key code.
    pub fn type_text(&mut self, text: &str) -> Result<(), ViewError> {
        let shift = *keys::by_name("Shift_L").expect("in the table");
        for character in text.chars() {
            match keys::us_place(character) {
                Some((key, shifted)) => {
                    let keysym = keys::keysym_of_char(character).unwrap_or(key.keysym);
                    if shifted {
                        self.key(&shift, true)?;
                    }
                    self.input(InputEvent::Key { code: key.code, keysym, down: true })?;
                    self.input(InputEvent::Key { code: key.code, keysym, down: false })?;
                    if shifted {
                        self.key(&shift, false)?;
                    }
                }
                None => {
                    let keysym = keys::keysym_of_char(character)
                        .ok_or_else(|| ViewError::Script(format!("no keysym for {character:?}")))?;
                    self.input(InputEvent::Key { code: 0, keysym, down: true })?;
                    self.input(InputEvent::Key { code: 0, keysym, down: false })?;
                }
            }
        }
        Ok(())
    }

    /// Sends each character as an input method does, without a key.
    pub fn text(&mut self, text: &str) -> Result<(), ViewError> {
        text.chars().try_for_each(|character| self.input(InputEvent::Char(character)).map(drop))
    }

    /// Sets the keyboard layout.
    pub fn set_layout(&mut self, layout: KeyboardLayout) -> Result<(), ViewError> {
        self.wait("the connection", |state, _| {
            state.is_connected().then(|| state.set_layout(layout.clone()))
        })
    }

    /// Chooses how good pictures that move are.
    pub fn choose_quality(&mut self, quality: PictureQuality) -> Result<(), ViewError> {
        self.wait("the connection", |state, _| {
            state.is_connected().then(|| state.choose_quality(quality))
        })
    }

    /// Asks for what is shown now lossless, also while it moves.
    pub fn request_exact_frame(&mut self) -> Result<(), ViewError> {
        let is_asked = self.wait("the connection", |state, _| {
            state.is_connected().then(|| state.request_exact_frame())
        })?;
        let refused = || ViewError::Script("this session takes no choice of quality".to_owned());
        is_asked.then_some(()).ok_or_else(refused)
    }

    /// Moves the pointer to a pixel of the screen.
    pub fn move_to(&mut self, x: u16, y: u16) -> Result<(), ViewError> {
        self.input(InputEvent::Motion { x, y }).map(drop)
    }

    /// Moves the pointer by a distance in the screen's pixels, from wherever it is in the session.
    pub fn move_by(&mut self, dx: i16, dy: i16) -> Result<(), ViewError> {
        if !self.client.lock().viewer().takes_relative() {
            return Err(ViewError::Script(
                "this session takes no relative motion: it runs an older thinc".to_owned(),
            ));
        }
        self.input(InputEvent::MotionBy { dx, dy }).map(drop)
    }

    /// Sends a sample of the pen.
    pub fn pen(&mut self, sample: PenSample) -> Result<(), ViewError> {
        let event = InputEvent::Pen(sample);
        let is_sent =
            self.wait("the connection", |state, _| state.input(event).map(|_| state.takes_pen()))?;
        is_sent.then_some(()).ok_or_else(|| {
            ViewError::Script("this session takes no pens: it runs an older thinc".to_owned())
        })
    }

    /// Waits until an application wants relative motion, or none does.
    pub fn wait_relative(&mut self, wanted: bool) -> Result<(), ViewError> {
        let what =
            if wanted { "a wish for relative motion" } else { "no wish for relative motion" };
        self.wait(what, |state, _| (state.session.relative_wanted() == wanted).then_some(()))
    }

    /// Whether an application wants relative motion.
    pub fn relative_wanted(&self) -> bool {
        self.client.lock().session.relative_wanted()
    }

    /// What this colour, 0xRRGGBB, is shown as at a pixel of the session's screen. The viewer's
    /// pixels are never changed by it.
    pub fn shown_as(&self, at: (i32, i32), color: u32) -> u32 {
        gamma::shown_as(self.client.lock().session.gamma(), at, color)
    }

    /// Waits until a colour is shown as another there.
    pub fn wait_shown_as(
        &mut self,
        at: (i32, i32),
        color: u32,
        shown: u32,
    ) -> Result<(), ViewError> {
        self.wait("these colours", |state, _| {
            (gamma::shown_as(state.session.gamma(), at, color) == shown).then_some(())
        })
    }

    /// Presses or releases a button.
    pub fn button(&mut self, button: u8, down: bool) -> Result<(), ViewError> {
        self.input(InputEvent::Button { button, down }).map(drop)
    }

    /// Presses and releases a button where the pointer is.
    pub fn click(&mut self, button: u8) -> Result<(), ViewError> {
        self.button(button, true)?;
        self.button(button, false)
    }

    /// Scrolls by 1/120 notches; positive is right and down.
    pub fn scroll(&mut self, dx: i16, dy: i16) -> Result<(), ViewError> {
        self.input(InputEvent::Scroll { dx, dy }).map(drop)
    }

    /// Copies a content on this side, in this format only.
    pub fn copy(&mut self, selection: Selection, format: ClipFormat, content: Vec<u8>) {
        self.set_copied(selection, format, content, false);
    }

    /// Adds another format of the copied content.
    pub fn add_copied(&mut self, selection: Selection, format: ClipFormat, content: Vec<u8>) {
        self.set_copied(selection, format, content, true);
    }

    fn set_copied(&self, selection: Selection, format: ClipFormat, content: Vec<u8>, more: bool) {
        // Under the lock, so that it is ordered with what the session copies meanwhile.
        let mut state = self.client.lock();
        let event = self.board.copy(selection, format, content, more);
        state.desktop_event(event);
    }

    /// Waits until the session offers exactly these formats; none: until it offers nothing.
    pub fn wait_copied(
        &mut self,
        selection: Selection,
        formats: ClipFormats,
    ) -> Result<(), ViewError> {
        self.wait("the session's clipboard", |state, _| {
            (state.session_offers(selection) == formats).then_some(())
        })
    }

    /// Pastes the session's selection.
    pub fn paste(
        &mut self,
        selection: Selection,
        format: ClipFormat,
    ) -> Result<Vec<u8>, ViewError> {
        let (ticket, event) = self.board.paste(selection, format);
        self.client.lock().desktop_event(event);
        let board = self.board.clone();
        let pasted =
            self.wait("the content of the session's selection", move |_, _| board.pasted(ticket))?;
        pasted.map_err(|why| {
            let words = clipboard::reason(why)
                .unwrap_or_else(|| "the session does not offer this format".to_owned());
            ViewError::Script(format!("not pasted: {words}"))
        })
    }

    /// Sends files to the session, and waits until they are there; returns what the user is told.
    pub fn send_files(
        &mut self,
        paths: Vec<PathBuf>,
        purpose: FilePurpose,
    ) -> Result<String, ViewError> {
        self.client.lock().send_files(paths, purpose);
        self.wait_for_files(&["Sent "])
    }

    /// Waits until the session offers files; returns what the user is asked.
    pub fn wait_files_question(&mut self) -> Result<String, ViewError> {
        self.wait("files of the session", |state, _| state.files_question())
    }

    /// Answers that question; waits until the files are received, and returns what the user is
    /// told.
    pub fn answer_files(&mut self, takes: bool) -> Result<String, ViewError> {
        let mut state = self.client.lock();
        let question = state.files_question().unwrap_or_default();
        state.answer_files(takes, &question);
        drop(state);
        let told = self.wait_for_files(if takes { &["Received "] } else { &["Refused"] })?;
        // The session knows it too: a script may quit now.
        self.barrier()?;
        Ok(told)
    }

    /// Waits for one of these notices, or for one that says that it failed.
    fn wait_for_files(&mut self, ends: &[&str]) -> Result<String, ViewError> {
        let told = self.wait("the end of a transfer of files", |state, _| {
            let text = state.take_told_of_files()?;
            let has_failed = text.starts_with("Not ");
            (has_failed || ends.iter().any(|end| text.starts_with(end))).then_some(text)
        })?;
        if told.starts_with("Not ") { Err(ViewError::Script(told)) } else { Ok(told) }
    }

    /// Resizes the session and waits until it has this size.
    pub fn resize(&mut self, size: Size) -> Result<(), ViewError> {
        self.client.lock().resize(size);
        self.wait("the session's new size", |state, _| {
            (state.viewer().framebuffer().size() == size).then_some(())
        })
    }

    /// Sets the view and waits until it is shown.
    pub fn set_view(&mut self, view: View) -> Result<(), ViewError> {
        let before = {
            let mut state = self.client.lock();
            let before = state.session.geometries();
            state.set_view(view).then_some(before)
        };
        if let Some(before) = before {
            self.wait("the new view", |state, _| {
                (state.session.geometries() > before).then_some(())
            })?;
        }
        self.barrier()
    }

    /// Writes the screen as a PNG.
    pub fn screenshot(&self, path: &Path) -> Result<(), ViewError> {
        write(path, &self.screen())
    }

    /// Writes the screen as the right eye sees it.
    pub(crate) fn right_screenshot(&self, path: &Path) -> Result<(), ViewError> {
        write(path, &self.right_screen())
    }

    /// Writes both eyes' pictures as a window shows them.
    pub(crate) fn shown_screenshot(&self, path: &Path) -> Result<(), ViewError> {
        write(path, &self.shown_screen())
    }

    /// Writes the statistics as JSON.
    pub fn write_stats(&self, path: &Path) -> Result<(), ViewError> {
        self.report().write(path).map_err(|error| file_error(path, error))
    }

    /// Waits until the connection has ended; returns the reason.
    pub fn wait_end(&mut self) -> Result<ViewError, ViewError> {
        match self.wait("the end of the connection", |_, _| None::<()>) {
            Err(timeout @ ViewError::Timeout { .. }) => Err(timeout),
            Err(end) => Ok(end),
            Ok(()) => unreachable!("this wait has no result"),
        }
    }

    /// Waits until the session is unresponsive.
    pub fn wait_unresponsive(&mut self) -> Result<(), ViewError> {
        self.wait("an unresponsive session", |state, _| state.is_unresponsive().then_some(()))
    }

    /// Waits for this connection (the first is 1): after a loss, until the viewer has reconnected.
    pub fn wait_connection(&mut self, number: u32) -> Result<(), ViewError> {
        self.wait("reconnecting", |state, _| {
            (state.is_connected() && state.viewers.connections() >= number).then_some(())
        })
    }
}

fn write(path: &Path, screen: &Screen) -> Result<(), ViewError> {
    shot::write_png(path, screen.size, &screen.pixels).map_err(|error| file_error(path, error))
}

fn file_error(path: &Path, error: io::Error) -> ViewError {
    ViewError::File { path: path.to_owned(), error }
}

/// Takes the reason of the end; later calls get the same message, and the same code if it can be
/// copied.
fn take_reason(error: &mut ViewError) -> ViewError {
    let again = match &*error {
        ViewError::Closed { code, reason } => {
            ViewError::Closed { code: *code, reason: reason.clone() }
        }
        ViewError::Protocol(what) => ViewError::Protocol(what.clone()),
        other => ViewError::Lost(other.to_string()),
    };
    std::mem::replace(error, again)
}
