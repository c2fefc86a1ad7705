//! What a link does to packets beside delaying and queueing them: losses in bursts, reordering, a
//! policer. Beside the path, under link.rs and emulator.rs. Knows figures and states; never packets
//! or clocks.

use std::str::FromStr;
use std::time::Duration;

use crate::Error;
use crate::net::link::{parse_rate, parse_share, parse_size, parse_time};

/// Losses in bursts: the model of Gilbert (1960) and Elliott (1963). A link is good or bad; each
/// packet may turn it, and in the bad state a share of them is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Share of packets at which a good link turns bad.
    pub begin: f64,
    /// Share of packets at which a bad link turns good: one over the mean length of a burst.
    pub end: f64,
    /// Share of packets lost while it is bad.
    pub loss: f64,
}

impl Bursts {
    /// Share of packets lost in the long run.
    pub fn loss_mean(&self) -> f64 {
        self.loss * self.begin / (self.begin + self.end).max(f64::MIN_POSITIVE)
    }
}

impl FromStr for Bursts {
    type Err = Error;

    /// "2%/20%": a burst begins at 2 % of packets and ends at 20 % of its own, which all are lost;
    /// "2%/20%/50%": half of them.
    fn from_str(text: &str) -> Result<Bursts, Error> {
        let words: Vec<&str> = text.split('/').collect();
        let [begin, end, loss] = match words[..] {
            [begin, end] => [begin, end, "100%"],
            [begin, end, loss] => [begin, end, loss],
            _ => {
                return Err(format!(
                    "`{text}` are no bursts: give the shares of packets at which one begins and \
                     ends, as 2%/20%"
                )
                .into());
            }
        };
        let bursts =
            Bursts { begin: parse_share(begin)?, end: parse_share(end)?, loss: parse_share(loss)? };
        if bursts.end == 0.0 {
            return Err(format!("`{text}`: a burst that ends at 0% of packets never ends").into());
        }
        Ok(bursts)
    }
}

/// Packets that others overtake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reordering {
    /// Share of packets that are held back.
    pub share: f64,
    /// For how long.
    pub by: Duration,
}

impl FromStr for Reordering {
    type Err = Error;

    /// "2%+5ms": 2 % of packets arrive 5 ms later, behind those sent after them.
    fn from_str(text: &str) -> Result<Reordering, Error> {
        let (share, by) = text.split_once('+').ok_or_else(|| {
            format!("`{text}` is no reordering: give share and delay of packets, as 2%+5ms")
        })?;
        Ok(Reordering { share: parse_share(share)?, by: parse_time(by)? })
    }
}

/// A token bucket that drops what exceeds it, as providers limit a line without a queue (RFC 2697
/// with one colour).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bits of IP packets a second that pass.
    pub rate_bps: u64,
    /// Bytes that pass at once after a pause.
    pub burst_bytes: u64,
}

impl FromStr for Policer {
    type Err = Error;

    /// "20mbit+250kb".
    fn from_str(text: &str) -> Result<Policer, Error> {
        let wrong = || format!("`{text}` is no policer: give rate and burst, as 20mbit+250kb");
        let (rate, burst) = text.split_once('+').ok_or_else(wrong)?;
        let rate_bps = parse_rate(rate)?.ok_or_else(wrong)?;
        let burst_bytes = parse_size(burst)?;
        // A full packet that never passes would be an outage.
        if burst_bytes < u64::from(crate::net::end::MTU) {
            return Err(format!(
                "`{text}`: a burst of {burst_bytes} bytes passes no packet of {}: give at least \
                 that",
                crate::net::end::MTU
            )
            .into());
        }
        Ok(Policer { rate_bps, burst_bytes })
    }
}

/// The tokens of a [`Policer`]; it starts full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    policer: Policer,
    bytes: f64,
    at: Duration,
}

impl Bucket {
    pub(crate) fn new(policer: Policer, now: Duration) -> Bucket {
        Bucket { policer, bytes: policer.burst_bytes as f64, at: now }
    }

    /// True if a packet of `len` bytes passes now; then its tokens are gone.
    pub(crate) fn passes(&mut self, now: Duration, len: u32) -> bool {
        let gained = now.saturating_sub(self.at).as_secs_f64() * self.policer.rate_bps as f64 / 8.0;
        self.bytes = (self.bytes + gained).min(self.policer.burst_bytes as f64);
        self.at = now;
        let passes = self.bytes >= f64::from(len);
        if passes {
            self.bytes -= f64::from(len);
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_bucket_passes_its_burst_and_then_its_rate() {
        // 1,500 bytes a millisecond.
        let mut bucket = Bucket::new("12mbit+4500b".parse().unwrap(), Duration::ZERO);
        let now = [0, 0, 0, 0, 1, 1, 3, 3, 3, 100, 100, 100, 100];
        let passed = now.map(|ms| bucket.passes(MS * ms, 1500));
        let expected =
            [true, true, true, false, true, false, true, true, false, true, true, true, false];
        assert_eq!(passed, expected);
    }

    #[test]
    fn texts_become_figures_and_nonsense_is_refused_with_words() {
        let bursts: Bursts = "2%/20%".parse().unwrap();
        assert_eq!(bursts, Bursts { begin: 0.02, end: 0.2, loss: 1.0 });
        assert!((bursts.loss_mean() - 1.0 / 11.0).abs() < 1e-9);
        assert_eq!("0.1/0.5/50%".parse::<Bursts>().unwrap().loss, 0.5);
        assert_eq!("2%+5ms".parse::<Reordering>().unwrap(), Reordering { share: 0.02, by: MS * 5 });
        assert_eq!(
            "20mbit+250kb".parse::<Policer>().unwrap(),
            Policer { rate_bps: 20_000_000, burst_bytes: 250_000 }
        );
        let words = |error: Error| error.to_string();
        assert!(words("2%".parse::<Bursts>().unwrap_err()).contains("2%/20%"));
        assert!(words("2%/0%".parse::<Bursts>().unwrap_err()).contains("never ends"));
        assert!(words("2%/120%".parse::<Bursts>().unwrap_err()).contains("0% to 100%"));
        assert!(words("5ms".parse::<Reordering>().unwrap_err()).contains("2%+5ms"));
        assert!(words("20mbit".parse::<Policer>().unwrap_err()).contains("20mbit+250kb"));
        assert!(words("none+250kb".parse::<Policer>().unwrap_err()).contains("no policer"));
        assert!(words("20mbit+1kb".parse::<Policer>().unwrap_err()).contains("1500"));
    }
}
