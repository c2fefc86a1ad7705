//! What every source file must have: a head, a bounded length, no unfinished work. Beside the path.
//! Each rule is a function of one file's text, tested with a text that breaks it. Knows words and
//! lines; never the grammar of a language.

use crate::{Finding, TextFile, Tree};

/// Files that may be longer than LINES_MAX, each with the reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Lines of at most 100 columns.
const LINES_MAX: usize = 1000;

/// Crates with unsafe code, and why; every other crate root must say `#![forbid(unsafe_code)]`.
const UNSAFE_CRATES: &[(&str, &str)] = &[
    ("bench/gl", "OpenGL, in one file; the rest denies it"),
    ("crates/gl-probe", "Xlib and OpenGL, in a process that draws one frame"),
    (
        "crates/h264",
        "a rate of OpenH264's that changes, and libx264 where a build asks for it: neither has a \
            safe form; the rest denies it",
    ),
    ("crates/pam", "the system's libpam, in C"),
    ("crates/realtime", "one system call, sched_setscheduler, that has no safe form"),
    ("crates/ring", "maps memory that another process writes"),
    ("crates/sound-web", "functions that JavaScript calls, as in viewer-web"),
    (
        "crates/transport",
        "two socket options, TCP_INFO and SO_MAX_PACING_RATE, that have no safe form; the rest \
            denies it",
    ),
    ("crates/viewer-native", "one call of SDL that has no safe form; the rest denies it"),
    ("crates/viewer-web", "a C interface for the page's script"),
];

/// Steps of the path from a drawing operation to the screen.
const PATH_STEPS: usize = 13;

/// Folders whose files may use no clock, thread, socket or file: `now` and seeds are arguments.
const PURE_FOLDERS: &[&str] = &[
    "crates/region/src/",
    "crates/path-model/src/",
    "crates/protocol/src/",
    "crates/pixels/src/",
    "crates/codec-dec/src/",
    "crates/files/src/",
    "crates/printing/src/",
    "crates/priority/src/",
    "crates/sound/src/",
    "crates/session-core/src/",
    "crates/viewer-core/src/",
];
const IMPURE_WORDS: &[&str] = &[
    "std::time",
    "std::thread",
    "std::net",
    "std::fs",
    "std::env",
    "std::process",
    "std::os",
    "Instant::now",
    "SystemTime",
    "println!",
    "thread_local!",
    "static mut ",
];

fn is_source(path: &str) -> bool {
    let by_name = [".rs", ".c", ".h", ".ts", ".mjs", ".js", ".sh", ".py"]
        .iter()
        .any(|ending| path.ends_with(ending));
    by_name || path == "dev" || path == ".ci/run"
}

fn each_source(tree: &Tree, check: impl Fn(&TextFile) -> Vec<Finding>) -> Vec<Finding> {
    tree.files.iter().filter(|file| is_source(&file.path)).flat_map(check).collect()
}

/// The first comment of a file without its marks; empty if the file does not begin with one.
fn head(text: &str) -> Vec<&str> {
    let lines = text.lines().skip_while(|line| line.starts_with("#!/"));
    let mut head = Vec::new();
    let mut in_block = false;
    for line in lines {
        let line = line.trim();
        let opens =
            ["//!", "///", "//", "/**", "/*", "#"].iter().find_map(|mark| line.strip_prefix(mark));
        let words = match opens {
            Some(_)
                if line.starts_with("#include")
                    || line.starts_with("#!")
                    || line.starts_with("#[") =>
            {
                break;
            }
            Some(rest) => {
                in_block |= line.starts_with("/*");
                rest
            }
            None if in_block => line.strip_prefix('*').unwrap_or(line),
            None => break,
        };
        let closed = words.contains("*/") || line == "*/";
        let words = words.trim_end_matches("*/").trim_end_matches('/').trim();
        if !words.is_empty() {
            head.push(words);
        }
        if closed {
            in_block = false;
        }
    }
    head
}

fn check_head(file: &TextFile) -> Vec<Finding> {
    if head(&file.text).is_empty() {
        return vec![Finding::new(&file.path, "has no comment at the top that says what it is")];
    }
    Vec::new()
}

pub(crate) fn check_heads(tree: &Tree) -> Vec<Finding> {
    each_source(tree, check_head)
}

/// The steps in a head: "Path 5/13: from …, to ….", two of them or a range if a file serves
/// several, none for the return direction ("Path back: …") and for neighbours of the path ("Path
/// beside the pixels: …").
fn path_steps(file: &TextFile) -> Result<Vec<usize>, Finding> {
    let Some(claim) = head(&file.text).into_iter().find_map(|line| line.strip_prefix("Path "))
    else {
        return Ok(Vec::new());
    };
    let broken = || {
        let words = format!(
            "its head says \"Path {claim}\"; the form is \"Path N/{PATH_STEPS}: from X, to Y.\""
        );
        Finding::new(&file.path, words)
    };
    let (place, _) = claim.split_once(':').ok_or_else(broken)?;
    let mut steps: Vec<usize> = Vec::new();
    for word in place.split([' ', ',']).filter(|word| word.contains('/')) {
        let (step, count) = word.split_once('/').ok_or_else(broken)?;
        let step = step.parse().ok().filter(|step| *step <= PATH_STEPS).ok_or_else(broken)?;
        if count != PATH_STEPS.to_string() {
            return Err(broken());
        }
        steps.push(step);
    }
    if steps.is_empty() && !place.starts_with("back") && !place.starts_with("beside") {
        return Err(broken());
    }
    if let [first, last] = steps[..]
        && place.contains(" to ")
    {
        steps = (first..=last).collect();
    }
    Ok(steps)
}

pub(crate) fn check_path(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut taken = [false; PATH_STEPS];
    for file in
        tree.files.iter().filter(|file| is_source(&file.path) && !file.path.starts_with("xtask/"))
    {
        match path_steps(file) {
            // Step 0 precedes the path: the handshake.
            Ok(steps) => {
                steps.into_iter().filter(|step| *step > 0).for_each(|step| taken[step - 1] = true)
            }
            Err(finding) => findings.push(finding),
        }
    }
    for (index, _) in taken.iter().enumerate().filter(|(_, taken)| !**taken) {
        findings
            .push(Finding::new("the path", format!("no file has step {} in its head", index + 1)));
    }
    findings
}

fn check_length(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if lines <= LINES_MAX || LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    vec![Finding::new(
        &file.path,
        format!("has {lines} lines: split it, or add it to LONG_FILES with a reason"),
    )]
}

pub(crate) fn check_lengths(tree: &Tree) -> Vec<Finding> {
    let mut findings = each_source(tree, check_length);
    for (path, _) in LONG_FILES {
        if !tree
            .files
            .iter()
            .any(|file| file.path == *path && file.text.lines().count() > LINES_MAX)
        {
            findings.push(Finding::new(
                *path,
                "is listed in LONG_FILES but is no longer long: remove it there",
            ));
        }
    }
    findings
}

fn check_unsafe_in(file: &TextFile) -> Vec<Finding> {
    let is_root = ["src/lib.rs", "src/main.rs"].iter().any(|root| file.path.ends_with(root))
        || file.path.contains("/src/bin/");
    let excused =
        UNSAFE_CRATES.iter().any(|(folder, _)| file.path.starts_with(&format!("{folder}/")));
    if !is_root || excused || file.text.contains("forbid(unsafe_code)") {
        return Vec::new();
    }
    vec![Finding::new(
        &file.path,
        "lacks #![forbid(unsafe_code)], and its crate is not in UNSAFE_CRATES",
    )]
}

pub(crate) fn check_unsafe(tree: &Tree) -> Vec<Finding> {
    each_source(tree, check_unsafe_in)
}

fn check_purity_of(file: &TextFile) -> Vec<Finding> {
    if !PURE_FOLDERS.iter().any(|folder| file.path.starts_with(folder))
        || file.path.ends_with("tests.rs")
    {
        return Vec::new();
    }
    // By convention, code used only by tests comes after this line.
    let shipped = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let lines =
        shipped.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines
        .flat_map(|(index, line)| {
            IMPURE_WORDS.iter().filter(|word| line.contains(**word)).map(move |word| {
                Finding::new(
                    format!("{}:{}", file.path, index + 1),
                    format!("a pure crate uses {word}"),
                )
            })
        })
        .collect()
}

pub(crate) fn check_purity(tree: &Tree) -> Vec<Finding> {
    each_source(tree, check_purity_of)
}

/// Words that no line may contain. Assembled here, so that this file does not break its own rule.
fn forbidden_words() -> Vec<(String, &'static str)> {
    let mut words: Vec<(String, &str)> = ["TO DO", "FIX ME", "X XX"]
        .iter()
        .map(|word| (word.replace(' ', ""), "marks unfinished work: do it or file an issue"))
        .collect();
    words.extend(["to do!(", "un implemented!("].map(|word| (word.replace(' ', ""), "is a stub")));
    words.extend(
        ["/ work/", "/ root/", "/ tmp/target"]
            .map(|word| (word.replace(' ', ""), "is a path of one machine")),
    );
    words
}

/// True if `line` contains `word` as a whole word (not as in a template for mktemp).
fn holds_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(char::is_alphanumeric);
        let after = line[at + word.len()..].chars().next().is_some_and(char::is_alphanumeric);
        let open_ended = !word.ends_with(char::is_alphanumeric) || word.starts_with('/');
        !before && (!after || open_ended)
    })
}

fn check_words_of(file: &TextFile) -> Vec<Finding> {
    let words = forbidden_words();
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, why) in &words {
            if holds_word(line, word) {
                findings.push(Finding::new(
                    format!("{}:{}", file.path, index + 1),
                    format!("{word} {why}"),
                ));
            }
        }
    }
    findings
}

pub(crate) fn check_words(tree: &Tree) -> Vec<Finding> {
    tree.files
        .iter()
        .filter(|file| !file.path.ends_with(".lock") && !file.path.ends_with("package-lock.json"))
        .flat_map(check_words_of)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn heads_are_found_in_each_language() {
        assert_eq!(head("//! One.\n//! Two.\nuse x;\n"), ["One.", "Two."]);
        assert_eq!(head("/*\n * One.\n * Two.\n */\n#include <x.h>\n"), ["One.", "Two."]);
        assert_eq!(head("/* One. */\nint x;\n"), ["One."]);
        assert_eq!(head("#!/bin/sh\n# One.\nset -e\n"), ["One."]);
        assert_eq!(head("#include <x.h>\n"), [""; 0]);
        assert_eq!(check_head(&file("a.rs", "use x;\n//! late\n")).len(), 1);
        assert_eq!(check_head(&file("a.rs", "#![forbid(unsafe_code)]\n//! late\n")).len(), 1);
    }

    #[test]
    fn steps_of_the_path_are_parsed_in_one_form() {
        let steps = |head: &str| path_steps(&file("a.rs", head)).map_err(|_| ());
        assert_eq!(steps("//! Path 5/13: from a.rs, to b.rs.\n"), Ok(vec![5]));
        assert_eq!(
            steps("//! One ordered set.\n//! Path 12/13 and 13/13: from a.rs, to the screen.\n"),
            Ok(vec![12, 13])
        );
        assert_eq!(steps("//! Path 10/13 to 13/13: a shell.\n"), Ok(vec![10, 11, 12, 13]));
        assert_eq!(steps("//! Path 3/13, and path back: from a.rs, to b.c.\n"), Ok(vec![3]));
        assert_eq!(steps("//! Path back: from the window, to input.rs.\n"), Ok(vec![]));
        assert_eq!(steps("//! Beside the path.\n"), Ok(vec![]));
        assert_eq!(steps("//! Path 5/12: from a.rs, to b.rs.\n"), Err(()));
        assert_eq!(steps("//! Path 14/13: from a.rs, to b.rs.\n"), Err(()));
        assert_eq!(steps("//! Path 5/13, somewhere.\n"), Err(()));
    }

    #[test]
    fn long_files_are_found() {
        assert_eq!(check_length(&file("a.rs", &"x\n".repeat(LINES_MAX))), []);
        assert_eq!(check_length(&file("a.rs", &"x\n".repeat(LINES_MAX + 1))).len(), 1);
    }

    #[test]
    fn a_crate_that_allows_unsafe_code_is_found() {
        assert_eq!(check_unsafe_in(&file("crates/sim/src/lib.rs", "//! x\n")).len(), 1);
        assert_eq!(
            check_unsafe_in(&file("crates/sim/src/lib.rs", "//! x\n#![forbid(unsafe_code)]\n")),
            []
        );
        assert_eq!(check_unsafe_in(&file("crates/sim/src/link.rs", "//! x\n")), []);
        assert_eq!(check_unsafe_in(&file("crates/ring/src/lib.rs", "//! x\n")), []);
    }

    #[test]
    fn a_clock_in_a_core_is_found() {
        let text = "//! x\nlet now = std::time::Instant::now();\n#[cfg(test)]\nmod tests { use \
            std::fs; }\n";
        assert_eq!(check_purity_of(&file("crates/session-core/src/flow.rs", text)).len(), 2);
        assert_eq!(check_purity_of(&file("crates/session-server/src/flow.rs", text)), []);
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = format!(
            "let x = 1;\n// {}: y\n{}!()\nopen(\"/{}/x\")\n",
            "TO".to_owned() + "DO",
            "to".to_owned() + "do",
            "work"
        );
        assert_eq!(check_words_of(&file("a.c", &text)).len(), 3);
        assert_eq!(check_words_of(&file("a.sh", &format!("mktemp /tmp/a.{}", "X".repeat(6)))), []);
    }
}
