//! Partitions for the one-GPU jobs of a trace, with MISO's measured step times as truth: what fleets that were chosen on earlier jobs do to later ones.
//!
//! The bounds are what was measured when the test was written (`planner/RESULTS.md`), with some room: a fleet that trusts the mean forecast does not pass for one that keeps the SLO.

use tracecast_analytics::{Trace, storage};
use tracecast_planner::mig::answer::{MigAnswer, plan_jobs};
use tracecast_planner::mig::gpu::MigGpu;
use tracecast_planner::mig::rule::MigRule;
use tracecast_planner::mig::speed::MigEvidence;
use tracecast_planner::mig::study::{MigJobs, MigReplayRow, MigReplayed, MigStudy, MigTypes};
use tracecast_planner::mig::{MigRequest, MigStudyRequest};
use tracecast_planner::one_gpu::OneGpuJobs;
use tracecast_planner::plan::verdict::Verdict;
use tracecast_predictors::interference::slice::SliceTable;
use tracecast_tests::real_trace;

fn sample() -> Trace {
    storage::load(std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../datasets/sample"))).unwrap()
}

fn plan(table: &SliceTable, trace: &Trace) -> MigAnswer {
    let gpu = MigGpu::named("a100-40gb").unwrap();
    let request = MigRequest::default();
    plan_jobs(table, gpu, "jobs".to_owned(), trace, &request, &MigStudyRequest::default(), &()).unwrap()
}

fn table() -> Option<SliceTable> {
    let (steps, profiles) = (real_trace("miso_a100/mig_step_time.csv")?, real_trace("miso_a100/profiles.csv")?);
    Some(SliceTable::read(&steps, &profiles).unwrap())
}

fn fleet(replayed: &MigReplayed, rule: MigRule) -> &MigReplayRow {
    replayed.fleet(rule).unwrap()
}

#[test]
fn partitions_for_the_jobs_of_the_sample_keep_what_they_promise() {
    let Some(table) = table() else { return };
    let answer = plan(&table, &sample());
    let replayed = answer.trial.replayed.as_ref().unwrap();
    for of in &replayed.fleets {
        println!("{:?} {}: {} GPUs, {:?}, whole {:?}", of.rule, of.any_slice, of.gpus, of.later, of.whole_instead);
    }
    let [whole, plan, mean, forecast, oracle] =
        [MigRule::WholeGpus, MigRule::Plan, MigRule::MeanForecast, MigRule::Forecast, MigRule::Oracle]
            .map(|rule| fleet(replayed, rule));
    let target = replayed.target_p95_wait_s;
    // A third fewer GPUs, the wait and the SLO kept; nobody's type was left out.
    assert!(plan.gpus * 4 <= whole.gpus * 3 && plan.gpus >= oracle.gpus, "{} {}", plan.gpus, whole.gpus);
    assert!(plan.later.p95_wait_s <= Some(target) && whole.later.p95_wait_s <= Some(target));
    assert!(plan.later.over_slo < 1e-9 && plan.later.without_room == 0 && plan.later.failed == 0);
    assert!(plan.later.slowdown90 > Some(1.5) && whole.later.slowdown90 == Some(1.0));
    assert!(plan.whole_instead > Some(plan.gpus));
    // Without a measured slice of any family: the mean does harm, and the 0.9 quantile keeps the SLO for nine of ten, on more GPUs.
    assert!(mean.later.over_slo > 0.1 && forecast.later.over_slo <= 0.1 && forecast.gpus > mean.gpus);
    // Slices cost those who run on them time, and the answer says how much.
    assert!(plan.mean_delay_change_s.as_ref().is_some_and(|change| change.low > 0.0));
    // No name of the sample is a job type.
    assert!(
        answer.verdict == Verdict::Untested && answer.action.contains("name the job types first"),
        "{}",
        answer.action
    );
}

/// A trace in which jobs that had not ended by `split_ms` end otherwise: those that run there still do at the end of the record, and later ones run for three times as long.
fn with_other_ends(trace: &Trace, split_ms: i64) -> Trace {
    let mut other = trace.clone();
    let (mut cut_off, mut longer) = (0, 0);
    for job in 0..trace.jobs.submit.len() {
        let (Some(start), Some(end)) = (trace.jobs.start.get(job), trace.jobs.end.get(job)) else { continue };
        if start < split_ms && end > split_ms {
            other.jobs.end.set(job, None);
            other.jobs.run_s.set(job, None);
            other.jobs.state.set(job, Some("running"));
            cut_off += 1;
        } else if start >= split_ms {
            other.jobs.end.set(job, Some(start + 3 * (end - start)));
            other.jobs.run_s.set(job, Some(3.0 * (end - start) as f64 / 1e3));
            longer += 1;
        }
    }
    assert!(cut_off > 5 && longer > 1000, "{cut_off} {longer}");
    other
}

#[test]
fn what_comes_after_the_split_changes_no_choice_made_before_it() {
    let Some(table) = table() else { return };
    let gpu = MigGpu::named("a100-40gb").unwrap();
    let (request, asked) = (MigRequest::default(), MigStudyRequest::default());
    let types = MigTypes::new(&table, gpu).unwrap();
    let replayed = |trace: &Trace| {
        let jobs = MigJobs::new(OneGpuJobs::new(trace), &types, &asked).unwrap();
        let evidence = MigEvidence::new(&table, gpu, &jobs.demand).unwrap();
        let study = MigStudy::new(&evidence, &jobs, &request, &asked);
        (study.replayed(String::new(), &()).unwrap(), jobs.span_ms().1)
    };
    // A job is as long as from its start to its end.
    let mut trace = sample();
    trace.attempts = Default::default();
    let (before, split_ms) = replayed(&trace);
    let (after, same_split) = replayed(&with_other_ends(&trace, split_ms));
    assert_eq!(same_split, split_ms);
    let chosen = |of: &MigReplayed| -> Vec<(MigRule, u32, u64)> {
        let learnt = of.fleets.iter().filter(|row| row.rule != MigRule::Oracle);
        learnt.map(|row| (row.rule, row.gpus, row.busy.to_bits())).collect()
    };
    assert_eq!(chosen(&before), chosen(&after));
    // Who knows what comes chooses otherwise.
    assert!(fleet(&before, MigRule::Oracle).gpus < fleet(&after, MigRule::Oracle).gpus);
}
