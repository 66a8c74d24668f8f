#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::needless_range_loop)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::one_gpu::tests::jobs;

fn all(kinds: usize) -> SharingRule {
    let mut rule = SharingRule::exclusive(kinds);
    for a in 0..kinds {
        (0..kinds).for_each(|b| rule.allow(a, b, 0));
    }
    rule
}

/// Written from the contract alone: every millisecond is gone through, and nothing is foreseen.
fn naive(jobs: &TypedJobs, gpus: usize, speeds: &PairSpeeds, rule: &SharingRule) -> Vec<SharingTimes> {
    #[derive(Clone, Copy, Debug)]
    struct Pair {
        new: usize,
        first: usize,
        began: i64,
        /// The job that has run less.
        behind: usize,
        even: bool,
    }
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Now {
        Future,
        Waits,
        Pauses(i64),
        Runs(usize),
        Done,
    }
    let count = jobs.submit_ms.len();
    let mut now = vec![Now::Future; count];
    let mut left: Vec<i64> = jobs.run_ms.iter().map(|run| run * 1_000_000).collect();
    let mut times = vec![SharingTimes::default(); count];
    let mut began = vec![false; count];
    let mut single_only = vec![false; count];
    let mut bad: Vec<(u16, u16)> = Vec::new();
    let mut pairs: Vec<Pair> = Vec::new();
    let measured = |own: usize, beside: usize| i64::from(speeds.get(jobs.kind[own], jobs.kind[beside]).unwrap());
    // Speed of a job in a pair.
    let speed = |job: usize, pair: &Pair| -> i64 {
        let beside = if job == pair.new { pair.first } else { pair.new };
        match rule.pace {
            Pace::Together => measured(job, beside),
            Pace::Guaranteed { least } => {
                let (kept, least) = (measured(pair.first, pair.new), i64::from(least));
                if job == pair.first {
                    kept.max(least)
                } else if kept >= least {
                    measured(job, beside)
                } else {
                    measured(job, beside) * (1_000_000 - least) / (1_000_000 - kept)
                }
            }
            Pace::LeastAttained if !pair.even => 1_000_000 * i64::from(job == pair.behind),
            Pace::FairTurns | Pace::LeastAttained => 500_000,
        }
    };
    let on = |now: &[Now], gpu: usize| -> Vec<usize> { (0..count).filter(|job| now[*job] == Now::Runs(gpu)).collect() };
    let mut at = *jobs.submit_ms.first().unwrap_or(&0);
    while now.iter().any(|state| *state != Now::Done) {
        loop {
            for job in 0..count {
                if matches!(now[job], Now::Runs(_)) && left[job] <= 0 {
                    now[job] = Now::Done;
                    times[job].end_ms = at;
                    pairs.retain(|pair| pair.new != job && pair.first != job);
                }
            }
            let attained = |job: usize, left: &[i64]| jobs.run_ms[job] * 1_000_000 - left[job];
            for pair in &mut pairs {
                let ahead = if pair.behind == pair.new { pair.first } else { pair.new };
                pair.even |= attained(pair.behind, &left) >= attained(ahead, &left);
            }
            if let Some(trial) = rule.trial {
                let mut due: Vec<_> = pairs.iter().copied().filter(|pair| pair.began + trial.after_ms == at).collect();
                due.sort_unstable_by_key(|pair| pair.new);
                for pair in due {
                    let Pair { new, first: other, .. } = pair;
                    let (a, b) = (speed(new, &pair), speed(other, &pair));
                    if a + b <= trial.least_total as i64 || a.min(b) < i64::from(trial.least_speed) {
                        now[new] = Now::Waits;
                        times[new].taken_out += 1;
                        pairs.retain(|pair| pair.new != new);
                        if rule.remembers {
                            bad.push((jobs.kind[new], jobs.kind[other]));
                            bad.push((jobs.kind[other], jobs.kind[new]));
                        } else {
                            single_only[new] = true;
                        }
                    }
                }
            }
            for job in 0..count {
                if now[job] == Now::Pauses(at) || (now[job] == Now::Future && jobs.submit_ms[job] <= at) {
                    now[job] = Now::Waits;
                }
            }
            let mut started_nothing_long = true;
            for job in 0..count {
                if now[job] != Now::Waits {
                    continue;
                }
                let empty = (0..gpus).find(|gpu| on(&now, *gpu).is_empty());
                let mut start = |job: usize, gpu: usize, now: &mut Vec<Now>| {
                    now[job] = Now::Runs(gpu);
                    started_nothing_long &= left[job] > 0;
                    if !began[job] {
                        began[job] = true;
                        times[job].start_ms = at;
                    }
                };
                if let Some(gpu) = empty {
                    start(job, gpu, &mut now);
                    continue;
                }
                if single_only[job] {
                    continue;
                }
                let mut best: Option<(i32, usize, usize)> = None;
                for gpu in 0..gpus {
                    let [other] = on(&now, gpu)[..] else { continue };
                    let kinds = (jobs.kind[job], jobs.kind[other]);
                    if rule.asks_memory && speeds.get(kinds.0, kinds.1).is_none() {
                        continue;
                    }
                    let Some(likes) = rule.preference(kinds.0.into(), kinds.1.into()).filter(|_| !bad.contains(&kinds))
                    else {
                        continue;
                    };
                    if best.is_none_or(|(most, ..)| likes > most) {
                        best = Some((likes, gpu, other));
                    }
                }
                let Some((_, gpu, other)) = best else { continue };
                if speeds.get(jobs.kind[job], jobs.kind[other]).is_some() {
                    start(job, gpu, &mut now);
                    let (new, old) = (attained(job, &left), attained(other, &left));
                    let behind = if new < old { job } else { other };
                    pairs.push(Pair { new: job, first: other, began: at, behind, even: new == old });
                } else {
                    times[job].failed += 1;
                    now[job] = Now::Pauses(at + rule.pause_ms.max(1));
                    if rule.remembers {
                        bad.push((jobs.kind[job], jobs.kind[other]));
                        bad.push((jobs.kind[other], jobs.kind[job]));
                    } else {
                        single_only[job] = true;
                    }
                }
            }
            if started_nothing_long {
                break;
            }
        }
        for job in 0..count {
            let Now::Runs(gpu) = now[job] else { continue };
            let pair = pairs.iter().find(|pair| pair.new == job || pair.first == job);
            assert_eq!(pair.is_some(), on(&now, gpu).len() == 2);
            left[job] -= pair.map_or(1_000_000, |pair| speed(job, pair));
            times[job].held_ms += 1;
            times[job].shared_ms += i64::from(pair.is_some());
        }
        at += 1;
    }
    times
}

#[test]
fn the_worked_example() {
    let mut speeds = PairSpeeds::new(2);
    speeds.set(0, 1, (0.6, 0.5));
    let result = replay(&jobs(&[(0, 60_000, 0), (0, 40_000, 1)]), 1, &speeds, &all(2)).unwrap();
    assert_eq!((result[0].end_ms, result[1].end_ms), (92_000, 80_000));
    assert_eq!((result[0].held_ms, result[0].shared_ms, result[0].wait_ms(0)), (92_000, 80_000, 0));
    let alone = replay(&jobs(&[(0, 60_000, 0), (0, 40_000, 1)]), 1, &speeds, &SharingRule::exclusive(2)).unwrap();
    assert_eq!((alone[1].start_ms, alone[1].end_ms, alone[1].wait_ms(0)), (60_000, 100_000, 60_000));
}

#[test]
fn trials_and_what_does_not_fit() {
    // Kind 0 beside itself makes 900,000 in all: a trial after 10 s takes the second out. Kind 1 fits beside nobody.
    let mut speeds = PairSpeeds::new(2);
    speeds.set(0, 0, (0.45, 0.45));
    let trial = Some(Trial { after_ms: 10_000, least_total: 1_000_000, least_speed: 0 });
    let rule = SharingRule { trial, remembers: false, pause_ms: 3_000, ..all(2) };
    let result = replay(&jobs(&[(0, 30_000, 0), (0, 30_000, 0), (1_000, 1_000, 1)]), 1, &speeds, &rule).unwrap();
    // Both did 4.5 s in 10; the first needs 25.5 s more, then the second as long.
    assert_eq!((result[0].end_ms, result[1].end_ms), (35_500, 61_000));
    assert_eq!((result[1].taken_out, result[1].wait_ms(0), result[0].taken_out), (1, 25_500, 0));
    // The third finds no room until the second is taken out at 10 s, fails at once, and then waits for an empty GPU.
    assert_eq!((result[2].failed, result[2].start_ms, result[2].end_ms), (1, 61_000, 62_000));
}

/// Two job types, 0.6 and 0.5 as fast beside each other, on one GPU.
fn two_on_one(of: &[(i64, i64, u16)], pace: Pace) -> Vec<SharingTimes> {
    let mut speeds = PairSpeeds::new(2);
    speeds.set(0, 1, (0.6, 0.5));
    speeds.set(0, 0, (0.7, 0.7));
    speeds.set(1, 1, (0.7, 0.7));
    replay(&jobs(of), 1, &speeds, &SharingRule { pace, ..all(2) }).unwrap()
}

#[test]
fn who_is_guaranteed_keeps_its_speed_and_the_other_has_what_is_left() {
    let pace = Pace::Guaranteed { least: 950_000 };
    // The first takes 60,000 / 0.95 ms. The second runs in 1/8 of that time at half speed, and has done 63,158 × 0.0625 ms; then it is alone.
    let result = two_on_one(&[(0, 60_000, 0), (0, 40_000, 1)], pace);
    assert_eq!((result[0].end_ms, result[1].end_ms), (63_158, 63_158 + 40_000 - 3_947));
    assert_eq!((result[1].held_ms, result[1].shared_ms, result[1].wait_ms(0)), (99_211, 63_158, 0));
    // A third comes when the first is gone. The second is first now: it is of kind 0 and slows it to 0.5, so the third runs in 0.05 / 0.5 of the time at 0.6.
    let result = two_on_one(&[(0, 1_900, 0), (0, 20_000, 1), (3_000, 1_000, 0)], pace);
    assert_eq!(result[0].end_ms, 2_000);
    assert_eq!(result[2].end_ms, 3_000 + 16_667);
    // The second did 125 ms until 2 s, 1,000 until 3 s and 16,667 × 0.95 until the third ended; the other 3,041.35 ms it is alone.
    assert_eq!(result[1].end_ms, 19_667 + 3_042);
}

#[test]
fn turns_are_fair_or_of_who_has_run_less() {
    // Half as fast each until 80 s, whatever was measured; then the first is alone with its last 20 s.
    let result = two_on_one(&[(0, 60_000, 0), (0, 40_000, 1)], Pace::FairTurns);
    assert_eq!((result[0].end_ms, result[1].end_ms), (100_000, 80_000));
    // Who has run less catches up first: alone from 10 s to 20 s, then equal turns for its last 30 s.
    let result = two_on_one(&[(0, 60_000, 0), (10_000, 40_000, 1)], Pace::LeastAttained);
    assert_eq!((result[0].end_ms, result[1].end_ms), (100_000, 80_000));
    // A short one does not wait for a long one, and costs it no more than its own run. Nor does the next.
    let result = two_on_one(&[(0, 60_000, 0), (10_000, 5_000, 1), (20_000, 15_000, 0)], Pace::LeastAttained);
    assert_eq!((result[0].end_ms, result[1].end_ms, result[2].end_ms), (80_000, 15_000, 35_000));
    assert_eq!((result[0].held_ms, result[0].shared_ms, result[2].wait_ms(20_000)), (80_000, 20_000, 0));
}

#[test]
fn who_asks_for_memory_first_does_not_fail() {
    // Kind 1 fits beside nobody: it waits for an empty GPU, and the third goes ahead of it.
    let mut speeds = PairSpeeds::new(2);
    speeds.set(0, 0, (0.5, 0.5));
    let rule = SharingRule { asks_memory: true, pace: Pace::FairTurns, ..all(2) };
    let result = replay(&jobs(&[(0, 10_000, 0), (0, 1_000, 1), (0, 2_000, 0)]), 1, &speeds, &rule).unwrap();
    assert_eq!((result[0].end_ms, result[1].start_ms, result[2].end_ms), (12_000, 12_000, 4_000));
    assert_eq!((result[1].failed, result[1].end_ms), (0, 13_000));
}

#[test]
fn what_comes_later_changes_nothing_before_it() {
    let mut by_pace = [0; 4];
    for seed in 0..12_000 {
        let (jobs, gpus, speeds, rule) = draw(seed);
        let now = 3 + seed as i64 % 50;
        let result = replay(&jobs, gpus, &speeds, &rule).unwrap();
        // Runs that are not over go on for longer, and others are submitted later, than was said.
        let mut other = jobs.clone();
        for job in 0..jobs.run_ms.len() {
            if result[job].end_ms > now {
                other.run_ms[job] += 1 + (seed as i64 + 7 * job as i64) % 40;
            }
            if jobs.submit_ms[job] > now {
                other.submit_ms[job] += 5;
                other.kind[job] = (other.kind[job] + 1) % speeds.kinds() as u16;
            }
        }
        let changed = replay(&other, gpus, &speeds, &rule).unwrap();
        let known = |times: &SharingTimes| {
            let upto = |at: i64| (at <= now).then_some(at);
            (upto(times.start_ms), upto(times.end_ms))
        };
        for job in 0..jobs.run_ms.len() {
            assert_eq!(
                known(&result[job]),
                known(&changed[job]),
                "seed {seed}, job {job}, at {now}: {jobs:?}, {rule:?}"
            );
            if result[job].end_ms <= now {
                assert_eq!(result[job], changed[job], "seed {seed}, job {job}, at {now}");
            }
            by_pace[pace_number(rule.pace)] += i32::from(result[job].shared_ms > 0 && result[job].end_ms <= now);
        }
    }
    assert!(by_pace.iter().all(|jobs| *jobs > 400), "{by_pace:?}");
}

fn pace_number(pace: Pace) -> usize {
    match pace {
        Pace::Together => 0,
        Pace::Guaranteed { .. } => 1,
        Pace::FairTurns => 2,
        Pace::LeastAttained => 3,
    }
}

/// Kinds, speeds and rules of every sort, on a handful of jobs.
fn draw(seed: u64) -> (TypedJobs, u32, PairSpeeds, SharingRule) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut upto = |most: u64| (rng.random::<f64>() * (most + 1) as f64) as u64;
    let kinds = 1 + upto(3) as usize;
    let mut speeds = PairSpeeds::new(kinds);
    let mut rule = SharingRule::exclusive(kinds);
    for a in 0..kinds {
        for b in a..kinds {
            if upto(4) > 0 {
                let speed = |part: u64| part as f64 / 1000.0 + 0.1;
                let (x, y) = (speed(upto(1000)), speed(upto(1000)));
                speeds.set(a, b, if a == b { (x, x) } else { (x, y) });
            }
        }
        for b in 0..kinds {
            if upto(3) > 0 {
                rule.allow(a, b, upto(2) as i32);
            }
        }
    }
    if upto(1) == 1 {
        let (after_ms, total) = (upto(15) as i64 + i64::from(upto(3) > 0), upto(1_500_000));
        rule.trial = Some(Trial { after_ms: after_ms.max(1), least_total: total, least_speed: upto(600_000) as u32 });
    }
    rule.remembers = upto(1) == 1;
    rule.pause_ms = upto(12) as i64;
    rule.pace = match upto(5) {
        0 | 1 => Pace::Together,
        2 => Pace::Guaranteed { least: upto(1_000_000) as u32 },
        3 => Pace::FairTurns,
        _ => Pace::LeastAttained,
    };
    rule.asks_memory = upto(2) == 0;
    let count = 1 + upto(11);
    let mut submit = 0;
    let mut result = TypedJobs::default();
    for _ in 0..count {
        submit += if upto(2) == 0 { 0 } else { upto(20) as i64 };
        result.submit_ms.push(submit);
        result.run_ms.push(if upto(9) == 0 { 0 } else { upto(40) as i64 });
        result.kind.push(upto(kinds as u64 - 1) as u16);
    }
    (result, 1 + upto(2) as u32, speeds, rule)
}

#[test]
fn thousands_of_drawn_cases_are_as_the_naive_reference_has_them() {
    let (mut shared, mut failed, mut out) = ([0; 4], 0, 0);
    for seed in 0..20_000 {
        let (jobs, gpus, speeds, rule) = draw(seed);
        let (result, expected) =
            (replay(&jobs, gpus, &speeds, &rule).unwrap(), naive(&jobs, gpus as usize, &speeds, &rule));
        assert_eq!(result, expected, "seed {seed}: {gpus} GPUs, {jobs:?}, {speeds:?}, {rule:?}");
        for (job, times) in result.iter().enumerate() {
            shared[pace_number(rule.pace)] += i64::from(times.shared_ms > 0);
            failed += times.failed;
            out += times.taken_out;
            // Nobody ends sooner than at the greatest speed there is, and nobody waits less than no time.
            assert!(times.wait_ms(jobs.submit_ms[job]) >= 0 && times.shared_ms <= times.held_ms);
        }
    }
    assert!(shared.iter().all(|jobs| *jobs > 3_000), "{shared:?}");
    assert!(failed > 1_000 && out > 1_000, "{failed} {out}");
}

#[test]
fn exclusive_is_first_come_first_served() {
    for seed in 0..500 {
        let (jobs, gpus, speeds, _) = draw(seed);
        let result = replay(&jobs, gpus, &speeds, &SharingRule::exclusive(speeds.kinds())).unwrap();
        let mut free = vec![i64::MIN; gpus as usize];
        for (job, times) in result.iter().enumerate() {
            let soonest = (0..free.len()).min_by_key(|gpu| free[*gpu]).unwrap();
            let start = free[soonest].max(jobs.submit_ms[job]);
            free[soonest] = start + jobs.run_ms[job];
            assert_eq!((times.start_ms, times.end_ms, times.shared_ms), (start, free[soonest], 0), "seed {seed}");
        }
    }
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let speeds = PairSpeeds::new(1);
    let told = |of: &[(i64, i64, u16)], gpus: u32| replay(&jobs(of), gpus, &speeds, &all(1)).unwrap_err().to_string();
    assert!(told(&[(0, 1, 0)], 0).contains("no GPU"));
    assert!(told(&[(5, 1, 0), (4, 1, 0)], 1).contains("before the job ahead"));
    assert!(told(&[(0, -1, 0)], 1).contains("negative"));
    assert!(told(&[(0, 1, 3)], 1).contains("kind"));
    let rule = SharingRule { pace: Pace::Guaranteed { least: 1_000_001 }, ..all(1) };
    assert!(replay(&jobs(&[(0, 1, 0)]), 1, &speeds, &rule).unwrap_err().to_string().contains("guaranteed"));
}
