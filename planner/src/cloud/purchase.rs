//! What a plan that is followed buys: hours of instances on spot and on-demand, and what they cost.
//!
//! The hours are those of the plan's policy: their mean on the windows that it is reported on, and how far they lie apart. One job buys what one window bought, so that is told by quantiles of single windows (2.5 % and 97.5 %), those of choice and
//! the later ones, in the zone of the plan. The interval of their mean would be narrower than what may come. Windows that all bought the same show no spread, and are **no** interval: then there is none, and where nothing was bought the chance that is left for some is told. With n windows
//! without overlap that is 1 − 0.05^(1/n), at 95 %.
//!
//! They are priced at what an instance costs at the end of the data: spot in the zone that is tried first, on-demand where it is begun. Where no price is known there is no cost, as the price ratio alone says none. The egress of
//! checkpoints is not in it. What probes of zones pay for is spot like that of the job, and counted with it, at the price of the same zone.
//!
//! O(windows). Worked example: windows of 30 h on spot and 20 h on-demand, and of 40 h and 10 h, are 35 h (30 to 40) and 15 h (10 to 20). At 1 and 3 dollars an hour they cost 90 and 70: 80 (70 to 90). Had
//! all of seven bought nothing on-demand, the chance that the next does would be up to 35 %.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, ReportTable, format};
use tracecast_analytics::time::HOUR_MS;

use super::job::{Holding, JobRun};
use super::request::CloudRequest;
use crate::cloud::zones::market::is_paid_in_dollars;
use crate::cloud::zones::plan::ZonesNow;
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::emit::{number, table};
use crate::plan::interval::average;
use crate::plan::{Emitted, tell};

/// An amount to expect: its mean, and where single windows lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Amount")]
pub struct CloudAmount {
    /// Mean on the windows that the plan is reported on.
    pub value: f64,
    /// The 2.5 % quantile of what a window bought, those of choice and those to report on; nothing where all bought the same, which shows no spread.
    pub low: Option<f64>,
    /// The 97.5 % quantile, likewise.
    pub high: Option<f64>,
}

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
    pub instance_h: CloudAmount,
    /// What `low` and `high` rest on, or why there are none.
    pub interval_of: String,
    /// Dollars an hour at the end of the data, if known.
    pub usd_per_h: Option<f64>,
    /// Dollars, if known.
    pub cost_usd: Option<CloudAmount>,
}

/// Purchases of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudPurchases {
    /// Spot, and on-demand.
    pub kinds: Vec<CloudPurchase>,
    /// Hours on spot that probes of zones pay for; mean on the windows that the plan is reported
    /// on.
    pub probes_h: f64,
    /// Windows from which the intervals are: those of choice and those to report on.
    pub windows: usize,
    /// How many of them do not overlap.
    pub disjoint: usize,
    /// Dollars of all of it, if known.
    pub cost_usd: Option<CloudAmount>,
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
    /// On-demand cost of a request, in the zone that was chosen or over several.
    pub(super) fn new(
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

    /// On-demand cost of a request at a price.
    pub(super) fn at(usd_per_h: Option<f64>, request: &CloudRequest) -> Self {
        // Costed as runs are: the mean over what an uncertain work may come to.
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

/// The share of windows below the interval, and that above it.
const TAIL: f64 = 0.025;
/// Most windows whose quantiles are their least and most: 0.025 of those less one is less than one.
const MOST_ENDS: usize = 40;

impl CloudAmount {
    /// The mean of what the later windows bought, and quantiles of what all did.
    fn new(early: &[f64], late: &[f64]) -> Self {
        let mut all: Vec<f64> = early.iter().chain(late).copied().collect();
        all.sort_unstable_by(f64::total_cmp);
        let last = all.len().saturating_sub(1) as f64;
        // Outwards, so that few windows give their least and most.
        let low = all.get((TAIL * last).floor() as usize).copied();
        let high = all.get(((1.0 - TAIL) * last).ceil() as usize).copied();
        let (low, high) = match (low, high) {
            // Less than a second of an hour is nothing.
            (Some(low), Some(high)) if high - low > 1.0 / 3600.0 => (Some(low), Some(high)),
            _ => (None, None),
        };
        Self { value: average(late.iter().copied()), low, high }
    }

    /// So many times as much.
    fn times(self, of: f64) -> Self {
        Self { value: of * self.value, low: self.low.map(|low| of * low), high: self.high.map(|high| of * high) }
    }

    /// `30.0 to 40.0`; nothing where there is no interval.
    fn span(self, digits: usize) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => format!("{low:.digits$} to {high:.digits$}"),
            _ => "none".to_owned(),
        }
    }

    /// What its interval rests on, or why there is none.
    fn interval_of(self, windows: usize, disjoint: usize) -> String {
        let tried = format!("{}, {disjoint} without overlap", format::counted(windows as u64, "window", "windows"));
        if self.low.is_some() {
            // Of fewer the quantiles are the ends.
            let what = if windows <= MOST_ENDS { "least and most" } else { "2.5 % and 97.5 % quantiles" };
            return format!("{what} of {tried}");
        }
        if self.value > 0.0 {
            return format!("none: {tried}, bought the same, which shows no spread");
        }
        let chance = 1.0 - 0.05f64.powf(1.0 / disjoint.max(1) as f64);
        format!("none: {tried}, bought none, which leaves a chance of up to {} for some", format::percent(chance))
    }
}

impl CloudPurchases {
    /// Totals of the runs of a plan's policy on the windows of choice and those it is reported on,
    /// `disjoint` of which do not overlap. `zone` is the one that was chosen, or `zones` says what
    /// to do over several.
    pub(super) fn new(
        (runs, disjoint): (&[Vec<JobRun>; 2], usize),
        (series, zone): (&[SpotSeries], Option<&SpotSeries>),
        request: &CloudRequest,
        zones: Option<&ZonesNow>,
    ) -> Self {
        // Lanes of an elastic job count each instance; the others run on all of theirs at once.
        let at_once = if request.elastic { 1 } else { request.need };
        let hours = |ms: i64| f64::from(at_once) * ms as f64 / HOUR_MS as f64;
        let [early, late] = runs;
        let each = |runs: &[JobRun], of: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
            runs.iter().map(|run| of(hours(run.spot_ms + run.probed_ms), hours(run.on_demand_ms))).collect()
        };
        let amount = |of: &dyn Fn(f64, f64) -> f64| CloudAmount::new(&each(early, of), &each(late, of));
        let windows = early.len() + late.len();
        let prices = prices(series, zone, request, zones);
        let named = |name: Option<&String>| name.cloned().into_iter().collect::<Vec<String>>();
        let own = || named(zone.and_then(|zone| zone.zone.as_ref()));
        let places = match zones {
            Some(zones) => [zones.order.clone(), vec![zones.on_demand_zone.clone()]],
            None => [own(), own()],
        };
        let hours_of = [amount(&|on_spot, _| on_spot), amount(&|_, other| other)];
        let kinds = [Holding::Spot, Holding::OnDemand].into_iter().zip(prices).zip(places).zip(hours_of);
        let kinds = kinds.map(|(((how, usd_per_h), zones), instance_h)| CloudPurchase {
            how,
            zones,
            instances: request.need,
            instance_h,
            interval_of: instance_h.interval_of(windows, disjoint),
            usd_per_h,
            cost_usd: usd_per_h.map(|usd| instance_h.times(usd)),
        });
        let total = match prices {
            [Some(spot), Some(on_demand)] => Some(amount(&|on_spot, other| spot * on_spot + on_demand * other)),
            _ => None,
        };
        let all_on_demand_usd = CloudOnDemand::new((series, zone), request, zones).cost_usd;
        let probes_h = if late.is_empty() { 0.0 } else { average(late.iter().map(|run| hours(run.probed_ms))) };
        Self { kinds: kinds.collect(), probes_h, windows, disjoint, cost_usd: total, all_on_demand_usd }
    }

    /// Writes the purchases as a CSV: a line for each kind, and one for all where prices are known.
    /// `cautions` stand in each line, as a table has no place above them.
    ///
    /// # Errors
    /// If it cannot be written, which no answer should bring about.
    pub fn list(&self, instance: Option<&str>, cautions: &[String]) -> Result<Emitted> {
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
            "interval_of",
            "caution",
        ];
        let three = |of: Option<CloudAmount>, told: &dyn Fn(f64) -> String| match of {
            Some(of) => [Some(of.value), of.low, of.high].map(|figure| figure.map_or_else(String::new, told)),
            None => Default::default(),
        };
        let cents = |usd: f64| format!("{usd:.2}");
        let caution = cautions.join(" ");
        let kinds = self.kinds.iter().map(|kind| {
            let [hours, hours_low, hours_high] = three(Some(kind.instance_h), &number);
            let [cost, low, high] = three(kind.cost_usd, &cents);
            let price = kind.usd_per_h.map_or_else(String::new, number);
            let instance = instance.unwrap_or_default().to_owned();
            let most = kind.instances.to_string();
            let (how, zones) = (kind.how.in_words().to_owned(), kind.zones.join(" "));
            let (of, caution) = (kind.interval_of.clone(), caution.clone());
            [how, zones, instance, most, hours, hours_low, hours_high, price, cost, low, high, of, caution]
        });
        // Without prices nothing is known of all of them.
        let all = self.cost_usd.map(|all| {
            let [cost, low, high] = three(Some(all), &cents);
            let of = all.interval_of(self.windows, self.disjoint);
            let mut row: [String; 13] = Default::default();
            row[0] = "all".to_owned();
            [row[8], row[9], row[10], row[11], row[12]] = [cost, low, high, of, caution.clone()];
            row
        });
        table("cloud-purchases.csv", head, kinds.chain(all))
    }

    /// Returns the purchases as a table of a report.
    pub(super) fn table(&self) -> ReportTable {
        let mut table = tell::table(
            "What that buys",
            "Instances | #Hours of one instance | Range over windows | #Now, $/h | #Cost, $ | Range of the cost",
        );
        let span = |of: Option<CloudAmount>, digits: usize| of.map_or_else(String::new, |of| of.span(digits));
        let dollars = |of: Option<CloudAmount>| Cell::opt(of, |of| Cell::float(of.value, 2));
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
        let intervals: Vec<String> =
            self.kinds.iter().map(|kind| format!("{}, {}", kind.how.in_words(), kind.interval_of)).collect();
        let probes = match self.probes_h {
            hours if hours > 0.0 => {
                format!(
                    " Of the hours on spot {} are what probes of zones pay for, priced as the others.",
                    format::float(hours, 1)
                )
            }
            _ => String::new(),
        };
        table.note = Some(format!(
            "Mean hours on the later windows, priced as instances cost at the end of the data, without egress.{probes} Intervals are of what single windows bought, where the plan begins now: {}. Where no price is known there is no cost. The share of all on-demand is at the prices of the windows, so times the dollars of all on-demand it need not be this cost.",
            intervals.join("; ")
        ));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::market::price::ZonePrice;

    fn runs(late: [(i64, i64); 2]) -> [Vec<JobRun>; 2] {
        let late = late.map(|(spot, on_demand)| JobRun {
            spot_ms: spot * HOUR_MS,
            on_demand_ms: on_demand * HOUR_MS,
            ..JobRun::default()
        });
        [Vec::new(), late.to_vec()]
    }

    fn near(of: CloudAmount, value: f64, low: f64, high: f64) -> bool {
        let off = [of.value - value, of.low.unwrap_or(f64::NAN) - low, of.high.unwrap_or(f64::NAN) - high];
        off.iter().all(|off| off.abs() < 1e-9)
    }

    fn request(need: u32, elastic: bool) -> CloudRequest {
        CloudRequest {
            work_ms: 50 * HOUR_MS,
            deadline_ms: Some(60 * HOUR_MS),
            price_ratio: 3.0,
            is_ratio_given: true,
            starts: 2,
            need,
            elastic,
            ..CloudRequest::default()
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
        let runs = runs([(30, 20), (40, 10)]);
        let result = CloudPurchases::new((&runs, 2), (series, Some(&zone)), &request(1, false), None);
        assert!(
            near(result.kinds[0].instance_h, 35.0, 30.0, 40.0) && near(result.kinds[1].instance_h, 15.0, 10.0, 20.0)
        );
        assert!(result.cost_usd.is_some_and(|cost| near(cost, 80.0, 70.0, 90.0)), "{result:?}");
        assert_eq!(result.all_on_demand_usd, Some(150.0));
        let list = result.list(Some("V100:1"), &[]).map(|(_, text)| text).unwrap_or_default();
        assert!(list.contains("spot,us-east-1a,V100:1,1,35,30,40,1,35.00,30.00,40.00,\"least and most of 2 windows, 2 without overlap\",\n"), "{list}");
        assert!(list.contains("\nall,,,,,,,,80.00,70.00,90.00,"), "{list}");
        // Four at once, of which each lane is counted where the job is elastic; and without prices.
        let four = CloudPurchases::new((&runs, 2), (series, Some(&zone)), &request(4, false), None);
        let lanes = CloudPurchases::new((&runs, 2), (series, Some(&zone)), &request(4, true), None);
        assert!(
            near(four.kinds[0].instance_h, 140.0, 120.0, 160.0) && near(lanes.kinds[0].instance_h, 35.0, 30.0, 40.0)
        );
        let bare = SpotSeries { price: None, ..zone };
        let result =
            CloudPurchases::new((&runs, 2), (std::slice::from_ref(&bare), Some(&bare)), &request(1, false), None);
        assert_eq!((result.cost_usd, result.all_on_demand_usd, result.kinds[0].usd_per_h), (None, None, None));
        let list = result.list(Some("V100:1"), &[]).map(|(_, text)| text).unwrap_or_default();
        assert!(list.lines().count() == 3 && !list.contains("all,"), "{list}");
    }

    #[test]
    fn what_probes_pay_for_is_bought() {
        let zone = SpotSeries::of_counts("a", HOUR_MS, vec![1.0; 2]);
        let mut runs = runs([(30, 20), (40, 10)]);
        runs[1][0].probed_ms = 2 * HOUR_MS;
        let result =
            CloudPurchases::new((&runs, 2), (std::slice::from_ref(&zone), Some(&zone)), &request(1, false), None);
        assert!(near(result.kinds[0].instance_h, 36.0, 32.0, 40.0) && result.probes_h == 1.0, "{result:?}");
        let note = result.table().note.unwrap_or_default();
        assert!(
            note.contains("Of the hours on spot 1.0 are what probes of zones pay for, priced as the others."),
            "{note}"
        );
    }

    #[test]
    fn of_few_windows_the_ends_are_told_and_named_so() {
        let windows = |count: usize| (0..count).map(|at| at as f64).collect::<Vec<f64>>();
        let of = |count: usize| CloudAmount::new(&[], &windows(count));
        assert_eq!((of(40).low, of(40).high), (Some(0.0), Some(39.0)));
        assert_eq!((of(41).low, of(41).high), (Some(1.0), Some(39.0)));
        assert!(of(40).interval_of(40, 40).starts_with("least and most of 40"));
        assert!(of(41).interval_of(41, 41).starts_with("2.5 % and 97.5 % quantiles of 41"));
    }

    /// Nothing was bought on-demand in any window: that is no interval of 0 to 0. What the windows of choice bought counts for the spread, and not for the mean.
    #[test]
    fn windows_that_are_alike_are_no_interval() {
        let zone = SpotSeries::of_counts("a", HOUR_MS, vec![1.0; 2]);
        let series = std::slice::from_ref(&zone);
        let of = |runs: &[Vec<JobRun>; 2], disjoint: usize| {
            CloudPurchases::new((runs, disjoint), (series, Some(&zone)), &request(1, false), None).kinds
        };
        let all_spot = runs([(50, 0), (50, 0)]);
        for kind in of(&all_spot, 7) {
            assert_eq!((kind.instance_h.low, kind.instance_h.high), (None, None), "{kind:?}");
        }
        let told = &of(&all_spot, 7)[1];
        assert!(told.interval_of.contains("leaves a chance of up to 34.8 % for some"), "{told:?}");
        let [_, late] = all_spot;
        let [_, early] = runs([(45, 5), (50, 0)]);
        let kinds = of(&[early, late], 4);
        assert!(near(kinds[0].instance_h, 50.0, 45.0, 50.0) && near(kinds[1].instance_h, 0.0, 0.0, 5.0), "{kinds:?}");
        let caution = ["This rests on an assumption.".to_owned()];
        let result =
            CloudPurchases { kinds, probes_h: 0.0, windows: 4, disjoint: 4, cost_usd: None, all_on_demand_usd: None };
        let list = result.list(None, &caution).map(|(_, text)| text).unwrap_or_default();
        assert_eq!(list.matches("This rests on an assumption.").count(), 2, "{list}");
    }
}
