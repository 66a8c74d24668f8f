//! Would another order or scan of the queue serve the same jobs better?
//!
//! The trace is cut where half of its GPU jobs are submitted. On the **earlier** half, first come, first served is replayed in the ways a queue is
//! walked; the one that comes nearest to the recorded GPU-hours waited is what the cluster is taken to do. Candidates are replayed beside it, and
//! the one with the least mean wait is **chosen**, unless its 95 % quantile is more than twice that of today. On the **later** half it is held
//! against today and against an oracle that knows every run time. Intervals are those of [`compare`]: a moving-block bootstrap, job by job.
//!
//! Predictions are the [mean of the last two runs](last_two) alike: they need no fitting.
//!
//! Complexity: that of about twelve replays of half the trace, side by side; a trace of more than [`MOST_JOBS`] jobs is not replayed here.
//!
//! Worked number: a mean wait of 60 min that falls to 48 min on the later half (by 9 to 15 min) is a change of 20 %, and worth it.

use rayon::prelude::*;
use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::stats::sum;

use crate::error::Result;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret, worth};
use crate::replay::compare::{self, Difference};
use crate::replay::fidelity::Fidelity;
use crate::replay::input::{Hosts, Loaded, Options, last_two, load};
use crate::replay::metric::{Evaluation, evaluate};
use crate::sim::{Estimate, Order, Policy, Scan, Schedule, simulate};

/// Jobs beyond which a report does not replay candidates by itself.
pub const MOST_JOBS: usize = 200_000;
/// Jobs × distinct requests beyond which it does not, either.
const MOST_WORK: usize = 60_000_000;
/// Jobs in each half below which nothing is said.
const FEWEST_JOBS: usize = 100;
/// Share of the jobs with a time limit from which on limits are worth a candidate.
const LIMITS_FROM: f64 = 0.9;
/// A candidate whose 95 % quantile of waits is more than this many times that of today is not chosen.
const MOST_TAIL: f64 = 2.0;
/// Seed of the bootstrap.
const SEED: u64 = 1;

/// How many longer waits are named.
const HARMED: usize = 2;

/// One way to serve the queue.
struct Candidate {
    /// Imperative sentence.
    action: &'static str,
    /// In words, to stand after "against".
    name: &'static str,
    /// The policy.
    policy: Policy,
    /// How it is applied, and its command.
    apply: &'static str,
    command: Option<&'static str>,
    undo: &'static str,
}

/// What the cluster may do today.
fn todays(limits: bool) -> Vec<(&'static str, Policy)> {
    let scan = |scan: Scan| Policy { scan, ..Policy::default() };
    let mut all = vec![
        ("first come, first served, passing over jobs that do not fit", scan(Scan::Skip)),
        ("first come, first served, strictly", scan(Scan::Strict)),
    ];
    if limits {
        let policy = Policy { estimate: Estimate::Requested, ..scan(Scan::Easy) };
        all.push(("first come, first served, with backfill by time limits", policy));
    }
    all
}

/// What may be better than `today`.
fn candidates(today: &Policy, limits: bool) -> Vec<Candidate> {
    const RESTORE: &str = "Set the priorities back to what they were and run `scontrol reconfigure`.";
    const PREDICT: &str = "Train a model, let the submission plugin set the priority from its prediction (Slurm: the \
        Lua table that `predict` writes; elsewhere: `serve`), and re-train every week.";
    const TRAIN: &str = "tracecast train duration TRACE --out durations.model";
    let mut all = vec![
        Candidate {
            action: "Serve the jobs with the fewest GPUs first.",
            name: "fewest GPUs first",
            policy: Policy { order: Order::FewestGpus, ..today.clone() },
            apply: "Slurm: set `PriorityFavorSmall=YES` and raise `PriorityWeightJobSize` above the other weights.",
            command: None,
            undo: RESTORE,
        },
        Candidate {
            action: "Serve the jobs with the least predicted GPU time first.",
            name: "least predicted GPU time first",
            policy: Policy { order: Order::Qssf, estimate: Estimate::Predicted, ..today.clone() },
            apply: PREDICT,
            command: Some(TRAIN),
            undo: "Take the plugin out of `JobSubmitPlugins` and run `scontrol reconfigure`.",
        },
        Candidate {
            action: "Serve the jobs with the shortest predicted run first.",
            name: "shortest predicted run first",
            policy: Policy { order: Order::Sjf, estimate: Estimate::Predicted, ..today.clone() },
            apply: PREDICT,
            command: Some(TRAIN),
            undo: "Take the plugin out of `JobSubmitPlugins` and run `scontrol reconfigure`.",
        },
    ];
    if today.scan == Scan::Strict {
        all.push(Candidate {
            action: "Let jobs pass those that do not fit.",
            name: "passing over jobs that do not fit",
            policy: Policy { scan: Scan::Skip, ..today.clone() },
            apply: "Slurm: `SchedulerType=sched/backfill` with generous limits; elsewhere: turn off strict order of the queue.",
            command: None,
            undo: "Set the scheduler type back and restart the controller.",
        });
    }
    if today.scan != Scan::Easy && limits {
        all.push(Candidate {
            action: "Backfill by the time limits of the jobs.",
            name: "backfill by time limits",
            policy: Policy { scan: Scan::Easy, estimate: Estimate::Requested, ..today.clone() },
            apply: "Slurm: set `SchedulerType=sched/backfill` and a `bf_window` as long as the longest limit.",
            command: None,
            undo: "Set the scheduler type back and restart the controller.",
        });
    }
    if today.scan == Scan::Easy {
        all.push(Candidate {
            action: "Backfill by predicted run times instead of time limits.",
            name: "backfill by predicted run times",
            policy: Policy { estimate: Estimate::Predicted, ..today.clone() },
            apply: "Slurm: let `job_submit.lua` set the limit of jobs that have none from the prediction, and shorten defaults.",
            command: Some(TRAIN),
            undo: "Take the plugin out of `JobSubmitPlugins` and run `scontrol reconfigure`.",
        });
    }
    all
}

/// What became of the search.
#[derive(Debug, Clone)]
pub struct Found {
    /// The recommendation, if one is worth it.
    pub recommendation: Option<Recommendation>,
    /// What was looked at, in a sentence.
    pub looked_at: String,
}

/// Looks for a better order. `Err` says in one line why the trace does not allow it.
///
/// # Errors
/// As said.
pub fn look(trace: &Trace) -> std::result::Result<Found, String> {
    let facts = JobFacts::of(trace);
    let jobs = (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).count();
    if jobs > MOST_JOBS {
        return Err(format!(
            "{} GPU jobs are more than a report replays by itself; `tracecast simulate --compare` replays any number.",
            format::count(jobs as u64)
        ));
    }
    let mut submits: Vec<i64> =
        (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).filter_map(|job| trace.jobs.submit.get(job)).collect();
    submits.sort_unstable();
    let Some(split) = submits.get(submits.len() / 2).copied() else {
        return Err("No job is known to have GPUs and a submission.".to_owned());
    };
    let part = |from_ms, to_ms| {
        let mut loaded = load(trace, None, &Options { from_ms, to_ms, hosts: Hosts::Usual, ..Options::default() })
            .map_err(|error| super::in_a_line(&error))?;
        loaded.workload.predicted_s = last_two(&facts, &loaded);
        if loaded.workload.len() < FEWEST_JOBS {
            return Err(format!("Half of the trace holds {} GPU jobs: too few to choose on.", loaded.workload.len()));
        }
        let starts = loaded.recorded_start_ms.iter().flatten().count();
        if (starts as f64) < 0.9 * loaded.workload.len() as f64 {
            return Err("The starts of jobs are not recorded, so a replay cannot be held against what was.".to_owned());
        }
        if loaded.workload.len().saturating_mul(loaded.workload.shapes.len()) > MOST_WORK {
            return Err(
                "The jobs make too many distinct requests to be replayed here; use `tracecast simulate`.".to_owned()
            );
        }
        Ok(loaded)
    };
    let (earlier, later) = (part(None, Some(split))?, part(Some(split), None)?);
    search(&earlier, &later).map_err(|error| format!("{error}."))?
}

/// Replays policies side by side, each evaluated.
fn replay(loaded: &Loaded, policies: &[Policy]) -> Result<Vec<(Schedule, Evaluation)>> {
    let run = |policy: &Policy| {
        let schedule = simulate(&loaded.workload, &loaded.cluster, policy)?;
        let evaluation = evaluate(&loaded.workload, &loaded.cluster, &schedule, 0)?;
        Ok((schedule, evaluation))
    };
    policies.par_iter().map(run).collect()
}

/// Mean and 95 % quantile of waits, seconds.
fn waits(evaluation: &Evaluation) -> (f64, f64) {
    evaluation.metrics.overall.group.wait.map_or((f64::INFINITY, f64::INFINITY), |wait| (wait.mean_s, wait.p95_s))
}

fn search(earlier: &Loaded, later: &Loaded) -> Result<std::result::Result<Found, String>> {
    let limited = earlier.workload.requested_ms.iter().flatten().count() as f64;
    let limits = limited >= LIMITS_FROM * earlier.workload.len() as f64;
    let todays = todays(limits);
    let policies: Vec<Policy> = todays.iter().map(|(_, policy)| policy.clone().on(earlier.resource)).collect();
    // Until the first start, in the record and in the replays alike.
    let recorded = queued_gpu_s(earlier, &|job| earlier.recorded_start_ms.get(job).copied().flatten());
    let replayed = replay(earlier, &policies)?;
    let distance = |schedule: &Schedule| (queued_gpu_s(earlier, &|job| schedule.start_ms(job)) - recorded).abs();
    let nearest = (0..replayed.len()).min_by(|a, b| distance(&replayed[*a].0).total_cmp(&distance(&replayed[*b].0)));
    let Some(nearest) = nearest else { return Ok(Err("There is nothing to replay.".to_owned())) };
    let ((today_name, _), today) = (&todays[nearest], &policies[nearest]);
    let (_, before) = waits(&replayed[nearest].1);
    let candidates = candidates(today, limits);
    let tried: Vec<Policy> = candidates.iter().map(|candidate| candidate.policy.clone()).collect();
    let scored = replay(earlier, &tried)?;
    let allowed = |at: &usize| waits(&scored[*at].1).1 <= MOST_TAIL * before.max(60.0);
    let chosen =
        (0..scored.len()).filter(allowed).min_by(|a, b| waits(&scored[*a].1).0.total_cmp(&waits(&scored[*b].1).0));
    let Some(chosen) = chosen else {
        return Ok(Err("Every candidate more than doubles the longest waits.".to_owned()));
    };
    let candidate = &candidates[chosen];
    let oracle = Policy { order: Order::Qssf, estimate: Estimate::True, ..today.clone() };
    let after = replay(later, &[today.clone(), candidate.policy.clone(), oracle])?;
    let [(schedule, base), (_, new), (_, best)] = after.as_slice() else {
        return Ok(Err("There is nothing to replay.".to_owned()));
    };
    let fidelity = Fidelity::of(&later.workload, schedule, &later.recorded_start_ms)?;
    if !fidelity.is_believed() {
        return Ok(Err(format!("No replay comes near enough to the record to build on. {}", fidelity.sentence())));
    }
    let compared = compare::compare(
        &later.workload,
        &[("today", &base.times), ("candidate", &new.times), ("oracle", &best.times)],
        SEED,
    )?;
    let [change, bound] = compared.differences.as_slice() else {
        return Ok(Err("No job ends under every policy.".to_owned()));
    };
    let mean = waits(base).0;
    let looked_at = format!(
        "{} were replayed on the earlier half of the jobs beside {today_name}. On the later half {} changes the mean wait of {} by {}.",
        list(&candidates),
        candidate.name,
        format::duration(mean),
        change.mean_wait_s.as_durations(),
    );
    let recommendation = worth(-change.mean_wait_s.value, -change.mean_wait_s.high, mean).then(|| {
        let harmed = harmed(base, new, change);
        recommend(candidate, today_name, change, bound, harmed, &fidelity, &compared)
    });
    Ok(Ok(Found { recommendation, looked_at }))
}

fn recommend(
    candidate: &Candidate,
    today: &str,
    change: &Difference,
    bound: &Difference,
    harmed: Vec<Harm>,
    fidelity: &Fidelity,
    compared: &compare::Comparison,
) -> Recommendation {
    let interval = format!(
        "95 %, moving-block bootstrap over {} jobs of the later half in blocks of {}.",
        format::count(compared.jobs),
        format::count(compared.block_jobs)
    );
    Recommendation {
        plan: "order".to_owned(),
        action: candidate.action.to_owned(),
        effects: vec![
            Effect::of("Mean wait of a GPU job", "s", &change.mean_wait_s, &interval),
            Effect::of("95 % quantile of the wait", "s", &change.p95_wait_s, &interval),
        ],
        against: today.to_owned(),
        basis: Basis::LaterDays,
        regret: Some(Regret {
            oracle: "Least GPU time first, with every run time known".to_owned(),
            oracle_change: bound.mean_wait_s.value,
            naive_change: Some(0.0),
            naive: Some("Doing nothing".to_owned()),
        }),
        harmed,
        confidence: if fidelity.is_close() { Confidence::Medium } else { Confidence::Low },
        risk: format!("{} One later stretch was tested.", fidelity.sentence()),
        assumptions: vec![
            "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
            "Predictions are the mean of the last two runs of the same user and job name; a trained model is nearer."
                .to_owned(),
            "Start-up times and the network are not modelled.".to_owned(),
        ],
        holds_until: "The mix of jobs or the number of nodes changes; make the report again every month.".to_owned(),
        apply: candidate.apply.to_owned(),
        command: candidate.command.map(str::to_owned),
        undo: candidate.undo.to_owned(),
    }
}

/// Whose mean wait grows most: a VC, a size.
fn harmed(base: &Evaluation, new: &Evaluation, change: &Difference) -> Vec<Harm> {
    let mean = |group: &crate::replay::metric::GroupFigures| group.wait.map(|wait| wait.mean_s);
    let mut rows: Vec<(String, f64)> = Vec::new();
    let mut row = |who: String, before: Option<f64>, after: Option<f64>| {
        if let (Some(before), Some(after)) = (before, after) {
            rows.push((who, after - before));
        }
    };
    for (before, after) in base.metrics.by_size.iter().zip(&new.metrics.by_size) {
        row(format!("Jobs with {}", before.size.name()), mean(&before.group), mean(&after.group));
    }
    if base.metrics.by_vc.len() > 1 {
        for before in &base.metrics.by_vc {
            let after = new.metrics.by_vc.iter().find(|of| of.name == before.name);
            row(format!("VC {}", before.name), mean(&before.group), after.and_then(|of| mean(&of.group)));
        }
    }
    rows.retain(|(_, longer)| *longer > 1.0);
    rows.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut harmed: Vec<Harm> = rows
        .into_iter()
        .take(HARMED)
        .map(|(who, longer)| Harm { who, how_much: format!("wait {} longer on average", format::duration(longer)) })
        .collect();
    harmed.push(Harm {
        who: "Jobs that wait longer".to_owned(),
        how_much: format!(
            "{} of all; {} wait less",
            format::percent(change.more_wait_share),
            format::percent(change.less_wait_share)
        ),
    });
    harmed
}

/// GPUs × time from submission to the first start over the jobs whose start is known, GPU-seconds.
fn queued_gpu_s(loaded: &Loaded, start_ms: &dyn Fn(usize) -> Option<i64>) -> f64 {
    let of = |job: usize| {
        let queued = (start_ms(job)? - loaded.workload.submit_ms.get(job)?).max(0);
        Some(loaded.workload.shape_of(job).as_gpus() * queued as f64 / 1000.0)
    };
    sum::NeumaierSum::from_iter((0..loaded.workload.len()).filter_map(of)).value()
}

fn list(candidates: &[Candidate]) -> String {
    let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name).collect();
    let text = match names.as_slice() {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => names.join(", "),
    };
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
