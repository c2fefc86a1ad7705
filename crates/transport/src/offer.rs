//! How a viewer that came through ssh learns where the session can be reached over QUIC: one line
//! that `thinc session --stdio` sends to the session process, and one line back, which it passes on
//! to the viewer between its greeting and the protocol. From thinc-view's `--udp-ports`, to
//! session-server's quic_port.rs, and back to thinc-view. Knows text; every part of what was parsed
//! is valid.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use thinc_protocol::wire::is_deceptive;
use thiserror::Error;

use crate::base64url;
use crate::pin::SpkiPin;

/// Longest line in either direction, with its line break; the longest offer has 217 bytes.
pub const LINE_BYTES_MAX: usize = 512;
/// Longest reason why there is no offer, in characters.
const REASON_CHARS_MAX: usize = 100;
/// Longest token, in bytes; `Auth` frames have the same limit.
const TOKEN_BYTES_MAX: usize = 128;

/// A range of UDP ports, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPorts {
    first: u16,
    last: u16,
}

/// The text is not a range of ports.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a range of UDP ports: expected FIRST-LAST, from 1 to 65535, such as 60000-61000"
)]
pub struct PortsError(String);

impl Default for UdpPorts {
    /// Those of mosh, which firewalls may let through already.
    fn default() -> UdpPorts {
        UdpPorts { first: 60000, last: 61000 }
    }
}

impl UdpPorts {
    /// All of them, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }
}

impl FromStr for UdpPorts {
    type Err = PortsError;

    /// `60000-61000`, or one port.
    fn from_str(text: &str) -> Result<UdpPorts, PortsError> {
        let bad = || PortsError(text.chars().take(40).collect());
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |digits: &str| {
            let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|&port: &u16| is_number && port != 0).ok_or_else(bad)
        };
        let (first, last) = (port(first)?, port(last)?);
        if first > last { Err(bad()) } else { Ok(UdpPorts { first, last }) }
    }
}

impl fmt::Display for UdpPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// Asks a session process for a UDP port.
///
/// ```text
/// offer 1 ADDRESS FIRST-LAST LF
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferRequest {
    /// The local address that ssh came to; the port is bound to it.
    pub address: IpAddr,
    /// The port is one of these.
    pub ports: UdpPorts,
}

/// Where a session can be reached over QUIC, and what opens it there.
///
/// ```text
/// quic ADDRESS PORT PIN TOKEN LF      PIN, TOKEN: base64url
/// none REASON LF
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Offer {
    /// Address and UDP port, as the host knows them.
    pub address: SocketAddr,
    /// The key that the session shows there.
    pub pin: SpkiPin,
    /// Opens the session once, within a minute.
    pub token: Vec<u8>,
}

/// The line is none of these.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("an invalid line about UDP ports")]
pub struct LineError;

/// The token stays out of logs.
impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Offer({} {} secret)", self.address, self.pin)
    }
}

/// The text of a line that ends with a line break, and holds no other control character.
fn words(line: &[u8]) -> Result<&str, LineError> {
    let text = line.strip_suffix(b"\n").filter(|_| line.len() <= LINE_BYTES_MAX);
    let text = std::str::from_utf8(text.ok_or(LineError)?).map_err(|_| LineError)?;
    if text.contains(is_deceptive) { Err(LineError) } else { Ok(text) }
}

impl OfferRequest {
    /// The line.
    pub fn to_line(&self) -> String {
        format!("offer 1 {} {}\n", self.address, self.ports)
    }

    /// Parses a line, with its line break.
    ///
    /// # Errors
    /// Anything that [`OfferRequest::to_line`] does not write.
    pub fn parse(line: &[u8]) -> Result<OfferRequest, LineError> {
        let words: Vec<&str> = words(line)?.split(' ').collect();
        let ["offer", "1", address, ports] = words[..] else { return Err(LineError) };
        Ok(OfferRequest {
            address: address.parse().map_err(|_| LineError)?,
            ports: ports.parse().map_err(|_| LineError)?,
        })
    }
}

/// The line that answers a request; `Err`: why there is no offer, for the user.
pub fn answer_line(answer: &Result<Offer, String>) -> String {
    match answer {
        Ok(Offer { address, pin, token }) => {
            format!("quic {} {} {pin} {}\n", address.ip(), address.port(), base64url::encode(token))
        }
        Err(reason) => {
            let reason = reason.chars().map(|c| if is_deceptive(c) { ' ' } else { c });
            format!("none {}\n", reason.take(REASON_CHARS_MAX).collect::<String>())
        }
    }
}

/// Parses such a line, with its line break.
///
/// # Errors
/// Anything that [`answer_line`] does not write.
pub fn parse_answer(line: &[u8]) -> Result<Result<Offer, String>, LineError> {
    let text = words(line)?;
    if let Some(reason) = text.strip_prefix("none ") {
        let is_short = reason.chars().count() <= REASON_CHARS_MAX;
        return if is_short { Ok(Err(reason.to_owned())) } else { Err(LineError) };
    }
    let words: Vec<&str> = text.split(' ').collect();
    let ["quic", address, port, pin, token] = words[..] else { return Err(LineError) };
    let address: IpAddr = address.parse().map_err(|_| LineError)?;
    let ports: UdpPorts = port.parse().map_err(|_| LineError)?;
    let token = base64url::decode(token).ok_or(LineError)?;
    if ports.first != ports.last || token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(LineError);
    }
    let address = SocketAddr::new(address, ports.first);
    Ok(Ok(Offer { address, pin: pin.parse().map_err(|_| LineError)?, token }))
}

/// The local address that ssh came to, from the variable `SSH_CONNECTION` of the login: client
/// address, client port, server address, server port.
///
/// # Errors
/// Why no UDP port can be bound to it, for the user.
pub fn ssh_address(connection: Option<&str>) -> Result<IpAddr, String> {
    let text = connection.ok_or("SSH_CONNECTION is not set on the host")?;
    let words: Vec<&str> = text.split(' ').collect();
    let [_, _, address, _] = words[..] else {
        return Err("SSH_CONNECTION names no address on the host".to_owned());
    };
    if address.contains('%') {
        return Err("ssh came to a link-local address".to_owned());
    }
    let address: IpAddr =
        address.parse().map_err(|_| "SSH_CONNECTION names no address on the host".to_owned())?;
    Ok(address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(address: &str) -> Offer {
        let token = (0..56).collect();
        Offer { address: address.parse().unwrap(), pin: SpkiPin([7; 32]), token }
    }

    #[test]
    fn ranges_of_ports_are_checked() {
        let ports = |text: &str| text.parse::<UdpPorts>();
        assert_eq!(ports("60000-61000").unwrap(), UdpPorts::default());
        assert_eq!(UdpPorts::default().to_string(), "60000-61000");
        assert_eq!(ports("7").unwrap().iter().collect::<Vec<_>>(), [7]);
        assert_eq!(ports("65534-65535").unwrap().iter().count(), 2);
        for bad in ["", "-", "0-5", "5-4", "1-65536", "+1-2", "1-2-3", "a-b", "1 - 2", "1:2"] {
            let words = ports(bad).unwrap_err().to_string();
            assert!(words.contains(&format!("{bad:?}")) && words.contains("65535"), "{words}");
        }
    }

    #[test]
    fn requests_round_trip_and_others_are_refused() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            let request =
                OfferRequest { address: address.parse().unwrap(), ports: UdpPorts::default() };
            let line = request.to_line();
            assert_eq!(OfferRequest::parse(line.as_bytes()), Ok(request));
            for end in 0..line.len() {
                assert!(OfferRequest::parse(&line.as_bytes()[..end]).is_err(), "{end}");
            }
        }
        for bad in [
            "offer 2 192.0.2.1 1-2\n",
            "offer 1 host 1-2\n",
            "offer 1 192.0.2.1 2-1\n",
            "offer 1 192.0.2.1 1-2 \n",
            "offer 1 192.0.2.1  1-2\n",
            "offer 1 192.0.2.1 1-2\n\n",
            "offer 1 192.0.2.1 1-2\r\n",
        ] {
            assert_eq!(OfferRequest::parse(bad.as_bytes()), Err(LineError), "{bad:?}");
        }
    }

    #[test]
    fn offers_round_trip_and_damaged_ones_are_refused_or_differ() {
        for address in ["192.0.2.1:60001", "[2001:db8::1]:1"] {
            let offer = offer(address);
            let line = answer_line(&Ok(offer.clone())).into_bytes();
            assert!(line.len() <= LINE_BYTES_MAX);
            assert_eq!(parse_answer(&line), Ok(Ok(offer.clone())));
            for end in 0..line.len() {
                assert_eq!(parse_answer(&line[..end]), Err(LineError), "{end}");
            }
            for at in 0..line.len() {
                for byte in [0, b' ', b'\n', b'z', 0xff] {
                    let mut damaged = line.clone();
                    damaged[at] = byte;
                    let parsed = parse_answer(&damaged);
                    assert!(damaged == line || parsed != Ok(Ok(offer.clone())), "{damaged:?}");
                }
            }
        }
        let long = "A".repeat(172);
        for bad in [
            "quic 192.0.2.1 0 p t\n".to_owned(),
            format!("quic 192.0.2.1 1 {} {long}\n", SpkiPin([7; 32])),
            format!("quic 192.0.2.1 1-2 {} AAAA\n", SpkiPin([7; 32])),
            format!("quic 192.0.2.1 1 {} \n", SpkiPin([7; 32])),
            format!("none {}\n", "x".repeat(REASON_CHARS_MAX + 1)),
            format!("none {}\n", "x".repeat(LINE_BYTES_MAX)),
            "none\n".to_owned(),
            "\n".to_owned(),
        ] {
            assert_eq!(parse_answer(bad.as_bytes()), Err(LineError), "{bad:?}");
        }
    }

    #[test]
    fn a_reason_travels_without_control_characters() {
        let line = answer_line(&Err(format!("all \x1b[1m\n{}", "x".repeat(1000))));
        let reason = parse_answer(line.as_bytes()).unwrap().unwrap_err();
        assert!(reason.starts_with("all  [1m xx") && reason.len() == REASON_CHARS_MAX, "{reason}");
    }

    #[test]
    fn the_token_of_an_offer_is_not_logged() {
        assert!(!format!("{:?}", offer("192.0.2.1:1")).contains("AAEC"));
    }

    #[test]
    fn the_address_that_ssh_came_to_is_found() {
        let found = |text| ssh_address(Some(text));
        assert_eq!(found("192.0.2.9 50000 192.0.2.1 22"), Ok("192.0.2.1".parse().unwrap()));
        assert_eq!(found("2001:db8::9 5 ::ffff:192.0.2.1 22"), Ok("192.0.2.1".parse().unwrap()));
        assert!(found("fe80::9%eth0 5 fe80::1%eth0 22").unwrap_err().contains("link-local"));
        for bad in ["", "192.0.2.9 5 host 22", "192.0.2.9 5 192.0.2.1", "a b 192.0.2.1 c d"] {
            assert!(found(bad).unwrap_err().contains("SSH_CONNECTION"), "{bad}");
        }
        assert!(ssh_address(None).unwrap_err().contains("not set"));
    }
}
