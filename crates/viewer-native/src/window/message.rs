//! Beside the path: an error in a window of its own, where the viewer was started without a
//! terminal, as by a browser for a `thinc://` link.
//! Drawn with the panels' own font, so that neither fonts of an X server nor a program for message
//! boxes is needed. Knows SDL and a text; never the connection.

use std::error::Error;
use std::mem::ManuallyDrop;

use sdl3::EventPump;
use sdl3::event::{Event, WindowEvent};
use sdl3::keyboard::Keycode;
use sdl3::pixels::{Color, PixelFormat};
use sdl3::rect::Rect;
use sdl3::surface::Surface;
use sdl3::video::Window;
use thinc_protocol::wire::printable;
use thinc_region::Size;

use super::hints::set_hints;
use super::icon;
use crate::overlay::{PAPER, Panel};

/// 720: width of the text in pixels at a scale of 1; about 55 characters a line.
const WIDTH: u32 = 720;
/// 24: empty pixels around the text at a scale of 1.
const MARGIN: u32 = 24;

const CLOSING_KEYS: [Keycode; 4] =
    [Keycode::Escape, Keycode::Return, Keycode::KpEnter, Keycode::Space];

/// Shows an error until the person closes the window or presses Escape, Return or Space. The text
/// may quote anything, such as an address that a web page opened. Without a desktop it only stands
/// where it was printed.
pub fn show_error(error: &dyn std::fmt::Display) {
    if let Err(why) = show(&format!("{error}\n\nEscape: close")) {
        crate::error::report(format_args!("no window for the error: {why}"));
    }
}

fn show(text: &str) -> Result<(), Box<dyn Error>> {
    set_hints();
    let sdl = sdl3::init()?;
    // Freed by the end of the process, as the windows of `run` are.
    let video = ManuallyDrop::new(sdl.video()?);
    let mut pump = sdl.event_pump()?;
    let scale = video.get_primary_display().and_then(|display| display.get_content_scale());
    let scale = scale.map_or(1, |scale| scale.round().clamp(1.0, 2.0) as u32);
    let panel = Panel::draw_within(&printable(text), 2 * scale, WIDTH * scale);
    let [width, height] =
        [panel.size.width, panel.size.height].map(|edge| edge + 2 * MARGIN * scale);
    let mut builder = video.window("thinc viewer", width, height);
    builder.position_centered();
    let mut window = ManuallyDrop::new(builder.build()?);
    icon::set(&mut window);
    draw(&window, &pump, &panel)?;
    loop {
        match pump.wait_event() {
            Event::Quit { .. } | Event::Window { win_event: WindowEvent::CloseRequested, .. } => {
                return Ok(());
            }
            Event::KeyDown { keycode: Some(key), .. } if CLOSING_KEYS.contains(&key) => {
                return Ok(());
            }
            Event::Window {
                win_event: WindowEvent::Exposed | WindowEvent::PixelSizeChanged(..),
                ..
            } => draw(&window, &pump, &panel)?,
            _ => {}
        }
    }
}

/// Draws the panel in the middle of the window.
fn draw(window: &Window, pump: &EventPump, panel: &Panel) -> Result<(), sdl3::Error> {
    let mut bytes: Vec<u8> = panel.pixels.iter().flat_map(|pixel| pixel.to_ne_bytes()).collect();
    let Size { width, height } = panel.size;
    let text = Surface::from_data(&mut bytes, width, height, 4 * width, PixelFormat::XRGB8888)?;
    let mut surface = window.surface(pump)?;
    let [_, red, green, blue] = PAPER.to_be_bytes();
    surface.fill_rect(None, Color::RGB(red, green, blue))?;
    let left = (surface.width() as i32 - width as i32) / 2;
    let top = (surface.height() as i32 - height as i32) / 2;
    text.blit(None, &mut surface, Rect::new(left, top, width, height))?;
    surface.update_window()
}
