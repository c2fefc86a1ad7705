//! The fuzzer: libFuzzer around one target (`./dev fuzz TARGET`), or, in a normal build, a replayer
//! of the inputs it found. Beside the path. THINC_FUZZ_TARGET names the target, so that one program
//! serves them all. Knows targets by name.
#![cfg_attr(fuzzing, no_main)]
#![cfg_attr(not(fuzzing), forbid(unsafe_code))]

#[cfg(fuzzing)]
mod under_libfuzzer {
    use std::sync::LazyLock;

    static TARGET: LazyLock<&'static thinc_fuzz::Target> = LazyLock::new(|| {
        let name =
            std::env::var("THINC_FUZZ_TARGET").expect("THINC_FUZZ_TARGET must name a target");
        thinc_fuzz::target(&name).expect("THINC_FUZZ_TARGET must be one of ./dev fuzz list")
    });

    libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
}

/// `thinc-fuzz list`; `thinc-fuzz seeds TARGET FOLDER`; `thinc-fuzz TARGET FILE…` runs the target
/// on each file.
#[cfg(not(fuzzing))]
fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| {
        thinc_fuzz::target(name)
            .ok_or_else(|| format!("there is no target {name}: see thinc-fuzz list"))
    };
    match &arguments[..] {
        [command] if command == "list" => {
            thinc_fuzz::targets().for_each(|target| println!("{}", target.name))
        }
        [command, name, folder] if command == "seeds" => {
            for (index, seed) in (named(name)?.seeds)().iter().enumerate() {
                let path = std::path::Path::new(folder).join(format!("seed-{index}"));
                std::fs::write(&path, seed)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        [name, files @ ..] if !files.is_empty() => {
            let target = named(name)?;
            for file in files {
                (target.run)(&std::fs::read(file).map_err(|error| format!("{file}: {error}"))?);
                println!("{file}: fine");
            }
        }
        _ => return Err("usage: thinc-fuzz list | seeds TARGET FOLDER | TARGET FILE…".to_owned()),
    }
    Ok(())
}
