//! GENIE: jobs with deadlines get as few GPUs as meet them, the one that can wait least first.
//!
//! After GENIE (Chen et al., DATE 2019), a scheduler that places jobs by how fast they are predicted to be on so many GPUs. Its abstracts, which are what is public of it, state that the job with the least **waiting allowance** comes first, that placements come from the prediction so that deadlines are met, and that it decides
//! anew on events. How many GPUs a job gets is not stated there; that it is the fewest that suffice is ours, and so is what follows from it. The contract:
//!
//! 1. It decides whenever a job comes or ends. A job may run on each number of GPUs for which the throughputs have its type, and on each GPU type that has so many: these are its **choices**. Predictions are the throughputs.
//! 2. The waiting allowance of a job is the time until its deadline, less what its remaining steps take with its fastest choice. Jobs whose deadline has not passed come in order of it, ties in order of submission.
//! 3. Each takes, of the choices that have room, the one with the fewest GPUs that ends it by its deadline if it keeps them; of these the slowest, so that fast types are left to others; what it has now of equals. If none ends it in time, it takes the fastest that has room.
//! 4. Then come jobs without a deadline and those whose deadline has passed, in order of submission, with the GPUs that they asked for, each on the fastest type with room. Who does not fit is passed over.
//!
//! O(jobs · choices). Worked example: a makes 1, 1.8 and 3 steps a second on 1, 2 and 4 GPUs, has 3,600 steps left and 30 min: two GPUs take 2,000 s and four 1,200 s, so it gets four. With 40 min it gets two.

use super::active::ActiveJob;
use super::pool::JobKind;
use super::room::GangRoom;

/// A number of GPUs and a type: the place of the kind, that of the type, and steps a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Choice {
    kind: usize,
    gpus: u32,
    at: usize,
    speed: f64,
}

/// The kind, which says the number of GPUs, and the type of each job. `kinds` are all of the fleet; a move costs `restart_s`.
pub fn chosen(
    active: &[ActiveJob<'_>],
    kinds: &[JobKind],
    room: &GangRoom,
    restart_s: f64,
) -> Vec<Option<(usize, usize)>> {
    let mut open = room.open();
    let mut result = vec![None; active.len()];
    let choices: Vec<Vec<Choice>> = active.iter().map(|job| choices(job, kinds)).collect();
    let in_time = |at: usize| active.get(at).and_then(|job| job.due_s.filter(|due_s| *due_s > 0.0));
    let allowance = |at: usize| -> Option<f64> {
        let fastest = choices.get(at)?.iter().map(|choice| choice.speed).fold(0.0, f64::max);
        Some(in_time(at)? - active.get(at)?.remaining / fastest)
    };
    let mut order: Vec<(f64, usize)> =
        (0..active.len()).map(|at| (allowance(at).unwrap_or(f64::INFINITY), at)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    for (_, at) in order {
        let (Some(job), Some(choices), Some(slot)) = (active.get(at), choices.get(at), result.get_mut(at)) else {
            continue;
        };
        let mut choices = choices.clone();
        let has = |choice: &Choice| job.on == Some(choice.at) && job.had_gpus == choice.gpus;
        if let Some(due_s) = in_time(at) {
            let late = |choice: &Choice| {
                let moves = job.had_gpus > 0 && !has(choice);
                job.remaining / choice.speed + if moves { restart_s } else { 0.0 } > due_s
            };
            choices.sort_by(|a, b| match (late(a), late(b)) {
                (true, true) => b.speed.total_cmp(&a.speed),
                (false, false) => a.gpus.cmp(&b.gpus).then(a.speed.total_cmp(&b.speed)).then(has(b).cmp(&has(a))),
                (a, b) => a.cmp(&b),
            });
        } else {
            choices.retain(|choice| choice.gpus == job.kind.gpus);
            choices.sort_by(|a, b| b.speed.total_cmp(&a.speed));
        }
        *slot = choices
            .into_iter()
            .find(|choice| open.take(choice.at, job.gang_of(choice.gpus)))
            .map(|choice| (choice.kind, choice.at));
    }
    result
}

/// On how many GPUs of which types a job runs.
fn choices(job: &ActiveJob<'_>, kinds: &[JobKind]) -> Vec<Choice> {
    let of = |(kind, result): (usize, &JobKind)| {
        let gpus = result.gpus;
        let runs = result.steps_per_s.clone().into_iter().enumerate().filter(|(_, speed)| *speed > 0.0);
        runs.map(move |(at, speed)| Choice { kind, gpus, at, speed })
    };
    kinds.iter().enumerate().filter(|(_, kind)| kind.job == job.kind.job).flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::active::tests::{active, kind};
    use super::*;

    fn room(gpus: &[u32]) -> GangRoom {
        GangRoom { gpus: gpus.to_vec(), per_node: None, host: None }
    }

    #[test]
    fn the_worked_example() {
        let kinds = [kind(1, &[1.0]), kind(2, &[1.8]), kind(4, &[3.0])];
        let mut jobs = active(&kinds[..1]);
        jobs[0].remaining = 3600.0;
        let mut gpus = |due_s: Option<f64>, free: u32| {
            jobs[0].due_s = due_s;
            chosen(&jobs, &kinds, &room(&[free]), 0.0)[0].map(|(kind, _)| kinds[kind].gpus)
        };
        assert_eq!(gpus(Some(1800.0), 8), Some(4));
        assert_eq!(gpus(Some(2400.0), 8), Some(2));
        assert_eq!(gpus(Some(3600.0), 8), Some(1));
        // Nothing is fast enough: the fastest that has room.
        assert_eq!(gpus(Some(600.0), 3), Some(2));
        // Best effort has what it asked for.
        assert_eq!((gpus(None, 8), gpus(Some(-1.0), 8)), (Some(1), Some(1)));
    }

    #[test]
    fn who_can_wait_least_comes_first_and_leaves_fast_types_to_others() {
        let kinds = [kind(1, &[4.0, 1.0])];
        let three = vec![kinds[0].clone(); 3];
        let mut jobs = active(&three);
        for (job, (remaining, due_s)) in
            jobs.iter_mut().zip([(4000.0, None), (3600.0, Some(3600.0)), (7200.0, Some(2000.0))])
        {
            (job.remaining, job.due_s) = (remaining, due_s);
        }
        // The third needs the fast type and can wait for 200 s; the second can wait for 2,700 s, and the slow type is enough for it.
        assert_eq!(chosen(&jobs, &kinds, &room(&[1, 1]), 0.0), [None, Some((0, 1)), Some((0, 0))]);
        // A move would make the slow type too late for the second.
        jobs[1].on = Some(0);
        jobs[1].had_gpus = 1;
        assert_eq!(chosen(&jobs[..2], &kinds, &room(&[1, 1]), 60.0), [Some((0, 1)), Some((0, 0))]);
    }
}
