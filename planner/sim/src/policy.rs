//! The switches of a policy: order, scan, placement, preemption, and what the scheduler knows of durations.
//!
//! Each is chosen freely, as the literature confounds them: what a paper calls SRTF is order, scan and preemption at once.
//! [`Policy::validate`] refuses the few combinations that mean nothing. Worked example: what the Helios paper calls QSSF is
//! the order [`Order::Qssf`] with the scan [`Scan::Strict`], [`Placement::Consolidate`] and no preemption.

use tracecast_analytics::schema::Resource;

use super::cluster::{Cluster, Vc};
use super::topology::Topology;
use super::weights::Weights;
use crate::error::{Error, Result};

/// Who is served first; see [`super::order`] for the keys.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// First submitted.
    Fifo,
    /// Fewest GPUs.
    FewestGpus,
    /// Shortest estimate.
    Sjf,
    /// Longest estimate.
    Ljf,
    /// Shortest remaining estimate.
    Srtf,
    /// Least GPU time by the prediction.
    Qssf,
    /// Least GPU time by the estimate, with ageing: e times the GPU time counts as submitted so many milliseconds later.
    Aged(i64),
    /// Least GPU time by the estimate, with ageing, where the expected run goes by jobs alike that
    /// have ended, and the ageing time is so many times the longest wait in the pool now.
    Alike(f64),
    /// Least attained GPU time.
    Las,
    /// Two-dimensional least attained service in queues, FIFO within: the bounds of the queues in GPU-seconds, rising.
    Tiresias(Vec<f64>),
    /// Greatest Gittins index by the history.
    Gittins,
    /// −(wait / estimate)³ × GPUs.
    Wfp3,
    /// log₁₀(estimate) × GPUs + 870 log₁₀(submit).
    F1,
    /// −wait / (log₂(1 + GPUs) × estimate).
    Unicef,
    /// Slurm's weighted sum.
    Multifactor(Weights),
    /// Least decayed GPU time of the tenant; the half-life in milliseconds.
    FairShare(i64),
    /// Least GPU time of the tenant since the beginning (long-term GPU-time fairness, as Astraea).
    LongTerm,
    /// Greatest finish-time ratio (as Themis).
    FinishTime,
    /// Lowest score of an external file.
    Score,
}

/// How the queue is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Stop at the first that does not fit.
    Strict,
    /// Pass over what does not fit.
    Skip,
    /// Backfill that does not delay the head of the queue.
    Easy,
    /// Backfill that does not delay anyone's reservation.
    Conservative,
    /// Backfill as Slurm's plugin plans it: whole nodes on whole minutes. It chooses nodes itself.
    Slurm,
    /// Kueue's admission: a head of every queue a cycle, within quotas in cohorts.
    Kueue,
    /// KAI's cycles: by fair shares of queues in a tree.
    Kai,
    /// Volcano's sessions: by what queues deserve.
    Volcano,
}

impl Scan {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Strict, Self::Skip, Self::Easy, Self::Conservative, Self::Slurm, Self::Kueue, Self::Kai, Self::Volcano];

    /// Returns the name in options and files.
    pub fn id(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Skip => "skip",
            Self::Easy => "easy",
            Self::Conservative => "conservative",
            Self::Slurm => "slurm",
            Self::Kueue => "kueue",
            Self::Kai => "kai",
            Self::Volcano => "volcano",
        }
    }

    /// The one that is called so, if there is one.
    pub fn called(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scan| scan.id() == id)
    }

    /// Whether the scan reserves for jobs that wait, and so decides by how long jobs are expected
    /// to run.
    pub fn backfills(self) -> bool {
        matches!(self, Self::Easy | Self::Conservative | Self::Slurm)
    }

    /// Whether the scan reserves for every waiting job, as far ahead as the policy's depth and
    /// window have it.
    pub fn reserves_for_all(self) -> bool {
        matches!(self, Self::Conservative | Self::Slurm)
    }

    /// The scheduler of Kubernetes whose objects say how queues share, if it is one.
    pub fn scheduler(self) -> Option<&'static str> {
        match self {
            Self::Kueue => Some("kueue"),
            Self::Kai => Some("kai"),
            Self::Volcano => Some("volcano"),
            Self::Strict | Self::Skip | Self::Easy | Self::Conservative | Self::Slurm => None,
        }
    }
}

/// Where a job goes; see [`super::place`] for the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On as few nodes as possible, as the Helios simulator does.
    Consolidate,
    /// First node that fits.
    FirstFit,
    /// Node with the least free that fits.
    BestFit,
    /// Node with the most free.
    WorstFit,
    /// GPU by GPU on the emptiest node.
    Spread,
    /// Nodes in an order drawn from the seed, filled up.
    Random,
    /// Least increase of fragmentation (FGD).
    Fragmentation,
    /// Buddy cells (HiveD), above the node too where nodes lie in racks or blocks.
    Buddy,
    /// Consolidated until the job has waited so long (milliseconds), then anywhere (Philly).
    Locality(i64),
}

impl Placement {
    /// Wherever anything is free: locality given up from the beginning.
    pub const ANYWHERE: Self = Self::Locality(0);
}

/// Whether running jobs may be stopped, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Never.
    Never,
    /// Stopped with a checkpoint, at a cost in run time by size.
    Checkpoint {
        /// Up to one GPU, milliseconds.
        one_ms: i64,
        /// 2 to 8 GPUs, milliseconds.
        node_ms: i64,
        /// Above, milliseconds.
        many_ms: i64,
    },
    /// Stopped as if a node had failed under them: what was done since the last checkpoint ([`Policy::checkpoint_ms`]) is lost. Only where VCs have
    /// guarantees, as otherwise jobs could stop each other for ever.
    Requeue,
}

impl Preemption {
    /// The cost of the Helios simulator: 7, 30 and 60 s.
    pub const HELIOS: Self = Self::Checkpoint { one_ms: 7_000, node_ms: 30_000, many_ms: 60_000 };
    /// The cost Lucid's simulator takes for Tiresias: 40 s up to 8 GPUs, 60 s above.
    pub const TIRESIAS: Self = Self::Checkpoint { one_ms: 40_000, node_ms: 40_000, many_ms: 60_000 };

    /// Cost of being preempted for a job of `shape`, milliseconds.
    pub fn cost_ms(self, shape: super::Shape) -> i64 {
        match self {
            Self::Never | Self::Requeue => 0,
            Self::Checkpoint { one_ms, node_ms, many_ms } => match shape.gpus {
                0 | 1 => one_ms,
                2..=8 => node_ms,
                _ => many_ms,
            },
        }
    }
}

/// Which duration the scheduler knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimate {
    /// The true one: an oracle.
    True,
    /// The time limit; where there is none, the true one.
    Requested,
    /// The prediction; where there is none, the time limit, then the true one.
    Predicted,
}

/// Whose simulator is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compat {
    /// None: the contract of [`super`].
    None,
    /// The simulator published with the Helios traces.
    Helios,
}

/// A scheduling policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Who is served first.
    pub order: Order,
    /// How the queue is walked.
    pub scan: Scan,
    /// Where jobs go.
    pub placement: Placement,
    /// Whether running jobs may be stopped.
    pub preemption: Preemption,
    /// Which duration the scheduler knows.
    pub estimate: Estimate,
    /// Decide only at multiples of so many milliseconds.
    pub interval_ms: Option<i64>,
    /// Jobs that the scans `conservative` and `slurm` look at in a decision; all if `None`.
    pub depth: Option<u32>,
    /// How far ahead of a decision the scans `conservative` and `slurm` reserve, milliseconds; without end if `None`.
    pub window_ms: Option<i64>,
    /// Progress a job saves by itself, every so many milliseconds of its run; what is since then is lost when a node fails.
    pub checkpoint_ms: Option<i64>,
    /// Whether fairness is between VCs; between users otherwise.
    pub tenants_are_vcs: bool,
    /// Seed of what is drawn.
    pub seed: u64,
    /// Whose simulator is imitated.
    pub compat: Compat,
}

impl Default for Policy {
    /// FIFO, strict, consolidated, no preemption, true durations.
    fn default() -> Self {
        Self {
            order: Order::Fifo,
            scan: Scan::Strict,
            placement: Placement::Consolidate,
            preemption: Preemption::Never,
            estimate: Estimate::True,
            interval_ms: None,
            depth: None,
            window_ms: None,
            checkpoint_ms: None,
            tenants_are_vcs: false,
            seed: 1,
            compat: Compat::None,
        }
    }
}

impl Order {
    /// Weights, if it has any.
    pub(crate) fn weights(&self) -> Option<&Weights> {
        match self {
            Self::Multifactor(weights) => Some(weights),
            _ => None,
        }
    }

    /// Whether a job's key stays what it was when it was submitted.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Fifo
            | Self::FewestGpus
            | Self::Sjf
            | Self::Ljf
            | Self::Qssf
            | Self::Aged(_)
            | Self::F1
            | Self::Score => true,
            Self::Srtf
            | Self::Alike(_)
            | Self::Las
            | Self::Tiresias(_)
            | Self::Gittins
            | Self::Wfp3
            | Self::Unicef
            | Self::Multifactor(_)
            | Self::FairShare(_)
            | Self::LongTerm
            | Self::FinishTime => false,
        }
    }

    /// Whether the key of a running job changes so that waiting jobs overtake it between events.
    fn drifts(&self) -> bool {
        matches!(
            self,
            Self::Alike(_)
                | Self::Las
                | Self::Tiresias(_)
                | Self::Gittins
                | Self::Wfp3
                | Self::Unicef
                | Self::Multifactor(_)
                | Self::FairShare(_)
                | Self::LongTerm
                | Self::FinishTime
        )
    }
}

impl Policy {
    /// Adapts the policy to jobs that compete for `resource`: processors and nodes go wherever they
    /// are free, as a log does not say which belong together, unless another placement than the
    /// default was chosen.
    #[must_use]
    pub fn on(self, resource: Resource) -> Self {
        let anywhere = resource != Resource::Gpus && self.placement == Placement::Consolidate;
        Self { placement: if anywhere { Placement::ANYWHERE } else { self.placement }, ..self }
    }

    /// How many waiting jobs a decision looks at, if that has a bound.
    pub fn most_looked_at(&self) -> Option<u32> {
        self.depth.filter(|_| self.scan.reserves_for_all())
    }

    /// How far ahead a decision reserves, if that has a bound, milliseconds.
    pub fn farthest_ms(&self) -> Option<i64> {
        self.window_ms.filter(|_| self.scan.reserves_for_all())
    }

    /// Whether nodes are chosen by the switches that they hang on, as Slurm's topology/tree does.
    pub(crate) fn heeds_switches(&self, topology: &Topology) -> bool {
        self.scan == Scan::Slurm && topology.is_of_switches()
    }

    /// Whether racks and blocks, where there are any, are cells above the node. False under the scan `slurm`, which chooses nodes in its own way, whatever the placement.
    pub(crate) fn heeds_cells(&self) -> bool {
        self.placement == Placement::Buddy && self.scan != Scan::Slurm
    }

    /// Checks the combination against the workload.
    ///
    /// # Errors
    /// Says which two switches do not go together, or what the workload lacks.
    pub fn validate(&self, workload: &super::Workload) -> Result<()> {
        let wrong = |what: &str| Err(Error::Policy(what.to_owned()));
        let preempts = self.preemption != Preemption::Never;
        if preempts && self.scan.backfills() {
            return wrong("backfill reserves for jobs that run on; use the scan `strict` or `skip` with preemption");
        }
        // Who is requeued is a matter of guarantees, and of quotas under Kueue, KAI and Volcano.
        let by_keys = self.scan.scheduler().is_none() && self.preemption != Preemption::Requeue;
        if preempts && by_keys && self.order.drifts() && self.interval_ms.is_none() && self.compat == Compat::None {
            return wrong(
                "this order changes all the time, so preemption needs a decision interval (--site interval=60s)",
            );
        }
        if self.scan == Scan::Slurm && workload.shapes.iter().any(|shape| shape.milli > 0) {
            return wrong("the scan `slurm` knows no parts of GPUs; use `conservative`");
        }
        if workload.has_requests() && self.scan == Scan::Slurm {
            return wrong(
                "jobs ask for blocks or racks, and Slurm knows no such requests: its --switches gives up after a delay, and no record has it. The scan `slurm` chooses leaf switches by itself where the cluster file has them; leave out the rules of --site topology, or use another scan. --site topology=none leaves out what jobs asked themselves, and the switches",
            );
        }
        if workload.has_requests() && self.compat != Compat::None {
            return wrong(
                "jobs ask for blocks or racks, and compatible replays choose nodes by themselves; leave out the compatibility, or use --site topology=none",
            );
        }
        if let Preemption::Checkpoint { one_ms, node_ms, many_ms } = self.preemption
            && one_ms.min(node_ms).min(many_ms) < 0
        {
            return wrong("a preemption cannot cost less than nothing");
        }
        if [self.interval_ms, self.checkpoint_ms, self.window_ms].iter().flatten().any(|time| *time <= 0) {
            return wrong("an interval or window must be longer than nothing");
        }
        if self.depth == Some(0) {
            return wrong("a backfill that looks at no job starts none; give a depth of 1 or more");
        }
        if let Order::Multifactor(Weights { age, max_age_ms, fair_share, size, qos, half_life_ms, .. }) = self.order
            && (![age, fair_share, size, qos].iter().all(|weight| weight.is_finite())
                || max_age_ms <= 0
                || half_life_ms <= 0)
        {
            return wrong(
                "multifactor needs weights that are numbers, and a half-life and maximal age longer than nothing",
            );
        }
        if matches!(self.order, Order::FairShare(half_life_ms) if half_life_ms <= 0) {
            return wrong("fair share needs a half-life longer than nothing");
        }
        if matches!(self.order, Order::Aged(tau_ms) if tau_ms < 0) {
            return wrong("an aged order needs an ageing time of at least 0");
        }
        if matches!(self.order, Order::Alike(share) if !(share.is_finite() && share >= 0.0)) {
            return wrong("the order `alike` needs a share of the longest wait of at least 0");
        }
        if self.order == Order::Score && workload.score.is_empty() {
            return wrong("the order `score` needs a score file (--score)");
        }
        if self.order == Order::Gittins && workload.history_gpu_s.len() < 30 {
            return wrong(
                "the order `gittins` needs at least 30 jobs that ended before the replay begins; leave it a history with --from",
            );
        }
        if let Order::Tiresias(bounds) = &self.order
            && !(bounds.iter().all(|bound| bound.is_finite() && *bound > 0.0) && bounds.is_sorted())
        {
            return wrong("the bounds of the Tiresias queues must rise");
        }
        Ok(())
    }

    /// Checks the combination against the cluster.
    ///
    /// # Errors
    /// Says which two things do not go together.
    pub fn goes_with(&self, cluster: &Cluster) -> Result<()> {
        if let Some(scheduler) = self.scan.scheduler() {
            if cluster.limits.is_some() {
                return Err(Error::Policy(format!(
                    "limits by QOS are Slurm's; the scan `{scheduler}` does not know them (limits = \"none\")"
                )));
            }
            let there = match self.scan {
                Scan::Kai => cluster.kai.is_some(),
                Scan::Volcano => cluster.volcano.is_some(),
                _ => cluster.cohorts.is_some(),
            };
            return match there {
                true => Ok(()),
                false => Err(Error::Policy(format!(
                    "the scan `{scheduler}` needs the quotas of its queues (--site quota, with objects of that scheduler)"
                ))),
            };
        }
        if let Some(vc) = cluster.with_cells() {
            let wrong = |what: &str| {
                Err(Error::Policy(format!("VC {} is guaranteed cells (guaranteed_cells), {what}", vc.name)))
            };
            if self.scan.backfills() {
                return wrong("and backfill reserves for jobs that run on; use the scan `strict` or `skip`");
            }
            if self.preemption == Preemption::Never {
                return wrong(
                    "and what others run in them has to stop when they are needed; use preemption (--preempt requeue)",
                );
            }
            if self.compat != Compat::None {
                return wrong("which no compatible replay knows; leave out --site compat, or the cells");
            }
            if cluster.limits.is_some() {
                return wrong("which does not go together with limits by QOS; leave one of them out");
            }
        }
        if cluster.limits.is_some() {
            let guaranteed = (0..cluster.pools.len()).any(|pool| cluster.guarantees(pool));
            if cluster.limits.as_ref().is_some_and(super::Limits::preempts) {
                if matches!(self.scan, Scan::Easy | Scan::Conservative) {
                    return Err(Error::Policy(
                        "a QOS stops jobs of another (Preempt) under the scans `strict`, `skip` and `slurm`".to_owned(),
                    ));
                }
                if self.preemption != Preemption::Never {
                    return Err(Error::Policy(
                        "the limits say who is preempted (Preempt of a QOS); leave out --preempt".to_owned(),
                    ));
                }
            }
            if self.compat != Compat::None {
                return Err(Error::Policy(
                    "no compatible replay knows limits by QOS; leave out --site compat, or the limits".to_owned(),
                ));
            }
            if guaranteed {
                return Err(Error::Policy(
                    "limits by QOS do not go together with guaranteed_gpus; leave one of them out".to_owned(),
                ));
            }
        }
        let without = |vc: &&Vc| !cluster.guarantees(usize::from(vc.pool));
        match cluster.vcs.iter().find(without) {
            Some(vc) if self.preemption == Preemption::Requeue => Err(Error::Policy(format!(
                "jobs that lose what they did could stop each other for ever; `requeue` needs guaranteed_gpus or guaranteed_cells in every pool, and nothing is guaranteed where VC \
                 {} queues",
                vc.name
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the policy decides by how long jobs really run, which nobody knows beforehand: if it
    /// is told so, or if so many jobs have neither a time limit nor a prediction that their true
    /// runs stand for more than a twentieth of them.
    pub fn is_oracle(&self, workload: &super::Workload) -> bool {
        match self.known_by_true_run(workload) {
            Some(jobs) => jobs * 20 > workload.len(),
            None => self.uses_durations(),
        }
    }

    /// Jobs that it knows by their true run because they have neither a time limit nor, where it asks for predictions, a prediction; `None` where durations
    /// change nothing, and where it is told to know all by their true run. O(jobs).
    pub fn known_by_true_run(&self, workload: &super::Workload) -> Option<usize> {
        if !self.uses_durations() || self.estimate == Estimate::True {
            return None;
        }
        let requested = |job: usize| workload.requested_ms.get(job).copied().flatten().is_some();
        let predicted = |job: usize| {
            self.estimate == Estimate::Predicted && workload.predicted_s.get(job).copied().flatten().is_some()
        };
        Some((0..workload.len()).filter(|job| !requested(*job) && !predicted(*job)).count())
    }

    /// Checks that predictions are there where it asks for them: without any, limits and true runs would stand for all of them.
    ///
    /// # Errors
    /// If it asks for predictions, and `there_are` none.
    pub fn check_predictions(&self, there_are: bool) -> Result<()> {
        if self.estimate == Estimate::Predicted && !there_are {
            return Err(Error::Policy(
                "the estimate `predicted` needs predictions: name a file that `tracecast model predict duration` wrote with --predictions, or take the estimate `requested`, the time limits"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Returns the policy with the weights that it has under limits: those of the limits, where it
    /// names none.
    pub(crate) fn weighted(&self, limits: &super::Limits) -> Self {
        let mut policy = self.clone();
        if let Order::Multifactor(weights) = &mut policy.order {
            *weights = limits.weights(weights);
        }
        policy
    }

    /// Whether predicted durations can change anything.
    pub fn goes_by_predictions(&self) -> bool {
        self.uses_durations() && self.estimate == Estimate::Predicted
    }

    /// Whether what the scheduler knows of durations can change anything.
    pub fn uses_durations(&self) -> bool {
        let order = match self.order {
            Order::Sjf
            | Order::Ljf
            | Order::Srtf
            | Order::Qssf
            | Order::Aged(_)
            | Order::Alike(_)
            | Order::Wfp3
            | Order::F1
            | Order::Unicef
            | Order::FinishTime => true,
            Order::Fifo
            | Order::FewestGpus
            | Order::Las
            | Order::Tiresias(_)
            | Order::Gittins
            | Order::Multifactor(_)
            | Order::FairShare(_)
            | Order::LongTerm
            | Order::Score => false,
        };
        order || self.scan.backfills()
    }

    /// The estimate the scheduler has of `job`, milliseconds.
    pub fn estimate_ms(&self, workload: &super::Workload, job: usize) -> i64 {
        let run = workload.run_ms.get(job).copied().unwrap_or(0);
        let requested = workload.requested_ms.get(job).copied().flatten();
        let predicted = workload.predicted_s.get(job).copied().flatten();
        match self.estimate {
            Estimate::True => run,
            Estimate::Requested => requested.unwrap_or(run),
            Estimate::Predicted => {
                predicted.map(|seconds| (seconds * 1000.0).round() as i64).or(requested).unwrap_or(run)
            }
        }
    }
}
