//! `tracecast plan queues`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgGroup, Args, ValueEnum};
use tracecast_analytics::Trace;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;

use tracecast_planner::plan::emit::GPU_RESOURCE;
use tracecast_planner::plan::emit::own::{OwnFile, Patch};
use tracecast_planner::plan::unadvised;
use tracecast_planner::queues::against;
use tracecast_planner::queues::emit;
use tracecast_planner::queues::{self, Journal, Objective, QueuesAnswer, QueuesRequest, SearchRun, search};
use tracecast_planner::replay::nearest::Backfill;
use tracecast_planner::sim::Estimate;

use crate::args::{Reading, TIMES, factor, resource};
use crate::cmd::answer::{self, Charting};
use crate::cmd::emitting::{Audience, Emitting, host_list, own_files, patched, written_of_another};
use crate::cmd::plan_jobs::{OpenedPlan, PlanInput, PlanJobs};
use crate::cmd::simulate::{PolicyArguments, growth};
use crate::cmd::site::SiteArguments;
use crate::cmd::trained::{PredictedRuns, trained_drivers};
use crate::exit::Usage;
use crate::output;
use crate::progress::Steps;

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "jobs that share nodes wait for each other, so a plan of queues needs them all";

/// Note on predictions made without a file.
const LAST_TWO: &str = "runs are predicted as the mean of the last two of the same user and job name";

/// Note on predictions where nothing is known of earlier runs.
const NO_ENDS: &str = "No job has a recorded end, so nobody could know earlier runs: **each job is predicted to run an hour**, and no order by predicted runs is tried";

/// Reader of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// Slurm: partitions, QOS limits, and lines for job_submit.lua
    Slurm,
    /// Kueue (Kubernetes): ClusterQueues in a cohort
    Kueue,
    /// NVIDIA's KAI scheduler (Kubernetes): Queues
    Kai,
    /// Volcano (Kubernetes): Queues, for its capacity plugin
    Volcano,
}

impl Audience for Emit {
    const WHAT: &'static str = "Write the configuration of these, separated by commas: slurm, kueue, kai, volcano";

    fn unnamed() -> &'static [Self] {
        &[]
    }
}

impl Emit {
    /// Name of the reader, and the files that are written for it.
    fn files(self) -> (&'static str, Vec<&'static str>) {
        match self {
            Self::Slurm => ("Slurm", [&emit::SLURM_FILES[..], &["slurm.patch"]].concat()),
            Self::Kueue => ("Kueue", vec![emit::KUEUE_FILE, "kueue.patch"]),
            Self::Kai => ("KAI", vec![emit::KAI_FILE, "kai.patch"]),
            Self::Volcano => ("Volcano", vec![emit::VOLCANO_FILE, "volcano.patch"]),
        }
    }
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("more_work").args(["scale", "add"]).multiple(true))]
#[command(after_help = format!("\
Example, the bundled sample, as Slurm and as Kueue read it:
  tracecast plan queues datasets/sample --emit slurm,kueue --emit-to queues

{TIMES}"))]
pub(crate) struct PlanQueues {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    #[arg(long, value_name = "WHAT", value_parser = resource, help_heading = "Jobs and nodes")]
    pub(crate) resource: Option<Resource>,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
    #[command(flatten)]
    pub(crate) runs: PredictedRuns,
    /// Test on what comes from this time on, and choose on what is before it [default: when two
    /// thirds of the jobs are submitted]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// What is to be small: wait (the mean and the 95 % wait, alike), or terms, separated by commas
    ///
    /// Terms are mean, median and tail (the 95 % wait); fair, the wait of the VC that fares worst beside that on nodes of its own; predictable, how
    /// far starts are from what jobs could be told when they came; and held, GPU time with what is lost at stops. Each may have a weight, as in
    /// median=2,tail. With classes, all of it counts alike for jobs of one GPU, of up to 8, and of more.
    #[arg(long, value_name = "TERMS", default_value_t, help_heading = "Evaluation")]
    pub(crate) objective: Objective,
    /// Search on from the list, with so many ways replayed on the earlier jobs at most, such as 200; 0 is the list alone
    ///
    /// A search also tries other orders, a queue of short jobs, backfill and other sizes of shares. It ends when nothing more is clearly better. On the traces that it was tried on it is no better than the list.
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000), help_heading = "Evaluation")]
    pub(crate) replays: u32,
    /// File in which each replay of the search is written down, so that it goes on after an interruption
    ///
    /// The same command with the same file goes on where the last one ended, and with a larger --replays it searches on. The answer is the same as without a
    /// journal. A journal of other jobs or nodes, or of another policy, objective or split, is refused.
    #[arg(long, value_name = "FILE", help_heading = "Evaluation")]
    pub(crate) journal: Option<PathBuf>,
    /// Plan for this factor of the work as well, from 0.05 to 20
    ///
    /// Whole weeks of each user are drawn from the earlier jobs, as in `simulate --scale`. A way must wrong no VC today and in every draw, and costs count half and half.
    #[arg(long, value_name = "FACTOR", value_parser = factor, help_heading = "Growth")]
    pub(crate) scale: Option<f64>,
    /// Plan for teams that join as well: a TOML file with a name and gpu_hours_per_week for each
    #[arg(long, value_name = "TOML", help_heading = "Growth")]
    pub(crate) add: Option<PathBuf>,
    /// Number of draws for --scale and --add
    #[arg(long, value_name = "N", default_value_t = 5, requires = "more_work", value_parser = clap::value_parser!(u64).range(1..=1000), help_heading = "Growth")]
    pub(crate) draws: u64,
    #[command(flatten)]
    pub(crate) which: PlanJobs,
    #[command(flatten)]
    pub(crate) today: PolicyArguments,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    /// File of your own whose queues the plan is to change (Slurm's end in .conf, others are YAML or JSON); may be given several times
    ///
    /// Beside the files that are written anew, a patch then says what changes in yours, line by line and why. All else in them stays.
    #[arg(long, value_name = "FILE", requires = "emit_to", help_heading = "Configuration")]
    pub(crate) against: Vec<PathBuf>,
    /// Host names of all planned nodes, as slurm.conf writes them, such as `gpu[001-064]`
    ///
    /// Without it they are those of the VCs' partitions in the file of --against, else the trace's
    /// nodes with GPUs.
    #[arg(long, value_name = "HOSTLIST", value_parser = host_list, help_heading = "Configuration")]
    pub(crate) host_list: Option<String>,
    /// What Kubernetes calls a GPU
    #[arg(long, value_name = "NAME", default_value = GPU_RESOURCE, help_heading = "Configuration")]
    pub(crate) gpu_resource: String,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

pub(crate) fn plan(arguments: &PlanQueues, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-queues", &[])?;
    arguments.emitting.check()?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let own = own_files(&arguments.against, arguments.emitting.emit_to.as_deref(), |is_slurm| {
        let read = arguments.emitting.readers().iter().any(|who| is_slurm == (*who == Emit::Slurm));
        match is_slurm {
            _ if read => None,
            true => Some("--emit names no slurm, who would read it"),
            false => Some("--emit names no kueue, kai or volcano, who would read it"),
        }
    })?;
    let growth = growth(arguments.scale, arguments.add.as_deref(), arguments.draws, &arguments.today)?;
    let plan = PlanInput {
        sources: &arguments.sources,
        reading: &arguments.reading,
        site: &arguments.site,
        resource: arguments.resource,
        eval_from: arguments.eval_from.as_ref(),
        jobs: &arguments.which,
        policy: &arguments.today,
    };
    let mut opened = plan.open(NEEDED, quiet)?;
    let OpenedPlan { trace, loaded, eval_from_ms, .. } = &mut opened;
    let until_ms = *eval_from_ms;
    let named = arguments.runs.drivers(trace, loaded)?;
    // What today's backfill goes by, orders that are tried go by as well, and predictions are there to be used.
    let today = opened.todays(until_ms, Backfill::By(Estimate::Predicted))?.policy;
    let OpenedPlan { title, trace, mut loaded, mut subject, eval_from_ms, .. } = opened;
    if arguments.emitting.emit_to.is_some() && loaded.resource != Resource::Gpus {
        let what = format!("--emit: the files count GPUs, and the jobs compete for {}", loaded.resource.many());
        return Err(Usage(what).into());
    }
    let request = QueuesRequest {
        eval_from_ms,
        today,
        objective: arguments.objective.clone(),
        replays: arguments.replays as usize,
        growth,
        most_listed: usize::MAX,
        under_kueue: true,
    };
    let listed = search::listed(&loaded, &request);
    if (1..=listed).contains(&request.replays) {
        let what = format!(
            "--replays {} is no more than the {listed} ways of the list; give more, or leave it out",
            arguments.replays
        );
        return Err(Usage(what).into());
    }
    let drivers = named.map_or_else(|| trained_drivers(&trace, &mut loaded, quiet), Ok)?;
    let runs = queues::choose_runs(&mut loaded, drivers, &request)?;
    match runs.matched() {
        Some(matched) => {
            subject.note_column("Predictions", matched);
            subject.notes.push(format!("Of the other jobs: {LAST_TWO}."));
        }
        None if trace.jobs.end.is_all_unknown() => subject.notes.push(format!("{NO_ENDS}.")),
        None => subject.notes.push(format!("Of all jobs: {LAST_TWO}.")),
    }
    loaded.notes = subject.notes;
    let journal = arguments.journal.as_deref().map(|path| search::journal(path, &loaded, &request)).transpose()?;
    if let Some(told) = journal.as_ref().and_then(Journal::told) {
        output::say(quiet, &format!("tracecast: {told}"));
    }
    let steps = Steps::new(quiet, "replaying", search::replays(&loaded, &request));
    let run = SearchRun { watch: &steps, journal: journal.as_ref(), runs: Some(&runs) };
    let answer = queues::plan(&trace, &loaded, title, &request, run)?;
    drop(steps);
    let refused = unadvised(answer.recommendation.as_ref(), &answer.action);
    if let Some(folder) = arguments.emitting.folder(refused) {
        if answer.trial.fidelity.warns() {
            written_of_another();
        }
        emitted(arguments, folder, &trace, &answer, &own, quiet)?;
    }
    checked.write(quiet, || queues::answer::report(&answer), || answer::json(&answer, "the answer"))
}

/// Writes what there is to set for those who were asked for, and says for whom there is nothing.
fn emitted(
    arguments: &PlanQueues,
    folder: &Path,
    trace: &Trace,
    answer: &QueuesAnswer,
    own: &[OwnFile],
    quiet: bool,
) -> Result<()> {
    let shared = || emit::shared_nodes(answer, &trace.nodes, own);
    let nodes = arguments.host_list.clone().map_or_else(shared, Ok)?;
    let (mut files, mut patches, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for who in arguments.emitting.readers() {
        let written = match who {
            Emit::Slurm => emit::slurm(answer, &nodes)?,
            Emit::Kueue => emit::kueue(answer, &arguments.gpu_resource)?,
            Emit::Kai => emit::kai(answer)?,
            Emit::Volcano => emit::volcano(answer, &arguments.gpu_resource)?,
        };
        without.extend(written.is_empty().then_some(who.files().0));
        files.extend(written);
        if own.iter().any(|file| file.is_slurm() == (*who == Emit::Slurm)) {
            patches.push(match who {
                Emit::Slurm => against::slurm(answer, &nodes, own)?,
                Emit::Kueue => against::kueue(answer, &arguments.gpu_resource, own)?,
                Emit::Kai => against::kai(answer, own)?,
                Emit::Volcano => against::volcano(answer, &arguments.gpu_resource, own)?,
            });
        }
    }
    files.extend((!without.is_empty()).then(|| emit::notes(answer, &without)));
    let (patches, idle): (Vec<Patch>, Vec<Patch>) =
        patches.into_iter().partition(|patch| patch.made > 0 || !patch.left.is_empty());
    let written: Vec<&str> =
        files.iter().chain(patches.iter().map(|patch| &patch.file)).map(|(name, _)| name.as_str()).collect();
    let of_any = arguments.emitting.readers().iter().flat_map(|who| who.files().1).chain([emit::NOTES]);
    let before: Vec<&str> = of_any.filter(|name| !written.contains(name) && folder.join(name).exists()).collect();
    patched(folder, files, patches, quiet)?;
    idle.iter().for_each(|patch| output::say(quiet, &format!("tracecast: {}", patch.told())));
    if !without.is_empty() {
        output::warn(&format!(
            "there is nothing to set for {}, so no configuration is written; {} in {} says why",
            without.join(", "),
            emit::NOTES,
            folder.display()
        ));
    }
    if !before.is_empty() {
        output::warn(&format!(
            "of an earlier plan, and not of this one, in {}: {}; take that away",
            folder.display(),
            before.join(", ")
        ));
    }
    Ok(())
}
