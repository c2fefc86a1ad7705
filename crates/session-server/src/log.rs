//! The log of each process of thinc, on standard error: a line of text, or one JSON object a line
//! in which the process and its session are fields. Beside the path: used by session processes and
//! by every part of the broker. Knows lines; what must not be logged, its callers know.

use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::str::FromStr;
use std::sync::OnceLock;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The environment variable with the level.
pub const LEVEL: &str = "THINC_LOG";
/// The environment variable with the format.
pub const FORMAT: &str = "THINC_LOG_FORMAT";

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

impl LogFormat {
    /// Every name.
    pub const NAMES: [&'static str; 2] = ["text", "json"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        }
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("expected text or json".to_owned()),
        }
    }
}

/// That of this process, once its log has started.
static STARTED: OnceLock<LogFormat> = OnceLock::new();

/// The format of this process; text until its log has started.
pub fn format() -> LogFormat {
    STARTED.get().copied().unwrap_or_default()
}

/// What every line of this process has in JSON.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// What it does: "front", "session".
    pub part: &'static str,
    /// Whose session it is.
    pub user: Option<String>,
    /// The session's name.
    pub session: Option<String>,
}

/// Starts the log of this process, in the format that its environment says.
pub fn start(process: Process) {
    let format = std::env::var(FORMAT).ok().and_then(|name| name.parse().ok());
    start_as(format.unwrap_or_default(), process);
}

/// Starts the log of this process; only the first call of a process does.
pub fn start_as(format: LogFormat, process: Process) {
    if STARTED.set(format).is_err() {
        return;
    }
    let level = std::env::var(LEVEL).ok().and_then(|level| level.parse().ok());
    let log = tracing_subscriber::fmt()
        .with_max_level(level.unwrap_or(Level::INFO))
        .with_writer(io::stderr)
        .with_ansi(false)
        // An error of the log itself cannot be logged.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => {
            log.event_format(JsonLines(process)).init();
            std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        }
    }
}

/// Tells why this process ends: in its log, if that has started.
pub fn print_error(text: &str) {
    match format() {
        LogFormat::Json => tracing::error!("{text}"),
        LogFormat::Text => {
            let _ = writeln!(io::stderr(), "thinc: {text}");
        }
    }
}

/// JSON without characters that change what a terminal shows: C1 controls, and those that reorder
/// or break lines. JSON itself escapes those below U+0020.
pub fn escaped(json: &str) -> String {
    let mut line = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                let _ = write!(line, "\\u{:04x}", u32::from(character));
            }
            other => line.push(other),
        }
    }
    line
}

/// One object a line.
struct JsonLines(Process);

/// The object while it is written. A name is written once, the first time.
#[derive(Default)]
struct Object {
    text: String,
    names: Vec<&'static str>,
}

impl Object {
    fn put(&mut self, name: &'static str, value: &(impl Serialize + ?Sized)) {
        let Ok(value) = serde_json::to_string(value) else { return };
        if self.names.contains(&name) {
            return;
        }
        let start = if self.names.is_empty() { '{' } else { ',' };
        self.names.push(name);
        let _ = write!(self.text, "{start}\"{name}\":{}", escaped(&value));
    }
}

impl Visit for Object {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), &value);
    }
}

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut object = Object::default();
        object.put("time", &time);
        object.put("level", event.metadata().level().as_str());
        object.put("part", self.0.part);
        object.put("pid", &std::process::id());
        if let Some(user) = &self.0.user {
            object.put("user", user);
        }
        if let Some(session) = &self.0.session {
            object.put("session", session);
        }
        object.put("target", event.metadata().target());
        event.record(&mut object);
        writeln!(writer, "{}}}", object.text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_event_is_one_object_with_its_process_and_its_fields() {
        let (lines, process) = (
            Lines::default(),
            Process { part: "session", user: Some("anna".into()), session: Some("xfce".into()) },
        );
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(JsonLines(process))
            .finish();
        tracing::subscriber::with_default(log, || {
            let error = io::Error::other("a\n\"b\"\u{1b}[2J\u{9b}\u{202e}");
            tracing::info!(connection = 7u64, is_guest = true, "{}: connected", "192.0.2.7");
            // What the process is, no event changes.
            tracing::warn!(user = "otto", session = %"other", "{error}");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let [first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        let value: Value = serde_json::from_str(first).unwrap();
        assert_eq!(value["level"], "INFO");
        assert_eq!(value["part"], "session");
        assert_eq!((&value["user"], &value["session"]), (&"anna".into(), &"xfce".into()));
        assert_eq!((&value["connection"], &value["is_guest"]), (&7.into(), &true.into()));
        assert_eq!(value["message"], "192.0.2.7: connected");
        assert_eq!(value["pid"], std::process::id());
        assert!(value["time"].as_str().unwrap().ends_with('Z'), "{first}");
        assert!(second.is_ascii(), "{second:?}");
        let value: Value = serde_json::from_str(second).unwrap();
        assert_eq!((&value["user"], &value["session"]), (&"anna".into(), &"xfce".into()));
        assert_eq!(value["message"], "a\n\"b\"\u{1b}[2J\u{9b}\u{202e}");
    }

    #[test]
    fn a_format_has_a_name() {
        for name in LogFormat::NAMES {
            assert_eq!(name.parse::<LogFormat>().unwrap().name(), name);
        }
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
