//! A viewer of VNC that decodes nothing: for simulated people, who are to cost next to nothing. It
//! requests what TigerVNC's own viewer does, follows the bytes of each rectangle to its end, and
//! says when something at one place of the screen has arrived. Beside tigervnc.rs; knows RFB (RFC
//! 6143 and the extensions of TigerVNC), never pixels.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Error;

const VERSION: &[u8; 12] = b"RFB 003.008\n";
const SECURITY_NONE: u8 = 1;
/// Longest text of the server that is read: a name, a reason or a clipboard.
const TEXT_BYTES_MAX: u32 = 1 << 20;
/// Longest until a server answers a handshake on a crowded machine.
const ANSWER_MAX: Duration = Duration::from_secs(60);

const RAW: i32 = 0;
const COPY_RECT: i32 = 1;
const TIGHT: i32 = 7;
const CURSOR: i32 = -239;
const LAST_RECT: i32 = -224;
const CONTINUOUS_UPDATES: i32 = -313;
const FENCE: i32 = -312;
/// Encodings in the order of preference; with the qualities that TigerVNC's viewer has by default:
/// JPEG 8 of 9, compression 2 of 9.
const ENCODINGS: [i32; 8] =
    [TIGHT, COPY_RECT, RAW, CURSOR, LAST_RECT, CONTINUOUS_UPDATES, FENCE, -32 + 8];
const COMPRESSION: i32 = -256 + 2;

/// Bit of a fence that wants an answer, and those that an answer may have.
const FENCE_REQUEST: u32 = 1 << 31;
const FENCE_FLAGS: u32 = 0b111;
const FENCE_BYTES_MAX: u8 = 64;

/// Below this many bytes Tight compresses nothing and sends no length.
const TIGHT_COMPRESSED_MIN: usize = 12;

/// A place on the screen, pixels.
pub(crate) type Point = (u16, u16);

/// A running viewer.
pub(crate) struct Rfb {
    stream: Arc<Mutex<TcpStream>>,
    shared: Arc<(Mutex<Aim>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

/// What is waited for.
#[derive(Default)]
struct Aim {
    at: Option<Point>,
    hit: Option<Instant>,
    /// Why the connection has ended.
    ended: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rfb {
    /// Connects from a network namespace to a server without a password; returns once the whole
    /// screen has arrived.
    pub(crate) fn connect(namespace: &Path, address: SocketAddr) -> Result<Rfb, Error> {
        let stream = connect_within(namespace, address)
            .map_err(|error| format!("cannot connect to VNC at {address}: {error}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut input = BufReader::new(stream.try_clone()?);
        let size = open_session(&mut input, &mut &stream)?;
        // It may rest for as long as it likes.
        stream.set_read_timeout(None)?;
        let stream = Arc::new(Mutex::new(stream));
        // The last of the screen.
        let corner = (size.0.saturating_sub(1), size.1.saturating_sub(1));
        let first = Aim { at: Some(corner), ..Aim::default() };
        let shared = Arc::new((Mutex::new(first), Condvar::new()));
        let (answers, theirs) = (Arc::clone(&stream), Arc::clone(&shared));
        let read = move || {
            let handle_rect = |rect: &Rect| {
                let mut aim = lock(&theirs.0);
                if aim.hit.is_none() && aim.at.is_some_and(|at| rect.holds(at)) {
                    aim.hit = Some(Instant::now());
                    theirs.1.notify_all();
                }
            };
            let answer = |bytes: &[u8]| lock(&answers).write_all(bytes);
            let end = follow(&mut input, size, answer, handle_rect);
            lock(&theirs.0).ended = Some(end.to_string());
            theirs.1.notify_all();
        };
        let reader = std::thread::Builder::new().name("rfb".into()).spawn(read)?;
        let viewer = Rfb { stream, shared, reader: Some(reader) };
        viewer.wait(ANSWER_MAX)?.ok_or("VNC sends no screen")?;
        Ok(viewer)
    }

    /// From now on the next change at this place is waited for.
    pub(crate) fn aim(&self, at: Point) {
        let mut aim = lock(&self.shared.0);
        (aim.at, aim.hit) = (Some(at), None);
    }

    /// When something at the place arrived; None if nothing does within `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Result<Option<Instant>, Error> {
        let ready = |aim: &mut Aim| aim.hit.is_none() && aim.ended.is_none();
        let guard = lock(&self.shared.0);
        let waited = self.shared.1.wait_timeout_while(guard, limit, ready);
        let aim = waited.unwrap_or_else(PoisonError::into_inner).0;
        match &aim.ended {
            Some(why) if aim.hit.is_none() => Err(format!("VNC's connection ended: {why}").into()),
            _ => Ok(aim.hit),
        }
    }

    /// Presses keys in this order and releases them.
    pub(crate) fn keys(&self, keysyms: &[u32]) -> Result<(), Error> {
        let key = |down: bool, keysym: &u32| {
            let [a, b, c, d] = keysym.to_be_bytes();
            [4, u8::from(down), 0, 0, a, b, c, d]
        };
        let down = keysyms.iter().map(|keysym| key(true, keysym));
        let all = down.chain(keysyms.iter().rev().map(|keysym| key(false, keysym)));
        let bytes: Vec<u8> = all.flatten().collect();
        Ok(lock(&self.stream).write_all(&bytes)?)
    }

    /// Moves the pointer.
    pub(crate) fn move_to(&self, (x, y): Point) -> Result<(), Error> {
        let ([a, b], [c, d]) = (x.to_be_bytes(), y.to_be_bytes());
        Ok(lock(&self.stream).write_all(&[5, 0, a, b, c, d])?)
    }
}

impl Drop for Rfb {
    fn drop(&mut self) {
        // The thread then reads the end.
        let _ = lock(&self.stream).shutdown(std::net::Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// A socket belongs to the namespace of the thread that opens it, which is gone with it.
fn connect_within(namespace: &Path, address: SocketAddr) -> Result<TcpStream, Error> {
    let namespace = File::open(namespace)?;
    let connect = move || -> io::Result<TcpStream> {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        TcpStream::connect_timeout(&address, ANSWER_MAX)
    };
    let connected = std::thread::spawn(connect).join();
    Ok(connected.map_err(|_| "the thread that connects panicked")??)
}

/// A rectangle of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rect {
    x: u16,
    y: u16,
    width: u16,
    height: u16,
}

impl Rect {
    fn holds(&self, (x, y): Point) -> bool {
        let within = |at: u16, from: u16, length: u16| {
            at.checked_sub(from).is_some_and(|distance| distance < length)
        };
        within(x, self.x, self.width) && within(y, self.y, self.height)
    }

    fn area(&self) -> usize {
        usize::from(self.width) * usize::from(self.height)
    }
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

fn read<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_u16(input: &mut impl Read) -> io::Result<u16> {
    read(input).map(u16::from_be_bytes)
}

fn read_u32(input: &mut impl Read) -> io::Result<u32> {
    read(input).map(u32::from_be_bytes)
}

fn skip(input: &mut impl Read, bytes: usize) -> io::Result<()> {
    let skipped = io::copy(&mut input.by_ref().take(bytes as u64), &mut io::sink())?;
    if skipped == bytes as u64 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// A text with its length before it.
fn read_text(input: &mut impl Read) -> io::Result<String> {
    let length = read_u32(input)?;
    if length > TEXT_BYTES_MAX {
        return Err(wrong(format!("a text of {length} bytes, more than {TEXT_BYTES_MAX}")));
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// From the version to the first request; returns the size of the screen.
fn open_session(input: &mut impl Read, output: &mut impl Write) -> Result<Point, Error> {
    let version: [u8; 12] = read(input)?;
    if version != *VERSION {
        let version = String::from_utf8_lossy(&version).trim().to_owned();
        return Err(format!("VNC speaks {version:?}, and this viewer RFB 003.008").into());
    }
    output.write_all(VERSION)?;
    let [count] = read(input)?;
    if count == 0 {
        return Err(format!("VNC refuses: {}", read_text(input)?).into());
    }
    let mut kinds = vec![0; usize::from(count)];
    input.read_exact(&mut kinds)?;
    if !kinds.contains(&SECURITY_NONE) {
        return Err(
            format!("VNC wants a login ({kinds:?}): start it with SecurityTypes=None").into()
        );
    }
    output.write_all(&[SECURITY_NONE])?;
    if read_u32(input)? != 0 {
        return Err(format!("VNC refuses: {}", read_text(input)?).into());
    }
    // Shared: others may view it too.
    output.write_all(&[1])?;
    let size = (read_u16(input)?, read_u16(input)?);
    let [bits, depth, _, true_colour, ..]: [u8; 16] = read(input)?;
    if (bits, depth, true_colour) != (32, 24, 1) {
        return Err(format!("VNC has {bits} bits a pixel and depth {depth}, not 32 and 24").into());
    }
    read_text(input)?;
    let encodings: Vec<i32> = ENCODINGS.into_iter().chain([COMPRESSION]).collect();
    let mut request = vec![2, 0];
    request.extend((encodings.len() as u16).to_be_bytes());
    request.extend(encodings.iter().flat_map(|encoding| encoding.to_be_bytes()));
    request.extend(request_update(false, size));
    output.write_all(&request)?;
    Ok(size)
}

fn request_update(incremental: bool, (width, height): Point) -> [u8; 10] {
    let ([a, b], [c, d]) = (width.to_be_bytes(), height.to_be_bytes());
    [3, u8::from(incremental), 0, 0, 0, 0, a, b, c, d]
}

/// Follows what the server sends until the connection ends, and answers; each rectangle of pixels
/// is handled once it has arrived. Returns why it ended.
fn follow(
    input: &mut impl Read,
    size: Point,
    answer: impl FnMut(&[u8]) -> io::Result<()>,
    handle_rect: impl FnMut(&Rect),
) -> io::Error {
    let (mut answer, mut handle_rect) = (answer, handle_rect);
    let mut is_continuous = false;
    loop {
        if let Err(end) =
            follow_message(input, size, &mut is_continuous, &mut answer, &mut handle_rect)
        {
            return end;
        }
    }
}

fn follow_message(
    input: &mut impl Read,
    size: Point,
    is_continuous: &mut bool,
    answer: &mut impl FnMut(&[u8]) -> io::Result<()>,
    handle_rect: &mut impl FnMut(&Rect),
) -> io::Result<()> {
    let [kind] = read(input)?;
    match kind {
        0 => {
            let [_] = read(input)?;
            let count = read_u16(input)?;
            for _ in 0..count {
                let [x, y, width, height] =
                    [read_u16(input)?, read_u16(input)?, read_u16(input)?, read_u16(input)?];
                let encoding = read_u32(input)?.cast_signed();
                let rect = Rect { x, y, width, height };
                match encoding {
                    LAST_RECT => break,
                    CURSOR => {
                        let mask = usize::from(width).div_ceil(8) * usize::from(height);
                        skip(input, rect.area() * 4 + mask)?;
                        continue;
                    }
                    RAW => skip(input, rect.area() * 4)?,
                    COPY_RECT => skip(input, 4)?,
                    TIGHT => skip_tight(input, &rect)?,
                    other => return Err(wrong(format!("an encoding {other} nobody asked for"))),
                }
                handle_rect(&rect);
            }
            if !*is_continuous {
                answer(&request_update(true, size))?;
            }
        }
        // A colour map: its first entry, and how many of three colours follow.
        1 => {
            let [_, _, _, a, b]: [u8; 5] = read(input)?;
            skip(input, usize::from(u16::from_be_bytes([a, b])) * 6)?;
        }
        // The bell.
        2 => {}
        // The clipboard.
        3 => {
            let [_, _, _] = read(input)?;
            read_text(input)?;
        }
        // The server knows continuous updates: from now on it sends without being asked.
        150 => {
            if !*is_continuous {
                *is_continuous = true;
                let ([a, b], [c, d]) = (size.0.to_be_bytes(), size.1.to_be_bytes());
                answer(&[150, 1, 0, 0, 0, 0, a, b, c, d])?;
            }
        }
        248 => follow_fence(input, answer)?,
        other => return Err(wrong(format!("a message {other} nobody asked for"))),
    }
    Ok(())
}

/// By its fences the server measures how far the viewer is behind.
fn follow_fence(
    input: &mut impl Read,
    answer: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let [_, _, _] = read(input)?;
    let flags = read_u32(input)?;
    let [length] = read(input)?;
    if length > FENCE_BYTES_MAX {
        return Err(wrong(format!("a fence of {length} bytes, more than {FENCE_BYTES_MAX}")));
    }
    let mut payload = vec![0; usize::from(length)];
    input.read_exact(&mut payload)?;
    if flags & FENCE_REQUEST == 0 {
        return Ok(());
    }
    let mut bytes = vec![248, 0, 0, 0];
    bytes.extend((flags & FENCE_FLAGS).to_be_bytes());
    bytes.push(length);
    bytes.extend(payload);
    answer(&bytes)
}

/// The pixels of a rectangle in Tight, whose pixels have three bytes at depth 24.
fn skip_tight(input: &mut impl Read, rect: &Rect) -> io::Result<()> {
    let [control] = read(input)?;
    match control >> 4 {
        // One colour.
        0b1000 => return skip(input, 3),
        // JPEG.
        0b1001 => {
            let length = read_tight_length(input)?;
            return skip(input, length);
        }
        basic if basic & 0b1000 == 0 => {}
        other => return Err(wrong(format!("Tight has no way {other}"))),
    }
    let [filter] = if control & 0x40 == 0 { [0] } else { read(input)? };
    let bytes = match filter {
        // As they are, or as differences.
        0 | 2 => rect.area() * 3,
        // A palette.
        1 => {
            let [last] = read(input)?;
            skip(input, (usize::from(last) + 1) * 3)?;
            match last {
                1 => usize::from(rect.width).div_ceil(8) * usize::from(rect.height),
                _ => rect.area(),
            }
        }
        other => return Err(wrong(format!("Tight has no filter {other}"))),
    };
    let length = if bytes < TIGHT_COMPRESSED_MIN { bytes } else { read_tight_length(input)? };
    skip(input, length)
}

/// Seven, seven and eight bits, the low ones first.
fn read_tight_length(input: &mut impl Read) -> io::Result<usize> {
    let mut length = 0;
    for (shift, last) in [(0, false), (7, false), (14, true)] {
        let [byte] = read(input)?;
        let bits = if last { byte } else { byte & 0x7f };
        length |= usize::from(bits) << shift;
        if last || byte & 0x80 == 0 {
            break;
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update's head, and one of its rectangles.
    fn update(rects: u16) -> Vec<u8> {
        let [a, b] = rects.to_be_bytes();
        vec![0, 0, a, b]
    }

    fn rect([x, y, width, height]: [u16; 4], encoding: i32) -> Vec<u8> {
        let numbers = [x, y, width, height].into_iter().flat_map(u16::to_be_bytes);
        numbers.chain(encoding.to_be_bytes()).collect()
    }

    /// The rectangles of some bytes, the answers, and why it ended.
    fn followed(bytes: &[u8]) -> (Vec<Rect>, Vec<u8>, io::Error) {
        let (mut rects, mut answers) = (Vec::new(), Vec::new());
        let answer = |bytes: &[u8]| {
            answers.extend_from_slice(bytes);
            Ok(())
        };
        let end = follow(&mut &bytes[..], (64, 48), answer, |rect| rects.push(*rect));
        (rects, answers, end)
    }

    #[test]
    fn every_rectangle_is_followed_to_its_end() {
        let places = [[0, 0, 2, 1], [1, 0, 2, 2], [5, 5, 4, 4], [6, 5, 9, 2], [7, 0, 2, 2]];
        let mut bytes = update(8);
        bytes.extend([rect(places[0], RAW), vec![9; 8]].concat());
        bytes.extend([rect(places[1], COPY_RECT), vec![0; 4]].concat());
        // One colour; then nine pixels of two colours, in 2 bytes a row: below 12 bytes.
        bytes.extend([rect(places[2], TIGHT), vec![0x80, 1, 2, 3]].concat());
        bytes.extend([rect(places[3], TIGHT), vec![0x40, 1, 1], vec![0; 6], vec![7; 4]].concat());
        // Twelve bytes of pixels, compressed to 130; then JPEG of 20000 bytes.
        bytes.extend([rect(places[4], TIGHT), vec![0x00, 0x82, 0x01], vec![7; 130]].concat());
        let jpeg = vec![0x90, 0xa0, 0x9c, 0x01];
        bytes.extend([rect([0, 0, 64, 48], TIGHT), jpeg, vec![7; 20_000]].concat());
        // A cursor is no pixel of the screen.
        bytes.extend([rect([1, 1, 9, 2], CURSOR), vec![0; 9 * 2 * 4 + 4]].concat());
        bytes.extend(rect([0, 0, 0, 0], LAST_RECT));
        let (rects, answers, end) = followed(&bytes);
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        let places: Vec<[u16; 4]> = places.into_iter().chain([[0, 0, 64, 48]]).collect();
        let found: Vec<[u16; 4]> =
            rects.iter().map(|rect| [rect.x, rect.y, rect.width, rect.height]).collect();
        assert_eq!(found, places);
        assert_eq!(answers, [3, 1, 0, 0, 0, 0, 0, 64, 0, 48], "it asks for the next update");
    }

    #[test]
    fn with_continuous_updates_nothing_is_asked_for_and_fences_are_answered() {
        let mut bytes = vec![150];
        bytes.extend([update(1), rect([0, 0, 1, 1], RAW), vec![0; 4]].concat());
        // A fence that wants an answer, with a flag that nobody knows; and one that wants none.
        bytes.extend([248, 0, 0, 0, 0x80, 0, 0, 0x11, 2, 5, 6]);
        bytes.extend([248, 0, 0, 0, 0, 0, 0, 1, 0]);
        bytes.extend([2, 3, 0, 0, 0, 0, 0, 0, 1, b'x']);
        let (rects, answers, end) = followed(&bytes);
        assert_eq!((rects.len(), end.kind()), (1, io::ErrorKind::UnexpectedEof));
        let enabled = [150, 1, 0, 0, 0, 0, 0, 64, 0, 48];
        assert_eq!(answers, [&enabled[..], &[248, 0, 0, 0, 0, 0, 0, 1, 2, 5, 6]].concat());
    }

    #[test]
    fn what_nobody_asked_for_ends_the_connection() {
        let unknown = [update(1), rect([0, 0, 1, 1], 16)].concat();
        let filter = [update(1), rect([0, 0, 1, 1], TIGHT), vec![0x40, 9]].concat();
        let fence = vec![248, 0, 0, 0, 0, 0, 0, 0, 65];
        let text = [vec![3, 0, 0, 0], (TEXT_BYTES_MAX + 1).to_be_bytes().to_vec()].concat();
        for bytes in [vec![99], unknown, filter, fence, text] {
            assert_eq!(followed(&bytes).2.kind(), io::ErrorKind::InvalidData, "{bytes:?}");
        }
    }

    #[test]
    fn a_handshake_gives_the_size_and_asks_for_all_of_the_screen() {
        let mut server = VERSION.to_vec();
        server.extend([2, 19, SECURITY_NONE, 0, 0, 0, 0]);
        server.extend([4, 0, 3, 0]);
        server.extend([32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]);
        server.extend([0, 0, 0, 1, b'n']);
        let mut sent = Vec::new();
        assert_eq!(open_session(&mut &server[..], &mut sent).unwrap(), (1024, 768));
        assert_eq!(sent[..14], [&VERSION[..], &[SECURITY_NONE, 1]].concat());
        assert_eq!(sent[14..22], [2, 0, 0, 9, 0, 0, 0, 7]);
        assert_eq!(sent[sent.len() - 10..], request_update(false, (1024, 768)));
        server[13] = 2;
        server[14] = 2;
        let error = open_session(&mut &server[..], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("SecurityTypes=None"), "{error}");
    }

    #[test]
    fn a_rectangle_holds_what_lies_in_it() {
        let rect = Rect { x: 10, y: 20, width: 6, height: 13 };
        assert!(rect.holds((10, 20)) && rect.holds((15, 32)));
        assert!(!rect.holds((16, 20)) && !rect.holds((10, 33)) && !rect.holds((9, 20)));
    }
}
