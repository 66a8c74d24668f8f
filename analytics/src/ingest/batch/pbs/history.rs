//! Conversion of the events of a job number into its jobs and their runs, in whatever order they
//! are read.

use super::event::Told;
use crate::ingest::batch::job::{Assembly, Gpus, Job, Place, Run, Word};
use crate::schema::JobState;
use crate::time::SECOND_MS;

/// An event that does not say which run, or which of several jobs of the same number, it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loose {
    pub(super) kind: u8,
    /// UTC where a zone was named, else local time as if it were UTC.
    pub(super) at: i64,
    pub(super) place: Place,
    /// Whether the job kept its GPUs, in a suspension.
    pub(super) keeps_gpus: bool,
}

/// One job: a number and the time it was created.
#[derive(Debug, Default)]
pub(super) struct Instance {
    pub(super) job: Job,
    /// Rank of the records read so far: a queueing is less than a start, a start less than an end.
    pub(super) rank: (u8, Option<i64>, u8),
    /// The start of the last run that an `E` ended; 0 for a job that ended without one.
    pub(super) ended: Option<i64>,
    /// State by an `E` without a run.
    pub(super) ended_by: Option<JobState>,
    pub(super) deleted: Option<i64>,
    pub(super) aborted: Option<i64>,
    pub(super) moved: bool,
    /// Suspensions and resumptions, in order of time.
    pub(super) stops: Vec<Loose>,
}

/// All records of one number.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) cluster: Word,
    pub(super) id: String,
    pub(super) parent: Option<String>,
    pub(super) is_array: bool,
    pub(super) instances: Vec<Instance>,
    pub(super) loose: Vec<Loose>,
}

impl Entry {
    /// Gives a record to the job of this number that was created when the record says.
    pub(super) fn take(&mut self, kind: u8, job: Job, told: &Told) {
        let created = job.submit;
        let of = |instances: &[Instance], submit| instances.iter().position(|one| one.job.submit == submit);
        let known = match created {
            Some(_) => of(&self.instances, created).or_else(|| of(&self.instances, None)),
            None => self.instances.len().checked_sub(1),
        };
        if known.is_none() {
            self.instances.push(Instance::default());
        }
        let ix = known.unwrap_or(self.instances.len() - 1);
        if let Some(instance) = self.instances.get_mut(ix) {
            instance.take(kind, job, told);
        }
    }

    /// Gives each event that names no run to the job and the run it is of.
    pub(super) fn settle(&mut self) {
        self.loose.sort_by_key(|loose| (loose.at, loose.place.file, loose.place.line));
        self.instances.sort_by_key(|one| one.job.submit);
        for loose in std::mem::take(&mut self.loose) {
            // The last job of this number that was there by then; clocks may differ by a second.
            let there = |one: &Instance| one.job.submit.is_none_or(|submit| submit <= loose.at + 1_000);
            let ix = self.instances.iter().rposition(there).unwrap_or(0);
            if self.instances.is_empty() {
                self.instances.push(Instance::default());
            }
            if let Some(one) = self.instances.get_mut(ix) {
                one.event(loose);
            }
        }
    }
}

impl Instance {
    /// Takes what a record tells.
    fn take(&mut self, kind: u8, mut job: Job, told: &Told) {
        let run = job.runs.pop();
        let of_kind = match kind {
            b'E' => 2,
            b'Q' => 0,
            _ => 1,
        };
        // Of two runs the later tells, whatever is read first.
        let rank = (of_kind, run.as_ref().and_then(|run| run.start), kind);
        let end = job.end.take();
        if kind == b'E' {
            job.exit_code = told.exit;
        }
        let limit_s = job.time_limit_s.or(self.job.time_limit_s);
        if rank >= self.rank {
            self.rank = rank;
            self.job.join(job);
        } else {
            let later = std::mem::replace(&mut self.job, job);
            self.job.join(later);
        }
        let Some(mut run) = run else {
            if kind == b'E' {
                self.ended = self.ended.or(Some(0));
                self.ended_by = Some(ended_by(told, None, limit_s));
                self.job.end = end;
            }
            return;
        };
        match kind {
            b'E' => {
                self.ended = self.ended.max(run.start);
                run.ended_by = Some(ended_by(told, run.start.zip(run.end), limit_s));
            }
            // Being queued again ends this attempt, and not the job.
            b'R' | b'C' => run.ended_by = Some(JobState::Cancelled),
            _ => run.end = None,
        }
        match self.job.runs.iter_mut().find(|known| known.start == run.start) {
            Some(known) => {
                let before = std::mem::replace(known, run);
                known.end = known.end.or(before.end);
                known.ended_by = known.ended_by.or(before.ended_by);
                known.cpus = known.cpus.or(before.cpus);
                known.mem_bytes = known.mem_bytes.or(before.mem_bytes);
                known.reported_s = known.reported_s.or(before.reported_s);
                if known.nodes.is_empty() {
                    known.nodes = before.nodes;
                }
                if known.gpus == Gpus::default() {
                    known.gpus = before.gpus;
                }
            }
            None => self.job.runs.push(run),
        }
    }

    /// Takes an event that names no run.
    fn event(&mut self, loose: Loose) {
        let at = loose.at;
        match loose.kind {
            b'Q' => self.job.submit = self.job.submit.or(Some(at)),
            b'D' => self.deleted = Some(at),
            b'A' => self.aborted = Some(at),
            b'M' => self.moved = true,
            b'z' | b'r' => self.stops.push(loose),
            // The run that was under way then.
            b'R' | b'C' => {
                let begun = self.job.runs.iter_mut().filter(|run| run.start.is_some_and(|start| start <= at));
                if let Some(run) = begun.max_by_key(|run| run.start).filter(|run| run.end.is_none()) {
                    (run.end, run.ended_by) = (Some(at), Some(JobState::Cancelled));
                }
            }
            _ => {}
        }
    }

    /// The job, as it stands when the log ends.
    pub(super) fn close(mut self, words: &mut Assembly) -> Job {
        self.job.runs.sort_by_key(|run| run.start);
        let gone = [self.deleted, self.aborted].into_iter().flatten().max();
        let last = self.job.runs.last_mut();
        let start = last.as_ref().and_then(|run| run.start);
        let mut word = "Q";
        let state = match last {
            Some(run) if self.ended == start && self.ended.is_some() => {
                word = "E";
                if self.deleted.is_some() && matches!(run.ended_by, Some(JobState::Failed | JobState::Unknown)) {
                    run.ended_by = Some(JobState::Cancelled);
                }
                run.ended_by
            }
            // Its end is told without the start.
            Some(run) if self.ended == Some(0) && run.end.is_none() => {
                word = "E";
                run.end = self.job.end.take().filter(|end| start.is_none_or(|start| start <= *end));
                run.ended_by = self.ended_by;
                run.ended_by
            }
            // Deleted or aborted while it ran or waited to run again, without a record of its end.
            Some(run) if gone.is_some_and(|gone| start.is_some_and(|start| gone >= start)) => {
                word = if self.deleted == gone { "D" } else { "A" };
                let state = if self.deleted == gone { JobState::Cancelled } else { JobState::Failed };
                if run.end.is_none() {
                    (run.end, run.ended_by) = (gone, Some(state));
                } else {
                    self.job.end = gone.max(run.end);
                }
                Some(state)
            }
            Some(run) if run.end.is_none() && run.ended_by.is_none() => {
                word = "S";
                run.running = true;
                Some(JobState::Running)
            }
            Some(_) => {
                word = "R";
                Some(JobState::Pending)
            }
            None if self.ended.is_some() => {
                word = "E";
                self.ended_by
            }
            None if gone.is_some() => {
                word = if self.deleted == gone { "D" } else { "A" };
                self.job.end = gone;
                Some(JobState::Cancelled)
            }
            None if self.moved => {
                word = "M";
                None
            }
            None => Some(JobState::Pending),
        };
        if !self.stops.is_empty() {
            let runs = std::mem::take(&mut self.job.runs);
            self.job.end = self.job.end.or(runs.last().and_then(|run| run.end));
            self.job.runs = runs.into_iter().flat_map(|run| suspend(run, &self.stops)).collect();
        }
        let exit = self.job.exit_code.filter(|_| word == "E");
        self.job.exit_code = exit;
        let reported = exit.map_or_else(|| word.to_owned(), |exit| format!("{word} {exit}"));
        self.job.reported_state = words.word(Some(&reported));
        self.job.state = state;
        self.job
    }
}

/// Returns the parts of `run` between its suspensions. A suspension that kept the GPUs is time of the run. One that
/// released everything cuts the run in two, as others can have its nodes meanwhile.
fn suspend(mut run: Run, stops: &[Loose]) -> Vec<Run> {
    let Some(start) = run.start else { return vec![run] };
    let end = run.end;
    let mut parts = Vec::new();
    let mut open: Option<Loose> = None;
    let add = |run: &mut Run, from: i64, to: i64| {
        run.suspended_s = Some(run.suspended_s.unwrap_or(0.0) + (to - from) as f64 / SECOND_MS as f64);
    };
    for stop in stops.iter().filter(|stop| stop.at >= start && end.is_none_or(|end| stop.at <= end)) {
        match (open, stop.kind) {
            (None, b'z') => open = Some(*stop),
            (Some(from), b'r') => {
                open = None;
                if from.keeps_gpus {
                    add(&mut run, from.at, stop.at);
                    continue;
                }
                let part =
                    Run { end: Some(from.at), ended_by: Some(JobState::Cancelled), running: false, ..run.clone() };
                parts.push(Run { reported_s: None, ..part });
                (run.start, run.suspended_s) = (Some(stop.at), None);
            }
            _ => {}
        }
    }
    // Suspended until the end, or until the log ends.
    match (open, end) {
        (Some(from), Some(end)) if from.keeps_gpus => add(&mut run, from.at, end),
        (Some(from), None) if from.keeps_gpus => run.suspended_s = None,
        (Some(from), _) => {
            run.end = Some(from.at);
            run.running = false;
            run.ended_by = run.ended_by.or(Some(JobState::Cancelled));
        }
        (None, _) => {}
    }
    parts.push(run);
    parts
}

/// End state of a job by its `E` record.
fn ended_by(told: &Told, ran: Option<(i64, i64)>, limit_s: Option<f64>) -> JobState {
    let Some(exit) = told.exit else { return JobState::Unknown };
    let ran_s = ran.map(|(start, end)| (end - start) as f64 / 1_000.0);
    match (exit, told.is_pbs) {
        (0, _) => JobState::Completed,
        (-29 | -28, true) | (-12 | -11, false) => JobState::Timeout,
        (-27 | -26, true) | (-10, false) => JobState::OutOfMemory,
        _ if ran_s.zip(limit_s).is_some_and(|(ran, limit)| limit > 0.0 && ran >= limit) => JobState::Timeout,
        _ => JobState::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_means_what_its_dialect_says() {
        let told = |exit, is_pbs| Told { exit: Some(exit), is_pbs, ..Told::default() };
        assert_eq!(ended_by(&told(0, true), None, None), JobState::Completed);
        assert_eq!(ended_by(&told(-29, true), None, None), JobState::Timeout);
        assert_eq!(ended_by(&told(-11, false), None, None), JobState::Timeout);
        assert_eq!(ended_by(&told(-10, false), None, None), JobState::OutOfMemory);
        assert_eq!(ended_by(&told(-10, true), None, None), JobState::Failed);
        // Killed by SIGTERM after 61 s of 60.
        assert_eq!(ended_by(&told(271, true), Some((0, 61_000)), Some(60.0)), JobState::Timeout);
        assert_eq!(ended_by(&told(271, true), Some((0, 59_000)), Some(60.0)), JobState::Failed);
    }
}
