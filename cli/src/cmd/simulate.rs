//! `tracecast simulate`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::Written;
use tracecast_analytics::time::Zone;
use tracecast_planner::replay::answer::{Answer, Subject};
use tracecast_planner::replay::input::{Column, Loaded, Matched, Options, load};
use tracecast_planner::replay::shard::{self, Shard, Stored};
use tracecast_planner::replay::study::{self, Named, Study};
use tracecast_planner::replay::{Scenario, output as csv_output};
use tracecast_planner::sim::{Compat, Estimate, Order, Policy, Schedule};

use crate::args::{Reading, TIMES, duration, resource, window};
use crate::cmd::answer::Answering;
use crate::cmd::{answer, describe};
use crate::progress::Steps;
use crate::{early, output, source};

#[derive(Debug, Args)]
#[command(after_help = TIMES)]
pub(crate) struct Simulate {
    /// Files, folders or patterns; or one trace folder
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
    pub(crate) answering: Answering,
    /// Write when and where each job ran (CSV); of several policies under the first
    #[arg(long, value_name = "FILE", help_heading = "Answer")]
    pub(crate) schedule: Option<PathBuf>,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

/// Which jobs, on which nodes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Jobs and nodes")]
pub(crate) struct Jobs {
    /// What jobs compete for: gpus, cpus (the processors of a log without GPUs) or nodes [default: as the trace has them]
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Nodes of each VC [default: as the trace has them]
    #[arg(long, value_name = "TOML")]
    pub(crate) cluster: Option<PathBuf>,
    /// Jobs submitted from this time on; those that run or wait then are taken along [default: from the first]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) from: Option<Written>,
    /// Jobs submitted before this time; a bare date is in to its end [default: to the last]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true)]
    pub(crate) to: Option<Written>,
    /// Only jobs that ran at most so long (such as 7d)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) max_run: Option<i64>,
    /// Only jobs of these VCs
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) vcs: Option<Vec<String>>,
    /// Give each job as many nodes as it had
    #[arg(long)]
    pub(crate) gangs_as_recorded: bool,
    /// Predictions: CSV with job_id and predicted_duration_s
    #[arg(long, value_name = "CSV")]
    pub(crate) predictions: Option<PathBuf>,
    /// Scores for --order score: CSV with job_id and score, lowest first
    #[arg(long, value_name = "CSV")]
    pub(crate) score: Option<PathBuf>,
}

/// The switches of a policy.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArguments {
    /// Who is served first: fifo, fewest-gpus, sjf, ljf, srtf, qssf, las, tiresias, gittins, wfp3, f1, unicef, multifactor, fair-share, long-term, finish-time, score [default: as --recorded, else fifo]
    #[arg(long, value_name = "ORDER")]
    pub(crate) order: Option<String>,
    /// How the queue is walked: strict, skip, easy, conservative, slurm [default: as --recorded, else strict]
    #[arg(long, value_name = "SCAN")]
    pub(crate) scan: Option<String>,
    /// Where jobs go: consolidate, first-fit, best-fit, worst-fit, spread, random, fgd, buddy, locality, anywhere [default: consolidate; anywhere for processors and nodes]
    #[arg(long, value_name = "RULE")]
    pub(crate) place: Option<String>,
    /// Whether running jobs may be stopped: never, helios, tiresias, or what it costs for 1, 2-8 and more GPUs (7s,30s,60s) [default: never]
    #[arg(long, value_name = "COST")]
    pub(crate) preempt: Option<String>,
    /// Which duration the scheduler knows: true, requested, predicted [default: as --recorded, else true; with --predictions, predicted for qssf and for backfill]
    #[arg(long, value_name = "WHICH")]
    pub(crate) estimate: Option<String>,
    /// Decide only every so often (such as 60s) [default: whenever something happens]
    #[arg(long, value_name = "TIME")]
    pub(crate) interval: Option<String>,
    /// Jobs a conservative scan looks at [default: all]
    #[arg(long, value_name = "JOBS")]
    pub(crate) depth: Option<u32>,
    /// How often jobs save their progress by themselves, for node failures [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) checkpoint: Option<String>,
    /// Between whom fair orders are fair: user, vc [default: user]
    #[arg(long, value_name = "WHO")]
    pub(crate) tenants: Option<String>,
    /// Imitate a published simulator: none, helios [default: none]
    #[arg(long, value_name = "WHOSE")]
    pub(crate) compat: Option<String>,
    /// Seed of what is drawn [default: 1]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Several policies at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct ComparisonArguments {
    /// Compare several policies on the same jobs: orders (fifo,sjf,qssf) or a file of scenarios (TOML)
    #[arg(long, value_name = "ORDERS|TOML", conflicts_with = "order")]
    pub(crate) compare: Option<String>,
    /// The policy the cluster had: ORDER, ORDER/SCAN or ORDER/SCAN/ESTIMATE. The replay is checked with it, and each switch that is not given otherwise is replayed as here [default: fifo/strict/true]
    #[arg(long, value_name = "POLICY")]
    pub(crate) recorded: Option<String>,
    /// Run only the i-th of n parts of the scenarios, and write their schedules to --results
    #[arg(long, value_name = "I/N", requires = "results", conflicts_with_all = ["merge", "schedule", "out", "charts", "format"])]
    pub(crate) shard: Option<String>,
    /// Folder for the schedules of a part
    #[arg(long, value_name = "FOLDER", requires = "shard")]
    pub(crate) results: Option<PathBuf>,
    /// Take the schedules from these folders instead of running the scenarios
    #[arg(long, value_name = "FOLDER", num_args = 1..)]
    pub(crate) merge: Option<Vec<PathBuf>>,
}

pub(crate) fn run(request: &Simulate, quiet: bool) -> Result<()> {
    early::files([&request.answering.out, &request.schedule])?;
    early::folders([&request.charts, &request.comparison.results])?;
    let window = window(&request.jobs.from, &request.jobs.to)?;
    let shard = request.comparison.shard.as_deref().map(str::parse::<Shard>).transpose()?;
    let scenarios = scenarios(request)?;
    let recorded = recorded(request, &scenarios)?;
    let site = request.jobs.cluster.as_deref().map(source::site).transpose()?;
    let files = files(request)?;
    let trace = source::open(&request.sources, &request.reading, None, quiet)?;
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
    };
    let mut loaded = load(&trace, site.as_ref(), &options)?;
    let columns = columns(files, &mut loaded)?;
    let mut subject = Subject::of(&title, &trace, &loaded);
    drop(trace);
    for (name, matched) in columns {
        subject.note_column(name, matched);
    }
    let placed = request.policy.place.is_some();
    let scenarios = scenarios.into_iter().map(|named| named.on(loaded.resource, placed)).collect();
    let recorded = if placed { recorded } else { recorded.on(loaded.resource) };
    let study = Study::new(&loaded, scenarios, recorded, request.comparison.compare.is_some())?;
    if let Some(shard) = shard {
        return write_shard(request, &study, shard, quiet);
    }
    let (schedules, seconds) = match &request.comparison.merge {
        Some(folders) => (merged(&study, folders)?, None),
        None => {
            let steps = Steps::new(quiet, study.scenarios.len());
            let (schedules, seconds) = study.run_all(|_| true, || steps.step())?;
            steps.finish();
            (schedules.into_iter().flatten().collect(), seconds)
        }
    };
    if let (Some(path), Some(schedule)) = (&request.schedule, schedules.first()) {
        let mut bytes = Vec::new();
        csv_output::write_csv(&mut bytes, &loaded.workload, &loaded.cluster, schedule, &loaded.keys)
            .context("write the schedule as CSV")?;
        output::write(path, &bytes)?;
    }
    answer(request, &study.answer(subject, &schedules, seconds)?, quiet)
}

fn answer(request: &Simulate, answer: &Answer, quiet: bool) -> Result<()> {
    request.answering.write(request.charts.as_deref(), quiet, || answer.report(), || answer::json(answer, "the answer"))
}

/// An error of what was typed.
fn usage(what: String) -> anyhow::Error {
    tracecast_planner::Error::Policy(what).into()
}

fn given(policy: &PolicyArguments) -> Scenario {
    Scenario {
        name: String::new(),
        order: policy.order.clone(),
        scan: policy.scan.clone(),
        place: policy.place.clone(),
        preempt: policy.preempt.clone(),
        estimate: policy.estimate.clone(),
        interval: policy.interval.clone(),
        depth: policy.depth,
        checkpoint: policy.checkpoint.clone(),
        tenants: policy.tenants.clone(),
        compat: policy.compat.clone(),
        seed: policy.seed,
    }
}

/// The scenarios asked for.
fn scenarios(request: &Simulate) -> Result<Vec<Named>> {
    let predictions = request.jobs.predictions.is_some();
    // What the cluster had is what is replayed, but for what is asked for.
    let mut recorded = recorded_switches(request)?;
    if predictions {
        // Predictions are there to be used.
        recorded.estimate = None;
    }
    let given = given(&request.policy).or(&recorded);
    let asked = match &request.comparison.compare {
        None => vec![given],
        Some(file) if Path::new(file).is_file() => {
            let path = Path::new(file);
            let read = Scenario::parse_file(&path.display().to_string(), &source::text(path)?)?;
            read.into_iter().map(|scenario| scenario.or(&given)).collect()
        }
        Some(list) if list.ends_with(".toml") => bail!("{list}: there is no such file of scenarios"),
        Some(list) => Scenario::parse_list(list).into_iter().map(|scenario| scenario.or(&given)).collect(),
    };
    let mut named: Vec<Named> = Vec::new();
    for scenario in asked {
        let policy = scenario.policy(predictions)?;
        let oracle = policy.order == Order::Qssf && policy.estimate == Estimate::True;
        let name = match scenario.name.as_str() {
            "" | "qssf" if oracle => "QSSF (oracle)".to_owned(),
            "" => policy.order.title().to_owned(),
            name => name.to_owned(),
        };
        if named.iter().any(|other| other.name == name) {
            return Err(usage(format!("two of the policies to compare are called `{name}`; name each once")));
        }
        named.push(Named { name, policy });
    }
    Ok(named)
}

/// What is said of the policy the cluster had: order, scan and estimate.
fn recorded_switches(request: &Simulate) -> Result<Scenario> {
    let Some(text) = &request.comparison.recorded else { return Ok(Scenario::default()) };
    Scenario::parse_short(text).map_err(|error| usage(format!("--recorded {error}").replace("policy: ", "")))
}

/// The policy the cluster had.
fn recorded(request: &Simulate, scenarios: &[Named]) -> Result<Policy> {
    let Some(first) = scenarios.first() else { bail!("there is no policy") };
    let Some(text) = &request.comparison.recorded else { return Ok(study::usual(&first.policy)) };
    if text.trim().is_empty() {
        return Err(usage("--recorded: write the policy that the cluster had, such as fifo/skip".to_owned()));
    }
    let given = given(&request.policy);
    let scenario = Scenario {
        place: given.place,
        interval: given.interval,
        depth: given.depth,
        tenants: given.tenants,
        compat: given.compat,
        seed: given.seed,
        ..recorded_switches(request)?
    };
    Ok(scenario.policy(request.jobs.predictions.is_some())?)
}

/// Predictions and scores of the user's.
struct Files {
    predictions: Option<Column>,
    score: Option<Column>,
}

/// Reads them.
fn files(request: &Simulate) -> Result<Files> {
    let read = |path: &Option<PathBuf>, name: &str, signed: bool| -> Result<Option<Column>> {
        let Some(path) = path else { return Ok(None) };
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        Ok(Some(Column::parse(&path.display().to_string(), name, signed, BufReader::new(file))?))
    };
    Ok(Files {
        predictions: read(&request.jobs.predictions, "predicted_duration_s", false)?,
        score: read(&request.jobs.score, "score", true)?,
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
    let steps = Steps::new(quiet, (0..study.scenarios.len()).filter(|at| shard.mine(*at)).count());
    let (schedules, _) = study.run_all(|at| shard.mine(at), || steps.step())?;
    steps.finish();
    let jobs = study.fingerprint();
    let mut count = 0;
    let all = study.scenarios.len();
    for (index, ((name, policy), schedule)) in study.identities().into_iter().zip(schedules).enumerate() {
        let Some(schedule) = schedule else { continue };
        let stored = Stored { index, of: all, name, policy, jobs: jobs.clone(), schedule };
        output::write(&folder.join(stored.file()), stored.to_json()?.as_bytes())?;
        count += 1;
    }
    output::say(quiet, &format!("part {shard}: {count} of {all} scenarios in {}", folder.display()));
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
    Ok(shard::merge(stored, &study.fingerprint(), study.loaded.cluster.most_nodes(), &study.identities())?)
}
