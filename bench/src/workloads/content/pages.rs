//! The 54 pages of the web workload, as many as i-Bench's Web Text Page Load test had: text, tables
//! and pictures mixed, some pages mostly text and some mostly pictures, some of one screen and some
//! longer, each with pictures of its own. Knows HTML; never the browser or the network.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use super::Random;
use super::pictures::{Bitmap, Scene, chart, icon, logo, photo, tile};
use crate::Error;
use crate::observe::barcode;
use crate::observe::picture::Rect;

/// Pages of the i-Bench test (THINC §6, Lai and Nieh §2.3.2).
pub const PAGES: usize = 54;

/// Name of the page from which the test begins, before page 1.
pub const START: &str = "start.html";

/// The query that makes pages go on by themselves until this one, as those of i-Bench did, and show
/// their numbers.
pub fn run_until(page: usize) -> String {
    format!("?run={page}")
}

/// The query that makes pages show their number and wait for a key.
pub const NUMBERED: &str = "?numbered";

/// The strip at the upper left corner of a page that shows its number: two codes, one under the
/// other.
pub const STRIP: Rect = Rect::new(0, 0, barcode::WIDTH_MIN, 2 * barcode::HEIGHT);

/// What the strip of a page says: no number that a picture shows by chance.
pub fn page_number(page: usize) -> u32 {
    0x9a9e_0000 + page as u32
}

/// How long a page that goes on by itself stays after it was loaded and painted, milliseconds: long
/// enough that a browser on the local screen shows every page, short enough that a slow system
/// falls behind.
pub const STAY_MS: u32 = 150;

/// Name of the page that `scroll` reads.
pub const LONG: &str = "long.html";

/// In place of its place among the pages.
pub const LONG_NUMBER: usize = PAGES + 1;

/// Everything that the browser reads.
pub struct Pages {
    /// File names with contents.
    pub files: Vec<(String, Vec<u8>)>,
}

impl Pages {
    /// All of them: made once in a process, since they are the same every time.
    pub fn all() -> Result<&'static Pages, Error> {
        static MADE: OnceLock<Result<Pages, String>> = OnceLock::new();
        MADE.get_or_init(|| Pages::make().map_err(|error| error.to_string()))
            .as_ref()
            .map_err(|error| error.as_str().into())
    }

    fn make() -> Result<Pages, Error> {
        let mut maker = Maker::new(PAGES, STYLE);
        maker.add("logo.png", logo(7, 300, 56, [255; 3]).png()?);
        maker.html(
            START,
            0,
            "Start",
            "<div class=bar>&nbsp;<br>&nbsp;</div><h1>Start</h1><p>The first page follows.</p>",
        );
        maker.add(code_name(0), strip(0).png()?);
        for page in 1..=PAGES {
            maker.page(page)?;
            maker.add(code_name(page), strip(page).png()?);
        }
        maker.long_page();
        maker.add(code_name(LONG_NUMBER), strip(LONG_NUMBER).png()?);
        Ok(Pages { files: maker.files })
    }

    /// Writes them into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder)?;
        for (name, content) in &self.files {
            fs::write(folder.join(name), content).map_err(|error| {
                format!("cannot write {}: {error}", folder.join(name).display())
            })?;
        }
        Ok(())
    }
}

/// File name of a page, from 1.
pub fn page_name(page: usize) -> String {
    format!("{page:02}.html")
}

pub(super) fn code_name(page: usize) -> String {
    format!("code-{page:02}.png")
}

/// The strip that says `page`.
pub(super) fn strip(page: usize) -> Bitmap {
    let mut pixels = vec![0; (STRIP.width * STRIP.height) as usize];
    for place in [barcode::top(STRIP), barcode::bottom(STRIP)] {
        barcode::draw(page_number(page), &mut pixels, STRIP.width as usize, place);
    }
    Bitmap::of_pixels(STRIP.width as usize, STRIP.height as usize, &pixels)
}

/// Word frequencies fall as in a language, so that compressors find what they find in real text:
/// the earlier the more often.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "on",
    "by",
    "at",
    "from",
    "are",
    "this",
    "be",
    "an",
    "or",
    "which",
    "not",
    "have",
    "were",
    "one",
    "had",
    "their",
    "all",
    "but",
    "its",
    "more",
    "has",
    "new",
    "also",
    "may",
    "than",
    "time",
    "only",
    "over",
    "can",
    "two",
    "most",
    "years",
    "between",
    "there",
    "city",
    "water",
    "first",
    "under",
    "after",
    "where",
    "through",
    "small",
    "large",
    "often",
    "early",
    "river",
    "north",
    "house",
    "system",
    "number",
    "people",
    "country",
    "century",
    "history",
    "world",
    "island",
    "line",
    "school",
    "public",
    "market",
    "station",
    "village",
    "museum",
    "garden",
    "mountain",
    "company",
    "service",
    "network",
    "picture",
    "language",
    "region",
    "weather",
    "season",
    "travel",
    "coast",
    "harbour",
    "bridge",
    "tower",
    "forest",
    "valley",
    "winter",
    "summer",
    "railway",
    "library",
    "theatre",
    "painting",
    "science",
    "machine",
    "engine",
    "window",
    "message",
    "computer",
    "display",
    "screen",
    "distance",
    "material",
    "surface",
    "measure",
    "pressure",
    "electric",
    "colour",
    "bright",
    "narrow",
    "ancient",
    "modern",
    "several",
    "because",
    "during",
    "against",
    "however",
    "another",
    "together",
    "important",
    "different",
    "available",
    "production",
    "population",
    "government",
    "university",
    "temperature",
    "development",
    "information",
    "agreement",
    "exhibition",
    "restaurant",
    "agriculture",
    "photograph",
    "performance",
    "traditional",
    "international",
    "approximately",
];

/// An animated caret, a hover or another pointer shape would be traffic that no page caused.
pub(super) const STILL: &str = "*{cursor:default!important;caret-color:transparent;\
    animation:none!important;transition:none!important}";

/// How the 54 pages look.
const STYLE: &str = "html{overflow-y:scroll;background:#fff}body{margin:0;padding:12px \
    20px;color:#111}\
    img{border:0;vertical-align:top}h1{margin:.3em 0;font-size:26px}h2{margin:.5em 0 \
    .2em;font-size:18px}\
    p{margin:.4em 0 .7em}a{color:#0645ad}table{border-collapse:collapse}\
    .bar{margin:-12px -20px 10px;padding:6px 20px;background:#e8ecf2;border-bottom:1px solid #9ab}\
    .small{font-size:12px;color:#555}.left{float:left;margin:4px 14px 6px \
    0}.right{float:right;margin:4px 0 6px 14px}";

/// Writes pages that follow each other by a key, from words and pictures of a seed.
pub(super) struct Maker {
    pub(super) files: Vec<(String, Vec<u8>)>,
    pub(super) random: Random,
    /// The page that is being written.
    pub(super) page: usize,
    /// Pictures of this page so far.
    pub(super) picture: usize,
    /// The last of them.
    pages: usize,
    style: &'static str,
}

impl Maker {
    /// One that will write this many pages.
    pub(super) fn new(pages: usize, style: &'static str) -> Maker {
        Maker { files: Vec::new(), random: Random::new(0), page: 0, picture: 0, pages, style }
    }

    pub(super) fn add(&mut self, name: impl Into<String>, content: Vec<u8>) {
        self.files.push((name.into(), content));
    }

    /// Writes a page around `body`; `page` is its place, 0 for the start, and past the last it goes
    /// nowhere. Its title says so once everything has been loaded and painted.
    pub(super) fn html(&mut self, name: &str, page: usize, title: &str, body: &str) {
        let (style, pages) = (self.style, self.pages);
        let next = if page < pages {
            format!("'{}'+location.search", page_name(page + 1))
        } else {
            String::from("null")
        };
        // A key goes on, as a click did in i-Bench's time. A page that shows its number lies under
        // the strip. The first page and the long one show their numbers always: the test begins
        // when they are seen.
        let shows = if (1..=pages).contains(&page) { "location.search" } else { "true" };
        let script = format!(
            "const next=()=>{{const page={next};if(page)location.href=page}};\
             addEventListener('keydown',event=>{{if(event.key==='Enter'&&!event.repeat)next()}});\
             if({shows})addEventListener('DOMContentLoaded',()=>{{const strip=new \
             Image();strip.src='{code}';\
             strip.style='position:absolute;left:0;top:0;z-index:9';document.body.append(strip)}});\
             const last=+new URLSearchParams(location.search).get('run');\
             addEventListener('load',()=>requestAnimationFrame(()=>requestAnimationFrame(()=>{{\
             document.title='Page {page}: \
             {title}';if({page}>0&&{page}<last)setTimeout(next,{STAY_MS})}})));",
            code = code_name(page),
        );
        let html = format!(
            "<!doctype html><html lang=en><meta \
                charset=utf-8><title>Loading</title><style>{STILL}{style}</style><script>{script}</script>\n<body>{body}"
        );
        self.add(name, html.into_bytes());
    }

    /// Adds a picture as JPEG and gives its element.
    pub(super) fn photo(
        &mut self,
        width: usize,
        height: usize,
        class: &str,
    ) -> Result<String, Error> {
        let scene = *self.random.pick(&[
            Scene::Landscape,
            Scene::Landscape,
            Scene::Thing,
            Scene::Thing,
            Scene::Surface,
        ]);
        let quality = *self.random.pick(&[70, 80, 85, 90]);
        let picture = photo(self.random.bits(), width, height, scene);
        let file = picture.jpeg(quality)?;
        Ok(self.element(&picture, "jpg", file, class))
    }

    /// Adds a drawing as PNG and gives its element.
    pub(super) fn drawing(&mut self, picture: &Bitmap, class: &str) -> Result<String, Error> {
        let file = picture.png()?;
        Ok(self.element(picture, "png", file, class))
    }

    fn element(&mut self, picture: &Bitmap, kind: &str, file: Vec<u8>, class: &str) -> String {
        self.picture += 1;
        let name = format!("{:02}-{}.{kind}", self.page, self.picture);
        let element = format!(
            "<img src={name} width={} height={} class='{class}' alt=''>",
            picture.width, picture.height
        );
        self.add(name, file);
        element
    }

    fn word(&mut self) -> &'static str {
        // The product of two uniform numbers prefers the beginning of the list.
        let place = self.random.unit() * self.random.unit();
        WORDS[(place * WORDS.len() as f32) as usize]
    }

    pub(super) fn words(&mut self, count: usize) -> String {
        let words: Vec<_> = (0..count).map(|_| self.word()).collect();
        let mut text = words.join(" ");
        if let Some(first) = text.get_mut(0..1) {
            first.make_ascii_uppercase();
        }
        text
    }

    pub(super) fn sentences(&mut self, count: usize) -> String {
        let mut text = String::new();
        for _ in 0..count {
            let length = 6 + self.random.below(14);
            let mut sentence = self.words(length);
            match self.random.below(9) {
                0 => {
                    let year = 1800 + self.random.below(220);
                    let _ = write!(sentence, " in {year}");
                }
                1 => {
                    let name = self.words(2);
                    let _ = write!(sentence, ", <a href='#'>{name}</a>");
                }
                2 => {
                    let name = self.words(1);
                    let _ = write!(sentence, " <b>{name}</b> <i>{}</i>", self.random.below(1000));
                }
                _ => {}
            }
            let _ = write!(text, "{sentence}. ");
        }
        text
    }

    pub(super) fn paragraphs(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| {
                let sentences = 3 + self.random.below(4);
                format!("<p>{}</p>", self.sentences(sentences))
            })
            .collect()
    }

    pub(super) fn title(&mut self) -> String {
        let length = 2 + self.random.below(4);
        self.words(length)
    }

    fn bar(&mut self) -> String {
        let mut bar = String::from("<div class=bar><img src=logo.png width=300 height=56 alt=''> ");
        for _ in 0..6 {
            let name = self.words(1);
            let _ = write!(bar, "&nbsp; <a href='#'>{name}</a>");
        }
        bar + "</div>"
    }

    fn page(&mut self, page: usize) -> Result<(), Error> {
        self.page = page;
        self.picture = 0;
        self.random = Random::new(0x1be7_c400 + page as u64);
        let font = *self.random.pick(&[
            "15px/1.35 'DejaVu Serif',serif",
            "14px/1.35 'DejaVu Sans',sans-serif",
            "14px/1.3 'DejaVu Sans',sans-serif",
        ]);
        let title = self.title();
        let kinds =
            [Maker::article, Maker::portal, Maker::shop, Maker::table, Maker::gallery, Maker::text]
                .map(|kind| kind as fn(&mut Maker) -> Result<String, Error>);
        let body = kinds[page % kinds.len()](self)?;
        let mut ground = String::new();
        // As pages of that time had: a tile behind the text.
        if page % 4 == 3 {
            let size = *self.random.pick(&[32, 64, 96]);
            let file = tile(self.random.bits(), size).png()?;
            let name = format!("{page:02}-ground.png");
            self.add(name.clone(), file);
            ground = format!(";background:url({name})");
        }
        let body = format!(
            "<div style=\"font:{font};margin:-12px -20px;padding:12px \
                20px{ground}\">{}<h1>{title}</h1>{body}</div>",
            self.bar()
        );
        self.html(&page_name(page), page, &title, &body);
        Ok(())
    }

    /// An article with one or two photographs beside its text.
    fn article(&mut self) -> Result<String, Error> {
        let first = self.photo(320, 240, "right")?;
        let second =
            if self.random.below(2) == 0 { self.photo(260, 180, "left")? } else { String::new() };
        let length = 3 + self.random.below(6);
        let (before, after, heading) = (self.paragraphs(2), self.paragraphs(length), self.title());
        Ok(format!("{first}{before}<h2>{heading}</h2>{second}{after}"))
    }

    /// Three columns of headlines with small pictures.
    fn portal(&mut self) -> Result<String, Error> {
        let banner = self.photo(728, 90, "")?;
        let mut body = format!("{banner}<table style='margin-top:8px'><tr>");
        for column in 0..3 {
            body.push_str("<td style='vertical-align:top;width:310px;padding-right:16px'>");
            for _ in 0..4 + self.random.below(3) {
                let title = self.title();
                let picture = if self.random.below(3) < 2 {
                    self.photo(96, 72, "left")?
                } else {
                    String::new()
                };
                let text = self.sentences(2);
                let _ = write!(
                    body,
                    "<h2><a href='#'>{title}</a></h2>{picture}<p class=small \
                        style='min-height:66px'>{text}</p>"
                );
            }
            if column == 2 {
                let picture = chart(self.random.bits(), 290, 180);
                body += &self.drawing(&picture, "")?;
            }
            body.push_str("</td>");
        }
        Ok(body + "</tr></table>")
    }

    /// Goods in a grid, each with a picture and a price.
    fn shop(&mut self) -> Result<String, Error> {
        let mut body = String::from("<table><tr>");
        let rows = 2 + self.random.below(3);
        for place in 0..rows * 5 {
            if place > 0 && place % 5 == 0 {
                body.push_str("</tr><tr>");
            }
            let picture = self.photo(150, 130, "")?;
            let (name, text) = (self.words(3), self.words(8));
            let (whole, part) = (1 + self.random.below(400), self.random.below(100));
            let _ = write!(
                body,
                "<td style='border:1px solid \
                    #bbc;background:#fff;padding:8px;width:170px;vertical-align:top'>{picture}<br><b>{name}</b><br>\
                 <span class=small>{text}</span><br><span \
                 style='color:#b12704'>{whole}.{part:02}</span></td>"
            );
        }
        Ok(body + "</tr></table>")
    }

    /// A table of numbers with a chart.
    fn table(&mut self) -> Result<String, Error> {
        let picture = chart(self.random.bits(), 420, 260);
        let graph = self.drawing(&picture, "right")?;
        let signs: Vec<String> = (0..3)
            .map(|_| {
                let picture = icon(self.random.bits(), 16, [255; 3]);
                self.drawing(&picture, "")
            })
            .collect::<Result<_, _>>()?;
        let mut body = format!("{graph}{}<table style='font-size:13px'>", self.paragraphs(1));
        for row in 0..18 + self.random.below(16) {
            let shade = if row % 2 == 0 { "#fff" } else { "#eef2f7" };
            let name = self.words(2);
            let _ = write!(
                body,
                "<tr style='background:{shade}'><td>{}</td><td>{name}</td>",
                self.random.pick(&signs)
            );
            for column in 0..6 {
                let digits = column % 3;
                let number = self.random.below(100_000) as f32 / [1.0, 10.0, 100.0][digits];
                let _ = write!(
                    body,
                    "<td style='text-align:right;padding:2px 9px'>{number:.digits$}</td>"
                );
            }
            body.push_str("</tr>");
        }
        Ok(body + "</table>")
    }

    /// One large photograph and small ones under it.
    fn gallery(&mut self) -> Result<String, Error> {
        let large = self.photo(640, 430, "left")?;
        let mut body = format!(
            "{large}<p>{}</p><p class=small>{}</p><div style='clear:both'></div>",
            self.sentences(3),
            self.sentences(2)
        );
        for _ in 0..6 {
            body += &self.photo(140, 100, "left")?;
        }
        Ok(body)
    }

    /// Text alone, with headings, a list and links.
    fn text(&mut self) -> Result<String, Error> {
        let mut body = self.paragraphs(2);
        for _ in 0..2 + self.random.below(5) {
            let heading = self.title();
            let _ = write!(body, "<h2>{heading}</h2>{}<ul>", self.paragraphs(2));
            for _ in 0..4 {
                let name = self.title();
                let _ = write!(body, "<li><a href='#'>{name}</a>");
            }
            body.push_str("</ul>");
        }
        Ok(body)
    }

    /// A long document of text, as documentation is: 30 screens and more at 1024x768.
    fn long_page(&mut self) {
        self.random = Random::new(0x5c70_1100);
        let mut body = String::from(
            "<div style=\"font:16px/1.4 'DejaVu Sans',sans-serif;max-width:56em;margin:2em\">",
        );
        for section in 1..=60 {
            let heading = self.title();
            let _ = write!(body, "<h2>{section}. {heading}</h2>{}", self.paragraphs(5));
        }
        body.push_str("</div>");
        self.html(LONG, LONG_NUMBER, "A long page", &body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_54_pages_and_every_file_that_they_name() {
        let pages = Pages::all().unwrap();
        let names: std::collections::HashSet<_> =
            pages.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), pages.files.len(), "a name is given twice");
        assert!(names.contains(START) && names.contains(LONG));
        for page in 1..=PAGES {
            assert!(names.contains(page_name(page).as_str()), "page {page} is missing");
        }
        let mut pictures = 0;
        for (name, content) in pages.files.iter().filter(|(name, _)| name.ends_with(".html")) {
            let html = std::str::from_utf8(content).unwrap();
            let sources =
                html.split("<img src=").skip(1).map(|rest| rest.split(' ').next().unwrap());
            let grounds =
                html.split("background:url(").skip(1).map(|rest| rest.split(')').next().unwrap());
            for file in sources.chain(grounds) {
                assert!(names.contains(file), "{name} shows {file}, which is not there");
                pictures += 1;
            }
        }
        assert!(pictures > 250, "{pictures} pictures are few for 54 pages");
    }

    #[test]
    fn pages_are_made_the_same_again_and_differ_from_each_other() {
        let (first, second) = (Pages::make().unwrap(), Pages::make().unwrap());
        assert_eq!(first.files, second.files);
        // Small signs may be alike; what a page says and its photographs may not.
        let own: Vec<_> = first.files.iter().filter(|(name, _)| !name.ends_with(".png")).collect();
        let contents: std::collections::HashSet<_> =
            own.iter().map(|(_, content)| content).collect();
        assert_eq!(contents.len(), own.len(), "two pages or photographs are equal");
    }

    /// i-Bench's pages: "some pages containing more text while others contain more graphics".
    #[test]
    fn some_pages_are_mostly_text_and_some_mostly_pictures() {
        let pages = Pages::all().unwrap();
        let share = |page: usize| {
            let own = format!("{page:02}");
            let bytes = |html: bool| -> usize {
                let of_page = pages
                    .files
                    .iter()
                    .filter(|(name, _)| name.starts_with(&own) && name.ends_with(".html") == html);
                of_page.map(|(_, content)| content.len()).sum()
            };
            bytes(false) as f64 / (bytes(true) + bytes(false)) as f64
        };
        let shares: Vec<f64> = (1..=PAGES).map(share).collect();
        assert!(shares.iter().filter(|&&share| share < 0.2).count() >= 6, "{shares:?}");
        assert!(shares.iter().filter(|&&share| share > 0.8).count() >= 12, "{shares:?}");
        let total: usize = pages.files.iter().map(|(_, content)| content.len()).sum();
        assert!((1_500_000..12_000_000).contains(&total), "{total} bytes of pages");
    }
}
