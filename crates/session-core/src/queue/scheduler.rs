//! Path 6/13: from command_queue.rs, to ledger.rs.
//! Which pending pixels are committed next, and how many: real-time lane, then shortest remaining
//! first (THINC §3.3). Knows areas, kinds, ages and room; never pixels, bytes of commands or
//! sockets.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region};

use crate::queue::command_queue::{CommandQueue, Kinds, Lane, Pending};
use crate::video::FrameDecision;

/// The order in which pending pixels are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Real-time lane, then the shortest remaining first.
    #[default]
    ShortestFirst,
    /// The oldest first, whatever its size: for comparison only.
    Fifo,
}

/// Items of at most this many bytes share an update and are encoded at once; a larger one is an
/// update of its own, so that a small one never waits for its encoding. 16 KiB take a millisecond
/// of one core to encode, and a millisecond to send at 130 Mbit/s.
pub(crate) const SMALL_BYTES: u64 = 16 * 1024;
/// Largest input response: a menu of 200 × 300 pixels of text.
pub(crate) const REAL_TIME_BYTES_MAX: u64 = 8 * 1024;
/// After so long an item goes before shorter ones: an older page would feel slow.
pub(crate) const ITEM_AGE_MAX: Micros = 250_000;
/// Most pixels of one update: 1920 × 1200, so that scrolling is searched for in all of a usual
/// screen. Reading and comparing them takes this thread some milliseconds; their plain bytes are 7
/// MiB, half of the longest message.
pub(crate) const JOB_AREA_MAX: u64 = 1920 * 1200;
/// Fewest pixels of a piece: 32 × 32.
const PIECE_AREA_MIN: u64 = 1024;
/// Pixels in doubt are compared so long after the last were added, if X sleeps and nothing else
/// waits: scrolled content is compared when it stops.
const DOUBT_REST: Micros = 30_000;
/// Pixels in doubt for so long are compared if nothing else waits, and after twice as long in any
/// case.
const DOUBT_AGE_MAX: Micros = 1_000_000;
/// Most pixels compared by one job: a read may delay a COPY, and takes this thread half a
/// millisecond.
const DOUBT_AREA_MAX: u64 = 1 << 18;
/// Upper bounds of the classes of remaining size, in bytes; the last class has none.
const CLASS_BYTES: [u64; 6] = [256, 1024, 4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024];
/// Fewest bytes of commands that measure how well such commands pack.
pub(crate) const PACKED_BYTES_MIN: u64 = 256;
/// Least share of its bytes that packing is assumed to leave.
pub(crate) const PACKED_MIN: f32 = 0.01;
/// Bytes of an item beside its pixels.
const ITEM_BYTES: u64 = 16;
/// Least weight of a new measurement of bytes per pixel: eight updates to forget other content. The
/// first has all the weight, the second half, and so on.
const LEARN_MIN: f32 = 0.125;

/// Recent bytes per pixel of each kind. The initial values are rather high for kinds that may be
/// anything: an update that is too large for the path cannot be withdrawn once it is being sent,
/// one that is too small costs a header.
#[derive(Clone, Debug)]
pub(crate) struct SizeEstimate {
    bytes_per_pixel: [f32; Kinds::COUNT],
    measured: [f32; Kinds::COUNT],
    /// Share of the bytes of commands that packing leaves.
    packed: [f32; Kinds::COUNT],
}

impl Default for SizeEstimate {
    fn default() -> SizeEstimate {
        // In the order of `Kinds`: solid, pattern, glyphs, composite, other, stale, image, video.
        let bytes_per_pixel = [0.001, 0.01, 0.1, 0.3, 0.3, 1.0, 1.5, 1.5];
        SizeEstimate { bytes_per_pixel, measured: [0.0; Kinds::COUNT], packed: [1.0; Kinds::COUNT] }
    }
}

impl SizeEstimate {
    /// Estimated bytes of so many pixels of the most expensive kind in the set.
    pub(crate) fn bytes(&self, kinds: Kinds, area: u64) -> u64 {
        (area as f32 * self.bytes_per_pixel[kinds.most_expensive()]) as u64 + ITEM_BYTES
    }

    /// Estimated pixels of the most expensive kind in the set that take so many bytes.
    pub(crate) fn piece_area(&self, kinds: Kinds, bytes: u64) -> u64 {
        ((bytes as f32 / self.bytes_per_pixel[kinds.most_expensive()]) as u64)
            .clamp(PIECE_AREA_MIN, JOB_AREA_MAX)
    }

    /// Share of its commands' bytes that an update of this kind takes on the wire.
    pub(crate) fn packed(&self, kind: usize) -> f32 {
        self.packed[kind]
    }

    /// So many bytes of commands took so many on the wire.
    pub(crate) fn learn_packed(&mut self, kind: usize, commands: u64, wire: u64) {
        // Short updates tell nothing about packing longer ones.
        if commands >= PACKED_BYTES_MIN {
            let sample = (wire as f32 / commands as f32).clamp(PACKED_MIN, 1.0);
            self.packed[kind] += (sample - self.packed[kind]) * LEARN_MIN;
        }
    }

    /// So many pixels of this kind took so many bytes.
    pub(crate) fn learn(&mut self, kind: usize, area: u64, bytes: u64) {
        if area < 64 {
            // The command's own bytes outweigh the pixels'.
            return;
        }
        // Equal pixels took nothing; with a floor, the estimate stays possible.
        let sample = (bytes as f32 / area as f32).clamp(0.000_5, 4.0);
        self.measured[kind] += 1.0;
        let known = &mut self.bytes_per_pixel[kind];
        *known += (sample - *known) * (1.0 / self.measured[kind]).max(LEARN_MIN);
    }
}

fn class(bytes: u64) -> usize {
    CLASS_BYTES.iter().position(|&bound| bytes <= bound).unwrap_or(CLASS_BYTES.len())
}

/// The order of sending: the least goes first. Committed updates are ranked by their unsent rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    lane: u8,
    class: u8,
    since: Micros,
}

impl Rank {
    /// The rank of something with so many remaining bytes, waiting since then.
    pub(crate) fn new(lane: Lane, bytes: u64, since: Micros, now: Micros) -> Rank {
        let old = now.saturating_sub(since) > ITEM_AGE_MAX;
        let (lane, class) = match (lane, old) {
            (Lane::RealTime, _) => (0, 0),
            (Lane::Normal, true) => (1, 0),
            (Lane::Normal, false) => (2, class(bytes) as u8),
        };
        Rank { lane, class, since }
    }
}

/// The room for the next update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes within the budget, with committed and unsent ones included.
    pub(crate) bytes: u64,
    /// Bytes for the real-time lane, even if the budget is spent.
    pub(crate) real_time_bytes: u64,
    /// Most pixels of one update.
    pub(crate) area_max: u64,
    /// Bytes that are sent long before they are late: an item of no more stays whole, even if parts
    /// of it were withdrawn.
    pub(crate) whole_bytes: u64,
    /// Coded frames may be committed; `frame_decision` considers the queueing delay.
    pub(crate) frames: bool,
}

/// The content of the next update.
#[derive(Debug)]
pub(crate) struct Picked {
    /// Its pixels.
    pub(crate) region: Region,
    /// Real-time if all of it is.
    pub(crate) lane: Lane,
    /// Estimate of its bytes.
    pub(crate) bytes: u64,
    /// Since when the oldest of it has waited.
    pub(crate) since: Micros,
    /// The kinds in it.
    pub(crate) kinds: Kinds,
    /// All of it is a frame of this video stream.
    pub(crate) stream: Option<u16>,
}

impl Picked {
    /// No pixels.
    pub(crate) fn nothing(since: Micros) -> Picked {
        Picked {
            region: Region::new(),
            lane: Lane::Normal,
            bytes: 0,
            since,
            kinds: Kinds::default(),
            stream: None,
        }
    }
}

/// When pixels in doubt are to be compared without another event. None: there are none.
pub(crate) fn doubt_due(queue: &CommandQueue, idle: bool) -> Option<Micros> {
    let (since, newest) = queue.doubt_ages();
    if queue.in_doubt().is_empty() {
        None
    } else if !queue.is_empty() {
        Some(since + 2 * DOUBT_AGE_MAX)
    } else if idle {
        Some((newest + DOUBT_REST).min(since + DOUBT_AGE_MAX))
    } else {
        Some(since + DOUBT_AGE_MAX)
    }
}

/// Chooses the pixels in doubt that are compared next.
pub(crate) fn pick_doubt(queue: &mut CommandQueue, area_max: u64) -> Option<Region> {
    let doubted = queue.doubted();
    (!doubted.is_empty()).then(|| top(doubted, area_max.min(DOUBT_AREA_MAX), area_max))
}

/// Chooses the next update's pixels: the item of the first rank, as much of it as one update may
/// contain, and the next ones too if it is small. None: nothing is pending for which there is room,
/// after the committed bytes that go `before` it. A frame of a video is committed by itself and
/// whole, if `frame_decision` allows it.
pub(crate) fn pick(
    queue: &CommandQueue,
    estimate: &SizeEstimate,
    room: Room,
    before: impl Fn(Rank) -> u64,
    frame_decision: impl Fn(u16) -> FrameDecision,
    scheduling: Scheduling,
    now: Micros,
) -> Option<Picked> {
    let items = queue.items();
    let fifo = scheduling == Scheduling::Fifo;
    // At most ITEMS_MAX: sorting indexes on the stack is cheap.
    let mut ranks =
        [(Rank::new(Lane::Normal, 0, 0, 0), 0u8); crate::queue::command_queue::ITEMS_MAX];
    let decide = |item: &Pending| item.stream.map_or(FrameDecision::Pixels, &frame_decision);
    let mut len = 0;
    for (i, item) in items.iter().enumerate() {
        let bytes = match decide(item) {
            FrameDecision::Pixels => estimate.bytes(item.origin.kinds, item.area),
            FrameDecision::Plain(bytes) | FrameDecision::Coded(bytes) => bytes,
            FrameDecision::NotYet => continue,
        };
        let real_time =
            item.origin.lane == Lane::RealTime && bytes <= room.real_time_bytes && !fifo;
        let lane = if real_time { Lane::RealTime } else { Lane::Normal };
        let since = queue.since(item);
        let rank = if fifo {
            Rank { lane: 1, class: 0, since }
        } else {
            Rank::new(lane, bytes, since, now)
        };
        ranks[len] = (rank, i as u8);
        len += 1;
    }
    let ranks = &mut ranks[..len];
    ranks.sort_unstable();

    let mut picked = Picked { lane: Lane::RealTime, ..Picked::nothing(Micros::MAX) };
    let mut area = 0;
    for &(rank, i) in &*ranks {
        let item = &items[i as usize];
        let bytes = estimate.bytes(item.origin.kinds, item.area);
        let decision = decide(item);
        if let FrameDecision::Coded(bytes) = decision
            && picked.region.is_empty()
            && room.frames
        {
            return Some(frame(item, Lane::Normal, bytes, rank.since));
        }
        let lane = if rank.lane == 0 { Lane::RealTime } else { Lane::Normal };
        let normal = room.bytes.saturating_sub(before(rank));
        let left = match lane {
            Lane::RealTime => room.real_time_bytes.max(normal),
            Lane::Normal => normal,
        }
        .saturating_sub(picked.bytes);
        if left == 0 {
            break;
        }
        if let FrameDecision::Plain(bytes) = decision
            && picked.region.is_empty()
        {
            return Some(frame(item, lane, bytes, rank.since));
        }
        if decision != FrameDecision::Pixels {
            break;
        }
        if picked.region.is_empty() {
            // The first item goes whatever its size: it is read and compared as a whole, and cut
            // when it is sent.
            let whole = bytes <= room.whole_bytes && item.area <= room.area_max;
            let of_item = || of_item(item, queue.withdrawn(), room.area_max);
            picked.region = if whole { item.region.clone() } else { of_item() };
            area = picked.region.area();
            picked.bytes = estimate.bytes(item.origin.kinds, area);
            picked.lane = lane;
            if picked.bytes > SMALL_BYTES || area < item.area {
                picked.since = rank.since;
                picked.kinds = item.origin.kinds;
                break;
            }
        } else {
            if picked.bytes + bytes > SMALL_BYTES.min(left + picked.bytes)
                || area + item.area > room.area_max
            {
                break;
            }
            picked.region.add(&item.region);
            area += item.area;
            picked.bytes += bytes;
            if lane == Lane::Normal {
                picked.lane = Lane::Normal;
            }
        }
        picked.since = picked.since.min(rank.since);
        picked.kinds = picked.kinds.with(item.origin.kinds);
    }
    (!picked.region.is_empty()).then_some(picked)
}

/// A frame by itself.
fn frame(item: &Pending, lane: Lane, bytes: u64, since: Micros) -> Picked {
    Picked {
        region: item.region.clone(),
        lane,
        bytes,
        since,
        kinds: Kinds::VIDEO,
        stream: item.stream,
    }
}

/// The next part of an item: withdrawn pixels first, or only the top rows of an item that is
/// redrawn faster than it is sent would ever be sent; then at most `area_max` pixels from where it
/// was cut last.
fn of_item(item: &Pending, withdrawn: &Region, area_max: u64) -> Region {
    let mut first = item.region.intersection(withdrawn);
    if first.is_empty() && item.area > area_max {
        first = item.region.clone();
        first.intersect_rect(&Rect { y1: item.sweep.next_y.max(item.bounds.y1), ..item.bounds });
    }
    let first = if first.is_empty() { item.region.clone() } else { first };
    if first.area() > area_max { top(&first, area_max, area_max) } else { first }
}

/// The first rows of a region that contain at most `area` pixels, or its first row; of a row wider
/// than `area_max`, the left.
fn top(region: &Region, area: u64, area_max: u64) -> Region {
    let mut left = area;
    let mut y_end = None;
    for band in region.rects().chunk_by(|a, b| a.y1 == b.y1) {
        let width: u64 = band.iter().map(|rect| rect.width() as u64).sum();
        let height = band[0].height() as u64;
        if width * height <= left {
            left -= width * height;
            y_end = Some(band[0].y2);
            continue;
        }
        let rows = left / width;
        if rows > 0 {
            y_end = Some(band[0].y1 + rows as i32);
        }
        break;
    }
    let extents = region.extents();
    let y_end = y_end.unwrap_or(extents.y1 + 1);
    let mut top = region.clone();
    top.intersect_rect(&Rect { y2: y_end, ..extents });
    if top.area() > area_max {
        // A viewer that takes short messages would refuse the whole row each time.
        let row = top.take();
        let mut left = area_max;
        for rect in row.rects() {
            let width = (rect.width() as u64).min(left);
            left -= width;
            top.add_rect(Rect { x2: rect.x1 + width as i32, ..*rect });
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::command_queue::{CommandQueue, Origin};
    use thinc_region::Size;

    const SRSF: Scheduling = Scheduling::ShortestFirst;
    const PIXELS: fn(u16) -> FrameDecision = |_| FrameDecision::Pixels;
    const ROOM: Room = Room {
        bytes: 1 << 20,
        real_time_bytes: 16 << 10,
        area_max: JOB_AREA_MAX,
        whole_bytes: 0,
        frames: true,
    };

    fn queue(draws: &[(Rect, Kinds, Micros, Lane)]) -> CommandQueue {
        let mut queue = CommandQueue::new(Size { width: 1024, height: 768 }, 4096);
        for &(rect, kinds, since, lane) in draws {
            queue.draw(&Region::from(rect), Origin { window: 1, kinds, since, lane, echo: None });
        }
        queue
    }

    const BIG: Rect = Rect::new(0, 0, 800, 400);
    const LITTLE: Rect = Rect::new(0, 500, 20, 520);

    #[test]
    fn the_shorter_item_goes_first_and_by_itself() {
        let queue = queue(&[
            (BIG, Kinds::IMAGE, 0, Lane::Normal),
            (LITTLE, Kinds::GLYPHS, 10, Lane::Normal),
        ]);
        let picked = pick(&queue, &SizeEstimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(LITTLE));
    }

    #[test]
    fn an_old_item_goes_before_a_shorter_one() {
        let queue = queue(&[
            (BIG, Kinds::IMAGE, 0, Lane::Normal),
            (LITTLE, Kinds::GLYPHS, 10, Lane::Normal),
        ]);
        let picked =
            pick(&queue, &SizeEstimate::default(), ROOM, |_| 0, PIXELS, SRSF, ITEM_AGE_MAX + 5)
                .unwrap();
        assert_eq!(picked.region, Region::from(BIG));
    }

    #[test]
    fn an_input_response_goes_although_the_budget_is_spent() {
        let queue = queue(&[
            (BIG, Kinds::IMAGE, 0, Lane::Normal),
            (LITTLE, Kinds::GLYPHS, 10, Lane::RealTime),
        ]);
        let spent = Room { bytes: 0, ..ROOM };
        let picked =
            pick(&queue, &SizeEstimate::default(), spent, |_| 0, PIXELS, SRSF, ITEM_AGE_MAX * 2)
                .unwrap();
        assert_eq!((picked.region, picked.lane), (Region::from(LITTLE), Lane::RealTime));
        let capped = Room { bytes: 0, real_time_bytes: 0, ..ROOM };
        assert!(
            pick(&queue, &SizeEstimate::default(), capped, |_| 0, PIXELS, SRSF, 20).is_none(),
            "the lane has a cap in a round trip"
        );
    }

    #[test]
    fn fifo_sends_the_oldest_first_whatever_its_size() {
        let queue = queue(&[
            (BIG, Kinds::IMAGE, 0, Lane::Normal),
            (LITTLE, Kinds::GLYPHS, 10, Lane::RealTime),
        ]);
        let picked =
            pick(&queue, &SizeEstimate::default(), ROOM, |_| 0, PIXELS, Scheduling::Fifo, 20)
                .unwrap();
        assert_eq!((picked.region, picked.lane), (Region::from(BIG), Lane::Normal));
        let spent = Room { bytes: 0, ..ROOM };
        assert!(
            pick(&queue, &SizeEstimate::default(), spent, |_| 0, PIXELS, Scheduling::Fifo, 20)
                .is_none(),
            "FIFO has no real-time lane"
        );
    }

    #[test]
    fn small_items_share_an_update() {
        let draws: Vec<_> = (0..5)
            .map(|i| (Rect::at(i * 100, 0, 20, 20), Kinds::GLYPHS, i as u64, Lane::Normal))
            .collect();
        let picked =
            pick(&queue(&draws), &SizeEstimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region.area(), 5 * 400);
    }

    #[test]
    fn a_large_item_goes_whole_if_there_is_any_room() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal)]);
        let room = Room { bytes: 1_000, ..ROOM };
        let picked =
            pick(&queue, &SizeEstimate::default(), room, |_| 999, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(BIG));
        assert!(
            pick(&queue, &SizeEstimate::default(), room, |_| 1_000, PIXELS, SRSF, 20).is_none(),
            "enough is committed"
        );
        let small = Room { area_max: 800 * 50, ..room };
        let picked =
            pick(&queue, &SizeEstimate::default(), small, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(Rect { y2: 50, ..BIG }));
    }

    #[test]
    fn a_small_item_has_room_beside_a_large_committed_one() {
        let queue = queue(&[(LITTLE, Kinds::GLYPHS, 10, Lane::Normal)]);
        let committed = Rank::new(Lane::Normal, 500_000, 0, 20);
        let before = |rank| if committed <= rank { 500_000 } else { 0 };
        let room = Room { bytes: 2_000, ..ROOM };
        assert!(pick(&queue, &SizeEstimate::default(), room, before, PIXELS, SRSF, 20).is_some());
    }

    #[test]
    fn withdrawn_pixels_go_before_the_rest_of_their_item() {
        let mut queue = queue(&[(BIG, Kinds::IMAGE, 5, Lane::Normal)]);
        let bottom = Rect { y1: 300, ..BIG };
        queue.withdraw(&Region::from(bottom), 2, None);
        queue.check_invariants();
        let picked = pick(&queue, &SizeEstimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!((&picked.region, picked.since), (&Region::from(bottom), 2));
        queue.commit(0, &picked.region, &Region::new());
        let picked = pick(&queue, &SizeEstimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(Rect { y2: 300, ..BIG }));
    }

    #[test]
    fn an_item_that_is_sent_in_time_stays_whole_although_parts_were_withdrawn() {
        let mut queue = queue(&[(BIG, Kinds::IMAGE, 5, Lane::Normal)]);
        queue.withdraw(&Region::from(Rect { y1: 300, ..BIG }), 2, None);
        let bytes = SizeEstimate::default().bytes(Kinds::IMAGE, Region::from(BIG).area());
        let take = |room| {
            pick(&queue, &SizeEstimate::default(), room, |_| 0, PIXELS, SRSF, 20).unwrap().region
        };
        assert_eq!(take(Room { whole_bytes: bytes, ..ROOM }), Region::from(BIG));
        assert_ne!(
            take(Room { whole_bytes: bytes - 1, ..ROOM }),
            Region::from(BIG),
            "only its top rows would ever be sent"
        );
        let area_max = Region::from(BIG).area() - 1;
        assert!(
            take(Room { whole_bytes: bytes, area_max, ..ROOM }).area() <= area_max,
            "but not more than one update may read"
        );
    }

    #[test]
    fn a_row_longer_than_an_update_is_sent_in_pieces() {
        let size = Size { width: 16_384, height: 3 };
        let mut queue = CommandQueue::new(size, 256);
        let origin =
            Origin { window: 1, kinds: Kinds::IMAGE, since: 0, lane: Lane::Normal, echo: None };
        queue.draw(&Region::from(size.rect()), origin);
        let room = Room { area_max: 3_000, ..ROOM };
        let mut jobs = 0;
        while let Some(picked) =
            pick(&queue, &SizeEstimate::default(), room, |_| 0, PIXELS, SRSF, 20)
        {
            assert!(picked.region.area() <= room.area_max, "{:?}", picked.region);
            queue.commit(jobs, &picked.region, &Region::new());
            queue.read_done(jobs, 0);
            queue.check_invariants();
            jobs += 1;
        }
        assert!(queue.is_empty() && jobs > 16, "everything was sent, in {jobs} pieces");
    }

    #[test]
    fn doubt_waits_until_the_screen_is_idle_but_not_without_limit() {
        let mut queue = queue(&[]);
        assert_eq!(doubt_due(&queue, true), None);
        queue.doubt(&Region::from(BIG), 0);
        queue.doubt(&Region::from(LITTLE), 20_000);
        assert_eq!(doubt_due(&queue, true), Some(20_000 + DOUBT_REST), "X sleeps");
        assert_eq!(doubt_due(&queue, false), Some(DOUBT_AGE_MAX), "X continues to draw");
        queue.doubt(&Region::from(LITTLE), DOUBT_AGE_MAX);
        assert_eq!(doubt_due(&queue, true), Some(DOUBT_AGE_MAX), "it still scrolls");
        let origin =
            Origin { window: 1, kinds: Kinds::IMAGE, since: 0, lane: Lane::Normal, echo: None };
        queue.draw(&Region::from(BIG), origin);
        assert_eq!(
            doubt_due(&queue, true),
            Some(2 * DOUBT_AGE_MAX),
            "pixels are pending all the time"
        );
        assert_eq!(
            pick_doubt(&mut queue, JOB_AREA_MAX),
            Some(Region::from(LITTLE)),
            "the rest is drawn over"
        );
    }

    #[test]
    fn much_doubt_is_compared_in_pieces() {
        let mut queue = queue(&[]);
        queue.doubt(&Region::from(Rect::new(0, 0, 1024, 768)), 0);
        let mut jobs = 0;
        while let Some(verify) = pick_doubt(&mut queue, JOB_AREA_MAX) {
            assert!(verify.area() <= DOUBT_AREA_MAX);
            queue.commit(jobs, &verify, &verify);
            queue.read_done(jobs, 0);
            jobs += 1;
        }
        assert_eq!(jobs, 3);
    }

    #[test]
    fn an_item_redrawn_before_all_of_it_was_committed_is_sent_all_round() {
        let mut queue = CommandQueue::new(Size { width: 1024, height: 768 }, 4096);
        let room = Room { area_max: 160_000, ..ROOM };
        let mut seen = Region::new();
        for turn in 0..6 {
            let origin = Origin {
                window: 1,
                kinds: Kinds::IMAGE,
                since: turn * 5_000,
                lane: Lane::Normal,
                echo: None,
            };
            queue.draw(&Region::from(BIG), origin);
            let picked = pick(
                &queue,
                &SizeEstimate::default(),
                room,
                |_| 0,
                PIXELS,
                SRSF,
                turn * 5_000 + 10,
            )
            .unwrap();
            seen.add(&picked.region);
            queue.commit(turn, &picked.region, &Region::new());
        }
        assert_eq!(seen, Region::from(BIG), "each part of it was sent");
        // The first round is over, so the item is as old as its second.
        assert!(queue.oldest().unwrap() > 0, "the first drawing was sent");
    }

    #[test]
    fn estimates_follow_the_packed_bytes() {
        let mut estimate = SizeEstimate::default();
        let (text, image) = (Kinds::GLYPHS.most_expensive(), Kinds::IMAGE.most_expensive());
        for _ in 0..40 {
            estimate.learn_packed(text, 10_000, 2_500);
            estimate.learn_packed(text, 20, 40);
        }
        assert!((0.24..0.27).contains(&estimate.packed(text)), "{}", estimate.packed(text));
        assert_eq!(estimate.packed(image), 1.0);
    }

    #[test]
    fn estimates_follow_the_encoded_bytes() {
        let mut estimate = SizeEstimate::default();
        let before = estimate.bytes(Kinds::IMAGE, 10_000);
        for _ in 0..40 {
            estimate.learn(Kinds::IMAGE.most_expensive(), 10_000, 30_000);
        }
        let after = estimate.bytes(Kinds::IMAGE, 10_000);
        assert!(before < 16_000 && after > 28_000, "from {before} to {after}");
    }
}
