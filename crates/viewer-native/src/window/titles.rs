//! Path 13/13, beside the pixels: from the session's name and what the viewer does, to the titles
//! of the windows, which screen readers read.
//! Knows words; never SDL.

/// What the titles say.
#[derive(Debug)]
pub(super) struct Titles {
    host: String,
    /// The session's name and its host.
    session: String,
    /// What the open menu shows.
    menu: String,
    /// The microphone is open.
    microphone: &'static str,
}

impl Titles {
    pub(super) fn new(host: String) -> Titles {
        Titles { host, session: String::new(), menu: String::new(), microphone: "" }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The session has this name.
    pub(super) fn set_name(&mut self, name: Option<&str>) {
        self.session = match name {
            Some(name) => format!("{name} ({}) - thinc", self.host),
            None => format!("{} - thinc", self.host),
        };
    }

    /// The menu says this; empty: it is closed. True if that is something else than before.
    pub(super) fn set_menu(&mut self, said: &str) -> bool {
        let said = if said.is_empty() { String::new() } else { format!("{said} - ") };
        let changes = said != self.menu;
        self.menu = said;
        changes
    }

    /// The microphone was opened or closed.
    pub(super) fn set_microphone(&mut self, is_open: bool) {
        self.microphone = if is_open { "Microphone on - " } else { "" };
    }

    /// The title of a window.
    pub(super) fn of_window(&self, index: usize) -> String {
        let Titles { menu, microphone, session, .. } = self;
        let display = if index == 0 { String::new() } else { format!(", display {}", index + 1) };
        format!("{menu}{microphone}{session}{display}")
    }

    /// The title of the window that has the focus while this text is being composed; empty: no
    /// longer. The overlay's font has no glyphs for it.
    pub(super) fn of_composition(&self, text: &str) -> String {
        if text.is_empty() { self.session.clone() } else { format!("{text} - {}", self.session) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_is_open_before_the_name() {
        let mut titles = Titles::new("host".to_owned());
        titles.set_name(None);
        assert_eq!(titles.of_window(0), "host - thinc");
        titles.set_name(Some("work"));
        assert_eq!(titles.of_window(1), "work (host) - thinc, display 2");
        titles.set_microphone(true);
        assert!(titles.set_menu("Sound: on") && !titles.set_menu("Sound: on"));
        assert_eq!(titles.of_window(0), "Sound: on - Microphone on - work (host) - thinc");
        assert!(titles.set_menu(""));
        titles.set_microphone(false);
        assert_eq!(titles.of_window(0), "work (host) - thinc");
    }

    #[test]
    fn a_composition_is_in_front_of_the_name_while_it_lasts() {
        let mut titles = Titles::new("host".to_owned());
        titles.set_name(None);
        assert_eq!(titles.of_composition("か"), "か - host - thinc");
        assert_eq!(titles.of_composition(""), "host - thinc");
    }
}
