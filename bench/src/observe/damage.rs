//! Threads that read a screen after each damage. From an X server to the recorders of changes, of
//! frames and of cells. Knows which rectangles were drawn; never what they show.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _, ReportLevel};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    CLIENT_MESSAGE_EVENT, ClientMessageData, ClientMessageEvent, ConnectionExt as _,
    CreateWindowAux, EventMask, WindowClass,
};
use x11rb::rust_connection::RustConnection;

use super::picture::Rect;
use super::screen::{need, sync};
use crate::Error;

/// Damage to the root window, windows in it included.
pub(super) struct Damage {
    x: Arc<RustConnection>,
    damage: u32,
    region: u32,
    window: u32,
}

/// The areas drawn since the last reading.
pub(super) struct Drawn {
    /// When the damage was reported.
    pub(super) at: Instant,
    /// Where.
    pub(super) rects: Vec<Rect>,
    /// Whether this is the last reading: [`DamageThread::end`] was called.
    pub(super) is_last: bool,
}

impl Drawn {
    /// Whether any of it lies in this area.
    pub(super) fn touches(&self, area: &Rect) -> bool {
        self.rects.iter().any(|rect| rect.intersect(area).is_some())
    }
}

/// A thread that reads a screen after each damage; dropping this ends it.
pub(super) struct DamageThread {
    name: &'static str,
    waker: Bell,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl DamageThread {
    /// Calls `handle_damage` after each damage from [`Damage::listen`] on, and a last time at the
    /// end.
    pub(super) fn start(
        name: &'static str,
        (damage, waker): (Damage, Bell),
        mut handle_damage: impl FnMut(&Drawn) -> Result<(), Error> + Send + 'static,
    ) -> Result<DamageThread, Error> {
        let run = move || {
            loop {
                let drawn = damage
                    .wait()
                    .map_err(|error| format!("the client's screen, watched for {name}: {error}"))?;
                handle_damage(&drawn)?;
                if drawn.is_last {
                    return Ok(());
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(DamageThread { name, waker, thread: Some(thread) })
    }

    /// Ends it, after everything that the X server has drawn until now was read.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // If the X server is gone, the thread has ended by itself, and its error says more.
        let rung = self.waker.wake();
        thread.join().map_err(|_| format!("the thread that watches {} panicked", self.name))??;
        rung
    }
}

impl Drop for DamageThread {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// What a thread shares with its owner; a panic of the thread is reported by [`DamageThread::end`].
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the thread that waits for damage.
pub(super) struct Bell {
    x: Arc<RustConnection>,
    window: u32,
}

impl Damage {
    /// Requests damage events: all that is drawn after this returns is reported.
    pub(super) fn listen(x: RustConnection) -> Result<(Damage, Bell), Error> {
        need(&x, damage::X11_EXTENSION_NAME)?;
        need(&x, xfixes::X11_EXTENSION_NAME)?;
        x.damage_query_version(1, 1)?.reply()?;
        x.xfixes_query_version(5, 0)?.reply()?;
        let root = x.setup().roots[0].root;
        let (damage, region, window) = (x.generate_id()?, x.generate_id()?, x.generate_id()?);
        x.create_window(
            0,
            window,
            root,
            0,
            0,
            1,
            1,
            0,
            WindowClass::INPUT_ONLY,
            0,
            &CreateWindowAux::new(),
        )?;
        x.xfixes_create_region(region, &[])?;
        // One event when the damage region becomes non-empty: it costs one round trip for each
        // reading, however much is drawn. Raw rectangles would cost an event for each glyph.
        x.damage_create(damage, root, ReportLevel::NON_EMPTY)?;
        // A new damage object begins with its whole window damaged. Reading all of that would take
        // milliseconds, and changes drawn meanwhile would get the time of this reading.
        x.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
        sync(&x)?;
        while x.poll_for_event()?.is_some() {}
        // The region just dropped may contain later drawings, and a region that is not empty causes
        // no event.
        x.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
        sync(&x)?;
        let x = Arc::new(x);
        Ok((Damage { x: Arc::clone(&x), damage, region, window }, Bell { x, window }))
    }

    /// Waits for something to be drawn, or for the waker.
    fn wait(&self) -> Result<Drawn, Error> {
        loop {
            let event = self.x.wait_for_event()?;
            let at = Instant::now();
            let is_last = match event {
                Event::DamageNotify(event) if event.damage == self.damage => false,
                Event::ClientMessage(event) if event.window == self.window => true,
                Event::Error(error) => {
                    return Err(format!("the X server refused: {error:?}").into());
                }
                _ => continue,
            };
            return Ok(Drawn { at, rects: self.take()?, is_last });
        }
    }

    /// Takes the damage, so that the next drawing causes a new event: a reader that reads pixels
    /// after this misses nothing, and at worst reads the area of the next event twice.
    fn take(&self) -> Result<Vec<Rect>, Error> {
        self.x.damage_subtract(self.damage, x11rb::NONE, self.region)?;
        let region = self.x.xfixes_fetch_region(self.region)?.reply()?;
        let rect = |r: &x11rb::protocol::xproto::Rectangle| {
            Rect::new(i32::from(r.x), i32::from(r.y), u32::from(r.width), u32::from(r.height))
        };
        Ok(region.rectangles.iter().map(rect).collect())
    }
}

impl Bell {
    /// Wakes the thread after everything that the X server has drawn before.
    fn wake(&self) -> Result<(), Error> {
        let event = ClientMessageEvent {
            response_type: CLIENT_MESSAGE_EVENT,
            format: 32,
            sequence: 0,
            window: self.window,
            type_: x11rb::protocol::xproto::AtomEnum::INTEGER.into(),
            data: ClientMessageData::from([0_u32; 5]),
        };
        self.x.send_event(false, self.window, EventMask::NO_EVENT, event)?;
        self.x.flush()?;
        Ok(())
    }
}
