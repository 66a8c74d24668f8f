//! Which plain policy repeats the record: the one that stands for today where nobody names a scan, and the one that is told where the named one is far from it.
//!
//! Most schedulers let a job pass one that does not fit, and a trace seldom says which. So candidates are replayed that differ in the scan alone: strict, with jobs that skip, and with EASY backfill. Of those
//! that are believed, one that is close goes before one that is rough, then the one nearest to the recorded mean wait.
//!
//! [`todays`] is asked by plans, where the user names no scan. It looks at no more than was known when half of the jobs were submitted, or when the plan is
//! tested from, so that what comes later decides nothing. Its backfill goes by what can be known: limits where most jobs have one, else predictions.
//!
//! [`with_nearest`] only tells. Where the replay of a policy that was named is [far off](Verdict::FarOff), FIFO with the other scans is replayed, all else alike, and the nearest is told, for the user to name. Three replays at most in each.
//!
//! Worked example: a record with a mean wait of 1 h 39 min, 9 h 23 min replayed strict and 1 h 39 min with skip: skip stands for today, and where strict was named, `--scan skip` is told.

use tracecast_analytics::report::format;

use super::fidelity::{Fidelity, NearestPolicy, Verdict};
use super::input::Loaded;
use crate::error::Result;
use crate::sim::cluster::Cluster;
use crate::sim::policy::{Compat, Estimate, Order, Policy, Preemption, Scan};
use crate::sim::simulate;
use crate::sim::workload::Workload;

/// Scans tried.
const SCANS: [Scan; 3] = [Scan::Strict, Scan::Skip, Scan::Easy];
/// Share of the jobs that must have a time limit for a backfill to go by limits.
const LIMITED: f64 = 0.5;

/// A policy that repeats the record, of those that were tried.
#[derive(Debug, Clone, PartialEq)]
struct Repeats {
    policy: Policy,
    fidelity: Fidelity,
}

/// Of those that are believed, the policy that comes nearest to the record; `None` if none is.
fn repeats(
    (workload, cluster): (&Workload, &Cluster),
    tried: impl Iterator<Item = Policy>,
    recorded_start_ms: &[Option<i64>],
) -> Result<Option<Repeats>> {
    let mut found: Option<((bool, f64), Repeats)> = None;
    for policy in tried {
        if policy.goes_with(cluster).is_err() || policy.validate(workload).is_err() {
            continue;
        }
        let schedule = simulate(workload, cluster, &policy)?;
        let fidelity = Fidelity::of(workload, &schedule, recorded_start_ms)?;
        let waits = fidelity.replayed_mean_wait_s.zip(fidelity.recorded_mean_wait_s);
        let error_s = waits.map_or(f64::INFINITY, |(replayed, recorded)| (replayed - recorded).abs());
        let rank = (!fidelity.is_close(), error_s);
        if fidelity.is_believed() && found.as_ref().is_none_or(|(least, _)| rank < *least) {
            found = Some((rank, Repeats { policy, fidelity }));
        }
    }
    Ok(found.map(|(_, repeats)| repeats))
}

/// Whether a policy may be one of those that are tried: the schedulers of Kubernetes and compatible replays have their own ways.
fn is_plain(policy: &Policy) -> bool {
    policy.scan.scheduler().is_none() && policy.compat == Compat::None
}

/// `policy` with the scan that repeats what is known of the record at `until_ms` (milliseconds since the Unix epoch; when half of the jobs are submitted if that is sooner, or `None`), and how that was found, in
/// words. `policy` itself, and nothing to tell, where no scan repeats it. Jobs have to be predicted already.
///
/// # Errors
/// As [`simulate`].
pub fn todays(loaded: &Loaded, policy: Policy, until_ms: Option<i64>) -> Result<(Policy, Option<String>)> {
    let submits = &loaded.workload.submit_ms;
    let Some(half) = submits.get(submits.len() / 2).copied() else { return Ok((policy, None)) };
    if !is_plain(&policy) || policy.preemption != Preemption::Never {
        return Ok((policy, None));
    }
    let now = until_ms.map_or(half, |until| (until - loaded.workload.origin_ms).min(half));
    let known = loaded.clone().as_known_at(now);
    let cluster = known.recorded_cluster.as_ref().unwrap_or(&known.cluster);
    let limited = known.workload.requested_ms.iter().flatten().count() as f64;
    let by = match policy.estimate {
        Estimate::True if limited >= LIMITED * known.workload.len() as f64 => Estimate::Requested,
        Estimate::True => Estimate::Predicted,
        named => named,
    };
    let tried = SCANS.into_iter().filter_map(|scan| match scan {
        // What a backfill may know must not be what an order by true runs knows.
        Scan::Easy if policy.order != Order::Fifo && policy.estimate != by => None,
        Scan::Easy => Some(Policy { scan, estimate: by, ..policy.clone() }),
        _ => Some(Policy { scan, ..policy.clone() }),
    });
    let Some(Repeats { policy: nearest, fidelity }) =
        repeats((&known.workload, cluster), tried, &known.recorded_start_ms)?
    else {
        return Ok((policy, None));
    };
    let wait = |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), format::duration);
    let told = format!(
        "Scan: {}, as no --scan is named. Of strict, skip and EASY backfill it comes nearest to the recorded starts of the first {} (mean wait {}, recorded {}).",
        match nearest.scan {
            Scan::Easy if nearest.estimate == Estimate::Requested => "EASY backfill by requested limits",
            Scan::Easy => "EASY backfill by predicted runs",
            other => other.id(),
        },
        format::counted(fidelity.jobs, "job", "jobs"),
        wait(fidelity.replayed_mean_wait_s),
        wait(fidelity.recorded_mean_wait_s)
    );
    Ok((nearest, Some(told)))
}

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
    jobs_and_nodes: (&Workload, &Cluster),
    policy: &Policy,
    recorded_start_ms: &[Option<i64>],
) -> Result<Option<NearestPolicy>> {
    if !is_plain(policy) {
        return Ok(None);
    }
    let tried = SCANS.map(|scan| Policy { order: Order::Fifo, scan, ..policy.clone() });
    let others = tried.into_iter().filter(|tried| tried != policy);
    let found = repeats(jobs_and_nodes, others, recorded_start_ms)?;
    Ok(found.map(|Repeats { policy, fidelity }| NearestPolicy {
        order: "fifo".to_owned(),
        scan: policy.scan.id().to_owned(),
        replayed_mean_wait_s: fidelity.replayed_mean_wait_s,
        start_order_tau: fidelity.start_order_tau,
        close: fidelity.is_close(),
    }))
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

    /// The queue as a plan loads it, which started as under `of`.
    fn loaded(of: &Policy) -> Loaded {
        let (mut workload, cluster) = queue();
        workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
        let jobs = workload.len() as u32;
        Loaded {
            rows: (0..jobs).collect(),
            keys: (0..jobs).map(|job| job.to_string()).collect(),
            recorded_start_ms: starts(of),
            workload,
            cluster,
            ..Loaded::default()
        }
    }

    #[test]
    fn the_scan_of_the_record_stands_for_today() {
        let strict = Policy::default();
        for scan in [Scan::Strict, Scan::Skip] {
            let recorded = Policy { scan, ..strict.clone() };
            let (found, told) = todays(&loaded(&recorded), strict.clone(), None).unwrap();
            assert_eq!(found, recorded);
            assert!(told.is_some_and(|told| told.starts_with(&format!("Scan: {}, as no --scan", scan.id()))));
        }
        // Twenty rounds of three jobs are known when the 61st comes, which is not.
        let (_, told) = todays(&loaded(&strict), strict.clone(), None).unwrap();
        assert!(told.is_some_and(|told| told.contains("the first 60 jobs")));
    }

    /// Where the small jobs hold up a reservation, EASY lets none pass that would; it goes by what can be known.
    #[test]
    fn a_backfill_goes_by_limits_or_predictions() {
        let mut jobs = Workload::default();
        for round in 0..40 {
            let at = round * 20_000_000;
            jobs.push(at, 6_000_000, Shape::whole(1));
            jobs.push(at + 1_000, 1_000_000, Shape::whole(2));
            // The long one would delay the job of both, the short one does not.
            jobs.push(at + 2_000, 9_000_000, Shape::whole(1));
            jobs.push(at + 3_000, 500_000, Shape::whole(1));
        }
        jobs.predicted_s = jobs.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
        let cluster = Cluster::of_vcs(&[("all", 1, 2)]);
        let easy = Policy { scan: Scan::Easy, estimate: Estimate::Predicted, ..Policy::default() };
        let schedule = simulate(&jobs, &cluster, &easy).unwrap();
        let count = jobs.len() as u32;
        let mut loaded = Loaded {
            rows: (0..count).collect(),
            keys: (0..count).map(|job| job.to_string()).collect(),
            recorded_start_ms: (0..jobs.len()).map(|job| schedule.start_ms(job)).collect(),
            workload: jobs,
            cluster,
            ..Loaded::default()
        };
        assert_eq!(todays(&loaded, Policy::default(), None).unwrap().0, easy);
        let limits = loaded.workload.run_ms.iter().copied().map(Some).collect();
        loaded.workload.requested_ms = limits;
        let by_limits = Policy { estimate: Estimate::Requested, ..easy };
        assert_eq!(todays(&loaded, Policy::default(), None).unwrap().0, by_limits);
        // An order by true runs is not given a backfill that would change what it knows.
        let sjf = Policy { order: Order::Sjf, ..Policy::default() };
        assert_ne!(todays(&loaded, sjf, None).unwrap().0.scan, Scan::Easy);
    }

    /// The leak test: what comes after the moment decides nothing.
    #[test]
    fn what_comes_later_decides_nothing() {
        let (strict, skip) = (Policy::default(), Policy { scan: Scan::Skip, ..Policy::default() });
        let (mut of, later) = (loaded(&skip), loaded(&strict));
        let half = of.workload.submit_ms[of.workload.len() / 2];
        for job in 0..of.workload.len() {
            if of.workload.submit_ms[job] >= half {
                of.recorded_start_ms[job] = later.recorded_start_ms[job];
                of.workload.run_ms[job] /= 2;
            }
        }
        assert_eq!(todays(&of, strict.clone(), None).unwrap(), todays(&loaded(&skip), strict.clone(), None).unwrap());
        // Nor is more looked at than was known at an earlier moment: of 31 jobs one still ran.
        let early = of.workload.submit_ms[31];
        let (_, told) = todays(&of, strict.clone(), Some(early)).unwrap();
        assert!(told.is_some_and(|told| told.contains("the first 30 jobs")));
        // The test can fail: with the later starts in the first half, strict it would be.
        let mut other = of.clone();
        other.recorded_start_ms = later.recorded_start_ms;
        assert_eq!(todays(&other, strict.clone(), None).unwrap().0, strict);
    }

    #[test]
    fn without_a_scan_that_repeats_the_record_it_stays_as_it_was() {
        let mut of = loaded(&Policy::default());
        of.recorded_start_ms.iter_mut().flatten().for_each(|start| *start += 900_000_000);
        assert_eq!(todays(&of, Policy::default(), None).unwrap(), (Policy::default(), None));
        // Nor is anything sought where a scheduler has its own way.
        let kueue = Policy { scan: Scan::Kueue, preemption: Preemption::Requeue, ..Policy::default() };
        assert_eq!(todays(&loaded(&Policy::default()), kueue.clone(), None).unwrap(), (kueue, None));
        assert_eq!(todays(&Loaded::default(), Policy::default(), None).unwrap(), (Policy::default(), None));
    }
}
