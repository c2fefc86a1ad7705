//! Path 6/13: beside flow.rs, whose rate it reads, to viewer.rs, which passes the result to each
//! job.
//! How one viewer's pixels are encoded: for speed on a fast link, for size on a slow one, with
//! lossy photographs if they would take too long.
//! Knows rates, pixel counts and times; never pixels, encoders or why a link is slow.
//!
//! Two ladders: where bytes are packed, and the quality of photographs. A rate changes the step
//! only if it passes the bound clearly and for a while: each change of packing restarts the
//! connection's context, and a photograph with two qualities looks broken.

pub(crate) mod choice;
pub(crate) mod refresh;

use thinc_protocol::Micros;
use thinc_protocol::picture_quality::PictureQuality;
use thinc_protocol::viewer::ViewerCaps;

use crate::delivery::effects::DeliveryOrder;
use crate::delivery::ledger::JobId;

use choice::QualityChoice;
use refresh::Refresh;

/// Where bytes are packed after the pixel operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// Nowhere: the link carries them faster than they could be packed.
    None,
    /// By the one stream of the connection, when an update is sent.
    Stream {
        /// The level of zstd.
        level: i32,
    },
    /// Each rectangle by itself, if updates may be lost or the viewer takes no stream.
    Block {
        /// The level of zstd.
        level: i32,
    },
}

/// The quality of a photograph: TurboVNC's three profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JpegProfile {
    /// 4:4:4, quality 95: no visible difference; a third of the lossless bytes.
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
    /// The profile for photographs; `None`: everything is lossless, including pixels that the
    /// viewer shows lossy so far.
    pub lossy: Option<JpegProfile>,
}

impl Default for Quality {
    /// What every viewer takes, lossless.
    fn default() -> Quality {
        Quality { entropy: Entropy::Block { level: LEVEL_FAST }, lossy: None }
    }
}

/// Whether anything may be sent lossy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossyPolicy {
    /// Photographs, if the link is slow and the viewer can show them; refreshed once at rest.
    #[default]
    Auto,
    /// Nothing.
    Never,
    /// Photographs on every link, however few: for the simulator, whose screens are small.
    Always,
}

/// Whether videos are sent as streams, to viewers that take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoPolicy {
    /// Yes: plain if the path carries twice their bytes, else coded.
    #[default]
    Auto,
    /// No: all videos are pixels.
    Off,
    /// Only those of XVideo, and never coded.
    Plain,
    /// All, and always coded.
    H264,
}

/// An estimate of a path's rate, in bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateEstimate {
    /// Nothing was measured.
    Unknown,
    /// The path carried so much, and was never full.
    AtLeast(u64),
    /// The path carried so much while it was full.
    Measured(u64),
}

const MBIT: u64 = 125_000;
/// Rates between the steps of [`Entropy`]: level 3, level 1, none. There the bytes that a step
/// saves take as long as its work: 9.5 of 9.7 MB for 0.10 s of 0.24, 9.7 of 13.1 MB for 0.12 s (a
/// corpus of screens of 77 MB, one core).
const ENTROPY_BOUNDS: [u64; 2] = [20 * MBIT, 300 * MBIT];
/// Rates between the profiles; above the last everything is lossless. A photograph of 1024 × 768
/// (1.2 MB lossless, then 0.46, 0.18 and 0.07) takes a fifth to half a second at each of them.
const LOSSY_BOUNDS: [u64; 3] = [3 * MBIT, 15 * MBIT, 50 * MBIT];
/// Levels of zstd: below the lower bound, and above it.
const LEVEL_SMALL: i32 = 3;
const LEVEL_FAST: i32 = 1;
/// By which factor and for how long a rate must pass a bound before the step changes. A rate is the
/// maximum of ten rounds and varies by a tenth; on a shared path by half, but not in one direction
/// for a second.
const HYSTERESIS: f64 = 1.25;
const ENTROPY_HOLD: Micros = 5_000_000;
const LOSSY_HOLD: Micros = 1_000_000;
/// Photographs are lossless if all pending pixels take no longer than this, two frames: nobody
/// would see the lossy state, and they are sent only once.
const LOSSLESS_TIME_MAX: Micros = 33_000;
/// Lossless bytes of a photograph's pixel, and so the most that pending pixels take.
const PHOTO_BYTES_PER_PIXEL: f64 = 1.5;
/// Nanoseconds a pixel, including packing, by step, on the machine on which the bounds of
/// [`Entropy`] were measured.
const NOMINAL_NS_PER_PIXEL: [f64; 3] = [17.6, 12.3, 5.8];
/// Largest assumed slowness of a machine. A faster machine changes nothing: its bytes are few
/// enough.
const SLOWNESS_MAX: f64 = 8.0;
/// Pixels after which a measurement counts, and half of it is forgotten: four full screens, or a
/// minute of typing. A single photograph must not make a machine look slow.
const MEASURED_PIXELS: f64 = 8e6;
/// One frame of a 60 Hz screen: most encoding work that waits for the workers. More would be older
/// than the next frame.
pub(crate) const ENCODE_TIME_MAX: Micros = 16_667;
/// Most jobs of one viewer that count as encoding work; no more wait between commit and sending.
const WORK_MAX: usize = crate::delivery::ledger::UNSENT_MAX;
/// Microseconds per pixel of a job before one was measured: that of the middle level.
const US_PER_PIXEL_INITIAL: f64 = 0.012;
/// Weight of a new measurement of it.
const US_PER_PIXEL_WEIGHT: f64 = 0.25;
/// Fewest pixels of a job that measure the time per pixel; below it the call dominates.
const MEASURED_AREA_MIN: u64 = 4096;

/// The current step of a rate, with hysteresis.
#[derive(Clone, Debug)]
struct Ladder {
    bounds: &'static [u64],
    hold: Micros,
    step: usize,
    /// A measured rate has chosen the step.
    placed: bool,
    /// The direction in which the rate has passed the step's bound, and since when.
    pending_change: Option<(bool, Micros)>,
}

impl Ladder {
    fn new(bounds: &'static [u64], hold: Micros, step: usize) -> Ladder {
        Ladder { bounds, hold, step, placed: false, pending_change: None }
    }

    /// The step of a rate, without hysteresis.
    fn step_of(&self, figure: f64) -> usize {
        self.bounds.iter().take_while(|&&bound| figure >= bound as f64).count()
    }

    /// Updates the step for this rate.
    fn update(&mut self, rate: RateEstimate, slowness: f64, now: Micros) -> usize {
        let figure = match rate {
            RateEstimate::Unknown => return self.step,
            RateEstimate::AtLeast(figure) | RateEstimate::Measured(figure) => {
                figure as f64 * slowness
            }
        };
        if !self.placed && matches!(rate, RateEstimate::Measured(_)) {
            (self.placed, self.step) = (true, self.step_of(figure));
            return self.step;
        }
        let above =
            self.bounds.get(self.step).is_some_and(|&bound| figure > bound as f64 * HYSTERESIS);
        let below = self.step > 0 && figure < self.bounds[self.step - 1] as f64 / HYSTERESIS;
        // A lower bound of the rate is no reason to step down.
        let below = below && matches!(rate, RateEstimate::Measured(_));
        let since = match self.pending_change {
            _ if !above && !below => {
                self.pending_change = None;
                return self.step;
            }
            Some((up, since)) if up == above => since,
            _ => now,
        };
        self.pending_change = Some((above, since));
        if now.saturating_sub(since) >= self.hold {
            self.pending_change = None;
            self.step = self.step_of(figure);
        }
        self.step
    }
}

/// How one viewer's pixels are encoded now.
#[derive(Debug)]
pub(crate) struct Adaptation {
    packs: bool,
    lossy: LossyPolicy,
    /// What the person has chosen, and what that is now.
    pub(crate) choice: QualityChoice,
    chosen: PictureQuality,
    entropy: Ladder,
    profile: Ladder,
    rate: u64,
    /// Pixels encoded with the current step, and the time they took; both decay.
    pixels: f64,
    took_us: f64,
    slowness: f64,
    /// Time per pixel of a job, equal pixels included, to estimate the waiting work.
    us_per_pixel: f64,
    /// Jobs at the workers, and their estimated time.
    work: Vec<(JobId, Micros)>,
    /// The pixels that the viewer shows lossy.
    pub(crate) refresh: Refresh,
}

impl Adaptation {
    pub(crate) fn new(caps: u32, policy: LossyPolicy) -> Adaptation {
        Adaptation {
            packs: caps & ViewerCaps::PACKED != 0,
            lossy: if caps & ViewerCaps::LOSSY != 0 { policy } else { LossyPolicy::Never },
            choice: QualityChoice::default(),
            chosen: PictureQuality::default(),
            // Until a rate is known: the middle level, and lossless photographs.
            entropy: Ladder::new(&ENTROPY_BOUNDS, ENTROPY_HOLD, 1),
            profile: Ladder::new(&LOSSY_BOUNDS, LOSSY_HOLD, LOSSY_BOUNDS.len()),
            rate: 0,
            pixels: 0.0,
            took_us: 0.0,
            slowness: 1.0,
            us_per_pixel: US_PER_PIXEL_INITIAL,
            work: Vec::new(),
            refresh: Refresh::default(),
        }
    }

    pub(crate) fn set_delivery_order(&mut self, arrival: DeliveryOrder) {
        // A packing stream cannot contain lost or late updates.
        self.packs &= arrival != DeliveryOrder::Unordered;
    }

    /// A new geometry: no job of the old one comes back, and none of its pixels is shown.
    pub(crate) fn reset(&mut self) {
        self.work.clear();
        self.choice.reset();
        self.refresh.reset();
    }

    /// Takes the path's rate.
    pub(crate) fn update(&mut self, rate: RateEstimate, now: Micros) {
        if let RateEstimate::AtLeast(rate) | RateEstimate::Measured(rate) = rate {
            self.rate = rate;
        }
        let before = self.entropy.step;
        // A machine that encodes slowly counts as one with a faster link: its bytes cost more.
        if self.entropy.update(rate, self.slowness, now) != before {
            (self.pixels, self.took_us) = (0.0, 0.0);
        }
        self.profile.update(rate, 1.0, now);
        self.chosen = self.choice.current(now);
    }

    /// What the person has chosen, as of the last update.
    pub(crate) fn chosen(&self) -> PictureQuality {
        self.chosen
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

    /// The profile of photographs with so many pixels pending. None: lossless.
    pub(crate) fn lossy(&self, waiting: u64) -> Option<JpegProfile> {
        self.profile_for(waiting, self.profile.step)
    }

    /// The profile if the next drawing comes before this one was sent: one step lower, which
    /// doubles the frames shown.
    pub(crate) fn lossy_reduced(&self, waiting: u64) -> Option<JpegProfile> {
        self.profile_for(waiting, self.profile.step.saturating_sub(1))
    }

    fn profile_for(&self, waiting: u64, step: usize) -> Option<JpegProfile> {
        let passes = waiting as f64 * PHOTO_BYTES_PER_PIXEL * 1e6
            <= self.rate as f64 * LOSSLESS_TIME_MAX as f64;
        let profiles = [JpegProfile::Low, JpegProfile::Medium, JpegProfile::High];
        let by_rate = profiles.get(step).copied();
        let chosen = match self.chosen {
            PictureQuality::Auto => None,
            PictureQuality::Exact => return None,
            PictureQuality::High => Some(JpegProfile::High),
            PictureQuality::Medium => Some(JpegProfile::Medium),
            PictureQuality::Low => Some(JpegProfile::Low),
        };
        match self.lossy {
            // On a fast path all are lossless, whatever was chosen.
            LossyPolicy::Auto if !passes => by_rate.map(|by_rate| chosen.unwrap_or(by_rate)),
            LossyPolicy::Auto | LossyPolicy::Never => None,
            LossyPolicy::Always => chosen.or(by_rate).or(Some(JpegProfile::High)),
        }
    }

    /// The profile of what moves in known frames, if it may be sent as lossy pictures: the path is
    /// so fast that even photographs are lossless. Below, a video stream takes fewer bytes, but
    /// seldom has colours of full resolution.
    pub(crate) fn pictures(&self) -> Option<JpegProfile> {
        let is_fast = match self.lossy {
            LossyPolicy::Auto => self.profile.step == LOSSY_BOUNDS.len(),
            LossyPolicy::Never => return None,
            LossyPolicy::Always => true,
        };
        match self.chosen {
            // Visibly lossless, and the cheapest to encode of all that is much smaller than pixels.
            PictureQuality::Auto => is_fast.then_some(JpegProfile::High),
            PictureQuality::Exact => None,
            PictureQuality::High => Some(JpegProfile::High),
            PictureQuality::Medium => is_fast.then_some(JpegProfile::Medium),
            PictureQuality::Low => is_fast.then_some(JpegProfile::Low),
        }
    }

    /// Encoding so many pixels took so long. Packing counts no pixels, since the encoder has
    /// counted them.
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

    /// A job of so many pixels is given to the workers.
    pub(crate) fn work_begins(&mut self, job: JobId, area: u64) {
        if self.work.len() < WORK_MAX {
            self.work.push((job, self.work_time(area)));
        }
    }

    /// A job came back, or never will.
    pub(crate) fn work_ends(&mut self, job: JobId) {
        self.work.retain(|&(id, _)| id != job);
    }

    /// A job of so many pixels took so long.
    pub(crate) fn work_took(&mut self, area: u64, took: Micros) {
        if area >= MEASURED_AREA_MIN {
            self.us_per_pixel +=
                (took as f64 / area as f64 - self.us_per_pixel) * US_PER_PIXEL_WEIGHT;
        }
    }

    /// Estimated time of a job of so many pixels.
    pub(crate) fn work_time(&self, area: u64) -> Micros {
        (area as f64 * self.us_per_pixel) as Micros
    }

    /// Estimated time of all jobs at the workers.
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
    /// More pixels than any link carries in a moment.
    const SCREEN: u64 = 16384 * 4096;
    /// Interval and number of updates.
    const EVERY: Micros = 50_000;
    const UPDATES: usize = 1200;

    fn at(rate: RateEstimate) -> Adaptation {
        let mut adaptation = Adaptation::new(CAPS, LossyPolicy::Auto);
        adaptation.update(rate, 0);
        adaptation
    }

    fn chosen(adaptation: &Adaptation) -> (Entropy, Option<JpegProfile>) {
        (adaptation.entropy(), adaptation.lossy(SCREEN))
    }

    /// When each choice changed.
    fn changes(
        adaptation: &mut Adaptation,
        rates: impl Iterator<Item = u64>,
    ) -> (Vec<Micros>, Vec<Micros>) {
        let (mut packing, mut profile) = (Vec::new(), Vec::new());
        for (i, rate) in rates.enumerate() {
            let now = i as Micros * EVERY;
            let before = chosen(adaptation);
            adaptation.update(RateEstimate::Measured(rate), now);
            let after = chosen(adaptation);
            if before.0 != after.0 {
                packing.push(now);
            }
            if before.1 != after.1 {
                profile.push(now);
            }
        }
        (packing, profile)
    }

    #[test]
    fn a_fast_link_saves_time_and_a_slow_link_saves_bytes() {
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
            assert_eq!(chosen(&at(RateEstimate::Measured(mbit * MBIT))), expected, "{mbit} Mbit/s");
        }
    }

    #[test]
    fn nothing_is_sent_lossy_before_a_link_is_known_to_be_slow() {
        for rate in [RateEstimate::Unknown, RateEstimate::AtLeast(MBIT)] {
            assert_eq!(
                chosen(&at(rate)),
                (Entropy::Stream { level: LEVEL_FAST }, None),
                "{rate:?}"
            );
        }
    }

    #[test]
    fn nothing_is_sent_lossy_if_the_viewer_or_the_policy_excludes_it() {
        for (caps, policy) in [(ViewerCaps::PACKED, LossyPolicy::Auto), (CAPS, LossyPolicy::Never)]
        {
            let mut adaptation = Adaptation::new(caps, policy);
            adaptation.update(RateEstimate::Measured(MBIT), 0);
            assert_eq!(adaptation.lossy(SCREEN), None);
        }
        let mut plain = Adaptation::new(ViewerCaps::LOSSY, LossyPolicy::Auto);
        plain.update(RateEstimate::Measured(MBIT), 0);
        assert_eq!(
            plain.entropy(),
            Entropy::Block { level: LEVEL_SMALL },
            "a viewer without a packing stream gets blocks"
        );
        let mut unordered = at(RateEstimate::Measured(MBIT));
        unordered.set_delivery_order(DeliveryOrder::Unordered);
        assert_eq!(
            unordered.entropy(),
            Entropy::Block { level: LEVEL_SMALL },
            "so does a connection that may lose updates"
        );
    }

    #[test]
    fn a_photograph_that_passes_in_a_moment_is_lossless() {
        let adaptation = at(RateEstimate::Measured(10 * MBIT));
        assert_eq!(adaptation.lossy(100 * 100), None, "15 kB take 12 ms");
        assert_eq!(adaptation.lossy(300 * 200), Some(JpegProfile::Medium), "90 kB take 72 ms");
    }

    #[test]
    fn a_chosen_quality_replaces_the_one_of_the_rate() {
        use JpegProfile::{High, Low, Medium};
        for mbit in [1, 10, 100, 1000] {
            let is_fast = mbit >= 50;
            for (choice, photos, pictures) in [
                (PictureQuality::Exact, None, None),
                (PictureQuality::High, Some(High), Some(High)),
                (PictureQuality::Medium, Some(Medium), is_fast.then_some(Medium)),
                (PictureQuality::Low, Some(Low), is_fast.then_some(Low)),
            ] {
                let mut adaptation = Adaptation::new(CAPS, LossyPolicy::Auto);
                adaptation.choice.choose(choice);
                adaptation.update(RateEstimate::Measured(mbit * MBIT), 0);
                let on_this_path = photos.filter(|_| !is_fast);
                assert_eq!(adaptation.lossy(SCREEN), on_this_path, "{choice:?}, {mbit} Mbit/s");
                assert_eq!(adaptation.lossy_reduced(SCREEN), photos, "{choice:?}, {mbit} Mbit/s");
                assert_eq!(adaptation.lossy(10), None, "what passes in a moment");
                assert_eq!(adaptation.pictures(), pictures, "{choice:?}, {mbit} Mbit/s");
            }
        }
        let mut never = Adaptation::new(CAPS, LossyPolicy::Never);
        never.choice.choose(PictureQuality::Low);
        never.update(RateEstimate::Measured(MBIT), 0);
        assert_eq!((never.lossy(SCREEN), never.pictures()), (None, None), "the session's policy");
    }

    #[test]
    fn a_slow_machine_packs_less() {
        let mut adaptation = at(RateEstimate::Measured(100 * MBIT));
        let rates = || std::iter::repeat_n(100 * MBIT, UPDATES);
        assert_eq!(changes(&mut adaptation, rates()).0, []);
        for _ in 0..20 {
            // 60 ns a pixel: a fifth of the speed that the bounds assume.
            adaptation.encode_took(1_000_000, 60_000);
        }
        assert_eq!(changes(&mut adaptation, rates()).0.len(), 1);
        assert_eq!(adaptation.entropy(), Entropy::None);
        for _ in 0..20 {
            // Without packing it takes half as long, which is no other speed.
            adaptation.encode_took(1_000_000, 29_000);
        }
        assert_eq!(changes(&mut adaptation, rates()).0, []);
    }

    #[test]
    fn waiting_work_is_at_most_a_frame_time_at_any_time_per_pixel() {
        for ns_per_pixel in [5, 12, 200] {
            let mut adaptation = at(RateEstimate::Unknown);
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
        fn a_rate_that_varies_around_a_bound_changes_a_choice_once_at_most(
            bound in prop::sample::select([&ENTROPY_BOUNDS[..], &LOSSY_BOUNDS].concat()),
            off in 0.7..1.4f64,
            sway in prop::collection::vec(0.8..1.25f64, UPDATES),
        ) {
            let mut adaptation = Adaptation::new(CAPS, LossyPolicy::Auto);
            let rates = sway.iter().map(|sway| (bound as f64 * off * sway) as u64);
            adaptation.update(RateEstimate::Measured((bound as f64 * off) as u64), 0);
            let (packing, profile) = changes(&mut adaptation, rates);
            prop_assert!(packing.len() <= 1 && profile.len() <= 1, "{:?}, {:?}", packing, profile);
        }

        #[test]
        fn choices_stay_for_a_while_at_any_rate(
            rates in prop::collection::vec(MBIT..1000 * MBIT, UPDATES),
        ) {
            let mut adaptation = at(RateEstimate::Measured(rates[0]));
            let (packing, profile) = changes(&mut adaptation, rates.iter().copied());
            let apart = |times: &[Micros], hold: Micros| {
                times.windows(2).all(|pair| pair[1] - pair[0] >= hold)
            };
            prop_assert!(apart(&packing, ENTROPY_HOLD), "{:?}", packing);
            prop_assert!(apart(&profile, LOSSY_HOLD), "{:?}", profile);
        }

        #[test]
        fn a_lasting_change_of_the_rate_is_followed(from in 1..1000u64, to in 1..1000u64) {
            let mut adaptation = at(RateEstimate::Measured(from * MBIT));
            changes(&mut adaptation, std::iter::repeat_n(to * MBIT, UPDATES));
            // If both lie within a quarter of a bound, either side of it is right.
            let near = |bounds: &[u64]| {
                bounds.iter().any(|&bound| {
                    let ratio = (to * MBIT) as f64 / bound as f64;
                    ratio.ln().abs() <= HYSTERESIS.ln() + 1e-9
                })
            };
            let fresh = at(RateEstimate::Measured(to * MBIT));
            prop_assert!(near(&ENTROPY_BOUNDS) || adaptation.entropy() == fresh.entropy());
            prop_assert!(near(&LOSSY_BOUNDS) || adaptation.lossy(SCREEN) == fresh.lossy(SCREEN));
        }
    }
}
