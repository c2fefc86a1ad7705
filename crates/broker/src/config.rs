//! The broker's configuration file, TOML. Beside the path: from the administrator, to options.rs,
//! where options of the command line take precedence. Every error names file, line, key and value,
//! and what is allowed. Knows text; never whether a path or an account exists.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thinc_session_server::log::LogFormat;
use thinc_session_server::{Opening, RATE_RULE, parse_rate};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use crate::acme::{AcmeOptions, NAMES_MAX};
use crate::admission::Policy;
use crate::limits::{
    Limits, PROCESSOR_PERCENT_MAX, PROCESSOR_PERCENT_MIN, Rates, SESSIONS_ALLOWED_MAX,
    SESSIONS_PER_USER_MAX, parse_memory,
};
use crate::message::NAME_BYTES_MAX;
use crate::port::LISTEN_MAX;
use crate::proxy::{TRUSTED_MAX, TrustedProxies};

/// Read if it exists and no other is named.
pub const DEFAULT_CONFIG: &str = "/etc/thinc/broker.toml";
/// Longest file; the example, with all its comments, has less than 4 KiB.
pub const CONFIG_BYTES_MAX: usize = 64 * 1024;
/// Longest text of a value, in bytes: Linux's limit for a path.
const TEXT_BYTES_MAX: usize = 4096;
/// A value in an error is cut at so many characters.
const SHOWN_CHARS_MAX: usize = 60;

/// Every key, in the order of the example.
pub const KEYS: &[&str] = &[
    "listen",
    "tls-cert",
    "tls-key",
    "acme",
    "acme-contact",
    "acme-directory",
    "acme-roots",
    "quic",
    "sharing",
    "opening",
    "remember",
    "sound",
    "printing",
    "microphone",
    "trusted-proxy",
    "front-user",
    "pam-service",
    "state",
    "audit-log",
    "end-idle",
    "end-disconnected",
    "sessions-max",
    "sessions-per-user",
    "session-memory",
    "session-processors",
    "admission",
    "admission-memory",
    "priority",
    "real-time",
    "uplink",
    "session-rate",
    "banner",
    "log-format",
    "metrics",
];

/// What a file says; `None` where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Addresses and ports to listen on.
    pub listen: Option<Vec<SocketAddr>>,
    /// Certificate chain and key as PEM files.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A certificate by ACME.
    pub acme: AcmeOptions,
    /// QUIC beside TCP.
    pub quic: Option<bool>,
    /// People may invite guests.
    pub sharing: Option<bool>,
    /// When a person opens a desktop that is shown elsewhere, unless they have chosen.
    pub opening: Option<Opening>,
    /// How long devices are remembered; zero: none is.
    pub remember: Option<Duration>,
    /// Desktops that are started for people have sound.
    pub sound: Option<bool>,
    /// Desktops that are started for people have a printer.
    pub printing: Option<bool>,
    /// They may hear microphones of people's viewers.
    pub microphone: Option<bool>,
    /// Reverse proxies whose word on the client's address counts.
    pub trusted_proxies: Option<TrustedProxies>,
    /// The front's account.
    pub front_user: Option<String>,
    /// The rules of /etc/pam.d.
    pub pam_service: Option<String>,
    /// Folder for the self-signed certificate.
    pub state: Option<PathBuf>,
    /// Where the audit log is written, besides the journal.
    pub audit_log: Option<PathBuf>,
    /// A desktop that was started for a person ends after so long without input.
    pub end_idle: Option<Duration>,
    /// It ends after so long without a viewer.
    pub end_disconnected: Option<Duration>,
    /// How many desktops there may be, and what each may use; its `priority` says nothing here.
    pub limits: Limits,
    /// Processor time and memory follow the person.
    pub priority: Option<bool>,
    /// What may be sent to viewers.
    pub rates: Rates,
    /// A file with what everybody reads before a login.
    pub banner: Option<PathBuf>,
    /// How lines of the log look.
    pub log_format: Option<LogFormat>,
    /// Where figures for monitoring are served.
    pub metrics: Option<SocketAddr>,
}

/// 30 days: longest time in a configuration or an option.
pub const TIME_MAX: Duration = Duration::from_secs(30 * 86_400);

/// A whole number with a unit: 90s, 30min, 2h or 7d; at least a second, at most [`TIME_MAX`].
pub fn parse_time(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero() && *time <= TIME_MAX)
}

/// Why a file is not used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{path}: {1}", path = .0.display())]
    Read(PathBuf, io::Error),
    /// Others than root could decide what root does.
    #[error(
        "{}: it has to belong to root, and only root may write it: \
            chown root FILE; chmod 644 FILE", .0.display()
    )]
    Writable(PathBuf),
    /// Too long.
    #[error("{}: it is longer than {CONFIG_BYTES_MAX} bytes", .0.display())]
    TooLong(PathBuf),
    /// A line is wrong.
    #[error("{}:{line}: {text}", .file.display())]
    Line {
        /// Of the file.
        file: PathBuf,
        /// The first is 1.
        line: usize,
        /// What is wrong.
        text: String,
    },
}

impl Config {
    /// Reads `file`, or the default one if that exists.
    pub fn load(file: Option<&Path>) -> Result<Config, ConfigError> {
        let path = file.unwrap_or(Path::new(DEFAULT_CONFIG));
        let failed = |error| ConfigError::Read(path.to_owned(), error);
        let opened = match std::fs::File::open(path) {
            Err(error) if file.is_none() && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Config::default());
            }
            other => other.map_err(failed)?,
        };
        let metadata = opened.metadata().map_err(failed)?;
        // Who checks a file of their own is not root yet.
        let is_trusted = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
        if !is_trusted || metadata.mode() & 0o022 != 0 {
            return Err(ConfigError::Writable(path.to_owned()));
        }
        let mut bytes = Vec::new();
        opened.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        Config::parse(path, &bytes)
    }

    /// Reads the bytes of a file; its path is for errors only.
    pub fn parse(file: &Path, bytes: &[u8]) -> Result<Config, ConfigError> {
        if bytes.len() > CONFIG_BYTES_MAX {
            return Err(ConfigError::TooLong(file.to_owned()));
        }
        let at = |offset: usize, text: String| {
            let line = 1 + bytes[..offset.min(bytes.len())].iter().filter(|&&b| b == b'\n').count();
            ConfigError::Line { file: file.to_owned(), line, text }
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|error| at(error.valid_up_to(), "this is not UTF-8".to_owned()))?;
        let table = DeTable::parse(text).map_err(|error| {
            at(error.span().map_or(0, |span| span.start), format!("TOML: {}", error.message()))
        })?;

        let mut config = Config::default();
        // Where each half of a pair stands.
        let (mut certificate, mut key) = (None, None);
        for (name, value) in table.get_ref() {
            let offset = name.span().start;
            let entry = Entry { name: name.get_ref(), value: value.get_ref() };
            let read = match entry.name {
                "listen" => entry.addresses().map(|value| config.listen = Some(value)),
                "tls-cert" => entry.path().map(|value| certificate = Some((offset, value))),
                "tls-key" => entry.path().map(|value| key = Some((offset, value))),
                "acme" => entry.host_names().map(|names| config.acme.names = names),
                "acme-contact" => entry.contact().map(|to| config.acme.contact = Some(to)),
                "acme-directory" => entry.https().map(|at| config.acme.directory = Some(at)),
                "acme-roots" => entry.path().map(|path| config.acme.roots = Some(path)),
                "quic" => entry.flag().map(|value| config.quic = Some(value)),
                "sharing" => entry.flag().map(|value| config.sharing = Some(value)),
                "opening" => entry.opening().map(|value| config.opening = Some(value)),
                "remember" => entry.time_or_never().map(|value| config.remember = Some(value)),
                "sound" => entry.flag().map(|value| config.sound = Some(value)),
                "printing" => entry.flag().map(|value| config.printing = Some(value)),
                "microphone" => entry.flag().map(|value| config.microphone = Some(value)),
                "trusted-proxy" => {
                    entry.networks().map(|value| config.trusted_proxies = Some(value))
                }
                "front-user" => entry.name().map(|value| config.front_user = Some(value)),
                "pam-service" => entry.name().map(|value| config.pam_service = Some(value)),
                "state" => entry.path().map(|value| config.state = Some(value)),
                "audit-log" => entry.path().map(|value| config.audit_log = Some(value)),
                "end-idle" => entry.time().map(|value| config.end_idle = Some(value)),
                "end-disconnected" => {
                    entry.time().map(|value| config.end_disconnected = Some(value))
                }
                "sessions-max" => entry
                    .count(SESSIONS_ALLOWED_MAX)
                    .map(|value| config.limits.sessions = Some(value)),
                "sessions-per-user" => entry
                    .count(SESSIONS_PER_USER_MAX)
                    .map(|value| config.limits.sessions_per_user = Some(value)),
                "session-memory" => entry.memory().map(|value| config.limits.memory = Some(value)),
                "session-processors" => entry
                    .processor_percent()
                    .map(|value| config.limits.processor_percent = Some(value)),
                "admission" => entry.policy().map(|value| config.limits.admission.policy = value),
                "admission-memory" => {
                    entry.memory().map(|value| config.limits.admission.memory = Some(value))
                }
                "priority" => entry.flag().map(|value| config.priority = Some(value)),
                "real-time" => entry.flag().map(|value| config.limits.real_time = value),
                "uplink" => entry.rate().map(|value| config.rates.uplink = Some(value)),
                "session-rate" => entry.rate().map(|value| config.rates.session = Some(value)),
                "banner" => entry.path().map(|value| config.banner = Some(value)),
                "log-format" => entry.log_format().map(|value| config.log_format = Some(value)),
                "metrics" => entry.local_address().map(|value| config.metrics = Some(value)),
                other => Err(format!(
                    "{}: there is no such key; there are {}",
                    shown(other),
                    KEYS.join(", ")
                )),
            };
            read.map_err(|wrong| {
                let is_value = KEYS.contains(&entry.name);
                at(if is_value { value.span().start } else { offset }, wrong)
            })?;
        }
        config.certificate = match (certificate, key) {
            (Some((_, certificate)), Some((_, key))) => Some((certificate, key)),
            (None, None) => None,
            (Some((offset, _)), None) => {
                return Err(at(offset, "tls-cert needs tls-key beside it".to_owned()));
            }
            (None, Some((offset, _))) => {
                return Err(at(offset, "tls-key needs tls-cert beside it".to_owned()));
            }
        };
        Ok(config)
    }
}

/// A key with its value. Errors are texts, to which the caller adds file and line.
struct Entry<'a> {
    name: &'a str,
    value: &'a DeValue<'a>,
}

impl Entry<'_> {
    fn wrong(&self, allowed: &str) -> String {
        let value = match self.value {
            DeValue::String(text) => format!("\"{}\"", shown(text)),
            DeValue::Integer(number) => shown(&number.to_string()),
            DeValue::Float(number) => shown(&number.to_string()),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(time) => shown(&time.to_string()),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        format!("{} = {value}: {allowed}", self.name)
    }

    fn text(&self, allowed: &str) -> Result<&str, String> {
        match self.value {
            DeValue::String(text)
                if (1..=TEXT_BYTES_MAX).contains(&text.len())
                    && !text.contains(char::is_control) =>
            {
                Ok(text)
            }
            _ => Err(self.wrong(allowed)),
        }
    }

    fn opening(&self) -> Result<Opening, String> {
        let allowed = "it has to be \"take-over\", \"join\" or \"ask\"";
        self.text(allowed)?.parse().map_err(|_| self.wrong(allowed))
    }

    fn policy(&self) -> Result<Policy, String> {
        let allowed = "it has to be \"off\", \"refuse\" or \"queue\"";
        self.text(allowed)?.parse().map_err(|()| self.wrong(allowed))
    }

    /// One, or a list.
    fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let allowed = format!(
            "it has to be an address and a port in quotes, such as \"0.0.0.0:443\" or \
             \"[::]:443\", or a list of at most {LISTEN_MAX} of them"
        );
        let address = |item: &DeValue<'_>| {
            let item = Entry { name: self.name, value: item };
            item.text(&allowed)?.parse().map_err(|_| item.wrong(&allowed))
        };
        match self.value {
            DeValue::Array(items) if (1..=LISTEN_MAX).contains(&items.len()) => {
                items.iter().map(|item| address(item.get_ref())).collect()
            }
            DeValue::Array(_) => Err(self.wrong(&allowed)),
            one => Ok(vec![address(one)?]),
        }
    }

    fn host_names(&self) -> Result<Vec<String>, String> {
        let allowed = format!(
            "it has to be a list of 1 to {NAMES_MAX} names of this host in quotes, such as \
             [\"desk.example.org\"], without addresses and wildcards"
        );
        let DeValue::Array(items) = self.value else { return Err(self.wrong(&allowed)) };
        if !(1..=NAMES_MAX).contains(&items.len()) {
            return Err(self.wrong(&allowed));
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        let name = |item: &toml::Spanned<DeValue<'_>>| {
            let item = Entry { name: self.name, value: item.get_ref() };
            let name = item.text(&allowed)?;
            let is_address = name.parse::<std::net::IpAddr>().is_ok();
            if name.len() > NAME_BYTES_MAX || is_address || !name.split('.').all(is_label) {
                return Err(item.wrong(&allowed));
            }
            Ok(name.to_ascii_lowercase())
        };
        items.iter().map(name).collect()
    }

    fn local_address(&self) -> Result<SocketAddr, String> {
        let text = self.text("it has to be an address and a port, such as \"127.0.0.1:9187\"")?;
        thinc_session_server::monitor::parse_address(text).map_err(|allowed| self.wrong(&allowed))
    }

    fn log_format(&self) -> Result<LogFormat, String> {
        let allowed = "it has to be \"text\" or \"json\"";
        self.text(allowed)?.parse().map_err(|_| self.wrong(allowed))
    }

    fn contact(&self) -> Result<String, String> {
        let allowed = "it has to be an e-mail address in quotes, such as \"admin@example.org\"";
        let address = self.text(allowed)?;
        let is_address = address.is_ascii() && !address.contains(' ') && !address.contains(':');
        match address.split_once('@') {
            Some((user, host)) if is_address && !user.is_empty() && !host.is_empty() => {
                Ok(format!("mailto:{address}"))
            }
            _ => Err(self.wrong(allowed)),
        }
    }

    fn https(&self) -> Result<String, String> {
        let allowed = "it has to be the https:// address of an ACME server's directory in quotes";
        let address = self.text(allowed)?;
        if address.strip_prefix("https://").is_some_and(|rest| !rest.is_empty()) {
            Ok(address.to_owned())
        } else {
            Err(self.wrong(allowed))
        }
    }

    fn networks(&self) -> Result<TrustedProxies, String> {
        let allowed = format!(
            "it has to be a list of at most {TRUSTED_MAX} addresses or networks in quotes, such as \
             [\"127.0.0.1\", \"10.0.0.0/8\"]"
        );
        let DeValue::Array(items) = self.value else { return Err(self.wrong(&allowed)) };
        if items.len() > TRUSTED_MAX {
            return Err(self.wrong(&allowed));
        }
        let network = |item: &toml::Spanned<DeValue<'_>>| {
            let item = Entry { name: self.name, value: item.get_ref() };
            let text = item.text(&allowed)?;
            text.parse().map_err(|error| item.wrong(&format!("{error}; {allowed}")))
        };
        items.iter().map(network).collect::<Result<_, _>>().map(TrustedProxies)
    }

    fn flag(&self) -> Result<bool, String> {
        match self.value {
            DeValue::Boolean(value) => Ok(*value),
            _ => Err(self.wrong("it has to be true or false, without quotes")),
        }
    }

    fn path(&self) -> Result<PathBuf, String> {
        let allowed = format!(
            "it has to be an absolute path in quotes, of at most {TEXT_BYTES_MAX} bytes and \
             without control characters"
        );
        let path = PathBuf::from(self.text(&allowed)?);
        if path.is_absolute() { Ok(path) } else { Err(self.wrong(&allowed)) }
    }

    fn time(&self) -> Result<Duration, String> {
        let allowed = "it has to be a time in quotes, from \"1s\" to \"30d\", such as \"30min\", \
                       \"8h\" or \"2d\"";
        parse_time(self.text(allowed)?).ok_or_else(|| self.wrong(allowed))
    }

    fn time_or_never(&self) -> Result<Duration, String> {
        let allowed = "it has to be a time in quotes, from \"1s\" to \"30d\", such as \"8h\" or \
                       \"7d\", or \"0\" for none";
        match self.text(allowed)? {
            "0" => Ok(Duration::ZERO),
            text => parse_time(text).ok_or_else(|| self.wrong(allowed)),
        }
    }

    fn count(&self, max: u32) -> Result<u32, String> {
        let allowed = format!("it has to be a number from 1 to {max}, without quotes");
        let DeValue::Integer(number) = self.value else { return Err(self.wrong(&allowed)) };
        let number = number.to_string().parse().ok();
        number.filter(|number| (1..=max).contains(number)).ok_or_else(|| self.wrong(&allowed))
    }

    fn memory(&self) -> Result<u64, String> {
        let allowed = "it has to be a size in quotes, from \"128M\" to \"16T\", such as \"4G\"";
        parse_memory(self.text(allowed)?).ok_or_else(|| self.wrong(allowed))
    }

    /// Bytes a second.
    fn rate(&self) -> Result<u64, String> {
        let allowed = format!("in quotes, {RATE_RULE}");
        parse_rate(self.text(&allowed)?).ok_or_else(|| self.wrong(&allowed))
    }

    /// A number of processors, in hundredths.
    fn processor_percent(&self) -> Result<u32, String> {
        let number = match self.value {
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            _ => String::new(),
        };
        let percent = number.parse().map_or(0.0, |number: f64| (number * 100.0).round());
        if (f64::from(PROCESSOR_PERCENT_MIN)..=f64::from(PROCESSOR_PERCENT_MAX)).contains(&percent)
        {
            return Ok(percent as u32);
        }
        Err(self.wrong("it has to be a number from 0.1 to 1024, without quotes, such as 1.5"))
    }

    /// A name that is no path: of an account, or of a file in a fixed folder.
    fn name(&self) -> Result<String, String> {
        let allowed = "it has to be a name in quotes: 1 to 64 of A-Z, a-z, 0-9, dot, dash and \
                       underscore, and no dot first";
        let name = self.text(allowed)?;
        if crate::agent::is_session_name(name) {
            Ok(name.to_owned())
        } else {
            Err(self.wrong(allowed))
        }
    }
}

/// A text of the file in an error: cut, and without control characters.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().take(SHOWN_CHARS_MAX) {
        let _ = if character.is_control() {
            write!(shown, "{}", character.escape_default())
        } else {
            write!(shown, "{character}")
        };
    }
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::admission::Admission;

    const EXAMPLE: &str = include_str!("../../../packaging/host/broker.toml");
    const GUIDE: &str = include_str!("../../../doc/hosting.md");

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("/b.toml"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_example_says_nothing_and_has_every_key_and_so_has_the_guide() {
        assert_eq!(parse(EXAMPLE), Ok(Config::default()));
        // Its settings are comments without a space after the "#".
        let lines = EXAMPLE.lines().filter_map(|line| line.strip_prefix('#'));
        let settings: Vec<&str> =
            lines.filter(|line| line.starts_with(char::is_alphabetic)).collect();
        parse(&settings.join("\n")).unwrap();
        let keys: Vec<&str> =
            settings.iter().map(|line| line.split(" = ").next().unwrap()).collect();
        assert_eq!(keys, KEYS);
        for key in KEYS {
            assert!(GUIDE.contains(&format!("| `{key}` |")), "doc/hosting.md lacks {key}");
        }
    }

    #[test]
    fn values_are_read() {
        let text = "listen = '[::1]:8443'\ntls-cert = '/c'\ntls-key = '/k'\nfront-user = 'f'\n\
                    trusted-proxy = ['::1', '10.0.0.0/8']\npam-service = 'p'\nstate = '/s'\n\
                    audit-log = '/a'\nacme = ['Desk.example.org', 'localhost']\n\
                    acme-contact = 'a@example.org'\nacme-directory = 'https://ca/dir'\n\
                    acme-roots = '/r'\nquic = false\nsharing = false\nopening = 'ask'\n\
                    remember = '7d'\nsound = false\nprinting = false\nmicrophone = false\n\
                    end-idle = '8h'\n\
                    end-disconnected = '2d'\nsessions-max = 40\nsessions-per-user = 2\n\
                    session-memory = '4G'\nsession-processors = 1.5\nadmission = 'queue'\n\
                    admission-memory = '2G'\npriority = false\nreal-time = true\n\
                    uplink = '20M'\nsession-rate = '1.5M'\n\
                    banner = '/b'\nlog-format = 'json'\nmetrics = '[::1]:9187'\n";
        let config = Config {
            listen: Some(vec!["[::1]:8443".parse().unwrap()]),
            certificate: Some(("/c".into(), "/k".into())),
            acme: AcmeOptions {
                names: vec!["desk.example.org".to_owned(), "localhost".to_owned()],
                contact: Some("mailto:a@example.org".to_owned()),
                directory: Some("https://ca/dir".to_owned()),
                roots: Some("/r".into()),
            },
            quic: Some(false),
            sharing: Some(false),
            opening: Some(Opening::Ask),
            remember: Some(Duration::from_secs(7 * 86_400)),
            sound: Some(false),
            printing: Some(false),
            microphone: Some(false),
            trusted_proxies: Some(TrustedProxies(vec![
                "::1".parse().unwrap(),
                "10.0.0.0/8".parse().unwrap(),
            ])),
            front_user: Some("f".to_owned()),
            pam_service: Some("p".to_owned()),
            state: Some("/s".into()),
            audit_log: Some("/a".into()),
            end_idle: Some(Duration::from_secs(8 * 3600)),
            end_disconnected: Some(Duration::from_secs(2 * 86_400)),
            limits: Limits {
                sessions: Some(40),
                sessions_per_user: Some(2),
                memory: Some(4 << 30),
                processor_percent: Some(150),
                priority: false,
                real_time: true,
                admission: Admission { policy: Policy::Queue, memory: Some(2 << 30) },
            },
            priority: Some(false),
            rates: Rates { uplink: Some(2_500_000), session: Some(187_500) },
            banner: Some("/b".into()),
            log_format: Some(LogFormat::Json),
            metrics: Some("[::1]:9187".parse().unwrap()),
        };
        assert_eq!(parse(text), Ok(config));
        let listen = Some(vec!["0.0.0.0:443".parse().unwrap(), "[::]:443".parse().unwrap()]);
        let config = Config { listen, ..Config::default() };
        assert_eq!(parse("listen = ['0.0.0.0:443', '[::]:443']"), Ok(config));
    }

    #[test]
    fn an_error_names_file_line_key_value_and_what_is_allowed() {
        let cases = [
            ("\nlisen = 1", "/b.toml:2: lisen: there is no such key; there are listen, "),
            ("\n\nlisten = 443", "/b.toml:3: listen = 443: it has to be an address and a port"),
            ("log-format = 'xml'", "/b.toml:1: log-format = \"xml\": it has to be \"text\" or"),
            ("metrics = 9187", "/b.toml:1: metrics = 9187: it has to be an address and a port"),
            ("metrics = '[::]:1'", "/b.toml:1: metrics = \"[::]:1\": it has to be an address of"),
            ("acme = 'desk'", "/b.toml:1: acme = \"desk\": it has to be a list of 1 to 32"),
            ("acme = ['*.desk']", "/b.toml:1: acme = \"*.desk\": it has to be a list"),
            ("acme = ['192.0.2.1']", "/b.toml:1: acme = \"192.0.2.1\": it has to be a list"),
            ("acme-contact = 'me'", "/b.toml:1: acme-contact = \"me\": it has to be an e-mail"),
            ("acme-directory = 'http://ca'", "/b.toml:1: acme-directory = \"http://ca\": it has"),
            ("listen = []", "/b.toml:1: listen = a list: it has to be an address and a port"),
            ("\nlisten = ['::1']", "/b.toml:2: listen = \"::1\": it has to be an address"),
            ("listen = 'here'", "/b.toml:1: listen = \"here\": it has to be"),
            ("state = 'a'", "/b.toml:1: state = \"a\": it has to be an absolute path"),
            ("state = \"/a\\nb\"", "/b.toml:1: state = \"/a\\nb\": it has to be"),
            ("front-user = '../x'", "/b.toml:1: front-user = \"../x\": it has to be a name"),
            ("state = '/a'\nstate = '/b'", "/b.toml:2: TOML: duplicate key"),
            ("state = ", "/b.toml:1: TOML: "),
            ("#\n[state]\nx = 1", "/b.toml:2: state = a table: it has to be"),
            ("\ntrusted-proxy = '::1'", "/b.toml:2: trusted-proxy = \"::1\": it has to be a list"),
            ("trusted-proxy = ['x']", "/b.toml:1: trusted-proxy = \"x\": it is neither an"),
            ("trusted-proxy = ['::/0']", "/b.toml:1: trusted-proxy = \"::/0\": every address"),
            ("quic = 'off'", "/b.toml:1: quic = \"off\": it has to be true or false"),
            ("remember = 0", "/b.toml:1: remember = 0: it has to be a time in quotes"),
            ("remember = '31d'", "/b.toml:1: remember = \"31d\": it has to be a time"),
            ("trusted-proxy = [1]", "/b.toml:1: trusted-proxy = 1: it has to be a list"),
            ("end-idle = '40d'", "/b.toml:1: end-idle = \"40d\": it has to be a time"),
            ("end-idle = '0s'", "/b.toml:1: end-idle = \"0s\": it has to be a time"),
            ("end-disconnected = 8", "/b.toml:1: end-disconnected = 8: it has to be a time"),
            ("sessions-max = 0", "/b.toml:1: sessions-max = 0: it has to be a number from 1 to"),
            ("sessions-per-user = '1'", "/b.toml:1: sessions-per-user = \"1\": it has to be a"),
            ("sessions-per-user = 65", "/b.toml:1: sessions-per-user = 65: it has to be a"),
            ("session-memory = '4'", "/b.toml:1: session-memory = \"4\": it has to be a size"),
            ("session-processors = 0.01", "/b.toml:1: session-processors = 0.01: it has to be"),
            ("session-processors = nan", "/b.toml:1: session-processors = nan: it has to be"),
            ("admission = true", "/b.toml:1: admission = true: it has to be \"off\", \"refuse\""),
            ("admission = 'Queue'", "/b.toml:1: admission = \"Queue\": it has to be \"off\","),
            ("admission-memory = 2", "/b.toml:1: admission-memory = 2: it has to be a size"),
            ("uplink = 20", "/b.toml:1: uplink = 20: in quotes, it has to be a number of bits"),
            (
                "uplink = '20'",
                "/b.toml:1: uplink = \"20\": in quotes, it has to be a number of bits",
            ),
            ("session-rate = '1k'", "/b.toml:1: session-rate = \"1k\": in quotes, it has to be"),
            ("priority = 'on'", "/b.toml:1: priority = \"on\": it has to be true or false"),
            ("#\ntls-cert = '/c'", "/b.toml:2: tls-cert needs tls-key"),
            ("tls-key = '/c'", "/b.toml:1: tls-key needs tls-cert"),
        ];
        for (text, start) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(start), "{error:?} is not {start:?}…");
        }
        let long = parse(&format!("state = '{}'", "x".repeat(5000))).unwrap_err();
        assert!(long.len() < 300 && long.contains("x…") && long.contains("4096"), "{long}");
        let latin = Config::parse(Path::new("/b.toml"), b"\nstate = '\xfc'").unwrap_err();
        assert_eq!(latin.to_string(), "/b.toml:2: this is not UTF-8");
        let bytes = vec![b' '; CONFIG_BYTES_MAX + 1];
        let error = Config::parse(Path::new("/b.toml"), &bytes).unwrap_err();
        assert!(matches!(error, ConfigError::TooLong(_)), "{error}");
    }

    #[test]
    fn a_file_that_others_may_write_is_refused_and_only_the_default_may_be_missing() {
        let path = std::env::temp_dir().join(format!("thinc-config-{}", std::process::id()));
        let missing = Config::load(Some(&path)).unwrap_err();
        assert!(matches!(missing, ConfigError::Read(..)), "{missing}");
        std::fs::write(&path, "state = '/s'").unwrap();
        let load = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Config::load(Some(&path))
        };
        assert_eq!(load(0o644).unwrap().state, Some("/s".into()));
        for mode in [0o664, 0o646] {
            assert!(matches!(load(mode), Err(ConfigError::Writable(_))), "{mode:o}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}
