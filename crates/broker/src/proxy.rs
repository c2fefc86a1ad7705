//! Who is behind a reverse proxy that the administrator trusts: the PROXY protocol before TLS, or
//! the header fields Forwarded and X-Forwarded-For of a request. Beside the path: from front/, for
//! connections of trusted proxies only, to delays, limits and the audit log. Knows addresses and
//! bytes; never sockets.
//!
//! Each proxy adds the address of its own peer, so the list is true from its right end up to the
//! first address that no trusted proxy has; what is further left may be invented by the client.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Most proxies and networks that may be named.
pub const TRUSTED_MAX: usize = 32;
/// Proxies on the way of one request; what is further left is not looked at.
const HOPS_MAX: usize = 32;

/// An address or a network; IPv4 is mapped, so that each address has one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u128,
    prefix_bits: u32,
}

/// Why a text is no network that can be trusted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NetworkError {
    /// Not in the form of an address or a network.
    #[error("it is neither an address nor a network such as 10.0.0.0/8")]
    Form,
    /// Bits after the prefix.
    #[error("an address of this network has bits after its prefix: write {0}")]
    HostBits(Network),
    /// The whole Internet.
    #[error("every address would be trusted, and anybody could claim to be somebody else")]
    Everybody,
}

fn mapped(address: IpAddr) -> u128 {
    u128::from(match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    })
}

impl Network {
    fn contains(&self, address: IpAddr) -> bool {
        (mapped(address) ^ self.first).checked_shr(128 - self.prefix_bits).unwrap_or(0) == 0
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Network, NetworkError> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Form)?;
        let (length, unused) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let bits = match bits {
            // "+8" is a number for Rust.
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|&bits| bits <= length).ok_or(NetworkError::Form)?
            }
            Some(_) => return Err(NetworkError::Form),
            None => length,
        };
        if bits == 0 {
            return Err(NetworkError::Everybody);
        }
        let prefix_bits = bits + unused;
        let first = mapped(address) & u128::MAX.checked_shl(128 - prefix_bits).unwrap_or(0);
        let network = Network { first, prefix_bits };
        if first == mapped(address) { Ok(network) } else { Err(NetworkError::HostBits(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from(self.first);
        match (address.to_ipv4_mapped(), self.prefix_bits.checked_sub(96)) {
            (Some(v4), Some(bits)) => write!(f, "{v4}/{bits}"),
            _ => write!(f, "{address}/{}", self.prefix_bits),
        }
    }
}

/// The proxies whose word counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(pub Vec<Network>);

/// Why nobody knows whose a request is.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ForwardedError {
    /// Both header fields, and they differ: a proxy sets one and lets a client's other one pass.
    #[error(
        "the header fields Forwarded and X-Forwarded-For differ: the reverse proxy has to remove \
         the one that it does not set"
    )]
    Ambiguous,
    /// Not as RFC 7239 defines it.
    #[error("the header field Forwarded is malformed")]
    Malformed,
}

impl TrustedProxies {
    /// True if this is one of them.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Whose a request is that came from `peer`, with these values of Forwarded and of
    /// X-Forwarded-For, in the order of the request.
    pub fn client(
        &self,
        peer: IpAddr,
        forwarded: &[&[u8]],
        x_forwarded_for: &[&[u8]],
    ) -> Result<IpAddr, ForwardedError> {
        let peer = peer.to_canonical();
        if !self.contains(peer) {
            return Ok(peer);
        }
        let of_forwarded = || {
            let mut hops = Vec::new();
            for value in forwarded {
                parse_forwarded(value, &mut hops)?;
            }
            Ok(self.last_untrusted(peer, hops.into_iter().rev()))
        };
        let of_x_forwarded_for = || {
            let values = x_forwarded_for.iter().rev();
            let hops = values.flat_map(|value| value.rsplit(|&byte| byte == b','));
            self.last_untrusted(peer, hops.map(|hop| parse_node(std::str::from_utf8(hop).ok()?)))
        };
        match (forwarded.is_empty(), x_forwarded_for.is_empty()) {
            (true, _) => Ok(of_x_forwarded_for()),
            (false, true) => of_forwarded(),
            (false, false) => {
                let client = of_forwarded()?;
                if client == of_x_forwarded_for() {
                    Ok(client)
                } else {
                    Err(ForwardedError::Ambiguous)
                }
            }
        }
    }

    /// `hops`: the last one first; `None` where a proxy does not say an address.
    fn last_untrusted(&self, peer: IpAddr, hops: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        for hop in hops.take(HOPS_MAX) {
            match hop {
                Some(hop) if self.contains(client) => client = hop,
                _ => break,
            }
        }
        client
    }
}

/// An address with or without a port, IPv6 with or without brackets, as proxies write them.
fn parse_node(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    let bare = |text: &str| text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let address = text.parse().ok();
    let address = address.or_else(|| text.parse::<SocketAddr>().ok().map(|at| at.ip()));
    address.or_else(|| bare(text).map(IpAddr::V6)).map(|address: IpAddr| address.to_canonical())
}

/// Adds the addresses of a value of Forwarded (RFC 7239, section 4): elements between commas, each
/// of pairs between semicolons, whose values may be quoted.
fn parse_forwarded(value: &[u8], hops: &mut Vec<Option<IpAddr>>) -> Result<(), ForwardedError> {
    let mut rest = value;
    loop {
        let (mut hop, mut has_pairs) = (None, false);
        loop {
            rest = skip_spaces(rest);
            let name_length = token_length(rest);
            if name_length > 0 {
                has_pairs = true;
                let (name, after) = rest.split_at(name_length);
                let after = after.strip_prefix(b"=").ok_or(ForwardedError::Malformed)?;
                let (text, after) = token_or_quoted(after)?;
                if name.eq_ignore_ascii_case(b"for") {
                    hop = parse_node(&text);
                }
                rest = skip_spaces(after);
            }
            match rest.strip_prefix(b";") {
                Some(after) => rest = after,
                None => break,
            }
        }
        // Empty elements of a list are allowed (RFC 9110, section 5.6.1).
        if has_pairs {
            if hops.len() == HOPS_MAX {
                hops.remove(0);
            }
            hops.push(hop);
        }
        match rest {
            [] => return Ok(()),
            [b',', after @ ..] => rest = after,
            _ => return Err(ForwardedError::Malformed),
        }
    }
}

fn skip_spaces(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    &bytes[spaces..]
}

/// RFC 9110, section 5.6.2.
fn token_length(bytes: &[u8]) -> usize {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    bytes.iter().take_while(|&&byte| is_token(byte)).count()
}

/// RFC 9110, section 5.6.4. Proxies write ports and IPv6 without quotes too.
fn token_or_quoted(bytes: &[u8]) -> Result<(String, &[u8]), ForwardedError> {
    let Some(quoted) = bytes.strip_prefix(b"\"") else {
        let is_value = |byte: u8| token_length(&[byte]) == 1 || b":[]".contains(&byte);
        let length = bytes.iter().take_while(|&&byte| is_value(byte)).count();
        let (text, rest) = bytes.split_at(length);
        return Ok((String::from_utf8_lossy(text).into_owned(), rest));
    };
    let mut text = Vec::new();
    let mut rest = quoted.iter();
    loop {
        match rest.next() {
            Some(b'"') => {
                return Ok((String::from_utf8_lossy(&text).into_owned(), rest.as_slice()));
            }
            Some(b'\\') => text.push(*rest.next().ok_or(ForwardedError::Malformed)?),
            Some(&byte) => text.push(byte),
            None => return Err(ForwardedError::Malformed),
        }
    }
}

/// How a connection begins whose proxy speaks the PROXY protocol, version 2
/// (<https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt>); no method of HTTP and no record
/// of TLS begins with its first byte.
pub const PROXY_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, version and command, family, and length of what follows.
pub const PROXY_HEAD_BYTES: usize = 16;
/// Longest that follows: addresses, and what else a proxy tells, which is skipped.
pub const PROXY_BODY_BYTES_MAX: usize = 4096;

/// Why bytes are no header of the PROXY protocol.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ProxyError {
    /// Another protocol.
    #[error("it does not begin as version 2 of the PROXY protocol does")]
    Signature,
    /// A version or command that is not defined.
    #[error("{0:#04x} is no version and command of the PROXY protocol")]
    Command(u8),
    /// UDP, or an undefined family.
    #[error("{0:#04x} is no family of the PROXY protocol that TCP has")]
    Family(u8),
    /// Too long, or too short for its addresses.
    #[error("{0} bytes of the PROXY protocol; {1}")]
    Length(usize, &'static str),
}

/// How many bytes follow this head.
pub fn proxy_body_length(head: &[u8; PROXY_HEAD_BYTES]) -> Result<usize, ProxyError> {
    if head[..12] != PROXY_SIGNATURE {
        return Err(ProxyError::Signature);
    }
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    if length > PROXY_BODY_BYTES_MAX {
        return Err(ProxyError::Length(length, "4096 is the limit"));
    }
    Ok(length)
}

/// Whose connection it is; `None`: the proxy's own, as for its health checks, or one that it says
/// nothing about.
pub fn proxy_client(
    head: &[u8; PROXY_HEAD_BYTES],
    body: &[u8],
) -> Result<Option<SocketAddr>, ProxyError> {
    let short = ProxyError::Length(body.len(), "too few for its addresses");
    match head[12] {
        0x20 => return Ok(None),
        0x21 => {}
        other => return Err(ProxyError::Command(other)),
    }
    // Family and transport; source and destination address, then both ports.
    let (address, ports) = match head[13] {
        // Unspecified, and sockets of Unix.
        0x00 | 0x31 => return Ok(None),
        0x11 => {
            let (source, rest) = body.split_first_chunk::<4>().ok_or(short)?;
            (IpAddr::from(*source), rest.get(4..8).ok_or(short)?)
        }
        0x21 => {
            let (source, rest) = body.split_first_chunk::<16>().ok_or(short)?;
            (IpAddr::from(*source), rest.get(16..20).ok_or(short)?)
        }
        other => return Err(ProxyError::Family(other)),
    };
    let port = u16::from_be_bytes([ports[0], ports[1]]);
    Ok(Some(SocketAddr::new(address.to_canonical(), port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(networks: &[&str]) -> TrustedProxies {
        TrustedProxies(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_its_addresses_and_no_other() {
        let proxies = trusted(&["127.0.0.1", "10.0.0.0/8", "fd00::/8", "2001:db8::1"]);
        for inside in ["127.0.0.1", "::ffff:127.0.0.1", "10.255.0.9", "fdff::1", "2001:db8::1"] {
            assert!(proxies.contains(ip(inside)), "{inside}");
        }
        for outside in ["127.0.0.2", "11.0.0.0", "9.255.255.255", "fc00::1", "2001:db8::2", "::1"] {
            assert!(!proxies.contains(ip(outside)), "{outside}");
        }
        let shown: Vec<String> = proxies.0.iter().map(Network::to_string).collect();
        assert_eq!(shown, ["127.0.0.1/32", "10.0.0.0/8", "fd00::/8", "2001:db8::1/128"]);
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for bad in ["", "host", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0.0/", "::/129", "10.0.0.1:80"]
        {
            assert_eq!(bad.parse::<Network>(), Err(NetworkError::Form), "{bad}");
        }
        for everybody in ["0.0.0.0/0", "::/0"] {
            assert_eq!(everybody.parse::<Network>(), Err(NetworkError::Everybody));
        }
        let error = "10.1.2.3/8".parse::<Network>().unwrap_err().to_string();
        assert!(error.ends_with("write 10.0.0.0/8"), "{error}");
    }

    #[test]
    fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
        let proxies = trusted(&["127.0.0.1", "10.0.0.0/8"]);
        let client = |peer: &str, x_forwarded_for: &[&[u8]]| {
            proxies.client(ip(peer), &[], x_forwarded_for).unwrap().to_string()
        };
        assert_eq!(client("192.0.2.9", &[b"1.2.3.4"]), "192.0.2.9", "nobody trusts it");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &[b"192.0.2.7"]), "192.0.2.7");
        assert_eq!(client("::ffff:127.0.0.1", &[b"::ffff:192.0.2.7"]), "192.0.2.7");
        assert_eq!(client("127.0.0.1", &[b"6.6.6.6, 192.0.2.7, 10.1.1.1"]), "192.0.2.7");
        assert_eq!(client("127.0.0.1", &[b"6.6.6.6", b"192.0.2.7,10.1.1.1"]), "192.0.2.7");
        assert_eq!(client("127.0.0.1", &[b"10.2.2.2, 10.1.1.1"]), "10.2.2.2", "the first of all");
        assert_eq!(client("127.0.0.1", &[b"192.0.2.7, unknown"]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &[b"192.0.2.7, \xff, 10.1.1.1"]), "10.1.1.1");
        for (with_port, address) in [
            ("192.0.2.7:4711", "192.0.2.7"),
            ("[2001:db8::7]:4711", "2001:db8::7"),
            ("[2001:db8::7]", "2001:db8::7"),
            ("2001:db8::7", "2001:db8::7"),
        ] {
            assert_eq!(client("127.0.0.1", &[with_port.as_bytes()]), address);
        }
        let many = ["10.1.1.1"; 100].join(",");
        assert_eq!(client("127.0.0.1", &[format!("192.0.2.7,{many}").as_bytes()]), "10.1.1.1");
    }

    #[test]
    fn forwarded_is_read_as_its_rfc_defines_it() {
        let proxies = trusted(&["127.0.0.1", "10.0.0.0/8"]);
        let client = |value: &str| {
            let client = proxies.client(ip("127.0.0.1"), &[value.as_bytes()], &[]);
            client.map(|client| client.to_string())
        };
        let found = |value: &str| client(value).unwrap();
        assert_eq!(found("for=192.0.2.60;proto=http;by=203.0.113.43"), "192.0.2.60");
        assert_eq!(found("For=\"[2001:db8:cafe::17]:4711\""), "2001:db8:cafe::17");
        assert_eq!(found("for=6.6.6.6, for=192.0.2.43, for=10.0.0.1"), "192.0.2.43");
        assert_eq!(found("host=\"a,for=6.6.6.6\" ; for=192.0.2.43"), "192.0.2.43");
        assert_eq!(found("for=192.0.2.43;host=\"\\\"\", ,"), "192.0.2.43");
        assert_eq!(found("for=192.0.2.43:80"), "192.0.2.43");
        for unknown in ["for=unknown", "for=_hidden", "proto=https", "", ", ,"] {
            assert_eq!(found(unknown), "127.0.0.1", "{unknown}");
        }
        // A client may try to swallow what the proxy adds.
        for malformed in ["for=\"x, for=192.0.2.43", "for=\"x\\", "for", "for=1.2.3.4 x", "=x", "@"]
        {
            assert_eq!(client(malformed), Err(ForwardedError::Malformed), "{malformed}");
        }
        let both = |forwarded: &[u8], other: &[u8]| {
            proxies.client(ip("127.0.0.1"), &[forwarded], &[other])
        };
        assert_eq!(both(b"for=192.0.2.7", b"192.0.2.7"), Ok(ip("192.0.2.7")));
        assert_eq!(both(b"for=6.6.6.6", b"192.0.2.7"), Err(ForwardedError::Ambiguous));
    }

    fn head(command: u8, family: u8, length: u16) -> [u8; PROXY_HEAD_BYTES] {
        let mut head = [0; PROXY_HEAD_BYTES];
        head[..12].copy_from_slice(&PROXY_SIGNATURE);
        (head[12], head[13]) = (command, family);
        head[14..].copy_from_slice(&length.to_be_bytes());
        head
    }

    #[test]
    fn the_proxy_protocol_tells_source_and_port() {
        let v4 = [192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x34, 1, 187];
        assert_eq!(proxy_body_length(&head(0x21, 0x11, 12)), Ok(12));
        let client = proxy_client(&head(0x21, 0x11, 12), &v4).unwrap().unwrap();
        assert_eq!(client.to_string(), "192.0.2.7:4660");
        // With more after the addresses.
        let mut v6 = [ip("2001:db8::7"), ip("::1")]
            .iter()
            .flat_map(|address| mapped(*address).to_be_bytes())
            .collect::<Vec<u8>>();
        v6.extend([0x12, 0x34, 1, 187, 0x04, 0, 1, 0]);
        let client = proxy_client(&head(0x21, 0x21, v6.len() as u16), &v6).unwrap().unwrap();
        assert_eq!(client.to_string(), "[2001:db8::7]:4660");

        for (command, family) in [(0x20, 0x11), (0x20, 0xff), (0x21, 0), (0x21, 0x31)] {
            assert_eq!(proxy_client(&head(command, family, 0), &[]), Ok(None));
        }
        assert_eq!(proxy_client(&head(0x11, 0x11, 12), &v4), Err(ProxyError::Command(0x11)));
        assert_eq!(proxy_client(&head(0x21, 0x12, 12), &v4), Err(ProxyError::Family(0x12)));
        for short in 0..12 {
            assert!(proxy_client(&head(0x21, 0x11, short), &v4[..usize::from(short)]).is_err());
        }
        assert!(proxy_body_length(&head(0x21, 0x11, 4097)).is_err());
        let mut other = head(0x21, 0x11, 12);
        other[0] = 0x16;
        assert_eq!(proxy_body_length(&other), Err(ProxyError::Signature));
    }
}
