//! Ending a session: an orderly end includes all its processes; a killed process does not take down
//! those that should live.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::session::CloseCode;
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, ConnectOptions, Link, Scheme, connect};

use crate::harness::{
    Browser, Message, Session, TestEnvironment, Viewer, connect_options, is_running, read_to_end,
    wait_for_end, wait_until,
};

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

#[test]
fn stop_ends_all_processes_and_tells_the_viewers() {
    let mut session = Session::start_with(
        TestEnvironment::new(),
        &[],
        &["sh", "-c", "sleep 1000 & setsid sleep 20; wait"],
    );
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let output = session.environment.run(&["stop", "t"]);
    assert!(output.status.success());
    assert_eq!(viewer.closed(), (CloseCode::SessionEnded, "the session ended".to_owned()));
    assert_eq!(session.end_code(), Some(0));
    for part in ["xorg", "session", "command"] {
        assert!(!is_running(session.pid(part)), "{part} outlived the session");
    }
    assert_eq!(
        std::fs::read_dir(session.environment.folder.join("run/thinc")).unwrap().count(),
        0,
        "the runtime folder is empty"
    );
    let words = session.environment.fails(&["stop", "t"]);
    assert!(words.contains("no session called t is running"), "{words}");
    let list = session.environment.run(&["list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains("No session is running"));
}

#[test]
fn a_session_that_nobody_uses_ends_and_says_so() {
    // Viewers that show it and send nothing do not keep it.
    let mut session = Session::start(&["--end-idle", "2s"]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    let why = "the session ended: nobody has used it for 2 seconds".to_owned();
    assert_eq!(viewer.closed(), (CloseCode::SessionEnded, why));
    assert_eq!(session.end_code(), Some(0));
    assert!(!is_running(session.pid("xorg")) && !is_running(session.pid("command")));

    let mut session = Session::start(&["--end-disconnected", "1s"]);
    assert_eq!(session.end_code(), Some(0));
    let words = session.environment.fails(&["serve", "--end-idle", "40d"]);
    assert!(words.contains("from 1s to 30d"), "{words}");
}

#[test]
fn daemons_that_applications_started_end_with_the_session() {
    let environment = TestEnvironment::new();
    let file = |name: &str| environment.folder.join(name);
    // One ends when it is asked to, one only when it is killed, and one has ended by itself.
    let script = format!(
        "setsid -f sh -c 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000'; \
         setsid -f sh -c 'trap \"\" TERM; echo $$ > {1}.new; mv {1}.new {1}; exec sleep 1000'; \
         setsid -f sh -c 'echo $$ > {2}.new; mv {2}.new {2}'; exec sleep 1000",
        file("willing").display(),
        file("stubborn").display(),
        file("over").display(),
    );
    let files = ["willing", "stubborn", "over"].map(file);
    let mut session = Session::start_with(environment, &[], &["sh", "-c", &script]);
    let [willing, stubborn, over] = files.map(|file| {
        wait_until("a daemon is there", || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
    });
    wait_for_end(over);
    assert!(is_running(willing) && is_running(stubborn));
    assert!(session.environment.run(&["stop", "t"]).status.success());
    assert_eq!(session.end_code(), Some(0));
    assert!(!is_running(willing) && !is_running(stubborn), "a daemon outlived the session");
}

#[test]
fn the_session_ends_with_its_command_and_its_exit_code() {
    let environment = TestEnvironment::new();
    let output = environment.run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--",
        "sh",
        "-c",
        "echo the last words >&2; exit 3",
    ]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("the last words"));
}

#[test]
fn a_hang_up_is_ignored_and_an_interrupt_ends_everything() {
    let mut session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    session.signal_job(Signal::HUP);
    // The answer comes from the same event loop: the hang-up has been handled.
    assert_eq!(session.status()["pids"]["session"], session.pid("session"));
    viewer.send(&ViewerMessage::Barrier(2));
    viewer.until(|message| *message == Message::Barrier(2));
    session.signal_job(Signal::INT);
    assert_eq!(
        viewer.closed(),
        (CloseCode::SessionEnded, "the session ended".to_owned()),
        "viewers are told"
    );
    assert_eq!(session.end_code(), Some(0));
    assert!(!is_running(session.pid("xorg")) && !is_running(session.pid("command")));
}

#[test]
fn a_killed_session_process_is_restarted_at_once() {
    let session = Session::start(&[]);
    let link = session.link();
    let mut viewer = Viewer::new(connect(&link, &connect_options()).unwrap());
    viewer.wait_complete();
    let key = ConnectOptions {
        session_credential: Some(viewer.session_credential.clone()),
        ..connect_options()
    };
    kill(session.pid("session"), Signal::KILL);
    while viewer.next().is_some() {}
    // The first attempt succeeds: it waits in the socket, which stays open.
    let size = Viewer::new(connect(&link, &key).unwrap()).wait_complete();
    assert_eq!((size.width, size.height), (1280, 800));
    let errors = session.errors_with("the session process ended");
    assert!(errors.contains("; restarting it\n"), "without a delay: {errors}");
    assert!(
        is_running(session.pid("xorg")) && is_running(session.pid("command")),
        "the applications are still running"
    );
    let status = session.status();
    assert_ne!(status["pids"]["session"], session.pid("session"));
    assert_eq!(status["restarts"], 1);
    // The token was used before the crash: the new process must know.
    let refused = connect(&link, &connect_options()).unwrap_err();
    assert!(
        matches!(refused, ConnectError::Refused { code: CloseCode::Unauthorized, .. }),
        "{refused}"
    );
}

#[test]
fn revoking_ends_links_logins_and_the_viewers_that_used_them() {
    let session = Session::start(&[]);
    let (used, unused) = (session.link(), session.link());
    let mut viewer = Viewer::new(connect(&used, &connect_options()).unwrap());
    viewer.wait_complete();
    let mut browser = Browser::new(&session);
    assert_eq!(browser.login(&session.link()).status, 200);
    let own = format!("https://{}", session.address());
    let (answer, mut page) = browser.websocket(Some(&own));
    assert_eq!(answer.status, 101);

    let output = session.environment.run(&["link", "--revoke", "--native", "t"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let link: Link = String::from_utf8(output.stdout).unwrap().parse().unwrap();
    assert_eq!(link.scheme, Scheme::Thinc);

    while viewer.next().is_some() {}
    assert!(read_to_end(&mut page).is_empty());
    let key = ConnectOptions {
        session_credential: Some(viewer.session_credential.clone()),
        ..connect_options()
    };
    for (link, options) in [(&used, &key), (&unused, &connect_options())] {
        let refused = connect(link, options).unwrap_err();
        assert!(
            matches!(refused, ConnectError::Refused { code: CloseCode::Unauthorized, .. }),
            "{refused}"
        );
    }
    assert_eq!(browser.get_as_page("/login").status, 401);
    assert_eq!(browser.get("/index.html").status, 401);
    assert_eq!(browser.websocket(Some(&own)).0.status, 401);

    Viewer::new(connect(&link, &connect_options()).unwrap()).wait_complete();
    session.viewer().wait_complete();
    assert!(
        is_running(session.pid("xorg")) && is_running(session.pid("command")),
        "the applications are still running"
    );
    assert_eq!(session.status()["restarts"], 1);
    let xauthority = session.status()["xauthority"].as_str().unwrap().to_owned();
    let config = std::path::Path::new(&xauthority).with_file_name("session.json");
    assert_eq!(std::fs::metadata(config).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_session_process_that_keeps_dying_is_restarted_each_time() {
    let session = Session::start(&[]);
    let mut pid = session.pid("session");
    for deaths in 1..=3u64 {
        kill(pid, Signal::KILL);
        wait_for_end(pid);
        // A viewer that connects waits in the socket until there is a session process again.
        session.viewer().wait_complete();
        let status = session.status();
        assert_eq!(status["restarts"], deaths);
        pid = u32::try_from(status["pids"]["session"].as_u64().unwrap()).unwrap();
    }
    assert!(is_running(session.pid("xorg")));
}

#[test]
fn no_core_is_dumped_of_a_process_that_holds_secrets() {
    use rustix::process::{Resource, Rlimit, prlimit};
    let session = Session::start(&[]);
    let pid = session.pid("session");
    let unlimited = Rlimit { current: None, maximum: None };
    let raw = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(raw, Resource::Core, unlimited).unwrap();
    kill(pid, Signal::ABORT);
    let errors = session.errors_with("SIGABRT");
    assert!(!errors.contains("core dumped"), "{errors}");
}

#[test]
fn an_x_server_that_dies_ends_the_session_with_a_reason() {
    let mut session = Session::start(&[]);
    let mut viewer = session.viewer();
    viewer.wait_complete();
    kill(session.pid("xorg"), Signal::KILL);
    assert_eq!(
        viewer.closed(),
        (CloseCode::SessionEnded, "the session ended".to_owned()),
        "viewers are told"
    );
    assert_eq!(session.end_code(), Some(1));
    assert!(!is_running(session.pid("session")) && !is_running(session.pid("command")));
}

#[test]
fn a_killed_supervisor_leaves_no_processes() {
    let mut session = Session::start(&[]);
    session.signal(Signal::KILL);
    session.child.wait().unwrap();
    for part in ["xorg", "session", "command"] {
        wait_for_end(session.pid(part));
    }
    // Its folder still exists, but is not locked: the name is free.
    assert!(session.environment.folder.join("run/thinc/t").exists());
    let output = session.environment.run(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--name",
        "t",
        "--",
        "sh",
        "-c",
        "exit 0",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_detached_session_outlives_the_process_that_started_it() {
    let environment = TestEnvironment::new();
    let output = environment.run(&[
        "serve",
        "--detach",
        "--listen",
        "127.0.0.1:0",
        "--name",
        "d",
        "--",
        "sleep",
        "1000",
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let link =
        said.split_whitespace().find(|word| word.starts_with("https://")).unwrap().parse().unwrap();
    Viewer::new(connect(&link, &connect_options()).unwrap()).wait_complete();
    let status: serde_json::Value =
        serde_json::from_slice(&environment.run(&["list", "--json"]).stdout).unwrap();
    let supervisor = status[0]["pids"]["supervisor"].as_u64().unwrap();
    assert!(environment.run(&["stop", "d"]).status.success());
    wait_for_end(u32::try_from(supervisor).unwrap());
}

#[test]
fn a_detached_session_reports_start_errors_to_the_waiting_process() {
    let session = Session::start(&[]);
    let address = session.address().to_string();
    let words = session
        .environment
        .fails(&["serve", "--detach", "--listen", &address, "--name", "d", "--", "sleep", "1000"]);
    assert!(words.contains("in use"), "{words}");
}

#[test]
fn requests_are_answered_again_once_there_are_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let session = Session::start(&[]);
    let supervisor = Pid::from_raw(i32::try_from(session.pid("supervisor")).unwrap());
    let before = getrlimit(Resource::Nofile);
    prlimit(supervisor, Resource::Nofile, Rlimit { current: Some(0), ..before }).unwrap();
    let mut list = session.environment.thinc(&["list", "--json"]);
    let list = list.stdout(Stdio::piped()).spawn().unwrap();
    session.errors_with("cannot accept a request");
    prlimit(supervisor, Resource::Nofile, before).unwrap();
    let output = list.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("restarts"), "{output:?}");
    assert_eq!(session.status()["name"], "t");
}
