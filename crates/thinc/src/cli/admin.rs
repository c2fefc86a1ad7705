//! The command line of `thinc admin`. Beside the path: from the administrator's shell, to
//! ../admin.rs. Knows arguments; never what they do.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thinc_protocol::limits::NOTICE_BYTES_MAX;
use thinc_protocol::wire::is_deceptive;
use thinc_transport::device::DeviceId;

use super::parse_name;

/// Administrate desktops.
#[derive(Clone, Debug, Args)]
pub(crate) struct Admin {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: AdminCommand,
}

/// What an administrator can do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// List every desktop with its user, age, memory, number of processes and viewers
    ///
    /// The addresses of viewers that come through the broker are the broker's word; without it they
    /// are those of this machine.
    Sessions(AdminSessions),
    /// End a desktop and everything in it, as `thinc stop` of its user does
    End(AdminEnd),
    /// Show a message at every viewer of the desktops of everybody, of a user, or of one desktop
    ///
    /// It stays until the person closes it. Where nobody is connected, it is shown to the next
    /// viewer of the desktop's owner.
    Message(AdminMessage),
    /// List the devices on which people stay signed in without a password
    Devices(AdminDevices),
    /// Forget such a device of a user, or all of them, and end the logins that it has opened
    ///
    /// As when a laptop is lost. The person logs in with their password the next time.
    Forget(AdminForget),
    /// Let the broker take no new logins and start no desktops, or with --off both again
    ///
    /// People who are logged in, and their desktops, go on; `thinc admin sessions` says when none
    /// is left. Restarting the broker takes logins again.
    Drain(AdminDrain),
    /// End all logins of a broker that has been stopped; desktops go on
    ///
    /// Otherwise people who are logged in go on without a password when it is started again within
    /// five minutes.
    Logout(AdminBroker),
}

/// List desktops.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminSessions {
    /// Print JSON, one object for each desktop
    #[arg(long)]
    pub(crate) json: bool,
    /// Who knows the viewers' addresses.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// List devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminDevices {
    /// Only those of this user
    #[arg(value_name = "USER")]
    pub(crate) user: Option<String>,
    /// Print JSON, one object for each device
    #[arg(long)]
    pub(crate) json: bool,
    /// Which broker.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// Forget devices.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminForget {
    /// Whose, as `thinc admin devices` shows it
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Which, as `thinc admin devices` shows it; without it, all of this user
    // One of 64 begins with a hyphen.
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    pub(crate) id: Option<DeviceId>,
    /// Which broker.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// Drain the broker.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminDrain {
    /// Take logins and start desktops again
    #[arg(long)]
    pub(crate) off: bool,
    /// Which broker.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// A broker on this machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminBroker {
    /// Configuration file of the broker, if it is not /etc/thinc/broker.toml
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder that the broker was started with as --state
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state: Option<PathBuf>,
}

/// End a desktop.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminEnd {
    /// Its user, as `thinc admin sessions` shows it
    #[arg(value_name = "USER")]
    pub(crate) user: String,
    /// Its name
    #[arg(value_parser = parse_name)]
    pub(crate) name: String,
    /// Whose audit log has it.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// Show a message.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdminMessage {
    /// Only on desktops of this user, as `thinc admin sessions` shows it
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Only on the desktop of this name
    #[arg(long, value_name = "NAME", value_parser = parse_name, requires = "user")]
    pub(crate) session: Option<String>,
    /// The message: 1 to 1000 bytes in one line
    #[arg(value_parser = parse_message)]
    pub(crate) text: String,
    /// Whose audit log has it.
    #[command(flatten)]
    pub(crate) broker: AdminBroker,
}

/// A text that viewers show as it is.
fn parse_message(text: &str) -> Result<String, String> {
    if !(1..=NOTICE_BYTES_MAX).contains(&text.len()) {
        return Err(format!("it has {} bytes; 1 to {NOTICE_BYTES_MAX} are allowed", text.len()));
    }
    if text.contains(is_deceptive) {
        return Err("it contains line breaks, or characters that control a terminal or the \
                    direction of writing"
            .to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn an_id_may_begin_with_a_hyphen_and_options_follow_it() {
        for id in ["-7ZmtWn3JQ0Vq5rLx2uAbQ", "-hZmtWn3JQ0Vq5rLx2uAbQ", "A7ZmtWn3JQ0Vq5rLx2uAbQ"] {
            for words in [&["anna", id, "--config", "/c"][..], &["anna", "--config", "/c", id]] {
                let words = [&["thinc", "admin", "forget"], words].concat();
                let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{error}"));
                let Command::Admin(Admin { command: AdminCommand::Forget(forget) }) = cli.command
                else {
                    panic!("{words:?}")
                };
                assert_eq!(forget.id.map(|id| id.to_string()).as_deref(), Some(id));
            }
        }
    }
}
