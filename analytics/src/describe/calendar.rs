//! A7: load by hour of day, weekday and month, in the cluster's own time zone, and use over the whole observation.
//!
//! Submissions are counted, use is a mean over time: the GPUs in use integrated exactly over the hours of that name.
//!
//! Worked number: 48 submissions in two days, all at 10:xx local: 24 an hour at 10, none at other hours.

mod charts;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::topic::{CAVEAT_BELOW, Topic, TopicResult, left_out, share};
use crate::facts::Capacity;
use crate::facts::JobFacts;
use crate::facts::activity::Activity;
use crate::facts::capacity::samples_by_name;
use crate::facts::observed::Observed;
use crate::facts::occupancy::{Steps, sum};
use crate::report::Section;
use crate::report::format::{counted, integer, percent};
use crate::time::{DAY_MS, HOUR_MS, LocalTime, Zone};

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
/// Use below which the source may hold only part of the jobs.
const PARTIAL: f64 = 0.02;
/// Points of the use curve.
const POINTS: i64 = 600;

/// One hour of the day.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ByHour {
    /// 0 to 23, local.
    pub hour: u8,
    /// Submissions an hour of that name, mean over the days observed.
    pub submissions: Option<f64>,
    /// GPUs in use, mean over those hours.
    pub gpus_in_use: Option<f64>,
}

/// One month.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ByMonth {
    /// `2020-09`, local.
    pub month: String,
    /// Jobs of at most one GPU submitted, CPU jobs left out.
    pub single_gpu_jobs: u64,
    /// Jobs of more than one GPU submitted.
    pub multi_gpu_jobs: u64,
    /// Jobs without GPU, or with an unknown count.
    pub other_jobs: u64,
    /// GPUs in use, mean over the part of the month observed; `null` where use is not known.
    pub gpus_in_use: Option<f64>,
}

/// GPUs in use against GPUs there.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Use")]
pub struct CalendarUse {
    /// Origin of the use, in words.
    pub source: String,
    /// Mean GPUs in use over the observation.
    pub mean_gpus: f64,
    /// Most GPUs in use at one moment.
    pub peak_gpus: f64,
    /// GPUs there, mean over the observation.
    pub capacity_gpus: Option<f64>,
    /// Origin of the capacity, in words.
    pub capacity_source: Option<String>,
    /// Mean use over mean capacity.
    pub utilisation: Option<f64>,
    /// Share of the GPU time whose start is not recorded and was taken to be the submission; `null` for an activity series.
    pub assumed_gpu_time_share: Option<f64>,
    /// Share of the time in which more GPUs were in use than there are: a sign of bad records, never clipped.
    pub oversubscribed_time_share: Option<f64>,
    /// Hours that are left out, as the activity series counts the whole cluster at or near zero right after it was busy.
    pub outage_hours: f64,
    /// Utilisation if those hours were idle time; `null` without such hours or without a capacity.
    pub utilisation_with_outages: Option<f64>,
    /// `(moment in ms, mean GPUs in use until the next)`.
    pub curve: Vec<(i64, f64)>,
}

/// Nodes in use against nodes there, from an activity series that counts them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NodeUse {
    /// Beginning of the series, ms.
    pub from_ms: i64,
    /// End of the series, ms: each sample holds until the next, the last for one median gap.
    pub to_ms: i64,
    /// Mean nodes in use.
    pub mean_nodes: f64,
    /// Most nodes in use at one moment.
    pub peak_nodes: f64,
    /// Nodes there, mean.
    pub total_nodes: Option<f64>,
    /// Mean in use over mean there.
    pub utilisation: Option<f64>,
    /// Hours that are left out, as the whole cluster is counted at or near zero right after it was busy.
    pub outage_hours: f64,
    /// Utilisation if those hours were idle time; `null` without such hours or without a total.
    pub utilisation_with_outages: Option<f64>,
    /// `(moment in ms, mean nodes in use until the next)`.
    pub curve: Vec<(i64, f64)>,
}

/// Load over the calendar.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CalendarLoad {
    /// The zone of hours, weekdays and months.
    pub zone: String,
    /// Whether hours and weekdays are meaningful.
    pub has_calendar: bool,
    /// Load by hour of day; empty without a calendar.
    pub by_hour: Vec<ByHour>,
    /// Submissions a day by weekday, Monday first; empty without a calendar.
    pub submissions_by_weekday: Vec<Option<f64>>,
    /// GPUs in use by weekday, Monday first, mean over those days; empty without a calendar or without use.
    pub gpus_in_use_by_weekday: Vec<Option<f64>>,
    /// Submissions by weekday (row, Monday first) and hour (column), counts.
    pub submissions_by_weekday_hour: Vec<Vec<u64>>,
    /// Load by month; empty without true dates.
    pub by_month: Vec<ByMonth>,
    /// GPUs in use.
    pub gpus_in_use: Option<CalendarUse>,
    /// Nodes in use, where the source counts them.
    pub nodes_in_use: Option<NodeUse>,
    /// Whether the load is of a part of the jobs.
    #[serde(skip)]
    of_a_part: bool,
}

impl Topic for CalendarLoad {
    const ID: &'static str = "calendar";
    const CODE: &'static str = "A7";
    const TITLE: &'static str = "Load over time";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let trace = facts.trace;
        let (in_use, source) = use_over_time(facts);
        let nodes_in_use = nodes_in_use(facts);
        let of_nodes = || nodes_in_use.as_ref().map(|nodes| (nodes.from_ms, nodes.to_ms));
        let window = facts.window.or_else(|| covered(&in_use)).or_else(of_nodes);
        let Some((from, to)) = window.filter(|(from, to)| to > from) else {
            return Err("the source holds neither job times nor an activity series".to_owned());
        };
        // Of what the series counts; jobs are recorded one by one, whatever was counted.
        let observed = if from_jobs(facts) || !facts.is_empty() {
            Observed::whole(from, to)
        } else {
            Observed::less(from, to, &Activity::gpus(trace).outages())
        };
        let mut load = Self {
            of_a_part: trace.selected.is_some(),
            zone: trace.zone.clone(),
            has_calendar: trace.basis.has_calendar(),
            by_hour: Vec::new(),
            submissions_by_weekday: Vec::new(),
            gpus_in_use_by_weekday: Vec::new(),
            submissions_by_weekday_hour: Vec::new(),
            by_month: Vec::new(),
            gpus_in_use: None,
            nodes_in_use,
        };
        if trace.basis.has_calendar() && !(facts.is_empty() && in_use.is_empty()) {
            load.calendar(facts, &in_use, &observed);
        }
        if trace.basis.has_dates() {
            load.by_month = months(facts, &in_use, &observed);
        }
        if !in_use.is_empty() {
            load.gpus_in_use = Some(gpu_use(facts, &in_use, source, &observed));
        }
        Ok(load)
    }

    fn section(&self) -> Section {
        let mut finding = String::new();
        if let Some(gpus) = &self.gpus_in_use {
            finding = format!("On average **{}** GPUs were in use", integer(gpus.mean_gpus.round() as i64));
            match (gpus.utilisation, gpus.capacity_gpus) {
                (Some(utilisation), Some(capacity)) => finding.push_str(&format!(
                    " of {}, **{}**; at the peak {}",
                    integer(capacity.round() as i64),
                    percent(utilisation),
                    integer(gpus.peak_gpus.round() as i64)
                )),
                _ if self.of_a_part => finding.push_str(&format!(
                    " by the jobs that are looked at, at the peak {}; what else ran is not in it",
                    integer(gpus.peak_gpus.round() as i64)
                )),
                _ => finding.push_str(&format!(
                    ", at the peak {}; how many there are is not recorded",
                    integer(gpus.peak_gpus.round() as i64)
                )),
            }
            if gpus.seems_partial() {
                finding.push_str("; so little that the source may hold only part of the jobs");
            }
            if let Some(assumed) = gpus.assumed_gpu_time_share.filter(|share| *share > 1.0 - CAVEAT_BELOW) {
                finding.push_str(&format!(
                    "; **{}** of the GPU time has no recorded start and counts from its submission",
                    percent(assumed)
                ));
            }
            finding.push('.');
        }
        if let Some(nodes) = &self.nodes_in_use {
            if !finding.is_empty() {
                finding.push(' ');
            }
            finding.push_str(&nodes.sentence());
        }
        let by_rate = |a: &&ByHour, b: &&ByHour| a.submissions.unwrap_or(0.0).total_cmp(&b.submissions.unwrap_or(0.0));
        if let (Some(busy), Some(quiet)) = (self.by_hour.iter().max_by(by_rate), self.by_hour.iter().min_by(by_rate))
            && let (Some(most), Some(least)) = (busy.submissions, quiet.submissions)
        {
            finding.push_str(&format!(
                " Most jobs arrive between {}:00 and {}:00 local time ({most:.1} an hour), fewest between {}:00 and \
                     {}:00 ({least:.1}).",
                busy.hour,
                (busy.hour + 1) % 24,
                quiet.hour,
                (quiet.hour + 1) % 24
            ));
        }
        let mut section = Self::heading().with_finding(finding);
        if let Some(gpus) = &self.gpus_in_use {
            section = section.with_chart(self.use_chart(gpus));
        }
        if let Some(nodes) = &self.nodes_in_use {
            section = section.with_chart(self.node_chart(nodes));
        }
        if self.has_calendar && !self.submissions_by_weekday_hour.is_empty() {
            section = section.with_chart(self.hour_chart()).with_chart(self.week_chart());
        }
        if self.by_hour.iter().any(|hour| hour.submissions.is_some() || hour.gpus_in_use.is_some()) {
            section = section.with_table(self.weekday_table());
        }
        if self.by_month.len() > 1 {
            section = section.with_table(self.month_table());
        }
        let calendar = if self.has_calendar {
            format!("Hours, weekdays and months are local to {}.", self.zone)
        } else {
            "The source's times are relative to an unknown moment, so hours and weekdays mean nothing and are left out."
                .to_owned()
        };
        let section = section
            .with_definition(calendar)
            .with_definition("GPUs in use: the sum over jobs from start (inclusive) to end (exclusive), exact, not clipped at the capacity.");
        let mut coverage = String::new();
        if let Some(gpus) = &self.gpus_in_use {
            coverage.push_str(&format!("Use: {}.", gpus.source));
            if let Some(how) = &gpus.capacity_source {
                coverage.push_str(&format!(" Capacity: {how}."));
            }
            if let Some(over) = gpus.oversubscribed_time_share.filter(|over| *over > 0.0) {
                coverage.push_str(&format!(
                    " For **{}** of the time the records show more GPUs in use than there are: starts, ends or capacity \
                     are then wrong.",
                    percent(over)
                ));
            }
            if gpus.seems_partial() {
                coverage.push_str(
                    " Less than 2 % of the GPUs are in use on average: the source may hold only part of the cluster's jobs.",
                );
            }
            let idle = gpus.utilisation_with_outages.map(|share| ("share of GPUs in use", percent(share)));
            if let Some(text) = left_out(gpus.outage_hours, idle) {
                coverage.push_str(&format!(" {text}"));
            }
        }
        if let Some(nodes) = &self.nodes_in_use {
            let idle = nodes.utilisation_with_outages.map(|share| ("share of nodes in use", percent(share)));
            if let Some(text) = left_out(nodes.outage_hours, idle) {
                coverage.push_str(if coverage.is_empty() { "" } else { " " });
                coverage.push_str(&text);
            }
        }
        if coverage.is_empty() { section } else { section.with_coverage(coverage) }
    }
}

/// GPUs in use over time: from the jobs, or else from the activity series.
fn use_over_time(facts: &JobFacts<'_>) -> (Steps, String) {
    let in_use = facts.in_use(|_| true);
    if !in_use.is_empty() {
        let mut source = "from the start and end of each job".to_owned();
        if facts.assumed_starts > 0 {
            let assumed = share(facts.assumed_gpu_s, facts.total_gpu_s()).unwrap_or(0.0);
            source = format!(
                "from the start and end of each job; {} with {} of the GPU time without a recorded start, taken to \
                 start when submitted",
                counted(facts.assumed_starts as u64, "job", "jobs"),
                percent(assumed)
            );
        }
        return (in_use, source);
    }
    let table = &facts.trace.activity;
    let by_vc = samples_by_name(facts.trace, "vc", &table.gpus_running);
    let cluster = samples_by_name(facts.trace, "cluster", &table.gpus_running).into_values().next();
    let series = cluster.unwrap_or_else(|| sum(by_vc.values()));
    (series, "from the activity series of the source".to_owned())
}

/// Whether the use comes from jobs.
fn from_jobs(facts: &JobFacts<'_>) -> bool {
    !facts.stretches.is_empty()
}

/// The time that a series covers, which ends where its last sample does.
fn covered(series: &Steps) -> Option<(i64, i64)> {
    Some((*series.times().first()?, *series.times().last()?))
}

/// Nodes in use, where the activity series counts them: the cluster's, else those of its VCs together.
fn nodes_in_use(facts: &JobFacts<'_>) -> Option<NodeUse> {
    let table = &facts.trace.activity;
    let series = |column| {
        let cluster = samples_by_name(facts.trace, "cluster", column).into_values().next();
        cluster.unwrap_or_else(|| sum(samples_by_name(facts.trace, "vc", column).values()))
    };
    let (active, there) = (series(&table.nodes_active), series(&table.nodes_total));
    let (from, to) = covered(&active).filter(|(from, to)| to > from)?;
    let observed = Observed::less(from, to, &Activity::nodes(facts.trace).outages());
    let mean_nodes = observed.mean(&active)?;
    let total_nodes = observed.mean(&there).filter(|nodes| *nodes > 0.0);
    let outage_hours = observed.outage_hours();
    let whole = || Some(active.mean(from, to)? / there.mean(from, to).filter(|nodes| *nodes > 0.0)?);
    Some(NodeUse {
        from_ms: from,
        to_ms: to,
        mean_nodes,
        peak_nodes: observed.max(&active),
        total_nodes,
        utilisation: total_nodes.map(|nodes| mean_nodes / nodes),
        outage_hours,
        utilisation_with_outages: (outage_hours > 0.0).then(whole).flatten(),
        curve: observed.curve(&active, POINTS),
    })
}

fn gpu_use(facts: &JobFacts<'_>, in_use: &Steps, source: String, observed: &Observed) -> CalendarUse {
    let (from, to) = (observed.from, observed.to);
    let capacity =
        if from_jobs(facts) { Capacity::of_jobs(facts, from, to) } else { Capacity::new(facts.trace, from, to) };
    let mean_gpus = observed.mean(in_use).unwrap_or(0.0);
    let capacity_gpus = capacity.as_ref().and_then(|c| observed.mean(&c.cluster)).filter(|gpus| *gpus > 0.0);
    let whole = || {
        let there = capacity.as_ref()?.cluster.mean(from, to).filter(|gpus| *gpus > 0.0)?;
        Some(in_use.mean(from, to)? / there)
    };
    let outage_hours = observed.outage_hours();
    let utilisation_with_outages = (outage_hours > 0.0).then(whole).flatten();
    let over = capacity.as_ref().map(|capacity| {
        let mut over = 0;
        observed.walk(&[in_use, &capacity.cluster], |start, end, values| {
            if let &[used, there] = values {
                over += if used > there + 1e-6 { end - start } else { 0 };
            }
        });
        over as f64 / observed.length() as f64
    });
    CalendarUse {
        source,
        mean_gpus,
        peak_gpus: observed.max(in_use),
        capacity_gpus,
        capacity_source: capacity.filter(|_| capacity_gpus.is_some()).map(|c| c.how),
        utilisation: capacity_gpus.map(|gpus| mean_gpus / gpus),
        assumed_gpu_time_share: share(facts.assumed_gpu_s, facts.total_gpu_s()).filter(|_| from_jobs(facts)),
        oversubscribed_time_share: over,
        outage_hours,
        utilisation_with_outages,
        curve: observed.curve(in_use, POINTS),
    }
}

fn months(facts: &JobFacts<'_>, in_use: &Steps, observed: &Observed) -> Vec<ByMonth> {
    let mut months: BTreeMap<String, ByMonth> = BTreeMap::new();
    let mut calendar = facts.zone.calendar();
    let mut last: Option<(i64, String)> = None;
    for (job, submit) in facts.trace.jobs.submit.iter().enumerate() {
        let Some(submit) = submit else { continue };
        let day = calendar.local(submit).day;
        let month = match &last {
            Some((known, month)) if *known == day => month.clone(),
            _ => month_of(day),
        };
        last = Some((day, month.clone()));
        let entry = months.entry(month.clone()).or_insert(ByMonth {
            month,
            single_gpu_jobs: 0,
            multi_gpu_jobs: 0,
            other_jobs: 0,
            gpus_in_use: None,
        });
        match facts.gpus(job) {
            Some(gpus) if gpus > 1.0 => entry.multi_gpu_jobs += 1,
            Some(gpus) if gpus > 0.0 => entry.single_gpu_jobs += 1,
            _ => entry.other_jobs += 1,
        }
    }
    if in_use.is_empty() {
        return months.into_values().collect();
    }
    // By day first: a month is named once a day, not once a stretch. Stretches come in the order of time.
    let mut by_day: Vec<(i64, (f64, i64))> = Vec::new();
    for (from, to) in observed.parts() {
        by_local_hour(&facts.zone, in_use, from, to, |local, area, length| match by_day.last_mut() {
            Some((day, sum)) if *day == local.day => {
                sum.0 += area;
                sum.1 += length;
            }
            _ => by_day.push((local.day, (area, length))),
        });
    }
    let mut by_month: BTreeMap<String, (f64, i64)> = BTreeMap::new();
    for (day, (area, length)) in by_day {
        let month = by_month.entry(month_of(day)).or_default();
        month.0 += area;
        month.1 += length;
    }
    for (name, month) in &mut months {
        month.gpus_in_use = by_month.get(name).filter(|(_, time)| *time > 0).map(|(area, time)| area / *time as f64);
    }
    months.into_values().collect()
}

/// `2020-09` for a day counted from 1970-01-01.
fn month_of(day: i64) -> String {
    crate::time::format_utc(day * DAY_MS).chars().take(7).collect()
}

/// Calls `visit(local time, value × ms, ms)` for each stretch of [from, to) that lies in one local hour, in turn. Zones
/// differ from UTC by whole quarters of an hour, so quarters of UTC are such stretches in every zone.
fn by_local_hour(zone: &Zone, in_use: &Steps, from: i64, to: i64, mut visit: impl FnMut(LocalTime, f64, i64)) {
    const QUARTER_MS: i64 = HOUR_MS / 4;
    const PIECE: i64 = 1 << 14;
    let mut calendar = zone.calendar();
    // The first quarter is cut at `from`: before it nothing was observed.
    let first = (from - from.rem_euclid(QUARTER_MS) + QUARTER_MS).min(to);
    let cut = in_use.mean(from, first);
    if let Some(mean) = cut {
        visit(calendar.local(from), mean * (first - from) as f64, first - from);
    }
    // In pieces: memory must not follow how long the observation is.
    let mut begin = first;
    while begin < to {
        let until = begin.saturating_add(PIECE * QUARTER_MS).min(to);
        for (start, mean) in in_use.bucket_means(begin, until, QUARTER_MS) {
            let end = (start + QUARTER_MS).min(until);
            visit(calendar.local(start), mean * (end - start) as f64, end - start);
        }
        begin = until;
    }
}

impl CalendarUse {
    /// Whether the utilisation is so low that jobs may be missing.
    fn seems_partial(&self) -> bool {
        self.utilisation.is_some_and(|share| share < PARTIAL)
    }
}

impl NodeUse {
    fn sentence(&self) -> String {
        let mut text = format!("On average **{}** nodes were in use", integer(self.mean_nodes.round() as i64));
        if let (Some(share), Some(there)) = (self.utilisation, self.total_nodes) {
            text.push_str(&format!(" of {}, **{}**", integer(there.round() as i64), percent(share)));
        }
        text.push_str(&format!("; at the peak {}.", integer(self.peak_nodes.round() as i64)));
        text
    }
}

impl CalendarLoad {
    /// Fills hours and weekdays: counts of submissions over the time of that name that was observed.
    fn calendar(&mut self, facts: &JobFacts<'_>, in_use: &Steps, span: &Observed) {
        let mut counts = vec![vec![0u64; 24]; 7];
        let mut calendar = facts.zone.calendar();
        for submit in facts.trace.jobs.submit.iter().flatten() {
            let local = calendar.local(submit);
            if let Some(cell) =
                counts.get_mut(usize::from(local.weekday)).and_then(|row| row.get_mut(usize::from(local.hour)))
            {
                *cell += 1;
            }
        }
        let jobs = !facts.is_empty();
        let (mut area, mut of_weekday) = ([0.0; 24], [0.0; 7]);
        let mut observed = [[0i64; 24]; 7];
        for (from, to) in span.parts() {
            by_local_hour(&facts.zone, in_use, from, to, |local, used, length| {
                let (weekday, hour) = (usize::from(local.weekday), usize::from(local.hour));
                if let Some(time) = observed.get_mut(weekday).and_then(|row| row.get_mut(hour)) {
                    *time += length;
                }
                if let Some(area) = area.get_mut(hour) {
                    *area += used;
                }
                if let Some(area) = of_weekday.get_mut(weekday) {
                    *area += used;
                }
            });
        }
        let cell =
            |weekday: usize, hour: usize| observed.get(weekday).and_then(|row| row.get(hour)).copied().unwrap_or(0);
        self.by_hour = (0..24u8)
            .map(|hour| {
                let ix = usize::from(hour);
                let time: i64 = (0..7).map(|weekday| cell(weekday, ix)).sum();
                let submitted: u64 = counts.iter().filter_map(|row| row.get(ix)).sum();
                let known = time > 0;
                ByHour {
                    hour,
                    submissions: (known && jobs).then(|| submitted as f64 * HOUR_MS as f64 / time as f64),
                    gpus_in_use: (known && !in_use.is_empty())
                        .then(|| area.get(ix).copied().unwrap_or(0.0) / time as f64),
                }
            })
            .collect();
        self.submissions_by_weekday = (0..7)
            .map(|weekday| {
                let time: i64 = (0..24).map(|hour| cell(weekday, hour)).sum();
                let submitted: u64 = counts.get(weekday).map_or(0, |row| row.iter().sum());
                (time > 0 && jobs).then(|| submitted as f64 * DAY_MS as f64 / time as f64)
            })
            .collect();
        if !in_use.is_empty() {
            let day = |(weekday, area): (usize, &f64)| {
                let time: i64 = (0..24).map(|hour| cell(weekday, hour)).sum();
                (time > 0).then(|| area / time as f64)
            };
            self.gpus_in_use_by_weekday = of_weekday.iter().enumerate().map(day).collect();
        }
        if jobs {
            self.submissions_by_weekday_hour = counts;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
