//! The order by jobs alike: a timeline worked out by hand, and that only what has ended counts.

use tracecast_planner::sim::{
    Cluster, Compat, Estimate, Order, Policy, Preemption, Scan, Schedule, Shape, Workload, simulate,
};

use crate::cases;

/// One GPU, busy until 100 s. At 10 s user 1 submits three jobs that are expected to take 40 s and take 1,000 s, and user 2 one of 100 s that takes 10 s. Of the first three one is served first, from 100 s on.
/// At 1,100 s the other two are expected to take exp((ln 40 + ln 1000) / 2) = 200 s, so the job of user 2 goes before them. By predictions that stand it goes last.
#[test]
fn what_jobs_alike_took_counts_while_others_wait() {
    let mut workload = Workload::default();
    for (submit_s, run_s, user, predicted_s) in
        [(0, 100, 0, 100.0), (10, 1000, 1, 40.0), (10, 1000, 1, 40.0), (10, 1000, 1, 40.0), (10, 10, 2, 100.0)]
    {
        workload.push(submit_s * 1000, run_s * 1000, Shape::whole(1));
        *workload.user.last_mut().unwrap() = user;
        *workload.predicted_s.last_mut().unwrap() = Some(predicted_s);
    }
    workload.users = ["a", "b", "c"].map(str::to_owned).to_vec();
    let starts = |order: Order| {
        let policy = Policy { order, estimate: Estimate::Predicted, ..Policy::default() };
        let schedule = simulate(&workload, &Cluster::of_vcs(&[("all", 1, 1)]), &policy).unwrap();
        (0..5).map(|job| schedule.start_ms(job).unwrap() / 1000).collect::<Vec<_>>()
    };
    assert_eq!(starts(Order::Alike(10.0)), [0, 100, 1110, 2110, 1100]);
    assert_eq!(starts(Order::Qssf), [0, 100, 1100, 2100, 3100]);
    // Without ageing nothing overtakes: the order of submission.
    assert_eq!(starts(Order::Alike(0.0)), [0, 100, 1100, 2100, 3100]);
}

/// Runs of jobs that have not ended by a moment, and all that is submitted later, change no start before it.
#[test]
fn the_future_does_not_leak_into_the_order() {
    let moment = 60_000;
    let (mut compared, mut taught) = (0, 0);
    for seed in 0..3_000 {
        let (workload, mut cluster, _) = cases::draw(seed);
        cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_milli.clear());
        let policy = Policy {
            order: Order::Alike([0.5, 3.0][seed as usize % 2]),
            estimate: Estimate::Predicted,
            scan: [Scan::Strict, Scan::Skip][seed as usize / 2 % 2],
            preemption: Preemption::Never,
            compat: Compat::None,
            ..Policy::default()
        };
        let first = simulate(&workload, &cluster, &policy).unwrap();
        let mut other = workload.clone();
        for job in 0..other.len() {
            // Who lacks a prediction is known by the limit, and without one by the true run, which must stand.
            let known = other.predicted_s[job].is_some() || other.requested_ms[job].is_some();
            let ended = first.end_ms(job).is_some_and(|end| end < moment);
            if known && !ended {
                other.run_ms[job] += 13_000;
            }
            if other.submit_ms[job] >= moment {
                other.predicted_s[job] = Some(1.0);
            }
        }
        let second = simulate(&other, &cluster, &policy).unwrap();
        let before = |schedule: &Schedule| -> Vec<Option<i64>> {
            (0..workload.len()).map(|job| schedule.start_ms(job).filter(|start| *start < moment)).collect()
        };
        let (first_starts, second_starts) = (before(&first), before(&second));
        assert_eq!(first_starts, second_starts, "seed {seed}");
        compared += first_starts.iter().flatten().count();
        // The same where nobody is alike, as each job has a user of its own.
        let mut apart = workload.clone();
        apart.user = (0..apart.len() as u32).collect();
        apart.users = apart.user.iter().map(|user| format!("u{user}")).collect();
        taught += usize::from(before(&simulate(&apart, &cluster, &policy).unwrap()) != first_starts);
    }
    assert!(compared > 10_000 && taught > 10, "{compared} {taught}");
}
