//! Effect of a plan of queues in a real Slurm, compared with its forecast: the same jobs before and
//! after its files are in place.
//!
//! 270 jobs of the VCs vision and speech, two nodes of 8 GPUs each, in fifteen bursts. Speech asks for three times as much as vision, and for more than its nodes can do. They are recorded once on partitions of their own nodes. From
//! that record come the plan, with the files that share the nodes, and the forecast of what sharing does: the record replayed with shares beside the record replayed as it was, job by job, with the 95 % interval of the mean difference. Then the plan's
//! files are loaded and the same jobs recorded again. The mean wait has to change as forecast: in its direction, and by an amount within the interval.
//!
//! The plan is carried out without reclaiming: a job that Slurm requeues may not start for two minutes, which is nothing to jobs of hours and all to jobs of seconds.
//! Takes about ten minutes with the start of the lab.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tracecast_analytics::Trace;
use tracecast_planner::plan::verdict::Verdict;
use tracecast_planner::queues::answer::QueuesCandidate;
use tracecast_planner::queues::share::Sharing;
use tracecast_planner::queues::{self, QueuesAnswer, QueuesRequest, SearchRun};
use tracecast_planner::replay::compare::{Difference, compare};
use tracecast_planner::replay::input::{Loaded, Options, Site, load};
use tracecast_planner::replay::metric::JobTimes;
use tracecast_planner::sim::{Policy, Weights, simulate};

use crate::lab::Lab;
use crate::queues::{carry_out, own_partitions};
use crate::recording::{self, WARM_UP};
use crate::replay::{align, compare as agreement, first_ms, slurm};
use crate::workload::{SHORT_RUNS_S, SplitMix};

/// The way to share that is carried out, one of those that the plan tries.
const SHARING: Sharing = Sharing::Borrowing { ceiling: None, reclaim: false };
const JOBS: u64 = 270;
const JOBS_A_BURST: u64 = 18;
const GAP_S: u64 = 12;
/// First job that the plan is not chosen on.
const SPLIT: usize = 162;
/// GPUs of jobs, each as likely as the others.
const GPUS: [u32; 6] = [1, 1, 2, 2, 4, 8];
/// Partitions as the operator had them. Jobs that warm the lab up are on all nodes.
const PARTITIONS: &str = "PartitionName=gpu Nodes=n[1-4] Default=YES DefMemPerCPU=10
PartitionName=vision Nodes=n[1-2] DefMemPerCPU=10
PartitionName=speech Nodes=n[3-4] DefMemPerCPU=10
";
/// The operator's partitions as a cluster file.
const TODAY: &str = "[[vc]]\nname = \"speech\"\nnodes = 2\n\n[[vc]]\nname = \"vision\"\nnodes = 2\n";
/// All nodes for both, each served first on as many GPUs as it had.
const SHARED: &str = "[[pool]]\nname = \"all\"\nnodes = 4\n\n[[vc]]\nname = \"speech\"\npool = \"all\"\nguaranteed_gpus = 16\n\n[[vc]]\nname = \"vision\"\npool = \"all\"\nguaranteed_gpus = 16\n";

struct Asked {
    at_s: u64,
    name: String,
    vc: &'static str,
    gpus: u32,
    run_s: u32,
    limit_min: u32,
}

/// Jobs drawn alike every time.
fn jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(21);
    (0..JOBS)
        .map(|job| Asked {
            at_s: job / JOBS_A_BURST * GAP_S,
            name: format!("j{job:03}"),
            vc: if random.below(4) == 0 { "vision" } else { "speech" },
            gpus: random.of(&GPUS),
            run_s: random.of(&SHORT_RUNS_S),
            limit_min: 1 + random.below(3) as u32,
        })
        .collect()
}

fn record(lab: &Lab, file: &Path) -> Trace {
    let submit = |job: &Asked| {
        let (partition, gpus) = (format!("--partition={}", job.vc), format!("--gres=gpu:{}", job.gpus));
        lab.submit(
            "u1",
            &job.name,
            &[&partition, &gpus, "-t", &job.limit_min.to_string()],
            &format!("sleep {}", job.run_s),
        );
    };
    recording::record_bursts(lab, &jobs(), |job| job.at_s, submit, file).trace
}

/// Recorded waits of the jobs that were submitted after this moment, by their names, seconds.
fn waits(trace: &Trace, after_ms: i64) -> BTreeMap<String, f64> {
    let jobs = &trace.jobs;
    let wait = |ix: usize| {
        let name = jobs.name.get(ix).filter(|name| !WARM_UP.contains(name))?;
        let submit = jobs.submit.get(ix).filter(|submit| *submit > after_ms)?;
        Some((name.to_owned(), (jobs.start.get(ix)? - submit) as f64 / 1e3))
    };
    (0..jobs.submit.len()).filter_map(wait).collect()
}

/// The recorded jobs on these nodes, at the looks of the backfill, and how the lab decides.
fn recorded(trace: &Trace, nodes: &str) -> (Loaded, Policy) {
    let options = Options {
        from_ms: first_ms(trace, |name| !WARM_UP.contains(&name)),
        gangs_as_recorded: true,
        ..Options::default()
    };
    let mut loaded = load(trace, Some(&Site::parse("lab", nodes).unwrap()), &options).unwrap();
    assert_eq!(loaded.workload.len() as u64, JOBS, "{:?}", loaded.excluded);
    let period_ms = align(&mut loaded);
    (loaded, slurm(Weights::default(), period_ms))
}

/// The plan from the recorded jobs, chosen on those before [`SPLIT`].
fn planned(trace: &Trace) -> QueuesAnswer {
    let (loaded, policy) = recorded(trace, TODAY);
    let split_ms = loaded.workload.origin_ms + loaded.workload.submit_ms[SPLIT];
    let request = QueuesRequest::of_list(Some(split_ms), policy);
    queues::plan(trace, &loaded, String::new(), &request, SearchRun::default()).unwrap()
}

/// Forecast effect of sharing on the waits of the recorded jobs. Of the later ones the plan says
/// the same.
fn forecast(trace: &Trace) -> Difference {
    let times = |nodes: &str| {
        let (loaded, policy) = recorded(trace, nodes);
        let schedule = simulate(&loaded.workload, &loaded.cluster, &policy).unwrap();
        println!("against the record: {}", agreement(&loaded, &schedule));
        (JobTimes::new(&loaded.workload, &schedule).unwrap(), loaded.workload)
    };
    let ((today, workload), (shared, _)) = (times(TODAY), times(SHARED));
    let later = |times: &JobTimes| {
        let waits: Vec<i64> = (SPLIT..workload.len()).map(|job| times.wait_ms(job).unwrap()).collect();
        waits.iter().sum::<i64>() as f64 / 1e3 / waits.len() as f64
    };
    let plan = planned(trace);
    let is_it = |of: &&QueuesCandidate| of.sharing == SHARING && of.policy == plan.body.today;
    let said = plan.body.candidates.iter().find(is_it).unwrap();
    println!("of the later jobs the plan says {:?} and {:?}", plan.trial.today, said.later);
    assert!((plan.trial.today.mean_wait_s - later(&today)).abs() < 1e-6);
    assert!((said.later.mean_wait_s - later(&shared)).abs() < 1e-6);
    let found = compare(&workload, &[("today", &today), ("shared", &shared)], 0).unwrap();
    found.differences.into_iter().next().unwrap()
}

/// Holds what came after the plan was carried out against what was forecast from the record before, of both of which `sacct` tells in `both`.
fn holds(before_plan: &Trace, both: &Trace) {
    let said = forecast(before_plan).mean_wait_s;
    let submits = (0..before_plan.jobs.submit.len()).filter_map(|ix| before_plan.jobs.submit.get(ix));
    let (before, after) = (waits(before_plan, 0), waits(both, submits.max().unwrap()));
    assert!(before.keys().eq(after.keys()) && before.len() as u64 == JOBS, "{} and {}", before.len(), after.len());
    let mean = |of: &BTreeMap<String, f64>| of.values().sum::<f64>() / of.len() as f64;
    let change = mean(&after) - mean(&before);
    println!(
        "mean wait {:.1} s before, {:.1} s after: {change:.1} s; forecast {:.1} s ({:.1} to {:.1})",
        mean(&before),
        mean(&after),
        said.value,
        said.low,
        said.high
    );
    // A plan worth nothing would show nothing.
    assert!(said.high < 0.0 && change < 0.0, "{change} and {said:?}");
    assert!((said.low..=said.high).contains(&change), "{change} and {said:?}");
}

#[test]
fn a_plan_does_what_it_says() {
    let Some(lab) = Lab::with_scheduler(4, recording::SCHEDULER) else { return };
    let folder = tempfile::tempdir().unwrap();
    let own = own_partitions(&lab, PARTITIONS);
    let conf = folder.path().join("slurm.conf");
    std::fs::write(&conf, &own).unwrap();
    lab.run(&["install", conf.to_str().unwrap()]);
    // Kept, as it takes minutes to make others.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let before_plan = record(&lab, &kept.join("slurm-before-plan.txt"));

    let mut plan = planned(&before_plan);
    println!("the plan: {}", plan.action);
    // Whether it advises to share or, as a VC may wait some seconds longer than on nodes of its own, not to: here it is done.
    plan.verdict = Verdict::Advised;
    let chosen = plan.body.chosen;
    plan.body.candidates[chosen].sharing = SHARING;
    plan.body.vcs.iter_mut().for_each(|vc| vc.most_gpus = None);
    carry_out(&lab, folder.path(), &plan, &own);
    let both = record(&lab, &kept.join("slurm-after-plan.txt"));
    drop(lab);
    holds(&before_plan, &both);
}

/// Recordings made before: `TRACECAST_SLURM_PLAN` names the folder of both.
#[test]
fn a_plan_carried_out_before_did_what_it_said() {
    let Some(folder) = std::env::var_os("TRACECAST_SLURM_PLAN").map(PathBuf::from) else {
        println!("skipped: TRACECAST_SLURM_PLAN names no folder");
        return;
    };
    let read = |name: &str| tracecast_tests::read(&[folder.join(name)]).unwrap();
    holds(&read("slurm-before-plan.txt"), &read("slurm-after-plan.txt"));
}
