//! What becomes of a cloud plan if what was said is not so: another price, another changeover, more or less work than was said.
//!
//! Each case is tried on the windows of the plan in the zone that it chose (over all zones where they are those of one job): the *choice* is the policy that costs
//! least, without a miss, on the windows to choose on, and the *cost* is that of the plan's policy on the windows to report on, as a share of all on-demand in that case. On-demand is
//! taken to cost half as much and twice as much, and a changeover to take so. Where the job has a price ratio and no prices, that is not taken below 1, and `times` says how far it was.
//!
//! **Work.** The policy is told the work that was said, and the job has 0.8 or 1.25 of it. It ends when the true work is done. Once what was said is done and the job goes on, nobody knows for how
//! long: it uses the spot that it has to its end, and is on-demand otherwise. No safety net can hold then, so a job that is longer than said may **miss** its deadline. **Over knowing** is what that costs above
//! the same policy that is told the truth. In one zone only.
//!
//! **Turn.** Where nobody said what on-demand costs, not even as a ratio, all rests on the ratio that is assumed. So the ratio is sought from which on spot is [worth] it, chosen and reported as in the plan: by halving
//! between a ratio that says on-demand and one that says spot, until they are 3 % apart. The ratios tried are told, up to 50: between them nothing says that the advice changes once, as the choice of the policy may change too. The zone is
//! that of the plan, on its windows alone; at another ratio another could be chosen, and every sentence that tells the turn says so.
//!
//! O(cases × windows × programmes). Worked example: 2 h of work said and 3 h in truth, 3 h to the deadline, no spot. Greedy waits an hour, is on-demand for the two hours said and
//! goes on: it ends at 4 h, an hour late, and costs 3 h of on-demand. Who knows of 3 h begins at once, ends in time, and costs the same.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::{Cell, Section, format};
use tracecast_analytics::time::MINUTE_MS;
use tracecast_analytics::watch::Watch;

use super::attempt::{Attempt, Told, attempt, misled_by, on_windows};
use super::job::DeadlineJob;
use super::policy::{CloudPolicy, Lessons};
use super::request::CloudRequest;
use crate::cloud::zones::attempt_zones_of;
use crate::cloud::zones::market::Market;
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::interval::{average, mean};
use crate::plan::window::Window;
use crate::plan::{Confidence, WORTH, tell, worth};

/// How prices and changeovers are varied.
const TIMES: [f64; 2] = [0.5, 2.0];
/// How the work is.
const WORK_TIMES: [f64; 2] = [0.8, 1.25];

/// The highest ratio at which the turn is sought.
const MOST_RATIO: f64 = 50.0;
/// How near two ratios are between which the turn lies.
const NEAR: f64 = 1.03;

/// From which price ratio on the advice is another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CloudPriceTurn {
    /// The ratio that is assumed.
    pub assumed: f64,
    /// From here on spot is advised, to 3 %, and on-demand below, at the ratios tried, on the windows of the zone of the plan alone and with all else as said; nothing where it is not up to `tried_to`. At another ratio another zone could be chosen, which is not tried.
    pub spot_from: Option<f64>,
    /// The highest ratio that was tried.
    pub tried_to: f64,
}

impl CloudPriceTurn {
    /// In a sentence. `alone` is the zone on whose windows alone it is judged, where it was chosen among several.
    pub(super) fn in_words(&self, alone: Option<&str>) -> String {
        let ratio = |of: f64| format::float(of, 2);
        let said = match self.spot_from {
            Some(from) => format!("spot is advised from about {} on, and on-demand below it", ratio(from)),
            None => "on-demand is advised".to_owned(),
        };
        let alone = alone.map_or_else(String::new, |zone| {
            format!(" That is judged on the windows of `{zone}` alone: at another ratio another zone could be chosen.")
        });
        format!(
            "**This rests on an assumption**: no price of spot and no --price-ratio is given, so on-demand is taken to cost {} times what spot costs. At the ratios tried, up to {}, with the place and all else as in this plan, {said}.{alone}",
            ratio(self.assumed),
            ratio(self.tried_to)
        )
    }

    /// How sure the advice is, and why, if spot is advised at the ratio that is assumed or not: it is low if it turns between half of that and twice.
    pub(super) fn sure(&self, spot: bool) -> (Confidence, String) {
        let (assumed, ratio) = (self.assumed, |of: f64| format::float(of, 2));
        let (is_near, said) = match (spot, self.spot_from) {
            (true, from) => {
                let from = from.unwrap_or(assumed);
                (from > assumed / 2.0, format!("below {} times what spot costs on-demand is advised", ratio(from)))
            }
            (false, Some(from)) => {
                (from < assumed * 2.0, format!("from {} times what spot costs on spot is advised", ratio(from)))
            }
            (false, None) => {
                (false, format!("on-demand is advised up to {} times what spot costs", ratio(self.tried_to)))
            }
        };
        let confidence = if is_near { Confidence::Low } else { Confidence::Medium };
        (confidence, format!("The price of on-demand is assumed; {said}."))
    }
}

/// What is other than was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CloudVaried {
    /// Nothing.
    Nothing,
    /// Price of on-demand.
    PriceRatio,
    /// Time to take another instance.
    Changeover,
    /// The work, which the policy is not told.
    Work,
}

/// A case.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudSensitivity {
    /// What is other than was said.
    pub varied: CloudVaried,
    /// How many times what was said it is.
    pub times: f64,
    /// Mean cost of the plan's policy on the windows to report on, as a share of all on-demand; nothing where on-demand alone would miss the deadline.
    pub cost_ratio_mean: Option<f64>,
    /// 1 less that.
    pub saving: Option<f64>,
    /// Deadlines missed on these windows.
    pub misses: usize,
    /// Mean time by which they were missed, to the tick, seconds; nothing where none was.
    pub late_s: Option<f64>,
    /// Mean cost above that of the same policy told the truth, as a share of that; where the work is other than said and the deadline could be made.
    pub over_knowing: Option<f64>,
    /// The policy that would be chosen; nothing where the policy does not know of it.
    pub choice: Option<CloudPolicy>,
}

/// What cases are tried on.
pub(super) struct Tried<'a> {
    /// All zones.
    pub(super) series: &'a [SpotSeries],
    /// The zone that was chosen, and what is learned of it; nothing where all are zones of one job.
    pub(super) zone: Option<(&'a SpotSeries, &'a Lessons)>,
    /// The request.
    pub(super) request: &'a CloudRequest,
    /// The job.
    pub(super) job: DeadlineJob,
    /// The policy of the plan.
    pub(super) policy: CloudPolicy,
    /// Windows to choose on, and to report on.
    pub(super) windows: [Vec<Window>; 2],
    /// Observer of each window on which policies were tried.
    pub(super) watch: &'a dyn Watch,
}

/// A zone in which on-demand costs so many times what it does, where prices are known.
fn repriced(zone: &SpotSeries, ratio: f64, times: f64) -> SpotSeries {
    let mut zone = zone.clone();
    if let Some(price) = &mut zone.price {
        price.on_demand = price.on_demand_or(ratio).map(|usd_per_h| usd_per_h * times);
    }
    zone
}

/// The policy that costs least without a miss.
fn cheapest(tried: &[Attempt]) -> Option<CloudPolicy> {
    let policies = tried.first().map(|attempt| attempt.runs.iter().map(|(policy, _)| *policy).collect());
    let policies: Vec<CloudPolicy> = policies.unwrap_or_default();
    let mean = |policy: CloudPolicy| average(tried.iter().map(|attempt| attempt.share(policy)));
    // Of equals on-demand alone, as in the plan.
    let order = |policy: &CloudPolicy| (mean(*policy), u8::from(*policy != CloudPolicy::OnDemand));
    let kept = policies.iter().filter(|policy| !tried.iter().any(|attempt| attempt.run(**policy).missed));
    let best = kept.min_by(|a, b| {
        let (a, b) = (order(a), order(b));
        a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
    });
    best.copied()
}

impl Tried<'_> {
    /// Whether prices are known, beside which the price ratio counts for nothing.
    fn is_priced(&self) -> bool {
        self.zone.map_or_else(|| self.series.iter().any(SpotSeries::is_priced), |(zone, _)| zone.is_priced())
    }

    /// The policies to choose from.
    fn choices(&self) -> &'static [CloudPolicy] {
        self.request.choices(self.zone.is_none())
    }

    /// Outcomes of a job under each of `policies`, on each of `windows`.
    fn attempts(
        &self,
        policies: &[CloudPolicy],
        job: &DeadlineJob,
        times: f64,
        windows: &[Window],
    ) -> Result<Vec<Attempt>> {
        let (request, ratio, jobs) = (self.request, self.job.price_ratio, [*job]);
        match (self.zone, &request.together) {
            (None, Some(together)) => {
                let series: Vec<SpotSeries> = self.series.iter().map(|zone| repriced(zone, ratio, times)).collect();
                let market =
                    Market::new(&series, request.need, job.price_ratio, together.egress())?.probed(together.probes);
                let work = request.uncertain.as_ref();
                on_windows(windows, self.watch, |window| {
                    attempt_zones_of(policies, &market, window.ahead.start, &jobs, work)
                })
            }
            (Some((zone, lessons)), _) => {
                let (zone, told) = (repriced(zone, ratio, times), Told::of(request.uncertain.as_ref()));
                on_windows(windows, self.watch, |window| {
                    attempt(policies, lessons, zone.price.as_ref(), window, &jobs, told)
                })
            }
            (None, None) => Ok(Vec::new()),
        }
    }

    /// With another price or changeover, of which the policy knows.
    fn known(&self, varied: CloudVaried, times: f64) -> Result<CloudSensitivity> {
        let least =
            if varied == CloudVaried::PriceRatio && !self.is_priced() { 1.0 / self.job.price_ratio } else { 0.0 };
        let times = times.max(least);
        let mut result = CloudSensitivity {
            varied,
            times,
            cost_ratio_mean: None,
            saving: None,
            misses: 0,
            late_s: None,
            over_knowing: None,
            choice: None,
        };
        let DeadlineJob { work_ms, deadline_ms, changeover_ms, price_ratio } = self.job;
        let (changeover_times, price_times) = match varied {
            CloudVaried::Changeover => (times, 1.0),
            CloudVaried::PriceRatio => (1.0, times),
            CloudVaried::Nothing | CloudVaried::Work => (1.0, 1.0),
        };
        let changeover_ms = (changeover_ms as f64 * changeover_times) as i64;
        let price_ratio = (price_ratio * price_times).max(1.0);
        let Ok(job) = DeadlineJob::within(work_ms, deadline_ms, changeover_ms, price_ratio) else { return Ok(result) };
        let [choose, report] = &self.windows;
        let choose = self.attempts(self.choices(), &job, price_times, choose)?;
        let report = self.attempts(&[self.policy], &job, price_times, report)?;
        let cost = average(report.iter().map(|attempt| attempt.share(self.policy)));
        (result.cost_ratio_mean, result.saving) = (Some(cost), Some(1.0 - cost));
        result.misses = report.iter().filter(|attempt| attempt.run(self.policy).missed).count();
        result.choice = cheapest(&choose);
        Ok(result)
    }

    /// Whether spot is advised at a price ratio, chosen and reported on the windows of the plan.
    fn is_spot_advised(&self, price_ratio: f64) -> Result<bool> {
        let job = DeadlineJob { price_ratio, ..self.job };
        let [choose, report] = &self.windows;
        let choose = self.attempts(self.choices(), &job, 1.0, choose)?;
        let Some(policy) = cheapest(&choose).filter(|policy| *policy != CloudPolicy::OnDemand) else {
            return Ok(false);
        };
        let shares: Vec<f64> = self.attempts(&[policy], &job, 1.0, report)?.iter().map(|of| of.share(policy)).collect();
        let cost = mean(&shares);
        Ok(worth(1.0 - cost.value, 1.0 - cost.high, 1.0))
    }

    /// From which price ratio on spot is advised, where the ratio is an assumption and decides all; `is_advised` says whether it is at that ratio.
    ///
    /// # Errors
    /// Errors of [`cases`](Self::cases).
    pub(super) fn turn(&self, is_advised: bool) -> Result<Option<CloudPriceTurn>> {
        if self.request.is_ratio_given || self.is_priced() {
            return Ok(None);
        }
        let assumed = self.job.price_ratio;
        let result = |spot_from: Option<f64>, tried_to: f64| Ok(Some(CloudPriceTurn { assumed, spot_from, tried_to }));
        let mut above = assumed;
        let mut below = 1.0;
        if !is_advised {
            loop {
                if above >= MOST_RATIO {
                    return result(None, above);
                }
                below = above;
                above = (2.0 * above).min(MOST_RATIO);
                if self.is_spot_advised(above)? {
                    break;
                }
            }
        }
        let tried_to = above;
        while above > NEAR * below {
            let middle = (above * below).sqrt();
            if self.is_spot_advised(middle)? { above = middle } else { below = middle }
        }
        result(Some(above), tried_to)
    }

    /// With other work than was said, of which the policy does not know.
    fn unknown(&self, (zone, lessons): (&SpotSeries, &Lessons), times: f64) -> Result<CloudSensitivity> {
        let (job, [_, report]) = (self.job, &self.windows);
        let work_ms = ((job.work_ms as f64 * times) as i64 / MINUTE_MS * MINUTE_MS).max(MINUTE_MS);
        let of = |window: &Window| misled_by(lessons, zone.price.as_ref(), window, (&job, &[work_ms]), self.policy);
        let runs: Vec<_> = report.par_iter().flat_map_iter(of).collect();
        let costs: Vec<f64> = runs.iter().map(|run| run.cost / run.on_demand).collect();
        let late: Vec<f64> = runs.iter().filter(|run| run.missed).map(|run| run.late_ms as f64 / 1e3).collect();
        let told = match DeadlineJob::within(work_ms, job.deadline_ms, job.changeover_ms, job.price_ratio) {
            Ok(told) => Some(self.attempts(&[self.policy], &told, 1.0, report)?),
            Err(_) => None,
        };
        let over = told.map(|told| {
            let known = told.iter().map(|attempt| attempt.share(self.policy));
            average(costs.iter().zip(known).map(|(cost, known)| cost / known - 1.0))
        });
        let cost = average(costs.iter().copied());
        Ok(CloudSensitivity {
            varied: CloudVaried::Work,
            times,
            cost_ratio_mean: Some(cost),
            saving: Some(1.0 - cost),
            misses: late.len(),
            late_s: (!late.is_empty()).then(|| average(late.iter().copied())),
            over_knowing: over,
            choice: None,
        })
    }

    /// All cases, behind the one as said, which the plan knows.
    ///
    /// # Errors
    /// If the zones are none of one job, which they were found to be.
    pub(super) fn cases(&self, as_said: CloudSensitivity) -> Result<Vec<CloudSensitivity>> {
        let mut result = vec![as_said];
        for varied in [CloudVaried::PriceRatio, CloudVaried::Changeover] {
            // Nothing is nothing, however many times it is taken.
            let is_nothing = varied == CloudVaried::Changeover && self.job.changeover_ms == 0;
            for times in TIMES.into_iter().filter(|_| !is_nothing) {
                result.push(self.known(varied, times)?);
            }
        }
        // An uncertain work is tried on its own, over all of its amounts.
        if let Some(zone) = self.zone.filter(|_| self.request.uncertain.is_none()) {
            for times in WORK_TIMES {
                result.push(self.unknown(zone, times)?);
            }
        }
        Ok(result)
    }
}

impl CloudSensitivity {
    /// What the plan came to, with nothing other than said.
    pub(super) fn as_said(cost: f64, misses: usize, choice: CloudPolicy) -> Self {
        Self {
            varied: CloudVaried::Nothing,
            times: 1.0,
            cost_ratio_mean: Some(cost),
            saving: Some(1.0 - cost),
            misses,
            late_s: None,
            over_knowing: None,
            choice: Some(choice),
        }
    }

    /// Whether the policy of a plan is advised in this case, or for a plan of on-demand alone whether spot would be chosen; nothing where the case says nothing of the price.
    pub(super) fn is_spot_at_price(&self, policy: CloudPolicy) -> Option<bool> {
        let spot = self.choice? != CloudPolicy::OnDemand;
        let worth = policy == CloudPolicy::OnDemand || self.saving.is_some_and(|saving| saving >= WORTH);
        (self.varied == CloudVaried::PriceRatio).then_some(spot && worth)
    }

    fn in_words(&self) -> String {
        let times = format::float(self.times, 2);
        match self.varied {
            CloudVaried::Nothing => "nothing".to_owned(),
            CloudVaried::PriceRatio => format!("on-demand costs {times} times as much"),
            CloudVaried::Changeover => format!("a changeover takes {times} times as long"),
            CloudVaried::Work => format!("the work is {times} times what was said"),
        }
    }
}

/// The cases as a section of a report. `alone` is the zone on whose windows alone they are judged, where it was chosen among several.
pub(super) fn section(cases: &[CloudSensitivity], policy: CloudPolicy, alone: Option<&str>) -> Section {
    let of_zone = alone.map_or_else(String::new, |zone| format!(" of `{zone}`"));
    let mut table = tell::table(
        format!("The {} on the later windows{of_zone}, if what was said is not so", policy.in_words()),
        "Other than said | #Cost, % of all on-demand | #Saving, % | #Misses | Late by | #Over knowing it, % | Would be chosen",
    );
    let percent = |share: Option<f64>| Cell::opt(share, |share| Cell::float(100.0 * share, 1));
    for case in cases {
        table.rows.push(vec![
            case.in_words().into(),
            percent(case.cost_ratio_mean),
            percent(case.saving),
            Cell::Int(case.misses as i64),
            case.late_s.map_or_else(String::new, format::duration).into(),
            percent(case.over_knowing),
            case.choice.map_or_else(String::new, |policy| policy.in_words().to_owned()).into(),
        ]);
    }
    table.note = Some(format!(
        "{}Costs are shares of all on-demand in the same case. Work that is other than said is not known to the policy: once what was said is done it goes on, on the spot that it has or on-demand, and its deadline may pass.",
        alone.map_or_else(String::new, |zone| format!(
            "All cases are judged on the windows of `{zone}` alone: in another case another zone could be chosen. "
        ))
    ));
    Section::new("cloud-sensitivity", "What if it is not as said?").with_table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three times is assumed: the advice is unsure if it turns between one and a half times and six.
    #[test]
    fn an_advice_that_turns_near_the_assumed_ratio_is_unsure() {
        let sure =
            |spot_from: Option<f64>, spot: bool| CloudPriceTurn { assumed: 3.0, spot_from, tried_to: 24.0 }.sure(spot);
        let low = |from: f64, spot: bool| sure(Some(from), spot).0 == Confidence::Low;
        assert_eq!([1.4, 1.6, 2.9].map(|from| low(from, true)), [false, true, true]);
        assert_eq!([3.1, 5.9, 6.1].map(|from| low(from, false)), [true, true, false]);
        assert_eq!(sure(None, false).0, Confidence::Medium);
        assert!(sure(Some(1.6), true).1.ends_with("below 1.60 times what spot costs on-demand is advised."));
    }
}
