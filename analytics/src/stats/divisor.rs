//! The greatest number that divides two.
//!
//! By Euclid; O(log a). Worked example: of 12 and 18 it is 6, and of 12 and 0 it is 12.

use std::ops::Rem;

/// The greatest common divisor.
pub fn divisor<N: Copy + Default + PartialEq + Rem<Output = N>>(a: N, b: N) -> N {
    if b == N::default() { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        assert_eq!([divisor(12, 18), divisor(18, 12), divisor(12, 0), divisor(0, 12)], [6, 6, 12, 12]);
    }
}
