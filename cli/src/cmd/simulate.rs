//! `tracecast simulate`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::{ArgGroup, Args};
use tracecast_analytics::ingest::{ShortLines, SourceFile};
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_analytics::time::Zone;
use tracecast_planner::replay::Error as ReplayError;
use tracecast_planner::replay::answer::Subject;
use tracecast_planner::replay::growth::{Growth, team::Team};
use tracecast_planner::replay::input::{Column, Hosts, Loaded, Matched, Options, load, of_switches};
use tracecast_planner::replay::metric::JobTimes;
use tracecast_planner::replay::nearest::{Backfill, Today, todays};
use tracecast_planner::replay::shard::{self, Shard, Stored};
use tracecast_planner::replay::study::{self, Named, OtherCluster, Study};
use tracecast_planner::replay::{Scenario, output as csv_output};
use tracecast_planner::sim::{Compat, Estimate, Order, Policy, Scan, Schedule};

use crate::args::{Reading, TIMES, duration, entries, factor, resource, timed, window};
use crate::cmd::answer::Answering;
use crate::cmd::simulate_sharing::{self, SharedSource, SharingArguments};
use crate::cmd::simulate_site::{QuotaFiles, SiteFiles, SiteRead};
use crate::cmd::{answer, describe};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{early, output, source};

/// One invocation that works, for the end of the help.
const EXAMPLE: &str = "\
Example, the bundled sample with the shortest job first and EASY backfill:
  tracecast simulate datasets/sample --recorded fifo/skip --order sjf --scan easy";

/// What a scenario writes that has no limits.
const NO_LIMITS: &str = "none";

/// What stands for what jobs asked of the topology themselves, and no rule.
const AS_RECORDED: &str = "as-recorded";

/// Why a replay takes no part of the jobs.
const NEEDED: &str = "jobs that share a cluster wait for each other, so a replay needs them all; --vcs replays some VCs on their own nodes";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct Simulate {
    /// Trace to read: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) jobs: Jobs,
    #[command(flatten)]
    pub(crate) policy: PolicyArguments,
    #[command(flatten)]
    pub(crate) comparison: ComparisonArguments,
    #[command(flatten)]
    pub(crate) sharing: SharingArguments,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write when and where each job ran in the replay to this CSV file
    ///
    /// With --compare or --share, the file holds the replay under the first policy. The guide lists its columns.
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) schedule: Option<PathBuf>,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

/// Which jobs, on which nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jobs and nodes", group = ArgGroup::new("more").multiple(true))]
pub(crate) struct Jobs {
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    ///
    /// The value cpus means processors, for a log without GPUs. The answer says what was chosen.
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Cluster file (TOML) with the nodes and quotas of each VC [default: the nodes that the trace records]
    ///
    /// The file may also have sizes that change over time, and failures. `tracecast cluster SOURCE` writes one with the nodes that the trace
    /// records. If it records none, that command infers them.
    #[arg(long, value_name = "TOML")]
    pub(crate) cluster: Option<PathBuf>,
    /// Quotas of queues, as the objects of Kueue, KAI or Volcano (YAML or JSON): scheduling is then theirs
    ///
    /// The file holds ClusterQueues and what goes with them, as `kubectl get clusterqueues,cohorts,resourceflavors,topologies,nodes,workloadpriorityclasses -o yaml` prints
    /// it, or KAI's queues and configuration, as `kubectl get queues.scheduling.run.ai,schedulingshards,priorityclasses -o yaml` prints them, or Volcano's queues (`kubectl get
    /// queues.scheduling.volcano.sh,priorityclasses -o yaml`) and the ConfigMap of its scheduler. Each VC of the jobs is the
    /// queue of its name. All nodes are one pool that the quotas divide, and --scan is kueue, kai or volcano unless it is given.
    #[arg(long, value_name = "YAML")]
    pub(crate) quota: Option<PathBuf>,
    /// Limits by QOS, account and partition, as Slurm has them: a TOML file, or the output of sacctmgr and scontrol
    ///
    /// `(sacctmgr show qos -P; sacctmgr show assoc tree -P; scontrol show partition; scontrol show config) > limits.txt` writes such a file. Replayed are GrpTRES, GrpJobs, GrpTRESRunMins, GrpTRESMins, GrpWall,
    /// MaxTRESPA, MaxJobsPA, MaxTRESPU, MaxJobsPU, MaxTRESPerJob and MaxWall of a QOS, its Priority (with --order multifactor:qos=1000) and Preempt; GrpTRES, GrpJobs, GrpTRESRunMins, GrpTRESMins, GrpWall, MaxJobs, MaxTRESPerJob,
    /// MaxWall and Fairshare (with --order multifactor:fair_share=1000) of accounts and of users in them; and MaxTime and the QOS of a partition. Each VC is the partition of its name. An order `multifactor` that names no weights has those of the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) limits: Option<PathBuf>,
    /// What jobs ask of the topology: required:LEVEL, preferred:LEVEL or unconstrained, such as required:rack:16 [default: what they asked themselves]
    ///
    /// Where the trace records what a job asked (Kueue's topologyRequest and annotations), that comes first, and these rules are for the other jobs. The word none leaves out what jobs asked: none alone, or none,required:rack:16. None alone also turns off the switches by which the scan slurm chooses nodes, where the narrowest level is called leaf. The word as-recorded is what they asked, and no rule. A job that requires a rack waits until one rack has room for all its nodes. One that prefers a rack takes the nearest wider level that has room, and
    /// else as few blocks as it takes. A number says from how many GPUs on jobs ask this; several rules are separated by commas, and a job has the one with the most GPUs that it reaches:
    /// required:rack:2,preferred:block:65. With slices=LEVEL/PODS, groups of so many pods lie in one domain each: preferred:block:64:slices=rack/4. The section `[topology]` of --cluster says which nodes
    /// lie together. The level node is always there.
    #[arg(long, value_name = "RULES")]
    pub(crate) topology: Option<String>,
    /// Whether processors and memory count beside GPUs: none or as-recorded [default: as recorded, where jobs and nodes have them]
    ///
    /// A job then starts only on nodes that have its processors and memory as well as its GPUs. Jobs take what they were given or asked for, evenly over their GPUs. Nodes have what the machine list of the trace says, or the keys cpus_per_node and
    /// memory_gib_per_node of --cluster. Whoever has no recorded processors or memory takes none. The word none replays GPUs alone.
    #[arg(long, value_name = "WHICH")]
    pub(crate) hosts: Option<Hosts>,
    /// Replay jobs that were submitted at this time or later [default: from the first job]
    ///
    /// Jobs that were running or waiting at this time are replayed, too, except with --compat helios.
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Written>,
    /// Replay jobs that were submitted before this time, where a date includes that day [default: to the last job]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
    /// Replay only jobs that ran at most this long, such as 90s, 10m, 2h or 7d [default: all]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_run: Option<i64>,
    /// Replay only jobs of these VCs, separated by commas [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = entries())]
    pub(crate) vcs: Option<Vec<String>>,
    /// Also replay this many times the work: 1.2 for a fifth more, 0.8 for a fifth less
    ///
    /// The jobs of each user are repeated or left out in whole weeks, so that habits stay. The answer gives every policy now and then, with
    /// intervals over several draws. The cluster stays as it is; --cluster names another.
    #[arg(long, value_name = "FACTOR", value_parser = factor, group = "more", conflicts_with_all = ["shard", "merge"])]
    pub(crate) scale: Option<f64>,
    /// Also replay the work of teams that join, as this file (TOML) describes them
    ///
    /// Each `[[team]]` has a name and gpu_hours_per_week. It may have like_vc or like_users, whose habits it has, and vc, where it submits.
    /// Its jobs are drawn from theirs in whole weeks.
    #[arg(long, value_name = "TOML", group = "more", conflicts_with_all = ["shard", "merge"])]
    pub(crate) add: Option<PathBuf>,
    /// Draws of --scale and --add
    #[arg(long, value_name = "N", requires = "more", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub(crate) draws: u64,
    /// Give each gang as many nodes as it had in the record
    ///
    /// Without this option the placement rule decides how many nodes a job gets.
    #[arg(long)]
    pub(crate) gangs_as_recorded: bool,
    /// CSV of predicted run times, with the columns job_id and predicted_duration_s (seconds)
    ///
    /// `tracecast predict` writes such a file.
    #[arg(long, value_name = "CSV")]
    pub(crate) predictions: Option<PathBuf>,
    /// CSV of scores for --order score, with the columns job_id and score
    ///
    /// The lowest score is served first. A job without a score comes last.
    #[arg(long, value_name = "CSV")]
    pub(crate) score: Option<PathBuf>,
}

/// The switches of a policy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArguments {
    /// Order in which waiting jobs are served, such as fifo or sjf [default: that of --recorded, else fifo]
    ///
    /// The name says which job is served first:
    ///   fifo         the job submitted first
    ///   fewest-gpus  the job with the fewest GPUs
    ///   sjf          the shortest job
    ///   ljf          the longest job
    ///   srtf         the job with the shortest remaining run time
    ///   qssf         quasi-shortest service: the smallest run time × GPUs
    ///   aged         the same with ageing; aged:1h lets e times the GPU time count as submitted an hour later
    ///   alike        qssf with runs that are expected anew as jobs of the same VC, user and GPUs end that were submitted within half an hour;
    ///                alike:0.5 lets e times the GPU time count as submitted half the longest wait of the moment later
    ///   las          least attained service: the least GPU time so far
    ///   tiresias     las with queues; tiresias:3250,7200,18000 sets their bounds (GPU-seconds)
    ///   gittins      the highest Gittins index of the GPU time so far
    ///   wfp3         score of wait, run time and GPUs, as published
    ///   f1           score of run time, GPUs and submission, as published
    ///   unicef       score of wait, run time and GPUs, as published
    ///   multifactor  Slurm's priority; multifactor:age=1000,fair_share=2000,size=500 sets
    ///                weights
    ///   fair-share   the tenant with the least recent GPU time; fair-share:7d sets the half-life
    ///   long-term    the tenant with the least GPU time so far, as Astraea
    ///   finish-time  the job that is furthest behind its fair finish time, as Themis
    ///   score        the lowest number in the file of --score
    ///
    /// Run times are those that --estimate names. --tenants says who the tenants are.
    #[arg(long, value_name = "ORDER", verbatim_doc_comment)]
    pub(crate) order: Option<String>,
    /// What happens when a job does not fit: strict, skip or a kind of backfill [default: that of --recorded, else strict; in plans, with --scale and with --add that which repeats the record, else strict]
    ///
    ///   strict        no later job starts; if only its quota is full, none of its VC
    ///   skip          later jobs that fit may start
    ///   easy          EASY backfill: later jobs may start if they do not delay this one
    ///   conservative  backfill in which every waiting job has a reservation
    ///   slurm         backfill as Slurm's plugin plans it
    ///   kueue         admission as Kueue's, within the quotas of --quota
    ///   kai           fair shares of queues as KAI's, with the queues of --quota
    ///   volcano       what queues deserve as Volcano's, with the queues of --quota
    #[arg(long, visible_alias = "scheduler", value_name = "SCAN", verbatim_doc_comment)]
    pub(crate) scan: Option<String>,
    /// Rule that chooses the nodes of a job [default: consolidate; anywhere if jobs compete for processors or nodes]
    ///
    ///   consolidate  as few nodes as possible, and those with the fewest free GPUs
    ///   first-fit    first node that fits
    ///   best-fit     node with the fewest free GPUs that still fits
    ///   worst-fit    node with the most free GPUs
    ///   spread       GPU by GPU, each on the node with the most free GPUs
    ///   random       nodes in random order
    ///   fgd          node on which the fragmentation of free GPUs grows least
    ///   buddy        aligned blocks of 1, 2, 4 … GPUs, and racks and blocks above the node
    ///                where the cluster file has any, as HiveD
    ///   locality     consolidate, but any free GPUs once the job has waited 150 s, as Philly;
    ///                locality:5m sets another wait
    ///   anywhere     any free GPUs at once
    #[arg(long, value_name = "RULE", verbatim_doc_comment)]
    pub(crate) place: Option<String>,
    /// Whether running jobs may be preempted, and at which cost [default: never]
    ///
    /// Write never, requeue, helios, tiresias, or three costs such as 7s,30s,60s. A cost is the time that a preemption adds to the run of a
    /// job: of 1 GPU, of 2 to 8 GPUs, and of more. The name helios stands for 7s,30s,60s, and tiresias for 40s,40s,60s. With requeue a job
    /// loses what it did since its last checkpoint. Where the cluster file guarantees GPUs or cells to VCs, only jobs beyond them are
    /// preempted. Preemption needs --scan strict, skip, kueue, kai or volcano. Under the last three the quotas say who is preempted, and the default is requeue.
    #[arg(long, value_name = "COST")]
    pub(crate) preempt: Option<String>,
    /// Run time that the scheduler knows of a job: true, requested or predicted [default: that of --recorded, else true; in plans a backfill that nobody named never goes by true]
    ///
    /// With true it knows the recorded run time, as an oracle would. With requested it knows the time limit of the job, and with predicted the
    /// run time from --predictions. For a job without a prediction it uses the time limit, and for a job without a limit the true run time.
    /// If --predictions is given, the default is predicted for the orders qssf, aged and alike and for backfill, else true.
    #[arg(long, value_name = "WHICH")]
    pub(crate) estimate: Option<String>,
    /// Time between two scheduling decisions, such as 60s [default: a decision after every event; 60s for tiresias with --compat helios]
    #[arg(long, value_name = "TIME", value_parser = timed)]
    pub(crate) interval: Option<String>,
    /// Number of waiting jobs that --scan conservative and slurm look at in a decision, as Slurm's bf_max_job_test [default: all]
    #[arg(long, value_name = "JOBS")]
    pub(crate) depth: Option<u32>,
    /// How far ahead --scan conservative and slurm reserve, such as 1d, as Slurm's bf_window [default: without end]
    ///
    /// A job that could only start later is promised nothing, so others may delay it.
    #[arg(long, value_name = "TIME", value_parser = timed)]
    pub(crate) window: Option<String>,
    /// Run time between two checkpoints of a job, such as 1h [default: no checkpoints]
    ///
    /// When a node fails, its jobs lose what they did since their last checkpoint.
    #[arg(long, value_name = "TIME", value_parser = timed)]
    pub(crate) checkpoint: Option<String>,
    /// Tenants between whom fair orders share: user or vc [default: user]
    ///
    /// The fair orders are fair-share, long-term, finish-time, and multifactor with a weight for fair_share.
    #[arg(long, value_name = "WHO")]
    pub(crate) tenants: Option<String>,
    /// Published simulator to imitate: none or helios [default: none]
    ///
    /// With helios, jobs start when the simulator that was published with the Helios traces starts them. In that simulator the orders srtf and
    /// tiresias preempt.
    #[arg(long, value_name = "WHOSE")]
    pub(crate) compat: Option<String>,
    /// Seed of random choices, such as those of --place random [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Several policies at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct ComparisonArguments {
    /// Policies to compare on the same jobs, such as fifo,sjf/easy,qssf, or a file of scenarios (TOML)
    ///
    /// A policy is ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE. Each `[[scenario]]` of the file has a name, and may set order, scan, place, preempt, estimate, interval, depth, window, checkpoint, tenants,
    /// compat, seed, topology (as --topology has it), hosts (as --hosts has it), cluster, quota and limits (files as those of --cluster, --quota and --limits, from the folder of this file; limits = "none" for none). What a scenario or an order leaves open comes from the other options.
    #[arg(long, value_name = "POLICIES|TOML", conflicts_with = "order")]
    pub(crate) compare: Option<String>,
    /// Policy that the cluster had: ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE [default: fifo/strict/true]
    ///
    /// The replay under this policy is compared with the recorded starts, which says how far replays of this trace can be trusted. The
    /// policy is also the default of --order, --scan and --estimate. If none is named, and strict FIFO does not repeat the
    /// record, but FIFO with the scan of what is replayed does, that is taken for it.
    #[arg(long, value_name = "POLICY")]
    pub(crate) recorded: Option<String>,
    /// Run only part I of N of the scenarios, such as 2/8, and write their schedules to --results
    ///
    /// This splits a comparison over the tasks of a job array. --merge puts the parts together.
    #[arg(long, value_name = "I/N", requires = "results", conflicts_with_all = ["merge", "schedule", "out", "charts", "format", "json", "section"])]
    pub(crate) shard: Option<String>,
    /// Folder into which --shard writes its schedules
    #[arg(long, value_name = "FOLDER", requires = "shard")]
    pub(crate) results: Option<PathBuf>,
    /// Folders with the schedules that --shard wrote, which are read and not computed again
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    pub(crate) merge: Option<Vec<PathBuf>>,
}

pub(crate) fn run(request: &Simulate, quiet: bool) -> Result<()> {
    let checked = request.answering.check("simulate", &[&request.schedule])?;
    if request.sharing.is_asked() {
        let of_trace = SharedSource {
            sources: &request.sources,
            reading: &request.reading,
            seed: request.policy.seed,
            schedule: request.schedule.as_deref(),
        };
        return simulate_sharing::run(&request.sharing, &of_trace, &checked, quiet);
    }
    request.answering.replacing.folders([&request.charts])?;
    if let Some(folder) = &request.comparison.results {
        // The tasks of a job array write into one folder.
        early::writable_folder(folder)?;
    }
    let window = window(&request.jobs.from, &request.jobs.to)?;
    let shard = request.comparison.shard.as_deref().map(str::parse::<Shard>).transpose()?;
    let mut quota_files = QuotaFiles::default();
    let Asked { scenarios, without_scan, usual, places } = scenarios(request, &mut quota_files)?;
    let recorded = recorded(request, &scenarios)?;
    let PolicyArguments { depth, window: ahead, .. } = &request.policy;
    let mut scans = scenarios.iter().map(|named| named.policy.scan).chain([recorded.scan]);
    if (depth.is_some() || ahead.is_some()) && !scans.any(Scan::reserves_for_all) {
        let what = "--depth and --window bound the scans conservative and slurm; name one of these with --scan, or leave both out";
        return Err(Usage(what.to_owned()).into());
    }
    let Jobs { scale, add, draws, .. } = &request.jobs;
    let growth = growth(*scale, add.as_deref(), *draws, &request.policy)?;
    if growth.is_some() && !places.is_empty() {
        // The study says the same, but only when all is replayed.
        return Err(Usage(study::ONE_CLUSTER.to_owned()).into());
    }
    let SiteRead { site, quotas, limits, topology, hosts } = usual.read(&mut quota_files)?;
    let others_files = places.iter().map(|place| place.read(&mut quota_files)).collect::<Result<Vec<_>>>()?;
    let files = files(request)?;
    let trace = source::open_whole(&request.sources, &request.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &request.sources);
    let (from_ms, to_ms) = window.resolve(&Zone::named(&trace.zone)?)?;
    let options = Options {
        from_ms,
        to_ms,
        longest_ms: request.jobs.max_run,
        vcs: request.jobs.vcs.clone(),
        whole_seconds: scenarios.iter().any(|named| named.policy.compat == Compat::Helios),
        gangs_as_recorded: request.jobs.gangs_as_recorded,
        resource: request.jobs.resource,
        quotas,
        limits,
        topology: Some(topology),
        hosts,
    };
    let mut loaded = load(&trace, site.as_ref(), &options)?;
    let columns = columns(files, &mut loaded)?;
    let mut subject = Subject::of(&title, &trace, &loaded);
    if scenarios.iter().any(|named| named.policy.scan == Scan::Slurm) {
        subject.notes.extend(of_switches(&loaded.cluster));
    }
    for named in &scenarios {
        let place = named.cluster.and_then(|at| places.get(at)).unwrap_or(&usual);
        let own = named.cluster.and_then(|at| others_files.get(at)).map_or(&options.quotas, |files| &files.quotas);
        let heeds = own.as_ref().and_then(|quotas| quotas.scan().scheduler());
        if let Some(heeds) = heeds.filter(|_| place.quota.is_some() && named.policy.scan.scheduler().is_none()) {
            subject.notes.push(format!(
                "{}: the quotas do not hold under this scan, so all VCs share one pool without any; --scan {heeds} heeds them.",
                named.name
            ));
        }
    }
    let mut others = Vec::with_capacity(places.len());
    for (place, SiteRead { site, quotas, limits, topology, hosts }) in places.iter().zip(others_files) {
        let name = place.phrase(&usual);
        let options = Options { quotas, limits, topology: Some(topology), hosts, ..options.clone() };
        let jobs = load(&trace, site.as_ref(), &options).with_context(|| format!("a scenario {name}"))?;
        let other = OtherCluster::new(name, jobs, &loaded)?;
        let new = other.loaded.notes.iter().filter(|note| !loaded.notes.contains(note));
        subject.notes.extend(new.map(|note| format!("{}: {note}", other.name)));
        others.push(other);
    }
    drop(trace);
    for (name, matched) in columns {
        subject.note_column(name, matched);
    }
    let placed = request.policy.place.is_some();
    let mut scenarios: Vec<Named> = scenarios.into_iter().map(|named| named.on(loaded.resource, placed)).collect();
    let mut recorded = if placed { recorded } else { recorded.on(loaded.resource) };
    if growth.is_some() && request.comparison.recorded.is_none() {
        let unnamed = scenarios.iter_mut().zip(&without_scan).filter(|(_, without)| **without).map(|(named, _)| named);
        subject.notes.extend(take_scan_of_record(&loaded, unnamed.collect(), &mut recorded)?);
    }
    let mut study = Study::new(&loaded, scenarios, recorded, request.comparison.compare.is_some(), others)?;
    study.recorded_is_named = request.comparison.recorded.is_some();
    if let Some(shard) = shard {
        return write_shard(request, &study, shard, quiet);
    }
    let (replayed, seconds) = match &request.comparison.merge {
        Some(folders) => (study.evaluate_all(merged(&study, folders)?)?, None),
        None => {
            let steps = Steps::new(quiet, "replaying", study.scenarios.len());
            let (replayed, seconds) = study.replay_all(&steps)?;
            drop(steps);
            (replayed, Some(seconds))
        }
    };
    let first = replayed.first().and_then(|replayed| replayed.schedule.as_ref());
    if let (Some(path), Some(schedule), Some(named)) = (&request.schedule, first, study.scenarios.first()) {
        let mut bytes = Vec::new();
        let Loaded { workload, cluster, keys, .. } = study.loaded_of(named);
        let times = JobTimes::of(workload, schedule)?;
        csv_output::write_csv(&mut bytes, workload, cluster, (schedule, &times), keys)
            .context("write the schedule as CSV")?;
        output::write(path, &bytes)?;
    }
    let mut found = study.answer(subject, &replayed, seconds)?;
    if let Some(growth) = growth {
        let steps = Steps::new(quiet, "replaying", study.scenarios.len() * request.jobs.draws as usize);
        found.growth = Some(study.grow(&found, &growth, &steps)?);
        drop(steps);
    }
    checked.write(request.charts.as_deref(), quiet, || found.report(), || answer::json(&found, "the answer"))
}

/// Gives the scenarios that name no scan the one that repeats the record, as plans do, and says so: what more work would do is asked of
/// the cluster as it is.
fn take_scan_of_record(loaded: &Loaded, unnamed: Vec<&mut Named>, recorded: &mut Policy) -> Result<Option<String>> {
    if unnamed.is_empty() {
        return Ok(None);
    }
    let limited = loaded.workload.requested_ms.iter().flatten().count() * 2 >= loaded.workload.len();
    let backfill = if limited { Backfill::By(Estimate::Requested) } else { Backfill::Never };
    let Today { policy: today, told, .. } = todays(loaded, recorded.clone(), None, backfill)?;
    for Named { policy, .. } in unnamed {
        let estimate = if policy.order == Order::Fifo { today.estimate } else { policy.estimate };
        let same = Policy { scan: today.scan, estimate, ..policy.clone() };
        if same.validate(&loaded.workload).is_ok() {
            *policy = same;
        }
    }
    *recorded = today;
    Ok(told)
}

/// More work, if it was asked.
pub(crate) fn growth(
    scale: Option<f64>,
    add: Option<&Path>,
    draws: u64,
    policy: &PolicyArguments,
) -> Result<Option<Growth>> {
    let read =
        |path: &Path| -> Result<Vec<Team>> { Ok(Team::parse_file(&path.display().to_string(), &source::text(path)?)?) };
    let teams = add.map(read).transpose()?.unwrap_or_default();
    if scale.is_none() && teams.is_empty() {
        return Ok(None);
    }
    Ok(Some(Growth::new(scale.unwrap_or(1.0), teams, draws, policy.seed.unwrap_or(1))?))
}

/// The switches as they were typed.
pub(crate) fn given(policy: &PolicyArguments) -> Scenario {
    Scenario {
        name: String::new(),
        order: policy.order.clone(),
        scan: policy.scan.clone(),
        place: policy.place.clone(),
        preempt: policy.preempt.clone(),
        estimate: policy.estimate.clone(),
        interval: policy.interval.clone(),
        depth: policy.depth,
        window: policy.window.clone(),
        checkpoint: policy.checkpoint.clone(),
        tenants: policy.tenants.clone(),
        compat: policy.compat.clone(),
        seed: policy.seed,
        cluster: None,
        quota: None,
        limits: None,
        topology: None,
        hosts: None,
    }
}

/// The scenarios asked for, and where they run.
struct Asked {
    scenarios: Vec<Named>,
    /// Of each scenario, whether nothing names its scan.
    without_scan: Vec<bool>,
    /// Where most of them run.
    usual: SiteFiles,
    /// Where the others do.
    places: Vec<SiteFiles>,
}

fn scenarios(request: &Simulate, quotas: &mut QuotaFiles) -> Result<Asked> {
    let predictions = request.jobs.predictions.is_some();
    // What the cluster had is what is replayed, but for what is asked for.
    let mut recorded = recorded_switches(request)?;
    if predictions {
        // Predictions are there to be used.
        recorded.estimate = None;
    }
    let mut given = given(&request.policy);
    if let Some(quota) = request.jobs.quota.as_ref().filter(|_| given.scan.is_none()) {
        // Quotas are there to hold, whatever the cluster had.
        given.scan = quotas.scan_of(quota)?;
    }
    let given = given.or(&recorded);
    let asked = match &request.comparison.compare {
        None => vec![given],
        Some(file) if Path::new(file).is_file() => {
            let path = Path::new(file);
            let read = Scenario::parse_file(&path.display().to_string(), &source::text(path)?)?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut governed = |mut scenario: Scenario| -> Result<Scenario> {
                if let Some(quota) = scenario.quota.as_ref().filter(|_| scenario.scan.is_none()) {
                    scenario.scan = quotas.scan_of(&folder.join(quota))?;
                }
                Ok(scenario.or(&given))
            };
            read.into_iter().map(&mut governed).collect::<Result<Vec<_>>>()?
        }
        Some(list) if list.ends_with(".toml") => {
            bail!("{list}: there is no such file; name a file of scenarios (TOML), or orders such as fifo,sjf")
        }
        Some(list) => Scenario::parse_list(list)?.into_iter().map(|scenario| scenario.or(&given)).collect(),
    };
    let mut named: Vec<Named> = Vec::new();
    let without_scan = asked.iter().map(|scenario| scenario.scan.is_none()).collect();
    let mut usual = SiteFiles {
        cluster: request.jobs.cluster.clone(),
        quota: request.jobs.quota.clone(),
        limits: request.jobs.limits.clone(),
        topology: request.jobs.topology.clone().filter(|rules| rules != AS_RECORDED),
        hosts: request.jobs.hosts.unwrap_or(Hosts::Usual),
    };
    let mut places: Vec<SiteFiles> = Vec::new();
    let folder = request.comparison.compare.as_deref().and_then(|file| Path::new(file).parent());
    for mut scenario in asked {
        let near = |file: String| folder.unwrap_or(Path::new("")).join(file);
        let lifted = scenario.limits.as_deref() == Some(NO_LIMITS);
        let asks = scenario.topology.take();
        let own = SiteFiles {
            cluster: scenario.cluster.take().map(near),
            quota: scenario.quota.take().map(near),
            limits: scenario.limits.take().filter(|_| !lifted).map(near),
            topology: asks.clone().filter(|rules| rules != AS_RECORDED),
            hosts: match scenario.hosts.take() {
                Some(text) => text
                    .parse()
                    .map_err(|error: ReplayError| Usage(format!("scenario `{}`: hosts: {error}", scenario.name)))?,
                None => usual.hosts,
            },
        };
        let policy = scenario.policy(predictions)?;
        policy.check_predictions(predictions).map_err(|error| of_scenario(&scenario.name, &error.into()))?;
        let oracle = policy.order == Order::Qssf && policy.estimate == Estimate::True;
        let name = match scenario.name.as_str() {
            "" | "qssf" if oracle => "QSSF (oracle)".to_owned(),
            "" => policy.order.title().to_owned(),
            name => name.to_owned(),
        };
        if named.iter().any(|other| other.name == name) {
            let what = format!("two of the policies to compare are called `{name}`; give each its own name");
            return Err(Usage(what).into());
        }
        // Where nothing else names nodes or quotas, those of the first scenario are the study's, too.
        if named.is_empty() {
            usual.cluster = usual.cluster.or_else(|| own.cluster.clone());
            usual.quota = usual.quota.or_else(|| own.quota.clone());
            usual.limits = usual.limits.or_else(|| own.limits.clone());
        }
        let own = SiteFiles {
            cluster: own.cluster.or_else(|| usual.cluster.clone()),
            quota: own.quota.or_else(|| usual.quota.clone()),
            limits: own.limits.or_else(|| usual.limits.clone().filter(|_| !lifted)),
            topology: if asks.is_some() { own.topology } else { usual.topology.clone() },
            hosts: own.hosts,
        };
        let cluster = (own != usual).then(|| {
            places.iter().position(|known| *known == own).unwrap_or_else(|| {
                places.push(own);
                places.len() - 1
            })
        });
        named.push(Named { name, policy, cluster });
    }
    Ok(Asked { scenarios: named, without_scan, usual, places })
}

/// What is said of the policy the cluster had: order, scan and estimate.
fn recorded_switches(request: &Simulate) -> Result<Scenario> {
    let Some(text) = &request.comparison.recorded else { return Ok(Scenario::default()) };
    Scenario::parse_short(text).map_err(|error| Usage(format!("--recorded {error}").replace("policy: ", "")).into())
}

/// The policy the cluster had.
fn recorded(request: &Simulate, scenarios: &[Named]) -> Result<Policy> {
    let Some(first) = scenarios.first() else { bail!("--compare names no policy; write orders such as fifo,sjf") };
    let Some(text) = &request.comparison.recorded else { return Ok(study::usual(&first.policy)) };
    if text.trim().is_empty() {
        return Err(Usage("--recorded: write the policy that the cluster had, such as fifo/skip".to_owned()).into());
    }
    let given = given(&request.policy);
    let scenario = Scenario {
        place: given.place,
        interval: given.interval,
        depth: given.depth,
        window: given.window,
        tenants: given.tenants,
        compat: given.compat,
        seed: given.seed,
        ..recorded_switches(request)?
    };
    let predictions = request.jobs.predictions.is_some();
    let policy = scenario.policy(predictions)?;
    policy.check_predictions(predictions).map_err(|error| of_scenario("--recorded", &error.into()))?;
    Ok(policy)
}

/// An error in the switches of what is called `name`.
fn of_scenario(name: &str, error: &ReplayError) -> Usage {
    let what = error.to_string().replace("policy: ", "");
    Usage(if name.is_empty() { what } else { format!("{name}: {what}") })
}

/// Predictions and scores of the user's.
struct Files {
    predictions: Option<Column>,
    score: Option<Column>,
}

/// Predictions from a file, if one is named.
pub(crate) fn predictions(path: Option<&Path>) -> Result<Option<Column>> {
    column(path, "predicted_duration_s", false)
}

fn column(path: Option<&Path>, name: &str, signed: bool) -> Result<Option<Column>> {
    let Some(path) = path else { return Ok(None) };
    let content = SourceFile::new(path).open(&())?;
    Ok(Some(Column::parse(&path.display().to_string(), name, signed, ShortLines::new(content))?))
}

/// Reads them.
fn files(request: &Simulate) -> Result<Files> {
    Ok(Files {
        predictions: predictions(request.jobs.predictions.as_deref())?,
        score: column(request.jobs.score.as_deref(), "score", true)?,
    })
}

/// Fills predictions and scores in.
fn columns(files: Files, loaded: &mut Loaded) -> Result<Vec<(&'static str, Matched)>> {
    let mut matched = Vec::new();
    if let Some(column) = files.predictions {
        let (values, found) = column.of(loaded)?;
        loaded.workload.predicted_s = values;
        matched.push(("Predictions", found));
    }
    if let Some(column) = files.score {
        let (values, found) = column.of(loaded)?;
        // Whoever has no score comes last.
        loaded.workload.score = values.into_iter().map(|score| score.unwrap_or(f64::INFINITY)).collect();
        matched.push(("Scores", found));
    }
    Ok(matched)
}

fn write_shard(request: &Simulate, study: &Study<'_>, shard: Shard, quiet: bool) -> Result<()> {
    let Some(folder) = &request.comparison.results else { bail!("--shard needs --results") };
    let steps = Steps::new(quiet, "replaying", (0..study.scenarios.len()).filter(|at| shard.mine(*at)).count());
    let schedules = study.run_some(|at| shard.mine(at), &steps)?;
    drop(steps);
    let jobs = study.fingerprint();
    let mut count = 0;
    let all = study.scenarios.len();
    for (index, ((name, policy, _), schedule)) in study.identities().into_iter().zip(schedules).enumerate() {
        let Some(schedule) = schedule else { continue };
        let stored = Stored { index, of: all, name, policy, jobs: jobs.clone(), schedule };
        output::write(&folder.join(stored.file()), stored.to_json()?.as_bytes())?;
        count += 1;
    }
    output::say(quiet, &format!("part {shard}: {count} of {all} scenarios written to {}", folder.display()));
    Ok(())
}

/// The schedules that parts have left.
fn merged(study: &Study<'_>, folders: &[PathBuf]) -> Result<Vec<Schedule>> {
    let mut stored = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| format!("read {}", folder.display()))?.path();
            if path.to_string_lossy().ends_with(".schedule.json") {
                paths.push(path);
            }
        }
        paths.sort();
        for path in paths {
            stored.push(Stored::from_json(&path.display().to_string(), &source::text(&path)?)?);
        }
    }
    Ok(shard::merge(stored, &study.fingerprint(), &study.identities())?)
}
