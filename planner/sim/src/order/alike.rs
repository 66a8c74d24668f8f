//! Memory of the order `Alike`: the runs of jobs like one that waits.
//!
//! A job is often one of a batch: a sweep, an array, a script started again. How long the first of them ran says more of the others than any model knew when they were submitted, and a scheduler may heed it as long as they wait.
//! Jobs are **alike** if VC, user (where it is known) and GPUs are the same and they were submitted within half an hour of each other. Once some have ended, the logarithm of the expected run of one that waits is
//!
//! ```text
//! (ln d + Σ w ln r) / (1 + Σ w)        w = 1 − |difference of submissions| / 30 min
//! ```
//!
//! over those that have ended, with its estimate d and their runs r in seconds, at least 1 s each. Nothing that has not ended counts, nor a job that was cancelled. O(jobs alike) for an end, O(1) for a question.
//!
//! Worked number: a job is expected to run 100 s. One that was submitted a quarter of an hour before it ended after 10,000 s (w = ½), one from the same moment after 1,000 s (w = 1): exp((4.605 + 4.605 + 6.908) / 2.5) = 631 s.

use std::collections::{BTreeSet, HashMap};

use crate::workload::Workload;

/// How far apart jobs that are alike may be submitted, milliseconds.
const APART_MS: i64 = 1_800_000;

/// Known jobs of a pool.
#[derive(Debug)]
pub(super) struct Alike {
    /// The jobs, those of one VC, user and GPUs together, by submission.
    jobs: Vec<Known>,
    /// Where each stands.
    place: HashMap<u32, usize>,
    /// Submission of those that wait, and which.
    waiting: BTreeSet<(i64, u32)>,
    /// The last moment at which a job began or ceased to wait, and when that one was submitted which was first until then.
    until: (i64, Option<i64>),
}

/// A job.
#[derive(Debug)]
struct Known {
    /// VC, user and GPUs, in thousandths.
    of: (u16, u32, u64),
    submit_ms: i64,
    /// The logarithm of its run in seconds; known once it has ended.
    ln_run: f64,
    /// Σ w of those alike that have ended.
    weight: f64,
    /// Σ w ln r of them.
    sum: f64,
    /// Whether the job runs when the replay begins.
    warm: bool,
}

impl Alike {
    /// Nobody has ended yet.
    pub(super) fn new(workload: &Workload, jobs: &[u32]) -> Self {
        let before_ms: HashMap<u32, i64> = workload.warm.iter().map(|warm| (warm.job, -warm.start_ms)).collect();
        let known = |job: u32| {
            let at = job as usize;
            // What a warm job ran before the replay is no part of its run there.
            let run_ms = workload.run_ms.get(at).copied().unwrap_or(0) + before_ms.get(&job).copied().unwrap_or(0);
            let user = workload.user.get(at).copied().unwrap_or(0);
            Known {
                of: (workload.vc.get(at).copied().unwrap_or(0), user, workload.shape_of(at).amount()),
                submit_ms: workload.submit_ms.get(at).copied().unwrap_or(0),
                ln_run: (run_ms as f64 / 1000.0).max(1.0).ln(),
                weight: 0.0,
                sum: 0.0,
                warm: before_ms.contains_key(&job),
            }
        };
        let mut sorted: Vec<(u32, Known)> = jobs.iter().map(|job| (*job, known(*job))).collect();
        sorted.sort_by_key(|(job, known)| (known.of, known.submit_ms, *job));
        let place = sorted.iter().enumerate().map(|(at, (job, _))| (*job, at)).collect();
        let jobs = sorted.into_iter().map(|(_, known)| known).collect();
        Self { jobs, place, waiting: BTreeSet::new(), until: (i64::MIN, None) }
    }

    fn known(&self, job: u32) -> Option<&Known> {
        self.jobs.get(*self.place.get(&job)?)
    }

    /// The logarithm of the expected run of a job, with that of its estimate; both of seconds.
    pub(super) fn expected(&self, job: u32, ln_estimate: f64) -> f64 {
        self.known(job).map_or(ln_estimate, |known| (ln_estimate + known.sum) / (1.0 + known.weight))
    }

    fn first(&self) -> Option<i64> {
        self.waiting.first().map(|(submit_ms, _)| *submit_ms)
    }

    /// For how long the job has waited that was submitted first of those that waited until now, milliseconds. Who starts or stops at this moment does not change it, so that it is one for a whole decision.
    pub(super) fn longest_wait_ms(&self, now: i64) -> i64 {
        let (moment, before) = self.until;
        let first = if moment == now { before } else { self.first() };
        first.map_or(0, |submit_ms| (now - submit_ms).max(0))
    }

    /// A job was submitted. One that runs when the replay begins does not count before it has run there.
    pub(super) fn submitted(&mut self, job: u32, now: i64) {
        let known = self.known(job).filter(|known| !known.warm);
        if let Some(submit_ms) = known.map(|known| known.submit_ms) {
            // At time 0 those come that were submitted before it, some when others have started.
            if let (moment, before) = &mut self.until
                && *moment == now
            {
                *before = Some(before.map_or(submit_ms, |before| before.min(submit_ms)));
            }
            self.waiting.insert((submit_ms, job));
        }
    }

    /// A job has ended.
    pub(super) fn left(&mut self, job: u32) {
        if let Some(submit_ms) = self.known(job).map(|known| known.submit_ms) {
            self.waiting.remove(&(submit_ms, job));
        }
    }

    /// A job waits from now on, or no more.
    pub(super) fn wait(&mut self, job: u32, now: i64, waits: bool) {
        if self.until.0 != now {
            self.until = (now, self.first());
        }
        let Some(submit_ms) = self.known(job).map(|known| known.submit_ms) else { return };
        if waits {
            self.waiting.insert((submit_ms, job));
        } else {
            self.waiting.remove(&(submit_ms, job));
        }
    }

    /// A job has done its work.
    pub(super) fn finished(&mut self, job: u32) {
        let Some(at) = self.place.get(&job).copied() else { return };
        let (before, rest) = self.jobs.split_at_mut(at);
        let Some((done, after)) = rest.split_first_mut() else { return };
        let (of, submit_ms, ln_run) = (done.of, done.submit_ms, done.ln_run);
        let teach = |other: &mut Known| {
            let apart_ms = (other.submit_ms - submit_ms).abs();
            let alike = other.of == of && apart_ms < APART_MS;
            if alike {
                let weight = 1.0 - apart_ms as f64 / APART_MS as f64;
                other.weight += weight;
                other.sum += weight * ln_run;
            }
            alike
        };
        for other in before.iter_mut().rev() {
            if !teach(other) {
                break;
            }
        }
        for other in after {
            if !teach(other) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Shape;

    /// The worked number of the module; then what does not count: another size, another time.
    #[test]
    fn jobs_alike_teach_about_those_that_wait() {
        let mut workload = Workload::default();
        for (submit_s, run_s, gpus) in [(0, 10_000, 1), (900, 1000, 1), (900, 1, 1), (900, 50, 2), (2700, 7, 1)] {
            workload.push(submit_s * 1000, run_s * 1000, Shape::whole(gpus));
        }
        let mut alike = Alike::new(&workload, &[0, 1, 2, 3, 4]);
        let expected = |alike: &Alike| alike.expected(2, 100f64.ln()).exp().round();
        assert_eq!(expected(&alike), 100.0);
        for job in [4, 3, 0, 1] {
            alike.finished(job);
        }
        assert_eq!(expected(&alike), 631.0);
        for job in [0, 1] {
            alike.submitted(job, 0);
        }
        // Who starts at a moment has waited until then.
        alike.wait(0, 1_000_000, false);
        assert_eq!(alike.longest_wait_ms(1_000_000), 1_000_000);
        assert_eq!(alike.longest_wait_ms(1_000_001), 100_001);
        // Who is stopped waits from then on.
        alike.wait(0, 1_100_000, true);
        assert_eq!((alike.longest_wait_ms(1_100_000), alike.longest_wait_ms(1_200_000)), (200_000, 1_200_000));
        alike.left(0);
        alike.wait(1, 1_300_000, false);
        assert_eq!(alike.longest_wait_ms(1_400_000), 0);
    }
}
