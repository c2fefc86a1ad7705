//! Beside the path: a frame of a video in memory, owned and borrowed.
//! Checks the lengths of planes once, so that later code can rely on them.
//! Knows lengths; never the meaning of samples.

use thinc_protocol::video::SampleLayout;
use thinc_region::Size;

/// A frame: the planes Y, Cb and Cr one after another without padding, one byte per sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planes {
    size: Size,
    layout: SampleLayout,
    data: Vec<u8>,
}

impl Default for Planes {
    fn default() -> Planes {
        Planes { size: Size::default(), layout: SampleLayout::Yuv420, data: Vec::new() }
    }
}

impl Planes {
    /// An empty frame; allocates with the first `reset`.
    pub fn new() -> Planes {
        Planes::default()
    }

    /// Changes the size; the samples are undefined until written. Reuses the memory.
    pub fn reset(&mut self, size: Size, layout: SampleLayout) {
        self.size = size;
        self.layout = layout;
        self.data.resize(layout.bytes(size) as usize, 0);
    }

    /// Copies a borrowed frame.
    pub fn copy_from(&mut self, frame: &PlanesRef<'_>) {
        self.reset(frame.size, frame.layout);
        for (plane, out) in self.planes_mut().into_iter().enumerate() {
            let width = (frame.plane_size(plane).width as usize).max(1);
            for (out, row) in out.chunks_exact_mut(width).zip(frame.rows(plane)) {
                out.copy_from_slice(row);
            }
        }
    }

    /// Size in luma samples.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Layout of the samples.
    pub fn layout(&self) -> SampleLayout {
        self.layout
    }

    /// All samples, in the form of the protocol's plain frames.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// All samples, mutable.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.data
    }

    /// The three planes, mutable.
    pub fn planes_mut(&mut self) -> [&mut [u8]; 3] {
        let (luma, colour) = self.data.split_at_mut(self.size.area() as usize);
        let (blue, red) = colour.split_at_mut(self.layout.chroma(self.size).area() as usize);
        [luma, blue, red]
    }

    /// Borrows the frame.
    pub fn as_ref(&self) -> PlanesRef<'_> {
        PlanesRef::packed(self.size, self.layout, &self.data)
            .expect("a frame must have the length of its size")
    }
}

/// A borrowed frame, possibly with a stride.
#[derive(Clone, Copy, Debug)]
pub struct PlanesRef<'a> {
    size: Size,
    layout: SampleLayout,
    planes: [&'a [u8]; 3],
    strides: [usize; 3],
}

impl<'a> PlanesRef<'a> {
    /// Planes one after another without padding. None unless `data` has exactly the bytes of such a
    /// frame.
    pub fn packed(size: Size, layout: SampleLayout, data: &'a [u8]) -> Option<PlanesRef<'a>> {
        if data.len() as u64 != layout.bytes(size) {
            return None;
        }
        let colour = layout.chroma(size);
        let (luma, rest) = data.split_at(size.area() as usize);
        let (blue, red) = rest.split_at(colour.area() as usize);
        let strides = [size.width as usize, colour.width as usize, colour.width as usize];
        Some(PlanesRef { size, layout, planes: [luma, blue, red], strides })
    }

    /// Planes whose rows begin `strides` bytes apart. None if a plane is too short for its size.
    pub fn new(
        size: Size,
        layout: SampleLayout,
        planes: [&'a [u8]; 3],
        strides: [usize; 3],
    ) -> Option<PlanesRef<'a>> {
        let colour = layout.chroma(size);
        let whole = [size, colour, colour].iter().zip(&planes).zip(strides).all(
            |((size, plane), stride)| {
                let rows = (size.height as usize).saturating_sub(1);
                let needed = rows
                    .checked_mul(stride)
                    .and_then(|bytes| bytes.checked_add(size.width as usize));
                size.area() == 0
                    || stride >= size.width as usize
                        && needed.is_some_and(|bytes| bytes <= plane.len())
            },
        );
        whole.then_some(PlanesRef { size, layout, planes, strides })
    }

    /// Size in luma samples.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Layout of the samples.
    pub fn layout(&self) -> SampleLayout {
        self.layout
    }

    /// Size of a plane in samples: 0 is Y, 1 Cb, 2 Cr.
    pub fn plane_size(&self, plane: usize) -> Size {
        if plane == 0 { self.size } else { self.layout.chroma(self.size) }
    }

    /// One row of a plane.
    pub fn row(&self, plane: usize, y: usize) -> &'a [u8] {
        let start = y * self.strides[plane];
        &self.planes[plane][start..start + self.plane_size(plane).width as usize]
    }

    /// The rows of a plane, top to bottom.
    pub fn rows(&self, plane: usize) -> impl Iterator<Item = &'a [u8]> + use<'a, '_> {
        (0..self.plane_size(plane).height as usize).map(move |y| self.row(plane, y))
    }

    /// A plane's bytes from its first sample on, and its stride.
    pub fn plane(&self, plane: usize) -> (&'a [u8], usize) {
        (self.planes[plane], self.strides[plane])
    }

    /// Appends one plane after another without padding, in the form of the protocol's plain frames.
    pub fn write_packed(&self, out: &mut Vec<u8>) {
        out.reserve(self.layout.bytes(self.size) as usize);
        for plane in 0..3 {
            self.rows(plane).for_each(|row| out.extend_from_slice(row));
        }
    }
}
