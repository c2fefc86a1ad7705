//! What thinc-bench and its OpenGL program, thinc-bench-gl, agree on: the command line, the keys,
//! what the numbers of bar codes mean, and what the program prints. The program is a crate of its
//! own, since every call of OpenGL is unsafe and this crate forbids that. Knows words and numbers;
//! never OpenGL.

use std::path::PathBuf;

use clap::ValueEnum as _;

use crate::Error;
use crate::process::binary;

pub use super::spheres::{KEY_NEXT, KEY_START};

/// The program's file name.
pub const PROGRAM: &str = "thinc-bench-gl";
/// Before the renderer's name, in a line that it prints once its window is open.
const RENDERER: &str = "renderer: ";
/// Before the number of frames of a run, in a line that it prints when the run has ended.
const DRAWN: &str = "drawn: ";

/// Bits of a number that hold the pointer's column, where a frame answers a motion: screens are at
/// most 8192 pixels wide, and the column of a motion is less than 4096.
const COLUMN_BITS: u32 = 12;

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Scene {
    /// 42 lit spheres on three rings over a plain ground: solid ground and smooth shading in the
    /// proportion that the study calls realistic (section 1.1).
    Study,
    /// A large sphere and three rings of twenty, as GLXSpheres has them: nearly half of the pixels
    /// change from frame to frame.
    Spheres,
    /// Many-coloured wires, which are hard for JPEG (section 5.23).
    Wireframe,
}

/// When a frame is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// As fast as the X server takes frames.
    Free,
    /// One frame for each word on standard input and each key `n`, or at a fixed rate.
    Step,
    /// One frame for each motion of the pointer (section 5.17).
    Interactive,
}

/// Options of the program.
#[derive(clap::Args, Clone, Debug, PartialEq)]
pub struct Options {
    /// What is drawn.
    #[arg(long, value_enum, default_value = "study")]
    pub scene: Scene,
    /// When a frame is drawn.
    #[arg(long, value_enum, default_value = "free")]
    pub mode: Mode,
    /// Frames a second in the mode `step`; without it, words and keys say when.
    #[arg(long, value_name = "FPS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rate: Option<u32>,
    /// Width of the window, pixels.
    #[arg(long, default_value_t = 1240)]
    pub width: u32,
    /// Height of the window, pixels.
    #[arg(long, default_value_t = 900)]
    pub height: u32,
    /// Length of a run, which the key `g` starts; without it, the program runs from its start until
    /// its window is closed.
    #[arg(long)]
    pub seconds: Option<u64>,
}

impl Options {
    /// The words of a command line that mean these options.
    pub fn words(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let mut words = vec![
            "--scene".to_owned(),
            name(self.scene.to_possible_value()),
            "--mode".to_owned(),
            name(self.mode.to_possible_value()),
            "--width".to_owned(),
            self.width.to_string(),
            "--height".to_owned(),
            self.height.to_string(),
        ];
        let mut more = |word: &str, value: Option<String>| {
            words.extend(value.into_iter().flat_map(|value| [word.to_owned(), value]));
        };
        more("--rate", self.rate.map(|rate| rate.to_string()));
        more("--seconds", self.seconds.map(|seconds| seconds.to_string()));
        words
    }
}

/// The built program.
///
/// # Errors
/// It is not there, with what to do.
pub fn program() -> Result<PathBuf, Error> {
    binary(PROGRAM)
}

/// The number of a frame that answers a motion to this column: both can be read from it.
pub fn motion_number(frame: u32, column: u32) -> u32 {
    frame << COLUMN_BITS | column & ((1 << COLUMN_BITS) - 1)
}

/// Frame and column of such a number.
pub fn motion_of(number: u32) -> (u32, u32) {
    (number >> COLUMN_BITS, number & ((1 << COLUMN_BITS) - 1))
}

/// The line that names the renderer.
pub fn renderer_line(name: &str) -> String {
    format!("{RENDERER}{name}")
}

/// The line that ends a run.
pub fn drawn_line(frames: u32) -> String {
    format!("{DRAWN}{frames}")
}

/// The renderer's name, once it was printed.
pub fn renderer_in(output: &str) -> Option<&str> {
    output.lines().find_map(|line| line.strip_prefix(RENDERER))
}

/// The frames of the last run that has ended.
pub fn drawn_in(output: &str) -> Option<u32> {
    // A line that is still being written has no end yet.
    let whole = &output[..=output.rfind('\n')?];
    whole.lines().rev().find_map(|line| line.strip_prefix(DRAWN)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_words_of_options_are_parsed_to_the_same_options() {
        for scene in Scene::value_variants() {
            for mode in Mode::value_variants() {
                for (rate, seconds) in [(None, None), (Some(60), Some(10))] {
                    let options = Options {
                        scene: *scene,
                        mode: *mode,
                        rate,
                        width: 1024,
                        height: 768,
                        seconds,
                    };
                    let words = [vec![PROGRAM.to_owned()], options.words()].concat();
                    assert_eq!(Line::try_parse_from(words).unwrap().options, options);
                }
            }
        }
    }

    #[test]
    fn a_number_has_its_frame_and_its_column() {
        for (frame, column) in [(0, 0), (1, 4095), (123_456, 77), ((1 << 20) - 1, 1239)] {
            assert_eq!(motion_of(motion_number(frame, column)), (frame, column));
        }
    }

    #[test]
    fn what_is_printed_is_read_and_half_a_line_is_not() {
        let output = format!(
            "{}\n{}\n{}\ndrawn: 77",
            renderer_line("llvmpipe (LLVM 15.0.6, 256 bits)"),
            drawn_line(12),
            drawn_line(480)
        );
        assert_eq!(renderer_in(&output), Some("llvmpipe (LLVM 15.0.6, 256 bits)"));
        assert_eq!(drawn_in(&output), Some(480));
        assert_eq!((renderer_in(""), drawn_in("drawn: 4")), (None, None));
    }
}
