//! One login: PAM's conversation or a remembered device's signature, then the person's PAM session
//! until the last of their processes from this login has ended. Beside the path: from helper.rs,
//! which starts one such process for each attempt, to agent.rs, which it starts as the user. Runs
//! as root, and alone: a PAM module that crashes or leaks ends or leaks here. Knows passwords;
//! never the network.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use nix::unistd::{User, initgroups};
use rustix::process::{WaitOptions, getpid, set_child_subreaper};
use thinc_pam::Pam;
use thinc_session_server::log::{self, Process};
use thinc_transport::device::{is_signed, sign_in_message};
use thinc_transport::token::random;
use tracing::{info, warn};

use crate::BrokerError;
use crate::admission::system::Admits;
use crate::cgroup::{Ended, Places};
use crate::devices::{Account, account_of};
use crate::keep::{self, Door};
use crate::limits::{self, Limits};
use crate::message::{
    DeviceReply, DeviceRequest, Known, MESSAGE_BYTES_MAX, Prompt, Reason, Reply, Request, Style,
    Verify,
};
use crate::options::OPENING_VARIABLE;
use crate::reservations::Reservations;
use crate::{packets, privileges};

/// Where programs are if neither PAM nor the system's files say it.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games";
/// Given by the administrator to the broker, for sessions (see `thinc help serve`).
const PASSED_ON: [&str; 10] = [
    "THINC_XORG",
    "THINC_DRIVER_DIR",
    log::LEVEL,
    log::FORMAT,
    "THINC_END_IDLE",
    "THINC_END_DISCONNECTED",
    OPENING_VARIABLE,
    "THINC_SOUND",
    "THINC_PRINTING",
    "THINC_MICROPHONE",
];

/// Returns when everything of this login has ended.
pub(crate) fn main(
    socket: OwnedFd,
    service: &str,
    state: &Path,
    limits: &Limits,
) -> Result<(), BrokerError> {
    log::start(Process { part: "login", ..Process::default() });
    privileges::keep_only(privileges::LOGIN)?;
    // Before PAM, which may set it.
    privileges::lower_descriptor_limit();
    let socket = Rc::new(socket);
    let Some(begin) = receive(&socket) else { return Ok(()) };
    let (attempt, source, user) = match &begin {
        Request::Begin { attempt, source, user } => (*attempt, *source, user.clone()),
        Request::Device(DeviceRequest::Verify(Verify { attempt, source, known, .. })) => {
            let user = known.as_ref().map_or_else(String::new, |known| known.user.clone());
            (*attempt, *source, user)
        }
        _ => return Ok(()),
    };
    let from = source.to_canonical();
    let authenticated = match begin {
        Request::Device(DeviceRequest::Verify(verify)) => {
            sign_in(&socket, service, &verify, &from.to_string())
        }
        _ => authenticate(&socket, service, &user, &from.to_string(), attempt),
    };
    let mut pam = match authenticated {
        Ok(pam) => pam,
        Err(error) => {
            // The person learns nothing of it. A name that no account has may be a password in the
            // wrong field.
            let known = User::from_name(&user).ok().flatten();
            let whose = known.map_or("an unknown account".to_owned(), |account| account.name);
            info!(%from, "login of {whose} from {from} refused: {error}");
            // Last: the helper ends this process, and answers at a time that tells nothing of it.
            let refused = match error {
                BrokerError::ChangedAccount => Reply::Device(DeviceReply::Changed { attempt }),
                _ => Reply::Refused { attempt, reason: Reason::Refused },
            };
            let _ = packets::send(&*socket, &refused.encode(), &[]);
            return Ok(());
        }
    };
    let opened = open(&mut pam, limits, state);
    let (account, places, agent) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // Before the answer, upon which the helper ends this process.
            warn!(%from, "a login from {from} that PAM has accepted is refused: {error}");
            let refused = Reply::Refused { attempt, reason: Reason::Refused };
            let _ = packets::send(&*socket, &refused.encode(), &[]);
            return Ok(());
        }
    };
    info!(user = account.name, %from, "{} logged in from {from}", account.name);
    // Before the person is answered: the helper may end at any time after that.
    let door = Door::open(state).and_then(|door| Ok((door.listener()?, door)));
    let (listener, _door) = match door {
        Ok((listener, door)) => (Some(listener), Some(door)),
        Err(error) => {
            let name = &account.name;
            warn!(user = name, "a login of {name} cannot outlive the broker: {error}");
            (None, None)
        }
    };
    let (cookie, origin_secret) = ([0; 32], [0; 32]);
    let admitted = Reply::Admitted { attempt, cookie, origin_secret, user: account.name.clone() };
    // If the helper has ended, the login ends with the next message that does not come.
    let _ = packets::send(&*socket, &admitted.encode(), &[agent.as_fd()]);
    // PAM's conversation has a reference too.
    let socket = socket.try_clone().map_err(|error| BrokerError::System("go on", error))?;
    let login = keep::Login::new(account.name.clone(), agent);
    // With the same capabilities: modules of PAM change the user of the whole process and back, and
    // the C library aborts it if one thread cannot.
    std::thread::spawn(move || login.keep(socket, listener));
    wait_for_all();
    places.remove_empty(Ended::All);
    info!(user = account.name, "the last process of a login of {} has ended", account.name);
    pam.close_session()?;
    pam.delete_credentials()?;
    Ok(())
}

fn receive(socket: &OwnedFd) -> Option<Request> {
    let packet = packets::receive(socket, MESSAGE_BYTES_MAX).ok()?;
    Request::decode(&packet.bytes).ok()
}

/// Proves who the person is, and that they may log in.
fn authenticate(
    socket: &Rc<OwnedFd>,
    service: &str,
    user: &str,
    from: &str,
    attempt: u64,
) -> Result<Pam, BrokerError> {
    let socket = socket.clone();
    // What needs no answer is shown with the next question.
    let mut texts = Vec::new();
    let mut pam = Pam::start(service, user, move |prompts| {
        let asked = prompts.iter().filter(|prompt| prompt.style.needs_answer()).count();
        texts.extend(prompts.iter().map(|prompt| Prompt {
            style: match prompt.style {
                thinc_pam::Style::Hidden => Style::Hidden,
                thinc_pam::Style::Shown => Style::Shown,
                thinc_pam::Style::Error | thinc_pam::Style::Info => Style::Text,
            },
            text: prompt.text.clone(),
        }));
        if asked == 0 {
            return Some(Vec::new());
        }
        let shown = Reply::Prompts { attempt, prompts: newest(std::mem::take(&mut texts)) };
        packets::send(&*socket, &shown.encode(), &[]).ok()?;
        match receive(&socket) {
            Some(Request::Answers { answers, .. }) => Some(answers),
            _ => None,
        }
    })?;
    pam.set_origin(from, "thinc")?;
    pam.authenticate()?;
    match pam.check_account() {
        Err(error) if error.needs_new_password() => pam.change_expired_password()?,
        other => other?,
    }
    Ok(pam)
}

/// Proves that a remembered device is there, and that its person may log in as they might with a
/// password: their account is the same, and PAM's account stage says so.
fn sign_in(
    socket: &OwnedFd,
    service: &str,
    verify: &Verify,
    from: &str,
) -> Result<Pam, BrokerError> {
    let Verify { attempt, device, place, known, .. } = verify;
    let challenge = random();
    let asked = Reply::Device(DeviceReply::Challenge { attempt: *attempt, challenge });
    packets::send(socket, &asked.encode(), &[])
        .map_err(|error| BrokerError::System("ask a device to sign", error))?;
    let Some(Request::Device(DeviceRequest::Signed { signature, .. })) = receive(socket) else {
        return Err(BrokerError::NotSigned);
    };
    let Some(Known { user, uid, key, password }) = known else {
        return Err(BrokerError::UnknownDevice);
    };
    if !is_signed(key, &sign_in_message(place, *device, &challenge), &signature) {
        return Err(BrokerError::NotSigned);
    }
    let account = account_of(user, *device)
        .map_err(|error| BrokerError::System("look a device's account up", error))?;
    compare(account, (*uid, *password))?;
    // Nobody is there to read or to answer. One who has to choose a new password is refused, and
    // logs in with the old one.
    let mut pam = Pam::start(service, user, |prompts| {
        let is_question = prompts.iter().any(|prompt| prompt.style.needs_answer());
        (!is_question).then(Vec::new)
    })?;
    pam.set_origin(from, "thinc")?;
    pam.check_account()?;
    Ok(pam)
}

/// Compares an account with what it was when its device was remembered. One that is not found may
/// be there again tomorrow: the directory may be out of reach.
fn compare(found: Option<Account>, remembered: Account) -> Result<(), BrokerError> {
    match found {
        Some(found) if found == remembered => Ok(()),
        Some(_) => Err(BrokerError::ChangedAccount),
        None => Err(BrokerError::NoAccount),
    }
}

/// As many as a message holds: questions come after the texts, and none of them is left out.
fn newest(mut prompts: Vec<Prompt>) -> Vec<Prompt> {
    let surplus = prompts.len().saturating_sub(crate::message::PROMPTS_MAX);
    prompts.drain(..surplus);
    prompts
}

fn account(pam: &mut Pam) -> Result<User, BrokerError> {
    let name = pam.user()?;
    let failed = |reason: String| BrokerError::User(name.clone(), reason);
    match User::from_name(&name) {
        Ok(Some(user)) => Ok(user),
        Ok(None) => Err(failed("the system has no such account".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// What a person who has proved who they are gets: a session of PAM's, and an agent that runs as
/// them.
fn open(
    pam: &mut Pam,
    limits: &Limits,
    state: &Path,
) -> Result<(User, Places, OwnedFd), BrokerError> {
    let account = account(pam)?;
    // Before PAM, which may move this process to a session of logind.
    let places = Places::find(limits).map_err(BrokerError::Limits)?;
    let admits = Admits::of(state, limits.admission, &places);
    places.tell_without_tree(account.uid.as_raw());
    open_session(pam, &account)?;
    let agent = start_agent(pam, &account, limits, &places, admits, state)?;
    Ok((account, places, agent))
}

fn open_session(pam: &mut Pam, account: &User) -> Result<(), BrokerError> {
    let failed = |reason: String| BrokerError::User(account.name.clone(), reason);
    if account.uid.is_root() {
        return Err(failed("root has no desktop here".to_owned()));
    }
    let name = std::ffi::CString::new(account.name.as_str())
        .map_err(|_| failed("its name contains a zero byte".to_owned()))?;
    // Before credentials, to which pam_group adds groups; the agent inherits them.
    initgroups(&name, account.gid).map_err(|error| failed(error.to_string()))?;
    pam.set_variable("XDG_SESSION_TYPE", "x11")?;
    pam.set_variable("XDG_SESSION_CLASS", "user")?;
    pam.establish_credentials()?;
    // From now on orphans of the session belong to this process, which waits for them.
    set_child_subreaper(Some(getpid()))
        .map_err(|error| BrokerError::System("adopt a session's processes", error.into()))?;
    pam.open_session()?;
    Ok(())
}

/// Starts the agent, and what answers it; returns the socket to it.
fn start_agent(
    pam: &mut Pam,
    account: &User,
    limits: &Limits,
    places: &Places,
    mut admits: Admits,
    state: &Path,
) -> Result<OwnedFd, BrokerError> {
    let start = |error| BrokerError::System("start the user's agent", error);
    let (near, far) = packets::pair().map_err(start)?;
    let (asked, asks) = packets::pair().map_err(start)?;
    packets::send(&near, &[0], &[asks.as_fd()]).map_err(start)?;
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), DEFAULT_PATH.into()),
        ("HOME".into(), account.dir.clone().into()),
        ("USER".into(), account.name.clone().into()),
        ("LOGNAME".into(), account.name.clone().into()),
        ("SHELL".into(), account.shell.clone().into()),
    ];
    environment.extend(pam.environment());
    for name in PASSED_ON {
        environment.extend(std::env::var_os(name).map(|value| (name.into(), value)));
    }
    if !limits.priority {
        environment.push(("THINC_PRIORITY".into(), "off".into()));
    }
    let agent = Command::new(crate::own_program())
        .args(["broker-part", "agent", "--uid"])
        .arg(account.uid.to_string())
        .arg("--gid")
        .arg(account.gid.to_string())
        .env_clear()
        .envs(environment)
        .stdin(Stdio::from(far))
        .stdout(Stdio::null())
        .spawn()
        .map_err(start)?;
    let (limits, places, uid) = (limits.clone(), places.clone(), account.uid.as_raw());
    let reservations = Reservations::of(state);
    std::thread::spawn(move || {
        limits::answer(&asked, &limits, &places, &reservations, &mut admits, uid, agent.id());
    });
    Ok(near)
}

/// Until no process is left of which this one is an ancestor.
fn wait_for_all() {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::CHILD, "waiting fails only without children");
                return;
            }
        }
    }
}

/// Becomes the user for good: neither this process nor what it starts can be root again, except
/// through the programs that everybody may use for that.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), BrokerError> {
    use nix::unistd::{Gid, Uid, getegid, geteuid, getgid, getuid, setgid, setuid};
    let failed = |error: nix::Error| BrokerError::User(uid.to_string(), error.to_string());
    let wrong = |reason: &str| BrokerError::User(uid.to_string(), reason.to_owned());
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    if uid.is_root() {
        return Err(wrong("root has no desktop here"));
    }
    setgid(gid).map_err(failed)?;
    setuid(uid).map_err(failed)?;
    if setuid(Uid::from_raw(0)).is_ok() || (getuid(), geteuid()) != (uid, uid) {
        return Err(wrong("privileges were not given up"));
    }
    if (getgid(), getegid()) != (gid, gid) {
        return Err(wrong("the group was not changed"));
    }
    let status = rustix::thread::capabilities(None)
        .map_err(|error| BrokerError::System("read capabilities", io::Error::from(error)))?;
    if !status.effective.is_empty() || !status.permitted.is_empty() {
        return Err(wrong("capabilities were not given up"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_number_or_password_is_another_account() {
        let remembered = (1000, Some([1; 32]));
        assert!(compare(Some(remembered), remembered).is_ok());
        assert!(compare(Some((1000, None)), (1000, None)).is_ok());
        for other in [(1001, Some([1; 32])), (1000, Some([2; 32])), (1000, None)] {
            let error = compare(Some(other), remembered).unwrap_err();
            assert!(matches!(error, BrokerError::ChangedAccount), "{other:?}: {error}");
        }
        // A directory that is out of reach has no accounts.
        assert!(matches!(compare(None, remembered), Err(BrokerError::NoAccount)));
    }
}
