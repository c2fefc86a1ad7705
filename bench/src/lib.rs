//! The figures of doc/performance.md and doc/benchmarks, and the harness that the end-to-end tests
//! share. Drives finished binaries from outside, as a person would, and reads what a person would
//! see; links no part of thinc. Figures are medians with spread, and ratios against something
//! measured in the same run.
#![forbid(unsafe_code)]

pub mod apps;
pub mod cli;
pub mod display;
pub mod hosting;
pub mod net;
pub mod observe;
pub mod peers;
pub mod process;
pub mod questions;
pub mod report;
pub mod results;
pub mod run;
pub mod smoke;
pub mod stage;
pub mod stats;
pub mod workloads;

/// An error as text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
