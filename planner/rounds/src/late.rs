//! How many deadlines must be missed, whatever the schedule and whatever it knows of the future.
//!
//! As in [`super::bound`], a job takes work of at least c_j, and the whole fleet does work at a rate of 1. A job is in time only if its c_j is done between its submission a_j and its deadline d_j. For a moment a, take the jobs that come at a or later as if all were there at a; the least number of them
//! that one machine must be late with is found by Moore's and Hodgson's rule: in order of deadlines, whenever the work so far does not fit before a deadline, the longest job so far is given up. That is a number for each pair of a moment and a deadline, of jobs that lie between the two. Stretches that do not overlap have
//! different jobs, so their numbers add up, and the greatest sum is the bound. A job that is late even alone on its fastest type counts too.
//!
//! Gangs count as if they could be cut, so it may lie well below what can be had. O(moments · jobs · log jobs), with at most 400 moments.
//!
//! Worked example: one GPU; three jobs of 1 h are there at 0 and due after 2 h, and two of 1 h come after 5 h and are due after 6 h. One of the first must be late, and one of the others: 2 of 5.

use std::collections::BinaryHeap;

/// Most moments from which on jobs are counted.
const MOMENTS: usize = 400;
/// Ends are told in whole milliseconds.
const TICK_S: f64 = 1e-3;

/// A number in a heap, in its order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Work(pub(super) f64);

impl Eq for Work {}

impl PartialOrd for Work {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Work {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A job with a deadline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// Submission, seconds.
    pub submit_s: f64,
    /// Deadline, seconds.
    pub due_s: f64,
    /// Work that it takes at least, seconds of the whole fleet.
    pub work_s: f64,
    /// How long it takes alone on its fastest type, seconds.
    pub alone_s: f64,
}

/// The least number of jobs that are late.
pub fn least_late(jobs: &[Due]) -> usize {
    let (mut left, hopeless): (Vec<Due>, Vec<Due>) =
        jobs.iter().partition(|job| job.submit_s + job.alone_s <= job.due_s + TICK_S);
    left.sort_by(|a, b| a.due_s.total_cmp(&b.due_s));
    let mut moments: Vec<f64> = left.iter().map(|job| job.submit_s).collect();
    moments.sort_by(f64::total_cmp);
    moments.dedup();
    let every = moments.len().div_ceil(MOMENTS).max(1);
    // The greatest sum of stretches of which the last ends at the deadline of each job.
    let mut sums = vec![0usize; left.len()];
    for from in moments.into_iter().step_by(every) {
        let before = left.iter().zip(&sums).take_while(|(job, _)| job.due_s <= from).map(|(_, sum)| *sum);
        let before = before.max().unwrap_or(0);
        let (mut busy, mut late) = (from, 0);
        let mut longest: BinaryHeap<Work> = BinaryHeap::new();
        for (job, sum) in left.iter().zip(&mut sums) {
            if job.submit_s >= from {
                longest.push(Work(job.work_s));
                busy += job.work_s;
                if busy > job.due_s + TICK_S {
                    busy -= longest.pop().map_or(0.0, |work| work.0);
                    late += 1;
                }
            }
            *sum = (*sum).max(before + late);
        }
    }
    hopeless.len() + sums.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn due(submit_s: f64, due_s: f64, work_s: f64) -> Due {
        Due { submit_s, due_s, work_s, alone_s: work_s }
    }

    #[test]
    fn the_worked_example() {
        let first = [due(0.0, 2.0, 1.0); 3];
        assert_eq!(least_late(&first), 1);
        let all = [&first[..], &[due(5.0, 6.0, 1.0); 2]].concat();
        assert_eq!(least_late(&all), 2);
        // Alone it takes twice as long as there is time, though the work is little.
        let slow = Due { alone_s: 4.0, ..due(0.0, 2.0, 0.1) };
        assert_eq!(least_late(&[slow, due(0.0, 2.0, 1.0)]), 1);
        assert_eq!(least_late(&[]), 0);
    }

    /// The least by trying all sets: those in time are served by the nearest deadline first, in steps of one.
    fn by_trying(jobs: &[Due]) -> usize {
        (0u32..1 << jobs.len())
            .filter(|kept| {
                let mut left: Vec<(f64, Due)> = jobs
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| kept >> at & 1 == 1)
                    .map(|(_, job)| (job.work_s, *job))
                    .collect();
                for second in 0..64 {
                    let now = f64::from(second);
                    let open = left.iter_mut().filter(|(work, job)| *work > 0.0 && job.submit_s <= now);
                    if let Some((work, _)) = open.min_by(|a, b| a.1.due_s.total_cmp(&b.1.due_s)) {
                        *work -= 1.0;
                    }
                    if left.iter().any(|(work, job)| *work > 0.0 && job.due_s <= now + 1.0) {
                        return false;
                    }
                }
                true
            })
            .map(|kept| jobs.len() - kept.count_ones() as usize)
            .min()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn nobody_is_late_with_fewer(jobs in proptest::collection::vec((0u32..12, 1u32..6, 0u32..8), 1..9)) {
            let jobs: Vec<Due> = jobs.into_iter().map(|(submit, work, slack)| {
                due(f64::from(submit), f64::from(submit + work + slack), f64::from(work))
            }).collect();
            let (bound, least) = (least_late(&jobs), by_trying(&jobs));
            prop_assert!(bound <= least, "{bound} {least}");
            // Where all come at once the rule is exact.
            let together: Vec<Due> = jobs.iter().map(|job| Due { submit_s: 0.0, ..*job }).collect();
            prop_assert_eq!(least_late(&together), by_trying(&together));
        }
    }
}
