//! A job of the printer: what a program wants of it, and how far it is. Under printer.rs. Knows one
//! job; limits over all of them are the printer's.

use crate::ipp::{Attribute, Group, Message, Value, group, tag};
use crate::link::Document;
use crate::media::Paper;

/// Longest title, in bytes.
pub(crate) const TITLE_BYTES_MAX: usize = 255;
/// Longest name of a paper size, in bytes.
pub(crate) const MEDIA_BYTES_MAX: usize = 64;
/// Most copies of a job.
pub(crate) const COPIES_MAX: u16 = 999;

/// Which sides of the paper are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sides {
    /// One.
    #[default]
    One,
    /// Both, to be turned over the long edge.
    LongEdge,
    /// Both, to be turned over the short edge.
    ShortEdge,
}

impl Sides {
    /// As IPP names them.
    pub const fn keyword(self) -> &'static str {
        match self {
            Sides::One => "one-sided",
            Sides::LongEdge => "two-sided-long-edge",
            Sides::ShortEdge => "two-sided-short-edge",
        }
    }

    /// As IPP or the PPD's Duplex names them.
    fn of_name(name: &str) -> Sides {
        match name {
            "two-sided-long-edge" | "DuplexNoTumble" => Sides::LongEdge,
            "two-sided-short-edge" | "DuplexTumble" => Sides::ShortEdge,
            _ => Sides::One,
        }
    }
}

/// What a program wants of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// For people; at most `TITLE_BYTES_MAX`, without control characters.
    pub title: String,
    /// From 1 to `COPIES_MAX`.
    pub copies: u16,
    /// Sides of the paper.
    pub sides: Sides,
    /// In colour, or in shades of grey.
    pub colour: bool,
    /// The paper as PWG 5101.1 names it; empty if the program names none of the printer's.
    pub media: String,
}

impl Ticket {
    /// What a request that creates a job wants; what cannot be understood is left out.
    pub(crate) fn of_request(request: &Message) -> Ticket {
        let operation = request.group(group::OPERATION);
        let title = |name| operation.and_then(|group| group.text(name)).filter(|t| !t.is_empty());
        let title = title("job-name").or_else(|| title("document-name")).unwrap_or("Untitled");
        // Programs name options as IPP does, or as the PPD does.
        let options: Vec<&Group> =
            request.groups.iter().filter(|group| group.tag == group::JOB).collect();
        let option = |names: [&str; 2]| {
            let mut all = names.iter().flat_map(|name| options.iter().map(move |at| at.text(name)));
            all.find_map(|text| text)
        };
        let copies = options.iter().find_map(|group| group.number("copies")).unwrap_or(1);
        let media = option(["media", "PageSize"]).and_then(Paper::of_name);
        let is_grey =
            |name: &str| matches!(name, "monochrome" | "auto-monochrome" | "Gray" | "bi-level");
        Ticket {
            title: one_line(title, TITLE_BYTES_MAX),
            copies: u16::try_from(copies).unwrap_or(COPIES_MAX).clamp(1, COPIES_MAX),
            sides: option(["sides", "Duplex"]).map(Sides::of_name).unwrap_or_default(),
            colour: !option(["print-color-mode", "ColorModel"]).is_some_and(is_grey),
            media: media.map_or("", |paper| paper.pwg).to_owned(),
        }
    }
}

/// The options of a request that are not done, as IPP answers them (RFC 8011, section 4.1.7): one
/// that the printer does not have without its values, and values that it does not have.
pub(crate) fn unsupported(request: &Message) -> Vec<Attribute> {
    let options = request.groups.iter().filter(|group| group.tag == group::JOB);
    let options = options.flat_map(|group| &group.attributes);
    let unsupported = options.filter_map(|option| match is_done(option) {
        Some(true) => None,
        Some(false) => Some(option.clone()),
        None => {
            let values = vec![Value { tag: tag::UNSUPPORTED, bytes: Vec::new() }];
            Some(Attribute { name: option.name.clone(), values })
        }
    });
    unsupported.collect()
}

/// Whether the printer does what an option says; None if it has no such option.
fn is_done(option: &Attribute) -> Option<bool> {
    let value = option.values.first()?;
    let text = value.as_text().unwrap_or("");
    let is_done = match option.name.as_str() {
        "copies" => {
            value.as_number().is_some_and(|copies| (1..=u32::from(COPIES_MAX)).contains(&copies))
        }
        "media" | "PageSize" | "PageRegion" => Paper::of_name(text).is_some(),
        "sides" => matches!(text, "one-sided" | "two-sided-long-edge" | "two-sided-short-edge"),
        "Duplex" => matches!(text, "None" | "DuplexNoTumble" | "DuplexTumble"),
        "print-color-mode" => {
            matches!(text, "auto" | "color" | "auto-monochrome" | "monochrome" | "bi-level")
        }
        "ColorModel" => matches!(text, "RGB" | "Gray"),
        "job-sheets" => text == "none",
        _ => return None,
    };
    // The start and the end of a job may have sheets of their own; other options have one value.
    Some(is_done && (option.values.len() == 1 || option.values.iter().all(|other| other == value)))
}

/// Text for people in one line, cut off at a length.
pub(crate) fn one_line(text: &str, bytes_max: usize) -> String {
    // Also what turns the direction of text or is invisible (Unicode's Cf): a title is shown beside
    // a question.
    let is_odd = |character: char| {
        character.is_control()
            || matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(character, '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}')
            || matches!(character, '\u{e0000}'..='\u{e007f}')
    };
    let text: String = text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect();
    text[..text.floor_char_boundary(bytes_max)].trim().to_owned()
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its document is awaited, at most until then (seconds).
    Created { until: u64 },
    /// Its document arrives.
    Incoming,
    /// It waits for a viewer.
    Waiting,
    /// It is sent to a viewer.
    Sending,
    /// A viewer has it.
    Completed,
    /// Its program or the person at the viewer does not want it.
    Canceled,
    /// It failed.
    Aborted,
}

impl Stage {
    /// It ends in this.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Stage::Completed | Stage::Canceled | Stage::Aborted)
    }

    /// Number and reason as IPP has them.
    pub(crate) const fn words(self) -> (u32, &'static str) {
        match self {
            Stage::Created { .. } => (4, "job-data-insufficient"),
            Stage::Incoming => (3, "job-incoming"),
            // A viewer, or the session process.
            Stage::Waiting => (3, "resources-are-not-ready"),
            Stage::Sending => (5, "job-printing"),
            Stage::Completed => (9, "job-completed-successfully"),
            Stage::Canceled => (7, "job-canceled-by-user"),
            Stage::Aborted => (8, "aborted-by-system"),
        }
    }
}

/// A job.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) ticket: Ticket,
    /// The document's name as a file.
    pub(crate) file: String,
    pub(crate) user: String,
    pub(crate) stage: Stage,
    /// Why it is in that stage, for people.
    pub(crate) words: String,
    pub(crate) bytes: u64,
    /// Seconds since 1970, as are the next two.
    pub(crate) created: u64,
    pub(crate) processing: Option<u64>,
    pub(crate) ended: Option<u64>,
}

impl Job {
    /// The job as a session process has to know it.
    pub(crate) fn document(&self) -> Document {
        let (ticket, file) = (self.ticket.clone(), self.file.clone());
        Document { number: self.number, ticket, file }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(options: &[(&str, Value)]) -> Message {
        let attributes = options.iter();
        let attributes = attributes
            .map(|(name, value)| Attribute {
                name: (*name).to_owned(),
                values: vec![value.clone()],
            })
            .collect();
        let title = Value::text(tag::NAME, "Report\n\u{202e}2");
        let title = Attribute { name: "job-name".to_owned(), values: vec![title] };
        let groups = vec![
            Group { tag: group::OPERATION, attributes: vec![title] },
            Group { tag: group::JOB, attributes },
        ];
        Message { version: [2, 0], code: 2, request: 1, groups }
    }

    #[test]
    fn options_are_understood_as_ipp_and_as_the_ppd_name_them() {
        let keyword = |text| Value::text(tag::KEYWORD, text);
        let copies = ("copies", Value::number(tag::INTEGER, 3));
        let wanted = Ticket {
            title: "Report  2".to_owned(),
            copies: 3,
            sides: Sides::LongEdge,
            colour: false,
            media: "iso_a5_148x210mm".to_owned(),
        };
        let by_ipp = [
            copies.clone(),
            ("sides", keyword("two-sided-long-edge")),
            ("print-color-mode", keyword("monochrome")),
            ("media", keyword("iso_a5_148x210mm")),
        ];
        assert_eq!(Ticket::of_request(&request(&by_ipp)), wanted);
        let by_ppd = [
            copies,
            ("Duplex", keyword("DuplexNoTumble")),
            ("ColorModel", keyword("Gray")),
            ("PageSize", keyword("A5")),
        ];
        assert_eq!(Ticket::of_request(&request(&by_ppd)), wanted);
        let none = Ticket::of_request(&request(&[]));
        assert_eq!((none.copies, none.sides, none.colour), (1, Sides::One, true));
        assert_eq!(none.media, "");
    }

    #[test]
    fn what_makes_no_sense_is_limited() {
        let odd = [
            ("copies", Value::number(tag::INTEGER, u32::MAX)),
            ("media", Value { tag: tag::KEYWORD, bytes: vec![0xff; 3] }),
            ("sides", Value::text(tag::KEYWORD, "three")),
        ];
        let ticket = Ticket::of_request(&request(&odd));
        assert_eq!((ticket.copies, ticket.sides), (COPIES_MAX, Sides::One));
        assert_eq!(ticket.media, "");
        assert_eq!(one_line(&"é".repeat(300), 255).len(), 254);
    }
}
