//! `plan rent instances`, as a user meets it.

use serde_json::Value;
use tracecast_tests::real_trace;

use super::*;

const RATES: &str = "\
gpu_type,job,gpus,steps_per_s
v100,vision,1,10
v100,vision,4,36
v100,vision,8,60
p100,vision,1,4
k80,vision,1,1
p100,text,1,5
v100,text,1,6
";
const JOBS: &str = "job,type,steps,deadline\nnightly,vision,1000000,10h\nlong,vision,1000000,\nwords,text,500000,\n";

/// Runs `plan rent instances` on the rates with the bundled offers, and its answer as JSON.
fn asked(folder: &Folder, more: &[&str]) -> Output {
    let rates = folder.file("rates.csv", RATES);
    let head =
        ["plan", "rent", "instances", &rates, "--offers", "datasets/offers/gpu_types.toml", "--start", "0s", "--quiet"];
    tracecast(&[&head[..], more].concat())
}

fn answered(folder: &Folder, more: &[&str]) -> Value {
    let output = asked(folder, &[more, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

fn cost(value: &Value) -> f64 {
    (value["cost"].as_f64().unwrap() * 100.0).round() / 100.0
}

#[test]
fn each_job_gets_the_cheapest_instance_within_its_deadline() {
    let folder = Folder::new();
    let jobs = folder.file("jobs.csv", JOBS);
    let answer = answered(&folder, &["--jobs", &jobs]);
    assert_eq!(
        (&answer["schema"], &answer["verdict"]),
        (&Value::from("plan-rent-instances/1"), &Value::from("chosen"))
    );
    let way = |at: usize| &answer["jobs"][at]["way"];
    // Within 10 h four V100: 27,778 s at 12 an hour. Eight would cost 111.11.
    assert_eq!((way(0)["instance"].as_str(), cost(way(0))), (Some("example.4v100"), 92.59));
    // Without a deadline one V100: 100,000 s at 3. A P100 would take 69 h and cost 104.17, a K80 138.89.
    assert_eq!((way(1)["instance"].as_str(), cost(way(1))), (Some("example.1v100"), 83.33));
    // Words are hardly faster on a V100, which costs twice as much.
    assert_eq!((way(2)["instance"].as_str(), cost(way(2))), (Some("example.1p100"), 41.67));
    assert_eq!(cost(&answer["plan"]), 217.59);
    // What costs least an hour: four V100, a K80, and a P100.
    assert_eq!(cost(&answer["least_an_hour"]), 273.15);
    assert!(answer["recommendation"]["against"].as_str().unwrap().contains("least an hour"));
    let front: Vec<f64> = answer["jobs"][1]["front"].as_array().unwrap().iter().map(cost).collect();
    assert_eq!(front, [83.33, 92.59, 111.11]);
    let text = stdout(&asked(&folder, &["--jobs", &jobs]));
    assert!(text.contains("Rent 1 × example.4v100 (4 × V100) for nightly") && text.contains("218 USD"), "{text}");
}

/// Rents with a table of prices: 1,000,000 steps on one V100 are 27.8 h at 3.06, 85 dollars; four
/// are faster and cost 94.44.
#[test]
fn a_table_of_prices_is_read_as_it_is() {
    let folder = Folder::new();
    let rates = folder.file("rates.csv", RATES);
    let table = folder.file(
        "cloud-gpus.csv",
        "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n\
         AWS,V100 (16 GB),Volta,1,16,8,61,3.06,3.06,0.92,p3.2xlarge\n\
         AWS,V100 (16 GB),Volta,4,64,32,244,12.24,3.06,3.67,p3.8xlarge\n",
    );
    let ask = ["plan", "rent", "instances", &rates, "--offers", &table, "--start", "0s", "--run", "vision=1000000"];
    let output = tracecast(&[&ask[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let way = &answer["jobs"][0]["way"];
    assert_eq!((way["instance"].as_str(), cost(way)), (Some("p3.2xlarge"), 85.0));
    assert!(stderr(&output).contains("left out: 2 prices of spot"), "{}", stderr(&output));
}

/// A task for SkyPilot asks for the instance type, which the name of an offer may not be; where a table has none, it is left to be filled in.
#[test]
fn a_task_asks_for_an_instance_type() {
    let folder = Folder::new();
    let rates = folder.file("rates.csv", RATES);
    let table = folder.file(
        "cloud-gpus.csv",
        "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n\
         AWS,K80,Kepler,1,12,4,61,0.90,0.90,,x\n\
         AWS,V100 (16 GB),Volta,1,16,8,61,3.06,3.06,,x\n\
         Lambda,P100,Pascal,1,16,4,30,0.40,0.40,,\n",
    );
    let to = folder.path("out");
    let ask = [
        "plan",
        "rent",
        "instances",
        &rates,
        "--offers",
        &table,
        "--start",
        "0s",
        "--emit",
        "skypilot",
        "--emit-to",
        &to,
    ];
    let task = |more: &[&str]| {
        let output = tracecast(&[&ask[..], &["--run", "vision=1000000", "--force"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::read_to_string(PathBuf::from(&to).join("vision.yaml")).unwrap()
    };
    let named = task(&["--provider", "aws"]);
    assert!(named.contains("\"instance_type\": \"x\"") && !named.contains("1xV100"), "{named}");
    let bare = task(&["--provider", "lambda"]);
    assert!(bare.contains("\"instance_type\": \"FILL-IN\"") && bare.contains("IT CANNOT BE LAUNCHED YET"), "{bare}");
}

#[test]
fn spot_budget_and_limits_change_the_choice() {
    let folder = Folder::new();
    let jobs = folder.file("jobs.csv", JOBS);
    let spot = answered(&folder, &["--jobs", &jobs, "--spot"]);
    let market = |at: usize| spot["jobs"][at]["way"]["market"].as_str().unwrap().to_owned();
    assert_eq!([market(0), market(1), market(2)], ["on_demand", "spot", "spot"]);
    let fast = answered(&folder, &["--jobs", &jobs, "--minimise", "time", "--budget", "250"]);
    assert!(
        cost(&fast["plan"]) <= 250.0
            && fast["plan"]["mean_time_s"].as_f64()
                < answered(&folder, &["--jobs", &jobs])["plan"]["mean_time_s"].as_f64()
    );
    let poor = answered(&folder, &["--jobs", &jobs, "--budget", "100"]);
    assert_eq!(
        (&poor["verdict"], &poor["plan"], &poor["recommendation"]),
        (&Value::from("not_within_limits"), &Value::Null, &Value::Null)
    );
    // Five jobs within 5 h need an instance of eight each, and there are four.
    let run = ["--run", "vision=1000000"].repeat(5);
    let many = answered(&folder, &[&run[..], &["--deadline", "5h"]].concat());
    assert_eq!(many["verdict"], "not_within_limits");
    let hour = answered(&folder, &["--run", "vision=1000000", "--deadline", "1h"]);
    assert!(
        hour["verdict"] == "none" && hour["action"].as_str().unwrap().contains("needs at least 4 h 38 min"),
        "{}",
        hour["action"]
    );
}

#[test]
fn what_to_rent_is_written() {
    let folder = Folder::new();
    let jobs = folder.file("jobs.csv", JOBS);
    let to = folder.path("out");
    let output = asked(&folder, &["--jobs", &jobs, "--spot", "--emit-to", &to]);
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(PathBuf::from(&to).join(name)).unwrap();
    assert!(
        read("instances.csv")
            .contains("nightly,vision,1000000,10.000,example.4v100,,on demand,1,4,measured,7.716,92.59,USD"),
        "{}",
        read("instances.csv")
    );
    let task = read("long.yaml");
    assert!(task.contains("\"instance_type\": \"example.1v100\"") && task.contains("\"use_spot\": true"), "{task}");
    // Nothing is written of what cannot be had.
    let none = folder.path("none");
    let output = asked(&folder, &["--run", "vision=1000000", "--deadline", "1h", "--emit-to", &none]);
    assert!(output.status.success() && stdout(&output).contains("No plan"), "{}", stdout(&output));
    assert!(!PathBuf::from(&none).exists());
    // Several of one type are told apart.
    let output = asked(&folder, &["--run", "text=5", "--run", "text=6", "--emit", "skypilot", "--emit-to", &none]);
    assert!(output.status.success(), "{}", stderr(&output));
    let names: Vec<bool> =
        ["text--1.yaml", "text--2.yaml"].iter().map(|name| PathBuf::from(&none).join(name).exists()).collect();
    assert_eq!(names, [true, true]);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let told = |more: &[&str]| {
        let output = asked(&folder, more);
        assert!(!output.status.success(), "{}", stdout(&output));
        stderr(&output)
    };
    assert!(told(&["--run", "Vision=5"]).contains("did you mean `vision`?"));
    assert!(told(&["--run", "vision"]).contains("write its type and its steps"));
    assert!(told(&["--run", "vision=5", "--deadline", "0s"]).contains("at least 1s"));
    let jobs = folder.file("bad.csv", "job,type,steps,deadline\na,vision,5,soon\n");
    let bad = told(&["--jobs", &jobs]);
    assert!(bad.contains("bad.csv, line 2") && bad.contains("`deadline` holds `soon`"), "{bad}");
    let rates = folder.file("rates.csv", "gpu_type,job,gpus,steps_per_s\nh100,vision,1,5\n");
    let output = tracecast(&[
        "plan",
        "rent",
        "instances",
        &rates,
        "--offers",
        "datasets/offers/gpu_types.toml",
        "--run",
        "vision=5",
    ]);
    assert!(!output.status.success() && stderr(&output).contains("the throughputs are of h100"), "{}", stderr(&output));
}

/// Regression test: a column `apart_steps_s` was passed over without a word, and a plan that is
/// none went unseen with --quiet.
#[test]
fn columns_that_are_not_read_and_files_that_are_not_written_are_told() {
    let folder = Folder::new();
    let ask = |column: &str, more: &[&str]| {
        let rates = folder.file("rates.csv", &format!("gpu_type,job,gpus,steps_per_s,{column}\nv100,vision,1,10,\n"));
        let head = [
            "plan",
            "rent",
            "instances",
            &rates,
            "--offers",
            "datasets/offers/gpu_types.toml",
            "--run",
            "vision=1000000",
        ];
        tracecast(&[&head[..], more].concat())
    };
    let told = stderr(&ask("apart_steps_s", &[]));
    assert!(
        told.contains("column `apart_steps_s` is not read") && told.contains("call it apart_steps_per_s"),
        "{told}"
    );
    let output = ask("note", &[]);
    assert!(output.status.success());
    let told = stderr(&output);
    assert!(told.contains("warning") && told.contains("nothing is done with: note. Read are gpu_type, job"), "{told}");
    // That no way is fast enough is an answer, as with other plans; that nothing is written is told beside it.
    let output = ask("note", &["--deadline", "1h", "--emit-to", &folder.path("rent"), "--quiet"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("nothing is written to --emit-to"), "{}", stderr(&output));
    assert!(!folder.names().contains(&"rent".to_owned()));
    assert_eq!(json(&stdout(&ask("note", &["--deadline", "1h", "--json"])))["verdict"], "none");
}

/// Four GPUs apart are slower than four together, so a job with a deadline goes to one machine, and the answer says what else would have come of it.
#[test]
fn several_instances_are_as_fast_as_measured_apart() {
    let folder = Folder::new();
    let apart = "gpu_type,job,gpus,steps_per_s,apart_steps_per_s\nv100,vision,1,10,\nv100,vision,4,36,12\np100,vision,1,4,\np100,vision,4,15,\n";
    let file = folder.file("apart.csv", apart);
    let head =
        ["plan", "rent", "instances", &file, "--offers", "datasets/offers/gpu_types.toml", "--start", "0s", "--quiet"];
    let ask = |more: &[&str]| tracecast(&[&head[..], &["--run", "vision=1000000"], more].concat());
    let output = ask(&["--deadline", "25h", "--most-instances", "4", "--format", "json"]);
    let answer = json(&stdout(&output));
    let way = &answer["jobs"][0]["way"];
    // Four V100 in one machine take 7.7 h for 92.59; a machine each would take 23.1 h, for 277.78. Four P100, of which nothing was measured apart, 18.5 h, for 111.11.
    assert_eq!((way["instance"].as_str(), cost(way)), (Some("example.4v100"), 92.59));
    let notes = answer["notes"].to_string();
    assert!(notes.contains("1 job type, such as vision on p100, are taken to hold across machines"), "{notes}");
    let rules: Vec<&str> =
        answer["across"]["rules"].as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["all_known", "as_on_one", "one_instance"]);
    let text = stdout(&ask(&["--most-instances", "4"]));
    assert!(text.contains("What taking one machine for several would cost"), "{text}");
    assert!(!stdout(&ask(&[])).contains("What taking one machine"), "one instance has no such test");
}

/// Choices on Gavel's throughputs, whatever prices are: none is cheaper than the oracle that keeps
/// the deadline, and measured numbers of GPUs keep every deadline.
#[test]
fn choices_on_gavels_throughputs() {
    let Some(path) = real_trace("gavel/simulation_throughputs.json.gz") else { return };
    let run = ["--run", "ResNet-50 (batch size 64)=1000000", "--deadline", "72h", "--format", "json", "--quiet"];
    let head = ["plan", "rent", "instances", path.to_str().unwrap(), "--offers", "datasets/offers/gpu_types.toml"];
    let answer = json(&stdout(&tracecast(&[&head[..], &run].concat())));
    let rules = answer["test"]["rules"].as_array().unwrap();
    assert_eq!((answer["test"]["job_types"].as_u64(), rules.len()), (Some(19), 7));
    for rule in rules {
        let number = |name: &str| rule[name].as_u64().unwrap();
        println!("{rule}");
        assert!(rule["cost_over_known"].as_f64().unwrap() >= 1.0 - 1e-9 && number("found_none") == 0, "{rule}");
        assert!(rule["measured_only_there"].as_f64().unwrap() >= 1.0 - 1e-9, "{rule}");
        assert!(
            number("missed") == 0
                || !["measured_only", "all_known", "fastest"].contains(&rule["rule"].as_str().unwrap()),
            "{rule}"
        );
    }
    // The margin keeps deadlines that bare forecasts miss.
    let missed = |name: &str| rules.iter().find(|rule| rule["rule"] == name).unwrap()["missed"].as_u64().unwrap();
    assert!(missed("with_margin") < missed("no_margin") && missed("no_margin") <= missed("in_proportion"));
    for score in answer["scaling"].as_array().unwrap().iter().filter(|score| score["model"].is_null()) {
        let held = score["margin_kept"].as_f64().unwrap();
        assert!((0.85..=1.0).contains(&held), "{score}");
    }
    // On several machines the throughputs of one mislead.
    let answer = json(&stdout(&tracecast(&[&head[..], &run, &["--most-instances", "8"]].concat())));
    let rule = |at: usize| {
        let rule = &answer["across"]["rules"][at];
        println!("{rule}");
        (rule["missed"].as_u64().unwrap(), rule["cost_over_known"].as_f64().unwrap())
    };
    assert_eq!(rule(0), (0, 1.0));
    assert!(rule(1).0 > 0 && rule(2).0 == 0 && rule(2).1 >= 1.0, "{:?} {:?}", rule(1), rule(2));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = Folder::new();
    let rates = folder.file("rates.csv", RATES);
    is_the_same_with_any_threads(&[
        "plan",
        "rent",
        "instances",
        &rates,
        "--offers",
        "datasets/offers/gpu_types.toml",
        "--run",
        "vision=1000000",
        "--quiet",
    ]);
}
