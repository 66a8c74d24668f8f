//! What deferred jobs cost where some GPUs are reserved: what is in use beyond them at an instant is on demand.
//!
//! ```text
//! reserved    GPUs × price an hour × hours of the time that is billed, used or not
//! on demand   ∫ (GPUs in use − reserved, where more are) × price of a GPU and hour
//! electricity GPUs × kW × ∫ price of the hour, with --energy-price
//! ```
//!
//! So many jobs that start in the same clean hour cost money, and reserved GPUs that stand idle meanwhile are paid. Only the jobs of the time that is billed are in use here. Prices are those of the offers file of
//! `plan rent fleet`, the cheapest on-demand and, where there is one, the cheapest reserved price
//! by the GPU.
//!
//! O(jobs log jobs). Worked example: 2 reserved at 1 an hour, on demand 3 an hour. A job of 2 GPUs from 0:00 to 1:00 and one of 3 from 0:30 to 1:30: 3 GPUs beyond for 30 min and 1 for 30 min cost 6, and two hours reserved 4.

use tracecast_analytics::facts::occupancy::Steps;
use tracecast_analytics::time::HOUR_MS;

use crate::error::{Error, Result};
use crate::market::demand::UnwaitedJob;
use crate::market::offers::Offers;

/// Prices of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct DeferPrices {
    /// GPU type.
    pub gpu: String,
    /// GPUs that are reserved.
    pub reserved_gpus: f64,
    /// An hour of a reserved GPU; `None` where the offers have none, and none is reserved.
    pub reserved_per_h: Option<f64>,
    /// An hour of a GPU on demand.
    pub on_demand_per_h: f64,
}

/// Cost of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DeferSpent {
    /// Reserved GPUs.
    pub reserved: f64,
    /// Cost of GPUs on demand.
    pub on_demand: f64,
    /// Electricity.
    pub energy: f64,
}

impl DeferSpent {
    /// All of it.
    pub fn cost(&self) -> f64 {
        self.reserved + self.on_demand + self.energy
    }
}

impl DeferPrices {
    /// The prices of the GPU type of the jobs.
    ///
    /// # Errors
    /// If the jobs are of several types, or the type has no price on demand, or none reserved where GPUs are.
    pub fn new(offers: &Offers, jobs: &[UnwaitedJob], reserved_gpus: f64) -> Result<Self> {
        let first = jobs.first().map_or(0, |job| job.pool);
        if let Some(other) = jobs.iter().find(|job| job.pool != first) {
            let name = |pool: usize| offers.pools.get(pool).map_or("", |pool| pool.gpu.as_str());
            return Err(Error::malformed(
                "set of jobs of one GPU type, which --offers needs",
                format!("{}, {}", name(first), name(other.pool)),
                "choose the jobs of one type with --where, or leave --offers out".to_owned(),
            ));
        }
        let pool = offers.pools.get(first).ok_or_else(|| Error::defect("a job has no pool".to_owned()))?;
        let least = |prices: &mut dyn Iterator<Item = f64>| prices.min_by(f64::total_cmp);
        let each = |gpus: u32, price: f64| price / f64::from(gpus.max(1));
        let on_demand = least(&mut offers.of(pool).filter_map(|offer| Some(each(offer.gpus, offer.on_demand?))));
        let reserved =
            least(&mut offers.of(pool).flat_map(|offer| offer.reserved.iter().map(|of| each(offer.gpus, of.price))));
        let on_demand_per_h = on_demand.ok_or_else(|| {
            Error::file(
                offers.file.clone(),
                1,
                format!("no instance with the GPU `{}` has a price on demand; add on_demand", pool.gpu),
            )
        })?;
        if reserved_gpus > 0.0 && reserved.is_none() {
            return Err(Error::file(
                offers.file.clone(),
                1,
                format!(
                    "no instance with the GPU `{}` has a reserved price; add one, or leave --reserved out",
                    pool.gpu
                ),
            ));
        }
        Ok(Self { gpu: pool.gpu.clone(), reserved_gpus, reserved_per_h: reserved, on_demand_per_h })
    }

    /// What stretches in use cost, each from when to when and of how many GPUs, where so many hours are billed. O(stretches log stretches).
    pub fn spent(&self, used: Vec<(i64, i64, f64)>, hours: f64) -> DeferSpent {
        let (from, to) = used.iter().fold((i64::MAX, i64::MIN), |(from, to), held| (from.min(held.0), to.max(held.1)));
        let steps = Steps::of_intervals(used);
        let beyond: f64 = if from < to {
            steps
                .stretches(from, to)
                .map(|(from, to, gpus)| (gpus - self.reserved_gpus).max(0.0) * (to - from) as f64)
                .sum()
        } else {
            0.0
        };
        DeferSpent {
            reserved: self.reserved_gpus * self.reserved_per_h.unwrap_or(0.0) * hours,
            on_demand: beyond / HOUR_MS as f64 * self.on_demand_per_h,
            energy: 0.0,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::market::demand::tests::OFFERS;

    #[test]
    fn the_worked_example() {
        let prices =
            DeferPrices { gpu: "V".to_owned(), reserved_gpus: 2.0, reserved_per_h: Some(1.0), on_demand_per_h: 3.0 };
        let half = HOUR_MS / 2;
        let result = prices.spent(vec![(0, 2 * half, 2.0), (half, 3 * half, 3.0)], 2.0);
        assert!((result.on_demand - 6.0).abs() < 1e-9 && (result.reserved - 4.0).abs() < 1e-9, "{result:?}");
        assert_eq!(prices.spent(Vec::new(), 1.0).cost(), 2.0);
    }

    #[test]
    fn prices_are_the_cheapest_by_the_gpu() {
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let job = |pool: usize| UnwaitedJob { row: 0, pool, submit_ms: 0, run_ms: 1, gpus: 1.0 };
        let result = DeferPrices::new(&offers, &[job(0)], 3.0).unwrap();
        assert_eq!((result.on_demand_per_h, result.reserved_per_h), (2.5, Some(1.25)));
        let two = DeferPrices::new(&offers, &[job(0), job(1)], 3.0).unwrap_err().to_string();
        assert!(two.contains("--where"), "{two}");
    }
}
