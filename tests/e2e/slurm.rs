//! A real Slurm, end to end: jobs are submitted to a cluster with 8 GPUs a node on this machine, and what
//! `sacct` says of them is read by our readers and compared with what was asked for.
//!
//! Needs root and Debian packages (the lab script installs them), so it runs only where `TRACECAST_SLURM_LAB=1` is set.
//! A test has a Slurm of its own, and two run at once where cargo runs two tests at once: all of them take 20 minutes then, and 40 with `--test-threads=1`.
//! The longest are a plan of queues before and after with ten, the 160 jobs that are recorded under backfill and those that are submitted with predictions with six each, backfills that look not far ahead with four, and shares
//! of accounts, which have to be asked for, with eight.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod ahead;
mod defer;
mod effect;
mod hosts;
mod job_submit;
mod lab;
mod limits;
mod power;
mod queues;
mod recording;
mod replay;
mod shards;
mod shares;
mod sharing;
mod switches;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lab::Lab;
use tracecast_analytics::Trace;
use tracecast_tests::{check, read};

/// Seconds by which a run may differ from what was asked: starting and ending a job takes up to one each.
const SLACK_S: f64 = 2.0;

/// Jobs replayed from a file: name, user, GPUs, seconds.
const REPLAYED: [(&str, &str, f64, f64); 10] = [
    ("one", "u1", 1.0, 3.0),
    ("two", "u1", 2.0, 4.0),
    ("node", "u2", 8.0, 5.0),
    ("both nodes", "u2", 16.0, 3.0),
    ("one more", "u1", 1.0, 2.0),
    ("another node", "u1", 8.0, 2.0),
    ("long", "u2", 2.0, 6.0),
    ("short", "u2", 1.0, 1.0),
    ("a|b|größe", "u1", 1.0, 2.0),
    ("half", "u2", 4.0, 4.0),
];

/// Compared facts of a job: its times, where it ran and what it got.
#[derive(Debug, Clone, PartialEq)]
struct Job {
    user: String,
    state: String,
    submit: Option<i64>,
    start: Option<i64>,
    end: Option<i64>,
    run_s: Option<f64>,
    attempts: Option<i64>,
    req_gpus: Option<f64>,
    alloc_gpus: Option<f64>,
    nodes: Option<String>,
}

/// Jobs by name and key.
fn jobs(trace: &Trace) -> BTreeMap<(String, String), Job> {
    let jobs = &trace.jobs;
    let owned = |text: Option<&str>| text.unwrap_or_default().to_owned();
    (0..jobs.submit.len())
        .map(|ix| {
            let job = Job {
                user: owned(jobs.user.get(ix)),
                state: owned(jobs.state.get(ix)),
                submit: jobs.submit.get(ix),
                start: jobs.start.get(ix),
                end: jobs.end.get(ix),
                run_s: jobs.run_s.get(ix),
                attempts: jobs.attempts.get(ix),
                req_gpus: jobs.req_gpus.get(ix),
                alloc_gpus: jobs.alloc_gpus.get(ix),
                nodes: jobs.nodes_hostlist.get(ix).map(str::to_owned),
            };
            ((owned(jobs.name.get(ix)), owned(jobs.job_key.get(ix))), job)
        })
        .collect()
}

/// The most GPUs in use at once on each node, from placements and the times of attempts.
fn most_gpus(trace: &Trace) -> BTreeMap<String, f64> {
    let mut spans: BTreeMap<(String, i64), (i64, i64)> = BTreeMap::new();
    for ix in 0..trace.jobs.submit.len() {
        let key = trace.jobs.job_key.get(ix).unwrap().to_owned();
        if let (Some(start), Some(end)) = (trace.jobs.start.get(ix), trace.jobs.end.get(ix)) {
            spans.insert((key, 1), (start, end));
        }
    }
    for ix in 0..trace.attempts.job_key.len() {
        let key = trace.attempts.job_key.get(ix).unwrap().to_owned();
        let (start, end) = (trace.attempts.start.get(ix).unwrap(), trace.attempts.end.get(ix).unwrap());
        spans.insert((key, trace.attempts.attempt.get(ix).unwrap()), (start, end));
    }
    let mut events: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
    for ix in 0..trace.placements.job_key.len() {
        let key = trace.placements.job_key.get(ix).unwrap().to_owned();
        let (start, end) = spans[&(key, trace.placements.attempt.get(ix).unwrap())];
        let gpus = trace.placements.gpus.get(ix).unwrap();
        let node = events.entry(trace.placements.node.get(ix).unwrap().to_owned()).or_default();
        node.extend([(start, gpus), (end, -gpus)]);
    }
    let peak = |mut events: Vec<(i64, f64)>| {
        // At the same second, what ends makes room for what starts.
        events.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let mut now = 0.0;
        events.iter().fold(0.0, |most: f64, (_, gpus)| {
            now += gpus;
            most.max(now)
        })
    };
    events.into_iter().map(|(node, events)| (node, peak(events))).collect()
}

#[test]
fn what_slurm_ran_is_what_we_read() {
    let Some(lab) = Lab::up(2) else { return };
    let out = tempfile::tempdir().unwrap();

    // Jobs that do not end well: one fails, one is cancelled, one is cancelled before it starts, one is queued again.
    lab.submit("u1", "fails", &["--gres=gpu:1"], "sleep 2; exit 3");
    let cancelled = lab.submit("u2", "cancelled", &["--gres=gpu:1"], "sleep 300");
    let again = lab.submit("u1", "again", &["--gres=gpu:2", "--requeue"], "sleep 4");
    lab.submit("u1", "no gpu", &[], "sleep 2");
    lab.submit("u1", "array", &["--gres=gpu:2", "--array=0-2%2"], "sleep 3");
    lab.wait_for(&cancelled, "RUNNING");
    lab.wait_for(&again, "RUNNING");
    // It asks for every GPU there is, of which the job to be cancelled holds one.
    let blocked = lab.submit("u2", "never ran", &["--nodes=2", "--gres=gpu:8"], "sleep 300");
    std::thread::sleep(Duration::from_secs(2));
    lab.output("scancel", &[&blocked]);
    lab.output("scancel", &[&cancelled]);
    lab.output("scontrol", &["requeue", &again]);
    lab.wait_for(&again, "PENDING");
    lab.output("scontrol", &["update", &format!("JobId={again}"), "StartTime=now"]);

    let csv = out.path().join("jobs.csv");
    let rows = REPLAYED.iter().zip([0, 0, 0, 1, 1, 2, 2, 3, 3, 3]);
    let rows: Vec<String> =
        rows.map(|((name, user, gpus, seconds), at)| format!("{at},{name},{user},{gpus},{seconds},5\n")).collect();
    std::fs::write(&csv, format!("submit_s,name,user,gpus,duration_s,limit_min\n{}", rows.concat())).unwrap();
    lab.run(&["replay", csv.to_str().unwrap()]);
    lab.run(&["wait", "300"]);
    let text = out.path().join("sacct.txt");
    let trace = lab.accounting(&text);
    assert_eq!(trace.ledger.quarantined, 0, "{:?}", trace.ledger);
    assert!(trace.counts_gpus);

    let found = jobs(&trace);
    // 10 replayed, 5 single jobs, 3 tasks of an array.
    assert_eq!(found.len(), 18, "{found:#?}");
    let named =
        |name: &str| -> Vec<&Job> { found.iter().filter(|((have, _), _)| have == name).map(|(_, job)| job).collect() };
    let ran = |job: &Job, state: &str, gpus: f64, seconds: f64| {
        assert_eq!((job.state.as_str(), job.alloc_gpus, job.req_gpus), (state, Some(gpus), Some(gpus)), "{job:?}");
        let run_s = job.run_s.unwrap();
        assert!((run_s - seconds).abs() <= SLACK_S, "asked for {seconds} s: {job:?}");
        assert!(job.submit <= job.start, "{job:?}");
    };
    for (name, user, gpus, seconds) in REPLAYED {
        let [job] = named(name)[..] else { panic!("{name}: {found:#?}") };
        ran(job, "completed", gpus, seconds);
        assert_eq!(job.user, user);
    }
    ran(named("fails")[0], "failed", 1.0, 2.0);
    ran(named("no gpu")[0], "completed", 0.0, 2.0);
    assert_eq!(named("array").len(), 3);
    named("array").into_iter().for_each(|task| ran(task, "completed", 2.0, 3.0));
    let stopped = named("cancelled")[0];
    assert_eq!((stopped.state.as_str(), stopped.attempts, stopped.alloc_gpus), ("cancelled", Some(1), Some(1.0)));
    let never = named("never ran")[0];
    assert_eq!((never.state.as_str(), never.start, never.attempts), ("cancelled", None, Some(0)), "{never:?}");
    let twice = named("again")[0];
    assert_eq!((twice.state.as_str(), twice.attempts), ("completed", Some(2)), "{twice:?}");
    assert_eq!(trace.attempts.job_key.len(), 2);

    let peaks = most_gpus(&trace);
    assert_eq!(peaks.keys().map(String::as_str).collect::<Vec<_>>(), ["n1", "n2"]);
    // The job on both nodes fills each of them.
    assert!(peaks.values().all(|most| *most == 8.0), "{peaks:?}");

    // With steps, in another column order, and as JSON: the same jobs.
    let fields = "jobname%40,state,jobid,cluster,user,partition,submit,start,end,nodelist,reqtres,alloctres,totalcpu";
    let steps = out.path().join("steps.txt");
    let arguments = ["-a", "-p", "-D", "-S", "1970-01-01", "--format", fields];
    std::fs::write(&steps, lab.output("sacct", &arguments)).unwrap();
    assert_eq!(jobs(&read(&[steps]).unwrap()), found);

    let json = lab.command("sacct").args(["-a", "-D", "-S", "1970-01-01", "--json"]).output().unwrap();
    if !json.status.success() {
        println!("no JSON: {}", String::from_utf8_lossy(&json.stderr));
        return;
    }
    let path = out.path().join("sacct.json");
    std::fs::write(&path, json.stdout).unwrap();
    let trace = read(&[path]).unwrap();
    check(&trace);
    assert_eq!(trace.sources[0].reader, "sacct-json");
    assert_eq!(jobs(&trace), found);
}

/// Recorded facts of a job, beside its request; times in whole seconds since the Unix epoch.
struct Ran {
    submit_s: i64,
    start_s: i64,
    end_s: i64,
}

#[test]
fn recorded_backfill() {
    let asked = workload::jobs();
    // Kept, as it takes minutes to make another.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("slurm-recording.txt");
    let record = || Some(recording::record(&Lab::with_scheduler(4, recording::SCHEDULER)?, &asked, &file));
    let Some(trace) = recording::least_disturbed(record) else { return };
    assert_eq!(trace.ledger.quarantined, 0, "{:?}", trace.ledger);

    let found = jobs(&trace);
    let limits: BTreeMap<&str, Option<f64>> = (0..trace.jobs.submit.len())
        .map(|ix| (trace.jobs.name.get(ix).unwrap(), trace.jobs.time_limit_s.get(ix)))
        .collect();
    let expected = asked.len() + recording::WARM_UP.len();
    assert_eq!((found.len(), limits.len()), (expected, expected));
    let named: BTreeMap<&str, &Job> = found.iter().map(|((name, _), job)| (name.as_str(), job)).collect();
    let ran: Vec<Ran> = asked
        .iter()
        .map(|asked| {
            let job = named[asked.name.as_str()];
            let gpus = Some(f64::from(asked.nodes() * asked.gpus_a_node()));
            assert_eq!((job.state.as_str(), job.user.as_str()), ("completed", asked.user.as_str()), "{job:?}");
            assert_eq!((job.req_gpus, job.alloc_gpus, job.attempts), (gpus, gpus, Some(1)), "{job:?}");
            assert_eq!(limits[asked.name.as_str()], Some(f64::from(asked.limit_min * 60)), "{job:?}");
            assert!((job.run_s.unwrap() - f64::from(asked.run_s)).abs() <= SLACK_S, "{asked:?}: {job:?}");
            let seconds = |ms: Option<i64>| ms.unwrap().div_euclid(1000);
            let ran = Ran { submit_s: seconds(job.submit), start_s: seconds(job.start), end_s: seconds(job.end) };
            assert!(ran.submit_s <= ran.start_s && ran.start_s < ran.end_s, "{job:?}");
            ran
        })
        .collect();
    assert!(ran.is_sorted_by_key(|job| job.submit_s), "jobs are submitted in order");

    let peaks = most_gpus(&trace);
    assert_eq!(peaks.keys().map(String::as_str).collect::<Vec<_>>(), ["n1", "n2", "n3", "n4"]);
    assert!(peaks.values().all(|most| *most == 8.0), "{peaks:?}");

    // Jobs wait, and jobs pass others: a recording in which they do not says nothing of the scheduler.
    let mut waits_s: Vec<i64> = ran.iter().map(|job| job.start_s - job.submit_s).collect();
    waits_s.sort_unstable();
    let median_wait_s = waits_s[waits_s.len() / 2];
    let passed = (1..ran.len()).filter(|at| ran[..*at].iter().any(|before| before.start_s > ran[*at].start_s)).count();
    let first_s = ran[0].submit_s;
    assert!(
        recording::WARM_UP.iter().all(|name| named[name].end.unwrap() <= 1000 * first_s),
        "the cluster is empty at first"
    );
    let last_s = ran.iter().map(|job| job.end_s).max().unwrap();
    println!(
        "recorded {} jobs in {} s: median wait {median_wait_s} s, {passed} jobs started before one submitted earlier",
        ran.len(),
        last_s - first_s
    );
    assert!(median_wait_s >= 5 * recording::INTERVAL.as_secs() as i64, "{waits_s:?}");
    assert!(passed >= 20, "{passed} jobs passed others");
    replay::agrees(&trace);
}
