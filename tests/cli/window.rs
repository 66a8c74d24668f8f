//! Times as arguments: a date is the same stretch for every command, in the trace's zone, and an
//! impossible one is reported as it was typed.

use super::*;

/// A job a minute past each full hour of 1 to 20 April 2020, local time of Shanghai (16:00 UTC of the day before is midnight
/// there), which runs ten minutes.
pub(super) fn hourly() -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    for at in 0..20 * 24 {
        let (day, hour) = (1 + at / 24, at % 24);
        let time = |minute: u32| format!("2020-04-{day:02} {hour:02}:{minute:02}:00");
        text += &format!("{at},ann,va,1,4,1,COMPLETED,{},{},{},600,0\n", time(1), time(1), time(11));
    }
    text
}

const CLUSTER: &str = "[[vc]]\nname = \"va\"\nnodes = 2\ngpus_per_node = 8\n";
/// Midnight of 10 April 2020 in Shanghai, and 24 hours.
const MIDNIGHT_MS: i64 = 1_586_448_000_000;
const DAY_MS: i64 = 86_400_000;

#[test]
fn a_date_is_the_same_day_for_every_command() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &hourly());
    let cluster = folder.file("cluster.toml", CLUSTER);
    let ask = |arguments: &[&str]| {
        let output = tracecast(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        json(&stdout(&output))
    };
    let simulate = |from: &str, to: &str| {
        let mut answer =
            ask(&["simulate", &source, "--site", &cluster, "--from", from, "--to", to, "--format", "json"]);
        // The time that it took is never the same.
        answer["engine_seconds"] = 0.into();
        answer
    };
    let day = simulate("2020-04-10", "2020-04-10");
    let subject = &day["subject"];
    // The first is submitted a minute after midnight, the last a minute after eleven in the evening.
    assert_eq!((&subject["jobs"], &subject["zone"]), (&24.into(), &"Asia/Shanghai".into()));
    assert_eq!(subject["from_ms"], MIDNIGHT_MS + 60_000);
    assert_eq!(subject["to_ms"], MIDNIGHT_MS + DAY_MS - 59 * 60_000);
    // The same day with its zone spelled out, as clocks there show it, and in seconds since the epoch.
    for (from, to) in [
        ("2020-04-10T00:00:00+08:00", "2020-04-11T00:00:00+08:00"),
        ("2020-04-10T00:00", "2020-04-11T00:00"),
        ("1586448000", "1586534400"),
    ] {
        assert_eq!(simulate(from, to), day, "{from} to {to}");
    }
    let text = tracecast(&["simulate", &source, "--site", &cluster, "--from", "2020-04-10", "--to", "2020-04-10"]);
    let said = "submitted 2020-04-10 00:01:00 to 2020-04-10 23:01:00 (Asia/Shanghai)";
    let words = stdout(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(said), "{words}");

    let slots = ["--slot", "30min", "--horizon", "2", "--trees", "10"];
    let days = ["--eval-from", "2020-04-18", "--eval-to", "2020-04-19", "--format", "json"];
    let demand = ask(&[&["model", "backtest", "demand", &source], &slots[..], &days].concat());
    let reported = &demand["series"][0]["reported"];
    assert_eq!(reported["from_ms"], MIDNIGHT_MS + 8 * DAY_MS, "{reported}");
    assert_eq!(reported["to_ms"], MIDNIGHT_MS + 10 * DAY_MS, "{reported}");
    let plan = ask(&[&["plan", "power", &source, "--slot", "30min"], &days[..]].concat());
    // Two days of 48 slots.
    assert_eq!(plan["trial"]["pool"]["slots"], 96);

    // Descriptions and folders hold the jobs that were submitted then, and their rates are over these 24 hours.
    let chosen = ["--from", "2020-04-10", "--to", "2020-04-10"];
    let described = ask(&[&["describe", &source, "--json"], &chosen[..]].concat());
    assert_eq!((&described["summary"]["jobs"], &described["summary"]["from_ms"]), (&24.into(), &MIDNIGHT_MS.into()));
    assert_eq!(described["summary"]["to_ms"], MIDNIGHT_MS + DAY_MS);
    assert!(described["missing"].to_string().contains("only those with `--from 2020-04-10 --to 2020-04-10`"));
    let trace = folder.path("day");
    let ingested = tracecast(&[&["ingest", &source, "--out", &trace], &chosen[..]].concat());
    assert!(ingested.status.success(), "{}", stderr(&ingested));
    let mut again = ask(&["describe", &trace, "--json"]);
    for key in ["sources", "quality", "notes"] {
        again[key] = described[key].clone();
    }
    assert_eq!(again, described);
    let report = folder.path("report");
    let output = tracecast(&[&["report", &source, "--out", &report], &chosen[..]].concat());
    assert!(output.status.success() && stderr(&output).contains("24 of 480 jobs"), "{}", stderr(&output));
    // Questions see the same jobs, and what is derived of them.
    let question = ["--json", "select count(*) as jobs, count(distinct submit_date) as days from job_facts"];
    let asked = ask(&[&["query", &source], &chosen[..], &question].concat());
    assert_eq!((&asked[0]["jobs"], &asked[0]["days"]), (&24.into(), &1.into()), "{asked}");
    let output = tracecast(&["describe", &source, "--from", "2021-04-10"]);
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("no job was submitted then"),
        "{}",
        stderr(&output)
    );
    // From when to when there are jobs is said, in the trace's zone.
    let there = "jobs were submitted from 2020-04-01 00:01:00 to 2020-04-20 23:01:00 (Asia/Shanghai)";
    assert!(stderr(&output).contains(there), "{}", stderr(&output));
    // With a condition, what is selected is said once, and with both.
    let both = ["--from", "2020-04-10", "--where", "submit_hour < 12"];
    let output = tracecast(&[&["describe", &source, "--json"], &both[..]].concat());
    assert_eq!(stderr(&output).matches("are looked at").count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains("(--from 2020-04-10) and (submit_hour < 12)"), "{}", stderr(&output));
}

#[test]
fn training_up_to_a_date_takes_that_day_in() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &hourly());
    let model = folder.path("model");
    let train = |to: &str| {
        let output = tracecast(&[
            "model", "train", "duration", &source, "--to", to, "--trees", "10", "--force", "--out", &model,
        ]);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    // Ten whole days, or nine.
    assert!(train("2020-04-10").contains("learned from 240 ended jobs"), "{}", train("2020-04-10"));
    assert!(train("2020-04-10T00:00").contains("learned from 216 ended jobs"));
}

#[test]
fn a_back_test_looks_at_the_jobs_submitted_in_the_window() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &hourly());
    let backtest = ["model", "backtest", "duration", &source, "--methods", "running_mean", "--json"];
    let output = tracecast(&[&backtest[..], &["--from", "2020-04-03", "--to", "2020-04-12"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let part = |name: &str, field: &str| found[name][field].as_i64().unwrap();
    let jobs: i64 = ["taught", "chosen_on", "reported"].into_iter().map(|name| part(name, "jobs")).sum();
    // Ten days of 24, the first and the last of which begin a minute after their hour.
    assert_eq!((jobs, part("taught", "from_ms")), (240, MIDNIGHT_MS - 7 * DAY_MS + 60_000), "{found}");
    assert_eq!(part("reported", "to_ms"), MIDNIGHT_MS + 3 * DAY_MS - 59 * 60_000);
    let notes = found["notes"].to_string();
    assert!(notes.contains("--from 2020-04-03") && notes.contains("after --to 2020-04-12"), "{notes}");
}

#[test]
fn predictions_are_of_the_jobs_submitted_in_the_window() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &hourly());
    let model = folder.path("model");
    let train = ["model", "train", "duration", &source, "--to", "2020-04-10", "--trees", "10", "--out", &model];
    assert!(tracecast(&train).status.success());
    let rows = |window: &[&str]| {
        let output = tracecast(&[&["model", "predict", "duration", &source, "--model", &model], window].concat());
        assert!(output.status.success(), "{window:?}: {}", stderr(&output));
        stdout(&output).lines().count() - 1
    };
    // Ten days of 24 jobs come after those learned from; of these two days.
    assert_eq!(rows(&[]), 240);
    assert_eq!(rows(&["--from", "2020-04-12", "--to", "2020-04-13"]), 48);
}

#[test]
fn an_empty_or_inverted_window_is_told_as_it_was_typed_before_anything_is_read() {
    let folder = Folder::new();
    let cluster = folder.file("cluster.toml", CLUSTER);
    // There is no such file, and nobody looks.
    let source = folder.path("cluster_log.csv");
    let model = folder.path("model");
    let commands: [&[&str]; 8] = [
        &["query", &source, "--from", "2020-04-11", "--to", "2020-04-10", "select 1 from jobs"],
        &["model", "predict", "duration", &source, "--model", &model, "--from", "2020-04-11", "--to", "2020-04-10"],
        &["describe", &source, "--from", "2020-04-11", "--to", "2020-04-10"],
        &["simulate", &source, "--from", "2020-04-11", "--to", "2020-04-10"],
        &["audit", &source, "--from", "2020-04-11", "--to", "2020-04-10"],
        &[
            "model",
            "backtest",
            "duration",
            &source,
            "--site",
            &cluster,
            "--eval-from",
            "2020-04-11",
            "--eval-to",
            "2020-04-10",
        ],
        &["model", "backtest", "demand", &source, "--eval-from", "2020-04-11", "--eval-to", "2020-04-10"],
        &["plan", "power", &source, "--eval-from", "2020-04-11", "--eval-to", "2020-04-10"],
    ];
    for command in commands {
        let output = tracecast(command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
        assert!(said.contains("from 2020-04-11 --") && said.contains("to 2020-04-10: the time between"), "{said}");
        assert!(said.contains("a bare date is that whole day"), "{said}");
    }
    // Noon in Shanghai is 4:00 UTC, which only the trace tells.
    let source = folder.file("cluster_log.csv", &hourly());
    let output = tracecast(&["simulate", &source, "--from", "2020-04-10T12:00", "--to", "2020-04-10T04:00:00Z"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--from 2020-04-10T12:00 --to 2020-04-10T04:00:00Z"), "{}", stderr(&output));
    for text in ["soon", "2020-04-31", "2020-04-10T25:00"] {
        let output = tracecast(&["model", "train", "duration", &source, "--to", text, "--out", &folder.path("model")]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(text) && stderr(&output).contains("is no moment"), "{}", stderr(&output));
    }
}

#[test]
fn charts_and_headings_name_their_zone() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &hourly());
    let charts = folder.path("charts");
    let output = tracecast(&["describe", &source, "--charts", &charts]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("(Asia/Shanghai)"), "{}", stdout(&output));
    let drawn = std::fs::read_to_string(Path::new(&charts).join("gpus-in-use.svg")).unwrap();
    assert!(drawn.contains("Time (Asia/Shanghai)"), "{drawn}");
    let elsewhere = tracecast(&["describe", &source, "--timezone", "Europe/Berlin", "--charts", &charts, "--force"]);
    assert!(stdout(&elsewhere).contains("(Europe/Berlin)"), "{}", stdout(&elsewhere));
}

/// `--known-vc-only`, `--vcs` and `--max-run` are conditions that have names: each answers as the same jobs cut by hand do.
#[test]
fn named_conditions_select_what_they_stand_for() {
    let folder = Folder::new();
    let all = hourly();
    let header = all.lines().next().unwrap();
    // Every fifth job has no VC, every third is of another, and every seventh runs 40 minutes.
    let rows: Vec<String> = (all.lines().skip(1).enumerate())
        .map(|(ix, row)| {
            let vc = if ix % 5 == 0 { ",," } else { [",vb,", ",va,", ",va,"][ix % 3] };
            let long = if ix % 7 == 0 { (":11:00,600", ":41:00,2400") } else { ("", "") };
            row.replacen(",va,", vc, 1).replacen(long.0, long.1, 1)
        })
        .collect();
    let cut = |name: &str, kept: &dyn Fn(&str) -> bool| {
        let rows: Vec<&str> = rows.iter().map(String::as_str).filter(|row| kept(row)).collect();
        folder.file(name, &format!("{header}\n{}\n", rows.join("\n")))
    };
    let whole = cut("whole.csv", &|_| true);
    let known = cut("known.csv", &|row| !row.contains("ann,,"));
    let backtest = |source: &str, more: &[&str]| {
        let arguments = ["model", "backtest", "duration", source, "--methods", "running_mean", "--json"];
        let output = tracecast(&[&arguments, more].concat());
        assert!(output.status.success(), "{more:?}: {}", stderr(&output));
        json(&stdout(&output))["models"].clone()
    };
    let by_hand = backtest(&known, &[]);
    assert_ne!(by_hand, backtest(&whole, &[]), "the condition changes something");
    assert_eq!(by_hand, backtest(&whole, &["--known-vc-only"]));
    assert_eq!(by_hand, backtest(&whole, &["--where", "vc is not null"]));

    let short = cut("short.csv", &|row| row.contains(",va,") && row.contains(",600,"));
    let cluster = folder.file("cluster.toml", CLUSTER);
    let waits = |source: &str, more: &[&str]| {
        simulate::data(&[&[source, "--site", &cluster][..], more].concat())["metrics"]["overall"].clone()
    };
    assert_eq!(waits(&short, &[]), waits(&whole, &["--vcs", "va", "--max-run", "10m"]));
}
