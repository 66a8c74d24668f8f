//! `plan rent burst`, as a user meets it.

use serde_json::Value;

use super::*;

/// The bundled sample with the invented prices beside it.
pub(crate) const SAMPLE: [&str; 9] = [
    "plan",
    "rent",
    "burst",
    "datasets/sample",
    "--offers",
    "datasets/offers/example.toml",
    "--quiet",
    "--models",
    "none",
];

pub(crate) const OFFERS: &str = "\
currency = \"EUR\"
[[instance]]
name = \"a\"
gpu = \"V100\"
gpus = 1
on_demand = 4.0
reserved = [{ months = 12, price = 1.0 }]
";

/// Three weeks in which, every four hours, two jobs of one GPU and an hour's run are submitted at once.
fn pairs() -> String {
    let head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
    let row = |at: u32| {
        let (slot, twin) = (at / 2, at % 2);
        let (day, hour) = (1 + slot / 6, slot % 6 * 4);
        format!(
            "{at},u{twin},va,1,4,1,COMPLETED,2020-04-{day:02} {hour:02}:00:00,2020-04-{day:02} {hour:02}:00:00,2020-04-{day:02} {:02}:00:00,3600,0\n",
            hour + 1
        )
    };
    head.to_owned() + &(0..2 * 21 * 6).map(row).collect::<String>()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_sample_is_planned() {
    let output = tracecast(&[&SAMPLE[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!((&answer["schema"], &answer["currency"]), (&Value::from("plan-rent-burst/2"), &Value::from("USD")));
    let by = answer["trial"]["rules"].as_array().unwrap();
    let rule = |name: &str| by.iter().find(|rule| rule["id"] == name).unwrap();
    assert!((number(&rule("on_demand")["of_baseline"]) - 1.0).abs() < 1e-12);
    assert!((1.0 - number(&rule("plan")["of_baseline"]) - number(&answer["trial"]["saving"]["value"])).abs() < 1e-9);
    for rule in by {
        let name = rule["id"].as_str().unwrap();
        // Whoever keeps the target and limits waits costs no less than the best with hindsight.
        assert!(number(&rule["regret"]) >= -1e-9 || rule["kept"] == false || name == "everybody", "{rule}");
        assert_eq!(rule["waits"]["jobs"], rule_jobs(by), "{name}");
        assert!(name == "everybody" || number(&rule["waits"]["longest_s"]) <= 86_400.0, "{rule}");
    }
    for nobody in ["on_demand", "peak", "newsvendor", "nobody"] {
        assert_eq!(number(&rule(nobody)["waits"]["longest_s"]), 0.0, "{nobody}");
    }
    // All on demand is what it is in the plan of a fleet.
    let fleet = json(&stdout(&tracecast(&[&fleet::SAMPLE[..], &["--format", "json"]].concat())));
    let steady = fleet["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == "on_demand").unwrap();
    let (a, b) = (number(&steady["amount"]), number(&rule("on_demand")["amount"]));
    assert!((a - b).abs() < 1e-6 * a, "{a} {b}");
    // The pools add up, and a tighter target is never cheaper.
    let pools = answer["pools"].as_array().unwrap();
    let of_pool = |pool: &Value| ["own", "cloud", "put_off"].map(|what| number(&pool[format!("{what}_per_month")]));
    let sum: f64 = pools.iter().flat_map(of_pool).sum();
    assert!((sum - number(&answer["cost_per_month"]["value"])).abs() < 1e-6 * sum, "{sum}");
    let costs: Vec<f64> =
        answer["targets"].as_array().unwrap().iter().map(|target| number(&target["cost_per_month"])).collect();
    assert!(costs.windows(2).all(|pair| pair[0] >= pair[1]), "{costs:?}");
    assert_eq!(answer["recommendation"].is_null(), answer["verdict"] != "advised");
}

fn rule_jobs(by: &[Value]) -> Value {
    by[0]["waits"]["jobs"].clone()
}

#[test]
fn the_answer_as_text() {
    let output = tracecast(&SAMPLE);
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!("plan_burst_sample", stdout(&output));
}

#[test]
fn one_gpu_serves_two_jobs_if_one_of_them_waits() {
    let folder = Folder::new();
    let (jobs, offers) = (folder.file("cluster_log.csv", &pairs()), folder.file("offers.toml", OFFERS));
    let planned = |more: &[&str]| {
        let asked = ["plan", "rent", "burst", &jobs, "--offers", &offers, "--format", "json", "--quiet"];
        let output = tracecast(&[&asked[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    // On demand costs 2 × 4 in every fourth hour, 2 an hour. One GPU costs 1 an hour and serves both, if the second waits for an hour.
    let answer = planned(&[]);
    assert_eq!(answer["verdict"], "advised", "{}", answer["action"]);
    assert_eq!(
        answer["action"],
        "**Reserve 1 × a for 1 year, where all jobs wait up to 1 h**; what has not started by then runs on demand."
    );
    assert_eq!(number(&answer["trial"]["saving"]["value"]), 0.5);
    assert_eq!(number(&answer["cost_per_month"]["value"]), 730.5);
    let plan = answer["trial"]["rules"].as_array().unwrap().iter().find(|rule| rule["id"] == "plan").unwrap();
    assert_eq!((number(&plan["waits"]["waited"]), number(&plan["waits"]["mean_s"])), (0.5, 1800.0));
    assert_eq!((number(&plan["waits"]["p95_s"]), number(&plan["cloud_share"])), (3600.0, 0.0));
    let harmed = &answer["recommendation"]["harmed"][0];
    assert_eq!(harmed["who"], "jobs of 1 GPU");
    // Where nobody may wait so long, the second goes to the cloud: 1 + 1 an hour, which saves nothing.
    let short = planned(&["--target-p95", "10min"]);
    assert_eq!((&short["verdict"], &short["recommendation"]), (&Value::from("nothing_better"), &Value::Null));
    // Two nodes that are there already serve both at once: nobody needs to wait, and nothing is to be changed.
    let given = planned(&["--nodes", "2"]);
    assert_eq!(
        (&given["verdict"], &given["trial"]["roles"]["baseline"]),
        (&Value::from("nothing_better"), &Value::from("nobody"))
    );
    assert_eq!(given["pools"][0]["nodes"], 2);
    // With one node, half of the jobs wait rather than pay the cloud.
    let one = planned(&["--nodes", "1"]);
    assert_eq!(one["verdict"], "advised");
    assert!(one["action"].as_str().unwrap().starts_with("**Keep 1 × a"), "{}", one["action"]);
    assert_eq!(number(&one["trial"]["saving"]["value"]), 0.5);
}

/// On-demand from a table of prices, nodes of one's own from an offers file beside it, which the table alone does not know.
#[test]
fn a_table_of_prices_stands_beside_own_nodes() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &pairs());
    let table = folder.file(
        "cloud-gpus.csv",
        "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n\
         AWS,V100 (16 GB),Volta,1,16,8,61,3.06,3.06,0.92,p3.2xlarge\n",
    );
    let own = folder.file("own.toml", "[[owned]]\nname = \"own\"\ngpu = \"V100\"\ngpus = 1\nprice = 9000\nyears = 5\n");
    let ask = ["plan", "rent", "burst", &jobs, "--offers", &table, "--quiet"];
    let output = tracecast(&[&ask[..], &["--offers", &own, "--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let refused = tracecast(&ask);
    assert!(stderr(&refused).contains("to the offers file (one beside a table of prices"), "{}", stderr(&refused));
}

#[test]
fn predictions_of_a_file_are_taken() {
    let folder = Folder::new();
    let (jobs, offers) = (folder.file("cluster_log.csv", &pairs()), folder.file("offers.toml", OFFERS));
    let rows: String = (0..2 * 21 * 6).map(|at| format!("{at},{}\n", if at % 2 == 0 { 9000 } else { 30 })).collect();
    let file = folder.file("p.csv", &format!("job_id,predicted_duration_s\n{rows}"));
    let asked = ["plan", "rent", "burst", &jobs, "--offers", &offers, "--format", "json", "--quiet"];
    let found = |more: &[&str]| {
        let answer = json(&stdout(&tracecast(&[&asked[..], more].concat())));
        (number(&answer["predicted_within_twice"]), answer["notes"].to_string())
    };
    let (near, notes) = found(&[]);
    assert!(near == 1.0 && notes.contains("last two"), "{notes}");
    let (near, notes) = found(&["--predictions", &file]);
    assert!(near == 0.0 && notes.contains("Predictions are given: of 252 jobs"), "{notes}");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    is_the_same_with_any_threads(&SAMPLE);
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let folder = Folder::new();
    let jobs = folder.file("cluster_log.csv", &pairs());
    let said = |offers: &str, more: &[&str]| {
        let offers = folder.file("offers.toml", offers);
        let output = tracecast(&[&["plan", "rent", "burst", &jobs, "--offers", &offers, "--quiet"][..], more].concat());
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(stderr(&tracecast(&["plan", "rent", "burst", &jobs])).contains("--offers"));
    let none = OFFERS.replace("reserved = [{ months = 12, price = 1.0 }]\n", "");
    assert!(
        said(&none, &[])
            .contains("nothing is said of what a GPU of one's own costs of the type `V100`; add an [[owned]]")
    );
    assert!(said(OFFERS, &["--own", "bought"]).contains("add an [[owned]] node"));
    assert!(said(&format!("{OFFERS}on_demand_limit = 3\n"), &[]).contains("leave on_demand_limit out of one"));
    assert!(said(OFFERS, &["--target-p95", "2d"]).contains("--most-wait"));
    assert!(said(OFFERS, &["--eval-from", "2020-04-22"]).contains("--eval-from"));
    assert!(said(OFFERS, &["--where", "gpus = 1"]).contains("a plan of bursting needs them all"));
    let file = folder.file("p.csv", "job_id,predicted_duration_s\nx,3\n");
    assert!(said(OFFERS, &["--predictions", &file]).contains("no job_id is that of a replayed job"));
    let two = format!("{OFFERS}[[instance]]\nname = \"b\"\ngpu = \"T4\"\ngpus = 1\non_demand = 1.0\n");
    assert!(said(&two, &[]).contains("jobs come without a GPU type"));
    // Jobs of two GPU types, each with its pool, and a number of nodes that belongs to neither.
    let mixed: String = pairs()
        .lines()
        .enumerate()
        .map(|(at, line)| format!("{line},{}\n", ["gpu_type", "V100", "T4"][if at == 0 { 0 } else { 1 + at % 2 }]))
        .collect();
    let mapped = folder.file("jobs.csv", &mixed);
    let columns = ["job_key", "user", "req_gpus", "submit", "start", "end"]
        .iter()
        .zip(["job_id", "user", "gpu_num", "submit_time", "start_time", "end_time"])
        .map(|(ours, theirs)| format!("{ours} = {{ column = \"{theirs}\" }}\n"));
    let columns: String = columns.chain(["gpu_type = { column = \"gpu_type\" }\n".to_owned()]).collect();
    let mapping = folder
        .file("m.toml", &format!("name = \"site\"\ntable = \"jobs\"\n[source]\nzone = \"UTC\"\n[columns]\n{columns}"));
    let offers = folder.file("offers.toml", &(two + "reserved = [{ months = 12, price = 0.4 }]\n"));
    let asked = ["plan", "rent", "burst", &mapped, "--mapping", &mapping, "--offers", &offers, "--quiet"];
    let output = tracecast(&[&asked[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&stdout(&output))["pools"].as_array().unwrap().len(), 2);
    let output = tracecast(&[&asked[..], &["--nodes", "2"]].concat());
    assert!(stderr(&output).contains("`2` is no number of nodes for jobs of several GPU types; leave --nodes out"));
}

#[test]
fn who_waits_is_decided_by_the_prediction_and_not_by_the_record() {
    let folder = Folder::new();
    let (jobs, offers) = (folder.file("cluster_log.csv", &pairs()), folder.file("offers.toml", OFFERS));
    // Both run for an hour. Told so, long jobs (15 min and more) wait for the GPU; told that they run for a second, none is long, and none waits.
    let short: String = (0..2 * 21 * 6).map(|at| format!("{at},1\n")).collect();
    let file = folder.file("p.csv", &format!("job_id,predicted_duration_s\n{short}"));
    let waited = |more: &[&str]| {
        let asked = ["plan", "rent", "burst", &jobs, "--offers", &offers, "--format", "json", "--quiet"];
        let answer = json(&stdout(&tracecast(&[&asked[..], more].concat())));
        let rule = |name: &str| {
            let by = answer["trial"]["rules"].as_array().unwrap();
            let rule = by.iter().find(|rule| rule["id"] == name).unwrap();
            (number(&rule["waits"]["waited"]), number(&rule["amount"]))
        };
        (rule("long"), rule("long_known"))
    };
    let (predicted, known) = waited(&[]);
    assert_eq!((predicted, predicted.0), (known, 0.5));
    let (predicted, same) = waited(&["--predictions", &file]);
    assert!(predicted.0 == 0.0 && predicted.1 > known.1 && same == known, "{predicted:?} {known:?} {same:?}");
}
