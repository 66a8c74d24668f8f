//! What tenants have had: decayed usage, GPU time received, and who is there.
//!
//! Decayed usage has a closed form between changes: with u at the last change and g GPUs held since, after t seconds it is
//! u·2^(−t/h) + g·(h/ln 2)·(1 − 2^(−t/h)). O(1) for a change. Worked number: 1 GPU held for one half-life of 100 s from nothing is
//! 100/ln 2 · 0.5 = 72.13 decayed GPU-seconds.

use std::f64::consts::LN_2;

/// Decayed GPU time by tenant.
#[derive(Debug)]
pub(super) struct Decayed {
    half_life_s: f64,
    /// Tenants with a job in the pool's workload.
    tenants: f64,
    by_tenant: Vec<Usage>,
    total: Usage,
}

/// Usage at `since_ms`, and what is held from then on, thousandths of a GPU.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    gpu_s: f64,
    since_ms: i64,
    held: i64,
}

impl Usage {
    fn at(self, now: i64, half_life_s: f64) -> f64 {
        let elapsed_s = (now - self.since_ms) as f64 / 1000.0;
        let kept = (-elapsed_s / half_life_s).exp2();
        // 1 − 2^(−x), without losing digits where x is small.
        let gone = -(-elapsed_s / half_life_s * LN_2).exp_m1();
        self.gpu_s * kept + self.held as f64 / 1000.0 * half_life_s / LN_2 * gone
    }

    fn change(&mut self, now: i64, half_life_s: f64, held: i64) {
        self.gpu_s = self.at(now, half_life_s);
        self.since_ms = now;
        self.held += held;
    }
}

impl Decayed {
    /// Nothing used yet. `there` says which tenants have a job in the pool's workload.
    pub(super) fn new(there: &[bool], half_life_ms: i64) -> Self {
        Self {
            half_life_s: half_life_ms.max(1) as f64 / 1000.0,
            tenants: there.iter().filter(|there| **there).count() as f64,
            by_tenant: vec![Usage::default(); there.len()],
            total: Usage::default(),
        }
    }

    /// A tenant holds `held` thousandths of a GPU more from `now`.
    pub(super) fn change(&mut self, tenant: usize, now: i64, held: i64) {
        if let Some(usage) = self.by_tenant.get_mut(tenant) {
            usage.change(now, self.half_life_s, held);
            self.total.change(now, self.half_life_s, held);
        }
    }

    /// Decayed usage of a tenant, GPU-seconds.
    pub(super) fn gpu_s(&self, tenant: usize, now: i64) -> f64 {
        self.by_tenant.get(tenant).map_or(0.0, |usage| usage.at(now, self.half_life_s))
    }

    /// A tenant's part of all usage over its part of all tenants; 0 if nothing is used.
    pub(super) fn share(&self, tenant: usize, now: i64) -> f64 {
        let total = self.total.at(now, self.half_life_s);
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
