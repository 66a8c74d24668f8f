//! What is a VC's own in a cluster, and the ways in which VCs can share all of it.
//!
//! A VC's **own share** is the nodes that only it queues for; of nodes that several VCs queue for it is its guarantee, else its quota. In a pool with
//! borrowing every VC is [guaranteed](crate::sim) its own share, and may use what others leave idle up to a **ceiling**, a multiple of its share.
//! Without **reclaiming** it waits for jobs that borrowed to end; with it they are stopped and begin anew, and their VC bears that.
//!
//! O(VCs × changes of size). Worked number: a VC with 12 nodes of 8 GPUs and a ceiling of 1.5 is served first up to 96 GPUs and uses 144 at most.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::sim::cluster::amount_at;
use crate::sim::{Cluster, Group, Pool, Vc};

/// Thousandths in a GPU.
const MILLI: u64 = 1000;

/// How VCs share the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum Sharing {
    /// Shares as the cluster has them today.
    AsToday,
    /// Each VC on nodes of its own.
    Private,
    /// One pool, in which each VC is served first up to its own share.
    Borrowing {
        /// The most a VC may use, as a multiple of its own share; `None` for all there is.
        ceiling: Option<f64>,
        /// Whether jobs that borrow are stopped for jobs of a VC within its own share.
        reclaim: bool,
    },
    /// One pool without shares.
    OnePool,
}

impl Sharing {
    /// The ways that are tried beside today's.
    pub const TRIED: [Self; 10] = [
        Self::Borrowing { ceiling: Some(1.25), reclaim: false },
        Self::Borrowing { ceiling: Some(1.5), reclaim: false },
        Self::Borrowing { ceiling: Some(2.0), reclaim: false },
        Self::Borrowing { ceiling: Some(3.0), reclaim: false },
        Self::Borrowing { ceiling: None, reclaim: false },
        Self::OnePool,
        Self::Borrowing { ceiling: Some(1.5), reclaim: true },
        Self::Borrowing { ceiling: Some(2.0), reclaim: true },
        Self::Borrowing { ceiling: Some(3.0), reclaim: true },
        Self::Borrowing { ceiling: None, reclaim: true },
    ];

    /// How many kinds of limits it sets for the VCs: none, their own shares, ceilings beside these.
    pub(super) fn limits(self) -> u8 {
        match self {
            Self::AsToday | Self::Private | Self::OnePool => 0,
            Self::Borrowing { ceiling, .. } => 1 + u8::from(ceiling.is_some()),
        }
    }

    /// Whether jobs that borrow are stopped for a VC that needs its own share.
    pub fn reclaims(self) -> bool {
        matches!(self, Self::Borrowing { reclaim: true, .. })
    }

    /// Promises a VC its own share, and bounds what it may use.
    pub(super) fn promise(self, vc: &mut Vc, own: &Amounts) {
        vc.guarantee_milli.clone_from(own);
        if let Self::Borrowing { ceiling: Some(ceiling), .. } = self {
            let most = |milli: u64| ceiling_of(milli as f64 / MILLI as f64, ceiling) as u64 * MILLI;
            vc.quota_milli = own.iter().map(|(from, milli)| (*from, most(*milli))).collect();
        }
    }

    /// In words, to stand alone in a table.
    pub fn in_words(self) -> String {
        match self {
            Self::AsToday => "as today".to_owned(),
            Self::Private => "nodes of one's own".to_owned(),
            Self::Borrowing { ceiling, reclaim } => {
                let most = ceiling.map_or_else(|| "all".to_owned(), |most| format!("to {most} ×"));
                format!("borrow {most}{}", if reclaim { ", reclaim" } else { "" })
            }
            Self::OnePool => "no shares".to_owned(),
        }
    }
}

/// A part of each share that is kept for short jobs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ShortQueue {
    /// How long they are estimated to run at most, seconds.
    pub within_s: u32,
    /// The part.
    pub part: f64,
}

impl ShortQueue {
    /// Whole GPUs of a share that are kept.
    pub fn kept(self, own_gpus: f64) -> f64 {
        (own_gpus * self.part).floor()
    }
}

/// An amount of GPUs over time, thousandths: (from, amount), in order of time; the first holds from the beginning.
pub type Amounts = Vec<(i64, u64)>;

/// The own share of each VC of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares(Vec<Amounts>);

impl Shares {
    /// Shares of a cluster, in the order of its VCs.
    ///
    /// # Errors
    /// If VCs queue for the same nodes and nothing says which part is whose, or that is said in cells.
    pub fn new(cluster: &Cluster) -> Result<Self> {
        if let Some(vc) = cluster.with_cells() {
            return Err(Error::cluster(format!(
                "VC {} is guaranteed cells, which `simulate` alone knows; give it guaranteed_gpus here",
                vc.name
            )));
        }
        let shares: Result<Vec<Amounts>> = cluster
            .vcs
            .iter()
            .map(|vc| {
                match (cluster.is_alone(vc), vc.guarantee_milli.is_empty(), vc.quota_milli.is_empty()) {
                    (true, ..) => Ok(cluster.pools.get(usize::from(vc.pool)).map(gpus_of).unwrap_or_default()),
                    (false, false, _) => Ok(vc.guarantee_milli.clone()),
                    (false, true, false) => Ok(vc.quota_milli.clone()),
                    (false, true, true) => Err(Error::cluster(format!(
                        "VC {} shares its nodes with others, and nothing says which part is its own; give each VC of the pool guaranteed_gpus or \
                         quota_gpus in a file for --site",
                        vc.name
                    ))),
                }
            })
            .collect();
        let shares = Self(shares?);
        shares.check(cluster)?;
        Ok(shares)
    }

    /// Checks that no pool has promised more than it has. Quotas bound, and often add up to more.
    fn check(&self, cluster: &Cluster) -> Result<()> {
        for (at, pool) in cluster.pools.iter().enumerate() {
            let members: Vec<usize> = (0..cluster.vcs.len())
                .filter(|vc| cluster.vcs.get(*vc).is_some_and(|vc| usize::from(vc.pool) == at))
                .collect();
            let has = gpus_of(pool);
            let times = members.iter().filter_map(|vc| self.0.get(*vc)).flatten().chain(&has).map(|(from, _)| *from);
            for now in times.chain([0]) {
                let promised: f64 = members.iter().map(|vc| self.gpus_at(*vc, now)).sum();
                let there = at_moment(&has, now);
                if members.len() > 1 && promised > there {
                    return Err(Error::cluster(format!(
                        "VCs that share a pool of {there} GPUs are promised {promised} in all; give them guaranteed_gpus that the pool can keep"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Share of a VC at a moment, GPUs.
    pub fn gpus_at(&self, vc: usize, now: i64) -> f64 {
        self.0.get(vc).map_or(0.0, |amounts| at_moment(amounts, now))
    }

    /// Amounts of each VC, in the order of the cluster's VCs.
    pub(super) fn amounts(&self) -> &[Amounts] {
        &self.0
    }

    /// Returns the shares moved by a part (0 to 1) of the way to where each VC has as much of all
    /// shares as of all GPU time that was `asked` for, in whole GPUs. The total stays what it is:
    /// GPUs left by rounding down go, one each, to the VCs that lost most by it.
    #[must_use]
    pub fn moved(&self, request: &[f64], part: f64) -> Self {
        let all: f64 = request.iter().sum();
        if all <= 0.0 {
            return self.clone();
        }
        let times: BTreeSet<i64> = self.0.iter().flatten().map(|(from, _)| *from).collect();
        let mut result: Vec<Amounts> = vec![Vec::new(); self.0.len()];
        for now in times {
            let total: f64 = (0..self.0.len()).map(|vc| self.gpus_at(vc, now)).sum();
            let wanted = |vc: usize| {
                let share = request.get(vc).copied().unwrap_or(0.0) / all;
                (1.0 - part) * self.gpus_at(vc, now) + part * total * share
            };
            for (amounts, gpus) in result.iter_mut().zip(whole(total, (0..self.0.len()).map(wanted))) {
                amounts.push((now, gpus * MILLI));
            }
        }
        Self(result)
    }

    /// Each share in two: what is left for other jobs, and what is kept for short ones.
    pub(super) fn kept(&self, short: ShortQueue) -> (Self, Self) {
        let kept = |milli: u64| short.kept(milli as f64 / MILLI as f64) as u64 * MILLI;
        let of = |amount: &dyn Fn(u64) -> u64| {
            let each = |amounts: &Amounts| amounts.iter().map(|(from, milli)| (*from, amount(*milli))).collect();
            Self(self.0.iter().map(each).collect())
        };
        (of(&|milli| milli - kept(milli)), of(&kept))
    }

    /// `cluster`, whose shares these are, shared in another way.
    ///
    /// # Errors
    /// If a VC cannot get nodes of its own, as those of its pool are of several kinds.
    pub fn shared(&self, cluster: &Cluster, sharing: Sharing) -> Result<Cluster> {
        match sharing {
            Sharing::AsToday => Ok(cluster.clone()),
            Sharing::Private => self.private(cluster),
            Sharing::OnePool => Ok(cluster.pooled()),
            Sharing::Borrowing { .. } => {
                let mut pooled = cluster.pooled();
                for (vc, own) in pooled.vcs.iter_mut().zip(&self.0) {
                    sharing.promise(vc, own);
                }
                Ok(pooled)
            }
        }
    }

    /// Failures are left out where VCs shared nodes, as nobody knows which of them would be whose.
    fn private(&self, cluster: &Cluster) -> Result<Cluster> {
        if is_private(cluster) {
            return Ok(cluster.clone());
        }
        let mut result = Cluster { gpu_types: cluster.gpu_types.clone(), ..Cluster::default() };
        for (vc, own) in cluster.vcs.iter().zip(&self.0) {
            let pool = result.pools.len() as u16;
            let groups = cluster.pools.get(usize::from(vc.pool)).map_or(&[][..], |pool| &pool.groups);
            if cluster.is_alone(vc) {
                result.pools.push(Pool { groups: groups.to_vec() });
                result.vcs.push(Vc::new(vc.name.clone(), pool));
                continue;
            }
            let [group] = groups else {
                let kind = |group: &Group| (group.gpus_per_node, group.gpu_type);
                let alike = groups.iter().all(|group| groups.first().is_some_and(|first| kind(first) == kind(group)));
                let hosts = groups.iter().any(|group| groups.first().is_some_and(|first| first.host != group.host));
                let (differ, way) = if alike && hosts {
                    (", which differ in processors or memory alone", "--site hosts=none plans for GPUs alone")
                } else {
                    ("", "give it nodes of its own, or make a pool of each kind")
                };
                let what = format!(
                    "VC {}: the nodes it shares are of several kinds{differ}, so its own share is none of nodes; {way}",
                    vc.name
                );
                return Err(Error::cluster(what));
            };
            let nodes = |milli: u64| {
                u32::try_from(milli.div_ceil(MILLI * u64::from(group.gpus_per_node.max(1)))).unwrap_or(u32::MAX)
            };
            let sizes = own.iter().map(|(from, milli)| (*from, nodes(*milli))).collect();
            result.pools.push(Pool { groups: vec![Group { sizes, ..group.clone() }] });
            result.vcs.push(Vc::new(vc.name.clone(), pool));
        }
        Ok(result)
    }
}

/// An amount at a moment, GPUs.
fn at_moment(amounts: &[(i64, u64)], now: i64) -> f64 {
    amount_at(amounts, now) as f64 / MILLI as f64
}

/// Amounts as whole numbers that add up to the whole part of their `total`: each rounded down, and one more for those that lost most by it, the first of equals.
fn whole(total: f64, amounts: impl Iterator<Item = f64>) -> Vec<u64> {
    // What is a whole number but for rounding is one.
    let amounts: Vec<f64> = amounts.map(|gpus| gpus + 1e-9).collect();
    let mut result: Vec<u64> = amounts.iter().map(|gpus| gpus.floor() as u64).collect();
    let left = ((total + 1e-9).floor() as u64).saturating_sub(result.iter().sum());
    let mut by_loss: Vec<(f64, &mut u64)> = amounts.iter().map(|gpus| gpus.fract()).zip(&mut result).collect();
    by_loss.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, gpus) in by_loss.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        *gpus += 1;
    }
    result
}

/// The most GPUs that a VC with a share of `gpus` may use under a ceiling.
pub fn ceiling_of(gpus: f64, ceiling: f64) -> f64 {
    (gpus * ceiling).ceil()
}

/// Whether every VC is on nodes of its own.
pub fn is_private(cluster: &Cluster) -> bool {
    cluster.vcs.iter().all(|vc| cluster.is_alone(vc))
}

/// GPUs of a pool over time, thousandths.
fn gpus_of(pool: &Pool) -> Amounts {
    let mut changes: BTreeMap<i64, i64> = BTreeMap::new();
    for group in &pool.groups {
        let mut before = 0;
        for (at, (from, nodes)) in group.sizes.iter().enumerate() {
            let from = if at == 0 { i64::MIN } else { *from };
            *changes.entry(from).or_default() += i64::from(*nodes) * i64::from(group.gpus_per_node) - before;
            before = i64::from(*nodes) * i64::from(group.gpus_per_node);
        }
    }
    let mut now = 0;
    changes
        .into_iter()
        .map(|(from, change)| {
            now += change;
            (from, now.unsigned_abs() * MILLI)
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_number() {
        let cluster = Cluster::of_vcs(&[("a", 12, 8), ("b", 4, 8)]);
        let shares = Shares::new(&cluster).unwrap();
        let pool = shares.shared(&cluster, Sharing::Borrowing { ceiling: Some(1.5), reclaim: false }).unwrap();
        assert_eq!(pool.pools.len(), 1);
        assert_eq!((pool.vcs[0].guarantee_at(0), pool.vcs[0].quota_milli[0].1), (96_000, 144_000));
        assert_eq!((shares.gpus_at(1, 0), pool.largest()), (32.0, (16, 128)));
        assert!(is_private(&cluster) && !is_private(&pool));
        // Converts back: what is guaranteed in the pool is private to a VC on private nodes.
        let back = Shares::new(&pool).unwrap();
        assert_eq!(back.gpus_at(0, 0), 96.0);
        assert_eq!(back.shared(&pool, Sharing::Private).unwrap().largest(), (16, 128));
    }

    #[test]
    fn shares_move_to_what_is_asked_for_and_are_kept_in_part() {
        let shares = Shares::new(&Cluster::of_vcs(&[("a", 1, 12), ("b", 1, 4)])).unwrap();
        let half = shares.moved(&[7.0, 7.0], 0.5);
        assert_eq!((half.gpus_at(0, 0), half.gpus_at(1, 0)), (10.0, 6.0));
        // Thirds of 16 are 5 1/3 and 10 2/3: whole GPUs, and no more and no fewer than there are.
        let thirds = shares.moved(&[1.0, 2.0], 1.0);
        assert_eq!((thirds.gpus_at(0, 0), thirds.gpus_at(1, 0)), (5.0, 11.0));
        assert_eq!(shares.moved(&[0.0, 0.0], 1.0), shares);
        let (others, kept) = half.kept(ShortQueue { within_s: 60, part: 0.25 });
        assert_eq!((others.gpus_at(0, 0), kept.gpus_at(0, 0)), (8.0, 2.0));
    }

    proptest! {
        /// However shares move, the pool's GPUs are all somebody's, and nobody's twice.
        #[test]
        fn no_gpu_is_lost_when_shares_move(of in prop::collection::vec((0u32..40, 0.0f64..1e6), 2..9), part in 0.0f64..=1.0) {
            let names: Vec<String> = (0..of.len()).map(|vc| format!("vc{vc}")).collect();
            let vcs: Vec<(&str, u32, u32)> = names.iter().zip(&of).map(|(name, (nodes, _))| (name.as_str(), *nodes, 8)).collect();
            let shares = Shares::new(&Cluster::of_vcs(&vcs)).unwrap();
            let request: Vec<f64> = of.iter().map(|(_, request)| *request).collect();
            let moved = shares.moved(&request, part);
            let sum = |of: &Shares| (0..names.len()).map(|vc| of.gpus_at(vc, 0)).sum::<f64>();
            prop_assert_eq!(sum(&moved), sum(&shares));
        }
    }

    #[test]
    fn a_share_that_nobody_told_is_asked_for() {
        let cluster = Cluster::of_vcs(&[("a", 12, 8), ("b", 4, 8)]).pooled();
        assert!(Shares::new(&cluster).unwrap_err().to_string().contains("guaranteed_gpus"));
    }

    #[test]
    fn promises_that_no_pool_can_keep_are_none() {
        let mut cluster = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]).pooled();
        cluster.vcs.iter_mut().for_each(|vc| vc.quota_milli = vec![(0, 12_000)]);
        let said = Shares::new(&cluster).unwrap_err().to_string();
        assert!(said.contains("a pool of 16 GPUs are promised 24"), "{said}");
        cluster.vcs.iter_mut().for_each(|vc| vc.quota_milli = vec![(0, 8_000)]);
        assert!(Shares::new(&cluster).is_ok());
    }

    #[test]
    fn a_vc_alone_keeps_its_kinds_of_nodes() {
        let mut cluster = Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]);
        cluster.pools[0].groups.push(Group::fixed(2, 4));
        cluster.vcs.push(Vc { guarantee_milli: vec![(0, 4_000)], ..Vc::new("c", 1) });
        cluster.vcs[1].guarantee_milli = vec![(0, 4_000)];
        let private = Shares::new(&cluster).unwrap().shared(&cluster, Sharing::Private).unwrap();
        assert_eq!(private.pools[0], cluster.pools[0]);
        assert!(is_private(&private));
    }

    #[test]
    fn nodes_that_differ_in_processors_are_of_several_kinds_but_for_gpus_alone() {
        let mut cluster = Cluster::of_vcs(&[("a", 1, 8)]);
        cluster.pools[0].groups.push(Group::fixed(1, 8));
        cluster.vcs.push(Vc::new("b", 0));
        cluster.vcs.iter_mut().for_each(|vc| vc.guarantee_milli = vec![(0, 4_000)]);
        let said = |cluster: &Cluster| {
            Shares::new(cluster).unwrap().shared(cluster, Sharing::Private).unwrap_err().to_string()
        };
        assert!(said(&cluster).contains("make a pool of each kind"), "{}", said(&cluster));
        cluster.pools[0].groups[0].host.cores_milli = Some(64_000);
        assert!(said(&cluster).contains("--site hosts=none"), "{}", said(&cluster));
        cluster.pools[0].groups[1].gpus_per_node = 4;
        assert!(!said(&cluster).contains("--site hosts=none"), "{}", said(&cluster));
    }

    #[test]
    fn a_node_that_moves_takes_its_share_along() {
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8), ("b", 1, 8)]);
        cluster.pools[0].groups[0].sizes.push((50, 1));
        cluster.pools[1].groups[0].sizes.push((50, 2));
        let shares = Shares::new(&cluster).unwrap();
        assert_eq!([0, 50].map(|now| (shares.gpus_at(0, now), shares.gpus_at(1, now))), [(16.0, 8.0), (8.0, 16.0)]);
    }
}
