//! Words that CONTRIBUTING.md has retired, and lines past 100 columns.
//! Beside the path. A name in any case style counts as the words it is made of.
//! Knows spellings; never whether a sentence reads well.

use crate::{Finding, TextFile, Tree};

/// Longest line, in characters: comments and documents too, which rustfmt does not wrap.
const COLUMNS_MAX: usize = 100;

/// Phrases that stand for something the field has a word for, and that word. Lower case, single
/// spaces; each matches whole words only.
const RETIRED: &[(&str, &str)] = &[
    ("a hand", "user input"),
    ("the hand", "user input"),
    ("hand does", "user input"),
    ("hand did", "user input"),
    ("hand waits", "user input"),
    ("hands", "users, inputs"),
    ("film", "video"),
    ("films", "videos"),
    ("letter", "character, keystroke or glyph"),
    ("letters", "text, keystrokes or glyphs"),
    ("inexact", "lossy"),
    ("nearly shown", "lossy"),
    ("shown nearly", "lossy"),
    ("mend", "refresh, repair"),
    ("mends", "refreshes, repairs"),
    ("mended", "refreshed, repaired"),
    ("mending", "refresh, repair"),
    ("goes alone", "is sent as a datagram"),
    ("go alone", "are sent as datagrams"),
    ("went alone", "was sent as a datagram"),
    ("gone alone", "sent as a datagram"),
    ("going alone", "sent as a datagram"),
    ("comes alone", "arrives as a datagram"),
    ("come alone", "arrive as datagrams"),
    ("came alone", "arrived as a datagram"),
    ("sent alone", "sent as a datagram"),
    ("under way", "in flight, in progress"),
    ("gone out", "sent"),
    ("carrier", "transport"),
    ("carriers", "transports"),
    ("sign of life", "keepalive, liveness"),
    ("signs of life", "keepalives, liveness"),
    ("unheard", "unresponsive, lost"),
    ("lacking", "stale"),
    ("belated", "spurious loss"),
    ("regretted", "declared lost"),
    ("silences", "pto_count"),
    ("patience", "time threshold, time-out"),
    ("toll", "loss sample"),
    ("dearest", "most expensive"),
    ("leans on", "refers to"),
    ("lean on", "refer to"),
    ("what left last", "tail loss probe"),
    ("picture of two", "torn capture"),
    ("for ever", "forever, or without limit"),
    ("without a mind", "passive"),
    ("glass", "touch keyboard"),
    ("hatch", "mark"),
    ("hatched", "marked"),
    ("said again", "repeated"),
    ("says again", "repeats"),
    ("say again", "repeat"),
    ("said twice", "repeated"),
    ("says twice", "repeats"),
    ("anew", "again, new"),
    ("whoever", "name who"),
    ("hardly", "rarely, barely"),
    ("thereafter", "after that"),
    ("the way back", "the path back"),
    ("step back", "path back"),
    ("both ways", "in both directions"),
    ("the norm", "the specification"),
];

/// Where a phrase may stand all the same, and why. A path ending in "/" is a folder.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    ("xtask/src/words.rs", &[], "lists the phrases"),
    ("CONTRIBUTING.md", &[], "has the table of words"),
    ("bench/src/apps/latency.rs", &["letter", "letters"], "\"letter\" is Lai and Nieh's operation"),
    ("bench/src/workloads/latency.rs", &["letter"], "\"letter\" is Lai and Nieh's operation"),
    ("bench/src/results.rs", &["letter"], "\"letter\" is Lai and Nieh's operation"),
    ("bench/src/report/", &["letter"], "Lai and Nieh's operation, and a CSS property"),
    ("crates/printing/", &["letter"], "a paper of that name"),
    ("doc/benchmarks/peers.html", &[], "is made from recorded data"),
];

/// Lines past COLUMNS_MAX: the files in which they may stand, and why.
const LONG_LINES: &[(&str, &str)] =
    &[("doc/benchmarks/peers.html", "its data is one line, as thinc-bench report writes it")];

/// The words of a line in lower case with single spaces between them; a snake_case, kebab-case or
/// CamelCase name is taken apart.
fn words_of(line: &str) -> String {
    let mut words = String::from(" ");
    let mut before = ' ';
    for c in line.chars() {
        if c.is_alphanumeric() {
            if c.is_uppercase() && before.is_lowercase() && !words.ends_with(' ') {
                words.push(' ');
            }
            words.extend(c.to_lowercase());
        } else if c != '\'' && !words.ends_with(' ') {
            words.push(' ');
        }
        before = c;
    }
    if !words.ends_with(' ') {
        words.push(' ');
    }
    words
}

fn excused(path: &str, phrase: &str) -> bool {
    EXCEPTIONS.iter().any(|(place, phrases, _)| {
        (path == *place || (place.ends_with('/') && path.starts_with(place)))
            && (phrases.is_empty() || phrases.contains(&phrase))
    })
}

/// Sources, scripts and documents: whatever a person reads. Licences, lock files, logs of events
/// and recorded data are not.
fn is_read(path: &str) -> bool {
    let endings = [
        ".rs",
        ".c",
        ".h",
        ".ts",
        ".mjs",
        ".js",
        ".sh",
        ".md",
        ".css",
        ".html",
        ".toml",
        ".xml",
        ".desktop",
        ".manpages",
        ".1",
    ];
    (endings.iter().any(|ending| path.ends_with(ending)) && !path.ends_with("Cargo.lock"))
        || path == "dev"
        || path == ".ci/run"
}

fn check_file_words(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let words = words_of(line);
        for (phrase, instead) in RETIRED {
            if words.contains(&format!(" {phrase} ")) && !excused(&file.path, phrase) {
                findings.push(Finding::new(
                    format!("{}:{}", file.path, index + 1),
                    format!("says \"{phrase}\"; write: {instead}"),
                ));
            }
        }
    }
    findings
}

pub(crate) fn check_retired(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_read(&file.path)).flat_map(check_file_words).collect()
}

/// A table row of a document, a line that is one unbroken word (a link), and the files of
/// LONG_LINES may be longer.
fn check_file_columns(file: &TextFile) -> Vec<Finding> {
    if LONG_LINES.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let is_document = file.path.ends_with(".md");
    let too_long = |line: &str| {
        line.chars().count() > COLUMNS_MAX
            && !(is_document && line.trim_start().starts_with('|'))
            && line.split_whitespace().count() > 2
    };
    let numbered = file.text.lines().enumerate().filter(|(_, line)| too_long(line));
    numbered
        .map(|(index, line)| {
            let words = format!("has {} columns, {COLUMNS_MAX} at most", line.chars().count());
            Finding::new(format!("{}:{}", file.path, index + 1), words)
        })
        .collect()
}

pub(crate) fn check_columns(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_read(&file.path)).flat_map(check_file_columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn retired_words_are_found_in_sentences_and_in_names() {
        let found = |text: &str| check_file_words(&file("a.rs", text)).len();
        assert_eq!(found("// What a hand does is sent.\n"), 2);
        assert_eq!(found("const BELATED_MAX: u32 = 3;\n"), 1);
        assert_eq!(found("struct FilmPlayer;\nfn film_rate() {}\n"), 2);
        assert_eq!(found("// A filmstrip, handed over by hand.\n"), 0);
    }

    #[test]
    fn a_line_past_100_columns_is_found_in_characters_and_not_in_bytes() {
        let line = "ä ".repeat(50);
        assert!(check_file_columns(&file("a.rs", &line)).is_empty());
        assert_eq!(check_file_columns(&file("a.rs", &format!("{line}b"))).len(), 1);
        assert!(check_file_columns(&file("a.md", &format!("| {line} b |"))).is_empty());
    }
}
