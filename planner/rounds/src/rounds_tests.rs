use proptest::prelude::*;

use super::*;

fn room(gpus: &[u32], per_node: Option<u32>) -> GangRoom {
    GangRoom { gpus: gpus.to_vec(), per_node, host: None }
}

#[test]
fn the_worked_example() {
    let shares = [[0.75], [0.25]];
    let job = |job: usize| RoundJob { job, gang: 1.into(), speeds: &[1.0], shares: &shares[job] };
    let jobs = [job(0), job(1)];
    let mut credit = Credit::new(2, 1);
    let mut had = String::new();
    for _ in 0..8 {
        let given = choose(&jobs, &credit, &room(&[1], None), true);
        had.push(if given[0].is_some() { 'a' } else { 'b' });
        credit.count(&jobs, &given);
    }
    // After a both have a priority of 0.5, after a, b, a, a, a one of 1/6: each time b has the greater deficit.
    assert_eq!(had, "abaaabaa");
}

#[test]
fn who_has_no_share_takes_what_is_left_of_the_fast_type() {
    // a and b have shares of the K80 alone, c of the V100. The V100 is served first, and has room for one more: a, who was submitted first, and, once it has had a round for nothing, b.
    let (slow, fast) = ([0.0, 1.0], [1.0, 0.0]);
    let job = |job: usize, shares| RoundJob { job, gang: 1.into(), speeds: &[4.0, 1.0], shares };
    let jobs = [job(0, &slow), job(1, &slow), job(2, &fast)];
    let room = room(&[2, 1], None);
    let mut credit = Credit::new(3, 2);
    for expected in [[Some(0), Some(1), Some(0)], [Some(1), Some(0), Some(0)]] {
        let given = choose(&jobs, &credit, &room, true);
        assert_eq!(given, expected);
        credit.count(&jobs, &given);
    }
    // Who knows no types begins with another one in each round.
    let all = [0.5, 0.5];
    let jobs = [job(0, &all)];
    let mut credit = Credit::new(1, 2);
    for expected in [Some(0), Some(1), Some(0)] {
        let given = choose(&jobs, &credit, &room, false);
        assert_eq!(given, [expected]);
        credit.count(&jobs, &given);
    }
}

#[test]
fn gangs_take_whole_nodes_and_rests_fit() {
    let nodes = room(&[12], Some(4));
    assert!(nodes.fits(0, &[8, 4]) && nodes.fits(0, &[6, 2, 4]) && !nodes.fits(0, &[12, 1]));
    // Three GPUs on each of three nodes leave no room for two together, though three GPUs are free.
    assert!(nodes.fits(0, &[3, 3, 3, 1]) && !nodes.fits(0, &[3, 3, 3, 2]));
    assert!(room(&[12], None).fits(0, &[3, 3, 3, 2]));
    // The last node may be smaller.
    assert!(room(&[6], Some(4)).fits(0, &[4, 2]) && !room(&[6], Some(4)).fits(0, &[2, 2, 2, 1]));
    assert!(room(&[6], Some(4)).fits(0, &[6]) && room(&[3], Some(4)).fits(0, &[3]));
}

/// The contract word by word: again and again the best job of a type is looked for, and credits are recounted from the list of all rounds.
fn naive(
    jobs: &[RoundJob<'_>],
    rounds: &[Vec<Option<usize>>],
    room: &GangRoom,
    knows_types: bool,
) -> Vec<Option<usize>> {
    let types = room.gpus.len();
    let had = |place: usize, at: usize| rounds.iter().filter(|round| round[place] == Some(at)).count() as f64;
    let deficit = |place: usize, at: usize| rounds.len() as f64 * jobs[place].shares[at] - had(place, at);
    let relative = |at: usize| -> f64 {
        jobs.iter().map(|job| job.speeds[at] / job.speeds.iter().copied().fold(0.0, f64::max)).sum()
    };
    let mut given = vec![None; jobs.len()];
    let mut served: Vec<usize> = Vec::new();
    for turn in 0..types {
        let mut at = (rounds.len() + turn) % types;
        if knows_types {
            let left: Vec<usize> = (0..types).filter(|at| !served.contains(at)).collect();
            at = left[0];
            for other in left {
                at = if relative(other) > relative(at) { other } else { at };
            }
        }
        served.push(at);
        let mut looked: Vec<usize> = Vec::new();
        loop {
            let mut best: Option<((f64, f64, f64), usize)> = None;
            for (place, job) in jobs.iter().enumerate() {
                if job.speeds[at] == 0.0 || looked.contains(&place) {
                    continue;
                }
                let share = job.shares[at];
                let key = (share / (had(place, at) + 0.5), deficit(place, at), share);
                if best.is_none_or(|(than, _)| key > than) {
                    best = Some((key, place));
                }
            }
            let Some((_, place)) = best else { break };
            looked.push(place);
            let beside = (0..jobs.len()).filter(|other| given[*other] == Some(at));
            let gangs: Vec<u32> = beside.chain([place]).map(|other| jobs[other].gang.gpus).collect();
            if given[place].is_none() && room.fits(at, &gangs) {
                given[place] = Some(at);
            }
        }
    }
    given
}

proptest! {
    #[test]
    fn rounds_are_those_of_the_contract(
        jobs in proptest::collection::vec((0u32..4, proptest::collection::vec((0u32..9, 0u32..4), 3)).prop_filter("runs somewhere", |(_, of)| of.iter().any(|(_, speed)| *speed > 0)), 1..9),
        gpus in proptest::collection::vec(8u32..14, 3),
        per_node in proptest::option::of(2u32..9),
        knows_types in any::<bool>(),
    ) {
        // Shares in parts of 32, so that sums of floats are exact and ties are ties.
        let table: Vec<(u32, Vec<f64>, Vec<f64>)> = jobs.iter().map(|(size, of)| {
            let share = |(share, speed): &(u32, u32)| if *speed > 0 { f64::from(*share) / 32.0 } else { 0.0 };
            (1 << size, of.iter().map(|(_, speed)| f64::from(*speed)).collect(), of.iter().map(share).collect())
        }).collect();
        let jobs: Vec<RoundJob<'_>> = table.iter().enumerate().map(|(job, (gpus, speeds, shares))| RoundJob { job, gang: (*gpus).into(), speeds, shares }).collect();
        let room = room(&gpus, per_node);
        let mut credit = Credit::new(jobs.len(), 3);
        let mut rounds: Vec<Vec<Option<usize>>> = Vec::new();
        for _ in 0..12 {
            let given = choose(&jobs, &credit, &room, knows_types);
            prop_assert_eq!(&given, &naive(&jobs, &rounds, &room, knows_types));
            for (at, gpus) in room.gpus.iter().enumerate() {
                let used: u32 = jobs.iter().zip(&given).filter(|(_, given)| **given == Some(at)).map(|(job, _)| job.gang.gpus).sum();
                prop_assert!(used <= *gpus);
            }
            prop_assert!(jobs.iter().zip(&given).all(|(job, given)| given.is_none_or(|at| job.speeds[at] > 0.0)));
            credit.count(&jobs, &given);
            rounds.push(given);
        }
    }

    #[test]
    fn shares_come_true_over_rounds(parts in proptest::collection::vec(1u32..20, 2..8)) {
        // One GPU, all of its time given away: over many rounds each job has its share.
        let all: u32 = parts.iter().sum();
        let shares: Vec<[f64; 1]> = parts.iter().map(|part| [f64::from(*part) / f64::from(all)]).collect();
        let jobs: Vec<RoundJob<'_>> = shares.iter().enumerate().map(|(job, shares)| RoundJob { job, gang: 1.into(), speeds: &[1.0], shares }).collect();
        let mut credit = Credit::new(jobs.len(), 1);
        let mut had = vec![0u32; jobs.len()];
        for _ in 0..400 {
            let given = choose(&jobs, &credit, &room(&[1], None), true);
            had.iter_mut().zip(&given).for_each(|(had, given)| *had += u32::from(given.is_some()));
            credit.count(&jobs, &given);
        }
        for (had, shares) in had.iter().zip(&shares) {
            prop_assert!((f64::from(*had) / 400.0 - shares[0]).abs() <= 0.01, "{had} {shares:?}");
        }
    }
}
