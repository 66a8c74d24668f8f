//! `job_submit.lua` of `tracecast_predictors::slurm` in a real Slurm: whatever the table, jobs are
//! accepted; with a good one, each job gets its comment, site factor and time limit, and the mean
//! wait falls.
//!
//! The workload of the second test: lots of 30 jobs of four users with eight programs, which run 1 to 20 s: half of the jobs run at most 2 s, and
//! two programs hold most of the GPU-seconds. Three lots are run, and a predictor trained on what `sacct` says of them makes the table; a fourth is
//! then run without and with it, submitted at once and in the same order. All jobs have the same time limit, so that backfill learns nothing from it. Takes some five minutes.

use std::path::Path;
use std::time::{Duration, Instant};

use tracecast_analytics::Trace;
use tracecast_predictors::duration::backtest;
use tracecast_predictors::duration::predictor::Predictor;
use tracecast_predictors::slurm;
use tracecast_predictors::slurm::{Entry, ScriptOptions, Tested, TimeLimit, script, write_table};
use tracecast_predictors::timeline::{self, Timeline};

use crate::lab::Lab;

/// Looks at the table at each job.
fn options(table: &Path) -> ScriptOptions {
    ScriptOptions { table_path: table.to_str().unwrap().to_owned(), refresh_s: 0, ..ScriptOptions::default() }
}

fn install(lab: &Lab, folder: &Path, options: &ScriptOptions) {
    let file = folder.join("job_submit.lua");
    std::fs::write(&file, script(options)).unwrap();
    lab.run(&["lua", file.to_str().unwrap()]);
}

/// Submits a short job as its user would, and gives its number.
fn submit(lab: &Lab, user: &str, name: &str, extra: &[&str]) -> String {
    lab.submit_as(user, &[&["-J", name], extra].concat()).0
}

/// A field of `scontrol show job`, `None` where it is not shown or empty.
pub(crate) fn field(lab: &Lab, job: &str, name: &str) -> Option<String> {
    let text = lab.output("scontrol", &["show", "job", job]);
    let start = format!("{name}=");
    let line =
        text.lines().map(str::trim).find(|line| line.starts_with(&start) || line.contains(&format!(" {start}")))?;
    let value = line.get(line.find(&start)? + start.len()..)?;
    // Comments fill their line.
    let value = if name.ends_with("Comment") { value } else { value.split(' ').next()? };
    Some(value.trim_end().to_owned()).filter(|value| !value.is_empty() && value != "(null)")
}

#[test]
fn jobs_are_accepted_whatever_the_table() {
    let Some(lab) = Lab::up(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("table.txt");
    let limit = TimeLimit { least_min: 1, most_min: 1000, ..TimeLimit::default() };
    install(&lab, folder.path(), &ScriptOptions { time_limit: Some(limit), ..options(&table) });
    let pid = lab.controller();

    let entry =
        |user: Option<&str>, stem: Option<&str>, vc: Option<&str>, gpus: Option<u32>, expected_s: f64, p95_s: f64| {
            let owned = |text: Option<&str>| text.map(str::to_owned);
            Entry {
                user: owned(user),
                name_stem: owned(stem),
                vc: owned(vc),
                gpus,
                expected_s,
                p95_s,
                jobs: 40,
                tested: Tested { jobs: 40, killed: 1 },
            }
        };
    let good = write_table(&[
        entry(Some("u1"), Some("train \"größe\" v#"), None, Some(4), 5400.0, 9000.0),
        entry(Some("u1"), None, None, Some(4), 1000.0, 2000.0),
        entry(None, None, Some("gpu"), Some(16), 300.0, 400.0),
        entry(None, None, None, Some(2), 200.0, 250.0),
        entry(None, None, None, None, 60.0, 90.0),
    ]);

    let garbage: Vec<u8> = (0..1_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut large = b"tracecast-durations 2 9 0\n".to_vec();
    large.extend(b"u someone 4\t1000\t2000\t3\t0\t0\n".repeat(100_000_000 / 28));
    let tables = [
        ("missing", None),
        ("garbage", Some(garbage)),
        ("cut short", Some(good[..good.len() - 9].to_vec())),
        ("large", Some(large)),
    ];
    for (what, bytes) in tables {
        if let Some(bytes) = bytes {
            std::fs::write(&table, bytes).unwrap();
        }
        let began = Instant::now();
        for _ in 0..2 {
            let job = submit(&lab, "u1", "train \"größe\" v1", &["--gres=gpu:4", "--comment=mine"]);
            let mut found = ["AdminComment", "Comment", "Priority", "TimeLimit"].map(|name| field(&lab, &job, name));
            // Once it runs, Slurm writes a year for a job without a limit.
            if found[3].as_deref() == Some("365-00:00:00") {
                found[3] = Some("UNLIMITED".to_owned());
            }
            assert_eq!(found, [None, Some("mine".into()), Some("1".into()), Some("UNLIMITED".into())], "{what}");
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
    }
    let log = lab.controller_log();
    for (said, times) in [
        ("no predictions: ", 1),
        ("it is no table", 1),
        ("it is not complete", 1),
        ("it has more than 67108864 bytes", 1),
    ] {
        let found = log.lines().filter(|line| line.contains("tracecast: ") && line.contains(said)).count();
        assert_eq!(found, times, "{said}");
    }

    std::fs::write(&table, &good).unwrap();
    let long = "x".repeat(1000);
    let long_comment = format!("--comment={long}");
    // 9,000 s × 1.5 = 225 min; 2,000 s × 1.5 = 50 min; 400 s × 1.5 = 10 min; 250 s × 1.5 = 6.25 min; 90 s × 1.5 = 2.25 min.
    // In the lab nothing else counts towards the priority, so that it is the site factor, or 1 without:
    // 10,000 × (1 − ln(1 + s) / 18.42068): ln 21,601 = 9.98050, 4,582; ln 4,001 = 8.29430, 5,497; ln 4,801 = 8.47658, 5,398;
    // ln 401 = 5.99396, 6,746; ln 61 = 4.11087, 7,768.
    let jobs: [(&str, &str, &[&str], _, _, _); 7] = [
        ("u1", "Train \"größe\" v12", &["--gres=gpu:4"], "expected 5400 s, 95% under 9000 s", "4582", "03:45:00"),
        ("u1", "Train \"größe\" v7", &["--gpus=4", "-t", "3"], "expected 5400 s, 95% under 9000 s", "4582", "00:03:00"),
        ("u1", "other", &["-n", "2", "--gpus-per-task=2"], "expected 1000 s, 95% under 2000 s", "5497", "00:50:00"),
        ("u2", "train", &["-N", "2", "--gpus-per-node=8"], "expected 300 s, 95% under 400 s", "5398", "00:10:00"),
        ("u2", "train", &["--gpus=2", &long_comment], "expected 200 s, 95% under 250 s", "6746", "00:07:00"),
        ("u3", "no gpu", &["--comment=mine"], "expected 60 s, 95% under 90 s", "7768", "00:03:00"),
        ("u3", "array", &["--array=1-2"], "expected 60 s, 95% under 90 s", "7768", "00:03:00"),
    ];
    let mut last = String::new();
    for (user, name, extra, comment, factor, limit) in jobs {
        let job = submit(&lab, user, name, extra);
        let found = ["AdminComment", "Priority", "TimeLimit"].map(|name| field(&lab, &job, name));
        let expected = [format!("tracecast: {comment}"), factor.to_owned(), limit.to_owned()].map(Some);
        assert_eq!(found, expected, "{user} {name} {extra:?}");
        let given = extra.iter().find_map(|argument| argument.strip_prefix("--comment=")).map(str::to_owned);
        assert_eq!(field(&lab, &job, "Comment"), given, "{user} {name}");
        last = job;
    }
    lab.output("scontrol", &["update", &format!("JobId={last}"), "Comment=changed"]);
    lab.run(&["wait", "120"]);
    std::thread::sleep(Duration::from_secs(2));
    let kept = lab.output("sacct", &["-a", "-X", "-n", "-P", "-S", "1970-01-01", "-o", "AdminComment"]);
    let with = kept.lines().filter(|line| line.starts_with("tracecast: expected ")).count();
    // Seven submissions, one of them an array of two.
    assert_eq!((with, kept.lines().count()), (8, 8 + 8), "{kept}");
    assert_eq!(lab.controller(), pid, "the controller is the one that was started");
}

/// Programs: user, name, GPUs, seconds, and how many jobs of a hundred are runs of it.
const PROGRAMS: [(&str, &str, u32, f64, u64); 8] = [
    ("u1", "debug", 2, 1.0, 22),
    ("u1", "eval_v", 4, 2.0, 18),
    ("u2", "train_v", 4, 20.0, 12),
    ("u2", "test run ", 4, 1.0, 14),
    ("u3", "tune", 8, 12.0, 8),
    ("u3", "infer", 2, 3.0, 10),
    ("u4", "sweep", 1, 6.0, 8),
    ("u4", "check", 8, 2.0, 8),
];
/// Jobs of a lot.
const LOT: u64 = 30;
/// Seeds of the first and the last lot, of which each keeps 16 GPUs busy for some 40 s.
const FIRST: u64 = 3;
const SECOND: u64 = 6;

/// A job of the workload: user, name but for its last number, GPUs and seconds.
type Job = (&'static str, &'static str, u32, f64);

/// A lot of jobs, always the same.
fn lot(which: u64) -> Vec<Job> {
    let mut state = which;
    let mut below = |bound: u64| {
        // A linear congruential generator (Knuth's MMIX), of which the upper half is good enough here.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    (0..LOT)
        .map(|_| {
            let mut rest = below(100);
            let program = PROGRAMS.iter().find(|program| {
                let found = rest < program.4;
                rest = rest.saturating_sub(program.4);
                found
            });
            let (user, name, gpus, seconds, _) = *program.unwrap();
            // A run is within 20 % of what its program usually takes.
            (user, name, gpus, seconds * (0.8 + 0.1 * below(5) as f64))
        })
        .collect()
}

/// Runs `jobs`, each name with a number from `first` on, and gives the mean wait in seconds and what was recorded of all jobs so far.
fn run(lab: &Lab, jobs: &[Job], first: usize, file: &Path) -> (f64, Trace) {
    for (number, (user, name, gpus, seconds)) in jobs.iter().enumerate() {
        let (name, gres) = (format!("{name}{}", first + number), format!("--gres=gpu:{gpus}"));
        lab.submit(user, &name, &[&gres, "-t", "2"], &format!("sleep {seconds:.1}"));
    }
    lab.run(&["wait", "200"]);
    let trace = lab.accounting(file);
    let numbers = first..first + jobs.len();
    let waits: Vec<i64> = (0..trace.jobs.submit.len())
        .filter(|ix| {
            let digits = trace.jobs.name.get(*ix).unwrap().trim_start_matches(|letter: char| !letter.is_ascii_digit());
            numbers.contains(&digits.parse().unwrap())
        })
        .map(|ix| trace.jobs.start.get(ix).unwrap() - trace.jobs.submit.get(ix).unwrap())
        .collect();
    assert_eq!(waits.len(), jobs.len());
    (waits.iter().sum::<i64>() as f64 / 1000.0 / waits.len() as f64, trace)
}

/// The table that the predictor writes, once it is trained on a recording.
fn learned(trace: &Trace) -> Vec<u8> {
    let timeline = Timeline::new(trace, timeline::TimelineOptions::default()).unwrap();
    let predictor = Predictor::train(&timeline, &backtest::BacktestOptions::default()).unwrap();
    write_table(&slurm::entries(&predictor, &timeline).unwrap())
}

#[test]
fn the_mean_wait_falls() {
    let Some(lab) = Lab::up(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (text, table) = (folder.path().join("sacct.txt"), folder.path().join("table.txt"));

    // A model wants more to learn from than one lot.
    run(&lab, &lot(FIRST), 1000, &text);
    run(&lab, &lot(FIRST + 1), 1100, &text);
    let (_, recorded) = run(&lab, &lot(FIRST + 2), 1200, &text);
    std::fs::write(&table, learned(&recorded)).unwrap();
    let (without_s, _) = run(&lab, &lot(SECOND), 2000, &text);
    install(&lab, folder.path(), &options(&table));
    let (with_s, _) = run(&lab, &lot(SECOND), 3000, &text);
    println!("mean wait of {LOT} jobs: {without_s:.1} s without the table, {with_s:.1} s with it");

    let comments = lab.output("sacct", &["-a", "-X", "-n", "-P", "-S", "1970-01-01", "-o", "AdminComment"]);
    let with = comments.lines().filter(|line| line.starts_with("tracecast: expected ")).count();
    assert_eq!(with as u64, LOT, "the jobs of the last run, and no other, were looked up");
    // By far more than two runs of the same would differ by.
    assert!(with_s < 0.8 * without_s, "{with_s} s with the table, {without_s} s without");
}

#[test]
fn the_workload_is_skewed() {
    for which in [FIRST, SECOND] {
        let jobs = lot(which);
        let mut runs_s: Vec<f64> = jobs.iter().map(|job| job.3).collect();
        runs_s.sort_by(f64::total_cmp);
        let (median_s, mean_s) = (runs_s[runs_s.len() / 2], runs_s.iter().sum::<f64>() / runs_s.len() as f64);
        assert!(mean_s > 1.5 * median_s, "{which}: mean {mean_s} s, median {median_s} s");
        let work_gpu_s: f64 = jobs.iter().map(|job| f64::from(job.2) * job.3).sum();
        // 16 GPUs take 25 to 60 s for it.
        assert!((25.0 * 16.0..60.0 * 16.0).contains(&work_gpu_s), "{which}: {work_gpu_s} GPU-seconds");
    }
    // What is asked for in the last lot is in the first.
    let programs = |which| lot(which).iter().map(|job| job.1).collect::<std::collections::BTreeSet<_>>();
    assert!(programs(SECOND).is_subset(&programs(FIRST)), "{:?}", programs(FIRST));
}
