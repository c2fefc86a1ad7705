//! Path 11/13, beside the pixels: from viewer-core's messages of sound, to the player that the
//! audio device pulls on its own thread; and what the session is told of it.
//! Knows the player and the clock; never SDL.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use thinc_protocol::Micros;
use thinc_protocol::framing::MessageFrame;
use thinc_protocol::session::SessionMessage;
use thinc_protocol::sound::{SoundCodec, SoundState, SoundWant};
use thinc_protocol::viewer::ViewerCaps;
use thinc_sound::decode::RustOpus;
use thinc_sound::{Player, Report};
use thinc_viewer_core::SoundEvent;

use super::State;
use crate::clock::Clock;

/// 1 s: how often the session is told, while there is sound.
const REPORT_INTERVAL: Micros = 1_000_000;
/// A step of the volume.
#[cfg(feature = "window")]
const VOLUME_STEP: i8 = 10;
/// The volume as it is, in percent.
const VOLUME_MAX: i8 = 100;

/// What sound the viewer plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoundChoice {
    /// As Opus, at a rate that the path carries.
    #[default]
    On,
    /// As plain samples where the path is fast, otherwise as Opus.
    Lossless,
    /// None.
    Off,
}

/// The player, shared with the audio device's thread.
pub(crate) type SharedPlayer = Arc<Mutex<Player<RustOpus>>>;

/// What the menu says of it.
#[cfg(feature = "window")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoundSide<'a> {
    /// Why no device plays.
    pub(crate) failed: Option<&'a str>,
    pub(crate) is_muted: bool,
    /// Percent.
    pub(crate) volume: i8,
    /// Programs that play.
    pub(crate) players: &'a [String],
}

/// Sound of all connections of this viewer.
#[derive(Debug)]
pub(crate) struct Sound {
    choice: SoundChoice,
    /// Why no device plays.
    failed: Option<String>,
    player: SharedPlayer,
    clock: Clock,
    muted: bool,
    volume: i8,
    /// Names of the programs that play.
    pub(crate) players: Vec<String>,
    /// Microseconds from a sample's pull to the ear, as far as the device says.
    device_us: Arc<AtomicU32>,
    /// The device pulls.
    device_runs: bool,
    report_at: Micros,
}

impl Sound {
    pub(crate) fn new(choice: SoundChoice, clock: Clock) -> Sound {
        Sound {
            choice,
            failed: None,
            player: Arc::new(Mutex::new(Player::new(RustOpus::default()))),
            clock,
            muted: false,
            volume: VOLUME_MAX,
            players: Vec::new(),
            device_us: Arc::default(),
            device_runs: false,
            report_at: 0,
        }
    }

    /// This viewer's option switches it off.
    #[cfg(feature = "window")]
    pub(crate) fn is_off(&self) -> bool {
        self.choice == SoundChoice::Off
    }

    /// For the menu.
    #[cfg(feature = "window")]
    pub(crate) fn side(&self) -> SoundSide<'_> {
        let Sound { failed, muted, volume, players, .. } = self;
        SoundSide { failed: failed.as_deref(), is_muted: *muted, volume: *volume, players }
    }

    /// The capability of a new connection.
    pub(super) fn caps(&self) -> u32 {
        if self.choice == SoundChoice::Off { 0 } else { ViewerCaps::SOUND }
    }

    /// What this viewer wants to be sent.
    pub(super) fn want(&self) -> SoundWant {
        let codecs = match self.choice {
            _ if self.failed.is_some() => 0,
            SoundChoice::On => SoundCodec::Opus.bit(),
            SoundChoice::Lossless => SoundCodec::Opus.bit() | SoundCodec::S16.bit(),
            SoundChoice::Off => 0,
        };
        SoundWant { codecs, frame_min: 0, bitrate_max: 0, muted: self.muted }
    }

    /// A new connection counts its packets from 0 again.
    pub(super) fn begin_connection(&mut self) {
        let mut player = Player::new(RustOpus::default());
        player.set_volume(f32::from(self.volume) / f32::from(VOLUME_MAX));
        *self.lock() = player;
        self.players.clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Player<RustOpus>> {
        self.player.lock().expect("no holder of this lock can panic")
    }

    /// What the audio device needs: the player, the clock of its `now`, and where to say how late a
    /// sample is heard.
    #[cfg(feature = "window")]
    pub(crate) fn device(&self) -> (SharedPlayer, Clock, Arc<AtomicU32>) {
        (self.player.clone(), self.clock, self.device_us.clone())
    }

    /// The device pulls, or has stopped: then the next packet is news.
    #[cfg(feature = "window")]
    pub(crate) fn set_device_runs(&mut self, runs: bool) {
        self.device_runs = runs;
    }

    /// What is played now.
    pub(crate) fn report(&self) -> Report {
        self.lock().report(self.clock.now(), self.device_us.load(Ordering::Relaxed).into())
    }
}

impl State {
    /// Gives the player what has arrived, and the session a report if one is due.
    pub(super) fn take_sound(&mut self) {
        let mut any = false;
        while let Some(event) = self.viewers.shown.poll_sound() {
            let mut player = self.sound.lock();
            match event {
                SoundEvent::Format(format) => player.handle_format(format),
                SoundEvent::Packet { message, arrived } => {
                    let frame = MessageFrame::from_datagram(&message);
                    if let Ok(SessionMessage::Sound(packet)) =
                        frame.and_then(|frame| SessionMessage::decode(&frame))
                    {
                        player.handle_packet(&packet, arrived);
                        any = true;
                    }
                }
            }
        }
        if !any {
            return;
        }
        self.news.sound |= !self.sound.device_runs;
        let now = self.clock.now();
        if now >= self.sound.report_at {
            self.sound.report_at = now + REPORT_INTERVAL;
            let Report { heard, delay_us, counts } = self.sound.report();
            let state = SoundState {
                heard: heard.unwrap_or(0),
                delay_us,
                received: counts.received,
                lost: counts.lost,
                concealed: counts.concealed,
                runs: counts.runs,
                lag_us: None,
            };
            let extra = self.viewers.shown.report_sound(state, now);
            self.sound.lock().set_extra(extra);
        }
    }

    /// Mutes the session's sound, or ends that; returns words for the user.
    #[cfg(feature = "window")]
    pub(crate) fn toggle_mute(&mut self) -> &'static str {
        if !self.viewers.shown.has_sound() {
            return "There is no sound";
        }
        self.sound.muted = !self.sound.muted;
        let want = self.sound.want();
        self.active().want_sound(want);
        self.flush();
        if self.sound.muted { "Muted" } else { "Not muted" }
    }

    /// Makes sound louder or softer by so many steps; returns words for the user.
    #[cfg(feature = "window")]
    pub(crate) fn change_volume(&mut self, steps: i8) -> String {
        if !self.viewers.shown.has_sound() {
            return "There is no sound".to_owned();
        }
        let volume = self.sound.volume.saturating_add(steps.saturating_mul(VOLUME_STEP));
        self.sound.volume = volume.clamp(0, VOLUME_MAX);
        let volume = f32::from(self.sound.volume) / f32::from(VOLUME_MAX);
        self.sound.lock().set_volume(volume);
        let muted = if self.sound.muted { ", muted" } else { "" };
        format!("Volume {} %{muted}", self.sound.volume)
    }

    /// No device plays: nothing is to be sent.
    #[cfg(feature = "window")]
    pub(crate) fn give_up_sound(&mut self, why: String) {
        self.sound.failed = Some(why);
        let want = self.sound.want();
        self.active().want_sound(want);
        self.flush();
    }
}
