//! `plan cloud` and `backtest cloud`, as a user meets them.

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

const JOB: [&str; 6] = ["--work", "12h", "--changeover", "0s", "--price-ratio", "3"];

/// 12 h of work in 24 h, without changeovers. Spot is up for half of any 24 h, so the optimum is all on spot: a third of on-demand.
#[test]
fn a_regular_zone_by_hand() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let ask = ["backtest", "cloud", &source, "--slack", "0.5", "--starts", "4", "--format", "json"];
    let answer = of(&tracecast(&[&ask[..], &JOB].concat()));
    assert_eq!(answer["schema"], "backtest-cloud/1");
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
    // The same in other ticks, by the option; and compressed.
    let other = of(&tracecast(&[&ask[..], &JOB, &["--gap", "15min"]].concat()));
    assert_eq!(other["traces"][0]["tick_s"], 900.0);
    let text =
        stdout(&tracecast(&[&["backtest", "cloud", &source, "--slack", "0.5", "--starts", "4"], &JOB[..]].concat()));
    assert!(text.contains("misses 0 deadlines") && text.contains("omniscient optimum"), "{text}");
}

#[test]
fn a_plan_writes_tasks() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(4));
    let tasks = folder.path("tasks");
    let ask = ["plan", "cloud", &source, "--deadline", "24h", "--need", "4", "--starts", "3", "--emit-to", &tasks];
    let answer = of(&tracecast(&[&ask[..], &JOB, &["--format", "json"]].concat()));
    assert_eq!((answer["schema"].as_str(), answer["need"].as_u64()), (Some("plan-cloud/1"), Some(4)));
    assert_eq!(answer["recommendation"]["plan"], "cloud");
    assert_eq!((answer["now"]["if_up"].as_str(), answer["now"]["if_down"].as_str()), (Some("spot"), Some("idle")));
    let spot = std::fs::read_to_string(folder.path("tasks/deadline-spot.yaml")).unwrap();
    assert!(spot.contains("\"use_spot\": true") && spot.contains("\"num_nodes\": 4"), "{spot}");
    assert!(spot.contains("\"infra\": \"aws/us-east-1/us-east-1a\""), "{spot}");
    assert!(std::fs::read_to_string(folder.path("tasks/NOTES.txt")).unwrap().contains("Begin with"));
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &regular(1));
    let said = |arguments: &[&str]| {
        let output = tracecast(&[&["backtest", "cloud", &source], arguments].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = said(&["--work", "48h", "--slack", "1"]);
    assert!(code == Some(2) && text.contains("ask for 0.9958 or less"), "{text}");
    let (code, text) = said(&["--work", "480h", "--slack", "0.9"]);
    assert!(code == Some(5) && text.contains("240.0 h long"), "{text}");
    let (code, text) = said(&["--work", "12h", "--slack", "0.5", "--starts", "0"]);
    assert!(code == Some(2) && text.contains("from 1 to 100000"), "{text}");
    let prices = folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["backtest", "cloud", &prices, "--work", "12h"]);
    assert!(output.status.code() == Some(1) && stderr(&output).contains("gap_seconds"), "{}", stderr(&output));
}
