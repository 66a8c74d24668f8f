//! What of an amount each of several queues is due: the rule of [`super`], in whole numbers.
//!
//! With weights wᵢ and k in thousandths and usage uᵢ in units of 2⁻³², ΣW times 2³² × 1000 × Pᵢ is the whole number max(0, wᵢ·(1000 + k)·2³² − k·uᵢ·Σw), so that parts are compared and rounded exactly. Remainders are
//! kept to 2⁻²⁰ of a thousandth of a GPU. O(queues²) at most: in each further round one queue is satisfied. Worked numbers: see [`super`].

use std::cmp::Reverse;

/// A GPU, thousandths.
const GPU: u64 = 1000;

/// What a queue brings to a division.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// What it deserves; everything if `None`.
    pub(crate) quota: Option<u64>,
    /// What it requests, at most its limit.
    pub(crate) wanted: u64,
    pub(crate) weight_milli: u64,
    pub(crate) priority: i32,
    /// Who comes first of equals.
    pub(crate) rank: (u32, u16),
    /// Usage, in units of 2⁻³².
    pub(crate) usage: u64,
}

/// A queue of a tier as the division goes on.
struct Part<'c> {
    claim: &'c Claim,
    share: u64,
    /// What its last rounding lost, if it lost anything.
    lost: Option<u128>,
}

impl Part<'_> {
    fn wants_more(&self) -> bool {
        self.claim.wanted > self.share
    }

    /// Pᵢ, on the scale of this module.
    fn portion(&self, weights: u128, k: u128) -> u128 {
        let weight = u128::from(self.claim.weight_milli);
        ((weight * (1000 + k)) << 32).saturating_sub(k * u128::from(self.claim.usage) * weights)
    }
}

/// The share of each, in their order.
pub(crate) fn divide(total: u64, claims: &[Claim], k_milli: u64) -> Vec<u64> {
    let mut parts: Vec<Part<'_>> = claims
        .iter()
        .map(|claim| Part { claim, share: claim.quota.unwrap_or(total).min(claim.wanted), lost: None })
        .collect();
    let given: u128 = parts.iter().map(|part| u128::from(part.share)).sum();
    let mut left = u64::try_from(u128::from(total).saturating_sub(given)).unwrap_or(0);
    let mut tiers: Vec<i32> = claims.iter().map(|claim| claim.priority).collect();
    tiers.sort_unstable_by_key(|priority| Reverse(*priority));
    tiers.dedup();
    for priority in tiers {
        let mut tier: Vec<&mut Part<'_>> = parts.iter_mut().filter(|part| part.claim.priority == priority).collect();
        left = rounds(left, &mut tier, u128::from(k_milli));
        left = remainders(left, &mut tier);
    }
    parts.into_iter().map(|part| part.share).collect()
}

/// Divides what is left by weight and usage until nobody wants less than it is due; what remains.
fn rounds(mut left: u64, tier: &mut [&mut Part<'_>], k: u128) -> u64 {
    loop {
        let weights =
            tier.iter().filter(|part| part.wants_more()).map(|part| u128::from(part.claim.weight_milli)).sum();
        let portion = |part: &Part<'_>| if part.wants_more() { part.portion(weights, k) } else { 0 };
        let portions: Vec<u128> = tier.iter().map(|part| portion(part)).collect();
        let all: u128 = portions.iter().sum();
        if all == 0 || left == 0 {
            return left;
        }
        let (round, mut again) = (u128::from(left), false);
        for (part, portion) in tier.iter_mut().zip(portions) {
            if !part.wants_more() || part.claim.weight_milli == 0 {
                continue;
            }
            let (due, rest) = (round * portion / all, round * portion % all);
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            let asked = part.claim.wanted - part.share;
            let give = if asked <= due {
                part.lost = None;
                again |= asked < due || rest > 0;
                asked
            } else {
                let whole = due / GPU * GPU;
                if due > whole || rest > 0 {
                    part.lost = Some((u128::from(due - whole) << 20) + (rest << 20) / all);
                }
                whole
            };
            part.share += give;
            left -= give;
        }
        if !again {
            return left;
        }
    }
}

/// Gives a GPU each to those that were rounded down; what remains.
fn remainders(mut left: u64, tier: &mut [&mut Part<'_>]) -> u64 {
    let mut short: Vec<&mut &mut Part<'_>> = tier.iter_mut().filter(|part| part.lost.is_some()).collect();
    short.sort_by_key(|part| (Reverse(part.lost), part.claim.rank));
    for part in short {
        let give = left.min(GPU);
        part.share += give;
        left -= give;
    }
    left
}
