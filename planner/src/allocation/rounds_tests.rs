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
    // After a, b, a, a both have a priority of 0.25 and no deficit, and the greater share decides.
    assert_eq!(had, "abaaabaa");
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

/// The contract word by word: again and again the best pair of all is looked for, and credits are recounted from the list of all rounds.
fn naive(
    jobs: &[RoundJob<'_>],
    rounds: &[Vec<Option<usize>>],
    room: &GangRoom,
    knows_types: bool,
) -> Vec<Option<usize>> {
    let had = |place: usize, at: usize| rounds.iter().filter(|round| round[place] == Some(at)).count();
    let deficit = |place: usize, at: usize| {
        let mut sum = 0.0;
        for round in rounds {
            sum += jobs[place].shares[at];
            if round[place] == Some(at) {
                sum -= 1.0;
            }
        }
        sum
    };
    let mut given = vec![None; jobs.len()];
    let fits = |given: &[Option<usize>], place: usize, at: usize| {
        let mut gangs: Vec<u32> =
            (0..jobs.len()).filter(|other| given[*other] == Some(at)).map(|other| jobs[other].gang.gpus).collect();
        gangs.push(jobs[place].gang.gpus);
        room.fits(at, &gangs)
    };
    let mut done: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut best: Option<(f64, f64, f64, usize, usize)> = None;
        for (place, job) in jobs.iter().enumerate() {
            for (at, share) in job.shares.iter().copied().enumerate() {
                if share <= 1e-6 || done.contains(&(place, at)) {
                    continue;
                }
                let priority = if had(place, at) == 0 { f64::INFINITY } else { share / had(place, at) as f64 };
                let key = (priority, deficit(place, at), share);
                if best.is_none_or(|(p, d, s, ..)| key > (p, d, s)) {
                    best = Some((key.0, key.1, key.2, place, at));
                }
            }
        }
        let Some((.., place, at)) = best else { break };
        done.push((place, at));
        if given[place].is_none() && fits(&given, place, at) {
            given[place] = Some(at);
        }
    }
    let mut looked = vec![false; jobs.len()];
    loop {
        let deficits = |place: usize| (0..room.gpus.len()).map(|at| deficit(place, at)).sum::<f64>();
        let mut next: Option<usize> = None;
        for place in 0..jobs.len() {
            if given[place].is_none() && !looked[place] && next.is_none_or(|next| deficits(place) > deficits(next)) {
                next = Some(place);
            }
        }
        let Some(place) = next else { break };
        looked[place] = true;
        let free = |at: usize| {
            let used: u32 =
                (0..jobs.len()).filter(|other| given[*other] == Some(at)).map(|other| jobs[other].gang.gpus).sum();
            f64::from(room.gpus[at] - used)
        };
        let mut best: Option<(f64, usize)> = None;
        for at in 0..room.gpus.len() {
            let worth = if knows_types { jobs[place].speeds[at] } else { free(at) };
            if jobs[place].speeds[at] > 0.0 && fits(&given, place, at) && best.is_none_or(|(than, _)| worth > than) {
                best = Some((worth, at));
            }
        }
        given[place] = best.map(|(_, at)| at);
    }
    given
}

proptest! {
    #[test]
    fn rounds_are_those_of_the_contract(
        jobs in proptest::collection::vec((0u32..4, proptest::collection::vec((0u32..9, 0u32..4), 3)), 1..9),
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
