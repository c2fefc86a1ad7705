//! The process `thinc desk`: sockets and the clock around server.rs, and beside it the printer's
//! (printing.rs). From supervisor.rs, which starts it and keeps its sockets, to programs and the
//! session process. It parses programs' bytes only. Knows sockets, tasks and time; decides nothing
//! that server.rs could decide.
//!
//! It is no part of the session process, because no program comes back when its sound server dies,
//! and the session process may be restarted.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_send_buffer_size, socket_peercred};
use rustix::process::geteuid;
use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::sleep;
use tracing::{debug, info, warn};

use crate::link::{Frame, LINK_VERSION, Message, Micros, SessionMessage, Wish};
use crate::printing;
use crate::server::{ClientId, Server};
use crate::sockets::{ServiceSockets, Sockets};

/// Bytes read from a program at a time.
const READ_BYTES: usize = 64 << 10;
/// Sound on its way to the session process, which the kernel keeps: about 80 ms. More would only
/// become delay; a frame that does not fit is left out.
const LINK_BUFFER_BYTES: usize = 32 << 10;
/// Bytes read from the session process at a time: four blocks of the microphone.
const LINK_READ_BYTES: usize = 4 << 10;
/// After a failure to accept, for example without a free descriptor.
pub(crate) const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why there is no desk.
#[derive(Debug, Error)]
pub enum DeskError {
    /// The supervisor's sockets.
    #[error("cannot receive the desk's sockets: {0}")]
    Sockets(io::Error),
    /// No folder for print jobs.
    #[error("a printer needs a folder for its jobs: --spool FOLDER")]
    NoSpool,
    /// The system.
    #[error("cannot {0}: {1}")]
    System(&'static str, io::Error),
}

/// `thinc desk`: receives the listening sockets on standard input, and serves until SIGTERM. Print
/// jobs are kept in `spool`.
pub fn main(spool: Option<PathBuf>) -> Result<ExitCode, DeskError> {
    // A killed supervisor must not leave a process that nobody can list or stop.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .map_err(|error| DeskError::System("set the parent death signal", error.into()))?;
    // After a panic in one task the others would wait for it: abort, and the supervisor restarts
    // the process.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
    let sockets = Sockets::take(io::stdin().as_fd()).map_err(DeskError::Sockets)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| DeskError::System("start the event loop", error))?;
    runtime.block_on(async {
        let mut term = signal(SignalKind::terminate())
            .map_err(|error| DeskError::System("wait for signals", error))?;
        tokio::select! {
            result = run(sockets, spool) => result.map(|never| match never {}),
            _ = term.recv() => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Serves without end.
pub async fn run(
    sockets: Sockets,
    spool: Option<PathBuf>,
) -> Result<std::convert::Infallible, DeskError> {
    let sound = async {
        match sockets.sound {
            Some(sockets) => serve_sound(sockets).await,
            None => std::future::pending().await,
        }
    };
    let printing = async {
        match sockets.printing {
            Some(sockets) => printing::serve(sockets, spool.ok_or(DeskError::NoSpool)?).await,
            None => std::future::pending().await,
        }
    };
    tokio::try_join!(sound, printing).map(|(never, _)| never)
}

pub(crate) fn listen(
    listener: std::os::unix::net::UnixListener,
) -> Result<UnixListener, DeskError> {
    listener
        .set_nonblocking(true)
        .and_then(|()| UnixListener::from_std(listener))
        .map_err(|error| DeskError::System("listen", error))
}

async fn serve_sound(sockets: ServiceSockets) -> Result<std::convert::Infallible, DeskError> {
    let (programs, link) = (listen(sockets.programs)?, listen(sockets.link)?);
    let host = rustix::system::uname().nodename().to_owned();
    let user = std::env::var("USER").ok().and_then(|name| CString::new(name).ok());
    let desk = Desk(Arc::new(Shared {
        state: Mutex::new(State {
            server: Server::new(user.unwrap_or_default(), host),
            programs: HashMap::new(),
            link: None,
            links: 0,
            armed: None,
        }),
        rearm: Notify::new(),
    }));
    tokio::join!(
        desk.clone().keep_time(),
        desk.clone().accept_programs(programs),
        desk.clone().accept_session(link),
    )
    .0
}

fn now() -> Micros {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as Micros * 1_000_000 + time.tv_nsec as Micros / 1000
}

/// The same user; the folder of the sockets keeps others out as well.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    socket_peercred(stream).is_ok_and(|peer| peer.uid == geteuid())
}

#[derive(Clone)]
struct Desk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The next tick may be earlier than `armed`.
    rearm: Notify,
}

struct State {
    server: Server,
    /// Wakes the task that writes to a program.
    programs: HashMap<ClientId, Arc<Notify>>,
    /// The session process.
    link: Option<Link>,
    /// Connections of session processes so far.
    links: u64,
    /// The tick that is waited for.
    armed: Option<Micros>,
}

/// The connection to the session process.
struct Link {
    number: u64,
    stream: Arc<UnixStream>,
    /// What the kernel has not taken yet.
    rest: Vec<u8>,
    /// Who plays, as it is to be told; the newest only.
    players: Option<Vec<String>>,
    /// For how many blocks of the microphone it is to be asked.
    microphone: Option<u8>,
    /// Wakes the task that writes the rest.
    blocked: Arc<Notify>,
    has_gap: bool,
}

impl Link {
    /// Sends a frame, or leaves it out if the session process does not read.
    fn send(&mut self, mut frame: Frame) {
        self.flush();
        if !self.rest.is_empty() {
            self.has_gap = true;
            return;
        }
        frame.discontinuity |= std::mem::take(&mut self.has_gap);
        frame.encode(&mut self.rest);
        self.flush();
        if !self.rest.is_empty() {
            self.blocked.notify_one();
        }
    }

    /// Tells who plays, at once or after what was begun.
    fn tell_players(&mut self, players: Vec<String>) {
        self.players = Some(players);
        self.flush();
        if !self.rest.is_empty() {
            self.blocked.notify_one();
        }
    }

    /// Asks for so many blocks of the microphone more; 0: no program records any more.
    fn ask_microphone(&mut self, blocks: u8) {
        let before = self.microphone.unwrap_or(0);
        self.microphone = Some(if blocks == 0 { 0 } else { before + blocks });
        self.flush();
        if !self.rest.is_empty() {
            self.blocked.notify_one();
        }
    }

    fn flush(&mut self) {
        loop {
            if self.rest.is_empty()
                && let Some(blocks) = self.microphone.take()
            {
                Message::encode_microphone(blocks, &mut self.rest);
            }
            if self.rest.is_empty() {
                let Some(players) = self.players.take() else { return };
                Message::encode_players(&players, &mut self.rest);
            }
            match self.stream.try_write(&self.rest) {
                Ok(written) => drop(self.rest.drain(..written)),
                // A broken connection is found by who reads from it.
                Err(_) => return,
            }
        }
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("a panic ends the process")
    }

    /// Changes the server, then wakes who has to act on it.
    fn with_server<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        let mut guard = self.state();
        let state = &mut *guard;
        let result = act(&mut state.server);
        for id in state.server.take_ready() {
            if let Some(program) = state.programs.get(&id) {
                program.notify_one();
            }
        }
        if let Some(players) = state.server.take_players()
            && let Some(link) = &mut state.link
        {
            link.tell_players(players);
        }
        // Without a session process nothing is asked for: the microphone is silent.
        if let Some(link) = &mut state.link
            && let Some(blocks) = state.server.take_microphone_request()
        {
            link.ask_microphone(blocks);
        }
        let next = state.server.next_tick();
        let is_earlier = next.is_some_and(|next| state.armed.is_none_or(|armed| next < armed));
        if is_earlier {
            self.0.rearm.notify_one();
        }
        result
    }

    /// Calls the server when sound is due. Sleeps without a timer while none is.
    async fn keep_time(self) -> Result<std::convert::Infallible, DeskError> {
        let mut frames = Vec::new();
        loop {
            let next = {
                let mut state = self.state();
                state.armed = state.server.next_tick();
                state.armed
            };
            let Some(next) = next else {
                self.0.rearm.notified().await;
                continue;
            };
            if let wait @ 1.. = next.saturating_sub(now()) {
                tokio::select! {
                    () = sleep(Duration::from_micros(wait)) => {}
                    () = self.0.rearm.notified() => {}
                }
                continue;
            }
            self.with_server(|server| server.tick(now(), &mut frames));
            if let Some(link) = &mut self.state().link {
                frames.drain(..).for_each(|frame| link.send(frame));
            }
            frames.clear();
        }
    }

    async fn accept_programs(self, listener: UnixListener) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept a program's connection: {error}");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            if !is_ours(&stream) {
                warn!("refused a program of another user");
                continue;
            }
            let mut state = self.state();
            let Some(id) = state.server.connect() else {
                warn!("refused a program: too many are connected");
                continue;
            };
            let wake = Arc::new(Notify::new());
            state.programs.insert(id, wake.clone());
            drop(state);
            tokio::spawn(self.clone().serve_program(stream, id, wake));
        }
    }

    async fn serve_program(self, stream: UnixStream, id: ClientId, wake: Arc<Notify>) {
        debug!("a program has connected");
        let reason = self.exchange(&stream, id, &wake).await;
        match reason {
            Ok(reason) => info!("a program is disconnected: {reason}"),
            Err(error) => debug!("a program has left: {error}"),
        }
        self.state().programs.remove(&id);
        self.with_server(|server| server.disconnect(id, now()));
    }

    /// Moves bytes between a program and the server; returns why the server ends the connection.
    async fn exchange(
        &self,
        stream: &UnixStream,
        id: ClientId,
        wake: &Notify,
    ) -> io::Result<String> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let mut is_blocked = false;
            {
                let mut state = self.state();
                while !state.server.unread(id).is_empty() && !is_blocked {
                    match stream.try_write(state.server.unread(id)) {
                        Ok(written) => state.server.was_read(id, written),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                            is_blocked = true;
                        }
                        Err(error) => return Err(error),
                    }
                }
                if let Some(reason) = state.server.ended(id) {
                    return Ok(reason.to_owned());
                }
            }
            let interest = match is_blocked {
                true => Interest::READABLE | Interest::WRITABLE,
                false => Interest::READABLE,
            };
            tokio::select! {
                ready = stream.ready(interest) => {
                    if !ready?.is_readable() {
                        continue;
                    }
                    match stream.try_read(&mut bytes) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(read) => {
                            let bytes = &bytes[..read];
                            self.with_server(|server| server.handle_bytes(id, bytes, now()));
                        }
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                () = wake.notified() => {}
            }
        }
    }

    /// The newest connection is the session process's: an older one is that of its predecessor.
    async fn accept_session(self, listener: UnixListener) {
        loop {
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept the session process's connection: {error}");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            if !is_ours(&stream) {
                warn!("refused a session process of another user");
                continue;
            }
            // Without it there would be more delay, and no other harm.
            let _ = set_socket_send_buffer_size(&stream, LINK_BUFFER_BYTES);
            let stream = Arc::new(stream);
            let mut state = self.state();
            state.links += 1;
            let (number, players) = (state.links, state.server.players());
            let blocked = Arc::new(Notify::new());
            state.link = Some(Link {
                number,
                stream: stream.clone(),
                rest: vec![LINK_VERSION],
                players: Some(players),
                microphone: None,
                blocked: blocked.clone(),
                has_gap: false,
            });
            drop(state);
            self.with_server(Server::handle_link);
            tokio::spawn(self.clone().serve_session(stream, number, blocked));
        }
    }

    async fn serve_session(self, stream: Arc<UnixStream>, number: u64, blocked: Arc<Notify>) {
        if let Err(error) = self.follow_session(&stream, number, &blocked).await {
            debug!("the session process has left: {error}");
        }
        let mut state = self.state();
        if state.link.as_ref().is_some_and(|link| link.number == number) {
            state.link = None;
            drop(state);
            let latency = self.state().server.wish().latency;
            self.with_server(|server| server.set_wish(Wish { listening: false, latency }, now()));
        }
    }

    /// Reads what the session process says, and writes what the kernel has not taken at once. Ends
    /// without an error if there is a newer connection.
    async fn follow_session(
        &self,
        stream: &UnixStream,
        number: u64,
        blocked: &Notify,
    ) -> io::Result<()> {
        let (mut bytes, mut filled) = ([0; LINK_READ_BYTES], 0);
        let mut is_version_known = false;
        loop {
            let interest = {
                let mut state = self.state();
                let Some(link) = state.link.as_mut().filter(|link| link.number == number) else {
                    return Ok(());
                };
                link.flush();
                match link.rest.is_empty() {
                    true => Interest::READABLE,
                    false => Interest::READABLE | Interest::WRITABLE,
                }
            };
            tokio::select! {
                ready = stream.ready(interest) => {
                    if !ready?.is_readable() {
                        continue;
                    }
                    match stream.try_read(&mut bytes[filled..]) {
                        Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                        Ok(read) => filled += read,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) => return Err(error),
                    }
                }
                () = blocked.notified() => {}
            }
            let mut taken = 0;
            if filled > 0 && !std::mem::replace(&mut is_version_known, true) {
                let version = bytes[0];
                if version != LINK_VERSION {
                    let reason =
                        format!("it speaks version {version} of the link, not {LINK_VERSION}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                taken = 1;
            }
            while let Some((message, length)) = SessionMessage::decode(&bytes[taken..filled])
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?
            {
                taken += length;
                self.with_server(|server| match message {
                    SessionMessage::Wish(wish) => server.set_wish(wish, now()),
                    SessionMessage::Microphone(block) => server.handle_microphone(block),
                });
            }
            bytes.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }
}
