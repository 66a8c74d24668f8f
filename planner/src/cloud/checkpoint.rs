//! How often a job on spot should save its progress: Young's and Daly's intervals from how long spot lasted.
//!
//! Spot that was had for T in all and lost n times is lost every T/n on average; a run that had not ended counts with what was seen of it. Of an elastic job each instance counts. The
//! formulas are those of [checkpoints](crate::plan::checkpoint::CheckpointCosts). The plan takes work that is done to stay done, so what checkpoints and lost work
//! cost is not in its figures: it is told apart, as the share of the time at work that is left. The changeover after a loss is in them, so no restart is counted here.
//!
//! O(ticks). Worked example: 240 h of spot, lost ten times, and a checkpoint of 5 min: every 24 h, so Young's interval is 120 min and Daly's 116.7 min.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;

use crate::market::availability::SpotSeries;
use crate::plan::checkpoint::CheckpointCosts;

/// How often to save.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CheckpointAdvice {
    /// Time that a checkpoint takes, seconds.
    pub checkpoint_s: f64,
    /// Losses of spot in the traces that it rests on.
    pub losses: usize,
    /// Time on average between losses, seconds; nothing where spot was never lost.
    pub lost_every_s: Option<f64>,
    /// Young's interval, seconds.
    pub young_s: Option<f64>,
    /// Daly's interval, seconds.
    pub daly_s: Option<f64>,
    /// Share of the time at work that is left of checkpoints and of work that is lost, with Daly's interval.
    pub goodput: Option<f64>,
}

impl CheckpointAdvice {
    /// Derives advice from the losses seen in some zones by a job of `need` instances.
    pub(super) fn new<'a>(
        zones: impl Iterator<Item = &'a SpotSeries>,
        (need, elastic): (u32, bool),
        checkpoint_s: f64,
    ) -> Self {
        let (mut had_s, mut losses) = (0.0, 0);
        for zone in zones {
            let up = zone.supply(need, elastic).up;
            had_s += up.iter().map(|had| f64::from(*had)).sum::<f64>() * zone.tick_ms as f64 / 1e3;
            losses += up.windows(2).map(|pair| pair[0].saturating_sub(pair[1]) as usize).sum::<usize>();
        }
        let every_s = (losses > 0).then(|| had_s / losses as f64);
        let costs = CheckpointCosts { checkpoint_s, restart_s: 0.0 };
        let daly_s = every_s.map(|every_s| costs.daly_s(every_s));
        Self {
            checkpoint_s,
            losses,
            lost_every_s: every_s,
            young_s: every_s.map(|every_s| costs.young_s(every_s)),
            daly_s,
            goodput: every_s.zip(daly_s).map(|(every_s, daly_s)| costs.goodput(daly_s, every_s)),
        }
    }

    /// Recommended action, in a sentence.
    pub(super) fn in_words(&self) -> String {
        match (self.lost_every_s, self.daly_s, self.goodput) {
            (Some(every_s), Some(daly_s), Some(goodput)) => format!(
                "Write a checkpoint every **{}** of work on spot (Daly): spot was lost every {} on average, and one takes {}. That leaves {} of the time at work; the plan's costs do not count the rest.",
                format::duration(daly_s),
                format::duration(every_s),
                format::duration(self.checkpoint_s),
                format::percent(goodput)
            ),
            _ => "Spot was never lost in the data, so nothing says how often to write a checkpoint.".to_owned(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Ten runs of 24 h, each lost after it, and the same two at a time for an elastic job of two instances.
    #[test]
    fn the_worked_example() {
        let zone = |count: f64| {
            SpotSeries::of_counts(
                "a",
                3_600_000,
                (0..250).map(|tick| if tick % 25 == 24 { 0.0 } else { count }).collect(),
            )
        };
        for (zone, of, losses) in [(zone(1.0), (1, false), 10), (zone(2.0), (2, true), 20), (zone(2.0), (2, false), 10)]
        {
            let result = CheckpointAdvice::new([&zone].into_iter(), of, 300.0);
            assert_eq!((result.losses, result.lost_every_s), (losses, Some(86_400.0)));
            assert!((result.young_s.unwrap() - 7200.0).abs() < 1e-9 && (result.daly_s.unwrap() - 7001.4).abs() < 0.1);
            assert!(result.in_words().contains("every **1 h 57 min**"), "{}", result.in_words());
        }
        let none = CheckpointAdvice::new([&zone(0.0)].into_iter(), (1, false), 300.0);
        assert_eq!((none.losses, none.daly_s), (0, None));
    }
}
