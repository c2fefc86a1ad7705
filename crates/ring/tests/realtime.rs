//! The X server's input thread, which the broker's root may make real-time, in a real Xorg: it has
//! a name, and upon SIGXCPU, with which the kernel ends a long run, it becomes ordinary and X goes
//! on. Knows threads and signals; never who made a thread real-time.

mod xserver;

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use thinc_realtime::{Policy, policy_of, set_policy};
use thinc_ring::InputMessage;
use x11rb::connection::Connection as _;
use x11rb::protocol::xproto::ConnectionExt as _;

use xserver::{Options, XServer};

/// As the broker looks for it.
const INPUT_THREAD: &str = "thinc-input";
const TIMEOUT: Duration = Duration::from_secs(30);

fn input_thread(process: u32) -> Option<u32> {
    fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().find_map(|task| {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        (name.trim_end() == INPUT_THREAD).then(|| task.file_name().to_str()?.parse().ok())?
    })
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_long_run_makes_the_threads_of_x_ordinary_and_x_goes_on() {
    let mut server = XServer::start(Options::default());
    let (conn, screen) = server.connect();
    let root = conn.setup().roots[screen].root;
    let session = server.attach();
    assert_eq!(input_thread(server.pid()), None, "before it has read anything");
    let move_to = |x| {
        session.input.send(InputMessage::PointerMove { seq: 1, x, y: 7 }).unwrap();
        wait_for("the pointer moves", || {
            let at = conn.query_pointer(root).unwrap().reply().unwrap();
            (i32::from(at.root_x) == x).then_some(())
        });
    };
    move_to(5);
    let main = server.pid();
    let input = wait_for("the input thread has its name", || input_thread(main));
    assert_ne!(input, main, "X reads input in a thread of its own");
    let pid = Pid::from_raw(main.cast_signed()).unwrap();
    for thread in [main, input] {
        let id = Pid::from_raw(thread.cast_signed());
        let real_time = Policy::RealTime(1);
        match set_policy(id, real_time) {
            Ok(()) => assert_eq!(policy_of(main, thread), Some(real_time)),
            Err(error) => eprintln!("skipped: real-time is refused: {error}"),
        }
    }
    // Twice: the second one finds nothing to do.
    for x in [9, 11] {
        kill_process(pid, Signal::XCPU).unwrap();
        wait_for("they are ordinary", || {
            let all = [main, input].map(|thread| policy_of(main, thread));
            (all == [Some(Policy::Ordinary); 2]).then_some(())
        });
        move_to(x);
    }
    assert!(server.is_running());
}
