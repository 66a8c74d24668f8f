//! `model train interference`, `model predict interference` and `plan share couples`, as a user
//! meets them.

use serde_json::Value;
use tracecast_tests::pairs;

use super::*;

/// Ten job types of five families with utilisation: the light ones hardly slow each other, the heavy ones do, and the two heaviest do not fit together.
pub(super) fn measured(folder: &Folder) -> (String, String) {
    measured_on(folder, "v100", 0.45, "")
}

/// Files of measurements and profiles on a GPU type with this slope of slowdowns; their names begin
/// with `file`.
fn measured_on(folder: &Folder, gpu_type: &str, slope: f64, file: &str) -> (String, String) {
    let (measured, profiles) = pairs::measured_on(gpu_type, slope);
    (folder.file(&format!("{file}pairs.csv"), &measured), folder.file(&format!("{file}profiles.csv"), &profiles))
}

/// Jobs of one GPU whose names are these job types.
pub(super) fn named_jobs(folder: &Folder) -> String {
    jobs_named(folder, &pairs::job_types())
}

/// Jobs of one GPU whose names are drawn from some: on each of 60 days 50 within five hours, of 20 min to 2 h.
pub(super) fn jobs_named(folder: &Folder, names: &[String]) -> String {
    folder.file("sacct.txt", &pairs::jobs_named(names))
}

#[test]
fn what_to_measure_of_a_new_job_type_first() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let model = folder.path("share.tcm");
    let trained =
        tracecast(&["model", "train", "interference", &pairs, "--profiles", &profiles, "--out", &model, "--quiet"]);
    assert!(trained.status.success(), "{}", stderr(&trained));
    let ask = |more: &[&str]| {
        tracecast(
            &[&["model", "predict", "interference", "--model", &model, "--gpu-type", "V100", "--quiet"][..], more]
                .concat(),
        )
    };
    let found = json(&stdout(&ask(&["--to-measure", "3", "--format", "json", "m9 (batch size 8)"])));
    let order = found["to_measure"].as_array().unwrap();
    let names: Vec<&str> = order.iter().map(|of| of["job_b"].as_str().unwrap()).collect();
    let pairs: Vec<&str> = found["pairs"].as_array().unwrap().iter().map(|of| of["job_b"].as_str().unwrap()).collect();
    assert!(names.len() == 3 && names == pairs, "{found}");
    let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), 3);
    // Each leaves less unknown than the one before, and begins where that ended.
    let of = |at: usize, key: &str| order[at][key].as_f64().unwrap();
    for at in 0..3 {
        assert!(of(at, "deviation_after") < of(at, "deviation_before"), "{found}");
        assert!(at == 0 || (of(at, "deviation_before") - of(at - 1, "deviation_after")).abs() < 1e-12);
    }
    // Fewer are the first of more. Of a job type with all pairs measured there is nothing left but what did not fit.
    let one = json(&stdout(&ask(&["--to-measure", "1", "--format", "json", "m9 (batch size 8)"])));
    assert_eq!(one["to_measure"][0]["job_b"], names[0]);
    let known = json(&stdout(&ask(&["--to-measure", "5", "--format", "json", "m0 (batch size 16)"])));
    assert_eq!(known["to_measure"].as_array().map(Vec::len), Some(0), "{known}");
    // In words, and apart from an answer in which it was not asked.
    let text = stdout(&ask(&["--to-measure", "5", "m0 (batch size 16)"]));
    assert!(text.contains("All pairs of m0 (batch size 16) on v100 are measured"), "{text}");
    assert!(!text.contains("of 0 couples") && !text.contains("Progress"), "{text}");
    let ranked = json(&stdout(&ask(&["--format", "json", "m0 (batch size 16)", "m1 (batch size 8)"])));
    assert!(ranked["to_measure"].is_null() && ranked.as_object().unwrap().contains_key("to_measure"), "{ranked}");
    // The best of the running jobs alone.
    let running = ["m0 (batch size 16)", "m1 (batch size 8)", "m2 (batch size 8)"];
    let best = json(&stdout(&ask(&[&["--format", "json", "--top", "2", "m0 (batch size 8)"][..], &running].concat())));
    let all = json(&stdout(&ask(&[&["--format", "json", "m0 (batch size 8)"][..], &running].concat())));
    assert_eq!(best["pairs"].as_array().unwrap().as_slice(), &all["pairs"].as_array().unwrap()[..2]);
    let text = stdout(&ask(&["--to-measure", "2", "m9 (batch size 8)"]));
    assert!(text.contains("Measure m9 (batch size 8) beside") && text.contains("standard deviation"), "{text}");
    for (more, code) in [
        (&["--to-measure", "2", "a", "b"][..], 2),
        (&["--to-measure", "0", "a"][..], 2),
        (&["--to-measure", "2"][..], 2),
        (&["a"][..], 2),
    ] {
        let output = ask(more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", stderr(&output));
    }
    let elsewhere = tracecast(&[
        "model",
        "predict",
        "interference",
        "--model",
        &model,
        "--gpu-type",
        "h100",
        "--to-measure",
        "2",
        "a",
    ]);
    assert!(
        elsewhere.status.code() == Some(5) && stderr(&elsewhere).contains("the model knows v100"),
        "{}",
        stderr(&elsewhere)
    );
}

/// Step times of five models on three slices of an A100, and their profiles.
fn on_slices(folder: &Folder) -> (String, String) {
    let (mut steps, mut profiles) =
        ("model,batch,mig_profile,step_s_median\n".to_owned(), "model,batch,mem_util_pct,memory_mb\n".to_owned());
    for model in 0..5u32 {
        for batch in [8, 16] {
            let load = f64::from(model * 15 + batch);
            profiles += &format!("m{model},{batch},{load},{}\n", 200.0 * load);
            for (slice, share) in [("1g.5gb", 0.13), ("3g.20gb", 0.46), ("7g.40gb", 1.0)] {
                steps += &format!("m{model},{batch},{slice},{:.4}\n", 0.1 * (1.0 + load / 60.0 * (1.0 / share - 1.0)));
            }
        }
    }
    (folder.file("steps.csv", &steps), folder.file("slice-profiles.csv", &profiles))
}

#[test]
fn several_jobs_on_one_gpu_slices_and_gpu_types_that_were_not_measured() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let (steps, slice_profiles) = on_slices(&folder);
    let model = folder.path("share.tcm");
    let with = ["--slices", &steps, "--slice-profiles", &slice_profiles];
    let train = ["model", "train", "interference", &pairs, "--profiles", &profiles, "--out", &model];
    let trained = tracecast(&[&train[..], &with].concat());
    assert!(trained.status.success(), "{}", stderr(&trained));
    assert!(stderr(&trained).contains("20 speeds on 3 slices of a100"), "{}", stderr(&trained));
    let ask = |more: &[&str]| tracecast(&[&["model", "predict", "interference", "--model", &model], more].concat());
    // Three together: slower than in twos, and the answer says what it is composed from.
    let three = ["m0 (batch size 16)", "m1 (batch size 16)", "m2 (batch size 16)"];
    let together = ["--gpu-type", "v100", "--together"];
    let found = json(&stdout(&ask(&[&together[..], &three, &["--format", "json"]].concat())));
    let group = &found["group"];
    assert_eq!(
        (group["composed_from_pairs"].as_bool(), group["basis"].as_str()),
        (Some(true), Some("measured")),
        "{found}"
    );
    assert_eq!((group["jobs"].as_array().map(Vec::len), found["pairs"].as_array().map(Vec::len)), (Some(3), Some(0)));
    let two = json(&stdout(&ask(&[&together[..], &three[..2], &["--format", "json"]].concat())));
    let pair = json(&stdout(&ask(&["--gpu-type", "v100", three[0], three[1], "--format", "json"])));
    assert_eq!(two["group"]["jobs"][0]["speed"], pair["pairs"][0]["speed_a"]);
    assert_eq!(two["group"]["composed_from_pairs"].as_bool(), Some(false));
    let mean = |of: &Value, at: usize| of["group"]["jobs"][at]["speed"]["mean"].as_f64().unwrap();
    assert!(mean(&found, 0) < mean(&two, 0) && mean(&found, 1) < mean(&two, 1), "{found}");
    let text = stdout(&ask(&[&together[..], &three].concat()));
    assert!(text.contains("Composed from couples") && text.contains("These 3 jobs"), "{text}");
    let rows = stdout(&ask(&[&together[..], &three, &["--format", "csv"]].concat()));
    assert!(rows.lines().count() == 4 && rows.lines().all(|line| line.split(',').count() == 14), "{rows}");
    // On slices.
    let sliced = |name: &str, more: &[&str]| ask(&[&["--gpu-type", "A100", name, three[0], "new"], more].concat());
    let found = json(&stdout(&sliced("--slices", &["--format", "json"])));
    let slices = found["slices"].as_array().unwrap();
    let of = |at: usize| (slices[at]["slice"].as_str().unwrap(), slices[at]["basis"].as_str().unwrap());
    assert_eq!((slices.len(), of(0), of(5)), (6, ("1g.5gb", "measured"), ("7g.40gb", "nothing")), "{found}");
    assert_eq!(
        (found["trained"]["slices_of"].as_str(), found["warnings"].as_array().map(Vec::len)),
        (Some("a100"), Some(0))
    );
    let text = stdout(&sliced("--slices=2g.10gb", &[]));
    assert!(text.contains("2g.10gb") && !text.contains("1g.5gb") && text.contains("its profile"), "{text}");
    assert_eq!(stdout(&sliced("--slices", &["--format", "csv"])).lines().count(), 7);
    let text = stdout(&ask(&["--gpu-type", "v100", "--slices", "new"]));
    assert!(text.contains("Slices of GPU type v100 were not measured"), "{text}");
    // A GPU type that was not measured is answered, and said first.
    let text = stdout(&ask(&["--gpu-type", "h900", three[0], three[1]]));
    let (warning, verdict) =
        (text.find("No pair was measured on GPU type h900"), text.find("may share within the limits"));
    assert!(warning.is_some() && warning < verdict && text.contains("pairs were measured on v100"), "{text}");
    let output = ask(&["--gpu-type", "h900", three[0], three[1], "--format", "json"]);
    let found = json(&stdout(&output));
    assert_eq!(found["pairs"][0]["gpu_type_measured"].as_bool(), Some(false));
    assert!(stderr(&output).contains("No pair was measured on GPU type h900"), "{}", stderr(&output));
    assert_eq!(pair["pairs"][0]["gpu_type_measured"].as_bool(), Some(true));
    // What cannot be.
    for (more, told) in [
        (&["--gpu-type", "v100", "--together", "a"][..], "name 2 to 16"),
        (&["--gpu-type", "a100", "--slices=half", "a"][..], "no MIG slice"),
        (&["--gpu-type", "a100", "--slices", "--together", "a", "b"][..], "cannot be used with"),
    ] {
        let output = ask(more);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
    let plain = folder.path("plain.tcm");
    let trained = tracecast(&["model", "train", "interference", &pairs, "--profiles", &profiles, "--out", &plain]);
    assert!(trained.status.success(), "{}", stderr(&trained));
    let output =
        tracecast(&["model", "predict", "interference", "--model", &plain, "--gpu-type", "v100", "--slices", "a"]);
    assert!(
        output.status.code() == Some(2) && stderr(&output).contains("train one with --slices"),
        "{}",
        stderr(&output)
    );
    let none =
        tracecast(&["model", "train", "interference", &pairs, "--slices", &steps, "--out", &folder.path("no.tcm")]);
    assert!(none.status.code() == Some(2) && stderr(&none).contains("--slice-profiles"), "{}", stderr(&none));
}

/// Documents of mappings in block style, each key and scalar quoted as JSON has it, two blanks a level: what is not of that form fails.
fn documents(yaml: &str) -> Vec<Value> {
    let (mut found, mut path): (Vec<Value>, Vec<String>) = (Vec::new(), Vec::new());
    for line in yaml.lines().filter(|line| !line.starts_with('#')) {
        if line == "---" {
            found.push(Value::Null);
            path.clear();
            continue;
        }
        let text = line.trim_start_matches(' ');
        let blanks = line.len() - text.len();
        assert!(blanks % 2 == 0 && blanks / 2 <= path.len(), "{line}");
        path.truncate(blanks / 2);
        let mut key = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let name = key.next().unwrap().unwrap();
        let value = text[key.byte_offset()..].strip_prefix(':').unwrap().trim();
        let mut at = found.last_mut().unwrap();
        for above in &path {
            at = &mut at[above.as_str()];
        }
        assert!(at.get(&name).is_none(), "{line}");
        if value.is_empty() {
            path.push(name);
        } else {
            at[name.as_str()] = serde_json::from_str(value).unwrap();
        }
    }
    found
}

#[test]
fn a_model_is_saved_and_answers() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let model = folder.path("share.tcm");
    let trained = tracecast(&["model", "train", "interference", &pairs, "--profiles", &profiles, "--out", &model]);
    assert!(trained.status.success(), "{}", stderr(&trained));
    assert!(stderr(&trained).contains("55 pairs of 10 job types on 1 GPU type"), "{}", stderr(&trained));
    let ask = |more: &[&str]| tracecast(&[&["model", "predict", "interference", "--model", &model], more].concat());
    // Heavy, unknown, light: the light one comes first.
    let running = ["m1 (batch size 32)", "of nobody", "m0 (batch size 16)"];
    let output = ask(&[&["--gpu-type", "v100", "m4 (batch size 16)"], &running[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    assert_eq!(answer["schema"], "model-predict-interference/1");
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
    let rows = stdout(&ask(&["--couples", &asked, "--format", "csv"]));
    let cells: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let number = |row: usize, column: &str| -> f64 {
        let at = cells[0].iter().position(|name| *name == column).unwrap();
        cells[row][at].parse().unwrap()
    };
    assert_eq!(cells.len(), 4);
    for column in ["speed_a", "speed_b", "speed_a_p05"] {
        assert!(number(1, column) >= number(2, column), "{rows}");
    }
    assert!(
        number(3, "speed_a").is_finite() && rows.lines().nth(3).unwrap().contains(",nothing,false,a may"),
        "{rows}"
    );
    // Of a GPU type that nobody measured no slowdown is told.
    assert!(rows.lines().nth(3).unwrap().contains(",1.0000,,false,slowdown,"), "{rows}");
    // What is wrong is said.
    for (more, told) in [
        (&["--gpu-type", "v100", "a"][..], "at least two job types"),
        (&["a", "b"][..], "--gpu-type"),
        (&[][..], "<JOB>"),
        (&["--gpu-type", "v100", "a", "b", "--slo", "0.5"][..], "at least 1"),
    ] {
        let output = ask(more);
        assert!(output.status.code() == Some(2) && stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
    let other = tracecast(&["model", "predict", "interference", "--model", &pairs, "--gpu-type", "v100", "a", "b"]);
    assert!(!other.status.success() && stderr(&other).contains("model file"), "{}", stderr(&other));
}

#[test]
fn sharing_is_planned_tested_and_written_down() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let (out, jobs) = (folder.path("sharing"), named_jobs(&folder));
    let plan = [
        "plan",
        "share",
        "couples",
        &jobs,
        "--pairs",
        &pairs,
        "--profiles",
        &profiles,
        "--slo",
        "2",
        "--quiet",
        "--force",
    ];
    let asked = |more: &[&str]| {
        let output = tracecast(&[&plan[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let text = asked(&["--gpus", "6", "--emit", "slurm,kubernetes", "--emit-to", &out, "--format", "json"]);
    let answer = json(&text);
    let found = &answer["plans"][0];
    assert_eq!((answer["schema"].as_str(), found["gpu_type"].as_str()), (Some("plan-share-couples/2"), Some("v100")));
    let tried = found["tried"].as_array().unwrap();
    let names: Vec<&str> = tried.iter().map(|of| of["policy"].as_str().unwrap()).collect();
    let wanted = [
        "exclusive",
        "first_fit",
        "least_loaded",
        "gandiva",
        "lucid",
        "horus_published",
        "horus",
        "antman",
        "salus_fair",
        "salus_attained",
        "mean_forecast",
        "forecast",
        "forecast",
        "forecast",
        "forecast_trial",
        "oracle",
    ];
    assert_eq!(names, wanted);
    let of = |name: &str| tried.iter().find(|of| of["policy"] == name).unwrap();
    let delay = |name: &str| of(name)["later"]["mean_delay_s"].as_f64().unwrap();
    // On so few GPUs jobs wait, and sharing helps.
    assert_eq!((found["drawn_types"].as_u64(), found["named_gpu_time"].as_f64()), (Some(0), Some(1.0)));
    assert!(delay("forecast") < delay("exclusive") && found["verdict"] == "advised", "{}", found["why_not"]);
    assert!(of("forecast")["later"]["slowdown90"].as_f64().unwrap() <= 2.0);
    // What is recommended is what Slurm can be set to: the rule in one class.
    let set = |how: &str| tried.iter().find(|of| of["how"] == how).unwrap();
    assert_eq!(found["recommendation"]["effects"][0]["change"], set("one_class")["mean_delay_change_s"]["value"]);
    assert_eq!(of("exclusive")["later"]["shared"].as_f64(), Some(0.0));
    assert!(of("forecast")["gpus_instead"].as_u64().unwrap() < 6);
    // The answer leads with the one type.
    assert_eq!((&answer["verdict"], &answer["action"]), (&found["verdict"], &found["action"]));
    assert_eq!(answer["recommendation"]["effects"], found["recommendation"]["effects"]);
    assert_eq!(
        (answer["recommendation"]["plan"].as_str(), answer["assurance"]["confidence"].as_str()),
        (Some("share couples"), Some("medium"))
    );
    let classes = found["classes"].as_array().unwrap();
    assert!(!classes.is_empty());
    // Where each class has GPUs of its own, all are given out; one class may share any.
    let sum = |gpus: &mut dyn Iterator<Item = u64>| gpus.sum::<u64>();
    let divided = set("own_gpus")["class_gpus"].as_array().unwrap();
    assert_eq!(sum(&mut divided.iter().map(|gpus| gpus.as_u64().unwrap())), 6, "{divided:?}");
    assert!(set("one_class")["class_gpus"].as_array().unwrap().is_empty());
    let on_all: Vec<&Value> = classes.iter().filter(|class| class["on_all_gpus"] == true).collect();
    assert_eq!(on_all.len(), 1, "{classes:?}");
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("sharing/{name}"))).unwrap();
    let gres = read("slurm-gres.conf");
    assert!(gres.contains("NodeName=gpu-nodes Name=shard Count=16"), "{gres}");
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
    // What is of the whole site is said and not set.
    let conf = read("slurm-sharing.conf");
    let set = conf.lines().filter(|line| !line.starts_with('#'));
    assert!(set.clone().count() > 0 && conf.contains("GresTypes=gpu,shard"), "{conf}");
    for line in set {
        assert!(line.starts_with("NodeName="), "{line}");
    }
    assert!(conf.contains("with one class that may share any GPU") && conf.contains("was not replayed"), "{conf}");
    let lua = read("slurm-sharing-job-submit.lua");
    for job_type in on_all[0]["job_types"].as_array().unwrap() {
        assert!(lua.contains(&format!("[{job_type}] = true")), "{lua}");
    }
    assert!(
        lua.contains("gres .. \"shard:\" .. gpu_type .. \"1\"")
            && !lua.contains("nil")
            && lua.contains("min_nodes > 1")
            && !lua.contains("partition"),
        "{lua}"
    );
    let first = classes[0]["job_types"][0].as_str().unwrap();
    let yaml = read("kubernetes-sharing.yaml");
    let maps = documents(&yaml);
    assert_eq!(maps.len(), 2, "{yaml}");
    for map in &maps {
        assert_eq!((map["apiVersion"].as_str(), map["kind"].as_str()), (Some("v1"), Some("ConfigMap")), "{yaml}");
        assert_eq!(map["metadata"]["namespace"], "gpu-operator");
    }
    assert_eq!(maps[0]["data"].as_object().unwrap().len(), classes.len() + 1);
    let config = json(maps[0]["data"]["v100-share-1"].as_str().unwrap());
    assert_eq!(
        (config["version"].as_str(), config["sharing"]["timeSlicing"]["resources"][0]["replicas"].as_u64()),
        (Some("v1"), Some(2))
    );
    assert_eq!(maps[1]["data"]["v100-share-1"].as_str().unwrap().lines().next(), Some(first));
    let script = read("kubernetes-labels.sh");
    assert!(script.contains("nvidia.com/device-plugin.config=$class") && !script.contains("kubectl taint"), "{script}");
    let checked =
        std::process::Command::new("sh").args(["-n", &format!("{out}/kubernetes-labels.sh")]).output().unwrap();
    assert!(checked.status.success(), "{}", stderr(&checked));
    // The number of threads changes nothing; with MPS the other means are written.
    assert_eq!(text, asked(&["--gpus", "6", "--threads", "1", "--format", "json"]));
    asked(&[
        "--gpus",
        "6",
        "--share-by",
        "mps",
        "--gpus-per-node",
        "1",
        "--emit",
        "slurm,kubernetes",
        "--emit-to",
        &out,
        "-o",
        &folder.path("answer"),
    ]);
    assert!(read("slurm-gres.conf").contains("Name=mps Count=100") && read("kubernetes-sharing.yaml").contains("mps"));
    // Who watches is told so.
    let watched = json(&asked(&["--gpus", "6", "--watched", "--emit", "slurm", "--emit-to", &out, "--format", "json"]));
    assert_eq!(
        (watched["plans"][0]["rule"].as_str(), watched["plans"][0]["verdict"].as_str()),
        (Some("forecast_trial"), Some("advised"))
    );
    let conf = read("slurm-sharing.conf");
    for said in ["needs somebody who watches", "no more than one alone", "write a checkpoint"] {
        assert!(conf.contains(said), "{conf}");
    }
    // Where jobs need not wait, nothing is shared, and no file is written.
    let none = folder.path("none");
    let few = ["--gpus", "4000", "--emit", "slurm", "--emit-to", &none];
    let idle = json(&asked(&[&few[..], &["--format", "json"]].concat()));
    let refused = &idle["plans"][0];
    assert_eq!(
        (refused["verdict"].as_str(), idle["verdict"].as_str()),
        (Some("nothing_better"), Some("nothing_better"))
    );
    assert!(idle["recommendation"].is_null() && idle["assurance"]["confidence"] == "medium", "{idle}");
    assert!(!Path::new(&none).exists());
    // Who would share with whom is shown all the same, and not advised.
    let left = refused["not_advised"].as_array().unwrap();
    assert!(!left.is_empty() && left[0]["slowdown90"].as_f64().unwrap() >= 1.0, "{refused}");
    assert!(left.iter().all(|of| of["refused"].is_null()) && refused["couples"].as_array().unwrap().is_empty());
    assert!(found["not_advised"].as_array().unwrap().is_empty());
    let inputs =
        ["plan", "share", "couples", &jobs, "--pairs", &pairs, "--profiles", &profiles, "--slo", "2", "--force"];
    let output = tracecast(&[&inputs[..], &few].concat());
    let said = stderr(&output);
    assert!(said.contains("nothing is written to --emit-to: no change is advised"), "{said}");
    let text = stdout(&output);
    assert!(text.contains("would share, the best first: not advised"), "{text}");
    // Where no couple keeps the limits, those that come nearest are.
    let inputs =
        ["plan", "share", "couples", &jobs, "--pairs", &pairs, "--profiles", &profiles, "--slo", "1.001", "--quiet"];
    let tight = json(&stdout(&tracecast(&[&inputs[..], &["--gpus", "6", "--format", "json"]].concat())));
    let left = tight["plans"][0]["not_advised"].as_array().unwrap();
    assert!(left.len() <= 10 && left.iter().all(|of| of["refused"].is_string()), "{left:?}");
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let folder = Folder::new();
    let (pairs, _) = measured(&folder);
    let said = |pairs: &str, more: &[&str]| {
        let output =
            tracecast(&[&["plan", "share", "couples", "datasets/sample", "--pairs", pairs, "--quiet"], more].concat());
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

#[test]
fn files_are_of_one_gpu_type_and_of_named_job_types() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let jobs = named_jobs(&folder);
    let refused = |source: &str, pairs: &str, profiles: &str, out: &str, code: i32| {
        let inputs =
            ["plan", "share", "couples", source, "--pairs", pairs, "--profiles", profiles, "--slo", "2", "--gpus", "6"];
        let emit = ["--emit", "slurm,kubernetes", "--emit-to", out, "--format", "json", "--quiet"];
        let output = tracecast(&[&inputs[..], &emit].concat());
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(std::fs::read_dir(out).map_or(0, Iterator::count) == 0, "nothing is written");
        (json(&stdout(&output)), stderr(&output))
    };
    // The sample's jobs are not named after these types: an answer, and no files.
    let (answer, told) = refused("datasets/sample", &pairs, &profiles, &folder.path("drawn"), 0);
    assert!(told.contains("name the job types first"), "{told}");
    let plan = &answer["plans"][0];
    assert_eq!((plan["verdict"].as_str(), plan["named_gpu_time"].as_f64()), (Some("untested"), Some(0.0)));
    assert_eq!(answer["assurance"]["confidence"], "low");
    assert!(
        plan["why_not"].as_str().unwrap().starts_with("the names of all of its jobs are no job types")
            && plan["tried"].as_array().unwrap().len() > 5
    );
    // One name cannot go to the classes of two GPU types.
    let both = |path: &str| {
        let text = std::fs::read_to_string(path).unwrap();
        let more: String = text.lines().skip(1).map(|line| line.replace("v100,", "a100,") + "\n").collect();
        text + &more
    };
    let (pairs, profiles) = (folder.file("two.csv", &both(&pairs)), folder.file("two_profiles.csv", &both(&profiles)));
    let (answer, told) = refused(&jobs, &pairs, &profiles, &folder.path("two"), 2);
    assert!(answer["plans"].as_array().unwrap().iter().all(|plan| plan["verdict"] == "advised"), "{told}");
    // What to do names both types.
    let action = answer["action"].as_str().unwrap();
    assert!(action.contains("share v100 GPUs") && action.contains("share a100 GPUs"), "{action}");
    assert!(told.contains("--gpu-type") && told.contains("a100") && told.contains("v100"), "{told}");
}

/// For each name, whether the script for Slurm asks for a part of a GPU; `None` where there is no
/// Lua.
fn asks_for_a_part(folder: &Folder, lines: &str, names: &[String]) -> Option<Vec<bool>> {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let script = format!(
        "slurm = {{ NO_VAL = 4294967294 }}\nlocal function submit(job_desc)\n{lines}\nend\nfor _, name in ipairs({{ {} }}) do\n  local job = {{ name = name, tres_per_node = \"gres/gpu:1\" }}\n  submit(job)\n  print(job.tres_per_node == \"gres/shard:1\")\nend\n",
        names.join(", ")
    );
    let output = std::process::Command::new("lua").arg(folder.file("run.lua", &script)).output().ok()?;
    assert!(output.status.success(), "{}", stderr(&output));
    Some(stdout(&output).lines().map(|line| line == "true").collect())
}

#[test]
fn job_types_are_told_by_names() {
    let folder = Folder::new();
    let (pairs, profiles) = measured(&folder);
    let kinds: Vec<String> = (0..10).map(|kind| format!("m{} (batch size {})", kind / 2, 16 << (kind % 2))).collect();
    let named = jobs_named(&folder, &kinds);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    // The same jobs under names of their own.
    let own =
        kinds.iter().enumerate().fold(read(&named), |text, (at, kind)| text.replace(kind, &format!("run{at}.sh")));
    let own = folder.file("own.txt", &own);
    let lines: String = kinds.iter().enumerate().map(|(at, kind)| format!("run{at}*,{kind}\n")).collect();
    let types = folder.file("types.csv", &format!("name,job_type\n{lines}"));
    let planned = |source: &str, more: &[&str]| {
        let asked = [
            "plan",
            "share",
            "couples",
            source,
            "--pairs",
            &pairs,
            "--profiles",
            &profiles,
            "--gpus",
            "6",
            "--quiet",
            "--json",
        ];
        let output = tracecast(&[&asked[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let (by_name, told) = (planned(&named, &[]), planned(&own, &["--types", &types]));
    assert_eq!(by_name["plans"][0]["tried"], told["plans"][0]["tried"]);
    assert!(
        told["notes"].to_string().contains("tells the job types of 3,000 jobs by their names"),
        "{}",
        told["notes"]
    );
    // Regression: the script for Slurm compared names with job types, and shared nothing. It finds
    // the type of a name as the plan does.
    let out = folder.path("emitted");
    let emit = ["--types", &types, "--slo", "2", "--emit", "slurm,kubernetes", "--emit-to", &out];
    let answer = planned(&own, &emit);
    assert_eq!(answer["types"][3], serde_json::json!({"name": "run3*", "job_type": kinds[3]}));
    let class = answer["plans"][0]["classes"].as_array().unwrap().iter().find(|of| of["on_all_gpus"] == true).unwrap();
    let shares = |kind: &String| class["job_types"].as_array().unwrap().iter().any(|of| of == kind.as_str());
    let lua = read(&format!("{out}/slurm-sharing-job-submit.lua"));
    for (at, kind) in kinds.iter().enumerate() {
        assert!(lua.contains(&format!("{{ \"run{at}*\", \"{kind}\" }},")), "{lua}");
    }
    let names: Vec<String> =
        (0..10).map(|at| format!("run{at}.sh")).chain(kinds.clone()).chain(["x-run1".to_owned()]).collect();
    let expected: Vec<bool> = kinds.iter().chain(&kinds).map(shares).chain([false]).collect();
    assert!(expected.contains(&true), "{class}");
    match asks_for_a_part(&folder, &lua, &names) {
        Some(found) => assert_eq!(found, expected, "{lua}"),
        None => tracecast_tests::skipped::record("lua", false),
    }
    let wrong = folder.file("wrong.csv", "name,job_type\nrun*,m77\n");
    let refused =
        tracecast(&["plan", "share", "couples", &own, "--pairs", &pairs, "--profiles", &profiles, "--types", &wrong]);
    assert!(
        !refused.status.success() && stderr(&refused).contains("`m77` is no job type of the measurements"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn the_better_way_to_share_is_chosen_and_written_down() {
    let folder = Folder::new();
    let slicing = measured_on(&folder, "v100 (time slicing)", 0.45, "slicing-");
    let mps = measured_on(&folder, "v100 (MPS)", 0.2, "mps-");
    let (out, jobs) = (folder.path("sharing"), named_jobs(&folder));
    let plan = |more: &[&str]| {
        let files = ["--pairs", &slicing.0, "--pairs", &mps.0, "--profiles", &slicing.1, "--profiles", &mps.1];
        let asked = ["plan", "share", "couples", &jobs, "--gpus", "6", "--slo", "2", "--quiet", "--format", "json"];
        tracecast(&[&asked[..], &files, more].concat())
    };
    // Slurm shares one GPU of a node at a time through MPS.
    let several = plan(&["--emit", "slurm", "--emit-to", &out]);
    assert!(!several.status.success() && stderr(&several).contains("only one GPU of a node"), "{}", stderr(&several));
    let single = ["--gpus-per-node", "1", "--emit", "slurm,kubernetes", "--emit-to", &out];
    let answer = json(&stdout(&plan(&single)));
    let of = &answer["trial"]["ways"][0];
    assert_eq!((answer["trial"]["ways"].as_array().unwrap().len(), of["gpu"].as_str()), (1, Some("v100")));
    let way = |name: &str| of["ways"].as_array().unwrap().iter().find(|way| way["way"] == name).unwrap();
    let chosen = |name: &str| way(name)["chosen"].as_bool().unwrap();
    assert!(chosen("mps") && !chosen("time_slicing"), "{of}");
    assert_eq!(way("mps")["measured_couples"].as_u64(), Some(55));
    let earlier = |name: &str| way(name)["earlier_mean_delay_s"].as_f64().unwrap();
    assert!(earlier("mps") < earlier("time_slicing"), "{of}");
    // Only the plan of that way is followed, and written in it, of the GPU as it is called without the way.
    let followed =
        |gpu_type: &str| answer["plans"].as_array().unwrap().iter().find(|plan| plan["gpu_type"] == gpu_type).unwrap();
    assert!(followed("v100 (MPS)")["verdict"] == "advised", "{}", followed("v100 (MPS)")["why_not"]);
    let other = followed("v100 (time slicing)");
    assert_eq!(
        (other["verdict"].as_str(), other["why_not"].as_str(), other["classes"].as_array().map(Vec::len)),
        (Some("nothing_better"), Some("with speeds as forecast, the earlier jobs end sooner by MPS"), Some(0))
    );
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("sharing/{name}"))).unwrap();
    let gres = read("slurm-gres.conf");
    assert!(gres.contains("Name=mps Count=100") && gres.contains(" Type=v100 "), "{gres}");
    assert!(read("kubernetes-sharing.yaml").contains("mps"));
    // A file that only repeats what another says is no empty one.
    let again = tracecast(&[
        "plan",
        "share",
        "couples",
        &jobs,
        "--gpus",
        "6",
        "--slo",
        "2",
        "--quiet",
        "--pairs",
        &mps.0,
        "--pairs",
        &mps.0,
        "--profiles",
        &mps.1,
    ]);
    assert!(again.status.success(), "{}", stderr(&again));
    // Another way than the measured one is refused; one way alone is a plan like any other.
    let refused = plan(&["--share-by", "time-slicing", "--emit", "slurm", "--emit-to", &out, "--force"]);
    assert!(
        !refused.status.success() && stderr(&refused).contains("were measured by MPS; by time slicing"),
        "{}",
        stderr(&refused)
    );
    // The site may call it otherwise than the pairs do.
    let one = ["--gpu-type", "v100 (time slicing)", "--slurm-type", "tesla_v100", "--emit", "slurm", "--emit-to", &out];
    let answer = json(&stdout(&plan(&[&one[..], &["--force"]].concat())));
    assert_eq!(
        (answer["trial"]["ways"].as_array().map(Vec::len), answer["plans"][0]["verdict"].as_str()),
        (Some(0), Some("advised"))
    );
    let gres = read("slurm-gres.conf");
    assert!(gres.contains("Name=shard") && gres.contains(" Type=tesla_v100 "), "{gres}");
    assert!(read("slurm-sharing-job-submit.lua").contains("~= \"teslav100\" then"));
    let refused = plan(&[&one[..3], &["a b"], &one[4..], &["--force"]].concat());
    assert!(stderr(&refused).contains("give one such as h100"), "{}", stderr(&refused));
}
