//! Which processes take part in the answer to what the person types: the X client whose window it
//! is, its ancestors, and those of its descendants that read the input or draw the answer.
//! Beside the path: from plan.rs, and back to it. Knows how processes descend and which terminals
//! they have; never what they use.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::{Process, Table};
use crate::{Input, Reason};

/// The children of each process.
struct Children<'a> {
    table: &'a Table,
    /// Parent and child, sorted.
    pairs: Vec<(u32, u32)>,
}

impl Children<'_> {
    fn new(table: &Table) -> Children<'_> {
        let mut pairs: Vec<(u32, u32)> =
            table.iter().map(|process| (process.parent, process.pid)).collect();
        pairs.sort_unstable();
        Children { table, pairs }
    }

    fn of(&self, parent: u32) -> impl Iterator<Item = &Process> {
        let first = self.pairs.partition_point(|&(of, _)| of < parent);
        let own = self.pairs[first..].iter().take_while(move |&&(of, _)| of == parent);
        own.filter_map(|&(_, pid)| self.table.get(pid))
    }
}

/// The chain of the client that is typed into, and why each is part of it. Empty if nobody types
/// into a client of this session, or into a server only: all programs descend from some servers.
pub(crate) fn chain(input: &Input, servers: &BTreeSet<u32>) -> BTreeMap<u32, Reason> {
    let mut chain = BTreeMap::new();
    let typed = input.typed.filter(|pid| !servers.contains(pid));
    let Some(client) = typed.and_then(|pid| input.table.get(pid)) else { return chain };
    chain.insert(client.pid, Reason::Typed);
    let mut above = client.parent;
    while let Some(ancestor) = input.table.get(above) {
        // Processes of a table were read one after the other, so parents may form a cycle.
        if servers.contains(&above) || chain.contains_key(&above) {
            break;
        }
        chain.insert(above, Reason::ParentOfTyped);
        above = ancestor.parent;
    }
    add_descendants(client, input.table, servers, &mut chain);
    chain
}

fn add_descendants(
    client: &Process,
    table: &Table,
    servers: &BTreeSet<u32>,
    chain: &mut BTreeMap<u32, Reason>,
) {
    let children = Children::new(table);
    let mut visited: BTreeSet<u32> = chain.keys().chain(servers).copied().collect();
    let mut unread = vec![client];
    while let Some(parent) = unread.pop() {
        for child in children.of(parent.pid) {
            if !visited.insert(child.pid) {
                continue;
            }
            // A terminal emulator in the background of this terminal has a window of its own, and
            // so have the jobs in it. Other processes outside of the chain are searched: a debugger
            // and an outer shell are in the background of the program that they have started.
            let other_terminal = child.terminal != 0 && child.terminal != parent.terminal;
            if other_terminal && !chain.contains_key(&parent.pid) {
                continue;
            }
            if takes_part(child, client) {
                chain.insert(child.pid, Reason::ForegroundOfTyped);
            }
            unread.push(child);
        }
    }
}

/// Whether a descendant of the client takes part in its answers.
fn takes_part(process: &Process, client: &Process) -> bool {
    if process.job() == client.job() {
        // Also that of a browser which was started in the background of some terminal.
        return true;
    }
    if process.terminal == 0 {
        // A browser's renderers.
        return process.session == client.session;
    }
    // The shell is in the background while a job runs, and is what answers right after it.
    process.group == process.foreground || process.pid == process.session
}

#[cfg(test)]
mod tests {
    use super::*;

    use Reason::{ForegroundOfTyped, ParentOfTyped, Typed};

    const ROOT: u32 = 10;
    const X_SERVER: u32 = 11;
    const MANAGER: u32 = 12;

    fn chain_of(processes: Vec<Process>, typed: Option<u32>) -> Vec<(u32, Reason)> {
        let table = Table::new(processes);
        let servers = [ROOT, X_SERVER, MANAGER];
        let (memory, now_us) = (None, 0);
        let input = Input {
            table: &table,
            root: ROOT,
            servers: &servers,
            typed,
            memory,
            now_us,
            idle_us: None,
        };
        chain(&input, &servers.into()).into_iter().collect()
    }

    /// A supervisor, an X server, a window manager, a desktop's session manager (20), and what it
    /// has started: a terminal emulator (30) with a shell (31), its foreground job (32, 33) and a
    /// background job (34), a browser (40) with renderers (41, 42), a panel (50).
    fn desktop() -> Vec<Process> {
        let tty = |process: Process, group| process.in_job(31, group).on_terminal(7, 32);
        vec![
            Process::new(ROOT, 1),
            Process::new(X_SERVER, ROOT),
            Process::new(MANAGER, ROOT).in_job(20, MANAGER),
            Process::new(20, ROOT),
            Process::new(30, 20).in_job(20, 20),
            tty(Process::new(31, 30), 31),
            tty(Process::new(32, 31), 32),
            tty(Process::new(33, 32), 32),
            tty(Process::new(34, 31), 34),
            Process::new(40, 20).in_job(20, 40),
            Process::new(41, 40).in_job(20, 40),
            Process::new(42, 41).in_job(20, 42),
            Process::new(43, 41),
            Process::new(50, 20).in_job(20, 20),
        ]
    }

    #[test]
    fn a_terminal_answers_with_its_shell_and_the_foreground_job() {
        assert_eq!(
            chain_of(desktop(), Some(30)),
            [
                (20, ParentOfTyped),
                (30, Typed),
                (31, ForegroundOfTyped),
                (32, ForegroundOfTyped),
                (33, ForegroundOfTyped),
            ]
        );
    }

    #[test]
    fn a_browser_answers_with_its_renderers_but_not_with_what_left_its_session() {
        assert_eq!(
            chain_of(desktop(), Some(40)),
            [(20, ParentOfTyped), (40, Typed), (41, ForegroundOfTyped), (42, ForegroundOfTyped)]
        );
    }

    #[test]
    fn a_client_in_the_background_of_a_terminal_answers_with_its_own_job() {
        let mut processes = desktop();
        processes.push(Process::new(35, 34).in_job(31, 34).on_terminal(7, 32));
        processes.push(Process::new(36, 34).in_job(31, 36).on_terminal(7, 32));
        assert_eq!(
            chain_of(processes, Some(34)),
            [
                (20, ParentOfTyped),
                (30, ParentOfTyped),
                (31, ParentOfTyped),
                (34, Typed),
                (35, ForegroundOfTyped),
            ]
        );
    }

    #[test]
    fn a_terminal_emulator_in_the_background_of_a_terminal_is_another_window() {
        let mut processes = desktop();
        // Started from the shell as `xterm &`, and a pseudo-terminal of the foreground job, as sudo
        // opens one.
        processes.push(Process::new(60, 34).in_job(31, 34).on_terminal(7, 32));
        processes.push(Process::new(61, 60).on_terminal(8, 62));
        processes.push(Process::new(62, 61).in_job(61, 62).on_terminal(8, 62));
        processes.push(Process::new(70, 33).on_terminal(9, 71));
        processes.push(Process::new(71, 70).in_job(70, 71).on_terminal(9, 71));
        let pids: Vec<u32> =
            chain_of(processes, Some(30)).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(pids, [20, 30, 31, 32, 33, 70, 71]);
    }

    #[test]
    fn a_debugged_program_answers_although_the_debugger_is_in_the_background() {
        let tty =
            |pid, parent, group| Process::new(pid, parent).in_job(31, group).on_terminal(7, 33);
        let processes =
            vec![Process::new(30, ROOT), tty(31, 30, 31), tty(32, 31, 32), tty(33, 32, 33)];
        assert_eq!(
            chain_of(processes, Some(30)),
            [(30, Typed), (31, ForegroundOfTyped), (33, ForegroundOfTyped)]
        );
    }

    #[test]
    fn nobody_answers_if_nobody_types_or_into_no_client_of_the_session() {
        for typed in [None, Some(0), Some(999), Some(ROOT), Some(X_SERVER), Some(MANAGER)] {
            assert_eq!(chain_of(desktop(), typed), [], "{typed:?}");
        }
    }

    #[test]
    fn servers_end_the_chain_in_both_directions() {
        let processes = vec![
            Process::new(5, 1),
            Process::new(MANAGER, 5),
            Process::new(30, MANAGER).in_job(5, 30),
            Process::new(X_SERVER, 30).in_job(5, 30),
            Process::new(31, X_SERVER).in_job(5, 30),
        ];
        assert_eq!(chain_of(processes, Some(30)), [(30, Typed)]);
    }

    #[test]
    fn a_cycle_of_parents_ends() {
        let job = |pid, parent| Process::new(pid, parent).in_job(30, 30);
        for typed in [30, 31, 32, 33] {
            let processes = vec![job(30, 32), job(31, 30), job(32, 31), job(33, 33)];
            let chain = chain_of(processes, Some(typed));
            assert!(chain.contains(&(typed, Typed)));
            assert_eq!(chain.len(), if typed == 33 { 1 } else { 3 });
        }
    }

    #[test]
    fn a_chain_may_be_as_long_as_a_table() {
        let processes = (30..3030).map(|pid| Process::new(pid, pid - 1).in_job(30, 30)).collect();
        let chain = chain_of(processes, Some(1500));
        assert_eq!(chain.len(), 3000);
        assert_eq!(chain.iter().filter(|(_, reason)| *reason == ParentOfTyped).count(), 1470);
    }
}
