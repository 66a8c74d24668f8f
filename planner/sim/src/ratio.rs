//! Fractions of whole numbers, compared exactly.
//!
//! Worked number: 2/3 is less than 3/4, as 2 × 4 < 3 × 3.

use std::cmp::Ordering;

/// A fraction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ratio(pub(crate) u64, pub(crate) u64);

impl PartialEq for Ratio {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (u128::from(self.0) * u128::from(other.1), u128::from(other.0) * u128::from(self.1));
        a.cmp(&b)
    }
}
