//! Which plain policy would have repeated the record, where the one that stands for today is far from it.
//!
//! Whoever names no policy gets strict FIFO, and most schedulers let a job pass one that does not fit. Where the replay is [far off](Verdict::FarOff), FIFO is replayed strict, with jobs that skip
//! and with EASY backfill, all else alike; of those that are believed, one that is close goes before one that is rough, then the one nearest to the recorded mean wait, and it is told, for the user to name. Nothing is replayed under it unasked: who knows the
//! policy knows better. Three replays at most.
//!
//! Worked example: a record with a mean wait of 1 h 39 min, 9 h 23 min replayed strict and 1 h 39 min with skip: `--scan skip` is told.

use super::fidelity::{Fidelity, NearestPolicy, Verdict};
use crate::error::Result;
use crate::sim::cluster::Cluster;
use crate::sim::policy::{Compat, Order, Policy, Scan};
use crate::sim::simulate;
use crate::sim::workload::Workload;

/// Scans tried.
const SCANS: [Scan; 3] = [Scan::Strict, Scan::Skip, Scan::Easy];

/// How well a replay of `policy` meets the record, as [`with_nearest`].
///
/// # Errors
/// As [`simulate`].
pub fn met(
    (workload, cluster): (&Workload, &Cluster),
    policy: &Policy,
    recorded_start_ms: &[Option<i64>],
) -> Result<Fidelity> {
    let schedule = simulate(workload, cluster, policy)?;
    let fidelity = Fidelity::of(workload, &schedule, recorded_start_ms)?;
    with_nearest(fidelity, (workload, cluster), policy, recorded_start_ms)
}

/// How well the replay of `policy` meets the record, and where it is far off the plain policy that would have come near enough, if there is one.
///
/// # Errors
/// As [`simulate`].
pub fn with_nearest(
    mut fidelity: Fidelity,
    (workload, cluster): (&Workload, &Cluster),
    policy: &Policy,
    recorded_start_ms: &[Option<i64>],
) -> Result<Fidelity> {
    if fidelity.verdict == Verdict::FarOff {
        fidelity.nearest = nearest((workload, cluster), policy, recorded_start_ms)?;
    }
    Ok(fidelity)
}

/// The plain policy that comes nearest to the record, if one is believed.
fn nearest(
    (workload, cluster): (&Workload, &Cluster),
    policy: &Policy,
    recorded_start_ms: &[Option<i64>],
) -> Result<Option<NearestPolicy>> {
    if policy.scan.scheduler().is_some() || policy.compat != Compat::None {
        return Ok(None);
    }
    let mut found: Option<(bool, f64, NearestPolicy)> = None;
    for scan in SCANS {
        let tried = Policy { order: Order::Fifo, scan, ..policy.clone() };
        if tried == *policy || tried.goes_with(cluster).is_err() {
            continue;
        }
        let schedule = simulate(workload, cluster, &tried)?;
        let fidelity = Fidelity::of(workload, &schedule, recorded_start_ms)?;
        let waits = fidelity.replayed_mean_wait_s.zip(fidelity.recorded_mean_wait_s);
        let error_s = waits.map_or(f64::INFINITY, |(replayed, recorded)| (replayed - recorded).abs());
        let rough = !fidelity.is_close();
        let is_nearer = |(worse, least_s, _): &(bool, f64, _)| (rough, error_s) < (*worse, *least_s);
        if fidelity.is_believed() && found.as_ref().is_none_or(is_nearer) {
            let nearest = NearestPolicy {
                order: "fifo".to_owned(),
                scan: scan.id().to_owned(),
                replayed_mean_wait_s: fidelity.replayed_mean_wait_s,
                start_order_tau: fidelity.start_order_tau,
                close: !rough,
            };
            found = Some((rough, error_s, nearest));
        }
    }
    Ok(found.map(|(.., nearest)| nearest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sim::workload::Shape;

    /// Two GPUs: a job of both waits behind one that runs on, and short jobs of one GPU pass it, or do not.
    fn queue() -> (Workload, Cluster) {
        let mut jobs = Workload::default();
        for round in 0..40 {
            let at = round * 10_000_000;
            jobs.push(at, 6_000_000, Shape::whole(1));
            jobs.push(at + 1_000, 1_000_000, Shape::whole(2));
            jobs.push(at + 2_000, 500_000, Shape::whole(1));
        }
        (jobs, Cluster::of_vcs(&[("all", 1, 2)]))
    }

    fn starts(of: &Policy) -> Vec<Option<i64>> {
        let (jobs, cluster) = queue();
        let schedule = simulate(&jobs, &cluster, of).unwrap();
        (0..jobs.len()).map(|job| schedule.start_ms(job)).collect()
    }

    #[test]
    fn what_repeats_the_record_is_named() {
        let (jobs, cluster) = queue();
        let strict = Policy::default();
        let skip = Policy { scan: Scan::Skip, ..strict.clone() };
        let found = nearest((&jobs, &cluster), &strict, &starts(&skip)).unwrap().unwrap();
        assert_eq!((found.order.as_str(), found.scan.as_str(), found.close), ("fifo", "skip", true));
        // The other way round as well.
        let found = nearest((&jobs, &cluster), &skip, &starts(&strict)).unwrap().unwrap();
        assert_eq!((found.scan.as_str(), found.close), ("strict", true));
    }

    #[test]
    fn only_what_is_far_off_is_sought_for_and_told_how_to_name() {
        let (jobs, cluster) = queue();
        let strict = Policy::default();
        let skip = Policy { scan: Scan::Skip, ..strict.clone() };
        let recorded = starts(&skip);
        let of = |policy: &Policy| met((&jobs, &cluster), policy, &recorded).unwrap();
        assert_eq!((of(&skip).verdict, of(&skip).nearest), (Verdict::Exact, None));
        let far = of(&strict);
        assert_eq!(far.verdict, Verdict::FarOff);
        assert!(far.sentence().contains("--scan skip") && far.sentence().contains("--recorded fifo/skip"));
        assert!(far.caution(&strict).is_some_and(|said| said.contains("With --scan skip in the order fifo")));
    }

    #[test]
    fn nothing_is_named_where_no_plain_policy_comes_near() {
        let (jobs, cluster) = queue();
        // Everything starts days later than it could.
        let late: Vec<Option<i64>> =
            starts(&Policy::default()).iter().map(|start| start.map(|start| start + 1_000_000_000)).collect();
        assert_eq!(nearest((&jobs, &cluster), &Policy::default(), &late).unwrap(), None);
    }
}
