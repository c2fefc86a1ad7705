//! The viewer's cache: pixels kept and recalled, resumed by the next connection and written to a
//! file. From a session's commands, to pixels, errors and bytes. Knows viewer-core's public
//! interface.

use proptest::prelude::*;
use thinc_protocol::command::{Command, Encoding};
use thinc_protocol::framing::Deframer;
use thinc_protocol::session::{CacheGrant, Geometry, SessionHello, SessionMessage, Update};
use thinc_protocol::viewer::{CacheOffer, ViewerMessage};
use thinc_region::{Rect, Region, Size};
use thinc_viewer_core::{
    Cache, CacheError, ClipboardPolicy, SavedCacheError, Viewer, ViewerConfig, ViewerError,
};

const SIZE: Size = Size { width: 64, height: 48 };
const TOKEN: [u8; 16] = *b"an unguessable t";
/// Room for 1000 pixels.
const BYTES: u64 = 4000;

struct Shown {
    viewer: Viewer,
    seq: u64,
    epoch: u32,
}

impl Shown {
    fn without_cache() -> Shown {
        Shown::connected(Viewer::new(&ViewerConfig {
            name: "test".into(),
            size: SIZE,
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        }))
    }

    fn with_cache(cache: Cache) -> Shown {
        let mut viewer = Viewer::new(&ViewerConfig {
            name: "test".into(),
            size: SIZE,
            caps: 0,
            clipboard: ClipboardPolicy::OFF,
        });
        viewer.offer_cache(cache);
        Shown::connected(viewer)
    }

    fn granted(cache: Cache, resumed: bool) -> Shown {
        let mut shown = Shown::with_cache(cache);
        shown.say(&SessionMessage::Cache(CacheGrant { token: TOKEN, resumed })).unwrap();
        shown
    }

    fn connected(viewer: Viewer) -> Shown {
        let mut shown = Shown { viewer, seq: 0, epoch: 1 };
        let hello =
            SessionHello { version: 1, caps: 0, name: String::new(), message_bytes_max: 65536 };
        shown.say(&SessionMessage::Hello(hello)).unwrap();
        shown
            .say(&SessionMessage::Geometry(Geometry { epoch: 1, size: SIZE, shown: None }))
            .unwrap();
        shown
    }

    fn say(&mut self, message: &SessionMessage<'_>) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.viewer.handle_bytes(&bytes, 0)
    }

    fn update(&mut self, commands: &[Command<'_>]) -> Result<(), ViewerError> {
        let mut bytes = Vec::new();
        commands.iter().for_each(|command| command.encode(&mut bytes));
        self.seq += 1;
        let (seq, after, epoch) = (self.seq, 0, self.epoch);
        let update = Update {
            seq,
            after,
            epoch,
            echo: None,
            end_of_frame: true,
            packed: None,
            commands: &bytes,
        };
        self.say(&SessionMessage::Update(update))
    }

    fn offer(&mut self) -> Option<CacheOffer> {
        let (mut bytes, mut deframer) = (Vec::new(), Deframer::new(65536));
        self.viewer.poll_transmit(&mut bytes);
        deframer.push(&bytes);
        let mut messages = Vec::new();
        while let Some(frame) = deframer.next().unwrap() {
            messages.push(ViewerMessage::decode(&frame).unwrap());
        }
        assert!(matches!(messages[0], ViewerMessage::Hello(_)));
        messages.into_iter().find_map(|message| {
            if let ViewerMessage::Cache(offer) = message { Some(offer) } else { None }
        })
    }

    fn pixels(&self, rect: Rect) -> Vec<u32> {
        let framebuffer = self.viewer.framebuffer();
        (rect.y1..rect.y2)
            .flat_map(|y| {
                framebuffer.row(y as usize)[rect.x1 as usize..rect.x2 as usize]
                    .iter()
                    .map(|p| p & 0xff_ffff)
            })
            .collect()
    }
}

fn fill(rect: Rect, color: u32) -> Command<'static> {
    Command::Sfill { region: rect.into(), color }
}

fn full(width: i32, height: i32, slot: u32) -> Command<'static> {
    Command::Keep { rect: Rect::at(0, 0, width, height), slot }
}

/// Fills two rectangles and keeps the second, with a row of the first, in slot 7.
fn draw_and_keep(shown: &mut Shown) {
    let commands = [
        fill(SIZE.rect(), 0x11_2233),
        fill(Rect::at(3, 4, 5, 6), 0xaa_bbcc),
        Command::Keep { rect: Rect::at(2, 4, 6, 6), slot: 7 },
    ];
    shown.update(&commands).unwrap();
}

const KEPT_ROW: [u32; 6] = [0x11_2233, 0xaa_bbcc, 0xaa_bbcc, 0xaa_bbcc, 0xaa_bbcc, 0xaa_bbcc];

#[test]
fn kept_pixels_are_recalled_elsewhere_and_after_a_new_geometry() {
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    assert_eq!(shown.offer(), Some(CacheOffer { bytes: BYTES, token: [0; 16], update: 0 }));
    draw_and_keep(&mut shown);
    shown.update(&[fill(SIZE.rect(), 0)]).unwrap();
    shown.epoch = 2;
    shown
        .say(&SessionMessage::Geometry(Geometry {
            epoch: 2,
            size: Size { width: 32, height: 32 },
            shown: None,
        }))
        .unwrap();
    shown.viewer.take_damage();
    let rect = Rect::at(20, 20, 6, 6);
    shown.update(&[Command::Recall { rect, slot: 7 }]).unwrap();
    assert_eq!(shown.pixels(rect), KEPT_ROW.repeat(6));
    assert_eq!(shown.viewer.take_damage(), Region::from(rect));
    let stats = shown.viewer.stats();
    assert_eq!(
        (stats.commands[5].count, stats.commands[6].count, stats.commands[6].pixels),
        (1, 1, 36)
    );
}

#[test]
fn an_update_for_another_geometry_keeps_nothing() {
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    shown.epoch = 9;
    shown.update(&[full(4, 4, 1)]).unwrap();
    assert_eq!(shown.viewer.cache().unwrap().pieces(), 0);
    assert_eq!(shown.viewer.cache().unwrap().update(), 1, "the update counts all the same");
}

#[test]
fn violations_of_the_cache_protocol_end_the_connection() {
    let refused = |shown: &mut Shown, commands: &[Command<'_>], error: CacheError| {
        assert_eq!(shown.update(commands), Err(ViewerError::Cache(error)));
        assert!(shown.viewer.is_closed());
    };
    refused(&mut Shown::without_cache(), &[full(1, 1, 0)], CacheError::NotGranted);
    refused(&mut Shown::with_cache(Cache::new(BYTES)), &[full(1, 1, 0)], CacheError::NotGranted);
    let recall = Command::Recall { rect: Rect::at(0, 0, 1, 1), slot: 3 };
    refused(
        &mut Shown::with_cache(Cache::new(BYTES)),
        std::slice::from_ref(&recall),
        CacheError::NotGranted,
    );
    refused(
        &mut Shown::granted(Cache::new(BYTES), false),
        std::slice::from_ref(&recall),
        CacheError::Empty(3),
    );
    let (held, wanted) = (Size { width: 2, height: 1 }, Size { width: 1, height: 1 });
    refused(
        &mut Shown::granted(Cache::new(BYTES), false),
        &[full(2, 1, 3), recall],
        CacheError::Size { slot: 3, held, wanted },
    );
    // 990 pixels fit, twice over in one slot; 11 more in another do not.
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    shown.update(&[full(45, 22, 0), full(22, 45, 0), full(10, 1, 65535)]).unwrap();
    refused(&mut shown, &[full(1, 1, 1)], CacheError::Full { held: 4004, offered: BYTES });
    let grant = SessionMessage::Cache(CacheGrant { token: TOKEN, resumed: false });
    assert_eq!(Shown::without_cache().say(&grant), Err(ViewerError::Cache(CacheError::Grant)));
    assert_eq!(
        Shown::granted(Cache::new(BYTES), false).say(&grant),
        Err(ViewerError::Cache(CacheError::Grant))
    );
}

#[test]
fn a_cache_outlives_its_connection_if_the_session_resumes_it() {
    for resumed in [true, false] {
        let mut shown = Shown::granted(Cache::new(BYTES), false);
        draw_and_keep(&mut shown);
        shown.update(&[]).unwrap();
        let cache = shown.viewer.take_cache().unwrap();
        assert!(shown.viewer.is_closed() && shown.viewer.cache().is_none(), "it can be taken once");
        let mut shown = Shown::with_cache(cache);
        assert_eq!(shown.offer(), Some(CacheOffer { bytes: BYTES, token: TOKEN, update: 2 }));
        let grant = CacheGrant { token: *b"another as good.", resumed };
        shown.say(&SessionMessage::Cache(grant)).unwrap();
        let rect = Rect::at(20, 20, 6, 6);
        let recalled = shown.update(&[Command::Recall { rect, slot: 7 }]);
        if resumed {
            assert_eq!(shown.pixels(rect), KEPT_ROW.repeat(6));
        } else {
            assert_eq!(recalled, Err(ViewerError::Cache(CacheError::Empty(7))));
        }
    }
}

#[test]
fn a_connection_without_a_grant_changes_nothing() {
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    draw_and_keep(&mut shown);
    let cache = shown.viewer.take_cache().unwrap();
    let mut shown = Shown::with_cache(cache.clone());
    shown.update(&[fill(SIZE.rect(), 1)]).unwrap();
    assert_eq!(shown.viewer.take_cache(), Some(cache));
}

#[test]
fn recalled_lossy_pixels_are_lossy() {
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    let rect = Rect::at(0, 0, 8, 8);
    let mut image = Vec::new();
    let encoder = thinc_codec_enc::EncodeSettings {
        jpeg: Some(thinc_codec_enc::JpegProfile::Low),
        ..Default::default()
    };
    let mut snapshot = thinc_pixels::Snapshot::new();
    let noise = |i: usize| (i as u32).wrapping_mul(0x9e37_79b9) & 0xff_ffff;
    snapshot.fill(&SIZE.rect().into(), |_, to, _| {
        to.iter_mut().enumerate().for_each(|(i, pixel)| *pixel = noise(i))
    });
    let planned = [thinc_pixels::Planned::Photo { rect: SIZE.rect() }];
    thinc_codec_enc::Encoder::new().encode_with(&planned, &snapshot, &encoder, &mut image);
    let read = thinc_protocol::command::CommandReader::new(&image, SIZE);
    let photo: Vec<Command<'_>> = read.map(Result::unwrap).collect();
    assert!(
        photo.iter().all(|c| matches!(c, Command::Raw { encoding: Encoding::Jpeg, .. })),
        "noise is encoded lossy"
    );
    shown.update(&photo).unwrap();
    shown.update(&[full(8, 8, 1), fill(SIZE.rect(), 5)]).unwrap();
    assert!(shown.viewer.lossy().is_empty());
    shown.update(&[Command::Recall { rect, slot: 1 }]).unwrap();
    assert_eq!(shown.viewer.lossy().region(), Region::from(rect));
    shown
        .update(&[fill(rect, 5), full(8, 8, 1), fill(rect, 6), Command::Recall { rect, slot: 1 }])
        .unwrap();
    assert!(shown.viewer.lossy().is_empty(), "lossless pixels were kept there since");
}

/// A cache with some pieces, as a file.
fn saved(keeps: &[(i32, i32, u32)]) -> (Cache, Vec<u8>) {
    let mut shown = Shown::granted(Cache::new(BYTES), false);
    for &(width, height, slot) in keeps {
        let rect = Rect::at(0, 0, width, height);
        // If it does not fit, the connection ends and the cache is unchanged.
        let _ = shown.update(&[
            fill(rect, slot.wrapping_mul(0x10101).wrapping_add(7)),
            Command::Keep { rect, slot },
        ]);
        if shown.viewer.is_closed() {
            break;
        }
    }
    let cache = shown.viewer.take_cache().unwrap();
    let mut file = Vec::new();
    cache.save(&mut file);
    (cache, file)
}

#[test]
fn foreign_and_large_files_are_refused_with_the_reason() {
    let (_, file) = saved(&[(5, 4, 1), (3, 3, 65535)]);
    assert_eq!(Cache::load(b"", BYTES), Err(SavedCacheError::Foreign));
    assert_eq!(
        Cache::load(b"thinc cache 2\nof some later day", BYTES),
        Err(SavedCacheError::Foreign)
    );
    assert_eq!(Cache::load(&file[..file.len() - 1], BYTES), Err(SavedCacheError::Damaged));
    assert_eq!(Cache::load(&file, 100), Err(SavedCacheError::TooLarge));
    assert!(!format!("{:?}", Cache::load(&file, BYTES).unwrap()).contains("unguessable"));
}

proptest! {
    #[test]
    fn a_cache_round_trips_through_its_file(
        keeps in proptest::collection::vec((1i32..40, 1i32..40, 0u32..9), 0..12),
    ) {
        let (cache, file) = saved(&keeps);
        prop_assert!(cache.bytes() <= BYTES);
        prop_assert_eq!(Cache::load(&file, BYTES), Ok(cache));
    }

    #[test]
    fn a_damaged_file_is_refused(
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, mut file) = saved(&[(5, 4, 1), (30, 3, 2)]);
        prop_assert!(Cache::load(&file[..cut.index(file.len())], BYTES).is_err());
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        prop_assert!(Cache::load(&file, BYTES).is_err());
    }
}
