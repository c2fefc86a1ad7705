//! Path back, beside the pixels: where in a window files were dropped. The crate `sdl3` leaves it
//! out of its events, so SDL is asked by a watch of events. Knows SDL's event of a drop.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use sdl3::sys::events::{SDL_AddEventWatch, SDL_EVENT_DROP_COMPLETE, SDL_Event};

/// The bits of x and of y of the newest drop, in the window's coordinates.
static PLACE: AtomicU64 = AtomicU64::new(0);

/// From now on drops are seen; SDL's events are initialised.
pub(super) fn watch() {
    // SAFETY: the callback is a function of the program's whole life, and needs no data.
    #[allow(unsafe_code, reason = "sdl3's watch passes events without the place")]
    let added = unsafe { SDL_AddEventWatch(Some(see), ptr::null_mut()) };
    if !added {
        // Files go to the folder for downloads then: the place is outside every window.
        PLACE.store(place(f32::NAN, f32::NAN), Ordering::Relaxed);
    }
}

/// Where the newest drop was: x and y in its window's coordinates.
pub(super) fn newest() -> (f32, f32) {
    let bits = PLACE.load(Ordering::Relaxed);
    (f32::from_bits((bits >> 32) as u32), f32::from_bits(bits as u32))
}

fn place(x: f32, y: f32) -> u64 {
    u64::from(x.to_bits()) << 32 | u64::from(y.to_bits())
}

#[allow(unsafe_code, reason = "SDL calls it")]
unsafe extern "C" fn see(_: *mut c_void, event: *mut SDL_Event) -> bool {
    // SAFETY: SDL passes a pointer to an event that lives for the call; its type says that it is
    // that of a drop.
    unsafe {
        if (*event).r#type == SDL_EVENT_DROP_COMPLETE.0 {
            PLACE.store(place((*event).drop.x, (*event).drop.y), Ordering::Relaxed);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_drop_is_that_of_its_event() {
        let mut event = SDL_Event::default();
        event.drop.r#type = SDL_EVENT_DROP_COMPLETE;
        event.drop.x = 12.5;
        event.drop.y = -3.0;
        // SAFETY: the pointer is valid for the call.
        #[allow(unsafe_code, reason = "as SDL calls it")]
        let goes_on = unsafe { see(ptr::null_mut(), &raw mut event) };
        assert!(goes_on, "the event is not removed");
        assert_eq!(newest(), (12.5, -3.0));
    }
}
