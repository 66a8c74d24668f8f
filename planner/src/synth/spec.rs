//! The specification of a synthetic trace: what a TOML file says, and the checked form that the generator takes.
//!
//! [`Spec`] is what was written, every default documented; [`Spec::check`] refuses what makes no sense and gives a
//! [`Checked`], the only thing the generator accepts. Shares are fractions of 1, times seconds, powers watts. Unknown
//! keys are errors, so a misspelt one is not silently ignored.
//!
//! Published totals stand in `[[target]]`, each with its tolerance and source; the generator does not read them. They
//! are the test of what the other sections produce ([`super::calibrate`]).

use std::path::Path;

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::{DAY_MS, Zone, parse_local};
use tracecast_analytics::{Error, Result};

use super::calibrate::Measure;
use super::schedule::MAX_UNITS;

/// A specification as written.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Name, shown in the trace's notes.
    pub name: String,
    /// The machine and the time covered.
    pub cluster: ClusterSpec,
    /// Virtual clusters; their nodes add up to the cluster's.
    pub vc: Vec<VcSpec>,
    /// Quota changes.
    #[serde(default)]
    pub change: Vec<ChangeSpec>,
    /// Who submits.
    #[serde(default)]
    pub users: UserSpec,
    /// When jobs come.
    pub arrivals: ArrivalSpec,
    /// What jobs ask for.
    pub sizes: SizeSpec,
    /// How long GPU jobs run.
    pub gpu_runs: RunSpec,
    /// How long CPU jobs run.
    #[serde(default = "RunSpec::cpu")]
    pub cpu_runs: RunSpec,
    /// How GPU jobs end.
    pub gpu_states: StateSpec,
    /// How CPU jobs end.
    #[serde(default)]
    pub cpu_states: StateSpec,
    /// Time limits.
    #[serde(default)]
    pub limits: LimitSpec,
    /// How queues are served.
    #[serde(default)]
    pub queue: QueueSpec,
    /// Node failures.
    #[serde(default)]
    pub failures: FailureSpec,
    /// GPU and node telemetry; none without this section.
    #[serde(default)]
    pub telemetry: Option<TelemetrySpec>,
    /// Carbon intensity of the grid; none without this section.
    #[serde(default)]
    pub carbon: Option<CarbonSpec>,
    /// Instance prices.
    #[serde(default)]
    pub price: Vec<PriceSpec>,
    /// Published totals the trace should reproduce.
    #[serde(default)]
    pub target: Vec<TargetSpec>,
}

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

/// Who submits.
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

/// What jobs ask for.
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
    fn cpu() -> Self {
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

/// How queues are served: first in, first out, strictly or with some overtaking.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueSpec {
    /// Jobs that do not fit that may be passed over for those behind them that do. Default 0: strict.
    pub overtake: u32,
    /// A job that has waited so long is not passed over, seconds. Default 0.
    pub patience_s: f64,
}

/// Node failures.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FailureSpec {
    /// Mean time between failures of a node, days; 0 for no failures. Default 120.
    pub mtbf_days: f64,
    /// Mean time a node is away, hours. Default 4.
    pub repair_h: f64,
    /// Share of jobs that run again after a node failure. Default 0.7.
    pub requeue: f64,
    /// How often such a job may start. Default 3.
    pub max_attempts: u32,
}

impl Default for FailureSpec {
    fn default() -> Self {
        Self { mtbf_days: 120.0, repair_h: 4.0, requeue: 0.7, max_attempts: 3 }
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

/// A published total.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// What is measured.
    pub measure: Measure,
    /// The published value.
    pub value: f64,
    /// How far the measured value may be off.
    pub tolerance: f64,
    /// Whether `tolerance` is relative to the value (default) or in its units.
    #[serde(default)]
    pub absolute: bool,
    /// Where it was published.
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

/// A specification that makes sense, with names resolved.
#[derive(Debug, Clone)]
pub struct Checked {
    pub(crate) spec: Spec,
    pub(crate) zone: Zone,
    /// When the trace begins, milliseconds.
    pub(crate) start_ms: i64,
    /// When the record is taken, milliseconds.
    pub(crate) end_ms: i64,
    /// Quota changes: when, from, to, nodes.
    pub(crate) changes: Vec<(i64, u32, u32, u32)>,
    /// The fewest nodes each VC has at any time.
    pub(crate) least_nodes: Vec<u32>,
}

impl Spec {
    /// Reads a specification from the text of a TOML file; `name` is how messages call it.
    ///
    /// # Errors
    /// When it is not TOML, lacks a key or has one that is not known.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        toml::from_str(text).map_err(|e| Error::Format {
            file: name.to_owned(),
            line: e.span().map(|span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() as u64),
            column: None,
            found: e.message().to_owned(),
            remedy: "see datasets/specs for complete examples".to_owned(),
        })
    }

    /// Reads a specification from the TOML file at `path`.
    ///
    /// # Errors
    /// As [`Spec::parse`], and when the file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Checks that the specification makes sense.
    ///
    /// # Errors
    /// When it does not, with the key concerned.
    pub fn check(&self) -> Result<Checked> {
        let zone = Zone::named(&self.cluster.zone)?;
        let start_ms = parse_local(&self.cluster.start)
            .and_then(|local| zone.resolve(local))
            .map(|(ms, _)| ms)
            .ok_or_else(|| wrong("cluster.start", &self.cluster.start, "write a date as YYYY-MM-DD"))?;
        let end_ms = start_ms + i64::from(self.cluster.days) * DAY_MS;
        self.check_cluster()?;
        let (changes, least_nodes) = self.check_changes(start_ms)?;
        self.check_demand(&least_nodes)?;
        self.check_rest()?;
        Ok(Checked { spec: self.clone(), zone, start_ms, end_ms, changes, least_nodes })
    }

    fn check_cluster(&self) -> Result<()> {
        let cluster = &self.cluster;
        between_int("cluster.days", cluster.days, 1, 3_660)?;
        between_int("cluster.gpus_per_node", cluster.gpus_per_node, 1, MAX_UNITS)?;
        between_int("cluster.cpu_job_cores_per_node", cluster.cpu_job_cores_per_node, 1, MAX_UNITS)?;
        in_range("cluster.boot_s", cluster.boot_s, 0.0, 86_400.0)?;
        if self.vc.is_empty() {
            return Err(wrong("vc", "no VC", "give at least one [[vc]] with a name and nodes"));
        }
        for (ix, vc) in self.vc.iter().enumerate() {
            between_int("vc.nodes", vc.nodes, 1, 100_000)?;
            in_range("vc.load", vc.load, 0.0, 100.0)?;
            if self.vc.iter().take(ix).any(|other| other.name == vc.name) {
                return Err(wrong("vc.name", &vc.name, "give each VC a name of its own"));
            }
        }
        if self.vc.iter().all(|vc| vc.load <= 0.0) {
            return Err(wrong("vc.load", "no VC has any demand", "give at least one VC a load above 0"));
        }
        Ok(())
    }

    #[allow(clippy::type_complexity)]
    fn check_changes(&self, start_ms: i64) -> Result<(Vec<(i64, u32, u32, u32)>, Vec<u32>)> {
        let index = |name: &str| -> Result<u32> {
            let ix = self.vc.iter().position(|vc| vc.name == name);
            ix.and_then(|ix| u32::try_from(ix).ok()).ok_or_else(|| wrong("change", name, "name a VC that exists"))
        };
        let mut changes = Vec::new();
        for change in &self.change {
            in_range("change.day", change.day, 0.0, f64::from(self.cluster.days))?;
            let at_ms = start_ms + (change.day * DAY_MS as f64) as i64;
            changes.push((at_ms, index(&change.from)?, index(&change.to)?, change.nodes));
        }
        changes.sort_by_key(|(at_ms, ..)| *at_ms);
        // A node that is given may arrive late, so what a VC gets is not counted.
        let mut least: Vec<u32> = self.vc.iter().map(|vc| vc.nodes).collect();
        for (_, from, _, nodes) in &changes {
            if let Some(left) = least.get_mut(*from as usize) {
                if *nodes >= *left {
                    return Err(wrong("change.nodes", &nodes.to_string(), "leave the VC that gives at least one node"));
                }
                *left -= nodes;
            }
        }
        Ok((changes, least))
    }

    fn check_demand(&self, least_nodes: &[u32]) -> Result<()> {
        let users = &self.users;
        between_int("users.count", users.count, 1, 1_000_000)?;
        in_range("users.zipf", users.zipf, 0.0, 5.0)?;
        in_range("users.families", users.families, 1.0, 1_000.0)?;
        in_range("users.recurrence", users.recurrence, 0.0, 1.0)?;
        in_range("users.from_start", users.from_start, 0.0, 1.0)?;
        for class in &users.class {
            in_range("users.class.share", class.share, 0.0, 1.0)?;
            in_range("users.class.size_lean", class.size_lean, -5.0, 5.0)?;
            in_range("users.class.run_lean", class.run_lean, -10.0, 10.0)?;
        }
        let arrivals = &self.arrivals;
        let jobs = arrivals.jobs_per_day * f64::from(self.cluster.days);
        if !(1.0..=50e6).contains(&jobs) {
            let found = format!("{jobs} jobs in all");
            return Err(wrong("arrivals.jobs_per_day", &found, "ask for between 1 and 50 million jobs in all"));
        }
        in_range("arrivals.cpu_share", arrivals.cpu_share, 0.0, 1.0)?;
        in_range("arrivals.burst_share", arrivals.burst_share, 0.0, 1.0)?;
        in_range("arrivals.burst_mean", arrivals.burst_mean, 2.0, 1_000.0)?;
        for (key, values, count) in
            [("arrivals.hourly", &arrivals.hourly, 24), ("arrivals.weekly", &arrivals.weekly, 7)]
        {
            if values.len() != count
                || values.iter().any(|v| !v.is_finite() || *v < 0.0)
                || values.iter().sum::<f64>() <= 0.0
            {
                return Err(wrong(key, &format!("{values:?}"), &format!("give {count} rates, none below 0")));
            }
        }
        let widest = least_nodes.iter().zip(&self.vc).filter(|(_, vc)| vc.load > 0.0).map(|(nodes, _)| *nodes).max();
        let most = widest.unwrap_or(0) * self.cluster.gpus_per_node;
        check_shares("sizes.gpus", &self.sizes.gpus, most)?;
        check_shares("sizes.cores", &self.sizes.cores, self.cluster.cpu_job_cores_per_node)?;
        if let Some(mean) = self.sizes.mean_gpus {
            let sizes = self.sizes.gpus.iter().filter(|size| size.share > 0.0).map(|size| size.size);
            let (least, most) = (sizes.clone().min().unwrap_or(1), sizes.max().unwrap_or(1));
            in_range("sizes.mean_gpus", mean, f64::from(least), f64::from(most))?;
        }
        for (key, run) in [("gpu_runs", &self.gpu_runs), ("cpu_runs", &self.cpu_runs)] {
            in_range(&format!("{key}.median_s"), run.median_s, 0.5, 1e8)?;
            in_range(&format!("{key}.mean_s"), run.mean_s, run.median_s, run.max_s)?;
            in_range(&format!("{key}.max_s"), run.max_s, 1.0, 1e9)?;
            in_range(&format!("{key}.body_sigma"), run.body_sigma, 0.01, 10.0)?;
            in_range(&format!("{key}.tail_sigma"), run.tail_sigma, 0.01, 10.0)?;
            in_range(&format!("{key}.tail_share"), run.tail_share, 0.01, 0.45)?;
            if run.variance.iter().any(|part| !(0.0..=1e6).contains(part)) || run.variance.iter().sum::<f64>() <= 0.0 {
                return Err(wrong(
                    &format!("{key}.variance"),
                    &format!("{:?}", run.variance),
                    "give four parts, not all 0",
                ));
            }
        }
        Ok(())
    }

    fn check_rest(&self) -> Result<()> {
        for (key, states) in [("gpu_states", &self.gpu_states), ("cpu_states", &self.cpu_states)] {
            for (name, share) in [
                ("cancelled", states.cancelled),
                ("failed", states.failed),
                ("cancelled_time", states.cancelled_time.unwrap_or(0.0)),
                ("failed_time", states.failed_time.unwrap_or(0.0)),
                ("timeout", states.timeout),
                ("out_of_memory", states.out_of_memory),
            ] {
                in_range(&format!("{key}.{name}"), share, 0.0, 1.0)?;
            }
            in_range(&format!("{key}: cancelled + failed"), states.cancelled + states.failed, 0.0, 1.0)?;
            let times = states.cancelled_time.unwrap_or(0.0) + states.failed_time.unwrap_or(0.0);
            in_range(&format!("{key}: cancelled_time + failed_time"), times, 0.0, 1.0)?;
            in_range(&format!("{key}: timeout + out_of_memory"), states.timeout + states.out_of_memory, 0.0, 1.0)?;
        }
        if self.limits.menu_h.is_empty()
            || !self.limits.menu_h.is_sorted()
            || self.limits.menu_h.iter().any(|h| *h <= 0.0)
        {
            return Err(wrong("limits.menu_h", &format!("{:?}", self.limits.menu_h), "give rising hours above 0"));
        }
        in_range("limits.without", self.limits.without, 0.0, 1.0)?;
        in_range("limits.margin", self.limits.margin, 1.0, 100.0)?;
        between_int("queue.overtake", self.queue.overtake, 0, 10_000)?;
        in_range("queue.patience_s", self.queue.patience_s, 0.0, 1e9)?;
        in_range("failures.mtbf_days", self.failures.mtbf_days, 0.0, 1e6)?;
        in_range("failures.repair_h", self.failures.repair_h, 0.01, 10_000.0)?;
        in_range("failures.requeue", self.failures.requeue, 0.0, 1.0)?;
        between_int("failures.max_attempts", self.failures.max_attempts, 1, 1_000)?;
        if let Some(telemetry) = &self.telemetry {
            telemetry.check(&self.vc, self.cluster.days)?;
        }
        if let Some(carbon) = &self.carbon {
            in_range("carbon.mean_g_per_kwh", carbon.mean_g_per_kwh, 0.0, 5_000.0)?;
            in_range("carbon.daily", carbon.daily, 0.0, 1.0)?;
            in_range("carbon.yearly", carbon.yearly, 0.0, 1.0)?;
            in_range("carbon.noise", carbon.noise, 0.0, 1.0)?;
        }
        for price in &self.price {
            in_range("price.ondemand_usd_per_h", price.ondemand_usd_per_h, 0.0, 100_000.0)?;
            in_range("price.spot_ratio", price.spot_ratio.unwrap_or(1.0), 0.0, 1.0)?;
            in_range("price.changes_per_day", price.changes_per_day, 0.01, 1_440.0)?;
            in_range("price.up_h", price.up_h, 0.01, 100_000.0)?;
            in_range("price.down_h", price.down_h, 0.01, 100_000.0)?;
        }
        for target in &self.target {
            in_range("target.tolerance", target.tolerance, 0.0, f64::MAX)?;
        }
        Ok(())
    }
}

impl TelemetrySpec {
    fn check(&self, vcs: &[VcSpec], days: u32) -> Result<()> {
        between_int("telemetry.nodes", self.nodes, 1, vcs.iter().map(|vc| vc.nodes).sum())?;
        in_range("telemetry.first_day", self.first_day, 0.0, f64::from(days))?;
        in_range("telemetry.days", self.days, 0.0, f64::from(days) - self.first_day)?;
        between_int("telemetry.gap_s", self.gap_s, 1, 86_400)?;
        in_range("telemetry.idle_share", self.idle_share, 0.0, 1.0)?;
        in_range("telemetry.correlation", self.correlation, 0.0, 1.0)?;
        in_range("telemetry.between_jobs", self.between_jobs, 0.0, 1.0)?;
        in_range("telemetry.node_base_w", self.node_base_w, 0.0, 1e6)?;
        in_range("telemetry.node_per_gpu_w", self.node_per_gpu_w, 0.0, 100.0)?;
        let points = &self.gpu_power_w;
        let ends = points.first().is_some_and(|q| q.p == 0.0) && points.last().is_some_and(|q| q.p == 1.0);
        let rising = points.is_sorted_by(|a, b| a.p < b.p && a.value <= b.value);
        if !ends || !rising || points.iter().any(|q| !(0.0..=1e5).contains(&q.value)) {
            return Err(wrong("telemetry.gpu_power_w", "points", "give rising points from p = 0 to p = 1, in watts"));
        }
        Ok(())
    }
}

fn check_shares(key: &str, shares: &[ShareSpec], most: u32) -> Result<()> {
    let total: f64 = shares.iter().map(|size| size.share).sum();
    if !total.is_finite() || total <= 0.0 || shares.iter().any(|size| size.share < 0.0) {
        return Err(wrong(key, &format!("shares that add up to {total}"), "give shares above 0"));
    }
    for size in shares {
        if size.size == 0 || size.size > most {
            let remedy = format!("ask for 1 to {most}, which is what the largest VC always has, or give it more nodes");
            return Err(wrong(key, &format!("size {}", size.size), &remedy));
        }
    }
    Ok(())
}

fn wrong(setting: &str, found: &str, remedy: &str) -> Error {
    Error::Setting { setting: setting.to_owned(), found: found.to_owned(), remedy: remedy.to_owned() }
}

fn in_range(setting: &str, value: f64, from: f64, to: f64) -> Result<()> {
    if value >= from && value <= to {
        return Ok(());
    }
    Err(wrong(setting, &value.to_string(), &format!("give a number from {from} to {to}")))
}

fn between_int(setting: &str, value: u32, from: u32, to: u32) -> Result<()> {
    in_range(setting, f64::from(value), f64::from(from), f64::from(to))
}
