//! What untrusted bytes may do to the parsers and decoders: nothing but an error. Beside the path.
//! `./dev fuzz` runs these targets under libFuzzer, the tests run them on seeded mutations. Knows
//! what each target promises besides not panicking: what it reads, it writes back unchanged.
#![forbid(unsafe_code)]

pub mod broker;
pub mod conversions;
pub mod decoders;
pub mod mutate;
pub mod parsers;
pub mod pulse;
pub mod session;
pub mod sound;
pub mod traces;
pub mod videos;

/// A function that reads untrusted bytes.
pub struct Target {
    /// Its name for `./dev fuzz`.
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(&[u8]),
    /// Well-formed inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// Every target, in the order of the path.
pub const TARGETS: &[Target] = &[
    Target { name: "draw-record", run: parsers::draw_record, seeds: parsers::draw_record_seeds },
    Target { name: "records", run: session::records, seeds: session::records_seeds },
    Target { name: "auth", run: parsers::auth, seeds: parsers::auth_seeds },
    Target { name: "broker-message", run: broker::message, seeds: broker::message_seeds },
    Target { name: "broker-admin", run: broker::admin, seeds: broker::admin_seeds },
    Target { name: "broker-devices", run: broker::devices, seeds: broker::devices_seeds },
    Target { name: "broker-forwarded", run: broker::forwarded, seeds: broker::forwarded_seeds },
    Target { name: "broker-proxy", run: broker::proxy, seeds: broker::proxy_seeds },
    Target { name: "broker-figures", run: broker::figures, seeds: broker::figures_seeds },
    Target { name: "broker-config", run: broker::config, seeds: broker::config_seeds },
    Target { name: "preferences", run: broker::preferences, seeds: broker::preferences_seeds },
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
    Target { name: "pixels", run: decoders::pixels, seeds: decoders::pixels_seeds },
    Target { name: "packed", run: decoders::packed, seeds: decoders::packed_seeds },
    Target { name: "viewer", run: decoders::viewer, seeds: decoders::viewer_seeds },
    Target {
        name: "viewer-datagrams",
        run: decoders::viewer_datagrams,
        seeds: decoders::viewer_datagrams_seeds,
    },
    Target { name: "sound", run: sound::player, seeds: sound::player_seeds },
    Target { name: "access-units", run: videos::access_units, seeds: videos::access_units_seeds },
    Target { name: "saved-cache", run: decoders::saved_cache, seeds: decoders::saved_cache_seeds },
    Target {
        name: "conversion",
        run: conversions::conversion,
        seeds: conversions::conversion_seeds,
    },
    Target { name: "pulse-program", run: pulse::program, seeds: pulse::program_seeds },
    Target { name: "trace", run: traces::trace, seeds: traces::trace_seeds },
    Target { name: "connect", run: parsers::connect, seeds: parsers::connect_seeds },
    Target { name: "link", run: parsers::link, seeds: parsers::link_seeds },
    Target { name: "offer", run: parsers::offer, seeds: parsers::offer_seeds },
    Target { name: "parity", run: parsers::parity, seeds: parsers::parity_seeds },
    Target { name: "host-report", run: parsers::host_report, seeds: parsers::host_report_seeds },
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
