//! Attaches to a driver and prints its records, including those of pixmaps: the drawing operations
//! of an application. Lines on standard input send input: `move X Y`, `press B`, `release B`,
//! `scroll N`, `down KEYCODE`, `up KEYCODE`; any other line is printed as a heading, and the end of
//! input ends it. Consecutive records of the same kind are printed as one line. Knows records;
//! never pixels.

use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use thinc_region::Rect;
use thinc_ring::{Attachment, DrawHint, DrawRecord, DrawableId, InputMessage, RecordKind};

/// Consecutive records of the same kind.
struct Run {
    label: String,
    around: Rect,
    records: u32,
    ops: u32,
    last_op: u64,
}

fn drawable(id: DrawableId) -> String {
    if id == DrawableId::SCREEN { "screen".to_owned() } else { format!("#{}", id.0) }
}

/// The label of a record, and its rectangle.
fn label(record: &DrawRecord) -> (String, Rect) {
    let window =
        if record.window == 0 { String::new() } else { format!(" window {:x}", record.window) };
    match record.kind {
        RecordKind::Draw { dst, rect, hint, alpha } => {
            let hint = match hint {
                DrawHint::Solid(rgb) => format!("solid {rgb:06x}"),
                other => format!("{other:?}").to_lowercase(),
            };
            (format!("{} DRAW {hint} alpha {alpha:?}{window}", drawable(dst)), rect)
        }
        RecordKind::Copy { src, dst, rect, dx, dy, over } => {
            let over = if over { " over" } else { "" };
            (
                format!("{} COPY{over} from {} by {dx},{dy}{window}", drawable(dst), drawable(src)),
                rect,
            )
        }
        RecordKind::PixmapCreate { id, width, height, opaque } => {
            let alpha = if opaque { "no alpha" } else { "alpha" };
            (format!("{} CREATE {width}x{height} {alpha}", drawable(id)), Rect::default())
        }
        RecordKind::PixmapDestroy { id } => (format!("{} DESTROY", drawable(id)), Rect::default()),
        other => (format!("{other:?}"), Rect::default()),
    }
}

fn flush(run: &mut Option<Run>) {
    if let Some(Run { label, around: r, records, ops, .. }) = run.take() {
        let place = if r.is_empty() {
            String::new()
        } else {
            format!(" {}x{}+{}+{}", r.width(), r.height(), r.x1, r.y1)
        };
        let count = if records > 1 {
            format!("  ({records} records of {ops} ops, bounding box)")
        } else {
            String::new()
        };
        println!("  {label}{place}{count}");
    }
}

fn add(run: &mut Option<Run>, record: &DrawRecord) {
    let (label, rect) = label(record);
    match run {
        Some(run) if run.label == label => {
            run.around = run.around.bound(&rect);
            run.records += 1;
            run.ops += u32::from(run.last_op != record.op);
            run.last_op = record.op;
        }
        _ => {
            flush(run);
            *run = Some(Run { label, around: rect, records: 1, ops: 1, last_op: record.op });
        }
    }
}

/// Executes one line of standard input. False: it is a heading.
fn act(attachment: &Attachment, line: &str) -> bool {
    let mut parts = line.split_whitespace();
    let verb = parts.next().unwrap_or_default();
    let numbers: Vec<i32> = parts.map_while(|part| part.parse().ok()).collect();
    let message = match (verb, &numbers[..]) {
        ("move", &[x, y]) => InputMessage::PointerMove { seq: 0, x, y },
        ("press" | "release", &[button]) => {
            InputMessage::Button { seq: 0, button: button as u8, down: verb == "press" }
        }
        ("scroll", &[dy]) => InputMessage::Scroll { seq: 0, dx: 0, dy },
        ("down" | "up", &[keycode]) => {
            InputMessage::Key { seq: 0, keycode: keycode as u8, down: verb == "down" }
        }
        _ => return false,
    };
    // A full socket means that X does not read its input: waiting would not help.
    let _ = attachment.input.send(message);
    true
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: records SOCKET")?);
    let mut attachment = thinc_ring::attach(&socket)?;
    attachment.ring.set_want_offscreen(true);
    let stdin = std::io::stdin();
    let mut typed = String::new();
    let mut run = None;
    loop {
        while let Some(record) = attachment.ring.poll() {
            let record = record?;
            match record.kind {
                // Not a drawing.
                RecordKind::Yield => {}
                RecordKind::Idle => {
                    flush(&mut run);
                    println!("  --");
                }
                _ => add(&mut run, &record),
            }
            if record.kind == RecordKind::Overflow {
                attachment.ring.take_dirty_tiles(|_| ());
            }
        }
        if !attachment.ring.prepare_sleep() {
            continue;
        }
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(attachment.ring.wake_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(attachment.control.fd(), PollFlags::IN),
        ];
        poll(&mut fds, None)?;
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        attachment.ring.clear_wake();
        if ready[2] {
            while attachment.control.poll_event()?.is_some() {}
        }
        if ready[0] {
            let mut bytes = [0; 4096];
            let count = rustix::io::read(&stdin, &mut bytes)?;
            if count == 0 {
                flush(&mut run);
                return Ok(());
            }
            typed.push_str(&String::from_utf8_lossy(&bytes[..count]));
            while let Some((line, rest)) = typed.split_once('\n') {
                if !act(&attachment, line) {
                    flush(&mut run);
                    println!("== {line}");
                }
                typed = rest.to_owned();
            }
        }
    }
}
