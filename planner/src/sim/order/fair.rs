//! What tenants have had: decayed usage, GPU time received, and who is there.
//!
//! Decayed usage is kept as it was worth at the last whole half-life e: a hold of g GPUs from s to t adds
//! g·(h/ln 2)·2^((t−e)/h)·(1 − 2^(−(t−s)/h)) to a compensated sum, and at t the sum is worth 2^(−(t−e)/h) of itself. Nothing is multiplied at a
//! change but when a half-life has passed, so that a million changes round no more than one does: multiplying at each would round
//! the same way at equal steps and lose four digits. O(1) for a change, and O(1) for a tenant and an instant. Worked number: 1 GPU held
//! for one half-life of 100 s from nothing is 100/ln 2 · 0.5 = 72.13 decayed GPU-seconds.

use std::cell::Cell;
use std::f64::consts::LN_2;

use tracecast_analytics::stats::NeumaierSum;

/// Decayed GPU time by tenant.
#[derive(Debug)]
pub(super) struct Decayed {
    half_life_ms: i64,
    /// Tenants with a job in the pool's workload.
    tenants: f64,
    by_tenant: Vec<Usage>,
    total: Usage,
}

/// What was used up to a moment, and what is held from then on.
#[derive(Debug, Clone, Default)]
struct Usage {
    /// GPU-seconds used up to `since_ms`, as they are worth at `epoch_ms`.
    used: NeumaierSum,
    /// A whole number of half-lives, the last before `since_ms`.
    epoch_ms: i64,
    since_ms: i64,
    /// Thousandths of a GPU.
    held: i64,
    /// The last answer and its moment: a decision asks for each waiting job.
    answer: Cell<Option<(i64, f64)>>,
}

impl Usage {
    /// What has been used of what is held since the last change, GPU-seconds as they are worth now.
    fn recent(&self, now: i64, half_life_ms: i64) -> f64 {
        if self.held == 0 {
            return 0.0;
        }
        let half_lives = (now - self.since_ms) as f64 / half_life_ms as f64;
        // 1 − 2^(−x), without losing digits where x is small.
        let gone = -(-half_lives * LN_2).exp_m1();
        self.held as f64 / 1000.0 * (half_life_ms as f64 / 1000.0) / LN_2 * gone
    }

    fn at(&self, now: i64, half_life_ms: i64) -> f64 {
        if let Some((moment, gpu_s)) = self.answer.get()
            && moment == now
        {
            return gpu_s;
        }
        let half_lives = (now - self.epoch_ms) as f64 / half_life_ms as f64;
        let gpu_s = self.used.value() * (-half_lives).exp2() + self.recent(now, half_life_ms);
        self.answer.set(Some((now, gpu_s)));
        gpu_s
    }

    fn change(&mut self, now: i64, half_life_ms: i64, held: i64) {
        let into_ms = now.rem_euclid(half_life_ms);
        let epochs = (now - into_ms - self.epoch_ms) / half_life_ms;
        if epochs > 0 {
            // A power of two: exact.
            let kept = 0.5f64.powi(i32::try_from(epochs).unwrap_or(i32::MAX));
            self.used = std::iter::once(self.used.value() * kept).collect();
            self.epoch_ms = now - into_ms;
        }
        self.used.add(self.recent(now, half_life_ms) * (into_ms as f64 / half_life_ms as f64).exp2());
        self.since_ms = now;
        self.held += held;
        self.answer.set(None);
    }
}

impl Decayed {
    /// Nothing used yet. `there` says which tenants have a job in the pool's workload.
    pub(super) fn new(there: &[bool], half_life_ms: i64) -> Self {
        Self {
            half_life_ms: half_life_ms.max(1),
            tenants: there.iter().filter(|there| **there).count() as f64,
            by_tenant: vec![Usage::default(); there.len()],
            total: Usage::default(),
        }
    }

    /// A tenant holds `held` thousandths of a GPU more from `now`.
    pub(super) fn change(&mut self, tenant: usize, now: i64, held: i64) {
        if let Some(usage) = self.by_tenant.get_mut(tenant) {
            usage.change(now, self.half_life_ms, held);
            self.total.change(now, self.half_life_ms, held);
        }
    }

    /// Decayed usage of a tenant, GPU-seconds.
    pub(super) fn gpu_s(&self, tenant: usize, now: i64) -> f64 {
        self.by_tenant.get(tenant).map_or(0.0, |usage| usage.at(now, self.half_life_ms))
    }

    /// A tenant's part of all usage over its part of all tenants; 0 if nothing is used.
    pub(super) fn share(&self, tenant: usize, now: i64) -> f64 {
        let total = self.total.at(now, self.half_life_ms);
        if total > 0.0 { self.gpu_s(tenant, now) / total * self.tenants } else { 0.0 }
    }
}

/// GPU time received by tenant since the beginning, in whole numbers.
#[derive(Debug)]
pub(super) struct Received {
    /// Thousandths of GPU × ms at the time, the time, and thousandths held since.
    by_tenant: Vec<(i128, i64, i64)>,
}

impl Received {
    /// Nothing received yet by any of `tenants`.
    pub(super) fn new(tenants: usize) -> Self {
        Self { by_tenant: vec![(0, 0, 0); tenants] }
    }

    /// A tenant holds `held` thousandths of a GPU more from `now`.
    pub(super) fn change(&mut self, tenant: usize, now: i64, held: i64) {
        let received = self.held(tenant, now);
        if let Some(entry) = self.by_tenant.get_mut(tenant) {
            *entry = (received, now, entry.2 + held);
        }
    }

    /// What a tenant has received, thousandths of GPU × ms.
    pub(super) fn held(&self, tenant: usize, now: i64) -> i128 {
        let of = |(received, since, held): &(i128, i64, i64)| received + i128::from(*held) * i128::from(now - since);
        self.by_tenant.get(tenant).map_or(0, of)
    }
}

/// Which tenants have a job that waits or runs.
#[derive(Debug)]
pub(super) struct Presence {
    jobs: Vec<u32>,
    tenants: u32,
    gpus: u64,
}

impl Presence {
    /// No one is there yet.
    pub(super) fn new(tenants: usize) -> Self {
        Self { jobs: vec![0; tenants], tenants: 0, gpus: 1 }
    }

    /// A job of a tenant was submitted.
    pub(super) fn joined(&mut self, tenant: usize) {
        if let Some(jobs) = self.jobs.get_mut(tenant) {
            self.tenants += u32::from(*jobs == 0);
            *jobs += 1;
        }
    }

    /// A job of a tenant has ended.
    pub(super) fn left(&mut self, tenant: usize) {
        if let Some(jobs) = self.jobs.get_mut(tenant)
            && *jobs > 0
        {
            *jobs -= 1;
            self.tenants -= u32::from(*jobs == 0);
        }
    }

    /// So many GPUs are in service.
    pub(super) fn set_gpus(&mut self, gpus: u64) {
        self.gpus = gpus.max(1);
    }

    /// Tenants that are there.
    pub(super) fn tenants(&self) -> f64 {
        f64::from(self.tenants)
    }

    /// GPUs in service, at least 1.
    pub(super) fn gpus(&self) -> f64 {
        self.gpus as f64
    }
}
