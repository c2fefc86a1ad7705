//! `thinc-view`: the command line, and where it leads.
#![forbid(unsafe_code)]

use std::io::{BufReader, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use thinc_viewer_native::ViewError;
use thinc_viewer_native::cli::{self, Cli};
use thinc_viewer_native::client::Reconnect;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};
use thinc_viewer_native::script;
use thinc_viewer_native::view::ViewChoice;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = if cli.headless { headless(&cli) } else { window(&cli) };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "thinc-view: {error}");
            ExitCode::from(&error)
        }
    }
}

/// Runs without a display: the script, then quiet, then the files.
fn headless(cli: &Cli) -> Result<(), ViewError> {
    let options = HeadlessOptions {
        timeout: cli.timeout,
        size: cli.size,
        view: cli.view.and_then(ViewChoice::view),
        known_hosts: cli.pin_store.clone().or_else(cli::default_pin_store),
        transport: cli.transport.choice(),
        reconnect: if cli.script.is_some() { Reconnect::Always } else { Reconnect::Never },
        cache: cli.cache(),
        clipboard: cli.clipboard(),
    };
    let mut viewer = Headless::open(cli.target()?, options)?;
    let scripted = match &cli.script {
        None => Ok(()),
        Some(path) if path.as_os_str() == "-" => {
            script::run(&mut viewer, std::io::stdin().lock(), std::io::stdout().lock())
        }
        Some(path) => {
            let file = std::fs::File::open(path).map_err(|error| ViewError::File { path: path.clone(), error })?;
            script::run(&mut viewer, BufReader::new(file), std::io::stdout().lock())
        }
    };
    // What was asked for at the end is written even where a line of the script failed: it may show why.
    let quiet = if cli.when_quiet && scripted.is_ok() { viewer.wait_quiet() } else { Ok(()) };
    if let Some(path) = &cli.screenshot {
        viewer.screenshot(path)?;
    }
    if let Some(path) = &cli.stats_json {
        viewer.write_stats(path)?;
    }
    scripted.and(quiet)
}

#[cfg(feature = "window")]
fn window(cli: &Cli) -> Result<(), ViewError> {
    use thinc_viewer_native::window::{self, Desk, WindowOptions};
    let options = WindowOptions {
        fullscreen: cli.fullscreen,
        desk: match cli.windows {
            _ if cli.monitors => Desk::Monitors,
            Some(count) => Desk::Windows(count.into()),
            None => Desk::One,
        },
        size: cli.size,
        view: cli.view,
        statistics: cli.stats,
        present: cli.present,
        layout: cli.layout.clone(),
        timeout: cli.timeout,
        known_hosts: cli.pin_store.clone().or_else(cli::default_pin_store),
        transport: cli.transport.choice(),
        stats_json: cli.stats_json.clone(),
        cache: cli.cache(),
        clipboard: cli.clipboard(),
    };
    window::run(cli.target()?, &options)
}

#[cfg(not(feature = "window"))]
fn window(_: &Cli) -> Result<(), ViewError> {
    Err(ViewError::Window("this thinc-view was built without one (feature \"window\"); --headless works".to_owned()))
}
