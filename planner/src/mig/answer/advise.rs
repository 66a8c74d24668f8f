//! What follows from the plan: whether to follow it, and the recommendation.
//!
//! Confidence is **low** where the types of some jobs of a trace were drawn. Else it is **medium** where every speed that the plan rests on was measured, or where a plan by forecasts left at most 10 % of the jobs of the test beyond the SLO or on slices that were not measured; else it is **low**.
//!
//! O(rows). Worked example: 4 GPUs in place of 10 whole ones, of which one partition for all would need 5 and no fleet does with fewer than 4.

use tracecast_analytics::report::format;

use super::super::rule::{MigPartitionRow, MigRule, MigTried};
use super::super::study::MigReplayed;
use super::{MigBody, MigTrial, SpeedBasis};
use crate::one_gpu::{LEAST_NAMED, mostly_drawn};
use crate::plan::answer::Change;
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, Regret, WORTH, worth};

/// Share of the jobs of a test that may be beyond the SLO or on slices that were not measured.
const TOLERATED: f64 = 0.1;

/// GPUs, as a sentence has them.
pub(super) fn gpus(count: u32) -> String {
    format::counted(u64::from(count), "GPU", "GPUs")
}

/// Partitions of a fleet in words, each name between two `mark`s.
pub(super) fn partitions(rows: &[MigPartitionRow], mark: &str) -> String {
    let named = rows.iter().map(|row| format!("{} × {mark}{}{mark}", row.gpus, row.partition));
    named.collect::<Vec<_>>().join(", ")
}

/// How many GPUs are cut, of all of a fleet.
fn cut(of: &MigTried) -> String {
    let cut: u32 = of.partitions.iter().filter(|row| !row.is_whole()).map(|row| row.gpus).sum();
    if cut == of.gpus { gpus(cut) } else { format!("{} of {}", format::count(u64::from(cut)), gpus(of.gpus)) }
}

/// A number of jobs.
pub(in crate::mig) fn jobs(count: f64) -> String {
    format::float(count, if count.fract().abs() < 1e-9 { 0 } else { 1 })
}

/// Whether a plan that saves GPUs is advised by what fleets of its rule did to the later jobs, and why not.
fn of_later_jobs(replayed: &MigReplayed, rule: MigRule, slo: f64) -> (Verdict, String) {
    let (Some(plan), Some(whole)) = (replayed.fleet(rule), replayed.fleet(MigRule::WholeGpus)) else {
        let who = if replayed.fleet(rule).is_none() { "fleet of the plan" } else { "number of whole GPUs" };
        let why =
            format!("no {who} that was tried kept the target on the earlier jobs, so the later ones test nothing");
        return (Verdict::NothingKeeps, why);
    };
    let wait = |of: Option<f64>| of.map_or_else(|| "for ever".to_owned(), format::duration);
    let (saved, later) = (f64::from(whole.gpus) - f64::from(plan.gpus), &plan.later);
    let is_longer = |than: f64| later.p95_wait_s.is_none_or(|p95| p95 > than);
    let missed = |why: String| (Verdict::LimitMissed, why);
    if replayed.named_gpu_time < LEAST_NAMED {
        let drawn = mostly_drawn(replayed.named_gpu_time, "the jobs");
        let why = "are drawn, as their names are no job types of the table; name the job types first";
        (Verdict::Untested, format!("the types of {drawn} {why}"))
    } else if !worth(saved, saved, f64::from(whole.gpus)) {
        let took =
            format!("chosen on the earlier jobs it took {}, and whole GPUs {}", gpus(plan.gpus), gpus(whole.gpus));
        (Verdict::NoSaving, took)
    } else if later.without_room > 0 {
        missed(format!("{} of the later jobs had no room at all", format::count(later.without_room)))
    } else if later.over_slo > TOLERATED {
        let (share, slo) = (format::percent(later.over_slo), format::float(slo, 2));
        missed(format!("{share} of the later jobs were more than {slo} times as slow"))
    } else if is_longer(replayed.target_p95_wait_s) && is_longer(whole.later.p95_wait_s.unwrap_or(f64::INFINITY)) {
        missed(format!(
            "95 % of the later jobs waited at most {}, where {} was to be kept and whole GPUs kept {}",
            wait(later.p95_wait_s),
            format::duration(replayed.target_p95_wait_s),
            wait(whole.later.p95_wait_s)
        ))
    } else {
        (Verdict::Advised, String::new())
    }
}

/// Whether the plan is advised, and why not.
pub(super) fn judge(replayed: Option<&MigReplayed>, body: &MigBody) -> (Verdict, String) {
    let Some(whole) = body.beside(MigRule::WholeGpus) else { return (Verdict::NothingBetter, String::new()) };
    let (result, base) = (body.amount(&body.plan), body.amount(whole));
    let gain = if body.gpus_given.is_some() { result - base } else { base - result };
    if !worth(gain, gain, base) {
        let why = format!("{}; a change is worth it from {} on", body.gain_in_words(whole), format::percent(WORTH));
        return (Verdict::NoSaving, why);
    }
    replayed.map_or((Verdict::Advised, String::new()), |replayed| of_later_jobs(replayed, body.plan.rule, body.slo))
}

impl MigBody {
    /// What a fleet comes to: the progress that it makes where GPUs are given, else its GPUs.
    fn amount(&self, of: &MigTried) -> f64 {
        if self.gpus_given.is_some() { of.progress } else { f64::from(of.gpus) }
    }

    /// What the plan takes beside whole GPUs.
    fn gain_in_words(&self, whole: &MigTried) -> String {
        match self.gpus_given {
            Some(count) => format!(
                "on {} partitions make {} whole GPUs' worth of progress, and whole GPUs {}",
                gpus(count),
                format::float(self.plan.progress, 2),
                format::float(whole.progress, 2)
            ),
            None => format!("in partitions the jobs need {}, and {} whole", gpus(self.plan.gpus), gpus(whole.gpus)),
        }
    }

    /// What to do where the plan is advised, in a sentence.
    pub(super) fn act(&self, trial: &MigTrial) -> String {
        let Some(whole) = self.beside(MigRule::WholeGpus) else { return String::new() };
        let plan = &self.plan;
        match self.gpus_given {
            Some(count) => format!(
                "**Partition {}**: {}. They make {} whole GPUs' worth of progress, where {} whole make {}.",
                cut(plan),
                partitions(&plan.partitions, "`"),
                format::float(plan.progress, 2),
                gpus(count),
                format::float(whole.progress, 2)
            ),
            None => format!(
                "**Partition {}**: {}. They carry what takes {} whole{}.",
                cut(plan),
                partitions(&plan.partitions, "`"),
                gpus(whole.gpus),
                trial.replayed.as_ref().map_or_else(String::new, |replayed| format!(
                    ", with 95 % of the waits within {} in both cases",
                    format::duration(replayed.target_p95_wait_s)
                ))
            ),
        }
    }

    /// How the bound stands to the plan, in a sentence.
    pub(super) fn bound_in_words(&self, is_replayed: bool) -> String {
        if self.plan.rule == MigRule::OnePartition {
            return "One partition for all needs no more GPUs than the plan that may mix them; how few would do is not bounded."
                .to_owned();
        }
        match (self.proven, self.gpus_given) {
            (true, Some(_)) => "No partitions of these GPUs make more: that is proven to a ten-thousandth.".to_owned(),
            (true, None) if is_replayed => format!(
                "With slices held {} of the time, no partitions do with fewer GPUs: that is proven.",
                format::percent(self.busy.unwrap_or_default())
            ),
            (true, None) => "No partitions do with fewer GPUs: that is proven.".to_owned(),
            (false, Some(_)) => format!(
                "No partitions of these GPUs make more than {}: the search ended before that was settled.",
                format::float(self.plan.bound, 2)
            ),
            (false, None) => format!(
                "No partitions do with fewer than {}: the search ended before that was settled.",
                gpus(self.plan.bound.max(0.0) as u32)
            ),
        }
    }

    fn confidence(&self, trial: &MigTrial) -> Confidence {
        if trial.replayed.as_ref().is_some_and(|replayed| replayed.drawn_types > 0) {
            return Confidence::Low;
        }
        if !self.is_forecast() {
            return Confidence::Medium;
        }
        let forecast = trial.tested.as_ref().and_then(|tested| tested.rule(MigRule::Forecast));
        if forecast.is_some_and(|tried| tried.over_slo + tried.not_measured <= TOLERATED) {
            Confidence::Medium
        } else {
            Confidence::Low
        }
    }

    fn risk(&self, trial: &MigTrial) -> String {
        let tested = trial.tested.as_ref().and_then(|tested| Some((tested, tested.rule(MigRule::Forecast)?)));
        let by_forecast = tested.map_or_else(String::new, |(tested, tried)| {
            format!(
                "Of {} that were forecast without their own step times, a plan by the forecast left {} of the jobs beyond the SLO and {} on slices that were not measured.",
                format::counted(tested.families as u64, "family", "families"),
                format::percent(tried.over_slo),
                format::percent(tried.not_measured)
            )
        });
        if self.is_forecast() {
            let jobs: f64 = self.placed.iter().map(|placed| placed.jobs).sum();
            let forecast: f64 = self
                .placed
                .iter()
                .filter(|placed| placed.basis == SpeedBasis::Forecast)
                .map(|placed| placed.jobs)
                .sum();
            let untested = if tested.is_none() { "Forecasts were not tested. " } else { "" };
            format!(
                "{} of the jobs go on a slice by a forecast. {untested}{by_forecast}",
                format::percent(if jobs > 0.0 { forecast / jobs } else { 0.0 })
            )
        } else {
            format!("Every speed of the plan was measured, in a benchmark and not in these jobs. {by_forecast}")
        }
        .trim_end()
        .to_owned()
    }
}

/// The recommendation, beside whole GPUs.
pub(super) fn change(trial: &MigTrial, body: &MigBody, whole: &MigTried) -> Change {
    let uniform = body.beside(MigRule::OnePartition);
    let beyond = |amount: f64| amount - body.amount(whole);
    let (what, unit) = match body.gpus_given {
        Some(_) => ("Progress of all jobs", "whole GPUs"),
        None => ("GPUs that carry the jobs", "GPUs"),
    };
    let why = "a count, with speeds as they were measured or are forecast";
    let mut effects = vec![Effect::counted(what, unit, beyond(body.amount(&body.plan)), why)];
    if body.gpus_given.is_some() {
        effects.push(Effect::counted("Jobs that have no room", "jobs", body.plan.waiting - whole.waiting, why));
    }
    effects.extend(trial.replayed.as_ref().and_then(|replayed| {
        let of = format!("95 %, days of {} later jobs drawn anew", format::count(replayed.later_jobs as u64));
        let plan = replayed.fleet(body.plan.rule)?;
        Some(Effect::new("Mean delay of a job", "s", plan.mean_delay_change_s.as_ref()?, &of))
    }));
    let slow: Vec<_> = body.placed.iter().filter(|placed| placed.slowdown90 > 1.0 + 1e-9).collect();
    let slowed: f64 = slow.iter().map(|placed| placed.jobs).sum();
    let mean = slow.iter().map(|placed| placed.jobs / placed.speed).sum::<f64>() / slowed.max(f64::MIN_POSITIVE);
    let worst = slow.iter().map(|placed| placed.slowdown90).fold(1.0, f64::max);
    let harmed = (slowed > 0.0).then(|| Harm {
        who: format!(
            "{} of {} jobs{}",
            jobs(slowed),
            jobs(body.jobs()),
            if body.busy.is_some() { " an hour" } else { "" }
        ),
        how_much: format!(
            "run {} times as slow as on a whole GPU on average, and at most {} times at the 0.9 quantile",
            format::float(mean, 2),
            format::float(worst, 2)
        ),
    });
    let risk = body.risk(trial);
    Change {
        plan: "share mig",
        effects,
        against: match body.gpus_given {
            Some(count) => format!("{} that are whole", gpus(count)),
            None => "every job on a whole GPU".to_owned(),
        },
        basis: if trial.replayed.is_some() { Basis::LaterDays } else { Basis::Count },
        // The bound is of all partitions, which one for all is not chosen from.
        regret: (body.plan.rule == MigRule::Plan).then(|| Regret {
            oracle: match body.busy {
                Some(busy) => format!(
                    "the bound that no partitions undercut, with the same speeds and slices held {} of the time",
                    format::percent(busy)
                ),
                None => "the bound that no partitions undercut, with the same speeds".to_owned(),
            },
            oracle_change: beyond(body.plan.bound),
            naive_change: uniform.map(|tried| beyond(body.amount(tried))),
            naive: uniform.map(|tried| format!("{} ({})", tried.rule.in_words(), partitions(&tried.partitions, "`"))),
        }),
        harmed: harmed.into_iter().collect(),
        sure: Assurance::lowered(body.confidence(trial), Vec::new(), &risk),
        risk,
        assumed: vec![
            match trial.replayed {
            Some(_) => "Jobs like those of the trace go on to come, and each asks for the slice that its type is dealt.",
            None => "The jobs to come are those of the demand.",
        }
            .to_owned(),
        ],
        holds_until: "Demand, job types or GPUs change; plan again with --now, which prefers plans that change fewer GPUs.".to_owned(),
        apply: "Make the same plan with --emit slurm,kubernetes --emit-to FOLDER, and read the files before you apply them; a GPU must be free of jobs when its partition changes.".to_owned(),
        command: None,
        undo: "Apply the configuration `all-disabled` of the same files to the nodes once they are drained, and put the old lines of slurm.conf back.",
    }
}
