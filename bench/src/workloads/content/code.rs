//! Source text made from a seed, and which of its words an editor would colour: for pages of
//! documentation, terminals and editors. The same on every machine and at every commit, as no real
//! file of the tree would be. Knows C; never who shows it.

use std::fmt::Write as _;

use super::Random;

/// What an editor tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// `return`, `while`.
    Keyword,
    /// `int`, `struct`.
    Type,
    /// A name before a parenthesis.
    Function,
    /// Digits.
    Number,
    /// Between quotation marks.
    Text,
    /// From `//` or `/*` on.
    Comment,
    /// Everything else.
    Plain,
}

const KEYWORDS: &[&str] = &[
    "break", "case", "const", "continue", "default", "else", "for", "if", "return", "sizeof",
    "static", "switch", "while",
];
const TYPES: &[&str] =
    &["bool", "char", "int", "long", "size_t", "struct", "uint32_t", "uint8_t", "unsigned", "void"];
const NOUNS: &[&str] = &[
    "buffer", "queue", "region", "window", "client", "cursor", "packet", "screen", "length",
    "offset", "header", "table", "entry", "count", "stream", "frame", "index", "state", "limit",
    "source",
];
const VERBS: &[&str] = &[
    "read", "write", "find", "append", "clear", "handle", "update", "parse", "release", "map",
    "check", "draw",
];

/// At least `lines` lines of C: functions with comments, branches, loops and tables of numbers.
pub fn source(seed: u64, lines: usize) -> String {
    let mut random = Random::new(seed ^ 0xc0de);
    let mut text =
        String::from("#include <stdint.h>\n#include <stdlib.h>\n#include <string.h>\n\n");
    while text.lines().count() < lines {
        if random.below(6) == 0 {
            table(&mut text, &mut random)
        } else {
            function(&mut text, &mut random)
        }
        text.push('\n');
    }
    text
}

fn function(text: &mut String, random: &mut Random) {
    let (verb, noun, other) = (*random.pick(VERBS), *random.pick(NOUNS), *random.pick(NOUNS));
    let result = *random.pick(&["int", "bool", "void", "static int", "static bool", "size_t"]);
    let _ = writeln!(
        text,
        "/* Tries to {verb} the {noun} of a {other}; the {other} stays as it is when there is \
            none. */"
    );
    let _ = writeln!(
        text,
        "{result}\n{noun}_{verb}(struct {other} *{other}, const uint8_t *{noun}, size_t size)\n{{"
    );
    let _ = writeln!(text, "    uint32_t total = {};", random.below(64));
    for _ in 0..1 + random.below(3) {
        block(text, random, 1, (noun, other));
    }
    if result.ends_with("void") {
        let _ = writeln!(text, "    {other}->{noun} = total;\n}}");
    } else {
        let _ = writeln!(text, "    return total > 0;\n}}");
    }
}

fn block(text: &mut String, random: &mut Random, depth: usize, (noun, other): (&str, &str)) {
    let indent = "    ".repeat(depth);
    let verb = *random.pick(VERBS);
    match random.below(6) {
        0 if depth < 4 => {
            let _ =
                writeln!(text, "{indent}for (size_t i = {}; i < size; i++) {{", random.below(4));
            block(text, random, depth + 1, (noun, other));
            let _ = writeln!(text, "{indent}}}");
        }
        1 if depth < 4 => {
            let _ = writeln!(
                text,
                "{indent}if ({other}->{noun} == NULL || total >= 0x{:x}) {{",
                random.below(4096)
            );
            block(text, random, depth + 1, (noun, other));
            let _ = writeln!(text, "{indent}}} else {{");
            block(text, random, depth + 1, (noun, other));
            let _ = writeln!(text, "{indent}}}");
        }
        2 => {
            let _ = writeln!(
                text,
                "{indent}// {} {noun}s are enough: the {other} never holds more.",
                2 + random.below(500)
            );
            let _ = writeln!(
                text,
                "{indent}memcpy(&{other}->{noun}[total], {noun} + {}, {});",
                random.below(32),
                random.below(256)
            );
        }
        3 => {
            let _ = writeln!(text, "{indent}if (!{noun}_{verb}({other}, {noun}, size))");
            let _ = writeln!(
                text,
                "{indent}    log_error(\"cannot {verb} the {noun}: %s\\n\", strerror(errno));"
            );
        }
        4 => {
            let _ = writeln!(
                text,
                "{indent}total += ({noun}[{}] << {}) | {other}->{noun};",
                random.below(16),
                8 * random.below(4)
            );
        }
        _ => {
            let _ = writeln!(
                text,
                "{indent}{other}->{noun} = {noun}_{verb}(total, sizeof *{other}) & 0x{:04x};",
                random.below(65536)
            );
        }
    }
}

fn table(text: &mut String, random: &mut Random) {
    let noun = *random.pick(NOUNS);
    let _ = writeln!(text, "static const uint8_t {noun}_table[] = {{");
    for _ in 0..3 + random.below(4) {
        let row: Vec<String> = (0..12).map(|_| format!("0x{:02x}", random.below(256))).collect();
        let _ = writeln!(text, "    {},", row.join(", "));
    }
    text.push_str("};\n");
}

/// The parts of a line with what they are, in order, nothing left out.
pub fn tokens(line: &str) -> Vec<(Token, &str)> {
    let mut found: Vec<(Token, &str)> = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let while_true = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
        let (token, length) = if rest.starts_with("//")
            || rest.starts_with("/*")
            || rest.starts_with(" *") && found.is_empty()
        {
            (Token::Comment, rest.len())
        } else if first == '"' {
            let end = rest[1..].match_indices('"').find(|(at, _)| !rest[..=*at].ends_with('\\'));
            (Token::Text, end.map_or(rest.len(), |(at, _)| at + 2))
        } else if first.is_ascii_digit() {
            (Token::Number, while_true(|c| c.is_ascii_alphanumeric()))
        } else if first == '_' || first == '#' || first.is_alphabetic() {
            let length = while_true(|c| c == '_' || c == '#' || c.is_alphanumeric());
            let token = match &rest[..length] {
                word if KEYWORDS.contains(&word) || word.starts_with('#') => Token::Keyword,
                word if TYPES.contains(&word) => Token::Type,
                _ if rest[length..].starts_with('(') => Token::Function,
                _ => Token::Plain,
            };
            (token, length)
        } else {
            (Token::Plain, first.len_utf8())
        };
        found.push((token, &rest[..length]));
        rest = &rest[length..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_source_whose_braces_match() {
        let text = source(1, 300);
        assert_eq!(text, source(1, 300));
        assert_ne!(text, source(2, 300));
        assert!((300..400).contains(&text.lines().count()));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }

    #[test]
    fn the_parts_of_a_line_are_the_line() {
        for line in source(3, 500).lines().chain(["\"a \\\" b\" + x", "\"open", "é = 1; // ü"]) {
            let parts: String = tokens(line).into_iter().map(|(_, part)| part).collect();
            assert_eq!(parts, line);
        }
        assert_eq!(tokens("return \"a\\\"b\";")[2], (Token::Text, "\"a\\\"b\""));
        assert_eq!(
            tokens("f(0x1f)")[..3],
            [(Token::Function, "f"), (Token::Plain, "("), (Token::Number, "0x1f")]
        );
    }
}
