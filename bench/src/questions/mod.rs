//! Single questions with single answers, asked of thinc alone; `run` is for thinc beside its peers.

pub mod functions;
pub mod key_to_photon;
pub mod memory;
pub mod page_down;
