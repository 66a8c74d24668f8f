//! Quantities and amounts: lines that add up to the cent.
//!
//! ```text
//! GPU-hours     what each job held within the period, by the rate of its type, VC and hour of the day;
//!               by use, what it used by telemetry (GPU-hours × mean utilisation of its readings, which stand
//!               for all its run) and what it held idle are two lines; a job without readings is charged as
//!               held
//! unallocated   GPUs there were, less those that jobs held; spread by the rule
//! energy        of each job by the ledger of `tracecast audit`; the rest of the meters spread by the rule
//! carbon        likewise, kWh × g/kWh
//! adjustment    what is left to an invoice, in proportion to amounts
//! cents         amounts are cut to cents, and what is left goes to those that were cut most, of equals the
//!               first
//! ```
//!
//! O(stretches × hours of each where a rate has hours, else 1). Worked number: three accounts share 100.00 as
//! 33.34, 33.33 and 33.33.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rates::{ChargedBy, Rates, SpreadRule};
use crate::KWH_J;
use crate::describe::usage::utilisation;
use crate::energy::ledger::{Basis, EnergyLedger};
use crate::error::{Error, Result};
use crate::facts::JobFacts;
use crate::facts::capacity::Capacity;
use crate::facts::job::attempts_by_job;
use crate::report::format;
use crate::schema::{Resource, Table as _};
use crate::time::{HOUR_MS, HOUR_S};
use crate::trace::Trace;

/// Account of what is spread to nobody.
pub const NOBODY: &str = "(unallocated)";
/// Account of jobs that name none.
pub const UNKNOWN: &str = "(unknown)";
/// Amounts, in cents, from which sums are not exact.
const MOST_CENTS: f64 = 4e15;
/// Share of the energy that may be modelled without a note.
const MOST_MODELLED: f64 = 0.05;

/// Column of jobs that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BilledBy {
    /// Account or project.
    Account,
    /// Virtual cluster, partition or queue.
    Vc,
    /// User.
    User,
}

/// What a line is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BillItem {
    /// GPU-hours that jobs held.
    GpuHours,
    /// GPU-hours that they used.
    GpuHoursUsed,
    /// GPU-hours that they held and did not use.
    GpuHoursHeldIdle,
    /// Core-hours of jobs without GPUs.
    CoreHours,
    /// GPU-hours that no job held.
    Unallocated,
    /// Energy of jobs.
    Energy,
    /// Energy that is of no job.
    SharedEnergy,
    /// Emissions of jobs.
    Carbon,
    /// Emissions that are of no job.
    SharedCarbon,
    /// What is left to the invoice.
    Adjustment,
}

impl BillItem {
    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::GpuHours => "GPU-hours held",
            Self::GpuHoursUsed => "GPU-hours used",
            Self::GpuHoursHeldIdle => "GPU-hours held idle",
            Self::CoreHours => "core-hours",
            Self::Unallocated => "share of GPU-hours that no job held",
            Self::Energy => "energy",
            Self::SharedEnergy => "share of energy of no job",
            Self::Carbon => "emissions",
            Self::SharedCarbon => "share of emissions of no job",
            Self::Adjustment => "adjustment to the invoice",
        }
    }

    /// Unit of its quantity; `None` of money.
    pub fn unit(self) -> Option<&'static str> {
        match self {
            Self::GpuHours | Self::GpuHoursUsed | Self::GpuHoursHeldIdle | Self::Unallocated => Some("GPU-hours"),
            Self::CoreHours => Some("core-hours"),
            Self::Energy | Self::SharedEnergy => Some("kWh"),
            Self::Carbon | Self::SharedCarbon => Some("kg CO2e"),
            Self::Adjustment => None,
        }
    }
}

/// A line of a bill.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BillLine {
    /// Account.
    pub account: String,
    /// What it is of.
    pub item: BillItem,
    /// Name of the rate, where it has one.
    pub rate_name: Option<String>,
    /// Quantity.
    pub quantity: f64,
    /// Its unit; the currency of an adjustment.
    pub unit: String,
    /// Price of one.
    pub rate: f64,
    /// Amount, rounded so that all amounts add up to the total.
    pub amount: f64,
}

/// What an account held and used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct AccountUse {
    /// Account.
    pub account: String,
    /// GPU-hours that its jobs held.
    pub gpu_hours: f64,
    /// GPU-hours of these whose use is known.
    pub known_gpu_hours: f64,
    /// GPU-hours that they used.
    pub used_gpu_hours: f64,
    /// Share of the known GPU-hours that was held idle; null where none is known.
    pub idle_share: Option<f64>,
    /// Sum of its lines.
    pub amount: f64,
}

/// Lines and accounts of a bill.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Bill {
    /// Lines, by account, item and rate.
    pub lines: Vec<BillLine>,
    /// What each account held, used and is charged.
    pub accounts: Vec<AccountUse>,
    /// Sum of the lines.
    pub total: f64,
    /// The invoice that they come to; null without one.
    pub invoice: Option<f64>,
    /// GPU-hours that no job held; null where it is not known how many GPUs there were.
    pub unallocated_gpu_hours: Option<f64>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// What is billed.
#[derive(Debug, Clone, Copy)]
pub struct BillRequest<'a> {
    /// Rates.
    pub rates: &'a Rates,
    /// Column that is charged.
    pub by: BilledBy,
    /// First moment, and that after the last, milliseconds since the Unix epoch.
    pub period_ms: (i64, i64),
    /// Sum that all lines come to.
    pub invoice: Option<f64>,
    /// Energy of the period, if the rates price it.
    pub energy: Option<&'a EnergyLedger>,
}

/// GPU-hours held, of which the use is known, and that they used.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    hours: f64,
    known: f64,
    used: f64,
}

/// Amounts in cents that add up: each is cut, and what is left of the total goes to those that were cut most.
///
/// Worked example: 0.6, 0.6 and 0.8 cents of a total of 2 are 1, 0 and 1.
pub fn to_cents(amounts: &[f64], total: i64) -> Vec<i64> {
    let mut cents: Vec<i64> = amounts.iter().map(|amount| amount.floor() as i64).collect();
    let left = total - cents.iter().sum::<i64>();
    let mut order: Vec<usize> = (0..amounts.len()).collect();
    let rest = |at: &usize| amounts.get(*at).map_or(0.0, |amount| amount - amount.floor());
    order.sort_by(|one, other| rest(other).total_cmp(&rest(one)));
    let count = i64::try_from(order.len()).unwrap_or(i64::MAX).max(1);
    // One each at most, unless the total is not that of the amounts.
    for (place, at) in (0..).zip(order) {
        if let Some(slot) = cents.get_mut(at) {
            *slot += left.div_euclid(count) + i64::from(place < left.rem_euclid(count));
        }
    }
    cents
}

/// Names by job of what is charged.
fn account_of(trace: &Trace, by: BilledBy, job: usize) -> &str {
    let jobs = &trace.jobs;
    let name = match by {
        BilledBy::Account => jobs.account.get(job),
        BilledBy::Vc => jobs.vc.get(job),
        BilledBy::User => jobs.user.get(job),
    };
    name.unwrap_or(UNKNOWN)
}

/// The GPU type of jobs that name none: that of the inventory, if all its nodes with GPUs have one alone.
fn only_type(trace: &Trace) -> Option<&str> {
    let nodes = &trace.nodes;
    let with_gpus = (0..nodes.len()).filter(|node| nodes.gpus.get(*node).is_none_or(|gpus| gpus > 0.0));
    let types: BTreeSet<Option<&str>> = with_gpus.map(|node| nodes.gpu_type.get(node)).collect();
    types.first().copied().flatten().filter(|_| types.len() == 1)
}

/// What of jobs is not known, or taken to be so.
fn gaps(facts: &JobFacts<'_>) -> Vec<String> {
    let unknown = (0..facts.len()).filter(|job| match facts.gpus(*job) {
        None => true,
        Some(gpus) => gpus > 0.0 && facts.end_ms(*job).is_none() && facts.trace.jobs.start.get(*job).is_some(),
    });
    let mut notes = Vec::new();
    let unknown = unknown.count() as u64;
    if unknown > 0 {
        notes.push(format!(
            "{} charged nothing, as their GPUs or their ends are not known; what they held counts as held by none.",
            format::counted(unknown, "job is", "jobs are")
        ));
    }
    if facts.assumed_starts > 0 {
        notes.push(format!(
            "{} no recorded start and charged from submission on, {} GPU-hours.",
            format::counted(facts.assumed_starts as u64, "job has", "jobs have"),
            format::float(facts.assumed_gpu_s / HOUR_S, 0)
        ));
    }
    notes
}

/// A bill before amounts are rounded.
struct Draft<'t> {
    rates: &'t Rates,
    lines: Vec<BillLine>,
    accounts: BTreeMap<&'t str, AccountUse>,
    notes: Vec<String>,
}

impl<'t> Draft<'t> {
    /// Adds a line, with the name of its rate, if it has one.
    fn line(&mut self, account: &str, item: BillItem, rate_name: Option<&String>, (quantity, rate): (f64, f64)) {
        self.lines.push(BillLine {
            account: account.to_owned(),
            item,
            rate_name: rate_name.cloned(),
            quantity,
            unit: item.unit().unwrap_or(&self.rates.currency).to_owned(),
            rate,
            amount: 0.0,
        });
    }

    /// Adds what is shared by accounts.
    fn spread(&mut self, shares: &[(String, f64)], item: BillItem, (quantity, rate): (f64, f64)) {
        for (account, share) in shares.iter().filter(|(_, share)| quantity * share != 0.0) {
            self.line(account, item, None, (quantity * share, rate));
        }
    }

    /// Charges what jobs held, by rate.
    fn charge_held(&mut self, held: &BTreeMap<(&'t str, Option<usize>), Held>) {
        let rates = self.rates;
        for ((account, rate), of) in held {
            let row = self.accounts.entry(account).or_default();
            row.gpu_hours += of.hours;
            row.known_gpu_hours += of.known;
            row.used_gpu_hours += of.used;
            let Some(rate) = rate.and_then(|rate| rates.gpu_hour.get(rate)) else { continue };
            let items = match rates.charge {
                ChargedBy::Allocation => vec![(BillItem::GpuHours, of.hours, rate.price)],
                ChargedBy::Use => vec![
                    (BillItem::GpuHours, of.hours - of.known, rate.price),
                    (BillItem::GpuHoursUsed, of.used, rate.price),
                    (BillItem::GpuHoursHeldIdle, of.known - of.used, rate.price * rates.held_idle),
                ],
            };
            for (item, quantity, price) in items.into_iter().filter(|(_, quantity, _)| *quantity > 0.0) {
                self.line(account, item, rate.name.as_ref().or(rate.gpu_type.as_ref()), (quantity, price));
            }
        }
        let unmatched = (0..rates.gpu_hour.len()).filter(|rate| !held.keys().any(|(_, of)| of == &Some(*rate)));
        self.notes.extend(unmatched.map(|rate| format!("No GPU-hour is of rate {} of the rates file.", rate + 1)));
    }

    /// Charges the energy of jobs, and spreads what is of none.
    fn charge_energy(&mut self, ledger: &EnergyLedger, by_account: &BTreeMap<&'t str, f64>, shares: &[(String, f64)]) {
        // Below 0 where readings of jobs' GPUs come to more than the meters of their nodes.
        let rest = ledger.total_j / KWH_J - by_account.values().sum::<f64>();
        self.notes.extend(ledger.notes.iter().cloned());
        let modelled: f64 =
            ledger.entries.iter().filter(|entry| entry.basis == Basis::Model).map(|entry| entry.energy_j).sum();
        if modelled > MOST_MODELLED * ledger.total_j {
            self.notes.push(format!(
                "{} of the energy is modelled, as no reading tells it; charge it for the time of the readings alone (--from, --to).",
                format::percent(modelled / ledger.total_j)
            ));
        }
        let energy = self.rates.energy.map(|price| (BillItem::Energy, BillItem::SharedEnergy, 1.0, price.per_kwh));
        let carbon = self
            .rates
            .carbon
            .map(|price| (BillItem::Carbon, BillItem::SharedCarbon, price.g_per_kwh / 1e3, price.per_kg));
        for (item, shared, of_kwh, price) in energy.into_iter().chain(carbon) {
            self.spread(shares, shared, (rest * of_kwh, price));
            for (account, kwh) in by_account {
                self.line(account, item, None, (kwh * of_kwh, price));
            }
        }
    }

    /// Adds what is left to an invoice, in proportion to what accounts are charged.
    fn adjust(&mut self, invoice: f64) -> Result<()> {
        let mut by_account: BTreeMap<String, f64> = BTreeMap::new();
        for line in &self.lines {
            *by_account.entry(line.account.clone()).or_default() += line.quantity * line.rate;
        }
        let sum: f64 = by_account.values().sum();
        if sum <= 0.0 {
            return Err(Error::Setting {
                setting: "--invoice".to_owned(),
                found: "no account is charged anything".to_owned(),
                remedy: "name a period in which jobs ran, and prices above 0".to_owned(),
            });
        }
        for (account, amount) in by_account {
            self.line(&account, BillItem::Adjustment, None, ((invoice - sum) * amount / sum, 1.0));
        }
        Ok(())
    }

    /// Rounds amounts so that they add up.
    fn rounded(mut self, invoice: Option<f64>, unallocated_gpu_hours: Option<f64>) -> Result<Bill> {
        let key = |line: &BillLine| (line.account.clone(), line.item, line.rate_name.clone());
        self.lines.sort_by_cached_key(key);
        let cent = self.rates.cents();
        let amounts: Vec<f64> = self.lines.iter().map(|line| line.quantity * line.rate * cent).collect();
        let sum = amounts.iter().map(|amount| amount.abs()).sum::<f64>();
        if sum > MOST_CENTS {
            return Err(Error::Setting {
                setting: "price".to_owned(),
                found: format!("amounts of {} {} in all", format::float(sum / cent, 0), self.rates.currency),
                remedy: "cents cannot be told apart at such amounts; lower the prices or the decimals".to_owned(),
            });
        }
        let total = invoice.map_or_else(|| amounts.iter().sum(), |invoice| invoice * cent).round() as i64;
        let cents = to_cents(&amounts, total);
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (line, cents) in self.lines.iter_mut().zip(cents) {
            line.amount = cents as f64 / cent;
            *sums.entry(line.account.clone()).or_default() += cents;
        }
        if sums.contains_key(NOBODY) {
            self.accounts.entry(NOBODY).or_default();
        }
        let account = |(account, of): (&str, AccountUse)| AccountUse {
            account: account.to_owned(),
            idle_share: (of.known_gpu_hours > 0.0).then(|| 1.0 - of.used_gpu_hours / of.known_gpu_hours),
            amount: sums.get(account).copied().unwrap_or(0) as f64 / cent,
            ..of
        };
        let accounts = self.accounts.into_iter().map(account).collect();
        let (lines, notes) = (self.lines, self.notes);
        Ok(Bill { lines, accounts, total: total as f64 / cent, invoice, unallocated_gpu_hours, notes })
    }
}

/// Bills a period.
///
/// # Errors
/// If a GPU-hour has no rate, or no account is there to charge the invoice to.
pub fn bill(facts: &JobFacts<'_>, request: &BillRequest<'_>) -> Result<Bill> {
    let (trace, rates) = (facts.trace, request.rates);
    let (from, to) = request.period_ms;
    if rates.has_hours() && !trace.basis.has_calendar() {
        return Err(Error::Setting {
            setting: "hours".to_owned(),
            found: "the trace counts time from its beginning, so no hour of the day is known".to_owned(),
            remedy: "take hours out of the rates".to_owned(),
        });
    }
    let held = held(facts, request)?;
    let mut draft = Draft { rates, lines: Vec::new(), accounts: BTreeMap::new(), notes: gaps(facts) };
    draft.charge_held(&held);
    if let Some(price) = rates.core_hour {
        for (account, hours) in core_hours(facts, request) {
            draft.accounts.entry(account).or_default();
            draft.line(account, BillItem::CoreHours, None, (hours, price.price));
        }
    }
    let energy = request.energy.map(|ledger| (ledger, energy(trace, request.by, ledger)));
    for account in energy.iter().flat_map(|(_, by_account)| by_account.keys()) {
        draft.accounts.entry(account).or_default();
    }
    let allocated: f64 = held.values().map(|of| of.hours).sum();
    let shares = shares(&draft.accounts, rates.spread, allocated);
    let there = Capacity::of_jobs(facts, from, to).map(|capacity| capacity.cluster.integral_s(from, to) / HOUR_S);
    draft.notes.extend(Capacity::assumption(trace));
    let unallocated = there.map(|there| (there - allocated).max(0.0));
    if let Some(there) = there.filter(|there| *there < allocated * (1.0 - 1e-9)) {
        draft.notes.push(format!(
            "Jobs held {} GPU-hours, more than the {} that the recorded GPUs have: nothing is unallocated.",
            format::float(allocated, 0),
            format::float(there, 0)
        ));
    }
    match (rates.unallocated, unallocated) {
        (Some(price), Some(hours)) => draft.spread(&shares, BillItem::Unallocated, (hours, price.price)),
        (Some(_), None) => {
            let note = "How many GPUs there were is not recorded, so what no job held is not charged.";
            draft.notes.push(note.to_owned());
        }
        (None, _) => {}
    }
    match &energy {
        Some((ledger, by_account)) => draft.charge_energy(ledger, by_account, &shares),
        None if rates.energy.is_some() || rates.carbon.is_some() => {
            let note = "No telemetry or meter tells energy, so neither it nor emissions are charged.";
            draft.notes.push(note.to_owned());
        }
        None => {}
    }
    if let Some(invoice) = request.invoice {
        draft.adjust(invoice)?;
    }
    draft.rounded(request.invoice, unallocated)
}

/// What each account held, by rate.
fn held<'t>(facts: &JobFacts<'t>, request: &BillRequest<'_>) -> Result<BTreeMap<(&'t str, Option<usize>), Held>> {
    let (trace, rates) = (facts.trace, request.rates);
    let (from, to) = request.period_ms;
    let usual = only_type(trace);
    let zone = &facts.zone;
    let uses = utilisation(facts);
    let mut result: BTreeMap<(&str, Option<usize>), Held> = BTreeMap::new();
    for stretch in &facts.stretches {
        let (begin, end) = (stretch.start.max(from), stretch.end.min(to));
        let account = account_of(trace, request.by, stretch.job);
        let gpu_type = trace.jobs.gpu_type.get(stretch.job).or(usual);
        let vc = trace.jobs.vc.get(stretch.job);
        let used = uses.get(stretch.job).copied().flatten().map(|of| of.ratio.clamp(0.0, 1.0));
        let mut at = begin;
        while at < end && stretch.gpus > 0.0 {
            let next = match rates.has_hours() {
                true => at + HOUR_MS - (at + zone.offset_ms(at)).rem_euclid(HOUR_MS),
                false => end,
            };
            let next = next.min(end);
            let hour = u32::from(zone.local(at).hour);
            let rate = rates.of_gpu(gpu_type, vc, hour);
            if rate.is_none() && !rates.gpu_hour.is_empty() {
                let what =
                    gpu_type.map_or_else(|| "GPUs of an unknown type".to_owned(), |name| format!("GPU type {name}"));
                return Err(Error::Setting {
                    setting: "[[gpu_hour]]".to_owned(),
                    found: format!("no rate for {what} in VC {} at {hour}:00", vc.unwrap_or("(unknown)")),
                    remedy: "add one without gpu_type, vc and hours as the last".to_owned(),
                });
            }
            let hours = (next - at) as f64 / HOUR_MS as f64 * stretch.gpus;
            let row = result.entry((account, rate)).or_default();
            row.hours += hours;
            if let Some(used) = used {
                row.known += hours;
                row.used += hours * used;
            }
            at = next;
        }
    }
    Ok(result)
}

/// Core-hours of jobs that are known to have no GPUs, attempt by attempt.
fn core_hours<'t>(facts: &JobFacts<'t>, request: &BillRequest<'_>) -> BTreeMap<&'t str, f64> {
    let (from, to) = request.period_ms;
    let trace = facts.trace;
    let attempts_of = attempts_by_job(trace);
    let mut result: BTreeMap<&str, f64> = BTreeMap::new();
    for job in (0..facts.len()).filter(|job| facts.gpus(*job) == Some(0.0)) {
        let Some(cores) = Resource::Cpus.given(&trace.jobs, job) else { continue };
        let spans: Vec<(i64, i64)> = match trace.jobs.job_key.get(job).and_then(|key| attempts_of.get(key)) {
            Some(attempts) => attempts.iter().filter_map(|attempt| facts.attempt_ms(*attempt)).collect(),
            None => trace.jobs.start.get(job).zip(facts.end_ms(job)).into_iter().collect(),
        };
        let held_ms: i64 = spans.iter().map(|(start, end)| (*end.min(&to) - *start.max(&from)).max(0)).sum();
        if held_ms > 0 {
            let hours = held_ms as f64 / HOUR_MS as f64 * cores;
            *result.entry(account_of(trace, request.by, job)).or_default() += hours;
        }
    }
    result
}

/// Energy of the jobs of each account, kWh.
fn energy<'t>(trace: &'t Trace, by: BilledBy, ledger: &EnergyLedger) -> BTreeMap<&'t str, f64> {
    let rows: HashMap<&str, usize> =
        (0..trace.jobs.len()).filter_map(|job| Some((trace.jobs.job_key.get(job)?, job))).collect();
    let mut result: BTreeMap<&str, f64> = BTreeMap::new();
    for of in &ledger.jobs {
        let account = rows.get(of.job_key.as_str()).map_or(UNKNOWN, |job| account_of(trace, by, *job));
        *result.entry(account).or_default() += (of.active_j + of.unsplit_j + of.idle_j + of.overhead_j) / KWH_J;
    }
    result.retain(|_, kwh| *kwh > 0.0);
    result
}

/// Share of each account of what nobody held; all of it stays with nobody where that is the rule, and where
/// nobody held anything.
fn shares(accounts: &BTreeMap<&str, AccountUse>, spread: SpreadRule, allocated: f64) -> Vec<(String, f64)> {
    let count = accounts.len() as f64;
    let share = |of: &AccountUse| match spread {
        SpreadRule::Allocation => of.gpu_hours / allocated,
        SpreadRule::None | SpreadRule::Equal => 1.0 / count,
    };
    match spread {
        SpreadRule::Allocation if allocated > 0.0 => {}
        SpreadRule::Equal if !accounts.is_empty() => {}
        _ => return vec![(NOBODY.to_owned(), 1.0)],
    }
    accounts.iter().map(|(account, of)| ((*account).to_owned(), share(of))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
