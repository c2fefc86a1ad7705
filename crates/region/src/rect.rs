//! A half-open rectangle and a size, in pixels of a screen or a drawable.
//! Beneath region.rs. A rectangle may be empty, and all empty ones behave the same.

/// Half-open rectangle: `x1 <= x < x2`, `y1 <= y < y2`, in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rect {
    /// Left edge, inclusive.
    pub x1: i32,
    /// Top edge, inclusive.
    pub y1: i32,
    /// Right edge, exclusive.
    pub x2: i32,
    /// Bottom edge, exclusive.
    pub y2: i32,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Size {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
}

impl Rect {
    /// The rectangle with these edges; empty if an edge is not before its opposite.
    pub const fn new(x1: i32, y1: i32, x2: i32, y2: i32) -> Rect {
        Rect { x1, y1, x2, y2 }
    }

    /// The rectangle with this upper left corner and size.
    pub const fn at(x: i32, y: i32, width: i32, height: i32) -> Rect {
        Rect { x1: x, y1: y, x2: x + width, y2: y + height }
    }

    /// True if it has no pixel.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.x1 >= self.x2 || self.y1 >= self.y2
    }

    /// Width in pixels, 0 for an empty rectangle.
    #[inline]
    pub const fn width(&self) -> i32 {
        if self.is_empty() { 0 } else { self.x2 - self.x1 }
    }

    /// Height in pixels, 0 for an empty rectangle.
    #[inline]
    pub const fn height(&self) -> i32 {
        if self.is_empty() { 0 } else { self.y2 - self.y1 }
    }

    /// Number of pixels.
    #[inline]
    pub const fn area(&self) -> u64 {
        self.width() as u64 * self.height() as u64
    }

    /// The intersection.
    #[inline]
    pub fn intersect(&self, other: &Rect) -> Rect {
        Rect {
            x1: self.x1.max(other.x1),
            y1: self.y1.max(other.y1),
            x2: self.x2.min(other.x2),
            y2: self.y2.min(other.y2),
        }
    }

    /// True if both have a pixel in common.
    #[inline]
    pub fn overlaps(&self, other: &Rect) -> bool {
        !self.intersect(other).is_empty()
    }

    /// The smallest rectangle that contains both; an empty one is ignored.
    #[inline]
    pub fn bound(&self, other: &Rect) -> Rect {
        if self.is_empty() {
            return *other;
        }
        if other.is_empty() {
            return *self;
        }
        Rect {
            x1: self.x1.min(other.x1),
            y1: self.y1.min(other.y1),
            x2: self.x2.max(other.x2),
            y2: self.y2.max(other.y2),
        }
    }

    /// True if every pixel of `other` is in `self`.
    #[inline]
    pub fn contains(&self, other: &Rect) -> bool {
        other.is_empty()
            || (self.x1 <= other.x1
                && self.y1 <= other.y1
                && self.x2 >= other.x2
                && self.y2 >= other.y2)
    }

    /// True if it contains the pixel.
    #[inline]
    pub const fn contains_point(&self, x: i32, y: i32) -> bool {
        self.x1 <= x && x < self.x2 && self.y1 <= y && y < self.y2
    }

    /// Moved by a vector.
    #[inline]
    pub const fn translate(&self, dx: i32, dy: i32) -> Rect {
        Rect { x1: self.x1 + dx, y1: self.y1 + dy, x2: self.x2 + dx, y2: self.y2 + dy }
    }

    /// Grown by `n` pixels on every side.
    pub const fn grow(&self, n: i32) -> Rect {
        Rect { x1: self.x1 - n, y1: self.y1 - n, x2: self.x2 + n, y2: self.y2 + n }
    }
}

impl Size {
    /// The rectangle of this size at the origin.
    pub const fn rect(&self) -> Rect {
        Rect { x1: 0, y1: 0, x2: self.width as i32, y2: self.height as i32 }
    }

    /// Number of pixels.
    pub const fn area(&self) -> u64 {
        self.width as u64 * self.height as u64
    }
}
