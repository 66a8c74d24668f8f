//! Promises of power plans, a saved plan, and decisions from it, as a user meets them.

use serde_json::Value;

use super::*;

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ten days of ten nodes, eight in use from noon to one and else four. A window of four days back from the end has six days before it; the one before
/// it would have two, fewer than it is long. Demand rises by four above what was in use, and the past of five days (less its first) lets expect
/// (4 / (5 × 0.105))^½ = 2.76 times that, eleven: asked for no shortage, all ten nodes stay on. Asked for five node-slots and five wakes a day,
/// a rule may miss the four of each noon and wake four, so at least half of the six that are free sleep.
#[test]
fn two_promises_by_hand() {
    let folder = Folder::new();
    let source = folder.file("node_counts.csv", &plan::counts());
    let ask =
        ["backtest", "power", &source, "--windows", "4d", "--service", "0,8", "--service", "5,5", "--format", "json"];
    let answer = json(&tracecast(&ask));
    assert_eq!(
        (answer["schema"].as_str(), answer["windows"].as_array().map(Vec::len)),
        (Some("backtest-power/1"), Some(1))
    );
    let window = &answer["windows"][0];
    assert_eq!(
        (window["from"].as_str(), window["to"].as_str()),
        (Some("2017-11-07T08:00:00Z"), Some("2017-11-11T08:00:00Z"))
    );
    let services = window["services"].as_array().unwrap();
    let followed = |at: usize| &services[at]["policies"][0];
    assert_eq!((followed(0)["name"].as_str(), followed(1)["name"].as_str()), (Some("promise"), Some("promise")));
    assert_eq!((followed(0)["kept"].as_bool(), followed(0)["nodes_asleep_mean"].as_f64()), (Some(true), Some(0.0)));
    assert_eq!(followed(1)["kept"], true);
    let asleep = followed(1)["nodes_asleep_mean"].as_f64().unwrap();
    let optimum = services[1]["optimum_asleep"].as_f64().unwrap();
    assert!(asleep >= 3.0 && asleep <= optimum && optimum <= 6.0, "{asleep} of {optimum}");
    assert_eq!((answer["kept_share"].as_f64(), answer["policies"][0]["promises"].as_u64()), (Some(1.0), Some(2)));
    let said = stdout(&tracecast(&["backtest", "power", &source, "--windows", "4d", "--service", "5,5"]));
    assert!(said.contains("kept 1 of 1 promises"), "{said}");
    // Half of ten days are no past for a window of six.
    let short = tracecast(&["backtest", "power", &source, "--windows", "6d"]);
    assert_eq!(short.status.code(), Some(5), "{}", stderr(&short));
    assert!(stderr(&short).contains("name shorter ones with --windows"), "{}", stderr(&short));
}

/// The counts are in Philly's local time, eight hours behind UTC. What `plan power` decides for the first slot is what the saved plan decides of an empty state; later counts change it, and what cannot be is refused.
#[test]
fn a_saved_plan_decides_as_the_plan_says() {
    let folder = Folder::new();
    let source = folder.file("node_counts.csv", &plan::counts());
    let saved = folder.path("plan.tcm");
    let planned =
        json(&tracecast(&["plan", "power", &source, "--service", "5,5", "--save", &saved, "--format", "json"]));
    let now = &planned["forward"][0]["now"];
    assert_eq!((now["at"].as_str(), now["total"].as_f64()), (Some("2017-11-11T08:00:00Z"), Some(10.0)));
    assert_eq!(now["promised_until"], "2017-11-25T08:00:00Z");
    let hours = planned["forward"][0]["schedule"]["hours"].as_array().unwrap();
    // Every noon eight are needed: the schedule of the next day powers them.
    assert_eq!((hours.len(), hours[12]["at"].as_str()), (24, Some("2017-11-11T20:00:00Z")));
    assert!(hours[12]["powered"].as_f64().unwrap() >= 8.0, "{}", hours[12]);
    assert_eq!(planned["recommendation"]["plan"], "power");
    let decide = |text: &str| {
        let state = folder.file("state.json", text);
        tracecast(&["decide", "power", "--plan", &saved, &state])
    };
    assert_eq!(json(&decide(r#"{"slots": []}"#)), *now);
    let jumped = json(&decide(r#"{"slots": [{"at": "2017-11-11T08:00:00Z", "peak": 10, "total": 10, "powered": 6}]}"#));
    // Four were missing of the seventy promised for a fortnight; all that are needed are powered.
    assert_eq!((jumped["powered"].as_f64(), jumped["left"]["unserved_left"].as_f64()), (Some(10.0), Some(66.0)));
    for (text, told) in [
        (r#"{"slots": [{"at": "2017-11-11T08:03:00Z", "peak": 4, "total": 10}]}"#, "no slot begins then"),
        (r#"{"slots": [{"at": "2017-11-11T08:00:00Z", "peak": -4, "total": 10}]}"#, "below 0"),
        (r#"{"slots": [{"at": "2017-11-11T08:00:00Z""#, "line 1"),
        (r#"{"counts": []}"#, "counts"),
    ] {
        let output = decide(text);
        assert!(!output.status.success() && stderr(&output).contains(told), "{text}: {}", stderr(&output));
    }
    std::fs::write(&saved, "no plan").unwrap();
    assert!(!decide(r#"{"slots": []}"#).status.success());
}
