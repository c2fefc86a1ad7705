//! Beside the path: received files in a temporary folder, hostile ones and interrupted ones among
//! them. Knows inbox.rs's interface, and what is on the disk.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use thinc_files::OfferError;
use thinc_protocol::file::FilePurpose;

use super::*;
use crate::test_folder::TestFolder;

/// Two folders: one that receives, and a home.
struct World {
    folder: TestFolder,
    home: TestFolder,
    limits: InboxLimits,
}

impl World {
    fn new() -> World {
        // Tests run where less than a gigabyte may be free.
        let limits = InboxLimits { reserve: 0, ..InboxLimits::default() };
        World { folder: TestFolder::new(), home: TestFolder::new(), limits }
    }

    fn inbox(&self) -> Inbox {
        Inbox::open(self.folder.path(), self.home.path(), self.limits).unwrap()
    }

    fn read(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(path)).unwrap()
    }
}

/// Folders have no content.
fn offer(entries: &[(&str, Option<&[u8]>)]) -> Arc<Offer> {
    let entries = entries.iter().map(|(path, content)| FileEntry {
        kind: if content.is_some() { FileKind::File } else { FileKind::Folder },
        size: content.map_or(0, |content| content.len() as u64),
        modified_ms: 1_500_000_000_250,
        path: (*path).to_owned(),
    });
    Arc::new(Offer::new(FilePurpose::Sent, entries.collect()).unwrap())
}

/// Where the transfer starts, read in the smallest steps.
fn start(writer: &mut Writer) -> Result<Start, DiskError> {
    loop {
        if let Some(start) = writer.poll_start(1)? {
            return Ok(start);
        }
    }
}

/// Writes files from where the transfer starts, in chunks of `chunk` bytes, at most `chunks`.
fn write(
    writer: &mut Writer,
    entries: &[(&str, Option<&[u8]>)],
    chunk: usize,
    chunks: usize,
) -> Result<bool, DiskError> {
    let start = start(writer)?;
    let mut left = chunks;
    for (at, (_, content)) in entries.iter().enumerate().skip(start.entry as usize) {
        let Some(content) = content else { continue };
        let mut offset = if at == start.entry as usize { start.offset as usize } else { 0 };
        loop {
            if left == 0 {
                return Ok(false);
            }
            left -= 1;
            let end = (offset + chunk).min(content.len());
            let last = end == content.len();
            writer.write(at as u32, offset as u64, &content[offset..end], last)?;
            offset = end;
            if last {
                break;
            }
        }
    }
    Ok(true)
}

const TREE_ENTRIES: &[(&str, Option<&[u8]>)] = &[
    ("empty", Some(b"")),
    ("d", None),
    ("d/a", Some(b"the first file")),
    ("d/e", None),
    ("d/e/b", Some(b"b")),
    ("c", Some(b"a longer file, in several chunks")),
    ("z", None),
];

fn receive(world: &World, entries: &[(&str, Option<&[u8]>)]) -> Result<Vec<PathBuf>, DiskError> {
    let mut writer = world.inbox().receive(offer(entries))?;
    assert!(write(&mut writer, entries, 5, usize::MAX)?);
    writer.finish()
}

fn check_tree(world: &World) {
    assert_eq!(world.folder.names(), ["c", "d", "empty", "z"]);
    for (path, content) in TREE_ENTRIES {
        if let Some(content) = content {
            assert_eq!(world.read(path), *content, "{path}");
        }
    }
}

#[test]
fn a_tree_is_written_as_it_was_offered() {
    let world = World::new();
    let paths = receive(&world, TREE_ENTRIES).unwrap();
    let names = ["empty", "d", "c", "z"].map(|name| world.folder.path().join(name));
    assert_eq!(paths, names, "what is at the top level, in the order of the offer");
    check_tree(&world);
    let file = std::fs::metadata(world.folder.path().join("d/a")).unwrap();
    assert_eq!(file.permissions().mode() & 0o7777 & !0o600, 0, "private, and never executable");
    assert_eq!((file.mtime(), file.mtime_nsec()), (1_500_000_000, 250_000_000));
}

#[test]
fn a_transfer_that_is_interrupted_at_any_chunk_goes_on() {
    let all = 1 + 3 + 1 + 7;
    for chunks in 0..=all {
        let world = World::new();
        let mut writer = world.inbox().receive(offer(TREE_ENTRIES)).unwrap();
        let whole = write(&mut writer, TREE_ENTRIES, 5, chunks).unwrap();
        assert_eq!(whole, chunks == all, "{chunks} chunks");
        assert!(world.folder.names().iter().all(|name| is_private_name(name)));
        drop(writer);
        let mut writer = world.inbox().receive(offer(TREE_ENTRIES)).unwrap();
        let start = start(&mut writer).unwrap();
        let done = writer.offer().bytes_before(start.entry as usize, start.offset);
        assert!(done + 5 >= 5 * (chunks as u64).saturating_sub(4), "{chunks} chunks, {start:?}");
        assert!(write(&mut writer, TREE_ENTRIES, 5, usize::MAX).unwrap());
        writer.finish().unwrap();
        check_tree(&world);
    }
}

#[test]
fn what_is_there_of_a_file_is_hashed() {
    let world = World::new();
    let entries: &[(&str, Option<&[u8]>)] = &[("f", Some(b"0123456789"))];
    let mut writer = world.inbox().receive(offer(entries)).unwrap();
    assert!(!write(&mut writer, entries, 3, 2).unwrap());
    drop(writer);
    // An end of thinc-files continues the hash, and finds it right.
    let offer = offer(entries);
    let mut writer = world.inbox().receive(offer.clone()).unwrap();
    let start = start(&mut writer).unwrap();
    assert_eq!((start.entry, start.offset), (0, 6));
    let mut end = thinc_files::Endpoint::new(thinc_files::FilesPolicy::default());
    let mut sender = thinc_files::Endpoint::new(thinc_files::FilesPolicy::default());
    let id = sender.offer((*offer).clone(), 0).unwrap();
    end.handle(&sender.poll_piece(usize::MAX, 0).unwrap(), 0).unwrap();
    end.answer(id, Some(start), 0);
    sender.handle(&end.poll_control().unwrap(), 0).unwrap();
    while let Some(event) = sender.poll_event() {
        if let thinc_files::FileEvent::Wanted { .. } = event {
            sender.supply(id, 0, 0, b"0123456789", 0);
        }
    }
    end.handle(&sender.poll_piece(usize::MAX, 0).unwrap(), 0).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| end.poll_event()).collect();
    let expected = thinc_files::FileEvent::Data {
        id,
        entry: 0,
        offset: 6,
        bytes: b"6789".to_vec(),
        last: true,
    };
    assert_eq!(events.last(), Some(&expected));
}

#[test]
fn nothing_is_replaced() {
    let world = World::new();
    let report = world.folder.write("report.pdf", b"mine");
    symlink(&report, world.folder.path().join("report (2).pdf")).unwrap();
    world.folder.write("photos.2026/mine", b"mine");
    let entries: &[(&str, Option<&[u8]>)] = &[
        ("report.pdf", Some(b"theirs")),
        ("photos.2026", None),
        ("photos.2026/mine", Some(b"theirs")),
    ];
    let paths = receive(&world, entries).unwrap();
    let names = ["report (3).pdf", "photos.2026 (2)"].map(|name| world.folder.path().join(name));
    assert_eq!(paths, names);
    assert_eq!(world.read("report.pdf"), b"mine");
    assert_eq!(world.read("report (2).pdf"), b"mine");
    assert_eq!(world.read("report (3).pdf"), b"theirs");
    assert_eq!(world.read("photos.2026/mine"), b"mine");
    assert_eq!(world.read("photos.2026 (2)/mine"), b"theirs");
}

#[test]
fn nothing_is_replaced_without_the_kernels_flag_either() {
    let folder = TestFolder::new();
    for (name, content) in [("new", "theirs"), ("old", "mine")] {
        folder.write(name, content.as_bytes());
    }
    folder.write("folder/f", b"theirs");
    folder.write("taken/f", b"mine");
    let open = open(folder.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let rename = |old, new, kind| rename_old(&open, old, &open, new, kind);
    assert_eq!(rename("new", "old", FileKind::File), Err(Errno::EXIST));
    assert_eq!(rename("folder", "taken", FileKind::Folder), Err(Errno::EXIST));
    rename("new", "newer", FileKind::File).unwrap();
    rename("folder", "moved", FileKind::Folder).unwrap();
    assert_eq!(folder.names(), ["moved", "newer", "old", "taken"]);
    assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"mine");
    assert_eq!(std::fs::read(folder.path().join("moved/f")).unwrap(), b"theirs");
}

/// xpra's holes of 2026-07 (#4952): paths that leave the folder, dot files, a missing folder for
/// downloads that becomes the home.
#[test]
fn no_offer_leads_outside_its_folder() {
    for path in ["../f", "/tmp/f", "d/../../f", ".bashrc", ".config/autostart/f", "-f", "a\nb"] {
        let entry =
            FileEntry { kind: FileKind::File, size: 0, modified_ms: 0, path: path.to_owned() };
        let refused = Offer::new(FilePurpose::Sent, vec![entry]);
        assert!(
            matches!(refused, Err(OfferError::Path { .. } | OfferError::Folder(_))),
            "{path:?}: {refused:?}"
        );
    }
    let home = TestFolder::new();
    let open = |path: &Path| Inbox::open(path, home.path(), InboxLimits::default());
    assert!(matches!(open(home.path()), Err(DiskError::Home(_))));
    let link = home.path().join("Downloads");
    symlink(home.path(), &link).unwrap();
    assert!(matches!(open(&link), Err(DiskError::Home(_))), "a link to the home is the home");
    std::fs::remove_file(&link).unwrap();
    open(&link).unwrap();
    assert_eq!(home.names(), ["Downloads"], "a missing folder is made");
    let mode = std::fs::metadata(&link).unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0, "for the user only");
    let file = home.write("file", b"");
    assert!(matches!(open(&file), Err(DiskError::Io { what: "opened", .. })));
}

#[test]
fn links_in_the_private_folder_lead_nowhere() {
    let entries: &[(&str, Option<&[u8]>)] = &[("d", None), ("d/f", Some(b"theirs"))];
    let victim = TestFolder::new();
    victim.write("f", b"mine");
    let private = |world: &World| world.folder.path().join(private_name(&offer(entries)));
    // In place of the whole private folder, of its tree, of a folder in it, and of the part.
    let world = World::new();
    symlink(victim.path(), private(&world)).unwrap();
    assert!(receive(&world, entries).is_err());
    for link in ["tree", "tree/d", "part"] {
        let world = World::new();
        drop(world.inbox().receive(offer(entries)).unwrap());
        let place = private(&world).join(link);
        if link == "tree" {
            std::fs::remove_dir(&place).unwrap();
        }
        let target = if link == "part" { victim.path().join("f") } else { victim.path().into() };
        symlink(target, place).unwrap();
        let received = receive(&world, entries);
        if link == "part" {
            received.unwrap();
            assert_eq!(world.read("d/f"), b"theirs", "the link was removed");
        } else {
            assert!(received.is_err(), "{link}");
        }
    }
    assert_eq!(victim.names(), ["f"]);
    assert_eq!(std::fs::read(victim.path().join("f")).unwrap(), b"mine");
}

#[test]
fn a_private_folder_that_others_can_read_is_not_used() {
    let world = World::new();
    let entries: &[(&str, Option<&[u8]>)] = &[("f", Some(b"1"))];
    let private = world.folder.path().join(private_name(&offer(entries)));
    std::fs::create_dir(&private).unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(receive(&world, entries), Err(DiskError::NotPrivate(_))));
}

#[test]
fn a_part_that_is_too_long_begins_again() {
    let world = World::new();
    let entries: &[(&str, Option<&[u8]>)] = &[("f", Some(b"12345"))];
    drop(world.inbox().receive(offer(entries)).unwrap());
    let part = world.folder.path().join(private_name(&offer(entries))).join(PART);
    std::fs::write(part, b"much too long").unwrap();
    receive(&world, entries).unwrap();
    assert_eq!(world.read("f"), b"12345");
}

#[test]
fn the_same_files_are_received_once_at_a_time() {
    let world = World::new();
    let entries: &[(&str, Option<&[u8]>)] = &[("f", Some(b"12345"))];
    let writer = world.inbox().receive(offer(entries)).unwrap();
    assert!(matches!(world.inbox().receive(offer(entries)), Err(DiskError::Twice)));
    drop(writer);
    world.inbox().receive(offer(entries)).unwrap();
}

#[test]
fn a_full_disk_is_noticed_before_and_while_files_arrive() {
    let mut world = World::new();
    world.limits.reserve = u64::MAX;
    let refused = receive(&world, TREE_ENTRIES).unwrap_err();
    assert!(matches!(refused, DiskError::Space { free: 0, .. }), "{refused}");
    let writer = World::new().inbox().receive(offer(TREE_ENTRIES)).unwrap();
    assert!(writer.check_space(1).is_ok());
    assert!(writer.check_space(u64::MAX).is_err());
    // The disk fills while a large file arrives.
    let world = World::new();
    let content = vec![7; 2 * SPACE_CHECK_BYTES as usize];
    let entries: &[(&str, Option<&[u8]>)] = &[("f", Some(&content))];
    let mut writer = world.inbox().receive(offer(entries)).unwrap();
    writer.reserve = u64::MAX;
    let full = write(&mut writer, entries, 1 << 20, usize::MAX).unwrap_err();
    assert_eq!(full.end(), thinc_protocol::file::FileEnd::Space);
    assert!(writer.offset >= SPACE_CHECK_BYTES, "{} bytes were written before", writer.offset);
}

#[test]
fn unfinished_transfers_are_removed_after_a_day_and_past_eight() {
    let world = World::new();
    let unfinished = |number: usize| {
        let name = format!("file {number}");
        let entries: &[(&str, Option<&[u8]>)] = &[(&name, Some(b"12345"))];
        let writer = world.inbox().receive(offer(entries)).unwrap();
        // The order of their times is the order in which they were begun.
        let time = SystemTime::now() - Duration::from_secs(100 - number as u64);
        File::open(&writer.path).unwrap().set_modified(time).unwrap();
        writer
    };
    let mut writers: Vec<Writer> = (0..10).map(unfinished).collect();
    let names: Vec<String> = writers.iter().map(|writer| writer.name.clone()).collect();
    let held = writers.swap_remove(0);
    drop(writers);
    world.folder.write(".thinc-notes", b"mine");
    world.folder.write("file", b"mine");
    let count = || world.folder.names().iter().filter(|name| is_private_name(name)).count();
    world.inbox().sweep(SystemTime::now());
    assert_eq!(count(), 9, "two are too many, and one of them is being received");
    assert!(!world.folder.names().contains(&names[1]), "the oldest other one is removed");
    world.inbox().sweep(SystemTime::now() + Duration::from_secs(25 * 60 * 60));
    assert_eq!(count(), 1, "the one that is being received stays");
    drop(held);
    world.inbox().sweep(SystemTime::now() + Duration::from_secs(25 * 60 * 60));
    assert_eq!(world.folder.names(), [".thinc-notes", "file"]);
}

#[test]
fn a_discarded_transfer_leaves_nothing() {
    let world = World::new();
    let mut writer = world.inbox().receive(offer(TREE_ENTRIES)).unwrap();
    write(&mut writer, TREE_ENTRIES, 5, 6).unwrap();
    writer.discard();
    assert!(world.folder.names().is_empty());
}

#[test]
fn bytes_that_are_not_the_next_are_refused_and_harm_nothing() {
    let entries: &[(&str, Option<&[u8]>)] =
        &[("d", None), ("a", Some(b"0123456789")), ("b", Some(b"01234"))];
    // Entry, offset, length, and whether they are the last.
    for (entry, offset, length, last) in [
        (0, 0, 0, true),
        (1, 0, 5, false),
        (1, 4, 1, false),
        (1, 5, 6, false),
        (1, 5, 4, true),
        (1, 5, 5, false),
        (2, 0, 5, true),
        (2, 5, 0, true),
        (3, 0, 1, false),
        (1, u64::MAX, 5, false),
    ] {
        let world = World::new();
        let mut writer = world.inbox().receive(offer(entries)).unwrap();
        writer.write(1, 0, b"01234", false).unwrap();
        let refused = writer.write(entry, offset, &vec![b'x'; length], last);
        assert!(matches!(refused, Err(DiskError::Position { .. })), "{entry} {offset} {length}");
        drop(writer);
        assert_eq!(receive(&world, entries).unwrap().len(), 3);
        assert_eq!(world.read("a"), b"0123456789");
    }
}
