//! One job with a deadline, and what a tick of it costs: the contract that every policy, the programmes and the optimum keep to.
//!
//! Time runs in ticks of the availability trace, from the start of the job on. At the beginning of a tick the job sees whether a spot instance can be
//! had in this tick, and then holds one thing for the tick ([`Holding`]): nothing, a spot instance, or an on-demand instance. Spot can be held only in
//! ticks that have it; a spot instance is lost at the first tick without. Whoever takes another instance than the one held pays a **changeover**: it
//! runs and is paid for, but the work stands still. Work that is done stays done. The job ends within a tick once its work is done, and pays to that
//! moment. Costs are in spot milliseconds: one millisecond of spot costs 1, one of on-demand [`DeadlineJob::price_ratio`]. Where the price of spot moves
//! ([`ride_lanes`](crate::cloud::elastic::ride_lanes)), a millisecond of it costs the price of its tick over that at the start, which is also what the ratio is to.
//!
//! **Safety net.** Let w be the work left, L the time left, d the changeover and g the tick. A choice that leaves work w′ after this tick is *safe* if
//! w′ + d ≤ L − g: on-demand alone, begun at the next tick, still makes it. [`ride`](crate::cloud::elastic::ride) takes a choice that is not safe for on-demand. On-demand, once begun
//! in time, is always safe, so by induction no deadline is missed that on-demand alone would make from the start. All of it is in whole milliseconds.
//!
//! O(ticks). Worked example: 2 h of work, 3 h to the deadline, 12 min of changeover, ticks of 1 h, on-demand at three times the spot price, and spot in
//! the second hour only. To wait in the first hour leaves 2 h and needs 2 h 12 min, so on-demand begins at once: 48 min of work are done by the end of the
//! first hour. The second hour on spot would do 48 min, and leave 24 min for 1 h less 12 min: safe. The third hour is on-demand for 12 + 24 min. So
//! the cost is 3·60 + 60 + 3·36 = 348 spot minutes, where all on-demand is 3·132 = 396.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracecast_analytics::time::{DAY_MS, MINUTE_MS};

use crate::error::{Error, Result};

/// The longest time to a deadline: ten years.
const LONGEST_MS: i64 = 3650 * DAY_MS;

/// Holding of a job for a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Holding {
    /// Nothing: it waits.
    Idle,
    /// A spot instance.
    Spot,
    /// An on-demand instance.
    OnDemand,
}

impl Holding {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Idle => "wait",
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
        }
    }
}

/// What to do from the last tick of the data on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct FromNow {
    /// What to hold if spot can be had.
    pub if_up: Holding,
    /// What to hold if not.
    pub if_down: Holding,
    /// Whether spot could be had in the last tick.
    pub last_up: bool,
    /// How long to wait for spot before on-demand begins, if spot never comes, seconds.
    pub wait_at_most_s: f64,
    /// Latest moment at which on-demand must run, whatever the plan, seconds from now.
    pub latest_on_demand_s: f64,
}

impl FromNow {
    /// `spot, or wait while there is none`.
    pub fn begin_with(&self) -> String {
        match (self.if_up, self.if_down) {
            (up, down) if up == down => format!("{}, whether spot can be had or not", up.in_words()),
            (up, down) => format!("{} if spot can be had, else {}", up.in_words(), down.in_words()),
        }
    }
}

/// One job with a deadline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeadlineJob {
    /// Work, milliseconds on one instance.
    pub work_ms: i64,
    /// Time to the deadline, milliseconds.
    pub deadline_ms: i64,
    /// Time to take another instance, milliseconds.
    pub changeover_ms: i64,
    /// Price of on-demand over that of spot.
    pub price_ratio: f64,
}

impl DeadlineJob {
    /// A job of which the work is `slack` of the time to its deadline.
    ///
    /// # Errors
    /// If a figure makes no sense, or on-demand alone would miss the deadline.
    pub fn new(work_ms: i64, slack: f64, changeover_ms: i64, price_ratio: f64) -> Result<Self> {
        check(work_ms, changeover_ms, price_ratio)?;
        if !(slack > 0.0 && slack <= 1.0) {
            let remedy = "it is work over time to the deadline: more than 0 and at most 1";
            return Err(wrong("slack", slack.to_string(), remedy.to_owned()));
        }
        let least_ms = work_ms.saturating_add(changeover_ms);
        // A share of two whole numbers of milliseconds may lead back to a hair less than the second.
        let deadline_ms = (work_ms as f64 / slack + 1e-3).floor() as i64;
        if least_ms > deadline_ms {
            let remedy = format!(
                "work and one changeover take longer than to the deadline even on demand; ask for {:.4} or less",
                (work_ms as f64 / least_ms as f64 * 1e4).floor() / 1e4
            );
            return Err(wrong("slack that can be kept", slack.to_string(), remedy));
        }
        Self::within(work_ms, deadline_ms, changeover_ms, price_ratio)
    }

    /// A job with so much time to its deadline.
    ///
    /// # Errors
    /// Errors of [`DeadlineJob::new`].
    pub fn within(work_ms: i64, deadline_ms: i64, changeover_ms: i64, price_ratio: f64) -> Result<Self> {
        check(work_ms, changeover_ms, price_ratio)?;
        // Written as it is typed, and rounded up.
        let time = |ms: i64| match ms.saturating_add(MINUTE_MS - 1) / MINUTE_MS {
            minutes if minutes % 60 == 0 => format!("{}h", minutes / 60),
            minutes if minutes > 60 => format!("{minutes}min ({} h {} min)", minutes / 60, minutes % 60),
            minutes => format!("{minutes}min"),
        };
        if deadline_ms > LONGEST_MS {
            return Err(wrong("time to a deadline", time(deadline_ms), "ask for ten years at most".to_owned()));
        }
        let least_ms = work_ms.saturating_add(changeover_ms);
        if least_ms > deadline_ms {
            let remedy =
                format!("work and one changeover take {} even on demand; ask for that or more", time(least_ms));
            return Err(wrong("deadline that can be kept", time(deadline_ms), remedy));
        }
        Ok(Self { work_ms, deadline_ms, changeover_ms, price_ratio })
    }

    /// Cost of the job on-demand from beginning to end, spot milliseconds.
    pub fn on_demand_cost(&self) -> f64 {
        self.price_ratio * (self.work_ms + self.changeover_ms) as f64
    }

    /// Time that may be lost, milliseconds.
    pub fn spare_ms(&self) -> i64 {
        self.deadline_ms - self.work_ms
    }

    /// Ticks until the deadline, the last perhaps cut by it.
    pub fn ticks(&self, tick_ms: i64) -> usize {
        usize::try_from((self.deadline_ms - 1) / tick_ms.max(1) + 1).unwrap_or(0)
    }
}

fn wrong(what: &'static str, result: String, remedy: String) -> Error {
    Error::malformed(what, result, remedy)
}

/// Refuses figures that make no sense, whatever the deadline.
fn check(work_ms: i64, changeover_ms: i64, price_ratio: f64) -> Result<()> {
    if work_ms <= 0 {
        return Err(wrong("amount of work", format!("{work_ms} ms"), "write a time such as 48h".to_owned()));
    }
    if changeover_ms < 0 {
        return Err(wrong("changeover", format!("{changeover_ms} ms"), "write a time such as 12min".to_owned()));
    }
    if !(price_ratio >= 1.0 && price_ratio.is_finite()) {
        let remedy = "write how many times the spot price on-demand costs, at least 1";
        return Err(wrong("price ratio", price_ratio.to_string(), remedy.to_owned()));
    }
    Ok(())
}

/// What a policy sees at the beginning of a tick.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JobView {
    /// Time since the start, milliseconds.
    pub elapsed_ms: i64,
    /// Time to the deadline, milliseconds.
    pub left_ms: i64,
    /// Work left, milliseconds.
    pub work_ms: i64,
    /// Instance held from the tick before.
    pub holding: Holding,
    /// Time left of its changeover, milliseconds.
    pub setup_ms: i64,
    /// Whether a spot instance can be had in this tick.
    pub up: bool,
    /// Length of the tick, milliseconds.
    pub tick_ms: i64,
}

/// A policy: it is asked once a tick, in order, and sees nothing of the future.
pub trait Pilot {
    /// What to hold for the tick that begins. Spot where there is none counts as waiting.
    fn hold(&mut self, job: &DeadlineJob, view: &JobView) -> Holding;
}

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct JobRun {
    /// Cost, spot milliseconds.
    pub cost: f64,
    /// Whether the deadline passed before the work was done.
    pub missed: bool,
    /// Time on spot, milliseconds.
    pub spot_ms: i64,
    /// Time on-demand, milliseconds.
    pub on_demand_ms: i64,
    /// Changeovers begun.
    pub changeovers: usize,
    /// Spot instances lost.
    pub lost: usize,
    /// Tries to begin on spot that found none, where zones are not seen at every tick.
    pub failed: usize,
    /// Zones asked by probes.
    pub asked: usize,
    /// Spot that probes paid for, milliseconds.
    pub probed_ms: i64,
}

/// A policy that holds what a list says, tick by tick, and then waits.
#[derive(Debug, Clone)]
pub struct Script(pub std::vec::IntoIter<Holding>);

impl Pilot for Script {
    fn hold(&mut self, _: &DeadlineJob, _: &JobView) -> Holding {
        self.0.next().unwrap_or(Holding::Idle)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use super::*;
    use crate::cloud::elastic::{ride, ride_priced};

    const HOUR: i64 = 3_600_000;
    const MIN: i64 = 60_000;

    /// Spot wherever it can be had, else nothing.
    struct Spot;
    impl Pilot for Spot {
        fn hold(&mut self, _: &DeadlineJob, view: &JobView) -> Holding {
            if view.up { Holding::Spot } else { Holding::Idle }
        }
    }

    #[test]
    fn the_worked_example() {
        let job = DeadlineJob::new(2 * HOUR, 2.0 / 3.0, 12 * MIN, 3.0).unwrap();
        assert_eq!((job.deadline_ms, job.ticks(HOUR)), (3 * HOUR, 3));
        let mut held = Vec::new();
        let run = ride(&mut Spot, &[false, true, false], HOUR, &job, &mut |holding| held.push(holding));
        assert_eq!(held, [Holding::OnDemand, Holding::Spot, Holding::OnDemand]);
        assert!(!run.missed);
        assert_eq!((run.cost, run.changeovers, run.lost), ((348 * MIN) as f64, 3, 1));
        assert_eq!(job.on_demand_cost(), (396 * MIN) as f64);
    }

    /// The job above, with spot at half the price of the start in the second hour: 30 spot minutes
    /// fewer.
    #[test]
    fn a_price_that_moves_is_paid_as_it_is() {
        let job = DeadlineJob::new(2 * HOUR, 2.0 / 3.0, 12 * MIN, 3.0).unwrap();
        let run = ride_priced(&mut Spot, &[false, true, false], &[1.0, 0.5, 1.0], HOUR, &job, &mut |_| ());
        assert_eq!((run.cost, run.missed), ((318 * MIN) as f64, false));
    }

    #[test]
    fn a_deadline_that_on_demand_just_makes_is_kept_to_the_millisecond() {
        // 1 h of work and 12 min of changeover in 72 min: on-demand from the first tick, whatever is asked for; ticks of 7 min do not divide it.
        let job = DeadlineJob { work_ms: HOUR, deadline_ms: 72 * MIN, changeover_ms: 12 * MIN, price_ratio: 3.0 };
        let run = ride(&mut Spot, &[true; 11], 7 * MIN, &job, &mut |_| ());
        assert!(!run.missed);
        assert_eq!((run.on_demand_ms, run.spot_ms), (72 * MIN, 0));
        let late = DeadlineJob { deadline_ms: 72 * MIN - 1, ..job };
        assert!(ride(&mut Spot, &[false; 11], 7 * MIN, &late, &mut |_| ()).missed);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let said = |job: Result<DeadlineJob>| job.map(|_| ()).unwrap_err().to_string();
        assert!(said(DeadlineJob::new(HOUR, 1.0, 12 * MIN, 3.0)).contains("ask for 0.8333 or less"));
        assert!(said(DeadlineJob::new(0, 0.5, 0, 3.0)).contains("write a time such as 48h"));
        assert!(said(DeadlineJob::new(HOUR, 1.2, 0, 3.0)).contains("at most 1"));
        assert!(said(DeadlineJob::new(HOUR, 0.5, 0, f64::NAN)).contains("at least 1"));
        assert!(DeadlineJob::new(HOUR, 1.0, 0, 3.0).is_ok());
        // Ten years are the most; a slack near 0 asks for more than there are milliseconds.
        assert!(said(DeadlineJob::new(HOUR, 1e-12, 0, 3.0)).contains("ten years at most"));
        // A slack that is of two times leads back to them.
        for deadline_ms in HOUR + 1..HOUR + 2_000 {
            let slack = HOUR as f64 / deadline_ms as f64;
            assert_eq!(DeadlineJob::new(HOUR, slack, 0, 3.0).unwrap().deadline_ms, deadline_ms);
        }
        // A deadline is taken as it is, to the millisecond.
        assert!(DeadlineJob::within(HOUR, 226 * MIN, 166 * MIN, 3.0).is_ok());
        assert!(said(DeadlineJob::within(HOUR, 226 * MIN - 1, 166 * MIN, 3.0)).contains("ask for that or more"));
    }
}
