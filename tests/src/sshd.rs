//! A real sshd on the loopback, with its own keys, configuration and port, behind a proxy that can
//! freeze connections, like a network that silently goes away.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use thinc_bench::Error;
use thinc_bench::process::{Folder, Headless, Running, binary, wait_for};

use crate::EVENT_TIMEOUT;

/// sshd, and the configuration of its clients.
pub struct Sshd {
    folder: Folder,
    config: PathBuf,
    proxy: Arc<Proxy>,
    running: Running,
    /// Options of the `ssh` that viewers start, in addition to the configuration.
    pub ssh_options: String,
    /// More options of viewers; at first they stay in the tunnel, which tests break and freeze.
    pub viewer_options: Vec<String>,
}

impl Sshd {
    /// Starts an sshd whose logins run `prelude` in a shell before the requested command.
    pub fn start(name: &str, prelude: &str) -> Result<Sshd, Error> {
        let folder = Folder::new(&format!("ssh-{name}"))?;
        let at = folder.path().to_owned();
        for part in ["run", "state"] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(at.join(part))?;
        }
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at.join(key));
            assert!(keygen.status()?.success(), "ssh-keygen generates a key");
        }
        fs::copy(at.join("user_key.pub"), at.join("authorized_keys"))?;
        // sshd of root needs this folder for privilege separation.
        let _ = fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let driver = std::env::var("THINC_DRIVER_DIR")
            .map(|dir| format!(" THINC_DRIVER_DIR={dir}"))
            .unwrap_or_default();
        let path = at.display();
        let mut text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host_key\n\
             AuthorizedKeysFile {path}/authorized_keys\nPidFile none\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv XDG_RUNTIME_DIR={path}/run XDG_STATE_HOME={path}/state{driver}\n"
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
        // Three host names for it: directly, behind itself as a jump host, and over a shared
        // connection.
        fs::write(
            &config,
            format!(
                "Host beyond\nProxyJump there\n\
                 Host shared\nControlMaster auto\nControlPath {path}/master\n\
                 Host there beyond shared\nHostName 127.0.0.1\nPort {}\n\
                 IdentityFile {path}/user_key\nIdentitiesOnly yes\n\
                 UserKnownHostsFile {path}/known_hosts\nStrictHostKeyChecking accept-new\n\
                 IdentityAgent none\nLogLevel ERROR\n",
                proxy.port
            ),
        )?;
        wait_for("sshd listens", EVENT_TIMEOUT, || {
            running.check().ok()?;
            TcpStream::connect(("127.0.0.1", port)).ok()
        })?;
        let viewer_options = ["--transport", "tunnel"].map(str::to_owned).into();
        Ok(Sshd { folder, config, proxy, running, ssh_options: String::new(), viewer_options })
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// A folder for the test's files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Options that make `thinc-view` use this sshd.
    pub fn program(&self) -> [String; 2] {
        ["--ssh".into(), format!("ssh -F {} {}", self.config.display(), self.ssh_options)]
    }

    /// The same, with the path of thinc on the host.
    pub fn options(&self, thinc: &Path) -> [String; 4] {
        let [option, ssh] = self.program();
        [option, ssh, "--thinc".into(), thinc.display().to_string()]
    }

    /// A viewer of the session at `place`, which runs `command` if it has to be started.
    pub fn viewer(&self, place: &str, command: &[&str]) -> Result<Headless, Error> {
        self.viewer_at(&format!("there{place}"), command)
    }

    /// The same with one of its host names: `there`, `beyond` or `shared`.
    pub fn viewer_at(&self, place: &str, command: &[&str]) -> Result<Headless, Error> {
        let options = self.options(&binary("thinc")?);
        let mut options: Vec<&str> =
            options.iter().chain(&self.viewer_options).map(String::as_str).collect();
        if !command.is_empty() {
            options.push("--");
            options.extend(command);
        }
        Headless::start_with(&format!("ssh://{place}"), &options)
    }

    /// A login that runs this command.
    pub fn ssh(&self, line: &str) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-F").arg(&self.config).args(["-T", "there", line]).stdin(Stdio::null());
        command
    }

    /// Runs `thinc-view --headless` until it ends.
    pub fn view(&self, place: &str, thinc: &Path, more: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(binary("thinc-view")?);
        command
            .arg(format!("ssh://{place}"))
            .args(self.options(thinc))
            .arg("--headless")
            .args(more);
        Ok(command.stdin(Stdio::null()).output()?)
    }

    /// Runs `thinc` like a login.
    pub fn thinc(&self, arguments: &[&str]) -> Result<Output, Error> {
        let mut command = Command::new(binary("thinc")?);
        command
            .env("XDG_RUNTIME_DIR", self.folder().join("run"))
            .env("XDG_STATE_HOME", self.folder().join("state"));
        Ok(command.args(arguments).output()?)
    }

    /// The sessions that `thinc list` shows.
    pub fn sessions(&self) -> Result<Vec<serde_json::Value>, Error> {
        Ok(serde_json::from_slice(&self.thinc(&["list", "--json"])?.stdout)?)
    }

    /// Writes a shell script that replaces a program.
    pub fn script(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.folder().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n"))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    /// Number of connections so far.
    pub fn connections(&self) -> u64 {
        self.proxy.state.lock().map_or(0, |state| state.connections)
    }

    /// Freezes the open connections: no byte passes, and no end of a connection.
    pub fn freeze(&self) {
        self.proxy.set(|state| state.frozen_below = state.connections);
    }

    /// Continues them, with everything that was sent meanwhile.
    pub fn thaw(&self) {
        self.proxy.set(|state| state.frozen_below = 0);
    }
}

impl Drop for Sshd {
    /// Ends the sessions, which outlive the viewers that started them.
    fn drop(&mut self) {
        for session in self.sessions().unwrap_or_default() {
            let _ = self.thinc(&["stop", session["name"].as_str().unwrap_or_default()]);
        }
    }
}

/// Forwards connections to sshd.
struct Proxy {
    port: u16,
    state: Mutex<ProxyState>,
    changed: Condvar,
}

#[derive(Default)]
struct ProxyState {
    connections: u64,
    /// Connections before this one are frozen.
    frozen_below: u64,
}

impl Proxy {
    fn start(to: SocketAddr) -> Result<Arc<Proxy>, Error> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let proxy = Arc::new(Proxy { port, state: Mutex::default(), changed: Condvar::new() });
        let shared = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(to) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let number = shared.state.lock().map(|mut state| {
                    state.connections += 1;
                    state.connections - 1
                });
                let Ok(number) = number else { return };
                for (from, to) in
                    [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))]
                {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let shared = shared.clone();
                    thread::spawn(move || shared.forward(number, from, to));
                }
            }
        });
        Ok(proxy)
    }

    fn set(&self, change: impl FnOnce(&mut ProxyState)) {
        change(&mut self.state.lock().expect("no holder of this lock can panic"));
        self.changed.notify_all();
    }

    /// Forwards one direction of a connection; while it is frozen, neither bytes nor its end pass.
    fn forward(&self, number: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let count = from.read(&mut buffer).unwrap_or(0);
            let state = self.state.lock().expect("no holder of this lock can panic");
            let passed = self.changed.wait_while(state, |state| number < state.frozen_below);
            drop(passed.expect("no holder of this lock can panic"));
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}
