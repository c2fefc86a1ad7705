//! Path 13/13: from the session's monitors, to the framebuffer's place in each window. Path back:
//! from SDL's windows and monitors, to the sizes and monitors announced to the session.
//! One window that shows the whole session's screen, or several, each one monitor of it. Knows
//! SDL's windows; arrange.rs lays monitors out, present.rs handles pixels.
//!
//! Windows live until the process ends: SDL wakes its loop by an event sent to a window through a
//! second X connection, and an event still in flight when the window is destroyed is an X error,
//! which ends the program. A closed window is hidden and reused.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use sdl3::VideoSubsystem;
use sdl3::event::WindowEvent;
use sdl3::video::{FullscreenType, Window, WindowBuilder, WindowPos};
use thinc_region::{Rect, Size};

use super::gpu;
use super::icon;
use super::present::{self, Presenter, Slot};
use super::titles::Titles;
use super::{App, WindowOptions};
use crate::arrange;
use crate::cli::Present;
use crate::client::State;
use crate::error::ViewError;
use crate::place::Placement;

/// Which windows the viewer opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowMode {
    /// One, which shows the session's screen.
    #[default]
    One,
    /// This many, each a monitor of the session beside the last.
    Windows(usize),
    /// One on each monitor.
    Monitors,
}

/// A window.
pub(super) struct Pane {
    pub(super) presenter: Presenter<'static>,
    pub(super) placement: Placement,
    /// It is not closed, and its monitor is connected.
    pub(super) open: bool,
    /// Its monitor's rectangle on the desktop.
    monitor: Rect,
}

impl Pane {
    pub(super) fn new(
        video: &VideoSubsystem,
        window: Window,
        present: Present,
    ) -> Result<Pane, ViewError> {
        let placement = Placement::new(Size::default(), Size::default());
        Ok(Pane {
            presenter: presenter(video, window, present)?,
            placement,
            open: true,
            monitor: Rect::default(),
        })
    }

    /// The GPU failed: the window switches to a presenter without one.
    pub(super) fn do_without_gpu(&mut self, video: &VideoSubsystem) -> Result<(), ViewError> {
        let present = if video.current_video_driver() == "x11" {
            Present::Surface
        } else {
            Present::Renderer
        };
        self.presenter = presenter(video, self.window().clone(), present)?;
        Ok(())
    }

    pub(super) fn window(&self) -> &Window {
        self.presenter.window()
    }

    /// It has pixels to draw.
    pub(super) fn is_visible(&self) -> bool {
        self.open && self.placement.window.area() > 0
    }

    /// The window's rectangle in the desktop's coordinates.
    pub(super) fn bounds(&self) -> Rect {
        let ((x, y), (width, height)) = (self.window().position(), self.window().size());
        Rect::at(x, y, width as i32, height as i32)
    }
}

/// Windows live as long as the program, and so do their presenters.
fn presenter(
    video: &VideoSubsystem,
    window: Window,
    present: Present,
) -> Result<Presenter<'static>, ViewError> {
    let slot = Box::leak(Box::new(Slot::new(video, window, present)?));
    Ok(slot.presenter())
}

/// Opens the windows that the options ask for.
pub(super) fn open(
    video: &VideoSubsystem,
    host: &str,
    session: Size,
    options: &WindowOptions,
) -> Result<Vec<Pane>, ViewError> {
    match options.mode {
        WindowMode::One => {
            let window = open_window(video, host, session, options)?;
            Ok(vec![Pane::new(video, window, options.present)?])
        }
        WindowMode::Windows(count) => {
            // Together they are as large as the session, so that reconnecting changes nothing.
            let share = Size { width: session.width.div_ceil(count.max(1) as u32), ..session };
            let mut panes = Vec::new();
            for _ in 0..count {
                panes.push(Pane::new(
                    video,
                    open_window(video, host, share, options)?,
                    options.present,
                )?);
            }
            set_in_a_row(video, &mut panes);
            Ok(panes)
        }
        WindowMode::Monitors => {
            let on_monitor = |monitor: Rect| {
                let window = open_on(video, host, monitor, options.present)?;
                let mut pane = Pane::new(video, window, options.present)?;
                pane.monitor = monitor;
                Ok(pane)
            };
            monitors(video).into_iter().map(on_monitor).collect()
        }
    }
}

fn open_window(
    video: &VideoSubsystem,
    host: &str,
    session: Size,
    options: &WindowOptions,
) -> Result<Window, ViewError> {
    let mut size = options.size.unwrap_or(session);
    let display = video.get_primary_display();
    if options.fullscreen {
        // At its final size at once, so that the session is resized once; and without a window
        // manager it covers the screen all the same.
        if let Ok(bounds) = display.and_then(|display| display.get_bounds()) {
            size = Size { width: bounds.width(), height: bounds.height() };
        }
    } else if options.size.is_none()
        && let Ok(bounds) = display.and_then(|display| display.get_usable_bounds())
    {
        size.width = size.width.min(bounds.width());
        size.height = size.height.min(bounds.height());
    }
    let mut builder =
        video.window(&format!("{host} - thinc"), size.width.max(1), size.height.max(1));
    builder.position_centered().resizable().high_pixel_density();
    if options.fullscreen {
        builder.fullscreen();
    }
    build(video, builder, options.present)
}

/// Creates the window, with OpenGL if that is wanted and possible.
fn build(
    video: &VideoSubsystem,
    mut builder: WindowBuilder,
    present: Present,
) -> Result<Window, ViewError> {
    if present::wants_gpu(present) {
        gpu::ask(video);
        let flags = builder.window_flags();
        // Few displays have a buffer for each eye, and a window gets them when it is created.
        gpu::ask_stereo(video, true);
        let mut built = builder.opengl().build();
        if built.is_err() {
            gpu::ask_stereo(video, false);
            built = builder.build();
        }
        match built {
            Ok(mut window) => {
                icon::set(&mut window);
                return Ok(window);
            }
            Err(error) => present::report_no_gpu(&error.to_string()),
        }
        builder.set_window_flags(flags);
    }
    let mut window = builder.build().map_err(|error| ViewError::Window(error.to_string()))?;
    icon::set(&mut window);
    Ok(window)
}

/// Puts windows side by side in the middle of the desktop if they fit; otherwise the user moves
/// them.
fn set_in_a_row(video: &VideoSubsystem, panes: &mut [Pane]) {
    let Some(bounds) =
        video.get_primary_display().ok().and_then(|display| display.get_usable_bounds().ok())
    else {
        return;
    };
    let width: u32 = panes.iter().map(|pane| pane.window().size().0).sum();
    let Some(spare) = bounds.width().checked_sub(width) else { return };
    let mut x = bounds.x() + spare as i32 / 2;
    for pane in panes {
        let (_, y) = pane.window().position();
        pane.presenter
            .window_mut()
            .set_position(WindowPos::Positioned(x), WindowPos::Positioned(y));
        x += pane.window().size().0 as i32;
    }
}

/// A window that fills a monitor.
fn open_on(
    video: &VideoSubsystem,
    host: &str,
    monitor: Rect,
    present: Present,
) -> Result<Window, ViewError> {
    let mut builder =
        video.window(&format!("{host} - thinc"), monitor.width() as u32, monitor.height() as u32);
    builder.position(monitor.x1, monitor.y1).borderless().high_pixel_density().fullscreen();
    build(video, builder, present)
}

/// The desktop's monitors, the primary one first.
fn monitors(video: &VideoSubsystem) -> Vec<Rect> {
    let primary = video.get_primary_display().ok();
    let mut displays = video.displays().unwrap_or_default();
    displays.sort_by_key(|display| Some(*display) != primary);
    let bounds = displays.iter().filter_map(|display| display.get_bounds().ok());
    bounds
        .map(|bounds| {
            Rect::at(bounds.x(), bounds.y(), bounds.width() as i32, bounds.height() as i32)
        })
        .collect()
}

/// The viewer's windows, and which of them has the focus. Their number changes only if monitors
/// are plugged in.
pub(super) struct Windows {
    panes: ManuallyDrop<Vec<Pane>>,
    /// The window that has or last had the focus, which also shows the panels.
    front: usize,
    mode: WindowMode,
    /// Wayland does not reveal window positions.
    knows_positions: bool,
}

impl Deref for Windows {
    type Target = [Pane];

    fn deref(&self) -> &[Pane] {
        &self.panes
    }
}

impl DerefMut for Windows {
    fn deref_mut(&mut self) -> &mut [Pane] {
        &mut self.panes
    }
}

impl Windows {
    pub(super) fn new(panes: Vec<Pane>, mode: WindowMode, driver: &str) -> Windows {
        let knows_positions = driver != "wayland";
        Windows { panes: ManuallyDrop::new(panes), front: 0, mode, knows_positions }
    }

    /// The window that has the focus, or had it last.
    pub(super) fn front(&mut self) -> &mut Pane {
        &mut self.panes[self.front]
    }

    pub(super) fn front_index(&self) -> usize {
        self.front
    }

    /// This window has the focus; true if another had it last.
    fn set_front(&mut self, index: usize) -> bool {
        std::mem::replace(&mut self.front, index) != index
    }

    /// Windows of monitors that were unplugged cannot have the focus.
    fn keep_front_open(&mut self) {
        if !self.panes[self.front].open {
            self.front = 0;
        }
    }

    /// True if each window is a monitor of the session.
    pub(super) fn has_displays(&self) -> bool {
        self.mode != WindowMode::One
    }

    pub(super) fn pane_of(&self, window_id: u32) -> Option<usize> {
        self.panes.iter().position(|pane| pane.window().id() == window_id)
    }

    /// The first window that is open.
    fn first(&self) -> usize {
        self.panes.iter().position(|pane| pane.open).unwrap_or(0)
    }

    /// A monitor was plugged in.
    fn push(&mut self, pane: Pane) {
        self.panes.push(pane);
    }

    /// A window was closed, and its monitor is removed. False if it was the last.
    fn close(&mut self, index: usize) -> bool {
        self.panes[index].open = false;
        let Some(other) = self.panes.iter().position(|pane| pane.open) else { return false };
        self.panes[index].presenter.window_mut().hide();
        if self.front == index {
            self.front = other;
        }
        true
    }

    /// Whether a point is in its window.
    pub(super) fn is_inside(&self, window_id: u32, x: f32, y: f32) -> bool {
        self.pane_of(window_id).is_some_and(|index| {
            let (width, height) = self.panes[index].window().size();
            (0.0..width as f32).contains(&x) && (0.0..height as f32).contains(&y)
        })
    }

    /// A point of the desktop, in this window if there is one, or else in that with the focus.
    pub(super) fn in_window(&self, window_id: u32, (x, y): (i32, i32)) -> (u32, f32, f32) {
        let index = self.pane_of(window_id).unwrap_or(self.front);
        let bounds = self.panes[index].bounds();
        (self.panes[index].window().id(), (x - bounds.x1) as f32, (y - bounds.y1) as f32)
    }

    /// The window that shows this pixel of the screen, or has the focus.
    pub(super) fn showing(&self, x: u16, y: u16) -> &Pane {
        let shows = |pane: &&Pane| {
            let (x, y) = pane.placement.to_window(x, y);
            pane.open && pane.placement.visible.contains_point(x as i32, y as i32)
        };
        self.panes.iter().find(shows).unwrap_or(&self.panes[self.front])
    }

    pub(super) fn set_titles(&mut self, titles: &Titles) {
        for (index, pane) in self.panes.iter_mut().enumerate() {
            let _ = pane.presenter.window_mut().set_title(&titles.of_window(index));
        }
    }

    /// Places the framebuffer in windows that are monitors. If the session has fewer monitors than
    /// there are windows (an old one, or one whose size another viewer controls), the other windows
    /// stay dark.
    pub(super) fn place_displays(&mut self, state: &State) {
        let picture = state.viewer().framebuffer().size();
        let whole = [picture.rect()];
        let displays = match state.session.displays() {
            [] => &whole[..],
            displays => displays,
        };
        for (index, pane) in self.panes.iter_mut().filter(|pane| pane.open).enumerate() {
            let display = displays.get(index).copied().unwrap_or_default();
            pane.placement = Placement::of_display(picture, display, pane.placement.window);
        }
    }

    /// The screen's pixel under a point of a window. A drag may have left its window for another of
    /// these, whose position on the desktop differs from its monitor's position in the session.
    pub(super) fn screen_at(&self, window_id: u32, x: f32, y: f32) -> Option<(u16, u16)> {
        let (placement, x, y) = self.placed(window_id, x, y);
        placement.to_screen(x, y)
    }

    /// As `screen_at`, in the parts of pixels that a pen's position has.
    pub(super) fn screen_parts_at(&self, window_id: u32, x: f32, y: f32) -> Option<(u32, u32)> {
        let (placement, x, y) = self.placed(window_id, x, y);
        placement.to_screen_parts(x, y)
    }

    /// The window under a point, which is in pixels of it then.
    fn placed(&self, window_id: u32, x: f32, y: f32) -> (Placement, f32, f32) {
        let mut index = self.pane_of(window_id).unwrap_or(self.front);
        let (mut x, mut y) = (x, y);
        let (width, height) = self.panes[index].window().size();
        let inside = (0.0..width as f32).contains(&x) && (0.0..height as f32).contains(&y);
        if !inside && self.has_displays() && self.knows_positions {
            let from = self.panes[index].bounds();
            let (desk_x, desk_y) = (x + from.x1 as f32, y + from.y1 as f32);
            let under = |pane: &Pane| {
                pane.open && pane.bounds().contains_point(desk_x as i32, desk_y as i32)
            };
            if let Some(other) = self.panes.iter().position(under) {
                let bounds = self.panes[other].bounds();
                (index, x, y) = (other, desk_x - bounds.x1 as f32, desk_y - bounds.y1 as f32);
            }
        }
        let pane = &self.panes[index];
        let density = pane.window().pixel_density();
        (pane.placement, x * density, y * density)
    }
}

impl App<'_> {
    /// Video frames are painted by the windows if all of them can.
    pub(super) fn choose_painter(&mut self) {
        let paint = self.windows.iter().all(|pane| pane.presenter.paints_videos());
        let has_quad = self.windows.iter().all(|pane| pane.presenter.has_stereo());
        let mut state = self.client.lock();
        state.set_video_layers(paint);
        let missing = state.set_quad(has_quad);
        drop(state);
        self.tell_of_stereo(missing);
    }

    pub(super) fn handle_window(&mut self, index: usize, event: &WindowEvent) {
        match event {
            WindowEvent::CloseRequested => self.close(index),
            WindowEvent::PixelSizeChanged(..)
            | WindowEvent::Resized(..)
            | WindowEvent::DisplayChanged(..) => {
                self.handle_window_size(index);
            }
            WindowEvent::Exposed | WindowEvent::Shown | WindowEvent::Restored => {
                self.drawing.redraw()
            }
            // Between these windows a drag continues; SDL releases keys itself.
            WindowEvent::FocusLost
                if self
                    .typing
                    .focused_window()
                    .and_then(|id| self.windows.pane_of(id))
                    .is_none() =>
            {
                self.flush_pointer();
                self.release_pointer();
                self.release_all();
                self.menus.hide();
                self.drawing.redraw();
            }
            WindowEvent::MouseLeave => self.pointing.handle_leave(),
            WindowEvent::FocusGained => {
                if self.windows.set_front(index) {
                    self.drawing.redraw();
                    let grabbed = self.typing.keyboard.is_grabbed();
                    self.typing
                        .keyboard
                        .set_grab(self.windows[index].presenter.window_mut(), grabbed);
                }
                self.sync_locks();
                let told = self.pointing.handle_focus(&self.windows, index);
                self.tell_of_capture(told);
            }
            // Releases may have been sent to another window meanwhile.
            WindowEvent::EnterFullscreen => {
                self.release_all();
                self.typing.keyboard.set_grab(self.windows[index].presenter.window_mut(), true);
            }
            WindowEvent::LeaveFullscreen => {
                self.release_all();
                self.typing.keyboard.set_grab(self.windows[index].presenter.window_mut(), false);
            }
            _ => {}
        }
    }

    /// A window was closed: its monitor is removed; with the last one the viewer quits.
    fn close(&mut self, index: usize) {
        if !self.windows.close(index) {
            self.quit = true;
            return;
        }
        self.rearrange();
    }

    /// A window has a new size: the framebuffer is placed again, and the session is resized.
    pub(super) fn handle_window_size(&mut self, index: usize) {
        let (width, height) = self.windows[index].window().size_in_pixels();
        let window = Size { width, height };
        // 0 if SDL does not know it; the session rounds a scale that it cannot use.
        let scale = self.windows[index].window().display_scale();
        if scale > 0.0 && index == self.windows.first() {
            self.client.lock().set_scale((scale * 100.0).round() as u16);
        }
        let pane = &mut self.windows[index];
        if window != pane.placement.window {
            pane.placement.window = window;
            pane.presenter.forget();
            self.rearrange();
        }
        self.drawing.redraw();
    }

    fn rearrange(&mut self) {
        let client = self.client;
        let mut state = client.lock();
        self.place(&mut state);
        self.tell_size(&mut state);
    }

    /// Requests a session as large as the window, or a monitor for each window.
    pub(super) fn tell_size(&mut self, state: &mut State) {
        let open = || self.windows.iter().filter(|pane| pane.open);
        match self.options.mode {
            WindowMode::One => {
                let window = self.windows[0].placement.window;
                if window.area() > 0 && !self.zoom.keeps_screen() {
                    state.resize(window);
                }
            }
            // While windows are being opened, not all are known: one arrangement is requested, not
            // one each.
            _ if open().any(|pane| pane.placement.window.area() == 0) => {}
            WindowMode::Windows(_) => {
                state.arrange(arrange::in_a_row(
                    &open().map(|pane| pane.placement.window).collect::<Vec<_>>(),
                ));
            }
            WindowMode::Monitors => {
                let monitors = open().map(|pane| (pane.monitor, pane.placement.window));
                state.arrange(arrange::as_monitors(&monitors.collect::<Vec<_>>()));
            }
        }
    }

    /// Monitors were plugged in or out: each gets its window.
    pub(super) fn handle_monitors(&mut self) -> Result<(), ViewError> {
        if self.options.mode != WindowMode::Monitors {
            return Ok(());
        }
        let monitors = monitors(&self.desktop.video);
        // Empty for a moment while the desktop switches monitors; another event follows.
        if monitors.is_empty() {
            return Ok(());
        }
        for (index, &monitor) in monitors.iter().enumerate() {
            if index == self.windows.len() {
                let window = open_on(
                    &self.desktop.video,
                    self.titles.host(),
                    monitor,
                    self.options.present,
                )?;
                self.windows.push(Pane::new(&self.desktop.video, window, self.options.present)?);
                self.choose_painter();
                self.typing.start(self.windows[index].window());
            }
            let pane = &mut self.windows[index];
            let was = std::mem::replace(&mut pane.monitor, monitor);
            let opened = !std::mem::replace(&mut pane.open, true);
            if opened || was != monitor {
                let window = pane.presenter.window_mut();
                let moved = |error: sdl3::Error| ViewError::Window(error.to_string());
                if window.fullscreen_state() != FullscreenType::Off {
                    window.set_fullscreen(false).map_err(moved)?;
                    window.sync();
                }
                window.set_position(
                    WindowPos::Positioned(monitor.x1),
                    WindowPos::Positioned(monitor.y1),
                );
                let _ = window.set_size(monitor.width() as u32, monitor.height() as u32);
                window.show();
                window.set_fullscreen(true).map_err(moved)?;
            }
            self.handle_window_size(index);
        }
        for pane in self.windows.iter_mut().skip(monitors.len()).filter(|pane| pane.open) {
            pane.open = false;
            pane.presenter.window_mut().hide();
        }
        self.windows.keep_front_open();
        self.windows.set_titles(&self.titles);
        self.rearrange();
        Ok(())
    }

    /// The session has this name.
    pub(super) fn show_name(&mut self, name: Option<&str>) {
        self.titles.set_name(name);
        self.windows.set_titles(&self.titles);
    }
}
