//! `tracecast simulate`.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use tracecast_analytics::time::Zone;
use tracecast_planner::replay::answer::{Answer, Subject};
use tracecast_planner::replay::input::{Column, Loaded, Matched, Options, load};
use tracecast_planner::replay::shard::{self, Shard, Stored};
use tracecast_planner::replay::study::{self, Named, Study};
use tracecast_planner::replay::{Scenario, output as csv_output};
use tracecast_planner::sim::{Compat, Estimate, Order, Policy, Schedule};

use crate::args::{PolicyArguments, Simulate, window};
use crate::cmd::{answer, describe};
use crate::progress::Steps;
use crate::{early, output, source};

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
    let own = given(&request.policy).or(&recorded);
    let asked = match &request.comparison.compare {
        None => vec![own],
        Some(file) if Path::new(file).is_file() => {
            let path = Path::new(file);
            let read = Scenario::parse_file(&path.display().to_string(), &source::text(path)?)?;
            read.into_iter().map(|scenario| scenario.or(&own)).collect()
        }
        Some(list) if list.ends_with(".toml") => bail!("{list}: there is no such file of scenarios"),
        Some(list) => Scenario::parse_list(list).into_iter().map(|scenario| scenario.or(&own)).collect(),
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
    let own = given(&request.policy);
    let scenario = Scenario {
        place: own.place,
        interval: own.interval,
        depth: own.depth,
        tenants: own.tenants,
        compat: own.compat,
        seed: own.seed,
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
