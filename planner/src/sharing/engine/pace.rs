//! How fast two jobs on a GPU are: as they were measured, with the first of them guaranteed, or in turns. Part of the contract of [`super`].
//!
//! With s the measured speed of the first on the GPU beside the second, and t that of the second beside the first, in millionths:
//!
//! | pace | speed of the first | of the second |
//! |---|---|---|
//! | together | s | t |
//! | guaranteed, with s ≥ `least` | s | t |
//! | guaranteed, with s < `least` | `least` | ⌊t (1,000,000 − `least`) / (1,000,000 − s)⌋ |
//! | fair turns | 500,000 | 500,000 |
//! | least attained, who has run less | 1,000,000, until it has run as long as the other | 0 until then |
//! | least attained, from then on | 500,000 | 500,000 |
//!
//! The **first** is who was there before the other came; who is left behind by a first is first itself.
//!
//! **Guaranteed** is AntMan (Xiao et al., OSDI 2020): the first is a resource-guarantee job, the second an opportunistic one. The second is held back. It runs in a share f of the
//! time, and in the rest the first runs as alone. So the first makes 1 − f (1 − s), the second f t, and f is the greatest with which the first makes `least`. AntMan holds back single
//! kernels by the time that iterations take, and puts them into gaps of the first where they cost nothing; how fast a job is in gaps alone nobody measured, so a share of time stands
//! for it, and the right share is found at once.
//!
//! **Turns** are Salus (Yu and Chowdhury, MLSys 2020): iterations of both alternate, each alone on the GPU, and to switch costs nothing. No measured speed has a part, only whether both fit. A turn is
//! taken to be short beside a millisecond. *Fair* is its FAIR. Its SRTF needs what is left of each job, which nobody knows who replays a record: *least attained* takes
//! in its place what each has done. What counts as run is progress: the run alone less what is left of it. Who has run less when the two meet goes first; with as much, both begin with equal turns. The two are
//! even at the first whole millisecond at which it has run at least as long as the other; they stay so until one leaves.
//!
//! O(1). Worked numbers: s = 0.6, t = 0.5, `least` 0.95. The second runs in 0.05 / 0.4 = 1/8 of the time, and makes 0.0625. In turns a job that comes after the other has run for 10 s has the GPU for 10 s.

use super::ALONE;

/// How fast two jobs on a GPU are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Both at once, as fast as was measured.
    #[default]
    Together,
    /// The first keeps a speed, and the second has what is left.
    Guaranteed {
        /// What the first keeps, millionths of its speed alone.
        least: u32,
    },
    /// In turns of equal length, each alone.
    FairTurns,
    /// In turns: who has run less goes first, until both have run alike.
    LeastAttained,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Turn {
    /// Both alternate.
    #[default]
    Both,
    /// The first job on the GPU.
    First,
    /// The second job on the GPU.
    Second,
}

impl Pace {
    /// Whose turn it is when two meet that have run for so long, in millionths of a millisecond, and how many milliseconds it lasts; no time where both alternate.
    pub(super) fn turn(self, [first, second]: [i64; 2]) -> (Turn, i64) {
        let lasts = (first.abs_diff(second)).div_ceil(u64::from(ALONE)) as i64;
        match self {
            Self::LeastAttained if first < second => (Turn::First, lasts),
            Self::LeastAttained if first > second => (Turn::Second, lasts),
            _ => (Turn::Both, 0),
        }
    }

    /// Speeds of the first and the second, by their measured ones, millionths.
    pub(super) fn speeds(self, measured: [u32; 2], turn: Turn) -> [u32; 2] {
        let [first, second] = measured;
        match (self, turn) {
            (Self::Guaranteed { least }, _) if first < least.min(ALONE) => {
                // Less than one, as `first` is below `least`: so the product stays within 32 bits.
                let held_back = u64::from(second) * u64::from(ALONE - least.min(ALONE)) / u64::from(ALONE - first);
                [least.min(ALONE), held_back as u32]
            }
            (Self::Together | Self::Guaranteed { .. }, _) => measured,
            (Self::LeastAttained, Turn::First) => [ALONE, 0],
            (Self::LeastAttained, Turn::Second) => [0, ALONE],
            (Self::FairTurns, _) | (Self::LeastAttained, Turn::Both) => [ALONE / 2; 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_numbers() {
        let kept = Pace::Guaranteed { least: 950_000 };
        assert_eq!(kept.speeds([600_000, 500_000], Turn::Both), [950_000, 62_500]);
        // Who is hardly slowed needs no protection; who is to keep everything leaves nothing.
        assert_eq!(kept.speeds([970_000, 500_000], Turn::Both), [970_000, 500_000]);
        assert_eq!(Pace::Guaranteed { least: ALONE }.speeds([999_999, 500_000], Turn::Both), [ALONE, 0]);
        let attained = Pace::LeastAttained;
        assert_eq!(attained.turn([10_000_000_001, 0]), (Turn::Second, 10_001));
        assert_eq!(attained.turn([0, 3_000_000]), (Turn::First, 3));
        assert_eq!((attained.turn([7, 7]), Pace::FairTurns.turn([7, 0])), ((Turn::Both, 0), (Turn::Both, 0)));
        assert_eq!(attained.speeds([1, 2], Turn::Second), [0, ALONE]);
    }

    proptest! {
        #[test]
        fn the_first_keeps_its_speed_and_turns_make_one(s in 1u32..1_500_000, t in 1u32..1_500_000, more in 0u32..500_000, least in 0..=ALONE) {
            let kept = Pace::Guaranteed { least };
            let [first, second] = kept.speeds([s, t], Turn::Both);
            prop_assert!(first >= s.max(least) && second <= t);
            // The less it slows the first, the more the second may run.
            prop_assert!(kept.speeds([s + more, t], Turn::Both)[1] >= second);
            // A share of time, to a millionth: what both lose of it is the same share.
            if s < least {
                let share = f64::from(ALONE - least) / f64::from(ALONE - s);
                prop_assert!((f64::from(second) - share * f64::from(t)).abs() <= 1.0);
            }
            for turn in [Turn::Both, Turn::First, Turn::Second] {
                for pace in [Pace::FairTurns, Pace::LeastAttained] {
                    prop_assert_eq!(pace.speeds([s, t], turn).iter().sum::<u32>(), ALONE);
                }
            }
        }
    }
}
