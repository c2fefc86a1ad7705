//! A recorded session: user input with its times, as lines of text, replayed through the client's
//! keyboard and mouse. From a file of events to input; the pace is the recording's, or each
//! operation's alone in slow motion. Knows events; never the application that receives it.
//!
//! ```text
//! TIME operation NAME      what follows is one thing that a person does
//! TIME path STEP X,Y ...   the pointer moves, to the next place every STEP ms
//! TIME down BUTTON         a button of the mouse
//! TIME up BUTTON
//! TIME key NAME            a key, or several at once: Control_L+z
//! TIME end                 how long the whole is
//! ```
//! TIME is milliseconds from the beginning and never falls. Lines that begin with `#` are for
//! people.

use std::time::{Duration, Instant};

use crate::Error;
use crate::observe::input::Input;
use crate::process::interrupted;

/// One user input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The pointer moves along positions, one each `step`.
    Path {
        /// Time between positions.
        step: Duration,
        /// On the session's screen.
        places: Vec<(i32, i32)>,
    },
    /// A button press.
    Down(u8),
    /// A button release.
    Up(u8),
    /// A key, or several at once.
    Key(String),
}

/// One thing that a person does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// In words.
    pub name: String,
    /// When it begins, from the beginning of the session.
    pub at: Duration,
    /// Its events, with times since the beginning of the session.
    pub events: Vec<(Duration, Event)>,
}

/// A whole session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// In order.
    pub operations: Vec<Operation>,
    /// Until its end, pauses included.
    pub length: Duration,
}

impl Session {
    /// Reads a recording; an error names the line.
    pub fn parse(text: &str) -> Result<Session, Error> {
        let mut operations: Vec<Operation> = Vec::new();
        let mut before = Duration::ZERO;
        let mut length = None;
        for (number, line) in (1..).zip(text.lines()) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let wrong = |what: &str| format!("line {number}: {what}: `{line}`");
            if length.is_some() {
                return Err(wrong("something after the end").into());
            }
            let (time, rest) = line.split_once(' ').ok_or_else(|| wrong("no event"))?;
            let time =
                Duration::from_millis(time.parse().map_err(|_| wrong("the time is no number"))?);
            if time < before {
                return Err(wrong("the time falls").into());
            }
            before = time;
            let (kind, words) = rest.split_once(' ').unwrap_or((rest, ""));
            let button = || match words.parse() {
                Ok(button @ 1..=5) => Ok(button),
                _ => Err(wrong("a button is from 1 to 5")),
            };
            let event = match kind {
                "end" => {
                    length = Some(time);
                    continue;
                }
                "operation" => {
                    operations.push(Operation {
                        name: words.to_owned(),
                        at: time,
                        events: Vec::new(),
                    });
                    continue;
                }
                "path" => path(words)
                    .ok_or_else(|| wrong("a path is STEP X,Y X,Y ..., STEP from 1 to 1000"))?,
                "down" => Event::Down(button()?),
                "up" => Event::Up(button()?),
                "key" if !words.is_empty() => Event::Key(words.to_owned()),
                _ => return Err(wrong("no such event").into()),
            };
            operations
                .last_mut()
                .ok_or_else(|| wrong("an event before the first operation"))?
                .events
                .push((time, event));
        }
        let length = length.ok_or("the recording has no end")?;
        match operations.iter().find(|operation| operation.events.is_empty()) {
            Some(empty) => Err(format!("nothing happens in `{}`", empty.name).into()),
            None => Ok(Session { operations, length }),
        }
    }
}

fn path(words: &str) -> Option<Event> {
    let (step, places) = words.split_once(' ')?;
    let step = step.parse().ok().filter(|step| (1..=1000).contains(step))?;
    let place = |word: &str| {
        let (x, y) = word.split_once(',')?;
        Some((x.parse().ok()?, y.parse().ok()?))
    };
    let places = places.split(' ').map(place).collect::<Option<Vec<_>>>()?;
    Some(Event::Path { step: Duration::from_millis(step), places })
}

impl Operation {
    /// Replays the events, each as long after `begin` as it was after `zero`; `origin` is the
    /// position of the session's picture. Returns when the last event was sent.
    pub fn replay(
        &self,
        input: &Input,
        begin: Instant,
        zero: Duration,
        origin: (i32, i32),
    ) -> Result<Instant, Error> {
        let mut last = Instant::now();
        for (time, event) in &self.events {
            let due = begin + time.saturating_sub(zero);
            wait_until(due)?;
            last = match event {
                Event::Down(button) => input.button_down(*button)?,
                Event::Up(button) => input.button_up(*button)?,
                Event::Key(name) => input.key(name)?,
                Event::Path { step, places } => {
                    for (count, &(x, y)) in (0..).zip(places) {
                        wait_until(due + *step * count)?;
                        last = input.move_to(x + origin.0, y + origin.1)?;
                    }
                    last
                }
            };
        }
        Ok(last)
    }
}

/// The recording sets the time: there is no event to wait for.
fn wait_until(due: Instant) -> Result<(), Error> {
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    if interrupted() { Err("interrupted".into()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_read_into_operations() {
        let session = Session::parse(
            "# words\n0 operation draw\n5 path 16 1,2 -3,4\n37 down 1\n40 up 1\n\n50 operation \
                undo\n50 key Control_L+z\n90 end\n",
        );
        let session = session.unwrap();
        assert_eq!(session.length, Duration::from_millis(90));
        let names: Vec<_> =
            session.operations.iter().map(|operation| operation.name.as_str()).collect();
        assert_eq!(names, ["draw", "undo"]);
        let path = Event::Path { step: Duration::from_millis(16), places: vec![(1, 2), (-3, 4)] };
        assert_eq!(session.operations[0].events[0], (Duration::from_millis(5), path));
        assert_eq!(
            session.operations[1].events,
            [(Duration::from_millis(50), Event::Key("Control_L+z".into()))]
        );
    }

    #[test]
    fn a_broken_recording_is_refused_with_its_line() {
        for (text, says) in [
            ("0 operation a\n0 key b\n", "no end"),
            ("0 key b\n1 end\n", "line 1: an event before"),
            ("0 operation a\n9 key b\n8 key c\n10 end\n", "line 3: the time falls"),
            ("0 operation a\n1 down 9\n2 end\n", "line 2: a button"),
            ("0 operation a\n1 path 0 1,1\n2 end\n", "line 2: a path"),
            ("0 operation a\n1 path 16 1;1\n2 end\n", "line 2: a path"),
            ("0 operation a\nx key b\n2 end\n", "line 2: the time is no number"),
            ("0 operation a\n1 jump\n2 end\n", "line 2: no such event"),
            ("0 operation a\n2 end\n", "nothing happens in `a`"),
            ("0 operation a\n1 key b\n2 end\n3 key c\n", "line 4: something after"),
        ] {
            let error = Session::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
