//! Checks of the tree beyond those of the compiler: `cargo xtask check`.
//! Beside the path: reads the sources and `cargo metadata`, changes nothing.
//! Knows the rules of ARCHITECTURE.md and CONTRIBUTING.md; nothing of what the crates do.
#![forbid(unsafe_code)]

mod dependencies;
mod links;
#[cfg(feature = "manuals")]
mod manuals;
mod notices;
mod security;
mod source;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One broken rule: where, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    place: String,
    words: String,
}

impl Finding {
    fn new(place: impl Into<String>, words: impl Into<String>) -> Finding {
        Finding { place: place.into(), words: words.into() }
    }
}

/// A text file that git tracks or would track: its path from the root, and its contents.
struct TextFile {
    path: String,
    text: String,
}

type Check = fn(&Tree) -> Vec<Finding>;

/// The checks, by the names under which they are reported.
const CHECKS: &[(&str, Check)] = &[
    ("each crate depends only on allowed crates", dependencies::check),
    ("each source file has a head that says what it is", source::check_heads),
    ("each of the thirteen steps of the path has a file", source::check_path),
    ("files past 1000 lines are listed with a reason", source::check_lengths),
    ("crates without unsafe code forbid it", source::check_unsafe),
    ("the cores use no clock, thread, socket or file", source::check_purity),
    ("no unfinished work, and no path of one machine", source::check_words),
    ("no retired word is used", words::check_retired),
    ("no line is longer than 100 columns", words::check_columns),
    ("each relative link in the documents has a target", links::check),
    ("what doc/security.md names as a source or a test exists", security::check),
];

struct Tree {
    root: PathBuf,
    files: Vec<TextFile>,
    metadata: serde_json::Value,
}

impl Tree {
    fn read(root: &Path) -> Result<Tree, String> {
        let listed = run(Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root))?;
        let mut files = Vec::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            // Deleted but uncommitted paths are listed too, and files that are not UTF-8 are no
            // sources.
            if let Ok(text) = std::fs::read_to_string(root.join(path)) {
                files.push(TextFile { path: path.to_owned(), text });
            }
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let metadata = run(Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .current_dir(root))?;
        let metadata = serde_json::from_str(&metadata)
            .map_err(|error| format!("cargo metadata printed invalid JSON: {error}"))?;
        Ok(Tree { root: root.to_owned(), files, metadata })
    }
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("{command:?} printed text that is not UTF-8"))
}

fn check(root: &Path) -> Result<bool, String> {
    let tree = Tree::read(root)?;
    let mut failed = 0;
    for (name, check) in CHECKS {
        let findings = check(&tree);
        println!("{} {name}", if findings.is_empty() { "ok  " } else { "FAIL" });
        for finding in &findings {
            println!("       {}: {}", finding.place, finding.words);
        }
        failed += usize::from(!findings.is_empty());
    }
    println!("tree: {} passed, {failed} failed", CHECKS.len() - failed);
    Ok(failed == 0)
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent folder");
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => check(root),
        #[cfg(feature = "manuals")]
        ["manuals", folder] => manuals::write(Path::new(folder)).map(|files| {
            println!("{files} files in {folder}");
            true
        }),
        ["notices", folder] => notices::write(root, Path::new(folder)).map(|files| {
            println!("{files} files in {folder}");
            true
        }),
        _ => Err(
            "usage: cargo xtask check | cargo xtask notices FOLDER | cargo xtask-manuals FOLDER"
                .to_owned(),
        ),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(words) => {
            eprintln!("xtask: {words}");
            ExitCode::from(2)
        }
    }
}
