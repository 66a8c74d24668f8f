//! Do time limits cost GPU time, or say nothing of the run?
//!
//! Counted are jobs that a limit ended: what they did since they last saved is lost, at most all of it. How much of their limit jobs use says
//! whether backfill can plan with it; what better estimates bring is what the [plan of queues](crate::queues) replays.
//!
//! Worked number: a job of 4 GPUs ended at its limit of 24 h took 96 GPU-hours.

use tracecast_analytics::Trace;
use tracecast_analytics::describe::limits::limited;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::JobState;
use tracecast_analytics::stats::{quantile, sum};

use super::Found;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation};
use crate::replay::compare;

/// Share of the GPU jobs whose limit must be known.
const KNOWN: f64 = 0.5;
/// Share of the GPU time from which on jobs ended by a limit are worth a word.
const WORTH: f64 = 0.01;
/// Seed of the bootstrap.
const SEED: u64 = 3;

/// Looks at time limits: the recommendation, if it is worth it, and what was found in a sentence.
///
/// # Errors
/// In one line why the trace does not allow it.
pub fn look(trace: &Trace) -> Result<Found, String> {
    let facts = JobFacts::new(trace);
    let mut jobs: Vec<usize> = (0..facts.len()).filter(|job| facts.is_gpu_job(*job)).collect();
    jobs.sort_by_key(|job| (trace.jobs.submit.get(*job), *job));
    let limit = |job: usize| trace.jobs.time_limit_s.get(job).filter(|limit| *limit > 0.0);
    let known = jobs.iter().filter(|job| limit(**job).is_some()).count();
    if (known as f64) < KNOWN * jobs.len().max(1) as f64 {
        return Err(format!(
            "A time limit is recorded for {} of {}.",
            format::count(known as u64),
            format::counted(jobs.len() as u64, "GPU job", "GPU jobs")
        ));
    }
    let mut used: Vec<f64> = limited(&facts).map(|job| job.run_s / job.limit_s).collect();
    let half = quantile::quantiles_in_place(&mut used, &[0.5]).first().copied().flatten();
    let ended = |job: &usize| facts.state(*job) == JobState::Timeout;
    let lost: Vec<f64> =
        jobs.iter().map(|job| if ended(job) { facts.gpu_s(*job).unwrap_or(0.0) } else { 0.0 }).collect();
    let total = sum::NeumaierSum::from_iter(jobs.iter().filter_map(|job| facts.gpu_s(*job))).value();
    let gone = sum::NeumaierSum::from_iter(lost.iter().copied()).value();
    let share = if total > 0.0 { gone / total } else { 0.0 };
    let count = jobs.iter().filter(|job| ended(job)).count() as u64;
    let looked_at = format!(
        "Half of the GPU jobs use at most {} of their limit; {} ended at it, with {} of the GPU time.",
        half.map_or_else(|| "an unknown part".to_owned(), format::percent),
        format::counted(count, "job", "jobs"),
        format::percent(share)
    );
    let submits = || jobs.iter().filter_map(|job| trace.jobs.submit.get(*job));
    let span_ms = submits().max().unwrap_or(0) - submits().min().unwrap_or(0);
    let estimate = compare::total(&lost, span_ms, SEED).filter(|estimate| share >= WORTH && estimate.low > 0.0);
    let Some(estimate) = estimate else { return Ok(Found::nothing(looked_at)) };
    let recommendation = Some(recommend(&estimate, count, share, jobs.len() as u64));
    Ok(Found { recommendation, saves: share, looked_at })
}

fn recommend(estimate: &compare::IntervalEstimate, count: u64, share: f64, jobs: u64) -> Recommendation {
    Recommendation {
        plan: "limits".to_owned(),
        action: "Have jobs save their progress before the time limit ends them.".to_owned(),
        effects: vec![Effect {
            what: "GPU-hours of jobs ended by their limit, at most".to_owned(),
            unit: "GPU-h".to_owned(),
            change: -estimate.value / 3600.0,
            low: Some(-estimate.high / 3600.0),
            high: Some(-estimate.low / 3600.0),
            interval: format!("95 %, moving-block bootstrap over {} jobs.", format::count(jobs)),
        }],
        against: format!("{} that lose what they did ({} of the GPU time)", format::counted(count, "job", "jobs"), format::percent(share)),
        basis: Basis::Count,
        regret: None,
        harmed: vec![Harm {
            who: "Users of long jobs".to_owned(),
            how_much: "write checkpoints, which takes some of the run".to_owned(),
        }],
        confidence: Confidence::Low,
        risk: "Jobs that save their progress already lose less, and some are run until the limit on purpose.".to_owned(),
        assumptions: vec!["A job that a limit ends loses all it did.".to_owned()],
        holds_until: "Limits or what users run change.".to_owned(),
        apply: "Slurm: have jobs ask for a signal ahead of the limit (`sbatch --signal=B:USR1@600`) and save on it; `--requeue` goes on later."
            .to_owned(),
        command: None,
        undo: "Leave the signal out.".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::JobRow;

    use super::*;

    fn trace(timeouts: usize) -> Trace {
        let mut trace = Trace::default();
        for at in 0..200 {
            let from = at as i64 * 3_600_000;
            let ended = at % 10 < timeouts;
            trace.jobs.push(JobRow {
                job_key: Some(at.to_string().into()),
                submit: Some(from),
                start: Some(from),
                end: Some(from + 3_600_000),
                run_s: Some(3_600.0),
                alloc_gpus: Some(4.0),
                time_limit_s: Some(if ended { 3_600.0 } else { 36_000.0 }),
                state: Some(if ended { "timeout" } else { "completed" }.into()),
                ..JobRow::default()
            });
        }
        trace
    }

    #[test]
    fn what_limits_end_is_counted_and_what_they_do_not_is_said() {
        let Found { recommendation: result, looked_at: said, .. } = look(&trace(2)).unwrap();
        // 40 of 200 jobs of 4 GPU-hours.
        assert_eq!(result.unwrap().effects[0].change, -160.0);
        assert!(said.contains("40 jobs ended at it, with 20.0 %"), "{said}");
        let Found { recommendation: none, looked_at: said, .. } = look(&trace(0)).unwrap();
        assert!(none.is_none() && said.contains("at most 10.0 % of their limit"), "{said}");
        assert!(look(&Trace::default()).is_err());
    }
}
