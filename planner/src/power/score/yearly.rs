//! What a saving over the evaluated days is in a year, and of all the energy of the nodes.
//!
//! A year is 365.25 days like those evaluated. The energy of the nodes is that of all of them always on: what an active node
//! draws where that is known, and else what an idle one draws, which is the least, so that the share is then an upper bound.
//! Both are of the meter: times the marginal PUE, as the saving is.
//!
//! Worked number: 10 nodes for 2 days, 4 of them in use on average, 1,240 W idle: 595.2 kWh at least. A saving of 59.52 kWh is
//! 10,870 kWh a year and at most 10 %; if active nodes are known to draw 3,240 W, it is 6.1 % of 979.2 kWh.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use crate::power::score::constants::Constants;

/// Days of a year.
pub(in crate::power) const YEAR_DAYS: f64 = 365.25;

/// A saving as a planner reads it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Yearly {
    /// Energy saved in a year of days like those evaluated, kWh.
    pub saved_kwh_per_year: f64,
    /// Share of the energy of all nodes always on.
    pub share_of_nodes: f64,
    /// Whether that share is an upper bound, as what active nodes draw is not known (`active_w` of the constants).
    pub share_is_upper_bound: bool,
}

impl Yearly {
    /// `In a year of such days 10,870 kWh would be saved, at most 10 % of the energy of these nodes always on.`; `whose` says by
    /// what.
    pub fn sentence(&self, whose: &str) -> String {
        let bound = if self.share_is_upper_bound {
            " (less if those in use draw more than idle ones, which `active_w` of the constants would tell)"
        } else {
            ""
        };
        format!(
            "In a year of such days **{}** kWh{whose} would be saved, {}**{}** of the energy of these nodes always on{bound}.",
            format::compact(self.saved_kwh_per_year),
            if self.share_is_upper_bound { "at most " } else { "" },
            format::percent(self.share_of_nodes)
        )
    }

    /// Yearly figures of `saved_kwh` in `days`, on `nodes` of which `in_use` are in use on average;
    /// `None` where there are no days or nodes.
    pub fn new(saved_kwh: f64, days: f64, nodes: f64, in_use: f64, constants: &Constants) -> Option<Self> {
        let active_w = constants.active_w.unwrap_or(constants.idle_w);
        let watts = in_use.min(nodes) * active_w + (nodes - in_use).max(0.0) * constants.idle_w;
        let whole_kwh = watts * days * 24.0 / 1000.0 * constants.pue_marginal;
        (days > 0.0 && whole_kwh > 0.0).then(|| Self {
            saved_kwh_per_year: saved_kwh * YEAR_DAYS / days,
            share_of_nodes: saved_kwh / whole_kwh,
            share_is_upper_bound: constants.active_w.is_none(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let idle = Constants { idle_w: 1240.0, active_w: None, pue_marginal: 1.0, ..Constants::default() };
        let yearly = Yearly::new(59.52, 2.0, 10.0, 4.0, &idle).unwrap();
        // 10 nodes × 48 h × 1.24 kW = 595.2 kWh.
        assert!((yearly.share_of_nodes - 0.1).abs() < 1e-12 && yearly.share_is_upper_bound);
        assert!((yearly.saved_kwh_per_year - 59.52 * 182.625).abs() < 1e-9);
        // 4 × 48 h × 3.24 kW + 6 × 48 h × 1.24 kW = 622.08 + 357.12 = 979.2 kWh.
        let active = Constants { active_w: Some(3240.0), ..idle };
        let yearly = Yearly::new(59.52, 2.0, 10.0, 4.0, &active).unwrap();
        assert!((yearly.share_of_nodes - 59.52 / 979.2).abs() < 1e-12 && !yearly.share_is_upper_bound);
        assert!(Yearly::new(1.0, 0.0, 10.0, 4.0, &active).is_none());
    }
}
