//! Question: what does it cost that a GPU's encoder is asked in a process of its own?
//! `THINC_VIDEO_ELEMENTS=openh264/openh264enc encode_time PATH-OF-thinc-gpu-codec [WIDTHxHEIGHT]`
//! encodes the same frames by OpenH264 in this process and, through GStreamer, in that one, by
//! turns, and prints how long a frame takes; and how long its samples take to get there and back
//! by the same calls.
#![forbid(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

use thinc_gpu_video::{Process, Purpose, Rates, Settings};
use thinc_h264::{Encoder, EncoderSettings};
use thinc_protocol::video::{FrameCodec, SampleLayout};
use thinc_region::Size;
use thinc_video::Planes;

const FRAMES: usize = 150;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let program = arguments.get(1).expect("the path of thinc-gpu-codec");
    let size = arguments.get(2).map_or(Size { width: 1240, height: 900 }, |size| {
        let (width, height) = size.split_once('x').expect("WIDTHxHEIGHT");
        Size { width: width.parse().expect("a width"), height: height.parse().expect("a height") }
    });
    let rates = Rates { bits_per_second: 8_000_000, frames_per_second: 30 };
    let settings = EncoderSettings {
        size,
        bits_per_second: rates.bits_per_second,
        frames_per_second: rates.frames_per_second,
    };
    let mut here = Encoder::new(settings).expect("an encoder");
    let codec = Settings::new(Purpose::Encode, FrameCodec::H264);
    let began = Instant::now();
    let mut there = Process::start(Path::new(program), &codec).expect("a process");
    let started = began.elapsed();
    let began = Instant::now();
    there.begin(0, size, rates).expect("a stream");
    let begun = began.elapsed();
    let memory = rustix::fs::memfd_create("copies", rustix::fs::MemfdFlags::CLOEXEC);
    let memory = File::from(memory.expect("memory"));
    let mut picture = Planes::new();
    let mut copy = Vec::new();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let mut bytes = [0; 2];
    for time in 0..FRAMES {
        picture.reset(size, SampleLayout::Yuv420);
        let width = size.width as usize;
        for (at, sample) in picture.data_mut().iter_mut().enumerate() {
            let (x, y) = (at % width + 4 * time, at / width + time);
            *sample = (x.wrapping_mul(x) / 900 + y * y / 700) as u8;
        }
        let frame = picture.as_ref();
        let mut unit = Vec::new();
        let began = Instant::now();
        here.encode(&frame, false, &mut unit).expect("a frame");
        times[0].push(began.elapsed());
        bytes[0] += unit.len();
        unit.clear();
        let began = Instant::now();
        there.encode(0, &frame, rates, false, &mut unit).expect("a process");
        times[1].push(began.elapsed());
        bytes[1] += unit.len();
        let began = Instant::now();
        let mut at = 0;
        for plane in 0..3 {
            let samples = frame.plane(plane).0;
            memory.write_all_at(samples, at).expect("memory");
            at += samples.len() as u64;
        }
        copy.resize(at as usize, 0);
        memory.read_exact_at(&mut copy, 0).expect("memory");
        times[2].push(began.elapsed());
    }
    println!("{} x {}, {FRAMES} frames; ms: 5 %, median, 95 %", size.width, size.height);
    let names = ["in this process", "in the other", "its copies alone"];
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        println!("{name:18} {:6.2} {:6.2} {:6.2}", at(5), at(50), at(95));
    }
    println!("{} and {} bytes a frame", bytes[0] / FRAMES, bytes[1] / FRAMES);
    println!("the process starts in {started:.1?}, a stream in {begun:.1?}");
}
