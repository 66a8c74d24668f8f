//! When each job runs under a policy and a bound on its wait, and what that emits or costs.
//!
//! ```text
//! window       g(d) = ∫ of the forecast from s + r to s + r + d, less ∫ from s to s + d: what starting d later adds to starting at once, s being the submission and r the expected run.
//!              g is linear between hours' ends, so its least value, and its most a time, lie where d or d + r meets an hour, or at the bound: each of these is tried, and the earliest of equals taken
//! table        the same with Σ over whole hours: for a class and an hour of submission h, s = h, r = the median run of the class, and the forecast as of the end of the day before h. The job starts then, or at submission if
//!              that is later
//! threshold    the first hour whose value is at or below the percentile as known at the end of the day before that hour, or the bound; at once where nothing was known then
//! two          the same to start; in each later hour above the higher percentile it pauses, if what is left of the bound is more than resuming costs, and resumes as it started, or when no more is left
//! hours        the cheapest parts of the hours from submission to run and bound that hold the run; more are taken until they hold what resuming costs as well. Taken only if that is expected to be less than
//!              the cleanest window
//! ```
//!
//! Sums are whole numbers, so bounds hold exactly. What is decided at a moment knows the hours that have begun. A job that was paused runs again after what resuming costs, for which it draws power and does no work. Where a
//! forecast lacks an hour, nobody waits.
//!
//! O(hours in the bound) a window, O(hours log hours) for *hours*. Worked example: hours of 400, 400, 100 and 300 g/kWh; submitted at 0:30, run 1 h, bound 2 h. To start 90 min later adds 30 min × 400 and 60 min × 100, and
//! takes off 90 min × 400: 300 g less for each kW, the most of all starts. So the job runs from 2:00 to 3:00.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tracecast_analytics::stats::rank;
use tracecast_analytics::time::HOUR_MS;

use super::forecast::{DAY_H, ForecastBy, HourForecast};
use super::job::{CELLS, DeferJob};
use super::policy::{DeferPolicy, ExpectedRun, PastPercentile, WindowGoal};
use super::series::HourSeries;

/// Times that more hours are taken for what resuming costs.
const ROUNDS: usize = 8;

/// Outcome of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deferred {
    /// End less submission less run, ms.
    pub wait_ms: i64,
    /// Cost of resuming, ms.
    pub extra_ms: i64,
    /// Value × milliseconds of one GPU, whole parts.
    pub amount: i128,
}

/// From when to when a job draws power.
pub type Pieces = Vec<(i64, i64)>;

/// Hours at or below a percentile.
#[derive(Debug, Clone)]
struct LowHours {
    /// The percentile for each hour, as known at the end of the day before.
    limits: Vec<Option<i64>>,
    /// The percentile for the day after the last hour.
    after: Option<i64>,
    /// The first hour from each on that is at or below it; far away where none is.
    next: Vec<i64>,
}

/// Decides jobs on a series.
#[derive(Debug, Clone)]
pub struct DeferEngine<'s> {
    series: &'s HourSeries,
    resume_ms: i64,
    class_runs_ms: [i64; CELLS],
    forecasts: BTreeMap<ForecastBy, HourForecast<'s>>,
    low: BTreeMap<PastPercentile, LowHours>,
}

/// The hour of the epoch of a moment.
fn hour(ms: i64) -> i64 {
    ms.div_euclid(HOUR_MS)
}

/// The last hour of the day before the one of an hour.
fn day_before(hour: i64) -> i64 {
    hour.div_euclid(DAY_H) * DAY_H - 1
}

/// What a window is sought for.
#[derive(Clone, Copy)]
struct Sought {
    /// Beginning of the window, ms.
    from_ms: i64,
    /// The last hour that is known.
    now: i64,
    /// The expected run, ms.
    run_ms: i64,
    milli_gpus: u64,
}

/// Sums of a forecast from a moment on.
struct Walk {
    from_ms: i64,
    /// Beginning, sum so far and value of each hour, the first from `from_ms` on.
    hours: Vec<(i64, i128, i64)>,
    /// Up to where there is a forecast.
    reach_ms: i64,
}

impl Walk {
    fn of(forecast: &HourForecast<'_>, now: i64, from_ms: i64, to_ms: i64) -> Self {
        let mut walk = Self { from_ms, hours: Vec::with_capacity(32), reach_ms: from_ms };
        let mut sum = 0i128;
        for at in hour(from_ms)..=hour(to_ms) {
            let Some(value) = forecast.at(now, at) else { break };
            let begin = (at * HOUR_MS).max(from_ms);
            walk.hours.push((begin, sum, value));
            walk.reach_ms = (at + 1) * HOUR_MS;
            sum += i128::from(value) * i128::from(walk.reach_ms - begin);
        }
        walk
    }

    /// The sum of the first so many milliseconds.
    fn sum(&self, ahead_ms: i64) -> i128 {
        let at = self.from_ms + ahead_ms;
        let index = usize::try_from(hour(at) - hour(self.from_ms)).unwrap_or(0);
        // At the end of what is known the last hour is whole.
        let of = self.hours.get(index).or(self.hours.last());
        of.map_or(0, |(begin, sum, value)| sum + i128::from(*value) * i128::from(at - begin))
    }
}

impl Sought {
    /// For a job, when it is submitted.
    fn new(job: &DeferJob, runs: ExpectedRun) -> Self {
        let (from_ms, run_ms) = (job.submit_ms, runs.of(job));
        Self { from_ms, now: hour(from_ms), run_ms, milli_gpus: job.milli_gpus }
    }
}

impl<'s> DeferEngine<'s> {
    /// An engine for some policies; *clock* forecasts are of the hours from one to before another, resuming costs so many ms, and *tables* take the run of each class for so long. O(hours × (forecasts + hours of a percentile)).
    pub fn new(
        series: &'s HourSeries,
        policies: &[DeferPolicy],
        clock: (i64, i64),
        resume_ms: i64,
        class_runs_ms: [i64; CELLS],
    ) -> Self {
        let mut engine = Self { series, resume_ms, class_runs_ms, forecasts: BTreeMap::new(), low: BTreeMap::new() };
        for policy in policies {
            let known = matches!(policy, DeferPolicy::FreeHours).then_some(ForecastBy::Known);
            if let Some(by) = policy.forecast().or(known) {
                engine.forecasts.entry(by).or_insert_with(|| HourForecast::new(series, by, clock));
            }
            for at in policy.percentiles() {
                engine.low.entry(at).or_insert_with(|| LowHours::new(series, at));
            }
        }
        engine
    }

    /// A forecast that some policy takes.
    pub fn forecast(&self, by: ForecastBy) -> Option<&HourForecast<'s>> {
        self.forecasts.get(&by)
    }

    /// A percentile for an hour, as known at the end of the day before.
    pub fn limit(&self, of: PastPercentile, now: i64) -> Option<i64> {
        let at = usize::try_from(now - self.series.hours().0).ok()?;
        self.low.get(&of)?.limits.get(at).copied().flatten()
    }

    /// A percentile for the day after the last hour of the series.
    pub fn limit_after(&self, of: PastPercentile) -> Option<i64> {
        self.low.get(&of)?.after
    }

    /// Outcomes of a job under each of some bounds, in rising order, ms.
    pub fn decide(&self, policy: DeferPolicy, job: &DeferJob, bounds_ms: &[i64]) -> Vec<Deferred> {
        let whole = |start: i64| Deferred {
            wait_ms: start - job.submit_ms,
            extra_ms: 0,
            amount: self.series.integral(start, start + job.run_ms),
        };
        match policy {
            DeferPolicy::Now => vec![whole(job.submit_ms); bounds_ms.len()],
            DeferPolicy::Window { goal, by, runs } => {
                self.windows(Sought::new(job, runs), (goal, by), bounds_ms).into_iter().map(whole).collect()
            }
            DeferPolicy::Table(by) => {
                let at = hour(job.submit_ms);
                let Some(cell) = job.cell else { return vec![whole(job.submit_ms); bounds_ms.len()] };
                let starts = self.table(by, cell, (day_before(at), at), bounds_ms);
                starts.into_iter().map(|start| whole(start.max(job.submit_ms))).collect()
            }
            DeferPolicy::Threshold(at) => {
                bounds_ms.iter().map(|bound| whole(self.first_low(at, job.submit_ms, *bound))).collect()
            }
            DeferPolicy::TwoThresholds { .. } | DeferPolicy::Hours(_) | DeferPolicy::FreeHours => {
                bounds_ms.iter().map(|bound| self.of_pieces(job, &self.pieces(policy, job, *bound))).collect()
            }
        }
    }

    /// From when to when a job draws power under a bound.
    pub fn pieces(&self, policy: DeferPolicy, job: &DeferJob, bound_ms: i64) -> Pieces {
        let whole = |start: i64| vec![(start, start + job.run_ms)];
        match policy {
            DeferPolicy::Now => whole(job.submit_ms),
            DeferPolicy::Window { goal, by, runs } => {
                let starts = self.windows(Sought::new(job, runs), (goal, by), &[bound_ms]);
                whole(starts.first().copied().unwrap_or(job.submit_ms))
            }
            DeferPolicy::Table(by) => {
                let at = hour(job.submit_ms);
                let starts = job.cell.map(|cell| self.table(by, cell, (day_before(at), at), &[bound_ms]));
                whole(starts.unwrap_or_default().first().map_or(job.submit_ms, |start| job.submit_ms.max(*start)))
            }
            DeferPolicy::Threshold(at) => whole(self.first_low(at, job.submit_ms, bound_ms)),
            DeferPolicy::TwoThresholds { resume, pause } => {
                self.paused(job, (resume, PastPercentile { percent: pause, ..resume }), bound_ms)
            }
            DeferPolicy::Hours(by) => self.hours(job, by, bound_ms),
            DeferPolicy::FreeHours => {
                let free = self.forecasts.get(&ForecastBy::Known).and_then(|known| {
                    cheapest(known, job.submit_ms, job.submit_ms + job.run_ms + bound_ms, job.run_ms)
                });
                free.unwrap_or_else(|| whole(job.submit_ms))
            }
        }
    }

    fn of_pieces(&self, job: &DeferJob, pieces: &[(i64, i64)]) -> Deferred {
        let drawn: i64 = pieces.iter().map(|(from, to)| to - from).sum();
        let end = pieces.last().map_or(job.submit_ms + job.run_ms, |piece| piece.1);
        Deferred {
            wait_ms: end - job.submit_ms - job.run_ms,
            extra_ms: drawn - job.run_ms,
            amount: pieces.iter().map(|(from, to)| self.series.integral(*from, *to)).sum(),
        }
    }

    /// The run that tables take for the jobs of a class, ms.
    pub fn class_run_ms(&self, cell: usize) -> i64 {
        self.class_runs_ms.get(cell).copied().unwrap_or(HOUR_MS)
    }

    /// The start under each bound that a table has for a class and an hour of submission, ms, where the hours up to another are known.
    pub fn table(&self, by: ForecastBy, cell: usize, (now, at): (i64, i64), bounds_ms: &[i64]) -> Vec<i64> {
        let sought = Sought { from_ms: at * HOUR_MS, now, run_ms: self.class_run_ms(cell), milli_gpus: 1 };
        self.windows(sought, (WindowGoal::Cleanest, by), bounds_ms)
    }

    /// The start under each bound.
    fn windows(&self, sought: Sought, (goal, by): (WindowGoal, ForecastBy), bounds_ms: &[i64]) -> Vec<i64> {
        let Sought { from_ms: submit, now, run_ms: expected, milli_gpus } = sought;
        let most = bounds_ms.last().copied().unwrap_or(0);
        let Some(forecast) = self.forecasts.get(&by).filter(|_| most > 0) else {
            return vec![submit; bounds_ms.len()];
        };
        let near = Walk::of(forecast, now, submit, submit + most);
        let far = Walk::of(forecast, now, submit + expected, submit + expected + most);
        let known = (near.reach_ms - submit).min(far.reach_ms - submit - expected);
        let ends = |walk: &Walk| walk.hours.iter().map(|(begin, ..)| begin - walk.from_ms).collect::<Vec<i64>>();
        let mut tried: Vec<i64> = [ends(&near), ends(&far), bounds_ms.to_vec()].concat();
        tried.retain(|ahead| *ahead <= known);
        tried.sort_unstable();
        tried.dedup();
        let mut best: (i64, i128) = (0, 0);
        let mut next = 0;
        let mut start = |bound: &i64| {
            if *bound > known {
                return submit;
            }
            while let Some(ahead) = tried.get(next).copied().filter(|ahead| ahead <= bound) {
                let gain = near.sum(ahead) - far.sum(ahead);
                let better = match goal {
                    WindowGoal::Cleanest => gain > best.1,
                    // Exactly: a / b > c / d as a × d > c × b.
                    WindowGoal::MostATime => {
                        gain * i128::from(best.0 + expected) > best.1 * i128::from(ahead + expected)
                    }
                    WindowGoal::Worth(least) => {
                        (gain - best.1) * i128::from(milli_gpus) > i128::from(least) * i128::from(ahead - best.0)
                    }
                };
                if better {
                    best = (ahead, gain);
                }
                next += 1;
            }
            submit + best.0
        };
        bounds_ms.iter().map(&mut start).collect()
    }

    /// The first moment from one on in an hour at or below a percentile, or that moment and the bound; that moment where nothing is known of the past.
    fn first_low(&self, at: PastPercentile, from_ms: i64, bound_ms: i64) -> i64 {
        if self.limit(at, hour(from_ms)).is_none() {
            return from_ms;
        }
        let index = usize::try_from(hour(from_ms) - self.series.hours().0).ok();
        let next = index.and_then(|index| self.low.get(&at)?.next.get(index).copied());
        match next {
            Some(next) if next <= hour(from_ms) => from_ms,
            Some(next) if next < hour(i64::MAX) => (next * HOUR_MS).min(from_ms + bound_ms),
            Some(_) => from_ms + bound_ms,
            None => from_ms,
        }
    }

    /// Starts and resumes at or below one percentile, pauses above another.
    fn paused(&self, job: &DeferJob, (low, high): (PastPercentile, PastPercentile), bound_ms: i64) -> Pieces {
        let mut pieces = Vec::new();
        let mut at = self.first_low(low, job.submit_ms, bound_ms);
        let mut left = job.submit_ms + bound_ms - at;
        let (mut begun, mut work) = (at, job.run_ms);
        loop {
            let next = (hour(at) + 1) * HOUR_MS;
            if at + work <= next {
                pieces.push((begun, at + work));
                return pieces;
            }
            work -= next - at;
            at = next;
            let above =
                self.limit(high, hour(at)).zip(self.series.at(hour(at))).is_some_and(|(limit, value)| value > limit);
            let pause = left - self.resume_ms;
            if !above || pause <= 0 {
                continue;
            }
            // The hour is above the higher percentile, so a lower one is not met within it.
            let resumed = self.first_low(low, at, pause);
            if resumed <= at {
                continue;
            }
            pieces.push((begun, at));
            left -= resumed - at + self.resume_ms;
            begun = resumed;
            at = resumed + self.resume_ms;
        }
    }

    /// The cheapest hours of a forecast that hold the run and what resuming costs, or the cleanest window.
    fn hours(&self, job: &DeferJob, by: ForecastBy, bound_ms: i64) -> Pieces {
        let sought = Sought::new(job, ExpectedRun::Recorded);
        let start = self.windows(sought, (WindowGoal::Cleanest, by), &[bound_ms]);
        let start = start.first().copied().unwrap_or(job.submit_ms);
        let window = vec![(start, start + job.run_ms)];
        let Some(forecast) = self.forecasts.get(&by) else { return window };
        let end = job.submit_ms + job.run_ms + bound_ms;
        let mut need = job.run_ms;
        for _ in 0..ROUNDS {
            let Some(pieces) = cheapest(forecast, job.submit_ms, end, need) else { return window };
            if let Some(pieces) = worked(&pieces, job.run_ms, self.resume_ms) {
                let now = hour(job.submit_ms);
                let less =
                    expected(forecast, now, &pieces).zip(expected(forecast, now, &window)).is_some_and(|(a, b)| a < b);
                return if less { pieces } else { window };
            }
            need = job.run_ms + (pieces.len() as i64 - 1) * self.resume_ms;
            if need > job.run_ms + bound_ms {
                break;
            }
        }
        window
    }
}

/// What a forecast expects of some pieces.
fn expected(forecast: &HourForecast<'_>, now: i64, pieces: &[(i64, i64)]) -> Option<i128> {
    let mut sum = 0i128;
    for (from, to) in pieces {
        for at in hour(*from)..=hour(to - 1) {
            let inside = (*to).min((at + 1) * HOUR_MS) - (*from).max(at * HOUR_MS);
            sum += i128::from(forecast.at(now, at)?) * i128::from(inside);
        }
    }
    Some(sum)
}

/// The cheapest parts of a stretch that make `need`, in order of time and joined; the earlier of equal hours. `None` without a forecast.
fn cheapest(forecast: &HourForecast<'_>, from_ms: i64, to_ms: i64, need: i64) -> Option<Pieces> {
    let now = hour(from_ms);
    let mut hours: Vec<(i64, i64, i64)> = Vec::with_capacity(usize::try_from(hour(to_ms) - now).unwrap_or(0) + 1);
    for at in now..=hour(to_ms - 1) {
        hours.push((forecast.at(now, at)?, (at * HOUR_MS).max(from_ms), ((at + 1) * HOUR_MS).min(to_ms)));
    }
    let mut by_value = hours.clone();
    by_value.sort_unstable();
    let mut left = need;
    let mut taken = Vec::new();
    let mut last = None;
    for (_, from, to) in by_value {
        if left <= 0 {
            break;
        }
        if left < to - from {
            last = Some((from, to, left));
            break;
        }
        left -= to - from;
        taken.push((from, to));
    }
    if let Some((from, to, part)) = last {
        // The part of the last hour joins what is taken beside it.
        let before = taken.iter().any(|piece| piece.1 == from);
        let after = taken.iter().any(|piece| piece.0 == to);
        taken.push(if after && !before { (to - part, to) } else { (from, from + part) });
    }
    taken.sort_unstable();
    let mut joined: Pieces = Vec::new();
    for (from, to) in taken {
        match joined.last_mut() {
            Some(piece) if piece.1 == from => piece.1 = to,
            _ => joined.push((from, to)),
        }
    }
    Some(joined)
}

/// The pieces up to where the run is done; `None` if they do not hold it and what resuming costs.
fn worked(pieces: &[(i64, i64)], run_ms: i64, resume_ms: i64) -> Option<Pieces> {
    let mut left = run_ms;
    let mut done = Vec::new();
    for (at, (from, to)) in pieces.iter().enumerate() {
        let begin = if at == 0 { *from } else { from + resume_ms };
        if begin + left <= *to {
            done.push((*from, begin + left));
            return Some(done);
        }
        if begin >= *to {
            return None;
        }
        left -= to - begin;
        done.push((*from, *to));
    }
    None
}

impl LowHours {
    /// O(hours × hours of the days).
    fn new(series: &HourSeries, at: PastPercentile) -> Self {
        let (first, end) = series.hours();
        let share = f64::from(at.percent) / 100.0;
        let mut sorted: Vec<i64> = Vec::new();
        let mut limits = Vec::new();
        let mut of_day = None;
        for now in first..end {
            if day_before(now) == now - 1 {
                of_day = rank::nearest_sorted(&sorted, share);
            }
            limits.push(of_day);
            if let Some(value) = series.at(now) {
                sorted.insert(sorted.partition_point(|other| *other < value), value);
            }
            if let Some(gone) = series.at(now - i64::from(at.days) * DAY_H) {
                let at = sorted.partition_point(|other| *other < gone);
                sorted.drain(at..(at + 1).min(sorted.len()));
            }
        }
        let mut next = vec![hour(i64::MAX); limits.len()];
        let mut ahead = hour(i64::MAX);
        for (now, (slot, limit)) in (first..end).rev().zip(next.iter_mut().zip(&limits).rev()) {
            if limit.zip(series.at(now)).is_some_and(|(limit, value)| value <= limit) {
                ahead = now;
            }
            *slot = ahead;
        }
        Self { limits, after: rank::nearest_sorted(&sorted, share), next }
    }
}
