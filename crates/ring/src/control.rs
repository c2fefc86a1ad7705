//! Path 3/13: beside ring.rs, the socket on which the driver sends its memory and receives the
//! session's requests.
//! Each packet is one message of driver/include/ring_abi.h. Only `attach` waits, for at most a few
//! seconds. Knows messages and descriptors; never when or why a screen is resized.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::geteuid;

use crate::abi;
use crate::framebuffer::Framebuffer;
use crate::input::InputSender;
use crate::mapping::MappingError;
use crate::ring::Ring;

/// 5 s: X answers from its main loop. One large request of an X client can delay that, but not for
/// so long.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Everything of one attachment. Dropping it detaches; X and its clients go on.
#[derive(Debug)]
pub struct Attachment {
    /// The records.
    pub ring: Ring,
    /// The framebuffer at attach.
    pub framebuffer: Framebuffer,
    /// Pointer, keys and touch.
    pub input: InputSender,
    /// Resizes, barriers and new framebuffers.
    pub control: Control,
}

/// Why attaching failed.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No X server listens there, or its socket is not accessible.
    #[error("cannot reach the driver at {path}: {error}")]
    Connect {
        /// Path of the socket.
        path: String,
        /// The system's error.
        error: io::Error,
    },
    /// The socket is another user's.
    #[error("the driver's socket belongs to another user (ID {0})")]
    Owner(u32),
    /// The driver refused, with this message.
    #[error("the driver refused to attach: {0}")]
    Refused(String),
    /// The driver's answer does not follow the protocol of this version.
    #[error("the driver's answer is invalid: {0}")]
    Protocol(&'static str),
    /// The driver's memory cannot be mapped.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// The socket failed.
    #[error("the driver's socket failed: {0}")]
    Socket(#[from] io::Error),
}

impl From<rustix::io::Errno> for AttachError {
    fn from(error: rustix::io::Errno) -> AttachError {
        AttachError::Socket(error.into())
    }
}

/// Connects to the driver's socket and takes over from any session attached before. Waits at most 5
/// s for X's main loop.
pub fn attach(socket: &Path) -> Result<Attachment, AttachError> {
    attach_as(socket, abi::ABI_VERSION)
}

/// `attach` with any version, so that a test can be refused.
pub(crate) fn attach_as(path: &Path, abi_version: u32) -> Result<Attachment, AttachError> {
    let cannot = |error: rustix::io::Errno| AttachError::Connect {
        path: path.display().to_string(),
        error: error.into(),
    };
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let address = SocketAddrUnix::new(path).map_err(cannot)?;
    rustix::net::connect(&socket, &address).map_err(cannot)?;
    // Another user who was there first could show us a screen, and would get what is typed.
    let owner = socket_peercred(&socket)?.uid;
    if owner != geteuid() {
        return Err(AttachError::Owner(owner.as_raw()));
    }
    set_socket_timeout(&socket, Timeout::Recv, Some(ATTACH_TIMEOUT))?;

    let words = [abi::MESSAGE_ATTACH, abi::MAGIC, abi_version, abi::RING_BYTES as u32];
    send_words(&socket, &words, SendFlags::NOSIGNAL)?;
    let packet = Packet::receive(&socket, RecvFlags::CMSG_CLOEXEC)?
        .ok_or(AttachError::Protocol("it closed the socket without an answer"))?;
    if packet.word(0) == abi::MESSAGE_ERROR {
        return Err(AttachError::Refused(packet.error_text()));
    }
    if packet.word(0) != abi::MESSAGE_HELLO || packet.length != abi::HELLO_BYTES {
        return Err(AttachError::Protocol("its first message is not HELLO"));
    }
    if packet.word(1) != abi::MAGIC || packet.word(2) != abi::ABI_VERSION {
        return Err(AttachError::Protocol("its HELLO has another version"));
    }
    let layout = packet.framebuffer_layout(abi::HELLO_FRAMEBUFFER / 4);
    let Ok([ring, framebuffer, wake, input, video]) = <[OwnedFd; 5]>::try_from(packet.descriptors)
    else {
        return Err(AttachError::Protocol("its HELLO does not carry five descriptors"));
    };
    let framebuffer = Framebuffer::map(framebuffer.as_fd(), layout)?;
    set_socket_timeout(&socket, Timeout::Recv, None)?;
    let socket = Arc::new(socket);
    let ring = Ring::map(ring.as_fd(), video, wake, Arc::clone(&socket))?;
    if !ring.header_matches() {
        return Err(AttachError::Protocol("its ring has another version"));
    }
    let control = Control { socket, serial: 0 };
    Ok(Attachment { ring, framebuffer, input: InputSender::new(input), control })
}

/// The control socket after attaching; never blocks.
#[derive(Debug)]
pub struct Control {
    socket: Arc<OwnedFd>,
    /// Number of the last `set_outputs`.
    serial: u32,
}

/// One monitor requested by the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputRequest {
    /// Left edge in the screen, not negative.
    pub x: i32,
    /// Top edge in the screen, not negative.
    pub y: i32,
    /// 1 to 16384.
    pub width: u32,
    /// 1 to 16384.
    pub height: u32,
    /// Millimetres, from which toolkits derive a scale; 0 means 96 dots per inch.
    pub mm_width: u32,
    /// As `mm_width`.
    pub mm_height: u32,
}

/// A message from the driver.
#[derive(Debug)]
pub enum ControlEvent {
    /// A new framebuffer; the GEOMETRY record that names its generation follows in the ring.
    Framebuffer(Framebuffer),
    /// `set_outputs` number `serial` (counted from 1) was applied.
    OutputsApplied {
        /// Its number.
        serial: u32,
    },
    /// The driver could not do what was requested.
    Error(String),
}

impl Control {
    /// Readable if [`Control::poll_event`] has an event.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Requests exactly these monitors. The answer is OutputsApplied or Error.
    pub fn set_outputs(&mut self, outputs: &[OutputRequest]) -> io::Result<()> {
        if outputs.is_empty() || outputs.len() > abi::OUTPUTS_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a screen must have 1 to 16 outputs",
            ));
        }
        let serial = self.serial.wrapping_add(1);
        let mut words = vec![abi::MESSAGE_SET_OUTPUTS, serial, outputs.len() as u32, 0];
        for output in outputs {
            words.extend([
                output.x.cast_unsigned(),
                output.y.cast_unsigned(),
                output.width,
                output.height,
            ]);
            words.extend([output.mm_width, output.mm_height]);
        }
        words.resize(4 + abi::OUTPUTS_MAX * abi::OUTPUT_WORDS, 0);
        send_words(&self.socket, &words, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        self.serial = serial;
        Ok(())
    }

    /// Requests a BARRIER record behind everything that X has drawn when it reads this message.
    pub fn barrier(&mut self, id: u32) -> io::Result<()> {
        send_words(
            &self.socket,
            &[abi::MESSAGE_BARRIER, id],
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// The next event, or None if there is none yet. An error means that X ended or another session
    /// attached.
    pub fn poll_event(&mut self) -> io::Result<Option<ControlEvent>> {
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let packet = match Packet::receive(&self.socket, flags) {
            Ok(Some(packet)) => packet,
            Ok(None) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let invalid = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
        match packet.word(0) {
            abi::MESSAGE_FRAMEBUFFER if packet.length == abi::FRAMEBUFFER_BYTES => {
                let layout = packet.framebuffer_layout(0);
                let fd = packet
                    .descriptors
                    .first()
                    .ok_or_else(|| invalid("the driver sent a framebuffer without a descriptor"))?;
                let framebuffer = Framebuffer::map(fd.as_fd(), layout)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                Ok(Some(ControlEvent::Framebuffer(framebuffer)))
            }
            abi::MESSAGE_OUTPUTS_APPLIED if packet.length == abi::WORD_BYTES => {
                Ok(Some(ControlEvent::OutputsApplied { serial: packet.word(1) }))
            }
            abi::MESSAGE_ERROR => Ok(Some(ControlEvent::Error(packet.error_text()))),
            _ => Err(invalid("the driver sent a message of unknown kind or length")),
        }
    }
}

fn send_words(socket: &OwnedFd, words: &[u32], flags: SendFlags) -> rustix::io::Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    rustix::net::send(socket, &bytes, flags)?;
    Ok(())
}

/// One message from the driver; the longest is ERROR.
struct Packet {
    bytes: [u8; abi::ERROR_BYTES],
    length: usize,
    descriptors: Vec<OwnedFd>,
}

impl Packet {
    /// None at the end of the connection.
    fn receive(socket: &OwnedFd, flags: RecvFlags) -> io::Result<Option<Packet>> {
        let mut bytes = [0; abi::ERROR_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [io::IoSliceMut::new(&mut bytes)];
        let received = rustix::net::recvmsg(socket, &mut buffers, &mut ancillary, flags)?;
        let mut descriptors = Vec::new();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        if received.bytes < abi::WORD_BYTES || received.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message from the driver is too short or too long",
            ));
        }
        Ok(Some(Packet { bytes, length: received.bytes, descriptors }))
    }

    fn word(&self, index: usize) -> u32 {
        let at = index * 4;
        u32::from_le_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ])
    }

    /// Generation, width, height and stride of the `struct thinc_framebuffer` at a word.
    fn framebuffer_layout(&self, word: usize) -> [u32; 4] {
        [1, 2, 3, 4].map(|field| self.word(word + field))
    }

    fn error_text(&self) -> String {
        let text = &self.bytes[8..self.length];
        let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }
}
