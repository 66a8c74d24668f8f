//! Steps of an energy counter between two readings.
//!
//! A counter rises. Where it falls, it either ran over its last bit (a wrap) or began again (a reset: reboot, driver reload).
//! A fall is a wrap if the counter was so near to a known modulus that it could have reached it in the time, else a reset if
//! what it shows now could have been drawn in the time, else a reading that is in doubt. "Could" is at most [`SLACK`] times the
//! device's highest power, over the time and one second more (readings are not taken at the stamped moment).
//!
//! A register that counts whole kWh (or tenths) stands still and then jumps by a count, so that a count more is allowed.
//!
//! A modulus that could be passed in the time between readings tells nothing, as the times it was passed are unknown.
//!
//! O(moduli). Worked number: a 32-bit counter of millijoules wraps at 4,294,967.296 J; from 4,294,000 to 5,032.704 J in a
//! minute are 967.296 + 5,032.704 = 6,000 J, 100 W.

use crate::energy::model::GPU_MOST_W;

/// Times the highest power that a device may seem to draw before a reading is in doubt.
pub(in crate::energy) const SLACK: f64 = 2.0;

/// Moduli of counters of known make, joules: 2^32 µJ; 2^32 units of 2^-16 and of 2^-14 J (RAPL);
/// 2^32 mJ.
pub const WRAPS_J: [f64; 4] = [4_294.967_296, 65_536.0, 262_144.0, 4_294_967.296];
/// Moduli of registers of kWh with so many digits, joules: 1,000 kWh to 10^9 kWh.
pub const REGISTER_WRAPS_J: [f64; 7] = [3.6e9, 3.6e10, 3.6e11, 3.6e12, 3.6e13, 3.6e14, 3.6e15];

/// Step of a counter from one reading to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// A rise, joules.
    Rise(f64),
    /// A pass of the modulus, with the whole rise, joules.
    Wrap(f64),
    /// A restart, with the joules counted since.
    Reset(f64),
    /// A step that no device can have made.
    Doubt,
}

/// Judges a step from `before` to `after` joules in `dt_s` seconds by a device of at most `most_w`, whose counter goes in steps of
/// `count_j` joules.
pub(super) fn judge(before: f64, after: f64, dt_s: f64, most_w: f64, count_j: f64, wraps: &[f64]) -> Step {
    let most_j = SLACK * most_w * (dt_s + 1.0) + count_j;
    if after >= before {
        return if after - before <= most_j { Step::Rise(after - before) } else { Step::Doubt };
    }
    let wrapped = wraps.iter().find(|wrap| before <= **wrap && **wrap > most_j && **wrap - before + after <= most_j);
    match wrapped {
        Some(wrap) => Step::Wrap(wrap - before + after),
        None if after <= most_j => Step::Reset(after),
        None => Step::Doubt,
    }
}

/// Rise of a GPU's counter in `dt_s` seconds, joules; `None` where it began again, or no GPU can
/// have made that step.
pub fn counter_rise(before: f64, after: f64, dt_s: f64) -> Option<f64> {
    match judge(before, after, dt_s, GPU_MOST_W, 0.0, &WRAPS_J) {
        Step::Rise(joules) | Step::Wrap(joules) => Some(joules),
        Step::Reset(_) | Step::Doubt => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_apart() {
        let judged = |before, after| judge(before, after, 60.0, 400.0, 0.0, &WRAPS_J);
        assert_eq!(judged(1_000.0, 7_000.0), Step::Rise(6_000.0));
        // 2 · 400 · 61 = 48,800 J at most.
        assert_eq!(judged(0.0, 48_801.0), Step::Doubt);
        assert!(matches!(judged(4_294_000.0, 5_032.704), Step::Wrap(joules) if (joules - 6_000.0).abs() < 1e-6));
        // Far from any modulus.
        assert_eq!(judged(2_100_000.0, 50.0), Step::Reset(50.0));
        assert_eq!(judged(2_100_000.0, 2_000_000.0), Step::Doubt);
        // 4,294.967 J could be passed 11 times in the minute: a reset, not a wrap.
        assert_eq!(judged(4_294.0, 100.0), Step::Reset(100.0));
        // In a second it could not: 0.967 + 100 J.
        assert!(
            matches!(judge(4_294.0, 100.0, 1.0, 400.0, 0.0, &WRAPS_J), Step::Wrap(joules) if (joules - 100.967_296).abs() < 1e-9)
        );
        // A register of whole kWh goes from 4 to 5 within a minute, and from 99,999 kWh to 0.
        let register =
            |before: f64, after: f64| judge(before * 3.6e6, after * 3.6e6, 60.0, 2_000.0, 3.6e6, &REGISTER_WRAPS_J);
        assert_eq!(register(4.0, 5.0), Step::Rise(3.6e6));
        assert_eq!(register(99_999.0, 0.0), Step::Wrap(3.6e6));
        assert_eq!(register(4.0, 6.0), Step::Doubt);
    }
}
