//! The command line: every subcommand, from which `--help`, the manual page and the completions come as well.
//! Knows names of questions; never how one is answered.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::net::{command as net_command, end, nettest};
use crate::observe::{cpustat, tcbench};
use crate::questions::{
    awareness, codecs, echo_under_load, film, functions, key_to_photon, loops, memory, outages, overwrite, page_down,
    pages, photographs, views,
};
use crate::report::{self, compare};
use crate::{Error, apps, corpus, process, run, smoke};

/// Measures remote display systems from outside: thinc and its peers, on emulated links, with real applications.
#[derive(Parser)]
#[command(name = "thinc-bench", version)]
struct Arguments {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// Measure: peers on links with workloads, into a file that `report` and `compare` read.
    Run(run::Options),
    /// Under three minutes: does everything that `run` needs work, and does thinc show every pixel?
    Smoke(smoke::Options),
    /// The systems that can be measured, with the versions found here.
    Peers,
    /// The workloads.
    Workloads,
    /// Put a link of your choice between two network namespaces, for any programs.
    Net(net_command::Options),
    /// What a connection or an emulated link can do: round trip by message size, bandwidth each way.
    Nettest(nettest::Options),
    /// The frame rate that a user sees, from the pixels of a window on any X display.
    Tcbench(tcbench::Options),
    /// How busy processors are: with everything, with some processes, or with a control group.
    Cpustat(cpustat::Options),
    /// Draw results as one page: figures, tables, and where thinc wins and loses.
    Report(report::Options),
    /// What became worse or better between two runs.
    Compare(compare::Options),
    /// How long from a key to the changed pixels in xterm: in the viewer's window, and on a local Xvfb?
    KeyToPhoton(key_to_photon::Options),
    /// What does a page-down in Chromium at 1024x768 cost in bytes and CPU?
    PageDown(page_down::Options),
    /// What do twenty pages and twenty page-downs in Chromium cost on every system, and how soon are they seen?
    Pages(pages::Options),
    /// Does a cache keep serving a loop of pictures that is longer than the cache?
    Loops(loops::Options),
    /// How much memory does an idle 1024x768 session with one viewer take, without Xorg?
    Memory(memory::Options),
    /// Does a key's echo stay immediate while photographs fill a narrow link? With the scheduler, in FIFO mode, and TigerVNC.
    EchoUnderLoad(echo_under_load::Options),
    /// What does a person see of an outage, and how long after it is the picture the session's again?
    Outages(outages::Options),
    /// How old is what the viewer shows of a screen that is redrawn 200 times a second, and after it stopped reading?
    Overwrite(overwrite::Options),
    /// How soon is a photograph whole on a narrow link, and how soon exact, with lossy coding and without?
    Photographs(photographs::Options),
    /// Is every frame of a film shown on time, how near to the film, and at what cost?
    Film(film::Options),
    /// How many bytes does a viewer of a small screen take of those of a large one, for web pages and for video?
    Views(views::Options),
    /// What does following offscreen drawing bring GTK3 programs and LibreOffice, in bytes, CPU and latency?
    Awareness(awareness::Options),
    /// Take pictures of real programs' screens, on which codecs are compared.
    Corpus(corpus::Options),
    /// What do thinc's codec and others make of a corpus, in bytes, speed and memory?
    Codecs(codecs::Options),
    /// What do the hot functions cost, by the samples that `./dev bench functions` has taken?
    Functions(functions::Options),
    /// One end of a testbed, started by it.
    #[command(hide = true)]
    HoldEnd(end::Options),
    /// A program that workloads show.
    #[command(hide = true, subcommand)]
    App(apps::App),
}

/// The definition, for manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Reads the command line and does what it asks.
///
/// # Errors
/// In words; what was started is ended.
pub fn run() -> Result<ExitCode, Error> {
    let question = Arguments::parse().question;
    // An application ends at once when it is told to; it has nothing to put in order.
    if !matches!(question, Question::App(_)) {
        process::end_well_when_interrupted()?;
    }
    let answered: Result<(), Error> = match question {
        Question::Run(options) => run::run(&options),
        Question::Smoke(options) => smoke::run(&options),
        Question::Peers => {
            run::list_peers();
            Ok(())
        }
        Question::Workloads => {
            run::list_workloads();
            Ok(())
        }
        Question::Net(options) => net_command::run(&options),
        Question::Nettest(options) => nettest::run(&options),
        Question::Tcbench(options) => tcbench::run(&options),
        Question::Cpustat(options) => cpustat::run(&options),
        Question::Report(options) => report::run(&options),
        Question::Compare(options) => return compare::run(&options),
        Question::KeyToPhoton(options) => key_to_photon::run(&options),
        Question::PageDown(options) => page_down::run(&options),
        Question::Pages(options) => pages::run(&options),
        Question::Loops(options) => loops::run(&options),
        Question::Memory(options) => memory::run(&options),
        Question::EchoUnderLoad(options) => echo_under_load::run(&options),
        Question::Outages(options) => outages::run(&options),
        Question::Overwrite(options) => overwrite::run(&options),
        Question::Photographs(options) => photographs::run(&options),
        Question::Film(options) => film::run(&options),
        Question::Views(options) => views::run(&options),
        Question::Awareness(options) => awareness::run(&options),
        Question::Corpus(options) => corpus::run(&options),
        Question::Codecs(options) => codecs::run(&options),
        Question::Functions(options) => functions::run(&options),
        Question::HoldEnd(options) => end::hold(&options),
        Question::App(app) => apps::run(&app),
    };
    answered.map(|()| ExitCode::SUCCESS)
}
