//! Results as a run would leave them, from a seed: for the tests of report, compare and store alone.
//! Shapes are those of the real workloads; the figures are invented and never leave a test.

use std::collections::BTreeMap;

use crate::results::{
    Better, Form, LinkRecord, Machine, Measure, Outcome, PeerRecord, Results, SCHEMA, Trial, quantity,
};

/// A small generator, so that a seed gives the same results everywhere.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        // Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: the mixing of SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About `middle`, a tenth up or down, now and then much more.
    fn about(&mut self, middle: f64) -> f64 {
        let late = if self.share() < 0.05 { 1.0 + self.share() } else { 1.0 };
        middle * (0.9 + 0.2 * self.share()) * late
    }

    fn samples(&mut self, middle: f64, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.about(middle)).collect()
    }
}

fn measure(quantity: &str, part: &str, unit: &str, better: Better, samples: Vec<f64>) -> Measure {
    Measure { quantity: quantity.into(), part: part.into(), unit: unit.into(), better, samples }
}

/// Name, title, and how slow and how wordy it is.
const PEERS: [(&str, &str, f64, f64); 7] = [
    ("local", "No remoting", 0.3, 0.0),
    ("thinc", "thinc", 1.0, 0.4),
    ("tigervnc", "TigerVNC", 0.95, 1.6),
    ("xpra", "xpra", 1.8, 0.8),
    ("xrdp", "xrdp + FreeRDP", 1.3, 0.35),
    ("x11", "Plain X", 3.0, 11.0),
    ("kasmvnc", "KasmVNC", 1.0, 1.0),
];

fn link(rtt_ms: f64, rate_bps: Option<u64>, loss: f64) -> LinkRecord {
    LinkRecord {
        about: format!("{rtt_ms} ms, loss {} %", loss * 100.0),
        rtt_ms,
        jitter_ms: 0.0,
        rate_bps,
        queue_bytes: 250_000,
        loss,
        congestion: "cubic".into(),
        emulator: "tun".into(),
    }
}

/// Results of a run; the same for the same seed.
pub(crate) fn results(seed: u64) -> Results {
    let mut dice = Dice(seed);
    let mut links = BTreeMap::new();
    links.insert("lan".to_owned(), link(0.2, Some(100_000_000), 0.0));
    links.insert("wan".to_owned(), link(66.0, Some(100_000_000), 0.0));
    for loss in [0.0, 0.01, 0.1, 0.3] {
        links.insert(format!("80211b:loss={}%", loss * 100.0), link(2.0, Some(6_000_000), loss));
    }
    let mut peers = BTreeMap::new();
    for (name, title, ..) in PEERS {
        let missing = (name == "kasmvnc").then(|| "kasmvncserver is not installed & Debian has no package".to_owned());
        let version = if missing.is_some() { String::new() } else { "1.2.3".to_owned() };
        let settings = "-SecurityTypes None <default>".to_owned();
        peers.insert(name.to_owned(), PeerRecord { title: title.into(), version, year: Some(2022), settings, missing });
    }
    let mut trials = Vec::new();
    for (link_name, link) in &links {
        for (peer, _, slow, wordy) in PEERS.iter().filter(|p| p.0 != "kasmvnc") {
            for workload in ["web", "latency", "video", "type", "animation", "dropout", "3d", "users", "edit"] {
                for form in [Form::SlowMotion, Form::Normal] {
                    let lossy = link.loss > 0.0;
                    if lossy && !matches!(workload, "web" | "video") {
                        continue;
                    }
                    let outcome = match (*peer, workload) {
                        ("xrdp", _) if link.loss >= 0.3 => {
                            Outcome::Failed("the viewer ended: <exit status: 131> & lost its session".into())
                        }
                        ("x11", "users") => Outcome::Skipped("plain X has no session to start twice".into()),
                        _ => {
                            let hard = (1.0 + link.loss * 6.0) * slow;
                            Outcome::Measured(measures(&mut dice, workload, form, hard, *wordy, link.rtt_ms))
                        }
                    };
                    trials.push(Trial {
                        peer: (*peer).into(),
                        link: link_name.clone(),
                        workload: workload.into(),
                        form,
                        begun: "2026-11-22T00:00:00Z".into(),
                        seconds: 30.0 + dice.share(),
                        other_load: if workload == "edit" { 0.31 } else { 0.02 },
                        outcome,
                    });
                }
            }
        }
    }
    Results {
        schema: SCHEMA,
        command: ["thinc-bench", "run", "--links", "lan,wan"].map(String::from).into(),
        begun: "2026-11-22T00:00:00Z".into(),
        machine: Machine {
            kernel: "Linux 6.1.0-test".into(),
            system: "Debian GNU/Linux 12 (bookworm)".into(),
            processor: "Invented processor".into(),
            cores: 2,
            memory_bytes: 24 << 30,
            bench: "thinc-bench 0.1.0".into(),
            accounting: "cgroup v2".into(),
            applications: [("chromium".to_owned(), "142".to_owned())].into(),
        },
        screen: (1024, 768),
        effort: crate::workloads::Effort::Quick,
        links,
        peers,
        trials,
    }
}

fn measures(dice: &mut Dice, workload: &str, form: Form, slow: f64, wordy: f64, rtt_ms: f64) -> Vec<Measure> {
    use Better::{Higher, Lower, Neither};
    let mut all = Vec::new();
    let times = |dice: &mut Dice, all: &mut Vec<Measure>, part: &str, base: f64, bytes: f64, count: usize| {
        all.push(measure(quantity::PHOTON_MS, part, "ms", Lower, dice.samples(rtt_ms + 10.0 * slow, count)));
        all.push(measure(quantity::VISIBLE_MS, part, "ms", Lower, dice.samples(rtt_ms + base * slow, count)));
        all.push(measure(quantity::PACKETS_MS, part, "ms", Lower, dice.samples(base * slow * 1.3, count)));
        all.push(measure(quantity::EXACT_MS, part, "ms", Lower, dice.samples(rtt_ms + base * slow * 2.0, count)));
        all.push(measure(quantity::BYTES_DOWN, part, "bytes", Lower, dice.samples(bytes * wordy, count)));
        all.push(measure(quantity::BYTES_UP, part, "bytes", Lower, dice.samples(bytes * wordy / 40.0, count)));
        all.push(measure(quantity::PACKETS_DOWN, part, "packets", Lower, dice.samples(bytes * wordy / 1400.0, count)));
    };
    match workload {
        "web" => {
            times(dice, &mut all, "chromium", 140.0, 450_000.0, 54);
            times(dice, &mut all, "firefox", 170.0, 400_000.0, 54);
        }
        "latency" => {
            for (part, base, bytes) in [
                ("letter", 4.0, 900.0),
                ("scroll", 20.0, 60_000.0),
                ("fill", 8.0, 800.0),
                ("red bitmap", 15.0, 2_000.0),
                ("image", 40.0, 300_000.0),
            ] {
                times(dice, &mut all, part, base, bytes, 20);
            }
        }
        "video" => {
            let quality = if form == Form::Normal { (1.0 / slow).min(1.0) } else { 1.0 };
            all.push(measure(quantity::VIDEO_QUALITY, "", "share", Higher, dice.samples(quality, 3)));
            all.push(measure(quantity::FRAME_RATE, "", "fps", Higher, dice.samples(24.0 * quality, 3)));
            all.push(measure(quantity::BYTES_DOWN, "", "bytes", Lower, dice.samples(1e8 * wordy, 3)));
        }
        "type" => {
            for hogs in [0, 1, 4, 16] {
                let part = if hogs == 1 { "1 hog".to_owned() } else { format!("{hogs} hogs") };
                let middle = rtt_ms + 10.0 * slow * f64::from(1 + hogs);
                all.push(measure(quantity::PHOTON_MS, &part, "ms", Lower, dice.samples(middle, 200)));
                all.push(measure("jitter_ms", &part, "ms", Lower, dice.samples(middle / 6.0, 3)));
                all.push(measure("stall_mean_ms", &part, "ms", Lower, dice.samples(middle / 4.0, 3)));
            }
        }
        "animation" => {
            for frames in [25, 50, 100] {
                let part = format!("{frames} frames");
                let later = if wordy < 1.0 && frames < 66 { 300.0 } else { 2e5 * wordy };
                all.push(measure("frame_bytes_first", &part, "bytes", Lower, dice.samples(2e5 * wordy, 1)));
                all.push(measure("frame_bytes_later", &part, "bytes", Lower, dice.samples(later, 3)));
            }
        }
        "dropout" => {
            for outage in [1, 4, 16] {
                let part = format!("{outage} s");
                let late = dice.samples(300.0 * slow * f64::from(outage), 3);
                all.push(measure("recovery_ms", &part, "ms", Lower, late));
            }
        }
        "3d" => all.push(measure(quantity::FRAME_RATE, "", "fps", Higher, dice.samples(30.0 / slow, 5))),
        "users" => {
            for users in [1, 2, 4, 8] {
                let part = format!("{users} users");
                let middle = rtt_ms + 8.0 * slow * f64::from(users);
                all.push(measure(quantity::PHOTON_MS, &part, "ms", Lower, dice.samples(middle, 40)));
                let memory = dice.samples(4e7 * f64::from(users), 1);
                all.push(measure(quantity::MEMORY_SERVER, &part, "bytes", Lower, memory));
            }
        }
        // Tried, and without a single sample: the report must say so.
        _ => all.push(measure(quantity::VISIBLE_MS, "stroke", "ms", Lower, Vec::new())),
    }
    all.push(measure(quantity::EXACT_SHARE, "", "share", Higher, vec![if slow < 1.2 { 1.0 } else { 0.8 }]));
    all.push(measure(quantity::PSNR_DB, "", "dB", Higher, vec![if slow < 1.2 { 99.0 } else { 38.2 }]));
    all.push(measure(quantity::CPU_SERVER_MS, "", "ms", Lower, dice.samples(4000.0 * slow, 1)));
    all.push(measure(quantity::CPU_CLIENT_MS, "", "ms", Lower, dice.samples(2000.0 * slow, 1)));
    all.push(measure(quantity::MEMORY_SERVER, "", "bytes", Lower, dice.samples(4e7 * slow, 1)));
    all.push(measure(quantity::MEMORY_CLIENT, "", "bytes", Lower, dice.samples(3e7 * slow, 1)));
    all.push(measure("frames_sent", "", "frames", Neither, dice.samples(834.0, 1)));
    all
}
