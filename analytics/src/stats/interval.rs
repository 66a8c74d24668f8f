//! 95 % intervals of estimates, and the widths they are made of.
//!
//! | function | interval of |
//! |---|---|
//! | [`percentile`] | any figure, from its values over resamples: their 2.5 % and 97.5 % quantiles (Efron and Tibshirani, An Introduction to the Bootstrap, 1993) |
//! | [`student_t`] | a mean or a slope with normal errors of unknown spread, in standard errors |
//! | [`wilson`] | a share of independent yes-or-no results (Wilson, Journal of the American Statistical Association 22, 1927) |
//!
//! Which parts of a record a resample holds is drawn by [`resample`](super::resample).
//!
//! Worked number: the values 0, 1, ..., 40 of 41 resamples have the interval 1 to 39.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::quantile::quantiles_in_place;

/// Percentile interval of a figure from its values over resamples, which are put out of order and hold no NaN; `None` of none. O(n).
#[must_use]
pub fn percentile(values: &mut [f64]) -> Option<(f64, f64)> {
    match quantiles_in_place(values, &[0.025, 0.975]).as_slice() {
        [Some(low), Some(high)] => Some((*low, *high)),
        _ => None,
    }
}

/// Half the width of an interval, in standard errors: the 97.5 % quantile of Student's t. `None` if there is not a positive number of degrees of freedom.
#[must_use]
pub fn student_t(degrees: f64) -> Option<f64> {
    Some(StudentsT::new(0.0, 1.0, degrees).ok()?.inverse_cdf(0.975))
}

/// Wilson's interval of a `share` that was found of `count` results, within 0..=1; `z` is the normal quantile of its upper end, 1.96 for 95 %.
#[must_use]
pub fn wilson(share: f64, count: f64, z: f64) -> (f64, f64) {
    let square = z * z / count;
    let middle = (share + square / 2.0) / (1.0 + square);
    let reach = z / (1.0 + square) * ((share * (1.0 - share) + square / 4.0) / count).sqrt();
    ((middle - reach).max(0.0), (middle + reach).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn intervals_by_hand() {
        let mut values: Vec<f64> = (0..=40).rev().map(f64::from).collect();
        assert_eq!((percentile(&mut values), percentile(&mut [])), (Some((1.0, 39.0)), None));
        // Tables of t: 4.3027 for two degrees of freedom.
        assert!(student_t(2.0).is_some_and(|t| (t - 4.302_653).abs() < 1e-5));
        assert_eq!((student_t(0.0), student_t(f64::NAN)), (None, None));
        // None of 10: from 0 to z² / (n + z²) = 3.8416 / 13.8416.
        let (low, high) = wilson(0.0, 10.0, 1.96);
        assert!(low.abs() < 1e-12 && (high - 3.8416 / 13.8416).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_share_lies_in_its_interval_and_its_complement_has_the_mirrored_one(came in 0_u32..50, more in 1_u32..50, z in 0.1_f64..4.0) {
            let count = f64::from(came + more);
            let share = f64::from(came) / count;
            let ((low, high), (mirrored_low, mirrored_high)) = (wilson(share, count, z), wilson(1.0 - share, count, z));
            prop_assert!(0.0 <= low && low <= share + 1e-12 && share - 1e-12 <= high && high <= 1.0);
            prop_assert!((low + mirrored_high - 1.0).abs() < 1e-9 && (high + mirrored_low - 1.0).abs() < 1e-9);
        }
    }
}
