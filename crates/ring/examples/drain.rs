//! Attaches to a driver, reads every record and discards it: the cheapest possible session, to
//! measure the driver. Each line on standard input is answered with the counters; the end of input
//! ends it. See driver/test/cost. Knows records; never pixels.

use std::io::{BufRead, Write};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = PathBuf::from(
        std::env::args_os().nth(1).ok_or("usage: drain SOCKET [EVERY-MICROSECONDS [offscreen]]")?,
    );
    // With a time other than 0 it polls at that interval and is never woken: only the cost of
    // records remains.
    let every = match std::env::args().nth(2) {
        Some(text) if text != "0" => {
            Some(Timespec { tv_sec: 0, tv_nsec: text.parse::<i64>()? * 1000 })
        }
        _ => None,
    };
    let mut attachment = thinc_ring::attach(&socket)?;
    attachment
        .ring
        .set_want_offscreen(std::env::args().nth(3).is_some_and(|word| word == "offscreen"));
    let stdin = std::io::stdin();
    let mut overflows = 0u64;
    loop {
        while let Some(record) = attachment.ring.poll() {
            if record?.kind == thinc_ring::RecordKind::Overflow {
                overflows += 1;
                attachment.ring.take_dirty_tiles(|_| ());
            }
        }
        if every.is_none() && !attachment.ring.prepare_sleep() {
            continue;
        }
        let readable = {
            let mut fds = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::from_borrowed_fd(attachment.ring.wake_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(attachment.control.fd(), PollFlags::IN),
            ];
            poll(&mut fds, every.as_ref())?;
            [fds[0].revents(), fds[2].revents()].map(|ready| !ready.is_empty())
        };
        attachment.ring.clear_wake();
        if readable[1] {
            loop {
                match attachment.control.poll_event() {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        if readable[0] {
            let mut line = String::new();
            if stdin.lock().read_line(&mut line)? == 0 {
                return Ok(());
            }
            let stats = attachment.ring.stats();
            println!("{} {} {overflows}", stats.records, stats.dropped);
            std::io::stdout().flush()?;
        }
    }
}
