//! `thinc broker` with real accounts: who may log in, what nobody learns, whose desktop it is, and
//! what lives on when parts of it are killed. Makes accounts and removes them, so it needs root;
//! without, each test says so and passes. Knows HTTP and processes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use thinc_protocol::auth::PromptStyle;
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, ConnectOptions, Link, connect, establish};

use crate::harness::{
    Answer, Browser, Message, Tls, Viewer, client_config, connect_options, dial, hello,
    next_websocket_message, tls_over, wait_until, websocket_message,
};

/// useradd and chpasswd lock the files that they change, and fail if these are locked.
static ACCOUNTS: Mutex<()> = Mutex::new(());

/// Held by tests that flood a broker, and by those that compare times: not one beside the other.
static PROCESSOR: Mutex<()> = Mutex::new(());

/// See [`PROCESSOR`]; also after another test has failed with it.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    PROCESSOR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A free one of this machine alone.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) const RIGHT: &str = "correct horse 8";

/// True without root, after saying so.
pub(crate) fn is_skipped() -> bool {
    if rustix::process::geteuid().is_root() {
        return false;
    }
    eprintln!("skipped: this test makes accounts, which needs root");
    true
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// An account, until it is dropped.
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: u32,
    gid: u32,
}

impl Account {
    /// A name that no account has.
    fn next_name() -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        format!("tb{}x{number}", std::process::id())
    }

    fn named(name: String, home: &Path) -> Account {
        let _lock = ACCOUNTS.lock().unwrap();
        let mut useradd = Command::new("useradd");
        useradd.args(["--create-home", "--shell", "/bin/sh", "--base-dir"]).arg(home);
        run(useradd.arg(&name));
        let mut chpasswd = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
        writeln!(chpasswd.stdin.take().unwrap(), "{name}:{RIGHT}").unwrap();
        assert!(chpasswd.wait().unwrap().success());
        let id = |flag: &str| {
            let output = Command::new("id").args([flag, &name]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        };
        Account { uid: id("-u"), gid: id("-g"), name }
    }

    pub(crate) fn change(self, program: &str, arguments: &[&str]) -> Account {
        let _lock = ACCOUNTS.lock().unwrap();
        run(Command::new(program).args(arguments).arg(&self.name));
        self
    }

    /// Whether a shell command of this user succeeds.
    pub(crate) fn can(&self, command: &str) -> bool {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]).uid(self.uid).gid(self.gid).current_dir("/");
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.status().unwrap().success()
    }

    /// This user's processes.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let output = Command::new("pgrep").args(["-U", &self.name]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        // The supervisor ends what it has started; then nothing of the user is left to end.
        for signal in [Signal::TERM, Signal::KILL] {
            let deadline = Instant::now() + Duration::from_secs(10);
            for pid in self.processes() {
                let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
            }
            while !self.processes().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        // Another account may get the number.
        let _ = fs::remove_dir_all(format!("/tmp/thinc-{}", self.uid));
        let _lock = ACCOUNTS.lock();
        let _ = Command::new("userdel").args(["--remove", "--force", &self.name]).output();
    }
}

/// A broker with folders and PAM rules of its own.
pub(crate) struct Broker {
    pub(crate) folder: PathBuf,
    pub(crate) service: PathBuf,
    /// The first of them.
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) process: Child,
    /// What it prints when it starts, after the first line.
    output: BufReader<ChildStdout>,
}

impl Broker {
    pub(crate) fn start() -> Broker {
        Broker::with_rules("", "")
    }

    /// With more lines of the configuration, which may name files in its folder.
    pub(crate) fn with_config(lines: impl FnOnce(&Path) -> String) -> Broker {
        Broker::with("", "", &[ANY_PORT], lines)
    }

    /// On these addresses.
    pub(crate) fn on(addresses: &[SocketAddr]) -> Broker {
        Broker::with("", "", addresses, |_| String::new())
    }

    /// Whose PAM rules begin with these; `access` is the text of access.conf(5).
    fn with_rules(more: &str, access: &str) -> Broker {
        Broker::with(more, access, &[ANY_PORT], |_| String::new())
    }

    /// The name of its PAM rules.
    pub(crate) fn service(&self) -> &OsStr {
        self.service.file_name().unwrap()
    }

    pub(crate) fn with(
        more: &str,
        access: &str,
        addresses: &[SocketAddr],
        lines: impl FnOnce(&Path) -> String,
    ) -> Broker {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("thinc-b{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        let _ = fs::remove_dir_all(&folder);
        for part in ["", "bin", "home", "state"] {
            fs::create_dir(folder.join(part)).unwrap();
            fs::set_permissions(folder.join(part), fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Other users cannot look into the folder of a build.
        let bin = folder.join("bin");
        // By a process of its own: a descriptor that writes the file here could be in a child of
        // another test when the file is to be run (ETXTBSY).
        let copied =
            Command::new("cp").arg(env!("CARGO_BIN_EXE_thinc")).arg(&bin).status().unwrap();
        assert!(copied.success());
        let driver = std::env::var_os("THINC_DRIVER_DIR").map(PathBuf::from);
        let driver = driver
            .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../driver/build"));
        fs::copy(driver.join("thinc_drv.so"), bin.join("thinc_drv.so"))
            .expect("the driver is built: make -C driver");
        let desk = bin.join("desk");
        let written = Command::new("sh")
            .args(["-c", "printf '#!/bin/sh\\nexec sleep 100000\\n' >\"$0\" && chmod 755 \"$0\""])
            .arg(&desk)
            .status()
            .unwrap();
        assert!(written.success());
        std::os::unix::fs::symlink("desk", bin.join("x-session-manager")).unwrap();

        let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", bin.display());
        fs::write(folder.join("environment"), format!("PATH={path}\n")).unwrap();
        let rules = include_str!("../../../../packaging/host/pam");
        // Some containers forbid to set it (doc/hosting.md).
        let rules = replaced(rules, "required  pam_loginuid.so", "optional  pam_loginuid.so");
        // /etc/nologin would refuse the people of other tests, and everybody else.
        let nologin = format!("pam_nologin.so file={}", folder.join("nologin").display());
        let rules = replaced(&rules, "pam_nologin.so", &nologin);
        fs::write(folder.join("access"), access).unwrap();
        let (variables, access) = (folder.join("environment"), folder.join("access"));
        let rules = format!(
            "{more}{rules}account required pam_access.so accessfile={}\n\
             session required pam_env.so readenv=1 envfile={}\n",
            access.display(),
            variables.display()
        );
        let audit = folder.join("audit");
        let lines = lines(&folder);
        fs::write(folder.join("broker.toml"), format!("audit-log = {audit:?}\n{lines}")).unwrap();
        let service = Path::new("/etc/pam.d").join(&name);
        fs::write(&service, rules).unwrap();
        let (process, addresses, output) = Broker::spawn(&folder, &service, addresses);
        Broker { folder, service, address: addresses[0], addresses, process, output }
    }

    pub(crate) fn spawn(
        folder: &Path,
        service: &Path,
        addresses: &[SocketAddr],
    ) -> (Child, Vec<SocketAddr>, BufReader<ChildStdout>) {
        let log = folder.join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(folder.join("bin/thinc"));
        // What a test says of the machine, if it does.
        let pressure = folder.join("pressure");
        if pressure.exists() {
            command.env("THINC_PRESSURE_DIR", pressure);
        }
        let mut process = command
            .args(["broker", "--front-user", "nobody"])
            .args(addresses.iter().map(|address| format!("--listen={address}")))
            .arg("--pam-service")
            .arg(service.file_name().unwrap())
            .arg("--state")
            .arg(folder.join("state"))
            .arg("--config")
            .arg(folder.join("broker.toml"))
            .env("THINC_DRIVER_DIR", folder.join("bin"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let told: Vec<SocketAddr> = line
            .split_whitespace()
            .filter_map(|word| word.trim_end_matches([',', ';']).parse().ok())
            .collect();
        if told.len() != addresses.len() {
            panic!("{line:?}: {}", fs::read_to_string(folder.join("log")).unwrap());
        }
        (process, told, output)
    }

    /// Where its figures are, if it has a port for them.
    pub(crate) fn figures(&mut self) -> SocketAddr {
        let told = "Figures for monitoring: http://";
        let mut lines = self.output.by_ref().lines().map(Result::unwrap);
        let address = lines.find_map(|line| Some(line.strip_prefix(told)?.to_owned())).unwrap();
        address.trim_end_matches('/').parse().unwrap()
    }

    pub(crate) fn end(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
        self.process.wait().unwrap();
    }

    /// Starts another helper on the same port, whatever is left of the one before.
    pub(crate) fn start_again(&mut self) {
        let (process, addresses, output) =
            Broker::spawn(&self.folder, &self.service, &self.addresses);
        (self.process, self.output) = (process, output);
        assert_eq!(addresses, self.addresses);
    }

    pub(crate) fn restart(&mut self, signal: Signal) {
        self.end(signal);
        self.start_again();
    }

    pub(crate) fn account(&self) -> Account {
        Account::named(Account::next_name(), &self.folder.join("home"))
    }

    pub(crate) fn browser(&self) -> Browser {
        Browser::at(self.address)
    }

    /// The front's process.
    pub(crate) fn front(&self) -> u32 {
        let parent = self.process.id().to_string();
        wait_until("the front", || {
            let output =
                Command::new("pgrep").args(["-U", "nobody", "-P", &parent]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().parse().ok()
        })
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
        let _ = fs::remove_file(&self.service);
        if std::thread::panicking() {
            eprintln!("kept for inspection: {}\n{}", self.folder.display(), self.log());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What has to be in the text, replaced.
pub(crate) fn replaced(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from:?} in {text}");
    text.replace(from, to)
}

pub(crate) fn origin(browser: &Browser) -> String {
    format!("https://{}", browser.host())
}

fn connect_from(source: Ipv4Addr, to: SocketAddr) -> Tls {
    let config = client_config(&[&rustls::version::TLS13], Some(b"http/1.1"));
    tls_over(dial(source, to).unwrap(), config).unwrap()
}

pub(crate) fn post_login(
    browser: &mut Browser,
    connection: Tls,
    body: &serde_json::Value,
) -> Answer {
    let origin = origin(browser);
    let headers = [("Content-Type", "application/json"), ("Origin", origin.as_str())];
    let (answer, _) = browser.request_on(connection, "POST", "/login", &headers, &body.to_string());
    if let Some(cookie) = answer.headers.get("set-cookie") {
        for part in ["Secure", "HttpOnly", "SameSite=Strict", "__Host-"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        browser.cookie = Some(cookie.split(';').next().unwrap().to_owned());
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        browser.secret = Some(body["originSecret"].as_str().unwrap().to_owned());
    }
    answer
}

pub(crate) fn log_in(browser: &mut Browser, user: &str, password: &str) -> Answer {
    let body = serde_json::json!({ "user": user, "password": password });
    let connection = browser.connect();
    post_login(browser, connection, &body)
}

/// A browser in which this person has logged in.
pub(crate) fn logged_in(broker: &Broker, account: &Account) -> Browser {
    let mut browser = broker.browser();
    let answer = log_in(&mut browser, &account.name, RIGHT);
    // The last words of the log come first: the answer is the same for every reason.
    let log = broker.log();
    let end = log.char_indices().rev().nth(250).map_or(0, |(at, _)| at);
    assert_eq!(answer.status, 200, "{} {answer:?}", log[end..].replace('\n', " | "));
    browser
}

/// A request of a page that has logged in.
pub(crate) fn post(browser: &Browser, path: &str) -> Answer {
    let (origin, secret) = (origin(browser), browser.secret.clone().unwrap());
    browser.open("POST", path, &[("Origin", &origin), ("Thinc-Origin-Secret", &secret)], "").0
}

pub(crate) fn sessions(browser: &Browser) -> Vec<String> {
    let answer = browser.get_as_page("/sessions");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let list: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let names = list["sessions"].as_array().unwrap().iter();
    names.map(|session| session["name"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn start(browser: &Browser) -> String {
    let answer = post(browser, "/start");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let started: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    started["name"].as_str().unwrap().to_owned()
}

/// The name of the session that a viewer at this path is told, and the open connection.
pub(crate) fn open(browser: &Browser, name: &str) -> Result<BufReader<Tls>, Answer> {
    open_called(browser, name, name)
}

/// The same where the person calls it `title`.
pub(crate) fn open_called(
    browser: &Browser,
    name: &str,
    title: &str,
) -> Result<BufReader<Tls>, Answer> {
    let origin = origin(browser);
    let path = format!("/desk/{name}/ws");
    let (answer, mut stream) = browser.websocket_at(&path, browser.connect(), Some(&origin));
    if answer.status != 101 {
        return Err(answer);
    }
    let mut bytes = Vec::new();
    hello().encode(&mut bytes);
    stream.get_mut().write_all(&websocket_message(&bytes)).unwrap();
    let first = next_websocket_message(&mut stream).expect("the session answers");
    let text = String::from_utf8_lossy(&first);
    assert!(text.contains(title), "its hello names the session: {text:?}");
    Ok(stream)
}

/// A field of /proc/PID/status.
pub(crate) fn status(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}")).trim().to_owned()
}

#[test]
fn a_person_finds_their_desktop_again_from_another_device_and_nothing_runs_as_root() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    assert_eq!(sessions(&browser), Vec::<String>::new());
    // Root's X server was killed, and its socket, which Anna cannot remove, is still there.
    drop(UnixListener::bind("/tmp/.X11-unix/X200"));
    let name = start(&browser);
    assert_eq!((name.as_str(), start(&browser).as_str()), ("desk", "desk"), "there is one");
    let viewer = open(&browser, &name).unwrap();

    let other = logged_in(&broker, &anna);
    assert_ne!(other.cookie, browser.cookie);
    assert_eq!(sessions(&other), ["desk"]);
    drop(open(&other, &name).unwrap());
    assert_eq!(open(&other, "nothing").unwrap_err().status, 409);
    assert_eq!(other.get_as_page("/desk/nothing/login").status, 404);
    assert_eq!(other.get_as_page("/desk/desk/login").status, 204);

    let processes = anna.processes();
    assert!(processes.len() >= 4, "agents, supervisor, X, session, command: {processes:?}");
    for pid in processes {
        let ids = [anna.uid; 4].map(|uid| uid.to_string()).join("\t");
        let groups = [anna.gid; 4].map(|gid| gid.to_string()).join("\t");
        assert_eq!((status(pid, "Uid"), status(pid, "Gid")), (ids, groups));
        assert_eq!(status(pid, "Groups"), anna.gid.to_string());
        assert_eq!(u64::from_str_radix(&status(pid, "CapPrm"), 16), Ok(0));
    }
    let front = broker.front();
    assert_eq!((status(front, "Seccomp"), status(front, "NoNewPrivs")), ("2".into(), "1".into()));
    assert_eq!(u64::from_str_radix(&status(front, "CapPrm"), 16), Ok(0));
    assert_eq!(status(front, "Groups"), "");

    // Logging out ends this login's viewers, and not the desktop.
    assert_eq!(post(&browser, "/logout").status, 204);
    let mut rest = Vec::new();
    let _ = { viewer }.read_to_end(&mut rest);
    assert_eq!(browser.get_as_page("/sessions").status, 401);
    assert_eq!(sessions(&other), ["desk"]);
    assert_eq!(post(&other, "/desk/desk/end").status, 204);
    assert_eq!(sessions(&other), Vec::<String>::new());
}

/// What each attempt in turn was answered, and the mean of the times. Each from another address,
/// 127.NET.`group`.N: a source with failures waits longer. An account with failures does too, in
/// steps, and the median would be on one of these.
fn attempts(
    broker: &Broker,
    (net, group): (u8, u8),
    count: u8,
    (user, password): (&str, &str),
) -> (Vec<String>, Duration) {
    let mut answers = Vec::new();
    let mut times = Vec::new();
    for at in 1..=count {
        let mut browser = broker.browser();
        let connection = connect_from(Ipv4Addr::new(127, net, group, at), broker.address);
        let body = serde_json::json!({ "user": user, "password": password });
        let begin = Instant::now();
        let mut answer = post_login(&mut browser, connection, &body);
        times.push(begin.elapsed());
        answer.headers.remove("date");
        let mut headers: Vec<_> = answer.headers.iter().collect();
        headers.sort();
        let mut text = format!("{} {}", answer.status, answer.text());
        for (name, value) in headers {
            write!(text, "\n{name}: {value}").unwrap();
        }
        answers.push(text);
    }
    (answers, times.iter().sum::<Duration>() / u32::from(count))
}

#[test]
fn every_refusal_is_the_same_answer_after_the_same_time() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    const TRIES: u8 = 20;
    let denied_name = Account::next_name();
    let broker = Broker::with_rules("", &format!("-:{denied_name}:ALL\n"));
    let denied = Account::named(denied_name, &broker.folder.join("home"));
    let plain = broker.account();
    let wrong = plain.name.clone();
    let locked = broker.account().change("passwd", &["-q", "-l"]);
    let expired = broker.account().change("chage", &["-E", "0"]);
    let no_shell = broker.account().change("usermod", &["-s", "/usr/sbin/nologin"]);
    let cases = [
        (wrong.as_str(), "wrong"),
        ("nobody-of-this-name", RIGHT),
        (locked.name.as_str(), RIGHT),
        (expired.name.as_str(), RIGHT),
        (no_shell.name.as_str(), RIGHT),
        (denied.name.as_str(), RIGHT),
        ("root", "wrong"),
        ("daemon", "wrong"),
    ];
    let of_all = |net: u8, cases: &[(&str, &str)], count: u8| -> Vec<(Vec<String>, Duration)> {
        let broker = &broker;
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..)
                .zip(cases)
                .map(|(group, &case)| {
                    scope.spawn(move || attempts(broker, (net, group), count, case))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    let results = of_all(7, &cases, TRIES);
    let first = &results[0].0[0];
    assert!(first.starts_with("401 "), "{first}");
    for ((user, _), (answers, _)) in cases.iter().zip(&results) {
        assert!(answers.iter().all(|answer| answer == first), "{user}: {answers:?}");
    }
    // A name that no account has may be a password in the wrong field.
    let log = broker.log();
    assert!(log.contains("login of an unknown account from"), "{log}");
    assert!(!log.contains("nobody-of-this-name"), "{log}");
    let is_even = |means: &[Duration]| {
        let (fastest, slowest) = (means.iter().min().unwrap(), means.iter().max().unwrap());
        assert!(slowest.as_secs_f64() / fastest.as_secs_f64() < 1.2, "{means:?}");
    };
    is_even(&results.iter().map(|(_, mean)| *mean).collect::<Vec<_>>());
    assert_eq!(log_in(&mut broker.browser(), &plain.name, RIGHT).status, 200);

    // While nobody may log in, the right password is answered as a wrong one is. New names: each
    // account that has failed before waits longer.
    let (right, other) = (broker.account(), broker.account());
    fs::write(broker.folder.join("nologin"), "The machine is being repaired.\n").unwrap();
    let closed = [(right.name.as_str(), RIGHT), (other.name.as_str(), "wrong")];
    let results = of_all(6, &closed, 8);
    for (answers, _) in &results {
        assert!(answers.iter().all(|answer| answer == first), "{answers:?}");
    }
    is_even(&[results[0].1, results[1].1]);
    fs::remove_file(broker.folder.join("nologin")).unwrap();
    assert_eq!(log_in(&mut broker.browser(), &right.name, RIGHT).status, 200);
}

/// The one-time codes of RFC 4226, appendix D.
#[test]
fn a_one_time_code_is_asked_for_and_is_good_once() {
    let is_installed = ["/lib", "/usr/lib"].iter().any(|root| {
        let search = format!("ls {root}/*/security/pam_oath.so {root}/security/pam_oath.so");
        let mut shell = Command::new("sh");
        shell.args(["-c", &search]).stdout(Stdio::piped()).stderr(Stdio::null());
        !shell.output().unwrap().stdout.is_empty()
    });
    if !is_installed {
        eprintln!("skipped: there is no pam_oath.so: apt-get install libpam-oath");
        return;
    }
    if is_skipped() {
        return;
    }
    let users = std::env::temp_dir().join(format!("thinc-oath-{}", std::process::id()));
    let rule = format!("auth requisite pam_oath.so usersfile={} window=1\n", users.display());
    let broker = Broker::with_rules(&rule, "");
    let anna = broker.account();
    let secret = "3132333435363738393031323334353637383930";
    fs::write(&users, format!("HOTP {} - {secret}\n", anna.name)).unwrap();
    fs::set_permissions(&users, fs::Permissions::from_mode(0o600)).unwrap();

    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let log_in = |code: &str| {
        let mut asked = Vec::new();
        let result = establish(&link, &options).unwrap().log_in(&anna.name, &mut |prompts| {
            let [prompt] = prompts else { panic!("{prompts:?}") };
            asked.push(prompt.text.to_owned());
            let answer = if prompt.text.contains("One-time") { code } else { RIGHT };
            Some(vec![answer.as_bytes().to_vec()])
        });
        (result.is_ok(), asked)
    };
    let (is_in, asked) = log_in("755224");
    assert!(is_in && asked.len() == 2 && asked[0].contains("One-time"), "{asked:?}");
    assert!(!log_in("755224").0, "it was used");
    assert!(!log_in("123456").0);
    assert!(log_in("287082").0);
    fs::remove_file(&users).unwrap();
}

#[test]
fn an_expired_password_is_changed_while_logging_in() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account().change("chage", &["-d", "0"]);
    let mut browser = broker.browser();
    let mut answer = log_in(&mut browser, &anna.name, RIGHT);
    let new = "another horse 9 walks";
    let mut asked_for = String::new();
    while browser.cookie.is_none() {
        assert_eq!(answer.status, 200, "after {asked_for}: {}", answer.text());
        let asked: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let mut answers = Vec::new();
        for prompt in asked["prompts"].as_array().unwrap() {
            let text = prompt["text"].as_str().unwrap().to_lowercase();
            asked_for += &text;
            if prompt["style"] != "text" {
                answers.push(if text.contains("new") { new } else { RIGHT });
            }
        }
        let mut stranger = broker.browser();
        let attempt = asked["attempt"].clone();
        let body = serde_json::json!({ "attempt": attempt, "answers": answers });
        let far = connect_from(Ipv4Addr::new(127, 8, 8, 8), broker.address);
        assert_eq!(post_login(&mut stranger, far, &body).status, 401, "another source");
        let connection = browser.connect();
        answer = post_login(&mut browser, connection, &body);
    }
    assert!(asked_for.contains("new password"), "{asked_for}");
    assert_eq!(sessions(&browser), Vec::<String>::new());
    assert_eq!(log_in(&mut broker.browser(), &anna.name, new).status, 200);
    assert_eq!(log_in(&mut broker.browser(), &anna.name, RIGHT).status, 401);
}

#[test]
fn nobody_reaches_the_desktop_of_another_person() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let hers = logged_in(&broker, &anna);
    let name = start(&hers);
    let mut his = logged_in(&broker, &otto);
    assert_eq!(sessions(&his), Vec::<String>::new());
    assert_eq!(open(&his, &name).unwrap_err().status, 409, "he has no such session");
    assert_eq!(post(&his, "/desk/desk/end").status, 409);
    // Nor its picture, which she has.
    assert_eq!(hers.get_as_page("/desk/desk/thumbnail").status, 200);
    assert_eq!(his.get_as_page("/desk/desk/thumbnail").status, 404);
    assert_eq!(hers.get("/desk/desk/thumbnail").status, 401, "the cookie alone");

    let own = his.secret.clone();
    // One of both secrets is hers, as if it had been seen; and neither.
    his.secret = hers.secret.clone();
    assert_eq!(open(&his, &name).unwrap_err().status, 401);
    (his.secret, his.cookie) = (own, hers.cookie.clone());
    assert_eq!(open(&his, &name).unwrap_err().status, 401);
    his.cookie = None;
    assert_eq!(his.get_as_page("/sessions").status, 401);
    let (origin, secret) = ("https://evil.example", hers.secret.clone().unwrap());
    let headers = [("Origin", origin), ("Thinc-Origin-Secret", secret.as_str())];
    assert_eq!(hers.open("POST", "/desk/desk/end", &headers, "").0.status, 403);

    // On the machine itself: sockets, memory, logs, the X server.
    let folder = format!("/tmp/thinc-{}", anna.uid);
    assert!(anna.can(&format!("ls {folder}/{name}/viewer.sock")));
    assert!(!otto.can(&format!("ls {folder}")));
    let home = broker.folder.join("home").join(&anna.name);
    let log = home.join(format!(".local/state/thinc/log/{name}/command.log"));
    let read_log = format!("cat {}", log.display());
    assert!(anna.can(&read_log) && !otto.can(&read_log));
    for pid in anna.processes() {
        assert!(!otto.can(&format!("cat /proc/{pid}/environ")), "{pid}");
        assert!(!otto.can(&format!("ls /proc/{pid}/fd/")), "{pid}");
        assert!(!otto.can(&format!("kill -0 {pid}")), "{pid}");
    }
    let display = displays_of(&anna);
    assert_eq!(display.len(), 1, "{display:?}");
    let attempt = format!("DISPLAY={} xdpyinfo", display[0]);
    assert!(!otto.can(&attempt));
    assert!(anna.can(&format!("XAUTHORITY={folder}/{name}/Xauthority {attempt}")));
    assert_eq!(sessions(&hers), ["desk"]);
}

/// The displays of the X servers of this user.
fn displays_of(account: &Account) -> Vec<String> {
    let command_line = |pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = |bytes: Vec<u8>| {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        text.split('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let servers = account.processes().into_iter().map(|pid| words(command_line(pid)));
    servers.filter(|words| words[0].ends_with("/Xorg")).map(|words| words[1].clone()).collect()
}

#[test]
fn desktops_outlive_front_and_helper_and_are_found_again() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let anna = broker.account();
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    let viewer = open(&browser, &name).unwrap();
    let kill = |pid: u32| {
        kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    };
    let command = |account: &Account| -> Vec<u32> {
        let found = account.processes().into_iter();
        found.filter(|pid| status(*pid, "Name") == "sleep").collect()
    };
    let before = command(&anna);
    assert_eq!(before.len(), 1);

    // The same cookie is good for the next front.
    let front = broker.front();
    kill(front);
    let mut rest = Vec::new();
    let _ = { viewer }.read_to_end(&mut rest);
    let begin = Instant::now();
    let viewer = open(&browser, &name).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert_ne!(broker.front(), front);
    assert_eq!(sessions(&browser), ["desk"]);

    // The helper's end is that of the front; the desktop stays, and another broker finds it.
    broker.restart(Signal::KILL);
    let _ = { viewer }.read_to_end(&mut rest);
    drop(open(&browser, &name).unwrap());
    let again = logged_in(&broker, &anna);
    assert_eq!(sessions(&again), ["desk"]);
    drop(open(&again, &name).unwrap());
    assert_eq!(command(&anna), before);
}

#[test]
fn wrong_passwords_from_many_addresses_do_not_delay_an_honest_person() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let broker = Broker::start();
    let anna = broker.account();
    let body = serde_json::json!({ "user": anna.name, "password": "wrong" }).to_string();
    // The status line; an error if the attacker's connection had to make room.
    let attack = &|from: Ipv4Addr| -> io::Result<String> {
        let config = client_config(&[&rustls::version::TLS13], Some(b"http/1.1"));
        let mut stream = tls_over(dial(from, broker.address)?, config)?;
        let (host, length) = (broker.address, body.len());
        let request = format!(
            "POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    };
    // 200 tries from 50 addresses, then 200 from one, each as fast as it is answered or dropped.
    let count = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..50)
            .map(|at| {
                let from = Ipv4Addr::new(127, 9, 0, at + 1);
                scope.spawn(move || (0..4).filter(|_| attack(from).is_ok()).count())
            })
            .collect();
        let one: Vec<_> =
            (0..200).map(|_| scope.spawn(|| attack(Ipv4Addr::new(127, 9, 1, 1)))).collect();
        let one = one.into_iter().filter_map(|attacker| attacker.join().unwrap().ok());
        let one = one.inspect(|line| assert!(line.contains(" 401 ") || line.contains(" 429 ")));
        one.count() + crowd.into_iter().map(|attacker| attacker.join().unwrap()).sum::<usize>()
    });
    assert!(count > 100, "{count} tries were answered");
    // Her account has many failures by now.
    let connection = connect_from(Ipv4Addr::new(127, 9, 2, 1), broker.address);
    let body = serde_json::json!({ "user": anna.name, "password": RIGHT });
    let begin = Instant::now();
    let answer = post_login(&mut broker.browser(), connection, &body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

#[test]
fn strangers_get_pages_and_nothing_else() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let browser = broker.browser();
    assert!(browser.get("/").text().contains("thinc"));
    let page = browser.get("/desk/desk/");
    assert_eq!(page.status, 200);
    let policy = &page.headers["content-security-policy"];
    assert!(policy.contains("; frame-src blob:;"), "a desktop's page prints: {policy}");
    assert_eq!(browser.get("/desk/desk").status, 308);
    for path in ["/desk/../etc/passwd", "/desk/.hidden/", "/etc/passwd", "/nothing"] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
    for (method, target) in [("CONNECT", "desk.example:443"), ("OPTIONS", "*"), ("PUT", "/")] {
        assert_eq!(browser.open(method, target, &[], "").0.status, 405, "{method}");
    }
    for path in ["/sessions", "/desk/desk/login", "/desk/desk/webtransport", "/desk/desk/ws"] {
        let status = browser.get(path).status;
        assert!([401, 403].contains(&status), "{path}: {status}");
    }
    let origin = origin(&browser);
    let json = ("Content-Type", "application/json");
    let post = |headers: &[(&str, &str)], body: &str| {
        browser.open("POST", "/login", headers, body).0.status
    };
    assert_eq!(post(&[json], "{}"), 403, "without an origin");
    assert_eq!(post(&[json, ("Origin", "https://evil.example")], "{}"), 403);
    let ours = ("Origin", origin.as_str());
    assert_eq!(post(&[ours], "{}"), 415);
    assert_eq!(post(&[json, ours], "{}"), 400);
    assert_eq!(post(&[json, ours], r#"{"user": "a\nb", "password": "x"}"#), 400);
    assert_eq!(post(&[json, ours], &"x".repeat(5000)), 413);
    let long = format!(r#"{{"user": "a", "password": "{}"}}"#, "x".repeat(600));
    assert_eq!(post(&[json, ours], &long), 400);
    let answer = r#"{"attempt": "0123456789abcdef", "answers": ["x"]}"#;
    assert_eq!(post(&[json, ours], answer), 401);
}

#[test]
fn a_viewer_in_a_window_logs_in_and_reconnects_without_a_password() {
    if is_skipped() {
        return;
    }
    let broker = Broker::start();
    let anna = broker.account();
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let log_in = |answer: Option<&str>| {
        let reached = establish(&link, &options).unwrap();
        assert!(reached.needs_login());
        reached.log_in(&anna.name, &mut |prompts| {
            let [prompt] = prompts else { panic!("{prompts:?}") };
            assert_eq!((prompt.style, prompt.text), (PromptStyle::Hidden, "Password: "));
            Some(vec![answer?.as_bytes().to_vec()])
        })
    };
    let refused = log_in(Some("wrong"));
    assert!(
        matches!(&refused, Err(ConnectError::Refused { code: CloseCode::Unauthorized, .. })),
        "{refused:?}"
    );
    assert!(matches!(log_in(None), Err(ConnectError::NotLoggedIn(_))));
    let credential = log_in(Some(RIGHT)).unwrap();
    assert!(!establish(&link, &options).unwrap().has_new_key(), "it was remembered");
    // It names no desktop: nothing was started for who has only logged in.
    assert_eq!(credential.len(), 64);
    assert!(anna.can("! pgrep --full -U $(id -u) 'sleep 100000$'"));
    let with = |credential: &[u8]| ConnectOptions {
        session_credential: Some(credential.to_vec()),
        ..options.clone()
    };
    for _ in 0..2 {
        let connection = connect(&link, &with(&credential)).unwrap();
        assert_eq!(connection.session_credential, [&credential[..], b"desk"].concat());
        let mut viewer = Viewer::new(connection);
        assert_eq!(viewer.next(), Some(Message::Hello("desk".into())));
        viewer.wait_complete();
    }
    // 512 bytes are an answer of the protocol, and one more than PAM takes: it ends nobody else's
    // connection.
    let front = broker.front();
    let mut viewer = Viewer::new(connect(&link, &with(&credential)).unwrap());
    viewer.wait_complete();
    let refused = log_in(Some(&"x".repeat(512)));
    assert!(
        matches!(&refused, Err(ConnectError::Refused { code: CloseCode::Unauthorized, .. })),
        "{refused:?}"
    );
    viewer.send(&ViewerMessage::Ping(7));
    viewer.until(|message| *message == Message::Pong);
    assert_eq!(broker.front(), front);
    let mut changed = credential.clone();
    changed[40] ^= 1;
    // The login of the last is good, and has no desktop of this name.
    let (unauthorized, no_desktop) = (CloseCode::Unauthorized, CloseCode::Protocol);
    for (bad, expected) in [
        (&changed[..], unauthorized),
        (b"x", unauthorized),
        (&[&credential[..], b"gone"].concat(), no_desktop),
    ] {
        let error = connect(&link, &with(bad)).unwrap_err();
        let ConnectError::Refused { code, .. } = error else { panic!("{error}") };
        assert_eq!(code, expected);
    }
    let token = Link { token: Some(vec![7; 32]), ..link.clone() };
    let error = connect(&token, &options).unwrap_err().to_string();
    assert!(error.contains("no links"), "{error}");
    // A browser of the same person is on the same desktop.
    assert_eq!(sessions(&logged_in(&broker, &anna)), ["desk"]);
}
