//! The VirtualGL study's figures (section 4 of it) of one run of frames. From the frames that were
//! seen and what they cost to measures. Pure; knows nothing of who drew them or how they were seen.

use std::time::Instant;

use crate::Error;
use crate::net::testbed::Direction;
use crate::observe::frames::Frames;
use crate::results::{Better, Measure, quantity};
use crate::stage::Spent;

/// A run, beside the frames that were seen of it.
pub(crate) struct Run<'a> {
    /// Frames before it do not count.
    pub(crate) began: Instant,
    /// Frames that the program drew.
    pub(crate) drawn: u32,
    /// What it cost until the last was shown.
    pub(crate) spent: &'a Spent,
    /// CPU of the X server, ms, where that is a process of its own.
    pub(crate) x_ms: Option<f64>,
    /// CPU of the process that sends to viewers, ms, where it is known.
    pub(crate) session_ms: Option<f64>,
}

/// The figures of a run on a machine with so many processors.
///
/// - frame rate: whole frames that the client's screen showed, a second, from the first to the last
///   of them;
/// - drawn_rate: frames that the session's X server took, over the same time;
/// - spoiled_share: of the drawn frames, those that the user never saw whole;
/// - frame_bytes: bytes to the viewer for each frame seen ("frame size"); mbit_s: their rate;
/// - network_limited_rate: rate of the link over the frame size; nothing on a link without limit;
/// - cpu_limited_rate: frame rate over the share of this machine's processors that the server's
///   side (display system and application) used, as the study defines it; the viewer runs on the
///   same machine and is not counted;
/// - cpu_frame_ms: CPU of the display system for each frame seen ("encoding time"), and of it the X
///   server's and the session's; and the CPU of program and viewer for each frame seen.
///
/// # Errors
/// Too few frames for a rate.
pub(crate) fn measures(
    part: &str,
    seen: &Frames,
    run: &Run<'_>,
    cores: usize,
    rate_bps: Option<u64>,
) -> Result<Vec<Measure>, Error> {
    let Run { began, drawn, spent, .. } = *run;
    let whole: Vec<Instant> =
        seen.seen.iter().map(|&(at, _)| at).filter(|&at| at >= began).collect();
    let (Some(&first), Some(&last)) = (whole.first(), whole.last()) else {
        return Err(format!("{drawn} frames were drawn and none was seen whole").into());
    };
    if whole.len() < 2 || drawn == 0 {
        let seen = whole.len();
        return Err(format!("{drawn} frames were drawn and {seen} seen: too few for a rate").into());
    }
    let count = whole.len() as f64;
    let seconds = last.duration_since(first).as_secs_f64();
    let rate = (count - 1.0) / seconds;
    let frame_bytes = spent.traffic.bytes(Direction::Down) as f64 / count;
    let used = (spent.cpu_server_ms + spent.cpu_apps_ms) / 1e3 / (seconds * cores as f64);
    let drawn = f64::from(drawn);
    let one = |name: &str, unit: &str, better: Better, value: f64| {
        Measure::new(name, part, unit, better, [value])
    };
    let cpu = |name: &str, ms: f64| one(name, "ms", Better::Lower, ms / count);
    let mut all = vec![
        one(quantity::FRAME_RATE, "fps", Better::Higher, rate),
        one("drawn_rate", "fps", Better::Neither, drawn / seconds),
        one("spoiled_share", "share", Better::Lower, 1.0 - (count / drawn).min(1.0)),
        one("torn_share", "share", Better::Lower, seen.torn as f64 / drawn),
        one("frame_bytes", "bytes", Better::Lower, frame_bytes),
        one("mbit_s", "Mbit/s", Better::Lower, frame_bytes * 8.0 * rate / 1e6),
        cpu("cpu_frame_ms", spent.cpu_server_ms),
        cpu("cpu_program_frame_ms", spent.cpu_apps_ms),
        cpu("cpu_viewer_frame_ms", spent.cpu_client_ms),
    ];
    all.extend(run.x_ms.map(|ms| cpu("cpu_x_frame_ms", ms)));
    all.extend(run.session_ms.map(|ms| cpu("cpu_session_frame_ms", ms)));
    if used > 0.0 {
        all.push(one("cpu_limited_rate", "fps", Better::Higher, rate / used));
    }
    if let Some(bps) = rate_bps.filter(|_| frame_bytes > 0.0) {
        let limit = bps as f64 / 8.0 / frame_bytes;
        all.push(one("network_limited_rate", "fps", Better::Higher, limit));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::net::testbed::{Packet, Traffic};

    fn spent(bytes: u32, server_ms: f64) -> Spent {
        let packet =
            Packet { at: Instant::now(), direction: Direction::Down, bytes, payload: bytes };
        let traffic = Traffic { packets: vec![packet], ..Traffic::default() };
        Spent {
            seconds: 1.0,
            traffic,
            cpu_server_ms: server_ms,
            cpu_apps_ms: 500.0,
            cpu_client_ms: 100.0,
        }
    }

    #[test]
    fn figures_are_the_studys() -> Result<(), Error> {
        let began = Instant::now();
        // 21 frames in 1 s, of 42 drawn; one of an earlier run is not counted.
        let mut seen = vec![(began - Duration::from_secs(1), 0)];
        seen.extend(
            (0..21).map(|i| (began + Duration::from_millis(100 + 50 * u64::from(i)), i * 2 + 1)),
        );
        let frames = Frames { seen, torn: 2, ..Frames::default() };
        let spent = spent(2_100_000, 1500.0);
        let run =
            Run { began, drawn: 42, spent: &spent, x_ms: Some(21.0), session_ms: Some(1470.0) };
        let figures = measures("study free", &frames, &run, 4, Some(100_000_000))?;
        let near = |name: &str, value: f64| {
            let found = figures.iter().find(|figure| figure.quantity == name);
            let found = found.map_or(f64::NAN, |figure| figure.samples[0]);
            assert!(
                (found - value).abs() < 1e-6 * value.abs().max(1.0),
                "{name}: {found}, not {value}"
            );
        };
        near("frame_rate", 20.0);
        near("drawn_rate", 42.0);
        near("spoiled_share", 0.5);
        near("torn_share", 2.0 / 42.0);
        near("frame_bytes", 100_000.0);
        near("mbit_s", 16.0);
        near("network_limited_rate", 125.0);
        // 2 s of CPU in 1 s on four processors is one half.
        near("cpu_limited_rate", 40.0);
        near("cpu_frame_ms", 1500.0 / 21.0);
        near("cpu_x_frame_ms", 1.0);
        near("cpu_session_frame_ms", 70.0);
        near("cpu_program_frame_ms", 500.0 / 21.0);
        near("cpu_viewer_frame_ms", 100.0 / 21.0);
        Ok(())
    }

    #[test]
    fn nothing_seen_is_an_error_and_no_rate() {
        let (began, spent) = (Instant::now(), spent(1, 1.0));
        let run = Run { began, drawn: 10, spent: &spent, x_ms: None, session_ms: None };
        let once = Frames { seen: vec![(began, 1)], ..Frames::default() };
        for seen in [Frames::default(), once] {
            assert!(measures("", &seen, &run, 2, None).is_err());
        }
    }

    #[test]
    fn parts_that_are_not_known_and_links_without_limit_give_no_figure() {
        let (began, spent) = (Instant::now(), spent(1000, 1.0));
        let at = |ms: u64| began + Duration::from_millis(ms);
        let frames = Frames { seen: vec![(at(1), 1), (at(20), 2)], ..Frames::default() };
        let run = Run { began, drawn: 2, spent: &spent, x_ms: None, session_ms: None };
        let found = measures("", &frames, &run, 2, None).unwrap();
        for name in ["cpu_x_frame_ms", "cpu_session_frame_ms", "network_limited_rate"] {
            assert!(found.iter().all(|measure| measure.quantity != name), "{name}");
        }
        let spoiled = found.iter().find(|measure| measure.quantity == "spoiled_share").unwrap();
        assert_eq!(spoiled.samples, [0.0]);
    }
}
