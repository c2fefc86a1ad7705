//! Path 3/13: beside ring.rs, from the gamma block, to the session.
//! What the pixels of each output become when they are shown. Knows words; never who shows them.

use std::array;

use crate::abi;
use crate::mapping::Mapping;
use crate::ring::Output;

/// What X clients have set for one output: a value of each channel is shown as the table's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputGamma {
    /// Where the output is.
    pub output: Output,
    /// Red, green and blue.
    pub channels: [[u8; abi::GAMMA_ENTRIES]; 3],
}

/// One table for each enabled output, or none if no output changes a colour. None: X was writing
/// the block all the while, and says so afterwards.
pub(crate) fn read(mapping: &Mapping) -> Option<Vec<OutputGamma>> {
    mapping.block(abi::GAMMA, |word| {
        let count = (word(2) as usize).min(abi::OUTPUTS_MAX);
        let table = |index: usize| {
            let at = abi::GAMMA_TABLES_WORD + index * abi::GAMMA_TABLE_WORDS;
            let output = Output::from_words(word, at)?;
            let entry = |byte: usize| word(at + 4 + byte / 4).to_ne_bytes()[byte % 4];
            let channel = |channel: usize| {
                array::from_fn(|value| entry(channel * abi::GAMMA_ENTRIES + value))
            };
            Some(OutputGamma { output, channels: array::from_fn(channel) })
        };
        (0..count).filter_map(table).collect()
    })
}
