//! The list of figures: which quantity of which workload, how it is drawn, and which figure of the literature it redraws.
//! Beside sections.rs, which draws them in this order.
//! Knows what each means; never a result.

use super::papers::Paper;
use crate::results::{Form, quantity};

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One panel for each link and part, one bar for each peer.
    Bars,
    /// The same of all parts together.
    Pooled,
    /// One panel for each link, curves over the number in the part; the unit of that number.
    Over(&'static str),
    /// One panel for each group of links that differ in loss alone.
    Loss,
    /// One panel for each link and part, the distribution of each peer.
    Distribution,
}

/// One figure of one quantity.
pub(super) struct Figure {
    /// Of which workload; a star is any.
    pub(super) workload: &'static str,
    /// Which quantity.
    pub(super) quantity: &'static str,
    /// Drawn as what.
    pub(super) kind: Kind,
    /// In which form it says most.
    pub(super) form: Form,
    /// A few words.
    pub(super) title: &'static str,
    /// What is measured, in a sentence.
    pub(super) what: &'static str,
    /// Which figure of the literature it redraws.
    pub(super) after: Option<(Paper, &'static str)>,
}

/// Fidelity is seen best when quiet.
const fn is_quiet(name: &str) -> bool {
    matches!(name.as_bytes(), b"exact_share" | b"exact_ms")
}

/// Its parts in the order in which a line of the list reads best.
const fn figure(
    of: (&'static str, &'static str),
    kind: Kind,
    after: Option<(Paper, &'static str)>,
    title: &'static str,
    what: &'static str,
) -> Figure {
    // Slow motion for operations one by one; normal speed for what goes on by itself, and for what it all costs.
    let form = match of.0.as_bytes() {
        b"video" | b"type" | b"animation" | b"3d" | b"users" => Form::Normal,
        _ if matches!(kind, Kind::Pooled) && !is_quiet(of.1) => Form::Normal,
        _ => Form::SlowMotion,
    };
    Figure { workload: of.0, quantity: of.1, kind, form, title, what, after }
}

const VISIBLE: &str = "From the key or click on the client to the moment from which at least 99 % of the pixels of the \
     client’s own screen stay within 16 levels of the final picture.";
const PACKETS: &str = "From the first packet that the viewer sends to the last that it receives for the operation, as \
     the papers measure; late refinement of the picture counts.";
const PHOTON: &str = "From the key or click on the client to the first changed pixel on the client’s own screen.";
const LETTER: &str =
    "From each repeat of a held key to its letter on the client’s own screen, beside programs that compute.";
const DOWN: &str = "Bytes of IP packets from server to viewer.";
const SEEN: &str = "Whole frames on the client’s screen, a second.";
const WHOLE: &str = "Frames that reached the client’s screen whole over those of the film, less where the film took longer \
     than it should, over the same in slow motion; 100 % is every frame in time.";

use Kind::{Bars, Distribution, Loss, Over, Pooled};
use Paper::{LaiNieh, Thinc, VirtualGl, WongSeltzer, YangNieh};

/// Every figure, in the order of the page.
pub(super) const FIGURES: &[Figure] = &[
    figure(("web", quantity::VISIBLE_MS), Bars, Some((Thinc, "Figure 3")), "Web pages: time to see a page", VISIBLE),
    figure(("web", quantity::VISIBLE_MS), Distribution, None, "Web pages: share of pages seen within a time", VISIBLE),
    figure(
        ("web", quantity::VISIBLE_MS),
        Loss,
        Some((YangNieh, "Figure 2")),
        "Web pages over loss: time to see a page",
        VISIBLE,
    ),
    figure(
        ("web", quantity::PACKETS_MS),
        Bars,
        Some((LaiNieh, "Figure 9")),
        "Web pages: first to last packet",
        PACKETS,
    ),
    figure(("web", quantity::BYTES_DOWN), Bars, Some((Thinc, "Figure 2")), "Web pages: bytes of a page", DOWN),
    figure(
        ("web", quantity::BYTES_DOWN),
        Loss,
        Some((YangNieh, "Figure 3")),
        "Web pages over loss: bytes of a page",
        DOWN,
    ),
    figure(
        ("web", "run_s"),
        Bars,
        None,
        "Web pages: the whole run",
        "All pages as fast as the browser turns them, to the last one seen.",
    ),
    figure(
        ("web", "pages_shown"),
        Bars,
        None,
        "Web pages: pages that came whole",
        "Pages that were read whole off the client’s screen, of all.",
    ),
    figure(("scroll", quantity::VISIBLE_MS), Bars, None, "Scrolling: time to see the next screenful", VISIBLE),
    figure(("scroll", quantity::BYTES_DOWN), Bars, None, "Scrolling: bytes of a screenful", DOWN),
    figure(
        ("latency", quantity::PACKETS_MS),
        Bars,
        Some((LaiNieh, "Figures 3 to 7")),
        "Five operations: first to last packet",
        PACKETS,
    ),
    figure(("latency", quantity::PHOTON_MS), Bars, None, "Five operations: input to first changed pixel", PHOTON),
    figure(("latency", quantity::VISIBLE_MS), Bars, None, "Five operations: time to see the result", VISIBLE),
    figure(("latency", quantity::BYTES_DOWN), Bars, Some((LaiNieh, "Figure 2")), "Five operations: bytes", DOWN),
    figure(("video", quantity::VIDEO_QUALITY), Bars, Some((Thinc, "Figure 5")), "Video quality", WHOLE),
    figure(("video", quantity::VIDEO_QUALITY), Loss, None, "Video quality over loss", WHOLE),
    figure(("video", quantity::FRAME_RATE), Bars, None, "Video: frames that a person sees", SEEN),
    figure(("video", quantity::BYTES_DOWN), Bars, Some((Thinc, "Figure 4")), "Video: bytes", DOWN),
    figure(
        ("video", "mbit_s"),
        Bars,
        Some((Thinc, "§6.3")),
        "Video: rate on the link",
        "Bits of IP packets from server to viewer in a second of playback. A system that drops frames needs less.",
    ),
    figure(
        ("video", "frame_ms"),
        Distribution,
        None,
        "Video, frame by frame: share of frames seen within a time",
        "From the step to the next frame to the moment at which all of it is on the client’s screen.",
    ),
    figure(("edit", quantity::VISIBLE_MS), Bars, None, "Drawing: time to see a stroke", VISIBLE),
    figure(
        ("edit", "completion_s"),
        Bars,
        Some((Thinc, "§6.3")),
        "Drawing: the whole session",
        "Time to replay the recorded session to its last visible change.",
    ),
    figure(("edit", quantity::BYTES_DOWN), Bars, Some((Thinc, "§6.3")), "Drawing: bytes", DOWN),
    figure(("type", quantity::PHOTON_MS), Over("hogs"), None, "Typing under load: key to letter", LETTER),
    figure(
        ("type", quantity::PHOTON_MS),
        Distribution,
        None,
        "Typing under load: share of letters seen within a time",
        LETTER,
    ),
    figure(
        ("type", "stall_mean_ms"),
        Over("hogs"),
        Some((WongSeltzer, "Figure 3")),
        "Typing under load: mean stall",
        "What the time between two changes of the screen has beyond the 50 ms of the key repeat; changes in time count as stalls of nothing.",
    ),
    figure(
        ("type", "stall_ms"),
        Over("hogs"),
        None,
        "Typing under load: longest stall",
        "The longest of what the time between two changes of the screen has beyond the 50 ms of the key repeat.",
    ),
    figure(
        ("type", "jitter_ms"),
        Over("hogs"),
        Some((WongSeltzer, "Figure 4")),
        "Typing under load: jitter",
        "Standard deviation of the time between two changes of the screen while a key repeats every 50 ms.",
    ),
    figure(
        ("animation", "frame_bytes_first"),
        Over("frames"),
        Some((WongSeltzer, "Figure 7")),
        "Animation: bytes of a frame, first time round",
        "Bytes from server to viewer for a frame of the loop while it is shown for the first time.",
    ),
    figure(
        ("animation", "frame_bytes_later"),
        Over("frames"),
        Some((WongSeltzer, "Figure 7")),
        "Animation: bytes of a frame, later loops",
        "The same once the loop has been shown: a cache that holds the loop lets next to nothing through.",
    ),
    figure(("animation", quantity::FRAME_RATE), Over("frames"), None, "Animation: frames that a person sees", SEEN),
    figure(
        ("dropout", quantity::VISIBLE_MS),
        Over("s"),
        Some((YangNieh, "Figure 9")),
        "Link cut: time to see the page",
        "From the key to the page on the client’s screen, the cut in between included.",
    ),
    figure(
        ("dropout", "recovery_ms"),
        Over("s"),
        None,
        "Link cut: time to recover",
        "From the end of the cut to the page on the client’s screen.",
    ),
    figure(("dropout", quantity::BYTES_DOWN), Over("s"), Some((YangNieh, "Figure 10")), "Link cut: bytes", DOWN),
    figure(("3d", quantity::FRAME_RATE), Bars, Some((VirtualGl, "§5")), "3D: frames that a person sees", SEEN),
    figure(
        ("3d", "cpu_limited_rate"),
        Bars,
        Some((VirtualGl, "§3")),
        "3D: frame rate if the server’s CPU were the only limit",
        "Frame rate over the share of the server’s processors in use.",
    ),
    figure(
        ("3d", "network_limited_rate"),
        Bars,
        Some((VirtualGl, "§3")),
        "3D: frame rate if the link were the only limit",
        "Rate of the link over the size of a frame.",
    ),
    figure(
        ("3d", "frame_bytes"),
        Bars,
        Some((VirtualGl, "§3")),
        "3D: bytes of a frame",
        "Bytes to the viewer over the frames that were seen.",
    ),
    figure(("users", quantity::PHOTON_MS), Over("users"), None, "Users at once: input to first changed pixel", PHOTON),
    figure(("users", quantity::VISIBLE_MS), Over("users"), None, "Users at once: time to see the result", VISIBLE),
    figure(
        ("users", "memory_user"),
        Over("users"),
        Some((WongSeltzer, "Compulsory Load")),
        "Users at once: memory for each",
        "Memory of the display system on the server over the number of users, without applications.",
    ),
    figure(
        ("users", "cpu_user_ms"),
        Over("users"),
        None,
        "Users at once: CPU for each",
        "CPU time of the display system on the server for one user and one second of typing, without applications.",
    ),
    figure(
        ("*", quantity::EXACT_SHARE),
        Pooled,
        None,
        "Fidelity: bit-exact pixels",
        "Share of the client’s pixels that equal the server’s once the link is quiet; all operations together.",
    ),
    figure(
        ("*", quantity::EXACT_MS),
        Pooled,
        None,
        "Fidelity: time to exact",
        "From the input until the client’s picture equals the server’s for good; operations that never became exact give no sample.",
    ),
    figure(
        ("*", quantity::CPU_SERVER_MS),
        Pooled,
        None,
        "CPU of the server",
        "CPU time of the display system on the server for one operation or run, without the applications.",
    ),
    figure(
        ("*", quantity::CPU_CLIENT_MS),
        Pooled,
        None,
        "CPU of the client",
        "CPU time of the viewer and its X server for one operation or run.",
    ),
    figure(
        ("*", quantity::MEMORY_SERVER),
        Pooled,
        Some((WongSeltzer, "Compulsory Load")),
        "Memory of the server",
        "Memory of the display system on the server at the end, without the applications.",
    ),
    figure(
        ("*", quantity::MEMORY_CLIENT),
        Pooled,
        None,
        "Memory of the client",
        "Memory of the viewer with its X server at the end.",
    ),
];
