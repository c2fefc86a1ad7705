//! The licences of everything linked into the programs, for those who distribute them: `cargo xtask
//! notices FOLDER`. Beside the path: `cargo tree` says what is linked, each crate's files state its
//! licence; one text per program is written. Knows where crates keep their licences; deny.toml says
//! which licences are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run;

/// Each program and the packages whose code it contains: `thinc` includes the browser's viewer.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("thinc", &["thinc", "thinc-viewer-web"]),
    ("thinc-view", &["thinc-viewer-native"]),
    ("thinc-gpu-codec", &["thinc-gpu-codec"]),
];

/// Prefixes of the names of licence files, in upper case.
const NAMES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate, with data from cargo.
struct Crate {
    folder: PathBuf,
    licence: String,
    authors: String,
}

/// Name and version.
type CrateId = (String, String);

/// Writes a file for each program and returns their number.
pub(crate) fn write(root: &Path, folder: &Path) -> Result<usize, String> {
    let crates = crates(root)?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (program, packages) in PROGRAMS {
        let mut linked = BTreeSet::new();
        for package in *packages {
            linked.extend(tree(root, package, "normal,no-proc-macro")?);
            // C sources compiled by a crate's build script are crates of their own.
            let built = tree(root, package, "normal,build")?;
            linked.extend(built.into_iter().filter(|(name, _)| name.ends_with("-src")));
        }
        let path = folder.join(program);
        fs::write(&path, notices(program, &linked, &crates)?)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(PROGRAMS.len())
}

/// All crates of the lock file that are not in this tree.
fn crates(root: &Path) -> Result<BTreeMap<CrateId, Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let text =
        run(Command::new(cargo).args(["metadata", "--format-version", "1"]).current_dir(root))?;
    let metadata: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("cargo metadata printed invalid JSON: {error}"))?;
    let string = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().ok_or("cargo metadata printed no packages")?;
    let found = packages.iter().filter(|package| !package["source"].is_null()).map(|package| {
        let authors = package["authors"]
            .as_array()
            .into_iter()
            .flatten()
            .map(string)
            .collect::<Vec<_>>()
            .join(", ");
        let manifest = PathBuf::from(string(&package["manifest_path"]));
        let folder = manifest.parent().map(Path::to_owned).unwrap_or_default();
        let id = (string(&package["name"]), string(&package["version"]));
        (id, Crate { folder, licence: string(&package["license"]), authors })
    });
    Ok(found.collect())
}

/// The crates that `cargo tree` lists for a package, itself included.
fn tree(root: &Path, package: &str, edges: &str) -> Result<Vec<CrateId>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words =
        ["tree", "--package", package, "--edges", edges, "--prefix", "none", "--format", "{p}"];
    let text = run(Command::new(cargo).args(words).current_dir(root))?;
    Ok(text.lines().filter_map(tree_line).collect())
}

/// Parses `name v1.2.3 (folder)` into name and version.
fn tree_line(line: &str) -> Option<CrateId> {
    let (name, rest) = line.split_once(" v")?;
    let version = rest.split(' ').next()?;
    Some((name.to_owned(), version.to_owned()))
}

fn notices(
    program: &str,
    linked: &BTreeSet<CrateId>,
    crates: &BTreeMap<CrateId, Crate>,
) -> Result<String, String> {
    let mut list = String::new();
    // Compared by words: the same licence comes with different line breaks.
    let mut texts: BTreeMap<Vec<String>, (String, Vec<String>)> = BTreeMap::new();
    for (id, found) in linked.iter().filter_map(|id| Some((id, crates.get(id)?))) {
        let (name, version) = id;
        let by = if found.authors.is_empty() {
            String::new()
        } else {
            format!(", by {}", found.authors)
        };
        list += &format!("  {name} {version}: {}{by}\n", found.licence);
        for file in licence_files(&found.folder)? {
            let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let text = String::from_utf8_lossy(&text).replace('\r', "").trim_end().to_owned();
            let place = file.strip_prefix(&found.folder).unwrap_or(&file).display().to_string();
            let words = text.split_whitespace().map(str::to_owned).collect();
            texts
                .entry(words)
                .or_insert((text, Vec::new()))
                .1
                .push(format!("{name} {version}, {place}"));
        }
    }
    if list.is_empty() {
        return Err(format!("cargo tree lists no crate that is linked into {program}"));
    }
    let mut out = format!(
        "Third-party software in {program}\n\n{program} itself is licensed under Apache-2.0 or \
         MIT, at your choice. Linked into it, in addition to Rust's standard library (Apache-2.0 \
         or MIT):\n\n{list}\nTheir licence texts follow, each after the names of the crates that \
         it came with. If a crate offers a choice, the permissive licence applies, not a GPL:\n"
    );
    // In the order of the list above.
    let mut texts: Vec<(String, Vec<String>)> = texts.into_values().collect();
    texts.sort_by(|(_, a), (_, b)| a.cmp(b));
    for (text, places) in texts {
        out += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(100), places.join("\n"));
    }
    Ok(out)
}

fn licence_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().to_uppercase();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !["TESTS", "TEST", "DOCS", "EXAMPLES"].contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && is_licence(&name) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Recognised by its name; source files never count.
fn is_licence(upper: &str) -> bool {
    let is_source =
        [".RS", ".C", ".H", ".PY", ".CMAKE", ".IN"].iter().any(|ending| upper.ends_with(ending));
    NAMES.iter().any(|name| upper.starts_with(name)) && !is_source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_cargo_tree_are_parsed() {
        let id = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(tree_line("zstd-sys v2.1.2+zstd.1.5.7"), id("zstd-sys", "2.1.2+zstd.1.5.7"));
        assert_eq!(tree_line("thinc v0.1.0 (/somewhere/crates/thinc)"), id("thinc", "0.1.0"));
        assert_eq!(tree_line(""), None);
    }

    #[test]
    fn licences_are_recognised_by_their_names() {
        assert!(
            ["LICENSE-MIT", "COPYING", "LICENSE.BSD-3-CLAUSE", "NOTICE.TXT"]
                .into_iter()
                .all(is_licence)
        );
        assert!(["LICENSE.RS", "README.MD", "SRC"].into_iter().all(|name| !is_licence(name)));
    }

    #[test]
    fn a_shared_text_is_written_once_with_all_its_crates() {
        let folder = std::env::temp_dir().join(format!("thinc-notices-{}", std::process::id()));
        let mut crates = BTreeMap::new();
        for name in ["one", "two"] {
            let own = folder.join(name);
            fs::create_dir_all(own.join("vendored")).unwrap();
            fs::write(own.join("vendored/COPYING"), "do as you like\n").unwrap();
            let id = (name.to_owned(), "1.0.0".to_owned());
            crates.insert(
                id,
                Crate { folder: own, licence: "MIT".to_owned(), authors: "A Person".to_owned() },
            );
        }
        let linked: BTreeSet<CrateId> = crates.keys().cloned().collect();
        let text = notices("program", &linked, &crates).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text.matches("do as you like").count(), 1);
        assert!(
            text.contains("one 1.0.0, vendored/COPYING\ntwo 1.0.0, vendored/COPYING"),
            "{text}"
        );
        assert!(text.contains("two 1.0.0: MIT, by A Person"), "{text}");
        assert!(
            notices("program", &BTreeSet::new(), &crates).is_err(),
            "a program without crates is an error"
        );
    }
}
