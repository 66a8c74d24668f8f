//! How long jobs run: dependence on user, name and size from nested effects, the distribution from published totals.
//!
//! Each job gets a score `β·ln size + lean(class) + Σ √part·effect` over user, family, version and chance. Run times are
//! then given out by rank: the job with the k-th lowest score of n gets the quantile (k − ½)/n of a mixture of two
//! lognormals, cut at the longest run. So the distribution is the mixture whatever the scores are, while users, names and
//! sizes keep their order and their share of the variance.
//!
//! The mixture is fitted to a median and a mean: for each location of the tail the body is placed so that half of the
//! mass is below the median, and the tail is moved until the mean is met, with
//! `E min(X, c) = exp(μ + σ²/2)·Φ((ln c − μ − σ²)/σ) + c·(1 − Φ((ln c − μ)/σ))`. β is then chosen so that size × run has
//! the published mean; it exists because large jobs run longer.
//!
//! Worked number: a lognormal of median 1 and σ = 1 has mean e^½ = 1.649; cut at c = e it has
//! e^½·Φ(0) + e·(1 − Φ(1)) = 0.824 + 0.431 = 1.256.
//!
//! O(n log n) for each trial of β, 24 trials.

use statrs::function::erf::erfc;
use tracecast_analytics::{Error, Result};

use super::demand::Demand;
use super::random::Stream;
use super::spec::{Checked, RunSpec};

/// Points at which the mixture's distribution function is tabulated.
const GRID: usize = 4_096;

/// Standard normal distribution function.
pub(crate) fn phi(x: f64) -> f64 {
    0.5 * erfc(-x / std::f64::consts::SQRT_2)
}

/// Two lognormals, cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mixture {
    body_mu: f64,
    tail_mu: f64,
    body_sigma: f64,
    tail_sigma: f64,
    tail_share: f64,
    max: f64,
}

impl Mixture {
    /// The mixture with the median and mean of `spec`; `key` names it in messages.
    pub(crate) fn fit(spec: &RunSpec, key: &str) -> Result<Self> {
        let base = Self {
            body_mu: 0.0,
            tail_mu: 0.0,
            body_sigma: spec.body_sigma,
            tail_sigma: spec.tail_sigma,
            tail_share: spec.tail_share,
            max: spec.max_s,
        };
        let at = |tail_mu: f64| {
            let target = spec.median_s.ln();
            let (mut low, mut high) = (target - 40.0, target + 40.0);
            for _ in 0..100 {
                let body_mu = (low + high) / 2.0;
                if (Self { body_mu, tail_mu, ..base }).below(spec.median_s) > 0.5 {
                    low = body_mu;
                } else {
                    high = body_mu;
                }
            }
            Self { body_mu: (low + high) / 2.0, tail_mu, ..base }
        };
        // The tail lies between the median and the cut; moving it up moves the mean up.
        let (mut low, mut high) = (spec.median_s.ln(), spec.max_s.ln() + 3.0);
        for _ in 0..100 {
            let tail_mu = (low + high) / 2.0;
            if at(tail_mu).mean() < spec.mean_s { low = tail_mu } else { high = tail_mu }
        }
        let fitted = at((low + high) / 2.0);
        if (fitted.mean() / spec.mean_s - 1.0).abs() > 0.02 {
            return Err(Error::Setting {
                setting: format!("{key}.mean_s"),
                found: format!("{} s, while the nearest mean with this median is {:.0} s", spec.mean_s, fitted.mean()),
                remedy: "change body_sigma, tail_share or tail_sigma".to_owned(),
            });
        }
        Ok(fitted)
    }

    fn below(&self, x: f64) -> f64 {
        if x >= self.max {
            return 1.0;
        }
        let part = |mu: f64, sigma: f64| phi((x.ln() - mu) / sigma);
        (1.0 - self.tail_share) * part(self.body_mu, self.body_sigma)
            + self.tail_share * part(self.tail_mu, self.tail_sigma)
    }

    pub(crate) fn mean(&self) -> f64 {
        let part = |mu: f64, sigma: f64| {
            let cut = self.max.ln();
            (mu + sigma * sigma / 2.0).exp() * phi((cut - mu - sigma * sigma) / sigma)
                + self.max * (1.0 - phi((cut - mu) / sigma))
        };
        (1.0 - self.tail_share) * part(self.body_mu, self.body_sigma)
            + self.tail_share * part(self.tail_mu, self.tail_sigma)
    }

    /// The quantiles (k − ½)/n for k = 1..n, on whole seconds, at least one. O(n + GRID).
    pub(crate) fn quantiles(&self, n: usize) -> Vec<i64> {
        let (from, to) = (self.body_mu.min(self.tail_mu) - 6.0 * self.body_sigma.max(self.tail_sigma), self.max.ln());
        let from = from.min(to - 1.0);
        let at = |ix: usize| from + (to - from) * ix as f64 / (GRID - 1) as f64;
        let mut table = (0..GRID).map(|ix| (at(ix), self.below(at(ix).exp()))).peekable();
        let mut before = (from, 0.0);
        let mut out = Vec::with_capacity(n);
        for k in 0..n {
            let p = (k as f64 + 0.5) / n as f64;
            while let Some(point) = table.next_if(|(_, below)| *below < p) {
                before = point;
            }
            let ln = table.peek().map_or(to, |(ln, below)| {
                let width = below - before.1;
                if width > 0.0 { before.0 + (ln - before.0) * (p - before.1) / width } else { *ln }
            });
            out.push((ln.exp().min(self.max).round() as i64).max(1));
        }
        out
    }
}

/// Run times of the jobs at `which` (indices into the submissions), seconds, in that order.
pub(crate) fn draw(
    checked: &Checked,
    demand: &Demand,
    which: &[u32],
    spec: &RunSpec,
    key: &str,
    rng: &mut Stream,
) -> Result<Vec<i64>> {
    let quantiles = Mixture::fit(spec, key)?.quantiles(which.len());
    let total: f64 = spec.variance.iter().sum();
    let [user_part, family_part, version_part, chance_part] = spec.variance.map(|part| (part / total).sqrt());
    let mut sizes = Vec::with_capacity(which.len());
    let mut scores = Vec::with_capacity(which.len());
    for ix in which {
        let version = demand.submissions.get(*ix as usize).and_then(|(_, v)| demand.versions.get(*v as usize));
        let family = version.and_then(|version| demand.families.get(version.family as usize));
        let user = family.and_then(|family| demand.users.get(family.user as usize));
        let class = user.and_then(|user| user.class).and_then(|class| checked.spec.users.class.get(class));
        sizes.push(version.map_or(1.0, |version| f64::from(version.size)));
        scores.push(
            class.map_or(0.0, |class| class.run_lean / 2.0)
                + user_part * user.map_or(0.0, |user| user.effect)
                + family_part * family.map_or(0.0, |family| family.effect)
                + version_part * version.map_or(0.0, |version| version.effect)
                + chance_part * rng.normal(),
        );
    }
    let Some(mean_gpu_s) = spec.mean_gpu_s else {
        return Ok(by_rank(&scores, &sizes, 0.0, &quantiles));
    };
    let mean = |runs: &[i64]| {
        let sum: f64 = runs.iter().zip(&sizes).map(|(run, size)| *run as f64 * size).sum();
        sum / runs.len().max(1) as f64
    };
    let (mut low, mut high) = (-3.0, 3.0);
    for _ in 0..24 {
        let beta = (low + high) / 2.0;
        if mean(&by_rank(&scores, &sizes, beta, &quantiles)) < mean_gpu_s { low = beta } else { high = beta }
    }
    let runs = by_rank(&scores, &sizes, (low + high) / 2.0, &quantiles);
    let reached = mean(&runs);
    if (reached / mean_gpu_s - 1.0).abs() > 0.1 {
        return Err(Error::Setting {
            setting: format!("{key}.mean_gpu_s"),
            found: format!("{mean_gpu_s} GPU-seconds, while the nearest these sizes and runs allow is {reached:.0}"),
            remedy: "change the sizes, or ask for what can be had".to_owned(),
        });
    }
    Ok(runs)
}

/// Gives out `quantiles` by the rank of score + β·ln size; ties by index.
fn by_rank(scores: &[f64], sizes: &[f64], beta: f64, quantiles: &[i64]) -> Vec<i64> {
    let mut order: Vec<(f64, u32)> =
        scores.iter().zip(sizes).zip(0u32..).map(|((score, size), ix)| (score + beta * size.ln(), ix)).collect();
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut runs = vec![1; scores.len()];
    for ((_, ix), run) in order.into_iter().zip(quantiles) {
        if let Some(slot) = runs.get_mut(ix as usize) {
            *slot = *run;
        }
    }
    runs
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_of_a_cut_lognormal() {
        let mixture =
            |max: f64| Mixture { body_mu: 0.0, tail_mu: 0.0, body_sigma: 1.0, tail_sigma: 1.0, tail_share: 0.3, max };
        // e^0.5 = 1.6487; cut at e: 1.6487·0.5 + 2.7183·0.15866 = 0.82436 + 0.43128.
        assert!((mixture(1e12).mean() - 1.648_72).abs() < 1e-4);
        assert!((mixture(std::f64::consts::E).mean() - 1.255_64).abs() < 1e-4);
    }

    #[test]
    fn a_mixture_meets_its_median_and_mean() {
        let spec: RunSpec = toml::from_str("median_s = 206\nmean_s = 6651.7\nmax_s = 864000").unwrap();
        let runs = Mixture::fit(&spec, "gpu_runs").unwrap().quantiles(100_001);
        let mean = runs.iter().sum::<i64>() as f64 / runs.len() as f64;
        assert_eq!(runs[50_000], 206);
        assert!((mean / 6651.7 - 1.0).abs() < 0.01, "{mean}");
        assert!(runs.is_sorted() && *runs.last().unwrap() <= 864_000);
    }

    #[test]
    fn a_mean_out_of_reach_is_refused() {
        let spec: RunSpec = toml::from_str("median_s = 200\nmean_s = 201\nmax_s = 864000").unwrap();
        assert!(Mixture::fit(&spec, "gpu_runs").unwrap_err().to_string().contains("gpu_runs.mean_s"));
    }

    #[test]
    fn runs_follow_the_rank_of_the_score() {
        // β = 1: scores 0 + ln 1, 0 + ln 8, 3 + ln 1 = 0, 2.08, 3.
        assert_eq!(by_rank(&[0.0, 0.0, 3.0], &[1.0, 8.0, 1.0], 1.0, &[10, 20, 30]), [10, 20, 30]);
        // β = 2: 0, 4.16, 3.
        assert_eq!(by_rank(&[0.0, 0.0, 3.0], &[1.0, 8.0, 1.0], 2.0, &[10, 20, 30]), [10, 30, 20]);
    }
}
