//! Measuring: from readings of GPUs and nodes to the [`EnergyLedger`].
//!
//! Responsible for: choosing for every stretch of every device what its energy is known by (`series`), what a counter did
//! (`counter`), who held the device (`holding`), whose its energy is (`attribute`, which makes the ledger).
//! [`stream`](super::stream) does the same for tables larger than memory. Money, carbon and reports are not its part.
//!
//! The window must hold readings, or there is an error that says what the readings cover. In a window that they cover in part the
//! rest is modelled, and kept apart from what was metered by its [`Basis`].
//!
//! A device is audited over the time its node is: from the first to the last reading of any GPU or meter of the node, or over the
//! window that the user gives. Devices of the inventory without any reading are modelled by the state that the jobs tell, over
//! the whole window. Boards cut into instances are one device: instances report their board's power, and whose it was the
//! readings do not say.
//!
//! O(n log n) in readings and placements. Worked number: one GPU at 100 W from 0 to 3,600 s: 360,000 J, coverage 1.

mod absent;
mod attribute;
mod counter;
mod device;
mod fleet;
mod holding;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod known_tests;
mod method;
mod node_meter;
mod series;
mod sink;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub use counter::{REGISTER_WRAPS_J, WRAPS_J, counter_rise};
pub use device::{Devices, Drawn, EnergyPart, Holders};
pub use series::Readings;

pub(super) use fleet::Fleet;
pub(super) use holding::Claims;
pub(super) use series::{Reorder, Row, Series, Setting};
pub(super) use sink::{Bundle, Claim, Sink};

use attribute::{Measured, attribute, holders};

use super::constant::Constant;
use super::ledger::{Basis, EnergyLedger};
use super::model::{GPU_MOST_W, Given, PowerModel, PowerModels, Tally};
use crate::Trace;
use crate::error::{Error, Result};
use crate::facts::JobFacts;
use crate::facts::telemetry::node_types;
use crate::schema::device::{board, is_instance};
use crate::schema::{Numbers, Table as _};
use crate::time::{DAY_MS, HOUR_MS, format_utc};

/// Codes of the labels that tell a device.
type Codes = (Option<u32>, Option<u32>, Option<u32>);

/// No node draws more, watts: readings beyond are none.
const NODE_MOST_W: f64 = 20_000.0;
/// Power that a management controller reports while it has no reading, watts.
const NODE_BLANK_W: f64 = 25_550.0;
/// More GPUs than a node has.
const NODE_MOST_GPUS: f64 = 1_024.0;

/// Options of a measurement.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// First moment, ms since the epoch; the first reading of each node if not given.
    pub from_ms: Option<i64>,
    /// Moment after the last; the last reading of each node if not given.
    pub to_ms: Option<i64>,
    /// Time between readings, seconds; each device's own if not given.
    pub period_s: Option<f64>,
    /// Idle power and TDP by GPU type; `*` stands for types not named.
    pub power: BTreeMap<String, Given>,
    /// Utilisation, 0 to 1, of GPUs that a job holds, where no reading tells what working GPUs draw.
    pub assumed_util_ratio: Option<f64>,
    /// Power of a node beside its GPUs, watts.
    pub node_overhead_w: Option<f64>,
    /// Further moduli of energy counters, joules, beside [`WRAPS_J`].
    pub wraps_j: Vec<f64>,
    /// Threads for streams; 0 for one a core.
    pub threads: usize,
    /// Whether trace folders are of one cluster though years lie between them.
    pub one_cluster: bool,
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |setting: &str, found: String, remedy: &str| {
            Err(Error::Setting { setting: setting.to_owned(), found, remedy: remedy.to_owned() })
        };
        if let (Some(from), Some(to)) = (self.from_ms, self.to_ms)
            && from >= to
        {
            return refuse(
                "window",
                format!("it begins at {} and ends at {} UTC", format_utc(from), format_utc(to)),
                "give an end after the beginning",
            );
        }
        if let Some(period) = self.period_s.filter(|period| !(period.is_finite() && *period >= 0.001)) {
            return refuse("period", format!("{period} s"), "give a time between readings above 0");
        }
        if let Some(util) = self.assumed_util_ratio.filter(|util| !(0.0..=1.0).contains(util)) {
            return refuse("assumed utilisation", util.to_string(), "give a ratio from 0 to 1");
        }
        for (name, given) in &self.power {
            let known = |watts: Option<f64>| watts.is_none_or(|watts| (0.0..=GPU_MOST_W).contains(&watts));
            let ordered = given.idle_w.zip(given.tdp_w).is_none_or(|(idle, tdp)| idle <= tdp);
            if !(known(given.idle_w) && known(given.tdp_w) && ordered) {
                let found = format!("idle {:?} W, TDP {:?} W", given.idle_w, given.tdp_w);
                return refuse(&format!("power of {name}"), found, "give watts of one GPU, idle no more than TDP");
            }
        }
        if let Some(watts) = self.node_overhead_w.filter(|watts| !(0.0..=NODE_MOST_W).contains(watts)) {
            return refuse("overhead of a node", format!("{watts} W"), "give watts of one node");
        }
        if let Some(wrap) = self.wraps_j.iter().find(|wrap| !(wrap.is_finite() && **wrap > 0.0)) {
            return refuse("counter modulus", format!("{wrap} J"), "give joules above 0");
        }
        Ok(())
    }

    pub(super) fn wraps(&self) -> Vec<f64> {
        let mut wraps: Vec<f64> = WRAPS_J.iter().chain(&self.wraps_j).copied().collect();
        wraps.sort_by(f64::total_cmp);
        wraps
    }

    /// Moduli of meters of nodes, whose registers may count kWh.
    pub(super) fn register_wraps(&self) -> Vec<f64> {
        let mut wraps: Vec<f64> = WRAPS_J.iter().chain(&REGISTER_WRAPS_J).chain(&self.wraps_j).copied().collect();
        wraps.sort_by(f64::total_cmp);
        wraps
    }

    pub(super) fn window(&self) -> (i64, i64) {
        (self.from_ms.unwrap_or(i64::MIN), self.to_ms.unwrap_or(i64::MAX))
    }

    /// Options with a window that reaches no more than a day beyond the record, and the sentence that
    /// says so; of time further away nothing is known. The record goes from the first to the last
    /// moment of the jobs and readings of `trace` and of `more`.
    pub(super) fn within(
        &self,
        trace: Option<&Trace>,
        more: impl IntoIterator<Item = (i64, i64)>,
    ) -> (Self, Option<String>) {
        let (from, to) = self.window();
        let is_given = self.from_ms.or(self.to_ms).is_some();
        let record = if is_given { record(trace, more) } else { None };
        let Some(record) = record.filter(|record| from <= record.1 && to > record.0) else {
            return (self.clone(), None);
        };
        let from_ms = self.from_ms.map(|from| from.max(record.0.saturating_sub(DAY_MS)));
        let to_ms = self.to_ms.map(|to| to.min(record.1.saturating_add(DAY_MS)));
        let is_cut = (from_ms, to_ms) != (self.from_ms, self.to_ms);
        let note = is_cut.then(|| {
            format!(
                "**The window is cut to a day around the record**, which goes from {} to {} UTC: of the time beyond it neither jobs nor readings are known.",
                format_utc(record.0),
                format_utc(record.1)
            )
        });
        (Self { from_ms, to_ms, ..self.clone() }, note)
    }

    pub(super) fn period_ms(&self) -> Option<i64> {
        self.period_s.map(|s| (s * 1_000.0).round() as i64)
    }
}

/// Measures a trace.
///
/// # Errors
/// If an option makes no sense, or the trace has neither readings nor jobs with a known power.
pub fn measure(trace: &Trace, options: &Options) -> Result<EnergyLedger> {
    measure_counted(trace, options).map(|(ledger, _)| ledger)
}

/// Measures as [`measure`] does, and returns the counts of the readings too.
///
/// # Errors
/// See [`measure`].
pub fn measure_counted(trace: &Trace, options: &Options) -> Result<(EnergyLedger, Readings)> {
    let (options, cut) = options.within(Some(trace), []);
    let options = &options;
    let Read { mut fleet, models, mut claims, mut sink, mut counts } = read(trace, options)?;
    let wraps = options.wraps();
    fleet.share_meters(Some(trace), &models, &mut claims);
    let set = fleet.gpu_setting(&wraps);
    fleet.unread(trace, &models, &claims, &set, &mut sink, &mut counts);
    fleet.notes.extend(cut);
    fleet.notes.extend(fleet.told_of_jobs(trace));
    if fleet.record().is_none() && sink.cells.is_empty() {
        estimate(trace, &models, &mut claims, &fleet, options, &mut sink)?;
        fleet.notes.push(format!(
            "There are no readings of power that have a time{}: all energy is modelled from the GPU time of jobs, and idle GPUs are not in it.",
            if counts.without_time > 0 { format!(" ({} have none)", counts.without_time) } else { String::new() }
        ));
    }
    conclude(Some(trace), &claims, &models, sink, fleet, options, counts)
}

/// First and last moment of the jobs and readings of a trace and of `more`, milliseconds since the
/// epoch.
fn record(trace: Option<&Trace>, more: impl IntoIterator<Item = (i64, i64)>) -> Option<(i64, i64)> {
    let span = |times: &Numbers<i64>| {
        let known = || (0..times.len()).filter_map(|ix| times.get(ix));
        known().min().zip(known().max())
    };
    let of_trace = trace.into_iter().flat_map(|trace| {
        let facts = JobFacts::new(trace);
        // Jobs that were chosen by a time run on after it.
        let jobs = facts.window.map(|(from, to)| (from, facts.record_end.map_or(to, |end| end.max(to))));
        [jobs, span(&trace.gpu_samples.ts), span(&trace.node_samples.ts)]
    });
    let spans = of_trace.flatten().chain(more);
    spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1)))
}

/// Readings of GPUs, and the state to go on from.
struct Read {
    fleet: Fleet,
    models: PowerModels,
    claims: Claims,
    sink: Sink,
    counts: Readings,
}

/// Reads the meters of nodes, and measures the GPUs that have readings.
fn read(trace: &Trace, options: &Options) -> Result<Read> {
    options.check()?;
    let mut devices = Rows::new(trace, options.window());
    let mut fleet = Fleet::new(Some(trace), options, &mut devices.counts);
    add_types(trace, &mut devices.tallies);
    let models = PowerModels::fit(&devices.tallies, &options.power, options.assumed_util_ratio);
    for (node, span) in &devices.spans {
        let number = fleet.number(node.as_deref());
        fleet.seen(number, *span);
    }
    let span = fleet.window(trace, None);
    let labelled = !trace.gpu_samples.job_key.is_all_unknown();
    let mut claims = Claims::new(trace, span, labelled);
    let named: Vec<Claim> =
        (0..).map_while(|code| trace.gpu_samples.job_key.name(code)).map(|name| claims.named(name)).collect();
    let mut sink = Sink::new(fleet.by_node());
    let wraps = options.wraps();
    let mut set = Setting { named: claims.by_name(), ..fleet.gpu_setting(&wraps) };
    for ((node, _, board), rows) in std::mem::take(&mut devices.rows) {
        let number = fleet.number(node.as_deref());
        let place = models.place(devices.types.get(&(node.clone(), board.clone())).map(String::as_str));
        set.model = models.models.get(place as usize);
        set.holding = claims.held(Some(claims.unread(node.as_deref(), board.as_deref())));
        fleet.device(number, place);
        let mut series = Series::new(number);
        for row in readings(trace, &rows, &named, &mut devices.counts) {
            series.push(row, &set, &mut sink, &mut devices.counts);
        }
        let (from, to) = fleet.span(number);
        series.finish(from, to, &set, &mut sink, &mut devices.counts);
    }
    Ok(Read { fleet, models, claims, sink, counts: devices.counts })
}

/// Sums the readings of a trace by kind of device and holder: the part of [`measure`] that rests on
/// readings.
///
/// # Errors
/// If an option makes no sense.
pub fn devices(trace: &Trace, options: &Options) -> Result<Devices> {
    let Read { mut fleet, models, mut claims, mut sink, mut counts } = read(trace, options)?;
    let gpus = Drawn::of_sink(&sink);
    fleet.share_meters(Some(trace), &models, &mut claims);
    let wraps = options.wraps();
    let set = fleet.gpu_setting(&wraps);
    // GPUs without readings share pools with the others, and have nothing else here.
    fleet.unread(trace, &models, &claims, &set, &mut sink, &mut counts);
    let holders = holders(&claims, &models, &sink);
    fleet.close(&claims, &mut Sink::new(false), &mut counts);
    Ok(Devices { gpus, holders, nodes: Drawn::of_meters(&fleet), counts })
}

/// Makes the ledger.
///
/// # Errors
/// If nothing is known of the window.
pub(super) fn conclude(
    trace: Option<&Trace>,
    claims: &Claims,
    models: &PowerModels,
    mut sink: Sink,
    mut fleet: Fleet,
    options: &Options,
    mut counts: Readings,
) -> Result<(EnergyLedger, Readings)> {
    fleet.close(claims, &mut sink, &mut counts);
    let record = fleet.record();
    // Without readings it is the jobs that say what time is known.
    let trace_alone = trace.filter(|_| record.is_none());
    if let Some((trace, jobs)) = trace_alone.and_then(|trace| Some((trace, JobFacts::new(trace).window?)))
        && (jobs.1 < options.window().0 || jobs.0 >= options.window().1)
    {
        return Err(absent::jobs(trace, options.window(), jobs));
    }
    if let Some(record) = record.filter(|_| counts.in_window == 0 && !fleet.has_read(&sink)) {
        return Err(absent::window(trace, options.window(), record, &counts));
    }
    // A device that draws nothing has an energy, too: none.
    let known = fleet.has_read(&sink) || fleet.facts.iter().any(|facts| facts.meter.is_some());
    let mut notes = std::mem::take(&mut fleet.notes);
    tell(&counts, claims, &mut notes);
    let used: BTreeSet<u32> = fleet.facts.iter().filter(|facts| facts.gpus > 0).map(|facts| facts.model).collect();
    let used: Vec<&PowerModel> = used.iter().filter_map(|model| models.models.get(*model as usize)).collect();
    // Without devices it is the jobs' types that set the figures.
    let all: Vec<&PowerModel> = models.models.iter().filter(|model| model.most_w.is_some()).collect();
    let used = if used.is_empty() && record.is_none() { all } else { used };
    notes.extend(used.iter().map(|model| format!("Power of {}.", model.source)));
    let mut constants: Vec<Constant> = used.iter().flat_map(|model| model.constants.iter().cloned()).collect();
    constants.append(&mut fleet.constants);
    constants.extend(method::constants(&options.wraps()));
    let hours =
        sink.cells.keys().fold((i64::MAX, i64::MIN), |all, (hour, ..)| (all.0.min(*hour), all.1.max(hour + HOUR_MS)));
    let bounds = record.filter(|record| record.0 < record.1).unwrap_or(hours);
    let window = (options.from_ms.unwrap_or(bounds.0), options.to_ms.unwrap_or(bounds.1));
    let measured = Measured {
        trace,
        claims,
        models,
        sink,
        nodes: fleet.facts,
        overhead_w: options.node_overhead_w,
        window: if window.0 <= window.1 { window } else { (0, 0) },
        record,
        notes,
    };
    let mut ledger = attribute(&measured);
    ledger.constants = constants;
    if ledger.entries.is_empty() && !known {
        return Err(absent::energy(trace, &counts, models, options));
    }
    Ok((ledger, counts))
}

fn tell(counts: &Readings, claims: &Claims, notes: &mut Vec<String>) {
    for (count, what) in [
        (counts.without_time, "readings have no time or no device and are left out"),
        (counts.duplicates, "rows repeat a reading of their device and moment; the first is used"),
        (counts.out_of_order, "rows came after later ones of their device and were sorted"),
        (counts.late, "of these came too late to be sorted in a stream and are left out"),
        (counts.bad_power, "power readings cannot be and are left out"),
        (counts.bad_util, "utilisations cannot be and are left out"),
        (counts.bad_counter, "counter readings cannot be and are left out"),
        (counts.resets, "times a counter began again; what it counted between the last reading and the reset is lost"),
        (counts.wraps, "times a counter ran over; what it counted is whole"),
        (
            counts.long_gaps,
            "gaps of more than three sample periods are filled by a model, within idle power and the most the device can draw",
        ),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}."));
        }
    }
    let (unplaced, all) = claims.unplaced;
    if unplaced > 0 {
        notes.push(format!(
            "{unplaced} of {all} runs of jobs have no placement: within their VC, else the cluster, they share energy by GPU time."
        ));
    }
}

/// A device: node, the job in place of an unknown node, board.
type Key = (Option<String>, Option<String>, Option<String>);

/// GPU samples by device.
struct Rows {
    rows: BTreeMap<Key, Vec<u32>>,
    types: HashMap<(Option<String>, Option<String>), String>,
    tallies: BTreeMap<Option<String>, Tally>,
    spans: BTreeMap<Option<String>, (i64, i64)>,
    counts: Readings,
}

impl Rows {
    fn new(trace: &Trace, window: (i64, i64)) -> Self {
        let samples = &trace.gpu_samples;
        let types: HashMap<&str, &str> = node_types(trace);
        let mut devices = Self {
            rows: BTreeMap::new(),
            types: HashMap::new(),
            tallies: BTreeMap::new(),
            spans: BTreeMap::new(),
            counts: Readings::default(),
        };
        // Codes first: texts are looked up once a device, not once a row.
        let mut by_code: HashMap<Codes, Vec<u32>> = HashMap::new();
        let mut last: HashMap<Codes, i64> = HashMap::new();
        for ix in 0..samples.len() {
            devices.counts.rows += 1;
            let (node, gpu) = (samples.node.code(ix), samples.gpu.code(ix));
            let job = if node.is_none() { samples.job_key.code(ix) } else { None };
            let key = (node, gpu, job);
            let Some(ts) = samples.ts.get(ix).filter(|_| node.is_some() || gpu.is_some()) else {
                devices.counts.without_time += 1;
                continue;
            };
            devices.counts.at(ts, window);
            let newest = last.entry(key).or_insert(ts);
            devices.counts.out_of_order += u64::from(ts < *newest);
            *newest = ts.max(*newest);
            by_code.entry(key).or_default().push(u32::try_from(ix).unwrap_or(u32::MAX));
        }
        for ((node, gpu, job), rows) in by_code {
            let node = node.and_then(|code| samples.node.name(code));
            let name = gpu.and_then(|code| samples.gpu.name(code));
            let job = job.and_then(|code| samples.job_key.name(code));
            let kind = rows.iter().find_map(|ix| samples.gpu_type.get(*ix as usize));
            let kind = kind.or_else(|| node.and_then(|node| types.get(node).copied()));
            let whole = name.map(board).map(str::to_owned);
            if let Some(kind) = kind {
                devices.types.insert((node.map(str::to_owned), whole.clone()), kind.to_owned());
            }
            let tally = devices.tallies.entry(kind.map(str::to_owned)).or_default();
            let instance = name.is_some_and(is_instance);
            let mut span = (i64::MAX, i64::MIN);
            for ix in rows.iter().map(|ix| *ix as usize) {
                let util = samples.util_ratio.get(ix).filter(|_| !instance);
                if let Some(power) = samples.power_w.get(ix) {
                    tally.add(power, util);
                }
                let ts = samples.ts.get(ix).unwrap_or(0);
                span = (span.0.min(ts), span.1.max(ts));
            }
            let of_node = devices.spans.entry(node.map(str::to_owned)).or_insert(span);
            *of_node = (of_node.0.min(span.0), of_node.1.max(span.1));
            devices.rows.entry((node.map(str::to_owned), job.map(str::to_owned), whole)).or_default().extend(rows);
        }
        for rows in devices.rows.values_mut() {
            rows.sort_unstable();
            // Stable: of rows of one moment the first that was read counts.
            rows.sort_by_key(|ix| samples.ts.get(*ix as usize));
        }
        devices
    }
}

/// A device's readings in order of time, one a moment.
fn readings(trace: &Trace, rows: &[u32], named: &[Claim], counts: &mut Readings) -> Vec<Row> {
    let samples = &trace.gpu_samples;
    let mut readings: Vec<Row> = Vec::with_capacity(rows.len());
    for ix in rows.iter().map(|ix| *ix as usize) {
        let Some(ts) = samples.ts.get(ix) else { continue };
        let claim = samples.job_key.code(ix).and_then(|code| named.get(code as usize)).copied();
        let instance = samples.gpu.get(ix).is_some_and(is_instance);
        let values = [samples.energy_j_cum.get(ix), samples.power_w.get(ix), samples.util_ratio.get(ix)];
        let row = reading(ts, values, claim.unwrap_or(Claim::Nobody), instance, counts);
        match readings.last_mut() {
            Some(last) if last.ts == ts => {
                let repeats = last.merge(&row);
                counts.duplicates += u64::from(repeats && !instance);
            }
            _ => readings.push(row),
        }
    }
    readings
}

/// A GPU's reading, `values` counter (J), power (W) and utilisation; what cannot be is counted and unknown.
#[inline]
pub(super) fn reading(ts: i64, values: [Option<f64>; 3], claim: Claim, instance: bool, counts: &mut Readings) -> Row {
    let mut row = Row::at(ts, if instance { Claim::Unknown } else { claim });
    let [counter, power, util] = values;
    let sound = |value: Option<f64>, most: f64, bad: &mut u64| match value {
        Some(value) if (0.0..=most).contains(&value) => value,
        Some(_) => {
            *bad += 1;
            f64::NAN
        }
        None => f64::NAN,
    };
    row.counter = sound(counter, f64::MAX, &mut counts.bad_counter);
    row.power = sound(power, GPU_MOST_W, &mut counts.bad_power);
    let util = sound(util, 1.0, &mut counts.bad_util);
    // Of an instance, which says nothing about its board.
    row.util = if instance { f64::NAN } else { util };
    row
}

/// Adds types that have no readings, so that they have a place among the models.
pub(super) fn add_types(trace: &Trace, tallies: &mut BTreeMap<Option<String>, Tally>) {
    for label in [&trace.nodes.gpu_type, &trace.jobs.gpu_type] {
        for name in (0..).map_while(|code| label.name(code)) {
            tallies.entry(Some(name.to_owned())).or_default();
        }
    }
}

/// Models the energy of jobs' GPUs hour by hour, without any reading or inventory.
fn estimate(
    trace: &Trace,
    models: &PowerModels,
    claims: &mut Claims,
    fleet: &Fleet,
    options: &Options,
    sink: &mut Sink,
) -> Result<()> {
    let span = fleet.window(trace, None);
    let facts = JobFacts::new(trace);
    let jobs = &trace.jobs;
    let (mut known, mut inside) = (false, false);
    for stretch in &facts.stretches {
        let Some(model) = models.models.get(models.place(jobs.gpu_type.get(stretch.job)) as usize) else { continue };
        let util = jobs.reported_gpu_util_ratio.get(stretch.job).map(|util| util.clamp(0.0, 1.0));
        let reported = util.and_then(|util| Some((model.at(util)?, model.at_most(util))));
        let Some((watts, most)) = reported.or_else(|| Some((model.in_state(Some(true))?, model.most_w))) else {
            continue;
        };
        let most = most.unwrap_or(watts).max(watts);
        let Some(claim) = jobs.job_key.get(stretch.job).map(|key| claims.whole(key)) else { continue };
        known = true;
        let (mut from, to) = (stretch.start.max(span.0), stretch.end.min(span.1));
        while from < to {
            inside = true;
            let hour = from.div_euclid(HOUR_MS) * HOUR_MS;
            let until = to.min(hour + HOUR_MS);
            let s = (until - from) as f64 / 1_000.0 * stretch.gpus;
            let bundle = series::flat(watts, (model.idle.least_w.min(watts), most), s, model.idle);
            sink.add(u32::MAX, hour, claim, Basis::Model, &bundle);
            from = until;
        }
    }
    match (known, inside, facts.window) {
        (true, true, _) => Ok(()),
        (true, false, Some(jobs)) => Err(absent::jobs(trace, options.window(), jobs)),
        _ => Err(absent::energy(Some(trace), &Readings::default(), models, options)),
    }
}
