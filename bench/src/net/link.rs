//! The properties of a link: delay, jitter, rate, queue, loss, outages; and named presets of the
//! links that the papers measured. Beside the path. Knows figures and their sources; never packets.

use std::str::FromStr;
use std::time::Duration;

use crate::Error;
use crate::net::impairment::{Bursts, Policer, Reordering};
use crate::net::testbed::Direction;

/// One link, the same in both directions unless a figure says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name in results: "wan", or "wan,loss=1%".
    pub name: String,
    /// Round-trip propagation delay, half of it in each direction.
    pub rtt: Duration,
    /// Standard deviation of the one-way delay; packets keep their order.
    pub jitter: Duration,
    /// Bits of IP packets a second in each direction; None: no limit.
    pub rate_bps: Option<u64>,
    /// Size of the queue before the bottleneck, the packet that is being sent included; a packet
    /// that does not fit is dropped. Without a rate no packet waits.
    pub queue_bytes: u64,
    /// Bits a second from client to server, if they differ.
    pub rate_up_bps: Option<u64>,
    /// The queue as the time that it takes to drain, if it was given so: its bytes then follow each
    /// direction's rate.
    pub queue_time: Option<Duration>,
    /// Share of packets lost at random in each direction, 0 to 1.
    pub loss: f64,
    /// Losses in bursts, beside [`Link::loss`].
    pub bursts: Option<Bursts>,
    /// Packets that others overtake.
    pub reordering: Option<Reordering>,
    /// A token bucket before the queue.
    pub policer: Option<Policer>,
    /// Seed of the random losses: the same seed loses the same packets.
    pub seed: u64,
    /// The outages.
    pub outages: Vec<Outage>,
    /// UDP is blocked, as by many corporate firewalls.
    pub blocks_udp: bool,
}

/// A period in which every packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// After the link was set.
    pub from: Duration,
    /// How long.
    pub length: Duration,
}

/// A named link, and the source of its figures.
struct Preset {
    name: &'static str,
    rtt: Duration,
    jitter: Duration,
    rate_bps: u64,
    source: &'static str,
}

const MBIT: u64 = 1_000_000;

/// The papers' links, then today's.
const PRESETS: [Preset; 8] = [
    // Lai and Nieh's and THINC's LAN testbeds are "100 Mbps" and "low latency"; 0.2 ms is what a
    // ping through a switched Fast Ethernet takes.
    Preset {
        name: "lan",
        rtt: Duration::from_micros(200),
        jitter: Duration::ZERO,
        rate_bps: 100 * MBIT,
        source: "100 Mbit/s as in Lai and Nieh 2002 and THINC 2004; 0.2 ms stands for a switched \
            LAN",
    },
    // Lai and Nieh measured 66 ms across Internet2, New York to Stanford; THINC §6.1 emulates the
    // same two figures.
    Preset {
        name: "wan",
        rtt: Duration::from_millis(66),
        jitter: Duration::ZERO,
        rate_bps: 100 * MBIT,
        source: "Internet2 across the US: Lai and Nieh 2002, THINC 2004 section 6",
    },
    // Yang et al. §3: "6 Mbps network bandwidth and packet loss rates up to 30%"; they name no
    // delay, 2 ms is that of a quiet wireless LAN. The loss is the experiment's variable:
    // 80211b:loss=10%.
    Preset {
        name: "80211b",
        rtt: Duration::from_millis(2),
        jitter: Duration::ZERO,
        rate_bps: 6 * MBIT,
        source: "Yang et al. 2003, with loss=0% to 30%; 2 ms stands for a wireless LAN",
    },
    // THINC §6.1: "an idealized 802.11g network by limiting bandwidth to 24 Mbps", without added
    // latency or loss.
    Preset {
        name: "80211g",
        rtt: Duration::from_micros(200),
        jitter: Duration::ZERO,
        rate_bps: 24 * MBIT,
        source: "THINC 2004 section 6, \"802.11g PDA\"; 0.2 ms as in lan",
    },
    // The VirtualGL study §5.19 knows the rates ("1 Megabit … DSL", "5 Megabit … cable modem") and
    // no delay; 50 ms is that of WebPageTest's profile DSL.
    Preset {
        name: "dsl1",
        rtt: Duration::from_millis(50),
        jitter: Duration::ZERO,
        rate_bps: MBIT,
        source: "VirtualGL study 2008 section 5.19; 50 ms of WebPageTest's profile DSL",
    },
    Preset {
        name: "dsl5",
        rtt: Duration::from_millis(50),
        jitter: Duration::ZERO,
        rate_bps: 5 * MBIT,
        source: "VirtualGL study 2008 section 5.19; 50 ms of WebPageTest's profile DSL",
    },
    // WebPageTest's profile LTE (12 Mbit/s, 70 ms). 5 ms of jitter are ours: half of LTE's 10 ms
    // radio frame.
    Preset {
        name: "4g",
        rtt: Duration::from_millis(70),
        jitter: Duration::from_millis(5),
        rate_bps: 12 * MBIT,
        source: "WebPageTest's profile LTE; 5 ms of jitter stand for its radio frames",
    },
    // RFC 2488 §2: up to 558 ms of propagation for an exchange by way of a geostationary orbit; 600
    // ms with what the ground adds. 25 Mbit/s is what such services are sold with (the FCC's mark
    // for broadband from 2015 to 2024).
    Preset {
        name: "satellite",
        rtt: Duration::from_millis(600),
        jitter: Duration::from_millis(2),
        rate_bps: 25 * MBIT,
        source: "geostationary: 558 ms of RFC 2488 section 2 and the ground's part; 25 Mbit/s as \
            sold",
    },
];

const NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut i = 0;
    while i < PRESETS.len() {
        names[i] = PRESETS[i].name;
        i += 1;
    }
    names
};

impl Link {
    /// No delay, no limit, no loss: measures the testbed itself.
    pub fn unlimited() -> Link {
        Link {
            name: "unlimited".into(),
            rtt: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: None,
            queue_bytes: 0,
            rate_up_bps: None,
            queue_time: None,
            loss: 0.0,
            bursts: None,
            reordering: None,
            policer: None,
            seed: 1,
            outages: vec![],
            blocks_udp: false,
        }
    }

    /// A link by its name: see [`Link::presets`].
    pub fn preset(name: &str) -> Result<Link, Error> {
        if name == "unlimited" {
            return Ok(Link::unlimited());
        }
        let preset = PRESETS.iter().find(|preset| preset.name == name).ok_or_else(|| {
            format!("no link is called `{name}`: there are {} and unlimited", NAMES.join(", "))
        })?;
        let mut link = Link::unlimited();
        link.name = name.into();
        link.rtt = preset.rtt;
        link.jitter = preset.jitter;
        link.rate_bps = Some(preset.rate_bps);
        link.queue_bytes = link.queue_default();
        Ok(link)
    }

    /// One line for each preset: its name, its figures and their source.
    pub fn presets_about() -> Vec<String> {
        let figures = |preset: &Preset| {
            let about =
                Link::preset(preset.name).map_or_else(|_| String::new(), |link| link.about());
            format!("{:<10} {about}  ({})", preset.name, preset.source)
        };
        PRESETS.iter().map(figures).collect()
    }

    /// Default queue for a rate and a delay, bytes: the bandwidth-delay product, which keeps the
    /// link busy while a sender halves its window (Villamizar and Song, 1994), but at least 64 KiB,
    /// some 45 full packets: common devices have no less, and a LAN's bursts need as much. Zero
    /// without a rate.
    pub fn queue_default(&self) -> u64 {
        let Some(rate) = self.rate_bps else { return 0 };
        let held = u128::from(rate) * self.rtt.as_nanos() / 8 / 1_000_000_000;
        u64::try_from(held).unwrap_or(u64::MAX).max(64 * 1024)
    }

    /// Bits a second in one direction; None: no limit.
    pub fn rate_of(&self, direction: Direction) -> Option<u64> {
        match direction {
            Direction::Down => self.rate_bps,
            Direction::Up => self.rate_up_bps.or(self.rate_bps),
        }
    }

    /// Bytes of the queue in one direction; a queue given as time holds a full packet at least.
    pub fn queue_of(&self, direction: Direction) -> u64 {
        let Some((time, rate)) = self.queue_time.zip(self.rate_of(direction)) else {
            return self.queue_bytes;
        };
        let bytes = u128::from(rate) * time.as_nanos() / 8 / 1_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(crate::net::end::MTU.into())
    }

    /// In words: "100 Mbit/s, 66 ms, no loss".
    pub fn about(&self) -> String {
        let rate = self.rate_bps.map_or("no limit".into(), rate_words);
        let mut words = vec![
            self.rate_up_bps
                .map_or(rate.clone(), |up| format!("{rate} down, {} up", rate_words(up))),
            format!("{} round trip", time_words(self.rtt)),
        ];
        if !self.jitter.is_zero() {
            words.push(format!("{} jitter", time_words(self.jitter)));
        }
        words.push(if self.loss == 0.0 {
            "no loss".into()
        } else {
            format!("{} % loss", short(self.loss * 100.0))
        });
        if let Some(bursts) = self.bursts {
            words.push(format!(
                "{} % loss in bursts of {}",
                short(bursts.loss_mean() * 100.0),
                short(1.0 / bursts.end)
            ));
        }
        if let Some(Reordering { share, by }) = self.reordering {
            words.push(format!("{} % later by {}", short(share * 100.0), time_words(by)));
        }
        if let Some(Policer { rate_bps, burst_bytes }) = self.policer {
            words.push(format!("policed to {} and {burst_bytes} bytes", rate_words(rate_bps)));
        }
        if let Some(time) = self.queue_time {
            words.push(format!("a queue of {}", time_words(time)));
        } else if self.rate_bps.is_some() && self.queue_bytes != self.queue_default() {
            words.push(format!("a queue of {} bytes", self.queue_bytes));
        }
        for outage in &self.outages {
            words.push(format!(
                "nothing for {} from {}",
                time_words(outage.length),
                time_words(outage.from)
            ));
        }
        if self.blocks_udp {
            words.push("no UDP".into());
        }
        words.join(", ")
    }

    /// Sets one figure by its name, as in "loss=1%"; a rate or a delay also sets the default queue.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        match key {
            "rtt" => self.rtt = parse_time(value)?,
            "jitter" => self.jitter = parse_time(value)?,
            "rate" => self.rate_bps = parse_rate(value)?,
            "rate-up" => self.rate_up_bps = parse_rate(value)?,
            "queue" if value.trim_end().ends_with('s') => {
                self.queue_time = Some(parse_time(value)?);
                self.queue_bytes = self.queue_of(Direction::Down);
            }
            "queue" => (self.queue_bytes, self.queue_time) = (parse_size(value)?, None),
            "bursts" => self.bursts = Some(value.parse()?),
            "reorder" => self.reordering = Some(value.parse()?),
            "policer" => self.policer = Some(value.parse()?),
            "loss" => self.loss = parse_share(value)?,
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| format!("`{value}` is no seed: give a number from 0 to 2^64-1"))?;
            }
            "outage" => self.outages.push(parse_outage(value)?),
            "udp" => {
                self.blocks_udp = match value {
                    "on" => false,
                    "off" => true,
                    _ => {
                        return Err(format!(
                            "`{value}` is no answer to whether UDP passes: on or off"
                        )
                        .into());
                    }
                };
            }
            _ => {
                return Err(format!(
                    "a link has no `{key}`: it has rtt, jitter, rate, rate-up, queue, loss, \
                     bursts, reorder, policer, seed, outage and udp, as in wan,loss=1%"
                )
                .into());
            }
        }
        if key == "rtt" || key == "rate" {
            (self.queue_bytes, self.queue_time) = (self.queue_default(), None);
        }
        Ok(())
    }
}

impl FromStr for Link {
    type Err = Error;

    /// A preset with changes: "wan", "80211b:loss=10%", "wan,loss=1%,rtt=20ms"; or figures alone:
    /// "rtt=20ms,rate=5mbit".
    fn from_str(text: &str) -> Result<Link, Error> {
        let mut words =
            text.split([',', ':']).map(str::trim).filter(|word| !word.is_empty()).peekable();
        let first =
            *words.peek().ok_or("a link wants a name or figures, as wan or rtt=20ms,rate=5mbit")?;
        let mut link = if first.contains('=') {
            Link::unlimited()
        } else {
            words.next();
            Link::preset(first)?
        };
        let mut queue = None;
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                format!("`{word}` in link `{text}` is no figure: write it as loss=1%")
            })?;
            if key == "queue" {
                queue = Some(value);
            }
            link.set(key, value).map_err(|e| format!("link `{text}`: {e}"))?;
        }
        // Set last: a rate or delay after it would replace it.
        if let Some(queue) = queue {
            link.set("queue", queue)?;
        }
        link.name = text.trim().to_owned();
        Ok(link)
    }
}

/// A number and the unit after it, in lower case.
fn split_unit(text: &str) -> Result<(f64, String), Error> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 =
        text[..end].parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    Ok((number, text[end..].trim().to_ascii_lowercase()))
}

/// "66ms", "200us", "1.5s".
pub fn parse_time(text: &str) -> Result<Duration, Error> {
    let (number, unit) = split_unit(text)?;
    let seconds = match unit.as_str() {
        "s" => number,
        "ms" => number / 1e3,
        "us" | "µs" => number / 1e6,
        "" if number == 0.0 => 0.0,
        _ => return Err(format!("`{text}` is no time: give it in s, ms or us, as 66ms").into()),
    };
    // An hour: no link is slower, and the emulator's clock holds far more.
    if seconds > 3600.0 {
        return Err(format!("`{text}` is more than an hour").into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// "100mbit", "24 Mbit/s", "1gbit", "none".
pub fn parse_rate(text: &str) -> Result<Option<u64>, Error> {
    if text.eq_ignore_ascii_case("none") {
        return Ok(None);
    }
    let (number, unit) = split_unit(text)?;
    let scale = match unit.trim_end_matches("/s").trim_end_matches("bps").trim_end_matches("bit") {
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "" if !unit.is_empty() => 1.0,
        _ => {
            return Err(format!(
                "`{text}` is no rate: give it in kbit, mbit or gbit, as 100mbit, or none"
            )
            .into());
        }
    };
    let rate = (number * scale).round();
    // Below 1 kbit/s one packet takes longer than a person waits; no machine emulates more than 100
    // Gbit/s.
    if !(1e3..=1e11).contains(&rate) {
        return Err(format!("`{text}` is out of range: a rate is 1 kbit/s to 100 Gbit/s").into());
    }
    Ok(Some(rate as u64))
}

/// "64KiB", "256kb", "65536".
pub fn parse_size(text: &str) -> Result<u64, Error> {
    let (number, unit) = split_unit(text)?;
    let scale = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        _ => {
            return Err(
                format!("`{text}` is no size: give it in bytes, KiB or MiB, as 64KiB").into()
            );
        }
    };
    let size = (number * scale).round();
    if !(1.0..=1e9).contains(&size) {
        return Err(format!("`{text}` is out of range: a queue is 1 byte to 1 GB").into());
    }
    Ok(size as u64)
}

/// "1%", "0.01".
pub fn parse_share(text: &str) -> Result<f64, Error> {
    let (number, unit) = split_unit(text)?;
    let share = match unit.as_str() {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(format!("`{text}` is no share: give it as 1% or 0.01").into()),
    };
    if !(0.0..=1.0).contains(&share) {
        return Err(format!("`{text}` is out of range: a share is 0% to 100%").into());
    }
    Ok(share)
}

/// "5s+2s": after five seconds, for two.
pub fn parse_outage(text: &str) -> Result<Outage, Error> {
    let (from, length) = text
        .split_once('+')
        .ok_or_else(|| format!("`{text}` is no outage: give begin and length, as 5s+2s"))?;
    Ok(Outage { from: parse_time(from)?, length: parse_time(length)? })
}

/// At most three digits after the point, and no zeros at the end.
fn short(number: f64) -> String {
    format!("{number:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn time_words(time: Duration) -> String {
    if time >= Duration::from_secs(1) {
        format!("{} s", short(time.as_secs_f64()))
    } else {
        format!("{} ms", short(time.as_secs_f64() * 1e3))
    }
}

fn rate_words(bps: u64) -> String {
    match bps {
        1_000_000_000.. => format!("{} Gbit/s", short(bps as f64 / 1e9)),
        1_000_000.. => format!("{} Mbit/s", short(bps as f64 / 1e6)),
        _ => format!("{} kbit/s", short(bps as f64 / 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_the_papers() {
        let wan = Link::preset("wan").unwrap();
        assert_eq!((wan.rtt, wan.rate_bps), (Duration::from_millis(66), Some(100_000_000)));
        assert_eq!(wan.queue_bytes, 825_000, "100 Mbit/s for 66 ms");
        assert_eq!(wan.about(), "100 Mbit/s, 66 ms round trip, no loss");
        assert_eq!(Link::preset("lan").unwrap().queue_bytes, 65536);
        assert_eq!(NAMES, ["lan", "wan", "80211b", "80211g", "dsl1", "dsl5", "4g", "satellite"]);
        assert!(
            Link::preset("modem").unwrap_err().to_string().contains("80211b"),
            "the names are named"
        );
        assert!(
            Link::presets_about().iter().all(|line| line.contains("bit/s") && line.contains('('))
        );
    }

    #[test]
    fn figures_change_a_preset() {
        let link: Link = "80211b:loss=10%".parse().unwrap();
        assert_eq!(
            (link.name.as_str(), link.loss, link.rate_bps),
            ("80211b:loss=10%", 0.1, Some(6_000_000))
        );
        let link: Link = "wan,loss=1%,rtt=20ms,seed=9,jitter=2ms,outage=5s+250ms".parse().unwrap();
        assert_eq!((link.loss, link.rtt, link.seed), (0.01, Duration::from_millis(20), 9));
        assert_eq!(link.queue_bytes, 250_000, "fits the shorter round trip");
        assert_eq!(
            link.outages,
            [Outage { from: Duration::from_secs(5), length: Duration::from_millis(250) }]
        );
        assert_eq!(
            link.about(),
            "100 Mbit/s, 20 ms round trip, 2 ms jitter, 1 % loss, nothing for 250 ms from 5 s"
        );
        let link: Link = "wan,udp=off".parse().unwrap();
        assert_eq!(link.about(), "100 Mbit/s, 66 ms round trip, no loss, no UDP");
        let link: Link = "queue=10KiB,rate=2.5 Mbit/s".parse().unwrap();
        assert_eq!(
            (link.queue_bytes, link.rate_bps),
            (10240, Some(2_500_000)),
            "the queue that was asked for stays"
        );
        let link: Link = "rate=10mbit,rate-up=0.5mbit,rtt=40ms,queue=1s".parse().unwrap();
        let [down, up] = [Direction::Down, Direction::Up];
        assert_eq!([down, up].map(|d| link.rate_of(d)), [Some(10_000_000), Some(500_000)]);
        assert_eq!([down, up].map(|d| link.queue_of(d)), [1_250_000, 62_500]);
        assert_eq!(
            link.about(),
            "10 Mbit/s down, 500 kbit/s up, 40 ms round trip, no loss, a queue of 1 s"
        );
        let link: Link = "wan,bursts=2%/20%,reorder=2%+5ms,policer=20mbit+250kb".parse().unwrap();
        assert_eq!(
            link.about(),
            "100 Mbit/s, 66 ms round trip, no loss, 9.091 % loss in bursts of 5, 2 % later by 5 \
             ms, policed to 20 Mbit/s and 250000 bytes"
        );
        assert_eq!(link.queue_of(up), link.queue_bytes, "the same unless it is a time");
        assert_eq!("wan,rate=none".parse::<Link>().unwrap().rate_bps, None);
    }

    #[test]
    fn nonsense_is_refused_with_words() {
        for (text, word) in [
            ("", "name or figures"),
            ("wan,fast", "no figure"),
            ("wan,speed=3", "rtt, jitter, rate"),
            ("wan,rtt=66", "66ms"),
            ("wan,rtt=-3ms", "number"),
            ("wan,rtt=2000s,rtt=9000s", "hour"),
            ("wan,loss=101%", "0% to 100%"),
            ("wan,rate=5", "100mbit"),
            ("wan,rate=5bit", "1 kbit/s"),
            ("wan,queue=0", "1 byte"),
            ("wan,outage=5s", "5s+2s"),
            ("wan,seed=x", "seed"),
            ("wan,bursts=2%", "2%/20%"),
            ("wan,reorder=2%", "2%+5ms"),
            ("wan,policer=20mbit", "20mbit+250kb"),
            ("wan,udp=no", "on or off"),
        ] {
            let error = text.parse::<Link>().expect_err(text).to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
