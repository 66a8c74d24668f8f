//! Schedules: when and where every job ran.
//!
//! Every stretch in which a job held GPUs is a [`Segment`]; a job that was never stopped has one. About 90 bytes a job.
//! Worked number: a job submitted at 0 s that ran 10–40 s, was preempted and ran 60–90 s has two segments, was
//! queued for 10 + 20 = 30 s and ends 90 s after its submission.

use serde::{Deserialize, Serialize};

use super::host::HostNeed;

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Outcome {
    /// Ran to its end.
    Finished,
    /// Could never run in its pool.
    Rejected,
    /// Waited or ran when nothing was left to happen.
    #[default]
    Stranded,
}

/// Why a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The job was done.
    Done,
    /// The job was preempted.
    Preempted,
    /// A node failed.
    Failed,
}

/// GPUs of one node that a segment holds, with what it takes beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The node, numbered over all pools.
    pub node: u32,
    /// Thousandths of the one GPU in `gpus`; 0 for whole GPUs.
    pub milli: u16,
    /// The GPUs, one bit each.
    pub gpus: u64,
    /// Processors and memory of the node that it takes beside them.
    #[serde(default, skip_serializing_if = "HostNeed::is_none")]
    pub host: HostNeed,
}

impl Piece {
    /// A piece of whole GPUs of a node, and nothing beside.
    pub fn whole(node: u32, gpus: u64) -> Self {
        Self { node, milli: 0, gpus, host: HostNeed::default() }
    }

    /// Returns the amount held, in thousandths of a GPU.
    pub fn amount(self) -> u64 {
        if self.milli > 0 { u64::from(self.milli) } else { u64::from(self.gpus.count_ones()) * 1000 }
    }
}

/// A stretch in which a job held GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The job.
    pub job: u32,
    /// Index of the first piece: the segment has `pieces[first_piece..first_piece + pieces]` of the
    /// schedule.
    pub first_piece: u32,
    /// How many pieces.
    pub pieces: u32,
    /// Start, milliseconds.
    pub start_ms: i64,
    /// End, milliseconds.
    pub end_ms: i64,
    /// Why it ended.
    pub stop: Stop,
}

/// When and where every job ran.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Outcome of each job.
    pub outcome: Vec<Outcome>,
    /// First start, milliseconds; meaningless for a job without a segment.
    pub(crate) first_start_ms: Vec<i64>,
    /// End, milliseconds; meaningless unless finished.
    pub(crate) end_ms: Vec<i64>,
    /// Preemptions.
    pub preemptions: Vec<u32>,
    /// How often a failing node sent the job back to the queue.
    pub restarts: Vec<u32>,
    /// The job's last segment; meaningless for a job without one.
    pub(crate) last_segment: Vec<u32>,
    /// Segments in order of their start; those of one instant in the order in which they were started. Pool after pool.
    pub segments: Vec<Segment>,
    /// Pieces of segments.
    pub pieces: Vec<Piece>,
}

/// No segment yet.
pub(crate) const NO_SEGMENT: u32 = u32::MAX;

impl Schedule {
    /// Nothing happened yet to any of `jobs` jobs.
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            outcome: vec![Outcome::Stranded; jobs],
            first_start_ms: vec![0; jobs],
            end_ms: vec![0; jobs],
            preemptions: vec![0; jobs],
            restarts: vec![0; jobs],
            last_segment: vec![NO_SEGMENT; jobs],
            segments: Vec::with_capacity(jobs),
            pieces: Vec::with_capacity(jobs),
        }
    }

    /// Returns the schedule of `jobs` jobs that ran in these segments, in order of their start; a job without one is stranded.
    pub fn of_segments(jobs: usize, segments: Vec<Segment>, pieces: Vec<Piece>) -> Self {
        let mut schedule = Self { segments, pieces, ..Self::new(jobs) };
        for (at, segment) in (0u32..).zip(&schedule.segments) {
            let job = segment.job as usize;
            let (Some(first_start_ms), Some(end_ms)) =
                (schedule.first_start_ms.get_mut(job), schedule.end_ms.get_mut(job))
            else {
                continue;
            };
            let (Some(last), Some(outcome)) = (schedule.last_segment.get_mut(job), schedule.outcome.get_mut(job))
            else {
                continue;
            };
            if *last == NO_SEGMENT {
                *first_start_ms = segment.start_ms;
            }
            *last = at;
            let stops = match segment.stop {
                Stop::Done => {
                    (*outcome, *end_ms) = (Outcome::Finished, segment.end_ms);
                    continue;
                }
                Stop::Preempted => &mut schedule.preemptions,
                Stop::Failed => &mut schedule.restarts,
            };
            stops.get_mut(job).into_iter().for_each(|stops| *stops += 1);
        }
        schedule
    }

    /// When `job` first started, milliseconds; `None` if it never did.
    pub fn start_ms(&self, job: usize) -> Option<i64> {
        let started = self.last_segment.get(job).is_some_and(|segment| *segment != NO_SEGMENT);
        if started { self.first_start_ms.get(job).copied() } else { None }
    }

    /// When `job` ended, milliseconds; `None` if it did not.
    pub fn end_ms(&self, job: usize) -> Option<i64> {
        let finished = self.outcome.get(job) == Some(&Outcome::Finished);
        if finished { self.end_ms.get(job).copied() } else { None }
    }

    /// The segment in which `job` ran last.
    pub fn last_segment(&self, job: usize) -> Option<&Segment> {
        self.segments.get(*self.last_segment.get(job)? as usize)
    }

    /// Whether all columns have an entry for every job, and all references lead somewhere; so it is unless it was read from a file.
    pub fn is_consistent(&self) -> bool {
        let jobs = self.outcome.len();
        let columns = [
            self.first_start_ms.len(),
            self.end_ms.len(),
            self.preemptions.len(),
            self.restarts.len(),
            self.last_segment.len(),
        ];
        let segment_exists = |at: &u32| *at == NO_SEGMENT || (*at as usize) < self.segments.len();
        let whole = |segment: &Segment| {
            let last = u64::from(segment.first_piece) + u64::from(segment.pieces);
            (segment.job as usize) < jobs && last <= self.pieces.len() as u64 && segment.start_ms <= segment.end_ms
        };
        columns.iter().all(|length| *length == jobs)
            && self.last_segment.iter().all(segment_exists)
            && self.segments.iter().all(whole)
    }

    /// Returns the pieces of a segment.
    pub fn pieces_of(&self, segment: &Segment) -> &[Piece] {
        let first = segment.first_piece as usize;
        self.pieces.get(first..first + segment.pieces as usize).unwrap_or_default()
    }
}
