//! The binary `thinc`; everything is in the library, so that man pages and tests use the same
//! texts. From the user's shell, to cli.rs. Knows nothing itself.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    thinc::main()
}
