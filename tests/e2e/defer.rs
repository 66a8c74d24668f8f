//! Files of `plan defer` in a real Slurm: installed as their NOTES.txt says, they hold the jobs
//! that are to wait, and `defer_release.sh` starts them in a clean hour.
//!
//! The plan is of three weeks of hourly jobs of one GPU with a limit of 2 h, and of hours of 400 g/kWh with six clean ones of 100 that begin three hours from now, each day. So what is submitted now waits. Takes half a minute.

use std::path::Path;
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

use tracecast_planner::defer::answer::{DeferAim, DeferHours, DeferRequest, plan};
use tracecast_planner::defer::emit;
use tracecast_planner::defer::heldout::DeferTerms;
use tracecast_planner::defer::series::{HourSeries, HourValue};
use tracecast_planner::plan::Emitted;
use tracecast_planner::plan::forecast::runs::RunForecast;

use crate::job_submit::field;
use crate::lab::Lab;

const HOUR_S: i64 = 3_600;
/// Hours of the record.
const RECORD_H: i64 = 21 * 24;
/// Hours until the clean ones begin, and their number.
const CLEAN: (i64, i64) = (3, 6);

fn now_s() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A job an hour up to an hour of the epoch, as `sacct` tells them.
fn jobs(end_h: i64) -> String {
    let head = "JobID|JobName|User|Partition|Submit|Start|End|State|ReqTRES|AllocTRES|Timelimit|NodeList\n";
    let row = |hour: i64| {
        let moment = |hour: i64| tracecast_analytics::time::format_rfc3339(hour * HOUR_S * 1_000).replace('Z', "");
        let gpu = "cpu=1,gres/gpu=1";
        format!("{hour}|j|u1|gpu|{0}|{0}|{1}|COMPLETED|{gpu}|{gpu}|02:00:00|n1\n", moment(hour), moment(hour + 1))
    };
    head.to_owned() + &(end_h - RECORD_H..end_h).map(row).collect::<String>()
}

/// The files for the day that begins with an hour. Where clean hours differ from day to day, no limit finds those of each, and the plan is a table.
fn emitted(folder: &Path, first_h: i64, differ: bool) -> Vec<Emitted> {
    let file = folder.join("sacct.txt");
    std::fs::write(&file, jobs(first_h)).unwrap();
    let trace = tracecast_tests::read(&[file]).unwrap();
    let grams = |hour: i64| {
        let is_clean = (CLEAN.0..CLEAN.0 + CLEAN.1).contains(&(hour - first_h).rem_euclid(24));
        let day = (hour - first_h).div_euclid(24).rem_euclid(7);
        if is_clean { 100 + if differ { 20 * day } else { 0 } } else { 400 }
    };
    let values =
        (first_h - RECORD_H..first_h).map(|hour| Some(grams(hour) * HourValue::Carbon.parts() as i64)).collect();
    let hours = DeferHours {
        aim: DeferAim::Carbon,
        series: HourSeries::from_values(first_h - RECORD_H, values),
        name: "hours".to_owned(),
        currency: None,
        notes: Vec::new(),
    };
    let day_ms = 24 * HOUR_S * 1_000;
    let request = DeferRequest {
        eval_from_ms: None,
        terms: DeferTerms { target_ms: day_ms as f64, most_ms: day_ms, resume_ms: 300_000, most_cost: 0.02 },
        shift_weeks: 0,
        gpu_kw: (1.0, "given".to_owned()),
        energy: None,
        prices: None,
        class_by: None,
        runs: RunForecast::Naive("a replay of one plan".to_owned()),
    };
    let answer = plan(&trace, &hours, "lab".to_owned(), &request).unwrap();
    let mut files = emit::slurm(&answer).unwrap();
    files.push(emit::table(&answer).unwrap());
    files
}

/// Writes the files into a folder that stands for `/etc/slurm`, and installs what NOTES.txt says to add to `job_submit.lua`.
fn install(lab: &Lab, folder: &Path, files: &[Emitted]) {
    let open_until = folder.join("defer_open_until");
    for (name, text) in files {
        let text = text.replace("/var/spool/slurm/defer_open_until", open_until.to_str().unwrap());
        std::fs::write(folder.join(name), text.replace("/etc/slurm", folder.to_str().unwrap())).unwrap();
    }
    let notes = std::fs::read_to_string(folder.join("NOTES.txt")).unwrap();
    let to_add: Vec<&str> = notes
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("pcall(dofile") || line.starts_with("if is_read and "))
        .collect();
    assert_eq!(to_add.len(), 2, "{notes}");
    let script = format!(
        "function slurm_job_submit(job_desc, parts, uid)\n  {}\n  return slurm.SUCCESS\nend\nfunction slurm_job_modify(job_desc, job, parts, uid)\n  return slurm.SUCCESS\nend\nreturn slurm.SUCCESS\n",
        to_add.join("\n  ")
    );
    let file = folder.join("job_submit.lua");
    std::fs::write(&file, script).unwrap();
    lab.run(&["lua", file.to_str().unwrap()]);
}

/// Start that the table allows a job of one GPU and a limit of 2 h that is submitted in an hour,
/// seconds: in a clean hour, but not always the first, as forecasts keep working days and weekends
/// apart.
fn planned_s(folder: &Path, first_h: i64) -> i64 {
    let table = std::fs::read_to_string(folder.join("defer.csv")).unwrap();
    let submitted = tracecast_analytics::time::format_rfc3339(first_h * HOUR_S * 1_000);
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let head = fields(table.lines().next().unwrap());
    let at = |name: &str| head.iter().position(|of| of == name).unwrap();
    let row = table
        .lines()
        .map(fields)
        .find(|row| row[at("submitted_utc")] == submitted && row[at("gpus")] == "1")
        .unwrap_or_else(|| panic!("no row for {submitted}: {table}"));
    let begins_s = |hour: i64| (first_h + CLEAN.0 + hour) * HOUR_S;
    let is = |second: i64| tracecast_analytics::time::format_rfc3339(second * 1_000) == row[at("start_utc")];
    (begins_s(0)..begins_s(CLEAN.1))
        .find(|&second| is(second))
        .unwrap_or_else(|| panic!("not in a clean hour: {row:?}"))
}

/// A moment as `scontrol` shows it in UTC.
fn shown(at_s: i64) -> String {
    tracecast_analytics::time::format_rfc3339(at_s * 1_000).replace('Z', "")
}

/// Whatever the hour and the day of the week in which the tests run.
#[test]
fn there_is_a_table_and_a_limit_for_each_hour_of_a_week() {
    let monday_h = 20_604 * 24 + 4 * 24;
    for first_h in (monday_h..monday_h + 7 * 24).step_by(5) {
        let folder = tempfile::tempdir().unwrap();
        for (differ, limited) in [(true, false), (false, true)] {
            let files = emitted(folder.path(), first_h, differ);
            assert_eq!(files.iter().any(|(name, _)| name == "defer_release.sh"), limited, "{first_h}, {differ}");
            for (name, text) in files {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            if !limited {
                planned_s(folder.path(), first_h);
            }
        }
    }
}

#[test]
fn jobs_are_held_and_started_in_a_clean_hour() {
    let Some(lab) = Lab::up(1) else { return };
    // The hour must not end under the test.
    while now_s() % HOUR_S > HOUR_S - 240 {
        std::thread::sleep(std::time::Duration::from_secs(5));
    }
    let first_h = now_s() / HOUR_S;
    let folder = tempfile::tempdir().unwrap();
    // The controller and the users read from it.
    std::process::Command::new("chmod").arg("755").arg(folder.path()).status().unwrap();

    let of_two_hours = ["--gres=gpu:1", "-t", "120"];
    let is_held = |job: &str| field(&lab, job, "AdminComment").as_deref() == Some("tracecast-defer");

    // A table: what is submitted now begins in a clean hour.
    install(&lab, folder.path(), &emitted(folder.path(), first_h, true));
    let (job, said) = lab.submit_as("u1", &of_two_hours);
    let told = |job: &str| format!("{}\n{}", lab.output("scontrol", &["show", "job", job]), lab.controller_log());
    assert!(is_held(&job) && said.contains("held for a better hour"), "{said}\n{}", told(&job));
    assert_eq!(field(&lab, &job, "EligibleTime"), Some(shown(planned_s(folder.path(), first_h))));
    lab.output("scancel", &[&job]);

    // A limit: it may wait for a day, until the script is told of a clean hour.
    install(&lab, folder.path(), &emitted(folder.path(), first_h, false));
    let before = now_s();
    let (held, said) = lab.submit_as("u1", &of_two_hours);
    assert!(is_held(&held) && said.contains("held for a better hour"), "{said}");
    let eligible = field(&lab, &held, "EligibleTime").unwrap();
    assert!((before..=now_s() + 1).any(|at| shown(at + 24 * HOUR_S) == eligible), "{eligible}");
    // Who says so, has no limit, asks for no GPU, or names a begin time starts at once, or then.
    let free: [&[&str]; 3] = [&["--gres=gpu:1", "-t", "120", "--comment=start-now"], &["--gres=gpu:1"], &["-t", "120"]];
    for extra in free {
        let (job, _) = lab.submit_as("u1", extra);
        assert!(!is_held(&job), "{extra:?}");
        lab.wait_for_start(&job);
    }
    let (later, _) = lab.submit_as("u1", &["--gres=gpu:1", "-t", "120", "--begin=now+2hours"]);
    assert!(!is_held(&later));

    let release = |value: &str| {
        let script = folder.path().join("defer_release.sh");
        let Output { status, stderr, .. } = lab.command("sh").args([script.to_str().unwrap(), value]).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    };
    release("400");
    assert_eq!(field(&lab, &held, "JobState").as_deref(), Some("PENDING"));
    release("100");
    lab.wait_for_start(&held);
    assert_eq!(field(&lab, &later, "JobState").as_deref(), Some("PENDING"), "a begin time of its own is kept");
    // For the rest of the clean hour nobody is held.
    let (job, _) = lab.submit_as("u1", &of_two_hours);
    assert!(!is_held(&job));
    lab.wait_for_start(&job);
    lab.output("scancel", &[&later]);
}
