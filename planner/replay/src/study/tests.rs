//! Studies by hand.

use std::sync::atomic::{AtomicUsize, Ordering};

use tracecast_analytics::Trace;

use super::*;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::workload::{Shape, Workload};

/// One GPU. A runs 0–100 s; B (50 s), C (10 s) and D (30 s) are submitted at 1, 2 and 3 s. D is predicted to run longest.
fn loaded() -> Loaded {
    let mut workload = Workload::default();
    for (submit_s, run_s) in [(0, 100), (1, 50), (2, 10), (3, 30)] {
        workload.push(submit_s * 1000, run_s * 1000, Shape::whole(1));
    }
    workload.predicted_s = [100.0, 50.0, 10.0, 60.0].map(Some).to_vec();
    Loaded {
        workload,
        cluster: Cluster::of_vcs(&[("all", 1, 1)]),
        recorded_start_ms: vec![None; 4],
        ..Loaded::default()
    }
}

fn named(name: &str, order: Order, estimate: Estimate) -> Named {
    Named { name: name.to_owned(), policy: Policy { order, estimate, ..Policy::default() }, cluster: None }
}

fn names(loaded: &Loaded, request: Vec<Named>) -> Vec<String> {
    let study = Study::new(loaded, request, Policy::default(), true, Vec::new()).unwrap();
    study.scenarios.into_iter().map(|named| named.name).collect()
}

fn answer(loaded: &Loaded, request: Vec<Named>) -> Answer {
    let study = Study::new(loaded, request, Policy::default(), false, Vec::new()).unwrap();
    let (replayed, seconds) = study.replay_all(&()).unwrap();
    study.answer(Subject::new("jobs", &Trace::default(), loaded), &replayed, Some(seconds)).unwrap()
}

#[test]
fn qssf_never_stands_alone() {
    let loaded = loaded();
    let predicted = || named("mine", Order::Qssf, Estimate::Predicted);
    let oracle = || named("oracle", Order::Qssf, Estimate::True);
    assert_eq!(names(&loaded, vec![named("fifo", Order::Fifo, Estimate::True)]), ["fifo"]);
    assert_eq!(names(&loaded, vec![predicted()]), ["mine", FEWEST, ORACLE]);
    // What was asked for is not run twice.
    assert_eq!(names(&loaded, vec![oracle()]), ["oracle", FEWEST]);
    assert_eq!(names(&loaded, vec![oracle(), predicted()]), ["oracle", "mine", FEWEST]);
}

#[test]
fn the_share_of_the_gap_by_hand() {
    let loaded = loaded();
    let result = answer(&loaded, vec![named("QSSF", Order::Qssf, Estimate::Predicted)]);
    // Fewest GPUs first is FIFO here: B, C, D start at 100, 150, 160 s and wait 99 + 148 + 157 s. The oracle takes C, D, B at
    // 100, 110, 140 s: 98 + 107 + 139. The predictions take C, B, D at 100, 110, 160 s: 98 + 109 + 157.
    let yardstick = result.yardstick.unwrap();
    assert_eq!(
        (yardstick.fewest_gpus_mean_wait_s, yardstick.qssf_mean_wait_s, yardstick.oracle_mean_wait_s),
        (404.0 / 4.0, 364.0 / 4.0, 344.0 / 4.0)
    );
    // (404 − 364) / (404 − 344).
    assert!((yardstick.gap_closed.unwrap() - 2.0 / 3.0).abs() < 1e-12 && !yardstick.without_predictions);
    // The one that predicts is measured, wherever it stands.
    let request = vec![named("oracle", Order::Qssf, Estimate::True), named("QSSF", Order::Qssf, Estimate::Predicted)];
    assert!((answer(&loaded, request).yardstick.unwrap().gap_closed.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    let alone = answer(&loaded, vec![named("oracle", Order::Qssf, Estimate::True)]).yardstick.unwrap();
    assert!(alone.without_predictions && alone.gap_closed.is_none());
}

/// The jobs of [`loaded`], so many times after one another. FIFO waits 101 s on average and the shortest job first, which knows runs, 86 s; the longest
/// first waits 116 s.
fn again(times: i64) -> Loaded {
    let mut workload = Workload::default();
    for at_s in (0..times).map(|time| time * 1000) {
        for (submit_s, run_s) in [(0, 100), (1, 50), (2, 10), (3, 30)] {
            workload.push((at_s + submit_s) * 1000, run_s * 1000, Shape::whole(1));
        }
    }
    workload.requested_ms = workload.run_ms.iter().copied().map(Some).collect();
    Loaded { recorded_start_ms: vec![None; workload.len()], workload, ..loaded() }
}

/// Over many days FIFO clearly beats the longest first; four jobs cannot tell. The oracle beats nobody.
#[test]
fn an_oracle_is_a_bound_and_beats_nobody() {
    assert!(compared(&again(1)).contains("None is clearly beaten"));
    let summary = compared(&again(200));
    assert!(summary.contains("Of the policies that are no oracles, **fifo** has the least mean wait"), "{summary}");
    assert!(summary.contains("sjf waits") && summary.contains("is an oracle"), "{summary}");
    assert!(summary.contains("**ljf** is beaten"), "{summary}");
}

/// First sentences of a comparison of FIFO, an oracle and the longest first.
fn compared(loaded: &Loaded) -> String {
    let request = vec![
        named("fifo", Order::Fifo, Estimate::Requested),
        named("sjf", Order::Sjf, Estimate::True),
        named("ljf", Order::Ljf, Estimate::Requested),
    ];
    let result = comparison(loaded, request, Vec::new());
    assert_eq!((result.oracle, result.others[0].oracle, result.others[1].oracle), (false, true, false));
    result.report().summary.join("\n")
}

fn comparison(loaded: &Loaded, request: Vec<Named>, clusters: Vec<OtherCluster>) -> Answer {
    let study = Study::new(loaded, request, Policy::default(), true, clusters).unwrap();
    let (replayed, seconds) = study.replay_all(&()).unwrap();
    study.answer(Subject::new("jobs", &Trace::default(), loaded), &replayed, Some(seconds)).unwrap()
}

/// The jam of one week is no lasting difference. Here six days of jams are followed by three weeks
/// in which no job waits.
#[test]
fn what_one_week_does_may_not_come_again() {
    let mut jammed = again(520);
    for at in 0..22 * 144 {
        jammed.workload.push(528_000_000 + at * 600_000, 1_000, Shape::whole(1));
    }
    jammed.workload.requested_ms = jammed.workload.run_ms.iter().copied().map(Some).collect();
    jammed.recorded_start_ms = vec![None; jammed.workload.len()];
    let summary = compared(&jammed);
    assert!(summary.contains("**ljf** is beaten in this record only"), "{summary}");
    assert!(summary.contains("(all of the difference)"), "{summary}");
    assert!(
        summary.contains("so it may not come again") && !summary.contains("beyond what chance would do"),
        "{summary}"
    );
    // Where every day is alike, the share of the worst one is said.
    let alike = compared(&again(200));
    assert!(alike.contains("beyond what chance would do") && alike.contains("Of the difference, 4"), "{alike}");
}

/// The estimate `predicted` without predictions is refused, and true runs are not taken.
#[test]
fn predictions_that_are_not_there_are_refused() {
    let mut without = loaded();
    without.workload.predicted_s = vec![None; 4];
    let request = vec![named("mine", Order::Sjf, Estimate::Predicted)];
    let error = Study::new(&without, request, Policy::default(), false, Vec::new()).unwrap_err().to_string();
    assert!(error.contains("mine: the estimate `predicted` needs predictions"), "{error}");
}

/// Jobs without a limit are known by their true run, and the note on `requested` says so.
#[test]
fn jobs_without_a_limit_are_known_by_their_run_and_that_is_said() {
    let mut some = again(25);
    for job in (0..100).step_by(4) {
        some.workload.requested_ms[job] = None;
    }
    let sjf = || vec![named("sjf", Order::Sjf, Estimate::Requested)];
    let alone = answer(&some, sjf());
    assert_eq!(alone.known_by_run.map(|known| known.share), Some(0.25));
    let said = alone.report().summary.join("\n");
    assert!(said.contains("25.0 % of the jobs have no time limit and are known by their true run"), "{said}");
    assert!(alone.policy.contains("durations by time limit, 25.0 % of the jobs by their true run"), "{}", alone.policy);
    let request = [vec![named("fifo", Order::Fifo, Estimate::True)], sjf()].concat();
    let both = comparison(&some, request, Vec::new()).report().summary.join("\n");
    assert!(both.contains("25.0 % of the jobs have no time limit and are known by their true run under sjf"), "{both}");
    assert!(both.contains("an oracle: it knows 25.0 % of the jobs by their true run"), "{both}");
    // Where all have one there is nothing to say.
    let whole = answer(&again(25), sjf()).report().summary.join("\n");
    assert!(!whole.contains("true run"), "{whole}");
}

/// Failures that only some scenarios have come first in the comparison.
#[test]
fn unequal_failures_are_said_first() {
    let mut today = again(20);
    today.cluster.outages.push(tracecast_sim::cluster::Outage { node: 0, from_ms: 5_000, to_ms: 6_000 });
    let calm = Loaded { cluster: Cluster::of_vcs(&[("all", 1, 1)]), ..today.clone() };
    let other = OtherCluster::new("on the nodes of calm.toml".to_owned(), calm, &today).unwrap();
    let request = |cluster| {
        let today = named("today", Order::Fifo, Estimate::True);
        vec![today.clone(), Named { name: "calm".to_owned(), cluster, ..today }]
    };
    let said = comparison(&today, request(Some(0)), vec![other]).report().summary.remove(0);
    assert!(said.contains("failures of nodes are unequal") && said.contains("today 1, calm none"), "{said}");
    let mut same = request(None);
    same[1].policy.order = Order::Sjf;
    assert!(!comparison(&today, same, Vec::new()).failures_differ);
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Watch for Counted {
    fn more(&self, _: usize) {}

    fn made(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_part_runs_its_own_only() {
    let loaded = loaded();
    let request = vec![
        named("a", Order::Fifo, Estimate::True),
        named("b", Order::Sjf, Estimate::True),
        named("c", Order::Ljf, Estimate::True),
    ];
    let study = Study::new(&loaded, request, Policy::default(), true, Vec::new()).unwrap();
    let done = Counted::default();
    let schedules = study.run_some(|at| at == 1, &done).unwrap();
    assert_eq!(schedules.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(done.0.into_inner(), 1);
    // Of all, the schedules of the first and of the one that the cluster had are kept.
    let (replayed, _) = study.replay_all(&()).unwrap();
    let kept: Vec<bool> = replayed.iter().map(|replayed| replayed.schedule.is_some()).collect();
    assert_eq!(kept, [true, false, false]);
}

#[test]
fn the_report_says_what_it_is_worth_after_the_waits() {
    let report = answer(&loaded(), vec![named("las", Order::Las, Estimate::True)]).report();
    let sections: Vec<&str> = report.available().iter().map(|section| section.id.as_str()).collect();
    assert_eq!(sections[..2], ["waits", "fidelity"]);
    assert!(report.summary[1].contains("no job has a recorded start"), "{}", report.summary[1]);
    assert!(report.notes.iter().any(|note| note.starts_with("las: ") && note.contains("--preempt")));
    assert!(!format!("{report:?}").contains("engine"), "what changes from run to run is in the data only");
}

#[test]
fn what_cannot_be_run_names_the_scenario() {
    let loaded = loaded();
    let error =
        Study::new(&loaded, vec![named("mine", Order::Score, Estimate::True)], Policy::default(), false, Vec::new());
    assert_eq!(error.unwrap_err().to_string(), "policy: mine: the order `score` needs a score file (--score)");
    assert!(Study::new(&loaded, Vec::new(), Policy::default(), false, Vec::new()).is_err());
}
