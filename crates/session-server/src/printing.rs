//! What the session's programs print, from the desk (`thinc desk`), which outlives this process,
//! and back how far it is. From thinc-desk's printing.rs, over a Unix socket, to files/printing.rs.
//! Knows the bytes of the link; never documents or viewers.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use thinc_printing::link::{Document, LINK_VERSION, MESSAGE_BYTES_MAX, Message, State};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::connection::{Event, Events};
use crate::files::FilesEvent;

/// Reports on their way to the desk: some for each of eight jobs. What does not fit is dropped: the
/// desk is told again when it connects.
const REPORTS_MAX: usize = 64;
/// Before connecting again after the desk has ended. The supervisor, which restarts it, keeps its
/// socket: the new connection waits there.
const RECONNECT_DELAY: Duration = Duration::from_millis(200);

/// Where the session's printer is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrintingConfig {
    /// Socket of the desk.
    pub socket: PathBuf,
    /// The folder of the documents.
    pub spool: PathBuf,
}

/// An event for what is printed.
#[derive(Debug)]
pub(crate) enum PrintEvent {
    /// The desk tells from here on of every job that has not ended.
    Connected,
    /// A program prints this. After a restart of the desk it is told of again.
    Job(Document),
    /// A program does not want it any more.
    Cancel(u32),
}

/// How far a job is, with words for people.
pub(crate) type Report = (u32, State, String);

/// The desk, as who sends documents knows it.
#[derive(Debug)]
pub(crate) struct PrintLink {
    spool: PathBuf,
    reports: mpsc::Sender<Report>,
}

impl PrintLink {
    /// The document of a job.
    pub(crate) fn path(&self, document: &Document) -> PathBuf {
        self.spool.join(document.number.to_string()).join(&document.file)
    }

    /// Tells the desk how far a job is.
    pub(crate) fn tell(&self, report: Report) {
        // Without room, or after the desk became incomprehensible, nobody waits for it.
        let _ = self.reports.try_send(report);
    }
}

/// Connects to the desk, again and again.
pub(crate) fn connect(config: &PrintingConfig, events: Events) -> PrintLink {
    let (reports, received) = mpsc::channel(REPORTS_MAX);
    tokio::spawn(run(config.socket.clone(), received, events));
    PrintLink { spool: config.spool.clone(), reports }
}

/// Until nobody takes the jobs, or the desk cannot be understood.
async fn run(socket: PathBuf, mut reports: mpsc::Receiver<Report>, events: Events) {
    while let Err(error) = follow(&socket, &mut reports, &events).await {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => info!("the printer has ended; reconnecting"),
            // The socket is there as long as the session.
            _ => {
                warn!("nothing can be printed: {}: {error}", socket.display());
                return;
            }
        }
        sleep(RECONNECT_DELAY).await;
    }
}

/// Ends without an error if nobody takes jobs any more.
async fn follow(
    socket: &Path,
    reports: &mut mpsc::Receiver<Report>,
    events: &Events,
) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    if socket_peercred(&stream)?.uid != geteuid() {
        let reason = "the socket belongs to another user";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    let invalid = |words: String| io::Error::new(io::ErrorKind::InvalidData, words);
    let (mut reader, mut writer) = stream.split();
    writer.write_all(&[LINK_VERSION]).await?;
    let version = reader.read_u8().await?;
    if version != LINK_VERSION {
        return Err(invalid(format!(
            "the printer is of another build of thinc (version {version} of the link, not \
                {LINK_VERSION}); sessions that are started from now on print"
        )));
    }
    if events.send(Event::Files(FilesEvent::Print(PrintEvent::Connected))).await.is_err() {
        return Ok(());
    }
    let (mut bytes, mut filled) = ([0; MESSAGE_BYTES_MAX], 0);
    loop {
        tokio::select! {
            report = reports.recv() => {
                let Some((number, state, words)) = report else { return Ok(()) };
                let mut out = Vec::new();
                Message::State { number, state, words }.encode(&mut out);
                // A few bytes, which the desk always reads.
                writer.write_all(&out).await?;
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
                    let event = match message {
                        Message::Job(document) => PrintEvent::Job(document),
                        Message::Cancel(number) => PrintEvent::Cancel(number),
                        Message::State { .. } => continue,
                    };
                    if events.send(Event::Files(FilesEvent::Print(event))).await.is_err() {
                        return Ok(());
                    }
                }
                bytes.copy_within(taken..filled, 0);
                filled -= taken;
            }
        }
    }
}
