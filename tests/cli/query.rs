//! `tracecast query` and `--where`: numbers worked out by hand, the questions of the guide, forms, and what is refused.

use std::process::{Command, Output};

use super::*;

/// Rows of an answer in JSON.
fn rows(arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = tracecast(&[&["query"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    json(&stdout(&output)).as_array().unwrap().clone()
}

#[test]
fn numbers_worked_out_by_hand() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    // 1 GPU for an hour, 8 GPUs for two, none for a minute.
    let found =
        rows(&[&source, "select vc, sum(gpu_hours) as h, count(*) as n, sum(wait_s) as w from job_facts group by vc"]);
    assert_eq!(
        found,
        [
            serde_json::json!({"vc": "va", "h": 17.0, "n": 2, "w": 10.0}),
            serde_json::json!({"vc": "vb", "h": 0.0, "n": 1, "w": 0.0})
        ]
    );
    // Helios writes the time of Beijing; the first was submitted on a Wednesday.
    let found = rows(&[
        &source,
        "select submit, submit_date, submit_weekday, submit_hour, size_class, jct_s from job_facts limit 1",
    ]);
    assert_eq!(
        found,
        [serde_json::json!({
            "submit": "2020-04-01T00:00:00+08:00", "submit_date": "2020-04-01", "submit_weekday": 3, "submit_hour": 0, "size_class": "1", "jct_s": 3610.0
        })]
    );
    let found =
        rows(&[&source, "select job_key from job_facts where submit >= '2020-04-01 00:10:00' and state = 'failed'"]);
    assert_eq!(found, [serde_json::json!({"job_key": "2"})]);
}

#[test]
fn a_source_and_its_trace_folder_give_the_same_answers() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let trace = folder.path("trace");
    assert!(tracecast(&["ingest", &source, "--out", &trace]).status.success());
    for sql in [
        "select * from job_facts",
        "select * from jobs order by job_key desc",
        "select job_key, submit, submit >= '2020-04-01 00:10:00' as late from jobs",
        "select count(*) as n from nodes",
    ] {
        assert_eq!(rows(&[&source, sql]), rows(&[&trace, sql]), "{sql}");
    }
}

/// The questions of the guide, each with the files it needs beside it.
fn questions() -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("cli/guide/query.md")).unwrap();
    guide.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).map(str::to_owned).collect()
}

fn asked(sql: &str, rates: &str, threads: &str) -> Output {
    let with = format!("rates={rates}");
    Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["query", "datasets/sample", sql, "--with", &with, "--format", "csv", "--threads", threads])
        .current_dir(root())
        .output()
        .unwrap()
}

#[test]
fn every_question_of_the_guide_has_an_answer_that_no_thread_changes() {
    let guide = std::fs::read_to_string(root().join("cli/guide/query.md")).unwrap();
    let folder = Folder::new();
    let rates = folder.file("rates.csv", guide.split("```csv\n").nth(1).unwrap().split("```").next().unwrap());
    let questions = questions();
    assert!(questions.len() >= 9, "{} questions", questions.len());
    for sql in questions {
        let one = asked(&sql, &rates, "1");
        assert!(one.status.success(), "{sql}{}", stderr(&one));
        assert!(stdout(&one).lines().count() > 1, "no rows: {sql}");
        assert_eq!(stdout(&one), stdout(&asked(&sql, &rates, "2")), "{sql}");
    }
}

#[test]
fn every_form_holds_the_rows() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let sql = "select job_key, \"user\", gpus, start, run_s > 100 as \"long, or not\" from job_facts order by job_key";
    let text = |form: &str| stdout(&tracecast(&["query", &source, sql, "--format", form]));
    let csv = text("csv");
    assert_eq!(
        csv,
        "job_key,user,gpus,start,\"long, or not\"\n\
         1,ua,1.0,2020-04-01T00:00:10+08:00,true\n\
         2,ub,8.0,2020-04-01T00:10:00+08:00,true\n\
         3,ua,0.0,2020-04-01T00:20:00+08:00,false\n"
    );
    let lines: Vec<serde_json::Value> = text("jsonl").lines().map(json).collect();
    assert_eq!(lines, *json(&text("json")).as_array().unwrap());
    assert_eq!(lines.len(), 3);
    for (form, magic) in [("parquet", &b"PAR1"[..]), ("arrow", b"ARROW1")] {
        let path = folder.path(&format!("mine.{form}"));
        // The name says the form.
        assert!(tracecast(&["query", &source, sql, "-o", &path]).status.success());
        assert!(std::fs::read(&path).unwrap().starts_with(magic), "{form}");
    }
    // What was written can be asked about.
    let with = format!("mine={}", folder.path("mine.parquet"));
    let joined = "select m.gpus from mine as m join job_facts as f on m.job_key = f.job_key order by m.gpus";
    assert_eq!(rows(&[&source, joined, "--with", &with]).len(), 3);
    let with = format!("mine={}", folder.path("mine.arrow"));
    assert!(stderr(&tracecast(&["query", &source, joined, "--with", &with])).contains("Arrow file"));
}

/// Regression test: without AS a quantile by group was an error, and an average of hours was named
/// like the column of seconds.
#[test]
fn columns_without_a_name_are_called_by_their_text() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let csv = |sql: &str| {
        let output = tracecast(&["query", &source, sql, "--format", "csv"]);
        assert!(output.status.success(), "{sql}: {}", stderr(&output));
        stdout(&output)
    };
    let medians = "select vc, median(wait_s), quantile_disc(run_s, 0.5), avg(run_s)/3600 from job_facts group by vc";
    assert_eq!(
        csv(medians),
        "vc,median(wait_s),\"quantile_disc(run_s, 0.5)\",avg(run_s) / 3600\nva,5.0,3600.0,1.5\nvb,0.0,60.0,0.01666666667\n"
    );
    assert_eq!(csv("select vc, median(wait_s) from job_facts group by vc"), "vc,median(wait_s)\nva,5.0\nvb,0.0\n");
    assert_eq!(csv("select avg(wait_s), max(wait_s) from job_facts"), "avg(wait_s),max(wait_s)\n3.333333333,10.0\n");
}

#[test]
fn what_cannot_be_asked_is_refused_with_a_remedy() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    for (sql, told) in [
        ("select gpu from job_facts", "did you mean gpus"),
        ("select submit_time from job_facts", "did you mean submit, submit_date"),
        ("select end_state from job_facts", "did you mean state, end"),
        ("select percentile_cont(0.95) within group (order by wait_s) from job_facts", "quantile_disc(x, 0.95)"),
        ("select p99(wait_s) from job_facts", "quantile_disc(x, 0.99)"),
        ("select count(*) from job_facts where submit > '10.03.2024'", "write a date as '2024-03-10'"),
        ("select count(*) from job_facts where wait_s > '1h'", "lengths of time are seconds"),
        ("select * from job", "there is no table job; there are job_facts, jobs"),
        ("select from where", "there is no table where"),
        ("drop table jobs", "only queries are answered"),
        ("select 1; select 2", "write one query"),
        ("select sum(vc) from", "expected"),
        ("select user, sum(gpu_hours) from job_facts", "neither grouped nor aggregated"),
        ("select user from job_facts group by user order by sum(gpu_hours)", "order by value"),
        ("select submit::date from job_facts", "submit_date"),
        ("selct user from job_facts", "expected"),
        ("", "write one query"),
    ] {
        let output = tracecast(&["query", &source, sql]);
        assert_eq!(output.status.code(), Some(2), "{sql}: {}", stderr(&output));
        assert!(stderr(&output).to_lowercase().contains(&told.to_lowercase()), "{sql}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"), "{sql}: {}", stderr(&output));
    }
    let output = tracecast(&["query", "select count(*) from jobs"]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("name the trace"), "{}", stderr(&output));
    for with in ["jobs=x.csv", "1=x.csv", "rates"] {
        assert!(!tracecast(&["query", &source, "select 1", "--with", with]).status.success(), "{with}");
    }
}

#[test]
fn files_of_ones_own_are_read_or_refused_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let with = format!("own={}", path.display());
        tracecast(&["query", "datasets/sample", "select * from own", "--with", &with, "--format", "csv"])
    };
    // What a column holds is known from all of its cells, however late they come.
    let mut late = String::from("day,usd\n");
    for _ in 0..20_000 {
        late.push_str("2024-03-05,1\n");
    }
    late.push_str("2024-03-06,1.5\n");
    let output = asked("late.csv", late.as_bytes());
    assert!(stdout(&output).ends_with("2024-03-06,1.5\n"), "{}", stderr(&output));
    // One cell that is no date makes the column text.
    let output = asked("day.csv", b"day\n2024-02-28\n2024-02-30\n");
    assert_eq!(stdout(&output), "day\n2024-02-28\n2024-02-30\n", "{}", stderr(&output));
    let output = asked("large.csv", b"n\n1\n99999999999999999999\n");
    assert!(!output.status.success() && stderr(&output).contains("99999999999999999999"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("schema_overrides"), "{}", stderr(&output));
    for (text, told) in [
        ("", "wrong.csv: it is empty"),
        ("a;b\n1;2\n", "separate them by commas"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells, where the first line names 2"),
    ] {
        let output = asked("wrong.csv", text.as_bytes());
        assert!(!output.status.success() && stderr(&output).contains(told), "{text}: {}", stderr(&output));
    }
    let rates = folder.path().join("rates.csv");
    std::fs::write(&rates, "vc,usd\nvision,n/a\n").unwrap();
    let with = format!("own={}", rates.display());
    let output = tracecast(&["query", "datasets/sample", "select sum(usd) as usd from own", "--with", &with]);
    assert!(stderr(&output).contains("such as n/a"), "{}", stderr(&output));
    let output = asked("rates.csv.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    assert!(!output.status.success() && stderr(&output).contains("unpack it first"), "{}", stderr(&output));
}

#[test]
fn without_a_question_the_tables_are_listed() {
    let output = tracecast(&["query", "datasets/sample"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["job_facts: 17,920 rows", "gpu_samples", "GPU-hours", "Unknown in every row"] {
        assert!(text.contains(part), "{part}");
    }
    let plan = stdout(&tracecast(&["query", "datasets/sample", "select vc from jobs", "--explain"]));
    assert!(plan.contains("PROJECT 1/"), "only one column is read: {plan}");
}

/// Jobs of a Helios log, drawn from `seed`.
fn drawn(seed: u64) -> Vec<String> {
    let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let at = |s: u64| format!("2020-04-{:02} {:02}:{:02}:{:02}", 1 + s / 86_400, s / 3_600 % 24, s / 60 % 60, s % 60);
    let mut submit = 0;
    (0..240)
        .map(|job| {
            submit += draw(7_200);
            let (wait, run, gpus) = (draw(4) * 600, 60 + draw(9_000), [0, 1, 1, 2, 8, 16][draw(6) as usize]);
            let state = ["COMPLETED", "FAILED", "CANCELLED"][draw(3) as usize];
            let (start, end) = (submit + wait, submit + wait + run);
            format!(
                "{job},u{},v{},{gpus},4,1,{state},{},{},{},{run},{wait}",
                draw(4),
                draw(3),
                at(submit),
                at(start),
                at(end)
            )
        })
        .collect()
}

#[test]
fn where_is_as_if_the_source_had_been_cut_by_hand() {
    let header = JOBS.lines().next().unwrap();
    let field = |line: &str, ix: usize| line.split(',').nth(ix).unwrap().to_owned();
    let number = |line: &str, ix: usize| field(line, ix).parse::<f64>().unwrap();
    type Keep<'a> = Box<dyn Fn(&str) -> bool + 'a>;
    let conditions: Vec<(&str, Keep<'_>)> = vec![
        ("vc = 'v1'", Box::new(|line| field(line, 2) == "v1")),
        ("gpus >= 2 and state <> 'failed'", Box::new(|line| number(line, 3) >= 2.0 && field(line, 6) != "FAILED")),
        (
            "\"user\" in ('u0', 'u3') or run_s < 600",
            Box::new(|line| ["u0", "u3"].contains(&field(line, 1).as_str()) || number(line, 10) < 600.0),
        ),
        (
            "submit >= '2020-04-02' and wait_s > 0",
            Box::new(|line| field(line, 7).as_str() >= "2020-04-02" && number(line, 11) > 0.0),
        ),
    ];
    let mut compared = 0;
    for seed in 0..3 {
        let lines = drawn(seed);
        for (condition, keep) in &conditions {
            let folder = Folder::new();
            let whole = folder.file("cluster_log.csv", &format!("{header}\n{}\n", lines.join("\n")));
            std::fs::create_dir(folder.path("cut")).unwrap();
            let cut: Vec<&String> = lines.iter().filter(|line| keep(line)).collect();
            let text: String = cut.iter().map(|line| format!("{line}\n")).collect();
            let cut_file = folder.file("cut/cluster_log.csv", &format!("{header}\n{text}"));
            for command in [
                &["describe"][..],
                &["model", "backtest", "duration", "--methods", "running_mean,recent_median", "--refit-days", "1"],
            ] {
                let run = |source: &str, more: &[&str]| {
                    let output = tracecast(&[command, &[source, "--format", "json"], more].concat());
                    let text = stdout(&output);
                    (output.status.code(), if text.is_empty() { serde_json::Value::Null } else { json(&text) })
                };
                let (code, mut selected) = run(&whole, &["--where", condition]);
                let told = selected["notes"].to_string();
                assert!(code != Some(0) || told.contains("of 240 jobs"), "{command:?}: {told}");
                let (by_hand_code, mut by_hand) = run(&cut_file, &[]);
                assert_eq!(code, by_hand_code, "{condition}, seed {seed}, {command:?}");
                let Some(missing) = selected.get("missing").and_then(|missing| missing.as_array()).cloned() else {
                    for (key, answer) in [(&whole, &mut selected), (&cut_file, &mut by_hand)] {
                        let Some(answer) = answer.as_object_mut() else { continue };
                        answer.retain(|field, _| !["title", "notes"].contains(&field.as_str()));
                        assert!(answer.len() > 3, "{key}");
                    }
                    assert_eq!(selected, by_hand, "{condition}, seed {seed}");
                    compared += usize::from(code == Some(0));
                    continue;
                };
                let refused: Vec<&str> = missing
                    .iter()
                    .filter(|topic| topic["reason"].as_str().unwrap().contains("needs all jobs"))
                    .map(|topic| topic["topic"].as_str().unwrap())
                    .collect();
                assert!(refused.contains(&"pool") && !refused.contains(&"wait"), "{refused:?}");
                for key in ["sources", "quality", "notes", "selected", "missing"].iter().chain(&refused) {
                    selected.as_object_mut().unwrap().remove(*key);
                    by_hand.as_object_mut().unwrap().remove(*key);
                }
                assert_eq!(selected, by_hand, "{condition}, seed {seed}");
                compared += 1;
            }
        }
    }
    assert!(compared > 16, "{compared} compared");
}

/// `--where` trains, predicts and ingests as if the source had been cut by hand.
#[test]
fn where_trains_predicts_and_ingests_as_if_cut_by_hand() {
    let header = JOBS.lines().next().unwrap();
    let field = |line: &str, ix: usize| line.split(',').nth(ix).unwrap().to_owned();
    let done = |arguments: &[&str]| {
        let output = tracecast(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    for seed in 0..3 {
        let lines = drawn(seed);
        let folder = Folder::new();
        let condition = "vc <> 'v1' or gpus >= 8";
        let keep = |line: &&String| field(line, 2) != "v1" || field(line, 3).parse::<f64>().unwrap() >= 8.0;
        let whole = folder.file("cluster_log.csv", &format!("{header}\n{}\n", lines.join("\n")));
        let cut: String = lines.iter().filter(keep).map(|line| format!("{line}\n")).collect();
        std::fs::create_dir(folder.path("cut")).unwrap();
        let cut = folder.file("cut/cluster_log.csv", &format!("{header}\n{cut}"));
        let (asked, by_hand) = (folder.path("asked.tcm"), folder.path("by_hand.tcm"));
        let train = |source: &str, model: &str, more: &[&str]| {
            let fixed = ["model", "train", "duration", source, "--to", "2020-04-07", "--trees", "5", "--out", model];
            done(&[&fixed, more].concat());
        };
        train(&whole, &asked, &["--where", condition]);
        train(&cut, &by_hand, &[]);
        let predict = |model: &str, source: &str, more: &[&str]| {
            done(&[&["model", "predict", "duration", "--model", model, source, "--format", "csv"], more].concat())
        };
        let predicted = predict(&by_hand, &cut, &[]);
        assert!(predicted.lines().count() > 20, "seed {seed}: {predicted}");
        assert_eq!(predict(&asked, &whole, &["--where", condition]), predicted, "seed {seed}");
        assert_ne!(predict(&asked, &whole, &[]), predicted, "seed {seed}");

        let facts = |source: &str, name: &str, more: &[&str]| {
            let trace = folder.path(name);
            done(&[&["ingest", source, "--out", &trace], more].concat());
            done(&["query", &trace, "select * from job_facts order by job_key", "--format", "csv"])
        };
        assert_eq!(facts(&whole, "a", &["--where", condition]), facts(&cut, "b", &[]), "seed {seed}");
    }
}

#[test]
fn where_says_what_it_selected_and_who_refuses_it() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["describe", &source, "--where", "vc = 'va'", "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let notes = json(&stdout(&output))["notes"].to_string();
    assert!(notes.contains("Only jobs with `vc = 'va'` are looked at: 2 of 3 jobs"), "{notes}");
    for (condition, told) in [
        ("vc = 'nobody'", "no job meets"),
        ("gpus", "not true or false"),
        ("gpu >= 8", "gpu"),
        ("gpus > (select 1)", "one job at a time"),
        ("", "expected"),
    ] {
        let output = tracecast(&["describe", &source, "--where", condition]);
        assert_eq!(output.status.code(), Some(2), "{condition}: {}", stderr(&output));
        assert!(stderr(&output).to_lowercase().contains(told), "{condition}: {}", stderr(&output));
    }
    for command in [&["simulate"][..], &["plan", "power"], &["audit"], &["inspect"], &["model", "backtest", "demand"]] {
        let output = tracecast(&[command, &[source.as_str(), "--where", "vc = 'va'"]].concat());
        assert_eq!(output.status.code(), Some(2), "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("--where: "), "{command:?}: {}", stderr(&output));
    }
    // A part that was ingested stays a part.
    let trace = folder.path("trace");
    assert!(tracecast(&["ingest", &source, "--where", "vc = 'va'", "--out", &trace]).status.success());
    let again = json(&stdout(&tracecast(&["describe", &trace, "--json"])));
    assert!(again["missing"].to_string().contains("needs all jobs") && again["summary"]["jobs"] == 2);
    let output = tracecast(&["simulate", &trace]);
    assert!(output.status.code() == Some(2) && stderr(&output).contains("2 of 3 jobs"), "{}", stderr(&output));
    let again = json(&stdout(&tracecast(&["describe", &trace, "--where", "gpus >= 8", "--json"])));
    assert_eq!(again["selected"]["condition"], "(vc = 'va') and (gpus >= 8)");
    assert_eq!((&again["selected"]["jobs"], &again["selected"]["of"]), (&serde_json::json!(1), &serde_json::json!(3)));
}

#[test]
fn a_misspelt_value_is_told_and_so_is_a_form_that_there_is_not() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let asked =
        tracecast(&["query", &source, "select count(*) as n from job_facts where vc = 'va ' or vc in ('vb', 'vc')"]);
    assert!(asked.status.success());
    for wanted in ["no row has vc = 'va '; there are va, vb", "no row has vc = 'vc'; there are va, vb"] {
        assert!(stderr(&asked).contains(wanted), "{}", stderr(&asked));
    }
    let none = tracecast(&["describe", &source, "--where", "vc = 'vision'"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(stderr(&none).contains("--where: no row has vc = 'vision'; there are va, vb"), "{}", stderr(&none));
    // Before anything is read, and only where nobody says which form it is.
    let out = folder.path("answer.xlsx");
    for command in [&["describe", "nowhere", "-o", &out][..], &["query", "nowhere", "select 1", "--out", &out]] {
        let refused = tracecast(command);
        assert_eq!(refused.status.code(), Some(2), "{command:?}");
        assert!(
            stderr(&refused).contains("cannot be written as .xlsx; end the name in .txt, .csv"),
            "{}",
            stderr(&refused)
        );
    }
    let rows = tracecast(&["query", &source, "select vc from jobs", "-o", &folder.path("rows.parquet")]);
    assert!(rows.status.success());
    // Forms that another command has, and endings in capitals.
    for name in ["q.html", "q.md", "q.HTML"] {
        let refused = tracecast(&["query", "nowhere", "select 1", "-o", &folder.path(name)]);
        let told = stderr(&refused);
        assert!(refused.status.code() == Some(2) && told.contains("the answer cannot be written as"), "{name}: {told}");
    }
    let capitals = folder.path("q.CSV");
    let rows = tracecast(&["query", &source, "select vc from jobs order by vc", "-o", &capitals]);
    assert!(rows.status.success(), "{}", stderr(&rows));
    assert_eq!(std::fs::read_to_string(&capitals).unwrap(), "vc\nva\nva\nvb\n");
    assert!(tracecast(&["describe", &source, "-o", &out, "--format", "html"]).status.success());
}
