//! `tracecast cluster`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use tracecast_analytics::schema::Resource;
use tracecast_analytics::time::{Written, Zone};
use tracecast_planner::replay::input::{NodePlaces, Wanted, cluster_file};

use crate::args::{Input, Reading, TIMES, entries, resource};
use crate::cmd::describe;
use crate::early::Replacing;
use crate::{output, source};

/// Why the cluster is that of all jobs.
const NEEDED: &str = "the cluster is that of all jobs";

#[derive(Debug, Args)]
#[command(after_help = format!("\
Example, the bundled sample; raise `nodes` and the nodes in `sizes` of a VC in the file before the second line:
  tracecast cluster datasets/sample --over-time --out more.toml
  tracecast simulate datasets/sample --recorded fifo/skip --site more.toml

{TIMES}"))]
pub(crate) struct Cluster {
    #[command(flatten)]
    pub(crate) input: Input,
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
    /// Where nodes lie: Slurm's topology.conf, or what `scontrol show topology` prints [default: as the trace says]
    ///
    /// Switches make the levels leaf, spine and core of `[topology]`, blocks the level block. If the trace records no nodes, those of this file are the cluster's.
    #[arg(long, value_name = "FILE")]
    pub(crate) topology_file: Option<PathBuf>,
    /// Labels of Kubernetes nodes that say where these lie, the widest level first: example.com/block,example.com/rack
    ///
    /// Without this option, the labels are those of the Topology objects of the source, else well-known ones such as cloud.google.com/gce-topology-block.
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = entries(), conflicts_with = "topology_file")]
    pub(crate) topology_labels: Vec<String>,
    /// Write the file here [default: print it]
    #[arg(long, short, value_name = "FILE", help_heading = "Answer")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) replacing: Replacing,
}

pub(crate) fn run(request: &Cluster, quiet: bool) -> Result<()> {
    request.replacing.files([&request.out])?;
    let slurm = |path: &PathBuf| -> Result<NodePlaces> {
        Ok(NodePlaces::of_slurm(&path.display().to_string(), &source::text(path)?)?)
    };
    let places = request.topology_file.as_ref().map(slurm).transpose()?;
    if request.topology_labels.iter().any(|label| label.trim().is_empty()) {
        bail!(
            "--topology-labels: a label is empty; name labels that nodes have, with a comma between each, such as example.com/block,example.com/rack"
        );
    }
    let reading = Reading { node_labels: request.topology_labels.clone(), ..request.input.reading.clone() };
    let trace = source::open_whole(&request.input.sources, &reading, quiet, NEEDED)?;
    if !request.topology_labels.is_empty() && !NodePlaces::has_labels(&trace, &request.topology_labels) {
        let labels = request.topology_labels.join(" and ");
        bail!(
            "--topology-labels: no node of the source has {labels}; name the dump of the Node objects (`kubectl get nodes -o json`) as a source, and labels that its nodes have"
        );
    }
    let zone = Zone::named(&trace.zone)?;
    let at_ms = request.at.as_ref().map(|at| at.last_ms(&zone)).transpose()?;
    let wanted = Wanted { at_ms, over_time: request.over_time, resource: request.resource, places };
    let text = cluster_file(&trace, &describe::title(&trace, &request.input.sources), &wanted)?;
    output::text(&text, request.out.as_deref())
}
