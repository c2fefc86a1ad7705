//! The figures of doc/performance.md, each an answer to one question, and the harness that the end-to-end tests share.
//! Drives finished binaries from outside, as a person would, and reads what a person would see; links no part of thinc.
//! Figures are medians with spread, and ratios against something measured in the same run.
#![forbid(unsafe_code)]

pub mod apps;
pub mod cli;
pub mod corpus;
pub mod display;
mod figures;
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
pub mod workloads;

/// Whatever went wrong, in words.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
