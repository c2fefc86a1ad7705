//! The painter compared with the specification, computed pixel by pixel as in doc/protocol.md,
//! section 9: sizes, crops, places partly outside, clips.

use proptest::prelude::*;
use thinc_region::{Rect, Region, Size};
use thinc_video::{Grid, Painter, Planes, PlanesRef, SampleLayout, Source};

/// `first` and `weight` of pixel `i` in the document's notation: t pixels, a crop of n from s, m
/// samples of the plane, each covering d.
fn place_of(i: i64, t: i64, s: i64, n: i64, m: i64, d: i64) -> (usize, i64) {
    let at = (256 * (2 * s * t + (2 * i + 1) * n)) / (2 * t * d) - 128;
    let low = 256 * (s / d);
    let high = (256 * (((s + n + d - 1) / d) - 1)).min(256 * (m - 1));
    let at = at.clamp(low, high);
    ((at / 256) as usize, at % 256)
}

/// The sample of a plane at a pixel of the place: rows are interpolated, then columns.
fn sample(
    planes: &PlanesRef<'_>,
    plane: usize,
    source: &Source,
    place: &Rect,
    x: i32,
    y: i32,
) -> i32 {
    let (dx, dy) = match (plane, planes.layout()) {
        (0, _) => (1, 1),
        (_, SampleLayout::Yuv420) => (2, 2),
        (_, SampleLayout::Yuv422) => (2, 1),
        (_, SampleLayout::Yuv444) => (1, 1),
    };
    let m = |edge: u32, d: i64| (i64::from(edge) + d - 1) / d;
    let (t, s, n) =
        (i64::from(place.width()), i64::from(source.crop.x1), i64::from(source.crop.width()));
    let (column, wx) = place_of(i64::from(x - place.x1), t, s, n, m(source.size.width, dx), dx);
    let (t, s, n) =
        (i64::from(place.height()), i64::from(source.crop.y1), i64::from(source.crop.height()));
    let (row, wy) = place_of(i64::from(y - place.y1), t, s, n, m(source.size.height, dy), dy);
    let blended = |column: usize| {
        let a = i64::from(planes.row(plane, row)[column]);
        let b = if wy > 0 { i64::from(planes.row(plane, row + 1)[column]) } else { 0 };
        a * (256 - wy) + b * wy
    };
    let (p, q) = (blended(column), if wx > 0 { blended(column + 1) } else { 0 });
    ((p * (256 - wx) + q * wx + 32768) >> 16) as i32
}

fn pixel(planes: &PlanesRef<'_>, source: &Source, place: &Rect, x: i32, y: i32) -> u32 {
    let [luma, blue, red] = [0, 1, 2].map(|plane| sample(planes, plane, source, place, x, y));
    let (c, d, e) = (298 * (luma - 16) + 128, blue - 128, red - 128);
    let [red, green, blue] = [c + 409 * e, c - 100 * d - 208 * e, c + 516 * d]
        .map(|value| (value >> 8).clamp(0, 255) as u32);
    0xff00_0000 | red << 16 | green << 8 | blue
}

const SCREEN: Size = Size { width: 70, height: 50 };
/// A pixel that painting never produces: painted ones begin with 0xff.
const UNTOUCHED: u32 = 0x1234_5678;

/// A frame of random samples.
fn noise(size: Size, layout: SampleLayout, seed: u64) -> Planes {
    let mut planes = Planes::new();
    planes.reset(size, layout);
    let mut state = seed | 1;
    for sample in planes.data_mut() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *sample = (state >> 56) as u8;
    }
    planes
}

fn holds(
    painter: &mut Painter,
    planes: &PlanesRef<'_>,
    source: &Source,
    place: Rect,
    clip: &Region,
) {
    let stride = SCREEN.width as usize;
    let mut screen = vec![UNTOUCHED; SCREEN.area() as usize];
    painter.paint(planes, source, place, clip, &mut screen, stride);
    let area = SCREEN.rect().intersect(&place);
    let grid = Grid::new(planes.layout(), source, place, area);
    for (i, &painted) in screen.iter().enumerate() {
        let (x, y) = ((i % stride) as i32, (i / stride) as i32);
        if area.contains_point(x, y) {
            for plane in 0..3 {
                let elsewhere =
                    of_grid(planes, plane, &grid, (x - area.x1) as usize, (y - area.y1) as usize);
                assert_eq!(
                    elsewhere,
                    sample(planes, plane, source, &place, x, y),
                    "{x}, {y} of {place:?} from {source:?}"
                );
            }
        }
        let is_seen = clip.contains_point(x, y) && place.contains_point(x, y);
        let expected = if is_seen { pixel(planes, source, &place, x, y) } else { UNTOUCHED };
        assert_eq!(painted, expected, "{x}, {y} of {place:?} from {source:?}");
    }
}

/// The sample of a pixel, computed from the grid.
fn of_grid(planes: &PlanesRef<'_>, plane: usize, grid: &Grid, column: usize, row: usize) -> i32 {
    let (x, y) = (grid.columns[plane.min(1)][column], grid.rows[plane.min(1)][row]);
    let blended = |row: u32| {
        let (first, weight) = ((x >> 8) as usize, x & 255);
        let samples = planes.row(plane, row as usize);
        u32::from(samples[first]) * (256 - weight)
            + if weight > 0 { u32::from(samples[first + 1]) * weight } else { 0 }
    };
    let below = if y & 255 > 0 { blended((y >> 8) + 1) * (y & 255) } else { 0 };
    ((blended(y >> 8) * (256 - (y & 255)) + below + 32768) >> 16) as i32
}

fn sources() -> impl Strategy<Value = (SampleLayout, Source, u64)> {
    let layouts = prop_oneof![
        Just(SampleLayout::Yuv420),
        Just(SampleLayout::Yuv422),
        Just(SampleLayout::Yuv444)
    ];
    (layouts, 1..40i32, 1..40i32, any::<u64>()).prop_flat_map(|(layout, width, height, seed)| {
        let whole = Just(Rect::at(0, 0, width, height));
        let part = (0..width, 0..height).prop_flat_map(move |(x, y)| {
            (1..=width - x, 1..=height - y)
                .prop_map(move |(width, height)| Rect::at(x, y, width, height))
        });
        let size = Size { width: width as u32, height: height as u32 };
        prop_oneof![whole, part].prop_map(move |crop| (layout, Source { size, crop }, seed))
    })
}

fn places(source: Source) -> impl Strategy<Value = Rect> {
    let (width, height) = (source.crop.width(), source.crop.height());
    let corner = (-40..70, -40..50);
    let sizes = prop_oneof![
        Just((width, height)),
        Just((2 * width, 2 * height)),
        Just((4 * width, height)),
        (1..120, 1..120),
        (1..2000, 1..2000)
    ];
    (corner, sizes).prop_map(|((x, y), (width, height))| Rect::at(x, y, width, height))
}

fn clips() -> impl Strategy<Value = Region> {
    let rect = (-5..70, -5..50, 1..60, 1..40)
        .prop_map(|(x, y, width, height)| Rect::at(x, y, width, height));
    prop::collection::vec(rect, 1..6).prop_map(|rects| {
        let mut region = Region::new();
        rects.into_iter().for_each(|rect| region.add_rect(rect));
        region
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Several frames through one painter, which caches positions of the last one.
    #[test]
    fn painted_pixels_equal_the_specification(
        frames in prop::collection::vec(
            sources().prop_flat_map(|(layout, source, seed)| {
                (Just((layout, source, seed)), places(source), clips())
            }),
            1..4,
        ),
    ) {
        let mut painter = Painter::new();
        for ((layout, source, seed), place, clip) in frames {
            holds(&mut painter, &noise(source.size, layout, seed).as_ref(), &source, place, &clip);
        }
    }

    /// The padding of a coded frame is never visible.
    #[test]
    fn padding_is_never_visible((_, source, seed) in sources(), scale in 1..4i32) {
        let even = |edge: u32| edge.next_multiple_of(2);
        let size = Size { width: even(source.size.width), height: even(source.size.height) };
        let planes = noise(size, SampleLayout::Yuv420, seed);
        let place = Rect::at(0, 0, source.crop.width() * scale, source.crop.height() * scale);
        let clip = Region::from(SCREEN.rect());
        holds(&mut Painter::new(), &planes.as_ref(), &source, place, &clip);
    }

    /// A frame with a stride equals one without.
    #[test]
    fn padding_between_rows_is_not_read((layout, source, seed) in sources(), gap in 0..9usize) {
        let planes = noise(source.size, layout, seed);
        let mut apart = [vec![], vec![], vec![]];
        let mut strides = [0; 3];
        for plane in 0..3 {
            strides[plane] = planes.as_ref().plane_size(plane).width as usize + gap;
            for row in planes.as_ref().rows(plane) {
                apart[plane].extend_from_slice(row);
                apart[plane].resize(apart[plane].len() + gap, 0xa5);
            }
        }
        let parts = [&apart[0][..], &apart[1], &apart[2]];
        let apart = PlanesRef::new(source.size, layout, parts, strides).unwrap();
        let clip = Region::from(SCREEN.rect());
        holds(&mut Painter::new(), &apart, &source, SCREEN.rect(), &clip);
        let mut packed = Vec::new();
        apart.write_packed(&mut packed);
        prop_assert_eq!(&packed[..], planes.data());
    }
}

#[test]
fn the_largest_place_of_the_largest_frame_equals_the_specification() {
    let size = Size { width: 8192, height: 3 };
    let planes = noise(size, SampleLayout::Yuv420, 7);
    let source = Source { size, crop: size.rect() };
    let clip = Region::from(SCREEN.rect());
    for x in [0, -32_768 + 70, -16_000] {
        holds(
            &mut Painter::new(),
            &planes.as_ref(),
            &source,
            Rect::at(x, 0, 32_768, 32_768),
            &clip,
        );
        holds(
            &mut Painter::new(),
            &planes.as_ref(),
            &source,
            Rect::at(x, -32_768 + 50, 32_768, 32_768),
            &clip,
        );
    }
}

#[test]
fn planes_that_are_too_short_are_refused() {
    let size = Size { width: 5, height: 3 };
    assert_eq!(SampleLayout::Yuv420.bytes(size), 15 + 2 * 6);
    assert!(PlanesRef::packed(size, SampleLayout::Yuv420, &[0; 27]).is_some());
    assert!(PlanesRef::packed(size, SampleLayout::Yuv420, &[0; 26]).is_none());
    assert!(PlanesRef::packed(size, SampleLayout::Yuv420, &[0; 28]).is_none());
    let (luma, colour) = ([0; 21], [0; 6]);
    assert!(
        PlanesRef::new(size, SampleLayout::Yuv420, [&luma, &colour, &colour], [8, 3, 3]).is_some()
    );
    assert!(
        PlanesRef::new(size, SampleLayout::Yuv420, [&luma[1..], &colour, &colour], [8, 3, 3])
            .is_none()
    );
    assert!(
        PlanesRef::new(size, SampleLayout::Yuv420, [&luma, &colour[1..], &colour], [8, 3, 3])
            .is_none()
    );
    assert!(
        PlanesRef::new(size, SampleLayout::Yuv420, [&luma, &colour, &colour], [4, 3, 3]).is_none()
    );
    assert!(
        PlanesRef::new(size, SampleLayout::Yuv420, [&luma, &colour, &colour], [8, 3, usize::MAX])
            .is_none()
    );
}
