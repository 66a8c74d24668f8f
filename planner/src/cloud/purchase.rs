//! What a plan that is followed buys: hours of instances on spot and on-demand, and what they cost.
//!
//! The hours are those of the plan's policy on the windows that it is reported on: their mean, with the interval of the mean, windows drawn anew. They are priced at what an instance costs at the
//! end of the data: spot in the zone that is tried first, on-demand where it is begun. Where no price is known there is no cost, as the price ratio alone says none. The egress of
//! checkpoints is not in it.
//!
//! O(windows). Worked example: windows of 30 h on spot and 20 h on-demand, and of 40 h and 10 h, are 35 h (30 to 40) and 15 h (10 to 20). At 1 and 3 dollars an hour they cost 90 and 70: 80 (70 to 90).

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Column, ReportTable, format};
use tracecast_analytics::time::HOUR_MS;

use super::availability::SpotSeries;
use super::job::{Holding, JobRun};
use super::market::is_paid_in_dollars;
use super::request::CloudRequest;
use super::zones_plan::ZonesNow;
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emitted::{number, table};
use crate::plan::interval::mean;
use crate::replay::compare::IntervalEstimate;

/// Instances of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudPurchase {
    /// Spot or on-demand.
    pub how: Holding,
    /// Zones, in the order in which they are tried.
    pub zones: Vec<String>,
    /// Most of them at once.
    pub instances: u32,
    /// Hours of one instance.
    pub instance_h: IntervalEstimate,
    /// Dollars an hour at the end of the data, if known.
    pub usd_per_h: Option<f64>,
    /// Dollars, if known.
    pub cost_usd: Option<IntervalEstimate>,
}

/// What a plan buys.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudPurchases {
    /// Spot, and on-demand.
    pub kinds: Vec<CloudPurchase>,
    /// Dollars of all of it, if known.
    pub cost_usd: Option<IntervalEstimate>,
    /// Dollars of all on-demand, at the same price, if known.
    pub all_on_demand_usd: Option<f64>,
}

/// The job on-demand from beginning to end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CloudOnDemand {
    /// Hours of one instance, one changeover of each included; their mean where the work is uncertain.
    pub instance_h: f64,
    /// Dollars an hour at the end of the data, if known.
    pub usd_per_h: Option<f64>,
    /// Dollars, if known.
    pub cost_usd: Option<f64>,
}

impl CloudOnDemand {
    /// Of what is asked, in the zone that was chosen or over several.
    pub(super) fn of(
        (series, zone): (&[SpotSeries], Option<&SpotSeries>),
        request: &CloudRequest,
        zones: Option<&ZonesNow>,
    ) -> Self {
        let usd_per_h = match zones {
            // In the zone that is cheapest for all of the job, wherever the plan would go on-demand from what it holds now.
            Some(now) if is_paid_in_dollars(series) => {
                now.zones.iter().map(|zone| zone.on_demand_usd_per_h).min_by(f64::total_cmp)
            }
            Some(_) => None,
            None => prices(series, zone, request, zones)[1],
        };
        Self::at(usd_per_h, request)
    }

    /// Of what is asked, at a price.
    pub(super) fn at(usd_per_h: Option<f64>, request: &CloudRequest) -> Self {
        // As costs are: the mean over what an uncertain work may come to.
        let work_ms =
            request.uncertain.as_ref().map_or(request.work_ms as f64, |work| work.mean_done(work.top_ms() as f64));
        let instance_h = f64::from(request.need) * (work_ms + request.changeover_ms as f64) / HOUR_MS as f64;
        Self { instance_h, usd_per_h, cost_usd: usd_per_h.map(|usd| usd * instance_h) }
    }

    /// What it costs, in words: `48.2 instance-hours, 147.49 dollars at 3.0600 dollars an hour`.
    pub(super) fn in_words(&self, price_ratio: f64) -> String {
        let hours = format!("{} instance-hours", format::float(self.instance_h, 1));
        match (self.cost_usd, self.usd_per_h) {
            (Some(cost), Some(usd)) => {
                format!("{hours}, {} dollars at {} dollars an hour", format::float(cost, 2), format::float(usd, 4))
            }
            _ => format!(
                "{hours}, as much as {} hours on spot at the price ratio of {}",
                format::float(self.instance_h * price_ratio, 1),
                format::float(price_ratio, 2)
            ),
        }
    }
}

/// Prices of an instance at the end of the data: spot and on-demand, dollars an hour.
fn prices(
    series: &[SpotSeries],
    zone: Option<&SpotSeries>,
    request: &CloudRequest,
    zones: Option<&ZonesNow>,
) -> [Option<f64>; 2] {
    if let Some(now) = zones {
        // Without prices a market counts in dollars that nobody pays.
        if !is_paid_in_dollars(series) {
            return [None, None];
        }
        let of = |name: Option<&String>| now.zones.iter().find(|zone| Some(&zone.zone) == name);
        let begun = of(Some(&now.on_demand_zone)).map(|zone| zone.on_demand_usd_per_h);
        return [of(now.order.first()).and_then(|zone| zone.spot_usd_per_h), begun];
    }
    let Some(zone) = zone else { return [None, None] };
    match (&zone.price, zone.list_price) {
        (Some(price), _) => {
            [price.spot.iter().rev().flatten().next().copied(), price.on_demand_or(request.price_ratio)]
        }
        (None, Some(listed)) => [Some(listed / request.price_ratio), Some(listed)],
        (None, None) => [None, None],
    }
}

impl CloudPurchases {
    /// Of the runs of a plan's policy on the windows it is reported on. `zone` is the one that was chosen, or `zones` says what to do over several.
    pub(super) fn of(
        runs: &[JobRun],
        (series, zone): (&[SpotSeries], Option<&SpotSeries>),
        request: &CloudRequest,
        zones: Option<&ZonesNow>,
    ) -> Self {
        // Lanes of an elastic job count each instance; the others run on all of theirs at once.
        let at_once = if request.elastic { 1 } else { request.need };
        let hours = |ms: i64| f64::from(at_once) * ms as f64 / HOUR_MS as f64;
        let windows: Vec<[f64; 2]> = runs.iter().map(|run| [hours(run.spot_ms), hours(run.on_demand_ms)]).collect();
        let prices = prices(series, zone, request, zones);
        let named = |name: Option<&String>| name.cloned().into_iter().collect::<Vec<String>>();
        let own = || named(zone.and_then(|zone| zone.zone.as_ref()));
        let places = match zones {
            Some(zones) => [zones.order.clone(), vec![zones.on_demand_zone.clone()]],
            None => [own(), own()],
        };
        let kinds = [Holding::Spot, Holding::OnDemand].into_iter().zip(prices).zip(places).enumerate();
        let kinds = kinds.map(|(at, ((how, usd_per_h), zones))| {
            let instance_h = mean(&windows.iter().filter_map(|window| window.get(at)).copied().collect::<Vec<_>>());
            let cost = |usd: f64| IntervalEstimate {
                value: usd * instance_h.value,
                low: usd * instance_h.low,
                high: usd * instance_h.high,
            };
            let instances = request.need;
            CloudPurchase { how, zones, instances, instance_h, usd_per_h, cost_usd: usd_per_h.map(cost) }
        });
        let total = match prices {
            [Some(spot), Some(on_demand)] => {
                let costs = windows.iter().map(|[on_spot, other]| spot * on_spot + on_demand * other);
                Some(mean(&costs.collect::<Vec<_>>()))
            }
            _ => None,
        };
        let all_on_demand_usd = CloudOnDemand::of((series, zone), request, zones).cost_usd;
        Self { kinds: kinds.collect(), cost_usd: total, all_on_demand_usd }
    }

    /// As a CSV: a line of each kind, and one of all where prices are known.
    ///
    /// # Errors
    /// If it cannot be written, which no answer should bring about.
    pub fn list(&self, instance: Option<&str>) -> Result<Emitted> {
        let head = [
            "how",
            "zones",
            "instance",
            "most_at_once",
            "instance_hours",
            "instance_hours_low",
            "instance_hours_high",
            "price_per_hour_usd",
            "cost_usd",
            "cost_usd_low",
            "cost_usd_high",
        ];
        let three = |of: Option<IntervalEstimate>, told: &dyn Fn(f64) -> String| match of {
            Some(of) => [of.value, of.low, of.high].map(told),
            None => Default::default(),
        };
        let cents = |usd: f64| format!("{usd:.2}");
        let kinds = self.kinds.iter().map(|kind| {
            let [hours, hours_low, hours_high] = three(Some(kind.instance_h), &number);
            let [cost, low, high] = three(kind.cost_usd, &cents);
            let price = kind.usd_per_h.map_or_else(String::new, number);
            let instance = instance.unwrap_or_default().to_owned();
            let most = kind.instances.to_string();
            let (how, zones) = (kind.how.in_words().to_owned(), kind.zones.join(" "));
            [how, zones, instance, most, hours, hours_low, hours_high, price, cost, low, high]
        });
        // Without prices nothing is known of all of them.
        let all = self.cost_usd.map(|_| {
            let [cost, low, high] = three(self.cost_usd, &cents);
            let blank = String::new;
            ["all".to_owned(), blank(), blank(), blank(), blank(), blank(), blank(), blank(), cost, low, high]
        });
        table("cloud-purchases.csv", head, kinds.chain(all))
    }

    /// As a table of a report.
    pub(super) fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "What that buys",
            vec![
                Column::text("Instances"),
                Column::number("Hours of one instance"),
                Column::text("95 % interval"),
                Column::number("Now, $/h"),
                Column::number("Cost, $"),
                Column::text("95 % interval of the cost"),
            ],
        );
        let span = |of: Option<IntervalEstimate>, digits: usize| {
            of.map_or_else(String::new, |of| format!("{:.digits$} to {:.digits$}", of.low, of.high))
        };
        let dollars = |of: Option<IntervalEstimate>| Cell::opt(of, |of| Cell::float(of.value, 2));
        for kind in &self.kinds {
            table.rows.push(vec![
                kind.how.in_words().into(),
                Cell::float(kind.instance_h.value, 1),
                span(Some(kind.instance_h), 1).into(),
                Cell::opt(kind.usd_per_h, |price| Cell::float(price, 4)),
                dollars(kind.cost_usd),
                span(kind.cost_usd, 2).into(),
            ]);
        }
        if self.cost_usd.is_some() {
            let blank = || Cell::from(String::new());
            let cost = self.cost_usd;
            table.rows.push(vec!["all".into(), blank(), blank(), blank(), dollars(cost), span(cost, 2).into()]);
        }
        table.note = Some(
            "Hours on the later windows, priced as instances cost at the end of the data, without egress. Where no price is known there is no cost. The share of all on-demand is at the prices of the windows, so times the dollars of all on-demand it need not be this cost."
                .to_owned(),
        );
        table
    }
}

#[cfg(test)]
mod tests {
    use super::super::price::ZonePrice;
    use super::super::request::ZonesTogether;
    use super::*;

    fn runs() -> [JobRun; 2] {
        [(30, 20), (40, 10)].map(|(spot, on_demand)| JobRun {
            spot_ms: spot * HOUR_MS,
            on_demand_ms: on_demand * HOUR_MS,
            ..JobRun::default()
        })
    }

    fn request(need: u32, elastic: bool) -> CloudRequest {
        CloudRequest {
            work_ms: 50 * HOUR_MS,
            deadline_ms: Some(60 * HOUR_MS),
            slacks: Vec::new(),
            changeover_ms: 0,
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 2,
            need,
            elastic,
            together: None,
            moving: ZonesTogether::default(),
            uncertain: None,
        }
    }

    #[test]
    fn the_worked_example() {
        let price = ZonePrice { spot: vec![Some(9.0), Some(1.0)], on_demand: Some(3.0), audit: Default::default() };
        let zone = SpotSeries {
            zone: Some("us-east-1a".to_owned()),
            price: Some(price),
            ..SpotSeries::of_counts("a", HOUR_MS, vec![1.0; 2])
        };
        let series = std::slice::from_ref(&zone);
        let found = CloudPurchases::of(&runs(), (series, Some(&zone)), &request(1, false), None);
        let near = |of: IntervalEstimate, value: f64, low: f64, high: f64| {
            [of.value - value, of.low - low, of.high - high].iter().all(|off| off.abs() < 1e-9)
        };
        assert!(near(found.kinds[0].instance_h, 35.0, 30.0, 40.0) && near(found.kinds[1].instance_h, 15.0, 10.0, 20.0));
        assert!(found.cost_usd.is_some_and(|cost| near(cost, 80.0, 70.0, 90.0)), "{found:?}");
        assert_eq!(found.all_on_demand_usd, Some(150.0));
        let list = found.list(Some("V100:1")).map(|(_, text)| text).unwrap_or_default();
        assert!(list.contains("spot,us-east-1a,V100:1,1,35,30,40,1,35.00,30.00,40.00\n"), "{list}");
        assert!(list.ends_with("all,,,,,,,,80.00,70.00,90.00\n"), "{list}");
        // Four at once, of which each lane is counted where the job is elastic; and without prices.
        let four = CloudPurchases::of(&runs(), (series, Some(&zone)), &request(4, false), None);
        let lanes = CloudPurchases::of(&runs(), (series, Some(&zone)), &request(4, true), None);
        assert!(
            near(four.kinds[0].instance_h, 140.0, 120.0, 160.0) && near(lanes.kinds[0].instance_h, 35.0, 30.0, 40.0)
        );
        let bare = SpotSeries { price: None, ..zone };
        let found = CloudPurchases::of(&runs(), (std::slice::from_ref(&bare), Some(&bare)), &request(1, false), None);
        assert_eq!((found.cost_usd, found.all_on_demand_usd, found.kinds[0].usd_per_h), (None, None, None));
        let list = found.list(Some("V100:1")).map(|(_, text)| text).unwrap_or_default();
        assert!(list.lines().count() == 3 && !list.contains("all,"), "{list}");
    }
}
