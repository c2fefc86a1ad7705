//! Photographs over the whole screen on request, and when the client shows each of them. Under the
//! questions that ask how a link copes with photographs. Knows the slide show's lines; never what
//! is measured.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::Error;
use crate::apps::words;
use crate::observe::clock;
use crate::observe::slides::{SlideWatch, Transitions};
use crate::process::{Running, wait_for};
use crate::stage::Stage;

/// `thinc-bench app slides`, which shows photographs on request.
pub(crate) struct SlideShow {
    _running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl SlideShow {
    pub(crate) fn start(stage: &Stage) -> Result<SlideShow, Error> {
        let (width, height) = stage.site.size;
        let words =
            words(&["slides", "--width", &width.to_string(), "--height", &height.to_string()])?;
        let watch = stage.site.screen.watch()?;
        let mut command = stage.command(&words[0]);
        let log = std::fs::File::create(stage.site.folder.path().join("slides.log"))?;
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut running = Running::start("slides", &mut command)?;
        let stdin = running.take_stdin().ok_or("the slide show has no input")?;
        let stdout = BufReader::new(running.take_stdout().ok_or("the slide show has no output")?);
        let mut show = SlideShow { _running: running, stdin, stdout };
        // Its window takes the keyboard focus before it reports; a terminal that is opened later
        // takes the focus for good.
        show.drawn()?;
        stage.wait_shown("the first slide", watch)?;
        Ok(show)
    }

    /// Begins to show slides; [`SlideShow::drawn`] waits for them.
    pub(crate) fn begin(&mut self, first: u32, count: u32, period_ms: u32) -> Result<(), Error> {
        writeln!(self.stdin, "{first} {count} {period_ms}")?;
        Ok(self.stdin.flush()?)
    }

    /// When each of them was drawn.
    pub(crate) fn drawn(&mut self) -> Result<Vec<Instant>, Error> {
        let mut drawn = Vec::new();
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                return Err("the slide show has ended".into());
            }
            if line.trim() == "done" {
                return Ok(drawn);
            }
            let time = line.trim().split_once(' ').and_then(|(_, ns)| ns.parse().ok());
            drawn.push(clock::instant_of(
                time.ok_or_else(|| format!("the slide show printed `{}`", line.trim()))?,
            ));
        }
    }
}

/// Waits until 99 of 100 blocks of the screen show photograph `number` of the watched series: the
/// rest may be too smooth to be recognised.
pub(crate) fn wait_for_photograph(
    blocks: &SlideWatch,
    number: usize,
    limit: Duration,
) -> Result<(), Error> {
    wait_for("the photograph on the client's screen", limit, || {
        let (arrived, all) = blocks.arrived(number);
        (arrived * 100 >= all * 99).then_some(())
    })
}

/// When 99 of 100 blocks had changed.
pub(crate) fn complete(transitions: &Transitions) -> Option<Instant> {
    let wanted = (transitions.shown.len() * 99).div_ceil(100);
    transitions.transitions.get(wanted.checked_sub(1)?).map(|transition| transition.at)
}
