//! The answer of `plan rent job --test`, as JSON (`plan-rent-job-test/1`) and as a report.
//!
//! Worked example: a policy that costs 0.61 of all on-demand where the optimum costs 0.58 stands in its table as 61.0 %, 5.2 % over the omniscient.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::chart::{Axis, Chart, ChartSeries, Mark};
use tracecast_analytics::report::{Cell, Report, Section, format};
use tracecast_analytics::trace::SourceRecord;
use tracecast_analytics::watch::Watch;

use super::backtest::{CloudBacktest, PolicyTally, TOGETHER, TriedTrace, backtest};
use super::policy::CloudPolicy;
use super::price_words::prices_in_words;
use super::purchase::CloudOnDemand;
use super::request::{CloudRequest, ZonesTogether};
use super::timeline::CloudTimeline;
use super::uncertain::UncertainWork;
use crate::cloud::zones::market::{Market, is_paid_in_dollars};
use crate::cloud::zones::probe::{Past, Probes};
use crate::error::Result;
use crate::market::availability::SpotSeries;
use crate::plan::tell;

/// Version of the JSON.
pub const SCHEMA: &str = "plan-rent-job-test/1";

/// Cost of a job with a deadline, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Answer")]
pub struct CloudBacktestAnswer {
    /// Version of this form.
    pub schema: String,
    /// Traces.
    pub title: String,
    /// Notes on the data.
    pub notes: Vec<String>,
    /// Work, seconds; the top of it where it is uncertain.
    pub work_s: f64,
    /// Time to take another instance, seconds.
    pub changeover_s: f64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
    /// Prices in use, in words.
    pub prices: String,
    /// Instances needed at once, or at most where the job is elastic.
    pub need: u32,
    /// Whether the job runs on whatever number of instances there is, up to so many.
    pub elastic: bool,
    /// Whether the zones are those of one job.
    pub regions: Regions,
    /// Size of the checkpoint, gigabytes, where a job may move.
    pub checkpoint_gb: Option<f64>,
    /// Dollars that it costs to move a gigabyte to another region, where a job may move.
    pub egress_usd_per_gb: Option<f64>,
    /// When zones are probed; nothing where they are seen at every tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<ZoneProbes>,
    /// The findings.
    #[serde(flatten)]
    pub found: CloudBacktest,
    /// One start, tick by tick, as charts show it.
    #[serde(skip)]
    pub timeline: Option<CloudTimeline>,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// Whether each zone is tried alone, or all are zones of one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Regions {
    /// Each alone.
    Apart,
    /// One job moves between them.
    Together,
}

impl Regions {
    /// Returns how a request treats regions.
    pub(super) fn new(request: &CloudRequest) -> Self {
        if request.together.is_some() { Self::Together } else { Self::Apart }
    }
}

/// How zones are probed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ZoneProbes {
    /// Time from one probe to the next, seconds.
    pub every_s: f64,
    /// Time of spot that is paid for in each zone that is found to have it, seconds.
    pub bill_s: f64,
    /// What was seen of the time before the job.
    pub past: Past,
}

impl ZoneProbes {
    /// Returns the probes of a request, if it has any.
    pub(super) fn new(request: &CloudRequest) -> Option<Self> {
        let Probes { every_ms, bill_ms, past } = request.together?.probes?;
        Some(Self { every_s: every_ms as f64 / 1e3, bill_s: bill_ms as f64 / 1e3, past })
    }

    /// What whoever follows the plan has to do for it.
    pub(super) fn to_do(self) -> String {
        format!(
            "See in all zones whether spot can be had, at the start and every {} after it: the plan was tested so. Between two looks you see only the zone that you hold or try: where an instance is lost, try to begin in the zones in their order, one after another. A try that fails counts as a look at that zone.",
            format::duration(self.every_s)
        )
    }

    /// What a policy is taken to see, in sentences.
    fn in_words(self) -> String {
        let past = match self.past {
            Past::Probed => "Before the job, probes with the same period have seen what there is to learn from.",
            Past::Recorded => "All of the record before the job is known.",
        };
        let bill = if self.bill_s > 0.0 {
            format!(" A zone that is found to have spot is paid for {}.", format::duration(self.bill_s))
        } else {
            String::new()
        };
        format!(
            "Zones are probed every {} from the start of the job on, all at once. Between probes a zone is seen only where the job holds a spot instance or tries to begin one, and a try that finds none is known a tick later.{bill} {past} Prices are seen at every tick, and the optimum sees all.",
            format::duration(self.every_s)
        )
    }
}

/// The JSON Schema of [`CloudBacktestAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(CloudBacktestAnswer).to_value()
}

/// What is said of traces before anything is believed of them.
pub(super) fn notes(series: &[SpotSeries], request: &CloudRequest) -> Vec<String> {
    let seen = ZoneProbes::new(request).map(ZoneProbes::in_words);
    let at_each = || "Availability is taken as known at each tick without asking for an instance.".to_owned();
    let mut notes = vec![seen.unwrap_or_else(at_each)];
    if series.iter().any(|zone| !zone.is_priced()) {
        notes.push("Where no price is known, that of spot is taken as constant.".to_owned());
    }
    let listing: Vec<&str> = series
        .iter()
        .filter(|zone| zone.price.is_none() && zone.list_price.is_some())
        .map(|zone| zone.name.as_str())
        .collect();
    if !listing.is_empty() && listing.len() == series.len() {
        notes.push(
            "The files say what on-demand costs, and not spot: spot is taken as that over the price ratio.".to_owned(),
        );
    } else if !listing.is_empty() {
        notes.push(format!(
            "What on-demand costs by {} is not used, as not all files say it without prices of spot: the price ratio stands for it.",
            listing.join(", ")
        ));
    }
    for zone in series {
        let Some(price) = &zone.price else { continue };
        if let Some(said) = price.audit.in_words() {
            notes.push(format!("{}: {said}.", zone.name));
        }
        let unknown = price.unknown();
        if unknown > 0 {
            notes.push(format!(
                "{}: {} come before the first price, and count as without spot.",
                zone.name,
                format::counted(unknown as u64, "tick", "ticks")
            ));
        }
    }
    let guessed = series.iter().filter(|zone| zone.price.as_ref().is_some_and(|price| price.on_demand.is_none()));
    if guessed.count() > 0 {
        notes.push(
            "Where the price of on-demand is not known, it is taken as the price ratio times the first price of spot; --on-demand-price tells it."
                .to_owned(),
        );
    }
    notes.extend(series.iter().filter(|zone| !zone.unread.is_empty()).map(|zone| {
        format!(
            "{}: {} could not be read, and count as without spot.",
            zone.name,
            format::counted(zone.unread.len() as u64, "tick", "ticks")
        )
    }));
    notes
}

/// What moving between zones is taken to cost, and what all on-demand costs over them.
///
/// # Errors
/// Errors of [`Market::new`].
pub(super) fn moving(series: &[SpotSeries], request: &CloudRequest, together: &ZonesTogether) -> Result<[String; 2]> {
    let places = Market::new(series, request.need, request.price_ratio, together.egress())?.places;
    let moved = format!(
        "All traces are zones of one job and begin at the same moment. To move costs a changeover, and to another region {} dollars for a checkpoint of {} GB.",
        format::float(together.egress(), 2),
        format::float(together.checkpoint_gb, 1)
    );
    let zone = places.cheapest(None, request.work_ms + request.changeover_ms);
    let named = places.names.get(zone).map_or("", String::as_str);
    let usd_per_h = places.on_demand.get(zone).copied().filter(|_| is_paid_in_dollars(series));
    let all = match usd_per_h {
        Some(_) => format!(
            "All on-demand, a cost of 100 %, is the job from beginning to end in `{named}`, where that costs least: {}. A share of that is dollars at the prices of its window, egress included.",
            CloudOnDemand::at(usd_per_h, request).in_words(request.price_ratio)
        ),
        None => format!(
            "No prices are given: an hour of spot counts as 1 dollar beside egress, and one on-demand as {}. All on-demand, a cost of 100 %, is {}.",
            format::float(request.price_ratio, 2),
            CloudOnDemand::at(None, request).in_words(request.price_ratio)
        ),
    };
    Ok([moved, all])
}

/// ` on up to 16 instances`; nothing of one.
pub(super) fn on_instances(need: u32, elastic: bool) -> String {
    match (need, elastic) {
        (1, _) => String::new(),
        (_, true) => format!(" on up to {need} instances"),
        (_, false) => format!(" on {need} instances at once"),
    }
}

/// What an elastic job is taken to do.
pub(super) fn taking(need: u32) -> String {
    format!(
        "The job is elastic: it runs on up to {}, spot and on-demand together, and does as much as it has. One that joins pays a changeover of its own, and the others work on meanwhile. The work is that of all of them for the time given.",
        format::counted(u64::from(need), "instance", "instances")
    )
}

impl CloudBacktestAnswer {
    /// Tries every policy on every trace; `watch` is told after each start.
    ///
    /// # Errors
    /// Errors of [`backtest`].
    pub fn new(series: &[SpotSeries], title: String, request: &CloudRequest, watch: &dyn Watch) -> Result<Self> {
        let found = backtest(series, request, watch)?;
        let mut notes = notes(series, request);
        if let Some(together) = &request.together {
            notes.extend(moving(series, request, together)?);
        }
        notes.extend(request.elastic.then(|| taking(request.need)));
        notes.extend(request.uncertain.as_ref().map(|work| work.promise(request.planned())));
        notes.push("The first start of each trace has no past, and is decided with the prior alone.".to_owned());
        Ok(Self {
            schema: SCHEMA.to_owned(),
            title,
            notes,
            work_s: request.work_ms as f64 / 1e3,
            changeover_s: request.changeover_ms as f64 / 1e3,
            price_ratio: request.price_ratio,
            prices: prices_in_words(&series.iter().collect::<Vec<_>>(), request),
            need: request.need,
            elastic: request.elastic,
            regions: Regions::new(request),
            checkpoint_gb: request.together.map(|together| together.checkpoint_gb),
            egress_usd_per_gb: request.together.map(|together| together.egress_usd_per_gb),
            probes: ZoneProbes::new(request),
            found,
            timeline: None,
            sources: series.iter().flat_map(|zone| zone.sources.clone()).collect(),
        })
    }

    /// With one start tick by tick, for the charts of [`report`](Self::report): the middle one of the first trace, at the middle slack. Of zones together and of elastic jobs there is none.
    ///
    /// # Errors
    /// If its optimum cannot be found.
    pub fn with_timeline(mut self, series: &[SpotSeries], request: &CloudRequest) -> Result<Self> {
        let Some(zone) = series.first().filter(|_| request.together.is_none()) else { return Ok(self) };
        let starts = self.found.traces.first().map(|of| of.starts_s.as_slice()).unwrap_or_default();
        let start_s = starts.get(starts.len() / 2).copied().unwrap_or(0.0);
        let start = (start_s * 1e3 / zone.tick_ms as f64).round() as usize;
        let (jobs, middle) = (request.jobs()?, request.slacks.len() / 2);
        if let Some(of) = request.slacks.get(middle).copied().zip(jobs.get(middle)) {
            self.timeline = CloudTimeline::of(zone, request, of, start, self.found.chosen)?;
        }
        Ok(self)
    }

    fn tally(&self, policy: CloudPolicy) -> Option<&PolicyTally> {
        self.found.policies.iter().find(|tally| tally.name == policy)
    }

    /// The answer as a report.
    pub fn report(&self) -> Report {
        let starts = self.found.traces.iter().map(|trace| trace.starts_s.len());
        // Zones of one job are started on together.
        let starts = if self.regions == Regions::Together { starts.max().unwrap_or(0) } else { starts.sum() };
        let mut report = Report::new(
            format!("What does a job with a deadline cost? {}", self.title),
            format!(
                "{}{} of work{}, {} on {}; {}",
                if self.found.uncertain.is_some() { "up to " } else { "" },
                format::duration(self.work_s),
                on_instances(self.need, self.elastic),
                format::counted(starts as u64, "start", "starts"),
                format::counted(self.found.traces.len() as u64, "trace", "traces"),
                self.prices
            ),
        );
        report.summary = self.summary();
        report.notes.clone_from(&self.notes);
        report.sections = vec![self.by_policy(), self.by_trace()];
        report.sections.extend(self.found.uncertain.as_ref().map(UncertainWork::section));
        report.sections.extend(self.timeline.iter().flat_map(CloudTimeline::sections));
        report
    }

    fn summary(&self) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(tally) = self.tally(self.found.chosen) {
            let misses: usize = tally.by_slack.iter().map(|slack| slack.misses).sum();
            let costs: Vec<String> = tally
                .by_slack
                .iter()
                .map(|at| {
                    format!("{} at a slack of {}", format::percent(at.cost_ratio_mean), format::float(at.slack, 2))
                })
                .collect();
            said.push(format!(
                "The {}, chosen on the earlier starts, costs **{}** of all on-demand, and misses {}.",
                self.found.chosen.in_words(),
                costs.join(", "),
                format::counted(misses as u64, "deadline", "deadlines")
            ));
            let over: Vec<String> = tally.by_slack.iter().map(|at| format::percent(at.over_omniscient_mean)).collect();
            said.push(format!("That is {} above the optimum that knows all availability.", over.join(", ")));
            said.push(format!(
                "On the later starts alone, which it was not chosen on, it costs {} of all on-demand.",
                format::percent(tally.later_cost_ratio)
            ));
        }
        if let Some(tally) = self.tally(CloudPolicy::UniformProgress) {
            let costs: Vec<String> = tally.by_slack.iter().map(|at| format::percent(at.cost_ratio_mean)).collect();
            said.push(format!("Uniform Progress costs {}.", costs.join(", ")));
        }
        said.extend(self.found.uncertain.iter().flat_map(UncertainWork::summary));
        said
    }

    fn by_policy(&self) -> Section {
        let mut table = tell::table(
            "Policies, over all starts of all traces",
            "Policy | #Slack | #Cost, % of all on-demand | 95 % interval | #Over the omniscient, % | #Misses",
        );
        for tally in &self.found.policies {
            for at in &tally.by_slack {
                table.rows.push(vec![
                    tally.name.in_words().into(),
                    Cell::float(at.slack, 2),
                    Cell::float(100.0 * at.cost_ratio_mean, 1),
                    format!("{:.1} to {:.1}", 100.0 * at.cost_ratio.low, 100.0 * at.cost_ratio.high).into(),
                    Cell::float(100.0 * at.over_omniscient_mean, 1),
                    Cell::Int(at.misses as i64),
                ]);
            }
        }
        table.note = Some("The interval is of the mean: starts are drawn anew. Starts that overlap depend on each other, so it is rather too narrow.".to_owned());
        Section::new("cost-by-policy", "Which policy is cheapest?")
            .with_chart(self.chart())
            .with_table(table)
            .with_definition("**Slack**: work over time to the deadline.")
            .with_definition("**All on-demand**: the same job on-demand from beginning to end, one changeover included.")
            .with_definition("**Omniscient**: the least cost if all availability were known, by exact dynamic programming.")
            .with_definition("**Safety net**: every policy goes on-demand at the last tick from which on-demand alone makes the deadline.")
    }

    fn chart(&self) -> Chart {
        let of = |tally: &PolicyTally| {
            let points = tally.by_slack.iter().map(|at| (at.slack, at.cost_ratio_mean)).collect();
            ChartSeries::new(tally.name.in_words(), Mark::Line, points)
        };
        Chart::xy(
            "cost-over-slack",
            "Cost over slack",
            Axis::linear("slack: work over time to the deadline"),
            Axis::share("cost, share of all on-demand"),
            self.found.policies.iter().filter(|tally| tally.name != CloudPolicy::OnDemand).map(of).collect(),
        )
        .with_reading("The lowest line is the optimum, which nobody can follow. The nearer a line is to it, the less its policy pays for not knowing the future.")
    }

    fn by_trace(&self) -> Section {
        let had = if self.elastic { "Spot had, %" } else { "With spot, %" };
        let mut table = tell::table(
            format!("{} and others, trace by trace", self.found.chosen.in_words()),
            &format!(
                "Trace | #{had} | #Slack | #Cost, % | #Uniform Progress, % | #Greedy, % | #Omniscient, % | #Misses"
            ),
        );
        let share = |of: &TriedTrace| if self.elastic { of.had_share } else { of.up_share };
        let mut traces: Vec<(&str, Option<f64>)> =
            self.found.traces.iter().map(|of| (of.trace.as_str(), Some(share(of)))).collect();
        if self.regions == Regions::Together {
            traces = vec![(TOGETHER, None)];
        }
        for (trace, up_share) in traces {
            let slacks = self.found.policies.iter().take(1).flat_map(|tally| &tally.by_slack).map(|of| of.slack);
            for slack in slacks {
                let of = |policy: CloudPolicy| {
                    self.found.cells.iter().find(|cell| {
                        cell.trace == trace && cell.slack.total_cmp(&slack).is_eq() && cell.policy == policy
                    })
                };
                let cost =
                    |policy: CloudPolicy| Cell::opt(of(policy), |cell| Cell::float(100.0 * cell.cost_ratio_mean, 1));
                table.rows.push(vec![
                    trace.into(),
                    Cell::opt(up_share, |share| Cell::float(100.0 * share, 1)),
                    Cell::float(slack, 2),
                    cost(self.found.chosen),
                    cost(CloudPolicy::UniformProgress),
                    cost(CloudPolicy::Greedy),
                    cost(CloudPolicy::Omniscient),
                    Cell::opt(of(self.found.chosen), |cell| Cell::Int(cell.misses as i64)),
                ]);
            }
        }
        Section::new("cost-by-trace", "Does it hold on each trace?").with_table(table)
    }
}
