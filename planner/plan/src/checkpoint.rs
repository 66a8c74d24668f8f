//! How often a job should save its progress, and what is left of its time.
//!
//! ```text
//! M    mean time between failures of the job's nodes: that of one node over their number
//! Young   τ = √(2δM)                                                          δ is what a checkpoint costs
//! Daly    τ = √(2δM)·(1 + ⅓·√(δ / 2M) + ⅑·δ / 2M) − δ  for δ < 2M, else M
//! goodput of an interval τ, with a restart of R:  τ / (M·e^(R/M)·(e^((τ+δ)/M) − 1))
//! ```
//!
//! The **replayed** goodput is that of a job on some nodes of a log: after each failure of one of them it restarts (a spare stands in) and goes on from its
//! last checkpoint. O(1) a formula, O(failures) a replay. Worked number: δ = 5 min and M = 24 h: Young 120 min, Daly 116.7 min.
//!
//! Sources: Young, Communications of the ACM 17 (1974); Daly, Future Generation Computer Systems 22 (2006).

/// Costs of checkpoints and restarts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CheckpointCosts {
    /// Time that a checkpoint takes, seconds.
    pub checkpoint_s: f64,
    /// Time from a failure until the job runs again, seconds.
    pub restart_s: f64,
}

impl CheckpointCosts {
    /// Young's interval, seconds, where failures are `mtbf_s` apart on average.
    pub fn young_s(&self, mtbf_s: f64) -> f64 {
        (2.0 * self.checkpoint_s * mtbf_s).sqrt()
    }

    /// Daly's interval, seconds.
    pub fn daly_s(&self, mtbf_s: f64) -> f64 {
        let delta = self.checkpoint_s;
        if delta >= 2.0 * mtbf_s {
            return mtbf_s;
        }
        let x = delta / (2.0 * mtbf_s);
        self.young_s(mtbf_s) * (1.0 + x.sqrt() / 3.0 + x / 9.0) - delta
    }

    /// Daly's goodput of an interval, a share.
    pub fn goodput(&self, interval_s: f64, mtbf_s: f64) -> f64 {
        let growth = ((interval_s + self.checkpoint_s) / mtbf_s).exp_m1();
        interval_s / (mtbf_s * (self.restart_s / mtbf_s).exp() * growth)
    }

    /// The goodput of an interval for a job that runs from 0 to `length_s` over failures at these moments, in order of time.
    pub fn replayed(&self, interval_s: f64, failures_s: &[f64], length_s: f64) -> f64 {
        let cycle = interval_s + self.checkpoint_s;
        let (mut useful, mut begun) = (0.0, 0.0);
        for failure in failures_s {
            // A failure while it restarts begins the restart anew.
            let ran = (failure - begun).max(0.0);
            useful += (ran / cycle).floor() * interval_s;
            begun = failure + self.restart_s;
        }
        let ran = (length_s - begun).max(0.0);
        let whole = (ran / cycle).floor();
        useful += whole * interval_s + (ran - whole * cycle).min(interval_s);
        useful / length_s.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
        let day = 86_400.0;
        assert!((costs.young_s(day) - 7200.0).abs() < 1e-9);
        // 7200·(1 + 0.041667/3 + 0.0017361/9) − 300.
        assert!((costs.daly_s(day) - 7001.389).abs() < 1e-2, "{}", costs.daly_s(day));
        assert!((costs.daly_s(100.0) - 100.0).abs() < 1e-9);
        // Without failures only the checkpoints cost.
        assert!((costs.goodput(7200.0, 1e12) - 7200.0 / 7500.0).abs() < 1e-4);
    }

    #[test]
    fn a_replay_by_hand() {
        let costs = CheckpointCosts { checkpoint_s: 10.0, restart_s: 20.0 };
        // Cycles of 110 s: until 250 s two are saved, 30 s are lost; from 270 s on to 500 s two more, and 10 s of the next.
        let share = costs.replayed(100.0, &[250.0], 500.0);
        assert!((share - 410.0 / 500.0).abs() < 1e-12, "{share}");
        // A second failure during the restart.
        let share = costs.replayed(100.0, &[250.0, 260.0], 500.0);
        assert!((share - 400.0 / 500.0).abs() < 1e-12, "{share}");
    }

    #[test]
    fn daly_is_near_the_best_of_his_own_model() {
        for mtbf_s in [3_600.0, 86_400.0, 30.0 * 86_400.0] {
            let costs = CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 };
            let best = (1..2000).map(|at| costs.goodput(f64::from(at) * mtbf_s / 1000.0, mtbf_s)).fold(0.0, f64::max);
            assert!(costs.goodput(costs.daly_s(mtbf_s), mtbf_s) >= best * 0.999);
        }
    }
}
