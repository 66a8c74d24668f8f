//! Definition of waiting: `report`, `simulate`, `plan queues` and `plan nodes` agree on the same
//! jobs.
//!
//! Ninety days of two VCs with a node of 8 GPUs each. At midnight and at noon each submits a job of 8 GPUs and 2 h. Node na fails an hour later
//! and is back half an hour after that, so the job of a loses its hour, is queued for half an hour and then runs for 2 h: it ends 3.5 h after its
//! submission and waits 1.5 h, of which 1 h is lost work. The job of b does not wait. The mean wait is 45 min; 180 · 8 · 0.5 = 720 GPU-hours are
//! queued and 1,440 lost.

use std::collections::BTreeMap;

use tracecast_analytics::Trace;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::schema::{CapacityRow, JobRow, NodeRow};
use tracecast_planner::capacity::CapacityRequest;
use tracecast_planner::capacity::answer::plan;
use tracecast_planner::capacity::search::WaitTarget;
use tracecast_planner::queues::pooling;
use tracecast_planner::queues::{self, QueuesRequest, SearchRun};
use tracecast_planner::replay::input::{Options, last_two, load};
use tracecast_planner::replay::metric::evaluate;
use tracecast_planner::sim::{Policy, Scan, simulate};

const HOUR_MS: i64 = 3_600_000;
const HALF_DAYS: i64 = 180;
/// A midnight, UTC.
const BEGINS_MS: i64 = 1_600_041_600_000;

fn failing_every_night() -> Trace {
    let mut trace = Trace::default();
    for vc in ["a", "b"] {
        trace.nodes.push(NodeRow {
            node: Some(format!("n{vc}").into()),
            vc: Some(vc.into()),
            gpus: Some(8.0),
            ..NodeRow::default()
        });
        trace.capacity.push(CapacityRow {
            scope: Some("vc".into()),
            name: Some(vc.into()),
            from: Some(BEGINS_MS),
            gpus: Some(8.0),
            nodes: Some(1.0),
            ..CapacityRow::default()
        });
    }
    for half_day in 0..HALF_DAYS {
        let begins = BEGINS_MS + half_day * 12 * HOUR_MS;
        for (vc, ends_h) in [("a", 3.5), ("b", 2.0)] {
            trace.jobs.push(JobRow {
                job_key: Some(format!("{vc}{half_day}").into()),
                user: Some("u".into()),
                vc: Some(vc.into()),
                submit: Some(begins),
                start: Some(begins),
                end: Some(begins + (ends_h * HOUR_MS as f64) as i64),
                run_s: Some(7_200.0),
                req_gpus: Some(8.0),
                state: Some("completed".into()),
                ..JobRow::default()
            });
        }
        trace.capacity.push(CapacityRow {
            scope: Some("node".into()),
            name: Some("na".into()),
            state: Some("down".into()),
            from: Some(begins + HOUR_MS),
            to: Some(begins + HOUR_MS * 3 / 2),
            ..CapacityRow::default()
        });
    }
    trace
}

#[test]
fn four_answers_say_the_same_of_waiting() {
    let trace = failing_every_night();
    let policy = Policy { scan: Scan::Skip, ..Policy::default() };
    let mean_s = 2_700.0;

    let facts = JobFacts::new(&trace);
    let pooling = pooling::compare(&facts, &pooling::loaded(&trace, &facts).unwrap()).unwrap();
    let apart = pooling.replays[0].apart;
    let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
    assert!(near(apart.gpu_hours, 720.0) && near(apart.lost_gpu_hours.unwrap(), 1_440.0), "{apart:?}");
    assert!(near(apart.wait_s.mean_s, mean_s), "{apart:?}");
    // Each VC has one node, so whatever the numbering the one that fails is its own; in the pool it is either.
    let numbered = pooling.numberings.unwrap();
    assert_eq!((numbered.apart.gpu_hours.low, numbered.apart.gpu_hours.high), (apart.gpu_hours, apart.gpu_hours));
    assert!(near(numbered.pooled.lost_gpu_hours.low, 1_440.0), "{numbered:?}");

    let mut loaded = load(&trace, None, &Options::default()).unwrap();
    let schedule = simulate(&loaded.workload, &loaded.cluster, &policy).unwrap();
    let all = evaluate(&loaded.workload, &loaded.cluster, &schedule, 0).unwrap().metrics.overall;
    assert!(near(all.group.wait.unwrap().mean_s, mean_s) && near(all.lost_gpu_hours, 1_440.0), "{all:?}");

    loaded.workload.predicted_s = last_two(&JobFacts::new(&trace), &loaded);
    let request = QueuesRequest::of_list(None, policy.clone());
    let queues = queues::plan(&trace, &loaded, String::new(), &request, SearchRun::default()).unwrap();
    assert!(near(queues.trial.today.mean_wait_s, mean_s), "{:?}", queues.trial.today);
    assert!(near(queues.body.candidates[0].earlier.mean_wait_s, mean_s), "{:?}", queues.body.candidates[0].earlier);

    let request = CapacityRequest {
        target: WaitTarget { all_s: 7_200.0, by_class: BTreeMap::new() },
        eval_from_ms: None,
        policy,
        scan_is_known: true,
        growth: None,
        faults: None,
        kinds: None,
        runs: None,
    };
    let capacity = plan(&trace, &loaded, String::new(), &request, &()).unwrap();
    let today = capacity.body.curve.iter().find(|point| point.nodes == 2).unwrap();
    // Half of the jobs wait 90 min, and half not at all.
    assert_eq!((today.p50_wait_s, today.p95_wait_s), (Some(0.0), Some(5_400.0)), "{today:?}");
}
