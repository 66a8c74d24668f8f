//! GPU samples brought together by GPU and moment, each with the job that held the GPU then.
//!
//! Some sources write one row for each metric; rows of one GPU and moment are one reading here, and of two values for the
//! same metric the first counts. Samples without a time stay apart, each a reading of its own.
//!
//! **Who held the GPU**: the job the sample names; where no sample of the trace names one, the placement (node and GPU) whose
//! attempt covers the moment, start included, end not. A GPU is held by nobody if samples of this trace name jobs and
//! this one does not (a whole GPU of which instances are sampled apart: unknown), or if the trace places jobs on its node by GPU and none of them covers the moment. Otherwise the
//! holder is unknown, which is not the same.
//!
//! Complexity: O(n log n) in samples and in placements; 4 bytes a sample of memory.

use std::collections::{BTreeSet, HashMap};

use super::job::JobFacts;
use crate::schema::{GpuSampleTable, Label, Numbers, Table, device};

/// Holder of a GPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// The source does not tell.
    Unknown,
    /// No job.
    Nobody,
    /// A row of the jobs table.
    Job(usize),
    /// Several jobs at once.
    Several,
    /// A job that the jobs table does not hold.
    Unlisted,
}

impl Holder {
    /// Whether some job is known to have held it (`None` if that is unknown).
    pub(crate) fn held(self) -> Option<bool> {
        match self {
            Self::Unknown => None,
            Self::Nobody => Some(false),
            Self::Job(_) | Self::Several | Self::Unlisted => Some(true),
        }
    }
}

/// Source of the holders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderSource {
    /// Samples name their job.
    Samples,
    /// Holders follow from placements and the times of attempts.
    Placements,
    /// Holders are unknown.
    Unknown,
}

/// Codes that tell a GPU from others. Where the node is unknown, the job takes its place: index 0 of one job's samples is
/// not the GPU 0 of another's.
type Key = (Option<u32>, Option<u32>, Option<u32>);

/// A job takes a GPU (true) or leaves it: when in ms, which, and the job's row.
type Event = (i64, bool, usize);

/// All readings of a trace.
pub(crate) struct Readings<'t> {
    samples: &'t GpuSampleTable,
    order: Vec<u32>,
    named: Vec<Holder>,
    placed: Placed,
    /// Whole GPUs (node and GPU) of which instances are sampled too: jobs hold the instances.
    cut: BTreeSet<(Option<u32>, u32)>,
    /// Source of the holders.
    pub(crate) source: HolderSource,
}

/// One GPU.
pub(crate) struct Gpu<'r> {
    readings: &'r Readings<'r>,
    key: Key,
    rows: &'r [u32],
}

/// One GPU at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'r> {
    rows: &'r [u32],
    /// Moment, ms.
    pub(crate) ts: Option<i64>,
    /// Holder of the GPU.
    pub(crate) holder: Holder,
}

impl<'t> Readings<'t> {
    /// Sorts the samples; `None` if there are none.
    pub(crate) fn new(facts: &JobFacts<'t>) -> Option<Self> {
        let samples = &facts.trace.gpu_samples;
        if samples.is_empty() {
            return None;
        }
        let rows = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> = (0..rows).collect();
        // Stable: rows of one moment stay as they were read.
        order.sort_by_key(|ix| (key(samples, *ix), samples.ts.get(*ix as usize)));
        let named = if samples.job_key.is_all_unknown() { Vec::new() } else { named(facts, &samples.job_key) };
        let placed = if named.is_empty() { Placed::new(facts) } else { Placed::default() };
        let source = match (named.is_empty(), placed.nodes.is_empty()) {
            (false, _) => HolderSource::Samples,
            (true, false) => HolderSource::Placements,
            (true, true) => HolderSource::Unknown,
        };
        Some(Self { samples, order, named, placed, cut: cut(samples), source })
    }

    /// The GPUs, in an order that depends on the samples only.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = Gpu<'_>> {
        self.order.chunk_by(|a, b| key(self.samples, *a) == key(self.samples, *b)).filter_map(|rows| {
            let key = key(self.samples, *rows.first()?);
            Some(Gpu { readings: self, key, rows })
        })
    }

    /// All readings, GPU by GPU, each GPU's in order of time.
    pub(crate) fn all(&self) -> impl Iterator<Item = Reading<'_>> {
        let ts = |ix: u32| self.samples.ts.get(ix as usize);
        self.order
            .chunk_by(move |a, b| {
                ts(*a).is_some() && ts(*a) == ts(*b) && key(self.samples, *a) == key(self.samples, *b)
            })
            .filter_map(|rows| self.reading(rows))
    }

    fn reading<'r>(&'r self, rows: &'r [u32]) -> Option<Reading<'r>> {
        let first = *rows.first()?;
        let ts = self.samples.ts.get(first as usize);
        let key = key(self.samples, first);
        let holder = match self.source {
            HolderSource::Samples => rows
                .iter()
                .find_map(|ix| self.samples.job_key.code(*ix as usize))
                .map_or(Holder::Nobody, |code| self.named.get(code as usize).copied().unwrap_or(Holder::Unlisted)),
            HolderSource::Placements => self.placed.at(key, ts),
            HolderSource::Unknown => Holder::Unknown,
        };
        let is_cut = holder == Holder::Nobody && key.1.is_some_and(|gpu| self.cut.contains(&(key.0, gpu)));
        Some(Reading { rows, ts, holder: if is_cut { Holder::Unknown } else { holder } })
    }
}

impl<'r> Gpu<'r> {
    /// The board, for an instance of a GPU that is cut into several (`0/1g.10gb:3`): node and name of the whole GPU.
    pub(crate) fn board(&self) -> Option<(Option<u32>, &'r str)> {
        let name = self.name()?;
        Some((self.key.0, device::board(name)))
    }

    /// Name of the node; `None` if unknown.
    pub(crate) fn node(&self) -> Option<&'r str> {
        self.readings.samples.node.name(self.key.0?)
    }

    /// The profile of an instance (`1g.10gb`); `None` of a whole GPU, or if it is unknown.
    pub(crate) fn profile(&self) -> Option<&'r str> {
        device::profile(self.name()?)
    }

    /// Name of the GPU; `None` if unknown.
    pub(crate) fn name(&self) -> Option<&'r str> {
        self.readings.samples.gpu.name(self.key.1?)
    }

    /// Whether the GPU is an instance of one that is cut into several.
    pub(crate) fn is_instance(&self) -> bool {
        self.name().is_some_and(device::is_instance)
    }

    /// Readings of the GPU in order of time.
    pub(crate) fn readings(&self) -> impl Iterator<Item = Reading<'r>> {
        let readings = self.readings;
        let ts = |ix: u32| readings.samples.ts.get(ix as usize);
        self.rows.chunk_by(move |a, b| ts(*a).is_some() && ts(*a) == ts(*b)).filter_map(|rows| readings.reading(rows))
    }
}

impl Reading<'_> {
    /// Value of the reading in `column`, `None` if no row of the moment has one.
    pub(crate) fn value(&self, column: &Numbers<f64>) -> Option<f64> {
        self.rows.iter().find_map(|ix| column.get(*ix as usize))
    }

    /// Text of the reading in `column`, `None` if no row of the moment has one.
    pub(crate) fn text<'c>(&self, column: &'c Label) -> Option<&'c str> {
        self.rows.iter().find_map(|ix| column.get(*ix as usize))
    }
}

fn key(samples: &GpuSampleTable, ix: u32) -> Key {
    let ix = ix as usize;
    let node = samples.node.code(ix);
    (node, samples.gpu.code(ix), if node.is_none() { samples.job_key.code(ix) } else { None })
}

/// Whole GPUs of which instances are sampled as well.
fn cut(samples: &GpuSampleTable) -> BTreeSet<(Option<u32>, u32)> {
    let names: Vec<&str> = (0..).map_while(|code| samples.gpu.name(code)).collect();
    let codes: HashMap<&str, u32> = names.iter().zip(0..).map(|(name, code)| (*name, code)).collect();
    let board = |name: &str| name.split_once('/').and_then(|(board, _)| codes.get(board)).copied();
    let boards: Vec<Option<u32>> = names.iter().map(|name| board(name)).collect();
    if boards.iter().all(Option::is_none) {
        return BTreeSet::new();
    }
    (0..samples.len())
        .filter_map(|ix| {
            let board = (*boards.get(samples.gpu.code(ix)? as usize)?)?;
            Some((samples.node.code(ix), board))
        })
        .collect()
}

/// Rows of the jobs table by key.
fn job_rows<'t>(facts: &JobFacts<'t>) -> HashMap<&'t str, usize> {
    let keys = &facts.trace.jobs.job_key;
    (0..facts.len()).filter_map(|job| Some((keys.get(job)?, job))).collect()
}

/// The holder each code of the samples' job names stands for.
fn named(facts: &JobFacts<'_>, label: &Label) -> Vec<Holder> {
    let jobs = job_rows(facts);
    (0..)
        .map_while(|code| label.name(code))
        .map(|name| match jobs.get(name) {
            Some(job) => Holder::Job(*job),
            None if name.contains(',') => Holder::Several,
            None => Holder::Unlisted,
        })
        .collect()
}

/// Holders of each GPU over time, from placements.
#[derive(Default)]
struct Placed {
    /// Moments and the holders that begin there, in order of time, by node and GPU.
    steps: HashMap<(u32, u32), Vec<(i64, Holder)>>,
    /// Nodes on which jobs are placed by GPU.
    nodes: BTreeSet<u32>,
    window: Option<(i64, i64)>,
}

impl Placed {
    fn new(facts: &JobFacts<'_>) -> Self {
        let trace = facts.trace;
        let (placements, attempts, samples) = (&trace.placements, &trace.attempts, &trace.gpu_samples);
        let mut placed = Self { window: facts.window, ..Self::default() };
        if placements.gpu_ids.is_all_unknown() {
            return placed;
        }
        let codes = |label: &Label| -> HashMap<String, u32> {
            (0..).map_while(|code| Some((label.name(code)?.to_owned(), code))).collect()
        };
        let (nodes, gpus) = (codes(&samples.node), codes(&samples.gpu));
        let jobs = job_rows(facts);
        let mut times: HashMap<(usize, Option<i64>), (i64, i64)> = HashMap::new();
        for ix in 0..attempts.len() {
            let Some(job) = attempts.job_key.get(ix).and_then(|key| jobs.get(key)) else { continue };
            let open = attempts.censored.get(ix) == Some(1);
            let end = attempts.end.get(ix).or(if open { facts.record_end } else { None });
            if let (Some(start), Some(end)) = (attempts.start.get(ix), end) {
                times.insert((*job, attempts.attempt.get(ix)), (start, end));
            }
        }
        let mut events: HashMap<(u32, u32), Vec<Event>> = HashMap::new();
        for ix in 0..placements.len() {
            let Some(node) = placements.node.get(ix).and_then(|node| nodes.get(node)) else { continue };
            let Some(ids) = placements.gpu_ids.get(ix) else { continue };
            let Some(job) = placements.job_key.get(ix).and_then(|key| jobs.get(key)).copied() else { continue };
            placed.nodes.insert(*node);
            let whole = || {
                // A job of one attempt needs no rows of attempts.
                let one = trace.jobs.attempts.get(job).is_none_or(|attempts| attempts <= 1);
                let open = facts.is_censored(job);
                let end = trace.jobs.end.get(job).or(if open { facts.record_end } else { None });
                trace.jobs.start.get(job).zip(end).filter(|_| one)
            };
            let Some((start, end)) = times.get(&(job, placements.attempt.get(ix))).copied().or_else(whole) else {
                continue;
            };
            for id in ids.split(',').map(str::trim) {
                if let Some(gpu) = gpus.get(id).filter(|_| start < end) {
                    let of_gpu = events.entry((*node, *gpu)).or_default();
                    of_gpu.push((start, true, job));
                    of_gpu.push((end, false, job));
                }
            }
        }
        for (gpu, mut of_gpu) in events {
            // Ends before starts, so that a job that follows another at once does not share with it.
            of_gpu.sort_unstable();
            let mut holding: Vec<usize> = Vec::new();
            let mut steps: Vec<(i64, Holder)> = Vec::with_capacity(of_gpu.len());
            for (at, starts, job) in of_gpu {
                if starts {
                    holding.push(job);
                } else if let Some(place) = holding.iter().position(|held| *held == job) {
                    holding.swap_remove(place);
                }
                let holder = match holding.as_slice() {
                    [] => Holder::Nobody,
                    [job] => Holder::Job(*job),
                    [job, rest @ ..] if rest.iter().all(|other| other == job) => Holder::Job(*job),
                    _ => Holder::Several,
                };
                match steps.last_mut() {
                    Some(last) if last.0 == at => last.1 = holder,
                    _ => steps.push((at, holder)),
                }
            }
            placed.steps.insert(gpu, steps);
        }
        placed
    }

    fn at(&self, key: Key, ts: Option<i64>) -> Holder {
        let ((Some(node), Some(gpu), _), Some(ts), Some((from, to))) = (key, ts, self.window) else {
            return Holder::Unknown;
        };
        if ts < from || ts >= to || !self.nodes.contains(&node) {
            return Holder::Unknown;
        }
        let Some(steps) = self.steps.get(&(node, gpu)) else { return Holder::Nobody };
        let after = steps.partition_point(|(at, _)| *at <= ts);
        after.checked_sub(1).and_then(|ix| steps.get(ix)).map_or(Holder::Nobody, |(_, holder)| *holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::schema::{AttemptRow, GpuSampleRow, JobRow, PlacementRow};

    fn sample(trace: &mut Trace, ts: i64, gpu: &str, util: Option<f64>, job: Option<&str>) {
        trace.gpu_samples.push(GpuSampleRow {
            ts: Some(ts),
            node: Some("n".into()),
            gpu: Some(gpu.to_owned().into()),
            util_ratio: util,
            power_w: if util.is_none() { Some(99.0) } else { None },
            job_key: job.map(Into::into),
            ..GpuSampleRow::default()
        });
    }

    fn holders(trace: &Trace) -> Vec<(Option<i64>, Holder)> {
        Readings::new(&JobFacts::new(trace))
            .map(|readings| readings.all().map(|reading| (reading.ts, reading.holder)).collect())
            .unwrap_or_default()
    }

    #[test]
    fn rows_of_one_moment_are_one_reading_and_names_say_who_holds() {
        let mut trace = Trace::default();
        trace.jobs.push(JobRow { job_key: Some("a".into()), ..JobRow::default() });
        sample(&mut trace, 0, "0", Some(0.5), Some("a"));
        sample(&mut trace, 0, "0", None, None);
        sample(&mut trace, 1, "0", Some(0.5), Some("a,b"));
        sample(&mut trace, 2, "0", Some(0.5), Some("x"));
        sample(&mut trace, 3, "0", Some(0.5), None);
        assert_eq!(
            holders(&trace),
            [
                (Some(0), Holder::Job(0)),
                (Some(1), Holder::Several),
                (Some(2), Holder::Unlisted),
                (Some(3), Holder::Nobody)
            ]
        );
        let facts = JobFacts::new(&trace);
        let first = Readings::new(&facts);
        let first = first.iter().flat_map(Readings::all).next();
        let samples = &trace.gpu_samples;
        let both = first.map(|reading| (reading.value(&samples.util_ratio), reading.value(&samples.power_w)));
        assert_eq!(both, Some((Some(0.5), Some(99.0))));
    }

    #[test]
    fn placements_say_who_holds_while_the_attempt_lasts() {
        let mut trace = Trace::default();
        for (key, start, end) in [("a", 0, 100), ("b", 20, 30)] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                start: Some(start),
                end: Some(end),
                ..JobRow::default()
            });
        }
        // a holds GPU 0 from 0 to 10 and again from 20 to 100; b shares it from 20 to 30.
        for (attempt, start, end) in [(1, 0, 10), (2, 20, 100)] {
            trace.attempts.push(AttemptRow {
                job_key: Some("a".into()),
                attempt: Some(attempt),
                start: Some(start),
                end: Some(end),
                ..AttemptRow::default()
            });
            trace.placements.push(PlacementRow {
                job_key: Some("a".into()),
                attempt: Some(attempt),
                node: Some("n".into()),
                gpu_ids: Some("0,1".into()),
                ..PlacementRow::default()
            });
        }
        trace.placements.push(PlacementRow {
            job_key: Some("b".into()),
            attempt: Some(1),
            node: Some("n".into()),
            gpu_ids: Some("0".into()),
            ..PlacementRow::default()
        });
        for (ts, gpu) in [(0, "0"), (10, "0"), (25, "0"), (30, "0"), (100, "0"), (5, "7")] {
            sample(&mut trace, ts, gpu, Some(0.5), None);
        }
        // The window ends at 100, after which nothing is known; GPU 7 of the same node is held by nobody.
        assert_eq!(
            holders(&trace),
            [
                (Some(0), Holder::Job(0)),
                (Some(10), Holder::Nobody),
                (Some(25), Holder::Several),
                (Some(30), Holder::Job(0)),
                (Some(100), Holder::Unknown),
                (Some(5), Holder::Nobody)
            ]
        );
    }

    #[test]
    fn a_whole_gpu_whose_instances_jobs_hold_is_not_free() {
        let mut trace = Trace::default();
        sample(&mut trace, 0, "0", Some(0.5), None);
        sample(&mut trace, 0, "0/1g.10gb:1", Some(0.5), Some("x"));
        sample(&mut trace, 0, "1", Some(0.0), None);
        let result: Vec<Holder> = holders(&trace).into_iter().map(|(_, holder)| holder).collect();
        assert_eq!(result, [Holder::Unknown, Holder::Unlisted, Holder::Nobody]);
    }

    #[test]
    fn without_names_and_placements_the_holder_is_unknown() {
        let mut trace = Trace::default();
        sample(&mut trace, 0, "0", Some(0.0), None);
        assert_eq!(holders(&trace), [(Some(0), Holder::Unknown)]);
    }
}
