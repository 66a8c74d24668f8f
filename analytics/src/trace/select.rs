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

/// Selection that a trace was cut to.
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
    /// The time that the jobs were chosen by, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted: Option<Submitted>,
}

/// The time in which jobs were submitted that are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Submitted {
    /// First moment of it, milliseconds since the Unix epoch.
    pub from_ms: i64,
    /// The moment at which it ends.
    pub to_ms: i64,
    /// Last moment of the whole record: what still runs, or waits, does so until then.
    pub record_end_ms: i64,
}

impl Selected {
    /// Joint selection of two traces, each given with its number of jobs, when they have `jobs` as
    /// one; `None` if both are whole. A job that both cut out counts twice in `of`, as neither
    /// knows it any more.
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
        // Of two times, that from the beginning of one to the end of the other, if all jobs were chosen by one.
        let times = |part: &Option<Self>| part.as_ref().and_then(|part| part.submitted);
        let submitted = match (times(&a), times(&b)) {
            (Some(a), Some(b)) => Some(Submitted {
                from_ms: a.from_ms.min(b.from_ms),
                to_ms: a.to_ms.max(b.to_ms),
                record_end_ms: a.record_end_ms.max(b.record_end_ms),
            }),
            (one, None) if in_b == 0 => one,
            (None, one) if in_a == 0 => one,
            _ => None,
        };
        Some(Self { condition, jobs, of: (of_a + of_b).saturating_sub(twice), unknown, submitted })
    }

    /// The selection in a sentence.
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

    /// The selection in a few words.
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
        self.keep(mask, condition, unknown, None);
    }

    /// Keeps the jobs that were submitted from one moment on and before another (milliseconds since the Unix epoch; either may be open), as
    /// [`Trace::select`] does; `condition` says it in words. Rates and queues are over that time then, and
    /// what still ran or waited when the record ended did so until then.
    pub fn select_submitted(&mut self, from_ms: Option<i64>, to_ms: Option<i64>, condition: &str) {
        // Of a time that was cut out before, a part: its bounds hold, too, and the record ended when it ended.
        let cut = self.selected.as_ref().and_then(|selected| selected.submitted);
        let bounds = cut.map(|time| (time.from_ms, time.to_ms, time.record_end_ms));
        let whole = || self.observation().map(|(from, to)| (from, to, to));
        let Some((first_ms, last_ms, record_end_ms)) = bounds.or_else(whole) else { return };
        let inside = |submit: i64| from_ms.is_none_or(|from| from <= submit) && to_ms.is_none_or(|to| submit < to);
        let mask: Vec<bool> = self.jobs.submit.iter().map(|submit| submit.is_some_and(inside)).collect();
        let unknown = self.jobs.submit.iter().filter(Option::is_none).count() as u64;
        let submitted = Submitted {
            from_ms: from_ms.map_or(first_ms, |from| from.max(first_ms)),
            to_ms: to_ms.map_or(last_ms, |to| to.min(last_ms)),
            record_end_ms,
        };
        self.keep(&mask, condition, unknown, Some(submitted));
    }

    fn keep(&mut self, mask: &[bool], condition: &str, unknown: u64, submitted: Option<Submitted>) {
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
        let (condition, of, unknown, submitted) = match self.selected.take() {
            Some(first) => (
                format!("({}) and ({condition})", first.condition),
                first.of,
                first.unknown + unknown,
                submitted.or(first.submitted),
            ),
            None => (condition.to_owned(), before as u64, unknown, submitted),
        };
        let selected = Selected { condition, jobs: order.len() as u64, of, unknown, submitted };
        self.note(selected.sentence());
        let over = if submitted.is_some() {
            "Rates and queues are over the time in which they were submitted."
        } else {
            "Rates and queues are over the time from the first to the last moment that these jobs name, which is longer than a time that the condition \
             cuts out: --from and --to cut out a time."
        };
        self.note(format!(
            "Of a part of the jobs: nodes, capacity and samples are left out, as they are of the whole cluster. {over}"
        ));
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
    fn a_time_cuts_out_what_was_submitted_in_it_and_stays_the_time_of_rates() {
        let mut trace = Trace::default();
        // Two jobs before, one in the time, which still runs when the record ends at 100 s, and one at its end, which is out.
        for (key, submit, start, end) in
            [("a", 0, 1, Some(50)), ("b", 1, 60, Some(100)), ("c", 5, 20, None), ("d", 30, 31, Some(40))]
        {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(submit * 1000),
                start: Some(start * 1000),
                end: end.map(|end| end * 1000),
                censored: Some(end.is_none()),
                state: Some(if end.is_none() { "running" } else { "completed" }.into()),
                ..JobRow::default()
            });
        }
        trace.select_submitted(Some(2_000), Some(30_000), "--from 2 --to 30");
        assert_eq!(trace.jobs.job_key.iter().flatten().collect::<Vec<_>>(), ["c"]);
        let selected = trace.selected.clone().unwrap();
        let time = Submitted { from_ms: 2_000, to_ms: 30_000, record_end_ms: 100_000 };
        assert_eq!((selected.jobs, selected.of, selected.submitted), (1, 4, Some(time)));
        let facts = crate::facts::JobFacts::new(&trace);
        assert_eq!((facts.window, facts.record_end), (Some((2_000, 30_000)), Some(100_000)));
        // It runs from 20 s to the end of the record, not to its own last moment.
        assert_eq!((facts.run_s(0), facts.wait_s(0)), (Some(80.0), Some(15.0)));

        // A condition on top leaves the time as it is, a second time is a part of the first, and an open side ends with what there is.
        let mut again = trace.clone();
        again.select_submitted(Some(6_000), None, "--from 6");
        let part = Submitted { from_ms: 6_000, to_ms: 30_000, record_end_ms: 100_000 };
        assert_eq!(again.selected.unwrap().submitted, Some(part));
        trace.select(&[false], "gpus > 8", 0);
        assert_eq!(trace.selected.unwrap().submitted, Some(time));
        let mut all = Trace::default();
        all.jobs.push(JobRow { submit: Some(7_000), end: Some(9_000), ..JobRow::default() });
        all.jobs.push(JobRow { submit: Some(1_000), end: Some(2_000), ..JobRow::default() });
        all.select_submitted(Some(3_000), None, "--from 3");
        let time = Submitted { from_ms: 3_000, to_ms: 9_000, record_end_ms: 9_000 };
        assert_eq!(all.selected.unwrap().submitted, Some(time));
    }

    #[test]
    fn two_parts_together_say_so() {
        let part = |condition: &str| {
            Some(Selected { condition: condition.to_owned(), jobs: 2, of: 10, unknown: 1, submitted: None })
        };
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
