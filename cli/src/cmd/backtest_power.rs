//! `tracecast backtest power`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_analytics::time::DAY_MS;
use tracecast_planner::power::rolling::Answer;
use tracecast_planner::power::service::Service;
use tracecast_planner::replay::scenario::parse_duration;

use crate::args::Reading;
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::cmd::plan::{self, Nodes};
use crate::{early, output, source};

#[derive(Debug, Args)]
pub(crate) struct BacktestPower {
    /// Files, folders or patterns; or one trace folder: counts of nodes or GPUs in use, or jobs
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) demand: Nodes,
    /// Length of the windows for which a service is promised (such as 14d); each is decided with what came before it
    #[arg(long, value_name = "TIME", value_parser = window, default_value = "14d", help_heading = "Promises")]
    pub(crate) windows: i64,
    /// Promise at most UNSERVED node-slots and WAKES node-wakes a day; may be repeated [default: four usual services]
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = plan::service, help_heading = "Promises")]
    pub(crate) service: Vec<Service>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart as SVG and PNG into this folder
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

fn window(text: &str) -> Result<i64, String> {
    let found = parse_duration(text).map_err(|error| error.to_string())?;
    if (DAY_MS..=366 * DAY_MS).contains(&found) { Ok(found) } else { Err("a window is 1 to 366 days long".to_owned()) }
}

pub(crate) fn run(asked: &BacktestPower, quiet: bool) -> Result<()> {
    early::files([&asked.answering.out])?;
    early::folders([&asked.charts])?;
    let request = asked.demand.request()?;
    let trace = source::open(&asked.sources, &asked.reading, None, quiet)?;
    let services = if asked.service.is_empty() { Service::USUAL.to_vec() } else { asked.service.clone() };
    let say = |series: usize| {
        let what = format::counted(series as u64, "series", "series");
        output::say(quiet, &format!("tracecast: promises on {what} …"));
    };
    let title = describe::title(&trace, &asked.sources);
    let answer = Answer::of(&trace, title, &request, asked.windows, &services, &say)?;
    asked.answering.write(asked.charts.as_deref(), quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
