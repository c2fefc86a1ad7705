//! Beside the path: the driver's records and the pixels they changed, in a file, and their replay
//! without X. From session-server's recorder and `thinc trace`, to files; from files, through both
//! cores, to statistics. Knows records, pixels and virtual time; never X, sockets, or a clock that
//! decides anything. doc/trace.md is the specification.
#![forbid(unsafe_code)]

mod canvas;
mod delta;
mod event;
mod file;
mod link;
mod redact;
mod replay;
mod summary;
mod synthetic;
mod times;
mod viewer;

pub use delta::Delta;
pub use event::{
    Cursor, EVENT_RECORDS_MAX, EVENT_RECTS_MAX, End, Event, EventError, EventReader, RecordBytes,
};
pub use file::{Head, MAGIC, Reader, TraceError, Unreadable, Writer};
pub use link::LinkSpec;
pub use redact::{Colors, Redactor};
pub use replay::{Depth, Options, Replay, ReplayError, Report, Verified};
pub use summary::{Kind, Summary};
pub use times::RecordTimes;
