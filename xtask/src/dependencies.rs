//! Who may depend on whom: the table of ARCHITECTURE.md, enforced.
//! Beside the path. Anything absent from the table is forbidden, crates that it does not name included.
//! Knows package names; what a crate does with another, the compiler knows.

use crate::{Finding, Tree};

/// Package, and the packages of this workspace that its shipped code may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("thinc-region", &[]),
    ("thinc-ring", &["thinc-region"]),
    ("thinc-protocol", &["thinc-region"]),
    ("thinc-pixels", &["thinc-region"]),
    ("thinc-codec-dec", &["thinc-region", "thinc-protocol"]),
    ("thinc-clipboard", &["thinc-protocol"]),
    ("thinc-video", &["thinc-region", "thinc-protocol"]),
    // A codec in C++ behind one door: programs link it, no core.
    ("thinc-h264", &["thinc-region", "thinc-protocol", "thinc-video"]),
    // An X client; what travels is the cores' business.
    ("thinc-x-selection", &["thinc-protocol"]),
    ("thinc-codec-enc", &["thinc-region", "thinc-protocol", "thinc-codec-dec", "thinc-pixels"]),
    ("thinc-session-core", &["thinc-region", "thinc-protocol", "thinc-ring", "thinc-clipboard"]),
    ("thinc-viewer-core", &["thinc-region", "thinc-protocol", "thinc-codec-dec", "thinc-clipboard", "thinc-video"]),
    ("thinc-transport", &["thinc-protocol"]),
    (
        "thinc-session-server",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-session-core",
            "thinc-ring",
            "thinc-pixels",
            "thinc-codec-enc",
            "thinc-transport",
            "thinc-trace",
            "thinc-x-selection",
            "thinc-video",
            "thinc-h264",
        ],
    ),
    (
        "thinc-viewer-native",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-viewer-core",
            "thinc-transport",
            "thinc-x-selection",
            "thinc-video",
            "thinc-h264",
        ],
    ),
    ("thinc-viewer-web", &["thinc-region", "thinc-protocol", "thinc-viewer-core", "thinc-video"]),
    (
        "thinc",
        &[
            "thinc-session-server",
            "thinc-transport",
            "thinc-protocol",
            "thinc-session-core",
            "thinc-viewer-core",
            "thinc-trace",
        ],
    ),
    (
        "thinc-trace",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-pixels",
            "thinc-codec-enc",
            "thinc-session-core",
            "thinc-viewer-core",
            "thinc-ring",
        ],
    ),
    (
        "thinc-sim",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-pixels",
            "thinc-codec-dec",
            "thinc-codec-enc",
            "thinc-session-core",
            "thinc-viewer-core",
            "thinc-ring",
        ],
    ),
    (
        "thinc-fuzz",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-codec-dec",
            "thinc-codec-enc",
            "thinc-ring",
            "thinc-session-core",
            "thinc-transport",
            "thinc-viewer-core",
            "thinc-trace",
            "thinc-video",
            "thinc-h264",
        ],
    ),
    // Drives the programs from outside, as a person would.
    ("thinc-bench", &[]),
    // One codec in one process, for `thinc-bench codecs`, which runs it as any other program.
    (
        "thinc-bench-codecs",
        &[
            "thinc-bench",
            "thinc-region",
            "thinc-protocol",
            "thinc-pixels",
            "thinc-codec-enc",
            "thinc-codec-dec",
            "thinc-video",
            "thinc-h264",
        ],
    ),
    ("thinc-e2e", &["thinc-bench"]),
    // Their command lines, for manual pages.
    ("xtask", &["thinc", "thinc-bench", "thinc-viewer-native"]),
];

/// What a pure core, or one that has to build for a browser, may never pull in: it would bring a clock, a socket or a thread.
const PURE: &[&str] = &[
    "thinc-region",
    "thinc-protocol",
    "thinc-pixels",
    "thinc-codec-dec",
    "thinc-clipboard",
    "thinc-video",
    "thinc-session-core",
    "thinc-viewer-core",
];
const IMPURE: &[&str] =
    &["tokio", "mio", "rustix", "libc", "nix", "getrandom", "rand", "quinn", "rustls", "sdl3", "x11rb"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(packages) = tree.metadata["packages"].as_array() else {
        return vec![Finding::new("cargo metadata", "names no packages")];
    };
    let mut findings = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let used: Vec<&str> = package["dependencies"]
            .as_array()
            .into_iter()
            .flatten()
            // Tests may reach further than what ships: a dev-dependency has the kind "dev".
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .filter_map(|dependency| dependency["name"].as_str())
            .collect();
        findings.extend(check_package(name, &used));
    }
    findings
}

fn check_package(name: &str, used: &[&str]) -> Vec<Finding> {
    let Some((_, may_use)) = MAY_USE.iter().find(|(package, _)| *package == name) else {
        return vec![Finding::new(name, "is not in the table of xtask/src/dependencies.rs: say there what it may use")];
    };
    let mut findings = Vec::new();
    for dependency in used {
        let ours = MAY_USE.iter().any(|(package, _)| package == dependency);
        if ours && !may_use.contains(dependency) {
            findings.push(Finding::new(name, format!("may not depend on {dependency}")));
        }
        if PURE.contains(&name) && IMPURE.contains(dependency) {
            findings.push(Finding::new(name, format!("is pure and may not depend on {dependency}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_outside_the_table_is_found() {
        assert_eq!(check_package("thinc-viewer-core", &["thinc-region", "zstd-safe"]), []);
        assert_eq!(check_package("thinc-viewer-core", &["thinc-transport"]).len(), 1);
        assert_eq!(check_package("thinc-session-core", &["tokio"]).len(), 1);
        assert_eq!(check_package("thinc-utils", &[]).len(), 1);
    }

    #[test]
    fn the_table_has_no_circle() {
        // Each package may use only packages whose own lists do not lead back to it.
        fn reaches(from: &str, to: &str) -> bool {
            let (_, next) = MAY_USE.iter().find(|(package, _)| *package == from).expect("the table names it");
            next.iter().any(|package| *package == to || reaches(package, to))
        }
        for (package, _) in MAY_USE {
            assert!(!reaches(package, package), "{package} may use itself by a detour");
        }
    }
}
