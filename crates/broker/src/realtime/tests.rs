//! Tests of realtime.rs: with programs that imitate an X server and a session process, and with the
//! kernel's own policies where it lets us.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::*;

/// No account has it.
const UID: u32 = 61_240;

impl RealTime {
    /// The next request is carried out, however soon it comes.
    pub(crate) fn forget_answer(&mut self) {
        self.answered = None;
    }
}

/// A folder with a program that is called as an X server is, and does what a script says;
/// until it is dropped.
pub(crate) struct Programs(PathBuf);

/// It says that it has its name, waits for a line, and then computes.
const SCRIPT: &str = "trap : XCPU; echo; read line; while :; do :; done";

impl Programs {
    /// `None`, after saying so, where this process cannot be other users.
    pub(crate) fn new(name: &str) -> Option<Programs> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a process of another user needs root");
            return None;
        }
        let folder =
            std::env::temp_dir().join(format!("thinc-real-time-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let programs = Programs(folder);
        fs::copy("/bin/sh", programs.program()).unwrap();
        fs::write(programs.0.join("session"), SCRIPT).unwrap();
        Some(programs)
    }

    pub(crate) fn program(&self) -> PathBuf {
        self.0.join(SERVER)
    }

    pub(crate) fn rules(&self, answers: &Path) -> Rules {
        Rules::new(UID, answers)
    }

    /// What has a thread of the name that the driver gives it.
    pub(crate) fn server(&self, uid: u32) -> Imitation {
        let named = format!("printf {INPUT_THREAD} > /proc/$$/comm; {SCRIPT}");
        self.start(uid, &["-c", &named])
    }

    pub(crate) fn session(&self, uid: u32) -> Imitation {
        self.start(uid, &["session"])
    }

    fn start(&self, uid: u32, arguments: &[&str]) -> Imitation {
        // As the driver and the session process do for themselves.
        let mut command = Command::new("prlimit");
        command.arg("--rttime=100000:2000000").arg(self.program());
        command.args(arguments).current_dir(&self.0).uid(uid).gid(uid);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let input = child.stdin.take();
        Imitation { child, input }
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process of one thread, until it is dropped.
pub(crate) struct Imitation {
    child: Child,
    input: Option<ChildStdin>,
}

impl Imitation {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn policy(&self) -> Option<Policy> {
        policy_of(self.pid(), self.pid())
    }

    /// From now on.
    pub(crate) fn compute(&mut self) {
        self.input.take().unwrap().write_all(b"\n").unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Imitation {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn everywhere(folder: &Path) -> impl Fn(u32) -> Option<PathBuf> {
    let folder = folder.to_owned();
    move |_| Some(folder.clone())
}

#[test]
fn only_threads_of_the_users_own_x_server_and_session_process_in_their_group_are_found() {
    let Some(programs) = Programs::new("found") else { return };
    let group = Path::new("/g");
    let rules = programs.rules(group);
    let (server, session) = (programs.server(UID), programs.session(UID));
    let named = Named { server: server.pid(), session: session.pid() };
    let found = rules.find(named, &everywhere(group)).unwrap();
    let threads: Vec<_> = found.iter().map(|one| (one.role, one.pid, one.thread)).collect();
    let (server_pid, session_pid) = (server.pid(), session.pid());
    assert_eq!(
        threads,
        [(Role::Input, server_pid, server_pid), (Role::Session, session_pid, session_pid)]
    );
    let none = Named { server: 0, session: 0 };
    assert!(rules.find(none, &everywhere(group)).unwrap().is_empty());

    let refused =
        |named, folder: &str| rules.find(named, &everywhere(Path::new(folder))).unwrap_err();
    let elsewhere = refused(named, "/other");
    assert!(elsewhere.contains("is not in the group of what answers"), "{elsewhere}");
    let theirs = programs.server(UID + 1);
    let of_others = refused(Named { server: theirs.pid(), session: 0 }, "/g");
    assert!(of_others.contains("is another user's"), "{of_others}");
    let own = refused(Named { server: 0, session: std::process::id() }, "/g");
    assert!(own.contains("is another user's"), "{own}");
    // The one in place of the other.
    let swapped = refused(Named { server: session_pid, session: 0 }, "/g");
    assert!(swapped.contains("has read no input"), "{swapped}");
    let swapped = refused(Named { server: 0, session: server_pid }, "/g");
    assert!(swapped.contains("no session process"), "{swapped}");
    assert!(refused(Named { server: u32::MAX, session: 0 }, "/g").contains("is no number"));

    let mut sleep = Command::new("sleep");
    let other = sleep.arg("1000").uid(UID).stdin(Stdio::null()).spawn().unwrap();
    let other = Imitation { child: other, input: None };
    let why = refused(Named { server: other.pid(), session: 0 }, "/g");
    assert!(why.contains("is no X server"), "{why}");
    let frail = programs.start(UID, &["-c", "echo; read line"]);
    let why = refused(Named { server: frail.pid(), session: 0 }, "/g");
    assert!(why.contains("would end"), "{why}");
}

#[test]
fn a_process_that_sigxcpu_would_end_is_told_by_its_masks() {
    let status = |caught: &str, ignored: &str| format!("SigIgn:\t{ignored}\nSigCgt:\t{caught}\n");
    let (without, with) = ("0000000000400000", "0000000000800000");
    assert!(has_xcpu_handler(&status(with, without)));
    assert!(has_xcpu_handler(&status(without, with)));
    assert!(!has_xcpu_handler(&status(without, without)));
    assert!(!has_xcpu_handler("") && !has_xcpu_handler("SigCgt:\tx\n"));
}

#[test]
fn a_process_that_the_kernel_kills_in_time_is_known() {
    let of = |soft: &str, hard: &str| {
        hard_run_limit(&format!("Max x 1 2 us\nMax realtime timeout      {soft}  {hard}  us \n"))
    };
    assert_eq!(of("100000", "2000000"), Some(2_000_000));
    assert_eq!((of("100000", "unlimited"), hard_run_limit("")), (None, None));
}

fn slots(programs: &Programs, count: u32) -> Slots {
    Slots { prefix: programs.0.join("slot-"), count }
}

#[test]
fn all_desktops_together_have_half_of_the_processors_at_most() {
    for (processors, count) in [(0, 1), (1, 5), (2, 10), (64, 320)] {
        assert_eq!(slots_for(processors), count);
        assert!(count == 1 || count * PERCENT_MAX <= processors * 50);
    }
    let folder = std::env::temp_dir().join(format!("thinc-slots-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let slots = Slots { prefix: folder.join("slot-"), count: 2 };
    let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
    let none = slots.take().unwrap_err();
    assert!(none.starts_with("2 other desktops"), "{none}");
    drop(first);
    let again = slots.take().unwrap();
    assert!(slots.take().is_err());
    drop((second, again));
    fs::remove_dir_all(folder).unwrap();
}

/// In a thread of its own, which gets the policy of one that measures: whether the kernel lets us.
fn in_watch(name: &str, test: impl FnOnce(&Programs, Watch) + Send + 'static) {
    let Some(programs) = Programs::new(name) else { return };
    let thread = thread::spawn(move || {
        if let Err(error) = set_policy(None, Policy::RealTime(PRIORITY_OF_WATCH)) {
            eprintln!("skipped: real-time is refused: {error}");
            return;
        }
        set_policy(None, Policy::Ordinary).unwrap();
        let watch = Watch::new(slots(&programs, 1));
        test(&programs, watch);
    });
    thread.join().unwrap();
}

fn candidates(programs: &Programs, session: &Imitation) -> Vec<Candidate> {
    let named = Named { server: 0, session: session.pid() };
    programs.rules(Path::new("/g")).find(named, &everywhere(Path::new("/g"))).unwrap()
}

const REAL_TIME: Option<Policy> = Some(Policy::RealTime(PRIORITY));
const ORDINARY: Option<Policy> = Some(Policy::Ordinary);

#[test]
fn without_a_further_request_it_ends_by_itself() {
    in_watch("lease", |programs, mut watch| {
        let session = programs.session(UID);
        assert_eq!(watch.grant(candidates(programs, &session)), Ok(()));
        let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let own = || policy_of(std::process::id(), own);
        assert_eq!((session.policy(), own()), (REAL_TIME, Some(Policy::RealTime(2))));
        let limits = fs::read_to_string(format!("/proc/{}/limits", session.pid())).unwrap();
        let limit = limits.lines().find(|line| line.contains("realtime timeout")).unwrap();
        assert!(limit.contains(" 100000 ") && limit.contains(" 2000000 "), "{limit}");
        watch.measure();
        assert_eq!(session.policy(), REAL_TIME);
        assert!(watch.slots.take().is_err(), "its place is taken");
        watch.leased_until = Instant::now();
        watch.measure();
        assert_eq!((session.policy(), own()), (ORDINARY, ORDINARY));
        assert!(watch.slots.take().is_ok(), "and free");
    });
}

#[test]
fn another_process_takes_the_place_of_the_one_before() {
    in_watch("other", |programs, mut watch| {
        let (first, second) = (programs.session(UID), programs.session(UID));
        assert_eq!(watch.grant(candidates(programs, &first)), Ok(()));
        assert_eq!(watch.grant(candidates(programs, &second)), Ok(()));
        assert_eq!((first.policy(), second.policy()), (ORDINARY, REAL_TIME));
        let ended = candidates(programs, &first);
        drop(first);
        let why = watch.grant(ended).unwrap_err();
        assert!(why.contains("has ended"), "{why}");
        assert_eq!(second.policy(), ORDINARY);
        drop(watch);
    });
}

#[test]
fn what_has_made_itself_ordinary_stays_so_for_a_while() {
    in_watch("itself", |programs, mut watch| {
        let session = programs.session(UID);
        assert_eq!(watch.grant(candidates(programs, &session)), Ok(()));
        set_policy(pid_of(session.pid()), Policy::Ordinary).unwrap();
        let why = watch.grant(candidates(programs, &session)).unwrap_err();
        assert_eq!(why, "the session's thread used 100 ms of a processor in one go: again in 30 s");
        assert_eq!(session.policy(), ORDINARY);
        assert!(watch.slots.take().is_ok());
    });
}

#[test]
fn a_thread_that_has_executed_a_program_is_ordinary_too() {
    in_watch("executes", |programs, mut watch| {
        // As if another thread of the process had been granted it: that has the number of the
        // process now, and its own is no thread's.
        let session = programs.session(UID);
        let mut granted = candidates(programs, &session).remove(0);
        granted.thread = u32::MAX >> 1;
        assert!(granted.process_lives() && !granted.lives());
        set_policy(pid_of(session.pid()), Policy::RealTime(PRIORITY)).unwrap();
        watch.granted.push(granted);
        watch.measure();
        assert_eq!(session.policy(), ORDINARY);
    });
}

#[test]
fn what_is_used_counts_however_soon_it_is_taken_back() {
    in_watch("soon", |programs, watch| {
        let mut session = programs.session(UID);
        session.compute();
        let (orders, ordered) = channel();
        let running = thread::spawn(move || watch.run(&ordered));
        // It is taken back before each measurement.
        let until = Instant::now() + Duration::from_secs(60);
        let why = loop {
            assert!(Instant::now() < until, "it is never paused");
            let (answer, answered) = channel();
            orders.send(Order::Grant(candidates(programs, &session), answer)).unwrap();
            if let Err(why) = answered.recv().unwrap() {
                break why;
            }
            thread::sleep(INTERVAL / 5);
            let (answer, answered) = channel();
            orders.send(Order::TakeBack(answer)).unwrap();
            answered.recv().unwrap();
        };
        assert!(why.contains("used"), "{why}");
        drop(orders);
        running.join().unwrap();
    });
}

#[test]
fn no_more_desktops_have_it_than_there_are_places() {
    in_watch("places", |programs, mut watch| {
        let taken = watch.slots.take().unwrap();
        let session = programs.session(UID);
        let why = watch.grant(candidates(programs, &session)).unwrap_err();
        assert!(why.starts_with("1 other desktops"), "{why}");
        assert_eq!(session.policy(), ORDINARY);
        drop(taken);
        assert_eq!(watch.grant(candidates(programs, &session)), Ok(()));
        drop(watch);
        assert_eq!(session.policy(), ORDINARY, "with what measures, it ends");
    });
}

#[test]
fn a_refusal_of_the_kernels_is_said_in_words() {
    let refused = refusal(io::Error::from_raw_os_error(Errno::PERM.raw_os_error()));
    assert!(refused.starts_with("not allowed by this kernel's control groups"), "{refused}");
    let other = refusal(io::Error::from_raw_os_error(Errno::SRCH.raw_os_error()));
    assert!(other.contains("No such process"), "{other}");
}
