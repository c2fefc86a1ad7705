//! Manual pages and shell completions, from the definitions that the programs parse: `cargo
//! xtask-manuals FOLDER`. Beside the path: the programs' libraries provide their command lines,
//! files are written. Knows where distributions expect them: man1, bash, zsh, fish.

use std::fs;
use std::path::Path;

use clap_complete::Shell;

/// Writes all files under `folder` and returns their number.
pub(crate) fn write(folder: &Path) -> Result<usize, String> {
    let mut files = 0;
    for command in
        [thinc::command(), thinc_viewer_native::cli::command(), thinc_bench::cli::command()]
    {
        let name = command.get_name().to_owned();
        let pages = folder.join("man1");
        fs::create_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
        // One page for the program and one for each visible subcommand.
        clap_mangen::generate_to(command.clone(), &pages)
            .map_err(|error| format!("{}: {error}", pages.display()))?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let place = folder.join(shell.to_string());
            fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
            clap_complete::generate_to(shell, &mut command.clone(), &name, &place)
                .map_err(|error| format!("{}: {error}", place.display()))?;
            files += 1;
        }
    }
    let pages = fs::read_dir(folder.join("man1"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(files + pages.count())
}
