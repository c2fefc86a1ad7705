//! Path back, under setup.rs: the names from which XKB's rules make a keymap, as `setxkbmap` takes
//! them and leaves them on the root window, and a viewer's layout among them.
//! Knows names; never keys.

use thinc_protocol::viewer::KeyboardLayout;

/// Longest list of names that is read, in units of four bytes: more than people set.
pub(super) const NAMES_WORDS_MAX: u32 = 1024;
/// Most groups of a keymap (XKB protocol, section 2.2.2).
const GROUPS_MAX: usize = 4;

/// Rules, model, layouts, variants and options; commas separate what is a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    rules: String,
    model: String,
    layouts: String,
    variants: String,
    options: String,
}

impl Names {
    /// From the property `_XKB_RULES_NAMES`: each name is followed by a zero byte. None: it is
    /// something else, or has characters that no name of XKB's has.
    pub(super) fn from_property(value: &[u8]) -> Option<Names> {
        let fields: Vec<&str> = std::str::from_utf8(value).ok()?.split('\0').collect();
        Names::from_fields(&fields)
    }

    /// The five names at the beginning of these.
    pub(super) fn from_fields(fields: &[&str]) -> Option<Names> {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "_-,:()+.".contains(c);
        let name =
            |at: usize| fields.get(at).filter(|name| name.chars().all(is_valid)).map(|&n| n.into());
        let names = Names {
            rules: name(0)?,
            model: name(1)?,
            layouts: name(2)?,
            variants: name(3)?,
            options: name(4)?,
        };
        (!names.layouts.is_empty()).then_some(names)
    }

    pub(super) fn fields(&self) -> [&str; 5] {
        [&self.rules, &self.model, &self.layouts, &self.variants, &self.options]
    }

    pub(super) fn to_property(&self) -> Vec<u8> {
        self.fields().iter().flat_map(|name| name.bytes().chain([0])).collect()
    }

    /// What to set while a viewer with this layout types, and the group that is active then: what
    /// is set already with the viewer's options added, if the viewer's layout is among the layouts,
    /// else its layout in the place of those.
    pub(super) fn with(&self, viewer: &KeyboardLayout) -> (Names, u8) {
        let mut options: Vec<&str> =
            self.options.split(',').filter(|option| !option.is_empty()).collect();
        for option in viewer.options.split(',').filter(|option| is_allowed_option(option)) {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        let options = options.join(",");
        let variants: Vec<&str> = self.variants.split(',').collect();
        let group =
            self.layouts.split(',').take(GROUPS_MAX).enumerate().position(|(at, layout)| {
                layout == viewer.layout && *variants.get(at).unwrap_or(&"") == viewer.variant
            });
        if let Some(group) = group {
            return (Names { options, ..self.clone() }, group as u8);
        }
        if self.layouts == viewer.layout && self.variants == viewer.variant {
            return (Names { options, ..self.clone() }, 0);
        }
        let model = if viewer.model.is_empty() { &self.model } else { &viewer.model };
        let names = Names {
            rules: self.rules.clone(),
            model: model.clone(),
            layouts: viewer.layout.clone(),
            variants: viewer.variant.clone(),
            options,
        };
        (names, 0)
    }

    /// The arguments of `setxkbmap`.
    pub(super) fn arguments(&self) -> Vec<&str> {
        let mut arguments = Vec::new();
        for (option, value) in [
            ("-rules", &self.rules),
            ("-model", &self.model),
            ("-layout", &self.layouts),
            ("-variant", &self.variants),
        ] {
            // No name is a path or has a meaning to a shell; it could still be an option.
            if !value.is_empty() && !value.starts_with('-') {
                arguments.extend([option, value]);
            }
        }
        // The empty option clears the previous ones.
        arguments.extend(["-option", ""]);
        let options = self.options.split(',').filter(|o| !o.is_empty() && !o.starts_with('-'));
        arguments.extend(options.flat_map(|option| ["-option", option]));
        arguments
    }
}

impl std::fmt::Display for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.layouts, self.variants)
    }
}

/// Options of a viewer that change the keysyms of keys. Options that switch between layouts are
/// excluded, because the viewer does that itself, as are those that end the X server.
fn is_allowed_option(option: &str) -> bool {
    !option.is_empty()
        && !["-", "grp:", "terminate:", "srvrkeys:"].iter().any(|word| option.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(layouts: &str, variants: &str, options: &str) -> Names {
        Names {
            rules: "evdev".into(),
            model: "pc105".into(),
            layouts: layouts.into(),
            variants: variants.into(),
            options: options.into(),
        }
    }

    fn viewer(layout: &str, variant: &str, options: &str) -> KeyboardLayout {
        KeyboardLayout {
            model: "pc104".into(),
            layout: layout.into(),
            variant: variant.into(),
            options: options.into(),
        }
    }

    #[test]
    fn the_property_is_read_and_written() {
        let value = b"evdev\0pc105\0us,ru\0,\0grp:alt_shift_toggle\0";
        let read = Names::from_property(value).unwrap();
        assert_eq!(read, names("us,ru", ",", "grp:alt_shift_toggle"));
        assert_eq!(read.to_property(), value);
        for other in [&b""[..], b"evdev\0pc105\0us\0", b"evdev\0pc105\0\0\0\0", b"evdev\0\xff\0us"]
        {
            assert_eq!(Names::from_property(other), None);
        }
        assert_eq!(Names::from_property(b"evdev\0pc105\0us\0$(id)\0\0"), None);
        assert_eq!(Names::from_property(b"/tmp/evdev\0pc105\0us\0\0\0"), None);
    }

    #[test]
    fn a_layout_that_is_there_is_a_group_and_another_takes_its_place() {
        let own = names("us,ru,de", ",phonetic", "ctrl:swapcaps");
        assert_eq!(own.with(&viewer("us", "", "")), (own.clone(), 0));
        assert_eq!(own.with(&viewer("ru", "phonetic", "")), (own.clone(), 1));
        assert_eq!(own.with(&viewer("de", "", "")), (own.clone(), 2));
        let other = Names { model: "pc104".into(), ..names("ru", "", "ctrl:swapcaps") };
        assert_eq!(own.with(&viewer("ru", "", "")), (other, 0));
        let without_model = KeyboardLayout { model: String::new(), ..viewer("fr", "", "") };
        assert_eq!(own.with(&without_model), (names("fr", "", "ctrl:swapcaps"), 0));
        assert_eq!(own.with(&viewer("us,ru,de", ",phonetic", "")), (own.clone(), 0));
    }

    #[test]
    fn options_of_both_count_and_each_once() {
        let own = names("us", "", "grp:alt_shift_toggle,ctrl:swapcaps");
        let (both, _) = own.with(&viewer("us", "", "compose:menu,ctrl:swapcaps,grp:caps_toggle"));
        assert_eq!(both, names("us", "", "grp:alt_shift_toggle,ctrl:swapcaps,compose:menu"));
        assert_eq!(names("us", "", "").with(&viewer("us", "", "")).0, names("us", "", ""));
    }

    #[test]
    fn no_name_is_an_option_of_the_program() {
        let names = names("-print", "-synch", "-help,ctrl:nocaps");
        let arguments = names.arguments();
        assert_eq!(
            arguments,
            ["-rules", "evdev", "-model", "pc105", "-option", "", "-option", "ctrl:nocaps"]
        );
    }

    #[test]
    fn options_that_would_end_the_session_are_refused() {
        assert!(
            ["compose:caps", "ctrl:nocaps", "lv3:ralt_switch", "eurosign:e"]
                .into_iter()
                .all(is_allowed_option)
        );
        assert!(
            !["", "-help", "terminate:ctrl_alt_bksp", "grp:alt_shift_toggle"]
                .into_iter()
                .any(is_allowed_option)
        );
    }
}
