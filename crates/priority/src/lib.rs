//! Beside the path: which processes of a session answer the person's input, and which compute. From
//! a table of processes, which a shell reads from /proc, to the control groups that it moves them
//! to.
//! A kernel divides processors between control groups, so input is answered in time only if all
//! processes that take part in the answer are in one group, and those that compute in another.
//! Which of their pages are brought back from swap when the person comes back, paged.rs decides.
//! Knows numbers of processes and jobs, and time as an argument; never /proc, a control group, a
//! window or a clock.
#![forbid(unsafe_code)]

mod chain;
mod hogs;
mod memory;
pub mod paged;
mod plan;
mod table;

pub use memory::Memory;
pub use plan::{Move, Placed, Plan};
pub use table::{Process, Table};

use std::fmt;

/// Where a process belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// It takes part in the answer to the person's input, and is scheduled before the others.
    Answers,
    /// Neither of the others.
    Rest,
    /// It computes, or takes the memory of others, and gets what the others leave.
    Computes,
}

/// Why a process belongs there. As text it is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All X clients depend on it.
    Server,
    /// It is the X client whose window the person types into.
    Typed,
    /// It is an ancestor of that client.
    ParentOfTyped,
    /// It is a descendant of that client which reads what is typed, or draws the answer.
    ForegroundOfTyped,
    /// No rule applies.
    Other,
    /// Its job computes.
    Computes {
        /// What the whole job used over the longer window of hogs.rs: 100 is one processor.
        percent: u32,
    },
    /// Its job was ready to run all the time, and the crowded machine gave it less than `Computes`
    /// takes.
    Waits {
        /// What the whole job used in that time: 100 is one processor.
        percent: u32,
    },
    /// Its job has just ended to compute.
    ComputesNoMore,
    /// Memory is short, and its job has much of it.
    TakesMemory {
        /// Of the machine's memory.
        percent: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SECOND_US: u64 = 1_000_000;
        match self {
            Reason::Server => f.write_str("the X server and thinc"),
            Reason::Typed => f.write_str("its window is typed into"),
            Reason::ParentOfTyped => f.write_str("a parent of the program that is typed into"),
            Reason::ForegroundOfTyped => {
                f.write_str("the foreground job of the terminal that is typed into")
            }
            Reason::Other => f.write_str("other"),
            Reason::Computes { percent } => {
                let seconds = hogs::COMPUTES_US / SECOND_US;
                write!(f, "has used {percent} % of a processor for {seconds} s")
            }
            Reason::Waits { percent } => {
                let seconds = hogs::WAITS_US / SECOND_US;
                write!(f, "was ready to run for {seconds} s, with {percent} % of a processor")
            }
            Reason::ComputesNoMore => {
                let seconds = hogs::CEASES_US / SECOND_US;
                write!(f, "has used little of a processor for {seconds} s")
            }
            Reason::TakesMemory { percent } => {
                write!(f, "has {percent} % of the memory of this machine, which is short")
            }
        }
    }
}

/// What a plan is made of.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The processes of the session, and no others.
    pub table: &'a Table,
    /// The supervisor; it counts as a server.
    pub root: u32,
    /// X server, session process, sound server, supervisor, window manager.
    pub servers: &'a [u32],
    /// The X client whose window the person types into, as the X server knows it: what a window
    /// says about its process may be forged. One that is not in the table counts as none.
    pub typed: Option<u32>,
    /// None: nobody is held for the memory that they use.
    pub memory: Option<Memory>,
    /// A clock that never goes backwards.
    pub now_us: u64,
    /// For how long one processor was idle since some moment, as the mean of all of the machine's.
    /// None: unknown, and nothing is found by it.
    pub idle_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words_for_people() {
        for (reason, words) in [
            (Reason::Server, "the X server and thinc"),
            (Reason::Typed, "its window is typed into"),
            (Reason::ParentOfTyped, "a parent of the program that is typed into"),
            (Reason::ForegroundOfTyped, "the foreground job of the terminal that is typed into"),
            (Reason::Other, "other"),
            (Reason::Computes { percent: 187 }, "has used 187 % of a processor for 5 s"),
            (Reason::Waits { percent: 43 }, "was ready to run for 30 s, with 43 % of a processor"),
            (Reason::ComputesNoMore, "has used little of a processor for 2 s"),
            (
                Reason::TakesMemory { percent: 38 },
                "has 38 % of the memory of this machine, which is short",
            ),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }

    /// Lines as the kernel writes them, of an editor in a terminal beside a build, through all
    /// rules.
    #[test]
    fn an_editor_answers_and_the_build_beside_it_computes() {
        let stat = |pid: u32, name: &str, job: [u32; 3], terminal: [i32; 2], ticks: u64| {
            let [parent, group, session] = job;
            let [number, foreground] = terminal;
            format!(
                "{pid} ({name}) S {parent} {group} {session} {number} {foreground} 4194304 9 0 0 0 \
                 {ticks} 0 0 0 20 0 1 0 {pid} 1000 10 18446744073709551615\n"
            )
        };
        let none = [0, -1];
        let mut plan = Plan::new(100);
        let mut update = |second: u64| {
            let lines = [
                stat(10, "thinc", [1, 10, 10], none, 5),
                stat(11, "Xorg", [10, 11, 11], none, 5),
                stat(20, "xterm", [10, 20, 20], none, 5),
                stat(21, "bash", [20, 21, 21], [34816, 22], 5),
                stat(22, "vi", [21, 22, 21], [34816, 22], 5),
                stat(30, "xterm", [10, 30, 30], none, 5),
                stat(31, "bash", [30, 31, 31], [34817, 32], 5),
                stat(32, "make", [31, 32, 31], [34817, 32], 100 * second),
            ];
            let table = Table::new(lines.iter().filter_map(|line| Process::parse(line)));
            assert_eq!(table.len(), lines.len());
            let now_us = second * 1_000_000;
            let servers = [10, 11];
            plan.update(&Input {
                table: &table,
                root: 10,
                servers: &servers,
                typed: Some(20),
                memory: None,
                now_us,
                idle_us: None,
            })
        };
        let groups: Vec<_> =
            update(0).iter().map(|step| (step.pid, step.to, step.reason)).collect();
        assert_eq!(
            groups,
            [
                (10, Group::Answers, Reason::Server),
                (11, Group::Answers, Reason::Server),
                (20, Group::Answers, Reason::Typed),
                (21, Group::Answers, Reason::ForegroundOfTyped),
                (22, Group::Answers, Reason::ForegroundOfTyped),
                (30, Group::Rest, Reason::Other),
                (31, Group::Rest, Reason::Other),
                (32, Group::Rest, Reason::Other),
            ]
        );
        for second in 1..5 {
            assert_eq!(update(second), []);
        }
        let moves = update(5);
        assert_eq!(moves.len(), 1);
        assert_eq!((moves[0].pid, moves[0].name.as_str()), (32, "make"));
        assert_eq!((moves[0].to, moves[0].started_ticks), (Group::Computes, 32));
        assert_eq!(moves[0].reason, Reason::Computes { percent: 100 });
    }
}
