//! The search for the weights of an ensemble, in tenths.
//!
//! The best member alone is the start. Then the tenth that helps most is moved from one member to another, until none helps. It is a descent: it
//! ends in weights that no single move betters, which need not be the best of all. O(moves × members² × cost of a loss), in parallel over moves;
//! ties go to the first, so the thread count changes nothing.
//!
//! Worked example: the loss of two members is (weight of the first − 7)². From the second alone (0, 10), with 49 against 9, the first alone is the
//! better start, and three moves lead to 7 and 3 tenths.

use rayon::prelude::*;

/// Smallest gain that counts.
const LEAST_GAIN: f64 = 1e-9;

/// Tenths of each of some members with the least `loss` that single moves lead to; `None` if there are no members.
pub fn tenths(members: usize, loss: impl Fn(&[u32]) -> f64 + Sync) -> Option<Vec<u32>> {
    let alone = |member: usize| (0..members).map(|other| if other == member { 10 } else { 0 }).collect::<Vec<u32>>();
    let mut best = (0..members).map(alone).min_by(|a, b| loss(a).total_cmp(&loss(b)))?;
    let mut least = loss(&best);
    loop {
        let moved = |(from, to): (usize, usize)| -> Option<Vec<u32>> {
            let mut moved = best.clone();
            let taken = moved.get_mut(from).filter(|weight| **weight > 0)?;
            *taken -= 1;
            *moved.get_mut(to)? += 1;
            Some(moved)
        };
        let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
        let moves: Vec<Vec<u32>> = pairs.filter(|(from, to)| from != to).filter_map(moved).collect();
        let losses: Vec<f64> = moves.par_iter().map(|moved| loss(moved)).collect();
        match moves.into_iter().zip(losses).min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((moved, loss)) if loss < least - LEAST_GAIN => (best, least) = (moved, loss),
            _ => return Some(best),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let loss = |tenths: &[u32]| (f64::from(tenths[0]) - 7.0).powi(2);
        assert_eq!(tenths(2, loss), Some(vec![7, 3]));
        assert_eq!(tenths(1, loss), Some(vec![10]));
        assert_eq!(tenths(0, |_| 0.0), None);
    }
}
