//! Sort keys of jobs under each order, lowest first.
//!
//! *n* is the job's GPUs ([`Shape::as_gpus`](super::Shape::as_gpus)), *d* its estimate in seconds, at least 1 s where it divides or its
//! logarithm is taken (but in `FinishTime`, which says so); *w* the time since its submission in seconds; *t* now. *Attained* is the GPU time a job has held, thousandths of
//! GPU × milliseconds, all its segments together, to now. A *tenant* is a user, or a VC if
//! [`Policy::tenants_are_vcs`](super::Policy::tenants_are_vcs); fairness is within a pool. Keys marked *whole* are whole numbers, those
//! marked *exact* count to the last bit ([`Key::exact`](super::Key::exact)); the others go through
//! [`Key::new`](super::Key::new).
//!
//! | order | key | |
//! |---|---|---|
//! | `Fifo` | submit time, ms | whole |
//! | `FewestGpus` | what it asks for, thousandths of a GPU | whole |
//! | `Sjf`, `Ljf` | ± estimate, ms | whole |
//! | `Srtf` | estimate − run done so far + cost of preemptions still to be paid, ms, at least 0 | whole |
//! | `Qssf` | estimate in seconds × n, a prediction unrounded | exact |
//! | `Aged(τ)` | τ·ln(d·n) + submit time, both in seconds | |
//! | `Alike(c)` | c·a·ln(r·n) + submit time, in seconds | |
//! | `Las` | attained | whole |
//! | `Tiresias(bounds)` | number of bounds (GPU-seconds) that attained (GPU-seconds) exceeds | whole |
//! | `Gittins` | − Gittins index at attained | |
//! | `Wfp3` | −(w/d)³·n | |
//! | `F1` | log₁₀(d)·n + 870·log₁₀(max(submit time from the origin in s, 1)) | |
//! | `Unicef` | −w / (log₂(1+n)·d) | |
//! | `Multifactor` | −(age·min(w/max_age, 1) + fair_share·2^(−U/S) + size·z + qos·p) | |
//! | `FairShare(h)` | decayed GPU time of the tenant | |
//! | `LongTerm` | GPU time the tenant's jobs have held in the pool, to now, thousandths of GPU × ms | whole |
//! | `FinishTime` | −(w + d′) / (max(d, 0.001) · max(1, n·N/G)) | |
//! | `Score` | the score | exact |
//!
//! Ties go to the earlier submission, then the lower index; that is how `Tiresias` is FIFO within a queue.
//!
//! * Nothing before time 0 counts: a job that runs when the replay begins has attained and done nothing yet, and its tenant has had
//!   nothing. A whole key beyond 2⁶³ − 1 is that.
//! * **Run done so far** is the time a job has run usefully (time that repaid the cost of a preemption, and time lost with a
//!   failed node, are not in it).
//! * **Decayed GPU time** of a tenant at t is ∫ g(s)·2^(−(t−s)/h) ds in GPU-seconds, g(s) the GPUs its jobs held in the pool at s. A half-life,
//!   and a maximal age, is at least 1 ms.
//! * **Multifactor**: U is the tenant's decayed GPU time (half-life [`Weights::half_life_ms`](super::Weights)) as a share of all
//!   tenants' in the pool, 0 if that is 0; S is 1 / the number of tenants with a job in the pool's workload, one that is rejected too; z is n/G, or 1 − n/G if
//!   small jobs are favoured; G is the most GPUs the pool ever has; p is the priority of the job's QOS over the greatest of all QOSs, 0 without limits. Where shares of accounts
//!   count ([`Limits::shares_by_account`](super::Limits::shares_by_account)), the factor of the job's association ([`super::limit::share`]) stands in the place of 2^(−U/S). An order whose weights are all 0 has those of the limits, if these have any.
//! * **Finish time**: d′ is the estimate less the run done (at least 0), N the tenants with a job that runs or waits in the pool now
//!   (including one that has just been submitted, but not one that was rejected), G the GPUs of the pool's nodes in service now, draining ones included, at least 1.
//! * **Gittins**: with the history's GPU times x₁ ≤ … ≤ x_m (GPU-seconds; if there are more than 1,000, the 1,000 at indices
//!   ⌊i·m/1000⌋), the index at attained a is max over k of k / (Σ_{i≤k}(xᵢ−a) + (m′−k)(x_k−a)) over the m′ values above a, counted from the
//!   lowest; 0 if none is above. It is tabulated at a = 0 and 1.1^k GPU-seconds (k = 0, 1, … 250) in double precision; between two of these
//!   the lower counts. Values that are not finite do not. The index is the history's to the letter: just below a value it is high, the more so
//!   the fewer values are near, so for a smooth law it scatters upwards from one point of the table to the next.
//! * `Unicef` has log₂(1+n) where the published score has log₂(n), which is zero for one GPU.
//!
//! * **Alike**: r is the expected run in seconds, from the estimate (at least 1 s) and the runs of jobs alike that have ended (module `alike`), or the estimate where that is the true run; a is for how long that job has waited which was submitted first, of those of the pool that waited until now (one that was to run when the replay began, once it has run there). So it is `Aged` with a τ that goes with
//!   the queue: with c = 1 and one that waits for 10 h, a job e times as long counts as if submitted 10 h later.
//! * **Aged**: with τ = 0 it is `Fifo`, the longer τ the nearer to `Qssf`. No job is overtaken by one submitted more than τ·ln(longest / shortest) after it.
//!
//! Sources: QSSF: Hu et al., SC 2021. Tiresias and its Gittins index: Gu et al., NSDI 2019. WFP3 and UNICEF: Tang et al., CLUSTER 2009.
//! F1: Carastan-Santos and de Camargo, SC 2017. Multifactor: Slurm's priority plugin. Long-term fairness: Astraea (Ye et al., TPDS 2021).
//! Finish-time fairness: Themis (Mahajan et al., NSDI 2020).
//!
//! Worked numbers: 8 GPUs predicted for 100 s have the QSSF key 800, before 1 GPU predicted for 900 s. A job of 4 GPUs that has run for
//! 1,000 s has attained 4,000 GPU-seconds and stands in the second of the Tiresias queues bounded at 3,250, 7,200 and 18,000.

mod alike;
mod attained;
mod fair;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use alike::Alike;
use attained::{Gittins, queue_of};
use fair::{Decayed, Presence, Received};

use super::key::Key;
use super::limit::Limits;
use super::policy::{Estimate, Order, Policy};
use super::workload::{Shape, Workload};

/// Progress of a job that the engine knows at a moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Useful run done so far, milliseconds.
    pub(crate) done_ms: i64,
    /// Cost of preemptions still to be paid, milliseconds.
    pub(crate) owed_ms: i64,
    /// GPU time held so far, thousandths of GPU × milliseconds.
    pub(crate) attained: u64,
    /// The fair-share factor of its association, where shares of accounts count.
    pub(crate) factor: Option<f64>,
}

/// Milliseconds in a second.
const SECOND: f64 = 1000.0;
/// Thousandths of GPU × milliseconds in a GPU-second.
const GPU_SECOND: f64 = 1e6;

/// Memory of an order for a pool.
#[derive(Debug)]
enum Memory {
    Nothing,
    Alike(Alike),
    Gittins(Gittins),
    Decayed(Decayed),
    Received(Received),
    Presence(Presence),
}

/// The keys of the jobs of one pool.
#[derive(Debug)]
pub(crate) struct Keys<'a> {
    workload: &'a Workload,
    policy: &'a Policy,
    limits: Option<&'a Limits>,
    /// Jobs that were stopped for those of another QOS, and since when they may start again.
    renewed: BTreeMap<u32, i64>,
    most_gpus: f64,
    memory: Memory,
}

impl<'a> Keys<'a> {
    /// Creates the keys of `jobs`, in a pool that has `most_gpus` GPUs at most. O(jobs) where the
    /// order needs tenants.
    pub(crate) fn new(workload: &'a Workload, policy: &'a Policy, jobs: &[u32], most_gpus: u64) -> Self {
        let tenants = || {
            let count = if policy.tenants_are_vcs {
                workload.vc.iter().map(|vc| usize::from(*vc) + 1).max().unwrap_or(0)
            } else {
                workload.users.len()
            };
            let mut there = vec![false; count];
            for job in jobs {
                if let Some(there) = there.get_mut(tenant(workload, policy, *job)) {
                    *there = true;
                }
            }
            there
        };
        let memory = match &policy.order {
            Order::Alike(_) => Memory::Alike(Alike::new(workload, jobs)),
            Order::Gittins => Memory::Gittins(Gittins::new(&workload.history_gpu_s)),
            Order::Multifactor(weights) if weights.fair_share != 0.0 => {
                Memory::Decayed(Decayed::new(&tenants(), weights.half_life_ms))
            }
            Order::FairShare(half_life_ms) => Memory::Decayed(Decayed::new(&tenants(), *half_life_ms)),
            Order::LongTerm => Memory::Received(Received::new(tenants().len())),
            Order::FinishTime => Memory::Presence(Presence::new(tenants().len())),
            _ => Memory::Nothing,
        };
        Self { workload, policy, limits: None, renewed: BTreeMap::new(), most_gpus: most_gpus as f64, memory }
    }

    /// Adds the priorities of QOSs.
    pub(crate) fn with_limits(self, limits: Option<&'a Limits>) -> Self {
        Self { limits, ..self }
    }

    fn shape(&self, job: u32) -> Shape {
        let at = self.workload.shape.get(job as usize).copied().unwrap_or(0);
        self.workload.shapes.get(usize::from(at)).copied().unwrap_or_default()
    }

    fn submit_ms(&self, job: u32) -> i64 {
        self.workload.submit_ms.get(job as usize).copied().unwrap_or(0)
    }

    fn estimate_ms(&self, job: u32) -> i64 {
        self.policy.estimate_ms(self.workload, job as usize)
    }

    /// The estimate in seconds, at least 1.
    fn estimate_s(&self, job: u32) -> f64 {
        (self.estimate_ms(job) as f64 / SECOND).max(1.0)
    }

    /// The key of a job whose order is fixed ([`Order::is_fixed`]); 0 under any other.
    pub(crate) fn fixed(&self, job: u32) -> Key {
        match self.policy.order {
            Order::Fifo => Key(self.submit_ms(job)),
            Order::FewestGpus => Key(i64::try_from(self.shape(job).amount()).unwrap_or(i64::MAX)),
            Order::Sjf => Key(self.estimate_ms(job)),
            Order::Ljf => Key(-self.estimate_ms(job)),
            Order::Qssf => {
                let predicted_s = self.workload.predicted_s.get(job as usize).copied().flatten();
                let known_s = match self.policy.estimate {
                    Estimate::Predicted => predicted_s.unwrap_or_else(|| self.estimate_ms(job) as f64 / SECOND),
                    Estimate::True | Estimate::Requested => self.estimate_ms(job) as f64 / SECOND,
                };
                Key::exact(known_s * self.shape(job).as_gpus())
            }
            Order::Aged(tau_ms) => {
                let work = self.estimate_s(job) * self.shape(job).as_gpus();
                Key::new(tau_ms as f64 / SECOND * work.ln() + self.submit_ms(job) as f64 / SECOND)
            }
            Order::F1 => {
                let submit_s = (self.submit_ms(job) as f64 / SECOND).max(1.0);
                Key::new(self.estimate_s(job).log10() * self.shape(job).as_gpus() + 870.0 * submit_s.log10())
            }
            Order::Score => Key::exact(self.workload.score.get(job as usize).copied().unwrap_or(f64::NAN)),
            _ => Key(0),
        }
    }

    /// The key of a job now, under any order.
    pub(crate) fn at(&self, job: u32, now: i64, progress: &Progress) -> Key {
        let gpus = self.shape(job).as_gpus();
        let wait_s = (now - self.submit_ms(job)) as f64 / SECOND;
        match (&self.policy.order, &self.memory) {
            (Order::Srtf, _) => Key((self.estimate_ms(job).saturating_sub(progress.done_ms) + progress.owed_ms).max(0)),
            (Order::Las, _) => Key(i64::try_from(progress.attained).unwrap_or(i64::MAX)),
            (Order::Tiresias(bounds), _) => Key(queue_of(bounds, progress.attained as f64 / GPU_SECOND)),
            (Order::Gittins, Memory::Gittins(law)) => Key::new(-law.index(progress.attained as f64 / GPU_SECOND)),
            (Order::Alike(share), Memory::Alike(alike)) => {
                let ln_estimate = self.estimate_s(job).ln();
                let known = self.policy.estimate == Estimate::True;
                let ln_run = if known { ln_estimate } else { alike.expected(job, ln_estimate) };
                let ln_work = ln_run + gpus.ln();
                let ageing_s = share * alike.longest_wait_ms(now) as f64 / SECOND;
                Key::new(ageing_s * ln_work + self.submit_ms(job) as f64 / SECOND)
            }
            (Order::Wfp3, _) => Key::new(-(wait_s / self.estimate_s(job)).powi(3) * gpus),
            (Order::Unicef, _) => Key::new(-wait_s / ((1.0 + gpus).log2() * self.estimate_s(job))),
            (Order::Multifactor(weights), memory) => {
                let since_ms = self.renewed.get(&job).copied().unwrap_or_else(|| self.submit_ms(job));
                let wait_s = (now - since_ms) as f64 / SECOND;
                let age = (wait_s * SECOND / weights.max_age_ms.max(1) as f64).min(1.0);
                let share = match (progress.factor, memory) {
                    (Some(factor), _) => factor,
                    (None, Memory::Decayed(usage)) => {
                        (-usage.share(tenant(self.workload, self.policy, job), now)).exp2()
                    }
                    _ => 1.0,
                };
                let part = gpus / self.most_gpus.max(1.0);
                let size = if weights.favor_small { 1.0 - part } else { part };
                let qos = match self.limits {
                    Some(limits) => weights.qos * limits.priority_share(self.workload, job as usize),
                    None => 0.0,
                };
                Key::new(-(weights.age * age + weights.fair_share * share + weights.size * size + qos))
            }
            (Order::FairShare(_), Memory::Decayed(usage)) => {
                Key::new(usage.gpu_s(tenant(self.workload, self.policy, job), now))
            }
            (Order::LongTerm, Memory::Received(received)) => {
                let held = received.held(tenant(self.workload, self.policy, job), now);
                Key(i64::try_from(held).unwrap_or(i64::MAX))
            }
            (Order::FinishTime, Memory::Presence(presence)) => {
                let estimate_s = self.estimate_ms(job) as f64 / SECOND;
                let left_s = (estimate_s - progress.done_ms as f64 / SECOND).max(0.0);
                let crowding = (gpus * presence.tenants() / presence.gpus()).max(1.0);
                Key::new(-(wait_s + left_s) / (estimate_s.max(0.001) * crowding))
            }
            _ => self.fixed(job),
        }
    }

    /// A job that was stopped may start again from `at` on: its age counts from then.
    pub(crate) fn renewed(&mut self, job: u32, at: i64) {
        self.renewed.insert(job, at);
    }

    /// A job was submitted, and is looked at from `now` on.
    pub(crate) fn submitted(&mut self, job: u32, now: i64) {
        match &mut self.memory {
            Memory::Presence(presence) => presence.joined(tenant(self.workload, self.policy, job)),
            Memory::Alike(alike) => alike.submitted(job, now),
            _ => {}
        }
    }

    /// A job holds its GPUs from `now`.
    pub(crate) fn started(&mut self, job: u32, now: i64) {
        self.hold(job, now, true);
    }

    /// A job holds no GPU from `now`.
    pub(crate) fn stopped(&mut self, job: u32, now: i64) {
        self.hold(job, now, false);
    }

    fn hold(&mut self, job: u32, now: i64, more: bool) {
        let amount = self.shape(job).amount() as i64;
        let change = if more { amount } else { -amount };
        let tenant = tenant(self.workload, self.policy, job);
        match &mut self.memory {
            Memory::Decayed(usage) => usage.change(tenant, now, change),
            Memory::Received(received) => received.change(tenant, now, change),
            Memory::Alike(alike) => alike.wait(job, now, !more),
            _ => {}
        }
    }

    /// A job has done its work, so that its run is known.
    pub(crate) fn finished(&mut self, job: u32) {
        if let Memory::Alike(alike) = &mut self.memory {
            alike.finished(job);
        }
    }

    /// A job has ended.
    pub(crate) fn left(&mut self, job: u32) {
        match &mut self.memory {
            Memory::Presence(presence) => presence.left(tenant(self.workload, self.policy, job)),
            Memory::Alike(alike) => alike.left(job),
            _ => {}
        }
    }

    /// Sets the GPUs in service from now on.
    pub(crate) fn in_service(&mut self, gpus: u64) {
        if let Memory::Presence(presence) = &mut self.memory {
            presence.set_gpus(gpus);
        }
    }
}

/// Returns the tenant of a job.
fn tenant(workload: &Workload, policy: &Policy, job: u32) -> usize {
    let at = job as usize;
    if policy.tenants_are_vcs {
        workload.vc.get(at).map_or(0, |vc| usize::from(*vc))
    } else {
        workload.user.get(at).map_or(0, |user| *user as usize)
    }
}
