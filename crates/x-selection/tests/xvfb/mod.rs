//! A private X server. Beside the path: what the tests of this crate share.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

/// A process that is killed when the test ends.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server and its display; none, with a message, without one of these programs.
pub(crate) fn xvfb(needed: &[&str]) -> Option<(Ended, String)> {
    let missing = needed.iter().find(|name| Command::new(name).arg("-version").output().is_err());
    if let Some(name) = missing {
        assert!(std::env::var_os("CI").is_none(), "these tests need {name}");
        eprintln!("skipped: no {name}");
        return None;
    }
    let mut child = Command::new("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut number = String::new();
    let mut out = child.stdout.take().unwrap();
    let mut byte = [0];
    while out.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        number.push(byte[0] as char);
    }
    Some((Ended(child), format!(":{number}")))
}
