//! Work that is not known for sure: its distribution, from quantiles that are given or that a model of run times predicted.
//!
//! Between two levels the amounts lie evenly; all below the lowest level are its amount, and all above the highest are the **top**. So a level that comes twice is a jump, and an amount that comes twice has a
//! chance of its own. A level of 0 is the least amount: `0 = 24 h, 1 = 48 h` is anything from 24 to 48 h, evenly. The deadline is kept for every amount up to the top, as safety nets and policies without probabilities take the top for the work. What lies [beyond](WorkDistribution::beyond) it is promised nothing.
//!
//! **Programmes** weigh what they pay by the chance that the job still runs: with S(d) the chance that the work is more than d, a step that works from d to d′ costs ∫ S over it, and to begin an instance at d
//! costs S(d) times a changeover. As all choices of a moment have the same chance of being asked, nothing is divided by it.
//!
//! **Elastic jobs** have too many states for that: each lane has work of its own, and all of them the same chance to go on. Their programme plans (`left_at`) for what covers what is left with a high chance,
//! by what is done so far, and so for more and more of the top as it is not done.
//!
//! **Trials** average over [`amounts`](WorkDistribution::amounts): the chances in parts of at most 1/`PARTS`, each with the amount in its middle, in whole minutes.
//!
//! O(points), and O(log points) for each chance. Worked example: 0.5 = 36 h and 1 = 60 h is 36 h in half of the cases and evenly from 36 to 60 h in the others. S(36 h) = 0.5, S(48 h) = 0.25, and the mean is 42 h.

use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::report::format;
use tracecast_analytics::report::markup::csv_text;
use tracecast_analytics::time::MINUTE_MS;

use crate::error::{Error, Result};

/// In how many parts chances are tried, at least.
const PARTS: f64 = 16.0;
/// Most quantiles.
const MOST: usize = 100;

/// A quantile of the work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WorkQuantile {
    /// Chance that the work is that or less.
    pub level: f64,
    /// The work, seconds.
    pub work_s: f64,
}

/// The work of a job, as far as it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkDistribution {
    /// Levels and amounts in milliseconds, both in order.
    points: Vec<(f64, i64)>,
    /// For each point the mean of the work that is done up to its amount, milliseconds.
    done: Vec<f64>,
}

fn wrong(result: String, remedy: &str) -> Error {
    Error::malformed("quantiles of the work", result, remedy.to_owned())
}

/// How policies plan on a work that is uncertain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum WorkPlanned {
    /// All take the top for it, as over several zones.
    Top,
    /// The programmes plan on its distribution, as of one instance or of several at once.
    Distribution,
    /// The programmes plan for what covers what is left with this chance, as of an elastic job.
    Cover(f64),
}

/// An amount as whole minutes, at least one.
fn minutes(work_ms: f64) -> i64 {
    ((work_ms / MINUTE_MS as f64).round() as i64).max(1) * MINUTE_MS
}

/// Columns of predictions that are quantiles.
const PREDICTED: [(f64, &str); 5] = [(0.05, "p05_s"), (0.1, "p10_s"), (0.5, "p50_s"), (0.9, "p90_s"), (0.95, "p95_s")];

/// A row of a file of predictions: its line, its quantiles in seconds, and whether they are not to be relied upon.
type Row = (u64, Vec<Option<f64>>, bool);

/// The rows of a job in a CSV; or a line, and what is wrong with it.
fn records(text: &str, job: &str) -> std::result::Result<Vec<Row>, (u64, String)> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| (1, error.to_string()))?.clone();
    let place = |name: &str| {
        let at = header.iter().position(|cell| cell == name);
        at.ok_or_else(|| {
            (1, format!("there is no column `{name}`; name a file that `tracecast model predict duration` wrote"))
        })
    };
    let id = place("job_id")?;
    let figures = PREDICTED.iter().map(|(_, name)| place(name)).collect::<std::result::Result<Vec<_>, _>>()?;
    let unsure = header.iter().position(|cell| cell == "unsure");
    // The identifier as CSVs are written: no cell of text begins as a formula does.
    let written = csv_text(job);
    let mut found = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| (error.position().map_or(0, csv::Position::line), error.to_string()))?;
        if record.get(id).is_some_and(|cell| cell == job || cell == written) {
            let line = record.position().map_or(0, csv::Position::line);
            let figures = figures.iter().map(|at| record.get(*at).and_then(|cell| cell.parse().ok()));
            found.push((line, figures.collect(), unsure.and_then(|at| record.get(at)) == Some("true")));
        }
    }
    Ok(found)
}

/// Reads the rows of a job from lines of JSON, with line numbers, or the line of an error and its
/// message.
fn lines(text: &str, job: &str) -> std::result::Result<Vec<Row>, (u64, String)> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let row: serde_json::Value = serde_json::from_str(text).map_err(|error| (line, error.to_string()))?;
        if row.get("job_id").and_then(serde_json::Value::as_str) == Some(job) {
            let figure = |name: &str| row.get(name).and_then(serde_json::Value::as_f64);
            let figures = PREDICTED.iter().map(|(_, name)| figure(name)).collect();
            found.push((line, figures, row.get("unsure").and_then(serde_json::Value::as_bool) == Some(true)));
        }
    }
    Ok(found)
}

impl WorkDistribution {
    /// From levels and amounts in milliseconds.
    ///
    /// # Errors
    /// If there are none or too many, a level is none, an amount is not positive, or either falls.
    pub fn new(points: &[(f64, i64)]) -> Result<Self> {
        const EXAMPLE: &str = "write levels and times in order, such as 0.1=36h,0.5=48h,0.9=60h,1=72h";
        if points.is_empty() || points.len() > MOST {
            return Err(wrong(format!("{} of them", points.len()), EXAMPLE));
        }
        if let Some((level, _)) = points.iter().find(|(level, _)| !(0.0..=1.0).contains(level)) {
            return Err(wrong(format!("the level {level}"), "levels are chances from 0, the least amount, to 1"));
        }
        if points.iter().all(|(level, _)| *level <= 0.0) {
            let remedy = "say up to what amount the work goes, such as 0=24h,1=48h";
            return Err(wrong("no level above 0".to_owned(), remedy));
        }
        if let Some((_, work_ms)) = points.iter().find(|(_, work_ms)| *work_ms <= 0) {
            return Err(wrong(format!("{work_ms} ms"), "write times above 0"));
        }
        if let Some(pair) = points.windows(2).find(|pair| pair[1].0 < pair[0].0 || pair[1].1 < pair[0].1) {
            let hours = |work_ms: i64| work_ms as f64 / 3.6e6;
            let problem = format!("{}={}h before {}={}h", pair[0].0, hours(pair[0].1), pair[1].0, hours(pair[1].1));
            return Err(wrong(problem, EXAMPLE));
        }
        let mut result = Self { points: points.to_vec(), done: Vec::with_capacity(points.len()) };
        let (mut before_ms, mut alive, mut sum) = (0, 1.0, 0.0);
        for (level, work_ms) in points {
            // Along an even stretch the chance falls in a line; below the lowest level none is done.
            let at = if before_ms == 0 { 1.0 } else { 1.0 - level };
            sum += (work_ms - before_ms) as f64 * 0.5 * (alive + at);
            result.done.push(sum);
            (before_ms, alive) = (*work_ms, 1.0 - level);
        }
        Ok(result)
    }

    /// From what `tracecast model predict duration` wrote of a job, as CSV or as lines of JSON: the
    /// quantiles of its run, taken up to whole minutes; and whether the model says that they are
    /// not to be relied upon. `file` is what to call
    /// it in messages.
    ///
    /// # Errors
    /// If the job has no row or several, a column is missing, or a figure is none.
    pub fn predicted(file: &str, text: &str, job: &str) -> Result<(Self, bool)> {
        let wrong = |line: u64, what: String| Error::file(file.to_owned(), line, what);
        let rows = if text.trim_start().starts_with('{') { lines(text, job) } else { records(text, job) };
        let rows = rows.map_err(|(line, what)| wrong(line, what))?;
        let [(line, figures, unsure)] = rows.as_slice() else {
            let what = match rows.get(1) {
                Some((line, ..)) => return Err(wrong(*line, format!("job {job} has several rows; keep one of them"))),
                None => format!("no row is of job {job}; --job takes a job_id of the file"),
            };
            return Err(wrong(1, what));
        };
        let mut points = Vec::with_capacity(PREDICTED.len());
        for ((level, name), figure) in PREDICTED.iter().zip(figures) {
            let seconds = figure.filter(|seconds| seconds.is_finite() && *seconds >= 0.0 && *seconds <= 1e9);
            let Some(seconds) = seconds else {
                return Err(wrong(*line, format!("{name} of job {job} is no number of seconds; predict it again")));
            };
            points.push((*level, minutes((seconds * 1e3 / MINUTE_MS as f64).ceil() * MINUTE_MS as f64)));
        }
        let named = PREDICTED.iter().zip(figures).map(|((_, name), figure)| (*name, figure.unwrap_or_default()));
        let named: Vec<(&str, f64)> = named.collect();
        if let Some([(below, more), (above, less)]) = named.array_windows().find(|[below, above]| above.1 < below.1) {
            let what = format!(
                "the quantiles of job {job} cross: {below} is {more} and {above} is {less}; predict it again, or put them in order and give them with --work-quantiles"
            );
            return Err(wrong(*line, what));
        }
        Self::new(&points).map(|work| (work, *unsure)).map_err(|error| wrong(*line, error.to_string()))
    }

    /// Whether the work is known after all.
    pub fn is_certain(&self) -> bool {
        self.points.first().map(|(_, work_ms)| *work_ms) == self.points.last().map(|(_, work_ms)| *work_ms)
    }

    /// The most that the deadline is kept for, milliseconds.
    pub fn top_ms(&self) -> i64 {
        self.points.last().map_or(0, |(_, work_ms)| *work_ms)
    }

    /// The chance of more than the top.
    pub fn beyond(&self) -> f64 {
        self.points.last().map_or(0.0, |(level, _)| 1.0 - level)
    }

    /// The amount at a level, in whole minutes.
    pub fn quantile_ms(&self, level: f64) -> i64 {
        self.at_level(level).map_or_else(|| self.top_ms(), minutes)
    }

    /// The amount at a level, milliseconds; nothing beyond the last level.
    fn at_level(&self, level: f64) -> Option<f64> {
        let at = self.points.partition_point(|(of, _)| *of < level);
        let (to, to_ms) = self.points.get(at)?;
        let Some((from, from_ms)) = at.checked_sub(1).and_then(|before| self.points.get(before)) else {
            return Some(*to_ms as f64);
        };
        let part = if to > from { (level - from) / (to - from) } else { 1.0 };
        Some(*from_ms as f64 + part * (to_ms - from_ms) as f64)
    }

    /// A level of what is left of a job that has done `done_ms` and still runs, milliseconds: the least amount that covers it with this chance; at 1 up to the top.
    ///
    /// Worked example: of anything from 24 to 48 h, 36 h are done. At a level of 0.75, 9 h are left.
    pub(super) fn left_at(&self, done_ms: f64, level: f64) -> f64 {
        let of_all = 1.0 - self.alive(done_ms) * (1.0 - level);
        (self.at_level(of_all).unwrap_or(self.top_ms() as f64) - done_ms).max(1.0)
    }

    /// The chance that the work is more than `done_ms`; at the top that it is the top or more, as nobody is asked after it.
    pub(super) fn alive(&self, done_ms: f64) -> f64 {
        let at = self.points.partition_point(|(_, work_ms)| *work_ms as f64 <= done_ms);
        let before = at.checked_sub(1).and_then(|before| self.points.get(before));
        match (before, self.points.get(at)) {
            (None, _) => 1.0,
            (Some((level, from_ms)), Some((to, to_ms))) => {
                let part = (done_ms - *from_ms as f64) / (to_ms - from_ms) as f64;
                1.0 - (level + part * (to - level))
            }
            (Some(_), None) => {
                let (top_ms, certain) = (self.top_ms(), self.is_certain());
                let below = self.points.iter().find(|(_, work_ms)| *work_ms == top_ms).filter(|_| !certain);
                below.map_or(1.0, |(level, _)| 1.0 - level)
            }
        }
    }

    /// The mean of the work that is done by the time the job that goes on would have done `done_ms`.
    pub(super) fn mean_done(&self, done_ms: f64) -> f64 {
        let at = self.points.partition_point(|(_, work_ms)| *work_ms as f64 <= done_ms);
        let Some(before) = at.checked_sub(1) else { return done_ms };
        let (Some((_, from_ms)), Some(sum)) = (self.points.get(before), self.done.get(before)) else { return done_ms };
        if self.points.get(at).is_none() {
            return *sum;
        }
        let length = done_ms - *from_ms as f64;
        let from = self.points.get(before).map_or(0.0, |(level, _)| 1.0 - level);
        sum + length * 0.5 * (from + self.alive(done_ms))
    }

    /// Amounts in milliseconds and their chances, which sum to 1: what trials average over.
    pub fn amounts(&self) -> Vec<(i64, f64)> {
        let mut result: Vec<(i64, f64)> = Vec::new();
        let mut add = |work_ms: i64, chance: f64| match result.last_mut() {
            Some((before, sum)) if *before == work_ms => *sum += chance,
            _ if chance > 0.0 => result.push((work_ms, chance)),
            _ => {}
        };
        let mut before: Option<(f64, i64)> = None;
        for (level, work_ms) in self.points.iter().copied() {
            match before {
                None => add(work_ms, level),
                Some((from, from_ms)) => {
                    let parts = if from_ms == work_ms { 1.0 } else { ((level - from) * PARTS).ceil() };
                    for part in 0..parts as usize {
                        let middle = (part as f64 + 0.5) / parts;
                        let amount = from_ms as f64 + middle * (work_ms - from_ms) as f64;
                        add(if from_ms == work_ms { work_ms } else { minutes(amount) }, (level - from) / parts);
                    }
                }
            }
            before = Some((level, work_ms));
        }
        add(self.top_ms(), self.beyond());
        result
    }

    /// Returns the distribution as quantiles.
    pub(super) fn quantiles(&self) -> Vec<WorkQuantile> {
        let of = |(level, work_ms): &(f64, i64)| WorkQuantile { level: *level, work_s: *work_ms as f64 / 1e3 };
        self.points.iter().map(of).collect()
    }

    /// What is promised of it, in words, by how it is planned on.
    pub(super) fn promise(&self, planned: WorkPlanned) -> String {
        let top = format::duration(self.top_ms() as f64 / 1e3);
        let beyond = if self.beyond() > 1e-9 {
            format!(
                " It may be more with a chance of {}: nothing is promised of that, and it counts as {top}.",
                format::percent(self.beyond())
            )
        } else {
            String::new()
        };
        format!(
            "The work is uncertain. Every deadline is kept for each amount up to {top}, and slack is that over the time to the deadline.{beyond} Costs are means over the amounts, as shares of the mean of all on-demand. \
             {planners} {top}.",
            planners = match planned {
                WorkPlanned::Top => "All policies plan on".to_owned(),
                WorkPlanned::Distribution => "The programmes plan on the distribution, other policies on".to_owned(),
                WorkPlanned::Cover(chance) => format!(
                    "At each sample the programmes plan for so much work as covers what is left with a chance of {}; other policies plan on",
                    format::percent(chance)
                ),
            },
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn hours(points: &[(f64, i64)]) -> WorkDistribution {
        WorkDistribution::new(&points.iter().map(|(level, hours)| (*level, hours * HOUR)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_worked_example() {
        let work = hours(&[(0.5, 36), (1.0, 60)]);
        let near = |result: f64, of: f64| assert!((result - of).abs() < 1e-9, "{result} is not {of}");
        let hour = HOUR as f64;
        for (at, of) in [(0.0, 1.0), (35.9, 1.0), (36.0, 0.5), (48.0, 0.25), (59.0, 0.5 / 24.0)] {
            near(work.alive(at * hour), of);
        }
        near(work.mean_done(60.0 * hour) / hour, 42.0);
        near(work.mean_done(36.0 * hour) / hour, 36.0);
        near(work.mean_done(48.0 * hour) / hour, 36.0 + 12.0 * 0.375);
        assert_eq!((work.quantile_ms(0.75), work.quantile_ms(0.2), work.top_ms()), (48 * HOUR, 36 * HOUR, 60 * HOUR));
        let amounts = work.amounts();
        near(amounts.iter().map(|(_, chance)| chance).sum(), 1.0);
        near(amounts.iter().map(|(work_ms, chance)| *work_ms as f64 * chance).sum::<f64>() / hour, 42.0);
        assert_eq!((amounts[0], amounts.len()), ((36 * HOUR, 0.5), 9));
    }

    /// From 24 h to 48 h, evenly: a level of 0 is the least amount, and has no chance of its own.
    #[test]
    fn a_level_of_nothing_is_the_least_amount() {
        let (work, hour) = (hours(&[(0.0, 24), (1.0, 48)]), HOUR as f64);
        let near = |result: f64, of: f64| assert!((result - of).abs() < 1e-9, "{result} is not {of}");
        for (at, of) in [(0.0, 1.0), (23.9, 1.0), (24.0, 1.0), (30.0, 0.75), (47.0, 1.0 / 24.0)] {
            near(work.alive(at * hour), of);
        }
        near(work.mean_done(48.0 * hour) / hour, 36.0);
        assert_eq!((work.quantile_ms(0.5), work.quantile_ms(0.0), work.is_certain()), (36 * HOUR, 24 * HOUR, false));
        let amounts = work.amounts();
        near(amounts.iter().map(|(_, chance)| chance).sum(), 1.0);
        near(amounts.iter().map(|(work_ms, chance)| *work_ms as f64 * chance).sum::<f64>() / hour, 36.0);
        assert!(amounts.len() == 16 && amounts.iter().all(|(work_ms, _)| *work_ms > 24 * HOUR));
        // Two of them leave nothing between: 30 h is the least.
        assert!(hours(&[(0.0, 24), (0.0, 30), (1.0, 48)]).amounts().iter().all(|(work_ms, _)| *work_ms > 30 * HOUR));
    }

    /// 36 h or 60 h, nothing between; and a top of which more may come.
    #[test]
    fn jumps_and_tops() {
        let two = hours(&[(0.25, 36), (0.25, 60), (1.0, 60)]);
        assert_eq!(two.amounts(), [(36 * HOUR, 0.25), (60 * HOUR, 0.75)]);
        let hour = HOUR as f64;
        assert_eq!([35.0, 36.0, 59.9, 60.0].map(|at| two.alive(at * hour)), [1.0, 0.75, 0.75, 0.75]);
        assert!((two.mean_done(60.0 * hour) / hour - 54.0).abs() < 1e-9);
        let open = hours(&[(0.1, 12), (0.9, 20)]);
        assert!((open.beyond() - 0.1).abs() < 1e-12 && (open.alive(20.0 * hour) - 0.1).abs() < 1e-12);
        assert!((open.amounts().last().unwrap().1 - 0.1).abs() < 1e-12);
        assert!(open.promise(WorkPlanned::Distribution).contains("with a chance of 10.0 %"), "{open:?}");
        assert!(open.promise(WorkPlanned::Top).contains("All policies plan on"), "{open:?}");
        assert!(hours(&[(0.5, 12), (1.0, 12)]).is_certain() && !open.is_certain());
        // What is left to plan for: evenly, after a jump, and of an open top.
        let even = hours(&[(0.0, 24), (1.0, 48)]);
        let left =
            |of: &WorkDistribution, done: f64, level: f64| (of.left_at(done * hour, level) / hour * 1e6).round() / 1e6;
        assert_eq!([left(&even, 0.0, 0.5), left(&even, 36.0, 0.75), left(&even, 36.0, 1.0)], [36.0, 9.0, 12.0]);
        assert_eq!([left(&two, 10.0, 0.2), left(&two, 10.0, 0.3), left(&two, 36.0, 0.1)], [26.0, 50.0, 24.0]);
        assert_eq!([left(&open, 0.0, 0.95), left(&open, 19.5, 0.5)], [20.0, 0.5]);
    }

    /// Reads predictions from a CSV and from lines of JSON; 3601 s are 61 min. A model that is not
    /// sure says so.
    #[test]
    fn predictions_are_quantiles() {
        let head = "job_id,predicted_duration_s,mean_s,p05_s,p10_s,p50_s,p90_s,p95_s,unsure,expected_end";
        let csv = format!("{head}\n7,1,1,0.000,60.000,3600.000,3601.000,7200.000,true,\n8,1,1,1,1,1,1,1,false,\n");
        let (work, unsure) = WorkDistribution::predicted("p.csv", &csv, "7").unwrap();
        let minutes = [1, 1, 60, 61, 120];
        let result: Vec<i64> = work.points.iter().map(|(_, work_ms)| work_ms / 60_000).collect();
        assert_eq!((result, unsure), (minutes.to_vec(), true));
        let json =
            "{\"job_id\": \"7\", \"p05_s\": 0.0, \"p10_s\": 60, \"p50_s\": 3600, \"p90_s\": 3601, \"p95_s\": 7200}\n";
        assert_eq!(WorkDistribution::predicted("p.jsonl", json, "7").unwrap(), (work, false));
        let said = |text: &str, job: &str| WorkDistribution::predicted("p", text, job).unwrap_err().to_string();
        assert!(said(&csv, "9").contains("no row is of job 9"));
        assert!(said(&format!("{csv}7,1,1,1,1,1,1,1,false,\n"), "7").contains("several rows"));
        assert!(said("job_id,p05_s\n7,1\n", "7").contains("no column `p10_s`"));
        assert!(said(&csv.replace("3601.000", "x"), "7").contains("p90_s of job 7 is no number"));
        assert!(said(&csv.replace("3601.000", "inf"), "7").contains("p90_s of job 7 is no number"));
        assert!(said("{\"job_id\": 7", "7").contains("EOF"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |points: &[(f64, i64)]| WorkDistribution::new(points).unwrap_err().to_string();
        assert!(said(&[]).contains("0 of them"));
        assert!(said(&[(-0.1, 1)]).contains("the level -0.1") && said(&[(1.5, 1)]).contains("to 1"));
        assert!(said(&[(0.0, HOUR), (0.0, 2 * HOUR)]).contains("such as 0=24h,1=48h"));
        assert!(said(&[(f64::NAN, 1)]).contains("the level NaN"));
        assert!(said(&[(0.5, 0)]).contains("times above 0"));
        assert!(said(&[(0.5, 2 * HOUR), (0.9, HOUR)]).contains("0.5=2h before 0.9=1h"));
        assert!(said(&[(0.9, HOUR), (0.5, HOUR)]).contains("0.9=1h before 0.5=1h"));
    }
}
