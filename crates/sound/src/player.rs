//! From jitter.rs, to the audio device that pulls: SDL's in thinc-view, an AudioWorklet in a page.
//! Decodes what is due, conceals what is missing, and resamples at jitter.rs's rate. Knows samples
//! and when they were asked for; never a device.

use thinc_protocol::Micros;
use thinc_protocol::sound::{SoundFormat, SoundPacket};

use crate::decode::{Decoder, OpusDecoder};
use crate::jitter::{Counts, JitterBuffer, Join, Step};
use crate::resample::Resampler;
use crate::{CHANNELS, samples_us};

/// Length of a crossfade, in samples: 5 ms.
const CROSSFADE: usize = 240;
/// A device that asks at a time that differs by more has paused.
const PAUSE: f64 = 100_000.0;
/// In this time the smoothed clock follows the device, in microseconds.
const CLOCK_TIME: f64 = 500_000.0;
/// In this time it is forgotten how early a device has asked.
const LEAD_TIME: f64 = 5_000_000.0;

/// When a device's samples are due, which asks for them in bursts.
#[derive(Debug, Default)]
struct PullClock {
    /// When the next sample that it asks for is due, by the smoothed clock; None before the first.
    at: Option<f64>,
    /// How much earlier it was asked for at most.
    early: f64,
}

impl PullClock {
    /// The device asks for so many samples at `now`; returns when the first is due, and how much
    /// earlier than due the last may be asked for.
    fn pull(&mut self, now: Micros, samples: usize) -> (Micros, Micros) {
        let (now, length) = (now as f64, samples_us(samples as u64) as f64);
        let at = match self.at.filter(|at| (at - now).abs() < PAUSE) {
            Some(at) => {
                let early = at - now;
                self.early -= self.early * (length / LEAD_TIME).min(1.0);
                self.early = self.early.max(early);
                at - early * (length / CLOCK_TIME).min(1.0)
            }
            None => now,
        };
        self.at = Some(at + length);
        (at.max(0.0) as Micros, (self.early + length) as Micros)
    }
}

/// What a viewer tells the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The time of the sample at the ear; None: it is silent.
    pub heard: Option<Micros>,
    /// Microseconds from the arrival of the quickest frame to the ear.
    pub delay_us: u32,
    /// Since the beginning.
    pub counts: Counts,
}

/// Plays one connection's sound.
#[derive(Debug)]
pub struct Player<O> {
    jitter: JitterBuffer,
    decoder: Decoder<O>,
    resampler: Resampler,
    clock: PullClock,
    /// A frame's samples, and those that it is faded with.
    samples: Vec<f32>,
    fading: Vec<f32>,
    volume: f32,
    /// As the newest sample had it.
    volume_now: f32,
    /// Samples of silence since the last sound.
    silence: u64,
    /// Frames that were no valid packets.
    malformed: u32,
}

impl<O: OpusDecoder> Player<O> {
    /// Plays what it is given with this decoder.
    pub fn new(opus: O) -> Player<O> {
        Player {
            jitter: JitterBuffer::new(),
            decoder: Decoder::new(opus),
            resampler: Resampler::new(),
            clock: PullClock::default(),
            samples: Vec::new(),
            fading: Vec::new(),
            volume: 1.0,
            volume_now: 1.0,
            silence: 0,
            malformed: 0,
        }
    }

    /// The format of a generation.
    pub fn handle_format(&mut self, format: SoundFormat) {
        self.jitter.handle_format(format);
    }

    /// A packet arrived at `now`.
    pub fn handle_packet(&mut self, packet: &SoundPacket<'_>, now: Micros) {
        self.jitter.handle_packet(packet, now);
    }

    /// The clock of `now` stood still until now: it is the device's own, which was suspended.
    pub fn handle_clock_stopped(&mut self, now: Micros) {
        self.jitter.handle_clock_stopped(now);
    }

    /// From 0 to 1; changes are faded.
    pub fn set_volume(&mut self, volume: f32) {
        self.volume = if volume.is_finite() { volume.clamp(0.0, 1.0) } else { 0.0 };
    }

    /// Makes sound later, for pictures that are seen later.
    pub fn set_extra(&mut self, extra: Micros) {
        self.jitter.set_extra(extra);
    }

    /// Samples of silence since the last sound, while nothing waits: the shell may stop its device
    /// after a while. 0 while there is sound.
    pub fn silence(&self) -> u64 {
        if self.jitter.is_silent() { self.silence } else { 0 }
    }

    /// Fills `out`, two channels interleaved, of which the device asks for the first sample at
    /// `now`. Never blocks.
    pub fn pull(&mut self, out: &mut [f32], now: Micros) {
        let (at, lead) = self.clock.pull(now, out.len() / CHANNELS);
        let mut written = 0;
        loop {
            written += self.resampler.pull(&mut out[written..], self.jitter.rate());
            if written + CHANNELS > out.len() {
                break;
            }
            let ahead = written / CHANNELS + self.resampler.waiting();
            let step = self.jitter.next(at + samples_us(ahead as u64), lead);
            self.append(step);
        }
        out[written..].fill(0.0);
        self.fade_volume(out);
    }

    fn append(&mut self, step: Step) {
        match step {
            Step::Play { bytes, format, join } => {
                if join == Join::Jumps {
                    let samples = CROSSFADE.min(usize::from(format.frame));
                    self.decoder.conceal(&format, samples, &mut self.fading);
                }
                if !self.decoder.decode(&format, &bytes, &mut self.samples) {
                    self.malformed = self.malformed.saturating_add(1);
                    self.decoder.conceal(&format, usize::from(format.frame), &mut self.samples);
                }
                match join {
                    Join::Continues => {}
                    Join::Starts => self.resampler.settle(),
                    Join::Resumes => {
                        self.resampler.settle();
                        ramp(&mut self.samples, CROSSFADE, |part| part);
                    }
                    Join::Jumps => {
                        let length = self.fading.len() / CHANNELS;
                        ramp(&mut self.samples, length, |part| part);
                        ramp(&mut self.fading, length, |part| 1.0 - part);
                        let old = self.samples.iter_mut().zip(&self.fading);
                        old.for_each(|(new, old)| *new += old);
                    }
                }
                self.silence = 0;
                self.resampler.push(&self.samples);
            }
            Step::Conceal { format, fade } => {
                let samples = usize::from(format.frame);
                self.decoder.conceal(&format, samples, &mut self.samples);
                if fade {
                    ramp(&mut self.samples, samples, |part| 1.0 - part);
                }
                self.resampler.push(&self.samples);
            }
            Step::Silence(samples) => {
                self.silence = self.silence.saturating_add(samples);
                self.samples.clear();
                self.samples.resize(samples as usize * CHANNELS, 0.0);
                self.resampler.push(&self.samples);
            }
        }
    }

    fn fade_volume(&mut self, out: &mut [f32]) {
        let (from, to) = (self.volume_now, self.volume);
        let length = (out.len() / CHANNELS) as f32;
        for (n, frame) in out.as_chunks_mut::<CHANNELS>().0.iter_mut().enumerate() {
            let volume = from + (to - from) * (n as f32 / length);
            frame.iter_mut().for_each(|sample| *sample *= volume);
        }
        self.volume_now = to;
    }

    /// What to tell the session at `now`, of a device at which a sample is heard so long after it
    /// was due.
    pub fn report(&self, now: Micros, device: Micros) -> Report {
        let next = self
            .jitter
            .time()
            .map(|time| time.saturating_sub(samples_us(self.resampler.waiting() as u64)) as i64);
        let at = self.clock.at.map_or(now as i64, |at| at as i64);
        let heard = next.map(|next| next - (at - now as i64) - device as i64);
        let delay = next.zip(self.jitter.least_delay()).map_or(0, |(next, least)| {
            at.saturating_sub(next).saturating_sub(least).saturating_add(device as i64)
        });
        Report {
            heard: heard.map(|heard| heard.max(0) as Micros),
            delay_us: u32::try_from(delay.max(0)).unwrap_or(u32::MAX),
            counts: self.jitter.counts(),
        }
    }

    /// Frames that were no valid packets, and were concealed.
    pub fn malformed(&self) -> u32 {
        self.malformed
    }
}

/// Multiplies the first `length` samples of each channel by what `gain` makes of how far they are,
/// from 0 to 1.
fn ramp(samples: &mut [f32], length: usize, gain: impl Fn(f32) -> f32) {
    for (n, frame) in samples.as_chunks_mut::<CHANNELS>().0.iter_mut().take(length).enumerate() {
        let gain = gain(n as f32 / length as f32);
        frame.iter_mut().for_each(|sample| *sample *= gain);
    }
}
