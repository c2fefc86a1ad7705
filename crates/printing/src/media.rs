//! Paper sizes that the printer offers, for attributes.rs and ppd.rs, and how programs name them.
//! The viewer's own printer has the last word on paper. Knows names and sizes; no job.

/// A paper size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paper {
    /// In a PPD and for people.
    pub(crate) ppd: &'static str,
    /// As PWG 5101.1 names it.
    pub(crate) pwg: &'static str,
    /// Points of 1/72 inch, upright.
    pub(crate) points: (u16, u16),
}

const fn paper(ppd: &'static str, pwg: &'static str, width: u16, height: u16) -> Paper {
    Paper { ppd, pwg, points: (width, height) }
}

const A4: Paper = paper("A4", "iso_a4_210x297mm", 595, 842);
const LETTER: Paper = paper("Letter", "na_letter_8.5x11in", 612, 792);

/// All of them.
pub(crate) const PAPERS: [Paper; 12] = [
    A4,
    LETTER,
    paper("Legal", "na_legal_8.5x14in", 612, 1008),
    paper("A3", "iso_a3_297x420mm", 842, 1191),
    paper("A5", "iso_a5_148x210mm", 420, 595),
    paper("A6", "iso_a6_105x148mm", 298, 420),
    paper("B4", "jis_b4_257x364mm", 729, 1032),
    paper("B5", "jis_b5_182x257mm", 516, 729),
    paper("Tabloid", "na_ledger_11x17in", 792, 1224),
    paper("Executive", "na_executive_7.25x10.5in", 522, 756),
    paper("EnvDL", "iso_dl_110x220mm", 312, 624),
    paper("Env10", "na_number-10_4.125x9.5in", 297, 684),
];

/// Territories whose paper is Letter (CLDR's paperSize).
const LETTER_TERRITORIES: [&str; 14] =
    ["BZ", "CA", "CL", "CO", "CR", "GT", "MX", "NI", "PA", "PH", "PR", "SV", "US", "VE"];

impl Paper {
    /// What is usual where a locale (`en_US.UTF-8`) is.
    pub fn of_locale(locale: &str) -> Paper {
        let territory = locale.split_once('_').map_or("", |(_, rest)| rest);
        let territory = territory.split(['.', '@']).next().unwrap_or("");
        if LETTER_TERRITORIES.contains(&territory) { LETTER } else { A4 }
    }

    /// The size that a program names in either way; GTK leaves out the millimetres.
    pub(crate) fn of_name(name: &str) -> Option<Paper> {
        PAPERS.into_iter().find(|paper| {
            let without_size = paper.pwg.rsplit_once('_').map_or("", |(start, _)| start);
            [paper.ppd, paper.pwg, without_size].iter().any(|own| own.eq_ignore_ascii_case(name))
        })
    }
}

/// True if the printer offers a paper of this name (PWG 5101.1).
pub fn is_paper(name: &str) -> bool {
    PAPERS.iter().any(|paper| paper.pwg == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paper_is_found_by_either_name_and_by_locale() {
        assert_eq!(Paper::of_name("a4"), Some(A4));
        assert_eq!(Paper::of_name("na_letter_8.5x11in"), Some(LETTER));
        assert_eq!(Paper::of_name("iso_a4"), Some(A4));
        assert_eq!(Paper::of_name("Foolscap"), None);
        assert_eq!(Paper::of_name(""), None);
        let locales = ["en_US.UTF-8", "fr_CA", "de_DE@euro", "C.UTF-8", ""].map(Paper::of_locale);
        assert_eq!(locales, [LETTER, LETTER, A4, A4, A4]);
    }
}
