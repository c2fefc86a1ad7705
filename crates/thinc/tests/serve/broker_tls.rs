//! Certificates that are renewed while people work, shown by `thinc broker` and `thinc serve`.
//! Tests of the broker need root, as broker.rs does. Knows files, TLS and processes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use thinc_protocol::viewer::ViewerMessage;
use thinc_transport::{ConnectError, Link, connect, establish};

use crate::broker::{Broker, RIGHT, is_skipped, logged_in, start};
use crate::harness::{
    Browser, Message, Session, TestEnvironment, Viewer, connect_options, wait_until,
};

/// Folders as those of certbot: `live/desk/fullchain.pem` is a symbolic link to
/// `archive/desk/fullchainN.pem`, and so is the key.
struct Certbot(PathBuf);

impl Certbot {
    fn new(folder: &Path) -> Certbot {
        let certbot = Certbot(folder.join("letsencrypt"));
        for part in ["archive/desk", "live/desk"] {
            fs::create_dir_all(certbot.0.join(part)).unwrap();
        }
        certbot
    }

    fn chain(&self) -> PathBuf {
        self.0.join("live/desk/fullchain.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.join("live/desk/privkey.pem")
    }

    /// A new pair; returns the certificate.
    fn make(&self, number: u32) -> Vec<u8> {
        let archive = self.0.join("archive/desk");
        let (chain, key) = (
            archive.join(format!("fullchain{number}.pem")),
            archive.join(format!("privkey{number}.pem")),
        );
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-days", "9"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=desk.example"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .arg("-out")
            .arg(&chain)
            .arg("-keyout")
            .arg(&key)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        der(&chain)
    }

    /// Moves one link, as certbot does.
    fn link(&self, name: &str, number: u32) {
        let live = self.0.join("live/desk").join(format!("{name}.pem"));
        let new = live.with_extension("new");
        symlink(format!("../../archive/desk/{name}{number}.pem"), &new).unwrap();
        fs::rename(&new, &live).unwrap();
    }

    fn renew(&self, number: u32) -> Vec<u8> {
        let certificate = self.make(number);
        self.link("fullchain", number);
        self.link("privkey", number);
        certificate
    }
}

/// The certificate in a PEM file.
fn der(path: &Path) -> Vec<u8> {
    let output = Command::new("openssl")
        .args(["x509", "-outform", "der", "-in"])
        .arg(path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// The certificate that a new connection is shown.
fn shown(browser: &Browser) -> Vec<u8> {
    browser.connect().conn.peer_certificates().unwrap()[0].to_vec()
}

/// The answer to a message that the session answers once it has sent everything before.
fn assert_is_alive(viewer: &mut Viewer, barrier: u32) {
    viewer.send(&ViewerMessage::Barrier(barrier));
    viewer.until(|message| *message == Message::Barrier(barrier));
}

#[test]
fn a_renewed_certificate_is_shown_to_new_connections_and_open_ones_go_on() {
    if is_skipped() {
        return;
    }
    let mut first = Vec::new();
    let broker = Broker::with_config(|folder| {
        let certbot = Certbot::new(folder);
        first = certbot.renew(1);
        format!("tls-cert = {:?}\ntls-key = {:?}\n", certbot.chain(), certbot.key())
    });
    let certbot = Certbot(broker.folder.join("letsencrypt"));
    let (anna, front) = (broker.account(), broker.front());
    let browser = logged_in(&broker, &anna);
    let name = start(&browser);
    assert_eq!(shown(&browser), first);
    let link: Link = format!("thinc://{}/", broker.address).parse().unwrap();
    let mut options = connect_options();
    options.known_hosts = Some(broker.folder.join("known"));
    let reached = establish(&link, &options).unwrap();
    let credential = reached
        .log_in(&anna.name, &mut |prompts| Some(vec![RIGHT.as_bytes().to_vec(); prompts.len()]));
    options.session_credential = Some(credential.unwrap());
    let mut viewer = Viewer::new(connect(&link, &options).unwrap());
    viewer.wait_complete();

    // Nobody tells the broker.
    let second = certbot.renew(2);
    wait_until("the second certificate", || (shown(&browser) == second).then_some(()));
    assert_is_alive(&mut viewer, 2);
    assert_eq!(broker.front(), front, "it was not restarted");
    assert_eq!(browser.get_as_page("/sessions").status, 200, "the login is still valid");

    // Half of a pair: the old one stays until the other half is there too.
    let third = certbot.make(3);
    certbot.link("fullchain", 3);
    let hangup = || kill_process(Pid::from_child(&broker.process), Signal::HUP).unwrap();
    hangup();
    wait_until("a complaint", || broker.log().contains("stays the one from before").then_some(()));
    let log = broker.log();
    assert!(log.contains("no usable pair of certificate and key"), "{log}");
    assert_eq!(shown(&browser), second);
    certbot.link("privkey", 3);
    hangup();
    wait_until("the third certificate", || (shown(&browser) == third).then_some(()));
    assert_is_alive(&mut viewer, 3);

    // A front that is started later shows the same one.
    kill_process(Pid::from_raw(front as i32).unwrap(), Signal::KILL).unwrap();
    wait_until("another front", || (broker.front() != front).then_some(()));
    assert_eq!(shown(&browser), third);
    assert!(browser.get_as_page("/sessions").text().contains(&name));
}

#[test]
fn a_session_shows_its_renewed_certificate_and_new_links_have_its_key() {
    let environment = TestEnvironment::new();
    let certbot = Certbot::new(&environment.folder);
    let first = certbot.renew(1);
    let (chain, key) = (certbot.chain(), certbot.key());
    let options = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let session = Session::start_with(environment, &options, &["sleep", "1000"]);
    let browser = Browser::new(&session);
    assert_eq!(shown(&browser), first);
    let old = session.link();
    let mut viewer = session.viewer();
    viewer.wait_complete();

    let second = certbot.renew(2);
    wait_until("the second certificate", || (shown(&browser) == second).then_some(()));
    assert_is_alive(&mut viewer, 2);
    let refused = connect(&old, &connect_options()).unwrap_err();
    assert!(matches!(refused, ConnectError::WrongKey { .. }), "{refused}");
    let new = session.link();
    assert_ne!(new.pin, old.pin);
    Viewer::new(connect(&new, &connect_options()).unwrap()).wait_complete();
}
