//! The incentive to share: no VC waits longer in a pool than on nodes of its own.
//!
//! A VC is wronged if its mean or 95 % wait in a half of the time is longer than there by more than a share of it and a minute; of fewer jobs than a bound nothing is said. One rule for what
//! `plan queues` allows and for what `plan nodes` says of a pool.
//!
//! O(1). Worked number: a mean wait of 10 min alone may become 11.5 min in a pool, and no more.

use tracecast_replay::compare::Merit;

/// Tolerance by which a VC may wait longer than in a private cluster: as a share of that wait, and
/// beyond, seconds.
pub const SLACK: (f64, f64) = (0.05, 60.0);
/// Fewest jobs of a VC that are judged.
pub const FEWEST_OF_VC: usize = 20;

/// Whether waits are longer than those of the same jobs in a private cluster, by more than the
/// slack.
pub fn is_longer(of: &Merit, alone: &Merit) -> bool {
    let longer = |a: f64, b: f64| a > b * (1.0 + SLACK.0) + SLACK.1;
    longer(of.mean_wait_s, alone.mean_wait_s) || longer(of.p95_wait_s, alone.p95_wait_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_number() {
        let waits = |mean_wait_s: f64, p95_wait_s: f64| Merit { mean_wait_s, p95_wait_s };
        let alone = waits(600.0, 0.0);
        assert!(!is_longer(&waits(690.0, 60.0), &alone));
        assert!(is_longer(&waits(691.0, 0.0), &alone) && is_longer(&waits(0.0, 61.0), &alone));
    }
}
