//! The binary `thinc`; everything is in the library beside it, so that man pages and tests use the same words.
//! From the person's shell, to cli.rs.
//! Knows nothing itself.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    thinc::main()
}
