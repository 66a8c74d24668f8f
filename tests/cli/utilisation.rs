//! `tracecast model train utilisation`, `model predict utilisation` and `model backtest
//! utilisation`, as a user meets them.

use super::*;

const SAMPLE: &str = "datasets/sample";

/// Four families at five batch sizes on one GPU type, more with every batch.
pub(super) fn profiles() -> String {
    let mut text = "gpu_type,job,family,sm_util_pct,memory_mb,batch\n".to_owned();
    for family in 0..4 {
        for step in 0..5 {
            let (batch, util, memory) = (8 << step, 20 + 12 * family + 7 * step, 2_000 + 900 * family + 1_500 * step);
            text += &format!("a100,m{family} (batch size {batch}),m{family},{util},{memory},{batch}\n");
        }
    }
    text
}

#[test]
fn what_telemetry_knows_is_written_as_the_guide_says_and_taken_by_the_other_commands() {
    let folder = Folder::new();
    let out = folder.path("profiles.csv");
    let output = tracecast(&["model", "train", "utilisation", SAMPLE, "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("profiles of") && stderr(&output).contains(&out), "{}", stderr(&output));
    let text = std::fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("gpu_type,job,family,sm_util_pct,mem_util_pct,sm_active_pct,"), "{text}");
    assert!(text.lines().count() > 20, "{text}");
    let again = folder.path("again.csv");
    let output =
        tracecast(&["model", "train", "utilisation", SAMPLE, "--out", &again, "--by", "user-name", "--threads", "1"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read_to_string(&again).unwrap().lines().nth(1).unwrap().contains('/'));
    // A file that is there is not replaced unasked.
    assert_eq!(tracecast(&["model", "train", "utilisation", SAMPLE, "--out", &out]).status.code(), Some(1));
    let pairs = folder.file("pairs.csv", &interference::pairs());
    let asked =
        ["model", "backtest", "interference", &pairs, "--profiles", &out, "--hold-out", "family", "--format", "json"];
    let output = tracecast(&asked);
    assert!(output.status.success(), "{}", stderr(&output));
    // What the sample ran is no job type of these pairs, and that is said.
    let notes = json(&stdout(&output))["notes"].to_string();
    assert!(notes.contains("are in no pair, such as"), "{notes}");
}

#[test]
fn jobs_are_forecast_in_order_of_time_in_every_form() {
    let ask = |more: &[&str]| tracecast(&[&["model", "backtest", "utilisation", SAMPLE], more].concat());
    let output = ask(&["--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(found["schema"].as_str(), Some("model-backtest-utilisation/1"));
    assert_eq!(found["published"]["rmsle"].as_f64(), Some(0.154));
    let splits = found["splits"].as_array().unwrap();
    let told: Vec<_> =
        splits.iter().map(|split| (split["usage"].as_str().unwrap(), split["left_out"].as_str().unwrap())).collect();
    assert_eq!(told, [("gpu_util_pct", "later"), ("memory_mb", "later")]);
    for split in splits {
        let names: Vec<&str> =
            split["models"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["mean", "last", "group", "linear", "forest", "boosted"]);
        let jobs: u64 = split["by_known"].as_array().unwrap().iter().map(|by| by["jobs"].as_u64().unwrap()).sum();
        assert_eq!(Some(jobs), split["scored"].as_u64());
    }
    let text = stdout(&ask(&[]));
    assert!(text.contains("(chosen)") && text.contains("cannot be compared"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("9 scored jobs are too few to tell models apart"), "{text}");
    assert_eq!(text, stdout(&ask(&["--threads", "1"])));
    let told = stderr(&ask(&["--format", "csv", "--section", "memory-later"]));
    assert!(told.contains("there are 2: memory-later-1, memory-later-2"), "{told}");
}

#[test]
fn families_of_profiles_are_left_out() {
    let folder = Folder::new();
    let source = folder.file("profiles.csv", &profiles());
    let output = tracecast(&["model", "backtest", "utilisation", &source, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let splits = found["splits"].as_array().unwrap();
    let told: Vec<_> = splits.iter().map(|split| (split["left_out"].as_str(), split["folds"].as_u64())).collect();
    let of = |what, folds| (Some(what), Some(folds));
    assert!(splits.iter().all(|split| split["chosen"] == "choice"), "{splits:?}");
    assert_eq!(told, [of("family", 4), of("family", 4), of("job_type", 16), of("job_type", 16)]);
    let csv =
        tracecast(&["model", "backtest", "utilisation", &source, "--format", "csv", "--section", "utilisation-family"]);
    assert!(stdout(&csv).contains("nearest"), "{}{}", stdout(&csv), stderr(&csv));
}

/// A job type as it is known, another batch size of its family, a new family, a GPU type that nobody measured.
pub(super) fn new_types(folder: &Folder) -> String {
    let rows = "gpu_type,job,family,batch\na100,m1 (batch size 32),,32\na100,m1 (batch size 24),m1,24\na100,strange,,\nh100,m1 (batch size 32),,32\n";
    folder.file("new.csv", rows)
}

/// Jobs of two recurring groups on one GPU each, read five times a job: ann's use 30 %, ben's 80 %; then two that wait.
pub(super) fn queue(folder: &Folder) -> [String; 2] {
    let mut jobs =
        "JobID|JobName|User|Account|Partition|State|Submit|Start|End|AllocTRES|ReqTRES|NodeList\n".to_owned();
    let mut readings = String::new();
    for at in 0..48u64 {
        let (user, util) = if at * 7 % 11 < 5 { ("ann", 30) } else { ("ben", 80) };
        let time =
            |minutes: u64| format!("2024-03-{:02}T{:02}:{:02}:00", 4 + minutes / 1440, minutes / 60 % 24, minutes % 60);
        let (begin, end) = (60 * at, 60 * at + 50);
        let (begins, ends, name, tres) =
            (time(begin), time(end), format!("train_{user}_{at}"), "cpu=4,gres/gpu=1,node=1");
        jobs += &format!("{at}|{name}|{user}|x|gpu|COMPLETED|{begins}|{begins}|{ends}|{tres}|{tres}|n1\n");
        for read in 0..5 {
            // 2024-03-04 00:00 UTC.
            let ms = 1_709_510_400_000 + (begin + 5 + 8 * read) * 60_000;
            let noise = (at * 5 + read * 3) % 7;
            readings +=
                &format!("DCGM_FI_DEV_GPU_UTIL{{gpu=\"0\",Hostname=\"n1\",hpc_job=\"{at}\"}} {} {ms}\n", util + noise);
            readings += &format!(
                "DCGM_FI_DEV_FB_USED{{gpu=\"0\",Hostname=\"n1\",hpc_job=\"{at}\"}} {} {ms}\n",
                100 * util + noise
            );
        }
    }
    let tres = "cpu=4,gres/gpu=1,node=1";
    for (id, user) in [(90, "ben"), (91, "zoe")] {
        let name = format!("train_{user}_{id}");
        jobs +=
            &format!("{id}|{name}|{user}|x|gpu|PENDING|2024-03-06T00:00:00|Unknown|Unknown||{tres}|None assigned\n");
    }
    [folder.file("sacct.txt", &jobs), folder.file("dcgm.prom", &readings)]
}

#[test]
fn job_types_are_forecast_and_the_forecast_serves_as_profiles() {
    let folder = Folder::new();
    let (source, new) = (folder.file("profiles.csv", &profiles()), new_types(&folder));
    let out = folder.path("forecast.csv");
    let ask =
        |more: &[&str]| tracecast(&[&["model", "predict", "utilisation", &source, "--jobs", &new], more].concat());
    let output = ask(&["--format", "json", "--save-profiles", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(
        (found["schema"].as_str(), found["asked"].as_str()),
        (Some("model-predict-utilisation/1"), Some("job_types"))
    );
    let jobs = found["jobs"].as_array().unwrap();
    let told: Vec<&str> = jobs.iter().map(|job| job["gpu_util_pct"]["rests_on"].as_str().unwrap()).collect();
    assert_eq!(told, ["job_type", "family", "other_families", "family_elsewhere"]);
    // Measured: 20 + 12 + 14 %, 2,000 + 900 + 3,000 MiB. The batch between 16 and 32 lies between them.
    let number = |job: usize, usage: &str| jobs[job][usage]["expected"].as_f64().unwrap();
    assert_eq!((number(0, "gpu_util_pct").round(), number(0, "memory_mb").round()), (46.0, 5_900.0));
    assert!((37.0..48.0).contains(&number(1, "gpu_util_pct")), "{found}");
    assert!(found["notes"].to_string().contains("Nothing was measured on h100"), "{found}");
    // What is chosen for a new family was chosen with families left out.
    let ways: Vec<&str> =
        found["choices"].as_array().unwrap().iter().map(|of| of["left_out"].as_str().unwrap()).collect();
    assert_eq!(ways, ["job_type", "family", "job_type", "family"]);
    let csv = stdout(&ask(&["--format", "csv"]));
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert!(rows.len() == 5 && rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    assert_eq!(&rows[1][..4], ["a100", "m1 (batch size 32)", "m1", "46.00"]);
    let text = stdout(&ask(&[]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(measured: 1, its family: 1, its family on other GPUs: 1, other families: 1)"), "{text}");
    assert!(words.contains("How the models were chosen"), "{text}");
    assert_eq!(text, stdout(&ask(&["--threads", "1"])));
    // As profiles: measured as it was, and of what is forecast the memory that is enough with a chance of 90 %.
    let written = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!((lines.len(), lines[0]), (24, "gpu_type,job,family,sm_util_pct,memory_mb,batch,forecast"));
    assert!(lines.contains(&"a100,m1 (batch size 32),m1,46,5900,32,"), "{written}");
    let p90 = jobs[1]["memory_mb"]["quantiles"]["p90"].as_f64().unwrap();
    let forecast = format!(",{p90:.2},24,sm_util_pct memory_mb");
    assert!(
        lines.iter().any(|line| line.starts_with("a100,m1 (batch size 24),m1,") && line.ends_with(&forecast)),
        "{written}"
    );
    let pairs = folder.file("pairs.csv", &interference::pairs());
    let taken = tracecast(&[
        "model",
        "backtest",
        "interference",
        &pairs,
        "--profiles",
        &out,
        "--hold-out",
        "family",
        "--format",
        "json",
    ]);
    let notes = json(&stdout(&taken))["notes"].to_string();
    assert!(notes.contains("3 of 23 profiles hold forecasts") && !notes.contains("nothing is done with"), "{notes}");
    // Forecasts teach no further forecast.
    let again = tracecast(&["model", "predict", "utilisation", &out, "--jobs", &new, "--format", "json"]);
    let again = json(&stdout(&again));
    assert!(again["notes"].to_string().contains("do not count") && again["jobs"] == found["jobs"], "{again}");
}

#[test]
fn what_waits_is_forecast_from_its_group() {
    let folder = Folder::new();
    let [jobs, readings] = queue(&folder);
    let output = tracecast(&["model", "predict", "utilisation", &jobs, &readings, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let told = found["jobs"].as_array().unwrap();
    let of = |at: usize| (told[at]["job_id"].as_str().unwrap(), told[at]["gpu_util_pct"]["rests_on"].as_str().unwrap());
    assert_eq!((told.len(), of(0), of(1)), (2, ("90", "recurring_group"), ("91", "size")));
    let text = stdout(&tracecast(&["model", "predict", "utilisation", &jobs, &readings]));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("The 16 jobs to choose a model on are too few"), "{text}");
    let util = told[0]["gpu_util_pct"]["expected"].as_f64().unwrap();
    assert!((78.0..88.0).contains(&util), "{found}");
    // Jobs that are named are asked about in place of those that wait.
    let named = folder.file("named.csv", "name,user,gpus\ntrain_ann_77,ann,1\n");
    let csv =
        stdout(&tracecast(&["model", "predict", "utilisation", &jobs, &readings, "--jobs", &named, "--format", "csv"]));
    let cells: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((csv.lines().count(), &cells[..4]), (2, &["", "train_ann_77", "ann", "1"][..]));
    assert!((28.0..38.0).contains(&cells[4].parse::<f64>().unwrap()), "{csv}");
    // So is one whose user is not known: by all jobs of its name, and not by all jobs.
    let nameless = folder.file("name.csv", "name,gpus\ntrain_ann_77,1\n");
    let csv = stdout(&tracecast(&[
        "model",
        "predict",
        "utilisation",
        &jobs,
        &readings,
        "--jobs",
        &nameless,
        "--format",
        "csv",
    ]));
    let cells: Vec<&str> = csv.lines().nth(1).unwrap().split(',').collect();
    assert!((28.0..38.0).contains(&cells[4].parse::<f64>().unwrap()), "{csv}");
    assert!(cells.contains(&"recurring_group"), "{csv}");
}

/// A row of telemetry, measured but for its memory, and asked about with another batch: its values and what it rests on stay.
#[test]
fn what_was_measured_stays_as_it_was() {
    let folder = Folder::new();
    let measured: String = profiles()
        .lines()
        .enumerate()
        .map(
            |(at, line)| if at == 0 { format!("{line},jobs,readings\n") } else { format!("{line},{at},{}\n", 10 * at) },
        )
        .collect();
    let row = "a100,m1 (batch size 32),m1,46,5900,32,8,80";
    assert!(measured.contains(row), "{measured}");
    let source = folder.file("profiles.csv", &measured.replace(row, "a100,m1 (batch size 32),m1,46,,32,8,80"));
    let asked = "gpu_type,job,batch,flops\na100,m1 (batch size 32),64,7\na100,m1 (batch size 24),24,\n";
    let (new, out) = (folder.file("new.csv", asked), folder.path("forecast.csv"));
    let output = tracecast(&["model", "predict", "utilisation", &source, "--jobs", &new, "--save-profiles", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let written = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<Vec<&str>> = written.lines().map(|line| line.split(',').collect()).collect();
    let head = "gpu_type,job,family,sm_util_pct,memory_mb,batch,flops,jobs,readings,forecast";
    assert_eq!(lines[0].join(","), head);
    let of = |job: &str| lines.iter().find(|line| line[1] == job).unwrap();
    // Only the memory was not known, nor the operations.
    let kept = of("m1 (batch size 32)");
    assert_eq!(kept[3..4], ["46"]);
    assert_eq!(kept[5..], ["32", "7", "8", "80", "memory_mb"]);
    assert!(kept[4].parse::<f64>().unwrap() > 0.0, "{written}");
    assert_eq!(of("m0 (batch size 8)")[3..], ["20", "2000", "8", "", "1", "10", ""]);
    assert_eq!(of("m1 (batch size 24)")[7..], ["", "", "sm_util_pct memory_mb"]);
    // One file for two outputs would hold the last alone.
    let (again, text) = (folder.path("again.csv"), folder.path("./again.csv"));
    let both = ["model", "predict", "utilisation", &source, "--jobs", &new, "--save-profiles", &again, "--out", &text];
    let refused = tracecast(&both);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("again.csv is named for two outputs"), "{}", stderr(&refused));
    assert!(!Path::new(&again).exists());
}

/// A GPU type of which the memory alone is known: the utilisation there comes from elsewhere, and a note says so.
#[test]
fn a_gpu_type_may_be_strange_for_one_usage_alone() {
    let folder = Folder::new();
    let source = folder.file("profiles.csv", &format!("{}t4,m0 (batch size 8),m0,,1500,8\n", profiles()));
    let new = folder.file("new.csv", "gpu_type,job\nt4,strange\n");
    let found =
        json(&stdout(&tracecast(&["model", "predict", "utilisation", &source, "--jobs", &new, "--format", "json"])));
    let notes = found["notes"].to_string();
    assert!(notes.contains("No utilisation was measured on t4, but on a100"), "{notes}");
    assert!(!notes.contains("memory use") && !notes.contains("Nothing"), "{notes}");
}

#[test]
fn what_a_forecast_lacks_is_said() {
    let folder = Folder::new();
    let told = |command: &[&str]| {
        let output = tracecast(&[&["model", "predict", "utilisation"], command].concat());
        (output.status.code(), stderr(&output))
    };
    let (source, new) = (folder.file("profiles.csv", &profiles()), new_types(&folder));
    let (code, text) = told(&[&source]);
    assert!(code == Some(2) && text.contains("with --jobs"), "{text}");
    let [jobs, readings] = queue(&folder);
    let started: String = std::fs::read_to_string(jobs)
        .unwrap()
        .lines()
        .filter(|line| !line.contains("PENDING"))
        .map(|line| format!("{line}\n"))
        .collect();
    let started = folder.file("started.txt", &started);
    let (code, text) = told(&[&started, &readings]);
    assert!(code == Some(5) && text.contains("no job with GPUs waits") && text.contains("--jobs"), "{text}");
    let (code, text) = told(&[SAMPLE, "--jobs", &new]);
    assert!(code == Some(1) && text.contains("a table of profiles in place of the trace"), "{text}");
    let (code, text) = told(&[SAMPLE, "--jobs", &new, "--save-profiles", &folder.path("p.csv")]);
    assert!(code == Some(2) && text.contains("--save-profiles"), "{text}");
    let few = folder.file("few.csv", "gpu_type,job,sm_util_pct\na100,a,40\na100,b,60\n");
    let (code, text) = told(&[&few, "--jobs", &new]);
    assert!(code == Some(5) && text.contains("nothing can be said of any row"), "{text}");
    // A file that is there is not replaced unasked.
    let (code, text) = told(&[&source, "--jobs", &new, "--save-profiles", &source]);
    assert!(code == Some(1) && text.contains("--force"), "{text}");
    // Options of reading a trace do nothing to a table, and are refused. A reader or a mapping says that it is a trace.
    for option in [&["--timezone", "Europe/Berlin"][..], &["--strict"], &["--max-expansion", "7"]] {
        for command in [
            &["model", "predict", "utilisation", &source, "--jobs", &new][..],
            &["model", "backtest", "utilisation", &source],
        ] {
            let output = tracecast(&[command, option].concat());
            let text = stderr(&output);
            assert!(output.status.code() == Some(2) && text.contains(option[0]), "{command:?}: {text}");
            assert!(text.contains("a table of profiles holds no jobs"), "{text}");
        }
    }
}

#[test]
fn what_is_wrong_is_said_with_what_would_mend_it() {
    let folder = Folder::new();
    let told = |command: &[&str]| {
        let output = tracecast(command);
        (output.status.code(), stderr(&output))
    };
    let jobs = folder.file("cluster_log.csv", JOBS);
    let (code, text) = told(&["model", "backtest", "utilisation", &jobs]);
    assert!(code == Some(5) && text.contains("no job has telemetry"), "{text}");
    let out = folder.path("profiles.csv");
    let (code, text) = told(&["model", "train", "utilisation", &jobs, "--out", &out]);
    assert!(code == Some(5) && text.contains("nvidia-smi samples"), "{text}");
    let few = folder.file("few.csv", "gpu_type,job,sm_util_pct\na100,a,40\na100,b,60\n");
    let (code, text) = told(&["model", "backtest", "utilisation", &few]);
    assert!(code == Some(5) && text.contains("three families at least"), "{text}");
    let bad = folder.file("bad.csv", "gpu_type,job,sm_util_pct\na100,a,400\n");
    let (code, text) = told(&["model", "backtest", "utilisation", &bad]);
    assert!(code == Some(1) && text.contains("bad.csv, line 2") && text.contains("write percent"), "{text}");
}
