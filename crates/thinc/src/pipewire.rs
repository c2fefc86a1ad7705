//! PipeWire for programs of the session that know no other sound: its socket, where they look by
//! themselves, and the daemon, which plays into the session's sound server (sound.rs) as any
//! program. Beside supervisor.rs, which starts it when the first program connects. Knows paths,
//! configurations and one process; never sound.
//!
//! The daemon gets the listening socket as from systemd, by `LISTEN_FDS`, and starts WirePlumber,
//! without which nothing is linked and which ends with it. Neither finds the user's configuration,
//! a bus or a device of the server.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::net::UnixStream;
use tokio::process::Command;

use crate::log::create_folder;
use crate::processes::{Process, wait};
use crate::restarts::Restarts;
use crate::runtime_dir::{PIPEWIRE_SOCKET, PULSE_SOCKET, RuntimeDir, RuntimeError};
use crate::search;
use crate::serve_error::ServeError;
use crate::supervisor::write_private;
use crate::terminal::print_error;

/// Deaths in a row after which there is no PipeWire any more: programs that wait for it would
/// start it again and again.
const DEATHS_MAX: u32 = 5;

/// Descriptor 3 is the first that is passed by `LISTEN_FDS`, which is meant for this process.
const START: &str = "export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" -c \"$1\" 3<&0 </dev/null";

/// What it gets of the user's environment: where programs and libraries are.
const KEPT_ENVIRONMENT: [&str; 8] = [
    "PATH",
    "LANG",
    "LD_LIBRARY_PATH",
    "XDG_DATA_DIRS",
    "PIPEWIRE_MODULE_DIR",
    "SPA_PLUGIN_DIR",
    "WIREPLUMBER_MODULE_DIR",
    "WIREPLUMBER_DATA_DIR",
];

/// For WirePlumber 0.4: these files hide those of the same name that are installed, which would
/// look for devices. Without the module of default nodes it links to any sink, see `daemon_text`.
const SESSION_MANAGER_04: [(&str, &str); 3] = [
    (
        "main.lua.d",
        "load_module(\"metadata\")\n\
         default_access.properties[\"enable-flatpak-portal\"] = false\n\
         default_access.enable()\n\
         load_script(\"suspend-node.lua\")\n",
    ),
    (
        "policy.lua.d",
        "load_module(\"si-node\")\n\
         load_module(\"si-audio-adapter\")\n\
         load_module(\"si-standard-link\")\n\
         load_module(\"si-audio-endpoint\")\n\
         load_script(\"create-item.lua\")\n\
         load_script(\"policy-node.lua\", { move = true })\n",
    ),
    ("bluetooth.lua.d", ""),
];
const SESSION_MANAGER_04_FILE: &str = "90-enable-all.lua";

/// For WirePlumber 0.5, which adds it to what is installed.
const SESSION_MANAGER_05: &str = "\
wireplumber.profiles = {
  main = {
    hardware.audio = disabled
    hardware.bluetooth = disabled
    hardware.video-capture = disabled
    support.logind = disabled
    support.reserve-device = disabled
    support.portal-permissionstore = disabled
    script.client.access-portal = disabled
  }
}
";

/// The daemon, or that the session has none: without sound, where it is not installed, and after
/// too many deaths.
#[derive(Default)]
pub(crate) struct PipeWire(Option<Daemon>);

struct Daemon {
    listener: UnixListener,
    /// Their folder is `XDG_RUNTIME_DIR`.
    socket: PathBuf,
    pulse: PathBuf,
    program: PathBuf,
    session_manager: PathBuf,
    /// Its configuration, and all that it may want to write.
    folder: PathBuf,
    process: Option<Process>,
    /// Because the sound server was restarted, to which it is connected.
    was_ended: bool,
    starts: u32,
    restarts: Restarts,
}

impl PipeWire {
    /// Opens the socket in a session's folder, if the host has both programs.
    pub(crate) fn open(folder: &RuntimeDir) -> Result<PipeWire, RuntimeError> {
        let program = |name: &str| search::program(name.as_ref());
        let (Some(program), Some(session_manager)) = (program("pipewire"), program("wireplumber"))
        else {
            return Ok(PipeWire::default());
        };
        let socket = folder.join(PIPEWIRE_SOCKET);
        let listener = folder.listen(PIPEWIRE_SOCKET)?;
        // Who has left meanwhile must not block the daemon.
        listener
            .set_nonblocking(true)
            .map_err(|error| folder.error("listen on", &socket, error))?;
        let mut restarts = Restarts::new();
        restarts.ended();
        Ok(PipeWire(Some(Daemon {
            listener,
            socket,
            pulse: folder.join(PULSE_SOCKET),
            program,
            session_manager,
            folder: folder.join("pipewire"),
            process: None,
            was_ended: false,
            starts: 0,
            restarts,
        })))
    }

    /// Waits until it has to be started: it does not run, and a program waits in the socket.
    pub(crate) async fn needed(&mut self) {
        while let Some(daemon) = &mut self.0 {
            if daemon.process.is_none() {
                connected(&daemon.listener).await;
                return daemon.restarts.due().await;
            }
            let status = wait(&mut daemon.process).await;
            daemon.process = None;
            if std::mem::take(&mut daemon.was_ended) {
                daemon.restarts.ended();
                continue;
            }
            daemon.restarts.died();
            let deaths = daemon.restarts.in_row;
            let more = match deaths {
                DEATHS_MAX.. => "there is none from now on",
                _ => "a program that needs it starts it again",
            };
            print_error(&format!("thinc: PipeWire ended ({status}); {more}. See pipewire.log"));
            if deaths >= DEATHS_MAX {
                // Who waits in the socket is refused with its end.
                let _ = fs::remove_file(&daemon.socket);
                self.0 = None;
            }
        }
        std::future::pending().await
    }

    /// The command of it, of which `launch` makes a process; and how often it was started before.
    pub(crate) fn command(
        &self,
        launch: impl FnOnce(&[OsString]) -> Command,
    ) -> io::Result<(Command, u32)> {
        let daemon = self.0.as_ref().expect("it is needed");
        daemon.write_configuration()?;
        let configuration = daemon.folder.join("pipewire.conf").into_os_string();
        let program = daemon.program.clone().into_os_string();
        let words = ["/bin/sh".into(), "-c".into(), START.into(), program, configuration];
        let mut command = launch(&words);
        command.env_clear();
        for name in KEPT_ENVIRONMENT {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env(name, &daemon.folder);
        }
        command
            .env("XDG_RUNTIME_DIR", daemon.socket.parent().expect("it is in a folder"))
            .stdin(Stdio::from(OwnedFd::from(daemon.listener.try_clone()?)));
        Ok((command, daemon.starts))
    }

    /// It was started, or could not be.
    pub(crate) fn started(&mut self, process: Result<Process, ServeError>) {
        let Some(daemon) = &mut self.0 else { return };
        match process {
            Ok(process) => (daemon.process, daemon.starts) = (Some(process), daemon.starts + 1),
            Err(error) => {
                print_error(&format!("thinc: {error}"));
                daemon.restarts.failed();
            }
        }
    }

    /// Ends it: it does not connect again to a sound server that was restarted.
    pub(crate) fn end(&mut self) {
        if let Some(Daemon { process: Some(process), was_ended, .. }) = &mut self.0 {
            *was_ended = true;
            // It may have ended by itself, which is as good.
            let _ = process.child.start_kill();
        }
    }

    /// Its process, if it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.0.as_ref()?.process.as_ref()?.child.id()
    }
}

impl Daemon {
    fn write_configuration(&self) -> io::Result<()> {
        let manager = self.folder.join("wireplumber");
        let text = daemon_text(&self.pulse, &self.session_manager);
        write_new(&self.folder, "pipewire.conf", &text)?;
        for (folder, text) in SESSION_MANAGER_04 {
            write_new(&manager.join(folder), SESSION_MANAGER_04_FILE, text)?;
        }
        write_new(&manager.join("wireplumber.conf.d"), "thinc.conf", SESSION_MANAGER_05)
    }
}

fn write_new(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    create_folder(folder)?;
    write_private(&folder.join(name), text.as_bytes())
}

/// Waits until somebody waits to be accepted.
async fn connected(listener: &UnixListener) {
    // Tokio's own listener can be asked only by accepting; of this stream nothing but its readiness
    // is asked. It is a copy for this wait: while the daemon runs, its programs do not wake us.
    let copy = listener.try_clone().map(|copy| OwnedFd::from(copy).into());
    if let Ok(copy) = copy.and_then(UnixStream::from_std)
        && copy.readable().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// The daemon's configuration.
///
/// The sink is no "Audio/Sink", so programs that know PulseAudio's protocol too and look for sinks
/// first (mpv, SDL 3, OpenAL) find none and use that: there they learn how late they are heard, and
/// are 100 ms earlier. The driver is the clock of the graph. There is no source, since a tunnel
/// would record the viewer's microphone from its start.
fn daemon_text(pulse: &Path, session_manager: &Path) -> String {
    // Its strings are JSON's.
    let quote = |text: &str| serde_json::to_string(text).expect("a string is JSON");
    let pulse = quote(&format!("unix:{}", pulse.display()));
    let session_manager = quote(&session_manager.to_string_lossy());
    format!(
        "\
context.properties = {{
  core.daemon = true
  core.name = pipewire-0
  support.dbus = false
  default.clock.rate = 48000
  default.clock.quantum = 512
  default.clock.min-quantum = 512
}}
context.spa-libs = {{
  audio.convert.* = audioconvert/libspa-audioconvert
  support.* = support/libspa-support
}}
context.modules = [
  {{ name = libpipewire-module-protocol-native }}
  {{ name = libpipewire-module-metadata }}
  {{ name = libpipewire-module-spa-node-factory }}
  {{ name = libpipewire-module-client-node }}
  {{ name = libpipewire-module-access }}
  {{ name = libpipewire-module-adapter }}
  {{ name = libpipewire-module-link-factory }}
  {{ name = libpipewire-module-session-manager }}
  {{
    name = libpipewire-module-pulse-tunnel
    args = {{
      tunnel.mode = sink
      pulse.server.address = {pulse}
      pulse.latency = 100
      node.name = thinc.speakers
      node.description = \"Speakers of the viewer\"
      audio.format = F32
      audio.rate = 48000
      stream.props = {{ media.class = \"Audio/Sink/Internal\" }}
    }}
  }}
]
context.objects = [
  {{
    factory = spa-node-factory
    args = {{
      factory.name = support.node.driver
      node.name = thinc.clock
      priority.driver = 20000
    }}
  }}
]
context.exec = [ {{ path = {session_manager} args = \"\" }} ]
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_in_the_configuration() {
        let text = daemon_text(Path::new("/run/a \"b/pulse"), Path::new("/usr/bin/wireplumber"));
        assert!(text.contains(r#"pulse.server.address = "unix:/run/a \"b/pulse""#), "{text}");
        assert!(text.contains(r#"context.exec = [ { path = "/usr/bin/wireplumber" args"#));
    }
}
