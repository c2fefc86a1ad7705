//! DRI3 in a real Xorg: OpenGL programs draw on a GPU, and X shows, bit for bit, what they have
//! drawn; GL compositors read what X draws. Those tests need THINC_TEST_RENDER_NODE, which
//! `./dev test --long` sets in a virtual machine with a virtual GPU. What no GPU does when asked,
//! such as to hang, is shown with driver/test/gbm.c in place of libgbm. Knows X's requests and the
//! program driver/test/gl.c; never a viewer.

mod coverage;
mod xserver;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, Mode, fchmod, ftruncate, memfd_create};
use thinc_region::Rect;
use thinc_ring::{DrawHint, DrawRecord, FRAME_RATE_MIN, RecordKind};
use x11rb::connection::{Connection as _, RequestConnection as _};
use x11rb::protocol::composite::{self, ConnectionExt as _};
use x11rb::protocol::dri3::ConnectionExt as _;
use x11rb::protocol::res::{self, ConnectionExt as _};
use x11rb::protocol::xproto::*;
use x11rb::rust_connection::RustConnection;

use coverage::{Reader, TIMEOUT};
use xserver::{Build, Options, XServer, driver};

const NO_NODE: &str = "/dev/dri/renderD255";
/// Names of layouts, in the kernel's drm_fourcc.h.
const LINEAR: u64 = 0;
const ANY_LAYOUT: u64 = (1 << 56) - 1;
/// The colours of a pixel; a window has no alpha.
const COLORS: u32 = 0x00ff_ffff;

fn render_node() -> Option<&'static str> {
    let node = std::env::var("THINC_TEST_RENDER_NODE").ok();
    if node.is_none() {
        eprintln!("skipped: THINC_TEST_RENDER_NODE names no GPU");
    }
    node.map(|node| &*node.leak())
}

fn start(node: &'static str) -> XServer {
    let options =
        Options { width: 1100, height: 800, render_node: Some(node), ..Options::default() };
    XServer::start(options)
}

fn has_dri3(conn: &RustConnection) -> bool {
    conn.extension_information("DRI3").unwrap().is_some()
}

/// The program driver/test/gl.c.
struct Gl {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Gl {
    fn start(server: &XServer) -> Gl {
        Gl::start_with(server, "2")
    }

    /// `vblank_mode`: Mesa's; 0 waits for no monitor, 2 does as the program wants.
    fn start_with(server: &XServer, vblank_mode: &str) -> Gl {
        let folder = driver(Build::Plain);
        let mut make = Command::new("make");
        make.args(["-s", "-C"]).arg(folder.join("..")).arg("test/gl");
        assert!(make.status().unwrap().success(), "the program builds");
        let mut child = Command::new(folder.join("gl"))
            .env("DISPLAY", format!(":{}", server.display))
            .env("vblank_mode", vblank_mode)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Gl { child, input, output: BufReader::new(output) }
    }

    fn say(&mut self, words: &str) {
        writeln!(self.input, "{words}").unwrap();
    }

    fn ask(&mut self, words: &str) -> String {
        self.say(words);
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{words}: the program ended");
        line.trim_end().to_owned()
    }

    fn pixels(&mut self, words: &str, width: u16, height: u16) -> Vec<u32> {
        self.say(words);
        let mut bytes = vec![0; 4 * usize::from(width) * usize::from(height)];
        self.output.read_exact(&mut bytes).unwrap();
        to_pixels(&bytes)
    }

    /// A window, and who draws it.
    fn window(&mut self, width: u16, height: u16) -> (Window, String) {
        let answer = self.ask(&format!("window {width} {height}"));
        let (window, renderer) = answer.split_once(' ').unwrap();
        (window.parse().unwrap(), renderer.to_owned())
    }

    /// A frame that it shows, as OpenGL reads it, with the top row first.
    fn frame(&mut self, seed: u32, width: u16, height: u16) -> Vec<u32> {
        let pixels = self.pixels(&format!("frame {seed}"), width, height);
        let rows = pixels.chunks_exact(usize::from(width)).rev();
        rows.flatten().map(|pixel| pixel & COLORS).collect()
    }
}

impl Drop for Gl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn to_pixels(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

fn image(conn: &RustConnection, drawable: Drawable, width: u16, height: u16) -> Vec<u32> {
    let format = ImageFormat::Z_PIXMAP;
    let reply = conn.get_image(format, drawable, 0, 0, width, height, u32::MAX).unwrap();
    to_pixels(&reply.reply().unwrap().data)
}

fn colors(pixels: Vec<u32>) -> Vec<u32> {
    pixels.into_iter().map(|pixel| pixel & COLORS).collect()
}

/// Bit for bit, however long X takes to show it.
fn wait_until_shown(conn: &RustConnection, window: Window, frame: &[u32], width: u16, height: u16) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let shown = colors(image(conn, window, width, height));
        let differing = shown.iter().zip(frame).filter(|(a, b)| a != b).count();
        if differing == 0 {
            assert_eq!(shown.len(), frame.len());
            return;
        }
        assert!(
            Instant::now() < deadline,
            "{differing} of {} pixels of a {width}x{height} frame differ",
            frame.len()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Descriptors and mappings of the X server.
fn resources(server: &XServer) -> (usize, usize) {
    let fds = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    (fds, server.maps().lines().count())
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// X frees what programs had a moment after they are gone.
fn wait_until_freed(server: &XServer, before: (usize, usize)) {
    // Mesa keeps some memory, and a descriptor of its cache.
    let allowed = (before.0 + 4, before.1 + 64);
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let now = resources(server);
        if now.0 <= allowed.0 && now.1 <= allowed.1 {
            return;
        }
        assert!(Instant::now() < deadline, "descriptors and mappings: {before:?} became {now:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

struct Client {
    conn: RustConnection,
    root: Window,
    gc: Gcontext,
}

impl Client {
    fn new(server: &XServer) -> Client {
        let (conn, screen) = server.connect();
        let root = conn.setup().roots[screen].root;
        let gc = conn.generate_id().unwrap();
        conn.create_gc(gc, root, &CreateGCAux::new().graphics_exposures(0)).unwrap();
        conn.composite_query_version(0, 4).unwrap().reply().unwrap();
        conn.dri3_query_version(1, 2).unwrap().reply().unwrap();
        Client { conn, root, gc }
    }

    fn sync(&self) {
        self.conn.get_input_focus().unwrap().reply().unwrap();
    }

    fn fill(&self, drawable: Drawable, color: u32, rect: Rect) {
        self.conn.change_gc(self.gc, &ChangeGCAux::new().foreground(color)).unwrap();
        let rect = Rectangle {
            x: rect.x1 as i16,
            y: rect.y1 as i16,
            width: rect.width() as u16,
            height: rect.height() as u16,
        };
        self.conn.poly_fill_rectangle(drawable, self.gc, &[rect]).unwrap();
    }

    fn put(&self, drawable: Drawable, pixels: &[u32], width: u16, x: i16, y: i16) {
        let bytes: Vec<u8> = pixels.iter().flat_map(|pixel| pixel.to_le_bytes()).collect();
        let height = (pixels.len() / usize::from(width)) as u16;
        let format = ImageFormat::Z_PIXMAP;
        self.conn.put_image(format, drawable, self.gc, width, height, x, y, 0, 24, &bytes).unwrap();
    }

    fn pixmap(&self, width: u16, height: u16) -> Pixmap {
        let pixmap = self.conn.generate_id().unwrap();
        self.conn.create_pixmap(24, pixmap, self.root, width, height).unwrap();
        pixmap
    }

    fn window(&self, x: i16, y: i16, width: u16, height: u16) -> Window {
        let (conn, window) = (&self.conn, self.conn.generate_id().unwrap());
        let aux = CreateWindowAux::new().override_redirect(1);
        let (class, none) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
        conn.create_window(24, window, self.root, x, y, width, height, 0, class, none, &aux)
            .unwrap();
        conn.map_window(window).unwrap();
        window
    }

    /// A window that a compositor shows, and its pixmap.
    fn redirected_window(&self, width: u16, height: u16) -> (Window, Pixmap) {
        let (conn, window) = (&self.conn, self.window(0, 0, width, height));
        let pixmap = conn.generate_id().unwrap();
        conn.composite_redirect_window(window, composite::Redirect::MANUAL).unwrap();
        conn.composite_name_window_pixmap(window, pixmap).unwrap().check().unwrap();
        (window, pixmap)
    }

    /// Of all X clients.
    fn pixmaps(&self) -> u32 {
        let pixmap = self.conn.intern_atom(true, b"PIXMAP").unwrap().reply().unwrap().atom;
        let clients = self.conn.res_query_clients().unwrap().reply().unwrap().clients;
        let of = |client: &res::Client| {
            let reply = self.conn.res_query_client_resources(client.resource_base).unwrap().reply();
            let types = reply.unwrap().types;
            types.iter().filter(|of| of.resource_type == pixmap).map(|of| of.count).sum::<u32>()
        };
        clients.iter().map(of).sum()
    }

    /// The buffer of a pixmap, and the length of its rows.
    fn export(&self, pixmap: Pixmap) -> (OwnedFd, u32) {
        let mut reply = self.conn.dri3_buffers_from_pixmap(pixmap).unwrap().reply().unwrap();
        assert_eq!((reply.buffers.len(), reply.offsets[0], reply.modifier), (1, 0, LINEAR));
        (reply.buffers.pop().unwrap(), reply.strides[0])
    }

    fn import(&self, fd: &OwnedFd, buffer: Buffer) -> Result<Pixmap, ()> {
        let pixmap = self.conn.generate_id().unwrap();
        let fds = (0..buffer.planes).map(|_| fd.try_clone().unwrap()).collect();
        let Buffer { width, height, stride, offset, depth, bpp, modifier, .. } = buffer;
        self.conn
            .dri3_pixmap_from_buffers(
                pixmap, self.root, width, height, stride, offset, 0, 0, 0, 0, 0, 0, depth, bpp,
                modifier, fds,
            )
            .unwrap()
            .check()
            .map(|()| pixmap)
            .map_err(drop)
    }
}

/// What a client says of a buffer that it gives to X.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    width: u16,
    height: u16,
    stride: u32,
    offset: u32,
    depth: u8,
    bpp: u8,
    modifier: u64,
    planes: usize,
}

// ---- without a GPU

#[test]
fn without_the_option_there_is_no_dri3() {
    let server = XServer::start(Options::default());
    let (conn, _) = server.connect();
    assert!(!has_dri3(&conn));
    assert!(!server.maps().contains("libgbm"), "nothing of GBM is loaded");
}

#[test]
fn a_node_that_does_not_exist_is_named_in_the_log() {
    for (node, why) in [(NO_NODE, "No such file or directory"), ("/dev/null", "GBM")] {
        let options = Options { render_node: Some(node), ..Options::default() };
        let server = XServer::start(options);
        let (conn, _) = server.connect();
        assert!(!has_dri3(&conn));
        let log = server.log();
        let line = log.lines().find(|line| line.contains("no DRI3")).expect("the log says so");
        assert!(line.contains(node) && line.contains(why), "{line}");
        let root = conn.setup().roots[0].root;
        assert_eq!(image(&conn, root, 1, 1).len(), 1);
    }
}

// ---- with memory in place of a GPU's

/// What driver/test/gbm.c reads from the permissions of a buffer.
const IS_WRITTEN: u32 = 1;
const IS_READ: u32 = 2;
const IS_TILED: u32 = 4;
const HAS_NO_PAGES: u32 = 8;
const IS_UNMAPPABLE: u32 = 16;
/// The width of new buffers that cannot be mapped.
const WIDTH_UNMAPPABLE: u16 = 13;

/// A second, on a machine that is busy.
const ABOUT_A_SECOND: std::ops::Range<Duration> =
    Duration::from_millis(900)..Duration::from_millis(4000);

/// A buffer in memory.
struct Memory {
    fd: OwnedFd,
    stride: u32,
}

impl Memory {
    /// Of one colour.
    fn new(width: u16, height: u16, color: u32) -> Memory {
        let memory = Memory {
            fd: memfd_create("buffer", MemfdFlags::CLOEXEC).unwrap(),
            stride: u32::from(width) * 4,
        };
        memory.set(0);
        let pixels = usize::from(width) * usize::from(height);
        let bytes = color.to_le_bytes().repeat(pixels);
        memory.file().write_all_at(&bytes, 0).unwrap();
        memory
    }

    fn file(&self) -> fs::File {
        self.fd.try_clone().unwrap().into()
    }

    fn set(&self, state: u32) {
        fchmod(&self.fd, Mode::from_raw_mode(state)).unwrap();
    }

    fn pixel(&self, x: u32, y: u32) -> u32 {
        let mut bytes = [0; 4];
        self.file().read_exact_at(&mut bytes, u64::from(y * self.stride + x * 4)).unwrap();
        u32::from_le_bytes(bytes) & COLORS
    }

    fn import(
        &self,
        client: &Client,
        width: u16,
        height: u16,
        modifier: u64,
    ) -> Result<Pixmap, ()> {
        let stride = self.stride;
        let buffer =
            Buffer { width, height, stride, offset: 0, depth: 24, bpp: 32, modifier, planes: 1 };
        client.import(&self.fd, buffer)
    }
}

fn start_without_gpu() -> XServer {
    // Any device.
    let server = XServer::start(Options {
        render_node: Some("/dev/null"),
        gbm_without_gpu: true,
        ..Options::default()
    });
    assert!(has_dri3(&server.connect().0), "{}", server.log());
    server
}

fn timed(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

#[test]
fn a_gpu_that_does_not_finish_keeps_x_for_a_second() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    let memory = Memory::new(512, 512, 0x12_3456);
    let pixmap = memory.import(&client, 512, 512, LINEAR).unwrap();
    let first = || image(&client.conn, pixmap, 512, 512)[0] & COLORS;
    assert_eq!(first(), 0x12_3456);
    let has_waited = || server.log().contains("has not finished a picture within 1000 ms");
    // Another reader is nothing to wait for.
    memory.set(IS_READ);
    assert_eq!(first(), 0x12_3456);
    assert!(!has_waited(), "{}", server.log());
    memory.set(IS_WRITTEN);
    let took = timed(|| assert_ne!(first(), 0x12_3456));
    assert!(ABOUT_A_SECOND.contains(&took), "{took:?}");
    assert!(has_waited(), "{}", server.log());
    // In pieces of one request, in one that follows, and of another buffer.
    let other = Memory::new(512, 512, 0x65_4321);
    let pixmaps = [pixmap, other.import(&client, 512, 512, LINEAR).unwrap()];
    other.set(IS_WRITTEN);
    let took = timed(|| {
        for i in 0..8 {
            image(&client.conn, pixmaps[i % 2], 512, 512);
        }
    });
    assert!(took < ABOUT_A_SECOND.end, "{took:?}");
    // As soon as it is finished it is shown again.
    memory.set(0);
    assert_eq!(first(), 0x12_3456);
}

#[test]
fn what_a_gpu_still_reads_is_written_when_it_has_finished() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    let (window, pixmap) = client.redirected_window(100, 80);
    let all = Rect::new(0, 0, 100, 80);
    client.fill(window, 0x11_1111, all);
    let (fd, stride) = client.export(pixmap);
    let memory = Memory { fd, stride };
    assert_eq!(memory.pixel(99, 79), 0x11_1111);
    memory.set(IS_READ);
    client.fill(window, 0x22_2222, all);
    let took = timed(|| client.sync());
    assert!(ABOUT_A_SECOND.contains(&took), "{took:?}");
    assert_eq!(memory.pixel(0, 0), 0x11_1111);
    memory.set(0);
    // Nobody asks X for anything.
    let deadline = Instant::now() + TIMEOUT;
    while memory.pixel(99, 79) != 0x22_2222 {
        assert!(Instant::now() < deadline, "{:06x}", memory.pixel(99, 79));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_cannot_be_written_to_a_gpu_is_not_lost() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    let (window, pixmap) = client.redirected_window(100, 80);
    let (fd, stride) = client.export(pixmap);
    let memory = Memory { fd, stride };
    memory.set(IS_UNMAPPABLE);
    client.fill(window, 0x33_3333, Rect::new(10, 10, 20, 20));
    client.sync();
    assert_ne!(memory.pixel(15, 15), 0x33_3333);
    assert!(server.log().contains("cannot map a buffer"));
    memory.set(0);
    client.sync();
    assert_eq!(memory.pixel(15, 15), 0x33_3333);

    let pixmap = client.pixmap(WIDTH_UNMAPPABLE, 20);
    client.fill(pixmap, 0x44_4444, Rect::new(0, 0, 13, 20));
    assert!(client.conn.dri3_buffers_from_pixmap(pixmap).unwrap().reply().is_err());
    let pixels = colors(image(&client.conn, pixmap, WIDTH_UNMAPPABLE, 20));
    assert!(pixels.iter().all(|&color| color == 0x44_4444));
}

#[test]
fn a_buffer_that_cannot_be_read_does_not_end_x() {
    let mut server = start_without_gpu();
    let client = Client::new(&server);
    let memory = Memory::new(64, 48, 0x12_3456);
    memory.set(HAS_NO_PAGES);
    assert!(memory.import(&client, 64, 48, LINEAR).is_err());
    assert!(server.log().contains("maps a buffer that X cannot read: Bad address"));
    memory.set(0);
    let pixmap = memory.import(&client, 64, 48, LINEAR).unwrap();
    memory.set(HAS_NO_PAGES);
    client.fill(pixmap, 0x65_4321, Rect::new(0, 0, 64, 48));
    image(&client.conn, pixmap, 64, 48);
    memory.set(0);
    assert_eq!(image(&client.conn, pixmap, 64, 48)[0] & COLORS, 0x12_3456);
    assert!(server.is_running());
}

#[test]
fn a_layout_of_tiles_ends_inside_the_buffer() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    for (rows, is_right) in [(48, false), (63, false), (64, true)] {
        let memory = Memory::new(64, rows, 0x12_3456);
        memory.set(IS_TILED);
        assert_eq!(memory.import(&client, 64, 48, ANY_LAYOUT).is_ok(), is_right, "{rows} rows");
        memory.import(&client, 64, 48, LINEAR).expect("rows of pixels need no more");
    }
}

#[test]
fn the_background_that_a_copy_uncovers_is_read_from_a_buffer() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    let memory = Memory::new(64, 48, 0x12_3456);
    let pixmap = memory.import(&client, 64, 48, LINEAR).unwrap();
    let window = client.window(0, 0, 100, 80);
    let aux = ChangeWindowAttributesAux::new().background_pixmap(pixmap);
    client.conn.change_window_attributes(window, &aux).unwrap();
    client.fill(window, COLORS, Rect::new(0, 0, 100, 80));
    // Of its source 20 columns are in the window.
    client.conn.copy_area(window, window, client.gc, 80, 0, 0, 0, 40, 20).unwrap();
    let shown = colors(image(&client.conn, window, 100, 80));
    assert_eq!(
        [shown[19], shown[20], shown[39], shown[40]],
        [COLORS, 0x12_3456, 0x12_3456, COLORS]
    );
}

#[test]
fn what_x_draws_within_an_op_is_uploaded_without_a_session() {
    let server = start_without_gpu();
    let client = Client::new(&server);
    let conn = &client.conn;
    let (window, pixmap) = client.redirected_window(100, 80);
    client.fill(window, 0x11_1111, Rect::new(0, 0, 100, 80));
    let child = conn.generate_id().unwrap();
    let (class, none) = (WindowClass::INPUT_OUTPUT, x11rb::COPY_FROM_PARENT);
    let aux = CreateWindowAux::new();
    conn.create_window(24, child, window, 10, 10, 30, 30, 0, class, none, &aux).unwrap();
    conn.composite_redirect_window(child, composite::Redirect::AUTOMATIC).unwrap();
    conn.map_window(child).unwrap();
    let (fd, stride) = client.export(pixmap);
    let memory = Memory { fd, stride };
    // X draws the child in its parent before it copies that.
    let inferiors = conn.generate_id().unwrap();
    let aux = CreateGCAux::new().subwindow_mode(SubwindowMode::INCLUDE_INFERIORS);
    conn.create_gc(inferiors, window, &aux).unwrap();
    let copy = client.pixmap(100, 80);
    client.sync();
    client.fill(child, 0x12_3456, Rect::new(0, 0, 30, 30));
    conn.copy_area(window, copy, inferiors, 0, 0, 0, 0, 100, 80).unwrap();
    client.sync();
    assert_eq!(colors(image(conn, copy, 100, 80))[100 * 20 + 20], 0x12_3456);
    assert_eq!([memory.pixel(20, 20), memory.pixel(5, 5)], [0x12_3456, 0x11_1111]);
}

// ---- with a GPU

#[test]
fn a_node_without_rights_is_named_in_the_log() {
    let Some(node) = render_node() else { return };
    let mode = fs::metadata(node).unwrap().permissions().mode();
    if !rustix::process::geteuid().is_root() || mode & 0o006 != 0 {
        return eprintln!("skipped: everybody may use {node}");
    }
    let options = Options { render_node: Some(node), ordinary_user: true, ..Options::default() };
    let server = XServer::start(options);
    assert!(!has_dri3(&server.connect().0));
    let log = server.log();
    assert!(log.contains(&format!("\"{node}\": Permission denied")), "{log}");
}

#[test]
fn frames_are_shown_bit_for_bit() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let mut reader = Reader::new(server.attach());
    let (conn, _) = server.connect();
    assert!(has_dri3(&conn), "{}", server.log());
    let mut gl = Gl::start(&server);
    let (mut width, mut height) = (640, 400);
    let (window, renderer) = gl.window(width, height);
    println!("renderer: {renderer}");
    assert!(!renderer.contains("llvmpipe") || renderer.contains("virgl"), "{renderer}");
    for seed in 1..=60 {
        if seed % 10 == 0 {
            // Sizes that no alignment fits, tiny ones, and nearly the screen's.
            (width, height) =
                [(301, 203), (16, 16), (1, 1), (1000, 700), (77, 600), (640, 400)][seed / 10 - 1];
            gl.ask(&format!("resize {width} {height}"));
        }
        let frame = gl.frame(seed as u32, width, height);
        wait_until_shown(&conn, window, &frame, width, height);
    }
    // The session reads the same, and was told that they are images of the window.
    let frame = gl.frame(1, width, height);
    wait_until_shown(&conn, window, &frame, width, height);
    let records = reader.drain();
    let framebuffer = reader.pixels();
    for (y, row) in frame.chunks_exact(usize::from(width)).enumerate() {
        assert_eq!(colors(framebuffer[y * 1100..][..usize::from(width)].to_vec()), row);
    }
    let whole = Rect::new(0, 0, i32::from(width), i32::from(height));
    let is_frame = |record: &&DrawRecord| match record.kind {
        RecordKind::Draw { rect, hint, .. } => rect == whole && hint == DrawHint::Image,
        _ => false,
    };
    assert!(records.iter().filter(is_frame).count() > 1);
    let copies = records.iter().filter(|record| matches!(record.kind, RecordKind::Copy { .. }));
    assert_eq!(copies.count(), 0);
}

#[test]
fn a_program_that_waits_for_no_monitor_is_held_to_the_clock_of_frames() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let reader = Reader::new(server.attach());
    reader.attachment.ring.set_frame_rate(FRAME_RATE_MIN);
    let mut gl = Gl::start_with(&server, "0");
    gl.window(400, 300);
    let began = Instant::now();
    gl.ask("frames 40");
    assert!(reader.attachment.ring.stats().holds > 0, "40 frames within {:?}", began.elapsed());
}

#[test]
fn what_x_draws_in_a_window_is_in_the_texture_of_a_compositor() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let client = Client::new(&server);
    let (width, height) = (317, 211);
    let mut gl = Gl::start(&server);
    gl.window(64, 64);
    let (window, pixmap) = client.redirected_window(width, height);
    client.fill(window, 0x11_2233, Rect::new(0, 0, 317, 211));
    client.sync();
    assert_eq!(gl.ask(&format!("pixmap {pixmap} 24 {width} {height}")), "bound");
    let mut reader = None;
    let mut seed = 1_u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % below
    };
    for round in 0..60 {
        // First without a session, so without records.
        if round == 20 {
            reader = Some(Reader::new(server.attach()));
        }
        for _ in 0..random(4) {
            let (x, y) = (random(300) as i32, random(200) as i32);
            match random(3) {
                0 => client.fill(window, random(COLORS), Rect::new(x, y, x + 60, y + 20)),
                1 => {
                    let pixels: Vec<u32> = (0..64 * 16).map(|_| random(COLORS)).collect();
                    client.put(window, &pixels, 64, x as i16, y as i16);
                }
                _ => {
                    let (to_x, to_y) = (random(300) as i16, random(200) as i16);
                    let (x, y) = (x as i16, y as i16);
                    client
                        .conn
                        .copy_area(window, window, client.gc, x, y, to_x, to_y, 100, 50)
                        .unwrap();
                }
            }
        }
        // What tells the compositor, here an answer of X, comes after the pixels.
        client.sync();
        let texture = colors(gl.pixels("texture", width, height));
        let shown = colors(image(&client.conn, window, width, height));
        let differing = shown.iter().zip(&texture).filter(|(a, b)| a != b).count();
        assert_eq!(differing, 0, "pixels differ in round {round}");
        if let Some(reader) = &mut reader {
            reader.drain();
        }
    }
}

/// A compositor, which ends with the test.
struct Compositor(Child);

impl Drop for Compositor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_compositor_that_draws_by_opengl_shows_windows() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let mut reader = Reader::new(server.attach());
    let client = Client::new(&server);
    let _picom = Compositor(
        Command::new("picom")
            .args(["--backend", "glx", "--config", "/dev/null"])
            .env("DISPLAY", format!(":{}", server.display))
            .spawn()
            .expect("picom is installed"),
    );
    let window = client.window(100, 100, 200, 150);
    let shown = |color: u32, reader: &mut Reader| {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            reader.drain();
            let pixels = reader.pixels();
            let inside = |x: usize, y: usize| pixels[y * 1100 + x] & COLORS;
            let corners = [(101, 101), (298, 101), (101, 248), (298, 248), (200, 200)];
            if corners.iter().all(|&(x, y)| inside(x, y) == color) {
                return;
            }
            assert!(Instant::now() < deadline, "{color:06x} became {:06x}", inside(200, 200));
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    for color in [0xff_0000, 0x00_ff00, 0x12_3456, 0xfe_dcba] {
        client.fill(window, color, Rect::new(0, 0, 200, 150));
        client.sync();
        shown(color, &mut reader);
    }
    // A program's frames are read from its GPU, and written to the compositor's.
    let mut gl = Gl::start(&server);
    let (drawn, renderer) = gl.window(300, 200);
    let frame = gl.frame(7, 300, 200);
    wait_until_shown(&client.conn, drawn, &frame, 300, 200);
    let deadline = Instant::now() + TIMEOUT;
    let is_composed = |reader: &mut Reader| {
        reader.drain();
        let pixels = reader.pixels();
        let mut rows = frame.chunks_exact(300).enumerate();
        rows.all(|(y, row)| colors(pixels[y * 1100..][..300].to_vec()) == row)
    };
    while !is_composed(&mut reader) {
        assert!(Instant::now() < deadline, "the frame of {renderer} is not on the screen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_pixmap_that_opengl_has_drawn_is_read_by_x() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let mut reader = Reader::new(server.attach());
    let client = Client::new(&server);
    let mut gl = Gl::start(&server);
    gl.window(64, 64);
    let (width, height) = (200, 100);
    let pixmap = client.pixmap(width, height);
    client.fill(pixmap, 0x10_2030, Rect::new(0, 0, 200, 100));
    let window = client.window(300, 0, width, height);
    client.conn.copy_area(pixmap, window, client.gc, 0, 0, 0, 0, width, height).unwrap();
    client.sync();
    for color in [0xff_0000, 0x00_ff00, 0x12_3456] {
        assert_eq!(gl.ask(&format!("paint {pixmap} 24 {color}")), "painted");
        reader.drain();
        let drawn = colors(image(&client.conn, pixmap, width, height));
        assert!(drawn.iter().all(|&c| c == color), "{color:06x} became {:06x}", drawn[0]);
        client.conn.copy_area(pixmap, window, client.gc, 0, 0, 0, 0, width, height).unwrap();
        client.sync();
        assert!(colors(image(&client.conn, window, width, height)).iter().all(|&c| c == color));
        // The pixmap has changed without a record: a copy from it is news.
        for record in reader.drain() {
            assert!(!matches!(record.kind, RecordKind::Copy { .. }), "{record:?}");
        }
    }
    // X draws there too, and as a tile it is read as well.
    client.fill(pixmap, 0xab_cdef, Rect::new(0, 0, 50, 100));
    let half = |pixels: Vec<u32>| {
        let row = &colors(pixels)[..usize::from(width)];
        (row[0], row[49], row[50], row[199])
    };
    let expected = (0xab_cdef, 0xab_cdef, 0x12_3456, 0x12_3456);
    assert_eq!(half(image(&client.conn, pixmap, width, height)), expected);
    assert_eq!(gl.ask(&format!("pixmap {pixmap} 24 {width} {height}")), "bound");
    assert_eq!(half(gl.pixels("texture", width, height)), expected);
    let tiled = client.conn.generate_id().unwrap();
    let aux = CreateGCAux::new().tile(pixmap).fill_style(FillStyle::TILED);
    client.conn.create_gc(tiled, window, &aux).unwrap();
    let all = Rectangle { x: 0, y: 0, width, height };
    client.conn.poly_fill_rectangle(window, tiled, &[all]).unwrap();
    assert_eq!(half(image(&client.conn, window, width, height)), expected);
}

#[test]
fn what_a_client_says_of_its_buffer_is_checked() {
    let Some(node) = render_node() else { return };
    let mut server = start(node);
    let client = Client::new(&server);
    let (width, height) = (64, 48);
    let pixmap = client.pixmap(width, height);
    let pixels: Vec<u32> = (0..64 * 48).map(|i| i * 0x0123).collect();
    client.put(pixmap, &pixels, width, 0, 0);
    let (fd, stride) = client.export(pixmap);
    let right = Buffer {
        width,
        height,
        stride,
        offset: 0,
        depth: 24,
        bpp: 32,
        modifier: LINEAR,
        planes: 1,
    };
    let bytes = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0)).unwrap() as u32;
    for wrong in [
        Buffer { height: 32767, ..right },
        Buffer { width: 32767, height: 1, ..right },
        Buffer { width: 16384, height: 16384, stride: 65536, ..right },
        Buffer { stride: 4, ..right },
        Buffer { stride: stride + 1, ..right },
        Buffer { stride: u32::MAX - 3, ..right },
        Buffer { stride: bytes, ..right },
        Buffer { offset: bytes - 4, ..right },
        Buffer { offset: 0xffff_fffc, ..right },
        Buffer { offset: stride, height: 8, ..right },
        Buffer { depth: 30, ..right },
        Buffer { depth: 1, bpp: 1, ..right },
        Buffer { bpp: 16, ..right },
        Buffer { modifier: 1 << 56 | 1, ..right },
        Buffer { modifier: u64::MAX, ..right },
        Buffer { planes: 2, ..right },
        Buffer { planes: 4, ..right },
        Buffer { width: 0, ..right },
    ] {
        assert!(client.import(&fd, wrong).is_err(), "{wrong:?}");
    }
    // Memory that is no GPU's, and that could shrink.
    let memory = memfd_create("buffer", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, u64::from(bytes)).unwrap();
    assert!(client.import(&memory, right).is_err());
    assert!(client.import(&fs::File::open("/dev/null").unwrap().into(), right).is_err());

    // The same buffer as another pixmap: both show what is drawn in either.
    for modifier in [LINEAR, ANY_LAYOUT] {
        let other = client.import(&fd, Buffer { modifier, ..right }).expect("the values are right");
        assert_eq!(colors(image(&client.conn, other, width, height)), pixels);
        client.fill(other, 0x55_5555, Rect::new(3, 4, 10, 11));
        client.fill(pixmap, 0x66_6666, Rect::new(20, 20, 30, 30));
        let shown = colors(image(&client.conn, pixmap, width, height));
        assert_eq!(shown, colors(image(&client.conn, other, width, height)));
        assert_eq!((shown[4 * 64 + 3], shown[20 * 64 + 20]), (0x55_5555, 0x66_6666));
        client.put(pixmap, &pixels, width, 0, 0);
        client.conn.free_pixmap(other).unwrap();
    }
    client.sync();
    assert!(server.is_running());
}

#[test]
fn programs_that_are_killed_leave_nothing() {
    let Some(node) = render_node() else { return };
    let mut server = start(node);
    let client = Client::new(&server);
    let show = |frames: u32| {
        let mut gl = Gl::start(&server);
        gl.window(300, 200);
        gl.ask("frames 3");
        gl.say(&format!("frames {frames}"));
        // Killed while it draws.
        std::thread::sleep(Duration::from_millis(50));
    };
    show(1);
    let before = resources(&server);
    (0..12).for_each(|_| show(100_000));
    wait_until_freed(&server, before);
    client.sync();
    assert!(server.is_running());
}

#[test]
fn two_hundred_buffers_are_held_and_freed() {
    let Some(node) = render_node() else { return };
    let server = start(node);
    let client = Client::new(&server);
    let before = {
        let mut gl = Gl::start(&server);
        gl.window(32, 32);
        gl.ask("frames 3");
        assert!(client.pixmaps() > 0);
        drop(gl);
        wait_until("X has freed its pixmaps", || client.pixmaps() == 0);
        resources(&server)
    };
    let mut gl = Gl::start(&server);
    for seed in 0..110 {
        let (window, _) = gl.window(120 + seed, 90);
        gl.ask("frames 4");
        let frame = gl.frame(u32::from(seed), 120 + seed, 90);
        wait_until_shown(&client.conn, window, &frame, 120 + seed, 90);
    }
    let held = client.pixmaps();
    assert!(held >= 200, "{held} buffers");
    drop(gl);
    wait_until_freed(&server, before);
}

#[test]
fn the_next_server_generation_has_dri3_too() {
    let Some(node) = render_node() else { return };
    let options = Options { render_node: Some(node), reset: true, ..Options::default() };
    let mut server = XServer::start(options);
    for seed in 0..3 {
        // Its last client: X starts again when it ends.
        let mut gl = Gl::start(&server);
        let (_, renderer) = gl.window(100, 80);
        assert!(!renderer.is_empty());
        gl.frame(seed, 100, 80);
        gl.ask("frames 2");
        let generations = || server.log().matches("thinc: DRI3 on").count();
        let before = generations();
        drop(gl);
        wait_until("X starts again", || generations() > before);
    }
    assert!(has_dri3(&server.connect().0));
    assert!(server.is_running());
}
