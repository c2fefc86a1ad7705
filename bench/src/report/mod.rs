//! Results to one page that a person reads, and to a verdict on two runs.
//! After the runner, whose files store.rs keeps and whose progress progress.rs shows; html.rs is where a page begins.
//! Knows names, numbers and units; never how anything was measured.

mod canvas;
pub mod compare;
mod figures;
mod html;
mod papers;
mod plots;
pub mod progress;
mod sections;
pub mod stats;
pub mod store;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod view;
mod words;

use std::path::{Path, PathBuf};

use crate::Error;
use crate::results::Results;

/// What `thinc-bench report` asks for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Files that `thinc-bench run` wrote; several are put together where they are of one machine and one setup.
    #[arg(required = true, value_name = "RESULTS.json")]
    results: Vec<PathBuf>,
    /// Where to write the page; beside the first file of results, with the ending "html", where it is left out.
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Also put the results together into one small file: samples to four digits.
    #[arg(long, value_name = "FILE.json")]
    small: Option<PathBuf>,
}

/// Draws the page.
///
/// # Errors
/// In words: results that cannot be read or do not belong together, a page that cannot be written.
pub fn run(options: &Options) -> Result<(), Error> {
    let mut all = options.results.iter().map(|path| store::load(path));
    let first = all.next().ok_or("no file of results was named")??;
    let results = all.try_fold(first, |merged, next| store::merge(merged, next?))?;
    let path = options.output.clone().unwrap_or_else(|| options.results[0].with_extension("html"));
    write(&results, &path)?;
    if let Some(small) = &options.small {
        store::save(small, &results, store::Shape::Small)?;
    }
    println!("{}", path.display());
    Ok(())
}

/// Writes the page of some results; the file is there whole or as it was before.
///
/// # Errors
/// In words, where it cannot be written.
pub fn write(results: &Results, path: &Path) -> Result<(), Error> {
    store::replace(path, html::page(results).as_bytes())
}
