//! Usage of tenants: decayed usage ([`Spent`]), GPU time received, and who is there.
//!
//! O(1) for a change, and O(1) for a tenant and an instant. Worked number: see [`Spent`].

use crate::spent::Spent;

/// Decayed GPU time by tenant.
#[derive(Debug)]
pub(super) struct Decayed {
    half_life_ms: Option<i64>,
    /// Tenants with a job in the pool's workload.
    tenants: f64,
    by_tenant: Vec<Spent>,
    total: Spent,
}

impl Decayed {
    /// Nothing used yet. `there` says which tenants have a job in the pool's workload.
    pub(super) fn new(there: &[bool], half_life_ms: i64) -> Self {
        Self {
            half_life_ms: Some(half_life_ms.max(1)),
            tenants: there.iter().filter(|there| **there).count() as f64,
            by_tenant: vec![Spent::default(); there.len()],
            total: Spent::default(),
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

    /// Returns the GPU time that a tenant has received, thousandths of GPU × ms.
    pub(super) fn held(&self, tenant: usize, now: i64) -> i128 {
        let of = |(received, since, held): &(i128, i64, i64)| received + i128::from(*held) * i128::from(now - since);
        self.by_tenant.get(tenant).map_or(0, of)
    }
}

/// Tenants that have a job that waits or runs.
#[derive(Debug)]
pub(super) struct Presence {
    jobs: Vec<u32>,
    tenants: u32,
    gpus: u64,
}

impl Presence {
    /// Creates an empty set of tenants.
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

    /// Sets the GPUs in service.
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
