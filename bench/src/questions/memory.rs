//! Question: how much memory does an idle 1024x768 session with one viewer take, without Xorg (and without the viewer)?
//! Proportional set size of the supervisor and the session process, after the viewer has everything.

use clap::Args;

use crate::Error;
use crate::process::{Headless, Session, pss_mb};

/// How `memory` runs.
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
    println!("memory of an idle {} session with one viewer, PSS in MB (10^6)", options.size);
    let mut total = 0.0;
    for part in ["supervisor", "session"] {
        let pss = pss_mb(session.pid(part)?)?;
        total += pss;
        println!("  {part:12} {pss:.1}");
    }
    println!("  together     {total:.1}");
    println!("  (xorg        {:.1})", pss_mb(session.pid("xorg")?)?);
    println!("  (viewer      {:.1})", pss_mb(viewer.pid())?);
    Ok(())
}
