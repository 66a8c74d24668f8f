//! Choice of the pairs to measure for job types without any measured pair: those that leave the
//! least unknown.
//!
//! How much a measured pair tells of the others does not depend on what is measured, as all is Gaussian. With rows r₁ and r₂ of a pair (either job beside the other), their variances v with noise and covariance c₁₂, and the
//! covariances c of a forecast with both, the forecast's variance falls by
//!
//! ```text
//! (c₁, c₂) · S⁻¹ · (c₁, c₂)ᵀ        S = (v₁  c₁₂; c₁₂  v₂)
//! ```
//!
//! The pair with the greatest fall over all forecasts of the new job types, beside every partner, comes first; then it counts as measured, and the next is sought (greedy, as the optimum is hard). The new job types take turns. The
//! fall is the mean over the models of the [committee](super::super::committee).
//!
//! O(pairs to measure × partners × new types × partners × models), and n² for each pair and model with n effects. Worked number: where r₂ tells nothing (c₂ = c₁₂ = 0), c₁ = 0.02 and v₁ = 0.04, the variance falls by 0.01.

use std::collections::BTreeSet;

use super::super::alone::Alone;
use super::{Directed, Posterior};

impl Posterior {
    /// Covariance of the effects of two rows, each one job beside another.
    fn covariance_of(&self, kind: usize, one: (usize, usize), other: (usize, usize)) -> f64 {
        let places = |(own, beside): (usize, usize)| self.touched(kind, own, beside);
        places(one).flat_map(|i| places(other).map(move |j| (i, j))).map(|(i, j)| self.covariance.get(i, j)).sum()
    }

    /// Decrease of the variances of all forecasts of some jobs beside each partner, and of each
    /// partner beside them, by measuring a pair; each forecast counts once; 0 on a GPU type that it
    /// does not know.
    pub(in crate::interference) fn falls(
        &self,
        gpu: usize,
        (a, b): (usize, usize),
        jobs: &[usize],
        partners: &[usize],
    ) -> f64 {
        let Some(kind) = self.kind(gpu) else { return 0.0 };
        let (first, second) = ((a, b), (b, a));
        let noise = self.noises.get(kind).copied().unwrap_or_default();
        let (v1, v2) =
            (self.covariance_of(kind, first, first) + noise, self.covariance_of(kind, second, second) + noise);
        let c12 = self.covariance_of(kind, first, second);
        let all = jobs.iter().flat_map(|job| partners.iter().map(move |partner| (*job, *partner)));
        // Where partners are new as well, both jobs of a pair name the same two forecasts.
        let rows: BTreeSet<(usize, usize)> = all.flat_map(|(own, beside)| [(own, beside), (beside, own)]).collect();
        let of_row = |row: (usize, usize)| {
            let c1 = self.covariance_of(kind, row, first);
            if a == b {
                return c1 * c1 / v1;
            }
            let c2 = self.covariance_of(kind, row, second);
            (c1 * c1 * v2 - 2.0 * c1 * c2 * c12 + c2 * c2 * v1) / (v1 * v2 - c12 * c12)
        };
        rows.into_iter().map(of_row).sum()
    }

    /// Counts a pair as measured, whatever came of it: what is known of the others, and not what is expected, changes.
    pub(in crate::interference) fn looks_at(&mut self, alone: &Alone, gpu: usize, (a, b): (usize, usize)) {
        for (own, beside) in [(a, b), (b, a)].into_iter().take(if a == b { 1 } else { 2 }) {
            let Some(told) = self.forecast(alone, gpu, own, beside) else { continue };
            let speed = told.effects - told.lost;
            let _ = self.learn(alone, &Directed { gpu, own, beside, speed });
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::tests::world;
    use super::super::{Lesson, Prior};
    use super::*;

    #[test]
    fn a_pair_lowers_what_is_unknown_by_as_much_as_was_said_whatever_comes_of_it() {
        let (table, rows) = world();
        let alone = Alone::new(&table);
        let known: Vec<Directed> = rows.iter().copied().filter(|row| row.own < 6 && row.beside < 6).collect();
        let some = Lesson::new(&table, &alone, &known, &[]).fit(&Prior::draw(1, 2)).unwrap();
        let (jobs, partners): (Vec<usize>, Vec<usize>) = (vec![6, 7], (0..8).collect());
        // All forecasts of the new jobs and of their partners beside them: 2 × 8 of the new ones, and 6 × 2 of those that are known.
        let all = |of: &Posterior| -> f64 {
            let is_new = |job: usize| jobs.contains(&job);
            let pairs = (0..8usize).flat_map(|own| (0..8usize).map(move |beside| (own, beside)));
            let request: Vec<(usize, usize)> = pairs.filter(|(own, beside)| is_new(*own) || is_new(*beside)).collect();
            assert_eq!(request.len(), 28);
            request.iter().map(|(own, beside)| of.forecast(&alone, 0, *own, *beside).unwrap().variance).sum()
        };
        for pair in [(6, 0), (7, 5), (6, 7), (7, 7)] {
            let said = some.falls(0, pair, &jobs, &partners);
            let (mut looked, mut learned) = (some.clone(), some.clone());
            looked.looks_at(&alone, 0, pair);
            let fell = all(&some) - all(&looked);
            assert!(said > 0.0 && (said - fell).abs() < 1e-9 * said.max(1.0), "{pair:?}: {said} {fell}");
            // What is expected stays as it was; a measured speed moves that, and what is unknown as much.
            let mean = |of: &Posterior| of.forecast(&alone, 0, 6, 3).unwrap().effects;
            assert!((mean(&looked) - mean(&some)).abs() < 1e-12);
            for row in rows.iter().filter(|row| [pair, (pair.1, pair.0)].contains(&(row.own, row.beside))) {
                learned.learn(&alone, row).unwrap();
            }
            assert!((all(&learned) - all(&looked)).abs() < 1e-9 && (mean(&learned) - mean(&some)).abs() > 1e-6);
        }
        // Nothing is told of a GPU type that it does not know.
        assert!(some.falls(5, (6, 0), &jobs, &partners).abs() < 1e-12);
    }
}
