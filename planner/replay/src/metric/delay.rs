//! Why jobs waited: what kept each from starting at every moment of its wait, summed.
//!
//! At every moment each waiting job is delayed by one cause, found in this order. *a* is what it asks for; *free* is
//! what no job holds on nodes that take jobs, rests of GPUs in parts included, counting only nodes of the GPU type it must have:
//!
//! 1. **capacity**: less than *a* is free in the whole cluster;
//! 2. **quota**: its VC's quota leaves less than *a*, or less than *a* is free in its pool, while the whole cluster has enough;
//! 3. **fragmentation**: enough is free, but the consolidated placement rule finds no nodes for the gang;
//! 4. **head of line**: it would fit, but waits: behind others, for the next decision, or for a place its own placement
//!    rule likes better.
//!
//! Where there are limits by QOS, a fifth comes before all of these: **limit**, the job is over one ([`super::limit`] says which). A job that asks for blocks or racks waits for
//! **fragmentation** if too few nodes have room for its pods, and for the **topology** if enough have, but not near enough to each other ([`super::near`]).
//!
//! Where jobs ask for processors and memory and nodes have so much of them, two more stand between fragmentation and head of line, for a job for which GPUs alone would do: **processors**, if the rule finds no nodes that have its GPUs with their processors, whatever the
//! memory; **memory**, if it finds such, but none with the memory as well. So where both are short, processors count. Capacity, quota and fragmentation look at GPUs alone. Worked example: two nodes with 4 GPUs free each, one with 2 cores left, the other with 64 cores and 10 GiB. A job of 2 GPUs that
//! asks for 8 cores and 16 GiB for each waits for memory: the second node has the cores. If it asks for 40 cores each, it waits for processors.
//!
//! In the words of `squeue` the
//! first three of the list are *Resources*, and the fourth is *Priority*.
//!
//! Over all counted jobs that were not rejected, from their submission (or time 0) to the last end; a job that never started
//! waits to that end. Counted is the time in the queue: the part of a [wait](super::times) that was lost work has no cause here.
//! Waiting is summed as job-hours and as GPU-hours (what the job asks for × its wait). The job counts say
//! for how many a cause was the largest part of the wait; ties go to the cause named first.
//!
//! Complexity: one walk through the schedule, O(n log n + events × shapes).
//!
//! Worked number: a job of 4 GPUs that waits 90 s for quota and 10 s behind others adds 0.1 GPU-hours to quota, 0.011 to head
//! of line, and is one of quota's jobs.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;

use super::group::DurationClass;
use super::sweep::CAUSES;
use super::times::{JobTimes, hours};
use tracecast_sim::cluster::Cluster;
use tracecast_sim::topology::Topology;
use tracecast_sim::workload::Workload;

/// Reason why a job did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The whole cluster had too few GPUs free.
    Capacity,
    /// The VC's quota or pool had too few GPUs free, the whole cluster had enough.
    Quota,
    /// Enough were free, but no nodes for the gang.
    Fragmentation,
    /// The policy held the job back, although it would have fit.
    HeadOfLine,
    /// A limit of the QOS or partition; only where there are such limits.
    Limit,
    /// Pods would have found nodes, but not within one domain as the job asks; only where jobs ask
    /// for blocks or racks.
    Topology,
    /// Nodes had its GPUs, but not with processors for them; only where processors and memory count.
    Processors,
    /// Nodes had its GPUs and processors for them, but not with memory as well; only where processors and memory count.
    Memory,
}

impl Cause {
    /// The causes that there always are, in the order of the tests.
    pub const ALL: [Self; 4] = [Self::Capacity, Self::Quota, Self::Fragmentation, Self::HeadOfLine];

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Quota => "quota",
            Self::Fragmentation => "fragmentation",
            Self::HeadOfLine => "head of line",
            Self::Limit => "limit",
            Self::Topology => "topology",
            Self::Processors => "processors",
            Self::Memory => "memory",
        }
    }

    /// All causes with whether there can be any.
    fn known(there: Further) -> impl Iterator<Item = (Self, bool)> {
        let Further { limited, asking, hosted } = there;
        let further =
            [(Self::Limit, limited), (Self::Topology, asking), (Self::Processors, hosted), (Self::Memory, hosted)];
        Self::ALL.into_iter().map(|cause| (cause, true)).chain(further)
    }
}

/// Further causes that may occur in a replay.
#[derive(Debug, Clone, Copy)]
struct Further {
    /// Whether there are limits.
    limited: bool,
    /// Jobs ask for blocks or racks.
    asking: bool,
    /// Processors and memory count.
    hosted: bool,
}

/// Jobs and waits of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CauseTotal {
    /// The cause.
    pub cause: Cause,
    /// Jobs for whose wait it was the largest part.
    pub jobs: u64,
    /// Time jobs waited for it, job-hours.
    pub wait_hours: f64,
    /// GPUs asked for × that time, GPU-hours.
    pub gpu_wait_hours: f64,
    /// Share of all GPU-hours waited; `null` if none were.
    pub gpu_wait_share: Option<f64>,
}

/// Why some jobs waited.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Delay {
    /// Jobs that waited at all.
    pub jobs: u64,
    /// Wait of the jobs, job-hours.
    pub wait_hours: f64,
    /// GPUs × wait of the jobs, GPU-hours.
    pub gpu_wait_hours: f64,
    /// The causes, in the order of the tests.
    pub causes: Vec<CauseTotal>,
}

/// Why the jobs of one size class waited.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayOfSize {
    /// The size class.
    pub size: SizeClass,
    /// Why.
    #[serde(flatten)]
    pub delay: Delay,
}

/// Why the jobs of one VC waited.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayOfVc {
    /// Name of the VC.
    pub vc: String,
    /// Why.
    #[serde(flatten)]
    pub delay: Delay,
}

/// Why the jobs of one duration class waited.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayOfDuration {
    /// The duration class.
    pub duration: DurationClass,
    /// Why.
    #[serde(flatten)]
    pub delay: Delay,
}

/// Delay by cause.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DelayByCause {
    /// All jobs.
    pub all: Delay,
    /// By size class, those with jobs that waited.
    pub by_size: Vec<DelayOfSize>,
    /// By VC, those with jobs that waited.
    pub by_vc: Vec<DelayOfVc>,
    /// By true run, those with jobs that waited.
    pub by_duration: Vec<DelayOfDuration>,
}

/// Whole milliseconds and thousandths of a GPU, so that no order of adding matters.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    jobs: u64,
    main: [u64; CAUSES],
    wait_ms: [i128; CAUSES],
    gpu_wait: [i128; CAUSES],
}

impl Sum {
    fn add(&mut self, causes: &[i64; CAUSES], amount: u64) {
        let longest = causes.iter().copied().max().unwrap_or(0);
        if longest <= 0 {
            return;
        }
        self.jobs += 1;
        if let Some(main) = causes.iter().position(|wait| *wait == longest).and_then(|cause| self.main.get_mut(cause)) {
            *main += 1;
        }
        for ((wait, gpu_wait), ms) in self.wait_ms.iter_mut().zip(&mut self.gpu_wait).zip(causes) {
            *wait += i128::from(*ms);
            *gpu_wait += i128::from(*ms) * i128::from(amount);
        }
    }

    fn delay(&self, further: Further) -> Delay {
        let all: i128 = self.gpu_wait.iter().sum();
        let causes = Cause::known(further).zip(self.main).zip(self.wait_ms.iter().zip(&self.gpu_wait));
        let causes = causes.filter(|(((_, there), _), _)| *there);
        Delay {
            jobs: self.jobs,
            wait_hours: hours(self.wait_ms.iter().sum()),
            gpu_wait_hours: hours(all) / 1000.0,
            causes: causes
                .map(|(((cause, _), jobs), (wait, gpu_wait))| CauseTotal {
                    cause,
                    jobs,
                    wait_hours: hours(*wait),
                    gpu_wait_hours: hours(*gpu_wait) / 1000.0,
                    gpu_wait_share: (all > 0).then(|| *gpu_wait as f64 / all as f64),
                })
                .collect(),
        }
    }
}

impl DelayByCause {
    /// Sums the causes of each job.
    pub(super) fn new(workload: &Workload, cluster: &Cluster, times: &JobTimes, causes: &[[i64; CAUSES]]) -> Self {
        let mut all = Sum::default();
        let mut by_size = [Sum::default(); SizeClass::ALL.len()];
        let mut by_vc = vec![Sum::default(); cluster.vcs.len()];
        let mut by_duration = [Sum::default(); DurationClass::ALL.len()];
        for (job, causes) in causes.iter().enumerate().filter(|(job, _)| times.is_counted(*job)) {
            let shape = workload.shape_of(job);
            let amount = shape.amount();
            all.add(causes, amount);
            let size = SizeClass::new(shape.as_gpus());
            let duration = DurationClass::new(workload.run_ms.get(job).copied().unwrap_or(0));
            let vc = workload.vc.get(job).copied().unwrap_or(0);
            for sum in
                [by_size.get_mut(size as usize), by_duration.get_mut(duration as usize), by_vc.get_mut(usize::from(vc))]
                    .into_iter()
                    .flatten()
            {
                sum.add(causes, amount);
            }
        }
        let waited = |sum: &&Sum| sum.jobs > 0;
        let further = Further {
            limited: cluster.limits.is_some(),
            asking: workload.has_requests() || cluster.topology.as_ref().is_some_and(Topology::is_of_switches),
            hosted: cluster.counts_hosts(workload),
        };
        Self {
            all: all.delay(further),
            by_size: SizeClass::ALL
                .into_iter()
                .zip(&by_size)
                .filter(|(_, sum)| waited(sum))
                .map(|(size, sum)| DelayOfSize { size, delay: sum.delay(further) })
                .collect(),
            by_vc: cluster
                .vcs
                .iter()
                .zip(&by_vc)
                .filter(|(_, sum)| waited(sum))
                .map(|(vc, sum)| DelayOfVc { vc: vc.name.clone(), delay: sum.delay(further) })
                .collect(),
            by_duration: DurationClass::ALL
                .into_iter()
                .zip(&by_duration)
                .filter(|(_, sum)| waited(sum))
                .map(|(duration, sum)| DelayOfDuration { duration, delay: sum.delay(further) })
                .collect(),
        }
    }
}
