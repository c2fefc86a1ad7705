//! Single questions with single answers: of thinc alone, or of one claim with what it is held against in the same run.

pub mod awareness;
pub mod codecs;
pub mod echo_under_load;
pub mod film;
pub mod functions;
pub mod key_to_photon;
pub mod loops;
pub mod memory;
pub mod outages;
pub mod overwrite;
pub mod page_down;
pub mod pages;
pub mod photographs;
mod trial;
pub mod views;
