//! The oracle with real components: once the queues are drained, the viewer's framebuffer is the X
//! screen, byte for byte. Drives `thinc serve` and `thinc-view --headless` from outside; reads the
//! X screen from the driver's own memory. Applications are stopped while both are read, so that
//! nothing changes between the two reads.
#![forbid(unsafe_code)]

pub mod sshd;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::{Folder, Headless, Session, binary, wait_for};
use x11rb::rust_connection::{DefaultStream, RustConnection};

/// How long an event may take on a busy machine. No test waits for it to pass.
pub const EVENT_TIMEOUT: Duration = Duration::from_secs(120);

/// The beginning of a script in a terminal: it goes on once the terminal has answered a request for
/// the cursor's position. Then the window is mapped, and the terminal reads keys.
pub const AWAIT_TERMINAL: &str = "modes=$(stty -g); stty raw -echo; printf '\\033[6n'; \
     head -c 6 > /dev/null; stty \"$modes\"; ";

/// A terminal that writes typed input to a file, byte by byte.
pub fn typewriter(paper: &Path) -> [String; 5] {
    let script = format!("stty raw -echo; exec cat > {}", paper.display());
    ["xterm".into(), "-e".into(), "sh".into(), "-c".into(), script]
}

/// A session with one application, and one viewer of it.
pub struct Desktop {
    /// The viewer, which executes script lines.
    pub viewer: Headless,
    /// The session.
    pub session: Session,
    folder: Folder,
    name: String,
}

/// A rectangle of the screen with text, which is compared while others change.
#[derive(Clone, Debug)]
pub struct Part {
    /// For errors.
    pub name: String,
    /// Its left and upper edge.
    pub x: usize,
    /// See `x`.
    pub y: usize,
    /// Its size.
    pub width: usize,
    /// See `width`.
    pub height: usize,
    /// The colour of its text, if that is in front of what moves: then its opaque pixels count.
    /// Otherwise those that differ by an edge from the colour that most pixels have.
    pub color: Option<u32>,
}

/// 24 levels in a channel, as in thinc-pixels: what differs by less is no text.
const EDGE: u8 = 24;

/// Pixels, row by row, `0xRRGGBB`.
#[derive(PartialEq, Eq)]
pub struct Image {
    /// Pixels from left to right.
    pub width: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// All rows.
    pub pixels: Vec<u32>,
}

impl Desktop {
    /// Starts `application` on a screen of `size` ("1024x768") with a viewer.
    pub fn start(name: &str, size: &str, application: &[&str]) -> Result<Desktop, Error> {
        Desktop::start_with(name, size, &[], application)
    }

    /// The same with more options of `thinc serve`.
    pub fn start_with(
        name: &str,
        size: &str,
        options: &[&str],
        application: &[&str],
    ) -> Result<Desktop, Error> {
        Desktop::of(Session::start_with(name, size, options, application)?, name)
    }

    /// A session that was started otherwise, with a viewer.
    pub fn of(session: Session, name: &str) -> Result<Desktop, Error> {
        let viewer = Headless::start(&session.link)?;
        Ok(Desktop {
            viewer,
            session,
            folder: Folder::new(&format!("e2e-{name}"))?,
            name: name.to_owned(),
        })
    }

    /// The same with a viewer that connects through something else: `link_for_viewer` converts the
    /// session's link to the viewer's.
    pub fn start_through(
        name: &str,
        size: &str,
        application: &[&str],
        link_for_viewer: impl FnOnce(&str) -> Result<String, Error>,
        options: &[&str],
    ) -> Result<Desktop, Error> {
        let session = Session::start_with(name, size, &[], application)?;
        let viewer = Headless::start_with(&link_for_viewer(&session.link)?, options)?;
        Ok(Desktop {
            viewer,
            session,
            folder: Folder::new(&format!("e2e-{name}"))?,
            name: name.to_owned(),
        })
    }

    /// An X client of the session's display. The cookie is the last 16 bytes of an Xauthority with
    /// one entry.
    pub fn connect_x(&self) -> Result<RustConnection, Error> {
        let number = self.session.display.trim_start_matches(':');
        let (stream, _) = DefaultStream::from_unix_stream(UnixStream::connect(format!(
            "/tmp/.X11-unix/X{number}"
        ))?)?;
        let authority = fs::read(&self.session.xauthority)?;
        let cookie = authority.last_chunk::<16>().ok_or("an Xauthority holds a cookie")?.to_vec();
        Ok(RustConnection::connect_to_stream_with_auth_info(
            stream,
            0,
            b"MIT-MAGIC-COOKIE-1".to_vec(),
            cookie,
        )?)
    }

    /// Another viewer of the same session.
    pub fn another_viewer(&self) -> Result<Headless, Error> {
        self.another_viewer_with(&[])
    }

    /// Another viewer, with these options.
    pub fn another_viewer_with(&self, options: &[&str]) -> Result<Headless, Error> {
        self.another_viewer_by(Command::new(binary("thinc-view")?), options)
    }

    /// The same by this command, which runs `thinc-view`.
    pub fn another_viewer_by(&self, viewer: Command, options: &[&str]) -> Result<Headless, Error> {
        let output = Command::new(binary("thinc")?).args(["link", &self.session.name]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Headless::start_by(viewer, String::from_utf8(output.stdout)?.trim(), options)
    }

    /// Runs `action` with another viewer in place of this one.
    pub fn with_viewer<T>(
        &mut self,
        viewer: &mut Headless,
        action: impl FnOnce(&mut Desktop) -> Result<T, Error>,
    ) -> Result<T, Error> {
        std::mem::swap(&mut self.viewer, viewer);
        let result = action(self);
        std::mem::swap(&mut self.viewer, viewer);
        result
    }

    /// The X screen, from the driver's framebuffer.
    pub fn screen(&self) -> Result<Image, Error> {
        let (width, height, stride) = self.geometry()?;
        let file = fs::File::open(memfd(self.session.pid("xorg")?, "thinc-framebuffer")?)?;
        let mut row = vec![0; width * 4];
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            file.read_exact_at(&mut row, (y * stride) as u64)?;
            pixels.extend(row.chunks_exact(4).map(|p| u32::from_le_bytes([p[0], p[1], p[2], 0])));
        }
        Ok(Image { width, height, pixels })
    }

    /// How often the ring has overflowed: the driver's own count, `overflows` of `struct
    /// thinc_header`.
    pub fn ring_overflows(&self) -> Result<u64, Error> {
        const OVERFLOWS_AT: u64 = 320;
        let mut count = [0; 8];
        fs::File::open(memfd(self.session.pid("xorg")?, "thinc-ring")?)?
            .read_exact_at(&mut count, OVERFLOWS_AT)?;
        Ok(u64::from_le_bytes(count))
    }

    /// Size of the X screen, from the driver's memory: a stopped application may hold the X server
    /// grabbed.
    pub fn screen_size(&self) -> Result<(usize, usize), Error> {
        let (width, height, _) = self.geometry()?;
        Ok((width, height))
    }

    /// Width, height and bytes of a row: `struct thinc_geometry`, whose sequence number is odd
    /// while the driver writes it.
    fn geometry(&self) -> Result<(usize, usize, usize), Error> {
        const GEOMETRY_AT: u64 = 384;
        let file = fs::File::open(memfd(self.session.pid("xorg")?, "thinc-ring")?)?;
        wait_for("the driver has written its geometry", EVENT_TIMEOUT, || {
            let mut bytes = [0; 20];
            file.read_exact_at(&mut bytes, GEOMETRY_AT).ok()?;
            let field = |i: usize| {
                u32::from_le_bytes([
                    bytes[i * 4],
                    bytes[i * 4 + 1],
                    bytes[i * 4 + 2],
                    bytes[i * 4 + 3],
                ])
            };
            let mut again = [0; 4];
            file.read_exact_at(&mut again, GEOMETRY_AT).ok()?;
            let still = field(0).is_multiple_of(2) && again == field(0).to_le_bytes();
            still.then(|| (field(2) as usize, field(3) as usize, field(4) as usize))
        })
    }

    /// What the viewer shows.
    pub fn view(&mut self) -> Result<Image, Error> {
        let file = self.folder.path().join("view.png");
        self.viewer.say(&format!("screenshot {}", file.display()))?;
        Image::read_png(&file)
    }

    /// The viewer's statistics.
    pub fn stats(&mut self) -> Result<serde_json::Value, Error> {
        let file = self.folder.path().join("stats.json");
        self.viewer.say(&format!("stats {}", file.display()))?;
        Ok(serde_json::from_str(&fs::read_to_string(&file)?)?)
    }

    /// A program as an X client of the session's display.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.session.display).env("XAUTHORITY", &self.session.xauthority);
        command
    }

    /// Runs `action`, waits until the screen has changed, and then until it rests.
    pub fn after_change(
        &mut self,
        action: impl FnOnce(&mut Desktop) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let before = self.stats()?["framebuffer_xxh3"].clone();
        action(self)?;
        wait_for("the screen changes", EVENT_TIMEOUT, || {
            self.viewer.say("wait-quiet").ok()?;
            (self.stats().ok()?["framebuffer_xxh3"] != before).then_some(())
        })
    }

    /// Executes one script line of the viewer and waits for an update; the screen need not come to
    /// rest.
    pub fn after_update(&mut self, line: &str) -> Result<(), Error> {
        let before = self.updates()?;
        self.viewer.say(line)?;
        self.wait_updates_from(before, 1)
    }

    /// Waits until this many more updates have arrived.
    pub fn wait_updates(&mut self, more: u64) -> Result<(), Error> {
        let before = self.updates()?;
        self.wait_updates_from(before, more)
    }

    fn wait_updates_from(&mut self, before: u64, more: u64) -> Result<(), Error> {
        wait_for("updates come", EVENT_TIMEOUT, || {
            self.viewer.say("barrier").ok()?;
            (self.updates().ok()? >= before + more).then_some(())
        })
    }

    fn updates(&mut self) -> Result<u64, Error> {
        self.stats()?["updates"].as_u64().ok_or_else(|| "stats have no updates".into())
    }

    /// Waits until the application has drawn: then its window is mapped and gets what is typed.
    /// Afterwards as [`Desktop::settle`].
    pub fn settle_once_drawn(&mut self) -> Result<(), Error> {
        wait_for("the application draws", EVENT_TIMEOUT, || {
            (self.view().ok()?.colors() > 1).then_some(())
        })?;
        self.settle()
    }

    /// Waits until the screen has not changed for longer than the interval of a blinking text
    /// cursor.
    pub fn settle(&mut self) -> Result<(), Error> {
        let mut last = serde_json::Value::Null;
        let mut since = std::time::Instant::now();
        wait_for("the screen comes to rest", EVENT_TIMEOUT, || {
            self.viewer.say("wait-quiet").ok()?;
            let now = self.stats().ok()?["framebuffer_xxh3"].clone();
            if now != last {
                last = now;
                since = std::time::Instant::now();
            }
            (since.elapsed() > Duration::from_millis(400)).then_some(())
        })
    }

    /// Stops the applications, drains driver, session and viewer, and compares; then continues the
    /// applications.
    ///
    /// # Errors
    /// The first differing pixels, and where both images were written.
    pub fn assert_identical(&mut self, when: &str) -> Result<(), Error> {
        let stopped = descendants(self.session.pid("command")?);
        signal("-STOP", &stopped)?;
        let result = self.compare(when);
        signal("-CONT", &stopped)?;
        result
    }

    /// Compares the text of these parts while the applications go on. What is the same before and
    /// after the viewer was read must be what it shows; a part that has just changed is read again.
    ///
    /// # Errors
    /// Text differs, or never stays for as long as the viewer is read; where both images were
    /// written.
    pub fn assert_text_exact(&mut self, parts: &[Part], when: &str) -> Result<(), Error> {
        let begun = std::time::Instant::now();
        let mut parts: Vec<&Part> = parts.iter().collect();
        while !parts.is_empty() {
            let screen = self.screen()?;
            self.viewer.say("barrier")?;
            let (view, after) = (self.view()?, self.screen()?);
            let mut changed = Vec::new();
            for part in parts {
                let text = screen.text(part)?;
                if after.text(part)? != text || after.pixels_at(&text) != screen.pixels_at(&text) {
                    changed.push(part);
                    continue;
                }
                let differs = |&&at: &&usize| screen.pixels[at] != view.pixels[at];
                let differing: Vec<usize> = text.iter().filter(differs).copied().collect();
                let Some(&first) = differing.first() else { continue };
                let folder = self.write_both(&screen, &view)?;
                return Err(format!(
                    "{}, {when}: {} of {} pixels of {} differ; first at ({}, {}): screen {:06x}, \
                     view {:06x}; both images are in {}",
                    self.name,
                    differing.len(),
                    text.len(),
                    part.name,
                    first % screen.width,
                    first / screen.width,
                    screen.pixels[first],
                    view.pixels[first],
                    folder.display()
                )
                .into());
            }
            parts = changed;
            if begun.elapsed() > EVENT_TIMEOUT {
                return Err(format!("{}, {when}: never at rest: {parts:?}", self.name).into());
            }
        }
        Ok(())
    }

    fn compare(&mut self, when: &str) -> Result<(), Error> {
        // Earlier requests of the stopped applications may still be in the X server's sockets: it
        // has handled them when the screen is the same before and after the viewer was drained and
        // read.
        let (screen, view) = wait_for("the X server drains its clients", EVENT_TIMEOUT, || {
            self.viewer.say("wait-quiet").ok()?;
            let screen = self.screen().ok()?;
            self.viewer.say("wait-quiet").ok()?;
            // Video areas become exact once they rest.
            if self.stats().ok()?["lossy_pixels"] != 0 {
                return None;
            }
            let view = self.view().ok()?;
            (self.screen().ok()? == screen).then_some((screen, view))
        })?;
        let Some(difference) = screen.difference(&view) else { return Ok(()) };
        let folder = self.write_both(&screen, &view)?;
        Err(format!("{}, {when}: {difference}; both images are in {}", self.name, folder.display())
            .into())
    }

    /// Writes what differs; returns the folder.
    fn write_both(&self, screen: &Image, view: &Image) -> Result<PathBuf, Error> {
        let folder = std::env::temp_dir().join("thinc-e2e-failures");
        fs::create_dir_all(&folder)?;
        for (image, kind) in [(screen, "screen"), (view, "view")] {
            image.write_png(&folder.join(format!("{}-{kind}.png", self.name)))?;
        }
        Ok(folder)
    }
}

impl Image {
    /// Reads a viewer's screenshot.
    pub fn read_png(path: &Path) -> Result<Image, Error> {
        let mut reader =
            png::Decoder::new(std::io::BufReader::new(fs::File::open(path)?)).read_info()?;
        let mut bytes = vec![0; reader.output_buffer_size().ok_or("the picture is too large")?];
        let info = reader.next_frame(&mut bytes)?;
        let samples = info.color_type.samples();
        if info.bit_depth != png::BitDepth::Eight || samples < 3 {
            return Err(format!(
                "{}: {:?} {:?} is not a screenshot",
                path.display(),
                info.bit_depth,
                info.color_type
            )
            .into());
        }
        let pixels = bytes[..info.buffer_size()]
            .chunks_exact(samples)
            .map(|p| u32::from_be_bytes([0, p[0], p[1], p[2]]))
            .collect();
        Ok(Image { width: info.width as usize, height: info.height as usize, pixels })
    }

    fn write_png(&self, path: &Path) -> Result<(), Error> {
        let mut encoder = png::Encoder::new(
            std::io::BufWriter::new(fs::File::create(path)?),
            self.width as u32,
            self.height as u32,
        );
        encoder.set_color(png::ColorType::Rgb);
        let bytes: Vec<u8> =
            self.pixels.iter().flat_map(|p| [(p >> 16) as u8, (p >> 8) as u8, *p as u8]).collect();
        encoder.write_header()?.write_image_data(&bytes)?;
        Ok(())
    }

    /// Where the pixels of a part's text are, as indices of `pixels`.
    ///
    /// # Errors
    /// The part is not all in the image.
    pub fn text(&self, part: &Part) -> Result<Vec<usize>, Error> {
        let &Part { x, y, width, height, color, .. } = part;
        if x + width > self.width || y + height > self.height {
            return Err(format!("{part:?} is not in {}x{}", self.width, self.height).into());
        }
        let places = (y..y + height).flat_map(|y| (x..x + width).map(move |x| y * self.width + x));
        if let Some(color) = color {
            return Ok(places.filter(|&at| self.pixels[at] == color).collect());
        }
        let mut counts = std::collections::HashMap::new();
        places.clone().for_each(|at| *counts.entry(self.pixels[at]).or_insert(0) += 1);
        let ground = counts.iter().max_by_key(|(color, count)| (**count, **color));
        let ground = ground.map_or(0, |(color, _)| *color).to_le_bytes();
        let is_text = |&at: &usize| {
            let channels = self.pixels[at].to_le_bytes().into_iter().zip(ground);
            channels.into_iter().any(|(a, b)| a.abs_diff(b) >= EDGE)
        };
        Ok(places.filter(is_text).collect())
    }

    fn pixels_at(&self, places: &[usize]) -> Vec<u32> {
        places.iter().map(|&at| self.pixels[at]).collect()
    }

    /// Number of different colours, up to 1000; a meaningful image has more than one.
    pub fn colors(&self) -> usize {
        let mut seen = std::collections::HashSet::new();
        self.pixels.iter().find(|&&pixel| seen.insert(pixel) && seen.len() >= 1000);
        seen.len()
    }

    /// Describes the difference of two images.
    fn difference(&self, view: &Image) -> Option<String> {
        if (self.width, self.height) != (view.width, view.height) {
            return Some(format!(
                "the screen is {}x{}, the view is {}x{}",
                self.width, self.height, view.width, view.height
            ));
        }
        let differing: Vec<usize> =
            (0..self.pixels.len()).filter(|&i| self.pixels[i] != view.pixels[i]).collect();
        let first = *differing.first()?;
        let (xs, ys): (Vec<_>, Vec<_>) =
            differing.iter().map(|i| (i % self.width, i / self.width)).unzip();
        let mut words = String::new();
        let _ = write!(
            words,
            "{} pixels differ, within x {}..={} y {}..={}; first at ({}, {}): screen {:06x}, view \
                {:06x}",
            differing.len(),
            xs.iter().min()?,
            xs.iter().max()?,
            ys.iter().min()?,
            ys.iter().max()?,
            first % self.width,
            first / self.width,
            self.pixels[first],
            view.pixels[first]
        );
        Some(words)
    }
}

/// The X server's descriptor of one of the driver's memfds, opened through /proc.
fn memfd(xorg: u32, name: &str) -> Result<PathBuf, Error> {
    let descriptors =
        fs::read_dir(format!("/proc/{xorg}/fd"))?.filter_map(|entry| Some(entry.ok()?.path()));
    let wanted = format!("/memfd:{name} ");
    let mut found = descriptors.filter(|path| {
        fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(&wanted))
    });
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path),
        (None, _) => Err(format!("the X server holds no memfd {name}").into()),
        (Some(_), Some(_)) => Err(format!("the X server holds more than one memfd {name}").into()),
    }
}

/// A process and all its descendants.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent))
        })
        .collect();
    let mut i = 0;
    while i < found.len() {
        let children: Vec<u32> =
            parents.iter().filter(|(_, parent)| *parent == found[i]).map(|(pid, _)| *pid).collect();
        found.extend(children);
        i += 1;
    }
    found
}

fn signal(name: &str, pids: &[u32]) -> Result<(), Error> {
    let mut command = Command::new("kill");
    command
        .arg(name)
        .arg("--")
        .args(pids.iter().map(u32::to_string))
        .stderr(std::process::Stdio::null());
    command.status()?;
    Ok(())
}
