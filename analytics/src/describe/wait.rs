//! A4 and A5: how long jobs wait, by size, VC and run, and how much of a job's completion time waiting is.
//!
//! Wait is from submission to the first start. JCT (job completion time) is wait + run. The share of waiting is
//! wait / (wait + run) of each job; by decile of run, as short jobs suffer most.
//!
//! CPU-only jobs are many, short and hardly ever wait, so that a figure over all jobs says little of either kind. What leads,
//! and what is told by VC, run and user, is of the GPU jobs; CPU-only jobs and all jobs stand beside them. Where no GPU job
//! has a known wait, all jobs lead.
//!
//! Worked number: a job that waits 300 s and runs 100 s spends 75 % of its JCT waiting.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, opening};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{count, duration, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::schema::JobState;
use crate::stats;
use crate::stats::ecdf::CurvePoint;
use crate::stats::fit::Fit;
use crate::stats::survival::KaplanMeier;

const POINTS: usize = 160;
/// VCs the report lists.
const SHOWN: usize = 20;
/// Label of jobs known to have GPUs.
const GPU_JOBS: &str = "GPU jobs";
/// Fewest waits a distribution is fitted to.
const FEWEST: usize = 50;

/// Waits of one class of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Waits {
    /// The class in words.
    pub class: String,
    /// Waits of the jobs that started, seconds.
    pub started_s: stats::quantile::Summary,
    /// Jobs that never started: cancelled while they waited, or still waiting at the end of the observation.
    pub waiting: u64,
    /// Share of the jobs that waited at least a minute.
    pub over_a_minute_share: f64,
    /// Share of jobs that waited at most so long (Kaplan-Meier where jobs never started), thinned.
    pub curve: Vec<CurvePoint>,
    /// GPUs × wait of the class, hours.
    pub gpu_wait_hours: Option<f64>,
}

/// Jobs of one size class, of none of which the wait is known.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Unknown {
    /// The class in words.
    pub class: String,
    /// Jobs in it.
    pub jobs: u64,
}

/// The share of waiting in the completion time, for a tenth of the jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WaitShare {
    /// Decile of run, 1 for the shortest tenth.
    pub decile: u8,
    /// Shortest run in it, seconds.
    pub from_s: f64,
    /// Longest run in it, seconds.
    pub to_s: f64,
    /// Jobs in it.
    pub jobs: u64,
    /// Mean of wait / (wait + run).
    pub mean_share: f64,
    /// Mean wait, seconds.
    pub mean_wait_s: f64,
}

/// Waits of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Wait {
    /// Definition of a wait.
    pub definition: String,
    /// GPU jobs; `null` where the wait of none is known.
    pub gpu: Option<Waits>,
    /// GPU jobs whose wait is unknown.
    pub gpu_unknown: u64,
    /// All jobs.
    pub all: Waits,
    /// Waits by size class; classes in which no wait is known are in `without`.
    pub by_size: Vec<Waits>,
    /// Size classes with jobs of which no wait is known.
    pub without: Vec<Unknown>,
    /// Waits by VC, most GPUs × wait first; of GPU jobs, unless `gpu` is `null`.
    pub by_vc: Vec<Waits>,
    /// Waits by how long the job then ran; of GPU jobs, unless `gpu` is `null`.
    pub by_run: Vec<Waits>,
    /// Distribution over users of their mean wait, seconds; of GPU jobs, unless `gpu` is `null`.
    pub user_mean_s: Option<stats::quantile::Summary>,
    /// Share of waiting in the completion time, by decile of run; of GPU jobs, unless `gpu` is `null`.
    pub share_by_run_decile: Vec<WaitShare>,
    /// Distributions fitted to the waits of at least a second, best AIC first; of GPU jobs, unless `gpu` is `null`.
    pub fits: Vec<Fit>,
    /// Jobs whose wait is unknown.
    pub unknown: u64,
}

impl Waits {
    fn new(facts: &JobFacts<'_>, class: &str, rows: impl Iterator<Item = usize>) -> Option<Self> {
        let (mut times, mut started) = (Vec::new(), Vec::new());
        let mut gpu_s = None;
        for job in rows {
            if let Some(wait) = facts.wait_s(job) {
                times.push(wait);
                started.push(true);
                if let Some(gpus) = facts.gpus(job) {
                    *gpu_s.get_or_insert(0.0) += gpus * wait;
                }
            } else if let Some(age) = still_waiting_s(facts, job) {
                times.push(age);
                started.push(false);
            }
        }
        let waits: Vec<f64> = times.iter().zip(&started).filter(|(_, s)| **s).map(|(wait, _)| *wait).collect();
        let long = waits.iter().filter(|wait| **wait >= 60.0).count();
        let number = waits.len();
        Some(Self {
            class: class.to_owned(),
            started_s: stats::quantile::Summary::of_vec(waits)?,
            waiting: started.iter().filter(|s| !**s).count() as u64,
            over_a_minute_share: long as f64 / number as f64,
            curve: KaplanMeier::right_censored(&times, &started).map(|k| k.thin_ended(POINTS)).unwrap_or_default(),
            gpu_wait_hours: gpu_s.map(hours),
        })
    }
}

/// Wait of a job that never started, seconds: until it was cancelled, or to the end of the
/// observation.
fn still_waiting_s(facts: &JobFacts<'_>, job: usize) -> Option<f64> {
    if let Some(waited) = facts.trace.jobs.waited_in_vain_s(job) {
        return Some(waited);
    }
    let submit = facts.trace.jobs.submit.get(job)?;
    let end = facts.record_end?;
    (facts.state(job) == JobState::Pending && facts.trace.jobs.start.get(job).is_none())
        .then(|| (end - submit) as f64 / 1_000.0)
}

impl Topic for Wait {
    const ID: &'static str = "wait";
    const CODE: &'static str = "A4, A5";
    const TITLE: &'static str = "How long jobs wait";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let all = Waits::new(facts, "all jobs", 0..facts.len())
            .ok_or("no job has a known wait: the source records no start times, or no submissions")?;
        let gpu_jobs = || (0..facts.len()).filter(|job| facts.is_gpu_job(*job));
        let gpu = Waits::new(facts, GPU_JOBS, gpu_jobs());
        let gpu_known = gpu.as_ref().map_or(0, |gpu| gpu.started_s.count + gpu.waiting);
        let leading = |job: usize| gpu.is_none() || facts.is_gpu_job(job);
        let jobs = &facts.trace.jobs;
        let (mut by_size, mut without) = (Vec::new(), Vec::new());
        let classes = SizeClass::ALL.into_iter().map(|class| (class.name(), Some(class)));
        for (name, class) in classes.chain([("GPU count unknown", None)]) {
            let rows: Vec<usize> =
                (0..facts.len()).filter(|job| facts.gpus(*job).map(SizeClass::new) == class).collect();
            match Waits::new(facts, name, rows.iter().copied()) {
                Some(waits) => by_size.push(waits),
                None if rows.is_empty() => {}
                None => without.push(Unknown { class: name.to_owned(), jobs: rows.len() as u64 }),
            }
        }
        let mut rows_of_vc: Vec<Vec<usize>> = vec![Vec::new(); jobs.vc.distinct()];
        let mut rows_of_user: Vec<Vec<f64>> = vec![Vec::new(); jobs.user.distinct()];
        for job in (0..facts.len()).filter(|job| leading(*job)) {
            if let Some(rows) = jobs.vc.code(job).and_then(|code| rows_of_vc.get_mut(code as usize)) {
                rows.push(job);
            }
            if let (Some(code), Some(wait)) = (jobs.user.code(job), facts.wait_s(job))
                && let Some(waits) = rows_of_user.get_mut(code as usize)
            {
                waits.push(wait);
            }
        }
        let mut by_vc: Vec<Waits> = rows_of_vc
            .iter()
            .enumerate()
            .filter_map(|(code, rows)| {
                let name = jobs.vc.name(u32::try_from(code).ok()?)?;
                Waits::new(facts, name, rows.iter().copied())
            })
            .collect();
        by_vc.sort_by(|a, b| {
            let key = |w: &Waits| w.gpu_wait_hours.unwrap_or(0.0);
            key(b).total_cmp(&key(a)).then_with(|| a.class.cmp(&b.class))
        });
        let by_run = [
            ("ran under 1 min", 0.0, 60.0),
            ("1 min to 1 h", 60.0, 3_600.0),
            ("1 h to 1 day", 3_600.0, 86_400.0),
            ("over 1 day", 86_400.0, f64::INFINITY),
        ]
        .into_iter()
        .filter_map(|(name, from, to)| {
            let rows = (0..facts.len()).filter(|job| leading(*job));
            let rows = rows.filter(|job| facts.run_s(*job).is_some_and(|run| run >= from && run < to));
            Waits::new(facts, name, rows)
        })
        .collect();
        let means: Vec<f64> = rows_of_user.iter().filter_map(stats::sum::mean).collect();
        let waits = (0..facts.len()).filter(|job| leading(*job)).filter_map(|job| facts.wait_s(job));
        let positive: Vec<f64> = waits.filter(|wait| *wait >= 1.0).collect();
        let fits = if positive.len() >= FEWEST {
            stats::fit::fit_all(&positive, &vec![false; positive.len()])
        } else {
            Vec::new()
        };
        Ok(Self {
            definition: "from submission to the first start".to_owned(),
            unknown: facts.len() as u64 - all.started_s.count - all.waiting,
            share_by_run_decile: deciles(facts, leading),
            gpu_unknown: gpu_jobs().count() as u64 - gpu_known,
            gpu,
            all,
            by_size,
            without,
            by_vc,
            by_run,
            user_mean_s: stats::quantile::Summary::of_vec(means),
            fits,
        })
    }

    fn section(&self) -> Section {
        let (lead, unknown, jobs) = self.leading();
        let s = &lead.started_s;
        // One sentence, as it leads where a report tells one sentence of each analysis.
        let opening = opening(s.count, s.count + unknown + lead.waiting, jobs, "whose wait is known");
        let spread = format!(
            "the mean is **{}**, and one job in a hundred waits **{}** or longer",
            duration(s.mean),
            duration(s.p99)
        );
        let mut finding = if s.p50 < 1.0 {
            let soon = percent(1.0 - lead.over_a_minute_share);
            let of =
                opening.map_or_else(|| format!("**{soon}** of the {jobs}"), |opening| format!("{opening}, **{soon}**"));
            format!("{of} wait less than a minute, {spread}.")
        } else {
            let half = opening.map_or_else(|| format!("Half of the {jobs}"), |opening| format!("{opening}, half"));
            let late = percent(lead.over_a_minute_share);
            format!("{half} wait at most **{}**, {spread}; **{late}** wait at least a minute.", duration(s.p50))
        };
        if self.mixes() {
            let beside = |waits: &Waits| {
                let s = &waits.started_s;
                format!("{} at the median and {} on average", duration(s.p50), duration(s.mean))
            };
            finding.push_str(&match self.by_size.iter().find(|waits| waits.class == SizeClass::Cpu.name()) {
                Some(cpu) => {
                    format!(" CPU-only jobs wait {}, all jobs together {}.", beside(cpu), beside(&self.all))
                }
                None => format!(" All jobs together wait {}.", beside(&self.all)),
            });
        }
        if let (Some(short), Some(long)) = (self.share_by_run_decile.first(), self.share_by_run_decile.last()) {
            finding.push_str(&format!(
                " On average a job of the shortest tenth of the {jobs} spends {} of its time waiting, one of the longest tenth {}.",
                percent(short.mean_share),
                percent(long.mean_share)
            ));
        }
        let series = self
            .by_size
            .iter()
            .filter(|waits| waits.started_s.count >= 10)
            .map(|waits| {
                ChartSeries::new(
                    waits.class.clone(),
                    Mark::Step,
                    waits.curve.iter().map(|p| (p.x.max(1.0), p.fraction)).collect(),
                )
            })
            .collect();
        let chart = Chart::xy(
            "wait-cdf",
            "Share of jobs that waited at most so long",
            Axis::log_duration("Wait (under a second drawn at one second)"),
            Axis::share("Share"),
            series,
        )
        .with_reading("A curve further right or lower is a size that waits longer; where curves start is the share that starts at once.");
        let gpu_wait: Option<f64> = self.all.gpu_wait_hours;
        let mut section =
            Self::heading().with_finding(finding).with_gpu_hours(gpu_wait).with_chart(chart).with_table(self.table());
        if !self.share_by_run_decile.is_empty() {
            section = section.with_chart(self.decile_chart());
        }
        section
            .with_definition(format!("Wait: {}. Requeues after the first start are not counted.", self.definition))
            .with_definition("The section is ranked by GPUs × wait, the GPU time that jobs waited for.")
            .with_definition(format!("Figures by run, VC and tenth of the jobs are of {}.", self.leading().0.class))
            .with_coverage(self.coverage())
    }
}

/// Wait shares by tenth of run, over jobs with a known wait and run that had ended.
fn deciles(facts: &JobFacts<'_>, leading: impl Fn(usize) -> bool) -> Vec<WaitShare> {
    let mut jobs: Vec<(f64, f64)> = (0..facts.len())
        .filter(|job| leading(*job))
        .filter(|job| !facts.is_censored(*job))
        .filter_map(|job| Some((facts.run_s(job)?, facts.wait_s(job)?)))
        .filter(|(run, wait)| run + wait > 0.0)
        .collect();
    if jobs.len() < 10 {
        return Vec::new();
    }
    jobs.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    (1..=10u8)
        .filter_map(|decile| {
            let from = jobs.len() * (usize::from(decile) - 1) / 10;
            let to = jobs.len() * usize::from(decile) / 10;
            let part = jobs.get(from..to)?;
            let shares: Vec<f64> = part.iter().map(|(run, wait)| wait / (wait + run)).collect();
            let waits: Vec<f64> = part.iter().map(|(_, wait)| *wait).collect();
            Some(WaitShare {
                decile,
                from_s: part.first()?.0,
                to_s: part.last()?.0,
                jobs: part.len() as u64,
                mean_share: stats::sum::mean(&shares)?,
                mean_wait_s: stats::sum::mean(&waits)?,
            })
        })
        .collect()
}

impl Wait {
    /// The jobs that lead, how many more of them have an unknown wait, and what to call them.
    fn leading(&self) -> (&Waits, u64, &'static str) {
        match &self.gpu {
            Some(gpu) => (gpu, self.gpu_unknown, if self.mixes() { GPU_JOBS } else { "jobs" }),
            None => (&self.all, self.unknown, "jobs"),
        }
    }

    /// Whether there are known waits of other jobs beside those of GPU jobs.
    fn mixes(&self) -> bool {
        self.gpu.as_ref().is_some_and(|gpu| gpu.started_s.count < self.all.started_s.count)
    }

    fn coverage(&self) -> String {
        let all = self.all.started_s.count + self.unknown + self.all.waiting;
        let mut text = format!(
            "The wait is known for {} of {} jobs; {} were cancelled while they waited or still waiting at the end.",
            count(self.all.started_s.count),
            count(all),
            count(self.all.waiting)
        );
        if !self.without.is_empty() {
            let classes: Vec<String> =
                self.without.iter().map(|none| format!("{} ({})", none.class, count(none.jobs))).collect();
            text.push_str(&format!(" No wait is known in these size classes (jobs): {}.", classes.join(", ")));
        }
        text
    }

    fn table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Wait by size, run and VC",
            vec![
                Column::text("Jobs"),
                Column::number("Started"),
                Column::number("Mean"),
                Column::number("Median"),
                Column::number("90 %"),
                Column::number("99 %"),
                Column::number("At least a minute"),
                Column::with_unit("GPUs × wait", "h"),
            ],
        );
        let row = |waits: &Waits| {
            let s = &waits.started_s;
            vec![
                waits.class.as_str().into(),
                int(s.count),
                Cell::Duration(s.mean),
                Cell::Duration(s.p50),
                Cell::Duration(s.p90),
                Cell::Duration(s.p99),
                Cell::Percent(waits.over_a_minute_share),
                Cell::opt(waits.gpu_wait_hours, |value| Cell::Float { value, digits: 0 }),
            ]
        };
        let gpu = self.gpu.iter().filter(|_| self.mixes());
        table.rows.extend(gpu.chain(std::iter::once(&self.all)).chain(&self.by_size).map(row));
        table.rows.extend(self.without.iter().map(|none| vec![none.class.as_str().into(), int(0)]));
        table.rows.extend(self.by_run.iter().chain(self.by_vc.iter().take(SHOWN)).map(row));
        if self.by_vc.len() > SHOWN {
            table.note = Some(format!("{} more VCs wait less; the JSON form lists all.", self.by_vc.len() - SHOWN));
        }
        table
    }

    fn decile_chart(&self) -> Chart {
        let names = self.share_by_run_decile.iter().map(|d| format!("up to {}", duration(d.to_s))).collect();
        let values = self.share_by_run_decile.iter().map(|d| Some(d.mean_share)).collect();
        Chart::bars(
            "wait-share",
            "Share of the completion time spent waiting, by run",
            Axis::share("Mean of wait / (wait + run)"),
            crate::report::BarLayout::Grouped,
            names,
            vec![crate::report::BarSeries::new("share", values)],
        )
        .with_reading("Each bar is a tenth of the jobs, shortest runs first. High bars on the left mean that short jobs mostly wait.")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::facts::rows::job;
    use crate::trace::Trace;

    #[test]
    fn gpu_jobs_lead_and_the_others_stand_beside() {
        let mut trace = Trace::default();
        // Two GPU jobs wait 1 h and 3 h; eight CPU-only jobs start at once.
        trace.jobs.push(job("a", "x", 1.0, 0, 3_600, 7_200));
        trace.jobs.push(job("b", "x", 8.0, 0, 10_800, 14_400));
        for ix in 0..8 {
            trace.jobs.push(job(&format!("c{ix}"), "x", 0.0, 0, 0, 10));
        }
        let wait = Wait::of(&JobFacts::new(&trace)).unwrap();
        let gpu = wait.gpu.as_ref().unwrap();
        assert_eq!((gpu.started_s.count, gpu.started_s.p50, wait.all.started_s.p50), (2, 7_200.0, 0.0));
        // All figures that follow are of the two as well: one VC, one class of runs, too few for tenths.
        assert_eq!(wait.by_vc.first().unwrap().started_s.count, 2);
        assert_eq!(
            wait.by_run.iter().map(|run| (run.class.as_str(), run.started_s.count)).collect::<Vec<_>>(),
            [("1 h to 1 day", 2)]
        );
        assert!(wait.share_by_run_decile.is_empty());
        let finding = wait.section().finding;
        assert!(finding.starts_with("Half of the GPU jobs wait at most **2 h**"), "{finding}");
        assert!(finding.contains("CPU-only jobs wait 0 s at the median"), "{finding}");
        // 4 h over ten jobs.
        assert!(finding.contains("all jobs together 0 s at the median and 24 min on average"), "{finding}");
    }

    #[test]
    fn without_gpu_jobs_all_jobs_lead() {
        let mut trace = Trace::default();
        for ix in 0..3 {
            trace.jobs.push(job(&format!("c{ix}"), "x", 0.0, 0, 60 * ix, 600));
        }
        let wait = Wait::of(&JobFacts::new(&trace)).unwrap();
        assert!(wait.gpu.is_none() && wait.by_vc.len() == 1);
        assert!(wait.section().finding.starts_with("Half of the jobs wait at most **1 min**"));
    }
}
