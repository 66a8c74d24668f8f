//! Why a fit could not be made. Each reason is a property of the data that a report can print; none is a NaN in disguise.
//!
//! Worked number: nine values that are not censored are [`FitError::TooFew`] with 9 of 10 needed.

use schemars::JsonSchema;
use serde::Serialize;

/// Why a family could not be fitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FitError {
    /// Values and censoring flags of different lengths.
    #[error("{values} values but {flags} censoring flags")]
    LengthMismatch {
        /// Number of values.
        values: usize,
        /// Number of flags.
        flags: usize,
    },
    /// Infinite values.
    #[error("{count} values are infinite")]
    NotFinite {
        /// Number of infinite values.
        count: u64,
    },
    /// Negative values.
    #[error("{count} values are negative")]
    Negative {
        /// Number of negative values.
        count: u64,
    },
    /// Zeros, where the family needs positive values.
    #[error("{count} values are zero and the family is for positive ones")]
    Zeros {
        /// Number of zeros.
        count: u64,
    },
    /// Too few values that are not censored.
    #[error("{ended} values that are not censored, fewer than {needed}")]
    TooFew {
        /// Values that are not censored.
        ended: u64,
        /// Fewest that a fit may rest on.
        needed: u64,
    },
    /// All values that are not censored are the same.
    #[error("all values are equal")]
    AllEqual,
    /// No value near zero, so a point mass has nothing to describe.
    #[error("no value is below 1")]
    NoZeros,
    /// No tail long enough.
    #[error("no tail with {needed} different values that are not censored")]
    NoTail {
        /// Fewest that a tail may rest on.
        needed: u64,
    },
    /// A component of the mixture vanished: the data show one component.
    #[error("one of the two components vanished")]
    Collapsed,
    /// The likelihood has no maximum that the method can reach.
    #[error("the likelihood has no finite maximum")]
    Diverged,
}
