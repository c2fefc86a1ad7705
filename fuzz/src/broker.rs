//! The messages between the broker's front, its helper and login processes: the helper is root, and
//! reads what a front that was taken over could send. Knows bytes; never passwords.

use std::net::Ipv6Addr;

use thinc_broker::message::{Prompt, Reason, Reply, Request, Style};

/// One packet, as either side reads it: what is accepted is written the same way again.
pub fn message(input: &[u8]) {
    if let Ok(request) = Request::decode(input) {
        assert_eq!(request.encode(), input);
    }
    if let Ok(reply) = Reply::decode(input) {
        assert_eq!(reply.encode(), input);
    }
}

/// Each kind.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let source = Ipv6Addr::LOCALHOST;
    let prompt = |style, text: &str| Prompt { style, text: text.to_owned() };
    vec![
        Request::Begin { attempt: 1, source, user: "anna".to_owned() }.encode(),
        Request::Answers { attempt: 1, answers: vec![b"secret".to_vec(), Vec::new()] }.encode(),
        Request::Cancel { attempt: 1 }.encode(),
        Request::Resume { attempt: 1, cookie: [1; 32], origin_secret: [2; 32] }.encode(),
        Request::End { cookie: [1; 32] }.encode(),
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
        Reply::Admitted {
            attempt: 1,
            cookie: [1; 32],
            origin_secret: [2; 32],
            user: "anna".to_owned(),
        }
        .encode(),
    ]
}
