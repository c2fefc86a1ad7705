//! Embeds the web viewer in the binary: every file of web/dist, or none if it has not been built.
//! From web/build.sh, to src/assets.rs. Knows file names; never how they are served.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let web = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../../web");
    let (web, dist) = (web.as_path(), web.join("dist"));
    let mut files: Vec<PathBuf> = fs::read_dir(&dist)
        .map(|entries| {
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect()
        })
        .unwrap_or_default();
    files.sort();
    let mut table = String::from("&[\n");
    for path in &files {
        let name =
            path.file_name().and_then(|name| name.to_str()).expect("web/dist has plain names");
        println!("cargo::rerun-if-changed={}", path.display());
        let path = path.canonicalize().expect("it was listed");
        let _ = writeln!(
            table,
            "    ({name:?}, include_bytes!({:?})),",
            path.to_str().expect("a UTF-8 path")
        );
    }
    table.push(']');
    // A missing folder counts as changed once it exists; a new file changes the folder.
    println!(
        "cargo::rerun-if-changed={}",
        if dist.is_dir() { dist.as_path() } else { web }.display()
    );
    println!("cargo::rerun-if-changed=build.rs");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("web_dist.rs");
    fs::write(out, table).expect("cargo's own folder can be written to");
}
