//! The command line of `thinc share`. Beside the path: from a user's shell, to ../share.rs. Knows
//! arguments; never guests.

use std::time::Duration;

use clap::{Args, ValueEnum, value_parser};
use thinc_broker::config::parse_time;

use super::parse_name;

/// Invite guests.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("action").multiple(false))]
pub(crate) struct Share {
    /// The session; not needed if only one is running
    #[arg(value_parser = parse_name)]
    pub(crate) name: Option<String>,
    /// Guests only see the screen; the default
    #[arg(long, conflicts_with_all = ["control", "action"])]
    pub(crate) view: bool,
    /// Guests may type and point
    #[arg(long, conflicts_with = "action")]
    pub(crate) control: bool,
    /// How the clipboard is shared with guests that have control
    #[arg(long, value_name = "DIRECTION", value_enum, default_value_t = GuestClipboard::Off)]
    #[arg(requires_if("to-guest", "control"), requires_if("to-session", "control"))]
    #[arg(requires_if("both", "control"), conflicts_with = "action")]
    pub(crate) clipboard: GuestClipboard,
    /// Whether guests hear the session
    #[arg(long, value_name = "CHOICE", value_enum, default_value_t = GuestSound::On)]
    #[arg(conflicts_with = "action")]
    pub(crate) sound: GuestSound,
    /// When the invitation and its guests' visits end, for example 30min, 2h or 7d; at most 30d
    #[arg(long = "for", value_name = "TIME", value_parser = parse_life, default_value = "2h")]
    #[arg(conflicts_with = "action")]
    pub(crate) life: Duration,
    /// How many guests may come by the link; each may reconnect until the invitation ends
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "action")]
    #[arg(value_parser = value_parser!(u32).range(1..=1000))]
    pub(crate) uses: u32,
    /// Guests also need a password, which is asked for here, or is the first line of standard input
    #[arg(long, conflicts_with = "action")]
    pub(crate) password: bool,
    /// What the list calls the invitation
    #[arg(long, value_name = "TEXT", conflicts_with = "action")]
    pub(crate) title: Option<String>,
    /// Print a thinc:// link, which only thinc-view opens, instead of an https:// link, which
    /// browsers and thinc-view open
    #[arg(long, conflicts_with = "action")]
    pub(crate) native: bool,
    /// List the invitations and who is connected
    #[arg(long, group = "action")]
    pub(crate) list: bool,
    /// With --list: print JSON
    #[arg(long, requires = "list")]
    pub(crate) json: bool,
    /// End an invitation, and the visits of all guests that came by it
    #[arg(long, value_name = "INVITATION", group = "action")]
    pub(crate) revoke: Option<u32>,
    /// End the visit of a guest, who may come again by a link with uses left
    #[arg(long, value_name = "GUEST", group = "action")]
    pub(crate) throw_out: Option<u32>,
    /// Let a guest type and point
    #[arg(long, value_name = "GUEST", group = "action")]
    pub(crate) give_control: Option<u32>,
    /// Let a guest only see the screen; what it holds down is released
    #[arg(long, value_name = "GUEST", group = "action")]
    pub(crate) take_control: Option<u32>,
}

/// How the clipboard is shared with guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestClipboard {
    /// Not at all.
    Off,
    /// They may paste what was copied in the session.
    ToGuest,
    /// The session may paste what they copied.
    ToSession,
    /// Both.
    Both,
}

/// Whether guests hear the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestSound {
    /// They do.
    On,
    /// They do not.
    Off,
}

pub(super) fn parse_life(text: &str) -> Result<Duration, String> {
    parse_time(text).ok_or_else(|| {
        "expected a number and a unit, from 1s to 30d: 90s, 30min, 2h or 7d".to_owned()
    })
}
