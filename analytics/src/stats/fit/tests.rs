use super::distribution::tests::examples;
use super::*;
use proptest::prelude::*;

fn complete(values: &[f64]) -> FitReport {
    fit_report(values, &vec![false; values.len()]).unwrap()
}

#[test]
fn exponential_scores_by_hand() {
    // Fifty ends at 5 and fifty at 15: rate 0.1, ln L = 100 ln 0.1 - 0.1 · 1000 = -330.2585; AIC 2 + 660.517.
    let values = [vec![5.0; 50], vec![15.0; 50]].concat();
    let fit = fit_family(Family::Exponential, &values, &[false; 100]).unwrap();
    assert!((fit.param("rate").unwrap() - 0.1).abs() < 1e-15);
    assert!((fit.log_likelihood + 330.258_509).abs() < 1e-5);
    assert!((fit.aic - 662.517_019).abs() < 1e-5);
    assert!((fit.bic - (100.0_f64.ln() + 660.517_019)).abs() < 1e-5);
    // F(5) = 1 - exp(-0.5) = 0.3935 against 0 before and 0.5 after; F(15) = 0.7769 against 0.5 and 1: 0.3935 is the largest.
    assert!((fit.ks - (1.0 - (-0.5_f64).exp())).abs() < 1e-12);
    assert_eq!((fit.n, fit.n_fitted, fit.censored, fit.converged), (100, 100, 0, true));
}

#[test]
fn the_family_that_made_the_data_wins() {
    for distribution in examples() {
        // A lognormal, gamma or exponential sample is also described by a family that contains it; AIC charges for that.
        let report = complete(&grid(&distribution, 3000));
        let first = &report.fits[0];
        let true_fit = report.fits.iter().find(|f| f.family == distribution.family()).unwrap();
        assert!(true_fit.aic - first.aic < 4.0, "{distribution:?} lost to {:?}", first.family);
        assert!(true_fit.ks < 0.01, "{distribution:?}: {}", true_fit.ks);
    }
}

#[test]
fn censored_samples_keep_their_quantiles() {
    let distribution = &examples()[3];
    let values = grid(distribution, 2000);
    let limit = distribution.quantile(0.7).unwrap();
    let cut: Vec<f64> = values.iter().map(|x| x.min(limit)).collect();
    let flags: Vec<bool> = values.iter().map(|x| *x > limit).collect();
    let fit = fit_family(Family::Lognormal, &cut, &flags).unwrap();
    assert_eq!((fit.n, fit.censored), (2000, 600));
    for p in [0.1, 0.5, 0.9] {
        assert!((fit.quantile(p).unwrap() / distribution.quantile(p).unwrap() - 1.0).abs() < 0.01);
    }
    // Taking the censored values for ends would put the 90 % quantile at the limit.
    let naive = fit_family(Family::Lognormal, &cut, &vec![false; cut.len()]).unwrap();
    assert!(naive.quantile(0.9).unwrap() < 0.8 * distribution.quantile(0.9).unwrap());
    // The KS distance is measured against Kaplan-Meier, which the censored tail does not bend.
    assert!(fit.ks < 0.01);
}

#[test]
fn zeros_make_a_two_part_fit() {
    let distribution = Distribution::Weibull { shape: 0.7, scale: 2000.0 };
    let mut values: Vec<f64> = grid(&distribution, 3000).into_iter().filter(|x| *x >= 1.0).collect();
    let above = values.len();
    values.extend(vec![0.0; 1000]);
    let report = complete(&values);
    // One per continuous family; a Weibull made the rest.
    assert_eq!(report.fits.len(), 6);
    assert!(report.fits.iter().all(|f| f.family == Family::TwoPart));
    assert_eq!(report.fits[0].base, Some(Family::Weibull));
    let fit = &report.fits[0];
    assert_eq!((fit.family, fit.n), (Family::TwoPart, values.len() as u64));
    let share = 1000.0 / (1000.0 + above as f64);
    assert!((fit.param("zero_share").unwrap() - share).abs() < 1e-12);
    assert!((fit.cdf(0.0) - share).abs() < 1e-12);
    assert_eq!(fit.quantile(0.5 * share), Some(0.0));
    assert!(fit.ks < 0.02);
    let zeros = report.failures.iter().filter(|f| f.error == FitError::Zeros { count: 1000 }).count();
    assert_eq!(zeros, 6);
    // ln L = 1000 ln p + m ln (1 - p) + ln L of the rest alone.
    let rest = fit_family(fit.base.unwrap(), &values[..above], &vec![false; above]).unwrap();
    let expected = 1000.0 * share.ln() + above as f64 * (1.0 - share).ln() + rest.log_likelihood;
    assert!((fit.log_likelihood / expected - 1.0).abs() < 1e-12);
}

#[test]
fn what_cannot_be_fitted_says_why() {
    let reasons = |values: &[f64], flags: &[bool]| {
        let report = fit_report(values, flags).unwrap();
        assert!(report.fits.is_empty() && report.pareto_tail.is_none());
        report.failures
    };
    let few = reasons(&[1.0, 2.0, 3.0], &[false; 3]);
    assert_eq!(few.len(), 8);
    assert_eq!(few[0], FitFailure { family: Family::Exponential, error: FitError::TooFew { ended: 3, needed: 10 } });
    assert_eq!(reasons(&[5.0; 40], &[false; 40])[0].error, FitError::AllEqual);
    assert_eq!(reasons(&[5.0; 40], &[true; 40])[0].error, FitError::TooFew { ended: 0, needed: 10 });
    assert_eq!(reasons(&[], &[])[0].error, FitError::TooFew { ended: 0, needed: 10 });
    assert_eq!(fit_report(&[1.0], &[]), Err(FitError::LengthMismatch { values: 1, flags: 0 }));
    assert_eq!(fit_report(&[-1.0, 2.0], &[false; 2]), Err(FitError::Negative { count: 1 }));
    assert_eq!(fit_report(&[f64::INFINITY], &[false]), Err(FitError::NotFinite { count: 1 }));
    assert!(fit_all(&[1.0], &[]).is_empty());
}

#[test]
fn unknown_values_are_left_out() {
    let mut values = grid(&examples()[0], 100);
    let plain = fit_family(Family::Weibull, &values, &[false; 100]).unwrap();
    values.push(f64::NAN);
    assert_eq!(fit_family(Family::Weibull, &values, &[false; 101]).unwrap(), plain);
}

#[test]
fn a_million_values_are_thinned_and_say_so() {
    let distribution = &examples()[3];
    let values = grid(distribution, 400_000);
    let fit = fit_family(Family::Lognormal, &values, &vec![false; values.len()]).unwrap();
    assert_eq!((fit.n, fit.n_fitted), (400_000, 200_000));
    assert!((fit.param("mu").unwrap() - 6.0).abs() < 1e-3);
    // Whole seconds have few distinct values and need no thinning.
    let seconds: Vec<f64> = values.iter().map(|x| x.clamp(1.0, 1e5).round()).collect();
    let fit = fit_family(Family::Lognormal, &seconds, &vec![false; seconds.len()]).unwrap();
    assert_eq!((fit.n, fit.n_fitted), (400_000, 400_000));
}

#[test]
fn thinned_fits_are_compared_at_one_size() {
    // A third of the values lies below 1, so the rest alone has fewer than 200 000 distinct values and is not thinned.
    let distribution = Distribution::Weibull { shape: 1.0, scale: 2.5 };
    let values = grid(&distribution, 240_000);
    let report = complete(&values);
    assert!(report.fits.iter().all(|f| f.n == 240_000 && f.n_fitted == 200_000));
    assert_eq!(report.fits[0].family, Family::Exponential);
    let two = report.fits.iter().find(|f| f.family == Family::TwoPart).unwrap();
    // By hand, per value and with an exponential of mean m for the rest (mean 3.5 = 1 + 2.5, as it has no memory):
    // the best family of the rest is at least as good.
    let p = two.param("zero_share").unwrap();
    let bound = p * p.ln() + (1.0 - p) * ((1.0 - p).ln() - 3.5_f64.ln() - 1.0);
    assert!(two.log_likelihood / 200_000.0 > bound - 1e-3 && two.log_likelihood / 200_000.0 < bound + 0.5);
}

#[test]
fn serialised_output_names_families_and_parameters() {
    let values = grid(&examples()[0], 100);
    let fit = fit_family(Family::Exponential, &values, &[false; 100]).unwrap();
    let json = serde_json::to_value(&fit).unwrap();
    assert_eq!(json["family"], "exponential");
    assert_eq!(json["params"][0]["name"], "rate");
    assert!(json.get("distribution").is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn fits_are_finite_sorted_and_deterministic(data in prop::collection::vec((0.0_f64..1e6, any::<bool>()), 0..60), zeros in any::<bool>()) {
        let values: Vec<f64> = data.iter().map(|d| if zeros { d.0.floor() % 5.0 } else { d.0 }).collect();
        let flags: Vec<bool> = data.iter().map(|d| d.1).collect();
        let report = fit_report(&values, &flags).unwrap();
        // Every family is either fitted or says why not.
        let fitted = report.fits.iter().chain(&report.pareto_tail).map(|f| f.family);
        let mut families: Vec<Family> = fitted.chain(report.failures.iter().map(|f| f.family)).collect();
        families.sort_unstable();
        families.dedup_by(|a, b| a == b && *a == Family::TwoPart);
        prop_assert_eq!(families.len(), 8);
        prop_assert!(report.fits.windows(2).all(|w| w[0].aic <= w[1].aic));
        for fit in report.fits.iter().chain(&report.pareto_tail) {
            prop_assert!(fit.aic.is_finite() && fit.bic.is_finite() && (0.0..=1.0).contains(&fit.ks));
            let mut last = 0.0;
            for p in [0.01, 0.3, 0.6, 0.99] {
                if let Some(x) = fit.quantile(p) {
                    prop_assert!(x >= last && fit.cdf(x) >= p - 1e-6, "{:?} at {}", fit, p);
                    last = x;
                }
            }
        }
        // The order of the input does not matter.
        let (mut values, mut flags) = (values, flags);
        values.reverse();
        flags.reverse();
        prop_assert_eq!(fit_report(&values, &flags).unwrap(), report);
    }
}
