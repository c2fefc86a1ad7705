//! The papers' graphics-editing benchmark (THINC §6): a recorded minute in GIMP, replayed through
//! the client's own keyboard and mouse. Slow-motion: each stroke, menu and filter alone. Normal: at
//! the recorded pace. Knows GIMP and the recording; never which peer shows it.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _};

use super::content::pictures::{Scene, photo};
use super::session::Session;
use super::{Effort, Skip, Workload};
use crate::Error;
use crate::process::{Running, wait_for};
use crate::results::{Form, Measure, quantity};
use crate::stage::{Stage, cost_measures, measures};

/// The workload.
pub struct Edit;

/// The recording; its positions are for a screen of [`SCREEN`].
const RECORDING: &str = include_str!("edit.events");
/// On another size, the buttons have other positions.
const SCREEN: (u32, u32) = (1024, 768);
/// The first start queries a hundred plug-ins.
const START_LIMIT: Duration = Duration::from_secs(120);
/// After the recording's end, until everything is on the client's screen.
const REST_LIMIT: Duration = Duration::from_secs(120);
/// Operations of the smoke test.
const SMOKE: usize = 4;

/// One processor, so that machines are comparable; the border of a selection moves every 10 s
/// instead of 5 times a second, or no operation would ever end; no history is stored.
const GIMPRC: &str = r#"(check-updates no)
(show-tooltips no)
(undo-levels 50)
(save-session-info no)
(save-device-status no)
(save-tool-options no)
(initial-zoom-to-fit no)
(marching-ants-speed 10000)
(num-processors 1)
(theme "Default")
(icon-theme "Legacy")
"#;

/// A blinking caret would never let the screen become idle.
const GTKRC: &str = "gtk-cursor-blink = 0\n";

/// One window over the whole screen, with docks of fixed widths: the recording clicks at places.
const SESSIONRC: &str = r#"(session-info "toplevel"
    (factory-entry "gimp-single-image-window")
    (position 0 0)
    (size 1024 768)
    (open-on-exit)
    (aux-info
        (left-docks-width "190")
        (right-docks-position "820")
        (maximized "no"))
    (gimp-toolbox
        (side left)
        (book
            (current-page 0)
            (dockable "gimp-tool-options"
                (tab-style automatic))))
    (gimp-dock
        (side right)
        (book
            (current-page 0)
            (dockable "gimp-layer-list"
                (tab-style automatic)
                (preview-size 32))
            (dockable "gimp-undo-history"
                (tab-style automatic)))))
(hide-docks no)
(single-window-mode yes)
(show-tabs no)
(last-tip-shown 0)
"#;

impl Workload for Edit {
    fn name(&self) -> &str {
        "edit"
    }

    fn about(&self) -> &'static str {
        "a recorded minute of drawing and filtering in GIMP (THINC 2004)"
    }

    fn forms(&self) -> &'static [Form] {
        &[Form::SlowMotion, Form::Normal]
    }

    fn needs(&self) -> &'static [&'static str] {
        &["gimp"]
    }

    fn seconds(&self, form: Form, effort: Effort) -> f64 {
        let start = 15.0;
        match (form, effort) {
            (_, Effort::Smoke) => start + 8.0,
            (Form::SlowMotion, _) => start + 75.0,
            (Form::Normal, _) => start + 76.0,
        }
    }

    fn run(&self, stage: &mut Stage, form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        if stage.site.size != SCREEN {
            let (width, height) = stage.site.size;
            let why = format!(
                "the recording is of a screen of {}x{}, not {width}x{height}",
                SCREEN.0, SCREEN.1
            );
            return Err(Box::new(Skip(why)));
        }
        let session = Session::parse(RECORDING).map_err(|error| format!("edit.events: {error}"))?;
        let count = if effort == Effort::Smoke { SMOKE } else { session.operations.len() };
        let mut gimp = start(stage)?;
        let origin = (stage.view.x, stage.view.y);
        let found = match form {
            Form::SlowMotion => {
                let mut operations = Vec::with_capacity(count);
                for recorded in &session.operations[..count] {
                    let replayed = stage
                        .operation(|input| {
                            recorded.replay(input, Instant::now(), recorded.at, origin)
                        })
                        .map_err(|error| format!("`{}`: {error}", recorded.name))?;
                    operations.push(replayed);
                }
                // Most changes happen while the pointer still moves, so the first change means
                // nothing. The last one is counted from the operation's last event; 0 if it was
                // before that.
                let mut found = measures("", &operations);
                found.retain(|measure| measure.quantity != quantity::PHOTON_MS);
                found
            }
            Form::Normal => {
                let watch = stage.site.screen.watch()?;
                let meter = stage.meter()?;
                let (begin, zero) = (Instant::now(), session.operations[0].at);
                let mut last = begin;
                for recorded in &session.operations[..count] {
                    last = recorded
                        .replay(&stage.input, begin, zero, origin)
                        .map_err(|error| format!("`{}`: {error}", recorded.name))?;
                }
                stage.wait_quiet(&watch, &stage.site.bed.mark(), REST_LIMIT)?;
                let spent = meter.read(stage)?;
                let changes = watch.finish()?.within(stage.view);
                let seen = changes.last().ok_or("nothing changed on the client's screen")?;
                let late =
                    changes.visible().unwrap_or(seen).saturating_duration_since(last).as_secs_f64();
                // The papers' measure: until the effect of the last action is visible.
                let completion = seen.max(last).duration_since(begin).as_secs_f64();
                let mut found = vec![
                    Measure::lower("completion_s", "", "s", [completion]),
                    Measure::lower(quantity::VISIBLE_MS, "", "ms", [late * 1e3]),
                ];
                found.extend(cost_measures("", &[spent]));
                found
            }
        };
        gimp.check()?;
        stage.park_pointer()?;
        Ok(found)
    }
}

/// Writes settings with which GIMP looks the same on every machine and is idle without input.
pub(crate) fn write_profile(profile: &Path) -> Result<(), Error> {
    fs::create_dir_all(profile)?;
    for (name, text) in [("gimprc", GIMPRC), ("gtkrc", GTKRC), ("sessionrc", SESSIONRC)] {
        fs::write(profile.join(name), text)?;
    }
    Ok(())
}

/// Starts GIMP with a photograph and waits until it is on the client's screen.
fn start(stage: &Stage) -> Result<Running, Error> {
    let profile = stage.site.folder.path().join("gimp");
    write_profile(&profile)?;
    if let Some(plugins) = PLUGINS.get() {
        fs::write(profile.join("pluginrc"), plugins)?;
    }
    let picture = stage.site.folder.path().join("photograph.png");
    fs::write(&picture, photo(2004, 560, 420, Scene::Landscape).png()?)?;
    let mut command = stage.command("gimp");
    command
        .env("GIMP2_DIRECTORY", &profile)
        .env("HOME", &profile)
        .env("LANG", "C.UTF-8")
        .env("NO_AT_BRIDGE", "1");
    for name in ["XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env(name, &profile);
    }
    command.args(["--no-splash", "--new-instance", "--no-fonts"]).arg(&picture);
    let mut running = stage.application("gimp", command)?;
    let mut ended = None;
    wait_for("GIMP shows the photograph", START_LIMIT, || {
        ended = running.check().err();
        (ended.is_some() || shows_picture(stage).unwrap_or(false)).then_some(())
    })?;
    ended.map_or(Ok(()), Err)?;
    stage.settle()?;
    keep_plugins(&profile);
    Ok(running)
}

/// Keeps the plug-in cache of GIMP's first start: queried once in a process, since it takes as long
/// as all else.
static PLUGINS: OnceLock<Vec<u8>> = OnceLock::new();

fn keep_plugins(profile: &Path) {
    if let Ok(found) = fs::read(profile.join("pluginrc")) {
        PLUGINS.get_or_init(|| found);
    }
}

/// Whether a window on the server's screen is named after the photograph.
fn shows_picture(stage: &Stage) -> Result<bool, Error> {
    let x = stage.connect_server()?;
    let root = x.setup().roots[0].root;
    let atom = |name: &str| Ok::<_, Error>(x.intern_atom(false, name.as_bytes())?.reply()?.atom);
    let (list, name) = (atom("_NET_CLIENT_LIST")?, atom("_NET_WM_NAME")?);
    let windows = x.get_property(false, root, list, AtomEnum::WINDOW, 0, 64)?.reply()?;
    for window in windows.value32().into_iter().flatten() {
        let title = x.get_property(false, window, name, AtomEnum::ANY, 0, 256)?.reply()?;
        if String::from_utf8_lossy(&title.value).starts_with("[photograph]") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::session::Event;

    #[test]
    fn the_recording_is_about_a_minute_and_stays_on_the_screen() {
        let session = Session::parse(RECORDING).unwrap();
        assert!((55.0..85.0).contains(&session.length.as_secs_f64()), "{:?}", session.length);
        assert!(session.operations.len() > 30, "{} operations", session.operations.len());
        let events = || session.operations.iter().flat_map(|operation| &operation.events);
        for (_, event) in events() {
            if let Event::Path { places, .. } = event {
                assert!(
                    places.iter().all(|&(x, y)| (0..1024).contains(&x) && (0..768).contains(&y)),
                    "{places:?}"
                );
            }
        }
        // Every button that goes down comes up, one at a time.
        let buttons: Vec<_> =
            events().filter(|(_, event)| matches!(event, Event::Down(_) | Event::Up(_))).collect();
        assert!(
            buttons
                .chunks(2)
                .all(|pair| matches!(pair, [(_, Event::Down(a)), (_, Event::Up(b))] if a == b))
        );
        assert!(buttons.len() > 20, "{} presses", buttons.len() / 2);
    }
}
