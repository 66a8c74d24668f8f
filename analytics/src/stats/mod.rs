//! Statistics over plain slices: nothing in here knows of jobs, frames or files.
//!
//! | module | holds |
//! |---|---|
//! | [`sum`] | compensated sums, mean, variance, shares |
//! | [`quantile`] | interpolated and weighted quantiles, [`Summary`] |
//! | [`ecdf`] | distribution functions, thinned for plots |
//! | [`survival`] | Kaplan-Meier with censoring and delayed entry |
//! | [`fit`] | maximum-likelihood families and their ranking |
//! | [`interval`] | 95 % intervals: of resamples, of means, of shares |
//! | [`concentration`] | Lorenz, Gini, top shares, imbalance |
//! | [`divisor`](mod@divisor) | greatest common divisors |
//! | [`arrival`] | burstiness of arrival times |
//! | [`rank`] | nearest ranks, which are one of the values |
//! | [`resample`] | bootstrap over blocks |
//! | [`sampled`] | integrals of samples with gaps, counters with resets |
//!
//! Every function is pure and its result depends on its input alone, a seed included: not on threads or hash order.
//! A statistic that the data do not determine is `None` or a typed error, never NaN.

pub mod arrival;
pub mod concentration;
pub mod divisor;
pub mod ecdf;
pub mod fit;
pub mod interval;
pub mod quantile;
pub mod rank;
pub mod resample;
pub mod sampled;
pub mod sum;
pub mod survival;

pub use arrival::{ArrivalError, Arrivals};
pub use concentration::{Concentration, Imbalance};
pub use divisor::divisor;
pub use ecdf::{CurvePoint, Ecdf};
pub use fit::{Distribution, Family, Fit, FitError, FitReport, fit_all, fit_report};
pub use quantile::Summary;
pub use sum::{NeumaierSum, share};
pub use survival::KaplanMeier;
