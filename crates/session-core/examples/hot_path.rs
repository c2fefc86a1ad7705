//! What does a record cost? `cargo run -p thinc-session-core --release --example hot_path [FLUSHES]` for nanoseconds, or
//! under `valgrind --tool=callgrind` for instructions: every record goes through `handle_record`, every flush through
//! `poll_job`, `handle_snapshot`, `handle_encoded` and `poll_transmit` for one viewer that acknowledges at once.
//! Knows session-core's public face.

use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{DrawRecord, DrawableId, Drawn, RecordKind};
use thinc_session_core::{Config, Session};

const SIZE: Size = Size { width: 1024, height: 768 };
/// Records between two flushes: a line of text is a fill and some glyph runs.
const RECORDS: u64 = 40;

fn main() {
    let flushes: u64 = std::env::args().nth(1).and_then(|argument| argument.parse().ok()).unwrap_or(100_000);
    for (name, scrolls) in [("text", false), ("text that scrolls", true)] {
        let mut session = Session::new(Config { name: "bench".into(), size: SIZE });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::LOCAL_CURSOR,
            size: Size::default(),
            frame_bytes_max: 1 << 24,
            name: String::new(),
        };
        let id = session.add_viewer(&hello, 0);
        let (mut now, mut op, mut acked) = (1_000, 0, 0);
        let mut out = Vec::new();
        let mut record = |session: &mut Session, now: u64, kind| {
            op += 1;
            session.handle_record(&DrawRecord { op, more: false, window: 7, kind }, now);
            op
        };
        let commands = [0x55; 60];
        let start = std::time::Instant::now();
        for flush in 0..flushes {
            let y = if scrolls { 700 } else { (flush % 40) as i32 * 18 };
            if scrolls {
                let (src, dst) = (DrawableId::SCREEN, DrawableId::SCREEN);
                record(
                    &mut session,
                    now,
                    RecordKind::Copy { src, dst, rect: Rect::new(0, 0, 800, 700), dx: 0, dy: -18 },
                );
            }
            for i in 0..RECORDS as i32 {
                let what = if i % 2 == 0 { Drawn::Solid(0xff_ffff) } else { Drawn::Glyphs };
                let rect = Rect::at(i / 2 * 40, y, 40, 18);
                record(&mut session, now, RecordKind::Draw { dst: DrawableId::SCREEN, rect, what });
            }
            let tag = record(&mut session, now, RecordKind::Idle);
            while let Some(job) = session.poll_job(id, now) {
                session.handle_snapshot(id, job.id, None, tag);
                session.handle_encoded(id, job.id, &commands);
            }
            out.clear();
            if session.poll_transmit(id, now, &mut out) {
                now += 1_000;
                acked = session.stats(id).map_or(acked, |stats| stats.updates);
                let ack = ViewerMessage::Ack(Ack { update: acked, presented: None });
                session.handle_message(id, &ack, now).expect("the update was sent");
            }
        }
        let nanoseconds = start.elapsed().as_nanos() as u64 / (flushes * RECORDS);
        println!("{name}: {nanoseconds} ns a record, all its flush included; {acked} updates of {flushes} flushes");
    }
}
