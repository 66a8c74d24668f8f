//! `datasets/pairs/measure.py` on its simulated backend, from the command to the back-test of what it wrote; and its own tests.
//!
//! What is held is that its files are those that `model backtest interference` reads.

use std::collections::BTreeMap;

use tracecast_predictors::interference::read;
use tracecast_predictors::interference::table::Quantity;

use super::*;

/// `python3` with some arguments, in the repository's root; `None` (with a printed reason) where there is none.
#[expect(clippy::print_stdout, reason = "the tests that call it say why they are skipped")]
pub(super) fn python(arguments: &[&str]) -> Option<Output> {
    let output =
        Command::new("python3").args(arguments).current_dir(root()).env("PYTHONDONTWRITEBYTECODE", "1").output();
    if output.is_err() {
        tracecast_tests::skipped::record("python3", false);
        println!("skipped: python3 is absent, and {} cannot run", arguments.first().unwrap_or(&"its script"));
    }
    output.ok()
}

/// Measures on the simulated backend.
fn measure(out: &str, more: &[&str]) -> Option<String> {
    let usual =
        ["datasets/pairs/measure.py", "--backend", "simulated", "--window", "1", "--repeats", "2", "--out", out];
    let output = python(&[&usual, more].concat())?;
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stderr(&output))
}

fn read_all(folder: &Path) -> BTreeMap<String, String> {
    let names = ["pairs.csv", "profiles.csv", "micro.csv", "micro_profiles.csv", "speeds.csv", "samples.csv"];
    names.iter().map(|name| ((*name).to_owned(), std::fs::read_to_string(folder.join(name)).unwrap())).collect()
}

#[test]
fn what_it_writes_is_what_the_backtest_reads() {
    let folder = Folder::new();
    let out = folder.path("pairs");
    if measure(&out, &[]).is_none() {
        return;
    }
    let at = |name: &str| Path::new(&out).join(name);
    // The readers take every column, and note none that they pass over.
    let table = read::sharing(&at("pairs.csv"), Some(&at("profiles.csv"))).unwrap();
    assert_eq!(table.notes, Vec::<String>::new());
    assert_eq!((table.pairs().len(), table.jobs().len(), table.gpu_types().len()), (78, 12, 1));
    assert!(table.gpu_types()[0].starts_with("simulated"), "{:?}", table.gpu_types());
    let misfits: Vec<(&str, &str)> = table
        .pairs()
        .iter()
        .filter(|pair| pair.speeds.is_none())
        .map(|pair| (table.jobs()[pair.a].as_str(), table.jobs()[pair.b].as_str()))
        .collect();
    // 11,800 MB fit with nothing above 4,184 MB in 15,984 MB.
    let large = "cnn-train (batch size 128)";
    let beside = [
        "cnn-train (batch size 128)",
        "decode-infer (batch size 16)",
        "encoder-train (batch size 32)",
        "recommender-train (batch size 16384)",
    ];
    assert_eq!(misfits, beside.map(|job| (large, job)));
    let job = table.jobs().iter().position(|job| job == "lstm-train (batch size 20)").unwrap();
    let profile = table.profile(0, job);
    assert_eq!((profile.get(Quantity::MemoryMb), profile.get(Quantity::Batch)), (Some(1500.0), Some(20.0)));
    assert!((profile.get(Quantity::SmUtilPct).unwrap() - 46.0).abs() < 1.0, "{profile:?}");
    assert!((profile.steps_per_s().unwrap() / 38.0 - 1.0).abs() < 0.011, "{profile:?}");

    let (pairs, profiles) = (at("pairs.csv").display().to_string(), at("profiles.csv").display().to_string());
    let ask = [
        "model",
        "backtest",
        "interference",
        &pairs,
        "--profiles",
        &profiles,
        "--hold-out",
        "family",
        "--format",
        "json",
    ];
    let output = tracecast(&ask);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let split = &found["splits"][0];
    assert_eq!((split["pairs"].as_u64(), split["did_not_fit"].as_u64()), (Some(78), Some(4)), "{split}");
    // The model of contention is made of demands that the profiles tell, so who knows them does better than the mean.
    let mae = |name: &str| {
        let models = split["models"].as_array().unwrap();
        models.iter().find(|model| model["name"] == name).unwrap()["mae"].as_f64().unwrap()
    };
    assert!(mae("effects") < 0.6 * mae("mean"), "{split}");

    // Loads of one resource have the same form.
    let micro = read::sharing(&at("micro.csv"), Some(&at("micro_profiles.csv"))).unwrap();
    assert_eq!((micro.pairs().len(), micro.jobs().len(), micro.notes.len()), (48, 16, 0));
}

#[test]
fn an_interrupted_measurement_goes_on_to_the_same_tables() {
    let folder = Folder::new();
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    let few = ["--families", "lstm-train,decode-infer,cnn-infer", "--mode", "mps"];
    if measure(&whole, &few).is_none() {
        return;
    }
    let told = measure(&parts, &[&few[..], &["--stop-after", "10"]].concat()).unwrap();
    assert!(told.contains("the same command goes on"), "{told}");
    assert_ne!(read_all(Path::new(&parts)), read_all(Path::new(&whole)));
    measure(&parts, &few).unwrap();
    assert_eq!(read_all(Path::new(&parts)), read_all(Path::new(&whole)));
    let manifest = json(&std::fs::read_to_string(Path::new(&parts).join("manifest.json")).unwrap());
    assert_eq!((manifest["backend"].as_str(), manifest["settings"]["mode"].as_str()), (Some("simulated"), Some("mps")));
    assert_eq!(manifest["sessions"].as_array().unwrap().len(), 2);
    assert!(manifest["note"].as_str().unwrap().contains("nothing in these files was measured"), "{manifest}");
    // Nothing is left of files that were being written.
    let mut names: Vec<_> = std::fs::read_dir(&parts).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let all = [
        "journal.jsonl",
        "manifest.json",
        "micro.csv",
        "micro_profiles.csv",
        "pairs.csv",
        "profiles.csv",
        "samples.csv",
        "speeds.csv",
    ];
    assert_eq!(names, all);
}

#[test]
fn groups_that_it_writes_are_held_against_their_couples() {
    let folder = Folder::new();
    let out = folder.path("groups");
    let asked = ["--no-micro", "--families", "lstm-train,decode-infer,cnn-infer", "--groups", "3=8,4=4"];
    if measure(&out, &asked).is_none() {
        return;
    }
    let file = |name: &str| Path::new(&out).join(name).display().to_string();
    let (pairs, profiles, groups) = (file("pairs.csv"), file("profiles.csv"), file("groups.csv"));
    let ask = [
        "model",
        "backtest",
        "interference",
        &pairs,
        "--profiles",
        &profiles,
        "--groups",
        &groups,
        "--hold-out",
        "family",
    ];
    let output = tracecast(&[&ask[..], &["--again", &pairs, "--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    let [measured, left_out] = found["groups"].as_array().unwrap().as_slice() else { unreachable!("{found}") };
    assert_eq!(
        (measured["couples"].as_str(), left_out["couples"].as_str()),
        (Some("measured"), Some("family-left-out"))
    );
    // 8 groups of three and 4 of four jobs, each speed once.
    for test in [measured, left_out] {
        let counts = ["groups", "not_scored", "did_not_fit"].map(|name| test[name].as_u64().unwrap());
        assert_eq!(counts, [12, 0, 0], "{test}");
        assert_eq!(test["ways"][0]["speeds"].as_u64(), Some(8 * 3 + 4 * 4), "{test}");
    }
    // Its made-up jobs divide a resource, so that a third takes of what two have left each other.
    let mae = |name: &str| {
        let ways = measured["ways"].as_array().unwrap();
        ways.iter().find(|way| way["name"] == name).unwrap()["mae"].as_f64().unwrap()
    };
    assert!(mae("couples_add") < 0.6 * mae("worst_couple").min(mae("equal_turns")), "{measured}");
    // The same file again is no distance away.
    assert_eq!((found["again"][0]["pairs"].as_u64(), found["again"][0]["apart"].as_f64()), (Some(21), Some(0.0)));
    let output = tracecast(&[&ask[..], &["--groups", &pairs]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = tracecast(&["model", "backtest", "interference", &pairs, "--groups", &profiles]);
    assert!(stderr(&output).contains("name a file of groups with the columns"), "{}", stderr(&output));
}

#[test]
fn its_own_tests_pass() {
    if let Some(output) = python(&["-m", "unittest", "discover", "-s", "datasets/pairs/tests"]) {
        println!("{}", stderr(&output));
        assert!(output.status.success(), "{}", stderr(&output));
        // Before Python 3.12 it is no failure if there are none.
        assert!(!stderr(&output).contains("Ran 0 tests"), "{}", stderr(&output));
    }
}

/// No part of the model was made with these pairs, so they test it.
#[test]
fn what_it_measured_on_a_gpu_is_forecast_better_than_by_utilisation() {
    for mode in ["time-slicing", "mps"] {
        let folder = root().join("datasets/pairs/h100").join(mode);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (pairs, profiles) = (file("pairs.csv"), file("profiles.csv"));
        let asked = ["model", "backtest", "interference", &pairs, "--profiles", &profiles, "--hold-out", "family"];
        let answer = json(&stdout(&tracecast(&[&asked[..], &["--format", "json"]].concat())));
        let split = &answer["splits"][0];
        let of = |name: &str| split["models"].as_array().unwrap().iter().find(|model| model["name"] == name).unwrap();
        let chosen = of(split["chosen"].as_str().unwrap());
        let [error, rule] = [chosen, of("utilisation")].map(|model| model["mae"].as_f64().unwrap());
        assert!(error <= 0.8 * rule, "{mode}: {error} is not a fifth below {rule}");
        let held = chosen["coverage90"].as_f64().unwrap();
        assert!((0.85..=0.96).contains(&held), "{mode}: {held}");
    }
}

/// The way of composing was chosen before any group was measured, so these test it.
#[test]
fn groups_that_it_measured_on_a_gpu_are_composed_better_than_by_any_other_way() {
    for mode in ["time-slicing", "mps"] {
        let folder = root().join("datasets/pairs/h100-groups").join(mode);
        let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
        let (pairs, profiles, groups) = (file("pairs.csv"), file("profiles.csv"), file("groups.csv"));
        let asked = ["model", "backtest", "interference", &pairs, "--profiles", &profiles, "--groups", &groups];
        let answer = json(&stdout(&tracecast(&[&asked[..], &["--hold-out", "family", "--format", "json"]].concat())));
        for test in answer["groups"].as_array().unwrap() {
            assert_eq!((test["groups"].as_u64(), test["not_scored"].as_u64()), (Some(28), Some(0)), "{mode}");
            let ways: Vec<f64> =
                test["ways"].as_array().unwrap().iter().map(|way| way["mae"].as_f64().unwrap()).collect();
            assert_eq!(ways.len(), 6, "{test}");
            assert!(ways[1..].iter().all(|other| ways[0] < *other), "{mode}: {test}");
        }
    }
}
