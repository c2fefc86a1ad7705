//! Records what a program says to a sound server, for tests/conversations. Between both: listens
//! on the first socket, connects to the second, and writes the program's messages with their times.
//! Sound is left out but for its length, and who ran the program where. Knows messages.
//!
//! ```text
//! cargo run -p thinc-desk --example record_conversation -- /tmp/between SERVER FILE &
//! PULSE_SERVER=unix:/tmp/between paplay sound.wav
//! ```
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Cursor, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Instant;

use pulseaudio::protocol::{
    Command, DESCRIPTOR_SIZE, MAX_VERSION, Prop, Props, write_command_message,
};

fn main() -> io::Result<()> {
    let mut paths = std::env::args().skip(1);
    let mut path = || paths.next().ok_or(io::Error::other("expected LISTEN SERVER FILE"));
    let listener = UnixListener::bind(path()?)?;
    let (server, file) = (path()?, path()?);
    // Chromium has a connection for its devices and one for each stream.
    for (number, program) in listener.incoming().enumerate() {
        let (program, server) = (program?, UnixStream::connect(&server)?);
        let file = File::create(format!("{file}.{number}"))?;
        std::thread::spawn(move || record(program, server, file));
    }
    Ok(())
}

/// Until the program ends.
fn record(mut program: UnixStream, mut server: UnixStream, mut file: File) -> io::Result<()> {
    let (mut answers, mut back) = (server.try_clone()?, program.try_clone()?);
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let start = Instant::now();
    loop {
        let mut message = vec![0; DESCRIPTOR_SIZE];
        match program.read_exact(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
        let word = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("4 bytes"));
        let (length, channel) = (word(0), word(4));
        message.resize(DESCRIPTOR_SIZE + length as usize, 0);
        program.read_exact(&mut message[DESCRIPTOR_SIZE..])?;
        server.write_all(&message)?;
        let kept = match channel {
            u32::MAX => anonymous(&message),
            _ => message[..DESCRIPTOR_SIZE].to_vec(),
        };
        // Microseconds, length, the message; of sound only its head.
        file.write_all(&(start.elapsed().as_micros() as u32).to_le_bytes())?;
        file.write_all(&(kept.len() as u32).to_le_bytes())?;
        file.write_all(&kept)?;
    }
}

/// The same command of a user called user on a host called host.
fn anonymous(message: &[u8]) -> Vec<u8> {
    let mut body = Cursor::new(&message[DESCRIPTOR_SIZE..]);
    let Ok((number, mut command)) = Command::read_tag_prefixed(&mut body, MAX_VERSION) else {
        return message.to_vec();
    };
    match &mut command {
        Command::SetClientName(props) => replace(props),
        Command::UpdateClientProplist(params) => replace(&mut params.props),
        Command::Auth(params) => params.cookie.fill(0),
        _ => return message.to_vec(),
    }
    let mut bytes = Vec::new();
    write_command_message(&mut bytes, number, &command, MAX_VERSION).expect("memory takes it");
    bytes
}

fn replace(props: &mut Props) {
    for (prop, value) in [
        (Prop::ApplicationProcessUser, c"user"),
        (Prop::ApplicationProcessHost, c"host"),
        (Prop::ApplicationProcessMachineId, c"0"),
        (Prop::ApplicationProcessSessionId, c"0"),
        (Prop::ApplicationProcessId, c"1"),
        (Prop::WindowX11Display, c":0"),
    ] {
        if props.get(prop).is_some() {
            props.set(prop, value);
        }
    }
}
