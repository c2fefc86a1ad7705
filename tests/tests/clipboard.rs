//! Copying and pasting with everything real: programs in a session, the viewer's window on an X
//! server of its own, and programs beside that window. What one side copied the other side pastes,
//! in every form, whole. The session and the viewer each against a side that does as told:
//! crates/session-server, crates/viewer-native/tests.

use std::fs::{self, File};
use std::io::Cursor;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use image::{ImageFormat, Rgb, RgbImage};
use thinc_bench::Error;
use thinc_bench::observe::input::Input;
use thinc_bench::observe::screen::ClientScreen;
use thinc_bench::process::{Folder, Running, Session, binary, wait_for};
use thinc_e2e::EVENT_TIMEOUT;

type Outcome = Result<(), Error>;

const WORDS: &str = "Grüße 😀 漢字\ntwo lines\tand a tab\n";

/// An X server with programs that copy and paste: the session's, or the one that the viewer's
/// window is on.
struct Side {
    name: &'static str,
    display: String,
    xauthority: Option<String>,
    /// They own what they copied as long as they run.
    owners: Vec<Running>,
    folder: Folder,
}

impl Side {
    fn new(
        name: &'static str,
        test: &str,
        display: &str,
        xauthority: Option<&str>,
    ) -> Result<Side, Error> {
        let (display, xauthority) = (display.to_owned(), xauthority.map(str::to_owned));
        Ok(Side {
            name,
            display,
            xauthority,
            owners: Vec::new(),
            folder: Folder::new(&format!("clip-{test}-{name}"))?,
        })
    }

    fn program(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("DISPLAY", &self.display).env_remove("WAYLAND_DISPLAY").stderr(Stdio::null());
        match &self.xauthority {
            Some(file) => command.env("XAUTHORITY", file),
            None => command.env_remove("XAUTHORITY"),
        };
        command
    }

    fn xclip(&self, selection: &str, target: &str) -> Command {
        let mut command = self.program("xclip");
        command.args(["-selection", selection, "-target", target]);
        command
    }

    fn copy(&mut self, selection: &str, target: &str, content: &[u8]) -> Outcome {
        let file = self.folder.path().join("copied");
        fs::write(&file, content)?;
        let mut xclip = self.xclip(selection, target);
        self.owners.push(Running::start("xclip", xclip.args(["-in", "-quiet"]).arg(file))?);
        Ok(())
    }

    fn paste(&self, selection: &str, target: &str) -> Result<Vec<u8>, Error> {
        let output = self.xclip(selection, target).arg("-out").output()?;
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(format!("xclip: {}", output.status).into())
        }
    }

    /// Begins to paste into a file.
    fn pasting(
        &self,
        selection: &str,
        target: &str,
    ) -> Result<(std::process::Child, PathBuf), Error> {
        let file = self.folder.path().join("pasted");
        let child =
            self.xclip(selection, target).arg("-out").stdout(File::create(&file)?).spawn()?;
        Ok((child, file))
    }

    /// Waits until what the other side copied can be pasted here in this form; xclip's own offers
    /// name no time.
    fn wait_offered(&self, selection: &str, target: &str) -> Outcome {
        wait_for(&format!("{} can paste {target}", self.name), EVENT_TIMEOUT, || {
            let targets = String::from_utf8(self.paste(selection, "TARGETS").ok()?).ok()?;
            (targets.contains("TIMESTAMP") && targets.lines().any(|line| line == target))
                .then_some(())
        })
    }
}

/// A session, the viewer's window on a screen of its own, and programs on both.
struct Both {
    there: Side,
    here: Side,
    session: Session,
    person: Person,
    _viewer: Running,
    _screen: ClientScreen,
}

/// Uses the viewer's window.
struct Person(Input);

impl Person {
    /// Clicks in the middle of the window, as on an entry of a menu: for a moment the session may
    /// have what was copied here.
    fn click(&self) -> Outcome {
        self.0.move_to(250, 200)?;
        self.0.click(1)?;
        Ok(())
    }
}

impl Both {
    fn start(test: &str, options: &[&str]) -> Result<Both, Error> {
        let session = Session::start(&format!("clip-{test}"), "400x300", &["sleep", "infinity"])?;
        let screen = ClientScreen::alone(&format!("clip-{test}"), (500, 400))?;
        let there = Side::new("there", test, &session.display, Some(&session.xauthority))?;
        let here = Side::new("here", test, screen.display(), None)?;
        let mut viewer = here.program(binary("thinc-view")?.to_str().ok_or("a path in UTF-8")?);
        viewer
            .arg(&session.link)
            .args(options)
            .env("SDL_VIDEO_DRIVER", "x11")
            .stderr(Stdio::inherit());
        let viewer = Running::start("thinc-view", &mut viewer)?;
        let person = Person(Input::on(screen.display(), None)?);
        Ok(Both { there, here, session, person, _viewer: viewer, _screen: screen })
    }
}

/// Noise, which no packing makes small, as a PNG.
fn picture(edge: u32) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, edge, edge);
    encoder.set_color(png::ColorType::Rgb);
    let mut noise = 1u32;
    let mut next = || {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (noise >> 24) as u8
    };
    let data: Vec<u8> = (0..edge * edge * 3).map(|_| next()).collect();
    encoder.write_header()?.write_image_data(&data)?;
    Ok(bytes)
}

#[test]
fn every_kind_of_content_is_pasted_completely_in_both_directions() -> Outcome {
    let Both { mut there, mut here, session: _session, person, _viewer, _screen } =
        Both::start("kinds", &[])?;
    for selection in ["clipboard", "primary"] {
        for kind in 0..5 {
            for _ in 0..2 {
                let (target, copied, pasted) = content(kind, here.name)?;
                here.copy(selection, target, &copied)?;
                let what = format!(
                    "{} bytes of {target}, copied {}, are {selection} {}",
                    copied.len(),
                    here.name,
                    there.name
                );
                // Asked for until it is the new one: another content of the same form may still be
                // on offer.
                wait_for(&what, EVENT_TIMEOUT, || {
                    there.wait_offered(selection, target).ok()?;
                    person.click().ok()?;
                    // HTML says its encoding on the other side, as programs of X expect.
                    there.paste(selection, target).ok()?.ends_with(&pasted).then_some(())
                })?;
                std::mem::swap(&mut here, &mut there);
            }
        }
    }
    Ok(())
}

/// What is copied, as what, and what is pasted of it; another on each side, for one that comes back
/// the same is taken for the work of a clipboard's manager.
fn content(kind: usize, side: &str) -> Result<(&'static str, Vec<u8>, Vec<u8>), Error> {
    let words = format!("{side}: {WORDS}");
    let same = |target, content: Vec<u8>| (target, content.clone(), content);
    Ok(match kind {
        0 => same("UTF8_STRING", words.into()),
        1 => ("UTF8_STRING", words.replace('\n', "\r\n").repeat(2).into(), words.repeat(2).into()),
        2 => same("text/html", format!("<p>{side}: Grüße <b>😀</b> 漢字</p>").into()),
        3 => {
            let picture = picture(if side == "here" { 400 } else { 410 })?;
            assert!(picture.len() > 256 << 10, "longer than one answer of X may be");
            same("image/png", picture)
        }
        _ => {
            let long = words.repeat(125_000);
            assert!(long.len() > 5 << 20, "{}", long.len());
            same("UTF8_STRING", long.into())
        }
    })
}

#[test]
fn html_alone_is_pasted_as_text_and_a_jpeg_as_png_in_both_directions() -> Outcome {
    let Both { mut there, mut here, session: _session, person, _viewer, _screen } =
        Both::start("converted", &[])?;
    for edge in [200, 210] {
        let html = format!("<ul><li>copied {} &amp; pasted<li>Grüße</ul>", here.name);
        here.copy("primary", "text/html", html.as_bytes())?;
        let text = format!("copied {} & pasted\nGrüße", here.name);
        wait_for(&format!("the text is pasted {}", there.name), EVENT_TIMEOUT, || {
            there.wait_offered("primary", "UTF8_STRING").ok()?;
            person.click().ok()?;
            (there.paste("primary", "UTF8_STRING").ok()? == text.as_bytes()).then_some(())
        })?;
        let image = RgbImage::from_fn(edge, 90, |x, y| Rgb([x as u8, y as u8, 77]));
        let mut jpeg = Vec::new();
        image.write_to(&mut Cursor::new(&mut jpeg), ImageFormat::Jpeg)?;
        here.copy("clipboard", "image/jpeg", &jpeg)?;
        let shown = image::load_from_memory_with_format(&jpeg, ImageFormat::Jpeg)?.into_rgb8();
        wait_for(&format!("the image is pasted {}", there.name), EVENT_TIMEOUT, || {
            there.wait_offered("clipboard", "image/png").ok()?;
            person.click().ok()?;
            let png = there.paste("clipboard", "image/png").ok()?;
            let image = image::load_from_memory_with_format(&png, ImageFormat::Png).ok()?;
            (image.into_rgb8() == shown).then_some(())
        })?;
        std::mem::swap(&mut here, &mut there);
    }
    Ok(())
}

/// A program of GTK's that owns the clipboard, or says what it holds.
const GTK: &str = r#"
import sys, gi
gi.require_version("Gdk", "3.0")
gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, Gtk
clipboard = Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD)
if sys.argv[1] == "copy":
    clipboard.set_text(sys.argv[2], -1)
    Gtk.main()
elif sys.argv[1] == "copy-file":
    clipboard.set_text(open(sys.argv[2], encoding="utf-8").read(), -1)
    Gtk.main()
else:
    sys.stdout.write(clipboard.wait_for_text() or "")
"#;

/// The Python that can run `GTK`. Debian's, whatever else is called python3 here.
fn python_with_gtk() -> Option<&'static str> {
    let python = "/usr/bin/python3";
    if Command::new(python)
        .args(["-c", "import gi"])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
    {
        return Some(python);
    }
    assert!(std::env::var_os("CI").is_none(), "this test needs python3-gi and GTK 3");
    eprintln!("skipped: no python3-gi");
    None
}

#[test]
fn gtk_programs_paste_what_gtk_programs_copied() -> Outcome {
    let Some(python) = python_with_gtk() else { return Ok(()) };
    let Both { mut there, mut here, session: _session, person, _viewer, _screen } =
        Both::start("gtk", &[])?;
    for text in ["from here\nGrüße 😀", "from there\n漢字"] {
        let owner =
            Running::start("python3", here.program(python).args(["-c", GTK, "copy", text]))?;
        wait_for("GTK pastes it", EVENT_TIMEOUT, || {
            person.click().ok()?;
            let output = there.program(python).args(["-c", GTK, "paste"]).output().ok()?;
            (output.stdout == text.as_bytes()).then_some(())
        })?;
        drop(owner);
        std::mem::swap(&mut here, &mut there);
    }
    Ok(())
}

#[test]
fn a_paste_survives_a_killed_session_process() -> Outcome {
    let Some(python) = python_with_gtk() else { return Ok(()) };
    let Both { there, mut here, session, person, _viewer, _screen } = Both::start("killed", &[])?;
    let long = WORDS.repeat(160_000);
    let file = there.folder.path().join("copied");
    fs::write(&file, &long)?;
    // xclip would not do: when the program that reads its chunks is killed, xclip 0.13 answers
    // nobody any more.
    let mut copying = there.program(python);
    let _owner = Running::start("python3", copying.args(["-c", GTK, "copy-file"]).arg(file))?;
    here.wait_offered("clipboard", "UTF8_STRING")?;
    let (mut xclip, file) = here.pasting("clipboard", "UTF8_STRING")?;
    Command::new("kill").args(["-KILL", &session.pid("session")?.to_string()]).status()?;
    let status = wait_for("xclip has pasted", EVENT_TIMEOUT, || xclip.try_wait().ok()?)?;
    // It was killed before the content was here, or after: the pasting program does not notice.
    assert!(status.success() && fs::read(file)? == long.as_bytes(), "the paste is whole");
    // And from the viewer to the session, with the new session process.
    here.copy("clipboard", "UTF8_STRING", b"after it came back")?;
    wait_for("it is pasted there", EVENT_TIMEOUT, || {
        person.click().ok()?;
        (there.paste("clipboard", "UTF8_STRING").ok()? == b"after it came back").then_some(())
    })
}

#[test]
fn a_viewer_with_a_one_way_clipboard_shares_no_more() -> Outcome {
    for (word, gives, takes) in
        [("to-session", true, false), ("from-session", false, true), ("off", false, false)]
    {
        let Both { mut there, mut here, session: _session, person, _viewer, _screen } =
            Both::start(word, &["--clipboard", word])?;
        here.copy("primary", "UTF8_STRING", b"marked here")?;
        there.copy("clipboard", "UTF8_STRING", b"copied there")?;
        if gives {
            there.wait_offered("primary", "UTF8_STRING")?;
            assert!(there.paste("primary", "UTF8_STRING").is_err(), "nobody has pressed anything");
            wait_for("it is pasted after a click", EVENT_TIMEOUT, || {
                person.click().ok()?;
                (there.paste("primary", "UTF8_STRING").ok()? == b"marked here").then_some(())
            })?;
        }
        if takes {
            here.wait_offered("clipboard", "UTF8_STRING")?;
            assert_eq!(here.paste("clipboard", "UTF8_STRING")?, b"copied there");
        }
        // In the permitted direction an offer was sent after those that the policy forbids. With
        // `off` nothing is sent: the test only waits until both were copied, and the viewer's own
        // tests wait for its last message.
        for (side, selection) in [(&here, "primary"), (&there, "clipboard")] {
            wait_for("it is copied", EVENT_TIMEOUT, || {
                side.paste(selection, "UTF8_STRING").ok().map(drop)
            })?;
        }
        assert!(
            gives || there.paste("primary", "TARGETS").is_err(),
            "{word}: what is marked here stays here"
        );
        assert!(
            takes || here.paste("clipboard", "TARGETS").is_err(),
            "{word}: what is copied there stays there"
        );
    }
    Ok(())
}
