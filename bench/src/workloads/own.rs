//! thinc-bench's own applications on a stage: started, waited for until they are seen, and their
//! last output when they end. Under the workloads that show them. Knows processes and the viewer's
//! screen; never what is measured.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Error;
use crate::apps;
use crate::process::Running;
use crate::stage::Stage;

/// Longest wait until the client's screen shows an application: a satellite link and a busy
/// machine.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);

/// Shows an own application: `show(stage, "latency", &["latency"])`.
pub(crate) fn show(stage: &Stage, name: &'static str, words: &[&str]) -> Result<Running, Error> {
    let words = apps::words(words)?;
    let mut command = stage.command(&words[0]);
    command.args(&words[1..]);
    show_command(stage, name, command)
}

/// Starts an application and waits until the client's screen shows it and is idle.
pub(crate) fn show_command(
    stage: &Stage,
    name: &'static str,
    command: Command,
) -> Result<Running, Error> {
    let watch = stage.site.screen.watch()?;
    let mut running = stage.application(name, command)?;
    let began = Instant::now();
    while !watch.changed() {
        check(stage, name, &mut running)?;
        if began.elapsed() > SHOWN_LIMIT {
            let seconds = SHOWN_LIMIT.as_secs();
            return Err(format!(
                "{name} is not on the client's screen within {seconds} s{}",
                kept(stage, name)
            )
            .into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.wait_shown(name, watch)?;
    check(stage, name, &mut running)?;
    Ok(running)
}

/// An error with an application's last output if it has ended.
pub(crate) fn check(stage: &Stage, name: &str, running: &mut Running) -> Result<(), Error> {
    running.check().map_err(|error| {
        let log = std::fs::read_to_string(stage.site.folder.path().join(format!("{name}.log")))
            .unwrap_or_default();
        format!("{error}: {}", log.lines().last().unwrap_or("it printed nothing")).into()
    })
}

/// Writes what both ends show, to explain a failure: "; see /tmp/..." or nothing if
/// that fails too.
pub(crate) fn kept(stage: &Stage, name: &str) -> String {
    let file = |end: &str| {
        let file = format!("thinc-bench-{}-{name}-{end}.png", std::process::id());
        std::env::temp_dir().join(file)
    };
    let (server, client) = (file("server"), file("client"));
    let server_shown = stage.server_picture().and_then(|picture| picture.write_png(&server));
    let client_shown = stage.site.screen.picture().and_then(|picture| picture.write_png(&client));
    match server_shown.and(client_shown) {
        Ok(()) => format!("; see {} and {}", server.display(), client.display()),
        Err(_) => String::new(),
    }
}
