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
use tracecast_planner::replay::input::{Column, Loaded, Matched, Options, load, of_switches};
use tracecast_planner::replay::metric::JobTimes;
use tracecast_planner::replay::nearest::{Backfill, Today, Unnamed, todays};
use tracecast_planner::replay::shard::{self, Shard, Stored};
use tracecast_planner::replay::study::{self, Named, OtherCluster, Study};
use tracecast_planner::replay::{Scenario, output as csv_output};
use tracecast_planner::sim::{Compat, Estimate, Order, Policy, Scan, Schedule};

use crate::args::{Input, TIMES, duration, entries, factor, resource, window};
use crate::cmd::answer::Answering;
use crate::cmd::simulate_sharing::{self, SharedSource, SharingArguments};
use crate::cmd::site::{QuotaFiles, SiteArguments, SiteFiles, SiteInput, SiteRead};
use crate::cmd::{answer, describe};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::{early, output, source};

/// Example for the end of the help.
const EXAMPLE: &str = "\
Example, the bundled sample with the shortest job first and EASY backfill:
  tracecast simulate datasets/sample --order sjf --scan easy";

/// Text of a scenario that has no limits.
const NO_LIMITS: &str = "none";

/// Text for the jobs' own requests of the topology, without a rule.
const AS_RECORDED: &str = "as-recorded";

/// Why a replay takes no part of the jobs.
const NEEDED: &str = "jobs that share a cluster wait for each other, so a replay needs them all; --vcs replays some VCs on their own nodes";

#[derive(Debug, Args)]
#[command(after_help = format!("{EXAMPLE}\n\n{TIMES}"))]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) site: SiteArguments,
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

/// Jobs and nodes of a replay.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jobs and nodes", group = ArgGroup::new("more").multiple(true))]
pub(crate) struct Jobs {
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    ///
    /// The value cpus means processors, for a log without GPUs. The answer says what was chosen.
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Replay jobs that were submitted at this time or later [default: from the first job]
    ///
    /// Jobs that were running or waiting at this time are replayed, too, except with --site
    /// compat=helios.
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
    /// intervals over several draws. The cluster stays as it is; --site names another.
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
    /// CSV of predicted run times, with the columns job_id and predicted_duration_s (seconds)
    ///
    /// `tracecast model predict duration` writes such a file.
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
    /// Run times are those that --estimate names. --site tenants says who the tenants are.
    #[arg(long, value_name = "ORDER", verbatim_doc_comment)]
    pub(crate) order: Option<String>,
    /// What happens when a job does not fit: strict, skip or a kind of backfill [default: that of --recorded, else that which repeats the record, else strict]
    ///
    ///   strict        no later job starts; if only its quota is full, none of its VC
    ///   skip          later jobs that fit may start
    ///   easy          EASY backfill: later jobs may start if they do not delay this one
    ///   conservative  backfill in which every waiting job has a reservation
    ///   slurm         backfill as Slurm's plugin plans it
    ///   kueue         admission as Kueue's, within the quotas of the site
    ///   kai           fair shares of queues as KAI's, with the queues of the site
    ///   volcano       what queues deserve as Volcano's, with the queues of the site
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
    /// Run time that the scheduler knows of a job: true, requested or predicted [default: that of
    /// --recorded, else true; in plans never true]
    ///
    /// With true it knows the recorded run time, as an oracle would. With requested it knows the time limit of the job, and with predicted the
    /// run time from --predictions. For a job without a prediction it uses the time limit, and for a job without a limit the true run time.
    /// If --predictions is given, the default is predicted for the orders qssf, aged and alike and for backfill, else true.
    #[arg(long, value_name = "WHICH")]
    pub(crate) estimate: Option<String>,
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
    /// compat, seed, topology, hosts, cluster, quota and limits, as --site has them (files from the
    /// folder of this file; limits = "none" for none). What a scenario or an order leaves open
    /// comes from the other options.
    #[arg(long, value_name = "POLICIES|TOML", conflicts_with = "order")]
    pub(crate) compare: Option<String>,
    /// Policy that the cluster had: ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE [default: FIFO with
    /// the scan that repeats the record, else fifo/strict]
    ///
    /// The replay under this policy is compared with the recorded starts, which says how far replays of this trace can be trusted. The
    /// policy is also the default of --order, --scan and --estimate.
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
            sources: &request.input.sources,
            reading: &request.input.reading,
            seed: request.policy.seed,
            schedule: request.schedule.as_deref(),
        };
        return simulate_sharing::run(&request.sharing, &of_trace, &checked, quiet);
    }
    let checked = checked.with_charts(&request.charts)?;
    if let Some(folder) = &request.comparison.results {
        // The tasks of a job array write into one folder.
        early::writable_folder(folder)?;
    }
    let window = window(&request.jobs.from, &request.jobs.to)?;
    let shard = request.comparison.shard.as_deref().map(str::parse::<Shard>).transpose()?;
    let mut quota_files = QuotaFiles::default();
    let input = request.site.read()?;
    let Asked { scenarios, without_scan, usual, places } = scenarios(request, &input, &mut quota_files)?;
    let recorded = recorded(request, &input, &scenarios)?;
    let bounded = input.is_typed("depth") || input.is_typed("window");
    let mut scans = scenarios.iter().map(|named| named.policy.scan).chain([recorded.scan]);
    if bounded && !scans.any(Scan::reserves_for_all) {
        let what = "--site depth and window bound the scans conservative and slurm; name one of these with --scan, or leave both out";
        return Err(Usage(what.to_owned()).into());
    }
    let Jobs { scale, add, draws, .. } = &request.jobs;
    let growth = growth(*scale, add.as_deref(), *draws, &request.policy)?;
    if growth.is_some() && !places.is_empty() {
        // The study says the same, but only when all is replayed.
        return Err(Usage(study::ONE_CLUSTER.to_owned()).into());
    }
    let SiteRead { site, quotas, limits, topology, hosts } = usual.read(&input, &mut quota_files)?;
    let others_files = places.iter().map(|place| place.read(&input, &mut quota_files)).collect::<Result<Vec<_>>>()?;
    let files = files(request)?;
    let trace = source::open_whole(&request.input.sources, &request.input.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &request.input.sources);
    let (from_ms, to_ms) = window.resolve(&Zone::named(&trace.zone)?)?;
    let options = Options {
        from_ms,
        to_ms,
        longest_ms: request.jobs.max_run,
        vcs: request.jobs.vcs.clone(),
        whole_seconds: scenarios.iter().any(|named| named.policy.compat == Compat::Helios),
        gangs_as_recorded: input.gangs_as_recorded,
        resource: request.jobs.resource,
        quotas,
        limits,
        topology: Some(topology),
        hosts,
    };
    let mut loaded = load(&trace, site.as_ref(), &options)?;
    let columns = columns(files, &mut loaded)?;
    let mut subject = Subject::new(&title, &trace, &loaded);
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
    if request.comparison.recorded.is_none() {
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
        let times = JobTimes::new(workload, schedule)?;
        csv_output::write_csv(&mut bytes, workload, cluster, (schedule, &times), keys)
            .context("write the schedule as CSV")?;
        output::write(path, &bytes)?;
    }
    let mut result = study.answer(subject, &replayed, seconds)?;
    if let Some(growth) = growth {
        let steps = Steps::new(quiet, "replaying", study.scenarios.len() * request.jobs.draws as usize);
        result.growth = Some(study.grow(&result, &growth, &steps)?);
        drop(steps);
    }
    checked.write(quiet, || result.report(), || answer::json(&result, "the answer"))
}

/// Takes the scan that repeats the record for the recorded policy, as plans do, and for the
/// scenarios that name no scan; the note says so.
fn take_scan_of_record(loaded: &Loaded, unnamed: Vec<&mut Named>, recorded: &mut Policy) -> Result<Option<String>> {
    let why = if unnamed.is_empty() { Unnamed::Recorded } else { Unnamed::Scan };
    let limited = loaded.workload.requested_ms.iter().flatten().count() * 2 >= loaded.workload.len();
    let backfill = if limited { Backfill::By(Estimate::Requested) } else { Backfill::Never };
    let Today { policy: today, told: note, .. } = todays(loaded, recorded.clone(), None, backfill, why)?;
    for Named { policy, .. } in unnamed {
        let estimate = if policy.order == Order::Fifo { today.estimate } else { policy.estimate };
        let same = Policy { scan: today.scan, estimate, ..policy.clone() };
        if same.validate(&loaded.workload).is_ok() {
            *policy = same;
        }
    }
    *recorded = today;
    Ok(note)
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
pub(crate) fn given(policy: &PolicyArguments, site: &SiteInput) -> Scenario {
    Scenario {
        name: String::new(),
        order: policy.order.clone(),
        scan: policy.scan.clone(),
        place: policy.place.clone(),
        preempt: policy.preempt.clone(),
        estimate: policy.estimate.clone(),
        interval: site.rule("interval"),
        depth: site.depth,
        window: site.rule("window"),
        checkpoint: site.rule("checkpoint"),
        tenants: site.rule("tenants"),
        compat: site.rule("compat"),
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
    /// Whether nothing names its scan, for each scenario.
    without_scan: Vec<bool>,
    /// Site of most scenarios.
    usual: SiteFiles,
    /// Sites of the others.
    places: Vec<SiteFiles>,
}

fn scenarios(request: &Simulate, site: &SiteInput, quotas: &mut QuotaFiles) -> Result<Asked> {
    let predictions = request.jobs.predictions.is_some();
    // What the cluster had is what is replayed, but for what is asked for.
    let mut recorded = recorded_switches(request)?;
    if predictions {
        // Predictions are there to be used.
        recorded.estimate = None;
    }
    let mut given = given(&request.policy, site);
    if let Some(quota) = site.file("quota").as_ref().filter(|_| given.scan.is_none()) {
        // Quotas are there to hold, whatever the cluster had.
        given.scan = quotas.scan_of(quota)?;
    }
    let given = given.or(&recorded);
    let arguments = match &request.comparison.compare {
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
    let without_scan = arguments.iter().map(|scenario| scenario.scan.is_none()).collect();
    let mut usual = SiteFiles {
        cluster: site.nodes_file().map(Path::to_owned),
        quota: site.file("quota"),
        limits: site.file("limits"),
        topology: site.rule("topology").filter(|rules| rules != AS_RECORDED),
        hosts: site.hosts,
    };
    let mut places: Vec<SiteFiles> = Vec::new();
    let folder = request.comparison.compare.as_deref().and_then(|file| Path::new(file).parent());
    for mut scenario in arguments {
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

/// Recorded policy of the cluster as it was named: order, scan and estimate.
fn recorded_switches(request: &Simulate) -> Result<Scenario> {
    let Some(text) = &request.comparison.recorded else { return Ok(Scenario::default()) };
    Scenario::parse_short(text).map_err(|error| Usage(format!("--recorded {error}").replace("policy: ", "")).into())
}

/// The policy the cluster had.
fn recorded(request: &Simulate, site: &SiteInput, scenarios: &[Named]) -> Result<Policy> {
    let Some(first) = scenarios.first() else { bail!("--compare names no policy; write orders such as fifo,sjf") };
    let Some(text) = &request.comparison.recorded else { return Ok(study::usual(&first.policy)) };
    if text.trim().is_empty() {
        return Err(Usage("--recorded: write the policy that the cluster had, such as fifo/skip".to_owned()).into());
    }
    let given = given(&request.policy, site);
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
    path.map(|path| column(path, "predicted_duration_s", false)).transpose()
}

/// A column of a CSV, by job.
fn column(path: &Path, name: &str, signed: bool) -> Result<Column> {
    let content = SourceFile::new(path).open(&())?;
    Ok(Column::parse(&path.display().to_string(), name, signed, ShortLines::new(content))?)
}

/// Reads them.
fn files(request: &Simulate) -> Result<Files> {
    Ok(Files {
        predictions: predictions(request.jobs.predictions.as_deref())?,
        score: request.jobs.score.as_deref().map(|path| column(path, "score", true)).transpose()?,
    })
}

/// Fills predictions and scores in.
fn columns(files: Files, loaded: &mut Loaded) -> Result<Vec<(&'static str, Matched)>> {
    let mut matched = Vec::new();
    if let Some(column) = files.predictions {
        let (values, result) = column.of(loaded)?;
        loaded.workload.predicted_s = values;
        matched.push(("Predictions", result));
    }
    if let Some(column) = files.score {
        let (values, result) = column.of(loaded)?;
        // Whoever has no score comes last.
        loaded.workload.score = values.into_iter().map(|score| score.unwrap_or(f64::INFINITY)).collect();
        matched.push(("Scores", result));
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
