//! Documents as offices have them: a report with headings, a list and a table, and a sheet of figures with a coloured head.
//! The same on every machine. Knows OpenDocument in one file; never the program that shows it.

use std::fmt::Write as _;

use super::Random;
use super::pages::Maker;

const NAMESPACES: &str = r#"xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0" xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0" office:version="1.2""#;

/// Bold white on blue for the head of a table, every other row shaded, one colour for what is below zero.
const CELLS: &str = r##"<office:automatic-styles>
<style:style style:name="wide" style:family="table-column"><style:table-column-properties style:column-width="4.2cm"/></style:style>
<style:style style:name="head" style:family="table-cell"><style:table-cell-properties fo:background-color="#2a6099"/><style:text-properties fo:color="#ffffff" fo:font-weight="bold"/></style:style>
<style:style style:name="shade" style:family="table-cell"><style:table-cell-properties fo:background-color="#eef3f8"/></style:style>
<style:style style:name="loss" style:family="table-cell"><style:text-properties fo:color="#c9211e"/></style:style>
</office:automatic-styles>"##;

fn document(kind: &str, content: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<office:document {NAMESPACES} office:mimetype=\"application/vnd.oasis.opendocument.{kind}\">\
         {CELLS}<office:body><office:{kind}>\n{content}</office:{kind}></office:body></office:document>\n"
    )
}

/// A report of some pages.
pub fn report() -> String {
    let mut maker = Maker::new(0, "");
    maker.random = Random::new(0xd0c5);
    let mut body = String::new();
    for section in 1..=12 {
        let heading = maker.words(4);
        let _ = writeln!(body, "<text:h text:outline-level=\"1\">{section} {heading}</text:h>");
        for _ in 0..3 {
            let length = 60 + maker.random.below(60);
            let _ = writeln!(body, "<text:p>{}.</text:p>", maker.words(length));
        }
        body.push_str("<text:list>");
        for _ in 0..4 {
            let _ = writeln!(body, "<text:list-item><text:p>{}</text:p></text:list-item>", maker.words(7));
        }
        body.push_str("</text:list>\n<table:table>");
        for row in 0..5 {
            body.push_str("<table:table-row>");
            for _ in 0..4 {
                let style = if row == 0 { "head" } else { "Default" };
                let _ = write!(
                    body,
                    "<table:table-cell table:style-name=\"{style}\" office:value-type=\"string\"><text:p>{}</text:p></table:table-cell>",
                    maker.words(2)
                );
            }
            body.push_str("</table:table-row>\n");
        }
        body.push_str("</table:table>\n<text:p/>\n");
    }
    document("text", &body)
}

/// A sheet of words and figures, with a head and every other row shaded.
pub fn sheet() -> String {
    let mut maker = Maker::new(0, "");
    maker.random = Random::new(0x5ee7);
    let mut body = String::from("<table:table table:name=\"Figures\"><table:table-column table:style-name=\"wide\"/>");
    for row in 0..120 {
        body.push_str("<table:table-row>");
        let style = match row {
            0 => "head",
            _ if row % 2 == 0 => "shade",
            _ => "Default",
        };
        let _ = write!(
            body,
            "<table:table-cell table:style-name=\"{style}\" office:value-type=\"string\"><text:p>{}</text:p></table:table-cell>",
            maker.words(3)
        );
        for _ in 0..10 {
            if row == 0 {
                let _ = write!(
                    body,
                    "<table:table-cell table:style-name=\"head\" office:value-type=\"string\"><text:p>{}</text:p></table:table-cell>",
                    maker.words(1)
                );
                continue;
            }
            let value = maker.random.below(2_000_000) as f64 / 100.0 - 4_000.0;
            let style = if value < 0.0 { "loss" } else { style };
            let _ = write!(
                body,
                "<table:table-cell table:style-name=\"{style}\" office:value-type=\"float\" office:value=\"{value:.2}\"><text:p>{value:.2}</text:p></table:table-cell>"
            );
        }
        body.push_str("</table:table-row>\n");
    }
    document("spreadsheet", &(body + "</table:table>\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element that begins ends, in order.
    fn is_well_formed(text: &str) -> bool {
        let mut open = Vec::new();
        for tag in text.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap_or_default();
            match (tag.starts_with('/'), tag.ends_with('/') || tag.starts_with('?')) {
                (true, _) if open.pop() != Some(name) => return false,
                (false, false) => open.push(name),
                _ => {}
            }
        }
        open.is_empty()
    }

    #[test]
    fn documents_are_well_formed_and_have_what_they_should() {
        assert!(is_well_formed(&report()) && is_well_formed(&sheet()));
        assert!(!is_well_formed("<a><b></a></b>"));
        assert_eq!(report().matches("<text:h ").count(), 12);
        assert_eq!(sheet().matches("<table:table-row>").count(), 120);
        assert!(sheet().contains("\"loss\" office:value-type"));
    }
}
