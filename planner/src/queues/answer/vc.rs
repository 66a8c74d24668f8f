//! What to set for each VC, and what it does to its later jobs.
//!
//! O(VCs + jobs). Worked example: a VC with 96 GPUs of its own and a ceiling of 1.5 is to be guaranteed 96 GPUs and may use 144.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::super::search::SearchOutcome;
use super::super::setup::Setup;
use super::super::share::{Shares, Sharing, ceiling_of, is_private};
use super::WaitOf;
use crate::replay::compare::IntervalEstimate;
use crate::replay::input::Loaded;
use crate::replay::metric::OfferedLoads;
use crate::sim::Group;

/// GPUs of a type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OwnGpus {
    /// The type, if types are known.
    pub gpu_type: Option<String>,
    /// How many.
    pub gpus: f64,
}

/// Settings for a VC from now on, and their effect on its later jobs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct VcPlan {
    /// Name of the VC.
    pub vc: String,
    /// GPUs that are its own from now on, as chosen where the plan is followed.
    pub own_gpus: f64,
    /// GPUs that are its own at the end of the data.
    pub own_today_gpus: f64,
    /// Private GPUs that are kept for short jobs; none without a queue for them.
    pub short_gpus: Option<f64>,
    /// GPUs of its largest job.
    pub largest_job_gpus: f64,
    /// Offered load of the whole record: GPU time that its jobs ask for, each run whole, over what its own share has from the first to the last submission of any job, or for as long as the longest run if
    /// that is more. Above 1, no order on its own share catches up.
    pub offered_load: Option<f64>,
    /// Private GPUs from now on, by type.
    pub own: Vec<OwnGpus>,
    /// The most GPUs it may use from now on, as chosen where the plan is followed; none if only the pool bounds it.
    pub most_gpus: Option<f64>,
    /// Waits of the later jobs today; none without later jobs.
    pub today: Option<WaitOf>,
    /// Waits on private nodes.
    pub private: Option<WaitOf>,
    /// Waits of the later jobs under the chosen setup.
    pub recommended: Option<WaitOf>,
    /// 95 % quantile of the wait under the chosen setup less that on private nodes, seconds; none
    /// with fewer than 20 jobs.
    pub p95_wait_change_s: Option<IntervalEstimate>,
}

impl VcPlan {
    /// GPUs of its own of each type: nodes of one type may lie in several groups.
    pub(in crate::queues) fn own_by_type(&self) -> BTreeMap<Option<&str>, f64> {
        let mut result = BTreeMap::new();
        for own in &self.own {
            *result.entry(own.gpu_type.as_deref()).or_default() += own.gpus;
        }
        result
    }

    /// The part of it that is kept for short jobs, or the rest, with `own` GPUs; a ceiling bounds each part.
    pub(super) fn part(&self, suffix: &str, own_gpus: f64, ceiling: Option<f64>) -> Self {
        let share = if self.own_gpus > 0.0 { own_gpus / self.own_gpus } else { 0.0 };
        let own = self.own.iter().map(|own| OwnGpus { gpus: (own.gpus * share).floor(), ..own.clone() }).collect();
        Self {
            vc: format!("{}{suffix}", self.vc),
            own_gpus,
            own,
            most_gpus: ceiling.map(|ceiling| ceiling_of(own_gpus, ceiling)),
            short_gpus: None,
            ..self.clone()
        }
    }

    /// GPUs that it may use beyond its own; none if only the pool bounds it.
    pub(in crate::queues) fn may_borrow(&self) -> Option<f64> {
        self.most_gpus.map(|most| (most - self.own_gpus).max(0.0))
    }
}

/// The plan of each VC, where this is set; `today` are the shares that there are.
pub(super) fn plans(
    loaded: &Loaded,
    today: &Shares,
    (result, offered): (&SearchOutcome, Option<&OfferedLoads>),
    set: &Setup,
) -> Vec<VcPlan> {
    let cluster = &loaded.cluster;
    let moved = set.moved > 0.0;
    let shares = if moved { &result.shares } else { today };
    let apart = is_private(cluster);
    let mut largest = vec![0.0f64; cluster.vcs.len()];
    for (job, vc) in loaded.workload.vc.iter().enumerate() {
        if let Some(largest) = largest.get_mut(usize::from(*vc)) {
            *largest = largest.max(loaded.workload.shape_of(job).as_gpus());
        }
    }
    let named = |gpu_type: Option<u16>| gpu_type.and_then(|at| cluster.gpu_types.get(usize::from(at)).cloned());
    let plan = |at: usize| {
        let vc = cluster.vcs.get(at)?;
        let own_gpus = shares.gpus_at(at, i64::MAX);
        let groups = cluster.pools.get(usize::from(vc.pool)).map_or(&[][..], |pool| &pool.groups);
        let own = if moved {
            // Shares move where all nodes are of one kind.
            let gpu_type = groups.first().and_then(|group| named(group.gpu_type));
            vec![OwnGpus { gpu_type, gpus: own_gpus }]
        } else if apart {
            let gpus = |group: &Group| {
                f64::from(group.sizes.last().map_or(0, |(_, nodes)| *nodes)) * f64::from(group.gpus_per_node)
            };
            groups.iter().map(|group| OwnGpus { gpu_type: named(group.gpu_type), gpus: gpus(group) }).collect()
        } else {
            vec![OwnGpus { gpu_type: None, gpus: own_gpus }]
        };
        let later = result.by_vc.iter().find(|of| of.vc == at);
        Some(VcPlan {
            vc: vc.name.clone(),
            own_gpus,
            own_today_gpus: today.gpus_at(at, i64::MAX),
            short_gpus: set.short.map(|short| short.kept(own_gpus)),
            largest_job_gpus: largest.get(at).copied().unwrap_or(0.0),
            offered_load: offered.and_then(|offered| offered.by_vc.get(at)?.load),
            own,
            most_gpus: match set.sharing {
                Sharing::Borrowing { ceiling: Some(ceiling), .. } => Some(ceiling_of(own_gpus, ceiling)),
                Sharing::AsToday | Sharing::Private if cluster.is_alone(vc) => Some(own_gpus),
                Sharing::AsToday | Sharing::Private => vc.quota_milli.last().map(|(_, milli)| *milli as f64 / 1e3),
                Sharing::Borrowing { ceiling: None, .. } | Sharing::OnePool => None,
            },
            today: later.map(|of| of.today.into()),
            private: later.map(|of| of.private.into()),
            recommended: later.map(|of| of.chosen.into()),
            p95_wait_change_s: later.and_then(|of| of.change.as_ref()).map(|change| change.p95_wait_s),
        })
    };
    (0..cluster.vcs.len()).filter_map(plan).collect()
}
