//! The processes of a session at one moment. Beside the path: from /proc/PID/stat, to plan.rs.
//! Knows the kernel's text; never a file.

use std::collections::HashSet;

/// The process group and session by which a shell's job control knows a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Job {
    session: u32,
    group: u32,
}

/// A process, in the terms of proc_pid_stat(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's; 0: none in this PID namespace.
    pub parent: u32,
    /// Its process group; 0: one outside of this PID namespace.
    pub group: u32,
    /// Its session, in the sense of setsid(2); 0: one outside of this PID namespace.
    pub session: u32,
    /// Its controlling terminal (tty_nr); 0: none.
    pub terminal: u32,
    /// The foreground process group of that terminal (tpgid); 0: none.
    pub foreground: u32,
    /// utime and stime: what all its threads have used, in clock ticks.
    pub cpu_ticks: u64,
    /// Its first thread runs, or waits for a processor.
    pub wants_processor: bool,
    /// Clock ticks from the system's start to its own. With `pid` it names one process: the kernel
    /// gives the number to another one later.
    pub started_ticks: u64,
    /// rss: of its memory so many pages are not in swap, those that it shares with others included.
    pub resident_pages: u64,
    /// Its name (comm). It chooses that itself: never rely on it.
    pub name: String,
}

impl Process {
    /// Parses /proc/PID/stat. None: it has ended (a zombie), or the text is not of that form. A
    /// name may be of any bytes; the caller has replaced those that are not UTF-8.
    pub fn parse(stat: &str) -> Option<Process> {
        // A name may contain blanks and parentheses; after it there are numbers only.
        let (pid, rest) = stat.split_once('(')?;
        let (name, rest) = rest.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X" | "x") {
            return None;
        }
        // -1 stands for none; the numbers are below 2^22 (PID_MAX_LIMIT).
        let mut number =
            || -> Option<u32> { Some(fields.next()?.parse::<i32>().ok()?.max(0) as u32) };
        let (parent, group, session) = (number()?, number()?, number()?);
        // The kernel prints the bits of a device as a signed number.
        let terminal = fields.next()?.parse::<i32>().ok()? as u32;
        let foreground = fields.next()?.parse::<i32>().ok()?.max(0) as u32;
        // Between them: flags, minflt, cminflt, majflt, cmajflt; then cutime, cstime, priority,
        // nice, num_threads, itrealvalue.
        let user: u64 = fields.nth(5)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        let started_ticks = fields.nth(6)?.parse().ok()?;
        // Behind vsize. Not a reason to lose a process whose line ends earlier.
        let resident_pages = fields.nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
        Some(Process {
            pid: pid.trim().parse().ok()?,
            parent,
            group,
            session,
            terminal,
            foreground,
            cpu_ticks: user.saturating_add(system),
            wants_processor: state == "R",
            started_ticks,
            resident_pages,
            name: name.to_owned(),
        })
    }

    /// The job it belongs to. Groups outside of the PID namespace all read 0: their processes count
    /// one by one.
    pub(crate) fn job(&self) -> Job {
        let group = if self.group == 0 { self.pid } else { self.group };
        Job { session: self.session, group }
    }

    /// It is the same process as one that was seen before under this number.
    pub(crate) fn is(&self, started_ticks: u64) -> bool {
        self.started_ticks == started_ticks
    }
}

/// The processes of a session, sorted by number. Its size is bounded by the caller, who reads it,
/// and by the kernel's limit of processes for one user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    processes: Vec<Process>,
}

impl Table {
    /// A table of these. Of several with one number the last stays: it was read last.
    pub fn new(processes: impl IntoIterator<Item = Process>) -> Table {
        let mut processes: Vec<Process> = processes.into_iter().collect();
        processes.reverse();
        processes.sort_by_key(|process| process.pid);
        processes.dedup_by_key(|process| process.pid);
        Table { processes }
    }

    /// The process with this number.
    pub fn get(&self, pid: u32) -> Option<&Process> {
        let index = self.processes.binary_search_by_key(&pid, |process| process.pid).ok()?;
        Some(&self.processes[index])
    }

    /// All processes, by rising number.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter()
    }

    /// Whether this process, or an ancestor of it within its job, is one of these: a browser's
    /// content processes are of the browser, and a terminal's programs are not of the terminal.
    pub fn is_part_of(&self, pid: u32, these: &HashSet<u32>) -> bool {
        let job = self.get(pid).map(Process::job);
        let mut next = Some(pid);
        // What was read while processes ended may tell of a cycle.
        for _ in 0..self.len() {
            let Some(process) = next.and_then(|pid| self.get(pid)) else { return false };
            if Some(process.job()) != job {
                return false;
            }
            if these.contains(&process.pid) {
                return true;
            }
            next = Some(process.parent);
        }
        false
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }
}

/// Processes for the tests of this crate.
#[cfg(test)]
impl Process {
    /// Leads a session of its own, without a terminal.
    pub(crate) fn new(pid: u32, parent: u32) -> Process {
        Process {
            pid,
            parent,
            group: pid,
            session: pid,
            terminal: 0,
            foreground: 0,
            cpu_ticks: 0,
            wants_processor: false,
            started_ticks: u64::from(pid),
            resident_pages: 0,
            name: format!("p{pid}"),
        }
    }

    pub(crate) fn in_job(self, session: u32, group: u32) -> Process {
        Process { session, group, ..self }
    }

    pub(crate) fn on_terminal(self, terminal: u32, foreground: u32) -> Process {
        Process { terminal, foreground, ..self }
    }

    pub(crate) fn used(self, cpu_ticks: u64) -> Process {
        Process { cpu_ticks, ..self }
    }

    pub(crate) fn resident(self, resident_pages: u64) -> Process {
        Process { resident_pages, ..self }
    }

    pub(crate) fn started(self, started_ticks: u64) -> Process {
        Process { started_ticks, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After the name: all fields up to starttime, and those of Linux 6.12 that follow it.
    const FIELDS: &str = "1200 1234 1200 34816 1240 4194304 2141 98765 3 17 151 36 4000 500 20 0 3 \
                          0 987654 12345678 900 18446744073709551615 1 1 0 0 0 0 65536 4 65538 0 0 \
                          0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    fn line(name: &str, state: char) -> String {
        format!("1234 ({name}) {state} {FIELDS}\n")
    }

    #[test]
    fn a_line_of_the_kernel_is_parsed() {
        let process = Process {
            pid: 1234,
            parent: 1200,
            group: 1234,
            session: 1200,
            terminal: 34816,
            foreground: 1240,
            cpu_ticks: 187,
            wants_processor: false,
            started_ticks: 987_654,
            resident_pages: 900,
            name: "vi".to_owned(),
        };
        assert_eq!(Process::parse(&line("vi", 'S')), Some(process));
    }

    #[test]
    fn a_name_may_look_like_anything() {
        for name in
            ["Web Content", "(sd-pam)", ") Z 1 (", "a) S 1 2 3", "", "((", "))", "ä\u{fffd}"]
        {
            let process = Process::parse(&line(name, 'R')).expect(name);
            assert_eq!((process.name.as_str(), process.pid, process.parent), (name, 1234, 1200));
            assert!(process.wants_processor);
        }
    }

    #[test]
    fn only_a_living_process_is_one() {
        for state in ['R', 'S', 'D', 'T', 't', 'I', 'P'] {
            assert!(Process::parse(&line("a", state)).is_some(), "{state}");
        }
        for state in ['Z', 'X', 'x'] {
            assert_eq!(Process::parse(&line("a", state)), None, "{state}");
        }
    }

    #[test]
    fn what_is_absent_is_0() {
        let stat = "7 (a) S 0 -1 -1 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 5 0";
        let process = Process::parse(stat).expect("a process");
        assert_eq!((process.parent, process.group, process.session), (0, 0, 0));
        assert_eq!((process.terminal, process.foreground, process.cpu_ticks), (0, 0, 3));
    }

    #[test]
    fn a_terminal_with_a_large_minor_number_is_printed_as_negative() {
        let stat = "7 (a) S 1 7 7 -2147448832 7 0 0 0 0 0 1 2 0 0 20 0 1 0 5 0";
        assert_eq!(Process::parse(stat).map(|process| process.terminal), Some(0x8000_8800));
    }

    #[test]
    fn a_line_that_is_cut_before_its_last_field_is_none() {
        let whole = line("a (b) c", 'S');
        let expected = Process::parse(&whole);
        let past_start = whole.find("987654").expect("starttime");
        let past_pages = whole.find(" 900 ").expect("rss") + " 900".len();
        for end in 0..whole.len() {
            let parsed = Process::parse(&whole[..end]);
            if end >= past_pages {
                assert_eq!(parsed, expected, "{end}");
            } else if end >= past_start + "987654".len() {
                assert!(parsed.is_some(), "{end}");
            } else if end <= past_start {
                assert_eq!(parsed, None, "{end}");
            }
        }
        for text in ["", "(", ")", ")(", "()", "x (a) S 1", "1 (a)", "-1 (a) S 1 1 1 0 -1"] {
            assert_eq!(Process::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_browsers_processes_are_part_of_it_and_a_terminals_programs_are_not() {
        let table = Table::new([
            Process::new(1, 0).in_job(1, 1),
            Process::new(2, 1).in_job(1, 2),
            Process::new(3, 2).in_job(1, 2),
            Process::new(4, 3).in_job(1, 2),
            Process::new(5, 2).in_job(1, 5),
            Process::new(6, 5).in_job(1, 2),
            Process::new(7, 8).in_job(1, 7),
            Process::new(8, 7).in_job(1, 7),
        ]);
        let part_of = |these: &[u32]| -> Vec<u32> {
            let these = these.iter().copied().collect();
            (0..10).filter(|&pid| table.is_part_of(pid, &these)).collect()
        };
        assert_eq!(part_of(&[2]), [2, 3, 4], "6 is of its job by a parent that is not");
        assert_eq!(part_of(&[1]), [1]);
        assert_eq!(part_of(&[4, 5, 99]), [4, 5]);
        assert_eq!(part_of(&[7]), [7, 8]);
        assert_eq!(part_of(&[9]), []);
    }

    #[test]
    fn a_table_is_sorted_and_finds_its_processes() {
        let table = Table::new([5, 3, 9, 1].map(|pid| Process::new(pid, 1)));
        assert_eq!(table.iter().map(|process| process.pid).collect::<Vec<_>>(), [1, 3, 5, 9]);
        assert_eq!(table.get(9).map(|process| process.pid), Some(9));
        assert_eq!(table.get(4), None);
        assert!(table.len() == 4 && !table.is_empty());
        assert!(Table::new([]).is_empty());
    }

    #[test]
    fn of_one_number_the_process_that_was_read_last_stays() {
        let read = [(5, 1), (3, 1), (5, 7), (5, 8)];
        let table = Table::new(read.map(|(pid, started)| Process::new(pid, 1).started(started)));
        assert_eq!(table.len(), 2);
        assert_eq!(table.get(5).map(|process| process.started_ticks), Some(8));
    }

    #[test]
    fn groups_outside_of_the_namespace_are_not_one_job() {
        let [a, b] = [5, 6].map(|pid| Process::new(pid, 1).in_job(0, 0).job());
        assert_ne!(a, b);
        let [a, b] = [5, 6].map(|pid| Process::new(pid, 1).in_job(2, 3).job());
        assert_eq!(a, b);
    }
}
