//! `thinc-view`: runs the window or the headless viewer that the command line asks for.
#![forbid(unsafe_code)]

use std::io::{BufReader, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use thinc_viewer_native::address;
use thinc_viewer_native::cli::{self, Cli};
use thinc_viewer_native::client::{Reconnect, this_program};
use thinc_viewer_native::error;
use thinc_viewer_native::headless::{Headless, HeadlessOptions};
use thinc_viewer_native::script;
#[cfg(feature = "h264")]
use thinc_viewer_native::video_decoder;
use thinc_viewer_native::view::ViewChoice;
use thinc_viewer_native::{Target, ViewError};

fn main() -> ExitCode {
    #[cfg(feature = "h264")]
    if std::env::args_os().nth(1).is_some_and(|first| first == video_decoder::ARGUMENT) {
        // Nobody reads what it would print: its end tells the viewer.
        return video_decoder::run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    if let Err(error) = thinc_transport::core_dumps::forbid() {
        error::report(format_args!("core dumps stay possible: {error}"));
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        if error.use_stderr() && std::env::args_os().any(|argument| argument == "--error-window") {
            show_error(&error.to_string());
        }
        error::exit_with(&error)
    });
    address::hide_token(cli.link.as_deref());
    let result = match cli.headless {
        _ if cli.uninstall => uninstall(&cli),
        true => headless(&cli),
        false => window(&cli),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error::report(&error);
            ExitCode::from(&error)
        }
    }
}

/// Removes what was copied to a host.
fn uninstall(cli: &Cli) -> Result<(), ViewError> {
    let Target::Ssh(target) = cli.target()? else { return Err(ViewError::NoUninstall) };
    let removed = thinc_viewer_native::uninstall(&target)?;
    let mut output = std::io::stdout();
    for folder in &removed {
        let _ = writeln!(output, "removed {folder} on {}", target.host());
    }
    if removed.is_empty() {
        let _ = writeln!(output, "thinc-view has copied nothing to {}", target.host());
    }
    Ok(())
}

/// Runs without a window: the script, then the wait until the screen is idle, then the output
/// files.
fn headless(cli: &Cli) -> Result<(), ViewError> {
    let options = HeadlessOptions {
        timeout: cli.timeout,
        size: cli.size,
        view: cli.view.and_then(ViewChoice::view),
        known_hosts: cli.pin_store.clone().or_else(cli::default_pin_store),
        transport: cli.transport.choice(),
        devices: cli.devices(),
        reconnect: if cli.script.is_some() { Reconnect::Always } else { Reconnect::Never },
        cache: cli.cache(),
        clipboard: cli.clipboard(),
        files: cli.files(),
        prints: cli.prints(),
        quality: cli.quality.choice(),
        gamma: cli.gamma.choice(),
        stereo: cli.stereo.choice(),
        decoder: this_program(),
        decoding: cli.decoder.choice(),
    };
    let mut viewer = Headless::open(cli.target()?, options)?;
    let scripted = match &cli.script {
        None => Ok(()),
        Some(path) if path.as_os_str() == "-" => {
            script::run(&mut viewer, std::io::stdin().lock(), std::io::stdout().lock())
        }
        Some(path) => {
            let file = std::fs::File::open(path)
                .map_err(|error| ViewError::File { path: path.clone(), error })?;
            script::run(&mut viewer, BufReader::new(file), std::io::stdout().lock())
        }
    };
    // The output files are written even if a command of the script failed: they may show why.
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
    use thinc_viewer_native::desktops::DesktopChoice;
    use thinc_viewer_native::window::{self, WindowMode, WindowOptions};
    let options = WindowOptions {
        fullscreen: cli.fullscreen,
        mode: match cli.windows {
            _ if cli.monitors => WindowMode::Monitors,
            Some(count) => WindowMode::Windows(count.into()),
            None => WindowMode::One,
        },
        size: cli.size,
        view: cli.view,
        statistics: cli.stats,
        present: cli.present,
        layout: cli.layout.clone(),
        timeout: cli.timeout,
        known_hosts: cli.pin_store.clone().or_else(cli::default_pin_store),
        transport: cli.transport.choice(),
        desktop: cli.desktop_choice(),
        opening: cli.opening(),
        devices: cli.devices(),
        stats_json: cli.stats_json.clone(),
        cache: cli.cache(),
        clipboard: cli.clipboard(),
        files: cli.files(),
        prints: cli.prints(),
        quality: cli.quality.choice(),
        gamma: cli.gamma.choice(),
        stereo: cli.stereo.choice(),
        sound: cli.sound.choice(),
        microphone: cli.microphone.choice(),
        decoding: cli.decoder.choice(),
        error_window: cli.error_window,
    };
    let target = cli.target().inspect_err(|error| {
        if cli.error_window {
            show_error(error);
        }
    })?;
    let logs_in = matches!(&target, Target::Link(link) if link.token.is_none());
    if !logs_in && options.desktop != DesktopChoice::Any {
        return Err(ViewError::NoDesktops);
    }
    window::run(target, &options)
}

#[cfg(feature = "window")]
fn show_error(error: &dyn std::fmt::Display) {
    thinc_viewer_native::window::show_error(error);
}

#[cfg(not(feature = "window"))]
fn show_error(_: &dyn std::fmt::Display) {}

#[cfg(not(feature = "window"))]
fn window(_: &Cli) -> Result<(), ViewError> {
    Err(ViewError::Window(
        "this thinc-view was built without windows (feature \"window\"); --headless works"
            .to_owned(),
    ))
}
