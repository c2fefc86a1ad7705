//! Path 11/13: from video_decoder.rs, to h264/decoder.rs, and back: the decoder process.
//! One request at a time: an access unit is read from the shared memory, its frame written there.
//! Everything it needs exists before the sandbox is closed. It ends with its socket. Knows streams
//! and sizes; never sessions.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread, pwritev};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use thinc_h264::{DecodeError, Decoder};
use thinc_region::Size;
use thinc_video::PlanesRef;

use super::message::{Answer, REQUEST_BYTES, Request, UNIT_AT, UNIT_BYTES_MAX};
use super::sandbox;

/// 16 Mi: luma samples of all streams decoded at a time, eight of 1920 × 1080; a decoder holds
/// several frames.
const SAMPLES_MAX: u64 = 16 * 1024 * 1024;
/// 1024: rows that one system call writes (IOV_MAX of Linux).
const ROWS_MAX: usize = 1024;

/// Runs the decoder process: standard input is the socket, standard output the memory. Returns when
/// the viewer has closed the socket.
pub fn run() -> io::Result<()> {
    sandbox::close()?;
    serve(rustix::stdio::stdin(), rustix::stdio::stdout())
}

fn serve(socket: BorrowedFd<'_>, memory: BorrowedFd<'_>) -> io::Result<()> {
    let mut decoders = Decoders::default();
    let mut unit = Vec::new();
    loop {
        let mut message = [0; REQUEST_BYTES];
        let length = match recv(socket, &mut message, RecvFlags::TRUNC) {
            Ok((_, 0)) => return Ok(()),
            Ok((_, length)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let request = message.get(..length).and_then(Request::decode);
        let answer = match request.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))? {
            Request::End { stream } => {
                decoders.streams.remove(&stream);
                continue;
            }
            Request::Start { stream, size } => match decoders.make(stream, size) {
                Some(_) => Answer::Done,
                None => Answer::Refused,
            },
            Request::Decode { stream, size, bytes } => {
                unit.resize((bytes as usize).min(UNIT_BYTES_MAX), 0);
                read_exact(memory, &mut unit, UNIT_AT)?;
                match decoders.of(stream, size) {
                    None => Answer::Refused,
                    Some(decoder) => {
                        match decoder.decode_with(&unit, |frame| write_frame(memory, frame)) {
                            Ok(written) => written.map(|()| Answer::Done)?,
                            Err(DecodeError::Size(_)) => Answer::Refused,
                            Err(_) => Answer::Failed,
                        }
                    }
                }
            }
        };
        send(socket, &[answer as u8], SendFlags::NOSIGNAL)?;
    }
}

/// A decoder per stream.
#[derive(Default)]
struct Decoders {
    streams: BTreeMap<u64, (Size, Decoder)>,
}

impl Decoders {
    /// Creates a decoder for frames of this size; None if the bound or the decoder does not allow
    /// it.
    fn make(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        self.streams.remove(&stream);
        let others: u64 = self.streams.values().map(|(size, _)| size.area()).sum();
        if others + size.area() > SAMPLES_MAX {
            return None;
        }
        let decoder = Decoder::new(size).ok()?;
        Some(&mut self.streams.entry(stream).or_insert((size, decoder)).1)
    }

    /// The stream's decoder, or a new one if the frames' size has changed.
    fn of(&mut self, stream: u64, size: Size) -> Option<&mut Decoder> {
        if self.streams.get(&stream).is_some_and(|(made_for, _)| *made_for == size) {
            return self.streams.get_mut(&stream).map(|(_, decoder)| decoder);
        }
        self.make(stream, size)
    }
}

/// Writes the rows of a frame's planes without padding, straight from the decoder's own picture.
fn write_frame(memory: BorrowedFd<'_>, frame: &PlanesRef<'_>) -> io::Result<()> {
    let mut at = 0;
    let mut rows = Vec::with_capacity(ROWS_MAX);
    let mut flush = |rows: &mut Vec<IoSlice<'_>>| {
        let bytes: usize = rows.iter().map(|row| row.len()).sum();
        // Memory takes all of it, or there is no more memory.
        if pwritev(memory, rows, at)? != bytes {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        at += bytes as u64;
        rows.clear();
        Ok(())
    };
    for row in (0..3).flat_map(|plane| frame.rows(plane)) {
        rows.push(IoSlice::new(row));
        if rows.len() == ROWS_MAX {
            flush(&mut rows)?;
        }
    }
    flush(&mut rows)
}

fn read_exact(memory: BorrowedFd<'_>, mut out: &mut [u8], mut at: u64) -> io::Result<()> {
    while !out.is_empty() {
        let count = pread(memory, &mut *out, at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += count as u64;
        out = &mut out[count..];
    }
    Ok(())
}
