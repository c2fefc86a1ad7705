//! Path 4/13, beside the screen: from the ring's cursor block, to session-core.
//! Detects changes of the cursor, and compresses its image once for all viewers. Knows the block's
//! current state; never viewers.

use thinc_codec_enc::Encoder;
use thinc_protocol::session::CursorColors;
use thinc_region::Size;
use thinc_ring::{CursorImage, CursorPixel, CursorState};
use thinc_session_core::{CursorData, CursorImageOwned, Session};

/// The state of the cursor that was published last.
#[derive(Default)]
pub(crate) struct CursorPublisher {
    serial: Option<u32>,
    /// 0 at first, as in the driver: a program may have moved the pointer before the first look.
    warps: u32,
}

impl CursorPublisher {
    /// Passes what has changed to session-core.
    pub(crate) fn publish(
        &mut self,
        cursor: &CursorState,
        encoder: &mut Encoder,
        core: &mut Session,
    ) {
        if let CursorImage::TwoColors { fore, back, .. } = cursor.image {
            core.handle_cursor_colors(CursorColors { fore, back });
        }
        if cursor.serial != 0 && self.serial != Some(cursor.serial) {
            core.handle_cursor(pack(encoder, cursor));
            self.serial = Some(cursor.serial);
        }
        core.handle_cursor_show(cursor.visible);
        let on_screen = |value: i32| value.clamp(0, i32::from(u16::MAX)) as u16;
        let (x, y) = (on_screen(cursor.x), on_screen(cursor.y));
        if std::mem::replace(&mut self.warps, cursor.warps) != cursor.warps {
            core.handle_cursor_move(x, y);
        }
        core.handle_pointer_use(cursor.pointer_use, x, y);
    }
}

fn pack(encoder: &mut Encoder, cursor: &CursorState) -> CursorImageOwned {
    let size = Size { width: cursor.width.into(), height: cursor.height.into() };
    let mut bytes = Vec::new();
    let pixels = match &cursor.image {
        // A cursor without size is hidden, and has no pixels.
        _ if size.area() == 0 => CursorData::Argb(bytes),
        CursorImage::Argb(argb) => {
            encoder.cursor(argb, &mut bytes);
            CursorData::Argb(bytes)
        }
        CursorImage::TwoColors { pixels, .. } => {
            let plane =
                |wanted: fn(&CursorPixel) -> bool| pixels.iter().map(wanted).collect::<Vec<bool>>();
            let fore = plane(|pixel| *pixel == CursorPixel::Fore);
            let inside = plane(|pixel| *pixel != CursorPixel::Outside);
            let compression =
                encoder.cursor_planes(cursor.width.into(), &fore, &inside, &mut bytes);
            CursorData::TwoColors { compression, planes: bytes }
        }
    };
    // Viewers refuse a hot spot outside the image; this one comes from shared memory.
    let (hot_x, hot_y) = (cursor.hot_x.min(cursor.width), cursor.hot_y.min(cursor.height));
    CursorImageOwned { size, hot_x, hot_y, pixels }
}
