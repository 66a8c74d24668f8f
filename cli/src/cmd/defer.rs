//! `tracecast plan defer`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::Trace;
use tracecast_analytics::audit::factors::{Hourly, Method};
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::defer::answer::{self as defer, DeferAim, DeferHours, DeferRequest};
use tracecast_planner::defer::emit;
use tracecast_planner::defer::heldout::DeferTerms;
use tracecast_planner::defer::job::DeferClassBy;
use tracecast_planner::defer::power;
use tracecast_planner::defer::series::{HourSeries, HourValue};
use tracecast_planner::market::listed::TableFilter;
use tracecast_planner::plan::unadvised;

use crate::args::{Reading, TIMES, duration, within};
use crate::cmd::answer::{self, Charting};
use crate::cmd::describe;
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::trained::PredictedRuns;
use crate::exit::Usage;
use crate::progress::Clock;
use crate::source;

/// Quantity to minimise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Minimise {
    /// Carbon: the intensity of the hours
    Carbon,
    /// The cost of electricity: the price of the hours
    Price,
}

/// Class by which a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassBy {
    /// Time limit
    Limit,
    /// Predicted run
    Predicted,
}

/// Reader of the starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// A CSV of what to set for the day to come
    Table,
    /// Lines for Slurm's job_submit.lua, and a script that starts what waits if the plan is a limit
    Slurm,
}

impl Audience for Emit {
    const WHAT: &'static str =
        "Write the starts for these, separated by commas: table, slurm [default: both, if --emit-to is given]";
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample with its own carbon intensities, where jobs may wait two hours on average:
  tracecast plan defer datasets/sample --mean-wait 2h

{TIMES}"))]
pub(crate) struct PlanDefer {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Hourly carbon intensity of the grid (CSV of Electricity Maps) [default: that of the trace, if it has one]
    #[arg(long, value_name = "CSV", help_heading = "Hours")]
    pub(crate) carbon: Option<PathBuf>,
    /// Grid zone to use if the carbon intensities cover several zones
    #[arg(long, value_name = "ZONE", help_heading = "Hours")]
    pub(crate) zone: Option<String>,
    /// Hourly prices of electricity (CSV with the columns `Datetime (UTC)` and `Price (EUR/MWh)`, or another currency, or a kWh)
    ///
    /// Without --carbon, jobs are deferred to cheap hours. With it, the cost of electricity is told
    /// beside, and counts as cost with --offers.
    #[arg(long, value_name = "CSV", help_heading = "Hours")]
    pub(crate) energy_price: Option<PathBuf>,
    /// What is to be low [default: carbon, or price where only --energy-price is given]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Hours")]
    pub(crate) minimise: Option<Minimise>,
    /// Hold jobs against hours that are so many weeks later, or earlier with a minus, such as 313w or -52w
    ///
    /// For a trace and a file of different years. Whole weeks keep the weekday and the hour of the day. That another year's hours would have been those of the jobs is an assumption, and the answer says so.
    #[arg(long, value_name = "WEEKS", value_parser = weeks, allow_hyphen_values = true, default_value = "0w", help_heading = "Hours")]
    pub(crate) carbon_shift: i64,
    /// Power of a GPU while a job holds it, kW, with what of its node and of cooling is to count [default: the mean reading of working GPUs in the trace, else 0.3]
    #[arg(long, value_name = "KW", value_parser = kilowatts, help_heading = "Hours")]
    pub(crate) gpu_kw: Option<f64>,
    /// Longest wait of a job, from 1h to 7d
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "24h", help_heading = "Waits")]
    pub(crate) max_wait: i64,
    /// Mean wait of all jobs that the plan may bring about
    ///
    /// It is kept in both halves of the time that the plan is chosen on. Each job counts the same, whatever its size.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "4h", help_heading = "Waits")]
    pub(crate) mean_wait: i64,
    /// What resuming a paused job costs of its run, as in writing and reading a checkpoint
    ///
    /// The plan pauses no job. Ways that do stand beside it.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5min", help_heading = "Waits")]
    pub(crate) checkpoint: i64,
    /// What decides in which class a job waits, beside its GPUs [default: its time limit where nine tenths of the jobs record one, else its predicted run]
    ///
    /// A scheduler knows the time limit, so this is what the lines for Slurm go by. A job without one starts at once.
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Waits")]
    pub(crate) class_by: Option<ClassBy>,
    #[command(flatten)]
    pub(crate) runs: PredictedRuns,
    /// Offers file (TOML) as `plan rent fleet` reads it: what a GPU costs on demand and reserved,
    /// so that jobs that start together cost money
    #[arg(long, value_name = "TOML", help_heading = "Prices")]
    pub(crate) offers: Option<PathBuf>,
    /// GPUs that are reserved: what is in use beyond them at an instant is on demand
    #[arg(long, value_name = "GPUS", default_value_t = 0, requires = "offers", value_parser = clap::value_parser!(u32).range(0..=10_000_000), help_heading = "Prices")]
    pub(crate) reserved: u32,
    /// How much more than starting at once a plan may cost, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, requires = "offers", value_parser = percent, help_heading = "Prices")]
    pub(crate) most_cost: f64,
    /// Test on what comes from this time on, and choose on what is before it [default: where a
    /// third of the weeks is left]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

fn weeks(text: &str) -> Result<i64, &'static str> {
    let number = text.strip_suffix('w').unwrap_or(if text == "0" { text } else { "" });
    let result: Option<i64> = number.parse().ok();
    result
        .filter(|weeks| weeks.abs() <= 5_200)
        .ok_or("write whole weeks, such as 52w or -313w: other shifts would move jobs to other weekdays or hours")
}

fn kilowatts(text: &str) -> Result<f64, &'static str> {
    within(text, (0.001, 100.0), "write the power of a GPU in kW, from 0.001 to 100")
}

fn percent(text: &str) -> Result<f64, &'static str> {
    within(text, (0.0, 1_000.0), "write a percentage from 0 to 1000")
}

fn name(path: &std::path::Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The hours that jobs are deferred by, and the prices of electricity.
fn hours(arguments: &PlanDefer, trace: &Trace) -> Result<(DeferHours, Option<(HourSeries, String)>)> {
    let priced = arguments
        .energy_price
        .as_deref()
        .map(|path| Hourly::price_file(path).map(|read| (read, name(path))))
        .transpose()?;
    let energy = match &priced {
        Some(((series, currency), file)) => Some((HourSeries::new(series, HourValue::Price, file)?, currency.clone())),
        None => None,
    };
    let by_price = match arguments.minimise {
        Some(minimise) => minimise == Minimise::Price,
        None => arguments.carbon.is_none() && arguments.energy_price.is_some(),
    };
    if by_price && priced.is_some() && (arguments.carbon.is_some() || arguments.zone.is_some()) {
        let what =
            "--carbon and --zone are not used where prices are to be low; leave them out, or give --minimise carbon";
        return Err(Usage(what.to_owned()).into());
    }
    if by_price {
        let (Some(((hourly, currency), file)), Some((series, _))) = (priced, energy.clone()) else {
            return Err(Usage(
                "--minimise price needs the prices of the hours: name a file with --energy-price".to_owned(),
            )
            .into());
        };
        let hours =
            DeferHours { aim: DeferAim::Price, series, name: file, currency: Some(currency), notes: hourly.notes };
        return Ok((hours, energy));
    }
    let (hourly, file) = match &arguments.carbon {
        Some(path) => (Hourly::carbon_file(path, arguments.zone.as_deref(), Method::Direct)?, name(path)),
        None if trace.carbon.is_empty() => {
            let what = "the trace has no carbon intensities: name a file of hourly ones with --carbon, or prices with --energy-price";
            return Err(Usage(what.to_owned()).into());
        }
        None => return Ok((DeferHours::of_trace(trace, arguments.zone.as_deref())?, energy)),
    };
    let series = HourSeries::new(&hourly, HourValue::Carbon, &file)?;
    Ok((DeferHours { aim: DeferAim::Carbon, series, name: file, currency: None, notes: hourly.notes }, energy))
}

pub(crate) fn plan(arguments: &PlanDefer, quiet: bool) -> Result<()> {
    use tracecast_analytics::time::{DAY_MS, HOUR_MS};
    let checked = arguments.charting.check("plan-defer", &[])?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    if !(HOUR_MS..=7 * DAY_MS).contains(&arguments.max_wait) {
        let what = "--max-wait is from 1h to 7d: intensities are by the hour, and nothing is known of hours far ahead";
        return Err(Usage(what.to_owned()).into());
    }
    if arguments.mean_wait > arguments.max_wait {
        let what = "--mean-wait is longer than --max-wait, so every plan would keep it; give a shorter one, or let jobs wait longer";
        return Err(Usage(what.to_owned()).into());
    }
    let window = Window::new(["--eval-from", "the end"], arguments.eval_from.as_ref(), None)?;
    let offers = arguments
        .offers
        .as_ref()
        .map(|path| source::offers(std::slice::from_ref(path), &TableFilter::default()))
        .transpose()?;
    let trace = source::open(&arguments.sources, &arguments.reading, None, quiet)?;
    let (hours, energy) = hours(arguments, &trace)?;
    if let (Some((_, paid)), Some(offers)) = (&energy, &offers)
        && *paid != offers.currency
    {
        let what = format!(
            "--energy-price is in {paid} and --offers in {}: they are added up; write both in one currency",
            offers.currency
        );
        return Err(Usage(what).into());
    }
    let title = describe::title(&trace, &arguments.sources);
    let (eval_from_ms, _) = window.resolve(&Zone::named(&trace.zone)?)?;
    let runs = arguments.runs.forecast(&trace, quiet)?;
    let request = DeferRequest {
        eval_from_ms,
        terms: DeferTerms {
            target_ms: arguments.mean_wait as f64,
            most_ms: arguments.max_wait,
            resume_ms: arguments.checkpoint,
            most_cost: arguments.most_cost / 100.0,
        },
        shift_weeks: arguments.carbon_shift,
        class_by: arguments.class_by.map(|by| match by {
            ClassBy::Limit => DeferClassBy::Limit,
            ClassBy::Predicted => DeferClassBy::Predicted,
        }),
        gpu_kw: arguments.gpu_kw.map_or_else(|| power::gpu_kw(&trace), |kw| (kw, "given (--gpu-kw)".to_owned())),
        energy,
        prices: offers.map(|offers| (offers, f64::from(arguments.reserved))),
        runs,
    };
    let clock = Clock::new(quiet, "choosing who waits, and telling what that saves on later weeks");
    let answer = defer::plan(&trace, &hours, title, &request)?;
    drop(clock);
    let shifted = "--carbon-shift takes the hours of other days: what to set for tomorrow needs those up to today";
    let refused = unadvised(answer.recommendation.as_ref(), &answer.action)
        .or_else(|| (arguments.carbon_shift != 0).then(|| shifted.to_owned()));
    let file = |who: &Emit| {
        Ok(match who {
            Emit::Table => vec![emit::table(&answer)?],
            Emit::Slurm => emit::slurm(&answer)?,
        })
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || defer::report(&answer), || answer::json(&answer, "the answer"))
}
