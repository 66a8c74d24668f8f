#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::active::tests::{active, kind};
use super::*;

const HOUR: f64 = 3600.0;

fn room(gpus: &[u32]) -> GangRoom {
    GangRoom { gpus: gpus.to_vec(), per_node: None, host: None }
}

#[test]
fn the_worked_example() {
    let kinds = vec![kind(1, &[1.0]); 3];
    let mut jobs = active(&kinds);
    for (job, (hours, due)) in jobs.iter_mut().zip([(2.0, 3.0), (1.0, 2.0), (1.0, 3.0)]) {
        (job.remaining, job.due_s) = (hours * HOUR, Some(due * HOUR));
    }
    let mut leases = Leases::new(HOUR, 0.0);
    let first = leases.round(0.0, &jobs, &room(&[1])).unwrap();
    assert_eq!(leases.admitted().iter().copied().collect::<Vec<_>>(), [0, 1]);
    // All of the first two hours are needed, for either of the two.
    assert!(first[0].is_some() || first[1].is_some(), "{first:?}");
    // What was refused runs in the gaps: the GPU is free once both are done.
    let result = leases.round(3.0 * HOUR, &jobs[2..], &room(&[1])).unwrap();
    assert_eq!((result, leases.admitted().len()), (vec![Some(0)], 2));
}

#[test]
fn best_effort_runs_in_the_gaps_and_a_lease_is_kept() {
    // Two GPUs, one fast. The job with a deadline needs the fast one for all of its time; a job without came before it.
    let kinds = [kind(1, &[4.0, 1.0]), kind(1, &[4.0, 1.0])];
    let mut jobs = active(&kinds);
    jobs[0].remaining = 1e6;
    (jobs[1].remaining, jobs[1].due_s) = (4.0 * 2.0 * HOUR, Some(2.0 * HOUR));
    let mut leases = Leases::new(HOUR, 0.0);
    assert_eq!(leases.round(0.0, &jobs, &room(&[1, 1])).unwrap(), [Some(1), Some(0)]);
    // Within the lease nothing is solved anew; one who comes has what is free.
    let solved = leases.programmes();
    jobs[1].due_s = Some(1.5 * HOUR);
    assert_eq!(leases.round(0.5 * HOUR, &jobs, &room(&[1, 1])).unwrap(), [Some(1), Some(0)]);
    assert_eq!(leases.programmes(), solved);
    // Once the deadline has passed, who came first comes first.
    jobs[1].due_s = Some(-1.0);
    assert_eq!(leases.round(2.0 * HOUR, &jobs, &room(&[1, 1])).unwrap(), [Some(0), Some(1)]);
}

#[test]
fn a_gap_is_for_those_who_were_promised_to_be_in_time() {
    // One GPU. A job without a deadline came first; of two with deadlines one holds the lease. What that leaves is for the other.
    let kinds = vec![kind(1, &[1.0]); 3];
    let mut jobs = active(&kinds);
    for (job, (hours, due)) in jobs.iter_mut().zip([(9.0, None), (0.5, Some(1.0)), (1.0, Some(3.0))]) {
        (job.remaining, job.due_s) = (hours * HOUR, due.map(|due| due * HOUR));
    }
    let mut leases = Leases::new(HOUR, 0.0);
    let first = leases.round(0.0, &jobs, &room(&[1])).unwrap();
    assert_eq!((leases.admitted().len(), first[0], first.iter().flatten().count()), (2, None, 1));
    let holder = first.iter().position(Option::is_some).unwrap();
    jobs.remove(holder);
    assert_eq!(leases.round(0.5 * HOUR, &jobs, &room(&[1])).unwrap(), [None, Some(0)]);
}

#[test]
fn what_cannot_be_in_time_alone_is_refused() {
    let kinds = [kind(1, &[1.0])];
    let mut jobs = active(&kinds);
    (jobs[0].remaining, jobs[0].due_s) = (2.0 * HOUR, Some(1.9 * HOUR));
    let mut leases = Leases::new(HOUR, 0.0);
    assert_eq!(leases.round(0.0, &jobs, &room(&[1])).unwrap(), [Some(0)]);
    assert!(leases.admitted().is_empty());
    // A restart in each lease may cost what is missing.
    jobs[0].due_s = Some(2.0 * HOUR);
    let mut slow = Leases::new(HOUR, 60.0);
    slow.round(0.0, &jobs, &room(&[1])).unwrap();
    assert!(slow.admitted().is_empty());
    let mut leases = Leases::new(HOUR, 0.0);
    leases.round(0.0, &jobs, &room(&[1])).unwrap();
    assert_eq!(leases.admitted().len(), 1);
}

#[test]
fn a_programme_holds_so_many_jobs_and_others_wait_to_be_looked_at() {
    let kinds = vec![kind(1, &[1.0]); MOST_TASKS + 10];
    let mut jobs = active(&kinds);
    jobs.iter_mut().for_each(|job| (job.remaining, job.due_s) = (HOUR, Some(9.0 * HOUR)));
    let mut leases = Leases::new(HOUR, 0.0);
    // There is room for all, so all that are looked at are admitted by one programme after the one without them.
    leases.round(0.0, &jobs, &room(&[200])).unwrap();
    assert_eq!((leases.admitted().len(), leases.seen.len()), (MOST_TASKS, MOST_TASKS));
    assert!(leases.programmes() < 6, "{}", leases.programmes());
    let left: Vec<ActiveJob<'_>> = jobs.split_off(MOST_TASKS);
    leases.round(HOUR, &left, &room(&[200])).unwrap();
    assert_eq!(leases.admitted().len(), MOST_TASKS + 10);
}

#[test]
fn periods_end_at_deadlines() {
    let task = |due: f64| (0, Task { gpus: 1.0, gains: vec![1.0], due });
    assert_eq!(periods(&[task(0.5), task(3.0), task(2.0), task(3.0)]), [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]);
    let many: Vec<_> = (2..40).map(|due| task(f64::from(due))).collect();
    let result = periods(&many);
    assert_eq!((result.len(), result[4], result.last().unwrap().1), (1 + PERIODS, (4.0, 5.0), 39.0));
    assert!(result.windows(2).all(|two| two[0].1 == two[1].0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn leases_fit_and_nobody_has_two(
        jobs in proptest::collection::vec((0u32..4, proptest::collection::vec(0.0f64..9.0, 2), 0.1f64..6.0, proptest::option::of(0.2f64..9.0)), 1..14),
        gpus in proptest::collection::vec(8u32..12, 2),
    ) {
        let kinds: Vec<_> = jobs.iter().map(|(size, speeds, ..)| kind(1 << size, &[speeds[0] + 0.5, speeds[1]])).collect();
        let mut seen = active(&kinds);
        for (job, (.., hours, due)) in seen.iter_mut().zip(&jobs) {
            (job.remaining, job.due_s) = (hours * HOUR * job.kind.fastest(), due.map(|due| due * HOUR));
        }
        let mut leases = Leases::new(HOUR, 0.0);
        let given = leases.round(0.0, &seen, &room(&gpus)).unwrap();
        for (at, gpus) in gpus.iter().enumerate() {
            let used: u32 = seen.iter().zip(&given).filter(|(_, given)| **given == Some(at)).map(|(job, _)| job.kind.gpus).sum();
            prop_assert!(used <= *gpus);
        }
        for (number, (job, given)) in seen.iter().zip(&given).enumerate() {
            prop_assert!(given.is_none_or(|at| job.kind.steps_per_s[at] > 0.0));
            // Only jobs that can be in time are admitted, and only admitted jobs hold leases.
            let admitted = leases.admitted().contains(&number);
            prop_assert!(!admitted || job.due_s.is_some_and(|due_s| job.remaining / job.kind.fastest() <= due_s * (1.0 + 1e-5)));
            prop_assert!(!leases.held.contains_key(&number) || admitted);
        }
        // The same again gives the same.
        let mut again = Leases::new(HOUR, 0.0);
        prop_assert_eq!(again.round(0.0, &seen, &room(&gpus)).unwrap(), given);
    }
}
