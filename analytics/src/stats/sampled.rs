//! Integrals of a quantity known only at moments, such as power. Energy, with its counters and models, is measured by
//! [`energy`](crate::energy).
//!
//! **Trapezoid.** Between two neighbouring samples the quantity is taken to change evenly, so a gap of `d` seconds between
//! `a` and `b` adds `d (a + b) / 2`. Written per sample this is its value times half of the gap on either side, its *hold*,
//! which is what lets an integral be split by what a sample belongs to. A gap longer than [`BRIDGE`] times the series' own
//! period ([`PERIOD_GAPS`]) is not bridged: nothing is known of it, and it adds nothing.
//!
//! Complexity: O(n) with work space that is reused from series to series.
//!
//! Worked number: 100 W, 200 W and 300 W at 0, 60 and 120 s are 60 · 150 + 60 · 250 = 24,000 J; the holds are 30, 60 and
//! 30 s.

use super::rank;
use super::sum::NeumaierSum;

/// Gaps up to so many times the period are bridged.
pub const BRIDGE: i64 = 3;

/// The period of a series is the lower median of so many of its first gaps, so that a stream and a table agree.
pub const PERIOD_GAPS: usize = 15;

/// Integral of one series.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Integral {
    /// The integral, unit of the samples × seconds.
    pub value: f64,
    /// Time that gaps were bridged over, seconds.
    pub bridged_s: f64,
    /// Time from the first to the last sample, seconds.
    pub span_s: f64,
    /// The period, ms: the median of the first [`PERIOD_GAPS`] gaps, of an even count the lower of the middle two. `None` for a
    /// single sample.
    pub gap_ms: Option<i64>,
}

impl Integral {
    /// Whether a gap of `gap_ms` was bridged.
    #[must_use]
    pub fn bridges(&self, gap_ms: i64) -> bool {
        self.gap_ms.is_some_and(|median| gap_ms <= median.saturating_mul(BRIDGE))
    }
}

/// Integrates one series after another.
#[derive(Debug, Default)]
pub struct Integrator {
    gaps: Vec<i64>,
    hold_s: Vec<f64>,
}

impl Integrator {
    /// Integrates samples `(ms, value)` in strictly ascending order of time.
    pub fn integrate(&mut self, samples: &[(i64, f64)]) -> Integral {
        self.gaps.clear();
        self.hold_s.clear();
        self.hold_s.resize(samples.len(), 0.0);
        self.gaps.extend(samples.iter().zip(samples.iter().skip(1)).map(|(a, b)| b.0 - a.0));
        self.gaps.truncate(PERIOD_GAPS);
        let Some(median) = rank::nearest(&mut self.gaps, 0.5) else { return Integral::default() };
        let mut integral = Integral { gap_ms: Some(median), ..Integral::default() };
        let (mut value, mut bridged_ms) = (NeumaierSum::new(), 0);
        for (ix, (a, b)) in samples.iter().zip(samples.iter().skip(1)).enumerate() {
            let gap = b.0 - a.0;
            if !integral.bridges(gap) {
                continue;
            }
            bridged_ms += gap;
            let half_s = gap as f64 / 2_000.0;
            value.add(half_s * (a.1 + b.1));
            for hold in self.hold_s.iter_mut().skip(ix).take(2) {
                *hold += half_s;
            }
        }
        integral.value = value.value();
        integral.bridged_s = bridged_ms as f64 / 1_000.0;
        if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
            integral.span_s = (last.0 - first.0) as f64 / 1_000.0;
        }
        integral
    }

    /// Seconds that each sample of the last series stands for.
    #[must_use]
    pub fn hold_s(&self) -> &[f64] {
        &self.hold_s
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn trapezoid_by_hand_and_holds_add_up_to_it() {
        let mut integrator = Integrator::default();
        let samples = [(0, 100.0), (60_000, 200.0), (120_000, 300.0)];
        let integral = integrator.integrate(&samples);
        assert_eq!(integral, Integral { value: 24_000.0, bridged_s: 120.0, span_s: 120.0, gap_ms: Some(60_000) });
        assert_eq!(integrator.hold_s(), [30.0, 60.0, 30.0]);
        // 100 · 30 + 200 · 60 + 300 · 30.
        let split: f64 = samples.iter().zip(integrator.hold_s()).map(|(s, hold)| s.1 * hold).sum();
        assert_eq!(split, 24_000.0);
    }

    #[test]
    fn a_gap_of_three_medians_is_bridged_and_a_longer_one_is_not() {
        let mut integrator = Integrator::default();
        // Gaps 10, 10, 30, 31 and 10 s; the median is 10.
        let times = [0, 10, 20, 50, 81, 91];
        let samples: Vec<(i64, f64)> = times.iter().map(|s| (s * 1_000, 2.0)).collect();
        let integral = integrator.integrate(&samples);
        assert_eq!((integral.bridged_s, integral.span_s, integral.value), (60.0, 91.0, 120.0));
        assert_eq!(integrator.hold_s(), [5.0, 10.0, 20.0, 15.0, 5.0, 5.0]);
    }

    #[test]
    fn one_sample_is_no_energy_and_has_no_gap() {
        let mut integrator = Integrator::default();
        assert_eq!(integrator.integrate(&[(5, 100.0)]), Integral::default());
        assert_eq!(integrator.hold_s(), [0.0]);
        assert_eq!(integrator.integrate(&[]), Integral::default());
    }
}
