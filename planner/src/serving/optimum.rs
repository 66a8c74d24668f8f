//! The least that any schedule costs which knows the demand: a bound from below, and the best schedule that was found.
//!
//! **Bound.** A request that is in time takes its prefill of a replica, and for each further token a share of a step: time of the step / sequences in it. Its steps take at
//! most `tpot` on average, so that share is on average no less than the lower hull of (time of a step, share) at `tpot` (Jensen). All of that lies between its arrival
//! and arrival + ttft + tpot × further tokens. Requests for which that ends within the window are counted, without the dearest of as many as may be late. Replicas are
//! paid for at least as long as they work. It leaves out that replicas are whole, that they start, and that they must be there when requests come.
//!
//! **Best found.** A schedule says how many replicas serve, stretch by stretch, and starts them ahead of time. From the fewest constant ones that keep the target, one
//! replica is taken out of a stretch as long as the replay still keeps it, the stretches with the least load first, until no stretch can spare one. It is a descent
//! with the exact replay, not an exhaustive search: the true optimum lies between the bound and it. Of small cases, held against all schedules, two of three are exact and none costs more
//! than twice the least (tests).
//!
//! O(requests log requests + replays); at most 2,000 replays of the descent, as many at a time as there are threads, taken in order. Worked example, with the table of [`super::service`]: 100 requests of 4,000 input and one output token, 95 in
//! time: the bound is 95 × 1 s of a replica.

use rayon::prelude::*;

use super::choose::{ServingCase, ServingScore, Span};
use super::replay::{ServedLog, Slots, WantedReplicas, replay};
use super::requests::LoggedRequest;
use super::rule::{ServingLoad, ServingRule, loads};
use super::service::ReplicaService;
use super::target::{ServingTarget, micros};

/// Stretches of a schedule.
const STRETCHES: usize = 40;
/// Most replays of the descent.
const MOST_REPLAYS: usize = 2000;

/// Seconds of replicas that no schedule which keeps the target gets by without, for requests that arrive in a window.
pub fn bound_s(requests: &[LoggedRequest], service: &ReplicaService, target: ServingTarget, window: Span) -> f64 {
    let token_s = service.token_s_within(target.tpot_s);
    let arrived = requests.iter().filter(|request| (window.0..window.1).contains(&request.at_us));
    let mut count = 0;
    let mut works: Vec<f64> = Vec::new();
    for request in arrived {
        count += 1;
        let further = i64::from(request.output.max(1)) - 1;
        if request.at_us + micros(target.ttft_s) + further * micros(target.tpot_s) <= window.1 {
            works.push(service.prefill_us(request.input) as f64 / 1e6 + further as f64 * token_s);
        }
    }
    works.sort_unstable_by(f64::total_cmp);
    works.iter().take(works.len().saturating_sub(target.may_miss(count))).sum()
}

/// A schedule and what it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Hindsight {
    /// Replicas that serve, slot by slot.
    pub counts: Vec<u32>,
    /// Score of the schedule.
    pub score: ServingScore,
    /// Replays that counted: those of the constant replicas that it begins with, and those of the descent.
    pub replays: usize,
}

/// Serves requests by a schedule that starts replicas ahead of time; those of the first slot are up.
pub fn by_schedule(requests: &[LoggedRequest], service: &ReplicaService, slots: Slots, counts: &[u32]) -> ServedLog {
    let ahead = service.start_slots(slots.slot_us);
    let initial = counts.first().copied().unwrap_or(0);
    replay(requests, service, slots, initial, &|_| 0, &mut |seen| {
        let to = (seen.slot + ahead + 1).min(counts.len());
        WantedReplicas::on_demand(
            counts.get(seen.slot.min(to)..to).and_then(|coming| coming.iter().max()).copied().unwrap_or(0),
        )
    })
}

/// A schedule with one replica less in a stretch; none where it has none.
fn one_fewer(of: &[u32], stretch: usize) -> Option<Vec<u32>> {
    let mut fewer = of.to_vec();
    let count = fewer.get_mut(stretch).filter(|count| **count > 0)?;
    *count -= 1;
    Some(fewer)
}

impl ServingCase<'_> {
    /// What a schedule does in a window, with its requests alone.
    pub fn scored_schedule(&self, counts: &[u32], window: Span) -> ServingScore {
        let slots = Slots::covering(window.0, window.1 - 1, self.slot_us);
        let requests = self.within(window);
        let replayed = by_schedule(requests, self.service, slots, counts);
        self.score(requests, &replayed, slots, window)
    }

    /// The best schedule that was found for a window; `None` where not even the most constant replicas keep the target.
    pub fn oracle(&self, load: ServingLoad, window: Span) -> Option<Hindsight> {
        let slots = Slots::covering(window.0, window.1 - 1, self.slot_us);
        let requests = self.within(window);
        let alone = ServingCase { requests, from_us: window.0, ..*self };
        let start = alone.fewest(self.target, load, window);
        let ServingRule::Constant { replicas } = start.rule else { return None };
        if !start.kept {
            return None;
        }
        let length = slots.count.div_ceil(STRETCHES).max(1);
        let stretches = slots.count.div_ceil(length);
        let by_stretch = loads(requests, &load, (window.0, self.slot_us * length as i64), stretches);
        let mut order: Vec<usize> = (0..stretches).collect();
        order.sort_by(|a, b| by_stretch.get(*a).unwrap_or(&0.0).total_cmp(by_stretch.get(*b).unwrap_or(&0.0)));
        let counts = |of: &[u32]| -> Vec<u32> {
            (0..slots.count).map(|slot| of.get(slot / length).copied().unwrap_or(0)).collect()
        };
        let mut best = vec![replicas; stretches];
        let mut score = alone.scored_schedule(&counts(&best), window);
        let mut replays = 0;
        let mut spared = true;
        while spared && replays < MOST_REPLAYS {
            spared = false;
            let mut next = 0;
            while next < order.len() && replays < MOST_REPLAYS {
                let most = rayon::current_num_threads().min(MOST_REPLAYS - replays);
                let tried: Vec<_> = order.iter().skip(next).take(most).map(|at| one_fewer(&best, *at)).collect();
                let scores: Vec<Option<ServingScore>> = tried
                    .par_iter()
                    .map(|fewer| Some(alone.scored_schedule(&counts(fewer.as_ref()?), window)))
                    .collect();
                // What follows one that was taken was tried against what is best no longer, and is tried again.
                for (fewer, tried) in tried.into_iter().zip(scores) {
                    next += 1;
                    let (Some(fewer), Some(tried)) = (fewer, tried) else { continue };
                    replays += 1;
                    if self.keeps(&tried, self.target) && tried.cost < score.cost {
                        (best, score, spared) = (fewer, tried, true);
                        break;
                    }
                }
            }
        }
        Some(Hindsight { counts: counts(&best), score, replays: start.tried + 1 + replays })
    }
}

#[cfg(test)]
mod tests;
