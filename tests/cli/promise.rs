//! Promises of power plans, a saved plan, and decisions from it, as a user meets them.

use serde_json::Value;

use super::plan::{answered, flat};
use super::*;

/// Ten days of ten nodes, eight in use from noon to one and else four. A window of four days back from the end has six days before it; the one before
/// it would have two, fewer than it is long. Demand rises by four above what was in use, and the past of five days (less its first) lets expect
/// (4 / (5 × 0.105))^½ = 2.76 times that, eleven: asked for no shortage, all ten nodes stay on. Asked for five node-slots and five wakes a day,
/// a rule may miss the four of each noon and wake four, so at least half of the six that are free sleep.
#[test]
fn two_promises_by_hand() {
    let folder = Folder::new();
    let source = folder.file("node_counts.csv", &plan::counts());
    let ask = [
        "plan",
        "power",
        "--test",
        &source,
        "--windows",
        "4d",
        "--promise",
        "0,8",
        "--promise",
        "5,5",
        "--format",
        "json",
    ];
    let answer = answered(&tracecast(&ask));
    assert_eq!(
        (answer["schema"].as_str(), answer["windows"].as_array().map(Vec::len)),
        (Some("plan-power-test/1"), Some(1))
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
    assert!(asleep >= 2.0 && asleep <= optimum && optimum <= 6.0, "{asleep} of {optimum}");
    assert_eq!((answer["kept_share"].as_f64(), answer["policies"][0]["promises"].as_u64()), (Some(1.0), Some(2)));
    let said = stdout(&tracecast(&["plan", "power", "--test", &source, "--windows", "4d", "--promise", "5,5"]));
    assert!(said.contains("kept 1 of 1 promises"), "{said}");
    // Half of ten days are no past for a window of six.
    let short = tracecast(&["plan", "power", "--test", &source, "--windows", "6d"]);
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
        answered(&tracecast(&["plan", "power", &source, "--promise", "5,5", "--save", &saved, "--format", "json"]));
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
    assert_eq!(answered(&decide(r#"{"slots": []}"#)), *now);
    let jumped =
        answered(&decide(r#"{"slots": [{"at": "2017-11-11T08:00:00Z", "peak": 10, "total": 10, "powered": 6}]}"#));
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

/// Regression test: an answer to a request for a promise gave the nodes asleep, the confidence and
/// the settings of the plan without it.
#[test]
fn a_promise_leads_what_is_said_and_written() {
    let folder = Folder::new();
    let source = folder.file("node_counts.csv", &plan::counts());
    let conf = folder.file("slurm.conf", "NodeName=n[01-10]\nPartitionName=gpu Nodes=n[01-10]\n");
    let emitted = folder.path("emitted");
    let asked = ["plan", "power", &source, "--promise", "5,5", "--host-list", "n[01-10]", "--quiet"];
    let written = ["--emit", "slurm,actions", "--against", &conf, "--emit-to", &emitted, "--format", "json"];
    let found = answered(&tracecast(&[&asked[..], &written].concat()));
    let pool = plan::pool(&found);
    let promise = &pool["promise"];
    let (kept, asleep) = (promise["kept"].as_bool().unwrap(), promise["nodes_asleep_mean"].as_f64().unwrap());
    assert!(kept && asleep > 0.0, "{promise}");
    // One and the same in what was chosen, in the first row, in the effect that is recommended, and with its interval.
    assert_eq!(pool["chosen"]["because"], "keeps_promise");
    let rows = pool["beforehand"].as_array().unwrap();
    assert_eq!((&rows[0]["chosen_for"], &rows[0]["chosen"]), (&"promise".into(), &true.into()));
    let effect = &found["recommendation"]["effects"][0];
    for figure in [&pool["chosen"]["nodes_asleep_mean"], &rows[0]["delivered"]["nodes_asleep_mean"], &effect["change"]]
    {
        assert!((figure.as_f64().unwrap() - asleep).abs() < 1e-9, "{figure} {asleep}");
    }
    assert!(effect["low"].is_number() && effect["high"].is_number(), "{effect}");
    assert_eq!(rows[0]["promised"]["unserved_per_day"], 5.0);
    // The plan without a promise is what is planned where none is asked for, beside it.
    let without = answered(&tracecast(&["plan", "power", &source, "--format", "json", "--quiet"]));
    let without = plan::pool(&without);
    assert_eq!(rows[1]["chosen_for"], "cost");
    assert_eq!(
        (&rows[1]["policy"], &rows[1]["setting"], &rows[1]["delivered"]),
        (&without["chosen"]["name"], &without["chosen"]["setting"], &without["beforehand"][0]["delivered"])
    );
    assert!(without["beforehand"].as_array().unwrap().iter().all(|row| row["keeps_service"].is_null()));
    // What a site holds without a loop lets nodes sleep only where it kept to the service on all days.
    let slurm = rows.iter().find(|row| row["policy"] == "slurm_conf").unwrap();
    let pool = &found["slurm_plan"]["pools"][0];
    assert_eq!(slurm["keeps_service"] == false, pool["keep_idle"] == pool["total_nodes"], "{slurm} {pool}");
    let hours = found["forward"][0]["schedule"]["hours"].as_array().unwrap();
    let now = found["forward"][0]["now"]["powered"].as_f64().unwrap();
    assert!(hours.iter().all(|hour| hour["powered"].as_f64().unwrap() >= now), "{hours:?}");
    let text = flat(&tracecast(&asked));
    let headline = "Promised: at most 5 unserved node-slots of 10 min and 5 node-wakes a day. Of 10 nodes";
    assert!(text.contains(headline) && text.contains("Without a promise, "), "{text}");
    let notes = std::fs::read_to_string(Path::new(&emitted).join("NOTES.txt")).unwrap();
    for part in ["**Promised: at most 5 unserved node-slots", "**Only a loop keeps the promise**", "Confidence: "] {
        assert!(notes.contains(part), "{part}: {notes}");
    }
}

/// A service that no day allows: the guard wakes no more than was asked for, and where too much was
/// missed nothing is advised or written.
#[test]
fn a_broken_promise_is_not_advised() {
    let folder = Folder::new();
    // Four in use for seven days, and then, as never before, nine for ten minutes of each hour.
    let mut text = "time,active,total\n".to_owned();
    for at in 0..10 * 1440u32 {
        let (day, hour, minute) = (1 + at / 1440, at / 60 % 24, at % 60);
        let active = if day > 8 && minute < 10 { 9 } else { 4 + u32::from(hour == 12) };
        text += &format!("2017-11-{day:02} {hour:02}:{minute:02}:00,{active},10\n");
    }
    let source = folder.file("node_counts.csv", &text);
    let emitted = folder.path("emitted");
    let asked = ["plan", "power", &source, "--promise", "1,20", "--format", "json", "--quiet"];
    let output = tracecast(&[&asked[..], &["--emit", "slurm,actions", "--emit-to", &emitted]].concat());
    let found = answered(&output);
    let promise = &plan::pool(&found)["promise"];
    assert_eq!(promise["kept"], false, "{promise}");
    assert_eq!((&found["verdict"], &found["recommendation"]), (&"limit_missed".into(), &Value::Null));
    // The reason is the action's, and lowers no trust in staying as one is.
    let action = found["action"].as_str().unwrap();
    assert!(action.contains("The promise was broken on the days tested: at most 1 unserved"), "{action}");
    assert!(found["assurance"]["lowered_by"].as_array().unwrap().is_empty(), "{}", found["assurance"]);
    // What slurm.conf holds did not keep it either, and no file of the site is asked for where
    // nothing is written.
    let pool = &found["slurm_plan"]["pools"][0];
    assert_eq!(pool["keep_idle"], pool["total_nodes"]);
    assert!(stderr(&output).contains("no change is advised") && !Path::new(&emitted).exists(), "{}", stderr(&output));
    // No sentence above the tables says what to power next, or what that would save in a year.
    let said = stdout(&tracecast(&asked[..5]));
    assert!(said.contains("Change nothing. The promise was broken"), "{said}");
    assert!(!said.contains("From now on") && !said.contains("a year"), "{said}");
}
