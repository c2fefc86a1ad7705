//! What terminals show, with the sequences that colour it: a source file in an editor, a folder, a build and a difference.
//! The same on every machine. Knows ECMA-48; never the terminal.

use std::fmt::Write as _;

use super::Random;
use super::code::{Token, source, tokens};

/// The first lines of a source file as an editor in a terminal shows them: numbers, colours, a line of state at the end.
pub fn editor(columns: usize, rows: usize) -> String {
    let mut text = String::new();
    for (number, line) in source(11, rows).lines().take(rows - 1).enumerate() {
        let _ = write!(text, "\x1b[33m{:4} \x1b[0m", number + 1);
        coloured(&mut text, &line.chars().take(columns.saturating_sub(5)).collect::<String>());
        text.push_str("\r\n");
    }
    let state = format!(" NORMAL  src/queue.c [+]   {}", "utf-8 | c | 1:1 ");
    let _ = write!(text, "\x1b[7m{state:<columns$}\x1b[0m");
    text
}

/// What came of some commands: a folder with colours, a build with warnings, a difference.
pub fn shell(rows: usize) -> String {
    let mut random = Random::new(12);
    let mut text = String::new();
    prompt(&mut text, "ls -l --color");
    for _ in 0..rows * 2 / 5 {
        let (colour, mode, name) = *random.pick(&[
            ("01;34", "drwxr-xr-x", "include"),
            ("01;32", "-rwxr-xr-x", "configure"),
            ("0", "-rw-r--r--", "README.md"),
            ("0", "-rw-r--r--", "queue.c"),
            ("01;36", "lrwxrwxrwx", "current"),
            ("01;31", "-rw-r--r--", "release.tar.gz"),
            ("01;35", "-rw-r--r--", "picture.png"),
        ]);
        let (size, day) = (random.below(2_000_000), 1 + random.below(28));
        let (hour, minute, number) = (random.below(24), random.below(60), random.below(90));
        let _ = write!(
            text,
            "{mode} 1 user user {size:>9} Nov {day:>2} {hour:02}:{minute:02} \x1b[{colour}m{number}-{name}\x1b[0m\r\n"
        );
    }
    prompt(&mut text, "make -j2");
    for _ in 0..rows / 5 {
        let (line, column) = (random.below(900), random.below(70));
        let _ = match random.below(4) {
            0 => write!(
                text,
                "\x1b[1mqueue.c:{line}:{column}: \x1b[35mwarning: \x1b[0munused variable \x1b[1m'total'\x1b[0m [\x1b[35m-Wunused-variable\x1b[0m]\r\n"
            ),
            _ => write!(text, "cc -O2 -g -Wall -Wextra -Iinclude -c -o build/file{line}.o src/file{line}.c\r\n"),
        };
    }
    prompt(&mut text, "git diff");
    for line in source(13, rows).lines().skip(6).take(rows * 2 / 5 - 4) {
        let (colour, sign) = *random.pick(&[("0", ' '), ("0", ' '), ("31", '-'), ("32", '+')]);
        let _ = write!(text, "\x1b[{colour}m{sign}{line}\x1b[0m\r\n");
    }
    prompt(&mut text, "");
    text
}

fn prompt(text: &mut String, command: &str) {
    let _ = write!(text, "\x1b[01;32muser@server\x1b[0m:\x1b[01;34m~/project\x1b[0m$ {command}");
    if !command.is_empty() {
        text.push_str("\r\n");
    }
}

/// The colours of most editors' themes for 16 colours.
fn coloured(text: &mut String, line: &str) {
    for (token, part) in tokens(line) {
        let colour = match token {
            Token::Keyword => "33",
            Token::Type => "32",
            Token::Function => "36",
            Token::Number | Token::Text => "31",
            Token::Comment => "34",
            Token::Plain => "0",
        };
        let _ = write!(text, "\x1b[{colour}m{part}");
    }
    text.push_str("\x1b[0m");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left when the sequences are taken out.
    fn plain(text: &str) -> String {
        let mut parts = text.split("\x1b[");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| all + &part[part.find('m').unwrap() + 1..])
    }

    #[test]
    fn a_screen_is_filled_and_not_overfilled() {
        let text = plain(&editor(120, 40));
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines.len(), 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 120), "{lines:?}");
        assert!(lines[39].starts_with(" NORMAL"));
        let rows = plain(&shell(50)).split("\r\n").count();
        assert!((40..=50).contains(&rows), "{rows} of 50 rows");
        assert!(plain(&shell(50)).contains("warning: "));
    }
}
