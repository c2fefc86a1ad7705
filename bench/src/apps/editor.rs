//! A program with much memory that answers each key: `thinc-bench app editor` reads keys from its
//! terminal, touches a part of its memory for each, as an editor does that has lain in the
//! background, and echoes it. Knows memory and a terminal; nothing of X.

use std::io::{Read as _, Write as _};

use super::photo::mix;
use crate::Error;

/// Options of `thinc-bench app editor`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Its memory, MB (10^6 bytes).
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    megabytes: u32,
    /// What a key touches of it, MB; with the next key the next part.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    touched: u32,
}

/// Of every Linux that thinc runs on; with larger pages some are touched twice.
const PAGE: usize = 4096;

/// Memory whose content no swap compresses.
pub(super) struct Memory(Vec<u8>);

impl Memory {
    /// So many megabytes.
    pub(super) fn of(megabytes: u32) -> Memory {
        let bytes = megabytes as usize * 1_000_000;
        let mut memory = Vec::with_capacity(bytes);
        for place in 0..bytes as u64 / 8 {
            memory.extend_from_slice(&mix(place).to_le_bytes());
        }
        Memory(memory)
    }

    pub(super) fn pages(&self) -> usize {
        self.0.len().div_ceil(PAGE)
    }

    /// Writes one byte of each of `count` pages from `first` on, round and round.
    pub(super) fn touch(&mut self, first: usize, count: usize) {
        let pages = self.pages();
        for page in first..first + count {
            let byte = &mut self.0[page % pages * PAGE];
            *byte = std::hint::black_box(byte.wrapping_add(1));
        }
    }
}

/// Echoes until its terminal ends.
pub fn run(options: &Options) -> Result<(), Error> {
    if options.touched > options.megabytes {
        return Err(format!(
            "a key cannot touch {} MB of {}: name fewer with --touched",
            options.touched, options.megabytes
        )
        .into());
    }
    let mut memory = Memory::of(options.megabytes);
    let count = options.touched as usize * 1_000_000 / PAGE;
    let (mut keys, mut echo) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut key, mut first) = ([0], 0);
    while keys.read(&mut key)? > 0 {
        memory.touch(first, count);
        first = (first + count) % memory.pages();
        echo.write_all(&key)?;
        echo.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_touches_its_part_and_the_last_part_goes_on_at_the_beginning() {
        let mut memory = Memory::of(1);
        assert_eq!((memory.0.len(), memory.pages()), (1_000_000, 245));
        let before = memory.0.clone();
        memory.touch(240, 10);
        let touched: Vec<usize> =
            (0..245).filter(|page| memory.0[page * PAGE] != before[page * PAGE]).collect();
        assert_eq!(touched, [0, 1, 2, 3, 4, 240, 241, 242, 243, 244]);
        let changed = memory.0.iter().zip(&before).filter(|(now, before)| now != before);
        assert_eq!(changed.count(), 10, "one byte of each page");
    }
}
