//! doc/security.md: each source and each test that a row of its threats names must exist.
//! Beside the path. Knows the table's last two columns and how tests are named in Rust and in
//! JavaScript; not whether a test tests what its row says.

use crate::{Finding, Tree};

const DOCUMENT: &str = "doc/security.md";
/// The last columns of the table's header.
const HEADER: &str = "| Source | Test |";
/// Where a source may be: paths leave out the folder of all crates.
const FOLDERS: [&str; 2] = ["", "crates/"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.files.iter().find(|file| file.path == DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, "is missing")];
    };
    let tests = tests_of(tree);
    let mut findings = Vec::new();
    for (line, sources, named) in rows(&document.text) {
        let place = format!("{DOCUMENT}:{line}");
        for path in code(sources).into_iter().flat_map(expand) {
            if !exists(tree, &path) {
                findings.push(Finding::new(&place, format!("there is no source {path}")));
            }
        }
        for name in code(named) {
            let is_known = if name.contains('/') {
                exists(tree, name)
            } else {
                tests.iter().any(|test| matches(test, name))
            };
            if !is_known {
                findings.push(Finding::new(&place, format!("there is no test {name}")));
            }
        }
    }
    if findings.is_empty() && rows(&document.text).next().is_none() {
        findings.push(Finding::new(DOCUMENT, format!("has no table with {HEADER}")));
    }
    findings
}

/// Line number, sources and tests of each row of the threats.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut in_table = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        in_table = line.ends_with(HEADER) || (in_table && line.starts_with('|'));
        if !in_table || line.ends_with(HEADER) || line.starts_with("|---") {
            return None;
        }
        let mut cells = line.trim_end_matches('|').rsplit(" | ");
        let tests = cells.next()?;
        Some((index + 1, cells.next()?, tests))
    })
}

/// The code spans of a cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// `a/{b,c/{d,e}}.rs` as the paths that it stands for.
fn expand(path: &str) -> Vec<String> {
    let Some(open) = path.find('{') else { return vec![path.to_owned()] };
    let mut depth = 0_usize;
    let mut parts = vec![open + 1];
    let mut close = path.len();
    for (at, mark) in path.char_indices().skip(open) {
        match mark {
            '{' => depth += 1,
            ',' if depth == 1 => parts.push(at + 1),
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    close = at;
                    break;
                }
            }
            _ => {}
        }
    }
    let ends = parts.iter().skip(1).map(|next| next - 1).chain([close]);
    let tail = path.get(close + 1..).unwrap_or_default();
    parts
        .iter()
        .zip(ends)
        .flat_map(|(begin, end)| expand(&format!("{}{}{tail}", &path[..open], &path[*begin..end])))
        .collect()
}

fn exists(tree: &Tree, path: &str) -> bool {
    FOLDERS.iter().any(|folder| tree.root.join(format!("{folder}{path}")).exists())
}

/// The names of all Rust functions, JavaScript tests and fuzz targets.
fn tests_of(tree: &Tree) -> Vec<&str> {
    let mut names = Vec::new();
    for file in &tree.files {
        if file.path.ends_with(".rs") {
            let functions = file.text.split("fn ").skip(1);
            names.extend(functions.filter_map(|rest| rest.split(['(', '<']).next()));
            if file.path.starts_with("fuzz/") {
                names.extend(file.text.split('"').skip(1).step_by(2));
            }
        } else if file.path.ends_with(".test.mjs") {
            for quote in ['"', '`'] {
                let begin = format!("test({quote}");
                let titles = file.text.split(begin.as_str()).skip(1);
                names.extend(titles.filter_map(|rest| rest.split(quote).next()));
            }
        }
    }
    names
}

/// `…` at the end or the beginning of a name stands for the rest of it.
fn matches(test: &str, name: &str) -> bool {
    if let Some(begin) = name.strip_suffix('…') {
        test.starts_with(begin)
    } else if let Some(end) = name.strip_prefix('…') {
        test.ends_with(end)
    } else {
        test == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_alternatives_stands_for_each_of_them() {
        assert_eq!(expand("a/b.rs"), ["a/b.rs"]);
        assert_eq!(expand("a/{b,c}.rs"), ["a/b.rs", "a/c.rs"]);
        assert_eq!(expand("a/{b.rs,c/{d,e}.rs}"), ["a/b.rs", "a/c/d.rs", "a/c/e.rs"]);
        assert_eq!(expand("a/{b,c"), ["a/b", "a/c"], "an open bracket");
    }

    #[test]
    fn sources_and_tests_are_read_from_the_table_of_threats_only() {
        let text =
            "| A | Source | Test |\n|---|---|---|\n| x | `a.rs` | `t…`, `u` |\n\n| b | c |\n";
        let found: Vec<_> = rows(text).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].0, code(found[0].1), code(found[0].2)),
            (3, vec!["a.rs"], vec!["t…", "u"])
        );
    }

    #[test]
    fn an_ellipsis_stands_for_the_rest_of_a_name() {
        assert!(matches("a_flood_is_limited", "a_flood…") && matches("no frame is left", "…left"));
        assert!(matches("a_flood", "a_flood") && !matches("a_flood_is_limited", "a_flood"));
        assert!(!matches("the_flood", "a_flood…"));
    }
}
