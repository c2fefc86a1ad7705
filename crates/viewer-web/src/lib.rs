//! Path 11/13 and 12/13: from web/transport.ts, through viewer-core, to web/present.ts.
//! viewer-core for a browser: a C interface over WASM, called by web/decoder.ts and nobody else.
//! Decides nothing and knows no browser: numbers and addresses in, numbers and addresses out.
//!
//! One instance of the module holds one viewer, that of the current connection. The page writes what it has to say into
//! `viewer_buffer` and reads answers from the addresses that the `*_at` functions give; both stay good until the next
//! call. The only unsafe thing here is the names that `no_mangle` claims; no export takes an address.

mod page;
mod samples;

use std::cell::RefCell;

use page::Page;
use thinc_protocol::viewer::{InputEvent, TouchPhase, View};
use thinc_region::{Rect, Size};
use thinc_viewer_core::Urgency;

thread_local! {
    static PAGE: RefCell<Page> = const { RefCell::new(Page::new()) };
    /// What a panic said; outlives it, for the page to show.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn with<T>(call: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(call)
}

fn micros(now_us: f64) -> u64 {
    now_us as u64 // "as" takes a negative or absent moment for 0
}

fn rect_of(x: u32, y: u32, width: u32, height: u32) -> Rect {
    let edge = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let (x1, y1) = (edge(x), edge(y));
    Rect::new(x1, y1, x1.saturating_add(edge(width)), y1.saturating_add(edge(height)))
}

fn narrow(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// Room for what the next call takes, `bytes` long; its address.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_buffer(bytes: u32) -> *mut u8 {
    with(|page| page.buffer(bytes as usize))
}

/// Begins a connection: the program's name lies in the buffer, and behind it 32 random bytes; width and height are the window's pixels.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_open(name_bytes: u32, width: u32, height: u32) {
    std::panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|words| *words = info.to_string())));
    with(|page| page.open(name_bytes as usize, Size { width, height }));
}

/// The connection is gone: until the next one is greeted, keys are kept for it, and nothing else is.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_lost() {
    with(Page::lost);
}

/// True (1) while what is typed without a connection would be sent by the next.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_keeps(now_us: f64) -> u32 {
    with(|page| u32::from(page.keeps(micros(now_us))))
}

/// The page's own number, 16 bytes, lies in the buffer; every connection from the next `viewer_open` on says it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_instance() {
    with(Page::set_instance);
}

/// Takes what an earlier page kept, which lies in the buffer; 0, or 1 where it is of no use for what the text says.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_load_cache(bytes: u32) -> u32 {
    with(|page| u32::from(page.load_cache(bytes as usize).is_err()))
}

/// Collects what is kept, for a later page; its length in bytes, 0 where nothing is new.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_save_cache() -> u32 {
    with(|page| page.save_cache().len() as u32)
}

/// Where `viewer_save_cache` put it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_saved_cache_at() -> *const u8 {
    with(|page| page.saved().as_ptr())
}

/// An earlier page of this tab showed a picture of this size, of this part of the session's screen: it is shown until there is a
/// connection. 1, or 0 where it is none. Before the first `viewer_open`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_restore(width: u32, height: u32, x: u32, y: u32, part_width: u32, part_height: u32) -> u32 {
    with(|page| u32::from(page.restore(Size { width, height }, rect_of(x, y, part_width, part_height))))
}

/// A tile of it, as `viewer_tile` gave it, lies in the buffer; 1, or 0 where it is none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_restore_tile(x: u32, y: u32, bytes: u32) -> u32 {
    with(|page| u32::from(page.restore_tile(x, y, bytes as usize)))
}

/// When `viewer_tile` is to be called, in microseconds; 0 for never.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile_due() -> f64 {
    with(|page| page.tile_due() as f64)
}

/// Collects the next tile that a page loaded again is to have: its length in bytes, 0 for none; its x, y, width and height are where an
/// event's numbers are. `last`: there may be no later.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile(last: u32, now_us: f64) -> u32 {
    let urgency = if last != 0 { Urgency::Last } else { Urgency::Rested };
    with(|page| page.next_tile(urgency, micros(now_us)).len() as u32)
}

/// Where `viewer_tile` put it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile_at() -> *const u8 {
    with(|page| page.tile().as_ptr())
}

/// The page has none of the tiles any more.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tiles_forget() {
    with(Page::forget_tiles);
}

/// Applies the session's next bytes, which lie in the buffer; 0, or 1 when the connection must end for what the text says.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_bytes(bytes: u32, now_us: f64) -> u32 {
    with(|page| u32::from(page.bytes(bytes as usize, micros(now_us)).is_err()))
}

/// The same for what came beside them by itself, which lies in the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_datagram(bytes: u32, now_us: f64) -> u32 {
    with(|page| u32::from(page.datagram(bytes as usize, micros(now_us)).is_err()))
}

/// A key: evdev code and X keysym, 0 where unknown. This and the next give the input's number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_key(code: u32, keysym: u32, down: u32, now_us: f64) -> u32 {
    with(|page| page.input(InputEvent::Key { code: narrow(code), keysym, down: down != 0 }, micros(now_us)))
}

/// The pointer is here, in pixels of the session's screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_motion(x: u32, y: u32, now_us: f64) -> u32 {
    with(|page| page.input(InputEvent::Motion { x: narrow(x), y: narrow(y) }, micros(now_us)))
}

/// A button, by X's number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_button(button: u32, down: u32, now_us: f64) -> u32 {
    let button = u8::try_from(button).unwrap_or(u8::MAX);
    with(|page| page.input(InputEvent::Button { button, down: down != 0 }, micros(now_us)))
}

/// The wheel, in 1/120 of a notch, right and down positive.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_scroll(dx: i32, dy: i32, now_us: f64) -> u32 {
    let bound = |value: i32| value.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    with(|page| page.input(InputEvent::Scroll { dx: bound(dx), dy: bound(dy) }, micros(now_us)))
}

/// A character that no key stands for; what is none is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_char(code_point: u32, now_us: f64) -> u32 {
    let character = char::from_u32(code_point);
    with(|page| character.map_or(0, |character| page.input(InputEvent::Char(character), micros(now_us))))
}

/// Which locks are on: bit 0 Caps Lock, bit 1 Num Lock.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_locks(locks: u32, now_us: f64) -> u32 {
    let event = InputEvent::Locks { caps: locks & 1 != 0, num: locks & 2 != 0 };
    with(|page| page.input(event, micros(now_us)))
}

/// How the keyboard is laid out: the buffer holds the layout's name and then the variant's.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_layout(layout_bytes: u32, variant_bytes: u32) {
    with(|page| page.set_layout(layout_bytes as usize, variant_bytes as usize));
}

/// A finger: phase 0 touches, 1 moves, anything else leaves.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_touch(id: u32, phase: u32, x: u32, y: u32, now_us: f64) -> u32 {
    let id = u8::try_from(id).unwrap_or(u8::MAX);
    let phase = match phase {
        0 => TouchPhase::Begin,
        1 => TouchPhase::Update,
        _ => TouchPhase::End,
    };
    with(|page| page.input(InputEvent::Touch { id, phase, x: narrow(x), y: narrow(y) }, micros(now_us)))
}

/// The page lost the keyboard.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_release_all(now_us: f64) -> u32 {
    with(|page| page.input(InputEvent::ReleaseAll, micros(now_us)))
}

/// Which way contents of clipboards may go, from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_policy(give: u32, take: u32) {
    with(|page| page.set_clipboard(give != 0, take != 0));
}

/// The page has something to paste: formats as bits, by the protocol's numbers.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_offer(selection: u32, formats: u32) {
    with(|page| page.offer_clip(selection, formats));
}

/// Wants what the session has copied; the request's number, or 0 where there is no such thing.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_request(selection: u32, format: u32, now_us: f64) -> u32 {
    with(|page| page.request_clip(selection, format, micros(now_us)))
}

/// The content that a program in the session wants lies in the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_provide(id: u32, bytes: u32, now_us: f64) {
    with(|page| page.provide_clip(id, Some(bytes as usize), micros(now_us)));
}

/// It cannot be had.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_refuse(id: u32, now_us: f64) {
    with(|page| page.provide_clip(id, None, micros(now_us)));
}

/// The content of the last event that brought one.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_at() -> *const u8 {
    with(|page| page.clip().as_ptr())
}

/// Its length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_bytes() -> u32 {
    with(|page| page.clip().len() as u32)
}

/// The page has its copy of it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_forget() {
    with(Page::forget_clip);
}

/// When `viewer_timeout` is to be called, in microseconds; 0 for never.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_deadline() -> f64 {
    with(|page| page.deadline() as f64)
}

/// Nothing is heard though an answer is due: the session is asked once more.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_quiet(now_us: f64) {
    with(|page| page.quiet(micros(now_us)));
}

/// It is so late: what has been waited for too long is given up.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_timeout(now_us: f64) {
    with(|page| page.timeout(micros(now_us)));
}

/// The window has this size now, in device pixels.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_resize(width: u32, height: u32) {
    with(|page| page.resize(Size { width, height }));
}

/// The page shows this part of the session's screen, in the screen's pixels, as a picture of `width` × `height`; without a part, all of it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_view(width: u32, height: u32, x: u32, y: u32, part_width: u32, part_height: u32) {
    let part = rect_of(x, y, part_width, part_height);
    with(|page| page.set_view(View { size: Size { width, height }, part }));
}

/// The page is a display of this size in pixels, on which things are to be drawn so large, in percent; 0: not known.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_display(width: u32, height: u32, scale_percent: u32) {
    with(|page| page.set_display(Size { width, height }, narrow(scale_percent)));
}

/// Whether the browser decodes H.264; said from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_h264(decodes: u32) {
    with(|page| page.set_h264(decodes != 0));
}

/// Whether updates may come by themselves beside the stream; said from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_alone(takes: u32) {
    with(|page| page.set_alone(takes != 0));
}

/// Takes the next thing for the browser's decoders: its kind as in `page::VideoTask`, its numbers where an event's are. Numbers of
/// streams and pictures are whole.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video() -> u32 {
    with(|page| page.next_video() as u32)
}

/// The last coded picture's bytes.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_at() -> *const u8 {
    with(|page| page.coded().as_ptr())
}

/// Their number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_bytes() -> u32 {
    with(|page| page.coded().len() as u32)
}

/// The stream's decoder stands ready (1), or cannot be had (0).
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_ready(stream: f64, ready: u32) {
    with(|page| page.video_ready(stream as u64, ready != 0));
}

/// True (1) while some of the picture would still be seen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_wanted(serial: f64) -> u32 {
    with(|page| u32::from(page.is_video_wanted(serial as u64)))
}

/// The picture was decoded, and is not handed over as nobody would see it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_skipped(serial: f64) {
    with(|page| page.video_skipped(serial as u64));
}

/// The picture could not be decoded.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_failed(serial: f64) {
    with(|page| page.video_failed(serial as u64));
}

/// Room for a decoded picture of this size, 4:2:0, rows without gaps; null where none may be so large. It stays where it is until
/// a larger one is wanted.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_room(width: u32, height: u32) -> *mut u8 {
    with(|page| page.video_room(Size { width, height }))
}

/// The picture lies in that room, in one of the forms of `samples::Form`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_picture(serial: f64, form: u32, width: u32, height: u32, now_us: f64) {
    with(|page| page.video_picture(serial as u64, form, Size { width, height }, micros(now_us)));
}

/// Asks for a barrier; its number. At most 8 may be unanswered.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_barrier() -> u32 {
    with(Page::barrier)
}

/// The person goes; the last bytes are in the output.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_close() {
    with(Page::close);
}

/// All damage taken until now is on the canvas.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_presented(now_us: f64) {
    with(|page| page.presented(micros(now_us)));
}

/// Collects what is to be sent; its length in bytes, 0 for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_output() -> u32 {
    with(|page| page.collect_output().len() as u32)
}

/// Collects what may be lost, to be sent beside the stream: its length in bytes, 0 for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_datagram_output() -> u32 {
    with(|page| page.collect_datagram().len() as u32)
}

/// Where either put it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_output_at() -> *const u8 {
    with(|page| page.output().as_ptr())
}

/// Takes the next event: its kind as in `page::EventKind`, 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_event() -> u32 {
    with(|page| page.next_event() as u32)
}

/// The event's numbers, as f64.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_event_at() -> *const f64 {
    with(|page| page.event().as_ptr())
}

/// The last text: of an event, or of a refusal of `viewer_bytes`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_text_at() -> *const u8 {
    with(|page| page.text().as_ptr())
}

/// Its length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_text_bytes() -> u32 {
    with(|page| page.text().len() as u32)
}

/// The last cursor's pixels, as straight red, green, blue, alpha.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_image_at() -> *const u32 {
    with(|page| page.image().as_ptr())
}

/// Their length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_image_bytes() -> u32 {
    with(|page| size_of_val(page.image()) as u32)
}

/// The screen's pixels: blue, green, red, 255, rows without gaps.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_at() -> *const u32 {
    with(|page| page.screen().as_ptr())
}

/// Width of the screen, 0 before the session has said.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_width() -> u32 {
    with(|page| page.size().width)
}

/// Height of the screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_height() -> u32 {
    with(|page| page.size().height)
}

/// True (1) while there is something to show.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damaged() -> u32 {
    with(|page| u32::from(page.is_damaged()))
}

/// Takes the damage: how many rectangles.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damage() -> u32 {
    with(|page| page.take_damage().len() as u32)
}

/// Their x, y, width and height, as i32.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damage_at() -> *const [i32; 4] {
    with(|page| page.damage().as_ptr())
}

/// Collects where the screen is not exact yet: how many rectangles.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_inexact() -> u32 {
    with(|page| page.collect_inexact().len() as u32)
}

/// Their x, y, width and height, as i32.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_inexact_at() -> *const [i32; 4] {
    with(|page| page.inexact().as_ptr())
}

/// Pixels of a rectangle as red, green, blue, 255; nothing is written for one that is not inside the screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_rgba(x: u32, y: u32, width: u32, height: u32) -> *const u32 {
    with(|page| page.rgba(rect_of(x, y, width, height)).as_ptr())
}

/// Collects the statistics as f64, in the order of `page::stats`; how many.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_stats() -> u32 {
    with(|page| page.collect_stats().len() as u32)
}

/// Where `viewer_stats` put them.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_stats_at() -> *const f64 {
    with(|page| page.stats().as_ptr())
}

/// What the panic said that has just stopped this instance.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_panic_at() -> *const u8 {
    PANIC.with_borrow(|words| words.as_ptr())
}

/// Its length in bytes, 0 when there was none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_panic_bytes() -> u32 {
    PANIC.with_borrow(|words| words.len() as u32)
}
