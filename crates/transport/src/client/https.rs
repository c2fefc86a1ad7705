//! One request over HTTPS to a server whose key a viewer has checked before: what a page asks a
//! broker for, with the same cookie and secret. Beside the path: from a native viewer's list of
//! desktops. HTTP/1.1 without keep-alive; knows heads and lengths, never what an answer says.

use std::fmt::Write as _;
use std::io;
use std::time::{Duration, Instant};

use super::{ConnectError, ConnectOptions, SecureTransport as _, Trust, tcp};
use crate::link::Link;
use crate::pin::SpkiPin;

/// Longest head of an answer, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Longest body: a list of all desktops that a person may have.
const BODY_BYTES_MAX: usize = 256 * 1024;
const ALPN_HTTP: &[u8] = b"http/1.1";

/// What is asked for.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// From the first slash on.
    pub path: &'a str,
    /// Names and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// JSON, or empty.
    pub body: &'a str,
}

/// What the server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200, …
    pub status: u16,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of the first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// Asks the server of this link; blocks for at most `options.timeout` to connect, and as long as
/// `limit` for the answer.
///
/// # Errors
/// As for [`super::establish`], and if the answer is no HTTP or too long.
pub fn request(
    link: &Link,
    options: &ConnectOptions,
    pin: SpkiPin,
    request: Request<'_>,
    limit: Duration,
) -> Result<Answer, ConnectError> {
    let authority = link.authority();
    let trust = Trust {
        host: link.host.clone(),
        authority: authority.clone(),
        expected: Some(pin),
        store: None,
    };
    let deadline = Instant::now() + options.timeout;
    let stream = tcp::open(&super::addresses(link, options)?, &authority, deadline)?;
    let mut stream = tcp::handshake(stream, &trust, ALPN_HTTP, deadline)?;
    let deadline = Instant::now() + limit;
    let broken = |error| ConnectError::Broken(authority.clone(), error);
    stream.send(&written(&authority, request), deadline).map_err(broken)?;
    let mut received = Vec::new();
    loop {
        if let Some(answer) = parse(&received).map_err(broken)? {
            return Ok(answer);
        }
        if stream.receive(&mut received, deadline).map_err(broken)? == 0 {
            return Err(broken(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

fn written(authority: &str, request: Request<'_>) -> Vec<u8> {
    let Request { method, path, headers, body } = request;
    let mut text = format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nOrigin: https://{authority}\r\n\
         Connection: close\r\nContent-Length: {}\r\n",
        body.len()
    );
    if !body.is_empty() {
        text += "Content-Type: application/json\r\n";
    }
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "\r\n{body}");
    text.into_bytes()
}

/// The answer, once it is complete.
fn parse(received: &[u8]) -> io::Result<Option<Answer>> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return match received.len() > HEAD_BYTES_MAX {
            true => Err(invalid("the head of the answer is too long")),
            false => Ok(None),
        };
    };
    let head = std::str::from_utf8(&received[..end]).map_err(|_| invalid("no answer of HTTP"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| {
        let rest = line.strip_prefix("HTTP/1.1 ")?;
        rest.get(..3)?.parse().ok()
    });
    let status: u16 = status.ok_or_else(|| invalid("no answer of HTTP/1.1"))?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut length = None;
    for (_, value) in headers.iter().filter(|(name, _)| name == "content-length") {
        let value = value.parse::<usize>().map_err(|_| invalid("a length is wrong"))?;
        if length.replace(value).is_some_and(|other| other != value) {
            return Err(invalid("two lengths differ"));
        }
    }
    // An answer without content has no length (RFC 9110, section 8.6).
    let length = if status == 204 { 0 } else { length.ok_or_else(|| invalid("no length"))? };
    if length > BODY_BYTES_MAX {
        return Err(invalid("the answer is too long"));
    }
    let body = &received[end + 4..];
    Ok(body.get(..length).map(|body| Answer { status, headers, body: body.to_vec() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body() {
        let text = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\n{}";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]).unwrap(), None, "{end}");
        }
        let answer = parse(text).unwrap().unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"{}"[..]));
        assert_eq!((answer.header("server"), answer.header("cookie")), (Some("x"), None));
        let none = parse(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap();
        assert_eq!((none.status, none.body.len()), (204, 0));
        for bad in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 xx\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(&vec![b'x'; HEAD_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn a_request_names_the_host_and_its_length() {
        let headers = [("Cookie", "a=b")];
        let request = Request { method: "POST", path: "/start", headers: &headers, body: "{}" };
        let text = String::from_utf8(written("desk.example:8443", request)).unwrap();
        assert!(text.starts_with("POST /start HTTP/1.1\r\nHost: desk.example:8443\r\n"), "{text}");
        assert!(text.contains("\r\nContent-Length: 2\r\nContent-Type: application/json\r\n"));
        assert!(text.ends_with("\r\nCookie: a=b\r\n\r\n{}"));
    }
}
