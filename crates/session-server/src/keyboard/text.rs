//! Path back, under setup.rs: keymaps in XKB's own language, as `xkbcomp` writes and reads them.
//! Which keys of a keymap are not what its rules say (`xmodmap`), and those keys added to another
//! keymap. Knows the form of the text; never what a key means.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What `xkbcomp` has written of a keymap.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Described {
    /// Keycodes by the names of keys.
    keycodes: BTreeMap<String, u8>,
    /// What selects levels, and what keysyms do.
    types_and_compat: String,
    /// Statements about keys, and about the modifiers of keys.
    keys: BTreeMap<String, String>,
    modifiers: BTreeMap<String, String>,
}

/// Keys that are not what the rules say, as statements that follow others and replace them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedKeys(BTreeMap<String, String>);

/// A keymap that is more than its rules and some changed keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its key types or actions are not those of its rules")]
pub(super) struct NotOfRules;

impl Described {
    /// Reads the text. What is not understood is skipped.
    pub(super) fn parse(text: &str) -> Described {
        let mut described = Described::default();
        let mut section = "";
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let words = line.trim_start();
            if let Some(name) = words.strip_prefix("xkb_") {
                section = name.split([' ', '"', '{']).next().unwrap_or_default();
                continue;
            }
            match section {
                "keycodes" => {
                    if let Some((name, code)) = words.split_once('=')
                        && let (Some(name), Ok(code)) =
                            (key_name(name), code.trim().trim_end_matches(';').parse())
                    {
                        described.keycodes.insert(name.to_owned(), code);
                    }
                }
                "types" | "compatibility" => {
                    described.types_and_compat.push_str(words);
                    described.types_and_compat.push('\n');
                }
                "symbols" => {
                    let mut statement = words.to_owned();
                    let is_statement =
                        ["key ", "modifier_map "].iter().any(|word| words.starts_with(word));
                    while is_statement && !statement.ends_with("};") {
                        let Some(line) = lines.next() else { break };
                        let _ = write!(statement, " {}", line.trim());
                    }
                    described.add(&statement);
                }
                _ => {}
            }
        }
        described
    }

    fn add(&mut self, statement: &str) {
        let Some(name) = key_name(statement) else { return };
        if statement.starts_with("key ") {
            // The virtual modifiers of a key are said for some keys of rules that have not been
            // loaded, and for the same keys of the server's not.
            let text = match statement.split_once("virtualMods=") {
                Some((before, rest)) => {
                    format!("{before}{}", rest.split_once(',').map_or(rest, |(_, after)| after))
                }
                None => statement.to_owned(),
            };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            self.keys.insert(name.to_owned(), text);
        } else if statement.starts_with("modifier_map ") {
            self.modifiers.insert(name.to_owned(), statement.to_owned());
        }
    }
}

impl ChangedKeys {
    /// The keys that are other ones `now` than `by_rules`, apart from these keycodes.
    pub(super) fn between(
        by_rules: &Described,
        now: &Described,
        apart: impl Fn(u8) -> bool,
    ) -> Result<ChangedKeys, NotOfRules> {
        if by_rules.types_and_compat != now.types_and_compat {
            return Err(NotOfRules);
        }
        let counts = |name: &String| {
            let keycode = now.keycodes.get(name).or(by_rules.keycodes.get(name));
            keycode.is_some_and(|&keycode| !apart(keycode))
        };
        let mut changed = BTreeMap::new();
        for (name, statement) in differing(&by_rules.keys, &now.keys) {
            if counts(name) {
                let missing = || format!("key <{name}> {{ [ NoSymbol ] }};");
                let statement = statement.cloned().unwrap_or_else(missing);
                changed.insert(format!("key {name}"), format!("replace {statement}"));
            }
        }
        for (name, statement) in differing(&by_rules.modifiers, &now.modifiers) {
            if counts(name) {
                let missing = || format!("modifier_map None {{ <{name}> }};");
                changed
                    .insert(format!("modifier {name}"), statement.cloned().unwrap_or_else(missing));
            }
        }
        Ok(ChangedKeys(changed))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes newer changes over.
    pub(super) fn update(&mut self, newer: ChangedKeys) {
        self.0.extend(newer.0);
    }

    /// Adds these keys to the keymap that `setxkbmap -print` has written. None: it is no keymap.
    pub(super) fn added_to(&self, keymap: &str) -> Option<String> {
        let symbols = keymap.find("xkb_symbols")?;
        let end = symbols + keymap[symbols..].find("};")?;
        let statements: Vec<&str> = self.0.values().map(String::as_str).collect();
        Some(format!("{}\n{}\n{}", &keymap[..end], statements.join("\n"), &keymap[end..]))
    }

    /// The names and statements in turn.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(name, statement)| [name.as_str(), statement.as_str()])
    }

    pub(super) fn from_fields(fields: &[&str]) -> ChangedKeys {
        let pairs = fields.chunks_exact(2);
        ChangedKeys(pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect())
    }
}

/// The entries that both do not have alike, with what the second has.
fn differing<'a>(
    one: &'a BTreeMap<String, String>,
    other: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a String, Option<&'a String>)> {
    let gone = one.keys().filter(|name| !other.contains_key(*name)).map(|name| (name, None));
    let new = other.iter().filter(|(name, statement)| one.get(*name) != Some(*statement));
    gone.chain(new.map(|(name, statement)| (name, Some(statement))))
}

/// The first name of a key, between angle brackets.
fn key_name(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('<')?;
    rest.split_once('>').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As xkbcomp writes it, shortened.
    const BY_RULES: &str = r#"xkb_keymap {
xkb_keycodes "evdev+aliases(qwerty)" {
    minimum = 8;
    maximum = 255;
    <AD01> = 24;
    <CAPS> = 66;
    <LALT> = 64;
    <PGDN> = 117;
    <FK22> = 200;
    alias <MENU> = <COMP>;
};

xkb_types "complete" {
    virtual_modifiers NumLock,Alt;
};

xkb_compatibility "complete" {
    interpret.repeat= False;
};

xkb_symbols "pc+us+ru:2+inet(evdev)" {

    name[group1]="English (US)";

    key <AD01> {
        type= "ALPHABETIC",
        symbols[Group1]= [               q,               Q ],
        symbols[Group2]= [ Cyrillic_shorti, Cyrillic_SHORTI ]
    };
    key <CAPS> {         [       Caps_Lock ] };
    key <LALT> {
        virtualMods= Alt,         [           Alt_L,  ISO_Next_Group ] };
    key <PGDN> {         [            Next ] };
    modifier_map Lock { <CAPS> };
    modifier_map Mod1 { <LALT> };
};

xkb_geometry "pc(pc105)" {
    key <PGDN> { of another section };
};
};
"#;

    fn changed(from: &str, to: &str) -> Result<ChangedKeys, NotOfRules> {
        assert!(BY_RULES.contains(from), "{from}");
        let now = BY_RULES.replace(from, to);
        ChangedKeys::between(&Described::parse(BY_RULES), &Described::parse(&now), |k| k == 200)
    }

    fn statements(from: &str, to: &str) -> Vec<String> {
        changed(from, to).unwrap().0.into_values().collect()
    }

    #[test]
    fn a_keymap_of_its_rules_has_no_changed_keys() {
        assert!(changed("q,", "q,").unwrap().is_empty());
        // The server does not say this one's virtual modifiers.
        assert!(changed("{\n        virtualMods= Alt, ", "{ ").unwrap().is_empty());
        // What is bound to a spare keycode is not the session's.
        assert!(
            changed("    key <CAPS>", "    key <FK22> { [ EuroSign ] };\n    key <CAPS>")
                .unwrap()
                .is_empty()
        );
    }

    #[test]
    fn changed_keys_are_found_with_all_their_groups() {
        assert_eq!(statements("Next ]", "Prior ]"), ["replace key <PGDN> { [ Prior ] };"]);
        assert_eq!(
            statements(" Q ]", " at ]"),
            ["replace key <AD01> { type= \"ALPHABETIC\", symbols[Group1]= [ q, at ], \
              symbols[Group2]= [ Cyrillic_shorti, Cyrillic_SHORTI ] };"]
        );
        assert_eq!(
            statements("    key <PGDN> {         [            Next ] };\n", ""),
            ["replace key <PGDN> { [ NoSymbol ] };"]
        );
        assert_eq!(statements("map Lock", "map Control"), ["modifier_map Control { <CAPS> };"]);
        assert_eq!(
            statements("    modifier_map Lock { <CAPS> };\n", ""),
            ["modifier_map None { <CAPS> };"]
        );
    }

    #[test]
    fn a_keymap_with_other_types_or_actions_is_not_one_of_its_rules() {
        assert_eq!(changed("NumLock,Alt", "NumLock"), Err(NotOfRules));
        assert_eq!(changed("repeat= False", "repeat= True"), Err(NotOfRules));
    }

    #[test]
    fn changed_keys_are_added_to_another_keymap() {
        let keys = changed("Next ]", "Prior ]").unwrap();
        let keymap = "xkb_keymap {\n\txkb_symbols   { include \"pc+de\"\t};\n\txkb_geometry  \
                      { include \"pc(pc105)\"\t};\n};\n";
        assert_eq!(
            keys.added_to(keymap).unwrap(),
            "xkb_keymap {\n\txkb_symbols   { include \"pc+de\"\t\nreplace key <PGDN> { [ Prior ] };\
             \n};\n\txkb_geometry  { include \"pc(pc105)\"\t};\n};\n"
        );
        assert_eq!(keys.added_to("no keymap"), None);
    }

    #[test]
    fn they_are_stored_and_newer_ones_replace_them() {
        let mut keys = changed("Next ]", "Prior ]").unwrap();
        let fields: Vec<&str> = keys.fields().collect();
        assert_eq!(ChangedKeys::from_fields(&fields), keys);
        assert_eq!(ChangedKeys::from_fields(&fields[..1]), ChangedKeys::default());
        keys.update(changed("Next ]", "Home ]").unwrap());
        assert_eq!(keys, changed("Next ]", "Home ]").unwrap());
    }

    #[test]
    fn text_that_ends_early_or_is_none_is_read_as_far_as_it_goes() {
        for end in 0..BY_RULES.len() {
            let _ = Described::parse(&BY_RULES[..end]);
        }
        assert_eq!(Described::parse("key <A> { [ a ] };"), Described::default());
    }
}
