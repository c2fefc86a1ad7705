//! Path 11/13 and 12/13: from lib.rs, to viewer-core and back.
//! The state of one page: the viewer of the current connection, and the buffers between it and the
//! page.
//! Knows viewer-core's values and their memory layout for the page; never who reads them.

mod codecs;
mod files;
mod microphone;
mod saved;
mod sound;
mod stereo;

use thinc_protocol::Micros;
use thinc_protocol::clip::{ClipEnd, ClipFormat, ClipFormats, Selection};
use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::limits::{INSTANCE_BYTES, LAYOUT_NAME_BYTES_MAX};
use thinc_protocol::people::{Invite, InviteRights, People, PersonPointer, ShareAction, Shared};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::session::ScreenPart;
use thinc_protocol::sound::SoundWant;
use thinc_protocol::viewer::{Display, Displays, InputEvent, KeyboardLayout, View, ViewerCaps};
use thinc_region::{Rect, Size};
use thinc_viewer_core::{
    AttemptMeans, Attempts, CACHE_BYTES_DEFAULT, Cache, ClipboardPolicy, CursorPixels, Liveness,
    PathChange, SavedCacheError, SavedTiles, StereoMode, VideoEvent, Viewer, ViewerConfig,
    ViewerError, ViewerEvent,
};

pub(crate) use self::files::Accepts;
use self::files::PageFiles;
use crate::gamma;
use crate::people::{invitation_lines, lines};
use crate::samples::{ChromaLayout, Samples};

/// 1 MiB: capacity of the buffer that is kept after a large clipboard content.
const BUFFER_BYTES_KEPT: usize = 1024 * 1024;

/// Most numbers that an event has.
const NUMBERS: usize = 8;

/// Kinds of events, as web/engine/events.ts numbers them; each comment names the event's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EventKind {
    /// There is none.
    None = 0,
    /// Width, height; width and height of the session's screen; x, y, width and height of the part
    /// that is shown.
    Geometry = 1,
    /// Width, height, hot x, hot y; `image` has the pixels.
    Cursor = 2,
    /// Whether it is shown.
    CursorShow = 3,
    /// Number.
    Barrier = 4,
    /// Input's number, microseconds.
    Echo = 5,
    /// Whether an application wants the pointer's relative motion.
    FrameEnd = 6,
    /// Code; `text` has the reason.
    Closed = 7,
    /// `text` has the session's name.
    Connected = 8,
    /// x, y.
    CursorMove = 9,
    /// Whether an application wants the pointer's relative motion.
    RelativeWanted = 10,
    /// The viewer's own number; `text` has the list, as `people::lines` writes it.
    People = 11,
    /// Request, whether it was refused; `text` has the link or the reason.
    Shared = 12,
    /// Number, x, y.
    PersonPointer = 13,
    /// `text` is for the user to read.
    Notice = 14,
    /// `text` is for the user to read, for a few seconds.
    BriefNotice = 40,
    /// `text` has the owner's invitations, as `people::invitation_lines` writes them.
    Invitations = 15,
    /// `text` has the session's new name.
    Renamed = 20,
    /// `text` says what draws the session's 3D programs.
    Graphics = 23,
    /// Bits of `ClipDirections`.
    ClipPolicy = 21,
    /// `text` has the names of the programs that play, one a line.
    Players = 22,
    /// Selection, formats as bits.
    ClipOffer = 16,
    /// Number, selection, format.
    ClipWanted = 17,
    /// Number; `clip` has the content.
    ClipReceived = 18,
    /// Number, reason and, if the content is too large, its bytes and the limit.
    ClipEnded = 19,
    /// Whether the microphone is wanted; channels and samples of a frame.
    MicrophoneWanted = 30,
    /// `image` has what colours are shown as, as `gamma::words` writes it.
    Gamma = 41,
}

/// Tasks for the browser's video decoders, as web/engine/decoder.ts numbers them; each comment
/// names the task's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum VideoTask {
    /// There is none.
    None = 0,
    /// Stream, codec, width, height.
    Begin = 1,
    /// Stream, serial, a keyframe's codec (else 0), width, height; `encoded_frame` has the bytes.
    Frame = 2,
    /// Stream.
    End = 3,
}

#[derive(Debug)]
pub(crate) struct Page {
    viewer: Option<Viewer>,
    /// The connection is lost: input is buffered for the next one.
    disconnected: bool,
    /// There was a connection.
    had_connection: bool,
    /// When the page tries again to connect.
    attempts: Attempts,
    /// Whether an idle connection is probed.
    probes_idle: bool,
    /// Identifies this page on every connection.
    instance: Option<[u8; INSTANCE_BYTES]>,
    /// The cache before the first connection.
    cache: Option<Cache>,
    /// The saved cache as bytes, and the last update that it contains.
    saved_cache: Vec<u8>,
    saved_at_update: u64,
    /// The tiles that the page's store has for a reloaded page, and the tile that was collected
    /// last.
    saved_tiles: SavedTiles,
    tile: Vec<u8>,
    buffer: Vec<u8>,
    output: Vec<u8>,
    event: [f64; NUMBERS],
    text: String,
    image: Vec<u32>,
    /// What the browser decodes: bits of `FrameCodec`.
    codecs: u32,
    /// Whether the next connection opens the session, as `viewer_opening` numbers it.
    opening: u32,
    quality: PictureQuality,
    stereo: StereoMode,
    /// Whether the connection has datagrams.
    datagrams: bool,
    /// If the browser can play sound, and the message for the player that was handed out last.
    sound_want: Option<SoundWant>,
    sound: Vec<u8>,
    /// The browser can record.
    has_microphone: bool,
    /// The encoded frame that was handed out last.
    encoded_frame: Vec<u8>,
    samples: Samples,
    clipboard: ClipboardPolicy,
    layout: Option<KeyboardLayout>,
    /// The content of the last `ClipReceived` event.
    clip: Vec<u8>,
    files: PageFiles,
    damage: Vec<[i32; 4]>,
    lossy: Vec<[i32; 4]>,
    rgba: Vec<u32>,
    stats: Vec<f64>,
}

impl Page {
    pub(crate) const fn new() -> Page {
        Page {
            viewer: None,
            disconnected: false,
            had_connection: false,
            attempts: Attempts::new(),
            probes_idle: false,
            instance: None,
            cache: None,
            saved_cache: Vec::new(),
            saved_at_update: 0,
            saved_tiles: SavedTiles::NONE,
            tile: Vec::new(),
            buffer: Vec::new(),
            output: Vec::new(),
            event: [0.0; NUMBERS],
            text: String::new(),
            image: Vec::new(),
            codecs: 0,
            opening: 0,
            quality: PictureQuality::Auto,
            stereo: StereoMode::Off,
            datagrams: false,
            sound_want: None,
            sound: Vec::new(),
            has_microphone: false,
            encoded_frame: Vec::new(),
            samples: Samples::new(),
            clipboard: ClipboardPolicy::OFF,
            layout: None,
            clip: Vec::new(),
            files: PageFiles::new(),
            damage: Vec::new(),
            lossy: Vec::new(),
            rgba: Vec::new(),
            stats: Vec::new(),
        }
    }

    /// A buffer of `bytes` bytes, which the page writes before its next call.
    pub(crate) fn buffer(&mut self, bytes: usize) -> *mut u8 {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        self.buffer.as_mut_ptr()
    }

    pub(crate) fn open(&mut self, name_bytes: usize, size: Size) {
        let name =
            String::from_utf8_lossy(self.buffer.get(..name_bytes).unwrap_or_default()).into_owned();
        let datagrams = if self.datagrams { ViewerCaps::DATAGRAMS } else { 0 };
        // Until the page says so again, it only reconnects.
        let opening = match std::mem::take(&mut self.opening) {
            1 => ViewerCaps::OPENS,
            2 => ViewerCaps::OPENS | ViewerCaps::TAKES_OVER,
            3 => ViewerCaps::OPENS | ViewerCaps::JOINS,
            _ => 0,
        };
        let caps = ViewerCaps::RESIZE
            | ViewerCaps::LOCAL_CURSOR
            | ViewerCaps::VIDEO
            | ViewerCaps::RELATIVE
            | ViewerCaps::PEOPLE
            | ViewerCaps::INVITATIONS
            | ViewerCaps::NOTICE
            | ViewerCaps::BRIEF_NOTICE
            | ViewerCaps::NAME
            | ViewerCaps::GRAPHICS
            | ViewerCaps::CLIP_POLICY
            | ViewerCaps::GAMMA
            | self.codec_caps()
            | datagrams
            | opening
            | self.sound_caps()
            | self.files.caps()
            | self.microphone_caps();
        let key = self.buffer.get(name_bytes..).and_then(|rest| rest.first_chunk().copied());
        let earlier_cache =
            self.viewer.as_mut().and_then(Viewer::take_cache).or_else(|| self.cache.take());
        self.keep_unfinished_files();
        let mut viewer = Viewer::new(&ViewerConfig { name, size, caps, clipboard: self.clipboard });
        if let (Some(earlier), Some(key)) = (&mut self.viewer, key) {
            viewer.continue_from(earlier, key);
        }
        // An earlier page may have sent input under the same identifier.
        if !std::mem::replace(&mut self.had_connection, true) {
            viewer.set_reloaded();
        }
        if let Some(number) = self.instance {
            viewer.set_instance(number);
        }
        self.tell_codecs(&mut viewer);
        viewer.offer_cache(earlier_cache.unwrap_or_else(|| Cache::new(CACHE_BYTES_DEFAULT)));
        if let Some(layout) = &self.layout {
            viewer.set_layout(layout.clone());
        }
        viewer.choose_quality(self.quality);
        viewer.choose_stereo(self.stereo);
        viewer.set_idle_probes(self.probes_idle);
        self.begin_sound(&mut viewer);
        self.viewer = Some(viewer);
        self.saved_at_update = 0;
    }

    /// Takes the page's identifier from the buffer; sent on every connection from the next one on.
    pub(crate) fn set_instance(&mut self) {
        self.instance = self.buffer.first_chunk().copied();
    }

    /// Loads the cache of an earlier page from the buffer; offered with the first connection.
    pub(crate) fn load_cache(&mut self, bytes: usize) -> Result<(), SavedCacheError> {
        let loaded = Cache::load(self.buffer.get(..bytes).unwrap_or_default(), CACHE_BYTES_DEFAULT);
        // No other call needs a buffer of this size.
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

    /// The cache as bytes for a later page; empty if it has not changed.
    pub(crate) fn save_cache(&mut self) -> &[u8] {
        self.saved_cache = Vec::new();
        let cache = self.viewer.as_ref().and_then(Viewer::cache);
        if let Some(cache) = cache.filter(|cache| cache.update() != self.saved_at_update) {
            cache.save(&mut self.saved_cache);
            self.saved_at_update = cache.update();
        }
        &self.saved_cache
    }

    pub(crate) fn saved_cache(&self) -> &[u8] {
        &self.saved_cache
    }

    pub(crate) fn bytes(&mut self, bytes: usize, now: Micros) -> Result<(), ViewerError> {
        self.take(bytes, now, Viewer::handle_bytes)
    }

    pub(crate) fn datagram(&mut self, bytes: usize, now: Micros) -> Result<(), ViewerError> {
        self.take(bytes, now, Viewer::handle_datagram)
    }

    fn take(
        &mut self,
        bytes: usize,
        now: Micros,
        handle: fn(&mut Viewer, &[u8], Micros) -> Result<(), ViewerError>,
    ) -> Result<(), ViewerError> {
        let Some(viewer) = &mut self.viewer else { return Ok(()) };
        self.attempts.handle_received();
        let result = handle(viewer, self.buffer.get(..bytes).unwrap_or_default(), now);
        if let Err(error) = &result {
            self.text = error.to_string();
        }
        result
    }

    pub(crate) fn input(&mut self, event: InputEvent, now: Micros) -> u32 {
        let Some(viewer) = &mut self.viewer else { return 0 };
        if self.disconnected {
            viewer.buffer_input(event, now).unwrap_or(0)
        } else {
            viewer.handle_input(event, now)
        }
    }

    /// The connection is lost; until the next one's hello input is buffered.
    pub(crate) const fn lost(&mut self) {
        self.disconnected = true;
    }

    /// Whether the next connection would send what is typed.
    pub(crate) fn can_buffer_input(&self, now: Micros) -> bool {
        self.viewer.as_ref().is_some_and(|viewer| viewer.can_buffer_input(now))
    }

    /// Sets the keyboard layout for this and later connections; ignores invalid names, which the
    /// page does not send.
    pub(crate) fn set_layout(&mut self, layout_bytes: usize, variant_bytes: usize) {
        let name = |range: std::ops::Range<usize>| {
            let bytes =
                self.buffer.get(range).filter(|bytes| bytes.len() <= LAYOUT_NAME_BYTES_MAX)?;
            let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
            bytes.iter().all(known).then(|| String::from_utf8_lossy(bytes).into_owned())
        };
        let end = layout_bytes.saturating_add(variant_bytes);
        let (Some(layout), Some(variant)) = (name(0..layout_bytes), name(layout_bytes..end)) else {
            return;
        };
        let layout = KeyboardLayout { layout, variant, ..KeyboardLayout::default() };
        if let Some(viewer) = &mut self.viewer {
            viewer.set_layout(layout.clone());
        }
        self.layout = Some(layout);
    }

    /// Directions in which contents may go, from the next connection on.
    pub(crate) fn set_clipboard(&mut self, give: bool, take: bool) {
        // Browsers let a page paste texts and images.
        let (give_files, take_files) = (false, false);
        self.clipboard =
            ClipboardPolicy { give, take, give_files, take_files, ..ClipboardPolicy::default() };
    }

    pub(crate) fn offer_clip(&mut self, selection: u32, formats: u32) {
        let formats =
            ClipFormat::ALL.into_iter().filter(|&format| formats & 1 << format as u32 != 0);
        if let (Some(viewer), Some(selection)) = (&mut self.viewer, selection_of(selection)) {
            viewer.offer_clipboard(selection, formats.collect::<ClipFormats>());
        }
    }

    /// The request's number; 0 if the session has no such content.
    pub(crate) fn request_clip(&mut self, selection: u32, format: u32, now: Micros) -> u32 {
        let format = ClipFormat::ALL.get(format as usize).copied();
        let (Some(viewer), Some(selection), Some(format)) =
            (&mut self.viewer, selection_of(selection), format)
        else {
            return 0;
        };
        viewer.request_clipboard(selection, format, now).unwrap_or(0)
    }

    /// Provides the content from the buffer; none: it is not available.
    pub(crate) fn provide_clip(&mut self, id: u32, bytes: Option<usize>, now: Micros) {
        let content = bytes.map(|bytes| self.buffer.get(..bytes).unwrap_or_default().to_vec());
        if let Some(viewer) = &mut self.viewer {
            viewer.provide_clipboard(id, content.ok_or(ClipEnd::Failed), now);
        }
        self.shrink_buffer();
    }

    /// A large content leaves no larger buffer behind.
    fn shrink_buffer(&mut self) {
        self.buffer.truncate(BUFFER_BYTES_KEPT);
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
    }

    /// The content of the last `ClipReceived` event.
    pub(crate) fn clip(&self) -> &[u8] {
        &self.clip
    }

    /// The page has copied it.
    pub(crate) fn forget_clip(&mut self) {
        self.clip = Vec::new();
    }

    /// When `timeout` is to be called, 0 for never.
    pub(crate) fn deadline(&self) -> Micros {
        self.viewer.as_ref().and_then(Viewer::poll_deadline).unwrap_or(0)
    }

    pub(crate) fn timeout(&mut self, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_timeout(now);
        }
    }

    /// The connection is open, and the hello is in the output.
    pub(crate) fn opened(&mut self, replaces: bool, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_opened(replaces, now);
        }
    }

    /// Whether the session answers, and what the page does if it does not.
    pub(crate) fn liveness(&self) -> Liveness {
        self.viewer.as_ref().map(Viewer::liveness).unwrap_or_default()
    }

    /// The machine slept, or the network is another.
    pub(crate) fn wake(&mut self, now: Micros) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_wake(now);
        }
    }

    /// Whether idle connections are probed, this one and later ones.
    pub(crate) fn set_idle_probes(&mut self, on: bool) {
        self.probes_idle = on;
        if let Some(viewer) = &mut self.viewer {
            viewer.set_idle_probes(on);
        }
    }

    /// The connection is lost, or unresponsive and others are tried.
    pub(crate) fn begin_attempts(&mut self, now: Micros) {
        self.attempts.handle_loss(now);
    }

    /// Counts another attempt; its wait.
    pub(crate) fn attempt_wait(&mut self, random: u32) -> Micros {
        self.attempts.next_wait(AttemptMeans::Browser, random)
    }

    /// After how long an unanswered attempt is given up for the next.
    pub(crate) fn attempt_interval(&self, now: Micros) -> Option<Micros> {
        let round_trip = self.viewer.as_ref().and_then(|viewer| viewer.stats().rtt_min_us);
        self.attempts.browser_interval(round_trip, now)
    }

    /// Count of attempts since a session last answered.
    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts.count()
    }

    pub(crate) fn watch_path(&mut self) {
        if let Some(viewer) = &mut self.viewer {
            viewer.watch_path();
        }
    }

    /// The round trip because of which another transport is to be tried; 0: none is to be. A page
    /// cannot count losses.
    pub(crate) fn path_change(&self, now: Micros) -> Micros {
        match self.viewer.as_ref().and_then(|viewer| viewer.path_change(now)) {
            Some(PathChange::Long(micros)) => micros,
            Some(PathChange::Lossy) | None => 0,
        }
    }

    /// What became of another transport: it is tried, failed, or is postponed.
    pub(crate) fn transport_attempt(&mut self, state: u32, now: Micros) {
        let Some(viewer) = &mut self.viewer else { return };
        match state {
            0 => viewer.handle_transport_attempt(),
            1 => viewer.handle_transport_failure(now),
            _ => viewer.handle_transport_postponed(),
        }
    }

    /// Whether another connection may take the place of this one.
    pub(crate) fn may_be_replaced(&self) -> bool {
        self.viewer.as_ref().is_none_or(Viewer::may_be_replaced)
    }

    /// Whether a key, a button or a finger is down.
    pub(crate) fn holds_input(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::holds_input)
    }

    pub(crate) fn resize(&mut self, size: Size) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_resize(size);
        }
    }

    /// The part of the screen that the page shows, and its size.
    pub(crate) fn set_view(&mut self, view: View) {
        if let Some(viewer) = &mut self.viewer {
            viewer.set_view(view);
        }
    }

    /// Size and scale of the page, for a session that follows it.
    pub(crate) fn set_display(&mut self, size: Size, scale_percent: u16) {
        if let Some(viewer) = &mut self.viewer {
            let display = Display { rect: size.rect(), millimetres: Size::default() };
            viewer.set_displays(Displays { scale_percent, displays: vec![display] });
        }
    }

    /// Bits of `ClipDirections`.
    pub(crate) fn set_clip_policy(&mut self, bits: u32) {
        let wanted = u8::try_from(bits).ok().and_then(ClipDirections::of_bits);
        if let (Some(viewer), Some(wanted)) = (&mut self.viewer, wanted) {
            viewer.set_clip_policy(wanted);
        }
    }

    /// The byte of a `PictureQuality`, for this connection and later ones.
    pub(crate) fn choose_quality(&mut self, byte: u32) {
        let Some(quality) = u8::try_from(byte).ok().and_then(PictureQuality::of_byte) else {
            return;
        };
        self.quality = quality;
        if let Some(viewer) = &mut self.viewer {
            viewer.choose_quality(quality);
        }
    }

    /// Requests what is shown now lossless; false if the session does not take the wish.
    pub(crate) fn request_exact_frame(&mut self) -> bool {
        self.viewer.as_mut().is_some_and(Viewer::request_exact_frame)
    }

    /// Whether the session takes samples of a pen.
    pub(crate) fn takes_pens(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::takes_pen)
    }

    /// Whether the session takes choices of quality.
    pub(crate) fn takes_quality(&self) -> bool {
        self.viewer.as_ref().is_some_and(Viewer::takes_quality)
    }

    pub(crate) const fn set_opening(&mut self, opening: u32) {
        self.opening = opening;
    }

    /// Whether the next connection has datagrams; sent in its hello.
    pub(crate) const fn set_datagrams(&mut self, takes: bool) {
        self.datagrams = takes;
    }

    /// Splits the next task for the browser's decoders into numbers and bytes.
    pub(crate) fn next_video_task(&mut self) -> VideoTask {
        let Some(viewer) = &mut self.viewer else { return VideoTask::None };
        let Some(event) = viewer.poll_video() else { return VideoTask::None };
        let (task, numbers) = match event {
            VideoEvent::Started { stream, codec, size } => (
                VideoTask::Begin,
                [stream as f64, f64::from(codec as u8), size.width.into(), size.height.into(), 0.0],
            ),
            VideoEvent::Frame { stream, serial, keyframe, codec, size, data } => {
                viewer.reuse_video_buffer(std::mem::replace(&mut self.encoded_frame, data));
                let key = if keyframe { f64::from(codec as u8) } else { 0.0 };
                (
                    VideoTask::Frame,
                    [stream as f64, serial as f64, key, size.width.into(), size.height.into()],
                )
            }
            VideoEvent::Ended { stream } => (VideoTask::End, [stream as f64, 0.0, 0.0, 0.0, 0.0]),
        };
        self.event[..numbers.len()].copy_from_slice(&numbers);
        task
    }

    /// The encoded frame of the last `VideoTask::Frame`.
    pub(crate) fn encoded_frame(&self) -> &[u8] {
        &self.encoded_frame
    }

    /// The stream's decoder is ready, or not available.
    pub(crate) fn video_ready(&mut self, stream: u64, ready: bool) {
        match &mut self.viewer {
            Some(viewer) if ready => viewer.handle_video_ready(stream),
            Some(viewer) => viewer.handle_video_refused(stream),
            None => {}
        }
    }

    /// Whether some of the frame would still be visible.
    pub(crate) fn is_video_wanted(&self, serial: u64) -> bool {
        self.viewer.as_ref().is_some_and(|viewer| viewer.is_video_frame_visible(serial))
    }

    /// The frame was decoded and would not be visible.
    pub(crate) fn video_skipped(&mut self, serial: u64) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_video_frame_skipped(serial);
        }
    }

    /// The frame could not be decoded.
    pub(crate) fn video_failed(&mut self, serial: u64) {
        if let Some(viewer) = &mut self.viewer {
            viewer.handle_video_frame_failed(serial);
        }
    }

    /// A buffer for a decoded frame of this size; null if the size is over the limit.
    pub(crate) fn video_buffer(&mut self, chroma: u32, size: Size) -> *mut u8 {
        let chroma = ChromaLayout::from_number(chroma);
        chroma.map_or(std::ptr::null_mut(), |chroma| self.samples.buffer(chroma, size))
    }

    /// The decoded frame is in that buffer.
    pub(crate) fn video_frame(&mut self, serial: u64, chroma: u32, size: Size, now: Micros) {
        let Some(viewer) = &mut self.viewer else { return };
        match ChromaLayout::from_number(chroma).and_then(|chroma| self.samples.frame(chroma, size))
        {
            Some(planes) => viewer.handle_video_frame(serial, &planes, now),
            None => viewer.handle_video_frame_failed(serial),
        }
    }

    /// Asks to share the session: false if there is no connection, or too much is unanswered. For
    /// an invitation the buffer holds the password.
    pub(crate) fn share(
        &mut self,
        request: u32,
        action: u32,
        guest: u32,
        [rights, life_s, uses, password_bytes]: [u32; 4],
    ) -> bool {
        let password = self.buffer.get(..password_bytes as usize).unwrap_or_default();
        let action = match action {
            0 => ShareAction::Invite(Invite {
                rights: InviteRights {
                    control: rights & 1 != 0,
                    clipboard_to_session: rights & 2 != 0,
                    clipboard_to_guest: rights & 4 != 0,
                    without_sound: rights & 64 != 0,
                },
                native: false,
                life_s,
                uses,
                name: String::new(),
                password: String::from_utf8_lossy(password).into_owned(),
            }),
            1 => ShareAction::GiveControl(guest),
            2 => ShareAction::TakeControl(guest),
            3 => ShareAction::EndVisit(guest),
            _ => ShareAction::Revoke(guest),
        };
        self.viewer.as_mut().is_some_and(|viewer| viewer.share(request, action))
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
        self.track_damage(now);
    }

    pub(crate) fn collect_output(&mut self) -> &[u8] {
        self.output.clear();
        if let Some(viewer) = &mut self.viewer {
            viewer.poll_transmit(&mut self.output);
        }
        &self.output
    }

    /// A datagram to send.
    pub(crate) fn collect_datagram(&mut self) -> &[u8] {
        self.output.clear();
        if let Some(viewer) = &mut self.viewer {
            viewer.poll_datagram(&mut self.output);
        }
        &self.output
    }

    pub(crate) fn output(&self) -> &[u8] {
        &self.output
    }

    /// Splits the next event into numbers, text and image.
    pub(crate) fn next_event(&mut self) -> EventKind {
        let Some(event) = self.viewer.as_mut().and_then(Viewer::poll_event) else {
            return EventKind::None;
        };
        let (kind, numbers) = match event {
            ViewerEvent::Connected { name } => {
                self.text = name;
                self.disconnected = false;
                self.attempts.handle_success();
                (EventKind::Connected, [0.0; 4])
            }
            ViewerEvent::Geometry { size, shown } => {
                let ScreenPart { screen, part } =
                    shown.unwrap_or(ScreenPart { screen: size, part: size.rect() });
                self.event[4..].copy_from_slice(&numbers_of(&part).map(f64::from));
                let sizes = [size.width, size.height, screen.width, screen.height];
                (EventKind::Geometry, sizes.map(f64::from))
            }
            ViewerEvent::Cursor(CursorPixels { size, hot_x, hot_y, pixels }) => {
                self.image.clear();
                self.image.extend(pixels.iter().map(|&pixel| straight_rgba(pixel)));
                (
                    EventKind::Cursor,
                    [size.width.into(), size.height.into(), hot_x.into(), hot_y.into()],
                )
            }
            // A page has one display and reports none; at most one such event is pending.
            ViewerEvent::Displays(_) => return self.next_event(),
            ViewerEvent::CursorMove { x, y } => {
                (EventKind::CursorMove, [x.into(), y.into(), 0.0, 0.0])
            }
            ViewerEvent::CursorShow(shown) => {
                (EventKind::CursorShow, [f64::from(u8::from(shown)), 0.0, 0.0, 0.0])
            }
            ViewerEvent::RelativeWanted(wanted) => {
                (EventKind::RelativeWanted, [f64::from(u8::from(wanted)), 0.0, 0.0, 0.0])
            }
            ViewerEvent::Gamma(areas) => {
                self.image = gamma::words(&areas);
                (EventKind::Gamma, [0.0; 4])
            }
            ViewerEvent::People(People { own, people }) => {
                self.text = lines(&people);
                (EventKind::People, [own.into(), 0.0, 0.0, 0.0])
            }
            ViewerEvent::Shared(Shared { request, result }) => {
                let refused = result.is_err();
                self.text = result.unwrap_or_else(|reason| reason);
                (EventKind::Shared, [request.into(), f64::from(u8::from(refused)), 0.0, 0.0])
            }
            ViewerEvent::PersonPointer(PersonPointer { number, x, y }) => {
                (EventKind::PersonPointer, [number.into(), x.into(), y.into(), 0.0])
            }
            ViewerEvent::Invitations(invitations) => {
                self.text = invitation_lines(&invitations);
                (EventKind::Invitations, [0.0; 4])
            }
            ViewerEvent::Notice(text) => {
                self.text = text;
                (EventKind::Notice, [0.0; 4])
            }
            ViewerEvent::BriefNotice(text) => {
                self.text = text;
                (EventKind::BriefNotice, [0.0; 4])
            }
            ViewerEvent::Renamed(name) => {
                self.text = name;
                (EventKind::Renamed, [0.0; 4])
            }
            ViewerEvent::Graphics(line) => {
                self.text = line;
                (EventKind::Graphics, [0.0; 4])
            }
            ViewerEvent::ClipPolicy(directions) => {
                (EventKind::ClipPolicy, [directions.bits().into(), 0.0, 0.0, 0.0])
            }
            ViewerEvent::Players(players) => {
                self.text = players.join("\n");
                (EventKind::Players, [0.0; 4])
            }
            ViewerEvent::MicrophoneWanted(want) => {
                let numbers =
                    want.map_or([0.0; 4], |w| [1.0, w.channels.into(), w.frame.into(), 0.0]);
                (EventKind::MicrophoneWanted, numbers)
            }
            ViewerEvent::Barrier(id) => (EventKind::Barrier, [id.into(), 0.0, 0.0, 0.0]),
            ViewerEvent::Echo { seq, latency_us } => {
                (EventKind::Echo, [seq.into(), latency_us as f64, 0.0, 0.0])
            }
            ViewerEvent::FrameEnd => {
                let wanted = self.viewer.as_ref().is_some_and(Viewer::relative_wanted);
                (EventKind::FrameEnd, [f64::from(u8::from(wanted)), 0.0, 0.0, 0.0])
            }
            ViewerEvent::Closed { code, reason } => {
                self.text = reason;
                (EventKind::Closed, [f64::from(code as u8), 0.0, 0.0, 0.0])
            }
            ViewerEvent::ClipOffer { selection, formats } => {
                let bits = formats.iter().fold(0, |bits, format| bits | 1 << format as u8);
                (EventKind::ClipOffer, [f64::from(selection as u8), f64::from(bits), 0.0, 0.0])
            }
            ViewerEvent::ClipWanted { id, selection, format } => (
                EventKind::ClipWanted,
                [id.into(), f64::from(selection as u8), f64::from(format as u8), 0.0],
            ),
            ViewerEvent::ClipReceived { id, content } => {
                self.clip = content;
                (EventKind::ClipReceived, [id.into(), 0.0, 0.0, 0.0])
            }
            ViewerEvent::ClipEnded { id, why } => {
                let [why, bytes, limit] = match why {
                    ClipEnd::Cancelled => [0, 0, 0],
                    ClipEnd::Unavailable => [1, 0, 0],
                    ClipEnd::TooLarge { bytes, limit } => [2, bytes, limit],
                    ClipEnd::Failed => [3, 0, 0],
                };
                (EventKind::ClipEnded, [id.into(), why as f64, bytes as f64, limit as f64])
            }
        };
        self.event[..numbers.len()].copy_from_slice(&numbers);
        kind
    }

    pub(crate) fn event(&self) -> &[f64; NUMBERS] {
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

    /// As it is presented, of the last damage: of stereo programs, both eyes' pictures in one.
    pub(crate) fn screen(&self) -> &[u32] {
        self.viewer.as_ref().map_or(&[], Viewer::picture)
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

    /// The lossy part of the screen.
    pub(crate) fn collect_lossy(&mut self) -> &[[i32; 4]] {
        self.lossy.clear();
        if let Some(viewer) = &self.viewer {
            self.lossy.extend(viewer.lossy().region().rects().iter().map(numbers_of));
        }
        &self.lossy
    }

    pub(crate) fn lossy(&self) -> &[[i32; 4]] {
        &self.lossy
    }

    /// Pixels of a part of the screen in the order of a canvas; none if the part is not inside.
    pub(crate) fn rgba(&mut self, rect: Rect) -> &[u32] {
        self.rgba.clear();
        if let Some(viewer) = &self.viewer
            && viewer.framebuffer().size().rect().contains(&rect)
        {
            for y in rect.y1..rect.y2 {
                let row = y as usize * viewer.framebuffer().size().width as usize;
                let row = &viewer.picture()[row + rect.x1 as usize..row + rect.x2 as usize];
                self.rgba.extend(row.iter().map(|&pixel| swap_red_and_blue(pixel)));
            }
        }
        &self.rgba
    }

    /// The statistics: updates, those that arrived as datagrams, datagram updates that were stale;
    /// frames, presents, bytes in and out, packed bytes, unpacked bytes, lossy pixels, round trip
    /// and its minimum in microseconds (0: unknown); video frames that were encoded, shown, decoded
    /// too late, not decoded, keyframe requests, refused streams, and microseconds from a frame's
    /// arrival to its painting; count, bytes and pixels of each kind of command; then the last
    /// times from input to present in microseconds.
    pub(crate) fn collect_stats(&mut self) -> &[f64] {
        self.stats.clear();
        if let Some(viewer) = &self.viewer {
            let stats = viewer.stats();
            let rtts = [stats.rtt_us, stats.rtt_min_us].map(Option::unwrap_or_default);
            let counts = [stats.updates, stats.datagram_updates, stats.updates_late];
            let shown = [stats.frames, stats.presents, stats.bytes_in, stats.bytes_out];
            let packed = [stats.packed_bytes, stats.unpacked_bytes, viewer.lossy().pixels()];
            let commands =
                stats.commands.iter().flat_map(|kind| [kind.count, kind.bytes, kind.pixels]);
            let echoes = stats.echoes.iter().filter_map(|echo| echo.presented_us);
            let video = &stats.video;
            let pictures = [
                video.coded,
                video.shown,
                video.late,
                video.dropped,
                video.keyframe_requests,
                video.refused,
            ];
            let delay = video.delay_us.unwrap_or_default();
            let heads = counts
                .into_iter()
                .chain(shown)
                .chain(packed)
                .chain(rtts)
                .chain(pictures)
                .chain([delay]);
            self.stats.extend(heads.chain(commands).chain(echoes).map(|value| value as f64));
        }
        &self.stats
    }

    pub(crate) fn stats(&self) -> &[f64] {
        &self.stats
    }
}

/// As the protocol numbers them.
fn selection_of(number: u32) -> Option<Selection> {
    Selection::ALL.get(number as usize).copied()
}

/// x, y, width and height.
fn numbers_of(rect: &Rect) -> [i32; 4] {
    [rect.x1, rect.y1, rect.width(), rect.height()]
}

/// 0xAARRGGBB → 0xAABBGGRR, which little-endian memory holds as red, green, blue, alpha.
fn swap_red_and_blue(pixel: u32) -> u32 {
    (pixel & 0xff00_ff00) | (pixel >> 16 & 0xff) | (pixel & 0xff) << 16
}

/// As [`swap_red_and_blue`], with the alpha divided out of the colours, as a canvas expects.
fn straight_rgba(premultiplied: u32) -> u32 {
    let alpha = premultiplied >> 24;
    if alpha == 0 {
        return 0;
    }
    let straight = |shift: u32| {
        ((premultiplied >> shift & 0xff) * 255 + alpha / 2).div_euclid(alpha).min(255) << shift
    };
    swap_red_and_blue(alpha << 24 | straight(16) | straight(8) | straight(0))
}

#[cfg(test)]
mod tests;
