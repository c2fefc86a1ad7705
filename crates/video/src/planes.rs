//! Beside the path: what a picture of a video is in memory, owned and borrowed.
//! Checks once that planes are as large as they say, so that nobody behind has to.
//! Knows lengths; never what samples mean.

use thinc_protocol::video::Layout;
use thinc_region::Size;

/// A picture: luma, blue difference, red difference, one after another without gaps, a byte a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planes {
    size: Size,
    layout: Layout,
    data: Vec<u8>,
}

impl Default for Planes {
    fn default() -> Planes {
        Planes { size: Size::default(), layout: Layout::Yuv420, data: Vec::new() }
    }
}

impl Planes {
    /// No picture yet; takes memory at the first `reset`.
    pub fn new() -> Planes {
        Planes::default()
    }

    /// Becomes a picture of this size, whose samples are to be written; keeps its memory where that is enough.
    pub fn reset(&mut self, size: Size, layout: Layout) {
        self.size = size;
        self.layout = layout;
        self.data.resize(layout.bytes(size) as usize, 0);
    }

    /// Becomes a copy of a picture that lies elsewhere.
    pub fn copy_from(&mut self, picture: &PlanesRef<'_>) {
        self.reset(picture.size, picture.layout);
        for (plane, out) in self.planes_mut().into_iter().enumerate() {
            let width = (picture.plane_size(plane).width as usize).max(1);
            for (out, row) in out.chunks_exact_mut(width).zip(picture.rows(plane)) {
                out.copy_from_slice(row);
            }
        }
    }

    /// Samples of luma across and down.
    pub fn size(&self) -> Size {
        self.size
    }

    /// How colour lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// All samples, as the protocol's plain pictures have them.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// All samples, to be written.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// The three planes, to be written.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let (luma, colour) = self.data.split_at_mut(self.size.area() as usize);
        let (blue, red) = colour.split_at_mut(self.layout.chroma(self.size).area() as usize);
        [luma, blue, red]
    }

    /// Borrowed.
    pub fn as_ref(&self) -> PlanesRef<'_> {
        PlanesRef::packed(self.size, self.layout, &self.data).expect("a picture is as long as its size says")
    }
}

/// A picture that lies elsewhere, its rows perhaps apart from each other.
#[derive(Clone, Copy, Debug)]
pub struct PlanesRef<'a> {
    size: Size,
    layout: Layout,
    planes: [&'a [u8]; 3],
    strides: [usize; 3],
}

impl<'a> PlanesRef<'a> {
    /// Planes one after another without gaps. Nothing unless `data` has exactly the bytes of such a picture.
    pub fn packed(size: Size, layout: Layout, data: &'a [u8]) -> Option<PlanesRef<'a>> {
        if data.len() as u64 != layout.bytes(size) {
            return None;
        }
        let colour = layout.chroma(size);
        let (luma, rest) = data.split_at(size.area() as usize);
        let (blue, red) = rest.split_at(colour.area() as usize);
        let strides = [size.width as usize, colour.width as usize, colour.width as usize];
        Some(PlanesRef { size, layout, planes: [luma, blue, red], strides })
    }

    /// Planes whose rows begin `strides` bytes apart. Nothing where a plane is too short for its size.
    pub fn new(size: Size, layout: Layout, planes: [&'a [u8]; 3], strides: [usize; 3]) -> Option<PlanesRef<'a>> {
        let colour = layout.chroma(size);
        let whole = [size, colour, colour].iter().zip(&planes).zip(strides).all(|((size, plane), stride)| {
            let rows = (size.height as usize).saturating_sub(1);
            let needed = rows.checked_mul(stride).and_then(|bytes| bytes.checked_add(size.width as usize));
            size.area() == 0 || stride >= size.width as usize && needed.is_some_and(|bytes| bytes <= plane.len())
        });
        whole.then_some(PlanesRef { size, layout, planes, strides })
    }

    /// Samples of luma across and down.
    pub fn size(&self) -> Size {
        self.size
    }

    /// How colour lies.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Samples of a plane: 0 luma, 1 blue, 2 red.
    pub fn plane_size(&self, plane: usize) -> Size {
        if plane == 0 { self.size } else { self.layout.chroma(self.size) }
    }

    /// One row of a plane.
    pub fn row(&self, plane: usize, y: usize) -> &'a [u8] {
        let start = y * self.strides[plane];
        &self.planes[plane][start..start + self.plane_size(plane).width as usize]
    }

    /// The rows of a plane from the top.
    pub fn rows(&self, plane: usize) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        (0..self.plane_size(plane).height as usize).map(move |y| self.row(plane, y))
    }

    /// A plane's bytes from its first sample on, and how far apart its rows begin.
    pub fn plane(&self, plane: usize) -> (&'a [u8], usize) {
        (self.planes[plane], self.strides[plane])
    }

    /// Written one plane after another without gaps, as the protocol's plain pictures are.
    pub fn write_packed(&self, out: &mut Vec<u8>) {
        out.reserve(self.layout.bytes(self.size) as usize);
        for plane in 0..3 {
            self.rows(plane).for_each(|row| out.extend_from_slice(row));
        }
    }
}
