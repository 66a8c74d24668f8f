//! Which pairs to measure of job types of which none was measured: those that leave the least unknown.
//!
//! How much a measured pair tells of the others does not depend on what is measured, as all is Gaussian. With rows r₁ and r₂ of a pair (either job beside the other), their variances v with noise and covariance c₁₂, and the
//! covariances c of a forecast with both, the forecast's variance falls by
//!
//! ```text
//! (c₁, c₂) · S⁻¹ · (c₁, c₂)ᵀ        S = (v₁  c₁₂; c₁₂  v₂)
//! ```
//!
//! The pair with the greatest fall over all forecasts of the new job types, beside every partner, comes first; then it counts as measured, and the next is sought (greedy, as the optimum is hard). The new job types take turns. The
//! fall is the mean over the models of the [committee](super::committee).
//!
//! O(pairs to measure × partners × new types × partners × models), and n² for each pair and model with n effects. Worked number: where r₂ tells nothing (c₂ = c₁₂ = 0), c₁ = 0.02 and v₁ = 0.04, the variance falls by 0.01.

use super::committee::Committee;

impl Committee {
    /// `count` partners for each of the new job types on a GPU type, as (new, partner) in the order in which to measure them. Nobody is measured twice with the same partner.
    pub fn to_measure(&self, gpu: usize, new: &[usize], partners: &[usize], count: usize) -> Vec<(usize, usize)> {
        let mut wiser = self.clone();
        let mut found: Vec<(usize, usize)> = Vec::new();
        let is_known =
            |found: &[(usize, usize)], a: usize, b: usize| found.contains(&(a, b)) || found.contains(&(b, a));
        for _ in 0..count {
            for job in new {
                let mut best: Option<(f64, usize)> = None;
                for partner in partners.iter().filter(|partner| !is_known(&found, *job, **partner)) {
                    let falls = wiser.falls(gpu, (*job, *partner), new, partners);
                    if best.is_none_or(|(most, _)| falls > most + 1e-12) {
                        best = Some((falls, *partner));
                    }
                }
                if let Some((_, partner)) = best {
                    wiser.looks_at(gpu, *job, partner);
                    found.push((*job, partner));
                }
            }
        }
        found
    }
}
