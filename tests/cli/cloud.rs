//! `plan rent job` and `plan rent job --test`, as a user meets them.

use serde_json::Value;

use super::*;

fn of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    json(&stdout(output))
}

/// Ten days of half-hours in which spot can be had for three hours and cannot for three.
pub(crate) fn regular(count: u32) -> String {
    let data: Vec<String> = (0..480).map(|tick| (count * u32::from(tick / 6 % 2 == 0)).to_string()).collect();
    format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", "))
}

/// A plan for one job, and the test of its policies.
const PLAN: [&str; 3] = ["plan", "rent", "job"];
const TEST: [&str; 4] = ["plan", "rent", "job", "--test"];

const JOB: [&str; 6] = ["--work", "12h", "--changeover", "0s", "--price-ratio", "3"];

/// 12 h of work in 24 h, without changeovers. Spot is up for half of any 24 h, so the optimum is all on spot: a third of on-demand.
#[test]
fn a_regular_zone_by_hand() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = ["plan", "rent", "job", "--test", &source, "--slack", "0.5", "--starts", "4", "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &JOB].concat()));
    assert_eq!(answer["schema"], "plan-rent-job-test/1");
    assert_eq!(
        (answer["traces"][0]["zone"].as_str(), answer["traces"][0]["tick_s"].as_f64()),
        (Some("us-east-1a"), Some(1800.0))
    );
    let starts: Vec<f64> =
        answer["traces"][0]["starts_s"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
    assert_eq!(starts, [0.0, 259_200.0, 518_400.0, 777_600.0]);
    let cells = answer["cells"].as_array().unwrap();
    let cell = |policy: &str| cells.iter().find(|cell| cell["policy"] == policy).unwrap();
    assert!((cell("omniscient")["cost_ratio_mean"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(cell("on_demand")["cost_ratio_mean"], 1.0);
    assert!(cells.iter().all(|cell| cell["misses"] == 0 && cell["starts"] == 4));
    let policies = answer["policies"].as_array().unwrap();
    assert_eq!(policies.iter().filter(|policy| policy["causal"] == true).count(), 6);
    assert_eq!(policies[0]["by_slack"][0]["slack"], 0.5);
    assert!(policies.iter().any(|policy| policy["name"] == answer["chosen"]));
    // The same by the time to the deadline; one that on-demand cannot keep is refused in its own words.
    let by_deadline = |deadline: &str| {
        let ask =
            ["plan", "rent", "job", "--test", &source, "--deadline", deadline, "--starts", "4", "--format", "json"];
        tracecast(&[&ask[..], &JOB].concat())
    };
    assert_eq!(of(&by_deadline("24h"))["cells"], answer["cells"]);
    let refused = by_deadline("24h,11h");
    assert!(stderr(&refused).contains("12h even on demand; ask for that or more"), "{}", stderr(&refused));
    // The same in other ticks, by the option; and compressed.
    let other = of(&tracecast(&[&ask[..], &JOB, &["--gap", "15min"]].concat()));
    assert_eq!(other["traces"][0]["tick_s"], 900.0);
    let text = stdout(&tracecast(
        &[&["plan", "rent", "job", "--test", &source, "--slack", "0.5", "--starts", "4"], &JOB[..]].concat(),
    ));
    assert!(text.contains("misses 0 deadlines") && text.contains("omniscient optimum"), "{text}");
}

/// Spot of a zone costs 1 dollar and on-demand 4, in the trace, in a list beside it, and in AWS's history: the optimum is all on spot, a quarter of on-demand. A list
/// that names no such zone, and a history without the moment of the first sample, are refused.
#[test]
fn prices_come_with_a_trace_or_beside_it() {
    let folder = Folder::new();
    let bare = folder.file("us-east-1a_v100_1.json", &regular(1));
    let list = vec!["1.0"; 480].join(", ");
    let own = regular(1)
        .replace("1800}", "1800, \"on_demand_price\": 4}")
        .replace("\"data\"", &format!("\"prices\": [{list}], \"data\""));
    let other_folder = Folder::new();
    let own = other_folder.file("us-east-1a_v100_1.json", &own);
    let lists = folder.file("lists.json", &format!("{{\"us-east-1a_v100_1\": [{list}]}}"));
    let entry = |zone: &str, price: &str, at: &str| {
        format!(
            "{{\"AvailabilityZone\": \"{zone}\", \"InstanceType\": \"p3.2xlarge\", \"ProductDescription\": \"Linux/UNIX\", \"SpotPrice\": \"{price}\", \"Timestamp\": \"{at}\"}}"
        )
    };
    let history = folder.file(
        "history.json",
        &format!(
            "{{\"SpotPriceHistory\": [{}, {}]}}",
            entry("us-east-1a", "1.0", "2023-02-14T00:00:00+00:00"),
            entry("us-east-1b", "9.0", "2023-02-14T00:00:00+00:00")
        ),
    );
    let ask = |source: &str, more: &[&str]| {
        let ask = ["plan", "rent", "job", "--test", source, "--slack", "0.5", "--starts", "2", "--format", "json"];
        tracecast(&[&ask[..], &JOB, more].concat())
    };
    for (source, more) in [
        (&own, &[][..]),
        (&bare, &["--prices", &lists, "--on-demand-price", "4"]),
        (&bare, &["--prices", &history, "--begins", "2023-02-15T00:00:00Z", "--on-demand-price", "4"]),
    ] {
        let answer = of(&ask(source, more));
        let least = answer["cells"].as_array().unwrap().iter().find(|cell| cell["policy"] == "omniscient").unwrap();
        assert!((least["cost_ratio_mean"].as_f64().unwrap() - 0.25).abs() < 1e-12, "{least}");
    }
    let refused = ask(&bare, &["--prices", &history]);
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("--begins"), "{}", stderr(&refused));
    let other = folder.file("other.json", "{\"eu-west-1a_v100_1\": [1.0]}");
    let refused = ask(&bare, &["--prices", &other]);
    assert!(stderr(&refused).contains("no spot price of us-east-1a"), "{}", stderr(&refused));
}

#[test]
fn a_plan_writes_tasks() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(4));
    let tasks = folder.path("tasks");
    let ask =
        ["plan", "rent", "job", &source, "--deadline", "24h", "--need", "4", "--starts", "3", "--emit-to", &tasks];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    assert_eq!((answer["schema"].as_str(), answer["need"].as_u64()), (Some("plan-rent-job/3"), Some(4)));
    assert_eq!(answer["recommendation"]["plan"], "rent job");
    assert_eq!((answer["now"]["if_up"].as_str(), answer["now"]["if_down"].as_str()), (Some("spot"), Some("idle")));
    let spot = std::fs::read_to_string(folder.path("tasks/deadline-spot.yaml")).unwrap();
    assert!(spot.contains("\"use_spot\": true") && spot.contains("\"num_nodes\": 4"), "{spot}");
    assert!(spot.contains("\"infra\": \"aws/us-east-1/us-east-1a\""), "{spot}");
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("tasks/{name}"))).unwrap();
    assert!(read("NOTES.txt").contains("Begin with"));
    // Waiting for spot is up to the pods, and the moment of on-demand is that of the tasks.
    let notes = read("KARPENTER.txt");
    assert!(notes.contains("node selector `karpenter.sh/capacity-type: spot`. Karpenter tries"), "{notes}");
    assert!(notes.contains("Whatever happens, the pods on on-demand nodes must run once"), "{notes}");
    assert!(notes.contains("needs all 4 nodes at once"), "{notes}");
    assert!(!notes.contains("CANNOT BE APPLIED") && notes.contains("Karpenter does not go back by itself"), "{notes}");
    for file in [&notes, &read("NOTES.txt")] {
        assert!(
            file.contains("Back to spot: the policy of this plan (")
                && file.contains("`tracecast plan rent job` again: with"),
            "{file}"
        );
    }
    let command = answer["recommendation"]["command"].as_str().unwrap();
    assert!(
        command.starts_with("tracecast plan rent job ")
            && command.ends_with("--work 12h --changeover 0s --price-ratio 3"),
        "{command:?}"
    );
    // 12 h of work on 4 instances are 48 instance-hours, wherever they are; nothing says what they cost.
    let kinds = answer["purchases"]["kinds"].as_array().unwrap();
    let hours = |kind: &Value| kind["instance_h"]["value"].as_f64().unwrap();
    assert!((hours(&kinds[0]) + hours(&kinds[1]) - 48.0).abs() < 1e-9, "{kinds:?}");
    assert!(answer["purchases"]["cost_usd"].is_null());
    let list = read("cloud-purchases.csv");
    // All windows bought the same: that is no interval, and says so.
    let row = "\nspot,us-east-1a,V100:1,4,48,,,,,,,\"none: 6 windows, 6 without overlap, bought the same, which shows no spread\",\n";
    assert!(
        list.contains(row) && list.contains("bought none, which leaves a chance of up to 39.3 % for some"),
        "{list}"
    );
    assert!(kinds.iter().all(|kind| kind["instance_h"]["low"].is_null() && kind["instance_h"]["high"].is_null()));
    let other = folder.path("list");
    let ask = ["plan", "rent", "job", &source, "--deadline", "24h", "--starts", "3", "--emit", "purchases"];
    of(&tracecast(&[&ask[..], &JOB, &["--emit-to", &other, "--format", "json"]].concat()));
    let names: Vec<_> = std::fs::read_dir(&other).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["cloud-purchases.csv"]);
}

/// Spot costs 1 dollar and on-demand 4, 12 h of work: 12 dollars, where all on-demand is 48.
#[test]
fn a_plan_with_prices_says_what_it_costs() {
    let folder = Folder::new();
    let list = vec!["1.0"; 480].join(", ");
    let text = regular(1)
        .replace("1800}", "1800, \"on_demand_price\": 4}")
        .replace("\"data\"", &format!("\"prices\": [{list}], \"data\""));
    let source = folder.file("us-east-1a_v100_1.json", &text);
    let ask = ["plan", "rent", "job", &source, "--deadline", "24h", "--starts", "3"];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    let bought = &answer["purchases"];
    let near = |value: &Value, of: f64| (value.as_f64().unwrap() - of).abs() < 1e-9;
    assert!(near(&bought["cost_usd"]["value"], 12.0) && near(&bought["all_on_demand_usd"], 48.0), "{bought}");
    let text = stdout(&tracecast(&[&ask[..], &JOB].concat()));
    assert!(text.contains("What that buys") && text.contains("12.00") && !text.contains("12.00 to 12.00"), "{text}");
    // The prices that are used are told, and not the ratio that stands for them elsewhere.
    let head = text.split_once('•').unwrap().0.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(head.contains("spot at 1.00 dollars an hour and on-demand at 4.00") && !head.contains("times"), "{head}");
    let ask = ["plan", "rent", "job", "--test", &source, "--slack", "0.5", "--starts", "2"];
    let text = stdout(&tracecast(&[&ask[..], &JOB].concat()));
    assert!(
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("; spot at 1.00 dollars an hour and on-demand at 4.00"),
        "{text}"
    );
    assert!(answer["trial"]["price_turn"].is_null() && near(&answer["all_on_demand"]["cost_usd"], 48.0), "{answer}");
}

/// A plan without prices says that it rests on a ratio of 3, and from which ratio on it is another.
/// On either side of that ratio the same command says so.
#[test]
fn a_plan_without_prices_says_what_it_rests_on() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = [
        "plan",
        "rent",
        "job",
        &source,
        "--work",
        "12h",
        "--changeover",
        "12min",
        "--deadline",
        "24h",
        "--starts",
        "3",
    ];
    let answer = of(&tracecast(&[&ask[..], &["--format", "json"]].concat()));
    let turn = answer["trial"]["price_turn"]["spot_from"].as_f64().unwrap();
    assert!(
        turn > 1.0 && turn < 3.0 && answer["trial"]["price_turn"]["assumed"] == 3.0,
        "{}",
        answer["trial"]["price_turn"]
    );
    let text = stdout(&tracecast(&ask)).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("This rests on an assumption: no price of spot and no --price-ratio is given"), "{text}");
    assert!(
        text.contains(
            "At the ratios tried, up to 3.00, with the place and all else as in this plan, spot is advised from about"
        ),
        "{text}"
    );
    // One zone: there is no other that could be chosen.
    assert!(!text.contains("another zone could be chosen"), "{text}");
    // What was assumed stands in each file that is written.
    let tasks = folder.path("tasks");
    of(&tracecast(&[&ask[..], &["--emit-to", &tasks, "--format", "json"]].concat()));
    for file in std::fs::read_dir(&tasks).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("on-demand is taken to cost 3.00 times what spot costs"), "{}: {text}", path.display());
    }
    for (ratio, is_advised) in [(turn, true), (turn / 1.031, false)] {
        let ratio = ratio.to_string();
        let answer = of(&tracecast(&[&ask[..], &["--price-ratio", &ratio, "--format", "json"]].concat()));
        assert_eq!(!answer["recommendation"].is_null(), is_advised, "{ratio}: {}", answer["action"]);
        assert!(answer["trial"]["price_turn"].is_null());
    }
}

/// Spot of one zone was there for the first half of ten days, and of the other is there since then: the plan goes by what holds now, says how zones compared on the same later days and what one job over both would have cost, and how sure the choice is.
#[test]
fn a_plan_among_zones_goes_by_what_holds_now() {
    let folder = Folder::new();
    let of_half = |name: &str, early: bool| {
        let data: Vec<String> =
            (0..480).map(|tick| u32::from((tick < 260) == early && tick % 12 < 9).to_string()).collect();
        folder.file(name, &format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", ")))
    };
    let (was, is) = (of_half("us-east-1a_v100_1.json", true), of_half("us-west-2a_v100_1.json", false));
    let ask = ["plan", "rent", "job", &was, &is, "--slack", "0.5", "--starts", "4"];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    assert_eq!(
        (answer["zone"].as_str(), answer["trial"]["judged"].as_str()),
        (Some("us-west-2a"), Some("zone chosen anew"))
    );
    let compared = &answer["compared"];
    let cost = |rule: &str| {
        let rules = compared["rules"].as_array().unwrap();
        rules.iter().find(|of| of["rule"] == rule).unwrap()["cost_ratio"]["value"].as_f64().unwrap()
    };
    assert!(
        cost("anew") + 0.3 < cost("earlier") && cost("anew") + 0.3 < cost("ended") && cost("hindsight") <= cost("anew"),
        "{compared}"
    );
    assert_eq!(compared["zones"][0]["trace"], "us-west-2a_v100_1");
    assert!(compared["together"]["cost_ratio"]["value"].as_f64().unwrap() < 1.0, "{compared}");
    let text = stdout(&tracecast(&[&ask[..], &JOB].concat())).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("Which zone: on the same 4 later windows") && text.contains("Confidence in the zone:"),
        "{text}"
    );
    assert!(text.contains("One job over all these zones"), "{text}");
    // What is expected now comes first, then what the same rule did on windows that had not been seen.
    let expected = &answer["expected_now"];
    assert_eq!(expected["by"], "semi_markov");
    let zones = compared["zones"].as_array().unwrap();
    let of_zone = zones.iter().find(|zone| zone["trace"] == "us-west-2a_v100_1").unwrap();
    assert_eq!(expected["cost_ratio"], of_zone["expected_now"]);
    let place = |of: &str| text.find(of).unwrap_or_else(|| panic!("{of}: {text}"));
    assert!(place("Expected now:") < place("The test of the same rule on later windows:"), "{text}");
    assert!(
        place("The test of the same rule") < place("The test: on 4 windows after those it was chosen on"),
        "{text}"
    );
    // The second zone has had no spot for a day.
    assert_eq!(
        (compared["second"]["trace"].as_str(), compared["shares_of"].as_str()),
        (Some("us-east-1a_v100_1"), Some("own_zone"))
    );
    assert!(
        compared["second"]["expected_more"].is_null() && text.contains("Second comes `us-east-1a_v100_1`"),
        "{compared}"
    );
    // Of two that are alike either will do, whatever a third without hope makes of the mean.
    let [one, two] = ["us-east-1b", "us-east-1c"].map(|zone| folder.file(&format!("{zone}_v100_1.json"), &regular(1)));
    let never = folder.file(
        "us-east-1d_v100_1.json",
        &format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", vec!["0"; 480].join(", ")),
    );
    let ask = ["plan", "rent", "job", &one, &two, &never, "--slack", "0.5", "--starts", "3"];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    let compared = &answer["compared"];
    assert!(compared["saving"]["low"].as_f64().unwrap() > 0.15, "{compared}");
    assert_eq!(
        (compared["second"]["alike"].to_string().as_str(), compared["confidence"].as_str()),
        ("[\"us-east-1c_v100_1\"]", Some("low"))
    );
    let text = stdout(&tracecast(&[&ask[..], &JOB].concat())).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("either will do of `us-east-1b_v100_1`, `us-east-1c_v100_1`"), "{text}");
}

/// Windows that overlap tell of the same days: ten of them over two and a half days of 24 h each are two, and give low confidence.
#[test]
fn confidence_goes_by_windows_without_overlap() {
    let folder = Folder::new();
    let data: Vec<String> = (0..360).map(|tick| u32::from(tick / 6 % 2 == 0).to_string()).collect();
    let text = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", "));
    let source = folder.file("us-east-1a_v100_1.json", &text);
    let ask = ["plan", "rent", "job", &source, "--deadline", "24h", "--starts", "10", "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &JOB].concat()));
    let sure = &answer["assurance"];
    assert_eq!((answer["trial"]["later_disjoint"].as_u64(), sure["confidence"].as_str()), (Some(2), Some("low")));
    let why = sure["risk"].as_str().unwrap();
    assert!(why.contains("10 later windows, of which 2 do not overlap"), "{why}");
}

/// Two zones with spot at 1.5 dollars, and on-demand at 4 and 3.
fn priced(folder: &Folder) -> [String; 2] {
    let list = vec!["1.5"; 480].join(", ");
    [("us-east-1a", "4"), ("us-west-2a", "3")].map(|(zone, price)| {
        let text = regular(1).replace("1800}", &format!("1800, \"on_demand_price\": {price}}}"));
        folder
            .file(&format!("{zone}_v100_1.json"), &text.replace("\"data\"", &format!("\"prices\": [{list}], \"data\"")))
    })
}

/// On-demand costs 4 dollars in one zone and 3 in the other: shares compared between zones are of
/// the cheaper, and those of one zone of its own price; every table says which.
#[test]
fn tables_say_of_which_on_demand_a_share_is() {
    let folder = Folder::new();
    let [dear, cheap] = priced(&folder);
    let ask = [
        "plan",
        "rent",
        "job",
        &dear,
        &cheap,
        "--slack",
        "0.5",
        "--starts",
        "3",
        "--work",
        "12h",
        "--changeover",
        "0s",
    ];
    let answer = of(&tracecast(&[&ask[..], &["--format", "json"]].concat()));
    let compared = &answer["compared"];
    assert_eq!(compared["shares_of"], "cheapest_zone");
    let cost = |zone: &Value| zone["cost_ratio"]["value"].as_f64().unwrap();
    let zone = |name: &str| {
        let zones = compared["zones"].as_array().unwrap();
        cost(zones.iter().find(|zone| zone["trace"] == name).unwrap())
    };
    let rules = compared["rules"].as_array().unwrap();
    let lot = cost(rules.iter().find(|rule| rule["rule"] == "any_zone").unwrap());
    // In dollars: shares of the dearer zone count for four thirds.
    let by_hand = (zone("us-east-1a_v100_1") * 4.0 / 3.0 + zone("us-west-2a_v100_1")) / 2.0;
    assert!((lot - by_hand).abs() < 1e-9, "{lot} {by_hand}");
    let text = stdout(&tracecast(&ask)).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["as shares of all on-demand where that is cheapest", "as shares of all on-demand in each"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// Two zones of two regions that have spot by turns, three hours each, on-demand at three times the price, no changeover. With a checkpoint of nothing the optimum moves
/// every three hours and pays a third; one of 1,000 GB, 20 dollars a move, stays or goes on-demand. The plan names both zones.
#[test]
fn two_zones_are_one_job() {
    let folder = Folder::new();
    let one = folder.file("us-east-1a_v100_1.json", &regular(1));
    let turned: Vec<String> = (0..480).map(|tick| u32::from(tick / 6 % 2 == 1).to_string()).collect();
    let turned = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", turned.join(", "));
    let two = folder.file("us-west-2a_v100_1.json", &turned);
    let ask = |gb: &str| {
        let ask =
            ["plan", "rent", "job", "--test", &one, &two, "--regions", "together", "--slack", "0.9", "--starts", "3"];
        of(&tracecast(&[&ask[..], &JOB, &["--checkpoint-gb", gb, "--format", "json"]].concat()))
    };
    let least = |answer: &Value| {
        let cells = answer["cells"].as_array().unwrap();
        assert!(cells.iter().all(|cell| cell["trace"] == "together" && cell["misses"] == 0));
        let of = cells.iter().find(|cell| cell["policy"] == "omniscient").unwrap();
        of["cost_ratio_mean"].as_f64().unwrap()
    };
    let (free, dear) = (ask("0"), ask("1000"));
    assert_eq!((free["regions"].as_str(), free["traces"].as_array().map(Vec::len)), (Some("together"), Some(2)));
    assert!((least(&free) - 1.0 / 3.0).abs() < 1e-12 && least(&dear) > 0.5, "{} {}", least(&free), least(&dear));
    assert!(free["policies"].as_array().unwrap().iter().any(|policy| policy["name"] == "sky_nomad"));
    let tasks = folder.path("tasks");
    let ask = [
        "plan",
        "rent",
        "job",
        &one,
        &two,
        "--regions",
        "together",
        "--slack",
        "0.6",
        "--starts",
        "2",
        "--checkpoint-gb",
        "0",
    ];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--emit-to", &tasks, "--format", "json"]].concat()));
    assert_eq!(answer["zones"]["order"].as_array().map(Vec::len), Some(2), "{}", answer["zones"]);
    let spot = std::fs::read_to_string(folder.path("tasks/deadline-spot.yaml")).unwrap();
    assert!(spot.contains("ordered") && spot.contains("us-west-2a") && spot.contains("us-east-1a"), "{spot}");
    assert!(std::fs::read_to_string(folder.path("tasks/NOTES.txt")).unwrap().contains("Zones for spot, in order"));
    // Two regions are two clusters, each with a file of pools.
    for region in ["us-east-1", "us-west-2"] {
        let pools = std::fs::read_to_string(folder.path(&format!("tasks/karpenter-nodepools-{region}.yaml"))).unwrap();
        assert!(pools.contains(&format!("\"deadline-spot-{region}a\"")), "{pools}");
    }
    assert!(std::fs::read_to_string(folder.path("tasks/KARPENTER.txt")).unwrap().contains("a cluster of one region"));
    let other_folder = Folder::new();
    let again = other_folder.file("us-east-1a_v100_1.json", &regular(1));
    let twice = tracecast(&["plan", "rent", "job", "--test", &one, &again, "--regions", "together", "--work", "12h"]);
    assert!(stderr(&twice).contains("us-east-1a comes twice"), "{}", stderr(&twice));
}

/// Ten days of half-hours: two nodes for three hours, one for the next three. 12 h of work on both in 15 h, no changeover, from the first tick: both can be had for 9 h and one for
/// the other 6, which is 24 node-hours of spot: a third of all on-demand. A job that needs both pays for 9 h on spot and 3 h on-demand: half of it.
#[test]
fn an_elastic_job_takes_what_there_is() {
    let folder = Folder::new();
    let data: Vec<String> = (0..480).map(|tick| (2 - tick / 6 % 2).to_string()).collect();
    let text = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", "));
    let source = folder.file("us-east-1a_v100_1.json", &text);
    let ask = |more: &[&str]| {
        let ask = ["plan", "rent", "job", "--test", &source, "--slack", "0.8", "--starts", "1", "--need", "2"];
        tracecast(&[&ask[..], &JOB, more].concat())
    };
    let least = |answer: &Value| {
        let cells = answer["cells"].as_array().unwrap();
        assert!(cells.len() == 7 && cells.iter().all(|cell| cell["misses"] == 0));
        cells.iter().find(|cell| cell["policy"] == "omniscient").unwrap()["cost_ratio_mean"].as_f64().unwrap()
    };
    let (elastic, gang) = (of(&ask(&["--elastic", "--format", "json"])), of(&ask(&["--format", "json"])));
    assert_eq!((elastic["elastic"].as_bool(), gang["elastic"].as_bool()), (Some(true), Some(false)));
    assert!((least(&elastic) - 1.0 / 3.0).abs() < 1e-12 && (least(&gang) - 0.5).abs() < 1e-12);
    assert_eq!(
        (gang["traces"][0]["up_share"].as_f64(), gang["traces"][0]["had_share"].as_f64()),
        (Some(0.5), Some(0.75))
    );
    let greedy = elastic["cells"].as_array().unwrap().iter().find(|cell| cell["policy"] == "greedy").unwrap();
    assert!((greedy["cost_ratio_mean"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-12, "{greedy}");
    let text = stdout(&ask(&["--elastic"]));
    assert!(text.contains("on up to 2 instances") && text.contains("had, %"), "{text}");
    let tasks = folder.path("tasks");
    let plan = ["plan", "rent", "job", &source, "--slack", "0.8", "--starts", "2", "--need", "2", "--elastic"];
    let answer = of(&tracecast(&[&plan[..], &JOB, &["--emit-to", &tasks, "--format", "json"]].concat()));
    let by_had = answer["nodes"]["by_had"].as_array().unwrap();
    let spot: Vec<u64> = by_had.iter().filter_map(|nodes| nodes["spot"].as_u64()).collect();
    assert_eq!((spot, answer["nodes"]["last"]["had"].as_u64()), (vec![0, 1, 2], Some(1)));
    let task = std::fs::read_to_string(folder.path("tasks/deadline-spot.yaml")).unwrap();
    assert!(task.contains("\"num_nodes\": 1"), "{task}");
    let notes = std::fs::read_to_string(folder.path("tasks/NOTES.txt")).unwrap();
    assert!(notes.contains("2 to be had: 2 on spot"), "{notes}");
    let refused = ask(&["--elastic", "--regions", "together"]);
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("--elastic"), "{}", stderr(&refused));
}

/// Zones of Google Cloud, and one that is nobody's: the task names those whose place is known, in order, and the notes the other.
#[test]
fn tasks_name_zones_of_any_provider() {
    let folder = Folder::new();
    let by_turns = |at: usize| {
        let data: Vec<String> = (0..480).map(|tick| u32::from(tick / 6 % 3 == at).to_string()).collect();
        format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", "))
    };
    let [one, two, three] = [("us-central1-a", 0), ("europe-west4-b", 1), ("here", 2)]
        .map(|(zone, at)| folder.file(&format!("{zone}_a100_1.json"), &by_turns(at)));
    let tasks = folder.path("tasks");
    let ask = ["plan", "rent", "job", &one, &two, &three, "--regions", "together", "--slack", "0.6", "--starts", "2"];
    let rest = ["--checkpoint-gb", "0", "--emit-to", &tasks, "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &JOB, &rest].concat()));
    assert_eq!(answer["zones"]["order"].as_array().map(Vec::len), Some(3), "{}", answer["zones"]);
    let spot = std::fs::read_to_string(folder.path("tasks/deadline-spot.yaml")).unwrap();
    assert!(spot.contains("\"infra\": \"gcp/us-central1/us-central1-a\""), "{spot}");
    assert!(spot.contains("\"infra\": \"gcp/europe-west4/europe-west4-b\"") && !spot.contains("/here"), "{spot}");
    let notes = std::fs::read_to_string(folder.path("tasks/NOTES.txt")).unwrap();
    assert!(notes.contains("The tasks do not name here"), "{notes}");
    // The labels of GPUs are AWS's and Azure's: a pool in Google's zone names the zone, and says what is missing.
    let pools = std::fs::read_to_string(folder.path("tasks/karpenter-nodepools-us-central1.yaml")).unwrap();
    assert!(!pools.contains("instance-gpu-name") && pools.contains("which has 1 of A100: add"), "{pools}");
    assert!(
        pools.contains("\"kind\": \"GCENodeClass\"") && pools.contains("\"group\": \"karpenter.k8s.gcp\""),
        "{pools}"
    );
    let pools = std::fs::read_to_string(folder.path("tasks/karpenter-nodepools.yaml")).unwrap();
    assert!(pools.contains("The zone of the trace is not known") && !pools.contains("\"here\""), "{pools}");
    // Nobody says whose nodes these are: the reference is left to be filled in, and the reader is told so.
    assert!(pools.contains("\"kind\": \"FILL-IN\"") && pools.contains("IT CANNOT BE APPLIED YET"), "{pools}");
    let notes = std::fs::read_to_string(folder.path("tasks/KARPENTER.txt")).unwrap();
    assert!(notes.contains("Some pools CANNOT BE APPLIED YET") && notes.contains("FILL-IN"), "{notes}");
}

/// On-demand at 1.05 times the price of spot can save 4.8 % at most: that is no reason to change, so the plan says on-demand, recommends nothing and writes nothing.
#[test]
fn a_plan_that_is_not_worth_it_says_so_everywhere() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let tasks = folder.path("tasks");
    let job = ["--work", "12h", "--changeover", "0s", "--price-ratio", "1.05"];
    let ask =
        ["plan", "rent", "job", &source, "--slack", "0.5", "--starts", "3", "--emit-to", &tasks, "--format", "json"];
    let output = tracecast(&[&ask[..], &job].concat());
    let answer = of(&output);
    assert!(answer["recommendation"].is_null() && answer["trial"]["chosen"] != "on_demand", "{answer}");
    assert_eq!((answer["verdict"].as_str(), answer["now"]["if_up"].as_str()), (Some("no_saving"), Some("on_demand")));
    let action = answer["action"].as_str().unwrap();
    assert!(action.starts_with("**Run the job on-demand**") && action.contains("worth it from 5.0 % on"), "{action}");
    // What that costs is told all the same.
    assert!(action.contains("That takes 12.0 instance-hours, as much as 12.6 hours on spot"), "{action}");
    assert_eq!(answer["all_on_demand"]["instance_h"], 12.0);
    let said = stderr(&output);
    let nothing =
        "nothing is written to --emit-to: no change is advised, so there is nothing to set. Run the job on-demand";
    assert!(output.status.success() && said.contains(nothing), "{said}");
    assert!(!std::path::Path::new(&tasks).exists());
    // How sure that is, is told all the same.
    let sure = answer["assurance"]["confidence"].as_str();
    assert_eq!((sure, answer["cautions"].as_array().map(Vec::len)), (Some("medium"), Some(0)));
    let text = stdout(&tracecast(&[&ask[..8], &job].concat()));
    assert!(text.contains("Confidence: medium. It is reported on 3 later windows"), "{text}");
}

/// Ten days, three hours of spot and three without, no changeover, 12 h of work in 24 h: a third of on-demand at three times the price, two thirds at one and a half. Of 15 h in truth and 12 said
/// the last three come after the deadline. Spot is lost every 3 h, so a checkpoint of 1 min is written every 18.3 min (Daly).
#[test]
fn a_plan_says_what_if_and_how_often_to_save() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = ["plan", "rent", "job", &source, "--slack", "0.5", "--starts", "3", "--checkpoint-cost", "1min"];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    let cases = answer["trial"]["sensitivity"].as_array().unwrap();
    let case = |varied: &str, times: f64| {
        cases.iter().find(|case| case["varied"] == varied && case["times"].as_f64() == Some(times)).unwrap()
    };
    // A changeover of nothing has no half.
    assert_eq!(cases.len(), 5);
    let cost = |case: &Value| case["cost_ratio_mean"].as_f64().unwrap();
    let said = cost(case("nothing", 1.0));
    let reported = answer["recommendation"]["effects"][0]["change"].as_f64().unwrap();
    assert!((said - 1.0 - reported).abs() < 1e-12, "{said} {reported}");
    assert!(cost(case("price_ratio", 2.0)) < said && said < cost(case("price_ratio", 0.5)));
    let (less, more) = (case("work", 0.8), case("work", 1.25));
    assert_eq!((less["misses"].as_u64(), less["late_s"].is_null()), (Some(0), true));
    // Who misses a deadline spends less on keeping it.
    assert!(more["misses"].as_u64() > Some(0) && more["late_s"].as_f64() > Some(0.0), "{more}");
    assert!(more["choice"].is_null() && more["over_knowing"].as_f64().unwrap() < 0.0, "{more}");
    assert_eq!(answer["checkpoint"]["lost_every_s"], 10_800.0);
    assert!((answer["checkpoint"]["daly_s"].as_f64().unwrap() - 1099.2).abs() < 20.0, "{}", answer["checkpoint"]);
    let text = stdout(&tracecast(&[&ask[..], &JOB].concat()));
    assert!(text.contains("What if it is not as said?") && text.contains("Write a checkpoint every"), "{text}");
    let bare = of(&tracecast(&[&ask[..8], &JOB, &["--format", "json"]].concat()));
    assert!(bare["checkpoint"].is_null());
    let refused = tracecast(&[&ask[..8], &JOB, &["--checkpoint-cost", "0s"]].concat());
    assert!(refused.status.code() == Some(2) && stderr(&refused).contains("a checkpoint takes time"));
}

/// Work that is given as a distribution and is certain is known work, byte for byte.
#[test]
fn certain_quantiles_are_known_work() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    for command in [&PLAN[..], &TEST] {
        let told = |work: &[&str]| {
            let ask = [&source, "--slack", "0.5", "--starts", "3", "--format", "json"];
            let mut answer = of(&tracecast(&[command, &ask[..], work, &["--changeover", "12min"]].concat()));
            // The command is told as it was typed.
            if let Some(told) = answer["recommendation"].as_object_mut() {
                told.remove("command");
            }
            answer.to_string()
        };
        let known = told(&["--work", "12h"]);
        assert!(told(&["--work-quantiles", "1=12h"]) == known, "{command:?}");
        assert!(told(&["--work-quantiles", "0.5=12h,1=12h"]) == known, "{command:?}");
    }
}

/// Ten days, three hours of spot and three without, no changeover. Work of 3 h in half of the cases and 12 h in the others, in 24 h: all of it is done on spot, as it is for who knows the work. The median is 3 h: told that, the job
/// of 12 h is late where it waits until 3 h are left.
#[test]
fn work_may_be_uncertain() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = ["plan", "rent", "job", &source, "--deadline", "24h", "--changeover", "0s", "--starts", "3"];
    let quantiles = ["--work-quantiles", "0.5=3h,0.5=12h,1=12h"];
    let answer = of(&tracecast(&[&ask[..], &quantiles, &["--format", "json"]].concat()));
    assert_eq!((answer["work_s"].as_f64(), answer["uncertain"]["mean_s"].as_f64()), (Some(43_200.0), Some(27_000.0)));
    let plans = answer["uncertain"]["by_slack"][0]["plans"].as_array().unwrap();
    let names: Vec<&str> = plans.iter().filter_map(|plan| plan["plans_on"].as_str()).collect();
    assert_eq!(names, ["distribution", "top", "median"]);
    let near = |value: &Value, of: f64| (value.as_f64().unwrap() - of).abs() < 1e-9;
    // All on spot is a third; the programme learns the zone, and may be on-demand for some of it.
    for plan in &plans[..2] {
        let cost = plan["cost_ratio"]["value"].as_f64().unwrap();
        assert!((0.333..0.4).contains(&cost) && near(&plan["missed_share"], 0.0), "{plan}");
        assert!(near(&plan["over_omniscient_mean"], 3.0 * cost - 1.0), "{plan}");
    }
    assert!(answer["trial"]["candidates"].as_array().unwrap().iter().all(|of| of["report_misses"] == 0));
    // 7.5 h on the mean, on the one or the other.
    let hours = |kind: &Value| kind["instance_h"]["value"].as_f64().unwrap();
    let kinds = answer["purchases"]["kinds"].as_array().unwrap();
    assert!((kinds.iter().map(hours).sum::<f64>() - 7.5).abs() < 1e-6, "{kinds:?}");
    // The cases of another price and changeover are tried, those of other work are not.
    assert!(answer["trial"]["sensitivity"].as_array().unwrap().iter().all(|case| case["varied"] != "work"));
    let text = stdout(&tracecast(&[&ask[..], &quantiles].concat()));
    let notes = answer["notes"].to_string();
    assert!(notes.contains("Every deadline is kept for each amount up to 12 h,"), "{notes}");
    assert!(text.contains("What is it worth to plan on what is known of the work?"), "{text}");
    // A range; the files say that the work is uncertain, and the recommendation how it was asked for.
    let tasks = folder.path("tasks");
    let range = ["--work-quantiles", "0=6h,1=12h", "--emit-to", &tasks, "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &range].concat()));
    assert!(near(&answer["uncertain"]["mean_s"], 32_400.0) && near(&answer["uncertain"]["beyond"], 0.0), "{answer}");
    let command = answer["recommendation"]["command"].as_str().unwrap();
    assert!(command.contains(" --work-quantiles 0=6h,1=12h ") && !command.contains("--work TIME"), "{command:?}");
    for name in ["KARPENTER.txt", "NOTES.txt"] {
        let notes = std::fs::read_to_string(folder.path(&format!("tasks/{name}"))).unwrap();
        assert!(
            notes.contains("work that is uncertain: 12.00 h at most, 9.00 h on the mean, and 9.00 h or less"),
            "{notes}"
        );
    }
    let ask =
        ["plan", "rent", "job", "--test", &source, "--slack", "0.5,0.8", "--changeover", "12min", "--starts", "4"];
    let quantiles = ["--work-quantiles", "0.1=6h,0.5=8h,0.9=12h", "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &quantiles].concat()));
    let by_slack = answer["uncertain"]["by_slack"].as_array().unwrap();
    assert_eq!((by_slack.len(), near(&answer["uncertain"]["beyond"], 0.1)), (2, true));
    for plans in by_slack.iter().map(|at| at["plans"].as_array().unwrap()) {
        assert!(plans[..2].iter().all(|plan| near(&plan["missed_share"], 0.0) && plan["late_s"].is_null()));
    }
    let (on_median, cells) = (&by_slack[1]["plans"][2], answer["cells"].as_array().unwrap());
    assert!(on_median["missed_share"].as_f64() > Some(0.0) && on_median["late_s"].as_f64() > Some(0.0), "{on_median}");
    assert!(cells.iter().all(|cell| cell["misses"] == 0 && cell["over_omniscient_mean"].as_f64() >= Some(-1e-9)));
    assert!(answer["notes"].to_string().contains("with a chance of 10.0 %"), "{}", answer["notes"]);
}

/// The work of a job that was predicted, by its rows as CSV and as JSON.
#[test]
fn work_may_be_predicted() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let csv = folder.file(
        "p.csv",
        "job_id,predicted_duration_s,mean_s,p05_s,p10_s,p50_s,p90_s,p95_s,unsure,expected_end\n7,1,1,3600,7200,14400,28800,43200,true,\n",
    );
    let json = folder.file(
        "p.jsonl",
        "{\"job_id\": \"7\", \"p05_s\": 3600, \"p10_s\": 7200, \"p50_s\": 14400, \"p90_s\": 28800, \"p95_s\": 43200, \"unsure\": true}\n",
    );
    let ask = |more: &[&str]| {
        let ask = ["plan", "rent", "job", "--test", &source, "--slack", "0.5", "--starts", "2", "--format", "json"];
        tracecast(&[&ask[..], more].concat())
    };
    let [first, second] = [&csv, &json].map(|file| ask(&["--predictions", file, "--job", "7"]));
    assert!(stderr(&first).contains("unsure of job 7"), "{}", stderr(&first));
    assert!(first.stdout == second.stdout);
    let answer = of(&first);
    assert_eq!((answer["work_s"].as_f64(), answer["uncertain"]["median_s"].as_f64()), (Some(43_200.0), Some(14_400.0)));
    let said = |more: &[&str]| {
        let output = ask(more);
        (output.status.code(), stderr(&output))
    };
    let (code, text) = said(&["--predictions", &csv, "--job", "8"]);
    assert!(code == Some(1) && text.contains("no row is of job 8"), "{text}");
    let crossing = folder.file("x.csv", "job_id,p05_s,p10_s,p50_s,p90_s,p95_s\n7,1,7200,3600,28800,43200\n");
    let (code, text) = said(&["--predictions", &crossing, "--job", "7"]);
    assert!(
        code == Some(1)
            && text.contains("line 2: the quantiles of job 7 cross: p10_s is 7200 and p50_s is 3600; predict it again"),
        "{text}"
    );
    let (code, text) = said(&["--predictions", &csv]);
    assert!(code == Some(2) && text.contains("--job"), "{text}");
    let (code, text) = said(&["--work", "12h", "--work-quantiles", "1=12h"]);
    assert!(code == Some(2) && text.contains("--work-quantiles"), "{text}");
    let (code, text) = said(&[]);
    assert!(code == Some(2) && text.contains("--work"), "{text}");
    let (code, text) = said(&["--work-quantiles", "0.9=12h,0.5=6h"]);
    assert!(code == Some(2) && text.contains("0.9=12h before 0.5=6h"), "{text}");
    let (code, text) = said(&["--work-quantiles", "12h"]);
    assert!(code == Some(2) && text.contains("such as 0.9=60h"), "{text}");
}

/// Two instances half of the time and one the rest, no changeover, 12 h of work on both in 15 h at most, and 3 h in half of the cases: no deadline is missed, whatever the amount. Work that is one amount is known work, to the byte.
#[test]
fn uncertain_work_of_an_elastic_job() {
    let folder = Folder::new();
    let data: Vec<String> = (0..480).map(|tick| (2 - tick / 6 % 2).to_string()).collect();
    let text = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", data.join(", "));
    let source = folder.file("us-east-1a_v100_1.json", &text);
    let elastic = ["--need", "2", "--elastic", "--changeover", "0s", "--price-ratio", "3", "--starts", "3"];
    let ask = |command: &[&str], more: &[&str]| {
        let output = tracecast(&[command, &[&source], &elastic, more, &["--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let slack = ["--slack", "0.8"];
    let [known, certain] =
        [["--work", "12h"], ["--work-quantiles", "1=12h"]].map(|work| ask(&TEST, &[&work[..], &slack].concat()));
    assert_eq!(known, certain);
    let work = ["--work-quantiles", "0.5=3h,0.5=12h,1=12h"];
    let answer = json(&ask(&TEST, &[&work[..], &slack].concat()));
    let policies = answer["policies"].as_array().unwrap();
    for policy in policies {
        let at = &policy["by_slack"][0];
        assert!(at["misses"] == 0 && at["over_omniscient_mean"].as_f64().unwrap() > -1e-12, "{policy}");
    }
    // Who knows the work does nearly all of it on spot: a third of all on-demand.
    let least = policies.iter().find(|policy| policy["name"] == "omniscient").unwrap();
    assert!((0.333..0.4).contains(&least["by_slack"][0]["cost_ratio_mean"].as_f64().unwrap()), "{least}");
    let plan = json(&ask(&PLAN, &[&work[..], &["--deadline", "15h"]].concat()));
    let plans = plan["uncertain"]["by_slack"][0]["plans"].as_array().unwrap();
    let names: Vec<&str> = plans.iter().filter_map(|plan| plan["plans_on"].as_str()).collect();
    assert_eq!(names, ["conditional_quantile", "top", "median"]);
    assert!(plans[..2].iter().all(|plan| plan["missed_share"] == 0.0), "{plans:?}");
    assert!(plan["nodes"]["by_had"].as_array().is_some_and(|nodes| nodes.len() == 3), "{plan}");
    assert!(plan["notes"].to_string().contains("covers what is left with a chance of"), "{}", plan["notes"]);
    // Two instances of 7.5 h on the mean.
    assert!((plan["all_on_demand"]["instance_h"].as_f64().unwrap() - 15.0).abs() < 1e-9, "{}", plan["all_on_demand"]);
}

/// Prices of spot alone: what on-demand is taken to cost is told before all else, with the option that says it, and how sure the advice is. Said by an option, it is no assumption.
#[test]
fn a_guessed_price_of_on_demand_is_told_up_front() {
    let folder = Folder::new();
    let list = vec!["1.0"; 480].join(", ");
    let text = regular(1).replace("\"data\"", &format!("\"prices\": [{list}], \"data\""));
    let source = folder.file("us-east-1a_v100_1.json", &text);
    let ask = |more: &[&str]| {
        let ask =
            ["plan", "rent", "job", &source, "--work", "12h", "--changeover", "0s", "--slack", "0.5", "--starts", "3"];
        let answer = of(&tracecast(&[&ask[..], more, &["--format", "json"]].concat()));
        let text = stdout(&tracecast(&[&ask[..], more].concat())).split_whitespace().collect::<Vec<_>>().join(" ");
        (answer, text)
    };
    let (answer, text) = ask(&[]);
    let caution = answer["cautions"][0].as_str().unwrap();
    assert!(caution.contains("3.00 times the first price of spot (3.00 dollars an hour)"), "{caution}");
    assert!(caution.contains("`--on-demand-price`") && !caution.contains("zone by zone"), "{caution}");
    assert!(answer["cautions"].as_array().unwrap().len() == 1 && answer["trial"]["price_turn"].is_null(), "{answer}");
    let place = |of: &str| text.find(of).unwrap_or_else(|| panic!("{of}: {text}"));
    assert!(
        place("which is an assumption as no price on demand is given") < place("windows after those it was chosen on"),
        "{text}"
    );
    assert!(text.contains("Confidence: medium. The price of on-demand is assumed; at 0.50 times that"), "{text}");
    assert_eq!(answer["recommendation"]["confidence"], answer["assurance"]["confidence"]);
    let (answer, text) = ask(&["--on-demand-price", "3"]);
    assert_eq!(answer["cautions"].as_array().map(Vec::len), Some(0));
    assert!(text.contains("Confidence: medium. It is reported on 3 later windows"), "{text}");
}

/// Work that is uncertain over two zones, 6 or 12 h: no deadline is missed, policies plan on the most, and all on-demand is the mean of 9 h with a changeover.
#[test]
fn uncertain_work_is_planned_over_zones() {
    let folder = Folder::new();
    let [one, other] = ["a", "b"].map(|zone| folder.file(&format!("us-east-1{zone}_v100_1.json"), &regular(1)));
    let of_work = |command: &[&str], work: &[&str]| {
        let ask = [&one, &other, "--regions", "together", "--changeover", "12min", "--starts", "3"];
        let output = tracecast(&[command, &ask[..], work, &["--format", "json"]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let uncertain = ["--work-quantiles", "0.5=6h,0.5=12h,1=12h"];
    let answer = of_work(&PLAN, &[&uncertain[..], &["--deadline", "24h"]].concat());
    assert_eq!(answer["uncertain"]["by_slack"][0]["plans"][0]["plans_on"], "top");
    assert_eq!(answer["uncertain"]["by_slack"][0]["plans"].as_array().unwrap().len(), 1);
    assert!(answer["notes"].to_string().contains("All policies plan on 12 h"), "{}", answer["notes"]);
    let candidates = answer["trial"]["candidates"].as_array().unwrap();
    assert!(candidates.iter().all(|of| of["choose_misses"] == 0 && of["report_misses"] == 0), "{candidates:?}");
    let on_demand_h = answer["all_on_demand"]["instance_h"].as_f64().unwrap();
    assert!((on_demand_h - 9.2).abs() < 1e-9, "{on_demand_h}");
    let tested = of_work(&TEST, &[&uncertain[..], &["--slack", "0.5"]].concat());
    let policies = tested["policies"].as_array().unwrap();
    assert!(policies.iter().all(|of| of["by_slack"][0]["misses"] == 0), "{policies:?}");
    assert!(policies.iter().all(|of| of["by_slack"][0]["over_omniscient_mean"].as_f64().unwrap() >= -1e-12));
    assert_eq!(tested["uncertain"]["by_slack"][0]["windows"], 3);
}

/// Two zones of one job that are probed. At every sample the answer is what it is without probes; every two hours it is another, and says how zones are seen, what probes asked and which tries failed. No deadline is missed, and nothing is cheaper than the optimum.
/// All on-demand asks nobody and costs what it costs. Who does not say that the zones are of one job is told to.
#[test]
fn zones_of_one_job_are_probed() {
    let folder = Folder::new();
    let one = folder.file("us-east-1a_v100_1.json", &regular(1));
    let turned: Vec<String> = (0..480).map(|tick| u32::from(tick / 7 % 2 == 1).to_string()).collect();
    let turned = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", turned.join(", "));
    let two = folder.file("us-west-2a_v100_1.json", &turned);
    let ask = |command: &[&str], more: &[&str]| {
        let ask = [&one, &two, "--regions", "together", "--slack", "0.6", "--starts", "3"];
        tracecast(&[command, &ask[..], &JOB, &["--format", "json"], more].concat())
    };
    let figures = |answer: &Value| -> Vec<(String, String)> {
        let cells = answer["cells"].as_array().unwrap();
        cells.iter().map(|cell| (cell["policy"].to_string(), cell["cost_ratio_mean"].to_string())).collect()
    };
    let seen = of(&ask(&TEST, &[]));
    assert!(seen.get("probes").is_none() && seen["cells"][0].get("asked_mean").is_none());
    assert!(seen["notes"].to_string().contains("known at each tick without asking"), "{}", seen["notes"]);
    assert_eq!(figures(&of(&ask(&TEST, &["--probe", "30min"]))), figures(&seen));
    let probed = of(&ask(&TEST, &["--probe", "2h", "--probe-bill", "1min"]));
    assert_eq!(
        (probed["probes"]["every_s"].as_f64(), probed["probes"]["past"].as_str()),
        (Some(7200.0), Some("probed"))
    );
    assert!(probed["notes"].to_string().contains("Zones are probed every 2 h"), "{}", probed["notes"]);
    assert_ne!(figures(&probed), figures(&seen));
    let cells = probed["cells"].as_array().unwrap();
    let cell = |policy: &str| cells.iter().find(|cell| cell["policy"] == policy).unwrap();
    assert!(cells.iter().all(|cell| cell["misses"] == 0 && cell["over_omniscient_mean"].as_f64().unwrap() >= -1e-12));
    assert_eq!(
        (cell("on_demand")["cost_ratio_mean"].as_f64(), cell("on_demand")["asked_mean"].as_f64()),
        (Some(1.0), Some(0.0))
    );
    assert!(cell("greedy")["asked_mean"].as_f64().unwrap() > 2.0 && cell("omniscient").get("asked_mean").is_none());
    let recorded = of(&ask(&TEST, &["--probe", "2h", "--probe-past", "recorded"]));
    assert_eq!(recorded["probes"]["past"], "recorded");
    let plan = of(&ask(&PLAN, &["--probe", "2h"]));
    assert_eq!((plan["probes"]["every_s"].as_f64(), plan["purchases"]["probes_h"].as_f64()), (Some(7200.0), Some(0.0)));
    let billed = of(&ask(&PLAN, &["--probe", "2h", "--probe-bill", "1min"]));
    assert!(billed["purchases"]["probes_h"].as_f64().unwrap() > 0.0, "{}", billed["purchases"]);
    assert!(plan["notes"].to_string().contains("Zones are probed every 2 h"), "{}", plan["notes"]);
    // Regression: who follows the plan was told nothing of probes.
    let folder_of_plan = folder.path("tasks");
    let follow = [
        "plan",
        "rent",
        "job",
        &one,
        &two,
        "--regions",
        "together",
        "--slack",
        "0.6",
        "--starts",
        "3",
        "--probe",
        "2h",
    ];
    let told = tracecast(&[&follow[..], &JOB, &["--emit", "skypilot", "--emit-to", &folder_of_plan]].concat());
    let text = stdout(&told).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("See in all zones whether spot can be had, at the start and every 2 h"), "{text}");
    let notes = std::fs::read_to_string(format!("{folder_of_plan}/NOTES.txt")).unwrap();
    assert!(notes.contains("every 2 h after it"), "{notes}");
    let apart = tracecast(&[&["plan", "rent", "job", "--test", &one, &two, "--probe", "2h"], &JOB[..]].concat());
    assert!(apart.status.code() == Some(2) && stderr(&apart).contains("--regions together"), "{}", stderr(&apart));
    let none = ask(&TEST, &["--probe", "0s"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("--probe 0s"), "{}", stderr(&none));
}

/// Two charts show one job, tick by tick; a job over zones has none.
#[test]
fn charts_show_one_job() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let charts = folder.path("charts");
    let ask = ["plan", "rent", "job", "--test", &source, "--slack", "0.5", "--starts", "3", "--charts", &charts];
    assert!(tracecast(&[&ask[..], &JOB].concat()).status.success());
    for name in ["cost-over-slack", "one-job-held", "one-job-progress"] {
        let svg = std::fs::read_to_string(folder.path(&format!("charts/{name}.svg"))).unwrap();
        assert!(svg.contains("<svg"), "{name}");
    }
    let held = std::fs::read_to_string(folder.path("charts/one-job-held.svg")).unwrap();
    assert!(held.contains("spot could be had") && held.contains("optimum: spot"), "{held}");
}

/// Prices in one of two zones only: a job over both is refused, and the remedy sets the prices
/// aside, as if there were none.
#[test]
fn prices_that_only_some_traces_carry_can_be_set_aside() {
    let folder = Folder::new();
    let list = vec!["1.5"; 480].join(", ");
    let priced = regular(1)
        .replace("1800}", "1800, \"on_demand_price\": 4}")
        .replace("\"data\"", &format!("\"prices\": [{list}], \"data\""));
    let bare = folder.file("us-east-1a_v100_1.json", &regular(1));
    let other = Folder::new();
    let (with, without) =
        (other.file("us-west-2a_v100_1.json", &priced), folder.file("us-west-2a_v100_1.json", &regular(1)));
    let ask = |second: &str, more: &[&str]| {
        let ask = [
            "plan",
            "rent",
            "job",
            "--test",
            &bare,
            second,
            "--regions",
            "together",
            "--slack",
            "0.5",
            "--starts",
            "2",
        ];
        tracecast(&[&ask[..], &JOB, &["--format", "json"], more].concat())
    };
    let refused = ask(&with, &[]);
    assert!(refused.status.code() == Some(1) && stderr(&refused).contains("--prices none"), "{}", stderr(&refused));
    let [aside, none] = [ask(&with, &["--prices", "none"]), ask(&without, &[])].map(|output| of(&output));
    assert_eq!(aside["cells"], none["cells"]);
}

/// On-demand costs 4 and 3 dollars in two zones: all on-demand is in the second, and the note says
/// so with what it takes to check a share.
#[test]
fn what_a_share_over_zones_is_of_is_told() {
    let folder = Folder::new();
    let [dear, cheap] = priced(&folder);
    let ask = |more: &[&str]| {
        let ask = ["plan", "rent", "job", &dear, &cheap, "--regions", "together", "--slack", "0.5", "--starts", "2"];
        let sized = ["--work", "12h", "--changeover", "12min", "--format", "json"];
        of(&tracecast(&[&ask[..], &sized, more].concat()))
    };
    let answer = ask(&[]);
    let all = |key: &str| answer["all_on_demand"][key].as_f64().unwrap();
    assert!(
        (all("usd_per_h") - 3.0).abs() < 1e-9 && (all("cost_usd") - 36.6).abs() < 1e-9,
        "{}",
        answer["all_on_demand"]
    );
    let notes = answer["notes"].to_string();
    let told = "is the job from beginning to end in `us-west-2a`, where that costs least: 12.2 instance-hours, 36.60 dollars at 3.0000 dollars an hour";
    assert!(notes.contains(told) && !notes.contains("1 dollar"), "{notes}");
    let notes = ask(&["--prices", "none"])["notes"].to_string();
    assert!(
        notes.contains("No prices are given: an hour of spot counts as 1 dollar") && !notes.contains("us-west-2a"),
        "{notes}"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let said = |arguments: &[&str]| {
        let output = tracecast(&[&["plan", "rent", "job", "--test", &source], arguments].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = said(&["--work", "48h", "--slack", "1"]);
    assert!(code == Some(2) && text.contains("ask for 0.9958 or less"), "{text}");
    let (code, text) = said(&["--work", "480h", "--slack", "0.9"]);
    assert!(code == Some(5) && text.contains("240.0 h long"), "{text}");
    let (code, text) = said(&["--work", "12h", "--slack", "0.5", "--starts", "0"]);
    assert!(code == Some(2) && text.contains("from 1 to 100000"), "{text}");
    let prices = folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["plan", "rent", "job", "--test", &prices, "--work", "12h"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("gap_seconds"), "{}", stderr(&output));
}

/// Two zones as one job, planned and tried by one thread and by two: the same bytes.
#[test]
fn over_zones_threads_change_nothing() {
    let folder = Folder::new();
    let one = folder.file("us-east-1a_v100_1.json", &regular(1));
    let turned: Vec<String> = (0..480).map(|tick| u32::from(tick / 5 % 3 == 1).to_string()).collect();
    let turned = format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{}]}}", turned.join(", "));
    let two = folder.file("us-west-2a_v100_1.json", &turned);
    for regions in ["together", "apart"] {
        for command in [&PLAN[..], &TEST] {
            let of = |threads: &str| {
                let ask = ["--threads", threads, &one, &two, "--regions", regions];
                let output = tracecast(
                    &[command, &ask[..], &JOB, &["--slack", "0.6", "--starts", "4", "--format", "json"]].concat(),
                );
                assert!(output.status.success(), "{}", stderr(&output));
                output.stdout
            };
            assert!(of("1") == of("2"), "{command:?} {regions}");
        }
    }
}

/// A price of on-demand beside no price of spot, prices of another length than their trace, and zones of other instances.
#[test]
fn prices_and_zones_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = |more: &[&str]| {
        let output =
            tracecast(&[&["plan", "rent", "job", "--test", &source, "--slack", "0.5"], &JOB[..], more].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = ask(&["--on-demand-price", "3.06"]);
    assert!(code == Some(2) && text.contains("--on-demand-price") && text.contains("us-east-1a_v100_1"), "{text}");
    let lists = folder.file("lists.json", "{\"us-east-1a_v100_1\": [1.0, 1.0]}");
    let (code, text) = ask(&["--prices", &lists]);
    assert!(code == Some(1) && text.contains("has 2 prices, and the trace 480 samples"), "{text}");
    let eight = folder.file("us-west-2a_v100_8.json", &regular(8));
    let (code, text) = ask(&[&eight, "--regions", "together"]);
    assert!(code == Some(1) && text.contains("V100:1") && text.contains("us-west-2a_v100_8 of V100:8"), "{text}");
}

/// Regression test: with three zones as one job, the list of zones to try held one alone, as the
/// job holds on before it takes the next, so that nothing was written to fall back to.
#[test]
fn the_zones_to_try_go_on_where_the_job_holds_on_first() {
    let zones = ["us-east-1f", "us-east-2a", "us-west-2c"].map(|zone| {
        tracecast_tests::real_trace(&format!("spot_skypilot/preemption/4-node/aws-08-03-2023/{zone}_v100_1.json"))
    });
    let [Some(a), Some(b), Some(c)] = zones else { return };
    let zones = [a, b, c].map(|path| path.display().to_string());
    let job = ["--regions", "together", "--work", "50h", "--deadline", "62h", "--need", "4", "--format", "json"];
    let traces: Vec<&str> = zones.iter().map(String::as_str).collect();
    let answer = of(&tracecast(&[&["plan", "rent", "job"], &traces[..], &job].concat()));
    let order = answer["zones"]["order"].as_array().unwrap();
    assert_eq!(order.len(), 3, "{}", answer["zones"]);
}
