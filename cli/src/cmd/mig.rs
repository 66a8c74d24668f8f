//! `tracecast plan share mig`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::mig::against;
use tracecast_planner::mig::answer::{self as mig, MigAnswer};
use tracecast_planner::mig::demand::{self, MigDemand};
use tracecast_planner::mig::emit::{self, MigSite};
use tracecast_planner::mig::gpu::{MigGpu, NAMES};
use tracecast_planner::mig::{MigRequest, MigStudyRequest};
use tracecast_planner::plan::emit::own::OwnFile;
use tracecast_planner::plan::emit::slurm::check_gpus;
use tracecast_planner::plan::nothing_advised;
use tracecast_planner::plan::verdict::Verdict;
use tracecast_predictors::interference::slice::SliceTable;

use crate::args::{Reading, TIMES, duration};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::cmd::emitting::{Audience, Emitting, own_files, patched};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::{Clock, Steps};
use crate::source;

/// Why a demand takes no options of reading.
const NO_TRACE: &str = "a file of demand holds no jobs; the option is of the trace that --trace names";

/// Reader of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmitMig {
    /// Slurm: configurations of mig-parted, and lines for gres.conf and slurm.conf
    Slurm,
    /// Kubernetes: a ConfigMap for NVIDIA's MIG manager, and labels
    Kubernetes,
}

impl Audience for EmitMig {
    const WHAT: &'static str = "Write the configuration of these, separated by commas: slurm, kubernetes";

    fn unnamed() -> &'static [Self] {
        &[]
    }
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples, two jobs of each of MISO's types on A100s, none more than twice as slow as on a whole one:
  tracecast plan share mig mig_step_time.csv --profiles profiles.csv --demand demand.csv --gpu a100-40gb --slo 2 --emit slurm --emit-to mig
and the jobs of a trace whose names are job types, chosen on two thirds of them and replayed on the rest:
  tracecast plan share mig mig_step_time.csv --profiles profiles.csv --trace accounting.txt --gpu a100-40gb --slo 2

A demand file is a CSV with the columns job and jobs (so many run at once), or job, per_hour and run_s (so many come in an hour, and run so long alone).

{TIMES}"))]
pub(crate) struct PlanMig {
    /// Step times of job types on MIG slices: a CSV with the columns model, batch, mig_profile and step_s_median
    #[arg(value_name = "SLICES")]
    pub(crate) slices: PathBuf,
    /// What is known of each job type on the whole GPU: a CSV with model, batch and any of the quantities in the guide
    #[arg(long, value_name = "PROFILES", required = true, help_heading = "Jobs and GPUs")]
    pub(crate) profiles: PathBuf,
    /// What the GPUs must carry: a CSV with the columns job and jobs, or job, per_hour and run_s
    #[arg(
        long,
        value_name = "CSV",
        required_unless_present = "trace",
        conflicts_with = "trace",
        help_heading = "Jobs and GPUs"
    )]
    pub(crate) demand: Option<PathBuf>,
    /// Jobs to carry: those of one GPU of a trace (files, folders or patterns), in place of a
    /// demand
    ///
    /// The fleet is then the smallest on which they keep the target of waiting, and is tested on later jobs.
    #[arg(long, value_name = "SOURCE", num_args = 1.., conflicts_with_all = ["busy", "gpus"], help_heading = "Jobs and GPUs")]
    pub(crate) trace: Vec<PathBuf>,
    /// Job types of jobs by their names: a CSV with the columns name and job_type, such as bert-*,BERT
    ///
    /// In a name * stands for any text and ? for one character; the first line that matches counts. A job that no line matches is of the type that its
    /// name says, else its type is drawn.
    #[arg(long, value_name = "CSV", conflicts_with = "demand", help_heading = "Jobs and GPUs")]
    pub(crate) types: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// GPU that was measured and is planned for: a100-40gb, a100-80gb, h100-80gb, h200-141gb
    #[arg(long, value_name = "NAME", required = true, value_parser = gpu, help_heading = "Jobs and GPUs")]
    pub(crate) gpu: &'static MigGpu,
    /// Number of GPUs, on which the jobs then make the most progress [default: the fewest that carry all jobs]
    #[arg(long, value_name = "GPUS", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Jobs and GPUs")]
    pub(crate) gpus: Option<u32>,
    /// How many times as slow as on the whole GPU a job may be, at the 0.9 quantile
    #[arg(long, value_name = "TIMES", default_value = "2", value_parser = slo, help_heading = "Limits")]
    pub(crate) slo: f64,
    /// Share of the time that slices may be held, where jobs come and go
    #[arg(long, value_name = "SHARE", default_value = "0.8", value_parser = busy, help_heading = "Limits")]
    pub(crate) busy: f64,
    /// The wait that 95 % of the jobs of a trace keep
    #[arg(long, value_name = "TIME", default_value = "30min", value_parser = duration, conflicts_with = "demand", help_heading = "Limits")]
    pub(crate) target_p95: i64,
    /// Test on what comes from this time on, and choose on what is before it [default: when two
    /// thirds of the jobs are submitted]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, conflicts_with = "demand", help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Seed of the job types that are drawn for jobs whose name is none
    #[arg(long, default_value_t = 1, conflicts_with = "demand", help_heading = "Evaluation")]
    pub(crate) seed: u64,
    /// How the GPUs are partitioned now: a CSV with the columns partition and gpus, such as 2x3g.20gb,4
    ///
    /// Of plans that are equally good, the one that changes the fewest GPUs is taken.
    #[arg(long, value_name = "CSV", help_heading = "Change")]
    pub(crate) now: Option<PathBuf>,
    /// How long a GPU takes no new job before its partition is changed
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration, requires = "now", help_heading = "Change")]
    pub(crate) drain: i64,
    #[command(flatten)]
    pub(crate) emitting: Emitting<EmitMig>,
    /// Your own slurm.conf and gres.conf (names end in .conf), which the plan is to change; may be given several times
    ///
    /// Beside the files that are written anew, a patch then says what changes in yours, line by line and why. All else in them stays.
    #[arg(long, value_name = "FILE", requires = "emit_to", help_heading = "Configuration")]
    pub(crate) against: Vec<PathBuf>,
    /// Number of GPUs in a node
    #[arg(long, value_name = "GPUS", default_value = "8", value_parser = gpus_per_node, help_heading = "Configuration")]
    pub(crate) gpus_per_node: NonZeroU32,
    /// What Slurm calls the whole GPU; a slice is called the same with its profile [default: a100, h100 or h200]
    #[arg(long, value_name = "NAME", help_heading = "Configuration")]
    pub(crate) slurm_type: Option<String>,
    /// Kubernetes namespace of NVIDIA's operator
    #[arg(long, value_name = "NAME", default_value = "gpu-operator", help_heading = "Configuration")]
    pub(crate) namespace: String,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

fn gpu(text: &str) -> Result<&'static MigGpu, String> {
    MigGpu::named(text).map_err(|_| format!("write one of {}", NAMES.join(", ")))
}

fn gpus_per_node(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse().ok().filter(|gpus: &NonZeroU32| gpus.get() <= 64).ok_or("write a number from 1 to 64")
}

fn slo(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|slo: &f64| (1.0..=1000.0).contains(slo)).ok_or("write a number of times, 1 or more")
}

fn busy(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|busy: &f64| *busy > 0.0 && *busy <= 1.0).ok_or("write a share above 0, up to 1")
}

pub(crate) fn plan(arguments: &PlanMig, quiet: bool) -> Result<()> {
    let checked = arguments.answering.check("plan-share-mig", &[])?;
    arguments.emitting.check()?;
    arguments.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let own = own_files(&arguments.against, arguments.emitting.emit_to.as_deref(), |is_slurm| match is_slurm {
        true if arguments.emitting.readers().contains(&EmitMig::Slurm) => None,
        true => Some("--emit names no slurm, who would read it"),
        false => Some(
            "only Slurm's files (their names end in .conf) are patched; for Kubernetes, kubernetes-mig.yaml is a ConfigMap of its own",
        ),
    })?;
    check_gpus(&own)?;
    if arguments.demand.is_some() {
        arguments.reading.reads_no_trace(NO_TRACE)?;
    }
    if arguments.models.is_naive() {
        let what = "--models none: a slice as fast as its share of the SMs is compared in the test, and never followed; leave it out";
        return Err(Usage(what.to_owned()).into());
    }
    let unused = arguments.models.unused("speeds on slices are forecast from those in --slices")?;
    let now = arguments.now.as_deref().map(|path| demand::read_now(path, arguments.gpu)).transpose()?;
    let slices = SliceTable::read(&arguments.slices, &arguments.profiles)?;
    let request = MigRequest {
        gpus: arguments.gpus,
        slo: arguments.slo,
        busy: arguments.busy,
        now: now.unwrap_or_default(),
        drain_s: arguments.drain as f64 / 1e3,
    };
    let mut answer = match &arguments.demand {
        Some(path) => {
            let demand = MigDemand::read(path)?;
            let _clock = Clock::new(quiet, "forecasting and choosing partitions");
            mig::plan(&slices, arguments.gpu, path.display().to_string(), &demand, &request)?
        }
        None => {
            let trace = source::open(&arguments.trace, &arguments.reading, None, quiet)?;
            let zone = Zone::named(&trace.zone)?;
            let study = MigStudyRequest {
                eval_from_ms: arguments.eval_from.as_ref().map(|from| from.first_ms(&zone)).transpose()?,
                target_wait_ms: arguments.target_p95,
                seed: arguments.seed,
                types: arguments.types.clone(),
            };
            let title = describe::title(&trace, &arguments.trace);
            let steps = Steps::watching(quiet, "choosing partitions and replaying");
            mig::plan_jobs(&slices, arguments.gpu, title, &trace, &request, &study, &steps)?
        }
    };
    answer.notes.extend(unused);
    let emitted = arguments.emit(&mut answer, &own, quiet);
    checked.write(quiet, || mig::report(&answer), || answer::json(&answer, "the answer"))?;
    // Who asked for files and gets none has an answer all the same.
    emitted
}

impl PlanMig {
    /// Writes the configuration that is asked for; what of it does not fit into the user's own files goes into the answer.
    fn emit(&self, answer: &mut MigAnswer, own: &[OwnFile], quiet: bool) -> Result<()> {
        let refused = (answer.verdict != Verdict::Advised).then(|| nothing_advised(&answer.action));
        let Some(folder) = self.emitting.folder(refused) else { return Ok(()) };
        let site = MigSite {
            gpus_per_node: self.gpus_per_node.get(),
            slurm_type: self.slurm_type.clone(),
            namespace: self.namespace.clone(),
        };
        let mut files = Vec::new();
        for who in self.emitting.readers() {
            files.extend(match who {
                EmitMig::Slurm => emit::slurm(answer, &site)?,
                EmitMig::Kubernetes => emit::kubernetes(answer, &site)?,
            });
        }
        let patch = (!own.is_empty()).then(|| against::slurm(answer, &site, own)).transpose()?;
        answer.body.not_in_patch = patch.as_ref().map_or_else(Vec::new, |patch| patch.left.clone());
        patched(folder, files, patch, quiet)
    }
}
