//! Path 9/13 and 11/13: the codec process, from gpu-video's process.rs and back.
//! `thinc-gpu-codec encode|decode h264|av1|h264-444 [--node PATH] [ELEMENT…]`: standard input is a
//! socket, standard output the shared memory. It codes with the system's GStreamer (elements.rs),
//! which has VA-API, NVENC and NVDEC behind one interface. It first says with what, or why with
//! nothing; then it serves one request at a time. It ends with its socket. ELEMENTs are those not
//! to be used. Knows requests and streams; never sessions or viewers.
#![forbid(unsafe_code)]

mod decode;
mod elements;
mod encode;
mod memory;
mod sandbox;
mod stream;
mod units;

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use thinc_gpu_video::message::{Answer, REQUEST_BYTES, Request};
use thinc_gpu_video::{Purpose, codec_name};
use thinc_protocol::video::FrameCodec;

use crate::elements::Choice;
use crate::stream::{Coder, Streams};

fn main() -> ExitCode {
    let Some((purpose, codec, choice)) = arguments(std::env::args_os().skip(1)) else {
        eprintln!("thinc-gpu-codec is started by thinc and thinc-view; see doc/3d.md");
        return ExitCode::FAILURE;
    };
    let (socket, memory) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    // What it decodes comes from a session, or from who impersonates one. Threads inherit this.
    let confined = match purpose {
        Purpose::Encode => Ok(()),
        Purpose::Decode => sandbox::confine(),
    };
    // A thread that hangs in a driver does not keep the process: this one ends it.
    std::thread::spawn(|| {
        let mut closed = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::empty())];
        while let Ok(0) | Err(Errno::INTR) = poll(&mut closed, None) {}
        std::process::exit(0);
    });
    let first = confined.map_err(|error| error.to_string()).and_then(|()| {
        let element =
            elements::choose((purpose, codec), &choice).map_err(|error| error.to_string())?;
        if purpose == Purpose::Decode {
            sandbox::filter(element.is_hardware()).map_err(|error| error.to_string())?;
        }
        Ok(element)
    });
    let answer = match &first {
        Ok(element) => Answer::Ready(element.describe()),
        Err(reason) => Answer::Nothing(reason.clone()),
    };
    let told = send(socket, &answer.encode(), SendFlags::NOSIGNAL);
    let served = match (told, first) {
        (Ok(_), Ok(element)) => match purpose {
            Purpose::Encode => {
                let coder = encode::Encoders::new(element);
                serve(socket, memory, Streams::new(coder, codec.layout()))
            }
            Purpose::Decode => {
                let coder = decode::Decoders::new(element);
                serve(socket, memory, Streams::new(coder, codec.layout()))
            }
        },
        _ => Ok(()),
    };
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn arguments(mut given: impl Iterator<Item = OsString>) -> Option<(Purpose, FrameCodec, Choice)> {
    let purpose = match given.next()?.to_str()? {
        "encode" => Purpose::Encode,
        "decode" => Purpose::Decode,
        _ => return None,
    };
    let named = given.next()?;
    let codec = [FrameCodec::H264, FrameCodec::Av1, FrameCodec::H264Yuv444]
        .into_iter()
        .find(|&codec| named == codec_name(codec))?;
    let mut choice = Choice::default();
    while let Some(argument) = given.next() {
        if argument == "--node" {
            choice.node = Some(given.next()?.into());
        } else {
            choice.without.push(argument.into_string().ok()?);
        }
    }
    if let Some(names) = std::env::var_os(thinc_gpu_video::ELEMENTS) {
        choice.only = Some(names.to_str()?.split(',').map(str::to_owned).collect());
    }
    Some((purpose, codec, choice))
}

fn serve<C: Coder>(
    socket: BorrowedFd<'_>,
    memory: BorrowedFd<'_>,
    mut streams: Streams<C>,
) -> io::Result<()> {
    loop {
        let mut message = [0; REQUEST_BYTES + 1];
        let length = match recv(socket, &mut message, RecvFlags::empty()) {
            Ok((_, 0)) => return Ok(()),
            Ok((_, length)) => length,
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        let request = message.get(..length).and_then(Request::decode);
        let answer = match request.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))? {
            Request::End { stream } => {
                streams.end(stream);
                continue;
            }
            Request::Start { stream, size, rates } => streams.start(stream, size, rates),
            Request::Next { stream, size, bytes, rates, keyframe } => {
                streams.next(stream, size, memory, bytes, rates, keyframe)
            }
        };
        send(socket, &answer.encode(), SendFlags::NOSIGNAL)?;
    }
}
