//! A real sshd of the test's own on the loopback, with keys, configuration and port of its own, and a proxy before it whose
//! connections can be made to stand still, as a network does that says nothing of its end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use thinc_bench::Error;
use thinc_bench::process::{Folder, Headless, Running, binary, wait_for};

/// sshd, and who may come in.
pub struct Sshd {
    folder: Folder,
    config: PathBuf,
    proxy: Arc<Proxy>,
    running: Running,
}

impl Sshd {
    /// Starts one whose logins run what they were asked to, after `prelude`, which a shell does first.
    pub fn start(name: &str, prelude: &str) -> Result<Sshd, Error> {
        let folder = Folder::new(&format!("ssh-{name}"))?;
        let at = folder.path().to_owned();
        for part in ["run", "state"] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(at.join(part))?;
        }
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at.join(key));
            assert!(keygen.status()?.success(), "ssh-keygen makes a key");
        }
        fs::copy(at.join("user_key.pub"), at.join("authorized_keys"))?;
        // sshd of root gives up its rights in there.
        let _ = fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let driver =
            std::env::var("THINC_DRIVER_DIR").map(|dir| format!(" THINC_DRIVER_DIR={dir}")).unwrap_or_default();
        let here = at.display();
        let mut text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host_key\nAuthorizedKeysFile {here}/authorized_keys\n\
             PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv XDG_RUNTIME_DIR={here}/run XDG_STATE_HOME={here}/state{driver}\n"
        );
        if !prelude.is_empty() {
            text += &format!("ForceCommand {prelude}; eval \"$SSH_ORIGINAL_COMMAND\"\n");
        }
        fs::write(at.join("sshd_config"), text)?;
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.arg("-D").arg("-f").arg(at.join("sshd_config")).arg("-E").arg(at.join("sshd.log"));
        let mut running = Running::start("sshd", sshd.stdin(Stdio::null()))?;
        let proxy = Proxy::start(([127, 0, 0, 1], port).into())?;
        let config = at.join("ssh_config");
        // Three names of it: as it is, behind itself as a jump host, and by a connection that all share.
        fs::write(
            &config,
            format!(
                "Host beyond\nProxyJump there\nHost shared\nControlMaster auto\nControlPath {here}/master\n\
                 Host there beyond shared\nHostName 127.0.0.1\nPort {}\nIdentityFile {here}/user_key\n\
                 IdentitiesOnly yes\nUserKnownHostsFile {here}/known_hosts\nStrictHostKeyChecking accept-new\n\
                 IdentityAgent none\nLogLevel ERROR\n",
                proxy.port
            ),
        )?;
        wait_for("sshd listens", Duration::from_secs(10), || {
            running.check().ok()?;
            TcpStream::connect(("127.0.0.1", port)).ok()
        })?;
        Ok(Sshd { folder, config, proxy, running })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Where this test may put files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Options that lead `thinc-view` here.
    pub fn options(&self, thinc: &Path) -> [String; 4] {
        let ssh = format!("ssh -F {}", self.config.display());
        ["--ssh".into(), ssh, "--thinc".into(), thinc.display().to_string()]
    }

    /// A viewer of the session at `place`, which runs `command` if it has to be started.
    pub fn viewer(&self, place: &str, command: &[&str]) -> Result<Headless, Error> {
        self.viewer_at(&format!("there{place}"), command)
    }

    /// The same by another of its names: `there`, `beyond` or `shared`.
    pub fn viewer_at(&self, place: &str, command: &[&str]) -> Result<Headless, Error> {
        let options = self.options(&binary("thinc")?);
        let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
        if !command.is_empty() {
            options.push("--");
            options.extend(command);
        }
        Headless::start_with(&format!("ssh://{place}"), &options)
    }

    /// A login that runs this.
    pub fn ssh(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(&self.config).args(["-T", "there", line]).stdin(Stdio::null());
        command
    }

    /// Runs `thinc-view --headless` to its end.
    pub fn view(&self, place: &str, thinc: &Path, more: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(binary("thinc-view")?);
        command.arg(format!("ssh://{place}")).args(self.options(thinc)).arg("--headless").args(more);
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// `thinc` as a login here would run it.
    pub fn thinc(&self, arguments: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(binary("thinc")?);
        command.env("XDG_RUNTIME_DIR", self.folder().join("run")).env("XDG_STATE_HOME", self.folder().join("state"));
        Ok(command.args(arguments).output()?)
    }

    /// What `thinc list` says of the sessions.
    pub fn sessions(&self) -> Result<Vec<serde_json::Value>, Error> {
        Ok(serde_json::from_slice(&self.thinc(&["list", "--json"])?.stdout)?)
    }

    /// A program here in place of another.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.folder().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Connections that came until now.
    pub fn connections(&self) -> u64 {
        self.proxy.gate.lock().map_or(0, |gate| gate.connections)
    }

    /// Connections that are open now stand still: nothing goes through and nothing is said.
    pub fn freeze(&self) {
        self.proxy.set(|gate| gate.frozen_below = gate.connections);
    }

    /// They go on, with all that was sent meanwhile.
    pub fn thaw(&self) {
        self.proxy.set(|gate| gate.frozen_below = 0);
    }
}

impl Drop for Sshd {
    /// Sessions do not end with who started them; here they do.
    fn drop(&mut self) {
        for session in self.sessions().unwrap_or_default() {
            let _ = self.thinc(&["stop", session["name"].as_str().unwrap_or_default()]);
        }
    }
}

/// Carries connections on to sshd.
struct Proxy {
    port: u16,
    gate: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Default)]
struct Gate {
    connections: u64,
    /// Connections before this one stand still.
    frozen_below: u64,
}

impl Proxy {
    fn start(to: SocketAddr) -> Result<Arc<Proxy>, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let proxy = Arc::new(Proxy { port, gate: Mutex::default(), changed: Condvar::new() });
        let shared = proxy.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(to) else { continue };
                let _ = (near.set_nodelay(true), far.set_nodelay(true));
                let number = shared.gate.lock().map(|mut gate| {
                    gate.connections += 1;
                    gate.connections - 1
                });
                let Ok(number) = number else { return };
                for (from, to) in [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))] {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let shared = shared.clone();
                    thread::spawn(move || shared.carry(number, from, to));
                }
            }
        });
        Ok(proxy)
    }

    fn set(&self, change: impl FnOnce(&mut Gate)) {
        change(&mut self.gate.lock().expect("no holder of this lock can panic"));
        self.changed.notify_all();
    }

    /// One direction of one connection; its end is as silent as its bytes while it stands still.
    fn carry(&self, number: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let gate = self.gate.lock().expect("no holder of this lock can panic");
            let passed = self.changed.wait_while(gate, |gate| number < gate.frozen_below);
            drop(passed.expect("no holder of this lock can panic"));
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}
