//! `tracecast plan rent fleet`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tracecast_analytics::Trace;
use tracecast_analytics::audit::factors::{CarbonFile, Method};
use tracecast_analytics::report::format;
use tracecast_analytics::time::{Window, Written, Zone};
use tracecast_planner::fleet::answer::{self as fleet, FleetRequest};
use tracecast_planner::fleet::carbon::{FleetCarbonRequest, FleetGrid};
use tracecast_planner::fleet::emit;
use tracecast_planner::fleet::heldout::KnownOffers;
use tracecast_planner::market::availability::SpotSeries;
use tracecast_planner::market::demand::{DemandTimes, Flexible};
use tracecast_planner::market::offers::Offers;
use tracecast_planner::plan::checkpoint::CheckpointCosts;
use tracecast_planner::plan::unadvised;

use crate::args::{Reading, TIMES, Tables, duration, factor, within};
use crate::cmd::answer::{self, Charting};
use crate::cmd::describe;
use crate::cmd::emitting::{Audience, Emitting};
use crate::cmd::trained::Models;
use crate::exit::Usage;
use crate::progress::Clock;
use crate::source;

/// Why the plan takes no part of the jobs.
const NEEDED: &str = "the fleet serves all jobs; name those that may run on spot with --spot-where";
/// Why a trace of spot takes no part of its samples.
const NO_JOBS: &str = "availability belongs to no job";

/// Times at which jobs need their GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Times {
    /// From their submission on, as if none waited
    Unwaited,
    /// When jobs held them
    Recorded,
}

/// Reader of the mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Emit {
    /// A CSV of what to buy and to rent
    Purchases,
    /// Karpenter: NodePools (karpenter.sh/v1)
    Karpenter,
}

impl Audience for Emit {
    const WHAT: &'static str =
        "Write the mix for these, separated by commas: purchases, karpenter [default: both, if --emit-to is given]";
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample and invented prices, and the purchase list:
  tracecast plan rent fleet datasets/sample --offers datasets/offers/example.toml --emit-to fleet

{TIMES}"))]
pub(crate) struct PlanFleet {
    /// Trace with jobs: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Offers file (TOML): instance types with their GPUs and prices on demand, reserved and on spot, and nodes that can be bought
    ///
    /// cli/guide/reference/rent.md describes the file, and datasets/offers/example.toml is
    /// one with invented prices.
    /// A table of prices as `tracecast formats` lists them (cloud-gpus.csv, or SkyPilot's vms.csv) can stand in its place or beside it; then what the file says goes first.
    #[arg(long, value_name = "TOML", required = true, help_heading = "Prices")]
    pub(crate) offers: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) tables: Tables,
    /// Time that is planned for, in months: a longer commitment counts as paid to its end within it
    #[arg(long, value_name = "MONTHS", default_value_t = 12.0, value_parser = months, help_heading = "Prices")]
    pub(crate) horizon: f64,
    /// When jobs need their GPUs
    #[arg(long, value_enum, value_name = "WHEN", default_value = "unwaited", help_heading = "Demand")]
    pub(crate) demand: Times,
    /// Multiply the demand to come by this factor, from 0.05 to 20
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, help_heading = "Demand")]
    pub(crate) scale: f64,
    /// Most GPUs of a job that may run on spot, 0 for none [default: those of one instance of spot]
    #[arg(long, value_name = "GPUS", value_parser = gpus, help_heading = "Spot")]
    pub(crate) spot_up_to: Option<f64>,
    /// Jobs that may run on spot, as a condition in SQL, such as "name like 'train%'"
    ///
    /// The columns are those of --where. Name only what is known when a job is submitted, as the plan is to decide then.
    #[arg(long, value_name = "SQL", conflicts_with = "spot_up_to", help_heading = "Spot")]
    pub(crate) spot_where: Option<String>,
    /// Time that a checkpoint of a job takes
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5min", help_heading = "Spot")]
    pub(crate) checkpoint_cost: i64,
    /// Time from an interruption until the job runs again
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10min", help_heading = "Spot")]
    pub(crate) restart_cost: i64,
    /// For how many hours all spot of a zone is gone in the stress test
    #[arg(long, value_name = "HOURS", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=720), help_heading = "Spot")]
    pub(crate) stress: u32,
    /// Hourly carbon intensity of a grid (CSV of Electricity Maps): tells the carbon of the mix, and mixes from the least cost to the least carbon. May be given again
    ///
    /// Needs --grid, and what instances draw: `power_kw` in the offers file, or --power.
    #[arg(long, value_name = "CSV", requires = "grid", help_heading = "Carbon")]
    pub(crate) carbon: Vec<PathBuf>,
    /// On which grid the instances of a zone of the offers are: the zone, or the name of an offer, and the zone of the grid in a file of --carbon, such as us-west-1a=US-CAL-CISO. May be given again
    #[arg(long, value_name = "ZONE=GRID", value_parser = pair, requires = "carbon", help_heading = "Carbon")]
    pub(crate) grid: Vec<(String, String)>,
    /// What an instance draws while it runs, by the name of its offer or its instance type, such as p3.2xlarge=0.5. May be given again [default: `power_kw` of the offers file]
    #[arg(long, value_name = "NAME=KW", value_parser = kilowatts, requires = "carbon", help_heading = "Carbon")]
    pub(crate) power: Vec<(String, f64)>,
    /// Test on what comes from this time on, and choose on what is before it [default: where a
    /// third of the weeks is left]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, help_heading = "Evaluation")]
    pub(crate) eval_from: Option<Written>,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) emitting: Emitting<Emit>,
    #[command(flatten)]
    pub(crate) charting: Charting,
}

pub(crate) fn months(text: &str) -> Result<f64, &'static str> {
    within(text, (1.0, 120.0), "write a number of months, 1 to 120")
}

fn gpus(text: &str) -> Result<f64, &'static str> {
    within(text, (0.0, 1e6), "write a number of GPUs, 0 or more")
}

/// Texts on both sides of the last `=`.
fn pair(text: &str) -> Result<(String, String), &'static str> {
    const EXAMPLE: &str = "write a zone and its grid, such as us-west-1a=US-CAL-CISO";
    let (name, value) = text.rsplit_once('=').ok_or(EXAMPLE)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() { Err(EXAMPLE) } else { Ok((name.to_owned(), value.to_owned())) }
}

fn kilowatts(text: &str) -> Result<(String, f64), &'static str> {
    const EXAMPLE: &str = "write an offer and the kW of an instance, such as p3.2xlarge=0.5";
    let (name, kw) = pair(text).map_err(|_| EXAMPLE)?;
    let kw = kw.parse().ok().filter(|kw: &f64| *kw > 0.0 && *kw <= 1e3).ok_or(EXAMPLE)?;
    Ok((name, kw))
}

/// Refuses a name that an option says two things of.
fn named_once<T>(option: &str, said: &[(String, T)]) -> Result<(), Usage> {
    let mut names = BTreeSet::new();
    match said.iter().find(|(name, _)| !names.insert(name)) {
        Some((name, _)) => Err(Usage(format!("{option} {name}: it is named twice"))),
        None => Ok(()),
    }
}

/// Request for the carbon of the offers; None where it is not asked for.
fn carbon(arguments: &PlanFleet) -> Result<Option<FleetCarbonRequest>> {
    if arguments.carbon.is_empty() {
        return Ok(None);
    }
    named_once("--power", &arguments.power)?;
    named_once("--grid", &arguments.grid)?;
    let mut files = Vec::with_capacity(arguments.carbon.len());
    for path in &arguments.carbon {
        files.push(CarbonFile::read(path)?);
    }
    let mut grids = Vec::with_capacity(arguments.grid.len());
    for (place, grid) in &arguments.grid {
        // The first file that has the zone.
        let Some(file) = files.iter().find(|file| file.zones().any(|zone| zone == grid)) else {
            let mut known: Vec<String> =
                files.iter().flat_map(CarbonFile::zones).map(|zone| format!("`{zone}`")).collect();
            known.sort_unstable();
            known.dedup();
            let there = match known.is_empty() {
                true => "no zone at all".to_owned(),
                false => format::names(&known, 8),
            };
            let what = format!("--grid {place}={grid}: no file of --carbon has hours of `{grid}`; there are {there}");
            return Err(Usage(what).into());
        };
        let hourly = file.hours(grid, Method::Direct)?;
        let result = FleetGrid::new(place, grid, &hourly);
        grids.push(result.ok_or_else(|| Usage(format!("--grid {place}={grid}: {} has no hour of it", file.name)))?);
    }
    Ok(Some(FleetCarbonRequest { grids, power_kw: arguments.power.clone() }))
}

/// The offers as they were known before and after the split: traces of spot are cut in the middle.
fn offers(arguments: &PlanFleet, quiet: bool) -> Result<KnownOffers> {
    let mut known = KnownOffers::new(source::offers(&arguments.offers, &arguments.tables.filter())?);
    for at in 0..known.all.instances.len() {
        let trace = known.all.instances.get(at).and_then(|offer| offer.spot.as_ref()?.trace.clone());
        let Some(name) = trace else { continue };
        // Beside the offers file, as that names it.
        let file = arguments
            .offers
            .iter()
            .find(|path| path.display().to_string() == known.all.file)
            .and_then(|file| file.parent());
        let path = file.map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name));
        let read = source::open_whole(&[path], &arguments.reading, quiet, NO_JOBS)?;
        let series = SpotSeries::new(&read, name.clone(), None)?;
        if series.counts.len() < 2 {
            anyhow::bail!("{name}: one sample tells nothing of spot; name a trace of some days, or write `available`");
        }
        known.learn(at, &series.counts, series.tick_ms as f64 / 1e3);
    }
    Ok(known)
}

/// Jobs that may run on spot by their size, and a sentence about them.
fn flexible(arguments: &PlanFleet, offers: &Offers) -> (Flexible, String) {
    if offers.instances.iter().all(|offer| offer.spot.is_none()) {
        return (Flexible::Nobody, "No spot is offered, so no job runs on it.".to_owned());
    }
    match arguments.spot_up_to {
        Some(most) if most <= 0.0 => (Flexible::Nobody, "No job may run on spot.".to_owned()),
        Some(most) => (Flexible::UpTo(Some(most)), format!("Jobs of at most {most} GPUs may run on spot (--spot-up-to).")),
        None => (
            Flexible::UpTo(None),
            "Jobs that fit on one instance of spot may run there: assumed, as the record does not say which jobs write checkpoints (--spot-up-to, --spot-where)."
                .to_owned(),
        ),
    }
}

/// Jobs that may run on spot by `--spot-where`, and a sentence about them; None where that is not
/// given.
fn marked(arguments: &PlanFleet, trace: &Trace) -> Result<Option<(Flexible, String)>> {
    let Some(condition) = &arguments.spot_where else { return Ok(None) };
    let selection = tracecast_query::selection::select(trace, condition)?;
    source::warn_of_absent("--spot-where: ", &selection.absent);
    if !selection.mask.iter().any(|marked| *marked) {
        let what = format!("--spot-where: no job meets `{condition}`; `tracecast query` shows what there is");
        return Err(Usage(what).into());
    }
    Ok(Some((Flexible::Marked(selection.mask), format!("Jobs that meet `{condition}` may run on spot."))))
}

pub(crate) fn plan(arguments: &PlanFleet, quiet: bool) -> Result<()> {
    let checked = arguments.charting.check("plan-rent-fleet", &[])?;
    arguments.charting.answering.replacing.folders([&arguments.emitting.emit_to])?;
    if arguments.checkpoint_cost <= 0 {
        return Err(Usage("--checkpoint-cost 0: a checkpoint takes time; write 5min".to_owned()).into());
    }
    let window = Window::new(["--eval-from", "the end"], arguments.eval_from.as_ref(), None)?;
    let mut offers = offers(arguments, quiet)?;
    let carbon = carbon(arguments)?;
    if let Some(carbon) = &carbon {
        carbon.tell_all(&mut offers)?;
    }
    let trace = source::open_whole(&arguments.sources, &arguments.reading, quiet, NEEDED)?;
    let title = describe::title(&trace, &arguments.sources);
    let (eval_from_ms, _) = window.resolve(&Zone::named(&trace.zone)?)?;
    let by_size = flexible(arguments, &offers.all);
    let (flexible, flexible_in_words) = match (&by_size.0, marked(arguments, &trace)?) {
        (Flexible::Nobody, _) | (_, None) => by_size,
        (_, Some(marked)) => marked,
    };
    let request = FleetRequest {
        times: match arguments.demand {
            Times::Unwaited => DemandTimes::Unwaited,
            Times::Recorded => DemandTimes::Recorded,
        },
        flexible,
        flexible_in_words,
        eval_from_ms,
        horizon_months: arguments.horizon,
        costs: CheckpointCosts {
            checkpoint_s: arguments.checkpoint_cost as f64 / 1e3,
            restart_s: arguments.restart_cost as f64 / 1e3,
        },
        stress_hours: arguments.stress,
        scale: arguments.scale,
        carbon,
    };
    let unused = arguments.models.unused("the weeks to come are taken to be like the earlier ones")?;
    let clock = Clock::new(quiet, "choosing a mix and pricing it on later weeks");
    let mut answer = fleet::plan(&trace, &offers, title, &request)?;
    drop(clock);
    answer.notes.extend(unused);
    let refused = unadvised(answer.recommendation.as_ref(), &answer.action);
    let file = |who: &Emit| {
        Ok(match who {
            Emit::Purchases => vec![emit::purchases(&answer)?],
            Emit::Karpenter => vec![emit::karpenter(&answer)?],
        })
    };
    arguments.emitting.write(refused, file, quiet)?;
    checked.write(quiet, || fleet::report(&answer), || answer::json(&answer, "the answer"))
}
