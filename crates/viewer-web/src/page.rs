//! Path 11/13 and 12/13: from lib.rs, to viewer-core and back.
//! What one page holds: the viewer of the current connection, and room for what passes between it and the page.
//! Knows viewer-core's values and how they lie in memory for the page; never who reads them.

use thinc_protocol::Micros;
use thinc_protocol::viewer::{InputEvent, ViewerCaps};
use thinc_region::{Rect, Size};
use thinc_viewer_core::{
    CACHE_BYTES_DEFAULT, Cache, CursorPixels, SavedCacheError, Viewer, ViewerConfig, ViewerError, ViewerEvent,
};

/// Kinds of events, as web/decoder.ts numbers them; behind each, its four numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EventKind {
    /// There is none.
    None = 0,
    /// Width, height.
    Geometry = 1,
    /// Width, height, hot x, hot y; the pixels are the image.
    Cursor = 2,
    /// Shown.
    CursorShow = 3,
    /// Number.
    Barrier = 4,
    /// Input's number, microseconds.
    Echo = 5,
    FrameEnd = 6,
    /// Code; the reason is the text.
    Closed = 7,
    /// The session's name is the text.
    Connected = 8,
    /// x, y.
    CursorMove = 9,
}

#[derive(Debug)]
pub(crate) struct Page {
    viewer: Option<Viewer>,
    /// What is kept, before the first connection.
    cache: Option<Cache>,
    /// The same as bytes, and the update after which it was so.
    saved: Vec<u8>,
    saved_update: u64,
    buffer: Vec<u8>,
    output: Vec<u8>,
    event: [f64; 4],
    text: String,
    image: Vec<u32>,
    damage: Vec<[i32; 4]>,
    inexact: Vec<[i32; 4]>,
    rgba: Vec<u32>,
    stats: Vec<f64>,
}

impl Page {
    pub(crate) const fn new() -> Page {
        Page {
            viewer: None,
            cache: None,
            saved: Vec::new(),
            saved_update: 0,
            buffer: Vec::new(),
            output: Vec::new(),
            event: [0.0; 4],
            text: String::new(),
            image: Vec::new(),
            damage: Vec::new(),
            inexact: Vec::new(),
            rgba: Vec::new(),
            stats: Vec::new(),
        }
    }

    /// Room for `bytes` bytes, which the page writes before its next call.
    pub(crate) fn buffer(&mut self, bytes: usize) -> *mut u8 {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        self.buffer.as_mut_ptr()
    }

    pub(crate) fn open(&mut self, name_bytes: usize, size: Size) {
        let name = String::from_utf8_lossy(self.buffer.get(..name_bytes).unwrap_or_default()).into_owned();
        let caps = ViewerCaps::RESIZE | ViewerCaps::LOCAL_CURSOR;
        let before = self.viewer.as_mut().and_then(Viewer::take_cache).or_else(|| self.cache.take());
        let mut viewer = Viewer::new(&ViewerConfig { name, size, caps });
        viewer.offer_cache(before.unwrap_or_else(|| Cache::new(CACHE_BYTES_DEFAULT)));
        self.viewer = Some(viewer);
        self.saved_update = 0;
    }

    /// What was kept by an earlier page, which lies in the buffer; offered with the first connection.
    pub(crate) fn load_cache(&mut self, bytes: usize) -> Result<(), SavedCacheError> {
        let loaded = Cache::load(self.buffer.get(..bytes).unwrap_or_default(), CACHE_BYTES_DEFAULT);
        // The buffer was never so large before, and will not be again.
        self.buffer = Vec::new();
        match loaded {
            Ok(cache) => {
                self.cache = Some(cache);
                Ok(())
            }
            Err(error) => {
                self.text = error.to_string();
                Err(error)
            }
        }
    }

    /// What is kept, as bytes for a later page; none where that is as it was.
    pub(crate) fn save_cache(&mut self) -> &[u8] {
        self.saved = Vec::new();
        let cache = self.viewer.as_ref().and_then(Viewer::cache);
        if let Some(cache) = cache.filter(|cache| cache.update() != self.saved_update) {
            cache.save(&mut self.saved);
            self.saved_update = cache.update();
        }
        &self.saved
    }

    pub(crate) fn saved(&self) -> &[u8] {
        &self.saved
    }

    pub(crate) fn bytes(&mut self, bytes: usize, now: Micros) -> Result<(), ViewerError> {
        let Some(viewer) = &mut self.viewer else { return Ok(()) };
        let result = viewer.handle_bytes(self.buffer.get(..bytes).unwrap_or_default(), now);
        if let Err(error) = &result {
            self.text = error.to_string();
        }
        result
    }

    pub(crate) fn input(&mut self, event: InputEvent, now: Micros) -> u32 {
        self.viewer.as_mut().map_or(0, |viewer| viewer.handle_input(event, now))
    }

    pub(crate) fn resize(&mut self, size: Size) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_resize(size);
        }
    }

    pub(crate) fn barrier(&mut self) -> u32 {
        self.viewer.as_mut().map_or(0, Viewer::request_barrier)
    }

    pub(crate) fn close(&mut self) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_close("the person closed the viewer");
        }
    }

    pub(crate) fn presented(&mut self, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_presented(now);
        }
    }

    pub(crate) fn collect_output(&mut self) -> &[u8] {
        self.output.clear();
        if let Some(viewer) = &mut self.viewer {
            viewer.poll_transmit(&mut self.output);
        }
        &self.output
    }

    pub(crate) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Takes the next event apart into numbers, text and image.
    pub(crate) fn next_event(&mut self) -> EventKind {
        let Some(event) = self.viewer.as_mut().and_then(Viewer::poll_event) else { return EventKind::None };
        let (kind, numbers) = match event {
            ViewerEvent::Connected { name } => {
                self.text = name;
                (EventKind::Connected, [0.0; 4])
            }
            ViewerEvent::Geometry(size) => (EventKind::Geometry, [size.width.into(), size.height.into(), 0.0, 0.0]),
            ViewerEvent::Cursor(CursorPixels { size, hot_x, hot_y, pixels }) => {
                self.image.clear();
                self.image.extend(pixels.iter().map(|&pixel| straight_rgba(pixel)));
                (EventKind::Cursor, [size.width.into(), size.height.into(), hot_x.into(), hot_y.into()])
            }
            ViewerEvent::CursorMove { x, y } => (EventKind::CursorMove, [x.into(), y.into(), 0.0, 0.0]),
            ViewerEvent::CursorShow(shown) => (EventKind::CursorShow, [f64::from(u8::from(shown)), 0.0, 0.0, 0.0]),
            ViewerEvent::Barrier(id) => (EventKind::Barrier, [id.into(), 0.0, 0.0, 0.0]),
            ViewerEvent::Echo { seq, latency_us } => (EventKind::Echo, [seq.into(), latency_us as f64, 0.0, 0.0]),
            ViewerEvent::FrameEnd => (EventKind::FrameEnd, [0.0; 4]),
            ViewerEvent::Closed { code, reason } => {
                self.text = reason;
                (EventKind::Closed, [f64::from(code as u8), 0.0, 0.0, 0.0])
            }
        };
        self.event = numbers;
        kind
    }

    pub(crate) fn event(&self) -> &[f64; 4] {
        &self.event
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn image(&self) -> &[u32] {
        &self.image
    }

    pub(crate) fn size(&self) -> Size {
        self.viewer.as_ref().map_or(Size::default(), |viewer| viewer.framebuffer().size())
    }

    pub(crate) fn screen(&self) -> &[u32] {
        self.viewer.as_ref().map_or(&[], |viewer| viewer.framebuffer().pixels())
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::has_damage)
    }

    pub(crate) fn take_damage(&mut self) -> &[[i32; 4]] {
        self.damage.clear();
        if let Some(viewer) = &mut self.viewer {
            let damage = viewer.take_damage();
            self.damage.extend(damage.rects().iter().map(numbers_of));
        }
        &self.damage
    }

    pub(crate) fn damage(&self) -> &[[i32; 4]] {
        &self.damage
    }

    /// Where the screen is not exact yet.
    pub(crate) fn collect_inexact(&mut self) -> &[[i32; 4]] {
        self.inexact.clear();
        if let Some(viewer) = &self.viewer {
            self.inexact.extend(viewer.inexact().region().rects().iter().map(numbers_of));
        }
        &self.inexact
    }

    pub(crate) fn inexact(&self) -> &[[i32; 4]] {
        &self.inexact
    }

    /// Pixels of a part of the screen in the order a canvas wants; nothing for a part that is not inside.
    pub(crate) fn rgba(&mut self, rect: Rect) -> &[u32] {
        self.rgba.clear();
        if let Some(viewer) = &self.viewer
            && viewer.framebuffer().size().rect().contains(&rect)
        {
            for y in rect.y1..rect.y2 {
                let row = &viewer.framebuffer().row(y as usize)[rect.x1 as usize..rect.x2 as usize];
                self.rgba.extend(row.iter().map(|&pixel| swap_red_and_blue(pixel)));
            }
        }
        &self.rgba
    }

    /// Updates, frames, presents, bytes in and out, bytes of packed commands as they came and unpacked, pixels not exact
    /// yet, round trip and the least of them in microseconds (0: unknown);
    /// count, bytes and pixels of each kind of command; then microseconds from input to present of the last ones.
    pub(crate) fn collect_stats(&mut self) -> &[f64] {
        self.stats.clear();
        if let Some(viewer) = &self.viewer {
            let stats = viewer.stats();
            let rtts = [stats.rtt_us, stats.rtt_min_us].map(Option::unwrap_or_default);
            let counts = [stats.updates, stats.frames, stats.presents, stats.bytes_in, stats.bytes_out];
            let packed = [stats.packed_bytes, stats.unpacked_bytes, viewer.inexact().pixels()];
            let commands = stats.commands.iter().flat_map(|kind| [kind.count, kind.bytes, kind.pixels]);
            let echoes = stats.echoes.iter().filter_map(|echo| echo.presented_us);
            let heads = counts.into_iter().chain(packed).chain(rtts);
            self.stats.extend(heads.chain(commands).chain(echoes).map(|value| value as f64));
        }
        &self.stats
    }

    pub(crate) fn stats(&self) -> &[f64] {
        &self.stats
    }
}

/// x, y, width and height.
fn numbers_of(rect: &Rect) -> [i32; 4] {
    [rect.x1, rect.y1, rect.width(), rect.height()]
}

/// 0xAARRGGBB → 0xAABBGGRR, which little-endian memory holds as red, green, blue, alpha.
fn swap_red_and_blue(pixel: u32) -> u32 {
    (pixel & 0xff00_ff00) | (pixel >> 16 & 0xff) | (pixel & 0xff) << 16
}

/// As [`swap_red_and_blue`], with the alpha divided out of the colours: a canvas wants them so.
fn straight_rgba(premultiplied: u32) -> u32 {
    let alpha = premultiplied >> 24;
    if alpha == 0 {
        return 0;
    }
    let straight = |shift: u32| ((premultiplied >> shift & 0xff) * 255 + alpha / 2).div_euclid(alpha).min(255) << shift;
    swap_red_and_blue(alpha << 24 | straight(16) | straight(8) | straight(0))
}

#[cfg(test)]
mod tests {
    use thinc_protocol::VERSION;
    use thinc_protocol::command::Command;
    use thinc_protocol::session::{Close, CloseCode, Geometry, SessionHello, SessionMessage, Update};

    use super::*;

    /// Says it to the page as its script would: into the buffer, then the call.
    fn say(page: &mut Page, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        page.buffer(bytes.len());
        page.buffer[..bytes.len()].copy_from_slice(&bytes);
        page.bytes(bytes.len(), 1_000)
    }

    fn greeted(size: Size) -> Page {
        let mut page = Page::new();
        page.buffer(4);
        page.buffer[..4].copy_from_slice(b"test");
        page.open(4, Size::default());
        let name = "a session".to_owned();
        let hello = SessionHello { version: VERSION, caps: 0, name, frame_bytes_max: 65536 };
        say(&mut page, &SessionMessage::Hello(hello)).unwrap();
        say(&mut page, &SessionMessage::Geometry(Geometry { epoch: 1, size })).unwrap();
        page
    }

    #[test]
    fn a_fill_comes_out_as_damage_and_as_pixels_in_the_canvas_order() {
        let mut page = greeted(Size { width: 4, height: 3 });
        assert_eq!(page.next_event(), EventKind::Connected);
        assert_eq!(page.text(), "a session");
        assert_eq!(page.next_event(), EventKind::Geometry);
        assert_eq!(page.event()[..2], [4.0, 3.0]);
        assert_eq!(page.take_damage(), [[0, 0, 4, 3]]);

        let mut commands = Vec::new();
        Command::Sfill { region: Rect::new(1, 1, 3, 2).into(), color: 0x11_22_33 }.encode(&mut commands);
        let update =
            Update { seq: 1, after: 0, epoch: 1, echo: None, end_of_frame: true, packed: None, commands: &commands };
        say(&mut page, &SessionMessage::Update(update)).unwrap();
        assert!(page.is_damaged());
        assert_eq!(page.take_damage(), [[1, 1, 2, 1]]);
        assert!(!page.is_damaged());
        assert_eq!(page.rgba(Rect::new(0, 1, 2, 2)), [0xff00_0000, 0xff33_2211]);
        assert_eq!(page.screen()[5], 0xff11_2233);
        assert_eq!(page.collect_stats()[0], 1.0, "one update");
        assert_eq!(page.collect_stats().len(), 10 + 3 * 7, "no input was echoed");
    }

    #[test]
    fn a_part_outside_the_screen_gives_no_pixels() {
        let mut page = greeted(Size { width: 4, height: 3 });
        assert!(page.rgba(Rect::new(2, 0, 5, 1)).is_empty());
        assert!(page.rgba(Rect::new(0, 0, 4, 4)).is_empty());
        assert_eq!(page.rgba(Rect::new(0, 0, 4, 3)).len(), 12);
    }

    #[test]
    fn the_first_output_is_the_hello_and_then_there_is_none() {
        let mut page = Page::new();
        assert!(page.collect_output().is_empty(), "no connection, nothing to say");
        page.open(0, Size { width: 640, height: 480 });
        assert!(!page.collect_output().is_empty());
        assert!(page.collect_output().is_empty());
    }

    #[test]
    fn garbage_ends_the_connection_with_words() {
        let mut page = greeted(Size { width: 4, height: 3 });
        page.buffer(3);
        page.buffer[..3].copy_from_slice(&[0xee, 1, 0]);
        assert!(page.bytes(3, 0).is_err());
        assert!(!page.text().is_empty());
    }

    #[test]
    fn a_close_carries_its_code_and_reason() {
        let mut page = greeted(Size { width: 4, height: 3 });
        let close = Close { code: CloseCode::Replaced, reason: "another viewer" };
        say(&mut page, &SessionMessage::Close(close)).unwrap();
        let kinds = [(); 4].map(|()| page.next_event());
        assert_eq!(kinds, [EventKind::Connected, EventKind::Geometry, EventKind::Closed, EventKind::None]);
        assert_eq!(page.event()[0], f64::from(CloseCode::Replaced as u8));
        assert_eq!(page.text(), "another viewer");
    }

    #[test]
    fn alpha_is_divided_out_once_and_within_one_step() {
        assert_eq!(straight_rgba(0), 0);
        assert_eq!(straight_rgba(0xff11_2233), 0xff33_2211);
        for alpha in 1..=255u32 {
            for color in [0, 1, 77, 128, 254, 255] {
                let premultiplied = (color * alpha + 127) / 255;
                let back = straight_rgba(alpha << 24 | premultiplied) >> 16 & 0xff;
                let again = (back * alpha + 127) / 255;
                assert_eq!(again, premultiplied, "alpha {alpha}, colour {color}");
            }
        }
    }
}
