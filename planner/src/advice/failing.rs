//! Would a check before the next try of work that keeps failing save GPU time?
//!
//! **The rule**: a job whose user's last `k` jobs of the same name, numbers aside, all failed
//! before it was submitted is held until somebody has looked. Among `RUNS`, the `k` with the most
//! GPU time spared on the **earlier** half of the jobs is chosen, of those where at least three of
//! four jobs held did fail. It is counted on the **later** half: GPU time of held jobs that failed,
//! and jobs held for nothing. A job that is held does not run, so a user who mends it at once would
//! spare less, and one who does not look would spare more: the figure is a count of the past, not a
//! promise.
//!
//! Failed: failed, out of memory, at the time limit. Lost nodes are nobody's fault. O(n log n).
//!
//! Worked number: runs F F F F C with k = 2 hold the third, fourth and fifth job: two failures spared, one job held for nothing.

use std::collections::HashMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::facts::work::{Tries, Try, Work, is_failure};
use tracecast_analytics::report::format;
use tracecast_analytics::stats::sum;

use super::Found;
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation};
use crate::replay::compare;

/// Failures in a row after which a job is held.
const RUNS: [usize; 4] = [1, 2, 3, 5];
/// Least share of the jobs held that must fail.
const PRECISION: f64 = 0.75;
/// Share of the later GPU time that must be spared to be worth a word.
const WORTH: f64 = 0.01;
/// Seed of the bootstrap.
const SEED: u64 = 2;
/// Groups that are named.
const NAMED: usize = 3;

/// Effect of a rule on some jobs.
#[derive(Default)]
struct Held {
    /// GPU-seconds spared, job by job in the order of submission.
    spared: Vec<f64>,
    failed: u64,
    completed: u64,
    by_work: HashMap<Work, f64>,
}

impl Held {
    fn gpu_s(&self) -> f64 {
        sum::NeumaierSum::from_iter(self.spared.iter().copied()).value()
    }

    fn precision(&self) -> f64 {
        self.failed as f64 / (self.failed + self.completed).max(1) as f64
    }
}

/// Looks for work that keeps failing: the recommendation, if it is worth it, and what was found in a sentence.
///
/// # Errors
/// In one line why the trace does not allow it.
pub fn look(trace: &Trace) -> Result<Found, String> {
    let facts = JobFacts::new(trace);
    let mut tries = Tries::from_facts(&facts);
    tries.jobs.retain(|job| job.gpu_s.is_some());
    let jobs = &tries.jobs;
    if !jobs.iter().any(|job| job.failed) {
        let failed = facts.state.iter().filter(|state| is_failure(**state)).count();
        return Err(match failed {
            0 => "No job is recorded as failed.".to_owned(),
            failed => format!(
                "Of the {} that failed none has a user, GPU time, a submission and an end that are all known, so rows of failures cannot be told.",
                format::counted(failed as u64, "job", "jobs")
            ),
        });
    }
    let half = jobs.len() / 2;
    let split = jobs.get(half).map_or(i64::MAX, |job| job.submit_ms);
    let rules: Vec<(usize, Held, Held)> = RUNS
        .into_iter()
        .map(|run| {
            let (earlier, later) = hold(jobs, run, split);
            (run, earlier, later)
        })
        .collect();
    let best = rules
        .iter()
        .filter(|(_, earlier, _)| earlier.precision() >= PRECISION)
        .max_by(|a, b| a.1.gpu_s().total_cmp(&b.1.gpu_s()));
    let Some((run, _, later)) = best else {
        let why = "After several failures in a row, a job of the same user and name failed in fewer than three cases of four, so nothing is stopped ahead of its end.";
        return Ok(Found::nothing(why.to_owned()));
    };
    let after = jobs.iter().filter(|job| job.submit_ms >= split);
    let total = sum::NeumaierSum::from_iter(after.filter_map(|job| job.gpu_s)).value();
    let span_ms = jobs.last().map_or(0, |job| job.submit_ms) - split;
    let days = span_ms as f64 / 86_400_000.0;
    let estimate = compare::total(&later.spared, span_ms, SEED);
    let (value, share) = (later.gpu_s() / 3600.0, if total > 0.0 { later.gpu_s() / total } else { 0.0 });
    let in_a_row = match run {
        1 => "last job of the same name failed".to_owned(),
        run => format!("last {run} jobs of the same name failed"),
    };
    let looked_at = format!(
        "Holding a job whose user's {in_a_row} would have spared {} GPU-hours ({}) of the later half.",
        format::compact(value),
        format::percent(share)
    );
    let Some(estimate) = estimate.filter(|estimate| share >= WORTH && estimate.low > 0.0) else {
        return Ok(Found::nothing(looked_at));
    };
    let groups = groups(trace, &tries, later);
    let interval =
        format!("95 %, moving-block bootstrap over {} later jobs.", format::count(later.spared.len() as u64));
    let recommendation = Recommendation {
        plan: "failing".to_owned(),
        action: format!("Hold a job whose user's {in_a_row}, until the user has looked."),
        effects: vec![
            Effect {
                what: format!("GPU-hours of failing jobs in {days:.0} days"),
                unit: "GPU-h".to_owned(),
                change: -estimate.value / 3600.0,
                low: Some(-estimate.high / 3600.0),
                high: Some(-estimate.low / 3600.0),
                interval: interval.clone(),
            },
            Effect {
                what: "Share of all GPU time".to_owned(),
                unit: "%".to_owned(),
                change: -share * 100.0,
                low: None,
                high: None,
                interval: "None: a count.".to_owned(),
            },
        ],
        against: "running every try".to_owned(),
        basis: Basis::Count,
        regret: None,
        harmed: vec![Harm {
            who: format!("{} held that would not have failed", format::counted(later.completed, "job", "jobs")),
            how_much: format!("wait for a look ({} of those held)", format::percent(1.0 - later.precision())),
        }],
        confidence: Confidence::Medium,
        risk: "A user who mends the job at once loses little by the next try, so less is spared than was counted.".to_owned(),
        assumptions: vec![
            "A job of the same name, numbers aside, is the same work.".to_owned(),
            format!("Most of it is in {groups}."),
        ],
        holds_until: "Users change what they run; count again every month.".to_owned(),
        apply: "Let a check at submission hold such a job (Slurm: `job_submit.lua` sets priority 0; Kubernetes: an admission \
                webhook suspends it), and tell its user why; `scontrol release` lets it go."
            .to_owned(),
        command: None,
        undo: "Take the check out; `scontrol release` the jobs that are held.".to_owned(),
    };
    Ok(Found { recommendation: Some(recommendation), saves: share, looked_at })
}

/// Jobs that the rule holds, before and from `split` on.
fn hold(jobs: &[Try], run: usize, split: i64) -> (Held, Held) {
    let mut by_end: Vec<&Try> = jobs.iter().collect();
    by_end.sort_by_key(|job| (job.end_ms, job.row));
    let mut failures: HashMap<Work, usize> = HashMap::new();
    let (mut earlier, mut later) = (Held::default(), Held::default());
    let mut next = 0;
    for job in jobs {
        while let Some(before) = by_end.get(next).filter(|before| before.end_ms <= job.submit_ms) {
            let row = failures.entry(before.work).or_default();
            *row = if before.failed { *row + 1 } else { 0 };
            next += 1;
        }
        let held = if job.submit_ms < split { &mut earlier } else { &mut later };
        let is_held = failures.get(&job.work).is_some_and(|row| *row >= run);
        let lost = job.gpu_s.filter(|_| job.failed).unwrap_or(0.0);
        held.spared.push(if is_held { lost } else { 0.0 });
        if is_held {
            held.failed += u64::from(job.failed);
            held.completed += u64::from(!job.failed);
            *held.by_work.entry(job.work).or_default() += lost;
        }
    }
    (earlier, later)
}

/// The groups with most GPU time spared, in words.
fn groups(trace: &Trace, tries: &Tries, held: &Held) -> String {
    let mut all: Vec<(Work, f64)> = held.by_work.iter().map(|(work, gpu_s)| (*work, *gpu_s)).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let words = all.iter().take(NAMED).map(|(work, gpu_s)| {
        let user = trace.jobs.user.name(work.user).unwrap_or("an unknown user");
        let name = tries.stem(*work).map_or_else(String::new, |name| format!(" ({name})"));
        format!("{user}{name}: {} GPU-hours", format::compact(gpu_s / 3600.0))
    });
    words.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tracecast_analytics::schema::JobRow;

    use super::*;

    /// One user's jobs of one name, an hour each on one GPU, one after another: `F` fails.
    fn trace(states: &str) -> Trace {
        let mut trace = Trace::default();
        for (at, state) in states.chars().enumerate() {
            let from = at as i64 * 3_600_000;
            trace.jobs.push(JobRow {
                job_key: Some(at.to_string().into()),
                user: Some("u".into()),
                name: Some("train".into()),
                submit: Some(from),
                start: Some(from),
                end: Some(from + 3_600_000),
                run_s: Some(3_600.0),
                alloc_gpus: Some(1.0),
                state: Some(if state == 'F' { "failed" } else { "completed" }.into()),
                ..JobRow::default()
            });
        }
        trace
    }

    #[test]
    fn the_worked_number() {
        let work = Work { user: 0, stem: None };
        let job = |at: i64, failed: bool| Try {
            row: at as usize,
            submit_ms: at,
            end_ms: at + 1,
            gpu_s: Some(10.0),
            failed,
            work,
        };
        let jobs: Vec<Try> =
            [true, true, true, true, false].into_iter().zip(0..).map(|(failed, at)| job(at, failed)).collect();
        let (_, later) = hold(&jobs, 2, 0);
        assert_eq!((later.failed, later.completed, later.gpu_s()), (2, 1, 20.0));
    }

    #[test]
    fn rows_of_failures_are_worth_a_check_and_single_ones_are_not() {
        let Found { recommendation: result, looked_at: said, .. } = look(&trace(&"FFFFFFFFFC".repeat(40))).unwrap();
        let result = result.unwrap();
        assert!(result.action.starts_with("Hold a job") && said.contains("GPU-hours"), "{said}");
        // Of ten jobs at least six fail after failures.
        assert!(result.effects[0].change < -100.0 && result.effects[0].high.unwrap() < 0.0);
        let is_advised =
            |states: &str| look(&trace(&states.repeat(100))).is_ok_and(|result| result.recommendation.is_some());
        assert!(!is_advised("FC"), "after a failure comes a success");
        assert!(!is_advised("C"));
    }
}
