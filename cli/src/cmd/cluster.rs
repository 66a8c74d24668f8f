//! `tracecast cluster`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::replay::input::{Wanted, cluster_file};

use crate::args::{Reading, TIMES, resource};
use crate::cmd::describe;
use crate::early::Replacing;
use crate::{output, source};

/// Why the cluster is that of all jobs.
const NEEDED: &str = "the cluster is that of all jobs";

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample; raise `nodes` and the nodes in `sizes` of a VC in the file before the second line:
  tracecast cluster datasets/sample --over-time --out more.toml
  tracecast simulate datasets/sample --recorded fifo/skip --cluster more.toml

{TIMES}"))]
pub(crate) struct Cluster {
    /// Trace to read: files, folders or patterns, or a trace folder that `tracecast ingest` wrote
    #[arg(required = true, value_name = "SOURCE")]
    pub(crate) sources: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Write the sizes at this moment; a date means the end of that day [default: the last moment of the record]
    #[arg(long, value_name = "TIME", value_parser = Written::parse, allow_hyphen_values = true, conflicts_with = "over_time")]
    pub(crate) at: Option<Written>,
    /// Write how sizes and quotas changed over time, and each recorded failure of a node
    ///
    /// A replay on this file is the replay on the nodes that the trace records.
    #[arg(long)]
    pub(crate) over_time: bool,
    /// What jobs compete for: gpus, cpus or nodes [default: chosen from the trace]
    #[arg(long, value_name = "WHAT", value_parser = resource)]
    pub(crate) resource: Option<Resource>,
    /// Write the file here [default: print it]
    #[arg(long, short, value_name = "FILE", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn run(request: &Cluster, quiet: bool) -> Result<()> {
    request.replacing.files([&request.out])?;
    let trace = source::open_whole(&request.sources, &request.reading, quiet, NEEDED)?;
    let zone = Zone::named(&trace.zone)?;
    let at_ms = request.at.as_ref().map(|at| at.last_ms(&zone)).transpose()?;
    let wanted = Wanted { at_ms, over_time: request.over_time, resource: request.resource };
    let text = cluster_file(&trace, &describe::title(&trace, &request.sources), &wanted)?;
    output::text(&text, request.out.as_deref())
}
