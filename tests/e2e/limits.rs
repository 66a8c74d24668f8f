//! Limits by QOS and account in a real Slurm, replayed: two partitions, QOSs with `GrpTRES`, `MaxTRESPU` and `MaxJobsPU`, and multifactor weights above 0; then a tree of accounts instead of the QOSs.
//!
//! 48 jobs of four users come in four bursts, to the partitions train (n1, n2) and short (n3, n4). The limits of the replay are what `sacctmgr show qos -P` and
//! `scontrol show partition` print in the lab. As in [`crate::replay`], two numbers are taken from the record: when the backfill looked first, and how often.
//!
//! Ages hardly count here: Slurm works them out once in 5 min (`PriorityCalcPeriod`), so that they would be those of a moment that no record tells.
//! Takes about two minutes with the start of the lab, and three with accounts; preemption by QOS another one.

use std::time::Duration;

use tracecast_analytics::Trace;
use tracecast_analytics::schema::Resource;
use tracecast_planner::replay::input::{LimitFile, Loaded};
use tracecast_planner::sim::{Cluster, Policy, Shape, Weights, Workload, simulate};

use crate::lab::Lab;
use crate::recording;
use crate::replay::{compare, slurm, under_limits};
use crate::workload::SplitMix;

/// Bursts, the jobs of one, and the time from one to the next, seconds.
const BURSTS: u64 = 4;
const JOBS_A_BURST: u64 = 12;
const GAP_S: u64 = 14;
/// GPUs of jobs, each as likely as the others.
const GPUS: [u32; 8] = [1, 1, 2, 2, 4, 4, 4, 8];
/// Runs, seconds: odd, as [`crate::workload`] says why.
const RUNS_S: [u32; 6] = [5, 7, 9, 11, 13, 17];
/// Nodes as the replay has them.
const NODES: &str = "[[vc]]\nname = \"short\"\nnodes = 2\n\n[[vc]]\nname = \"train\"\nnodes = 2\n";
/// Least worsening of the order of starts without limits (Kendall's τ).
const CLEARLY: f64 = 0.1;
/// Lines added to `slurm.conf`.
const CONF: &str = "AccountingStorageEnforce=limits,qos
PriorityWeightAge=10
PriorityWeightQOS=300
PriorityWeightTRES=GRES/gpu=320
PartitionName=train Nodes=n[1-2] MaxTime=INFINITE State=UP OverSubscribe=NO DefMemPerCPU=10
PartitionName=short Nodes=n[3-4] MaxTime=10 State=UP OverSubscribe=NO DefMemPerCPU=10
";

/// A job to submit.
struct Asked {
    at_s: u64,
    name: String,
    user: String,
    qos: &'static str,
    account: &'static str,
    partition: &'static str,
    gpus: u32,
    run_s: u32,
    limit_min: u32,
}

/// Weights of the lab.
fn policy(period_ms: i64) -> Policy {
    let weights = Weights { age: 10.0, qos: 300.0, size: 320.0, ..Weights::default() };
    slurm(weights, period_ms)
}

/// The jobs, always the same.
fn jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(7);
    let of = |job: u64| Asked {
        at_s: job / JOBS_A_BURST * GAP_S,
        name: format!("q{job:02}"),
        user: format!("u{}", 1 + random.below(4)),
        qos: if random.below(10) < 7 { "batch" } else { "high" },
        account: "research",
        partition: if random.below(2) == 0 { "train" } else { "short" },
        gpus: GPUS[random.below(GPUS.len() as u64) as usize],
        run_s: RUNS_S[random.below(RUNS_S.len() as u64) as usize],
        limit_min: 1 + random.below(3) as u32,
    };
    (0..BURSTS * JOBS_A_BURST).map(of).collect()
}

fn submit(lab: &Lab, job: &Asked) {
    let options = [
        format!("--partition={}", job.partition),
        format!("--qos={}", job.qos),
        format!("--account={}", job.account),
        format!("--gres=gpu:{}", job.gpus),
        format!("--time={}", job.limit_min),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    lab.submit(&job.user, &job.name, &options, &format!("sleep {}", job.run_s));
}

/// QOSs, partitions and priorities of the lab.
fn configure(lab: &Lab, folder: &std::path::Path, more: &str) {
    let manage = |arguments: &[&str]| {
        lab.output("sacctmgr", &[&["-i"], arguments].concat());
    };
    manage(&["add", "qos", "batch", "high"]);
    manage(&["modify", "qos", "batch", "set", "Priority=1", "GrpTRES=gres/gpu=14", "MaxTRESPU=gres/gpu=8"]);
    manage(&["modify", "qos", "high", "set", "Priority=10", "MaxTRESPU=gres/gpu=8", "MaxJobsPU=2"]);
    manage(&["modify", "account", "research", "set", "qos=normal,batch,high"]);
    install(lab, folder, more);
}

/// Partitions and priorities of the lab, with limits enforced.
fn install(lab: &Lab, folder: &std::path::Path, more: &str) {
    let before = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    let conf = folder.join("slurm.conf");
    std::fs::write(&conf, format!("{before}\n{CONF}{more}")).unwrap();
    lab.run(&["install", conf.to_str().unwrap()]);
}

#[test]
fn limits_by_qos_are_replayed() {
    let asked = jobs();
    // Kept, as it takes minutes to make another.
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = kept.join("slurm-limits-recording.txt");
    let mut limits = String::new();
    let record = || {
        let lab = Lab::with_scheduler(4, recording::SCHEDULER)?;
        let folder = tempfile::tempdir().unwrap();
        configure(&lab, folder.path(), "");
        let recorded = recording::record_bursts(&lab, &asked, |job| job.at_s, |job| submit(&lab, job), &file);
        limits = lab.output("sacctmgr", &["show", "qos", "-P"]) + &lab.output("scontrol", &["show", "partition"]);
        Some(recorded)
    };
    let Some(trace) = recording::least_disturbed(record) else { return };
    std::fs::write(kept.join("slurm-limits.txt"), &limits).unwrap();
    agrees(&trace, &limits);
}

/// The reasons of waiting jobs that `squeue` is to show.
const REASONS: [&str; 3] = ["AssocGrpGRES", "AssocGrpJobsLimit", "AssocMaxJobsLimit"];

/// Accounts of the lab: dept may have 10 GPUs at work, its children nlp 6 and vision what is left, with two jobs a user, and one of u2; speech, beside dept, may run one job. QOS urgent has 12 GPUs, which lifts the 10 and
/// the 6 for its jobs.
fn configure_accounts(lab: &Lab, folder: &std::path::Path) {
    let manage = |arguments: &[&str]| {
        lab.output("sacctmgr", &[&["-i"], arguments].concat());
    };
    manage(&["add", "account", "dept", "GrpTRES=gres/gpu=10"]);
    manage(&["add", "account", "nlp", "parent=dept", "GrpTRES=gres/gpu=6"]);
    manage(&["add", "account", "vision", "parent=dept", "MaxJobs=2"]);
    manage(&["add", "account", "speech", "GrpJobs=1"]);
    for account in ["nlp", "vision", "speech"] {
        manage(&["add", "user", "u1", "u2", "u3", "u4", &format!("account={account}")]);
    }
    manage(&["modify", "user", "u2", "where", "account=vision", "set", "MaxJobs=1"]);
    manage(&["add", "qos", "urgent", "Priority=10", "GrpTRES=gres/gpu=12"]);
    manage(&["modify", "account", "dept", "nlp", "vision", "speech", "set", "qos=normal,urgent"]);
    install(lab, folder, "");
}

/// Jobs drawn alike every time, charged to three accounts, none larger than its account may have.
fn charged_jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(11);
    let of = |job: u64| Asked {
        at_s: job / JOBS_A_BURST * GAP_S,
        name: format!("a{job:02}"),
        user: format!("u{}", 1 + random.below(4)),
        qos: if random.below(10) < 2 { "urgent" } else { "normal" },
        account: ["nlp", "nlp", "nlp", "nlp", "vision", "vision", "vision", "vision", "speech", "speech"]
            [random.below(10) as usize],
        partition: if random.below(2) == 0 { "train" } else { "short" },
        gpus: [1, 1, 2, 2, 3, 4][random.below(6) as usize],
        run_s: RUNS_S[random.below(RUNS_S.len() as u64) as usize],
        limit_min: 1 + random.below(3) as u32,
    };
    (0..BURSTS * JOBS_A_BURST).map(of).collect()
}

#[test]
fn limits_of_accounts_are_replayed() {
    let asked = charged_jobs();
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = kept.join("slurm-accounts-recording.txt");
    let seen = std::cell::RefCell::new(std::collections::BTreeSet::new());
    let mut limits = String::new();
    let record = || {
        let lab = Lab::with_scheduler(4, recording::SCHEDULER)?;
        let folder = tempfile::tempdir().unwrap();
        configure_accounts(&lab, folder.path());
        let put = |job: &Asked| {
            submit(&lab, job);
            // Once a burst: what those of the bursts before wait for, while the new ones have not been looked at.
            if job.name.ends_with(['0', '2', '4', '6']) && job.at_s > 0 {
                let reasons = lab.output("squeue", &["-h", "-t", "PD", "-o", "%r"]);
                seen.borrow_mut().extend(reasons.lines().map(str::to_owned));
            }
        };
        let recorded = recording::record_bursts(&lab, &asked, |job| job.at_s, put, &file);
        limits = lab.limits(true);
        Some(recorded)
    };
    let Some(trace) = recording::least_disturbed(record) else { return };
    std::fs::write(kept.join("slurm-accounts.txt"), &limits).unwrap();
    let seen = seen.into_inner();
    println!("squeue showed {seen:?}");
    agrees(&trace, &limits);
    assert!(REASONS.iter().all(|reason| seen.contains(*reason)), "{seen:?}");
}

/// A recording made before, with its limits: `TRACECAST_SLURM_LIMITS` names the folder of both.
#[test]
fn limits_of_a_recording_made_before_are_replayed() {
    let Some(folder) = std::env::var_os("TRACECAST_SLURM_LIMITS") else {
        println!("skipped: TRACECAST_SLURM_LIMITS names no folder");
        return;
    };
    let folder = std::path::Path::new(&folder);
    let trace = tracecast_tests::read(&[folder.join("slurm-limits-recording.txt")]).unwrap();
    agrees(&trace, &std::fs::read_to_string(folder.join("slurm-limits.txt")).unwrap());
}

/// Replays the recorded jobs under these limits, and demands that their starts are met.
fn agrees(trace: &Trace, limits: &str) {
    let (loaded, period_ms) = under_limits(trace, limits, NODES, BURSTS * JOBS_A_BURST);
    assert!(loaded.workload.qos.iter().all(Option::is_some));
    let policy = policy(period_ms);
    let replay = |loaded: &Loaded| compare(loaded, &simulate(&loaded.workload, &loaded.cluster, &policy).unwrap());
    let found = replay(&loaded);
    println!("under limits {found}");
    let mut free = loaded.clone();
    free.cluster.limits = None;
    let without = replay(&free);
    println!("the same without limits {without}");
    assert!(found.median_s <= recording::INTERVAL.as_secs() as i64 && found.tau >= 0.95, "{found}");
    // The limits are what made these starts.
    assert!(without.tau + CLEARLY < found.tau, "{without}");
}

/// Jobs of the partition train: QOS, GPUs, run s. The first four fill n1 and leave 2 GPUs of n2; the others come 8 s later and stop the first two, and the third.
const STOPPING: [(&str, u32, u32); 6] =
    [("batch", 4, 61), ("batch", 4, 61), ("batch", 2, 61), ("batch", 4, 61), ("high", 8, 9), ("high", 4, 11)];

#[test]
fn a_qos_stops_jobs_as_it_does_in_the_replay() {
    let Some(lab) = Lab::with_scheduler(4, recording::SCHEDULER) else { return };
    let folder = tempfile::tempdir().unwrap();
    configure(&lab, folder.path(), "PreemptType=preempt/qos\nPreemptMode=REQUEUE\n");
    lab.output("sacctmgr", &["-i", "modify", "qos", "high", "set", "Preempt=batch", "MaxTRESPU=gres/gpu=16"]);
    lab.output("sacctmgr", &["-i", "modify", "qos", "batch", "set", "GrpTRES=gres/gpu=-1", "MaxTRESPU=gres/gpu=-1"]);
    let submit = |at: usize| {
        let (qos, gpus, run_s) = STOPPING[at];
        let job = Asked {
            at_s: 0,
            name: format!("p{at}"),
            user: format!("u{}", 1 + at % 4),
            qos,
            account: "research",
            partition: "train",
            gpus,
            run_s,
            limit_min: 2,
        };
        let options = [format!("--partition={}", job.partition), format!("--qos={qos}"), format!("--gres=gpu:{gpus}")];
        let options: Vec<&str> = options.iter().map(String::as_str).chain(["--time=2"]).collect();
        lab.submit(&job.user, &job.name, &options, &format!("sleep {run_s}"))
    };
    let mut numbers: Vec<String> = (0..4).map(submit).collect();
    numbers.iter().for_each(|number| lab.wait_for(number, "RUNNING"));
    std::thread::sleep(Duration::from_secs(8));
    numbers.extend((4..6).map(submit));
    for number in &numbers[4..] {
        lab.wait_for(number, "RUNNING");
    }
    // What was requeued waits two minutes before it may start again.
    let told = |number: &str| lab.output("scontrol", &["show", "job", number]);
    let stopped: Vec<usize> = (0..6).filter(|at| told(&numbers[*at]).contains("Restarts=1")).collect();
    let seconds = |number: &str, field: &str| -> i64 {
        let text = told(number);
        let time = text.split_whitespace().find_map(|word| word.strip_prefix(&format!("{field}="))).unwrap();
        tracecast_analytics::time::parse_with_offset(&format!("{time}Z")).unwrap() / 1000
    };
    let starts: Vec<i64> = numbers[4..].iter().map(|number| seconds(number, "StartTime")).collect();
    let submits: Vec<i64> = numbers.iter().map(|number| seconds(number, "SubmitTime")).collect();
    // A requeued job is submitted anew.
    let first_s = submits[3];
    let submits: Vec<i64> = (0..6).map(|at| if at < 4 { 0 } else { submits[at] - first_s }).collect();
    let text = lab.limits(false);
    drop(lab);

    let mut workload = Workload { origin_ms: first_s * 1000, ..Workload::default() };
    for ((qos, gpus, run_s), submit_s) in STOPPING.into_iter().zip(&submits) {
        workload.push(submit_s * 1000, i64::from(run_s) * 1000, Shape { nodes: 1, ..Shape::whole(gpus) });
        *workload.requested_ms.last_mut().unwrap() = Some(120_000);
        workload.qos.push(Some(if qos == "batch" { 1 } else { 2 }));
    }
    let mut cluster = Cluster::of_vcs(&[("train", 2, 8)]);
    let file = LimitFile::parse("limits.txt", &text).unwrap();
    cluster.limits = Some(file.govern(&cluster, Resource::Gpus, &mut Vec::new()).unwrap());
    let names: Vec<&str> = cluster.limits.as_ref().unwrap().qos().iter().map(|qos| qos.name.as_str()).collect();
    assert_eq!(names, ["normal", "batch", "high"]);
    let interval_ms = recording::INTERVAL.as_millis() as i64;
    let schedule = simulate(&workload, &cluster, &policy(interval_ms)).unwrap();
    let replayed: Vec<usize> = (0..6).filter(|job| schedule.preemptions[*job] == 1).collect();
    let errors: Vec<i64> =
        (4..6).map(|job| schedule.start_ms(job).unwrap() / 1000 - (starts[job - 4] - first_s)).collect();
    println!(
        "stopped by Slurm {stopped:?}, in the replay {replayed:?}; starts of those they stop for differ by {errors:?} s"
    );
    assert_eq!(stopped, replayed);
    assert!(errors.iter().all(|error| error.abs() <= interval_ms / 1000), "{errors:?}");
}
