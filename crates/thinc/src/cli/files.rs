//! The command line of `thinc send`, and of what `thinc serve` allows. Beside the path: from a
//! user's shell, to ../send.rs and ../supervisor.rs. Knows arguments; never files.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use thinc_session_server::FilesConfig;

use super::parse_name;

/// In which direction files may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Files {
    /// In both directions.
    Both,
    /// From the session to viewers.
    ToViewer,
    /// From viewers to the session.
    ToSession,
    /// Not at all.
    Off,
}

impl Files {
    pub(crate) fn config(self) -> FilesConfig {
        FilesConfig {
            to_viewers: matches!(self, Files::Both | Files::ToViewer),
            to_session: matches!(self, Files::Both | Files::ToSession),
        }
    }
}

/// What to send.
#[derive(Clone, Debug, Args)]
pub(crate) struct SendFiles {
    /// The session; not needed in one, or if only one is running
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub(crate) session: Option<String>,
    /// Viewers show why nothing was sent, too: for menus, which show no output
    #[arg(long)]
    pub(crate) notify: bool,
    /// Files and folders
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_in_the_chosen_direction() {
        for (files, to_viewers, to_session) in [
            (Files::Both, true, true),
            (Files::ToViewer, true, false),
            (Files::ToSession, false, true),
            (Files::Off, false, false),
        ] {
            let config = files.config();
            assert_eq!((config.to_viewers, config.to_session), (to_viewers, to_session));
        }
    }
}
