//! Path 13/13, and path back: from SDL's events to client.rs, and from client.rs to the window.
//! One loop that sleeps until an event of the desktop or news of the viewer's connection, which
//! wakes it by an SDL event. Presents as soon as a drawing burst is complete, and only the damage.
//! Knows SDL; decides nothing about the protocol.

mod capture;
mod channels;
mod clipboard;
mod commands;
mod cursor;
mod drawing;
mod drop_place;
mod entries;
mod files;
mod follow;
#[cfg(feature = "gpu")]
mod gl;
#[cfg(feature = "gpu")]
mod gpu;
#[cfg(not(feature = "gpu"))]
#[path = "without_gpu.rs"]
mod gpu;
mod hints;
mod icon;
mod keyboard;
mod layout;
mod menu;
mod message;
mod messages;
mod microphone;
mod modified_buttons;
mod panes;
mod pen;
mod people;
mod place_view;
mod pointer;
mod pointing;
mod present;
mod questions;
mod shortcuts;
mod sound;
mod statistics;
mod titles;
mod typing;
mod waker;
mod zoom;

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use sdl3::event::{Event, EventSender};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::{InputEvent, KeyboardLayout};
use thinc_region::{Rect, Region, Size};
use thinc_transport::TransportChoice;
use thinc_viewer_core::{ClipboardPolicy, StereoMode};

use crate::cli::{LayoutChoice, Present};
use crate::client::{
    Client, ClientConfig, NewKeys, News, Reconnect, SoundChoice, State, Status, this_program,
};
use crate::compose::Scene;
use crate::device_key::DeviceOptions;
use crate::error::ViewError;
use crate::gamma::GammaChoice;
use crate::report::Report;
use crate::saved::CacheOptions;
use crate::shown_by;
use crate::target::Target;
use crate::view::ViewChoice;

use channels::Channels;
use clipboard::WindowClipboard;
use drawing::{Drawing, Placed, due_in};
use keyboard::Keyboard;
use menu::Menus;
use messages::{Messages, message_of};
use microphone::WindowMicrophone;
use modified_buttons::GrabbedPointer;
use panes::{Pane, Windows};
use people::Pointers;
use pointing::{Point, Pointing};
use present::Drawn;
use questions::Questions;
use shortcuts::{closes_announcement, shortcut};
use sound::WindowSound;
use statistics::StatisticsPanel;
use titles::Titles;
use typing::Typing;
use waker::Waker;
use zoom::Zoom;

pub use message::show_error;
pub use panes::WindowMode;

/// How the window is started.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// Start in fullscreen.
    pub fullscreen: bool,
    /// One window, or one for each of several monitors.
    pub mode: WindowMode,
    /// Size of the window and the session, or of each window.
    pub size: Option<Size>,
    /// The view chosen on the command line, if any.
    pub view: Option<ViewChoice>,
    /// Show the statistics from the start.
    pub statistics: bool,
    /// Which presenter to use.
    pub present: Present,
    /// Keyboard layout of the session.
    pub layout: LayoutChoice,
    /// Time-out of one connection attempt.
    pub timeout: Duration,
    /// File of remembered server keys, for links without a pin.
    pub known_hosts: Option<PathBuf>,
    /// How a server remembers this device.
    pub devices: DeviceOptions,
    /// Transport to use for a link.
    pub transport: TransportChoice,
    /// Which of a person's desktops behind a broker is opened.
    pub desktop: crate::desktops::DesktopChoice,
    /// What happens where the session is shown elsewhere.
    pub opening: crate::client::Opening,
    /// File for the statistics at the end.
    pub stats_json: Option<PathBuf>,
    /// The pixel cache: its size and folder.
    pub cache: CacheOptions,
    /// In which directions the clipboard is shared.
    pub clipboard: ClipboardPolicy,
    /// In which directions files are sent.
    pub files: crate::files::FilesChoice,
    /// What is done with what its programs print.
    pub prints: crate::printing::PrintChoice,
    /// How good pictures that move are, until the user chooses.
    pub quality: PictureQuality,
    /// Whether night colours and gamma of the session are shown.
    pub gamma: GammaChoice,
    /// How stereo programs are shown, until the user chooses.
    pub stereo: StereoMode,
    /// What sound is played.
    pub sound: SoundChoice,
    /// Whether programs of the session may hear the microphone.
    pub microphone: crate::client::MicrophoneChoice,
    /// What decodes videos.
    pub decoding: crate::decoder_choice::DecoderChoice,
    /// Show an error in a window of its own, if it ends the viewer before there was another.
    pub error_window: bool,
}

/// SDL event: the client has news.
struct Wake;

/// SDL event: the local keyboard has this layout.
struct LayoutChanged(KeyboardLayout);

/// Shows the session until the user closes the window or the session ends.
pub fn run(target: Target, options: &WindowOptions) -> Result<(), ViewError> {
    match serve(target, options) {
        Ok(None) => Ok(()),
        // The window has shown it.
        Ok(Some(error)) => Err(error),
        Err(error) => {
            if options.error_window {
                show_error(&error);
            }
            Err(error)
        }
    }
}

/// As [`run`]; returns the error that ended the session, which the window has shown.
fn serve(target: Target, options: &WindowOptions) -> Result<Option<ViewError>, ViewError> {
    let host = target.host();
    let limit = target.connect_limit(options.timeout);
    let waker = Arc::<Waker>::default();
    let client = Client::start(client_config(target, options), {
        let waker = waker.clone();
        move || waker.wake()
    })
    .map_err(|error| ViewError::Lost(error.to_string()))?;
    // The window opens when there is something to show, at the session's size; earlier errors are
    // printed on stderr.
    let size = wait_for_screen(&client, limit)?;
    let (desktop, mut pump) = Desktop::open()?;
    let sender = desktop.events.event_sender();
    waker.connect(move || sender.push_custom_event(Wake).is_ok());
    let panes = panes::open(&desktop.video, &host, size, options)?;
    if panes.is_empty() {
        return Err(ViewError::Window("the desktop has no monitor".to_owned()));
    }
    client.lock().present_whole_bursts();
    let mut app = App::new(&client, &waker, &desktop, options, panes, host);
    app.begin();
    app.handle_all(&mut pump)?;
    if let Some(path) = &options.stats_json {
        Report::new(&client.lock())
            .write(path)
            .map_err(|error| ViewError::File { path: path.clone(), error })?;
    }
    match app.ended.take() {
        // The user logged out in the session: not an error.
        Some(ViewError::Closed { code: CloseCode::SessionEnded, reason }) => {
            crate::error::report(reason);
            Ok(None)
        }
        ended => Ok(ended),
    }
}

/// How the window's client is started.
fn client_config(target: Target, options: &WindowOptions) -> ClientConfig {
    ClientConfig {
        target,
        known_hosts: options.known_hosts.clone(),
        devices: options.devices.clone(),
        new_keys: NewKeys::Ask,
        transport: options.transport,
        // Several windows announce their sizes once they are open.
        size: options.size.filter(|_| options.mode == WindowMode::One).unwrap_or_default(),
        view: options.view.and_then(ViewChoice::view),
        connect_timeout: options.timeout,
        desktop: options.desktop.clone(),
        opening: options.opening,
        reconnect: Reconnect::Always,
        cache: options.cache.clone(),
        clipboard: options.clipboard,
        files: options.files,
        prints: options.prints.clone(),
        quality: options.quality,
        gamma: options.gamma,
        stereo: options.stereo,
        sound: options.sound,
        microphone: options.microphone,
        decoder: this_program(),
        decoding: options.decoding,
    }
}

/// SDL's parts that the window uses.
struct Desktop {
    sdl: sdl3::Sdl,
    video: ManuallyDrop<sdl3::VideoSubsystem>,
    events: sdl3::EventSubsystem,
}

impl Desktop {
    /// Initialises SDL, with this program's events.
    fn open() -> Result<(Desktop, sdl3::EventPump), ViewError> {
        let window_error = |error: &dyn std::fmt::Display| ViewError::Window(error.to_string());
        hints::set_hints();
        let sdl = sdl3::init().map_err(|error| window_error(&error))?;
        // Video and windows are freed by the end of the process: SDL wakes this loop by an event
        // sent to the window through a second X connection, and an event still in flight when the
        // window is destroyed is an X error, which ends the program.
        drop_place::watch();
        let video = ManuallyDrop::new(sdl.video().map_err(|error| {
            ViewError::Window(format!(
                "{error}; is this a desktop (DISPLAY or WAYLAND_DISPLAY)? --headless works \
                 without one"
            ))
        })?);
        let events = sdl.event().map_err(|error| window_error(&error))?;
        events.register_custom_event::<Wake>().map_err(|error| window_error(&error))?;
        events.register_custom_event::<LayoutChanged>().map_err(|error| window_error(&error))?;
        events.register_custom_event::<GrabbedPointer>().map_err(|error| window_error(&error))?;
        let pump = sdl.event_pump().map_err(|error| window_error(&error))?;
        Ok((Desktop { sdl, video, events }, pump))
    }
}

fn wait_for_screen(client: &Client, timeout: Duration) -> Result<Size, ViewError> {
    let found = client.wait_until(Instant::now() + timeout, |state| match &mut state.status {
        Status::Connected => Some(Ok(state.viewer().framebuffer().size())),
        Status::Ended(error) => Some(Err(std::mem::replace(
            error,
            ViewError::Lost("the connection has ended".to_owned()),
        ))),
        _ => None,
    });
    found.unwrap_or(Err(ViewError::Timeout { what: "connecting", limit: timeout }))
}

struct App<'a> {
    client: &'a Client,
    waker: &'a Arc<Waker>,
    desktop: &'a Desktop,
    options: &'a WindowOptions,
    windows: Windows,
    monitors_changed: bool,
    typing: Typing,
    pointing: Pointing,
    zoom: Zoom,
    statistics: StatisticsPanel,
    drawing: Drawing,
    messages: Messages,
    questions: Questions,
    menus: Menus,
    titles: Titles,
    ended: Option<ViewError>,
    quit: bool,
    /// Connection number for which title, size and buttons were set.
    connections: u32,
    /// The others' pointers.
    pointers: Pointers,
    channels: Channels,
}

/// What has become of each window that was to be drawn.
struct DrawnPanes {
    /// They have to be presented: these rectangles were drawn.
    drawn: Vec<(usize, Vec<Rect>)>,
    /// Their presenters have failed for good.
    failed: Vec<usize>,
}

impl<'a> App<'a> {
    fn new(
        client: &'a Client,
        waker: &'a Arc<Waker>,
        desktop: &'a Desktop,
        options: &'a WindowOptions,
        panes: Vec<Pane>,
        host: String,
    ) -> App<'a> {
        let driver = desktop.video.current_video_driver();
        let wake: Arc<dyn Fn() + Send + Sync> = {
            let waker = waker.clone();
            Arc::new(move || waker.wake())
        };
        let clipboard = WindowClipboard::join(
            client,
            options.clipboard,
            driver,
            desktop.video.clipboard(),
            wake.clone(),
        );
        let sound = WindowSound::new(&desktop.sdl, wake);
        let channels = Channels::new(clipboard, sound, WindowMicrophone::new(&desktop.sdl));
        App {
            client,
            waker,
            desktop,
            options,
            windows: Windows::new(panes, options.mode, driver),
            monitors_changed: false,
            typing: Typing::new(
                driver,
                std::env::var("XMODIFIERS").ok().as_deref(),
                desktop.sdl.keyboard(),
                desktop.video.text_input(),
            ),
            pointing: Pointing::new(desktop.sdl.mouse(), driver, desktop.events.event_sender()),
            zoom: Zoom::new(options.view),
            statistics: StatisticsPanel::new(options.statistics, Instant::now()),
            drawing: Drawing::new(),
            messages: Messages::default(),
            questions: Questions::default(),
            menus: Menus::default(),
            titles: Titles::new(host),
            ended: None,
            quit: false,
            connections: 0,
            pointers: Pointers::default(),
            channels,
        }
    }
}

impl App<'_> {
    /// Tells the session of the windows and the keyboard, as they are now.
    fn begin(&mut self) {
        let (desktop, options) = (self.desktop, self.options);
        let driver = desktop.video.current_video_driver();
        self.follow_layout(&options.layout, driver, desktop.events.event_sender());
        for index in 0..self.windows.len() {
            self.typing.start(self.windows[index].window());
            self.handle_window_size(index);
        }
        self.choose_painter();
        let grabs = options.fullscreen || options.mode == WindowMode::Monitors;
        self.typing.keyboard.set_grab(self.windows[0].presenter.window_mut(), grabs);
    }

    /// Handles events and news until the viewer quits.
    fn handle_all(&mut self, pump: &mut sdl3::EventPump) -> Result<(), ViewError> {
        // News that arrived before the waker was connected.
        self.handle_news(pump);
        while !self.quit {
            let first = match self.redraw_in() {
                Some(wait) => pump.wait_event_timeout(wait),
                None => Some(pump.wait_event()),
            };
            if let Some(event) = first {
                self.handle_event(event);
            }
            while let Some(event) = pump.poll_event() {
                self.handle_event(event);
            }
            self.with_keyboard(|keyboard, out| keyboard.decide(out));
            // Before the session gets the motion: what is pressed after it is the session's.
            let focused = self.typing.focused_window().and_then(|id| self.windows.pane_of(id));
            self.pointing.take_modified_buttons(focused.is_some());
            self.flush_pointer();
            if std::mem::take(&mut self.monitors_changed) {
                self.handle_monitors()?;
            }
            self.channels.clipboard.handle_requests(self.client);
            self.handle_news(pump);
            self.follow_sound();
            self.follow_microphone();
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) {
        if !matches!(
            event,
            Event::KeyDown { .. } | Event::TextInput { .. } | Event::TextEditing { .. }
        ) {
            self.with_keyboard(|keyboard, out| keyboard.decide(out));
        }
        match event {
            Event::Quit { .. } => self.quit = true,
            Event::Window { win_event, window_id, .. } => {
                if let Some(index) = self.windows.pane_of(window_id) {
                    self.handle_window(index, &win_event);
                }
            }
            // Monitors are queried once after the batch, which has an event for each change.
            Event::Display { .. } => self.monitors_changed = true,
            Event::KeyDown { .. } => self.handle_key_down(&event),
            Event::TextInput { text, .. } => {
                if !self.menus.is_open()
                    && let Err(too_long) =
                        self.with_keyboard(|keyboard, out| keyboard.text(&text, out))
                {
                    self.show_notice(too_long.to_string());
                }
            }
            Event::TextEditing { text, .. } => self.show_composition(&text),
            Event::KeyUp { scancode, raw, .. } => {
                self.flush_pointer();
                if let Some(event) = self.typing.keyboard.release(scancode, raw) {
                    self.send(event);
                }
            }
            Event::MouseMotion { .. }
            | Event::MouseButtonDown { .. }
            | Event::MouseButtonUp { .. }
            | Event::MouseWheel { .. }
            | Event::FingerDown { .. }
            | Event::FingerMotion { .. }
            | Event::FingerUp { .. }
            | Event::FingerCanceled { .. } => self.handle_pointer_event(&event),
            Event::PenProximityOut { .. }
            | Event::PenMotion { .. }
            | Event::PenAxis { .. }
            | Event::PenDown { .. }
            | Event::PenUp { .. }
            | Event::PenButtonDown { .. }
            | Event::PenButtonUp { .. } => self.handle_pen(&event),
            Event::DropFile { filename, .. } => self.channels.add_dropped(filename.into()),
            Event::DropComplete { window_id, .. } => self.send_drops(window_id),
            Event::ClipboardUpdate { .. } => self.channels.clipboard.handle_update(self.client),
            Event::RenderTargetsReset { .. } | Event::RenderDeviceReset { .. } => {
                self.windows.iter_mut().for_each(|pane| pane.presenter.forget());
                self.drawing.redraw();
            }
            _ => {
                if let Some(LayoutChanged(layout)) = event.as_user_event_type::<LayoutChanged>() {
                    self.client.lock().set_layout(layout);
                } else if let Some(grabbed) = event.as_user_event_type::<GrabbedPointer>() {
                    self.pointing.handle_grabbed(&self.windows, grabbed);
                } else {
                    // Frees the box of a `Wake`; the news are read after the batch.
                    let _ = event.as_user_event_type::<Wake>();
                }
            }
        }
    }

    fn handle_key_down(&mut self, event: &Event) {
        let &Event::KeyDown { keycode, scancode, keymod, repeat, raw, timestamp, .. } = event
        else {
            return;
        };
        self.flush_pointer();
        // A held arrow goes on in the menu; a fast second press is a repeat to SDL too.
        let moves = self.menus.is_open() && menu::moves(keycode);
        if repeat && !moves {
            self.with_keyboard(|keyboard, out| {
                keyboard.key_repeat(scancode, raw, keymod, timestamp, out)
            });
        } else if self.messages.has_announcement() && closes_announcement(keycode, keymod) {
            self.messages.close_announcement();
            self.drawing.redraw();
        } else if let Some(answer) = self.answer_to_question(keycode, keymod) {
            self.handle_files(answer);
        } else if let Some(command) = shortcut(keycode, keymod, self.zoom.is_in()) {
            self.handle_command(command);
        } else if self.menus.is_open() {
            self.choose(keycode, keymod);
        } else {
            self.with_keyboard(|keyboard, out| {
                keyboard.key_down(scancode, raw, keymod, timestamp, out)
            });
        }
    }

    /// The mouse or a finger did something.
    fn handle_pointer_event(&mut self, event: &Event) {
        if self.is_of_pen(event) {
            if let Event::MouseMotion { window_id, x, y, .. } = *event {
                self.pointing.follow_pen((window_id, x, y));
            }
            return;
        }
        match *event {
            Event::MouseMotion { window_id, x, y, xrel, yrel, .. } => {
                self.pointing.handle_motion(&self.windows, (window_id, x, y), (xrel, yrel));
            }
            Event::MouseButtonDown { window_id, x, y, .. } if self.menus.is_open() => {
                self.press_menu(window_id, x, y);
            }
            Event::MouseButtonDown { window_id, mouse_btn, x, y, timestamp, .. } => {
                self.handle_button(mouse_btn, true, (window_id, x, y), timestamp);
            }
            Event::MouseButtonUp { window_id, mouse_btn, x, y, timestamp, .. } => {
                self.handle_button(mouse_btn, false, (window_id, x, y), timestamp);
            }
            Event::MouseWheel { x, y, .. } => {
                self.flush_pointer();
                if let Some(event) = self.pointing.handle_wheel(x, y) {
                    self.send(event);
                }
            }
            Event::FingerDown { window_id, x, y, .. } if self.menus.is_open() => {
                let (width, height) = self.windows.front().window().size();
                self.press_menu(window_id, x * width as f32, y * height as f32);
            }
            Event::FingerDown { window_id, finger_id, x, y, .. } => {
                self.handle_finger(finger_id, pointer::Finger::Down, (window_id, x, y));
            }
            Event::FingerMotion { window_id, finger_id, x, y, .. } => {
                self.handle_finger(finger_id, pointer::Finger::Move, (window_id, x, y));
            }
            Event::FingerUp { window_id, finger_id, x, y, .. }
            | Event::FingerCanceled { window_id, finger_id, x, y, .. } => {
                self.handle_finger(finger_id, pointer::Finger::Up, (window_id, x, y));
            }
            _ => {}
        }
    }

    /// Releases all keys, buttons and touches; the pen leaves.
    fn release_all(&mut self) {
        self.typing.keyboard.forget();
        self.pointing.forget();
        self.send(InputEvent::ReleaseAll);
    }

    /// Calls the keyboard state and sends the events it returns.
    fn with_keyboard<T>(
        &mut self,
        act: impl FnOnce(&mut Keyboard, &mut Vec<InputEvent>) -> T,
    ) -> T {
        let mut out = Vec::new();
        let answer = act(&mut self.typing.keyboard, &mut out);
        out.into_iter().for_each(|event| self.send(event));
        answer
    }

    /// Shows a notice for a while.
    fn show_notice(&mut self, words: String) {
        self.messages.show_notice(words, Instant::now());
        self.drawing.redraw();
    }

    /// The windows cannot show stereo programs as the user has chosen: says why, also to who has
    /// chosen it on a command line.
    fn tell_of_stereo(&mut self, missing: Option<&'static str>) {
        if let Some(why) = missing {
            crate::error::report(why);
            self.show_notice(why.to_owned());
        }
    }

    /// Starts the audio device if there is sound, and stops it if there is none.
    fn follow_sound(&mut self) {
        if let Some(words) = self.channels.sound.follow(self.client) {
            self.show_notice(words);
        }
    }

    fn sync_locks(&mut self) {
        let keymod = self.typing.modifiers();
        self.with_keyboard(|keyboard, out| keyboard.sync_locks(keymod, out));
    }

    /// Shows the text being composed in the title, because the overlay's font has no glyphs for it.
    /// The candidate list opens at the last click.
    fn show_composition(&mut self, text: &str) {
        let title = self.titles.of_composition(text);
        let _ = self.windows.front().presenter.window_mut().set_title(&title);
    }

    /// Sends the local keyboard's layout to the session, as far as that is wanted and known.
    fn follow_layout(&mut self, choice: &LayoutChoice, driver: &str, sender: EventSender) {
        match choice {
            LayoutChoice::Session => {}
            LayoutChoice::Named(layout) => self.client.lock().set_layout(layout.clone()),
            LayoutChoice::Auto => follow::follow(driver, move |layout| {
                // The queue is full or SDL is shutting down: then nobody types.
                let _ = sender.push_custom_event(LayoutChanged(layout));
            }),
        }
    }

    fn handle_button(
        &mut self,
        button: sdl3::mouse::MouseButton,
        down: bool,
        at: Point,
        at_ns: u64,
    ) {
        let (window_id, x, y) = self.pointing.handle_button_place(&self.windows, at);
        if let Some(index) = self.windows.pane_of(window_id) {
            self.typing.compose_at(self.windows[index].window(), x, y);
        }
        self.flush_pointer();
        if let Some(event) = self.pointing.handle_button(button, down, at_ns) {
            self.send(event);
            if down {
                let told = self.pointing.handle_click(&self.windows, window_id);
                self.tell_of_capture(told);
            }
        }
    }

    fn handle_finger(&mut self, id: u64, did: pointer::Finger, at: Point) {
        if let Some(event) = self.pointing.handle_finger(&self.windows, id, did, at) {
            self.send(event);
        }
    }

    /// Sends the last motion of a batch: only the final position matters, or the whole distance;
    /// and every sample of a pen.
    fn flush_pointer(&mut self) {
        self.flush_pen();
        while let Some(event) = self.pointing.take() {
            self.send(event);
        }
    }

    fn send(&mut self, event: InputEvent) {
        let _ = self.client.lock().input_or_buffer(event);
    }

    /// Takes the client's news, and presents what is due.
    fn handle_news(&mut self, pump: &sdl3::EventPump) {
        self.waker.handle_woken();
        let client = self.client;
        let mut state = client.lock();
        let news = state.take_news();
        let News {
            status,
            geometry,
            displays,
            cursor,
            cursor_move,
            cursor_show,
            relative_wanted,
            gamma,
            frame_end,
            people,
            shared,
            pointers,
            renamed,
            notice,
            announcement,
            players,
            microphone,
            ..
        } = news;
        if renamed {
            self.show_name(state.session.name());
        }
        self.channels.handle_news(news.sound, microphone);
        self.drawing.redraw_if((players || people) && self.menus.is_open());
        if news.files || microphone {
            self.ask(&state);
        }
        if let Some(announcement) = announcement {
            self.messages.announce(&announcement);
            self.drawing.redraw();
        }
        if status {
            self.handle_status(&mut state);
        }
        if geometry.is_some()
            || displays
            || state.viewer().framebuffer().size() != self.windows[0].placement.screen
        {
            self.place(&mut state);
        }
        if gamma {
            self.pointing.set_cursor_gamma(&shown_by::of_cursor(state.session.gamma()));
            self.drawing.redraw();
        }
        if let Some(image) = cursor {
            self.pointing.set_cursor(image);
        }
        if let Some(shown) = cursor_show {
            self.pointing.set_cursor_shown(shown);
        }
        if let Some(wanted) = relative_wanted {
            drop(state);
            let told = self.pointing.handle_relative_wanted(&self.windows, wanted);
            self.tell_of_capture(told);
            state = client.lock();
        }
        if let Some((x, y)) = cursor_move {
            self.pointing.handle_cursor_move(&self.windows, x, y);
        }
        self.handle_people(&state, people, &shared, pointers);
        if let Some(words) = notice {
            self.show_notice(words);
        } else {
            self.drawing.redraw_if(self.messages.expire_notice(Instant::now()));
        }
        let refresh = self.statistics.take_due(Instant::now());
        if (frame_end || self.drawing.is_due() || refresh)
            && let Err(error) = self.present(pump, state)
        {
            crate::error::report(&error);
            self.drawing.redraw();
        }
    }

    /// The state of the connection has changed.
    fn handle_status(&mut self, state: &mut State) {
        let (is_unresponsive, buffers) = (state.is_unresponsive(), state.can_buffer_input());
        let host = self.titles.host();
        self.messages.set_status(message_of(&state.status, host, is_unresponsive, buffers));
        if let Status::Ended(error) = &mut state.status {
            let error = std::mem::replace(error, ViewError::Lost("over".to_owned()));
            if matches!(error, ViewError::Closed { code: CloseCode::SessionEnded, .. }) {
                self.quit = true;
            } else {
                crate::error::report(&error);
            }
            self.ended = Some(error);
        }
        if state.is_connected() {
            self.handle_connection(state);
        } else {
            self.release_pointer();
        }
        self.drawing.redraw();
    }

    /// There is a connection, which may be another than before.
    fn handle_connection(&mut self, state: &mut State) {
        let connections = state.viewers.connections();
        if std::mem::replace(&mut self.connections, connections) == connections {
            return;
        }
        // Pressed buttons belong to the previous connection; keys stay down until the user releases
        // them.
        self.typing.keyboard.forget_locks();
        self.pointing.forget();
        self.show_name(state.session.name());
        if self.windows.has_displays()
            || self.windows.front().window().fullscreen_state() == sdl3::video::FullscreenType::Off
        {
            // The window may be smaller than the session.
            self.tell_size(state);
        }
    }

    /// Draws the damage and presents it.
    fn present(
        &mut self,
        pump: &sdl3::EventPump,
        mut state: MutexGuard<'_, State>,
    ) -> Result<(), ViewError> {
        if !self.windows.iter().any(Pane::is_visible) {
            return Ok(());
        }
        let damage = state.take_damage();
        self.windows.iter_mut().for_each(|pane| pane.presenter.handle_damage(&damage));
        // After a loss the framebuffer is stale until the session's first burst.
        self.drawing.set_dimmed(!state.is_connected() || state.viewer().stats().frames == 0);
        let panels = self.panels(&state);
        let covered = self.drawing.set_panels(panels);
        let DrawnPanes { drawn, failed } = self.draw(pump, &state, &damage, &covered)?;
        if !failed.is_empty() {
            for index in failed {
                self.windows[index].do_without_gpu(&self.desktop.video)?;
            }
            state.set_video_layers(false);
            self.tell_of_stereo(state.set_quad(false));
            self.drawing.redraw();
            return self.present(pump, state);
        }
        // Presenting may block on the display; the network thread goes on meanwhile.
        drop(state);
        for (index, due) in &drawn {
            self.windows[*index].presenter.show(pump, due)?;
        }
        if !drawn.is_empty() {
            self.client.lock().presented();
        }
        Ok(())
    }

    /// Draws what is due in each window.
    fn draw(
        &mut self,
        pump: &sdl3::EventPump,
        state: &State,
        damage: &Region,
        panels: &Region,
    ) -> Result<DrawnPanes, ViewError> {
        let whole = self.drawing.take_due();
        let (dimmed, marks_lossy) = (self.drawing.is_dimmed(), self.drawing.marks_lossy());
        let (placed, row) = self.drawing.panels_and_row();
        let front = self.windows.front_index();
        let (mut drawn, mut failed) = (Vec::new(), Vec::new());
        let visible = self.windows.iter_mut().enumerate().filter(|(_, pane)| pane.is_visible());
        for (index, pane) in visible {
            let is_front = index == front;
            let due = due_in(&pane.placement, whole, damage, is_front.then_some(panels));
            if due.is_empty() {
                continue;
            }
            let gamma = shown_by::in_window(state.session.gamma(), &pane.placement);
            let scene = Scene {
                placement: pane.placement,
                screen: state.viewer().picture(),
                gamma: &gamma,
                dimmed,
                marked: marks_lossy.then(|| state.viewer().lossy()),
                panels: if is_front { placed } else { &[] },
            };
            match pane.presenter.draw(pump, &due, (state.viewer(), &scene), row)? {
                Drawn::Whole => drawn.push((index, due)),
                Drawn::Later => {}
                Drawn::Never => failed.push(index),
            }
        }
        Ok(DrawnPanes { drawn, failed })
    }

    /// The panels over the window that has the focus; later ones are on top.
    fn panels(&mut self, state: &State) -> Vec<Placed> {
        let placement = self.windows.front().placement;
        let window = placement.window;
        let dot = if window.width >= 2560 { 2 } else { 1 };
        let mut panels = Vec::new();
        panels.extend(self.statistics.draw(state, dot));
        panels.extend(self.pointers.draw(&state.session.people().people, &placement, dot));
        panels.extend(self.draw_menu(state, window, dot * 2));
        panels.extend(self.messages.draw_upper(window, dot));
        if !self.messages.hides_others() {
            panels.extend(self.questions.draw(window, dot));
        }
        panels.extend(self.messages.draw_notice(window, dot));
        // Nothing hides it.
        panels.extend(self.channels.microphone.draw_mark(window, dot));
        panels
    }

    /// When something has to be redrawn without an event; `None`: never.
    fn redraw_in(&self) -> Option<Duration> {
        let now = Instant::now();
        let due = self.messages.due().into_iter().chain(self.pointers.due()).min();
        let due = due.map(|due| due.saturating_duration_since(now));
        due.into_iter().chain(self.statistics.interval()).min()
    }
}
