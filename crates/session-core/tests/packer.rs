//! What a shell that packs a connection's commands may rely on: each update is packed once, in the
//! order of sending, and counted as packed. From constructed records, to the packer's input and the
//! session's estimate of the path. Knows session-core's public interface.

use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::commands::Commands;
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{Packed, SessionMessage};
use thinc_protocol::viewer::{Ack, ViewerCaps, ViewerHello, ViewerMessage};
use thinc_region::{Rect, Size};
use thinc_ring::{Alpha, DrawHint, DrawRecord, DrawableId, RecordKind};
use thinc_session_core::{
    Config, Job, JobResult, LossyPolicy, NoPixels, Packer, Scheduling, Session, ViewerId,
};

const SIZE: Size = Size { width: 400, height: 300 };
/// Bytes of commands that one packed byte stands for.
const TIMES: usize = 10;

/// A packer that numbers its input, and produces a tenth of it.
#[derive(Default)]
struct Tenth {
    given: Vec<Vec<u8>>,
}

impl Packer for Tenth {
    fn pack(&mut self, commands: &[u8], out: &mut Vec<u8>) -> Option<Packed> {
        out.extend_from_slice(&(self.given.len() as u32).to_le_bytes());
        out.resize(out.len() + commands.len() / TIMES, 0);
        self.given.push(commands.to_vec());
        Some(Packed { len: commands.len() as u32, reset: self.given.len() == 1 })
    }
}

struct Shell {
    session: Session,
    viewer: ViewerId,
    packer: Tenth,
    now: u64,
    op: u64,
    /// The first byte and the length of each packed update.
    left: Vec<(u32, usize)>,
}

impl Shell {
    fn new() -> Shell {
        let (scheduling, lossy) = (Scheduling::ShortestFirst, LossyPolicy::Auto);
        let mut session = Session::new(Config {
            scheduling,
            offscreen: false,
            lossy,
            ..Config::new("pack", SIZE)
        });
        session.handle_attach(SIZE);
        let hello = ViewerHello {
            version: 1,
            caps: ViewerCaps::PACKED,
            size: Size::default(),
            message_bytes_max: 1 << 20,
            name: "test".into(),
        };
        let viewer = session.add_viewer(&hello, 0);
        Shell { session, viewer, packer: Tenth::default(), now: 1_000, op: 0, left: Vec::new() }
    }

    fn draw(&mut self, rect: Rect, what: DrawHint) {
        self.op += 1;
        let kind =
            RecordKind::Draw { dst: DrawableId::SCREEN, rect, hint: what, alpha: Alpha::Opaque };
        self.session
            .handle_record(&DrawRecord { op: self.op, more: false, window: 1, kind }, self.now);
        let idle = DrawRecord { op: self.op, more: false, window: 0, kind: RecordKind::Idle };
        self.session.handle_record(&idle, self.now);
    }

    fn job(&mut self) -> Job {
        self.session.poll_job(self.viewer, self.now).expect("something waits")
    }

    /// A byte a pixel, in rows.
    fn encode(&mut self, job: Job) -> usize {
        let mut commands = Commands::default();
        for rect in job.region.rects() {
            for y in rect.y1..rect.y2 {
                let data = vec![job.id.0 as u8; rect.width() as usize];
                let rect = Rect { y1: y, y2: y + 1, ..*rect };
                Command::Raw { rect, encoding: Encoding::Predicted, data: &data }
                    .append_to(&mut commands);
            }
        }
        let planned = self.session.render(job, &mut NoPixels { tag: self.op });
        self.session.complete(planned.expect("it is new"), JobResult::encoded(&commands));
        commands.as_bytes().len()
    }

    /// Everything that may be sent, without acknowledgement.
    fn transmit(&mut self) {
        let mut out = Vec::new();
        while self.session.poll_transmit(self.viewer, self.now, &mut self.packer, &mut out) {}
        let mut deframer = Deframer::new(1 << 24);
        deframer.push(&out);
        while let Some(frame) = deframer.next().unwrap() {
            if let SessionMessage::Update(update) = SessionMessage::decode(&frame).unwrap()
                && let Some(packed) = update.packed
            {
                let number = u32::from_le_bytes(*update.commands.first_chunk().unwrap());
                assert_eq!(packed.len as usize, self.packer.given[number as usize].len());
                assert_eq!(packed.reset, number == 0);
                self.left.push((number, update.commands.len()));
            }
        }
        self.session.check_invariants();
    }

    fn acknowledge(&mut self) {
        let update = self.session.stats(self.viewer).unwrap().updates;
        self.now += 20_000;
        let ack = ViewerMessage::Ack(Ack { update, presented: None });
        self.session.handle_message(self.viewer, &ack, self.now).unwrap();
    }
}

#[test]
fn every_update_is_packed_once_in_the_order_of_sending() {
    let mut shell = Shell::new();
    let all = shell.job();
    let bytes = shell.encode(all);
    shell.transmit();
    shell.draw(Rect::at(0, 0, 8, 16), DrawHint::Glyphs);
    for _ in 0..40 {
        while let Some(job) = shell.session.poll_job(shell.viewer, shell.now) {
            shell.encode(job);
        }
        shell.transmit();
        shell.acknowledge();
    }
    let numbers: Vec<u32> = shell.left.iter().map(|&(number, _)| number).collect();
    assert!(
        numbers.len() > 2 && numbers.iter().copied().eq(0..numbers.len() as u32),
        "{numbers:?}"
    );
    let given: usize = shell.packer.given.iter().map(Vec::len).sum();
    // The small update adds its bytes, and each part writes its first command again.
    let more = 300 + 4 * numbers.len();
    assert!(given.abs_diff(bytes) < more, "{given} bytes were packed, of {bytes} and few more");
}

#[test]
fn bytes_in_flight_are_counted_as_packed() {
    let mut shell = Shell::new();
    let job = shell.job();
    shell.encode(job);
    shell.transmit();
    let stats = shell.session.stats(shell.viewer).unwrap();
    let left: usize = shell.left.iter().map(|&(_, bytes)| bytes).sum();
    let heads = 32 * (shell.left.len() as u64 + 2);
    assert!(
        stats.in_flight >= left as u64 && stats.in_flight < left as u64 + heads,
        "{stats:?}, {left} bytes left"
    );
}

#[test]
fn parts_are_as_long_on_the_wire_as_wanted() {
    let mut shell = Shell::new();
    for _ in 0..60 {
        while let Some(job) = shell.session.poll_job(shell.viewer, shell.now) {
            shell.encode(job);
        }
        shell.left.clear();
        shell.transmit();
        shell.acknowledge();
        shell.draw(SIZE.rect(), DrawHint::Image);
    }
    // Three milliseconds of the path, and 2 KiB at least; the packing is not known in advance.
    let rate = shell.session.stats(shell.viewer).unwrap().bytes_per_second;
    let wanted = (rate * 3 / 1_000).max(2_048) as usize;
    let longest = shell.left.iter().map(|&(_, bytes)| bytes).max().expect("something was sent");
    assert!(
        longest > wanted * 6 / 10 && longest < wanted * 14 / 10,
        "{longest} bytes, with {wanted} wanted"
    );
}
