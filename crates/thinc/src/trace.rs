//! `thinc trace`: takes a trace from a running session, replays, redacts and describes traces.
//! From the person's shell, to session-server's recorder through a socket, and to thinc-trace with files.
//! Knows files, a socket and words; what a trace means, thinc-trace knows.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thinc_session_core::Scheduling;
use thinc_trace::{
    Colors, Depth, End, Event, Head, Options, Reader, Redactor, Replay, Report, Summary, TraceError, Writer,
};
use thinc_viewer_core::KIND_NAMES;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::{Scheduler, Switch, TraceCommand, TraceInfo, TraceRecord, TraceRedact, TraceReplay};
use crate::terminal::{complain, say};
use crate::{MainError, clients, runtime_dir};

/// What the session still has to write when it is told that it is enough.
const REST_TIME: Duration = Duration::from_secs(10);
/// Read at once from the session.
const READ_BYTES: usize = 256 * 1024;
/// A trace that is replayed more than once is held in memory, as far as this.
const HELD_BYTES_MAX: u64 = 256 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

pub(crate) fn trace(command: &TraceCommand) -> Result<ExitCode, MainError> {
    match command {
        TraceCommand::Record(options) => {
            tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(record(options))
        }
        TraceCommand::Replay(options) => replay(options),
        TraceCommand::Redact(options) => redact(options),
        TraceCommand::Info(options) => info(options),
    }
}

/// Why a recording ended.
enum Enough {
    Asked,
    Time,
    Size,
    SessionEnded,
}

async fn record(options: &TraceRecord) -> Result<ExitCode, MainError> {
    let name = clients::the_one(options.session.as_deref())?;
    let path = runtime_dir::trace_socket(&name);
    let reached = runtime_dir::connect(&path).and_then(|stream| {
        stream.set_nonblocking(true)?;
        UnixStream::from_std(stream)
    });
    let mut stream = reached.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => clients::not_running(&name),
        _ => format!("cannot reach the session {name} at {}: {error}", path.display()),
    })?;
    let mut buffer = vec![0; READ_BYTES];
    let mut count = stream.read(&mut buffer).await?;
    if !buffer[..count].starts_with(thinc_trace::MAGIC) {
        let words = String::from_utf8_lossy(&buffer[..count]);
        return Err(if words.is_empty() { "the session has ended".to_owned() } else { words.into_owned() }.into());
    }
    // Not before there is something to write: a file that is in the way stays as it is, and none is left for nothing.
    let mut file = create(&options.file)?;
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    say(&format!("Recording the session {name} into {}. Ctrl-C ends it.", options.file.display()));

    let began = Instant::now();
    let end_at = options.duration.map(|time| began + time);
    let mut bytes = 0;
    let enough = loop {
        write(&mut file, &options.file, &buffer[..count])?;
        bytes += count as u64;
        if bytes >= options.max.saturating_mul(MIB) {
            break Enough::Size;
        }
        tokio::select! {
            read = stream.read(&mut buffer) => match read? {
                0 => break Enough::SessionEnded,
                read => count = read,
            },
            _ = int.recv() => break Enough::Asked,
            _ = term.recv() => break Enough::Asked,
            () = until(end_at) => break Enough::Time,
        }
    };
    let took = began.elapsed();
    // Half of the connection closed is what the session understands; the other half brings what was still to be written.
    let _ = stream.shutdown().await;
    let rest = async {
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
    timeout(REST_TIME, rest)
        .await
        .map_err(|_| format!("the session {name} does not end the trace; it may be cut"))??;
    // A session process that was killed writes no end, and nothing but the file tells.
    let broke_off = matches!(enough, Enough::SessionEnded) && !has_end(&options.file)?;
    say(&format!(
        "{} has {:.1} MiB of {:.1} s{}.",
        options.file.display(),
        bytes as f64 / MIB as f64,
        took.as_secs_f64(),
        match enough {
            Enough::Asked | Enough::Time => "",
            Enough::Size => ", which is as much as was asked for",
            Enough::SessionEnded if broke_off => ": the session process broke off, and the trace has no end",
            Enough::SessionEnded => ": the session has ended",
        }
    ));
    Ok(if broke_off { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether a trace was written to its end.
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

/// Never returns where there is no such moment.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn write(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), MainError> {
    file.write_all(bytes).map_err(|error| {
        format!("the trace ends here: {}: {error}. What is in it can be replayed; the session goes on", path.display())
            .into()
    })
}

/// A new file for this user alone: it may show what was on the screen.
fn create(path: &Path) -> Result<File, MainError> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

fn open(path: &Path) -> Result<Reader<BufReader<File>>, MainError> {
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Reader::new(BufReader::new(file)).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &TraceError) -> MainError {
    format!("{}: {error}", path.display()).into()
}

/// Says what is wrong with a file of which everything before was used.
fn broken_off(path: &Path, error: &TraceError) -> ExitCode {
    complain(&format!("thinc: {}: {error}; everything before was used", path.display()));
    ExitCode::FAILURE
}

/// Gives every event to `take`, until that wants no more; what the file's end is worth.
fn each(
    path: &Path,
    reader: &mut Reader<BufReader<File>>,
    mut take: impl FnMut(Event) -> Result<(), MainError>,
) -> Result<ExitCode, MainError> {
    loop {
        match reader.event() {
            Ok(Some(event)) => take(event)?,
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(error) => return Ok(broken_off(path, &error)),
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
    let mut held = Vec::new();
    let mut pixels = 0;
    let began = processor_time();
    // A look at the ring is replayed once it is whole: where the file is cut, pixels are missing that its records drew.
    let mut look = Vec::new();
    let mut looks = 0_u64;
    let code = each(&options.file, &mut reader, |event| {
        if rounds > 1 {
            if let Event::Pixels(_, kept) = &event {
                pixels += kept.len() as u64 * 4;
            }
            if pixels > HELD_BYTES_MAX {
                return Err(format!(
                    "the trace holds more than {} MiB of pixels: too much to be replayed over and over",
                    HELD_BYTES_MAX / MIB
                )
                .into());
            }
        }
        let whole = matches!(event, Event::Read(_) | Event::End(_));
        looks += u64::from(matches!(event, Event::Read(_)));
        look.push(event);
        if whole {
            for event in &look {
                replay.handle_event(event)?;
            }
            if rounds > 1 {
                held.append(&mut look);
            }
            look.clear();
        }
        Ok(())
    })?;
    if looks == 0 {
        return Err(format!(
            "{}: nothing to replay: the first picture of the screen is not whole",
            options.file.display()
        )
        .into());
    }
    if options.records.is_some() && replay.records() == 0 {
        return Err("there is no record in this trace".into());
    }
    for _ in 1..rounds {
        if replay.is_done() {
            break;
        }
        replay.begin_round();
        for event in &held {
            replay.handle_event(event)?;
        }
    }
    let report = replay.finish()?;
    say(&result(&report, options.verify));
    complain(&timing(&report, processor_time() - began));
    Ok(code)
}

/// The same for the same file and options.
fn result(report: &Report, verified: bool) -> String {
    let Report { sent, shown, .. } = report;
    let mut lines = vec![
        format!(
            "records    {} in {} looks at the ring, {} times through the trace",
            report.records, report.turns, report.rounds
        ),
        format!("time       {:.3} s, virtual", report.duration as f64 / 1e6),
        format!(
            "updates    {} of {} bytes, {} of them without any pixel that changed",
            sent.updates, sent.bytes, sent.equal_jobs
        ),
        format!("pixels     {} read", sent.pixels),
    ];
    for (name, command) in KIND_NAMES.iter().zip(&shown.commands).filter(|(_, command)| command.count > 0) {
        lines.push(format!("  {name:7}  {} of {} bytes, {} pixels", command.count, command.bytes, command.pixels));
    }
    lines.push(format!("COPYs      {} from records, {} of them found in pixmaps", sent.copies, sent.derived_copies));
    let hints = sent.proposals;
    lines.push(format!("hints      {} pixels held, {} refused, {} late", hints.held, hints.refused, hints.late));
    if verified {
        let end = if report.verified.end { "and at the end" } else { "but not at the end, where X was drawing" };
        lines.push(format!(
            "verified   at {} moments {end}: the viewer shows the screen, byte for byte",
            report.verified.moments
        ));
    }
    lines.push(format!("frames     {:016x}", report.hash));
    lines.join("\n")
}

/// Of this process, whatever else the machine does.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn timing(report: &Report, whole: Duration) -> String {
    let each = |time: Duration| time.as_nanos() as f64 / report.records.max(1) as f64;
    let mut line = format!(
        "translation {:.0} ns a record by the clock; everything that was replayed {:.0} ns of processor time a record, {:.2} million \
         records a second, {:.1} s in all",
        each(report.translation),
        each(whole),
        1e3 / each(whole),
        whole.as_secs_f64()
    );
    if let Some(times) = report.record_times {
        let [median, p95, p99, clock] = [times.median, times.p95, times.p99, times.clock].map(|time| time.as_nanos());
        line += &format!(
            "\nrecords one by one: median {median} ns, p95 {p95} ns, p99 {p99} ns; {} of them timed, less {clock} ns for the clock",
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
    let code = each(&options.from, &mut reader, |event| {
        if let Some(event) = redactor.event(&event) {
            writer.event(&event)?;
        }
        Ok(())
    })?;
    writer.finish()?.flush()?;
    say(&format!(
        "{} shows nothing of what was on the screen. It still tells where and in which second something was drawn.",
        options.to.display()
    ));
    Ok(code)
}

fn info(options: &TraceInfo) -> Result<ExitCode, MainError> {
    let mut reader = open(&options.file)?;
    let mut summary = Summary::default();
    let code = each(&options.file, &mut reader, |event| {
        summary.add(&event);
        Ok(())
    })?;
    let head = reader.head();
    let sizes: Vec<String> = summary.sizes.iter().map(|size| format!("{} × {}", size.width, size.height)).collect();
    let mut lines = vec![
        format!(
            "content   {}",
            match (head.redacted, head.colors_kept) {
                (false, _) => "not redacted: it shows what was on the screen",
                (true, false) => "redacted: nothing of what was on the screen",
                (true, true) => "redacted, but for the colours of plain areas",
            }
        ),
        format!("screen    {}", sizes.join(", then ")),
        format!("duration  {:.3} s in {} looks at the ring", summary.duration as f64 / 1e6, summary.turns),
        format!("file      {} bytes, {} pixels kept", reader.offset(), summary.pixels),
        format!(
            "end       {}",
            match summary.end {
                Some(End::Asked) => "when it was enough",
                Some(End::Session) => "with the session",
                None => "none: the recording was cut off",
            }
        ),
    ];
    if summary.gaps > 0 {
        lines.push(format!("gaps      {} records could not be kept", summary.gaps));
    }
    lines.push(format!("records   {}", summary.records_total()));
    lines.extend(summary.records().map(|(kind, count)| format!("  {count:9}  {}", kind.name())));
    say(&lines.join("\n"));
    Ok(code)
}
