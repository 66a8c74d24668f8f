//! The engine against the naive reference: every order, scan, placement and preemption, on clusters that shrink, fail and share, must give
//! the same segments, GPU by GPU.

use tracecast_planner::sim::{Preemption, Scan, Schedule, Segment, Shape, simulate};
use tracecast_tests::reference::naive::{self, Fate};

use super::cases;

/// Cases that are always run; twenty times as many with `TRACECAST_FULL=1`.
const CASES: u64 = 4_000;

pub(crate) fn fates(schedule: &Schedule) -> Vec<Fate> {
    let mut fates: Vec<Fate> = (0..schedule.outcome.len())
        .map(|job| Fate {
            outcome: schedule.outcome[job],
            segments: Vec::new(),
            preemptions: schedule.preemptions[job],
            restarts: schedule.restarts[job],
        })
        .collect();
    for segment in &schedule.segments {
        let Segment { start_ms, end_ms, stop, .. } = *segment;
        fates[segment.job as usize].segments.push((start_ms, end_ms, stop, schedule.pieces_of(segment).to_vec()));
    }
    fates
}

/// Slurm's backfill, which neither preempts nor knows parts of GPUs, is replayed alike. That it is
/// Slurm's, the end-to-end test shows against a real one; that the engine does what it says, this
/// does.
#[test]
fn slurm_s_backfill_is_replayed_alike() {
    let mut waited = 0;
    for seed in 0..CASES / 4 {
        let (mut workload, cluster, mut policy) = cases::draw(seed);
        for shape in &mut workload.shapes {
            if shape.milli > 0 {
                *shape = Shape::whole(1);
            }
        }
        (policy.scan, policy.preemption) = (Scan::Slurm, Preemption::Never);
        // Whole minutes, and moments within one.
        workload.origin_ms = 1_600_000_000_000 + seed as i64 % 7 * 9_500;
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
            waited += usize::from(schedule.start_ms(job).is_some_and(|start| start > workload.submit_ms[job].max(0)));
        }
    }
    // Queues form, or nothing was tested.
    assert!(waited > 2_000, "{waited}");
}

#[test]
fn thousands_of_small_cases_are_replayed_alike() {
    let count = cases::many(CASES);
    let (mut segments, mut preemptions, mut restarts) = (0, 0, 0);
    for seed in 0..count {
        let (workload, cluster, policy) = cases::draw(seed);
        let schedule = simulate(&workload, &cluster, &policy).unwrap();
        let (found, expected) = (fates(&schedule), naive::replay(&workload, &cluster, &policy));
        segments += schedule.segments.len();
        preemptions += schedule.preemptions.iter().sum::<u32>();
        restarts += schedule.restarts.iter().sum::<u32>();
        for job in 0..workload.len() {
            assert_eq!(found[job], expected[job], "seed {seed}, job {job}, {policy:?}\n{workload:#?}\n{cluster:#?}");
        }
    }
    println!("{count} cases, {segments} segments, {preemptions} preemptions, {restarts} restarts, all alike");
    assert!(preemptions > 0 && restarts > 0, "the cases reach preemption and failures");
}
