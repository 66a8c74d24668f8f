//! `drf`: users' dominant shares of GPUs, processors and memory are made equal, round by round.
//!
//! Dominant resource fairness (Ghodsi et al., NSDI 2011): a user's **dominant share** is the greatest of its shares of the whole fleet's GPUs, processors and memory, over its weight. Progressive filling: again and again the user with the least dominant share puts its next job, in order of submission, onto a type with room: the one that the job had in the round before, or that with most free GPUs. A job
//! asks for its GPUs and its best demand. A job without room is passed over, and its user goes on with the next. All types count alike.
//!
//! Every round begins anew. Of users with the same share the one comes first that has had least so far, the sum of its dominant shares over rounds: otherwise the first of two who want the only GPU would keep it. That is ours, as in the paper who holds something keeps it.
//!
//! O(jobs² · types · nodes) a round, as each job that is tried has all gangs of the type put onto nodes anew ([`super::room`]). Worked example (the paper's): 9 processors and 18 GB; a task of A takes 1 and 4, one of B 3 and 1. A, B, A, B, A: three tasks of A have 12 of 18 GB, two of B 6 of 9 processors, two thirds each.

use super::active::ActiveJob;
use super::host::tally::Taken;
use super::room::GangRoom;

/// Dominant shares of users, summed over rounds.
#[derive(Debug, Clone, Default)]
pub struct Drf {
    had: Vec<f64>,
}

impl Drf {
    /// The type of each job in the round that begins. Users are numbered from 0 in the order in which they come.
    pub fn round(&mut self, active: &[ActiveJob<'_>], room: &GangRoom) -> Vec<Option<usize>> {
        let users = active.iter().map(|job| job.user + 1).max().unwrap_or(0).max(self.had.len());
        self.had.resize(users, 0.0);
        let all = Taken::all(room);
        let mut taken = vec![(Taken::default(), 1.0); users];
        let mut queues: Vec<Vec<usize>> = vec![Vec::new(); users];
        for (at, job) in active.iter().enumerate().rev() {
            if let (Some(queue), Some((_, weight))) = (queues.get_mut(job.user), taken.get_mut(job.user)) {
                queue.push(at);
                *weight = job.user_weight;
            }
        }
        let mut open = room.open();
        let mut result = vec![None; active.len()];
        let share = |taken: &[(Taken, f64)], user: usize| {
            taken.get(user).map_or(0.0, |(taken, weight)| taken.dominant(&all) / weight)
        };
        loop {
            let waits = |user: &usize| queues.get(*user).is_some_and(|queue| !queue.is_empty());
            let had = |user: usize| self.had.get(user).copied().unwrap_or(0.0);
            let key = |user: usize| (share(&taken, user), had(user));
            let next = (0..users).filter(waits).reduce(|a, b| if key(b) < key(a) { b } else { a });
            let Some(at) = next.and_then(|user| queues.get_mut(user)?.pop()) else { break };
            let (Some(job), Some(slot)) = (active.get(at), result.get_mut(at)) else { continue };
            let mut types = open.types(&job.kind.steps_per_s, false);
            types.sort_by_key(|other| job.on != Some(*other));
            *slot = types.into_iter().find(|at| open.take(*at, job.gang(*at, true)));
            if let (Some(on), Some((taken, _))) = (*slot, taken.get_mut(job.user)) {
                let each = job.gang(on, true).needs.unwrap_or_else(|| room.share(on));
                taken.add(job.gpus(), each.times(job.gpus()));
            }
        }
        for (user, had) in self.had.iter_mut().enumerate() {
            *had += share(&taken, user);
        }
        result
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::active::tests::{active, kind};
    use super::super::host::{HostFleet, HostUse, JobAsks};
    use super::super::node::HostNeeds;
    use super::*;

    /// How many jobs each of two users has in a round, whose jobs need so much.
    fn tasks(needs: [(f64, f64); 2], node: HostNeeds, gpus: u32, rounds: usize) -> Vec<[usize; 2]> {
        let kinds = vec![kind(1, &[1.0]); 2 * gpus as usize];
        let mut jobs = active(&kinds);
        let fleet = HostFleet::new(gpus, vec![node], Vec::new()).unwrap();
        let room = GangRoom { gpus: vec![gpus], per_node: Some(gpus), host: Some(fleet.shares()) };
        let asks = needs
            .map(|(cpus, memory_gb)| JobAsks::new(&fleet, HostUse::Exactly(HostNeeds { cpus, memory_gb }), 1, &room));
        for (at, job) in jobs.iter_mut().enumerate() {
            job.user = at % 2;
            job.asks = Some(&asks[at % 2]);
        }
        let mut drf = Drf::default();
        let count = |given: &[Option<usize>], user: usize| given.iter().skip(user).step_by(2).flatten().count();
        let mut rounds_of = Vec::new();
        for _ in 0..rounds {
            let given = drf.round(&jobs, &room);
            rounds_of.push([count(&given, 0), count(&given, 1)]);
        }
        rounds_of
    }

    #[test]
    fn the_papers_worked_example() {
        let node = HostNeeds { cpus: 9.0, memory_gb: 18.0 };
        assert_eq!(tasks([(1.0, 4.0), (3.0, 1.0)], node, 9, 3), [[3, 2]; 3]);
    }

    #[test]
    fn of_gpus_alone_it_is_max_min_and_nobody_keeps_the_only_one() {
        let node = HostNeeds { cpus: 100.0, memory_gb: 100.0 };
        assert_eq!(tasks([(0.1, 0.1), (0.1, 0.1)], node, 8, 1), [[4, 4]]);
        assert_eq!(tasks([(0.1, 0.1), (0.1, 0.1)], node, 1, 4), [[1, 0], [0, 1], [1, 0], [0, 1]]);
    }
}
