//! Runs beyond their time limits, which cap a predicted distribution.
//!
//! Sites kill jobs at their limits, some at once, some after a grace, some not at all, and some users' jobs take long to die. So the excess
//! log(run / limit) of the last 500 jobs is remembered for each user and for all. The cap of level a is limit × e to the a quantile of the excess
//! (the user's from 30 jobs on, else that of all), and no less than the limit itself: half of a user's jobs run to a third of their limits, but a job of
//! which it is not known may be of the other half. A level that so few jobs cannot tell (the 99 % quantile of 50) has no cap.
//!
//! O(log 500) to learn, O(levels) to cap. Worked example: of 100 jobs 15 ran a tenth beyond: the 80 % level is capped at the limit, 90 % at 1.1 times it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::distribution::LEVELS;
use crate::recent::RecentScores;

/// Jobs remembered, of a user and of all.
const REMEMBERED: usize = 500;
/// Jobs a user needs to be capped by the user's own.
const OWN: usize = 30;
/// Users remembered: those beyond are capped by all.
const USERS: usize = 10_000;

/// Excesses over time limits.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Overruns {
    all: RecentScores,
    #[serde(with = "crate::feature::pairs")]
    users: HashMap<u32, RecentScores>,
}

impl Overruns {
    /// Learns from a job that ended so far beyond its limit, log; less than 0 within it.
    pub(crate) fn learn(&mut self, user: Option<u32>, excess: f32) {
        if !excess.is_finite() {
            return;
        }
        self.all.learn(excess, REMEMBERED);
        if let Some(user) = user.filter(|user| self.users.len() < USERS || self.users.contains_key(user)) {
            self.users.entry(user).or_default().learn(excess, REMEMBERED);
        }
    }

    /// Lowers the log runs at [`LEVELS`] to what the limit allows.
    pub(crate) fn cap(&self, user: Option<u32>, log_limit: f32, knots: &mut [f32; LEVELS.len()]) {
        let of_user = user.and_then(|user| self.users.get(&user)).filter(|excess| excess.len() >= OWN);
        let excess = of_user.unwrap_or(&self.all);
        for (knot, level) in knots.iter_mut().zip(LEVELS) {
            if let Some(excess) = excess.quantile(level) {
                *knot = knot.min(log_limit + excess.max(0.0));
            }
        }
    }
}
