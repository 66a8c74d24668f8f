//! `plan moves`, as a user meets it.

use serde_json::{Value, json};
use tracecast_tests::real_trace;

use super::*;

const RATES: &str = "gpu_type,job,gpus,steps_per_s\nv100,vision,1,10\nv100,vision,4,36\nk80,vision,1,2\n";

/// Twenty days of AWS's prices: one zone at 1.00, the other at 0.50 and 2.00 in turn, for a day each; a K80 that is dear for its speed.
fn prices() -> String {
    let quote = |zone: &str, instance: &str, day: usize, usd: f64| {
        let (month, day) = (1 + day / 28, 1 + day % 28);
        json!({ "AvailabilityZone": zone, "InstanceType": instance, "ProductDescription": "Linux/UNIX", "SpotPrice": usd.to_string(), "Timestamp": format!("2024-{month:02}-{day:02}T00:00:00Z") })
    };
    let rows: Vec<Value> = (0..=40)
        .flat_map(|day| {
            [
                quote("us-east-1a", "p3.2xlarge", day, 1.0),
                quote("us-east-1b", "p3.2xlarge", day, if day % 2 == 0 { 0.5 } else { 2.0 }),
                quote("us-east-1a", "p2.xlarge", day, 0.4),
                quote("us-east-1a", "p4d.24xlarge", day, 9.0),
            ]
        })
        .collect();
    json!({ "SpotPriceHistory": rows }).to_string()
}

fn asked(folder: &Folder, more: &[&str]) -> Output {
    let (rates, history) = (folder.file("rates.csv", RATES), folder.file("prices.json", &prices()));
    let head = ["plan", "moves", &rates, "--history", &history, "--start", "0s", "--quiet"];
    tracecast(&[&head[..], more].concat())
}

const RUN: [&str; 2] = ["--run", "vision=2592000"];

fn answered(folder: &Folder, more: &[&str]) -> Value {
    let output = asked(folder, &[&RUN[..], more, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

#[test]
fn a_job_follows_prices_that_swing() {
    let folder = Folder::new();
    let answer = answered(&folder, &[]);
    assert_eq!(answer["schema"], "plan-moves/1");
    // At the last quote the day is even: 72 h at 0.50. The other zone is worth a move below that price, and the K80 takes five times as long.
    let place = &answer["jobs"][0]["place"];
    assert_eq!((place["zone"].as_str(), place["usd"].as_f64()), (Some("us-east-1b"), Some(36.0)));
    let others = answer["jobs"][0]["others"].as_array().unwrap();
    let below: Vec<f64> = others.iter().map(|other| other["move_below_usd_per_h"].as_f64().unwrap()).collect();
    assert_eq!((others.len(), below[0], below[1]), (2, 0.5, 0.1));
    let trial = &answer["trial"];
    assert!(trial["chosen"]["moving"]["check_s"].as_f64().unwrap() <= 21_600.0, "{trial}");
    let of = |rule: &Value| {
        trial["scores"].as_array().unwrap().iter().find(|score| score["rule"] == *rule).unwrap()["share"]["value"]
            .as_f64()
            .unwrap()
    };
    let (chosen, bound) = (of(&trial["chosen"]), of(&Value::Null));
    assert!(bound <= chosen && chosen < 0.9, "{bound}, {chosen}");
    let recommendation = &answer["recommendation"];
    assert_eq!(recommendation["effects"][0]["change"].as_f64().unwrap(), 100.0 * (chosen - 1.0));
    assert!(answer["notes"].to_string().contains("p4d.24xlarge"));
}

#[test]
fn what_is_written_says_where_and_when() {
    let folder = Folder::new();
    let out = folder.path("moves");
    let output = asked(&folder, &[&RUN[..], &["--emit-to", &out]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let list = std::fs::read_to_string(format!("{out}/moves.csv")).unwrap();
    assert!(list.contains("vision,true,aws,us-east-1b,p3.2xlarge,1,0.5000,\n"), "{list}");
    assert!(list.contains("vision,false,aws,us-east-1a,p3.2xlarge,1,1.0000,0.5000\n"), "{list}");
    let task = std::fs::read_to_string(format!("{out}/vision.yaml")).unwrap();
    assert!(task.contains("\"p3.2xlarge\"") && task.contains("\"aws/us-east-1/us-east-1b\""), "{task}");
}

#[test]
fn zones_and_a_job_that_is_too_long() {
    let folder = Folder::new();
    let one = answered(&folder, &["--zones", "us-east-1a"]);
    assert_eq!(
        (one["jobs"][0]["place"]["zone"].as_str(), &one["trial"]["chosen"]["moving"]),
        (Some("us-east-1a"), &Value::Null)
    );
    assert!(one["action"].as_str().unwrap().contains("stay there") && one["recommendation"].is_null());
    let long = answered(&folder, &["--run", "vision=26000000"]);
    assert_eq!(long["trial"]["too_long"], json!(["vision #2"]));
    let text = stdout(&asked(&folder, &[&RUN[..], &["--run", "vision=26000000"]].concat()));
    assert!(text.contains("Not tested") && text.contains("vision #2"), "{text}");
}

#[test]
fn what_cannot_be_is_told() {
    let folder = Folder::new();
    let told = |more: &[&str]| {
        let output = asked(&folder, more);
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(told(&["--run", "vision"]).contains("write its type and its steps"));
    assert!(told(&[&RUN[..], &["--checks", "90min"]].concat()).contains("whole number of hours"));
    assert!(told(&[&RUN[..], &["--zones", "mars"]].concat()).contains("us-east-1a"));
    assert!(told(&[&RUN[..], &["--test-from", "2030-01-01T00:00:00Z"]].concat()).contains("within the history"));
    let rates = folder.file("other.csv", "gpu_type,job,gpus,steps_per_s\nh100,vision,1,10\n");
    let history = folder.file("prices.json", &prices());
    let slow = tracecast(&["plan", "moves", &rates, "--history", &history, "--run", "vision=5", "--start", "2h"]);
    assert!(stderr(&slow).contains("at most 1h"));
    let output = tracecast(&["plan", "moves", &rates, "--history", &history, "--run", "vision=5"]);
    let said = stderr(&output);
    assert!(said.contains("h100") && said.contains("p3.2xlarge"), "{said}");
    let jobs = tracecast(&[
        "plan",
        "moves",
        &folder.file("rates.csv", RATES),
        "--history",
        "datasets/sample",
        "--run",
        "vision=5",
    ]);
    assert!(!jobs.status.success() && stderr(&jobs).contains("spot price"), "{}", stderr(&jobs));
}

/// The prices that MLCloudPrice's authors collected: on both providers nothing was to be gained that is worth a move, and no rule costs less than the bound.
#[test]
fn real_prices_hardly_moved() {
    let (Some(aws), Some(azure)) = (real_trace("spot_prices_2020/aws/cost"), real_trace("spot_prices_2020/azure/cost"))
    else {
        return;
    };
    let Some(rates) = real_trace("gavel/simulation_throughputs.json.gz") else { return };
    let [rates, aws, azure] = [rates, aws, azure].map(|path| path.display().to_string());
    for history in [aws, azure] {
        let run = ["--run", "ResNet-50 (batch size 64)=2000000", "--run", "Recommendation (batch size 2048)=5000000"];
        let head = ["plan", "moves", &rates, "--history", &history, "--json", "--quiet"];
        let output = tracecast(&[&head[..], &run].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let answer = json(&stdout(&output));
        assert!(answer["recommendation"].is_null());
        let scores = answer["trial"]["scores"].as_array().unwrap();
        let least = scores.last().unwrap()["share"]["value"].as_f64().unwrap();
        assert!(scores.iter().all(|score| score["share"]["value"].as_f64().unwrap() >= least - 1e-9) && least > 0.95);
    }
}
