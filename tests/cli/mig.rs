//! `plan share mig`, as a user meets it.

use serde_json::Value;
use tracecast_tests::real_trace;

use super::*;

/// Six models at two batch sizes: step times on slices of an A100, which grow with how far a job fills the GPU, and profiles. The largest does not fit on `1g.5gb`.
fn measured(folder: &Folder) -> (String, String) {
    let mut steps = "model,batch,mig_profile,step_s_median\n".to_owned();
    let mut profiles = "model,batch,sm_util_pct,mem_util_pct,power_w,memory_used\n".to_owned();
    for model in 0..6 {
        for batch in [8, 16] {
            let load = 0.1 + 0.15 * f64::from(model) + f64::from(batch) / 200.0;
            let memory = 3000.0 + 1500.0 * f64::from(model);
            profiles +=
                &format!("m{model},{batch},{:.1},{:.1},{:.0},{memory}\n", 90.0 * load, 70.0 * load, 250.0 * load);
            for (name, share, usable) in [
                ("1g.5gb", 1.0f64 / 7.0, 4864.0),
                ("2g.10gb", 2.0 / 7.0, 9856.0),
                ("3g.20gb", 3.0 / 7.0, 19968.0),
                ("7g.40gb", 1.0, 40192.0),
            ] {
                if memory <= usable {
                    steps += &format!("m{model},{batch},{name},{:.5}\n", (1.0 + (load / share).powi(2)).sqrt());
                }
            }
        }
    }
    (folder.file("steps.csv", &steps), folder.file("profiles.csv", &profiles))
}

/// The job types.
fn job_types() -> Vec<String> {
    (0..12).map(|at| format!("m{} (batch size {})", at / 2, 8 << (at % 2))).collect()
}

/// Three of each job type at once.
fn demand() -> String {
    let line = |job: &String| format!("{job},3\n");
    format!("job,jobs\n{}", job_types().iter().map(line).collect::<String>())
}

/// The arguments for the fewest GPUs.
pub(crate) fn asked(folder: &Folder) -> Vec<String> {
    let (steps, profiles) = measured(folder);
    let demand = folder.file("demand.csv", &demand());
    ["plan", "share", "mig", &steps, "--profiles", &profiles, "--demand", &demand, "--gpu", "a100-40gb", "--quiet"]
        .map(str::to_owned)
        .to_vec()
}

fn run(arguments: &[String], more: &[&str]) -> Output {
    let all: Vec<&str> = arguments.iter().map(String::as_str).chain(more.iter().copied()).collect();
    tracecast(&all)
}

fn answer(arguments: &[String], more: &[&str]) -> Value {
    let output = run(arguments, &[more, &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn the_fewest_gpus_beside_others() {
    let folder = Folder::new();
    let arguments = asked(&folder);
    let found = answer(&arguments, &[]);
    assert_eq!(
        (found["schema"].as_str(), found["partitions"].as_u64()),
        (Some("plan-share-mig/2"), Some(28)),
        "{found}"
    );
    let plan = &found["plan"];
    let beside = found["beside"].as_array().unwrap();
    let rules: Vec<&str> = beside.iter().map(|of| of["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["whole_gpus", "one_partition"]);
    // A job each: 36 whole GPUs; the plan does with fewer than any one partition, and no fleet with fewer than the bound.
    assert_eq!(beside[0]["gpus"], 36);
    assert!(number(&plan["gpus"]) <= number(&beside[1]["gpus"]) && number(&beside[1]["gpus"]) < 36.0, "{found}");
    assert_eq!((found["proven"].as_bool(), plan["gpus"].as_f64()), (Some(true), plan["bound"].as_f64()));
    assert_eq!(
        (found["verdict"].as_str(), found["recommendation"]["plan"].as_str()),
        (Some("advised"), Some("share mig"))
    );
    // Nothing is lost, and no slice is used twice.
    let placed = found["placed"].as_array().unwrap();
    let sum = |of: &str, key: &str, is: &str| -> f64 {
        placed.iter().filter(|row| row[of] == is).map(|row| number(&row[key])).sum()
    };
    for row in found["demand"].as_array().unwrap() {
        assert_eq!(sum("job", "jobs", row["job"].as_str().unwrap()), 3.0, "{row}");
    }
    for profile in found["profiles"].as_array().unwrap() {
        let name = profile["profile"].as_str().unwrap();
        let there: f64 = plan["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|of| of["slices"].as_array().unwrap().iter().map(move |slice| (of, slice)))
            .filter(|(_, slice)| slice["profile"] == name)
            .map(|(of, slice)| number(&of["gpus"]) * number(&slice["count"]))
            .sum();
        assert!(sum("profile", "slices", name) <= there + 1e-9, "{name}");
    }
    // What is placed is within the SLO, and as well known as the answer says.
    for row in placed {
        assert!(number(&row["slowdown90"]) <= 2.0 + 1e-9, "{row}");
    }
    // Measured speeds are within it where they are known: the oracle makes no mistake, and needs no more GPUs than a rule that keeps the SLO.
    let rules = found["trial"]["tested"]["rules"].as_array().unwrap();
    let of = |rule: &str| rules.iter().find(|of| of["rule"] == rule).unwrap();
    assert_eq!((number(&of("oracle")["over_slo"]), number(&of("oracle")["not_measured"])), (0.0, 0.0));
    assert!(number(&of("oracle")["gpus"]) <= number(&of("whole_gpus")["gpus"]));
    assert!(number(&of("forecast")["gpus"]) >= number(&of("mean_forecast")["gpus"]));
    assert!(number(&of("forecast")["over_slo"]) <= number(&of("mean_forecast")["over_slo"]));
    // The number of threads changes nothing.
    assert_eq!(answer(&arguments, &["--threads", "1"]), found);
}

#[test]
fn the_most_progress_on_gpus_that_are_given() {
    let folder = Folder::new();
    let arguments = asked(&folder);
    let found = answer(&arguments, &["--gpus", "8"]);
    let (plan, whole) = (&found["plan"], &found["beside"][0]);
    assert_eq!((number(&whole["progress"]), number(&whole["waiting"])), (8.0, 28.0));
    assert!(number(&plan["progress"]) > 8.0 && number(&plan["progress"]) <= number(&plan["bound"]) + 1e-6);
    assert!(number(&plan["gpus"]) <= 8.0 && number(&plan["waiting"]) < 28.0);
    assert_eq!(found["recommendation"]["effects"][1]["what"], "Jobs that have no room");
}

#[test]
fn jobs_that_come_are_a_load() {
    let folder = Folder::new();
    let mut arguments = asked(&folder);
    let load = folder.file("load.csv", "job,per_hour,run_s\nm0 (batch size 8),20,1800\nm3 (batch size 16),3,3600\n");
    let at = arguments.iter().position(|word| word == "--demand").unwrap();
    arguments[at + 1] = load;
    let found = answer(&arguments, &[]);
    // 20 × 0.5 + 3 whole GPUs, 80 % busy: 13 / 0.8 = 16.25.
    assert_eq!((number(&found["load"]), found["beside"][0]["gpus"].as_u64()), (13.0, Some(17)));
    assert!((number(&found["plan"]["progress"]) - 13.0).abs() < 1e-6, "{found}");
    // Where speeds are as believed, slices are held no more than was said.
    let busy = |of: &Value| number(&of["measured_busy"]);
    let rules = found["trial"]["tested"]["rules"].as_array().unwrap();
    let oracle = rules.iter().find(|of| of["rule"] == "oracle").unwrap();
    assert!((busy(oracle) - 0.8).abs() < 1e-6 && oracle["measured_progress"].is_null(), "{oracle}");
    let busier = answer(&arguments, &["--busy", "1"]);
    assert!(number(&busier["plan"]["gpus"]) < number(&found["plan"]["gpus"]));
    let text = stdout(&run(&arguments, &[]));
    assert!(text.contains("23 jobs an hour, a load of 13.0 whole GPUs"), "{text}");
}

/// The arguments for the jobs of a trace.
fn asked_of_jobs(folder: &Folder, jobs: &str) -> Vec<String> {
    let (steps, profiles) = measured(folder);
    ["plan", "share", "mig", &steps, "--profiles", &profiles, "--trace", jobs, "--gpu", "a100-40gb", "--quiet"]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn jobs_of_a_trace_choose_a_fleet_that_is_tested_on_later_ones() {
    let folder = Folder::new();
    let jobs = sharing::jobs_named(&folder, &job_types());
    let arguments = asked_of_jobs(&folder, &jobs);
    let found = answer(&arguments, &[]);
    let replayed = &found["trial"]["replayed"];
    let fleets = replayed["fleets"].as_array().unwrap();
    let of = |rule: &str, any: bool| fleets.iter().find(|row| row["rule"] == rule && row["any_slice"] == any).unwrap();
    let (whole, plan, any) = (of("whole_gpus", false), of("plan", false), of("plan", true));
    // All names are job types; a third of 3,000 jobs is held out.
    assert_eq!((replayed["drawn_types"].as_u64(), number(&replayed["named_gpu_time"])), (Some(0), 1.0));
    assert_eq!(replayed["later_jobs"].as_u64(), Some(1000));
    assert!(number(&plan["gpus"]) < number(&whole["gpus"]) && any["gpus"] == plan["gpus"], "{replayed}");
    assert!(number(&plan["later"]["p95_wait_s"]) <= number(&replayed["target_p95_wait_s"]), "{plan}");
    assert!(number(&plan["later"]["over_slo"]) <= 0.1 && number(&whole["later"]["over_slo"]) == 0.0, "{plan}");
    assert!(number(&plan["whole_instead"]) > number(&plan["gpus"]), "{plan}");
    // What it advises rests on these days, and says what it costs.
    assert_eq!(
        (found["verdict"].as_str(), found["recommendation"]["basis"].as_str()),
        (Some("advised"), Some("later_days"))
    );
    let effects = found["recommendation"]["effects"].as_array().unwrap();
    assert!(effects.iter().any(|effect| effect["what"] == "Mean delay of a job" && number(&effect["change"]) > 0.0));
    // The load is that of the jobs: 50 a day of 20 min to 2 h.
    assert!((2.0..3.0).contains(&number(&found["load"])), "{}", found["load"]);
    // A longer wait takes no more GPUs. A part of the jobs takes fewer.
    let patient = answer(&arguments, &["--target-p95", "6h"]);
    assert!(number(&patient["plan"]["gpus"]) < number(&found["plan"]["gpus"]));
    let part = answer(&arguments, &["--where", "name like 'm0%'"]);
    assert!(number(&part["plan"]["gpus"]) < number(&found["plan"]["gpus"]));
    assert_eq!(answer(&arguments, &["--threads", "1"]), found);
    let text = stdout(&run(&arguments, &[]));
    assert!(found["action"].as_str().unwrap().contains("with 95 % of the waits within 30 min"), "{}", found["action"]);
    // One partition for all needs no more GPUs here, so it is taken.
    assert_eq!(found["plan"]["rule"], "one_partition");
    for said in ["What it would have done to later jobs", "any slice that keeps the SLO"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let out = folder.path("mig");
    let emitted = run(&arguments, &["--emit", "slurm", "--emit-to", &out]);
    assert!(emitted.status.success(), "{}", stderr(&emitted));
}

#[test]
fn jobs_without_a_known_type_are_advised_nothing() {
    let folder = Folder::new();
    let jobs = sharing::jobs_named(&folder, &["train".to_owned()]);
    let arguments = asked_of_jobs(&folder, &jobs);
    let found = answer(&arguments, &[]);
    assert_eq!(
        (found["verdict"].as_str(), found["trial"]["replayed"]["drawn_types"].as_u64()),
        (Some("untested"), Some(3000))
    );
    assert!(
        found["action"].as_str().unwrap().contains("name the job types first") && found["recommendation"].is_null()
    );
    assert_ne!(answer(&arguments, &["--seed", "2"])["plan"], found["plan"]);
    let text = stdout(&run(&arguments, &[]));
    assert!(text.contains("What the plan would set") && !text.contains("What to set"), "{text}");
    let demand = folder.file("demand.csv", &demand());
    for (more, code, told) in [
        (&["--demand", demand.as_str()][..], 2, "--demand"),
        (&["--busy", "0.5"][..], 2, "--busy"),
        (&["--gpus", "4"][..], 2, "--gpus"),
        (&["--eval-from", "2020-06-01"][..], 5, "choose another --eval-from"),
    ] {
        let output = run(&arguments, more);
        assert!(output.status.code() == Some(code) && stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
    // What is of a trace alone is refused with a demand.
    for more in [
        &["--target-p95", "1h"][..],
        &["--where", "gpus = 1"],
        &["--reader", "sacct"],
        &["--timezone", "Europe/Berlin"],
        &["--mapping", "nowhere.toml"],
        &["--strict"],
        &["--max-expansion", "7"],
    ] {
        let output = run(&asked(&folder), more);
        let text = stderr(&output);
        assert!(output.status.code() == Some(2) && text.contains(more[0]), "{more:?}: {text}");
    }
}

#[test]
fn fewer_gpus_are_changed_and_what_that_costs() {
    let folder = Folder::new();
    let arguments = asked(&folder);
    let first = answer(&arguments, &[]);
    let partitions = first["plan"]["partitions"].as_array().unwrap();
    let mut now = "partition,gpus\n".to_owned();
    for of in partitions {
        now += &format!("{},{}\n", of["partition"].as_str().unwrap(), of["gpus"]);
    }
    // As the plan has it already, nothing changes.
    let there = folder.file("now.csv", &now);
    let again = answer(&arguments, &["--now", &there]);
    let gpus = first["plan"]["gpus"].as_u64().unwrap();
    assert_eq!((again["change"]["kept"].as_u64(), again["change"]["gpu_hours"].as_f64()), (Some(gpus), Some(0.0)));
    // Two whole GPUs are drained; the others are new.
    let few = folder.file("few.csv", "partition,gpus\nwhole,2\n");
    let change = &answer(&arguments, &["--now", &few, "--drain", "30min"])["change"];
    let whole_kept = change["kept"].as_u64().unwrap();
    assert_eq!(change["changed"].as_u64(), Some(gpus - whole_kept), "{change}");
    assert_eq!(change["gpu_hours"].as_f64(), Some(0.5 * (2 - whole_kept) as f64), "{change}");
}

#[test]
fn files_for_slurm_and_kubernetes() {
    let folder = Folder::new();
    let arguments = asked(&folder);
    let out = folder.path("mig");
    let found = answer(&arguments, &["--emit", "slurm,kubernetes", "--emit-to", &out, "--gpus-per-node", "4"]);
    let read = |name: &str| std::fs::read_to_string(folder.path(&format!("mig/{name}"))).unwrap();
    let (gres, conf) = (read("slurm-mig-gres.conf"), read("slurm-mig.conf"));
    for text in [&gres, &conf] {
        assert!(text.is_ascii(), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(
                line.split(' ').all(|word| word.split_once('=').is_some_and(|(_, value)| !value.is_empty())),
                "{line}"
            );
        }
    }
    assert!(gres.contains("NodeName=mig-1 AutoDetect=nvml\n") && gres.contains("MultipleFiles=/dev/nvidia0"), "{gres}");
    // Every slice of the plan is a GRES of a node.
    let mut slices = std::collections::BTreeMap::<String, u64>::new();
    for (line, head) in conf.lines().zip(std::iter::once("").chain(conf.lines())) {
        let Some(types) = line.split_once(" Gres=").and_then(|(_, rest)| rest.split(' ').next()) else { continue };
        // `# mig-1, 2 nodes: …` stands above it.
        let nodes: u64 = head.split(", ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        for of in types.split(',') {
            let (name, count) = of.rsplit_once(':').unwrap();
            *slices.entry(name.to_owned()).or_default() += nodes * count.parse::<u64>().unwrap();
        }
    }
    for of in found["plan"]["partitions"].as_array().unwrap().iter().filter(|of| of["partition"] != "whole") {
        for slice in of["slices"].as_array().unwrap() {
            assert!(slices.contains_key(&format!("gpu:a100_{}", slice["profile"].as_str().unwrap())), "{conf}");
        }
    }
    for (name, count) in &slices {
        let Some(profile) = name.strip_prefix("gpu:a100_") else { continue };
        let wanted: u64 = found["plan"]["partitions"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|of| of["slices"].as_array().unwrap().iter().map(move |slice| (of, slice)))
            .filter(|(_, slice)| slice["profile"] == profile)
            .map(|(of, slice)| of["gpus"].as_u64().unwrap() * slice["count"].as_u64().unwrap())
            .sum();
        assert_eq!(*count, wanted, "{name}: {conf}");
    }
    // The ConfigMap holds the configurations of mig-parted, and the way back.
    let yaml = read("kubernetes-mig.yaml");
    let within = yaml.lines().skip_while(|line| line.trim() != "\"config.yaml\": |").skip(1);
    let config: Vec<&str> = within.map_while(|line| line.strip_prefix("    ")).collect();
    let parted = read("mig-parted.yaml");
    let bare: Vec<&str> = parted.lines().filter(|line| !line.starts_with(['#', '-'])).collect();
    assert!(config == bare && parted.contains("nvidia-mig-parted apply"), "{yaml}\n{parted}");
    assert!(config[0] == "\"mig-configs\":" && config.contains(&"  \"all-disabled\":"), "{yaml}");
    let first =
        config.iter().skip_while(|line| **line != "  \"mig-1\":").skip(1).take_while(|line| line.starts_with("   "));
    let devices =
        first.filter(|line| line.trim_start().strip_prefix("- ").is_some_and(|device| device.parse::<u32>().is_ok()));
    assert_eq!((devices.count(), config.last()), (4, Some(&"\"version\": \"v1\"")));
    assert!(yaml.contains("mig.strategy=mixed") && yaml.contains("To undo"), "{yaml}");
    let labels = read("kubernetes-mig-labels.sh");
    assert!(labels.contains("nvidia.com/mig.config=$configuration"), "{labels}");
    let checked = std::process::Command::new("sh").args(["-n", &format!("{out}/kubernetes-mig-labels.sh")]).output();
    assert!(checked.unwrap().status.success());
    // Where whole GPUs do as well, nothing is written, and the answer is there all the same.
    let none = folder.path("none");
    let strict = run(&arguments, &["--slo", "1", "--emit", "slurm", "--emit-to", &none]);
    assert!(strict.status.success(), "{}", stderr(&strict));
    assert!(stderr(&strict).contains("nothing is written to --emit-to: no change is advised"), "{}", stderr(&strict));
    assert!(stdout(&strict).contains("Partition nothing") && !std::path::Path::new(&none).exists());
}

#[test]
fn every_form_and_what_is_wrong() {
    let folder = Folder::new();
    let arguments = asked(&folder);
    let text = stdout(&run(&arguments, &[]));
    for said in ["Partition", "proven", "Where jobs go", "What forecasts are worth", "by the mean forecast", "too slow"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    for form in ["markdown", "html"] {
        assert!(run(&arguments, &["--format", form]).status.success(), "{form}");
    }
    let csv = run(&arguments, &["--section", "mig-beside", "--format", "csv"]);
    assert!(csv.status.success() && stdout(&csv).contains("one partition for all GPUs"), "{}", stderr(&csv));
    let with = |option: &str, value: &str| {
        let mut changed = arguments.clone();
        let at = changed.iter().position(|word| word == option).unwrap();
        changed[at + 1] = value.to_owned();
        changed
    };
    let unknown = folder.file("unknown.csv", "job,jobs\nm9 (batch size 8),1\n");
    let twice = folder.file("twice.csv", "job,jobs\nm1 (batch size 8),1\nm1 (batch size 8),1\n");
    for (changed, code, told) in [
        (with("--gpu", "v100"), 2, "write one of a100-40gb"),
        (with("--gpu", "h100-80gb"), 5, "name the GPU that was measured"),
        (with("--demand", &unknown), 5, "has neither step times nor a profile"),
        (with("--demand", &twice), 1, "line 3"),
        (with("--demand", "nowhere.csv"), 1, "nowhere.csv"),
    ] {
        let output = run(&changed, &[]);
        assert!(output.status.code() == Some(code) && stderr(&output).contains(told), "{told}: {}", stderr(&output));
    }
    let now = folder.file("now.csv", "partition,gpus\n2x4g.20gb,1\n");
    for (more, code, told) in [
        (&["--now", now.as_str()][..], 1, "cannot lie on one GPU together"),
        (&["--slo", "0.5"][..], 2, "1 or more"),
        (&["--busy", "0"][..], 2, "above 0"),
        (&["--gpus", "0"][..], 2, "--gpus"),
        (&["--drain", "1h"][..], 2, "--now"),
        (&["--emit", "slurm"][..], 2, "--emit-to"),
    ] {
        let output = run(&arguments, more);
        assert!(output.status.code() == Some(code) && stderr(&output).contains(told), "{more:?}: {}", stderr(&output));
    }
}

/// Two of each of MISO's job types at once, none more than twice as slow. The bounds are what was measured when the test was written (`planner/RESULTS.md`), with some room.
#[test]
fn partitions_for_misos_job_types() {
    let (Some(steps), Some(profiles)) =
        (real_trace("miso_a100/mig_step_time.csv"), real_trace("miso_a100/profiles.csv"))
    else {
        return;
    };
    let folder = Folder::new();
    let mut demand = "job,jobs\n".to_owned();
    for line in std::fs::read_to_string(&profiles).unwrap().lines().skip(1) {
        let (model, batch) = (line.split(',').next().unwrap(), line.split(',').nth(1).unwrap());
        if model != "dummy" {
            demand += &format!("{model} (batch size {batch}),2\n");
        }
    }
    let demand = folder.file("demand.csv", &demand);
    let (steps, profiles) = (steps.display().to_string(), profiles.display().to_string());
    let arguments =
        ["plan", "share", "mig", &steps, "--profiles", &profiles, "--demand", &demand, "--gpu", "a100-40gb"];
    let found = answer(&arguments.map(str::to_owned), &["--quiet"]);
    let plan = &found["plan"];
    assert_eq!((found["proven"].as_bool(), plan["gpus"].as_f64()), (Some(true), plan["bound"].as_f64()));
    assert!(number(&plan["gpus"]) <= 26.0 && number(&found["beside"][1]["gpus"]) >= 30.0, "{plan}");
    // On a larger slice than one on which it was measured a job fits, and is forecast to be as fast at least.
    let size = |name: &Value| {
        let profile = found["profiles"].as_array().unwrap().iter().find(|of| of["profile"] == *name).unwrap();
        (number(&profile["compute_slices"]), number(&profile["memory_slices"]))
    };
    let speeds = found["speeds"].as_array().unwrap();
    let mut compared = 0;
    for known in speeds.iter().filter(|of| of["basis"] == "measured") {
        for told in speeds.iter().filter(|of| of["basis"] == "forecast" && of["job"] == known["job"]) {
            let (small, large) = (size(&known["profile"]), size(&told["profile"]));
            if small.0 <= large.0 && small.1 <= large.1 {
                assert!(told["fits"] == true && number(&told["speed"]) >= number(&known["speed"]), "{known} {told}");
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "{compared}");
    let tested = &found["trial"]["tested"];
    let of = |rule: &str| tested["rules"].as_array().unwrap().iter().find(|of| of["rule"] == rule).unwrap().clone();
    let (forecast, mean, oracle) = (of("forecast"), of("mean_forecast"), of("oracle"));
    for tried in [&forecast, &mean, &oracle] {
        println!("{tried}");
    }
    // Without any step time of a family: within the SLO but for a few, where trusting the mean is not.
    assert!(number(&forecast["over_slo"]) <= 0.1 && number(&forecast["gpus"]) <= 45.0, "{forecast}");
    assert!(number(&mean["over_slo"]) > 2.0 * number(&forecast["over_slo"]), "{mean}");
    assert!(number(&oracle["over_slo"]) == 0.0 && number(&oracle["gpus"]) <= number(&forecast["gpus"]), "{oracle}");
    assert!(number(&tested["held"]) >= 0.85, "{}", tested["held"]);
}
