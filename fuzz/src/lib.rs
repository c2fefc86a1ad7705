//! What strangers' bytes may do to the parsers and decoders: nothing but an error.
//! Beside the path. `./dev fuzz` runs these targets under libFuzzer, the tests run them on seeded mutations.
//! Knows what each target promises beyond not panicking: what it reads, it writes back the same.
#![forbid(unsafe_code)]

pub mod mutate;
pub mod targets;

/// One thing that reads bytes it must not trust.
pub struct Target {
    /// As `./dev fuzz` takes it.
    pub name: &'static str,
    /// Panics where the promise is broken.
    pub run: fn(&[u8]),
    /// Well-formed inputs to begin from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target, in the order of the path.
pub const TARGETS: &[Target] = &[
    Target { name: "draw-record", run: targets::draw_record, seeds: targets::draw_record_seeds },
    Target { name: "auth", run: targets::auth, seeds: targets::auth_seeds },
    Target { name: "viewer-message", run: targets::viewer_message, seeds: targets::viewer_message_seeds },
    Target { name: "session-message", run: targets::session_message, seeds: targets::session_message_seeds },
    Target { name: "link", run: targets::link, seeds: targets::link_seeds },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
