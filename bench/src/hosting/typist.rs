//! A person who types into a terminal that their own session has started, at a viewer whose pixels
//! are watched. Between the stage and the questions; knows a terminal and its job; never what runs
//! beside it.

use std::time::Duration;

use super::session::{Session, quoted};
use crate::Error;
use crate::questions::pause;
use crate::stage::Stage;
use crate::workloads::typing::{Echoes, Terminal};

/// The terminal's job in the session.
pub(super) const JOB: &str = "xterm";

/// Between the keys that empty the terminal and the next text.
pub(super) const EMPTIES: Duration = Duration::from_millis(500);

/// Who types.
pub(super) struct Typist {
    terminal: Terminal,
    /// Next cell.
    place: usize,
}

impl Typist {
    /// Opens a terminal, which runs `program` (a shell's word list that echoes what it reads).
    pub(super) fn open(stage: &Stage, session: &Session, program: &str) -> Result<Typist, Error> {
        let terminal = Terminal::open_within(stage, program, |arguments| {
            let words: Vec<String> = arguments.iter().map(|word| quoted(word)).collect();
            session.start_job(JOB, &format!("exec xterm {}", words.join(" ")))
        })?;
        Ok(Typist { terminal, place: 1 })
    }

    /// Keys that still fit.
    pub(super) fn room(&self) -> usize {
        self.terminal.room() + 1 - self.place
    }

    /// Types so many keys, one each `period`.
    pub(super) fn type_keys(
        &mut self,
        stage: &Stage,
        keys: usize,
        period: Duration,
    ) -> Result<Echoes, Error> {
        if keys > self.room() {
            let room = self.room();
            return Err(format!("{keys} keys do not fit: the terminal has room for {room}").into());
        }
        let echoes = self.terminal.type_keys(stage, self.place, keys, period, || true)?;
        self.place += keys;
        Ok(echoes)
    }

    /// Makes room: the first cell is the next again. The program in the terminal writes what it
    /// reads, and so gives xterm the sequences that move the cursor home and clear what follows.
    pub(super) fn empty(&mut self, stage: &Stage) -> Result<(), Error> {
        for last in ["[H", "[J"] {
            stage.input.key("Escape")?;
            stage.input.text(last)?;
        }
        self.place = 0;
        pause(EMPTIES)
    }

    /// Ends the terminal.
    pub(super) fn close(self, stage: &Stage, session: &Session) -> Result<(), Error> {
        session.end_job(JOB)?;
        stage.settle()
    }
}
