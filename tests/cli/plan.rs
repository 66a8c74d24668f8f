//! `tracecast plan power`, as a user meets it.

use serde_json::Value;

use super::*;

const MINUTES: u32 = 10 * 1440;

/// Ten days of ten nodes by the minute: four in use, and eight from noon to one.
pub(super) fn counts() -> String {
    let mut text = "time,active,total\n".to_owned();
    for at in 0..MINUTES {
        let (day, hour, minute) = (1 + at / 1440, at / 60 % 24, at % 60);
        let active = if hour == 12 { 8 } else { 4 };
        text += &format!("2017-11-{day:02} {hour:02}:{minute:02}:00,{active},10\n");
    }
    text
}

struct Site {
    folder: Folder,
    source: String,
}

fn site() -> Site {
    let folder = Folder::new();
    let source = folder.file("node_counts.csv", &counts());
    Site { folder, source }
}

fn plan(site: &Site, more: &[&str]) -> Output {
    tracecast(&[&["plan", "power", &site.source], more].concat())
}

fn policy<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == name).unwrap()
}

#[test]
fn help_of_plans() {
    let output = tracecast(&["plan", "power", "--help"]);
    insta::assert_snapshot!("plan_power_help", stdout(&output));
}

#[test]
fn two_days_by_hand() {
    let output = plan(&site(), &["--eval-from", "2017-11-09", "--eval-to", "2017-11-10", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    // A bare date as an end is that whole day: 2 × 144 slots.
    assert_eq!((answer["schema"].as_str(), answer["slots"].as_u64()), (Some("plan-power/1"), Some(288)));
    // Demand is 4 in 23 hours of a day and 8 in one: 100 of 240 node-hours.
    assert!((answer["demand_mean"].as_f64().unwrap() - 100.0 / 24.0).abs() < 1e-9);
    // The optimum at two hours sleeps through all gaps of 23 h and wakes four nodes a day: 140 / 24 nodes asleep. A sleeping node saves 1,220 W,
    // and its shutdown takes 60 s at that power more than sleep: 140 h × 2 × 1.22 kW − 8 × 73.2 kJ.
    let best = &answer["offline_optimum"];
    assert!((best["nodes_asleep_mean"].as_f64().unwrap() - 140.0 / 24.0).abs() < 1e-9);
    assert!((best["energy_saved_kwh"].as_f64().unwrap() - (280.0 * 1.22 - 8.0 * 0.0732 / 3.6)).abs() < 1e-9);
    assert_eq!((best["unserved_node_slots"].as_f64(), best["node_wakes_per_day"].as_f64()), (Some(0.0), Some(4.0)));
    // All nodes on: nothing asleep, and nothing is woken.
    let on = &policy(&answer, "always_on")["chosen"];
    assert_eq!((on["nodes_asleep_mean"].as_f64(), on["node_wakes_per_day"].as_f64()), (Some(0.0), Some(0.0)));
    // Every chosen point is on its curve, once; what leaks is said to.
    for policy in answer["policies"].as_array().unwrap() {
        let chosen = policy["curve"].as_array().unwrap().iter().filter(|point| point["chosen"] == true);
        let chosen: Vec<&Value> = chosen.collect();
        assert!(chosen.len() == 1 && chosen[0]["setting"] == policy["chosen"]["setting"], "{policy}");
        let name = policy["name"].as_str().unwrap();
        assert_eq!(policy["causal"] == true, !["ces_perfect_forecast", "ces_as_published"].contains(&name), "{name}");
    }
    // Every noon is like the one before: what is chosen serves it and still lets nodes sleep.
    let chosen = &answer["chosen"];
    assert!(
        chosen["unserved_node_slots"].as_f64().unwrap() <= 8.0 && chosen["nodes_asleep_mean"].as_f64().unwrap() > 1.0,
        "{chosen}"
    );
}

/// Two days on ten nodes of 1,240 W: money has a currency or is not told, and a saving is told by the year and as a share.
#[test]
fn money_has_a_currency_and_savings_are_told_by_the_year() {
    let site = site();
    let days = ["--eval-from", "2017-11-09", "--eval-to", "2017-11-10"];
    let ask = |more: &[&str]| plan(&site, &[&days, more].concat());
    let answer: Value = serde_json::from_slice(&ask(&["--format", "json"]).stdout).unwrap();
    assert_eq!((&answer["cost_saved"], &answer["currency"]), (&Value::Null, &Value::Null));
    let saved = answer["chosen"]["energy_saved_kwh"].as_f64().unwrap();
    let yearly = &answer["yearly"];
    assert!(saved > 0.0 && (yearly["saved_kwh_per_year"].as_f64().unwrap() - saved * 365.25 / 2.0).abs() < 1e-6);
    // What active nodes draw is unknown: 10 × 48 h × 1.24 kW are the least.
    assert!((yearly["share_of_nodes"].as_f64().unwrap() - saved / 595.2).abs() < 1e-9);
    assert_eq!(yearly["share_is_upper_bound"], true);
    let said = stdout(&ask(&[]));
    assert!(said.contains("in a year of such days") && !said.contains("By the rates"), "{said}");
    let constants = site.folder.file("constants.toml", "currency = \"EUR\"\n[worth]\nprice_kwh = 0.25\n");
    let priced: Value = serde_json::from_slice(&ask(&["--constants", &constants, "--format", "json"]).stdout).unwrap();
    let saved = priced["chosen"]["energy_saved_kwh"].as_f64().unwrap();
    assert_eq!(priced["currency"], "EUR");
    assert!((priced["cost_saved"]["value"].as_f64().unwrap() - saved * 0.25).abs() < 1e-6);
    let said = stdout(&ask(&["--constants", &constants]));
    assert!(said.contains(" EUR saved."), "{said}");
}

#[test]
fn the_same_bytes_for_any_number_of_threads() {
    let site = site();
    let run = |threads| {
        let output = plan(&site, &["--eval-from", "2017-11-08", "--format", "json", "--threads", threads]);
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    assert_eq!(run("1"), run("4"));
}

#[test]
fn configuration_is_written_for_each_target() {
    let site = site();
    let conf = site.folder.file(
        "slurm.conf",
        "ClusterName=a\nSuspendTime=-1\nNodeName=gpu[01-10] Gres=gpu:8\nPartitionName=batch Nodes=gpu[01-10]\n",
    );
    let folder = site.folder.path("plan");
    let more = [
        "--emit",
        "slurm,actions,karpenter,cluster-autoscaler",
        "--emit-to",
        &folder,
        "--slurm-conf",
        &conf,
        "--nodes",
        "gpu[01-10]",
    ];
    let output = plan(&site, &[&more[..], &["--slurm-version", "22.05"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(Path::new(&folder).join(name)).unwrap();
    let diff = read("slurm.conf.diff");
    assert!(diff.contains("-SuspendTime=-1") && diff.contains("+SuspendTime="), "{diff}");
    // Each action follows from the one before.
    let actions = read("power-actions.jsonl");
    assert!(actions.lines().count() > 1, "{actions}");
    assert!(actions.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(!read("suspend.sh").is_empty());
    // What the configuration stands for is beside it.
    assert!(read("NOTES.txt").contains("trailing maximum as chosen"), "{}", read("NOTES.txt"));
    let output = plan(&site, &["--emit", "slurm", "--emit-to", &folder]);
    assert!(!output.status.success() && stderr(&output).contains("--slurm-conf"), "{}", stderr(&output));
}

/// The sample's jobs run again on nodes that sleep: every plan beside all nodes on, for the same jobs.
#[test]
fn the_scheduler_runs_again_on_the_powered_nodes() {
    let folder = Folder::new();
    let cluster = folder.file("cluster.toml", "[[vc]]\nname = \"*\"\nnodes = 7\n");
    let output = tracecast(&["plan", "power", "datasets/sample", "--cluster", &cluster, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let effects = answer["effects"].as_array().unwrap();
    let names: Vec<&str> = effects.iter().map(|effect| effect["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["always on", "timeout 30 min", "trailing maximum + buffer", "reach (ours)"]);
    let of = |effect: &Value, key: &str| effect[key]["value"].as_f64().unwrap();
    assert_eq!((of(&effects[0], "energy_saved_kwh"), effects[0]["jobs"]["delayed"].as_u64()), (0.0, Some(0)));
    for effect in effects {
        assert_eq!(effect["jobs"]["jobs"], effects[0]["jobs"]["jobs"]);
        // Node-hours by state add up to nodes × time.
        let hours: f64 = effect["node_hours"].as_object().unwrap().values().map(|hours| hours.as_f64().unwrap()).sum();
        let all = effect["nodes"].as_f64().unwrap() * effect["days"].as_f64().unwrap() * 24.0;
        assert!((hours - all).abs() < 1e-6 * all, "{hours} of {all}");
    }
    assert!(effects[1..].iter().all(|effect| of(effect, "nodes_asleep_mean") > 0.0));
}

#[test]
fn what_cannot_be_planned_is_said() {
    let site = site();
    let bad = site.folder.file("power.toml", "[power]\nidle_w = 10\noff_w = 20\n");
    let odd = site.folder.file("odd.toml", "[power]\nidle = 10\n");
    let empty = site.folder.file("empty.csv", "time,active,total\n");
    for (more, words) in [
        (vec!["--eval-from", "2018-01-01"], "nothing is left to evaluate"),
        (vec!["--eval-from", "2017-11-01"], "nothing is left to learn from"),
        (vec!["--nodes", "gpu[01-12]"], "12 nodes and the plan is for the 10"),
        (vec!["--boot-slots", "500"], "longer than a day"),
        (vec!["--eval-from", "2017-11-03"], "too few"),
        (vec!["--eval-from", "soon"], "is no moment"),
        (vec!["--constants", &bad], "off must be less"),
        (vec!["--constants", &odd], "idle"),
        (vec!["--gpus-per-node", "0"], "cannot be"),
        (vec!["--service", "3"], "two numbers"),
    ] {
        let output = plan(&site, &more);
        assert!(!output.status.success() && stderr(&output).contains(words), "{more:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("panicked"));
    }
    let idle = site.folder.file("idle.csv", &counts().replace(",4,10", ",0,10").replace(",8,10", ",0,10"));
    let output = tracecast(&["plan", "power", &idle]);
    assert!(!output.status.success() && stderr(&output).contains("ever in use"), "{}", stderr(&output));
    let output = tracecast(&["plan", "power", &empty]);
    assert!(!output.status.success() && !stderr(&output).contains("panicked"), "{}", stderr(&output));
}
