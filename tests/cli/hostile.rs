//! Input that is hostile or damaged, and folders that are not ours: commands keep their memory, their time and their hands off.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use super::{Folder, root, stderr, stdout};

/// Runs `tracecast` with at most five minutes of CPU time and 3 GiB of memory to its name, which is what it may map; a slot for each ten minutes of a century and each VC
/// takes more.
fn bounded(arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", "ulimit -v 3145728 -t 300; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_tracecast"), "--threads", "2"])
        .args(arguments)
        .current_dir(root())
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// 2,000 jobs, one in each of the first sixteen hours of a day from 2020-01-01 on, in four VCs, each of an hour on one GPU, and one whose times are these.
fn jobs_and(submit: &str, start: &str, end: &str, duration: &str) -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    let at = |hour: usize| {
        // Days from January to May of 2020: 125 of them have jobs.
        let (mut day, months) = (hour / 24, [31, 29, 31, 30, 31]);
        let mut month = 0;
        while day >= months[month] {
            day -= months[month];
            month += 1;
        }
        format!("2020-{:02}-{:02} {:02}:00:00", month + 1, day + 1, hour % 24)
    };
    for job in 0..2_000 {
        let hour = job / 16 * 24 + job % 16;
        let (from, to) = (at(hour), at(hour + 1));
        let (user, vc) = (job % 7, job % 4);
        text.push_str(&format!("{job},u{user},vc{vc},1,4,1,COMPLETED,{from},{from},{to},3600,0\n"));
    }
    text.push_str(&format!("stray,u1,vc1,1,4,1,COMPLETED,{submit},{start},{end},{duration},0\n"));
    text
}

#[test]
fn one_stray_date_costs_no_memory_and_is_named() {
    let strays = [
        ("2099-01-01 00:00:00", "2099-01-01 00:00:00", "2099-01-01 01:00:00", "3600"),
        ("1900-01-01 00:00:00", "1900-01-01 00:00:00", "1900-01-01 01:00:00", "3600"),
        // 39 million minutes.
        ("2020-02-01 00:00:00", "2020-02-01 00:00:00", "2094-03-27 00:00:00", "2340000000"),
        ("2020-02-01 00:00:00", "2020-02-01 00:00:00", "", "2340000000"),
    ];
    for (at, (submit, start, end, duration)) in strays.into_iter().enumerate() {
        let folder = Folder::new();
        let source = folder.file("jobs.csv", &jobs_and(submit, start, end, duration));
        let described = bounded(&["describe", &source, "--format", "json"]);
        assert!(described.status.success(), "{at}: {}", stderr(&described));
        let text = stdout(&described);
        assert!(
            text.contains("time_far_from_all_others") && text.contains("job stray: "),
            "{at}: {}",
            stderr(&described)
        );
        let report = bounded(&["report", &source, "--out", &folder.path("report")]);
        assert!(report.status.success(), "{at}: {}", stderr(&report));
        if at == 0 {
            let plan = bounded(&["plan", "power", &source, "--gpus-per-node", "1", "--format", "json"]);
            assert!(plan.status.success(), "{}", stderr(&plan));
        }
        if at < 2 {
            let audit = bounded(&["audit", &source]);
            // Nothing was measured of these jobs; what matters is that it says so soon and in words.
            assert!(audit.status.code() == Some(1) && !stderr(&audit).contains("memory"), "{at}: {}", stderr(&audit));
            let model = folder.path("model");
            let train = bounded(&["model", "train", "duration", &source, "--out", &model]);
            assert!(train.status.success(), "{at}: {}", stderr(&train));
            let backtest = bounded(&["model", "backtest", "duration", &source, "--methods", "running_mean"]);
            assert!(backtest.status.success(), "{at}: {}", stderr(&backtest));
        }
    }
}

/// 3,000 jobs of an hour each as `sacct` prints them, at these hours after 2004-01-01, on the 40 nodes of a cluster; and one that runs for ten years.
fn jobs_at(hour: impl Fn(i64) -> i64) -> String {
    use tracecast_analytics::time::{HOUR_MS, format_utc, parse_with_offset};

    let begin = parse_with_offset("2004-01-01T00:00:00Z").unwrap();
    let moment = |hours: i64| format_utc(begin + hours * HOUR_MS).replace(' ', "T").replace(" UTC", "");
    let mut text = "JobID|User|Partition|State|Submit|Start|End|AllocTRES|NodeList\n".to_owned();
    for job in 0..3_000 {
        let (from, hours) = if job == 1_500 { (hour(0), 87_600) } else { (hour(job), 1) };
        text += &format!(
            "{job}|u{}|p{}|COMPLETED|{at}|{at}|{}|cpu=4,gres/gpu:v100=2,gres/gpu=2,node=1|n{:02}\n",
            job % 7,
            job % 4,
            moment(from + hours),
            job % 40,
            at = moment(from)
        );
    }
    text
}

/// Found in review: 3,000 jobs over twenty years, or one run of ten, took gigabytes and minutes. Work follows the rows and what is asked.
#[test]
fn jobs_over_decades_take_no_more_than_their_rows() {
    let folder = Folder::new();
    let factors = folder.file("power.toml", "[meter.power.\"*\"]\nidle_w = 60\ntdp_w = 400\n");
    type Hour = fn(i64) -> i64;
    let drawn: [(&str, Hour); 2] = [
        ("spread", |job| job * (20 * 8_766) / 3_000),
        ("apart", |job| if job % 2 == 0 { job % 300 } else { 20 * 8_766 - 500 + job % 300 }),
    ];
    for (name, hour) in drawn {
        let source = folder.file(&format!("{name}.txt"), &jobs_at(hour));
        let out = folder.path(name);
        for command in [
            vec!["audit", &source, "--factors", &factors, "--format", "json"],
            vec!["report", &source, "--out", &out],
            vec!["plan", "power", &source, "--format", "json"],
        ] {
            let found = bounded(&command);
            assert!(found.status.success(), "{name}, {command:?}: {}", stderr(&found));
            if command[0] == "plan" {
                let answer = super::json(&stdout(&found));
                let slots = answer["trial"]["pool"]["slots"].as_u64().unwrap();
                assert!(slots < 20_000, "{name}: {slots} slots of ten minutes are tested");
                assert!(stdout(&found).contains("Demand is gathered from"), "{name}");
            }
        }
    }
}

#[test]
fn folders_of_others_are_not_replaced_by_force() {
    let folder = Folder::new();
    let source = folder.file("jobs.csv", super::JOBS);
    let extension = folder.path("extension");
    std::fs::create_dir(&extension).unwrap();
    std::fs::write(format!("{extension}/manifest.json"), r#"{"manifest_version": 3, "name": "x"}"#).unwrap();
    std::fs::write(format!("{extension}/background.js"), "run()").unwrap();
    let spec = root().join("datasets/specs");
    let spec = std::fs::read_dir(spec)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|kind| kind == "toml"))
        .unwrap();
    for arguments in [
        vec!["ingest", &source, "--out", &extension, "--force"],
        vec!["ingest", &source, "--out", &extension],
        vec!["synth", spec.to_str().unwrap(), "--out", &extension, "--force"],
    ] {
        let refused = bounded(&arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains("no trace folder that tracecast wrote"), "{}", stderr(&refused));
        assert_eq!(std::fs::read_to_string(format!("{extension}/background.js")).unwrap(), "run()");
        assert_eq!(folder.names(), ["extension", "jobs.csv"]);
    }
}

#[test]
fn the_sites_slurm_conf_is_not_written_over() {
    let folder = Folder::new();
    let live = folder.path("live");
    std::fs::create_dir(&live).unwrap();
    let conf = format!("{live}/slurm.conf");
    std::fs::write(&conf, "ClusterName=x\n").unwrap();
    let linked = folder.path("linked");
    std::os::unix::fs::symlink(&live, &linked).unwrap();
    for to in [&live, &linked] {
        let refused = bounded(&[
            "plan",
            "power",
            "missing.csv",
            "--emit",
            "slurm",
            "--emit-to",
            to,
            "--against",
            &conf,
            "--force",
        ]);
        assert!(!refused.status.success());
        assert!(
            stderr(&refused).contains("slurm.conf of --against lies there and could be written over"),
            "{}",
            stderr(&refused)
        );
    }
    assert_eq!(std::fs::read_to_string(&conf).unwrap(), "ClusterName=x\n");
}

#[test]
fn files_that_never_end_are_refused_with_the_bound() {
    let folder = Folder::new();
    let source = folder.file("jobs.csv", super::JOBS);
    let token = folder.file("token", "0123456789abcdef");
    for (arguments, bound) in [
        (vec!["audit", &source, "--factors", "/dev/zero"], "16 MiB"),
        (vec!["model", "predict", "duration", &source, "--model", "/dev/zero"], "1 MiB"),
        (vec!["serve", "--model", "/dev/zero", "--token-file", &token], "1 MiB"),
        (vec!["synth", "/dev/zero", "--out", "never"], "16 MiB"),
    ] {
        let refused = bounded(&arguments);
        assert!(!refused.status.success());
        assert!(stderr(&refused).contains(bound), "{arguments:?}: {}", stderr(&refused));
    }
}

#[test]
fn completions_for_a_reader_that_has_gone_are_no_failure() {
    let shell = "\"$0\" completions bash | true; exit ${PIPESTATUS[0]}";
    for _ in 0..5 {
        let run = Command::new("bash").args(["-c", shell, env!("CARGO_BIN_EXE_tracecast")]).output().unwrap();
        assert!(run.status.success(), "{}", stderr(&run));
        assert_eq!(stderr(&run), "");
    }
}

#[test]
fn a_signal_stops_a_command_and_leaves_nothing() {
    let folder = Folder::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["inspect", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir(root())
        .spawn()
        .unwrap();
    // It waits for more of its source.
    let mut source = child.stdin.take().unwrap();
    source.write_all(super::JOBS.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    // 128 + 15, as a shell tells it.
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(folder.names(), [""; 0]);
}
