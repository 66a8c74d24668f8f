//! Shares of what can be borrowed, compared exactly.
//!
//! A share is a fraction of whole numbers, borrowed × 1000 over lendable × weight in thousandths; two are compared by cross multiplication. Worked number: 4 GPUs borrowed of 16
//! that can be lent are a share of 1/4, at weight 2 of 1/8.

use std::cmp::Ordering;

use super::{Cohorts, Usage};

/// Share of a member: what it borrows over what its parent could lend, and over its weight.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    borrowed: u128,
    /// Lendable × weight; 0 if any borrowing is too much.
    of: u128,
}

impl Share {
    /// Nothing borrowed.
    pub const ZERO: Self = Self { borrowed: 0, of: 1 };

    /// Whether nothing is borrowed.
    pub fn is_zero(self) -> bool {
        self.borrowed == 0
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        let infinite = |share: &Self| share.borrowed > 0 && share.of == 0;
        match (infinite(self), infinite(other)) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => (self.borrowed * other.of.max(1)).cmp(&(other.borrowed * self.of.max(1))),
        }
    }
}

impl Cohorts {
    /// The share of a member. O(flavors).
    pub fn share(&self, usage: &Usage, member: u16) -> Share {
        let Some(parent) = self.parent(member) else { return Share::ZERO };
        let flavors = 0..self.flavors.len() as u16;
        let borrowed: u128 = flavors.clone().map(|flavor| u128::from(self.borrowed(usage, member, flavor, 0))).sum();
        if borrowed == 0 {
            return Share::ZERO;
        }
        let lendable: u128 = flavors.map(|flavor| u128::from(self.potential(parent, flavor))).sum();
        Share { borrowed: borrowed * 1000, of: lendable * u128::from(self.members[usize::from(member)].weight_milli) }
    }
}
