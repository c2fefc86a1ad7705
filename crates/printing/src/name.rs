//! The name of a printed document as a file, made of the title that a program gives it. Beside
//! printer.rs. Knows characters; never a folder.

/// 80 bytes: enough to recognise a document, and far below the 255 of file systems.
const NAME_BYTES_MAX: usize = 80;
const SUFFIX: &str = ".pdf";
const NAMELESS: &str = "document";

/// A file's name for a document of this title: no separator, no option, nothing hidden or
/// invisible, whatever a program or a page on the web calls it.
pub fn file_name(title: &str) -> String {
    // Many programs give the path or the URL of what they print.
    let title = title.rsplit(['/', '\\']).find(|part| !part.trim().is_empty()).unwrap_or("");
    let title = title.strip_suffix(SUFFIX).unwrap_or(title);
    let is_plain = |character: &char| {
        character.is_alphanumeric() || matches!(character, ' ' | '.' | ',' | '-' | '_' | '(' | ')')
    };
    let plain: String =
        title.chars().map(|character| if is_plain(&character) { character } else { '_' }).collect();
    let plain = plain.trim_start_matches(['.', '-', ' ']);
    let plain = plain[..plain.floor_char_boundary(NAME_BYTES_MAX)].trim_end_matches(['.', ' ']);
    let stem = if plain.is_empty() { NAMELESS } else { plain };
    format!("{stem}{SUFFIX}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_a_harmless_name() {
        for (title, name) in [
            ("Report 2026 (final).pdf", "Report 2026 (final).pdf"),
            ("Übersicht – Süd", "Übersicht _ Süd.pdf"),
            ("../../etc/passwd", "passwd.pdf"),
            ("/home/u/.ssh/id", "id.pdf"),
            ("https://example.org/", "example.org.pdf"),
            ("C:\\texts\\mum.docx", "mum.docx.pdf"),
            (".bashrc", "bashrc.pdf"),
            ("-o raw", "o raw.pdf"),
            ("a\nb\0c\u{202e}d", "a_b_c_d.pdf"),
            ("", "document.pdf"),
            ("///", "document.pdf"),
            ("..", "document.pdf"),
            ("$(reboot);`x`", "_(reboot)__x_.pdf"),
        ] {
            assert_eq!(file_name(title), name, "{title:?}");
        }
        let long = file_name(&"é".repeat(500));
        assert_eq!(long.len(), NAME_BYTES_MAX + SUFFIX.len());
    }
}
