//! `tracecast plan share couples`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::report::format;
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::plan::emit::GPU_RESOURCE;
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::plan::emit::slurm::check_gpus;
use tracecast_planner::sharing::SharingRequest;
use tracecast_planner::sharing::against;
use tracecast_planner::sharing::answer::{self as sharing, SharingPlanAnswer};
use tracecast_planner::sharing::couples::MeasuredCouples;
use tracecast_planner::sharing::emit::{self, SharingSite};
use tracecast_planner::sharing::way::SharingWay;
use tracecast_predictors::interference::read;

use crate::args::{Reading, TIMES, entries};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::cmd::emitting::{Audience, Emitting, own_files, patched};
use crate::cmd::models::INTERFERENCE;
use crate::cmd::predict_interference;
use crate::cmd::predict_interference::Limits;
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{output, source};

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that share GPUs wait for each other, so a plan of sharing needs them all";

/// Reader of the plan.
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

/// Sharing of a GPU by two jobs.
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
  tracecast plan share couples datasets/sample --pairs simulation_throughputs.json.gz --gpu-type p100 --slo 2 --emit slurm --emit-to sharing
and the measured pairs that may share, without a trace:
  tracecast plan share couples --pairs datasets/pairs/h100/mps/pairs.csv --slo 1.25

{TIMES}"))]
pub(crate) struct PlanSharing {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    ///
    /// Without a SOURCE nothing is planned: the measured pairs in which neither job is slowed
    /// beyond
    /// --slo are listed, the most throughput first.
    #[arg(value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Measured pairs: CSV, or Gavel's throughputs (JSON), as `model backtest interference` reads
    /// them; may be given several times
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
    /// name says, else of that nearest to what it used by telemetry, else its type is drawn.
    #[arg(long, value_name = "CSV", requires = "sources", help_heading = "Jobs and GPUs")]
    pub(crate) types: Option<PathBuf>,
    /// GPU types to plan for, separated by commas [default: all that were measured]
    ///
    /// In the replay every GPU is of that type.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = entries(), help_heading = "Jobs and GPUs")]
    pub(crate) gpu_type: Vec<String>,
    /// Number of GPUs [default: the fewest with which 95 % of the earlier jobs wait at most 30 min, if nobody shares]
    #[arg(long, value_name = "GPUS", requires = "sources", help_heading = "Jobs and GPUs")]
    pub(crate) gpus: Option<std::num::NonZeroU32>,
    /// Pairs of each new job type that are measured before it shares
    ///
    /// Without this option each couple is forecast without any pair of its two families. With it, the forecast knows as many pairs of each of their job types,
    /// with partners of other families.
    #[arg(long, value_name = "PAIRS", requires = "sources", default_value_t = 0, help_heading = "Evaluation")]
    pub(crate) measured: usize,
    /// Plan for a site that watches new pairs and requeues a job where the limits are not kept
    ///
    /// The rule then has a trial: 10 min after a job began beside another, it writes a checkpoint and is requeued if either is slower than the SLO, or if
    /// both together make no more than one alone. What is emitted does not watch by itself.
    #[arg(long, requires = "sources", help_heading = "Evaluation")]
    pub(crate) watched: bool,
    /// Test on what comes from this time on, and choose on what is before it [default: when two
    /// thirds of the jobs are submitted]
    #[arg(long, value_name = "TIME", requires = "sources", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Seed of the job types that are drawn, and of the pairs measured
    #[arg(long, requires = "sources", default_value_t = 1, help_heading = "Evaluation")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) models: Models,
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

pub(crate) fn plan(arguments: &PlanSharing, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("plan-share-couples", &[])?;
    arguments.emitting.check()?;
    arguments.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let own = own_files(&arguments.against, arguments.emitting.emit_to.as_deref(), |is_slurm| match is_slurm {
        true if arguments.emitting.readers().contains(&EmitSharing::Slurm) => None,
        true => Some("--emit names no slurm, who would read it"),
        false => Some(
            "only Slurm's files (their names end in .conf) are patched; for Kubernetes, merge the keys of kubernetes-sharing.yaml into your ConfigMap",
        ),
    })?;
    check_gpus(&own)?;
    if arguments.models.is_naive() {
        let what =
            "--models none: who may share is a forecast; without a SOURCE the measured pairs that may share are listed";
        return Err(Usage(what.to_owned()).into());
    }
    let model = arguments.models.file(INTERFERENCE)?;
    let saved = model.filter(|model| model.is_file()).map(|model| predict_interference::load(&model)).transpose()?;
    let unused = if saved.is_none() { arguments.models.unused("it has no model of slowdowns")? } else { None };
    let limits = arguments.limits.checked()?;
    let table = read::sharing_of_all(&arguments.pairs, &arguments.profiles)?;
    if arguments.sources.is_empty() {
        if arguments.models.is_named() {
            return Err(
                Usage("--models: without a SOURCE the pairs are as measured, so no model is asked".to_owned()).into()
            );
        }
        arguments.reading.reads_no_trace("no SOURCE is named, so no trace is read")?;
        if arguments.emitting.emit_to.is_some() {
            return Err(Usage("--emit-to: without a SOURCE there is no plan to write".to_owned()).into());
        }
        let result = MeasuredCouples::from_table(&table, limits.slo, &arguments.gpu_type)?;
        return checked.write(quiet, || result.report(), || answer::json(&result, "the answer"));
    }
    let trace = source::open_whole(&arguments.sources, &arguments.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &arguments.sources);
    let zone = Zone::named(&trace.zone)?;
    let request = SharingRequest {
        eval_from_ms: arguments.eval_from.as_ref().map(|from| from.first_ms(&zone)).transpose()?,
        gpus: arguments.gpus.map(std::num::NonZeroU32::get),
        limits,
        measured: arguments.measured,
        watched: arguments.watched,
        seed: arguments.seed,
        gpu_types: arguments.gpu_type.clone(),
        types: arguments.types.clone(),
    };
    let steps = Steps::watching(quiet, "forecasting and replaying");
    let mut answer = sharing::plan(&trace, &table, title, &request, saved.as_deref(), &steps)?;
    drop(steps);
    answer.notes.extend(unused);
    let emitted = arguments.emit(&mut answer, &own, quiet);
    checked.write(quiet, || sharing::report(&answer), || answer::json(&answer, "the answer"))?;
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
        answer.body.not_in_patch = patch.as_ref().map_or_else(Vec::new, |patch| patch.left.clone());
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
