//! Bytes, speed and memory of one codec. Speed is processor time of the one thread that works, so that a busy machine changes
//! it little; memory is the highest that the process had, above what it had before.
//! From samples to what `thinc-bench codecs` reads. Knows clocks and /proc; never which codec it is.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use thinc_bench::Error;
use thinc_bench::corpus::Index;
use thinc_bench::observe::picture::Picture;

use crate::codec::{Codec, Entry};
use crate::samples::{self, Set};

/// 20 s: after it a set is not encoded once more for the medians; what is so slow is slow enough to be timed once.
const SET_TIME_MAX: Duration = Duration::from_secs(20);

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    Encode,
    Decode,
}

/// Of one set.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    set: String,
    samples: usize,
    /// As a framebuffer has them, four bytes a pixel.
    raw_bytes: u64,
    bytes: u64,
    /// Of each pass, 10^6 raw bytes a second.
    encode_mb_s: Vec<f64>,
    decode_mb_s: Vec<f64>,
}

/// Encodes and decodes every set, and compares what comes back.
pub(crate) fn speed(entry: &Entry, index: &Index, pictures: &[Picture], passes: u32) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for set in samples::screens(index, pictures).into_iter().chain(samples::rectangles(index, pictures)) {
        if !set.samples.is_empty() {
            found.push(of_set(entry, &set, passes).map_err(|error| format!("{}, {}: {error}", entry.name, set.name))?);
        }
    }
    Ok(found)
}

fn of_set(entry: &Entry, set: &Set, passes: u32) -> Result<Found, Error> {
    let raw_bytes = set.samples.iter().map(|sample| sample.pixels.len() as u64 * 4).sum::<u64>();
    let mut found = Found {
        set: set.name.clone(),
        samples: set.samples.len(),
        raw_bytes,
        bytes: 0,
        encode_mb_s: vec![],
        decode_mb_s: vec![],
    };
    let mut encoded: Vec<Vec<u8>> = set.samples.iter().map(|_| Vec::new()).collect();
    let largest = set.samples.iter().map(|sample| sample.pixels.len()).max().unwrap_or_default();
    let mut pixels = vec![0; largest];
    let mut spent = Duration::ZERO;
    for _ in 0..passes {
        let mut sender = (entry.new)();
        let began = cpu_time();
        for (sample, encoded) in set.samples.iter().zip(&mut encoded) {
            sender.encode(sample, encoded)?;
        }
        let encoding = cpu_time().saturating_sub(began);
        drop(sender);
        let mut receiver = (entry.new)();
        let mut decoding = Duration::ZERO;
        for (sample, encoded) in set.samples.iter().zip(&encoded) {
            let pixels = &mut pixels[..sample.pixels.len()];
            let began = cpu_time();
            receiver.decode(encoded, sample.width, sample.height, pixels)?;
            decoding += cpu_time().saturating_sub(began);
            if !sample.equals(pixels) {
                return Err("what came back is not what was sent".into());
            }
        }
        let rate = |time: Duration| raw_bytes as f64 / 1e6 / time.as_secs_f64();
        found.bytes = encoded.iter().map(|encoded| encoded.len() as u64).sum();
        found.encode_mb_s.push(rate(encoding));
        found.decode_mb_s.push(rate(decoding));
        spent += encoding + decoding;
        if spent > SET_TIME_MAX {
            break;
        }
    }
    Ok(found)
}

/// Of the calling thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Of whole screens, one after the other.
#[derive(Debug, Serialize)]
pub(crate) struct Memory {
    /// The highest above what the pictures take, bytes.
    peak_bytes: u64,
}

/// Measures one end; the other's memory is none of its business.
pub(crate) fn memory(entry: &Entry, side: Side, index: &Index, pictures: &[Picture]) -> Result<Memory, Error> {
    let screens = samples::screens(index, pictures).swap_remove(0);
    match side {
        Side::Encode => {
            let before = begin_peak()?;
            let (mut codec, mut bytes) = ((entry.new)(), Vec::new());
            for sample in &screens.samples {
                codec.encode(sample, &mut bytes)?;
            }
            Ok(Memory { peak_bytes: peak()?.saturating_sub(before) })
        }
        Side::Decode => {
            let encoded = encode_elsewhere(entry, &screens)?;
            let mut pixels =
                vec![0; screens.samples.iter().map(|sample| sample.pixels.len()).max().unwrap_or_default()];
            // Touched, so that its pages are there before.
            pixels.fill(1);
            let before = begin_peak()?;
            let mut codec = (entry.new)();
            for (sample, encoded) in screens.samples.iter().zip(&encoded) {
                codec.decode(encoded, sample.width, sample.height, &mut pixels[..sample.pixels.len()])?;
            }
            Ok(Memory { peak_bytes: peak()?.saturating_sub(before) })
        }
    }
}

/// What is to be decoded. What the encoder needed lies free in the process then, and would be counted for nothing: an allocator's
/// arena of a thread that has ended is not used by this one.
fn encode_elsewhere(entry: &Entry, set: &Set) -> Result<Vec<Vec<u8>>, Error> {
    let new = entry.new;
    std::thread::scope(|scope| {
        let encoder = scope.spawn(move || -> Result<Vec<Vec<u8>>, Error> {
            let mut codec: Box<dyn Codec> = new();
            let encode = |sample| {
                let mut bytes = Vec::new();
                codec.encode(sample, &mut bytes).map(|()| bytes)
            };
            set.samples.iter().map(encode).collect()
        });
        encoder.join().map_err(|_| "the encoder has panicked")?
    })
}

/// Lets the kernel forget the highest so far, and says what there is now.
fn begin_peak() -> Result<u64, Error> {
    fs::write("/proc/self/clear_refs", "5")?;
    status_bytes("VmRSS:")
}

fn peak() -> Result<u64, Error> {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> Result<u64, Error> {
    let text = fs::read_to_string("/proc/self/status")?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.ok_or_else(|| format!("/proc/self/status says no {name}"))? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::testing;

    #[test]
    fn what_is_found_adds_up() {
        let entry = crate::codec::all().into_iter().find(|entry| entry.name == "qoi").unwrap();
        let set = Set { name: "test".into(), samples: testing::samples() };
        let found = of_set(&entry, &set, 3).unwrap();
        assert_eq!(
            found.raw_bytes,
            set.samples.iter().map(|sample| sample.width * sample.height * 4).sum::<usize>() as u64
        );
        assert!(found.bytes > 0 && found.bytes < found.raw_bytes);
        assert_eq!((found.encode_mb_s.len(), found.decode_mb_s.len()), (3, 3));
        assert!(found.encode_mb_s.iter().chain(&found.decode_mb_s).all(|&rate| rate > 0.0));
    }

    #[test]
    fn a_codec_that_changes_a_pixel_is_found_out() {
        struct Wrong;
        impl Codec for Wrong {
            fn encode(&mut self, _: &crate::samples::Sample, _: &mut Vec<u8>) -> Result<(), Error> {
                Ok(())
            }
            fn decode(&mut self, _: &[u8], _: usize, _: usize, _: &mut [u32]) -> Result<(), Error> {
                Ok(())
            }
        }
        let entry = Entry { name: "wrong", about: "", new: || Box::new(Wrong) };
        let set = Set { name: "test".into(), samples: testing::samples() };
        assert!(of_set(&entry, &set, 1).unwrap_err().to_string().contains("not what was sent"));
    }

    #[test]
    fn memory_that_was_given_back_counts_in_the_peak() {
        let before = begin_peak().unwrap();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        let above = peak().unwrap() - before;
        assert!((60 << 20..80 << 20).contains(&above), "{above} bytes");
    }
}
