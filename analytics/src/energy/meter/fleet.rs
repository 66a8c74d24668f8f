//! Nodes, their meters, and the time they are audited.
//!
//! A meter stands beside the readings of its node's GPUs ([`attribute`](super::attribute) brings them together), or is all that is
//! read of the node. Then its jobs share it: the node is one device, held by each job with the part of its GPUs that the job was given
//! there, and its idle power is kept apart ([`NodeMeter::model`]).
//!
//! O(readings + placements). Worked number: a node of 8 GPUs with an idle power of 800 W reads 2,400 W for an hour while a job holds 4 of
//! them: 1.6 kWh are the job's work, 0.4 kWh its idle power, and 0.4 kWh nobody's.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::holding::NodeHeld;
use super::node_meter::{IdleOfNodes, NodeMeter};
use super::{Claims, NODE_MOST_GPUS, NODE_MOST_W, Options, Readings, Series, Setting, Sink};
use crate::KWH_J;
use crate::Trace;
use crate::energy::constant::Constant;
use crate::energy::ledger::Basis;
use crate::energy::model::PowerModels;
use crate::facts::JobFacts;
use crate::report::format::{compact, count};
use crate::schema::Table as _;
use crate::time::DAY_MS;

/// Key of nodes without readings that draw alike: the node's number if it has a meter, the place of
/// its model, bits of idle watts, and claims on its GPUs.
type Likeness = (Option<u32>, u32, Option<u64>, Vec<u32>);

/// Longest time modelled by the hour without readings, unless a window is given.
const MOST_UNREAD_MS: i64 = 731 * DAY_MS;

/// Readings of a node's meter by hour and basis: joules, lower bound, upper bound, seconds.
pub(in crate::energy) type MeterHours = BTreeMap<(i64, Basis), [f64; 4]>;

/// A node as far as overhead is concerned.
#[derive(Debug, Clone, Default)]
pub(in crate::energy) struct NodeFacts {
    /// Place of its GPUs' model.
    pub(in crate::energy) model: u32,
    /// GPUs with energy.
    pub(in crate::energy) gpus: u32,
    /// Idle power by the inventory, watts.
    pub(in crate::energy) idle_w: Option<f64>,
    /// Readings of the node's meter.
    pub(in crate::energy) meter: Option<MeterHours>,
    /// Place of the GPUs' model and number of GPUs, where the meter's energy is divided among the
    /// node's jobs as a device's is.
    pub(in crate::energy) shared: Option<(u32, u32)>,
}

/// Nodes, their meters and the time they are audited.
#[derive(Debug, Default)]
pub(in crate::energy) struct Fleet {
    numbers: HashMap<Option<String>, u32>,
    pub(in crate::energy) facts: Vec<NodeFacts>,
    spans: Vec<Option<(i64, i64)>>,
    idle_w: HashMap<String, f64>,
    meters: Vec<(u32, NodeMeter)>,
    /// Nodes whose meter their jobs share.
    shared: HashMap<u32, NodeHeld>,
    /// Moduli of the meters' registers, joules.
    wraps: Vec<f64>,
    /// Window that the user names, else all time.
    pub(in crate::energy) clip: (i64, i64),
    window: (Option<i64>, Option<i64>),
    period_ms: Option<i64>,
    overhead: bool,
    pub(in crate::energy) notes: Vec<String>,
    /// Constants that set figures of nodes.
    pub(super) constants: Vec<Constant>,
}

impl Fleet {
    /// Reads the meters of nodes.
    pub(in crate::energy) fn new(trace: Option<&Trace>, options: &Options, counts: &mut Readings) -> Self {
        let mut fleet = Self {
            clip: options.window(),
            window: (options.from_ms, options.to_ms),
            period_ms: options.period_ms(),
            overhead: options.node_overhead_w.is_some(),
            wraps: options.register_wraps(),
            ..Self::default()
        };
        let Some(trace) = trace else { return fleet };
        let nodes = &trace.nodes;
        fleet.idle_w =
            (0..nodes.len()).filter_map(|ix| Some((nodes.node.get(ix)?.to_owned(), nodes.idle_w.get(ix)?))).collect();
        for (node, meter) in NodeMeter::all(&trace.node_samples, fleet.clip, counts) {
            let number = fleet.number(node.as_deref());
            if let (Some(first), Some(last)) = (meter.rows.first(), meter.rows.last()) {
                fleet.seen(number, (first.ts, last.ts));
            }
            fleet.meters.push((number, meter));
        }
        fleet
    }

    /// Measuring options of a GPU, without its model and holding.
    pub(in crate::energy) fn gpu_setting<'w>(&self, wraps: &'w [f64]) -> Setting<'w> {
        Setting {
            model: None,
            meter_w: None,
            count_j: 0.0,
            holding: None,
            named: None,
            wraps,
            window: self.clip,
            period_ms: self.period_ms,
        }
    }

    /// First and last reading of all.
    pub(in crate::energy) fn record(&self) -> Option<(i64, i64)> {
        self.spans.iter().flatten().copied().reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)))
    }

    /// Whether any stretch of the window is known from readings.
    pub(in crate::energy) fn has_read(&self, sink: &Sink) -> bool {
        let of_meters = self.facts.iter().filter_map(|facts| facts.meter.as_ref()).flat_map(|hours| hours.keys());
        let mut bases = sink.cells.keys().map(|(.., basis)| *basis).chain(of_meters.map(|(_, basis)| *basis));
        bases.any(Basis::is_read)
    }

    /// The number of a node.
    pub(in crate::energy) fn number(&mut self, node: Option<&str>) -> u32 {
        let key = node.map(str::to_owned);
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.facts.len()).unwrap_or(u32::MAX);
        let idle_w = node.and_then(|node| self.idle_w.get(node)).copied();
        self.facts.push(NodeFacts { idle_w, ..NodeFacts::default() });
        self.spans.push(None);
        self.numbers.insert(key, number);
        number
    }

    /// Notes that a device of a node has readings from one moment to another.
    pub(in crate::energy) fn seen(&mut self, number: u32, span: (i64, i64)) {
        if let Some(slot) = self.spans.get_mut(number as usize) {
            *slot = Some(slot.map_or(span, |known| (known.0.min(span.0), known.1.max(span.1))));
        }
    }

    /// Notes a GPU of a node, and the place of its model.
    pub(in crate::energy) fn device(&mut self, number: u32, model: u32) {
        if let Some(facts) = self.facts.get_mut(number as usize) {
            facts.gpus += 1;
            facts.model = model;
        }
    }

    /// Audited time of a node.
    pub(in crate::energy) fn span(&self, number: u32) -> (i64, i64) {
        let read = self.spans.get(number as usize).copied().flatten().unwrap_or((0, 0));
        (self.window.0.unwrap_or(read.0), self.window.1.unwrap_or(read.1))
    }

    /// Audited time of all nodes, with GPU readings of `more`; without readings, the span of the
    /// jobs.
    pub(in crate::energy) fn window(&self, trace: &Trace, more: Option<(i64, i64)>) -> (i64, i64) {
        let spans = self.spans.iter().flatten().copied().chain(more);
        let all = spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)));
        let all = all.or_else(|| self.of_jobs(trace)).unwrap_or((0, 0));
        (self.window.0.unwrap_or(all.0), self.window.1.unwrap_or(all.1))
    }

    /// Span of the jobs, cut to the newest [`MOST_UNREAD_MS`] unless a window is given.
    fn of_jobs(&self, trace: &Trace) -> Option<(i64, i64)> {
        let (from, to) = JobFacts::new(trace).window?;
        Some((if self.window == (None, None) { from.max(to.saturating_sub(MOST_UNREAD_MS)) } else { from }, to))
    }

    /// Sentence saying that jobs span more than is audited where there are no readings.
    pub(super) fn told_of_jobs(&self, trace: &Trace) -> Option<String> {
        let (from, to) = JobFacts::new(trace).window?;
        let (begin, _) = self.of_jobs(trace).filter(|(begin, _)| *begin > from && self.record().is_none())?;
        let days = |ms: i64| count((ms / DAY_MS).unsigned_abs());
        Some(format!(
            "**The audit is of the newest {} of {} days of jobs**, as there are no readings: --from and --to name another window.",
            days(to - begin),
            days(to - from)
        ))
    }

    /// Whether energy is needed by node.
    pub(in crate::energy) fn by_node(&self) -> bool {
        self.overhead || !self.meters.is_empty() || !self.idle_w.is_empty()
    }

    /// Finds the nodes whose meter is all that is read of them and whose jobs are known: their energy is divided among these.
    pub(in crate::energy) fn share_meters(&mut self, trace: Option<&Trace>, models: &PowerModels, claims: &mut Claims) {
        let Some(trace) = trace else { return };
        let nodes = &trace.nodes;
        let types: HashMap<&str, Option<&str>> =
            (0..nodes.len()).filter_map(|ix| Some((nodes.node.get(ix)?, nodes.gpu_type.get(ix)))).collect();
        let listed: HashMap<&str, f64> = (0..nodes.len())
            .filter_map(|ix| {
                nodes.node.get(ix).zip(nodes.gpus.get(ix).filter(|gpus| (1.0..=NODE_MOST_GPUS).contains(gpus)))
            })
            .collect();
        let metered: BTreeSet<u32> = self.meters.iter().map(|(number, _)| *number).collect();
        let gpus = |number: u32| self.facts.get(number as usize).map_or(0, |facts| facts.gpus);
        let wanted: BTreeMap<String, Option<f64>> = (self.numbers.iter())
            .filter(|(_, number)| metered.contains(*number) && gpus(**number) == 0)
            .filter_map(|(name, _)| Some((name.clone()?, listed.get(name.as_deref()?).copied())))
            .collect();
        for (node, held) in claims.nodes_held(trace, &wanted) {
            let number = self.number(Some(&node));
            let place = models.place(types.get(node.as_str()).copied().flatten());
            if let Some(facts) = self.facts.get_mut(number as usize) {
                facts.shared = Some((place, held.gpus.round() as u32));
            }
            self.shared.insert(number, held);
        }
    }

    /// Adds the GPUs of the inventory that have no reading, by the state that jobs tell.
    pub(in crate::energy) fn unread(
        &mut self,
        trace: &Trace,
        models: &PowerModels,
        claims: &Claims,
        set: &Setting<'_>,
        sink: &mut Sink,
        counts: &mut Readings,
    ) {
        let whole = self.window(trace, None);
        let (mut modelled, mut left_out) = (0_u64, 0_u64);
        // By model, idle power and who holds their GPUs: nodes that are alike in all of these draw alike, but for those that have a meter, which stand alone.
        let mut alike: BTreeMap<Likeness, (u32, f64)> = BTreeMap::new();
        let nodes = &trace.nodes;
        for ix in 0..nodes.len() {
            let gpus = nodes.gpus.get(ix).filter(|gpus| (1.0..=NODE_MOST_GPUS).contains(gpus));
            let (Some(node), Some(gpus)) = (nodes.node.get(ix), gpus.map(|gpus| gpus.round() as u32)) else { continue };
            let number = self.number(Some(node));
            if self.facts.get(number as usize).is_none_or(|facts| facts.gpus > 0) || self.shared.contains_key(&number) {
                continue;
            }
            let place = models.place(nodes.gpu_type.get(ix));
            if models.models.get(place as usize).is_none_or(|model| model.in_state(None).is_none()) {
                left_out += 1;
                continue;
            }
            modelled += 1;
            let metered = self.spans.get(number as usize).copied().flatten().map(|_| number);
            (0..gpus).for_each(|_| self.device(number, place));
            let mut holdings: Vec<u32> =
                (0..gpus).map(|gpu| claims.unread(Some(node), Some(&gpu.to_string()))).collect();
            holdings.sort_unstable();
            let idle_w = self.facts.get(number as usize).and_then(|facts| facts.idle_w).map(f64::to_bits);
            alike.entry((metered, place, idle_w, holdings)).or_insert((number, 0.0)).1 += 1.0;
        }
        for ((metered, place, _, holdings), (number, nodes)) in alike {
            let (from, to) = metered.map_or(whole, |number| self.span(number));
            let model = models.models.get(place as usize);
            for gpus in holdings.chunk_by(|a, b| a == b) {
                let set = Setting { model, holding: claims.held(gpus.first().copied()), ..*set };
                let mut of_one = Sink::new(sink.by_node);
                Series::new(number).finish(from, to, &set, &mut of_one, counts);
                sink.add_times(&of_one, nodes * gpus.len() as f64);
            }
        }
        if modelled > 0 {
            self.notes.push(format!(
                "{modelled} nodes of the inventory have no readings of their GPUs: their power is modelled by whether jobs hold them."
            ));
        }
        if left_out > 0 {
            self.notes.push(format!(
                "{left_out} nodes of the inventory have no readings of their GPUs, and nothing is known of their power: left out."
            ));
        }
    }

    /// Ends the meters, each at the end of its node's time. Energy of nodes whose jobs share a meter goes to `sink`.
    pub(in crate::energy) fn close(&mut self, claims: &Claims, sink: &mut Sink, counts: &mut Readings) {
        let mut idle = IdleOfNodes::default();
        let wraps = std::mem::take(&mut self.wraps);
        let (mut shared, mut counted_j) = (0_u64, 0.0_f64);
        let (mut registers, mut guessed) = (0_u64, 0_u64);
        for (number, meter) in std::mem::take(&mut self.meters) {
            let span = self.span(number);
            let held = self.shared.get(&number).copied();
            let known_w = self.facts.get(number as usize).and_then(|facts| facts.idle_w);
            let holding = held.and_then(|held| claims.held(Some(held.holding)));
            let model = holding.map(|holding| meter.model(holding, known_w, claims.unplaced.0 == 0, &wraps));
            let set = Setting {
                model: model.as_ref(),
                holding,
                meter_w: Some(NODE_MOST_W),
                count_j: meter.count_j,
                ..self.gpu_setting(&wraps)
            };
            registers += u64::from(meter.count_j > 0.0);
            counted_j = counted_j.max(meter.count_j);
            let (mut node_sink, mut series) = (Sink::new(false), Series::new(number));
            for row in meter.rows {
                series.push(row, &set, &mut node_sink, counts);
            }
            series.finish(span.0, span.1, &set, &mut node_sink, counts);
            let mut hours = MeterHours::new();
            let mut cells: Vec<_> = node_sink.cells.into_iter().collect();
            cells.sort_by_key(|(key, _)| *key);
            for ((hour, claim, basis), total) in cells {
                let mut bundle = total.value();
                let read = hours.entry((hour, basis)).or_insert([0.0; 4]);
                for (ix, slot) in read.iter_mut().take(3).enumerate() {
                    *slot +=
                        [bundle.active, bundle.either, bundle.idle].iter().filter_map(|part| part.get(ix)).sum::<f64>();
                }
                read[3] += bundle.s - bundle.blank_s;
                if let Some(held) = held {
                    // As GPU time: a node is as many GPUs as it has.
                    (bundle.s, bundle.blank_s) = (bundle.s * held.gpus, bundle.blank_s * held.gpus);
                    sink.whole.entry((number, hour, claim, basis)).or_default().add(&bundle);
                }
            }
            hours.retain(|_, read| read[3] > 0.0);
            if let Some(facts) = self.facts.get_mut(number as usize).filter(|_| !hours.is_empty()) {
                facts.meter = Some(hours);
            }
            if let (Some(held), Some(model)) = (held, model) {
                shared += 1;
                guessed += u64::from(!held.is_listed);
                idle.add(known_w.is_some(), model.idle);
            }
        }
        if shared > 0 {
            let listed = match guessed {
                0 => String::new(),
                some => format!(
                    " Of {some} of them the inventory does not say how many GPUs they have: the most that jobs held at a time is taken."
                ),
            };
            self.notes.push(format!(
                "{shared} nodes have a meter and no readings of their GPUs: their whole energy, GPUs and all else, goes to the jobs placed on them by GPUs held and time. {}{listed}",
                idle.words()
            ));
            self.constants.extend(idle.constants());
        }
        if registers > 0 {
            self.notes.push(format!(
                "{registers} meters are registers that count in steps of up to {} kWh: their energy is known to within a step, and spread evenly from step to step.",
                compact(counted_j / KWH_J)
            ));
        }
    }
}
