//! Question: what does following offscreen drawing bring for toolkits, which draw nearly everything
//! into pixmaps first? The same operations by keyboard and mouse in GTK3 programs and in
//! LibreOffice, in a session with `--offscreen on` and in one with `off`: bytes, CPU time of the
//! server, time until the last pixel is right, and what each session says it has sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::Question;
use crate::Error;
use crate::observe::input::Input;
use crate::process::{Running, on_path, wait_for};
use crate::results::{Form, Measure};
use crate::stage::{Operation, Stage, measures, totals};
use crate::workloads::{Effort, Skip, Workload, own};

pub(crate) mod documents;

/// The question.
#[derive(Args)]
pub struct Awareness {
    /// Which programs.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "editor,demo,writer,calc")]
    programs: Vec<Program>,
}

impl Question for Awareness {
    const NAME: &'static str = "awareness";
    const PEERS: &'static str = "thinc-offscreen-on,thinc-offscreen-off";
    const LINKS: &'static [&'static str] = &["lan", "wan"];

    fn workloads(&self) -> Result<Vec<Box<dyn Workload>>, Error> {
        Ok(self.programs.iter().map(|&program| Box::new(program) as Box<dyn Workload>).collect())
    }
}

/// A program and what is done in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    /// A text editor of GTK3: mousepad, else gedit.
    Editor,
    /// gtk3-demo: lists, and a window that moves.
    Demo,
    /// LibreOffice Writer.
    Writer,
    /// LibreOffice Calc.
    Calc,
}

/// One user input.
#[derive(Clone, Copy, Debug)]
enum Act {
    Key(&'static str),
    /// Lines, down if positive, with the pointer where it is.
    Wheel(i32),
    /// From a place in the session to another with the left button.
    Drag((i32, i32), (i32, i32)),
}

/// From one place of a drag to the next: a mouse of 60 reports a second.
const DRAG_STEP: Duration = Duration::from_millis(16);
const DRAG_STEPS: i32 = 12;
/// Longest that an operation may take: LibreOffice on a busy machine thinks for a second about the
/// first of a kind.
const OPERATION_LIMIT: Duration = Duration::from_secs(15);
/// Where the wheel is turned: over text, and over no button.
const POINTER: (i32, i32) = (340, 380);
/// Longest until a program is there: LibreOffice makes itself a profile.
const START_LIMIT: Duration = Duration::from_secs(60);

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Editor => "awareness-editor",
            Program::Demo => "awareness-gtk3-demo",
            Program::Writer => "awareness-writer",
            Program::Calc => "awareness-calc",
        }
    }

    /// The first suitable program that is installed; else the trial is skipped.
    fn command(self) -> Result<&'static str, Skip> {
        let (programs, packages): (&[&'static str], _) = match self {
            Program::Editor => (&["mousepad", "gedit"], "mousepad"),
            Program::Demo => (&["gtk3-demo"], "gtk-3-examples"),
            Program::Writer => (&["soffice"], "libreoffice-writer and libreoffice-gtk3"),
            Program::Calc => (&["soffice"], "libreoffice-calc and libreoffice-gtk3"),
        };
        let found = programs.iter().copied().find(|program| on_path(program));
        found.ok_or_else(|| Skip(format!("no {}: install {packages}", programs.join(", no "))))
    }

    /// One round of operations, each with its name in the results. It ends where it began.
    fn round(self) -> &'static [(&'static str, Act)] {
        match self {
            Program::Editor => &[
                ("scroll a page", Act::Key("Next")),
                ("scroll a page", Act::Key("Next")),
                ("scroll a page", Act::Key("Prior")),
                ("wheel", Act::Wheel(1)),
                ("wheel", Act::Wheel(1)),
                ("wheel", Act::Wheel(-1)),
                ("type", Act::Key("x")),
                ("type", Act::Key("y")),
                ("type", Act::Key("Return")),
                ("open a menu", Act::Key("F10")),
                ("close a menu", Act::Key("Escape")),
                ("open a search", Act::Key("Control_L+f")),
                ("close a search", Act::Key("Escape")),
            ],
            Program::Demo => &[
                ("next of a list", Act::Key("Down")),
                ("next of a list", Act::Key("Down")),
                ("next of a list", Act::Key("Up")),
                ("move a window", Act::Drag((350, 22), (500, 122))),
                ("move a window", Act::Drag((500, 122), (350, 22))),
            ],
            Program::Writer => &[
                ("scroll a page", Act::Key("Next")),
                ("scroll a page", Act::Key("Next")),
                ("scroll a page", Act::Key("Prior")),
                ("wheel", Act::Wheel(1)),
                ("wheel", Act::Wheel(-1)),
                ("type", Act::Key("x")),
                ("type", Act::Key("y")),
                ("type", Act::Key("Return")),
                ("open a menu", Act::Key("F10")),
                ("close a menu", Act::Key("Escape")),
            ],
            Program::Calc => &[
                ("scroll a page", Act::Key("Next")),
                ("scroll a page", Act::Key("Prior")),
                ("next sheet", Act::Key("Control_L+Next")),
                ("next sheet", Act::Key("Control_L+Prior")),
                ("next cell", Act::Key("Right")),
                ("next cell", Act::Key("Left")),
                ("type", Act::Key("7")),
                ("type", Act::Key("Return")),
                ("open a menu", Act::Key("F10")),
                ("close a menu", Act::Key("Escape")),
            ],
        }
    }
}

fn rounds(effort: Effort) -> usize {
    match effort {
        Effort::Smoke => 1,
        Effort::Quick => 2,
        Effort::Full => 8,
    }
}

impl Workload for Program {
    fn name(&self) -> &str {
        Program::name(*self)
    }

    fn about(&self) -> &'static str {
        "operations by keyboard and mouse in a program that draws into pixmaps"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion]
    }

    fn seconds(&self, _: Form, effort: Effort) -> f64 {
        15.0 + (rounds(effort) * self.round().len()) as f64
    }

    fn run(&self, stage: &mut Stage, _: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let mut running = start(stage, *self)?;
        wait_until_ready(stage, self.command()?, &mut running)?;
        let mut done: Vec<(&str, Operation)> = Vec::new();
        for _ in 0..rounds(effort) {
            let mut before = None;
            for &(part, act) in self.round() {
                let is_wheel = matches!(act, Act::Wheel(_));
                if is_wheel && !before.is_some_and(|act| matches!(act, Act::Wheel(_))) {
                    wake_wheel(stage)?;
                }
                before = Some(act);
                let origin = (stage.view.x, stage.view.y);
                let operation =
                    stage.operation_within(OPERATION_LIMIT, |input| act.carry_out(input, origin));
                let kept =
                    |error| format!("{part}: {error}{}", own::kept(stage, Program::name(*self)));
                let operation = operation.map_err(kept)?;
                done.push((part, operation));
            }
        }
        running.check()?;
        drop(running);
        stage.settle()?;
        let all: Vec<Operation> = done.iter().map(|(_, operation)| operation.clone()).collect();
        let mut found = totals("operations", &all);
        found.extend(measures("any operation", &all));
        let mut parts: Vec<&str> = done.iter().map(|(part, _)| *part).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            let of_part = done.iter().filter(|(name, _)| *name == part);
            found.extend(measures(part, &of_part.map(|(_, o)| o.clone()).collect::<Vec<_>>()));
        }
        Ok(found)
    }

    /// What the session has sent in all, starts included.
    fn finish(&self, stage: Stage) -> Vec<Measure> {
        let statistics = last_statistics(stage).unwrap_or_default();
        let counts = counts(&statistics).into_iter();
        counts.map(|(name, count)| Measure::fact("session_sent", &name, "", count)).collect()
    }
}

/// Turns the wheel down and up again. After a menu, or when the pointer enters a window, GTK does
/// not know the position of the wheel and only learns it from the first turn; later turns count.
fn wake_wheel(stage: &Stage) -> Result<(), Error> {
    for lines in [1, -1] {
        stage.input.scroll(lines)?;
        stage.settle()?;
    }
    Ok(())
}

impl Act {
    fn carry_out(self, input: &Input, origin: (i32, i32)) -> Result<Instant, Error> {
        match self {
            Act::Key(name) => input.key(name),
            Act::Wheel(lines) => input.scroll(lines),
            Act::Drag(from, to) => {
                let at = |step: i32| {
                    let part = |from: i32, to: i32| from + (to - from) * step / DRAG_STEPS;
                    (origin.0 + part(from.0, to.0), origin.1 + part(from.1, to.1))
                };
                input.move_to(at(0).0, at(0).1)?;
                input.button_down(1)?;
                let began = Instant::now();
                for step in 1..=DRAG_STEPS {
                    std::thread::sleep(
                        (began + DRAG_STEP * step as u32).saturating_duration_since(Instant::now()),
                    );
                    input.move_to(at(step).0, at(step).1)?;
                }
                input.button_up(1)
            }
        }
    }
}

/// Starts a program in a session.
fn start(stage: &Stage, program: Program) -> Result<Running, Error> {
    let words = program.command()?;
    let home = stage.site.folder.path().join("apps-home");
    documents::write_settings(&home)?;
    let mut command = stage.command(words);
    let (config, runtime) = (home.join(".config"), home.join("run"));
    command
        .env("HOME", &home)
        .env("XDG_CONFIG_HOME", &config)
        .env("XDG_RUNTIME_DIR", &runtime)
        .current_dir(&home);
    // No bus and no daemon: their answers would differ from machine to machine.
    command
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
        .env("GSETTINGS_BACKEND", "memory");
    command
        .env("NO_AT_BRIDGE", "1")
        .env("GIO_USE_VFS", "local")
        .env("LANG", "C.UTF-8")
        .env_remove("LC_ALL");
    let in_home = |name: &str| home.join(name);
    match program {
        Program::Editor => {
            command.arg(documents::write_text(&in_home("text.txt"))?);
        }
        Program::Demo => {}
        Program::Writer | Program::Calc => {
            // The plug-in that GTK desktops use; its caret obeys the settings.
            command.env("SAL_USE_VCLPLUGIN", "gtk3");
            let profile =
                format!("-env:UserInstallation=file://{}", in_home("libreoffice").display());
            command.args([&profile, "--norestore", "--nologo", "--nolockcheck"]);
            command.arg(match program {
                Program::Calc => documents::write_sheets(&in_home("sheets.fods"))?,
                _ => documents::write_pages(&in_home("pages.fodt"))?,
            });
        }
    }
    stage.application(words, command)
}

/// Waits until a program is shown and rests, with the pointer over its content.
fn wait_until_ready(stage: &Stage, name: &str, running: &mut Running) -> Result<(), Error> {
    wait_for_window(stage, name, running)?;
    stage.input.move_to(stage.view.x + POINTER.0, stage.view.y + POINTER.1)?;
    stage.settle()?;
    own::check(stage, name, running)
}

/// Waits for a window of a quarter of the screen or more: splash screens and helpers are none.
fn wait_for_window(stage: &Stage, name: &str, running: &mut Running) -> Result<(), Error> {
    use x11rb::connection::Connection as _;
    use x11rb::protocol::xproto::{ConnectionExt as _, MapState};
    let x = stage.connect_server()?;
    let root = x.setup().roots[0].root;
    let area_min = u32::from(x.setup().roots[0].width_in_pixels)
        * u32::from(x.setup().roots[0].height_in_pixels)
        / 4;
    let large = |window: u32| -> Option<()> {
        let place = x.get_geometry(window).ok()?.reply().ok()?;
        let shown =
            x.get_window_attributes(window).ok()?.reply().ok()?.map_state == MapState::VIEWABLE;
        (shown && u32::from(place.width) * u32::from(place.height) >= area_min).then_some(())
    };
    wait_for(&format!("the window of {name}"), START_LIMIT, || {
        if let Err(error) = own::check(stage, name, running) {
            return Some(Err(error));
        }
        let tree = x.query_tree(root).ok()?.reply().ok()?;
        tree.children.into_iter().find_map(large).map(Ok)
    })?
}

/// Ends the viewer: the session logs what it has sent when a viewer has left.
fn last_statistics(mut stage: Stage) -> Option<String> {
    if !stage.desk.held.is_empty() {
        drop(stage.desk.held.remove(0));
    }
    let home = stage.site.folder.path().join("server-home");
    let report = || {
        find_file(&home, "session.log").and_then(|log| last_report(&fs::read_to_string(log).ok()?))
    };
    wait_for("the session's report", Duration::from_secs(5), report).ok()
}

/// `Stats { copies: 12, … }` of the last viewer that has left.
fn last_report(log: &str) -> Option<String> {
    let line =
        log.lines().rev().find(|line| line.contains("copies: ") && line.contains("pixels: "))?;
    Some(line[line.find('{')?..].to_owned())
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> =
        fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let here =
        entries.iter().find(|path| path.file_name().is_some_and(|file| file == name)).cloned();
    here.or_else(|| {
        entries
            .iter()
            .filter(|path| path.is_dir() && !path.is_symlink())
            .find_map(|path| find_file(path, name))
    })
}

/// Numbers that have names in a session's statistics, in their order.
fn counts(report: &str) -> Vec<(String, f64)> {
    let words = report.split(['{', '}', ',']);
    let pair = |word: &str| {
        let (name, value) = word.rsplit_once(": ")?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    words.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_found_and_read() {
        let log = "debug a: Stats { copies: 1, pixels: 2 }\n\
                   debug 127.0.0.1:5: Stats { updates: 7, copies: 12, pixels: 90, proposals: \
                   Proposals { solid: 3, text: 4 }, presented: None }\n\
                   info gone\n";
        let report = last_report(log).unwrap();
        let counts = counts(&report);
        assert_eq!(counts[1], ("copies".to_owned(), 12.0));
        assert!(
            counts.contains(&("text".to_owned(), 4.0))
                && !counts.iter().any(|(name, _)| name == "presented")
        );
    }

    #[test]
    fn drags_end_where_they_began() {
        for program in [Program::Editor, Program::Demo, Program::Writer, Program::Calc] {
            let drags = program.round().iter().filter_map(|&(_, act)| match act {
                Act::Drag(from, to) => Some((to.0 - from.0, to.1 - from.1)),
                _ => None,
            });
            assert_eq!(
                drags.fold((0, 0), |sum, by| (sum.0 + by.0, sum.1 + by.1)),
                (0, 0),
                "{program:?}"
            );
        }
    }
}
