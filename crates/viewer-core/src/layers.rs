//! Path 12/13: from video.rs, to a shell that paints videos itself, on a graphics processor; or to framebuffer.rs, when somebody asks for the pixels.
//! The newest picture of each stream, kept as samples, and where it is still to be seen: there the framebuffer holds older pixels.
//! Knows streams, places and regions; never how a shell paints.

use thinc_protocol::video::Source;
use thinc_region::{Rect, Region};
use thinc_video::{Planes, PlanesRef};

/// 64: rectangles of a picture that is kept, each of which a shell paints by itself; one in more pieces is painted here.
pub(crate) const LAYER_RECTS_MAX: usize = 64;

/// A picture of a video that is not painted: what [`Painter`](thinc_video::Painter) would make of it is to be seen in its region.
#[derive(Debug)]
pub struct VideoLayer {
    stream: u64,
    planes: Planes,
    source: Source,
    place: Rect,
    region: Region,
}

impl VideoLayer {
    /// Its samples, of the source's size or more.
    pub fn planes(&self) -> PlanesRef<'_> {
        self.planes.as_ref()
    }

    /// How large the picture is, and what of it is shown.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Where that is shown; this may reach beyond the screen.
    pub const fn place(&self) -> Rect {
        self.place
    }

    /// Where it is seen: inside the screen and of no other layer.
    pub const fn region(&self) -> &Region {
        &self.region
    }
}

/// The samples of a picture: of the update it came in, or of a decoder, which gets others to write to for them.
#[derive(Debug)]
pub(crate) enum Samples<'a> {
    Lent(&'a PlanesRef<'a>),
    Given(&'a mut Planes),
}

impl Samples<'_> {
    pub(crate) fn as_ref(&self) -> PlanesRef<'_> {
        match self {
            Samples::Lent(planes) => **planes,
            Samples::Given(planes) => planes.as_ref(),
        }
    }
}

/// One for each stream at most, which is their bound: whoever keeps a picture paints first what is left of the stream's last.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    kept: Vec<VideoLayer>,
    /// Of the layer that went last.
    spare: Planes,
}

impl Layers {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &VideoLayer> {
        self.kept.iter()
    }

    /// The picture is what is seen of its stream, in this region. Gives what the last one still showed elsewhere, for it to be painted.
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
            Samples::Lent(lent) => planes.copy_from(lent),
            Samples::Given(given) => std::mem::swap(&mut planes, given),
        }
        self.kept.push(VideoLayer { stream, planes, source, place, region: region.clone() });
        older
    }

    /// Something else is seen here now.
    pub(crate) fn written(&mut self, region: &Region) {
        self.change(|layer| {
            if layer.region.overlaps(region) {
                layer.region.subtract(region);
            }
        });
    }

    /// The same of a rectangle.
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

    /// Takes one that is in too many pieces.
    pub(crate) fn take_shattered(&mut self) -> Option<VideoLayer> {
        let at = self.kept.iter().position(|layer| layer.region.rect_count() > LAYER_RECTS_MAX)?;
        Some(self.kept.swap_remove(at))
    }

    /// Takes any.
    pub(crate) fn take_any(&mut self) -> Option<VideoLayer> {
        self.kept.pop()
    }

    /// Its memory is free.
    pub(crate) fn reuse(&mut self, layer: VideoLayer) {
        self.spare = layer.planes;
    }
}
