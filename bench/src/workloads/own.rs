//! thinc-bench's own applications on a stage: started, waited for until they are seen, and their last words when they end.
//! Under the workloads that show them. Knows processes and the client's screen; never what is measured.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Error;
use crate::apps;
use crate::process::Running;
use crate::stage::Stage;

/// Longest until an application is seen on the client's screen: a satellite link and a busy machine.
const SHOWN_LIMIT: Duration = Duration::from_secs(60);

/// Shows an own application: `show(stage, "latency", &["latency"])`.
pub(super) fn show(stage: &Stage, name: &'static str, words: &[&str]) -> Result<Running, Error> {
    let words = apps::words(words)?;
    let mut command = stage.command(&words[0]);
    command.args(&words[1..]);
    show_command(stage, name, command)
}

/// Starts an application and waits until the client's screen shows it and rests.
pub(super) fn show_command(stage: &Stage, name: &'static str, command: Command) -> Result<Running, Error> {
    let watch = stage.site.screen.watch()?;
    let mut running = stage.application(name, command)?;
    let began = Instant::now();
    while !watch.changed() {
        running.check().map_err(|error| format!("{error}: {}", last_words(stage, name)))?;
        if began.elapsed() > SHOWN_LIMIT {
            return Err(format!("{name} is not on the client's screen within {} s", SHOWN_LIMIT.as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    stage.wait_shown(name, watch)?;
    running.check().map_err(|error| format!("{error}: {}", last_words(stage, name)))?;
    Ok(running)
}

/// The last line of what an application wrote.
fn last_words(stage: &Stage, name: &str) -> String {
    let log = std::fs::read_to_string(stage.site.folder.path().join(format!("{name}.log"))).unwrap_or_default();
    log.lines().last().unwrap_or("it said nothing").to_owned()
}
