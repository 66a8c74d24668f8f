//! The cluster as it is now: nodes, reservations, and jobs that run or wait, from dumps of its scheduler.
//!
//! A history says what happened, a [`ClusterState`] what is. It is read from files or folders of dumps that are recognised by their form
//! (module `slurm`), whatever they are called, and several make one state. What a dump does not say is unknown: without nodes nobody can say what is free.
//!
//! Why a job waits is told apart as far as the dump has it ([`Blocked`]): held, a time to begin, a job before it, a reservation, tasks of its array, licences. All
//! else waits for its turn and for room.
//!
//! O(bytes). Worked number: `squeue --json` and `scontrol show node --json` of four nodes of 8 GPUs with three jobs at work, of 8, 16 and 4 GPUs: 32 GPUs,
//! 28 of them held.

mod slurm;

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;

use crate::error::{Error, Result};

use crate::ingest::{Observer, SourceFile, expand};

/// Most bytes of a dump, unpacked: 100,000 jobs are about 500 MB of JSON.
const MOST_BYTES: u64 = 1 << 30;

/// Longest time between two dumps of one moment, milliseconds.
const APART_MS: i64 = 600_000;

/// What keeps a job from starting that is neither its turn nor room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocked {
    /// Somebody holds it.
    Held,
    /// It does not begin before this moment, milliseconds since the Unix epoch; `None` where the dump does not say.
    Begins(Option<i64>),
    /// It waits for other jobs, as the dump writes it.
    Depends(String),
    /// It waits for a reservation of this name.
    Reservation(String),
    /// As many tasks of its array run as may at once.
    ArrayLimit,
    /// It waits for licences.
    Licences,
    /// A limit of its QOS, account or partition, under the scheduler's name for it.
    Limit(String),
    /// The nodes that it asks for are down, drained or reserved.
    Nodes,
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It holds its GPUs.
    Running,
    /// It waits.
    Pending,
}

/// A job that runs or waits.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveJob {
    /// Identifier, such as `42`, or `42_7` of a task.
    pub id: String,
    /// User.
    pub user: Option<String>,
    /// Partition; of several the first.
    pub partition: Option<String>,
    /// Where it is.
    pub phase: Phase,
    /// What keeps it from starting beside its turn and room.
    pub blocked: Option<Blocked>,
    /// Priority, highest first.
    pub priority: Option<f64>,
    /// Submission, milliseconds since the Unix epoch.
    pub submit_ms: Option<i64>,
    /// Start of one that runs; of one that waits, when the scheduler expects it to.
    pub start_ms: Option<i64>,
    /// Time limit, seconds; `None` if there is none, or it is not known.
    pub limit_s: Option<f64>,
    /// GPUs it holds or asks for in all.
    pub gpus: Option<f64>,
    /// Processor cores it holds or asks for in all.
    pub cpus: Option<f64>,
    /// Nodes it holds or asks for.
    pub nodes: Option<u32>,
    /// Names of the nodes it holds.
    pub on: Vec<String>,
    /// Tasks that wait under this identifier: 1 of a job that is no array.
    pub tasks: u32,
    /// How many of them may run at once.
    pub at_once: Option<u32>,
}

/// A node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeState {
    /// Name.
    pub name: String,
    /// Partitions it is in.
    pub partitions: Vec<String>,
    /// GPUs.
    pub gpus: u32,
    /// Their type.
    pub gpu_type: Option<String>,
    /// Processor cores.
    pub cpus: u32,
    /// Whether it takes jobs.
    pub usable: bool,
}

/// A time for which nodes are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// Name.
    pub name: String,
    /// Names of the nodes.
    pub nodes: Vec<String>,
    /// Beginning and end, milliseconds since the Unix epoch.
    pub span_ms: (i64, i64),
}

impl Reservation {
    /// Whether it keeps its nodes at a moment.
    pub fn has_begun(&self, at_ms: i64) -> bool {
        (self.span_ms.0..self.span_ms.1).contains(&at_ms)
    }
}

/// A cluster at a moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterState {
    /// The moment, milliseconds since the Unix epoch.
    pub now_ms: Option<i64>,
    /// Nodes, by name.
    pub nodes: Vec<NodeState>,
    /// Jobs, in the order of the dumps.
    pub jobs: Vec<LiveJob>,
    /// Reservations.
    pub reservations: Vec<Reservation>,
    /// What a reader must know, a sentence each.
    pub notes: Vec<String>,
}

impl ClusterState {
    /// Reads dumps: files, folders or patterns, packed or not; `-` is standard input.
    ///
    /// # Errors
    /// If one cannot be read, is not JSON of a scheduler, is an answer that failed, or none holds jobs or nodes.
    pub fn read(paths: &[PathBuf], observer: &dyn Observer) -> Result<Self> {
        let mut state = Self::default();
        let (mut taken, mut others) = (0, 0u64);
        let mut moments = [None; 2];
        let files = expand(paths)?;
        for file in &files {
            let text = text(file, observer)?;
            // A folder of dumps may hold other things; what is named by itself has to be a dump.
            match serde_json::from_str::<serde_json::Value>(&text) {
                Ok(document) => {
                    let Some(dump) = slurm::take(&mut state, file.name(), &document)? else { continue };
                    taken += 1;
                    let [of_jobs, of_others] = &mut moments;
                    let moment = if dump.has_jobs { of_jobs } else { of_others };
                    *moment = (*moment).max(dump.at_ms);
                }
                Err(error) if files.len() == 1 => {
                    return Err(Error::Format {
                        file: file.name().to_owned(),
                        line: u64::try_from(error.line()).ok().filter(|line| *line > 0),
                        column: None,
                        found: format!("it is no JSON ({error})"),
                        remedy: "name what `squeue --json` and `scontrol show node --json` print".to_owned(),
                    });
                }
                Err(_) => others += 1,
            }
        }
        if taken == 0 {
            let names: Vec<&str> = files.iter().map(SourceFile::name).collect();
            return Err(Error::Empty {
                source_name: names.join(", "),
                what: "no dump of a scheduler is among them".to_owned(),
                remedy: "name what `squeue --json` and `scontrol show node --json` print".to_owned(),
            });
        }
        // Jobs tell what time it is: how long they have run is counted from there.
        let [of_jobs, of_others] = moments;
        state.now_ms = of_jobs.or(of_others);
        if let Some(apart_ms) =
            of_jobs.zip(of_others).map(|(one, other)| (one - other).abs()).filter(|apart| *apart > APART_MS)
        {
            let apart = crate::report::format::duration(apart_ms as f64 / 1e3);
            state
                .notes
                .push(format!("The dumps were made up to {apart} apart, so nodes and jobs may not go together."));
        }
        if others > 0 {
            let files =
                crate::report::format::counted(others, "file that is no JSON was", "files that are no JSON were");
            state.notes.push(format!("{files} passed over."));
        }
        state.nodes.sort_by(|one, other| one.name.cmp(&other.name));
        state.nodes.dedup_by(|one, other| one.name == other.name);
        let mut seen = BTreeSet::new();
        state.jobs.retain(|job| seen.insert(job.id.clone()));
        Ok(state)
    }
}

/// The text of a dump.
fn text(file: &SourceFile, observer: &dyn Observer) -> Result<String> {
    let mut text = String::new();
    let failed = |source| Error::io("read", file.path(), source);
    file.open(observer)?.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Error::Format {
            file: file.name().to_owned(),
            line: None,
            column: None,
            found: format!("it is longer than {} MiB", MOST_BYTES >> 20),
            remedy: "dump one partition at a time".to_owned(),
        });
    }
    Ok(text)
}
