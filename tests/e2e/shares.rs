//! Shares of accounts in a real Slurm, replayed: a tree with unequal shares under fair tree, and a multifactor priority of nothing else.
//!
//! 84 jobs of four users in four accounts come in seven bursts, and wait for 32 GPUs for some minutes. Shares and weights of the replay are what `sacctmgr show assoc tree -P` and `scontrol show config` print in the lab. Slurm
//! works the factors out once a minute, its shortest period, from some moment on that no record tells. So three numbers are not from `sacct`: when the backfill looked first, how often ([`crate::replay`]), and when the
//! factors were worked out: when Slurm last wrote `priority_last_decay_ran`, give or take the second to which looks are known. Of moments 100 ms apart the one counts that explains the starts best, and all are printed: on the wrong side
//! of a look another user is first, and as shares pull accounts to one level, all is otherwise from there on.
//!
//! These jobs are replayed with users alone, as it was before accounts had shares, and first come,
//! first served. What `sshare -la` shows a minute after the last job is held against the standing
//! at the end of the replay. That takes about eight minutes with the start of the lab, so it is run
//! where it is asked for: `cargo test --release --test slurm_e2e shares -- --ignored --nocapture
//! --test-threads=1` with the lab. What one run left is `tests/fixtures/slurm-shares`, and is
//! replayed each time: `recording.txt` of `sacct`, `limits.txt` of `sacctmgr` and `scontrol` (of
//! the configuration what is about accounting, priorities and scheduling), `standing.txt` of
//! `sshare` behind the moment when the factors were last worked out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracecast_analytics::Trace;
use tracecast_planner::replay::input::Loaded;
use tracecast_planner::replay::metric::evaluate;
use tracecast_planner::sim::limit::Accounting;
use tracecast_planner::sim::{Weights, simulate};

use crate::lab::Lab;
use crate::recording;
use crate::replay::{compare, slurm, under_limits};
use crate::workload::SplitMix;

/// Bursts, the jobs of one, and the time from one to the next, seconds.
const BURSTS: u64 = 7;
const JOBS_A_BURST: u64 = 12;
const GAP_S: u64 = 34;
/// GPUs of jobs, each as likely as the others.
const GPUS: [u32; 6] = [2, 4, 4, 8, 8, 8];
/// Runs, seconds: odd, as [`crate::workload`] says why.
const RUNS_S: [u32; 6] = [13, 17, 21, 25, 29, 35];
const NODES: &str = "[[vc]]\nname = \"shared\"\nnodes = 4\n";
/// Least worsening of the order of starts without the tree (Kendall's τ).
const CLEARLY: f64 = 0.1;
/// Lines added to `slurm.conf`. Limits are enforced, though there are none: a Slurm that enforces
/// none charges a job only up to the last time before its end at which factors were worked out.
const CONF: &str = "AccountingStorageEnforce=limits,qos
PriorityWeightFairshare=100000
PriorityDecayHalfLife=00:10:00
PriorityCalcPeriod=1
PartitionName=shared Nodes=n[1-4] MaxTime=INFINITE State=UP OverSubscribe=NO DefMemPerCPU=10 TRESBillingWeights=GRES/gpu=1.0
";

/// A job to submit.
struct Asked {
    at_s: u64,
    name: String,
    user: String,
    account: &'static str,
    gpus: u32,
    run_s: u32,
    limit_min: u32,
}

/// Dept has 3 shares and guests 1; of dept's, nlp 2 and vision 1; of nlp's, u1 3 and u2 1. Who asks most has least.
fn configure(lab: &Lab, folder: &std::path::Path) {
    let manage = |arguments: &[&str]| {
        lab.output("sacctmgr", &[&["-i"], arguments].concat());
    };
    manage(&["add", "account", "dept", "fairshare=30"]);
    manage(&["add", "account", "guests", "fairshare=10"]);
    manage(&["add", "account", "nlp", "parent=dept", "fairshare=2"]);
    manage(&["add", "account", "vision", "parent=dept", "fairshare=1"]);
    manage(&["add", "user", "u1", "account=nlp", "fairshare=3"]);
    manage(&["add", "user", "u2", "account=nlp", "fairshare=1"]);
    manage(&["add", "user", "u2", "u3", "account=vision"]);
    manage(&["add", "user", "u3", "account=guests", "fairshare=parent"]);
    manage(&["add", "user", "u4", "account=guests"]);
    let before = std::fs::read_to_string(lab.home().join("slurm.conf")).unwrap();
    let conf = folder.join("slurm.conf");
    std::fs::write(&conf, format!("{before}\n{CONF}")).unwrap();
    lab.run(&["install", conf.to_str().unwrap()]);
}

/// The jobs, always the same.
fn jobs() -> Vec<Asked> {
    let mut random = SplitMix::new(23);
    let whose = [
        ("u1", "nlp"),
        ("u1", "nlp"),
        ("u2", "nlp"),
        ("u2", "nlp"),
        ("u2", "vision"),
        ("u3", "vision"),
        ("u3", "guests"),
        ("u4", "guests"),
        ("u4", "guests"),
        ("u4", "guests"),
    ];
    let of = |job: u64| {
        let (user, account) = whose[random.below(10) as usize];
        Asked {
            at_s: job / JOBS_A_BURST * GAP_S,
            name: format!("s{job:02}"),
            user: user.to_owned(),
            account,
            gpus: GPUS[random.below(GPUS.len() as u64) as usize],
            run_s: RUNS_S[random.below(RUNS_S.len() as u64) as usize],
            limit_min: 1 + random.below(2) as u32,
        }
    };
    (0..BURSTS * JOBS_A_BURST).map(of).collect()
}

fn submit(lab: &Lab, job: &Asked) {
    let options = [
        "--partition=shared".to_owned(),
        format!("--account={}", job.account),
        format!("--gres=gpu:{}", job.gpus),
        format!("--time={}", job.limit_min),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    lab.submit(&job.user, &job.name, &options, &format!("sleep {}", job.run_s));
}

/// Time at which the factors were last computed, milliseconds since the Unix epoch: a look of the
/// same second may come before.
fn reckoned_ms(lab: &Lab) -> i64 {
    let written = std::fs::metadata(lab.home().join("state/priority_last_decay_ran")).unwrap().modified();
    written.unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH).unwrap().as_millis() as i64
}

#[test]
#[ignore = "takes eight minutes of a real Slurm; what one run left is replayed each time"]
fn shares_of_accounts_are_replayed() {
    let Some(lab) = Lab::with_scheduler(4, recording::SCHEDULER) else { return };
    let folder = tempfile::tempdir().unwrap();
    configure(&lab, folder.path());
    let asked = jobs();
    // Kept, as it takes minutes to make another.
    let kept = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm-shares");
    std::fs::create_dir_all(&kept).unwrap();
    let file = kept.join("recording.txt");
    let recorded = recording::record_bursts(&lab, &asked, |job| job.at_s, |job| submit(&lab, job), &file);
    let limits = lab.limits(true);
    // The factors after the last end.
    let before = reckoned_ms(&lab);
    while reckoned_ms(&lab) == before {
        std::thread::sleep(Duration::from_secs(1));
    }
    std::thread::sleep(Duration::from_secs(1));
    let (standing, reckoned_ms) = (lab.output("sshare", &["-la", "-P"]), reckoned_ms(&lab));
    drop(lab);
    std::fs::write(kept.join("limits.txt"), &limits).unwrap();
    std::fs::write(kept.join("standing.txt"), format!("{reckoned_ms}\n{standing}")).unwrap();
    agrees(&recorded.trace, &limits, reckoned_ms, &standing);
}

/// A recording made before, with what Slurm printed; `TRACECAST_SLURM_SHARES` names the folder of another.
#[test]
fn shares_of_a_recording_made_before_are_replayed() {
    let shipped = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/slurm-shares");
    let folder = std::env::var_os("TRACECAST_SLURM_SHARES").map_or(shipped, std::path::PathBuf::from);
    let trace = tracecast_tests::read(&[folder.join("recording.txt")]).unwrap();
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let standing = text("standing.txt");
    let (reckoned_ms, standing) = standing.split_once('\n').unwrap();
    agrees(&trace, &text("limits.txt"), reckoned_ms.parse().unwrap(), standing);
}

/// The factors of users who have used something, by account/user.
fn factors(standing: &str) -> Vec<(String, f64)> {
    let mut rows = standing.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap();
    let (account, user, used, factor) = (at("Account"), at("User"), at("RawUsage"), at("FairShare"));
    // Research is charged for the jobs that warm the lab up alone.
    rows.filter(|row| !row[user].is_empty() && row[used] != "0" && row[account] != "research")
        .map(|row| (format!("{}/{}", row[account], row[user]), row[factor].parse().unwrap()))
        .collect()
}

/// Replays the recorded jobs with these shares, and demands that their starts are met.
fn agrees(trace: &Trace, limits: &str, reckoned_ms: i64, standing: &str) {
    let (mut loaded, period_ms) = under_limits(trace, limits, NODES, BURSTS * JOBS_A_BURST);
    assert!(loaded.workload.association.iter().all(Option::is_some));
    let read = loaded.cluster.limits.take().unwrap();
    let accounting =
        |late_ms: i64| Accounting { first_ms: reckoned_ms + late_ms - loaded.workload.origin_ms, ..*read.accounting() };
    assert_eq!((accounting(0).period_ms, accounting(0).half_life_ms), (60_000, Some(600_000)));
    // Without weights: those that Slurm prints.
    let bare = Weights::default();
    let replay = |loaded: &Loaded, weights: Weights| {
        let schedule = simulate(&loaded.workload, &loaded.cluster, &slurm(weights, period_ms)).unwrap();
        (compare(loaded, &schedule), schedule)
    };
    let mut free = loaded.clone();
    free.cluster.limits = None;
    let by_user = Weights { fair_share: 100_000.0, half_life_ms: 600_000, ..Weights::default() };
    let (users, _) = replay(&free, by_user);
    let (fifo, _) = replay(&free, bare);
    // Looks are known to a second: which of them came before a reckoning is what explains the starts best.
    let replays = (-1000..=1000).step_by(100).map(|late_ms| {
        let mut shared = loaded.clone();
        shared.cluster.limits = Some(read.clone().accounted(accounting(late_ms)).unwrap());
        let (found, schedule) = replay(&shared, bare);
        println!("reckoned {late_ms:>5} ms later: {found}");
        (found, schedule, shared)
    });
    let (found, schedule, loaded) = replays.max_by(|a, b| a.0.tau.total_cmp(&b.0.tau)).unwrap();
    println!("shares of accounts  {found}");
    println!("shares of users     {users}");
    println!("as they came        {fifo}");
    let ended = evaluate(&loaded.workload, &loaded.cluster, &schedule, 1).unwrap().metrics.shares;
    let mut apart = 0.0f64;
    for (name, factor) in factors(standing) {
        let replayed = ended.iter().find(|of| of.name == name).and_then(|of| of.factor);
        println!("{name:<12} sshare {factor:.4}, replay {replayed:?}");
        apart = apart.max((replayed.unwrap_or(f64::NAN) - factor).abs());
    }
    assert!(found.median_s <= recording::INTERVAL.as_secs() as i64 && found.tau >= 0.95, "{found}");
    // The shares are what made these starts.
    assert!(users.tau + CLEARLY < found.tau && fifo.tau + CLEARLY < found.tau, "{users}; {fifo}");
    assert!(apart < 1e-4, "a factor is {apart} apart");
}
