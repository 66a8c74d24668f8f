//! What holds of every attempt: no deadline is missed, none beats the optimum, and the future changes nothing.

use proptest::prelude::*;

use super::super::optimum::tests::by_trying;
use super::super::policy::{learned, learned_lanes, pilot, programmes};
use super::*;
use crate::cloud::elastic::ride;
use crate::market::availability::Supply;
use crate::plan::window::spread;

const MIN: i64 = 60_000;

/// All policies on a job whose work is known.
fn of_known(supply: &Supply, tick_ms: i64, window: &Window, job: DeadlineJob) -> Result<Vec<Attempt>> {
    attempt(&CloudPolicy::ALL, &Lessons::new(supply.clone(), tick_ms), None, window, &[job], None)
}

/// An enemy: spot is up until the job has been on it for long enough to have paid for `patience` ticks, then dies; and comes back when the job
/// has left for on-demand.
fn adversary(
    policy: CloudPolicy,
    past: &[bool],
    ticks: usize,
    tick_ms: i64,
    job: &DeadlineJob,
    patience: usize,
) -> Vec<bool> {
    // The policy is replayed on the trace so far, tick by tick, and the next tick is what hurts.
    let mut ahead: Vec<bool> = Vec::new();
    for _ in 0..ticks {
        let up = [past, ahead.as_slice()].concat();
        let fitted = programmes(&learned(&up, past.len(), policy, tick_ms, ticks), 1, past.len(), tick_ms, job, None);
        let mut held = Vec::new();
        ride(pilot(policy, &fitted).as_mut(), &ahead, tick_ms, job, &mut |holding| held.push(holding));
        held.truncate(ahead.len());
        let on_spot = held.iter().rev().take_while(|holding| **holding == Holding::Spot).count();
        ahead.push(on_spot < patience);
    }
    ahead
}

/// A job at three times the price of spot, in minutes; its deadline is `odd_ms` later than whole minutes.
fn in_minutes(work_min: i64, spare_min: i64, changeover_min: i64, odd_ms: i64) -> DeadlineJob {
    DeadlineJob {
        work_ms: work_min * MIN,
        deadline_ms: (work_min + changeover_min + spare_min) * MIN + odd_ms,
        changeover_ms: changeover_min * MIN,
        price_ratio: 3.0,
    }
}

/// A third of so many minutes or less in a fifth of the cases, half in three, all in nine tenths, and more beyond it.
fn levels_of(work_min: i64) -> WorkDistribution {
    let levels = [(0.2, work_min.div_euclid(3).max(1)), (0.6, work_min.div_euclid(2).max(1)), (0.9, work_min)];
    WorkDistribution::new(&levels.map(|(level, minutes)| (level, minutes * MIN))).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_trace_makes_a_policy_miss_and_none_beats_the_optimum(
        past in prop::collection::vec(any::<bool>(), 0..30),
        ahead in prop::collection::vec(any::<bool>(), 10),
        tick_min in 3i64..14,
        work_min in 5i64..60,
        spare_min in 0i64..60,
        changeover_min in 0i64..20,
    ) {
        let tick_ms = tick_min * MIN;
        let job = in_minutes(work_min, spare_min, changeover_min, 0);
        prop_assume!(job.ticks(tick_ms) <= 10);
        let up = [past.as_slice(), ahead.as_slice()].concat();
        let window = Window { past: 0..past.len(), ahead: past.len()..up.len() };
        let tried = of_known(&Supply::one(&up), tick_ms, &window, job).unwrap();
        let least = tried[0].run(CloudPolicy::Omniscient).cost;
        if job.ticks(tick_ms) <= 7 {
            let all = by_trying(&ahead, &[], tick_ms, &job);
            prop_assert!((all - least).abs() < 1e-9 * all);
        }
        for policy in CloudPolicy::CAUSAL {
            let run = tried[0].run(policy);
            prop_assert!(!run.missed, "{policy:?} misses");
            prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
        }
        // The work may be anything up to that: none misses it either, and none beats the optimum that knows it.
        let work = levels_of(work_min);
        for planned in [true, false] {
            let told = Some(Told { work: &work, planned });
            let lessons = Lessons::new(Supply::one(&up), tick_ms);
            let tried = attempt(&CloudPolicy::ALL, &lessons, None, &window, &[job], told).unwrap();
            let least = tried[0].run(CloudPolicy::Omniscient).cost;
            for policy in CloudPolicy::CAUSAL {
                let run = tried[0].run(policy);
                prop_assert!(!run.missed, "{policy:?} misses uncertain work");
                if policy.phases().is_none() {
                    // Each amount on its own, with the safety net.
                    let alone = work.amounts().into_iter().map(|(work_ms, chance)| {
                        let mut pilot = lanes_pilot(policy, 1, &[], None);
                        let ahead = lessons.supply.within(window.ahead.clone());
                        chance * ride_uncertain(pilot.as_mut(), (ahead, &[]), 1, tick_ms, (&job, work_ms), &mut |_| ()).cost
                    });
                    let alone: f64 = alone.sum();
                    prop_assert!((run.cost - alone).abs() <= 1e-9 * alone, "{policy:?}: {} and {alone}", run.cost);
                }
                prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
            }
        }
    }

    #[test]
    fn nor_does_one_that_hates_it(
        past in prop::collection::vec(any::<bool>(), 0..20),
        tick_min in 3i64..14,
        work_min in 5i64..60,
        spare_min in 0i64..40,
        changeover_min in 0i64..20,
        patience in 1usize..4,
    ) {
        let tick_ms = tick_min * MIN;
        let job = in_minutes(work_min, spare_min, changeover_min, 1);
        let ticks = job.ticks(tick_ms);
        prop_assume!(ticks <= 12);
        for policy in CloudPolicy::CAUSAL {
            let ahead = adversary(policy, &past, ticks, tick_ms, &job, patience);
            let up = [past.as_slice(), ahead.as_slice()].concat();
            let fitted = programmes(&learned(&up, past.len(), policy, tick_ms, ticks), 1, past.len(), tick_ms, &job, None);
            let run = ride(pilot(policy, &fitted).as_mut(), &ahead, tick_ms, &job, &mut |_| ());
            prop_assert!(!run.missed, "{policy:?}");
        }
    }
}

/// 2 h of work said, 3 h to the deadline, no spot: greedy waits an hour. Of 3 h in truth the last comes after the deadline; of 1 h it pays one.
#[test]
fn work_that_is_not_as_said() {
    const HOUR: i64 = 60 * MIN;
    let supply = Supply::one(&[false; 10]);
    let window = Window { past: 0..2, ahead: 2..5 };
    let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 3 * HOUR, changeover_ms: 0, price_ratio: 3.0 };
    let of = |supply: &Supply, work_ms: i64| {
        let run =
            misled_by(&Lessons::new(supply.clone(), HOUR), None, &window, (&job, &[work_ms]), CloudPolicy::Greedy)[0];
        (run.cost / HOUR as f64, run.on_demand / HOUR as f64, run.missed, run.late_ms / HOUR)
    };
    assert_eq!(of(&supply, 3 * HOUR), (9.0, 9.0, true, 1));
    assert_eq!(of(&supply, HOUR), (3.0, 3.0, false, 0));
    assert_eq!(of(&supply, 2 * HOUR), (6.0, 6.0, false, 0));
    // Spot that is held once the work said is done is used to its end: here it is lost after the third hour.
    let spot: Vec<bool> = (0..10).map(|tick| (2..5).contains(&tick)).collect();
    assert_eq!(of(&Supply::one(&spot), 4 * HOUR), (6.0, 12.0, true, 1));
}

/// Four nodes, told of 2 h each: greedy takes all on spot at once. Of 0.3 h each three would do, but nobody knows that the first hour is the last, so that all four pay half an hour of changeover and work 0.3 h. An amount
/// costs the same whatever others are tried beside it.
#[test]
fn nobody_lets_a_node_go_in_a_last_tick_that_was_not_foreseen() {
    const HOUR: i64 = 60 * MIN;
    let supply = Supply { lanes: 4, up: vec![4; 12] };
    let window = Window { past: 0..2, ahead: 2..6 };
    let job = DeadlineJob { work_ms: 2 * HOUR, deadline_ms: 4 * HOUR, changeover_ms: HOUR / 2, price_ratio: 3.0 };
    let of = |works_ms: &[i64]| -> Vec<f64> {
        let lessons = Lessons::new(supply.clone(), HOUR);
        let runs = misled_by(&lessons, None, &window, (&job, works_ms), CloudPolicy::Greedy);
        runs.iter().map(|run| run.cost / HOUR as f64).collect()
    };
    assert_eq!(of(&[18 * MIN]), [3.2]);
    assert_eq!(of(&[18 * MIN, 3 * HOUR, 60 * MIN]), [3.2, 14.0, 6.0]);
}

/// Where spot never comes, the programmes begin on-demand once and keep it, whatever they expected of spot: it costs all on-demand.
#[test]
fn a_zone_without_spot_costs_one_changeover() {
    let supply = Supply::one(&[false; 3000]);
    for changeover_min in [7, 30] {
        for slack in [0.6, 0.9] {
            let job = DeadlineJob::new(17 * 60 * MIN, slack, changeover_min * MIN, 3.0).unwrap();
            for window in spread(&(0..3000), job.ticks(5 * MIN), 4) {
                let tried = of_known(&supply, 5 * MIN, &window, job).unwrap();
                for policy in [CloudPolicy::Markov, CloudPolicy::SemiMarkov] {
                    let run = tried[0].run(policy);
                    assert!(
                        (tried[0].share(policy) - 1.0).abs() < 1e-9,
                        "{policy:?} {changeover_min} {slack}: {run:?}"
                    );
                }
            }
        }
    }
}

/// What comes after a tick changes no decision up to it: the cost up to there is the same whatever follows.
#[test]
fn the_future_changes_no_decision() {
    let past: Vec<bool> = (0..600).map(|tick| tick / 7 % 3 != 0).collect();
    let job = DeadlineJob { work_ms: 600 * MIN, deadline_ms: 800 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
    let held = |ahead: &[bool], policy: CloudPolicy| {
        let up = [past.as_slice(), ahead].concat();
        let fitted = programmes(&learned(&up, past.len(), policy, 5 * MIN, 160), 1, past.len(), 5 * MIN, &job, None);
        let mut held = Vec::new();
        ride(pilot(policy, &fitted).as_mut(), ahead, 5 * MIN, &job, &mut |holding| held.push(holding));
        held
    };
    let one: Vec<bool> = (0..160).map(|tick| tick / 11 % 2 == 0).collect();
    for cut in [1, 60, 100] {
        let mut other = one.clone();
        other[cut..].iter_mut().for_each(|up| *up = !*up);
        for policy in CloudPolicy::CAUSAL {
            let (first, second) = (held(&one, policy), held(&other, policy));
            assert_eq!(first.get(..cut), second.get(..cut), "{policy:?}");
        }
    }
}

/// What each policy of lanes holds on `ahead` after `past`.
fn held_in_lanes(
    policy: CloudPolicy,
    lanes: usize,
    past: &[u32],
    ahead: &[u32],
    tick_ms: i64,
    (job, work): (&DeadlineJob, Option<&WorkDistribution>),
) -> (Vec<Vec<Holding>>, JobRun) {
    let supply = Supply { lanes, up: [past, ahead].concat() };
    let learned = learned_lanes(&supply, past.len(), policy, tick_ms, job.ticks(tick_ms));
    let fitted = lanes_programmes(&learned, lanes, past.len(), tick_ms, job, None);
    let mut held = Vec::new();
    let mut pilot = lanes_pilot(policy, lanes, &fitted, work);
    let run = ride_lanes(pilot.as_mut(), (ahead, &[]), lanes, tick_ms, job, &mut |of| held.push(of.to_vec()));
    (held, run)
}

/// An enemy of an elastic job: spot of a lane is there until the lane has been on it for `patience` ticks.
fn enemy_of_lanes(
    policy: CloudPolicy,
    lanes: usize,
    past: &[u32],
    tick_ms: i64,
    (job, work): (&DeadlineJob, Option<&WorkDistribution>),
    patience: usize,
) -> Vec<u32> {
    let mut ahead: Vec<u32> = Vec::new();
    for _ in 0..job.ticks(tick_ms) {
        let (mut held, _) = held_in_lanes(policy, lanes, past, &ahead, tick_ms, (job, work));
        held.truncate(ahead.len());
        let tired = |lane: usize| {
            held.iter().rev().take_while(|held| held.get(lane) == Some(&Holding::Spot)).count() >= patience
        };
        ahead.push((0..lanes).find(|lane| tired(*lane)).unwrap_or(lanes) as u32);
    }
    ahead
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn no_trace_makes_an_elastic_job_miss_and_none_beats_the_optimum(
        lanes in 1usize..4,
        past in prop::collection::vec(0u32..5, 0..30),
        ahead in prop::collection::vec(0u32..5, 10),
        tick_min in 3i64..14,
        work_min in 5i64..60,
        spare_min in 0i64..60,
        changeover_min in 0i64..20,
    ) {
        let tick_ms = tick_min * MIN;
        let job = in_minutes(work_min, spare_min, changeover_min, 0);
        prop_assume!(job.ticks(tick_ms) <= 10);
        let supply = Supply { lanes, up: [past.as_slice(), ahead.as_slice()].concat() };
        let window = Window { past: 0..past.len(), ahead: past.len()..supply.up.len() };
        let tried = of_known(&supply, tick_ms, &window, job).unwrap();
        let least = tried[0].run(CloudPolicy::Omniscient).cost;
        // Less than all where a single tick does the job, and not all lanes are needed.
        prop_assert!(tried[0].share(CloudPolicy::OnDemand) < 1.0 + 1e-12);
        for policy in CloudPolicy::CAUSAL {
            let run = tried[0].run(policy);
            prop_assert!(!run.missed, "{policy:?} misses");
            prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
        }
        // This holds for work of any amount up to that. With one amount it costs what known work
        // does, but for what is let go within the last tick.
        let lessons = Lessons::new(supply.clone(), tick_ms);
        let certain = WorkDistribution::new(&[(1.0, job.work_ms)]).unwrap();
        for (work, planned) in [(levels_of(work_min), true), (levels_of(work_min), false), (certain.clone(), true)] {
            let told = Some(Told { work: &work, planned });
            let result = attempt(&CloudPolicy::ALL, &lessons, None, &window, &[job], told).unwrap();
            let least = result[0].run(CloudPolicy::Omniscient).cost;
            for policy in CloudPolicy::CAUSAL {
                let run = result[0].run(policy);
                prop_assert!(!run.missed, "{policy:?} misses uncertain work");
                prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
                if work == certain {
                    let most = lanes as f64 * 3.0 * tick_ms as f64;
                    let known = tried[0].run(policy).cost;
                    prop_assert!((run.cost - known).abs() <= most, "{policy:?}: {} and {known}", run.cost);
                }
            }
        }
    }

    #[test]
    fn nor_does_an_enemy_of_elastic_jobs(
        lanes in 2usize..4,
        past in prop::collection::vec(0u32..4, 0..20),
        tick_min in 3i64..14,
        work_min in 5i64..60,
        spare_min in 0i64..40,
        changeover_min in 0i64..20,
        patience in 1usize..4,
    ) {
        let tick_ms = tick_min * MIN;
        let job = in_minutes(work_min, spare_min, changeover_min, 1);
        prop_assume!(job.ticks(tick_ms) <= 10);
        for policy in CloudPolicy::CAUSAL {
            let ahead = enemy_of_lanes(policy, lanes, &past, tick_ms, (&job, None), patience);
            let (_, run) = held_in_lanes(policy, lanes, &past, &ahead, tick_ms, (&job, None));
            prop_assert!(!run.missed, "{policy:?}");
            // Nor where the work may be anything up to that: each amount is done in time, to the millisecond, on the trace that hurts the top most.
            let work = levels_of(work_min);
            let ahead = enemy_of_lanes(policy, lanes, &past, tick_ms, (&job, Some(&work)), patience);
            let (held, run) = held_in_lanes(policy, lanes, &past, &ahead, tick_ms, (&job, Some(&work)));
            prop_assert!(!run.missed, "{policy:?} misses the top");
            for work_ms in (1..=work_min).map(|minutes| minutes * MIN) {
                let one = DeadlineJob { work_ms, ..job };
                let (run, _) = ride_held(&held.concat(), (&ahead, &[]), lanes, tick_ms, &one);
                prop_assert!(!run.missed, "{policy:?} misses {work_ms}");
            }
        }
    }
}

/// Three nodes: what comes after a tick changes nothing that is held up to it.
#[test]
fn the_future_changes_no_decision_of_an_elastic_job() {
    let past: Vec<u32> = (0..600).map(|tick| (tick / 7 + tick / 31) % 4).collect();
    let job = DeadlineJob { work_ms: 600 * MIN, deadline_ms: 800 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
    let one: Vec<u32> = (0..160).map(|tick| tick / 11 % 4).collect();
    let work = levels_of(600);
    for cut in [1, 60, 100] {
        let mut other = one.clone();
        other[cut..].iter_mut().for_each(|up| *up = 3 - *up);
        for policy in CloudPolicy::CAUSAL {
            for work in [None, Some(&work)] {
                let held = |ahead: &[u32]| held_in_lanes(policy, 3, &past, ahead, 5 * MIN, (&job, work)).0;
                assert_eq!(held(&one).get(..cut), held(&other).get(..cut), "{policy:?}");
            }
        }
    }
}

/// Four nodes that come and go all at once, four hours each: an elastic job costs what one that needs all four does, or less, and the optimum of both is the same.
#[test]
fn all_or_none_is_no_dearer_in_lanes() {
    let up: Vec<bool> = (0..2000).map(|tick| tick / 48 % 2 == 0).collect();
    let job =
        DeadlineJob { work_ms: 24 * 60 * MIN, deadline_ms: 32 * 60 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
    let window = Window { past: 0..1400, ahead: 1400..2000 };
    let gang = of_known(&Supply::one(&up), 5 * MIN, &window, job).unwrap();
    let lanes = Supply { lanes: 4, up: up.iter().map(|up| 4 * u32::from(*up)).collect() };
    let elastic = of_known(&lanes, 5 * MIN, &window, job).unwrap();
    let (gang, elastic) = (&gang[0], &elastic[0]);
    let least = elastic.share(CloudPolicy::Omniscient);
    assert!(least <= gang.share(CloudPolicy::Omniscient) + 1e-12);
    for policy in [CloudPolicy::Greedy, CloudPolicy::TimeSliced] {
        assert!((elastic.share(policy) - gang.share(policy)).abs() < 0.01, "{policy:?}");
    }
    let (shared, alone) = (elastic.share(CloudPolicy::SemiMarkov), gang.share(CloudPolicy::SemiMarkov));
    assert!(shared < alone + 0.02, "{shared} against {alone}, at least {least}");
}
