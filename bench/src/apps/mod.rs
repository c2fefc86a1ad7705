//! The applications of thinc-bench, in processes of their own: `thinc-bench app NAME`. On the
//! server's desktop, accounted to the applications; each draws or plays with the requests that a
//! real one would use. Knows X, PulseAudio and its own content; never who watches or what is
//! measured.

pub mod animation;
pub mod desktop;
pub mod editor;
pub mod fill;
pub mod gl;
pub mod hog;
pub mod latency;
pub mod overwrite;
pub mod pan;
pub mod photo;
pub mod reader;
pub mod slides;
pub mod sound;
pub mod spheres;
pub mod text;
pub mod window;

use std::path::PathBuf;

use crate::Error;

/// Which application.
#[derive(clap::Subcommand, Debug)]
pub enum App {
    /// A photograph and a page of text on the whole screen.
    Desktop(desktop::Options),
    /// The five operations of Lai and Nieh's latency benchmark, one a key.
    Latency,
    /// Uses one processor, as the `sink` of Wong and Seltzer.
    Hog(hog::Options),
    /// Moving shaded spheres, as fast as the X server takes them.
    Spheres(spheres::Options),
    /// A loop of distinct pictures, once a key.
    Animation(animation::Options),
    /// Photographs below all other windows, as its input requests.
    Slides(slides::Options),
    /// Redraws the whole screen 200 times a second.
    Overwrite(overwrite::Options),
    /// A video that never ends.
    Pan(pan::Options),
    /// A document that a person pages through.
    Reader(reader::Options),
    /// Echoes keys and touches much memory for each.
    Editor(editor::Options),
    /// Takes memory and touches all of it again and again.
    Fill(fill::Options),
    /// Plays a sound that can be recognised.
    Sound(sound::Options),
}

/// Runs one until its window is destroyed, its X server ends, or it is ended.
pub fn run(app: &App) -> Result<(), Error> {
    match app {
        App::Desktop(options) => desktop::run(options),
        App::Latency => latency::run(),
        App::Hog(options) => hog::run(options),
        App::Spheres(options) => spheres::run(options),
        App::Animation(options) => animation::run(options),
        App::Slides(options) => slides::run(options),
        App::Overwrite(options) => overwrite::run(options),
        App::Pan(options) => pan::run(options),
        App::Reader(options) => reader::run(options),
        App::Editor(options) => editor::run(options),
        App::Fill(options) => fill::run(options),
        App::Sound(options) => sound::run(options),
    }
}

/// The command that runs an application: `words(&["latency"])` is `/path/of/thinc-bench app
/// latency`.
pub fn words(application: &[&str]) -> Result<Vec<String>, Error> {
    let mut words = vec![program()?.to_string_lossy().into_owned(), "app".to_owned()];
    words.extend(application.iter().map(|&word| word.to_owned()));
    Ok(words)
}

/// This program; in a test, the built binary.
fn program() -> Result<PathBuf, Error> {
    let own = std::env::current_exe()?;
    if own.file_name().is_some_and(|name| name == "thinc-bench") {
        Ok(own)
    } else {
        crate::process::binary("thinc-bench")
    }
}
