//! Question: what does following offscreen drawing bring toolkits, which draw nearly everything into pixmaps first?
//! The same operations by keyboard and mouse in GTK3 programs and in LibreOffice, in two sessions that stand side by side and take turns
//! with each operation, one with `--offscreen on` and one with `off`: bytes, CPU of the server, time until the last pixel is right.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::trial::{Began, Notebook, Table, measure, quantile, short, stage};
use crate::Error;
use crate::net::link::Link;
use crate::net::testbed::Direction;
use crate::observe::input::Input;
use crate::process::{Running, on_path, wait_for};
use crate::results::{Better, Measure, quantity};
use crate::run::parse_size;
use crate::stage::{Operation, Stage};
use crate::workloads::{Effort, own};

pub(crate) mod documents;

/// How `awareness` runs.
#[derive(Args)]
pub struct Options {
    /// The two variants; `thinc-bench peers` lists what there is. The first is what the second is held against.
    #[arg(long, value_delimiter = ',', default_value = "thinc-offscreen-on,thinc-offscreen-off")]
    peers: Vec<String>,
    /// The links: a preset, or one with changes.
    #[arg(long, value_delimiter = ',', default_value = "lan,wan")]
    links: Vec<String>,
    /// Which programs.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "editor,demo,writer,calc")]
    programs: Vec<Program>,
    /// How often each operation is done.
    #[arg(long, value_enum, default_value = "quick")]
    effort: Effort,
    /// Screen of every session.
    #[arg(long, default_value = "1024x768", value_parser = parse_size)]
    size: (u32, u32),
    /// TCP congestion control in both namespaces; the system's own without it.
    #[arg(long)]
    congestion: Option<String>,
    /// Where the samples go; nowhere without it.
    #[arg(long, short)]
    output: Option<PathBuf>,
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

/// Something that a hand does.
#[derive(Clone, Copy, Debug)]
enum Act {
    Key(&'static str),
    /// Lines, down where positive, with the pointer where it is.
    Wheel(i32),
    /// From a place in the session to another with the left button.
    Drag((i32, i32), (i32, i32)),
}

/// From one place of a drag to the next: a mouse of 60 reports a second.
const DRAG_STEP: Duration = Duration::from_millis(16);
const DRAG_STEPS: i32 = 12;
/// Longest that an operation may take: LibreOffice on a busy machine thinks for a second about the first of a kind.
const OPERATION_LIMIT: Duration = Duration::from_secs(15);
/// Where the wheel is turned: over text, and over no button.
const POINTER: (i32, i32) = (340, 380);
/// Longest until a program is there: LibreOffice makes itself a profile.
const START_LIMIT: Duration = Duration::from_secs(60);

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Editor => "editor",
            Program::Demo => "gtk3-demo",
            Program::Writer => "writer",
            Program::Calc => "calc",
        }
    }

    /// The first of those that would do which is here, or the words that say what to install.
    fn command(self) -> Result<&'static str, String> {
        let (programs, packages): (&[&'static str], _) = match self {
            Program::Editor => (&["mousepad", "gedit"], "mousepad"),
            Program::Demo => (&["gtk3-demo"], "gtk-3-examples"),
            Program::Writer => (&["soffice"], "libreoffice-writer and libreoffice-gtk3"),
            Program::Calc => (&["soffice"], "libreoffice-calc and libreoffice-gtk3"),
        };
        let found = programs.iter().copied().find(|program| on_path(program));
        found.ok_or_else(|| format!("{} is left out: no {}: install {packages}", self.name(), programs.join(", no ")))
    }

    /// One round: what each is called in the results, and what is done. It ends where it began.
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

/// One variant with one program on one link.
struct Done {
    part: &'static str,
    operation: Operation,
}

impl Done {
    fn bytes(&self) -> f64 {
        self.operation.spent.traffic.bytes(Direction::Down) as f64
    }
}

/// All operations of one program on one link, in both variants.
struct Compared {
    link: String,
    program: &'static str,
    done: [Vec<Done>; 2],
}

/// Measures and prints.
pub fn run(options: &Options) -> Result<(), Error> {
    crate::net::as_user_namespace()?;
    let mut notebook = Notebook::new(options.effort, options.size, options.output.clone())?;
    let peers = notebook.peers(&options.peers)?;
    let [first, second] = peers.as_slice() else { return Err("two variants are held against each other".into()) };
    let links = options.links.iter().map(|name| name.parse()).collect::<Result<Vec<Link>, _>>()?;
    let mut programs = options.programs.clone();
    programs.retain(|program| {
        let found = program.command();
        if let Err(words) = &found {
            eprintln!("{words}");
        }
        found.is_ok()
    });
    let mut all = Vec::new();
    let mut sent = Vec::new();
    for link in &links {
        let began = Began::now();
        let start = || -> Result<[Stage; 2], Error> {
            let congestion = options.congestion.as_deref();
            let first = stage(first.as_ref(), link, options.size, congestion)?;
            Ok([first, stage(second.as_ref(), link, options.size, congestion)?])
        };
        let mut stages = match start() {
            Ok(stages) => stages,
            Err(error) => {
                notebook.note::<()>(first.name(), link, "awareness", began, Err(error))?;
                continue;
            }
        };
        notebook.heard_of(&stages[0].site.bed);
        for &program in &programs {
            eprintln!("{}, {} ...", link.name, program.name());
            let began = [Began::now(), Began::now()];
            let mut done = match compare(&mut stages, program, rounds(options.effort)) {
                Ok(done) => done.map(Ok),
                Err(error) => [Err(error), Err("the other one failed".into())],
            };
            let mut kept = Vec::new();
            for ((peer, began), done) in [first, second].into_iter().zip(began).zip(&mut done) {
                let done = std::mem::replace(done, Ok(Vec::new()));
                let noted = done.map(|done| {
                    let measures = measures(&done);
                    (done, measures)
                });
                let workload = format!("awareness-{}", program.name());
                kept.extend(notebook.note(peer.name(), link, &workload, began, noted)?);
            }
            if let Ok(done) = <[Vec<Done>; 2]>::try_from(kept) {
                all.push(Compared { link: link.name.clone(), program: program.name(), done });
            }
        }
        sent.push((link.name.clone(), stages.map(end_and_ask)));
    }
    println!(
        "offscreen awareness: {}x{}, operations in slow motion, {} of each round",
        options.size.0,
        options.size.1,
        rounds(options.effort)
    );
    print(&all, [first.name(), second.name()]);
    print_sent(&sent, [first.name(), second.name()]);
    notebook.end()
}

/// Starts a program in both sessions, and does each operation in one and then in the other; who begins changes.
fn compare(stages: &mut [Stage; 2], program: Program, rounds: usize) -> Result<[Vec<Done>; 2], Error> {
    // Both are started before either is waited for.
    let mut running = Vec::new();
    for stage in stages.iter() {
        running.push(start(stage, program)?);
    }
    for (stage, running) in stages.iter().zip(&mut running) {
        wait_until_ready(stage, program.command()?, running)?;
    }
    let mut done = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (count, &(part, act)) in program.round().iter().enumerate() {
            let first_wheel = matches!(act, Act::Wheel(_))
                && !matches!(count.checked_sub(1).map(|before| program.round()[before].1), Some(Act::Wheel(_)));
            for turn in 0..2 {
                let variant = (round + count + turn) % 2;
                let stage = &mut stages[variant];
                let origin = (stage.view.x, stage.view.y);
                if first_wheel {
                    wake_wheel(stage)?;
                }
                let operation = stage.operation_within(OPERATION_LIMIT, |input| act.carry_out(input, origin));
                let operation = operation.map_err(|error| {
                    let name = program.name();
                    format!("{name}, {part}: {error}{}", own::kept(stage, name))
                })?;
                done[variant].push(Done { part, operation });
            }
        }
    }
    for running in &mut running {
        running.check()?;
    }
    drop(running);
    for stage in stages.iter() {
        stage.settle()?;
    }
    Ok(done)
}

/// Turns the wheel there and back. After a menu or at its first sight of the pointer, GTK does not know where the wheel stood
/// and takes the first turn for that alone; what comes after it counts.
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
                    std::thread::sleep((began + DRAG_STEP * step as u32).saturating_duration_since(Instant::now()));
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
    command.env("HOME", &home).env("XDG_CONFIG_HOME", &config).env("XDG_RUNTIME_DIR", &runtime).current_dir(&home);
    // No bus and no daemon: what programs would ask them differs from machine to machine.
    command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent").env("GSETTINGS_BACKEND", "memory");
    command.env("NO_AT_BRIDGE", "1").env("GIO_USE_VFS", "local").env("LANG", "C.UTF-8").env_remove("LC_ALL");
    let in_home = |name: &str| home.join(name);
    match program {
        Program::Editor => {
            command.arg(documents::write_text(&in_home("text.txt"))?);
        }
        Program::Demo => {}
        Program::Writer | Program::Calc => {
            // The plug-in that GTK desktops use; its caret obeys the settings.
            command.env("SAL_USE_VCLPLUGIN", "gtk3");
            let profile = format!("-env:UserInstallation=file://{}", in_home("libreoffice").display());
            command.args([&profile, "--norestore", "--nologo", "--nolockcheck"]);
            command.arg(match program {
                Program::Calc => documents::write_sheets(&in_home("sheets.fods"))?,
                _ => documents::write_pages(&in_home("pages.fodt"))?,
            });
        }
    }
    stage.application(words, command)
}

/// Waits until a program is there and rests, with the pointer over its content.
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
    let area_min = u32::from(x.setup().roots[0].width_in_pixels) * u32::from(x.setup().roots[0].height_in_pixels) / 4;
    let large = |window: u32| -> Option<()> {
        let place = x.get_geometry(window).ok()?.reply().ok()?;
        let shown = x.get_window_attributes(window).ok()?.reply().ok()?.map_state == MapState::VIEWABLE;
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

fn measures(done: &[Done]) -> Vec<Measure> {
    let mut parts: Vec<&'static str> = done.iter().map(|done| done.part).collect();
    parts.dedup();
    parts.sort_unstable();
    parts.dedup();
    let mut found = Vec::new();
    for part in parts {
        let of: Vec<Operation> =
            done.iter().filter(|done| done.part == part).map(|done| done.operation.clone()).collect();
        found.extend(crate::stage::measures(part, &of));
    }
    found.push(measure(quantity::BYTES_DOWN, "", "bytes", Better::Lower, done.iter().map(Done::bytes).collect()));
    found
}

/// What an operation cost; nothing where it has none.
type Figure = fn(&Done) -> Option<f64>;

/// Each program on each link as a whole, then each kind of operation.
fn print(all: &[Compared], names: [&'static str; 2]) {
    let figures: [(&str, Figure); 3] = [
        ("bytes", |done| Some(done.bytes())),
        ("server's CPU, ms", |done| Some(done.operation.spent.cpu_server_ms)),
        ("input to last pixel, ms", |done| done.operation.exact_ms),
    ];
    let table = Table::new(&names);
    for Compared { link, program, done } in all {
        println!("{program} on {link}: {} operations", done[0].len());
        for (figure, of) in figures {
            let samples = done.each_ref().map(|done| done.iter().filter_map(of).collect::<Vec<f64>>());
            let sum = samples.each_ref().map(|samples| Some(samples.iter().sum::<f64>() / samples.len().max(1) as f64));
            table.row(&format!("{figure}, mean"), &sum);
            for (name, share) in [("median", 0.5), ("p95", 0.95), ("p99", 0.99)] {
                table.row(&format!("{figure}, {name}"), &samples.each_ref().map(|samples| quantile(samples, share)));
            }
        }
        let never = done.each_ref().map(|done| done.iter().filter(|done| done.operation.exact_ms.is_none()).count());
        if never != [0, 0] {
            println!("  never exact: {} and {} operations", never[0], never[1]);
        }
        let mut parts: Vec<&'static str> = done[0].iter().map(|done| done.part).collect();
        parts.sort_unstable();
        parts.dedup();
        for part in parts {
            for (figure, of) in figures {
                let medians = done.each_ref().map(|done| {
                    let samples: Vec<f64> = done.iter().filter(|done| done.part == part).filter_map(of).collect();
                    quantile(&samples, 0.5)
                });
                table.row(&format!("  {part}: {figure}"), &medians);
            }
        }
    }
    let latency = |variant: usize| -> f64 {
        let of = |compared: &Compared| compared.done[variant].iter().filter_map(figures[2].1).sum::<f64>();
        all.iter().map(of).sum()
    };
    if latency(0) > 0.0 {
        let ratio = latency(1) / latency(0);
        println!("latency of all operations, {} over {}: {} (the paper: 1.7)", names[1], names[0], short(ratio));
    }
}

/// Ends the viewer, so that the session says what it has sent to it; the words of its last report.
fn end_and_ask(mut stage: Stage) -> Option<String> {
    if !stage.desk.held.is_empty() {
        drop(stage.desk.held.remove(0));
    }
    let home = stage.site.folder.path().join("server-home");
    let report = || find_file(&home, "session.log").and_then(|log| last_report(&fs::read_to_string(log).ok()?));
    wait_for("the session's report", Duration::from_secs(5), report).ok()
}

/// `Stats { copies: 12, … }` of the last viewer that has left.
fn last_report(log: &str) -> Option<String> {
    let line = log.lines().rev().find(|line| line.contains("copies: ") && line.contains("pixels: "))?;
    Some(line[line.find('{')?..].to_owned())
}

fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    let here = entries.iter().find(|path| path.file_name().is_some_and(|file| file == name)).cloned();
    here.or_else(|| {
        entries.iter().filter(|path| path.is_dir() && !path.is_symlink()).find_map(|path| find_file(path, name))
    })
}

/// Numbers that have names in a report, in its order.
fn counts(report: &str) -> Vec<(String, f64)> {
    let words = report.split(['{', '}', ',']);
    let pair = |word: &str| {
        let (name, value) = word.rsplit_once(": ")?;
        Some((name.trim().to_owned(), value.trim().parse().ok()?))
    };
    words.filter_map(pair).collect()
}

/// What the sessions sent, all programs together.
fn print_sent(sent: &[(String, [Option<String>; 2])], names: [&'static str; 2]) {
    for (link, reports) in sent {
        let [Some(first), Some(second)] = reports else {
            println!("on {link} a session did not report what it had sent");
            continue;
        };
        println!("sent on {link}, all programs, starts included, as the sessions report it");
        let table = Table::new(&names);
        let (first, second) = (counts(first), counts(second));
        for (name, value) in &first {
            let other = second.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            table.row(name, &[Some(*value), other]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_found_and_read() {
        let log = "debug a: Stats { copies: 1, pixels: 2 }\n\
                   debug 127.0.0.1:5: Stats { updates: 7, copies: 12, pixels: 90, proposals: Proposals { solid: 3, text: 4 }, presented: None }\n\
                   info gone\n";
        let report = last_report(log).unwrap();
        let counts = counts(&report);
        assert_eq!(counts[1], ("copies".to_owned(), 12.0));
        assert!(counts.contains(&("text".to_owned(), 4.0)) && !counts.iter().any(|(name, _)| name == "presented"));
    }

    #[test]
    fn drags_come_back() {
        for program in [Program::Editor, Program::Demo, Program::Writer, Program::Calc] {
            let drags = program.round().iter().filter_map(|&(_, act)| match act {
                Act::Drag(from, to) => Some((to.0 - from.0, to.1 - from.1)),
                _ => None,
            });
            assert_eq!(drags.fold((0, 0), |sum, by| (sum.0 + by.0, sum.1 + by.1)), (0, 0), "{program:?}");
        }
    }
}
