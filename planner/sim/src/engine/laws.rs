//! Laws of every replay, on workloads drawn at random.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::Run;
use crate::*;

/// Jobs (gap to the one before s, run s, GPUs, user) on a VC of 1 to 4 nodes.
fn cases() -> impl Strategy<Value = (Workload, u32)> {
    let sizes = prop_oneof![4 => 1u32..=4, 2 => Just(8u32), 1 => 5u32..=20];
    (prop::collection::vec((0i64..30, 0i64..200, sizes), 1..40), 1u32..=4).prop_map(|(drawn, nodes)| {
        let mut workload = Workload::default();
        let mut now = 0;
        for (gap, run_s, gpus) in drawn {
            now += gap * 1000;
            workload.push(now, run_s * 1000, Shape::whole(gpus));
        }
        (workload, nodes)
    })
}

fn policies() -> impl Strategy<Value = Policy> {
    let orders = prop::sample::select(vec![Order::Fifo, Order::Sjf, Order::Ljf, Order::FewestGpus, Order::F1]);
    let scans = prop::sample::select(vec![Scan::Strict, Scan::Skip, Scan::Easy]);
    let rules = prop::sample::select(vec![
        Placement::Consolidate,
        Placement::FirstFit,
        Placement::BestFit,
        Placement::WorstFit,
    ]);
    (orders, scans, rules).prop_map(|(order, scan, placement)| Policy { order, scan, placement, ..Policy::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// With durations known and first come first served, the head of the queue starts no later than it was promised.
    #[test]
    fn backfill_never_delays_the_head((workload, nodes) in cases(), rule in prop::sample::select(vec![
        Placement::Consolidate, Placement::FirstFit, Placement::WorstFit,
    ])) {
        let cluster = Cluster::of_vcs(&[("all", nodes, 8)]);
        let policy = Policy { scan: Scan::Easy, placement: rule, ..Policy::default() };
        let ranking = super::Ranking::new(&workload, &cluster, &policy);
        let schedule = Schedule::new(workload.len());
        let jobs = (0..workload.len() as u32).collect();
        let first = cluster.first_nodes()[0];
        let setting = super::Setting { workload: &workload, cluster: &cluster, policy: &policy, ranking: ranking.as_ref() };
        let mut run = Run::new(setting, 0, first, jobs, schedule, None).unwrap();
        run.replay().unwrap();
        let (promises, schedule) = (std::mem::take(&mut run.promises), std::mem::take(&mut run.schedule));
        for (head, at) in promises {
            prop_assert!(schedule.start_ms(head as usize).unwrap() <= at, "job {head} was promised {at}");
        }
    }

    /// A job that a cluster can take is not refused by a larger one, and everything that is not refused runs.
    #[test]
    fn a_node_more_refuses_no_one((workload, nodes) in cases(), policy in policies()) {
        let of = |nodes| simulate(&workload, &Cluster::of_vcs(&[("all", nodes, 8)]), &policy).unwrap();
        let (small, large) = (of(nodes), of(nodes + 1));
        for job in 0..workload.len() {
            prop_assert_ne!(small.outcome[job], Outcome::Stranded);
            prop_assert!(small.outcome[job] == Outcome::Rejected || large.outcome[job] == Outcome::Finished);
        }
    }

    /// Jobs start after their submission, run as long as they do, and no GPU has two of them.
    #[test]
    fn nothing_is_given_twice_and_nothing_is_lost((workload, nodes) in cases(), policy in policies()) {
        let schedule = simulate(&workload, &Cluster::of_vcs(&[("all", nodes, 8)]), &policy).unwrap();
        let mut held: Vec<(u32, u64, i64, i64)> = Vec::new();
        for segment in &schedule.segments {
            let job = segment.job as usize;
            prop_assert!(segment.start_ms >= workload.submit_ms[job]);
            prop_assert_eq!(segment.end_ms - segment.start_ms, workload.run_ms[job]);
            let gpus: u32 = schedule.pieces_of(segment).iter().map(|piece| piece.gpus.count_ones()).sum();
            prop_assert_eq!(gpus, workload.shapes[usize::from(workload.shape[job])].gpus);
            for piece in schedule.pieces_of(segment) {
                for (node, gpus, start, end) in &held {
                    let apart = *node != piece.node || gpus & piece.gpus == 0;
                    prop_assert!(apart || *end <= segment.start_ms || segment.end_ms <= *start);
                }
                held.push((piece.node, piece.gpus, segment.start_ms, segment.end_ms));
            }
        }
        let run = schedule.outcome.iter().filter(|outcome| **outcome == Outcome::Finished).count();
        prop_assert_eq!(run, schedule.segments.len());
    }

    /// Events after a moment change nothing before it: later jobs may be anything.
    #[test]
    fn no_start_depends_on_what_comes_after((workload, nodes) in cases(), policy in policies(), cut in 0usize..40, factor in 0i64..4) {
        let cut = cut.min(workload.len() - 1);
        let moment = workload.submit_ms[cut];
        let mut other = workload.clone();
        for job in 0..workload.len() {
            if workload.submit_ms[job] >= moment {
                other.run_ms[job] = workload.run_ms[job] * factor;
                other.shape[job] = workload.shape[workload.len() - 1];
                other.submit_ms[job] += factor * 1000;
            }
        }
        let cluster = Cluster::of_vcs(&[("all", nodes, 8)]);
        let (one, two) = (simulate(&workload, &cluster, &policy).unwrap(), simulate(&other, &cluster, &policy).unwrap());
        for job in 0..workload.len() {
            let before = |start: &i64| *start < moment;
            prop_assert_eq!(one.start_ms(job).filter(before), two.start_ms(job).filter(before));
        }
    }

    /// After every decision cells of different VCs do not overlap, none has more than it is promised, and there is a place for every cell that is in no use; nobody waits who is within the cells of its VC, but for who
    /// was stopped this very moment, and who is in cells is not stopped.
    #[test]
    fn cells_are_always_there(
        (mut workload, _) in cases(),
        vcs in prop::collection::vec(0u16..3, 40),
        promised in prop::collection::vec((0u32..3, prop::sample::select(vec![1u32, 2, 4, 8])), 1..9),
        order in prop::sample::select(vec![Order::Fifo, Order::Sjf, Order::Ljf, Order::Las]),
        placement in prop::sample::select(vec![Placement::Consolidate, Placement::WorstFit, Placement::Buddy, Placement::Spread]),
        scan in prop::sample::select(vec![Scan::Skip, Scan::Strict]),
        spare in 0u32..2,
    ) {
        let (mut nodes, mut cells) = (0, vec![std::collections::BTreeMap::new(); 3]);
        for (vc, size) in promised {
            *cells[vc as usize].entry(size).or_insert(0u32) += 1;
            nodes += size;
        }
        let nodes = nodes.div_ceil(8) + spare;
        let mut cluster = Cluster::of_vcs(&[("a", nodes, 8), ("b", 0, 8), ("c", 0, 8)]).pooled();
        for (vc, cells) in cluster.vcs.iter_mut().zip(cells) {
            vc.guarantee_cells = cells.into_iter().collect();
        }
        workload.vc.iter_mut().zip(&vcs).for_each(|(of, vc)| *of = *vc);
        let policy = Policy { order, scan, placement, preemption: Preemption::Requeue, interval_ms: Some(1000), ..Policy::default() };
        let setting = super::Setting { workload: &workload, cluster: &cluster, policy: &policy, ranking: None };
        let jobs = (0..workload.len() as u32).collect();
        let mut run = Run::new(setting, 0, 0, jobs, Schedule::new(workload.len()), None).unwrap();
        while let Some(now) = run.next_instant() {
            if run.happen(now) {
                run.due(now);
            }
            if !run.is_due() {
                continue;
            }
            run.next_decision = None;
            let before: Vec<u32> = (0..workload.len() as u32).filter(|job| run.cells.as_ref().unwrap().holds(*job)).collect();
            run.decide().unwrap();
            let cells = run.cells.as_ref().unwrap();
            prop_assert_eq!(cells.check(&run.nodes), Ok(()));
            prop_assert!(before.iter().all(|job| cells.holds(*job)));
            let waits_in_vain = |job: u32| {
                let last = run.schedule.last_segment(job as usize);
                let just_stopped = last.is_some_and(|of| of.stop == Stop::Preempted && of.end_ms == now);
                run.found_in_cells(job).is_some() && !just_stopped
            };
            prop_assert!(scan == Scan::Strict || !run.queue.any(waits_in_vain));
            if run.queue.len() > 0 && run.has_more() {
                run.due(now + 1000);
            }
        }
        prop_assert!(run.schedule.outcome.iter().all(|outcome| *outcome != Outcome::Stranded));
    }
}
