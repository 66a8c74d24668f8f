//! `plan defer`, as a user meets it.

use std::process::{Command, Output};

use serde_json::Value;

use super::*;

/// The bundled sample with its own carbon intensities.
pub(crate) const SAMPLE: [&str; 6] = ["plan", "defer", "datasets/sample", "--quiet", "--models", "none"];

/// Three weeks of a job an hour, each of one GPU and an hour's run.
fn hourly() -> String {
    let head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
    let row = |at: u32| {
        let (day, hour) = (1 + at / 24, at % 24);
        let (end_day, end_hour) = (1 + (at + 1) / 24, (at + 1) % 24);
        format!(
            "{at},u,va,1,4,1,COMPLETED,2020-04-{day:02} {hour:02}:00:00,2020-04-{day:02} {hour:02}:00:00,2020-04-{end_day:02} {end_hour:02}:00:00,3600,0\n"
        )
    };
    head.to_owned() + &(0..21 * 24).map(row).collect::<String>()
}

/// Hours of April 2020, or of another year: 400 g/kWh by night, 100 from 10:00 to 16:00.
fn hours(year: u32, skipped: &[(u32, u32)]) -> String {
    let head = "Datetime (UTC),Country,Zone Name,Zone Id,Carbon Intensity gCO₂eq/kWh (direct),Carbon Intensity gCO₂eq/kWh (LCA),Low Carbon Percentage,Renewable Percentage,Data Source,Data Estimated,Data Estimation Method\n";
    let row = |at: u32| {
        let (day, hour) = (1 + at / 24, at % 24);
        let grams = if (10..16).contains(&hour) { 100 } else { 400 };
        let told = skipped.iter().all(|gone| *gone != (day, hour));
        told.then(|| format!("{year}-04-{day:02} {hour:02}:00:00,X,X,X,{grams},{grams},50,50,test,false,\n"))
    };
    head.to_owned() + &(0..30 * 24).filter_map(row).collect::<String>()
}

/// Prices of the same hours, money a MWh.
fn prices() -> String {
    let row = |at: u32| {
        let (day, hour) = (1 + at / 24, at % 24);
        format!("2020-04-{day:02} {hour:02}:00:00,{}\n", if hour < 6 { -20 } else { 80 })
    };
    "Datetime (UTC),Price (EUR/MWh)\n".to_owned() + &(0..30 * 24).map(row).collect::<String>()
}

/// Runs `plan defer` with its answer as JSON.
fn asked(more: &[&str]) -> Output {
    tracecast(&[&["plan", "defer"][..], more, &["--timezone", "UTC", "--format", "json", "--quiet"]].concat())
}

/// The answer of a run that succeeds.
fn answered(more: &[&str]) -> Value {
    let output = asked(more);
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn rule<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == name).unwrap()
}

#[test]
fn the_sample_is_planned() {
    let output = tracecast(&[&SAMPLE[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!((&answer["schema"], &answer["aim"]), (&Value::from("plan-defer/2"), &Value::from("carbon")));
    let by = answer["trial"]["rules"].as_array().unwrap();
    let kwh = number(&rule(&answer, "now")["kwh_per_month"]);
    for told in by {
        let name = told["id"].as_str().unwrap();
        assert_eq!(told["waits"]["jobs"], by[0]["waits"]["jobs"], "{name}");
        assert!(number(&told["waits"]["longest_s"]) <= 86_400.0, "{told}");
        // Who does not pause draws as much as at once, and emits no less than what knows all.
        let drawn = number(&told["kwh_per_month"]);
        let pauses = ["two_thresholds", "hours"].contains(&name);
        assert!((drawn - kwh).abs() < 1e-6 * kwh || (pauses && drawn > kwh), "{told}");
        assert!(number(&told["regret"]) >= -1e-9 || pauses || name == "free_oracle", "{told}");
        assert!(number(&told["of_baseline"]) >= number(&rule(&answer, "free_oracle")["of_baseline"]) - 1e-9, "{told}");
    }
    assert_eq!(number(&rule(&answer, "now")["of_baseline"]), 1.0);
    let saved = 1.0 - number(&rule(&answer, "plan")["of_baseline"]);
    assert!((saved - number(&answer["trial"]["saving"]["value"])).abs() < 1e-9);
    assert_eq!(answer["recommendation"].is_null(), answer["verdict"] != "advised");
}

#[test]
fn the_answer_as_text() {
    let output = tracecast(&SAMPLE);
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("plan_defer_sample", stdout(&output));
}

#[test]
fn jobs_of_the_night_wait_for_the_clean_hours() {
    let folder = Folder::new();
    let (jobs, carbon) = (folder.file("cluster_log.csv", &hourly()), folder.file("c.csv", &hours(2020, &[])));
    let planned = |more: &[&str]| answered(&[&[&jobs, "--carbon", &carbon, "--gpu-kw", "1"][..], more].concat());
    // At once a day emits 6 × 100 and 18 × 400 g. With any wait allowed, all run in clean hours: 2,400 of 7,800.
    let all = planned(&["--mean-wait", "24h"]);
    assert_eq!(all["verdict"], "advised", "{}", all["action"]);
    assert!((number(&all["trial"]["saving"]["value"]) - (1.0 - 2_400.0 / 7_800.0)).abs() < 1e-9);
    assert_eq!(number(&rule(&all, "oracle")["of_baseline"]), number(&rule(&all, "plan")["of_baseline"]));
    // Waits from 17:00 to 10:00 are 18, 17 … 1 hours: 171 of 24 jobs.
    assert!((number(&rule(&all, "plan")["waits"]["mean_s"]) - 171.0 / 24.0 * 3_600.0).abs() < 1e-6);
    assert_eq!(all["recommendation"]["harmed"][0]["who"], "jobs of 1 GPU");
    // A mean wait of an hour is kept, in the halves that it was chosen on and beyond.
    let short = planned(&["--mean-wait", "1h"]);
    assert!(number(&rule(&short, "plan")["waits"]["mean_s"]) <= 3_600.0);
    assert!(number(&short["trial"]["saving"]["value"]) < number(&all["trial"]["saving"]["value"]));
    // Where nobody may wait, nothing is to be changed.
    let none = planned(&["--mean-wait", "0s"]);
    assert_eq!((&none["verdict"], &none["recommendation"]), (&Value::from("nothing_better"), &Value::Null));
}

#[test]
fn another_years_hours_need_a_shift_and_are_told_as_an_assumption() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let carbon = folder.file("c.csv", &hours(2023, &[]));
    let output = asked(&[&jobs, "--carbon", &carbon]);
    assert!(!output.status.success());
    let said = stderr(&output);
    assert!(said.contains("c.csv from 2023-04-01 to 2023-04-30") && said.contains("--carbon-shift 157w"), "{said}");
    let answer = answered(&[&jobs, "--carbon", &carbon, "--carbon-shift", "157w"]);
    assert!(answer["notes"][0].as_str().unwrap().contains("Assumed: the hours of c.csv are those of other days"));
    assert_eq!(answer["shift_weeks"], 157);
}

#[test]
fn hours_without_a_value_leave_jobs_out() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let left_out = |skipped: &[(u32, u32)]| {
        let carbon = folder.file("c.csv", &hours(2020, skipped));
        let answer = answered(&[&jobs, "--carbon", &carbon, "--max-wait", "6h"]);
        (answer["jobs_without_value"].as_u64().unwrap(), answer["jobs"].as_u64().unwrap(), answer["notes"].to_string())
    };
    assert_eq!((left_out(&[]).0, left_out(&[]).1), (0, 21 * 24));
    // An hour is touched by the job that is submitted in it, and by those of the six before it.
    let (out, taken, notes) = left_out(&[(5, 12)]);
    assert_eq!((out, taken), (7, 21 * 24 - 7));
    assert!(
        notes.contains("7 jobs may touch an hour without a value")
            && notes.contains("1 hour of the file have no value"),
        "{notes}"
    );
}

#[test]
fn prices_are_minimised_and_weighed() {
    let folder = Folder::new();
    let (jobs, priced) = (folder.file("cluster_log.csv", &hourly()), folder.file("p.csv", &prices()));
    let carbon = folder.file("c.csv", &hours(2020, &[]));
    let offers = folder.file("o.toml", "currency = \"EUR\"\n[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 1\non_demand = 4.0\nreserved = [{ months = 12, price = 1.0 }]\n");
    let planned = |more: &[&str]| answered(&[&[&jobs, "--gpu-kw", "1", "--mean-wait", "24h"][..], more].concat());
    // Negative prices from 0:00 to 6:00: all run then, and earn.
    let cheap = planned(&["--energy-price", &priced]);
    assert_eq!((&cheap["aim"], &cheap["unit"]), (&Value::from("price"), &Value::from("EUR")));
    assert!(number(&rule(&cheap, "oracle")["amount"]) < 0.0);
    // One GPU is reserved, and serves a job an hour. Jobs that start together are on demand.
    let free = planned(&["--carbon", &carbon, "--offers", &offers, "--reserved", "1", "--most-cost", "1000"]);
    assert!(number(&rule(&free, "plan")["cost"]["of_now"]) > 1.5, "{}", rule(&free, "plan"));
    assert_eq!(number(&rule(&free, "now")["cost"]["on_demand_per_month"]), 0.0);
    let tight = planned(&["--carbon", &carbon, "--offers", &offers, "--reserved", "1", "--most-cost", "0"]);
    assert!(number(&rule(&tight, "plan")["cost"]["of_now"]) < number(&rule(&free, "plan")["cost"]["of_now"]));
    let front = free["front"].as_array().unwrap();
    for (at, one) in front.iter().enumerate() {
        let beats = |other: &Value| {
            number(&other["saved"]) > number(&one["saved"])
                && number(&other["mean_wait_s"]) < number(&one["mean_wait_s"])
                && number(&other["cost_of_now"]) < number(&one["cost_of_now"])
        };
        assert!(!front.iter().any(beats), "{at}");
    }
}

/// The hourly jobs as `sacct` tells them, each with a time limit of 12 h, but for every eighth, which has none.
fn limited() -> String {
    let head = "JobID|JobName|User|Partition|Submit|Start|End|State|ReqTRES|AllocTRES|Timelimit|NodeList\n";
    let row = |at: u32| {
        let moment = |at: u32| format!("2020-04-{:02}T{:02}:00:00", 1 + at / 24, at % 24);
        let limit = if at % 8 == 7 { "UNLIMITED" } else { "12:00:00" };
        let gpu = "cpu=4,gres/gpu=1";
        format!("{at}|j|u|va|{0}|{0}|{1}|COMPLETED|{gpu}|{gpu}|{limit}|n1\n", moment(at), moment(at + 1))
    };
    head.to_owned() + &(0..21 * 24).map(row).collect::<String>()
}

/// Classes of time limits are those of the lines for Slurm: the hour's run counts for nothing, and a job without a limit starts at once.
#[test]
fn classes_are_of_time_limits_as_a_scheduler_knows_them() {
    let folder = Folder::new();
    let (jobs, carbon) = (folder.file("sacct.txt", &limited()), folder.file("c.csv", &hours(2020, &[])));
    let to = folder.path("emitted");
    let planned = |more: &[&str]| {
        answered(&[&[&jobs, "--carbon", &carbon, "--gpu-kw", "1", "--mean-wait", "24h"][..], more].concat())
    };
    let classes = |answer: &Value| -> Vec<String> {
        let classes = answer["plan"]["classes"].as_array().unwrap().iter();
        classes
            .map(|class| format!("{}, {}", class["size"].as_str().unwrap(), class["runs"].as_str().unwrap()))
            .collect()
    };
    let by_limit = planned(&["--class-by", "limit", "--emit-to", &to]);
    assert_eq!((&by_limit["verdict"], &by_limit["class_by"]), (&Value::from("advised"), &Value::from("limit")));
    assert_eq!(classes(&by_limit), ["1, 6 to 24 h"]);
    // Of a day's jobs those of 7:00 and 23:00 have no limit and emit 400 g, that of 15:00 100 g: 3,000 g of 7,800 remain.
    let saved = number(&by_limit["trial"]["saving"]["value"]);
    assert!((saved - (1.0 - (22.0 * 100.0 + 2.0 * 400.0) / 7_800.0)).abs() < 1e-9, "{saved}");
    let known = &rule(&by_limit, "oracle")["of_baseline"];
    assert!((number(known) - (1.0 - saved)).abs() < 1e-9, "nor do they wait where all is known: {known}");
    // Over all weeks, the first days wait for nothing, as no hours came before them.
    let over_all = number(&by_limit["plan_saves"]);
    assert!(over_all <= saved && over_all > 0.9 * saved, "{over_all}");
    assert!(by_limit["notes"].to_string().contains("63 jobs without one start at once"), "{}", by_limit["notes"]);
    let table = std::fs::read_to_string(PathBuf::from(&to).join("defer.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains(",gpus,time_limit,"), "{table}");
    let lines = std::fs::read_to_string(PathBuf::from(&to).join("defer_job_submit.lua")).unwrap();
    assert!(lines.contains("The class is of the time limit, as in the test"), "{lines}");
    // One in eight without a limit is too many for limits to be taken unasked.
    let unasked = planned(&[]);
    assert_eq!((&unasked["class_by"], classes(&unasked)), (&Value::from("predicted"), vec!["1, 1 to 6 h".to_owned()]));
}

/// Runs the function for Slurm on a job with `open_until` in their file, and tells its begin time and mark; `None` where there is no Lua.
fn begin_time(folder: &Folder, lines: &str, (now, open_until): (i64, Option<i64>), job: &str) -> Option<String> {
    let opened = open_until.map_or("nil".to_owned(), |until| {
        format!("{{ read = function() return \"{until}\" end, close = function() end }}")
    });
    let script = format!(
        "os.time = function() return {now} end\nio.open = function() return {opened} end\nlocal job_desc = {job}\nlocal defer = (function()\n{lines}\nend)()\ndefer(job_desc)\nprint(job_desc.begin_time, job_desc.admin_comment)\n"
    );
    let file = folder.file("run.lua", &script);
    let output = Command::new("lua").arg(file).output().ok()?;
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).trim().replace('\t', " "))
}

/// The files that are emitted for the hourly jobs and some hours.
fn emitted(folder: &Folder, carbon: &str) -> PathBuf {
    let (jobs, carbon) = (folder.file("cluster_log.csv", &hourly()), folder.file("c.csv", carbon));
    let to = folder.path("emitted");
    let asked = [
        "plan",
        "defer",
        &jobs,
        "--carbon",
        &carbon,
        "--timezone",
        "UTC",
        "--mean-wait",
        "24h",
        "--emit-to",
        &to,
        "--quiet",
    ];
    let output = tracecast(&asked);
    assert!(output.status.success(), "{}", stderr(&output));
    PathBuf::from(&to)
}

fn job(gpus: &str, more: &str) -> String {
    format!("{{ script = \"#!/bin/sh\", tres_per_node = \"{gpus}\", time_limit = 120, begin_time = 0{more} }}")
}

/// 2020-05-01T20:20:00Z, in the day after the file.
const EVENING: i64 = 1_588_364_400;

#[test]
fn a_table_delays_the_jobs_that_wait() {
    let folder = Folder::new();
    // Clean hours are cleaner on some days than on others, so no percentile of a week meets those of each day.
    let levels: String = hours(2020, &[])
        .lines()
        .enumerate()
        .map(|(line, text)| {
            let level = 100 + 20 * ((line.max(1) - 1) / 24 % 7);
            text.replace(",100,100,50,", &format!(",{level},{level},50,")) + "\n"
        })
        .collect();
    let out = emitted(&folder, &levels);
    let table = std::fs::read_to_string(out.join("defer.csv")).unwrap();
    // The file ends with April; what comes at 20:00 on the first of May starts at 10:00 on the second.
    let has = |begin: &str| table.lines().any(|line| line.starts_with(begin));
    assert!(has("2020-05-01T20:00:00Z,1,1 to 6 h,2020-05-02T10:00:00Z,400,"), "{table}");
    assert!(has("2020-05-01T12:00:00Z,1,1 to 6 h,2020-05-01T12:00:00Z,"), "{table}");
    assert!(!out.join("defer_release.sh").exists());
    let lines = std::fs::read_to_string(out.join("defer_job_submit.lua")).unwrap();
    let of = |now: i64, job: &str| begin_time(&folder, &lines, (now, None), job);
    let Some(found) = of(EVENING, &job("gres/gpu:1", "")) else {
        tracecast_tests::skipped::record("lua", false);
        return;
    };
    let of = |now: i64, job: &str| of(now, job).unwrap();
    let start = "1588413600 tracecast-defer";
    assert_eq!(found, start);
    // Names of types may begin with a digit.
    for gpus in ["gres:gpu:v100:1", "gres/gpu=1", "gres/gpu", "gres/gpu:3090:1", "gpu:1g.10gb:1"] {
        assert_eq!(of(EVENING, &job(gpus, "")), start, "{gpus}");
    }
    // Other sizes and limits, hours that are clean, another day, and jobs without GPUs or a limit start at once.
    assert_eq!(of(EVENING, &job("gres/gpu:8", "")), "0 nil");
    assert_eq!(of(EVENING, &job("gres/gpu:1", ", min_nodes = 4")), "0 nil");
    assert_eq!(
        of(EVENING, "{ script = \"x\", tres_per_node = \"gres/gpu:1\", time_limit = 4294967294, begin_time = 0 }"),
        "0 nil"
    );
    assert_eq!(of(EVENING, "{ script = \"x\", time_limit = 120, begin_time = 0 }"), "0 nil");
    assert_eq!(of(EVENING - 8 * 3_600, &job("gres/gpu:1", "")), "0 nil");
    assert_eq!(of(EVENING + 86_400, &job("gres/gpu:1", "")), "0 nil");
    for gpus in ["gres/gpu:0", "gres/gpu:none"] {
        assert_eq!(of(EVENING, &job(gpus, "")), "0 nil", "{gpus}");
    }
    // Interactive jobs do, too, and those with a deadline, a reservation or the comment.
    for more in
        [", script = nil", ", deadline = 1588400000", ", reservation = \"r\"", ", comment = \"please start-now\""]
    {
        assert_eq!(of(EVENING, &job("gres/gpu:1", more)), "0 nil", "{more}");
    }
    // GPUs are those of all tasks; what others say of a job is kept.
    let tasks = "{ script = \"x\", tres_per_task = \"gres/gpu:1\", num_tasks = 4, time_limit = 120, begin_time = 0 }";
    assert_eq!(of(EVENING, tasks), "0 nil");
    let said = job("gres/gpu:1", ", admin_comment = \"seen\"");
    assert_eq!(of(EVENING, &said), "1588413600 tracecast-defer seen");
    let notes = std::fs::read_to_string(out.join("NOTES.txt")).unwrap();
    assert!(notes.contains("defer_job_submit.lua") && !notes.contains("defer_release.sh"), "{notes}");
    // A later begin time of the user's own is kept.
    let later = "{ script = \"x\", tres_per_node = \"gres/gpu:1\", time_limit = 120, begin_time = 1588500000 }";
    assert_eq!(of(EVENING, later), "1588500000 nil");
}

#[test]
fn a_limit_holds_jobs_until_a_clean_hour_comes() {
    let folder = Folder::new();
    let out = emitted(&folder, &hours(2020, &[]));
    let table = std::fs::read_to_string(out.join("defer.csv")).unwrap();
    let row = "2020-05-01T00:00:00Z,2020-05-02T00:00:00Z,1,1 to 6 h,100,g/kWh,86400";
    assert!(table.lines().any(|line| line == row), "{table}");
    // The script starts what is marked if the hour is clean, and says until when it lasts.
    let script = std::fs::read_to_string(out.join("defer_release.sh")).unwrap();
    let open_until = folder.path("open_until");
    folder.file("defer_release.sh", &script.replace("/var/spool/slurm/defer_open_until", &open_until));
    let jobs = "JobId=7 JobName=a JobState=PENDING Priority=1 AdminComment=tracecast-defer cost_center=42 Nice=0\nJobId=8 JobName=b JobState=PENDING Priority=1 Nice=0\nJobId=9 JobName=c JobState=RUNNING Priority=1 AdminComment=tracecast-defer Nice=0\n";
    let listed = folder.file("jobs.txt", jobs);
    let started = folder.path("started.txt");
    folder.file(
        "scontrol",
        &format!("#!/bin/sh\nif [ \"$1\" = -o ]; then cat {listed}; else echo \"$@\" >> {started}; fi\n"),
    );
    folder.file("date", &format!("#!/bin/sh\necho {EVENING}\n"));
    let bin = PathBuf::from(folder.path("."));
    let release = |value: &str| {
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let run = "chmod +x scontrol date; sh defer_release.sh \"$1\"";
        Command::new("sh").args(["-c", run, "sh", value]).current_dir(&bin).env("PATH", path).output()
    };
    let Ok(dirty) = release("100.5") else {
        tracecast_tests::skipped::record("sh", false);
        return;
    };
    assert!(dirty.status.success() && !PathBuf::from(&started).exists(), "{}", stderr(&dirty));
    assert!(release("100").unwrap().status.success());
    assert_eq!(std::fs::read_to_string(&started).unwrap(), "update JobId=7 StartTime=now\n");
    // Until 21:00.
    assert_eq!(std::fs::read_to_string(&open_until).unwrap().trim(), "1588366800");
    assert!(release("400").unwrap().status.success() && !PathBuf::from(&open_until).exists());
    // A gap of the feed, another unit.
    for value in ["dirty", "-", ".", "1.2.3", "", "0.1"] {
        assert_eq!(release(value).unwrap().status.code(), Some(2), "{value}");
    }
    // One job that cannot be started keeps none of the others from it.
    let refusing = format!(
        "#!/bin/sh\nif [ \"$1\" = -o ]; then sed s/JobId=8/JobId=7/ {listed}; sed -n s/JobId=7/JobId=6/p {listed}; else echo \"$@\" >> {started}; [ \"$2\" != JobId=7 ]; fi\n"
    );
    folder.file("scontrol", &refusing);
    let partly = release("100").unwrap();
    assert_eq!(partly.status.code(), Some(1), "{}", stderr(&partly));
    assert!(
        std::fs::read_to_string(&started)
            .unwrap()
            .ends_with("update JobId=7 StartTime=now\nupdate JobId=6 StartTime=now\n")
    );
    assert!(std::fs::read_to_string(out.join("NOTES.txt")).unwrap().contains("defer_release.sh"));
    assert!(script.contains("Carbon intensity is of zone X"), "{script}");
    // The lines hold a job for as long as it may wait, and mark it; in a clean hour it starts at once.
    let lines = std::fs::read_to_string(out.join("defer_job_submit.lua")).unwrap();
    let of = |until: Option<i64>, job: &str| begin_time(&folder, &lines, (EVENING, until), job);
    let Some(found) = of(None, &job("gres/gpu:1", "")) else {
        tracecast_tests::skipped::record("lua", false);
        return;
    };
    assert_eq!(found, format!("{} tracecast-defer", EVENING + 86_400));
    assert_eq!(of(Some(EVENING - 1), &job("gres/gpu:1", "")).unwrap(), found);
    assert_eq!(of(Some(EVENING + 2_400), &job("gres/gpu:1", "")).unwrap(), "0 nil");
    let later = "{ script = \"x\", tres_per_node = \"gres/gpu:1\", time_limit = 120, begin_time = 1588370000 }";
    assert_eq!(of(None, later).unwrap(), "1588370000 nil");
}

#[test]
fn hours_of_another_year_are_not_emitted() {
    let folder = Folder::new();
    let (jobs, carbon) = (folder.file("cluster_log.csv", &hourly()), folder.file("c.csv", &hours(2023, &[])));
    let to = folder.path("emitted");
    let asked = [
        "plan",
        "defer",
        &jobs,
        "--carbon",
        &carbon,
        "--timezone",
        "UTC",
        "--mean-wait",
        "24h",
        "--carbon-shift",
        "157w",
        "--emit-to",
        &to,
    ];
    let output = tracecast(&asked);
    assert!(output.status.success() && stderr(&output).contains("needs those up to today"), "{}", stderr(&output));
    assert!(!PathBuf::from(&to).join("defer.csv").exists());
}

#[test]
fn hours_without_a_price_leave_jobs_out_too() {
    let folder = Folder::new();
    let (jobs, carbon) = (folder.file("cluster_log.csv", &hourly()), folder.file("c.csv", &hours(2020, &[])));
    let with_prices = |priced: &str| {
        let priced = folder.file("p.csv", priced);
        asked(&[&jobs, "--carbon", &carbon, "--energy-price", &priced])
    };
    // Eighteen days of prices: jobs that may run into the nineteenth are left out under every way.
    let eighteen: String = prices().lines().take(1 + 18 * 24).map(|line| format!("{line}\n")).collect();
    let output = with_prices(&eighteen);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert!(answer["jobs_without_value"].as_u64().unwrap() > 3 * 24, "{}", answer["jobs_without_value"]);
    // Prices of another year.
    let other = with_prices(&prices().replace("2020-", "2019-"));
    assert!(!other.status.success() && stderr(&other).contains("prices of electricity"), "{}", stderr(&other));
}

#[test]
fn nothing_is_emitted_that_is_not_advised() {
    let folder = Folder::new();
    let (jobs, carbon) = (folder.file("cluster_log.csv", &hourly()), folder.file("c.csv", &hours(2020, &[])));
    let to = folder.path("emitted");
    let out = PathBuf::from(&to);
    let asked =
        ["plan", "defer", &jobs, "--carbon", &carbon, "--timezone", "UTC", "--mean-wait", "0s", "--emit-to", &to];
    let output = tracecast(&asked);
    assert!(
        output.status.success() && stderr(&output).contains("nothing is written to --emit-to: no change is advised"),
        "{}",
        stderr(&output)
    );
    assert!(!out.join("defer.csv").exists());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    is_the_same_with_any_threads(&SAMPLE);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &hourly());
    let carbon = folder.file("c.csv", &hours(2020, &[]));
    let said = |more: &[&str]| {
        let output = tracecast(&[&["plan", "defer", &jobs, "--timezone", "UTC", "--quiet"][..], more].concat());
        assert!(!output.status.success(), "{more:?}");
        stderr(&output)
    };
    assert!(said(&[]).contains("name a file of hourly ones with --carbon"));
    assert!(said(&["--minimise", "price", "--carbon", &carbon]).contains("--energy-price"));
    assert!(said(&["--carbon", &carbon, "--max-wait", "8d"]).contains("--max-wait is from 1h to 7d"));
    assert!(said(&["--carbon", &carbon, "--max-wait", "2h", "--mean-wait", "3h"]).contains("--mean-wait is longer"));
    assert!(said(&["--carbon", &carbon, "--class-by", "limit"]).contains("no job records a time limit"));
    assert!(said(&["--carbon", &carbon, "--carbon-shift", "3d"]).contains("write whole weeks"));
    assert!(said(&["--carbon", &carbon, "--gpu-kw", "0"]).contains("kW"));
    assert!(said(&["--carbon", &carbon, "--reserved", "3"]).contains("--offers"));
    let priced = folder.file("p.csv", &prices());
    assert!(said(&["--minimise", "price", "--carbon", &carbon, "--energy-price", &priced]).contains("are not used"));
    let dollars = folder
        .file("d.toml", "currency = \"USD\"\n[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 1\non_demand = 4.0\n");
    assert!(said(&["--carbon", &carbon, "--energy-price", &priced, "--offers", &dollars]).contains("one currency"));
    assert!(said(&["--zone", "DE", "--energy-price", &priced]).contains("are not used"));
    assert!(said(&["--carbon", &carbon, "--carbon-shift", "53w"]).contains("leave --carbon-shift out"));
    let offers = "currency = \"EUR\"\n[[instance]]\nname = \"a\"\ngpu = \"V100\"\ngpus = 1\non_demand = 4.0\n";
    let offers = folder.file("o.toml", offers);
    assert!(said(&["--carbon", &carbon, "--offers", &offers, "--reserved", "3"]).contains("reserved price"));
    assert!(said(&["--carbon", &carbon, "--zone", "DE"]).contains("there is no zone `DE`"));
    let nothing = folder.file("empty.csv", "a,b\n1,2\n");
    assert!(said(&["--carbon", &nothing]).contains("empty.csv"));
    assert!(said(&["--energy-price", &nothing]).contains("no time and price"));
    // Only a day of hours: no job before the split has its hours.
    let day: String = hours(2020, &[]).lines().take(25).map(|line| format!("{line}\n")).collect();
    let short = folder.file("day.csv", &day);
    assert!(said(&["--carbon", &short]).contains("there are no jobs on either side of the split"));
}
