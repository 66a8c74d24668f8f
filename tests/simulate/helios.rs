//! `--site compat=helios` against a second-by-second replay of that simulator's rules, job by job:
//! starts, ends, preemptions, nodes.

use tracecast_planner::sim::{
    Cluster, Compat, Estimate, Order, Outcome, Placement, Policy, Preemption, Schedule, Shape, Workload, simulate,
};
use tracecast_tests::full_tier;
use tracecast_tests::reference::helios::{self, Job, Place, Rule};
use tracecast_tests::reference::philly;

/// Jobs of one VC as the engine takes them; time 0 is `origin_s`.
pub(crate) fn workload(jobs: &[Job], origin_s: i64) -> Workload {
    let mut workload = Workload::default();
    for job in jobs {
        workload.push((job.submit_s - origin_s) * 1000, job.run_s * 1000, Shape::whole(job.gpus));
        *workload.predicted_s.last_mut().unwrap() = Some(job.estimate_s);
    }
    workload
}

pub(crate) fn policy(rule: Rule, place: Place) -> Policy {
    let (order, preemption) = match rule {
        Rule::Fifo => (Order::Fifo, Preemption::Never),
        // SJF there goes by the true run time.
        Rule::Sjf => (Order::Sjf, Preemption::Never),
        Rule::Qssf => (Order::Qssf, Preemption::Never),
        Rule::Srtf => (Order::Srtf, Preemption::HELIOS),
        Rule::Tiresias => (Order::Tiresias(vec![18_000.0]), Preemption::TIRESIAS),
    };
    Policy {
        interval_ms: (rule == Rule::Tiresias).then_some(60_000),
        order,
        preemption,
        placement: if place == Place::Random { Placement::Random } else { Placement::Consolidate },
        estimate: if rule == Rule::Qssf { Estimate::Predicted } else { Estimate::True },
        compat: Compat::Helios,
        ..Policy::default()
    }
}

/// Last placement of a job: (node, GPUs), by node.
fn nodes(schedule: &Schedule, job: usize) -> Vec<(usize, u32)> {
    let Some(segment) = schedule.last_segment(job) else { return Vec::new() };
    let pieces = schedule.pieces_of(segment).iter().map(|piece| (piece.node as usize, piece.gpus.count_ones()));
    let mut nodes: Vec<_> = pieces.collect();
    nodes.sort_unstable();
    nodes
}

/// Compares both, job by job. Gives the sum of waits (start − submit), seconds.
fn compare(jobs: &[Job], vc_nodes: usize, rule: Rule, place: Place, what: &str) -> i64 {
    let origin_s = jobs.first().map_or(0, |job| job.submit_s);
    let expected = helios::replay(jobs, vc_nodes, rule, place, origin_s);
    let cluster = Cluster::of_vcs(&[("vc", vc_nodes as u32, 8)]);
    let workload = workload(jobs, origin_s);
    let schedule = simulate(&workload, &cluster, &policy(rule, place)).unwrap();
    let mut waits = 0;
    for (ix, (job, expected)) in jobs.iter().zip(&expected).enumerate() {
        let found = helios::Outcome {
            start_s: schedule.start_ms(ix).map(|start| start / 1000 + origin_s),
            end_s: schedule.end_ms(ix).map(|end| end / 1000 + origin_s),
            preemptions: schedule.preemptions[ix],
            nodes: nodes(&schedule, ix),
        };
        assert_eq!(&found, expected, "{what}: job {ix} {job:?} under {rule:?} {place:?} on {vc_nodes} nodes");
        assert_eq!(schedule.outcome[ix] == Outcome::Finished, expected.end_s.is_some());
        waits += expected.start_s.map_or(0, |start| start - job.submit_s);
    }
    waits
}

#[test]
fn thousands_of_small_cases_are_replayed_alike() {
    for seed in 0..1500 {
        let vc_nodes = 1 + seed as usize % 4;
        let jobs = helios::random_jobs(seed, vc_nodes, 5 + seed as usize % 40, 200);
        for rule in [Rule::Fifo, Rule::Sjf, Rule::Qssf, Rule::Srtf, Rule::Tiresias] {
            for place in [Place::Consolidate, Place::Random] {
                compare(&jobs, vc_nodes, rule, place, &format!("seed {seed}"));
            }
        }
    }
}

/// Long enough jobs for the low queue of Tiresias, which begins at 18,000 GPU-seconds.
#[test]
fn long_jobs_are_preempted_alike() {
    for seed in 0..60 {
        let jobs = helios::random_jobs(seed, 2, 30, 4000);
        for rule in [Rule::Srtf, Rule::Tiresias] {
            compare(&jobs, 2, rule, Place::Consolidate, &format!("seed {seed}"));
        }
    }
}

/// 22,486 jobs of 11 VCs; see [`philly`].
#[test]
fn philly_s_october_is_replayed_alike() {
    let Some(mut vcs) = philly::october() else { return };
    assert_eq!(vcs.iter().map(|vc| vc.jobs.len()).sum::<usize>(), 22_486);
    // The reference walks over all that wait for each second, so the VCs with the most jobs take the time.
    vcs.retain(|vc| vc.jobs.len() <= 2_000 || full_tier());
    let jobs: usize = vcs.iter().map(|vc| vc.jobs.len()).sum();
    for rule in [Rule::Fifo, Rule::Sjf, Rule::Qssf, Rule::Srtf, Rule::Tiresias] {
        let waits: i64 = vcs.iter().map(|vc| compare(&vc.jobs, vc.nodes, rule, Place::Consolidate, vc.name)).sum();
        println!(
            "Philly, 3–14 October 2017, {jobs} jobs, {rule:?}: mean wait {:.1} s, start by start as the reference",
            waits as f64 / jobs as f64
        );
    }
}

/// All Philly jobs with a known VC of known size, on the published nodes.
#[test]
fn all_of_philly_is_replayed_alike() {
    let Some(vcs) = full_tier().then(philly::all).flatten() else { return };
    let jobs: usize = vcs.iter().map(|vc| vc.jobs.len()).sum();
    for rule in [Rule::Fifo, Rule::Sjf, Rule::Qssf, Rule::Srtf, Rule::Tiresias] {
        let began = std::time::Instant::now();
        let waits: i64 = vcs.iter().map(|vc| compare(&vc.jobs, vc.nodes, rule, Place::Consolidate, vc.name)).sum();
        let mean = waits as f64 / jobs as f64;
        println!(
            "Philly, {jobs} jobs, {rule:?}: mean wait {mean:.1} s, job by job as the reference {:?}",
            began.elapsed()
        );
    }
}
