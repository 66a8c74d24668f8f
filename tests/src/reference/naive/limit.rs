//! Limits by QOS and account in the plainest way: what runs is counted anew at every question, in all pools, which are replayed side by side.
//!
//! Worked number: see the page of `tracecast_planner::sim::limit`.

use tracecast_planner::sim::limit::{Association, Limits, Qos, Stopped};
use tracecast_planner::sim::{Outcome, Scan, Stop};

use super::walk::Holding;
use super::{Phase, Pool};

/// State of a pool within a decision.
#[derive(Default)]
struct Walk {
    over: bool,
    blocked: Vec<usize>,
    /// The head, its shadow time, and what counts as running then.
    head: Option<(usize, Option<i64>, Vec<usize>)>,
    /// Reservations, and how many were looked at.
    held: Option<Vec<Holding>>,
    looked: u32,
    kept: super::slurm::Kept,
}

/// Most stops of a job.
const MOST_STOPS: u32 = 1000;

/// Replays pools that share limits.
pub(super) fn run(pools: &mut [Pool<'_>]) {
    for pool in 0..pools.len() {
        look_around(pools, pool);
        pools[pool].prepare();
    }
    let Some(policy) = pools.first().map(|pool| pool.policy) else { return };
    let note = |pools: &mut [Pool<'_>], at: i64| pools.iter_mut().for_each(|pool| pool.note(at));
    if pools.iter().any(|pool| pool.due.is_some()) {
        note(pools, 0);
    }
    while let Some(now) = pools.iter().filter_map(Pool::next_instant).min() {
        let mut happened = false;
        for pool in pools.iter_mut() {
            happened |= pool.happen(now);
        }
        if happened {
            note(pools, now);
        }
        if pools[0].due != Some(now) {
            continue;
        }
        pools.iter_mut().for_each(|pool| pool.due = None);
        let (stopped, decays) = decide(pools);
        let waits = pools.iter().any(|pool| !pool.in_phase(Phase::Waiting).is_empty());
        match policy.interval_ms {
            // After a preemption there is another, whatever runs or is to come.
            Some(every) if stopped || (waits && (decays || pools.iter().any(Pool::has_more))) => {
                note(pools, now + every);
            }
            None if stopped => note(pools, now + 1000),
            _ => {}
        }
    }
}

/// Tells a pool what runs in the others.
fn look_around(pools: &mut [Pool<'_>], at: usize) {
    let others = pools.iter().enumerate().filter(|(other, _)| *other != at);
    let running = |(_, pool): (usize, &Pool<'_>)| -> Vec<(i64, usize)> {
        let end = |job: &usize| if pool.policy.scan == Scan::Slurm { pool.expected_end(*job) } else { 0 };
        pool.in_phase(Phase::Running).iter().map(|job| (end(job), *job)).collect()
    };
    let result: Vec<(i64, usize)> = others.flat_map(running).collect();
    for (_, job) in &result {
        let since = pools.iter().find(|pool| pool.members.contains(job)).map_or(0, |pool| pool.jobs[*job].since);
        pools[at].running_since[*job] = since;
    }
    let others = pools.iter().enumerate().filter(|(other, _)| *other != at);
    let held = others.flat_map(|(_, pool)| pool.all_held().into_iter());
    pools[at].held_elsewhere = held.collect();
    pools[at].elsewhere = result.iter().map(|(_, job)| *job).collect();
    pools[at].ends_elsewhere = result;
}

/// Walks over the waiting jobs once; returns whether a job was stopped, and whether one is over a
/// limit of usage that decays.
fn decide(pools: &mut [Pool<'_>]) -> (bool, bool) {
    for at in 0..pools.len() {
        look_around(pools, at);
    }
    let mut order: Vec<_> = Vec::new();
    for (at, pool) in pools.iter().enumerate() {
        let waiting = pool.in_phase(Phase::Waiting).into_iter().filter(|job| !pool.is_held(*job));
        order.extend(waiting.map(|job| (pool.key(job), pool.workload.submit_ms[job], job, at)));
    }
    order.sort();
    let mut walks: Vec<Walk> = pools.iter().map(|_| Walk::default()).collect();
    let (mut stopped, mut decays) = (false, false);
    for (_, _, job, at) in order {
        look_around(pools, at);
        decays |= pools[at].over_used(job).1;
        if !pools[at].is_over_limit(job) {
            stopped |= pools[at].look(&mut walks[at], job);
        }
    }
    (stopped, decays)
}

impl Pool<'_> {
    /// QOS of the job and of its partition, the one whose limits come first before the other.
    pub(super) fn qos_of(&self, job: usize) -> Vec<(usize, &Qos)> {
        let Some(limits) = &self.cluster.limits else { return Vec::new() };
        let own = self.workload.qos.get(job).copied().flatten().map(usize::from);
        let partition = limits.partitions()[self.vc(job)].qos.map(usize::from);
        let mut both: Vec<usize> = partition.into_iter().chain(own).collect();
        if own.is_some_and(|own| limits.qos()[own].over_partition) {
            both.reverse();
        }
        both.dedup();
        both.into_iter().map(|at| (at, &limits.qos()[at])).collect()
    }

    /// The associations whose limits hold for a job, its own first.
    pub(super) fn above(&self, job: usize) -> Vec<(usize, &Association)> {
        let Some(limits) = &self.cluster.limits else { return Vec::new() };
        let mut result = Vec::new();
        let mut next = self.workload.association.get(job).copied().flatten();
        while let Some(at) = next {
            let association = &limits.associations()[at as usize];
            result.push((at as usize, association));
            next = association.parent;
        }
        result
    }

    /// Whether a job would be over a limit of an account, where its QOSs (`both`) set none of the same kind; and whether over one of GPU time.
    fn over_account(&self, job: usize, others: &[usize], both: &[(usize, &Qos)]) -> (bool, bool) {
        let path = self.above(job);
        let amount = self.shape(job).amount();
        let asked = self.workload.requested_ms[job];
        let unset = |set: &dyn Fn(&Qos) -> bool| !both.iter().any(|(_, qos)| set(qos));
        let below = |at: usize| -> Vec<usize> {
            others.iter().copied().filter(|other| self.above(*other).iter().any(|(of, _)| *of == at)).collect()
        };
        let gpus = |jobs: Vec<usize>| jobs.into_iter().map(|job| self.shape(job).amount()).sum::<u64>();
        let longest = path.iter().find_map(|(_, of)| of.wall_ms);
        let largest = path.iter().find_map(|(_, of)| of.job_milli);
        let most = path.iter().find_map(|(_, of)| of.jobs);
        let own = path.first().map_or(0, |(own, _)| below(*own).len());
        let over = (unset(&|qos| qos.wall_ms.is_some())
            && longest.is_some_and(|most| asked.is_some_and(|asked| asked > most)))
            || (unset(&|qos| qos.job_milli.is_some()) && largest.is_some_and(|most| amount > most))
            || (unset(&|qos| qos.user_jobs.is_some()) && most.is_some_and(|most| own + 1 > most as usize))
            || (unset(&|qos| qos.group_jobs.is_some())
                && path.iter().any(|(at, of)| of.group_jobs.is_some_and(|most| below(*at).len() + 1 > most as usize)))
            || (unset(&|qos| qos.group_milli.is_some())
                && path.iter().any(|(at, of)| of.group_milli.is_some_and(|most| gpus(below(*at)) + amount > most)));
        let first = both.iter().find_map(|(at, qos)| Some((*at, qos.group_time_milli?)));
        let of_qos = |at: usize| -> Vec<usize> {
            others.iter().copied().filter(|other| self.qos_of(*other).iter().any(|(of, _)| *of == at)).collect()
        };
        let late = asked.is_some_and(|asked| {
            let takes = |jobs: Vec<usize>, most: u64| {
                let all = jobs.into_iter().map(|job| self.may_take(job)).sum::<i128>();
                all + i128::from(amount) * i128::from(asked) > i128::from(most) * 60_000
            };
            match first {
                Some((at, most)) => takes(of_qos(at), most),
                None => path.iter().any(|(at, of)| of.group_time_milli.is_some_and(|most| takes(below(*at), most))),
            }
        });
        (over, late)
    }

    /// GPU time that a running job may still take by its time limit.
    pub(super) fn may_take(&self, job: usize) -> i128 {
        let since = if self.members.contains(&job) { self.jobs[job].since } else { self.running_since[job] };
        let left = self.workload.requested_ms[job].map_or(0, |limit| (since + limit - self.now).max(0));
        i128::from(self.shape(job).amount()) * i128::from(left)
    }

    /// Limits that a job would be over beside `others`: that of the partition's time, one of GPU
    /// time, and any other.
    fn over(&self, job: usize, others: &[usize]) -> (bool, bool, bool) {
        let Some(limits) = &self.cluster.limits else { return (false, false, false) };
        let both = self.qos_of(job);
        let amount = self.shape(job).amount();
        let asked = self.workload.requested_ms[job];
        let longer = |most: Option<i64>| most.is_some_and(|most| asked.is_some_and(|asked| asked > most));
        let counting = |qos: usize, user: Option<u32>| -> Vec<usize> {
            let is_its = |other: &&usize| {
                self.qos_of(**other).iter().any(|(at, _)| *at == qos)
                    && user.is_none_or(|user| self.workload.user[**other] == user)
            };
            others.iter().filter(is_its).copied().collect()
        };
        let user = Some(self.workload.user[job]);
        let gpus = |jobs: Vec<usize>| jobs.into_iter().map(|job| self.shape(job).amount()).sum::<u64>();
        let free = both.iter().any(|(_, qos)| qos.over_partition_time);
        let time = !free && longer(limits.partitions()[self.vc(job)].wall_ms);
        let jobs_over = |limit: &dyn Fn(&Qos) -> Option<u32>, user: Option<u32>| {
            let first = both.iter().find_map(|(at, qos)| Some((*at, limit(qos)?)));
            first.is_some_and(|(at, most)| counting(at, user).len() + 1 > most as usize)
        };
        let gpus_over = |limit: &dyn Fn(&Qos) -> Option<u64>, user: Option<u32>| {
            let first = both.iter().find_map(|(at, qos)| Some((*at, limit(qos)?)));
            first.is_some_and(|(at, most)| gpus(counting(at, user)) + amount > most)
        };
        let account = |job: usize| self.above(job).iter().find(|(_, of)| !of.is_user).map(|(at, _)| *at);
        let beside = |qos: usize| -> Vec<usize> {
            counting(qos, None).into_iter().filter(|other| account(*other) == account(job)).collect()
        };
        let first = both.iter().find_map(|(at, qos)| Some((*at, qos.account_jobs?)));
        let account_jobs = first.is_some_and(|(at, most)| beside(at).len() + 1 > most as usize);
        let first = both.iter().find_map(|(at, qos)| Some((*at, qos.account_milli?)));
        let account_gpus = first.is_some_and(|(at, most)| gpus(beside(at)) + amount > most);
        let job_over = both.iter().find_map(|(_, qos)| qos.job_milli).is_some_and(|most| amount > most);
        let other = longer(both.iter().find_map(|(_, qos)| qos.wall_ms))
            || job_over
            || account_jobs
            || account_gpus
            || jobs_over(&|qos| qos.group_jobs, None)
            || jobs_over(&|qos| qos.user_jobs, user)
            || gpus_over(&|qos| qos.group_milli, None)
            || gpus_over(&|qos| qos.user_milli, user);
        let (of_account, late) = self.over_account(job, others, &both);
        (time, late, other || of_account)
    }

    pub(super) fn is_over_limit(&self, job: usize) -> bool {
        let mut others = self.in_phase(Phase::Running);
        others.extend(&self.elsewhere);
        let (time, late, other) = self.over(job, &others);
        time || late || other || self.over_used(job).0
    }

    /// Over a limit with nothing else at work.
    pub(super) fn is_held(&self, job: usize) -> bool {
        let (time, late, other) = self.over(job, &[]);
        time || late || other || self.over_used_alone(job)
    }

    pub(super) fn is_denied(&self, job: usize) -> bool {
        let Some(limits) = &self.cluster.limits else { return false };
        let (time, _, other) = self.over(job, &[]);
        (time && limits.partitions()[self.vc(job)].deny) || (other && self.qos_of(job).iter().any(|(_, qos)| qos.deny))
    }

    /// Takes the turn of a job that is over no limit; returns whether others were stopped for it.
    fn look(&mut self, walk: &mut Walk, job: usize) -> bool {
        match self.policy.scan {
            Scan::Strict | Scan::Skip => return self.look_walking(walk, job),
            Scan::Easy => self.look_easy(walk, job),
            Scan::Conservative => {
                if self.policy.depth.is_none_or(|depth| walk.looked < depth) {
                    walk.looked += 1;
                    let mut held = walk.held.take().unwrap_or_else(|| self.holding());
                    self.reserve_conservatively(&mut held, job);
                    walk.held = Some(held);
                }
            }
            Scan::Slurm => {
                walk.looked += 1;
                if self.policy.depth.is_some_and(|depth| walk.looked > depth) {
                    return false;
                }
                if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                    return self.look_slurm(job, &mut walk.kept);
                }
            }
            Scan::Kueue | Scan::Kai | Scan::Volcano => {
                unreachable!("limits do not hold under the schedulers of Kubernetes")
            }
        }
        false
    }

    fn look_walking(&mut self, walk: &mut Walk, job: usize) -> bool {
        if walk.over || walk.blocked.contains(&self.vc(job)) {
            return false;
        }
        if let Some(pieces) = self.fits(job) {
            self.start(job, pieces);
            return false;
        }
        if self.dismisses() {
            let fits_without = |pool: &Self, gone: &[usize]| {
                let mut rest = pool.in_phase(Phase::Running);
                rest.retain(|other| !gone.contains(other));
                let mut view = pool.empty(false);
                for other in &rest {
                    pool.take(&mut view, &pool.jobs[*other].pieces);
                }
                pool.quota_allows(job, &rest) && pool.place(&view, job, pool.is_relaxed(job)).is_some()
            };
            let candidates = self.stoppable(job);
            let count = (1..=candidates.len()).find(|count| fits_without(self, &candidates[..*count]));
            let mut gone = candidates[..count.unwrap_or(0)].to_vec();
            for candidate in candidates[..count.unwrap_or(0)].iter().rev() {
                let fewer: Vec<usize> = gone.iter().copied().filter(|other| other != candidate).collect();
                if fits_without(self, &fewer) {
                    gone = fewer;
                }
            }
            let told = gone.len();
            let stopped = self.tell(gone);
            if told > 0 && stopped == told {
                let pieces = self.fits(job).expect("it fits once they are gone");
                self.start(job, pieces);
            } else if self.policy.scan == Scan::Strict {
                if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                    walk.over = true;
                } else {
                    walk.blocked.push(self.vc(job));
                }
            }
            return stopped > 0;
        }
        let victims = self.victims(job, &[], &[]);
        if !victims.is_empty() {
            for victim in victims {
                self.stop(victim, Stop::Preempted);
            }
            let pieces = self.fits(job).expect("it fits once they are gone");
            self.start(job, pieces);
            return true;
        }
        if self.policy.scan == Scan::Strict {
            if self.quota_allows(job, &self.in_phase(Phase::Running)) {
                walk.over = true;
            } else {
                walk.blocked.push(self.vc(job));
            }
        }
        false
    }

    pub(super) fn dismisses(&self) -> bool {
        self.cluster.limits.as_ref().is_some_and(|limits| limits.qos().iter().any(|qos| !qos.preempts.is_empty()))
    }

    fn own_qos(&self, job: usize) -> Option<&Qos> {
        let at = self.workload.qos.get(job).copied().flatten()?;
        self.cluster.limits.as_ref().map(|limits| &limits.qos()[usize::from(at)])
    }

    /// Whom a waiting job may stop, the first to go first.
    pub(super) fn stoppable(&self, job: usize) -> Vec<usize> {
        if !self.dismisses() {
            return Vec::new();
        }
        let stops = self.own_qos(job).map(|own| own.preempts.clone()).unwrap_or_default();
        let may = |other: &usize| {
            let of = self.workload.qos[*other];
            let ran = self.now - self.jobs[*other].since;
            of.is_some_and(|of| stops.contains(&of))
                && self.own_qos(*other).is_some_and(|qos| qos.stopped != Stopped::Never && ran >= qos.exempt_ms)
                && ran > 0
                && self.jobs[*other].fate.preemptions < MOST_STOPS
        };
        let mut candidates: Vec<usize> = self.in_phase(Phase::Running).into_iter().filter(may).collect();
        let priority = |other: &usize| self.own_qos(*other).map_or(0, |qos| qos.priority.min(65_535));
        candidates.sort_by_key(|other| (priority(other), self.jobs[*other].pieces.len(), *other));
        candidates
    }

    /// Tells jobs to stop; how many have.
    pub(super) fn tell(&mut self, jobs: Vec<usize>) -> usize {
        let mut stopped = 0;
        for job in jobs {
            let grace = self.own_qos(job).map_or(0, |qos| qos.grace_ms);
            if grace == 0 {
                self.stop(job, Stop::Preempted);
                stopped += 1;
            } else if self.jobs[job].stops.is_none() {
                self.jobs[job].stops = Some(self.now + grace);
            }
        }
        stopped
    }

    /// Dismisses a job that was stopped for one of another QOS: it is cancelled or waits again.
    pub(super) fn dismissed(&mut self, job: usize) {
        if self.own_qos(job).is_some_and(|qos| qos.stopped == Stopped::Cancelled) {
            self.jobs[job].phase = Phase::Over;
            self.jobs[job].fate.outcome = Outcome::Finished;
            return;
        }
        let again = self.now + self.cluster.limits.as_ref().map_or(0, Limits::requeue_ms);
        self.jobs[job].again = Some(again);
        if again > self.now {
            self.jobs[job].phase = Phase::Away;
        }
    }

    fn look_easy(&mut self, walk: &mut Walk, job: usize) {
        let Some((head, shadow, others)) = &mut walk.head else {
            match self.fits(job) {
                Some(pieces) => self.start(job, pieces),
                None => walk.head = Some(self.head(job)),
            }
            return;
        };
        self.look_beside(*head, *shadow, others, job);
    }
}
