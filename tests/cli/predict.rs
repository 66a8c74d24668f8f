//! `tracecast model train`, `model predict duration`, `serve` and `backtest`, as a user meets them.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Child, ChildStderr};

use serde_json::Value;

use super::*;

/// Two users: `ann` runs about 100 s, `bob` about an hour, by turns that look drawn; the last job of each still waits.
fn jobs(count: u32) -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    let time = |s: u32| {
        let (day, rest) = (s / 86_400, s % 86_400);
        // From 2020-04-01 on; April has room for 30 days.
        format!("2020-04-{:02} {:02}:{:02}:{:02}", 1 + day, rest / 3600, rest / 60 % 60, rest % 60)
    };
    for at in 0..count {
        let long = (at.wrapping_mul(2_654_435_761) >> 16).is_multiple_of(3);
        let run = if long { 3600 } else { 100 } + at * 7919 % 50;
        let submit = at * 3600;
        let (user, end) = (if long { "bob" } else { "ann" }, submit + run);
        text += &format!("{at},{user},va,1,4,1,COMPLETED,{},{},{},{run},0\n", time(submit), time(submit), time(end));
    }
    for (at, user) in [(count, "ann"), (count + 1, "bob")] {
        text += &format!("{at},{user},va,1,4,1,PENDING,{},,,,\n", time(count * 3600));
    }
    text
}

struct Site {
    folder: Folder,
    source: String,
    model: String,
}

fn trained() -> Site {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &jobs(600));
    let model = folder.path("site.model");
    let output = tracecast(&["model", "train", "duration", &source, "--trees", "60", "--out", &model]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("learned from 600 ended jobs"), "{}", stderr(&output));
    Site { folder, source, model }
}

fn predict(site: &Site, more: &[&str]) -> Output {
    tracecast(&[&["model", "predict", "duration", &site.source, "--model", &site.model], more].concat())
}

#[test]
fn waiting_jobs_are_predicted_in_every_form_and_simulate_reads_them() {
    let site = trained();
    let output = predict(&site, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..2], ["job_id", "predicted_duration_s"]);
    let median = |id: &str| rows.iter().find(|row| row[0] == id).unwrap()[5].parse::<f64>().unwrap();
    // Ann's jobs run 100 to 150 s, Bob's 3,600 to 3,650 s.
    assert!((90.0..300.0).contains(&median("600")), "{text}");
    assert!((2000.0..4000.0).contains(&median("601")), "{text}");
    let lines = stdout(&predict(&site, &["--format", "jsonl"]));
    assert_eq!(json(lines.lines().next().unwrap())["schema"], "predictions/1");
    // 600 and 601 wait: nobody knows when they will end.
    assert!(lines.lines().all(|line| json(line)["expected_end"].is_null()), "{lines}");
    for (form, magic) in [("parquet", b"PAR1".as_slice()), ("arrow", b"ARROW1".as_slice())] {
        assert!(predict(&site, &["--format", form]).stdout.starts_with(magic), "{form}");
    }
    // Put to a later dump, it predicts the jobs that came since, too: 600 and 601 ran after all, 602 to 619 ran, 620 and 621 wait.
    let later = Site { source: site.folder.file("cluster_log.csv", &jobs(620)), ..site };
    let output = predict(&later, &[]);
    assert_eq!(stdout(&output).lines().count(), 1 + 22, "{}", stderr(&output));
    let site = later;
    let file = site.folder.file("predictions.csv", &stdout(&output));
    let cluster = site.folder.file("cluster.toml", "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 8\n");
    let replay = ["simulate", &site.source, "--site", &cluster, "--order", "qssf", "--predictions", &file];
    let output = tracecast(&replay);
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Ann's jobs run about two minutes. One of hers has run for two hours when the record ends: it is not expected to have ended by then.
#[test]
fn a_job_that_still_runs_is_expected_to_end_later() {
    let site = trained();
    let running = jobs(600) + "700,ann,va,1,4,1,RUNNING,2020-04-25 22:00:00,2020-04-25 22:00:00,,,0\n";
    let source = site.folder.file("cluster_log.csv", &running);
    let lines = stdout(&predict(&Site { source, ..site }, &["--format", "jsonl"]));
    let line = lines.lines().map(json).find(|line| line["job_id"] == "700").unwrap();
    assert!(line["mean_s"].as_f64().unwrap() > 0.0);
    // The record ends when 600 and 601 are submitted, 600 hours after 1 April.
    assert!(line["expected_end"].as_str().unwrap() >= "2020-04-26T00:00:00+08:00", "{line}");
}

#[test]
fn the_model_is_the_same_whatever_the_number_of_threads() {
    let site = trained();
    let other = site.folder.path("other.model");
    let output =
        tracecast(&["--threads", "1", "model", "train", "duration", &site.source, "--trees", "60", "--out", &other]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read(&site.model).unwrap() == std::fs::read(&other).unwrap());
}

#[test]
fn files_for_slurm_prometheus_and_xgboost_are_written() {
    let site = trained();
    let (slurm, prom) = (site.folder.path("slurm"), site.folder.path("jobs.prom"));
    let output = predict(&site, &["--slurm", &slurm, "--textfile", &prom]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = std::fs::read_to_string(Path::new(&slurm).join("tracecast-durations.txt")).unwrap();
    assert!(table.starts_with("tracecast-durations 2 ") && table.contains("\nu ann 1\t"), "{table}");
    let script = std::fs::read_to_string(Path::new(&slurm).join("job_submit.lua")).unwrap();
    assert!(script.contains("set_time_limit = false"));
    assert!(std::fs::read_to_string(&prom).unwrap().contains("tracecast_predicted_jobs{vc=\"va\"} 2\n"));
    let trees = site.folder.path("trees");
    let again = site.folder.path("again.model");
    let train = ["model", "train", "duration", &site.source, "--trees", "5", "--out", &again, "--xgboost", &trees];
    assert!(tracecast(&train).status.success());
    let text = std::fs::read_to_string(Path::new(&trees).join("p90.json")).unwrap();
    assert!(json(&text)["learner"]["gradient_booster"].is_object());
}

#[test]
fn what_cannot_be_done_is_said() {
    let site = trained();
    let damaged = site.folder.path("damaged.model");
    let mut bytes = std::fs::read(&site.model).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, &bytes).unwrap();
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = tracecast(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert!(stdout(&output).is_empty());
    };
    refused(&["model", "predict", "duration", &site.source, "--model", &damaged], 1, "SHA-256");
    refused(&["model", "predict", "duration", &site.source, "--model", &site.source], 1, "no model file");
    refused(&["model", "backtest", "duration", &site.source, "--methods", "oracle"], 2, "running_mean");
    let few = site.folder.file("few.csv", JOBS);
    refused(&["model", "train", "duration", &few, "--out", &site.folder.path("few.model")], 5, "50 are the least");
    let empty = site.folder.file("token", " \n");
    refused(&["serve", "--model", &site.model, "--token-file", &empty], 1, "token is empty");
}

#[test]
fn the_back_test_names_every_model_and_chooses_one() {
    let site = trained();
    let models = "running_mean,weighted_mean,qssf,linear,survival,rank,boosted";
    let arguments =
        ["model", "backtest", "duration", &site.source, "--trees", "20", "--methods", models, "--format", "json"];
    let output = tracecast(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let found = answer["models"].as_array().unwrap();
    let names: Vec<&str> = found.iter().map(|model| model["name"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), format!("{models},ensemble"));
    assert!(names.contains(&answer["chosen"].as_str().unwrap()));
    for model in found {
        for field in ["spearman", "kendall", "r2", "coverage80", "coverage90", "mae_s", "within_2x"] {
            assert!(model[field].is_f64(), "{field} of {}", model["name"]);
        }
        assert!(model["pinball"]["p90"].as_f64().unwrap() > 0.0);
    }
    let of = |name: &str| &found[names.iter().position(|listed| *listed == name).unwrap()];
    let loss = |name: &str| of(name)["pinball"]["p50"].as_f64().unwrap();
    // The VC's mean lies between the two users; whoever looks at the user does better.
    assert!(loss("boosted") < 0.5 * loss("running_mean"), "{} of {}", loss("boosted"), loss("running_mean"));
    assert_eq!(answer["reported"]["jobs"], 121);
}

/// A server that is stopped however the test ends.
struct Server(Child, BufReader<ChildStderr>);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_server_answers_those_with_the_token_learns_and_stops_when_told() {
    let site = trained();
    let token = site.folder.file("token", "secret-token\n");
    let journal = site.folder.path("journal");
    let arguments =
        ["serve", "--model", &site.model, "--token-file", &token, "--bind", "127.0.0.1:0", "--journal", &journal];
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_tracecast")).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let mut server = Server(child, stderr);
    // First it warns of a token of 12 characters.
    let mut warned = String::new();
    let mut line = String::new();
    while !line.contains("http://") {
        warned.push_str(&std::mem::take(&mut line));
        assert!(server.1.read_line(&mut line).unwrap() > 0, "{warned}");
    }
    assert!(warned.contains("the token has 12 characters"), "{warned}");
    let address = line.split("http://").nth(1).unwrap().split(',').next().unwrap().to_owned();
    let post = |path: &str, token: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let ask = r#"{"jobs":[{"job_id":"n","submit_ms":1588000000000,"user":"bob","vc":"va","gpus":1}]}"#;
    assert!(post("/v1/predict", "wrong", ask).starts_with("HTTP/1.1 401"));
    let answer = post("/v1/predict", "secret-token", ask);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let said = json(answer.split("\r\n\r\n").nth(1).unwrap());
    assert!(said["predictions"][0]["p50_s"].as_f64().unwrap() > 300.0, "{said}");
    let events = r#"{"events":[{"event":"submitted","job_id":"n","submit_ms":1588000000000,"user":"bob","vc":"va","gpus":1},
        {"event":"started","job_id":"n","time_ms":1588000001000},{"event":"ended","job_id":"n","time_ms":1588000061000}]}"#;
    let learned = post("/v1/events", "secret-token", events);
    assert!(learned.starts_with("HTTP/1.1 200"), "{learned}");
    let pid = server.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(server.0.wait().unwrap().success());
}

#[test]
fn the_replayed_queue_says_how_near_it_is_to_the_record() {
    let folder = Folder::new();
    let cluster = folder.file("sample.toml", &stdout(&tracecast(&["cluster", "datasets/sample"])));
    let ask = |scan: &str, format: &str| {
        let window = ["--eval-from", "2024-03-12", "--eval-to", "2024-03-22", "--methods", "running_mean"];
        let asked = ["model", "backtest", "duration", "datasets/sample", "--site", &cluster, "--scan", scan];
        tracecast(&[&asked[..], &window, &["--format", format, "--quiet"]].concat())
    };
    let fidelity = |scan: &str| json(&stdout(&ask(scan, "json")))["downstream"]["fidelity"].clone();
    let (strict, skip) = (fidelity("strict"), fidelity("skip"));
    assert_eq!((&strict["verdict"], &strict["nearest"]["scan"]), (&"far_off".into(), &"skip".into()), "{strict}");
    assert!(["exact", "good", "rough"].iter().any(|verdict| skip["verdict"] == *verdict), "{skip}");
    assert!(skip.get("nearest").is_none());
    let said = stdout(&ask("strict", "table")).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("The queue is that of FIFO as it is replayed here.") && said.contains("--scan skip"),
        "{said}"
    );
    // Unnamed, it is the scan that repeats what was recorded before the window, as the notes say.
    let unnamed = ["model", "backtest", "duration", "datasets/sample", "--site", &cluster];
    let window = ["--eval-from", "2024-03-12", "--eval-to", "2024-03-22", "--methods", "running_mean"];
    let found = json(&stdout(&tracecast(&[&unnamed[..], &window, &["--format", "json", "--quiet"]].concat())));
    assert_eq!(found["downstream"], json(&stdout(&ask("skip", "json")))["downstream"]);
    let notes: Vec<&str> = found["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
    assert!(notes.iter().any(|note| note.starts_with("Scan: skip, as no --scan is named")), "{notes:?}");
    // Backfill is refused: it goes by lengths, which orders by a score do not know.
    assert_eq!(ask("easy", "json").status.code(), Some(2));
}

/// Regression test: with --eval-from alone and simple models no order was chosen beforehand, and
/// nothing said why.
#[test]
fn simple_models_have_an_order_chosen_beforehand_or_a_reason_why_not() {
    let folder = Folder::new();
    let cluster = folder.file("sample.toml", &stdout(&tracecast(&["cluster", "datasets/sample"])));
    let asked = ["model", "backtest", "duration", "datasets/sample", "--site", &cluster, "--methods", "running_mean"];
    let ask = |window: &[&str]| {
        json(&stdout(&tracecast(&[&asked[..], window, &["--scan", "skip", "--format", "json", "--quiet"]].concat())))
    };
    let notes = |found: &Value| found["notes"].to_string();
    let found = ask(&["--eval-from", "2024-03-20"]);
    let outcomes = found["downstream"]["outcomes"].as_array().unwrap();
    let chosen: Vec<&Value> = outcomes.iter().filter(|of| of["chosen_before"] == true).collect();
    assert_eq!(chosen.len(), 1, "{chosen:?}");
    assert!(chosen[0]["before"]["mean_wait_s"].is_number(), "{}", chosen[0]);
    assert!(outcomes.iter().any(|of| of["model"] == "running_mean" && of["ageing_s"].is_number()));
    assert!(notes(&found).contains("which --eval-from does not move"), "{}", notes(&found));
    // The end of the record is where the window ends.
    let to_the_end = ask(&["--eval-from", "2024-03-20", "--eval-to", "2024-03-31T15:55:58Z"]);
    let replayed = |found: &Value| found["downstream"]["jobs"].clone();
    assert_eq!(replayed(&to_the_end), replayed(&found));
    for (window, why) in
        [(&[][..], "with --eval-from it is chosen"), (&["--eval-from", "2024-03-12"], "the record begins later")]
    {
        let found = ask(window);
        let none = found["downstream"]["outcomes"].as_array().unwrap().iter().all(|of| of["chosen_before"] != true);
        assert!(none && notes(&found).contains(why), "{why}: {}", notes(&found));
    }
}

/// 600 jobs of a GPU each, one every 20 minutes, of users whose jobs run long or short; from job
/// `changed_from` on runs are others.
fn busy(changed_from: u32) -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    let time = |s: u32| format!("2020-04-{:02} {:02}:{:02}:{:02}", 1 + s / 86_400, s / 3600 % 24, s / 60 % 60, s % 60);
    for at in 0..600u32 {
        let long = (at.wrapping_mul(2_654_435_761) >> 16).is_multiple_of(3);
        let run = if long != (at >= changed_from) { 3300 } else { 100 } + at * 7919 % 50;
        let (user, submit) = (if long { "bob" } else { "ann" }, at * 1200);
        let (from, to) = (time(submit), time(submit + run));
        text += &format!("{at},{user},va,1,4,1,COMPLETED,{from},{from},{to},{run},0\n");
    }
    text
}

/// Jobs after the split run as they please: what a plan chooses before it with a model of its own, or
/// the models of a folder, stays.
#[test]
fn no_plan_driven_by_a_model_looks_past_its_split() {
    let folder = Folder::new();
    let cluster = folder.file("cluster.toml", "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 1\n");
    let offers = folder.file("offers.toml", super::burst::OFFERS);
    let chosen = |name: &str, changed_from: u32| {
        // The split is when job 400 is submitted.
        let source = folder.file(&format!("{name}_cluster_log.csv"), &busy(changed_from));
        let split = ["--eval-from", "2020-04-06T13:20:00+08:00", "--format", "json", "--quiet"];
        let ask = |arguments: &[&str]| {
            let output = tracecast(&[arguments, &split].concat());
            assert!(output.status.success(), "{}", stderr(&output));
            json(&stdout(&output))
        };
        let models = folder.path(&format!("{name}_models"));
        assert!(tracecast(&["model", "train", &source, "--save", &models]).status.success());
        let queues = |more: &[&str]| {
            let answer = ask(&[&["plan", "queues", &source, "--site", &cluster], more].concat());
            let candidates = answer["candidates"].as_array().unwrap().iter();
            candidates.map(|of| (of["policy"].clone(), of["earlier"].clone(), of["cost"].clone())).collect::<Vec<_>>()
        };
        let burst = |more: &[&str]| {
            let answer = ask(&[&["plan", "rent", "burst", &source, "--offers", &offers], more].concat());
            let rules = answer["trial"]["rules"].as_array().unwrap().iter();
            // Whether waiting is planned at all is judged on the later weeks.
            let earlier = rules.filter(|rule| rule["id"] != "hindsight" && rule["id"] != "plan");
            earlier.map(|rule| (rule["id"].clone(), rule["chosen"].clone())).collect::<Vec<_>>()
        };
        let from = ["--models", &models];
        ([queues(&[]), queues(&from)], [burst(&[]), burst(&from)])
    };
    assert_eq!(chosen("one", 600), chosen("two", 400));
}

/// Later half of the jobs predicted from what had ended, and all models in one folder, which plans
/// read.
#[test]
fn all_models_of_a_record_drive_a_plan() {
    let folder = Folder::new();
    // Job 50 runs for 200 hours.
    let long = jobs(400).replace(
        "50,ann,va,1,4,1,COMPLETED,2020-04-03 02:00:00,2020-04-03 02:00:00,2020-04-03 02:0",
        "50,ann,va,1,4,1,COMPLETED,2020-04-03 02:00:00,2020-04-03 02:00:00,2020-04-11 10:0",
    );
    let source = folder.file("cluster_log.csv", &long);
    let models = folder.path("models");
    let output = tracecast(&["model", "train", &source, "--save", &models]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    let lines: Vec<&str> = table.lines().filter(|line| line.contains("not learned")).collect();
    // No telemetry, no pairs and no spot.
    assert_eq!(lines.len(), 3, "{table}");
    let mut files: Vec<String> =
        std::fs::read_dir(&models).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    assert_eq!(files, ["demand.model", "duration.csv", "duration.model"]);
    let past = std::fs::read_to_string(folder.path("models/duration.csv")).unwrap();
    let ids: Vec<u32> = past.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    // A job an hour, and 200 must have ended: with job 50 open, the first is that after job 201.
    assert!((201..=203).contains(&ids[0]) && ids.last() == Some(&401), "{ids:?}");
    assert_eq!(ids.len() as u32, 402 - ids[0]);
    let cluster = folder.file("cluster.toml", "[[vc]]\nname = \"va\"\nnodes = 1\ngpus_per_node = 1\n");
    let plan = |more: &[&str]| {
        let output = tracecast(&[&["plan", "queues", &source, "--site", &cluster, "--format", "json"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    // With the folder and without it, a plan tells what predicted runs are worth.
    for answer in [plan(&["--models", &models]), plan(&[])] {
        let worth = &answer["forecast_worth"];
        assert!(["naive", "model", "truth"].iter().all(|driver| worth[driver].is_number()), "{worth}");
        assert!(worth["unit"] == "s" && worth["gap_closed"]["value"].is_number(), "{worth}");
        assert!(worth["used"] == "naive" || worth["used"] == "model", "{worth}");
    }
    let none = plan(&["--models", "none"]);
    assert!(none["forecast_worth"]["model"].is_null() && none["forecast_worth"]["no_gap"].is_string(), "{none}");
    // Another trace with the same identifiers is not the one of the predictions.
    let other = folder.file("other.csv", &jobs(100).replace("2020-04-", "2020-03-"));
    let arguments = ["plan", "queues", &other, "--site", &cluster, "--models", &models];
    assert!(stderr(&tracecast(&arguments)).contains("predicts none"));
    // A record too short for demand takes the models of the longer one away.
    let short = folder.file("short.csv", &jobs(60));
    assert!(tracecast(&["model", "train", &short, "--save", &models, "--force"]).status.success());
    assert!(!std::path::Path::new(&folder.path("models/duration.csv")).exists());
    for (arguments, what) in [
        (&["plan", "queues", &source, "--site", &cluster, "--models", &folder.path("")][..], "duration.model"),
        (&["model", "train", &source], "--save"),
    ] {
        let output = tracecast(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(what), "{}", stderr(&output));
    }
}

/// Plans that fit what they need to what they read: `--models none` leaves what forecasts out, a folder
/// without anything for them is noted, and one that is not there is refused.
#[test]
fn plans_with_models_of_their_own_take_a_folder_or_none() {
    let folder = Folder::new();
    let counts = folder.file("node_counts.csv", &plan::counts());
    let zone = folder.file("us-east-1a_v100_1.json", &cloud::regular(1));
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let plans = [
        words(&format!("plan power {counts}")),
        words(&format!("plan rent job {zone} --work 12h --deadline 24h --changeover 0s --price-ratio 3")),
        serving::asked(&folder),
    ];
    for plan in plans {
        let ask = |models: &str| {
            let words = plan.iter().map(String::as_str);
            let output = tracecast(&words.chain(["--models", models, "--format", "json"]).collect::<Vec<_>>());
            (output.status.code(), stderr(&output), stdout(&output))
        };
        let answer = |models: &str| {
            let (code, errors, text) = ask(models);
            assert_eq!(code, Some(0), "{errors}");
            json(&text)
        };
        let (naive, own) = (answer("none"), answer(&folder.path("")));
        let worth = &naive["forecast_worth"];
        assert!(worth["used"] != "model" && worth["why"].as_str().unwrap().ends_with(" was to be chosen"), "{worth}");
        let is_noted = |of: &serde_json::Value| {
            of["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().starts_with("Nothing of --models"))
        };
        assert!(is_noted(&own) && !is_noted(&naive));
        let (code, errors, _) = ask(&folder.path("nowhere"));
        assert!(code == Some(2) && errors.contains("model train"), "{errors}");
    }
}
