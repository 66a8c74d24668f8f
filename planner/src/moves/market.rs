//! What can be rented at which price when, and how fast jobs are there.
//!
//! An **offer** is an instance type in a zone, with its spot price as [steps](crate::cloud::price). Offers of a GPU type that the throughputs do not know, or whose number of GPUs is not known, are left aside and named.
//!
//! Where several providers are in the history, it begins when the last of them has a price, and ends with the first that has none any more: else a rule would seem to gain by what was only quoted later.
//!
//! O(quotes log quotes). Worked example: quotes of `p3.2xlarge` in `us-east-1a` and `us-east-1b` are two offers of one V100 in one region.

use std::collections::{BTreeMap, BTreeSet};

use tracecast_analytics::Trace;

use crate::cloud::market::region_of;
use crate::cloud::price::{PriceSteps, Quote, QuoteAudit};
use crate::error::{Error, Result};
use crate::instances::job::RentedJob;
use crate::instances::scaling::ScalingTable;

/// An instance type in a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct PricedOffer {
    /// Who sells it.
    pub provider: String,
    /// Zone, or region where prices are of regions.
    pub zone: String,
    /// Provider and region: moves within it cost no egress.
    pub region: String,
    /// Instance type.
    pub instance: String,
    /// GPU type, as the throughputs name it.
    pub gpu: String,
    /// GPUs.
    pub gpus: u32,
    /// Dollars an hour.
    pub price: PriceSteps,
}

impl PricedOffer {
    /// `p3.2xlarge in us-east-1a`.
    pub fn name(&self) -> String {
        format!("{} in {}", self.instance, self.zone)
    }
}

/// A history of prices.
#[derive(Debug, Clone, PartialEq)]
pub struct PriceHistory {
    /// Offers, by provider, zone and instance type.
    pub offers: Vec<PricedOffer>,
    /// From when on all providers have prices, milliseconds.
    pub begins_ms: i64,
    /// Until when all of them have.
    pub ends_ms: i64,
    /// What became of the quotes of all offers.
    pub audit: QuoteAudit,
    /// Instance types that are left aside, as their GPUs were not measured or are not known.
    pub aside: Vec<String>,
}

/// A job, and how fast it is on each offer.
#[derive(Debug, Clone, PartialEq)]
pub struct PricedJob {
    /// What it is called.
    pub name: String,
    /// Steps that it makes.
    pub steps: f64,
    /// Steps a second on each offer, and the GPUs that it uses; nothing where it does not run.
    pub speed: Vec<Option<(f64, u32)>>,
}

impl PricedJob {
    /// Steps a second on an offer.
    pub fn on(&self, offer: usize) -> Option<f64> {
        self.speed.get(offer).copied().flatten().map(|(speed, _)| speed)
    }
}

impl PriceHistory {
    /// Of a source that was read, for the GPU types of the throughputs; `name` is what the source is called. Of its zones those count that begin with one of `zones`; all of them if there is none.
    ///
    /// # Errors
    /// If it holds no spot price of an instance whose GPUs were measured, or a name is that of no zone.
    pub fn of(trace: &Trace, name: &str, table: &ScalingTable, zones: &[String]) -> Result<Self> {
        let prices = &trace.prices;
        let named: BTreeSet<&str> = (0..prices.ts.len()).filter_map(|row| prices.zone.get(row)).collect();
        let is_named = |asked: &String| named.iter().any(|zone| zone.starts_with(asked.as_str()));
        if let Some(unknown) = zones.iter().find(|asked| !is_named(asked)) {
            return Err(Error::malformed(
                "zone with prices",
                unknown.clone(),
                format!("there are {}", named.into_iter().collect::<Vec<_>>().join(", ")),
            ));
        }
        let mut quotes: BTreeMap<(&str, &str, &str), Vec<Quote>> = BTreeMap::new();
        let mut gpus: BTreeMap<(&str, &str), (String, u32)> = BTreeMap::new();
        let mut aside: Vec<String> = Vec::new();
        for row in 0..prices.ts.len() {
            let (Some("spot"), Some(at_ms)) = (prices.kind.get(row), prices.ts.get(row)) else { continue };
            let (Some(zone), Some(instance)) = (prices.zone.get(row), prices.instance.get(row)) else { continue };
            if !zones.is_empty() && !zones.iter().any(|asked| zone.starts_with(asked.as_str())) {
                continue;
            }
            let provider = prices.provider.get(row).unwrap_or_default();
            let measured = |gpu: &str| table.gpu_types().iter().find(|known| known.eq_ignore_ascii_case(gpu)).cloned();
            let number = prices.gpus.get(row).filter(|gpus| *gpus >= 1.0 && gpus.fract() == 0.0);
            let of = prices.gpu_type.get(row).and_then(measured).zip(number);
            let Some((gpu, number)) = of else {
                aside.push(instance.to_owned());
                continue;
            };
            gpus.insert((provider, instance), (gpu, number as u32));
            let quote = Quote { at_ms, usd_per_h: prices.usd_per_h.get(row) };
            quotes.entry((provider, zone, instance)).or_default().push(quote);
        }
        aside.sort_unstable();
        aside.dedup();
        let mut found = Self { offers: Vec::new(), begins_ms: 0, ends_ms: 0, audit: QuoteAudit::default(), aside };
        let mut spans: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for ((provider, zone, instance), quotes) in quotes {
            let price = PriceSteps::of(quotes);
            found.audit = found.audit.with(&price.audit);
            let (Some((first_ms, last_ms)), Some((gpu, gpus))) = (price.span(), gpus.get(&(provider, instance))) else {
                continue;
            };
            let span = spans.entry(provider).or_insert((first_ms, last_ms));
            *span = (span.0.min(first_ms), span.1.max(last_ms));
            found.offers.push(PricedOffer {
                provider: provider.to_owned(),
                zone: zone.to_owned(),
                region: format!("{provider}/{}", region_of(zone)),
                instance: instance.to_owned(),
                gpu: gpu.clone(),
                gpus: *gpus,
                price,
            });
        }
        found.begins_ms = spans.values().map(|span| span.0).max().unwrap_or(0);
        found.ends_ms = spans.values().map(|span| span.1).min().unwrap_or(0);
        if spans.len() == 1 && found.begins_ms >= found.ends_ms {
            return Err(Error::malformed(
                "history of prices",
                name.to_owned(),
                "it holds prices of one moment; give those of some weeks".to_owned(),
            ));
        }
        if !found.offers.is_empty() && found.begins_ms >= found.ends_ms {
            return Err(Error::malformed(
                "history of prices of the same weeks",
                name.to_owned(),
                format!(
                    "the prices of {} do not overlap in time; name one provider, or zones of one",
                    spans.into_keys().collect::<Vec<_>>().join(" and ")
                ),
            ));
        }
        if found.offers.is_empty() {
            return Err(Error::malformed(
                "history of spot prices of GPUs that were measured",
                name.to_owned(),
                format!(
                    "the throughputs are of {}; save `aws ec2 describe-spot-price-history` as JSON for instances with such GPUs{}",
                    table.gpu_types().join(", "),
                    if found.aside.is_empty() {
                        String::new()
                    } else {
                        format!(" (there are prices of {})", found.aside.join(", "))
                    }
                ),
            ));
        }
        Ok(found)
    }

    /// How fast a job is on each offer: with the number of GPUs that is fastest of those that were measured and that the instance has.
    ///
    /// # Errors
    /// If it runs on none.
    pub fn job(&self, job: &RentedJob, table: &ScalingTable) -> Result<PricedJob> {
        let speed = |offer: &PricedOffer| {
            let points = table.points(&offer.gpu, &job.job_type).iter().filter(|(gpus, _)| *gpus <= offer.gpus);
            points
                .copied()
                .map(|(gpus, speed)| (speed, gpus))
                .reduce(|best, next| if next.0 > best.0 { next } else { best })
        };
        let speed: Vec<Option<(f64, u32)>> = self.offers.iter().map(speed).collect();
        if speed.iter().all(Option::is_none) {
            return Err(Error::malformed(
                "job type that was measured on an instance with prices",
                job.job_type.clone(),
                "give throughputs of it on a GPU type of the history, on no more GPUs than an instance has".to_owned(),
            ));
        }
        Ok(PricedJob { name: job.name.clone(), steps: job.steps, speed })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use tracecast_analytics::schema::PriceRow;
    use tracecast_analytics::time::HOUR_MS;
    use tracecast_predictors::interference::rates::GangRate;

    use super::*;

    /// Offers of given prices at given hours, each in the region of its zone.
    pub(in super::super) fn history(offers: &[(&str, &[(i64, f64)])], hours: i64) -> PriceHistory {
        let offer = |(zone, quotes): &(&str, &[(i64, f64)])| PricedOffer {
            provider: "aws".to_owned(),
            zone: (*zone).to_owned(),
            region: format!("aws/{}", region_of(zone)),
            instance: "x".to_owned(),
            gpu: "v100".to_owned(),
            gpus: 1,
            price: PriceSteps::of(
                quotes.iter().map(|(hour, usd)| Quote { at_ms: hour * HOUR_MS, usd_per_h: Some(*usd) }),
            ),
        };
        PriceHistory {
            offers: offers.iter().map(offer).collect(),
            begins_ms: 0,
            ends_ms: hours * HOUR_MS,
            audit: QuoteAudit::default(),
            aside: Vec::new(),
        }
    }

    /// A job of so many hours at 10 steps a second on the first offer, at other speeds on others.
    pub(in super::super) fn job(hours: f64, speeds: &[f64]) -> PricedJob {
        PricedJob {
            name: "run".to_owned(),
            steps: hours * 36_000.0,
            speed: speeds.iter().map(|speed| Some((*speed, 1))).collect(),
        }
    }

    fn priced(rows: &[(&str, &str, &str, &str, f64, i64, f64)]) -> Trace {
        let mut trace = Trace::default();
        for (provider, zone, instance, gpu, gpus, hour, usd) in rows {
            trace.prices.push(PriceRow {
                provider: Some((*provider).into()),
                zone: Some((*zone).into()),
                instance: Some((*instance).into()),
                gpu_type: Some((*gpu).into()),
                gpus: Some(*gpus),
                ts: Some(hour * HOUR_MS),
                usd_per_h: Some(*usd),
                kind: Some("spot".into()),
                ..PriceRow::default()
            });
        }
        trace
    }

    fn table() -> ScalingTable {
        let rate = |gpu: &str, gpus, steps_per_s| GangRate {
            gpu: gpu.to_owned(),
            job: "LM".to_owned(),
            gpus,
            steps_per_s,
            apart_steps_per_s: None,
        };
        ScalingTable::of(&[rate("v100", 1, 10.0), rate("v100", 4, 8.0), rate("v100", 8, 60.0), rate("k80", 1, 2.0)])
    }

    #[test]
    fn offers_are_instance_types_by_zone_with_the_fastest_measured_number() {
        let trace = priced(&[
            ("aws", "us-east-1a", "p3.8xlarge", "V100", 4.0, 0, 3.0),
            ("aws", "us-east-1a", "p3.8xlarge", "V100", 4.0, 9, 4.0),
            ("aws", "us-east-1b", "p3.16xlarge", "V100", 8.0, 2, 7.0),
            ("aws", "us-east-1b", "p3.16xlarge", "V100", 8.0, 5, 7.5),
            ("aws", "us-east-1b", "p4d.24xlarge", "A100", 8.0, 2, 9.0),
        ]);
        let found = PriceHistory::of(&trace, "prices.json", &table(), &[]).unwrap();
        assert_eq!(
            found.offers.iter().map(PricedOffer::name).collect::<Vec<_>>(),
            ["p3.8xlarge in us-east-1a", "p3.16xlarge in us-east-1b"]
        );
        assert_eq!(
            (found.begins_ms, found.ends_ms, found.aside.as_slice()),
            (0, 9 * HOUR_MS, &["p4d.24xlarge".to_owned()][..])
        );
        let asked = RentedJob { name: "a".to_owned(), job_type: "LM".to_owned(), steps: 1.0, deadline_s: None };
        // Four GPUs are slower than one.
        assert_eq!(found.job(&asked, &table()).unwrap().speed, [Some((10.0, 1)), Some((60.0, 8))]);
        let one = PriceHistory::of(&trace, "prices.json", &table(), &["us-east-1b".to_owned()]).unwrap();
        assert_eq!((one.offers.len(), one.begins_ms), (1, 2 * HOUR_MS));
        let told = PriceHistory::of(&trace, "prices.json", &table(), &["eu".to_owned()]).unwrap_err().to_string();
        assert!(told.contains("`eu`") && told.contains("us-east-1a, us-east-1b"), "{told}");
    }

    #[test]
    fn the_history_is_where_all_providers_have_prices() {
        let aws = ("aws", "us-east-1a", "p3.2xlarge", "V100", 1.0, 0, 1.0);
        let azure = ("azure", "us_east", "NC6", "K80", 1.0, 5, 0.2);
        let trace = priced(&[
            aws,
            (aws.0, aws.1, aws.2, aws.3, 1.0, 20, 1.1),
            azure,
            ("azure", "us_east", "NC6", "K80", 1.0, 12, 0.3),
        ]);
        let found = PriceHistory::of(&trace, "x", &table(), &[]).unwrap();
        assert_eq!((found.begins_ms, found.ends_ms), (5 * HOUR_MS, 12 * HOUR_MS));
        let told = PriceHistory::of(&priced(&[aws, azure]), "x", &table(), &[]).unwrap_err().to_string();
        assert!(told.contains("aws and azure do not overlap"), "{told}");
        let told = PriceHistory::of(&priced(&[("aws", "z", "p4d", "A100", 8.0, 0, 1.0)]), "x", &table(), &[])
            .unwrap_err()
            .to_string();
        assert!(told.contains("k80, v100") && told.contains("p4d"), "{told}");
    }
}
