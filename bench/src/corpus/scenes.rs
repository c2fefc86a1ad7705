//! The scenes of the corpus: which program shows what, and how it is told that it does.
//! From programs of Debian packages and content made here to pictures; the order is the one in the index.
//! Knows programs and their options; never how pictures are compressed.

use std::path::{Path, PathBuf};

use super::Kind;
use super::studio::{Desktop, Studio};
use crate::Error;
use crate::observe::picture::Picture;
use crate::process::on_path;
use crate::workloads::browser::{Browser, Frame};
use crate::workloads::content::pictures::{Bitmap, Scene as Subject, photo};
use crate::workloads::content::sites::{Character, SITES, sites};
use crate::workloads::content::{code, documents, pages, terminal};
use crate::workloads::edit;

/// Pictures with their names.
type Shots = Vec<(&'static str, Picture)>;

/// One program with one content.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    /// Command and Debian package.
    needs: (&'static str, &'static str),
    act: fn((u32, u32)) -> Result<Shots, Error>,
}

impl Scene {
    /// Why it cannot be shown here.
    pub(super) fn missing(&self) -> Option<String> {
        let (program, package) = self.needs;
        [(program, package), ("Xvfb", "xvfb"), ("openbox", "openbox")]
            .into_iter()
            .find(|(program, _)| !on_path(program))
            .map(|(program, package)| format!("no {program}: install {package}"))
    }

    /// Shows it and takes its pictures.
    pub(super) fn shoot(&self, size: (u32, u32)) -> Result<Shots, Error> {
        (self.act)(size)
    }
}

/// The scenes of these names, or all.
pub(super) fn choose(names: &[String]) -> Result<Vec<Scene>, Error> {
    let all = all();
    if let Some(wrong) = names.iter().find(|name| !all.iter().any(|scene| scene.name == **name)) {
        let known: Vec<&str> = all.iter().map(|scene| scene.name).collect();
        return Err(format!("there is no scene {wrong}; there are {}", known.join(", ")).into());
    }
    Ok(all.into_iter().filter(|scene| names.is_empty() || names.iter().any(|name| name == scene.name)).collect())
}

const XTERM: (&str, &str) = ("xterm", "xterm");
const CHROMIUM: (&str, &str) = ("chromium", "chromium");
const FIREFOX: (&str, &str) = ("firefox-esr", "firefox-esr");
const OFFICE: (&str, &str) = ("soffice", "libreoffice-writer, libreoffice-calc and libreoffice-gtk3");

#[rustfmt::skip] // A table is read by its columns.
fn all() -> Vec<Scene> {
    use Kind::{Mix, Photo, Ui};
    let scene = |name, kind, needs, about, act| Scene { name, kind, about, needs, act };
    vec![
        scene("terminal-code", Ui, XTERM, "source in a terminal, outline letters", terminal_code),
        scene("terminal-shell", Ui, XTERM, "a coloured listing, a build and a difference, bitmap letters", terminal_shell),
        scene("chromium-article", Ui, CHROMIUM, "an article in Chromium", |size| web(Browser::Chromium, Character::Article, 0, size, &["chromium-article"])),
        scene("chromium-docs", Ui, CHROMIUM, "documentation with code, and a page down", |size| web(Browser::Chromium, Character::Documentation, 0, size, &["chromium-docs", "chromium-docs-down"])),
        scene("chromium-dashboard", Ui, CHROMIUM, "cards, charts and a table", |size| web(Browser::Chromium, Character::Dashboard, 0, size, &["chromium-dashboard"])),
        scene("firefox-docs", Ui, FIREFOX, "documentation with code, and a page down", |size| web(Browser::Firefox, Character::Documentation, 1, size, &["firefox-docs", "firefox-docs-down"])),
        scene("firefox-dashboard", Ui, FIREFOX, "cards, charts and a table", |size| web(Browser::Firefox, Character::Dashboard, 1, size, &["firefox-dashboard"])),
        scene("writer", Ui, OFFICE, "a report in LibreOffice Writer", |size| office(size, "report.fodt", &documents::report(), "Writer", "writer")),
        scene("calc", Ui, OFFICE, "a sheet in LibreOffice Calc", |size| office(size, "figures.fods", &documents::sheet(), "Calc", "calc")),
        scene("editor-gtk", Ui, ("gedit", "gedit"), "source in an editor of GTK", |size| editor(size, "gedit", "editor-gtk")),
        scene("editor-qt", Ui, ("featherpad", "featherpad"), "source in an editor of Qt", |size| editor(size, "featherpad", "editor-qt")),
        scene("chromium-news", Mix, CHROMIUM, "news with photographs, and a page down", |size| web(Browser::Chromium, Character::News, 0, size, &["chromium-news", "chromium-news-down"])),
        scene("firefox-news", Mix, FIREFOX, "news with photographs", |size| web(Browser::Firefox, Character::News, 1, size, &["firefox-news"])),
        scene("gimp", Mix, ("gimp", "gimp"), "a photograph in GIMP", gimp),
        scene("desktop", Mix, XTERM, "two terminals before a photograph", desktop),
        scene("photo-one", Photo, CHROMIUM, "a photograph on the whole screen", |size| photograph(size, 0, "photo-one")),
        scene("photo-two", Photo, CHROMIUM, "another photograph on the whole screen", |size| photograph(size, 1, "photo-two")),
    ]
}

/// Runs `cat` on what is to be seen, and goes on until the terminal is ended.
fn show_in_xterm(studio: &mut Studio, title: &'static str, text: &str, options: &[&str]) -> Result<(), Error> {
    let file = studio.file(title, text)?;
    let mut xterm = studio.command("xterm");
    xterm.args(["-title", title, "+sb", "-bg", "#1d1f21", "-fg", "#c5c8c6"]).args(options);
    // The title changes when everything has been written, so that a slow terminal is waited for.
    let script = format!(
        "printf '\\033[?25l'; cat '{}'; printf '\\033]2;{title} shown\\007'; exec sleep infinity",
        file.display()
    );
    xterm.args(["-e", "sh", "-c", &script]);
    studio.start(title, xterm)
}

fn terminal_code(size: (u32, u32)) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    // A letter of this font is 8x17 pixels; what does not fit is not written.
    let text = terminal::editor(size.0 as usize / 8 - 1, size.1 as usize / 17 - 2);
    show_in_xterm(&mut studio, "code", &text, &["-fa", "DejaVu Sans Mono", "-fs", "10"])?;
    studio.wait_shown("code shown")?;
    Ok(vec![("terminal-code", studio.picture()?)])
}

fn terminal_shell(size: (u32, u32)) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    show_in_xterm(&mut studio, "shell", &terminal::shell(size.1 as usize / 13 - 3), &["-fn", "fixed"])?;
    studio.wait_shown("shell shown")?;
    Ok(vec![("terminal-shell", studio.picture()?)])
}

/// The page of this character that comes `turn` turns after its first, and where two names are given, a page further down.
fn web(
    browser: Browser,
    character: Character,
    turn: usize,
    size: (u32, u32),
    names: &[&'static str],
) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    let folder = studio.folder().join("pages");
    sites()?.write(&folder)?;
    let page = (1..=SITES).filter(|&page| Character::of(page) == character).nth(turn).ok_or("there is no such page")?;
    let url = format!("file://{}/{}", folder.display(), pages::page_name(page));
    browse(&mut studio, browser, Frame::Bars, &url)?;
    studio.wait_shown(&format!("Page {page}:"))?;
    let mut shots = vec![];
    for (place, &name) in names.iter().enumerate() {
        if place > 0 {
            studio.act(|input| input.key("Next"))?;
        }
        shots.push((name, studio.picture()?));
    }
    Ok(shots)
}

fn browse(studio: &mut Studio, browser: Browser, frame: Frame, url: &str) -> Result<(), Error> {
    let command = browser.dress(studio.command(browser.program()), studio.size, frame, studio.folder(), url)?;
    studio.start(browser.program(), command)
}

fn office(size: (u32, u32), file: &str, content: &str, title: &str, name: &'static str) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    let document = studio.file(file, content)?;
    let mut command = studio.command("soffice");
    // The plug-in that GTK desktops use; its caret obeys the settings.
    command.env("SAL_USE_VCLPLUGIN", "gtk3");
    command.arg(format!("-env:UserInstallation=file://{}", studio.folder().join("libreoffice").display()));
    command.args(["--norestore", "--nologo", "--nolockcheck"]).arg(document);
    studio.start("soffice", command)?;
    studio.wait_shown(title)?;
    Ok(vec![(name, studio.picture()?)])
}

fn editor(size: (u32, u32), program: &'static str, name: &'static str) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    let file = studio.file("queue.c", code::source(21, 200))?;
    let mut command = studio.command(program);
    command.arg(file);
    studio.start(program, command)?;
    studio.wait_shown_without_caret("queue.c")?;
    Ok(vec![(name, studio.picture()?)])
}

fn gimp(size: (u32, u32)) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::Windows)?;
    let profile = studio.folder().join("gimp");
    edit::write_profile(&profile)?;
    let picture = studio.file("photograph.png", wallpaper(2, 560, 420)?.png()?)?;
    let mut command = studio.command("gimp");
    command.env("GIMP2_DIRECTORY", &profile).args(["--no-splash", "--new-instance", "--no-fonts"]).arg(picture);
    studio.start("gimp", command)?;
    studio.wait_shown("[photograph]")?;
    Ok(vec![("gimp", studio.picture()?)])
}

fn desktop(size: (u32, u32)) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::Windows)?;
    let behind = wallpaper(3, size.0 as usize, size.1 as usize)?;
    let pixels =
        behind.rgb.as_chunks::<3>().0.iter().map(|&[red, green, blue]| u32::from_be_bytes([0, red, green, blue]));
    studio.set_wallpaper(&Picture { width: size.0, height: size.1, pixels: pixels.collect() })?;
    let font = ["-fa", "DejaVu Sans Mono", "-fs", "9", "-geometry"];
    show_in_xterm(&mut studio, "left", &terminal::editor(70, 24), &[&font[..], &["72x25+40+60"]].concat())?;
    studio.wait_shown("left shown")?;
    show_in_xterm(&mut studio, "right", &terminal::shell(22), &[&font[..], &["84x24+300+330"]].concat())?;
    studio.wait_shown("right shown")?;
    Ok(vec![("desktop", studio.picture()?)])
}

fn photograph(size: (u32, u32), number: usize, name: &'static str) -> Result<Shots, Error> {
    let mut studio = Studio::open(size, Desktop::OneWindow)?;
    let picture = wallpaper(number, size.0 as usize, size.1 as usize)?;
    studio.file("photograph.jpg", picture.jpeg(90)?)?;
    let html = "<!doctype html><title>Loading</title><style>body{margin:0;overflow:hidden}img{display:block}</style>\
                <script>onload=()=>requestAnimationFrame(()=>requestAnimationFrame(()=>document.title='Shown'))</script>\
                <img src=photograph.jpg>";
    let page = studio.file("photograph.html", html)?;
    browse(&mut studio, Browser::Chromium, Frame::Kiosk, &format!("file://{}", page.display()))?;
    studio.wait_shown("Shown")?;
    Ok(vec![(name, studio.picture()?)])
}

/// Photographs of a camera, where Debian's package of them is installed.
const CAMERA: &str = "/usr/share/backgrounds/mate/nature";
const PHOTOGRAPHS: [&str; 4] = ["Garden.jpg", "Dune.jpg", "LadyBird.jpg", "FreshFlower.jpg"];

/// A photograph of this size: of a camera (package mate-backgrounds), or drawn as one.
fn wallpaper(number: usize, width: usize, height: usize) -> Result<Bitmap, Error> {
    let file: PathBuf = Path::new(CAMERA).join(PHOTOGRAPHS[number]);
    if !file.exists() {
        eprintln!("no {}: install mate-backgrounds; a photograph is drawn instead", file.display());
        return Ok(photo(1960 + number as u64, width, height, Subject::Landscape));
    }
    Bitmap::of_jpeg(&std::fs::read(&file)?, width, height)
        .map_err(|error| format!("{}: {error}", file.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_each_and_unknown_ones_are_refused_with_the_known() {
        let mut names: Vec<&str> = all().iter().map(|scene| scene.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().len());
        assert_eq!(choose(&[]).unwrap().len(), all().len());
        assert_eq!(choose(&["gimp".to_owned()]).unwrap()[0].name, "gimp");
        assert!(choose(&["gmip".to_owned()]).err().unwrap().to_string().contains("gimp"));
    }
}
