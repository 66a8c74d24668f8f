//! `train interference`, `predict interference` and `plan sharing`, as a user meets them.

use serde_json::Value;

use super::*;

/// Ten job types of five families with utilisation: the light ones hardly slow each other, the heavy ones do, and the two heaviest do not fit together.
pub(super) fn measured(folder: &Folder) -> (String, String) {
    let mut pairs = "gpu_type,job_a,job_b,speed_a,speed_b\n".to_owned();
    let mut profiles = "gpu_type,job,family,sm_util_pct,memory_mb\n".to_owned();
    let name = |at: usize| format!("m{} (batch size {})", at / 2, 16 << (at % 2));
    // Families of every weight, so that one that is left out lies among the others.
    let weight = |at: usize| [0.15, 0.25, 0.75, 0.85, 0.3, 0.4, 0.55, 0.65, 0.2, 0.35][at];
    for a in 0..10 {
        profiles += &format!("v100,{},m{},{:.0},{:.0}\n", name(a), a / 2, 100.0 * weight(a), 16000.0 * weight(a));
        for b in a..10 {
            let (x, y) = (weight(a), weight(b));
            let speed = |own: f64, other: f64| 1.0 - 0.45 * f64::max(0.0, own + other - 0.5) - 0.03 * other;
            if x + y > 1.65 {
                pairs += &format!("v100,{},{},,\n", name(a), name(b));
            } else {
                pairs += &format!("v100,{},{},{:.3},{:.3}\n", name(a), name(b), speed(x, y), speed(y, x));
            }
        }
    }
    (folder.file("pairs.csv", &pairs), folder.file("profiles.csv", &profiles))
}

#[test]
fn a_model_is_saved_and_answers() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let model = folder.path("share.tcm");
    let trained = tracecast(&["train", "interference", &pairs, "--profiles", &profiles, "--out", &model]);
    assert!(trained.status.success(), "{}", stderr(&trained));
    assert!(stderr(&trained).contains("55 pairs of 10 job types on 1 GPU type"), "{}", stderr(&trained));
    let ask = |more: &[&str]| tracecast(&[&["predict", "interference", "--model", &model], more].concat());
    // Heavy, unknown, light: the light one comes first.
    let running = ["m1 (batch size 32)", "of nobody", "m0 (batch size 16)"];
    let output = ask(&[&["--gpu-type", "v100", "m4 (batch size 16)"], &running[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["schema"], "predict-interference/1");
    assert_eq!((answer["trained"]["pairs"].as_u64(), answer["trained"]["did_not_fit"].as_u64()), (Some(55), Some(1)));
    let first = &answer["pairs"][0];
    assert_eq!(
        (first["job_b"].as_str(), first["share"].as_bool(), first["basis"].as_str()),
        (Some("m0 (batch size 16)"), Some(true), Some("measured"))
    );
    let speed = |of: &Value, which: &str, key: &str| of[which][key].as_f64().unwrap();
    assert!((speed(first, "speed_a", "mean") - 0.9955).abs() < 2e-3, "{first}");
    // Turned round, the same numbers turned round.
    let turned = ask(&["--gpu-type", "v100", "m0 (batch size 16)", "m4 (batch size 16)", "--format", "json"]);
    let turned = &json(&stdout(&turned))["pairs"][0];
    assert_eq!(turned["speed_b"], first["speed_a"]);
    // As a table, and as CSV with what was seen: more load never helps.
    let text = stdout(&ask(&["--gpu-type", "v100", "m0 (batch size 16)", "of nobody"]));
    assert!(text.contains("No pair of job type of nobody") && text.contains("no family measured"), "{text}");
    let couples = "gpu_type,job_a,job_b,sm_util_pct_a\nv100,m0 (batch size 16),new,10\nv100,m0 (batch size 16),new,90\nh900,a,b,\n";
    let asked = folder.file("couples.csv", couples);
    let rows = stdout(&ask(&["--pairs", &asked, "--format", "csv"]));
    let cells: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let number = |row: usize, column: &str| -> f64 {
        let at = cells[0].iter().position(|name| *name == column).unwrap();
        cells[row][at].parse().unwrap()
    };
    assert_eq!(cells.len(), 4);
    for column in ["speed_a", "speed_b", "speed_a_p05"] {
        assert!(number(1, column) >= number(2, column), "{rows}");
    }
    assert!(number(3, "speed_a").is_finite() && rows.lines().nth(3).unwrap().ends_with("nothing"), "{rows}");
    // What is wrong is said.
    for (more, told) in [
        (&["--gpu-type", "v100", "a"][..], "required"),
        (&["a", "b"][..], "--gpu-type"),
        (&[][..], "<JOB>"),
        (&["--gpu-type", "v100", "a", "b", "--slo", "0.5"][..], "at least 1"),
    ] {
        let output = ask(more);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
    let other = tracecast(&["predict", "interference", "--model", &pairs, "--gpu-type", "v100", "a", "b"]);
    assert!(!other.status.success() && stderr(&other).contains("model file"), "{}", stderr(&other));
    // Predictions of run times are asked for as before.
    let none = tracecast(&["predict"]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("--model"), "{}", stderr(&none));
}

#[test]
fn sharing_is_planned_tested_and_written_down() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let out = folder.path("sharing");
    let plan =
        ["plan", "sharing", "datasets/sample", "--pairs", &pairs, "--profiles", &profiles, "--slo", "2", "--quiet"];
    let asked = |more: &[&str]| {
        let output = tracecast(&[&plan[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let text = asked(&["--gpus", "12", "--emit", "slurm,kubernetes", "--emit-to", &out, "--format", "json"]);
    let answer = json(&text);
    let found = &answer["plans"][0];
    assert_eq!((answer["schema"].as_str(), found["gpu_type"].as_str()), (Some("plan-sharing/1"), Some("v100")));
    let tried = found["tried"].as_array().unwrap();
    let names: Vec<&str> = tried.iter().map(|of| of["policy"].as_str().unwrap()).collect();
    let wanted = [
        "exclusive",
        "gandiva",
        "lucid",
        "horus_published",
        "horus",
        "mean_forecast",
        "forecast",
        "forecast",
        "forecast_trial",
        "oracle",
    ];
    assert_eq!(names, wanted);
    let of = |name: &str| tried.iter().find(|of| of["policy"] == name).unwrap();
    let delay = |name: &str| of(name)["later"]["mean_delay_s"].as_f64().unwrap();
    // On so few GPUs jobs wait, and sharing helps.
    assert!(delay("forecast") < delay("exclusive") && found["followed"] == true, "{}", found["why_not"]);
    assert!(of("forecast")["later"]["slowdown90"].as_f64().unwrap() <= 2.0);
    assert_eq!(of("exclusive")["later"]["shared"].as_f64(), Some(0.0));
    assert!(of("forecast")["gpus_instead"].as_u64().unwrap() < 12);
    assert_eq!(found["recommendation"]["plan"], "sharing");
    let classes = found["classes"].as_array().unwrap();
    assert!(!classes.is_empty());
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("sharing/{name}"))).unwrap();
    let gres = read("slurm-gres.conf");
    assert!(gres.contains("NodeName=v100-share-1 Name=shard Count=16"), "{gres}");
    // Every line that is no comment is made of keys and values.
    for file in ["slurm-gres.conf", "slurm-sharing.conf"] {
        for line in read(file).lines().filter(|line| !line.starts_with('#')) {
            assert!(
                line.split(' ')
                    .all(|word| word.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())),
                "{line}"
            );
        }
    }
    assert!(read("slurm-sharing.conf").contains("GresTypes=gpu,shard"));
    let lua = read("slurm-sharing-job-submit.lua");
    let first = classes[0]["job_types"][0].as_str().unwrap();
    assert!(lua.contains(&format!("[\"{first}\"] = \"v100-share-1\"")) && lua.contains("gres/shard:1"), "{lua}");
    let yaml = read("kubernetes-sharing.yaml");
    assert!(yaml.contains("timeSlicing") && yaml.contains("\"v100-share-1\":"), "{yaml}");
    assert!(read("kubernetes-labels.sh").contains("nvidia.com/device-plugin.config=$class"));
    // The number of threads changes nothing; with MPS the other means are written.
    assert_eq!(text, asked(&["--gpus", "12", "--threads", "1", "--format", "json"]));
    asked(&[
        "--gpus",
        "12",
        "--share-by",
        "mps",
        "--emit",
        "slurm,kubernetes",
        "--emit-to",
        &out,
        "-o",
        &folder.path("answer"),
    ]);
    assert!(read("slurm-gres.conf").contains("Name=mps Count=800") && read("kubernetes-sharing.yaml").contains("mps"));
    // Who watches is told so.
    let watched =
        json(&asked(&["--gpus", "12", "--watched", "--emit", "slurm", "--emit-to", &out, "--format", "json"]));
    assert_eq!(
        (watched["plans"][0]["rule"].as_str(), watched["plans"][0]["followed"].as_bool()),
        (Some("forecast_trial"), Some(true))
    );
    assert!(read("slurm-sharing.conf").contains("needs somebody who watches"));
    // Where jobs need not wait, nothing is shared, and the files say so and set nothing.
    let idle = json(&asked(&["--gpus", "4000", "--emit", "slurm", "--emit-to", &out, "--format", "json"]));
    assert_eq!(idle["plans"][0]["followed"], false);
    assert!(read("slurm-gres.conf").lines().all(|line| line.starts_with('#')));
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let folder = Folder::new();
    let (pairs, _) = measured(&folder);
    let said = |pairs: &str, more: &[&str]| {
        let output = tracecast(&[&["plan", "sharing", "datasets/sample", "--pairs", pairs, "--quiet"], more].concat());
        assert!(!output.status.success());
        stderr(&output)
    };
    assert!(said(&pairs, &["--gpu-type", "k80"]).contains("the table has v100"));
    assert!(said(&pairs, &["--eval-from", "2035-01-01"]).contains("0 jobs of one GPU after the split"));
    assert!(said(&pairs, &["--slo", "0.9"]).contains("at least 1"));
    assert!(said(&pairs, &["--where", "vc = 'vision'"]).contains("needs them all"));
    assert!(said(&pairs, &["--emit", "slurm"]).contains("--emit-to"));
    let few =
        folder.file("few.csv", "gpu_type,job_a,job_b,speed_a,speed_b\ng,a,b,0.9,0.9\ng,a,a,0.9,0.9\ng,b,b,0.9,0.9\n");
    let told = said(&few, &[]);
    assert!(told.contains("families") && told.contains("measure"), "{told}");
}
