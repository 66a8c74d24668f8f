//! `tracecast backtest power`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::report::format;
use tracecast_analytics::time::DAY_MS;
use tracecast_planner::power::rolling::PowerBacktestAnswer;
use tracecast_planner::power::service::Service;

use crate::args::{NODES_OF_ALL, Reading, duration};
use crate::cmd::answer::{self, Answering};
use crate::cmd::describe;
use crate::cmd::plan::{self, Nodes};
use crate::progress::Steps;
use crate::{output, source};

#[derive(Debug, Args)]
#[command(after_help = "\
Example, promises for each week of the bundled sample:
  tracecast backtest power datasets/sample --windows 7d")]
pub(crate) struct BacktestPower {
    /// Trace with jobs, or with counts of nodes or GPUs in use: files, folders or patterns, or a trace folder
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    #[command(flatten)]
    pub(crate) demand: Nodes,
    /// Length of the windows for which a service is promised, from 1d to 366d
    ///
    /// Each window is planned with the data before it.
    #[arg(long, value_name = "TIME", value_parser = window, default_value = "14d", help_heading = "Promises")]
    pub(crate) windows: i64,
    /// Service to promise, such as 3,30; may be repeated [default: four usual services]
    ///
    /// A service is the most unserved node-slots and the most node-wakes a day. A node-slot is unserved if a node was needed in a slot and
    /// none was ready. A node-wake is one wake of one node.
    #[arg(long, value_name = "UNSERVED,WAKES", value_parser = plan::service, help_heading = "Promises")]
    pub(crate) service: Vec<Service>,
    #[command(flatten)]
    pub(crate) answering: Answering,
    /// Write each chart of the answer into this folder, as SVG and as PNG
    #[arg(long, value_name = "FOLDER", help_heading = "Answer")]
    pub(crate) charts: Option<PathBuf>,
}

fn window(text: &str) -> Result<i64, String> {
    let found = duration(text)?;
    if (DAY_MS..=366 * DAY_MS).contains(&found) {
        Ok(found)
    } else {
        Err("a window must be 1d to 366d long".to_owned())
    }
}

pub(crate) fn run(asked: &BacktestPower, quiet: bool) -> Result<()> {
    let checked = asked.answering.check("backtest-power", &[])?;
    asked.answering.replacing.folders([&asked.charts])?;
    let request = asked.demand.request()?;
    let trace = source::open_whole(&asked.sources, &asked.reading, quiet, NODES_OF_ALL)?;
    let services = if asked.service.is_empty() { Service::USUAL.to_vec() } else { asked.service.clone() };
    let say = |series: usize| {
        let what = format::counted(series as u64, "series", "series");
        output::say(quiet, &format!("tracecast: promises on {what} …"));
    };
    let title = describe::title(&trace, &asked.sources);
    let steps = Steps::watching(quiet, "planning window after window");
    let answer = PowerBacktestAnswer::of(&trace, title, &request, asked.windows, &services, &say, &steps)?;
    drop(steps);
    checked.write(asked.charts.as_deref(), quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
