//! Which queue comes first, and which is the last: the order of queues of [`super`].
//!
//! O(queues) for the next job. Worked example: two queues of quota 4 hold 4 and 2 of 8 GPUs, and both have jobs of 2: the second would be within its quota with it and comes first.

use std::cmp::Reverse;

use super::Lines;
use crate::sim::engine::Run;
use crate::sim::kai::held::KaiState;
use crate::sim::ratio::Ratio;

/// What is due to whom in a cycle.
#[derive(Debug, Clone)]
pub(super) struct Shares {
    /// Fair share of each queue, thousandths.
    pub(super) fair: Vec<u64>,
    /// In service, thousandths.
    pub(super) total: u64,
}

/// What queues are ordered by, first the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    is_over: bool,
    is_beyond_quota: bool,
    priority: Reverse<i32>,
    has_nothing: bool,
    with: Ratio,
    without: Ratio,
    allocatable: (bool, u64),
    created: (u32, u16),
}

impl Shares {
    /// Where a queue stands that would hold `with` of its allocatable share, and would hold `quota` of its quota.
    pub(super) fn standing(&self, kai: &KaiState<'_>, queue: u16, with: u64, quota: u64) -> Standing {
        let (of, at) = (&kai.tree.queues()[usize::from(queue)], usize::from(queue));
        let (held, fair) = (kai.held.all[at], self.fair[at]);
        let allocatable = kai.tree.allocatable(queue, fair);
        let whole = allocatable.unwrap_or(self.total);
        // Of nothing, every GPU counts a thousandfold.
        let ratio = |held: u64| if whole == 0 { Ratio(held, 1) } else { Ratio(held, whole) };
        Standing {
            is_over: held > fair,
            is_beyond_quota: of.quota.is_some_and(|own| quota > own),
            priority: Reverse(of.priority),
            has_nothing: allocatable == Some(0) && quota > 0,
            with: ratio(with),
            without: ratio(held),
            allocatable: (allocatable.is_none(), allocatable.unwrap_or(0)),
            created: (of.created, queue),
        }
    }
}

impl Run<'_> {
    /// Takes the next job out of the lines.
    pub(super) fn next_job(&self, shares: &Shares, lines: &mut Lines) -> Option<u32> {
        let kai = self.kai()?;
        let job = self.first_below(kai, shares, lines, None)?;
        lines[usize::from(self.workload.vc[job as usize])].pop_front()
    }

    /// The next job of the queues below one. O(queues below it).
    fn first_below(&self, kai: &KaiState<'_>, shares: &Shares, lines: &Lines, above: Option<u16>) -> Option<u32> {
        let next = |queue: u16| match lines.get(usize::from(queue)) {
            Some(line) => line.front().copied(),
            None => self.first_below(kai, shares, lines, Some(queue)),
        };
        let standing = |queue: u16, job: u32| {
            let with = kai.held.all[usize::from(queue)] + self.shape(job).amount();
            shares.standing(kai, queue, with, with)
        };
        let candidates = kai.tree.below(above).iter().filter_map(|queue| Some((*queue, next(*queue)?)));
        candidates.min_by_key(|(queue, job)| standing(*queue, *job)).map(|(_, job)| job)
    }
}
