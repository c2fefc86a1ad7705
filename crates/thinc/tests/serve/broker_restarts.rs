//! Logins that outlive `thinc broker`: killed or restarted, its next helper finds them again, and
//! nobody else's processes. Makes accounts and removes them, so it needs root; without, each test
//! says so and passes. Knows HTTP, processes and the sockets of login processes.

use std::fs;
use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, accept_with, bind, connect as connect_socket, listen, recv, sendmsg,
    socket_with, sockopt::Timeout, sockopt::set_socket_timeout,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::set_thread_res_uid;
use sha2::{Digest as _, Sha256};
use thinc_broker::message::{Kept, Reply};
use thinc_protocol::auth::PromptStyle;
use thinc_transport::{ConnectOptions, Link, base64url, connect, establish};

use crate::broker::{
    Account, Broker, RIGHT, is_skipped, log_in, logged_in, open, post, sessions, start, status,
};
use crate::harness::{Browser, Message, Viewer, connect_options, wait_until};

fn logins(broker: &Broker) -> PathBuf {
    broker.folder.join("state/logins")
}

/// The login processes that wait for a helper, or have one.
fn login_processes(broker: &Broker) -> Vec<u32> {
    let entries = fs::read_dir(logins(broker)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.parse().unwrap()).collect()
}

/// The broker's answer to a page that has logged in before.
fn is_logged_in(browser: &Browser) -> bool {
    match browser.get_as_page("/sessions").status {
        200 => true,
        401 => false,
        other => panic!("{other}"),
    }
}

#[test]
fn pages_and_viewers_go_on_without_a_password_after_the_helper_was_killed_or_restarted() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let hers = logged_in(&broker, &anna);
    let name = start(&hers);
    let left = logged_in(&broker, &anna);
    let his = logged_in(&broker, &otto);
    let link: Link = format!("https://{}/", broker.address).parse().unwrap();
    let known_hosts = Some(broker.folder.join("known-hosts"));
    let options = ConnectOptions { known_hosts, ..connect_options() };
    let reached = establish(&link, &options).unwrap();
    let credential = reached
        .log_in(&anna.name, &mut |prompts| {
            let [prompt] = prompts else { panic!("{prompts:?}") };
            assert_eq!(prompt.style, PromptStyle::Hidden);
            Some(vec![RIGHT.as_bytes().to_vec()])
        })
        .unwrap();
    let options = ConnectOptions { session_credential: Some(credential), ..options };
    // A process that was killed leaves its file behind, which is no login.
    let stale = logins(&broker).join("1");
    let killed =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    bind(&killed, &SocketAddrUnix::new(&stale).unwrap()).unwrap();
    drop(killed);

    for signal in [Signal::KILL, Signal::TERM, Signal::KILL] {
        let viewer = open(&hers, &name).unwrap();
        if signal == Signal::TERM {
            assert_eq!(post(&left, "/logout").status, 204);
        }
        // Nothing happens between a logout that was answered and the helper's end.
        let begin = Instant::now();
        broker.restart(signal);
        let mut rest = Vec::new();
        let _ = { viewer }.read_to_end(&mut rest);
        assert_eq!(sessions(&hers), [name.as_str()]);
        drop(open(&hers, &name).unwrap());
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        let mut viewer = Viewer::new(connect(&link, &options).unwrap());
        assert_eq!(viewer.next(), Some(Message::Hello(name.clone())));
        assert!(is_logged_in(&his) && sessions(&his).is_empty());
        assert!(!stale.exists(), "nobody listens there");
        // Both secrets are needed, as before.
        let mut wrong = broker.browser();
        (wrong.cookie, wrong.secret) = (hers.cookie.clone(), his.secret.clone());
        assert!(!is_logged_in(&wrong));
    }
    assert!(!is_logged_in(&left), "she has logged out there");
    assert_eq!(fs::metadata(logins(&broker)).unwrap().permissions().mode() & 0o7777, 0o700);

    // The agent of before starts desktops too, and the audit log goes on.
    assert_eq!(post(&hers, &format!("/desk/{name}/end")).status, 204);
    assert_eq!(start(&his), name);
    assert_eq!(post(&hers, "/logout").status, 204);
    assert!(!is_logged_in(&hers));
    let number = || {
        let log = fs::read_to_string(broker.folder.join("audit")).unwrap();
        let events = log.lines().map(serde_json::from_str::<serde_json::Value>);
        let ended = events.map(Result::unwrap).filter(|event| event["event"] == "processes-ended");
        ended.map(|event| event["login"].as_u64().unwrap()).find(|login| *login == 1)
    };
    assert_eq!(wait_until("the end of her first login", number), 1);
    logged_in(&broker, &anna);
    let log = fs::read_to_string(broker.folder.join("audit")).unwrap();
    assert!(log.contains(r#""event":"login","login":5,"#), "{log}");
}

#[test]
fn a_login_process_that_does_not_answer_keeps_nobody_else_out() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let hers = logged_in(&broker, &anna);
    let [hers_process] = login_processes(&broker)[..] else { panic!("there is one login") };
    let his = logged_in(&broker, &otto);
    let hers_process = Pid::from_raw(hers_process as i32).unwrap();
    kill_process(hers_process, Signal::STOP).unwrap();
    broker.restart(Signal::KILL);
    assert!(is_logged_in(&his));
    assert!(!is_logged_in(&hers), "it was not heard in time");
    // It hears of this helper's end as of the one before.
    kill_process(hers_process, Signal::CONT).unwrap();
    broker.restart(Signal::KILL);
    assert!(is_logged_in(&his) && is_logged_in(&hers));

    // A login process that was killed is a login that ends with this helper.
    kill_process(hers_process, Signal::KILL).unwrap();
    broker.restart(Signal::KILL);
    assert!(is_logged_in(&his) && !is_logged_in(&hers));
    assert_eq!(login_processes(&broker).len(), 1, "its file was removed");
}

/// Becomes another user in a thread of its own: what the kernel says of sockets is what the thread
/// was when it made them.
fn as_user<T: Send>(account: &Account, act: impl FnOnce() -> T + Send) -> T {
    let uid = rustix::process::Uid::from_raw(account.uid);
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        thread.join().unwrap()
    })
}

fn listening(path: &Path) -> OwnedFd {
    let listener =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .unwrap();
    bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&listener, 1).unwrap();
    listener
}

#[test]
fn a_process_of_another_user_registers_no_login_and_learns_of_none() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let his = logged_in(&broker, &otto);
    let [process] = login_processes(&broker)[..] else { panic!("there is one login") };
    let door = logins(&broker).join(process.to_string());
    let forged = logins(&broker).join("2");
    let tried = || as_user(&anna, || fs::write(&forged, "").is_ok() || door.exists());
    assert!(!tried(), "she cannot enter the folder");

    // As if root had made a mistake, twice: she can enter the folder, and use what is in it.
    broker.end(Signal::KILL);
    let allow = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    allow(&logins(&broker));
    allow(&door);
    let told = as_user(&anna, || {
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        connect_socket(&socket, &SocketAddrUnix::new(&door).unwrap()).unwrap();
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(20))).unwrap();
        let mut bytes = [0; 4096];
        recv(&socket, &mut bytes, RecvFlags::empty()).map(|(_, length)| length)
    });
    assert_eq!(told, Ok(0), "the login process hangs up");
    let cookie = [7; 32];
    let listener = as_user(&anna, || listening(&forged));
    let (_agent, for_helper) = std::os::unix::net::UnixStream::pair().unwrap();
    let reply = Reply::Kept {
        login: 9,
        age_ms: 1,
        user: otto.name.clone(),
        kept: Some(Kept {
            login: 9,
            cookie_hash: Sha256::digest(cookie).into(),
            origin_secret_hash: Sha256::digest(cookie).into(),
            device: None,
        }),
    };
    let forge = std::thread::spawn(move || {
        let helper = accept_with(&listener, SocketFlags::CLOEXEC).unwrap();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let agent = [for_helper.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&agent)));
        let _ =
            sendmsg(&helper, &[IoSlice::new(&reply.encode())], &mut ancillary, SendFlags::NOSIGNAL);
    });
    broker.start_again();
    forge.join().unwrap();
    let text = base64url::encode(&cookie);
    let mut forger = broker.browser();
    forger.cookie = his.cookie.as_deref().map(|cookie| {
        let (name, _) = cookie.split_once('=').unwrap();
        format!("{name}={text}")
    });
    forger.secret = Some(text);
    assert!(!is_logged_in(&forger));
    assert!(is_logged_in(&his));
    assert!(broker.log().contains("another user listens there"), "{}", broker.log());
    assert!(broker.log().contains("1 logins from before"), "{}", broker.log());
    assert!(!tried(), "the folder is closed again");
    assert_eq!(status(process, "Uid"), "0\t0\t0\t0");
}

fn admin_logout(broker: &Broker) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
    command.args(["admin", "logout", "--state"]).arg(broker.folder.join("state")).output().unwrap()
}

#[test]
fn an_administrator_ends_all_logins_of_a_stopped_broker_and_desktops_go_on() {
    if is_skipped() {
        return;
    }
    let mut broker = Broker::start();
    let (anna, otto) = (broker.account(), broker.account());
    let hers = logged_in(&broker, &anna);
    start(&hers);
    let his = logged_in(&broker, &otto);
    let refused = admin_logout(&broker);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("stop it first"), "{said}");
    assert!(is_logged_in(&hers));

    broker.end(Signal::TERM);
    assert!(!otto.processes().is_empty(), "his agent waits for the next helper");
    let ended = admin_logout(&broker);
    let said = String::from_utf8(ended.stdout).unwrap();
    assert!(ended.status.success() && said.starts_with("2 logins have ended"), "{said}");
    wait_until("nothing is left of a login without a desktop", || {
        otto.processes().is_empty().then_some(())
    });
    wait_until("her login process alone is left", || {
        (login_processes(&broker).len() == 1).then_some(())
    });
    broker.start_again();
    assert!(!is_logged_in(&hers) && !is_logged_in(&his));
    let mut again = broker.browser();
    assert_eq!(log_in(&mut again, &anna.name, RIGHT).status, 200);
    assert_eq!(sessions(&again), ["desk"]);
}
