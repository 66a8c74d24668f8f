//! Whose energy it is: from what devices and meters add up to, to the ledger.
//!
//! **Devices.** Energy of a device that a job holds is split at idle power: above is [`Use::Active`], up to it
//! [`Use::IdleAllocated`], and what lies between the bounds of an unknown idle power [`Use::Unsplit`]; all energy of a device that nobody holds is [`Use::IdleUnallocated`]. A job that has part of a GPU
//! holds that part of its idle power; what is drawn above is shared by those on it. In a pool ([`Claim::Pool`]) a job is given at
//! most what GPUs can draw above idle in its GPU time; what is left over is active and nobody's. Where no job is known at all,
//! energy above idle is active and nobody's, and energy up to idle unallocated.
//!
//! **Nodes that jobs share by their meter** ([`NodeFacts::shared`]) are devices among the others, and their meter is only counted. Overhead has one name: where it is
//! known of their like (as below) it is taken out of what their meters read, and the rest is of their GPUs. Else their idle power is that of whole nodes
//! ([`Use::NodeIdleAllocated`], [`Use::NodeIdleUnallocated`]).
//!
//! **Nodes.** A whole-node meter is the truth for its node: overhead is what the node needs beside its GPUs, and the
//! residual what is left, hour by hour: meter = parts + overhead + residual. Without GPUs a node is all overhead. Else overhead is
//! what the user gives; else the inventory's idle power of the node less that of its GPUs; else a fit, for each GPU type and
//! number of GPUs: meter less GPUs as a non-decreasing function of the GPUs' power (fans and power supplies lose more under
//! load), over all metered node-hours, and not below 0. So the residual tells nodes and hours that differ from their like. Nodes
//! without a meter get the overhead of their like, marked as a model. A node's overhead follows the claims on its GPUs by time.
//!
//! O(cells log cells + shares). Worked number: a node with a meter of 500 W, 300 W in its GPUs and an overhead of 180 W for an hour:
//! 1,080 kJ + 648 kJ + a residual of 72 kJ = 1,800 kJ.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fleet::NodeFacts;
use super::{Bundle, Claim, Claims, Holders, Sink};
use crate::KWH_J;
use crate::Trace;
use crate::energy::ledger::{Basis, EnergyEntry, EnergyLedger, JobEnergy, Owner, ReadSpan, Use};
use crate::energy::model::{PowerModels, isotonic};
use crate::stats::sum::NeumaierSum;
use crate::time::HOUR_S;

/// Points of a fit, three numbers each.
type Points = Vec<(f64, f64, f64)>;

/// Measured energy, to be attributed.
#[derive(Debug)]
pub(super) struct Measured<'a> {
    pub(super) trace: Option<&'a Trace>,
    pub(super) claims: &'a Claims,
    pub(super) models: &'a PowerModels,
    pub(super) sink: Sink,
    /// Nodes by number.
    pub(super) nodes: Vec<NodeFacts>,
    /// Overhead of a node, watts, by the user.
    pub(super) overhead_w: Option<f64>,
    pub(super) window: (i64, i64),
    /// First and last reading.
    pub(super) record: Option<(i64, i64)>,
    pub(super) notes: Vec<String>,
}

/// Joules: energy, at least, at most.
type Joules = [f64; 3];

#[derive(Debug, Default)]
struct JobSum {
    active: NeumaierSum,
    unsplit: NeumaierSum,
    idle: NeumaierSum,
    overhead: NeumaierSum,
    modelled: NeumaierSum,
    gpu_s: NeumaierSum,
    read_s: NeumaierSum,
}

/// Division of a claim: by job its part of the energy above idle and of the time; parts of time add
/// up to `held`.
struct Division {
    jobs: Vec<(u32, f64, f64)>,
    held: f64,
    /// Part of the energy above idle that no known job can have drawn.
    strange: f64,
}

struct Book<'a> {
    measured: &'a Measured<'a>,
    owner_of: HashMap<u32, Option<u32>>,
    entries: BTreeMap<(i64, Use, Option<u32>, Basis), [NeumaierSum; 3]>,
    jobs: BTreeMap<u32, JobSum>,
}

impl Book<'_> {
    fn add(&mut self, hour: i64, spent_on: Use, owner: Option<u32>, basis: Basis, joules: Joules) {
        if joules == [0.0; 3] {
            return;
        }
        let sums = self.entries.entry((hour, spent_on, owner, basis)).or_default();
        for (sum, term) in sums.iter_mut().zip(joules) {
            sum.add(term);
        }
    }

    fn owner(&self, who: u32) -> Option<u32> {
        self.owner_of.get(&who).copied().flatten()
    }
}

fn times(joules: Joules, part: f64) -> Joules {
    joules.map(|j| j * part)
}

/// Energy of one claim on devices in an hour.
struct Cell {
    hour: i64,
    claim: Claim,
    basis: Basis,
    bundle: Bundle,
    /// Overhead of the nodes beside their GPUs, taken out of the bundle.
    overhead: Joules,
    /// Whether the bundle is of whole nodes.
    is_node: bool,
}

/// GPUs, then whole nodes, less what is known of the overhead of their like.
fn gathered(measured: &Measured<'_>, fits: &BTreeMap<(u32, u32), Overhead>) -> Vec<Cell> {
    let of_gpu =
        |((hour, claim, basis), bundle)| Cell { hour, claim, basis, bundle, overhead: [0.0; 3], is_node: false };
    let mut cells: Vec<Cell> = measured.sink.sorted().into_iter().map(of_gpu).collect();
    let mut whole: Vec<_> = measured.sink.whole.iter().collect();
    whole.sort_by_key(|(key, _)| **key);
    for ((node, hour, claim, basis), total) in whole {
        let mut bundle = total.value();
        let facts = measured.nodes.get(*node as usize);
        let known = facts.and_then(|facts| Some((facts.shared?.1, expected(measured, facts, fits)?)));
        // Seconds of the node, of which its GPU time is a multiple.
        let s = known.as_ref().map_or(0.0, |(gpus, _)| (bundle.s - bundle.blank_s) / f64::from((*gpus).max(1)));
        let over = known.filter(|_| s > 0.0).map(|(_, expect)| expect.by_meter().at(bundle.energy_j() / s) * s);
        let overhead = over.map_or([0.0; 3], |joules| bundle.take(joules));
        cells.push(Cell { hour: *hour, claim: *claim, basis: *basis, bundle, overhead, is_node: over.is_none() });
    }
    cells
}

/// Attributes everything.
pub(super) fn attribute(measured: &Measured<'_>) -> EnergyLedger {
    let hours = node_hours(measured);
    let fits = fits(measured, &hours);
    let cells = gathered(measured, &fits);
    let pools = pool_sums(cells.iter().map(|cell| (cell.hour, cell.claim, &cell.bundle)));
    let most_above = most_above(measured.models);
    let mut divisions: HashMap<(Claim, i64), Division> = HashMap::new();
    let of_nodes: Vec<(i64, Claim)> = measured.sink.nodes.keys().map(|(_, hour, claim)| (*hour, *claim)).collect();
    for (hour, claim) in cells.iter().map(|cell| (cell.hour, cell.claim)).chain(of_nodes) {
        let key = (claim, if matches!(claim, Claim::Pool(_)) { hour } else { 0 });
        divisions.entry(key).or_insert_with(|| divide(measured.claims, claim, hour, &pools, most_above));
    }
    let division =
        |claim: Claim, hour: i64| divisions.get(&(claim, if matches!(claim, Claim::Pool(_)) { hour } else { 0 }));

    let whos: BTreeSet<u32> = divisions.values().flat_map(|d| d.jobs.iter().map(|(who, ..)| *who)).collect();
    let (owners, owner_of) = owners(measured, &whos);
    let mut book = Book { measured, owner_of, entries: BTreeMap::new(), jobs: BTreeMap::new() };
    let (mut s, mut read_s, mut blank_s) = (NeumaierSum::new(), NeumaierSum::new(), NeumaierSum::new());
    let mut hours_read: BTreeSet<i64> = BTreeSet::new();
    for cell in &cells {
        let Cell { hour, claim, basis, bundle, overhead, is_node } = cell;
        let (hour, claim, basis) = (*hour, *claim, *basis);
        let (held, free) = match is_node {
            true => (Use::NodeIdleAllocated, Use::NodeIdleUnallocated),
            false => (Use::IdleAllocated, Use::IdleUnallocated),
        };
        let is_read = basis.is_read();
        if is_read {
            hours_read.insert(hour);
        }
        s.add(bundle.s);
        blank_s.add(bundle.blank_s);
        read_s.add(if is_read { bundle.s } else { 0.0 });
        let Some(division) = division(claim, hour) else { continue };
        for (who, above, time) in &division.jobs {
            let owner = book.owner(*who);
            book.add(hour, Use::Active, owner, basis, times(bundle.active, *above));
            book.add(hour, Use::Unsplit, owner, basis, times(bundle.either, *above));
            book.add(hour, held, owner, basis, times(bundle.idle, *time));
            book.add(hour, Use::Overhead, owner, basis, times(*overhead, *time));
            let job = book.jobs.entry(*who).or_default();
            job.active.add(bundle.active[0] * above);
            job.unsplit.add(bundle.either[0] * above);
            job.idle.add(bundle.idle[0] * time);
            job.overhead.add(overhead[0] * time);
            if basis == Basis::Model {
                let by_time = (bundle.idle[0] + overhead[0]) * time;
                job.modelled.add((bundle.active[0] + bundle.either[0]) * above + by_time);
            }
            job.gpu_s.add(bundle.s * time);
            job.read_s.add(if is_read { bundle.s * time } else { 0.0 });
        }
        book.add(hour, Use::Active, None, basis, times(bundle.active, division.strange));
        book.add(hour, Use::Unsplit, None, basis, times(bundle.either, division.strange));
        let above: f64 = division.jobs.iter().map(|(_, above, _)| above).sum::<f64>() + division.strange;
        if above == 0.0 {
            book.add(hour, free, None, basis, bundle.active);
            book.add(hour, free, None, basis, bundle.either);
        }
        book.add(hour, free, None, basis, times(bundle.idle, 1.0 - division.held));
        book.add(hour, Use::Overhead, None, basis, times(*overhead, 1.0 - division.held));
    }
    let mut notes = measured.notes.clone();
    let meters = reconcile(&mut book, &division, (&hours, &fits), &mut notes);
    let mut ledger =
        EnergyLedger { from_ms: measured.window.0, to_ms: measured.window.1, owners, ..EnergyLedger::default() };
    let mut total = NeumaierSum::new();
    for ((hour_ms, spent_on, owner, basis), sums) in book.entries {
        let [energy_j, lower_j, upper_j] = sums.map(NeumaierSum::value);
        total.add(energy_j);
        ledger.entries.push(EnergyEntry { hour_ms, spent_on, owner, basis, energy_j, lower_j, upper_j });
    }
    let mut allocated = NeumaierSum::new();
    for (who, sum) in &book.jobs {
        let Some(job) = measured.claims.whos.get(*who as usize) else { continue };
        let gpu_s = sum.gpu_s.value();
        allocated.add(gpu_s);
        ledger.jobs.push(JobEnergy {
            job_key: job.key.clone(),
            owner: book.owner_of.get(who).copied().flatten(),
            active_j: sum.active.value(),
            unsplit_j: sum.unsplit.value(),
            idle_j: sum.idle.value(),
            overhead_j: sum.overhead.value(),
            modelled_j: sum.modelled.value(),
            gpu_s,
            coverage_ratio: (gpu_s > 0.0).then(|| (sum.read_s.value() / gpu_s).clamp(0.0, 1.0)),
        });
    }
    ledger.jobs.sort_by(|a, b| a.job_key.cmp(&b.job_key));
    ledger.total_j = total.value();
    ledger.metered_j = meters.whole.map(|whole| whole.0);
    ledger.filled_j = meters.whole.map_or(0.0, |whole| whole.1);
    ledger.record = measured.record.map(|(from_ms, to_ms)| ReadSpan { from_ms, to_ms });
    hours_read.extend(&meters.hours_read);
    ledger.hours_read = hours_read.len() as u64;
    let (s, read_s) = if s.value() > 0.0 { (s.value(), read_s.value()) } else { (meters.s, meters.read_s) };
    ledger.coverage_ratio = (s > 0.0).then(|| (read_s / s).clamp(0.0, 1.0));
    ledger.gpu_hours = cells.iter().map(|cell| cell.bundle.s).collect::<NeumaierSum>().value() / HOUR_S;
    ledger.allocated_gpu_hours = allocated.value() / HOUR_S;
    if blank_s.value() > 0.0 {
        notes.push(format!(
            "{:.3} GPU-hours have no energy: neither readings nor a model or rating of their GPU type.",
            blank_s.value() / HOUR_S
        ));
    }
    ledger.notes = notes;
    ledger
}

/// Time and energy above idle of each pool in each hour.
fn pool_sums<'c>(cells: impl Iterator<Item = (i64, Claim, &'c Bundle)>) -> HashMap<(u32, i64), (f64, f64)> {
    let mut pools: HashMap<(u32, i64), (f64, f64)> = HashMap::new();
    for (hour, claim, bundle) in cells {
        if let Claim::Pool(pool) = claim {
            let (s, active) = pools.entry((pool, hour)).or_default();
            *s += bundle.s;
            *active += bundle.active[0] + bundle.either[0];
        }
    }
    pools
}

/// The most that a GPU can draw above idle, watts; `None` where that is not known of some type.
fn most_above(models: &PowerModels) -> Option<f64> {
    models.models.iter().try_fold(0.0_f64, |most, model| Some(most.max(model.most_w? - model.idle.least_w)))
}

/// Sums readings by who held the GPUs in `sink`.
pub(super) fn holders(claims: &Claims, models: &PowerModels, sink: &Sink) -> Holders {
    let cells = sink.sorted();
    let of_cells = cells.iter().map(|((hour, claim, _), bundle)| (*hour, *claim, bundle));
    let (pools, most_above) = (pool_sums(of_cells), most_above(models));
    let mut result = Holders::default();
    for ((hour, claim, basis), bundle) in &cells {
        if *basis == Basis::Model {
            continue;
        }
        let (work_j, idle_j) = (bundle.active[0] + bundle.either[0], bundle.idle[0]);
        if *claim == Claim::Unknown {
            result.unknown.add(work_j + idle_j, bundle.s);
            continue;
        }
        let division = divide(claims, *claim, *hour, &pools, most_above);
        let mut left = 1.0 - division.strange;
        for (who, above, time) in &division.jobs {
            let row = claims.whos.get(*who as usize).and_then(|who| who.row);
            let part = row.map_or(&mut result.unlisted, |row| result.jobs.entry(row).or_default());
            part.add(work_j * above + idle_j * time, bundle.s * time);
            left -= above;
        }
        result.unknown.add(work_j * division.strange, 0.0);
        // What nobody holds has no work; the rest of the sum of parts is rounding.
        let left = if division.jobs.is_empty() { left } else { 0.0 };
        result.nobody.add(work_j * left + idle_j * (1.0 - division.held), bundle.s * (1.0 - division.held));
    }
    result
}

fn divide(
    claims: &Claims,
    claim: Claim,
    hour: i64,
    pools: &HashMap<(u32, i64), (f64, f64)>,
    most_above: Option<f64>,
) -> Division {
    match claim {
        Claim::Nobody => Division { jobs: Vec::new(), held: 0.0, strange: 0.0 },
        Claim::Unknown => Division { jobs: Vec::new(), held: 0.0, strange: 1.0 },
        Claim::Set(set) => {
            let parts = claims.sets.get(set as usize).map(Vec::as_slice).unwrap_or_default();
            let sum: f64 = parts.iter().map(|(_, part)| part).sum();
            let scale = 1.0 / sum.max(1.0);
            let jobs = parts.iter().map(|(who, part)| (*who, part / sum, part * scale)).collect();
            Division { jobs, held: sum.min(1.0), strange: 0.0 }
        }
        Claim::Pool(pool) => {
            let none = BTreeMap::new();
            let jobs = claims.pools.get(pool as usize).and_then(|hours| hours.get(&hour)).unwrap_or(&none);
            let (s, active) = pools.get(&(pool, hour)).copied().unwrap_or_default();
            let sum: f64 = jobs.values().sum();
            if sum <= 0.0 || s <= 0.0 {
                return Division { jobs: Vec::new(), held: 0.0, strange: 0.0 };
            }
            let held = (sum / s).min(1.0);
            let drawable = most_above.map(|watts| watts.max(0.0) * sum).filter(|most| *most < active);
            let theirs = drawable.map_or(1.0, |most| most / active);
            let jobs = jobs.iter().map(|(who, gpu_s)| (*who, theirs * gpu_s / sum, held * gpu_s / sum)).collect();
            Division { jobs, held, strange: 1.0 - theirs }
        }
    }
}

/// The owners of jobs, in order of name.
fn owners(measured: &Measured<'_>, whos: &BTreeSet<u32>) -> (Vec<Owner>, HashMap<u32, Option<u32>>) {
    let of = |who: u32| {
        let row = measured.claims.whos.get(who as usize)?.row?;
        let jobs = &measured.trace?.jobs;
        let (vc, user) = (jobs.vc.get(row).map(str::to_owned), jobs.user.get(row).map(str::to_owned));
        // A job of which neither is known is somebody's still, and not nobody's.
        Some(Owner { vc, user })
    };
    let owners: BTreeSet<Owner> = whos.iter().filter_map(|who| of(*who)).collect();
    let owners: Vec<Owner> = owners.into_iter().collect();
    let place = |owner: Owner| owners.binary_search(&owner).ok().and_then(|ix| u32::try_from(ix).ok());
    let owner_of = whos.iter().map(|who| (*who, of(*who).and_then(place))).collect();
    (owners, owner_of)
}

/// Totals of the meters.
struct Meters {
    /// Joules that they read, and that a model fills.
    whole: Option<(f64, f64)>,
    s: f64,
    read_s: f64,
    hours_read: BTreeSet<i64>,
}

/// A node's hour: GPUs' joules and claims with their seconds.
type NodeHour = (NeumaierSum, Vec<(Claim, f64)>);

/// Hours of nodes, by node and beginning.
type NodeHours = BTreeMap<(u32, i64), NodeHour>;

/// Overhead by kind of node: the place of its GPUs' model and how many it has.
type Fits = BTreeMap<(u32, u32), Overhead>;

/// Energy of the GPUs and claims on them, by node and hour.
fn node_hours(measured: &Measured<'_>) -> BTreeMap<(u32, i64), NodeHour> {
    let mut hours: BTreeMap<(u32, i64), NodeHour> = BTreeMap::new();
    let mut claimed: Vec<_> = measured.sink.nodes.iter().collect();
    claimed.sort_by_key(|(key, _)| **key);
    for ((node, hour, claim), (joules, s)) in claimed {
        let entry = hours.entry((*node, *hour)).or_default();
        entry.0.merge(*joules);
        entry.1.push((*claim, s.value()));
    }
    hours
}

/// Overhead and residual of all nodes.
fn reconcile<'d>(
    book: &mut Book<'_>,
    division: &dyn Fn(Claim, i64) -> Option<&'d Division>,
    (hours, fits): (&NodeHours, &Fits),
    notes: &mut Vec<String>,
) -> Meters {
    let measured = book.measured;
    let (mut whole, mut filled) = (NeumaierSum::new(), NeumaierSum::new());
    let (mut s, mut read_s) = (NeumaierSum::new(), NeumaierSum::new());
    let mut hours_read = BTreeSet::new();
    let (mut with, mut without, mut guessed) = (0_u64, 0_u64, 0_u64);
    for (node, facts) in (0_u32..).zip(&measured.nodes) {
        let Some(meter) = &facts.meter else {
            without += u64::from(facts.gpus > 0);
            let Some(expect) = expected(measured, facts, fits) else { continue };
            guessed += u64::from(facts.gpus > 0);
            for ((_, hour), (joules, claims)) in hours.range((node, i64::MIN)..=(node, i64::MAX)) {
                let time: f64 = claims.iter().map(|(_, s)| s).sum::<f64>() / f64::from(facts.gpus.max(1));
                if time > 0.0 {
                    let watts = expect.at(joules.value() / time);
                    let (least, most) = expect.ends();
                    overhead(book, division, *hour, Basis::Model, [watts, least, most].map(|w| w * time), claims);
                }
            }
            continue;
        };
        with += 1;
        let expect = expected(measured, facts, fits);
        let mut by_hour: BTreeMap<i64, Vec<(Basis, [f64; 4])>> = BTreeMap::new();
        for ((hour, basis), read) in meter {
            by_hour.entry(*hour).or_default().push((*basis, *read));
        }
        for (hour, bases) in by_hour {
            let energy: f64 = bases.iter().map(|(_, read)| read[0]).sum();
            let time: f64 = bases.iter().map(|(_, read)| read[3]).sum();
            s.add(time);
            for (basis, read) in &bases {
                let sum = if *basis == Basis::Model { &mut filled } else { &mut whole };
                sum.add(read[0]);
                if basis.is_read() {
                    read_s.add(read[3]);
                    hours_read.insert(hour);
                }
            }
            if facts.shared.is_some() {
                continue;
            }
            let none = (NeumaierSum::new(), Vec::new());
            let (gpus, claims) = hours.get(&(node, hour)).unwrap_or(&none);
            let gpus_j = gpus.value();
            let over = match &expect {
                _ if facts.gpus == 0 => energy,
                Some(expect) if time > 0.0 => expect.at(gpus_j / time) * time,
                _ => (energy - gpus_j).max(0.0),
            };
            let residual = energy - gpus_j - over;
            for (basis, [read_j, least, most, own_s]) in bases {
                let part = if energy > 0.0 { read_j / energy } else { own_s / time };
                let mid = over * part;
                let joules = [mid, (mid - (read_j - least)).max(0.0), mid + (most - read_j)];
                overhead(book, division, hour, basis, joules, claims);
                book.add(hour, Use::Residual, None, basis, [residual * part; 3]);
            }
        }
        // Energy of GPUs in hours that the meter does not cover has no place in it; spans are aligned, so there is none.
    }
    if with > 0 {
        let gaps = match filled.value() / KWH_J {
            0.0 => String::new(),
            kwh => format!(" A model puts {kwh:.6} kWh in the time that these meters did not read."),
        };
        notes.push(format!(
            "{with} nodes have a whole-node meter; together they read {:.6} kWh.{gaps} {without} nodes with GPUs have none{}.",
            whole.value() / KWH_J,
            if guessed > 0 { ", and get the overhead of their like as a model" } else { "" }
        ));
    } else if without > 0 && guessed == 0 {
        notes.push(format!(
            "No node has a meter: the overhead of {without} nodes beside their GPUs is not in the total."
        ));
    }
    notes.extend(fits.iter().map(|((model, gpus), fit)| {
        let name =
            measured.models.names.get(*model as usize).cloned().flatten().unwrap_or_else(|| "unknown type".to_owned());
        let (least, most) = fit.ends();
        format!("Nodes with {gpus} GPUs ({name}): overhead fitted to meters, {least:.0} to {most:.0} W by load.")
    }));
    Meters {
        whole: (with > 0 && without == 0).then(|| (whole.value(), filled.value())),
        s: s.value(),
        read_s: read_s.value(),
        hours_read,
    }
}

/// Charges overhead by the claims on the node's GPUs.
fn overhead<'d>(
    book: &mut Book<'_>,
    division: &dyn Fn(Claim, i64) -> Option<&'d Division>,
    hour: i64,
    basis: Basis,
    joules: Joules,
    claims: &[(Claim, f64)],
) {
    let s: f64 = claims.iter().map(|(_, s)| s).sum();
    let mut left = 1.0;
    for (claim, own_s) in claims {
        for (who, _, time) in division(*claim, hour).map(|d| d.jobs.as_slice()).unwrap_or_default() {
            let part = time * own_s / s;
            left -= part;
            let owner = book.owner(*who);
            book.add(hour, Use::Overhead, owner, basis, times(joules, part));
            let job = book.jobs.entry(*who).or_default();
            job.overhead.add(joules[0] * part);
            if basis == Basis::Model {
                job.modelled.add(joules[0] * part);
            }
        }
    }
    book.add(hour, Use::Overhead, None, basis, times(joules, left));
}

/// Overhead of a kind of node as a function of its GPUs' power, watts.
#[derive(Debug, Clone)]
struct Overhead {
    /// Power of the GPUs and overhead, both ascending.
    knots: Vec<(f64, f64)>,
}

impl Overhead {
    fn at(&self, gpus_w: f64) -> f64 {
        let after = self.knots.partition_point(|(x, _)| *x < gpus_w);
        match (after.checked_sub(1).and_then(|ix| self.knots.get(ix)), self.knots.get(after)) {
            (_, Some((x, y))) if *x == gpus_w => *y,
            (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (gpus_w - x0) / (x1 - x0),
            (Some((_, y)), None) | (None, Some((_, y))) => *y,
            (None, None) => 0.0,
        }
    }

    /// Returns the overhead as a function of the power of the whole node.
    fn by_meter(&self) -> Self {
        Self { knots: self.knots.iter().map(|(gpus, over)| (gpus + over, *over)).collect() }
    }

    fn ends(&self) -> (f64, f64) {
        (self.knots.first().map_or(0.0, |knot| knot.1), self.knots.last().map_or(0.0, |knot| knot.1))
    }
}

/// Expected overhead of a node, if any.
fn expected(measured: &Measured<'_>, facts: &NodeFacts, fits: &BTreeMap<(u32, u32), Overhead>) -> Option<Overhead> {
    let (model, gpus) = facts.shared.unwrap_or((facts.model, facts.gpus));
    let idle_w = measured.models.models.get(model as usize).and_then(|model| model.idle.value());
    let listed = || Some((facts.idle_w? - idle_w? * f64::from(gpus)).max(0.0));
    let known = measured.overhead_w.or_else(listed).map(|watts| Overhead { knots: vec![(0.0, watts)] });
    known.or_else(|| fits.get(&(model, gpus)).cloned())
}

/// Fits overhead for each kind of node with meters and GPUs.
fn fits(measured: &Measured<'_>, hours: &BTreeMap<(u32, i64), NodeHour>) -> BTreeMap<(u32, u32), Overhead> {
    if measured.overhead_w.is_some() {
        return BTreeMap::new();
    }
    // By kind of node.
    let mut points: BTreeMap<(u32, u32), Points> = BTreeMap::new();
    for (node, facts) in (0_u32..).zip(&measured.nodes) {
        let Some(meter) = facts.meter.as_ref().filter(|_| facts.gpus > 0) else { continue };
        let mut by_hour: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for ((hour, _), [energy, _, _, s]) in meter {
            let sum = by_hour.entry(*hour).or_default();
            *sum = (sum.0 + energy, sum.1 + s);
        }
        for (hour, (energy, s)) in by_hour {
            let Some((gpus, _)) = hours.get(&(node, hour)).filter(|_| s > 0.0) else { continue };
            let gpus = gpus.value();
            points.entry((facts.model, facts.gpus)).or_default().push((gpus / s, (energy - gpus) / s, s));
        }
    }
    points.into_iter().map(|(kind, points)| (kind, Overhead { knots: monotone(points) })).collect()
}

/// The non-decreasing function nearest to points `(x, y, weight)`, not below 0.
fn monotone(mut points: Vec<(f64, f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)));
    let mut merged: Vec<(f64, f64, f64)> = Vec::with_capacity(points.len());
    for (x, y, weight) in points {
        match merged.last_mut() {
            Some(last) if last.0 == x => {
                let sum = last.2 + weight;
                *last = (x, (last.1 * last.2 + y * weight) / sum, sum);
            }
            _ => merged.push((x, y, weight)),
        }
    }
    let fitted = isotonic(&merged.iter().map(|(_, y, weight)| (*weight, *y)).collect::<Vec<_>>());
    merged.iter().zip(fitted).map(|((x, ..), y)| (*x, y.max(0.0))).collect()
}
