//! Numbers and names as people read them.
//! Below page, figures, tables and summary, so that a quantity has one name and one rounding.
//! Knows the names of results.rs; never what was measured.

use crate::results::{Form, quantity};

/// In place of NaN and infinity, which the page never prints.
const NO_NUMBER: &str = "no number";
/// Identical pictures have no signal-to-noise ratio; results have 99 dB for them.
const IDENTICAL_DB: f64 = 99.0;

/// A value with its unit: "215 ms", "1.24 MB", "78 %".
pub(crate) fn value(value: f64, unit: &str) -> String {
    if !value.is_finite() {
        return NO_NUMBER.to_owned();
    }
    match unit {
        "ms" if value.abs() >= 60_000.0 => format!("{} s", digits(value / 1000.0)),
        "ms" if value.abs() >= 9_950.0 => format!("{} s", digits(value / 1000.0)),
        "ms" => format!("{} ms", digits(value)),
        "bytes" => bytes(value),
        "share" => percent(value),
        "dB" if value >= IDENTICAL_DB => "identical".to_owned(),
        "" => digits(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// Three significant digits, without the zeros that say nothing before the point.
fn digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        "0".to_owned()
    } else if size >= 99.95 {
        group(value.round())
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else if size >= 0.0095 {
        trim(format!("{value:.2}"))
    } else {
        trim(format!("{value:.4}"))
    }
}

fn trim(text: String) -> String {
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// "12 345", with narrow spaces that do not break.
fn group(value: f64) -> String {
    let plain = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (index, digit) in plain.chars().enumerate() {
        if index > 0 && (plain.len() - index).is_multiple_of(3) && plain.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

fn bytes(value: f64) -> String {
    let size = value.abs();
    if size >= 999.5e6 {
        format!("{} GB", digits(value / 1e9))
    } else if size >= 999_500.0 {
        format!("{} MB", digits(value / 1e6))
    } else if size >= 999.5 {
        format!("{} KB", digits(value / 1e3))
    } else {
        format!("{} B", digits(value))
    }
}

/// A share of one; never rounded up to the whole, since 99.99 % of the pixels are not all of them.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 100.0 && percent > 99.0 {
        return format!("{} %", trim(format!("{:.2}", (percent * 100.0).floor() / 100.0)));
    }
    let text = if percent.abs() >= 9.95 { format!("{percent:.0}") } else { digits(percent) };
    format!("{text} %")
}

/// A factor: "1.08", "13".
pub(crate) fn factor(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "many times".to_owned();
    }
    let size = ratio.abs();
    if size >= 99.5 {
        group(ratio.round())
    } else if size >= 9.95 {
        format!("{ratio:.1}")
    } else {
        format!("{ratio:.2}")
    }
}

/// The name of a quantity for people.
pub(crate) fn quantity_name(name: &str) -> String {
    match name {
        quantity::PACKETS_MS => "first to last packet",
        quantity::PHOTON_MS => "input to first changed pixel",
        "photon_mean_ms" => "mean input to first changed pixel",
        "photon_max_ms" => "longest input to first changed pixel",
        quantity::VISIBLE_MS => "input to visible",
        quantity::EXACT_MS => "time to exact",
        quantity::EXACT_SHARE => "bit-exact pixels",
        quantity::PSNR_DB => "PSNR",
        quantity::BYTES_DOWN => "bytes to the viewer",
        quantity::BYTES_UP => "bytes from the viewer",
        quantity::PACKETS_DOWN => "packets to the viewer",
        quantity::PACKETS_UP => "packets from the viewer",
        quantity::CPU_SERVER_MS => "CPU time of the server",
        quantity::CPU_APPS_MS => "CPU time of the applications",
        quantity::CPU_CLIENT_MS => "CPU time of the viewer",
        quantity::MEMORY_SERVER => "memory of the server",
        quantity::MEMORY_CLIENT => "memory of the viewer",
        quantity::VIDEO_QUALITY => "video quality",
        quantity::FRAME_RATE => "frame rate",
        "run_s" => "time of the whole run",
        "completion_s" => "time to the end of the session",
        "cpu_user_ms" => "CPU time of the server for each user",
        "memory_user" => "memory of the server for each user",
        "memory_viewer" => "memory of each viewer",
        "stall_ms" => "longest stall",
        "stall_mean_ms" => "mean stall",
        "jitter_ms" => "jitter",
        "recovery_ms" => "recovery after the cut",
        "cpu_limited_rate" => "frame rate that the CPU allows",
        "network_limited_rate" => "frame rate that the link allows",
        "frame_bytes" | "bytes_per_frame" => "bytes of a frame",
        "frame_bytes_first" => "bytes of a frame, first time round",
        "frame_bytes_later" => "bytes of a frame, later loops",
        "mbit_s" => "rate on the link",
        "drawn_rate" => "frames that the program drew",
        "spoiled_share" => "frames that nobody saw",
        "torn_share" => "frames that were only seen torn",
        "cpu_frame_ms" => "CPU time of the server for a frame",
        "cpu_x_frame_ms" => "of it, the X server's",
        "cpu_session_frame_ms" => "of it, the session's",
        "cpu_program_frame_ms" => "CPU time of the program for a frame",
        "cpu_viewer_frame_ms" => "CPU time of the viewer for a frame",
        "rest_exact_share" => "bit-exact pixels 1 s after the last frame",
        "start_ms" => "start of the program to its first frame",
        "lost_motions" => "motions that no frame answered",
        "server_cpu_share" => "share of the processors that the server used",
        other => {
            let units = ["_ms", "_mb", "_s"];
            let bare = units.iter().fold(other, |name, unit| name.trim_end_matches(unit));
            return bare.replace('_', " ");
        }
    }
    .to_owned()
}

/// The form of a workload.
pub(crate) fn form_name(form: Form) -> &'static str {
    match form {
        Form::SlowMotion => "slow motion",
        Form::Normal => "normal speed",
    }
}

/// The number with which a part begins or ends: "3 hogs" is 3, "no hogs" is 0, "loss 10%" is 10.
pub(crate) fn number_in(part: &str) -> Option<f64> {
    if part.split_whitespace().next() == Some("no") {
        return Some(0.0);
    }
    let start = part.find(|c: char| c.is_ascii_digit())?;
    let rest = &part[start..];
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// The words of a part without its number, in the plural: "3 hogs", "1 hog" and "no hogs" are
/// "hogs".
pub(crate) fn words_in(part: &str) -> String {
    let kept: String = part.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
    let words: Vec<&str> = kept.split_whitespace().filter(|word| *word != "no").collect();
    match words.last() {
        Some(last) if words.len() == 1 && last.len() > 2 && !last.ends_with('s') => {
            format!("{last}s")
        }
        _ => words.join(" "),
    }
}

/// Longest text of a reason in a list; some reasons include the ends of logs.
const REASON_CHARACTERS: usize = 240;

/// A reason in one line, and all of it where that is more.
pub(crate) fn reason(why: &str) -> (String, Option<&str>) {
    let why = why.trim();
    let first = why.lines().next().unwrap_or_default().trim_end();
    let short: String = first.chars().take(REASON_CHARACTERS).collect();
    if short.len() == why.len() {
        return (short, None);
    }
    (if short.len() < first.len() { format!("{short}…") } else { short }, Some(why))
}

/// "1 trial", "3 trials".
pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_carry_their_unit() {
        let cases = [
            (0.0, "ms", "0 ms"),
            (0.71, "ms", "0.71 ms"),
            (9.96, "ms", "9.96 ms"),
            (76.25, "ms", "76.2 ms"),
            (215.4, "ms", "215 ms"),
            (1343.0, "ms", "1343 ms"),
            (90_000.0, "ms", "90.0 s"),
            (899.0, "bytes", "899 B"),
            (5_850_000.0, "bytes", "5.85 MB"),
            (165_000.0, "bytes", "165 KB"),
            (2.5e9, "bytes", "2.5 GB"),
            (1.0, "share", "100 %"),
            (0.99999, "share", "99.99 %"),
            (0.7812, "share", "78 %"),
            (0.004, "share", "0.4 %"),
            (99.0, "dB", "identical"),
            (38.2, "dB", "38.2 dB"),
            (24.0, "fps", "24.0 fps"),
            (123_456.0, "packets", "123\u{202f}456 packets"),
            (f64::NAN, "ms", "no number"),
            (f64::INFINITY, "bytes", "no number"),
        ];
        for (number, unit, text) in cases {
            assert_eq!(value(number, unit), text);
        }
        assert_eq!(
            [factor(1.084), factor(12.34), factor(f64::INFINITY)],
            ["1.08", "12.3", "many times"]
        );
    }

    #[test]
    fn reasons_are_one_line_and_keep_the_rest() {
        assert_eq!(reason(" it ended \n"), ("it ended".to_owned(), None));
        assert_eq!(
            reason("it ended\nlog 1\nlog 2"),
            ("it ended".to_owned(), Some("it ended\nlog 1\nlog 2"))
        );
        let long = "ä".repeat(300);
        let (short, whole) = reason(&long);
        assert!(
            short.ends_with('…') && short.chars().count() == 241 && whole == Some(long.as_str())
        );
        assert_eq!(reason(""), (String::new(), None));
    }

    #[test]
    fn parts_give_their_numbers() {
        assert_eq!(number_in("16 hogs"), Some(16.0));
        assert_eq!(number_in("outage 2.5 s"), Some(2.5));
        assert_eq!(number_in("letter"), None);
        assert_eq!(number_in("no hogs"), Some(0.0));
        assert_eq!(
            ["16 hogs", "1 hog", "no hogs", "2.5 s", "25 frames, first loop"].map(words_in),
            ["hogs", "hogs", "hogs", "s", "frames, first loop"]
        );
        assert_eq!(quantity_name("longest_gap_ms"), "longest gap");
    }
}
