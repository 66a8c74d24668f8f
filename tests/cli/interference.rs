//! `tracecast model backtest interference`, as a user meets it.

use serde_json::Value;

use super::*;

/// Eight job types of four families on two GPU types: who takes more slows the other; the two largest do not fit together.
pub(super) fn pairs() -> String {
    let mut text = "gpu_type,job_a,job_b,speed_a,speed_b\n".to_owned();
    let jobs: Vec<String> = (0..8).map(|at| format!("m{} (batch size {})", at / 2, 16 << (at % 2))).collect();
    for (gpu, base) in [("a100", 0.7), ("v100", 0.6)] {
        for (i, a) in jobs.iter().enumerate() {
            for (j, b) in jobs.iter().enumerate().skip(i) {
                if i + j >= 14 {
                    text += &format!("{gpu},{a},{b},,\n");
                } else {
                    let speed = |own: usize, other: usize| base + 0.02 * own as f64 - 0.03 * other as f64;
                    text += &format!("{gpu},{a},{b},{:.3},{:.3}\n", speed(i, j), speed(j, i));
                }
            }
        }
    }
    text
}

#[test]
fn every_model_is_scored_on_what_was_left_out_in_every_form() {
    let folder = Folder::new();
    let source = folder.file("pairs.csv", &pairs());
    let profiles: String = (0..8)
        .map(|at| format!("a100,m{} (batch size {}),m{},{}\n", at / 2, 16 << (at % 2), at / 2, 30 + 8 * at))
        .collect();
    let profiles = folder.file("profiles.csv", &format!("gpu_type,job,family,sm_util_pct\n{profiles}"));
    let ask = |more: &[&str]| tracecast(&[&["model", "backtest", "interference", &source], more].concat());
    let output = ask(&["--profiles", &profiles, "--hold-out", "family", "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(
        (found["schema"].as_str(), found["splits"].as_array().unwrap().len()),
        (Some("model-backtest-interference/1"), 2)
    );
    let a100 = &found["splits"][0];
    assert_eq!((a100["hold_out"].as_str(), a100["gpu_type"].as_str()), (Some("family"), Some("a100")));
    assert_eq!((a100["pairs"].as_u64(), a100["did_not_fit"].as_u64()), (Some(36), Some(1)));
    let names = |split: &Value| -> Vec<String> {
        split["models"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap().to_owned()).collect()
    };
    let all =
        ["none", "mean", "partner_mean", "utilisation", "linear", "forest", "boosted", "matrix_completion", "effects"];
    assert_eq!(names(a100), all);
    // Utilisation is known on one of the GPU types only.
    assert!(!names(&found["splits"][1]).contains(&"utilisation".to_owned()));
    let mae = |name: &str| {
        let models = a100["models"].as_array().unwrap();
        models.iter().find(|model| model["name"] == name).unwrap()["mae"].as_f64().unwrap()
    };
    assert_eq!(a100["chosen_by_data"].as_bool(), Some(true));
    // Of eight job types in four families each of 36 pairs is forecast with either family left out: the 12 within a family once, the 24 others twice.
    let bins = a100["oom_reliability"].as_array().unwrap();
    let sum = |of: &dyn Fn(&Value) -> f64| bins.iter().map(of).sum::<f64>();
    assert_eq!(sum(&|bin| bin["forecasts"].as_f64().unwrap()), 12.0 + 2.0 * 24.0, "{bins:?}");
    let missed = sum(&|bin| bin["forecasts"].as_f64().unwrap() * bin["did_not_fit"].as_f64().unwrap());
    assert!((missed - 1.0).abs() < 1e-9, "{bins:?}");
    let text = stdout(&ask(&["--hold-out", "family"]));
    assert!(text.contains("Chances that a pair does not fit, and what came"), "{text}");
    // No speed here is above 84 %.
    assert_eq!(a100["slow_share"].as_f64(), Some(1.0));
    assert!(mae("effects") < mae("mean"), "{} {}", mae("effects"), mae("mean"));
    let after: Vec<u64> =
        a100["after_measured"].as_array().unwrap().iter().map(|after| after["pairs"].as_u64().unwrap()).collect();
    assert_eq!(after, [0, 1, 3, 5]);
    let drawn: Vec<bool> =
        a100["after_measured"].as_array().unwrap().iter().map(|after| after["drawn_mae"].is_f64()).collect();
    assert_eq!(drawn, [false, true, true, true]);
    // Each is compared on its own speeds, of which there are four draws.
    for after in a100["after_measured"].as_array().unwrap() {
        let (pairs, speeds) = (after["pairs"].as_u64().unwrap(), after["speeds"].as_u64().unwrap());
        assert_eq!(after["before_mae"].is_f64(), pairs > 0, "{after}");
        assert!(if pairs == 0 { speeds == a100["models"][0]["speeds"] } else { speeds > 0 }, "{after}");
    }
    // Of two GPU types one teaches: nothing can be left out of it, so no data choose, and the answer says so.
    let text = stdout(&ask(&["--hold-out", "gpu-type"]));
    assert!(text.contains("carried") && text.contains("the whole GPU type left out"), "{text}");
    assert!(text.contains("effects (not chosen by data)"), "{text}");
    let found = json(&stdout(&ask(&["--hold-out", "gpu-type", "--format", "json"])));
    for split in found["splits"].as_array().unwrap() {
        assert_ne!(split["chosen"].as_str(), Some("none"));
        assert_eq!((split["chosen"].as_str(), split["chosen_by_data"].as_bool()), (Some("effects"), Some(false)));
        assert!(split["models"].as_array().unwrap().iter().all(|model| model["choice_mae"].is_null()));
    }
    let all = stdout(&ask(&["--format", "markdown"]));
    assert!(all.contains("| effects") && all.contains("at random, which flatters"), "{all}");
    assert_eq!(all, stdout(&ask(&["--format", "markdown", "--threads", "1"])));
}

#[test]
fn what_is_wrong_is_said_with_what_would_mend_it() {
    let folder = Folder::new();
    let told = |name: &str, text: &str, more: &[&str]| {
        let source = folder.file(name, text);
        let output = tracecast(&[&["model", "backtest", "interference", &source], more].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, text) = told("bad.csv", "gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,b,85,90\n", &[]);
    assert!(code == Some(1) && text.contains("bad.csv, line 2: column `speed_a` holds 85"), "{text}");
    let (code, text) = told("few.csv", "gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,b,0.8,0.9\n", &[]);
    assert!(code == Some(5) && text.contains("at least three families"), "{text}");
    let (code, text) = told("steps.csv", "model,batch,mig_profile,step_s_median\nm,1,1g.5gb,1\n", &[]);
    assert!(code == Some(2) && text.contains("--profiles"), "{text}");
    let (code, text) = told("half.csv", "gpu_type,job_a,job_b,speed_a,speed_b\nv100,a,b,,0.9\n", &[]);
    assert!(code == Some(1) && text.contains("write both, or leave both empty"), "{text}");
    // Options that slices have no use for are not passed over in silence.
    let profiles = folder.file("profiles.csv", "model,batch,mem_util_pct\nm,1,40\n");
    let steps = "model,batch,mig_profile,step_s_median\nm,1,1g.5gb,2\nm,1,7g.40gb,1\n";
    for more in [["--hold-out", "gpu-type"], ["--seed", "2"]] {
        let (code, text) = told("steps.csv", steps, &["--profiles", &profiles, more[0], more[1]]);
        assert!(code == Some(2) && text.contains(more[0]), "{text}");
    }
    // What cannot be fitted in a minute or two is refused at once.
    let mut many = "gpu_type,job_a,job_b,speed_a,speed_b\n".to_owned();
    for (a, b) in (0..600).flat_map(|a| (0..3).map(move |b| (a, (a + b) % 600))) {
        many += &format!("v100,m{} (batch size {a}),m{} (batch size {b}),0.8,0.9\n", a / 5, b / 5);
    }
    let (code, text) = told("many.csv", &many, &[]);
    assert!(
        code == Some(1) && text.contains("600 job types of 120 families") && text.contains("measure about"),
        "{text}"
    );
    let (code, text) = told("g.json", "{\"k80\": 7}", &[]);
    assert!(code == Some(1) && text.contains("Gavel"), "{text}");
}
