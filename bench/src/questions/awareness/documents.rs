//! The documents and the settings of the programs in `awareness`, the same on every machine. Knows
//! file formats; never what is done with them.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

/// Nothing that changes with time: a blinking caret would never let a screen rest, and a scrollbar
/// that fades out a second later would be the last pixel of every operation.
const GTK: &str = "[Settings]
gtk-cursor-blink=false
gtk-enable-animations=false
gtk-overlay-scrolling=false
";

/// No tip, no donation, no news, no saving in the background: they would change the screen at times
/// of their own. Path below org.openoffice, property, value.
const LIBREOFFICE: [(&str, &str, &str); 9] = [
    ("Office.Common/Misc", "FirstRun", "false"),
    ("Office.Common/Misc", "ShowTipOfTheDay", "false"),
    ("Setup/Office", "ooSetupInstCompleted", "true"),
    ("Setup/Product", "ooSetupLastVersion", "99.9"),
    ("Setup/Product", "LastTimeGetInvolvedShown", "4000000000"),
    ("Setup/Product", "LastTimeDonateShown", "4000000000"),
    ("Office.Recovery/AutoSave", "Enabled", "false"),
    ("Office.Common/AutoCorrect", "SingleQuoteReplace", "false"),
    ("Office.Linguistic/SpellChecking", "IsSpellAuto", "false"),
];

fn libreoffice_settings() -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<oor:items \
         xmlns:oor=\"http://openoffice.org/2001/registry\" \
         xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n",
    );
    for (path, name, value) in LIBREOFFICE {
        text.push_str(&format!(
            "<item oor:path=\"/org.openoffice.{path}\"><prop oor:name=\"{name}\" \
             oor:op=\"fuse\"><value>{value}</value></prop></item>\n"
        ));
    }
    text + "</oor:items>\n"
}

/// Settings of all programs, in a home of their own.
pub(crate) fn write_settings(home: &Path) -> Result<(), Error> {
    let (gtk, runtime) = (home.join(".config/gtk-3.0"), home.join("run"));
    let libreoffice = home.join("libreoffice/user");
    for folder in [&gtk, &runtime, &libreoffice] {
        fs::create_dir_all(folder)?;
    }
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o700))?;
    fs::write(gtk.join("settings.ini"), GTK)?;
    // Not over what the program has written into it since.
    let items = libreoffice.join("registrymodifications.xcu");
    if !items.exists() {
        fs::write(items, libreoffice_settings())?;
    }
    Ok(())
}

const WORDS: [&str; 18] = [
    "the", "display", "server", "draws", "a", "window", "and", "sends", "small", "commands", "to",
    "every", "viewer", "over", "the", "network", "with", "latency",
];

/// `count` words, others for each seed.
fn sentence(seed: u32, count: usize) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut text = String::new();
    for place in 0..count {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(if place == 0 { "" } else { " " });
        text.push_str(WORDS[(state >> 16) as usize % WORDS.len()]);
    }
    text
}

/// 600 lines of plain text.
pub(super) fn write_text(path: &Path) -> Result<PathBuf, Error> {
    let mut text = String::new();
    for line in 0..600 {
        writeln!(text, "{line:4} {}", sentence(line, 11))?;
    }
    fs::write(path, text)?;
    Ok(path.to_owned())
}

const OFFICE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<office:document
xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
office:version="1.2"
office:mimetype="application/vnd.oasis.opendocument."#;

/// A text of headings and paragraphs, some twenty pages.
pub(super) fn write_pages(path: &Path) -> Result<PathBuf, Error> {
    let mut text = format!("{OFFICE}text\"><office:body><office:text>\n");
    for section in 0..60 {
        writeln!(text, "<text:h text:outline-level=\"1\">Section {section}</text:h>")?;
        for paragraph in 0..4 {
            writeln!(text, "<text:p>{}.</text:p>", sentence(section * 8 + paragraph, 70))?;
        }
    }
    text.push_str("</office:text></office:body></office:document>\n");
    fs::write(path, text)?;
    Ok(path.to_owned())
}

/// Two sheets of words and numbers.
pub(super) fn write_sheets(path: &Path) -> Result<PathBuf, Error> {
    let mut text = format!("{OFFICE}spreadsheet\"><office:body><office:spreadsheet>\n");
    for sheet in 0..2_u32 {
        writeln!(text, "<table:table table:name=\"Sheet{}\">", sheet + 1)?;
        for row in 0..200_u32 {
            write!(
                text,
                "<table:table-row><table:table-cell office:value-type=\"string\"><text:p>"
            )?;
            write!(text, "{}</text:p></table:table-cell>", sentence(sheet * 1000 + row, 2))?;
            for column in 0..9_u32 {
                let value = (row * 37 + column * 211 + sheet * 7919) % 10_007;
                write!(
                    text,
                    "<table:table-cell office:value-type=\"float\" \
                        office:value=\"{value}\"><text:p>{value}</text:p></table:table-cell>"
                )?;
            }
            writeln!(text, "</table:table-row>")?;
        }
        text.push_str("</table:table>\n");
    }
    text.push_str("</office:spreadsheet></office:body></office:document>\n");
    fs::write(path, text)?;
    Ok(path.to_owned())
}
