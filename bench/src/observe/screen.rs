//! The X server of the client's user: an Xvfb whose framebuffer is a file. Its pixels are read from
//! the file, so that reading costs the client no CPU time that is measured. Knows one Xvfb; never
//! its content.

use std::fs::File;
use std::io::{PipeReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::xfixes::ConnectionExt as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

use super::picture::{Picture, Rect};
use super::watch::Watch;
use crate::Error;
use crate::display::DisplayNumber;
use crate::process::{Folder, Running};

/// Longest that an Xvfb may take to start, on a machine with other work.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Where an Xvfb listens besides its socket in the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere.
    Unix,
    /// TCP port 6000 + display, without access control: only the namespace can reach it.
    Tcp,
}

/// A running Xvfb of the client.
pub struct ClientScreen {
    // The connection is closed before the server ends.
    _pointer_hidden: RustConnection,
    server: Running,
    /// Its display number, reserved until the server has ended.
    _number: DisplayNumber,
    _folder: Option<Folder>,
    framebuffer: PathBuf,
    display: String,
}

impl ClientScreen {
    /// Starts `command` ("Xvfb", already in its namespace and account) with a framebuffer file in
    /// `folder` on a free display, and hides its pointer: Xvfb draws the pointer into the
    /// framebuffer, where it would count as a change.
    pub fn start(
        mut command: Command,
        folder: &Path,
        size: (u32, u32),
        listen: Listen,
    ) -> Result<ClientScreen, Error> {
        let log = folder.join("Xvfb.log");
        let (mut reader, writer) = std::io::pipe()?;
        let (width, height) = size;
        let reserved = DisplayNumber::reserve()?;
        command.args([
            &reserved.name(),
            "-displayfd",
            "1",
            "-screen",
            "0",
            &format!("{width}x{height}x24"),
            "-noreset",
            "-s",
            "0",
            "-dpms",
        ]);
        match listen {
            Listen::Unix => command.args(["-nolisten", "tcp"]),
            Listen::Tcp => command.args(["-listen", "tcp", "-ac"]),
        };
        command
            .arg("-fbdir")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(writer)
            .stderr(File::create(&log)?);
        let server = Running::start("Xvfb", &mut command)?;
        // Dropped with its copy of the pipe, so that the pipe closes when Xvfb ends.
        drop(command);
        let failed = |error: &dyn std::fmt::Display| {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            Error::from(format!(
                "Xvfb for the client: {error}\n{}",
                lines[lines.len().saturating_sub(10)..].join("\n")
            ))
        };
        let number = display_number(&mut reader).map_err(|e| failed(&e))?;
        let display = format!(":{number}");
        let x = hide_pointer(&display).map_err(|e| failed(&e))?;
        let framebuffer = folder.join("Xvfb_screen0");
        let screen = ClientScreen {
            _pointer_hidden: x,
            server,
            _number: reserved,
            _folder: None,
            framebuffer,
            display,
        };
        let found = screen.framebuffer()?.size();
        if found == size {
            Ok(screen)
        } else {
            Err(failed(&format!("its screen is {found:?}, not {size:?}")))
        }
    }

    /// A screen on this machine, outside of any testbed, with a folder of its own.
    pub fn alone(name: &str, size: (u32, u32)) -> Result<ClientScreen, Error> {
        let folder = Folder::new(name)?;
        let screen = ClientScreen::start(Command::new("Xvfb"), folder.path(), size, Listen::Unix)?;
        Ok(ClientScreen { _folder: Some(folder), ..screen })
    }

    /// `:N`.
    pub fn display(&self) -> &str {
        &self.display
    }

    /// `HOST:N`, for programs on another host; only with [`Listen::Tcp`]. The host is the first
    /// address of the Xvfb's own network namespace beside loopback, or loopback if there is no
    /// other.
    pub fn address(&self) -> String {
        let table = std::fs::read_to_string(format!("/proc/{}/net/fib_trie", self.server.pid()))
            .unwrap_or_default();
        format!("{}{}", local_address(&table).unwrap_or("127.0.0.1"), self.display)
    }

    /// A connection to it, for any use.
    pub fn connect(&self) -> Result<RustConnection, Error> {
        super::connect(&self.display, None)
    }

    /// Its pixels.
    pub fn framebuffer(&self) -> Result<Framebuffer, Error> {
        Framebuffer::open(&self.framebuffer)
    }

    /// Its current picture.
    pub fn picture(&self) -> Result<Picture, Error> {
        self.framebuffer()?.picture()
    }

    /// Begins to record changes.
    pub fn watch(&self) -> Result<Watch, Error> {
        Watch::start(self)
    }
}

/// Waits for the line that `-displayfd` writes.
fn display_number(reader: &mut PipeReader) -> Result<u16, Error> {
    let (begun, mut text) = (Instant::now(), Vec::new());
    loop {
        let left = START_LIMIT.saturating_sub(begun.elapsed());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        if poll(&mut [PollFd::new(reader, PollFlags::IN)], Some(&timeout))? == 0 {
            return Err(format!("no display number within {} s", START_LIMIT.as_secs()).into());
        }
        let mut bytes = [0; 16];
        let count = reader.read(&mut bytes)?;
        if count == 0 {
            return Err("it ended without a display number".into());
        }
        text.extend(&bytes[..count]);
        if let Some(line) = std::str::from_utf8(&text)?.strip_suffix('\n') {
            return line
                .trim()
                .parse()
                .map_err(|_| format!("`{line}` is no display number").into());
        }
    }
}

/// As long as the connection lives, no client's pointer is drawn.
fn hide_pointer(display: &str) -> Result<RustConnection, Error> {
    let x = super::connect(display, None)?;
    x.xfixes_query_version(5, 0)?.reply()?;
    x.xfixes_hide_cursor(x.setup().roots[0].root)?.check()?;
    Ok(x)
}

/// The first local address in the kernel's table, except loopback.
fn local_address(table: &str) -> Option<&str> {
    let mut address = None;
    for line in table.lines().map(str::trim) {
        match line.strip_prefix("|-- ") {
            Some(leaf) => address = Some(leaf),
            None if line == "/32 host LOCAL" => {
                if let Some(found) = address.filter(|found| !found.starts_with("127.")) {
                    return Some(found);
                }
            }
            None => {}
        }
    }
    None
}

/// The pixels of an Xvfb, read from its file (XWD version 7, big-endian header, pixels in the
/// machine's order).
pub struct Framebuffer {
    file: File,
    pixels_at: u64,
    line_bytes: usize,
    /// Pixels from left to right.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Framebuffer {
    /// Opens the framebuffer file of an Xvfb.
    pub fn open(path: &Path) -> Result<Framebuffer, Error> {
        let cannot =
            |error: &dyn std::fmt::Display| format!("the framebuffer {}: {error}", path.display());
        let file = File::open(path).map_err(|e| cannot(&e))?;
        let mut header = [0; 80];
        file.read_exact_at(&mut header, 0).map_err(|e| cannot(&e))?;
        let (fields, _) = header.as_chunks::<4>();
        let field = |i: usize| u32::from_be_bytes(fields[i]);
        if field(1) != 7 || field(11) != 32 {
            return Err(cannot(&format!(
                "XWD version {} with {} bits a pixel, not 7 with 32",
                field(1),
                field(11)
            ))
            .into());
        }
        let pixels_at = u64::from(field(0)) + u64::from(field(19)) * 12;
        let (width, height, line_bytes) =
            (field(4) as usize, field(5) as usize, field(12) as usize);
        if line_bytes < width * 4 {
            return Err(cannot(&format!(
                "{line_bytes} bytes are too few for a row of {width} pixels"
            ))
            .into());
        }
        Ok(Framebuffer { file, pixels_at, line_bytes, width, height })
    }

    /// Width and height, pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.width as u32, self.height as u32)
    }

    /// Bytes from one row to the next in what [`Framebuffer::read_rows`] gives.
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Reads rows `from..to` of the file into `rows`.
    pub fn read_rows(&self, from: usize, to: usize, rows: &mut Vec<u8>) -> Result<(), Error> {
        assert!(
            from <= to && to <= self.height,
            "rows {from}..{to} are not within {}",
            self.height
        );
        rows.resize((to - from) * self.line_bytes, 0);
        self.file.read_exact_at(rows, self.pixels_at + (from * self.line_bytes) as u64)?;
        Ok(())
    }

    /// First and last row, exclusive, in which two whole screens differ.
    pub fn changed_rows(&self, before: &[u8], after: &[u8]) -> Option<(usize, usize)> {
        let differs = |y: &usize| {
            let row = y * self.line_bytes..(y + 1) * self.line_bytes;
            before[row.clone()] != after[row]
        };
        Some(((0..self.height).find(differs)?, (0..self.height).rev().find(differs)? + 1))
    }

    /// The whole screen.
    pub fn picture(&self) -> Result<Picture, Error> {
        self.picture_of(Rect::new(0, 0, self.width as u32, self.height as u32))
    }

    /// The part of the screen under `rect`; the part outside is left out.
    pub fn picture_of(&self, rect: Rect) -> Result<Picture, Error> {
        let (width, height) = self.size();
        let Some(rect) = rect.intersect(&Rect::new(0, 0, width, height)) else {
            return Ok(Picture::new(0, 0, 0));
        };
        let mut rows = Vec::new();
        self.read_rows(rect.y as usize, rect.bottom() as usize, &mut rows)?;
        let lines = rows.chunks_exact(self.line_bytes);
        let pixels =
            lines.flat_map(|line| pixels_of(line).skip(rect.x as usize).take(rect.width as usize));
        Ok(Picture { width: rect.width, height: rect.height, pixels: pixels.collect() })
    }
}

/// The pixels of a row; the unused byte is zero, whatever clients wrote there.
pub(super) fn pixels_of(row: &[u8]) -> impl Iterator<Item = u32> + '_ {
    row.as_chunks::<4>().0.iter().map(|pixel| u32::from_ne_bytes(*pixel) & 0xff_ffff)
}

/// An error if a required extension is missing.
pub(super) fn need(x: &RustConnection, extension: &'static str) -> Result<(), Error> {
    match x.extension_information(extension)? {
        Some(_) => Ok(()),
        None => Err(format!("the X server has no {extension} extension").into()),
    }
}

/// Waits until the X server has processed all earlier requests.
pub(super) fn sync(x: &RustConnection) -> Result<(), Error> {
    x.get_input_focus()?.reply()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_namespace_is_the_one_beside_loopback() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe \
            UNICAST\n     +-- 10.77.0.0/24 2\n        |-- 10.77.0.1\n           /32 host \
            LOCAL\nLocal:\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(local_address(table), Some("10.77.0.1"));
        assert_eq!(
            local_address(
                "     |-- 127.0.0.0\n        /8 host LOCAL\n     |-- 127.0.0.1\n        /32 host \
                    LOCAL\n"
            ),
            None
        );
        assert_eq!(local_address(""), None);
    }
}
