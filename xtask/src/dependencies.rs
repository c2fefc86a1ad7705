//! Who may depend on whom: enforces the table of ARCHITECTURE.md. Beside the path. Everything
//! absent from the table is forbidden, including crates that it does not name. Knows package names;
//! the compiler checks how crates use each other.

use crate::{Finding, Tree};

/// Package, and the packages of this workspace that its shipped code may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("thinc-region", &[]),
    ("thinc-path-model", &[]),
    ("thinc-ring", &["thinc-region"]),
    ("thinc-protocol", &["thinc-region"]),
    ("thinc-pixels", &["thinc-region"]),
    ("thinc-codec-dec", &["thinc-region", "thinc-protocol"]),
    ("thinc-clipboard", &["thinc-protocol"]),
    // The clipboard's window: both share the path behind the display.
    ("thinc-files", &["thinc-protocol", "thinc-clipboard"]),
    // Reads and writes files: shells use it, never a core.
    ("thinc-files-disk", &["thinc-protocol", "thinc-files"]),
    ("thinc-sound", &["thinc-protocol"]),
    // Decoders of untrusted images, on threads: shells use it, never a core.
    ("thinc-clip-convert", &["thinc-protocol"]),
    ("thinc-video", &["thinc-region", "thinc-protocol"]),
    // A codec in C++ behind one interface: programs link it, never a core.
    ("thinc-h264", &["thinc-region", "thinc-protocol", "thinc-video"]),
    // Speaks with a process that has the system's GStreamer and a GPU's driver: shells use it.
    ("thinc-gpu-video", &["thinc-region", "thinc-protocol", "thinc-video"]),
    // That process.
    ("thinc-gpu-codec", &["thinc-region", "thinc-protocol", "thinc-video", "thinc-gpu-video"]),
    // An X client; the cores decide what is transferred.
    ("thinc-x-selection", &["thinc-protocol", "thinc-clip-convert", "thinc-files-disk"]),
    ("thinc-codec-enc", &["thinc-region", "thinc-protocol", "thinc-codec-dec", "thinc-pixels"]),
    (
        "thinc-session-core",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-path-model",
            "thinc-ring",
            "thinc-clipboard",
            "thinc-files",
            "thinc-sound",
        ],
    ),
    (
        "thinc-viewer-core",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-codec-dec",
            "thinc-clipboard",
            "thinc-files",
            "thinc-sound",
            "thinc-video",
        ],
    ),
    ("thinc-transport", &["thinc-protocol", "thinc-path-model"]),
    ("thinc-printing", &[]),
    ("thinc-priority", &[]),
    // Parses programs' bytes in a process of its own.
    ("thinc-desk", &["thinc-printing"]),
    // The system's library, in C: one process for each login calls it.
    ("thinc-pam", &[]),
    // One system call without a safe form.
    ("thinc-realtime", &[]),
    // The system's OpenGL.
    ("thinc-gl-probe", &[]),
    (
        "thinc-broker",
        &[
            "thinc-pam",
            "thinc-protocol",
            // How desktops share the uplink.
            "thinc-path-model",
            "thinc-realtime",
            "thinc-session-server",
            "thinc-transport",
        ],
    ),
    (
        "thinc-session-server",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-session-core",
            "thinc-ring",
            "thinc-pixels",
            "thinc-codec-enc",
            // What the desk and the session process say to each other.
            "thinc-desk",
            "thinc-printing",
            // It gives up what root has given it.
            "thinc-realtime",
            "thinc-transport",
            "thinc-trace",
            "thinc-x-selection",
            "thinc-files",
            "thinc-files-disk",
            "thinc-sound",
            "thinc-video",
            "thinc-h264",
            "thinc-gpu-video",
        ],
    ),
    (
        "thinc-viewer-native",
        &[
            "thinc-region",
            "thinc-protocol",
            "thinc-viewer-core",
            "thinc-files",
            "thinc-files-disk",
            "thinc-sound",
            "thinc-transport",
            "thinc-x-selection",
            "thinc-video",
            "thinc-gpu-video",
            "thinc-h264",
        ],
    ),
    // On a browser's audio thread.
    ("thinc-sound-web", &["thinc-protocol", "thinc-sound"]),
    (
        "thinc-viewer-web",
        &["thinc-region", "thinc-protocol", "thinc-viewer-core", "thinc-files", "thinc-video"],
    ),
    (
        "thinc",
        &[
            "thinc-broker",
            "thinc-desk",
            "thinc-priority",
            "thinc-realtime",
            "thinc-session-server",
            // In a process of its own in each session.
            "thinc-gl-probe",
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
            "thinc-broker",
            "thinc-desk",
            "thinc-printing",
            "thinc-priority",
            "thinc-region",
            "thinc-protocol",
            "thinc-codec-dec",
            "thinc-codec-enc",
            "thinc-ring",
            "thinc-session-core",
            "thinc-transport",
            "thinc-viewer-core",
            "thinc-trace",
            "thinc-clip-convert",
            "thinc-files",
            "thinc-video",
            "thinc-gpu-video",
            "thinc-h264",
            "thinc-sound",
        ],
    ),
    // Drives the programs from outside, like a person, and drags files onto a window.
    ("thinc-bench", &["thinc-x-selection"]),
    // Its command line and its bar codes.
    ("thinc-bench-gl", &["thinc-bench"]),
    ("thinc-e2e", &["thinc-bench"]),
    // Their command lines, for manual pages.
    ("xtask", &["thinc", "thinc-bench", "thinc-viewer-native"]),
];

/// Crates that a pure core, or one built for browsers, must never use: they bring a clock, a socket
/// or a thread.
const PURE: &[&str] = &[
    "thinc-region",
    "thinc-path-model",
    "thinc-protocol",
    "thinc-pixels",
    "thinc-codec-dec",
    "thinc-clipboard",
    "thinc-files",
    "thinc-printing",
    "thinc-priority",
    "thinc-sound",
    "thinc-video",
    "thinc-session-core",
    "thinc-viewer-core",
];
const IMPURE: &[&str] = &[
    "tokio",
    "mio",
    "rustix",
    "libc",
    "nix",
    "getrandom",
    "rand",
    "quinn",
    "rustls",
    "sdl3",
    "x11rb",
];

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
            // Tests may depend on more than shipped code: a dev-dependency has the kind "dev".
            .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
            .filter_map(|dependency| dependency["name"].as_str())
            .collect();
        findings.extend(check_package(name, &used));
    }
    findings
}

fn check_package(name: &str, used: &[&str]) -> Vec<Finding> {
    let Some((_, may_use)) = MAY_USE.iter().find(|(package, _)| *package == name) else {
        return vec![Finding::new(
            name,
            "is not in the table of xtask/src/dependencies.rs: add it with the packages it may use",
        )];
    };
    let mut findings = Vec::new();
    for dependency in used {
        let ours = MAY_USE.iter().any(|(package, _)| package == dependency);
        if ours && !may_use.contains(dependency) {
            findings.push(Finding::new(name, format!("may not depend on {dependency}")));
        }
        if PURE.contains(&name) && IMPURE.contains(dependency) {
            findings
                .push(Finding::new(name, format!("is pure and may not depend on {dependency}")));
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
    fn the_table_has_no_cycle() {
        // No package may depend on itself through others.
        fn reaches(from: &str, to: &str) -> bool {
            let (_, next) =
                MAY_USE.iter().find(|(package, _)| *package == from).expect("the table names it");
            next.iter().any(|package| *package == to || reaches(package, to))
        }
        for (package, _) in MAY_USE {
            assert!(!reaches(package, package), "{package} may depend on itself indirectly");
        }
    }
}
