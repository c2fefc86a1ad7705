//! Path beside the pixels: documents that programs of the session print, from files.rs, to this
//! computer's printer or its program for PDF. Knows processes and words for people; never what is
//! in a document.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thinc_protocol::print::{PrintSides, PrintTicket};

/// What is done with documents that programs of the session print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintChoice {
    /// The session does not print here.
    Off,
    /// The system's program opens them, after a question.
    Open,
    /// The system's printer of this name prints them.
    Printer(String),
    /// They are received, after a question, and kept.
    Keep,
}

/// A document that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) ticket: PrintTicket,
}

/// What the user is asked, without the answers.
pub(crate) fn question(ticket: &PrintTicket, size: &str) -> String {
    let copies = match ticket.copies {
        1 => String::new(),
        copies => format!(", {copies} copies"),
    };
    format!("A program of the session prints \"{}\" ({size}{copies}).", ticket.title)
}

/// The program for a document and its arguments, which no shell reads; None if it is only kept.
fn program(choice: &PrintChoice, document: &Document) -> Option<(&'static str, Vec<OsString>)> {
    let Document { path, ticket } = document;
    match choice {
        PrintChoice::Off | PrintChoice::Keep => None,
        PrintChoice::Open => Some(("xdg-open", vec![path.into()])),
        PrintChoice::Printer(name) => {
            let sides = match ticket.sides {
                PrintSides::One => "one-sided",
                PrintSides::LongEdge => "two-sided-long-edge",
                PrintSides::ShortEdge => "two-sided-short-edge",
            };
            let mut arguments = vec!["-d".to_owned(), name.clone(), "-n".to_owned()];
            arguments.extend([ticket.copies.to_string(), "-t".to_owned(), ticket.title.clone()]);
            arguments.extend(["-o".to_owned(), format!("sides={sides}")]);
            if !ticket.colour {
                arguments.extend(["-o", "print-color-mode=monochrome"].map(str::to_owned));
            }
            if !ticket.media.is_empty() {
                arguments.extend(["-o".to_owned(), format!("media={}", ticket.media)]);
            }
            let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
            // An absolute path: it begins with no dash.
            arguments.push(path.into());
            Some(("lp", arguments))
        }
    }
}

/// Prints or opens a document, and waits for that; returns what the user is told.
pub(crate) fn carry_out(choice: &PrintChoice, document: &Document) -> Option<String> {
    let (name, arguments) = program(choice, document)?;
    let title = &document.ticket.title;
    if !is_pdf(&document.path) {
        let path = document.path.display();
        return Some(format!("\"{title}\" is no PDF document, and was not opened. It is {path}"));
    }
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            let words = words.lines().next().unwrap_or("it says nothing").to_owned();
            Some(format!("{name} ended with {}: {words}", output.status))
        }
        Err(error) => Some(format!("{name} cannot be started: {error}")),
    };
    let path = document.path.display();
    Some(match (failed, choice) {
        (Some(why), PrintChoice::Printer(_)) => {
            format!("Not printed: {why}. The document is {path}")
        }
        (Some(why), _) => format!("Not opened: {why}. The document is {path}"),
        (None, PrintChoice::Printer(printer)) => {
            remove(&document.path);
            format!("Printed \"{title}\" on {printer}")
        }
        (None, _) => format!("Opened \"{title}\""),
    })
}

/// The session may say so of anything.
fn is_pdf(path: &Path) -> bool {
    let mut begins = [0; 5];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut begins));
    read.is_ok() && begins == *b"%PDF-"
}

/// The printer has a copy of its own.
fn remove(path: &Path) {
    // What stays is removed when a later document arrives.
    let _ = std::fs::remove_file(path);
}

/// The name of a printer, as CUPS allows it.
pub(crate) fn parse_printer(name: &str) -> Result<String, String> {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '#' | '\'' | '"');
    if name.is_empty() || name.starts_with(['-', '/']) || name.contains(is_odd) {
        return Err(format!("{name:?} is no printer's name; `lpstat -e` lists them"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let ticket = PrintTicket {
            title: "-Report; rm $HOME".to_owned(),
            copies: 2,
            sides: PrintSides::LongEdge,
            colour: false,
            media: "iso_a4_210x297mm".to_owned(),
        };
        Document { path: "/tmp/Report.pdf".into(), ticket }
    }

    #[test]
    fn a_printer_gets_the_document_with_its_copies_and_sides() {
        let printer = PrintChoice::Printer("office".to_owned());
        let (name, arguments) = program(&printer, &document()).unwrap();
        assert_eq!(name, "lp");
        let wanted = [
            "-d",
            "office",
            "-n",
            "2",
            "-t",
            "-Report; rm $HOME",
            "-o",
            "sides=two-sided-long-edge",
            "-o",
            "print-color-mode=monochrome",
            "-o",
            "media=iso_a4_210x297mm",
            "/tmp/Report.pdf",
        ];
        assert_eq!(arguments, wanted.map(OsString::from));
        let (name, arguments) = program(&PrintChoice::Open, &document()).unwrap();
        assert_eq!((name, arguments), ("xdg-open", vec!["/tmp/Report.pdf".into()]));
        assert_eq!(program(&PrintChoice::Keep, &document()), None);
    }

    #[test]
    fn what_is_no_pdf_is_not_opened() {
        let path = std::env::temp_dir().join(format!("thinc-page-{}.pdf", std::process::id()));
        let document = Document { path: path.clone(), ..document() };
        for (content, is) in [(&b"%PDF-1.7\n"[..], true), (b"<html>", false), (b"%PD", false)] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(is_pdf(&path), is);
        }
        let words = carry_out(&PrintChoice::Open, &document).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(words.contains("is no PDF document"), "{words}");
    }

    #[test]
    fn only_names_of_printers_are_taken() {
        for name in ["office", "HP_LaserJet-2", "office/draft"] {
            assert_eq!(parse_printer(name), Ok(name.to_owned()));
        }
        for name in ["", "-o", "/etc", "a b", "a\nb", "a#b"] {
            assert!(parse_printer(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn people_are_asked_about_title_and_copies() {
        assert_eq!(
            question(&document().ticket, "7 kB"),
            "A program of the session prints \"-Report; rm $HOME\" (7 kB, 2 copies)."
        );
    }
}
