//! The answer of `when`: when a job starts, as quantiles and chances, beside what its scheduler says and simple rules, as JSON (`when/1`) and as a report.
//!
//! **Record.** Every answer may be kept as a line of JSON ([`RecordLine`]). A later look at the cluster tells how those came true whose jobs run by then: the share whose starts were
//! within the interval that was said. Who has neither started nor is past its interval is open, and not counted.
//!
//! O(draws log draws). Worked example: draws of 1, 2, 3 and 10 h have a median of 2 h 30 min, and a chance of 25 % to start within 1 h.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::report::{Cell, Report, Section, format};
use tracecast_analytics::state::{Blocked, ClusterState, Phase};
use tracecast_analytics::stats::quantile::quantile;
use tracecast_analytics::time::format_rfc3339;

use super::live::{History, Live, Starts};
use crate::plan::tell;

/// Version of the JSON.
pub const SCHEMA: &str = "when/1";
/// Times within which chances are told, seconds.
const WITHIN_S: [f64; 6] = [600.0, 3600.0, 4.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0, 72.0 * 3600.0];
/// Levels of the quantiles.
const LEVELS: [f64; 6] = [0.05, 0.1, 0.5, 0.8, 0.9, 0.95];

/// When a job starts.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartQuantiles {
    /// Moment before which it starts with a chance of 10 %.
    pub p10: Option<String>,
    /// The same of 50 %.
    pub p50: Option<String>,
    /// The same of 80 %.
    pub p80: Option<String>,
    /// The same of 90 %.
    pub p90: Option<String>,
}

impl StartQuantiles {
    /// Of starts at the levels of [`LEVELS`].
    fn new(levels: [Option<i64>; LEVELS.len()]) -> Self {
        let [_, p10, p50, p80, p90, _] = levels.map(|at| at.map(format_rfc3339));
        Self { p10, p50, p80, p90 }
    }

    /// Of what is said of a job.
    pub(super) fn from_live(live: &Live) -> Self {
        Self::new(levels_ms(live, &sorted(live)))
    }
}

/// Waits that were drawn, seconds, in rising order.
fn sorted(live: &Live) -> Vec<f64> {
    let Starts::Drawn(waits) = &live.starts else { return Vec::new() };
    let mut sorted = waits.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Starts at each of [`LEVELS`], milliseconds since the Unix epoch; `None` where it never comes to that.
fn levels_ms(live: &Live, sorted: &[f64]) -> [Option<i64>; LEVELS.len()] {
    let at = |wait_s: f64| live.now_ms + wait_s.round() as i64 * 1000;
    LEVELS.map(|level| quantile(sorted, level).filter(|wait| wait.is_finite()).map(at))
}

/// The chance that a job starts within a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StartChance {
    /// Time from now, seconds.
    pub within_s: f64,
    /// Chance, 0 to 1.
    pub chance: f64,
}

/// What others say.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StartBeside {
    /// Start as the scheduler expects it.
    pub slurm: Option<String>,
    /// By the mean wait of its partition and size in the history.
    pub class_mean: Option<String>,
    /// By the mean of the last waits of its partition.
    pub moving_average: Option<String>,
    /// By the binomial bound of the 90 % quantile of these.
    pub binomial_bound: Option<String>,
}

/// How earlier answers came true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct StartRecord {
    /// Answers that can be judged.
    pub answers: usize,
    /// Share of them within the 80 % interval; null of none.
    pub kept80: Option<f64>,
    /// Share of them within the 90 % interval.
    pub kept90: Option<f64>,
}

/// A kept answer, as a line of JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordLine {
    /// Job.
    pub job: String,
    /// When it was asked about, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Start at the levels 5, 10, 50, 80, 90 and 95 %; null where it never comes to that.
    pub start_ms: [Option<i64>; LEVELS.len()],
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WhenAnswer {
    /// Version of this form.
    pub schema: String,
    /// Job; null of one that somebody would submit.
    pub job: Option<String>,
    /// The moment of the dumps.
    pub now: String,
    /// Partition.
    pub partition: String,
    /// GPUs; of a job without any, units of so many processor cores as `cores_each` says.
    pub gpus: u32,
    /// Processor cores that are one unit; null if units are GPUs.
    pub cores_each: Option<u32>,
    /// Since when it runs; null of one that waits.
    pub running_since: Option<String>,
    /// What keeps it, if that is neither its turn nor room: nothing is said of its start then.
    pub blocked: Option<String>,
    /// When it starts; nulls where it does not come to that, or nothing is said.
    pub start: StartQuantiles,
    /// The chance to start within some times; empty where nothing is said.
    pub chances: Vec<StartChance>,
    /// What others say.
    pub beside: StartBeside,
    /// How earlier answers came true.
    pub record: StartRecord,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// The JSON Schema of [`WhenAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(WhenAnswer).to_value()
}

/// What keeps a job, in words.
pub(super) fn in_words(blocked: &Blocked) -> String {
    match blocked {
        Blocked::Held => "somebody holds it".to_owned(),
        Blocked::Begins(Some(at)) => format!("it begins at {} at the earliest", format_rfc3339(*at)),
        Blocked::Begins(None) => "it has a time to begin".to_owned(),
        Blocked::Depends(on) => format!("it waits for other jobs ({on})"),
        Blocked::Reservation(name) => format!("it waits for the reservation {name}"),
        Blocked::ArrayLimit => "as many tasks of its array run as may at once".to_owned(),
        Blocked::Licences => "it waits for licences".to_owned(),
        Blocked::Limit(name) => format!("a limit keeps it ({name})"),
        Blocked::Nodes => "the nodes that it asks for are down, drained or reserved".to_owned(),
    }
}

/// How kept answers came true, by the jobs that run now.
pub fn judged(lines: &[RecordLine], state: &ClusterState) -> StartRecord {
    let started = |id: &str| {
        let job = state.jobs.iter().find(|job| job.id == id && job.phase == Phase::Running)?;
        job.start_ms
    };
    let waits = |id: &str| state.jobs.iter().any(|job| job.id == id && job.phase == Phase::Pending);
    let kept = |line: &RecordLine, low: usize, high: usize| -> Option<bool> {
        let from = line.start_ms.get(low).copied().flatten()?;
        let to = line.start_ms.get(high).copied().flatten().unwrap_or(i64::MAX);
        match started(&line.job) {
            Some(start) if start >= line.at_ms => Some((from..=to).contains(&start)),
            // Past its interval it has missed, whenever it starts.
            None if waits(&line.job) && state.now_ms? > to => Some(false),
            _ => None,
        }
    };
    let share = |low: usize, high: usize| {
        let all: Vec<bool> = lines.iter().filter_map(|line| kept(line, low, high)).collect();
        (all.len(), all.iter().filter(|kept| **kept).count())
    };
    let ((answers, kept80), (of, kept90)) = (share(1, 4), share(0, 5));
    let part = |kept: usize, of: usize| (of > 0).then(|| kept as f64 / of as f64);
    StartRecord { answers, kept80: part(kept80, answers), kept90: part(kept90, of) }
}

impl WhenAnswer {
    /// The answer about a job, and the line of it that a record keeps.
    pub fn new(live: &Live, history: Option<&History>, record: StartRecord) -> (Self, Option<RecordLine>) {
        let at = |wait_s: f64| wait_s.is_finite().then(|| live.now_ms + wait_s.round() as i64 * 1000);
        let sorted = sorted(live);
        let levels = levels_ms(live, &sorted);
        let chance = |within_s: f64| {
            let within = sorted.partition_point(|wait| *wait <= within_s);
            StartChance { within_s, chance: within as f64 / sorted.len() as f64 }
        };
        let chances = if sorted.is_empty() { Vec::new() } else { WITHIN_S.map(chance).to_vec() };
        let vc = history.and_then(|history| Some((history, history.vc_of(&live.partition)?)));
        let amount = u64::from(live.gpus) * 1000;
        let by = |wait: Option<f64>| wait.and_then(at).map(format_rfc3339).filter(|_| !sorted.is_empty());
        let beside = StartBeside {
            slurm: live.scheduled_ms.filter(|_| !matches!(live.starts, Starts::Runs(_))).map(format_rfc3339),
            class_mean: by(vc.and_then(|(history, vc)| history.waits.class_mean_s(vc, amount))),
            moving_average: by(vc.and_then(|(history, vc)| history.waits.moving_average_s(vc))),
            binomial_bound: by(vc.and_then(|(history, vc)| {
                let [bound] = history.waits.binomial_bounds_s(vc, [0.9])?;
                Some(bound)
            })),
        };
        let mut notes = live.notes.clone();
        let [running, waiting, gpus] = live.around;
        if !sorted.is_empty() {
            notes.insert(
                0,
                format!(
                    "{} of {}, {} and {} in the same pool of {} were replayed forward.",
                    format::counted(sorted.len() as u64, "draw", "draws"),
                    format::counted(u64::from(live.gpus), "GPU", "GPUs"),
                    format::counted(running as u64, "job that runs", "jobs that run"),
                    format::counted(waiting as u64, "that waits", "that wait"),
                    format::counted(gpus as u64, "GPU", "GPUs")
                ),
            );
        }
        let answer = Self {
            schema: SCHEMA.to_owned(),
            job: live.job.clone(),
            now: format_rfc3339(live.now_ms),
            partition: live.partition.clone(),
            gpus: live.gpus,
            cores_each: live.cores,
            running_since: if let Starts::Runs(since) = live.starts { Some(format_rfc3339(since)) } else { None },
            blocked: match &live.starts {
                Starts::Blocked(blocked) => Some(in_words(blocked)),
                Starts::TooLarge => Some("no nodes that take jobs now hold it".to_owned()),
                Starts::Runs(_) | Starts::Drawn(_) => None,
            },
            start: StartQuantiles::new(levels),
            chances,
            beside,
            record,
            notes,
        };
        let line = live.job.clone().filter(|_| !sorted.is_empty());
        let line = line.map(|job| RecordLine { job, at_ms: live.now_ms, start_ms: levels });
        (answer, line)
    }

    /// The report.
    pub fn report(&self) -> Report {
        let what = self.job.as_ref().map_or_else(
            || format!("a job of {}", format::counted(u64::from(self.gpus), "GPU", "GPUs")),
            |job| format!("job {job}"),
        );
        let mut report = Report::new(
            format!("When does {what} start?"),
            format!(
                "{} in partition {}, as of {}",
                format::counted(u64::from(self.gpus), "GPU", "GPUs"),
                self.partition,
                self.now
            ),
        );
        report.notes.clone_from(&self.notes);
        let none = || "not within any draw".to_owned();
        if let Some(since) = &self.running_since {
            report.summary.push(format!("**It runs since {since}.**"));
        } else if let Some(blocked) = &self.blocked {
            report.summary.push(format!("**Nothing can be said of its start: {blocked}.**"));
        } else {
            let of = |at: &Option<String>| at.clone().unwrap_or_else(none);
            report.summary.push(format!(
                "**Most likely by {}**, with a chance of 80 % between {} and {}.",
                of(&self.start.p50),
                of(&self.start.p10),
                of(&self.start.p90)
            ));
            if let Some(slurm) = &self.beside.slurm {
                report.summary.push(format!("Its scheduler expects {slurm}."));
            }
        }
        if let (Some(kept80), Some(kept90)) = (self.record.kept80, self.record.kept90) {
            report.summary.push(format!(
                "Of {} that came true, {} were within the 80 % interval, {} within that of 90 %.",
                format::counted(self.record.answers as u64, "earlier answer", "earlier answers"),
                format::percent(kept80),
                format::percent(kept90)
            ));
        }
        if !self.chances.is_empty() {
            let mut table = tell::table("Chance to start".to_owned(), "Within | #Chance");
            for of in &self.chances {
                table.rows.push(vec![format::duration(of.within_s).into(), Cell::share(of.chance)]);
            }
            let mut rules = tell::table("Beside it".to_owned(), "Rule | Start");
            for (rule, start) in [
                ("scheduler", &self.beside.slurm),
                ("mean of partition and size", &self.beside.class_mean),
                ("moving average", &self.beside.moving_average),
                ("binomial bound, 90 %", &self.beside.binomial_bound),
            ] {
                if let Some(start) = start {
                    rules.rows.push(vec![rule.into(), start.clone().into()]);
                }
            }
            let mut section = Section::new("chances", "Chances").with_table(table);
            if !rules.rows.is_empty() {
                section = section.with_table(rules);
            }
            report.sections.push(section);
        }
        report
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn live(starts: Starts) -> Live {
        Live {
            job: Some("7".to_owned()),
            now_ms: 0,
            partition: "gpu".to_owned(),
            gpus: 8,
            cores: None,
            scheduled_ms: Some(3_600_000),
            starts,
            around: [1, 1, 8],
            notes: Vec::new(),
        }
    }

    #[test]
    fn the_worked_example() {
        let drawn = Starts::Drawn([1.0, 2.0, 3.0, 10.0].map(|hours| hours * 3600.0).to_vec());
        let (answer, line) = WhenAnswer::new(&live(drawn), None, StartRecord::default());
        assert_eq!(answer.start.p50.as_deref(), Some("1970-01-01T02:30:00Z"));
        assert!((answer.chances[1].chance - 0.25).abs() < 1e-12 && answer.beside.slurm.is_some());
        assert_eq!(line.unwrap().start_ms[2], Some(9_000_000));
    }

    #[test]
    fn a_job_that_is_held_has_no_start() {
        let (answer, line) = WhenAnswer::new(&live(Starts::Blocked(Blocked::Held)), None, StartRecord::default());
        assert_eq!((answer.start.p50, answer.chances.len(), line), (None, 0, None));
        assert_eq!(answer.blocked.as_deref(), Some("somebody holds it"));
    }
}
