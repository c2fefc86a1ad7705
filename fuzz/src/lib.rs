//! What strangers' bytes may do to the parsers and decoders: nothing but an error.
//! Beside the path. `./dev fuzz` runs these targets under libFuzzer, the tests run them on seeded mutations.
//! Knows what each target promises beyond not panicking: what it reads, it writes back the same.
#![forbid(unsafe_code)]

pub mod decoders;
pub mod mutate;
pub mod parsers;
pub mod session;
pub mod traces;
pub mod videos;

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
    Target { name: "draw-record", run: parsers::draw_record, seeds: parsers::draw_record_seeds },
    Target { name: "records", run: session::records, seeds: session::records_seeds },
    Target { name: "auth", run: parsers::auth, seeds: parsers::auth_seeds },
    Target { name: "viewer-message", run: parsers::viewer_message, seeds: parsers::viewer_message_seeds },
    Target { name: "viewer-to-session", run: session::viewer_to_session, seeds: parsers::viewer_message_seeds },
    Target { name: "session-message", run: parsers::session_message, seeds: parsers::session_message_seeds },
    Target { name: "pixels", run: decoders::pixels, seeds: decoders::pixels_seeds },
    Target { name: "packed", run: decoders::packed, seeds: decoders::packed_seeds },
    Target { name: "viewer", run: decoders::viewer, seeds: decoders::viewer_seeds },
    Target { name: "viewer-alone", run: decoders::viewer_alone, seeds: decoders::viewer_alone_seeds },
    Target { name: "access-units", run: videos::access_units, seeds: videos::access_units_seeds },
    Target { name: "saved-cache", run: decoders::saved_cache, seeds: decoders::saved_cache_seeds },
    Target { name: "trace", run: traces::trace, seeds: traces::trace_seeds },
    Target { name: "connect", run: parsers::connect, seeds: parsers::connect_seeds },
    Target { name: "link", run: parsers::link, seeds: parsers::link_seeds },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
