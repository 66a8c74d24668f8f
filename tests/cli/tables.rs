//! Tables that people make by hand: what was lost, what fails again and again, limits, and couples
//! that may share.

use serde_json::Value;

use super::*;

/// Jobs as `sacct` prints them: user, name, hours of submission and end, GPUs, state, limit.
const JOBS: [(&str, &str, u32, u32, u32, &str, &str); 6] = [
    ("ann", "train_1", 0, 2, 2, "FAILED", "04:00:00"),
    ("ann", "train_2", 2, 3, 2, "TIMEOUT", "01:00:00"),
    ("ann", "Train_3", 3, 4, 2, "FAILED", "04:00:00"),
    ("bob", "eval", 4, 5, 1, "COMPLETED", "02:00:00"),
    ("bob", "eval", 5, 6, 1, "CANCELLED by 7", "UNLIMITED"),
    ("bob", "eval", 6, 10, 1, "COMPLETED", "06:00:00"),
];

/// A topic of the description of these jobs.
fn described(topic: &str) -> Value {
    let mut text = "JobID|User|Partition|Submit|Start|End|Elapsed|State|AllocTRES|Timelimit|JobName\n".to_owned();
    for (id, (user, name, from, to, gpus, state, limit)) in JOBS.iter().enumerate() {
        let at = |hour: &u32| format!("2024-03-04T{hour:02}:00:00");
        let (start, end, elapsed) = (at(from), at(to), to - from);
        text.push_str(&format!(
            "{id}|{user}|gpu|{start}|{start}|{end}|0{elapsed}:00:00|{state}|gres/gpu={gpus}|{limit}|{name}\n"
        ));
    }
    let folder = Folder::new();
    let output = tracecast(&["describe", &folder.file("sacct.txt", &text), "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    json(&stdout(&output))[topic].clone()
}

#[test]
fn gpu_hours_lost_by_user_and_vc() {
    let lost = described("lost");
    // ann: 2 GPUs for 2 + 1 + 1 h; bob: 1 h of 6.
    assert_eq!((&lost["users"][0]["name"], &lost["users"][0]["lost_gpu_hours"]), (&"ann".into(), &8.0.into()));
    assert_eq!(
        (&lost["users"][1]["cancelled_gpu_hours"], &lost["users"][1]["held_gpu_hours"]),
        (&1.0.into(), &6.0.into())
    );
    assert_eq!((&lost["vcs"][0]["name"], &lost["vcs"][0]["lost_gpu_hours"]), (&"gpu".into(), &9.0.into()));
    assert!(lost["all"]["idle_gpu_hours"].is_null());
}

#[test]
fn repeated_failures_by_user_and_name() {
    let repeated = described("repeated");
    let works = repeated["works"].as_array().unwrap();
    assert_eq!(works.len(), 1);
    assert_eq!((&works[0]["user"], &works[0]["name"]), (&"ann".into(), &"train_#".into()));
    assert_eq!((&works[0]["most_in_a_row"], &works[0]["lost_gpu_hours"]), (&3.into(), &8.0.into()));
}

#[test]
fn time_asked_for_and_time_used() {
    let limits = described("limits");
    assert_eq!((&limits["jobs"], &limits["limited_jobs"]), (&6.into(), &5.into()));
    // ann: 2 GPUs for 2 + 0 + 3 h more, ratios 2, 1 and 4; bob: 1 + 2 h more.
    assert_eq!(
        (&limits["users"][0]["reserved_gpu_hours"], &limits["users"][0]["median_limit_over_run"]),
        (&10.0.into(), &2.0.into())
    );
    assert_eq!(limits["users"][1]["reserved_gpu_hours"], 3.0);
    // Before the last job one had completed, in 1 h.
    let found = &limits["default_limit"];
    assert_eq!((&found["limit_s"], &found["chosen_on_jobs"]), (&3_600.0.into(), &1.into()));
    assert_eq!((&found["ended_jobs"], &found["ended_gpu_hours"]), (&1.into(), &4.0.into()));
}

#[test]
fn measured_couples_need_no_trace() {
    let asked = ["plan", "share", "couples", "--pairs", "datasets/pairs/h100/mps/pairs.csv", "--slo", "1.25"];
    let ask = |form: &str| tracecast(&[&asked[..], &["--format", form]].concat());
    let found = json(&stdout(&ask("json")));
    schema::check("measured-couples", &stdout(&ask("json")));
    let couples = found["couples"].as_array().unwrap();
    let number = |couple: &Value, key: &str| couple[key].as_f64().unwrap();
    assert!(
        couples.len() > 10 && couples.iter().all(|of| number(of, "slowdown_a").max(number(of, "slowdown_b")) <= 1.25)
    );
    // The most throughput first; those that were measured faster than alone come last.
    let place = |of: &Value| {
        let is_doubtful = number(of, "slowdown_a").min(number(of, "slowdown_b")) < 1.0;
        (is_doubtful, -number(of, "throughput"))
    };
    assert!(couples.windows(2).all(|of| place(&of[0]) <= place(&of[1])));
    // CSV has all of them below its heading.
    assert_eq!(stdout(&ask("csv")).lines().count(), couples.len() + 1);
    let refused = tracecast(&[&asked[..], &["--gpus", "4"]].concat());
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}
