//! The window and its clock: when a frame is drawn, and which number it has. From SDL's events and
//! words on standard input to frames. Knows modes, keys and runs; never what is in a frame.

use std::io::BufRead as _;
use std::time::{Duration, Instant};

use sdl3::event::{Event, EventSender, WindowEvent};
use sdl3::keyboard::Keycode;
use sdl3::video::Window;
use sdl3::{EventPump, EventSubsystem};
use thinc_bench::apps::gl::{
    KEY_NEXT, KEY_START, Mode, Options, drawn_line, motion_number, renderer_line,
};

use crate::bars::{SIZE_MIN, areas};
use crate::gl::{self, Gl};
use crate::scene::{ground, objects, perspective};

/// A word on standard input: one more frame.
struct Word;

/// Shows the window until it is closed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let (width, height) = (options.width, options.height);
    if width < SIZE_MIN.0 || height < SIZE_MIN.1 {
        let (least_width, least_height) = SIZE_MIN;
        return Err(format!(
            "a window of {width}x{height} has no room for bar codes: {least_width}x{least_height} \
             is the least"
        ));
    }
    if options.rate.is_some() && options.mode != Mode::Step {
        return Err("--rate needs --mode step: the other modes have no clock".to_owned());
    }
    // Where there is Wayland too, the X server is what is measured.
    sdl3::hint::set("SDL_VIDEO_DRIVER", "x11");
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let sdl = sdl3::init().map_err(|error| failed("SDL does not start", &error))?;
    let video = sdl.video().map_err(|error| failed("no X display can be opened", &error))?;
    gl::ask(&video);
    let window = video
        .window("thinc-bench-gl", width, height)
        .position(0, 0)
        .opengl()
        .build()
        .map_err(|error| failed("no window for OpenGL", &error))?;
    let gl = Gl::new(&video, &window, (width, height), &perspective(width, height))
        .map_err(|error| failed("no OpenGL context", &error))?;
    println!("{}", renderer_line(gl.renderer()));
    let events = sdl.event().map_err(|error| failed("no events", &error))?;
    if options.mode == Mode::Step && options.rate.is_none() {
        read_words(&events)?;
    }
    let pump = sdl.event_pump().map_err(|error| failed("no events", &error))?;
    Program { options, window, gl, pump, number: 0, column: 0, run: None }.run()
}

/// Each line of standard input becomes an event; its end is the end of words alone.
fn read_words(events: &EventSubsystem) -> Result<(), String> {
    events.register_custom_event::<Word>().map_err(|error| error.to_string())?;
    let sender: EventSender = events.event_sender();
    let read = move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            for _ in line.split_whitespace() {
                if sender.push_custom_event(Word).is_err() {
                    return;
                }
            }
        }
    };
    let spawned = std::thread::Builder::new().name("words".into()).spawn(read);
    spawned.map(drop).map_err(|error| format!("no thread for words: {error}"))
}

/// A run in progress.
struct Run {
    /// None: until the window is closed.
    end: Option<Instant>,
    /// Number of the last frame before it.
    before: u32,
    /// When the next frame is due; in the past where frames are not held to a rate.
    due: Instant,
}

struct Program<'o> {
    options: &'o Options,
    window: Window,
    gl: Gl,
    pump: EventPump,
    /// Of the last frame.
    number: u32,
    /// Of the last motion.
    column: u32,
    run: Option<Run>,
}

/// What events ask for.
#[derive(Default)]
struct Asked {
    frames: u32,
    motion: Option<u32>,
    start: bool,
    again: bool,
    end: bool,
}

impl Program<'_> {
    fn run(mut self) -> Result<(), String> {
        self.draw()?;
        if self.runs() && self.options.seconds.is_none() {
            self.start();
        }
        loop {
            let asked = self.wait();
            if asked.end {
                return Ok(());
            }
            self.handle(&asked)?;
            self.advance()?;
        }
    }

    /// Whether frames come without being asked for.
    fn runs(&self) -> bool {
        match self.options.mode {
            Mode::Free => true,
            Mode::Step => self.options.rate.is_some(),
            Mode::Interactive => false,
        }
    }

    fn start(&mut self) {
        let now = Instant::now();
        let end = self.options.seconds.map(|seconds| now + Duration::from_secs(seconds));
        self.run = Some(Run { end, before: self.number, due: now });
    }

    /// Waits for an event if nothing else is to be done, or until the next frame is due; takes
    /// those that are there.
    fn wait(&mut self) -> Asked {
        let mut asked = Asked::default();
        let until = self.run.as_ref().map(|run| run.end.map_or(run.due, |end| run.due.min(end)));
        let first = match until {
            None => Some(self.pump.wait_event()),
            Some(until) => {
                let left = until.saturating_duration_since(Instant::now());
                // SDL waits whole milliseconds; the rest is slept in `advance`.
                let whole = Duration::from_millis(left.as_millis() as u64);
                if whole.is_zero() { None } else { self.pump.wait_event_timeout(whole) }
            }
        };
        first.iter().for_each(|event| asked.take(event));
        while let Some(event) = self.pump.poll_event() {
            asked.take(&event);
        }
        asked
    }

    fn handle(&mut self, asked: &Asked) -> Result<(), String> {
        let options = self.options;
        if asked.start && self.runs() && options.seconds.is_some() && self.run.is_none() {
            self.start();
        }
        match (options.mode, asked.motion) {
            (Mode::Step, _) if options.rate.is_none() => {
                for _ in 0..asked.frames {
                    self.next()?;
                }
            }
            // Motions that came while a frame was drawn are answered by one, as programs do.
            (Mode::Interactive, Some(column)) => {
                self.column = column;
                self.next()?;
            }
            _ if asked.again && self.run.is_none() => self.draw()?,
            _ => {}
        }
        Ok(())
    }

    /// Draws the next frame of a run if it is due, and ends the run if its time is over.
    fn advance(&mut self) -> Result<(), String> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let now = Instant::now();
        if run.end.is_some_and(|end| now >= end) {
            println!("{}", drawn_line(self.number.wrapping_sub(run.before)));
            self.run = None;
            return Ok(());
        }
        let left = run.due.saturating_duration_since(now);
        if left >= Duration::from_millis(1) {
            return Ok(());
        }
        std::thread::sleep(left);
        if let Some(rate) = self.options.rate {
            // A frame that is late does not hurry those after it.
            run.due = (run.due + Duration::from_secs(1) / rate).max(now);
        }
        self.next()
    }

    fn next(&mut self) -> Result<(), String> {
        self.number = self.number.wrapping_add(1);
        self.draw()
    }

    /// Draws the current frame.
    fn draw(&self) -> Result<(), String> {
        let options = self.options;
        let code = match options.mode {
            Mode::Interactive => motion_number(self.number, self.column),
            Mode::Free | Mode::Step => self.number,
        };
        self.gl.draw(
            ground(options.scene),
            &objects(options.scene, self.number),
            &areas(code, options.width, options.height),
        )?;
        self.window.gl_swap_window();
        Ok(())
    }
}

impl Asked {
    fn take(&mut self, event: &Event) {
        let is = |code: Option<Keycode>, key: &str| code.is_some_and(|code| code.name() == key);
        match event {
            Event::Quit { .. } => self.end = true,
            Event::Window { win_event: WindowEvent::CloseRequested, .. } => self.end = true,
            Event::Window { win_event: WindowEvent::Exposed, .. } => self.again = true,
            Event::KeyDown { keycode, repeat: false, .. } => {
                if is(*keycode, &KEY_NEXT.to_uppercase()) {
                    self.frames += 1;
                } else if is(*keycode, &KEY_START.to_uppercase()) {
                    self.start = true;
                }
            }
            Event::MouseMotion { x, .. } => self.motion = Some(x.max(0.0) as u32),
            event if event.as_user_event_type::<Word>().is_some() => self.frames += 1,
            _ => {}
        }
    }
}
