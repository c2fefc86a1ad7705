//! Path 13/13 and the first step back: SDL's events and window, to and from the client.
//! One loop that sleeps until something happens: an event of the desktop, or news of the client (which wakes it by an
//! SDL event). Presents as soon as an update ends a frame, and only what changed. Knows SDL; decides no protocol.

mod cursor;
mod keyboard;
mod layout;
mod pointer;
mod present;
mod statistics;

use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use sdl3::event::{Event, EventSender, WindowEvent};
use sdl3::keyboard::{Keycode, Mod};
use sdl3::video::Window;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::InputEvent;
use thinc_region::{Rect, Region, Size};
use thinc_transport::Link;

use crate::cli::Present;
use crate::client::{Client, ClientConfig, News, Reconnect, State, Status};
use crate::compose::Scene;
use crate::error::ViewError;
use crate::overlay::Panel;
use crate::place::Placement;
use crate::report::Report;
use crate::saved::CacheOptions;

use cursor::LocalCursor;
use keyboard::Keyboard;
use pointer::Pointer;
use present::Presenter;

/// 1 s: how often the statistics are drawn anew, and a round trip timed, while they are shown and nothing else happens.
const STATISTICS_EVERY: Duration = Duration::from_secs(1);

/// How the window is started.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// The whole screen.
    pub fullscreen: bool,
    /// Size of window and session.
    pub size: Option<Size>,
    /// Begins with the statistics.
    pub statistics: bool,
    /// How to present.
    pub present: Present,
    /// Limit of one attempt to connect.
    pub timeout: Duration,
    /// Where keys of links without a pin are remembered.
    pub known_hosts: Option<PathBuf>,
    /// Where the figures go at the end.
    pub stats_json: Option<PathBuf>,
    /// What may be kept of what was shown.
    pub cache: CacheOptions,
}

/// The client has news.
struct Wake;

/// Shows the session until the person closes the window or the session ends.
pub fn run(link: Link, options: &WindowOptions) -> Result<(), ViewError> {
    let host = link.authority();
    let sender: Arc<OnceLock<EventSender>> = Arc::default();
    let pending = Arc::new(AtomicBool::new(false));
    let wake = {
        let (sender, pending) = (sender.clone(), pending.clone());
        move || {
            if let Some(sender) = sender.get()
                && !pending.swap(true, Ordering::AcqRel)
                && sender.push_custom_event(Wake).is_err()
            {
                // The queue is full or SDL is going down; the next news tries again.
                pending.store(false, Ordering::Release);
            }
        }
    };
    let config = ClientConfig {
        link,
        known_hosts: options.known_hosts.clone(),
        size: options.size.unwrap_or_default(),
        connect_timeout: options.timeout,
        reconnect: Reconnect::Always,
        cache: options.cache.clone(),
    };
    let client = Client::start(config, wake).map_err(|error| ViewError::Lost(error.to_string()))?;
    // The window opens when there is something to show, at the size it has; what fails until then is said on stderr.
    let size = wait_for_screen(&client, options.timeout)?;

    let window_error = |error: &dyn std::fmt::Display| ViewError::Window(error.to_string());
    for (hint, value) in [
        // Without a graphics processor the picture goes through shared memory, not through software OpenGL.
        ("SDL_FRAMEBUFFER_ACCELERATION", "0"),
        // A finger is a finger, and a mouse a mouse.
        ("SDL_TOUCH_MOUSE_EVENTS", "0"),
        ("SDL_MOUSE_TOUCH_EVENTS", "0"),
        // A click that gives the window the focus is a click for the session.
        ("SDL_MOUSE_FOCUS_CLICKTHROUGH", "1"),
        // Fullscreen stays when another screen gets the focus, and Alt+Tab is the session's when keys are grabbed.
        ("SDL_VIDEO_MINIMIZE_ON_FOCUS_LOSS", "0"),
        ("SDL_ALLOW_ALT_TAB_WHILE_GRABBED", "0"),
        ("SDL_VIDEO_X11_NET_WM_BYPASS_COMPOSITOR", "0"),
        ("SDL_APP_ID", "thinc-view"),
    ] {
        sdl3::hint::set(hint, value);
    }
    let sdl = sdl3::init().map_err(|error| window_error(&error))?;
    // Video and window are left to the end of the process: SDL wakes this loop by an event that it sends to the window
    // through a second X connection, and one still on its way when the window goes is an X error, which ends the program.
    let video = ManuallyDrop::new(sdl.video().map_err(|error| {
        ViewError::Window(format!(
            "{error}; is this a desktop (DISPLAY or WAYLAND_DISPLAY)? --headless works without one"
        ))
    })?);
    let events = sdl.event().map_err(|error| window_error(&error))?;
    events.register_custom_event::<Wake>().map_err(|error| window_error(&error))?;
    let mut pump = sdl.event_pump().map_err(|error| window_error(&error))?;
    let _ = sender.set(events.event_sender());

    let window = open_window(&video, &host, size, options)?;
    let window_id = window.id();
    let driver = video.current_video_driver();
    let slot = ManuallyDrop::new(present::Slot::new(window, options.present, driver)?);
    let presenter = slot.presenter();
    let mut app = App {
        client: &client,
        pending: &pending,
        window_id,
        presenter,
        mouse: sdl.mouse(),
        cursor: LocalCursor::new(driver),
        keyboard: Keyboard::new(driver),
        pointer: Pointer::default(),
        placement: Placement::new(size, Size::default()),
        statistics: options.statistics,
        hatched: false,
        panels: Vec::new(),
        message: None,
        host,
        ended: None,
        quit: false,
        redraw: true,
        row: Vec::new(),
        statistics_at: Instant::now(),
    };
    app.handle_window_size();
    app.keyboard.set_grab(app.presenter.window_mut(), options.fullscreen);
    // News from before the sender was set.
    app.handle_news(&pump);
    while !app.quit {
        let first = if app.statistics { pump.wait_event_timeout(STATISTICS_EVERY) } else { Some(pump.wait_event()) };
        if let Some(event) = first {
            app.handle_event(event);
        }
        while let Some(event) = pump.poll_event() {
            app.handle_event(event);
        }
        app.flush_pointer();
        app.handle_news(&pump);
    }
    if let Some(path) = &options.stats_json {
        Report::new(&client.lock()).write(path).map_err(|error| ViewError::File { path: path.clone(), error })?;
    }
    match app.ended.take() {
        // The person logged out there: nothing went wrong here.
        Some(ViewError::Closed { code: CloseCode::SessionEnded, reason }) => {
            eprintln!("thinc-view: {reason}");
            Ok(())
        }
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn wait_for_screen(client: &Client, timeout: Duration) -> Result<Size, ViewError> {
    let found = client.wait_until(Instant::now() + timeout, |state| match &mut state.status {
        Status::Connected => Some(Ok(state.viewer.framebuffer().size())),
        Status::Ended(error) => {
            Some(Err(std::mem::replace(error, ViewError::Lost("the connection has ended".to_owned()))))
        }
        _ => None,
    });
    found.unwrap_or(Err(ViewError::Timeout { what: "connecting", limit: timeout }))
}

fn open_window(
    video: &sdl3::VideoSubsystem,
    host: &str,
    session: Size,
    options: &WindowOptions,
) -> Result<Window, ViewError> {
    let mut size = options.size.unwrap_or(session);
    let display = video.get_primary_display();
    if options.fullscreen {
        // At once at the size it will have, so that the session is asked for one size; and where no window manager
        // makes it fullscreen, it covers the screen all the same.
        if let Ok(bounds) = display.and_then(|display| display.get_bounds()) {
            size = Size { width: bounds.width(), height: bounds.height() };
        }
    } else if options.size.is_none()
        && let Ok(bounds) = display.and_then(|display| display.get_usable_bounds())
    {
        size.width = size.width.min(bounds.width());
        size.height = size.height.min(bounds.height());
    }
    let mut builder = video.window(&format!("{host} - thinc"), size.width.max(1), size.height.max(1));
    builder.position_centered().resizable().high_pixel_density();
    if options.fullscreen {
        builder.fullscreen();
    }
    builder.build().map_err(|error| ViewError::Window(error.to_string()))
}

struct App<'a> {
    client: &'a Client,
    pending: &'a AtomicBool,
    window_id: u32,
    presenter: Presenter<'a>,
    mouse: sdl3::mouse::MouseUtil,
    cursor: LocalCursor,
    keyboard: Keyboard,
    pointer: Pointer,
    placement: Placement,
    statistics: bool,
    /// What is not exact yet is hatched.
    hatched: bool,
    /// Statistics, then the message: drawn when they change.
    panels: Vec<(Panel, i32, i32)>,
    message: Option<String>,
    host: String,
    ended: Option<ViewError>,
    quit: bool,
    /// The whole window is to be drawn.
    redraw: bool,
    row: Vec<u32>,
    statistics_at: Instant,
}

impl App<'_> {
    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Quit { .. } => self.quit = true,
            Event::Window { win_event, window_id, .. } if window_id == self.window_id => self.handle_window(&win_event),
            Event::KeyDown { keycode, scancode, keymod, repeat, raw, timestamp, .. } => {
                self.flush_pointer();
                if repeat {
                    let again = self.keyboard.press_again(scancode, raw, timestamp);
                    again.into_iter().flatten().for_each(|event| self.send(event));
                } else if let Some(command) = shortcut(keycode, keymod) {
                    self.handle_command(command);
                } else if let Some(event) = self.keyboard.press(scancode, raw, keymod, timestamp) {
                    self.send(event);
                }
            }
            Event::KeyUp { scancode, raw, .. } => {
                self.flush_pointer();
                if let Some(event) = self.keyboard.release(scancode, raw) {
                    self.send(event);
                }
            }
            Event::MouseMotion { x, y, .. } => {
                let (x, y) = self.to_pixels(x, y);
                self.pointer.handle_motion(self.placement.to_screen(x, y));
            }
            Event::MouseButtonDown { mouse_btn, x, y, timestamp, .. } => {
                self.handle_button(mouse_btn, true, (x, y), timestamp);
            }
            Event::MouseButtonUp { mouse_btn, x, y, timestamp, .. } => {
                self.handle_button(mouse_btn, false, (x, y), timestamp);
            }
            Event::MouseWheel { x, y, .. } => {
                self.flush_pointer();
                if let Some(event) = self.pointer.handle_wheel(x, y) {
                    self.send(event);
                }
            }
            Event::FingerDown { finger_id, x, y, .. } => self.handle_finger(finger_id, pointer::Finger::Down, x, y),
            Event::FingerMotion { finger_id, x, y, .. } => self.handle_finger(finger_id, pointer::Finger::Move, x, y),
            Event::FingerUp { finger_id, x, y, .. } | Event::FingerCanceled { finger_id, x, y, .. } => {
                self.handle_finger(finger_id, pointer::Finger::Up, x, y);
            }
            Event::RenderTargetsReset { .. } | Event::RenderDeviceReset { .. } => {
                self.presenter.forget();
                self.redraw = true;
            }
            _ => {
                // Takes the box of a `Wake` back; the news are looked at after the batch.
                let _ = event.as_user_event_type::<Wake>();
            }
        }
    }

    fn handle_window(&mut self, event: &WindowEvent) {
        match event {
            WindowEvent::CloseRequested => self.quit = true,
            WindowEvent::PixelSizeChanged(..) | WindowEvent::Resized(..) => self.handle_window_size(),
            WindowEvent::Exposed | WindowEvent::Shown | WindowEvent::Restored => self.redraw = true,
            WindowEvent::FocusLost => {
                self.flush_pointer();
                self.keyboard.forget();
                self.pointer.forget();
                self.send(InputEvent::ReleaseAll);
            }
            WindowEvent::EnterFullscreen => self.keyboard.set_grab(self.presenter.window_mut(), true),
            WindowEvent::LeaveFullscreen => self.keyboard.set_grab(self.presenter.window_mut(), false),
            _ => {}
        }
    }

    /// The window has another size: the old picture is placed anew and the session is asked to follow.
    fn handle_window_size(&mut self) {
        let (width, height) = self.presenter.window().size_in_pixels();
        let window = Size { width, height };
        if window != self.placement.window {
            self.placement = Placement::new(self.placement.screen, window);
            self.presenter.forget();
            if window.area() > 0 {
                self.client.lock().resize(window);
            }
        }
        self.redraw = true;
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::Quit => self.quit = true,
            Command::Fullscreen => {
                let on = self.presenter.window().fullscreen_state() == sdl3::video::FullscreenType::Off;
                if let Err(error) = self.presenter.window_mut().set_fullscreen(on) {
                    eprintln!("thinc-view: no fullscreen: {error}");
                }
            }
            Command::Statistics => {
                self.statistics = !self.statistics;
                self.statistics_at = Instant::now();
                self.redraw = true;
            }
            Command::Hatch => {
                self.hatched = !self.hatched;
                self.redraw = true;
            }
            Command::Grab => {
                let on = !self.keyboard.is_grabbed();
                self.keyboard.set_grab(self.presenter.window_mut(), on);
            }
            Command::Retry => self.client.retry_now(),
        }
    }

    fn handle_button(&mut self, button: sdl3::mouse::MouseButton, down: bool, (x, y): (f32, f32), at_ns: u64) {
        // Where the button went down counts, even if no motion was reported to there.
        let (x, y) = self.to_pixels(x, y);
        self.pointer.handle_motion(self.placement.to_screen(x, y));
        self.flush_pointer();
        if let Some(event) = self.pointer.handle_button(button, down, at_ns) {
            self.send(event);
        }
    }

    fn handle_finger(&mut self, id: u64, phase: pointer::Finger, x: f32, y: f32) {
        let window = self.placement.window;
        let at = self.placement.to_screen(x * window.width as f32, y * window.height as f32);
        if let Some(event) = self.pointer.handle_finger(id, phase, at) {
            self.send(event);
        }
    }

    /// Motions of one batch are one motion: only the last place matters.
    fn flush_pointer(&mut self) {
        if let Some(event) = self.pointer.take_motion() {
            self.send(event);
        }
    }

    fn send(&mut self, event: InputEvent) {
        let _ = self.client.lock().input(event);
    }

    fn to_pixels(&self, x: f32, y: f32) -> (f32, f32) {
        let density = self.presenter.window().pixel_density();
        (x * density, y * density)
    }

    /// Looks at what the client has, and presents what is due.
    fn handle_news(&mut self, pump: &sdl3::EventPump) {
        self.pending.store(false, Ordering::Release);
        let client = self.client;
        let mut state = client.lock();
        let News { status, geometry, cursor, cursor_move, cursor_show, frame_end, barriers: _ } = state.take_news();
        if status {
            self.message = match &mut state.status {
                Status::Connecting | Status::Connected => None,
                Status::Lost { why, attempts } => Some(format!(
                    "The connection to {} is lost.\n{why}\n\nTrying again{}\nCtrl+Alt+R tries now, Ctrl+Alt+Q closes.",
                    self.host,
                    if *attempts > 1 { format!(" (attempt {attempts}).") } else { ".".to_owned() },
                )),
                Status::Ended(error) => {
                    let error = std::mem::replace(error, ViewError::Lost("over".to_owned()));
                    if matches!(error, ViewError::Closed { code: CloseCode::SessionEnded, .. }) {
                        self.quit = true;
                    } else {
                        eprintln!("thinc-view: {error}");
                    }
                    let text = format!("{error}\n\nCtrl+Alt+Q closes.");
                    self.ended = Some(error);
                    Some(text)
                }
            };
            if state.is_connected() {
                // Held keys and buttons belong to the connection before.
                self.keyboard.forget();
                self.pointer.forget();
                let title = match state.session_name() {
                    Some(name) => format!("{name} ({}) - thinc", self.host),
                    None => format!("{} - thinc", self.host),
                };
                let _ = self.presenter.window_mut().set_title(&title);
                if self.presenter.window().fullscreen_state() == sdl3::video::FullscreenType::Off {
                    // The window may be smaller than the session it was opened for.
                    state.resize(self.placement.window);
                }
            }
            self.redraw = true;
        }
        if let Some(screen) = geometry.or(Some(state.viewer.framebuffer().size()))
            && screen != self.placement.screen
        {
            self.placement = Placement::new(screen, self.placement.window);
            self.redraw = true;
        }
        if let Some(image) = cursor {
            self.cursor.set_image(&self.mouse, &image);
        }
        if let Some(shown) = cursor_show {
            self.cursor.set_shown(&self.mouse, shown);
        }
        if let Some((x, y)) = cursor_move
            && self.mouse.focused_window_id() == Some(self.window_id)
        {
            self.pointer.handle_warp(x, y);
            let (x, y) = self.placement.to_window(x, y);
            let density = self.presenter.window().pixel_density().max(f32::EPSILON);
            self.mouse.warp_mouse_in_window(self.presenter.window(), x / density, y / density);
        }
        let refresh = self.statistics && self.statistics_at.elapsed() >= STATISTICS_EVERY;
        if frame_end || self.redraw || refresh {
            if refresh {
                self.statistics_at = Instant::now();
            }
            if let Err(error) = self.present(pump, state) {
                eprintln!("thinc-view: {error}");
                self.redraw = true;
            }
        }
    }

    /// Draws what changed and shows it.
    fn present(&mut self, pump: &sdl3::EventPump, mut state: MutexGuard<'_, State>) -> Result<(), ViewError> {
        let window = self.placement.window;
        if window.area() == 0 {
            return Ok(());
        }
        let mut due: Region =
            state.viewer.take_damage().rects().iter().map(|rect| self.placement.cover(rect)).collect();
        for (panel, x, y) in &self.panels {
            due.add_rect(panel_rect(panel, *x, *y));
        }
        self.draw_panels(&state);
        for (panel, x, y) in &self.panels {
            due.add_rect(panel_rect(panel, *x, *y));
        }
        if std::mem::take(&mut self.redraw) {
            due = Region::from(window.rect());
        }
        let due: Vec<Rect> =
            due.rects().iter().map(|rect| rect.intersect(&window.rect())).filter(|rect| !rect.is_empty()).collect();
        if due.is_empty() {
            return Ok(());
        }
        let scene = Scene {
            placement: self.placement,
            screen: state.viewer.framebuffer().pixels(),
            dimmed: !state.is_connected(),
            hatched: self.hatched.then(|| state.viewer.inexact()),
            panels: &self.panels,
        };
        let drawn = self.presenter.draw(pump, &due, &scene, &mut self.row)?;
        // Showing may wait for the display; the network thread goes on meanwhile.
        drop(state);
        if drawn {
            self.presenter.show(pump, &due)?;
            self.client.lock().presented();
        }
        Ok(())
    }

    fn draw_panels(&mut self, state: &State) {
        let window = self.placement.window;
        let dot = if window.width >= 2560 { 2 } else { 1 };
        self.panels.clear();
        if self.statistics {
            self.panels.push((Panel::draw(&statistics::text(state), dot), 8, 8));
        }
        if let Some(message) = &self.message {
            let panel = Panel::draw_within(message, dot * 2, window.width);
            let x = (window.width as i32 - panel.size.width as i32).max(0) / 2;
            let y = (window.height as i32 - panel.size.height as i32).max(0) / 2;
            self.panels.push((panel, x, y));
        }
    }
}

fn panel_rect(panel: &Panel, x: i32, y: i32) -> Rect {
    panel.size.rect().translate(x, y)
}

/// What the viewer does itself with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    Fullscreen,
    Statistics,
    Hatch,
    Grab,
    Quit,
    Retry,
}

fn shortcut(keycode: Option<Keycode>, keymod: Mod) -> Option<Command> {
    let with = |either: Mod| keymod.intersects(either);
    if !with(Mod::LCTRLMOD | Mod::RCTRLMOD) || !with(Mod::LALTMOD | Mod::RALTMOD) {
        return None;
    }
    Some(match keycode? {
        Keycode::F => Command::Fullscreen,
        Keycode::S => Command::Statistics,
        Keycode::E => Command::Hatch,
        Keycode::G => Command::Grab,
        Keycode::Q => Command::Quit,
        Keycode::R => Command::Retry,
        _ => return None,
    })
}
