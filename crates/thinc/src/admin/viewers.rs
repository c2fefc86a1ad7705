//! Who shows a desktop: what its session process says, with the addresses that only the broker
//! knows. Beside the path: under ../admin.rs, from both, to the list of desktops. Knows viewers;
//! never what they show.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;
use thinc_broker::BrokerError;
use thinc_broker::admin::{AdminViewer, ask_viewers};
use thinc_protocol::wire::printable;
use thinc_session_server::{ShareAnswer, ShareRequest};

use super::Desktop;
use crate::clients::age_text;
use crate::{runtime_dir, share};

/// A viewer of a desktop, as its session process says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ViewerOf {
    /// Its address and kind.
    from: String,
    /// What a guest calls itself.
    guest: Option<String>,
    /// Seconds since it was connected; `None` from a session of an earlier version.
    age_s: Option<u64>,
}

/// Those of everybody that come through the broker, the longest connected first; none while it is
/// stopped, and on machines without one.
pub(super) fn through_broker(state: &Path) -> Vec<AdminViewer> {
    match ask_viewers(state) {
        Ok(viewers) => viewers,
        Err(BrokerError::Admin(_, error))
            if [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused]
                .contains(&error.kind()) =>
        {
            Vec::new()
        }
        Err(error) => {
            crate::terminal::print_error(&format!("thinc: addresses are missing: {error}"));
            Vec::new()
        }
    }
}

/// Asks the session process; what it says is the person's word, cut at the limits of an answer.
pub(super) fn of(desktop: &Desktop, through: &[AdminViewer]) -> Option<Vec<ViewerOf>> {
    let path = desktop.folder.join(runtime_dir::SHARE_SOCKET);
    let of_user = rustix::process::Uid::from_raw(desktop.uid);
    let Ok(ShareAnswer::List { viewers, .. }) = share::send_to(&path, of_user, &ShareRequest::List)
    else {
        return None;
    };
    let now_s = crate::port::now_s();
    let told = viewers.into_iter().map(|viewer| ViewerOf {
        from: printable(&viewer.from).into_owned(),
        guest: viewer.name.map(|name| printable(&name).into_owned()),
        age_s: (viewer.since_s > 0).then(|| now_s.saturating_sub(viewer.since_s)),
    });
    let here = through.iter().filter(|viewer| {
        viewer.of.user == desktop.user && viewer.of.session == desktop.name && !viewer.is_guest
    });
    Some(with_addresses(told.collect(), here, is_agent))
}

/// To the desktop, the broker's viewers are processes of this machine: each is the agent that has
/// opened the connection. Both lists begin with the viewer that was connected first.
fn with_addresses<'a>(
    mut viewers: Vec<ViewerOf>,
    through: impl IntoIterator<Item = &'a AdminViewer>,
    is_agent: impl Fn(u32) -> bool,
) -> Vec<ViewerOf> {
    let of_agents =
        viewers.iter_mut().filter(|viewer| process(&viewer.from).is_some_and(&is_agent));
    for (viewer, known) in of_agents.zip(through) {
        viewer.from = format!("{} (through the broker)", known.from);
    }
    viewers
}

/// The process in a label of the session process.
fn process(from: &str) -> Option<u32> {
    from.strip_prefix("this machine (process ")?.strip_suffix(')')?.parse().ok()
}

fn is_agent(pid: u32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|&byte| byte == 0).skip(1).take(2).eq([&b"broker-part"[..], b"agent"])
}

/// Count, and each with its age: `2: 192.0.2.7:51514 (3 h), 192.0.2.9:40022 (12 min)`.
pub(super) fn text(viewers: Option<&[ViewerOf]>) -> String {
    let Some(viewers) = viewers else { return "?".to_owned() };
    let each = viewers.iter().map(|ViewerOf { from, guest, age_s }| {
        let guest = guest.as_ref().map_or(String::new(), |name| format!("{name} "));
        match age_s {
            Some(age_s) => format!("{guest}{from} ({})", age_text(*age_s)),
            None => format!("{guest}{from}"),
        }
    });
    let each: Vec<String> = each.collect();
    match viewers.len() {
        0 => "0".to_owned(),
        count => format!("{count}: {}", each.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use thinc_broker::admin::Named;

    use super::*;

    fn viewer(from: &str) -> ViewerOf {
        ViewerOf { from: from.to_owned(), guest: None, age_s: None }
    }

    fn known(from: &str) -> AdminViewer {
        AdminViewer {
            of: Named { user: "anna".to_owned(), session: "desk".to_owned() },
            from: from.parse().unwrap(),
            seconds: 1,
            is_guest: false,
        }
    }

    #[test]
    fn the_broker_has_the_addresses_of_those_whom_an_agent_has_connected() {
        let told = vec![
            viewer("this machine (process 7)"),
            viewer("192.0.2.1:5000"),
            viewer("this machine (process 8)"),
            viewer("this machine (process 7)"),
            viewer("this machine (process 7)"),
        ];
        let through = [known("192.0.2.7"), known("2001:db8::7")];
        let shown = with_addresses(told, &through, |pid| pid == 7);
        let shown: Vec<&str> = shown.iter().map(|viewer| viewer.from.as_str()).collect();
        assert_eq!(
            shown,
            [
                "192.0.2.7 (through the broker)",
                "192.0.2.1:5000",
                "this machine (process 8)",
                "2001:db8::7 (through the broker)",
                // One that the broker has not noted yet.
                "this machine (process 7)",
            ]
        );
    }
}
