#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::needless_range_loop)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::one_gpu::tests::jobs;

fn asks(of: &[&[usize]]) -> Vec<Profiles> {
    of.iter().map(|places| places.iter().copied().collect()).collect()
}

/// Two kinds on a small slice, a large one and the whole GPU. The second does not fit on the small one.
fn speeds() -> SliceSpeeds {
    let mut speeds = SliceSpeeds::new(2, 3);
    for (kind, profile, speed) in [(0, 0, 0.4), (0, 1, 0.6), (0, 2, 1.0), (1, 1, 0.5), (1, 2, 1.0)] {
        speeds.set(kind, profile, speed);
    }
    speeds
}

fn ends(result: &[Option<SliceTimes>]) -> Vec<Option<i64>> {
    result.iter().map(|times| times.map(|times| times.end_ms)).collect()
}

#[test]
fn the_worked_example() {
    let three = jobs(&[(0, 60_000, 0), (0, 60_000, 0), (0, 60_000, 0)]);
    let result = replay(&three, &asks(&[&[1], &[1], &[1]]), &[1, 1], &speeds()).unwrap();
    assert_eq!(ends(&result), [Some(100_000), Some(100_000), Some(200_000)]);
    assert_eq!(
        (result[2].unwrap().start_ms, result[2].unwrap().held_ms(), result[2].unwrap().profile),
        (100_000, 100_000, 1)
    );
    let whole = replay(&three, &asks(&[&[2], &[2], &[2]]), &[2], &speeds()).unwrap();
    assert_eq!(ends(&whole), [Some(60_000), Some(120_000), Some(180_000)]);
}

#[test]
fn a_job_takes_the_smallest_that_it_asks_for_and_is_passed_over_where_there_is_none() {
    // The first takes the small slice, though the larger ones are empty; the second the large one. The third asks for the small one alone and waits; the fourth goes ahead of it.
    let four = jobs(&[(0, 4_000, 0), (0, 6_000, 0), (1_000, 2_000, 0), (2_000, 1_000, 1)]);
    let result = replay(&four, &asks(&[&[0, 1, 2], &[0, 1, 2], &[0], &[1, 2]]), &[2, 0, 1], &speeds()).unwrap();
    let profiles: Vec<usize> = result.iter().map(|times| times.unwrap().profile).collect();
    assert_eq!(profiles, [0, 1, 0, 2]);
    assert_eq!(ends(&result), [Some(10_000), Some(10_000), Some(15_000), Some(3_000)]);
}

#[test]
fn what_does_not_fit_fails_once_and_asks_for_more() {
    // Both of kind 1 ask for the small slice. The first fails at 0 s; the second knows then that it does not fit, and asks for what does: the large slice, which is empty. The first is back
    // after its pause, at 120 s, when the second has long ended.
    let two = jobs(&[(0, 1_000, 1), (0, 3_000, 1)]);
    let result = replay(&two, &asks(&[&[0], &[0]]), &[0, 1], &speeds()).unwrap();
    assert_eq!(ends(&result), [Some(122_000), Some(6_000)]);
    assert_eq!((result[0].unwrap().failed, result[1].unwrap().failed), (1, 0));
    // Where there are small slices alone, there is no room for it; the other kind runs.
    let result = replay(&jobs(&[(0, 1_000, 1), (0, 4_000, 0)]), &asks(&[&[0], &[0]]), &[0], &speeds()).unwrap();
    assert_eq!(ends(&result), [None, Some(10_000)]);
}

#[test]
fn what_is_wrong_is_told() {
    let one = jobs(&[(0, 1, 0)]);
    let ask = asks(&[&[0]]);
    assert!(replay(&one, &[], &[0], &speeds()).is_err());
    assert!(replay(&one, &ask, &[], &speeds()).is_err());
    assert!(replay(&one, &ask, &[3], &speeds()).is_err());
    assert!(replay(&jobs(&[(0, 1, 2)]), &ask, &[0], &speeds()).is_err());
    assert!(replay(&jobs(&[(5, 1, 0), (4, 1, 0)]), &asks(&[&[0], &[0]]), &[0], &speeds()).is_err());
    assert!(replay(&jobs(&[(0, -1, 0)]), &ask, &[0], &speeds()).is_err());
}

/// Written from the contract alone: every millisecond is gone through, and nothing is foreseen.
fn naive(
    jobs: &TypedJobs,
    asks: &[Profiles],
    fleet: &[usize],
    speeds: &SliceSpeeds,
    pause_ms: i64,
) -> Vec<Option<SliceTimes>> {
    #[derive(Clone, Copy, PartialEq)]
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
    let mut held: Vec<Option<usize>> = vec![None; fleet.len()];
    let mut bad: Vec<(u16, usize)> = Vec::new();
    let mut failed = vec![0; count];
    let mut times: Vec<Option<SliceTimes>> = vec![None; count];
    let has = |set: Profiles, profile: usize| set.places().any(|place| place == profile);
    let mut at = *jobs.submit_ms.first().unwrap_or(&0);
    let last = *jobs.submit_ms.last().unwrap_or(&0);
    loop {
        loop {
            for job in 0..count {
                if let Now::Runs(slice) = now[job]
                    && left[job] <= 0
                {
                    now[job] = Now::Done;
                    held[slice] = None;
                    times[job].as_mut().unwrap().end_ms = at;
                }
                if now[job] == Now::Pauses(at) || (now[job] == Now::Future && jobs.submit_ms[job] <= at) {
                    now[job] = Now::Waits;
                }
            }
            let mut again = false;
            for job in 0..count {
                if now[job] != Now::Waits {
                    continue;
                }
                let kind = jobs.kind[job];
                let fits = |profile: usize| speeds.get(kind.into(), profile).is_some();
                let asked: Vec<usize> = (0..3)
                    .filter(|profile| fleet.contains(profile) && has(asks[job], *profile))
                    .filter(|profile| !bad.contains(&(kind, *profile)))
                    .collect();
                let may: Vec<usize> =
                    if asked.is_empty() { (0..3).filter(|profile| fits(*profile)).collect() } else { asked };
                let result = may.iter().find_map(|profile| {
                    (0..fleet.len()).find(|slice| fleet[*slice] == *profile && held[*slice].is_none())
                });
                let Some(slice) = result else { continue };
                if fits(fleet[slice]) {
                    held[slice] = Some(job);
                    now[job] = Now::Runs(slice);
                    again |= left[job] == 0;
                    let profile = fleet[slice];
                    times[job] = Some(SliceTimes { start_ms: at, end_ms: -1, profile, failed: failed[job] });
                } else {
                    failed[job] += 1;
                    bad.push((kind, fleet[slice]));
                    now[job] = Now::Pauses(at + pause_ms);
                }
            }
            if !again {
                break;
            }
        }
        let is_over = |state: &Now| matches!(state, Now::Done | Now::Waits);
        if at >= last && now.iter().all(is_over) {
            return times;
        }
        for job in 0..count {
            if let Now::Runs(slice) = now[job] {
                left[job] -= i64::from(speeds.get(jobs.kind[job].into(), fleet[slice]).unwrap());
            }
        }
        at += 1;
    }
}

fn draw(seed: u64) -> (TypedJobs, Vec<Profiles>, Vec<usize>, SliceSpeeds, i64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut upto = |most: u64| (rng.random::<f64>() * (most + 1) as f64) as u64;
    let kinds = 1 + upto(2) as usize;
    let mut speeds = SliceSpeeds::new(kinds, 3);
    for kind in 0..kinds {
        for profile in 0..3 {
            if upto(4) > 0 {
                speeds.set(kind, profile, 0.1 + upto(1200) as f64 / 1000.0);
            }
        }
    }
    let fleet: Vec<usize> = (0..1 + upto(4)).map(|_| upto(2) as usize).collect();
    let count = 1 + upto(9) as usize;
    let (mut of, mut at, mut asks) = (Vec::new(), 0, Vec::new());
    for _ in 0..count {
        at += upto(12) as i64 * upto(1) as i64;
        let run = upto(30) as i64 * i64::from(upto(9) > 0);
        of.push((at, run, upto(kinds as u64 - 1) as u16));
        asks.push((0..3).filter(|_| upto(1) == 1).collect());
    }
    (jobs(&of), asks, fleet, speeds, 1 + upto(40) as i64)
}

#[test]
fn drawn_cases_are_as_the_naive_reference_has_them() {
    let (mut failed, mut without_room, mut waited) = (0, 0, 0);
    for seed in 0..20_000 {
        let (jobs, asks, fleet, speeds, pause_ms) = draw(seed);
        let result = replay_with(&jobs, &asks, &fleet, &speeds, pause_ms).unwrap();
        assert_eq!(result, naive(&jobs, &asks, &fleet, &speeds, pause_ms), "seed {seed}: {jobs:?} {asks:?} {fleet:?}");
        for (job, times) in result.iter().enumerate() {
            failed += times.map_or(0, |times| times.failed);
            without_room += u32::from(times.is_none());
            waited += u32::from(times.is_some_and(|times| times.failed == 0 && times.start_ms > jobs.submit_ms[job]));
        }
    }
    assert!(failed > 1_000 && without_room > 1_000 && waited > 10_000, "{failed} {without_room} {waited}");
}

#[test]
fn no_slice_holds_two_and_what_comes_later_changes_nothing_before_it() {
    for seed in 0..4_000 {
        let (jobs, asks, fleet, speeds, pause_ms) = draw(seed);
        let result = replay_with(&jobs, &asks, &fleet, &speeds, pause_ms).unwrap();
        let of_profile = |profile: usize| fleet.iter().filter(|of| **of == profile).count();
        for times in result.iter().flatten() {
            let beside = result.iter().flatten().filter(|other| {
                other.profile == times.profile && other.start_ms <= times.start_ms && other.end_ms > times.start_ms
            });
            assert!(beside.count() <= of_profile(times.profile), "seed {seed}");
        }
        let now = 3 + seed as i64 % 60;
        let (mut other, mut request) = (jobs.clone(), asks.clone());
        for job in 0..jobs.run_ms.len() {
            if result[job].is_none_or(|times| times.end_ms > now) {
                other.run_ms[job] += 1 + (seed as i64 + 7 * job as i64) % 40;
            }
            if jobs.submit_ms[job] > now {
                other.submit_ms[job] += 5;
                request[job] = Profiles::one(job % 3);
            }
        }
        let changed = replay_with(&other, &request, &fleet, &speeds, pause_ms).unwrap();
        let known = |times: &Option<SliceTimes>| {
            let times = times.filter(|times| times.start_ms <= now)?;
            Some((times.start_ms, times.profile, (times.end_ms <= now).then_some(times.end_ms)))
        };
        for job in 0..jobs.run_ms.len() {
            assert_eq!(known(&result[job]), known(&changed[job]), "seed {seed}, job {job}");
        }
    }
}
