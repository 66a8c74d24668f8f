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
    let result = billed(text, None, None).unwrap();
    let by_hours = [
        ("a", GpuHours, 8.0, 16.0),
        ("a", Unallocated, 17.6, 8.8),
        ("b", GpuHours, 2.0, 4.0),
        ("b", Unallocated, 4.4, 2.2),
    ];
    for (line, wanted) in amounts(&result).iter().zip(by_hours) {
        assert!(
            (line.0, line.1, line.3) == (wanted.0, wanted.1, wanted.3) && (line.2 - wanted.2).abs() < 1e-9,
            "{line:?}"
        );
    }
    assert_eq!((result.total, result.unallocated_gpu_hours), (31.0, Some(22.0)));
    let equal = billed(&text.replace("[[", "spread = \"equal\"\n[["), None, None).unwrap();
    assert_eq!(amounts(&equal)[1], ("a", Unallocated, 11.0, 5.5));
    let nobody = billed(&text.replace("[[", "spread = \"none\"\n[["), None, None).unwrap();
    assert_eq!((amounts(&nobody)[0], nobody.accounts[0].amount), ((NOBODY, Unallocated, 22.0, 11.0), 11.0));
}

/// Half of a's 8 GPU-hours were used: 4 at 2.00 and 4 at a quarter of it. Of b's nothing is known.
#[test]
fn by_use_what_is_held_idle_has_its_price() {
    let text = "currency = \"USD\"\ncharge = \"use\"\nheld_idle = 0.25\n[[gpu_hour]]\nprice = 2.0\n";
    let result = billed(text, None, None).unwrap();
    let wanted = [
        ("a", BillItem::GpuHoursUsed, 4.0, 8.0),
        ("a", BillItem::GpuHoursHeldIdle, 4.0, 2.0),
        ("b", BillItem::GpuHours, 2.0, 4.0),
    ];
    assert_eq!(amounts(&result), wanted);
    assert_eq!((result.accounts[0].idle_share, result.accounts[1].idle_share), (Some(0.5), None));
}

/// From 1:00 to 2:00 an hour costs 3, else 1: a holds 4 GPUs in each, b two in the dear one.
#[test]
fn rates_by_the_hour_cut_jobs() {
    let text =
        "currency = \"USD\"\n[[gpu_hour]]\nname = \"day\"\nhours = [1, 2]\nprice = 3.0\n[[gpu_hour]]\nprice = 1.0\n";
    let result = billed(text, None, None).unwrap();
    let wanted = [
        ("a", BillItem::GpuHours, 4.0, 4.0),
        ("a", BillItem::GpuHours, 4.0, 12.0),
        ("b", BillItem::GpuHours, 2.0, 6.0),
    ];
    assert_eq!(amounts(&result), wanted);
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
    let text =
        "currency = \"USD\"\nspread = \"equal\"\n[energy]\nper_kwh = 0.2\n[carbon]\nper_kg = 1.0\ng_per_kwh = 500\n";
    let result = billed(text, None, Some(&ledger)).unwrap();
    let kwh =
        |item: BillItem| result.lines.iter().filter(|line| line.item == item).map(|line| line.quantity).sum::<f64>();
    assert_eq!((kwh(BillItem::Energy), kwh(BillItem::SharedEnergy)), (4.0, 1.0));
    assert_eq!((kwh(BillItem::Carbon) + kwh(BillItem::SharedCarbon), result.total), (2.5, 3.5));
    // Meters of nodes that come to less than their GPUs take it back.
    let less = EnergyLedger { total_j: 3.5 * KWH_J, ..ledger.clone() };
    let result = billed(text, None, Some(&less)).unwrap();
    let kwh: f64 = result.lines.iter().filter(|line| line.unit == "kWh").map(|line| line.quantity).sum();
    assert_eq!((kwh, result.total), (3.5, 2.45));
    let unmetered = billed(text, None, None).unwrap();
    assert!(unmetered.lines.is_empty() && unmetered.notes.iter().any(|note| note.contains("No telemetry")));
}

#[test]
fn an_invoice_is_met_in_proportion() {
    let text = "currency = \"USD\"\n[[gpu_hour]]\nprice = 1.0\n";
    let result = billed(text, Some(7.01), None).unwrap();
    assert_eq!(result.total, 7.01);
    let adjusted: Vec<f64> =
        result.lines.iter().filter(|line| line.item == BillItem::Adjustment).map(|line| line.amount).collect();
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
        let result = billed(&text, invoice, None).unwrap();
        let cent = 10f64.powi(decimals as i32);
        let cents = |amount: f64| (amount * cent).round() as i64;
        let total: i64 = result.lines.iter().map(|line| cents(line.amount)).sum();
        prop_assert_eq!(total, cents(result.total));
        prop_assert_eq!(total, result.accounts.iter().map(|of| cents(of.amount)).sum::<i64>());
        if let Some(invoice) = invoice {
            prop_assert_eq!(total, cents(invoice));
        }
        // No line is a cent or more from what it is worth, and hours are all there.
        for line in &result.lines {
            prop_assert!((line.amount - line.quantity * line.rate).abs() < 1.0 / cent + 1e-9, "{:?}", line);
        }
        let hours: f64 = result.lines.iter().filter(|line| line.unit == "GPU-hours").map(|line| line.quantity).sum();
        prop_assert!((hours - 32.0).abs() < 1e-9 || unallocated == 0.0);
    }
}

/// Before any job nothing is held, so what nobody held stays with nobody.
#[test]
fn of_a_time_without_jobs_nobody_is_charged() {
    let rates = Rates::parse("r", "currency = \"USD\"\n[unallocated]\nprice = 0.5\n").unwrap();
    let trace = trace();
    let facts = JobFacts::new(&trace);
    let period_ms = (3 * HOUR, 4 * HOUR);
    let request = BillRequest { rates: &rates, by: BilledBy::User, period_ms, invoice: None, energy: None };
    let result = bill(&facts, &request).unwrap();
    assert_eq!(amounts(&result), [(NOBODY, BillItem::Unallocated, 8.0, 4.0)]);
    assert_eq!((result.accounts.len(), result.accounts[0].amount, result.total), (1, 4.0, 4.0));
}
