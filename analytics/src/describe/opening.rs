//! Opening of a description's report: the row of figures, the whole time in one chart, and the
//! question that each topic answers.
//!
//! Worked example: 64 GPUs of which jobs held 62 %, a mean wait of 12 min, 8 % of the GPU time in failed jobs, 1.2 MWh, 99.9 % of the rows used.

use super::Description;
use super::topic::Moments;
use crate::facts::{Capacity, JobFacts, Steps};
use crate::report::format::{compact, count, counted, duration, percent};
use crate::report::{Axis, Chart, ChartSeries, Figure, Mark, Question, Section};

/// Label of the energy that GPUs' meters read, in the row of figures.
pub const GPU_ENERGY: &str = "Energy of GPUs";
/// Points of each curve.
const POINTS: i64 = 600;
/// Share of the jobs whose wait must be known for what waits to be drawn.
const ENOUGH: f64 = 0.9;
/// A share from which on what it is of need not be told.
const NEARLY_ALL: f64 = 0.95;

/// Question that each topic answers, in the order of the report. Other topics answer none.
const ANSWERS: [(&str, Question); 20] = [
    ("wait", Question::Wait),
    ("locality", Question::Wait),
    ("pool", Question::Wait),
    ("arrival", Question::Wait),
    ("backlog", Question::Wait),
    ("usage", Question::Use),
    ("lost", Question::Use),
    ("limits", Question::Use),
    ("size", Question::Use),
    ("users", Question::Use),
    ("vc", Question::Use),
    ("duration", Question::Use),
    ("calendar", Question::Use),
    ("fragment", Question::Use),
    ("sharing", Question::Use),
    ("recurrence", Question::Use),
    ("status", Question::Fail),
    ("failure", Question::Fail),
    ("repeated", Question::Fail),
    ("power", Question::Draw),
];

/// Gives each section its question and puts them in the order in which they are told; the others come first.
pub(super) fn arrange(sections: Vec<Section>) -> Vec<Section> {
    let place = |section: &Section| ANSWERS.iter().position(|(id, _)| *id == section.id);
    let mut sections: Vec<(Option<usize>, Section)> =
        sections.into_iter().map(|section| (place(&section), section)).collect();
    sections.sort_by_key(|(place, _)| *place);
    let answering = |(place, section): (Option<usize>, Section)| Section {
        question: place.and_then(|at| ANSWERS.get(at)).map(|(_, question)| *question),
        ..section
    };
    sections.into_iter().map(answering).collect()
}

/// GPUs there are, in use and waited for, over the whole time.
pub(super) fn overview(facts: &JobFacts<'_>) -> Option<Chart> {
    let (from, to) = facts.window.filter(|(from, to)| to > from)?;
    let in_use = facts.in_use(|_| true);
    if in_use.is_empty() {
        return None;
    }
    let gpu_jobs = || (0..facts.len()).filter(|job| facts.is_gpu_job(*job));
    let known = gpu_jobs().filter(|job| facts.wait_s(*job).is_some()).count();
    // A queue of which most jobs are missing would be read as a short queue.
    let waiting = (known as f64 >= ENOUGH * gpu_jobs().count() as f64)
        .then(|| facts.waiting(|job| facts.gpus(job).filter(|gpus| *gpus > 0.0)));
    let capacity = Capacity::of_jobs(facts, from, to).map(|capacity| capacity.cluster);
    let moments = Moments::of(facts.trace);
    let step = ((to - from) / POINTS).max(1);
    let curve = |name: &str, mark: Mark, steps: &Steps| {
        let means = steps.bucket_means(from, to, step);
        ChartSeries::new(name, mark, means.into_iter().map(|(ms, gpus)| (moments.place(ms, from), gpus)).collect())
    };
    let mut series = vec![curve("in use", Mark::Area, &in_use)];
    series.extend(waiting.filter(|waiting| !waiting.is_empty()).map(|steps| curve("waited for", Mark::Step, &steps)));
    series.extend(capacity.filter(|there| !there.is_empty()).map(|steps| curve("there are", Mark::Dashed, &steps)));
    let has = |name: &str| series.iter().any(|one| one.name == name);
    let reading = match (has("waited for"), has("there are")) {
        (true, true) => "What is waited for while GPUs are free is what another order, placement or quota could start.",
        (true, false) if facts.trace.selected.is_some() => "Of the jobs that are looked at.",
        (true, false) => "How many GPUs there are is not recorded.",
        (false, true) => "The gap below what there is was free.",
        (false, false) => "",
    };
    let chart = Chart::xy("whole-time", "GPUs over the whole time", moments.axis(), Axis::linear("GPUs"), series);
    Some(chart.with_reading(reading))
}

impl Description {
    /// The row of figures.
    pub(super) fn figures(&self) -> Vec<Figure> {
        vec![self.gpus(), self.used(), self.waiting(), self.failed(), self.energy(), self.rows()]
    }

    fn gpus(&self) -> Figure {
        let summary = self.summary.as_ref();
        let nodes = summary.and_then(|summary| summary.gpu_nodes);
        let on = nodes
            .map_or_else(|| "mean over the time".to_owned(), |nodes| format!("on {}", counted(nodes, "node", "nodes")));
        match summary.and_then(|summary| summary.gpus) {
            Some(gpus) => Figure::new("GPUs", count(gpus.round() as u64), on),
            None if self.selected.is_some() => Figure::unknown("GPUs", "only some of the jobs are looked at"),
            None => Figure::unknown("GPUs", "how many there are is not recorded"),
        }
    }

    fn used(&self) -> Figure {
        let held = self.calendar.as_ref().and_then(|calendar| calendar.gpus_in_use.as_ref());
        let kernels = self.usage.as_ref().and_then(|usage| usage.jobs.as_ref());
        let beside = kernels.map_or_else(String::new, |jobs| {
            let of = jobs.gpu_time_coverage.filter(|share| *share < NEARLY_ALL);
            let of =
                of.map_or_else(|| "that".to_owned(), |share| format!("the {} of that with readings", percent(share)));
            format!("; kernels ran in {} of {of}", percent(jobs.util))
        });
        match held.and_then(|held| held.utilisation) {
            Some(share) => Figure::new("Used", percent(share), format!("of the GPU time was held by jobs{beside}")),
            None => match held {
                Some(held) => {
                    let by = if self.selected.is_some() {
                        "GPUs in use by these jobs on average"
                    } else {
                        "GPUs in use on average"
                    };
                    Figure::new("Used", compact(held.mean_gpus), by)
                }
                None => Figure::unknown("Used", "GPUs in use are not recorded"),
            },
        }
    }

    fn waiting(&self) -> Figure {
        let Some(wait) = &self.wait else { return Figure::unknown("Waiting", "waits are not recorded") };
        let (waits, jobs) = match &wait.gpu {
            Some(gpu) => (gpu, "GPU jobs"),
            None => (&wait.all, "jobs"),
        };
        let unknown = if wait.gpu.is_some() { wait.gpu_unknown } else { wait.unknown };
        let known = waits.started_s.count + waits.waiting;
        let share = known as f64 / (known + unknown).max(1) as f64;
        let of = if share < NEARLY_ALL {
            format!("the {} of the {jobs} whose waits are known", percent(share))
        } else {
            format!("the {jobs}")
        };
        let note = format!("mean of {of}; the median is {}", duration(waits.started_s.p50));
        Figure::new("Waiting", duration(waits.started_s.mean), note)
    }

    fn failed(&self) -> Figure {
        let Some(failure) = &self.failure else { return Figure::unknown("Failed", "no job is recorded as failed") };
        let jobs = percent(failure.failed as f64 / failure.ended.max(1) as f64);
        let ended = failure.ended as f64 / failure.jobs.max(1) as f64;
        // Jobs that run on, or of which nobody says how they ended, may fail as well.
        let of = if ended < NEARLY_ALL {
            format!("; among the {} whose end is known", percent(ended))
        } else {
            String::new()
        };
        let note = match failure.gpu_time_share {
            Some(_) => format!("of the GPU time, {jobs} of the jobs{of}"),
            None => format!("of the jobs{of}; their GPU time is unknown"),
        };
        Figure::new("Failed", failure.gpu_time_share.map_or(jobs, percent), note)
    }

    fn energy(&self) -> Figure {
        let power = self.power.as_ref();
        let gpus = power.and_then(|power| power.gpus.as_ref()).and_then(|gpus| gpus.metered.as_ref());
        match gpus.and_then(|metered| metered.energy.known_kwh()) {
            Some(kwh) => Figure::new(GPU_ENERGY, format!("{} kWh", compact(kwh)), "as metered, in the time metered"),
            None if self.selected.is_some() => Figure::unknown(GPU_ENERGY, "not told of some of the jobs"),
            None => Figure::unknown(GPU_ENERGY, "GPUs are not metered"),
        }
    }

    fn rows(&self) -> Figure {
        let quality = &self.quality;
        if quality.read == 0 {
            return Figure::unknown("Quality", "no row was read");
        }
        let used = (quality.kept + quality.repaired) as f64 / quality.read as f64;
        let note = match (quality.quarantined, quality.repaired) {
            (0, 0) => format!("of {} rows used as they were", count(quality.read)),
            (0, repaired) => format!("of {} rows used; {} repaired", count(quality.read), count(repaired)),
            (left, repaired) => {
                format!("of {} rows used; {} repaired, {} left out", count(quality.read), count(repaired), count(left))
            }
        };
        Figure::new("Quality", percent(used), note)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Trace;
    use crate::describe::{Topic, TraceSummary};
    use crate::schema::JobRow;

    #[test]
    fn every_topic_but_the_glance_answers_a_question_and_the_first_is_who_waits() {
        let description = Description::new(&Trace::default());
        let sections = arrange(description.sections());
        let without: Vec<&str> = sections.iter().filter(|s| s.question.is_none()).map(|s| s.id.as_str()).collect();
        assert_eq!(without, [TraceSummary::ID]);
        assert_eq!(sections.len(), ANSWERS.len() + 1);
        assert_eq!(sections.get(1).map(|s| s.id.as_str()), Some("wait"));
    }

    /// The finding names what its share is of; it once said "Failed 18.6 % of the GPU time"
    /// although the GPU time of two thirds of the jobs was unknown.
    #[test]
    fn what_failed_is_told_of_what_it_is_a_share() {
        let mut trace = Trace::default();
        let mut push = |key: &str, state: &str| {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(0),
                start: Some(0),
                end: Some(100_000),
                run_s: Some(100.0),
                alloc_gpus: Some(1.0),
                state: Some(state.into()),
                ..JobRow::default()
            });
        };
        push("a", "failed");
        push("b", "completed");
        push("c", "completed");
        push("d", "completed");
        let note = |trace: &Trace| Description::new(trace).failed();
        assert_eq!(note(&trace), Figure::new("Failed", "25.0 %", "of the GPU time, 25.0 % of the jobs"));
        let mut push = |key: &str| {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(0),
                start: Some(0),
                alloc_gpus: Some(1.0),
                state: Some("running".into()),
                ..JobRow::default()
            });
        };
        (0..4).for_each(|at| push(&format!("r{at}")));
        let part = "of the GPU time, 25.0 % of the jobs; among the 50.0 % whose end is known";
        assert_eq!(note(&trace), Figure::new("Failed", "25.0 %", part));
    }

    #[test]
    fn the_whole_time_has_what_is_waited_for_where_waits_are_known() {
        let mut trace = Trace::default();
        for (key, start) in [("a", 0), ("b", 100)] {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                submit: Some(0),
                start: Some(start * 1_000),
                end: Some((start + 100) * 1_000),
                run_s: Some(100.0),
                alloc_gpus: Some(2.0),
                state: Some("completed".into()),
                ..JobRow::default()
            });
        }
        let chart = overview(&JobFacts::new(&trace)).unwrap();
        let crate::report::Plot::Xy(series) = &chart.plot else { unreachable!("a chart of curves") };
        assert_eq!(series.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["in use", "waited for"]);
        // b waits for 2 GPUs until 100 s, and 2 are in use all the time.
        assert!(series[1].points.iter().all(|(at, gpus)| (*gpus > 0.0) == (*at < 100.0)));
        assert!(overview(&JobFacts::new(&Trace::default())).is_none());
    }
}
