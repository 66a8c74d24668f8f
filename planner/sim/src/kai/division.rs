//! Division of an amount between several queues: the rule of [`super`], in whole numbers.
//!
//! With weights wᵢ and k in thousandths and usage uᵢ in units of 2⁻³², ΣW times 2³² × 1000 × Pᵢ is the whole number max(0, wᵢ·(1000 + k)·2³² − k·uᵢ·Σw), so that parts are compared and rounded exactly. Remainders are
//! kept to 2⁻²⁰ of a thousandth of a GPU. O(queues²) at most: in each further round one queue is satisfied. Worked numbers: see [`super`].

use std::cmp::Reverse;

/// A GPU, thousandths.
const GPU: u64 = 1000;

/// Claim of a queue in a division.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// Deserved quota; everything if `None`.
    pub(crate) quota: Option<u64>,
    /// Request, at most the limit.
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
    /// Remainder that the last rounding lost, if any.
    lost: Option<u128>,
}

impl Part<'_> {
    fn wants_more(&self) -> bool {
        self.claim.wanted > self.share
    }
}

/// How weight and usage count in a division.
#[derive(Debug, Clone, Copy)]
enum Scale {
    /// Weights alone: without usage every Pᵢ has the same factor beside its weight, and no comparison or rounding sees it. So numbers stay short.
    Weights,
    /// Usage as well, with k.
    Usage(u128),
}

impl Scale {
    /// Pᵢ, on the scale of this module.
    fn portion(self, part: &Part<'_>, weights: u128) -> u128 {
        let weight = u128::from(part.claim.weight_milli);
        match self {
            Self::Weights => weight,
            Self::Usage(k) => ((weight * (1000 + k)) << 32).saturating_sub(k * u128::from(part.claim.usage) * weights),
        }
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
    let is_used = k_milli > 0 && claims.iter().any(|claim| claim.usage > 0);
    let scale = if is_used { Scale::Usage(u128::from(k_milli)) } else { Scale::Weights };
    // The highest priority of those that still want more, lower in each turn.
    let highest = |parts: &[Part<'_>], below: Option<i32>| {
        let open = parts.iter().filter(|part| part.wants_more()).map(|part| part.claim.priority);
        open.filter(|priority| below.is_none_or(|below| *priority < below)).max()
    };
    let mut tier = highest(&parts, None);
    while let Some(priority) = tier.filter(|_| left > 0) {
        left = rounds(left, &mut parts, priority, scale);
        left = remainders(left, &mut parts, priority);
        tier = highest(&parts, Some(priority));
    }
    parts.into_iter().map(|part| part.share).collect()
}

/// Divides what is left by weight and usage among those of a priority until nobody wants less than it is due; what remains.
fn rounds(mut left: u64, parts: &mut [Part<'_>], priority: i32, scale: Scale) -> u64 {
    let is_open = |part: &Part<'_>| part.claim.priority == priority && part.wants_more();
    loop {
        let open = || parts.iter().filter(|part| is_open(part));
        let weights: u128 = open().map(|part| u128::from(part.claim.weight_milli)).sum();
        let all: u128 = open().map(|part| scale.portion(part, weights)).sum();
        if all == 0 || left == 0 {
            return left;
        }
        let (round, mut again) = (u128::from(left), false);
        for part in parts.iter_mut().filter(|part| is_open(part)) {
            if part.claim.weight_milli == 0 {
                continue;
            }
            let of_all = round * scale.portion(part, weights);
            let due = of_all / all;
            let rest = of_all - due * all;
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            let request = part.claim.wanted - part.share;
            let give = if request <= due {
                part.lost = None;
                again |= request < due || rest > 0;
                request
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

/// Gives a GPU each to those of a priority that were rounded down; what remains.
fn remainders(mut left: u64, parts: &mut [Part<'_>], priority: i32) -> u64 {
    let of_tier = |part: &&mut Part<'_>| part.claim.priority == priority && part.lost.is_some();
    let mut short: Vec<&mut Part<'_>> = parts.iter_mut().filter(of_tier).collect();
    short.sort_by_key(|part| (Reverse(part.lost), part.claim.rank));
    for part in short {
        let give = left.min(GPU);
        part.share += give;
        left -= give;
    }
    left
}
