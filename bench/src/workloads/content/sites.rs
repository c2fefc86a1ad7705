//! Twenty pages as today's web has them, of four characters: an article to be read, documentation
//! with code, a dashboard, and news with photographs; and one long documentation for page-downs,
//! whose contents stand still beside the text. Knows HTML; never the browser or the network.

use std::fmt::Write as _;
use std::sync::OnceLock;

use super::code::{Token, source, tokens};
use super::pages::{Maker, Pages, START, code_name, page_name, strip};
use super::pictures::icon;
use super::{Noise, Random};
use crate::Error;

/// How many pages there are.
pub const SITES: usize = 20;

/// Name of the long documentation, which is no part of the sequence.
pub const READING: &str = "reading.html";

/// In place of its place among the pages.
pub const READING_NUMBER: usize = SITES + 1;

/// What a page is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Character {
    /// Paragraphs, quotations, a list.
    Article,
    /// Contents at the side, paragraphs, coloured code, tables of options.
    Documentation,
    /// Figures in cards, charts, a table with states.
    Dashboard,
    /// Photographs with headlines.
    News,
}

impl Character {
    /// All, in the order in which pages take turns.
    pub const ALL: [Character; 4] =
        [Character::Article, Character::Documentation, Character::Dashboard, Character::News];

    /// Of a page, from 1.
    pub fn of(page: usize) -> Character {
        Character::ALL[(page + Character::ALL.len() - 1) % Character::ALL.len()]
    }

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Character::Article => "article",
            Character::Documentation => "documentation",
            Character::Dashboard => "dashboard",
            Character::News => "news",
        }
    }
}

/// The pages, the start before them and the long documentation: made once in a process, since they
/// are the same every time.
pub fn sites() -> Result<&'static Pages, Error> {
    static MADE: OnceLock<Result<Pages, String>> = OnceLock::new();
    MADE.get_or_init(|| make().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|error| error.as_str().into())
}

fn make() -> Result<Pages, Error> {
    let mut maker = Maker::new(SITES, STYLE);
    maker.html(START, 0, "Start", "<main><h1>Start</h1><p>The first page follows.</p></main>");
    maker.add(code_name(0), strip(0).png()?);
    for page in 1..=SITES {
        maker.begin(page, 0x517e_0000 + page as u64);
        let title = maker.title();
        let body = match Character::of(page) {
            Character::Article => maker.reading(&title)?,
            Character::Documentation => maker.documentation(&title, 5),
            Character::Dashboard => maker.dashboard(&title)?,
            Character::News => maker.news(&title)?,
        };
        maker.html(&page_name(page), page, &title, &body);
        maker.add(code_name(page), strip(page).png()?);
    }
    maker.begin(READING_NUMBER, 0x517e_1000);
    let body = maker.documentation("Reference", 60);
    maker.html(READING, READING_NUMBER, "Reference", &body);
    maker.add(code_name(READING_NUMBER), strip(READING_NUMBER).png()?);
    Ok(Pages { files: maker.files })
}

/// Fonts that Debian's browsers bring along; colours, corners and shadows of the 2020s.
const STYLE: &str = "html{overflow-y:scroll;background:#fff}\
    body{margin:0;color:#1f2328;font:16px/1.6 'Liberation \
    Sans',sans-serif}a{color:#0969da;text-decoration:none}\
    main{max-width:700px;margin:0 auto;padding:30px \
    24px}h1{font-size:30px;line-height:1.25;margin:.3em 0 .6em}\
    h2{font-size:21px;margin:1.3em 0 .5em;padding-bottom:.25em;border-bottom:1px solid \
    #d1d9e0}p{margin:0 0 1em}\
    img{display:block}.meta{color:#59636e;font-size:13px}\
    blockquote{margin:1em 0;padding:2px 18px;border-left:4px solid #d1d9e0;color:#59636e}\
    pre{background:#f6f8fa;border-radius:6px;padding:14px 16px;overflow:hidden;font:13px/1.5 \
    'DejaVu Sans Mono',monospace}\
    code{background:#eff1f3;border-radius:4px;padding:2px 5px;font:13px 'DejaVu Sans \
    Mono',monospace}\
    .k{color:#cf222e}.t{color:#953800}.f{color:#8250df}.n{color:#0550ae}.s{color:#0a3069}.c{color:#59636e}\
    nav{position:fixed;left:0;top:0;bottom:0;width:230px;background:#f6f8fa;border-right:1px \
    solid #d1d9e0;padding:18px 14px;font-size:14px;box-sizing:border-box;overflow:hidden}\
    nav a{display:block;padding:3px 8px;color:#1f2328}nav .on{background:#fff;border-left:3px \
    solid #fd8c73}\
    .doc{margin-left:230px;padding:20px \
    36px;max-width:720px}table{border-collapse:collapse;width:100%;font-size:14px;margin:0 0 1em}\
    td,th{border:1px solid #d1d9e0;padding:6px 12px;text-align:left}tr:nth-child(even) \
    td{background:#f6f8fa}\
    .top{background:#24292f;color:#fff;padding:13px 24px;font-size:15px}.top \
    b{margin-right:28px}.top span{margin-right:18px;color:#cdd3d9}\
    .board{background:#f0f2f5;padding:18px \
    24px}.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:14px}\
    .card{background:#fff;border:1px solid #e2e5e9;border-radius:10px;padding:14px \
    16px;box-shadow:0 1px 3px rgba(0,0,0,.08)}\
    .wide{grid-column:span 2}.card big{display:block;font-size:27px;font-weight:600}.card \
    small{color:#59636e;font-size:13px}\
    .up{color:#1a7f37}.down{color:#cf222e}.pill{border-radius:10px;padding:1px \
    9px;font-size:12px;color:#fff}\
    .grid{display:grid;grid-template-columns:repeat(3,1fr);gap:20px;padding:0 24px 24px}.grid \
    b{display:block;line-height:1.3;margin:8px 0 4px}\
    .hero{display:grid;grid-template-columns:640px 1fr;gap:22px;padding:20px 24px}";

impl Maker {
    fn begin(&mut self, page: usize, seed: u64) {
        (self.page, self.picture, self.random) = (page, 0, Random::new(seed));
    }

    /// Headline, text and quotations: an article, or a discussion of one.
    fn reading(&mut self, title: &str) -> Result<String, Error> {
        let (author, day) = (self.words(2), 1 + self.random.below(28));
        let mut body = format!(
            "<main><h1>{title}</h1><p class=meta>{author} · {day} March · {} min</p>",
            4 + day % 9
        );
        for _ in 0..5 {
            let (heading, quotation) = (self.title(), self.sentences(2));
            body += &self.paragraphs(3);
            let _ =
                write!(body, "<blockquote><p>{quotation}</p></blockquote><h2>{heading}</h2><ul>");
            for _ in 0..4 {
                let _ = write!(body, "<li>{}", self.sentences(1));
            }
            body.push_str("</ul>");
        }
        body.push_str("<h2>Answers</h2>");
        for _ in 0..6 {
            let face = icon(self.random.bits(), 40, [255; 3]);
            let (face, name) = (self.drawing(&face, "")?, self.words(2));
            let text = self.sentences(3);
            let _ = write!(
                body,
                "<table><tr><td style='width:40px'>{face}<td><b>{name}</b><p>{text}</p></table>"
            );
        }
        Ok(body + "</main>")
    }

    /// Contents that stand still, and sections with code and tables.
    fn documentation(&mut self, title: &str, sections: usize) -> String {
        let headings: Vec<String> = (0..sections).map(|_| self.title()).collect();
        let mut body = String::from("<nav><b>Contents</b>");
        for (place, heading) in headings.iter().enumerate().take(22) {
            let _ = write!(
                body,
                "<a href='#' class={}>{heading}</a>",
                if place == 2 { "on" } else { "off" }
            );
        }
        let _ = write!(body, "</nav><div class=doc><h1>{title}</h1>");
        for heading in &headings {
            let _ = write!(body, "<h2>{heading}</h2>{}", self.paragraphs(2));
            let lines = 8 + self.random.below(14);
            body += &code_block(&source(self.random.bits(), lines));
            body += &self.paragraphs(1);
            if self.random.below(2) == 0 {
                body.push_str("<table><tr><th>Option<th>Default<th>Meaning");
                for _ in 0..3 + self.random.below(4) {
                    let (name, value, text) =
                        (self.words(1), self.random.below(5000), self.words(9));
                    let _ = write!(
                        body,
                        "<tr><td><code>{}</code><td>{value}<td>{text}.",
                        name.to_lowercase()
                    );
                }
                body.push_str("</table>");
            }
        }
        body + "</div>"
    }

    /// Cards with figures, charts drawn by the browser, and a table of what goes on.
    fn dashboard(&mut self, title: &str) -> Result<String, Error> {
        let mut body = format!("<div class=top><b>{title}</b>");
        for _ in 0..5 {
            let _ = write!(body, "<span>{}</span>", self.words(1));
        }
        body.push_str("</div><div class=board><div class=cards>");
        for _ in 0..4 {
            let (name, figure, change) =
                (self.words(2), self.random.below(100_000), self.random.below(300));
            let (class, sign) = *self.random.pick(&[("up", '▲'), ("down", '▼')]);
            let _ = write!(
                body,
                "<div class=card><small>{name}</small><big>{}.{}</big><small class={class}>{sign} \
                    {}.{} %</small></div>",
                figure / 10,
                figure % 10,
                change / 10,
                change % 10
            );
        }
        for chart in 0..4 {
            let (name, seed) = (self.title(), self.random.bits());
            let picture = if chart % 2 == 0 { lines_chart(seed) } else { columns_chart(seed) };
            let _ = write!(body, "<div class='card wide'><small>{name}</small>{picture}</div>");
        }
        body.push_str(
            "</div><div class=card \
                style='margin-top:14px'><table><tr><th>Name<th>State<th>Owner<th>Load<th>Since",
        );
        for _ in 0..16 {
            let (state, colour) = *self.random.pick(&[
                ("running", "#1a7f37"),
                ("running", "#1a7f37"),
                ("waiting", "#9a6700"),
                ("failed", "#cf222e"),
            ]);
            let (name, owner, load) = (self.words(2), self.words(1), self.random.below(100));
            let (hour, minute) = (self.random.below(24), self.random.below(60));
            let _ = write!(
                body,
                "<tr><td><a href='#'>{name}</a><td><span class=pill \
                    style='background:{colour}'>{state}</span><td>{owner}<td>\
                 <div \
                 style='width:{load}px;height:9px;border-radius:4px;background:linear-gradient(90deg,#54aeff,#0969da)'></div><td>{hour:02}:{minute:02}"
            );
        }
        Ok(body + "</table></div></div>")
    }

    /// A large photograph with its story, and more of both.
    fn news(&mut self, title: &str) -> Result<String, Error> {
        let large = self.photo(640, 360, "")?;
        let (paper, text) = (self.words(2), self.sentences(4));
        let mut body = format!(
            "<div class=top><b>{paper}</b></div><div \
                class=hero><div>{large}</div><div><h1>{title}</h1><p>{text}</p></div></div><div \
                class=grid>"
        );
        for _ in 0..12 {
            let picture = self.photo(310, 180, "")?;
            let (headline, text) = (self.title(), self.sentences(2));
            let _ = write!(
                body,
                "<div>{picture}<b><a href='#'>{headline}</a></b><span \
                    class=meta>{text}</span></div>"
            );
        }
        Ok(body + "</div>")
    }
}

/// Code as documentation shows it, its words coloured.
fn code_block(text: &str) -> String {
    let mut block = String::from("<pre>");
    for line in text.lines() {
        for (token, part) in tokens(line) {
            let part = part.replace('&', "&amp;").replace('<', "&lt;");
            let class = match token {
                Token::Keyword => "k",
                Token::Type => "t",
                Token::Function => "f",
                Token::Number => "n",
                Token::Text => "s",
                Token::Comment => "c",
                Token::Plain => {
                    block += &part;
                    continue;
                }
            };
            let _ = write!(block, "<span class={class}>{part}</span>");
        }
        block.push('\n');
    }
    block + "</pre>"
}

/// Width and height of a chart, pixels.
const CHART: (usize, usize) = (436, 170);

/// Two lines with an area under the first, over a grid.
fn lines_chart(seed: u64) -> String {
    let (width, height) = CHART;
    let mut chart = grid();
    for (series, colour) in [(0, "#0969da"), (1, "#bf8700")] {
        let noise = Noise::new(seed.wrapping_add(series));
        let mut path = String::new();
        for point in 0..=60 {
            let x = 30.0 + point as f32 * (width as f32 - 34.0) / 60.0;
            let y = height as f32
                - 22.0
                - (height as f32 - 40.0) * noise.fractal(point as f32 / 9.0, 0.0, 4);
            let _ = write!(path, "{}{x:.1},{y:.1}", if point == 0 { "M" } else { "L" });
        }
        if series == 0 {
            let bottom = height - 22;
            let _ = write!(
                chart,
                "<path d='{path}L{},{bottom}L30,{bottom}Z' fill='{colour}' opacity=.15 />",
                width - 4
            );
        }
        let _ = write!(chart, "<path d='{path}' fill=none stroke='{colour}' stroke-width=2 />");
    }
    chart + "</svg>"
}

/// Columns of two colours, over a grid.
fn columns_chart(seed: u64) -> String {
    let (width, height) = CHART;
    let (mut chart, mut random) = (grid(), Random::new(seed));
    for column in 0..14 {
        let mut bottom = height - 22;
        for colour in ["#2da44e", "#94d3a2"] {
            let tall = 6 + random.below((height - 50) / 2);
            bottom -= tall;
            let x = 36 + column * (width - 44) / 14;
            let _ = write!(
                chart,
                "<rect x={x} y={bottom} width=19 height={tall} rx=2 fill='{colour}'/>"
            );
        }
    }
    chart + "</svg>"
}

fn grid() -> String {
    let (width, height) = CHART;
    let mut chart = format!(
        "<svg width={width} height={height} font-size=10 fill='#59636e' font-family='Liberation \
            Sans'>"
    );
    for line in 0..5 {
        let y = 14 + line * (height - 36) / 4;
        let _ = write!(
            chart,
            "<path d='M30,{y}.5H{}' stroke='#e2e5e9'/><text x=2 y={}>{}</text>",
            width - 4,
            y + 3,
            400 - line * 100
        );
    }
    for hour in 0..7 {
        let _ = write!(
            chart,
            "<text x={} y={}>{:02}:00</text>",
            30 + hour * (width - 60) / 6,
            height - 6,
            hour * 4
        );
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_pages_five_of_each_character_and_every_file_that_they_name() {
        let pages = sites().unwrap();
        let names: std::collections::HashSet<_> =
            pages.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), pages.files.len(), "a name is given twice");
        for character in Character::ALL {
            assert_eq!((1..=SITES).filter(|&page| Character::of(page) == character).count(), 5);
        }
        let mut photographs = [0; Character::ALL.len()];
        for page in 1..=SITES {
            let html = pages.files.iter().find(|(name, _)| *name == page_name(page)).unwrap();
            let html = std::str::from_utf8(&html.1).unwrap();
            for source in
                html.split("<img src=").skip(1).map(|rest| rest.split(' ').next().unwrap())
            {
                assert!(names.contains(source), "page {page} shows {source}, which is not there");
                photographs[(page - 1) % 4] += usize::from(source.ends_with(".jpg"));
            }
        }
        assert_eq!(photographs, [0, 0, 0, 65], "photographs are on the news alone");
        assert!(names.contains(READING) && names.contains(code_name(READING_NUMBER).as_str()));
    }

    #[test]
    fn pages_are_made_the_same_again_and_code_in_them_is_not_read_as_html() {
        let (first, second) = (make().unwrap(), make().unwrap());
        assert_eq!(first.files, second.files);
        assert_eq!(
            code_block("if (a < b && c)"),
            "<pre><span class=k>if</span> (a &lt; b &amp;&amp; c)\n</pre>"
        );
    }
}
