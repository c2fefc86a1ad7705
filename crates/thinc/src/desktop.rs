//! What a session runs: COMMAND, the desktop of `--desktop`, or the default one. From the command
//! line and the folders in which distributions list desktops (`xsessions`), to supervisor.rs. Knows
//! file formats of freedesktop.org; starts nothing.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::cli::name_from;
use crate::search::{self, SearchError};
use crate::window_manager;

/// Longest file that is read, in bytes; those of desktops have up to 10 KB, with all translations.
const ENTRY_BYTES_MAX: u64 = 256 * 1024;
/// Most files that are read in one folder; further ones are ignored.
const ENTRIES_MAX: usize = 256;
/// `DesktopNames` of complete desktops, in the order in which one of several is the default where
/// the system names none. What is in no list is a window manager, or unknown to us, and comes last.
const PREFERRED: [&str; 9] =
    ["XFCE", "KDE", "GNOME", "MATE", "X-Cinnamon", "LXQt", "LXDE", "Budgie", "Pantheon"];
/// The system's own choice (Debian's alternatives).
const SYSTEM_DEFAULT: &str = "x-session-manager";
/// Alone, openbox shows an empty screen without a way to start anything.
const OPENBOX_SESSION: &str = "openbox-session";

/// What a session runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The default name of the session.
    pub(crate) name: String,
    /// Path of the program, and its arguments.
    pub(crate) command: Vec<OsString>,
    /// What a display manager would set for this desktop.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Whether it manages windows itself, as far as is known.
    pub(crate) manages_windows: bool,
}

impl Program {
    fn plain(name: &str, command: Vec<OsString>) -> Program {
        let manages_windows = window_manager::brings_its_own(&command);
        Program { name: name.to_owned(), command, environment: Vec::new(), manages_windows }
    }

    /// COMMAND, the desktop of this name, or the default.
    pub(crate) fn find(
        command: &[OsString],
        desktop: Option<&str>,
    ) -> Result<Program, SearchError> {
        match (command, desktop) {
            ([], None) => default_program(&Installed::read(&folders())),
            ([], Some(name)) => Installed::read(&folders()).named(name),
            ([first, ..], _) => Ok(Program::plain(&name_from(first), search::command(command)?)),
        }
    }
}

/// One desktop that is installed.
#[derive(Debug)]
struct Entry {
    /// The file's name without `.desktop`.
    id: String,
    /// For people.
    name: String,
    /// Words of the command line, the first as the file has it.
    exec: Vec<String>,
    /// For `XDG_CURRENT_DESKTOP`.
    desktop_names: Vec<String>,
}

impl Entry {
    fn program(&self) -> Option<Program> {
        let program = search::program(OsStr::new(self.exec.first()?))?;
        let mut command = vec![program.into_os_string()];
        command.extend(self.exec[1..].iter().map(OsString::from));
        Some(Program {
            name: name_from(&OsString::from(&self.id)),
            command,
            environment: self.environment(),
            manages_windows: true,
        })
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let mut set =
            vec![("DESKTOP_SESSION", self.id.clone()), ("XDG_SESSION_DESKTOP", self.id.clone())];
        if !self.desktop_names.is_empty() {
            set.push(("XDG_CURRENT_DESKTOP", self.desktop_names.join(":")));
        }
        set
    }

    /// Its place in the order of defaults.
    fn rank(&self) -> usize {
        let place = |name: &str| PREFERRED.iter().position(|other| name == *other);
        self.desktop_names.iter().filter_map(|name| place(name)).min().unwrap_or(PREFERRED.len())
    }
}

/// All desktops that are installed, by their ID.
struct Installed {
    entries: Vec<Entry>,
    folders: Vec<PathBuf>,
}

/// `xsessions` in each of `XDG_DATA_DIRS`, whose default the XDG Base Directory Specification
/// names.
fn folders() -> Vec<PathBuf> {
    let dirs = env::var_os("XDG_DATA_DIRS").filter(|dirs| !dirs.is_empty());
    let dirs = dirs.unwrap_or_else(|| "/usr/local/share:/usr/share".into());
    env::split_paths(&dirs)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("xsessions"))
        .collect()
}

impl Installed {
    /// The first folder that has an ID decides what it means, also that it is hidden.
    fn read(folders: &[PathBuf]) -> Installed {
        let mut seen = Vec::new();
        let mut entries = Vec::new();
        for folder in folders {
            let Ok(files) = folder.read_dir() else { continue };
            for path in files.flatten().map(|file| file.path()).take(ENTRIES_MAX) {
                let id = path.file_stem().and_then(OsStr::to_str).map(str::to_owned);
                let Some(id) = id.filter(|_| path.extension() == Some(OsStr::new("desktop")))
                else {
                    continue;
                };
                if seen.contains(&id) {
                    continue;
                }
                let mut text = String::new();
                let read = File::open(&path)
                    .and_then(|file| file.take(ENTRY_BYTES_MAX).read_to_string(&mut text));
                seen.push(id.clone());
                if read.is_ok() {
                    entries.extend(parse(id, &text));
                }
            }
        }
        entries.sort_by(|a: &Entry, b: &Entry| a.id.cmp(&b.id));
        Installed { entries, folders: folders.to_vec() }
    }

    /// By ID, by the name for people, or by one of its desktop names, in upper or lower case.
    fn named(&self, wanted: &str) -> Result<Program, SearchError> {
        let is = |name: &str| name.eq_ignore_ascii_case(wanted);
        let by = |is_it: &dyn Fn(&Entry) -> bool| self.entries.iter().find(|entry| is_it(entry));
        let found = by(&|entry| is(&entry.id))
            .or_else(|| by(&|entry| is(&entry.name)))
            .or_else(|| by(&|entry| entry.desktop_names.iter().any(|name| is(name))));
        found.and_then(Entry::program).ok_or_else(|| SearchError::Desktop {
            wanted: wanted.to_owned(),
            installed: self.entries.iter().map(|entry| entry.id.clone()).collect(),
            folders: self.folders.iter().map(|folder| folder.display().to_string()).collect(),
        })
    }

    /// The desktop that a program starts.
    fn started_by(&self, program: &Path) -> Option<&Entry> {
        let is_it = |entry: &&Entry| {
            let found = entry.exec.first().and_then(|first| search::program(OsStr::new(first)));
            entry.exec.len() == 1
                && found.and_then(|path| path.canonicalize().ok()).as_deref() == Some(program)
        };
        self.entries.iter().find(is_it)
    }
}

/// The system's choice, else a desktop that is installed, else openbox with a terminal, else a
/// terminal.
fn default_program(installed: &Installed) -> Result<Program, SearchError> {
    let is_openbox = |program: &OsStr| Path::new(program).ends_with(OPENBOX_SESSION);
    let chosen = search::program(OsStr::new(SYSTEM_DEFAULT))
        .and_then(|link| link.canonicalize().ok())
        .filter(|program| !is_openbox(program.as_os_str()));
    if let Some(program) = chosen {
        let entry = installed.started_by(&program).and_then(Entry::program);
        let command = program.into_os_string();
        let plain = || Program {
            manages_windows: true,
            ..Program::plain(&name_from(&command), vec![command.clone()])
        };
        return Ok(entry.unwrap_or_else(plain));
    }
    let found = |name: &str| search::program(OsStr::new(name)).map(PathBuf::into_os_string);
    let mut entries: Vec<&Entry> = installed.entries.iter().collect();
    entries.sort_by_key(|entry| entry.rank());
    let mut programs = entries.into_iter().filter_map(Entry::program);
    if let Some(desktop) = programs.find(|program| !is_openbox(&program.command[0])) {
        return Ok(desktop);
    }
    if let Some(xfce) = found("startxfce4") {
        return Ok(Program::plain("xfce", vec![xfce]));
    }
    match (found("openbox"), found("xterm")) {
        // The terminal makes the empty desktop usable; the session ends with the window manager.
        (Some(openbox), Some(_)) => {
            Ok(Program::plain("openbox", vec![openbox, "--startup".into(), "xterm".into()]))
        }
        (None, Some(xterm)) => Ok(Program::plain("xterm", vec![xterm])),
        _ => Err(SearchError::NothingToRun),
    }
}

/// An entry that can be started: <https://specifications.freedesktop.org/desktop-entry-spec/>.
fn parse(id: String, text: &str) -> Option<Entry> {
    let group = text
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != "[Desktop Entry]")
        .skip(1)
        .take_while(|line| !line.starts_with('['));
    let (mut name, mut exec, mut desktop_names) = (id.clone(), None, Vec::new());
    for line in group {
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.trim_start();
        match key.trim_end() {
            "Name" => name = unescape(value),
            "Exec" => exec = exec_words(&unescape(value)),
            "DesktopNames" => {
                let names = value.split([';', ':']).map(str::trim).filter(|name| !name.is_empty());
                desktop_names = names.map(str::to_owned).collect();
            }
            "TryExec" if search::program(OsStr::new(&unescape(value))).is_none() => return None,
            "Hidden" | "NoDisplay" if value == "true" => return None,
            _ => {}
        }
    }
    Some(Entry { id, name, exec: exec.filter(|words| !words.is_empty())?, desktop_names })
}

/// The escapes of all strings in such a file.
fn unescape(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match chars.next() {
            Some('s') => plain.push(' '),
            Some('n') => plain.push('\n'),
            Some('t') => plain.push('\t'),
            Some('r') => plain.push('\r'),
            Some('\\') => plain.push('\\'),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    plain
}

/// Who wrote a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// A desktop's entry: `%` is a field code, which names files to open, and is left out (`%%` is
    /// one `%`); only `"` quotes.
    Entry,
    /// A person: `%` is itself, and `'` quotes too, also a backslash.
    Person,
}

/// The command line of an entry in words; None if a quote is open.
fn exec_words(line: &str) -> Option<Vec<String>> {
    words(line, Writer::Entry)
}

/// A command line that a person typed, in words: quotes hold one together. No interpreter reads it.
pub(crate) fn typed_command(line: &str) -> Result<Vec<OsString>, SearchError> {
    match words(line, Writer::Person) {
        None => Err(SearchError::Quote(line.to_owned())),
        Some(words) if words.first().is_none_or(String::is_empty) => Err(SearchError::NoProgram),
        Some(words) => Ok(words.into_iter().map(OsString::from).collect()),
    }
}

/// The IDs of all desktops that can be started, with their names for people.
pub(crate) fn installed() -> Vec<(String, String)> {
    let entries = Installed::read(&folders()).entries.into_iter();
    let found = entries.filter(|entry| entry.program().is_some());
    found.map(|entry| (entry.id, entry.name)).collect()
}

/// In words, of which quotes hold one together; None if a quote is open.
fn words(line: &str, writer: Writer) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let opens = quote.is_none() && (c == '"' || c == '\'' && writer == Writer::Person);
        match c {
            _ if opens || quote == Some(c) => {
                quote = opens.then_some(c);
                word.get_or_insert_default();
            }
            ' ' | '\t' | '\n' if quote.is_none() => words.extend(word.take()),
            '\\' if quote == Some('"') => word.get_or_insert_default().push(chars.next()?),
            '%' if quote.is_none() && writer == Writer::Entry => {
                if chars.next()? == '%' {
                    word.get_or_insert_default().push('%');
                }
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(files: &[(&str, &str)]) -> Installed {
        let entries = files.iter().filter_map(|(id, text)| {
            parse((*id).to_owned(), &format!("[Desktop Entry]\nType=Application\n{text}"))
        });
        Installed { entries: entries.collect(), folders: vec!["/somewhere/xsessions".into()] }
    }

    #[test]
    fn words_of_a_command_line_are_quoted_escaped_and_without_field_codes() {
        let words = |line: &str| exec_words(&unescape(line));
        let some = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let plain = words("env A=b  gnome-session %U --x");
        assert_eq!(plain, some(&["env", "A=b", "gnome-session", "--x"]));
        let quoted = words(r#""/opt/my desk/run" "a \\"b\\" 50%" """#);
        assert_eq!(quoted, some(&["/opt/my desk/run", "a \"b\" 50%", ""]));
        assert_eq!(words("a 50%% b"), some(&["a", "50%", "b"]));
        assert_eq!(words("a \"b"), None);
        assert_eq!(words("a %"), None);
        assert_eq!(words(""), some(&[]));
    }

    #[test]
    fn what_a_person_types_is_a_program_and_its_arguments() {
        let typed = typed_command(r#" xterm -T "my top" -e date +%H "#).unwrap();
        assert_eq!(typed, ["xterm", "-T", "my top", "-e", "date", "+%H"]);
        let typed = typed_command(r#"sh -c 'echo "a\b"' "it's" x'y z'"#).unwrap();
        assert_eq!(typed, ["sh", "-c", r#"echo "a\b""#, "it's", "xy z"]);
        let error = typed_command("xterm -T \"a").unwrap_err().to_string();
        assert!(error.contains("xterm -T \"a"), "{error}");
        for empty in ["", "  ", "\"\" a"] {
            assert!(matches!(typed_command(empty), Err(SearchError::NoProgram)), "{empty:?}");
        }
    }

    #[test]
    fn entries_that_are_hidden_or_not_there_are_left_out() {
        let found = installed(&[
            ("good", "Name=Good One\nExec=sh -c true\nDesktopNames=GOOD;More;\n[Other]\nExec=no"),
            ("hidden", "Exec=sh\nHidden=true"),
            ("gone", "Exec=sh\nTryExec=/nonexistent/program"),
            ("empty", "Name=Empty"),
        ]);
        assert_eq!(found.entries.len(), 1);
        let good = found.named("good").unwrap();
        assert_eq!(good.command[1..], ["-c", "true"]);
        assert!(good.command[0].to_string_lossy().ends_with("/sh"));
        assert_eq!(
            good.environment,
            [
                ("DESKTOP_SESSION", "good".to_owned()),
                ("XDG_SESSION_DESKTOP", "good".to_owned()),
                ("XDG_CURRENT_DESKTOP", "GOOD:More".to_owned()),
            ]
        );
        for name in ["GOOD", "good one", "more"] {
            assert_eq!(found.named(name).unwrap(), good, "{name}");
        }
        let error = found.named("hidden").unwrap_err().to_string();
        assert_eq!(error, "no desktop called hidden is installed; these are: good");
        let error = installed(&[]).named("x").unwrap_err().to_string();
        assert!(error.contains("/somewhere/xsessions"), "{error}");
    }

    #[test]
    fn complete_desktops_come_before_window_managers() {
        let found = installed(&[
            ("awm", "Exec=sh"),
            ("gnome", "Exec=sh\nDesktopNames=Ubuntu:GNOME"),
            ("xfce", "Exec=sh\nDesktopNames=XFCE"),
        ]);
        let ranks: Vec<usize> = found.entries.iter().map(Entry::rank).collect();
        assert_eq!(ranks, [PREFERRED.len(), 2, 0]);
    }
}
