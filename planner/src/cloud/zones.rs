//! Policies over zones, each tried on a window: what [`policy`](super::policy) does for one zone.
//!
//! A start is decided with all that the zones showed before it and what the job has seen since. The programme is fitted at the start and refitted at the same moments as in
//! one zone. O(programmes + optima). Worked number: 50 h of work over nine zones of V100 take about two seconds a start for five deadlines.

use super::attempt::Attempt;
use super::job::{DeadlineJob, JobRun};
use super::market::{Market, ZonesPilot, travel};
use super::policy::CloudPolicy;
use super::zones_optimum::zones_optimum;
use super::zones_programme::{Learned, ZonesProgramme, learned_zones};
use super::zones_rule::{GreedyZones, OnDemandZones, SkyNomad, UniformZones};
use crate::error::Result;

/// The pilot of a policy over zones that decides from the past, for a job that begins at tick `start`.
pub(super) fn zones_pilot(
    policy: CloudPolicy,
    market: &Market,
    learned: &[Learned],
    start: usize,
    job: &DeadlineJob,
) -> Box<dyn ZonesPilot> {
    match policy {
        CloudPolicy::Greedy | CloudPolicy::TimeSliced => Box::new(GreedyZones),
        CloudPolicy::UniformProgress => Box::new(UniformZones),
        CloudPolicy::SkyNomad => Box::new(SkyNomad::new(market, start)),
        CloudPolicy::Markov | CloudPolicy::SemiMarkov => {
            Box::new(ZonesProgramme::new(&market.places, learned, start, job))
        }
        CloudPolicy::OnDemand | CloudPolicy::Omniscient => Box::new(OnDemandZones),
    }
}

/// Tries all policies over zones on a job that begins at tick `start`, for each of `jobs`, which differ in their deadlines alone.
///
/// # Errors
/// If the optimum cannot be computed exactly.
pub fn attempt_zones(market: &Market, start: usize, jobs: &[DeadlineJob]) -> Result<Vec<Attempt>> {
    attempt_zones_of(&CloudPolicy::TOGETHER, market, start, jobs)
}

/// As [`attempt_zones`], of some policies.
///
/// # Errors
/// As [`attempt_zones`].
pub(super) fn attempt_zones_of(
    policies: &[CloudPolicy],
    market: &Market,
    start: usize,
    jobs: &[DeadlineJob],
) -> Result<Vec<Attempt>> {
    let ticks = jobs.iter().map(|job| job.ticks(market.places.tick_ms)).max().unwrap_or(0);
    let learned = learned_zones(market, start, ticks);
    let of = |job: &DeadlineJob| -> Result<Attempt> {
        let mut runs = Vec::with_capacity(policies.len());
        for policy in policies.iter().copied() {
            let run = match policy {
                CloudPolicy::Omniscient => JobRun { cost: zones_optimum(market, start, job)?, ..JobRun::default() },
                _ => {
                    let mut pilot = zones_pilot(policy, market, &learned, start, job);
                    travel(pilot.as_mut(), market, start, job, &mut |_| ())
                }
            };
            runs.push((policy, run));
        }
        Ok(Attempt { runs, on_demand: market.places.all_on_demand(job) })
    };
    jobs.iter().map(of).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::market::tests::places;
    use super::super::market::{Places, ZoneHolding};
    use super::super::zones_optimum::tests::by_trying_zones;
    use super::*;

    const MIN: i64 = 60_000;
    const CAUSAL: [CloudPolicy; 5] = CloudPolicy::CAUSAL_TOGETHER;

    type Row = (Vec<bool>, Vec<f64>);

    fn rows(up: &[[bool; 3]], price: &[[f64; 3]]) -> Vec<Row> {
        up.iter().zip(price).map(|(up, price)| (up.to_vec(), price.to_vec())).collect()
    }

    /// What a policy holds over the ticks from `start` on.
    fn held(
        policy: CloudPolicy,
        places: &Places,
        rows: &[Row],
        start: usize,
        job: &DeadlineJob,
    ) -> (Vec<ZoneHolding>, JobRun) {
        let market = Market::from_rows(places.clone(), rows);
        let learned = learned_zones(&market, start, job.ticks(places.tick_ms));
        let mut pilot = zones_pilot(policy, &market, &learned, start, job);
        let mut held = Vec::new();
        let run = travel(pilot.as_mut(), &market, start, job, &mut |of| held.push(of));
        (held, run)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn no_market_makes_a_policy_miss_and_none_beats_the_optimum(
            up in prop::collection::vec(prop::array::uniform3(any::<bool>()), 16),
            price in prop::collection::vec(prop::array::uniform3(0.2f64..2.0), 16),
            on_demand in prop::array::uniform3(0.8f64..3.0),
            egress in 0.0f64..2.0,
            start in 0usize..8,
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..60,
            changeover_min in 0i64..20,
            odd_ms in 0i64..3,
        ) {
            let tick_ms = tick_min * MIN;
            let job = DeadlineJob {
                work_ms: work_min * MIN,
                deadline_ms: (work_min + changeover_min + spare_min) * MIN + odd_ms,
                changeover_ms: changeover_min * MIN,
                price_ratio: 3.0,
            };
            let ticks = job.ticks(tick_ms);
            prop_assume!(ticks <= 8);
            let market = Market::from_rows(places(&[0, 1, 1], &on_demand, egress, tick_ms), &rows(&up, &price));
            let tried = attempt_zones(&market, start, &[job]).unwrap();
            let least = tried[0].run(CloudPolicy::Omniscient).cost;
            if ticks <= 4 && odd_ms == 0 {
                let all = by_trying_zones(&market, start, &job);
                prop_assert!((all - least).abs() < 1e-9 * all);
            }
            for policy in CAUSAL {
                let run = tried[0].run(policy);
                prop_assert!(!run.missed, "{policy:?} misses");
                prop_assert!(run.cost >= least * (1.0 - 1e-12), "{policy:?}: {} below {least}", run.cost);
            }
        }

        /// An enemy: spot is up everywhere until the job has been on it for `patience` ticks; then it dies wherever the job is, and later everywhere.
        #[test]
        fn nor_does_one_that_hates_it(
            tick_min in 3i64..14,
            work_min in 5i64..60,
            spare_min in 0i64..40,
            changeover_min in 0i64..20,
            patience in 1usize..4,
            all_at_once in any::<bool>(),
            odd_ms in 0i64..3,
        ) {
            let tick_ms = tick_min * MIN;
            let job = DeadlineJob {
                work_ms: work_min * MIN,
                deadline_ms: (work_min + changeover_min + spare_min) * MIN + odd_ms,
                changeover_ms: changeover_min * MIN,
                price_ratio: 3.0,
            };
            let ticks = job.ticks(tick_ms);
            prop_assume!(ticks <= 12);
            let places = places(&[0, 1], &[2.0, 2.0], 0.1, tick_ms);
            for policy in CAUSAL {
                let mut ahead: Vec<Row> = Vec::new();
                for _ in 0..ticks {
                    let (held, _) = held(policy, &places, &ahead, 0, &job);
                    let known = held.get(..ahead.len().min(held.len())).unwrap_or_default();
                    let last = known.last().copied().unwrap_or(ZoneHolding::Idle);
                    let on = known.iter().rev().take_while(|of| **of == last && matches!(of, ZoneHolding::Spot(_))).count();
                    let dies = on >= patience;
                    let up = [0, 1].map(|zone| !(dies && (all_at_once || last == ZoneHolding::Spot(zone))));
                    ahead.push((up.to_vec(), vec![1.0, 1.0]));
                }
                let (_, run) = held(policy, &places, &ahead, 0, &job);
                prop_assert!(!run.missed, "{policy:?}");
            }
        }
    }

    /// What comes after a tick changes no decision up to it, neither availability nor prices.
    #[test]
    fn the_future_changes_no_decision() {
        let job = DeadlineJob { work_ms: 600 * MIN, deadline_ms: 800 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let places = places(&[0, 1, 1], &[3.0, 2.5, 3.0], 0.2, 5 * MIN);
        let row = |tick: usize, turned: bool| -> Row {
            let up = [tick % 21 >= 7, tick % 22 < 11, tick % 20 / 5 == 1];
            let price = [1.0, 0.8 + 0.1 * (tick / 20 % 3) as f64, 0.7];
            let back = [0.5, 1.5, 1.0];
            if turned { (up.map(|up| !up).to_vec(), back.to_vec()) } else { (up.to_vec(), price.to_vec()) }
        };
        let start = 300;
        for cut in [1, 60, 100] {
            let one: Vec<Row> = (0..start + 160).map(|tick| row(tick, false)).collect();
            let other: Vec<Row> = (0..start + 160).map(|tick| row(tick, tick >= start + cut)).collect();
            for policy in CAUSAL {
                let [first, second] = [&one, &other].map(|rows| held(policy, &places, rows, start, &job).0);
                assert_eq!(first.get(..cut), second.get(..cut), "{policy:?}");
            }
        }
    }
}
