//! The sections of a specification: their keys, units and defaults.
//!
//! What makes no sense is refused in [`super::check`], not here. O(1). Worked number: a specification without a `[users]`
//! section has 90 users, three quarters of them there from the beginning.

use serde::{Deserialize, Serialize};

use crate::replay::Scenario;
use crate::sim::Policy;

/// The machine and the time covered.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSpec {
    /// Name of the cluster.
    pub name: String,
    /// IANA time zone. Default `UTC`.
    #[serde(default = "utc")]
    pub zone: String,
    /// First day, `YYYY-MM-DD`, local; the trace begins at its midnight.
    pub start: String,
    /// Days covered. Jobs that are not over by then are running or pending in the record.
    pub days: u32,
    /// GPUs on each node. Default 8.
    #[serde(default = "eight")]
    pub gpus_per_node: u32,
    /// GPU model. Default `A100-80GB`.
    #[serde(default = "a100")]
    pub gpu_type: String,
    /// Memory of one GPU, GiB. Default 80.
    #[serde(default = "eighty")]
    pub gpu_mem_gib: u32,
    /// Cores given with each GPU. Default 12.
    #[serde(default = "twelve")]
    pub cpus_per_gpu: u32,
    /// Cores of each node kept for CPU jobs. Default 32.
    #[serde(default = "thirty_two")]
    pub cpu_job_cores_per_node: u32,
    /// Memory of each node, GiB. Default 1024.
    #[serde(default = "kibi")]
    pub mem_gib: u32,
    /// Time a node takes to boot, seconds. Default 300.
    #[serde(default = "boot")]
    pub boot_s: f64,
}

/// A virtual cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VcSpec {
    /// Name.
    pub name: String,
    /// Nodes at the beginning.
    pub nodes: u32,
    /// Demand for each of its GPUs relative to the other VCs. Default 1.
    #[serde(default = "one")]
    pub load: f64,
}

/// Nodes that go from one VC to another.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChangeSpec {
    /// Days after the beginning.
    pub day: f64,
    /// The VC that gives.
    pub from: String,
    /// The VC that gets.
    pub to: String,
    /// Nodes.
    pub nodes: u32,
}

/// Users who submit jobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserSpec {
    /// Users. Default 90.
    pub count: u32,
    /// Exponent of the Zipf law of users' shares of the jobs. Default 0.9.
    pub zipf: f64,
    /// Mean number of families of names (one a project) of a user. Default 5.
    pub families: f64,
    /// Probability that a submission repeats a name already used, rather than the next version of it. Default 0.85.
    pub recurrence: f64,
    /// Share of users who are there from the beginning; the others join evenly over the time. Default 0.75.
    pub from_start: f64,
    /// Classes of users. Default: one class without leanings.
    pub class: Vec<ClassSpec>,
}

impl Default for UserSpec {
    fn default() -> Self {
        Self { count: 90, zipf: 0.9, families: 5.0, recurrence: 0.85, from_start: 0.75, class: Vec::new() }
    }
}

/// A class of users.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassSpec {
    /// Name; becomes the account of the user's jobs.
    pub name: String,
    /// Share of the users.
    pub share: f64,
    /// Exponent by which the class leans to large jobs: a size weighs `size^size_lean` times its share. Default 0.
    #[serde(default)]
    pub size_lean: f64,
    /// Added to the log of run times before calibration. Default 0.
    #[serde(default)]
    pub run_lean: f64,
}

/// When jobs come.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivalSpec {
    /// Jobs a day, mean over the time.
    pub jobs_per_day: f64,
    /// Share of jobs that ask for no GPU. Default 0.
    #[serde(default)]
    pub cpu_share: f64,
    /// Relative rate in each hour of the day, local. Default: low at 04:00, highest in the afternoon.
    #[serde(default = "hours")]
    pub hourly: Vec<f64>,
    /// Relative rate on each weekday, Monday first. Default: 0.7 of a workday on Saturday and Sunday.
    #[serde(default = "weekdays")]
    pub weekly: Vec<f64>,
    /// Share of submissions that are bursts: one user sends the same thing several times. Default 0.12.
    #[serde(default = "burst_share")]
    pub burst_share: f64,
    /// Mean jobs of a burst. Default 6.
    #[serde(default = "burst_mean")]
    pub burst_mean: f64,
}

/// Sizes that jobs ask for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SizeSpec {
    /// GPUs and share of GPU jobs.
    pub gpus: Vec<ShareSpec>,
    /// Mean GPUs of a GPU job: shares are tilted by a power of the size to reach it. Default: shares as they stand.
    #[serde(default)]
    pub mean_gpus: Option<f64>,
    /// Cores and share of CPU jobs. Default: 1, 2, 4, 8 cores at 0.55, 0.2, 0.15, 0.1.
    #[serde(default = "cores")]
    pub cores: Vec<ShareSpec>,
}

/// A size and its share.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareSpec {
    /// GPUs or cores.
    pub size: u32,
    /// Share of jobs; shares are divided by their sum.
    pub share: f64,
}

/// How long jobs run: a mixture of two lognormals fitted to a median and a mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Median run, seconds.
    pub median_s: f64,
    /// Mean run, seconds.
    pub mean_s: f64,
    /// Longest run, seconds. Default 1,209,600 (14 days).
    #[serde(default = "fortnight")]
    pub max_s: f64,
    /// Mean GPU-seconds of a job: sets how strongly run time grows with size. Default: it does not.
    #[serde(default)]
    pub mean_gpu_s: Option<f64>,
    /// Standard deviation of the log of body runs. Default 1.9.
    #[serde(default = "body_sigma")]
    pub body_sigma: f64,
    /// Share of jobs in the tail. Default 0.2.
    #[serde(default = "tail_share")]
    pub tail_share: f64,
    /// Standard deviation of the log of tail runs. Default 1.5.
    #[serde(default = "tail_sigma")]
    pub tail_sigma: f64,
    /// Parts that user, family, version and chance have in the variance of the log. Default 0.25, 0.3, 0.1, 0.35.
    #[serde(default = "variance")]
    pub variance: [f64; 4],
}

impl RunSpec {
    pub(super) fn cpu() -> Self {
        Self {
            median_s: 2.0,
            mean_s: 600.0,
            max_s: fortnight(),
            mean_gpu_s: None,
            body_sigma: 2.0,
            tail_share: 0.2,
            tail_sigma: tail_sigma(),
            variance: variance(),
        }
    }
}

/// How jobs end. Completion is what is left.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateSpec {
    /// Share of jobs that are cancelled. Default 0.05.
    pub cancelled: f64,
    /// Share of jobs that fail in any way. Default 0.08.
    pub failed: f64,
    /// Share of the resource time of cancelled jobs. Default: no dependence on size and run time.
    pub cancelled_time: Option<f64>,
    /// Share of the resource time of failed jobs. Default: no dependence on size and run time.
    pub failed_time: Option<f64>,
    /// Share of failed jobs that ran into their limit. Default 0.12.
    pub timeout: f64,
    /// Share of failed jobs that ran out of memory. Default 0.15.
    pub out_of_memory: f64,
}

impl Default for StateSpec {
    fn default() -> Self {
        Self {
            cancelled: 0.05,
            failed: 0.08,
            cancelled_time: None,
            failed_time: None,
            timeout: 0.12,
            out_of_memory: 0.15,
        }
    }
}

/// Time limits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitSpec {
    /// Limits people choose from, hours, rising. Default 1, 4, 12, 24, 72, 168, 336.
    pub menu_h: Vec<f64>,
    /// Share of names submitted without a limit. Default 0.3.
    pub without: f64,
    /// Limits are at least this many times the longest run under the name. Default 1.5.
    pub margin: f64,
}

impl Default for LimitSpec {
    fn default() -> Self {
        Self { menu_h: vec![1.0, 4.0, 12.0, 24.0, 72.0, 168.0, 336.0], without: 0.3, margin: 1.5 }
    }
}

/// The policy that starts jobs, as `tracecast simulate` names its switches. There is no preemption.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerSpec {
    /// Order in which jobs are served. Default `fifo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// How the queue is walked. Default `strict`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<String>,
    /// Where jobs go. Default `consolidate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Duration that the scheduler knows: `true` or `requested`. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// Jobs that a conservative scan looks at. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Between whom fairness is: `user` or `vc`. Default `user`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenants: Option<String>,
}

impl SchedulerSpec {
    /// The policy it stands for.
    ///
    /// # Errors
    /// If a switch has no such position; the message lists those there are.
    pub fn policy(&self) -> crate::Result<Policy> {
        let scenario = Scenario {
            order: self.order.clone(),
            scan: self.scan.clone(),
            place: self.place.clone(),
            estimate: self.estimate.clone(),
            depth: self.depth,
            tenants: self.tenants.clone(),
            ..Scenario::default()
        };
        Ok(scenario.policy(false)?)
    }

    /// The options of `tracecast simulate` that replay what it did.
    pub fn options(&self) -> String {
        let switch = |of: &Option<String>, default: &str| of.as_deref().unwrap_or(default).to_owned();
        let mut text = format!("--recorded {}/{}", switch(&self.order, "fifo"), switch(&self.scan, "strict"));
        if let Some(estimate) = &self.estimate {
            text.push_str(&format!("/{estimate}"));
        }
        let rule = |key: &str, value: &str| format!("site {key}={value}");
        let depth = self.depth.map(|depth| rule("depth", &depth.to_string()));
        let tenants = self.tenants.as_ref().map(|tenants| rule("tenants", tenants));
        let place = self.place.as_ref().map(|place| format!("place {place}"));
        for option in [place, depth, tenants].into_iter().flatten() {
            text.push_str(&format!(" --{option}"));
        }
        text
    }
}

/// Node failures.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureSpec {
    /// Mean time between failures of a node, days; 0 for no failures. Default 120.
    pub mtbf_days: f64,
    /// Mean time a node is away, hours. Default 4.
    pub repair_h: f64,
    /// Share of jobs that run again after a node failure, from the beginning and as often as it takes. Default 0.7.
    pub requeue: f64,
}

impl Default for FailureSpec {
    fn default() -> Self {
        Self { mtbf_days: 120.0, repair_h: 4.0, requeue: 0.7 }
    }
}

/// A point of a distribution.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantileSpec {
    /// Share below, 0 to 1.
    pub p: f64,
    /// Value.
    pub value: f64,
}

/// GPU and node telemetry.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TelemetrySpec {
    /// Nodes that report, spread evenly over all.
    pub nodes: u32,
    /// Days after the beginning at which it begins.
    pub first_day: f64,
    /// Days it lasts.
    pub days: f64,
    /// Time between samples, seconds. Default 300.
    #[serde(default = "five_minutes")]
    pub gap_s: u32,
    /// Power of a GPU: quantiles from `p` 0 to 1, rising.
    pub gpu_power_w: Vec<QuantileSpec>,
    /// Share of GPU samples that are idle; they take the lower end of the distribution. Default 0.3.
    #[serde(default = "idle_share")]
    pub idle_share: f64,
    /// Correlation of a job's load between samples. Default 0.9.
    #[serde(default = "correlation")]
    pub correlation: f64,
    /// Part of the variance of load that is between jobs, the rest being within. Default 0.75.
    #[serde(default = "between")]
    pub between_jobs: f64,
    /// Part of the variance between jobs that is between families, one for each project of a user: jobs of a family then use alike. Default 0.
    #[serde(default)]
    pub between_families: f64,
    /// Power of a node is `node_base_w + node_per_gpu_w ×` the power of its GPUs.
    pub node_base_w: f64,
    /// See [`TelemetrySpec::node_base_w`].
    pub node_per_gpu_w: f64,
}

/// Carbon intensity: a mean with a daily and a yearly wave and noise.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarbonSpec {
    /// Grid zone.
    pub zone: String,
    /// Mean, grams of CO2 equivalent per kWh.
    pub mean_g_per_kwh: f64,
    /// Size of the daily wave relative to the mean; it is lowest at 13:00 (sun). Default 0.2.
    #[serde(default = "daily")]
    pub daily: f64,
    /// Size of the yearly wave relative to the mean; it is highest in mid January. Default 0.1.
    #[serde(default = "yearly")]
    pub yearly: f64,
    /// Standard deviation of the noise relative to the mean; hours correlate at 0.95. Default 0.12.
    #[serde(default = "noise")]
    pub noise: f64,
}

/// An instance type.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSpec {
    /// Cloud.
    pub provider: String,
    /// Zones that offer it.
    pub zones: Vec<String>,
    /// Instance type.
    pub instance: String,
    /// GPU model.
    pub gpu_type: String,
    /// GPUs.
    pub gpus: u32,
    /// Memory of one GPU, GiB.
    pub gpu_mem_gib: u32,
    /// On-demand price, US dollars per hour.
    pub ondemand_usd_per_h: f64,
    /// Mean spot price as a part of the on-demand price. Default: not offered as spot.
    #[serde(default)]
    pub spot_ratio: Option<f64>,
    /// Spot price changes a day. Default 2.
    #[serde(default = "two")]
    pub changes_per_day: f64,
    /// Mean time spot instances are to be had in a row, hours. Default 8.
    #[serde(default = "up_h")]
    pub up_h: f64,
    /// Mean time they are not, hours. Default 3.
    #[serde(default = "down_h")]
    pub down_h: f64,
}

/// What can be measured of a trace and compared with a published total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Jobs without GPUs, as a share of all jobs.
    CpuJobShare,
    /// Mean GPUs asked for by GPU jobs.
    GpuMeanGpus,
    /// Median GPUs asked for by GPU jobs.
    GpuMedianGpus,
    /// Mean run of GPU jobs that are over, seconds.
    GpuMeanRunS,
    /// Median run of GPU jobs that are over, seconds.
    GpuMedianRunS,
    /// Mean GPU time of GPU jobs that are over, GPU-seconds.
    GpuMeanGpuS,
    /// Mean run of CPU jobs that are over, seconds.
    CpuMeanRunS,
    /// Median run of CPU jobs that are over, seconds.
    CpuMedianRunS,
    /// Mean wait of GPU jobs that started, seconds.
    GpuMeanWaitS,
    /// Median wait of GPU jobs that started, seconds.
    GpuMedianWaitS,
    /// Median wait of CPU jobs that started, seconds.
    CpuMedianWaitS,
    /// Completed, as a share of GPU jobs that are over.
    GpuCompletedShare,
    /// Cancelled, as a share of GPU jobs that are over.
    GpuCancelledShare,
    /// Failed in any way, as a share of GPU jobs that are over.
    GpuFailedShare,
    /// Completed, as a share of the GPU time of GPU jobs that are over.
    GpuTimeCompletedShare,
    /// Cancelled, as a share of that GPU time.
    GpuTimeCancelledShare,
    /// Failed in any way, as a share of that GPU time.
    GpuTimeFailedShare,
    /// Completed, as a share of CPU jobs that are over.
    CpuCompletedShare,
    /// Power of a GPU, tenth percentile over samples, watts.
    GpuPowerP10W,
    /// Power of a GPU, median over samples, watts.
    GpuPowerP50W,
    /// Power of a GPU, ninetieth percentile over samples, watts.
    GpuPowerP90W,
    /// Power of a GPU, mean over samples, watts.
    GpuPowerMeanW,
    /// Power of a node, mean over samples, watts.
    NodePowerMeanW,
}

/// A published total.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Measure that is compared.
    pub measure: Measure,
    /// The published value.
    pub value: f64,
    /// How far the measured value may be off.
    pub tolerance: f64,
    /// Whether `tolerance` is relative to the value (default) or in its units.
    #[serde(default)]
    pub absolute: bool,
    /// Publication that the total is from.
    pub source: String,
}

fn utc() -> String {
    "UTC".to_owned()
}
fn a100() -> String {
    "A100-80GB".to_owned()
}
fn hours() -> Vec<f64> {
    [
        0.75, 0.6, 0.5, 0.42, 0.38, 0.38, 0.42, 0.52, 0.75, 1.05, 1.3, 1.35, 1.1, 1.15, 1.4, 1.5, 1.5, 1.45, 1.25, 1.2,
        1.25, 1.25, 1.15, 0.95,
    ]
    .to_vec()
}
fn weekdays() -> Vec<f64> {
    vec![1.05, 1.1, 1.1, 1.1, 1.05, 0.72, 0.72]
}
fn cores() -> Vec<ShareSpec> {
    [(1, 0.55), (2, 0.2), (4, 0.15), (8, 0.1)].map(|(size, share)| ShareSpec { size, share }).to_vec()
}
fn variance() -> [f64; 4] {
    [0.25, 0.3, 0.1, 0.35]
}

/// One function a default value, as serde wants them.
macro_rules! defaults {
    ($($name:ident: $kind:ty = $value:expr;)*) => { $( fn $name() -> $kind { $value } )* };
}
defaults! {
    eight: u32 = 8;
    eighty: u32 = 80;
    twelve: u32 = 12;
    thirty_two: u32 = 32;
    kibi: u32 = 1024;
    five_minutes: u32 = 300;
    boot: f64 = 300.0;
    one: f64 = 1.0;
    two: f64 = 2.0;
    burst_share: f64 = 0.12;
    burst_mean: f64 = 6.0;
    fortnight: f64 = 1_209_600.0;
    body_sigma: f64 = 1.9;
    tail_share: f64 = 0.2;
    tail_sigma: f64 = 1.5;
    idle_share: f64 = 0.3;
    correlation: f64 = 0.9;
    between: f64 = 0.75;
    daily: f64 = 0.2;
    yearly: f64 = 0.1;
    noise: f64 = 0.12;
    up_h: f64 = 8.0;
    down_h: f64 = 3.0;
}
