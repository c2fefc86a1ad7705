//! `thinc admin devices` and `forget`: on which devices people stay signed in, for root. From the
//! administrator's shell; the list is that of the broker's files, also while it is stopped, and the
//! broker itself forgets. Knows names and times; never a key that signs anybody in.

use std::process::ExitCode;

use serde::Serialize;
use thinc_broker::admin::{AdminRequest, ask};
use thinc_broker::devices::{AccountDevices, read_all};
use thinc_protocol::wire::printable;

use super::state_of;
use crate::MainError;
use crate::cli::{AdminDevices, AdminForget};
use crate::clients::age_text;
use crate::terminal::{print, print_error};

/// A device, for people and programs; times in seconds since 1970.
#[derive(Debug, Serialize)]
struct Listed {
    user: String,
    id: String,
    name: String,
    made_s: u64,
    used_s: u64,
    until_s: u64,
}

fn read(state: &std::path::Path) -> Result<Vec<AccountDevices>, MainError> {
    if !rustix::process::geteuid().is_root() {
        return Err("thinc admin needs root; people see their own devices in the list of their \
                    desktops"
            .into());
    }
    let unusable = |path: &std::path::Path, reason: &str| {
        print_error(&format!("thinc: {}: {reason}; it is not used", path.display()));
    };
    Ok(read_all(state, unusable)?)
}

/// `thinc admin devices`.
pub(crate) fn devices(options: AdminDevices) -> Result<ExitCode, MainError> {
    let AdminDevices { user, json, broker } = options;
    let now_s = crate::port::now_s();
    let found = read(&state_of(broker)?)?;
    let of_user = found.iter().filter(|account| user.as_ref().is_none_or(|u| *u == account.user));
    let listed: Vec<Listed> = of_user
        .flat_map(|account| account.devices.iter().map(move |device| (account, device)))
        .filter(|(_, device)| device.until_s > now_s)
        .map(|(account, device)| Listed {
            user: account.user.clone(),
            id: device.id.to_string(),
            name: printable(&device.name).into_owned(),
            made_s: device.made_s,
            used_s: device.used_s,
            until_s: device.until_s,
        })
        .collect();
    if json {
        print(&serde_json::to_string_pretty(&listed)?);
        return Ok(ExitCode::SUCCESS);
    }
    if listed.is_empty() {
        print("No device is remembered.");
        return Ok(ExitCode::SUCCESS);
    }
    let users = listed.iter().map(|device| device.user.chars().count()).max().unwrap_or(0).max(4);
    print(&format!("{:users$}  {:22}  {:>8}  {:>8}  NAME", "USER", "ID", "LAST USE", "ENDS IN"));
    for Listed { user, id, name, used_s, until_s, .. } in listed {
        let used = age_text(now_s.saturating_sub(used_s));
        let left = age_text(until_s.saturating_sub(now_s));
        print(&format!("{user:users$}  {id:22}  {used:>8}  {left:>8}  {name}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// `thinc admin forget`.
pub(crate) fn forget(options: AdminForget) -> Result<ExitCode, MainError> {
    let AdminForget { user, id, broker } = options;
    let state = state_of(broker)?;
    let count = |found: Vec<AccountDevices>| -> usize {
        let of_user = found.into_iter().filter(|account| account.user == user);
        of_user
            .flat_map(|account| account.devices)
            .filter(|device| id.is_none_or(|id| id == device.id))
            .count()
    };
    let before = count(read(&state)?);
    if before == 0 {
        return Err(match id {
            Some(id) => format!("{user} has no remembered device {id}"),
            None => format!("no device of {user} is remembered"),
        }
        .into());
    }
    ask(&state, &AdminRequest::Forget { user: user.clone(), device: id })?;
    let left = count(read(&state)?);
    if left > 0 {
        let s = if left == 1 { "" } else { "s" };
        return Err(
            format!("{left} device{s} of {user} could not be forgotten: see the log").into()
        );
    }
    let s = if before == 1 { "" } else { "s" };
    print(&format!("{before} device{s} of {user} forgotten"));
    Ok(ExitCode::SUCCESS)
}
