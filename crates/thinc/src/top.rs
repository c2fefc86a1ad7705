//! `thinc top`: which programs of a session answer its person and which compute, and whether some
//! are held to the frames that viewers take. From the user's shell, through control.rs, to the
//! session's supervisor, which decides, and to its session process. Knows how it is printed.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use thinc_session_server::figures::FrameClock;
use thinc_session_server::{ShareAnswer, ShareRequest};

use crate::MainError;
use crate::cli::Top;
use crate::clients::{age_text, only_session, send_request};
use crate::control::{Answer, Request};
use crate::port::now_s;
use crate::priority::PriorityStatus;
use crate::priority::prefetch::BroughtBack;
use crate::share;
use crate::terminal::print;

/// As often as a supervisor measures.
const INTERVAL: Duration = Duration::from_secs(2);
/// Moves that are printed.
const MOVES_PRINTED: usize = 8;
/// Cursor to the corner, and everything behind it erased.
const CLEAR: &[u8] = b"\x1b[H\x1b[J";

/// `thinc top`.
pub(crate) fn top(options: &Top) -> Result<ExitCode, MainError> {
    let name = only_session(options.name.as_deref())?;
    let is_repeated = !options.once && !options.json && std::io::stdout().is_terminal();
    loop {
        let status = match send_request(&name, &Request::Priority)?.0 {
            Answer::Priority(status) => status,
            other => return Err(format!("unexpected answer {other:?}").into()),
        };
        let frames = frame_clock(&name);
        if options.json {
            let mut shown = serde_json::to_value(&status)?;
            shown["frames"] = serde_json::to_value(frames)?;
            print(&serde_json::to_string_pretty(&shown)?);
        } else {
            if is_repeated {
                let _ = std::io::stdout().lock().write_all(CLEAR);
            }
            let lines = [text(&name, &status, now_s())].into_iter();
            print(&lines.chain(frames.and_then(frames_text)).collect::<Vec<_>>().join("\n"));
        }
        if !is_repeated {
            return Ok(ExitCode::SUCCESS);
        }
        // Until Ctrl-C ends this program.
        std::thread::sleep(INTERVAL);
    }
}

/// None while the session process is started again.
fn frame_clock(name: &str) -> Option<FrameClock> {
    match share::begin(name, &ShareRequest::Figures) {
        Ok((ShareAnswer::Figures(figures), _)) => Some(figures.frames),
        _ => None,
    }
}

/// None if no program was held so far; with `--pace off` none ever is.
fn frames_text(frames: FrameClock) -> Option<String> {
    let FrameClock { rate, holds } = frames;
    (holds > 0).then(|| {
        format!(
            "Programs that draw frames without end are held to {rate} a second ({holds} times \
                 so far)."
        )
    })
}

fn text(name: &str, status: &PriorityStatus, now_s: u64) -> String {
    if !status.is_on {
        return format!("The session {name} runs with --priority off: nothing is moved.");
    }
    let who = match (status.is_present, status.is_behind) {
        (true, _) => "somebody is there",
        (false, true) => "nobody is there; all of it is behind other sessions",
        (false, false) => "nobody is there",
    };
    let mut lines = vec![format!("{name}: {who}. {}.", status.how)];
    if status.is_present {
        lines.push(format!(
            "{:>8}  {:15}  {:8}  {:>5}  {:>9}  WHY",
            "PID", "NAME", "GROUP", "CPU", "WAITED"
        ));
        for one in &status.processes {
            let waited = one.waited_ms.map_or(String::new(), |ms| format!("{ms:.1} ms/s"));
            lines.push(format!(
                "{:>8}  {:15}  {:8}  {:>3} %  {waited:>9}  {}",
                one.pid, one.name, one.group, one.percent, one.reason
            ));
        }
    }
    lines.extend(status.memory.as_ref().map(|memory| format!("{memory}.")));
    lines.extend(status.real_time.as_ref().map(|real_time| format!("{real_time}.")));
    lines.extend(status.brought_back.as_ref().map(|brought| brought_text(brought, now_s)));
    if !status.moved.is_empty() {
        lines.push("Moved:".to_owned());
    }
    for one in status.moved.iter().rev().take(MOVES_PRINTED) {
        let age = age_text(now_s.saturating_sub(one.at_s));
        let error = one.error.as_ref().map_or(String::new(), |error| format!("; refused: {error}"));
        lines.push(format!(
            "  {age} ago  {} ({}) to {}: {}{error}",
            one.name, one.pid, one.to, one.reason
        ));
    }
    lines.join("\n")
}

fn brought_text(brought: &BroughtBack, now_s: u64) -> String {
    let age = age_text(now_s.saturating_sub(brought.at_s));
    let mut text = format!(
        "Brought back from swap {age} ago, as somebody came back: {:.1} MiB of {} processes, in \
         {} ms",
        brought.bytes as f64 / f64::from(1 << 20),
        brought.processes,
        brought.ms
    );
    if brought.is_cut {
        text.push_str("; not all, for the limits of time and bytes");
    }
    if brought.refused > 0 {
        text.push_str(&format!("; {} may not be read", brought.refused));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::priority::status::{Moved, Shown};

    fn status() -> PriorityStatus {
        PriorityStatus {
            is_on: true,
            how: "By control groups".to_owned(),
            is_present: true,
            is_behind: false,
            typed: Some(7),
            processes: vec![Shown {
                pid: 7,
                name: "xterm".to_owned(),
                group: "answers".to_owned(),
                percent: 3,
                waited_ms: Some(0.25),
                reason: "its window is typed into".to_owned(),
            }],
            memory: Some("No memory is protected: no".to_owned()),
            real_time: Some("Real-time: not allowed".to_owned()),
            brought_back: Some(BroughtBack {
                at_s: 90,
                bytes: 12 << 20,
                ms: 45,
                processes: 3,
                refused: 1,
                is_cut: false,
            }),
            moved: vec![Moved {
                at_s: 100,
                pid: 9,
                name: "sink".to_owned(),
                to: "computes".to_owned(),
                reason: "has used 99 % of a processor for 5 s".to_owned(),
                error: None,
            }],
        }
    }

    #[test]
    fn frames_are_spoken_of_once_a_program_was_held() {
        assert_eq!(frames_text(FrameClock { rate: 60, holds: 0 }), None);
        let held = frames_text(FrameClock { rate: 34, holds: 1200 }).unwrap();
        assert_eq!(
            held,
            "Programs that draw frames without end are held to 34 a second (1200 times so far)."
        );
    }

    #[test]
    fn it_is_said_who_answers_and_what_was_moved_why() {
        let shown = text("work", &status(), 130);
        for words in [
            "work: somebody is there. By control groups.",
            "7  xterm            answers     3 %   0.2 ms/s  its window is typed into",
            "\nNo memory is protected: no.\nReal-time: not allowed.\n",
            "Brought back from swap 40 s ago, as somebody came back: 12.0 MiB of 3 processes, in \
             45 ms; 1 may not be read",
            "30 s ago  sink (9) to computes: has used 99 % of a processor for 5 s",
        ] {
            assert!(shown.contains(words), "{words:?} is not in:\n{shown}");
        }
        let away = PriorityStatus { is_present: false, is_behind: true, ..status() };
        let away = text("work", &away, 130);
        assert!(away.contains("nobody is there; all of it") && !away.contains("xterm"), "{away}");
        let off = text("work", &PriorityStatus { is_on: false, ..status() }, 130);
        assert!(off.contains("--priority off") && off.lines().count() == 1, "{off}");
    }
}
