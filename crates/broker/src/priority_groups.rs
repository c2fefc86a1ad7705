//! What the supervisor of a desktop asks of its login process: that processes of the desktop move
//! between its control groups, by which processor time follows the person, that its memory is
//! measured and protected, and that what passes its input on is real-time. Beside the path: from
//! `thinc serve`, which knows what the person does, to session_groups.rs, which is root and checks
//! each request. One request at a time, each with one answer, as packets of fixed layout. Knows
//! bytes; never which process is which.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::packets;

/// Longest request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: usize = 9;
/// Longest text of a refusal, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 200;

/// First byte of a request: `[MOVE, group, process ID as u32, little endian]`.
const MOVE: u8 = 1;
/// See [`MOVE`]: `[BACKGROUND]`.
const BACKGROUND: u8 = 2;
/// See [`MOVE`]: `[MEMORY]`.
const MEMORY: u8 = 3;
/// See [`MOVE`]: `[REAL_TIME, process ID of the X server, of the session process]`.
const REAL_TIME: u8 = 4;
/// The whole answer.
const DONE: u8 = 0;
/// First byte of an answer; the text of a refusal follows it.
const REFUSED: u8 = 1;

/// A group within those of a desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PriorityGroup {
    /// Processes that answer the person's input now: ten times the weight of the rest.
    Answers = 0,
    /// All others of a desktop that is in use.
    Rest = 1,
    /// Those that compute for long without an answer to anybody: the weight of a desktop that
    /// nobody uses. Where one group has to hold the whole desktop, as a limit needs it: the
    /// smallest weight, within that group.
    Computes = 2,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRequest {
    /// Move this process, with all its threads and without its children. A move to
    /// [`PriorityGroup::Answers`] or [`PriorityGroup::Rest`] says that the desktop is in use.
    Move {
        /// Where to.
        group: PriorityGroup,
        /// The process, as its supervisor numbers it.
        pid: u32,
    },
    /// The desktop is not in use: all its processes get the weight of such a one, until a move says
    /// that it is in use. All of them are then in the foreground again.
    Background,
    /// Measure the memory of what answers, and protect it; measure that of what computes, and hold
    /// it if memory is short. What is measured and how much that may be is the login process's.
    Memory,
    /// The desktop is used now: the threads of these processes that pass input on may be real-time
    /// for some seconds more. Which threads those are, and how much they may use, is the login
    /// process's.
    RealTime {
        /// The X server; zero: none.
        server: u32,
        /// The session process; zero: none.
        session: u32,
    },
}

/// Done, or why not, in words for a log.
pub type GroupAnswer = Result<(), String>;

impl GroupRequest {
    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            GroupRequest::Move { group, pid } => {
                let mut bytes = vec![MOVE, *group as u8];
                bytes.extend(pid.to_le_bytes());
                bytes
            }
            GroupRequest::Background => vec![BACKGROUND],
            GroupRequest::Memory => vec![MEMORY],
            GroupRequest::RealTime { server, session } => {
                [&[REAL_TIME][..], &server.to_le_bytes(), &session.to_le_bytes()].concat()
            }
        }
    }

    /// `None` for every packet that is no request.
    pub fn decode(bytes: &[u8]) -> Option<GroupRequest> {
        match *bytes {
            [MOVE, group, a, b, c, d] => {
                let group = match group {
                    0 => PriorityGroup::Answers,
                    1 => PriorityGroup::Rest,
                    2 => PriorityGroup::Computes,
                    _ => return None,
                };
                Some(GroupRequest::Move { group, pid: u32::from_le_bytes([a, b, c, d]) })
            }
            [BACKGROUND] => Some(GroupRequest::Background),
            [MEMORY] => Some(GroupRequest::Memory),
            [REAL_TIME, a, b, c, d, e, f, g, h] => Some(GroupRequest::RealTime {
                server: u32::from_le_bytes([a, b, c, d]),
                session: u32::from_le_bytes([e, f, g, h]),
            }),
            _ => None,
        }
    }
}

/// The packet of an answer; the text is cut at [`REFUSAL_BYTES_MAX`].
pub fn encode_answer(answer: &GroupAnswer) -> Vec<u8> {
    match answer {
        Ok(()) => vec![DONE],
        Err(text) => {
            let end = text.floor_char_boundary(REFUSAL_BYTES_MAX);
            [&[REFUSED], &text.as_bytes()[..end]].concat()
        }
    }
}

/// `None` for every packet that is no answer.
pub fn decode_answer(bytes: &[u8]) -> Option<GroupAnswer> {
    match bytes.split_first()? {
        (&DONE, []) => Some(Ok(())),
        (&REFUSED, text) if text.len() <= REFUSAL_BYTES_MAX => {
            Some(Err(String::from_utf8(text.to_vec()).ok()?))
        }
        _ => None,
    }
}

/// The supervisor's side: sends a request, and waits for its answer. An error means that the login
/// process has ended, and answers nothing any more.
pub fn ask(socket: &OwnedFd, request: &GroupRequest) -> io::Result<GroupAnswer> {
    packets::send(socket.as_fd(), &request.encode(), &[])?;
    let answer = packets::receive(socket.as_fd(), 1 + REFUSAL_BYTES_MAX)?;
    decode_answer(&answer.bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_and_answers_have_these_bytes() {
        let answers = GroupRequest::Move { group: PriorityGroup::Answers, pid: 0x0102_0304 };
        assert_eq!(answers.encode(), [1, 0, 4, 3, 2, 1]);
        let computes = GroupRequest::Move { group: PriorityGroup::Computes, pid: u32::MAX };
        assert_eq!(computes.encode(), [1, 2, 255, 255, 255, 255]);
        assert_eq!(GroupRequest::Background.encode(), [2]);
        assert_eq!(GroupRequest::Memory.encode(), [3]);
        let real_time = GroupRequest::RealTime { server: 0x0102_0304, session: 5 };
        assert_eq!(real_time.encode(), [4, 4, 3, 2, 1, 5, 0, 0, 0]);
        assert_eq!(encode_answer(&Ok(())), [0]);
        assert_eq!(encode_answer(&Err("no".to_owned())), *b"\x01no");
        let long = encode_answer(&Err("ü".repeat(150) + "x"));
        assert_eq!(long.len(), 201);
        assert_eq!(decode_answer(&long), Some(Err("ü".repeat(100))));
        // The limit falls inside a character.
        let odd = encode_answer(&Err("x".to_owned() + &"ü".repeat(150)));
        assert_eq!(decode_answer(&odd), Some(Err("x".to_owned() + &"ü".repeat(99))));
        for bad in [&[][..], &[0, 0], &[2], &[1, 0xff], &[1; 202]] {
            assert_eq!(decode_answer(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn every_other_packet_is_no_request(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            if let Some(request) = GroupRequest::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes);
            }
        }

        #[test]
        fn what_may_be_real_time_is_read_as_it_was_written(server: u32, session: u32) {
            let request = GroupRequest::RealTime { server, session };
            prop_assert_eq!(GroupRequest::decode(&request.encode()), Some(request));
        }

        #[test]
        fn a_move_is_read_as_it_was_written(group in 0u8..4, pid in any::<u32>()) {
            let mut bytes = vec![1, group];
            bytes.extend(pid.to_le_bytes());
            let read = GroupRequest::decode(&bytes);
            prop_assert_eq!(read.is_some(), group < 3);
            prop_assert_eq!(read.map(|read| read.encode()), (group < 3).then_some(bytes));
        }
    }
}
