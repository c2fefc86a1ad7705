//! `thinc trace`: records a trace of a running session, and replays, redacts and describes traces.
//! From the user's shell, to session-server's recorder through a socket, and to thinc-trace with
//! files. Knows files, a socket and texts; thinc-trace knows what a trace means.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thinc_session_core::Scheduling;
use thinc_trace::{
    Colors, Depth, End, Event, Head, Options, Reader, Redactor, Replay, Report, Summary,
    TraceError, Writer,
};
use thinc_viewer_core::KIND_NAMES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::{
    Scheduler, Switch, TraceCommand, TraceInfo, TraceRecord, TraceRedact, TraceReplay,
};
use crate::terminal::{print, print_error};
use crate::{MainError, clients, runtime_dir};

/// How long the session may take to write the rest of the trace once it is stopped.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes read at once from the session.
const READ_BYTES: usize = 256 * 1024;
/// Limit of a trace in memory, which one that is replayed more than once is.
const REPLAY_BYTES_MAX: u64 = 256 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

pub(crate) fn trace(command: &TraceCommand) -> Result<ExitCode, MainError> {
    match command {
        TraceCommand::Record(options) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?
            .block_on(record(options)),
        TraceCommand::Replay(options) => replay(options),
        TraceCommand::Redact(options) => redact(options),
        TraceCommand::Info(options) => info(options),
    }
}

/// Why a recording was stopped.
enum StopReason {
    Signal,
    Time,
    Size,
    SessionEnded,
}

async fn record(options: &TraceRecord) -> Result<ExitCode, MainError> {
    let name = clients::only_session(options.session.as_deref())?;
    let path = runtime_dir::trace_socket(&name);
    let connected = runtime_dir::connect(&path).and_then(|stream| {
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    });
    let mut stream = connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => clients::not_running(&name),
        _ => format!("cannot reach the session {name} at {}: {error}", path.display()),
    })?;
    let mut buffer = vec![0; READ_BYTES];
    let mut count = stream.read(&mut buffer).await?;
    if !buffer[..count].starts_with(thinc_trace::MAGIC) {
        let text = String::from_utf8_lossy(&buffer[..count]);
        return Err(if text.is_empty() {
            "the session has ended".to_owned()
        } else {
            text.into_owned()
        }
        .into());
    }
    // Created only once there is something to write: an existing file stays as it is, and no empty
    // file is left.
    let mut file = create(&options.file)?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    print(&format!(
        "Recording the session {name} into {}. Ctrl-C ends it.",
        options.file.display()
    ));

    let started = Instant::now();
    let end_at = options.duration.map(|time| started + time);
    let mut bytes = 0;
    let reason = loop {
        write(&mut file, &options.file, &buffer[..count])?;
        bytes += count as u64;
        if bytes >= options.max.saturating_mul(MIB) {
            break StopReason::Size;
        }
        tokio::select! {
            read = stream.read(&mut buffer) => match read? {
                0 => break StopReason::SessionEnded,
                read => count = read,
            },
            _ = int.recv() => break StopReason::Signal,
            _ = term.recv() => break StopReason::Signal,
            () = until(end_at) => break StopReason::Time,
        }
    };
    let took = started.elapsed();
    // Closing our sending half stops the session; the other half brings what was still to be
    // written.
    let _ = stream.shutdown().await;
    let remainder = async {
        loop {
            match stream.read(&mut buffer).await? {
                0 => return Ok::<(), MainError>(()),
                read => {
                    write(&mut file, &options.file, &buffer[..read])?;
                    bytes += read as u64;
                }
            }
        }
    };
    timeout(FINISH_TIMEOUT, remainder)
        .await
        .map_err(|_| format!("the session {name} has not finished the trace; it may be cut"))??;
    // A killed session process writes no end event, which only shows in the file.
    let is_cut = matches!(reason, StopReason::SessionEnded) && !has_end(&options.file)?;
    print(&format!(
        "{} has {:.1} MiB of {:.1} s{}.",
        options.file.display(),
        bytes as f64 / MIB as f64,
        took.as_secs_f64(),
        match reason {
            StopReason::Signal | StopReason::Time => "",
            StopReason::Size => ", which is the requested size",
            StopReason::SessionEnded if is_cut =>
                ": the session process was killed, and the trace has no end",
            StopReason::SessionEnded => ": the session has ended",
        }
    ));
    Ok(if is_cut { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether a trace has its end event.
fn has_end(path: &Path) -> Result<bool, MainError> {
    let mut reader = open(path)?;
    loop {
        match reader.event() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}

/// Never returns without a moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn write(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), MainError> {
    file.write_all(bytes).map_err(|error| {
        format!(
            "the trace ends here: {}: {error}. Its content can be replayed; the session continues",
            path.display()
        )
        .into()
    })
}

/// Creates a new file for this user only: a trace may show what was on the screen.
fn create(path: &Path) -> Result<File, MainError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, MainError> {
    let file =
        File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Reader::new(BufReader::new(file)).map_err(|error| with_path(path, &error))
}

fn with_path(path: &Path, error: &TraceError) -> MainError {
    format!("{}: {error}", path.display()).into()
}

/// Reports an error in a file; everything before it was used.
fn report_cut(path: &Path, error: &TraceError) -> ExitCode {
    print_error(&format!("thinc: {}: {error}; everything before was used", path.display()));
    ExitCode::FAILURE
}

/// Passes every event to `take` until that fails; returns the exit code.
fn for_each_event(
    path: &Path,
    reader: &mut Reader<BufReader<File>>,
    mut take: impl FnMut(Event) -> Result<(), MainError>,
) -> Result<ExitCode, MainError> {
    loop {
        match reader.event() {
            Ok(Some(event)) => take(event)?,
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Ok(report_cut(path, &error)),
        }
    }
}

fn replay(options: &TraceReplay) -> Result<ExitCode, MainError> {
    let mut reader = open(&options.file)?;
    let rounds = if options.records.is_some() { u64::MAX } else { options.times };
    let mut replay = Replay::new(
        &reader.head(),
        Options {
            link: options.link,
            verify: options.verify,
            scheduling: match options.scheduler {
                Scheduler::Srsf => Scheduling::ShortestFirst,
                Scheduler::Fifo => Scheduling::Fifo,
            },
            offscreen: options.offscreen == Switch::On,
            records_max: options.records.unwrap_or(u64::MAX),
            depth: if options.queues { Depth::Queues } else { Depth::Viewer },
        },
    );
    let mut events = Vec::new();
    let mut pixels = 0;
    let started = processor_time();
    // A turn is replayed once it is complete: if the file is truncated, pixels are missing that the
    // turn's records drew.
    let mut turn = Vec::new();
    let mut turns = 0_u64;
    let code = for_each_event(&options.file, &mut reader, |event| {
        if rounds > 1 {
            if let Event::Pixels(_, kept) = &event {
                pixels += kept.len() as u64 * 4;
            }
            if pixels > REPLAY_BYTES_MAX {
                return Err(format!(
                    "the trace contains more than {} MiB of pixels: too much to be replayed \
                        repeatedly",
                    REPLAY_BYTES_MAX / MIB
                )
                .into());
            }
        }
        let is_complete = matches!(event, Event::Read(_) | Event::End(_));
        turns += u64::from(matches!(event, Event::Read(_)));
        turn.push(event);
        if is_complete {
            for event in &turn {
                replay.handle_event(event)?;
            }
            if rounds > 1 {
                events.append(&mut turn);
            }
            turn.clear();
        }
        Ok(())
    })?;
    if turns == 0 {
        return Err(format!(
            "{}: nothing to replay: the first screen is not complete",
            options.file.display()
        )
        .into());
    }
    if options.records.is_some() && replay.records() == 0 {
        return Err("the trace contains no records".into());
    }
    for _ in 1..rounds {
        if replay.is_done() {
            break;
        }
        replay.begin_round();
        for event in &events {
            replay.handle_event(event)?;
        }
    }
    let report = replay.finish()?;
    print(&result(&report, options.verify));
    print_error(&timing(&report, processor_time() - started));
    Ok(code)
}

/// The statistics, which are the same for the same file and options.
fn result(report: &Report, verified: bool) -> String {
    let Report { sent, shown, .. } = report;
    let mut lines = vec![
        format!(
            "records    {} in {} turns, {} replays of the trace",
            report.records, report.polls, report.rounds
        ),
        format!("time       {:.3} s, virtual", report.duration as f64 / 1e6),
        format!(
            "updates    {} of {} bytes, {} of them without a changed pixel",
            sent.updates, sent.bytes, sent.equal_jobs
        ),
        format!("pixels     {} read", sent.pixels),
    ];
    for (name, command) in
        KIND_NAMES.iter().zip(&shown.commands).filter(|(_, command)| command.count > 0)
    {
        lines.push(format!(
            "  {name:7}  {} of {} bytes, {} pixels",
            command.count, command.bytes, command.pixels
        ));
    }
    lines.push(format!(
        "COPYs      {} from records, {} of them found in pixmaps",
        sent.copies, sent.derived_copies
    ));
    let hints = sent.proposals;
    lines.push(format!(
        "hints      {} pixels confirmed, {} refuted, {} late",
        hints.confirmed, hints.refuted, hints.late
    ));
    if verified {
        let end = if report.verified.end {
            "and at the end"
        } else {
            "but not at the end, where X was drawing"
        };
        lines.push(format!(
            "verified   at {} moments {end}: the viewer shows the screen, byte for byte",
            report.verified.comparisons
        ));
    }
    lines.push(format!("frames     {:016x}", report.hash));
    lines.join("\n")
}

/// CPU time of this process.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn timing(report: &Report, total: Duration) -> String {
    let per_record = |time: Duration| time.as_nanos() as f64 / report.records.max(1) as f64;
    let mut line = format!(
        "translation {:.0} ns a record (wall clock); the whole replay {:.0} ns of CPU time a \
         record, {:.2} million records a second, {:.1} s in all",
        per_record(report.translation),
        per_record(total),
        1e3 / per_record(total),
        total.as_secs_f64()
    );
    if let Some(times) = report.record_times {
        let [median, p95, p99, clock] =
            [times.median, times.p95, times.p99, times.clock].map(|time| time.as_nanos());
        line += &format!(
            "\nsingle records: median {median} ns, p95 {p95} ns, p99 {p99} ns; {} of them \
                timed, {clock} ns subtracted for the clock",
            times.samples
        );
    }
    line
}

fn redact(options: &TraceRedact) -> Result<ExitCode, MainError> {
    let mut reader = open(&options.from)?;
    let colors = if options.keep_colors { Colors::Kept } else { Colors::Replaced };
    let head = Head { redacted: true, colors_kept: options.keep_colors };
    let mut writer = Writer::new(BufWriter::new(create(&options.to)?), &head)?;
    let mut redactor = Redactor::new(colors);
    let code = for_each_event(&options.from, &mut reader, |event| {
        if let Some(event) = redactor.event(&event) {
            writer.event(&event)?;
        }
        Ok(())
    })?;
    writer.finish()?.flush()?;
    print(&format!(
        "{} does not show what was on the screen. It still tells where and in which second \
            something was drawn.",
        options.to.display()
    ));
    Ok(code)
}

fn info(options: &TraceInfo) -> Result<ExitCode, MainError> {
    let mut reader = open(&options.file)?;
    let mut summary = Summary::default();
    let code = for_each_event(&options.file, &mut reader, |event| {
        summary.add(&event);
        Ok(())
    })?;
    let head = reader.head();
    let sizes: Vec<String> =
        summary.sizes.iter().map(|size| format!("{} × {}", size.width, size.height)).collect();
    let mut lines = vec![
        format!(
            "content   {}",
            match (head.redacted, head.colors_kept) {
                (false, _) => "not redacted: it shows what was on the screen",
                (true, false) => "redacted: it does not show what was on the screen",
                (true, true) => "redacted, except for the colours of solid areas",
            }
        ),
        format!("screen    {}", sizes.join(", then ")),
        format!("duration  {:.3} s in {} turns", summary.duration as f64 / 1e6, summary.polls),
        format!("file      {} bytes, {} pixels", reader.offset(), summary.pixels),
        format!(
            "end       {}",
            match summary.end {
                Some(End::Requested) => "the recording was stopped",
                Some(End::Session) => "the session ended",
                None => "none: the recording was cut off",
            }
        ),
    ];
    if summary.gaps > 0 {
        lines.push(format!("gaps      {} records were dropped", summary.gaps));
    }
    lines.push(format!("records   {}", summary.records_total()));
    lines.extend(summary.records().map(|(kind, count)| format!("  {count:9}  {}", kind.name())));
    print(&lines.join("\n"));
    Ok(code)
}
