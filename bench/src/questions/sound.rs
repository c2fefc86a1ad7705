//! Question: how late is the session's sound heard, what of it is missing, and what does it cost?
//! Bursts and a tone are played in the session and read at the viewer's sound card (the ear). Then,
//! if asked: how much later is a key's echo while music plays, and how far are the sound and the
//! picture of one moment apart?

mod delay;
mod echo;
mod lips;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::Question;
use crate::Error;
use crate::apps::sound::Pattern;
use crate::apps::words;
use crate::observe::heard::{Bursts, onsets_ns};
use crate::process::{Folder, Running, interrupted, wait_for};
use crate::stage::Stage;
use crate::workloads::Workload;

/// The question.
#[derive(Args, Clone)]
pub struct Sound {
    /// What is measured
    #[arg(
        long = "of",
        value_enum,
        value_name = "PART",
        value_delimiter = ',',
        default_value = "delay"
    )]
    parts: Vec<Part>,
    /// Who plays the clip of "lips"
    #[arg(long, value_enum, value_delimiter = ',', default_value = "mpv,chromium,firefox")]
    by: Vec<lips::Player>,
}

/// One part of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// From a program's write to the ear, what is missing, and the cost
    Delay,
    /// The echo of a key without sound and with music
    Echo,
    /// Sound against picture
    Lips,
}

impl Question for Sound {
    const NAME: &'static str = "sound";
    const PEERS: &'static str = "thinc-quic,thinc-tcp,thinc-web,thinc-firefox,xpra,xrdp";
    const LINKS: &'static [&'static str] =
        &["lan", "wan", "wan:loss=1%", "wan:loss=5%", "wan:loss=10%"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        let mut all: Vec<Box<dyn Workload>> = Vec::new();
        for part in &self.parts {
            match part {
                Part::Delay => all.push(Box::new(delay::Delay)),
                Part::Echo => all.push(Box::new(echo::Echo)),
                Part::Lips => {
                    let folder = Arc::new(Folder::new("lips")?);
                    let one = |&by| -> Box<dyn Workload> {
                        Box::new(lips::Lips::new(by, Arc::clone(&folder)))
                    };
                    all.extend(self.by.iter().map(one));
                }
            }
        }
        Ok(all)
    }
}

/// Longest until the first sound is heard: a browser starts its audio process for it.
const OPENING: Duration = Duration::from_secs(30);
/// Longest wait for the player beyond its time: a server that stands still.
const PLAYER_LIMIT: Duration = Duration::from_secs(20);
/// The ear has heard all once nothing new was heard for so long.
const HEARD_ALL: Duration = Duration::from_millis(1500);
/// A peer that is later than this is not waited for.
const LATE_MAX: Duration = Duration::from_secs(15);

/// The application that plays, and what it says.
struct Player {
    running: Running,
    log: PathBuf,
}

impl Player {
    fn start(stage: &Stage, pattern: Pattern, seconds: f64) -> Result<Player, Error> {
        let seconds = seconds.to_string();
        let words = words(&["sound", "--pattern", pattern.name(), "--seconds", &seconds])?;
        let mut command = stage.command(&words[0]);
        command.args(&words[1..]);
        let running = stage.application("sound", command)?;
        let log = stage.site.folder.path().join("sound.log");
        let mut player = Player { running, log };
        player.wait_for("began", PLAYER_LIMIT)?;
        Ok(player)
    }

    /// The times that it has said after this word.
    fn said(&self, word: &str) -> Vec<u64> {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        // A line that is being written has no end yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().filter_map(|line| line.strip_prefix(word)?.trim().parse().ok()).collect()
    }

    fn wait_for(&mut self, word: &str, limit: Duration) -> Result<(), Error> {
        let said = wait_for(&format!("the player says that it has {word}"), limit, || {
            // Asked before its words are read: what it has said last is not missed.
            let has_ended = self.running.check().is_err();
            match self.said(word).is_empty() {
                false => Some(true),
                true => has_ended.then_some(false),
            }
        })?;
        if said {
            return Ok(());
        }
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        Err(format!("the player: {}", text.lines().last().unwrap_or("it said nothing")).into())
    }

    /// Waits until it has played all; the times of its bursts.
    fn finish(mut self, seconds: f64) -> Result<Vec<u64>, Error> {
        self.wait_for("ended", Duration::from_secs_f64(seconds) + PLAYER_LIMIT)?;
        Ok(self.said("burst"))
    }
}

/// Lets a program of the session play bursts, and says what was heard of them.
///
/// # Errors
/// The program or the viewer plays nothing at all, or nobody listens.
pub fn bursts(stage: &Stage, seconds: f64) -> Result<Bursts, Error> {
    open_ears(stage)?;
    let written = Player::start(stage, Pattern::Bursts, seconds)?.finish(seconds)?;
    wait_heard(stage)?;
    Ok(Bursts::new(&written, &onsets_ns(&stage.site.ear()?.heard().pieces)))
}

/// Waits until nothing more is heard of what was played.
fn wait_heard(stage: &Stage) -> Result<(), Error> {
    let ear = stage.site.ear()?;
    let began = Instant::now();
    let (mut last, mut since) = (ear.loud_samples(), Instant::now());
    while since.elapsed() < HEARD_ALL && began.elapsed() < LATE_MAX {
        if interrupted() {
            return Err("interrupted".into());
        }
        std::thread::sleep(Duration::from_millis(100));
        let now = ear.loud_samples();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    Ok(())
}

/// Lets the viewer play sound, which browsers do after a key or click of a person, and waits until
/// a sound of the session is heard.
fn open_ears(stage: &Stage) -> Result<(), Error> {
    // Browsers take no key that only modifies others for a person's wish to hear.
    stage.input.click(1)?;
    let ear = stage.site.ear()?;
    let before = ear.loud_samples();
    let player = Player::start(stage, Pattern::Bursts, OPENING.as_secs_f64())?;
    wait_for("the viewer's sound", OPENING, || (ear.loud_samples() > before).then_some(()))?;
    drop(player);
    wait_heard(stage)?;
    ear.clear();
    Ok(())
}
