//! What the system says of pressure, and the file in which login processes keep who waits. Beside
//! the path: from limits.rs, in each login process when a desktop is to start, to admission.rs and
//! waiting_line.rs, which decide; and for helper/monitor.rs. Knows files and the clock; decides
//! nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use tracing::{info, warn};

use super::waiting_line::{Decision, TEXT_BYTES_MAX, Ticket, Waiting, WaitingLine};
use super::{
    Admission, MEMINFO_BYTES_MAX, Memory, PRESSURE_BYTES_MAX, Policy, Pressure, Reading, Whose,
};
use crate::cgroup::Places;

/// Where the kernel has its files.
const PRESSURE: &str = "/proc/pressure";
/// See [`PRESSURE`].
const MEMINFO: &str = "/proc/meminfo";
/// For tests: a folder with `cpu`, `memory`, `io` and `meminfo` instead. It comes from the
/// environment that root has started the broker with, and nobody else has a way to it: a login
/// process gets it from the helper, and reads it before PAM opens a session.
const FOLDER_VARIABLE: &str = "THINC_PRESSURE_DIR";
/// In the broker's state folder, which only root can enter.
const FILE: &str = "waiting";

/// Where the figures are.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    folder: PathBuf,
    meminfo: PathBuf,
    /// `None`: nobody knows which of the machine's pressure is that of desktops in use.
    processors: Option<(Whose, PathBuf)>,
}

impl Sources {
    pub(crate) fn find(places: &Places) -> Sources {
        match std::env::var_os(FOLDER_VARIABLE) {
            Some(folder) => Sources::of_folder(folder.into()),
            None => Sources {
                folder: PRESSURE.into(),
                meminfo: MEMINFO.into(),
                processors: places.processor_pressure(&Path::new(PRESSURE).join("cpu")),
            },
        }
    }

    fn of_folder(folder: PathBuf) -> Sources {
        let processors = Some((Whose::Machine, folder.join("cpu")));
        Sources { meminfo: folder.join("meminfo"), processors, folder }
    }

    /// The figures of now. What cannot be read is not known.
    pub(crate) fn read(&self) -> Reading {
        let pressure = |path: &Path| Pressure::parse(&read(path, PRESSURE_BYTES_MAX).ok()?);
        let of = |name: &str| pressure(&self.folder.join(name));
        let processors = self.processors.as_ref();
        let meminfo = read(&self.meminfo, MEMINFO_BYTES_MAX).ok();
        Reading {
            processors: processors.and_then(|(whose, path)| Some((*whose, pressure(path)?))),
            memory: of("memory"),
            disks: of("io"),
            available: meminfo.and_then(|text| Memory::parse(&text)),
        }
    }

    /// What does not count here, in words for the administrator.
    pub(crate) fn note(&self) -> Option<String> {
        let path = self.folder.join("memory");
        let why = match read(&path, PRESSURE_BYTES_MAX) {
            Ok(text) if Pressure::parse(&text).is_some() => None,
            Ok(_) => Some("it is no file of pressure".to_owned()),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            return Some(format!(
                "admission: this kernel does not say what it is short of ({}: {why}): it needs \
                 CONFIG_PSI=y, and psi=1 on its command line. Only memory that is available \
                 counts",
                path.display()
            ));
        }
        self.processors.is_none().then(|| {
            "admission: processors do not count, as the control groups here do not say what all \
             desktops in use wait for, and what computes hurts nobody; memory and disks count"
                .to_owned()
        })
    }
}

/// At most so many bytes of a file of the kernel's.
fn read(path: &Path, bytes_max: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The file of those who wait.
#[derive(Clone, Debug)]
pub(crate) struct LineFile(PathBuf);

impl LineFile {
    pub(crate) fn of(state: &Path) -> LineFile {
        LineFile(state.join(FILE))
    }

    /// Changes it, while no other process does.
    fn change<T>(&self, change: impl FnOnce(&mut WaitingLine, u64) -> T) -> io::Result<T> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&self.0)?;
        flock(&file, FlockOperation::LockExclusive)?;
        let mut line = self.parse(&mut file)?;
        let result = change(&mut line, now_ms());
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(line.to_string().as_bytes())?;
        Ok(result)
    }

    /// How many wait now, how many were refused, and how many were admitted after a wait.
    pub(crate) fn counts(&self) -> io::Result<(u64, u64, u64)> {
        let mut file = match File::open(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0, 0)),
            other => other?,
        };
        flock(&file, FlockOperation::LockShared)?;
        let mut line = self.parse(&mut file)?;
        Ok((line.count(now_ms()), line.refused, line.waited))
    }

    /// A file that was cut when its process was killed is begun again: those who wait ask again.
    fn parse(&self, file: &mut File) -> io::Result<WaitingLine> {
        let mut bytes = Vec::new();
        file.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        let text = std::str::from_utf8(&bytes).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        Ok(text.and_then(WaitingLine::parse).unwrap_or_else(|| {
            if !bytes.is_empty() {
                warn!("{} is no list of those who wait, and is begun again", self.0.display());
            }
            WaitingLine::default()
        }))
    }
}

/// Since the machine was started; it goes on while it sleeps.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1000 + now.tv_nsec.cast_unsigned() / 1_000_000
}

/// Decides for the desktops of one login. Its person has one place in the line, however many pages
/// ask.
#[derive(Debug)]
pub(crate) struct Admits {
    admission: Admission,
    sources: Sources,
    file: LineFile,
    ticket: Option<Ticket>,
}

impl Admits {
    pub(crate) fn of(state: &Path, admission: Admission, places: &Places) -> Admits {
        let (sources, file) = (Sources::find(places), LineFile::of(state));
        Admits { admission, sources, file, ticket: None }
    }

    pub(crate) fn is_off(&self) -> bool {
        self.admission.policy == Policy::Off
    }

    /// For who has a place behind others: it needs neither figures nor a count of desktops.
    pub(crate) fn behind(&mut self) -> Option<Waiting> {
        let ticket = self.ticket?;
        self.file.change(|line, now| line.behind(ticket, now)).ok().flatten()
    }

    /// Whether a desktop starts now. Where the file cannot be used it does: this is a rule for the
    /// good of those who are here, and its failure must not keep everybody out.
    pub(crate) fn ask(&mut self, uid: u32, has_desktops: bool) -> Decision {
        if self.is_off() {
            return Decision::Admit;
        }
        let Admits { admission, sources, file, ticket } = self;
        let (reading, had_ticket) = (sources.read(), *ticket);
        let shortage = |before| reading.shortage(admission, before, has_desktops);
        let decided = file
            .change(|line, now| line.ask(admission.policy, ticket, uid, shortage, now))
            .unwrap_or_else(|error| {
                warn!(uid, "who waits cannot be kept in {}: {error}", file.0.display());
                Decision::Admit
            });
        match &decided {
            Decision::Wait(waiting) if *ticket != had_ticket => {
                info!(uid, "user {uid} waits for a desktop, behind {} others", waiting.ahead);
            }
            Decision::Admit if had_ticket.is_some() => {
                info!(uid, "user {uid} has waited, and starts a desktop");
            }
            _ => {}
        }
        decided
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::admission::Shortage;

    /// A state folder with files of pressure, until it is dropped.
    struct Fake(PathBuf);

    impl Fake {
        fn new(name: &str) -> Fake {
            let folder =
                std::env::temp_dir().join(format!("thinc-admission-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir(&folder).unwrap();
            let fake = Fake(folder);
            fs::write(fake.0.join("meminfo"), "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\n")
                .unwrap();
            for name in ["cpu", "memory", "io"] {
                fake.set(name, "0.00");
            }
            fake
        }

        fn set(&self, name: &str, percent: &str) {
            let line = |kind: &str| {
                format!("{kind} avg10={percent} avg60={percent} avg300={percent} total=1\n")
            };
            fs::write(self.0.join(name), line("some") + &line("full")).unwrap();
        }

        fn admits(&self, policy: Policy) -> Admits {
            Admits {
                admission: Admission { policy, memory: None },
                sources: Sources::of_folder(self.0.clone()),
                file: LineFile::of(&self.0),
                ticket: None,
            }
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn login_processes_share_one_line_and_it_goes_on_as_soon_as_pressure_falls() {
        let fake = Fake::new("line");
        let [mut anna, mut otto] = [(); 2].map(|()| fake.admits(Policy::Queue));
        let waits = |ahead| Waiting { ahead, short_of: Some(Shortage::Memory) };
        fake.set("memory", "50.00");
        assert_eq!(anna.ask(1, true), Decision::Wait(waits(0)));
        assert_eq!(otto.ask(2, true), Decision::Wait(waits(1)));
        assert_eq!(anna.behind(), None, "the first needs figures");
        assert_eq!(otto.behind(), Some(waits(1)));
        fake.set("memory", "15.00");
        assert_eq!(anna.ask(1, true), Decision::Wait(waits(0)), "it is not low yet");
        fake.set("memory", "1.00");
        assert_eq!(anna.ask(1, true), Decision::Admit);
        // What she has started has to show first.
        assert_eq!(otto.behind(), None);
        assert_eq!(otto.ask(2, true), Decision::Wait(Waiting { ahead: 0, short_of: None }));
        assert_eq!(otto.file.counts().unwrap(), (1, 0, 1));
    }

    #[test]
    fn a_file_that_was_cut_is_begun_again_and_one_that_cannot_be_used_keeps_nobody_out() {
        let fake = Fake::new("file");
        let mut anna = fake.admits(Policy::Refuse);
        assert_eq!(anna.file.counts().unwrap(), (0, 0, 0));
        fake.set("io", "90.00");
        assert!(matches!(anna.ask(1, true), Decision::Refuse(_)));
        assert_eq!(anna.ask(1, false), Decision::Admit, "nobody is there to be hurt");
        assert_eq!(anna.file.counts().unwrap(), (0, 1, 0));
        fs::write(fake.0.join(FILE), "door 0").unwrap();
        assert!(matches!(anna.ask(1, true), Decision::Refuse(_)));
        fs::remove_file(fake.0.join(FILE)).unwrap();
        fs::create_dir(fake.0.join(FILE)).unwrap();
        assert_eq!(anna.ask(1, true), Decision::Admit);
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_said_and_available_memory_still_counts() {
        let fake = Fake::new("absent");
        let mut anna = fake.admits(Policy::Refuse);
        assert_eq!(anna.sources.note(), None);
        fs::remove_file(fake.0.join("memory")).unwrap();
        let note = anna.sources.note().unwrap();
        assert!(note.contains("CONFIG_PSI=y") && note.contains("/memory: "), "{note}");
        assert_eq!(anna.ask(1, true), Decision::Admit);
        fs::write(fake.0.join("meminfo"), "MemTotal: 8000000 kB\nMemAvailable: 400000 kB\n")
            .unwrap();
        assert!(matches!(anna.ask(1, true), Decision::Refuse(_)));

        let v1 = Sources { processors: None, ..Sources::of_folder(fake.0.clone()) };
        fake.set("memory", "0.00");
        assert!(v1.note().unwrap().contains("control groups"));
        fake.set("cpu", "100.00");
        assert_eq!(v1.read().shortage(&Admission::default(), None, true), Some(Shortage::Memory));
        assert_eq!(v1.read().processors, None);
    }

    #[test]
    fn this_machines_files_are_read() {
        let reading = Sources::find(&Places::default()).read();
        let memory = reading.available.expect("every Linux has /proc/meminfo");
        assert!(memory.available <= memory.total && memory.total > 64 << 20, "{memory:?}");
        if Path::new(PRESSURE).join("cpu").exists() {
            let (whose, pressure) = reading.processors.unwrap();
            assert_eq!(whose, Whose::Machine);
            assert!(pressure.some.ten <= 10_000 && reading.memory.is_some(), "{reading:?}");
        }
    }
}
