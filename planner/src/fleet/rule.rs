//! Ways to choose how much to commit to, each from the hours before.
//!
//! The usual ones know on-demand and the commitment that is cheapest by the GPU: none at all, as much as the peak, as much as the mean, and the newsvendor's number,
//! which costs least; that number again, with spot for what may run there. Beside them: no commitment but spot, what the [search](super::commit)
//! chooses, the same where nodes can be bought, and the search that knows the hours it is priced on.
//!
//! O(hours) a rule, but for the newsvendor and the searches. Worked example: needs of 2, 4 and 6 GPUs at 2.5 an hour on demand and 1 reserved: peak 6, mean 4, newsvendor 4.

use schemars::JsonSchema;
use serde::Serialize;

use super::commit::solve;
use crate::market::levels::{NeedLevel, newsvendor, peak};
use crate::market::supply::{Commitment, PoolSupply, Term};

/// Where a mix comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetRule {
    /// Everything on demand.
    OnDemand,
    /// Nothing committed; on spot what may run there.
    Uncommitted,
    /// Reserves as much as was needed at the peak.
    Peak,
    /// Reserves as much as was needed on average.
    Mean,
    /// The newsvendor's number reserved.
    Newsvendor,
    /// The newsvendor's number reserved, with spot for the rest.
    NewsvendorSpot,
    /// What the search chooses.
    Mix,
    /// What the search chooses where nodes can be bought as well.
    Buying,
    /// What the search chooses with hindsight.
    Hindsight,
}

impl FleetRule {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 9] = [
        Self::OnDemand,
        Self::Uncommitted,
        Self::Peak,
        Self::Mean,
        Self::Newsvendor,
        Self::NewsvendorSpot,
        Self::Mix,
        Self::Buying,
        Self::Hindsight,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::OnDemand => "all on demand",
            Self::Uncommitted => "nothing reserved, spot where jobs may",
            Self::Peak => "reserved at the earlier peak",
            Self::Mean => "reserved at the earlier mean",
            Self::Newsvendor => "newsvendor on the earlier part",
            Self::NewsvendorSpot => "the same, and spot where jobs may",
            Self::Mix => "the mix",
            Self::Buying => "the mix, with nodes bought",
            Self::Hindsight => "the best mix, with hindsight",
        }
    }

    /// Name of the rule where no other rule stands beside it.
    pub fn alone_in_words(self) -> &'static str {
        match self {
            Self::NewsvendorSpot => "newsvendor on the earlier part, and spot where jobs may",
            other => other.in_words(),
        }
    }

    /// Whether spot is used.
    pub fn takes_spot(self) -> bool {
        matches!(self, Self::Uncommitted | Self::NewsvendorSpot | Self::Mix | Self::Buying | Self::Hindsight)
    }
}

/// The commitments that a rule makes on these hours. The hindsight rule is given the hours to come.
pub fn choose(rule: FleetRule, supply: &PoolSupply, levels: &[NeedLevel]) -> Vec<u32> {
    let mut counts = vec![0; supply.commitments.len()];
    let hours: f64 = levels.iter().map(|level| level.hours).sum();
    let number = |of: &Commitment| match rule {
        FleetRule::Peak => (peak(levels) / of.gpus).ceil(),
        FleetRule::Mean => {
            (levels.iter().map(|level| level.need.total * level.hours).sum::<f64>() / hours.max(1.0) / of.gpus).round()
        }
        _ => f64::from(newsvendor(supply, levels, of)),
    };
    match rule {
        FleetRule::OnDemand | FleetRule::Uncommitted => {}
        FleetRule::Peak | FleetRule::Mean | FleetRule::Newsvendor | FleetRule::NewsvendorSpot => {
            if let Some((at, of)) = supply.cheapest(|term| matches!(term, Term::Reserved(_)))
                && let Some(count) = counts.get_mut(at)
            {
                *count = (number(of).min(1e6) as u32).min(of.limit.unwrap_or(u32::MAX));
            }
        }
        FleetRule::Mix | FleetRule::Buying | FleetRule::Hindsight => return solve(supply, levels).counts,
    }
    counts
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::market::demand::HourDemand;
    use crate::market::levels::levels;
    use crate::market::supply::tests::simple;

    #[test]
    fn the_worked_example() {
        let supply = simple(1.0, 2.5, None);
        let needs = [2.0, 4.0, 6.0].map(|total| HourDemand::new(total, total));
        let levels = levels(&supply, needs);
        let chosen = |rule: FleetRule| choose(rule, &supply, &levels)[0];
        let all = [FleetRule::OnDemand, FleetRule::Peak, FleetRule::Mean, FleetRule::Newsvendor, FleetRule::Mix];
        assert_eq!(all.map(chosen), [0, 6, 4, 4, 4]);
    }

    /// Four GPUs are needed all the time. An instance of 4 costs 4.5 on demand, one GPU 2, and a reserved GPU 1. One reserved leaves 3, for 4.5 again: 5.5 in all, more than the 4.5 of none. Two make 2 + 4, three 3 + 2, and four 4, the least.
    #[test]
    fn with_several_sizes_four_may_cost_less_where_one_does_not() {
        let mut supply = simple(1.0, 2.0, None);
        let four = crate::market::supply::Rental { gpus: 4.0, per_gpu_h: 1.125, ..supply.on_demand[0].clone() };
        supply.on_demand.push(four);
        let levels = levels(&supply, [HourDemand::new(4.0, 4.0)]);
        for rule in [FleetRule::Newsvendor, FleetRule::Mix] {
            assert_eq!(choose(rule, &supply, &levels), [4], "{rule:?}");
        }
    }

    #[test]
    fn limits_hold() {
        let mut supply = simple(1.0, 2.5, None);
        supply.commitments[0].limit = Some(3);
        let levels = levels(&supply, [HourDemand::new(6.0, 6.0)]);
        for rule in [FleetRule::Peak, FleetRule::Newsvendor, FleetRule::Mix] {
            assert_eq!(choose(rule, &supply, &levels), [3]);
        }
        supply.commitments.clear();
        assert!(choose(FleetRule::Peak, &supply, &levels).is_empty());
    }
}
