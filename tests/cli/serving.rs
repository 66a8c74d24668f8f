//! `plan serving`, as a user meets it.

use serde_json::Value;
use tracecast_tests::whole_trace;
use yaml_rust2::YamlLoader;

use super::*;

/// Forty minutes in which the load rises and falls every ten: from half a request a second to three and a half, evenly within each second's share.
fn log() -> String {
    let mut text = "time,input_tokens,output_tokens\n".to_owned();
    let mut owed = 0.0f64;
    for tick in 0..24_000u32 {
        let second = f64::from(tick) / 10.0;
        owed += (2.0 + 1.5 * (second / 600.0 * std::f64::consts::TAU).sin()) / 10.0;
        while owed >= 1.0 {
            owed -= 1.0;
            // Lengths that differ, and hang on nothing but the tick.
            text.push_str(&format!("{second:.1},{},{}\n", 2_000 + tick * 37 % 4_000, 20 + tick * 13 % 60));
        }
    }
    text
}

/// The log with the invented replica, which starts in 30 s here, and the invented prices; the log and the table that were written for it.
pub(crate) fn asked(folder: &Folder) -> Vec<String> {
    let example = std::fs::read_to_string(root().join("datasets/services/example.toml")).unwrap();
    let table = folder.file("service.toml", &example.replace("\"90s\"", "\"30s\""));
    let log = folder.file("requests.csv", &log());
    let words = ["plan", "serving", &log, "--service", &table, "--offers", "datasets/offers/example.toml"];
    let more = ["--target", "ttft=6s,tpot=200ms,share=0.95", "--quiet"];
    words.iter().chain(&more).map(|word| (*word).to_owned()).collect()
}

fn run(asked: &[String], more: &[&str]) -> Output {
    let words: Vec<&str> = asked.iter().map(String::as_str).chain(more.iter().copied()).collect();
    tracecast(&words)
}

#[test]
fn a_log_is_planned_and_the_setting_is_written() {
    let folder = Folder::new();
    let (asked, out) = (asked(&folder), folder.path("set"));
    let target = ["--standard", "target", "--splits", "2", "--format", "json"];
    let output = run(&asked, &[&target[..], &["--emit-to", &out]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(
        (&answer["schema"], &answer["replica"]["currency"]),
        (&Value::from("plan-serving/2"), &Value::from("USD"))
    );
    let number = |value: &Value| value.as_f64().unwrap();
    let (trial, roles) = (&answer["trial"], &answer["trial"]["roles"]);
    let by = trial["rules"].as_array().unwrap();
    let policy = |name: &Value| by.iter().find(|row| &row["id"] == name).unwrap();
    // An eighth of 30 USD an hour; costs are hours of replicas at that price, and what keeps the target costs no less than the bound.
    for row in by {
        let later = &row["later"];
        assert!((number(&later["cost"]) - 3.75 * number(&later["on_demand_h"])).abs() < 1e-9, "{row}");
        assert_eq!(row["amount"], later["cost"]);
        assert!(row["kept"] == false || number(&later["cost"]) >= number(&answer["bound_cost"]), "{row}");
        assert!(row["kept"] == false || number(&row["regret"]) >= -1e-9, "{row}");
        assert!((number(&later["attained"]) - number(&later["in_time"]) / number(&later["requests"])).abs() < 1e-12);
    }
    // A load that rises and falls is not served by a constant number, and each policy is one row.
    let (best, against) = (policy(&roles["plan"]), policy(&roles["baseline"]));
    assert_ne!(roles["plan"], "constant");
    assert_eq!((&best["kept"], &answer["verdict"]), (&Value::from(true), &Value::from("advised")));
    let saving = 1.0 - number(&best["later"]["cost"]) / number(&against["later"]["cost"]);
    assert!((saving - number(&trial["saving"]["value"])).abs() < 1e-6, "{saving} {}", trial["saving"]);
    assert_eq!(answer["recommendation"]["plan"], "serving");
    // Beside each reactive rule, where it is told of the same one the same is told.
    let beside = answer["beside"].as_array().unwrap();
    assert_eq!(beside.len(), 2);
    let same = beside.iter().find(|row| row["by"] == roles["baseline"]).unwrap();
    assert_eq!(same["saving"], trial["saving"]);
    // Two windows are the later half; the first is chosen at the same moment, so the same is set.
    let windows = answer["splits"].as_array().unwrap();
    let requests: u64 = windows.iter().map(|row| row["chosen"]["requests"].as_u64().unwrap()).sum();
    assert_eq!((windows.len(), requests), (2, best["later"]["requests"].as_u64().unwrap()));
    assert_eq!((&windows[0]["best"], &windows[0]["setting"]), (&roles["plan"], &best["setting"]));
    assert_eq!((&windows[0]["split"], &windows[1]["to"]), (&trial["split"], &trial["windows"][0]["to"]));
    let many = run(&asked, &["--splits", "50"]);
    assert!(stderr(&many).contains("ask for 9 windows or fewer (--splits)"), "{}", stderr(&many));
    // As many in time as reactive scaling serves: late with no more of the earlier requests, and chosen again at the same split.
    let strict = json(&stdout(&run(&asked, &["--format", "json"])));
    let row = |name: &str| strict["trial"]["rules"].as_array().unwrap().iter().find(|row| row["id"] == name).unwrap();
    let in_time = |name: &str| row(name)["earlier"]["in_time"].as_u64().unwrap();
    assert_eq!((&strict["standard"], &answer["standard"]), (&Value::from("reactive"), &Value::from("target")));
    assert_eq!(row("forecast")["as_good_as_reactive"], true);
    assert!(in_time("forecast") >= in_time("reactive"), "{}", row("forecast"));
    // What is written can be read, and holds what is answered.
    let keda = std::fs::read_to_string(folder.path("set/keda-scaledobject.yaml")).unwrap();
    let document = &YamlLoader::load_from_str(&keda).unwrap()[0];
    assert_eq!(document["kind"].as_str(), Some("ScaledObject"));
    let spec = &document["spec"];
    assert_eq!(spec["maxReplicaCount"].as_i64(), answer["ahead"]["limit"].as_i64());
    assert_eq!(spec["pollingInterval"].as_i64(), Some(30));
    assert_eq!(spec["triggers"][0]["type"].as_str(), Some("prometheus"));
    assert_eq!(spec["triggers"][0]["useCachedMetrics"].as_bool(), Some(true));
    let up = &spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleUp"]["policies"][0];
    assert_eq!(up["value"].as_i64(), answer["ahead"]["limit"].as_i64());
    let sky = std::fs::read_to_string(folder.path("set/skyserve-service.yaml")).unwrap();
    let document = &YamlLoader::load_from_str(&sky).unwrap()[0];
    assert_eq!(document["resources"]["accelerators"].as_str(), Some("A100-80GB:1"));
    let of_a_replica = number(&answer["ahead"]["requests_per_s"]) / number(&answer["ahead"]["mean_replicas"]);
    let written = document["service"]["replica_policy"]["target_qps_per_replica"].as_f64().unwrap();
    assert!((written / of_a_replica - 1.0).abs() < 0.005, "{sky}");
    // The same, whatever the number of threads.
    let one = run(&asked, &[&target[..], &["--threads", "1"]].concat());
    assert!(one.stdout == output.stdout);
}

#[test]
fn the_answer_as_text() {
    let folder = Folder::new();
    asked(&folder);
    let offers = std::fs::read_to_string(root().join("datasets/offers/example.toml")).unwrap();
    folder.file("offers.toml", &offers);
    // In the folder, so that no path of it is in the answer.
    let output = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["plan", "serving", "requests.csv", "--service", "service.toml", "--offers", "offers.toml"])
        .args(["--target", "ttft=6s,tpot=200ms,share=0.95", "--quiet"])
        .current_dir(folder.path(""))
        .env("NO_COLOR", "1")
        .env_remove("COLUMNS")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("plan_serving", stdout(&output));
}

/// The figures of planner/RESULTS.md, held loosely: they are those of one later half hour.
#[test]
fn public_logs_are_served_as_well_as_by_reactive_scaling_for_less() {
    let ask = ["--service", "datasets/services/example.toml", "--format", "json", "--quiet"];
    for (file, target) in [
        ("inference/azure_llm_2023_conv.csv.gz", "ttft=2s,tpot=100ms,share=0.95"),
        ("inference/azure_llm_2023_code.csv.gz", "ttft=2s,tpot=100ms,share=0.95"),
        ("inference/mooncake_conversation.jsonl.gz", "ttft=30s,tpot=100ms,share=0.95"),
    ] {
        let Some(log) = whole_trace(file) else { return };
        let output =
            tracecast(&[&["plan", "serving", &log.display().to_string(), "--target", target], &ask[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let answer = json(&stdout(&output));
        let (by, roles) = (answer["trial"]["rules"].as_array().unwrap(), &answer["trial"]["roles"]);
        let row = |name: &Value| &by.iter().find(|row| &row["id"] == name).unwrap()["later"];
        let of = |name: &Value, what: &str| row(name)[what].as_f64().unwrap();
        // On the log of bursts no reactive setting kept the target when it was chosen, so the defaults stand for it.
        let (best, against) = (&roles["plan"], &roles["baseline"]);
        assert_eq!(against == "reactive_default", file.contains("code"), "{file}: {against}");
        assert!(of(best, "attained") >= of(against, "attained"), "{file}");
        assert!(of(best, "cost") < of(against, "cost"), "{file}");
        assert!(of(&Value::from("hindsight"), "cost") < of(best, "cost"), "{file}");
    }
}

#[test]
fn spot_stands_behind_on_demand() {
    let folder = Folder::new();
    // Eight replicas on spot for nine minutes of ten.
    let ticks: Vec<&str> = (0..40).map(|tick| if tick % 10 == 9 { "0" } else { "8" }).collect();
    let trace = folder
        .file("zone.json", &format!("{{\"metadata\": {{\"gap_seconds\": 60}}, \"data\": [{}]}}", ticks.join(", ")));
    let output = run(&asked(&folder), &["--spot", &trace, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let by = answer["trial"]["rules"].as_array().unwrap();
    let spot = by.iter().find(|row| row["id"] == "spot").unwrap();
    assert!(
        spot["later"]["spot_h"].as_f64().unwrap() > 0.0 && spot["later"]["on_demand_h"].as_f64().unwrap() > 0.0,
        "{spot}"
    );
    let cost =
        3.75 * spot["later"]["on_demand_h"].as_f64().unwrap() + 1.375 * spot["later"]["spot_h"].as_f64().unwrap();
    assert!((cost - spot["later"]["cost"].as_f64().unwrap()).abs() < 1e-9);
    // Hindsight knows on-demand alone, which is no measure of a setting on spot; nor is a commitment of it.
    let oracle = by.iter().find(|row| row["id"] == "hindsight").unwrap();
    assert!(oracle["words"].as_str().unwrap().ends_with("on demand only"), "{oracle}");
    let always = folder.file(
        "always.json",
        &format!("{{\"metadata\": {{\"gap_seconds\": 60}}, \"data\": [{}]}}", vec!["9"; 40].join(", ")),
    );
    let answer = json(&stdout(&run(&asked(&folder), &["--spot", &always, "--format", "json"])));
    let roles = &answer["trial"]["roles"];
    assert_eq!((&roles["plan"], &roles["oracle"]), (&Value::from("spot"), &Value::from("spot")));
    assert_eq!(answer["terms"], Value::from(Vec::<Value>::new()));
    // A trace that ends before the log says nothing of the rest.
    let short = folder.file("short.json", "{\"metadata\": {\"gap_seconds\": 60}, \"data\": [8, 8, 8]}");
    let output = run(&asked(&folder), &["--spot", &short]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("it is 3 min long, and the log of requests 39 min 59 s"), "{}", stderr(&output));
}

#[test]
fn a_target_that_nothing_keeps_is_said_at_once() {
    let folder = Folder::new();
    let log = folder.file("log.csv", &(log() + "soon,1,1\n"));
    let words = ["plan", "serving", &log, "--service", "datasets/services/example.toml", "--format", "json"];
    let output = tracecast(&[&words[..], &["--target", "ttft=1s,tpot=200ms,share=0.95"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!((&answer["verdict"], &answer["recommendation"]), (&Value::from("nothing_keeps"), &Value::Null));
    let by: Vec<&str> =
        answer["trial"]["rules"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(by, ["peak", "constant"]);
    // Why, and what could be promised instead: with a first token after that time, hardly any is late alone.
    let (action, log_of) =
        (answer["action"].as_str().unwrap(), |answer: &Value, key: &str| answer["log"][key].as_f64().unwrap());
    assert!(
        action.contains("are late even on a replica that has nothing else to do: the first token of 97.5 %"),
        "{action}"
    );
    assert!(action.contains("a looser target, of at least --target "), "{action}");
    let (_, target) = action.split_once("--target ").unwrap();
    let least = target.split(", ").next().unwrap();
    assert_eq!(answer["looser"]["written"], least);
    let again = json(&stdout(&tracecast(&[&words[..], &["--target", least]].concat())));
    assert!(log_of(&answer, "late_alone_share") > 0.025 && log_of(&again, "late_alone_share") <= 0.025, "{least}");
    // The target that is named is one that the same command then plans for.
    assert_eq!(answer["looser"]["advised"].as_bool(), Some(!again["recommendation"].is_null()), "{}", again["action"]);
    assert!(again["verdict"] != "nothing_keeps" && again["looser"].is_null(), "{}", again["action"]);
    // Nothing is to be set, and nothing stands beside reactive scaling: neither has a section.
    let text = stdout(&tracecast(&[&words[..5], &["--target", "ttft=1.25s,tpot=200ms"]].concat()));
    assert!(!text.contains("Beside reactive scaling") && !text.contains("What to set from now on"), "{text}");
    assert!(text.contains("first token within 1.25 s"), "{text}");
    for asked in ["ttft=300ms,tpot=10ms", "ttft=1s,tpot=25ms,share=0.9"] {
        let of = |target: &str| json(&stdout(&tracecast(&[&words[..], &["--target", target]].concat())));
        let answer = of(asked);
        let looser = &answer["looser"];
        let again = of(looser["written"].as_str().unwrap());
        assert_eq!(
            looser["advised"].as_bool(),
            Some(!again["recommendation"].is_null()),
            "{looser} {}",
            again["action"]
        );
    }
    // Where the row is told that could not be read: `tracecast inspect` reads no such log.
    let said = stderr(&output);
    assert!(said.contains("--format json lists them under `quality`.") && !said.contains("inspect"), "{said}");
    assert_eq!(answer["quality"]["quarantined"], 1);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let asked = asked(&folder);
    let (log, table) = (asked[2].clone(), asked[4].clone());
    let said = |words: &[&str], code: i32| {
        let output = tracecast(&[&["plan", "serving"], words, &["--quiet"]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(said(&[&log], 2).contains("--service"));
    assert!(said(&[&log, "--service", &table, "--target", "p99=1s"], 2).contains("ttft=2s,tpot=100ms,share=0.95"));
    assert!(said(&[&log, "--service", &table, "--slot", "10ms"], 2).contains("from 1s to 1h"));
    assert!(said(&[&log, "--service", &table, "--spot", "x.json"], 2).contains("--offers"));
    assert!(said(&[&log, "--service", &table, "--eval-from", "2020-01-01"], 2).contains("no date is in it"));
    assert!(said(&[&log, "--service", &table, "--model-name", "none"], 5).contains("no request"));
    let wrong =
        folder.file("wrong.toml", &std::fs::read_to_string(&table).unwrap().replace("max_batch = 48", "max_batch = 0"));
    assert!(said(&[&log, "--service", &wrong], 1).contains("max_batch is 0; write the most sequences"));
    let small = folder.file("small.toml", &std::fs::read_to_string(&table).unwrap().replace("200000", "100"));
    assert!(said(&[&log, "--service", &small], 5).contains("no request fits into the 100 tokens"));
    let elsewhere = folder.file("else.toml", &std::fs::read_to_string(&table).unwrap().replace("example.8a100", "p9"));
    assert!(
        said(&[&log, "--service", &elsewhere, "--offers", "datasets/offers/example.toml"], 1)
            .contains("offer is `p9`, and datasets/offers/example.toml has no such instance; there are example.8a100")
    );
    let few = folder.file("few.csv", "time,input_tokens,output_tokens\n0,1,1\n9,1,1\nsoon,1,1\n");
    assert!(said(&[&few, "--service", &table], 5).contains("are the least to plan with"));
    assert!(said(&[&few, "--service", &table, "--strict"], 3).contains("1 of 3 rows were quarantined"));
    let empty = folder.file("empty.csv", "");
    assert!(said(&[&empty, "--service", &table], 5).contains("the file is empty"));
    assert!(said(&["datasets/offers/example.toml", "--service", &table], 1).contains("this is no log of requests"));
}
