//! mpv on the whole screen, as a person plays a video, controlled through its socket on the server.
//! From commands to a picture on the session's screen; no command crosses the network. Knows the
//! player; never what is measured.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Error;
use crate::process::{Running, wait_for};
use crate::stage::Stage;

/// Options of the player. By default it drops late frames, which is kept.
const OPTIONS: &[&str] = &[
    "--no-config",
    "--no-audio",
    "--no-terminal",
    "--no-osc",
    "--osd-level=0",
    "--no-input-default-bindings",
    "--fs",
    "--no-border",
    // The video is stored 352x240 and shown 4:3, whatever pixel aspect ratio the file has.
    "--no-keepaspect",
    "--hwdec=no",
    "--stop-screensaver=no",
    "--keep-open=yes",
    "--pause",
];

/// Through what it draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// XVideo if the display has it, else plain images.
    Best,
    /// Plain images.
    Images,
}

/// Longest wait for a reply: the player may wait for an X server whose viewer waits for the
/// network.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A player that shows the first picture of its video and waits.
pub(super) struct Player {
    /// Its process; dropped, it ends.
    pub(super) running: Running,
    commands: UnixStream,
    answers: BufReader<UnixStream>,
    next_id: u64,
}

impl Player {
    /// Starts it with a video; returns once it listens, before it shows a frame.
    pub(super) fn start(stage: &Stage, video: &Path, output: Output) -> Result<Player, Error> {
        let folder = stage.site.folder.path();
        let (socket, log) = (folder.join("mpv.socket"), folder.join("mpv.own.log"));
        let _ = fs::remove_file(&socket);
        let (width, height) = stage.site.size;
        let mut command = stage.command("mpv");
        let output = match output {
            Output::Best => "--vo=xv,x11",
            Output::Images => "--vo=x11",
        };
        command
            .args(OPTIONS)
            .arg(output)
            .env("HOME", folder)
            .env("XDG_CONFIG_HOME", folder)
            .env("XDG_CACHE_HOME", folder);
        command
            .arg(format!("--geometry={width}x{height}+0+0"))
            .arg(format!("--log-file={}", log.display()));
        command.arg(format!("--input-ipc-server={}", socket.display())).arg(video);
        let mut running = stage.application("mpv", command)?;
        let commands = wait_for("mpv listens", Duration::from_secs(30), || {
            if running.check().is_err() {
                return Some(None);
            }
            UnixStream::connect(&socket).ok().map(Some)
        })?;
        let last = || {
            fs::read_to_string(&log)
                .unwrap_or_default()
                .lines()
                .last()
                .unwrap_or_default()
                .to_owned()
        };
        let commands = commands.ok_or_else(|| format!("mpv ended before it played: {}", last()))?;
        commands.set_read_timeout(Some(ANSWER_LIMIT))?;
        let answers = BufReader::new(commands.try_clone()?);
        Ok(Player { running, commands, answers, next_id: 0 })
    }

    /// Sends a command and returns the data of its reply.
    pub(super) fn command(&mut self, command: &[Value]) -> Result<Value, Error> {
        self.next_id += 1;
        writeln!(self.commands, "{}", json!({ "command": command, "request_id": self.next_id }))?;
        loop {
            let mut line = String::new();
            let read = self.answers.read_line(&mut line).map_err(|error| match error.kind() {
                ErrorKind::WouldBlock => {
                    format!("mpv does not answer {command:?} within {} s", ANSWER_LIMIT.as_secs())
                }
                _ => format!("mpv's socket: {error}"),
            })?;
            if read == 0 {
                return Err("mpv closed its socket".into());
            }
            let answer: Value = serde_json::from_str(&line)?;
            // Events may precede the reply.
            if answer["request_id"] != json!(self.next_id) || answer.get("error").is_none() {
                continue;
            }
            return match answer["error"].as_str() {
                Some("success") => Ok(answer["data"].clone()),
                error => {
                    Err(format!("mpv: {command:?}: {}", error.unwrap_or("no error text")).into())
                }
            };
        }
    }

    /// Starts playing; returns the time of the command.
    pub(super) fn play(&mut self) -> Result<Instant, Error> {
        let now = Instant::now();
        self.command(&[json!("set_property"), json!("pause"), json!(false)])?;
        Ok(now)
    }

    /// Shows the next frame and pauses.
    pub(super) fn step(&mut self) -> Result<(), Error> {
        self.command(&[json!("frame-step")]).map(drop)
    }

    /// Whether it has reached the end of its video.
    pub(super) fn at_end(&mut self) -> Result<bool, Error> {
        Ok(self.command(&[json!("get_property"), json!("eof-reached")])? == json!(true))
    }

    /// Through what it draws: "xv" or "x11".
    pub(super) fn output(&mut self) -> Result<String, Error> {
        Ok(self
            .command(&[json!("get_property"), json!("current-vo")])?
            .as_str()
            .unwrap_or("unknown")
            .to_owned())
    }

    /// Frames that it dropped because it was late.
    pub(super) fn dropped(&mut self) -> Result<f64, Error> {
        Ok(self
            .command(&[json!("get_property"), json!("frame-drop-count")])?
            .as_f64()
            .unwrap_or(0.0))
    }
}
