//! The printer's sockets: HTTP and IPP of the session's programs, and the link to the session
//! process. From process.rs, around thinc-printing, which decides; documents go to spool.rs, what
//! is not about the printer to system_printers.rs. Knows sockets, tasks and time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt as _, Either, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use thinc_printing::ipp::{self, ANSWER_LIMITS, REQUEST_LIMITS};
use thinc_printing::link::{LINK_VERSION, MESSAGE_BYTES_MAX, Message};
use thinc_printing::{
    Action, DocumentError, JOB_BYTES_MAX, PDF_START, PRINTER, Paper, Printer, Reply, ppd,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::process::{ACCEPT_RETRY, DeskError, is_ours, listen};
use crate::sockets::ServiceSockets;
use crate::spool::Spool;
use crate::system_printers::{NoAnswer, SystemPrinters};

/// Programs that are connected; a further one waits.
const CONNECTIONS_MAX: usize = 32;
/// Longest head of an HTTP request.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// A program without a request, or in the middle of one, is disconnected after this. Programs that
/// keep a connection open connect again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Written to the disk at a time, by a thread that may wait for it.
const WRITE_BYTES: usize = 256 << 10;
/// 1 GiB: so much of a refused document is read and dropped, since programs read no answer before
/// they have sent it all.
const DROPPED_BYTES_MAX: u64 = 1 << 30;
/// Messages on their way to the session process: more than there are jobs. With more it does not
/// read; it is disconnected, and told again when it is back.
const MESSAGES_MAX: usize = 64;

type Answer = Response<Either<Full<Bytes>, Incoming>>;

/// Serves without end.
pub(crate) async fn serve(
    sockets: ServiceSockets,
    folder: PathBuf,
) -> Result<Infallible, DeskError> {
    let programs = listen(sockets.programs)?;
    let link = listen(sockets.link)?;
    let locale = ["LC_ALL", "LC_PAPER", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|locale| !locale.is_empty()));
    let paper = Paper::of_locale(locale.as_deref().unwrap_or(""));
    let spool = Spool::new(folder);
    let mut printer = Printer::new(paper, now());
    for (document, bytes) in spool.load().map_err(|error| DeskError::System("spool", error))? {
        let number = document.number;
        if !printer.restore(document, bytes, now()) {
            warn!("print job {number} of an earlier process is dropped: too many wait");
            let removed = spool.remove(number);
            removed.map_err(|error| DeskError::System("clear the spool", error))?;
        }
    }
    let state = State { printer, link: None, links: 0, uploads: HashMap::new() };
    let desk = PrintDesk(Arc::new(Shared {
        state: Mutex::new(state),
        rearm: Notify::new(),
        permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        spool,
        paper,
        system: SystemPrinters::find(),
    }));
    tokio::join!(
        desk.clone().keep_time(),
        desk.clone().accept_programs(programs),
        desk.clone().accept_session(link),
    )
    .0
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}

#[derive(Clone)]
struct PrintDesk(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The printer's deadline may be earlier than the one that is waited for.
    rearm: Notify,
    permits: Arc<Semaphore>,
    spool: Spool,
    paper: Paper,
    system: SystemPrinters,
}

struct State {
    printer: Printer,
    /// The session process, by the number of its connection.
    link: Option<(u64, mpsc::Sender<Message>)>,
    /// Connections of session processes so far.
    links: u64,
    /// Jobs whose document arrives; told when the job ends.
    uploads: HashMap<u32, Arc<Notify>>,
}

impl PrintDesk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("a panic ends the process")
    }

    /// Changes the printer, then does what it wants.
    fn with_printer<R>(&self, act: impl FnOnce(&mut Printer, u64) -> R) -> R {
        let mut state = self.state();
        let result = act(&mut state.printer, now());
        while let Some(action) = state.printer.poll_action() {
            match action {
                Action::Tell(message) => {
                    let link = state.link.as_ref();
                    if link.is_some_and(|(_, link)| link.try_send(message).is_err()) {
                        // Its task ends with the sender.
                        state.link = None;
                    }
                }
                Action::Remove(number) => {
                    if let Some(upload) = state.uploads.get(&number) {
                        upload.notify_one();
                    }
                    let spool = self.0.spool.clone();
                    spawn_blocking(move || {
                        if let Err(error) = spool.remove(number) {
                            warn!("the document of print job {number} stays: {error}");
                        }
                    });
                }
            }
        }
        self.0.rearm.notify_one();
        result
    }

    /// Ends jobs whose document does not come. Sleeps without a timer while there are none.
    async fn keep_time(self) -> Result<Infallible, DeskError> {
        loop {
            let deadline = self.state().printer.deadline();
            let Some(deadline) = deadline else {
                self.0.rearm.notified().await;
                continue;
            };
            match deadline.saturating_sub(now()) {
                0 => self.with_printer(Printer::handle_timeout),
                wait => tokio::select! {
                    () = sleep(Duration::from_secs(wait)) => {}
                    () = self.0.rearm.notified() => {}
                },
            }
        }
    }

    // ---- programs

    async fn accept_programs(self, listener: UnixListener) {
        loop {
            let permit = self.0.permits.clone().acquire_owned().await;
            let permit = permit.expect("the semaphore is never closed");
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!("cannot accept the connection of a program that prints: {error}");
                    sleep(ACCEPT_RETRY).await;
                    continue;
                }
            };
            if !is_ours(&stream) {
                warn!("refused a program of another user, which prints");
                continue;
            }
            let desk = self.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let desk = desk.clone();
                    async move { Ok::<_, Infallible>(desk.answer(request).await) }
                });
                let served = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(IDLE_TIMEOUT)
                    .max_buf_size(HEADER_BYTES_MAX)
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
                if let Err(error) = served {
                    debug!("a program that prints is disconnected: {error}");
                }
                drop(permit);
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE);
        let is_ipp = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/ipp"));
        let is_ppd = parts
            .uri
            .path()
            .strip_prefix("/printers/")
            .is_some_and(|rest| rest.strip_suffix(".ppd").is_some_and(|name| name == PRINTER));
        match parts.method {
            Method::POST if is_ipp => self.answer_ipp(parts, body).await,
            Method::GET | Method::HEAD if is_ppd => {
                plain(StatusCode::OK, "application/vnd.cups-ppd", ppd(self.0.paper).into())
            }
            _ => match self.0.system.forward(parts, Vec::new(), body).await {
                Ok(answer) => answer.map(Either::Right),
                Err(NoAnswer::Absent) => text(StatusCode::NOT_FOUND, "There is no such thing here"),
                Err(NoAnswer::Failed(why)) => text(StatusCode::BAD_GATEWAY, &why),
            },
        }
    }

    async fn answer_ipp(&self, parts: Parts, mut body: Incoming) -> Answer {
        let (request, mut head, length) = match read_head(&mut body).await {
            Ok(read) => read,
            Err(words) => {
                drop_rest(&mut body).await;
                return text(StatusCode::BAD_REQUEST, &words);
            }
        };
        match self.with_printer(|printer, now| printer.handle(&request, now)) {
            Reply::Answer(answer) => {
                drop_rest(&mut body).await;
                ipp_answer(&answer)
            }
            Reply::Document { number, file } => {
                let first = head.split_off(length);
                // A task of its own: it also ends the job of a program that disconnects meanwhile.
                let receive = self.clone().receive(request, number, file, first, body);
                tokio::spawn(receive).await.expect("a panic ends the process")
            }
            Reply::Forward => match self.0.system.forward(parts, head, body).await {
                Ok(answer) => answer.map(Either::Right),
                Err(NoAnswer::Absent) => ipp_answer(&self.state().printer.alone(&request, now())),
                Err(NoAnswer::Failed(why)) => {
                    ipp_answer(&self.state().printer.without_answer(&request, &why, now()))
                }
            },
            Reply::Merge => {
                let theirs = match self.0.system.forward(parts, head, body).await {
                    Ok(answer) => read_answer(answer).await,
                    Err(_) => None,
                };
                let state = self.state();
                ipp_answer(&match theirs {
                    Some(theirs) => state.printer.merge(&request, theirs, now()),
                    None => state.printer.alone(&request, now()),
                })
            }
        }
    }

    /// Receives the document of a job, which begins with `first`, and answers.
    async fn receive(
        self,
        request: ipp::Message,
        number: u32,
        name: String,
        first: Vec<u8>,
        mut body: Incoming,
    ) -> Answer {
        let ended = Arc::new(Notify::new());
        self.state().uploads.insert(number, ended.clone());
        if self.state().printer.document(number).is_none() {
            // Cancelled before anybody could be told.
            ended.notify_one();
        }
        let stored = tokio::select! {
            stored = self.store(number, name, first, &mut body) => stored,
            // The rest is not read: the program's connection ends with the answer.
            () = ended.notified() => Err(DocumentError::Cancelled),
        };
        self.state().uploads.remove(&number);
        if stored.as_ref().is_err_and(|error| *error != DocumentError::Cancelled) {
            drop_rest(&mut body).await;
        }
        let answer = self
            .with_printer(|printer, now| printer.handle_document(&request, number, stored, now));
        ipp_answer(&answer)
    }

    /// Stores the document of a job, which begins with `first`; returns its bytes.
    async fn store(
        &self,
        number: u32,
        name: String,
        first: Vec<u8>,
        body: &mut Incoming,
    ) -> Result<u64, DocumentError> {
        let mut chunk = first;
        while chunk.len() < PDF_START.len() {
            match next(body).await? {
                Some(bytes) => chunk.extend_from_slice(&bytes),
                None if chunk.is_empty() => return Err(DocumentError::Empty),
                None => break,
            }
        }
        if !chunk.starts_with(PDF_START) {
            return Err(DocumentError::NotPdf);
        }
        let spool = self.0.spool.clone();
        let mut file = on_disk(move || spool.create(number, &name)).await?;
        let (mut stored, mut has_ended) = (0, false);
        while !has_ended {
            while chunk.len() < WRITE_BYTES && !has_ended {
                match next(body).await? {
                    Some(bytes) => chunk.extend_from_slice(&bytes),
                    None => has_ended = true,
                }
            }
            stored += chunk.len() as u64;
            if stored > JOB_BYTES_MAX {
                return Err(DocumentError::TooLarge);
            }
            let full = std::mem::take(&mut chunk);
            let spool = self.0.spool.clone();
            file = on_disk(move || spool.write(&mut file, &full).map(|()| file)).await?;
        }
        let document = self.state().printer.document(number);
        // Without it the job was cancelled meanwhile.
        if let Some(document) = document {
            let spool = self.0.spool.clone();
            on_disk(move || spool.finish(&document)).await?;
        }
        Ok(stored)
    }

    // ---- the session process

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
            let (sender, messages) = mpsc::channel(MESSAGES_MAX);
            let mut state = self.state();
            for document in state.printer.documents() {
                let told = sender.try_send(Message::Job(document));
                assert!(told.is_ok(), "there are fewer jobs than messages");
            }
            for number in state.printer.cancelled() {
                let told = sender.try_send(Message::Cancel(number));
                assert!(told.is_ok(), "there are fewer jobs than messages");
            }
            state.links += 1;
            let number = state.links;
            state.link = Some((number, sender));
            drop(state);
            tokio::spawn(self.clone().serve_session(stream, number, messages));
        }
    }

    async fn serve_session(
        self,
        mut stream: UnixStream,
        number: u64,
        mut messages: mpsc::Receiver<Message>,
    ) {
        if let Err(error) = self.follow_session(&mut stream, &mut messages).await {
            debug!("the session process has left: {error}");
        }
        let mut state = self.state();
        // None: it did not read.
        if state.link.as_ref().is_none_or(|(newest, _)| *newest == number) {
            state.link = None;
            state.printer.handle_session_gone();
        }
    }

    /// Until the session process ends, or another has connected.
    async fn follow_session(
        &self,
        stream: &mut UnixStream,
        messages: &mut mpsc::Receiver<Message>,
    ) -> io::Result<()> {
        let (mut reader, mut writer) = stream.split();
        let invalid = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
        writer.write_all(&[LINK_VERSION]).await?;
        let version = reader.read_u8().await?;
        if version != LINK_VERSION {
            let words = format!("it speaks version {version} of the link, not {LINK_VERSION}");
            warn!("print jobs wait: {words}");
            return Err(invalid(words));
        }
        let (mut bytes, mut filled) = ([0; MESSAGE_BYTES_MAX], 0);
        loop {
            tokio::select! {
                message = messages.recv() => {
                    let Some(message) = message else { return Ok(()) };
                    let mut out = Vec::new();
                    message.encode(&mut out);
                    timeout(IDLE_TIMEOUT, writer.write_all(&out)).await??;
                }
                read = reader.read(&mut bytes[filled..]) => {
                    filled += match read? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        read => read,
                    };
                    let mut taken = 0;
                    while let Some((message, length)) = Message::decode(&bytes[taken..filled])
                        .map_err(|error| invalid(error.to_string()))?
                    {
                        taken += length;
                        if let Message::State { number, state, words } = message {
                            info!("print job {number}: {words}");
                            self.with_printer(|printer, now| {
                                printer.handle_state(number, state, &words, now);
                            });
                        }
                    }
                    bytes.copy_within(taken..filled, 0);
                    filled -= taken;
                }
            }
        }
    }
}

/// The next bytes of a body; None at its end.
async fn next(body: &mut Incoming) -> Result<Option<Bytes>, DocumentError> {
    loop {
        match timeout(IDLE_TIMEOUT, body.frame()).await {
            Ok(None) => return Ok(None),
            Ok(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    return Ok(Some(bytes));
                }
            }
            Ok(Some(Err(_))) | Err(_) => return Err(DocumentError::Broken),
        }
    }
}

/// Reads and drops what is left of a body that is refused.
async fn drop_rest(body: &mut Incoming) {
    let mut dropped = 0;
    while let Ok(Some(bytes)) = next(body).await {
        dropped += bytes.len() as u64;
        if dropped > DROPPED_BYTES_MAX {
            return;
        }
    }
}

/// The attributes at the beginning of a body, what was read of it, and how long they are.
async fn read_head(body: &mut Incoming) -> Result<(ipp::Message, Vec<u8>, usize), String> {
    let mut head = Vec::new();
    // Each attempt has half as much again to read, so that many small pieces cost little; what
    // follows the attributes, or the end, allows the next.
    let mut enough = 0;
    loop {
        let more = next(body).await.map_err(|_| "The request did not arrive whole".to_owned())?;
        let has_ended = more.is_none();
        head.extend_from_slice(&more.unwrap_or_default());
        if head.len() < enough && !has_ended {
            continue;
        }
        match ipp::Message::decode(&head, REQUEST_LIMITS) {
            Ok(Some((message, length))) => return Ok((message, head, length)),
            Ok(None) if has_ended => return Err("The request is no complete IPP".to_owned()),
            Ok(None) => enough = head.len() + (head.len() / 2).max(256),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Another server's answer, if it is one and not too long.
async fn read_answer(answer: Response<Incoming>) -> Option<ipp::Message> {
    if answer.status() != StatusCode::OK {
        return None;
    }
    let body = Limited::new(answer.into_body(), ANSWER_LIMITS.bytes).collect();
    let bytes = timeout(IDLE_TIMEOUT, body).await.ok()?.ok()?.to_bytes();
    match ipp::Message::decode(&bytes, ANSWER_LIMITS) {
        Ok(message) => Some(message?.0),
        Err(error) => {
            warn!("the system's print server: {error}");
            None
        }
    }
}

/// Where waiting for the disk delays nothing else.
async fn on_disk<T: Send + 'static>(
    act: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, DocumentError> {
    let done = spawn_blocking(act).await.expect("a panic ends the process");
    done.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            DocumentError::Full(error.to_string())
        }
        _ => DocumentError::Disk(error.to_string()),
    })
}

fn plain(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

fn text(status: StatusCode, words: &str) -> Answer {
    plain(status, "text/plain; charset=utf-8", format!("{words}\n").into())
}

fn ipp_answer(answer: &ipp::Message) -> Answer {
    plain(StatusCode::OK, "application/ipp", answer.encode().into())
}
