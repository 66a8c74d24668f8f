//! Keys of the naive reference: each summed over all that ever ran.
//!
//! Worked number: 8 GPUs thought to run 100 s have the QSSF key 800.

use tracecast_planner::sim::{Estimate, Key, Order, Stop};

use super::{Node, Phase, Place, Pool};

impl Pool<'_> {
    pub(super) fn tenant(&self, job: usize) -> u32 {
        if self.policy.tenants_are_vcs { u32::from(self.workload.vc[job]) } else { self.workload.user[job] }
    }

    /// (start, end, thousandths of GPUs) of all that a job has held.
    pub(super) fn held(&self, job: usize) -> Vec<(i64, i64, u64)> {
        let amount = self.shape(job).amount();
        let state = &self.jobs[job];
        let past = state.fate.segments.iter().map(|(start, end, _, _)| (*start, *end, amount));
        let present = (state.phase == Phase::Running).then_some((state.since, self.now, amount));
        past.chain(present).collect()
    }

    /// Decayed GPU time of some jobs.
    pub(super) fn decayed_gpu_s(&self, is_of: impl Fn(usize) -> bool, half_life_ms: i64) -> f64 {
        let half_life = half_life_ms as f64 / 1000.0;
        let mut sum = 0.0;
        for job in &self.members {
            if !is_of(*job) {
                continue;
            }
            for (start, end, amount) in self.held(*job) {
                let age = |at: i64| (self.now - at) as f64 / 1000.0;
                // 2^(−age(end)/h) − 2^(−age(start)/h), without losing digits where the job was held for a short time.
                let held = (end - start) as f64 / 1000.0;
                let gone = -(-held / half_life * std::f64::consts::LN_2).exp_m1();
                let integral = half_life / std::f64::consts::LN_2 * (-age(end) / half_life).exp2() * gone;
                sum += amount as f64 / 1000.0 * integral;
            }
        }
        sum
    }

    pub(super) fn key(&self, job: usize) -> Key {
        let gpus = self.shape(job).as_gpus();
        let submit = self.workload.submit_ms[job];
        let wait = (self.now - submit) as f64 / 1000.0;
        let estimate = self.estimate(job);
        let seconds = (estimate as f64 / 1000.0).max(1.0);
        let state = &self.jobs[job];
        let (mut done, mut owed) = (state.done, state.owed);
        if state.phase == Phase::Running {
            let held = self.now - state.since;
            let paid = held.min(owed);
            done += held - paid;
            owed -= paid;
        }
        let attained: u64 = self.held(job).iter().map(|(start, end, amount)| (end - start) as u64 * amount).sum();
        let most_gpus: usize = self.sizes.iter().sum();
        match &self.policy.order {
            Order::Fifo => Key(submit),
            Order::FewestGpus => Key(self.shape(job).amount() as i64),
            Order::Sjf => Key(estimate),
            Order::Ljf => Key(-estimate),
            Order::Srtf => Key((estimate - done + owed).max(0)),
            Order::Qssf => {
                let predicted = self.workload.predicted_s[job].filter(|_| self.policy.estimate == Estimate::Predicted);
                Key::exact(predicted.unwrap_or(estimate as f64 / 1000.0) * gpus)
            }
            Order::Aged(tau) => Key::new(*tau as f64 / 1000.0 * (seconds * gpus).ln() + submit as f64 / 1000.0),
            Order::Alike(share) => {
                let waited = self.members.iter().filter(|other| self.waited_until_now(**other));
                let first = waited.map(|other| self.workload.submit_ms[*other]).min();
                let longest = first.map_or(0, |first| self.now - first) as f64 / 1000.0;
                let (mut weight, mut sum) = (1.0, seconds.ln());
                for other in self.members.iter().filter(|other| **other != job) {
                    let of = |at: usize| (self.workload.vc[at], self.workload.user[at], self.shape(at).amount());
                    let apart = (self.workload.submit_ms[*other] - submit).abs() as f64 / 60_000.0;
                    let guessed = self.policy.estimate != Estimate::True;
                    if guessed && of(*other) == of(job) && apart < 30.0 && self.has_done_its_work(*other) {
                        let ran = self.workload.run_ms[*other] as f64 / 1000.0;
                        let before = self.workload.warm.iter().find(|warm| warm.job as usize == *other);
                        let ran = ran - before.map_or(0.0, |warm| warm.start_ms as f64 / 1000.0);
                        weight += 1.0 - apart / 30.0;
                        sum += (1.0 - apart / 30.0) * ran.max(1.0).ln();
                    }
                }
                let work = sum / weight + gpus.ln();
                Key::new(share * longest * work + submit as f64 / 1000.0)
            }
            Order::Las => Key(attained as i64),
            Order::Tiresias(bounds) => {
                Key(bounds.iter().filter(|bound| attained as f64 / 1e6 > **bound).count() as i64)
            }
            Order::Gittins => Key::new(-self.gittins(attained as f64 / 1e6)),
            Order::Wfp3 => Key::new(-(wait / seconds) * (wait / seconds) * (wait / seconds) * gpus),
            Order::F1 => {
                let at = (submit as f64 / 1000.0).max(1.0);
                Key::new(seconds.log10() * gpus + 870.0 * at.log10())
            }
            Order::Unicef => Key::new(-wait / ((1.0 + gpus).log2() * seconds)),
            Order::Multifactor(own) => {
                let weights = &self.cluster.limits.as_ref().map_or(*own, |limits| limits.weights(own));
                let total = self.decayed_gpu_s(|_| true, weights.half_life_ms);
                let mut tenants: Vec<u32> = self.members.iter().map(|job| self.tenant(*job)).collect();
                tenants.sort_unstable();
                tenants.dedup();
                let used = self.decayed_gpu_s(|other| self.tenant(other) == self.tenant(job), weights.half_life_ms);
                let share = if total > 0.0 { used / total * tenants.len() as f64 } else { 0.0 };
                let share = self.factor(job, weights).unwrap_or_else(|| 2f64.powf(-share));
                let part = gpus / most_gpus as f64;
                let size = if weights.favor_small { 1.0 - part } else { part };
                let since = state.again.unwrap_or(submit);
                let age = ((self.now - since) as f64 / weights.max_age_ms as f64).min(1.0);
                let limits = self.cluster.limits.as_ref();
                let priority = |at: u16| limits.map_or(0, |limits| limits.qos()[usize::from(at)].priority);
                let qos = f64::from(self.workload.qos.get(job).copied().flatten().map_or(0, priority));
                let most = limits.and_then(|limits| limits.qos().iter().map(|qos| qos.priority).max()).unwrap_or(0);
                let qos = weights.qos * if most > 0 { qos / f64::from(most) } else { 0.0 };
                Key::new(-(weights.age * age + weights.fair_share * share + weights.size * size + qos))
            }
            Order::FairShare(half_life) => {
                Key::new(self.decayed_gpu_s(|other| self.tenant(other) == self.tenant(job), *half_life))
            }
            Order::LongTerm => {
                let of_tenant = self.members.iter().filter(|other| self.tenant(**other) == self.tenant(job));
                Key(of_tenant
                    .flat_map(|job| self.held(*job))
                    .map(|(start, end, amount)| (end - start) * amount as i64)
                    .sum())
            }
            Order::FinishTime => {
                let present = |phase| self.in_phase(phase);
                let mut tenants: Vec<u32> = present(Phase::Waiting)
                    .into_iter()
                    .chain(present(Phase::Away))
                    .chain(present(Phase::Running))
                    .map(|job| self.tenant(job))
                    .collect();
                tenants.sort_unstable();
                tenants.dedup();
                let there = |node: &Node| node.place != Place::Away && node.failures == 0;
                let in_service: usize =
                    self.nodes.iter().zip(&self.sizes).filter(|(node, _)| there(node)).map(|(_, size)| *size).sum();
                let left = ((estimate - done) as f64 / 1000.0).max(0.0);
                let crowding = (gpus * tenants.len() as f64 / in_service.max(1) as f64).max(1.0);
                Key::new(-(wait + left) / ((estimate as f64 / 1000.0).max(0.001) * crowding))
            }
            Order::Score => Key::exact(self.workload.score[job]),
        }
    }

    /// Whether a job that was submitted neither ran nor had ended just before this moment. One that was to run when the replay began does not count before it has run there.
    fn waited_until_now(&self, job: usize) -> bool {
        let (state, now) = (&self.jobs[job], self.now);
        let segments = &state.fate.segments;
        let warm = self.workload.warm.iter().any(|warm| warm.job as usize == job) && segments.is_empty();
        let ran = state.phase == Phase::Running && state.since < now;
        let ran = ran || segments.iter().any(|(start, end, _, _)| *start < now && *end >= now);
        let over = state.phase == Phase::Over && segments.last().is_none_or(|(_, end, _, _)| *end < now);
        state.phase != Phase::Future && !warm && !ran && !over
    }

    fn has_done_its_work(&self, job: usize) -> bool {
        self.jobs[job].fate.segments.last().is_some_and(|(_, _, stop, _)| *stop == Stop::Done)
    }

    pub(super) fn gittins(&self, attained: f64) -> f64 {
        let mut history = self.workload.history_gpu_s.clone();
        history.sort_by(f64::total_cmp);
        if history.len() > 1000 {
            history = (0..1000).map(|i| history[i * history.len() / 1000]).collect();
        }
        let grid = std::iter::once(0.0).chain((0..=250).map(|k| 1.1f64.powi(k)));
        let age = grid.take_while(|age| *age <= attained).last().unwrap();
        let above: Vec<f64> = history.into_iter().filter(|value| *value > age).collect();
        let index = |k: usize| {
            let spent: f64 = above[..k].iter().map(|value| value - age).sum();
            k as f64 / (spent + (above.len() - k) as f64 * (above[k - 1] - age))
        };
        (1..=above.len()).map(index).fold(0.0, f64::max)
    }

    /// Guarantee of a VC now.
    pub(super) fn guarantee(&self, vc: usize) -> Option<u64> {
        let guarantees = &self.cluster.vcs[vc].guarantee_milli;
        guarantees.iter().rev().find(|(from, _)| *from <= self.now).or(guarantees.first()).map(|(_, amount)| *amount)
    }

    /// Whether a VC of this pool has a guarantee.
    pub(super) fn guaranteed(&self) -> bool {
        self.has_cells()
            || self.cluster.vcs.iter().any(|vc| usize::from(vc.pool) == self.pool && !vc.guarantee_milli.is_empty())
    }

    /// Waiting jobs within their VC's guarantee, and the others.
    pub(super) fn bands(&self) -> (Vec<usize>, Vec<usize>) {
        let order = self.sorted(self.in_phase(Phase::Waiting));
        let within = |at: usize| {
            let vc = self.vc(order[at]);
            let asked = self.used(vc, &self.in_phase(Phase::Running)) + self.used(vc, &order[..=at]);
            self.guarantee(vc).is_some_and(|guarantee| asked <= guarantee)
        };
        let of = |wanted: bool| (0..order.len()).filter(|at| within(*at) == wanted).map(|at| order[at]).collect();
        (of(true), of(false))
    }

    /// Running jobs beyond their VC's guarantee that have done something since they started, in order of start.
    pub(super) fn borrowers(&self) -> Vec<usize> {
        let mut running = self.in_phase(Phase::Running);
        running.sort_by_key(|job| (self.jobs[*job].since, *job));
        let borrows = |at: usize| {
            let vc = self.vc(running[at]);
            self.used(vc, &running[..=at]) > self.guarantee(vc).unwrap_or(0)
        };
        let progressed = |job: usize| self.now - self.jobs[job].since > self.jobs[job].owed;
        (0..running.len()).filter(|at| borrows(*at) && progressed(running[*at])).map(|at| running[at]).collect()
    }

    /// Waiting jobs, those within their VC's guarantee first.
    pub(super) fn queue(&self) -> Vec<usize> {
        let (within, beyond) = self.bands();
        [within, beyond].concat()
    }

    pub(super) fn sorted(&self, jobs: Vec<usize>) -> Vec<usize> {
        let mut keyed: Vec<_> =
            jobs.into_iter().map(|job| (self.key(job), self.workload.submit_ms[job], job)).collect();
        keyed.sort();
        keyed.into_iter().map(|(_, _, job)| job).collect()
    }
}
