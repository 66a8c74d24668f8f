//! Nodes counted by `tracecast plan power` and by the power of a report, and the answers about
//! them.

use serde_json::Value;
use tracecast_tests::{real_trace, whole_trace};

use super::plan::{answered, flat};
use super::*;

fn answer(arguments: &[&str]) -> Value {
    answered(&tracecast(&[&["plan", "power"], arguments, &["--format", "json", "--quiet"]].concat()))
}

/// Mean nodes of the one pool.
fn nodes(answer: &Value) -> Option<f64> {
    plan::pool(answer)["nodes_mean"].as_f64()
}

fn said(of: &Value, key: &str) -> String {
    of[key].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Jobs of two VCs by the hour for ten days: `a` on 8 to 24 GPUs, `b` on 16.
fn hourly() -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    for at in 0..240u32 {
        let (day, hour) = (1 + at / 24, at % 24);
        for (number, vc, gpus) in [(0, "va", 8 + 8 * (at % 3)), (1, "vb", 16)] {
            let moment = format!("2020-04-{day:02} {hour:02}");
            text += &format!(
                "{},u,{vc},{gpus},4,1,COMPLETED,{moment}:00:00,{moment}:00:00,{moment}:50:00,3000,0\n",
                1000 * number + at
            );
        }
    }
    text
}

/// A cluster file of some VCs.
fn cluster(vcs: &[(&str, u32)]) -> String {
    let of = |(vc, nodes): &(&str, u32)| format!("[[vc]]\nname = \"{vc}\"\nnodes = {nodes}\ngpus_per_node = 8\n");
    vcs.iter().map(of).collect()
}

/// Regression test: given the jobs of two VCs and the nodes of all, one card said that 22 nodes
/// stay on, another that 96 of 135 sleep.
#[test]
fn vcs_without_jobs_in_the_source_are_no_sleeping_capacity() {
    let files = ["helios/helios_venus_2vc_sept.csv", "helios/Venus_cluster_gpu_number.csv"].map(real_trace);
    let [Some(jobs), Some(sizes)] = files else { return };
    let (jobs, sizes) = (jobs.display().to_string(), sizes.display().to_string());
    let folder = Folder::new();
    let emitted = folder.path("emitted");
    let found = answer(&[&jobs, &sizes, "--emit", "actions", "--emit-to", &emitted]);
    assert_eq!((nodes(&found), found["trial"]["vcs_as_they_stand"]["nodes_mean"].as_f64()), (Some(22.0), Some(22.0)));
    assert_eq!(
        (&found["forward"][0]["now"]["total"], &found["plan"]["pools"][0]["total_nodes"]),
        (&22.0.into(), &22.into())
    );
    let cautions = said(&found, "cautions");
    assert!(cautions.contains("VCs have no job in the source, so that 113 of 135 nodes are left out"), "{cautions}");
    // Where no rule is worth its shortages, nothing is written that a site could apply, and no schedule puts nodes to sleep either.
    assert_eq!((&found["verdict"], &found["recommendation"]), (&"nothing_better".into(), &Value::Null));
    assert!(!Path::new(&emitted).exists());
    let hours = found["forward"][0]["schedule"]["hours"].as_array().unwrap();
    assert!(hours.iter().all(|hour| hour["powered"] == 22.0), "{hours:?}");
    for pool in ["plan", "slurm_plan"] {
        let pool = &found[pool]["pools"][0];
        assert_eq!(pool["keep_idle"], pool["total_nodes"], "{pool}");
    }
    // One and the same in the report, which counts no other nodes anywhere.
    let out = folder.path("report");
    let output = tracecast(&["report", &jobs, &sizes, "--out", &out, "--quiet"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = flat(&output);
    assert!(text.contains("all 22 nodes stay on") && !text.contains("From now on"), "{text}");
    assert!(text.matches("135 nodes").count() == text.matches("113 of 135 nodes are left out").count(), "{text}");
}

#[test]
fn a_cluster_file_goes_before_what_is_recorded_or_inferred() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let site = folder.file("site.toml", &cluster(&[("va", 6), ("vb", 4)]));
    // Without the file the most in use stand for the nodes: three and two.
    let (inferred, given) = (answer(&[&jobs]), answer(&[&jobs, "--site", &site]));
    assert_eq!((nodes(&inferred), inferred["trial"]["capacity_known"].as_bool()), (Some(5.0), Some(false)));
    assert_eq!((nodes(&given), given["trial"]["capacity_known"].as_bool()), (Some(10.0), Some(true)));
    assert_eq!(
        (&given["forward"][0]["now"]["total"], given["trial"]["vcs_as_they_stand"]["nodes_mean"].as_f64()),
        (&10.0.into(), Some(10.0))
    );
    // The replay is of the same nodes, so nothing says that they differ.
    assert_eq!(given["trial"]["effects"][0]["nodes"].as_u64(), Some(10));
    assert!(!said(&given, "notes").contains("cannot be compared"));
    // Each VC has the nodes of the file, too.
    let apart = answer(&[&jobs, "--site", &site, "--by-vc"]);
    let totals: Vec<f64> =
        apart["forward"].as_array().unwrap().iter().map(|of| of["now"]["total"].as_f64().unwrap()).collect();
    assert_eq!(totals, [6.0, 4.0]);
    // A file of fewer nodes than were in use says so.
    let few = folder.file("few.toml", &cluster(&[("va", 2), ("vb", 2)]));
    let found = answer(&[&jobs, "--site", &few]);
    assert_eq!(nodes(&found), Some(4.0));
    assert!(
        said(&found, "cautions").contains("of the time more nodes were needed than"),
        "{}",
        said(&found, "cautions")
    );
    // A VC that the file does not name is left out, and a VC of the file without jobs is not idle.
    let other = folder.file("other.toml", &cluster(&[("va", 6), ("vz", 30)]));
    let found = answer(&[&jobs, "--site", &other]);
    assert_eq!(nodes(&found), Some(6.0));
    let cautions = said(&found, "cautions");
    assert!(cautions.contains("240 of 480 jobs with GPUs are left out") && cautions.contains("(vz)"), "{cautions}");
}

/// Regression test: a file of another site left no job, and the error named neither the VCs of the
/// file nor those of the jobs.
#[test]
fn a_cluster_file_of_another_site_is_refused_by_name() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let site = folder.file("site.toml", &cluster(&[("vision", 6), ("speech", 4)]));
    for command in [
        vec!["plan", "power", &jobs, "--site", &site],
        vec!["simulate", &jobs, "--site", &site],
        vec!["plan", "queues", &jobs, "--site", &site],
        vec!["plan", "nodes", &jobs, "--site", &site, "--target-p95", "1h"],
        vec!["model", "backtest", "duration", &jobs, "--site", &site],
    ] {
        let output = tracecast(&command);
        let told = stderr(&output);
        assert!(!output.status.success(), "{command:?}");
        for part in [
            "names no VC of the trace: it has vision, speech, and the jobs are of va, vb",
            "or name one VC `*` for all",
        ] {
            assert!(told.contains(part), "{command:?}: {told}");
        }
    }
    // One VC `*` is for all.
    let all = folder.file("all.toml", &cluster(&[("*", 6)]));
    assert_eq!(nodes(&answer(&[&jobs, "--site", &all])), Some(12.0));
}

#[test]
fn nodes_without_gpus_are_left_out_and_power_follows_the_gpus_of_nodes() {
    let Some(folder) = whole_trace("openb_2023") else { return };
    let found = answer(&[&folder.display().to_string()]);
    assert_eq!(nodes(&found), Some(1213.0));
    assert!(said(&found, "cautions").contains("310 of 1,523 nodes have no GPU and are left out"));
    // 6,212 GPUs on 1,213 nodes of 1 to 8, at 155 W each.
    let each = 6212.0 / 1213.0;
    assert!((found["trial"]["constants"]["idle_w"].as_f64().unwrap() - 155.0 * each).abs() < 1e-9);
    assert!(said(&found, "notes").contains("differ in their GPUs (1 to 8): each is taken for one of the mean, 5.12"));
    // Without dates, days and hours are told since the beginning.
    let ahead = &found["forward"][0];
    let hours = ahead["schedule"]["hours"].as_array().into_iter().flatten().map(|hour| &hour["at"]);
    for at in [&ahead["now"]["at"], &ahead["now"]["until"]].into_iter().chain(hours) {
        assert!(at.as_str().unwrap().starts_with("day "), "{at}");
    }
    // What is not recorded is said to be assumed.
    let site = Folder::new();
    let counts = site.file("node_counts.csv", &plan::counts());
    assert!(said(&answer(&[&counts]), "notes").contains("How many GPUs a node has is not recorded: 8 are assumed"));
    assert!(!said(&answer(&[&counts, "--gpus-per-node", "4"]), "notes").contains("are assumed"));
}

/// Regression test: the next slot of the headline and the first line of the schedule disagreed, and
/// the notes spoke of one pool.
#[test]
fn the_schedule_begins_with_no_fewer_nodes_than_the_next_slot() {
    let Some(folder) = real_trace("helios/earth_vc_1min") else { return };
    let (source, out) = (folder.display().to_string(), Folder::new());
    let emitted = out.path("emitted");
    let found = answer(&[&source, "--by-vc", "--emit", "actions,karpenter", "--emit-to", &emitted]);
    let pools = found["forward"].as_array().unwrap();
    assert_eq!(pools.len(), 8);
    let lines = std::fs::read_to_string(Path::new(&emitted).join("power-actions.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(json).collect();
    for pool in pools {
        let (now, first) = (&pool["now"], &pool["schedule"]["hours"][0]);
        assert!(first["powered"].as_f64() >= now["powered"].as_f64(), "{pool}");
        let line = lines.iter().find(|line| line["pool"] == now["pool"]).unwrap();
        assert_eq!((&line["time"], line["powered"].as_f64()), (&now["at"], first["powered"].as_f64()));
    }
    let notes = std::fs::read_to_string(Path::new(&emitted).join("NOTES.txt")).unwrap();
    assert!(notes.contains("Each of the 8 VCs is planned on nodes of its own"), "{notes}");
    for pool in pools {
        let named = format!("{}: Karpenter and the cluster-autoscaler", pool["now"]["pool"].as_str().unwrap());
        assert!(notes.contains(&named), "{named}: {notes}");
    }
    assert!(!notes.contains("slurm.conf puts"), "of what was not asked for: {notes}");
}

#[test]
fn the_headline_says_what_a_stranger_asks() {
    let folder = Folder::new();
    let counts = folder.file("node_counts.csv", &plan::counts());
    let text = flat(&tracecast(&["plan", "power", &counts]));
    // What to do is said before.
    let headline = text.split("• ").nth(2).unwrap();
    for part in ["10 nodes", "stay on and", "sleep on average", "kWh a year, or", "a month"] {
        assert!(headline.contains(part), "{part}: {headline}");
    }
    assert!(text.contains("The risk:") && text.contains("simple"), "{text}");
    // Stay on and sleep are all there are.
    let found = answer(&[&counts]);
    let asleep = plan::pool(&found)["chosen"]["nodes_asleep_mean"].as_f64().unwrap();
    assert!(headline.contains(&format!("{:.1} stay on and {asleep:.1} sleep", 10.0 - asleep)), "{headline}");
    // A month is a twelfth of a year of days like those tested.
    let year = found["trial"]["yearly"]["saved_kwh_per_year"].as_f64().unwrap();
    let grouped = tracecast_analytics::report::format::compact(year / 12.0);
    assert!(headline.contains(&format!("or {grouped} a month")), "{headline}");
}

/// Regression test: a file that shared one name with the trace was planned for, and nothing said
/// how sure the answer was.
#[test]
fn a_plan_for_the_smaller_part_of_the_gpu_time_says_so_first() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let site = folder.file("cluster.toml", &cluster(&[("va", 3)]));
    let found = answer(&[&jobs, "--site", &site]);
    assert!(said(&found, "cautions").starts_with("**240 of 480 jobs with GPUs are left out"), "{}", found["cautions"]);
    assert_eq!(found["assurance"]["confidence"], "medium", "{}", found["assurance"]);
    // With four times the GPU time in the VC that the file does not name.
    let jobs = folder.file("more.csv", &hourly().replace(",vb,16,", ",vb,64,"));
    let output = tracecast(&["plan", "power", &jobs, "--site", &site, "--quiet"]);
    let text = flat(&output);
    assert!(
        text.contains("• What follows is of ")
            && text.contains("Confidence: low. Lowered by the caution “What follows is of "),
        "{text}"
    );
}

/// All moments of a page are those of one zone, the trace's.
#[test]
fn moments_are_of_the_zone_of_the_trace() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let site = folder.file("site.toml", &cluster(&[("va", 6), ("vb", 4)]));
    let text = flat(&tracecast(&["plan", "power", &jobs, "--site", &site]));
    assert!(text.contains("(Asia/Shanghai)") && !text.contains("(UTC)") && !text.contains("From (UTC"), "{text}");
    assert!(text.contains("In the slot from 2020-04-10 23:50 to 2020-04-11 00:00"), "{text}");
}

/// The last days of Philly's record hold few jobs: it lists what had ended, and was cut.
#[test]
fn the_tail_of_a_record_that_thins_out_is_no_test() {
    let Some(jobs) = whole_trace("philly/philly_jobs.csv.gz") else { return };
    let jobs = jobs.display().to_string();
    let found = answer(&[&jobs]);
    let cautions = said(&found, "cautions");
    assert!(cautions.contains("The record thins out from 2017-12-1"), "{cautions}");
    assert!(found["forward"][0]["now"]["at"].as_str().unwrap() < "2017-12-16", "{}", found["forward"][0]["now"]);
    // Whoever names the days gets them, and the caution.
    let whole = answer(&[&jobs, "--eval-to", "2017-12-22"]);
    assert!(said(&whole, "cautions").contains("which makes sleep look better than it is"));
    let asleep = |of: &Value| plan::pool(of)["chosen"]["nodes_asleep_mean"].as_f64().unwrap();
    assert!(asleep(&whole) > asleep(&found) + 20.0, "{} {}", asleep(&whole), asleep(&found));
}

/// Regression test: a folder of two clusters had the GPUs of both, though no job has the names of
/// the other's VCs.
#[test]
fn capacity_of_another_cluster_is_not_planned_for() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let sizes = folder.file("Earth_gpu_number.csv", "date,vcA,vcB,total\n2020-04-01,800,80,880\n");
    let found = answer(&[&jobs, &sizes]);
    // The most in use stand for the nodes: three and two.
    assert_eq!((nodes(&found), found["trial"]["capacity_known"].as_bool()), (Some(5.0), Some(false)));
    let cautions = said(&found, "cautions");
    assert!(cautions.contains("of VCs of which no job is in the source (") && cautions.contains("vcA"), "{cautions}");
    let described = flat(&tracecast(&["describe", &jobs, &sizes, "--quiet"]));
    assert!(
        described.contains("how many GPUs these had is not known") && !described.contains("on 880 GPUs"),
        "{described}"
    );
}

/// Regression test: a VC whose last size ended a day before those of the others had no nodes in a
/// description and in this plan, and all of them in replays.
#[test]
fn a_size_that_ends_early_holds_where_jobs_come_after_it() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    // Of vb nothing is written of the last two days, on which its jobs still come.
    let day = |day: u32| match day {
        1..9 => format!("2020-04-{day:02},48,24,72\n"),
        _ => format!("2020-04-{day:02},48,,48\n"),
    };
    let sizes = folder.file("gpu_number.csv", &format!("date,va,vb,total\n{}", (1..=10).map(day).collect::<String>()));
    let found = answer(&[&jobs, &sizes]);
    assert_eq!((nodes(&found), &found["forward"][0]["now"]["total"]), (Some(9.0), &9.0.into()));
    let described = flat(&tracecast(&["describe", &jobs, &sizes, "--quiet"]));
    assert!(described.contains("72 GPUs") || described.contains("GPUs 72"), "{described}");
    let file = stdout(&tracecast(&["cluster", &jobs, &sizes]));
    assert!(file.contains("name = \"vb\"\nnodes = 3\n") && !file.contains("left out: vb"), "{file}");
    // How many GPUs a node has is nowhere recorded, and every plan says what it assumes.
    let assumed = "How many GPUs a node has is not recorded: 8 ";
    assert!(said(&found, "assumed").contains(assumed), "{}", found["assumed"]);
    let capacity =
        answered(&tracecast(&["plan", "nodes", &jobs, &sizes, "--target-p95", "1h", "--format", "json", "--quiet"]));
    assert!(said(&capacity, "assumed").contains(assumed) && said(&capacity, "notes").contains(assumed));
}

/// Regression test: 11.5 nodes were to sleep beside jobs that waited, and with `--pending` 0.1,
/// without a warning.
#[test]
fn jobs_that_wait_beside_idle_nodes_are_told() {
    // Seven jobs a day, one after another in its last hours; they were submitted then, or at its beginning.
    let jobs = |waits: bool| {
        let mut text = hourly();
        for (day, hour) in (1..=10).flat_map(|day| (17..24).map(move |hour| (day, hour))) {
            let asked = if waits { 0 } else { hour };
            let (job, waited) = (5000 + 24 * day + hour, 3600 * (hour - asked));
            let moment = format!("2020-04-{day:02} {hour}");
            text += &format!(
                "{job},u,va,8,4,1,COMPLETED,2020-04-{day:02} {asked:02}:00:00,{moment}:00:00,{moment}:50:00,3000,{waited}\n"
            );
        }
        text
    };
    let folder = Folder::new();
    let site = folder.file("site.toml", &cluster(&[("va", 9), ("vb", 2)]));
    let (waiting, served) = (folder.file("waiting.csv", &jobs(true)), folder.file("served.csv", &jobs(false)));
    let told = |source: &str, more: &[&str]| {
        let found = answer(&[&[source, "--site", &site][..], more].concat());
        let lowered = said(&found["assurance"], "lowered_by").contains("Jobs waited while nodes were idle");
        assert_eq!(said(&found, "cautions").contains("Jobs waited while nodes were idle"), lowered);
        let vcs = &found["trial"]["vcs_as_they_stand"];
        let [nodes, need, asked] = ["nodes_mean", "demand_mean", "asked_mean"].map(|mean| vcs[mean].as_f64().unwrap());
        // What is in the demand already is not counted again.
        assert!(more.is_empty() || asked == need, "{asked} {need}");
        (lowered, nodes - asked, vcs["chosen"]["nodes_asleep_mean"]["value"].as_f64().unwrap())
    };
    let (lowered, spare, asleep) = told(&waiting, &[]);
    assert!(lowered && spare < asleep / 2.0, "{spare} {asleep}");
    // Nobody waits; and where those that wait count as demand, they cannot be passed over.
    let (lowered, spare, asleep) = told(&served, &[]);
    assert!(!lowered && spare >= asleep / 2.0, "{spare} {asleep}");
    let (lowered, spare, asleep) = told(&waiting, &["--pending"]);
    assert!(!lowered && spare >= asleep / 2.0, "{spare} {asleep}");
}

/// Regression test: the headline was 119.5 nodes asleep, which takes a loop, and the third of it
/// that is left without one stood pages later.
#[test]
fn what_sleeps_without_a_loop_stands_with_what_leads() {
    let Some(nodes) = whole_trace("philly/philly_node_sequence.csv.gz") else { return };
    let nodes = nodes.display().to_string();
    let schedule = answer(&[&nodes])["forward"][0]["schedule"]["nodes_asleep_mean"].as_f64().unwrap();
    let output = tracecast(&["plan", "power", &nodes, "--quiet"]);
    let text = flat(&output);
    let told = format!("schedules of the next day let {schedule:.1} sleep");
    assert!(text.contains("To follow it takes a loop that runs `decide power` every 10 min. Without one, the timeout"));
    let (told, section) = (text.find(&told), text.find("From now on"));
    assert!(told.is_some() && told < section, "{text}");
}

/// Found in review: a plan made with `--pending` has waits in its peaks, and the loop's own stood beside them.
#[test]
fn a_loop_counts_waits_as_its_plan_does() {
    let folder = Folder::new();
    let jobs = folder.file("helios.csv", &hourly());
    let site = folder.file("site.toml", &cluster(&[("va", 6), ("vb", 4)]));
    let decided = |more: &[&str], peak: u32, pending: u32| -> Value {
        let plan = folder.path(&format!("plan-{}.tcm", more.len()));
        let found = answer(&[&[jobs.as_str(), "--site", &site, "--save", &plan, "--force"], more].concat());
        let from = found["forward"][0]["now"]["at"].as_str().unwrap();
        let state = format!(r#"{{"slots": [{{"at": "{from}", "peak": {peak}, "total": 10, "pending": {pending}}}]}}"#);
        let state = folder.file("state.json", &state);
        answered(&tracecast(&["decide", "power", "--plan", &plan, &state]))
    };
    let with = ["--pending"];
    let (apart, together) = (decided(&with, 3, 5), decided(&with, 8, 0));
    assert_eq!(apart["wished"], together["wished"]);
    assert!(said(&apart, "notes").contains("the plan was made with --pending"), "{apart}");
    assert!(said(&decided(&[], 3, 5), "notes").contains("only nodes in use did."), "{apart}");
}
