//! The jobs of a replay, as columns of integers.
//!
//! Made once at the border (from a trace, by a generator, by a test) and only read by the engine. About 50 bytes a job.
//! Worked number: a job of 8 GPUs that ran an hour has a shape of 8 whole GPUs and `run_ms` 3,600,000.

use std::collections::{BTreeMap, BTreeSet};

use super::host::HostNeed;
use super::topology::{Topology, TopologyRequest};
use crate::error::{Error, Result};

/// Greatest charge of a job, thousandths.
const MOST_CHARGE: u64 = 1_000_000_000_000_000;

/// How a user is called whom the record does not name, before the name of the VC.
pub const UNKNOWN_USER: &str = "unknown user of ";

/// Amounts that a job asks for, all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shape {
    /// Whole GPUs; 0 if it asks for a part of one.
    pub gpus: u32,
    /// Thousandths of one GPU, 1 to 999; 0 if it asks for whole ones.
    pub milli: u16,
    /// Nodes its GPUs are spread over in equal parts (the last part may be smaller); 0 if the placement rule decides.
    pub nodes: u16,
    /// The GPU type it must have, an index into [`Workload::gpu_types`]; `None` if any will do.
    pub gpu_type: Option<u16>,
    /// How near to each other its nodes are to be; `None` if the placement rule alone decides.
    pub request: Option<TopologyRequest>,
    /// Processors and memory beside GPUs: for each of them, or for the part of one.
    pub host: HostNeed,
}

impl Shape {
    /// `gpus` whole GPUs of any type, on as few nodes as the placement rule likes.
    pub fn whole(gpus: u32) -> Self {
        Self { gpus, ..Self::default() }
    }

    /// `milli` thousandths of one GPU.
    pub fn part(milli: u16) -> Self {
        Self { milli, ..Self::default() }
    }

    /// Returns the amount asked for, in thousandths of a GPU.
    pub fn amount(self) -> u64 {
        u64::from(self.gpus) * 1000 + u64::from(self.milli)
    }

    /// How it is cut into pieces of whole GPUs: the GPUs of a full piece, how many of these, and the rest, which is one piece more if there is any. `largest` is *L*. `None` if it asks for none, or no node has any.
    pub fn cut(self, largest: u32) -> Option<(u32, u32, u32)> {
        let piece = match self.nodes {
            0 => self.gpus.min(largest),
            nodes => self.gpus.div_ceil(u32::from(nodes)),
        };
        Some((piece, self.gpus.checked_div(piece)?, self.gpus.checked_rem(piece)?))
    }

    /// Pods that it is made of where it asks for blocks or racks: how many, and the GPUs of each; the last has what is left. `largest` is *L*, the GPUs of the largest node.
    pub fn pods(self, largest: u32) -> (u32, u32) {
        let nodes = match self.nodes {
            0 => self.gpus.div_ceil(largest.max(1)),
            nodes => u32::from(nodes),
        };
        let each = self.gpus.div_ceil(nodes.max(1)).max(1);
        (self.gpus.div_ceil(each), each)
    }

    /// Processors and memory that a piece of so many of the GPUs takes of a node beside them; of a
    /// part of a GPU, those of the part.
    pub fn host_of(self, gpus: u32) -> HostNeed {
        if self.milli > 0 { self.host } else { self.host.times(gpus) }
    }

    /// GPUs, as a real number.
    pub fn as_gpus(self) -> f64 {
        f64::from(self.gpus) + f64::from(self.milli) / 1000.0
    }
}

/// A job that runs when the replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Warm {
    /// The job; its run is what is left at time 0.
    pub job: u32,
    /// Start, milliseconds, negative.
    pub start_ms: i64,
}

/// Jobs to replay, by submit time.
#[derive(Debug, Clone, Default)]
pub struct Workload {
    /// The moment that is time 0, milliseconds since the Unix epoch (or since the trace began).
    pub origin_ms: i64,
    /// Submission, milliseconds from the origin, never falling; jobs submitted before it (a warm start) have negative ones.
    pub submit_ms: Vec<i64>,
    /// Run time, milliseconds.
    pub run_ms: Vec<i64>,
    /// Time limit, milliseconds.
    pub requested_ms: Vec<Option<i64>>,
    /// How long it was predicted to run, seconds, as the prediction has it: orders by prediction use it unrounded.
    pub predicted_s: Vec<Option<f64>>,
    /// Shape, an index into `shapes`.
    pub shape: Vec<u16>,
    /// VC, an index into the VCs of the cluster.
    pub vc: Vec<u16>,
    /// Who submitted it, an index into `users`.
    pub user: Vec<u32>,
    /// QOS, an index into the QOSs of the cluster's limits; empty without limits.
    pub qos: Vec<Option<u16>>,
    /// Association (the account that is charged, and the user there), an index into those of the
    /// cluster's limits; empty without any.
    pub association: Vec<Option<u32>>,
    /// Charge to the account for as long as the job holds GPUs, thousandths (of a GPU, or of what
    /// else is billed); empty where that is the amount asked for.
    pub charge: Vec<u64>,
    /// Score of an external order, lowest first; empty without one.
    pub score: Vec<f64>,
    /// Priority, highest first, under [`Scan::Kueue`](super::Scan::Kueue), [`Scan::Kai`](super::Scan::Kai) and [`Scan::Volcano`](super::Scan::Volcano); empty if all have the same.
    pub priority: Vec<i32>,
    /// The distinct shapes.
    pub shapes: Vec<Shape>,
    /// Names of users.
    pub users: Vec<String>,
    /// Names of GPU types.
    pub gpu_types: Vec<String>,
    /// Jobs that run at time 0, in order of their start.
    pub warm: Vec<Warm>,
    /// GPU time of jobs that had ended before time 0, GPU-seconds, for orders that learn from history.
    pub history_gpu_s: Vec<f64>,
    /// Jobs of which only the beginning is known (they ran when the record was taken): they hold GPUs for as long as is known, and
    /// are not counted.
    pub unfinished: Vec<u32>,
    /// Jobs that do not run again once a node has failed under them.
    pub once: Vec<u32>,
}

impl Workload {
    /// Jobs.
    pub fn len(&self) -> usize {
        self.submit_ms.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.submit_ms.is_empty()
    }

    /// Returns the shape of a job; an empty one if there is no such job.
    pub fn shape_of(&self, job: usize) -> Shape {
        let at = self.shape.get(job).copied().unwrap_or(u16::MAX);
        self.shapes.get(usize::from(at)).copied().unwrap_or_default()
    }

    /// Whether any job asks for processors or memory beside GPUs. O(shapes).
    pub fn asks_hosts(&self) -> bool {
        self.shapes.iter().any(|shape| !shape.host.is_none())
    }

    /// Whether any job asks for blocks, racks or the like. O(shapes).
    pub fn has_requests(&self) -> bool {
        self.shapes.iter().any(|shape| shape.request.is_some())
    }

    /// Checks that there is what jobs ask of a topology. O(shapes).
    ///
    /// # Errors
    /// If they ask and there is none, or for what it does not have.
    pub(crate) fn check_requests(&self, topology: Option<&Topology>) -> Result<()> {
        self.shapes.iter().filter_map(|shape| shape.request).try_for_each(|request| match topology {
            Some(topology) => topology.check(request),
            None => {
                let what = "jobs ask for blocks or racks, and no topology says which nodes make one";
                Err(Error::Cluster(what.to_owned()))
            }
        })
    }

    /// Returns the jobs without their topology requests. O(jobs).
    #[must_use]
    pub fn without_requests(&self) -> Self {
        let shapes = self.shapes.iter().map(|shape| Shape { request: None, ..*shape }).collect();
        Self { shapes, ..self.clone() }
    }

    /// The QOS of a job; `None` if it has none.
    pub fn qos_of(&self, job: usize) -> Option<u16> {
        self.qos.get(job).copied().flatten()
    }

    /// The association of a job; `None` if it has none.
    pub fn association_of(&self, job: usize) -> Option<u32> {
        self.association.get(job).copied().flatten()
    }

    /// Returns the charge of a job to its account for as long as it holds GPUs, thousandths.
    pub fn charge_of(&self, job: usize) -> u64 {
        self.charge.get(job).copied().unwrap_or_else(|| self.shape_of(job).amount())
    }

    /// GPU time that all jobs ask for, GPU-seconds.
    pub fn asked_gpu_s(&self) -> f64 {
        (0..self.len()).map(|job| self.gpu_s(job)).sum()
    }

    /// GPU time that a job asks for, GPU-seconds.
    pub fn gpu_s(&self, job: usize) -> f64 {
        self.shape_of(job).as_gpus() * self.run_ms.get(job).copied().unwrap_or(0) as f64 / 1000.0
    }

    /// Jobs that hold GPUs but of which nothing is counted: those that ran at time 0, and those whose end is unknown. Each once.
    pub fn uncounted(&self) -> BTreeSet<u32> {
        self.warm.iter().map(|warm| warm.job).chain(self.unfinished.iter().copied()).collect()
    }

    /// The jobs at these indices, in this order, submitted when `submit_ms` says (never falling). A job may be left out, or be there several
    /// times: then its first copy alone runs at time 0. O(n log n).
    #[must_use]
    pub fn arranged(&self, jobs: &[u32], submit_ms: Vec<i64>) -> Self {
        fn column<T: Copy>(values: &[T], jobs: &[u32]) -> Vec<T> {
            jobs.iter().filter_map(|job| values.get(*job as usize).copied()).collect()
        }
        let mut first: BTreeMap<u32, u32> = BTreeMap::new();
        for (now, job) in (0u32..).zip(jobs) {
            first.entry(*job).or_insert(now);
        }
        let flagged = |list: &[u32]| -> Vec<u32> {
            let flagged: BTreeSet<u32> = list.iter().copied().collect();
            (0u32..).zip(jobs).filter(|(_, job)| flagged.contains(job)).map(|(now, _)| now).collect()
        };
        let warm = self.warm.iter().filter_map(|warm| Some(Warm { job: *first.get(&warm.job)?, ..*warm }));
        Self {
            origin_ms: self.origin_ms,
            submit_ms,
            run_ms: column(&self.run_ms, jobs),
            requested_ms: column(&self.requested_ms, jobs),
            predicted_s: column(&self.predicted_s, jobs),
            shape: column(&self.shape, jobs),
            vc: column(&self.vc, jobs),
            user: column(&self.user, jobs),
            qos: column(&self.qos, jobs),
            association: column(&self.association, jobs),
            charge: column(&self.charge, jobs),
            score: column(&self.score, jobs),
            priority: column(&self.priority, jobs),
            shapes: self.shapes.clone(),
            users: self.users.clone(),
            gpu_types: self.gpu_types.clone(),
            warm: warm.collect(),
            history_gpu_s: self.history_gpu_s.clone(),
            unfinished: flagged(&self.unfinished),
            once: flagged(&self.once),
        }
    }

    /// The jobs at these indices, in this order, submitted when they were. O(n log n).
    #[must_use]
    pub fn only(&self, jobs: &[u32]) -> Self {
        self.arranged(jobs, jobs.iter().filter_map(|job| self.submit_ms.get(*job as usize).copied()).collect())
    }

    /// Appends a job that belongs to VC 0 and user 0 and knows nothing but its run. For examples and tests.
    pub fn push(&mut self, submit_ms: i64, run_ms: i64, shape: Shape) {
        let at = self.shapes.iter().position(|known| *known == shape).unwrap_or_else(|| {
            self.shapes.push(shape);
            self.shapes.len() - 1
        });
        self.submit_ms.push(submit_ms);
        self.run_ms.push(run_ms);
        self.requested_ms.push(None);
        self.predicted_s.push(None);
        self.shape.push(u16::try_from(at).unwrap_or(u16::MAX));
        self.vc.push(0);
        self.user.push(0);
        if self.users.is_empty() {
            self.users.push(String::from("nobody"));
        }
    }

    /// Checks that columns are of one length, submissions in order, runs not negative and indices within bounds. O(n).
    ///
    /// # Errors
    /// Names the first job that is wrong, and how.
    pub fn validate(&self, vcs: usize) -> Result<()> {
        let rows = self.len();
        let lengths = [
            self.run_ms.len(),
            self.requested_ms.len(),
            self.predicted_s.len(),
            self.shape.len(),
            self.vc.len(),
            self.user.len(),
        ];
        let optional =
            [self.score.len(), self.priority.len(), self.qos.len(), self.association.len(), self.charge.len()];
        if lengths.iter().any(|length| *length != rows) || optional.iter().any(|length| *length != 0 && *length != rows)
        {
            return Err(Error::Workload { job: 0, what: "columns differ in length".into() });
        }
        if u32::try_from(rows).is_err() {
            return Err(Error::Workload { job: rows, what: "there are more than 4,294,967,295 jobs".into() });
        }
        if let Some(job) = self.charge.iter().position(|charge| *charge > MOST_CHARGE) {
            return Err(Error::Workload { job, what: "its charge is beyond all measure".into() });
        }
        let wrong = |job: usize, what: &str| Err(Error::Workload { job, what: what.into() });
        for shape in &self.shapes {
            if (shape.gpus == 0) == (shape.milli == 0) || shape.milli > 999 {
                return wrong(0, "a shape asks for neither whole GPUs nor a part of one");
            }
            if shape.nodes > 0 && u32::from(shape.nodes) > shape.gpus {
                return wrong(0, "a shape asks for more nodes than GPUs");
            }
            if shape.milli > 0 && shape.request.is_some() {
                return wrong(0, "a part of a GPU lies on one node and asks for no blocks or racks");
            }
        }
        let mut last = i64::MIN;
        for job in 0..rows {
            let submit = self.submit_ms[job];
            if submit < last {
                return wrong(job, "it is submitted before the job before it");
            }
            last = submit;
            if self.run_ms[job] < 0 {
                return wrong(job, "its run is negative");
            }
            if self.predicted_s[job].is_some_and(|predicted| !(0.0..=1e12).contains(&predicted)) {
                return wrong(job, "its prediction is negative or beyond all measure");
            }
            if usize::from(self.shape[job]) >= self.shapes.len() {
                return wrong(job, "its shape is unknown");
            }
            if usize::from(self.vc[job]) >= vcs {
                return wrong(job, "its VC is not in the cluster");
            }
            if self.user[job] as usize >= self.users.len() {
                return wrong(job, "its user is unknown");
            }
        }
        if self.warm.iter().any(|warm| warm.job as usize >= rows) {
            return wrong(0, "a warm start names a job that does not exist");
        }
        if self.unfinished.iter().chain(&self.once).any(|job| *job as usize >= rows) {
            return wrong(0, "a list of jobs names one that does not exist");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn pods_are_equal_and_the_last_has_what_is_left() {
        assert_eq!(Shape::whole(12).pods(8), (2, 6));
        assert_eq!(Shape::whole(8).pods(8), (1, 8));
        assert_eq!(Shape { nodes: 3, ..Shape::whole(13) }.pods(8), (3, 5));
        // 9 on 4 are 3 pods of 3.
        assert_eq!(Shape { nodes: 4, ..Shape::whole(9) }.pods(8), (3, 3));
    }
}
