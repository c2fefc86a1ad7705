//! Path 6/13: beside flow.rs, whose rate it reads, to viewer.rs, which tells each job.
//! How one viewer's pixels are encoded: bytes where the link is fast, processor time where it is slow, photographs nearly
//! where they would keep it waiting.
//! Knows rates, pixel counts and times; never pixels, encoders or why a link is slow.
//!
//! Two ladders: where bytes are packed, and how nearly photographs are sent. A figure moves a viewer to another step only
//! when it is clear of the bound and stays so for a while: each change of packing begins the connection's context anew, and
//! a photograph that is sharp in one place and coarse in the next looks broken.

use thinc_protocol::Micros;
use thinc_protocol::viewer::ViewerCaps;

use crate::effects::Arrival;
use crate::update::JobId;

/// Where bytes are packed after the pixel operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Nowhere: the link carries the operations faster than they could be packed.
    None,
    /// By the one stream of the connection, when an update leaves.
    Stream {
        /// zstd's.
        level: i32,
    },
    /// Each rectangle by itself, where updates may be lost or the viewer knows no stream.
    Block {
        /// zstd's.
        level: i32,
    },
}

/// How nearly a photograph is sent: the three profiles that TurboVNC has made known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegProfile {
    /// 4:4:4, quality 95: nobody sees the difference; a third of the exact bytes.
    High,
    /// 4:2:2, quality 80; a seventh.
    Medium,
    /// 4:2:0, quality 30; a seventeenth.
    Low,
}

/// How a job's pixels are to be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quality {
    /// Where bytes are packed.
    pub entropy: Entropy,
    /// Photographs may be sent so nearly; `None`: everything exactly, also what the viewer shows only nearly so far.
    pub lossy: Option<JpegProfile>,
}

impl Default for Quality {
    /// What every viewer takes, exactly.
    fn default() -> Quality {
        Quality { entropy: Entropy::Block { level: LEVEL_FAST }, lossy: None }
    }
}

/// Whether anything may be sent lossy at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossyPolicy {
    /// Photographs, where the link is slow and the viewer can show it, and exactly as soon as they rest.
    #[default]
    Auto,
    /// Nothing.
    Never,
    /// Photographs on every link, however few wait: for the simulator, whose screens are small.
    Always,
}

/// Whether videos travel as streams, for viewers that take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoPolicy {
    /// They do: plain where the path carries that twice over, coded where it does not.
    #[default]
    Auto,
    /// No: all video is pixels.
    Off,
    /// Those that applications play through XVideo, and their pictures are never coded.
    Plain,
    /// All, and their pictures are always coded.
    H264,
}

/// What is known of a path's rate, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Nothing was measured.
    Unknown,
    /// So much was carried, and nobody knows yet what could be.
    AtLeast(u64),
    /// So much, with the path full.
    Measured(u64),
}

const MBIT: u64 = 125_000;
/// Rates between the steps of [`Entropy`]: level 3, level 1, none. Where the bytes that a step saves take as long as its
/// work: 9.5 of 9.7 MB for 0.10 s of 0.24, 9.7 of 13.1 MB for 0.12 s (a corpus of screens of 77 MB, one core).
const ENTROPY_BOUNDS: [u64; 2] = [20 * MBIT, 300 * MBIT];
/// Rates between the profiles, and above the last everything is exact. A photograph of 1024 × 768 (1.2 MB exactly, then
/// 0.46, 0.18 and 0.07) takes a fifth to half a second at any of them.
const LOSSY_BOUNDS: [u64; 3] = [3 * MBIT, 15 * MBIT, 50 * MBIT];
/// zstd's levels: below the lower bound, and above it.
const LEVEL_SMALL: i32 = 3;
const LEVEL_FAST: i32 = 1;
/// How clear of a bound a figure must be, and for how long, before the step changes. A rate is the best of ten rounds and
/// sways by a tenth; where the path is shared, by half, but not to one side for a second.
const CLEAR: f64 = 1.25;
const ENTROPY_HOLD: Micros = 5_000_000;
const LOSSY_HOLD: Micros = 1_000_000;
/// Photographs go exactly where all that waits would be through in this time: two frames; nobody sees it come nearly first,
/// and it need not come twice.
const PATIENCE: Micros = 33_000;
/// Exact bytes of a photograph's pixel, and so the most that waiting pixels take.
const PHOTO_BYTES_PER_PIXEL: f64 = 1.5;
/// Nanoseconds a pixel took, packing included, on the machine that the bounds of [`Entropy`] were measured on, by step.
const NOMINAL_NS_PER_PIXEL: [f64; 3] = [17.6, 12.3, 5.8];
/// How many times slower a machine is believed to be. One that is faster changes nothing: its bytes are few enough.
const SLOWNESS_MAX: f64 = 8.0;
/// Pixels after which a measurement is believed, and by which half of it is forgotten: four full screens, and a minute of
/// typing. A single photograph must not make a machine look slow.
const MEASURED_PIXELS: f64 = 8e6;
/// One frame of a 60 Hz screen: most encode work that waits for the workers. More would be older than the next frame.
pub(crate) const ENCODE_TIME_MAX: Micros = 16_667;
/// Most jobs that are counted as encode work of one viewer; no more wait between commit and sending.
const WORK_MAX: usize = crate::update::UNSENT_MAX;
/// Microseconds a pixel of a job takes before one was measured: that of the level that is neither.
const US_PER_PIXEL_INITIAL: f64 = 0.012;
/// Weight of a new measurement of it.
const US_PER_PIXEL_WEIGHT: f64 = 0.25;
/// Fewest pixels of a job that tell how long a pixel takes; below it the call does.
const MEASURED_AREA_MIN: u64 = 4096;

/// The step on which a figure stands, slow to leave it.
#[derive(Clone, Debug)]
struct Ladder {
    bounds: &'static [u64],
    hold: Micros,
    step: usize,
    /// It was placed by a figure, and not only begun with.
    placed: bool,
    /// Towards which side the figure has been clear of the step's bound, and since when.
    asked: Option<(bool, Micros)>,
}

impl Ladder {
    fn new(bounds: &'static [u64], hold: Micros, step: usize) -> Ladder {
        Ladder { bounds, hold, step, placed: false, asked: None }
    }

    /// The step where a figure lies, whatever was before.
    fn step_of(&self, figure: f64) -> usize {
        self.bounds.iter().take_while(|&&bound| figure >= bound as f64).count()
    }

    /// The step after this figure.
    fn look(&mut self, rate: Rate, slowness: f64, now: Micros) -> usize {
        let figure = match rate {
            Rate::Unknown => return self.step,
            Rate::AtLeast(figure) | Rate::Measured(figure) => figure as f64 * slowness,
        };
        if !self.placed && matches!(rate, Rate::Measured(_)) {
            (self.placed, self.step) = (true, self.step_of(figure));
            return self.step;
        }
        let above = self.bounds.get(self.step).is_some_and(|&bound| figure > bound as f64 * CLEAR);
        let below = self.step > 0 && figure < self.bounds[self.step - 1] as f64 / CLEAR;
        // What was carried at least says nothing against more.
        let below = below && matches!(rate, Rate::Measured(_));
        let since = match self.asked {
            _ if !above && !below => {
                self.asked = None;
                return self.step;
            }
            Some((up, since)) if up == above => since,
            _ => now,
        };
        self.asked = Some((above, since));
        if now.saturating_sub(since) >= self.hold {
            self.asked = None;
            self.step = self.step_of(figure);
        }
        self.step
    }
}

/// How one viewer's pixels are encoded, now.
#[derive(Clone, Debug)]
pub(crate) struct Adaptation {
    packs: bool,
    lossy: LossyPolicy,
    entropy: Ladder,
    profile: Ladder,
    rate: u64,
    /// Pixels encoded with the step of now, and the time they took; both fade.
    pixels: f64,
    took_us: f64,
    slowness: f64,
    /// What a pixel of a job takes, what is equal included: for the work that waits.
    us_per_pixel: f64,
    /// Jobs at the workers, and what they will take.
    work: Vec<(JobId, Micros)>,
}

impl Adaptation {
    pub(crate) fn new(caps: u32, policy: LossyPolicy) -> Adaptation {
        Adaptation {
            packs: caps & ViewerCaps::PACKED != 0,
            lossy: if caps & ViewerCaps::LOSSY != 0 { policy } else { LossyPolicy::Never },
            // Until a rate is known the middle of the one, and all of the other.
            entropy: Ladder::new(&ENTROPY_BOUNDS, ENTROPY_HOLD, 1),
            profile: Ladder::new(&LOSSY_BOUNDS, LOSSY_HOLD, LOSSY_BOUNDS.len()),
            rate: 0,
            pixels: 0.0,
            took_us: 0.0,
            slowness: 1.0,
            us_per_pixel: US_PER_PIXEL_INITIAL,
            work: Vec::new(),
        }
    }

    pub(crate) fn set_arrival(&mut self, arrival: Arrival) {
        // What is lost or late cannot be part of a stream.
        self.packs &= arrival != Arrival::Unordered;
    }

    /// Another geometry: no job of the old one comes back.
    pub(crate) fn reset(&mut self) {
        self.work.clear();
    }

    /// Tells what the path carries.
    pub(crate) fn look(&mut self, rate: Rate, now: Micros) {
        if let Rate::AtLeast(rate) | Rate::Measured(rate) = rate {
            self.rate = rate;
        }
        let before = self.entropy.step;
        // A machine that encodes slowly stands before a link that seems faster: its bytes cost it more.
        if self.entropy.look(rate, self.slowness, now) != before {
            (self.pixels, self.took_us) = (0.0, 0.0);
        }
        self.profile.look(rate, 1.0, now);
    }

    /// Where bytes are packed now.
    pub(crate) fn entropy(&self) -> Entropy {
        let level = match self.entropy.step {
            0 => LEVEL_SMALL,
            1 => LEVEL_FAST,
            _ => return Entropy::None,
        };
        if self.packs { Entropy::Stream { level } } else { Entropy::Block { level } }
    }

    /// How nearly photographs are sent where so many pixels wait. None: exactly.
    pub(crate) fn lossy(&self, waiting: u64) -> Option<JpegProfile> {
        self.nearly(waiting, self.profile.step)
    }

    /// The same where the next are drawn before these are sent: a step less sharp, and twice as many of them are seen.
    pub(crate) fn hurried(&self, waiting: u64) -> Option<JpegProfile> {
        self.nearly(waiting, self.profile.step.saturating_sub(1))
    }

    fn nearly(&self, waiting: u64, step: usize) -> Option<JpegProfile> {
        let passes = waiting as f64 * PHOTO_BYTES_PER_PIXEL * 1e6 <= self.rate as f64 * PATIENCE as f64;
        let profiles = [JpegProfile::Low, JpegProfile::Medium, JpegProfile::High];
        match self.lossy {
            LossyPolicy::Auto if !passes => profiles.get(step).copied(),
            LossyPolicy::Auto | LossyPolicy::Never => None,
            LossyPolicy::Always => Some(profiles[step.min(profiles.len() - 1)]),
        }
    }

    /// Encoding so many pixels took so long; packing their bytes tells no pixels, which the encoder has told already.
    pub(crate) fn encode_took(&mut self, pixels: u64, took: Micros) {
        self.pixels += pixels as f64;
        self.took_us += took as f64;
        if self.pixels < MEASURED_PIXELS {
            return;
        }
        let nominal = NOMINAL_NS_PER_PIXEL[self.entropy.step];
        self.slowness = (self.took_us * 1e3 / self.pixels / nominal).clamp(1.0, SLOWNESS_MAX);
        self.pixels /= 2.0;
        self.took_us /= 2.0;
    }

    /// A job of so many pixels goes to the workers.
    pub(crate) fn work_begins(&mut self, job: JobId, area: u64) {
        if self.work.len() < WORK_MAX {
            self.work.push((job, self.work_time(area)));
        }
    }

    /// It came back, or will not; where it came back, after how much work.
    pub(crate) fn work_ends(&mut self, job: JobId) {
        self.work.retain(|&(id, _)| id != job);
    }

    /// A job of so many pixels took so long.
    pub(crate) fn work_took(&mut self, area: u64, took: Micros) {
        if area >= MEASURED_AREA_MIN {
            self.us_per_pixel += (took as f64 / area as f64 - self.us_per_pixel) * US_PER_PIXEL_WEIGHT;
        }
    }

    /// How long a job of so many pixels will take.
    pub(crate) fn work_time(&self, area: u64) -> Micros {
        (area as f64 * self.us_per_pixel) as Micros
    }

    /// How long the jobs at the workers will take, all of them.
    pub(crate) fn work(&self) -> Micros {
        self.work.iter().map(|&(_, time)| time).sum()
    }

    /// Pixels that are encoded in so much time.
    pub(crate) fn work_area(&self, time: Micros) -> u64 {
        (time as f64 / self.us_per_pixel.max(1e-6)) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CAPS: u32 = ViewerCaps::PACKED | ViewerCaps::LOSSY;
    /// More than any link carries in a moment.
    const SCREEN: u64 = 16384 * 4096;
    /// How often rates are looked at, and for how long.
    const EVERY: Micros = 50_000;
    const LOOKS: usize = 1200;

    fn at(rate: Rate) -> Adaptation {
        let mut adaptation = Adaptation::new(CAPS, LossyPolicy::Auto);
        adaptation.look(rate, 0);
        adaptation
    }

    fn chosen(adaptation: &Adaptation) -> (Entropy, Option<JpegProfile>) {
        (adaptation.entropy(), adaptation.lossy(SCREEN))
    }

    /// When each choice changed.
    fn changes(adaptation: &mut Adaptation, rates: impl Iterator<Item = u64>) -> (Vec<Micros>, Vec<Micros>) {
        let (mut packing, mut nearness) = (Vec::new(), Vec::new());
        for (i, rate) in rates.enumerate() {
            let now = i as Micros * EVERY;
            let before = chosen(adaptation);
            adaptation.look(Rate::Measured(rate), now);
            let after = chosen(adaptation);
            if before.0 != after.0 {
                packing.push(now);
            }
            if before.1 != after.1 {
                nearness.push(now);
            }
        }
        (packing, nearness)
    }

    #[test]
    fn bytes_where_the_link_is_fast_and_time_where_it_is_slow() {
        use JpegProfile::{High, Low, Medium};
        let small = Entropy::Stream { level: LEVEL_SMALL };
        let fast = Entropy::Stream { level: LEVEL_FAST };
        for (mbit, expected) in [
            (1, (small, Some(Low))),
            (5, (small, Some(Medium))),
            (10, (small, Some(Medium))),
            (18, (small, Some(High))),
            (25, (fast, Some(High))),
            (100, (fast, None)),
            (1000, (Entropy::None, None)),
        ] {
            assert_eq!(chosen(&at(Rate::Measured(mbit * MBIT))), expected, "{mbit} Mbit/s");
        }
    }

    #[test]
    fn nothing_is_sent_lossy_before_a_link_is_known_to_be_slow() {
        for rate in [Rate::Unknown, Rate::AtLeast(MBIT)] {
            assert_eq!(chosen(&at(rate)), (Entropy::Stream { level: LEVEL_FAST }, None), "{rate:?}");
        }
    }

    #[test]
    fn nor_to_a_viewer_that_cannot_show_it_nor_where_it_is_forbidden() {
        for (caps, policy) in [(ViewerCaps::PACKED, LossyPolicy::Auto), (CAPS, LossyPolicy::Never)] {
            let mut adaptation = Adaptation::new(caps, policy);
            adaptation.look(Rate::Measured(MBIT), 0);
            assert_eq!(adaptation.lossy(SCREEN), None);
        }
        let mut plain = Adaptation::new(ViewerCaps::LOSSY, LossyPolicy::Auto);
        plain.look(Rate::Measured(MBIT), 0);
        assert_eq!(plain.entropy(), Entropy::Block { level: LEVEL_SMALL }, "and what knows no stream gets none");
        let mut unordered = at(Rate::Measured(MBIT));
        unordered.set_arrival(Arrival::Unordered);
        assert_eq!(unordered.entropy(), Entropy::Block { level: LEVEL_SMALL }, "nor does what may be lost");
    }

    #[test]
    fn what_is_through_in_a_moment_is_sent_exactly() {
        let adaptation = at(Rate::Measured(10 * MBIT));
        assert_eq!(adaptation.lossy(100 * 100), None, "15 kB take 12 ms");
        assert_eq!(adaptation.lossy(300 * 200), Some(JpegProfile::Medium), "90 kB take 72 ms");
    }

    #[test]
    fn a_slow_machine_packs_less() {
        let mut adaptation = at(Rate::Measured(100 * MBIT));
        let rates = || std::iter::repeat_n(100 * MBIT, LOOKS);
        assert_eq!(changes(&mut adaptation, rates()).0, []);
        for _ in 0..20 {
            // 60 ns a pixel: a fifth of the speed that the bounds are for.
            adaptation.encode_took(1_000_000, 60_000);
        }
        assert_eq!(changes(&mut adaptation, rates()).0.len(), 1);
        assert_eq!(adaptation.entropy(), Entropy::None);
        for _ in 0..20 {
            // Without packing it takes half as long, which says nothing else of the machine.
            adaptation.encode_took(1_000_000, 29_000);
        }
        assert_eq!(changes(&mut adaptation, rates()).0, []);
    }

    #[test]
    fn no_more_than_a_frame_time_of_work_waits_whatever_a_pixel_takes() {
        for ns_per_pixel in [5, 12, 200] {
            let mut adaptation = at(Rate::Unknown);
            for _ in 0..40 {
                adaptation.work_took(1_000_000, 1000 * ns_per_pixel);
            }
            let area = adaptation.work_area(ENCODE_TIME_MAX);
            assert!(
                (area * ns_per_pixel / 1000).abs_diff(ENCODE_TIME_MAX) <= ENCODE_TIME_MAX / 50,
                "{ns_per_pixel} ns"
            );
            adaptation.work_begins(JobId(1), area / 2);
            adaptation.work_begins(JobId(2), area / 4);
            assert!(adaptation.work().abs_diff(ENCODE_TIME_MAX * 3 / 4) <= ENCODE_TIME_MAX / 50);
            adaptation.work_ends(JobId(1));
            assert!(adaptation.work().abs_diff(ENCODE_TIME_MAX / 4) <= ENCODE_TIME_MAX / 50);
        }
    }

    proptest! {
        #[test]
        fn a_rate_that_sways_round_a_bound_changes_a_choice_once_at_most(
            bound in prop::sample::select([&ENTROPY_BOUNDS[..], &LOSSY_BOUNDS].concat()),
            off in 0.7..1.4f64,
            sway in prop::collection::vec(0.8..1.25f64, LOOKS),
        ) {
            let mut adaptation = Adaptation::new(CAPS, LossyPolicy::Auto);
            let rates = sway.iter().map(|sway| (bound as f64 * off * sway) as u64);
            adaptation.look(Rate::Measured((bound as f64 * off) as u64), 0);
            let (packing, nearness) = changes(&mut adaptation, rates);
            prop_assert!(packing.len() <= 1 && nearness.len() <= 1, "{:?}, {:?}", packing, nearness);
        }

        #[test]
        fn whatever_a_rate_does_choices_stay_a_while(rates in prop::collection::vec(MBIT..1000 * MBIT, LOOKS)) {
            let mut adaptation = at(Rate::Measured(rates[0]));
            let (packing, nearness) = changes(&mut adaptation, rates.iter().copied());
            let apart = |times: &[Micros], hold: Micros| times.windows(2).all(|pair| pair[1] - pair[0] >= hold);
            prop_assert!(apart(&packing, ENTROPY_HOLD), "{:?}", packing);
            prop_assert!(apart(&nearness, LOSSY_HOLD), "{:?}", nearness);
        }

        #[test]
        fn a_rate_that_has_really_changed_is_followed(from in 1..1000u64, to in 1..1000u64) {
            let mut adaptation = at(Rate::Measured(from * MBIT));
            changes(&mut adaptation, std::iter::repeat_n(to * MBIT, LOOKS));
            // Where both lie within a quarter of a bound, either side of it will do.
            let near = |bounds: &[u64]| {
                bounds.iter().any(|&bound| ((to * MBIT) as f64 / bound as f64).ln().abs() <= CLEAR.ln() + 1e-9)
            };
            let fresh = at(Rate::Measured(to * MBIT));
            prop_assert!(near(&ENTROPY_BOUNDS) || adaptation.entropy() == fresh.entropy());
            prop_assert!(near(&LOSSY_BOUNDS) || adaptation.lossy(SCREEN) == fresh.lossy(SCREEN));
        }
    }
}
