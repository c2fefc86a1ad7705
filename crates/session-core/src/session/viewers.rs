//! Path 10/13: beside session.rs, between the shell's numbers of viewers and the viewers.
//! The viewers of a session, oldest first, and what is counted of those that have left. Knows who
//! is there; never what is sent to them.

use std::ops::{Index, IndexMut};

use thinc_protocol::Micros;

use crate::figures::Figures;
use crate::viewer::{Viewer, ViewerId};

/// The viewers of one session.
#[derive(Debug)]
pub(super) struct Viewers {
    /// Oldest first.
    all: Vec<Viewer>,
    /// What viewers have counted that have left.
    departed: Figures,
    next: u32,
}

impl Viewers {
    pub(super) fn new() -> Viewers {
        Viewers { all: Vec::new(), departed: Figures::default(), next: 1 }
    }

    pub(super) fn all(&self) -> &[Viewer] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [Viewer] {
        &mut self.all
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Viewer> {
        self.all.iter()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Viewer> {
        self.all.iter_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn position(&self, id: ViewerId) -> Option<usize> {
        self.all.iter().position(|viewer| viewer.id == id)
    }

    pub(super) fn get(&self, id: ViewerId) -> Option<&Viewer> {
        self.all.iter().find(|viewer| viewer.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ViewerId) -> Option<&mut Viewer> {
        self.all.iter_mut().find(|viewer| viewer.id == id)
    }

    /// A number that no viewer of this session process had.
    pub(super) fn next_id(&mut self) -> ViewerId {
        let id = ViewerId(self.next);
        self.next += 1;
        id
    }

    pub(super) fn push(&mut self, viewer: Viewer) {
        self.all.push(viewer);
    }

    /// Removes the viewer at this position, and keeps what it has counted.
    pub(super) fn remove(&mut self, at: usize) {
        self.departed.add(&self.all.remove(at).figures());
    }

    /// What is counted of all viewers, also of those that have left.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = self.departed;
        self.all.iter().for_each(|viewer| figures.add(&viewer.figures()));
        figures
    }

    /// Estimated time of the jobs that are being encoded.
    pub(super) fn encode_work(&self) -> Micros {
        self.all.iter().map(|viewer| viewer.quality.work()).sum()
    }
}

impl Index<usize> for Viewers {
    type Output = Viewer;

    fn index(&self, at: usize) -> &Viewer {
        &self.all[at]
    }
}

impl IndexMut<usize> for Viewers {
    fn index_mut(&mut self, at: usize) -> &mut Viewer {
        &mut self.all[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::viewer::tests::viewer;

    #[test]
    fn no_number_comes_again_and_what_was_counted_stays() {
        let mut viewers = Viewers::new();
        let (first, second) = (viewers.next_id(), viewers.next_id());
        viewers.push(viewer(first.0));
        viewers.push(viewer(second.0));
        let before = viewers.figures();
        let at = viewers.position(first).unwrap();
        viewers.remove(at);
        assert_eq!(viewers.figures(), before);
        assert!(viewers.get(first).is_none() && viewers.get(second).is_some());
        assert_eq!((viewers.len(), viewers[0].id), (1, second));
        assert_eq!(viewers.next_id(), ViewerId(3));
    }
}
