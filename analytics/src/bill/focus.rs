//! Lines as rows of FOCUS 1.2, the FinOps Open Cost and Usage Specification: its mandatory columns, the
//! quantity that was consumed, and the account as a sub-account, null where there is none.
//!
//! The cluster is the billing account, and each account of the bill a sub-account of it. There are no
//! discounts: billed, effective, contracted and list cost are the same. A line that comes to an invoice is
//! an adjustment, which has no quantity; all others are usage.
//!
//! O(lines). Worked example: 22.5 GPU-hours of account `a` for 45.00 USD are a row with `BilledCost` 45.00,
//! `SubAccountId` a, `PricingQuantity` 22.5 and `PricingUnit` GPU-Hours.

use super::answer::{BillAnswer, csv_of};
use super::charge::{BillItem, BillLine, NOBODY, UNKNOWN};
use super::rates::Rates;
use crate::error::Result;

/// Columns, in their order.
pub const COLUMNS: [&str; 26] = [
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "SubAccountId",
    "SubAccountName",
];

/// The row of a line.
fn row(answer: &BillAnswer, rates: &Rates, line: &BillLine) -> [String; COLUMNS.len()] {
    let is_usage = line.item != BillItem::Adjustment;
    let cost = answer.amount(line.amount);
    let issuer = rates.issuer.clone().unwrap_or_else(|| answer.title.clone());
    let account = rates.billing_account.clone().unwrap_or_else(|| answer.title.clone());
    let name = line.rate_name.as_ref().map_or_else(String::new, |name| format!(", {name}"));
    let description = match is_usage {
        true => format!("{}{name}: {:.4} {} at {}", line.item.in_words(), line.quantity, line.unit, line.rate),
        false => line.item.in_words().to_owned(),
    };
    let is_named = ![NOBODY, UNKNOWN].contains(&line.account.as_str());
    let account_of_line = if is_named { line.account.clone() } else { String::new() };
    // Names of units as FOCUS has them: time is counted in Hours.
    let unit = line.unit.replace("-hours", "-Hours");
    let of_usage = |text: String| if is_usage { text } else { String::new() };
    [
        cost.clone(),
        account.clone(),
        account,
        answer.currency.clone(),
        answer.to.clone(),
        answer.from.clone(),
        if is_usage { "Usage" } else { "Adjustment" }.to_owned(),
        String::new(),
        description,
        if is_usage { "Usage-Based" } else { "One-Time" }.to_owned(),
        answer.to.clone(),
        answer.from.clone(),
        of_usage(line.quantity.to_string()),
        of_usage(unit.clone()),
        cost.clone(),
        cost.clone(),
        issuer.clone(),
        cost,
        of_usage(line.quantity.to_string()),
        of_usage(unit.clone()),
        issuer.clone(),
        issuer,
        "Compute".to_owned(),
        "GPU cluster".to_owned(),
        account_of_line.clone(),
        account_of_line,
    ]
}

/// The lines of a bill as CSV.
///
/// # Errors
/// When they cannot be written.
pub fn csv(answer: &BillAnswer, rates: &Rates) -> Result<Vec<u8>> {
    csv_of(COLUMNS, answer.bill.lines.iter().map(|line| row(answer, rates, line)))
}
