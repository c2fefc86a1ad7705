//! Opening X connections: through the socket of an X display in the file system, with a cookie if
//! the display needs one. From an address as programs write it, to a socket; the harness is in
//! another network namespace than the display. Knows sockets and cookies; never the requests sent
//! over them.

use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use x11rb::connection::Connection;
use x11rb::rust_connection::{DefaultStream, RustConnection};

use crate::Error;

/// TCP port of display 0.
const PORT: u16 = 6000;
/// Longest that a display on another host may take to answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Largest Xauthority file that is read; one entry takes about 50 bytes.
const AUTHORITY_BYTES_MAX: u64 = 1 << 20;
const COOKIE: &[u8] = b"MIT-MAGIC-COOKIE-1";
// Families of Xauthority entries, from Xauth.h.
const FAMILY_INTERNET: u16 = 0;
const FAMILY_INTERNET6: u16 = 6;
const FAMILY_LOCAL: u16 = 256;
const FAMILY_WILD: u16 = 65535;

/// Connects to `display` (":7", "unix:7", "10.77.0.1:7", each also with ".0") with the cookie that
/// `xauthority` has for it. A local display is reached by its file-system socket, which all network
/// namespaces share, while abstract sockets are of one namespace.
pub fn connect(display: &str, xauthority: Option<&Path>) -> Result<RustConnection, Error> {
    Ok(connect_screen(display, xauthority)?.0)
}

/// Like [`connect`]; also returns the screen that `display` names.
pub fn connect_screen(
    display: &str,
    xauthority: Option<&Path>,
) -> Result<(RustConnection, usize), Error> {
    let address = Address::parse(display)?;
    let cookie = xauthority.map(|file| cookie_of(file, &address)).transpose()?.flatten();
    let (name, data) = cookie.map_or_else(Default::default, |data| (COOKIE.to_vec(), data));
    let failed = |error: &dyn std::fmt::Display| {
        Error::from(format!("cannot connect to the X display {display}: {error}"))
    };
    let stream = match &address.host {
        None => {
            let path = format!("/tmp/.X11-unix/X{}", address.number);
            let socket = UnixStream::connect(&path).map_err(|e| failed(&format!("{path}: {e}")))?;
            DefaultStream::from_unix_stream(socket).map_err(|e| failed(&e))?.0
        }
        Some(host) => {
            let mut found =
                (host.as_str(), PORT + address.number).to_socket_addrs().map_err(|e| failed(&e))?;
            let at = found.next().ok_or_else(|| failed(&"the host has no address"))?;
            let socket = TcpStream::connect_timeout(&at, CONNECT_LIMIT).map_err(|e| failed(&e))?;
            socket.set_nodelay(true)?;
            DefaultStream::from_tcp_stream(socket).map_err(|e| failed(&e))?.0
        }
    };
    let x = RustConnection::connect_to_stream_with_auth_info(stream, address.screen, name, data)
        .map_err(|e| failed(&e))?;
    if address.screen >= x.setup().roots.len() {
        return Err(failed(&format!("it has no screen {}", address.screen)));
    }
    Ok((x, address.screen))
}

/// The default cookie file of X clients.
pub(crate) fn usual_xauthority() -> Option<PathBuf> {
    let named = std::env::var_os("XAUTHORITY").map(PathBuf::from);
    let usual = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".Xauthority"));
    named.or_else(usual).filter(|file| file.is_file())
}

/// The address of a display.
#[derive(Debug, PartialEq, Eq)]
struct Address {
    host: Option<String>,
    number: u16,
    screen: usize,
}

impl Address {
    fn parse(display: &str) -> Result<Address, Error> {
        let wrong = || format!("`{display}` is no X display: write :7, or HOST:7");
        let (host, rest) = display.rsplit_once(':').ok_or_else(wrong)?;
        let (number, screen) = rest.split_once('.').unwrap_or((rest, "0"));
        let number: u16 =
            number.parse().ok().filter(|&number| number <= u16::MAX - PORT).ok_or_else(wrong)?;
        let host = match host {
            "" | "unix" => None,
            host => Some(host.trim_start_matches('[').trim_end_matches(']').to_owned()),
        };
        Ok(Address { host, number, screen: screen.parse().map_err(|_| wrong())? })
    }
}

/// The cookie of a display: first an entry with its address, else one with its number.
fn cookie_of(file: &Path, address: &Address) -> Result<Option<Vec<u8>>, Error> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot read the cookie file {}: {error}", file.display())
    };
    let length = std::fs::metadata(file).map_err(|e| cannot(&e))?.len();
    if length > AUTHORITY_BYTES_MAX {
        return Err(cannot(&format!("{length} bytes are more than {AUTHORITY_BYTES_MAX}")).into());
    }
    let bytes = std::fs::read(file).map_err(|e| cannot(&e))?;
    Ok(choose(entries(&bytes), address))
}

struct Entry<'a> {
    family: u16,
    address: &'a [u8],
    number: &'a [u8],
    name: &'a [u8],
    data: &'a [u8],
}

/// ```text
/// family u16 | length u16, address | length u16, number | length u16, name | length u16, data
/// (big-endian)
/// ```
/// What comes after an entry that was cut off is left away.
fn entries(mut bytes: &[u8]) -> Vec<Entry<'_>> {
    fn number(bytes: &mut &[u8]) -> Option<u16> {
        let (head, tail) = bytes.split_first_chunk::<2>()?;
        *bytes = tail;
        Some(u16::from_be_bytes(*head))
    }
    fn field<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::from(number(bytes)?);
        let (head, tail) = bytes.split_at_checked(length)?;
        *bytes = tail;
        Some(head)
    }
    let mut found = Vec::new();
    let mut next = || {
        let family = number(&mut bytes)?;
        let mut field = || field(&mut bytes);
        Some(Entry { family, address: field()?, number: field()?, name: field()?, data: field()? })
    };
    while let Some(entry) = next() {
        found.push(entry);
    }
    found
}

fn choose(entries: Vec<Entry<'_>>, address: &Address) -> Option<Vec<u8>> {
    let number = address.number.to_string();
    let fits = |entry: &&Entry<'_>| {
        entry.name == COOKIE && (entry.number.is_empty() || entry.number == number.as_bytes())
    };
    let distance = |entry: &&Entry<'_>| match (&address.host, entry.family) {
        (None, FAMILY_LOCAL) => 0,
        (Some(host), FAMILY_INTERNET | FAMILY_INTERNET6) => match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) if entry.address == ip.octets() => 0,
            Ok(IpAddr::V6(ip)) if entry.address == ip.octets() => 0,
            _ => 2,
        },
        (_, FAMILY_WILD) => 1,
        _ => 2,
    };
    entries.iter().filter(fits).min_by_key(distance).map(|entry| entry.data.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(family: u16, address: &[u8], number: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = family.to_be_bytes().to_vec();
        for field in [address, number.as_bytes(), COOKIE, data] {
            bytes.extend((field.len() as u16).to_be_bytes());
            bytes.extend(field);
        }
        bytes
    }

    #[test]
    fn display_names_are_parsed_as_programs_write_them() {
        let address = |host: Option<&str>, number, screen| Address {
            host: host.map(String::from),
            number,
            screen,
        };
        assert_eq!(Address::parse(":7").unwrap(), address(None, 7, 0));
        assert_eq!(Address::parse("unix:7.1").unwrap(), address(None, 7, 1));
        assert_eq!(Address::parse("10.77.0.1:12.0").unwrap(), address(Some("10.77.0.1"), 12, 0));
        assert_eq!(Address::parse("[::1]:3").unwrap(), address(Some("::1"), 3, 0));
        for wrong in ["", "7", ":", ":x", ":7.x", ":65000"] {
            assert!(Address::parse(wrong).is_err(), "{wrong:?} is no display");
        }
    }

    #[test]
    fn the_nearest_cookie_of_the_right_display_is_taken() {
        let mut file = entry(FAMILY_LOCAL, b"host", "6", b"other display");
        file.extend(entry(FAMILY_INTERNET, &[10, 77, 0, 1], "7", b"internet"));
        file.extend(entry(FAMILY_WILD, b"", "", b"wild"));
        file.extend(entry(FAMILY_LOCAL, b"host", "7", b"local"));
        let cookie = |display: &str| choose(entries(&file), &Address::parse(display).unwrap());
        assert_eq!(cookie(":7").unwrap(), b"local");
        assert_eq!(cookie("10.77.0.1:7").unwrap(), b"internet");
        assert_eq!(cookie("10.77.0.2:7").unwrap(), b"wild");
        assert_eq!(cookie(":8").unwrap(), b"wild");
        assert_eq!(
            choose(
                entries(&entry(FAMILY_LOCAL, b"host", "6", b"x")),
                &Address::parse(":7").unwrap()
            ),
            None
        );
    }

    #[test]
    fn a_truncated_file_gives_its_complete_entries() {
        let mut file = entry(FAMILY_LOCAL, b"host", "7", b"first");
        file.extend(entry(FAMILY_LOCAL, b"host", "8", b"second"));
        for cut in 0..file.len() {
            let whole = usize::from(cut >= entry(FAMILY_LOCAL, b"host", "7", b"first").len());
            assert_eq!(entries(&file[..cut]).len(), whole, "cut at {cut}");
        }
    }
}
