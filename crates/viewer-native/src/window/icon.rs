//! Beside the path: the windows' icon, for title bars, task bars and window switchers.
//! Made from packaging/desktop/thinc-view.svg, as the icons of the desktop entry are. Knows SDL's
//! windows. On Wayland the desktop takes the icon from the desktop entry.

use sdl3::iostream::IOStream;
use sdl3::surface::Surface;
use sdl3::video::Window;

/// 128 by 128 pixels; desktops scale it down.
const ICON: &[u8] = include_bytes!("icon.png");

/// Gives a window its icon. A desktop without icons is no reason to stop.
pub(super) fn set(window: &mut Window) {
    let icon = IOStream::from_bytes(ICON).and_then(|mut stream| Surface::load_png_io(&mut stream));
    match icon {
        Ok(icon) => drop(window.set_icon(icon)),
        Err(error) => crate::error::report(format_args!("no window icon: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::process::Command;

    fn pixels(png: &[u8]) -> Vec<u8> {
        let mut reader = png::Decoder::new(Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (128, 128));
        assert_eq!(info.color_type, png::ColorType::Rgba);
        pixels
    }

    #[test]
    fn the_icon_is_that_of_the_desktop_entry() {
        let svg = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/desktop/thinc-view.svg");
        let drawn = match Command::new("rsvg-convert")
            .args(["--width", "128", "--height", "128", svg])
            .output()
        {
            Ok(drawn) => drawn.stdout,
            Err(error) => {
                eprintln!("skipped: no rsvg-convert ({error})");
                return;
            }
        };
        // Versions of the renderer differ at slanted edges.
        let differ = |(a, b): (&u8, &u8)| a.abs_diff(*b) > 24;
        let (icon, drawn) = (pixels(super::ICON), pixels(&drawn));
        let different = icon.iter().zip(&drawn).filter(|pair| differ(*pair)).count();
        assert!(different < 100, "icon.png is another icon than {svg}: {different} components");
    }
}
