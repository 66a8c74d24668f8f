//! The chance a tick that a spell ends, by its level, its age and what came before it; and which level follows.
//!
//! Ages are in octaves of ticks: 1, 2–3, 4–7, 8–15 and so on. With D ends in E ticks the chance is (D + c)/(E + c/λ): a Gamma prior of c ends at a chance λ.
//! Levels are drawn to one end in two hours. The first octave of a level is drawn to the chance of the level, and every other to that of the octave before it, so
//! that ages nobody has reached go on as the last that was reached. A memory multiplies all octaves by a factor drawn to 1, and each of its octaves is drawn to what that
//! gives. So sparse ages are neither 0 nor 1.
//!
//! Which level follows is counted by level, by the level before, and by whether the spell was short, and drawn to the counts of the level alone.
//!
//! O(ticks). Worked example: one level with 10 ends in 100 ticks, all of age 1, and priors of 2 ends at 0.05: the chance of the level is 12/140 = 0.0857; that of age 1 with
//! c = 4 is 14/(100 + 4/0.0857) = 0.0955; and that of ages 2–3, which nobody reached, is the same.

use serde::{Deserialize, Serialize};

use super::factor::shrunk;
use super::record::SpotLevel;
use super::track::{MEMORIES, Standing, entered, others};

/// Octaves of age.
pub(super) const OCTAVES: usize = 24;
/// Most that a chance a tick may be.
pub(super) const MOST_CHANCE: f64 = 0.9;
/// Mean length of a spell in the prior, milliseconds.
const PRIOR_MS: f64 = 7_200_000.0;
/// Ends of the prior of a level.
const LEVEL_ENDS: f64 = 2.0;
/// Ends of the prior of an octave.
const OCTAVE_ENDS: f64 = 4.0;
/// Ends of the prior of a memory.
const MEMORY_ENDS: f64 = 40.0;
/// Changes of the prior of where a spell leads.
const ONWARD_CHANGES: f64 = 10.0;

/// The octave of an age in ticks.
pub(super) fn octave(age: usize) -> usize {
    (age.max(1).ilog2() as usize).min(OCTAVES - 1)
}

/// The chance of `ends` in `ticks`, drawn to `prior` with `weight` ends.
fn gamma(ends: f64, ticks: f64, prior: f64, weight: f64) -> f64 {
    ((ends + weight) / (ticks + weight / prior.max(1e-12))).min(MOST_CHANCE)
}

/// The chances that spells end, and where they lead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Hazards {
    /// Level by level, memory by memory, octave by octave.
    chances: Vec<f64>,
    /// Chance that the higher of the two other levels follows: level by level, by the level before and by whether the spell was short.
    onward: Vec<f64>,
}

/// Ticks and ends.
#[derive(Debug, Clone, Copy, Default)]
struct Exposure {
    ticks: f64,
    ends: f64,
}

impl Exposure {
    fn sum<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        all.into_iter().fold(Self::default(), |sum, of| Self { ticks: sum.ticks + of.ticks, ends: sum.ends + of.ends })
    }
}

/// Pairs of ticks that follow each other, where both were read.
pub(super) fn pairs(track: &[Option<Standing>]) -> impl Iterator<Item = (&Standing, &Standing)> {
    track.windows(2).filter_map(|pair| match pair {
        [Some(was), Some(is)] => Some((was, is)),
        _ => None,
    })
}

impl Hazards {
    /// Fits hazards to the observed states of a zone. Without memory all memories are alike. `few`
    /// tells whether there is a level between nothing and enough.
    pub(super) fn fit(track: &[Option<Standing>], tick_ms: i64, short: usize, few: bool, memory: bool) -> Self {
        let mut seen = vec![[Exposure::default(); OCTAVES]; 3 * MEMORIES];
        let mut led = [[[[0.0; 2]; 2]; 2]; 3];
        for (was, is) in pairs(track) {
            let level = was.level as usize;
            let Some(cell) = seen.get_mut(level * MEMORIES + was.memory) else { continue };
            let cell = &mut cell[octave(was.age)];
            cell.ticks += 1.0;
            if is.level != was.level {
                cell.ends += 1.0;
                let to = usize::from(others(was.level)[1] == is.level);
                led[level][entered(was.memory)][usize::from(was.age <= short)][to] += 1.0;
            }
        }
        let prior = (tick_ms as f64 / PRIOR_MS).min(0.5);
        let (mut chances, mut onward) = (Vec::new(), Vec::new());
        for (level, memories) in seen.chunks(MEMORIES).enumerate() {
            let all = Exposure::sum(memories.iter().flatten());
            let mut before = gamma(all.ends, all.ticks, prior, LEVEL_ENDS);
            let by_age: [f64; OCTAVES] = std::array::from_fn(|octave| {
                let at = Exposure::sum(memories.iter().filter_map(|ages| ages.get(octave)));
                before = gamma(at.ends, at.ticks, before, OCTAVE_ENDS);
                before
            });
            for ages in memories {
                let ends = Exposure::sum(ages).ends;
                let expected: f64 = ages.iter().zip(&by_age).map(|(at, chance)| at.ticks * chance).sum();
                let times = shrunk(ends, expected, MEMORY_ENDS);
                chances.extend(ages.iter().zip(&by_age).map(|(at, chance)| {
                    if memory {
                        gamma(at.ends, at.ticks, (chance * times).min(MOST_CHANCE), MEMORY_ENDS)
                    } else {
                        *chance
                    }
                }));
            }
            let sums = led[level].iter().flatten().fold([0.0; 2], |sum, to| [sum[0] + to[0], sum[1] + to[1]]);
            let share = (sums[1] + 1.0) / (sums[0] + sums[1] + 2.0);
            for [low, high] in led[level].iter().flatten() {
                onward.push(if few {
                    (high + ONWARD_CHANGES * share) / (low + high + ONWARD_CHANGES)
                } else {
                    // Of nothing and enough each leads to the other.
                    f64::from(u8::from(level == SpotLevel::Nothing as usize))
                });
            }
        }
        Self { chances, onward }
    }

    /// The chance that a spell ends in an octave of age.
    pub(super) fn ends(&self, level: SpotLevel, memory: usize, octave: usize) -> f64 {
        self.chances.get((level as usize * MEMORIES + memory) * OCTAVES + octave).copied().unwrap_or(0.0)
    }

    /// The chance that the higher of the two other levels follows.
    pub(super) fn higher(&self, level: SpotLevel, memory: usize, short: bool) -> f64 {
        self.onward.get((level as usize * 2 + entered(memory)) * 2 + usize::from(short)).copied().unwrap_or(0.5)
    }

    /// Whether it has all its numbers, and each is a chance.
    pub(super) fn is_sound(&self) -> bool {
        self.chances.len() == 3 * MEMORIES * OCTAVES
            && self.onward.len() == 12
            && self.chances.iter().chain(&self.onward).all(|chance| (0.0..=1.0).contains(chance))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::super::track::track;
    use super::*;

    #[test]
    fn the_worked_example() {
        let level = gamma(10.0, 100.0, 0.05, LEVEL_ENDS);
        assert!((level - 12.0 / 140.0).abs() < 1e-12);
        let first = gamma(10.0, 100.0, level, OCTAVE_ENDS);
        assert!((first - 14.0 / (100.0 + 4.0 * 140.0 / 12.0)).abs() < 1e-12);
        assert!((gamma(0.0, 0.0, first, OCTAVE_ENDS) - first).abs() < 1e-12);
        assert_eq!([1, 2, 3, 4, 7, 8].map(octave), [0, 1, 1, 2, 2, 3]);
    }

    /// Spells of three ticks: a tick of age 1 never ends one, and of those of ages 2 and 3 half do, less what the prior takes.
    #[test]
    fn ages_are_told_apart() {
        let counts: Vec<u32> = (0..3000).map(|tick| u32::from(tick / 3 % 2 == 0)).collect();
        let hour = 3_600_000;
        let result = Hazards::fit(&track(&[record(&counts, hour)], 0, 1, false), hour, 1, false, false);
        let of = |octave: usize| result.ends(SpotLevel::Enough, 0, octave);
        assert!(of(0) < 0.01 && (0.3..0.5).contains(&of(1)), "{} {}", of(0), of(1));
        assert!((of(2) - of(1)).abs() < 1e-12 && result.is_sound());
        assert!((result.higher(SpotLevel::Nothing, 4, false) - 1.0).abs() < 1e-12);
        assert!(result.higher(SpotLevel::Enough, 0, false) < 1e-12);
    }
}
