//! `model train spot`, `model predict spot` and `model backtest spot`, as a user meets them.

use serde_json::Value;

use super::*;

fn of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    json(&stdout(output))
}

/// A model of ten days of half-hours with spot for three hours and without for three, and what it says: at their end spot has been gone for three hours, and comes back.
#[test]
fn a_regular_zone_is_trained_and_asked() {
    let folder = Folder::new();
    let source = folder.file("us-east-1a_v100_1.json", &cloud::regular(1));
    let model = folder.path("spot.tcm");
    let train = ["model", "train", "spot", &source, "--out", &model, "--format", "json"];
    let trained = of(&tracecast(&train));
    assert_eq!(trained["schema"], "model-predict-spot/1");
    let zone = &trained["zones"][0];
    assert_eq!((zone["zone"].as_str(), zone["up_share"].as_f64()), (Some("us-east-1a_v100_1"), Some(0.5)));
    // Spells last three hours: none that began was seen to end otherwise.
    assert_eq!(
        (zone["with_enough"]["median_s"].as_f64(), zone["without"]["median_s"].as_f64()),
        (Some(10_800.0), Some(10_800.0))
    );
    let now = &zone["now"];
    assert_eq!((now["level"].as_str(), now["age_s"].as_f64()), (Some("nothing"), Some(10_800.0)));
    let outlooks = now["outlooks"].as_array().unwrap();
    assert_eq!(outlooks.len(), 5);
    assert!(outlooks.iter().all(|outlook| outlook["through"] == 0.0));
    // The shares of persistence are in use: half a day ahead they are never wrong, and an hour after two of six ticks without there is enough.
    assert_eq!(trained["model"], "shares");
    assert!((outlooks[0]["at"].as_f64().unwrap() - 1.0 / 3.0).abs() < 0.01, "{outlooks:?}");
    // Whoever asks the saved model gets the same; a newer record with spot for half an hour says something else.
    let ask = ["model", "predict", "spot", "--model", &model, "--format", "json"];
    assert_eq!(of(&tracecast(&ask))["zones"][0]["now"], *now);
    let newer = Folder::new();
    let later = newer.file("us-east-1a_v100_1.json", "{\"metadata\": {\"gap_seconds\": 1800}, \"data\": [0, 0, 1]}");
    let asked =
        of(&tracecast(&["model", "predict", "spot", &later, "--model", &model, "--hours", "1,2", "--format", "json"]));
    let outlooks = asked["zones"][0]["now"]["outlooks"].as_array().unwrap();
    assert!(outlooks[0]["through"].as_f64() > outlooks[1]["through"].as_f64(), "{outlooks:?}");
    assert!(outlooks[0]["through"].as_f64() > Some(0.6), "{outlooks:?}");
    let text = stdout(&tracecast(&["model", "predict", "spot", "--model", &model]));
    assert!(text.contains("How long spells last") && text.contains("No zone has an instance now"), "{text}");
    assert!(stderr(&tracecast(&train)).contains("add --force"));
}

/// A log of a script that keeps instances is a trace for each zone and instance type, with its own dates.
#[test]
fn a_log_of_instances_is_a_trace_for_each_zone() {
    let folder = Folder::new();
    let mut log = String::new();
    for round in 0..600 {
        let (day, hour, minute) = (1 + round / 144, round / 6 % 24, round % 6 * 10);
        let mut line =
            |s: u32, what: &str| log += &format!("[2024-03-{day:02}T{hour:02}:{minute:02}:{s:02}Z] {what}\n");
        if round == 0 {
            line(0, "Created instance i-1 with 1 GPU(s) of type v100 in zone us-east-1a");
            line(1, "Created instance i-2 with 8 GPU(s) of type k80 in zone us-east-1b");
        }
        line(2, &format!("Instance i-1 {}running in zone us-east-1a", if round % 36 < 18 { "" } else { "not " }));
        line(
            3,
            &format!(
                "Instance i-2 {}running in zone us-east-1b",
                if (200..260).contains(&round) { "not " } else { "" }
            ),
        );
    }
    let (source, model) = (folder.file("keeper.log", &log), folder.path("spot.tcm"));
    let trained = of(&tracecast(&[
        "model",
        "train",
        "spot",
        &source,
        "--regions",
        "together",
        "--out",
        &model,
        "--format",
        "json",
    ]));
    let zones: Vec<(&str, f64)> = trained["zones"]
        .as_array()
        .unwrap()
        .iter()
        .map(|zone| (zone["zone"].as_str().unwrap(), zone["up_share"].as_f64().unwrap()))
        .collect();
    assert_eq!((zones[0].0, zones[1].0), ("us-east-1a V100:1", "us-east-1b K80:8"));
    assert!((zones[0].1 - 0.5).abs() < 0.03 && (zones[1].1 - 0.9).abs() < 0.01, "{zones:?}");
}

/// A back-test gives the same answer on one thread and on several, and as text.
#[test]
fn a_back_test_is_the_same_on_any_number_of_threads() {
    let folder = Folder::new();
    let one = folder.file("us-east-1a_v100_1.json", &cloud::regular(4));
    let other = folder.file("us-east-1b_v100_1.json", &cloud::regular(4).replace("1800}", "1800, \"x\": 1}"));
    let ask = [
        "model",
        "backtest",
        "spot",
        &one,
        &other,
        "--need",
        "4",
        "--regions",
        "together",
        "--hours",
        "1,3",
        "--format",
        "json",
    ];
    let alone = tracecast(&[&ask[..], &["--threads", "1"]].concat());
    let answer = of(&alone);
    assert_eq!(stdout(&alone), stdout(&tracecast(&[&ask[..], &["--threads", "3"]].concat())));
    assert_eq!(
        (answer["schema"].as_str(), answer["zones"].as_array().map(Vec::len)),
        (Some("model-backtest-spot/1"), Some(2))
    );
    let models = answer["models"].as_array().unwrap();
    let names: Vec<&str> = models.iter().filter_map(|model| model["model"].as_str()).collect();
    assert_eq!(
        names,
        ["persistence", "shares", "climatology", "markov", "age", "memory", "week", "crowd", "all", "phases"]
    );
    let brier = |name: &str, at: usize| {
        let model = models.iter().find(|model| model["model"] == name).unwrap();
        model["horizons"][at]["score"]["brier"].as_f64().unwrap()
    };
    // Three hours later it is the other way round. In an hour persistence is wrong in a third of the cases; the age tells some of them.
    assert!((brier("persistence", 1) - 1.0).abs() < 1e-12 && (brier("persistence", 0) - 1.0 / 3.0).abs() < 0.02);
    assert!(brier("age", 0) < brier("shares", 0) - 0.02, "{}", brier("age", 0));
    let text = stdout(&tracecast(&["model", "backtest", "spot", &one, "--need", "4", "--hours", "1,3"]));
    assert!(text.contains("was chosen on earlier forecasts") && text.contains("Whether chances come true"), "{text}");
}

#[test]
fn what_cannot_be_learned_from_is_told() {
    let folder = Folder::new();
    let trace = |name: &str, data: &str| {
        folder.file(name, &format!("{{\"metadata\": {{\"gap_seconds\": 1800}}, \"data\": [{data}]}}"))
    };
    let model = folder.path("spot.tcm");
    let failed = |source: &str, more: &[&str]| {
        let output = tracecast(&[&["model", "train", "spot", source, "--out", &model][..], more].concat());
        (output.status.code(), stderr(&output))
    };
    for (name, data, need, told) in [
        ("one.json", "1", "1", "one tick only"),
        ("up.json", "1, 1, 1", "1", "enough spot at every tick"),
        ("down.json", "0, 0, 0", "1", "there never was an instance"),
        ("few.json", "4, 0, 4", "5", "there never was 5 instances at once, and at most 4"),
    ] {
        let (code, said) = failed(&trace(name, data), &["--need", need]);
        assert!(code == Some(5) && said.contains(told), "{name}: {code:?}, {said}");
    }
    let (code, said) = failed(&trace("empty.json", ""), &[]);
    assert!(code != Some(0) && !said.contains("panicked"), "{said}");
    let regular = folder.file("us-east-1a_v100_1.json", &cloud::regular(1));
    let (code, said) = failed(&regular, &["--hours", "3,1"]);
    assert!(code == Some(2) && said.contains("--hours"), "{said}");
    let long = tracecast(&["model", "backtest", "spot", &regular, "--hours", "100"]);
    assert!(long.status.code() == Some(5) && stderr(&long).contains("ask for shorter horizons"), "{}", stderr(&long));
    let other = tracecast(&["model", "predict", "spot", "--model", &regular]);
    assert!(!other.status.success() && stderr(&other).contains("no model file"), "{}", stderr(&other));
}
