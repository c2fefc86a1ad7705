//! The results of a run, as JSON: what report, compare and a resumed run read. Knows names, numbers
//! and units; never how they were measured or how they are drawn.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::workloads::Effort;

/// Version of the format, raised when older readers would misunderstand newer files.
pub const SCHEMA: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The command line that made it.
    pub command: Vec<String>,
    /// Begin, RFC 3339, UTC.
    pub begun: String,
    /// What it ran on.
    pub machine: Machine,
    /// Screen of every session, pixels.
    pub screen: (u32, u32),
    /// How much of each workload.
    pub effort: Effort,
    /// The links, by name.
    pub links: BTreeMap<String, LinkRecord>,
    /// The requested peers by name, missing ones included.
    pub peers: BTreeMap<String, PeerRecord>,
    /// Every trial, in the order in which they ran.
    pub trials: Vec<Trial>,
}

/// The machine and its programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// `uname -sr`.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub system: String,
    /// Model name of the processor.
    pub processor: String,
    /// Processors that the run may use.
    pub cores: u32,
    /// Bytes.
    pub memory_bytes: u64,
    /// Version of thinc-bench and, where it lies in a git tree, its commit.
    pub bench: String,
    /// Which accounting CPU and memory come from: "cgroup v2", "cgroup v1" or "/proc".
    pub accounting: String,
    /// Programs that workloads drive, with their versions.
    pub applications: BTreeMap<String, String>,
}

/// One link, with what was in force and not only what was requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LinkRecord {
    /// In words: "100 Mbit/s, 66 ms, no loss".
    pub about: String,
    /// Round trip added, milliseconds.
    pub rtt_ms: f64,
    /// Standard deviation of the one-way delay, milliseconds.
    pub jitter_ms: f64,
    /// Bits a second in each direction; null is no limit.
    pub rate_bps: Option<u64>,
    /// Longest the queue before the bottleneck gets, bytes.
    pub queue_bytes: u64,
    /// Share of packets lost at random, 0 to 1.
    pub loss: f64,
    /// TCP congestion control, read back from both namespaces.
    pub congestion: String,
    /// Whether TCP begins slow start again after a pause, read back from both namespaces; null in
    /// older files and before the first trial.
    #[serde(default)]
    pub slow_start_after_idle: Option<bool>,
    /// "tun"; older files also have "netem".
    pub emulator: String,
}

impl LinkRecord {
    /// TCP's settings in words: "cubic, slow start after idle".
    pub fn tcp_about(&self) -> String {
        match self.slow_start_after_idle {
            Some(true) => format!("{}, slow start after idle", self.congestion),
            Some(false) => format!("{}, no slow start after idle", self.congestion),
            None => self.congestion.clone(),
        }
    }
}

/// One system under test.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    /// As a person writes it: "TigerVNC".
    pub title: String,
    /// Versions of server and viewer; empty where it is missing.
    pub version: String,
    /// Year in which that version came out, where it is known.
    pub year: Option<u16>,
    /// Settings that differ from the defaults, or that matter.
    pub settings: String,
    /// Why it was not measured.
    pub missing: Option<String>,
}

/// One peer, one link, one workload in one form.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trial {
    /// Key into [`Results::peers`].
    pub peer: String,
    /// Key into [`Results::links`].
    pub link: String,
    /// Name of the workload.
    pub workload: String,
    /// Slow-motion or normal speed.
    pub form: Form,
    /// Begin, RFC 3339, UTC.
    pub begun: String,
    /// How long it took, seconds.
    pub seconds: f64,
    /// Share of the machine that processes outside this run used meanwhile, 0 to 1.
    pub other_load: f64,
    /// Its measures, or why there are none.
    pub outcome: Outcome,
}

/// The two ways in which a workload runs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Each operation alone, with quiet before and after it.
    SlowMotion,
    /// As a person or a clock would do it.
    Normal,
}

/// How a trial ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Measures, in the order in which they should be read.
    Measured(Vec<Measure>),
    /// The peer or the workload cannot do this, with the reason.
    Skipped(String),
    /// It was tried and failed, with the reason. The report names it.
    Failed(String),
}

/// One quantity with its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// Which quantity, from the list in [`quantity`].
    pub quantity: String,
    /// Which operation of the workload, or which setting: "letter", "3 hogs"; empty for the whole.
    pub part: String,
    /// "ms", "bytes", "packets", "share", "dB", "fps", "s".
    pub unit: String,
    /// Whether less is better.
    pub better: Better,
    /// One for each repetition.
    pub samples: Vec<f64>,
}

impl Measure {
    /// A measure of any direction.
    pub fn new(
        quantity: &str,
        part: &str,
        unit: &str,
        better: Better,
        samples: impl IntoIterator<Item = f64>,
    ) -> Measure {
        let samples = samples.into_iter().collect();
        Measure { quantity: quantity.into(), part: part.into(), unit: unit.into(), better, samples }
    }

    /// A measure of which less is better.
    pub fn lower(
        quantity: &str,
        part: &str,
        unit: &str,
        samples: impl IntoIterator<Item = f64>,
    ) -> Measure {
        Measure::new(quantity, part, unit, Better::Lower, samples)
    }

    /// A measure of which more is better.
    pub fn higher(
        quantity: &str,
        part: &str,
        unit: &str,
        samples: impl IntoIterator<Item = f64>,
    ) -> Measure {
        Measure::new(quantity, part, unit, Better::Higher, samples)
    }

    /// A setting or a fact.
    pub fn fact(quantity: &str, part: &str, unit: &str, value: f64) -> Measure {
        Measure::new(quantity, part, unit, Better::Neither, [value])
    }
}

/// Which direction of a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Latency, bytes, CPU.
    Lower,
    /// Frame rate, fidelity.
    Higher,
    /// A setting or a fact.
    Neither,
}

/// Names of quantities that several workloads share, so that the report can find them.
pub mod quantity {
    /// First to last packet of an operation (the papers' latency), ms.
    pub const PACKETS_MS: &str = "packets_ms";
    /// Input to the first changed pixel on the client's own screen, ms.
    pub const PHOTON_MS: &str = "photon_ms";
    /// Input until at least 99 % of the pixels stay within 16 levels of the final picture, ms.
    pub const VISIBLE_MS: &str = "visible_ms";
    /// Input until the client's picture equals the server's for good, ms; no sample where it never
    /// does.
    pub const EXACT_MS: &str = "exact_ms";
    /// Share of bit-exact pixels when quiet, 0 to 1.
    pub const EXACT_SHARE: &str = "exact_share";
    /// Peak signal-to-noise ratio when quiet, dB; 99 stands for identical.
    pub const PSNR_DB: &str = "psnr_db";
    /// Bytes of IP packets to the viewer.
    pub const BYTES_DOWN: &str = "bytes_down";
    /// Bytes of IP packets from the viewer.
    pub const BYTES_UP: &str = "bytes_up";
    /// Packets to the viewer.
    pub const PACKETS_DOWN: &str = "packets_down";
    /// Packets from the viewer.
    pub const PACKETS_UP: &str = "packets_up";
    /// CPU of the display system on the server (applications not counted), ms.
    pub const CPU_SERVER_MS: &str = "cpu_server_ms";
    /// CPU of the applications, ms.
    pub const CPU_APPS_MS: &str = "cpu_apps_ms";
    /// CPU of the viewer with its X server, ms.
    pub const CPU_CLIENT_MS: &str = "cpu_client_ms";
    /// Memory of the display system on the server at the end, bytes.
    pub const MEMORY_SERVER: &str = "memory_server";
    /// Memory of the viewer with its X server at the end, bytes.
    pub const MEMORY_CLIENT: &str = "memory_client";
    /// Delivered frames at speed over the slow-motion reference (the papers' video quality), 0 to
    /// 1.
    pub const VIDEO_QUALITY: &str = "video_quality";
    /// Frames that reached the client's screen whole, a second.
    pub const FRAME_RATE: &str = "frame_rate";
}
