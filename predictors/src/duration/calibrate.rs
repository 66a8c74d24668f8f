//! Intervals that hold: what quantiles a model gave is corrected by how far runs fell from them, by class of job, and as time goes on.
//!
//! A model gives three quantiles of the log run: low (10 %), middle, high (90 %). Between and beyond them lie **anchors** for all levels of a
//! distribution, as far apart as those of a normal distribution. The **score** of a job that ended is y − anchor, one a level, and the distribution of a new job has each
//! anchor moved by that level's quantile of the last scores of its class (conformalised quantile regression, Romano et al. 2019, Mondrian by
//! size × history). A class with few scores borrows those of its size, then of all. Where runs drift, levels are moved, too: each job that ends
//! moves the level at which the 5, 10, 90 and 95 % quantiles of its size are read by γ (a − 1{y ≤ q}), with q what had been predicted for it
//! (Gibbs and Candès 2021).
//! Only jobs that ended teach, when they end. (Teaching all jobs a fixed day after their submission, the running ones by their age, was tried:
//! it removes the advantage that short jobs have in ending first, and held 80 and 90 % slightly better over all Philly jobs, but let jobs of
//! 5 to 8 GPUs fall to 66 %.)
//!
//! O(levels × window) to learn, O(levels) to predict. Worked example: runs of which a tenth lies 0.7 or more above the model's 90 % quantile
//! move that quantile up by 0.7, for every job alike; the median stays if half the runs lie above it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::HOUR_MS;

use super::distribution::{Distribution, LEVELS};
use super::overrun::Overruns;
use crate::feature::History;
use crate::recent::RecentScores;

/// Scores remembered a class.
const WINDOW: usize = 4000;
/// Scores below which an interval is said to be of a short history.
const ENOUGH: u32 = 50;
/// Scores by whose weight a class is pulled towards its size, and that towards all.
const SHRINK: f32 = 30.0;
/// Widening of the 10 and 90 % quantiles with nothing seen, log; and the scores that halve it (from [`ENOUGH`] on it falls with their cube).
const WIDER: f32 = 1.0;
const UNSURE: f32 = 40.0;
/// Jobs of one hour of submission that count, and hours remembered: what is submitted together runs alike, and tells as much as a few.
const OF_AN_HOUR: u8 = 5;
const HOURS: usize = 1000;
/// Farthest a level may lie beyond the longest run seen, log.
const BEYOND: f32 = std::f32::consts::LN_2;
/// Share of the scores' scale by which one job moves a level, each of two ways for its size and for all.
pub const RATE: f64 = 0.005;
/// Place of the median in [`LEVELS`].
const MIDDLE: usize = 6;
/// Distance of the levels of [`LEVELS`] from the middle in those of 10 and 90 %, of a normal distribution.
const AWAY: [f32; LEVELS.len()] =
    [-1.8153, -1.2835, -1.0, -0.6567, -0.4092, -0.1977, 0.0, 0.1977, 0.4092, 0.6567, 1.0, 1.2835, 1.8153];
/// Distance of the level of 80 % among these.
const OF_80: f32 = AWAY[9];
/// Levels that are moved, as places in [`LEVELS`].
const MOVED: [usize; 4] = [1, 2, 10, 11];

/// A model's three quantiles of the log run: 10, 50 and 90 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// 10 %.
    pub low: f32,
    /// 50 %.
    pub middle: f32,
    /// 90 %.
    pub high: f32,
}

impl Spread {
    /// The three in order, whatever order they come in.
    pub fn of(low: f32, middle: f32, high: f32) -> Self {
        let mut three = [low, middle, high];
        three.sort_unstable_by(f32::total_cmp);
        let [low, middle, high] = three;
        Self { low, middle, high }
    }

    /// Log run at the level that usually orders jobs best, 80 %, before any correction.
    pub(crate) fn usual(&self) -> f32 {
        self.middle + OF_80 * (self.high - self.middle)
    }

    /// Log run at each of [`LEVELS`], before any correction.
    fn anchors(&self) -> [f32; LEVELS.len()] {
        AWAY.map(|away| self.middle + away * if away > 0.0 { self.high - self.middle } else { self.middle - self.low })
    }
}

/// Class that a job is calibrated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Class of its number of GPUs.
    pub size: SizeClass,
    /// Amount of history of jobs like it.
    pub history: History,
}

impl Class {
    fn size_at(self) -> usize {
        SizeClass::ALL.iter().position(|size| *size == self.size).unwrap_or(0)
    }

    fn at(self) -> usize {
        let history = History::ALL.iter().position(|history| *history == self.history).unwrap_or(0);
        self.size_at() * History::ALL.len() + history
    }
}

/// The last scores of some jobs, a level each; empty until the first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Window(Vec<RecentScores>);

impl Window {
    fn learn(&mut self, anchors: &[f32], y: f32) {
        self.0.resize_with(LEVELS.len(), RecentScores::default);
        for (scores, anchor) in self.0.iter_mut().zip(anchors) {
            scores.learn(y - anchor, WINDOW);
        }
    }

    fn len(&self) -> usize {
        self.0.first().map_or(0, RecentScores::len)
    }

    fn shift(&self, at: usize, level: f64) -> f32 {
        self.0.get(at).map_or(0.0, |scores| scores.nearest_quantile(level).unwrap_or(f32::NAN))
    }
}

/// Facts of a job that its calibration depends on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// Class of the job.
    pub class: Class,
    /// Code of its user.
    pub user: Option<u32>,
    /// Log of its time limit.
    pub log_limit: Option<f64>,
}

/// A distribution, and whether there was enough to calibrate it by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The distribution.
    #[serde(rename = "law")]
    pub distribution: Distribution,
    /// Whether too few jobs have ended to calibrate the prediction: its interval is wider than its
    /// level says.
    pub short: bool,
}

/// Moves of the levels, log seconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Moves {
    /// Judged by what had been predicted for each job.
    said: [f32; MOVED.len()],
    /// Judged by what would be predicted for it by now.
    now: [f32; MOVED.len()],
}

/// A job that has not ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Watched {
    about: About,
    spread: Spread,
    #[serde(rename = "law")]
    distribution: Distribution,
    start_ms: Option<i64>,
    /// Levels that its age has told of already.
    told_said: [bool; MOVED.len()],
    told_now: [bool; MOVED.len()],
}

/// Corrects predictions by the runs seen since.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Calibrator {
    /// Share of the scores' scale by which one job moves a level.
    rate: f64,
    all: Window,
    sizes: Vec<Window>,
    classes: Vec<Window>,
    moves_all: Moves,
    moves: Vec<Moves>,
    /// Runs beyond their time limits, of each user and of all.
    overruns: Overruns,
    /// Log of the longest run, or age, seen.
    longest: f32,
    /// Log runs of jobs, also of those for which nothing was predicted: few of each hour, so that no burst speaks for all.
    runs: RecentScores,
    /// Jobs of each hour of submission that were counted, of the last [`HOURS`]: with scores, and runs.
    hours: BTreeMap<i64, (u8, u8)>,
    /// Scores counted, few of each hour.
    told: u32,
    #[serde(with = "crate::feature::pairs")]
    watched: HashMap<u64, Watched>,
    /// Times at which a running job will have outlived one of [`MOVED`], by its distribution:
    /// milliseconds, job, index of the level.
    crossings: BTreeSet<(i64, u64, u8)>,
}

impl Default for Calibrator {
    fn default() -> Self {
        Self::new(RATE)
    }
}

impl Calibrator {
    /// A calibrator that has seen nothing, and moves levels by `rate` of the scores' scale ([`RATE`]).
    pub fn new(rate: f64) -> Self {
        let sizes = SizeClass::ALL.len();
        Self {
            rate,
            all: Window::default(),
            sizes: vec![Window::default(); sizes],
            classes: vec![Window::default(); sizes * History::ALL.len()],
            moves_all: Moves::default(),
            moves: vec![Moves::default(); sizes],
            overruns: Overruns::default(),
            longest: 0.0,
            runs: RecentScores::default(),
            hours: BTreeMap::new(),
            told: 0,
            watched: HashMap::new(),
            crossings: BTreeSet::new(),
        }
    }

    /// The distribution of a job for which the model gave this spread.
    pub fn distribution(&self, about: &About, spread: Spread) -> Calibrated {
        let windows = [Some(&self.all), self.sizes.get(about.class.size_at()), self.classes.get(about.class.at())];
        let mut knots = spread.anchors();
        // Soon forgotten once there are enough scores: what is left of it after some hundred would make the intervals of a clean log far too wide.
        let told = self.told as f32;
        let unsure = UNSURE / (UNSURE + told) * (ENOUGH as f32 / told.max(ENOUGH as f32)).powi(2);
        for (at, (knot, nominal)) in knots.iter_mut().zip(LEVELS).enumerate() {
            // From all jobs to the class: each shift is pulled towards the wider one as if by thirty scores more.
            let mut shift = 0.0;
            for window in windows.into_iter().flatten() {
                let count = window.len() as f32;
                if count > 0.0 {
                    shift += count / (count + SHRINK) * (window.shift(at, nominal) - shift);
                }
            }
            let away = AWAY.get(at).copied().unwrap_or(0.0);
            *knot += shift + self.moved(about, away);
            // As far as it is not known whether the scores are of this kind of job, it is one of all jobs.
            let plain = self.runs.nearest_quantile(nominal).unwrap_or(f32::NAN);
            let outside = if away < 0.0 { (plain - *knot).min(0.0) } else { (plain - *knot).max(0.0) };
            *knot += unsure * (away * WIDER + if away == 0.0 || !outside.is_finite() { 0.0 } else { outside });
        }
        // A level that was moved takes its neighbours along; sorting would swap them instead.
        if let Some((middle, around)) = knots.get(MIDDLE).copied().zip(Some(&mut knots)) {
            let (below, rest) = around.split_at_mut(MIDDLE);
            let mut bound = middle;
            for knot in below.iter_mut().rev() {
                *knot = knot.min(bound);
                bound = *knot;
            }
            let mut bound = middle;
            for knot in rest.iter_mut() {
                *knot = knot.max(bound);
                bound = *knot;
            }
        }
        // No run is taken to be longer than twice the longest that was seen: levels move in steps, and could go anywhere.
        if self.longest > 0.0 {
            knots.iter_mut().for_each(|knot| *knot = knot.clamp(0.0, self.longest + BEYOND));
        }
        if let Some(log_limit) = about.log_limit {
            self.overruns.cap(about.user, log_limit as f32, &mut knots);
        }
        Calibrated { distribution: Distribution::new(knots), short: self.told < ENOUGH }
    }

    /// Move of a level at distance `away` from the middle: that of the levels of [`MOVED`],
    /// interpolated between them.
    fn moved(&self, about: &About, away: f32) -> f32 {
        let of_class = self.moves.get(about.class.size_at()).copied().unwrap_or_default();
        let at = |place: usize| {
            let of =
                |moves: &Moves| moves.said.get(place).zip(moves.now.get(place)).map_or(0.0, |(said, now)| said + now);
            of(&of_class) + of(&self.moves_all)
        };
        // Places in MOVED: 5, 10, 90 and 95 %.
        let (outer, inner) = if away < 0.0 { (0, 1) } else { (3, 2) };
        match away.abs() {
            far if far > 1.2 => at(outer),
            near => near * at(inner),
        }
    }

    /// Scale of the scores: half of what lies between a tenth and nine tenths of them.
    fn scale(&self) -> f32 {
        if self.all.len() < 5 {
            return 2.0;
        }
        (0.5 * (self.all.shift(MIDDLE, 0.9) - self.all.shift(MIDDLE, 0.1))).max(0.3)
    }

    /// Watches a submitted job, for which `distribution` is predicted: from now on its start, age
    /// and end teach.
    pub fn watch(&mut self, job: u64, about: About, spread: Spread, distribution: Distribution) {
        if spread.anchors().iter().all(|anchor| anchor.is_finite()) {
            let none = [false; MOVED.len()];
            let watched = Watched { about, spread, distribution, start_ms: None, told_said: none, told_now: none };
            self.watched.insert(job, watched);
        }
    }

    /// Records the start of a watched job.
    pub fn started(&mut self, job: u64, start_ms: i64) {
        let Some(watched) = self.watched.get_mut(&job).filter(|watched| watched.start_ms.is_none()) else { return };
        watched.start_ms = Some(start_ms);
        for (place, at) in (0u8..).zip(MOVED) {
            let y = LEVELS.get(at).map_or(f64::NAN, |level| watched.distribution.log_quantile(*level));
            self.crossings.insert((outlived_ms(start_ms, y), job, place));
        }
    }

    /// Time has come to `now_ms`: what the ages of running jobs tell is learned. A job that has outlived a quantile is above it, whatever its run will be;
    /// to wait for its end would let the short jobs speak first.
    pub fn advance(&mut self, now_ms: i64) {
        while let Some((time_ms, job, place)) = self.crossings.first().copied().filter(|first| first.0 <= now_ms) {
            self.crossings.pop_first();
            let at = usize::from(place);
            let Some(watched) = self.watched.get(&job).copied() else { continue };
            let (Some(start_ms), Some(nominal)) = (watched.start_ms, nominal(at)) else { continue };
            let told = |marks: &[bool; MOVED.len()]| marks.get(at).copied().unwrap_or(true);
            if !told(&watched.told_said) {
                self.longest = self.longest.max((((time_ms - start_ms).max(0) as f64 / 1000.0).max(1.0).ln()) as f32);
                self.teach(&watched.about, at, nominal, Judged::Said);
                if let Some(slot) = self.watched.get_mut(&job).and_then(|entry| entry.told_said.get_mut(at)) {
                    *slot = true;
                }
            }
            if !told(&watched.told_now) {
                let by_now = self.distribution(&watched.about, watched.spread).distribution.log_quantile(nominal);
                let later_ms = outlived_ms(start_ms, by_now);
                if later_ms > time_ms {
                    self.crossings.insert((later_ms, job, place));
                } else {
                    self.teach(&watched.about, at, nominal, Judged::Now);
                    if let Some(slot) = self.watched.get_mut(&job).and_then(|entry| entry.told_now.get_mut(at)) {
                        *slot = true;
                    }
                }
            }
        }
    }

    /// Moves a level up by `step` of the scale, for the job's size and for all.
    fn teach(&mut self, about: &About, at: usize, step: f64, judged: Judged) {
        let step = (self.rate * step) as f32 * self.scale();
        for moves in [Some(&mut self.moves_all), self.moves.get_mut(about.class.size_at())].into_iter().flatten() {
            let by_level = match judged {
                Judged::Said => &mut moves.said,
                Judged::Now => &mut moves.now,
            };
            if let Some(slot) = by_level.get_mut(at) {
                *slot += step;
            }
        }
    }

    /// Counts a job of this hour, and returns whether it is among the first [`OF_AN_HOUR`]; `of`
    /// selects the count.
    fn counts(&mut self, submit_ms: i64, of: fn(&mut (u8, u8)) -> &mut u8) -> bool {
        let hour = submit_ms.div_euclid(HOUR_MS);
        let count = of(self.hours.entry(hour).or_default());
        let counts = *count < OF_AN_HOUR;
        *count = count.saturating_add(1);
        if self.hours.len() > HOURS {
            self.hours.pop_first();
        }
        counts
    }

    /// A job ended: after a run of log length `y`, or without having run. One that is not watched tells how long jobs run, and no more.
    pub fn ended(&mut self, job: u64, submit_ms: i64, y: Option<f64>) {
        let watched = self.watched.remove(&job);
        let Some(y) = y else { return };
        self.longest = self.longest.max(y as f32);
        if self.counts(submit_ms, |of| &mut of.1) {
            self.runs.learn(y as f32, WINDOW);
        }
        let Some(watched) = watched else { return };
        if self.counts(submit_ms, |of| &mut of.0) {
            self.told = self.told.saturating_add(1);
        }
        let Watched { about, spread, distribution, told_said, told_now, .. } = watched;
        let anchors = spread.anchors();
        self.all.learn(&anchors, y as f32);
        if let Some(window) = self.sizes.get_mut(about.class.size_at()) {
            window.learn(&anchors, y as f32);
        }
        if let Some(window) = self.classes.get_mut(about.class.at()) {
            window.learn(&anchors, y as f32);
        }
        if let Some(log_limit) = about.log_limit {
            self.overruns.learn(about.user, (y - log_limit) as f32);
        }
        let by_now = self.distribution(&about, spread).distribution;
        for (at, (said, now)) in told_said.into_iter().zip(told_now).enumerate() {
            let Some(nominal) = nominal(at) else { continue };
            for (told, distribution, judged) in [(said, &distribution, Judged::Said), (now, &by_now, Judged::Now)] {
                if !told {
                    let below = f64::from(u8::from(y <= distribution.log_quantile(nominal)));
                    self.teach(&about, at, nominal - below, judged);
                }
            }
        }
    }
}

/// Distribution by which a job is said to be above or below a level.
#[derive(Debug, Clone, Copy)]
enum Judged {
    Said,
    Now,
}

/// Level of a place of [`MOVED`].
fn nominal(place: usize) -> Option<f64> {
    LEVELS.get(*MOVED.get(place)?).copied()
}

/// Time at which a job started at `start_ms` will have run for e^y seconds, milliseconds.
fn outlived_ms(start_ms: i64, y: f64) -> i64 {
    start_ms.saturating_add((y.min(30.0).exp() * 1000.0).ceil() as i64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { size: SizeClass::One, history: History::Many };

    const ABOUT: About = About { class: CLASS, user: None, log_limit: None };

    /// Tells of jobs one by one, each over before the next comes; gives the share within the 80 and the 90 % interval, from `from` on.
    fn told(
        calibrator: &mut Calibrator,
        jobs: u64,
        from: u64,
        spread: impl Fn(u64) -> Spread,
        y: impl Fn(u64) -> f64,
    ) -> (f64, f64) {
        let (mut in80, mut in90, mut all) = (0, 0, 0);
        for at in 0..jobs {
            let distribution = calibrator.distribution(&ABOUT, spread(at)).distribution;
            let within = |low: f64, high: f64| {
                distribution.log_quantile(low) <= y(at) && y(at) <= distribution.log_quantile(high)
            };
            if at >= from {
                all += 1;
                in80 += u32::from(within(0.1, 0.9));
                in90 += u32::from(within(0.05, 0.95));
            }
            calibrator.watch(at, ABOUT, spread(at), distribution);
            calibrator.ended(at, at as i64 * 900_000, Some(y(at)));
        }
        (f64::from(in80) / f64::from(all), f64::from(in90) / f64::from(all))
    }

    #[test]
    fn a_model_too_sure_of_itself_is_widened_to_what_comes() {
        let mut calibrator = Calibrator::new(0.0);
        let spread = |_| Spread::of(9.0, 10.0, 11.0);
        // Uniform on 7 to 13: the 90 % quantile is 12.4, the 5 % one 7.3.
        told(&mut calibrator, 3000, 0, spread, |at| (at * 7919 % 3000) as f64 / 500.0 + 7.0);
        let distribution = calibrator.distribution(&ABOUT, spread(0)).distribution;
        assert!(
            (distribution.log_quantile(0.9) - 12.4).abs() < 0.05
                && (distribution.log_quantile(0.05) - 7.3).abs() < 0.05
        );
        // Another size has no scores of its own and borrows all.
        let other = About { class: Class { size: SizeClass::Node, ..CLASS }, ..ABOUT };
        let distribution = calibrator.distribution(&other, spread(0)).distribution;
        assert!((distribution.log_quantile(0.9) - 12.4).abs() < 0.05);
    }

    #[test]
    fn a_drift_is_followed_so_that_coverage_holds() {
        let mut calibrator = Calibrator::default();
        // Noise of 2 either way whose spread doubles over the run.
        let noise = |at: u64| ((at * 7919 % 2003) as f64 / 1001.5 - 1.0) * (1.0 + at as f64 / 20_000.0);
        let (in80, in90) = told(&mut calibrator, 20_000, 2000, |_| Spread::of(9.0, 10.0, 11.0), |at| 10.0 + noise(at));
        assert!((in80 - 0.8).abs() < 0.015 && (in90 - 0.9).abs() < 0.015, "{in80} {in90}");
    }

    #[test]
    fn runs_that_become_ten_times_as_long_are_covered_again_soon() {
        let mut calibrator = Calibrator::default();
        let noise = |at: u64| (at * 7919 % 2003) as f64 / 1001.5 - 1.0;
        let y = |at: u64| 8.0 + noise(at) + if at >= 1000 { 10f64.ln() } else { 0.0 };
        // The model never learns of it. Five hundred jobs later the intervals hold.
        let (in80, in90) = told(&mut calibrator, 4000, 1500, |_| Spread::of(7.2, 8.0, 8.8), y);
        assert!((in80 - 0.8).abs() < 0.05 && (in90 - 0.9).abs() < 0.05, "{in80} {in90}");
    }

    #[test]
    fn with_little_seen_the_interval_is_wide_and_says_so() {
        let mut calibrator = Calibrator::default();
        let said = calibrator.distribution(&ABOUT, Spread::of(5.0, 6.0, 7.0));
        // A factor of e more on either side.
        assert!(
            said.short
                && (said.distribution.log_quantile(0.9) - 8.0).abs() < 1e-5
                && (said.distribution.log_quantile(0.1) - 4.0).abs() < 1e-5
        );
        told(&mut calibrator, 60, 0, |_| Spread::of(5.0, 6.0, 7.0), |at| 5.0 + (at % 20) as f64 / 10.0);
        assert!(!calibrator.distribution(&ABOUT, Spread::of(5.0, 6.0, 7.0)).short);
    }

    #[test]
    fn a_burst_tells_little_of_what_comes_after_it() {
        let mut calibrator = Calibrator::default();
        // Forty jobs, one an hour, of anything between e⁴ and e¹⁰; nothing was predicted of them. Then five hundred alike within a quarter of an hour.
        for job in 0..40u64 {
            calibrator.ended(job, job as i64 * 3_600_000, Some(4.0 + (job * 7 % 40) as f64 * 0.15));
        }
        let spread = Spread::of(4.9, 5.0, 5.1);
        for job in 100..600 {
            let distribution = calibrator.distribution(&ABOUT, spread).distribution;
            calibrator.watch(job, ABOUT, spread, distribution);
            calibrator.ended(job, 200 * 3_600_000, Some(5.0));
        }
        let said = calibrator.distribution(&ABOUT, spread);
        // 40 / (40 + 5) of the way to the 90 % quantile of the runs, some 9.4, and of e more.
        assert!(said.short && said.distribution.log_quantile(0.9) > 9.0, "{said:?}");
    }

    #[test]
    fn a_job_that_outlives_its_quantile_teaches_before_it_ends() {
        let mut calibrator = Calibrator::default();
        let spread = Spread::of(4.0, 5.0, 6.0);
        told(&mut calibrator, 500, 0, |_| spread, |at| 4.0 + (at * 7919 % 500) as f64 / 250.0);
        let before = calibrator.distribution(&ABOUT, spread).distribution;
        // A hundred jobs of one burst start and run on and on: none has ended.
        for job in 1000..1100 {
            calibrator.watch(job, ABOUT, spread, before);
            calibrator.started(job, 0);
        }
        calibrator.advance(60_000);
        let early = calibrator.distribution(&ABOUT, spread).distribution;
        calibrator.advance(40_000_000);
        let late = calibrator.distribution(&ABOUT, spread).distribution;
        assert!(late.log_quantile(0.9) > early.log_quantile(0.9).max(before.log_quantile(0.9)) + 0.2);
    }

    #[test]
    fn a_limit_caps_the_law_and_overruns_lift_the_cap() {
        let mut calibrator = Calibrator::new(0.0);
        let spread = Spread::of(4.0, 6.0, 9.0);
        let limited = About { user: Some(7), log_limit: Some(8.0), ..ABOUT };
        // A hundred jobs of which 15 overran their limit, all by a tenth.
        for job in 0..100u64 {
            let distribution = calibrator.distribution(&limited, spread).distribution;
            calibrator.watch(job, limited, spread, distribution);
            calibrator.ended(job, job as i64 * 900_000, Some(if job % 20 < 3 { 8.1 } else { 4.0 + job as f64 / 25.0 }));
        }
        let distribution = calibrator.distribution(&limited, spread).distribution;
        assert!((distribution.log_quantile(0.9) - 8.1).abs() < 1e-4, "{}", distribution.log_quantile(0.9));
        assert!(distribution.log_quantile(0.8) <= 8.0001);
        // Without a limit there is no cap.
        assert!(calibrator.distribution(&ABOUT, Spread::of(4.0, 6.0, 9.0)).distribution.log_quantile(0.9) < 9.0);
        let short = About { log_limit: Some(2.0), ..limited };
        assert!(calibrator.distribution(&short, spread).distribution.log_quantile(0.99) <= 2.1001);
    }
}
