//! What people do on a desktop, made repeatable: each workload starts its application on the server, acts through the
//! client's own keyboard and mouse, and says what it saw. Knows applications; never which peer shows them.

pub mod animation;
pub mod browser;
pub mod content;
pub mod dropout;
pub mod edit;
pub mod film;
pub mod latency;
pub(crate) mod own;
mod player;
mod processors;
pub mod scroll;
pub mod session;
pub mod threed;
pub mod typing;
pub mod users;
pub mod video;
pub mod web;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::results::{Form, Measure};
use crate::stage::Stage;

/// One workload.
pub trait Workload: Send + Sync {
    /// What the command line and the results call it: "web".
    fn name(&self) -> &'static str;

    /// One line: what it does and from which paper it comes.
    fn about(&self) -> &'static str;

    /// In which forms it runs.
    fn forms(&self) -> &'static [Form];

    /// Programs it needs (commands), the missing of which skips it.
    fn needs(&self) -> &'static [&'static str];

    /// About how long one form takes on a LAN, seconds: for the estimate of the time left.
    fn seconds(&self, form: Form, effort: Effort) -> f64;

    /// Runs and measures. An error is this trial's failure, not the run's.
    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error>;
}

/// The error of a workload that this peer, link or screen cannot do: it is named as skipped, not as failed.
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
    /// A few operations: does it work at all (`smoke`)?
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
        Box::new(animation::Animation),
        Box::new(dropout::Dropout),
        Box::new(users::Users),
    ]
}
