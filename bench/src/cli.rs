//! The command line: every subcommand, from which `--help`, the manual page and the completions are
//! made as well. Knows names of questions; never how one is answered.

use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::net::{command as net_command, end, nettest};
use crate::observe::tcbench;
use crate::questions::awareness::Awareness;
use crate::questions::changing_paths::ChangingPaths;
use crate::questions::echo_under_load::EchoUnderLoad;
use crate::questions::files::Files;
use crate::questions::loops::Loops;
use crate::questions::outages::Outages;
use crate::questions::overwrite::Overwrite;
use crate::questions::pages::Pages;
use crate::questions::photographs::Photographs;
use crate::questions::sound::Sound;
use crate::questions::threed::ThreeD;
use crate::questions::video_rate::VideoRate;
use crate::questions::{self, Asked, Question, functions, key_to_photon, memory, page_down, views};
use crate::report::{self, compare};
use crate::{Error, apps, hosting, process, run, smoke};

/// Measures remote display systems from outside: thinc and its peers, on emulated links, with real
/// applications.
#[derive(Parser)]
#[command(name = "thinc-bench", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Measure: peers on links with workloads, into a file that `report` and `compare` read.
    Run(run::RunOptions),
    /// In three minutes: does everything that `run` needs work, and does thinc show every pixel?
    Smoke(smoke::Options),
    /// The systems that can be measured, with the installed versions.
    Peers,
    /// The workloads.
    Workloads,
    /// Emulate a link between two network namespaces, for any programs.
    Net(net_command::Options),
    /// What a connection or an emulated link can do: round trip by message size, throughput in each
    /// direction.
    Nettest(nettest::Options),
    /// The frame rate that a user sees, from the pixels of a window on any X display.
    Tcbench(tcbench::Options),
    /// Draw results as one HTML page: figures, tables, and where thinc wins and loses.
    Report(report::Options),
    /// What became worse or better between two runs.
    Compare(compare::Options),
    /// How long from a key to the changed pixels in xterm: in the viewer's window, and on a local
    /// Xvfb?
    KeyToPhoton(key_to_photon::Options),
    /// What does a page-down in Chromium at 1024x768 cost in bytes and CPU?
    PageDown(page_down::Options),
    /// What do twenty pages and twenty page-downs in Chromium cost on every system, and how soon
    /// are they visible?
    Pages(Asked<Pages>),
    /// Does a cache keep serving a loop of pictures that is longer than the cache?
    Loops(Asked<Loops>),
    /// How much memory does an idle 1024x768 session with one viewer take, without Xorg?
    Memory(memory::Options),
    /// Does a key's echo stay immediate while photographs fill a narrow link? With the scheduler,
    /// in FIFO mode, and TigerVNC.
    EchoUnderLoad(Asked<EchoUnderLoad>),
    /// What does a person see of an outage, and how long after it is the screen current again?
    Outages(Asked<Outages>),
    /// On a path that changes while the viewer is connected: page, echo and video two seconds
    /// later, against a viewer that connected on that path?
    ChangingPaths(Asked<ChangingPaths>),
    /// How old is what the viewer shows of a screen that is redrawn 200 times a second, and after
    /// it stopped reading?
    Overwrite(Asked<Overwrite>),
    /// How soon is a photograph complete on a narrow link, and how soon exact, with lossy coding
    /// and without?
    Photographs(Asked<Photographs>),
    /// Is every frame of a video shown on time, how near to the file, and at what cost?
    VideoRate(Asked<VideoRate>),
    /// How fast, how late, how exact and at what cost does a person see OpenGL programs, with and
    /// without VirtualGL?
    #[command(name = "3d")]
    ThreeD(Asked<ThreeD>),
    /// How late is the session's sound heard at the viewer, what of it is missing, and what does it
    /// cost?
    Sound(Asked<Sound>),
    /// What share of the link has a large file in each direction, and does a key's echo wait for
    /// it?
    Files(Asked<Files>),
    /// How many bytes does a viewer of a small screen take of those of a large one, for web pages
    /// and for video?
    Views(views::Options),
    /// What does following offscreen drawing bring for GTK3 programs and LibreOffice, in bytes, CPU
    /// and latency?
    Awareness(Asked<Awareness>),
    /// What do the hot functions cost, by the samples that `./dev bench functions` has taken?
    Functions(functions::Options),
    /// thinc as a server for many people.
    #[command(subcommand)]
    Hosting(hosting::Question),
    /// One end of a testbed, started by it.
    #[command(hide = true)]
    HoldEnd(end::Options),
    /// A program that workloads show.
    #[command(hide = true, subcommand)]
    App(apps::App),
}

/// The definition, for manual pages and completions.
pub fn command() -> Command {
    let command = Arguments::command().mut_subcommand("run", |run| {
        run.mut_arg("peers", |arg| arg.default_value("local,thinc,tigervnc,xpra,xrdp,x11"))
            .mut_arg("links", |arg| arg.default_value("lan,wan"))
            .mut_arg("output", |arg| arg.default_value("thinc-bench.json"))
    });
    let command = with_defaults::<Pages>(with_defaults::<Loops>(command));
    let command = with_defaults::<EchoUnderLoad>(with_defaults::<Outages>(command));
    let command = with_defaults::<Overwrite>(with_defaults::<Photographs>(command));
    let command = with_defaults::<ChangingPaths>(with_defaults::<Sound>(command));
    let command = with_defaults::<ThreeD>(command);
    with_defaults::<VideoRate>(with_defaults::<Awareness>(with_defaults::<Files>(command)))
}

fn with_defaults<Q: Question>(command: Command) -> Command {
    command.mut_subcommand(Q::NAME, |question| {
        question
            .mut_arg("peers", |arg| arg.default_value(Q::PEERS))
            .mut_arg("links", |arg| arg.default_values(Q::LINKS))
            .mut_arg("size", |arg| arg.default_value(Q::SIZE))
    })
}

/// Reads the command line and runs the subcommand.
///
/// # Errors
/// As text; everything that was started is ended.
pub fn run() -> Result<ExitCode, Error> {
    let arguments = Arguments::from_arg_matches(&command().get_matches());
    let action = arguments.unwrap_or_else(|error| error.exit()).action;
    // An application ends at once when it is signalled; it has nothing to clean up.
    if !matches!(action, Action::App(_)) {
        process::end_well_when_interrupted()?;
    }
    let done: Result<(), Error> = match action {
        Action::Run(options) => run::run(&options),
        Action::Smoke(options) => smoke::run(&options),
        Action::Peers => {
            run::list_peers();
            Ok(())
        }
        Action::Workloads => {
            run::list_workloads();
            Ok(())
        }
        Action::Net(options) => net_command::run(&options),
        Action::Nettest(options) => nettest::run(&options),
        Action::Tcbench(options) => tcbench::run(&options),
        Action::Report(options) => report::run(&options),
        Action::Compare(options) => return compare::run(&options),
        Action::KeyToPhoton(options) => key_to_photon::run(&options),
        Action::PageDown(options) => page_down::run(&options),
        Action::Pages(asked) => questions::ask(&asked),
        Action::Loops(asked) => questions::ask(&asked),
        Action::Memory(options) => memory::run(&options),
        Action::EchoUnderLoad(asked) => questions::ask(&asked),
        Action::Outages(asked) => questions::ask(&asked),
        Action::ChangingPaths(asked) => questions::ask(&asked),
        Action::Overwrite(asked) => questions::ask(&asked),
        Action::Photographs(asked) => questions::ask(&asked),
        Action::VideoRate(asked) => questions::ask(&asked),
        Action::ThreeD(asked) => questions::ask(&asked),
        Action::Sound(asked) => questions::ask(&asked),
        Action::Files(asked) => questions::ask(&asked),
        Action::Views(options) => views::run(&options),
        Action::Awareness(asked) => questions::ask(&asked),
        Action::Functions(options) => functions::run(&options),
        Action::Hosting(question) => hosting::run(&question),
        Action::HoldEnd(options) => end::hold(&options),
        Action::App(app) => apps::run(&app),
    };
    done.map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_has_its_own_defaults() {
        command().debug_assert();
        let line = ["thinc-bench", "video-rate", "--effort", "smoke"];
        let matches = command().try_get_matches_from(line).unwrap();
        let question = matches.subcommand_matches("video-rate").unwrap();
        let links: Vec<&String> = question.get_many("links").unwrap().collect();
        assert_eq!(links, VideoRate::LINKS);
        assert!(Arguments::from_arg_matches(&matches).is_ok());
        let line = ["thinc-bench", "outages", "--link", "wan,loss=1%", "--link", "lan"];
        let matches = command().try_get_matches_from(line).unwrap();
        let question = matches.subcommand_matches("outages").unwrap();
        assert_eq!(question.get_many::<String>("links").unwrap().count(), 2);
        assert_eq!(question.get_one::<(u32, u32)>("size"), Some(&(640, 480)));
    }
}
