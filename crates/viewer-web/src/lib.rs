//! Path 11/13 and 12/13: from web/transport/connection.ts, through viewer-core, to
//! web/display/present.ts.
//! viewer-core for a browser: a C interface over WASM, called only by web/engine/decoder.ts.
//! Decides nothing and knows no browser: numbers and addresses in, numbers and addresses out.
//!
//! One instance of the module holds one viewer, that of the current connection. The page writes its
//! arguments into `viewer_buffer` and reads results at the addresses that the `*_at` functions
//! return; both are valid until the next call. The only unsafe code is the names that `no_mangle`
//! claims; no export takes an address.

mod gamma;
mod page;
mod people;
mod samples;

use std::cell::RefCell;

use page::{Accepts, Page};
use thinc_protocol::limits::SCREEN_EDGE_MAX;
use thinc_protocol::pen::{PEN_FRACTION, PEN_TILT_MAX, PenSample};
use thinc_protocol::viewer::{InputEvent, TouchPhase, View};
use thinc_region::{Rect, Size};
use thinc_viewer_core::{REPLACEMENT_FAILURES_MAX, REPLACEMENT_WAIT_MAX, Urgency};

thread_local! {
    static PAGE: RefCell<Page> = const { RefCell::new(Page::new()) };
    /// Message of the last panic; outlives it, so that the page can show it.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn with<T>(call: impl FnOnce(&mut Page) -> T) -> T {
    PAGE.with_borrow_mut(call)
}

fn micros(now_us: f64) -> u64 {
    now_us as u64 // "as" converts a negative time to 0
}

fn rect_of(x: u32, y: u32, width: u32, height: u32) -> Rect {
    let edge = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let (x1, y1) = (edge(x), edge(y));
    Rect::new(x1, y1, x1.saturating_add(edge(width)), y1.saturating_add(edge(height)))
}

fn narrow(value: u32) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

/// Address of a buffer of `bytes` bytes for the arguments of the next call.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_buffer(bytes: u32) -> *mut u8 {
    with(|page| page.buffer(bytes as usize))
}

/// Begins a connection: the buffer holds the program's name, then 32 random bytes; width and height
/// are the window's in pixels.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_open(name_bytes: u32, width: u32, height: u32) {
    std::panic::set_hook(Box::new(|info| PANIC.with_borrow_mut(|words| *words = info.to_string())));
    with(|page| page.open(name_bytes as usize, Size { width, height }));
}

/// The connection is lost: until the next one's hello, keys are buffered for it, and nothing else
/// is.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_lost() {
    with(Page::lost);
}

/// 1 if the next connection would send what is typed without one.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_can_buffer_input(now_us: f64) -> u32 {
    with(|page| u32::from(page.can_buffer_input(micros(now_us))))
}

/// The buffer holds the page's identifier, 16 bytes, sent on every connection from the next
/// `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_instance() {
    with(Page::set_instance);
}

/// Loads the cache of an earlier page from the buffer; 0, or 1 if it is unusable, with the reason
/// as the text.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_load_cache(bytes: u32) -> u32 {
    with(|page| u32::from(page.load_cache(bytes as usize).is_err()))
}

/// Collects the cache for a later page; its length in bytes, 0 if nothing has changed.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_save_cache() -> u32 {
    with(|page| page.save_cache().len() as u32)
}

/// Address of what `viewer_save_cache` collected.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_saved_cache_at() -> *const u8 {
    with(|page| page.saved_cache().as_ptr())
}

/// Restores the picture of an earlier page of this tab: its size, and the part of the session's
/// screen that it showed. It is shown until there is a connection. 1, or 0 if it is invalid. Before
/// the first `viewer_open`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_restore(
    width: u32,
    height: u32,
    x: u32,
    y: u32,
    part_width: u32,
    part_height: u32,
) -> u32 {
    with(|page| {
        u32::from(page.restore(Size { width, height }, rect_of(x, y, part_width, part_height)))
    })
}

/// Restores a tile of that picture from the buffer, as `viewer_tile` returned it; 1, or 0 if it is
/// invalid.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_restore_tile(x: u32, y: u32, bytes: u32) -> u32 {
    with(|page| u32::from(page.restore_tile(x, y, bytes as usize)))
}

/// When to call `viewer_tile`, in microseconds; 0 for never.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile_due() -> f64 {
    with(|page| page.tile_due() as f64)
}

/// Collects the next tile to save for a reloaded page: its length in bytes, 0 for none; x, y, width
/// and height are the event's numbers. `last`: also tiles that are not at rest.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile(last: u32, now_us: f64) -> u32 {
    let urgency = if last != 0 { Urgency::Final } else { Urgency::AtRest };
    with(|page| page.next_tile(urgency, micros(now_us)).len() as u32)
}

/// Address of what `viewer_tile` collected.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tile_at() -> *const u8 {
    with(|page| page.tile().as_ptr())
}

/// The page has deleted the saved tiles.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_tiles_forget() {
    with(Page::forget_tiles);
}

/// Handles the session's next bytes, from the buffer; 0, or 1 if the connection must end, with the
/// reason as the text.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_bytes(bytes: u32, now_us: f64) -> u32 {
    with(|page| u32::from(page.bytes(bytes as usize, micros(now_us)).is_err()))
}

/// The same for a datagram.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_datagram(bytes: u32, now_us: f64) -> u32 {
    with(|page| u32::from(page.datagram(bytes as usize, micros(now_us)).is_err()))
}

/// A key: evdev code and X keysym, 0 if unknown. Like the functions below, returns the input's
/// number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_key(code: u32, keysym: u32, down: u32, now_us: f64) -> u32 {
    with(|page| {
        page.input(InputEvent::Key { code: narrow(code), keysym, down: down != 0 }, micros(now_us))
    })
}

/// The pointer's position in pixels of the session's screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_motion(x: u32, y: u32, now_us: f64) -> u32 {
    with(|page| page.input(InputEvent::Motion { x: narrow(x), y: narrow(y) }, micros(now_us)))
}

/// A distance in pixels of the session's screen, from wherever its pointer is.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_motion_by(dx: i32, dy: i32, now_us: f64) -> u32 {
    let bound = |value: i32| value.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    with(|page| page.input(InputEvent::MotionBy { dx: bound(dx), dy: bound(dy) }, micros(now_us)))
}

/// A button, by X's number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_button(button: u32, down: u32, now_us: f64) -> u32 {
    let button = u8::try_from(button).unwrap_or(u8::MAX);
    with(|page| page.input(InputEvent::Button { button, down: down != 0 }, micros(now_us)))
}

/// Scrolling in 1/120 of a notch, right and down positive.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_scroll(dx: i32, dy: i32, now_us: f64) -> u32 {
    let bound = |value: i32| value.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    with(|page| page.input(InputEvent::Scroll { dx: bound(dx), dy: bound(dy) }, micros(now_us)))
}

/// A character that no key stands for; an invalid code point is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_char(code_point: u32, now_us: f64) -> u32 {
    let character = char::from_u32(code_point);
    with(|page| {
        character.map_or(0, |character| page.input(InputEvent::Char(character), micros(now_us)))
    })
}

/// State of the locks: bit 0 Caps Lock, bit 1 Num Lock.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_locks(locks: u32, now_us: f64) -> u32 {
    let event = InputEvent::Locks { caps: locks & 1 != 0, num: locks & 2 != 0 };
    with(|page| page.input(event, micros(now_us)))
}

/// The keyboard layout: the buffer holds the layout's name, then the variant's.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_layout(layout_bytes: u32, variant_bytes: u32) {
    with(|page| page.set_layout(layout_bytes as usize, variant_bytes as usize));
}

/// A touch: phase 0 begins, 1 moves, any other ends it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_touch(id: u32, phase: u32, x: u32, y: u32, now_us: f64) -> u32 {
    let id = u8::try_from(id).unwrap_or(u8::MAX);
    let phase = match phase {
        0 => TouchPhase::Begin,
        1 => TouchPhase::Update,
        _ => TouchPhase::End,
    };
    with(|page| {
        page.input(InputEvent::Touch { id, phase, x: narrow(x), y: narrow(y) }, micros(now_us))
    })
}

/// A sample of a pen, in 1/64 of a pixel of the session's screen. `state` has the bits of its
/// message: 1 tip, 2 X button 2, 4 X button 3, 8 near, 16 eraser.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_pen(
    x: u32,
    y: u32,
    pressure: u32,
    tilt_x: i32,
    tilt_y: i32,
    state: u32,
    now_us: f64,
) -> u32 {
    let edge = SCREEN_EDGE_MAX * PEN_FRACTION;
    let tilt = |degrees: i32| degrees.clamp((-PEN_TILT_MAX).into(), PEN_TILT_MAX.into()) as i8;
    let near = state & 8 != 0;
    let sample = PenSample {
        x: x.min(edge),
        y: y.min(edge),
        pressure: narrow(pressure),
        tilt_x: tilt(tilt_x),
        tilt_y: tilt(tilt_y),
        buttons: if near { state as u8 & 7 } else { 0 },
        eraser: state & 16 != 0,
        near,
    };
    with(|page| page.input(InputEvent::Pen(sample), micros(now_us)))
}

/// Whether the session takes samples of a pen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_takes_pens() -> u32 {
    with(|page| u32::from(page.takes_pens()))
}

/// The page lost the keyboard focus.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_release_all(now_us: f64) -> u32 {
    with(|page| page.input(InputEvent::ReleaseAll, micros(now_us)))
}

/// Directions in which clipboard contents may go, from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_policy(give: u32, take: u32) {
    with(|page| page.set_clipboard(give != 0, take != 0));
}

/// The page offers clipboard content: formats as bits, by the protocol's numbers.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_offer(selection: u32, formats: u32) {
    with(|page| page.offer_clip(selection, formats));
}

/// Requests what the session has copied; the request's number, or 0 if there is no such content.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_request(selection: u32, format: u32, now_us: f64) -> u32 {
    with(|page| page.request_clip(selection, format, micros(now_us)))
}

/// The buffer holds the content that an application in the session requested.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_provide(id: u32, bytes: u32, now_us: f64) {
    with(|page| page.provide_clip(id, Some(bytes as usize), micros(now_us)));
}

/// The requested content is not available.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_refuse(id: u32, now_us: f64) {
    with(|page| page.provide_clip(id, None, micros(now_us)));
}

/// Address of the content of the last `ClipReceived` event.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_at() -> *const u8 {
    with(|page| page.clip().as_ptr())
}

/// Its length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_bytes() -> u32 {
    with(|page| page.clip().len() as u32)
}

/// The page has copied it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_forget() {
    with(Page::forget_clip);
}

/// Whether the page receives files, from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_take_files(takes: u32) {
    with(|page| page.take_files(takes != 0));
}

/// Whether the page prints what the session's programs print, from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_take_prints(prints: u32) {
    with(|page| page.take_prints(prints != 0));
}

/// 1 if the session takes files.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_gives_files() -> u32 {
    with(|page| u32::from(page.gives_files()))
}

/// 1 if the session's programs print here.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_prints() -> u32 {
    with(|page| u32::from(page.prints()))
}

/// Offers files to the session: the buffer has a line for each entry, folders before what they
/// contain: kind (0 file, 1 folder), size, milliseconds since 1970 and path, with a tab between.
/// They were dropped at x and y of the session's screen, if both are below 65536. The offer's
/// number, or 0, with the reason as the text.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_offer(bytes: u32, x: u32, y: u32, now_us: f64) -> u32 {
    let place = u16::try_from(x).ok().zip(u16::try_from(y).ok());
    with(|page| page.offer_files(bytes as usize, place, micros(now_us)))
}

/// The buffer holds the bytes of an entry that a `Wanted` event named.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_supply(id: u32, entry: u32, offset: f64, bytes: u32, now_us: f64) {
    with(|page| page.supply_file(id, entry, offset as u64, bytes as usize, micros(now_us)));
}

/// Ends a transfer that the page has offered, with a reason as the protocol numbers them.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_withdraw(id: u32, why: u32, now_us: f64) {
    with(|page| page.withdraw_files(id, why, micros(now_us)));
}

/// The user is asked about an offer of the session.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_ask(id: u32, now_us: f64) {
    with(|page| page.ask_for_files(id, micros(now_us)));
}

/// Accepts an offer: 0 from the beginning; 1 from where the last connection was lost; 2 the page
/// has all of it. 0 if it cannot go on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_accept(id: u32, accepts: u32, now_us: f64) -> u32 {
    let accepts = match accepts {
        0 => Accepts::Begin,
        1 => Accepts::Continue,
        _ => Accepts::Complete,
    };
    with(|page| u32::from(page.accept_files(id, accepts, micros(now_us))))
}

/// Refuses an offer, with an answer as the protocol numbers them and the bytes that belong to it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_refuse(id: u32, answer: u32, bytes: f64, now_us: f64) {
    with(|page| page.refuse_files(id, answer, bytes as u64, micros(now_us)));
}

/// The page has stored the bytes of so many `Data` events.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_stored(id: u32, chunks: u32, bytes: u32, now_us: f64) {
    with(|page| page.stored_files(id, chunks, bytes as usize, micros(now_us)));
}

/// Everything of a transfer is stored.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_finish(id: u32, now_us: f64) {
    with(|page| page.finish_files(id, micros(now_us)));
}

/// Ends a transfer that the session has offered, with a reason as the protocol numbers them.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_stop(id: u32, why: u32, now_us: f64) {
    with(|page| page.stop_files(id, why, micros(now_us)));
}

/// Takes the next event of files: its kind is a `FileEventKind`, its numbers are the event's.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_event(now_us: f64) -> u32 {
    with(|page| page.next_file_event(micros(now_us)) as u32)
}

/// Address of the bytes of the last `Data` event.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_at() -> *const u8 {
    with(|page| page.file_bytes().as_ptr())
}

/// Their length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_file_bytes() -> u32 {
    with(|page| page.file_bytes().len() as u32)
}

/// When to call `viewer_timeout`, in microseconds; 0 for never.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_deadline() -> f64 {
    with(|page| page.deadline() as f64)
}

/// The connection is open, and the session has to answer the hello in the output; `replaces`: it
/// took the place of one that worked.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_opened(replaces: u32, now_us: f64) {
    with(|page| page.opened(replaces != 0, micros(now_us)));
}

/// Whether the session answers: 0 it does, 1 it is unresponsive, 2 other connections are tried
/// beside this one, 3 this one is closed.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_liveness() -> u32 {
    with(|page| page.liveness() as u32)
}

/// The machine slept, or the network is another: sends a probe.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_wake(now_us: f64) {
    with(|page| page.wake(micros(now_us)));
}

/// Whether idle connections are probed, as the user sees the picture.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_idle_probes(on: u32) {
    with(|page| page.set_idle_probes(on != 0));
}

/// The connection is lost, or it is unresponsive and others are tried.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_begin_attempts(now_us: f64) {
    with(|page| page.begin_attempts(micros(now_us)));
}

/// Counts another attempt to connect; the microseconds that it waits, which depend on 32 random
/// bits.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_attempt_wait(random: u32) -> f64 {
    with(|page| page.attempt_wait(random) as f64)
}

/// After how many microseconds an unanswered attempt is given up for the next; 0: it is not.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_attempt_interval(now_us: f64) -> f64 {
    with(|page| page.attempt_interval(micros(now_us)).unwrap_or(0) as f64)
}

/// Count of attempts since a session last answered.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_attempts() -> u32 {
    with(|page| page.attempts())
}

/// How many microseconds an open transport waits to take the place of another.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_replacement_wait() -> f64 {
    REPLACEMENT_WAIT_MAX as f64
}

/// How often another transport may take the place of one, and no session answer there.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_replacement_failures() -> u32 {
    REPLACEMENT_FAILURES_MAX
}

/// Watches the path of the connection from now on: another transport could replace this one.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_watch_path() {
    with(Page::watch_path);
}

/// Microseconds of the round trip because of which another transport is to be tried now; 0: none
/// is to be.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_path_change(now_us: f64) -> f64 {
    with(|page| page.path_change(micros(now_us)) as f64)
}

/// Another transport is tried (0), cannot be used (1), or cannot take the place now (2).
#[unsafe(no_mangle)]
pub extern "C" fn viewer_transport_attempt(state: u32, now_us: f64) {
    with(|page| page.transport_attempt(state, micros(now_us)));
}

/// Whether another connection may take the place of this one now.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_may_be_replaced() -> u32 {
    with(|page| page.may_be_replaced().into())
}

/// Whether a key, a button or a finger is down.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_holds_input() -> u32 {
    with(|page| page.holds_input().into())
}

/// Gives up whatever has waited too long at this time.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_timeout(now_us: f64) {
    with(|page| page.timeout(micros(now_us)));
}

/// Asks to share the session: 0 an invitation, whose password the buffer holds, with rights as bits
/// (1 control, 2 clipboard to the session, 4 to the guest), its life in seconds and its uses; 1
/// gives a guest control, 2 takes it, 3 ends the visit; 4 revokes an invitation, whose number is in
/// the guest's place. 0 if nothing was sent.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_share(
    request: u32,
    action: u32,
    guest: u32,
    rights: u32,
    life_s: u32,
    uses: u32,
    password_bytes: u32,
) -> u32 {
    let invitation = [rights, life_s, uses, password_bytes];
    with(|page| page.share(request, action, guest, invitation).into())
}

/// The window's size in device pixels.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_resize(width: u32, height: u32) {
    with(|page| page.resize(Size { width, height }));
}

/// The page shows this part of the session's screen, in the screen's pixels, as a picture of
/// `width` × `height`; an empty part is all of it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_view(
    width: u32,
    height: u32,
    x: u32,
    y: u32,
    part_width: u32,
    part_height: u32,
) {
    let part = rect_of(x, y, part_width, part_height);
    with(|page| page.set_view(View { size: Size { width, height }, part }));
}

/// The page is a display of this size in pixels; applications should draw at this scale in percent,
/// 0: unknown.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_display(width: u32, height: u32, scale_percent: u32) {
    with(|page| page.set_display(Size { width, height }, narrow(scale_percent)));
}

/// The user wants the clipboard to be shared in these directions, bits of `ClipDirections`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_clip_wanted(bits: u32) {
    with(|page| page.set_clip_policy(bits));
}

/// How good pictures that move are from now on, also of later connections: the byte of a
/// `PictureQuality`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_choose_quality(byte: u32) {
    with(|page| page.choose_quality(byte));
}

/// Requests what is shown now lossless; 0 if the session does not take the wish.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_exact_frame() -> u32 {
    with(|page| u32::from(page.request_exact_frame()))
}

/// Whether the session takes choices of quality.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_takes_quality() -> u32 {
    with(|page| u32::from(page.takes_quality()))
}

/// How stereo programs are shown from now on, also on later connections: the number of a
/// `StereoMode`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_choose_stereo(number: u32) {
    with(|page| page.choose_stereo(number));
}

/// Whether the session takes that choice.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_takes_stereo() -> u32 {
    with(|page| u32::from(page.takes_stereo()))
}

/// Whether a stereo program was shown in this connection.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_has_seen_stereo() -> u32 {
    with(|page| u32::from(page.has_seen_stereo()))
}

/// What the next connection does where the session is shown elsewhere: 0, it only reconnects;
/// 1, the user opens the session, and its policy decides; 2, it takes over; 3, it joins.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_opening(opening: u32) {
    with(|page| page.set_opening(opening));
}

/// What the browser decodes, as bits: 2, H.264, sent from the next `viewer_open` on; 4, AV1; 8,
/// H.264 of 4:4:4.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_codecs(codecs: u32) {
    with(|page| page.set_codecs(codecs));
}

/// Whether the connection has datagrams; sent from the next `viewer_open` on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_datagrams(takes: u32) {
    with(|page| page.set_datagrams(takes != 0));
}

/// Takes the next task for the browser's video decoders: its kind is a `page::VideoTask`, its
/// numbers are the event's. Numbers of streams and frames are integers.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video() -> u32 {
    with(|page| page.next_video_task() as u32)
}

/// Address of the last encoded frame.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_at() -> *const u8 {
    with(|page| page.encoded_frame().as_ptr())
}

/// Its length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_bytes() -> u32 {
    with(|page| page.encoded_frame().len() as u32)
}

/// The stream's decoder is ready (1), or not available (0).
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_ready(stream: f64, ready: u32) {
    with(|page| page.video_ready(stream as u64, ready != 0));
}

/// 1 if some of the frame would still be visible.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_wanted(serial: f64) -> u32 {
    with(|page| u32::from(page.is_video_wanted(serial as u64)))
}

/// The frame was decoded, and is not handed over because it would not be visible.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_skipped(serial: f64) {
    with(|page| page.video_skipped(serial as u64));
}

/// The frame could not be decoded.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_failed(serial: f64) {
    with(|page| page.video_failed(serial as u64));
}

/// Address of a buffer for a decoded frame of this size in a `samples::ChromaLayout`, rows without
/// gaps; null if the size is over the limit. It is valid until a larger one is requested.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_buffer(chroma: u32, width: u32, height: u32) -> *mut u8 {
    with(|page| page.video_buffer(chroma, Size { width, height }))
}

/// The decoded frame is in that buffer, in a `samples::ChromaLayout`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_video_frame(
    serial: f64,
    chroma: u32,
    width: u32,
    height: u32,
    now_us: f64,
) {
    with(|page| page.video_frame(serial as u64, chroma, Size { width, height }, micros(now_us)));
}

/// Requests a barrier; its number. At most 8 may be unanswered.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_barrier() -> u32 {
    with(Page::barrier)
}

/// The user leaves; the last bytes are in the output.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_close() {
    with(Page::close);
}

/// The browser can play sound, from the next connection on. `muted`: nobody hears it, and none is
/// sent.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_want_sound(muted: u32) {
    with(|page| page.want_sound(muted != 0));
}

/// 1 if the session has sound.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_has_sound() -> u32 {
    with(|page| u32::from(page.has_sound()))
}

/// Length of the next message for the player of sound; 0: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_sound() -> u32 {
    with(|page| page.next_sound().len() as u32)
}

/// Address of what `viewer_sound` returned.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_sound_at() -> *const u8 {
    with(|page| page.sound().as_ptr())
}

/// What the player reports: the time of what is heard, microseconds from arrival to ear, packets
/// received and lost, frames concealed, and runs of lost packets. Returns how many microseconds
/// later the player is to make sound.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_report_sound(
    heard: f64,
    delay_us: u32,
    received: u32,
    lost: u32,
    concealed: u32,
    runs: u32,
    now_us: f64,
) -> f64 {
    let numbers = [delay_us, received, lost, concealed, runs];
    with(|page| page.report_sound(micros(heard), numbers, micros(now_us)) as f64)
}

/// The browser can record a microphone, from the next connection on.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_announce_microphone() {
    with(Page::announce_microphone);
}

/// 1 if the session may want the microphone.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_may_give_microphone() -> u32 {
    with(|page| u32::from(page.may_give_microphone()))
}

/// The microphone is open, or it is not given.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_give_microphone(given: u32) {
    with(|page| page.give_microphone(given != 0));
}

/// The buffer has a coded frame of the microphone, whose first sample was heard at this time.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_microphone_frame(bytes: u32, time_us: f64, now_us: f64) {
    with(|page| page.microphone_frame(bytes as usize, micros(time_us), micros(now_us)));
}

/// All damage taken so far is on the canvas.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_presented(now_us: f64) {
    with(|page| page.presented(micros(now_us)));
}

/// Collects the bytes to send; their length, 0 if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_output() -> u32 {
    with(|page| page.collect_output().len() as u32)
}

/// Collects a datagram to send; its length, 0 if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_datagram_output() -> u32 {
    with(|page| page.collect_datagram().len() as u32)
}

/// Address of what either collected.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_output_at() -> *const u8 {
    with(|page| page.output().as_ptr())
}

/// Takes the next event: its kind is a `page::EventKind`, 0 for none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_event() -> u32 {
    with(|page| page.next_event() as u32)
}

/// The event's numbers, as f64.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_event_at() -> *const f64 {
    with(|page| page.event().as_ptr())
}

/// Address of the last text: of an event, or of an error of `viewer_bytes`.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_text_at() -> *const u8 {
    with(|page| page.text().as_ptr())
}

/// Its length.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_text_bytes() -> u32 {
    with(|page| page.text().len() as u32)
}

/// Address of the last cursor's pixels, as straight red, green, blue, alpha.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_image_at() -> *const u32 {
    with(|page| page.image().as_ptr())
}

/// Their length in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_image_bytes() -> u32 {
    with(|page| size_of_val(page.image()) as u32)
}

/// Address of the screen's pixels: blue, green, red, 255, rows without gaps.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_at() -> *const u32 {
    with(|page| page.screen().as_ptr())
}

/// Width of the screen; 0 until the session has sent it.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_width() -> u32 {
    with(|page| page.size().width)
}

/// Height of the screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_screen_height() -> u32 {
    with(|page| page.size().height)
}

/// 1 if there is something to present.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damaged() -> u32 {
    with(|page| u32::from(page.is_damaged()))
}

/// Takes the damage; the number of rectangles.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damage() -> u32 {
    with(|page| page.take_damage().len() as u32)
}

/// Their x, y, width and height, as i32.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_damage_at() -> *const [i32; 4] {
    with(|page| page.damage().as_ptr())
}

/// Collects the lossy part of the screen; the number of rectangles.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_lossy() -> u32 {
    with(|page| page.collect_lossy().len() as u32)
}

/// Their x, y, width and height, as i32.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_lossy_at() -> *const [i32; 4] {
    with(|page| page.lossy().as_ptr())
}

/// Pixels of a rectangle as red, green, blue, 255; nothing is written if it is not inside the
/// screen.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_rgba(x: u32, y: u32, width: u32, height: u32) -> *const u32 {
    with(|page| page.rgba(rect_of(x, y, width, height)).as_ptr())
}

/// Collects the statistics as f64, in the order of `page::stats`; their number.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_stats() -> u32 {
    with(|page| page.collect_stats().len() as u32)
}

/// Address of what `viewer_stats` collected.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_stats_at() -> *const f64 {
    with(|page| page.stats().as_ptr())
}

/// Address of the message of the panic that has stopped this instance.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_panic_at() -> *const u8 {
    PANIC.with_borrow(|words| words.as_ptr())
}

/// Its length in bytes, 0 if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn viewer_panic_bytes() -> u32 {
    PANIC.with_borrow(|words| words.len() as u32)
}
