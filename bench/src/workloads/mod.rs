//! Repeatable user actions on a desktop: each workload starts its application on the server, sends
//! input to the client's own X server, and measures what the client's screen shows. Knows
//! applications; never which peer shows them.

pub mod animation;
pub mod browser;
pub mod content;
pub mod dropout;
pub mod edit;
pub(crate) mod frame_figures;
pub mod gl;
pub mod latency;
pub(crate) mod own;
pub mod playback;
mod player;
pub(crate) mod processors;
pub mod scroll;
pub mod session;
pub(crate) mod slide_show;
pub mod threed;
pub mod typing;
pub mod users;
pub mod video;
pub mod web;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::questions::{Claim, Found};
use crate::results::{Form, Measure};
use crate::stage::Stage;

/// One workload.
pub trait Workload: Send + Sync {
    /// Its name on the command line and in results: "web".
    fn name(&self) -> &str;

    /// One line: what it does and from which paper it comes.
    fn about(&self) -> &'static str;

    /// The forms in which it runs.
    fn forms(&self) -> &'static [Form] {
        &[Form::Normal]
    }

    /// Programs it needs (commands); it is skipped if one of them is missing.
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }

    /// About how long one form takes on a LAN, seconds: for the estimate of the time left.
    fn seconds(&self, form: Form, effort: Effort) -> f64;

    /// The screen size that it needs; None if any will do.
    fn screen(&self) -> Option<(u32, u32)> {
        None
    }

    /// Whether it hears what the viewer plays; a peer without sound is skipped then.
    fn listens(&self) -> bool {
        false
    }

    /// Runs and measures. An error fails this trial, not the run.
    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error>;

    /// Measures that need the end of the desktop.
    fn finish(&self, _stage: Stage) -> Vec<Measure> {
        Vec::new()
    }

    /// Claims about the results of `peer`; only questions have claims.
    fn claims(&self, _found: &Found<'_>, _peer: &str) -> Vec<Claim> {
        Vec::new()
    }

    /// Its line of a table of all workloads of a question, in Markdown, behind the table's head.
    fn summary(&self, _found: &Found<'_>) -> Option<(String, String)> {
        None
    }
}

/// The error of a workload that this peer, link or screen does not support: the trial is skipped,
/// not failed.
#[derive(Debug)]
pub struct Skip(pub String);

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

/// How much of a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// A few operations, to test that it works (`smoke`).
    Smoke,
    /// Enough for medians on two cores in minutes.
    Quick,
    /// As the papers did it.
    Full,
}

/// Every workload that thinc-bench knows, in the order of reports.
pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        Box::new(web::Web(browser::Browser::Chromium)),
        Box::new(web::Web(browser::Browser::Firefox)),
        Box::new(scroll::Scroll),
        Box::new(latency::Latency),
        Box::new(video::Video),
        Box::new(edit::Edit),
        Box::new(typing::Type),
        Box::new(threed::ThreeD),
        Box::new(gl::Gl),
        Box::new(gl::users::Users),
        Box::new(gl::programs::Programs),
        Box::new(animation::Animation),
        Box::new(dropout::Dropout),
        Box::new(users::Users),
    ]
}
