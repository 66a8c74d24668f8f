//! How nodes of several kinds stand, and which jobs queue for which of them.
//!
//! ```text
//! in one queue    today's kinds and those as fast as these; every job may run on any node that has the GPU type it asks for
//! all of one kind nodes of another speed take the place of all: runs are divided by the kind's speed over today's
//! apart           nodes of one kind for jobs of some sizes, with a queue of their own; the others stay on today's kinds, in today's proportions
//! ```
//!
//! Today's nodes are of one speed. A job that asks for another GPU type than a kind has stays on today's nodes. Time limits stay as they
//! are; predicted runs are divided like the runs. O(jobs). Worked number: a run of 3 h on a kind twice as fast is one of 1.5 h.

use tracecast_analytics::facts::SizeClass;

use super::kinds::{EQUAL, KindStock, NodeKind};
use crate::capacity::part::Part;
use crate::sim::Workload;

/// How nodes stand. Kinds are positions in the kinds of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// In one queue.
    OneQueue,
    /// All of one kind.
    All(usize),
    /// One kind apart, for the jobs of these classes.
    Apart(usize, Vec<SizeClass>),
}

/// A queue of a way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Side<'a> {
    /// All jobs, at the speed of today.
    All,
    /// All jobs on a kind, which is so many times as fast as said.
    On(usize, f64),
    /// Jobs of these classes on a kind.
    Own(usize, &'a [SizeClass]),
    /// The other jobs.
    Rest(usize, &'a [SizeClass]),
}

/// Kinds of a part, and how fast they are beside its nodes of today.
#[derive(Debug, Clone)]
pub(super) struct PartKinds<'a> {
    /// The part with all kinds.
    pub(super) part: Part,
    /// Kinds of the part itself, then the others.
    pub(super) kinds: Vec<&'a NodeKind>,
}

impl<'a> PartKinds<'a> {
    /// Combines a part with its kinds.
    pub(super) fn new(part: &Part, kinds: Vec<&'a NodeKind>) -> Self {
        let further = kinds.iter().skip(part.groups().len());
        let further: Vec<(u32, Option<String>)> =
            further.map(|kind| (kind.gpus_per_node, kind.gpu_type.clone())).collect();
        Self { part: part.with_kinds(&further), kinds }
    }

    /// Whether a kind is one of today's.
    pub(super) fn is_own(&self, kind: usize) -> bool {
        kind < self.part.own_kinds()
    }

    /// How fast jobs of a class run on a kind, over how fast they run today.
    pub(super) fn speed(&self, kind: usize, class: SizeClass) -> f64 {
        // Today's kinds are of one speed: a file in which they are not is refused.
        let today = self.kinds.first().map_or(1.0, |kind| kind.speed(class));
        self.kinds.get(kind).map_or(1.0, |kind| kind.speed(class) / today)
    }

    /// Whether a kind stands in the queue of today's nodes.
    pub(super) fn in_one_queue(&self, kind: usize) -> bool {
        SizeClass::ALL.into_iter().all(|class| (self.speed(kind, class) - 1.0).abs() <= EQUAL)
    }

    /// Cost of an hour of so many nodes by kind.
    pub(super) fn per_h(&self, counts: &[u32]) -> f64 {
        let of = |((kind, now), count): ((&&NodeKind, &u32), &u32)| {
            f64::from(*count.min(now)) * kind.there_per_h + f64::from(count.saturating_sub(*now)) * kind.per_h
        };
        self.kinds.iter().zip(self.part.now()).zip(counts).map(of).sum()
    }

    /// Nodes of each kind that are there, and that are to be.
    pub(super) fn stock(&self, counts: &[u32]) -> Vec<KindStock> {
        let of = |((kind, there), nodes): ((&&NodeKind, &u32), &u32)| KindStock {
            kind: kind.name.clone(),
            there: *there,
            nodes: *nodes,
        };
        self.kinds.iter().zip(self.part.now()).zip(counts).map(of).collect()
    }

    /// Most nodes of a kind.
    pub(super) fn most(&self, kind: usize) -> u32 {
        let now = self.part.now().get(kind).copied().unwrap_or(0);
        let limit = self.kinds.get(kind).and_then(|kind| kind.most_per_pool);
        limit.map_or(u32::MAX, |limit| limit.max(now))
    }

    /// Whether so many nodes by kind can be had.
    pub(super) fn is_had(&self, counts: &[u32]) -> bool {
        counts.iter().enumerate().all(|(kind, count)| *count <= self.most(kind))
    }

    /// `nodes` nodes of one kind, and none of the others.
    pub(super) fn only(&self, kind: usize, nodes: u32) -> Vec<u32> {
        (0..self.kinds.len()).map(|at| if at == kind { nodes } else { 0 }).collect()
    }

    /// Jobs of a side, by position.
    fn members(&self, jobs: &Workload, side: Side<'_>) -> Vec<u32> {
        let is_own = |job: usize, kind: usize, classes: &[SizeClass]| {
            let shape = jobs.shape_of(job);
            let has = self.part.groups().get(kind).and_then(|group| group.gpu_type);
            (shape.gpu_type.is_none() || shape.gpu_type == has) && classes.contains(&SizeClass::new(shape.as_gpus()))
        };
        let within = |job: &u32| match side {
            Side::All | Side::On(..) => true,
            Side::Own(kind, classes) => is_own(*job as usize, kind, classes),
            Side::Rest(kind, classes) => !is_own(*job as usize, kind, classes),
        };
        (0u32..).take(jobs.len()).filter(within).collect()
    }

    /// The jobs of a side with the runs that they have there, and those of them that are among the `judged`.
    pub(super) fn jobs(&self, jobs: &Workload, judged: &[u32], side: Side<'_>) -> (Workload, Vec<u32>) {
        let members = self.members(jobs, side);
        let mut result = jobs.only(&members);
        let (kind, faster) = match side {
            Side::On(kind, faster) => (Some(kind), faster),
            Side::Own(kind, _) => (Some(kind), 1.0),
            Side::All | Side::Rest(..) => (None, 1.0),
        };
        if let Some(kind) = kind {
            let speeds = SizeClass::ALL.map(|class| self.speed(kind, class) * faster);
            let speed = |shape: &u16| {
                let gpus = result.shapes.get(usize::from(*shape)).map_or(0.0, |shape| shape.as_gpus());
                speeds.get(SizeClass::new(gpus) as usize).copied().unwrap_or(1.0)
            };
            let by_job: Vec<f64> = result.shape.iter().map(speed).collect();
            for ((run, predicted), speed) in result.run_ms.iter_mut().zip(&mut result.predicted_s).zip(by_job) {
                *run = (*run as f64 / speed).round() as i64;
                *predicted = predicted.map(|seconds| seconds / speed);
            }
        }
        let is_judged = |(_, job): &(u32, &u32)| judged.binary_search(job).is_ok();
        let judged = (0u32..).zip(&members).filter(is_judged).map(|(now, _)| now).collect();
        (result, judged)
    }

    /// Ways to have a kind apart, for the small jobs or for the large ones, where there are `classes`.
    pub(super) fn apart(&self, kind: usize, classes: &[SizeClass]) -> Vec<Way> {
        let cuts = classes.iter().skip(1);
        let sides = cuts.flat_map(|cut| {
            let (small, large): (Vec<SizeClass>, Vec<SizeClass>) =
                SizeClass::ALL.into_iter().partition(|class| class < cut);
            [small, large]
        });
        sides.map(|classes| Way::Apart(kind, classes)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::capacity::mix::NodeKinds;
    use crate::sim::{Cluster, Group, Shape};

    #[test]
    fn jobs_of_a_side_by_hand() {
        let text = "[[kind]]\nname = \"now\"\ngpus_per_node = 8\nper_hour = 8\nthere_per_hour = 5\n\
                    [[kind]]\nname = \"h\"\ngpu_type = \"H\"\ngpus_per_node = 8\nper_hour = 20\nspeed = 2\nspeed_by_class = { \"1\" = 1.5 }\n\
                    [[kind]]\nname = \"four\"\ngpus_per_node = 4\nper_hour = 3\nmost_per_pool = 6\n";
        let kinds = NodeKinds::parse("k.toml", text).unwrap();
        let mut cluster = Cluster::of_vcs(&[("a", 2, 8)]);
        cluster.gpu_types = vec!["H".to_owned()];
        cluster.pools[0].groups = vec![Group::fixed(2, 8)];
        let part = Part::all(&cluster, 0).remove(0);
        let of = PartKinds::new(&part, kinds.of_part(&part).unwrap());
        assert_eq!((of.in_one_queue(0), of.in_one_queue(1), of.in_one_queue(2)), (true, false, true));
        // Two that are there at 5, one more at 8, and four at 3.
        assert_eq!((of.per_h(&[3, 0, 4]), of.per_h(&[1, 1, 0]), of.most(2)), (30.0, 25.0, 6));
        let mut jobs = Workload { gpu_types: cluster.gpu_types.clone(), ..Workload::default() };
        jobs.push(0, 3000, Shape::whole(1));
        jobs.push(1, 3000, Shape::whole(8));
        jobs.push(2, 3000, Shape { gpu_type: Some(0), ..Shape::whole(1) });
        let large = [SizeClass::Node, SizeClass::Many];
        let (on, judged) = of.jobs(&jobs, &[0, 2], Side::On(1, 1.0));
        assert_eq!((on.run_ms, judged), (vec![2000, 1500, 2000], vec![0, 2]));
        let (own, _) = of.jobs(&jobs, &[], Side::Own(1, &large));
        let (rest, judged) = of.jobs(&jobs, &[0, 1], Side::Rest(1, &large));
        assert_eq!(
            (own.submit_ms, rest.submit_ms, rest.run_ms, judged),
            (vec![1], vec![0, 2], vec![3000, 3000], vec![0])
        );
        // The job that asks for H does not go to nodes without it.
        assert_eq!(of.jobs(&jobs, &[], Side::Own(2, &[SizeClass::One])).0.submit_ms, [0]);
        let ways = of.apart(1, &[SizeClass::One, SizeClass::Node]);
        assert_eq!(ways.len(), 2);
        assert!(matches!(&ways[1], Way::Apart(1, classes) if classes == &large));
    }
}
