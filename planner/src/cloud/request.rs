//! What is asked of a cloud plan, and of its backtest.

use std::collections::BTreeSet;

use super::job::DeadlineJob;
use super::policy::CloudPolicy;
use super::work::{WorkDistribution, WorkPlanned};
use crate::cloud::elastic::programme::LEVEL;
use crate::cloud::zones::market::Market;
use crate::cloud::zones::probe::Probes;
use crate::error::{Error, Result};
use crate::market::availability::SpotSeries;

/// Most instances of an elastic job.
const MOST_LANES: u32 = 1024;

/// A job with a deadline, and how it is tried. The default asks for nothing and is refused.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CloudRequest {
    /// Work, milliseconds on the instances it needs; the top of it where it is uncertain.
    pub work_ms: i64,
    /// Time to the deadline, milliseconds, if it is given so; no slack counts then.
    pub deadline_ms: Option<i64>,
    /// Work over time to the deadline: each is tried.
    pub slacks: Vec<f64>,
    /// Time to take another instance, milliseconds.
    pub changeover_ms: i64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
    /// Whether somebody said so; else it is an assumption.
    pub is_ratio_given: bool,
    /// Moments at which the job begins on each trace.
    pub starts: usize,
    /// Instances it needs at once, or at most where it is elastic.
    pub need: u32,
    /// Whether it runs on whatever number of instances there is, up to so many.
    pub elastic: bool,
    /// Zones of one job, if it may move between them; else each trace is tried on its own.
    pub together: Option<ZonesTogether>,
    /// What moving would cost, also where each zone is tried on its own: a plan says whether all of them together would cost less.
    pub moving: ZonesTogether,
    /// What is known of the work, where it is uncertain.
    pub uncertain: Option<WorkDistribution>,
    /// Choose among policies that forecast nothing.
    pub naive: bool,
    /// Time that a checkpoint takes, seconds; a plan then says how often to write one.
    pub checkpoint_s: Option<f64>,
    /// The command that asks, which a recommendation says to run again; `None` if there is none.
    pub command: Option<String>,
}

/// What moving between zones costs, and when they are seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZonesTogether {
    /// Size of the checkpoint, gigabytes.
    pub checkpoint_gb: f64,
    /// Dollars that it costs to move a gigabyte to another region.
    pub egress_usd_per_gb: f64,
    /// When zones are probed; nothing where all are seen at every tick.
    pub probes: Option<Probes>,
}

impl Default for ZonesTogether {
    /// 50 GB at 2 cents each, and zones that are seen at every tick.
    fn default() -> Self {
        Self { checkpoint_gb: 50.0, egress_usd_per_gb: 0.02, probes: None }
    }
}

impl ZonesTogether {
    /// Dollars that it costs to move the checkpoint to another region.
    pub fn egress(&self) -> f64 {
        self.checkpoint_gb * self.egress_usd_per_gb
    }
}

impl CloudRequest {
    /// The market of the zones of one job; `None` where each trace is tried on its own.
    ///
    /// # Errors
    /// Errors of [`Market::new`].
    pub(super) fn market(&self, series: &[SpotSeries]) -> Result<Option<Market>> {
        let Some(together) = &self.together else { return Ok(None) };
        Ok(Some(Market::new(series, self.need, self.price_ratio, together.egress())?.probed(together.probes)))
    }

    /// Traces on which windows lie: all, or the shortest where they are zones of one job.
    pub(super) fn tried_on<'a>(&self, series: &'a [SpotSeries]) -> Vec<&'a SpotSeries> {
        match self.together {
            Some(_) => series.iter().min_by_key(|zone| zone.counts.len()).into_iter().collect(),
            None => series.iter().collect(),
        }
    }

    /// Policies that are tried, and those of them to choose from.
    pub(super) fn policies(&self) -> (&'static [CloudPolicy], &'static [CloudPolicy]) {
        let all: &[CloudPolicy] = if self.together.is_some() { &CloudPolicy::TOGETHER } else { &CloudPolicy::ALL };
        (all, self.choices(self.together.is_some()))
    }

    /// Policies to choose from in one zone, or over several.
    pub(super) fn choices(&self, over_zones: bool) -> &'static [CloudPolicy] {
        match (over_zones, self.naive) {
            (false, false) => &CloudPolicy::CAUSAL,
            (true, false) => &CloudPolicy::CAUSAL_TOGETHER,
            (false, true) => &CloudPolicy::NAIVE,
            (true, true) => &CloudPolicy::NAIVE_TOGETHER,
        }
    }

    /// How policies plan on work that is uncertain.
    pub(super) fn planned(&self) -> WorkPlanned {
        match (&self.together, self.elastic && self.need > 1) {
            (Some(_), _) => WorkPlanned::Top,
            (None, true) => WorkPlanned::Cover(LEVEL),
            (None, false) => WorkPlanned::Distribution,
        }
    }

    /// With the slacks of these times to a deadline, milliseconds, in place of its own if there are any; each once, whoever named it.
    ///
    /// # Errors
    /// If on-demand alone would miss one.
    pub fn trying(mut self, deadlines_ms: &[i64]) -> Result<Self> {
        if !deadlines_ms.is_empty() {
            let slack = |deadline_ms: &i64| {
                let job = DeadlineJob::within(self.work_ms, *deadline_ms, self.changeover_ms, self.price_ratio)?;
                Ok(job.work_ms as f64 / job.deadline_ms as f64)
            };
            self.slacks = deadlines_ms.iter().map(slack).collect::<Result<Vec<f64>>>()?;
        }
        let mut seen = BTreeSet::new();
        self.slacks.retain(|slack| seen.insert(slack.to_bits()));
        Ok(self)
    }

    /// The job with each of the deadlines.
    ///
    /// # Errors
    /// If a figure makes no sense, or on-demand alone would miss a deadline.
    pub fn jobs(&self) -> Result<Vec<DeadlineJob>> {
        if (self.slacks.is_empty() && self.deadline_ms.is_none()) || self.starts == 0 || self.need == 0 {
            return Err(Error::no_scenario(
                "nothing is asked for; ask for at least one slack, one start and one instance",
            ));
        }
        if self.elastic && self.together.is_some() {
            return Err(Error::no_scenario(
                "an elastic job runs in one zone; leave out one of --elastic and --regions together",
            ));
        }
        if self.elastic && self.need > MOST_LANES {
            return Err(Error::malformed(
                "number of instances of an elastic job",
                self.need.to_string(),
                format!("ask for {MOST_LANES} at most, or take several instances for one and their count over that"),
            ));
        }
        if let Some(together) = &self.together
            && !(together.egress() >= 0.0 && together.egress().is_finite())
        {
            return Err(Error::malformed(
                "checkpoint",
                format!("{} GB at {} dollars each", together.checkpoint_gb, together.egress_usd_per_gb),
                "write a size and a price of 0 or more".to_owned(),
            ));
        }
        if let Some(probes) = self.together.and_then(|together| together.probes)
            && (probes.every_ms <= 0 || probes.bill_ms < 0)
        {
            return Err(Error::malformed(
                "time between probes",
                format!("{} ms, of which {} ms are paid for", probes.every_ms, probes.bill_ms),
                "write a time above 0, such as 2h, and one of 0 or more that is paid for".to_owned(),
            ));
        }
        if let Some(deadline_ms) = self.deadline_ms {
            let job = DeadlineJob::within(self.work_ms, deadline_ms, self.changeover_ms, self.price_ratio);
            return job.map(|job| vec![job]);
        }
        self.slacks
            .iter()
            .map(|slack| DeadlineJob::new(self.work_ms, *slack, self.changeover_ms, self.price_ratio))
            .collect()
    }
}

/// Checks that some series can show so many instances: traces that never count more than a few may
/// have been asked for no more.
pub(super) fn check_need(series: &[SpotSeries], need: u32) -> Result<()> {
    let most = series.iter().flat_map(|zone| &zone.counts).copied().fold(0.0, f64::max);
    if need <= 1 || most >= f64::from(need) {
        return Ok(());
    }
    Err(Error::SpotTrace {
        file: series.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>().join(", "),
        found: format!("there are never more than {most} instances, and --need is {need}"),
        remedy: "name a trace of as many instances, or ask for fewer",
    })
}

/// Ticks of a series until the last of some deadlines.
pub(super) fn longest(series: &SpotSeries, jobs: &[DeadlineJob]) -> usize {
    jobs.iter().map(|job| job.ticks(series.tick_ms)).max().unwrap_or(0)
}

/// The error that `ticks` of a series do not hold the time to a deadline.
pub(super) fn too_short(series: &SpotSeries, ticks: usize, needed: usize, parts: usize) -> Error {
    let hours = |ticks: usize| ticks as f64 * series.tick_ms as f64 / 3.6e6;
    let twice = if parts > 1 { ", once to choose on and once to report on" } else { "" };
    Error::NothingToEvaluate(format!(
        "{}: the trace is {:.1} h long, and the time to the deadline is {:.1} h{twice}; ask for less work or a tighter deadline, or name a longer trace",
        series.name,
        hours(ticks),
        hours(needed)
    ))
}
