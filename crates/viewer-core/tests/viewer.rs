//! A viewer driven by test messages: what it applies, sends, drops and measures.

use thinc_protocol::command::{BitmapDepth, Command, Compression, Encoding};
use thinc_protocol::framing::{Deframer, MessageFrame};
use thinc_protocol::session::{
    Close, CloseCode, CursorImage, Geometry, SessionCaps, SessionHello, SessionMessage, Update,
};
use thinc_protocol::viewer::{Ack, Input, InputEvent, Presented, ViewerCaps, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{
    ClipboardPolicy, CursorPixels, Liveness, PathChange, Viewer, ViewerConfig, ViewerError,
    ViewerEvent,
};

const SIZE: Size = Size { width: 40, height: 30 };

fn new_viewer() -> Viewer {
    Viewer::new(&ViewerConfig {
        name: "test".into(),
        size: Size { width: 800, height: 600 },
        caps: 3,
        clipboard: ClipboardPolicy::OFF,
    })
}

fn say(viewer: &mut Viewer, message: &SessionMessage<'_>, now: u64) -> Result<(), ViewerError> {
    let mut out = Vec::new();
    message.encode(&mut out);
    viewer.handle_bytes(&out, now)
}

fn hello() -> SessionMessage<'static> {
    SessionMessage::Hello(SessionHello {
        version: 1,
        caps: 0,
        name: "demo".into(),
        message_bytes_max: 65536,
    })
}

/// A viewer after the exchange of hellos.
fn connected() -> Viewer {
    let mut viewer = new_viewer();
    say(&mut viewer, &hello(), 0).unwrap();
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }), 0)
        .unwrap();
    sent(&mut viewer);
    while viewer.poll_event().is_some() {}
    viewer.take_damage();
    viewer
}

fn sent(viewer: &mut Viewer) -> Vec<ViewerMessage> {
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    let mut deframer = Deframer::new(65536);
    deframer.push(&out);
    let mut messages = Vec::new();
    while let Some(frame) = deframer.next().unwrap() {
        messages.push(ViewerMessage::decode(&frame).unwrap());
    }
    messages
}

fn events(viewer: &mut Viewer) -> Vec<ViewerEvent> {
    std::iter::from_fn(|| viewer.poll_event()).collect()
}

fn update(seq: u64, epoch: u32, commands: &[u8]) -> SessionMessage<'_> {
    SessionMessage::Update(Update {
        seq,
        after: 0,
        epoch,
        echo: None,
        end_of_frame: false,
        packed: None,
        commands,
    })
}

fn bytes_of(commands: &[Command<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    commands.iter().for_each(|command| command.encode(&mut out));
    out
}

fn at(viewer: &Viewer, x: usize, y: usize) -> u32 {
    viewer.framebuffer().row(y)[x]
}

#[test]
fn an_update_that_writes_the_screen_again_and_again_ends_the_connection() {
    let whole = SIZE.rect();
    let fill = Command::Sfill { region: whole.into(), color: 7 };
    let copy = Command::Copy { region: Rect::at(0, 0, 40, 29).into(), dx: 0, dy: -1 };
    for (command, count) in [(&fill, 16), (&copy, 16)] {
        let commands = bytes_of(&vec![command.clone(); count]);
        assert_eq!(say(&mut connected(), &update(1, 1, &commands), 0), Ok(()));
        let commands = bytes_of(&vec![command.clone(); count + 1]);
        assert_eq!(say(&mut connected(), &update(1, 1, &commands), 0), Err(ViewerError::Work));
    }
}

#[test]
fn a_shell_gets_its_turn_among_geometries_and_updates_that_end_no_burst() {
    let size = Size { width: 8192, height: 8192 };
    let mut viewer = connected();
    let mut bytes = Vec::new();
    for epoch in 2..5 {
        SessionMessage::Geometry(Geometry { epoch, size, shown: None }).encode(&mut bytes);
    }
    let fill = bytes_of(&[Command::Sfill { region: size.rect().into(), color: 7 }]);
    for seq in 1..4 {
        update(seq, 4, &fill).encode(&mut bytes);
    }
    let mut turns = 0;
    let mut more = viewer.handle_bytes_until_frame_end(&bytes, 0).unwrap();
    while more {
        turns += 1;
        more = viewer.handle_bytes_until_frame_end(&[], 0).unwrap();
    }
    assert_eq!((turns, viewer.stats().geometries, viewer.stats().updates), (6, 4, 3));
}

#[test]
fn a_whole_burst_can_be_presented_before_the_next_is_applied() {
    let mut viewer = connected();
    let fill = |seq, color, end_of_frame| {
        let commands = bytes_of(&[Command::Sfill { region: Rect::at(0, 0, 8, 8).into(), color }]);
        let mut out = Vec::new();
        let head = Update {
            seq,
            after: 0,
            epoch: 1,
            echo: None,
            end_of_frame,
            packed: None,
            commands: &commands,
        };
        SessionMessage::Update(head).encode(&mut out);
        out
    };
    let all =
        [fill(1, 0x11, false), fill(2, 0x22, true), fill(3, 0x33, false), fill(4, 0x44, true)]
            .concat();
    let (first, rest) = all.split_at(all.len() - 3);
    assert_eq!(viewer.handle_bytes_until_frame_end(first, 0), Ok(true));
    assert_eq!(
        (at(&viewer, 0, 0), events(&mut viewer)),
        (0xff00_0022, vec![ViewerEvent::FrameEnd])
    );
    assert_eq!(
        viewer.handle_bytes_until_frame_end(&[], 0),
        Ok(false),
        "the second has not arrived yet"
    );
    assert_eq!((at(&viewer, 0, 0), events(&mut viewer)), (0xff00_0033, vec![]));
    assert_eq!(viewer.handle_bytes_until_frame_end(rest, 0), Ok(true));
    assert_eq!(
        (at(&viewer, 0, 0), viewer.handle_bytes_until_frame_end(&[], 0)),
        (0xff00_0044, Ok(false))
    );
}

#[test]
fn the_hello_is_the_first_message_on_both_sides() {
    let mut viewer = new_viewer();
    let first_sent = sent(&mut viewer);
    let [ViewerMessage::Hello(hello_of_ours)] = first_sent.as_slice() else {
        panic!("{first_sent:?}")
    };
    assert_eq!(hello_of_ours.size.width, 800);
    // The shell's capabilities, and those of viewer-core, which are always announced.
    assert_eq!(hello_of_ours.caps, 3 | ViewerCaps::PACKED | ViewerCaps::LOSSY);
    let error = say(&mut viewer, &SessionMessage::CursorShow(true), 0).unwrap_err();
    assert!(matches!(error, ViewerError::Order(_)));
    assert!(matches!(
        sent(&mut viewer).as_slice(),
        [ViewerMessage::Close(reason)] if reason.contains("hello")
    ));
    assert_eq!(say(&mut viewer, &hello(), 0), Err(ViewerError::Ended));

    let mut viewer = new_viewer();
    let newer = SessionHello { version: 2, caps: 0, name: String::new(), message_bytes_max: 0 };
    let error = say(&mut viewer, &SessionMessage::Hello(newer), 0).unwrap_err();
    assert_eq!(error, ViewerError::Version { theirs: 2, ours: 1 });
}

#[test]
fn every_command_is_applied_and_damages_its_pixels() {
    let mut viewer = connected();
    let bits = [0b1010_0000u8, 0b0100_0000];
    let commands = bytes_of(&[
        Command::Sfill { region: SIZE.rect().into(), color: 0x00aa_bbcc },
        Command::Pfill {
            rect: Rect::at(1, 1, 5, 3),
            tile_width: 2,
            tile_height: 1,
            encoding: Encoding::Plain,
            data: &[1, 0, 0, 2, 0, 0],
        },
        Command::Bitmap {
            rect: Rect::at(10, 10, 3, 2),
            depth: BitmapDepth::One,
            fg: 0x00ff_0000,
            bg: 0x0000_00ff,
            compression: Compression::Plain,
            data: &bits,
        },
        Command::Bitmap {
            rect: Rect::at(20, 10, 3, 1),
            depth: BitmapDepth::Eight,
            fg: 0,
            bg: 0x00ff_ffff,
            compression: Compression::Plain,
            data: &[0, 128, 255],
        },
        Command::Raw { rect: Rect::at(39, 29, 1, 1), encoding: Encoding::Plain, data: &[3, 2, 1] },
        Command::Copy { region: Rect::at(12, 11, 3, 2).into(), dx: 2, dy: 1 },
    ]);
    say(&mut viewer, &update(1, 1, &commands), 0).unwrap();
    assert_eq!(at(&viewer, 0, 0), 0xffaa_bbcc);
    assert_eq!(
        viewer.framebuffer().row(1)[1..7],
        [0xff00_0001, 0xff00_0002, 0xff00_0001, 0xff00_0002, 0xff00_0001, 0xffaa_bbcc]
    );
    assert_eq!(viewer.framebuffer().row(10)[10..13], [0xffff_0000, 0xff00_00ff, 0xffff_0000]);
    assert_eq!(viewer.framebuffer().row(11)[12..15], [0xffff_0000, 0xff00_00ff, 0xffff_0000]);
    assert_eq!(viewer.framebuffer().row(12)[12..15], [0xff00_00ff, 0xffff_0000, 0xff00_00ff]);
    assert_eq!(viewer.framebuffer().row(10)[20..23], [0xffff_ffff, 0xff7f_7f7f, 0xff00_0000]);
    assert_eq!(at(&viewer, 39, 29), 0xff01_0203);
    assert_eq!(viewer.take_damage(), Region::from(SIZE.rect()));
    assert!(!viewer.has_damage());

    let commands = bytes_of(&[Command::Sfill { region: Rect::at(3, 4, 5, 6).into(), color: 0 }]);
    say(&mut viewer, &update(2, 1, &commands), 0).unwrap();
    assert_eq!(viewer.take_damage(), Region::from(Rect::at(3, 4, 5, 6)));
    let stats = viewer.stats();
    assert_eq!(stats.commands.map(|c| c.count), [1, 2, 1, 2, 1, 0, 0, 0]);
    assert_eq!(stats.commands[1].pixels, 40 * 30 + 30);
    assert_eq!(stats.updates, 2);
}

#[test]
fn updates_are_acknowledged_together_including_dropped_ones() {
    let mut viewer = connected();
    let white =
        bytes_of(&[Command::Sfill { region: Rect::at(0, 0, 4, 4).into(), color: 0x00ff_ffff }]);
    say(&mut viewer, &update(1, 1, &white), 0).unwrap();
    say(&mut viewer, &update(2, 1, &white), 0).unwrap();
    assert_eq!(sent(&mut viewer), [ViewerMessage::Ack(Ack { update: 2, presented: None })]);
    // Made for the previous geometry: dropped without being parsed.
    say(
        &mut viewer,
        &SessionMessage::Geometry(Geometry {
            epoch: 2,
            size: Size { width: 8, height: 8 },
            shown: None,
        }),
        0,
    )
    .unwrap();
    say(&mut viewer, &update(3, 1, &[0xff]), 0).unwrap();
    assert_eq!(
        (at(&viewer, 0, 0), at(&viewer, 7, 7)),
        (0xffff_ffff, 0xff00_0000),
        "old pixels stay until they are written"
    );
    assert_eq!(sent(&mut viewer), [ViewerMessage::Ack(Ack { update: 3, presented: None })]);
    assert_eq!((viewer.stats().updates, viewer.stats().updates_dropped), (2, 1));
}

#[test]
fn presents_are_reported_apart_from_acknowledgements() {
    let mut viewer = connected();
    viewer.handle_presented(5);
    assert!(sent(&mut viewer).is_empty(), "nothing new was presented");
    say(&mut viewer, &update(1, 1, &[]), 1000).unwrap();
    sent(&mut viewer);
    say(&mut viewer, &update(2, 1, &[]), 2000).unwrap();
    viewer.handle_presented(4000);
    let presented = Presented { update: 2, delay_us: 3000 };
    assert_eq!(
        sent(&mut viewer),
        [ViewerMessage::Ack(Ack { update: 2, presented: Some(presented) })]
    );
}

#[test]
fn a_drawing_burst_that_is_on_its_way_keeps_its_connection() {
    let mut viewer = connected();
    assert!(viewer.may_be_replaced());
    let part = |seq, end_of_frame| {
        SessionMessage::Update(Update {
            seq,
            after: 0,
            epoch: 1,
            echo: None,
            end_of_frame,
            packed: None,
            commands: &[],
        })
    };
    say(&mut viewer, &part(1, false), 1000).unwrap();
    assert!(!viewer.may_be_replaced());
    viewer.handle_presented(2000);
    assert!(!viewer.may_be_replaced(), "the rest would be sent twice, whatever was presented");
    say(&mut viewer, &part(2, true), 3000).unwrap();
    assert!(viewer.may_be_replaced());
    viewer.handle_input(InputEvent::Button { button: 1, down: true }, 4000);
    assert!(!viewer.may_be_replaced() && viewer.holds_input());
}

#[test]
fn echoes_are_measured_from_the_input() {
    let mut viewer = connected();
    let key = InputEvent::Key { code: 30, keysym: 0x61, down: true };
    let first = viewer.handle_input(key, 10_000);
    let second = viewer.handle_input(key, 11_000);
    assert_eq!((first, second), (1, 2));
    let echo = Update {
        seq: 1,
        after: 0,
        epoch: 1,
        echo: Some(second),
        end_of_frame: true,
        packed: None,
        commands: &[],
    };
    say(&mut viewer, &SessionMessage::Update(echo), 15_000).unwrap();
    assert_eq!(
        events(&mut viewer),
        [ViewerEvent::Echo { seq: 2, latency_us: 4000 }, ViewerEvent::FrameEnd]
    );
    viewer.handle_presented(16_500);
    let latency = viewer.stats().echoes[0];
    assert_eq!((latency.seq, latency.applied_us, latency.presented_us), (2, 4000, Some(5500)));
    // An echo of an input that was never sent, or a second one, measures nothing.
    for (seq, echo) in [(2, 2), (3, 1), (4, 77)] {
        let again = Update {
            seq,
            after: 0,
            epoch: 1,
            echo: Some(echo),
            end_of_frame: false,
            packed: None,
            commands: &[],
        };
        say(&mut viewer, &SessionMessage::Update(again), 20_000).unwrap();
    }
    assert_eq!(viewer.stats().echoes.len(), 1);
}

#[test]
fn queued_motions_are_merged_and_keys_stay_in_order() {
    let mut viewer = connected();
    let motion = |x| InputEvent::Motion { x, y: 0 };
    let button = InputEvent::Button { button: 1, down: true };
    for event in [motion(1), motion(2), button, motion(3), motion(4), motion(5)] {
        viewer.handle_input(event, 0);
    }
    let inputs: Vec<_> = sent(&mut viewer)
        .into_iter()
        .filter_map(|m| if let ViewerMessage::Input(input) = m { Some(input) } else { None })
        .collect();
    let want =
        [(2, motion(2)), (3, button), (6, motion(5))].map(|(seq, event)| Input { seq, event });
    assert_eq!(inputs, want);
}

#[test]
fn queued_distances_are_added_and_none_is_lost() {
    let mut viewer = new_viewer();
    let by = |dx, dy| InputEvent::MotionBy { dx, dy };
    let caps = SessionCaps::RELATIVE;
    let hello = SessionHello { version: 1, caps, name: "demo".into(), message_bytes_max: 65536 };
    say(&mut viewer, &SessionMessage::Hello(hello), 0).unwrap();
    sent(&mut viewer);
    let inputs = |viewer: &mut Viewer| -> Vec<_> {
        sent(viewer)
            .into_iter()
            .filter_map(|m| if let ViewerMessage::Input(input) = m { Some(input) } else { None })
            .collect()
    };
    let button = InputEvent::Button { button: 1, down: true };
    let position = InputEvent::Motion { x: 5, y: 5 };
    for event in [by(1, -2), by(3, 4), button, by(5, 0), by(i16::MAX, 1), position, by(7, 7)] {
        viewer.handle_input(event, 0);
    }
    let want = [
        (2, by(4, 2)),
        (3, button),
        (4, by(5, 0)),
        (5, by(i16::MAX, 1)),
        (6, position),
        (7, by(7, 7)),
    ];
    assert_eq!(inputs(&mut viewer), want.map(|(seq, event)| Input { seq, event }));
    viewer.handle_input(by(8, 8), 0);
    assert_eq!(inputs(&mut viewer), [Input { seq: 8, event: by(8, 8) }], "the last was sent");
    // A stalled path.
    for _ in 0..20_000 {
        viewer.handle_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0);
    }
    (0..1_000).for_each(|_| {
        viewer.handle_input(by(-3, 2), 0);
    });
    assert_eq!(inputs(&mut viewer).last().map(|input| input.event), Some(by(-3_000, 2_000)));
}

#[test]
fn an_older_session_is_sent_no_distances() {
    let mut viewer = connected();
    assert!(!viewer.takes_relative());
    viewer.handle_input(InputEvent::MotionBy { dx: 1, dy: 1 }, 0);
    assert!(!sent(&mut viewer).iter().any(|sent| matches!(sent, ViewerMessage::Input(_))));
}

#[test]
fn a_stalled_path_costs_bounded_memory() {
    let mut viewer = connected();
    for _ in 0..200_000 {
        viewer.handle_input(InputEvent::Scroll { dx: 0, dy: 120 }, 0);
    }
    let key = viewer.handle_input(InputEvent::Key { code: 1, keysym: 1, down: true }, 0);
    assert!(viewer.stats().inputs_dropped > 100_000);
    let mut out = Vec::new();
    viewer.poll_transmit(&mut out);
    assert!(out.len() < 70_000);
    let mut tail = Vec::new();
    let event = InputEvent::Key { code: 1, keysym: 1, down: true };
    ViewerMessage::Input(Input { seq: key, event }).encode(&mut tail);
    assert!(out.ends_with(&tail), "the key was not dropped");
}

#[test]
fn a_ping_accompanies_traffic_once_a_second() {
    let mut viewer = new_viewer();
    sent(&mut viewer);
    say(&mut viewer, &hello(), 1_000_000).unwrap();
    assert_eq!(sent(&mut viewer), [ViewerMessage::Ping(1)]);
    say(&mut viewer, &SessionMessage::Pong(1), 1_000_700).unwrap();
    assert_eq!(viewer.stats().rtt_us, Some(700));
    viewer.handle_input(InputEvent::ReleaseAll, 1_900_000);
    assert_eq!(sent(&mut viewer).len(), 1);
    viewer.handle_input(InputEvent::ReleaseAll, 2_000_000);
    assert!(sent(&mut viewer).contains(&ViewerMessage::Ping(2)));
    assert!(say(&mut viewer, &SessionMessage::Pong(1), 2_000_001).is_err());
}

#[test]
fn an_input_without_a_response_causes_a_liveness_probe() {
    let press = InputEvent::Button { button: 1, down: true };
    let release = InputEvent::Button { button: 1, down: false };
    let mut viewer = connected();
    say(&mut viewer, &SessionMessage::Pong(1), 10_000).unwrap();
    // A response arrives: no probe is sent.
    viewer.handle_input(press, 100_000);
    assert_eq!(sent(&mut viewer).len(), 1);
    assert_eq!(viewer.poll_deadline(), Some(210_000), "a round trip and 0.1 s later");
    let barrier = viewer.request_barrier();
    say(&mut viewer, &SessionMessage::Barrier(barrier), 150_000).unwrap();
    sent(&mut viewer);
    assert_eq!(viewer.poll_deadline(), Some(1_000_000), "the ping once a second");
    // No response: the answer has been due since the input.
    viewer.handle_input(release, 300_000);
    assert_eq!(sent(&mut viewer).len(), 1);
    viewer.handle_timeout(410_000);
    assert_eq!((sent(&mut viewer).len(), viewer.liveness()), (1, Liveness::Responsive));
    assert_eq!(viewer.poll_deadline(), Some(490_000), "two round trips and 0.17 s after the input");
    viewer.handle_timeout(490_000);
    assert_eq!((sent(&mut viewer).len(), viewer.liveness()), (1, Liveness::Unresponsive));
    assert_eq!(viewer.poll_deadline(), Some(690_000), "the next probe");
    viewer.handle_timeout(690_000);
    assert_eq!(sent(&mut viewer).len(), 1, "one more probe");
    say(&mut viewer, &SessionMessage::Pong(4), 700_000).unwrap();
    assert_eq!(viewer.liveness(), Liveness::Responsive);
}

#[test]
fn a_sleep_is_followed_by_one_probe() {
    let mut viewer = connected();
    say(&mut viewer, &SessionMessage::Pong(1), 10_000).unwrap();
    sent(&mut viewer);
    viewer.handle_wake(90_000_000);
    viewer.handle_wake(90_100_000);
    assert_eq!(sent(&mut viewer), [ViewerMessage::Ping(2)]);
    assert_eq!(viewer.liveness_deadline(), Some(90_290_000));
}

#[test]
fn a_response_is_awaited_for_as_long_as_the_path_takes_since_it_became_longer() {
    let mut viewer = connected();
    say(&mut viewer, &SessionMessage::Pong(1), 200).unwrap();
    let now = long_round_trips(&mut viewer, 2, 600_000, 0);
    let press = InputEvent::Button { button: 1, down: true };
    viewer.handle_input(press, now);
    sent(&mut viewer);
    viewer.handle_timeout(now + 300_000);
    assert_eq!(sent(&mut viewer), [], "the response is on its way");
    viewer.handle_timeout(now + 700_000);
    assert_eq!(sent(&mut viewer).len(), 1, "a round trip and 0.1 s after the input");
}

/// Answers the pings of a connection with traffic, each after so long; the time after the last.
fn long_round_trips(viewer: &mut Viewer, count: u32, micros: u64, from: u64) -> u64 {
    let (mut now, mut answered) = (from, 0);
    while answered < count {
        now += 100_000;
        assert!(now < from + 60_000_000, "the viewer sends pings");
        say(viewer, &SessionMessage::CursorMove { x: 1, y: 1 }, now).unwrap();
        for message in sent(viewer) {
            if let ViewerMessage::Ping(number) = message {
                now += micros;
                say(viewer, &SessionMessage::Pong(number), now).unwrap();
                answered += 1;
            }
        }
    }
    now
}

#[test]
fn a_path_that_became_long_asks_for_another_transport_once_nothing_is_held() {
    let mut viewer = connected();
    say(&mut viewer, &SessionMessage::Pong(1), 1_000).unwrap();
    let now = long_round_trips(&mut viewer, 5, 66_000, 0);
    assert_eq!(viewer.path_change(now), None, "it is not watched");
    let mut viewer = connected();
    viewer.watch_path();
    say(&mut viewer, &SessionMessage::Pong(1), 1_000).unwrap();
    let now = long_round_trips(&mut viewer, 4, 66_000, 0);
    assert!(now < 2_200_000, "{now}: pings are frequent once one took long");
    assert_eq!(viewer.path_change(now), Some(PathChange::Long(66_000)));
    for (press, release) in [
        (
            InputEvent::Button { button: 1, down: true },
            InputEvent::Button { button: 1, down: false },
        ),
        (
            InputEvent::Key { code: 42, keysym: 0, down: true },
            InputEvent::Key { code: 42, keysym: 0, down: false },
        ),
    ] {
        viewer.handle_input(press, now);
        assert_eq!(viewer.path_change(now), None, "{press:?}");
        viewer.handle_input(release, now);
        assert!(viewer.path_change(now).is_some(), "{release:?}");
    }
    viewer.handle_transport_attempt();
    assert_eq!(viewer.path_change(now), None, "one is tried");
    viewer.handle_transport_failure(now);
    let now = long_round_trips(&mut viewer, 9, 66_000, now);
    assert_eq!(viewer.path_change(now), None, "too soon");
}

/// While a key is down, pings are sent every half second, and after an outage a session may receive
/// many at once.
#[test]
fn a_pong_answers_all_earlier_pings() {
    let mut viewer = connected();
    viewer.handle_input(InputEvent::Key { code: 42, keysym: 0xffe1, down: true }, 1_000_000);
    for half_second in 1..=10 {
        viewer.handle_timeout(1_000_000 + half_second * 500_000);
    }
    let pings = sent(&mut viewer)
        .into_iter()
        .filter(|message| matches!(message, ViewerMessage::Ping(_)))
        .count() as u32;
    assert!(pings >= 10, "{pings} pings in 5 s");
    say(&mut viewer, &SessionMessage::Pong(pings - 1), 6_100_000).unwrap();
    say(&mut viewer, &SessionMessage::Pong(pings), 6_100_000).unwrap();
    assert!(say(&mut viewer, &SessionMessage::Pong(1), 6_100_000).is_err(), "it has been answered");
}

#[test]
fn barriers_answer_requests() {
    let mut viewer = connected();
    let id = viewer.request_barrier();
    assert_eq!(sent(&mut viewer), [ViewerMessage::Barrier(id)]);
    say(&mut viewer, &SessionMessage::Barrier(id), 0).unwrap();
    assert_eq!(events(&mut viewer), [ViewerEvent::Barrier(id)]);
    assert!(say(&mut viewer, &SessionMessage::Barrier(id), 0).is_err());
}

#[test]
fn cursors_are_decoded_and_only_the_newest_is_queued() {
    let mut viewer = connected();
    let image: Vec<u8> = (0..32).collect();
    let mut packed = [0; 100];
    let len = zstd_safe::compress(&mut packed[..], &image, 1).unwrap();
    let cursor = CursorImage {
        size: Size { width: 4, height: 2 },
        hot_x: 1,
        hot_y: 1,
        pixels: &packed[..len],
    };
    let hidden = CursorImage { size: Size::default(), hot_x: 0, hot_y: 0, pixels: &[] };
    say(&mut viewer, &SessionMessage::Cursor(hidden), 0).unwrap();
    say(&mut viewer, &SessionMessage::Cursor(cursor), 0).unwrap();
    let events = events(&mut viewer);
    let [ViewerEvent::Cursor(pixels)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((pixels.pixels[0], pixels.pixels[7]), (0x0302_0100, 0x1f1e_1d1c));
    let wrong = CursorImage { size: Size { width: 4, height: 3 }, ..cursor };
    assert!(say(&mut viewer, &SessionMessage::Cursor(wrong), 0).is_err());
}

/// The bytes of `doc/protocol.md` as a session sends them: a cursor of 9 × 2, recoloured, then
/// replaced.
#[test]
fn a_two_colour_cursor_can_be_recoloured() {
    let mut viewer = connected();
    #[rustfmt::skip]
    let image = [
        0x0b, 19, 9, 2, 3, 1, 0xff, 0, 0, 0, 0, 0xff, 0,
        0b1100_0000, 0b1000_0000, 0b0000_0000, 0b0000_0000,
        0b1110_0000, 0b1000_0000, 0b0000_0001, 0b0111_1111,
    ];
    let (blue, red, green) = (0xff00_00ff, 0xffff_0000, 0xff00_ff00);
    viewer.handle_bytes(&image, 0).unwrap();
    let shown = |fore, back| {
        let pixels = vec![fore, fore, back, 0, 0, 0, 0, 0, fore, 0, 0, 0, 0, 0, 0, 0, back, 0];
        ViewerEvent::Cursor(CursorPixels {
            size: Size { width: 9, height: 2 },
            hot_x: 3,
            hot_y: 1,
            pixels,
        })
    };
    assert_eq!(events(&mut viewer), [shown(blue, red)]);
    viewer.handle_bytes(&[0x0c, 6, 0, 0xff, 0, 0, 0, 0xff], 0).unwrap();
    assert_eq!(events(&mut viewer), [shown(green, red)]);
    // Equal colours lose nothing: the planes are kept.
    viewer.handle_bytes(&[0x0c, 6, 0, 0xff, 0, 0, 0xff, 0], 0).unwrap();
    viewer.handle_bytes(&[0x0c, 6, 0, 0, 0xff, 0xff, 0, 0], 0).unwrap();
    assert_eq!(events(&mut viewer), [shown(red, blue)], "only the newest is queued");
    let argb = CursorImage { size: Size::default(), hot_x: 0, hot_y: 0, pixels: &[] };
    say(&mut viewer, &SessionMessage::Cursor(argb), 0).unwrap();
    let error = viewer.handle_bytes(&[0x0c, 6, 0, 0, 0xff, 0xff, 0, 0], 0).unwrap_err();
    assert!(error.to_string().contains("two-colour"), "{error}");
}

#[test]
fn planes_of_another_size_are_refused() {
    for (name, image) in [
        ("short", &[0x0b, 12, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..]),
        ("long", &[0x0b, 14, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]),
        ("no frame", &[0x0b, 13, 8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2]),
    ] {
        assert!(connected().handle_bytes(image, 0).is_err(), "{name}");
    }
}

#[test]
fn a_close_is_the_end() {
    let mut viewer = connected();
    say(
        &mut viewer,
        &SessionMessage::Close(Close { code: CloseCode::Replaced, reason: "another" }),
        0,
    )
    .unwrap();
    assert_eq!(
        events(&mut viewer),
        [ViewerEvent::Closed { code: CloseCode::Replaced, reason: "another".into() }]
    );
    assert!(viewer.is_closed());
    assert_eq!(viewer.handle_bytes(&[0], 0), Err(ViewerError::Ended));
}

#[test]
fn numbers_out_of_order_end_the_connection() {
    for (seq, after) in [(1, 0), (5, 4)] {
        let mut viewer = connected();
        say(&mut viewer, &update(1, 1, &[]), 0).unwrap();
        let wrong = Update {
            seq,
            after,
            epoch: 1,
            echo: None,
            end_of_frame: false,
            packed: None,
            commands: &[],
        };
        assert!(matches!(
            say(&mut viewer, &SessionMessage::Update(wrong), 0),
            Err(ViewerError::Order(_))
        ));
    }
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// A command's effect, pixel by pixel.
    #[derive(Clone, Debug)]
    enum Op {
        Copy(Vec<Rect>, i32, i32),
        Fill(Vec<Rect>, u32),
        Tile(Rect, u16, u16, u32),
        Bits(Rect, u32, u32, u32),
        Pixels(Rect, u32),
    }

    fn rect() -> impl Strategy<Value = Rect> {
        (0i32..40, 0i32..30).prop_flat_map(|(x, y)| {
            (1..=40 - x, 1..=30 - y).prop_map(move |(width, height)| Rect::at(x, y, width, height))
        })
    }

    fn op() -> impl Strategy<Value = Op> {
        let rects = || proptest::collection::vec(rect(), 1..4);
        prop_oneof![
            (rects(), -9i32..9, -9i32..9).prop_map(|(rects, dx, dy)| Op::Copy(rects, dx, dy)),
            (rects(), 0u32..0x0100_0000).prop_map(|(rects, color)| Op::Fill(rects, color)),
            (rect(), 1u16..9, 1u16..9, any::<u32>())
                .prop_map(|(rect, w, h, seed)| Op::Tile(rect, w, h, seed)),
            (rect(), 0u32..0x0100_0000, 0u32..0x0100_0000, any::<u32>())
                .prop_map(|(rect, fg, bg, seed)| Op::Bits(rect, fg, bg, seed)),
            (rect(), any::<u32>()).prop_map(|(rect, seed)| Op::Pixels(rect, seed)),
        ]
    }

    fn noise(seed: u32, i: u32) -> u32 {
        (seed ^ i.wrapping_mul(0x9e37_79b1)).wrapping_mul(0x85eb_ca6b) >> 5
    }

    fn bgr(pixels: impl Iterator<Item = u32>) -> Vec<u8> {
        pixels.flat_map(|p| p.to_le_bytes().into_iter().take(3)).collect()
    }

    fn points(rect: &Rect) -> impl Iterator<Item = (i32, i32)> + use<> {
        let rect = *rect;
        (rect.y1..rect.y2).flat_map(move |y| (rect.x1..rect.x2).map(move |x| (x, y)))
    }

    /// Applies an op to the model screen and appends its command's bytes.
    fn model(op: &Op, screen: &mut [u32], out: &mut Vec<u8>) {
        let at = |x: i32, y: i32| (y * 40 + x) as usize;
        match op {
            Op::Copy(rects, dx, dy) => {
                let mut region: Region = rects.iter().copied().collect();
                region.intersect_rect(&SIZE.rect().translate(*dx, *dy));
                if region.is_empty() {
                    return;
                }
                let before = screen.to_vec();
                for (x, y) in region.rects().iter().flat_map(points) {
                    screen[at(x, y)] = before[at(x - dx, y - dy)];
                }
                Command::Copy { region, dx: *dx, dy: *dy }.encode(out);
            }
            Op::Fill(rects, color) => {
                let region: Region = rects.iter().copied().collect();
                region.rects().iter().flat_map(points).for_each(|(x, y)| screen[at(x, y)] = *color);
                Command::Sfill { region, color: *color }.encode(out);
            }
            Op::Tile(rect, width, height, seed) => {
                let (w, h) = (i32::from(*width), i32::from(*height));
                let tile: Vec<u32> =
                    (0..(w * h) as u32).map(|i| noise(*seed, i) & 0x00ff_ffff).collect();
                for (x, y) in points(rect) {
                    screen[at(x, y)] = tile[((y - rect.y1) % h * w + (x - rect.x1) % w) as usize];
                }
                let data = bgr(tile.into_iter());
                Command::Pfill {
                    rect: *rect,
                    tile_width: *width,
                    tile_height: *height,
                    encoding: Encoding::Plain,
                    data: &data,
                }
                .encode(out);
            }
            Op::Bits(rect, fg, bg, seed) => {
                let row_len = (rect.width() as usize).div_ceil(8);
                let mut data = vec![0; row_len * rect.height() as usize];
                for (x, y) in points(rect) {
                    let bit = noise(*seed, at(x, y) as u32) & 1 == 1;
                    screen[at(x, y)] = if bit { *fg } else { *bg };
                    let column = (x - rect.x1) as usize;
                    data[(y - rect.y1) as usize * row_len + column / 8] |=
                        u8::from(bit) << (7 - column % 8);
                }
                let (depth, compression) = (BitmapDepth::One, Compression::Plain);
                Command::Bitmap { rect: *rect, depth, fg: *fg, bg: *bg, compression, data: &data }
                    .encode(out);
            }
            Op::Pixels(rect, seed) => {
                for (x, y) in points(rect) {
                    screen[at(x, y)] = noise(*seed, at(x, y) as u32) & 0x00ff_ffff;
                }
                let data = bgr(points(rect).map(|(x, y)| screen[at(x, y)]));
                Command::Raw { rect: *rect, encoding: Encoding::Plain, data: &data }.encode(out);
            }
        }
    }

    fn stream(ops: &[Op]) -> (Vec<u8>, Vec<u32>) {
        let mut screen = vec![0; 40 * 30];
        let mut stream = Vec::new();
        for (i, ops) in ops.chunks(3).enumerate() {
            let mut commands = Vec::new();
            ops.iter().for_each(|op| model(op, &mut screen, &mut commands));
            update(i as u64 + 1, 1, &commands).encode(&mut stream);
        }
        (stream, screen)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn the_framebuffer_equals_the_commands_model(
            ops in proptest::collection::vec(op(), 1..20),
            chunk in 1usize..5000,
        ) {
            let (stream, screen) = stream(&ops);
            let mut viewer = connected();
            let mut before = viewer.framebuffer().pixels().to_vec();
            for bytes in stream.chunks(chunk) {
                viewer.handle_bytes(bytes, 0).unwrap();
                // Damage covers every pixel that changed.
                let damage = viewer.take_damage();
                damage.check_invariants();
                let pairs = before.iter_mut().zip(viewer.framebuffer().pixels());
                for (i, (old, new)) in pairs.enumerate() {
                    prop_assert!(old == new || damage.contains_point(i as i32 % 40, i as i32 / 40));
                    *old = *new;
                }
            }
            for (got, want) in viewer.framebuffer().pixels().iter().zip(&screen) {
                prop_assert_eq!(*got, want | 0xff00_0000);
            }
        }

        #[test]
        fn damaged_streams_end_the_connection_or_are_understood(
            ops in proptest::collection::vec(op(), 1..8),
            flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            chunk in 1usize..5000,
        ) {
            let (mut stream, _) = stream(&ops);
            for (index, value) in flips {
                let at = index.index(stream.len());
                stream[at] = value;
            }
            let mut viewer = connected();
            for bytes in stream.chunks(chunk) {
                if let Err(error) = viewer.handle_bytes(bytes, 0) {
                    prop_assert!(viewer.is_closed());
                    let sent = sent(&mut viewer);
                    prop_assert_eq!(sent.last(), Some(&ViewerMessage::Close(error.to_string())));
                    break;
                }
            }
        }

        #[test]
        fn garbage_after_the_hello(
            kind in 2u8..12,
            body in proptest::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut viewer = connected();
            let mut bytes = Vec::new();
            let put = |out: &mut Vec<u8>| out.extend_from_slice(&body);
            thinc_protocol::framing::put_message(&mut bytes, kind, put);
            let understood = SessionMessage::decode(&MessageFrame { kind, body: &body }).is_ok();
            let handled = viewer.handle_bytes(&bytes, 0);
            prop_assert!(understood || handled.is_err());
        }
    }
}

#[test]
fn the_next_connection_shows_the_earlier_pixels_until_the_session_draws() {
    let mut earlier = connected();
    let rect = Rect::at(5, 6, 7, 8);
    let mut commands = Vec::new();
    Command::Sfill { region: rect.into(), color: 0x20_4060 }.encode(&mut commands);
    say(&mut earlier, &update(1, 1, &commands), 0).unwrap();
    let mut viewer = new_viewer();
    viewer.continue_from(&mut earlier, [1; 32]);
    assert_eq!(
        viewer.framebuffer().size(),
        Size::default(),
        "there is no screen before the first geometry"
    );
    say(&mut viewer, &hello(), 0).unwrap();
    let size = Size { width: 50, height: 20 };
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 9, size, shown: None }), 0)
        .unwrap();
    assert_eq!(
        (at(&viewer, 5, 6), at(&viewer, 11, 13), at(&viewer, 4, 6)),
        (0xff20_4060, 0xff20_4060, 0xff00_0000)
    );
    assert_eq!(viewer.lossy().pixels(), size.area(), "all of it counts as lossy");
    assert_eq!(viewer.take_damage(), Region::from(size.rect()));
    say(&mut viewer, &SessionMessage::Geometry(Geometry { epoch: 10, size: SIZE, shown: None }), 0)
        .unwrap();
    assert_eq!((at(&viewer, 5, 6), at(&viewer, 0, 25)), (0xff20_4060, 0xff00_0000));
}
