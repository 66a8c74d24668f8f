//! What Kueue would make of a plan: the objects that are written for it, read back and replayed as Kueue admits jobs.
//!
//! The plan is found with guarantees and borrowing as the replay has them ([`crate::sim`]). Kueue's rules differ: each cycle looks at one head of every queue, only heads are ordered across queues, and jobs
//! to stop are chosen among all that borrow. So the later jobs are replayed once more under [`Scan::Kueue`], first come first served, with the quotas of the very file that would be applied. What comes out stands at the
//! head of that file. Waits are counted as those of all candidates.
//!
//! One replay. Worked number: on the bundled sample with `--scan skip` the sharing that is chosen has a mean wait of the later jobs of 198 s in the plan's replay, and of 192 s as Kueue admits them.

use tracecast_analytics::Trace;
use tracecast_analytics::schema::Resource;

use super::answer::{QueuesAnswer, SHORT_SUFFIX, UnderKueue};
use super::emit::{self, GPU_RESOURCE};
use super::search::{self, QueuesRequest};
use super::setup::{Ground, Knobs};
use super::share::Shares;
use crate::error::Result;
use crate::plan::slug::slug;
use crate::replay::input::{Loaded, QuotaFile};
use crate::sim::{Policy, Preemption, Scan};

/// Plans the queues of a loaded trace, and replays what is written for Kueue. `done` is called after each [replay](search::replays).
///
/// # Errors
/// As [`search::search`].
pub fn plan(
    trace: &Trace,
    loaded: &Loaded,
    title: String,
    request: &QueuesRequest,
    done: &(dyn Fn() + Sync),
) -> Result<QueuesAnswer> {
    let mut answer = QueuesAnswer::of(trace, loaded, title, request, done)?;
    answer.held_out.under_kueue = replayed(&answer, loaded, &request.today)?;
    Ok(answer)
}

/// Replays what is written for Kueue, where the plan is followed and shares nodes.
///
/// # Errors
/// As [`crate::sim::simulate`].
fn replayed(answer: &QueuesAnswer, loaded: &Loaded, today: &Policy) -> Result<Option<UnderKueue>> {
    if emit::shared(answer).is_none() || loaded.resource != Resource::Gpus {
        return Ok(None);
    }
    // Where a VC has no name that Kubernetes takes, nothing can be written for it.
    let Some((_, text)) = emit::kueue(answer, GPU_RESOURCE).ok().and_then(|files| files.into_iter().next()) else {
        return Ok(None);
    };
    let file = QuotaFile::parse("kueue.yaml", &text)?;
    let cluster = file.govern(&loaded.cluster, Resource::Gpus, loaded.workload.origin_ms, &mut Vec::new())?;
    let queue_of = |vc: &str| {
        let name = slug(vc);
        cluster.vcs.iter().position(|queue| Some(&queue.name) == name.as_ref())
    };
    // All VCs queue together where the plan has one queue.
    let together = cluster.vcs.len() == 1;
    let queues: Option<Vec<u16>> = loaded
        .cluster
        .vcs
        .iter()
        .map(|vc| if together { Some(0) } else { queue_of(&vc.name).and_then(|at| u16::try_from(at).ok()) })
        .collect();
    let Some(queues) = queues else { return Ok(None) };
    let mut workload = loaded.workload.clone();
    for vc in &mut workload.vc {
        *vc = queues.get(usize::from(*vc)).copied().unwrap_or(0);
    }
    for (job, vc) in short_jobs(answer, loaded, today)? {
        let name = loaded.cluster.vcs.get(vc).map_or("", |vc| vc.name.as_str());
        let queue = queue_of(&format!("{name}{SHORT_SUFFIX}")).and_then(|at| u16::try_from(at).ok());
        if let (Some(place), Some(queue)) = (workload.vc.get_mut(job), queue) {
            *place = queue;
        }
    }
    let policy = Policy {
        scan: Scan::Kueue,
        preemption: Preemption::Requeue,
        checkpoint_ms: today.checkpoint_ms,
        ..Policy::default()
    };
    let (jobs, stopped, lost_gpu_hours) = search::outcome(&workload, &cluster, &policy, answer.split_ms)?;
    Ok(jobs.map(|jobs| UnderKueue { later: jobs.into(), stopped, lost_gpu_hours }))
}

/// Jobs that go to the queue of short jobs of their VC, and that VC.
fn short_jobs(answer: &QueuesAnswer, loaded: &Loaded, today: &Policy) -> Result<Vec<(usize, usize)>> {
    let Some(chosen) = answer.setup() else { return Ok(Vec::new()) };
    let Some(short) = chosen.short_queue else { return Ok(Vec::new()) };
    let (shares, cluster) = (Shares::of(&loaded.cluster)?, &loaded.cluster);
    let estimate = Knobs::new(&loaded.workload, cluster, today).estimate();
    let ground = Ground { cluster, shares: &shares, asked: &answer.asked_gpu_s, estimate };
    let routes = ground.routes(&ground.shares_of(&chosen.setup), short, &loaded.workload);
    Ok(routes.into_iter().map(|(job, vc)| (job, usize::from(vc) - cluster.vcs.len())).collect())
}
