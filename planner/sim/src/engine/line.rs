//! Waiting jobs in lines: those of a VC and a shape, in order. Jobs of a line share their fate, so that a walk looks at the heads of lines and not at jobs.
//!
//! Where the order is fixed, lines are the classes of the queue as it is kept, and taking them costs nothing; where it is not, jobs are sorted. O(log n) to take a head. Worked example: a VC's jobs ask for 4, 1, 4 and 1 GPUs, in
//! order: its lines are the first and third, and the second and fourth.

use std::collections::BTreeMap;

use super::Run;
use super::queue::{Entry, Ranked, Search};
use super::wait::{Line, Queue, Ranking};
use crate::key::Key;
use crate::policy::Scan;

/// Who has which rank.
enum Ranks<'a> {
    Fixed(&'a Ranking),
    Sorted { jobs: Vec<u32>, lines: Vec<Vec<Line>> },
}

/// The waiting jobs of a pool, taken out of its queue.
pub(crate) struct Lines<'a> {
    ranked: Ranked,
    ranks: Ranks<'a>,
}

impl Lines<'_> {
    /// The lines of a VC, empty ones included.
    pub(crate) fn of(&self, vc: u16) -> &[Line] {
        let lines = match &self.ranks {
            Ranks::Fixed(ranking) => ranking.lines(),
            Ranks::Sorted { lines, .. } => lines,
        };
        lines.get(usize::from(vc)).map_or(&[], Vec::as_slice)
    }

    /// Whether no job is left in any.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranked.len() == 0
    }

    /// Classes that lines may have.
    pub(crate) fn classes(&self) -> u32 {
        self.ranked.classes()
    }

    /// The rank of a line's head.
    pub(crate) fn head(&self, line: Line) -> Option<u32> {
        self.ranked.head(line.class)
    }

    /// The first rank of at least `from` in a line; only under KAI.
    pub(crate) fn next(&self, line: Line, from: u32) -> Option<u32> {
        self.ranked.next(line.class, from)
    }

    /// The job with a rank.
    pub(crate) fn job(&self, rank: u32) -> u32 {
        match &self.ranks {
            Ranks::Fixed(ranking) => ranking.job(rank),
            Ranks::Sorted { jobs, .. } => jobs[rank as usize],
        }
    }

    /// Takes the job of a line that has this rank out: the head, but under KAI any.
    pub(crate) fn take(&mut self, line: Line, rank: u32) {
        self.ranked.remove(line.class, rank);
    }
}

impl<'a> Run<'a> {
    /// Takes the waiting jobs out of the queue, in lines; `by_priority`, the highest comes first. Who is stopped from now on joins a queue that is empty.
    pub(crate) fn take_lines(&mut self, by_priority: bool) -> Lines<'a> {
        match std::mem::replace(&mut self.queue, Queue::Loose(Vec::new())) {
            Queue::Ranked(ranked, ranking) => Lines { ranked, ranks: Ranks::Fixed(ranking) },
            Queue::Loose(jobs) => self.in_lines(jobs, by_priority),
        }
    }

    fn in_lines(&self, jobs: Vec<u32>, by_priority: bool) -> Lines<'a> {
        let rank = |job: u32| -> (i64, Key, u32) {
            let priority = if by_priority { -i64::from(self.priority(job)) } else { 0 };
            (priority, self.key(job), job)
        };
        let mut ranked: Vec<_> = jobs.into_iter().map(rank).collect();
        ranked.sort_unstable();
        let jobs: Vec<u32> = ranked.into_iter().map(|(_, _, job)| job).collect();
        let mut known: BTreeMap<(u16, u16, bool, bool), u32> = BTreeMap::new();
        let mut lines = vec![Vec::new(); self.cluster.vcs.len()];
        let is_kai = self.policy.scan == Scan::Kai;
        let class = |job: &u32| {
            let (vc, shape) = (self.workload.vc[*job as usize], self.workload.shape[*job as usize]);
            let (next, relaxed) = (known.len() as u32, self.ask(*job).relaxed);
            let firm = is_kai && self.is_firm(*job);
            *known.entry((vc, shape, relaxed, firm)).or_insert_with(|| {
                lines[usize::from(vc)].push(Line { class: next, shape, relaxed, firm });
                next
            })
        };
        let classes: Vec<u32> = jobs.iter().map(class).collect();
        let members: Vec<(u32, u32)> = (0u32..).zip(classes).collect();
        let search = if is_kai { Search::Rank } else { Search::Head };
        let mut ranked = Ranked::new(known.len(), search, &members);
        for (rank, class) in &members {
            ranked.insert(*rank, Entry { class: *class, estimate_ms: 0 });
        }
        Lines { ranked, ranks: Ranks::Sorted { jobs, lines } }
    }

    /// The job of a leaf's line that has this rank has started.
    pub(crate) fn leave_line(&mut self, lines: &mut Lines<'a>, leaf: u16, line: Line, rank: u32) {
        lines.take(line, rank);
        self.queue_leave(leaf, self.amount_of(line));
    }

    /// Puts back who still waits, beside those who joined since.
    pub(crate) fn put_lines(&mut self, lines: Lines<'a>) {
        match lines.ranks {
            Ranks::Fixed(ranking) => {
                let joined = std::mem::replace(&mut self.queue, Queue::Ranked(lines.ranked, ranking));
                if let Queue::Loose(jobs) = joined {
                    jobs.into_iter().for_each(|job| self.queue.insert(job));
                }
            }
            Ranks::Sorted { jobs, .. } => {
                for rank in lines.ranked.waiting() {
                    self.queue.insert(jobs[rank as usize]);
                }
            }
        }
    }
}
