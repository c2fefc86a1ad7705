//! A program's bytes, as messages of PulseAudio's protocol with every length checked. From
//! process.rs, to server.rs. The crate `pulseaudio` reads what commands mean; it trusts the lengths
//! in them, so they are checked here before. Knows bytes; no sockets and no streams.

use std::io::Cursor;

use pulseaudio::protocol::{Command, DESCRIPTOR_SIZE, ProtocolError};
use thiserror::Error;

/// Longest command. Chromium's longest has 1.6 KB; names, icons and properties are in it.
pub(crate) const COMMAND_BYTES_MAX: usize = 64 << 10;
/// Longest piece of sound. libpulse sends 64 KiB at most.
pub(crate) const DATA_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a program's bytes; ends its connection.
#[derive(Debug, Error)]
pub(crate) enum WireError {
    #[error("a {what} of {bytes} bytes; at most {max} are allowed")]
    TooLong { what: &'static str, bytes: usize, max: usize },
    #[error("a message with flags 0x{0:x}, as for shared memory, which was refused")]
    SharedMemory(u32),
    #[error("a command that ends within a value, or has an unknown kind of value")]
    Values,
    #[error("a time with {0} microseconds in its second")]
    Time(u32),
    #[error("{0}")]
    Command(ProtocolError),
}

/// How the offset of written sound is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// From where the last sound was written to.
    Relative,
    /// From the start of the stream.
    Absolute,
    /// From what is read next.
    FromRead,
    /// From the end of what was written.
    FromEnd,
}

/// A message of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// A command, to be read by `read_command`.
    Command(&'a [u8]),
    /// Sound for a stream.
    Data { channel: u32, seek: Seek, offset: i64, bytes: &'a [u8] },
}

/// Cuts a program's bytes into messages.
#[derive(Debug, Default)]
pub(crate) struct Deframer {
    bytes: Vec<u8>,
    /// Of `bytes`, how many were returned.
    taken: usize,
}

impl Deframer {
    /// Adds bytes. Together with an unfinished message there are never more than one message and
    /// one piece that was read from the socket.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
        // Sound comes in pieces of a steady size; one long message must not hold its memory.
        if self.bytes.capacity() > 4 * (self.bytes.len() + COMMAND_BYTES_MAX) {
            self.bytes.shrink_to(self.bytes.len() + COMMAND_BYTES_MAX);
        }
    }

    /// The next whole message.
    pub(crate) fn next(&mut self) -> Result<Option<Message<'_>>, WireError> {
        let Some((head, rest)) =
            self.bytes[self.taken..].split_first_chunk::<{ DESCRIPTOR_SIZE }>()
        else {
            return Ok(None);
        };
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (length, channel, flags) = (word(0) as usize, word(4), word(16));
        let offset = (u64::from(word(8)) << 32 | u64::from(word(12))).cast_signed();
        let (what, max) = match channel {
            u32::MAX => ("command", COMMAND_BYTES_MAX),
            _ => ("piece of sound", DATA_BYTES_MAX),
        };
        if length > max {
            return Err(WireError::TooLong { what, bytes: length, max });
        }
        let seek = match flags {
            0 => Seek::Relative,
            1 => Seek::Absolute,
            2 => Seek::FromRead,
            3 => Seek::FromEnd,
            _ => return Err(WireError::SharedMemory(flags)),
        };
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        self.taken += DESCRIPTOR_SIZE + length;
        Ok(Some(match channel {
            u32::MAX => Message::Command(bytes),
            _ => Message::Data { channel, seek, offset, bytes },
        }))
    }
}

/// A command and the number that its answer repeats. `None` is one that is known and not
/// implemented.
pub(crate) fn read_command(
    bytes: &[u8],
    version: u16,
) -> Result<(u32, Option<Command>), WireError> {
    check_values(bytes)?;
    match Command::read_tag_prefixed(&mut Cursor::new(bytes), version) {
        Ok((number, command)) => Ok((number, Some(command))),
        Err(ProtocolError::Unimplemented(number, _)) => Ok((number, None)),
        Err(error) => Err(WireError::Command(error)),
    }
}

/// Checks that each value of a command ends within it: lengths are trusted from here on.
fn check_values(mut bytes: &[u8]) -> Result<(), WireError> {
    while let Some((&kind, rest)) = bytes.split_first() {
        let length = match kind {
            // Bytes up to a zero.
            b't' => 1 + rest.iter().position(|&byte| byte == 0).ok_or(WireError::Values)?,
            b'N' | b'0' | b'1' | b'P' | b'f' => 0,
            b'B' => 1,
            b'L' | b'V' => 4,
            b'a' => 6,
            b'R' | b'r' | b'U' => 8,
            b'T' => {
                let micros = be_word(rest.get(4..)).ok_or(WireError::Values)?;
                // The crate multiplies them by 1000 in 32 bits.
                if micros >= 1_000_000 {
                    return Err(WireError::Time(micros));
                }
                8
            }
            b'x' => 4 + be_word(Some(rest)).ok_or(WireError::Values)? as usize,
            b'm' => 1 + usize::from(*rest.first().ok_or(WireError::Values)?),
            b'v' => 1 + 4 * usize::from(*rest.first().ok_or(WireError::Values)?),
            _ => return Err(WireError::Values),
        };
        bytes = rest.get(length..).ok_or(WireError::Values)?;
    }
    Ok(())
}

fn be_word(bytes: Option<&[u8]>) -> Option<u32> {
    bytes?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests {
    use pulseaudio::protocol::{self, AuthParams, MAX_VERSION, Prop, Props};

    use super::*;

    fn head(length: u32, channel: u32, offset: i64, flags: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(length.to_be_bytes());
        bytes.extend(channel.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes
    }

    #[test]
    fn messages_are_found_however_the_bytes_arrive() {
        let mut bytes = head(3, 7, -2, 1);
        bytes.extend(b"abc");
        bytes.extend(head(0, u32::MAX, 0, 0));
        for piece in 1..bytes.len() {
            let (mut deframer, mut found) = (Deframer::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                deframer.push(piece);
                while let Some(message) = deframer.next().unwrap() {
                    found.push(match message {
                        Message::Data { channel, seek, offset, bytes } => {
                            assert_eq!((channel, seek, offset), (7, Seek::Absolute, -2));
                            bytes.to_vec()
                        }
                        Message::Command(bytes) => [b"command ", bytes].concat(),
                    });
                }
            }
            assert_eq!(found, [&b"abc"[..], b"command "], "in pieces of {piece}");
        }
    }

    #[test]
    fn long_messages_and_shared_memory_are_refused_by_their_head() {
        let error = |head: Vec<u8>| {
            let mut deframer = Deframer::default();
            deframer.push(&head);
            deframer.next().expect_err("it is refused").to_string()
        };
        let long = error(head(COMMAND_BYTES_MAX as u32 + 1, u32::MAX, 0, 0));
        assert_eq!(long, "a command of 65537 bytes; at most 65536 are allowed");
        assert!(error(head(DATA_BYTES_MAX as u32 + 1, 1, 0, 0)).contains("1048577"));
        for flags in [0x8000_0000, 0x4000_0000, 0x2000_0000, 0xc000_0000, 4] {
            assert!(error(head(8, 1, 0, flags)).contains("shared memory"), "{flags:x}");
        }
    }

    #[test]
    fn lengths_within_commands_are_checked_before_anything_is_allocated() {
        // A cookie of 4 GiB in a command of 20 bytes.
        let mut auth = [&b"L"[..], &8u32.to_be_bytes(), b"L", &0u32.to_be_bytes()].concat();
        auth.extend(b"L\0\0\0\x23x\xff\xff\xff\xff");
        assert!(matches!(read_command(&auth, MAX_VERSION), Err(WireError::Values)));
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c"a program");
        let auth = AuthParams { version: 35, cookie: vec![1; 256], ..Default::default() };
        for command in [Command::Auth(auth), Command::SetClientName(props)] {
            let mut bytes = Vec::new();
            protocol::write_command_message(&mut bytes, 5, &command, MAX_VERSION).unwrap();
            let bytes = &bytes[DESCRIPTOR_SIZE..];
            assert_eq!(read_command(bytes, MAX_VERSION).unwrap(), (5, Some(command)));
            for cut in 0..bytes.len() {
                assert!(read_command(&bytes[..cut], MAX_VERSION).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_second_has_less_than_a_million_microseconds() {
        let mut bytes = [&b"L"[..], &14u32.to_be_bytes(), b"L", &1u32.to_be_bytes()].concat();
        bytes.extend(b"L\0\0\0\0T\0\0\0\0\0\x0f\x42\x40");
        assert!(matches!(read_command(&bytes, MAX_VERSION), Err(WireError::Time(1_000_000))));
    }
}
