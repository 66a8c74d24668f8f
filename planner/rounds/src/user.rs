//! Users' GPUs, made of whole gangs: which job of which user has which type in the round that begins.
//!
//! Four policies give GPUs to users and not to jobs. All take part from the submission of their first job to the end, also in rounds in which they have none; jobs without a user are one user together. A user weighs what its first job weighs. Its **demand** is the GPUs of its jobs that are
//! there, at most those of the fleet.
//!
//! | name | GPUs of a user in a round |
//! |---|---|
//! | `partition` | at most its fair share, whatever others leave |
//! | `user_max_min` | max-min fairness of this round alone |
//! | `karma` | by credits that remember earlier rounds ([`super::karma`]) |
//! | `drf` | by dominant shares of GPUs, processors and memory, in whole gangs from the beginning ([`super::drf`]) |
//!
//! Those of the first three are parts of GPUs, all types alike. Gangs are made of them so:
//!
//! 1. Each user has a **balance** in GPU rounds, to which its GPUs of the round are added, up to as much as the fleet has.
//! 2. Again and again the user with the greatest balance above 0 (of equals, the one that came first) puts its next job, in order of submission, onto a type with room: the one that the job had in the round before, or that with most free GPUs. The job's GPUs are taken off the balance. A job without room is passed over.
//! 3. But for `partition`, what is still free goes to jobs that have nothing, in order of their users' balances and then of submission, and costs nothing.
//!
//! So a gang larger than its user's GPUs runs in some rounds and not in others. What a user could not use because a gang did not fit stays on its balance. Credits are of what the user was given, not of what its gangs took.
//!
//! O(jobs · types · log) a round. Worked example: 8 GPUs; a has one gang of eight, b eight jobs of one. Each is given 4. In the first round a comes first, has all, and then owes 4; in the second b has 8 on its balance and all of its jobs run. So they take turns.

use super::active::ActiveJob;
use super::drf::Drf;
use super::karma::{Asking, Karma, MANY, max_min, partition};
use super::policy::AllocationPolicy;
use super::room::GangRoom;

/// A balance up to this is none: what sums of floats leave over.
const LEAST_BALANCE: f64 = 1e-6;

/// State of users from round to round.
#[derive(Debug, Clone)]
pub struct UserShares {
    policy: AllocationPolicy,
    karma: Karma,
    weights: Vec<f64>,
    balances: Vec<f64>,
    drf: Drf,
}

impl UserShares {
    /// Nobody yet; `alpha` is the part of a fair share that `karma` guarantees.
    pub fn new(policy: AllocationPolicy, alpha: f64) -> Self {
        Self { policy, karma: Karma::new(alpha, MANY), weights: Vec::new(), balances: Vec::new(), drf: Drf::default() }
    }

    /// The type of each job in the round that begins. Users are numbered from 0 in the order in which they come.
    pub fn round(&mut self, active: &[ActiveJob<'_>], room: &GangRoom) -> Vec<Option<usize>> {
        if self.policy == AllocationPolicy::Drf {
            return self.drf.round(active, room);
        }
        let all: f64 = room.gpus.iter().copied().map(f64::from).sum();
        let mut users: Vec<Asking> =
            self.weights.iter().map(|weight| Asking { weight: *weight, demand: 0.0 }).collect();
        for job in active {
            while users.len() <= job.user {
                users.push(Asking { weight: job.user_weight, demand: 0.0 });
                self.weights.push(job.user_weight);
                self.balances.push(0.0);
            }
            if let Some(user) = users.get_mut(job.user) {
                user.demand = (user.demand + job.gpus()).min(all);
            }
        }
        let given = match self.policy {
            AllocationPolicy::Karma => self.karma.round(all, &users),
            AllocationPolicy::Partition => partition(all, &users),
            _ => max_min(all, &users),
        };
        for (balance, given) in self.balances.iter_mut().zip(given) {
            *balance = (*balance + given).min(all);
        }
        self.gangs(active, room)
    }

    /// Makes whole gangs by balances.
    fn gangs(&mut self, active: &[ActiveJob<'_>], room: &GangRoom) -> Vec<Option<usize>> {
        let mut open = room.open();
        let mut result = vec![None; active.len()];
        let mut put = |at: usize| {
            let (Some(job), Some(slot)) = (active.get(at), result.get_mut(at)) else { return false };
            let mut types = open.types(&job.kind.steps_per_s, false);
            types.sort_by_key(|other| job.on != Some(*other));
            *slot = types.into_iter().find(|at| open.take(*at, job.gang(*at, false)));
            slot.is_some()
        };
        let mut queues: Vec<Vec<usize>> = vec![Vec::new(); self.balances.len()];
        for (at, job) in active.iter().enumerate().rev() {
            if let Some(queue) = queues.get_mut(job.user) {
                queue.push(at);
            }
        }
        let mut left: Vec<usize> = Vec::new();
        loop {
            let waits = |user: &usize| queues.get(*user).is_some_and(|queue| !queue.is_empty());
            let balance = |user: usize| self.balances.get(user).copied().unwrap_or(0.0);
            let may = |user: &usize| balance(*user) > LEAST_BALANCE && waits(user);
            let next = (0..self.balances.len()).filter(may).reduce(|a, b| if balance(b) > balance(a) { b } else { a });
            let Some(user) = next else { break };
            let Some(at) = queues.get_mut(user).and_then(Vec::pop) else { break };
            if !put(at) {
                left.push(at);
            } else if let Some((balance, job)) = self.balances.get_mut(user).zip(active.get(at)) {
                *balance -= job.gpus();
            }
        }
        if self.policy != AllocationPolicy::Partition {
            left.extend(queues.into_iter().flatten());
            let balance =
                |at: usize| active.get(at).and_then(|job| self.balances.get(job.user)).copied().unwrap_or(0.0);
            left.sort_by(|a, b| balance(*b).total_cmp(&balance(*a)).then(a.cmp(b)));
            left.into_iter().for_each(|at| {
                put(at);
            });
        }
        result
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::active::tests::{active, kind};
    use super::*;

    fn room(gpus: &[u32]) -> GangRoom {
        GangRoom { gpus: gpus.to_vec(), per_node: None, host: None }
    }

    #[test]
    fn the_worked_example() {
        let mut kinds = vec![kind(1, &[1.0]); 9];
        kinds[0] = kind(8, &[1.0]);
        let mut jobs = active(&kinds);
        jobs.iter_mut().skip(1).for_each(|job| job.user = 1);
        for policy in [AllocationPolicy::UserMaxMin, AllocationPolicy::Karma, AllocationPolicy::Partition] {
            let mut users = UserShares::new(policy, 0.5);
            for round in 0..6 {
                let given = users.round(&jobs, &room(&[8]));
                let gang = round % 2 == 0;
                assert_eq!(given[0].is_some(), gang, "{policy:?}, round {round}");
                assert!(given[1..].iter().all(|given| given.is_some() != gang));
            }
        }
    }

    #[test]
    fn a_partition_leaves_idle_what_others_leave() {
        let kinds = vec![kind(1, &[1.0, 1.0]); 4];
        let jobs = active(&kinds);
        let count = |policy: AllocationPolicy, jobs: &[ActiveJob<'_>], before: &[ActiveJob<'_>]| {
            let mut users = UserShares::new(policy, 0.5);
            users.round(before, &room(&[2, 2]));
            users.round(jobs, &room(&[2, 2])).iter().flatten().count()
        };
        // The second user came and has nothing now: half of the four GPUs are kept for it.
        let mut before = jobs.clone();
        before[3].user = 1;
        assert_eq!(count(AllocationPolicy::Partition, &jobs, &before), 2);
        assert_eq!(count(AllocationPolicy::UserMaxMin, &jobs, &before), 4);
        assert_eq!(count(AllocationPolicy::Karma, &jobs, &before), 4);
    }

    #[test]
    fn karma_remembers_who_left_gpus() {
        // Two GPUs. a has two jobs all the time, b none at first and then two: with α = 0 b has both GPUs until it has had as much.
        let kinds = vec![kind(1, &[1.0]); 4];
        let mut jobs = active(&kinds);
        jobs[2].user = 1;
        jobs[3].user = 1;
        let had = |policy: AllocationPolicy| {
            let mut users = UserShares::new(policy, 0.0);
            let mut had = Vec::new();
            // b has come, and has nothing to do for four rounds.
            users.round(&jobs, &room(&[2]));
            for round in 0..8 {
                let there = if round < 4 { &jobs[..2] } else { &jobs[..] };
                had.push(users.round(there, &room(&[2])).iter().skip(2).flatten().count());
            }
            had
        };
        assert_eq!(had(AllocationPolicy::UserMaxMin), [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(had(AllocationPolicy::Karma), [0, 0, 0, 0, 2, 2, 2, 2]);
    }
}
