//! Results as a run would leave them, from a seed: for the tests of report, compare and store
//! alone. Shapes are those of the real workloads; the figures are invented and never leave a test.

use std::collections::BTreeMap;

use crate::results::{
    Form, LinkRecord, Machine, Measure, Outcome, PeerRecord, Results, SCHEMA, Trial, quantity,
};

/// A small generator, so that a seed gives the same results everywhere.
struct Dice(u64);

impl Dice {
    fn share(&mut self) -> f64 {
        // Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: the mixing
        // of SplitMix64.
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
        slow_start_after_idle: Some(true),
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
        let missing = (name == "kasmvnc")
            .then(|| "kasmvncserver is not installed & Debian has no package".to_owned());
        let version = if missing.is_some() { String::new() } else { "1.2.3".to_owned() };
        let settings = "-SecurityTypes None <default>".to_owned();
        peers.insert(
            name.to_owned(),
            PeerRecord { title: title.into(), version, year: Some(2022), settings, missing },
        );
    }
    let mut trials = Vec::new();
    for (link_name, link) in &links {
        for (peer, _, slow, wordy) in PEERS.iter().filter(|p| p.0 != "kasmvnc") {
            for workload in
                ["web", "latency", "video", "type", "animation", "dropout", "3d", "users", "edit"]
            {
                for form in [Form::SlowMotion, Form::Normal] {
                    let lossy = link.loss > 0.0;
                    if lossy && !matches!(workload, "web" | "video") {
                        continue;
                    }
                    let outcome = match (*peer, workload) {
                        ("xrdp", _) if link.loss >= 0.3 => Outcome::Failed(
                            "the viewer ended: <exit status: 131> & lost its session".into(),
                        ),
                        ("x11", "users") => {
                            Outcome::Skipped("plain X has no session to start twice".into())
                        }
                        _ => {
                            let hard = (1.0 + link.loss * 6.0) * slow;
                            Outcome::Measured(measures(
                                &mut dice,
                                workload,
                                form,
                                hard,
                                *wordy,
                                link.rtt_ms,
                            ))
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

fn measures(
    dice: &mut Dice,
    workload: &str,
    form: Form,
    slow: f64,
    wordy: f64,
    rtt_ms: f64,
) -> Vec<Measure> {
    let mut all = Vec::new();
    let mut lower = |name: &str, part: &str, unit: &str, middle: f64, count: usize| {
        all.push(Measure::lower(name, part, unit, dice.samples(middle, count)));
    };
    // The name of an operation, how long it takes, and its bytes.
    let operations: &[(&str, f64, f64)] = match workload {
        "web" => &[("chromium", 140.0, 450_000.0), ("firefox", 170.0, 400_000.0)],
        "latency" => &[
            ("letter", 4.0, 900.0),
            ("scroll", 20.0, 60_000.0),
            ("fill", 8.0, 800.0),
            ("red bitmap", 15.0, 2_000.0),
            ("image", 40.0, 300_000.0),
        ],
        _ => &[],
    };
    let count = if workload == "web" { 54 } else { 20 };
    for &(part, base, bytes) in operations {
        lower(quantity::PHOTON_MS, part, "ms", rtt_ms + 10.0 * slow, count);
        lower(quantity::VISIBLE_MS, part, "ms", rtt_ms + base * slow, count);
        lower(quantity::PACKETS_MS, part, "ms", base * slow * 1.3, count);
        lower(quantity::EXACT_MS, part, "ms", rtt_ms + base * slow * 2.0, count);
        lower(quantity::BYTES_DOWN, part, "bytes", bytes * wordy, count);
        lower(quantity::BYTES_UP, part, "bytes", bytes * wordy / 40.0, count);
        lower(quantity::PACKETS_DOWN, part, "packets", bytes * wordy / 1400.0, count);
    }
    match workload {
        "web" | "latency" => {}
        "video" => lower(quantity::BYTES_DOWN, "", "bytes", 1e8 * wordy, 3),
        "type" => {
            for hogs in [0, 1, 4, 16] {
                let part = if hogs == 1 { "1 hog".to_owned() } else { format!("{hogs} hogs") };
                let middle = rtt_ms + 10.0 * slow * f64::from(1 + hogs);
                lower(quantity::PHOTON_MS, &part, "ms", middle, 200);
                lower("jitter_ms", &part, "ms", middle / 6.0, 3);
                lower("stall_mean_ms", &part, "ms", middle / 4.0, 3);
            }
        }
        "animation" => {
            for frames in [25, 50, 100] {
                let part = format!("{frames} frames");
                let later = if wordy < 1.0 && frames < 66 { 300.0 } else { 2e5 * wordy };
                lower("frame_bytes_first", &part, "bytes", 2e5 * wordy, 1);
                lower("frame_bytes_later", &part, "bytes", later, 3);
            }
        }
        "dropout" => {
            for outage in [1, 4, 16] {
                let late = 300.0 * slow * f64::from(outage);
                lower("recovery_ms", &format!("{outage} s"), "ms", late, 3);
            }
        }
        "3d" => {}
        "users" => {
            for users in [1, 2, 4, 8] {
                let part = format!("{users} users");
                let middle = rtt_ms + 8.0 * slow * f64::from(users);
                lower(quantity::PHOTON_MS, &part, "ms", middle, 40);
                lower(quantity::MEMORY_SERVER, &part, "bytes", 4e7 * f64::from(users), 1);
            }
        }
        // Tried, and without a single sample: the report must say so.
        _ => lower(quantity::VISIBLE_MS, "stroke", "ms", 1.0, 0),
    }
    lower(quantity::CPU_SERVER_MS, "", "ms", 4000.0 * slow, 1);
    lower(quantity::CPU_CLIENT_MS, "", "ms", 2000.0 * slow, 1);
    lower(quantity::MEMORY_SERVER, "", "bytes", 4e7 * slow, 1);
    lower(quantity::MEMORY_CLIENT, "", "bytes", 3e7 * slow, 1);
    let mut higher = |name: &str, unit: &str, samples: Vec<f64>| {
        all.push(Measure::higher(name, "", unit, samples));
    };
    let quality = if form == Form::Normal { (1.0 / slow).min(1.0) } else { 1.0 };
    if workload == "video" {
        higher(quantity::VIDEO_QUALITY, "share", dice.samples(quality, 3));
        higher(quantity::FRAME_RATE, "fps", dice.samples(24.0 * quality, 3));
    } else if workload == "3d" {
        higher(quantity::FRAME_RATE, "fps", dice.samples(30.0 / slow, 5));
    }
    let (exact, psnr) = if slow < 1.2 { (1.0, 99.0) } else { (0.8, 38.2) };
    higher(quantity::EXACT_SHARE, "share", vec![exact]);
    higher(quantity::PSNR_DB, "dB", vec![psnr]);
    all.push(Measure::fact("frames_sent", "", "frames", 834.0));
    all
}
