//! What a person calls a session of theirs, beside the path: from thinc share's socket, to the
//! titles of viewers. Knows text; never which sessions there are.

use thinc_protocol::limits::NAME_BYTES_MAX;
use thinc_protocol::wire::is_deceptive;

/// What a title may be, for people.
pub const TITLE_RULE: &str = "a desktop's name has 1 to 64 bytes (64 characters of English, 21 \
                              of Chinese), and no control characters";

/// A title as it is kept: without spaces at its ends, and with one between words. `None` if it
/// breaks [`TITLE_RULE`].
pub fn title(text: &str) -> Option<String> {
    // Not a longer text either that would become short enough.
    if text.len() > 2 * NAME_BYTES_MAX {
        return None;
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let title = words.join(" ");
    let is_valid = (1..=NAME_BYTES_MAX).contains(&title.len()) && !text.contains(is_deceptive);
    is_valid.then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_short_lines_of_text() {
        assert_eq!(title("  Work at\u{a0} home ").as_deref(), Some("Work at home"));
        assert_eq!(title("仕事").as_deref(), Some("仕事"));
        assert_eq!(title(&"x".repeat(64)), Some("x".repeat(64)));
        let bad = ["", "  ", "a\nb", "a\tb", "\u{202e}x", "a\u{0}", &"x".repeat(65)];
        assert!(bad.iter().all(|text| title(text).is_none()));
        assert_eq!(title(&format!("x{}", " ".repeat(200))), None);
    }
}
