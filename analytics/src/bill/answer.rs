//! The answer of `bill`, as JSON (`bill/1`), as a report and as CSV.
//!
//! O(lines). Worked example: three lines of 33.34, 33.33 and 33.33 have a total of 100.00 in all forms.

use schemars::JsonSchema;
use serde::Serialize;

use super::charge::{Bill, BillLine, BilledBy};
use super::rates::{ChargedBy, Rates, SpreadRule};
use crate::error::{Error, Result};
use crate::report::markup::csv_text;
use crate::report::{Cell, Column, Report, ReportTable, Section, format};
use crate::time::format_rfc3339;
use crate::trace::{SourceRecord, Trace};

/// Version of the JSON.
pub const SCHEMA: &str = "bill/1";
/// Lines of the table of a report.
const MOST_LINES: usize = 200;

/// The answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct BillAnswer {
    /// Version of this form.
    pub schema: String,
    /// The cluster or part that is billed.
    pub title: String,
    /// First moment of the period.
    pub from: String,
    /// Moment after the last.
    pub to: String,
    /// Column of jobs that is charged.
    pub by: BilledBy,
    /// What a GPU-hour is charged by.
    pub charge: ChargedBy,
    /// Who pays for what nobody held.
    pub spread: SpreadRule,
    /// ISO 4217 code.
    pub currency: String,
    /// Decimals of amounts.
    pub decimals: u32,
    /// The bill.
    #[serde(flatten)]
    pub bill: Bill,
    /// Files it rests on.
    pub sources: Vec<SourceRecord>,
}

/// The JSON Schema of [`BillAnswer`].
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(BillAnswer).to_value()
}

/// The item of a line under its name in JSON.
fn json_name(line: &BillLine) -> String {
    serde_json::to_value(line.item).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// A heading and rows as CSV; no text is taken for a formula.
pub(super) fn csv_of<const N: usize>(heading: [&str; N], rows: impl Iterator<Item = [String; N]>) -> Result<Vec<u8>> {
    let failed = |error: csv::Error| Error::io("write", "bill.csv", std::io::Error::other(error.to_string()));
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(heading).map_err(failed)?;
    for row in rows {
        let is_number = |text: &String| text.parse::<f64>().is_ok();
        let fields = row.iter().map(|text| if is_number(text) { text.clone() } else { csv_text(text) });
        writer.write_record(fields).map_err(failed)?;
    }
    writer.into_inner().map_err(|error| Error::io("write", "bill.csv", error.into_error()))
}

impl BillAnswer {
    /// The answer about the bill of a period, from its first moment to that after the last, milliseconds
    /// since the Unix epoch.
    pub fn new(
        trace: &Trace,
        title: String,
        (from, to): (i64, i64),
        by: BilledBy,
        rates: &Rates,
        mut bill: Bill,
    ) -> Self {
        bill.notes.extend(trace.warnings());
        Self {
            schema: SCHEMA.to_owned(),
            title,
            from: format_rfc3339(from),
            to: format_rfc3339(to),
            by,
            charge: rates.charge,
            spread: rates.spread,
            currency: rates.currency.clone(),
            decimals: rates.decimals,
            bill,
            sources: trace.sources.clone(),
        }
    }

    /// An amount with all its decimals.
    pub(super) fn amount(&self, amount: f64) -> String {
        format!("{amount:.*}", self.decimals as usize)
    }

    fn money(&self, amount: f64) -> Cell {
        Cell::from(self.amount(amount))
    }

    /// The lines as CSV.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let heading = ["account", "item", "rate_name", "quantity", "unit", "rate", "amount", "currency"];
        let row = |line: &BillLine| {
            [
                line.account.clone(),
                json_name(line),
                line.rate_name.clone().unwrap_or_default(),
                line.quantity.to_string(),
                line.unit.clone(),
                line.rate.to_string(),
                self.amount(line.amount),
                self.currency.clone(),
            ]
        };
        csv_of(heading, self.bill.lines.iter().map(row))
    }

    /// The report.
    pub fn report(&self) -> Report {
        let mut report = Report::new(self.title.clone(), format!("Bill of {} to {}", self.from, self.to));
        report.notes.clone_from(&self.bill.notes);
        let accounts = format::counted(self.bill.accounts.len() as u64, "account", "accounts");
        let lines = format::counted(self.bill.lines.len() as u64, "line", "lines");
        report.summary.push(format!(
            "**{} {}** to {accounts} in {lines}, which add up to it{}.",
            self.amount(self.bill.total),
            self.currency,
            self.bill.invoice.map_or("", |_| ", the invoice")
        ));
        let most = self.bill.accounts.iter().max_by(|one, other| one.amount.total_cmp(&other.amount));
        if let Some(most) = most.filter(|most| self.bill.total > 0.0 && most.amount > 0.0) {
            report.summary.push(format!(
                "Most is charged to {}: {} {}, {} of all.",
                most.account,
                self.amount(most.amount),
                self.currency,
                format::percent(most.amount / self.bill.total)
            ));
        }
        let held: f64 = self.bill.accounts.iter().map(|of| of.gpu_hours).sum();
        if let Some(hours) = self.bill.unallocated_gpu_hours {
            report.summary.push(format!(
                "Jobs held {} GPU-hours; {} were held by none.",
                format::float(held, 0),
                format::float(hours, 0)
            ));
        }
        let columns = [Column::text("Account")]
            .into_iter()
            .chain(["GPU-hours", "Use known", "Used", "Held idle", "Amount"].map(Column::number));
        let mut table = ReportTable::new(format!("Accounts, amounts in {}", self.currency), columns.collect());
        for of in &self.bill.accounts {
            table.rows.push(vec![
                of.account.as_str().into(),
                Cell::float(of.gpu_hours, 1),
                Cell::float(of.known_gpu_hours, 1),
                Cell::float(of.used_gpu_hours, 1),
                Cell::opt(of.idle_share, Cell::share),
                self.money(of.amount),
            ]);
        }
        report.sections.push(Section::new("accounts", "Accounts").with_table(table));
        let columns = ["Account", "Item", "Rate"].map(Column::text).into_iter();
        let columns = columns.chain(["Quantity", "Unit", "Price", "Amount"].map(Column::number));
        let mut table = ReportTable::new(format!("Lines, amounts in {}", self.currency), columns.collect());
        for line in self.bill.lines.iter().take(MOST_LINES) {
            table.rows.push(vec![
                line.account.as_str().into(),
                line.item.in_words().into(),
                line.rate_name.as_deref().unwrap_or("").into(),
                Cell::float(line.quantity, 2),
                line.unit.as_str().into(),
                Cell::float(line.rate, 4),
                self.money(line.amount),
            ]);
        }
        table.note = Some("An amount may be a cent off its quantity times its price, so that all add up.".to_owned());
        if self.bill.lines.len() > MOST_LINES {
            table.note = Some(format!("The first {MOST_LINES} of {lines}; --csv writes all."));
        }
        report.sections.push(Section::new("lines", "Lines").with_table(table));
        report
    }
}
