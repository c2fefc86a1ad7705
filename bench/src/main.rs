//! thinc-bench: measures remote display systems from outside, thinc beside its peers, and prints or
//! draws what it found. cli.rs has its subcommands.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    match thinc_bench::cli::run() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("thinc-bench: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
