//! Results to one page that a person reads, and to a verdict on two runs.
