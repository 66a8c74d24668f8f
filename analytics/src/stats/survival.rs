//! Kaplan-Meier survival curves: durations of which some are only known to exceed a value (right censoring) or were only
//! observed from some age on (delayed entry, left truncation).
//!
//! At each distinct event time t with d events among r at risk, S falls by the factor 1 - d/r (Kaplan and Meier, JASA 53,
//! 1958). At risk at t are the observations with entry < t ≤ time: events come before censorings at the same time, and who
//! enters at t joins after t. Greenwood's variance is S² Σ d / (r (r - d)); the interval is the log-log one,
//! S^exp(± z sqrt(Σ d / (r (r - d))) / |ln S|), which stays inside 0..=1 (Kalbfleisch and Prentice, 2002, section 1.4).
//!
//! Jobs still running at the end of a trace are censored at their age there; leaving them out shortens the curve, since
//! long jobs are the likelier to be running. Jobs already running at the start of the trace enter late, at their age there.
//!
//! With delayed entry the first risk sets may be tiny: a lone early job that ends takes the curve to 0 for good. Such a
//! curve is reported as it is; `at_risk` shows it.
//!
//! Complexity: O(n log n) time, O(n) memory.
//!
//! Worked number: events at 1, 2, 4 and a censoring at 3: S = 3/4 after 1, 3/4 · 2/3 = 1/2 after 2, and 0 after 4, where one
//! is left at risk. Without the censored job the curve after 2 would be 1/3.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::function::erf::erfc_inv;

use super::{
    ecdf::{CurvePoint, thin_indices},
    sum::NeumaierSum,
};

/// One duration as it was observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Age from which it was under observation; `None` when from its start.
    pub entry: Option<f64>,
    /// Age at the end or at the last sight, in any unit, 0 or more.
    pub time: f64,
    /// True when it ended at `time`, false when it was only seen alive until then (censored).
    pub event: bool,
}

/// Why there is no survival curve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SurvivalError {
    /// No observation is usable.
    #[error("no usable observation: all {dropped} have a negative or unknown time or enter after they leave")]
    NoObservations {
        /// Observations left out.
        dropped: u64,
    },
    /// The confidence level is not between 0 and 1.
    #[error("confidence level must lie strictly between 0 and 1")]
    Confidence,
    /// Slices of different lengths.
    #[error("{times} times but {events} event flags")]
    LengthMismatch {
        /// Number of times.
        times: usize,
        /// Number of flags.
        events: usize,
    },
}

/// The curve just after one event time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SurvivalStep {
    /// Event time, in the unit of the observations.
    pub time: f64,
    /// Observations at risk just before.
    pub at_risk: u64,
    /// Events at this time.
    pub events: u64,
    /// Probability of lasting longer than `time`.
    pub survival: f64,
    /// Greenwood's variance of `survival`; absent once the curve is 0.
    pub variance: Option<f64>,
    /// Lower end of the log-log interval; absent once the curve is 0.
    pub lower: Option<f64>,
    /// Upper end of the log-log interval; absent once the curve is 0.
    pub upper: Option<f64>,
}

/// Mean duration up to a horizon.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct RestrictedMean {
    /// Horizon, in the unit of the observations.
    pub horizon: f64,
    /// Area under the curve from 0 to the horizon: the mean of min(duration, horizon).
    pub mean: f64,
    /// Variance of `mean`.
    pub variance: f64,
}

/// A Kaplan-Meier survival curve.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KaplanMeier {
    /// One step per distinct event time, ascending; before the first the curve is 1.
    pub steps: Vec<SurvivalStep>,
    /// Observations used.
    pub observations: u64,
    /// Events among them.
    pub events: u64,
    /// Observations left out: negative or unknown time, or entry not before time.
    pub dropped: u64,
    /// Largest observed time; the curve is unknown beyond it unless it is 0.
    pub last_time: f64,
    /// Confidence level of the intervals, 0 to 1.
    pub confidence: f64,
}

impl KaplanMeier {
    /// Curve of durations seen from their start: `events[i]` tells whether `times[i]` is an end or a censoring. 95 % intervals.
    ///
    /// # Errors
    /// When the lengths differ or nothing is usable.
    pub fn right_censored(times: &[f64], events: &[bool]) -> Result<Self, SurvivalError> {
        if times.len() != events.len() {
            return Err(SurvivalError::LengthMismatch { times: times.len(), events: events.len() });
        }
        let observations: Vec<Observation> = times
            .iter()
            .zip(events)
            .map(|(time, event)| Observation { entry: None, time: *time, event: *event })
            .collect();
        Self::fit(&observations, 0.95)
    }

    /// Curve with intervals at a confidence level such as 0.95.
    ///
    /// # Errors
    /// When nothing is usable or the level is not between 0 and 1.
    pub fn fit(observations: &[Observation], confidence: f64) -> Result<Self, SurvivalError> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(SurvivalError::Confidence);
        }
        let mut exits: Vec<(f64, bool)> = Vec::with_capacity(observations.len());
        let mut entries: Vec<f64> = Vec::new();
        let mut present: u64 = 0;
        for o in observations {
            let usable = o.time.is_finite() && o.time >= 0.0;
            match o.entry {
                _ if !usable => continue,
                Some(entry) if entry.is_nan() || entry >= o.time => continue,
                // Under observation before any event can happen.
                Some(entry) if entry < 0.0 => present += 1,
                Some(entry) => entries.push(entry),
                None => present += 1,
            }
            exits.push((o.time, o.event));
        }
        let dropped = (observations.len() - exits.len()) as u64;
        exits.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        entries.sort_unstable_by(f64::total_cmp);
        let Some(&(last_time, _)) = exits.last() else {
            return Err(SurvivalError::NoObservations { dropped });
        };

        // Two-sided normal quantile.
        let z = std::f64::consts::SQRT_2 * erfc_inv(1.0 - confidence);
        let mut waiting = entries.iter().peekable();
        let mut steps = Vec::new();
        let mut survival = 1.0;
        let mut spread = NeumaierSum::new();
        let mut total_events = 0;
        for group in exits.chunk_by(|a, b| a.0 == b.0) {
            let time = group[0].0;
            while waiting.next_if(|entry| **entry < time).is_some() {
                present += 1;
            }
            let at_risk = present;
            let events = group.iter().filter(|exit| exit.1).count() as u64;
            present -= group.len() as u64;
            if events == 0 {
                continue;
            }
            total_events += events;
            let (r, d) = (at_risk as f64, events as f64);
            survival *= (r - d) / r;
            let (mut variance, mut lower, mut upper) = (None, None, None);
            if survival > 0.0 {
                spread.add(d / (r * (r - d)));
                let width = (z * spread.value().sqrt() / survival.ln().abs()).exp();
                variance = Some(survival * survival * spread.value());
                lower = Some(survival.powf(width));
                upper = Some(survival.powf(1.0 / width));
            }
            steps.push(SurvivalStep { time, at_risk, events, survival, variance, lower, upper });
        }
        Ok(Self { steps, observations: exits.len() as u64, events: total_events, dropped, last_time, confidence })
    }

    /// Probability of lasting longer than `time`; `None` beyond the last observation unless the curve is 0 there, and for NaN.
    #[must_use]
    pub fn survival_at(&self, time: f64) -> Option<f64> {
        if time.is_nan() {
            return None;
        }
        let passed = self.steps.partition_point(|s| s.time <= time);
        let survival = passed.checked_sub(1).and_then(|i| self.steps.get(i)).map_or(1.0, |s| s.survival);
        (time <= self.last_time || survival == 0.0).then_some(survival)
    }

    /// Smallest time by which a share `p` has ended, that is S(t) ≤ 1 - p; `None` when the curve does not fall that far.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Option<f64> {
        if !(p > 0.0 && p <= 1.0) {
            return None;
        }
        self.first_at_most(1.0 - p, |s| Some(s.survival))
    }

    /// Median duration; `None` when fewer than half of the durations are known to have ended.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// Interval of a quantile: the times at which the lower and the upper limit of the curve pass 1 - p (Brookmeyer and
    /// Crowley, Biometrics 38, 1982). An end is `None` where that limit never does.
    #[must_use]
    pub fn quantile_interval(&self, p: f64) -> (Option<f64>, Option<f64>) {
        if !(p > 0.0 && p <= 1.0) {
            return (None, None);
        }
        (self.first_at_most(1.0 - p, |s| s.lower), self.first_at_most(1.0 - p, |s| s.upper))
    }

    fn first_at_most(&self, level: f64, height: impl Fn(&SurvivalStep) -> Option<f64>) -> Option<f64> {
        // The product of rounded factors may miss 0.5 by an ulp; a scan, since the limits need not be monotone.
        self.steps.iter().find(|s| height(s).is_some_and(|h| h <= level + 1e-12)).map(|s| s.time)
    }

    /// Mean of min(duration, horizon); `None` when the curve is unknown before the horizon, or for a negative horizon.
    #[must_use]
    pub fn restricted_mean(&self, horizon: f64) -> Option<RestrictedMean> {
        if !(horizon.is_finite() && horizon >= 0.0) {
            return None;
        }
        self.survival_at(horizon)?;
        // Backwards, so that each step meets the area to its right, which its variance term needs:
        // Var = Σ area(t_i, horizon)² d_i / (r_i (r_i - d_i)).
        let used = self.steps.partition_point(|s| s.time <= horizon);
        let mut area = NeumaierSum::new();
        let mut variance = NeumaierSum::new();
        let mut right = horizon;
        for step in self.steps[..used].iter().rev() {
            area.add(step.survival * (right - step.time));
            let (r, d) = (step.at_risk as f64, step.events as f64);
            if r > d {
                variance.add(area.value().powi(2) * d / (r * (r - d)));
            }
            right = step.time;
        }
        area.add(right);
        Some(RestrictedMean { horizon, mean: area.value(), variance: variance.value() })
    }

    /// Returns at most `max_points` points exactly on the curve, as the share that has ended by x,
    /// which plots beside an ECDF.
    #[must_use]
    pub fn thin_ended(&self, max_points: usize) -> Vec<CurvePoint> {
        let times: Vec<f64> = self.steps.iter().map(|s| s.time).collect();
        let ended: Vec<f64> = self.steps.iter().map(|s| 1.0 - s.survival).collect();
        thin_indices(&times, &ended, max_points)
            .into_iter()
            .map(|i| CurvePoint { x: times[i], fraction: ended[i] })
            .collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::stats::Ecdf;
    use proptest::prelude::*;

    fn heights(km: &KaplanMeier) -> Vec<(f64, u64, f64)> {
        km.steps.iter().map(|s| (s.time, s.at_risk, s.survival)).collect()
    }

    #[test]
    fn by_hand() {
        let km = KaplanMeier::right_censored(&[4.0, 3.0, 1.0, 2.0], &[true, false, true, true]).unwrap();
        let got = heights(&km);
        assert_eq!((got[0].0, got[0].1, got[0].2), (1.0, 4, 0.75));
        assert_eq!((got[1].0, got[1].1), (2.0, 3));
        assert!((got[1].2 - 0.5).abs() < 1e-15);
        assert_eq!((got[2].0, got[2].1, got[2].2), (4.0, 1, 0.0));
        // Greenwood after 2: 1/4 (1/(4·3) + 1/(3·2)) = 1/4 · 1/4.
        assert!((km.steps[1].variance.unwrap() - 0.0625).abs() < 1e-15);
        // Log-log after 2: width exp(1.959964 · 0.5 / ln 2) = 4.1118; 0.5^4.1118 = 0.0578, 0.5^(1/4.1118) = 0.8449.
        assert!((km.steps[1].lower.unwrap() - 0.0578).abs() < 1e-4);
        assert!((km.steps[1].upper.unwrap() - 0.8449).abs() < 1e-4);
        assert_eq!(km.steps[2].variance, None);
        assert_eq!(km.median(), Some(2.0));
        assert_eq!(km.quantile(0.75), Some(4.0));
        assert_eq!(km.survival_at(0.5), Some(1.0));
        assert_eq!(km.survival_at(9.0), Some(0.0));
        // Area: 1·1 + 0.75·1 + 0.5·2 = 2.75. Areas right of 1 and 2: 1.75 and 1; 1.75²/12 + 1/6.
        let mean = km.restricted_mean(4.0).unwrap();
        assert!((mean.mean - 2.75).abs() < 1e-12);
        assert!((mean.variance - (1.75_f64.powi(2) / 12.0 + 1.0 / 6.0)).abs() < 1e-12);
        // To 1.5: 1 + 0.75 · 0.5.
        assert!((km.restricted_mean(1.5).unwrap().mean - 1.375).abs() < 1e-12);
    }

    #[test]
    fn events_come_before_censorings_at_the_same_time() {
        // The job censored at 5 is at risk for the event at 5: S = 1/2, not 0.
        let km = KaplanMeier::right_censored(&[5.0, 5.0], &[false, true]).unwrap();
        assert_eq!(heights(&km), vec![(5.0, 2, 0.5)]);
    }

    #[test]
    fn what_the_curve_does_not_reach_is_unknown() {
        // Three of four censored at the end: S stays at 3/4.
        let km = KaplanMeier::right_censored(&[1.0, 9.0, 9.0, 9.0], &[true, false, false, false]).unwrap();
        assert_eq!(km.median(), None);
        assert_eq!(km.quantile(0.25), Some(1.0));
        assert_eq!(km.survival_at(9.0), Some(0.75));
        assert_eq!(km.survival_at(9.1), None);
        assert!(km.restricted_mean(10.0).is_none());
    }

    #[test]
    fn late_entries_join_the_risk_set_after_their_entry() {
        // A: from 0, ends 2. B: enters at age 1, ends 3. C: enters at age 2, ends 4.
        // At 2: A and B (C joins after 2): 1/2. At 3: B and C: 1/2 · 1/2. At 4: C alone: 0.
        let seen = |entry, time| Observation { entry, time, event: true };
        let km = KaplanMeier::fit(&[seen(None, 2.0), seen(Some(1.0), 3.0), seen(Some(2.0), 4.0)], 0.95).unwrap();
        assert_eq!(heights(&km), vec![(2.0, 2, 0.5), (3.0, 2, 0.25), (4.0, 1, 0.0)]);
    }

    #[test]
    fn unusable_observations_are_counted() {
        let seen = |entry, time| Observation { entry, time, event: true };
        let list =
            [seen(None, f64::NAN), seen(None, -1.0), seen(Some(3.0), 3.0), seen(Some(f64::NAN), 3.0), seen(None, 0.0)];
        let km = KaplanMeier::fit(&list, 0.9).unwrap();
        assert_eq!((km.dropped, km.observations, km.events), (4, 1, 1));
        assert_eq!(KaplanMeier::fit(&list[..4], 0.9), Err(SurvivalError::NoObservations { dropped: 4 }));
        assert_eq!(KaplanMeier::fit(&list, 1.0), Err(SurvivalError::Confidence));
        assert!(KaplanMeier::right_censored(&[1.0], &[]).is_err());
    }

    #[test]
    fn ninety_five_percent_is_1_96() {
        assert!((std::f64::consts::SQRT_2 * erfc_inv(0.05) - 1.959_963_984_540_054).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn without_censoring_it_is_one_minus_the_ecdf(times in prop::collection::vec(0_u32..60, 1..120)) {
            let times: Vec<f64> = times.into_iter().map(f64::from).collect();
            let km = KaplanMeier::right_censored(&times, &vec![true; times.len()]).unwrap();
            let ecdf = Ecdf::new(&times).unwrap();
            for x in 0..60 {
                let x = f64::from(x);
                prop_assert!((km.survival_at(x).unwrap() - (1.0 - ecdf.fraction_at_most(x))).abs() < 1e-12);
            }
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            prop_assert!((km.restricted_mean(60.0).unwrap().mean - mean).abs() < 1e-9);
        }

        #[test]
        fn agrees_with_the_definition(list in prop::collection::vec((0_u32..20, 1_u32..20, any::<bool>()), 1..60)) {
            let observations: Vec<Observation> = list
                .iter()
                .map(|(entry, stay, event)| Observation { entry: Some(f64::from(*entry)), time: f64::from(entry + stay), event: *event })
                .collect();
            let km = KaplanMeier::fit(&observations, 0.95).unwrap();
            let mut expected = 1.0;
            let mut steps = km.steps.iter();
            for t in 0..40 {
                let t = f64::from(t);
                let risk = observations.iter().filter(|o| o.entry.unwrap() < t && t <= o.time).count();
                let events = observations.iter().filter(|o| o.event && o.time == t).count();
                if events > 0 {
                    expected *= 1.0 - events as f64 / risk as f64;
                    let step = steps.next().unwrap();
                    prop_assert_eq!((step.time, step.at_risk, step.events), (t, risk as u64, events as u64));
                    prop_assert!((step.survival - expected).abs() < 1e-12);
                    if let (Some(lower), Some(upper)) = (step.lower, step.upper) {
                        prop_assert!(0.0 <= lower && lower <= step.survival && step.survival <= upper && upper <= 1.0);
                    }
                }
            }
            prop_assert!(steps.next().is_none());
        }
    }
}
