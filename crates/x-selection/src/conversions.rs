//! Path beside the pixels: under fetch.rs, which has contents converted.
//! Conversions on threads of their own, with numbers, and the way their results return to the
//! client's thread. Knows numbers; thinc-clip-convert converts.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use thinc_clip_convert::{Conversion, Converter};
use thinc_protocol::clip::ClipEnd;

type Converted = (u64, Result<Vec<u8>, ClipEnd>);

#[derive(Debug)]
pub(crate) struct Conversions {
    converter: Converter,
    last_number: u64,
    sender: Sender<Converted>,
    results: Receiver<Converted>,
    /// Wakes the client's thread.
    wake: Arc<OwnedFd>,
}

impl Conversions {
    pub(crate) fn new(wake: Arc<OwnedFd>) -> Conversions {
        let (sender, results) = channel();
        Conversions { converter: Converter::default(), last_number: 0, sender, results, wake }
    }

    /// Starts a conversion; its number is that of the result.
    pub(crate) fn start(
        &mut self,
        conversion: Conversion,
        content: Vec<u8>,
        bytes_max: usize,
        deadline: Instant,
    ) -> Result<u64, ClipEnd> {
        self.last_number += 1;
        let (number, sender, wake) = (self.last_number, self.sender.clone(), self.wake.clone());
        self.converter.start(conversion, content, bytes_max, deadline, move |result| {
            // Fails only once the client's thread has ended.
            let _ = sender.send((number, result));
            crate::wake(&wake);
        })?;
        Ok(number)
    }

    /// The next result.
    pub(crate) fn poll(&self) -> Option<Converted> {
        self.results.try_recv().ok()
    }
}
