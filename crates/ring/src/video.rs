//! Path 3/13: beside ring.rs, from driver/src/video.c to session-server's video.rs.
//! Frames of XVideo, and right eyes' pictures, as their X clients sent them, copied completely out
//! of the driver's memory or not at all. Knows blocks and buffers; never what a video stream is.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};

use thinc_region::{Rect, Size};

use crate::abi;
use crate::mapping::{Access, Mapping};
use crate::record::{self, DrawHint, DrawableId, VideoLayout};

/// 4: attempts before giving up on a frame that is replaced while it is copied. A frame takes the
/// driver longer to make than to copy, so only a reader that gets almost no CPU time fails so
/// often.
const FRAME_TRIES: u32 = 4;
const PORT_BYTES: usize = abi::VIDEO_BUFFERS as usize * abi::VIDEO_BUFFER_BYTES;

/// A frame, with the values of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoInfo {
    /// Counts the port's frames: an equal serial means the same frame.
    pub serial: u32,
    /// The op that drew it; its record may not have been read yet.
    pub op: u64,
    /// The drawable that it was drawn on.
    pub dst: DrawableId,
    /// The layout of its samples.
    pub layout: VideoLayout,
    /// Size of the whole image in luma samples, or in pixels.
    pub size: Size,
    /// The part of the image that is scaled to the place.
    pub crop: Rect,
    /// Where all of the crop would be shown, in the drawable.
    pub place: Rect,
}

/// The video memfd; each port is mapped at its first frame.
#[derive(Debug)]
pub(crate) struct VideoMemory {
    memfd: OwnedFd,
    /// None in a cell: mapping failed, and is not tried again.
    ports: [OnceLock<Option<Mapping>>; abi::VIDEO_PORTS as usize],
}

impl VideoMemory {
    pub(crate) fn new(memfd: OwnedFd) -> VideoMemory {
        VideoMemory { memfd, ports: Default::default() }
    }

    fn port(&self, port: u16) -> Option<&Mapping> {
        let offset = u64::from(port) * PORT_BYTES as u64;
        let map = || Mapping::at(self.memfd.as_fd(), offset, PORT_BYTES, Access::Read).ok();
        self.ports.get(usize::from(port))?.get_or_init(map).as_ref()
    }

    /// Copies the newest complete frame of a port into `data`; `header` is the ring's mapping.
    pub(crate) fn frame(
        &self,
        header: &Mapping,
        port: u16,
        data: &mut Vec<u8>,
    ) -> Option<VideoInfo> {
        let memory = self.port(port)?;
        let writing = header.word(block_at(port) + abi::VIDEO_WRITING_WORD * 4);
        for _ in 0..FRAME_TRIES {
            let info = info(header, port)?;
            let at = (info.serial % abi::VIDEO_BUFFERS) as usize * abi::VIDEO_BUFFER_BYTES;
            copy(memory, at, info.layout.bytes(info.size), data);
            // Pairs with the fence in video_slot.c: a reader that copied a sample of a newer frame
            // sees its number in `writing`.
            fence(Ordering::Acquire);
            if writing.load(Ordering::Relaxed).wrapping_sub(info.serial) < abi::VIDEO_BUFFERS {
                return Some(info);
            }
        }
        None
    }
}

const fn block_at(port: u16) -> usize {
    abi::VIDEO + port as usize * abi::VIDEO_BLOCK_WORDS * 4
}

/// Reads the port's block; None if there is no frame, or an invalid one.
fn info(header: &Mapping, port: u16) -> Option<VideoInfo> {
    header.block(block_at(port), |word| {
        let op = u64::from(word(2)) | u64::from(word(3)) << 32;
        let words = [u32::from(port) | word(5) << 8, word(6), word(7), word(8), word(11)];
        let at = (word(9).cast_signed(), word(10).cast_signed());
        match record::video(words, at) {
            Some(DrawHint::Video { layout, size, crop, place, .. }) => {
                Some((layout, size, crop, place))
            }
            Some(DrawHint::Stereo { size, crop, place, .. }) => {
                Some((VideoLayout::RightEye, size, crop, place))
            }
            _ => None,
        }
        .filter(|_| word(1) != 0)
        .map(|(layout, size, crop, place)| VideoInfo {
            serial: word(1),
            op,
            dst: DrawableId(word(4)),
            layout,
            size,
            crop,
            place,
        })
    })?
}

/// True while the port shows a frame.
pub(crate) fn playing(header: &Mapping, port: u16) -> bool {
    u32::from(port) < abi::VIDEO_PORTS
        && header.block(block_at(port), |word| word(13) != 0) == Some(true)
}

fn copy(memory: &Mapping, at: usize, bytes: usize, data: &mut Vec<u8>) {
    data.resize(bytes, 0);
    let longs = memory.longs(at, bytes.div_ceil(8));
    let (chunks, rest) = data.as_chunks_mut::<8>();
    for (chunk, long) in chunks.iter_mut().zip(longs) {
        *chunk = long.load(Ordering::Relaxed).to_ne_bytes();
    }
    if let Some(last) = longs.get(chunks.len()) {
        rest.copy_from_slice(&last.load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
    }
}

const _: () = assert!(
    VideoLayout::Yuv422.bytes(Size { width: abi::VIDEO_EDGE_MAX, height: abi::VIDEO_EDGE_MAX })
        == abi::VIDEO_BUFFER_BYTES
);
