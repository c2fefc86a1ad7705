//! `thinc-bench-gl`: the OpenGL program that thinc-bench shows on every system it measures. Three
//! scenes, drawn without a pause, frame by frame, or once for each motion of the pointer; each
//! frame has its number as a bar code at both edges. Knows its own window; never who watches it.
#![deny(unsafe_code)]

mod bars;
mod gl;
mod scene;
mod window;

use std::process::ExitCode;

use clap::Parser;
use thinc_bench::apps::gl::Options;

/// Draws a scene with OpenGL, each frame with its number as a bar code at both edges: the program
/// that `thinc-bench 3d` shows.
#[derive(Parser)]
#[command(name = "thinc-bench-gl", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    match window::run(&Arguments::parse().options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thinc-bench-gl: {error}");
            ExitCode::FAILURE
        }
    }
}
