//! Schedules worked out by hand, and what must hold for every schedule.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;
use tracecast_sim::cluster::{Group, Outage, Pool, Vc};
use tracecast_sim::host::{HostNeed, HostRoom};
use tracecast_sim::policy::{Order, Placement, Policy, Preemption, Scan};
use tracecast_sim::schedule::{Piece, Segment, Stop};
use tracecast_sim::simulate;
use tracecast_sim::workload::{Shape, Warm};

const S: i64 = 1_000;

/// A stretch of a job on the lowest GPUs of one node, in seconds.
struct Ran(u32, i64, i64, u32, u64, Stop);

fn schedule(jobs: usize, ran: &[Ran]) -> Schedule {
    let segment = |(first_piece, Ran(job, start, end, _, _, stop)): (u32, &Ran)| Segment {
        job: *job,
        first_piece,
        pieces: 1,
        start_ms: start * S,
        end_ms: end * S,
        stop: *stop,
    };
    let pieces = ran.iter().map(|Ran(_, _, _, node, gpus, _)| Piece::whole(*node, *gpus)).collect();
    Schedule::of_segments(jobs, (0..).zip(ran).map(segment).collect(), pieces)
}

fn cause(delay: &delay::Delay, cause: Cause) -> (u64, f64) {
    let total = delay.causes.iter().find(|total| total.cause == cause).unwrap();
    (total.jobs, (total.wait_hours * 3_600.0 * 1e6).round() / 1e6)
}

/// Seconds waited for capacity, quota, fragmentation and head of line.
fn causes(workload: &Workload, cluster: &Cluster, policy: &Policy) -> [f64; 4] {
    let schedule = simulate(workload, cluster, policy).unwrap();
    let delay = evaluate(workload, cluster, &schedule, 5).unwrap().metrics.delay;
    Cause::ALL.map(|of| cause(&delay.all, of).1)
}

/// (submit, run, GPUs) in seconds.
fn jobs(of: &[(i64, i64, u32)]) -> Workload {
    let mut jobs = Workload::default();
    for (submit, run, gpus) in of {
        jobs.push(submit * S, run * S, Shape::whole(*gpus));
    }
    jobs
}

fn near(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-9)
}

/// One node of 8. A: 6 GPUs 0–100. B: 4 GPUs, submitted 10, preempted: 100–130 and 150–170. C: 8 GPUs, submitted 20, 130–150.
/// D: too large. E: 1 GPU, never starts.
fn worked() -> (Workload, Cluster, Schedule) {
    let mut workload = jobs(&[(0, 100, 6), (10, 45, 4), (20, 20, 8), (30, 5, 9), (40, 5, 1)]);
    workload.users = vec!["ann".into(), "bob".into(), "cy".into()];
    workload.user = vec![0, 1, 1, 2, 2];
    let mut plan = schedule(
        5,
        &[
            Ran(0, 0, 100, 0, 0x3F, Stop::Done),
            Ran(1, 100, 130, 0, 0x0F, Stop::Preempted),
            Ran(2, 130, 150, 0, 0xFF, Stop::Done),
            Ran(1, 150, 170, 0, 0x0F, Stop::Done),
        ],
    );
    plan.outcome[3] = Outcome::Rejected;
    (workload, Cluster::of_vcs(&[("all", 1, 8)]), plan)
}

#[test]
fn times_of_jobs() {
    let (workload, _, plan) = worked();
    let times = JobTimes::new(&workload, &plan).unwrap();
    // B: JCT 160, held 50 of which 5 repaid the preemption, queued 110, wait 115; slowdown 160 / 45. A's is 1.
    assert_eq!((times.jct_ms[1], times.held_ms[1], times.lost_ms[1]), (Some(160 * S), 50 * S, 5 * S));
    assert_eq!((times.queued_ms(1), times.wait_ms(1)), (Some(110 * S), Some(115 * S)));
    assert!(near(times.slowdown(1, 45 * S), 160.0 / 45.0));
    assert_eq!((times.wait_ms(0), times.slowdown(0, 100 * S)), (Some(0), Some(1.0)));
    // C waits 110 s, JCT 130.
    assert_eq!((times.wait_ms(2), times.jct_ms[2]), (Some(110 * S), Some(130 * S)));
    assert_eq!((times.wait_ms(3), times.wait_ms(4)), (None, None));
    // A job of 2 s that completes after 30 s has 30 / 10, not 30 / 2.
    let short = JobTimes::of_rows([(Outcome::Finished, true, Some((30 * S, 28 * S)))]);
    assert_eq!(short.slowdown(0, 2 * S), Some(3.0));
}

#[test]
fn figures_by_hand() {
    let (workload, cluster, plan) = worked();
    let evaluation = evaluate(&workload, &cluster, &plan, 1).unwrap();
    let overall = &evaluation.metrics.overall;
    let all = &overall.group;
    assert_eq!((all.jobs, all.finished, all.rejected, all.stranded), (5, 3, 1, 1));
    assert_eq!((all.preemptions, all.restarts), (1, 0));
    // Waits 0, 110, 115; JCTs 100, 160, 130.
    let (wait, jct) = (all.wait.unwrap(), all.jct.unwrap());
    assert!((wait.mean_s - 75.0).abs() < 1e-9 && wait.median_s == 110.0 && (wait.p99_s - 114.9).abs() < 1e-9);
    // Sorted 100, 130, 160: h = 0.95 · 2 = 1.9, 130 + 0.9 · 30 = 157.
    assert!(jct.mean_s == 130.0 && (jct.p95_s - 157.0).abs() < 1e-9);
    // Slowdowns 1, 160/45 = 3.5556 and 130/20 = 6.5.
    assert!((all.bounded_slowdown.unwrap().mean - (1.0 + 160.0 / 45.0 + 6.5) / 3.0).abs() < 1e-9);
    // Held 600 + 120 + 160 + 80 = 960 GPU-seconds of 8 · 170 = 1,360; 5 s · 4 GPUs were lost.
    assert_eq!(overall.makespan_s, Some(170.0));
    assert!(near(overall.utilisation, 960.0 / 1_360.0));
    assert!((all.gpu_hours * 3_600.0 - 960.0).abs() < 1e-9 && (overall.lost_gpu_hours * 3_600.0 - 20.0).abs() < 1e-9);
    // All 400 free GPU-seconds are beside a job. They are never stranded, as there is one node.
    assert_eq!(overall.fragmentation.partly_used_share, Some(1.0));
    assert!(near(overall.fragmentation.free_gpus, 400.0 / 170.0));
    // Jain over ann 1 and bob (3.5556 + 6.5) / 2; cy has no finished job.
    let bob = (160.0 / 45.0 + 6.5) / 2.0;
    assert!(near(overall.fairness.jain_users, (1.0 + bob) * (1.0 + bob) / (2.0 * (1.0 + bob * bob))));
    assert_eq!(overall.fairness.jain_vcs, Some(1.0));
    // Finish-time ratios. Users there: ann 0–100, bob 10–170, cy 40–170. C: 20–150 has bob 130 + ann 80 + cy 110 = 320 / 130
    // users; alone it takes 20 · 8 · (320 / 130) / 8 = 640 / 13 s, so 130 · 13 / 640 = 2.64. B: 10–170 has
    // (160 + 90 + 130) / 160 = 2.375 users; 4 · 2.375 / 8 = 1.1875, so 160 / (45 · 1.1875) = 2.994.
    assert!(near(overall.fairness.max_finish_time_ratio, 160.0 / (45.0 * 1.1875)));
    assert_eq!(overall.fairness.max_finish_time_user.as_deref(), Some("bob"));
    // A: 0–100 has (100 + 90 + 60) / 100 = 2.5; 6 · 2.5 / 8 = 1.875: 100 / 187.5. Two of three are over.
    assert!(near(overall.fairness.over_fair_share, 2.0 / 3.0));
}

#[test]
fn figures_by_class() {
    let (workload, cluster, plan) = worked();
    let metrics = evaluate(&workload, &cluster, &plan, 1).unwrap().metrics;
    let sizes: Vec<(SizeClass, u64)> = metrics.by_size.iter().map(|of| (of.size, of.group.jobs)).collect();
    assert_eq!(sizes, [(SizeClass::One, 1), (SizeClass::Few, 1), (SizeClass::Node, 2), (SizeClass::Many, 1)]);
    // A job of exactly a minute is in the second class, as 100 s is; 45, 20 and 5 s are in the first.
    assert_eq!(DurationClass::new(60_000), DurationClass::Minutes);
    assert_eq!(DurationClass::new(59_999), DurationClass::Minute);
    assert_eq!(DurationClass::new(86_400_000), DurationClass::Days);
    let durations: Vec<(DurationClass, u64)> =
        metrics.by_duration.iter().map(|of| (of.duration, of.group.jobs)).collect();
    assert_eq!(durations, [(DurationClass::Minute, 4), (DurationClass::Minutes, 1)]);
    // Work: ann 600, bob 180 + 160, cy 45 + 5 GPU-seconds.
    assert_eq!((metrics.by_user.len(), metrics.by_user[0].name.as_str()), (1, "ann"));
    assert_eq!(metrics.other_users.as_ref().map(|group| group.jobs), Some(4));
    let full = evaluate(&workload, &cluster, &plan, usize::MAX).unwrap().metrics;
    let names: Vec<&str> = full.by_user.iter().map(|of| of.name.as_str()).collect();
    assert_eq!((names, full.other_users), (vec!["ann", "bob", "cy"], None));
    assert_eq!((metrics.by_vc.len(), metrics.by_vc[0].group.jobs), (1, 5));
    let json = serde_json::to_value(&metrics).unwrap();
    assert_eq!((json["overall"]["finished"].as_u64(), json["by_size"][0]["size"].as_str()), (Some(3), Some("1")));
}

#[test]
fn the_queue_over_time() {
    let (workload, cluster, plan) = worked();
    let charts = evaluate(&workload, &cluster, &plan, 1).unwrap().charts;
    let timeline = &charts.timeline;
    // 170 s in 500 stretches of 340 ms. At 50 s (stretch 147) B, C and E wait: 13 GPUs; 6 are in use.
    assert_eq!((timeline.step_s, timeline.queue_jobs.mean.len()), (0.34, 500));
    assert_eq!((timeline.queue_jobs.mean[147], timeline.queue_gpus.max[147]), (3.0, 13.0));
    assert_eq!((timeline.gpus_in_use.mean[147], timeline.gpus_in_service.mean[147]), (6.0, 8.0));
    // The waits of B (one point: 110 s in the queue and 5 s of lost work), C, and A.
    assert_eq!(charts.wait_by_size.len(), 2);
    assert_eq!(charts.wait_by_size[0].points, [CurvePoint { x: 115.0, fraction: 1.0 }]);
}

#[test]
fn warm_jobs_hold_gpus_but_are_not_counted() {
    // W has run since −50 s and holds 4 of 8 GPUs to 40; A comes at 10 and needs 8: it waits 30 s, for capacity.
    let mut workload = jobs(&[(-60, 40, 4), (10, 60, 8)]);
    workload.warm.push(Warm { job: 0, start_ms: -50 * S });
    let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    let plan = schedule(2, &[Ran(0, 0, 40, 0, 0x0F, Stop::Done), Ran(1, 40, 100, 0, 0xFF, Stop::Done)]);
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    assert_eq!((metrics.overall.group.jobs, metrics.overall.group.wait.unwrap().mean_s), (1, 30.0));
    assert_eq!(cause(&metrics.delay.all, Cause::Capacity), (1, 30.0));
    // Window 10–100: (4 · 30 + 8 · 60) / (8 · 90).
    assert!(near(metrics.overall.utilisation, 600.0 / 720.0));
}

#[test]
fn capacity_that_changes_and_fails() {
    // Two nodes of 4 until 50 s, then one; node 0 is out 60–80. A holds 2 GPUs of node 0 0–60 and again 80–100.
    let mut cluster = Cluster::default();
    cluster.pools.push(Pool { groups: vec![Group { sizes: vec![(0, 2), (50 * S, 1)], ..Group::fixed(0, 4) }] });
    cluster.vcs.push(Vc::new("all", 0));
    cluster.outages.push(Outage { node: 0, from_ms: 60 * S, to_ms: 80 * S });
    let workload = jobs(&[(0, 20, 2)]);
    let plan = schedule(1, &[Ran(0, 0, 60, 0, 0b11, Stop::Failed), Ran(0, 80, 100, 0, 0b11, Stop::Done)]);
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    // In service 8 · 50 + 4 · 10 + 0 · 20 + 4 · 20 = 520 GPU-seconds, held 2 · 80; the 60 s before the failure were lost.
    assert!((metrics.overall.gpu_hours_in_service * 3_600.0 - 520.0).abs() < 1e-9);
    assert!(near(metrics.overall.utilisation, 160.0 / 520.0));
    assert!((metrics.overall.lost_gpu_hours * 3_600.0 - 120.0).abs() < 1e-9);
    assert_eq!(metrics.overall.group.restarts, 1);
    // It waits the 20 s of the outage for capacity.
    assert_eq!(cause(&metrics.delay.all, Cause::Capacity), (1, 20.0));
    // Free 6 · 50 + 2 · 10 + 2 · 20 = 360, of which beside the job 2 · 80.
    assert!(near(metrics.overall.fragmentation.partly_used_share, 160.0 / 360.0));
}

#[test]
fn waiting_for_capacity_or_behind_others() {
    // 8 GPUs, strict FIFO: B (4) waits 90 s for A (6). C (1) would fit, but stands behind B: 80 s.
    let workload = jobs(&[(0, 100, 6), (10, 50, 4), (20, 5, 1)]);
    let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    assert_eq!(causes(&workload, &cluster, &Policy::default()), [90.0, 0.0, 0.0, 80.0]);
    let skip = Policy { scan: Scan::Skip, ..Policy::default() };
    assert_eq!(causes(&workload, &cluster, &skip), [90.0, 0.0, 0.0, 0.0]);
    // With a decision every 60 s A starts at 0, B and C at 120. B lacks GPUs to 100 (90 s), then waits for the decision (20 s).
    // C would fit all the time (100 s).
    let slow = Policy { scan: Scan::Strict, interval_ms: Some(60 * S), ..Policy::default() };
    assert_eq!(causes(&workload, &cluster, &slow), [90.0, 0.0, 0.0, 120.0]);
}

#[test]
fn waiting_for_quota() {
    // Two VCs of 8 GPUs on nodes of their own. The second has 6 in use to 100 s and wants 4 at 10 s: 90 s of quota, but over
    // 30–60 the first VC uses 8, and then the whole cluster has 2 free: 30 s of capacity.
    let mut workload = jobs(&[(0, 100, 6), (10, 50, 4), (30, 30, 8)]);
    workload.vc = vec![1, 1, 0];
    let cluster = Cluster::of_vcs(&[("first", 1, 8), ("second", 1, 8)]);
    assert_eq!(causes(&workload, &cluster, &Policy::default()), [30.0, 60.0, 0.0, 0.0]);
    // One pool of 16 with a quota of 6 for the VC: the same wait, all of it quota's until the pool is short.
    let mut shared = Cluster::default();
    shared.pools.push(Pool { groups: vec![Group::fixed(2, 8)] });
    shared.vcs.push(Vc::new("first", 0));
    shared.vcs.push(Vc { quota_milli: vec![(0, 6_000), (70 * S, 16_000)], ..Vc::new("second", 0) });
    // The quota grows at 70, so B waits 10–70: of that 30–60 for capacity.
    assert_eq!(causes(&workload, &shared, &Policy::default()), [30.0, 30.0, 0.0, 0.0]);
}

/// A node of 8 GPUs with 64 cores and 1,000 MiB, and a job of 2 GPUs (0–100 s) that takes 48 cores and 800 MiB.
#[test]
fn waiting_for_processors_and_memory() {
    let need = |cores: u32, memory_mib: u32| HostNeed { cores_milli: cores * 1000, memory_mib };
    let mut workload = Workload::default();
    // 10–100 s: 4 GPUs with 5 cores each lack processors; 2 with 8 cores and 150 MiB each lack memory alone; 3 with 6 cores and 100 MiB each lack both, and wait for processors.
    for (submit, gpus, host) in
        [(0, 2, need(24, 400)), (10, 4, need(5, 1)), (10, 2, need(8, 150)), (10, 3, need(6, 100))]
    {
        workload.push(submit * S, 100 * S, Shape { host, ..Shape::whole(gpus) });
    }
    let host = HostRoom { cores_milli: Some(64_000), memory_mib: Some(1000) };
    let pools = vec![Pool { groups: vec![Group { host, ..Group::fixed(1, 8) }] }];
    let cluster = Cluster { pools, vcs: vec![Vc::new("all", 0)], ..Cluster::default() };
    let policy = Policy { scan: Scan::Skip, ..Policy::default() };
    let plan = simulate(&workload, &cluster, &policy).unwrap();
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    // At 100 s the job of 4 starts (20 cores, 4 MiB), then that of 2 (16 cores, 300 MiB). Of that of 3 there are 2 GPUs free, until 200 s.
    assert_eq!(cause(&metrics.delay.all, Cause::Processors), (1, 180.0));
    assert_eq!(cause(&metrics.delay.all, Cause::Memory), (1, 90.0));
    assert_eq!(cause(&metrics.delay.all, Cause::Capacity), (1, 100.0));
    // Least is asked for by the jobs of 5 cores and 1 MiB (the others want more of both): 16 cores hold one at all times.
    assert!(near(metrics.overall.fragmentation.hostless_gpus, 0.0));
    // Alone, a job that leaves 4 of 64 cores beside 7 free GPUs, where one for 5 waits from 50 to 100 s: until 100 s no GPU of the 7 has a core for anyone.
    let mut workload = Workload::default();
    for (submit, host) in [(0, need(60, 1)), (50, need(5, 1))] {
        workload.push(submit * S, 100 * S, Shape { host, ..Shape::whole(1) });
    }
    let plan = simulate(&workload, &cluster, &policy).unwrap();
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    assert_eq!(cause(&metrics.delay.all, Cause::Processors), (1, 50.0));
    assert!(near(metrics.overall.fragmentation.hostless_gpus, 7.0 * 100.0 / 200.0));
    // GPUs alone have no such causes, and no such GPUs.
    workload.shapes.iter_mut().for_each(|shape| shape.host = HostNeed::default());
    let plan = simulate(&workload, &cluster, &policy).unwrap();
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    assert!(metrics.overall.fragmentation.hostless_gpus.is_none() && metrics.delay.all.causes.len() == 4);
}

#[test]
fn waiting_for_fragmentation() {
    // Two nodes of 8 with 5 in use on each (worst fit) to 100 s: 6 are free, and a job of 6 waits 90 s for one node.
    let workload = jobs(&[(0, 100, 5), (0, 100, 5), (10, 50, 6)]);
    let cluster = Cluster::of_vcs(&[("all", 2, 8)]);
    let spread = Policy { placement: Placement::WorstFit, ..Policy::default() };
    assert_eq!(causes(&workload, &cluster, &spread), [0.0, 0.0, 90.0, 0.0]);
    let plan = simulate(&workload, &cluster, &spread).unwrap();
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    // 6 GPUs are stranded for 90 of 150 s; free are 6 · 100 + 10 · 50, beside a job 600 + 2 · 50.
    assert!(near(metrics.overall.fragmentation.stranded_gpus, 6.0 * 90.0 / 150.0));
    assert!(near(metrics.overall.fragmentation.partly_used_share, 700.0 / 1_100.0));
    // From 100 s on the node beside the job of 6 is free; of the 10 free GPUs one gang of 8 could be made, none of 16.
    let third = 50.0 / 150.0;
    let room = |gpus: u32, mean: f64, none: f64| Room {
        gpus,
        gangs_mean: mean,
        none_share: none,
        gangs_at_end: 0,
        gangs_if_together_mean: mean,
    };
    let expected = [room(8, third, 100.0 / 150.0), room(16, 0.0, 1.0), room(64, 0.0, 1.0)];
    assert_eq!(metrics.overall.fragmentation.room, expected);
    // Over time none of 8 fits to 100 s, and one from then on: 500 stretches of 300 ms.
    let charts = evaluate(&workload, &cluster, &plan, 5).unwrap().charts;
    let (gpus, eights) = &charts.timeline.gangs[0];
    assert_eq!((*gpus, eights.mean[332], eights.mean[334], eights.mean[499]), (8, 0.0, 1.0, 1.0));
    // At the end of the record, 120 s, the node beside the job of 6 is free for one of 8; the job of 16 that comes then waits for both.
    let last = jobs(&[(0, 100, 5), (0, 100, 5), (10, 50, 6), (120, 10, 16)]);
    let plan = simulate(&last, &cluster, &spread).unwrap();
    let room = evaluate(&last, &cluster, &plan, 5).unwrap().metrics.overall.fragmentation.room;
    assert_eq!(room.iter().map(|room| room.gangs_at_end).collect::<Vec<_>>(), [1, 0, 0]);
    // Four GPUs free on each of two nodes would make a gang of 8 and take none; as pools of their own they would not even make one. A node that fails has no room.
    let workload = jobs(&[(0, 100, 4), (0, 100, 4)]);
    let room = |cluster: &Cluster| {
        let plan = simulate(&workload, cluster, &spread).unwrap();
        let of = evaluate(&workload, cluster, &plan, 5).unwrap().metrics.overall.fragmentation.room[0];
        (of.gangs_mean, of.gangs_if_together_mean, of.none_share)
    };
    assert_eq!(room(&cluster), (0.0, 1.0, 1.0));
    let mut apart = Cluster::of_vcs(&[("all", 2, 8), ("other", 1, 8)]);
    assert_eq!(room(&apart), (1.0, 2.0, 0.0));
    apart.outages.push(tracecast_sim::cluster::Outage { node: 2, from_ms: 50 * S, to_ms: 200 * S });
    assert_eq!(room(&apart), (0.5, 1.5, 0.5));
    assert_eq!(cause(&metrics.delay.by_size[0].delay, Cause::Fragmentation), (1, 90.0));
    assert_eq!((metrics.delay.by_vc.len(), metrics.delay.by_duration.len()), (1, 1));
}

#[test]
fn a_job_that_never_starts_waits_to_the_end() {
    // One node of 8 until 50 s, then none. B (8) comes at 20 behind A (8, to 60): 40 s to the window's end.
    let mut cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    cluster.pools[0].groups[0].sizes.push((50 * S, 0));
    let workload = jobs(&[(0, 60, 8), (20, 5, 8)]);
    let plan = simulate(&workload, &cluster, &Policy::default()).unwrap();
    assert_eq!(plan.outcome[1], Outcome::Stranded);
    let metrics = evaluate(&workload, &cluster, &plan, 5).unwrap().metrics;
    assert_eq!(cause(&metrics.delay.all, Cause::Capacity), (1, 40.0));
    // In service to 60: the node drains from 50. Fully used.
    assert_eq!((metrics.overall.utilisation, metrics.overall.group.stranded), (Some(1.0), 1));
}

/// A job that is started and preempted at the same instant, as happens when a job of length zero brings on a second decision,
/// has not stopped waiting.
#[test]
fn a_start_undone_at_once_is_not_the_end_of_waiting() {
    let workload = jobs(&[(0, 20, 8), (0, 10, 8)]);
    let plan = schedule(
        2,
        &[
            Ran(0, 5, 5, 0, 0xFF, Stop::Preempted),
            Ran(1, 5, 15, 0, 0xFF, Stop::Done),
            Ran(0, 15, 35, 0, 0xFF, Stop::Done),
        ],
    );
    let metrics = evaluate(&workload, &Cluster::of_vcs(&[("all", 1, 8)]), &plan, 5).unwrap().metrics;
    // The first waits 0–15, the second 0–5; to 5 all is free, from 5 to 15 nothing is.
    assert_eq!(cause(&metrics.delay.all, Cause::HeadOfLine), (1, 10.0));
    assert_eq!(cause(&metrics.delay.all, Cause::Capacity), (1, 10.0));
}

#[test]
fn nothing_at_all() {
    let cluster = Cluster::of_vcs(&[("all", 1, 8)]);
    let evaluation = evaluate(&Workload::default(), &cluster, &Schedule::default(), 5).unwrap();
    let overall = evaluation.metrics.overall;
    assert_eq!((overall.group.jobs, overall.makespan_s, overall.utilisation), (0, None, None));
    assert_eq!((overall.fairness.jain_users, overall.fragmentation.free_gpus), (None, None));
    assert!(evaluation.charts.timeline.queue_jobs.mean.is_empty());
    // A schedule of other jobs is refused.
    assert!(evaluate(&jobs(&[(0, 1, 1)]), &cluster, &Schedule::default(), 5).is_err());
}

/// Cause of each waiting job at a moment, found directly from who runs where: capacity, quota, fragmentation, head of line.
fn naive_cause(workload: &Workload, cluster: &Cluster, plan: &Schedule, job: usize, at: i64) -> usize {
    let mut free: Vec<(usize, u32, u32)> = Vec::new();
    for (pool, spec) in cluster.pools.iter().enumerate() {
        for group in &spec.groups {
            free.extend((0..group.most_nodes()).map(|_| (pool, group.gpus_per_node, group.gpus_per_node)));
        }
    }
    let mut used = 0;
    for segment in plan.segments.iter().filter(|segment| segment.start_ms <= at && at < segment.end_ms) {
        for piece in plan.pieces_of(segment) {
            free[piece.node as usize].1 -= piece.gpus.count_ones();
            if workload.vc[segment.job as usize] == workload.vc[job] {
                used += piece.amount();
            }
        }
    }
    let gpus = workload.shape_of(job).gpus;
    let vc = &cluster.vcs[usize::from(workload.vc[job])];
    if free.iter().map(|node| node.1).sum::<u32>() < gpus {
        return 0;
    }
    let mut mine: Vec<(u32, u32)> =
        free.iter().filter(|node| node.0 == usize::from(vc.pool)).map(|node| (node.1, node.2)).collect();
    let over = vc.quota_milli.first().is_some_and(|(_, quota)| used + u64::from(gpus) * 1000 > *quota);
    if over || mine.iter().map(|node| node.0).sum::<u32>() < gpus {
        return 1;
    }
    let largest = mine.iter().map(|node| node.1).max().unwrap();
    mine.sort_unstable();
    let mut left = gpus;
    while left > 0 {
        let piece = left.min(largest);
        // The fullest node that has room; as larger pieces come first, that is never worse.
        let Some(ix) = mine.iter().position(|node| node.0 >= piece) else { return 2 };
        mine.remove(ix);
        left -= piece;
    }
    3
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// The causes of a job add up to its wait, and are what a look at every second finds.
    #[test]
    fn causes_add_up_and_are_what_a_look_at_each_second_finds(
        rows in prop::collection::vec((0i64..40, 0i64..30, 1u32..11, 0u16..3, 0u32..4), 1..25),
        scan in prop::sample::select(vec![Scan::Strict, Scan::Skip, Scan::Easy]),
        placement in prop::sample::select(vec![Placement::Consolidate, Placement::WorstFit, Placement::FirstFit]),
        preempt in any::<bool>(),
    ) {
        let mut rows = rows;
        rows.sort_by_key(|row| row.0);
        let mut workload = Workload::default();
        for (submit, run, gpus, vc, user) in rows {
            workload.push(submit * S, run * S, Shape::whole(gpus));
            let job = workload.len() - 1;
            workload.vc[job] = vc;
            workload.user[job] = user;
        }
        workload.users = ["a", "b", "c", "d"].map(String::from).to_vec();
        let mut cluster = Cluster::default();
        cluster.pools.push(Pool { groups: vec![Group::fixed(2, 4), Group::fixed(1, 2)] });
        cluster.pools.push(Pool { groups: vec![Group::fixed(2, 4)] });
        for (name, pool, quota) in [("x", 0, vec![]), ("y", 0, vec![(0, 6_000)]), ("z", 1, vec![])] {
            cluster.vcs.push(Vc { quota_milli: quota, ..Vc::new(name, pool) });
        }
        let policy = if preempt && scan != Scan::Easy {
            Policy { order: Order::Srtf, scan, placement, preemption: Preemption::HELIOS, ..Policy::default() }
        } else {
            Policy { scan, placement, ..Policy::default() }
        };
        let plan = simulate(&workload, &cluster, &policy).unwrap();
        let times = JobTimes::new(&workload, &plan).unwrap();
        let window = window(&workload, &plan, &times).unwrap();
        let mut held = 0;
        let sweep::Walked { causes, .. } = sweep::walk(&workload, &cluster, &plan, &times, window, |from, to, now| {
            held += now.held * (to - from) as u64;
        });
        for job in 0..workload.len() {
            let Some(queued) = times.queued_ms(job) else {
                prop_assert_eq!(causes[job], [0; sweep::CAUSES]);
                continue;
            };
            prop_assert_eq!(causes[job].iter().sum::<i64>(), queued);
            let mut looked = [0; sweep::CAUSES];
            let mine: Vec<&Segment> = plan.segments.iter().filter(|segment| segment.job as usize == job).collect();
            let mut at = workload.submit_ms[job];
            while at < plan.end_ms(job).unwrap() {
                if !mine.iter().any(|segment| segment.start_ms <= at && at < segment.end_ms) {
                    looked[naive_cause(&workload, &cluster, &plan, job, at)] += S;
                }
                at += S;
            }
            prop_assert_eq!(causes[job], looked, "job {}", job);
        }
        let of_jobs: u64 =
            (0..workload.len()).map(|job| times.held_ms[job] as u64 * workload.shape_of(job).amount()).sum();
        prop_assert_eq!(held, of_jobs);
        let evaluation = evaluate(&workload, &cluster, &plan, 2).unwrap();
        // Little's law: the mean number of jobs in the queue is their rate times their mean time in it.
        let (all, timeline) = (&evaluation.metrics.overall, &evaluation.charts.timeline);
        let queued_ms: i64 = (0..workload.len()).filter_map(|job| times.queued_ms(job)).sum();
        let (makespan_s, wait_s) = (all.makespan_s.unwrap(), queued_ms as f64 / 1e3 / all.group.finished.max(1) as f64);
        let stretch_s = |at: usize| timeline.step_s.min(makespan_s - at as f64 * timeline.step_s);
        let area: f64 = timeline.queue_jobs.mean.iter().enumerate().map(|(at, jobs)| jobs * stretch_s(at)).sum();
        prop_assert_eq!(all.group.stranded, 0);
        if makespan_s > 0.0 {
            let (waiting, rate) = (area / makespan_s, all.group.finished as f64 / makespan_s);
            prop_assert!((waiting - rate * wait_s).abs() < 1e-6 * (1.0 + waiting), "{} and {}", waiting, rate * wait_s);
        }
        let metrics = evaluation.metrics;
        let sum = |delays: Vec<f64>| delays.iter().sum::<f64>();
        let all = metrics.delay.all.gpu_wait_hours;
        prop_assert!((sum(metrics.delay.by_size.iter().map(|of| of.delay.gpu_wait_hours).collect()) - all).abs() < 1e-9);
        prop_assert!((sum(metrics.delay.by_vc.iter().map(|of| of.delay.gpu_wait_hours).collect()) - all).abs() < 1e-9);
        let users = metrics.by_user.iter().map(|of| of.group.jobs).sum::<u64>()
            + metrics.other_users.map_or(0, |group| group.jobs);
        prop_assert_eq!(users, workload.len() as u64);
    }
}
