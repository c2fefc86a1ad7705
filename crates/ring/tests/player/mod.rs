//! Used by the tests of XVideo: an X client with one window that shows pictures of any format, and
//! the arithmetic of doc/protocol.md, section 9, written again as plainly as possible. Knows X's
//! requests and samples; never records.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use thinc_region::{Rect, Size};
use thinc_ring::VideoLayout;
use x11rb::COPY_FROM_PARENT;
use x11rb::connection::Connection;
use x11rb::cookie::VoidCookie;
use x11rb::protocol::shm::ConnectionExt as _;
use x11rb::protocol::xproto::*;
use x11rb::protocol::xv::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use crate::xdraw::Random;
use crate::xserver::XServer;

/// Background of the player's window.
pub(crate) const BACKGROUND: u32 = 0x11_2233;

/// Samples, and the format in which they are sent.
pub(crate) struct Picture {
    pub(crate) format: [u8; 4],
    pub(crate) layout: VideoLayout,
    pub(crate) size: Size,
    pub(crate) planes: [Vec<u8>; 3],
}

impl Picture {
    pub(crate) fn name(&self) -> String {
        format!(
            "{} of {}x{}",
            String::from_utf8_lossy(&self.format),
            self.size.width,
            self.size.height
        )
    }

    fn of(format: &[u8; 4], size: Size, mut plane: impl FnMut(usize, usize) -> Vec<u8>) -> Picture {
        let packed = matches!(format, b"YUY2" | b"UYVY");
        let (width, height) = (size.width as usize, size.height as usize);
        let (across, down) = (width.div_ceil(2), if packed { height } else { height.div_ceil(2) });
        // With one row both layouts are the same, and the driver names the first.
        let layout = if packed && height > 1 { VideoLayout::Yuv422 } else { VideoLayout::Yuv420 };
        let planes = [plane(0, width * height), plane(1, across * down), plane(2, across * down)];
        Picture { format: *format, layout, size, planes }
    }

    /// Random bytes, including invalid colours.
    pub(crate) fn random(format: &[u8; 4], size: Size, random: &mut Random) -> Picture {
        Picture::of(format, size, |_, count| {
            (0..count).map(|_| random.within(0, 255) as u8).collect()
        })
    }

    /// Luma is `value`; blue and red are the next values.
    pub(crate) fn plain(format: &[u8; 4], size: Size, value: u8) -> Picture {
        Picture::of(format, size, |plane, count| vec![value.wrapping_add(plane as u8); count])
    }

    /// Writes the samples in the server's layout.
    fn packed(&self, pitches: &[u32], offsets: &[u32], out: &mut [u8]) {
        let (width, height) = (self.size.width as usize, self.size.height as usize);
        let across = width.div_ceil(2);
        let mut rows = |plane: &[u8], row: usize, at: usize, pitch: usize, step: usize| {
            for (y, line) in plane.chunks_exact(row).enumerate() {
                for (x, &sample) in line.iter().enumerate() {
                    out[at + y * pitch + x * step] = sample;
                }
            }
        };
        let at = |i: usize| (offsets[i] as usize, pitches[i] as usize);
        let [luma, blue, red] = &self.planes;
        match &self.format {
            b"YV12" | b"I420" => {
                let (second, third) =
                    if &self.format == b"I420" { (blue, red) } else { (red, blue) };
                rows(luma, width, at(0).0, at(0).1, 1);
                rows(second, across, at(1).0, at(1).1, 1);
                rows(third, across, at(2).0, at(2).1, 1);
            }
            b"NV12" => {
                rows(luma, width, at(0).0, at(0).1, 1);
                rows(blue, across, at(1).0, at(1).1, 2);
                rows(red, across, at(1).0 + 1, at(1).1, 2);
            }
            _ => {
                let (first, color) = if &self.format == b"YUY2" { (0, 1) } else { (1, 0) };
                assert_eq!(blue.len(), across * height);
                rows(luma, width, first, at(0).1, 2);
                rows(blue, across, color, at(0).1, 4);
                rows(red, across, color + 2, at(0).1, 4);
            }
        }
    }
}

/// An X client with a window.
pub(crate) struct Player {
    pub(crate) conn: RustConnection,
    pub(crate) window: Window,
    root: Window,
    gc: Gcontext,
    base: u32,
    segments: Vec<(u32, OwnedFd)>,
}

impl Player {
    pub(crate) fn new(server: &XServer, at: Rect) -> Player {
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        let adaptors = conn.xv_query_adaptors(root).unwrap().reply().unwrap().info;
        let adaptor = adaptors.first().expect("the server has an XVideo adaptor");
        assert_eq!(adaptor.num_ports, 16);
        let base = adaptor.base_id;
        let gc = conn.generate_id().unwrap();
        let mut player = Player { conn, window: 0, root, gc, base, segments: Vec::new() };
        player.window = player.cover(at, BACKGROUND);
        player.conn.create_gc(gc, player.window, &CreateGCAux::new()).unwrap();
        player.sync();
        player
    }

    pub(crate) fn gc(&self) -> Gcontext {
        self.gc
    }

    pub(crate) fn port(&self, port: u32) -> u32 {
        self.base + port
    }

    /// Opens a window of one colour above all others.
    pub(crate) fn cover(&self, at: Rect, color: u32) -> Window {
        let window = self.conn.generate_id().unwrap();
        let aux = CreateWindowAux::new().override_redirect(1).background_pixel(color);
        let (width, height) = (at.width() as u16, at.height() as u16);
        let (x, y) = (at.x1 as i16, at.y1 as i16);
        let class = WindowClass::INPUT_OUTPUT;
        self.conn
            .create_window(
                24,
                window,
                self.root,
                x,
                y,
                width,
                height,
                0,
                class,
                COPY_FROM_PARENT,
                &aux,
            )
            .unwrap();
        self.conn.map_window(window).unwrap();
        self.sync();
        window
    }

    pub(crate) fn clear(&self) {
        self.conn.clear_area(false, self.window, 0, 0, 0, 0).unwrap();
        self.sync();
    }

    /// Waits until all earlier requests are done.
    pub(crate) fn sync(&self) {
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }

    fn bytes(&self, picture: &Picture) -> Vec<u8> {
        let id = u32::from_le_bytes(picture.format);
        let (width, height) = (picture.size.width as u16, picture.size.height as u16);
        let layout = self
            .conn
            .xv_query_image_attributes(self.base, id, width, height)
            .unwrap()
            .reply()
            .unwrap();
        let mut bytes = vec![0; layout.data_size as usize];
        picture.packed(&layout.pitches, &layout.offsets, &mut bytes);
        bytes
    }

    /// PutImage; `place` is in the window.
    pub(crate) fn put(&mut self, port: u32, picture: &Picture, crop: Rect, place: Rect) {
        let bytes = self.bytes(picture);
        self.put_bytes(port, (&picture.format, picture.size), &bytes, crop, place).check().unwrap();
    }

    /// PutImage of an image of this format and size, whose bytes these are.
    pub(crate) fn put_bytes(
        &self,
        port: u32,
        (format, size): (&[u8; 4], Size),
        bytes: &[u8],
        crop: Rect,
        place: Rect,
    ) -> VoidCookie<'_, RustConnection> {
        let id = u32::from_le_bytes(*format);
        let (c, p) = (numbers(crop), numbers(place));
        let (width, height) = (size.width as u16, size.height as u16);
        self.conn
            .xv_put_image(
                self.port(port),
                self.window,
                self.gc,
                id,
                c.0,
                c.1,
                c.2,
                c.3,
                p.0,
                p.1,
                p.2,
                p.3,
                width,
                height,
                bytes,
            )
            .unwrap()
    }

    /// ShmPutImage, as used by players; the memory stays attached until the client ends.
    pub(crate) fn put_shared(&mut self, port: u32, picture: &Picture, crop: Rect, place: Rect) {
        let bytes = self.bytes(picture);
        let id = u32::from_le_bytes(picture.format);
        let memory = memfd_create("frame", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&memory, bytes.len() as u64).unwrap();
        let mut written = 0;
        while written < bytes.len() {
            written += rustix::io::pwrite(&memory, &bytes[written..], written as u64).unwrap();
        }
        let segment = self.conn.generate_id().unwrap();
        self.conn
            .shm_attach_fd(segment, memory.try_clone().unwrap(), false)
            .unwrap()
            .check()
            .unwrap();
        let (c, p) = (numbers(crop), numbers(place));
        let (width, height) = (picture.size.width as u16, picture.size.height as u16);
        self.conn
            .xv_shm_put_image(
                self.port(port),
                self.window,
                self.gc,
                segment,
                id,
                0,
                c.0,
                c.1,
                c.2,
                c.3,
                p.0,
                p.1,
                p.2,
                p.3,
                width,
                height,
                0,
            )
            .unwrap();
        self.sync();
        self.segments.push((segment, memory));
    }
}

fn numbers(rect: Rect) -> (i16, i16, u16, u16) {
    (rect.x1 as i16, rect.y1 as i16, rect.width() as u16, rect.height() as u16)
}

// ---- doc/protocol.md, section 9 -----------------------------------------------------------------

/// `first` and `weight` of pixel i of t, of a crop from s of n, in a plane of m samples of which
/// one covers d of luma.
fn tap(i: i64, t: i64, s: i64, n: i64, d: i64, m: i64) -> (usize, i64) {
    let at = (256 * (2 * s * t + (2 * i + 1) * n)) / (2 * t * d) - 128;
    let (low, high) = (256 * (s / d), 256 * ((s + n + d - 1) / d - 1));
    let at = at.min(high).min(256 * (m - 1)).max(low);
    ((at / 256) as usize, at % 256)
}

/// All pixels of a place, 0x00RRGGBB.
pub(crate) fn convert(
    planes: &[Vec<u8>; 3],
    layout: VideoLayout,
    size: Size,
    crop: Rect,
    place: Rect,
) -> Vec<u32> {
    let (width, height) = (i64::from(size.width), i64::from(size.height));
    let down = if layout == VideoLayout::Yuv420 { 2 } else { 1 };
    let sample = |plane: usize, i: i64, j: i64| -> i64 {
        let (dx, dy) = if plane == 0 { (1, 1) } else { (2, down) };
        let (across, rows) = ((width + dx - 1) / dx, (height + dy - 1) / dy);
        let (x, wx) = tap(i, place.width().into(), crop.x1.into(), crop.width().into(), dx, across);
        let (y, wy) = tap(j, place.height().into(), crop.y1.into(), crop.height().into(), dy, rows);
        let at = |x: usize, y: usize| {
            let (x, y) = (x.min(across as usize - 1), y.min(rows as usize - 1));
            i64::from(planes[plane][y * across as usize + x])
        };
        let row = |x: usize| at(x, y) * (256 - wy) + at(x, y + 1) * wy;
        (row(x) * (256 - wx) + row(x + 1) * wx + 32768) >> 16
    };
    let pixel = |i: i64, j: i64| {
        let c = 298 * (sample(0, i, j) - 16) + 128;
        let (d, e) = (sample(1, i, j) - 128, sample(2, i, j) - 128);
        let [red, green, blue] =
            [(c + 409 * e) >> 8, (c - 100 * d - 208 * e) >> 8, (c + 516 * d) >> 8]
                .map(|v| v.clamp(0, 255) as u32);
        red << 16 | green << 8 | blue
    };
    let (across, down) = (i64::from(place.width()), i64::from(place.height()));
    (0..down).flat_map(|j| (0..across).map(move |i| (i, j))).map(|(i, j)| pixel(i, j)).collect()
}

/// For comparisons whose failures should not print all pixels.
pub(crate) fn hash(pixels: &[u32]) -> u64 {
    pixels.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &pixel| {
        (hash ^ u64::from(pixel)).wrapping_mul(0x100_0000_01b3)
    })
}
