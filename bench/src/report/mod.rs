//! Results to one page that a person reads, and to a verdict on two runs.

pub mod progress;
pub mod store;
#[cfg(test)]
pub(crate) mod synthetic;
