//! What the literature measured, to stand beside what was measured here.
//! Only numbers that stand in the papers' text, with the place and the conditions: most of their figures are images, and
//! nothing is read off an image here. Knows quotations; never results.

/// A paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paper {
    /// THINC itself.
    Thinc,
    /// Wide-area thin clients.
    LaiNieh,
    /// Wireless thin clients.
    YangNieh,
    /// Operating systems under thin clients.
    WongSeltzer,
    /// 3D to remote screens.
    VirtualGl,
}

impl Paper {
    /// Every paper, by year.
    pub(super) const ALL: [Paper; 5] =
        [Paper::WongSeltzer, Paper::LaiNieh, Paper::YangNieh, Paper::Thinc, Paper::VirtualGl];

    /// As captions name it.
    pub(super) fn short(self) -> &'static str {
        match self {
            Paper::Thinc => "Baratto, Nieh & Kim 2004",
            Paper::LaiNieh => "Lai & Nieh 2002",
            Paper::YangNieh => "Yang et al. 2003",
            Paper::WongSeltzer => "Wong & Seltzer 2000",
            Paper::VirtualGl => "VirtualGL Project 2008",
        }
    }

    /// As a list of references names it.
    pub(super) fn full(self) -> &'static str {
        match self {
            Paper::Thinc => {
                "R. Baratto, J. Nieh, L. Kim: THINC: A Remote Display Architecture for Thin-Client Computing. \
                 Columbia University, CUCS-027-04, 2004."
            }
            Paper::LaiNieh => "A. Lai, J. Nieh: Limits of Wide-Area Thin-Client Computing. SIGMETRICS 2002.",
            Paper::YangNieh => {
                "S. J. Yang, J. Nieh, S. Krishnappa, A. Mohla, M. Sajjadpour: Web Browsing Performance of Wireless \
                 Thin-client Computing. WWW 2003."
            }
            Paper::WongSeltzer => {
                "A. Y. Wong, M. Seltzer: Operating System Support for Multi-User, Remote, Graphical Interaction. \
                 USENIX Annual Technical Conference 2000, pp. 183–197."
            }
            Paper::VirtualGl => {
                "The VirtualGL Project: A Study of the Performance of VirtualGL 2.1 and TurboVNC 0.4, version 1d, 2008."
            }
        }
    }
}

/// One number of a paper.
pub(super) struct Quote {
    /// The workload beside which it stands.
    pub(super) workload: &'static str,
    /// Where it is from.
    pub(super) paper: Paper,
    /// Section or figure whose text says it.
    pub(super) place: &'static str,
    /// The system.
    pub(super) system: &'static str,
    /// The quantity in words.
    pub(super) quantity: &'static str,
    /// The number with its unit, as exact as the paper is.
    pub(super) value: &'static str,
    /// Under which conditions.
    pub(super) conditions: &'static str,
}

const fn quote(
    workload: &'static str,
    (paper, place): (Paper, &'static str),
    conditions: &'static str,
    quantity: &'static str,
    system: &'static str,
    value: &'static str,
) -> Quote {
    Quote { workload, paper, place, system, quantity, value, conditions }
}

const INTERNET2: &str = "1024x768, 100 Mbit/s, 66 ms, 54 pages twice, Netscape 4.72, 8-bit colour (Sun Ray 24-bit)";
const INTERNET2_VIDEO: &str = "834 frames of 352x240 at 24 fps, 100 Mbit/s, 66 ms";
const THINC_WEB: &str = "1024x768, 54 pages, Mozilla 1.6, 100 Mbit/s, LAN";
const THINC_WAN: &str = "1024x768, 54 pages, Mozilla 1.6, 100 Mbit/s, 66 ms, 1 MB TCP window";
const THINC_VIDEO: &str = "34.75 s of 352x240 shown at full screen, 1024x768, LAN";
const WIRELESS: &str = "6 Mbit/s (802.11b), no loss, 54 pages, Netscape 4.72, no cache";
const WIRELESS_LOSS: &str = "6 Mbit/s (802.11b), random loss, 54 pages, Netscape 4.72, no cache";
const WIRELESS_CUT: &str = "6 Mbit/s (802.11b), one page of 155 KB, link cut after the request";
const LAN_10: &str = "10 Mbit/s Ethernet, Netscape or Internet Explorer 4";

/// Every quotation, in the order of workloads and years.
pub(super) const QUOTES: &[Quote] = &[
    quote("web", (Paper::LaiNieh, "§3.2.1"), INTERNET2, "average page latency", "VNC 3.3.3", "410 ms"),
    quote("web", (Paper::LaiNieh, "§3.1"), INTERNET2, "average page latency", "X11R6", "over 6 s"),
    quote("web", (Paper::LaiNieh, "§3.2.1"), INTERNET2, "bytes per page", "Citrix ICA", "30 KB"),
    quote("web", (Paper::LaiNieh, "§3.2.1"), INTERNET2, "bytes per page", "Microsoft RDP", "41 KB"),
    quote("web", (Paper::YangNieh, "§3.1, Figure 2"), WIRELESS, "average page latency", "VNC 3.3.3", "about 460 ms"),
    quote("web", (Paper::YangNieh, "§3.1, Figure 2"), WIRELESS, "average page latency", "Citrix ICA", "about 780 ms"),
    quote("web", (Paper::YangNieh, "§3.1, Figure 2"), WIRELESS, "average page latency", "Sun Ray", "about 830 ms"),
    quote(
        "web",
        (Paper::YangNieh, "§3.1, Figure 2"),
        WIRELESS,
        "average page latency",
        "the browser itself",
        "under 250 ms",
    ),
    quote("web", (Paper::YangNieh, "§3.1"), WIRELESS_LOSS, "highest loss at which all pages came", "Sun Ray", "28 %"),
    quote(
        "web",
        (Paper::YangNieh, "§3.1"),
        WIRELESS_LOSS,
        "highest loss at which all pages came",
        "the browser itself",
        "12 %",
    ),
    quote("web", (Paper::YangNieh, "§3.1"), WIRELESS_LOSS, "highest loss at which all pages came", "Citrix ICA", "6 %"),
    quote(
        "web",
        (Paper::Thinc, "§6.3, Figure 3"),
        THINC_WEB,
        "page latency of the others over THINC’s",
        "all measured",
        "1.25 to 1.6",
    ),
    quote(
        "web",
        (Paper::Thinc, "§6.3, Figure 3"),
        THINC_WAN,
        "page latency of the others over THINC’s",
        "all measured",
        "1.8 to 5",
    ),
    quote("web", (Paper::Thinc, "§6.3, Figure 2"), THINC_WEB, "bytes per page over THINC’s", "Sun Ray", "15"),
    quote(
        "latency",
        (Paper::LaiNieh, "§3.1, Figures 3–7"),
        "LAN and 66 ms",
        "latency of almost all operations",
        "Sun Ray",
        "under 100 ms",
    ),
    quote(
        "latency",
        (Paper::LaiNieh, "§3.1, Figure 7"),
        "66 ms",
        "latency of the image",
        "Sun Ray",
        "a little over 150 ms",
    ),
    quote(
        "latency",
        (Paper::LaiNieh, "§3.2.1, Figures 3–7"),
        "66 ms",
        "longest latency of an operation",
        "Citrix ICA, Microsoft RDP",
        "over 400 ms",
    ),
    quote(
        "latency",
        (Paper::LaiNieh, "§3.2.2"),
        "66 ms",
        "added by the wide area, all but the letter",
        "X11R6",
        "over 130 ms",
    ),
    quote(
        "latency",
        (Paper::LaiNieh, "§3.1"),
        "from other studies",
        "threshold of perception",
        "people",
        "50 to 150 ms",
    ),
    quote("video", (Paper::LaiNieh, "§3.1, Figure 12"), INTERNET2_VIDEO, "video quality", "Sun Ray", "about 70 %"),
    quote("video", (Paper::LaiNieh, "§3.1, Figure 12"), INTERNET2_VIDEO, "video quality", "all others", "under 35 %"),
    quote("video", (Paper::LaiNieh, "§3.2.2, Figure 12"), INTERNET2_VIDEO, "video quality", "X11R6", "11 %"),
    quote("video", (Paper::LaiNieh, "§3.2.1"), INTERNET2_VIDEO, "bandwidth", "Sun Ray", "about 33 Mbit/s"),
    quote("video", (Paper::Thinc, "§6.3, Figure 5"), THINC_VIDEO, "video quality", "THINC, X", "100 %"),
    quote("video", (Paper::Thinc, "§6.3, Figure 5"), THINC_VIDEO, "video quality", "Citrix ICA", "46 %"),
    quote("video", (Paper::Thinc, "§6.3, Figure 5"), THINC_VIDEO, "video quality", "Microsoft RDP", "23 %"),
    quote("video", (Paper::Thinc, "§6.3, Figure 5"), THINC_VIDEO, "video quality", "VNC 3.3.7", "4 %"),
    quote("video", (Paper::Thinc, "§6.3, Figure 4"), THINC_VIDEO, "bandwidth", "THINC, X", "about 24 Mbit/s"),
    quote("video", (Paper::Thinc, "§6.3, Figure 4"), THINC_VIDEO, "bandwidth", "Citrix ICA", "19 Mbit/s"),
    quote("video", (Paper::Thinc, "§6.3, Figure 4"), THINC_VIDEO, "bandwidth", "VNC 3.3.7", "13 Mbit/s"),
    quote("video", (Paper::Thinc, "§6.3, Figure 4"), THINC_VIDEO, "bandwidth", "Microsoft RDP", "11 Mbit/s"),
    quote(
        "edit",
        (Paper::Thinc, "§6.3"),
        "one minute in The Gimp 1.2, Xnee, LAN",
        "time to replay",
        "THINC, X",
        "one minute",
    ),
    quote(
        "edit",
        (Paper::Thinc, "§6.3"),
        "one minute in The Gimp 1.2, Xnee, LAN",
        "bytes over THINC’s",
        "X",
        "about 5",
    ),
    quote("edit", (Paper::Thinc, "§6.3"), "one minute in The Gimp 1.2, Xnee, 66 ms", "gave up after", "X", "20 s"),
    quote(
        "type",
        (Paper::WongSeltzer, "Dynamic Latency, Figure 3"),
        "20 Hz key repeat, no load",
        "time between messages",
        "Windows TSE, Linux with X",
        "50 ms",
    ),
    quote(
        "type",
        (Paper::WongSeltzer, "Dynamic Latency, Figure 3"),
        "20 Hz key repeat, 333 MHz Celeron",
        "hogs at which it became unusable",
        "Windows TSE",
        "15",
    ),
    quote(
        "type",
        (Paper::WongSeltzer, "Dynamic Latency"),
        "20 Hz key repeat, under load",
        "echo in extreme cases",
        "Windows TSE, Linux with X",
        "up to 1 s late",
    ),
    quote(
        "animation",
        (Paper::WongSeltzer, "Dynamic Load, Figure 5"),
        LAN_10,
        "10 frames of 100x100 at 20 Hz",
        "X",
        "2.0 Mbit/s",
    ),
    quote(
        "animation",
        (Paper::WongSeltzer, "Dynamic Load, Figure 5"),
        LAN_10,
        "10 frames of 100x100 at 20 Hz",
        "LBX",
        "0.8 Mbit/s",
    ),
    quote(
        "animation",
        (Paper::WongSeltzer, "Dynamic Load, Figure 5"),
        LAN_10,
        "10 frames of 100x100 at 20 Hz",
        "Microsoft RDP",
        "0.01 Mbit/s",
    ),
    quote(
        "animation",
        (Paper::WongSeltzer, "Cache Pathology, Figure 7"),
        LAN_10,
        "25 to 65 frames, 1.5 MB cache",
        "Microsoft RDP",
        "0.01 Mbit/s",
    ),
    quote(
        "animation",
        (Paper::WongSeltzer, "Cache Pathology, Figure 7"),
        LAN_10,
        "more than 65 frames, 1.5 MB cache",
        "Microsoft RDP",
        "0.96 Mbit/s",
    ),
    quote(
        "dropout",
        (Paper::YangNieh, "§3.2, Figure 9"),
        WIRELESS_CUT,
        "page latency without a cut",
        "all",
        "about 5 s",
    ),
    quote(
        "dropout",
        (Paper::YangNieh, "§3.2, Figure 9"),
        WIRELESS_CUT,
        "longest cut survived",
        "Sun Ray",
        "1280 s (the longest tried)",
    ),
    quote("dropout", (Paper::YangNieh, "§3.2, Figure 9"), WIRELESS_CUT, "longest cut survived", "VNC 3.3.3", "800 s"),
    quote(
        "dropout",
        (Paper::YangNieh, "§3.2, Figure 9"),
        WIRELESS_CUT,
        "longest cut survived",
        "the browser itself",
        "220 s",
    ),
    quote("dropout", (Paper::YangNieh, "§3.2, Figure 9"), WIRELESS_CUT, "longest cut survived", "Citrix ICA", "13 s"),
    quote(
        "3d",
        (Paper::VirtualGl, "§5.2"),
        "GLXSpheres 1240x900, Linux to Linux",
        "frame rate",
        "TurboVNC 0.4",
        "28.44 fps",
    ),
    quote(
        "3d",
        (Paper::VirtualGl, "§5.2"),
        "GLXSpheres 1240x900, Linux to Linux",
        "frame rate",
        "TurboVNC 0.3.3",
        "23.90 fps",
    ),
    quote(
        "3d",
        (Paper::VirtualGl, "§5.5"),
        "GLXSpheres 1240x900, Linux to Windows, 2 processors",
        "frame rate",
        "VirtualGL 2.1",
        "24.01 fps",
    ),
    quote(
        "3d",
        (Paper::VirtualGl, "§5.5"),
        "GLXSpheres 1240x900, Linux to Windows, 2 processors",
        "CPU-limited frame rate",
        "VirtualGL 2.1",
        "54.82 fps",
    ),
    quote(
        "users",
        (Paper::WongSeltzer, "Compulsory Load"),
        "idle session",
        "memory of one user",
        "Linux with X (in.rshd, xterm, bash)",
        "752 KB",
    ),
    quote(
        "users",
        (Paper::WongSeltzer, "Compulsory Load"),
        "idle session",
        "memory of one user",
        "Windows TSE",
        "2820 KB",
    ),
    quote(
        "users",
        (Paper::VirtualGl, "§5.20"),
        "two clients at once, 2 processors",
        "frame rate of each",
        "VirtualGL 2.1",
        "23 fps at 89 Mbit/s",
    ),
];

/// The quotations of one workload.
pub(super) fn of(workload: &str) -> impl Iterator<Item = &'static Quote> {
    QUOTES.iter().filter(move |quote| quote.workload == workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quotation_says_where_it_stands_and_under_which_conditions() {
        for quote in QUOTES {
            for text in [quote.place, quote.system, quote.quantity, quote.value, quote.conditions] {
                assert!(!text.is_empty(), "{} of {:?}", quote.quantity, quote.paper);
            }
            // The text of Wong and Seltzer numbers no sections, it names them.
            let placed = quote.place.contains('§') || quote.paper == Paper::WongSeltzer;
            assert!(placed, "{} names no section", quote.place);
            let spoken = quote.value.contains("minute");
            assert!(spoken || quote.value.chars().any(|c| c.is_ascii_digit()), "{} is no number", quote.value);
        }
        assert!(Paper::ALL.iter().all(|p| QUOTES.iter().any(|q| q.paper == *p)), "a paper is cited and not quoted");
    }
}
