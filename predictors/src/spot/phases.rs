//! When spot can be had and when not, as a hidden Markov chain of phases: what the programmes of `plan rent job` decide with, and a model beside the
//! others in a back-test.
//!
//! Runs and outages come short and long, and what came before tells which. So being *up* is one of a few phases and being *down* one of a few others,
//! and each tick the phase changes with fixed chances; only up or down is seen. With one phase each it is the two-state Markov chain. With two
//! each, runs and outages last as mixtures of two geometric distributions, so that the chance to be lost falls with the **age** of a run, a short
//! outage may well follow a short run, and all of it is in the **belief**, the chances of the phases given what was seen: a semi-Markov process with
//! a memory.
//!
//! **Fit.** Baum and Welch's iteration (`ROUNDS` of them), from the past of the trace alone. To the expected counts of each phase a prior adds
//! `PRIOR_RUNS` departures of a run of the prior's mean length: 0.4 h for short phases, 4 h for long ones, 2 h where there is one of a kind; to
//! each of the other kind equally, and in 2 % to the other of its own kind. A start at the first tick is decided with the prior alone. The belief
//! begins with the shares of time of the chain, and each tick is b′(j) ∝ Σ b(i)·P(i, j) over the phases j of what is seen.
//!
//! **Hours of the day** ([`Phases::with_hours`]). Spot that was up at an hour is likelier up a day later than half a day later. So each hour multiplies the
//! chances to come up and to go down by (seen + c)/(expected + c), as [`daily`] has it: changes seen and expected in the
//! hours around it, and a prior of c changes. Hours count from the first tick of the trace, so no date is needed. Without a past all are 1. The belief is
//! updated without them.
//!
//! **Not every tick need be seen** ([`Sighting`]). A tick that nobody saw may be in any phase: the belief follows the chances alone and decays to the shares of time, and the fit sums over what may have been. A
//! change between two sightings up to an hour apart counts in the hour of the later, against the chance of it over the ticks between; of longer gaps the hour is not known.
//!
//! O(rounds × ticks × phases²). Worked example: one phase each, a past of ten ticks of an hour, down for five and then up for five. One departure from
//! down in four stays and one change, none from up in four stays. The prior adds, for each kind, `PRIOR_RUNS` = 20 departures in 20·2 = 40 ticks. So
//! P(down → up) = 21/45 and P(up → down) = 20/44.

use tracecast_analytics::time::{DAY_MS, HOUR_MS};

use super::factor::{HOURS, daily};
use super::process::Outlook;

/// Most phases of a kind.
pub const MOST: usize = 2;
/// Rounds of the fit.
const ROUNDS: usize = 40;
/// Runs of the prior.
const PRIOR_RUNS: f64 = 20.0;
/// Mean length of a phase in the prior, milliseconds: short and long.
const PRIOR_MS: [f64; MOST] = [1_440_000.0, 14_400_000.0];
/// Mean length of the only phase of its kind in the prior, milliseconds.
const PRIOR_ONE_MS: f64 = 7_200_000.0;
/// Share of departures to the other phases of the same kind in the prior.
const PRIOR_WITHIN: f64 = 0.02;

/// What is seen of a tick.
pub trait Sighting: Copy {
    /// Whether spot could be had; nothing where nobody looked.
    fn seen(self) -> Option<bool>;
}

impl Sighting for bool {
    fn seen(self) -> Option<bool> {
        Some(self)
    }
}

impl Sighting for Option<bool> {
    fn seen(self) -> Option<bool> {
        self
    }
}

/// A square matrix of chances.
pub type PhaseMatrix = Vec<Vec<f64>>;

/// Phases of availability and how they follow one another, tick by tick.
#[derive(Debug, Clone, PartialEq)]
pub struct Phases {
    /// Phases of each kind, down and up: those of down come first, short before long.
    each: usize,
    chances: PhaseMatrix,
    /// By how much each hour of the day, counted from the first tick, multiplies the chances to come up and to go down.
    daily: [[f64; HOURS]; 2],
    tick_ms: i64,
}

/// Chances of the phases, given what was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Belief(pub Vec<f64>);

/// Runs of spot of a kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Share of all runs.
    pub share: f64,
    /// Chance a tick to end.
    pub ends: f64,
}

/// Whether a past was seen tick by tick: with one phase of a kind all is known of it then.
fn is_all_seen<S: Sighting>(past: &[S]) -> bool {
    past.iter().all(|sighting| sighting.seen().is_some())
}

fn square(phases: usize) -> PhaseMatrix {
    vec![vec![0.0; phases]; phases]
}

/// The product of two.
pub fn times(a: &PhaseMatrix, b: &PhaseMatrix) -> PhaseMatrix {
    let mut product = square(a.len());
    for (row, from) in product.iter_mut().zip(a) {
        for (chance, to) in from.iter().zip(b) {
            row.iter_mut().zip(to).for_each(|(sum, onward)| *sum += chance * onward);
        }
    }
    product
}

impl Phases {
    /// The prior, with `each` phases (one or [`MOST`]) of each kind.
    pub fn prior(each: usize, tick_ms: i64) -> Self {
        let each = if each <= 1 { 1 } else { MOST };
        let phases = 2 * each;
        let mut chances = square(phases);
        for (from, row) in chances.iter_mut().enumerate() {
            let mean_ms = if each == 1 { PRIOR_ONE_MS } else { PRIOR_MS[from % each] };
            let leaves = (tick_ms as f64 / mean_ms).min(0.5);
            let within = if each == 1 { 0.0 } else { PRIOR_WITHIN };
            let others = each.saturating_sub(1).max(1) as f64;
            for (to, chance) in row.iter_mut().enumerate() {
                *chance = match (from == to, from / each == to / each) {
                    (true, _) => 1.0 - leaves,
                    (false, true) => leaves * within / others,
                    (false, false) => leaves * (1.0 - within) / each as f64,
                };
            }
        }
        Self { each, chances, daily: [[1.0; HOURS]; 2], tick_ms }
    }

    /// A future that is certain: from each phase the one that follows it, those of down before those of up.
    pub fn certain(next: &[usize], tick_ms: i64) -> Self {
        let row = |to: usize| (0..next.len()).map(|phase| f64::from(u8::from(phase == to))).collect();
        Self {
            each: next.len() / 2,
            chances: next.iter().map(|to| row(*to)).collect(),
            daily: [[1.0; HOURS]; 2],
            tick_ms,
        }
    }

    /// Spot that comes with a chance in each tick without, and then stays.
    pub fn arriving(chance: f64, tick_ms: i64) -> Self {
        Self { each: 1, chances: vec![vec![1.0 - chance, chance], vec![0.0, 1.0]], daily: [[1.0; HOURS]; 2], tick_ms }
    }

    /// Fitted on what was seen tick by tick, beside the prior.
    pub fn fit<S: Sighting>(past: &[S], each: usize, tick_ms: i64) -> Self {
        let prior = Self::prior(each, tick_ms);
        let rounds = if prior.each == 1 && is_all_seen(past) { 1 } else { ROUNDS };
        prior.clone().refit(past, &prior, rounds)
    }

    /// With the hours of the day, which begin at the first tick of `past`.
    #[must_use]
    pub fn with_hours<S: Sighting>(mut self, past: &[S]) -> Self {
        self.daily = [[1.0; HOURS]; 2];
        let (mut seen, mut expected) = ([[0.0; HOURS]; 2], [[0.0; HOURS]; 2]);
        let mut belief = self.start();
        // The sighting before, and its tick.
        let mut before: Option<(bool, usize)> = None;
        for (tick, sighting) in past.iter().enumerate() {
            if let Some(is) = sighting.seen() {
                if let Some((was, since)) = before
                    && (tick - since == 1 || (tick - since) as i64 * self.tick_ms <= HOUR_MS)
                {
                    let leaves: f64 = (0..self.count())
                        .map(|from| self.of(!was).map(|to| belief.0[from] * self.chances[from][to]).sum::<f64>())
                        .sum();
                    let (kind, hour) = (usize::from(was), self.hour(tick as i64 * self.tick_ms));
                    seen[kind][hour] += f64::from(u8::from(was != is));
                    expected[kind][hour] += leaves;
                }
                before = Some((is, tick));
            }
            self.see(&mut belief, *sighting);
        }
        for (kind, factors) in self.daily.iter_mut().enumerate() {
            *factors = daily(&seen[kind], &expected[kind]);
        }
        self
    }

    /// The hour of the day at a moment after the first tick.
    pub fn hour(&self, at_ms: i64) -> usize {
        usize::try_from(at_ms.rem_euclid(DAY_MS) / (DAY_MS / HOURS as i64)).unwrap_or(0).min(HOURS - 1)
    }

    /// Chances of a tick in an hour of the day.
    fn chances_in(&self, hour: usize) -> PhaseMatrix {
        let mut chances = self.chances.clone();
        for (from, row) in chances.iter_mut().enumerate() {
            let kind = from / self.each;
            let leaves: f64 =
                row.iter().enumerate().filter(|(to, _)| to / self.each != kind).map(|(_, chance)| chance).sum();
            let times = self.daily[kind.min(1)][hour].min(0.9 / leaves.max(f64::MIN_POSITIVE));
            for (to, chance) in row.iter_mut().enumerate() {
                if to / self.each == kind {
                    *chance *= (1.0 - times * leaves) / (1.0 - leaves).max(f64::MIN_POSITIVE);
                } else {
                    *chance *= times;
                }
            }
        }
        chances
    }

    /// Fitted again from here, on more that was seen.
    pub fn again<S: Sighting>(&self, past: &[S]) -> Self {
        let rounds = if self.each == 1 && is_all_seen(past) { 1 } else { ROUNDS / 3 };
        self.clone().refit(past, &Self::prior(self.each, self.tick_ms), rounds)
    }

    fn refit<S: Sighting>(mut self, past: &[S], prior: &Self, rounds: usize) -> Self {
        let mut scratch = Scratch::default();
        for _ in 0..rounds {
            let mut counts = self.counts(past, &mut scratch);
            for (from, (row, expected)) in counts.iter_mut().zip(&prior.chances).enumerate() {
                let leaves = 1.0 - expected.get(from).copied().unwrap_or(0.0);
                row.iter_mut().zip(expected).for_each(|(count, chance)| *count += PRIOR_RUNS * chance / leaves);
                let all: f64 = row.iter().sum();
                row.iter_mut().for_each(|count| *count /= all);
            }
            self.chances = counts;
        }
        self
    }

    /// Number of phases.
    pub fn count(&self) -> usize {
        self.chances.len()
    }

    /// Phases of each kind.
    pub fn each(&self) -> usize {
        self.each
    }

    /// The phases that show as `up` or down.
    pub fn of(&self, up: bool) -> std::ops::Range<usize> {
        if up { self.each..2 * self.each } else { 0..self.each }
    }

    /// The phases that may be where so much is seen.
    fn within(&self, sighting: impl Sighting) -> std::ops::Range<usize> {
        sighting.seen().map_or(0..2 * self.each, |up| self.of(up))
    }

    /// Expected changes between phases over what was seen.
    fn counts<S: Sighting>(&self, seen: &[S], scratch: &mut Scratch) -> PhaseMatrix {
        let phases = self.count();
        let mut counts = square(phases);
        let Some(first) = seen.first() else { return counts };
        let Scratch { forward, backward, onward } = scratch;
        // Chances of the phases up to each tick, scaled.
        forward.clear();
        forward.resize(seen.len() * phases, 0.0);
        let begins = self.within(*first);
        for phase in begins.clone() {
            forward[phase] = 1.0 / begins.len() as f64;
        }
        for (tick, sighting) in seen.iter().enumerate().skip(1) {
            let (before, now) = forward.split_at_mut(tick * phases);
            let before = &before[(tick - 1) * phases..];
            let mut sum = 0.0;
            for to in self.within(*sighting) {
                let value: f64 = before.iter().zip(&self.chances).map(|(chance, row)| chance * row[to]).sum();
                now[to] = value;
                sum += value;
            }
            now[..phases].iter_mut().for_each(|value| *value /= sum.max(f64::MIN_POSITIVE));
        }
        // Chances of what came after, scaled, from the end.
        backward.clear();
        backward.resize(phases, 1.0);
        for (tick, pair) in seen.windows(2).enumerate().rev() {
            let &[was, is] = pair else { continue };
            let before = &forward[tick * phases..(tick + 1) * phases];
            onward.clear();
            onward.resize(phases, 0.0);
            let mut sum = 0.0;
            for from in self.within(was) {
                let row = &self.chances[from];
                onward[from] = self.within(is).map(|to| row[to] * backward[to]).sum();
                sum += before[from] * onward[from];
            }
            if sum > 0.0 {
                for from in self.within(was) {
                    for to in self.within(is) {
                        counts[from][to] += before[from] * self.chances[from][to] * backward[to] / sum;
                    }
                }
            }
            let scale: f64 = onward.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            backward.iter_mut().zip(onward.iter()).for_each(|(value, next)| *value = next / scale);
        }
        counts
    }

    /// The belief before anything is seen: the shares of time of the phases.
    pub fn start(&self) -> Belief {
        let mut power = self.chances.clone();
        for _ in 0..32 {
            power = times(&power, &power);
            for row in &mut power {
                let all: f64 = row.iter().sum();
                row.iter_mut().for_each(|chance| *chance /= all);
            }
        }
        Belief(power.into_iter().next().unwrap_or_default())
    }

    /// The share of time that is up, and the chances a tick that what is up goes down and that what is down comes up.
    pub fn shares(&self) -> (f64, f64, f64) {
        let shares = self.start().0;
        let of = |up: bool| -> (f64, f64) {
            let share: f64 = self.of(up).map(|phase| shares[phase]).sum();
            let leaves: f64 =
                self.of(up).map(|from| shares[from] * self.of(!up).map(|to| self.chances[from][to]).sum::<f64>()).sum();
            (share, leaves / share.max(f64::MIN_POSITIVE))
        };
        let (up, goes) = of(true);
        (up, goes, of(false).1)
    }

    /// The runs of spot by their kind, the shortest first: the share of them that begin in each phase of up, and its chance a tick to end. With one phase of a kind
    /// all runs are of the first.
    pub fn runs(&self) -> [Run; MOST] {
        let shares = self.start().0;
        let mut runs = [Run { share: 0.0, ends: 1.0 }; MOST];
        for (run, phase) in runs.iter_mut().zip(self.of(true)) {
            run.share = self.of(false).map(|from| shares[from] * self.chances[from][phase]).sum();
            run.ends = self.of(false).map(|to| self.chances[phase][to]).sum();
        }
        let all: f64 = runs.iter().map(|run| run.share).sum();
        runs.iter_mut().for_each(|run| run.share /= all.max(f64::MIN_POSITIVE));
        if self.each == MOST {
            runs.sort_by(|a, b| b.ends.total_cmp(&a.ends));
        }
        runs
    }

    /// The belief after `past`.
    pub fn after<S: Sighting>(&self, past: &[S]) -> Belief {
        let mut belief = self.start();
        past.iter().for_each(|sighting| self.see(&mut belief, *sighting));
        belief
    }

    /// Takes what is seen in the next tick into a belief. The hour of the day says when a change is likely, not from which phase, so it has no part here.
    pub fn see(&self, belief: &mut Belief, sighting: impl Sighting) {
        let mut next = vec![0.0; self.count()];
        for to in self.within(sighting) {
            next[to] = belief.0.iter().zip(&self.chances).map(|(chance, row)| chance * row[to]).sum();
        }
        belief.0 = next;
        self.is_within(belief, sighting);
    }

    /// Takes into a belief what was seen of its own tick, after all.
    pub fn show(&self, belief: &mut Belief, up: bool) {
        for phase in self.of(!up) {
            belief.0[phase] = 0.0;
        }
        self.is_within(belief, up);
    }

    /// Makes a belief sum to 1.
    fn is_within(&self, belief: &mut Belief, sighting: impl Sighting) {
        let phases = self.within(sighting);
        let mut all = 0.0;
        phases.clone().for_each(|phase| all += belief.0[phase]);
        for phase in phases.clone() {
            // What could not be is taken for as likely as anything.
            belief.0[phase] = if all > 0.0 { belief.0[phase] / all } else { 1.0 / phases.len() as f64 };
        }
    }

    /// Chances of the phases after `step_ms` in an hour of the day, and of them without spot having been lost between: for both, row by row of the phase
    /// before.
    pub fn over(&self, step_ms: f64, hour: usize) -> (PhaseMatrix, PhaseMatrix) {
        let ticks = step_ms / self.tick_ms as f64;
        let phases = self.count();
        let kept = |from: usize, to: usize| from >= self.each && to >= self.each;
        let chances = self.chances_in(hour);
        let mut stays = chances.clone();
        for (from, row) in stays.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(to, chance)| *chance *= f64::from(u8::from(kept(from, to))));
        }
        let unit = |within: bool| -> PhaseMatrix {
            let one = |from: usize, to: usize| f64::from(u8::from(from == to && (!within || kept(from, to))));
            (0..phases).map(|from| (0..phases).map(|to| one(from, to)).collect()).collect()
        };
        let power = |matrix: &PhaseMatrix, within: bool| {
            let mut product = unit(within);
            for _ in 0..ticks.floor() as usize {
                product = times(&product, matrix);
            }
            // A part of a tick changes by that part of what a tick changes.
            let part = ticks.fract();
            let mut rest = unit(within);
            for (row, whole) in rest.iter_mut().zip(matrix) {
                row.iter_mut().zip(whole).for_each(|(chance, to)| *chance += part * (to - *chance));
            }
            times(&product, &rest)
        };
        (power(&chances, false), power(&stays, true))
    }

    /// The chances of enough spot so many ticks ahead, in order, of a belief at a moment after the first tick. O(ticks · phases²).
    pub fn forecast(&self, belief: &Belief, at_ms: i64, ahead: &[usize]) -> Vec<Outlook> {
        let by_hour: Vec<PhaseMatrix> = (0..HOURS).map(|hour| self.chances_in(hour)).collect();
        let onward = |from: &[f64], by: &PhaseMatrix, within: std::ops::Range<usize>| {
            let mut next = vec![0.0; from.len()];
            for to in within {
                next[to] = from.iter().zip(by).map(|(chance, row)| chance * row[to]).sum();
            }
            next
        };
        let up = |chances: &[f64]| self.of(true).map(|phase| chances[phase]).sum::<f64>();
        let (mut any, mut kept) = (belief.0.clone(), belief.0.clone());
        self.of(false).for_each(|phase| kept[phase] = 0.0);
        let mut tick = 0;
        let mut result = Vec::with_capacity(ahead.len());
        for ticks in ahead {
            while tick < *ticks {
                tick += 1;
                let by = &by_hour[self.hour(at_ms + tick as i64 * self.tick_ms)];
                any = onward(&any, by, 0..self.count());
                kept = onward(&kept, by, self.of(true));
            }
            result.push(Outlook { at: up(&any).clamp(0.0, 1.0), through: up(&kept).clamp(0.0, 1.0) });
        }
        result
    }
}

/// Memory of a fit that is used again.
#[derive(Debug, Default)]
struct Scratch {
    forward: Vec<f64>,
    backward: Vec<f64>,
    onward: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn the_worked_example() {
        let past = [[false; 5], [true; 5]].concat();
        let phases = Phases::fit(&past, 1, HOUR);
        assert!((phases.chances[0][1] - 21.0 / 45.0).abs() < 1e-12, "{:?}", phases.chances);
        assert!((phases.chances[1][0] - 20.0 / 44.0).abs() < 1e-12);
        let Belief(shares) = phases.start();
        assert!((shares[1] - (21.0 / 45.0) / (21.0 / 45.0 + 20.0 / 44.0)).abs() < 1e-9);
        assert_eq!(phases.after(&past).0, [0.0, 1.0]);
    }

    /// By hand: a chain that goes down with 0.1 and comes up with 0.3 is up with 0.75 + 0.25·0.6^n, n ticks after it was, and through with 0.9^n.
    #[test]
    fn chances_ahead_by_hand() {
        let phases =
            Phases { each: 1, chances: vec![vec![0.7, 0.3], vec![0.1, 0.9]], daily: [[1.0; HOURS]; 2], tick_ms: HOUR };
        for (ahead, outlook) in [1usize, 2, 30].iter().zip(phases.forecast(&Belief(vec![0.0, 1.0]), 0, &[1, 2, 30])) {
            let ticks = *ahead as i32;
            assert!((outlook.at - (0.75 + 0.25 * 0.6f64.powi(ticks))).abs() < 1e-12, "{ticks}: {outlook:?}");
            assert!((outlook.through - 0.9f64.powi(ticks)).abs() < 1e-12, "{ticks}: {outlook:?}");
        }
    }

    /// Long runs of 100 ticks and short ones of 2, in turn, ticks of five minutes.
    fn long_and_short() -> Vec<bool> {
        let run = |(up, ticks): (bool, usize)| std::iter::repeat_n(up, ticks);
        let turn = [(true, 100), (false, 20), (true, 2), (false, 20)];
        std::iter::repeat_n(turn, 30).flatten().flat_map(run).collect()
    }

    /// Half of the runs are short, though they are a fiftieth of the time that spot is up. With one phase of a kind there is one kind of run.
    #[test]
    fn runs_are_counted_as_they_begin() {
        let [short, long] = Phases::fit(&long_and_short(), MOST, 300_000).runs();
        assert!((short.share - 0.5).abs() < 0.1 && (short.share + long.share - 1.0).abs() < 1e-9, "{short:?} {long:?}");
        assert!((0.2..0.6).contains(&short.ends) && (0.008..0.02).contains(&long.ends), "{short:?} {long:?}");
        let one = Phases::fit(&[[false; 5], [true; 5]].concat(), 1, HOUR).runs();
        assert!(one[0].share == 1.0 && (one[0].ends - 20.0 / 44.0).abs() < 1e-12 && one[1].share == 0.0, "{one:?}");
    }

    /// What is seen at every tick is the same, however it is told.
    #[test]
    fn ticks_that_are_all_seen_are_a_past() {
        let past = long_and_short();
        let told: Vec<Option<bool>> = past.iter().map(|up| Some(*up)).collect();
        let fitted = Phases::fit(&past, MOST, 300_000).with_hours(&past);
        assert_eq!(fitted, Phases::fit(&told, MOST, 300_000).with_hours(&told));
        assert_eq!(fitted.again(&past), fitted.again(&told));
        assert_eq!(fitted.after(&past), fitted.after(&told));
    }

    /// By hand: after a run is seen, and then nothing, a chain that goes down with 0.1 and comes up with 0.3 is up with 0.75 + 0.25·0.6^n after n ticks. What is seen late of a tick leaves out what it was not.
    #[test]
    fn a_belief_that_sees_nothing_decays_to_the_shares_of_time() {
        let chances = vec![vec![0.7, 0.3], vec![0.1, 0.9]];
        let phases = Phases { each: 1, chances, daily: [[1.0; HOURS]; 2], tick_ms: HOUR };
        let mut belief = phases.after(&[true]);
        for ticks in 1..30 {
            phases.see(&mut belief, None);
            assert!((belief.0[1] - (0.75 + 0.25 * 0.6f64.powi(ticks))).abs() < 1e-12, "{ticks}: {belief:?}");
        }
        phases.show(&mut belief, false);
        assert_eq!(belief.0, [1.0, 0.0]);
    }

    /// Seen at every third tick alone, a chain is fitted to about the chances that it has where all of it is seen.
    #[test]
    fn what_is_seen_now_and_then_is_fitted() {
        // Runs of 40 ticks and outages of 20, with some of each half as long.
        let turn = [(true, 40), (false, 20), (true, 20), (false, 10)];
        let run = |(up, ticks): (bool, usize)| std::iter::repeat_n(up, ticks);
        let all: Vec<bool> = std::iter::repeat_n(turn, 40).flatten().flat_map(run).collect();
        let some: Vec<Option<bool>> =
            all.iter().enumerate().map(|(tick, up)| tick.is_multiple_of(3).then_some(*up)).collect();
        let [full, thin] = [Phases::fit(&all, 1, 300_000), Phases::fit(&some, 1, 300_000)];
        let [(up, goes, comes), (thin_up, thin_goes, thin_comes)] = [full.shares(), thin.shares()];
        assert!((up - thin_up).abs() < 0.05, "{up} {thin_up}");
        assert!((thin_goes / goes - 1.0).abs() < 0.35 && (thin_comes / comes - 1.0).abs() < 0.35, "{full:?} {thin:?}");
    }

    #[test]
    fn an_old_run_is_a_long_one() {
        let past = long_and_short();
        let phases = Phases::fit(&past, MOST, 300_000);
        let lost = |age: usize| {
            let mut belief = phases.after(&past);
            (0..age).for_each(|_| phases.see(&mut belief, true));
            let (all, kept) = phases.over(900_000.0, 0);
            let sum = |matrix: &PhaseMatrix| -> f64 {
                belief.0.iter().zip(matrix).map(|(chance, row)| chance * row.iter().sum::<f64>()).sum()
            };
            sum(&all) - sum(&kept)
        };
        assert!(lost(1) > 0.3 && lost(30) < 0.05, "{} {}", lost(1), lost(30));
        // The same data in another tick give the same chances of a quarter of an hour.
        let (all, _) = phases.over(900_000.0, 0);
        assert!(all.iter().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-9));
    }
}
