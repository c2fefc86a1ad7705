//! What transports read: links, requests for a connection, parities, reports of a host. Beside the
//! path. A promise is an assertion; an error is a valid answer to invalid bytes. Knows the public
//! interfaces only.

use std::future::Future as _;
use std::pin::pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};

use thinc_protocol::framing::MessageFrame;
use thinc_protocol::parity::Parity;
use thinc_transport::host::HostReport;
use thinc_transport::link::{Link, LinkError};
use thinc_transport::offer::{self, OfferRequest};
use thinc_transport::parity::{RepairedStream, fill_tables};
use thinc_transport::quic::Connect;
use web_transport_proto::ConnectRequest;
use web_transport_proto::http::HeaderValue;
use web_transport_proto::http::header::ORIGIN;

use crate::parsers::with_frame;

/// A link as pasted by a person.
pub fn link(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(link) = text.parse::<Link>() {
        assert!(link.port != 0 && !link.host.is_empty(), "a link without host or port");
        match link.to_string().parse::<Link>() {
            Ok(again) => assert_eq!(again, link, "a link changes when it is written and read"),
            // Written out, a link at the limit may exceed it by its default port.
            Err(LinkError::TooLong(_)) => {
                assert!(text.len() > 2000, "a short link becomes too long")
            }
            Err(error) => panic!("a written link cannot be read: {error}"),
        }
    }
}

/// Links for both kinds of viewer, with names and addresses.
pub fn link_seeds() -> Vec<Vec<u8>> {
    let pin = "A".repeat(43);
    [
        format!("https://127.0.0.1:7300/#t=AAAA&k={pin}"),
        format!("thinc://[::1]:7300/base/path/#t=AAAA&k={pin}"),
        "https://example.org/".to_owned(),
        "thinc://[fe80::1%eth0]:1/#x=y&t=AAAA".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// The lines about a UDP port between a viewer that came through ssh and the session: whatever is
/// read is written as a line that is read as the same.
pub fn offer(input: &[u8]) {
    if let Ok(request) = OfferRequest::parse(input) {
        assert_eq!(OfferRequest::parse(request.to_line().as_bytes()), Ok(request));
    }
    if let Ok(answer) = offer::parse_answer(input) {
        let line = offer::answer_line(&answer);
        assert!(line.len() <= offer::LINE_BYTES_MAX, "an answer of {} bytes", line.len());
        assert_eq!(offer::parse_answer(line.as_bytes()), Ok(answer));
    }
}

/// A request, an offer and a refusal.
pub fn offer_seeds() -> Vec<Vec<u8>> {
    let pin = "A".repeat(43);
    [
        "offer 1 192.0.2.7 60000-61000\n".to_owned(),
        format!("quic 2001:db8::1 60001 {pin} AAAA\n"),
        "none every UDP port from 60000 to 60001 is in use\n".to_owned(),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// Parities and pieces of a stream in any order: each part of the input begins with what it is and
/// two bytes of its length. Whatever they claim, no more is delivered than has arrived, in order.
pub fn parity(input: &[u8]) {
    fill_tables();
    let (mut stream, mut delivered, mut end) = (RepairedStream::new(0), 0, 0);
    let mut rest = input;
    while let [what, low, high, more @ ..] = rest {
        let (part, after) =
            more.split_at(more.len().min(usize::from(*low) | usize::from(*high) << 8));
        rest = after;
        if *what & 1 == 0 {
            if let Ok(parity) =
                MessageFrame::from_datagram(part).and_then(|frame| Parity::decode(&frame))
            {
                with_frame(
                    |out| parity.encode(out),
                    |again| assert_eq!(Parity::decode(again), Ok(parity)),
                );
                end = end.max(parity.start + u64::from(parity.bytes));
                assert!(stream.parity(&parity), "64 KiB are no flood");
            }
        } else {
            let at = u64::from(*what >> 1) * 64;
            end = end.max(at + part.len() as u64);
            assert!(stream.arrived(at, part.to_vec().into()), "64 KiB are no flood");
        }
        let mut buffer = [0; 100];
        while stream.is_readable() {
            delivered += stream.read(&mut buffer) as u64;
        }
        assert!(delivered <= end, "{delivered} bytes of {end}");
    }
}

/// A burst of which the first piece is lost and computed.
pub fn parity_seeds() -> Vec<Vec<u8>> {
    let mut group = Vec::new();
    let symbols = [7; 128];
    Parity { start: 0, bytes: 128, parities: 1, first: 0, symbols: &symbols }.encode(&mut group);
    let mut seed = vec![0, group.len() as u8, 0];
    seed.extend_from_slice(&group);
    seed.extend_from_slice(&[5, 3, 0, 1, 2, 3]);
    vec![seed]
}

/// What a host without thinc says of itself: found in the whole exactly if it is found in a part,
/// and nothing of it speaks to a terminal.
pub fn host_report(input: &[u8]) {
    let Ok(Some(report)) = HostReport::find(input) else { return };
    assert!(HostReport::has_begun(input), "a report without its beginning");
    let texts = [
        &report.system,
        &report.machine,
        &report.libc,
        &report.os,
        &report.os_name,
        &report.folder,
    ];
    let more = report.other.iter().chain(&report.xorg).chain(&report.removed);
    for text in texts.into_iter().chain(more) {
        assert!(!text.chars().any(char::is_control), "{text:?} holds control characters");
        assert!(text.chars().count() <= 200, "a value of {} bytes", text.len());
    }
    let longer = [input, b"\nend\nname other\n"].concat();
    assert_eq!(HostReport::find(&longer), Ok(Some(report)), "what follows changes nothing");
}

/// A report of a host, and one about what was removed.
pub fn host_report_seeds() -> Vec<Vec<u8>> {
    let host = "Hello\n\x1ethinc host 1\nsystem Linux\nmachine x86_64\nlibc glibc 2.36\n\
        os debian\nname Debian GNU/Linux 12\nother thinc 0.0.9\nfolder /h/thinc/0.1.0\n\
        free 1234\nxorg 1.21.1.7\nend\n";
    let removed = "\x1ethinc host 1\nremoved /h/.local/share/thinc/0.1.0\nend\n";
    [host, removed].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// The request for a WebTransport session, read before authentication.
pub fn connect(input: &[u8]) {
    let mut stream = input;
    let mut read = pin!(Connect::read(&mut stream));
    let mut context = Context::from_waker(Waker::noop());
    // Bytes in memory are read without waiting, except when tokio's budget for one poll is used up.
    let connect = loop {
        if let Poll::Ready(connect) = read.as_mut().poll(&mut context) {
            break connect;
        }
    };
    if let Ok(connect) = connect {
        let head = connect.head();
        assert!(
            !head.authority.is_empty() && head.path.starts_with('/'),
            "a request without authority or path: {head:?}"
        );
        assert!(
            head.origin.is_none_or(|origin| origin.is_ascii()),
            "an origin that is not ASCII: {head:?}"
        );
    }
}

/// Requests as sent by browsers, one after a frame that must be skipped (RFC 9114, 7.2.8).
pub fn connect_seeds() -> Vec<Vec<u8>> {
    let plain = |place: &str| {
        let mut seed = Vec::new();
        let request = ConnectRequest::new(url(place, |request| request.url));
        let origin = HeaderValue::from_static("https://127.0.0.1:7300");
        request
            .with_header(ORIGIN, origin)
            .encode(&mut seed)
            .expect("a short request can be encoded");
        seed
    };
    let first = plain("https://127.0.0.1:7300/webtransport?key=a-_b");
    let skipped = [&[0x21, 3, 1, 2, 3][..], &first].concat();
    vec![first, plain("https://user@[::1]/desk/webtransport"), skipped]
}

/// Parses a text as the `url` of a request, whose type is not exported.
fn url<U: FromStr<Err: std::fmt::Debug>>(text: &str, _: fn(ConnectRequest) -> U) -> U {
    text.parse().expect("the text is a URL")
}
