//! The specification of a synthetic trace: what a TOML file says, and the checked form that the generator takes.
//!
//! [`Spec`] is what was written, every default documented; [`Spec::check`] refuses what makes no sense and gives a
//! [`Checked`], the only thing the generator accepts. Shares are fractions of 1, times seconds, powers watts. Unknown
//! keys are errors, so a misspelt one is not silently ignored.
//!
//! Published totals stand in `[[target]]`, each with its tolerance and source; the generator does not read them. They
//! are the test of what the other sections produce ([`super::calibrate`]).

mod check;
mod sections;

use std::path::Path;

use serde::{Deserialize, Serialize};
use tracecast_analytics::time::Zone;
use tracecast_analytics::{Error, Result};

use crate::sim::Policy;

pub use sections::{
    ArrivalSpec, CarbonSpec, ChangeSpec, ClassSpec, ClusterSpec, FailureSpec, LimitSpec, Measure, PriceSpec,
    QuantileSpec, RunSpec, SchedulerSpec, ShareSpec, SizeSpec, StateSpec, TargetSpec, TelemetrySpec, UserSpec, VcSpec,
};

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
    /// Users who submit jobs.
    #[serde(default)]
    pub users: UserSpec,
    /// When jobs come.
    pub arrivals: ArrivalSpec,
    /// Sizes that jobs ask for.
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
    /// The policy that starts jobs.
    #[serde(default)]
    pub scheduler: SchedulerSpec,
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
    /// The policy that starts jobs.
    pub(crate) policy: Policy,
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
    /// Errors of [`Spec::parse`], and when the file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = tracecast_analytics::storage::read_text(path)?;
        Self::parse(&text, &path.display().to_string())
    }
}
