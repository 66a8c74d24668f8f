//! Usage of accounts and QOSs, and fair share over the tree, in the plainest way: integrals over all that was ever held, and ranks by recursion.
//!
//! Worked number: see the page of `tracecast_planner::sim::limit::share`.

use std::f64::consts::LN_2;

use tracecast_planner::sim::limit::{Accounting, Algorithm, Association, Fairshare};
use tracecast_planner::sim::{Key, Limits, Weights};

use super::{Phase, Pool};

/// Excess, as a share of a limit, that is ignored: 2⁻³².
const SLACK: f64 = 2.328_306_436_538_696_3e-10;

/// Siblings are visited one after another.
struct Ranks<'t> {
    all: &'t [Association],
    usage: Vec<f64>,
    rank: usize,
    before: usize,
    factors: Vec<f64>,
}

impl Ranks<'_> {
    fn users(&self) -> usize {
        self.all.iter().filter(|of| of.is_user).count()
    }

    /// The level above, as a number of the list.
    fn above(&self, at: usize) -> usize {
        let mut up = self.all[at].parent.unwrap() as usize;
        while let (Fairshare::Parent, Some(parent)) = (self.all[up].shares, self.all[up].parent) {
            up = parent as usize;
        }
        up
    }

    fn siblings(&self, above: usize) -> Vec<usize> {
        let is_one = |at: &usize| {
            let of = &self.all[*at];
            of.parent.is_some() && self.above(*at) == above && (of.is_user || of.shares != Fairshare::Parent)
        };
        (0..self.all.len()).filter(is_one).collect()
    }

    /// S; `None` for a user with the shares of the account.
    fn share(&self, at: usize) -> Option<f64> {
        let own = |at: usize| match self.all[at].shares {
            Fairshare::Of(shares) => Some(f64::from(shares)),
            Fairshare::Parent => None,
        };
        let all: f64 = self.siblings(self.above(at)).into_iter().filter_map(own).sum();
        own(at).map(|own| if all > 0.0 { own / all } else { 0.0 })
    }

    fn level(&self, at: usize) -> f64 {
        let whole = self.usage[self.above(at)];
        let used = if whole > 0.0 { self.usage[at] / whole } else { 0.0 };
        match self.share(at) {
            None => f64::INFINITY,
            Some(0.0) => 0.0,
            Some(_) if used == 0.0 => f64::INFINITY,
            Some(share) => share / used,
        }
    }

    fn visit(&mut self, above: usize, tied: bool) {
        let mut siblings = self.siblings(above);
        siblings.sort_by_key(|at| !self.all[*at].is_user);
        siblings.sort_by_key(|at| std::cmp::Reverse(Key::new(self.level(*at))));
        for at in 0..siblings.len() {
            let level = |at: usize| Key::new(self.level(siblings[at]));
            let tied = if at == 0 { tied } else { level(at - 1) == level(at) };
            if !self.all[siblings[at]].is_user {
                self.visit(siblings[at], tied);
                continue;
            }
            if !tied {
                self.rank = self.users() - self.before;
            }
            self.factors[siblings[at]] = self.rank as f64 / self.users() as f64;
            self.before += 1;
        }
    }

    /// s and E of the classic factor.
    fn effective(&self, at: usize, root: usize) -> (f64, f64) {
        if at == root {
            return (1.0, 1.0);
        }
        let all = self.usage[root];
        let used = if all > 0.0 { self.usage[at] / all } else { 0.0 };
        let above = self.above(at);
        let (share, effective) = self.effective(above, root);
        let Some(own) = self.share(at) else { return (share, effective) };
        let none = self.siblings(above).into_iter().all(|at| self.share(at).unwrap_or(0.0) == 0.0);
        let effective = match (above == root, none) {
            (true, _) => used,
            (false, true) => effective,
            (false, false) => used + (effective - used) * own,
        };
        (share * own, effective)
    }
}

impl Pool<'_> {
    /// Spans in which the jobs of this pool have held GPUs.
    pub(super) fn all_held(&self) -> Vec<(usize, i64, i64)> {
        let of = |job: &usize| self.held(*job).into_iter().map(|(from, to, _)| (*job, from, to)).collect::<Vec<_>>();
        self.members.iter().flat_map(of).collect()
    }

    /// ∫ of what such jobs held, as it is worth at a moment, seconds × `amount`.
    ///
    /// With `reckoned`, of each to the last reckoning at or before its end.
    fn integral(
        &self,
        at: i64,
        half_life: Option<i64>,
        amount: &dyn Fn(usize) -> Option<f64>,
        reckoned: Option<&Accounting>,
    ) -> f64 {
        let mut held = self.all_held();
        held.extend(&self.held_elsewhere);
        let mut sum = 0.0;
        for (job, from, to) in held {
            let late = reckoned.map_or(0, |of| (to - of.first_ms).rem_euclid(of.period_ms));
            let to = (to - late).min(at);
            let Some(amount) = amount(job).filter(|_| to > from) else { continue };
            let seconds = (to - from) as f64 / 1000.0;
            sum += amount
                * match half_life {
                    None => seconds,
                    Some(half_life) => {
                        let h = half_life as f64 / 1000.0;
                        let gone = -(-seconds / h * LN_2).exp_m1();
                        h / LN_2 * (-((at - to) as f64 / 1000.0) / h).exp2() * gone
                    }
                };
        }
        sum
    }

    /// The factor of a job's association; `None` where shares of accounts do not count.
    pub(super) fn factor(&self, job: usize, weights: &Weights) -> Option<f64> {
        let limits = self.cluster.limits.as_ref().filter(|limits| limits.shares_by_account())?;
        if weights.fair_share == 0.0 {
            return Some(0.0);
        }
        let accounting = limits.accounting();
        let half_life = match weights.half_life_ms {
            604_800_000 => accounting.half_life_ms,
            named => Some(named),
        };
        let mut at = accounting.first_ms;
        while at > self.now {
            at -= accounting.period_ms;
        }
        while at + accounting.period_ms <= self.now {
            at += accounting.period_ms;
        }
        let all = limits.associations();
        let used = |of: usize| {
            let charge = |job: usize| {
                self.above(job).iter().any(|(at, _)| *at == of).then(|| self.workload.charge_of(job) as f64 / 1000.0)
            };
            self.integral(at, half_life, &charge, (!accounting.charges_ends).then_some(accounting))
        };
        let usage = (0..all.len()).map(used).collect();
        let mut ranks = Ranks { all, usage, rank: 0, before: 0, factors: vec![0.0; all.len()] };
        ranks.rank = ranks.users();
        let root = all.iter().position(|of| of.parent.is_none()).unwrap();
        let own = self.workload.association.get(job).copied().flatten().filter(|at| all[*at as usize].is_user);
        let Some(own) = own.map(|at| at as usize) else { return Some(0.0) };
        Some(match accounting.algorithm {
            Algorithm::Tree => {
                ranks.visit(root, false);
                ranks.factors[own]
            }
            Algorithm::Classic => {
                let (share, effective) = ranks.effective(own, root);
                if share > 0.0 { 2f64.powf(-effective / (share * f64::from(accounting.dampening))) } else { 0.0 }
            }
        })
    }

    /// Whether a job is over a limit of usage now, and whether over one that decays.
    pub(super) fn over_used(&self, job: usize) -> (bool, bool) {
        self.used_limits(job, false)
    }

    /// Whether it would be with nothing used and nothing at work.
    pub(super) fn over_used_alone(&self, job: usize) -> bool {
        self.used_limits(job, true).0
    }

    fn used_limits(&self, job: usize, alone: bool) -> (bool, bool) {
        let Some(limits) = &self.cluster.limits else { return (false, false) };
        let both = self.qos_of(job);
        let (mut over, mut decays) = (false, false);
        let mut result = |is_over: bool, half_life: Option<i64>| {
            over |= is_over;
            decays |= is_over && half_life.is_some();
        };
        let time = limits.accounting().half_life_ms;
        let first = both.iter().find_map(|(at, qos)| Some((*at, qos.used_milli?, *qos)));
        if let Some((at, most, qos)) = first {
            let half_life = time.filter(|_| !qos.keeps_usage);
            let is_its = |other: usize| self.qos_of(other).iter().any(|(of, _)| *of == at);
            result(self.over_gpu_time(job, limits, alone, half_life, most, &is_its), half_life);
        }
        let first_wall = both.iter().find_map(|(at, qos)| Some((*at, qos.used_wall_ms?, *qos)));
        if let Some((at, most, qos)) = first_wall {
            let half_life = time.filter(|_| !qos.keeps_usage);
            let is_its = |other: usize| self.qos_of(other).iter().any(|(of, _)| *of == at);
            result(self.over_wall(alone, half_life, most, &is_its), half_life);
        }
        for (at, of) in self.above(job) {
            let is_below = |other: usize| self.above(other).iter().any(|(of, _)| *of == at);
            if let Some(most) = of.used_milli.filter(|_| first.is_none()) {
                result(self.over_gpu_time(job, limits, alone, time, most, &is_below), time);
            }
            if let Some(most) = of.used_wall_ms.filter(|_| first_wall.is_none()) {
                result(self.over_wall(alone, time, most, &is_below), time);
            }
        }
        (over, decays)
    }

    fn over_gpu_time(
        &self,
        job: usize,
        limits: &Limits,
        alone: bool,
        half_life: Option<i64>,
        most: u64,
        counts: &dyn Fn(usize) -> bool,
    ) -> bool {
        let most = most as f64 / 1000.0 * 60.0;
        let gpus = |other: usize| self.shape(other).amount() as f64 / 1000.0;
        let used = if alone {
            0.0
        } else {
            self.integral(self.now, half_life, &|other| counts(other).then(|| gpus(other)), None)
        };
        let mut running = self.in_phase(Phase::Running);
        running.extend(&self.elsewhere);
        running.retain(|other| !alone && counts(*other));
        let may_take: i128 = running.into_iter().map(|other| self.may_take(other)).sum();
        let takes = self.workload.requested_ms[job]
            .filter(|_| limits.accounting().safe)
            .map(|limit| may_take as f64 / 1e6 + gpus(job) * limit as f64 / 1000.0);
        used >= most - most * SLACK || takes.is_some_and(|takes| takes > 0.0 && used + takes > most + most * SLACK)
    }

    fn over_wall(&self, alone: bool, half_life: Option<i64>, most: i64, counts: &dyn Fn(usize) -> bool) -> bool {
        let used =
            if alone { 0.0 } else { self.integral(self.now, half_life, &|other| counts(other).then_some(1.0), None) };
        used >= most as f64 / 1000.0 * (1.0 - SLACK)
    }
}
