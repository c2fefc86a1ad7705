//! `thinc broker` and an ACME server on this machine: Pebble, of those who make Let's Encrypt. It
//! is strict, refuses some valid requests on purpose, and verifies a name by connecting. Needs
//! root, as broker.rs does. Knows files, TLS and processes.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::broker::{Broker, is_skipped, logged_in, sessions, status};
use crate::harness::{Browser, wait_until};

/// Where `./dev` puts the program; another one is named by THINC_PEBBLE.
const PEBBLE: &str = "target/tools/pebble";

/// The program; `None` after saying so where `./dev test` has found no Go to compile it.
fn pebble() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("THINC_PEBBLE").map_or(root.join(PEBBLE), PathBuf::from);
    if path.is_file() {
        return Some(path);
    }
    assert!(std::env::var_os("THINC_PEBBLE").is_none(), "there is no {}", path.display());
    eprintln!("skipped: there is no {}, which ./dev test compiles with Go", path.display());
    None
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The ACME server, until it is dropped.
struct Pebble {
    process: Child,
    folder: PathBuf,
    port: u16,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

impl Pebble {
    /// Verifies names at this port of theirs, and issues for so many seconds.
    fn start(program: &Path, folder: &Path, tls_port: u16, validity_s: u32) -> Pebble {
        let folder = folder.join("pebble");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let made = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-newkey", "ec", "-days", "9"])
            .args(["-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", "/CN=localhost"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-out")
            .arg(folder.join("cert.pem"))
            .arg("-keyout")
            .arg(folder.join("key.pem"))
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        let port = free_port();
        let config = serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{port}"),
            "certificate": folder.join("cert.pem"),
            "privateKey": folder.join("key.pem"),
            "httpPort": 5002,
            "tlsPort": tls_port,
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": { "default": { "description": "short", "validityPeriod": validity_s } },
        } });
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        let log = fs::File::create(folder.join("log")).unwrap();
        let process = Command::new(program)
            .args(["-strict", "-config"])
            .arg(folder.join("config.json"))
            .env("PEBBLE_VA_NOSLEEP", "1")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Pebble { process, folder, port };
        let browser = Browser::at(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        wait_until("the ACME server answers", || browser.try_connect().ok());
        server
    }

    /// The lines of a broker's configuration.
    fn lines(&self, name: &str) -> String {
        format!(
            "acme = ['{name}']\nacme-contact = 'admin@example.org'\n\
             acme-directory = 'https://localhost:{}/dir'\nacme-roots = {:?}\n",
            self.port,
            self.folder.join("cert.pem")
        )
    }
}

/// Certificate that is shown, and who has issued it.
fn shown(browser: &Browser) -> (Vec<u8>, bool) {
    let connection = browser.connect();
    let chain = connection.conn.peer_certificates().unwrap();
    // The self-made certificate stands alone.
    (chain[0].to_vec(), chain.len() > 1)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// The processes for ACME of this broker.
fn acme_process(broker: &Broker) -> u32 {
    let parent = broker.process.id().to_string();
    wait_until("the process for ACME", || {
        let mut pgrep = Command::new("pgrep");
        let output = pgrep.args(["-P", &parent, "-f", "broker-part acme"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().ok()
    })
}

#[test]
fn a_certificate_is_issued_shown_renewed_with_its_key_and_found_again() {
    let Some(program) = (!is_skipped()).then(pebble).flatten() else { return };
    let port = free_port();
    let mut server = None;
    let mut broker =
        Broker::with("", "", &[SocketAddr::from((Ipv4Addr::LOCALHOST, port))], |folder| {
            // Renewed after a bit less than 16 s.
            let pebble = server.insert(Pebble::start(&program, folder, port, 24));
            pebble.lines("localhost")
        });
    let server = server.unwrap();
    let browser = broker.browser();
    let (first, _) = wait_until("an issued certificate", || {
        let shown = shown(&browser);
        shown.1.then_some(shown)
    });
    // People work meanwhile.
    let anna = broker.account();
    let page = logged_in(&broker, &anna);
    let process = acme_process(&broker);
    assert_eq!(
        (status(process, "Seccomp"), status(process, "NoNewPrivs")),
        ("2".into(), "1".into())
    );
    assert_ne!(status(process, "Uid").split_whitespace().next(), Some("0"));
    assert_eq!(u64::from_str_radix(&status(process, "CapPrm"), 16), Ok(0));
    let folder = broker.folder.join("state/acme");
    assert_eq!(mode(&folder), 0o700);
    for file in ["account.json", "certificate.pem"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    let key = |pem: &str| pem[..pem.find("-----BEGIN CERTIFICATE").unwrap()].to_owned();
    let before = fs::read_to_string(folder.join("certificate.pem")).unwrap();
    let account = fs::read_to_string(folder.join("account.json")).unwrap();

    let second = wait_until("a renewed certificate", || {
        let (certificate, _) = shown(&browser);
        (certificate != first).then_some(certificate)
    });
    assert_eq!(sessions(&page), Vec::<String>::new(), "the login is still valid");
    let after = fs::read_to_string(folder.join("certificate.pem")).unwrap();
    assert_eq!(key(&before), key(&after), "viewers in windows know this key");
    assert_eq!(fs::read_to_string(folder.join("account.json")).unwrap(), account);

    // Another broker shows it at once, also where no ACME server answers any more.
    drop(server);
    broker.restart(Signal::TERM);
    let (third, is_issued) = shown(&browser);
    assert!(is_issued && third == second, "the one that was kept");
}

#[test]
fn a_name_that_leads_elsewhere_is_a_failure_that_the_log_and_the_check_tell() {
    let Some(program) = (!is_skipped()).then(pebble).flatten() else { return };
    let mut server = None;
    // Nobody listens where the ACME server looks.
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let elsewhere = nowhere.local_addr().unwrap().port();
    drop(nowhere);
    let broker = Broker::with_config(|folder| {
        server.insert(Pebble::start(&program, folder, elsewhere, 3600)).lines("localhost")
    });
    let log = wait_until("a failure", || {
        let log = broker.log();
        log.contains("no certificate by ACME").then_some(log)
    });
    assert!(log.contains("localhost: ") && log.contains("the next try is in 1"), "{log}");
    // The self-made certificate serves meanwhile.
    let anna = broker.account();
    assert_eq!(sessions(&logged_in(&broker, &anna)), Vec::<String>::new());
    assert!(!shown(&broker.browser()).1);
    let mut check = Command::new(broker.folder.join("bin/thinc"));
    check.args(["broker", "--check", "--front-user", "nobody", "--config"]);
    check.arg(broker.folder.join("broker.toml")).arg("--state").arg(broker.folder.join("state"));
    let output = check.arg("--pam-service").arg(broker.service()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && words.contains("no certificate by ACME: 20"), "{words}");
}
