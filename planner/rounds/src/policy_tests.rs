#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::super::active::tests::{active, kind};
use super::super::pool::JobKind;
use super::*;

fn allocated(policy: AllocationPolicy, jobs: &[ActiveJob<'_>], gpus: &[f64]) -> Allocated {
    allocate(
        policy,
        jobs,
        &GangRoom { gpus: gpus.iter().map(|gpus| *gpus as u32).collect(), per_node: None, host: None },
    )
    .unwrap()
}

/// The shares of each job; who has a type has all of its time there.
fn shares(policy: AllocationPolicy, jobs: &[ActiveJob<'_>], gpus: &[f64]) -> Levelled {
    let all = |at: Option<usize>| (0..gpus.len()).map(|other| f64::from(u8::from(at == Some(other)))).collect();
    match allocated(policy, jobs, gpus) {
        Allocated::Shares(result) => result,
        Allocated::Gangs(_) => panic!("{policy:?} changes gangs"),
        Allocated::Types(result) => Levelled { shares: result.into_iter().map(all).collect(), ..Levelled::default() },
    }
}

/// The type of each job under a policy that gives one type each.
fn types(policy: AllocationPolicy, jobs: &[ActiveJob<'_>], gpus: &[f64]) -> Vec<Option<usize>> {
    let Allocated::Types(result) = allocated(policy, jobs, gpus) else { panic!("{policy:?} gives shares") };
    result
}

fn worst_ratio(jobs: &[ActiveJob<'_>], gpus: &[f64], shares: &[Vec<f64>]) -> f64 {
    let equal = equal_shares(jobs, gpus);
    let of = |((job, shares), equal): ((&ActiveJob<'_>, &Vec<f64>), &f64)| {
        let speed: f64 = job.kind.steps_per_s.iter().zip(shares).map(|(speed, share)| speed * share).sum();
        (job.since_s + job.remaining / speed) / ((job.alone_steps + job.remaining / equal) / job.kind.mean_speed(gpus))
    };
    jobs.iter().zip(shares).zip(&equal).map(of).fold(0.0, f64::max)
}

#[test]
fn names_are_read_back() {
    for policy in AllocationPolicy::ALL {
        assert_eq!(AllocationPolicy::named(policy.name()).unwrap(), policy);
    }
    assert!(AllocationPolicy::named("lottery").unwrap_err().to_string().contains("fifo_aware"));
}

#[test]
fn orders_give_one_type_each() {
    use AllocationPolicy as P;
    let kinds = [kind(1, &[1.0, 4.0]), kind(2, &[1.0, 3.0]), kind(4, &[1.0, 5.0]), kind(1, &[1.0, 9.0])];
    let mut jobs = active(&kinds);
    let gpus = [2.0, 3.0];
    // The first goes where most is free (3), the second too (2 and 2: the first of equals), the gang of 4 fits nowhere and all behind it wait.
    assert_eq!(types(P::Fifo, &jobs, &gpus), [Some(1), Some(0), None, None]);
    assert_eq!(types(P::FifoAware, &jobs, &gpus), [Some(1), Some(1), None, None]);
    // Who runs keeps its type, also where another has come before it.
    jobs[3].on = Some(0);
    assert_eq!(types(P::Fifo, &jobs, &gpus), [Some(1), Some(1), None, Some(0)]);
    // Least attained service passes over who does not fit, and lets the last go first once others had more.
    for (job, had) in jobs.iter_mut().zip([9.0, 5.0, 3.0, 1.0]) {
        job.attained_gpu_s = had;
        job.on = None;
    }
    assert_eq!(types(P::LasAware, &jobs, &gpus), [Some(0), Some(1), None, Some(1)]);
    assert_eq!(types(P::Las, &jobs, &gpus), [Some(1), Some(0), None, Some(1)]);
}

#[test]
fn who_knows_no_types_pours_one_pool() {
    use AllocationPolicy as P;
    let kinds = [kind(1, &[4.0, 1.0]), kind(2, &[2.0, 1.0]), kind(1, &[1.0, 1.0])];
    let mut jobs = active(&kinds);
    let pool = |policy, jobs: &[ActiveJob<'_>]| -> Vec<f64> {
        shares(policy, jobs, &[1.0, 1.0]).shares.iter().map(|shares| shares.iter().sum()).collect()
    };
    let near = |result: Vec<f64>, expected: [f64; 3]| {
        assert!(result.iter().zip(expected).all(|(result, expected)| (result - expected).abs() < 1e-9), "{result:?}");
    };
    // Two GPUs among three: 2/3 of a GPU each, which is a third of the time for the gang of two.
    near(pool(P::MaxMin, &jobs), [2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]);
    // A job of four times the weight has all of its time, and what it cannot use is the others'.
    jobs[0].weight = 4.0;
    near(pool(P::MaxMin, &jobs), [1.0, 0.25, 0.5]);
    jobs[0].weight = 1.0;
    // By finish times: all are new, so all are to have the same part of their equal shares.
    near(pool(P::FinishTime, &jobs), [2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0]);
    // The third, at 1 step a second, has waited for longer than the others' ratio allows, so it has all of its time, and they share the rest.
    jobs[2].since_s = 1e5;
    near(pool(P::FinishTime, &jobs), [0.5, 0.25, 1.0]);
    // Unless it has made the steps of that time: then it is where the others are, and 1,000 steps take as long as theirs.
    jobs[2].alone_steps = 1e5;
    let result = pool(P::FinishTime, &jobs);
    assert!(result[2] < 0.7 && (result[0] + 2.0 * result[1] + result[2] - 2.0).abs() < 1e-9, "{result:?}");
}

#[test]
fn the_nearest_deadline_comes_first() {
    let kinds = vec![kind(1, &[1.0, 4.0]); 4];
    let mut jobs = active(&kinds);
    for (job, due_s) in jobs.iter_mut().zip([None, Some(900.0), Some(-5.0), Some(800.0)]) {
        job.due_s = due_s;
    }
    // The last is due first and has the fast GPU, then the second; the first and the third, whose deadline has passed, wait in order of submission.
    assert_eq!(types(AllocationPolicy::Edf, &jobs, &[1.0, 1.0]), [None, Some(0), None, Some(1)]);
    assert_eq!(types(AllocationPolicy::Edf, &jobs, &[2.0, 1.0]), [Some(0), Some(0), None, Some(1)]);
}

#[test]
fn allox_matches_the_sum_of_completion_times() {
    // 1 h or 4 h, 2 h or 3 h: the second may as well wait for the V100, but not the first on the K80.
    let kinds = [kind(1, &[4.0, 1.0]), kind(1, &[3.0, 2.0])];
    let mut jobs = active(&kinds);
    jobs[0].remaining = 4.0;
    jobs[1].remaining = 6.0;
    assert_eq!(types(AllocationPolicy::Allox, &jobs, &[1.0, 1.0])[0], Some(0));
    jobs[0].on = Some(1);
    assert_eq!(types(AllocationPolicy::Allox, &jobs, &[1.0, 1.0]), [Some(1), Some(0)]);
}

#[test]
fn makespan_of_two_jobs() {
    // One GPU of each; 100 steps left of each, at 4 and 1, and 1 and 1: apart they end in 25 and 100 s. The first may give up to half of the fast one:
    // x of it to b: 100 / (4 - 4x) = 100 / (1 + 0) for any x at which b has all its time already. So 100 s it is, and no less.
    let kinds = [kind(1, &[4.0, 1.0]), kind(1, &[1.0, 1.0])];
    let mut jobs = active(&kinds);
    jobs.iter_mut().for_each(|job| job.remaining = 100.0);
    let result = shares(AllocationPolicy::Makespan, &jobs, &[1.0, 1.0]);
    assert!((1.0 / result.level - 100.0).abs() < 1e-3, "{result:?}");
    // The rest goes where it is fast: all of the V100 to the first.
    assert!(result.shares[0][0] > 0.999 && result.shares[1][1] > 0.999, "{result:?}");
}

#[test]
fn many_jobs_in_parts_leave_no_gpu_and_nobody_behind() {
    // 258 jobs, so three parts, unequal in weight and size.
    let kinds: Vec<JobKind> = (0..258).map(|at| kind(1 << (at % 3), &[4.0 + f64::from(at % 5), 1.0])).collect();
    let mut jobs = active(&kinds);
    for (at, job) in jobs.iter_mut().enumerate() {
        job.weight = 1.0 + (at % 4) as f64;
    }
    let gpus = [30.0, 30.0];
    for policy in [AllocationPolicy::MaxMinAware, AllocationPolicy::FinishTimeAware] {
        let result = shares(policy, &jobs, &gpus);
        for (at, gpus) in gpus.iter().enumerate() {
            let used: f64 = jobs.iter().zip(&result.shares).map(|(job, shares)| job.gpus() * shares[at]).sum();
            assert!(used > 0.99 * gpus && used < gpus * (1.0 + 1e-6), "{policy:?}: {used}");
        }
        let ratio = worst_ratio(&jobs, &gpus, &result.shares);
        assert!(ratio < 1.01, "{policy:?}: {ratio}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn shares_are_fair_and_fit(
        jobs in proptest::collection::vec(
            (0u32..4, proptest::collection::vec(0.5f64..9.0, 3), 1.0f64..1e6, 0.0f64..1e5, 0.5f64..3.0, 0.0f64..1e7), 1..20),
        gpus in proptest::collection::vec(8u32..12, 3),
    ) {
        let kinds: Vec<JobKind> = jobs.iter().map(|(size, speeds, ..)| kind(1 << size, speeds)).collect();
        let mut active = active(&kinds);
        for (active, (_, _, remaining, since, weight, made)) in active.iter_mut().zip(&jobs) {
            (active.remaining, active.since_s, active.weight, active.alone_steps) = (*remaining, *since, *weight, *made);
        }
        let gpus: Vec<f64> = gpus.into_iter().map(f64::from).collect();
        for policy in AllocationPolicy::ALL {
            if policy == AllocationPolicy::Allox && kinds.iter().any(|kind| kind.gpus > 1) || policy.remembers() || policy.resizes() {
                continue;
            }
            let result = shares(policy, &active, &gpus);
            prop_assert_eq!(result.shares.len(), active.len());
            for shares in &result.shares {
                prop_assert!(shares.iter().all(|share| *share >= 0.0) && shares.iter().sum::<f64>() <= 1.0 + 1e-6);
            }
            for (at, gpus) in gpus.iter().enumerate() {
                let used: f64 = active.iter().zip(&result.shares).map(|(job, shares)| job.gpus() * shares[at]).sum();
                prop_assert!(used <= gpus * (1.0 + 1e-6), "{policy:?}: {used} of {gpus}");
            }
        }
        // Sharing incentive: nobody has less than with an equal share, and the worst finish-time ratio is no worse than with equal shares.
        let equal = equal_shares(&active, &gpus);
        let result = shares(AllocationPolicy::MaxMinAware, &active, &gpus);
        prop_assert!(result.level >= 1.0 - 1e-6, "{}", result.level);
        for ((job, shares), equal) in active.iter().zip(&result.shares).zip(&equal) {
            let speed: f64 = job.kind.steps_per_s.iter().zip(shares).map(|(speed, share)| speed * share).sum();
            prop_assert!(speed >= equal * job.kind.mean_speed(&gpus) * (1.0 - 1e-6));
        }
        let fair = shares(AllocationPolicy::FinishTimeAware, &active, &gpus);
        let even: f64 = gpus.iter().sum();
        let even: Vec<Vec<f64>> = equal.iter().map(|share| gpus.iter().map(|gpus| share * gpus / even).collect()).collect();
        let worst = |shares: &[Vec<f64>]| worst_ratio(&active, &gpus, shares);
        let (ratio, other) = (worst(&fair.shares), worst(&result.shares).min(worst(&even)));
        prop_assert!(ratio <= other * 1.002, "{ratio} {other}");
    }
}
