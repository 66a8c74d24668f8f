//! Families of policies: every setting of one kind of rule, what each would have meant, and which of them the past would have picked.
//!
//! All settings of a family are scored on the last third of the days before the evaluation, its
//! parts being fitted on the first two thirds; how one of them is chosen there, and one of the
//! families, is [`choice`](crate::power::study::choice)'s. Those that no other setting of the
//! family clearly beats there in sleep, service and wakes at once are **kept** (clearly: by more
//! than a quarter of a node in 400, less than some weeks can tell). What is kept is then scored on
//! the evaluated days, with everything fitted anew on all days before. A **curve** is the upper
//! edge of what was kept, as it turned out: like any curve it is read with hindsight of where on it
//! one stands, while the chosen point is not.
//!
//! Worked example: of settings that slept (4, unserved 0), (5, unserved 0) and (6, unserved 2) with equal wakes, the first is beaten by the second;
//! the curve has two points.

use std::ops::Range;

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ces::Thresholds;
use super::trailing::trailing_maximum;
use super::{Forecast, LINGER, Past, Rule, Setting, Switches};
use crate::power::score::{NodeDemand, SleepOutcome, Sums};
use tracecast_predictors::demand::reach::{CHANCES, Readings, place};

/// A kind of rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Nothing sleeps.
    AlwaysOn,
    /// What nobody needed for so long sleeps.
    Timeout,
    /// The trailing maximum and a buffer.
    TrailingMaximum,
    /// The quantile of what the next slot asks for.
    Newsvendor,
    /// Lazy capacity provisioning.
    LazyProvisioning,
    /// CES with a forecast that knows what comes.
    #[serde(rename = "ces_perfect_forecast")]
    CesPerfect,
    /// CES with the forecasts of the published code, which leak.
    #[serde(rename = "ces_as_published")]
    CesPublished,
    /// CES with the last value as forecast.
    CesPersistence,
    /// CES with yesterday as forecast.
    #[serde(rename = "ces_yesterday")]
    CesSeasonal,
    /// The timeout node by node that `slurm.conf` can hold.
    SlurmConf,
    /// Levels kept for as long as their return is likely.
    Reach,
}

/// Largest buffers, in nodes: every one up to 30, then some.
fn buffers(most: f64) -> Vec<u32> {
    let far = [35, 40, 50, 60, 80, 100];
    (0..=30).chain(far).filter(|buffer| f64::from(*buffer) <= most / 3.0).collect()
}

const TRAILING: [usize; 16] = [1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24, 30, 36, 48, 60, 72];

impl Family {
    /// All of them, plainest first.
    pub const ALL: [Self; 11] = [
        Self::AlwaysOn,
        Self::Timeout,
        Self::TrailingMaximum,
        Self::Newsvendor,
        Self::LazyProvisioning,
        Self::CesPerfect,
        Self::CesPublished,
        Self::CesPersistence,
        Self::CesSeasonal,
        Self::SlurmConf,
        Self::Reach,
    ];

    /// The one that a setting belongs to.
    pub fn of(setting: &Setting) -> Self {
        match setting {
            Setting::AlwaysOn => Self::AlwaysOn,
            Setting::Timeout { .. } => Self::Timeout,
            Setting::TrailingMaximum { .. } => Self::TrailingMaximum,
            Setting::Newsvendor { .. } => Self::Newsvendor,
            Setting::Lazy { .. } => Self::LazyProvisioning,
            Setting::Ces { forecast: Forecast::Perfect, .. } => Self::CesPerfect,
            Setting::Ces { forecast: Forecast::HourBefore, .. } => Self::CesPublished,
            Setting::Ces { forecast: Forecast::LastValue, .. } => Self::CesPersistence,
            Setting::Ces { forecast: Forecast::Yesterday, .. } => Self::CesSeasonal,
            Setting::IdleTimeout { .. } => Self::SlurmConf,
            Setting::Reach(_) => Self::Reach,
        }
    }

    /// Name of the family in reports and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::AlwaysOn => "always_on",
            Self::Timeout => "timeout",
            Self::TrailingMaximum => "trailing_maximum",
            Self::Newsvendor => "newsvendor",
            Self::LazyProvisioning => "lazy_provisioning",
            Self::CesPerfect => "ces_perfect_forecast",
            Self::CesPublished => "ces_as_published",
            Self::CesPersistence => "ces_persistence",
            Self::CesSeasonal => "ces_yesterday",
            Self::SlurmConf => "slurm_conf",
            Self::Reach => "reach",
        }
    }

    /// Whether it decides from the past alone.
    pub fn causal(self) -> bool {
        !matches!(self, Self::CesPerfect | Self::CesPublished)
    }

    /// Whether it has so few settings that some days can tell them apart: what stands where evidence for anything else is not clear.
    pub fn plain(self) -> bool {
        matches!(self, Self::AlwaysOn | Self::Timeout | Self::TrailingMaximum)
    }

    /// Whether it rests on the chances that [`Reach`](tracecast_predictors::demand::reach::Reach) learns.
    pub fn learns(self) -> bool {
        matches!(self, Self::Newsvendor | Self::LazyProvisioning | Self::Reach)
    }

    /// Whether it may be chosen: it decides from the past alone, and is not only there to show what a scheduler makes of the plan.
    pub fn eligible(self) -> bool {
        self.causal() && self != Self::SlurmConf
    }

    /// What the forecast of a CES rests on; `None` of other rules.
    fn forecast(self) -> Option<Forecast> {
        match self {
            Self::CesPerfect => Some(Forecast::Perfect),
            Self::CesPublished => Some(Forecast::HourBefore),
            Self::CesPersistence => Some(Forecast::LastValue),
            Self::CesSeasonal => Some(Forecast::Yesterday),
            Self::AlwaysOn
            | Self::Timeout
            | Self::TrailingMaximum
            | Self::Newsvendor
            | Self::LazyProvisioning
            | Self::SlurmConf
            | Self::Reach => None,
        }
    }
}

/// What the rules of a family decide from: one stretch of slots, with its past.
#[derive(Debug, Clone)]
pub struct Stretch<'a> {
    /// Largest count of every slot, from the beginning of the series.
    pub need: &'a [f64],
    /// Nodes there are, likewise.
    pub total: &'a [f64],
    /// The slots to decide for.
    pub range: Range<usize>,
    /// Chances of levels, for the slots of `range`.
    pub readings: &'a Readings,
    /// How what is decided is scored: slots of `range`.
    pub demand: NodeDemand<'a>,
    /// CES as published for the like of this cluster.
    pub ces: Thresholds,
}

/// One setting, and what it meant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scored {
    /// The rule and its parameters.
    pub setting: Setting,
    /// Outcome of the setting.
    #[serde(flatten)]
    pub outcome: SleepOutcome,
}

/// One setting, and what it meant in each block of days.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The rule and its parameters.
    pub setting: Setting,
    /// Sums by block.
    pub blocks: Vec<Sums>,
}

/// What a rule is told before a slot of a stretch begins.
struct Before<'a> {
    stretch: &'a Stretch<'a>,
    /// The most that so many slots asked for as the rule looks back, by slot of the stretch.
    most: &'a [f64],
    /// The slot, counted from the first of the stretch.
    at: usize,
}

impl Before<'_> {
    fn read(&self, reached: Option<&(usize, Vec<[u32; CHANCES.len()]>)>, chance: f32) -> Option<f64> {
        let levels = reached?.1.get(self.at)?;
        levels.get(place(chance)).map(|level| f64::from(*level))
    }
}

impl Past for Before<'_> {
    fn there(&self) -> f64 {
        self.stretch.there(self.at)
    }

    fn asked(&self, ago: usize) -> f64 {
        let slot = self.stretch.range.start + self.at;
        self.stretch.need.get(slot.saturating_sub(1 + ago)).copied().unwrap_or(0.0)
    }

    fn most(&self, _slots: usize) -> f64 {
        self.most.get(self.at).copied().unwrap_or(0.0)
    }

    fn in_use(&self) -> f64 {
        self.stretch.readings.in_use.get(self.at).map_or(0.0, |in_use| *in_use as f64)
    }

    fn next(&self, chance: f32) -> Option<f64> {
        self.read(self.stretch.readings.reached.first(), chance)
    }

    fn within(&self, slots: usize, chance: f32) -> Option<f64> {
        self.read(self.stretch.readings.reached.iter().find(|(ahead, _)| *ahead == slots), chance)
    }

    fn slot_ms(&self) -> i64 {
        self.stretch.demand.slot_ms
    }

    fn to_come(&self, ahead: usize) -> Option<f64> {
        let known = self.stretch.need.get(..self.stretch.range.end).unwrap_or(self.stretch.need);
        known.get(self.stretch.range.start + self.at + ahead).or(known.last()).copied()
    }
}

impl Stretch<'_> {
    /// Nodes that are known as slot `at` of the stretch begins: those of the slot before, and of the first slot its own.
    fn there(&self, at: usize) -> f64 {
        self.demand.total.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
    }

    /// Nodes ordered in each slot by a rule without its buffer, and the buffer.
    pub fn orders(&self, setting: &Setting) -> (Vec<f64>, f64) {
        let most = match setting.looks_back() {
            0 => Vec::new(),
            slots => trailing_maximum(self.need, self.range.clone(), slots),
        };
        let mut rule = Rule::new(*setting);
        let slots = 0..self.range.len();
        let orders = slots.map(|at| rule.order(&Before { stretch: self, most: &most, at }, self.demand.before));
        (orders.collect(), setting.buffer())
    }

    /// Outcome of one setting.
    pub fn score(&self, setting: &Setting) -> Scored {
        let (orders, buffer) = self.orders(setting);
        Scored { setting: *setting, outcome: self.demand.score(&orders, buffer) }
    }

    /// Outcomes of some settings. Those that differ in their buffer alone order alike, and are
    /// carried out once up to there.
    pub(in crate::power) fn score_all(&self, settings: &[Setting]) -> Vec<Scored> {
        let mut alike: Vec<(Setting, Vec<(usize, &Setting)>)> = Vec::new();
        for (place, setting) in settings.iter().enumerate() {
            let bare = setting.without_buffer();
            match alike.iter_mut().find(|(other, _)| *other == bare) {
                Some((_, members)) => members.push((place, setting)),
                None => alike.push((bare, vec![(place, setting)])),
            }
        }
        let scored = |(bare, members): &(Setting, Vec<(usize, &Setting)>)| {
            let (orders, _) = self.orders(bare);
            let of = |(place, setting): &(usize, &Setting)| {
                let outcome = self.demand.score(&orders, setting.buffer());
                (*place, Scored { setting: **setting, outcome })
            };
            members.iter().map(of).collect::<Vec<(usize, Scored)>>()
        };
        let mut result: Vec<(usize, Scored)> = alike.par_iter().flat_map_iter(scored).collect();
        result.sort_unstable_by_key(|(place, _)| *place);
        result.into_iter().map(|(_, scored)| scored).collect()
    }

    /// Every setting of a family, and what it meant.
    pub fn sweep(&self, family: Family) -> Vec<Scored> {
        let tried = self.sweep_in_blocks(family, self.range.len());
        let whole = |trial: &Tried| {
            let outcome = self.demand.outcome(&Sums::new(&trial.blocks));
            Scored { setting: trial.setting, outcome }
        };
        tried.iter().map(whole).collect()
    }

    /// One setting, block by block of so many slots.
    pub fn try_in_blocks(&self, setting: &Setting, slots: usize) -> Tried {
        let (orders, buffer) = self.orders(setting);
        Tried { setting: *setting, blocks: self.demand.in_blocks(&orders, buffer, slots) }
    }

    /// Every setting of a family, block by block of so many slots.
    pub fn sweep_in_blocks(&self, family: Family, slots: usize) -> Vec<Tried> {
        let most = self.demand.total.iter().copied().fold(0.0, f64::max);
        let buffers = buffers(most);
        let with_buffers = |bare: Setting, of: &dyn Fn(u32) -> Setting| {
            let (orders, _) = self.orders(&bare);
            let score = |buffer: &u32| Tried {
                setting: of(*buffer),
                blocks: self.demand.in_blocks(&orders, f64::from(*buffer), slots),
            };
            buffers.iter().map(score).collect::<Vec<Tried>>()
        };
        match family {
            Family::AlwaysOn => vec![self.try_in_blocks(&Setting::AlwaysOn, slots)],
            Family::Timeout => {
                let of = |after: &usize| self.try_in_blocks(&Setting::Timeout { slots: *after }, slots);
                TRAILING.iter().map(of).collect()
            }
            Family::TrailingMaximum => TRAILING
                .iter()
                .flat_map(|past| {
                    let of = |buffer| Setting::TrailingMaximum { slots: *past, buffer };
                    with_buffers(of(0), &of)
                })
                .collect(),
            Family::SlurmConf => {
                let pairs = TRAILING.iter().flat_map(|after| buffers.iter().map(move |keep| (*after, *keep)));
                let of = |(after, keep_idle)| Setting::IdleTimeout { slots: after, keep_idle };
                pairs.map(|pair| self.try_in_blocks(&of(pair), slots)).collect()
            }
            Family::Newsvendor => CHANCES
                .iter()
                .flat_map(|chance| {
                    let of = |buffer| Setting::Newsvendor { chance: *chance, buffer };
                    with_buffers(of(0), &of)
                })
                .collect(),
            Family::LazyProvisioning => {
                let windows: Vec<usize> = std::iter::once(0).chain(self.keeps()).collect();
                let pairs = TRAILING.iter().flat_map(|switch| windows.iter().map(move |window| (*switch, *window)));
                pairs
                    .filter(|(switch, window)| window < switch)
                    .flat_map(|(switch_slots, window_slots)| {
                        let of = |buffer| Setting::Lazy { switch_slots, window_slots, buffer };
                        with_buffers(of(0), &of)
                    })
                    .collect()
            }
            Family::CesPerfect | Family::CesPublished | Family::CesPersistence | Family::CesSeasonal => {
                let Some(forecast) = family.forecast() else { return Vec::new() };
                let given = self.ces.buffer as u32;
                let mut all = buffers.clone();
                if !all.contains(&given) {
                    all.push(given);
                }
                all.iter()
                    .map(|buffer| {
                        let thresholds = Thresholds { buffer: f64::from(*buffer), ..self.ces };
                        self.try_in_blocks(&Setting::Ces { forecast, thresholds }, slots)
                    })
                    .collect()
            }
            Family::Reach => {
                let keeps = self.keeps();
                let grid = keeps.iter().flat_map(|keep| CHANCES.iter().map(move |wake| (*keep, *wake)));
                grid.flat_map(|(keep, wake)| CHANCES.iter().map(move |chance| (keep, wake, *chance)))
                    .flat_map(|(keep, wake, chance)| LINGER.iter().map(move |linger| (keep, wake, chance, *linger)))
                    .flat_map(|(keep_slots, wake_chance, keep_chance, linger_slots)| {
                        let of = |buffer| {
                            Setting::Reach(Switches { keep_slots, wake_chance, keep_chance, linger_slots, buffer })
                        };
                        with_buffers(of(0), &of)
                    })
                    .collect()
            }
        }
    }

    /// Horizons that keeping may look at.
    fn keeps(&self) -> Vec<usize> {
        self.readings.reached.iter().skip(1).map(|(slots, _)| *slots).collect()
    }
}

/// Pareto front of settings: those that no other beats at once in service, wakes and (by more than
/// `tolerance` nodes) sleep; most sleep first.
pub fn front(mut scored: Vec<Scored>, tolerance: f64) -> Vec<Scored> {
    let key = |point: &Scored| {
        (-point.outcome.nodes_asleep_mean, point.outcome.unserved_node_slots, point.outcome.node_wakes_per_day)
    };
    scored.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2))
    });
    let mut kept: Vec<Scored> = Vec::new();
    for point in scored {
        let beaten = kept.iter().any(|other| {
            other.outcome.nodes_asleep_mean >= point.outcome.nodes_asleep_mean + tolerance
                && other.outcome.unserved_node_slots <= point.outcome.unserved_node_slots
                && other.outcome.node_wakes_per_day <= point.outcome.node_wakes_per_day
        });
        if !beaten {
            kept.push(point);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_called_the_same_in_json() {
        for family in Family::ALL {
            assert_eq!(serde_json::json!(family), family.name());
        }
    }

    #[test]
    fn the_front_is_what_nothing_beats() {
        let of = |slots: usize, asleep: f64, unserved: f64| Scored {
            setting: Setting::Timeout { slots },
            outcome: SleepOutcome {
                nodes_asleep_mean: asleep,
                unserved_node_slots: unserved,
                ..SleepOutcome::default()
            },
        };
        let kept = front(vec![of(1, 4.0, 0.0), of(2, 5.0, 0.0), of(3, 6.0, 2.0)], 0.0);
        let slots: Vec<Setting> = kept.iter().map(|point| point.setting).collect();
        assert_eq!(slots, vec![Setting::Timeout { slots: 3 }, Setting::Timeout { slots: 2 }]);
        // A node more of sleep is not enough to rule the first out if the past cannot tell so little.
        let kept = front(vec![of(1, 4.0, 0.0), of(2, 5.0, 0.0), of(3, 6.0, 2.0)], 1.5);
        assert_eq!(kept.len(), 3);
    }
}
