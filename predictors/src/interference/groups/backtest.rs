//! The back-test of groups: are the speeds of three jobs and more what their couples say?
//!
//! Two tests for each GPU type. **Couples measured**: the predictor has learned from all pairs, and answers are composed of couples that were measured; only the composing is tested.
//! **Family left out**: it has learned from the pairs of all other families, and the jobs of the one left out are scored; composing and forecasting are tested together. No group teaches in either.
//!
//! What the predictor says ([`SharingPredictor::group`]) stands beside other ways of composing the same couples, with sᵢ the speed of a job beside the other i alone, and beside rules that know no couples:
//!
//! | name | says |
//! |---|---|
//! | `couples_add` | 1 / s = 1 + Σ max(0, 1 / sᵢ − 1), min sᵢ where nobody slows it: the predictor |
//! | `couples_multiply` | s = Π min(1, sᵢ) |
//! | `worst_couple` | s = min sᵢ |
//! | `equal_turns` | 1 / k of k jobs |
//! | `utilisation` | min(1, 100 / Σ utilisation), where all jobs' utilisation is known |
//! | `none` | 1 |
//!
//! O(families × a training + groups × k² × members). Worked number: a job at 0.8 beside one and at 0.5 beside another was measured at 0.42 beside both; adding says 0.444 and misses by 0.024, multiplying says 0.4, the worst
//! couple 0.5, equal turns 0.333.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use tracecast_analytics::stats::sum;

use super::super::predictor::{Basis, GroupForecast, SharingJob, SharingPredictor};
use super::super::score::{SpeedAndTruth, speeds};
use super::super::table::{Quantity, SharingTable, distinct, name_at};
use super::MeasuredGroup;
use crate::error::Result;
use crate::score::{Pinball, brier};
use tracecast_analytics::watch::{self, Watch};

/// Couples of a group that were known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CouplesKnown {
    /// All couples were measured.
    Measured,
    /// No couple with the family of the scored job was known.
    FamilyLeftOut,
}

/// Score of one way of composing.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GroupScore {
    /// Name of the way.
    pub name: String,
    /// Speeds scored.
    pub speeds: usize,
    /// Mean absolute error, as a share of the speed alone.
    pub mae: f64,
    /// Root of the mean squared error.
    pub rmse: f64,
    /// Mean of forecast less speed: above 0 where jobs are forecast too fast.
    pub bias: f64,
    /// Mean absolute error by the number of jobs in a group.
    pub mae_by_jobs: BTreeMap<usize, f64>,
    /// Pinball loss; only the predictor has quantiles.
    pub pinball: Option<Pinball>,
    /// Share of speeds within the 90 % interval (5 to 95 %); only the predictor has one.
    pub coverage90: Option<f64>,
    /// Mean width of that interval.
    pub width90: Option<f64>,
}

/// Groups of one GPU type, tested in one way.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GroupTest {
    /// GPU type.
    pub gpu_type: String,
    /// Couples that were known.
    pub couples: CouplesKnown,
    /// Groups that are scored.
    pub groups: usize,
    /// Scored groups that did not fit, which have no speeds.
    pub did_not_fit: usize,
    /// Groups that are not scored, as some couple of theirs was not measured, or a family of theirs cannot be left out.
    pub not_scored: usize,
    /// Share of the forecasts of groups that fit of which every job reached the speed that all should reach with a chance of 90 %. With a family left out, there is one forecast for each family of a group.
    pub all_reach_low: Option<f64>,
    /// Mean forecast chance that a group does not fit, each forecast counted.
    pub oom_forecast: Option<f64>,
    /// Brier score of that chance, each forecast counted.
    pub oom_brier: Option<f64>,
    /// The ways: the predictor first.
    pub ways: Vec<GroupScore>,
}

/// The predictor's name among the ways.
pub const COMPOSED: &str = "couples_add";

/// Forecasts for one group: the ways in their order, each with a speed for each job.
struct Said {
    told: GroupForecast,
    others: Vec<(&'static str, Vec<f64>)>,
    basis: Basis,
}

/// Forecasts of a predictor, and of the rules beside it, for a group.
fn said(predictor: &SharingPredictor, table: &SharingTable, group: &MeasuredGroup) -> Said {
    let gpu_type = name_at(table.gpu_types(), group.gpu);
    let jobs: Vec<SharingJob> = group.jobs.iter().map(|job| SharingJob::new(name_at(table.jobs(), *job))).collect();
    let (told, basis) = predictor.group(gpu_type, &jobs);
    let mut beside: Vec<Vec<f64>> = vec![Vec::new(); jobs.len()];
    for (i, a) in jobs.iter().enumerate() {
        for (j, b) in jobs.iter().enumerate().skip(i + 1) {
            let (couple, _) = predictor.pair(gpu_type, a, b);
            for (at, speed) in [(i, couple.a.mean), (j, couple.b.mean)] {
                if let Some(slot) = beside.get_mut(at) {
                    slot.push(speed);
                }
            }
        }
    }
    let each = |of: fn(&[f64]) -> f64| beside.iter().map(|speeds| of(speeds)).collect::<Vec<f64>>();
    let alike = |speed: f64| vec![speed; jobs.len()];
    let mut others = vec![
        ("couples_multiply", each(|speeds| speeds.iter().map(|speed| speed.min(1.0)).product())),
        ("worst_couple", each(|speeds| speeds.iter().copied().fold(1.0, f64::min))),
        ("equal_turns", alike(1.0 / jobs.len() as f64)),
    ];
    let utilisation: Option<Vec<f64>> =
        group.jobs.iter().map(|job| table.profile(group.gpu, *job).get(Quantity::SmUtilPct)).collect();
    if let Some(all) = utilisation {
        others.push(("utilisation", alike((100.0 / all.iter().sum::<f64>()).min(1.0))));
    }
    others.push(("none", alike(1.0)));
    Said { told, others, basis }
}

/// Forecasts of all ways, and the observed speeds.
#[derive(Default)]
struct Scored {
    /// Ways in their order: the name, and each speed with the number of jobs in its group.
    ways: Vec<(&'static str, Vec<(usize, SpeedAndTruth)>)>,
    reached: Vec<bool>,
    memory: Vec<(f64, bool)>,
    groups: usize,
    did_not_fit: usize,
}

impl Scored {
    /// Counts a group, once, however many forecasts there are of it.
    fn count(&mut self, group: &MeasuredGroup) {
        self.groups += 1;
        self.did_not_fit += usize::from(group.speeds.is_none());
    }

    /// Adds what was said of the jobs of a group that `counts` takes.
    fn add(&mut self, said: &Said, group: &MeasuredGroup, counts: impl Fn(usize) -> bool) {
        self.memory.push((said.told.out_of_memory, group.speeds.is_none()));
        let Some(truths) = &group.speeds else { return };
        self.reached.push(truths.iter().zip(&said.told.low).all(|(truth, low)| *truth >= low - 1e-9));
        let own = said.told.speeds.iter().map(|speed| (speed.mean, Some(speed.quantiles))).collect();
        let others = said.others.iter().map(|(name, means)| (*name, means.iter().map(|mean| (*mean, None)).collect()));
        let all: Vec<(&str, Vec<_>)> = std::iter::once((COMPOSED, own)).chain(others).collect();
        for (name, forecasts) in all {
            let at = self.ways.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
                self.ways.push((name, Vec::new()));
                self.ways.len() - 1
            });
            let Some((_, result)) = self.ways.get_mut(at) else { continue };
            for ((job, truth), (mean, quantiles)) in group.jobs.iter().zip(truths).zip(forecasts) {
                if counts(*job) {
                    result.push((group.jobs.len(), SpeedAndTruth { truth: *truth, mean, quantiles }));
                }
            }
        }
    }

    /// The test of some groups of a GPU type.
    fn test(self, gpu_type: &str, couples: CouplesKnown, all: usize) -> GroupTest {
        let reached = self.reached.iter().filter(|all| **all).count();
        let chances: Vec<f64> = self.memory.iter().map(|(chance, _)| *chance).collect();
        // The rule of utilisation is shown only where it says something of all.
        let most = self.ways.iter().map(|(_, result)| result.len()).max().unwrap_or_default();
        let ways = self.ways.iter().filter(|(_, result)| result.len() == most);
        GroupTest {
            gpu_type: gpu_type.to_owned(),
            couples,
            groups: self.groups,
            did_not_fit: self.did_not_fit,
            not_scored: all - self.groups,
            all_reach_low: sum::share(reached as f64, self.reached.len() as f64),
            oom_forecast: sum::mean(&chances),
            oom_brier: brier(&self.memory),
            ways: ways.filter_map(|(name, result)| score(name, result)).collect(),
        }
    }
}

fn score(name: &str, result: &[(usize, SpeedAndTruth)]) -> Option<GroupScore> {
    let all: Vec<SpeedAndTruth> = result.iter().map(|(_, one)| *one).collect();
    let told = speeds(&all)?;
    let mut missed: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for (jobs, one) in result {
        missed.entry(*jobs).or_default().push((one.mean - one.truth).abs());
    }
    let over: Vec<f64> = all.iter().map(|one| one.mean - one.truth).collect();
    Some(GroupScore {
        name: name.to_owned(),
        speeds: told.speeds,
        mae: told.mae,
        rmse: told.rmse,
        bias: sum::mean(&over)?,
        mae_by_jobs: missed.into_iter().filter_map(|(jobs, missed)| Some((jobs, sum::mean(&missed)?))).collect(),
        pinball: told.pinball,
        coverage90: told.coverage90,
        width90: told.width90,
    })
}

/// Tests measured groups against the pairs of a table; without groups there is nothing to do. `watch` is told of every training.
///
/// # Errors
/// If the predictor cannot be trained on the pairs, or on those without a family.
pub fn backtest(
    table: &SharingTable,
    groups: &[MeasuredGroup],
    seed: u64,
    watch: &dyn Watch,
) -> Result<Vec<GroupTest>> {
    if groups.is_empty() {
        return Ok(Vec::new());
    }
    let families = distinct(table.pairs().iter().flat_map(|pair| [table.family(pair.a), table.family(pair.b)]));
    let request = distinct(groups.iter().flat_map(|group| group.jobs.iter().map(|job| table.family(*job))));
    // With fewer than three, what is left teaches nothing of others.
    let left_out: Vec<usize> =
        request.into_iter().filter(|family| families.len() >= 3 && families.contains(family)).collect();
    watch.more(1 + left_out.len());
    let whole = watch::part(watch, || SharingPredictor::train(table, seed))?;
    let train = |family: &usize| {
        watch::part(watch, || SharingPredictor::train(&table.without_pairs_of(*family), seed)).map(|of| (*family, of))
    };
    let without: Vec<(usize, SharingPredictor)> = left_out.par_iter().map(train).collect::<Result<_>>()?;
    let mut tests = Vec::new();
    for gpu in distinct(groups.iter().map(|group| group.gpu)) {
        let here: Vec<&MeasuredGroup> = groups.iter().filter(|group| group.gpu == gpu).collect();
        let gpu_type = name_at(table.gpu_types(), gpu);
        let mut composed = Scored::default();
        for group in &here {
            let said = said(&whole, table, group);
            if said.basis == Basis::Measured {
                composed.add(&said, group, |_| true);
                composed.count(group);
            }
        }
        tests.push(composed.test(gpu_type, CouplesKnown::Measured, here.len()));
        let mut forecast = Scored::default();
        for group in &here {
            let is_in = |family: usize| group.jobs.iter().any(|job| table.family(*job) == family);
            let own: Vec<&(usize, SharingPredictor)> = without.iter().filter(|(family, _)| is_in(*family)).collect();
            if !own.is_empty() {
                forecast.count(group);
            }
            for (family, predictor) in own {
                forecast.add(&said(predictor, table, group), group, |job| table.family(job) == *family);
            }
        }
        tests.push(forecast.test(gpu_type, CouplesKnown::FamilyLeftOut, here.len()));
    }
    Ok(tests.into_iter().filter(|test| test.groups > 0).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::super::table::{SharedPair, Speeds};
    use super::*;

    /// Jobs of three families that take turns, each with a demand; beside each other they get shares of the whole.
    fn turns() -> (SharingTable, Vec<f64>) {
        let mut table = SharingTable::new();
        let gpu = table.gpu_type("g");
        let demands: Vec<f64> = vec![1.0, 0.9, 0.8, 0.7, 0.95, 0.85];
        for at in 0..demands.len() {
            // In the order of their names, which is that of the table.
            table.job(&format!("m{} (batch size {})", at / 2, 1 + at % 2));
        }
        let mut pairs = Vec::new();
        for (b, y) in demands.iter().enumerate() {
            for (a, x) in demands.iter().enumerate().take(b + 1) {
                pairs.push(SharedPair { gpu, a, b, speeds: Some(Speeds { a: 1.0 / (1.0 + y), b: 1.0 / (1.0 + x) }) });
            }
        }
        table.add_pairs(pairs);
        (table.sorted(), demands)
    }

    /// A further job lengthens a step by its demand, so adding is right to the last digit and the others are not.
    #[test]
    fn where_costs_add_up_adding_is_right_and_the_others_miss_by_what_was_worked_out() {
        let (table, demands) = turns();
        let truth = |jobs: &[usize]| {
            let all: f64 = jobs.iter().map(|job| demands[*job]).sum();
            Some(jobs.iter().map(|job| 1.0 / (1.0 + all - demands[*job])).collect())
        };
        let group = |jobs: Vec<usize>| MeasuredGroup { gpu: 0, speeds: truth(&jobs), jobs };
        let measured = [group(vec![0, 2, 4]), group(vec![0, 0, 2, 4])];
        let tests = backtest(&table, &measured, 1, &()).unwrap();
        let [whole, left_out] = tests.as_slice() else { unreachable!("{tests:?}") };
        assert_eq!((whole.couples, left_out.couples), (CouplesKnown::Measured, CouplesKnown::FamilyLeftOut));
        let names: Vec<&str> = whole.ways.iter().map(|way| way.name.as_str()).collect();
        assert_eq!(names, [COMPOSED, "couples_multiply", "worst_couple", "equal_turns", "none"]);
        let mae = |at: usize| whole.ways[at].mae;
        assert!(mae(0) < 1e-9 && whole.ways[0].coverage90 == Some(1.0), "{whole:?}");
        // Of the three: 1 / (1 + 0.8 + 0.95), 1 / (1 + 1 + 0.95), 1 / (1 + 1 + 0.8); the worst couples are 1 / 1.95, 1 / 2 and 1 / 2.
        let three = (1.0 / 1.95 - 1.0 / 2.75) + (0.5 - 1.0 / 2.95) + (0.5 - 1.0 / 2.8);
        assert!((whole.ways[2].mae_by_jobs[&3] - three / 3.0).abs() < 1e-9, "{whole:?}");
        assert!(whole.ways[2].bias > 0.0 && whole.ways[1].bias < 0.0 && mae(1) > 0.01 && mae(4) > 0.5);
        // Every job is scored once, whichever families are in its group.
        assert_eq!((left_out.ways[0].speeds, left_out.groups), (7, 2));
        assert!(left_out.ways[0].mae > 1e-6 && left_out.ways[0].mae < 0.2, "{left_out:?}");
    }

    #[test]
    fn a_group_whose_couples_were_not_measured_is_counted_and_one_that_did_not_fit_has_no_speed() {
        let (table, _) = turns();
        let (mut few, mut pairs) = (SharingTable::new(), table.pairs().to_vec());
        few.gpu_type("g");
        for job in table.jobs() {
            few.job(job);
        }
        pairs.retain(|pair| (pair.a, pair.b) != (0, 2));
        few.add_pairs(pairs);
        let measured = [
            MeasuredGroup { gpu: 0, jobs: vec![0, 2, 4], speeds: Some(vec![0.4; 3]) },
            MeasuredGroup { gpu: 0, jobs: vec![0, 2, 5], speeds: None },
            MeasuredGroup { gpu: 0, jobs: vec![1, 3, 4], speeds: None },
        ];
        let tests = backtest(&few, &measured, 1, &()).unwrap();
        assert_eq!((tests[0].groups, tests[0].not_scored, tests[0].did_not_fit), (1, 2, 1));
        assert!(tests[0].ways.is_empty() && tests[0].all_reach_low.is_none() && tests[0].oom_brier.is_some());
        assert_eq!((tests[1].groups, tests[1].not_scored, tests[1].did_not_fit), (3, 0, 2));
        assert_eq!(tests[1].ways[0].speeds, 3);
    }
}
