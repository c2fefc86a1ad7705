//! What the menu says of sound, microphone, files, printing, sharing, copying, quality and stereo:
//! its entries in this order, each with its state, and why it is so or who has switched it off.
//! Path 13/13, beside the pixels: from client.rs' state, to menu.rs. The words are those of
//! web/ui/entries.ts; doc/using.md lists both, which tests compare. Knows states and words; never
//! keys or pixels.

use std::fmt;

use thinc_protocol::clip_policy::ClipDirections;
use thinc_protocol::people::{People, Person};
use thinc_protocol::picture_quality::PictureQuality;
use thinc_viewer_core::StereoMode;

use crate::client::{MicrophoneSide, SoundSide, State, name_of};
use crate::printing::PrintChoice;

/// An entry of the menu that has a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Sound,
    Microphone,
    Files,
    Printing,
    Sharing,
    Copying,
    Quality,
    Stereo,
}

impl Entry {
    /// In the order of the menu.
    #[cfg(test)]
    pub(super) const ALL: [Entry; 8] = [
        Entry::Sound,
        Entry::Microphone,
        Entry::Files,
        Entry::Printing,
        Entry::Sharing,
        Entry::Copying,
        Entry::Quality,
        Entry::Stereo,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Entry::Sound => "Sound",
            Entry::Microphone => "Microphone",
            Entry::Files => "Files",
            Entry::Printing => "Printing",
            Entry::Sharing => "Sharing",
            Entry::Copying => "Copying",
            Entry::Quality => "Quality",
            Entry::Stereo => "Stereo",
        }
    }
}

/// What an entry says after its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    state: String,
    why: String,
}

impl fmt::Display for Words {
    /// The overlay's font has no dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} - {}", self.state, self.why)
    }
}

fn words(state: impl Into<String>, why: impl Into<String>) -> Words {
    Words { state: state.into(), why: why.into() }
}

/// What concerns all entries.
#[derive(Clone, Copy, Debug)]
struct Situation {
    is_connected: bool,
    /// This viewer is a guest's.
    is_guest: bool,
}

/// What makes sound, microphone, files or printing possible.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Its option, here and at the server.
    option: &'static str,
    /// This viewer's option switches it off.
    is_off: bool,
    /// The session has it for this viewer.
    is_offered: bool,
    /// Why guests have none.
    guest: &'static str,
}

impl Channel {
    /// Why it is off, if it is.
    fn off(&self, situation: Situation) -> Option<Words> {
        let Situation { is_connected, is_guest } = situation;
        let why = match self {
            Channel { is_off: true, option, .. } => format!("by this viewer (--{option})"),
            _ if !is_connected => "not connected".to_owned(),
            Channel { is_offered: true, .. } => return None,
            Channel { guest, .. } if is_guest => (*guest).to_owned(),
            Channel { option, .. } => format!("by the server (--{option})"),
        };
        Some(words("off", why))
    }
}

fn sound(is_off: bool, is_offered: bool, side: &SoundSide<'_>, situation: Situation) -> Words {
    let guest = "the owner's invitation is without sound";
    let channel = Channel { option: "sound", is_off, is_offered, guest };
    if let Some(off) = channel.off(situation) {
        return off;
    }
    let SoundSide { failed, is_muted, volume, players } = side;
    if let Some(failed) = failed {
        return words("off", format!("this device plays nothing: {failed}"));
    }
    if *is_muted {
        return words(format!("muted, {volume} %"), "the session sends none until you end that");
    }
    let why = match players {
        [] => "nothing plays".to_owned(),
        players => format!("playing: {}", players.join(", ")),
    };
    words(format!("on, {volume} %"), why)
}

fn microphone(
    is_off: bool,
    is_offered: bool,
    side: &MicrophoneSide<'_>,
    situation: Situation,
) -> Words {
    let channel = Channel { option: "microphone", is_off, is_offered, guest: "guests give none" };
    let MicrophoneSide { failed, is_refused, is_wanted, is_open } = *side;
    channel.off(situation).unwrap_or_else(|| match (failed, is_open, is_refused, is_wanted) {
        (Some(failed), ..) => words("off", format!("it was lost: {failed}")),
        (None, true, ..) => words("on", "a program records"),
        (None, false, true, _) => words("off", "by you, whatever records"),
        (None, false, false, true) => words("off", "a program records, and you are asked"),
        (None, false, false, false) => words("off", "no program records"),
    })
}

fn files(is_off: bool, is_offered: bool, transfers: usize, situation: Situation) -> Words {
    let channel = Channel { option: "files", is_off, is_offered, guest: "guests send none" };
    channel.off(situation).unwrap_or_else(|| match transfers {
        0 => words("on", "drop them here"),
        1 => words("on", "1 transfer is in progress"),
        count => words("on", format!("{count} transfers are in progress")),
    })
}

fn printing(choice: &PrintChoice, is_offered: bool, situation: Situation) -> Words {
    let is_off = *choice == PrintChoice::Off;
    let guest = "guests print nothing";
    let channel = Channel { option: "printing", is_off, is_offered, guest };
    channel.off(situation).unwrap_or_else(|| match choice {
        PrintChoice::Printer(name) => {
            words("on", format!("what a program prints goes to the printer {name}"))
        }
        PrintChoice::Off | PrintChoice::Open | PrintChoice::Keep => {
            words("on", "what a program prints opens here once you agree")
        }
    })
}

fn sharing(people: &People, situation: Situation) -> Words {
    let Situation { is_connected, is_guest } = situation;
    let is_me = |person: &&Person| person.number == people.own;
    if !is_connected {
        return words("off", "not connected");
    }
    let Some(me) = people.people.iter().find(is_me) else {
        return words("off", "the session does not say who is here");
    };
    if is_guest {
        let may = if me.has_control { "you may type and point" } else { "you only see it" };
        return words("guest", may);
    }
    let others = people.people.iter().filter(|person| !is_me(person));
    // Who is no guest is the owner, at another viewer.
    let name = |person: &Person| match person.guest {
        0 => "you, elsewhere".to_owned(),
        _ => person.name.clone(),
    };
    let others: Vec<String> = others.map(name).collect();
    match others.len() {
        0 => words("only you", "nobody else sees this session"),
        count => {
            words(format!("{} people", count + 1), format!("also here: {}", others.join(", ")))
        }
    }
}

fn copying(policy: Option<ClipDirections>, situation: Situation) -> Words {
    if !situation.is_connected {
        return words("off", "not connected");
    }
    let Some(ClipDirections { to_session, to_viewer }) = policy else {
        return words("as allowed", "the owner decides what is copied");
    };
    let everywhere = "on all your devices";
    match (to_session, to_viewer) {
        (true, true) => words("both directions", everywhere),
        (true, false) => words("to the session", everywhere),
        (false, true) => words("from the session", everywhere),
        (false, false) => words("off", "by you, on all your devices"),
    }
}

/// `is_taken`: the session takes choices, as it does unless it sends nothing lossy, or is of an
/// earlier version.
fn quality(choice: PictureQuality, is_taken: bool, situation: Situation) -> Words {
    if situation.is_connected && !is_taken {
        return words("as it is", "this session takes no choice");
    }
    let why = match choice {
        PictureQuality::Auto => "as the connection allows",
        PictureQuality::Exact => "nothing is lossy; moving pictures may have fewer frames",
        PictureQuality::High => "3D looks as it is drawn; it may have fewer frames",
        PictureQuality::Medium => "moving pictures are slightly lossy",
        PictureQuality::Low => "moving pictures are lossy, and take few bytes",
    };
    words(name_of(choice), why)
}

/// `is_taken`: the session takes the choice, unless it is of an earlier version.
fn stereo(mode: StereoMode, is_taken: bool, situation: Situation) -> Words {
    if situation.is_connected && !is_taken {
        return words("off", "this session has no stereo");
    }
    let why = match mode {
        StereoMode::Off => "only the left eye's picture of stereo programs",
        StereoMode::Anaglyph => "for red-cyan glasses",
        StereoMode::SideBySide => "the left eye's picture in the left half",
        StereoMode::Interleaved => "even rows for the left eye, odd rows for the right",
        StereoMode::Quad => "the display has a picture for each eye",
    };
    words(mode.name(), why)
}

/// What an entry says now.
pub(super) fn words_of(entry: Entry, state: &State) -> Words {
    let people = &state.session.people().people;
    let is_guest =
        people.people.iter().any(|person| person.number == people.own && person.guest != 0);
    let situation = Situation { is_connected: state.is_connected(), is_guest };
    let viewer = state.viewer();
    match entry {
        Entry::Sound => {
            sound(state.sound.is_off(), viewer.has_sound(), &state.sound.side(), situation)
        }
        Entry::Microphone => {
            let (is_off, side) = state.microphone_side();
            microphone(is_off, viewer.may_give_microphone(), &side, situation)
        }
        Entry::Files => {
            let (is_off, transfers) = state.files_side();
            files(is_off, viewer.gives_files(), transfers, situation)
        }
        Entry::Printing => printing(state.prints(), viewer.prints(), situation),
        Entry::Sharing => sharing(people, situation),
        Entry::Copying => copying(state.session.clip_policy(), situation),
        Entry::Quality => quality(state.quality(), viewer.takes_quality(), situation),
        Entry::Stereo => stereo(state.stereo(), viewer.takes_stereo(), situation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USING: &str = include_str!("../../../../doc/using.md");
    const HERE: Situation = Situation { is_connected: true, is_guest: false };
    const GUEST: Situation = Situation { is_guest: true, ..HERE };
    const AWAY: Situation = Situation { is_connected: false, ..HERE };

    /// What the table of doc/using.md lists for windows, in its order: entry and words.
    fn listed() -> Vec<(String, String)> {
        let rows = USING.lines().skip_while(|line| !line.starts_with("| entry | says |"));
        let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
        cells
            .filter(|cells| cells[3] != "page")
            .map(|cells| (cells[1].to_owned(), cells[2].replace(" — ", " - ")))
            .collect()
    }

    fn person(number: u32, guest: u32, name: &str, has_control: bool) -> Person {
        Person { number, guest, name: name.into(), has_control, ..Person::default() }
    }

    fn directions(to_session: bool, to_viewer: bool) -> Option<ClipDirections> {
        Some(ClipDirections { to_session, to_viewer })
    }

    /// Every state, in the order of the table.
    fn every_state() -> Vec<(Entry, Words)> {
        let players = ["Firefox".to_owned(), "mpv".to_owned()];
        let plain = SoundSide { failed: None, is_muted: false, volume: 80, players: &[] };
        let heard = |side: SoundSide<'_>| (Entry::Sound, sound(false, true, &side, HERE));
        let recorded =
            |side: MicrophoneSide<'_>| (Entry::Microphone, microphone(false, true, &side, HERE));
        let sent = |transfers| (Entry::Files, files(false, true, transfers, HERE));
        let printed = |choice| (Entry::Printing, printing(&choice, true, HERE));
        let owner = person(1, 0, "", true);
        let with = |others: &[Person], own| People {
            own,
            people: [std::slice::from_ref(&owner), others].concat(),
        };
        let shared = |people: &People, situation| (Entry::Sharing, sharing(people, situation));
        let chosen = |choice| (Entry::Quality, quality(choice, true, HERE));
        let seen = |mode| (Entry::Stereo, stereo(mode, true, HERE));
        let copied = |policy| (Entry::Copying, copying(policy, HERE));
        let silent = MicrophoneSide::default();
        vec![
            heard(plain),
            heard(SoundSide { players: &players, ..plain }),
            heard(SoundSide { is_muted: true, ..plain }),
            heard(SoundSide { failed: Some("no device"), ..plain }),
            (Entry::Sound, sound(false, false, &plain, GUEST)),
            recorded(silent),
            recorded(MicrophoneSide { is_wanted: true, ..silent }),
            recorded(MicrophoneSide { is_wanted: true, is_open: true, ..silent }),
            recorded(MicrophoneSide { is_refused: true, is_wanted: true, ..silent }),
            recorded(MicrophoneSide { failed: Some("no device"), is_wanted: true, ..silent }),
            (Entry::Microphone, microphone(false, false, &silent, GUEST)),
            sent(0),
            sent(1),
            sent(2),
            (Entry::Files, files(false, false, 0, GUEST)),
            printed(PrintChoice::Open),
            printed(PrintChoice::Printer("office".to_owned())),
            (Entry::Printing, printing(&PrintChoice::Open, false, GUEST)),
            shared(&with(&[], 1), HERE),
            shared(&with(&[person(2, 1, "Ada", false), person(3, 0, "", true)], 1), HERE),
            shared(&with(&[person(2, 1, "Ada", false)], 2), GUEST),
            shared(&with(&[person(2, 1, "Ada", true)], 2), GUEST),
            shared(&People::default(), HERE),
            copied(directions(true, true)),
            copied(directions(true, false)),
            copied(directions(false, true)),
            copied(directions(false, false)),
            copied(None),
            chosen(PictureQuality::Auto),
            chosen(PictureQuality::Exact),
            chosen(PictureQuality::High),
            chosen(PictureQuality::Medium),
            chosen(PictureQuality::Low),
            (Entry::Quality, quality(PictureQuality::Low, false, HERE)),
            seen(StereoMode::Off),
            seen(StereoMode::Anaglyph),
            seen(StereoMode::SideBySide),
            seen(StereoMode::Interleaved),
            seen(StereoMode::Quad),
            (Entry::Stereo, stereo(StereoMode::Anaglyph, false, HERE)),
        ]
    }

    /// What all of the first four say in the same way.
    fn every_reason() -> Vec<(Entry, &'static str, Words)> {
        let plain = SoundSide { failed: None, is_muted: false, volume: 80, players: &[] };
        let silent = MicrophoneSide::default();
        let mut all = Vec::new();
        for (is_off, situation) in [(true, HERE), (false, HERE), (false, AWAY)] {
            let choice = if is_off { PrintChoice::Off } else { PrintChoice::Open };
            // The session of a connection that is lost had it.
            let offered = !situation.is_connected;
            all.extend([
                (Entry::Sound, "sound", sound(is_off, offered, &plain, situation)),
                (Entry::Microphone, "microphone", microphone(is_off, offered, &silent, situation)),
                (Entry::Files, "files", files(is_off, offered, 0, situation)),
                (Entry::Printing, "printing", printing(&choice, offered, situation)),
            ]);
        }
        all
    }

    #[test]
    fn the_manual_lists_every_state_in_the_menus_order_and_words() {
        let states = every_state();
        let said = states.iter().map(|(entry, words)| (entry.name().into(), words.to_string()));
        let (reasons, listed): (Vec<_>, Vec<_>) =
            listed().into_iter().partition(|(entry, _)| entry == "each");
        assert_eq!(said.collect::<Vec<_>>(), listed);
        let mut order: Vec<Entry> = states.iter().map(|(entry, _)| *entry).collect();
        order.dedup();
        assert_eq!(order, Entry::ALL);
        let said = every_reason();
        let said: Vec<_> = said
            .iter()
            .map(|(_, option, words)| words.to_string().replace(&format!("--{option}"), "--NAME"))
            .collect();
        assert_eq!(reasons.len(), 3);
        for (index, (_, reason)) in reasons.iter().enumerate() {
            assert_eq!(said[index * 4..][..4], [reason.as_str(); 4], "{reason}");
        }
        assert_eq!(sharing(&People::default(), AWAY), words("off", "not connected"));
        assert_eq!(copying(None, AWAY), words("off", "not connected"));
    }
}
