//! The helper: owns the port, starts the front and one login process for each attempt, and decides
//! when an attempt begins and when a refusal is answered. Beside the path: between front/, over a
//! socket pair with fixed requests, and login.rs. Runs as root; knows sources, names and
//! tickets; never HTTP, TLS or a byte of a display.

mod administration;
pub(crate) mod monitor;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::User;
use sha2::{Digest as _, Sha256};
use thinc_session_server::log::{self, Process};
use thinc_transport::device::DeviceId;
use thinc_transport::identity::Identity;
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::sleep;
use tracing::{info, warn};

use self::monitor::{Refused, Tally};
use crate::acme::{self, AcmeOptions};
use crate::admin::{AdminRequest, AdminSocket};
use crate::admission::Policy;
use crate::admission::system::{LineFile, Sources};
use crate::attempt::{Begin, Task};
use crate::audit::{Audit, Entry, Event};
use crate::banner;
use crate::certificate::{self, Certificate, Pem, pipe_with};
use crate::device_requests::{self, By};
use crate::devices::{Devices, Saved, account_of, now_s};
use crate::keep::{self, Found};
use crate::limits::Limits;
use crate::message::{
    Deed, DeviceReply, DeviceRequest, Kept, MESSAGE_BYTES_MAX, Reason, Reply, Request, Secret,
    Start,
};
use crate::options::OPENING_VARIABLE;
use crate::packets::{self, Channel};
use crate::privileges;
use crate::throttle::{self, Throttle};
use crate::{BrokerError, BrokerOptions, port};

/// How long a login opens sessions without asking again.
pub(crate) const LOGIN_LIFE: Duration = Duration::from_secs(12 * 3600);
/// Logins of one account, and of all; past it the oldest ends. Its connections stay.
const LOGINS_PER_USER_MAX: usize = 16;
const LOGINS_MAX: usize = 512;
/// Viewers whose end the audit log tells; a front has fewer descriptors.
const VIEWERS_MAX: usize = 65_536;
/// Delay before the second restart of the front in a row, and the longest.
const RESTART_DELAY: Duration = Duration::from_millis(200);
const RESTART_DELAY_MAX: Duration = Duration::from_secs(10);
/// After this lifetime a front counts as healthy.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);

/// Runs until a signal ends it. Sessions stay.
pub fn serve(options: BrokerOptions) -> Result<(), BrokerError> {
    if !rustix::process::geteuid().is_root() {
        return Err(BrokerError::NotRoot);
    }
    let front_user = required(&options)?;
    log::start_as(options.log_format, Process { part: "helper", ..Process::default() });
    crate::raise_descriptor_limit();
    let audit = Audit::open(options.audit_log.as_deref()).map_err(|error| {
        BrokerError::Audit(options.audit_log.clone().unwrap_or_default(), error)
    })?;
    let places = options.limits.check().map_err(BrokerError::Limits)?;
    let pressure = Sources::find(&places);
    if let Some(note) = note(&options, &pressure) {
        warn!("{note}");
    }
    let banner = banner(&options)?;
    let (certificate, loaded) = Certificate::open(&options)?;
    let listeners = port::listen(&options.listen)?;
    let figures = options.metrics.map(port::listen_one).transpose()?;
    let udp_sockets = match options.quic.then(|| port::listen_udp(&listeners)) {
        Some(Ok(sockets)) => sockets,
        // People can work over TCP.
        Some(Err(error)) => {
            warn!("{error}");
            Vec::new()
        }
        None => Vec::new(),
    };
    let addresses: Vec<SocketAddr> = listeners
        .iter()
        .map(TcpListener::local_addr)
        .collect::<io::Result<_>>()
        .map_err(|error| BrokerError::System("read a port's address", error))?;
    let port = match addresses[0].port() {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    // Fails only if nobody reads it.
    let _ = write!(
        io::stdout(),
        "The broker listens on {}; people open https://HOST{port}/ and log in.\n\
         The SHA-256 of the public key{}: {}\n",
        addresses.join(", "),
        certificate.kind(),
        certificate::hex(&loaded.identity.pin())
    );

    if let Some(address) = figures.as_ref().and_then(|listener| listener.local_addr().ok()) {
        let _ = writeln!(io::stdout(), "Figures for monitoring: http://{address}/");
    }

    let found = keep::find(&options.state)?;
    // No other thread runs yet.
    privileges::keep_only(privileges::HELPER)?;
    let pem = watch::Sender::new(Rc::new(loaded.pem));
    let helper = Helper {
        listeners,
        pem,
        challenge: watch::Sender::default(),
        acme: options.acme,
        start: Start {
            trusted_proxies: options.trusted_proxies,
            udp_sockets: udp_sockets.len() as u8,
            has_guests: options.sharing,
            remember_s: 0,
            banner,
            rates: options.rates,
        },
        udp_sockets,
        front_user,
        service: options.pam_service,
        pressure,
        waiting: LineFile::of(&options.state),
        state: options.state,
        remember: options.remember,
        remember_s: Cell::new(0),
        limits: options.limits,
        for_sessions: [
            ("THINC_END_IDLE", options.end_idle),
            ("THINC_END_DISCONNECTED", options.end_disconnected),
        ]
        .into_iter()
        .filter_map(|(name, time)| Some((name, format!("{}s", time?.as_secs()))))
        .chain([(OPENING_VARIABLE, options.opening.word().to_owned())])
        .chain((!options.sound).then(|| ("THINC_SOUND", "off".to_owned())))
        .chain((!options.printing).then(|| ("THINC_PRINTING", "off".to_owned())))
        .chain((!options.microphone).then(|| ("THINC_MICROPHONE", "off".to_owned())))
        .collect(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| BrokerError::System("start the event loop", error))?;
    LocalSet::new().block_on(&runtime, run(Rc::new(helper), certificate, audit, found, figures))
}

/// What `serve` needs besides root and a free port.
pub fn check(options: &BrokerOptions) -> Result<(), BrokerError> {
    required(options)?;
    if let Some((certificate, key)) = &options.certificate {
        Identity::load(certificate, key)?;
    }
    let places = options.limits.check().map_err(BrokerError::Limits)?;
    if let Some(note) = note(options, &Sources::find(&places)) {
        // Fails only if nobody reads it.
        let _ = writeln!(io::stdout(), "{note}");
    }
    banner(options)?;
    acme::check(options)
}

/// What of the administrator's wishes does not hold here, though the broker runs.
fn note(options: &BrokerOptions, pressure: &Sources) -> Option<String> {
    (options.limits.admission.policy != Policy::Off).then(|| pressure.note()).flatten()
}

fn banner(options: &BrokerOptions) -> Result<String, BrokerError> {
    let text = options.banner.as_deref().map(banner::read).transpose();
    Ok(text.map_err(BrokerError::Banner)?.unwrap_or_default())
}

/// The front's account, once there are rules for PAM too.
fn required(options: &BrokerOptions) -> Result<User, BrokerError> {
    // libpam reads the file of the name in lower case; without one, the rules of "other".
    let rules = Path::new("/etc/pam.d").join(options.pam_service.to_ascii_lowercase());
    if !rules.is_file() {
        return Err(BrokerError::NoPamService(rules));
    }
    if options.certificate.is_some() && !options.acme.names.is_empty() {
        return Err(BrokerError::AcmeAndFiles);
    }
    match User::from_name(&options.front_user) {
        Ok(Some(user)) if user.uid.is_root() => {
            Err(BrokerError::FrontIsRoot(options.front_user.clone()))
        }
        Ok(Some(user)) => Ok(user),
        _ => Err(BrokerError::NoFrontUser(options.front_user.clone())),
    }
}

/// What stays the same while the helper runs.
pub(crate) struct Helper {
    listeners: Vec<TcpListener>,
    /// None without QUIC.
    udp_sockets: Vec<UdpSocket>,
    /// Wakes the task that tells the front.
    pem: watch::Sender<Pem>,
    /// The last challenge of ACME; wakes the same task.
    challenge: watch::Sender<Option<Rc<Challenge>>>,
    acme: AcmeOptions,
    start: Start,
    front_user: User,
    pub(crate) service: String,
    /// For figures.
    pressure: Sources,
    waiting: LineFile,
    pub(crate) state: PathBuf,
    /// How long devices are remembered, as the administrator wants, and what the front is told.
    remember: Duration,
    remember_s: Cell<u32>,
    pub(crate) limits: Limits,
    /// When desktops end, as the environment of `thinc serve`.
    pub(crate) for_sessions: Vec<(&'static str, String)>,
}

/// What the front answers an ACME server, and who waits until it does.
struct Challenge {
    name: String,
    pem: Vec<u8>,
    answered: Cell<Option<oneshot::Sender<()>>>,
}

/// What is known of people.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) throttle: Throttle,
    /// The oldest first.
    pub(crate) logins: Vec<Login>,
    /// The number of the newest; that of a helper before this one, where a login of it goes on.
    pub(crate) login_count: u64,
    /// Those of this front that are connected with a session, by its number for them.
    viewers: HashMap<u64, OpenViewer>,
    pub(crate) audit: Audit,
    pub(crate) tally: Tally,
    /// Wakes the task that tells the front.
    draining: watch::Sender<bool>,
    pub(crate) devices: Devices,
    /// What the front has to know without having asked. One message for each login that ends.
    to_front: Option<mpsc::UnboundedSender<Reply>>,
}

/// A viewer that is connected with a session.
struct OpenViewer {
    login: u64,
    user: String,
    from: IpAddr,
    session: String,
    since: Instant,
    is_guest: bool,
}

/// Opens an agent again after the front was restarted.
pub(crate) struct Login {
    pub(crate) number: u64,
    pub(crate) since: Instant,
    pub(crate) cookie_hash: Secret,
    pub(crate) origin_secret_hash: Secret,
    pub(crate) user: String,
    pub(crate) agent: Rc<OwnedFd>,
    pub(crate) ends: Instant,
    /// Keeps it for the next helper.
    pub(crate) process: Rc<Channel>,
    /// That has opened it, or was remembered with it.
    pub(crate) device: Option<DeviceId>,
    /// The person has just given a password.
    pub(crate) may_remember: bool,
}

impl Login {
    /// The next helper has to know it, whenever this one ends.
    pub(crate) fn keep(&self) {
        let Login { number: login, cookie_hash, origin_secret_hash, device, .. } = *self;
        let keep = Request::Keep(Kept { login, cookie_hash, origin_secret_hash, device });
        if let Err(error) = self.process.try_send(&keep.encode()) {
            let user = &self.user;
            warn!(login, user, "a login of {user} cannot outlive the broker: {error}");
        }
    }

    /// The next helper must not learn of it. What is sent arrives, though this helper may end.
    fn forget(&self) {
        if let Err(error) = self.process.try_send(&Request::Forget.encode()) {
            // A process that has ended tells nobody anything.
            if error.kind() != io::ErrorKind::BrokenPipe {
                warn!(
                    login = self.number,
                    user = self.user,
                    "a login of {} has not heard its end: {error}",
                    self.user
                );
            }
        }
    }
}

impl State {
    pub(crate) fn add(&mut self, login: Login) {
        self.expire(Instant::now());
        let of_user = self.logins.iter().filter(|other| other.user == login.user).count();
        let oldest = if of_user >= LOGINS_PER_USER_MAX {
            self.logins.iter().position(|other| other.user == login.user)
        } else {
            (self.logins.len() >= LOGINS_MAX).then_some(0)
        };
        if let Some(at) = oldest {
            let displaced = self.logins.remove(at);
            self.end_login(&displaced, None, "displaced by a newer login");
        }
        self.logins.push(login);
    }

    fn expire(&mut self, now: Instant) {
        let (ended, going_on): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.logins).into_iter().partition(|login| login.ends <= now);
        self.logins = going_on;
        for login in ended {
            self.end_login(&login, None, "expired");
        }
    }

    fn end_login(&mut self, login: &Login, from: Option<IpAddr>, reason: &str) {
        login.forget();
        let entry = Entry {
            login: Some(login.number),
            user: Some(&login.user),
            from,
            reason: Some(reason),
            ..Entry::new(Event::Logout)
        };
        self.audit.record(&entry.lasted(login.since.elapsed()));
    }

    /// What the front says of a login that it holds the cookie of; else it is not recorded.
    fn note(&mut self, cookie: &Secret, source: Ipv6Addr, viewer: u64, deed: Deed, session: &str) {
        if deed == Deed::Left {
            // The login may have ended: that is why it leaves.
            if let Some(viewer) = self.viewers.remove(&viewer) {
                self.record_left(&viewer, None);
            }
            return;
        }
        let cookie = hash(cookie);
        let Some(login) = self.logins.iter().find(|login| login.cookie_hash == cookie) else {
            return;
        };
        let event = match deed {
            Deed::Started => Event::SessionStarted,
            Deed::Opened => Event::SessionOpened,
            Deed::Visited => Event::GuestCame,
            Deed::Left | Deed::Ended => Event::SessionEnded,
        };
        let from = source.to_canonical();
        self.audit.record(&Entry {
            login: Some(login.number),
            user: Some(&login.user),
            from: Some(from),
            session: Some(session),
            ..Entry::new(event)
        });
        if matches!(deed, Deed::Opened | Deed::Visited) && self.viewers.len() < VIEWERS_MAX {
            let opened = OpenViewer {
                login: login.number,
                user: login.user.clone(),
                from,
                session: session.to_owned(),
                since: Instant::now(),
                is_guest: deed == Deed::Visited,
            };
            self.viewers.insert(viewer, opened);
        }
    }

    fn record_left(&mut self, viewer: &OpenViewer, reason: Option<&str>) {
        let entry = Entry {
            login: Some(viewer.login),
            user: Some(&viewer.user),
            from: Some(viewer.from),
            session: Some(&viewer.session),
            reason,
            ..Entry::new(Event::SessionLeft)
        };
        self.audit.record(&entry.lasted(viewer.since.elapsed()));
    }

    /// The front has ended, and with it every connection.
    fn leave_all(&mut self) {
        for viewer in std::mem::take(&mut self.viewers).into_values() {
            self.record_left(&viewer, Some("the front has ended"));
        }
    }

    fn find(&mut self, cookie: &Secret, origin_secret: &Secret) -> Option<&Login> {
        self.expire(Instant::now());
        // Hashes of 256 random bits: how long comparing takes tells nothing of use.
        let (cookie, origin_secret) = (hash(cookie), hash(origin_secret));
        self.logins
            .iter()
            .find(|login| login.cookie_hash == cookie && login.origin_secret_hash == origin_secret)
    }

    /// The login of a cookie alone, for the front that holds it.
    pub(crate) fn login_of(&mut self, cookie: &Secret) -> Option<&Login> {
        self.expire(Instant::now());
        let cookie = hash(cookie);
        self.logins.iter().find(|login| login.cookie_hash == cookie)
    }

    /// A person logs out: the device that has opened this login is forgotten with it.
    pub(crate) fn end(&mut self, cookie: &Secret) -> Option<Saved> {
        let cookie = hash(cookie);
        let at = self.logins.iter().position(|login| login.cookie_hash == cookie)?;
        let login = self.logins.remove(at);
        self.end_login(&login, None, "logged out");
        self.forget_device(login.device?, By { reason: "logged out", ..By::default() }, None)
    }

    /// Ends the logins that a device has opened, except that of this cookie's hash.
    pub(crate) fn end_logins_of(&mut self, device: DeviceId, kept: Option<&Secret>) {
        let (ended, going_on): (Vec<_>, Vec<_>) = std::mem::take(&mut self.logins)
            .into_iter()
            .partition(|login| login.device == Some(device) && kept != Some(&login.cookie_hash));
        self.logins = going_on;
        for login in ended {
            self.end_login(&login, None, "its device was forgotten");
            if let Some(front) = &self.to_front {
                let ended = DeviceReply::Ended { cookie_hash: login.cookie_hash };
                // A front that has ended has no connections.
                let _ = front.send(Reply::Device(ended));
            }
        }
    }
}

pub(crate) fn hash(secret: &Secret) -> Secret {
    Sha256::digest(secret).into()
}

async fn run(
    helper: Rc<Helper>,
    certificate: Certificate,
    audit: Audit,
    found: Vec<Found>,
    figures: Option<TcpListener>,
) -> Result<(), BrokerError> {
    let stop = |kind| signal(kind).map_err(|error| BrokerError::System("wait for signals", error));
    let (mut term, mut int) = (stop(SignalKind::terminate())?, stop(SignalKind::interrupt())?);
    let devices = Devices::open(&helper.state, helper.remember);
    helper.remember_s.set(devices.life().as_secs() as u32);
    let state = Rc::new(RefCell::new(State { audit, devices, ..State::default() }));
    state.borrow_mut().expire_devices();
    adopt(&state, found)?;
    let admin = AdminSocket::bind(&helper.state)
        .map_err(|error| BrokerError::System("listen for the administrator", error))?;
    let for_admin = state.clone();
    tokio::task::spawn_local(async move {
        let answer = async |request: AdminRequest, by| {
            if let AdminRequest::Forget { user, device } = &request {
                device_requests::forget_for_administrator(&for_admin, user, *device, by).await;
            }
            for_admin.borrow_mut().administrate(&request, by)
        };
        admin.serve(answer).await;
    });
    if let Some(listener) = figures {
        tokio::task::spawn_local(monitor::keep(helper.clone(), state.clone(), listener));
    }
    let issued = Rc::new(Notify::new());
    let hangup = stop(SignalKind::hangup())?;
    tokio::task::spawn_local(certificate.renew(hangup, issued.clone(), helper.pem.clone()));
    if !helper.acme.names.is_empty() {
        tokio::task::spawn_local(serve_acme(helper.clone(), issued));
    }
    let mut failures = 0u32;
    loop {
        let started = Instant::now();
        let (mut front, channel) = start_front(&helper)?;
        let channel = Rc::new(channel);
        state.borrow_mut().tally.set_front(Some((channel.clone(), front.id())));
        tokio::select! {
            error = serve_front(helper.clone(), state.clone(), channel) => {
                warn!("the front has ended or sent what it must not: {error}");
            }
            _ = term.recv() => {
                state.borrow_mut().leave_all();
                return Ok(());
            }
            _ = int.recv() => {
                state.borrow_mut().leave_all();
                return Ok(());
            }
        }
        state.borrow_mut().leave_all();
        state.borrow_mut().tally.set_front(None);
        // It must not go on without its helper, whatever it does.
        let _ = front.start_kill();
        match front.wait().await {
            Ok(status) => warn!("the front ended ({status}); restarting it"),
            Err(error) => warn!("cannot wait for the front: {error}"),
        }
        failures = if started.elapsed() >= HEALTHY_AFTER { 0 } else { failures + 1 };
        if let Some(times) = failures.checked_sub(2) {
            sleep((RESTART_DELAY * 2u32.saturating_pow(times.min(16))).min(RESTART_DELAY_MAX))
                .await;
        }
    }
}

/// Goes on with the logins of the helper before this one.
fn adopt(state: &Rc<RefCell<State>>, found: Vec<Found>) -> Result<(), BrokerError> {
    let mut count = 0;
    for Found { login: number, since, user, open, process } in found {
        let process = Channel::new(process)
            .map_err(|error| BrokerError::System("listen to a login process", error))?;
        let process = Rc::new(process);
        let mut known = state.borrow_mut();
        known.login_count = known.login_count.max(number);
        if let Some((Kept { cookie_hash, origin_secret_hash, device, .. }, agent)) = open {
            count += 1;
            // It may have expired in between.
            let device = device.filter(|id| known.devices.known(*id, now_s()).is_some());
            known.add(Login {
                device,
                may_remember: false,
                number,
                since,
                cookie_hash,
                origin_secret_hash,
                user: user.clone(),
                agent: Rc::new(agent),
                ends: since + LOGIN_LIFE,
                process: process.clone(),
            });
        }
        drop(known);
        watch(state.clone(), number, since, user, process, None);
    }
    if count > 0 {
        info!("{count} logins from before the broker was started go on");
    }
    Ok(())
}

/// Waits for the end of a login process: it lives as long as the last process of the login.
pub(crate) fn watch(
    state: Rc<RefCell<State>>,
    number: u64,
    since: Instant,
    user: String,
    process: Rc<Channel>,
    child: Option<Child>,
) {
    tokio::task::spawn_local(async move {
        // It has nothing more to say.
        while process.receive(MESSAGE_BYTES_MAX).await.is_ok_and(|packet| !packet.bytes.is_empty())
        {
        }
        if let Some(mut child) = child {
            let _ = child.wait().await;
        }
        let entry =
            Entry { login: Some(number), user: Some(&user), ..Entry::new(Event::ProcessesEnded) };
        state.borrow_mut().audit.record(&entry.lasted(since.elapsed()));
    });
}

/// Keeps the process for ACME, and passes on what it has.
async fn serve_acme(helper: Rc<Helper>, issued: Rc<Notify>) {
    let (sender, mut events) = mpsc::channel(1);
    let folder = acme::Folder::of(&helper.state);
    let process = acme::run(helper.acme.clone(), folder, helper.front_user.clone(), sender);
    let pass_on = async {
        while let Some(event) = events.recv().await {
            match event {
                acme::Event::Challenge(name, pem, answered) => {
                    let answered = Cell::new(Some(answered));
                    helper.challenge.send_replace(Some(Rc::new(Challenge { name, pem, answered })));
                }
                acme::Event::Issued => issued.notify_one(),
            }
        }
    };
    tokio::join!(process, pass_on);
}

/// Starts the front as its own user, with the port and the key.
fn start_front(helper: &Helper) -> Result<(Child, Channel), BrokerError> {
    let failed = |error| BrokerError::System("start the front", error);
    let (near, far) = packets::pair().map_err(failed)?;
    let pem = pipe_with(&helper.pem.borrow()).map_err(failed)?;
    let start = Start { remember_s: helper.remember_s.get(), ..helper.start.clone() }.encode();
    let listeners = helper.listeners.iter().map(|listener| listener.as_fd());
    let udp_sockets = helper.udp_sockets.iter().map(|socket| socket.as_fd());
    let descriptors: Vec<_> =
        std::iter::once(pem.as_fd()).chain(listeners).chain(udp_sockets).collect();
    packets::send(&near, &start, &descriptors).map_err(failed)?;
    let child = crate::spawn_part("front", &helper.front_user, far).map_err(failed)?;
    Ok((child, Channel::new(near).map_err(failed)?))
}

/// An attempt to log in.
struct Attempt {
    number: u64,
    source: IpAddr,
    /// Answers, and that the person has gone.
    requests: mpsc::Sender<Request>,
}

/// Serves a front until it ends; returns why.
async fn serve_front(
    helper: Rc<Helper>,
    state: Rc<RefCell<State>>,
    channel: Rc<Channel>,
) -> io::Error {
    let mut draining = state.borrow().draining.subscribe();
    // A front that starts knows nothing of it.
    draining.mark_changed();
    // It was started with this one.
    let mut pem = helper.pem.subscribe();
    // That one may have been for the front before.
    let mut challenge = helper.challenge.subscribe();
    challenge.mark_changed();
    // The oldest first. Dropping them ends their tasks: the people have gone with the front.
    let attempts: Rc<RefCell<Vec<Attempt>>> = Rc::default();
    let (to_front, mut for_front) = mpsc::unbounded_channel();
    state.borrow_mut().to_front = Some(to_front);
    loop {
        let received = tokio::select! {
            // First, so that the front knows it before any answer that follows from it. The sender
            // lives as long as the state.
            biased;
            _ = draining.changed() => {
                let is_draining = *draining.borrow_and_update();
                send(&channel, &Reply::Drain { is_draining }, None).await;
                continue;
            }
            _ = challenge.changed() => {
                let challenge = challenge.borrow_and_update().clone();
                if let Some(challenge) = challenge {
                    match pipe_with(&challenge.pem) {
                        Ok(pipe) => {
                            let reply = Reply::Challenge { name: challenge.name.clone() };
                            send(&channel, &reply, Some(&pipe)).await;
                        }
                        Err(error) => warn!("cannot pass a challenge: {error}"),
                    }
                }
                continue;
            }
            _ = pem.changed() => {
                let pipe = pipe_with(&pem.borrow_and_update());
                match pipe {
                    Ok(pipe) => send(&channel, &Reply::Certificate, Some(&pipe)).await,
                    Err(error) => warn!("cannot pass a certificate on: {error}"),
                }
                continue;
            }
            Some(reply) = for_front.recv() => {
                send(&channel, &reply, None).await;
                continue;
            }
            received = channel.receive(MESSAGE_BYTES_MAX) => received,
        };
        let request = match received {
            Ok(packet) if packet.bytes.is_empty() => {
                return io::ErrorKind::UnexpectedEof.into();
            }
            Ok(packet) => Request::decode(&packet.bytes),
            Err(error) => return error,
        };
        match request {
            Ok(
                Request::Begin { attempt, .. }
                | Request::Device(DeviceRequest::SignIn { attempt, .. }),
            ) if *state.borrow().draining.borrow() => {
                state.borrow_mut().tally.count_refusal(Refused::Draining);
                let reply = Reply::Refused { attempt, reason: Reason::Draining };
                send(&channel, &reply, None).await;
            }
            Ok(
                request @ (Request::Begin { attempt, source, .. }
                | Request::Device(DeviceRequest::SignIn { attempt, source, .. })),
            ) => {
                let from = throttle::source(source);
                let sources: Vec<IpAddr> =
                    attempts.borrow().iter().map(|attempt| attempt.source).collect();
                if let Some(at) = throttle::displaced(&sources, from) {
                    // Its task sees the closed channel, and tells the front.
                    attempts.borrow_mut().remove(at);
                }
                let (requests, inbox) = mpsc::channel(2);
                attempts.borrow_mut().push(Attempt { number: attempt, source: from, requests });
                let (user, device) = match request {
                    Request::Begin { user, .. } => (user, None),
                    Request::Device(DeviceRequest::SignIn { device, place, .. }) => {
                        let known = state.borrow().devices.known(device, now_s());
                        (known.map_or_else(String::new, |known| known.user), Some((device, place)))
                    }
                    _ => unreachable!("only these begin an attempt"),
                };
                let begin = Begin { attempt, source: from, address: source, user, device };
                let task = Task { helper: helper.clone(), state: state.clone(), begin, inbox };
                let (channel, attempts) = (channel.clone(), attempts.clone());
                tokio::task::spawn_local(async move {
                    let (reply, agent) = task.run(&channel).await;
                    attempts.borrow_mut().retain(|other| other.number != attempt);
                    send(&channel, &reply, agent.as_deref()).await;
                });
            }
            Ok(
                request @ (Request::Answers { attempt, .. }
                | Request::Cancel { attempt }
                | Request::Device(DeviceRequest::Signed { attempt, .. })),
            ) => {
                let attempts = attempts.borrow();
                // It may have ended meanwhile. What does not fit was not asked for.
                if let Some(found) = attempts.iter().find(|found| found.number == attempt) {
                    let _ = found.requests.try_send(request);
                }
            }
            Ok(Request::Resume { attempt, cookie, origin_secret }) => {
                let found = state.borrow_mut().find(&cookie, &origin_secret).map(|login| {
                    let user = login.user.clone();
                    let admitted = Reply::Admitted { attempt, cookie, origin_secret, user };
                    (admitted, login.agent.clone())
                });
                match found {
                    Some((reply, agent)) => send(&channel, &reply, Some(&agent)).await,
                    None => {
                        let reply = Reply::Refused { attempt, reason: Reason::Refused };
                        send(&channel, &reply, None).await;
                    }
                }
            }
            Ok(Request::End { attempt, cookie }) => {
                let saved = state.borrow_mut().end(&cookie);
                let channel = channel.clone();
                tokio::task::spawn_local(async move {
                    let is_saved = match saved {
                        Some(saved) => matches!(saved.await, Ok(Ok(()))),
                        None => true,
                    };
                    let reply = if is_saved {
                        Reply::Ended { attempt }
                    } else {
                        Reply::Refused { attempt, reason: Reason::Refused }
                    };
                    send(&channel, &reply, None).await;
                });
            }
            Ok(Request::Device(DeviceRequest::Remember { attempt, cookie, key, name })) => {
                let (state, channel) = (state.clone(), channel.clone());
                tokio::task::spawn_local(async move {
                    let device = (key, name);
                    let reply =
                        device_requests::remember(state, attempt, cookie, device, account_of).await;
                    send(&channel, &reply, None).await;
                });
            }
            Ok(Request::Device(DeviceRequest::List { attempt, cookie })) => {
                let reply = device_requests::list(&state, attempt, &cookie);
                send(&channel, &reply, None).await;
            }
            Ok(Request::Device(DeviceRequest::Forget { attempt, cookie, device })) => {
                let (state, channel) = (state.clone(), channel.clone());
                tokio::task::spawn_local(async move {
                    let reply = device_requests::forget(state, attempt, cookie, device).await;
                    send(&channel, &reply, None).await;
                });
            }
            Ok(Request::Note { cookie, source, viewer, deed, session }) => {
                state.borrow_mut().note(&cookie, source, viewer, deed, &session);
            }
            Ok(
                request @ (Request::Keep(_)
                | Request::Forget
                | Request::Device(DeviceRequest::Verify(_))),
            ) => {
                let what = format!("{request:?} is for login processes");
                return io::Error::new(io::ErrorKind::InvalidData, what);
            }
            Ok(Request::Answering { name }) => {
                let challenge = helper.challenge.borrow().clone();
                if let Some(challenge) = challenge.filter(|challenge| challenge.name == name)
                    && let Some(answered) = challenge.answered.take()
                {
                    let _ = answered.send(());
                }
            }
            Err(error) => return io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// A front that does not read has ended, which `serve_front` detects.
pub(crate) async fn send(channel: &Channel, reply: &Reply, descriptor: Option<&OwnedFd>) {
    let descriptors: Vec<_> = descriptor.into_iter().map(|fd| fd.as_fd()).collect();
    let _ = channel.send(&reply.encode(), &descriptors).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, number: u16) -> Login {
        let mut secret = [0; 32];
        secret[..2].copy_from_slice(&number.to_le_bytes());
        Login {
            number: u64::from(number),
            since: Instant::now(),
            cookie_hash: hash(&secret),
            origin_secret_hash: hash(&[9; 32]),
            user: user.to_owned(),
            agent: Rc::new(std::fs::File::open("/dev/null").unwrap().into()),
            ends: Instant::now() + LOGIN_LIFE,
            process: Rc::new(Channel::new(packets::pair().unwrap().0).unwrap()),
            device: None,
            may_remember: true,
        }
    }

    #[tokio::test]
    async fn a_login_is_found_by_both_secrets_until_it_ends() {
        let mut state = State::default();
        let cookie = [0; 32];
        state.add(login("anna", 0));
        assert_eq!(state.find(&cookie, &[9; 32]).unwrap().user, "anna");
        assert!(state.find(&cookie, &[8; 32]).is_none());
        assert!(state.find(&[1; 32], &[9; 32]).is_none());
        state.end(&cookie);
        assert!(state.find(&cookie, &[9; 32]).is_none());
        state.add(Login { ends: Instant::now(), ..login("anna", 0) });
        assert!(state.find(&cookie, &[9; 32]).is_none());
    }

    #[tokio::test]
    async fn the_oldest_login_makes_room_and_one_person_displaces_only_their_own() {
        let mut state = State::default();
        state.add(login("otto", 0));
        for number in 1..=LOGINS_PER_USER_MAX as u16 + 1 {
            state.add(login("anna", number));
        }
        assert_eq!(state.logins.len(), 1 + LOGINS_PER_USER_MAX);
        assert_eq!(state.logins[0].user, "otto");
        let mut first = [0; 32];
        first[0] = 1;
        assert!(state.find(&first, &[9; 32]).is_none(), "Anna's oldest has ended");
    }
}
