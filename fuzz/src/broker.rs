//! The messages between the broker's front, its helper and login processes: the helper is root, and
//! reads what a front that was taken over could send. And the configuration, which root reads too.
//! Knows bytes; never passwords.

use std::net::Ipv6Addr;
use std::path::Path;

use thinc_broker::admin::{AdminRequest, AdminStatus};
use thinc_broker::config::{CONFIG_BYTES_MAX, Config, ConfigError, KEYS};
use thinc_broker::message::{Deed, Kept, Prompt, Reason, Reply, Request, Style};

/// One packet, as either side reads it: what is accepted is written the same way again.
pub fn message(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Ok(reply) = Reply::decode(input) {
        assert_eq!(reply.encode(), input);
    }
}

/// One message of the administrator's socket, either way.
pub fn admin(input: &[u8]) {
    if let Some(request) = AdminRequest::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Some(status) = AdminStatus::decode(input) {
        assert_eq!(status.encode(), input);
    }
}

/// Each kind.
pub fn admin_seeds() -> Vec<Vec<u8>> {
    let status = AdminStatus { is_draining: true, logins: 3, viewers: 2 };
    let requests = [AdminRequest::Status, AdminRequest::Drain, AdminRequest::Resume];
    let requests = requests.iter().map(|request| request.encode().to_vec());
    requests.chain([status.encode()]).collect()
}

/// Each kind.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let source = Ipv6Addr::LOCALHOST;
    let prompt = |style, text: &str| Prompt { style, text: text.to_owned() };
    let kept = Kept { login: 1, cookie_hash: [1; 32], origin_secret_hash: [2; 32] };
    vec![
        Request::Begin { attempt: 1, source, user: "anna".to_owned() }.encode(),
        Request::Answers { attempt: 1, answers: vec![b"secret".to_vec(), Vec::new()] }.encode(),
        Request::Cancel { attempt: 1 }.encode(),
        Request::Resume { attempt: 1, cookie: [1; 32], origin_secret: [2; 32] }.encode(),
        Request::End { attempt: 1, cookie: [1; 32] }.encode(),
        Request::Keep(kept).encode(),
        Request::Forget.encode(),
        Request::Note {
            cookie: [1; 32],
            source,
            viewer: 1,
            deed: Deed::Opened,
            session: "desk".to_owned(),
        }
        .encode(),
        Reply::Prompts {
            attempt: 1,
            prompts: vec![
                prompt(Style::Text, "Expired."),
                prompt(Style::Hidden, "Password:"),
                prompt(Style::Shown, "Code:"),
            ],
        }
        .encode(),
        Reply::Refused { attempt: 1, reason: Reason::Busy }.encode(),
        Reply::Refused { attempt: 1, reason: Reason::Draining }.encode(),
        Reply::Drain { is_draining: true }.encode(),
        Reply::Kept { login: 1, age_ms: 9, user: "anna".to_owned(), kept: Some(kept) }.encode(),
        Reply::Kept { login: 1, age_ms: 9, user: "anna".to_owned(), kept: None }.encode(),
        Reply::Ended { attempt: 1 }.encode(),
        Reply::Certificate.encode(),
        Reply::Admitted {
            attempt: 1,
            cookie: [1; 32],
            origin_secret: [2; 32],
            user: "anna".to_owned(),
        }
        .encode(),
    ]
}

/// A configuration file: whatever it holds, an error is one line of bounded length that names the
/// line of the file.
pub fn config(input: &[u8]) {
    let Err(error) = Config::parse(Path::new("broker.toml"), input) else { return };
    let text = error.to_string();
    assert!(text.len() < 2048 && !text.contains(char::is_control), "{text:?}");
    match error {
        ConfigError::Line { line, .. } => {
            assert!(line > 0 && line <= 1 + input.iter().filter(|&&byte| byte == b'\n').count());
        }
        ConfigError::TooLong(_) => assert!(input.len() > CONFIG_BYTES_MAX),
        other => panic!("{other} does not come from bytes"),
    }
}

/// The example with every key, and one file for each key with a value of the wrong type.
pub fn config_seeds() -> Vec<Vec<u8>> {
    let example = include_str!("../../packaging/host/broker.toml").replace("\n#", "\n");
    let settings = example.lines().filter(|line| line.contains(" = "));
    let settings = settings.collect::<Vec<_>>().join("\n").into_bytes();
    let wrong = KEYS.iter().map(|key| format!("{key} = [1, 2.5, true]\n").into_bytes());
    std::iter::once(settings).chain(wrong).collect()
}
