#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::super::host::{HostOrder, HostUse};
use super::super::job::{DeadlineDraw, DrawnRuns, JobDraw, UserDraw, draw};
use super::super::pool::pools;
use super::super::pool::tests::rate;
use super::*;

const SIX_MIN: RoundOptions = RoundOptions {
    round_ms: 360_000,
    restart_ms: 0,
    reallocate_ms: 0,
    per_node: None,
    alpha: 0.5,
    lease_rounds: 3,
    host_order: HostOrder::Las,
};

const DEADLINES: Option<DeadlineDraw> = Some(DeadlineDraw { share: 0.5, runs: (1.2, 3.0) });

fn fleet() -> TypedFleet {
    let mut rates = Vec::new();
    for (job, speeds) in [("a", [8.0, 4.0, 1.0]), ("b", [3.0, 2.0, 1.5]), ("c", [5.0, 0.0, 2.0])] {
        for (gpu, speed) in ["v100", "p100", "k80"].into_iter().zip(speeds) {
            for gpus in [1u32, 2, 4] {
                rates.push(rate(gpu, job, gpus, speed * f64::from(gpus).powf(0.9)));
            }
        }
    }
    TypedFleet::new(pools("v100=4,p100=4,k80=4").unwrap(), &rates).unwrap()
}

fn job(kind: usize, submit_ms: i64, steps: f64) -> GangJob {
    GangJob { name: "j".into(), kind, submit_ms, steps, weight: 1.0, user: None, due_ms: None, host: HostUse::Any }
}

#[test]
fn a_job_begins_with_a_round_and_ends_to_the_second() {
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 2.0)]).unwrap();
    for policy in AllocationPolicy::ALL {
        let result = replay(&fleet, &[job(0, 1_000, 1000.0)], policy, &SIX_MIN).unwrap();
        assert_eq!(result.ends_ms, [860_000], "{policy:?}");
        assert_eq!((result.held_ms[0], result.stints.len()), (500_000, 1));
        // 859 s, where it takes 500 s alone.
        assert!((result.ratios[0] - 859.0 / 500.0).abs() < 1e-9);
    }
}

#[test]
fn two_jobs_in_turns_and_what_a_restart_costs() {
    // Each needs 720 s, two rounds, of the one GPU. By shares of a half they go in turns.
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 1.0)]).unwrap();
    let jobs = [job(0, 0, 720.0), job(0, 0, 720.0)];
    let ends = |policy, options: &RoundOptions| replay(&fleet, &jobs, policy, options).unwrap().ends_ms;
    assert_eq!(ends(AllocationPolicy::Fifo, &SIX_MIN), [720_000, 1_440_000]);
    assert_eq!(ends(AllocationPolicy::MaxMin, &SIX_MIN), [1_080_000, 1_440_000]);
    // With 60 s for a restart the first makes 660 s in its two rounds and needs a third: a 0-6, b 6-12, a 12-18 (300), b 18-24 (300), a 24-30 (60 + 60).
    let slow = RoundOptions { restart_ms: 60_000, ..SIX_MIN };
    let result = replay(&fleet, &jobs, AllocationPolicy::MaxMin, &slow).unwrap();
    assert_eq!((result.ends_ms, result.restarts), (vec![1_560_000, 1_920_000], 4));
    assert_eq!(ends(AllocationPolicy::Fifo, &slow), [720_000, 1_440_000]);
    let never = RoundOptions { restart_ms: 360_000, ..SIX_MIN };
    assert!(replay(&fleet, &jobs, AllocationPolicy::Fifo, &never).is_err());
}

#[test]
fn an_allocation_is_kept_for_as_long_as_is_asked() {
    // Rounds of 6 min on one GPU. a needs 6 min, b and c half an hour; d, of the same length, comes after the first round.
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 1.0)]).unwrap();
    let jobs = [job(0, 0, 360.0), job(0, 0, 1800.0), job(0, 0, 1800.0), job(0, 300_000, 1800.0)];
    let of = |reallocate_ms: i64| {
        let options = RoundOptions { reallocate_ms, ..SIX_MIN };
        replay(&fleet, &jobs, AllocationPolicy::MaxMinAware, &options).unwrap()
    };
    let (anew, kept) = (of(0), of(36 * 60_000));
    // At once when a ends and d comes, after b and c end, and none when nobody is left; kept: at 0, at 36 min, when b has ended or is about to, and at 72 min.
    assert_eq!((anew.allocations, kept.allocations), (4, 3));
    let began = |result: &AllocationReplay| result.stints.iter().find(|stint| stint.job == 3).unwrap().from_ms;
    // Until then d has no share, and waits for as long as others have one.
    assert_eq!(began(&anew), 18 * 60_000);
    assert!(began(&kept) >= 36 * 60_000);
    // Where all who have a share are gone, nobody waits.
    let jobs = [job(0, 0, 360.0), job(0, 300_000, 360.0)];
    let options = RoundOptions { reallocate_ms: 36 * 60_000, ..SIX_MIN };
    for policy in [AllocationPolicy::MaxMin, AllocationPolicy::Trading, AllocationPolicy::Fifo] {
        assert_eq!(replay(&fleet, &jobs, policy, &options).unwrap().ends_ms, [360_000, 720_000], "{policy:?}");
    }
}

#[test]
fn jobs_of_a_user_divide_a_weight() {
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 1.0)]).unwrap();
    let mut jobs = vec![job(0, 0, 36_000.0); 3];
    jobs[1].user = Some("u".into());
    jobs[2].user = Some("u".into());
    let result = replay(&fleet, &jobs, AllocationPolicy::MaxMin, &SIX_MIN).unwrap();
    // Half of the time is the first's, so it ends after about 200 rounds; the others share the rest.
    assert!((result.ends_ms[0] - 72_000_000).abs() <= 2 * 360_000, "{:?}", result.ends_ms);
}

#[test]
fn types_decide_where_jobs_run() {
    // a is eight times as fast on the V100 as on the K80, b twice.
    let fleet = TypedFleet::new(
        pools("v100=1,k80=1").unwrap(),
        &[rate("v100", "a", 1, 8.0), rate("k80", "a", 1, 1.0), rate("v100", "b", 1, 3.0), rate("k80", "b", 1, 1.5)],
    )
    .unwrap();
    let jobs = [job(1, 0, 1.5 * 3600.0), job(0, 0, 8.0 * 3600.0)];
    let result = replay(&fleet, &jobs, AllocationPolicy::Makespan, &SIX_MIN).unwrap();
    // Apart, b on the K80 and a on the V100, both end after an hour. Blindly in order, b has the V100, and a eight hours of the K80.
    assert_eq!(result.ends_ms, [3_600_000, 3_600_000]);
    assert_eq!(replay(&fleet, &jobs, AllocationPolicy::Fifo, &SIX_MIN).unwrap().ends_ms, [1_800_000, 28_800_000]);
}

#[test]
fn deadlines_and_who_is_admitted() {
    // One GPU, rounds of 6 min, leases of one round. a runs an hour and has time; b, c and d come with it, run half an hour and are due after 66 min: two of them can be in time.
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 1.0)]).unwrap();
    let due = |steps: f64, due_ms: Option<i64>| GangJob { due_ms, ..job(0, 0, steps) };
    let short = due(1800.0, Some(3_960_000));
    let jobs = [due(3600.0, None), short.clone(), short.clone(), short];
    let options = RoundOptions { lease_rounds: 1, ..SIX_MIN };
    let result = replay(&fleet, &jobs, AllocationPolicy::Chronus, &options).unwrap();
    assert_eq!(result.admitted, Some(BTreeSet::from([1, 2])));
    assert!(result.ends_ms[1..3].iter().all(|end| *end <= 3_960_000), "{:?}", result.ends_ms);
    // The first has what is left over of the first 66 min, and goes on before the third, which came after it.
    assert_eq!((result.ends_ms[0], result.ends_ms[3]), (7_200_000, 9_000_000));
    // By deadlines alone two are in time as well, and the third, once late, comes after the first.
    let result = replay(&fleet, &jobs, AllocationPolicy::Edf, &SIX_MIN).unwrap();
    assert_eq!((result.ends_ms, result.admitted), (vec![7_560_000, 1_800_000, 3_600_000, 9_000_000], None));
}

#[test]
fn genie_takes_as_many_gpus_as_a_deadline_needs() {
    // 3,600 steps at 1 a second on one GPU, which it asks for, and 1.8 on two. With 35 min it needs both, and ends after 2,000 s; with an hour one is enough.
    let rates = [rate("v100", "a", 1, 1.0), rate("v100", "a", 2, 1.8)];
    let fleet = TypedFleet::new(pools("v100=2").unwrap(), &rates).unwrap();
    let one = fleet.kind("a", 1).unwrap();
    let of = |due_ms: i64, options: &RoundOptions| {
        let jobs = [GangJob { due_ms: Some(due_ms), ..job(one, 0, 3600.0) }];
        let result = replay(&fleet, &jobs, AllocationPolicy::Genie, options).unwrap();
        (result.ends_ms[0], result.held_ms[0], result.stints.len())
    };
    assert_eq!(of(2_100_000, &SIX_MIN), (2_000_000, 4_000_000, 1));
    assert_eq!(of(3_600_000, &SIX_MIN), (3_600_000, 3_600_000, 1));
    // A second job takes one of the GPUs after a round: 3,240 steps are left for the first on one GPU, if its deadline allows, and a restart comes first where it had two.
    let jobs = |due_ms: i64| {
        [
            GangJob { due_ms: Some(due_ms), ..job(one, 0, 3600.0) },
            GangJob { due_ms: Some(2_000_000), ..job(one, 200_000, 1500.0) },
        ]
    };
    let slow = RoundOptions { restart_ms: 60_000, ..SIX_MIN };
    let result = replay(&fleet, &jobs(3_600_000), AllocationPolicy::Genie, &slow).unwrap();
    assert_eq!((result.ends_ms, result.restarts), (vec![3_600_000, 1_860_000], 0));
    // With 35 min the first can wait for less time than the second all along, so it keeps both.
    let result = replay(&fleet, &jobs(2_100_000), AllocationPolicy::Genie, &slow).unwrap();
    assert_eq!((result.ends_ms[0], result.restarts), (2_000_000, 0));
}

#[test]
fn what_floats_leave_over_is_no_round() {
    // 2,520 steps at 0.7 a second are 3,600 s, ten rounds; ten times 252 falls short of 2,520 by 5.7e-14.
    let fleet = TypedFleet::new(pools("v100=1").unwrap(), &[rate("v100", "a", 1, 0.7)]).unwrap();
    let result = replay(&fleet, &[job(0, 0, 2520.0)], AllocationPolicy::MaxMinAware, &SIX_MIN).unwrap();
    assert_eq!(result.ends_ms, [3_600_000]);
    let told = replay(&fleet, &[job(0, 0, 1e18)], AllocationPolicy::Fifo, &SIX_MIN).unwrap_err().to_string();
    assert!(told.contains("job `j` would take the replay beyond"), "{told}");
}

#[test]
fn fifo_moves_nobody_on_nodes() {
    // Eight GPUs on two nodes hold two gangs of three and not the gang of two beside them: it waits until both are done.
    let rates = [rate("v100", "a", 3, 1.0), rate("v100", "a", 2, 1.0)];
    let fleet = TypedFleet::new(pools("v100=8").unwrap(), &rates).unwrap();
    let (two, three) = (fleet.kind("a", 2).unwrap(), fleet.kind("a", 3).unwrap());
    let jobs = [job(three, 0, 7200.0), job(three, 0, 7200.0), job(three, 0, 3600.0), job(two, 0, 3600.0)];
    let nodes = RoundOptions { per_node: Some(4), ..SIX_MIN };
    for policy in [AllocationPolicy::Fifo, AllocationPolicy::FifoAware] {
        let result = replay(&fleet, &jobs, policy, &nodes).unwrap();
        assert_eq!((result.restarts, result.stints.len()), (0, 4), "{policy:?}");
        // Then the third gang has a node, and the two the other.
        assert_eq!(result.ends_ms, [7_200_000, 7_200_000, 10_800_000, 10_800_000], "{policy:?}");
    }
}

fn check(fleet: &TypedFleet, jobs: &[GangJob], result: &AllocationReplay, options: &RoundOptions) {
    for (number, job) in jobs.iter().enumerate() {
        let of: Vec<&Stint> = result.stints.iter().filter(|stint| stint.job == number).collect();
        let steps: f64 = of.iter().map(|stint| stint.steps).sum();
        assert!((steps - job.steps).abs() <= 1e-6 * job.steps, "{steps} of {}", job.steps);
        assert!(of.windows(2).all(|two| two[0].to_ms <= two[1].from_ms));
        assert!(of.iter().all(|stint| stint.from_ms >= job.submit_ms && stint.to_ms <= result.ends_ms[number]));
        assert_eq!(of.last().unwrap().to_ms, result.ends_ms[number]);
        for stint in &of {
            let kind = &fleet.kinds[fleet.kind(&fleet.kinds[job.kind].job, stint.gpus).unwrap()];
            let most = kind.steps_per_s[stint.at] * (stint.to_ms - stint.from_ms) as f64 / 1e3;
            assert!(stint.steps <= most * (1.0 + 1e-9) && stint.from_ms % options.round_ms == 0);
        }
    }
    // At the beginning of each stint its type has no more GPUs held than there are.
    for (at, pool) in fleet.pools.iter().enumerate() {
        let on: Vec<&Stint> = result.stints.iter().filter(|stint| stint.at == at).collect();
        let gpus = |stint: &Stint| stint.gpus;
        for moment in on.iter().map(|stint| stint.from_ms) {
            let held: u32 =
                on.iter().filter(|stint| (stint.from_ms..stint.to_ms).contains(&moment)).map(|stint| gpus(stint)).sum();
            assert!(held <= pool.gpus, "{held} of {}", pool.gpus);
        }
        let held: i64 = on.iter().map(|stint| i64::from(gpus(stint)) * (stint.to_ms - stint.from_ms)).sum();
        assert_eq!(held, result.held_ms[at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_job_makes_its_steps_once_on_gpus_that_there_are(
        seed in any::<u64>(), count in 1usize..24, per_hour in proptest::option::of(1.0f64..20.0), restart in 0i64..60_000,
        per_node in proptest::option::of(2u32..5), kept in 0i64..3_600_000,
    ) {
        let fleet = fleet();
        let users = per_hour.map(|_| UserDraw { users: 3, burst: 2 });
        let what = JobDraw { jobs: count, per_hour, runs: DrawnRuns::Hours, users, deadlines: DEADLINES, ..JobDraw::default() };
        let jobs = draw(&fleet, &what, seed).unwrap();
        let options = RoundOptions { restart_ms: restart, reallocate_ms: kept, per_node, ..SIX_MIN };
        for policy in AllocationPolicy::ALL {
            if policy == AllocationPolicy::Allox && jobs.iter().any(|job| fleet.kinds[job.kind].gpus > 1) {
                continue;
            }
            let result = replay(&fleet, &jobs, policy, &options).unwrap();
            check(&fleet, &jobs, &result, &options);
        }
    }

    #[test]
    fn jobs_that_come_later_change_nothing_before(seed in any::<u64>(), cut in 4usize..16, kept in 0i64..3_600_000) {
        // The same jobs up to one, others after it: until then nothing differs.
        let fleet = fleet();
        let users = Some(UserDraw { users: 4, burst: 2 });
        let what = JobDraw { jobs: 20, per_hour: Some(6.0), runs: DrawnRuns::Hours, users, deadlines: DEADLINES, ..JobDraw::default() };
        let jobs = draw(&fleet, &what, seed).unwrap();
        // Jobs of one burst come together.
        let from = jobs[cut].submit_ms;
        let cut = jobs.partition_point(|job| job.submit_ms < from);
        let mut other: Vec<GangJob> = jobs[..cut].to_vec();
        other.extend(draw(&fleet, &what, seed ^ 1).unwrap().into_iter().map(|job| GangJob { submit_ms: job.submit_ms + from, ..job }));
        for policy in AllocationPolicy::ALL.into_iter().filter(|policy| *policy != AllocationPolicy::Allox) {
            let before = |jobs: &[GangJob]| {
                let options = RoundOptions { reallocate_ms: kept, ..SIX_MIN };
                let result = replay(&fleet, jobs, policy, &options).unwrap();
                let mut begun: Vec<(usize, usize, i64)> =
                    result.stints.iter().filter(|stint| stint.from_ms < from).map(|stint| (stint.job, stint.at, stint.from_ms)).collect();
                begun.sort_unstable();
                begun
            };
            prop_assert_eq!(before(&jobs), before(&other), "{:?}", policy);
        }
    }
}
