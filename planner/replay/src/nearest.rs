//! Search for the plain policy that repeats the record: the one that stands for today where nobody
//! names a scan, and the one that is told where the named one is far from it.
//!
//! Most schedulers let a job pass one that does not fit, and a trace seldom says which. So candidates are replayed that differ in the scan alone: strict, with jobs that skip, and with EASY backfill. Of those
//! that are believed, one that is close goes before one that is rough, then the one nearest to the recorded mean wait.
//!
//! [`todays`] is asked by plans, where the user names no scan. It looks at no more than a scheduler saw at a moment, before which nothing is tested: who had been submitted, and who had started. Backfill goes by what could be
//! known, never by true runs. Where the record does not tell strict from a scan that passes over jobs, it says so.
//!
//! [`with_nearest`] only tells. Where the replay of a policy that was named is [far off](Verdict::FarOff), FIFO with the other scans is replayed, all else alike, and the nearest is told, for the user to name. Three replays at most in each.
//!
//! Worked example: a record with a mean wait of 1 h 39 min, 9 h 23 min replayed strict and 1 h 39 min with skip: skip stands for today, and where strict was named, `--scan skip` is told.

use tracecast_analytics::report::format;

use super::fidelity::{Fidelity, NearestPolicy, Verdict};
use super::input::Loaded;
use crate::error::Result;
use tracecast_sim::cluster::Cluster;
use tracecast_sim::policy::{Compat, Estimate, Order, Policy, Preemption, Scan};
use tracecast_sim::simulate;
use tracecast_sim::workload::Workload;

/// Scans tried.
const SCANS: [Scan; 3] = [Scan::Strict, Scan::Skip, Scan::Easy];
/// Share of the jobs that must have a time limit for a backfill to go by limits.
const LIMITED: f64 = 0.5;

/// A policy that was tried and is believed.
#[derive(Debug, Clone, PartialEq)]
struct Repeats {
    policy: Policy,
    fidelity: Fidelity,
    /// Sort key, less is better: whether the replay is only roughly like the record, and the error
    /// of its mean wait, seconds.
    off: (bool, f64),
}

/// Replays the policies and returns those that are believed, the nearest to the record first, of
/// equals the one tried first; and the scans that were replayed.
fn repeats(
    (workload, cluster): (&Workload, &Cluster),
    tried: impl Iterator<Item = Policy>,
    recorded_start_ms: &[Option<i64>],
) -> Result<(Vec<Repeats>, Vec<Scan>)> {
    let (mut result, mut scans) = (Vec::new(), Vec::new());
    for policy in tried {
        if policy.goes_with(cluster).is_err() || policy.validate(workload).is_err() {
            continue;
        }
        scans.push(policy.scan);
        let schedule = simulate(workload, cluster, &policy)?;
        let fidelity = Fidelity::new(workload, &schedule, recorded_start_ms)?;
        let waits = fidelity.replayed_mean_wait_s.zip(fidelity.recorded_mean_wait_s);
        let off_s = waits.map_or(f64::INFINITY, |(replayed, recorded)| (replayed - recorded).abs());
        if fidelity.is_believed() {
            result.push(Repeats { policy, off: (!fidelity.is_close(), off_s), fidelity });
        }
    }
    result.sort_by(|a, b| a.off.0.cmp(&b.off.0).then(a.off.1.total_cmp(&b.off.1)));
    Ok((result, scans))
}

/// Whether a policy may be tried: the schedulers of Kubernetes and compatible replays have their
/// own ways.
fn is_plain(policy: &Policy) -> bool {
    policy.scan.scheduler().is_none() && policy.compat == Compat::None
}

/// The policy that stands for today where nobody named a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct Today {
    /// The policy with the scan that repeats the record, where one does; else as requested.
    pub policy: Policy,
    /// Whether the record tells its scan from others.
    pub known: bool,
    /// How it was found, in words; `None` where no scan repeats the record.
    pub told: Option<String>,
}

/// Whether a backfill is among the scans that are tried, and by which estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backfill {
    /// By this estimate.
    By(Estimate),
    /// By limits where most jobs have one, else by predictions, so jobs have to be predicted.
    ByWhatIsKnown,
    /// Not tried.
    Never,
}

/// The policy whose scan nobody named and which is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// The scan of what is replayed.
    Scan,
    /// The policy that the cluster had.
    Recorded,
}

impl Unnamed {
    /// Beginning of the note for a scan in words.
    fn note(self, scan: &str) -> String {
        match self {
            Self::Scan => format!("Scan: {scan}, as no --scan is named"),
            Self::Recorded => format!("Recorded policy: FIFO, {scan}, as --recorded names none"),
        }
    }
}

/// `policy` with the scan that comes nearest to what a scheduler saw before `until_ms`
/// (milliseconds since the Unix epoch; when half of the jobs are submitted, if `None`). The note
/// says what nobody named (`unnamed`).
///
/// # Errors
/// Errors of [`simulate`].
pub fn todays(
    loaded: &Loaded,
    policy: Policy,
    until_ms: Option<i64>,
    backfill: Backfill,
    unnamed: Unnamed,
) -> Result<Today> {
    let unknown = |policy: Policy| Today { policy, known: false, told: None };
    let submits = &loaded.workload.submit_ms;
    let Some(half) = submits.get(submits.len() / 2).copied() else { return Ok(unknown(policy)) };
    if !is_plain(&policy) || policy.preemption != Preemption::Never {
        return Ok(unknown(policy));
    }
    let (seen, starts_ms) = loaded.seen_at(until_ms.map_or(half, |until| until - loaded.workload.origin_ms));
    let seen = if loaded.asks_in_record() || !seen.has_requests() { seen } else { seen.without_requests() };
    let limited = seen.requested_ms.iter().flatten().count() as f64;
    let by = match backfill {
        Backfill::By(estimate) => Some(estimate),
        Backfill::ByWhatIsKnown if limited >= LIMITED * seen.len() as f64 => Some(Estimate::Requested),
        Backfill::ByWhatIsKnown => Some(Estimate::Predicted),
        Backfill::Never => None,
    };
    let tried =
        SCANS.into_iter().filter_map(|scan| match scan {
            // What a backfill may know must not be what an order by true runs knows.
            Scan::Easy => by
                .filter(|by| policy.order == Order::Fifo || policy.estimate == *by)
                .map(|estimate| Policy { scan, estimate, ..policy.clone() }),
            _ => Some(Policy { scan, ..policy.clone() }),
        });
    let (result, scans) = repeats((&seen, loaded.nodes_of_record()), tried, &starts_ms)?;
    let Some((first, others)) = result.split_first() else { return Ok(unknown(policy)) };
    if first.policy.scan == Scan::Strict && others.iter().any(|other| other.off == first.off) {
        let told = unnamed.note("strict")
            + " and the record does not tell it from a scan that lets jobs pass one that does not fit.";
        return Ok(Today { policy: first.policy.clone(), known: false, told: Some(told) });
    }
    let wait = |of: Option<f64>| of.map_or_else(|| "unknown".to_owned(), format::duration);
    let tried: Vec<&str> = scans.iter().map(|scan| scan.id()).collect();
    let told = format!(
        "{}. Of {} it comes nearest to the recorded starts of the first {} (mean wait {}, recorded {}).",
        unnamed.note(match (first.policy.scan, first.policy.estimate) {
            (Scan::Easy, Estimate::Requested) => "easy, by requested limits",
            (Scan::Easy, Estimate::Predicted) => "easy, by predicted runs",
            (scan, _) => scan.id(),
        }),
        tried.join(", "),
        format::counted(first.fidelity.jobs, "job", "jobs"),
        wait(first.fidelity.replayed_mean_wait_s),
        wait(first.fidelity.recorded_mean_wait_s)
    );
    Ok(Today { policy: first.policy.clone(), known: true, told: Some(told) })
}

/// Returns the fidelity of a replay of `policy`, as [`with_nearest`] completes it.
///
/// # Errors
/// Errors of [`simulate`].
pub fn met(
    (workload, cluster): (&Workload, &Cluster),
    policy: &Policy,
    recorded_start_ms: &[Option<i64>],
) -> Result<Fidelity> {
    let schedule = simulate(workload, cluster, policy)?;
    let fidelity = Fidelity::new(workload, &schedule, recorded_start_ms)?;
    with_nearest(fidelity, (workload, cluster), policy, recorded_start_ms)
}

/// Completes the fidelity of `policy` with the plain policy that would have come near enough, if it
/// is far off and there is one.
///
/// # Errors
/// Errors of [`simulate`].
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
    let (result, _) = repeats(jobs_and_nodes, others, recorded_start_ms)?;
    Ok(result.into_iter().next().map(|Repeats { policy, fidelity, .. }| NearestPolicy {
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
    use tracecast_sim::workload::Shape;

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
        let result = nearest((&jobs, &cluster), &strict, &starts(&skip)).unwrap().unwrap();
        assert_eq!((result.order.as_str(), result.scan.as_str(), result.close), ("fifo", "skip", true));
        // The other way round as well.
        let result = nearest((&jobs, &cluster), &skip, &starts(&strict)).unwrap().unwrap();
        assert_eq!((result.scan.as_str(), result.close), ("strict", true));
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

    /// Jobs as a plan loads them, which started as under `of` and are predicted as they ran.
    fn started((mut workload, cluster): (Workload, Cluster), of: &Policy) -> Loaded {
        workload.predicted_s = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
        let schedule = simulate(&workload, &cluster, of).unwrap();
        let jobs = workload.len() as u32;
        Loaded {
            rows: (0..jobs).collect(),
            keys: (0..jobs).map(|job| job.to_string()).collect(),
            recorded_start_ms: (0..workload.len()).map(|job| schedule.start_ms(job)).collect(),
            workload,
            cluster,
            ..Loaded::default()
        }
    }

    /// The queue, so.
    fn loaded(of: &Policy) -> Loaded {
        started(queue(), of)
    }

    fn today(of: &Loaded, until_ms: Option<i64>) -> Today {
        todays(of, Policy::default(), until_ms, Backfill::ByWhatIsKnown, Unnamed::Scan).unwrap()
    }

    #[test]
    fn the_scan_of_the_record_stands_for_today() {
        for scan in [Scan::Strict, Scan::Skip] {
            let recorded = Policy { scan, ..Policy::default() };
            let result = today(&loaded(&recorded), None);
            assert_eq!((&result.policy, result.known), (&recorded, true));
            let told = result.told.unwrap();
            assert!(told.starts_with(&format!("Scan: {}, as no --scan", scan.id())), "{told}");
            // Twenty rounds of three jobs are known when the 61st comes, which is not.
            assert!(told.contains("Of strict, skip, easy it") && told.contains("the first 60 jobs"), "{told}");
        }
    }

    /// Where nobody waits behind a job that does not fit, any scan repeats the record, and strict
    /// is not taken as found.
    #[test]
    fn what_the_record_does_not_tell_apart_is_not_known() {
        let mut of = loaded(&Policy::default());
        of.cluster = Cluster::of_vcs(&[("all", 9, 2)]);
        of.recorded_start_ms = of.workload.submit_ms.iter().copied().map(Some).collect();
        let result = today(&of, None);
        assert_eq!((result.policy, result.known), (Policy::default(), false));
        assert!(result.told.is_some_and(|told| told.contains("does not tell")));
    }

    /// A large job that waits at the moment tells strict from skip. Every start before is that of a
    /// strict order too, if nobody knows of that job.
    #[test]
    fn a_job_that_waits_is_seen() {
        let mut jobs = Workload::default();
        jobs.push(0, 100_000_000, Shape::whole(1));
        jobs.push(1_000, 1_000_000, Shape::whole(2));
        (0..60).for_each(|at| jobs.push(2_000 + at * 1_000_000, 500_000, Shape::whole(1)));
        let skip = Policy { scan: Scan::Skip, ..Policy::default() };
        let of = started((jobs, Cluster::of_vcs(&[("all", 1, 2)])), &skip);
        // Of the 62 jobs the second waits for the first all the while.
        let result = today(&of, Some(40_000_000));
        assert!(result.policy.scan != Scan::Strict && result.known, "{result:?}");
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
        let easy = Policy { scan: Scan::Easy, estimate: Estimate::Predicted, ..Policy::default() };
        let mut loaded = started((jobs, Cluster::of_vcs(&[("all", 1, 2)])), &easy);
        assert_eq!(today(&loaded, None).policy, easy);
        loaded.workload.requested_ms = loaded.workload.run_ms.iter().copied().map(Some).collect();
        let by_limits = Policy { estimate: Estimate::Requested, ..easy.clone() };
        assert_eq!(today(&loaded, None).policy, by_limits);
        // Unless something else is asked for.
        let named = todays(&loaded, Policy::default(), None, Backfill::By(Estimate::Predicted), Unnamed::Scan).unwrap();
        assert_eq!(named.policy, easy);
        // Where no backfill is tried, it is the scan that comes nearest of the others.
        let none = todays(&loaded, Policy::default(), None, Backfill::Never, Unnamed::Scan).unwrap();
        assert_eq!((none.policy.scan, none.known), (Scan::Skip, true));
        assert!(none.told.is_some_and(|told| told.contains("Of strict, skip it comes nearest")));
        // An order by true runs is not given a backfill that would change what it knows, and that is told.
        let sjf = Policy { order: Order::Sjf, ..Policy::default() };
        let sjf = todays(&loaded, sjf, None, Backfill::ByWhatIsKnown, Unnamed::Scan).unwrap();
        assert!(sjf.policy.scan != Scan::Easy && sjf.told.is_none_or(|told| !told.contains("easy")));
    }

    /// The leak test: what comes after the moment decides nothing.
    #[test]
    fn what_comes_later_decides_nothing() {
        let (strict, skip) = (Policy::default(), Policy { scan: Scan::Skip, ..Policy::default() });
        let (whole, later) = (loaded(&skip), loaded(&strict));
        let until = whole.workload.submit_ms[61];
        let shuffled = |of: &Loaded| {
            let mut of = of.clone();
            for job in 0..of.workload.len() {
                if of.workload.submit_ms[job] >= until {
                    of.recorded_start_ms[job] = later.recorded_start_ms[job];
                    of.workload.run_ms[job] /= 2;
                }
            }
            of
        };
        let result = today(&whole, Some(until));
        assert_eq!((today(&shuffled(&whole), Some(until)), result.policy.scan), (result, Scan::Skip));
        // Nor does it matter how many come later.
        let jobs: Vec<u32> = (0..90).collect();
        let fewer = Loaded {
            workload: whole.workload.only(&jobs),
            rows: jobs.clone(),
            keys: whole.keys[..90].to_vec(),
            recorded_start_ms: whole.recorded_start_ms[..90].to_vec(),
            ..whole.clone()
        };
        assert_eq!(today(&fewer, Some(until)), today(&whole, Some(until)));
        // The test can fail: with the later starts before that moment strict it would be.
        let other = Loaded { recorded_start_ms: later.recorded_start_ms, ..whole };
        assert_eq!(today(&other, Some(until)).policy, strict);
    }

    #[test]
    fn without_a_scan_that_repeats_the_record_it_stays_as_it_was() {
        let unknown = |policy: &Policy| Today { policy: policy.clone(), known: false, told: None };
        let strict = Policy::default();
        let mut of = loaded(&strict);
        of.recorded_start_ms.iter_mut().flatten().for_each(|start| *start += 9_000_000);
        assert_eq!(today(&of, None), unknown(&strict));
        assert_eq!(today(&Loaded::default(), None), unknown(&strict));
        // Nor is anything sought where another simulator has its own way, or jobs are stopped.
        for policy in [
            Policy { compat: Compat::Helios, ..strict.clone() },
            Policy { preemption: Preemption::Requeue, ..strict.clone() },
        ] {
            assert_eq!(
                todays(&loaded(&strict), policy.clone(), None, Backfill::ByWhatIsKnown, Unnamed::Scan).unwrap(),
                unknown(&policy)
            );
        }
    }
}
