//! Whole-node meters: their readings, and what idle power they tell of nodes that jobs share.
//!
//! A node is measured by one sensor, the first of [`sensor::MAIN`] it has; one that counts energy goes before those that read power.
//! Registers that count whole (tenths of) kWh stand still and then jump. Of equal readings in a row the first is kept: the energy of a count
//! is spread from one jump to the next.
//!
//! **Idle power of a node** that jobs share is the inventory's, else the mean of at least [`LEAST_IDLE`] stretches in which no job was placed
//! on it, if every job is placed; else it is unknown, and no more than its lowest reading.
//!
//! O(n log n) in readings. Worked number: a register of whole kWh that reads 4, 4, 4, 5, 5, 6 every ten minutes is kept at 0, 30 and 50 min:
//! 1 kWh in 30 min and 1 kWh in 20 min.

use std::collections::{BTreeMap, HashMap};

use super::holding::Holding;
use super::{Claim, NODE_BLANK_W, NODE_MOST_W, Readings, Row};
use crate::energy::constant::Constant;
use crate::energy::meter::counter::{Step, judge};
use crate::energy::model::{IdlePower, LEAST_IDLE, PowerModel};
use crate::schema::{NodeSampleTable, Table as _, sensor};
use crate::stats::rank;
use crate::stats::sampled::BRIDGE;
use crate::stats::sum::NeumaierSum;

/// A meter's readings.
#[derive(Debug)]
pub(super) struct NodeMeter {
    /// Readings in order of time.
    pub(super) rows: Vec<Row>,
    /// Steps that its register counts in, joules; 0 if they are small.
    pub(super) count_j: f64,
}

/// A stretch between two readings: from, to, mean power.
type Stretch = (i64, i64, f64);

impl NodeMeter {
    /// Readings of each node's main meter, by node.
    pub(super) fn all(
        samples: &NodeSampleTable,
        window: (i64, i64),
        counts: &mut Readings,
    ) -> BTreeMap<Option<String>, Self> {
        let ranks: Vec<Option<usize>> =
            (0..).map_while(|code| samples.sensor.name(code)).map(|name| sensor::rank(Some(name))).collect();
        let rank = |ix: usize| match samples.sensor.code(ix) {
            Some(code) => ranks.get(code as usize).copied().flatten(),
            None => sensor::rank(None),
        };
        let counts_energy = |ix: usize| samples.energy_j_cum.get(ix).is_some_and(|joules| joules >= 0.0);
        let reads_power = |ix: usize| samples.power_w.get(ix).is_some_and(|watts| (0.0..=NODE_MOST_W).contains(&watts));
        // Of the sensors of a node the one that counts energy comes first.
        let mut best: HashMap<Option<u32>, (bool, usize)> = HashMap::new();
        for (ix, rank) in (0..samples.len()).filter_map(|ix| Some((ix, rank(ix)?))) {
            if counts_energy(ix) || reads_power(ix) {
                let result = (!counts_energy(ix), rank);
                let kept = best.entry(samples.node.code(ix)).or_insert(result);
                *kept = result.min(*kept);
            }
        }
        let mut by_code: HashMap<Option<u32>, Vec<Row>> = HashMap::new();
        for (ix, rank) in (0..samples.len()).filter_map(|ix| Some((ix, rank(ix)?))) {
            let node = samples.node.code(ix);
            if best.get(&node).map(|best| best.1) != Some(rank) {
                continue;
            }
            counts.rows += 1;
            let Some(ts) = samples.ts.get(ix) else {
                counts.without_time += 1;
                continue;
            };
            let watts = samples.power_w.get(ix);
            let sound = watts.filter(|watts| (0.0..=NODE_MOST_W).contains(watts) && *watts != NODE_BLANK_W);
            counts.bad_power += u64::from(watts.is_some() && sound.is_none());
            let joules = samples.energy_j_cum.get(ix);
            let counter = joules.filter(|joules| *joules >= 0.0);
            counts.bad_counter += u64::from(joules.is_some() && counter.is_none());
            if sound.is_some() || counter.is_some() {
                counts.at(ts, window);
                let (power, counter) = (sound.unwrap_or(f64::NAN), counter.unwrap_or(f64::NAN));
                by_code.entry(node).or_default().push(Row { power, counter, ..Row::at(ts, Claim::Nobody) });
            }
        }
        let of_node = |(node, rows): (Option<u32>, Vec<Row>)| {
            (node.and_then(|code| samples.node.name(code)).map(str::to_owned), Self::new(rows, counts))
        };
        by_code.into_iter().map(of_node).collect()
    }

    fn new(mut rows: Vec<Row>, counts: &mut Readings) -> Self {
        let mut newest = i64::MIN;
        for row in &rows {
            counts.out_of_order += u64::from(row.ts < newest);
            newest = newest.max(row.ts);
        }
        rows.sort_by_key(|row| row.ts);
        // Of two readings of one moment the first counts.
        rows.dedup_by(|later, kept| {
            let same = later.ts == kept.ts;
            counts.duplicates += u64::from(same && kept.merge(later));
            same
        });
        let count_j = count_of(&rows);
        if count_j > 0.0 {
            let last = rows.last().copied();
            rows.dedup_by(|later, kept| later.counter == kept.counter);
            // A register that stands still for longer than a few counts took before says that nothing is drawn.
            let before: Option<(Row, Row)> =
                rows.len().checked_sub(2).and_then(|ix| Some((*rows.get(ix)?, *rows.last()?)));
            if let (Some(last), Some((a, b))) = (last, before)
                && last.ts - b.ts > BRIDGE * (b.ts - a.ts)
            {
                rows.push(last);
            }
        }
        Self { rows, count_j }
    }

    /// Stretches between readings, up to [`BRIDGE`] usual periods apart where there is no counter.
    fn stretches(&self, wraps: &[f64]) -> Vec<Stretch> {
        let mut gaps: Vec<i64> = self.rows.iter().zip(self.rows.iter().skip(1)).map(|(a, b)| b.ts - a.ts).collect();
        let longest = rank::nearest(&mut gaps, 0.5).map_or(0, |median| median * BRIDGE);
        let read = |(a, b): (&Row, &Row)| {
            let s = (b.ts - a.ts) as f64 / 1_000.0;
            if !a.counter.is_nan() && !b.counter.is_nan() {
                return match judge(a.counter, b.counter, s, NODE_MOST_W, self.count_j, wraps) {
                    Step::Rise(joules) | Step::Wrap(joules) => Some((a.ts, b.ts, joules / s)),
                    Step::Reset(_) | Step::Doubt => None,
                };
            }
            let whole = !a.power.is_nan() && !b.power.is_nan() && b.ts - a.ts <= longest;
            whole.then(|| (a.ts, b.ts, f64::midpoint(a.power, b.power)))
        };
        self.rows.iter().zip(self.rows.iter().skip(1)).filter_map(read).collect()
    }

    /// Power of the node by whether jobs hold it. `known_w` is its idle power by the inventory; `all_placed` whether every job that held
    /// GPUs has a placement, without which nobody knows that a node was idle.
    pub(super) fn model(&self, holding: &Holding, known_w: Option<f64>, all_placed: bool, wraps: &[f64]) -> PowerModel {
        let (mut free, mut busy, mut all) = (Mean::default(), Mean::default(), Mean::default());
        let mut ends = (f64::INFINITY, 0.0_f64);
        for (from, to, watts) in self.stretches(wraps) {
            let s = (to - from) as f64 / 1_000.0;
            let (claim, until) = holding.at(from);
            let whole = until >= to;
            match claim.held() {
                Some(false) if whole => free.add(watts, s),
                Some(true) if whole => busy.add(watts, s),
                _ => {}
            }
            all.add(watts, s);
            ends = (ends.0.min(watts), ends.1.max(watts));
        }
        for row in self.rows.iter().filter(|row| !row.power.is_nan()) {
            ends = (ends.0.min(row.power), ends.1.max(row.power));
        }
        let measured = free.value().filter(|_| all_placed && free.count >= LEAST_IDLE);
        let idle = known_w.or(measured).map_or(IdlePower { least_w: 0.0, most_w: ends.0 }, IdlePower::known);
        PowerModel {
            idle,
            most_w: (ends.1 > 0.0).then_some(ends.1),
            busy_w: busy.value(),
            mean_w: all.value(),
            ..PowerModel::default()
        }
    }
}

/// A mean by time.
#[derive(Debug, Default)]
struct Mean {
    joules: NeumaierSum,
    s: NeumaierSum,
    count: u64,
}

impl Mean {
    fn add(&mut self, watts: f64, s: f64) {
        self.joules.add(watts * s);
        self.s.add(s);
        self.count += 1;
    }

    fn value(&self) -> Option<f64> {
        (self.s.value() > 0.0).then(|| self.joules.value() / self.s.value())
    }
}

/// The steps a register goes in, joules, if it stands still between some readings; else 0.
fn count_of(rows: &[Row]) -> f64 {
    let mut stands = false;
    let mut least = f64::INFINITY;
    for (a, b) in rows.iter().zip(rows.iter().skip(1)) {
        let rise = b.counter - a.counter;
        stands |= rise == 0.0;
        if rise > 0.0 {
            least = least.min(rise);
        }
    }
    // The smallest of many differences of large numbers is a little off.
    if stands && least.is_finite() { least * (1.0 + 1e-6) } else { 0.0 }
}

/// Sources of the idle power of nodes.
#[derive(Debug, Default)]
pub(super) struct IdleOfNodes {
    listed: u64,
    read: u64,
    unknown: u64,
    ends_w: Option<(f64, f64)>,
}

impl IdleOfNodes {
    pub(super) fn add(&mut self, listed: bool, idle: IdlePower) {
        match idle.value() {
            Some(_) if listed => self.listed += 1,
            Some(watts) => {
                self.read += 1;
                self.ends_w = Some(self.ends_w.map_or((watts, watts), |ends| (ends.0.min(watts), ends.1.max(watts))));
            }
            None => self.unknown += 1,
        }
    }

    pub(super) fn words(&self) -> String {
        let read = self.ends_w.map_or_else(String::new, |ends| format!(" ({:.0} to {:.0} W)", ends.0, ends.1));
        format!(
            "Idle power of a node is the inventory's for {}, read while no job was placed on it for {}{read}, and unknown for {}, whose work and idle power are not told apart.",
            self.listed, self.read, self.unknown
        )
    }

    pub(super) fn constants(&self) -> Vec<Constant> {
        let ends = self.ends_w.map(|(least, most)| {
            let source = format!("readings of {} nodes while no job was placed on them", self.read);
            Constant::new("Idle power of nodes with a meter alone", format!("{least:.0} to {most:.0} W"), source, false)
        });
        let listed = (self.listed > 0).then(|| {
            let source = format!("the inventory, for {} nodes", self.listed);
            Constant::new("Idle power of nodes with a meter alone", "as listed by node", source, false)
        });
        listed.into_iter().chain(ends).collect()
    }
}
