//! Path beside the pixels: under lib.rs, from HTML to its text.
//! What a browser would show of it: spaces collapse, blocks and table rows are lines, cells are
//! separated by tabs, as innerText has it (HTML §3.2.7). Knows elements by name; never styles,
//! scripts or attributes.
//!
//! The tokenizer's events are enough: without a tree, no nesting costs memory or a stack.

use std::convert::Infallible;

use html5gum::emitters::callback::{CallbackEmitter, CallbackEvent};
use html5gum::{Span, Tokenizer};
use thinc_protocol::clip::ClipEnd;

/// Elements whose content no browser shows, or that have none without scripts and frames. Their
/// content is one text to the tokenizer, except that of `template`.
const HIDDEN: &[&[u8]] =
    &[b"iframe", b"noembed", b"noframes", b"noscript", b"script", b"style", b"template", b"title"];
/// Elements that begin and end a line (HTML §15.3, `display: block`).
const BLOCKS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"body",
    b"caption",
    b"center",
    b"dd",
    b"details",
    b"dialog",
    b"dir",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"h1",
    b"h2",
    b"h3",
    b"h4",
    b"h5",
    b"h6",
    b"header",
    b"hgroup",
    b"hr",
    b"html",
    b"legend",
    b"li",
    b"listing",
    b"main",
    b"menu",
    b"nav",
    b"ol",
    b"optgroup",
    b"option",
    b"plaintext",
    b"pre",
    b"search",
    b"section",
    b"summary",
    b"table",
    b"tbody",
    b"tfoot",
    b"thead",
    b"tr",
    b"ul",
    b"xmp",
];
/// Elements that keep spaces and line ends.
const PREFORMATTED: &[&[u8]] = &[b"listing", b"plaintext", b"pre", b"textarea", b"xmp"];

/// The text of HTML in UTF-8, without spaces and line ends at its end: pasted into a terminal, a
/// line end would run a command.
pub(crate) fn text(html: &[u8], bytes_max: usize) -> Result<Vec<u8>, ClipEnd> {
    let mut text = Text { bytes_max, ..Text::default() };
    let mut emitter = CallbackEmitter::new(|event: CallbackEvent<'_>, _: Span<()>| {
        match event {
            CallbackEvent::OpenStartTag { name } => text.start(name),
            CallbackEvent::EndTag { name } => text.end(name),
            CallbackEvent::String { value } => text.characters(&String::from_utf8_lossy(value)),
            _ => {}
        }
        None::<Infallible>
    });
    // The content of scripts and styles has no tags.
    emitter.naively_switch_states(true);
    let Ok(()) = Tokenizer::new_with_emitter(html, emitter).finish();
    if text.too_large {
        return Err(ClipEnd::TooLarge { bytes: 0, limit: bytes_max as u64 });
    }
    text.out.truncate(text.out.trim_end_matches([' ', '\n', '\t']).len());
    Ok(text.out.into_bytes())
}

/// The text so far.
#[derive(Debug, Default)]
struct Text {
    out: String,
    bytes_max: usize,
    too_large: bool,
    /// Line ends required before the next character; not at the start.
    lines: usize,
    /// A collapsed space stands before the next character, unless that begins a line.
    space: bool,
    /// Depth of preformatted elements.
    preformatted: usize,
    /// A line end directly after `<pre>` is not part of it.
    after_pre: bool,
    /// Depth of hidden elements.
    hidden: usize,
    /// The row has a cell already, so that the next one is separated from it by a tab.
    has_cell: bool,
    /// Such a tab is the last character: a block at the start of a cell begins no line.
    after_tab: bool,
}

impl Text {
    fn start(&mut self, name: &[u8]) {
        self.after_pre = false;
        if HIDDEN.contains(&name) {
            self.hidden += 1;
        }
        if self.hidden > 0 {
            return;
        }
        match name {
            b"br" => {
                self.flush();
                self.space = false;
                self.push('\n');
            }
            b"p" => self.require_lines(2),
            b"td" | b"th" => self.begin_cell(),
            _ if BLOCKS.contains(&name) => self.edge_of_block(name),
            _ => {}
        }
        if PREFORMATTED.contains(&name) {
            self.preformatted += 1;
            self.after_pre = true;
        }
    }

    fn end(&mut self, name: &[u8]) {
        self.after_pre = false;
        if HIDDEN.contains(&name) {
            self.hidden = self.hidden.saturating_sub(1);
            return;
        }
        if self.hidden > 0 {
            return;
        }
        match name {
            b"p" => self.require_lines(2),
            _ if BLOCKS.contains(&name) => self.edge_of_block(name),
            _ => {}
        }
        if PREFORMATTED.contains(&name) {
            self.preformatted = self.preformatted.saturating_sub(1);
        }
    }

    fn begin_cell(&mut self) {
        if std::mem::replace(&mut self.has_cell, true) {
            // The lines that blocks of the last cell require would break the row.
            self.lines = 0;
            self.space = false;
            self.push('\t');
            self.after_tab = true;
        }
    }

    fn edge_of_block(&mut self, name: &[u8]) {
        self.require_lines(1);
        if matches!(name, b"tr" | b"table") {
            self.has_cell = false;
            self.after_tab = false;
        }
    }

    fn characters(&mut self, text: &str) {
        if self.hidden > 0 {
            return;
        }
        let mut characters = text.chars().peekable();
        if std::mem::take(&mut self.after_pre) {
            characters.next_if_eq(&'\r');
            characters.next_if_eq(&'\n');
        }
        for character in characters {
            match character {
                ' ' | '\t' | '\n' | '\x0c' if self.preformatted == 0 => self.space = true,
                // CR LF is one line end.
                '\r' if self.preformatted == 0 => self.space = true,
                '\r' => {}
                '\n' | '\t' => {
                    self.flush();
                    self.push(character);
                }
                // Control characters are for terminals, and nothing that anybody sees.
                _ if character.is_control() => {}
                // Browsers copy a space that does not break as a space.
                '\u{a0}' => {
                    self.flush();
                    self.push(' ');
                }
                _ => {
                    self.flush();
                    self.push(character);
                }
            }
        }
    }

    /// At least this many line ends are between the text so far and what follows.
    fn require_lines(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
        self.space = false;
    }

    /// Writes the lines and the space before the next character.
    fn flush(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        if !std::mem::take(&mut self.after_tab) && !self.out.is_empty() {
            let tail = self.out.bytes().rev().take(lines).take_while(|&byte| byte == b'\n');
            for _ in tail.count()..lines {
                self.push('\n');
            }
        }
        let begins_line = self.out.is_empty() || self.out.ends_with(['\n', '\t']);
        if std::mem::take(&mut self.space) && !begins_line {
            self.push(' ');
        }
    }

    fn push(&mut self, character: char) {
        if self.out.len() + character.len_utf8() > self.bytes_max {
            self.too_large = true;
        } else {
            self.out.push(character);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(html: &str) -> String {
        String::from_utf8(text(html.as_bytes(), 1 << 20).unwrap()).unwrap()
    }

    #[test]
    fn spaces_collapse_and_blocks_are_lines() {
        for (html, expected) in [
            ("plain", "plain"),
            ("  a\n\t b  <b> c</b> d ", "a b c d"),
            ("<p>one</p>\n <p>two</p>", "one\n\ntwo"),
            ("<div>a</div><div>b</div>", "a\nb"),
            ("a<br>b<br/>c", "a\nb\nc"),
            ("<div>a</div><div><br></div><div>b</div>", "a\n\nb"),
            ("<h1>Head</h1><p>first<ul><li>x<li>y</ul>last", "Head\n\nfirst\nx\ny\nlast"),
            ("a &lt;b&gt; &amp; &#8364; &uuml;&nbsp;&nbsp;x", "a <b> & € ü  x"),
            ("<pre>\n  two\n    four\n</pre>end", "  two\n    four\nend"),
            ("日本<b>語</b> 😀", "日本語 😀"),
            ("a<!-- comment --> b<!--StartFragment-->c", "a bc"),
            ("unclosed <b>bold <i>both", "unclosed bold both"),
            ("", ""),
            ("<p></p> <div>\n</div>", ""),
        ] {
            assert_eq!(shown(html), expected, "{html}");
        }
    }

    #[test]
    fn tables_are_rows_of_cells_between_tabs() {
        let html = "<table> <tr><th>Name</th> <th>Size</th></tr>\n<tr><td>a<td><p>1</p><td>\
                    <tr><td><div>b</div></td><td></td><td>2</td></tr></table>after";
        assert_eq!(shown(html), "Name\tSize\na\t1\t\nb\t\t2\nafter");
    }

    #[test]
    fn what_no_browser_shows_is_no_text() {
        for html in [
            "<head><title>T</title><style>p { }</style><script>a < b; '<p>'</script></head>seen",
            "<template><p>hidden<template>too</template></p></template>seen",
            "<noscript><b>hidden</b></noscript>seen<script>unclosed <b>tags",
            "<meta http-equiv=\"content-type\" content=\"text/html; charset=utf-8\">seen",
            "s\u{1b}e&#27;e\u{7}n\0",
        ] {
            let text = shown(html);
            assert_eq!(text.replace('\u{fffd}', ""), "seen", "{html}");
        }
    }

    #[test]
    fn a_text_ends_without_a_line_end() {
        assert_eq!(shown("<pre>rm -r x\n\n</pre>\n<br>"), "rm -r x");
    }

    #[test]
    fn a_text_over_the_limit_is_refused() {
        assert_eq!(text(b"<p>1234", 4), Ok(b"1234".to_vec()));
        assert_eq!(text(b"<p>12345", 4), Err(ClipEnd::TooLarge { bytes: 0, limit: 4 }));
    }

    /// A tree of these would cost a stack, or memory for each pair of elements.
    #[test]
    fn hostile_html_costs_time_in_proportion_to_its_length() {
        let pieces: &[&dyn Fn(usize) -> String] = &[
            &|_| "<div>".to_owned(),
            &|_| "<table><tr><td>".to_owned(),
            &|n| format!("<b a{n}><p>"),
            &|n| format!("<a a{n}=1 b{n} c{n}"),
            &|_| "</p></b>".to_owned(),
            &|_| "&amp".to_owned(),
            &|_| "<pre>\n".to_owned(),
            &|_| "<!--".to_owned(),
            &|_| "\0\u{1b}".to_owned(),
        ];
        for (kind, piece) in pieces.iter().enumerate() {
            let html: String = (0..200_000).map(piece).collect();
            let started = std::time::Instant::now();
            let text = text(html.as_bytes(), 16 << 20).unwrap();
            assert!(text.len() <= html.len(), "kind {kind}");
            // 20 ms here; a quadratic step would take minutes.
            assert!(started.elapsed().as_secs() < 20, "kind {kind}: {:?}", started.elapsed());
        }
    }
}
