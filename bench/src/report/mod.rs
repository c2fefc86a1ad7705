//! Results to one page that a person reads, and to a verdict on two runs. After the runner, whose
//! files store.rs keeps and whose progress progress.rs shows; page.rs makes the page. Knows names,
//! numbers and units; never how anything was measured.

pub mod compare;
mod document;
mod figure;
mod page;
mod papers;
pub mod progress;
pub mod store;
mod study;
mod summary;
#[cfg(test)]
pub(crate) mod synthetic;
mod view;
pub(crate) mod words;

use std::path::{Path, PathBuf};

use crate::Error;
use crate::results::Results;

/// Options of `report`.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Files that `thinc-bench run` wrote; several are merged if they are of one machine and one
    /// setup.
    #[arg(required = true, value_name = "RESULTS.json")]
    results: Vec<PathBuf>,
    /// Where to write the page; by default beside the first file of results, with the ending
    /// "html".
    #[arg(long, short, value_name = "FILE.html")]
    output: Option<PathBuf>,
    /// Also write the merged results to one small file, samples to four digits.
    #[arg(long, value_name = "FILE.json")]
    small: Option<PathBuf>,
}

/// Writes the page.
///
/// # Errors
/// Results that cannot be read or do not belong together, or a page that cannot be written.
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

/// Writes the page of some results; a failed write leaves the file as it was.
///
/// # Errors
/// The page cannot be written.
pub fn write(results: &Results, path: &Path) -> Result<(), Error> {
    store::replace(path, page::html(results)?.as_bytes())
}
