//! Path 12/13: from video.rs, to a shell that paints videos itself on a GPU; or to framebuffer.rs,
//! if somebody asks for the pixels.
//! The newest frame of each video stream, kept as samples, and the region where it is still
//! visible; there the framebuffer holds older pixels. Knows streams, video areas and regions; never
//! how a shell paints.

use thinc_protocol::video::Source;
use thinc_region::{Rect, Region};
use thinc_video::{Planes, PlanesRef};

/// 64: rectangles of a kept frame; the shell paints each separately. A frame in more rectangles is
/// painted into the framebuffer.
pub(crate) const LAYER_RECTS_MAX: usize = 64;

/// A video frame that is not painted yet: in its region the viewer shows what
/// [`Painter`](thinc_video::Painter) would make of it.
#[derive(Debug)]
pub struct VideoLayer {
    stream: u64,
    planes: Planes,
    source: Source,
    place: Rect,
    region: Region,
}

impl VideoLayer {
    /// The frame's samples, of the source's size or larger.
    pub fn planes(&self) -> PlanesRef<'_> {
        self.planes.as_ref()
    }

    /// The frame's size and the part of it that is shown.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// The video area, which may reach beyond the screen.
    pub const fn place(&self) -> Rect {
        self.place
    }

    /// The region where the frame is visible: inside the screen, and disjoint from other layers.
    pub const fn region(&self) -> &Region {
        &self.region
    }
}

/// A frame's samples: borrowed from the update or decoder, or owned by a decoder that takes other
/// planes in exchange.
#[derive(Debug)]
pub(crate) enum Samples<'a> {
    Borrowed(&'a PlanesRef<'a>),
    Owned(&'a mut Planes),
}

impl Samples<'_> {
    pub(crate) fn as_ref(&self) -> PlanesRef<'_> {
        match self {
            Samples::Borrowed(planes) => **planes,
            Samples::Owned(planes) => planes.as_ref(),
        }
    }
}

/// At most one layer per stream: before a newer frame is kept, the rest of the older one is
/// painted.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    kept: Vec<VideoLayer>,
    /// Planes of the layer that was removed last, for reuse.
    spare: Planes,
}

impl Layers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &VideoLayer> {
        self.kept.iter()
    }

    /// Makes this frame its stream's layer, visible in `region`. Returns the previous layer if it
    /// is still visible elsewhere; the caller paints it.
    pub(crate) fn keep(
        &mut self,
        stream: u64,
        (source, place): (Source, Rect),
        region: &Region,
        samples: Samples<'_>,
    ) -> Option<VideoLayer> {
        self.written(region);
        let older = self.take(stream);
        let mut planes = std::mem::take(&mut self.spare);
        match samples {
            Samples::Borrowed(borrowed) => planes.copy_from(borrowed),
            Samples::Owned(owned) => std::mem::swap(&mut planes, owned),
        }
        self.kept.push(VideoLayer { stream, planes, source, place, region: region.clone() });
        older
    }

    /// Something was drawn over `region`.
    pub(crate) fn written(&mut self, region: &Region) {
        self.change(|layer| {
            if layer.region.overlaps(region) {
                layer.region.subtract(region);
            }
        });
    }

    /// As [`Layers::written`], for a rectangle.
    pub(crate) fn written_rect(&mut self, rect: &Rect) {
        self.change(|layer| {
            if layer.region.overlaps_rect(rect) {
                layer.region.subtract_rect(rect);
            }
        });
    }

    fn change(&mut self, change: impl FnMut(&mut VideoLayer)) {
        self.kept.iter_mut().for_each(change);
        while let Some(at) = self.kept.iter().position(|layer| layer.region.is_empty()) {
            self.spare = self.kept.swap_remove(at).planes;
        }
    }

    /// Takes the layer of a stream.
    pub(crate) fn take(&mut self, stream: u64) -> Option<VideoLayer> {
        let at = self.kept.iter().position(|layer| layer.stream == stream)?;
        Some(self.kept.swap_remove(at))
    }

    /// Takes a layer with more than [`LAYER_RECTS_MAX`] rectangles.
    pub(crate) fn take_shattered(&mut self) -> Option<VideoLayer> {
        let at = self.kept.iter().position(|layer| layer.region.rect_count() > LAYER_RECTS_MAX)?;
        Some(self.kept.swap_remove(at))
    }

    /// Takes any layer.
    pub(crate) fn take_any(&mut self) -> Option<VideoLayer> {
        self.kept.pop()
    }

    /// Takes the planes of a painted layer for reuse.
    pub(crate) fn reuse(&mut self, layer: VideoLayer) {
        self.spare = layer.planes;
    }
}
