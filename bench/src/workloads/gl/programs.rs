//! OpenGL and Vulkan programs of others, where they are installed: GLXSpheres (the study's own),
//! vkcube and Blender. They have no bar codes, so that frames are counted by pixels that change, as
//! TCBench of the study does. Knows commands; never which peer shows them.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Error;
use crate::net::testbed::Direction;
use crate::observe::picture::Rect;
use crate::observe::tcbench;
use crate::process::on_path;
use crate::results::{Better, Form, Measure, quantity};
use crate::stage::{Stage, cost_measures};
use crate::workloads::threed::{WINDOW, run_seconds, window};
use crate::workloads::{Effort, Skip, Workload, own};

/// The workload.
pub struct Programs;

/// Samples a second, four times the frames of a usual screen (study, section 2: `tcbench -s100`).
const SAMPLES: u32 = 240;
/// From the start of a program until it moves steadily.
const WARM_UP: Duration = Duration::from_secs(2);
/// Longest until it shows itself: Blender reads much from disk.
const SHOWN_LIMIT: Duration = Duration::from_secs(120);
/// Plays an animation of Blender's first scene: its cube turns once in 250 frames.
const BLENDER_SCRIPT: &str = "import bpy
cube = bpy.data.objects['Cube']
cube.keyframe_insert('rotation_euler', frame=1)
cube.rotation_euler[2] = 6.28
cube.keyframe_insert('rotation_euler', frame=250)
def play():
    window = bpy.context.window_manager.windows[0]
    area = next(a for a in window.screen.areas if a.type == 'VIEW_3D')
    with bpy.context.temp_override(window=window, area=area):
        bpy.ops.screen.animation_play()
bpy.app.timers.register(play, first_interval=1.0)
";

/// One program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    GlxSpheres,
    VkCube,
    Blender,
}

impl Program {
    const ALL: [Program; 3] = [Program::GlxSpheres, Program::VkCube, Program::Blender];

    fn name(self) -> &'static str {
        match self {
            Program::GlxSpheres => "glxspheres64",
            Program::VkCube => "vkcube",
            Program::Blender => "blender",
        }
    }

    /// Its command, if it is installed; VirtualGL's own package puts nothing into PATH.
    fn found(self) -> Option<String> {
        let elsewhere = format!("/opt/VirtualGL/bin/{}", self.name());
        if on_path(self.name()) {
            Some(self.name().to_owned())
        } else {
            Path::new(&elsewhere).is_file().then_some(elsewhere)
        }
    }

    /// Whether VirtualGL stands before it: it knows no Vulkan.
    fn is_gl(self) -> bool {
        self != Program::VkCube
    }

    fn add_words(self, command: &mut Command, (width, height): (u32, u32), folder: &Path) {
        let (w, h) = (width.to_string(), height.to_string());
        match self {
            // It takes one number for both edges of its window.
            Program::GlxSpheres if (width, height) != WINDOW => command.arg("-fs"),
            Program::GlxSpheres => command,
            // 0: without waiting for a display's clock.
            Program::VkCube => command.args(["--width", &w, "--height", &h, "--present_mode", "0"]),
            Program::Blender => {
                command.args(["--factory-startup", "--window-geometry", "0", "0", &w, &h]);
                command.arg("--python").arg(folder.join("blender.py"))
            }
        };
    }
}

impl Workload for Programs {
    fn name(&self) -> &str {
        "3d-programs"
    }

    fn about(&self) -> &'static str {
        "GLXSpheres, vkcube and Blender, where they are installed: frames seen and their cost"
    }

    fn seconds(&self, _form: Form, effort: Effort) -> f64 {
        let installed = Program::ALL.iter().filter(|program| program.found().is_some()).count();
        installed as f64 * (8.0 + run_seconds(effort) as f64)
    }

    fn run(&self, stage: &mut Stage, _form: Form, effort: Effort) -> Result<Vec<Measure>, Error> {
        let size = window(self.name(), stage)?;
        let mut all = Vec::new();
        for program in Program::ALL {
            if let Some(path) = program.found() {
                let found = measure(stage, program, &path, size, run_seconds(effort));
                all.extend(found.map_err(|error| format!("{}: {error}", program.name()))?);
            }
        }
        if all.is_empty() {
            let names = Program::ALL.map(Program::name).join(", ");
            return Err(Skip(format!("none of {names} is installed")).into());
        }
        Ok(all)
    }
}

fn measure(
    stage: &Stage,
    program: Program,
    path: &str,
    size: (u32, u32),
    seconds: u64,
) -> Result<Vec<Measure>, Error> {
    let (name, folder) = (program.name(), stage.site.folder.path());
    std::fs::write(folder.join("blender.py"), BLENDER_SCRIPT)?;
    let mut command = if program.is_gl() { stage.gl_command(path) } else { stage.command(path) };
    program.add_words(&mut command, size, folder);
    stage.settle()?;
    let watch = stage.site.screen.watch()?;
    let began = Instant::now();
    let mut running = stage.application(name, command)?;
    while !watch.changed() {
        own::check(stage, name, &mut running)?;
        if began.elapsed() > SHOWN_LIMIT {
            let limit = SHOWN_LIMIT.as_secs();
            return Err(format!("it is not on the client's screen within {limit} s").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(watch);
    // Nothing says that a program of others has reached its steady speed.
    std::thread::sleep(WARM_UP);
    let area = Rect { x: stage.view.x, y: stage.view.y, width: size.0, height: size.1 };
    let meter = stage.meter()?;
    let display = stage.site.screen.display();
    let report = tcbench::measure(&tcbench::Options::of(display, area, seconds as u32, SAMPLES))?;
    let spent = meter.read(stage)?;
    own::check(stage, name, &mut running)?;
    let count = report.frames as f64;
    if report.frames == 0 {
        return Err(format!("it does not move{}", own::kept(stage, name)).into());
    }
    let down = spent.traffic.bytes(Direction::Down) as f64;
    let mut all = vec![
        Measure::higher(quantity::FRAME_RATE, name, "fps", [report.frame_rate]),
        Measure::lower("frame_bytes", name, "bytes", [down / count]),
        Measure::new("mbit_s", name, "Mbit/s", Better::Lower, [down * 8.0 / spent.seconds / 1e6]),
        Measure::lower("cpu_frame_ms", name, "ms", [spent.cpu_server_ms / count]),
        Measure::lower("cpu_program_frame_ms", name, "ms", [spent.cpu_apps_ms / count]),
        Measure::lower("cpu_viewer_frame_ms", name, "ms", [spent.cpu_client_ms / count]),
    ];
    all.extend(cost_measures(name, [&spent]));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_size_of_the_window() {
        let words = |program: Program, size: (u32, u32)| {
            let mut command = Command::new(program.name());
            program.add_words(&mut command, size, Path::new("/f"));
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(Program::GlxSpheres, WINDOW), "");
        assert_eq!(words(Program::GlxSpheres, (1024, 768)), "-fs");
        assert_eq!(
            words(Program::VkCube, (1024, 768)),
            "--width 1024 --height 768 --present_mode 0"
        );
        let blender = words(Program::Blender, WINDOW);
        assert!(blender.contains("0 0 1240 900") && blender.ends_with("/f/blender.py"));
    }
}
