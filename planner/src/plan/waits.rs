//! Waits of jobs, and the quantile that targets are for.
//!
//! O(jobs). Worked example: of twenty waits the 95 % quantile by nearest rank is the second longest.

/// The share of the jobs that the target is for.
pub const TAIL: f64 = 0.95;
/// Fewest jobs of a size class that are judged.
pub const FEWEST_OF_CLASS: usize = 20;
/// The wait of a job that never runs.
pub const NEVER: i64 = i64::MAX;

/// The quantile by nearest rank of waits in milliseconds, seconds: the least that at least this share waits no longer than. `None` if that job never
/// ran, or there is none.
pub fn nearest_rank_s(waits_ms: &[i64], share: f64) -> Option<f64> {
    let rank = ((waits_ms.len() as f64 * share - 1e-9).ceil().max(1.0) as usize).checked_sub(1)?;
    let mut waits = waits_ms.to_vec();
    if rank >= waits.len() {
        return None;
    }
    let (_, wait, _) = waits.select_nth_unstable(rank);
    (*wait != NEVER).then_some(*wait as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_ranks() {
        let waits: Vec<i64> = (1..=20).map(|wait| wait * 1000).collect();
        assert_eq!(
            (nearest_rank_s(&waits, 0.95), nearest_rank_s(&waits, 0.5), nearest_rank_s(&[], 0.5)),
            (Some(19.0), Some(10.0), None)
        );
        assert_eq!(nearest_rank_s(&[5, NEVER], 0.95), None);
    }
}
