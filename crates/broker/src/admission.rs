//! Whether one more desktop would hurt those that run, by what the kernel says of pressure: how
//! much of the last time somebody had to wait for memory, processors or disks (PSI). Beside the
//! path: from system.rs, which reads the files, to waiting_line.rs, which says who may start next.
//! Knows figures; never a file, a clock or a person. What it parses is the kernel's own text, which
//! is as trusted as the kernel; it is checked all the same.

pub(crate) mod system;
pub(crate) mod waiting_line;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use waiting_line::Waiting;

/// Longest file of pressure that is read, in bytes; the kernel's have two lines of about 60.
pub(crate) const PRESSURE_BYTES_MAX: usize = 512;
/// Longest part of /proc/meminfo that is read, in bytes: what is needed stands at its beginning.
pub(crate) const MEMINFO_BYTES_MAX: usize = 4096;

/// Hundredths of a percent.
type Part = u16;
/// 100 %.
const WHOLE: Part = 10_000;

/// From where on a figure is too high, and below which it is low again. In between, what was
/// decided last holds: a desktop that has just started raises the figure, and would close the door
/// that it came through.
struct Bounds {
    close: Part,
    open: Part,
}

/// 20 % of 10 s in which somebody waited for memory: the working sets of those who are here do not
/// fit any more. Starting a desktop reads a few hundred MiB, which stays below it on a machine that
/// has them.
const MEMORY_SOME: Bounds = Bounds { close: 2000, open: 1000 };
/// 5 % of 10 s in which nobody did anything else: half a second in which every key waits.
const MEMORY_FULL: Bounds = Bounds { close: 500, open: 200 };
/// 80 % of a minute in which everybody who had something to do waited for disks. High, as one
/// backup on a machine at rest reaches half of it.
const DISKS_FULL: Bounds = Bounds { close: 8000, open: 6000 };
/// 80 % of a minute in which somebody among the desktops that are in use waited for a processor.
/// Background jobs are no part of it: they have another group, and hurt nobody.
const FOREGROUND_SOME: Bounds = Bounds { close: 8000, open: 6000 };
/// Where nothing but the whole machine is known. Background jobs are part of it, and a machine that
/// computes is no reason to refuse anybody; this is one on which everybody always waits.
const MACHINE_SOME: Bounds = Bounds { close: 9500, open: 8500 };

/// Memory that has to be available, unless the administrator says another number: what a desktop
/// with a browser takes in its first minutes, but no more than an eighth of a small machine.
const AVAILABLE_MIN: u64 = 512 << 20;
/// See [`AVAILABLE_MIN`].
const AVAILABLE_PART: u64 = 8;

/// What the administrator wants where another desktop would hurt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It starts all the same. The default: in a container pressure is that of the whole host, and
    /// nobody is refused by a rule that no administrator has chosen.
    #[default]
    Off,
    /// It does not start, and the person reads why.
    Refuse,
    /// It starts later, by itself.
    Queue,
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Policy, ()> {
        match text {
            "off" => Ok(Policy::Off),
            "refuse" => Ok(Policy::Refuse),
            "queue" => Ok(Policy::Queue),
            _ => Err(()),
        }
    }
}

/// When further desktops start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Where another desktop would hurt.
    pub policy: Policy,
    /// Bytes that have to be available; `None`: see [`AVAILABLE_MIN`].
    pub memory: Option<u64>,
}

/// What a machine is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shortage {
    /// Memory.
    Memory,
    /// Time of processors.
    Processors,
    /// Reading and writing.
    Disks,
}

/// As the end of a sentence about a server.
impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shortage::Memory => "is short of memory",
            Shortage::Processors => "is short of processor time",
            Shortage::Disks => "waits for its disks",
        })
    }
}

/// Part of the last 10 s and of the last 60 s, as the kernel averages them every 2 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Averages {
    pub(crate) ten: Part,
    pub(crate) sixty: Part,
}

/// Of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// In which some process waited.
    pub(crate) some: Averages,
    /// In which every process that had something to do waited; kernels before 5.13 do not say it of
    /// processors.
    pub(crate) full: Option<Averages>,
}

impl Pressure {
    /// Reads a file of pressure (Linux, Documentation/accounting/psi.rst); `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Pressure> {
        if text.len() > PRESSURE_BYTES_MAX {
            return None;
        }
        let (mut some, mut full) = (None, None);
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ')?;
            let kind = match kind {
                "some" => &mut some,
                "full" => &mut full,
                _ => return None,
            };
            if kind.replace(averages(rest)?).is_some() {
                return None;
            }
        }
        Some(Pressure { some: some?, full })
    }
}

/// `avg10=N avg60=N avg300=N total=N`.
fn averages(text: &str) -> Option<Averages> {
    let mut fields = text.split(' ');
    let mut next = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix('=');
    let (ten, sixty, three_hundred) = (next("avg10")?, next("avg60")?, next("avg300")?);
    let total = next("total")?;
    part(three_hundred)?;
    total.parse::<u64>().ok().filter(|_| is_number(total))?;
    let averages = Averages { ten: part(ten)?, sixty: part(sixty)? };
    fields.next().is_none().then_some(averages)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A percentage with two decimals.
fn part(text: &str) -> Option<Part> {
    let (whole, decimals) = text.split_once('.')?;
    if !is_number(whole) || whole.len() > 3 || !is_number(decimals) || decimals.len() != 2 {
        return None;
    }
    let part = whole.parse::<Part>().ok()?.checked_mul(100)? + decimals.parse::<Part>().ok()?;
    (part <= WHOLE).then_some(part)
}

/// Bytes of memory, as the kernel tells them to everybody (proc(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) total: u64,
    /// For new programs, without swapping.
    pub(crate) available: u64,
}

impl Memory {
    /// Reads the beginning of /proc/meminfo.
    pub(crate) fn parse(text: &str) -> Option<Memory> {
        let of = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            let number = line.strip_suffix(" kB")?.trim_start();
            number.parse::<u64>().ok().filter(|_| is_number(number))?.checked_mul(1024)
        };
        Some(Memory { total: of("MemTotal")?, available: of("MemAvailable")? })
    }
}

/// What processors' pressure is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All that runs.
    #[default]
    Machine,
    /// Desktops that are in use.
    Foreground,
}

/// Figures of one moment; `None` where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) processors: Option<(Whose, Pressure)>,
    pub(crate) memory: Option<Pressure>,
    pub(crate) disks: Option<Pressure>,
    pub(crate) available: Option<Memory>,
}

impl Reading {
    /// What is short, of memory first: that is what stalls typing for seconds. `before`: what was
    /// by the last decision. While no desktop runs, nobody waits for processors or
    /// disks: a backup at night refuses nobody.
    pub(crate) fn shortage(
        &self,
        admission: &Admission,
        before: Option<Shortage>,
        has_desktops: bool,
    ) -> Option<Shortage> {
        let is_high = |part: Part, bounds: &Bounds, of: Shortage| {
            part >= if before == Some(of) { bounds.open } else { bounds.close }
        };
        let lacks = |memory: &Memory| {
            let least = AVAILABLE_MIN.min(memory.total / AVAILABLE_PART);
            let least = admission.memory.unwrap_or(least);
            // A quarter more before it opens again.
            memory.available
                < if before == Some(Shortage::Memory) {
                    least.saturating_add(least / 4)
                } else {
                    least
                }
        };
        let waits_for_memory = |memory: &Pressure| {
            is_high(memory.some.ten, &MEMORY_SOME, Shortage::Memory)
                || memory.full.is_some_and(|full| is_high(full.ten, &MEMORY_FULL, Shortage::Memory))
        };
        if self.available.as_ref().is_some_and(lacks)
            || self.memory.as_ref().is_some_and(waits_for_memory)
        {
            return Some(Shortage::Memory);
        }
        let waits_for_processors = |(whose, pressure): &(Whose, Pressure)| {
            let bounds = match whose {
                Whose::Machine => &MACHINE_SOME,
                Whose::Foreground => &FOREGROUND_SOME,
            };
            is_high(pressure.some.sixty, bounds, Shortage::Processors)
        };
        if has_desktops && self.processors.as_ref().is_some_and(waits_for_processors) {
            return Some(Shortage::Processors);
        }
        let full = self.disks.and_then(|disks| disks.full);
        let waits_for_disks =
            full.is_some_and(|full| is_high(full.sixty, &DISKS_FULL, Shortage::Disks));
        (has_desktops && waits_for_disks).then_some(Shortage::Disks)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const USUAL: &str = "some avg10=12.69 avg60=5.63 avg300=3.69 total=17936195\n\
                         full avg10=0.00 avg60=100.00 avg300=0.00 total=0\n";

    #[test]
    fn a_file_of_pressure_is_read_and_nothing_that_looks_like_one() {
        let some = Averages { ten: 1269, sixty: 563 };
        let full = Some(Averages { ten: 0, sixty: WHOLE });
        assert_eq!(Pressure::parse(USUAL), Some(Pressure { some, full }));
        let first = USUAL.lines().next().unwrap();
        assert_eq!(Pressure::parse(first), Some(Pressure { some, full: None }));
        let second = USUAL.lines().nth(1).unwrap();
        let long = format!("{USUAL}{}", " ".repeat(PRESSURE_BYTES_MAX));
        let bad = [
            "",
            "some",
            second,
            &long,
            &format!("{first}\n{first}\n"),
            &format!("{first}\n\n{second}"),
            &first.replace("some", "any"),
            &first.replace("12.69", "12.6"),
            &first.replace("12.69", "100.01"),
            &first.replace("12.69", "-1.00"),
            &first.replace("12.69", "+1.00"),
            &first.replace("12.69", "1e1.00"),
            &first.replace("12.69", "0012.69"),
            &first.replace("5.63", ""),
            &first.replace("avg300", "avg600"),
            &first.replace("=17936195", "=18446744073709551616"),
            &first.replace("=17936195", "=-1"),
            &format!("{first} more=1"),
        ];
        for bad in bad {
            assert_eq!(Pressure::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn available_memory_is_read_with_its_unit() {
        let text =
            "MemTotal:        8029412 kB\nMemFree:          123 kB\nMemAvailable:  1024 kB\n";
        let memory = Memory { total: 8_029_412 << 10, available: 1 << 20 };
        assert_eq!(Memory::parse(text), Some(memory));
        for bad in ["", "MemTotal: 1 kB\n", &text.replace("1024 kB", "1024 MB"), "MemTotal:\n"] {
            assert_eq!(Memory::parse(bad), None, "{bad:?}");
        }
        let huge = text.replace("1024 kB", "18446744073709551615 kB");
        assert_eq!(Memory::parse(&huge), None);
    }

    fn pressure(some: Part, full: Part) -> Option<Pressure> {
        let of = |part| Averages { ten: part, sixty: part };
        Some(Pressure { some: of(some), full: Some(of(full)) })
    }

    fn short(reading: &Reading, before: Option<Shortage>) -> Option<Shortage> {
        reading.shortage(&Admission::default(), before, true)
    }

    #[test]
    fn each_resource_has_bounds_and_between_them_the_last_decision_holds() {
        let memory = |some, full| Reading { memory: pressure(some, full), ..Reading::default() };
        let disks = |full| Reading { disks: pressure(WHOLE, full), ..Reading::default() };
        let processors = |whose, some| Reading {
            processors: pressure(some, 0).map(|pressure| (whose, pressure)),
            ..Reading::default()
        };
        let has = |available| Reading {
            available: Some(Memory { total: 64 << 30, available }),
            ..Reading::default()
        };
        // Too high, between the bounds, and low again.
        let cases = [
            (memory(2000, 0), memory(1999, 0), memory(999, 0), Shortage::Memory),
            (memory(0, 500), memory(0, 499), memory(0, 199), Shortage::Memory),
            (has((512 << 20) - 1), has(512 << 20), has(640 << 20), Shortage::Memory),
            (disks(8000), disks(7999), disks(5999), Shortage::Disks),
            (
                processors(Whose::Foreground, 8000),
                processors(Whose::Foreground, 7999),
                processors(Whose::Foreground, 5999),
                Shortage::Processors,
            ),
            (
                processors(Whose::Machine, 9500),
                processors(Whose::Machine, 9499),
                processors(Whose::Machine, 8499),
                Shortage::Processors,
            ),
        ];
        for (high, between, low, shortage) in cases {
            assert_eq!(short(&high, None), Some(shortage), "{high:?}");
            assert_eq!(short(&between, None), None, "{between:?}");
            for before in [Shortage::Memory, Shortage::Processors, Shortage::Disks] {
                let expected = (before == shortage).then_some(shortage);
                assert_eq!(short(&between, Some(before)), expected, "{between:?}");
            }
            assert_eq!(short(&low, Some(shortage)), None, "{low:?}");
        }
        let nothing = short(&Reading::default(), Some(Shortage::Memory));
        assert_eq!(nothing, None, "a kernel that tells nothing");
    }

    #[test]
    fn who_is_the_first_waits_for_memory_alone() {
        let busy = Reading {
            processors: pressure(WHOLE, 0).map(|pressure| (Whose::Machine, pressure)),
            disks: pressure(WHOLE, WHOLE),
            ..Reading::default()
        };
        let admission = Admission::default();
        assert_eq!(busy.shortage(&admission, None, false), None);
        assert_eq!(busy.shortage(&admission, None, true), Some(Shortage::Processors));
        let full = Reading { memory: pressure(WHOLE, WHOLE), ..busy };
        assert_eq!(full.shortage(&admission, None, false), Some(Shortage::Memory));
    }

    #[test]
    fn a_small_machine_needs_less_and_an_administrator_says_how_much() {
        let has = |total, available| Reading {
            available: Some(Memory { total, available }),
            ..Reading::default()
        };
        assert_eq!(short(&has(1 << 30, 128 << 20), None), None);
        assert_eq!(short(&has(1 << 30, (128 << 20) - 1), None), Some(Shortage::Memory));
        let admission = Admission { memory: Some(4 << 30), ..Admission::default() };
        let short = |available| has(64 << 30, available).shortage(&admission, None, false);
        assert_eq!(short((4 << 30) - 1), Some(Shortage::Memory));
        assert_eq!(short(4 << 30), None);
    }

    proptest! {
        #[test]
        fn what_the_kernel_writes_is_read(ten in 0..=WHOLE, sixty in 0..=WHOLE, total: u64) {
            let line = |kind: &str| {
                format!(
                    "{kind} avg10={}.{:02} avg60={}.{:02} avg300=0.00 total={total}\n",
                    ten / 100, ten % 100, sixty / 100, sixty % 100,
                )
            };
            let averages = Averages { ten, sixty };
            prop_assert_eq!(
                Pressure::parse(&(line("some") + &line("full"))),
                Some(Pressure { some: averages, full: Some(averages) })
            );
        }

        #[test]
        fn no_text_is_too_much(text in ".{0,600}", at in 0..USUAL.len(), byte: u8) {
            let _ = (Pressure::parse(&text), Memory::parse(&text));
            // One byte of a file is another one.
            let mut bytes = USUAL.as_bytes().to_vec();
            bytes[at] = byte;
            if let Some(read) = Pressure::parse(&String::from_utf8_lossy(&bytes)) {
                prop_assert!(read.some.ten <= WHOLE && read.some.sixty <= WHOLE);
            }
        }
    }
}
