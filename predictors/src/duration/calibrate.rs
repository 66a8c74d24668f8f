//! Intervals that hold: what quantiles a model gave is corrected by how far runs fell from them, by class of job, and as time goes on.
//!
//! A model gives three quantiles of the log run: low (10 %), middle, high (90 %). Between and beyond them lie **anchors** for all levels of a
//! law, as far apart as those of a normal law. The **score** of a job that ended is y − anchor, one a level, and the law of a new job has each
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

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use tracecast_analytics::describe::SizeClass;

use super::law::{LEVELS, Law};
use crate::feature::History;

/// Scores remembered a class.
const WINDOW: usize = 4000;
/// Scores a class needs to speak for itself.
const ENOUGH: usize = 200;
/// Distance of the levels of [`LEVELS`] from the middle in those of 10 and 90 %, of a normal law.
const AWAY: [f32; LEVELS.len()] =
    [-1.8153, -1.2835, -1.0, -0.6567, -0.4092, -0.1977, 0.0, 0.1977, 0.4092, 0.6567, 1.0, 1.2835, 1.8153];
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

    /// Log run at each of [`LEVELS`], before any correction.
    fn anchors(&self) -> [f32; LEVELS.len()] {
        AWAY.map(|away| self.middle + away * if away > 0.0 { self.high - self.middle } else { self.middle - self.low })
    }
}

/// What a job is calibrated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// By GPUs.
    pub size: SizeClass,
    /// By what is known of its like.
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

/// The last scores of some jobs at one level.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Scores {
    recent: VecDeque<f32>,
    sorted: Vec<f32>,
}

impl Scores {
    fn learn(&mut self, score: f32) {
        if self.recent.len() == WINDOW
            && let Some(oldest) = self.recent.pop_front()
        {
            let at = self.sorted.partition_point(|own| own.total_cmp(&oldest).is_lt());
            if at < self.sorted.len() {
                self.sorted.remove(at);
            }
        }
        self.recent.push_back(score);
        let at = self.sorted.partition_point(|own| own.total_cmp(&score).is_lt());
        self.sorted.insert(at, score);
    }

    /// The score of rank ⌈(n + 1) level⌉, as split-conformal prediction takes it.
    fn quantile(&self, level: f64) -> f32 {
        let rank = ((self.sorted.len() + 1) as f64 * level).ceil() as usize;
        let at = rank.saturating_sub(1).min(self.sorted.len().saturating_sub(1));
        self.sorted.get(at).copied().unwrap_or(f32::NAN)
    }
}

/// The last scores of some jobs, a level each; empty until the first.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Window(Vec<Scores>);

impl Window {
    fn learn(&mut self, anchors: &[f32], y: f32) {
        self.0.resize_with(LEVELS.len(), Scores::default);
        for (scores, anchor) in self.0.iter_mut().zip(anchors) {
            scores.learn(y - anchor);
        }
    }

    fn len(&self) -> usize {
        self.0.first().map_or(0, |scores| scores.sorted.len())
    }

    fn shift(&self, at: usize, level: f64) -> f32 {
        self.0.get(at).map_or(0.0, |scores| scores.quantile(level))
    }
}

/// How predictions are corrected.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Calibrator {
    /// With n jobs of a size in its window, one more moves a level by γ = rate / (n + 100): rare sizes catch up, common ones hardly move.
    rate: f64,
    all: Window,
    sizes: Vec<Window>,
    classes: Vec<Window>,
    /// By size: the levels read for [`MOVED`].
    levels: Vec<[f64; MOVED.len()]>,
}

impl Default for Calibrator {
    /// Rate 8, chosen on the first 80 % of Philly's jobs with a VC: of 2, 6, 8, 10, 15 and 25 the one whose coverage came nearest to nominal over all
    /// jobs and each size (at worst 1.0 points off, 1.4 at 6 and 10).
    fn default() -> Self {
        Self::new(8.0)
    }
}

impl Calibrator {
    /// A calibrator that has seen nothing, and moves levels by `rate`.
    pub fn new(rate: f64) -> Self {
        let sizes = SizeClass::ALL.len();
        let nominal = MOVED.map(|at| LEVELS.get(at).copied().unwrap_or(0.5));
        Self {
            rate,
            all: Window::default(),
            sizes: vec![Window::default(); sizes],
            classes: vec![Window::default(); sizes * History::ALL.len()],
            levels: vec![nominal; sizes],
        }
    }

    /// The law of a job of this class, for which the model gave this spread.
    pub fn law(&self, class: Class, spread: Spread) -> Law {
        let own = [self.classes.get(class.at()), self.sizes.get(class.size_at()), Some(&self.all)];
        let window = own.into_iter().flatten().find(|window| window.len() >= ENOUGH);
        let mut knots = spread.anchors();
        // With too little to correct by, the model is taken at its word.
        if let Some(window) = window {
            let moved = self.levels.get(class.size_at());
            for (at, (knot, nominal)) in knots.iter_mut().zip(LEVELS).enumerate() {
                let place = MOVED.iter().position(|own| *own == at);
                let level = place.and_then(|place| moved?.get(place).copied()).unwrap_or(nominal);
                *knot += window.shift(at, level);
            }
        }
        // A level that was moved takes its neighbours along; sorting would swap them instead.
        let [first, low, lower, inner @ .., upper, high, last] = &mut knots;
        *low = low.min(*lower);
        *first = first.min(*low);
        *high = high.max(*upper);
        *last = last.max(*high);
        if lower <= upper {
            inner.iter_mut().for_each(|knot| *knot = knot.clamp(*lower, *upper));
        }
        Law::of(knots)
    }

    /// A job of this class ended with log run `y`; the model had given this spread, and `law` had been predicted.
    pub fn learn(&mut self, class: Class, spread: Spread, law: &Law, y: f64) {
        let anchors = spread.anchors();
        if !anchors.iter().all(|anchor| anchor.is_finite()) {
            return;
        }
        self.all.learn(&anchors, y as f32);
        if let Some(window) = self.sizes.get_mut(class.size_at()) {
            window.learn(&anchors, y as f32);
        }
        if let Some(window) = self.classes.get_mut(class.at()) {
            window.learn(&anchors, y as f32);
        }
        let seen = self.sizes.get(class.size_at()).map_or(0, Window::len) as f64;
        let rate = self.rate / (seen + 100.0);
        if let Some(levels) = self.levels.get_mut(class.size_at()) {
            for (level, at) in levels.iter_mut().zip(MOVED) {
                let Some(nominal) = LEVELS.get(at) else { continue };
                let below = f64::from(u8::from(y <= law.log_quantile(*nominal)));
                *level = (*level + rate * (nominal - below)).clamp(0.001, 0.999);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: Class = Class { size: SizeClass::One, history: History::Many };

    #[test]
    fn a_model_too_sure_of_itself_is_widened_to_what_comes() {
        let mut calibrator = Calibrator::new(0.0);
        let spread = Spread::of(-1.0, 0.0, 1.0);
        // Uniform on −3 to 3: the 90 % quantile is 2.4, the 5 % one −2.7.
        for at in 0..3000u32 {
            let y = f64::from(at * 7919 % 3000) / 500.0 - 3.0;
            let law = calibrator.law(CLASS, spread);
            calibrator.learn(CLASS, spread, &law, y);
        }
        let law = calibrator.law(CLASS, spread);
        assert!((law.log_quantile(0.9) - 2.4).abs() < 0.02 && (law.log_quantile(0.05) + 2.7).abs() < 0.02);
        // Another size has no scores of its own and borrows all.
        let other = Class { size: SizeClass::Many, history: History::None };
        assert!((calibrator.law(other, spread).log_quantile(0.9) - 2.4).abs() < 0.02);
        // A job of which the model is surer is moved as far: 0.5 + 1.4.
        assert!((calibrator.law(CLASS, Spread::of(-0.5, 0.0, 0.5)).log_quantile(0.9) - 1.9).abs() < 0.02);
    }

    #[test]
    fn a_drift_is_followed_so_that_coverage_holds() {
        let mut calibrator = Calibrator::new(8.0);
        let spread = Spread::of(-1.0, 0.0, 1.0);
        let mut inside = 0;
        for at in 0..20_000u32 {
            // Noise in −1 to 1, whose spread doubles over the run.
            let noise = f64::from(at * 7919 % 2003) / 1001.5 - 1.0;
            let y = noise * (1.0 + f64::from(at) / 20_000.0);
            let law = calibrator.law(CLASS, spread);
            if at >= 2000 && law.log_quantile(0.05) <= y && y <= law.log_quantile(0.95) {
                inside += 1;
            }
            calibrator.learn(CLASS, spread, &law, y);
        }
        let coverage = f64::from(inside) / 18_000.0;
        assert!((coverage - 0.9).abs() < 0.01, "{coverage}");
    }

    #[test]
    fn with_nothing_seen_the_model_is_taken_at_its_word() {
        let law = Calibrator::default().law(CLASS, Spread::of(1.0, 2.0, 4.0));
        assert!((law.log_quantile(0.1) - 1.0).abs() < 1e-6 && (law.log_quantile(0.9) - 4.0).abs() < 1e-6);
    }
}
