//! Quantities and amounts: lines that add up to the cent.
//!
//! ```text
//! GPU-hours     what each job held within the period, by the rate of its type, VC and hour of the day; by use, what
//!               it used by telemetry (GPU-hours × mean utilisation) and what it held idle are two lines, and what
//!               no reading tells is charged as held
//! unallocated   GPUs there were, less those that jobs held; spread by the rule
//! energy        of each job by the ledger of `tracecast audit`; the rest of the meters spread by the rule
//! carbon        likewise, kWh × g/kWh
//! adjustment    what is left to an invoice, in proportion to amounts
//! cents         amounts are cut to cents, and what is left goes to those that were cut most, of equals the first
//! ```
//!
//! O(stretches × hours of each where a rate has hours, else 1). Worked number: three accounts share 100.00 as
//! 33.34, 33.33 and 33.33.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rates::{ChargedBy, Rates, SpreadRule};
use crate::describe::usage::utilisation;
use crate::energy::ledger::{Basis, EnergyLedger};
use crate::error::{Error, Result};
use crate::facts::JobFacts;
use crate::facts::capacity::Capacity;
use crate::report::format;
use crate::schema::Table as _;
use crate::time::{HOUR_MS, Zone};
use crate::trace::Trace;

/// Account of what is spread to nobody.
pub const NOBODY: &str = "(unallocated)";
/// Account of jobs that name none.
pub const UNKNOWN: &str = "(unknown)";
const HOUR_S: f64 = 3600.0;
const KWH_J: f64 = 3.6e6;
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

    /// Name in JSON and CSV.
    pub fn id(self) -> &'static str {
        match self {
            Self::GpuHours => "gpu_hours",
            Self::GpuHoursUsed => "gpu_hours_used",
            Self::GpuHoursHeldIdle => "gpu_hours_held_idle",
            Self::CoreHours => "core_hours",
            Self::Unallocated => "unallocated",
            Self::Energy => "energy",
            Self::SharedEnergy => "shared_energy",
            Self::Carbon => "carbon",
            Self::SharedCarbon => "shared_carbon",
            Self::Adjustment => "adjustment",
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

/// A bill.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// Lines, by account, item and rate.
    pub lines: Vec<BillLine>,
    /// Accounts, by name.
    pub accounts: Vec<AccountUse>,
    /// Sum of the lines.
    pub total: f64,
    /// GPU-hours that no job held; `None` where it is not known how many GPUs there were.
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

/// A line before amounts are rounded.
struct Raw {
    account: String,
    item: BillItem,
    rate_name: Option<String>,
    quantity: f64,
    rate: f64,
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
    // More than one each where a total is far from the sum, as where amounts are beyond 2^53.
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

/// The GPU type of jobs that name none: that of the inventory, if it has one alone.
fn only_type(trace: &Trace) -> Option<&str> {
    let types: BTreeSet<&str> = trace.nodes.gpu_type.iter().flatten().collect();
    types.first().copied().filter(|_| types.len() == 1)
}

/// Bills a period.
///
/// # Errors
/// If a GPU-hour has no rate, or no account is there to charge the invoice to.
pub fn bill(facts: &JobFacts<'_>, request: &BillRequest<'_>) -> Result<Bill> {
    let (trace, rates) = (facts.trace, request.rates);
    let (from, to) = request.period_ms;
    let mut notes = Vec::new();
    let held = held(facts, request)?;
    let mut accounts: BTreeMap<&str, AccountUse> = BTreeMap::new();
    let mut raw = Vec::new();
    for ((account, rate), of) in &held {
        let row = accounts.entry(account).or_default();
        row.gpu_hours += of.hours;
        row.known_gpu_hours += of.known;
        row.used_gpu_hours += of.used;
        let Some(rate) = rate.and_then(|rate| rates.gpu_hour.get(rate)) else { continue };
        let mut line = |item, quantity: f64, price: f64| {
            let (account, rate_name) = ((*account).to_owned(), rate.name.clone().or_else(|| rate.gpu_type.clone()));
            raw.extend((quantity > 0.0).then_some(Raw { account, item, rate_name, quantity, rate: price }));
        };
        match rates.charge {
            ChargedBy::Allocation => line(BillItem::GpuHours, of.hours, rate.price),
            ChargedBy::Use => {
                line(BillItem::GpuHours, of.hours - of.known, rate.price);
                line(BillItem::GpuHoursUsed, of.used, rate.price);
                line(BillItem::GpuHoursHeldIdle, of.known - of.used, rate.price * rates.held_idle);
            }
        }
    }
    if let Some(price) = rates.core_hour {
        for (account, hours) in core_hours(facts, request) {
            accounts.entry(account).or_default();
            raw.push(Raw {
                account: account.to_owned(),
                item: BillItem::CoreHours,
                rate_name: None,
                quantity: hours,
                rate: price.price,
            });
        }
    }
    let energy_of: BTreeMap<&str, f64> =
        request.energy.map(|ledger| energy(trace, request.by, ledger)).unwrap_or_default();
    energy_of.keys().for_each(|account| {
        accounts.entry(account).or_default();
    });
    let allocated: f64 = held.values().map(|of| of.hours).sum();
    let shares = shares(&accounts, rates.spread, allocated);
    let mut spread = |item: BillItem, quantity: f64, rate: f64| {
        let line = |(account, share): &(String, f64)| Raw {
            account: account.clone(),
            item,
            rate_name: None,
            quantity: quantity * share,
            rate,
        };
        raw.extend(shares.iter().filter(|_| quantity > 0.0).map(line).filter(|line| line.quantity > 0.0));
    };
    let there = Capacity::new(trace, from, to).map(|capacity| capacity.cluster.integral_s(from, to) / HOUR_S);
    notes.extend(Capacity::assumption(trace));
    let unallocated = there.map(|there| (there - allocated).max(0.0));
    if let Some(there) = there.filter(|there| *there < allocated * (1.0 - 1e-9)) {
        notes.push(format!(
            "Jobs held {} GPU-hours, more than the {} that the recorded GPUs have: nothing is unallocated.",
            format::float(allocated, 0),
            format::float(there, 0)
        ));
    }
    match (rates.unallocated, unallocated) {
        (Some(price), Some(hours)) => spread(BillItem::Unallocated, hours, price.price),
        (Some(_), None) => {
            notes.push("How many GPUs there were is not recorded, so what no job held is not charged.".to_owned());
        }
        (None, _) => {}
    }
    if let Some(ledger) = request.energy {
        let of_jobs: f64 = energy_of.values().sum();
        let rest = (ledger.total_j / KWH_J - of_jobs).max(0.0);
        let modelled: f64 =
            ledger.entries.iter().filter(|entry| entry.basis == Basis::Model).map(|entry| entry.energy_j).sum();
        if modelled > MOST_MODELLED * ledger.total_j {
            notes.push(format!(
                "{} of the energy is modelled, as no reading tells it; charge it for the time of the readings alone (--from, --to).",
                format::percent(modelled / ledger.total_j)
            ));
        }
        if let Some(price) = rates.energy {
            spread(BillItem::SharedEnergy, rest, price.per_kwh);
        }
        if let Some(price) = rates.carbon {
            spread(BillItem::SharedCarbon, rest * price.g_per_kwh / 1e3, price.per_kg);
        }
        for (account, kwh) in &energy_of {
            let mut line = |item, quantity, rate| {
                raw.push(Raw { account: (*account).to_owned(), item, rate_name: None, quantity, rate });
            };
            if let Some(price) = rates.energy {
                line(BillItem::Energy, *kwh, price.per_kwh);
            }
            if let Some(price) = rates.carbon {
                line(BillItem::Carbon, kwh * price.g_per_kwh / 1e3, price.per_kg);
            }
        }
    } else if rates.energy.is_some() || rates.carbon.is_some() {
        notes.push("No telemetry or meter tells energy, so neither it nor emissions are charged.".to_owned());
    }
    adjust(&mut raw, request.invoice)?;
    raw.sort_by(|one, other| {
        (&one.account, one.item, &one.rate_name).cmp(&(&other.account, other.item, &other.rate_name))
    });
    let cent = 10f64.powi(i32::try_from(rates.decimals).unwrap_or(2));
    let amounts: Vec<f64> = raw.iter().map(|line| line.quantity * line.rate * cent).collect();
    let total =
        request.invoice.map_or_else(|| amounts.iter().sum::<f64>().round(), |invoice| (invoice * cent).round()) as i64;
    let cents = to_cents(&amounts, total);
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for (line, cents) in raw.iter().zip(&cents) {
        *sums.entry(&line.account).or_default() += cents;
    }
    if rates.spread == SpreadRule::None && sums.contains_key(NOBODY) {
        accounts.entry(NOBODY).or_default();
    }
    let finished = accounts.into_iter().map(|(account, of)| AccountUse {
        account: account.to_owned(),
        idle_share: (of.known_gpu_hours > 0.0).then(|| 1.0 - of.used_gpu_hours / of.known_gpu_hours),
        amount: sums.get(account).copied().unwrap_or(0) as f64 / cent,
        ..of
    });
    let accounts = finished.collect();
    let lines = raw.iter().zip(cents).map(|(line, cents)| BillLine {
        account: line.account.clone(),
        item: line.item,
        rate_name: line.rate_name.clone(),
        quantity: line.quantity,
        unit: line.item.unit().map_or_else(|| rates.currency.clone(), str::to_owned),
        rate: line.rate,
        amount: cents as f64 / cent,
    });
    Ok(Bill { lines: lines.collect(), accounts, total: total as f64 / cent, unallocated_gpu_hours: unallocated, notes })
}

/// What each account held, by rate.
fn held<'t>(facts: &JobFacts<'t>, request: &BillRequest<'_>) -> Result<BTreeMap<(&'t str, Option<usize>), Held>> {
    let (trace, rates) = (facts.trace, request.rates);
    let (from, to) = request.period_ms;
    let usual = only_type(trace);
    let zone = Zone::named(&trace.zone)?;
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

/// Core-hours of jobs that are known to have no GPUs.
fn core_hours<'t>(facts: &JobFacts<'t>, request: &BillRequest<'_>) -> BTreeMap<&'t str, f64> {
    let (from, to) = request.period_ms;
    let jobs = &facts.trace.jobs;
    let mut result: BTreeMap<&str, f64> = BTreeMap::new();
    for job in (0..facts.len()).filter(|job| facts.gpus(*job) == Some(0.0)) {
        let Some((cores, (start, end))) = jobs.req_cpus.get(job).zip(jobs.start.get(job).zip(facts.end_ms(job))) else {
            continue;
        };
        let hours = (end.min(to) - start.max(from)).max(0) as f64 / HOUR_MS as f64 * cores;
        if hours > 0.0 {
            *result.entry(account_of(facts.trace, request.by, job)).or_default() += hours;
        }
    }
    result
}

/// Energy of the jobs of each account, kWh.
fn energy<'t>(trace: &'t Trace, by: BilledBy, ledger: &EnergyLedger) -> BTreeMap<&'t str, f64> {
    let rows: BTreeMap<&str, usize> =
        (0..trace.jobs.len()).filter_map(|job| Some((trace.jobs.job_key.get(job)?, job))).collect();
    let mut result: BTreeMap<&str, f64> = BTreeMap::new();
    for of in &ledger.jobs {
        let account = rows.get(of.job_key.as_str()).map_or(UNKNOWN, |job| account_of(trace, by, *job));
        *result.entry(account).or_default() += (of.active_j + of.unsplit_j + of.idle_j + of.overhead_j) / KWH_J;
    }
    result.retain(|_, kwh| *kwh > 0.0);
    result
}

/// Share of each account of what nobody held.
fn shares(accounts: &BTreeMap<&str, AccountUse>, spread: SpreadRule, allocated: f64) -> Vec<(String, f64)> {
    let count = accounts.len() as f64;
    let share = |of: &AccountUse| match spread {
        SpreadRule::Allocation if allocated > 0.0 => of.gpu_hours / allocated,
        SpreadRule::None => 0.0,
        SpreadRule::Allocation | SpreadRule::Equal => 1.0 / count,
    };
    match spread == SpreadRule::None || accounts.is_empty() {
        true => vec![(NOBODY.to_owned(), 1.0)],
        false => accounts.iter().map(|(account, of)| ((*account).to_owned(), share(of))).collect(),
    }
}

/// Adds what is left to an invoice, in proportion to what accounts are charged.
fn adjust(raw: &mut Vec<Raw>, invoice: Option<f64>) -> Result<()> {
    let Some(invoice) = invoice else { return Ok(()) };
    let mut by_account: BTreeMap<String, f64> = BTreeMap::new();
    for line in raw.iter() {
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
    let left = invoice - sum;
    let line = |(account, amount): (String, f64)| Raw {
        account,
        item: BillItem::Adjustment,
        rate_name: None,
        quantity: left * amount / sum,
        rate: 1.0,
    };
    raw.extend(by_account.into_iter().map(line));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::energy::ledger::JobEnergy;
    use crate::schema::{JobRow, NodeRow};

    const HOUR: i64 = HOUR_MS;

    /// Four hours of a node of 8 GPUs: `a` holds four for two hours and uses half of them, `b` two for an hour.
    fn trace() -> Trace {
        let mut trace = Trace::default();
        trace.nodes.push(NodeRow {
            node: Some("n".into()),
            gpus: Some(8.0),
            gpu_type: Some("A100".into()),
            ..NodeRow::default()
        });
        let mut job = |key: &str, user: &str, from: i64, hours: i64, gpus: f64, util: Option<f64>| {
            trace.jobs.push(JobRow {
                job_key: Some(key.into()),
                user: Some(user.into()),
                submit: Some(from * HOUR),
                start: Some(from * HOUR),
                end: Some((from + hours) * HOUR),
                req_gpus: Some(gpus),
                reported_gpu_util_ratio: util,
                ..JobRow::default()
            });
        };
        job("1", "a", 0, 2, 4.0, Some(0.5));
        job("2", "b", 1, 1, 2.0, None);
        trace
    }

    fn billed(text: &str, invoice: Option<f64>, energy: Option<&EnergyLedger>) -> Result<Bill> {
        let rates = Rates::parse("rates.toml", text).unwrap();
        let trace = trace();
        let facts = JobFacts::new(&trace);
        let request = BillRequest { rates: &rates, by: BilledBy::User, period_ms: (0, 4 * HOUR), invoice, energy };
        bill(&facts, &request)
    }

    fn amounts(bill: &Bill) -> Vec<(&str, BillItem, f64, f64)> {
        bill.lines.iter().map(|line| (line.account.as_str(), line.item, line.quantity, line.amount)).collect()
    }

    /// 10 of 32 GPU-hours are held: 8 and 2. The other 22 cost 0.50 each.
    #[test]
    fn allocation_and_what_nobody_held() {
        use BillItem::{GpuHours, Unallocated};
        let text = "currency = \"USD\"\n[[gpu_hour]]\nprice = 2.0\n[unallocated]\nprice = 0.5\n";
        let found = billed(text, None, None).unwrap();
        let by_hours = [
            ("a", GpuHours, 8.0, 16.0),
            ("a", Unallocated, 17.6, 8.8),
            ("b", GpuHours, 2.0, 4.0),
            ("b", Unallocated, 4.4, 2.2),
        ];
        for (line, wanted) in amounts(&found).iter().zip(by_hours) {
            assert!(
                (line.0, line.1, line.3) == (wanted.0, wanted.1, wanted.3) && (line.2 - wanted.2).abs() < 1e-9,
                "{line:?}"
            );
        }
        assert_eq!((found.total, found.unallocated_gpu_hours), (31.0, Some(22.0)));
        let equal = billed(&text.replace("[[", "spread = \"equal\"\n[["), None, None).unwrap();
        assert_eq!(amounts(&equal)[1], ("a", Unallocated, 11.0, 5.5));
        let nobody = billed(&text.replace("[[", "spread = \"none\"\n[["), None, None).unwrap();
        assert_eq!((amounts(&nobody)[0], nobody.accounts[0].amount), ((NOBODY, Unallocated, 22.0, 11.0), 11.0));
    }

    /// Half of a's 8 GPU-hours were used: 4 at 2.00 and 4 at a quarter of it. Of b's nothing is known.
    #[test]
    fn by_use_what_is_held_idle_has_its_price() {
        let text = "currency = \"USD\"\ncharge = \"use\"\nheld_idle = 0.25\n[[gpu_hour]]\nprice = 2.0\n";
        let found = billed(text, None, None).unwrap();
        let wanted = [
            ("a", BillItem::GpuHoursUsed, 4.0, 8.0),
            ("a", BillItem::GpuHoursHeldIdle, 4.0, 2.0),
            ("b", BillItem::GpuHours, 2.0, 4.0),
        ];
        assert_eq!(amounts(&found), wanted);
        assert_eq!((found.accounts[0].idle_share, found.accounts[1].idle_share), (Some(0.5), None));
    }

    /// From 1:00 to 2:00 an hour costs 3, else 1: a holds 4 GPUs in each, b two in the dear one.
    #[test]
    fn rates_by_the_hour_cut_jobs() {
        let text = "currency = \"USD\"\n[[gpu_hour]]\nname = \"day\"\nhours = [1, 2]\nprice = 3.0\n[[gpu_hour]]\nprice = 1.0\n";
        let found = billed(text, None, None).unwrap();
        let wanted = [
            ("a", BillItem::GpuHours, 4.0, 4.0),
            ("a", BillItem::GpuHours, 4.0, 12.0),
            ("b", BillItem::GpuHours, 2.0, 6.0),
        ];
        assert_eq!(amounts(&found), wanted);
        let error = billed(&text[..text.rfind("[[").unwrap()], None, None).unwrap_err().to_string();
        assert!(error.contains("A100") && error.contains("0:00"), "{error}");
    }

    /// 5 kWh in all, of which job 1 took 3 and job 2 one.
    #[test]
    fn energy_adds_up_to_the_meter() {
        let job = |key: &str, kwh: f64| JobEnergy {
            job_key: key.to_owned(),
            owner: None,
            active_j: kwh * KWH_J,
            unsplit_j: 0.0,
            idle_j: 0.0,
            overhead_j: 0.0,
            modelled_j: 0.0,
            gpu_s: 0.0,
            coverage_ratio: None,
        };
        let ledger =
            EnergyLedger { jobs: vec![job("1", 3.0), job("2", 1.0)], total_j: 5.0 * KWH_J, ..EnergyLedger::default() };
        let text = "currency = \"USD\"\nspread = \"equal\"\n[energy]\nper_kwh = 0.2\n[carbon]\nper_kg = 1.0\ng_per_kwh = 500\n";
        let found = billed(text, None, Some(&ledger)).unwrap();
        let kwh =
            |item: BillItem| found.lines.iter().filter(|line| line.item == item).map(|line| line.quantity).sum::<f64>();
        assert_eq!((kwh(BillItem::Energy), kwh(BillItem::SharedEnergy)), (4.0, 1.0));
        assert_eq!((kwh(BillItem::Carbon) + kwh(BillItem::SharedCarbon), found.total), (2.5, 3.5));
        let unmetered = billed(text, None, None).unwrap();
        assert!(unmetered.lines.is_empty() && unmetered.notes.iter().any(|note| note.contains("No telemetry")));
    }

    #[test]
    fn an_invoice_is_met_in_proportion() {
        let text = "currency = \"USD\"\n[[gpu_hour]]\nprice = 1.0\n";
        let found = billed(text, Some(7.01), None).unwrap();
        assert_eq!(found.total, 7.01);
        let adjusted: Vec<f64> =
            found.lines.iter().filter(|line| line.item == BillItem::Adjustment).map(|line| line.amount).collect();
        assert_eq!(adjusted, [-2.39, -0.6]);
        assert!(billed("currency = \"USD\"\n[core_hour]\nprice = 1.0\n", Some(7.0), None).is_err());
    }

    #[test]
    fn the_worked_number_of_cents() {
        assert_eq!(to_cents(&[10_000.0 / 3.0; 3], 10_000), [3334, 3333, 3333]);
        assert_eq!(to_cents(&[0.6, 0.6, 0.8], 2), [1, 0, 1]);
    }

    proptest! {
        /// Whatever the rates, the rule and the invoice: lines add up to the total, and to accounts.
        #[test]
        fn lines_add_up(
            prices in (0.001f64..9.0, 0.0f64..3.0, 0.0f64..2.0),
            spread in prop::sample::select(vec!["allocation", "equal", "none"]),
            by_use in any::<bool>(),
            invoice in prop::option::of(0u32..1_000_000),
            decimals in 0u32..4,
        ) {
            let (held, unallocated, idle) = prices;
            let charge = if by_use { "use" } else { "allocation" };
            let text = format!("currency = \"USD\"\ncharge = \"{charge}\"\nspread = \"{spread}\"\nheld_idle = {idle:.6}\ndecimals = {decimals}\n[[gpu_hour]]\nprice = {held:.6}\n[unallocated]\nprice = {unallocated:.6}\n");
            let invoice = invoice.map(|invoice| f64::from(invoice) / 10f64.powi(decimals as i32));
            let found = billed(&text, invoice, None).unwrap();
            let cent = 10f64.powi(decimals as i32);
            let cents = |amount: f64| (amount * cent).round() as i64;
            let total: i64 = found.lines.iter().map(|line| cents(line.amount)).sum();
            prop_assert_eq!(total, cents(found.total));
            prop_assert_eq!(total, found.accounts.iter().map(|of| cents(of.amount)).sum::<i64>());
            if let Some(invoice) = invoice {
                prop_assert_eq!(total, cents(invoice));
            }
            // No line is a cent or more from what it is worth, and hours are all there.
            for line in &found.lines {
                prop_assert!((line.amount - line.quantity * line.rate).abs() < 1.0 / cent + 1e-9, "{:?}", line);
            }
            let hours: f64 = found.lines.iter().filter(|line| line.unit == "GPU-hours").map(|line| line.quantity).sum();
            prop_assert!((hours - 32.0).abs() < 1e-9 || unallocated == 0.0);
        }
    }
}
