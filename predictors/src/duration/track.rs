//! Predictions of one model for each job of a back-test.
//!
//! Worked example: a track of 1,000 jobs whose model was fitted first after 500 says nothing of the first 500.

use super::distribution::Distribution;
use super::forecast::{Model, Said};
use crate::score::Scored;

/// Predictions of a model for each job, on the log scale; `None` before its first fit.
#[derive(Debug, Clone)]
pub struct Track {
    /// Name.
    pub name: String,
    /// Model; `None` for the ensemble.
    pub model: Option<Model>,
    /// Point and spread, a job each.
    pub said: Vec<Option<Said>>,
    /// Calibrated distribution, for models that are calibrated.
    pub distributions: Vec<Option<Distribution>>,
    /// Whether it is wide because too few jobs had ended to calibrate it by.
    pub short: Vec<bool>,
}

impl Track {
    pub(crate) fn new(model: Option<Model>, said: Vec<Option<Said>>) -> Self {
        let name = model.map_or("ensemble", Model::name).to_owned();
        let (distributions, short) = (vec![None; said.len()], vec![false; said.len()]);
        Self { name, model, said, distributions, short }
    }

    /// Whether the model's whole distribution is used, unlike a baseline's.
    pub fn is_learned(&self) -> bool {
        matches!(self.model, None | Some(Model::Boosted))
    }

    /// Whether the track is of a rule that states intervals without a fitted learner.
    pub fn is_simple(&self) -> bool {
        self.model.is_some_and(Model::is_simple)
    }

    /// Whether too few jobs had ended to calibrate it for most of these.
    pub(super) fn mostly_short(&self, which: &[(usize, f64)]) -> bool {
        let short = which.iter().filter(|(at, _)| self.short.get(*at).copied().unwrap_or(false)).count();
        2 * short > which.len()
    }

    pub(super) fn scored(&self, at: usize, y: f64) -> Option<Scored> {
        let said = self.said.get(at).copied().flatten()?;
        Some(match self.distributions.get(at).copied().flatten() {
            Some(distribution) => Scored { y, point: said.point, quantiles: distribution.scored() },
            None => Scored { y, point: said.point, quantiles: said.quantiles },
        })
    }
}
