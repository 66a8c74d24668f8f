//! Queueing theory: waits, and the servers that a load needs.
//!
//! A cross-check of the replays, and the rule of thumb that they are held against. Jobs come at a rate λ and hold one of `k` servers for 1/μ on
//! average; the **load** is a = λ/μ servers, and ca², cs² are the squared coefficients of variation of the gaps between jobs and of their runs.
//!
//! ```text
//! Erlang B          B(0, a) = 1,  B(k, a) = a·B(k−1, a) / (k + a·B(k−1, a))
//! Erlang C          C(k, a) = k·B(k, a) / (k − a·(1 − B(k, a)))             the share of jobs that wait
//! M/M/k             mean wait C / (kμ − λ);  P(wait > t) = C·exp(−(kμ − λ)·t)
//! Allen-Cunneen     the waits of M/M/k times (ca² + cs²) / 2
//! M/G/1             mean wait λ·E[S²] / (2·(1 − ρ))                         Pollaczek and Khinchine
//! square root       k = a + β·√a, with the share α that waits 1 / (1 + β·Φ(β)/φ(β))   Halfin and Whitt
//! pooling           mean wait of the jobs of separate queues, each with its servers, over that of one queue with all of them
//! ```
//!
//! **Gangs**: a job of `n` GPUs that runs `d` counts as one server of ḡ = E[n·d] / E\[d\] GPUs, so that the load over the servers, a / (GPUs / ḡ), is that
//! of the GPUs. The theory knows no bursts, days and nights, nor GPUs that are left over beside a gang, all of which lengthen waits.
//!
//! O(k) for an Erlang formula. Worked number: two servers and a load of one: B = 1/5, C = 1/3, and with runs of 1 h jobs wait 20 min on average.
//!
//! Sources: Erlang (1917); Allen, "Probability, Statistics and Queueing Theory" (1990); Halfin and Whitt, Operations Research 29 (1981).

use statrs::distribution::{Continuous as _, ContinuousCDF as _, Normal};

/// Most servers that are looked for.
const MOST_SERVERS: u32 = 10_000_000;

/// Erlang B: the share of jobs that `servers` servers under a load turn away, if none may wait. O(servers).
pub fn erlang_b(servers: u32, load: f64) -> f64 {
    (1..=servers).fold(1.0, |lost, k| load * lost / (f64::from(k) + load * lost))
}

/// Erlang C: the share of jobs that wait for one of `servers` servers under a load; 1 where the load is at least the servers. O(servers).
pub fn erlang_c(servers: u32, load: f64) -> f64 {
    waits(servers, load, erlang_b(servers, load))
}

/// Erlang C from Erlang B.
fn waits(servers: u32, load: f64, lost: f64) -> f64 {
    let k = f64::from(servers);
    if load >= k { 1.0 } else { k * lost / (k - load * (1.0 - lost)) }
}

/// Jobs as queueing theory sees them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Jobs a second, λ.
    pub rate: f64,
    /// Mean run, seconds, 1/μ.
    pub mean_run_s: f64,
    /// Squared coefficient of variation of the time between jobs: 1 for Poisson arrivals.
    pub arrival_scv: f64,
    /// Squared coefficient of variation of run times: 1 for exponential ones.
    pub run_scv: f64,
}

impl Traffic {
    /// Poisson arrivals and exponential runs.
    pub fn poisson(rate: f64, mean_run_s: f64) -> Self {
        Self { rate, mean_run_s, arrival_scv: 1.0, run_scv: 1.0 }
    }

    /// Servers in use on average if there were enough.
    pub fn load(&self) -> f64 {
        self.rate * self.mean_run_s
    }

    /// Factor by which Allen and Cunneen multiply the waits of M/M/k.
    pub fn variability(&self) -> f64 {
        f64::midpoint(self.arrival_scv, self.run_scv)
    }

    /// Mean wait for one of `servers` servers, seconds, by Allen and Cunneen; `None` where the load is at least the servers.
    pub fn mean_wait_s(&self, servers: u32) -> Option<f64> {
        let spare = f64::from(servers) - self.load();
        (spare > 0.0).then(|| erlang_c(servers, self.load()) * self.mean_run_s / spare * self.variability())
    }

    /// The share of jobs that wait longer than `wait_s`: exponential beyond Erlang C, with Allen and Cunneen's mean.
    pub fn longer_than(&self, servers: u32, wait_s: f64) -> f64 {
        self.beyond(servers, wait_s, erlang_b(servers, self.load()))
    }

    fn beyond(&self, servers: u32, wait_s: f64, lost: f64) -> f64 {
        let spare = f64::from(servers) - self.load();
        if spare <= 0.0 {
            return 1.0;
        }
        let mean_s = self.mean_run_s / spare * self.variability();
        let tail = if mean_s > 0.0 { (-wait_s / mean_s).exp() } else { 0.0 };
        waits(servers, self.load(), lost) * tail
    }

    /// Fewest servers with which at most `share` of the jobs wait longer than `wait_s`; `None` if ten million are too few. O(servers).
    pub fn servers_for(&self, wait_s: f64, share: f64) -> Option<u32> {
        let load = self.load();
        let mut lost = 1.0;
        for servers in 1..=MOST_SERVERS {
            lost = load * lost / (f64::from(servers) + load * lost);
            if f64::from(servers) > load && self.beyond(servers, wait_s, lost) <= share {
                return Some(servers);
            }
        }
        None
    }
}

/// Mean wait of M/G/1, seconds, by Pollaczek and Khinchine: runs with this mean and squared coefficient of variation; `None` where the load is 1 or more.
pub fn pollaczek_khinchine_s(rate: f64, mean_run_s: f64, run_scv: f64) -> Option<f64> {
    let load = rate * mean_run_s;
    // E[S²] = mean² · (1 + cs²).
    (load < 1.0).then(|| load * mean_run_s * (1.0 + run_scv) / (2.0 * (1.0 - load)))
}

/// The share of jobs that wait with β√a servers beyond the load, in the limit of many servers.
pub fn halfin_whitt(beta: f64) -> f64 {
    // Φ(β)/φ(β) overflows far out, where nobody waits.
    let Ok(normal) = Normal::new(0.0, 1.0) else { return 1.0 };
    if beta <= 0.0 { 1.0 } else { 1.0 / (1.0 + beta * normal.cdf(beta) / normal.pdf(beta)) }
}

/// Servers for a load with which a share of at most `waiting` waits at all, by the rule of the square root: a + β√a, rounded up.
pub fn square_root_staffing(load: f64, waiting: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let beta = f64::midpoint(low, high);
        if halfin_whitt(beta) <= waiting { high = beta } else { low = beta }
    }
    (load + high * load.sqrt()).ceil()
}

/// Mean wait of the jobs of separate queues, each with its servers, seconds; `None` where a queue has too few servers, or there is none.
pub fn mean_wait_apart_s(apart: &[(Traffic, u32)]) -> Option<f64> {
    let rate: f64 = apart.iter().map(|(traffic, _)| traffic.rate).sum();
    let waits: Option<Vec<f64>> =
        apart.iter().map(|(traffic, servers)| Some(traffic.mean_wait_s(*servers)? * traffic.rate)).collect();
    waits.filter(|_| rate > 0.0).map(|waits| waits.iter().sum::<f64>() / rate)
}

/// How many times longer jobs wait in separate queues, each with its servers, than in one queue; `None` where a queue has too few servers. Infinite where nobody waits in the one.
pub fn pooling_gain(apart: &[(Traffic, u32)], (pooled, servers): &(Traffic, u32)) -> Option<f64> {
    Some(mean_wait_apart_s(apart)? / pooled.mean_wait_s(*servers)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
