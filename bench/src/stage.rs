//! One peer on one link, ready to be acted on: the client's screen and keyboard at one end, the desktop at the other.
//! Slow motion lives here: an operation begins in quiet, ends in quiet, and everything between belongs to it.
//! Knows when things happened and what they cost; never what the application is.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Error;
use crate::net::testbed::{Direction, Side, Testbed};
use crate::observe::account::{Accounts, Group};
use crate::observe::input::Input;
use crate::observe::picture::{Picture, Rect};
use crate::observe::screen::ClientScreen;
use crate::peers::{Desk, Peer};
use crate::process::{Folder, Running, wait_for};
use crate::results::{Better, Measure, quantity};

/// Where a peer's programs run: the link, the accounts, a folder, and the client's own screen.
pub struct Site {
    /// The link with a namespace at each end.
    pub bed: Testbed,
    /// Who spent what.
    pub accounts: Accounts,
    /// The X server before which the client's user sits.
    pub screen: ClientScreen,
    /// For files of this stage; gone with it.
    pub folder: Folder,
    /// Size of the session, and of the client's screen, pixels.
    pub size: (u32, u32),
}

impl Site {
    /// A command that runs in the namespace and in the account of its group.
    pub fn command(&self, group: Group, program: impl AsRef<OsStr>) -> Command {
        let side = match group {
            Group::Server | Group::Apps => Side::Server,
            Group::Client => Side::Client,
        };
        self.accounts.wrap(group, self.bed.command(side, program))
    }
}
