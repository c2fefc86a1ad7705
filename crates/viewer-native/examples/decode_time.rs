//! Question: what does it cost that videos are decoded in a process of their own?
//! `decode_time PATH-OF-thinc-view [WIDTHxHEIGHT]` decodes the same frames in this process and in
//! that one, by turns, and prints how long a frame takes, and how much of a processor. With a
//! program of that name beside thinc-view also in `thinc-gpu-codec`, by a graphics processor or
//! what THINC_VIDEO_ELEMENTS names.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Instant;

use thinc_gpu_video::{Coded, Process, Purpose, Settings};
use thinc_h264::{Decoder, Encoder, EncoderSettings};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::Planes;
use thinc_viewer_native::video_decoder::{Decoded, Decoders};

const FRAMES: usize = 150;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let program = arguments.get(1).expect("the path of thinc-view");
    let size = arguments.get(2).map_or(Size { width: 1920, height: 1080 }, |size| {
        let (width, height) = size.split_once('x').expect("WIDTHxHEIGHT");
        Size { width: width.parse().expect("a width"), height: height.parse().expect("a height") }
    });
    let settings = EncoderSettings { size, bits_per_second: 8_000_000, frames_per_second: 30 };
    let mut encoder = Encoder::new(settings).expect("an encoder");
    let mut here = Decoder::new(size).expect("a decoder");
    let mut there = Decoders::new(Path::new(program));
    let began = Instant::now();
    assert!(there.start(0, size), "the process decodes frames of this size");
    let started = began.elapsed();
    let (mut picture, mut out, mut copy) = (Planes::new(), Planes::new(), Planes::new());
    let process = there.process_id().expect("it runs");
    let settings = Settings::new(Purpose::Decode, FrameCodec::H264);
    let codec = Path::new(program).with_file_name("thinc-gpu-codec");
    let mut hardware = Process::start(&codec, &settings);
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let (mut used_here, mut used_there) = (0, 0);
    let began_there = used_by(process);
    let mut bytes = 0;
    for time in 0..FRAMES {
        picture.reset(size, SampleLayout::Yuv420);
        let width = size.width as usize;
        for (at, sample) in picture.data_mut().iter_mut().enumerate() {
            let (x, y) = (at % width + 4 * time, at / width + time);
            *sample = (x.wrapping_mul(x) / 900 + y * y / 700) as u8;
        }
        let mut unit = Vec::new();
        encoder.encode(&picture.as_ref(), false, &mut unit).expect("a frame");
        bytes += unit.len();
        let (began, used) = (Instant::now(), used_by_thread());
        here.decode(&unit, &mut out).expect("a frame");
        times[0].push(began.elapsed());
        used_here += used_by_thread() - used;
        let (began, used) = (Instant::now(), used_by_thread());
        assert_eq!(there.decode(0, size, &unit, &mut copy), Decoded::Frame);
        times[1].push(began.elapsed());
        used_there += used_by_thread() - used;
        assert!(out == copy, "frame {time}");
        if let Ok(hardware) = &mut hardware {
            let began = Instant::now();
            let decoded = hardware.decode(0, size, &unit, &mut copy);
            times[2].push(began.elapsed());
            assert!(matches!(decoded, Ok(Coded::Done { .. })), "frame {time}: {decoded:?}");
            assert!(out == copy, "frame {time} of {}", hardware.name());
        }
    }
    let [here, there, by_hardware] = times.map(|mut times| {
        times.sort();
        let at = |percent: usize| times[times.len().saturating_sub(1) * percent / 100];
        [5, 50, 95]
            .map(|percent| if times.is_empty() { 0.0 } else { at(percent).as_secs_f64() * 1e3 })
    });
    println!("{} × {}, {} bytes a frame", size.width, size.height, bytes / FRAMES);
    for (name, [p5, median, p95]) in [("in this process", here), ("in its own", there)] {
        println!("{name}: p5 {p5:.2} ms, median {median:.2} ms, p95 {p95:.2} ms");
    }
    match &hardware {
        Ok(process) => {
            let ([p5, median, p95], name) = (by_hardware, process.name());
            println!("{name}: p5 {p5:.2} ms, median {median:.2} ms, p95 {p95:.2} ms");
        }
        Err(error) => println!("by a graphics processor: {error}"),
    }
    let used = [used_here, used_there, used_by(process) - began_there];
    let [here, there, process] = used.map(|time| time as f64 / 1e6 / FRAMES as f64);
    println!("processor: {here:.2} ms a frame in this process");
    println!("processor: {there:.2} + {process:.2} ms a frame in this one and its own");
    println!("the process starts in {:.1} ms", started.as_secs_f64() * 1e3);
}

/// Processor time of this thread in nanoseconds.
fn used_by_thread() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

/// Processor time of a process with one thread in nanoseconds.
fn used_by(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat")).expect("its times");
    text.split(' ').next().expect("a time").parse().expect("a time")
}
