//! Whether nodes of several kinds are enough for the jobs of a queue.
//!
//! ```text
//! holds    the target is kept in the replay (of several draws of grown work, in more than half); at the upper level in 97.5 % of resampled days, of all draws together
//! enough   it holds with these nodes, and with one and two more of the kind that there are the most of (the first of equals)
//! ```
//!
//! With one kind that is what [`Search::needed`](crate::capacity::search::Search::needed) asks. A replay is made once, and draws are put together as for one kind, so that more of them do not by themselves ask for more nodes. O(replays). Worked number: of five draws three must hold; of forty, of which one
//! never holds and the others hold on all of their days, 97.5 % of the days are kept, which is the upper level.

use std::collections::BTreeMap;

use crate::capacity::part::Part;
use crate::capacity::search::{BOUNDS, STEADY, Search, is_kept_together};
use crate::error::Result;

/// How sure it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// On these jobs.
    Kept,
    /// On other days like these.
    Upper,
}

impl Level {
    pub(super) const ALL: [Self; 2] = [Self::Kept, Self::Upper];
}

/// In how many draws it is kept, and on which share of resampled days in each, summed over draws.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    kept: usize,
    days: f64,
}

/// The jobs of a queue in every draw, and what was replayed so far.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    part: &'a Part,
    draws: Vec<Search<'a>>,
    seen: BTreeMap<Vec<u32>, Verdict>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(part: &'a Part, draws: Vec<Search<'a>>) -> Self {
        Self { part, draws, seen: BTreeMap::new() }
    }

    /// Whether so many nodes by kind hold, without those beyond.
    pub(super) fn holds(&mut self, counts: &[u32], level: Level) -> Result<bool> {
        let verdict = match self.seen.get(counts) {
            Some(verdict) => *verdict,
            None => {
                let mut verdict = Verdict { kept: 0, days: 0.0 };
                for search in &self.draws {
                    let result = search.with_counts(counts)?;
                    verdict.kept += usize::from(result.kept);
                    verdict.days += result.kept_share;
                }
                self.seen.insert(counts.to_vec(), verdict);
                verdict
            }
        };
        Ok(match level {
            Level::Kept => verdict.kept > self.draws.len() / 2,
            // Of fewer than seven days there is no upper level, as there is no interval.
            Level::Upper => {
                self.draws.iter().all(Search::has_interval)
                    && is_kept_together(verdict.days, BOUNDS.1, self.draws.len())
            }
        })
    }

    /// Whether so many nodes by kind are enough.
    pub(super) fn enough(&mut self, counts: &[u32], level: Level) -> Result<bool> {
        let most = counts.iter().copied().max().unwrap_or(0);
        let Some(kind) = counts.iter().position(|count| *count == most).filter(|_| most > 0) else { return Ok(false) };
        let mut more = counts.to_vec();
        for _ in 0..=STEADY {
            if !self.holds(&more, level)? {
                return Ok(false);
            }
            if let Some(count) = more.get_mut(kind) {
                *count = count.saturating_add(1);
            }
        }
        Ok(true)
    }

    /// The fewest nodes of a line of counts, up to `most`, that are enough; `None` if these are not. The search begins at `guess`.
    pub(super) fn least(
        &mut self,
        line: &dyn Fn(u32) -> Vec<u32>,
        level: Level,
        (guess, most): (u32, u32),
    ) -> Result<Option<u32>> {
        if most == 0 {
            return Ok(None);
        }
        let (mut low, mut high) = (0, guess.clamp(1, most));
        while !self.enough(&line(high), level)? {
            if high == most {
                return Ok(None);
            }
            (low, high) = (high, high.saturating_mul(2).min(most));
        }
        while high - low > 1 {
            let middle = u32::midpoint(low, high);
            if self.enough(&line(middle), level)? { high = middle } else { low = middle }
        }
        while high > 1 && self.enough(&line(high - 1), level)? {
            high -= 1;
        }
        Ok(Some(high))
    }

    /// Nodes in today's proportions, as a line.
    pub(super) fn proportions(&self) -> impl Fn(u32) -> Vec<u32> + use<'a> {
        let part = self.part;
        move |nodes| part.counts(nodes)
    }
}
