//! `tracecast plan serving`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::ingest::{self, SourceFile};
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::market::availability::SpotSeries;
use tracecast_planner::market::listed::TableFilter;
use tracecast_planner::plan::unadvised;
use tracecast_planner::serving::answer::{self as serving, ServingReplica, ServingRequest};
use tracecast_planner::serving::choose::ServedStandard;
use tracecast_planner::serving::emit;
use tracecast_planner::serving::requests::RequestLog;
use tracecast_planner::serving::service::ReplicaService;
use tracecast_planner::serving::target::ServingTarget;

use crate::args::{Reading, duration};
use crate::cmd::answer::{self, Charting};
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::Clock;
use crate::source;

/// Why a trace of spot takes no part of its samples.
const NO_JOBS: &str = "availability belongs to no job";

/// Reader of the plan, which scales the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// KEDA: a ScaledObject (keda.sh/v1alpha1); the replicas of a Deployment where they are constant
    Keda,
    /// SkyServe: the service section of its file
    Skyserve,
}

/// Load that a setting must serve to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Standard {
    /// The target, and as many in time as reactive scaling where that keeps the target
    Reactive,
    /// The target alone: cheaper, and fewer requests may be in time than with reactive scaling
    Target,
}

impl Audience for Emit {
    const WHAT: &'static str =
        "Write the setting for these, separated by commas: keda, skyserve [default: both, if --emit-to is given]";
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example, an Azure log with an invented replica at invented prices:
  tracecast plan serving azure_llm_2023_conv.csv.gz --service datasets/services/example.toml --offers datasets/offers/example.toml

A request log is a CSV with time,input_tokens,output_tokens (and model), an Azure LLM inference trace, or a Mooncake trace (JSON lines), also compressed.")]
pub(crate) struct PlanServing {
    /// Logs of requests: files, folders or patterns, - for standard input; several are one log
    #[arg(required = true, value_name = "REQUESTS")]
    pub(crate) requests: Vec<PathBuf>,
    /// Time zone of times in the log that have no offset, and of times in the answer
    #[arg(long, value_name = "IANA NAME", value_parser = Zone::named)]
    pub(crate) timezone: Option<Zone>,
    /// Plan only the requests of this model, by the column `model`
    #[arg(long, value_name = "NAME")]
    pub(crate) model_name: Option<String>,
    /// Fail with exit code 3 if a row is quarantined or a file is damaged
    #[arg(long)]
    pub(crate) strict: bool,
    /// Table of what one replica does (TOML): prefill, decode steps, batch, memory, start
    ///
    /// The guide cli/guide/serving.md describes the file, and datasets/services/example.toml is one with invented numbers.
    #[arg(long, value_name = "TOML", required = true, help_heading = "Service")]
    pub(crate) service: PathBuf,
    /// What is promised: time to the first token, mean time between further tokens, and the share of requests that keep both
    #[arg(long, value_name = "TARGET", default_value = "ttft=2s,tpot=100ms,share=0.95", value_parser = ServingTarget::parse, help_heading = "Service")]
    pub(crate) target: ServingTarget,
    /// What a setting must serve to be taken
    #[arg(long, value_enum, value_name = "STANDARD", default_value = "reactive", help_heading = "Service")]
    pub(crate) standard: Standard,
    /// Time between two decisions
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = slot, help_heading = "Service")]
    pub(crate) slot: i64,
    /// Offers file (TOML) with what the table's `offer` costs; without it, costs are hours of replicas
    #[arg(long, value_name = "TOML", help_heading = "Prices")]
    pub(crate) offers: Option<PathBuf>,
    /// Trace of spot availability: how many replicas on spot can be had, as SkyPilot writes it
    ///
    /// A sample counts instances, and one instance is taken for one replica. It begins with the log, and must be as long at least. The offers file must have a price of spot.
    #[arg(long, value_name = "TRACE", requires = "offers", help_heading = "Prices")]
    pub(crate) spot: Option<PathBuf>,
    /// Test on what comes from this time on, and choose on what is before it [default: the middle
    /// of the log]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    /// Cut the later half into this many windows, and choose everything anew before each on all earlier requests
    ///
    /// The answer has a row for each window, and the sums. It takes as long again for each window.
    #[arg(long, value_name = "WINDOWS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=50), help_heading = "Evaluation")]
    pub(crate) splits: u32,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

/// A time between decisions.
fn slot(text: &str) -> Result<i64, String> {
    let result = duration(text)?;
    if (1_000..=3_600_000).contains(&result) { Ok(result) } else { Err("write a time from 1s to 1h".to_owned()) }
}

/// Spot as a trace has it.
fn spot(arguments: &PlanServing, quiet: bool) -> Result<Option<SpotSeries>> {
    let Some(path) = &arguments.spot else { return Ok(None) };
    let reading = Reading { max_expansion: ingest::MOST_EXPANSION, strict: arguments.strict, ..Reading::default() };
    let trace = source::open_whole(std::slice::from_ref(path), &reading, quiet, NO_JOBS)?;
    Ok(Some(SpotSeries::new(&trace, path.display().to_string(), None)?))
}

/// Title of the logs.
fn title(files: &[SourceFile]) -> String {
    match files {
        [one] => one.name().to_owned(),
        several => format!("{} logs", several.len()),
    }
}

pub(crate) fn plan(arguments: &PlanServing, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-serving", &[])?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    let unused = arguments.models.unused("a forecast of the load is fitted to the log itself")?;
    let window = Window::new(["--eval-from", "the end"], arguments.eval_from.as_ref(), None)?;
    let table = arguments.service.display().to_string();
    let service = ReplicaService::parse(&table, &source::text(&arguments.service)?)?;
    let offers = arguments
        .offers
        .as_ref()
        .map(|path| source::offers(std::slice::from_ref(path), &TableFilter::default()))
        .transpose()?;
    let replica = ServingReplica::new(&service, &table, offers.as_ref())?;
    if let (Some(trace), None) = (&arguments.spot, replica.spot_per_h) {
        let what = format!("--spot {}: the offers file has no price of spot; write one", trace.display());
        return Err(Usage(what).into());
    }
    let zone = arguments.timezone.clone().unwrap_or_else(Zone::utc);
    let files = ingest::expand(&arguments.requests)?;
    let log = RequestLog::read(&files, &zone, arguments.model_name.as_deref())?;
    if arguments.strict {
        log.ledger.check_whole()?;
    }
    source::warn(log.ledger.warnings_with("--format json lists them under `quality`."));
    if arguments.eval_from.is_some() && !log.dated {
        let what =
            "--eval-from: the times of this log are counted from its beginning, so no date is in it; leave it out";
        return Err(Usage(what.to_owned()).into());
    }
    let (eval_from_ms, _) = window.resolve(&zone)?;
    let standard = match arguments.standard {
        Standard::Reactive => ServedStandard::Reactive,
        Standard::Target => ServedStandard::Target,
    };
    let request = ServingRequest {
        target: arguments.target,
        standard,
        naive: arguments.models.is_naive(),
        slot_ms: arguments.slot,
        eval_from_ms,
        splits: arguments.splits,
        zone: zone.name().to_owned(),
    };
    let series = spot(arguments, quiet)?;
    let clock = Clock::new(quiet, "choosing settings and replaying later requests");
    let mut answer = serving::plan(&log, title(&files), (&service, &table), replica, series.as_ref(), &request)?;
    drop(clock);
    answer.notes.extend(unused);
    let refused = unadvised(answer.recommendation.as_ref(), &answer.action);
    let file = |who: &Emit| {
        Ok(match who {
            Emit::Keda => vec![emit::keda(&answer)?],
            Emit::Skyserve => vec![emit::skyserve(&answer)?],
        })
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || serving::report(&answer), || answer::json(&answer, "the answer"))
}
