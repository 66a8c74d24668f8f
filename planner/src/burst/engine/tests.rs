#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

const MINUTE: i64 = 60_000;

fn up_to(most_ms: i64) -> JobWait {
    JobWait { most_ms: Some(most_ms), foreseen_ms: None }
}

/// Submission, run (as expected), whole GPUs.
fn jobs(of: &[(i64, i64, u64)]) -> BurstJobs {
    BurstJobs {
        submit_ms: of.iter().map(|job| job.0).collect(),
        run_ms: of.iter().map(|job| job.1).collect(),
        milli_gpus: of.iter().map(|job| job.2 * MILLI).collect(),
        expected_ms: of.iter().map(|job| job.1).collect(),
    }
}

fn pool(gpus: u64, guard_ms: i64) -> BurstPool {
    BurstPool { milli_gpus: gpus * MILLI, guard_ms }
}

/// Starts, and whether in the cloud.
fn told(jobs: &BurstJobs, pool: BurstPool, waits: &[JobWait]) -> Vec<(i64, bool)> {
    replay(jobs, pool, waits).unwrap().iter().map(|times| (times.start_ms, times.cloud)).collect()
}

/// Written from the contract alone: every millisecond is gone through, the queue is a list, and nothing is kept beside it.
fn naive(jobs: &BurstJobs, pool: BurstPool, waits: &[JobWait]) -> Vec<BurstTimes> {
    let count = jobs.submit_ms.len();
    let mut result: Vec<Option<BurstTimes>> = vec![None; count];
    let mut at = jobs.submit_ms.first().copied().unwrap_or(0);
    while result.iter().any(Option::is_none) {
        let runs =
            |job: usize| result[job].is_some_and(|of: BurstTimes| !of.cloud && at < of.start_ms + jobs.run_ms[job]);
        let mut free =
            pool.milli_gpus - (0..count).filter(|job| runs(*job)).map(|job| jobs.milli_gpus[job]).sum::<u64>();
        let mut closed = false;
        let mut ahead: u128 = 0;
        for job in 0..count {
            if result[job].is_some() || jobs.submit_ms[job] > at {
                continue;
            }
            let (gpus, waited) = (jobs.milli_gpus[job], at - jobs.submit_ms[job]);
            if !closed && gpus <= free {
                free -= gpus;
                result[job] = Some(BurstTimes { start_ms: at, cloud: false });
                continue;
            }
            let due = waits[job].most_ms.is_some_and(|most| waited >= most);
            let foreseen = ahead.checked_div(u128::from(pool.milli_gpus)).unwrap_or(0);
            let long = waited == 0 && waits[job].foreseen_ms.is_some_and(|most| foreseen > most as u128);
            if gpus > pool.milli_gpus || due || long {
                result[job] = Some(BurstTimes { start_ms: at, cloud: true });
                continue;
            }
            ahead += u128::from(gpus) * jobs.expected_ms[job] as u128;
            closed |= waited >= pool.guard_ms;
        }
        at += 1;
    }
    result.into_iter().flatten().collect()
}

/// A handful of jobs of every sort: parts of GPUs, wider than the pool, all kinds of waits.
fn draw(seed: u64) -> (BurstJobs, BurstPool, Vec<JobWait>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut upto = |most: i64| (rng.random::<f64>() * (most + 1) as f64) as i64;
    let count = 1 + upto(24);
    let (mut result, mut waits) = (BurstJobs::default(), Vec::new());
    let (gap, longest, kinds) = (upto(6), 1 + upto(30), upto(5));
    let pool = BurstPool {
        milli_gpus: [0, 1_000, 2_500, 4_000, 6_000, 8_000][upto(5) as usize],
        guard_ms: [0, 3, 10, 25, 1_000_000][upto(4) as usize],
    };
    let mut at = 0;
    for _ in 0..count {
        at += upto(gap);
        result.submit_ms.push(at);
        result.run_ms.push(1 + upto(longest));
        result.milli_gpus.push([250, 500, 1_000, 1_000, 2_000, 3_000, 4_000, 7_000][upto(7) as usize]);
        result.expected_ms.push(upto(longest));
        let most_ms = [Some(0), Some(upto(20)), Some(upto(20)), None, None][upto(4) as usize];
        let foreseen_ms = (kinds > 2).then(|| upto(12)).filter(|_| upto(2) > 0);
        waits.push(JobWait { most_ms, foreseen_ms });
    }
    (result, pool, waits)
}

#[test]
fn the_worked_example() {
    let jobs = jobs(&[(0, 60 * MINUTE, 4), (10 * MINUTE, 60 * MINUTE, 2), (45 * MINUTE, 60 * MINUTE, 2)]);
    let result = told(&jobs, pool(4, 1 << 40), &[up_to(30 * MINUTE); 3]);
    assert_eq!(result, [(0, false), (40 * MINUTE, true), (60 * MINUTE, false)]);
}

#[test]
fn nobody_waits_and_all_wait() {
    let jobs = jobs(&[(0, 100, 2), (10, 100, 2), (20, 100, 1), (30, 100, 9)]);
    // What does not fit at once goes, and so does what is wider than the pool, however long it may wait.
    let never = told(&jobs, pool(2, 1 << 40), &[JobWait::NEVER; 4]);
    assert_eq!(never, [(0, false), (10, true), (20, true), (30, true)]);
    let ever = told(&jobs, pool(2, 1 << 40), &[JobWait::EVER; 4]);
    assert_eq!(ever, [(0, false), (100, false), (200, false), (30, true)]);
    // With no pool, all go.
    assert!(told(&jobs, pool(0, 1 << 40), &[JobWait::EVER; 4]).iter().all(|(_, cloud)| *cloud));
}

#[test]
fn narrow_jobs_pass_a_wide_one_until_the_guard() {
    // Two jobs of 1 GPU are submitted every 60 ms, each of 100 ms: on 2 GPUs the wide one would wait for as long as they come.
    let mut of = vec![(0, 100, 1), (5, 50, 2)];
    of.extend((0..20).map(|at| (50 + 50 * at, 100, 1)));
    let jobs = jobs(&of);
    let start = |guard: i64| told(&jobs, pool(2, guard), &vec![JobWait::EVER; of.len()])[1].0;
    assert!(start(1 << 40) > 1_000, "{}", start(1 << 40));
    // With a guard of 200 ms nobody begins from 205 on, and what runs then is over at 305.
    assert!((205..=305).contains(&start(200)), "{}", start(200));
    // In strict order it follows the first.
    assert_eq!(start(0), 100);
}

#[test]
fn a_closed_queue_opens_when_the_wide_job_goes() {
    // The second may wait 30 ms and closes the queue from 20 on; the third fits all the time, and starts as the second goes.
    let jobs = jobs(&[(0, 100, 3), (10, 50, 2), (35, 10, 1)]);
    let result = told(&jobs, pool(4, 20), &[JobWait::EVER, up_to(30), JobWait::EVER]);
    assert_eq!(result, [(0, false), (40, true), (40, false)]);
}

#[test]
fn who_foresees_a_long_wait_does_not_wait() {
    // 2 GPUs in use. 2 × 100 of work wait ahead of the third, over 2 GPUs 100 ms; of the fourth as much, as the third went.
    let jobs = jobs(&[(0, 500, 2), (10, 100, 2), (20, 100, 1), (30, 100, 1)]);
    let wait = |foreseen: i64| JobWait { most_ms: None, foreseen_ms: Some(foreseen) };
    let result = told(&jobs, pool(2, 1 << 40), &[JobWait::EVER, wait(0), wait(99), wait(100)]);
    assert_eq!(result, [(0, false), (500, false), (20, true), (600, false)]);
}

#[test]
fn the_engine_is_the_reference() {
    let (mut cloud, mut waited, mut passed, mut closed) = (0, 0, 0, 0);
    for seed in 0..20_000 {
        let (jobs, pool, waits) = draw(seed);
        let result = replay(&jobs, pool, &waits).unwrap();
        assert_eq!(result, naive(&jobs, pool, &waits), "seed {seed}: {jobs:?}, {pool:?}, {waits:?}");
        cloud += result.iter().filter(|times| times.cloud).count();
        waited += result.iter().zip(&jobs.submit_ms).filter(|(times, submit)| times.start_ms > **submit).count();
        passed += result.windows(2).filter(|pair| pair[0].start_ms > pair[1].start_ms && !pair[1].cloud).count();
        closed += usize::from(
            pool.guard_ms < 100 && result != replay(&jobs, BurstPool { guard_ms: 1 << 40, ..pool }, &waits).unwrap(),
        );
    }
    assert!(
        cloud > 50_000 && waited > 30_000 && passed > 5_000 && closed > 2_000,
        "{cloud} {waited} {passed} {closed}"
    );
}

#[test]
fn nothing_is_over_allocated_and_limits_hold() {
    for seed in 20_000..26_000 {
        let (jobs, pool, waits) = draw(seed);
        let result = replay(&jobs, pool, &waits).unwrap();
        assert_eq!(result.len(), jobs.submit_ms.len());
        let mut changes: Vec<(i64, i64)> = Vec::new();
        for (job, times) in result.iter().enumerate() {
            let waited = times.start_ms - jobs.submit_ms[job];
            assert!(waited >= 0 && waits[job].most_ms.is_none_or(|most| waited <= most), "seed {seed}, job {job}");
            // Who goes to the cloud has waited as long as it may, or did not wait.
            assert!(!times.cloud || waited == 0 || waits[job].most_ms == Some(waited), "seed {seed}, job {job}");
            if !times.cloud {
                let gpus = jobs.milli_gpus[job] as i64;
                changes.extend([(times.start_ms, gpus), (times.start_ms + jobs.run_ms[job], -gpus)]);
            }
        }
        changes.sort_unstable();
        let mut used = 0;
        for (_, change) in changes {
            used += change;
            assert!((0..=pool.milli_gpus as i64).contains(&used), "seed {seed}");
        }
    }
}

#[test]
fn in_strict_order_all_start_in_order() {
    for seed in 26_000..28_000 {
        let (jobs, pool, _) = draw(seed);
        let waits = vec![JobWait::EVER; jobs.submit_ms.len()];
        let result = replay(&jobs, BurstPool { guard_ms: 0, ..pool }, &waits).unwrap();
        let own: Vec<i64> = result.iter().filter(|times| !times.cloud).map(|times| times.start_ms).collect();
        assert!(own.is_sorted(), "seed {seed}: {own:?}");
    }
}

#[test]
fn what_comes_later_changes_nothing_before_it() {
    for seed in 28_000..40_000 {
        let (jobs, pool, waits) = draw(seed);
        let now = 2 + seed as i64 % 60;
        let result = replay(&jobs, pool, &waits).unwrap();
        // Runs that are not over go on for longer, and what is submitted later is different.
        let (mut other, mut other_waits) = (jobs.clone(), waits.clone());
        for job in 0..jobs.submit_ms.len() {
            if result[job].start_ms + jobs.run_ms[job] > now {
                other.run_ms[job] += 1 + (seed as i64 + 7 * job as i64) % 40;
            }
            if jobs.submit_ms[job] > now {
                other.submit_ms[job] += 5;
                other.milli_gpus[job] = 1_000 + (seed + job as u64) % 3 * 1_000;
                other.expected_ms[job] += 3;
                other_waits[job] = up_to(seed as i64 % 9);
            }
        }
        let changed = replay(&other, pool, &other_waits).unwrap();
        let known = |times: &BurstTimes| (times.start_ms <= now).then_some(*times);
        for job in 0..jobs.submit_ms.len() {
            assert_eq!(
                known(&result[job]),
                known(&changed[job]),
                "seed {seed}, job {job}, at {now}: {jobs:?}, {pool:?}, {waits:?}"
            );
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let good = jobs(&[(0, 100, 1), (5, 100, 1)]);
    let said = |change: &dyn Fn(&mut BurstJobs, &mut BurstPool, &mut Vec<JobWait>)| {
        let (mut jobs, mut pool, mut waits) = (good.clone(), pool(2, 0), vec![JobWait::EVER; 2]);
        change(&mut jobs, &mut pool, &mut waits);
        replay(&jobs, pool, &waits).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(said(&|_, _, _| ()), "");
    assert!(said(&|jobs, _, _| jobs.submit_ms[0] = 9).contains("before the job ahead"));
    assert!(said(&|jobs, _, _| jobs.run_ms[1] = 0).contains("not positive"));
    assert!(said(&|jobs, _, _| jobs.milli_gpus[1] = 0).contains("no GPU"));
    assert!(said(&|jobs, _, _| jobs.expected_ms[1] = -1).contains("expected run"));
    assert!(said(&|jobs, _, _| jobs.submit_ms[0] = i64::MIN).contains("out of bounds"));
    assert!(said(&|_, pool, _| pool.guard_ms = -1).contains("guard"));
    assert!(said(&|_, _, waits| waits[1] = up_to(-1)).contains("less than no time"));
    assert!(said(&|_, _, waits| waits.truncate(1)).contains("differ in length"));
    // No jobs, and a limit beyond all time.
    assert!(replay(&BurstJobs::default(), pool(1, 0), &[]).unwrap().is_empty());
    assert_eq!(told(&good, pool(1, 0), &[up_to(i64::MAX); 2])[1], (100, false));
}
