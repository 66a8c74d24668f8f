//! `bill`: what accounts are charged, as JSON, CSV and FOCUS.

use serde_json::Value;

use super::*;

/// Jobs of two VCs on one day: `va` holds 8 GPUs for 3 hours, `vb` 4 for one.
const LOG: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,ua,va,8,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:00,2020-04-01 03:00:00,10800,0
2,ub,vb,4,4,1,COMPLETED,2020-04-01 01:00:00,2020-04-01 01:00:00,2020-04-01 02:00:00,3600,0
";

fn rows(path: &str) -> Vec<std::collections::BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

#[test]
fn a_log_is_charged_to_the_cent() {
    let folder = Folder::new();
    let log = folder.file("cluster_log.csv", LOG);
    let rates = folder.file(
        "rates.toml",
        "currency = \"USD\"\n[[gpu_hour]]\nvc = \"vb\"\nprice = 0.333\n[[gpu_hour]]\nprice = 1.5\n",
    );
    let [lines, focus] = ["lines.csv", "focus.csv"].map(|name| folder.path(name));
    let ask = |more: &[&str]| {
        let output = tracecast(&[&["bill", &log, "--rates", &rates, "--format", "json", "--quiet"], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let answer = ask(&["--csv", &lines, "--focus", &focus]);
    let amounts: Vec<&Value> = answer["lines"].as_array().unwrap().iter().map(|line| &line["amount"]).collect();
    // 24 × 1.50 and 4 × 0.333.
    assert_eq!((amounts, &answer["total"]), (vec![&Value::from(36.0), &Value::from(1.33)], &Value::from(37.33)));
    assert_eq!(
        (&answer["schema"], &answer["by"], &answer["currency"]),
        (&"bill/1".into(), &"vc".into(), &"USD".into())
    );
    let written = rows(&lines);
    assert_eq!((written[1]["account"].as_str(), written[1]["amount"].as_str()), ("vb", "1.33"));
    assert_eq!(written[1]["item"], "gpu_hours");
    // FOCUS: usage has a quantity, costs are the same without discounts, the account is a sub-account.
    let focus = rows(&focus);
    assert_eq!((focus[0]["BilledCost"].as_str(), focus[0]["ChargeCategory"].as_str()), ("36.00", "Usage"));
    assert_eq!((focus[0]["PricingQuantity"].as_str(), focus[0]["PricingUnit"].as_str()), ("24", "GPU-Hours"));
    assert_eq!(
        (focus[1]["SubAccountId"].as_str(), focus[1]["BillingPeriodEnd"].as_str()),
        ("vb", "2020-03-31T19:00:00Z")
    );
    for row in &focus {
        assert!(["EffectiveCost", "ListCost", "ContractedCost"].iter().all(|cost| row[*cost] == row["BilledCost"]));
    }
    // By user and for an hour alone, to an invoice.
    let hour = ["--by", "user", "--from", "2020-03-31T17:00:00Z", "--to", "2020-03-31T18:00:00Z", "--invoice", "10"];
    let answer = ask(&hour);
    assert_eq!((&answer["accounts"][0]["account"], &answer["total"]), (&"ua".into(), &Value::from(10.0)));
    let sum: f64 = answer["lines"].as_array().unwrap().iter().map(|line| line["amount"].as_f64().unwrap()).sum();
    assert!((sum - 10.0).abs() < 1e-9, "{sum}");
}

#[test]
fn the_sample_is_charged_by_use_and_adds_up_to_the_meter() {
    let ask = ["bill", "datasets/sample", "--rates", "datasets/rates/example.toml", "--by", "vc"];
    let output = tracecast(&[&ask[..], &["--format", "json", "--quiet"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let answer = json(&stdout(&output));
    let number = |value: &Value| value.as_f64().unwrap();
    let lines = answer["lines"].as_array().unwrap();
    let cents = |value: &Value| (number(value) * 100.0).round() as i64;
    assert_eq!(lines.iter().map(|line| cents(&line["amount"])).sum::<i64>(), cents(&answer["total"]));
    let sum = |item: &str| {
        lines.iter().filter(|line| line["item"] == item).map(|line| number(&line["quantity"])).sum::<f64>()
    };
    // What was held, by use or not, is what the accounts held.
    let held: f64 = answer["accounts"].as_array().unwrap().iter().map(|of| number(&of["gpu_hours"])).sum();
    assert!((sum("gpu_hours") + sum("gpu_hours_used") + sum("gpu_hours_held_idle") - held).abs() < 1e-6 * held);
    assert!((sum("unallocated") - number(&answer["unallocated_gpu_hours"])).abs() < 1e-6 * held);
    let (from, to) = (answer["from"].as_str().unwrap(), answer["to"].as_str().unwrap());
    let audit = tracecast(&["audit", "datasets/sample", "--from", from, "--to", to, "--format", "json", "--quiet"]);
    let audit = json(&stdout(&audit));
    let metered = number(&audit["account"]["it_kwh"]["value"]);
    let charged = sum("energy") + sum("shared_energy");
    assert!((charged - metered).abs() < 1e-6 * metered, "{charged} {metered}");
    // Readings are of two days of the month.
    assert!(answer["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains("modelled")));
    is_the_same_with_any_threads(&[&ask[..], &["--quiet"]].concat());
}

#[test]
fn a_rates_file_with_a_mistake_is_refused() {
    let folder = Folder::new();
    let log = folder.file("cluster_log.csv", LOG);
    let refused = |text: &str, code: i32, told: &str| {
        let rates = folder.file("rates.toml", text);
        let output = tracecast(&["bill", &log, "--rates", &rates]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
    };
    refused("currency = \"USD\"\n[[gpu_hour]]\nprice = -1\n", 1, "no price");
    refused("currency = \"USD\"\n[[gpu_hour]]\ncost = 1\n", 1, "line 3");
    refused("currency = \"USD\"\n[[gpu_hour]]\nvc = \"vb\"\nprice = 1\n", 1, "no rate for");
}

/// Columns that FOCUS 1.2 calls mandatory, and which of them may be null.
const MANDATORY: [(&str, bool); 21] = [
    ("BilledCost", false),
    ("BillingAccountId", false),
    ("BillingAccountName", true),
    ("BillingCurrency", false),
    ("BillingPeriodEnd", false),
    ("BillingPeriodStart", false),
    ("ChargeCategory", false),
    ("ChargeClass", true),
    ("ChargeDescription", true),
    ("ChargePeriodEnd", false),
    ("ChargePeriodStart", false),
    ("ContractedCost", false),
    ("EffectiveCost", false),
    ("InvoiceIssuerName", false),
    ("ListCost", false),
    ("PricingQuantity", true),
    ("PricingUnit", true),
    ("ProviderName", false),
    ("PublisherName", false),
    ("ServiceCategory", false),
    ("ServiceName", false),
];

/// The column rules of FOCUS on a bill with usage, energy, what nobody held, and an adjustment to an invoice.
#[test]
fn a_focus_file_keeps_its_column_rules() {
    let folder = Folder::new();
    let rates = std::fs::read_to_string(root().join("datasets/rates/example.toml")).unwrap();
    let rates = folder.file("rates.toml", &rates.replace("spread = \"allocation\"", "spread = \"none\""));
    let path = folder.path("focus.csv");
    let ask =
        ["bill", "datasets/sample", "--rates", &rates, "--by", "user", "--invoice", "250000.01", "--focus", &path];
    let output = tracecast(&[&ask[..], &["--quiet"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&path);
    let (mut cents, mut seen) = (0i64, std::collections::BTreeSet::new());
    for row in &rows {
        for (column, nullable) in MANDATORY {
            assert!(nullable || !row[column].is_empty(), "{column} {row:?}");
        }
        let number = |column: &str| row[column].parse::<f64>().unwrap();
        cents += (number("BilledCost") * 100.0).round() as i64;
        let is_usage = row["ChargeCategory"] == "Usage";
        assert!(is_usage || row["ChargeCategory"] == "Adjustment");
        // Usage has a quantity and its unit; both are there or both are null.
        for (quantity, unit) in [("PricingQuantity", "PricingUnit"), ("ConsumedQuantity", "ConsumedUnit")] {
            assert_eq!((row[quantity].is_empty(), row[unit].is_empty()), (!is_usage, !is_usage), "{row:?}");
        }
        assert!(["", "Correction"].contains(&row["ChargeClass"].as_str()));
        assert!(["One-Time", "Recurring", "Usage-Based"].contains(&row["ChargeFrequency"].as_str()));
        assert_eq!((row["BillingCurrency"].as_str(), row["ServiceCategory"].as_str()), ("EUR", "Compute"));
        for moment in ["BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"] {
            assert!(row[moment].len() == 20 && row[moment].ends_with('Z'), "{row:?}");
        }
        assert!(
            row["BillingPeriodStart"] <= row["ChargePeriodStart"] && row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
        );
        assert!(!row["SubAccountId"].starts_with('('), "{row:?}");
        seen.insert((row["ChargeCategory"].clone(), row["PricingUnit"].clone()));
    }
    assert_eq!(cents, 25_000_001);
    let units: Vec<&str> = seen.iter().map(|(_, unit)| unit.as_str()).collect();
    assert!(["", "GPU-Hours", "kWh", "kg CO2e"].iter().all(|unit| units.contains(unit)), "{units:?}");
}

#[test]
fn a_period_without_jobs_and_an_invoice_of_half_cents_are_refused() {
    let folder = Folder::new();
    let log = folder.file("cluster_log.csv", LOG);
    let rates = folder.file("rates.toml", "currency = \"USD\"\n[[gpu_hour]]\nprice = 1\n");
    for (more, told) in
        [(["--from", "2021-01-01"], "no job of the source is of that time"), (["--invoice", "1.005"], "2 decimals")]
    {
        let output = tracecast(&[&["bill", &log, "--rates", &rates], &more[..]].concat());
        assert!(output.status.code() == Some(2) && stderr(&output).contains(told), "{}", stderr(&output));
    }
}
