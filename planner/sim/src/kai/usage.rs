//! Usage of queues in a window of time, over what was in service in it.
//!
//! With g(s) what a queue holds at s, c(s) what is in service, b the beginning of the window and h the half-life, its usage at t is
//!
//! U = ∫ᵇᵗ g(s)·2^(−(t−s)/h) ds / ∫ᵇᵗ c(s)·2^(−(t−s)/h) ds, and without a half-life the same without the powers; 0 where nothing was in service.
//!
//! A window *slides* (b = t − size) or *tumbles* (b is the last of the moments start, start + size, start + 2·size … before t; nothing counts before the start). b is at least 0, when the replay begins. Both integrals are
//! those to t less those to b, decayed to t: of each queue what was spent is kept twice ([`Spent`]), as of now and as of the window's beginning, which the changes reach later. U is rounded to 2⁻³².
//!
//! It is measured at the multiples of the fetch interval alone. O(1) for a change, O(queues + changes) for a measurement. Worked number, KAI's own: 24 GPU-hours used of a cluster of 10 GPUs in a window of 10 hours
//! are a usage of 0.24.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::spent::Spent;

/// One, in the units of usage.
pub(crate) const ONE: u64 = 1 << 32;
/// A usage that is beyond all measure.
const MOST: f64 = 256.0;

/// Window in which usage counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageWindow {
    /// Window of so many milliseconds up to now.
    Sliding {
        /// Milliseconds.
        size_ms: i64,
    },
    /// Window from the last of the moments that are a whole number of sizes after the start.
    Tumbling {
        /// The start, milliseconds from the origin of the replay.
        start_ms: i64,
        /// Milliseconds.
        size_ms: i64,
    },
}

/// Rule of the usage that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRule {
    /// The window.
    pub window: UsageWindow,
    /// The time after which usage is worth half, milliseconds; usage does not decay if `None`.
    pub half_life_ms: Option<i64>,
    /// How often usage is measured, milliseconds.
    pub fetch_ms: i64,
}

impl UsageRule {
    /// KAI's own window: a week that slides, without decay, measured each minute.
    pub const WEEK: Self =
        Self { window: UsageWindow::Sliding { size_ms: 7 * 86_400_000 }, half_life_ms: None, fetch_ms: 60_000 };

    /// Checks that times are longer than nothing.
    pub(super) fn validate(&self) -> Result<()> {
        let (UsageWindow::Sliding { size_ms } | UsageWindow::Tumbling { size_ms, .. }) = self.window;
        if size_ms <= 0 || self.fetch_ms <= 0 || self.half_life_ms.is_some_and(|half_life| half_life <= 0) {
            return Err(Error::Cluster(
                "a window, a half-life and a fetch interval of usage are longer than nothing".to_owned(),
            ));
        }
        Ok(())
    }

    /// Where the window begins at `now`.
    pub fn begin_ms(&self, now: i64) -> i64 {
        let begin = match self.window {
            UsageWindow::Sliding { size_ms } => now.saturating_sub(size_ms),
            UsageWindow::Tumbling { start_ms, .. } if start_ms >= now => now,
            UsageWindow::Tumbling { start_ms, size_ms } => start_ms + (now - start_ms - 1) / size_ms * size_ms,
        };
        begin.max(0)
    }

    /// The last moment of measurement at `now` or before.
    pub fn fetched_ms(&self, now: i64) -> i64 {
        now.div_euclid(self.fetch_ms) * self.fetch_ms
    }
}

/// Usage of something held, as of now and as of the beginning of the window.
#[derive(Debug, Clone, Default)]
struct Meter {
    now: Spent,
    then: Spent,
    /// Changes after the beginning of the window.
    changes: VecDeque<(i64, i64)>,
}

impl Meter {
    fn change(&mut self, now: i64, half_life_ms: Option<i64>, by: i64) {
        self.now.change(now, half_life_ms, by);
        self.changes.push_back((now, by));
    }

    /// Returns the usage in the window, GPU-seconds as they are worth at its end.
    fn measure(&mut self, begin: i64, end: i64, half_life_ms: Option<i64>) -> f64 {
        while let Some((at, by)) = self.changes.front().copied().filter(|(at, _)| *at <= begin) {
            self.then.change(at, half_life_ms, by);
            self.changes.pop_front();
        }
        let kept = half_life_ms.map_or(1.0, |half_life| (-((end - begin) as f64 / half_life as f64)).exp2());
        (self.now.at(end, half_life_ms) - kept * self.then.at(begin, half_life_ms)).max(0.0)
    }
}

/// The usage of queues in a replay.
#[derive(Debug, Clone)]
pub(crate) struct Usage {
    rule: UsageRule,
    queues: Vec<Meter>,
    service: Meter,
    in_service: i64,
    /// Time and result of the last measurement.
    fetched_ms: i64,
    found: Vec<u64>,
}

impl Usage {
    pub(crate) fn new(rule: UsageRule, queues: usize) -> Self {
        let (meters, found) = (vec![Meter::default(); queues], vec![0; queues]);
        Self { rule, queues: meters, service: Meter::default(), in_service: 0, fetched_ms: 0, found }
    }

    /// Measures if a moment to do so has come since the last change; what is told of later changes nothing of it.
    fn fetch(&mut self, now: i64) {
        let end = self.rule.fetched_ms(now);
        if end <= self.fetched_ms {
            return;
        }
        self.fetched_ms = end;
        let (begin, half_life_ms) = (self.rule.begin_ms(end), self.rule.half_life_ms);
        let of = self.service.measure(begin, end, half_life_ms);
        for (queue, found) in self.queues.iter_mut().zip(&mut self.found) {
            let held = queue.measure(begin, end, half_life_ms);
            let ratio = if of > 0.0 { (held / of).min(MOST) } else { 0.0 };
            *found = (ratio * ONE as f64).round() as u64;
        }
    }

    /// A queue holds so many thousandths of GPUs more from `now`.
    pub(crate) fn hold(&mut self, queue: u16, now: i64, by: i64) {
        self.fetch(now);
        if let Some(meter) = self.queues.get_mut(usize::from(queue)) {
            meter.change(now, self.rule.half_life_ms, by);
        }
    }

    /// Sets the thousandths of GPUs in service from `now`.
    pub(crate) fn serve(&mut self, now: i64, milli: u64) {
        self.fetch(now);
        let milli = i64::try_from(milli).unwrap_or(i64::MAX);
        if milli != self.in_service {
            self.service.change(now, self.rule.half_life_ms, milli - self.in_service);
            self.in_service = milli;
        }
    }

    /// The usage of each queue as it is known at `now`, in units of 2⁻³².
    pub(crate) fn known(&mut self, now: i64) -> &[u64] {
        self.fetch(now);
        &self.found
    }

    /// The next moment of measurement after `now`.
    pub(crate) fn next_ms(&self, now: i64) -> i64 {
        self.rule.fetched_ms(now).saturating_add(self.rule.fetch_ms)
    }
}
