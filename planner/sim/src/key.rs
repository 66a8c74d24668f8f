//! Sort keys of jobs: one whole number, so that every order is total and the same on every machine.
//!
//! Orders by whole numbers (submit time, GPUs) use them as they are. Orders by real numbers use the number's bits, arranged
//! so that they sort as the number does, with the last 20 of its 52 fraction bits rounded away: two sums of the same terms
//! in another order differ by about 2⁻⁵² of their size, and a key must not turn on that. Worked number: 1.0 and
//! 1.0 + 2⁻⁴⁰ have the same key; 1.0 and 1.0 + 2⁻³¹ do not. Predictions and scores are given, not summed up, and count to the last bit.

/// A sort key; the lowest is served first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(pub i64);

/// Fraction bits that are rounded away.
const DROPPED: u32 = 20;

impl Key {
    /// The key of a real number that is given and not summed up, unrounded. Infinities sort at the ends; what is not a number sorts last.
    pub fn exact(value: f64) -> Self {
        if value.is_nan() {
            return Self(i64::MAX);
        }
        let magnitude = (value + 0.0).abs().to_bits().cast_signed();
        Self(if value < 0.0 { -magnitude } else { magnitude })
    }

    /// The key of a real number. Infinities sort at the ends; what is not a number sorts last.
    pub fn new(value: f64) -> Self {
        if value.is_nan() {
            return Self(i64::MAX);
        }
        // Both zeros are one.
        let bits = (value + 0.0).abs().to_bits();
        let rounded = (bits + (1 << (DROPPED - 1))) >> DROPPED;
        let magnitude = i64::try_from(rounded).unwrap_or(i64::MAX);
        Self(if value < 0.0 { -magnitude } else { magnitude })
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn keys_sort_as_their_numbers_do() {
        let numbers = [f64::NEG_INFINITY, -1e300, -2.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 1.5, 2.0, 1e300, f64::INFINITY];
        assert!(numbers.windows(2).all(|pair| Key::new(pair[0]) < Key::new(pair[1])));
        assert!(numbers.windows(2).all(|pair| Key::exact(pair[0]) < Key::exact(pair[1])));
        assert_eq!(Key::exact(0.0), Key::exact(-0.0));
        assert!(Key::exact(1.0) < Key::exact(1.0 + f64::EPSILON));
        assert_eq!(Key::new(0.0), Key::new(-0.0));
        assert!(Key::new(f64::INFINITY) < Key::new(f64::NAN));
    }

    #[test]
    fn the_last_bits_of_a_sum_do_not_count() {
        assert_eq!(Key::new(0.1 + 0.2), Key::new(0.3));
        assert_eq!(Key::new(1.0), Key::new(1.0 + 2f64.powi(-40)));
        assert!(Key::new(1.0) < Key::new(1.0 + 2f64.powi(-31)));
    }
}
