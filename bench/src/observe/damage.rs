//! Being woken by what is drawn: a connection of its own that hears of damage to a whole screen.
//! From an X server to the recorders of changes and of frames.
//! Knows which rectangles were drawn upon; never with what.

use std::sync::Arc;
use std::time::Instant;

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _, ReportLevel};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    CLIENT_MESSAGE_EVENT, ClientMessageData, ClientMessageEvent, ConnectionExt as _, CreateWindowAux, EventMask,
    WindowClass,
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

/// What [`Damage::wait`] was woken by.
pub(super) enum Woken {
    /// Something was drawn: when it was heard of, and where.
    Drawn(Instant, Vec<Rect>),
    /// [`Bell::ring`], with what was drawn until then.
    Rung(Instant, Vec<Rect>),
}

/// Wakes the thread that waits for damage.
pub(super) struct Bell {
    x: Arc<RustConnection>,
    window: u32,
}

impl Damage {
    /// Listens from here on: what is drawn after this returns is heard of.
    pub(super) fn listen(x: RustConnection) -> Result<(Damage, Bell), Error> {
        need(&x, damage::X11_EXTENSION_NAME)?;
        need(&x, xfixes::X11_EXTENSION_NAME)?;
        x.damage_query_version(1, 1)?.reply()?;
        x.xfixes_query_version(5, 0)?.reply()?;
        let root = x.setup().roots[0].root;
        let (damage, region, window) = (x.generate_id()?, x.generate_id()?, x.generate_id()?);
        x.create_window(0, window, root, 0, 0, 1, 1, 0, WindowClass::INPUT_ONLY, 0, &CreateWindowAux::new())?;
        x.xfixes_create_region(region, &[])?;
        // One event when something is damaged after nothing was: however much is drawn, the cost is one round trip for
        // each time that this side looks, where raw rectangles would cost an event for each letter.
        x.damage_create(damage, root, ReportLevel::NON_EMPTY)?;
        // A new one begins with its whole window damaged. Looking at all of that would take milliseconds, and what is
        // drawn meanwhile would bear the time of this.
        x.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
        sync(&x)?;
        while x.poll_for_event()?.is_some() {}
        // What was drawn since may be among what was just dropped, and of a region that is not empty no event follows.
        x.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?;
        sync(&x)?;
        let x = Arc::new(x);
        Ok((Damage { x: Arc::clone(&x), damage, region, window }, Bell { x, window }))
    }

    /// Waits for something to be drawn, or for the bell.
    pub(super) fn wait(&self) -> Result<Woken, Error> {
        loop {
            let event = self.x.wait_for_event()?;
            let at = Instant::now();
            match event {
                Event::DamageNotify(event) if event.damage == self.damage => {
                    return Ok(Woken::Drawn(at, self.take()?));
                }
                Event::ClientMessage(event) if event.window == self.window => {
                    return Ok(Woken::Rung(at, self.take()?));
                }
                Event::Error(error) => return Err(format!("the X server refused: {error:?}").into()),
                _ => {}
            }
        }
    }

    /// Takes the damage, so that whatever is drawn after this makes a new event: who reads pixels afterwards misses
    /// nothing, and at worst reads what the next event says once more.
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
    pub(super) fn ring(&self) -> Result<(), Error> {
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
