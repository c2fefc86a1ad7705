//! Where each process belongs, and which have to be moved there. Beside the path: from table.rs,
//! chain.rs and hogs.rs, to a shell, which writes the moves into control groups.
//!
//! A child starts in the control group of its parent, so most processes never have to be moved: the
//! plan knows where each one is, and lists only those that are elsewhere, or may be.
//! Knows numbers, names and rules; never a control group.

use std::collections::{BTreeMap, BTreeSet};

use crate::chain::chain;
use crate::hogs::{Load, Meter, Now};
use crate::memory::Holds;
use crate::table::{Job, Process, Table};
use crate::{Group, Input, Reason};

/// A process that has to be moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The process.
    pub pid: u32,
    /// When it started: if the process of that number started at another time, it is another one.
    pub started_ticks: u64,
    /// Its name, for people.
    pub name: String,
    /// Where it belongs.
    pub to: Group,
    /// Why.
    pub reason: Reason,
}

/// Where a process is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Where it belongs.
    pub group: Group,
    /// Why.
    pub reason: Reason,
    /// What it used between the last two updates that were at least 250 ms apart, in percent of one
    /// processor.
    pub percent: u32,
    /// The kernel did not let it be moved there.
    pub refused: bool,
}

/// What is known of a process's place beside the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It was there before the last update.
    Settled,
    /// The last update listed it: children that it had before the move are elsewhere.
    Moved,
    /// The kernel refused to move it, so it is elsewhere.
    Refused,
}

#[derive(Debug)]
struct Place {
    started_ticks: u64,
    name: String,
    group: Group,
    reason: Reason,
    standing: Standing,
}

/// The places of all processes of a session. It remembers those of the last table and no others.
#[derive(Debug)]
pub struct Plan {
    meter: Meter,
    holds: Holds,
    places: BTreeMap<u32, Place>,
}

impl Plan {
    /// A plan of nothing yet.
    ///
    /// # Panics
    /// If `ticks_per_second` is 0. It is sysconf(_SC_CLK_TCK), 100 on Linux.
    pub fn new(ticks_per_second: u64) -> Plan {
        let meter = Meter::new(ticks_per_second);
        Plan { meter, holds: Holds::default(), places: BTreeMap::new() }
    }

    /// Decides where each process belongs, and returns those that are elsewhere or may be, parents
    /// before their children. The caller moves them before it reads the next table, about once a
    /// second and at once if another window is typed into.
    pub fn update(&mut self, input: &Input) -> Vec<Move> {
        let now = Now { us: input.now_us, idle_us: input.idle_us };
        self.meter.measure(input.table, now);
        self.holds.measure(input.table, input.memory);
        let rules = Rules::new(input, &self.meter, &self.holds);
        let mut processes: Vec<&Process> = input.table.iter().collect();
        // A parent is older than its children: its place is known first.
        processes.sort_by_key(|process| (process.started_ticks, process.pid));
        let mut places = BTreeMap::new();
        let mut moves = Vec::new();
        for process in processes {
            let (group, reason) = rules.place(process);
            let standing = match find(&self.places, process) {
                Some(place) if place.group != group => Standing::Moved,
                Some(Place { standing: Standing::Refused, .. }) => Standing::Refused,
                Some(_) => Standing::Settled,
                None if self.inherited(process, input.table, &places) == Some(group) => {
                    Standing::Settled
                }
                None => Standing::Moved,
            };
            let &Process { pid, started_ticks, ref name, .. } = process;
            if standing == Standing::Moved {
                moves.push(Move { pid, started_ticks, name: name.clone(), to: group, reason });
            }
            let name = name.clone();
            places.insert(pid, Place { started_ticks, name, group, reason, standing });
        }
        self.places = places;
        let exempt = rules.exempt;
        exempt.into_iter().for_each(|job| self.meter.begin_again(job));
        moves
    }

    /// The group in which a process started that was not seen before: its parent's. None: unknown.
    /// `places` are the new ones of processes that are older.
    fn inherited(
        &self,
        process: &Process,
        table: &Table,
        places: &BTreeMap<u32, Place>,
    ) -> Option<Group> {
        let parent = table.get(process.parent)?;
        // An orphan's parent is the process that has adopted it, in whose group it did not start.
        // The same session makes it a child by birth, but for a leader that adopts from its own.
        if parent.session != process.session {
            return None;
        }
        let place = find(&self.places, parent).or_else(|| find(places, parent))?;
        (place.standing == Standing::Settled).then_some(place.group)
    }

    /// All processes have been moved elsewhere: the next update lists all of them, those too that
    /// the kernel refused to move.
    pub fn forget_places(&mut self) {
        self.places.clear();
    }

    /// The kernel refused to move this process. It is not listed again until it belongs elsewhere.
    pub fn refused(&mut self, pid: u32) {
        if let Some(place) = self.places.get_mut(&pid) {
            place.standing = Standing::Refused;
        }
    }

    /// Those that answer, in the order in which input passes them: the servers, the client that is
    /// typed into, its descendants, its ancestors.
    pub fn answering(&self) -> Vec<u32> {
        let order = |reason| match reason {
            Reason::Server => 0,
            Reason::Typed => 1,
            Reason::ParentOfTyped => 3,
            _ => 2,
        };
        let answering = self.places.iter().filter(|(_, place)| place.group == Group::Answers);
        let mut all: Vec<_> = answering.map(|(&pid, place)| (order(place.reason), pid)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, pid)| pid).collect()
    }

    /// All processes of the last update, by rising number.
    pub fn placed(&self) -> impl Iterator<Item = Placed> {
        self.places.iter().map(|(&pid, place)| Placed {
            pid,
            name: place.name.clone(),
            group: place.group,
            reason: place.reason,
            percent: self.meter.percent(pid),
            refused: place.standing == Standing::Refused,
        })
    }
}

/// The place of this process, and not of another one that had its number.
fn find<'a>(places: &'a BTreeMap<u32, Place>, process: &Process) -> Option<&'a Place> {
    places.get(&process.pid).filter(|place| process.is(place.started_ticks))
}

/// What decides in one update.
struct Rules<'a> {
    meter: &'a Meter,
    holds: &'a Holds,
    servers: BTreeSet<u32>,
    chain: BTreeMap<u32, Reason>,
    /// Jobs that never compute, whatever they use: those of servers, and of the client that is
    /// typed into and its ancestors. All input waits for them.
    exempt: BTreeSet<Job>,
    /// Jobs that the person watches, since they are in the foreground of what is typed into.
    watched: BTreeSet<Job>,
}

impl Rules<'_> {
    fn new<'a>(input: &Input, meter: &'a Meter, holds: &'a Holds) -> Rules<'a> {
        let servers: BTreeSet<u32> = input.servers.iter().copied().chain([input.root]).collect();
        let chain = chain(input, &servers);
        let (mut exempt, mut watched) = (BTreeSet::new(), BTreeSet::new());
        let members = servers.iter().chain(chain.keys()).filter_map(|pid| input.table.get(*pid));
        for member in members {
            let is_watched = chain.get(&member.pid) == Some(&Reason::ForegroundOfTyped);
            let jobs = if is_watched { &mut watched } else { &mut exempt };
            jobs.insert(member.job());
        }
        Rules { meter, holds, servers, chain, exempt, watched }
    }

    fn place(&self, process: &Process) -> (Group, Reason) {
        if self.servers.contains(&process.pid) {
            return (Group::Answers, Reason::Server);
        }
        let job = process.job();
        // Also the job that the person watches: what it pages out is all that they need next.
        if let Some(percent) = self.holds.percent(job, &self.exempt) {
            return (Group::Computes, Reason::TakesMemory { percent });
        }
        let load = if self.exempt.contains(&job) { Load::Ordinary } else { self.meter.load(job) };
        // The echo of a terminal must not wait behind the compilers that it shows.
        let computes = if self.watched.contains(&job) { Group::Rest } else { Group::Computes };
        match (self.chain.get(&process.pid), load) {
            (_, Load::Computes { percent }) => (computes, Reason::Computes { percent }),
            (_, Load::Waits { percent }) => (computes, Reason::Waits { percent }),
            (Some(_), Load::Ceased) => (Group::Answers, Reason::ComputesNoMore),
            (None, Load::Ceased) => (Group::Rest, Reason::ComputesNoMore),
            (Some(&reason), Load::Ordinary) => (Group::Answers, reason),
            (None, Load::Ordinary) => (Group::Rest, Reason::Other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::Memory;
    use crate::paged::Machine;

    use Group::{Answers, Computes, Rest};
    use Reason::{ComputesNoMore, ForegroundOfTyped, Other, ParentOfTyped, Server, Typed};

    const ROOT: u32 = 10;
    const X_SERVER: u32 = 11;
    /// A terminal emulator, its shell, and the shell's foreground job and that job's child.
    const TERMINAL: u32 = 30;
    const SHELL: u32 = 31;
    const MAKE: u32 = 32;
    const COMPILER: u32 = 33;
    /// Another X client.
    const EDITOR: u32 = 40;

    /// A session whose time and processes a test sets.
    struct Session {
        plan: Plan,
        processes: Vec<Process>,
        typed: Option<u32>,
        available: u64,
        now_us: u64,
    }

    impl Session {
        /// A desktop on which the person types into the terminal. All is placed and settled.
        fn new() -> Session {
            let tty = |pid, parent, group| {
                Process::new(pid, parent).in_job(SHELL, group).on_terminal(7, MAKE)
            };
            let processes = vec![
                Process::new(ROOT, 1),
                Process::new(X_SERVER, ROOT),
                Process::new(TERMINAL, ROOT),
                tty(SHELL, TERMINAL, SHELL),
                tty(MAKE, SHELL, MAKE),
                tty(COMPILER, MAKE, MAKE),
                Process::new(EDITOR, ROOT),
            ];
            let (plan, typed) = (Plan::new(100), Some(TERMINAL));
            let mut session = Session { plan, processes, typed, available: 1000, now_us: 0 };
            assert_eq!(session.update().len(), session.processes.len());
            assert_eq!(session.update(), []);
            session
        }

        fn update(&mut self) -> Vec<(u32, Group, Reason)> {
            let table = Table::new(self.processes.clone());
            let moves = self.plan.update(&Input {
                table: &table,
                root: ROOT,
                servers: &[X_SERVER],
                typed: self.typed,
                memory: Some(Memory {
                    machine: Machine { total: 1000, available: self.available, swap_used: 0 },
                    page_bytes: 1,
                }),
                now_us: self.now_us,
                idle_us: Some(0),
            });
            for step in &moves {
                let process = table.get(step.pid).expect("a process of the table");
                assert!(process.is(step.started_ticks) && process.name == step.name);
            }
            moves.into_iter().map(|step| (step.pid, step.to, step.reason)).collect()
        }

        /// For so many seconds processes use so many percent; the moves of all updates.
        fn run(&mut self, seconds: u64, loads: &[(u32, u64)]) -> Vec<(u32, Group, Reason)> {
            let mut moves = Vec::new();
            for _ in 0..seconds {
                self.now_us += 1_000_000;
                for (pid, percent) in loads {
                    self.process(*pid).cpu_ticks += percent;
                }
                moves.extend(self.update());
            }
            moves
        }

        fn process(&mut self, pid: u32) -> &mut Process {
            self.processes.iter_mut().find(|process| process.pid == pid).expect("a process")
        }

        fn place(&self, pid: u32) -> Placed {
            self.plan.placed().find(|placed| placed.pid == pid).expect("a placed process")
        }
    }

    #[test]
    fn each_process_has_a_place_and_a_reason() {
        let session = Session::new();
        let placed: Vec<_> =
            session.plan.placed().map(|place| (place.pid, place.group, place.reason)).collect();
        assert_eq!(
            placed,
            [
                (ROOT, Answers, Server),
                (X_SERVER, Answers, Server),
                (TERMINAL, Answers, Typed),
                (SHELL, Answers, ForegroundOfTyped),
                (MAKE, Answers, ForegroundOfTyped),
                (COMPILER, Answers, ForegroundOfTyped),
                (EDITOR, Rest, Other),
            ]
        );
        let expected = Placed {
            pid: EDITOR,
            name: format!("p{EDITOR}"),
            group: Rest,
            reason: Other,
            percent: 0,
            refused: false,
        };
        assert_eq!(session.place(EDITOR), expected);
    }

    #[test]
    fn the_chain_follows_the_person_and_nothing_else_moves() {
        let mut session = Session::new();
        session.typed = Some(EDITOR);
        let moves = [
            (TERMINAL, Rest, Other),
            (SHELL, Rest, Other),
            (MAKE, Rest, Other),
            (COMPILER, Rest, Other),
            (EDITOR, Answers, Typed),
        ];
        assert_eq!(session.update(), moves);
        assert_eq!(session.update(), []);
        session.typed = Some(999);
        assert_eq!(session.update(), [(EDITOR, Rest, Other)]);
        session.typed = None;
        assert_eq!(session.update(), []);
    }

    #[test]
    fn who_takes_the_last_of_the_memory_is_held_unless_it_is_typed_into() {
        let mut session = Session::new();
        session.process(EDITOR).resident_pages = 400;
        session.process(COMPILER).resident_pages = 300;
        session.process(X_SERVER).resident_pages = 900;
        assert_eq!(session.update(), []);
        session.available = 50;
        let takes = |percent| Reason::TakesMemory { percent };
        // The compiler's whole job, also while the person watches it.
        let moves = [
            (MAKE, Computes, takes(30)),
            (COMPILER, Computes, takes(30)),
            (EDITOR, Computes, takes(40)),
        ];
        assert_eq!(session.update(), moves);
        session.typed = Some(EDITOR);
        assert_eq!(
            session.update(),
            [(TERMINAL, Rest, Other), (SHELL, Rest, Other), (EDITOR, Answers, Typed)]
        );
        session.available = 500;
        assert_eq!(session.update(), [(MAKE, Rest, Other), (COMPILER, Rest, Other)]);
    }

    #[test]
    fn an_ancestor_that_is_no_server_answers() {
        let mut session = Session::new();
        assert_eq!(session.plan.answering(), [ROOT, X_SERVER, TERMINAL, SHELL, MAKE, COMPILER]);
        session.processes.push(Process::new(20, ROOT));
        session.process(EDITOR).parent = 20;
        session.typed = Some(EDITOR);
        assert!(session.update().contains(&(20, Answers, ParentOfTyped)));
        assert_eq!(session.plan.answering(), [ROOT, X_SERVER, EDITOR, 20]);
    }

    #[test]
    fn a_server_answers_whatever_it_uses_and_its_job_never_computes() {
        let mut session = Session::new();
        session.processes.push(Process::new(50, X_SERVER).in_job(X_SERVER, X_SERVER));
        session.update();
        assert_eq!(session.run(20, &[(X_SERVER, 100), (50, 300), (ROOT, 100)]), []);
        assert_eq!((session.place(X_SERVER).group, session.place(50).group), (Answers, Rest));
    }

    #[test]
    fn the_client_and_its_ancestors_never_compute_while_they_are_typed_into() {
        let mut session = Session::new();
        session.process(EDITOR).parent = SHELL;
        session.typed = Some(EDITOR);
        session.update();
        assert_eq!(session.run(20, &[(EDITOR, 400), (SHELL, 100), (TERMINAL, 100)]), []);
        session.typed = None;
        let reason = |percent| Reason::Computes { percent };
        assert_eq!(
            session.run(1, &[(EDITOR, 400), (SHELL, 100)]),
            [
                (TERMINAL, Computes, reason(80)),
                (SHELL, Computes, reason(100)),
                (EDITOR, Computes, reason(400))
            ]
        );
        session.typed = Some(EDITOR);
        assert_eq!(
            session.run(1, &[(EDITOR, 400), (SHELL, 100)]),
            [
                (TERMINAL, Answers, ParentOfTyped),
                (SHELL, Answers, ParentOfTyped),
                (EDITOR, Answers, Typed)
            ]
        );
    }

    #[test]
    fn a_job_that_computes_moves_as_a_whole_and_comes_back() {
        let mut session = Session::new();
        session.typed = Some(EDITOR);
        session.update();
        assert_eq!(session.run(4, &[(COMPILER, 187)]), []);
        let reason = Reason::Computes { percent: 187 };
        assert_eq!(
            session.run(1, &[(COMPILER, 187)]),
            [(MAKE, Computes, reason), (COMPILER, Computes, reason)]
        );
        assert_eq!(session.run(10, &[(COMPILER, 187)]), []);
        assert_eq!((session.place(COMPILER).percent, session.place(MAKE).percent), (187, 0));
        assert_eq!(session.run(1, &[]), []);
        assert_eq!(
            session.run(1, &[]),
            [(MAKE, Rest, ComputesNoMore), (COMPILER, Rest, ComputesNoMore)]
        );
        assert_eq!(session.run(1, &[]), []);
        assert_eq!(session.place(MAKE).reason, Other);
    }

    #[test]
    fn a_foreground_job_that_computes_neither_answers_nor_starves() {
        let mut session = Session::new();
        let reason = |percent| Reason::Computes { percent };
        assert_eq!(
            session.run(5, &[(COMPILER, 200)]),
            [(MAKE, Rest, reason(200)), (COMPILER, Rest, reason(200))]
        );
        assert_eq!(session.place(SHELL).group, Answers);
        // The person types elsewhere, and comes back.
        session.typed = Some(EDITOR);
        let moves = session.run(1, &[(COMPILER, 200)]);
        assert!(moves.contains(&(COMPILER, Computes, reason(200))), "{moves:?}");
        session.typed = Some(TERMINAL);
        let moves = session.run(1, &[(COMPILER, 200)]);
        assert!(moves.contains(&(COMPILER, Rest, reason(200))), "{moves:?}");
        // It waits for the person.
        assert_eq!(
            session.run(2, &[]),
            [(MAKE, Answers, ComputesNoMore), (COMPILER, Answers, ComputesNoMore)]
        );
        assert_eq!(session.run(1, &[]), []);
        assert_eq!(session.place(MAKE).reason, ForegroundOfTyped);
    }

    #[test]
    fn a_background_job_of_the_typed_terminal_computes() {
        let mut session = Session::new();
        session.processes.iter_mut().for_each(|process| process.foreground = SHELL);
        session.update();
        let reason = Reason::Computes { percent: 100 };
        assert_eq!(
            session.run(5, &[(COMPILER, 100)]),
            [(MAKE, Computes, reason), (COMPILER, Computes, reason)]
        );
    }

    #[test]
    fn a_child_starts_where_its_parent_is() {
        let mut session = Session::new();
        let child =
            |pid, parent| Process::new(pid, parent).in_job(SHELL, MAKE).on_terminal(7, MAKE);
        // With a child of its own that is as new.
        session.processes.extend([child(50, MAKE), child(51, 50)]);
        assert_eq!(session.update(), []);
        assert_eq!(session.place(51).group, Answers);
        // A new process whose place is not its parent's.
        session.processes.push(Process::new(52, EDITOR).in_job(EDITOR, EDITOR));
        session.processes.push(Process::new(53, X_SERVER).in_job(X_SERVER, X_SERVER));
        assert_eq!(session.update(), [(53, Rest, Other)]);
    }

    #[test]
    fn a_child_of_a_process_that_moves_is_where_the_process_was() {
        let mut session = Session::new();
        session.processes.push(Process::new(50, EDITOR).in_job(EDITOR, EDITOR));
        session.typed = Some(EDITOR);
        // It was born in Rest.
        let moves = session.update();
        assert!(moves.contains(&(50, Answers, ForegroundOfTyped)), "{moves:?}");
        // It may have been born after the table was read, and before its parent was moved.
        session.processes.push(Process::new(51, EDITOR).in_job(EDITOR, EDITOR));
        assert_eq!(session.update(), [(51, Answers, ForegroundOfTyped)]);
        session.processes.push(Process::new(52, EDITOR).in_job(EDITOR, EDITOR));
        assert_eq!(session.update(), []);
    }

    #[test]
    fn a_process_whose_start_is_unknown_is_listed() {
        let mut session = Session::new();
        // No parent in the table; and one that may have adopted it, in the same group as it.
        session.processes.extend([Process::new(50, 1), Process::new(51, EDITOR)]);
        assert_eq!(session.update(), [(50, Rest, Other), (51, Rest, Other)]);
    }

    #[test]
    fn another_process_with_the_same_number_is_new() {
        let mut session = Session::new();
        session.process(EDITOR).started_ticks += 1;
        assert_eq!(session.update(), [(EDITOR, Rest, Other)]);
        // Its child started in the group of a parent that is not known by this number.
        session.process(EDITOR).started_ticks += 1;
        session.processes.push(Process::new(50, EDITOR).in_job(EDITOR, EDITOR));
        assert_eq!(session.update(), [(EDITOR, Rest, Other), (50, Rest, Other)]);
        assert_eq!(session.update(), []);
    }

    #[test]
    fn on_a_crowded_machine_what_is_always_ready_to_run_computes() {
        let mut session = Session::new();
        for pid in [MAKE, EDITOR] {
            session.process(pid).wants_processor = true;
        }
        let moves = session.run(60, &[(MAKE, 30), (EDITOR, 20)]);
        let waits = |percent| Reason::Waits { percent };
        let expected =
            [(MAKE, Rest, waits(30)), (COMPILER, Rest, waits(30)), (EDITOR, Computes, waits(20))];
        assert_eq!(moves, expected, "the terminal shows its foreground job");
        session.typed = Some(EDITOR);
        assert!(session.update().contains(&(EDITOR, Answers, Typed)));
        // That it was ready to run while it answered does not count later.
        session.run(60, &[(EDITOR, 20)]);
        session.typed = None;
        assert!(session.update().contains(&(EDITOR, Rest, Other)));
        let moves = session.run(60, &[(EDITOR, 20)]);
        assert!(moves.contains(&(EDITOR, Computes, waits(20))), "{moves:?}");
    }

    #[test]
    fn after_all_was_moved_elsewhere_all_is_listed() {
        let mut session = Session::new();
        session.plan.refused(EDITOR);
        session.plan.forget_places();
        assert_eq!(session.plan.placed().count(), 0);
        assert_eq!(session.update().len(), session.processes.len());
        assert_eq!(session.update(), []);
    }

    #[test]
    fn what_was_measured_is_known_after_all_was_moved_elsewhere() {
        let mut session = Session::new();
        session.typed = None;
        session.run(6, &[(EDITOR, 100)]);
        session.plan.forget_places();
        let moves = session.run(1, &[(EDITOR, 100)]);
        assert!(moves.contains(&(EDITOR, Computes, Reason::Computes { percent: 100 })));
    }

    #[test]
    fn a_refused_move_is_listed_again_only_once_the_group_changes() {
        let mut session = Session::new();
        session.typed = Some(EDITOR);
        session.update();
        session.plan.refused(EDITOR);
        session.plan.refused(999);
        assert!(session.place(EDITOR).refused && !session.place(SHELL).refused);
        assert_eq!(session.run(3, &[]), []);
        assert!(session.place(EDITOR).refused);
        // Where a child of it is, is unknown.
        session.processes.push(Process::new(50, EDITOR).in_job(EDITOR, EDITOR));
        assert_eq!(session.update(), [(50, Answers, ForegroundOfTyped)]);
        session.typed = None;
        assert_eq!(session.update(), [(EDITOR, Rest, Other), (50, Rest, Other)]);
        assert!(!session.place(EDITOR).refused);
        session.typed = Some(EDITOR);
        assert_eq!(session.update().len(), 2);
    }

    #[test]
    fn irregular_updates_find_the_same_jobs() {
        let mut session = Session::new();
        // That at 5010 ms is too soon after the last measurement.
        for (at_ms, computes) in
            [(200, false), (250, false), (1900, false), (4990, false), (5010, false), (5240, true)]
        {
            session.now_us = at_ms * 1000;
            session.process(EDITOR).cpu_ticks = at_ms / 10;
            session.update();
            assert_eq!(session.place(EDITOR).group == Computes, computes, "{at_ms} ms");
        }
    }

    #[test]
    fn parents_in_a_cycle_are_placed() {
        let mut session = Session::new();
        session.process(MAKE).parent = COMPILER;
        session.processes.extend([
            Process::new(50, 51),
            Process::new(51, 50),
            Process::new(52, 52),
        ]);
        for typed in [50, 51, 52, MAKE] {
            session.typed = Some(typed);
            session.update();
            assert_eq!((session.place(typed).group, session.place(typed).reason), (Answers, Typed));
        }
    }

    #[test]
    fn three_thousand_processes_are_placed_and_then_left_alone() {
        let mut session = Session::new();
        // Half of them side by side, half each below the last one; every tenth is a new process at
        // each update.
        let editor_job = |process: Process| process.in_job(EDITOR, EDITOR);
        let flat = (1000..2500).map(|pid| editor_job(Process::new(pid, EDITOR)));
        session.processes.extend(flat);
        session.processes.push(editor_job(Process::new(2500, EDITOR)));
        session.processes.extend((2501..4000).map(|pid| editor_job(Process::new(pid, pid - 1))));
        // Those of settled parents start in the right place.
        assert_eq!(session.update(), []);
        for update in 1..=20 {
            for process in session.processes.iter_mut().filter(|process| process.pid % 10 == 3) {
                process.started_ticks += update * 10_000;
            }
            session.now_us += 1_000_000;
            session.update();
        }
        assert_eq!(session.plan.placed().count(), 3007);
        session.typed = Some(EDITOR);
        let moves = session.update();
        assert_eq!(moves.iter().filter(|(_, to, _)| *to == Answers).count(), 3001);
        assert_eq!(session.update(), []);
    }

    #[test]
    fn an_empty_table_has_no_moves() {
        let mut session = Session::new();
        session.processes.clear();
        assert_eq!(session.update(), []);
        assert_eq!(session.plan.placed().count(), 0);
    }
}
