//! What a node draws and how long it takes to sleep and wake: the constants of a re-simulation, with where they come from.
//!
//! **Break-even.** An idle gap of g seconds costs P_idle · g if the node stays on, and P_off · (g − t) + E_boot +
//! E_shutdown if it sleeps, where t is the time boot and shutdown take and their energies are all that is drawn
//! meanwhile. Sleeping saves from
//!
//! ```text
//! T* = (E_boot + E_shutdown − P_off · t) / (P_idle − P_off)
//! ```
//!
//! on, but not below t. With energies counted above P_off this is (E_boot + E_shutdown) / (P_idle − P_off).
//!
//! Worked number: 1,240 W idle, 20 W off, a boot of 300 s and a shutdown of 60 s at 1,240 W: switching costs 446,400 J,
//! 7,200 J of which it would draw when off; T* = 439,200 / 1,220 = 360 s: what draws as much as when idle costs just
//! its own time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Idle power of a node with GPUs, watts a GPU: see [`Constants::sources`].
const IDLE_W_A_GPU: f64 = 155.0;
/// Power of a node that is off, watts.
const OFF_W: f64 = 20.0;

/// Power of a node, and times to sleep and wake.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Constants {
    /// Power of a node without a job, watts.
    pub idle_w: f64,
    /// Power of a node with a job, watts, where it is known: for totals only, as jobs run equally long with and without sleep.
    pub active_w: Option<f64>,
    /// Power of a node that is off, watts: what its management controller draws.
    pub off_w: f64,
    /// From the order to wake until it takes jobs, seconds.
    pub boot_s: f64,
    /// Energy of a boot, all that is drawn meanwhile, joules.
    pub boot_j: f64,
    /// From the order to sleep until it is off, seconds.
    pub shutdown_s: f64,
    /// Energy of a shutdown, all that is drawn meanwhile, joules.
    pub shutdown_j: f64,
    /// Energy at the site's meter for each joule a node draws less (marginal PUE): 1 counts no cooling.
    pub pue_marginal: f64,
    /// Share of boots that fail and are tried again, below 1.
    pub failed_boot_ratio: f64,
    /// A node is on for at least so long, seconds.
    pub min_on_s: f64,
    /// A node is asleep for at least so long, seconds.
    pub min_off_s: f64,
    /// At least so many nodes of a pool are on.
    pub canaries: u32,
    /// At least so many idle nodes of a pool are left on.
    pub keep_idle: u32,
    /// Most wakes a minute in a pool; 0: no limit.
    pub wakes_per_minute: u32,
    /// Most sleeps a minute in a pool; 0: no limit.
    pub sleeps_per_minute: u32,
    /// A node that was woken so often on a day sleeps no more on it; 0: no limit.
    pub wakes_per_node_day: u32,
}

impl Default for Constants {
    /// A node of 8 GPUs; see [`Constants::of_node`].
    fn default() -> Self {
        Self::of_node(8)
    }
}

impl Constants {
    /// A node of so many GPUs; [`Constants::sources`] says what it rests on.
    pub fn of_node(gpus: u32) -> Self {
        Self::of_mean_node(f64::from(gpus))
    }

    /// Nodes that have so many GPUs on average; [`Constants::sources`] says what the numbers rest
    /// on.
    pub fn of_mean_node(gpus: f64) -> Self {
        let idle_w = IDLE_W_A_GPU * gpus.max(1.0);
        Self {
            idle_w,
            active_w: None,
            off_w: OFF_W,
            boot_s: 300.0,
            boot_j: idle_w * 300.0,
            shutdown_s: 60.0,
            shutdown_j: idle_w * 60.0,
            pue_marginal: 1.0,
            failed_boot_ratio: 0.0,
            min_on_s: 0.0,
            min_off_s: 0.0,
            canaries: 0,
            keep_idle: 0,
            wakes_per_minute: 0,
            sleeps_per_minute: 0,
            wakes_per_node_day: 0,
        }
    }

    /// What the defaults rest on, one sentence each.
    pub fn sources() -> [&'static str; 4] {
        [
            "Idle: 155 W a GPU, the whole node included: 620 W is the median of the nine of 292 nodes with four A100 whose GPU boards drew 280 W or less (Harvard FASRC IPMI, snapshot of 30 May 2025, 13:34 UTC). Acme's servers with eight A100 drew more: 1,512 W at the 10 % quantile (Acme server power, 2023).",
            "Off: 20 W, the median over the same 292 nodes on the power-off day (Harvard FASRC IPMI, 3 June 2025); over all nodes it is 10 W.",
            "Boot and shutdown draw idle power for 300 and 60 s: the times are assumed; six Harvard nodes that came back on 3 June 2025 drew 170 W for their first recorded 4 min and 200 to 230 W after, so idle power is not too little.",
            "Cooling saved (marginal PUE 1), failed boots and limits: none unless given.",
        ]
    }

    /// Energy of a boot and a shutdown above what the node would draw off meanwhile, joules.
    pub fn switch_j(&self) -> f64 {
        self.boot_j + self.shutdown_j - self.off_w * (self.boot_s + self.shutdown_s)
    }

    /// T*: from which gap on sleep saves, seconds; infinite where off draws as much as idle.
    pub fn break_even_s(&self) -> f64 {
        let less_w = self.idle_w - self.off_w;
        if less_w <= 0.0 {
            return f64::INFINITY;
        }
        (self.switch_j() / less_w).max(self.boot_s + self.shutdown_s)
    }

    /// Checks that everything is a number that means something.
    ///
    /// # Errors
    /// Names what is wrong and what would mend it.
    pub fn validate(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::policy(format!("constants of power: {what}")));
        let named = [
            ("idle_w", self.idle_w),
            ("active_w", self.active_w.unwrap_or(0.0)),
            ("off_w", self.off_w),
            ("boot_s", self.boot_s),
            ("boot_j", self.boot_j),
            ("shutdown_s", self.shutdown_s),
            ("shutdown_j", self.shutdown_j),
            ("pue_marginal", self.pue_marginal),
            ("failed_boot_ratio", self.failed_boot_ratio),
            ("min_on_s", self.min_on_s),
            ("min_off_s", self.min_off_s),
        ];
        for (name, value) in named {
            if !(0.0..=1e12).contains(&value) {
                return wrong(format!("{name} is {value}; give a number from 0 on"));
            }
        }
        if self.off_w > self.idle_w {
            return wrong(format!("a node draws {} W off and {} W idle; off must be less", self.off_w, self.idle_w));
        }
        if self.failed_boot_ratio >= 1.0 {
            return wrong(format!("failed_boot_ratio is {}; give a share below 1", self.failed_boot_ratio));
        }
        for (name, time_s, energy_j) in
            [("boot", self.boot_s, self.boot_j), ("shutdown", self.shutdown_s, self.shutdown_j)]
        {
            if time_s == 0.0 && energy_j > 0.0 {
                return wrong(format!("a {name} of no time draws {energy_j} J; give {name}_s"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::Constants;

    /// The example of the module, and one of a boot that draws more: 900 kJ and 60 kJ above off make (960,000 − 7,200)
    /// / 1,220 = 780.98 s.
    #[test]
    fn break_even() {
        let constants = Constants::default();
        assert_eq!((constants.idle_w, constants.switch_j(), constants.break_even_s()), (1240.0, 439_200.0, 360.0));
        let costly = Constants { boot_j: 900_000.0, shutdown_j: 60_000.0, ..Constants::default() };
        assert!((costly.break_even_s() - 952_800.0 / 1220.0).abs() < 1e-9);
        let cheap = Constants { boot_j: 0.0, shutdown_j: 0.0, ..Constants::default() };
        assert_eq!(cheap.break_even_s(), 360.0);
        assert!(Constants { off_w: 2000.0, ..Constants::default() }.break_even_s().is_infinite());
    }

    #[test]
    fn what_means_nothing_is_refused() {
        assert!(Constants::default().validate().is_ok());
        for wrong in [
            Constants { idle_w: f64::NAN, ..Constants::default() },
            Constants { off_w: 2000.0, ..Constants::default() },
            Constants { boot_s: 0.0, ..Constants::default() },
            Constants { failed_boot_ratio: 1.0, ..Constants::default() },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
