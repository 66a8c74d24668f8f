//! Forecasts of run times: the last two runs alike, a trained model beside them, and the recorded runs.
//!
//! Which of the first two a plan goes by is **chosen beforehand**: what waits less on the earlier jobs,
//! of those that both predict. Predictions that a user names are used as they are.
//!
//! O(drivers × replay). Worked number: jobs of a day wait 100 s in all by the last two runs, 70 s by
//! the model and 40 s with runs known: one block of 100, 70 and 40.

use std::collections::BTreeMap;

use rayon::prelude::*;
use tracecast_analytics::time::DAY_MS;
use tracecast_replay::input::{Column, Loaded, Matched};
use tracecast_replay::metric::JobTimes;
use tracecast_sim::{Cluster, Policy, Workload, simulate};

use super::{Driven, ForecastUsed, ForecastWords, Forecasting};
use crate::error::Result;

/// The naive rule in words.
pub const LAST_TWO: &str = "the mean of the last two runs";

/// Forecast of the runs of a plan's jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum RunForecast {
    /// The naive rule alone, and why.
    Naive(String),
    /// Predictions of a trained model, which are used where they do better on the earlier jobs.
    Trained(Column),
    /// Predictions that the user names, which are used.
    Given(Column),
}

impl RunForecast {
    /// Matches the predictions with jobs; a model that predicts none of them gives way to the naive
    /// rule.
    ///
    /// # Errors
    /// If predictions that a user named are of other jobs.
    pub fn matched<T>(self, of: impl FnOnce(&Column) -> tracecast_replay::Result<T>) -> Result<(Self, Option<T>)> {
        let matched = match &self {
            Self::Naive(_) => return Ok((self, None)),
            Self::Trained(column) | Self::Given(column) => of(column),
        };
        match (self, matched) {
            (Self::Trained(_), Err(_)) => Ok((Self::Naive("the model predicts none of the jobs".to_owned()), None)),
            (forecast, matched) => Ok((forecast, Some(matched?))),
        }
    }

    /// Returns what the plan uses, given whether the model is better than the naive rule on the
    /// earlier jobs.
    pub fn used(&self, is_better: bool) -> ForecastUsed {
        match self {
            Self::Given(_) => ForecastUsed::Model,
            Self::Trained(_) if is_better => ForecastUsed::Model,
            Self::Naive(_) | Self::Trained(_) => ForecastUsed::Naive,
        }
    }

    /// The worth of these runs to a plan whose outcome is `metric`, in `unit`, told divided by `per`.
    /// `unused` says why what is planned goes by no runs, if it does not.
    pub fn worth(
        &self,
        (metric, unit, per): (&str, &str, f64),
        blocks: &[Driven],
        used: ForecastUsed,
        unused: Option<&str>,
    ) -> Forecasting {
        let model = if matches!(self, Self::Given(_)) { "the predictions given" } else { "the trained model" };
        let words = ForecastWords { forecast: "run times", naive: LAST_TWO, model, metric, unit };
        let (used, why) = match unused {
            Some(why) => (ForecastUsed::None, Some(why.to_owned())),
            None => (used, self.why(used)),
        };
        Forecasting::new(&words, blocks, per, used, why)
    }

    /// Why the plan goes by the naive rule; `None` where it does not.
    fn why(&self, used: ForecastUsed) -> Option<String> {
        match (self, used) {
            (Self::Naive(why), _) => Some(why.clone()),
            (_, ForecastUsed::Naive) => Some("the model was no better on the earlier jobs that it predicts".to_owned()),
            (_, ForecastUsed::Model | ForecastUsed::None) => None,
        }
    }
}

/// Waits of each job in a replay, milliseconds; `None` of a job that does not run.
///
/// # Errors
/// Errors of [`simulate`].
pub fn replayed(workload: &Workload, cluster: &Cluster, policy: &Policy) -> Result<Vec<Option<i64>>> {
    let times = JobTimes::new(workload, &simulate(workload, cluster, policy)?)?;
    Ok((0..workload.len()).map(|job| times.wait_ms(job)).collect())
}

/// A replay of a workload that gives the waits of its jobs, as [`replayed`] does.
pub type Replay<'a> = dyn Fn(&Workload) -> Result<Vec<Option<i64>>> + Sync + 'a;

/// Predicted runs of the jobs of a workload by what predicts them, seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct RunDrivers {
    forecast: RunForecast,
    naive: Vec<Option<f64>>,
    /// Predictions of the model, of the naive rule where it has none; `None` without a model.
    model: Option<Vec<Option<f64>>>,
    /// How the predictions met the jobs; `None` without any.
    matched: Option<Matched>,
    /// Submission of the first job that the model predicts, milliseconds from the origin.
    first_ms: i64,
}

/// Predicted runs of the jobs of a workload, and which of them the plan uses.
#[derive(Debug, Clone, PartialEq)]
pub struct ChosenRuns {
    drivers: RunDrivers,
    /// What the plan uses.
    pub used: ForecastUsed,
}

impl RunDrivers {
    /// Takes the predictions of loaded jobs for the naive ones, and puts those in their place that
    /// a user gave.
    ///
    /// # Errors
    /// If the predictions are of other jobs.
    pub fn new(loaded: &mut Loaded, forecast: RunForecast) -> Result<Self> {
        let naive = loaded.workload.predicted_s.clone();
        let (forecast, matched) = forecast.matched(|column| column.of(loaded))?;
        let Some((values, matched)) = matched else {
            return Ok(Self { forecast, naive, model: None, matched: None, first_ms: i64::MAX });
        };
        let predicted = loaded.workload.submit_ms.iter().zip(&values).filter(|(_, value)| value.is_some());
        let first_ms = predicted.map(|(submit, _)| *submit).min().unwrap_or(i64::MAX);
        let model: Vec<Option<f64>> = values.iter().zip(&naive).map(|(value, naive)| value.or(*naive)).collect();
        if matches!(forecast, RunForecast::Given(_)) {
            loaded.workload.predicted_s.clone_from(&model);
        }
        Ok(Self { forecast, naive, model: Some(model), matched: Some(matched), first_ms })
    }

    /// Chooses what to use by the waits of the jobs submitted before `split_ms`, in replays of what was
    /// known then under `policy`, and puts it into the loaded jobs.
    ///
    /// # Errors
    /// Errors of [`replayed`].
    pub fn choose(self, loaded: &mut Loaded, policy: &Policy, split_ms: i64) -> Result<ChosenRuns> {
        let mut is_better = false;
        if let (RunForecast::Trained(_), Some(model)) = (&self.forecast, &self.model) {
            let mut waited = |predicted_s: &Vec<Option<f64>>| {
                loaded.workload.predicted_s.clone_from(predicted_s);
                self.waited_before(loaded, policy, split_ms)
            };
            let by_model = waited(model)?;
            is_better = by_model < waited(&self.naive)?;
        }
        let used = self.forecast.used(is_better);
        if let (ForecastUsed::Model, Some(model)) = (used, &self.model) {
            loaded.workload.predicted_s.clone_from(model);
        }
        Ok(ChosenRuns { drivers: self, used })
    }

    /// Total wait of the jobs that the model predicts, milliseconds, by what was known at `split_ms`.
    fn waited_before(&self, loaded: &Loaded, policy: &Policy, split_ms: i64) -> Result<i64> {
        let known = loaded.known_at(split_ms);
        let waits = replayed(&known, &loaded.cluster, policy)?;
        let counted = known.submit_ms.iter().zip(waits).filter(|(submit, _)| **submit >= self.first_ms);
        Ok(counted.filter_map(|(_, wait)| wait).sum())
    }

    /// Waits, seconds, day by day, and how many jobs have one.
    fn driven(&self, workload: &Workload, from_ms: i64, replay: &Replay<'_>) -> Result<(Vec<Driven>, usize)> {
        let truth = workload.run_ms.iter().map(|run| Some(*run as f64 / 1e3)).collect();
        let mut drivers = vec![self.naive.clone(), truth];
        drivers.extend(self.model.clone());
        let waited = drivers
            .into_par_iter()
            .map(|predicted_s| replay(&Workload { predicted_s, ..workload.clone() }))
            .collect::<Result<Vec<_>>>()?;
        let mut days: BTreeMap<i64, Driven> = BTreeMap::new();
        let mut jobs = 0;
        for (at, submit) in workload.submit_ms.iter().enumerate().filter(|(_, submit)| **submit >= from_ms) {
            let waits = waited.iter().map(|waits| waits.get(at).copied().flatten().map(|wait| wait as f64 / 1e3));
            let Some(waits) = waits.collect::<Option<Vec<f64>>>() else { continue };
            let &[naive, truth, ref model @ ..] = waits.as_slice() else { continue };
            let nothing = Driven { naive: 0.0, model: model.first().map(|_| 0.0), truth: 0.0 };
            let day = days.entry((submit - from_ms).div_euclid(DAY_MS)).or_insert(nothing);
            day.naive += naive;
            day.truth += truth;
            day.model = day.model.zip(model.first()).map(|(sum, wait)| sum + wait);
            jobs += 1;
        }
        Ok((days.into_values().collect(), jobs))
    }
}

impl ChosenRuns {
    /// How the predictions that are used met the jobs; `None` where the naive rule is used.
    pub fn matched(&self) -> Option<Matched> {
        self.drivers.matched.filter(|_| self.used == ForecastUsed::Model)
    }

    /// Compares the waits of the jobs submitted from `from_ms` on, of those that run whatever predicts
    /// runs. Where what is planned does not go by runs, the plan uses neither.
    ///
    /// # Errors
    /// Errors of `replay`.
    pub fn worth(
        &self,
        metric: &str,
        goes_by_runs: bool,
        (workload, from_ms): (&Workload, i64),
        replay: &Replay<'_>,
    ) -> Result<Forecasting> {
        let RunDrivers { forecast, .. } = &self.drivers;
        let (driven, jobs) = self.drivers.driven(workload, from_ms, replay)?;
        let unused = (!goes_by_runs).then_some("it goes by no run times");
        Ok(forecast.worth((metric, "s", jobs as f64), &driven, self.used, unused))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let drivers = RunDrivers {
            forecast: RunForecast::Trained(Column::default()),
            naive: vec![Some(100.0); 3],
            model: Some(vec![Some(70.0); 3]),
            matched: None,
            first_ms: 0,
        };
        let workload = Workload {
            submit_ms: vec![0, 1_000, 2_000],
            run_ms: vec![40_000; 3],
            predicted_s: vec![Some(100.0); 3],
            ..Workload::default()
        };
        // Each job waits as long as it is predicted to run.
        let as_predicted = |workload: &Workload| {
            let waits = workload.predicted_s.iter().map(|predicted| predicted.map(|s| (s * 1e3) as i64));
            Ok(waits.collect())
        };
        let (days, jobs) = drivers.driven(&workload, 2_000, &as_predicted).unwrap();
        assert_eq!((days, jobs), (vec![Driven { naive: 100.0, model: Some(70.0), truth: 40.0 }], 1));
    }

    #[test]
    fn what_is_used_is_chosen_beforehand_but_for_what_is_given() {
        let trained = RunForecast::Trained(Column::default());
        assert_eq!((trained.used(true), trained.used(false)), (ForecastUsed::Model, ForecastUsed::Naive));
        assert!(trained.why(ForecastUsed::Naive).is_some() && trained.why(ForecastUsed::Model).is_none());
        assert_eq!(RunForecast::Given(Column::default()).used(false), ForecastUsed::Model);
        let naive = RunForecast::Naive("too few jobs".to_owned());
        assert_eq!(
            (naive.used(true), naive.why(ForecastUsed::Naive)),
            (ForecastUsed::Naive, Some("too few jobs".to_owned()))
        );
    }
}
