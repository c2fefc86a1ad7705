//! The link made by the kernel's netem instead of our model, where the kernel has it: the arguments for tc, and where they go.
//! Beside the path, under testbed.rs. Both directions are delayed inside the server's namespace, so that what the testbed
//! sees is the client's end: packets down as they are delivered there, packets up as they are sent.

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Stdio;

use crate::Error;
use crate::net::end::{DEVICE, End, MTU};
use crate::net::link::Link;

/// Takes what arrives from the client; its egress is delayed, as an ingress cannot be.
const MIRROR: &str = "ifb0";

/// Packets that netem may hold on a link without a rate: as many as our own wire holds.
const PACKETS_MAX: u64 = 1 << 17;

/// `netem …` for one direction of the link. Outages are not netem's: the wire makes them.
pub(crate) fn arguments(link: &Link) -> Vec<String> {
    let us = |time: std::time::Duration| format!("{}us", time.as_micros());
    let mut words =
        vec!["netem".to_owned(), "limit".into(), packets(link).to_string(), "delay".into(), us(link.rtt / 2)];
    if !link.jitter.is_zero() {
        words.extend([us(link.jitter), "distribution".into(), "normal".into()]);
    }
    if link.loss > 0.0 {
        words.extend(["loss".into(), "random".into(), format!("{:.4}%", link.loss * 100.0)]);
    }
    if let Some(rate) = link.rate_bps {
        words.extend(["rate".into(), format!("{rate}bit")]);
    }
    words
}

/// netem counts packets and not bytes, and those on their way with those that wait.
fn packets(link: &Link) -> u64 {
    let Some(rate) = link.rate_bps else { return PACKETS_MAX };
    let on_the_way = u128::from(rate) * (link.rtt / 2).as_nanos() / 8 / 1_000_000_000;
    let bytes = link.queue_bytes.saturating_add(u64::try_from(on_the_way).unwrap_or(u64::MAX));
    bytes.div_ceil(u64::from(MTU)).clamp(1, PACKETS_MAX)
}

/// The commands that make the link, run in the server's namespace.
fn commands(link: &Link) -> Vec<Vec<String>> {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = vec![
        words(&format!("ip link add {MIRROR} type ifb")),
        words(&format!("ip link set {MIRROR} up")),
        words(&format!("tc qdisc add dev {DEVICE} ingress")),
        words(&format!(
            "tc filter add dev {DEVICE} ingress protocol all matchall action mirred egress redirect dev {MIRROR}"
        )),
    ];
    commands.extend(changes(link));
    commands
}

/// The commands that make it another link.
fn changes(link: &Link) -> Vec<Vec<String>> {
    [DEVICE, MIRROR]
        .into_iter()
        .map(|device| {
            let mut words: Vec<String> =
                ["tc", "qdisc", "replace", "dev", device, "root"].into_iter().map(str::to_owned).collect();
            words.extend(arguments(link));
            words
        })
        .collect()
}

/// Lets the kernel make the link; an error says what it has not.
pub(crate) fn start(server: &End, link: &Link) -> Result<(), Error> {
    run(server, &commands(link))
}

/// Sees whether packets pass at all: what tc accepts, a kernel without one of the modules may still not do.
pub(crate) fn check(client: &End, server: Ipv4Addr) -> Result<(), Error> {
    let mut command = client.command(OsStr::new("ping"));
    // On a lossy link one of a few is enough.
    command.args(["-n", "-c", "8", "-i", "0.1", "-W", "3", &server.to_string()]);
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`ping` through it was not answered {}", said.trim()).trim_end().into())
    }
}

/// Makes it another link.
pub(crate) fn set_link(server: &End, link: &Link) -> Result<(), Error> {
    run(server, &changes(link))
}

/// Takes away what a failed start left.
pub(crate) fn stop(server: &End) {
    for words in [["tc", "qdisc", "del", "dev", DEVICE, "root"], ["tc", "qdisc", "del", "dev", DEVICE, "ingress"]] {
        // An error only says that there was none.
        let mut command = server.command(OsStr::new(words[0]));
        let _ = command.args(&words[1..]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn run(server: &End, commands: &[Vec<String>]) -> Result<(), Error> {
    for words in commands {
        let mut command = server.command(OsStr::new(&words[0]));
        let output = command.args(&words[1..]).stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(format!("`{}`: {said}", words.join(" ")).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_becomes_arguments() {
        let said = |text: &str| arguments(&text.parse().unwrap()).join(" ");
        assert_eq!(said("wan"), "netem limit 825 delay 33000us rate 100000000bit");
        assert_eq!(
            said("rtt=20ms,jitter=2ms,loss=0.25%,rate=6mbit,queue=15000"),
            "netem limit 15 delay 10000us 2000us distribution normal loss random 0.2500% rate 6000000bit"
        );
        assert_eq!(said("unlimited"), "netem limit 131072 delay 0us");
    }

    #[test]
    fn both_directions_are_made_and_changed() {
        let link: Link = "wan".parse().unwrap();
        let all: Vec<String> = commands(&link).iter().map(|words| words.join(" ")).collect();
        assert_eq!(all.len(), 6);
        assert!(all[4].starts_with("tc qdisc replace dev thinc0 root netem "), "{}", all[4]);
        assert!(all[5].starts_with("tc qdisc replace dev ifb0 root netem "), "{}", all[5]);
        assert_eq!(changes(&link).len(), 2);
    }
}
