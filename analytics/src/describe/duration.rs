//! A3: how long jobs run: quantiles, distribution by count and by GPU time, Kaplan-Meier where jobs are still running,
//! and fitted distributions, each by size class.
//!
//! Jobs still running when the record was taken ran *at least* so long. Dropping them favours short jobs; counting them
//! as ended does too. The Kaplan-Meier estimate uses what is known of them: S(t) = Π (1 − dᵢ/nᵢ) over the end times up
//! to t, with dᵢ ends among nᵢ jobs that were observed as long.
//!
//! GPU jobs lead, as CPU-only jobs are many and short; all jobs stand beside them. Where no GPU job has a known run, all lead.
//!
//! Worked number: runs of 1, 2 and 4 h ended and one of 3 h still running: S(2 h) = 3/4 · 2/3 = 1/2, and the median is
//! 2 h; without the running job it would be 2 h of three, with it counted as ended 2.5 h.

use schemars::JsonSchema;
use serde::Serialize;

use super::summary::int;
use super::topic::{Topic, TopicResult, hours, opening};
use crate::facts::{JobFacts, SizeClass};
use crate::report::format::{count, counted, duration, percent};
use crate::report::{Axis, Cell, Chart, ChartSeries, Column, Mark, ReportTable, Section};
use crate::stats;
use crate::stats::ecdf::{CurvePoint, Ecdf};
use crate::stats::fit::{Fit, FitFailure};
use crate::stats::survival::KaplanMeier;

/// Points of a curve in the JSON form and in charts.
const POINTS: usize = 160;
/// Ratio of mean to median from which few jobs decide the load.
const SKEWED: f64 = 5.0;
/// Label of jobs known to have GPUs.
const GPU_JOBS: &str = "GPU jobs";
/// Fewest ended jobs a distribution is fitted to.
const FEWEST: usize = 50;

/// Runs of one class of jobs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Runs {
    /// The class in words.
    pub class: String,
    /// Jobs that ended, with a known run.
    pub ended: u64,
    /// Jobs still running at the end of the observation.
    pub running: u64,
    /// Jobs whose run is unknown.
    pub unknown: u64,
    /// Runs of the jobs that ended, seconds.
    pub ended_s: Option<stats::quantile::Summary>,
    /// Kaplan-Meier median over ended and running jobs, seconds; the same as of the ended ones if none was running.
    pub kaplan_meier_median_s: Option<f64>,
    /// Kaplan-Meier 90 % quantile, seconds; `null` if the curve does not come down to it.
    pub kaplan_meier_p90_s: Option<f64>,
    /// Share of jobs that ran at most so long (Kaplan-Meier), thinned.
    pub curve: Vec<CurvePoint>,
    /// GPU-hours of the class; `null` where nobody recorded GPUs.
    pub gpu_hours: Option<f64>,
    /// Fitted distributions, best AIC first.
    pub fits: Vec<Fit>,
    /// Pareto tail, fitted to the largest runs alone.
    pub pareto_tail: Option<Fit>,
    /// Distributions that could not be fitted, with the reason.
    pub not_fitted: Vec<FitFailure>,
}

/// Run times of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Duration {
    /// Definition of a run.
    pub definition: String,
    /// GPU jobs; `null` where the run of none is known.
    pub gpu: Option<Runs>,
    /// All jobs.
    pub all: Runs,
    /// Runs by size class, smallest first; classes without jobs are left out.
    pub by_size: Vec<Runs>,
    /// Share of the GPU time in jobs that ran at most so long, thinned.
    pub gpu_time_curve: Vec<CurvePoint>,
    /// Half of the GPU time is in jobs that ran longer than this, seconds.
    pub gpu_time_median_s: Option<f64>,
}

impl Runs {
    fn new(facts: &JobFacts<'_>, class: &str, keep: impl Fn(usize) -> bool) -> Option<Self> {
        let mut times = Vec::new();
        let mut ended = Vec::new();
        let mut unknown = 0;
        let members: Vec<usize> = (0..facts.len()).filter(|job| keep(*job)).collect();
        for job in members.iter().copied() {
            match facts.run_s(job) {
                Some(run) => {
                    times.push(run);
                    ended.push(!facts.is_censored(job));
                }
                None => unknown += 1,
            }
        }
        if times.is_empty() {
            return None;
        }
        let running = ended.iter().filter(|ended| !**ended).count();
        let ended_runs: Vec<f64> = times.iter().zip(&ended).filter(|(_, ended)| **ended).map(|(run, _)| *run).collect();
        let survival = KaplanMeier::right_censored(&times, &ended).ok();
        let censored: Vec<bool> = ended.iter().map(|ended| !ended).collect();
        let (fits, pareto_tail, not_fitted) = if ended_runs.len() >= FEWEST {
            match stats::fit::fit_report(&times, &censored) {
                Ok(report) => (report.fits, report.pareto_tail, report.failures),
                Err(_) => (Vec::new(), None, Vec::new()),
            }
        } else {
            (Vec::new(), None, Vec::new())
        };
        Some(Self {
            class: class.to_owned(),
            ended: ended_runs.len() as u64,
            running: running as u64,
            unknown,
            ended_s: stats::quantile::Summary::of_vec(ended_runs),
            kaplan_meier_median_s: survival.as_ref().and_then(KaplanMeier::median),
            kaplan_meier_p90_s: survival.as_ref().and_then(|curve| curve.quantile(0.9)),
            curve: survival.map(|curve| curve.thin_ended(POINTS)).unwrap_or_default(),
            gpu_hours: facts.gpu_time_s(members).map(hours),
            fits,
            pareto_tail,
            not_fitted,
        })
    }
}

impl Topic for Duration {
    const ID: &'static str = "duration";
    const CODE: &'static str = "A3";
    const TITLE: &'static str = "How long jobs run";

    fn of(facts: &JobFacts<'_>) -> TopicResult<Self> {
        let all = Runs::new(facts, "all jobs", |_| true).ok_or("no job has a known run")?;
        let gpu = if (0..facts.len()).all(|job| facts.is_gpu_job(job)) {
            Some(Runs { class: GPU_JOBS.to_owned(), ..all.clone() })
        } else {
            Runs::new(facts, GPU_JOBS, |job| facts.is_gpu_job(job))
        };
        let classes = SizeClass::ALL.map(|class| (class.name(), Some(class)));
        let by_size = classes
            .into_iter()
            .chain([("GPU count unknown", None)])
            .filter_map(|(name, class)| Runs::new(facts, name, |job| facts.gpus(job).map(SizeClass::new) == class))
            .collect();
        let (mut runs, mut weights) = (Vec::new(), Vec::new());
        for job in 0..facts.len() {
            if let (Some(run), Some(gpu_s)) = (facts.run_s(job), facts.gpu_s(job)) {
                runs.push(run);
                weights.push(gpu_s);
            }
        }
        let by_time = Ecdf::weighted(&runs, &weights);
        Ok(Self {
            definition:
                "time the attempts of a job ran, from their timestamps, or the source's own figure where those \
                         are missing; until the end of the observation for jobs still running"
                    .to_owned(),
            gpu,
            all,
            by_size,
            gpu_time_curve: by_time.as_ref().map(|ecdf| ecdf.thin(POINTS)).unwrap_or_default(),
            gpu_time_median_s: by_time.as_ref().and_then(|ecdf| ecdf.quantile(0.5)),
        })
    }

    fn section(&self) -> Section {
        let mut finding = String::new();
        let (lead, name) = self.leading();
        if let Some(all) = &lead.ended_s {
            let jobs = lead.ended + lead.running + lead.unknown;
            finding = format!(
                "{} at most **{}**, and the mean is **{}**",
                opening(lead.ended, jobs, name, "that ended after a known run")
                    .map_or_else(|| format!("Half of the {name} ran"), |opening| format!("{opening}, half ran")),
                duration(all.p50),
                duration(all.mean)
            );
            if all.mean > SKEWED * all.p50 {
                finding.push_str(": a few long jobs decide the load");
            }
            match self.gpu_time_median_s {
                Some(median) => finding.push_str(&format!(
                    "; half of the GPU time is in jobs that ran **{}** or longer.",
                    duration(median)
                )),
                None => finding.push('.'),
            }
            if self.mixes() {
                let beside = |runs: &Runs| {
                    let ended = runs.ended_s.as_ref();
                    ended.map(|s| format!("{} at the median and {} on average", duration(s.p50), duration(s.mean)))
                };
                let cpu = self.by_size.iter().find(|runs| runs.class == SizeClass::Cpu.name()).and_then(beside);
                finding.push_str(&match (cpu, beside(&self.all)) {
                    (Some(cpu), Some(all)) => format!(" CPU-only jobs ran {cpu}, all jobs together {all}."),
                    (None, Some(all)) => format!(" All jobs together ran {all}."),
                    (_, None) => String::new(),
                });
            }
        }
        let mut section = Self::heading()
            .with_finding(finding)
            .with_gpu_hours(self.all.gpu_hours)
            .with_chart(self.by_size_chart())
            .with_table(self.quantile_table());
        if let Some(chart) = self.fit_chart() {
            section = section.with_chart(chart);
        }
        if let Some(table) = self.fit_table() {
            section = section.with_table(table);
        }
        let mut coverage = format!(
            "{} ended with a known run, {} were still running, the run of {} is unknown.",
            counted(self.all.ended, "job", "jobs"),
            count(self.all.running),
            count(self.all.unknown)
        );
        if self.all.running > 0 {
            coverage.push_str(" Curves and medians account for the running ones (Kaplan-Meier).");
        }
        section
            .with_definition(format!("Run: {}.", self.definition))
            .with_definition(
                "Distributions are fitted by maximum likelihood, running jobs counted as at least so long. AIC compares them on \
                 the same jobs (smaller is better); KS is the largest gap between the distribution and the data. Two-part: a point mass at runs below a second, \
                 and a distribution for the others.",
            )
            .with_coverage(coverage)
    }
}

impl Duration {
    /// The jobs that lead, and what to call them.
    fn leading(&self) -> (&Runs, &'static str) {
        match &self.gpu {
            Some(gpu) => (gpu, if self.mixes() { GPU_JOBS } else { "jobs" }),
            None => (&self.all, "jobs"),
        }
    }

    /// Whether there are known runs of other jobs beside those of GPU jobs.
    fn mixes(&self) -> bool {
        self.gpu.as_ref().is_some_and(|gpu| gpu.ended + gpu.running < self.all.ended + self.all.running)
    }

    /// Rows of the tables: GPU jobs, all jobs, size classes.
    fn rows(&self) -> impl Iterator<Item = &Runs> {
        self.gpu.iter().filter(|_| self.mixes()).chain(std::iter::once(&self.all)).chain(&self.by_size)
    }

    fn by_size_chart(&self) -> Chart {
        let points = |curve: &[CurvePoint]| curve.iter().map(|p| (p.x, p.fraction)).collect::<Vec<_>>();
        let mut series: Vec<ChartSeries> = self
            .by_size
            .iter()
            .filter(|runs| runs.ended + runs.running >= 10)
            .map(|runs| ChartSeries::new(runs.class.clone(), Mark::Step, points(&runs.curve)))
            .collect();
        if !self.gpu_time_curve.is_empty() {
            series.push(ChartSeries::new("all, by GPU time", Mark::Line, points(&self.gpu_time_curve)));
        }
        Chart::xy(
            "duration-cdf",
            "Share of jobs that ran at most so long",
            Axis::log_duration("Run"),
            Axis::share("Share"),
            series,
        )
        .with_reading(
            "A curve further right is a class that runs longer. The curve by GPU time shows where the GPU time is: it \
             lies far to the right where long jobs hold most of it.",
        )
    }

    fn quantile_table(&self) -> ReportTable {
        let mut table = ReportTable::new(
            "Run by size of job",
            vec![
                Column::text("Jobs"),
                Column::number("Ended"),
                Column::number("Running"),
                Column::number("Mean"),
                Column::number("Median"),
                Column::number("90 %"),
                Column::number("99 %"),
                Column::number("GPU-hours"),
            ],
        );
        // Without running jobs it is the median again, by a definition that differs in the last digits.
        let running = self.all.running > 0;
        if running {
            table.columns.push(Column::number("Median with running jobs"));
        }
        for runs in self.rows() {
            let ended = runs.ended_s.as_ref();
            let mut row = vec![
                runs.class.as_str().into(),
                int(runs.ended),
                int(runs.running),
                Cell::opt(ended.map(|s| s.mean), Cell::Duration),
                Cell::opt(ended.map(|s| s.p50), Cell::Duration),
                Cell::opt(ended.map(|s| s.p90), Cell::Duration),
                Cell::opt(ended.map(|s| s.p99), Cell::Duration),
                Cell::opt(runs.gpu_hours, |value| Cell::Float { value, digits: 0 }),
            ];
            if running {
                row.push(Cell::opt(runs.kaplan_meier_median_s, Cell::Duration));
            }
            table.rows.push(row);
        }
        table
    }

    /// Goodness of fit: the data against the best distributions.
    fn fit_chart(&self) -> Option<Chart> {
        let (runs, _) = self.leading();
        if runs.fits.is_empty() || runs.curve.is_empty() {
            return None;
        }
        let data = runs.curve.iter().map(|p| (p.x, p.fraction)).collect();
        let mut series = vec![ChartSeries::new("jobs", Mark::Points, data)];
        for fit in runs.fits.iter().take(3) {
            let line = runs.curve.iter().filter(|p| p.x > 0.0).map(|p| (p.x, fit.cdf(p.x))).collect();
            series.push(ChartSeries::new(fit.label("s"), Mark::Line, line));
        }
        let best = runs.fits.first()?;
        Some(
            Chart::xy(
                "duration-fit",
                format!("Fitted distributions against the runs of {}", runs.class),
                Axis::log_duration("Run"),
                Axis::share("Share that ran at most so long"),
                series,
            )
            .with_reading(format!(
                "Points are the jobs, lines the three best distributions. The best, **{}**, is off by at most {} of the jobs.",
                best.label("s"),
                percent(best.ks)
            )),
        )
    }

    fn fit_table(&self) -> Option<ReportTable> {
        let mut table = ReportTable::new(
            "Best distribution by size of job",
            vec![
                Column::text("Jobs"),
                Column::text("Distribution"),
                Column::text("Parameters"),
                Column::number("KS"),
                Column::number("AIC ahead of the next"),
                Column::text("Pareto tail"),
            ],
        );
        for runs in self.rows() {
            let Some(best) = runs.fits.first() else { continue };
            let lead = runs.fits.get(1).map(|next| next.aic - best.aic);
            let tail = runs.pareto_tail.as_ref().map_or(Cell::Missing, |tail| parameters(tail).into());
            table.rows.push(vec![
                runs.class.as_str().into(),
                best.label("s").into(),
                parameters(best).into(),
                Cell::Float { value: best.ks, digits: 3 },
                Cell::opt(lead, |value| Cell::Float { value, digits: 0 }),
                tail,
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }
}

/// Parameters of a distribution in words.
fn parameters(fit: &Fit) -> String {
    fit.params.iter().map(|p| format!("{} {}", p.name, short(p.value))).collect::<Vec<_>>().join(", ")
}

fn short(value: f64) -> String {
    if value != 0.0 && (value.abs() >= 1e5 || value.abs() < 1e-3) {
        format!("{value:.3e}")
    } else if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.3}")
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
        // Two GPU jobs run 1 h and 3 h, eight CPU-only jobs 10 s.
        trace.jobs.push(job("a", "x", 1.0, 0, 0, 3_600));
        trace.jobs.push(job("b", "x", 8.0, 0, 0, 10_800));
        for ix in 0..8 {
            trace.jobs.push(job(&format!("c{ix}"), "x", 0.0, 0, 0, 10));
        }
        let run = Duration::of(&JobFacts::new(&trace)).unwrap();
        assert_eq!((run.gpu.as_ref().unwrap().ended, run.all.ended), (2, 10));
        let finding = run.section().finding;
        assert!(finding.starts_with("Half of the GPU jobs ran at most **2 h**, and the mean is **2 h**"), "{finding}");
        // (14,400 + 80) s over ten jobs.
        assert!(
            finding.ends_with("CPU-only jobs ran 10 s at the median and 10 s on average, all jobs together 10 s at the median and 24 min 8 s on average."),
            "{finding}"
        );
    }
}
