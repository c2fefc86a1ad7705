//! A real X server for a test: the distribution's Xorg with the driver from driver/build (or its
//! sanitized build), or Xvfb. Its files are in one folder, which is removed when the value is
//! dropped.
#![allow(
    unreachable_pub,
    dead_code,
    reason = "each test binary that includes this uses its own part"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use thinc_ring::{Attachment, XorgConf, attach};
use x11rb::rust_connection::RustConnection;

/// 60 s: Xorg starts in a second, but the machines that run tests are busy.
const START_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    Plain,
    Sanitized,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub build: Build,
    pub width: u32,
    pub height: u32,
    /// Run as an ordinary user, even if the test itself runs as root.
    pub ordinary_user: bool,
    /// Regenerate the server when its last client disconnects.
    pub reset: bool,
    /// Hold X clients that put whole images in a row to the clock of frames.
    pub pace: bool,
    /// The GPU that OpenGL and Vulkan programs draw on.
    pub render_node: Option<&'static str>,
    /// Its buffers are memory: driver/test/gbm.c.
    pub gbm_without_gpu: bool,
}

impl Default for Options {
    fn default() -> Options {
        let build = if std::env::var_os("THINC_TEST_SANITIZED").is_some() {
            Build::Sanitized
        } else {
            Build::Plain
        };
        Options {
            build,
            width: 640,
            height: 480,
            ordinary_user: false,
            reset: false,
            pace: true,
            render_node: None,
            gbm_without_gpu: false,
        }
    }
}

pub struct XServer {
    child: Child,
    pub display: u32,
    folder: PathBuf,
    log: PathBuf,
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Builds the driver and returns its module folder; make does nothing if nothing changed.
pub fn driver(build: Build) -> PathBuf {
    let sanitize: &[&str] = if build == Build::Sanitized { &["SANITIZE=1"] } else { &[] };
    make(sanitize).join(if build == Build::Sanitized { "build-asan" } else { "build" })
}

fn gbm_without_gpu() -> PathBuf {
    make(&["test/gbm"]).join("build/gbm")
}

pub fn make(args: &[&str]) -> PathBuf {
    let folder = repository().join("driver");
    // One make at a time across test processes: closing the file releases the lock.
    let lock = File::create(folder.join(".build-lock")).unwrap();
    lock.lock().unwrap();
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(&folder).args(args);
    assert!(make.status().expect("make runs").success(), "the driver builds");
    folder
}

/// The sanitizers' libraries must be loaded before the module that needs them.
fn preload() -> String {
    ["libasan.so", "libubsan.so"]
        .map(|name| {
            let out = Command::new("gcc")
                .arg(format!("-print-file-name={name}"))
                .output()
                .expect("gcc runs");
            let path = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim());
            path.canonicalize().unwrap().display().to_string()
        })
        .join(":")
}

fn folder() -> PathBuf {
    let name =
        format!("thinc-test-{}-{}", std::process::id(), FOLDERS.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    folder
}

const NOBODY: u32 = 65534;

impl XServer {
    pub fn start(options: Options) -> XServer {
        let modules = driver(options.build);
        let folder = folder();
        let (conf, log, socket) =
            (folder.join("xorg.conf"), folder.join("Xorg.log"), folder.join("driver"));
        let text = XorgConf {
            socket: &socket,
            width: options.width,
            height: options.height,
            pace: options.pace,
            render_node: options.render_node.map(Path::new),
            oracle: true,
        }
        .to_text();
        fs::write(&conf, text).unwrap();
        let mut command = Command::new("/usr/lib/xorg/Xorg");
        command.arg("-config").arg(&conf).arg("-logfile").arg(&log).arg("-modulepath");
        command.arg(format!("{},/usr/lib/xorg/modules", modules.display()));
        command.args(["-novtswitch", "-sharevts", "-nolisten", "tcp", "-ac"]);
        command.arg(if options.reset { "-reset" } else { "-noreset" });
        if options.build == Build::Sanitized {
            command.env("LD_PRELOAD", preload());
            // X leaks at exit, and its allocations are not what is tested. abort_on_error: no
            // report may be overlooked.
            command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1:handle_segv=0");
            command.env("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1");
        }
        if options.gbm_without_gpu {
            command.env("LD_LIBRARY_PATH", gbm_without_gpu());
        }
        if options.ordinary_user && rustix::process::geteuid().is_root() {
            // The test runs as root and may still use the folder; the socket checks the peer, see
            // `attach_as_user`.
            std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
            command.uid(NOBODY).gid(NOBODY);
        }
        XServer::run(command, folder, log)
    }

    /// An X server without our driver, to compare with.
    pub fn start_xvfb(width: u32, height: u32) -> XServer {
        let folder = folder();
        let log = folder.join("Xvfb.log");
        let mut command = Command::new("Xvfb");
        command.args([
            "-screen",
            "0",
            &format!("{width}x{height}x24"),
            "-nolisten",
            "tcp",
            "-ac",
            "-noreset",
        ]);
        // Draw thin lines as in Xorg: mi's default bias is octants 2 to 5, Xvfb's is none.
        command.args(["-linebias", "216"]);
        XServer::run(command, folder, log)
    }

    fn run(mut command: Command, folder: PathBuf, log: PathBuf) -> XServer {
        let (read, write) = rustix::pipe::pipe().unwrap();
        // The server inherits this descriptor, so it must survive exec.
        command.arg("-displayfd").arg(write.as_raw_fd().to_string());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(folder.join("stderr")).unwrap());
        let mut child =
            command.spawn().expect("the X server starts (install xserver-xorg-core and xvfb)");
        drop(write);
        let display = read_display(read, START_TIMEOUT).unwrap_or_else(|| {
            let _ = child.kill();
            let stderr = fs::read_to_string(folder.join("stderr")).unwrap_or_default();
            panic!(
                "the X server did not start: {stderr}\n{}",
                fs::read_to_string(&log).unwrap_or_default()
            );
        });
        XServer { child, display, folder, log }
    }

    /// Memory maps of the server, to check which libraries it loaded.
    pub fn maps(&self) -> String {
        fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap_or_default()
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.join("driver")
    }

    pub fn connect(&self) -> (RustConnection, usize) {
        RustConnection::connect(Some(&format!(":{}", self.display))).expect("a client can connect")
    }

    pub fn attach(&self) -> Attachment {
        attach(&self.socket()).expect("a session can attach")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Terminates it; true if it exited cleanly.
    pub fn stop(mut self) -> bool {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let ok = status.success();
        if !ok {
            eprintln!("the X server ended with {status}: {}", self.messages());
        }
        ok
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn messages(&self) -> String {
        let stderr = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(30).collect();
        format!("{stderr}\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"))
    }
}

impl Drop for XServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- output of the X server ----\n{}", self.messages());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn read_display(pipe: OwnedFd, timeout: Duration) -> Option<u32> {
    let deadline = Instant::now() + timeout;
    let mut fds = [rustix::event::PollFd::new(&pipe, rustix::event::PollFlags::IN)];
    let left = deadline.saturating_duration_since(Instant::now());
    let left = rustix::event::Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: 0 };
    if rustix::event::poll(&mut fds, Some(&left)).ok()? == 0 {
        return None;
    }
    let mut line = String::new();
    BufReader::new(File::from(pipe).take(16)).read_line(&mut line).ok()?;
    line.trim().parse().ok()
}

/// Waits at most `timeout` until a descriptor is readable.
pub fn wait_readable(fd: std::os::fd::BorrowedFd<'_>, timeout: Duration) -> bool {
    let mut fds = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
    let time = rustix::event::Timespec {
        tv_sec: timeout.as_secs().cast_signed(),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    rustix::event::poll(&mut fds, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// Runs all tests of this binary again in another process, with address and undefined-behaviour
/// sanitizers in the driver. In that process: checks that they are loaded.
pub fn rerun_with_sanitizers() {
    if std::env::var_os("THINC_TEST_SANITIZED").is_some() {
        let maps = XServer::start(Options::default()).maps();
        assert!(
            maps.contains("build-asan/thinc_drv.so") && maps.contains("libasan"),
            "the sanitized driver is loaded"
        );
        return;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .env("THINC_TEST_SANITIZED", "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(output.contains(" passed; 0 failed"), "{output}");
}
