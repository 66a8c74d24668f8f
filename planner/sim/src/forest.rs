//! Queues that lie below each other: which is above which. KAI's and Volcano's are such.
//!
//! The first queues are leaves, in which jobs wait; those after them only lie above others. O(depth) for a way upwards. Worked number: of two leaves and a queue above both, the way from the first leaf is (0, 2), and they part at
//! themselves.

use crate::error::{Error, Result};

/// Queues there may be.
const MOST_QUEUES: usize = 10_000;
/// Levels of queues there may be.
const HIGHEST: usize = 64;

/// Which queue lies above which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    parents: Vec<Option<u16>>,
    leaves: usize,
    children: Vec<Vec<u16>>,
    top: Vec<u16>,
}

impl Forest {
    /// The queues of these names and parents, first the `leaves`.
    ///
    /// # Errors
    /// If a parent is no queue above others, or queues are each other's parents.
    pub(crate) fn new(members: &[(&str, Option<u16>)], leaves: usize) -> Result<Self> {
        let wrong = |what: String| Err(Error::Cluster(what));
        if members.len() > MOST_QUEUES || leaves > members.len() {
            return wrong(format!("there are {} queues; at most {MOST_QUEUES} can be replayed", members.len()));
        }
        let mut children = vec![Vec::new(); members.len()];
        let mut top = Vec::new();
        for (at, (name, parent)) in (0u16..).zip(members) {
            match parent.map(usize::from) {
                None => top.push(at),
                Some(parent) if parent >= leaves && parent < members.len() => children[parent].push(at),
                Some(_) => return wrong(format!("queue {name}: its parent is no queue above others")),
            }
        }
        let parents = members.iter().map(|(_, parent)| *parent).collect();
        let result = Self { parents, leaves, children, top };
        for (at, (name, _)) in (0u16..).zip(members) {
            if result.path(at).nth(HIGHEST).is_some() {
                return wrong(format!(
                    "queue {name} is its own parent, over others or not, or more than {HIGHEST} queues lie above it"
                ));
            }
        }
        Ok(result)
    }

    /// Queues, leaves included.
    pub fn queues(&self) -> usize {
        self.parents.len()
    }

    /// How many of them are leaves.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// A queue and those above it, the nearest first.
    pub fn path(&self, queue: u16) -> impl Iterator<Item = u16> + '_ {
        std::iter::successors(Some(queue), |at| self.parents[usize::from(*at)])
    }

    /// The queues below one; the top queues for `None`.
    pub(crate) fn below(&self, queue: Option<u16>) -> &[u16] {
        match queue {
            Some(queue) => &self.children[usize::from(queue)],
            None => &self.top,
        }
    }

    /// The way to a queue from the top.
    fn way(&self, queue: u16) -> Vec<u16> {
        let mut way: Vec<u16> = self.path(queue).collect();
        way.reverse();
        way
    }

    /// Where two leaves part: the queue above (or at) each of them just below the last that both share.
    pub(crate) fn parted(&self, one: u16, other: u16) -> (u16, u16) {
        let (a, b) = (self.way(one), self.way(other));
        a.iter().zip(&b).find(|(a, b)| a != b).map_or((one, other), |(a, b)| (*a, *b))
    }

    /// How many queues lie above both of two leaves.
    pub(crate) fn shared(&self, one: u16, other: u16) -> usize {
        let (a, b) = (self.way(one), self.way(other));
        a.iter().zip(&b).take_while(|(a, b)| a == b).count()
    }

    /// Returns the amount of each queue, summed over the leaves at and below it. O(leaves × depth).
    pub(crate) fn sums(&self, of_leaves: &[u64]) -> Vec<u64> {
        let mut sums = vec![0u64; self.queues()];
        for (leaf, amount) in (0u16..).zip(of_leaves) {
            for at in self.path(leaf) {
                sums[usize::from(at)] += amount;
            }
        }
        sums
    }
}
