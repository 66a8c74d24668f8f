//! The ways to run a job: on which instances, how many, on demand or on spot, how long that takes and what it costs.
//!
//! A job may run on each number of GPUs that was measured on the offer's GPU type, and, with forecasts, on each number that whole instances have. It takes the fewest instances with so many GPUs, and pays for all of them. On several instances
//! it is as fast as it was measured with its GPUs on machines apart ([`ScalingTable::across`]).
//!
//! ```text
//! time = start + steps / rate · stretch / available          cost = instances · price · time, rounded up to the billing unit
//! ```
//!
//! On spot, `stretch` is what checkpoints, interruptions and restarts make of a run ([`crate::market::overhead`]), with n instances interrupted n times as often, and the time is longer by the share of the time in which spot cannot
//! be had; that is not paid for. Both are means, so a job with a deadline is not put on spot: `plan
//! rent job` guarantees deadlines there.
//!
//! O(offers × numbers of GPUs). Worked example: 1,000,000 steps at 36 a second on 4 GPUs of an instance with 8 that costs 24 an hour take 7.72 h and cost 185.19: half of the instance is idle.

use schemars::JsonSchema;
use serde::Serialize;

use super::job::RentedJob;
use super::scaling::{RateBasis, ScalingChoice, ScalingTable};
use crate::market::offers::{InstanceOffer, Offers};
use crate::market::overhead::stretch;
use crate::plan::checkpoint::CheckpointCosts;

/// Terms of the rent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RentMarket {
    /// On demand.
    OnDemand,
    /// Spot.
    Spot,
}

impl RentMarket {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::OnDemand => "on demand",
            Self::Spot => "spot",
        }
    }

    /// Price of an hour of an instance; `None` where it is not sold so.
    pub fn price(self, offer: &InstanceOffer) -> Option<f64> {
        match self {
            Self::OnDemand => offer.on_demand,
            Self::Spot => offer.spot.as_ref().map(|spot| spot.price),
        }
    }

    /// Most instances that can be had; `None` without a limit.
    pub fn limit(self, offer: &InstanceOffer) -> Option<u32> {
        match self {
            Self::OnDemand => offer.on_demand_limit,
            Self::Spot => offer.spot.as_ref()?.limit,
        }
    }
}

/// How jobs are run and billed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RentTerms {
    /// Most instances of one job.
    pub most_instances: u32,
    /// Time from the order to the first step, seconds; paid for.
    pub start_s: f64,
    /// Billing unit, seconds.
    pub bill_s: f64,
    /// Whether spot may be used.
    pub spot: bool,
    /// Whether numbers of GPUs that were not measured may be used.
    pub forecasts: bool,
    /// Costs of checkpoints and restarts on spot.
    pub costs: CheckpointCosts,
}

/// A way to run a job.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RentOption {
    /// The offer, a place in [`Offers::instances`].
    #[serde(skip)]
    #[schemars(skip)]
    pub offer: usize,
    /// Terms.
    pub market: RentMarket,
    /// Instances.
    pub instances: u32,
    /// GPUs that the job uses, at most those of the instances.
    pub gpus: u32,
    /// Steps a second.
    pub steps_per_s: f64,
    /// How the rate is known.
    pub basis: RateBasis,
    /// Expected time to the end, with the start, seconds.
    pub time_s: f64,
    /// Expected time to the end with the margin of forecasts, seconds: what is compared with the
    /// deadline.
    pub safe_s: f64,
    /// Expected cost.
    pub cost: f64,
}

/// What a time costs on some instances, at a price an hour of one.
pub fn billed(instances: u32, price_per_h: f64, time_s: f64, bill_s: f64) -> f64 {
    // A whole number of units is not one more for the sake of a float.
    let units = (time_s / bill_s - 1e-9).ceil().max(1.0);
    f64::from(instances) * price_per_h * units * bill_s / 3600.0
}

/// The throughputs' name of an offer's GPU type: that of the offer itself, else one of the names that it serves as well.
pub(super) fn gpu_of<'t>(table: &'t ScalingTable, offers: &Offers, offer: &InstanceOffer) -> Option<&'t str> {
    let pool = offers.pools.get(offers.pool_of(&offer.gpu)?)?;
    let types = table.gpu_types();
    let own = types.iter().find(|gpu| offer.gpu.eq_ignore_ascii_case(gpu));
    let serves = |gpu: &&String| pool.names.iter().any(|name| name.eq_ignore_ascii_case(gpu));
    own.or_else(|| types.iter().find(serves)).map(String::as_str)
}

/// GPU types that are offered and were measured, as the throughputs name them.
pub fn offered_types<'t>(table: &'t ScalingTable, offers: &Offers) -> Vec<&'t str> {
    let mut result: Vec<&str> = offers.instances.iter().filter_map(|offer| gpu_of(table, offers, offer)).collect();
    result.sort_unstable();
    result.dedup();
    result
}

/// All ways to run a job that keep its deadline, and the least time in which any way would be done; in order of offers and GPUs.
pub fn options(
    job: &RentedJob,
    table: &ScalingTable,
    choice: &ScalingChoice,
    offers: &Offers,
    terms: &RentTerms,
) -> (Vec<RentOption>, Option<f64>) {
    let mut result: Vec<RentOption> = Vec::new();
    for (at, offer) in offers.instances.iter().enumerate() {
        let Some(gpu) = gpu_of(table, offers, offer) else { continue };
        let most = offer.gpus.saturating_mul(terms.most_instances);
        let mut numbers: Vec<u32> = table.points(gpu, &job.job_type).iter().map(|(gpus, _)| *gpus).collect();
        if terms.forecasts {
            numbers.extend((1..=terms.most_instances).map(|instances| instances * offer.gpus));
        }
        numbers.extend(table.apart(gpu, &job.job_type).iter().map(|(gpus, _)| *gpus));
        numbers.retain(|gpus| *gpus <= most);
        numbers.sort_unstable();
        numbers.dedup();
        for gpus in numbers {
            let instances = gpus.div_ceil(offer.gpus);
            let rate = table.on(gpu, &job.job_type, (gpus, offer.gpus), choice);
            let Some(rate) = rate.filter(|rate| terms.forecasts || !rate.basis.is_forecast()) else { continue };
            let run = |steps_per_s: f64| job.steps / steps_per_s;
            let of = |market, price: f64, time_s: f64, paid_s: f64, safe_s: f64| RentOption {
                offer: at,
                market,
                instances,
                gpus,
                steps_per_s: rate.steps_per_s,
                basis: rate.basis,
                time_s,
                safe_s,
                cost: billed(instances, price, paid_s, terms.bill_s),
            };
            if let Some(price) = offer.on_demand {
                let time_s = terms.start_s + run(rate.steps_per_s);
                let safe_s = terms.start_s + run(rate.safe_steps_per_s);
                result.push(of(RentMarket::OnDemand, price, time_s, time_s, safe_s));
            }
            if let Some(spot) = offer.spot.as_ref().filter(|_| terms.spot && job.deadline_s.is_none()) {
                let times = spot.interrupted_every_s.map_or(1.0, |every_s| {
                    stretch(&terms.costs, run(rate.steps_per_s), every_s / f64::from(instances))
                });
                let available: f64 = spot.availability.iter().map(|(share, weight)| share * weight).sum();
                let paid_s = terms.start_s + run(rate.steps_per_s) * times;
                let time_s = paid_s / available;
                if time_s.is_finite() {
                    result.push(of(RentMarket::Spot, spot.price, time_s, paid_s, time_s));
                }
            }
        }
    }
    let fastest = result.iter().map(|option| option.safe_s).reduce(f64::min);
    result.retain(|option| job.deadline_s.is_none_or(|deadline_s| option.safe_s <= deadline_s));
    (result, fastest)
}

/// Pareto front of time and cost: options that no other is as fast and as cheap as, the cheapest
/// first.
pub fn front(options: &[RentOption]) -> Vec<RentOption> {
    let mut sorted = options.to_vec();
    sorted.sort_by(|a, b| {
        a.cost.total_cmp(&b.cost).then(a.time_s.total_cmp(&b.time_s)).then(a.instances.cmp(&b.instances))
    });
    let mut least = f64::INFINITY;
    sorted.retain(|option| {
        let is_faster = option.time_s < least;
        least = least.min(option.time_s);
        is_faster
    });
    sorted
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::super::scaling::ScalingModel;
    use super::super::scaling::tests::rate;
    use super::*;

    pub(in crate::instances) const TERMS: RentTerms = RentTerms {
        most_instances: 1,
        start_s: 0.0,
        bill_s: 1.0,
        spot: false,
        forecasts: false,
        costs: CheckpointCosts { checkpoint_s: 300.0, restart_s: 600.0 },
    };

    pub(in crate::instances) fn offers() -> Offers {
        let text = "[[instance]]\nname = \"one\"\ngpu = \"V\"\ngpus = 1\non_demand = 3.0\n\
                    [[instance]]\nname = \"eight\"\ngpu = \"V\"\ngpus = 8\non_demand = 24.0\non_demand_limit = 2\nspot = { price = 8.0, available = 0.8 }\n\
                    [[instance]]\nname = \"old\"\ngpu = \"K\"\ngpus = 1\non_demand = 1.0\n";
        Offers::parse("o.toml", text).unwrap()
    }

    pub(in crate::instances) fn table() -> ScalingTable {
        ScalingTable::new(&[
            rate("v", "a", 1, 10.0),
            rate("v", "a", 4, 36.0),
            rate("v", "a", 8, 60.0),
            rate("k", "a", 1, 2.0),
        ])
    }

    pub(in crate::instances) fn job(steps: f64, deadline_h: Option<f64>) -> RentedJob {
        RentedJob { name: "j".into(), job_type: "a".into(), steps, deadline_s: deadline_h.map(|hours| hours * 3600.0) }
    }

    #[test]
    fn the_worked_example() {
        let choice = ScalingChoice::bare(ScalingModel::Between);
        let (result, fastest) = options(&job(1e6, None), &table(), &choice, &offers(), &TERMS);
        let of = |offer: usize, gpus: u32| {
            result.iter().find(|option| option.offer == offer && option.gpus == gpus).unwrap()
        };
        assert!((of(1, 4).cost - 185.185).abs() < 1e-2 && (of(1, 4).time_s / 3600.0 - 7.716).abs() < 1e-3);
        assert!((of(0, 1).cost - 83.333).abs() < 1e-2 && (of(2, 1).cost - 138.889).abs() < 1e-2);
        assert_eq!(result.len(), 1 + 3 + 1);
        assert!((fastest.unwrap() - 1e6 / 60.0).abs() < 1e-9);
        // Within a day only the eight are fast enough; of the ways there, 8 GPUs are cheaper and faster than 4 and 1.
        let (result, _) = options(&job(1e6, Some(24.0)), &table(), &choice, &offers(), &TERMS);
        assert!(result.iter().all(|option| option.offer == 1 && option.gpus > 1));
        let kept = front(&result);
        assert_eq!((kept.len(), kept[0].gpus), (1, 8));
    }

    #[test]
    fn spot_is_slower_where_it_is_away_and_is_no_place_for_a_deadline() {
        let choice = ScalingChoice::bare(ScalingModel::Between);
        let terms = RentTerms { spot: true, ..TERMS };
        let (result, _) = options(&job(1e6, None), &table(), &choice, &offers(), &terms);
        let spot = result.iter().find(|option| option.market == RentMarket::Spot && option.gpus == 8).unwrap();
        // 16,667 s of work, paid for, in 20,833 s.
        assert!((spot.time_s - 1e6 / 60.0 / 0.8).abs() < 1e-6 && (spot.cost - 8.0 * 16_667.0 / 3600.0).abs() < 1e-9);
        let (result, _) = options(&job(1e6, Some(100.0)), &table(), &choice, &offers(), &terms);
        assert!(result.iter().all(|option| option.market == RentMarket::OnDemand));
    }

    #[test]
    fn bills_are_in_whole_units() {
        assert_eq!(billed(2, 3.0, 3_600.0, 3_600.0), 6.0);
        assert_eq!(billed(2, 3.0, 3_601.0, 3_600.0), 12.0);
        assert_eq!(billed(1, 3.6, 0.5, 1.0), 0.001);
    }

    #[test]
    fn an_offer_is_of_its_own_gpu_type_before_others_that_it_serves() {
        let table = ScalingTable::new(&[rate("A100", "a", 1, 10.0), rate("a100-80gb", "a", 1, 20.0)]);
        let text = "[[instance]]\nname = \"one\"\ngpu = \"A100-80GB\"\nalso = [\"A100\"]\ngpus = 1\non_demand = 3.0\n";
        let offers = Offers::parse("o.toml", text).unwrap();
        assert_eq!(gpu_of(&table, &offers, &offers.instances[0]), Some("a100-80gb"));
        let older = ScalingTable::new(&[rate("A100", "a", 1, 10.0)]);
        assert_eq!(gpu_of(&older, &offers, &offers.instances[0]), Some("A100"));
    }
}
