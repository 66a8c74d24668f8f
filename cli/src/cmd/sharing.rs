//! `tracecast plan sharing`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::plan::emit::GPU_RESOURCE;
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::plan::emit::slurm::check_gpus;
use tracecast_planner::sharing::against;
use tracecast_planner::sharing::emit::{self, SharingSite};
use tracecast_planner::sharing::way::SharingWay;
use tracecast_planner::sharing::{SharingPlanAnswer, SharingRequest};
use tracecast_predictors::interference::read;

use crate::args::{Reading, TIMES, entries};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::cmd::emitting::{Audience, Emitting, own_files, patched};
use crate::cmd::predict_interference::Limits;
use crate::progress::Steps;
use crate::{output, source};

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that share GPUs wait for each other, so a plan of sharing needs them all";

/// Who carries the plan out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmitSharing {
    /// Slurm: lines for gres.conf, slurm.conf and job_submit.lua
    Slurm,
    /// Kubernetes: configuration of NVIDIA's device plugin, and labels
    Kubernetes,
}

impl Audience for EmitSharing {
    const WHAT: &'static str = "Write the configuration of these, separated by commas: slurm, kubernetes";

    fn unnamed() -> &'static [Self] {
        &[]
    }
}

/// How two jobs share a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShareBy {
    /// In turns: gres/shard in Slurm, time-slicing in Kubernetes
    TimeSlicing,
    /// At once, through NVIDIA's MPS
    Mps,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, Gavel's measured pairs and the jobs of the bundled sample, as Slurm reads the plan:
  tracecast plan sharing datasets/sample --pairs simulation_throughputs.json.gz --gpu-type p100 --slo 2 --emit slurm --emit-to sharing

{TIMES}"))]
pub(crate) struct PlanSharing {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Measured pairs: CSV, or Gavel's throughputs (JSON), as `backtest interference` reads them; may be given several times
    ///
    /// Pairs of one GPU by time slicing and by MPS are compared on the same jobs. The name of the GPU type tells the way: `H100 (time slicing)`, `H100 (MPS)`.
    #[arg(long, value_name = "PAIRS", required = true, help_heading = "Jobs and GPUs")]
    pub(crate) pairs: Vec<PathBuf>,
    /// What is known of each job type alone: a CSV with gpu_type, job, family and any of the quantities in the guide; may be given several times
    #[arg(long, value_name = "PROFILES", help_heading = "Jobs and GPUs")]
    pub(crate) profiles: Vec<PathBuf>,
    /// Job types of jobs by their names: a CSV with the columns name and job_type, such as bert-*,BERT
    ///
    /// In a name * stands for any text and ? for one character; the first line that matches counts. A job that no line matches is of the type that its
    /// name says, else its type is drawn.
    #[arg(long, value_name = "CSV", help_heading = "Jobs and GPUs")]
    pub(crate) types: Option<PathBuf>,
    /// GPU types to plan for, separated by commas [default: all that were measured]
    ///
    /// In the replay every GPU is of that type.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = entries(), help_heading = "Jobs and GPUs")]
    pub(crate) gpu_type: Vec<String>,
    /// Number of GPUs [default: the fewest with which 95 % of the earlier jobs wait at most 30 min, if nobody shares]
    #[arg(long, value_name = "GPUS", help_heading = "Jobs and GPUs")]
    pub(crate) gpus: Option<std::num::NonZeroU32>,
    /// Pairs of each new job type that are measured before it shares
    ///
    /// Without this option each couple is forecast without any pair of its two families. With it, the forecast knows as many pairs of each of their job types,
    /// with partners of other families.
    #[arg(long, value_name = "PAIRS", default_value_t = 0, help_heading = "Evaluation")]
    pub(crate) measured: usize,
    /// Plan for a site that watches new pairs and requeues a job where the limits are not kept
    ///
    /// The rule then has a trial: 10 min after a job began beside another, it writes a checkpoint and is requeued if either is slower than the SLO, or if
    /// both together make no more than one alone. What is emitted does not watch by itself.
    #[arg(long, help_heading = "Evaluation")]
    pub(crate) watched: bool,
    /// Choose on jobs submitted before this time, and test on those after it [default: when two thirds of the jobs are submitted]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Seed of the job types that are drawn, and of the pairs measured
    #[arg(long, default_value_t = 1, help_heading = "Evaluation")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) limits: Limits,
    #[command(flatten)]
    pub(crate) emitting: Emitting<EmitSharing>,
    /// Your own slurm.conf and gres.conf (names end in .conf), which the plan is to change; may be given several times
    ///
    /// Beside the files that are written anew, a patch then says what changes in yours, line by line and why. All else in them stays.
    #[arg(long, value_name = "FILE", requires = "emit_to", help_heading = "Configuration")]
    pub(crate) against: Vec<PathBuf>,
    /// How two jobs share a GPU [default: as the GPU type's name tells, else time-slicing]
    #[arg(long, value_enum, value_name = "HOW", help_heading = "Configuration")]
    pub(crate) share_by: Option<ShareBy>,
    /// Number of GPUs in a node
    #[arg(long, value_name = "GPUS", default_value = "8", help_heading = "Configuration")]
    pub(crate) gpus_per_node: std::num::NonZeroU32,
    /// What Slurm's files call these GPUs, such as h100 [default: the GPU type, as the pairs name it]
    #[arg(long, value_name = "NAME", help_heading = "Configuration")]
    pub(crate) slurm_type: Option<String>,
    /// What Kubernetes calls a GPU
    #[arg(long, value_name = "NAME", default_value = GPU_RESOURCE, help_heading = "Configuration")]
    pub(crate) gpu_resource: String,
    /// Kubernetes namespace of the device plugin
    #[arg(long, value_name = "NAME", default_value = "gpu-operator", help_heading = "Configuration")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

pub(crate) fn plan(asked: &PlanSharing, quiet: bool) -> Result<()> {
    let checked = asked.answering.check("plan-sharing", &[])?;
    asked.emitting.check()?;
    asked.answering.replacing.folders([&asked.emitting.emit_to])?;
    let own = own_files(&asked.against, asked.emitting.emit_to.as_deref(), |is_slurm| match is_slurm {
        true if asked.emitting.readers().contains(&EmitSharing::Slurm) => None,
        true => Some("--emit names no slurm, who would read it"),
        false => Some(
            "only Slurm's files (their names end in .conf) are patched; for Kubernetes, merge the keys of kubernetes-sharing.yaml into your ConfigMap",
        ),
    })?;
    check_gpus(&own)?;
    let limits = asked.limits.checked()?;
    let table = read::sharing_of_all(&asked.pairs, &asked.profiles)?;
    let trace = source::open_whole(&asked.sources, &asked.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &asked.sources);
    let zone = Zone::named(&trace.zone)?;
    let request = SharingRequest {
        eval_from_ms: asked.eval_from.as_ref().map(|from| from.first_ms(&zone)).transpose()?,
        gpus: asked.gpus.map(std::num::NonZeroU32::get),
        limits,
        measured: asked.measured,
        watched: asked.watched,
        seed: asked.seed,
        gpu_types: asked.gpu_type.clone(),
        types: asked.types.clone(),
    };
    let steps = Steps::watching(quiet, "forecasting and replaying");
    let mut answer = SharingPlanAnswer::of(&trace, &table, title, &request, &steps)?;
    drop(steps);
    let emitted = asked.emit(&mut answer, &own, quiet);
    checked.write(None, quiet, || answer.report(), || answer::json(&answer, "the answer"))?;
    // Who asked for files and gets none has an answer all the same.
    emitted
}

impl PlanSharing {
    /// Writes the configuration that is asked for; what of it does not fit into the user's own files goes into the answer.
    fn emit(&self, answer: &mut SharingPlanAnswer, own: &[OwnFile], quiet: bool) -> Result<()> {
        let Some(folder) = self.emitting.folder(emit::refused(answer)) else { return Ok(()) };
        let site = SharingSite {
            way: self.share_by.map(|by| match by {
                ShareBy::TimeSlicing => SharingWay::TimeSlicing,
                ShareBy::Mps => SharingWay::Mps,
            }),
            gpus_per_node: self.gpus_per_node.get(),
            slurm_type: self.slurm_type.clone(),
            gpu_resource: self.gpu_resource.clone(),
            namespace: self.namespace.clone(),
        };
        let mut files = Vec::new();
        for who in self.emitting.readers() {
            files.extend(match who {
                EmitSharing::Slurm => emit::slurm(answer, &site)?,
                EmitSharing::Kubernetes => emit::kubernetes(answer, &site)?,
            });
        }
        let patch = (!own.is_empty()).then(|| against::slurm(answer, &site, own)).transpose()?;
        answer.not_in_patch = patch.as_ref().map_or_else(Vec::new, |patch| patch.left.clone());
        let idle = files.iter().filter(|(name, content)| emit::sets_nothing(name, content));
        let idle: Vec<String> = idle.map(|(name, _)| name.clone()).collect();
        patched(folder, files, patch, quiet)?;
        if !idle.is_empty() {
            let holds = if idle.len() == 1 { "holds comments alone and sets" } else { "hold comments alone and set" };
            output::say(quiet, &format!("tracecast: {} {holds} nothing", format::names(&idle, 12)));
        }
        Ok(())
    }
}
