//! `tracecast when`.

use std::io::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use tracecast_analytics::state::ClusterState;
use tracecast_planner::sim::Scan;
use tracecast_planner::start::live::{History, JobOrShape, ShapeRequest, starts};
use tracecast_planner::start::when::{RecordLine, StartRecord, WhenAnswer, judged};

use crate::args::{Reading, duration};
use crate::cmd::answer::{self, Answering};
use crate::exit::Usage;
use crate::progress::Steps;
use crate::source;

/// Why a history is read whole.
const NEEDED: &str = "what runs came to is learned from all jobs of the history";

#[derive(Debug, Args)]
#[command(after_help = "\
Example, dumps of a Slurm in a folder, and its accounting:
  squeue --json >now/jobs.json; scontrol show node --json >now/nodes.json
  tracecast when 4711 --state now --history accounting.txt
  tracecast when --gpus 16 --limit 12h --state now --history accounting.txt")]
pub(crate) struct When {
    /// Job that waits, by its identifier
    #[arg(value_name = "JOB", required_unless_present = "gpus", conflicts_with = "gpus")]
    pub(crate) job: Option<String>,
    /// GPUs of a job that is not in the queue yet
    #[arg(long, value_name = "GPUS", help_heading = "A job that would be submitted")]
    pub(crate) gpus: Option<NonZeroU32>,
    /// Nodes that they are spread over [default: as few as possible]
    #[arg(long, value_name = "N", requires = "gpus", help_heading = "A job that would be submitted")]
    pub(crate) nodes: Option<NonZeroU32>,
    /// Partition [default: the one with most nodes]
    #[arg(long, value_name = "NAME", requires = "gpus", help_heading = "A job that would be submitted")]
    pub(crate) partition: Option<String>,
    /// User who would submit it
    #[arg(long, value_name = "NAME", requires = "gpus", help_heading = "A job that would be submitted")]
    pub(crate) user: Option<String>,
    /// Time limit, such as 30m, 12h or 2d
    #[arg(long, value_name = "TIME", requires = "gpus", value_parser = duration, help_heading = "A job that would be submitted")]
    pub(crate) limit: Option<i64>,
    #[command(flatten)]
    pub(crate) now: Now,
    /// File that keeps the answers (lines of JSON); how earlier ones came true is told
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Replays
    #[arg(long, value_name = "N", default_value_t = 70, value_parser = clap::value_parser!(u32).range(7..=10_000))]
    pub(crate) draws: u32,
    #[command(flatten)]
    pub(crate) answering: Answering,
}

/// The cluster as it is, and how its scheduler decides.
#[derive(Debug, Args)]
pub(crate) struct Now {
    /// Dumps of the cluster as it is: files or folders of what `squeue --json`, `scontrol show node --json` and slurmrestd print; - is stdin
    ///
    /// They are recognised by their form, whatever their names. The nodes are needed, and the jobs; reservations are used if they are there.
    #[arg(long, value_name = "DUMP", required = true, num_args = 1..)]
    pub(crate) state: Vec<PathBuf>,
    /// Trace from which run times, arrivals and waits are learned [default: runs are drawn evenly up to the time limit]
    #[arg(long, value_name = "SOURCE", num_args = 1..)]
    pub(crate) history: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// What the scheduler does if a job does not fit: strict, skip, easy or conservative
    #[arg(long, value_name = "SCAN", default_value = "easy", value_parser = ["strict", "skip", "easy", "conservative"])]
    pub(crate) scan: String,
    /// Seed of the draws: the same seed gives the same answer
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Now {
    /// Reads the dumps, and the history if one is named.
    pub(crate) fn read(&self, quiet: bool) -> Result<(ClusterState, Option<History>)> {
        let steps = Steps::watching(quiet, "reading the dumps");
        let state = ClusterState::read(&self.state, &())?;
        drop(steps);
        if self.history.is_empty() {
            self.reading.reads_no_trace("it is of --history")?;
            return Ok((state, None));
        }
        let history = source::open_whole(&self.history, &self.reading, quiet, NEEDED)?;
        Ok((state, Some(History::new(&history))))
    }

    /// What the scheduler does if a job does not fit.
    pub(crate) fn scan(&self) -> Scan {
        Scan::ALL.into_iter().find(|scan| scan.id() == self.scan).unwrap_or(Scan::Easy)
    }
}

/// Answers that a file keeps; none if there is no such file yet.
fn kept(path: &Path) -> Result<Vec<RecordLine>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = source::text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let read = |(at, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| {
            format!(
                "{}, line {}: it is no answer of `tracecast when`; name another file with --record",
                path.display(),
                at + 1
            )
        })
    };
    lines.map(read).collect()
}

/// Adds an answer to a file, a line at once.
fn keep(path: &Path, line: &RecordLine) -> Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).with_context(|| format!("write {}", path.display()))
}

pub(crate) fn run(request: &When, quiet: bool) -> Result<()> {
    let checked = request.answering.check("when", &[])?;
    let (state, history) = request.now.read(quiet)?;
    let target = match (&request.job, request.gpus) {
        (Some(job), _) => JobOrShape::Job(job.clone()),
        (None, Some(gpus)) => JobOrShape::New(ShapeRequest {
            gpus: gpus.get(),
            nodes: request.nodes.map(NonZeroU32::get),
            partition: request.partition.clone(),
            user: request.user.clone(),
            limit_s: request.limit.map(|limit| limit as f64 / 1e3),
        }),
        (None, None) => return Err(Usage("name a job, or its GPUs with --gpus".to_owned()).into()),
    };
    let earlier = request.record.as_deref().map(kept).transpose()?;
    let record = earlier.map_or_else(StartRecord::default, |lines| judged(&lines, &state));
    let live =
        starts(&state, history.as_ref(), &target, request.now.scan(), (request.draws as usize, request.now.seed))?;
    let (answer, line) = WhenAnswer::new(&live, history.as_ref(), record);
    if let (Some(path), Some(line)) = (&request.record, line) {
        keep(path, &line)?;
    }
    checked.write(quiet, || answer.report(), || answer::json(&answer, "the answer"))
}
