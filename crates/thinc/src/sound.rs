//! The sound server of a session: its sockets, and what programs have to know to find it. Under
//! desk.rs, which has the process. Knows paths and variables; never sound.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use thinc_desk::ServiceSockets;

use crate::log::create_folder;
use crate::runtime_dir::{DESK_SOCKET, PULSE_SOCKET, RuntimeDir, RuntimeError};

/// ALSA's own configuration, before which nothing is defined.
const ALSA_CONFIG: &str = "/usr/share/alsa/alsa.conf";
/// Programs that know ALSA alone play through PulseAudio's plugin.
const ALSA_TEXT: &str = "\
pcm.!default { type pulse hint { show on description \"Sound of the viewer\" } }
ctl.!default { type pulse }
";
/// Where libasound looks for plugins, beside the folders of the distribution's architectures.
const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/alsa-lib", "/usr/lib64/alsa-lib"];
const PLUGIN: &str = "libasound_module_pcm_pulse.so";

/// The user's own sound, which programs of the session must not find: also without sound of the
/// session, because they would play it on the server.
pub(crate) const REMOVED_ENVIRONMENT: [&str; 9] = [
    "PULSE_SERVER",
    "PULSE_SINK",
    "PULSE_SOURCE",
    "PULSE_RUNTIME_PATH",
    "PULSE_CLIENTCONFIG",
    "PIPEWIRE_REMOTE",
    "PIPEWIRE_RUNTIME_DIR",
    "ALSA_CONFIG_PATH",
    "QT_AUDIO_BACKEND",
];

/// Where the sound server's sockets are.
#[derive(Debug)]
pub(crate) struct SoundServer {
    pulse: PathBuf,
    alsa: Option<PathBuf>,
}

impl SoundServer {
    /// Opens the sockets in a session's folder. The one for programs is where they look by
    /// themselves, also those whose sandbox passes on nothing but that place.
    pub(crate) fn open(folder: &RuntimeDir) -> Result<(SoundServer, ServiceSockets), RuntimeError> {
        let pulse = folder.join(PULSE_SOCKET);
        let parent = pulse.parent().expect("it is in a folder of its own");
        create_folder(parent).map_err(|error| folder.error("create", parent, error))?;
        let sockets = ServiceSockets {
            programs: folder.listen(PULSE_SOCKET)?,
            link: folder.listen(DESK_SOCKET)?,
        };
        let alsa = folder.join("alsa.conf");
        let alsa = if has_alsa_plugin() {
            fs::write(&alsa, ALSA_TEXT).map_err(|error| folder.error("write", &alsa, error))?;
            Some(alsa)
        } else {
            None
        };
        Ok((SoundServer { pulse, alsa }, sockets))
    }

    /// What programs find it by.
    pub(crate) fn environment(&self) -> Vec<(&'static str, OsString)> {
        let with = |start: &str, path: &Path| {
            let mut value = OsString::from(start);
            value.push(path);
            value
        };
        let mut variables = vec![
            ("PULSE_SERVER", with("unix:", &self.pulse)),
            // Qt from 6.10 on prefers PipeWire without asking whether it has a sink: pipewire.rs.
            ("QT_AUDIO_BACKEND", "pulseaudio".into()),
        ];
        if let Some(alsa) = &self.alsa {
            variables.push(("ALSA_CONFIG_PATH", with(&format!("{ALSA_CONFIG}:"), alsa)));
        }
        variables
    }
}

/// Without the plugin the configuration would break programs that play through ALSA in another way.
fn has_alsa_plugin() -> bool {
    let by_architecture = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let folders = by_architecture.map(|entry| entry.path().join("alsa-lib"));
    let mut folders = folders.chain(PLUGIN_FOLDERS.map(PathBuf::from));
    Path::new(ALSA_CONFIG).exists() && folders.any(|folder| folder.join(PLUGIN).exists())
}
