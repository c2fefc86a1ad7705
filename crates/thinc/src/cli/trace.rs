//! The command line of `thinc trace`. Beside the path: from a developer's shell, to ../trace.rs.
//! Knows arguments; never traces.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};

use super::{Scheduler, Switch, parse_name};

/// Recordings of sessions.
#[derive(Clone, Debug, Args)]
pub(crate) struct Trace {
    /// What to do with a trace.
    #[command(subcommand)]
    pub(crate) command: TraceCommand,
}

/// What `thinc trace` can do.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum TraceCommand {
    /// Record a running session until Ctrl-C, a time or a size
    ///
    /// The session does not wait for the recording: if this program reads too slowly, parts are
    /// left out, and the trace says where. A full disk ends the recording, never the session. A
    /// trace does not contain what programs drew into pixmaps before it started: if that matters,
    /// record with `thinc serve --trace`.
    Record(TraceRecord),
    /// Replay a trace through the whole pipeline to a simulated viewer, and print statistics
    ///
    /// Needs no X server, and time is virtual: the same file with the same options prints the same,
    /// including a hash of every frame sent. The time that the replay took is printed to standard
    /// error.
    Replay(TraceReplay),
    /// Write a copy of a trace that does not show what was on the screen
    ///
    /// Kept: where something was drawn, which kind of drawing it was, the order, and the second.
    /// Removed: pixels, text, colours, window IDs, keys, and the time within the second. A replay
    /// draws placeholders. The widths of pieces of text are kept: somebody who knows the font may
    /// be able to guess words.
    Redact(TraceRedact),
    /// Describe the content of a trace
    Info(TraceInfo),
}

/// Record a session.
#[derive(Clone, Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct TraceRecord {
    /// The session; not needed if only one is running
    #[arg(value_parser = parse_name)]
    pub(crate) session: Option<String>,
    /// The file to write; it must not exist
    #[arg(required = true)]
    pub(crate) file: PathBuf,
    /// Stop after this time
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop when the file has this size
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    pub(crate) max: u64,
}

/// Replay a trace.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceReplay {
    /// The trace
    pub(crate) file: PathBuf,
    /// The simulated link to the viewer: bit rate in each direction, and round trip
    #[arg(long, value_name = "RATE,DELAY", default_value = "1gbit,1ms")]
    pub(crate) link: thinc_trace::LinkSpec,
    /// Replay the trace this many times
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "records")]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    pub(crate) times: u64,
    /// Repeat the trace until this many records were replayed
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(crate) records: Option<u64>,
    /// Compare the viewer's screen with the recorded one whenever all updates have arrived; a
    /// difference is an error
    #[arg(long)]
    pub(crate) verify: bool,
    /// Replay up to the command queues only, to measure the translation of records, without pixels
    #[arg(long, conflicts_with = "verify")]
    pub(crate) queues: bool,
    /// As for `thinc serve`
    #[arg(long, value_name = "ORDER", value_enum, default_value_t = Scheduler::Srsf)]
    pub(crate) scheduler: Scheduler,
    /// As for `thinc serve`; works only for a trace of a session with `--offscreen on`
    #[arg(long, value_name = "SWITCH", value_enum, default_value_t = Switch::On)]
    pub(crate) offscreen: Switch,
}

/// Redact a trace.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceRedact {
    /// The trace
    #[arg(value_name = "IN")]
    pub(crate) from: PathBuf,
    /// The file to write; it must not exist
    #[arg(value_name = "OUT")]
    pub(crate) to: PathBuf,
    /// Keep the colours of solid areas
    #[arg(long)]
    pub(crate) keep_colors: bool,
}

/// Describe a trace.
#[derive(Clone, Debug, Args)]
pub(crate) struct TraceInfo {
    /// The trace
    pub(crate) file: PathBuf,
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "expected seconds, for example 10 or 0.5".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err("expected a time longer than 0".to_owned()),
    }
}
