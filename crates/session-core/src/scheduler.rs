//! Path 6/13: from command_queue.rs, to update.rs.
//! Which pending pixels are committed next, and how many: real-time lane, then shortest remaining first (THINC §3.3).
//! Knows areas, kinds, ages and room; never pixels, bytes of commands or sockets.

use thinc_protocol::Micros;
use thinc_region::{Rect, Region};

use crate::command_queue::{CommandQueue, Kinds, Lane, Pending};
use crate::video::Turn;

/// In which order pending pixels are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduling {
    /// Real-time lane, then the shortest remaining first.
    #[default]
    ShortestFirst,
    /// The oldest first, whatever its size: for comparison only.
    Fifo,
}

/// Items of at most this many bytes share an update and are encoded at once; a larger one is an update of its own, so
/// that a small one never waits for its encoding. 16 KiB take a millisecond of one core to encode and of 130 Mbit/s to send.
pub const SMALL_BYTES: u64 = 16 * 1024;
/// Largest answer to a hand: a menu of 200 × 300 pixels of text.
pub const REAL_TIME_BYTES_MAX: u64 = 8 * 1024;
/// After this long an item goes before shorter ones: a page that waited 250 ms has lost its claim on patience.
pub const ITEM_AGE_MAX: Micros = 250_000;
/// Most pixels of one update: 1920 × 1200, so that what scrolls on a usual screen is looked for in all of it. To read and
/// compare them takes this thread some milliseconds; their plain bytes are 7 MiB, half of the longest frame.
pub const JOB_AREA_MAX: u64 = 1920 * 1200;
/// Fewest pixels of a piece: 32 × 32.
const PIECE_AREA_MIN: u64 = 1024;
/// How long after the last pixels came into doubt they are compared, where X sleeps and nothing else waits: what scrolls is
/// compared when it stops.
const DOUBT_REST: Micros = 30_000;
/// What has been in doubt for so long is compared where nothing else waits, and twice as long, whatever waits.
const DOUBT_AGE_MAX: Micros = 1_000_000;
/// Most pixels compared by one job: what is read may hold back a COPY, and takes this thread half a millisecond.
const DOUBT_AREA_MAX: u64 = 1 << 18;
/// Upper bounds of the classes of remaining size, in bytes; the last class has none.
const CLASS_BYTES: [u64; 6] = [256, 1024, 4 * 1024, 16 * 1024, 64 * 1024, 256 * 1024];
/// Fewest bytes of commands that tell how well such commands pack.
pub(crate) const PACKED_BYTES_MIN: u64 = 256;
/// Least share of its bytes that packing is believed to leave.
pub(crate) const PACKED_MIN: f32 = 0.01;
/// Bytes an item costs beside its pixels.
const ITEM_BYTES: u64 = 16;
/// Least weight of a new measurement of bytes per pixel: eight updates to forget another kind of content. The first has
/// all the weight, the second half, and so on.
const LEARN_MIN: f32 = 0.125;

/// Bytes a pixel of each kind took lately. Before the first measurement rather too many, where a kind may be anything:
/// an update that is too large for the path cannot be taken back, one that is too small costs a frame's head.
#[derive(Clone, Debug)]
pub struct Estimate {
    bytes_per_pixel: [f32; Kinds::COUNT],
    measured: [f32; Kinds::COUNT],
    /// Share of the bytes of commands that packing leaves.
    packed: [f32; Kinds::COUNT],
}

impl Default for Estimate {
    fn default() -> Estimate {
        // In the order of `Kinds`: solid, pattern, glyphs, composite, other, stale, image, video.
        let bytes_per_pixel = [0.001, 0.01, 0.1, 0.3, 0.3, 1.0, 1.5, 1.5];
        Estimate { bytes_per_pixel, measured: [0.0; Kinds::COUNT], packed: [1.0; Kinds::COUNT] }
    }
}

impl Estimate {
    /// Bytes that so many pixels of the dearest kind in the set will take.
    pub fn bytes(&self, kinds: Kinds, area: u64) -> u64 {
        (area as f32 * self.bytes_per_pixel[kinds.dearest()]) as u64 + ITEM_BYTES
    }

    /// Pixels of the dearest kind in the set that so many bytes hold.
    pub fn piece_area(&self, kinds: Kinds, bytes: u64) -> u64 {
        ((bytes as f32 / self.bytes_per_pixel[kinds.dearest()]) as u64).clamp(PIECE_AREA_MIN, JOB_AREA_MAX)
    }

    /// Share of its commands' bytes that an update of this kind takes on the wire.
    pub fn packed(&self, kind: usize) -> f32 {
        self.packed[kind]
    }

    /// So many bytes of commands were so many on the wire.
    pub fn learn_packed(&mut self, kind: usize, commands: u64, wire: u64) {
        // What is too short to be packed tells nothing of what is not.
        if commands >= PACKED_BYTES_MIN {
            let seen = (wire as f32 / commands as f32).clamp(PACKED_MIN, 1.0);
            self.packed[kind] += (seen - self.packed[kind]) * LEARN_MIN;
        }
    }

    /// So many pixels of this kind took so many bytes.
    pub fn learn(&mut self, kind: usize, area: u64, bytes: u64) {
        if area < 64 {
            // The command's own bytes outweigh the pixels'.
            return;
        }
        // What was equal took nothing; a floor keeps an estimate from promising that it always will be.
        let seen = (bytes as f32 / area as f32).clamp(0.000_5, 4.0);
        self.measured[kind] += 1.0;
        let known = &mut self.bytes_per_pixel[kind];
        *known += (seen - *known) * (1.0 / self.measured[kind]).max(LEARN_MIN);
    }
}

fn class(bytes: u64) -> usize {
    CLASS_BYTES.iter().position(|&bound| bytes <= bound).unwrap_or(CLASS_BYTES.len())
}

/// Who goes first: the least. What is committed goes on being ranked by what of it has not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    lane: u8,
    class: u8,
    since: Micros,
}

impl Rank {
    /// Of something that takes so many bytes more and has waited since then.
    pub fn new(lane: Lane, bytes: u64, since: Micros, now: Micros) -> Rank {
        let old = now.saturating_sub(since) > ITEM_AGE_MAX;
        let (lane, class) = match (lane, old) {
            (Lane::RealTime, _) => (0, 0),
            (Lane::Normal, true) => (1, 0),
            (Lane::Normal, false) => (2, class(bytes) as u8),
        };
        Rank { lane, class, since }
    }
}

/// What may be taken now.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes within the budget, what is committed and has not left included.
    pub bytes: u64,
    /// Bytes the real-time lane may take, the budget spent or not.
    pub real_time_bytes: u64,
    /// Most pixels of one update.
    pub area_max: u64,
    /// Bytes that leave long before they are late: what takes no more is one picture, whatever was taken back of it.
    pub whole_bytes: u64,
    /// Coded frames may go at all: how long they would stand says their turn.
    pub frames: bool,
}

/// What goes into the next update.
#[derive(Debug)]
pub struct Picked {
    /// Pixels.
    pub region: Region,
    /// Real-time when all of it is.
    pub lane: Lane,
    /// Estimate of its bytes.
    pub bytes: u64,
    /// Since when the oldest of it has waited.
    pub since: Micros,
    /// Dearest kind in it.
    pub kinds: Kinds,
    /// All of it is a frame of this stream of video.
    pub stream: Option<u16>,
}

impl Picked {
    /// No pixels.
    pub fn nothing(since: Micros) -> Picked {
        Picked { region: Region::new(), lane: Lane::Normal, bytes: 0, since, kinds: Kinds::default(), stream: None }
    }
}

/// When pixels in doubt are to be compared, if nothing else happens. None: there are none, or others wait.
pub fn doubt_due(queue: &CommandQueue, idle: bool) -> Option<Micros> {
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
pub fn pick_doubt(queue: &mut CommandQueue, area_max: u64) -> Option<Region> {
    let doubted = queue.doubted();
    (!doubted.is_empty()).then(|| top(doubted, area_max.min(DOUBT_AREA_MAX), area_max))
}

/// Chooses the next update's pixels: the item of the first rank, all of it that one update may hold, and where it is small
/// the next ones too. None: nothing waits that there is room for, behind the bytes that are committed and go `before` it.
/// A frame of a video goes alone and whole, when `turn` says so.
pub fn pick(
    queue: &CommandQueue,
    estimate: &Estimate,
    room: Room,
    before: impl Fn(Rank) -> u64,
    turn: impl Fn(u16) -> Turn,
    scheduling: Scheduling,
    now: Micros,
) -> Option<Picked> {
    let items = queue.items();
    let fifo = scheduling == Scheduling::Fifo;
    // At most ITEMS_MAX: sorting indexes on the stack is cheap.
    let mut ranks = [(Rank::new(Lane::Normal, 0, 0, 0), 0u8); crate::command_queue::ITEMS_MAX];
    let turn = |item: &Pending| item.stream.map_or(Turn::Pixels, &turn);
    let mut len = 0;
    for (i, item) in items.iter().enumerate() {
        let bytes = match turn(item) {
            Turn::Pixels => estimate.bytes(item.origin.kinds, item.area),
            Turn::Frame(bytes) | Turn::Ahead(bytes) => bytes,
            Turn::NotNow => continue,
        };
        let real_time = item.origin.lane == Lane::RealTime && bytes <= room.real_time_bytes && !fifo;
        let lane = if real_time { Lane::RealTime } else { Lane::Normal };
        let since = queue.since(item);
        let rank = if fifo { Rank { lane: 1, class: 0, since } } else { Rank::new(lane, bytes, since, now) };
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
        let turn = turn(item);
        if let Turn::Ahead(bytes) = turn
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
        if let Turn::Frame(bytes) = turn
            && picked.region.is_empty()
        {
            return Some(frame(item, lane, bytes, rank.since));
        }
        if turn != Turn::Pixels {
            break;
        }
        if picked.region.is_empty() {
            // The first goes whatever its size: it is read and compared as a whole, and cut when it leaves.
            let whole = bytes <= room.whole_bytes && item.area <= room.area_max;
            let of_item = || of_item(item, queue.taken_back(), room.area_max);
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
            if picked.bytes + bytes > SMALL_BYTES.min(left + picked.bytes) || area + item.area > room.area_max {
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

/// A frame goes alone and whole.
fn frame(item: &Pending, lane: Lane, bytes: u64, since: Micros) -> Picked {
    Picked { region: item.region.clone(), lane, bytes, since, kinds: Kinds::VIDEO, stream: item.stream }
}

/// What leaves of an item next: what was taken back before the rest, or what is redrawn faster than it leaves would be sent
/// its top for ever; and no more than `area_max` pixels, from where it was cut last.
fn of_item(item: &Pending, taken_back: &Region, area_max: u64) -> Region {
    let mut first = item.region.intersection(taken_back);
    if first.is_empty() && item.area > area_max {
        first = item.region.clone();
        first.intersect_rect(&Rect { y1: item.sweep.next_y.max(item.bounds.y1), ..item.bounds });
    }
    let first = if first.is_empty() { item.region.clone() } else { first };
    if first.area() > area_max { top(&first, area_max, area_max) } else { first }
}

/// The first rows of a region that hold at most `area` pixels, or its first row; of a row wider than `area_max`, the left.
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
        // A viewer that takes short frames would refuse the row, again and again.
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
    use crate::command_queue::{CommandQueue, Origin};
    use crate::mutation::Broken;
    use thinc_region::Size;

    const SRSF: Scheduling = Scheduling::ShortestFirst;
    const PIXELS: fn(u16) -> Turn = |_| Turn::Pixels;
    const ROOM: Room =
        Room { bytes: 1 << 20, real_time_bytes: 16 << 10, area_max: JOB_AREA_MAX, whole_bytes: 0, frames: true };

    fn queue(draws: &[(Rect, Kinds, Micros, Lane)]) -> CommandQueue {
        let mut queue = CommandQueue::new(Size { width: 1024, height: 768 }, 4096, Broken::default());
        for &(rect, kinds, since, lane) in draws {
            queue.draw(&Region::from(rect), Origin { window: 1, kinds, since, lane, echo: None });
        }
        queue
    }

    const BIG: Rect = Rect::new(0, 0, 800, 400);
    const LITTLE: Rect = Rect::new(0, 500, 20, 520);

    #[test]
    fn the_shorter_goes_first_and_alone() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal), (LITTLE, Kinds::GLYPHS, 10, Lane::Normal)]);
        let picked = pick(&queue, &Estimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(LITTLE));
    }

    #[test]
    fn an_old_one_goes_before_a_shorter_one() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal), (LITTLE, Kinds::GLYPHS, 10, Lane::Normal)]);
        let picked = pick(&queue, &Estimate::default(), ROOM, |_| 0, PIXELS, SRSF, ITEM_AGE_MAX + 5).unwrap();
        assert_eq!(picked.region, Region::from(BIG));
    }

    #[test]
    fn a_hand_s_answer_goes_although_the_budget_is_spent() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal), (LITTLE, Kinds::GLYPHS, 10, Lane::RealTime)]);
        let spent = Room { bytes: 0, ..ROOM };
        let picked = pick(&queue, &Estimate::default(), spent, |_| 0, PIXELS, SRSF, ITEM_AGE_MAX * 2).unwrap();
        assert_eq!((picked.region, picked.lane), (Region::from(LITTLE), Lane::RealTime));
        let capped = Room { bytes: 0, real_time_bytes: 0, ..ROOM };
        assert!(
            pick(&queue, &Estimate::default(), capped, |_| 0, PIXELS, SRSF, 20).is_none(),
            "the lane has a cap in a round trip"
        );
    }

    #[test]
    fn a_queue_that_is_only_a_queue_sends_the_oldest_first_whatever_it_is() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal), (LITTLE, Kinds::GLYPHS, 10, Lane::RealTime)]);
        let picked = pick(&queue, &Estimate::default(), ROOM, |_| 0, PIXELS, Scheduling::Fifo, 20).unwrap();
        assert_eq!((picked.region, picked.lane), (Region::from(BIG), Lane::Normal));
        let spent = Room { bytes: 0, ..ROOM };
        assert!(
            pick(&queue, &Estimate::default(), spent, |_| 0, PIXELS, Scheduling::Fifo, 20).is_none(),
            "it has no lane"
        );
    }

    #[test]
    fn small_ones_share_an_update() {
        let draws: Vec<_> =
            (0..5).map(|i| (Rect::at(i * 100, 0, 20, 20), Kinds::GLYPHS, i as u64, Lane::Normal)).collect();
        let picked = pick(&queue(&draws), &Estimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region.area(), 5 * 400);
    }

    #[test]
    fn a_large_one_goes_whole_where_there_is_any_room() {
        let queue = queue(&[(BIG, Kinds::IMAGE, 0, Lane::Normal)]);
        let room = Room { bytes: 1_000, ..ROOM };
        let picked = pick(&queue, &Estimate::default(), room, |_| 999, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(BIG));
        assert!(pick(&queue, &Estimate::default(), room, |_| 1_000, PIXELS, SRSF, 20).is_none(), "enough is committed");
        let small = Room { area_max: 800 * 50, ..room };
        let picked = pick(&queue, &Estimate::default(), small, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(Rect { y2: 50, ..BIG }));
    }

    #[test]
    fn a_small_one_has_room_beside_a_large_one_that_is_committed() {
        let queue = queue(&[(LITTLE, Kinds::GLYPHS, 10, Lane::Normal)]);
        let committed = Rank::new(Lane::Normal, 500_000, 0, 20);
        let before = |rank| if committed <= rank { 500_000 } else { 0 };
        let room = Room { bytes: 2_000, ..ROOM };
        assert!(pick(&queue, &Estimate::default(), room, before, PIXELS, SRSF, 20).is_some());
    }

    #[test]
    fn what_was_taken_back_goes_before_the_rest() {
        let mut queue = queue(&[(BIG, Kinds::IMAGE, 5, Lane::Normal)]);
        let bottom = Rect { y1: 300, ..BIG };
        queue.take_back(&Region::from(bottom), 2, None);
        queue.check_invariants();
        let picked = pick(&queue, &Estimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!((&picked.region, picked.since), (&Region::from(bottom), 2));
        queue.commit(0, &picked.region, &Region::new());
        let picked = pick(&queue, &Estimate::default(), ROOM, |_| 0, PIXELS, SRSF, 20).unwrap();
        assert_eq!(picked.region, Region::from(Rect { y2: 300, ..BIG }));
    }

    #[test]
    fn what_leaves_long_before_it_is_late_is_one_picture_whatever_was_taken_back_of_it() {
        let mut queue = queue(&[(BIG, Kinds::IMAGE, 5, Lane::Normal)]);
        queue.take_back(&Region::from(Rect { y1: 300, ..BIG }), 2, None);
        let bytes = Estimate::default().bytes(Kinds::IMAGE, Region::from(BIG).area());
        let take = |room| pick(&queue, &Estimate::default(), room, |_| 0, PIXELS, SRSF, 20).unwrap().region;
        assert_eq!(take(Room { whole_bytes: bytes, ..ROOM }), Region::from(BIG));
        assert_ne!(take(Room { whole_bytes: bytes - 1, ..ROOM }), Region::from(BIG), "its top would be sent for ever");
        let area_max = Region::from(BIG).area() - 1;
        assert!(take(Room { whole_bytes: bytes, area_max, ..ROOM }).area() <= area_max, "or it is too much to read");
    }

    #[test]
    fn a_row_that_is_longer_than_an_update_leaves_in_pieces() {
        let size = Size { width: 16_384, height: 3 };
        let mut queue = CommandQueue::new(size, 256, Broken::default());
        let origin = Origin { window: 1, kinds: Kinds::IMAGE, since: 0, lane: Lane::Normal, echo: None };
        queue.draw(&Region::from(size.rect()), origin);
        let room = Room { area_max: 3_000, ..ROOM };
        let mut jobs = 0;
        while let Some(picked) = pick(&queue, &Estimate::default(), room, |_| 0, PIXELS, SRSF, 20) {
            assert!(picked.region.area() <= room.area_max, "{:?}", picked.region);
            queue.commit(jobs, &picked.region, &Region::new());
            queue.read_done(jobs, 0);
            queue.check_invariants();
            jobs += 1;
        }
        assert!(queue.is_empty() && jobs > 16, "all has left, in {jobs} pieces");
    }

    #[test]
    fn doubt_waits_until_the_screen_rests_but_not_for_ever() {
        let mut queue = queue(&[]);
        assert_eq!(doubt_due(&queue, true), None);
        queue.doubt(&Region::from(BIG), 0);
        queue.doubt(&Region::from(LITTLE), 20_000);
        assert_eq!(doubt_due(&queue, true), Some(20_000 + DOUBT_REST), "X sleeps");
        assert_eq!(doubt_due(&queue, false), Some(DOUBT_AGE_MAX), "X draws on");
        queue.doubt(&Region::from(LITTLE), DOUBT_AGE_MAX);
        assert_eq!(doubt_due(&queue, true), Some(DOUBT_AGE_MAX), "it scrolls on");
        let origin = Origin { window: 1, kinds: Kinds::IMAGE, since: 0, lane: Lane::Normal, echo: None };
        queue.draw(&Region::from(BIG), origin);
        assert_eq!(doubt_due(&queue, true), Some(2 * DOUBT_AGE_MAX), "pixels wait all the time");
        assert_eq!(pick_doubt(&mut queue, JOB_AREA_MAX), Some(Region::from(LITTLE)), "the rest is drawn over");
    }

    #[test]
    fn much_doubt_is_compared_bit_by_bit() {
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
    fn what_is_drawn_anew_before_all_of_it_was_committed_goes_all_round() {
        let mut queue = CommandQueue::new(Size { width: 1024, height: 768 }, 4096, Broken::default());
        let room = Room { area_max: 160_000, ..ROOM };
        let mut seen = Region::new();
        for turn in 0..6 {
            let origin = Origin { window: 1, kinds: Kinds::IMAGE, since: turn * 5_000, lane: Lane::Normal, echo: None };
            queue.draw(&Region::from(BIG), origin);
            let picked = pick(&queue, &Estimate::default(), room, |_| 0, PIXELS, SRSF, turn * 5_000 + 10).unwrap();
            seen.add(&picked.region);
            queue.commit(turn, &picked.region, &Region::new());
        }
        assert_eq!(seen, Region::from(BIG), "each part of it has left");
        // Its first round is over, so that it is no older than its second.
        assert!(queue.oldest().unwrap() > 0, "what was drawn first has left");
    }

    #[test]
    fn estimates_follow_what_was_packed() {
        let mut estimate = Estimate::default();
        let (text, image) = (Kinds::GLYPHS.dearest(), Kinds::IMAGE.dearest());
        for _ in 0..40 {
            estimate.learn_packed(text, 10_000, 2_500);
            estimate.learn_packed(text, 20, 40);
        }
        assert!((0.24..0.27).contains(&estimate.packed(text)), "{}", estimate.packed(text));
        assert_eq!(estimate.packed(image), 1.0);
    }

    #[test]
    fn estimates_follow_what_was_encoded() {
        let mut estimate = Estimate::default();
        let before = estimate.bytes(Kinds::IMAGE, 10_000);
        for _ in 0..40 {
            estimate.learn(Kinds::IMAGE.dearest(), 10_000, 30_000);
        }
        let after = estimate.bytes(Kinds::IMAGE, 10_000);
        assert!(before < 16_000 && after > 28_000, "from {before} to {after}");
    }
}
