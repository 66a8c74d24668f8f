//! Cutting a trace to some of its jobs, as if only these had been in the source.
//!
//! The jobs, their attempts and their placements stay. Tables that speak of the whole cluster (inventory, capacity, activity, samples) go:
//! beside a part of the jobs they would say that the rest stood idle. What needs all jobs looks at [`Trace::selected`] and refuses.
//!
//! O(rows). Worked number: of 3 jobs with 2 attempts each, a mask of (yes, no, yes) leaves 2 jobs with 4 attempts.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Trace;
use crate::report::format::{count, counted};
use crate::schema::{ActivityTable, CapacityTable, GpuSampleTable, NodeSampleTable, NodeTable, Table, Text};

/// What a trace was cut to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Selected {
    /// The condition, as it was written.
    pub condition: String,
    /// Jobs that it selects.
    pub jobs: u64,
    /// Jobs before.
    pub of: u64,
    /// Jobs of which it is unknown; they are not selected.
    pub unknown: u64,
}

impl Selected {
    /// What two traces together are cut to, each given with its jobs, when they have `jobs` as one; `None` if both are whole. A job that both cut out
    /// counts twice in `of`, as neither knows it any more.
    pub(super) fn union(
        (a, in_a): (Option<Self>, usize),
        (b, in_b): (Option<Self>, usize),
        jobs: usize,
    ) -> Option<Self> {
        let jobs = jobs as u64;
        let (of_a, of_b) = (a.as_ref().map_or(in_a as u64, |a| a.of), b.as_ref().map_or(in_b as u64, |b| b.of));
        let condition = match (&a, &b) {
            (None, None) => return None,
            (Some(a), Some(b)) if a.condition == b.condition => a.condition.clone(),
            (Some(a), Some(b)) => format!("({}) or ({})", a.condition, b.condition),
            // The other has no jobs (meters, prices), or all of them.
            (Some(one), None) if in_b == 0 => one.condition.clone(),
            (None, Some(one)) if in_a == 0 => one.condition.clone(),
            (Some(one), None) | (None, Some(one)) => format!("{}, and all of another source", one.condition),
        };
        let unknown = [&a, &b].into_iter().flatten().map(|one| one.unknown).sum();
        // Jobs that are in both are there once.
        let twice = (in_a as u64 + in_b as u64).saturating_sub(jobs);
        Some(Self { condition, jobs, of: (of_a + of_b).saturating_sub(twice), unknown })
    }

    /// What was selected, for people.
    pub fn sentence(&self) -> String {
        let unknown = match self.unknown {
            0 => String::new(),
            unknown => {
                format!(" For {} the condition is unknown; that is left out, too.", counted(unknown, "job", "jobs"))
            }
        };
        let of = counted(self.of, "job", "jobs");
        format!("Only jobs with `{}` are looked at: {} of {of}.{unknown}", self.condition, count(self.jobs))
    }

    /// What was selected, in a few words.
    pub fn in_short(&self) -> String {
        format!("{} of {} with {}", count(self.jobs), counted(self.of, "job", "jobs"), self.condition)
    }

    /// Why an analysis that needs all jobs is refused.
    pub fn refusal(&self) -> String {
        format!("it needs all jobs of the cluster, and only those with `{}` are looked at", self.condition)
    }
}

impl Trace {
    /// Keeps the jobs for which `mask` holds, in their order, with their attempts and placements; the module says what goes. Adds notes. Where it holds
    /// for all, the trace stays whole.
    pub fn select(&mut self, mask: &[bool], condition: &str, unknown: u64) {
        let kept = |ix: &u32| mask.get(*ix as usize).copied().unwrap_or(false);
        let before = self.jobs.len();
        if before > 0 && (0u32..).take(before).all(|ix| kept(&ix)) {
            self.note(format!("All {} meet the condition `{condition}`.", counted(before as u64, "job", "jobs")));
            return;
        }
        let order: Vec<u32> = (0..u32::try_from(before).unwrap_or(u32::MAX)).filter(kept).collect();
        self.jobs.permute(&order);
        let keys: HashSet<&str> = self.jobs.job_key.iter().flatten().collect();
        let of = |column: &Text| -> Vec<u32> {
            let rows = (0u32..).zip(column.iter());
            rows.filter(|(_, key)| key.is_some_and(|key| keys.contains(key))).map(|(ix, _)| ix).collect()
        };
        let (attempts, placements) = (of(&self.attempts.job_key), of(&self.placements.job_key));
        self.attempts.permute(&attempts);
        self.placements.permute(&placements);
        self.nodes = NodeTable::default();
        self.capacity = CapacityTable::default();
        self.activity = ActivityTable::default();
        self.gpu_samples = GpuSampleTable::default();
        self.node_samples = NodeSampleTable::default();
        // Of a part, a part: both conditions hold, of the jobs there were at first.
        let (condition, of, unknown) = match self.selected.take() {
            Some(first) => (format!("({}) and ({condition})", first.condition), first.of, first.unknown + unknown),
            None => (condition.to_owned(), before as u64, unknown),
        };
        let selected = Selected { condition, jobs: order.len() as u64, of, unknown };
        self.note(selected.sentence());
        self.note(
            "Of a part of the jobs: nodes, capacity and samples are left out, as they are of the whole cluster. Rates and queues are over the time from the \
             first to the last moment that these jobs name, which is longer than a time that the condition cuts out."
                .to_owned(),
        );
        self.selected = Some(selected);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::schema::{AttemptRow, JobRow, NodeRow};

    #[test]
    fn jobs_go_with_their_attempts_and_the_cluster_is_left_out() {
        let mut trace = Trace::default();
        for (key, vc) in [("a", "x"), ("b", "y"), ("c", "x")] {
            trace.jobs.push(JobRow { job_key: Some(key.into()), vc: Some(vc.into()), ..JobRow::default() });
            for attempt in 1..=2 {
                trace.attempts.push(AttemptRow {
                    job_key: Some(key.into()),
                    attempt: Some(attempt),
                    ..AttemptRow::default()
                });
            }
        }
        trace.nodes.push(NodeRow { node: Some("n".into()), ..NodeRow::default() });
        trace.select(&[true, false, true], "vc = 'x'", 1);
        assert_eq!(trace.jobs.job_key.iter().flatten().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(trace.attempts.job_key.iter().flatten().collect::<Vec<_>>(), ["a", "a", "c", "c"]);
        // The label that nobody has any more is gone, too.
        assert_eq!((trace.jobs.vc.distinct(), trace.nodes.len()), (1, 0));
        let sentence = "Only jobs with `vc = 'x'` are looked at: 2 of 3 jobs. For 1 job the condition is unknown; that is left out, too.";
        assert_eq!(trace.notes.first().map(String::as_str), Some(sentence));
        trace.select(&[true, true], "1 = 1", 0);
        assert_eq!(trace.selected.as_ref().map(|selected| selected.jobs), Some(2));
        assert!(trace.notes.iter().any(|note| note == "All 2 jobs meet the condition `1 = 1`."), "{:?}", trace.notes);
    }

    #[test]
    fn two_parts_together_say_so() {
        let part = |condition: &str| Some(Selected { condition: condition.to_owned(), jobs: 2, of: 10, unknown: 1 });
        // Two and two jobs, one of them in both: three, of 19.
        let union = Selected::union((part("gpus > 1"), 2), (part("vc = 'x'"), 2), 3).unwrap();
        assert_eq!(
            (union.condition.as_str(), union.jobs, union.of, union.unknown),
            ("(gpus > 1) or (vc = 'x')", 3, 19, 2)
        );
        // With a source of meters alone it is what it was; with a whole source of five jobs it is seven of 15.
        assert_eq!(Selected::union((None, 0), (part("gpus > 1"), 2), 2), part("gpus > 1"));
        let union = Selected::union((part("gpus > 1"), 2), (None, 5), 7).unwrap();
        assert_eq!((union.jobs, union.of), (7, 15));
        assert_eq!(Selected::union((None, 4), (None, 5), 9), None);
    }
}
