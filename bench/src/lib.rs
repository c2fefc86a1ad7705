//! The figures of doc/performance.md, each an answer to one question, and the harness that the end-to-end tests share.
//! Drives finished binaries from outside, as a person would, and reads what a person would see; links no part of thinc.
//! Figures are medians with spread, and ratios against something measured in the same run.
#![forbid(unsafe_code)]

mod figures;
pub mod functions;
pub mod latency;
pub mod memory;
pub mod page_down;
pub mod process;

/// Whatever went wrong, in words.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
