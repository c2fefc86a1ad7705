//! Beside main.rs: the streams of a codec process, the bound on them, and the pipeline that each
//! has. Knows sizes and elements; never which element codes.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use gstreamer as gst;
use gstreamer::prelude::*;
use thinc_gpu_video::fits;
use thinc_gpu_video::message::{Answer, Rates, UNIT_BYTES_MAX};
use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

/// 48 MiB: samples of a frame of each stream, sixteen of 1920 × 1080 in 4:2:0.
const BYTES_MAX: u64 = 48 * 1024 * 1024;

/// 800 ms: longest time for one frame, less than the 1 s that is waited for an answer.
pub(crate) const FRAME_WAIT: gst::ClockTime = gst::ClockTime::from_mseconds(800);

/// Elements that are linked. Dropped, it ends.
pub(crate) struct Pipeline(gst::Pipeline);

impl Pipeline {
    /// Of elements in the order of the data.
    pub(crate) fn of(elements: &[&gst::Element]) -> Option<Pipeline> {
        let pipeline = gst::Pipeline::new();
        pipeline.add_many(elements).ok()?;
        gst::Element::link_many(elements).ok()?;
        Some(Pipeline(pipeline))
    }

    /// Data flows from now on.
    pub(crate) fn play(&self) -> Option<()> {
        self.0.set_state(gst::State::Playing).ok().map(drop)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = self.0.set_state(gst::State::Null);
    }
}

/// Makes coders of streams.
pub(crate) trait Coder {
    /// A stream's coder. Dropped, it gives back all that it has of the GPU.
    type Stream;
    /// For frames of this size, which fits; None if they cannot be coded.
    fn open(&mut self, size: Size, rates: Rates) -> Option<Self::Stream>;
    /// Codes a frame, or a unit of so many bytes, of the memory. None: it has failed, and the
    /// stream begins again.
    fn next(
        &mut self,
        stream: &mut Self::Stream,
        memory: BorrowedFd<'_>,
        bytes: usize,
        rates: Rates,
        keyframe: bool,
    ) -> Option<Answer>;
}

/// Streams, and what codes them.
pub(crate) struct Streams<C: Coder> {
    coder: C,
    /// Of all frames.
    layout: SampleLayout,
    streams: BTreeMap<u64, (Size, C::Stream)>,
}

impl<C: Coder> Streams<C> {
    pub(crate) fn new(coder: C, layout: SampleLayout) -> Streams<C> {
        Streams { coder, layout, streams: BTreeMap::new() }
    }

    pub(crate) fn start(&mut self, stream: u64, size: Size, rates: Rates) -> Answer {
        self.streams.remove(&stream);
        let bytes = |size: &Size| self.layout.bytes(*size);
        let others: u64 = self.streams.values().map(|(size, _)| bytes(size)).sum();
        if !fits(size) || others + bytes(&size) > BYTES_MAX {
            return Answer::Refused;
        }
        match self.coder.open(size, rates) {
            Some(opened) => {
                self.streams.insert(stream, (size, opened));
                Answer::Done { bytes: 0, keyframe: false }
            }
            None => Answer::Refused,
        }
    }

    pub(crate) fn next(
        &mut self,
        stream: u64,
        size: Size,
        memory: BorrowedFd<'_>,
        bytes: u32,
        rates: Rates,
        keyframe: bool,
    ) -> Answer {
        if self.streams.get(&stream).is_none_or(|&(of, _)| of != size) {
            let started = self.start(stream, size, rates);
            if !matches!(started, Answer::Done { .. }) {
                return started;
            }
        }
        let Some((_, opened)) = self.streams.get_mut(&stream) else { return Answer::Refused };
        let bytes = (bytes as usize).min(UNIT_BYTES_MAX);
        let coded = self.coder.next(opened, memory, bytes, rates, keyframe);
        coded.unwrap_or_else(|| {
            self.streams.remove(&stream);
            Answer::Failed
        })
    }

    pub(crate) fn end(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }
}
