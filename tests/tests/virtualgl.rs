//! VirtualGL in a session: an OpenGL program that `vglrun` starts draws by its EGL back end, on the
//! first device of this machine, and its frames are shown. VirtualGL is no package of Debian's:
//! where it is not installed, that is said.

use std::path::{Path, PathBuf};

use thinc_bench::Error;
use thinc_bench::process::binary;
use thinc_e2e::Desktop;

/// Where VirtualGL's own packages put it.
const INSTALLED: &str = "/opt/VirtualGL/bin";

fn vglrun() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::env::split_paths(&path).chain([PathBuf::from(INSTALLED)]);
    folders.find_map(|folder| Some(folder.join("vglrun")).filter(|program| program.is_file()))
}

fn word(path: &Path) -> Result<&str, Error> {
    Ok(path.to_str().ok_or("its path is text")?)
}

#[test]
fn frames_of_a_program_under_vglrun_are_shown_exactly() -> Result<(), Error> {
    let Some(vglrun) = vglrun() else {
        eprintln!("skipped: no vglrun");
        return Ok(());
    };
    let (vglrun, program) = (word(&vglrun)?, binary("thinc-bench-gl")?);
    let mut command = vec![vglrun, "-d", "egl0", word(&program)?];
    command.extend(["--mode", "interactive", "--width", "640", "--height", "480"]);
    let mut desktop = Desktop::start("virtualgl", "640x480", &command)?;
    desktop.settle_once_drawn()?;
    assert!(desktop.view()?.colors() > 500, "shaded balls");
    desktop.assert_identical("the first frame")?;
    // A frame for each motion.
    for column in [100, 400, 250] {
        desktop
            .after_change(|desktop| desktop.viewer.say(&format!("move {column} 200")).map(drop))?;
        desktop.settle()?;
        desktop.assert_identical(&format!("after the motion to {column}"))?;
    }
    Ok(())
}
