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

/// Standard output as one line.
pub(super) fn flat(output: &Output) -> String {
    stdout(output).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// JSON answer of a command that succeeded.
pub(super) fn answered(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    json(&stdout(output))
}

/// Results for all nodes as one pool.
pub(super) fn pool(answer: &Value) -> &Value {
    &answer["trial"]["pool"]
}

fn policy<'a>(pool: &'a Value, name: &str) -> &'a Value {
    pool["policies"].as_array().unwrap().iter().find(|policy| policy["name"] == name).unwrap()
}

#[test]
fn two_days_by_hand() {
    let answer =
        answered(&plan(&site(), &["--eval-from", "2017-11-09", "--eval-to", "2017-11-10", "--format", "json"]));
    // A bare date as an end is that whole day: 2 × 144 slots.
    assert_eq!((answer["schema"].as_str(), pool(&answer)["slots"].as_u64()), (Some("plan-power/3"), Some(288)));
    // Demand is 4 in 23 hours of a day and 8 in one: 100 of 240 node-hours.
    assert!((pool(&answer)["demand_mean"].as_f64().unwrap() - 100.0 / 24.0).abs() < 1e-9);
    // The optimum at two hours sleeps through all gaps of 23 h and wakes four nodes a day, a slot early, as they boot: (140 − 4 / 6) / 24 nodes asleep.
    // A sleeping node saves 1,220 W, and its shutdown takes 60 s at that power more than sleep: (280 − 8 / 6) h × 1.22 kW − 8 × 73.2 kJ.
    let best = &pool(&answer)["offline_optimum"];
    assert!((best["nodes_asleep_mean"].as_f64().unwrap() - (140.0 - 4.0 / 6.0) / 24.0).abs() < 1e-9);
    assert!(
        (best["energy_saved_kwh"].as_f64().unwrap() - ((280.0 - 8.0 / 6.0) * 1.22 - 8.0 * 0.0732 / 3.6)).abs() < 1e-9
    );
    assert_eq!((best["unserved_node_slots"].as_f64(), best["node_wakes_per_day"].as_f64()), (Some(0.0), Some(4.0)));
    // All nodes on: nothing asleep, and nothing is woken.
    let on = &policy(pool(&answer), "always_on")["chosen"];
    assert_eq!((on["nodes_asleep_mean"].as_f64(), on["node_wakes_per_day"].as_f64()), (Some(0.0), Some(0.0)));
    // Every chosen point is on its curve, once; what leaks is said to.
    for policy in pool(&answer)["policies"].as_array().unwrap() {
        let chosen = policy["curve"].as_array().unwrap().iter().filter(|point| point["chosen"] == true);
        let chosen: Vec<&Value> = chosen.collect();
        assert!(chosen.len() == 1 && chosen[0]["setting"] == policy["chosen"]["setting"], "{policy}");
        let name = policy["name"].as_str().unwrap();
        assert_eq!(policy["causal"] == true, !["ces_perfect_forecast", "ces_as_published"].contains(&name), "{name}");
    }
    // Every noon is like the one before: what is chosen serves it and still lets nodes sleep.
    let chosen = &pool(&answer)["chosen"];
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
    let answer = answered(&ask(&["--format", "json"]));
    assert_eq!((&answer["trial"]["cost_saved"], &answer["trial"]["currency"]), (&Value::Null, &Value::Null));
    let saved = pool(&answer)["chosen"]["energy_saved_kwh"].as_f64().unwrap();
    let yearly = &answer["trial"]["yearly"];
    assert!(saved > 0.0 && (yearly["saved_kwh_per_year"].as_f64().unwrap() - saved * 365.25 / 2.0).abs() < 1e-6);
    // What active nodes draw is unknown: 10 × 48 h × 1.24 kW are the least.
    assert!((yearly["share_of_nodes"].as_f64().unwrap() - saved / 595.2).abs() < 1e-9);
    assert_eq!(yearly["share_is_upper_bound"], true);
    let said = stdout(&ask(&[]));
    assert!(said.contains("In a year of such days") && !said.contains("By the rates"), "{said}");
    let constants = site.folder.file("constants.toml", "currency = \"EUR\"\n[worth]\nprice_kwh = 0.25\n");
    let priced = answered(&ask(&["--constants", &constants, "--format", "json"]));
    let saved = pool(&priced)["chosen"]["energy_saved_kwh"].as_f64().unwrap();
    assert_eq!(priced["trial"]["currency"], "EUR");
    assert!((priced["trial"]["cost_saved"]["value"].as_f64().unwrap() - saved * 0.25).abs() < 1e-6);
    let said = stdout(&ask(&["--constants", &constants]));
    assert!(said.contains(" EUR is saved."), "{said}");
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
        "--against",
        &conf,
        "--host-list",
        "gpu[01-10]",
    ];
    let output = plan(&site, &[&more[..], &["--slurm-version", "22.05"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let read = |name: &str| std::fs::read_to_string(Path::new(&folder).join(name)).unwrap();
    let diff = read("slurm.patch");
    assert!(diff.contains("-SuspendTime=-1") && diff.contains("+SuspendTime="), "{diff}");
    // Each action follows from the one before.
    let actions = read("power-actions.jsonl");
    assert!(actions.lines().count() > 1, "{actions}");
    assert!(actions.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    assert!(!read("suspend.sh").is_empty());
    // What the configuration stands for is beside it.
    assert!(read("NOTES.txt").contains("trailing maximum as chosen"), "{}", read("NOTES.txt"));
    // Slurm gets what it can hold, with its own row: each node times out by itself and some are left idle.
    let answer = answered(&plan(&site, &["--format", "json"]));
    let chosen = &policy(pool(&answer), "slurm_conf")["chosen"];
    let idle_s = chosen["setting"]["slots"].as_u64().unwrap() * 600;
    assert!(diff.contains(&format!("+SuspendTime={idle_s}")), "{diff}");
    assert_eq!(answer["slurm_plan"]["pools"][0]["keep_idle"], chosen["setting"]["keep_idle"]);
    let asleep = format!("let {:.1} nodes sleep", chosen["nodes_asleep_mean"].as_f64().unwrap());
    let notes = read("NOTES.txt");
    let quoted = notes.lines().find(|line| line.starts_with("slurm.conf puts each node to sleep")).unwrap();
    assert!(quoted.contains(&asleep), "{asleep}: {notes}");
    // What is advised is asked before the file to patch, and is told all the same.
    let output = plan(&site, &["--emit", "slurm", "--emit-to", &site.folder.path("other")]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--against") && !stdout(&output).is_empty(), "{}", stderr(&output));
}

/// The sample's jobs run again on nodes that sleep: every plan beside all nodes on, for the same jobs.
#[test]
fn the_scheduler_runs_again_on_the_powered_nodes() {
    let folder = Folder::new();
    let cluster = folder.file("cluster.toml", "[[vc]]\nname = \"*\"\nnodes = 7\n");
    let answer = answered(&tracecast(&["plan", "power", "datasets/sample", "--site", &cluster, "--format", "json"]));
    let effects = answer["trial"]["effects"].as_array().unwrap();
    let names: Vec<&str> = effects.iter().map(|effect| effect["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["always on", "chosen beforehand", "trailing maximum + buffer", "timeout", "slurm.conf as emitted"]
    );
    // Each VC of the replay follows the rule that the answer says was chosen for it, and no other.
    for vc in answer["trial"]["vcs"].as_array().unwrap() {
        let followed = |effect: &Value| {
            let rules = effect["rules"].as_array().unwrap();
            rules.iter().find(|rule| rule["pool"] == vc["series"]).map(|rule| rule["setting"].clone())
        };
        assert_eq!(followed(&effects[1]), Some(vc["chosen"]["setting"].clone()), "{}", vc["series"]);
        let trailing = &policy(vc, "trailing_maximum")["chosen"]["setting"];
        assert_eq!(followed(&effects[2]).as_ref(), Some(trailing), "{}", vc["series"]);
    }
    assert!(!answer["trial"]["vcs"].as_array().unwrap().is_empty());
    let of = |effect: &Value, key: &str| effect[key]["value"].as_f64().unwrap();
    assert_eq!((of(&effects[0], "energy_saved_kwh"), effects[0]["jobs"]["delayed"].as_u64()), (0.0, Some(0)));
    for effect in effects {
        assert_eq!(effect["jobs"]["jobs"], effects[0]["jobs"]["jobs"]);
        // Node-hours by state add up to nodes × time.
        let hours: f64 = effect["node_hours"].as_object().unwrap().values().map(|hours| hours.as_f64().unwrap()).sum();
        let all = effect["nodes"].as_f64().unwrap() * effect["days"].as_f64().unwrap() * 24.0;
        assert!((hours - all).abs() < 1e-6 * all, "{hours} of {all}");
    }
    // No plan saves more than the optimum at the service that it delivered.
    for effect in effects {
        let most = effect["optimum_at_service"]["energy_saved_kwh"].as_f64().unwrap();
        assert!(of(effect, "energy_saved_kwh") <= most * (1.0 + 1e-9), "{}", effect["name"]);
    }
    // The service and the boots that rules were chosen for hold in the replay, too.
    let more = ["--promise", "0,1", "--boot-slots", "2", "--format", "json"];
    let strict = answered(&tracecast(&[&["plan", "power", "datasets/sample", "--site", &cluster], &more[..]].concat()));
    for vc in strict["trial"]["vcs"].as_array().unwrap() {
        let rules = strict["trial"]["effects"][1]["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["pool"] == vc["series"]).unwrap();
        assert_eq!(rule["setting"], vc["chosen"]["setting"]);
    }
    assert_ne!(strict["trial"]["effects"][1]["rules"], answer["trial"]["effects"][1]["rules"]);
    // Saving and wait of one sentence are those of one replay.
    let said = flat(&tracecast(&["plan", "power", "datasets/sample", "--site", &cluster]));
    let asleep = of(&effects[1], "nodes_asleep_mean");
    assert!(said.contains(&format!("run again under the rules chosen beforehand, {asleep:.1} of")), "{said}");
}

/// Prices by the hour as a file, from the first of November.
fn prices(site: &Site, name: &str, price: impl Fn(u32, u32) -> f64) -> String {
    let mut text = "Datetime (UTC),Price (EUR/kWh)\n".to_owned();
    for at in 0..240 {
        let (day, hour) = (1 + at / 24, at % 24);
        text += &format!("2017-11-{day:02}T{hour:02}:00:00Z,{}\n", price(day, hour));
    }
    site.folder.file(name, &text)
}

/// Prices of the evaluated days change no choice, prices at another level do: shortage is priced at a constant.
#[test]
fn prices_count_by_their_level_and_from_the_past_alone() {
    let site = site();
    let chosen = |path: &str| -> Value {
        answered(&plan(&site, &["--eval-from", "2017-11-09", "--price", path, "--format", "json"]))
    };
    let usual = |_: u32, hour: u32| if hour < 12 { 0.05 } else { 0.15 };
    let before = chosen(&prices(&site, "usual.csv", usual));
    // The evaluation begins at midnight in California.
    let later = |day: u32, hour: u32| if day < 10 { usual(day, hour) } else { 5.0 * usual(day, 23 - hour) };
    let after = chosen(&prices(&site, "later.csv", later));
    assert_eq!(pool(&before)["chosen"]["setting"], pool(&after)["chosen"]["setting"]);
    for (one, other) in
        pool(&before)["policies"].as_array().unwrap().iter().zip(pool(&after)["policies"].as_array().unwrap())
    {
        assert_eq!(
            (&one["chosen"]["setting"], &one["chosen_before"]),
            (&other["chosen"]["setting"], &other["chosen_before"])
        );
    }
    // What was saved is paid as it came.
    let money = |answer: &Value| answer["trial"]["cost_saved"]["value"].as_f64().unwrap();
    assert!(money(&after) > 2.0 * money(&before), "{} {}", money(&after), money(&before));
    // At 0.10 a kWh a slot of sleep of one node is worth 0.02, one that is short costs 2.67, as 131 slots of sleep: six nodes that sleep but for an hour a
    // day pay for the four that are short at its beginning (840 against 524 and four wakes). At a tenth of the price nothing does: all nodes stay on.
    let cheap = chosen(&prices(&site, "cheap.csv", |day, hour| 0.1 * usual(day, hour)));
    let asleep = |answer: &Value| pool(answer)["chosen"]["nodes_asleep_mean"].as_f64().unwrap();
    assert!(asleep(&before) > 1.0, "{}", pool(&before)["chosen"]);
    assert_eq!((asleep(&cheap), pool(&cheap)["chosen"]["because"].as_str()), (0.0, Some("sleep_does_not_pay")));
    assert_eq!((&before["verdict"], &cheap["verdict"]), (&"advised".into(), &"nothing_better".into()));
    assert_eq!(before["trial"]["weighted_by"], "price");
}

/// The report begins with what was chosen beforehand; curves, read with hindsight, come later with how many settings they are the best of.
#[test]
fn what_was_chosen_beforehand_comes_first() {
    let output = plan(&site(), &["--eval-from", "2017-11-09", "--format", "markdown"]);
    let said = stdout(&output);
    let at = |words: &str| said.find(words).unwrap_or_else(|| panic!("no `{words}` in {said}"));
    let first = at("What was chosen beforehand, and what it brought");
    assert!(first < at("What one gets who asks for a service beforehand"));
    assert!(at("Promised and delivered, a day") < at("What sleep costs in service, read with hindsight"));
    assert!(first < at("read off the curves with hindsight") && said.contains("Best of settings"));
    let answer = answered(&plan(&site(), &["--eval-from", "2017-11-09", "--format", "json"]));
    let rows = pool(&answer)["beforehand"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["policy"].as_str().unwrap()).collect();
    for name in ["trailing_maximum", "timeout", "reach", "slurm_conf"] {
        assert!(names.contains(&name), "{names:?}");
    }
    for row in rows {
        // Intervals hold their figure; a rule that leaves some unserved is held against an optimum that does.
        let asleep = &row["intervals"]["nodes_asleep_mean"];
        let of = |key: &str| asleep[key].as_f64().unwrap();
        assert!(of("low") <= of("value") + 1e-9 && of("value") <= of("high") + 1e-9, "{row}");
        assert!(row["settings_tried"].as_u64().unwrap() > 0);
        let unserved = row["unserved_node_slots"].as_f64().unwrap();
        assert!((row["optimum_at_service"]["unserved_node_slots"].as_f64().unwrap() - unserved).abs() < 1e-6, "{row}");
        assert!(row["share_of_optimum"].as_f64().is_none_or(|share| share <= 1.0 + 1e-9), "{row}");
    }
}

/// Jobs of two VCs by the hour for ten days, in a source that says nothing of the nodes there are.
fn jobs() -> String {
    let mut text = "JobIDRaw|User|Partition|Submit|Start|End|State|AllocTRES|NNodes\n".to_owned();
    for at in 0..240u32 {
        let (day, hour) = (1 + at / 24, at % 24);
        for (number, vc, gpus) in [(0, "a", 8 + 8 * (at % 3)), (1, "b", 16)] {
            let moment = format!("2024-01-{day:02}T{hour:02}");
            text += &format!(
                "{}|u|{vc}|{moment}:00:00|{moment}:00:00|{moment}:50:00|COMPLETED|billing=1,gres/gpu={gpus},node={}|{}\n",
                1000 * number + at,
                gpus / 8,
                gpus / 8
            );
        }
    }
    text
}

/// The first sentence on sleep says what it takes for granted: that there are no more nodes than were ever in use, or that VCs share them.
#[test]
fn the_headline_leads_with_what_the_trace_has() {
    let folder = Folder::new();
    let source = folder.file("sacct.txt", &jobs());
    let answer = answered(&tracecast(&["plan", "power", &source, "--format", "json"]));
    assert_eq!(
        (&answer["trial"]["capacity_known"], &answer["trial"]["vcs_as_they_stand"]),
        (&Value::Bool(false), &Value::Null)
    );
    let said = flat(&tracecast(&["plan", "power", &source]));
    assert!(said.contains("Nobody recorded how many nodes there are: if there were no more than"), "{said}");
    // The report says the same sentence.
    let out = folder.path("report");
    let output = tracecast(&["report", &source, "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).replace('\n', " ").contains("Nobody recorded how many nodes there are"),
        "{}",
        stdout(&output)
    );
    // The sample says which nodes its VCs have: they lead, and pooling is said to be one.
    let answer = answered(&tracecast(&["plan", "power", "datasets/sample", "--format", "json"]));
    let vcs = &answer["trial"]["vcs_as_they_stand"];
    assert!(answer["trial"]["capacity_known"] == true && vcs["vcs"].as_u64().unwrap() > 1, "{vcs}");
    let sum: f64 = answer["trial"]["vcs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vc| vc["chosen"]["nodes_asleep_mean"].as_f64().unwrap())
        .sum();
    let value = |of: &Value| of["nodes_asleep_mean"]["value"].as_f64().unwrap();
    assert!((sum - value(&vcs["chosen"])).abs() < 1e-9, "{sum}");
    let said = flat(&tracecast(&["plan", "power", "datasets/sample"]));
    assert!(
        said.contains("VCs as they stand, each on its own nodes")
            && said.contains("if every node could serve every VC"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_planned_is_said() {
    let site = site();
    let output = plan(&site, &["--host-list", "gpu[01-10],gpu[01-02]"]);
    assert!(output.status.success(), "ten nodes, two of them named twice: {}", stderr(&output));
    let bad = site.folder.file("power.toml", "[power]\nidle_w = 10\noff_w = 20\n");
    let odd = site.folder.file("odd.toml", "[power]\nidle = 10\n");
    let empty = site.folder.file("empty.csv", "time,active,total\n");
    for (more, words) in [
        (vec!["--eval-from", "2018-01-01"], "nothing is left to evaluate"),
        (vec!["--eval-from", "2017-11-01"], "nothing is left to learn from"),
        (vec!["--host-list", "gpu[01-12]"], "12 nodes and the plan is for the 10"),
        // A node that is named twice is one.
        (vec!["--host-list", "gpu[01-08],gpu[01-02]"], "8 nodes and the plan is for the 10"),
        (vec!["--boot-slots", "500"], "longer than a day"),
        (vec!["--eval-from", "2017-11-03"], "too few"),
        (vec!["--eval-from", "soon"], "is no moment"),
        (vec!["--constants", &bad], "off must be less"),
        (vec!["--constants", &odd], "idle"),
        (vec!["--gpus-per-node", "0"], "cannot be"),
        (vec!["--promise", "3"], "two numbers"),
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
