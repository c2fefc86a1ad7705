//! What happens when a person opens a session that is shown elsewhere, beside the path: from the
//! command line, the broker's configuration and the person's preferences, to actor/opening.rs.
//! Knows the choices; never who shows a session.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a person, or an administrator, has chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// It is shown at the new viewer only; the others are told.
    TakeOver,
    /// It is shown at all of them.
    Join,
    /// The person is asked.
    Ask,
}

/// The choices as they are written.
pub const OPENINGS: [&str; 3] = ["take-over", "join", "ask"];

impl Opening {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Opening::TakeOver => OPENINGS[0],
            Opening::Join => OPENINGS[1],
            Opening::Ask => OPENINGS[2],
        }
    }
}

impl FromStr for Opening {
    type Err = String;

    fn from_str(word: &str) -> Result<Opening, String> {
        [Opening::TakeOver, Opening::Join, Opening::Ask]
            .into_iter()
            .find(|opening| opening.word() == word)
            .ok_or_else(|| format!("expected {}", OPENINGS.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_configuration() {
        for word in OPENINGS {
            let opening: Opening = word.parse().unwrap();
            assert_eq!(opening.word(), word);
            assert_eq!(serde_json::to_string(&opening).unwrap(), format!("\"{word}\""));
        }
        assert!("Join".parse::<Opening>().unwrap_err().contains("take-over, join, ask"));
    }
}
