//! Question: does a cache keep serving a loop of pictures that is longer than the cache (Wong and
//! Seltzer 2000, figures 6 and 7)? Loops of 25 to 100 distinct photographs are played again and
//! again: what a later round saves of the first one's bytes was served from a cache. A cache that
//! replaces the least recently used serves nothing of a loop that is longer by one picture.

use std::time::Duration;

use clap::Args;

use super::{Claim, Found, Question};
use crate::Error;
use crate::net::testbed::Direction;
use crate::observe::barcode;
use crate::observe::picture::Rect;
use crate::results::{Form, Measure, quantity};
use crate::run::parse_size;
use crate::stage::Stage;
use crate::stats::median;
use crate::workloads::animation::play;
use crate::workloads::{Effort, Workload, own};

/// The question.
#[derive(Args, Clone)]
pub struct Loops {
    /// Pictures of each loop.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "25,50,75,100",
        value_parser = clap::value_parser!(u32).range(2..=1000)
    )]
    frames: Vec<u32>,
    /// Size of a picture.
    #[arg(long, default_value = "480x400", value_parser = parse_size)]
    picture: (u32, u32),
    /// The cache that thinc's viewer offers, MiB: its default.
    #[arg(long, default_value_t = 64)]
    cache_mib: u32,
}

const OURS: &str = "thinc";
/// Slow enough that no system has a reason to leave a picture out.
const PERIOD: Duration = Duration::from_millis(250);
/// Of what a perfect cache of this size would serve: the rest is for pictures at the edge of the
/// cache, and for everything that is sent beside pictures.
const SERVED_SHARE: f64 = 0.8;

/// One loop length. Each loop runs in a session of its own: what a cache still holds of another
/// loop would be saved in the first round already.
#[derive(Clone)]
struct Loop {
    name: String,
    frames: u32,
    picture: (u32, u32),
    cache_mib: u32,
}

fn rounds(effort: Effort) -> u32 {
    match effort {
        Effort::Smoke => 2,
        Effort::Quick => 3,
        Effort::Full => 5,
    }
}

impl Question for Loops {
    const NAME: &'static str = "loops";
    const PEERS: &'static str = "thinc,xspice";
    // On a fast link nothing is left out and nothing is lossy.
    const LINKS: &'static [&'static str] = &["lan"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        let (picture, cache_mib) = (self.picture, self.cache_mib);
        let one = |&frames: &u32| -> Box<dyn Workload> {
            Box::new(Loop { name: format!("loop-{frames}"), frames, picture, cache_mib })
        };
        Ok(self.frames.iter().map(one).collect())
    }
}

impl Loop {
    /// Width and height on the screen: with a bar code above and one below.
    fn shown(&self) -> (u32, u32) {
        (self.picture.0, self.picture.1 + 2 * barcode::HEIGHT)
    }

    /// Share of the loop, as pixels of four bytes, that the cache holds.
    fn fits(&self) -> f64 {
        let (width, height) = self.shown();
        let bytes = f64::from(width) * f64::from(height) * 4.0 * f64::from(self.frames);
        (f64::from(self.cache_mib) * f64::from(1 << 20) / bytes).min(1.0)
    }
}

impl Workload for Loop {
    fn name(&self) -> &str {
        &self.name
    }

    fn about(&self) -> &'static str {
        "loops of photographs, played again and again: what is served from a cache?"
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        4.0 + f64::from(rounds(effort)) * (f64::from(self.frames) * PERIOD.as_secs_f64() + 1.0)
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let (width, height) = self.shown();
        if width > stage.view.width || height > stage.view.height {
            return Err(
                format!("{width}x{height}, with its bar codes, is not on the screen").into()
            );
        }
        let area = Rect { x: stage.view.x, y: stage.view.y, width, height };
        let words = [
            "animation".to_owned(),
            format!("--frames={}", self.frames),
            format!("--period-ms={}", PERIOD.as_millis()),
            format!("--width={}", self.picture.0),
            format!("--height={}", self.picture.1),
        ];
        let mut application = own::show(stage, "animation", &words.each_ref().map(String::as_str))?;
        let rounds = (0..rounds(effort))
            .map(|_| play(stage, area, self.frames, PERIOD))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("{error}{}", own::kept(stage, "animation")))?;
        own::check(stage, "animation", &mut application)?;
        let bytes: Vec<f64> =
            rounds.iter().map(|r| r.spent.traffic.bytes(Direction::Down) as f64).collect();
        let seen: usize = rounds.iter().map(|round| round.seen).sum();
        let seen = seen as f64 / (self.frames as usize * rounds.len()) as f64;
        let served = served(&bytes);
        let server = rounds.iter().map(|round| round.spent.cpu_server_ms);
        let client = rounds.iter().map(|round| round.spent.cpu_client_ms);
        Ok(vec![
            Measure::lower(quantity::BYTES_DOWN, "first round", "bytes", bytes.first().copied()),
            Measure::lower(quantity::BYTES_DOWN, "later rounds", "bytes", bytes[1..].to_vec()),
            Measure::higher("served_share", "", "share", served),
            Measure::higher("frames_seen_share", "", "share", [seen]),
            Measure::lower(quantity::CPU_SERVER_MS, "later rounds", "ms", server.skip(1)),
            Measure::lower(quantity::CPU_CLIENT_MS, "later rounds", "ms", client.skip(1)),
        ])
    }

    fn claims(&self, found: &Found<'_>, peer: &str) -> Vec<Claim> {
        if peer != OURS {
            return Vec::new();
        }
        let served = found.samples(peer, "served_share", "").first().copied();
        let unit = format!("of the loop, of which {:.2} fits", self.fits());
        let limit = self.fits() * SERVED_SHARE;
        vec![Claim::at_least("served from the cache", served, limit, &unit)]
    }
}

/// Share of the first round that later ones did not send again.
fn served(bytes: &[f64]) -> Option<f64> {
    let (first, later) = bytes.split_first()?;
    Some(1.0 - median(later)? / Some(first).filter(|&&first| first > 0.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::questions::tests::holds;

    #[test]
    fn a_cache_that_serves_what_fits_is_told_from_one_that_collapses() {
        // 100 pictures of 480x400 with their codes are 82.9 MB, of which 64 MiB hold 0.81.
        let holds = |frames: u32, bytes: &[f64]| {
            let question = Loop { name: "loop".into(), frames, picture: (480, 400), cache_mib: 64 };
            assert_eq!(question.shown(), (480, 432));
            let measure = Measure::higher("served_share", "", "share", served(bytes));
            holds(&question, "lan", vec![(OURS, vec![measure])], OURS)[0]
        };
        assert!(holds(100, &[1000.0, 300.0, 320.0]));
        assert!(!holds(100, &[1000.0, 990.0, 1000.0]), "least recently used");
        assert!(!holds(50, &[1000.0, 300.0]), "all of it fits");
        assert!(holds(50, &[1000.0, 20.0]));
        assert_eq!(served(&[1000.0, 250.0]), Some(0.75));
        assert_eq!(served(&[0.0, 0.0]), None);
    }
}
