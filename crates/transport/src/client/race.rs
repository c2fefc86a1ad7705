//! Path 10/13: beside client.rs; QUIC and TCP connect to a session at the same time; one is kept.
//! Both complete the handshake and check the key; only the one that is kept sends the token, which
//! is valid once. Knows times; never what is sent.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{
    ConnectError, Deadlines, SecureTransport, TransportChoice, TransportKind, Trust, quic,
    remaining, tcp,
};
use crate::ALPN_NATIVE;

/// 1 ms: a session that completes TCP's handshake so soon is on a wired network. One on this
/// machine, which may be busy and take longer, is known by its address. No packets get lost there,
/// and QUIC would cost three times the CPU for each bit.
pub(super) const NEAR_RTT_MAX: Duration = Duration::from_millis(1);
/// 200 ms that TCP waits for QUIC after its own handshake. QUIC needs a round trip less, so it is
/// slower only if packets were lost, which are retransmitted after 60, 180 and 420 ms, or if UDP is
/// blocked. If it is blocked, a person who has just started a viewer does not notice the delay; if
/// packets are lost, that person would notice TCP.
const QUIC_GRACE: Duration = Duration::from_millis(200);

enum RaceEvent {
    /// TCP's connection was established: with a session that is near, or not.
    TcpConnected {
        is_near: bool,
    },
    Handshake(TransportKind, Result<Box<dyn SecureTransport>, ConnectError>),
}

/// The transport that is kept.
type Winner = (TransportKind, Box<dyn SecureTransport>);

/// The results so far.
#[derive(Default)]
struct Race {
    is_near: bool,
    tcp: Option<Box<dyn SecureTransport>>,
    quic: Option<Box<dyn SecureTransport>>,
    tcp_error: Option<ConnectError>,
    quic_error: Option<ConnectError>,
    /// Until then TCP, or its error, waits for QUIC.
    grace_ends: Option<Instant>,
}

impl Race {
    /// The transport that is kept, or the error, once it is determined.
    fn winner(&mut self, now: Instant) -> Option<Result<Winner, ConnectError>> {
        let tcp_may_come = self.tcp_error.is_none() && self.tcp.is_none();
        if (!self.is_near || self.tcp_error.is_some())
            && let Some(quic) = self.quic.take()
        {
            return Some(Ok((TransportKind::Quic, quic)));
        }
        let over = self.grace_ends.is_some_and(|at| at <= now);
        if (self.is_near || self.quic_error.is_some() || over)
            && let Some(tcp) = self.tcp.take()
        {
            return Some(Ok((TransportKind::Tcp, tcp)));
        }
        if tcp_may_come || self.tcp.is_some() {
            return None;
        }
        // TCP's error is clearer and comes sooner: a closed UDP port refuses nothing.
        if self.quic_error.is_none() && !over {
            return None;
        }
        self.tcp_error.take().map(Err)
    }
}

/// Connects over the chosen transport, or over the better of both.
pub(super) fn run(
    addresses: Vec<SocketAddr>,
    trust: Trust,
    choice: TransportChoice,
    deadlines: Deadlines,
) -> Result<Winner, ConnectError> {
    let (send, receive) = channel();
    let authority = trust.authority.clone();
    let failed = |error| ConnectError::Connect(authority.clone(), error);
    let no_answer = match choice {
        TransportChoice::Quic => "there was no answer over UDP",
        TransportChoice::Auto | TransportChoice::Tcp => "there was no answer",
    };
    let timed_out = || failed(io::Error::new(io::ErrorKind::TimedOut, no_answer));
    let mut race = Race::default();
    // Dropping this when the function returns cancels QUIC's attempt.
    let (_still_racing, cancelled) = oneshot::channel();
    if choice != TransportChoice::Tcp {
        let (addresses, trust, send) = (addresses.clone(), trust.clone(), send.clone());
        std::thread::Builder::new()
            .name("thinc-quic".into())
            .spawn(move || {
                quic::run(&addresses, &trust, deadlines.quic_handshake, cancelled, |result| {
                    report(
                        &send,
                        TransportKind::Quic,
                        result.map(|quic| Box::new(quic) as Box<dyn SecureTransport>),
                    );
                });
            })
            .map_err(failed)?;
    } else {
        race.quic_error = Some(timed_out());
    }
    if choice != TransportChoice::Quic {
        std::thread::Builder::new()
            .name("thinc-tcp".into())
            .spawn(move || {
                let started = Instant::now();
                let opened = tcp::open(&addresses, &trust.authority, deadlines.tcp_connect)
                    .and_then(|tcp| {
                        let is_near =
                            started.elapsed() < NEAR_RTT_MAX || tcp::is_on_this_machine(&tcp);
                        let _ = send.send(RaceEvent::TcpConnected { is_near });
                        tcp::handshake(tcp, &trust, ALPN_NATIVE, deadlines.all)
                    });
                report(
                    &send,
                    TransportKind::Tcp,
                    opened.map(|tcp| Box::new(tcp) as Box<dyn SecureTransport>),
                );
            })
            .map_err(failed)?;
    } else {
        drop(send);
    }
    loop {
        let now = Instant::now();
        if let Some(result) = race.winner(now) {
            return result;
        }
        let until = race.grace_ends.map_or(deadlines.all, |at| at.min(deadlines.all));
        match receive.recv_timeout(remaining(until)) {
            Ok(RaceEvent::TcpConnected { is_near }) => {
                race.is_near = is_near && choice == TransportChoice::Auto
            }
            Ok(RaceEvent::Handshake(TransportKind::Tcp, Ok(tcp))) => {
                race.tcp = Some(tcp);
                race.grace_ends = Some(Instant::now() + QUIC_GRACE);
            }
            Ok(RaceEvent::Handshake(TransportKind::Quic, Ok(quic))) => race.quic = Some(quic),
            Ok(RaceEvent::Handshake(TransportKind::Tcp, Err(error))) => {
                race.tcp_error = Some(error);
                race.grace_ends = Some(Instant::now() + QUIC_GRACE);
            }
            // There is no other transport to wait for.
            Ok(RaceEvent::Handshake(TransportKind::Quic, Err(error)))
                if choice == TransportChoice::Quic =>
            {
                return Err(error);
            }
            Ok(RaceEvent::Handshake(TransportKind::Quic, Err(error))) => {
                race.quic_error = Some(error)
            }
            Err(_) if Instant::now() >= deadlines.all => {
                return Err(race.tcp_error.take().unwrap_or_else(timed_out));
            }
            Err(_) => {}
        }
    }
}

/// A result that nobody waits for is dropped, which closes its connection.
fn report(
    send: &Sender<RaceEvent>,
    kind: TransportKind,
    result: Result<Box<dyn SecureTransport>, ConnectError>,
) {
    let _ = send.send(RaceEvent::Handshake(kind, result));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ReadHalf, WriteHalf};
    use crate::pin::SpkiPin;

    #[derive(Debug)]
    struct FakeTransport;

    impl SecureTransport for FakeTransport {
        fn pin(&self) -> SpkiPin {
            SpkiPin([0; 32])
        }

        fn peer(&self) -> SocketAddr {
            ([127, 0, 0, 1], 1).into()
        }

        fn supports_datagrams(&self) -> bool {
            false
        }

        fn send(&mut self, _: &[u8], _: Instant) -> io::Result<()> {
            Ok(())
        }

        fn receive(&mut self, _: &mut Vec<u8>, _: Instant) -> io::Result<usize> {
            Ok(0)
        }

        fn split(self: Box<Self>, _leftover: u64) -> io::Result<(ReadHalf, WriteHalf)> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn fake() -> Option<Box<dyn SecureTransport>> {
        Some(Box::new(FakeTransport))
    }

    fn error(words: &str) -> Option<ConnectError> {
        Some(ConnectError::NotThinc(words.to_owned()))
    }

    fn winner_of(mut race: Race, now: Instant) -> Option<TransportKind> {
        race.winner(now)
            .map(|result| result.map_or_else(|error| panic!("{error}"), |(kind, _)| kind))
    }

    #[test]
    fn quic_is_kept_as_soon_as_it_is_there() {
        let now = Instant::now();
        assert_eq!(
            winner_of(Race { quic: fake(), ..Race::default() }, now),
            Some(TransportKind::Quic)
        );
        let both = Race { quic: fake(), tcp: fake(), grace_ends: Some(now), ..Race::default() };
        assert_eq!(winner_of(both, now), Some(TransportKind::Quic));
    }

    #[test]
    fn tcp_waits_for_quic_until_the_grace_ends_or_quic_fails() {
        let now = Instant::now();
        let waiting =
            || Race { tcp: fake(), grace_ends: Some(now + QUIC_GRACE), ..Race::default() };
        assert_eq!(winner_of(waiting(), now), None);
        assert_eq!(winner_of(waiting(), now + QUIC_GRACE), Some(TransportKind::Tcp));
        assert_eq!(
            winner_of(Race { quic_error: error("no"), ..waiting() }, now),
            Some(TransportKind::Tcp)
        );
    }

    #[test]
    fn tcp_to_a_near_session_is_kept_unless_it_fails() {
        let now = Instant::now();
        assert_eq!(winner_of(Race { is_near: true, quic: fake(), ..Race::default() }, now), None);
        assert_eq!(
            winner_of(Race { is_near: true, tcp: fake(), ..Race::default() }, now),
            Some(TransportKind::Tcp)
        );
        let failed =
            Race { is_near: true, quic: fake(), tcp_error: error("no"), ..Race::default() };
        assert_eq!(winner_of(failed, now), Some(TransportKind::Quic));
    }

    #[test]
    fn if_both_fail_the_error_of_tcp_is_returned() {
        let now = Instant::now();
        assert!(Race { tcp_error: error("tcp"), ..Race::default() }.winner(now).is_none());
        let mut both =
            Race { tcp_error: error("tcp"), quic_error: error("quic"), ..Race::default() };
        let words = both.winner(now).unwrap().err().unwrap().to_string();
        assert!(words.starts_with("tcp "), "{words}");
        let mut refused =
            Race { tcp_error: error("tcp"), grace_ends: Some(now + QUIC_GRACE), ..Race::default() };
        assert!(refused.winner(now).is_none());
        assert!(refused.winner(now + QUIC_GRACE).unwrap().is_err());
    }
}
