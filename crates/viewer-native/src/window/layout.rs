//! Path back, under keyboard.rs: keysyms that SDL has no keycode for, above all dead keys, queried
//! from the X server.
//! Only for keys that SDL cannot translate, which are few and pressed by people: two round trips to
//! the X server each. Knows the X server's keymap; never which keys are down.

use sdl3::keyboard::Mod;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

/// Bits 13 and 14 of the core protocol's state: the group of the layout in use (XKB protocol,
/// section 2.2.2).
const GROUP_SHIFT: u16 = 13;

/// The X server's keymap; empty if there is no X server.
pub(super) struct Layout {
    x: Option<(RustConnection, u32)>,
}

impl Layout {
    pub(super) fn new(driver: &str) -> Layout {
        let connected = (driver == "x11").then(|| x11rb::connect(None).ok()).flatten();
        Layout {
            x: connected.map(|(x, screen)| {
                let root = x.setup().roots[screen].root;
                (x, root)
            }),
        }
    }

    /// The keysym of this X keycode with these modifiers; None if unknown.
    pub(super) fn keysym(&self, keycode: u16, keymod: Mod) -> Option<u32> {
        let (x, root) = self.x.as_ref()?;
        let keycode = u8::try_from(keycode).ok().filter(|keycode| *keycode >= 8)?;
        let state = u16::from(x.query_pointer(*root).ok()?.reply().ok()?.mask);
        let row = x.get_keyboard_mapping(keycode, 1).ok()?.reply().ok()?;
        let column = column(state >> GROUP_SHIFT & 3, keymod);
        // A missing entry means the same as the level below.
        let at = |column: usize| row.keysyms.get(column).copied().filter(|keysym| *keysym != 0);
        at(column).or_else(|| at(column & !1)).or_else(|| at(column & 2))
    }
}

/// Column of this level in a row of the core protocol's keymap: two levels of groups 1 and 2 come
/// first, then the third and fourth of group 1, then those of group 2 (XKB protocol, section 12.4).
fn column(group: u16, keymod: Mod) -> usize {
    let third = usize::from(keymod.contains(Mod::MODEMOD)) * 4;
    let shift = usize::from(keymod.intersects(Mod::LSHIFTMOD | Mod::RSHIFTMOD));
    third + usize::from(group.min(1)) * 2 + shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_the_core_protocols_order() {
        assert_eq!(column(0, Mod::NOMOD), 0);
        assert_eq!(column(0, Mod::RSHIFTMOD | Mod::NUMMOD), 1);
        assert_eq!(column(1, Mod::NOMOD), 2);
        assert_eq!(column(0, Mod::MODEMOD), 4);
        assert_eq!(column(1, Mod::MODEMOD | Mod::LSHIFTMOD), 7);
    }
}
