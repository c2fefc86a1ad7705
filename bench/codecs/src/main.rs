//! One codec on the pictures of a corpus: bytes, speed and memory, as one line of JSON for `thinc-bench codecs`, which runs this
//! once for each codec, so that no codec finds another's memory warm. Every picture that comes back is compared.
//! Knows codecs and clocks; never what the figures should be.
#![forbid(unsafe_code)]

mod codec;
mod film;
mod images;
mod measure;
mod samples;
mod thinc;
mod tight;
mod zlib;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use thinc_bench::{Error, corpus};

/// Measures one codec on a corpus.
#[derive(Parser)]
#[command(name = "thinc-bench-codecs", version)]
struct Arguments {
    /// The folder that `thinc-bench corpus` has made.
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["list", "film"])]
    corpus: Option<PathBuf>,
    /// Which codec.
    #[arg(long, required_unless_present_any = ["list", "film"])]
    codec: Option<String>,
    /// Measures memory in place of bytes and speed.
    #[arg(long, value_enum)]
    memory: Option<measure::Side>,
    /// How often everything is encoded and decoded, for the medians.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// How good is what the video encoder makes of a film, beside x264 superfast at the same bits?
    #[arg(long)]
    film: bool,
    /// A file in place of the film that is painted.
    #[arg(long, value_name = "FILE", requires = "film")]
    clip: Option<PathBuf>,
    /// Frames of it.
    #[arg(long, requires = "film", default_value_t = 150, value_parser = clap::value_parser!(u32).range(10..=210))]
    frames: u32,
    /// Names the codecs, one on a line, each with what it is.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thinc-bench-codecs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.film {
        return film::run(arguments.clip.as_deref(), arguments.frames);
    }
    let (Some(folder), Some(name)) = (&arguments.corpus, &arguments.codec) else {
        for entry in codec::all() {
            println!("{}\t{}", entry.name, entry.about);
        }
        return Ok(());
    };
    let entry = codec::all().into_iter().find(|entry| entry.name == *name).ok_or_else(|| {
        let known: Vec<&str> = codec::all().iter().map(|entry| entry.name).collect();
        format!("there is no codec {name}; there are {}", known.join(", "))
    })?;
    let (index, pictures) = corpus::load(folder)?;
    let json = match arguments.memory {
        Some(side) => serde_json::to_string(&measure::memory(&entry, side, &index, &pictures)?)?,
        None => serde_json::to_string(&measure::speed(&entry, &index, &pictures, arguments.passes)?)?,
    };
    println!("{json}");
    Ok(())
}
