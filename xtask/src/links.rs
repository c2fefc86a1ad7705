//! The documents' relative links: each must name a file, and a fragment must name one of its
//! headings. Beside the path. Links to other hosts are not followed: a test must not need the
//! network. Knows just enough Markdown to find `](…)` outside code.

use crate::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = tree.root.join(&file.path);
        let folder = folder.parent().expect("a file lies in a folder");
        for (line, target) in links(&file.text) {
            let place = format!("{}:{line}", file.path);
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let text = if path.is_empty() {
                Some(file.text.clone())
            } else if !folder.join(path).exists() {
                findings.push(Finding::new(place, format!("there is no {path}")));
                continue;
            } else {
                std::fs::read_to_string(folder.join(path)).ok()
            };
            let known = fragment.is_empty()
                || text.is_none_or(|text| headings(&text).any(|slug| slug == fragment));
            if !known {
                findings.push(Finding::new(place, format!("{path} has no heading #{fragment}")));
            }
        }
    }
    findings
}

/// The lines outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((index + 1, line))
    })
}

/// Line number and target of each link within this tree.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            // After an odd number of backticks the brackets are code, not a link.
            let in_code = rest[..at].matches('`').count() % 2 == 1;
            rest = &rest[at + 2..];
            let Some(end) = rest.find(')') else { break };
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !in_code && !elsewhere && !target.is_empty() {
                found.push((number, target));
            }
            rest = &rest[end..];
        }
    }
    found
}

/// The fragment that forges give each heading: lower case, spaces become hyphens, punctuation is
/// dropped.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter(|(_, line)| line.starts_with('#')).map(|(_, line)| {
        let words = line.trim_start_matches('#').trim();
        words
            .chars()
            .filter(|mark| mark.is_alphanumeric() || matches!(mark, ' ' | '-' | '_'))
            .flat_map(char::to_lowercase)
            .map(|mark| if mark == ' ' { '-' } else { mark })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "see [a](doc/a.md) and [b](https://example.org/b) and \
            `x[0](y)`\n```\n[c](c.md)\n```\n[d](#the-end)\n";
        assert_eq!(links(text), [(1, "doc/a.md"), (5, "#the-end")]);
    }

    #[test]
    fn headings_become_fragments() {
        assert_eq!(
            headings("# The end\ntext\n## `dev` & more\n").collect::<Vec<_>>(),
            ["the-end", "dev--more"]
        );
    }
}
