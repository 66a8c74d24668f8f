//! What Kueue would make of a plan: the objects that are written for it, read back and replayed as Kueue admits jobs.
//!
//! The plan is found with guarantees and borrowing as the replay has them ([`crate::sim`]). Kueue's rules differ: each cycle looks at one head of every queue, only heads are ordered across queues, and jobs
//! to stop are chosen among all that borrow. So the later jobs are replayed once more under [`Scan::Kueue`], first come first served, with the quotas of the very file that would be applied. What comes out stands at the
//! head of that file. Waits are counted as those of all candidates.
//!
//! **Lending limits** are Kueue's alone: a queue then lends a part of its own share at most, and keeps the rest idle for its own jobs. The earlier jobs are replayed as Kueue admits them with each of
//! [`LENDS`]. A limit is set where it wrongs no VC and is better than none by the margin of the [search](super::search), or where without one a VC is wronged.
//!
//! O(limits) replays. Worked number: on the bundled sample with `--scan skip` the sharing that is chosen has a mean wait of the later jobs of 198 s in the plan's replay, and of 192 s as Kueue admits them.

use rayon::prelude::*;
use tracecast_analytics::schema::Resource;

use super::answer::{LendingTried, QueuesBody, SHORT_SUFFIX, UnderKueue};
use super::emit;
use super::measure::{EarlierOutcome, Times, Yardstick};
use super::search;
use super::setup::{Ground, Knobs, Setup};
use super::share::{Shares, Sharing};
use super::trial::{beats, times};
use crate::error::Result;
use crate::plan::emit::GPU_RESOURCE;
use crate::plan::slug::slug;
use crate::replay::input::{Loaded, QuotaFile};
use crate::sim::{Cluster, Policy, Preemption, Scan, Workload};

/// Parts of its own share that a queue lends at most; all of it, which is no limit, first.
const LENDS: [f64; 4] = [1.0, 0.75, 0.5, 0.25];

/// Replays what is written for Kueue, where the plan shares nodes.
///
/// # Errors
/// Errors of [`crate::sim::simulate`].
pub(super) fn replayed(body: &QueuesBody, loaded: &Loaded, today: &Policy) -> Result<Option<UnderKueue>> {
    let Some(sharing) = body.shares().filter(|_| loaded.resource == Resource::Gpus) else { return Ok(None) };
    let Some(all) = Admission::of(body, loaded, today, None)? else { return Ok(None) };
    let lending = match sharing {
        Sharing::Borrowing { .. } => lending(body, loaded, today)?,
        _ => Vec::new(),
    };
    let lends = chosen(&lending);
    let admission = match lends {
        Some(part) => Admission::of(body, loaded, today, Some(part))?.unwrap_or(all),
        None => all,
    };
    let (jobs, stopped, lost_gpu_hours) =
        search::outcome(&admission.jobs(&loaded.workload), &admission.cluster, &admission.policy, body.split_ms)?;
    let name = |vc: &usize| loaded.cluster.vc_name(*vc);
    let tried = lending.iter().map(|(part, of)| LendingTried {
        part: *part,
        cost: of.cost,
        allowed: of.is_allowed(),
        wronged: of.wronged.iter().map(name).collect(),
        earlier: of.waits.into(),
    });
    let lending = tried.collect();
    Ok(jobs.map(|jobs| UnderKueue { lends, lending, later: jobs.into(), stopped, lost_gpu_hours }))
}

/// The plan as Kueue admits jobs.
struct Admission {
    cluster: Cluster,
    policy: Policy,
    /// Queue of the jobs of each VC.
    queues: Vec<u16>,
    /// Jobs that go to a queue of short jobs, and that queue.
    short: Vec<(usize, u16)>,
}

impl Admission {
    /// With the quotas of the very file that would be applied; `None` where nothing can be written, as a VC has no name that Kubernetes takes.
    fn of(body: &QueuesBody, loaded: &Loaded, today: &Policy, lends: Option<f64>) -> Result<Option<Self>> {
        let Some(sharing) = body.shares() else { return Ok(None) };
        let Ok(text) = emit::quotas(body, (sharing, lends), GPU_RESOURCE, "") else { return Ok(None) };
        let file = QuotaFile::parse("kueue.yaml", &text)?;
        let cluster = file.govern(&loaded.cluster, Resource::Gpus, loaded.workload.origin_ms, &mut Vec::new())?;
        let queue_of = |vc: &str| {
            let name = slug(vc);
            let at = cluster.vcs.iter().position(|queue| Some(&queue.name) == name.as_ref());
            at.and_then(|at| u16::try_from(at).ok())
        };
        // All VCs queue together where the plan has one queue.
        let together = cluster.vcs.len() == 1;
        let vcs = &loaded.cluster.vcs;
        let queues: Option<Vec<u16>> =
            vcs.iter().map(|vc| if together { Some(0) } else { queue_of(&vc.name) }).collect();
        let Some(queues) = queues else { return Ok(None) };
        let short = short_jobs(body, loaded, today)?.into_iter().filter_map(|(job, vc)| {
            let name = vcs.get(vc).map_or("", |vc| vc.name.as_str());
            Some((job, queue_of(&format!("{name}{SHORT_SUFFIX}"))?))
        });
        let short = short.collect();
        let policy = Policy {
            scan: Scan::Kueue,
            preemption: Preemption::Requeue,
            checkpoint_ms: today.checkpoint_ms,
            ..Policy::default()
        };
        Ok(Some(Self { cluster, policy, queues, short }))
    }

    /// All jobs, each in its queue.
    fn jobs(&self, all: &Workload) -> Workload {
        let mut jobs = all.clone();
        for vc in &mut jobs.vc {
            *vc = self.queues.get(usize::from(*vc)).copied().unwrap_or(0);
        }
        for (job, queue) in &self.short {
            if let Some(place) = jobs.vc.get_mut(*job) {
                *place = *queue;
            }
        }
        jobs
    }
}

/// What the earlier jobs do with each limit of what a queue lends, none first.
fn lending(body: &QueuesBody, loaded: &Loaded, today: &Policy) -> Result<Vec<(f64, EarlierOutcome)>> {
    let known = loaded.clone().as_known_at(body.split_ms);
    let shares = Shares::new(&loaded.cluster)?;
    let estimate = Knobs::new(&known.workload, &loaded.cluster, today).estimate();
    let ground = Ground { cluster: &loaded.cluster, shares: &shares, asked: &body.asked_gpu_s, estimate };
    // Nobody is told under Kueue when a job starts.
    let times = |sharing: Sharing| times(&ground, &Setup::new(sharing, today.clone()), &known.workload, &[]);
    let yardstick = Yardstick::new(
        &known.workload,
        ((0, body.split_ms), &body.objective),
        (times(Sharing::Private)?, &times(Sharing::AsToday)?),
        true,
    );
    let one = |part: &f64| -> Result<Option<(f64, EarlierOutcome)>> {
        let lends = Some(*part).filter(|part| *part < 1.0);
        let Some(admission) = Admission::of(body, &known, today, lends)? else { return Ok(None) };
        let times = Times::run(&admission.jobs(&known.workload), &admission.cluster, &admission.policy)?;
        Ok(Some((*part, yardstick.judge(&times))))
    };
    let result: Vec<Option<(f64, EarlierOutcome)>> = LENDS.par_iter().map(one).collect::<Result<_>>()?;
    Ok(result.into_iter().flatten().collect())
}

/// The limit that is set, if any is: the cheapest that wrongs nobody, where no limit wrongs a VC or costs clearly more.
fn chosen(lending: &[(f64, EarlierOutcome)]) -> Option<f64> {
    let (all, limited) = lending.split_first()?;
    let allowed = limited.iter().filter(|(_, of)| of.is_allowed());
    let (part, best) = allowed.min_by(|(_, a), (_, b)| a.mean_cost().total_cmp(&b.mean_cost()))?;
    beats(best, &all.1).then_some(*part)
}

/// Jobs that go to the queue of short jobs of their VC, and that VC.
fn short_jobs(body: &QueuesBody, loaded: &Loaded, today: &Policy) -> Result<Vec<(usize, usize)>> {
    let Some(chosen) = body.setup() else { return Ok(Vec::new()) };
    let Some(short) = chosen.short_queue else { return Ok(Vec::new()) };
    let (shares, cluster) = (Shares::new(&loaded.cluster)?, &loaded.cluster);
    let estimate = Knobs::new(&loaded.workload, cluster, today).estimate();
    let ground = Ground { cluster, shares: &shares, asked: &body.asked_gpu_s, estimate };
    let routes = ground.routes(&ground.shares_of(&chosen.setup), short, &loaded.workload);
    Ok(routes.into_iter().map(|(job, vc)| (job, usize::from(vc) - cluster.vcs.len())).collect())
}

#[cfg(test)]
mod tests {
    use super::super::objective::JobWaits;
    use super::*;

    /// A limit that costs so much in every third, and wrongs these VCs.
    fn with(part: f64, cost: f64, wronged: &[usize]) -> (f64, EarlierOutcome) {
        let (by_window, wronged) = (vec![cost; 3], wronged.to_vec());
        (part, EarlierOutcome { waits: JobWaits::NONE, cost, by_window, wronged, complete: true })
    }

    #[test]
    fn a_limit_is_set_where_it_helps_clearly_or_a_vc_is_wronged_without() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[with(1.0, 0.5, &[]), with(0.5, 0.49, &[])]), None);
        assert_eq!(chosen(&[with(1.0, 0.5, &[]), with(0.75, 0.45, &[]), with(0.5, 0.4, &[])]), Some(0.5));
        assert_eq!(chosen(&[with(1.0, 0.2, &[3]), with(0.75, 0.3, &[3]), with(0.5, 0.4, &[])]), Some(0.5));
        assert_eq!(chosen(&[with(1.0, 0.2, &[3]), with(0.75, 0.3, &[3])]), None);
    }
}
