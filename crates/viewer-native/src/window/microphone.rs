//! Path back, beside the pixels: the desktop's microphone, open while a program of the session
//! records and its person agrees; and the mark that says so. From SDL's recording thread, by
//! ../microphone.rs, to client/microphone.rs. Knows SDL; decides nothing about who may hear.

use std::mem::ManuallyDrop;

use sdl3::audio::{
    AudioFormat, AudioRecordingCallback, AudioSpec, AudioStream, AudioStreamWithCallback,
};
use thinc_protocol::Micros;
use thinc_protocol::microphone::MicrophoneWant;
use thinc_region::Size;
use thinc_sound::RATE;

use super::App;
use super::drawing::Placed;
use crate::client::Client;
use crate::clock::Clock;
use crate::microphone::MicrophoneEncoder;
use crate::overlay::Panel;

/// Shown as long as the microphone is open.
const MARK: &str = "Microphone on  (Ctrl+Alt+K: off)";

/// Takes a coded frame, and when its first sample was heard.
type Frames = Box<dyn FnMut(&[u8], Micros) + Send>;

/// What SDL's recording thread calls.
struct Recorder {
    encoder: MicrophoneEncoder,
    clock: Clock,
    samples: Vec<f32>,
    frames: Frames,
}

impl AudioRecordingCallback<f32> for Recorder {
    fn callback(&mut self, stream: &mut AudioStream, available: i32) {
        self.samples.resize(usize::try_from(available).unwrap_or(0), 0.0);
        if let Ok(count) = stream.read_f32_samples(&mut self.samples) {
            let now = self.clock.now();
            self.encoder.push(&self.samples[..count], now, &mut self.frames);
        }
    }
}

type Stream = AudioStreamWithCallback<Recorder>;

/// The recording device.
pub(super) struct WindowMicrophone {
    sdl: sdl3::Sdl,
    /// What it is open for. Paused before it is dropped, as the playback's is.
    open: Option<(MicrophoneWant, ManuallyDrop<Stream>)>,
    /// What is wanted may have changed since the device was last looked after.
    has_news: bool,
}

impl WindowMicrophone {
    pub(super) fn new(sdl: &sdl3::Sdl) -> WindowMicrophone {
        WindowMicrophone { sdl: sdl.clone(), open: None, has_news: false }
    }

    fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What is wanted may have changed.
    pub(super) fn handle_news(&mut self, news: bool) {
        self.has_news |= news;
    }

    /// True once after that.
    fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The mark, in the corner where the statistics are not.
    pub(super) fn draw_mark(&self, window: Size, dot: u32) -> Option<Placed> {
        self.is_open().then(|| {
            let panel = Panel::draw_within(MARK, dot * 2, window.width);
            let x = (window.width as i32 - panel.size.width as i32 - 8).max(0);
            (panel, x, 8)
        })
    }

    /// Opens or closes the device as it is wanted now; words for the user if that changed
    /// something, or there is none. SDL's thread takes the client's lock, so nothing here waits for
    /// that thread while it holds it.
    fn follow(&mut self, client: &Client) -> Option<String> {
        let wanted = client.lock().microphone_to_open();
        let is_open_for = self.open.as_ref().map(|(want, _)| *want);
        if wanted == is_open_for {
            // Another connection may want the same, or the person was quick.
            wanted.into_iter().for_each(|want| client.lock().set_microphone_open(want));
            return None;
        }
        if let Some((want, stream)) = self.open.take() {
            if let Err(error) = stream.pause() {
                self.open = Some((want, stream));
                return Some(format!("The microphone cannot be closed: {error}"));
            }
            drop(ManuallyDrop::into_inner(stream));
        }
        let Some(want) = wanted else {
            return Some("Microphone off".to_owned());
        };
        match self.start(client, want) {
            Ok(stream) => {
                self.open = Some((want, ManuallyDrop::new(stream)));
                client.lock().set_microphone_open(want);
                Some("Microphone on: a program in the session records".to_owned())
            }
            Err(error) => {
                client.lock().handle_microphone_failed(error.clone());
                Some(format!("The session gets no microphone: {error}"))
            }
        }
    }

    fn start(&self, client: &Client, want: MicrophoneWant) -> Result<Stream, String> {
        let encoder = MicrophoneEncoder::new(want).map_err(|error| error.to_string())?;
        let (_, clock, _) = client.lock().sound.device();
        let frames = Box::new(client.microphone_frames());
        let recorder = Recorder { encoder, clock, samples: Vec::new(), frames };
        let spec = AudioSpec::new(
            Some(RATE as i32),
            Some(want.channels.into()),
            Some(AudioFormat::f32_sys()),
        );
        let open = || {
            let stream = self.sdl.audio()?.open_recording_stream(&spec, recorder)?;
            stream.resume()?;
            Ok(stream)
        };
        open().map_err(|error: sdl3::Error| error.to_string())
    }
}

impl App<'_> {
    /// Opens or closes the microphone, and shows its mark.
    pub(super) fn follow_microphone(&mut self) {
        if !self.channels.microphone.take_news() {
            return;
        }
        let words = self.channels.microphone.follow(self.client);
        if let Some(words) = words {
            self.show_notice(words);
            self.titles.set_microphone(self.channels.microphone.is_open());
            self.windows.set_titles(&self.titles);
        }
        self.drawing.redraw();
    }
}
