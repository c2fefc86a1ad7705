//! The frame rate that a user sees, from the pixels of a window, as TCBench of the VirtualGL study
//! measures it. From any X display to a count of changes: small blocks of the screen are sampled at
//! a fixed rate. Knows pixels; never the application that draws them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ConnectionExt as _, MapState};
use x11rb::rust_connection::RustConnection;

use super::connection::usual_xauthority;
use super::picture::{Layout, Picture, Rect, request_image};
use crate::Error;

/// Options of `thinc-bench tcbench`.
#[derive(Args)]
pub struct Options {
    /// The X display to sample; by default the one that DISPLAY names
    #[arg(long)]
    display: Option<String>,
    /// The file with the display's cookie; by default that of X clients
    #[arg(long)]
    xauthority: Option<PathBuf>,
    /// The part of the screen to sample: WIDTHxHEIGHT+X+Y
    #[arg(long, conflicts_with = "window")]
    rect: Option<Rect>,
    /// The window to sample, as xwininfo names it; by default the largest one, unless --rect is
    /// given
    #[arg(long, value_parser = parse_window)]
    window: Option<u32>,
    /// Length of the measurement in seconds
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Samples a second; at least twice the frame rate that is to be measured
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rate: u32,
    /// Sampled blocks of 8x8 pixels, spread over the area
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=256))]
    blocks: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Options {
    /// One part of a display that needs no cookie, with so many samples a second.
    pub(crate) fn of(display: &str, rect: Rect, seconds: u32, rate: u32) -> Options {
        Options {
            display: Some(display.to_owned()),
            xauthority: None,
            rect: Some(rect),
            window: None,
            seconds,
            rate,
            blocks: 32,
            json: false,
        }
    }
}

/// Pixels of a block's edge.
const BLOCK: u32 = 8;

/// What was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The sampled area, as WIDTHxHEIGHT+X+Y of the screen.
    pub area: String,
    /// Length of the measurement, seconds.
    pub seconds: f64,
    /// Samples at which some block had changed.
    pub frames: u64,
    /// Frames a second.
    pub frame_rate: f64,
    /// Samples a second that were taken.
    pub look_rate: f64,
    /// Frames in each whole second.
    pub each_second: Vec<u32>,
    /// Longest time between two frames, or from the beginning or to the end, seconds.
    pub longest_pause: f64,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let report = measure(options)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("frame rate on {} at {}, {} s", display(options)?, report.area, options.seconds);
    println!("  frames a second   {:.2}", report.frame_rate);
    if let (Some(least), Some(most)) =
        (report.each_second.iter().min(), report.each_second.iter().max())
    {
        println!("  in one second     {least} to {most}");
    }
    println!("  longest pause     {:.0} ms", report.longest_pause * 1e3);
    println!("  samples a second  {:.1}", report.look_rate);
    if report.frame_rate * 2.0 > report.look_rate {
        println!("  Frames may have been missed: sample more often with --rate.");
    }
    Ok(())
}

fn display(options: &Options) -> Result<String, Error> {
    let named = options.display.clone().or_else(|| std::env::var("DISPLAY").ok());
    Ok(named.ok_or("no X display: name one with --display, or in DISPLAY")?)
}

/// Measures.
pub fn measure(options: &Options) -> Result<Report, Error> {
    let xauthority = options.xauthority.clone().or_else(usual_xauthority);
    let (x, screen) = super::connect_screen(&display(options)?, xauthority.as_deref())?;
    let root = &x.setup().roots[screen];
    let whole = Rect::new(0, 0, root.width_in_pixels.into(), root.height_in_pixels.into());
    let wanted = match (options.rect, options.window) {
        (Some(rect), _) => rect,
        (None, Some(window)) => place(&x, root.root, window)?,
        (None, None) => largest(&x, root.root)?,
    };
    let area = wanted
        .intersect(&whole)
        .ok_or_else(|| format!("{wanted} is not on the screen of {whole}"))?;
    let layout = Layout::of(&x, root.root_visual)?;
    let blocks = spread(area, options.blocks);
    let sample = || -> Result<Vec<Picture>, Error> {
        // All requests are sent before the first reply is awaited: one round trip for each sample.
        let asked: Vec<_> = blocks
            .iter()
            .map(|&block| request_image(&x, root.root, block))
            .collect::<Result<_, _>>()?;
        asked
            .into_iter()
            .zip(&blocks)
            .map(|(image, &block)| layout.picture(&image.reply()?, block))
            .collect()
    };
    let between = Duration::from_secs(1) / options.rate;
    let length = Duration::from_secs(options.seconds.into());
    let began = Instant::now();
    let mut tally = Tally::new(sample()?);
    let mut next = began + between;
    loop {
        // Sampling at fixed times is the method; a display does not report changes to other
        // clients.
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let at = began.elapsed();
        if at >= length {
            return Ok(tally.finish(area, length));
        }
        tally.handle_look(at, sample()?);
        // A sample that took too long is not repeated: that would count the same frame twice.
        next = (next + between).max(Instant::now());
    }
}

/// Counts changes between samples.
#[derive(Debug)]
struct Tally {
    last: Vec<Picture>,
    looks: u64,
    frames: u64,
    each_second: Vec<u32>,
    last_frame: Duration,
    longest_pause: Duration,
}

impl Tally {
    fn new(first: Vec<Picture>) -> Tally {
        let (last_frame, longest_pause) = (Duration::ZERO, Duration::ZERO);
        Tally {
            last: first,
            looks: 0,
            frames: 0,
            each_second: Vec::new(),
            last_frame,
            longest_pause,
        }
    }

    fn handle_look(&mut self, at: Duration, blocks: Vec<Picture>) {
        self.looks += 1;
        if blocks == self.last {
            return;
        }
        self.last = blocks;
        self.frames += 1;
        self.longest_pause = self.longest_pause.max(at.saturating_sub(self.last_frame));
        self.last_frame = at;
        let second = at.as_secs() as usize;
        if self.each_second.len() <= second {
            self.each_second.resize(second + 1, 0);
        }
        self.each_second[second] += 1;
    }

    fn finish(mut self, area: Rect, length: Duration) -> Report {
        self.each_second.resize(length.as_secs() as usize, 0);
        let seconds = length.as_secs_f64();
        Report {
            area: area.to_string(),
            seconds,
            frames: self.frames,
            frame_rate: self.frames as f64 / seconds,
            look_rate: self.looks as f64 / seconds,
            each_second: self.each_second,
            longest_pause: self
                .longest_pause
                .max(length.saturating_sub(self.last_frame))
                .as_secs_f64(),
        }
    }
}

/// Blocks in the cells of a grid over `area`, each at another position in its cell, so that no
/// regular pattern is missed by all. The positions are the same in every run.
fn spread(area: Rect, count: u32) -> Vec<Rect> {
    let (width, height) = (BLOCK.min(area.width), BLOCK.min(area.height));
    let columns =
        (f64::from(count) * f64::from(area.width) / f64::from(area.height)).sqrt().ceil() as u32;
    let columns = columns.clamp(1, count).min((area.width / width).max(1));
    let rows = count.div_ceil(columns).min((area.height / height).max(1));
    let mut seed = 0x7417_c0de_u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below.max(1)
    };
    let mut blocks = Vec::new();
    for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
        let (left, right) = (area.width * column / columns, area.width * (column + 1) / columns);
        let (top, bottom) = (area.height * row / rows, area.height * (row + 1) / rows);
        let (x, y) =
            (left + random(right - left - width + 1), top + random(bottom - top - height + 1));
        blocks.push(Rect::new(area.x + x as i32, area.y + y as i32, width, height));
    }
    blocks.truncate(count as usize);
    blocks
}

/// Position of a window on the screen.
fn place(x: &RustConnection, root: u32, window: u32) -> Result<Rect, Error> {
    let cannot = |error: &dyn std::fmt::Display| format!("no window {window:#x}: {error}");
    let size = x.get_geometry(window)?.reply().map_err(|e| cannot(&e))?;
    let corner = x.translate_coordinates(window, root, 0, 0)?.reply().map_err(|e| cannot(&e))?;
    Ok(Rect::new(corner.dst_x.into(), corner.dst_y.into(), size.width.into(), size.height.into()))
}

/// The largest window that is shown.
fn largest(x: &RustConnection, root: u32) -> Result<Rect, Error> {
    let shown = |&window: &u32| {
        // A window may be destroyed between the requests.
        let attributes = x.get_window_attributes(window).ok()?.reply().ok()?;
        (attributes.map_state == MapState::VIEWABLE).then(|| place(x, root, window).ok())?
    };
    let windows = x.query_tree(root)?.reply()?.children;
    let found = windows.iter().filter_map(shown).max_by_key(Rect::area);
    Ok(found.ok_or("no window is shown: name a part of the screen with --rect WIDTHxHEIGHT+X+Y")?)
}

fn parse_window(text: &str) -> Result<u32, String> {
    let parsed = text
        .strip_prefix("0x")
        .map_or_else(|| text.parse(), |digits| u32::from_str_radix(digits, 16));
    parsed.map_err(|_| format!("`{text}` is no window: write its number, such as 0x1a00003"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_between_samples_are_frames() {
        let shows = |pixel| vec![Picture::new(8, 8, 0), Picture::new(8, 8, pixel)];
        let mut tally = Tally::new(shows(0));
        for (ms, pixel) in [(100, 0), (200, 1), (300, 1), (400, 2), (1900, 1), (2500, 1)] {
            tally.handle_look(Duration::from_millis(ms), shows(pixel));
        }
        let report = tally.finish(Rect::new(1, 2, 30, 40), Duration::from_secs(3));
        assert_eq!((report.frames, report.frame_rate, report.look_rate), (3, 1.0, 2.0));
        assert_eq!((report.each_second, report.area.as_str()), (vec![2, 1, 0], "30x40+1+2"));
        assert_eq!(report.longest_pause, 1.5);
        let nothing = Tally::new(shows(0)).finish(Rect::new(0, 0, 1, 1), Duration::from_secs(2));
        assert_eq!((nothing.frames, nothing.longest_pause), (0, 2.0));
    }

    #[test]
    fn windows_are_read_as_xwininfo_prints_them() {
        assert_eq!((parse_window("0x1a00003"), parse_window("12")), (Ok(0x1a0_0003), Ok(12)));
        assert!(parse_window("xterm").is_err());
    }

    proptest! {
        #[test]
        fn blocks_lie_apart_within_the_area(
            x in -9_i32..9,
            width in 1_u32..3000,
            height in 1_u32..3000,
            count in 1_u32..=256,
        ) {
            let area = Rect::new(x, 5, width, height);
            let blocks = spread(area, count);
            prop_assert!(!blocks.is_empty() && blocks.len() <= count as usize);
            prop_assert!(blocks.iter().all(|block| block.intersect(&area) == Some(*block)));
            for (i, block) in blocks.iter().enumerate() {
                prop_assert!(blocks[..i].iter().all(|other| other.intersect(block).is_none()));
            }
            if width > 1000 && height > 1000 {
                prop_assert!(blocks.len() * 2 > count as usize, "{} of {}", blocks.len(), count);
            }
        }
    }
}
