//! Targets of what stands around the cores: the broker, codecs, transports, the sound server and
//! the printer. Beside the path. A feature of their own, because they need ten times as many
//! crates: `./dev test` compiles libFuzzer's coverage into those of the cores only.

pub mod broker;
pub mod conversions;
pub mod decoders;
pub mod printing;
pub mod pulse;
pub mod sound;
pub mod traces;
pub mod transports;
pub mod videos;

use crate::Target;

/// In the order of the path.
pub const TARGETS: &[Target] = &[
    Target { name: "broker-message", run: broker::message, seeds: broker::message_seeds },
    Target { name: "broker-admin", run: broker::admin, seeds: broker::admin_seeds },
    Target { name: "broker-devices", run: broker::devices, seeds: broker::devices_seeds },
    Target { name: "broker-forwarded", run: broker::forwarded, seeds: broker::forwarded_seeds },
    Target { name: "broker-proxy", run: broker::proxy, seeds: broker::proxy_seeds },
    Target { name: "broker-figures", run: broker::figures, seeds: broker::figures_seeds },
    Target { name: "broker-config", run: broker::config, seeds: broker::config_seeds },
    Target { name: "preferences", run: broker::preferences, seeds: broker::preferences_seeds },
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
    Target { name: "av1-units", run: videos::av1_units, seeds: videos::av1_units_seeds },
    Target { name: "yuv444-units", run: videos::yuv444_units, seeds: videos::yuv444_units_seeds },
    Target { name: "saved-cache", run: decoders::saved_cache, seeds: decoders::saved_cache_seeds },
    Target {
        name: "conversion",
        run: conversions::conversion,
        seeds: conversions::conversion_seeds,
    },
    Target { name: "pulse-program", run: pulse::program, seeds: pulse::program_seeds },
    Target { name: "ipp", run: printing::ipp, seeds: printing::ipp_seeds },
    Target { name: "print-link", run: printing::print_link, seeds: printing::print_link_seeds },
    Target { name: "trace", run: traces::trace, seeds: traces::trace_seeds },
    Target { name: "connect", run: transports::connect, seeds: transports::connect_seeds },
    Target { name: "link", run: transports::link, seeds: transports::link_seeds },
    Target { name: "offer", run: transports::offer, seeds: transports::offer_seeds },
    Target { name: "parity", run: transports::parity, seeds: transports::parity_seeds },
    Target {
        name: "host-report",
        run: transports::host_report,
        seeds: transports::host_report_seeds,
    },
];
