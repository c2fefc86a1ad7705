//! thinc-bench: asks one question of the finished binaries and prints the answer.
#![forbid(unsafe_code)]

use thinc_bench::questions::{functions, key_to_photon, memory, page_down};

use clap::{Parser, Subcommand};

/// Measures thinc from outside and prints figures with their spread.
#[derive(Parser)]
#[command(name = "thinc-bench", version)]
struct Arguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// How long from a key to the changed pixels in xterm: in the viewer's window, and on a local Xvfb?
    KeyToPhoton(key_to_photon::Options),
    /// What does a page-down in Chromium at 1024x768 cost in bytes and CPU?
    PageDown(page_down::Options),
    /// How much memory does an idle 1024x768 session with one viewer take, without Xorg?
    Memory(memory::Options),
    /// What do the hot functions cost, by the samples that `./dev bench functions` has taken?
    Functions(functions::Options),
}

fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().question {
        Question::KeyToPhoton(options) => key_to_photon::run(&options),
        Question::PageDown(options) => page_down::run(&options),
        Question::Memory(options) => memory::run(&options),
        Question::Functions(options) => functions::run(&options),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thinc-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
