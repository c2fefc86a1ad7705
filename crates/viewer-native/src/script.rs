//! `--script`: commands for a headless viewer, one per line, so that other programs can drive it.
//! Each command (cli.rs lists them) is answered by one line: `ok …` or `error …`. Knows their
//! syntax; headless.rs does the work.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum as _;
use thinc_protocol::clip::{ClipFormat, Selection};
use thinc_protocol::file::FilePurpose;
use thinc_protocol::pen::{PEN_FRACTION, PEN_TILT_MAX, PenSample};
use thinc_protocol::viewer::{InputEvent, KeyboardLayout, TouchPhase, View};
use thinc_region::Size;
use thinc_viewer_core::{CursorPixels, StereoMode};

use crate::cli::Quality;
use crate::error::ViewError;
use crate::headless::Headless;
use crate::keys;
use crate::view::{self, ViewChoice};

/// 64 KiB: longest line; a longer one is an error and is skipped.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Result of a command.
enum Answer {
    Ok(String),
    Quit,
}

/// Runs a script to its end; answers go to `out`.
///
/// # Errors
/// A command failed (after running the rest), or the connection ended.
pub fn run(
    viewer: &mut Headless,
    mut script: impl BufRead,
    mut out: impl Write,
) -> Result<(), ViewError> {
    let mut failed = None;
    let mut line = Vec::new();
    let io_error =
        |error: io::Error| ViewError::Script(format!("reading or answering the script: {error}"));
    for number in 1u64.. {
        line.clear();
        let count = io::Read::take(&mut script, LINE_BYTES_MAX as u64)
            .read_until(b'\n', &mut line)
            .map_err(io_error)?;
        if count == 0 {
            break;
        }
        if count == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
            return Err(ViewError::Script(format!(
                "line {number} is longer than {LINE_BYTES_MAX} bytes"
            )));
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            return Err(ViewError::Script(format!("line {number} is not UTF-8")));
        };
        let text = text.trim_end_matches(['\n', '\r']);
        if text.trim().is_empty() || text.starts_with('#') {
            continue;
        }
        match execute(viewer, text) {
            Ok(Answer::Ok(answer)) if answer.is_empty() => writeln!(out, "ok").map_err(io_error)?,
            Ok(Answer::Ok(answer)) => writeln!(out, "ok {answer}").map_err(io_error)?,
            Ok(Answer::Quit) => {
                writeln!(out, "ok").and_then(|()| out.flush()).map_err(io_error)?;
                break;
            }
            Err(error) => {
                writeln!(out, "error {}", error.to_string().replace('\n', " "))
                    .and_then(|()| out.flush())
                    .map_err(io_error)?;
                if matches!(
                    error,
                    ViewError::Closed { .. } | ViewError::Lost(_) | ViewError::Protocol(_)
                ) {
                    return Err(error);
                }
                failed = failed.or(Some(match error {
                    ViewError::Script(what) => ViewError::Script(format!("line {number}: {what}")),
                    other => other,
                }));
            }
        }
        out.flush().map_err(io_error)?;
    }
    failed.map_or(Ok(()), Err)
}

/// Carries out the commands of one kind; None for others.
type Kind = fn(&mut Headless, &str, &str) -> Result<Option<Answer>, ViewError>;

const KINDS: [Kind; 7] = [keyboard, pointer, waits, screen, stereo, cursor, clipboard_and_files];

fn execute(viewer: &mut Headless, line: &str) -> Result<Answer, ViewError> {
    let line = line.trim_start();
    let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
    for kind in KINDS {
        if let Some(answer) = kind(viewer, command, rest)? {
            return Ok(answer);
        }
    }
    match command {
        "keep" => {
            viewer.set_buffers_input(true);
            let answer = execute(viewer, rest);
            viewer.set_buffers_input(false);
            answer
        }
        "announcement" => viewer.announcement().map(Answer::Ok),
        "stats" => viewer.write_stats(file(rest)?).map(done),
        "timeout" => {
            let seconds: f64 = number(rest.trim())?;
            let limit = Duration::try_from_secs_f64(seconds)
                .map_err(|_| ViewError::Script(format!("{rest:?} is not a number of seconds")))?;
            viewer.set_timeout(limit);
            Ok(done(()))
        }
        "quit" => Ok(Answer::Quit),
        other => Err(ViewError::Script(format!("no such command: {other:?}"))),
    }
}

/// The answer of a command that says nothing.
fn done((): ()) -> Answer {
    Answer::Ok(String::new())
}

/// Keys and text.
fn keyboard(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "type" => viewer.type_text(&unescape(rest)?).map(done),
        "text" => viewer.text(&unescape(rest)?).map(done),
        "layout" => {
            viewer.set_layout(parse_layout(rest.trim()).map_err(ViewError::Script)?).map(done)
        }
        "locks" => {
            let (caps, num) = match rest.trim() {
                "none" => (false, false),
                "caps" => (true, false),
                "num" => (false, true),
                "both" => (true, true),
                other => {
                    return Err(ViewError::Script(format!(
                        "{other:?} is not none, caps, num or both"
                    )));
                }
            };
            viewer.input(InputEvent::Locks { caps, num }).map(|_| done(()))
        }
        "key" => viewer.chord(rest.trim()).map(done),
        "keydown" | "keyup" => {
            let name = rest.trim();
            let key = keys::by_name(name)
                .ok_or_else(|| ViewError::Script(format!("unknown key {name:?}")))?;
            viewer.key(key, command == "keydown").map(|_| done(()))
        }
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// The pointer, buttons, touches and pen; and the release of all that is held.
fn pointer(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "move" => {
            let [x, y] = numbers(rest)?;
            viewer.move_to(x, y).map(done)
        }
        "move-by" => {
            let [dx, dy] = numbers(rest)?;
            viewer.move_by(dx, dy).map(done)
        }
        "click" => {
            let [button] = numbers(rest)?;
            viewer.click(button).map(done)
        }
        "buttondown" | "buttonup" => {
            let [button] = numbers(rest)?;
            viewer.button(button, command == "buttondown").map(done)
        }
        "scroll" => {
            let [dx, dy] = numbers(rest)?;
            viewer.scroll(dx, dy).map(done)
        }
        "touch" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let [id, phase, x, y] = words[..] else {
                return Err(ViewError::Script("touch ID begin|update|end X Y".into()));
            };
            let phase = match phase {
                "begin" => TouchPhase::Begin,
                "update" => TouchPhase::Update,
                "end" => TouchPhase::End,
                other => {
                    return Err(ViewError::Script(format!(
                        "{other:?} is not begin, update or end"
                    )));
                }
            };
            let event = InputEvent::Touch { id: number(id)?, phase, x: number(x)?, y: number(y)? };
            viewer.input(event).map(|_| done(()))
        }
        "pen" => viewer.pen(pen(rest)?).map(done),
        "penout" => viewer.pen(PenSample::default()).map(done),
        "release" => viewer.input(InputEvent::ReleaseAll).map(|_| done(())),
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// A sample of the pen: `X Y PRESSURE TILTX TILTY [BUTTONS] [eraser]`.
fn pen(rest: &str) -> Result<PenSample, ViewError> {
    let (rest, eraser) = match rest.trim().strip_suffix("eraser") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let (&[x, y, pressure, tilt_x, tilt_y] | &[x, y, pressure, tilt_x, tilt_y, _]) = &words[..]
    else {
        return Err(ViewError::Script(
            "pen X Y PRESSURE TILTX TILTY [BUTTONS] [eraser]".to_owned(),
        ));
    };
    let parts = |word| number::<f64>(word).map(|at| (at * f64::from(PEN_FRACTION)) as u32);
    let tilt = |word| match number::<i8>(word)? {
        degrees if degrees.unsigned_abs() <= PEN_TILT_MAX.unsigned_abs() => Ok(degrees),
        _ => Err(ViewError::Script(format!("{word} is beyond 90 degrees"))),
    };
    Ok(PenSample {
        x: parts(x)?,
        y: parts(y)?,
        pressure: number(pressure)?,
        tilt_x: tilt(tilt_x)?,
        tilt_y: tilt(tilt_y)?,
        buttons: words.get(5).map_or(Ok(0), |word| number(word))?,
        eraser,
        near: true,
    })
}

/// Waits for the session.
fn waits(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "wait-gamma" => {
            let [x, y, color, shown] = shown_words(rest)?;
            viewer.wait_shown_as((number(x)?, number(y)?), hex(color)?, hex(shown)?).map(done)
        }
        "wait-relative" => match rest.trim() {
            "yes" => viewer.wait_relative(true).map(done),
            "no" => viewer.wait_relative(false).map(done),
            other => Err(ViewError::Script(format!("{other:?} is not yes or no"))),
        },
        "barrier" => viewer.barrier().map(done),
        "wait-quiet" => viewer.wait_quiet().map(done),
        "wait-unresponsive" => viewer.wait_unresponsive().map(done),
        "wait-connection" => {
            let [number] = numbers::<u32, 1>(rest)?;
            viewer.wait_connection(number).map(done)
        }
        "wait-pixel" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let [x, y, color] = words[..] else {
                return Err(ViewError::Script("wait-pixel X Y RRGGBB".into()));
            };
            let (x, y) = (number::<u32>(x)?, number::<u32>(y)?);
            let color = u32::from_str_radix(color, 16)
                .map_err(|_| ViewError::Script(format!("{color:?} is not a colour RRGGBB")))?;
            let ready = |size: Size, pixels: &[u32]| {
                x < size.width
                    && y < size.height
                    && pixels[y as usize * size.width as usize + x as usize] & 0x00ff_ffff == color
            };
            viewer.wait_screen("the pixel", ready).map(done)
        }
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// The screen and its view.
fn screen(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "size" => {
            let size = viewer.size();
            Ok(Answer::Ok(format!("{}x{}", size.width, size.height)))
        }
        "resize" => {
            let size = parse_screen_size(rest.trim()).map_err(ViewError::Script)?;
            viewer.resize(size).map(done)
        }
        "view" => match view::parse_view(rest.trim()).map_err(ViewError::Script)? {
            ViewChoice::Fixed(view) => viewer.set_view(view).map(done),
            ViewChoice::Fit => viewer.set_view(View::default()).map(done),
        },
        "quality" => match Quality::from_str(rest.trim(), false) {
            Ok(quality) => viewer.choose_quality(quality.choice()).map(done),
            Err(_) => Err(ViewError::Script(format!(
                "{:?} is no quality: auto, exact, high, medium and low are",
                rest.trim()
            ))),
        },
        "exact" => viewer.request_exact_frame().map(done),
        "hash" => Ok(Answer::Ok(format!("{:016x}", viewer.hash()))),
        "pixel" => {
            let [x, y] = numbers(rest)?;
            let pixel = viewer.screen().pixel(x, y);
            pixel
                .map(|pixel| Answer::Ok(format!("{pixel:06x}")))
                .ok_or_else(|| ViewError::Script(format!("{x},{y} is outside the screen")))
        }
        "screenshot" => viewer.screenshot(file(rest)?).map(done),
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// Both eyes' pictures of stereo programs.
fn stereo(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "stereo" => match StereoMode::of_name(rest.trim()) {
            Some(mode) => viewer.choose_stereo(mode).map(done),
            None => Err(ViewError::Script(format!(
                "{:?} is no stereo mode: {} are",
                rest.trim(),
                StereoMode::ALL.map(StereoMode::name).join(", ")
            ))),
        },
        "right-pixel" => {
            let [x, y] = numbers(rest)?;
            let pixel = viewer.right_screen().pixel(x, y);
            pixel
                .map(|pixel| Answer::Ok(format!("{pixel:06x}")))
                .ok_or_else(|| ViewError::Script(format!("{x},{y} is outside the screen")))
        }
        "right-bounds" => Ok(Answer::Ok(viewer.right_bounds().map_or("none".into(), |at| {
            format!("{}x{}+{}+{}", at.width(), at.height(), at.x1, at.y1)
        }))),
        "wait-right" => match rest.trim() {
            "yes" => viewer.wait_right(true).map(done),
            "no" => viewer.wait_right(false).map(done),
            other => Err(ViewError::Script(format!("{other:?} is not yes or no"))),
        },
        "wait-right-pixel" => {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let [x, y, color] = words[..] else {
                return Err(ViewError::Script("wait-right-pixel X Y RRGGBB".into()));
            };
            viewer.wait_right_pixel((number(x)?, number(y)?), hex(color)?).map(done)
        }
        "screenshot-right" => viewer.right_screenshot(file(rest)?).map(done),
        "screenshot-shown" => viewer.shown_screenshot(file(rest)?).map(done),
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// The session's cursor, and what an application wants of the pointer.
fn cursor(viewer: &mut Headless, command: &str, rest: &str) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "cursor" => Ok(Answer::Ok(match viewer.cursor() {
            Some(c) if c.size.area() > 0 => {
                format!("{}x{}+{}+{}", c.size.width, c.size.height, c.hot_x, c.hot_y)
            }
            _ => "none".into(),
        })),
        "cursor-shown" => Ok(Answer::Ok(if viewer.cursor_shown() { "yes" } else { "no" }.into())),
        "cursor-pixel" => {
            let [x, y]: [u32; 2] = numbers(rest)?;
            let inside = |cursor: &&CursorPixels| x < cursor.size.width && y < cursor.size.height;
            let cursor = viewer.cursor().filter(inside);
            cursor
                .map(|cursor| {
                    Answer::Ok(format!(
                        "{:08x}",
                        cursor.pixels[(y * cursor.size.width + x) as usize]
                    ))
                })
                .ok_or_else(|| ViewError::Script(format!("{x},{y} is outside the cursor")))
        }
        "warped" => Ok(Answer::Ok(
            viewer.pointer().map_or_else(|| "none".into(), |(x, y)| format!("{x} {y}")),
        )),
        "gamma" => {
            let [x, y, color] = shown_words(rest)?;
            let shown = viewer.shown_as((number(x)?, number(y)?), hex(color)?);
            Ok(Answer::Ok(format!("{shown:06x}")))
        }
        "relative-wanted" => {
            Ok(Answer::Ok(if viewer.relative_wanted() { "yes" } else { "no" }.into()))
        }
        _ => return Ok(None),
    };
    answer.map(Some)
}

/// What is copied, and what is sent as files.
fn clipboard_and_files(
    viewer: &mut Headless,
    command: &str,
    rest: &str,
) -> Result<Option<Answer>, ViewError> {
    let answer = match command {
        "clip-copy" | "clip-add" => {
            let (selection, format, path) = clip(rest)?;
            let content = std::fs::read(path)
                .map_err(|error| ViewError::File { path: path.to_owned(), error })?;
            if command == "clip-add" {
                viewer.add_copied(selection, format, content);
            } else {
                viewer.copy(selection, format, content);
            }
            Ok(done(()))
        }
        "clip-wait" => {
            let mut words = rest.split_whitespace();
            let selection = parse_selection(words.next().unwrap_or_default())?;
            viewer
                .wait_copied(selection, words.map(parse_format).collect::<Result<_, _>>()?)
                .map(done)
        }
        "clip-paste" => {
            let (selection, format, path) = clip(rest)?;
            let content = viewer.paste(selection, format)?;
            std::fs::write(path, content)
                .map_err(|error| ViewError::File { path: path.to_owned(), error })?;
            Ok(done(()))
        }
        "files-send" => {
            let paths = vec![file(rest)?.to_owned()];
            viewer.send_files(paths, FilePurpose::Sent).map(Answer::Ok)
        }
        "files-drop" => {
            let mut words = rest.trim_start().splitn(3, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (x, y, path) = (number(word())?, number(word())?, file(word())?);
            viewer.send_files(vec![path.to_owned()], FilePurpose::Dropped { x, y }).map(Answer::Ok)
        }
        "files-question" => {
            viewer.wait_files_question().map(|text| Answer::Ok(text.replace('\n', " ")))
        }
        "files-answer" => match rest.trim() {
            "yes" => viewer.answer_files(true).map(Answer::Ok),
            "no" => viewer.answer_files(false).map(Answer::Ok),
            other => Err(ViewError::Script(format!("{other:?} is not yes or no"))),
        },
        _ => return Ok(None),
    };
    answer.map(Some)
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, ViewError> {
    word.parse()
        .map_err(|_| ViewError::Script(format!("{word:?} is not a number, or out of range")))
}

fn numbers<T: std::str::FromStr + Copy, const N: usize>(rest: &str) -> Result<[T; N], ViewError> {
    let found = rest.split_whitespace().map(number).collect::<Result<Vec<T>, _>>()?;
    let count = found.len();
    found.try_into().map_err(|_| ViewError::Script(format!("{N} numbers are needed, not {count}")))
}

/// A place and one or two colours.
fn shown_words<const N: usize>(rest: &str) -> Result<[&str; N], ViewError> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let wrong = |_| ViewError::Script("gamma X Y RRGGBB; wait-gamma X Y RRGGBB RRGGBB".into());
    words.try_into().map_err(wrong)
}

fn hex(word: &str) -> Result<u32, ViewError> {
    let color = (word.len() == 6).then(|| u32::from_str_radix(word, 16).ok()).flatten();
    color.ok_or_else(|| ViewError::Script(format!("{word:?} is no colour: RRGGBB")))
}

fn file(rest: &str) -> Result<&Path, ViewError> {
    let name = rest.trim();
    if name.is_empty() {
        Err(ViewError::Script("a file name is missing".into()))
    } else {
        Ok(Path::new(name))
    }
}

/// `SELECTION FORMAT FILE`.
fn clip(rest: &str) -> Result<(Selection, ClipFormat, &Path), ViewError> {
    let (selection, rest) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    let (format, name) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    Ok((parse_selection(selection)?, parse_format(format)?, file(name)?))
}

fn parse_selection(word: &str) -> Result<Selection, ViewError> {
    match word {
        "clipboard" => Ok(Selection::Clipboard),
        "primary" => Ok(Selection::Primary),
        other => Err(ViewError::Script(format!("{other:?} is not clipboard or primary"))),
    }
}

fn parse_format(word: &str) -> Result<ClipFormat, ViewError> {
    match word {
        "text" => Ok(ClipFormat::Text),
        "html" => Ok(ClipFormat::Html),
        "png" => Ok(ClipFormat::Png),
        "files" => Ok(ClipFormat::Files),
        other => Err(ViewError::Script(format!("{other:?} is not text, html, png or files"))),
    }
}

fn unescape(text: &str) -> Result<String, ViewError> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some('\\') => '\\',
                other => {
                    return Err(ViewError::Script(format!(
                        "\\{} means nothing here",
                        other.unwrap_or(' ')
                    )));
                }
            },
            other => other,
        });
    }
    Ok(out)
}

/// Parses `de`, `de(nodeadkeys)` or `de,ru(phonetic)`, followed by options: `us compose:caps`.
pub(crate) fn parse_layout(text: &str) -> Result<KeyboardLayout, String> {
    let invalid = || format!("{text:?} is not a layout such as us, de(nodeadkeys) or us,ru");
    let is_valid = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-:+".contains(&byte))
    };
    let (names, options) = text.split_once(' ').unwrap_or((text, ""));
    let mut parts = Vec::new();
    for name in names.split(',') {
        let (layout, variant) = match name.split_once('(') {
            Some((layout, variant)) => (layout, variant.strip_suffix(')').ok_or_else(invalid)?),
            None => (name, ""),
        };
        if layout.is_empty() || layout.starts_with('-') || !is_valid(layout) || !is_valid(variant) {
            return Err(invalid());
        }
        parts.push((layout, variant));
    }
    let options: Vec<&str> =
        options.split([' ', ',']).filter(|option| !option.is_empty()).collect();
    let list = |of: &mut dyn Iterator<Item = &str>| of.collect::<Vec<_>>().join(",");
    let layout = KeyboardLayout {
        model: String::new(),
        layout: list(&mut parts.iter().map(|(layout, _)| *layout)),
        variant: list(&mut parts.iter().map(|(_, variant)| *variant)),
        options: list(&mut options.iter().copied()),
    };
    let fits = |name: &String| {
        name.len() <= thinc_protocol::limits::LAYOUT_NAME_BYTES_MAX
            && is_valid(&name.replace(',', ""))
    };
    if [&layout.layout, &layout.variant, &layout.options].into_iter().all(fits) {
        Ok(layout)
    } else {
        Err(invalid())
    }
}

/// Parses `800x600`.
pub fn parse_size(text: &str) -> Result<Size, String> {
    let invalid = || format!("{text:?} is not a size such as 1024x768");
    let (width, height) = text.split_once(['x', 'X']).ok_or_else(invalid)?;
    let size = Size {
        width: width.parse().map_err(|_| invalid())?,
        height: height.parse().map_err(|_| invalid())?,
    };
    let edge = thinc_protocol::limits::SCREEN_EDGE_MAX;
    if size.area() == 0
        || size.width.max(size.height) > edge
        || size.area() > thinc_protocol::limits::SCREEN_AREA_MAX
    {
        return Err(format!(
            "{text} is not a size from 1x1 to {edge}x{edge} of at most 64 Mi pixels"
        ));
    }
    Ok(size)
}

/// Parses the size of a session's screen, as [`parse_size`] does.
pub fn parse_screen_size(text: &str) -> Result<Size, String> {
    let size = parse_size(text)?;
    let edge = thinc_protocol::limits::SCREEN_EDGE_MIN;
    if size.width.min(size.height) < edge {
        return Err(format!("{text} is too small for a session: {edge}x{edge} is the least"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_bounded() {
        assert_eq!(parse_size("1024x768"), Ok(Size { width: 1024, height: 768 }));
        for invalid in
            ["", "x", "1024", "0x5", "5x0", "-1x5", "16385x1", "16384x16384", "1024x768x1", "1e3x5"]
        {
            assert!(parse_size(invalid).is_err(), "{invalid:?}");
            assert!(parse_screen_size(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_size_below_a_sessions_least_is_refused_with_it() {
        assert!(parse_screen_size("64x64").is_ok() && parse_size("1x1").is_ok());
        for small in ["1x1", "63x64", "64x63"] {
            assert!(parse_screen_size(small).unwrap_err().contains("64x64"), "{small}");
        }
    }

    #[test]
    fn layouts_are_parsed_as_people_write_them() {
        let layout =
            |text| parse_layout(text).map(|layout| (layout.layout, layout.variant, layout.options));
        let names = |a: &str, b: &str, c: &str| Ok((a.to_owned(), b.to_owned(), c.to_owned()));
        assert_eq!(layout("de"), names("de", "", ""));
        assert_eq!(
            layout("de(nodeadkeys) compose:caps"),
            names("de", "nodeadkeys", "compose:caps")
        );
        assert_eq!(layout("us,ru(phonetic)"), names("us,ru", ",phonetic", ""));
        for invalid in ["", "de(", "de)", "-x", "a/b", "de(..)", "us;ls", &"a".repeat(200)] {
            assert!(layout(invalid).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn escapes_are_few_and_unknown_ones_are_errors() {
        assert_eq!(unescape(r"a\nb\\n").unwrap(), "a\nb\\n");
        assert!(unescape(r"\q").is_err());
        assert!(unescape("\\").is_err());
    }

    #[test]
    fn a_sample_of_a_pen_has_positions_in_parts_of_pixels() {
        let sample = pen(" 10.5 20 40000 -30 45 1").unwrap();
        let wanted = PenSample {
            x: 10 * 64 + 32,
            y: 20 * 64,
            pressure: 40_000,
            tilt_x: -30,
            tilt_y: 45,
            buttons: 1,
            eraser: false,
            near: true,
        };
        assert_eq!(sample, wanted);
        let hovering = PenSample { buttons: 0, eraser: true, ..wanted };
        assert_eq!(pen("10.5 20 40000 -30 45 eraser").unwrap(), hovering);
        for wrong in ["1 2 3 4", "1 2 3 4 5 6 7", "1 2 70000 4 5", "1 2 3 91 5", "eraser"] {
            assert!(pen(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_counted_and_must_fit() {
        assert_eq!(numbers::<u16, 2>(" 5  7 ").unwrap(), [5, 7]);
        assert!(numbers::<u16, 2>("5").is_err());
        assert!(numbers::<u16, 1>("70000").is_err());
        assert!(numbers::<i16, 2>("-120 x").is_err());
    }
}
