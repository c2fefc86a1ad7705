//! What an administrator has of `thinc broker`. Beside the path: the program is driven from
//! outside, as root where accounts are needed; without, such a test says so and passes. Knows
//! files and processes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// `thinc broker --check` with this configuration.
fn check(file: &Path, text: &str, more: &[&str]) -> (Output, String) {
    fs::write(file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_thinc"));
    command.args(["broker", "--check", "--config"]).arg(file).args(more);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn a_configuration_is_checked_without_starting_anything() {
    let file = std::env::temp_dir().join(format!("thinc-check-{}.toml", std::process::id()));
    // PAM's rules of some service, and an account, that every system has.
    let rules = fs::read_dir("/etc/pam.d").unwrap().next().unwrap().unwrap().file_name();
    let right = format!("front-user = 'nobody'\npam-service = {rules:?}\n");
    let (output, said) = check(&file, &right, &[]);
    assert!(output.status.success() && said.is_empty(), "{said}");

    let (output, said) = check(&file, &format!("{right}listen = 443\n"), &[]);
    assert!(!output.status.success());
    let place = format!("{}:3: listen = 443: it has to be an address", file.display());
    assert!(said.contains(&place), "{said}");

    let (_, said) = check(&file, &right.replace("nobody", "no-such-account"), &[]);
    assert!(said.contains("no account no-such-account"), "{said}");
    let (_, said) = check(&file, &right, &["--front-user", "root"]);
    assert!(said.contains("this account is root"), "the command line takes precedence: {said}");
    let keys = "tls-cert = '/no/such.pem'\ntls-key = '/no/such.pem'\n";
    let (_, said) = check(&file, &format!("{right}{keys}"), &[]);
    assert!(said.contains("/no/such.pem"), "{said}");
    fs::remove_file(&file).unwrap();
}
