//! The energy of one device from its readings, one after another, in memory that does not grow with them.
//!
//! Between two readings, first that applies:
//! 1. **Counter.** Both have an energy counter and the step is one that a device can make ([`judge`]): the energy is known whatever
//!    the gap, and spread evenly over it. A reset is confirmed by the reading after it: if that continues where the counter was
//!    before, the low reading was false. A reset within a short gap counts from 0, a lower bound, and at most the upper power
//!    bound; in a long gap the model stands where it is more.
//! 2. **Power.** Both have power: the trapezoid rule; a gap of more than one and a half sample periods, up to [`BRIDGE`], is
//!    marked as bridged.
//! 3. **Model.** Longer gaps: the fitted curve where readings of utilisation are at most [`BRIDGE`] periods apart, else power by
//!    state (held by a job, idle, unknown), bounded by idle power and the upper bound, which is never below the device's own
//!    highest reading. A whole-node meter without jobs has no such model: the line between the ends, bounded by its lowest and
//!    highest reading so far.
//!
//! The sample period of a device is the lower median of its first [`WARM`] - 1 gaps, so that a stream and a table in memory agree.
//! Who holds the device comes from placements, to the millisecond, or from names in the samples, each standing for half of the
//! gap on either side. In a gap of more than [`BRIDGE`] periods, and before the first and after the
//! last reading, a name counts while its jobs run, and placements go before it.
//!
//! O(1) a reading. Worked number: 100 W and 200 W a minute apart with idle power 120 W: 9,000 J, of which above idle the
//! triangle (200 - 120) / 2 · 60 · 80/100 = 1,920 J.

use super::counter::{Step, judge};
use super::holding::{Claims, Holding};
use super::sink::{Bundle, Claim, Sink};
use crate::energy::ledger::Basis;
use crate::energy::model::{GPU_MOST_W, IdlePower, PowerModel};
use crate::stats::rank;
use crate::stats::sampled::{BRIDGE, PERIOD_GAPS};
use crate::time::HOUR_MS;

/// Readings from which the sample period is taken.
pub(in crate::energy) const WARM: usize = PERIOD_GAPS + 1;
/// Readings without a counter between two with one that are kept at most.
const MOST_BETWEEN: usize = 64;
/// Readings that may come before ones they should follow.
pub(in crate::energy) const REORDER: usize = 4;

/// A reading. Unknown numbers are NaN here, not `None`: a stream keeps some of them for each of many devices.
#[derive(Debug, Clone, Copy)]
pub(in crate::energy) struct Row {
    pub(in crate::energy) ts: i64,
    pub(in crate::energy) counter: f64,
    pub(in crate::energy) power: f64,
    pub(in crate::energy) util: f64,
    pub(in crate::energy) claim: Claim,
}

impl Row {
    pub(in crate::energy) fn at(ts: i64, claim: Claim) -> Self {
        Self { ts, counter: f64::NAN, power: f64::NAN, util: f64::NAN, claim }
    }

    /// Takes from a row of the same moment what is unknown; whether the other repeats something.
    pub(in crate::energy) fn merge(&mut self, other: &Self) -> bool {
        let mut repeats = false;
        for (slot, more) in
            [(&mut self.counter, other.counter), (&mut self.power, other.power), (&mut self.util, other.util)]
        {
            if slot.is_nan() {
                *slot = more;
            } else if !more.is_nan() {
                repeats = true;
            }
        }
        if self.claim == Claim::Nobody {
            self.claim = other.claim;
        }
        repeats
    }
}

/// Counts of readings by what was done with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Readings {
    /// Rows read.
    pub rows: u64,
    /// Rows without a time or a device, left out.
    pub without_time: u64,
    /// Rows that repeat a value of the same device and moment: the first is used.
    pub duplicates: u64,
    /// Rows that came after later ones of their device, and were sorted.
    pub out_of_order: u64,
    /// Among them rows of a stream that came too late to be sorted, and were left out.
    pub late: u64,
    /// Power readings that cannot be.
    pub bad_power: u64,
    /// Utilisations that cannot be.
    pub bad_util: u64,
    /// Counter readings that cannot be.
    pub bad_counter: u64,
    /// Times a counter began again.
    pub resets: u64,
    /// Times a counter ran over.
    pub wraps: u64,
    /// Gaps of more than three periods that neither counter nor power covers.
    pub long_gaps: u64,
    /// Readings within the window that the user gives.
    pub in_window: u64,
    /// The last reading before it, ms.
    pub last_before_ms: Option<i64>,
    /// The first reading after it, ms.
    pub first_after_ms: Option<i64>,
}

impl Readings {
    /// Adds another account.
    pub(in crate::energy) fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.without_time += other.without_time;
        self.duplicates += other.duplicates;
        self.out_of_order += other.out_of_order;
        self.late += other.late;
        self.bad_power += other.bad_power;
        self.bad_util += other.bad_util;
        self.bad_counter += other.bad_counter;
        self.resets += other.resets;
        self.wraps += other.wraps;
        self.long_gaps += other.long_gaps;
        self.in_window += other.in_window;
        self.last_before_ms = self.last_before_ms.max(other.last_before_ms);
        self.first_after_ms = earlier(self.first_after_ms, other.first_after_ms);
    }

    /// Notes when a reading was taken, with regard to the window.
    #[inline]
    pub(in crate::energy) fn at(&mut self, ts: i64, (from, to): (i64, i64)) {
        if ts < from {
            self.last_before_ms = self.last_before_ms.max(Some(ts));
        } else if ts >= to {
            self.first_after_ms = earlier(self.first_after_ms, Some(ts));
        } else {
            self.in_window += 1;
        }
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}

/// Settings that a device's series is measured with.
#[derive(Debug, Clone, Copy)]
pub(in crate::energy) struct Setting<'a> {
    /// Power of its type; `None` for a whole-node meter without jobs.
    pub(in crate::energy) model: Option<&'a PowerModel>,
    /// No whole-node meter reads more, watts; `None` for a GPU, whose own bound is tighter.
    pub(in crate::energy) meter_w: Option<f64>,
    /// Steps that its counter goes in, joules; 0 if they are small.
    pub(in crate::energy) count_j: f64,
    /// Holders by placements; `None` for a whole-node meter without jobs.
    pub(in crate::energy) holding: Option<&'a Holding>,
    /// All claims if samples name their jobs; `holding` counts then in long gaps alone.
    pub(in crate::energy) named: Option<&'a Claims>,
    /// Moduli of the counters, joules, ascending.
    pub(in crate::energy) wraps: &'a [f64],
    /// First moment audited and the one after the last, ms.
    pub(in crate::energy) window: (i64, i64),
    /// The sample period, where the user gives it.
    pub(in crate::energy) period_ms: Option<i64>,
}

impl Setting<'_> {
    fn idle(&self) -> IdlePower {
        // All that a whole-node meter reads is above.
        self.model.map_or(IdlePower::known(0.0), |model| model.idle)
    }

    fn most_w(&self) -> Option<f64> {
        self.model.and_then(|model| model.most_w)
    }
}

/// Power over a stretch.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// A line from one power to another, watts, with bounds where it is not measured.
    Line(f64, f64, Option<(f64, f64)>),
    /// Power of a device in its state, watts, and no less than this.
    State(f64),
}

/// A stretch of time and its power.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    from: i64,
    to: i64,
    shape: Shape,
    basis: Basis,
}

/// A device so far.
#[derive(Debug)]
pub(in crate::energy) struct Series {
    /// The node, for [`Sink::nodes`].
    pub(in crate::energy) node: u32,
    warm: Vec<Row>,
    warming: bool,
    period_ms: Option<i64>,
    anchor: Option<Row>,
    /// Rows since the anchor that are not settled.
    more: Vec<Row>,
    /// Index in `more` of a counter reading that the next has to confirm.
    doubt: Option<usize>,
    first: Option<Row>,
    head_w: f64,
    tail_w: f64,
    seen_w: (f64, f64),
    key: (i64, Claim, Basis),
    sum: Bundle,
    /// Whether the time before the first and after the last reading is divided.
    outside: bool,
}

impl Series {
    pub(in crate::energy) fn new(node: u32) -> Self {
        Self {
            node,
            warm: Vec::new(),
            warming: true,
            period_ms: None,
            anchor: None,
            more: Vec::new(),
            doubt: None,
            first: None,
            head_w: f64::NAN,
            tail_w: f64::NAN,
            seen_w: (f64::INFINITY, f64::NEG_INFINITY),
            key: (i64::MIN, Claim::Nobody, Basis::Model),
            sum: Bundle::default(),
            outside: false,
        }
    }

    /// Adds a reading later than all before.
    #[inline]
    pub(in crate::energy) fn push(&mut self, row: Row, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        if !row.power.is_nan() {
            self.seen_w = (self.seen_w.0.min(row.power), self.seen_w.1.max(row.power));
        }
        if self.warming {
            self.warm.push(row);
            if self.warm.len() >= WARM || set.period_ms.is_some() {
                self.warmed(set, sink, counts);
            }
            return;
        }
        self.advance(row, set, sink, counts);
    }

    fn warmed(&mut self, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        self.warming = false;
        let rows = std::mem::take(&mut self.warm);
        let mut gaps: Vec<i64> = rows.iter().zip(rows.iter().skip(1)).map(|(a, b)| b.ts - a.ts).collect();
        self.period_ms = set.period_ms.or(rank::nearest(&mut gaps, 0.5));
        for row in rows {
            self.advance(row, set, sink, counts);
        }
    }

    /// Whether a gap is no longer than `num/2` periods.
    #[inline]
    fn within(&self, gap_ms: i64, halves: i64) -> bool {
        self.period_ms.is_some_and(|period| gap_ms.saturating_mul(2) <= period.saturating_mul(halves))
    }

    fn is_short(&self, gap_ms: i64) -> bool {
        self.within(gap_ms, 2 * BRIDGE)
    }

    fn step(a: &Row, b: &Row, set: &Setting<'_>) -> Step {
        let most_w = set.meter_w.or(set.most_w()).unwrap_or(GPU_MOST_W);
        judge(a.counter, b.counter, (b.ts - a.ts) as f64 / 1_000.0, most_w, set.count_j, set.wraps)
    }

    #[inline]
    fn advance(&mut self, row: Row, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        let Some(anchor) = self.anchor else {
            self.first = Some(row);
            self.anchor = Some(row);
            return;
        };
        // The two common cases need no list.
        if self.more.is_empty() {
            if !anchor.counter.is_nan() && !row.counter.is_nan() {
                match Self::step(&anchor, &row, set) {
                    Step::Rise(joules) => {
                        self.counted(&[anchor, row], joules, set, sink);
                        self.anchor = Some(row);
                        return;
                    }
                    Step::Wrap(joules) => {
                        counts.wraps += 1;
                        self.counted(&[anchor, row], joules, set, sink);
                        self.anchor = Some(row);
                        return;
                    }
                    Step::Reset(_) | Step::Doubt => {}
                }
            } else if anchor.counter.is_nan() && !anchor.power.is_nan() && !row.power.is_nan() {
                self.settle(&[anchor, row], set, sink, counts);
                self.anchor = Some(row);
                return;
            }
        }
        if anchor.counter.is_nan() {
            self.more.push(row);
            if anchor.power.is_nan() || !row.power.is_nan() || !self.is_short(row.ts - anchor.ts) {
                self.settle_all(set, sink, counts);
            }
            return;
        }
        if row.counter.is_nan() {
            self.more.push(row);
            if self.more.len() >= MOST_BETWEEN {
                self.give_up(set, sink, counts);
            }
            return;
        }
        self.weigh(anchor, row, set, sink, counts);
    }

    /// A counter reading after others that are not settled, or one that does not simply rise.
    fn weigh(&mut self, anchor: Row, row: Row, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        let whole = Self::step(&anchor, &row, set);
        let doubted = self.doubt.and_then(|place| Some((place, *self.more.get(place)?)));
        let Some((place, between)) = doubted else {
            match whole {
                Step::Rise(joules) => self.counted_all(row, joules, set, sink),
                Step::Wrap(joules) => {
                    counts.wraps += 1;
                    self.counted_all(row, joules, set, sink);
                }
                Step::Reset(_) | Step::Doubt => {
                    self.doubt = Some(self.more.len());
                    self.more.push(row);
                }
            }
            return;
        };
        let since = Self::step(&between, &row, set);
        let is_reset = matches!(Self::step(&anchor, &between, set), Step::Reset(_));
        let goes_on = matches!(since, Step::Rise(_) | Step::Wrap(_));
        if let (Step::Rise(joules), false) = (whole, is_reset && goes_on) {
            // The counter goes on from where it was before: the reading between was false.
            counts.bad_counter += 1;
            self.counted_all(row, joules, set, sink);
            return;
        }
        self.accept(place, set, sink, counts);
        // What was in doubt is the anchor now.
        self.advance(row, set, sink, counts);
    }

    /// Takes the reading in doubt as it is: a reset, or a counter that nobody can tell the step of.
    fn accept(&mut self, place: usize, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        let Some(anchor) = self.anchor else { return };
        let rest = self.more.split_off((place + 1).min(self.more.len()));
        let mut path = Vec::with_capacity(self.more.len() + 1);
        path.push(anchor);
        path.append(&mut self.more);
        self.more = rest;
        self.doubt = None;
        let Some(last) = path.last().copied() else { return };
        self.anchor = Some(last);
        let gap = last.ts - anchor.ts;
        match Self::step(&anchor, &last, set) {
            Step::Reset(joules) => {
                counts.resets += 1;
                let watts = joules / (gap as f64 / 1_000.0);
                if self.is_short(gap) {
                    let bounds = Some((watts, set.most_w().unwrap_or(watts).max(watts)));
                    self.emit(&path, Shape::Line(watts, watts, bounds), Basis::Counter, set, sink);
                } else {
                    counts.long_gaps += 1;
                    let known = set.model.is_some_and(|model| model.in_state(None).is_some());
                    let bounds = Some((watts, self.bounds(set, watts).1.max(watts)));
                    let shape = if known { Shape::State(watts) } else { Shape::Line(watts, watts, bounds) };
                    self.emit(&path, shape, Basis::Model, set, sink);
                }
            }
            _ => {
                counts.bad_counter += 1;
                self.settle(&path, set, sink, counts);
            }
        }
    }

    fn counted_all(&mut self, row: Row, joules: f64, set: &Setting<'_>, sink: &mut Sink) {
        let mut path: Vec<Row> = self.anchor.into_iter().collect();
        path.append(&mut self.more);
        path.push(row);
        self.counted(&path, joules, set, sink);
        self.anchor = Some(row);
        self.doubt = None;
    }

    fn counted(&mut self, path: &[Row], joules: f64, set: &Setting<'_>, sink: &mut Sink) {
        let (Some(a), Some(b)) = (path.first(), path.last()) else { return };
        let watts = joules / ((b.ts - a.ts) as f64 / 1_000.0);
        if set.model.is_none() {
            self.seen_w = (self.seen_w.0.min(watts), self.seen_w.1.max(watts));
        }
        self.emit(path, Shape::Line(watts, watts, None), Basis::Counter, set, sink);
    }

    /// The counter has been silent for too long.
    fn give_up(&mut self, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        if let Some(place) = self.doubt {
            self.accept(place, set, sink, counts);
        }
        self.settle_all(set, sink, counts);
    }

    /// Settles all rows; the last is the anchor then.
    fn settle_all(&mut self, set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        let mut path: Vec<Row> = self.anchor.into_iter().collect();
        path.append(&mut self.more);
        self.anchor = path.last().copied();
        self.settle(&path, set, sink, counts);
        // The list may have grown large for one gap.
        self.more.shrink_to(4);
    }

    /// Energy along rows without a usable counter.
    fn settle(&mut self, path: &[Row], set: &Setting<'_>, sink: &mut Sink, counts: &mut Readings) {
        let estimate = |row: &Row| {
            if row.power.is_nan() { set.model.filter(|_| !row.util.is_nan())?.at(row.util) } else { Some(row.power) }
        };
        let mut at = 0;
        while let (Some(a), Some(b)) = (path.get(at), path.get(at + 1)) {
            let powered = path.iter().skip(at + 1).position(|row| !row.power.is_nan()).map(|ix| at + 1 + ix);
            if let Some((to, c)) = powered.and_then(|ix| Some((ix, path.get(ix)?)))
                && !a.power.is_nan()
                && self.is_short(c.ts - a.ts)
            {
                let whole = self.within(c.ts - a.ts, 3);
                let basis = if whole { Basis::Power } else { Basis::Bridged };
                let bounds = if whole { None } else { Some(self.bounds(set, a.power.max(c.power))) };
                let stretch = path.get(at..=to).unwrap_or_default();
                self.emit(stretch, Shape::Line(a.power, c.power, bounds), basis, set, sink);
                at = to;
                continue;
            }
            let short = self.is_short(b.ts - a.ts);
            counts.long_gaps += u64::from(!short);
            let shape = match (estimate(a), estimate(b)) {
                (Some(from), Some(to)) if short || set.model.is_none() => {
                    let (least, most) = self.bounds(set, from.max(to));
                    // Utilisation says how much a GPU can draw, where it is all that was read.
                    let said = |row: &Row| set.model.filter(|_| row.power.is_nan())?.at_most(row.util);
                    let most = said(a).zip(said(b)).map_or(most, |(a, b)| most.min(a.max(b)));
                    Shape::Line(from, to, Some((least, most)))
                }
                _ => Shape::State(0.0),
            };
            self.emit(&[*a, *b], shape, Basis::Model, set, sink);
            at += 1;
        }
    }

    /// Least and most power where it is not read, given that it is `near` this much.
    fn bounds(&self, set: &Setting<'_>, near: f64) -> (f64, f64) {
        match set.model {
            Some(model) => (model.idle.least_w, model.most_w.unwrap_or(near).max(self.seen_w.1)),
            None if self.seen_w.0 <= self.seen_w.1 => self.seen_w,
            None => (near, near),
        }
    }

    /// Adds what is left, and the time from `from` to the first reading and from the last one to `to`.
    pub(in crate::energy) fn finish(
        &mut self,
        from: i64,
        to: i64,
        set: &Setting<'_>,
        sink: &mut Sink,
        counts: &mut Readings,
    ) {
        if self.warming {
            self.warmed(set, sink, counts);
        }
        self.give_up(set, sink, counts);
        let (Some(first), Some(last)) = (self.first, self.anchor) else {
            let ends = [Row::at(from, Claim::Unknown), Row::at(to, Claim::Unknown)];
            self.emit(&ends, Shape::State(0.0), Basis::Model, set, sink);
            self.flush(sink);
            return;
        };
        self.outside = true;
        // A lone reading (a snapshot, where the user gives the period) holds on both sides.
        let or = |watts: f64, row: &Row| if watts.is_nan() { row.power } else { watts };
        let (head, tail) = (or(self.head_w, &first), or(self.tail_w, &last));
        for (a, b, watts) in [(Row { ts: from, ..first }, first, head), (last, Row { ts: to, ..last }, tail)] {
            let gap = b.ts - a.ts;
            if gap <= 0 {
                continue;
            }
            let short = self.is_short(gap);
            counts.long_gaps += u64::from(!short);
            let line = Shape::Line(watts, watts, Some(self.bounds(set, watts)));
            match (short, watts.is_nan(), set.model.is_none()) {
                (true, false, _) => self.emit(&[a, b], line, Basis::Bridged, set, sink),
                (false, false, true) => self.emit(&[a, b], line, Basis::Model, set, sink),
                _ => self.emit(&[a, b], Shape::State(0.0), Basis::Model, set, sink),
            }
        }
        self.flush(sink);
    }

    /// Divides a stretch among those who held the device.
    #[inline]
    fn emit(&mut self, path: &[Row], shape: Shape, basis: Basis, set: &Setting<'_>, sink: &mut Sink) {
        let (Some(a), Some(b)) = (path.first(), path.last()) else { return };
        if a.ts >= b.ts {
            return;
        }
        if let Shape::Line(from, to, _) = shape {
            if self.head_w.is_nan() {
                self.head_w = from;
            }
            self.tail_w = to;
        }
        let whole = Stretch { from: a.ts, to: b.ts, shape, basis };
        if let (None, Some(holding)) = (set.named, set.holding) {
            self.cut_by(&whole, (whole.from, whole.to), |ts| holding.at(ts), set, sink);
            return;
        }
        for (a, b) in path.iter().zip(path.iter().skip(1)) {
            let middle = if a.claim == b.claim { b.ts } else { a.ts + (b.ts - a.ts) / 2 };
            let outside = self.outside;
            let far = set.named.zip(set.holding).filter(|_| !self.is_short(b.ts - a.ts));
            for (from, to, claim) in [(a.ts, middle, a.claim), (middle, b.ts, b.claim)] {
                match far {
                    Some((claims, holding)) => {
                        self.cut_by(&whole, (from, to), |ts| claims.between(claim, outside, holding, ts), set, sink);
                    }
                    None => self.cut(&whole, from, to, claim, set, sink),
                }
            }
        }
    }

    /// Divides a part of a stretch by its holder, where `at` gives the holder at a moment and until
    /// when.
    #[inline]
    fn cut_by(
        &mut self,
        whole: &Stretch,
        (mut from, to): (i64, i64),
        at: impl Fn(i64) -> (Claim, i64),
        set: &Setting<'_>,
        sink: &mut Sink,
    ) {
        while from < to {
            let (claim, until) = at(from);
            let until = until.min(to);
            self.cut(whole, from, until, claim, set, sink);
            from = until;
        }
    }

    /// Divides a part of a stretch by hours.
    #[inline]
    fn cut(&mut self, whole: &Stretch, from: i64, to: i64, claim: Claim, set: &Setting<'_>, sink: &mut Sink) {
        let (mut from, to) = (from.max(set.window.0), to.min(set.window.1));
        while from < to {
            let hour = from.div_euclid(HOUR_MS) * HOUR_MS;
            let until = to.min(hour + HOUR_MS);
            self.add((hour, claim, whole.basis), &bundle(whole, from, until, claim, self.seen_w.1, set), sink);
            from = until;
        }
    }

    #[inline]
    fn add(&mut self, key: (i64, Claim, Basis), bundle: &Bundle, sink: &mut Sink) {
        if self.key != key {
            self.flush(sink);
            self.key = key;
        }
        self.sum.add(bundle);
    }

    fn flush(&mut self, sink: &mut Sink) {
        if self.sum.s > 0.0 {
            let (hour, claim, basis) = self.key;
            sink.add(self.node, hour, claim, basis, &self.sum);
            self.sum = Bundle::default();
        }
    }
}

/// Energy of a stretch from `from` to `to` of a device whose highest reading so far is `seen_w`.
#[inline]
fn bundle(whole: &Stretch, from: i64, to: i64, claim: Claim, seen_w: f64, set: &Setting<'_>) -> Bundle {
    let s = (to - from) as f64 / 1_000.0;
    let idle = set.idle();
    let (from_w, to_w, bounds) = match whole.shape {
        Shape::Line(a, b, bounds) if a == b => (a, b, bounds),
        Shape::Line(a, b, bounds) => {
            let slope = (b - a) / (whole.to - whole.from) as f64;
            (a + slope * (from - whole.from) as f64, a + slope * (to - whole.from) as f64, bounds)
        }
        Shape::State(floor) => {
            let Some(watts) = set.model.and_then(|model| model.in_state(claim.held())) else {
                return Bundle { s, blank_s: s, ..Bundle::default() };
            };
            let watts = watts.max(floor);
            (watts, watts, Some((idle.least_w.max(floor), set.most_w().unwrap_or(watts).max(seen_w))))
        }
    };
    match bounds {
        None => {
            let [active, either, below] = parts(from_w, to_w, s, idle);
            Bundle { active: [active; 3], either: [either; 3], idle: [below; 3], s, blank_s: 0.0 }
        }
        Some(bounds) => line((from_w, to_w), bounds, s, idle),
    }
}

/// Energy at a steady power that is not measured, joules, within bounds of power.
pub(in crate::energy) fn flat(watts: f64, bounds: (f64, f64), s: f64, idle: IdlePower) -> Bundle {
    line((watts, watts), bounds, s, idle)
}

/// Energy along a line of power that is not measured, joules, within bounds of power.
fn line((from_w, to_w): (f64, f64), (least, most): (f64, f64), s: f64, idle: IdlePower) -> Bundle {
    let [active, either, below] = parts(from_w, to_w, s, idle);
    let [active_least, either_least, idle_least] = parts(least, least, s, idle);
    let [active_most, either_most, idle_most] = parts(most, most, s, idle);
    let bounded = |value: f64, least: f64, most: f64| [value, least.min(value), most.max(value)];
    Bundle {
        active: bounded(active, active_least, active_most),
        either: bounded(either, either_least, either_most),
        idle: bounded(below, idle_least, idle_most),
        s,
        blank_s: 0.0,
    }
}

/// Energy above idle power, between the least and the most that it can be, and below, joules.
#[inline]
fn parts(from_w: f64, to_w: f64, s: f64, idle: IdlePower) -> [f64; 3] {
    let (above, below) = split(from_w, to_w, s, idle.least_w);
    if idle.least_w == idle.most_w {
        return [above, 0.0, below];
    }
    let (active, _) = split(from_w, to_w, s, idle.most_w);
    [active, above - active, below]
}

/// Energy above and below a power, of power that goes evenly from one to another, joules.
#[inline]
fn split(from_w: f64, to_w: f64, s: f64, idle: f64) -> (f64, f64) {
    let all = (from_w + to_w) / 2.0 * s;
    let (low, high) = if from_w <= to_w { (from_w, to_w) } else { (to_w, from_w) };
    if low >= idle {
        let below = idle * s;
        (all - below, below)
    } else if high <= idle {
        (0.0, all)
    } else {
        let over = high - idle;
        let above = over / 2.0 * s * (over / (high - low));
        (above, all - above)
    }
}

/// Puts a device's readings that come a little out of order into order.
#[derive(Debug)]
pub(in crate::energy) struct Reorder {
    rows: [Row; REORDER],
    len: usize,
    released: i64,
}

impl Reorder {
    pub(in crate::energy) fn new() -> Self {
        Self { rows: [Row::at(0, Claim::Nobody); REORDER], len: 0, released: i64::MIN }
    }

    /// Takes a reading in; gives out the earliest once there are more than [`REORDER`].
    #[inline]
    pub(in crate::energy) fn push(&mut self, row: Row, counts: &mut Readings) -> Option<Row> {
        // Only rows of instances have this claim: each reports its board's power again, which repeats nothing.
        let instance = row.claim == Claim::Unknown;
        if row.ts <= self.released {
            if row.ts == self.released {
                counts.duplicates += u64::from(!instance);
            } else {
                counts.out_of_order += 1;
                counts.late += 1;
            }
            return None;
        }
        let held = self.rows.get_mut(..self.len)?;
        let place = held.partition_point(|other| other.ts < row.ts);
        counts.out_of_order += u64::from(place < held.len());
        if let Some(same) = held.get_mut(place).filter(|other| other.ts == row.ts) {
            counts.out_of_order -= u64::from(place + 1 == self.len);
            counts.duplicates += u64::from(same.merge(&row) && !instance);
            return None;
        }
        if self.len < REORDER {
            self.len += 1;
            let held = self.rows.get_mut(..self.len)?;
            held.get_mut(place..)?.rotate_right(1);
            *held.get_mut(place)? = row;
            return None;
        }
        if place == 0 {
            self.released = row.ts;
            return Some(row);
        }
        let first = *self.rows.first()?;
        self.rows.get_mut(..place)?.rotate_left(1);
        *self.rows.get_mut(place - 1)? = row;
        self.released = first.ts;
        Some(first)
    }

    /// Gives out what is left, earliest first.
    pub(in crate::energy) fn drain(&mut self) -> impl Iterator<Item = Row> + use<> {
        let len = std::mem::take(&mut self.len);
        self.rows.into_iter().take(len)
    }
}
