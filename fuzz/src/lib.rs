//! What untrusted bytes may do to the parsers and decoders: nothing but an error. Beside the path.
//! `./dev fuzz` runs these targets under libFuzzer, the tests run them on seeded mutations. Knows
//! what each target promises besides not panicking: what it reads, it writes back unchanged.
#![forbid(unsafe_code)]

pub mod files;
pub mod mutate;
pub mod parsers;
pub mod session;
#[cfg(feature = "shells")]
pub mod shells;

/// A function that reads untrusted bytes.
pub struct Target {
    /// Its name for `./dev fuzz`.
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(&[u8]),
    /// Well-formed inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Targets of the cores, in the order of the path: what a broken driver or a stranger may send.
pub const CORE_TARGETS: &[Target] = &[
    Target { name: "draw-record", run: parsers::draw_record, seeds: parsers::draw_record_seeds },
    Target { name: "records", run: session::records, seeds: session::records_seeds },
    Target { name: "auth", run: parsers::auth, seeds: parsers::auth_seeds },
    Target {
        name: "viewer-message",
        run: parsers::viewer_message,
        seeds: parsers::viewer_message_seeds,
    },
    Target {
        name: "viewer-to-session",
        run: session::viewer_to_session,
        seeds: parsers::viewer_message_seeds,
    },
    Target {
        name: "session-message",
        run: parsers::session_message,
        seeds: parsers::session_message_seeds,
    },
    Target { name: "files", run: files::channel, seeds: files::channel_seeds },
    Target { name: "processes", run: parsers::processes, seeds: parsers::processes_seeds },
    Target { name: "paged", run: parsers::paged, seeds: parsers::paged_seeds },
];

/// Every target that was compiled.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    #[cfg(feature = "shells")]
    return CORE_TARGETS.iter().chain(shells::TARGETS);
    #[cfg(not(feature = "shells"))]
    CORE_TARGETS.iter()
}

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    targets().find(|target| target.name == name)
}
