//! Question: how much memory does an idle 1024x768 session with one viewer take, without Xorg and
//! without the viewer? Proportional set size of the supervisor and the session process, once the
//! viewer has received everything.

use clap::Args;

use super::print_table;
use crate::Error;
use crate::process::{Headless, Session, pss_mb};
use crate::results::Measure;

/// Options of `memory`.
#[derive(Args)]
pub struct Options {
    /// Size of the session.
    #[arg(long, default_value = "1024x768")]
    size: String,
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    let session = Session::start("memory", &options.size, &["xterm"])?;
    let mut viewer = Headless::start(&session.link)?;
    viewer.say("wait-quiet")?;
    let [supervisor, process] =
        [pss_mb(session.pid("supervisor")?)?, pss_mb(session.pid("session")?)?];
    let pss = |part: &str, mb: f64| Measure::lower("pss_mb", part, "MB", [mb]);
    println!("memory of an idle {} session with one viewer", options.size);
    let measures = vec![
        pss("supervisor", supervisor),
        pss("session", process),
        pss("supervisor and session", supervisor + process),
        pss("Xorg, beside them", pss_mb(session.pid("xorg")?)?),
        pss("viewer, beside them", pss_mb(viewer.pid())?),
    ];
    print_table(&[("thinc".to_owned(), measures)]);
    Ok(())
}
