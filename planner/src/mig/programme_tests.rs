#![allow(clippy::unwrap_used, clippy::cast_lossless)]

use proptest::prelude::*;

use super::*;
use crate::mig::gpu::MigGpu;
use crate::mig::partition::full;

fn a100() -> &'static MigGpu {
    MigGpu::named("a100-40gb").unwrap()
}

fn named(name: &str) -> MigPartition {
    MigPartition::parse(a100(), name).unwrap()
}

/// So many jobs at once that may go from a profile on, with the speed on each.
fn jobs(count: u32, from: usize, speeds: [f64; 6]) -> MigNeed {
    let carries = (0..6).map(|at| f64::from(u8::from(at >= from))).collect();
    MigNeed { amount: f64::from(count), carries, makes: speeds.to_vec() }
}

const BY_SIZE: [f64; 6] = [0.2, 0.25, 0.4, 0.6, 0.7, 1.0];

fn fleet(programme: &MigProgramme<'_>) -> MigChoice {
    let result = programme.solve().unwrap().unwrap();
    check(programme, &result);
    result
}

/// Nothing is used twice, nothing is lost, and the bound is one.
fn check(programme: &MigProgramme<'_>, result: &MigChoice) {
    let gpu = a100();
    for profile in 0..gpu.profiles.len() {
        let used: f64 = result.placed.iter().map(|slices| slices[profile]).sum();
        let there: u32 =
            result.counts.iter().zip(programme.partitions).map(|(count, of)| count * of.counts[profile]).sum();
        assert!(used <= there as f64 + 1e-6, "{used} of {there} slices of profile {profile}");
    }
    for (need, slices) in programme.needs.iter().zip(&result.placed) {
        let carried: f64 = need.carries.iter().zip(slices).map(|(carries, slices)| carries * slices).sum();
        assert!(carried <= need.amount + 1e-6);
        assert!(programme.gpus.is_some() || carried >= need.amount - 1e-6, "{carried} of {}", need.amount);
        for (carries, slices) in need.carries.iter().zip(slices) {
            assert!(*carries > 0.0 || *slices <= 1e-9, "a slice that is not allowed is used");
            // Jobs at once are whole.
            let is_whole = programme.needs.iter().flat_map(|need| &need.carries).all(|of| of.fract() == 0.0);
            assert!(!is_whole || (slices - slices.round()).abs() < 1e-6, "{slices}");
        }
    }
    match programme.gpus {
        Some(most) => assert!(result.gpus() <= most && result.progress <= result.bound + 1e-6),
        None => assert!(result.gpus() as f64 >= result.bound - 1e-6),
    }
}

#[test]
fn the_worked_example() {
    let partitions = full(a100());
    let needs = [jobs(3, 3, BY_SIZE), jobs(4, 0, BY_SIZE)];
    let programme = MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: None };
    let result = fleet(&programme);
    assert_eq!((result.gpus(), result.bound), (2, 2.0));
}

#[test]
fn a_fleet_worked_out_by_hand() {
    // Two jobs on 3g or larger, two on 4g or larger, and three anywhere: each 4g has a 3g beside it, which leaves the three for a third GPU, where they
    // run fastest on 3g, 2g and 2g: 2 × (0.7 + 0.6) + 0.6 + 0.4 + 0.4 = 4.0.
    let partitions = full(a100());
    let needs = [jobs(2, 3, BY_SIZE), jobs(2, 4, BY_SIZE), jobs(3, 0, BY_SIZE)];
    let result = fleet(&MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: None });
    assert_eq!((result.gpus(), result.bound), (3, 3.0));
    assert!((result.progress - 4.0).abs() < 1e-6, "{result:?}");
    // On one GPU something waits: nothing makes more than a 3g and two 2g.
    let result = fleet(&MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: Some(1) });
    assert!((result.progress - 1.4).abs() < 1e-6 && result.bound <= 1.4 * (1.0 + 1e-3), "{result:?}");
}

#[test]
fn of_equal_fleets_the_one_with_fewer_changes() {
    let mut partitions = full(a100());
    // Four jobs on 2g or larger need two GPUs whichever way; one of `2x2g+3x1g` is there, which no other goal would choose.
    let there = named("2x2g.10gb+3x1g.5gb");
    let needs = [jobs(4, 2, BY_SIZE)];
    let now: Vec<u32> = partitions.iter().map(|of| u32::from(*of == there)).collect();
    let result = fleet(&MigProgramme { partitions: &partitions, now: &now, needs: &needs, gpus: None });
    assert_eq!((result.gpus(), result.kept), (2, 1));
    // Without any there, the fastest slices are taken: 4g+3g twice.
    let result = fleet(&MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: None });
    assert!((result.progress - 2.6).abs() < 1e-6 && result.kept == 0, "{result:?}");
    // A partition that is not full is kept as well.
    partitions.push(named("3g.20gb+2g.10gb"));
    let now: Vec<u32> = partitions.iter().map(|of| 2 * u32::from(*of == named("3g.20gb+2g.10gb"))).collect();
    let result = fleet(&MigProgramme { partitions: &partitions, now: &now, needs: &needs, gpus: None });
    assert_eq!((result.gpus(), result.kept), (2, 2));
}

#[test]
fn a_load_is_shared_among_slices() {
    let partitions = full(a100());
    // A load of 1.5 whole GPUs at speed 0.5 on 3g and 80 % busy: 0.4 a slice, so 3.75 slices, of which two GPUs have four.
    let of = |speed: f64| 0.8 * speed;
    let speeds = [0.0, 0.0, 0.0, 0.5, 0.5, 0.5];
    let need = MigNeed { amount: 1.5, carries: speeds.map(of).to_vec(), makes: speeds.map(of).to_vec() };
    let result =
        fleet(&MigProgramme { partitions: &partitions, now: &[], needs: std::slice::from_ref(&need), gpus: None });
    assert_eq!((result.gpus(), result.bound), (2, 2.0));
    assert!((result.progress - 1.5).abs() < 1e-6);
    // On one GPU 0.8 of it is carried.
    let result = fleet(&MigProgramme { partitions: &partitions, now: &[], needs: &[need], gpus: Some(1) });
    assert!((result.progress - 0.8).abs() < 1e-6, "{result:?}");
}

#[test]
fn what_fits_nowhere_has_no_fleet() {
    let partitions = [named("7x1g.5gb")];
    let needs = [jobs(2, 3, BY_SIZE), jobs(9, 0, BY_SIZE)];
    let programme = MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: None };
    assert_eq!(programme.solve().unwrap(), None);
    // Where the GPUs are given, who has no room waits.
    let result = fleet(&MigProgramme { gpus: Some(1), ..programme });
    assert!((result.progress - 7.0 * 0.2).abs() < 1e-6, "{result:?}");
}

#[test]
fn a_hundred_gpus_are_planned_within_the_limit_of_nodes() {
    let partitions = full(a100());
    let needs: Vec<MigNeed> = (0..30)
        .map(|at| {
            let slow = 0.4 + 0.02 * at as f64;
            jobs(7 + (at * 5) % 11, (at % 5) as usize, BY_SIZE.map(|speed| speed.powf(slow)))
        })
        .collect();
    let result = fleet(&MigProgramme { partitions: &partitions, now: &[], needs: &needs, gpus: None });
    assert!(result.gpus() as f64 <= result.bound + 1.0, "{} GPUs, bound {}", result.gpus(), result.bound);
}

/// All fleets of at most `most` GPUs.
fn fleets(partitions: usize, most: u32) -> Vec<Vec<u32>> {
    let mut result = vec![vec![]];
    for _ in 0..partitions {
        result = result
            .into_iter()
            .flat_map(|head: Vec<u32>| {
                let left = most - head.iter().sum::<u32>();
                (0..=left).map(move |count| [head.clone(), vec![count]].concat())
            })
            .collect();
    }
    result
}

/// The most progress of jobs, one after the other, on slices; `None` if not all have one and all must.
fn brute(jobs: &[&MigNeed], slices: &mut [u32], all: bool) -> Option<f64> {
    let Some((first, rest)) = jobs.split_first() else { return Some(0.0) };
    let mut best = if all { None } else { brute(rest, slices, all) };
    for profile in 0..slices.len() {
        if slices[profile] == 0 || first.carries[profile] == 0.0 {
            continue;
        }
        slices[profile] -= 1;
        if let Some(result) = brute(rest, slices, all) {
            best = Some(best.unwrap_or(0.0).max(result + first.makes[profile]));
        }
        slices[profile] += 1;
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Against every fleet of at most two GPUs and every way to put jobs on it.
    #[test]
    fn nothing_is_better_by_brute_force(
        drawn in proptest::collection::vec((1u32..3, 0usize..6, 1u32..9), 1..4),
        gpus in 1u32..3,
        there in 0usize..12,
    ) {
        // Without the double 1g, so that all fleets can be gone through.
        let partitions: Vec<MigPartition> = full(a100()).into_iter().filter(|of| of.counts[1] == 0).collect();
        let needs: Vec<MigNeed> = drawn
            .iter()
            .map(|(count, from, slow)| jobs(*count, *from, BY_SIZE.map(|speed| speed.powf(f64::from(*slow) / 5.0))))
            .collect();
        let single: Vec<&MigNeed> =
            needs.iter().flat_map(|need| std::iter::repeat_n(need, need.amount as usize)).collect();
        let now: Vec<u32> = (0..partitions.len()).map(|at| u32::from(at == there)).collect();
        let slices = |counts: &[u32]| -> Vec<u32> {
            (0..6).map(|at| counts.iter().zip(&partitions).map(|(count, of)| count * of.counts[at]).sum()).collect()
        };
        let kept = |counts: &[u32]| -> u32 { counts.iter().zip(&now).map(|(count, now)| count.min(now)).sum() };
        let all = fleets(partitions.len(), 2);
        // The fewest GPUs that carry all, where two do.
        let programme = MigProgramme { partitions: &partitions, now: &now, needs: &needs, gpus: None };
        let result = programme.solve().unwrap().unwrap();
        check(&programme, &result);
        let able: Vec<(&Vec<u32>, f64)> = all
            .iter()
            .filter_map(|counts| Some((counts, brute(&single, &mut slices(counts), true)?)))
            .collect();
        if let Some(fewest) = able.iter().map(|(counts, _)| counts.iter().sum::<u32>()).min() {
            prop_assert_eq!((result.gpus(), result.bound.round() as u32), (fewest, fewest));
            let equal: Vec<&(&Vec<u32>, f64)> =
                able.iter().filter(|(counts, _)| counts.iter().sum::<u32>() == fewest).collect();
            let most_kept = equal.iter().map(|(counts, _)| kept(counts)).max().unwrap();
            prop_assert_eq!(result.kept, most_kept);
            let progress = equal
                .iter()
                .filter(|(counts, _)| kept(counts) == most_kept)
                .map(|(_, progress)| *progress)
                .fold(0.0, f64::max);
            prop_assert!((result.progress - progress).abs() <= 1e-3 * progress, "{} {progress}", result.progress);
        } else {
            prop_assert!(result.gpus() > 2);
        }
        // The most progress on GPUs that are given; whoever has no slice waits.
        let programme = MigProgramme { gpus: Some(gpus), ..programme };
        let result = programme.solve().unwrap().unwrap();
        check(&programme, &result);
        let most = all
            .iter()
            .filter(|counts| counts.iter().sum::<u32>() <= gpus)
            .filter_map(|counts| brute(&single, &mut slices(counts), false))
            .fold(0.0, f64::max);
        prop_assert!((result.progress - most).abs() <= 1e-3 * most, "{} {most}", result.progress);
        prop_assert!(result.bound >= most - 1e-6);
    }
}
