//! Spot availability and preemption traces of SkyPilot's replay experiments.
//!
//! `{"metadata":{"gap_seconds":195},"data":[1,1,0,…]}`: how many instances of those asked for were to be had at each
//! sample. The gap differs by file. The zone is `metadata.zone`, else it comes from the file name, as the accelerator does
//! (`us-east-1a_v100_1.json` is one V100 in `us-east-1a`); the start is known only as a date in the folder's name, so times are relative to the first sample.
//! A row of the ledger is one sample, its line the number of the sample. O(samples).
//!
//! A file may carry `prices` beside `data`, a spot price in dollars an hour for each sample, and `metadata.on_demand_price` (or
//! `metadata.price_info.on_demand_price`). Spot prices become steps: a row where the price changes. A spot price that is no number above 0 is set aside, and the price
//! before it holds on; a file whose on-demand price is none is refused, as that is typed once and stands for all of it. As many prices as samples must be there, as nobody knows to which samples fewer belong. Worked example: `[0.9, 0.9, 0, null, 1.1]` are 0.9 from the first sample and 1.1 from the fifth, and two rows set aside.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::field;
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::{Ledger, Reason, RowAudit, reason, shorten};
use crate::schema::{AvailabilityRow, PriceRow};
use crate::time::{TimeBasis, seconds_to_ms};
use crate::trace::Trace;

/// A spot price that is none.
const NO_PRICE: Reason = Reason {
    id: "no_price",
    what: "the spot price of a sample is missing, or no number above 0; the price before it holds on",
    remedy: "write prices in dollars an hour, one for each sample",
};

/// See the module.
pub(crate) struct SkyTrace;

impl Reader for SkyTrace {
    fn id(&self) -> &'static str {
        "sky-availability"
    }

    fn describes(&self) -> &'static str {
        "SkyPilot spot availability traces (JSON with gap_seconds)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let has = |word: &str| head.text.contains(word);
        let is_json = head.text.trim_start().starts_with('{');
        if is_json && has("\"gap_seconds\"") && has("\"data\"") { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        if trace.row_counts().is_empty() {
            trace.basis = TimeBasis::Relative;
        }
        let mut seen = SeenKeys::default();
        for file in files {
            read_file(file, options, &mut seen, trace)?;
        }
        trace.note(
            "Spot availability is counted from the first sample of each file, whose date is not in the file: hours and \
             weekdays mean nothing.",
        );
        Ok(())
    }
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let mut samples = Samples { file, counts: Vec::new(), bad: BTreeMap::new(), seen, trace: &mut *trace };
    let whole = document::read(file, options, &["data"], "JSON", REMEDY, &mut samples)?;
    if whole == 0 || !samples.counts.is_empty() {
        // What its samples are stands outside of their list, and may have been lost.
        return Err(Error::format(file.name(), "not JSON, or the document ends early", REMEDY));
    }
    Ok(())
}

const REMEDY: &str = "fetch the file again";

/// The samples of one file.
struct Samples<'a> {
    file: &'a SourceFile,
    /// Instances at each sample of the document being read; not a number where the sample is none.
    counts: Vec<f64>,
    /// Text in place of a sample that is none.
    bad: BTreeMap<usize, String>,
    seen: &'a mut SeenKeys,
    trace: &'a mut Trace,
}

impl Sink for Samples<'_> {
    fn element(&mut self, value: Value) {
        let count = value.as_f64().filter(|count| *count >= 0.0);
        if count.is_none() {
            self.bad.insert(self.counts.len(), shorten(&value.to_string()));
        }
        self.counts.push(count.unwrap_or(f64::NAN));
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        let (file, document) = (self.file, &around.rest);
        let wrong = |result: &str| Error::format(file.name(), result, REMEDY);
        let gap_s = document.pointer("/metadata/gap_seconds").and_then(Value::as_f64).filter(|gap| *gap > 0.0);
        let gap_s = gap_s.ok_or_else(|| wrong("metadata.gap_seconds is not a positive number"))?;
        if document.get("data") != Some(&Value::Bool(true)) {
            return Err(wrong("there is no data list"));
        }
        let (named, instance) = place(&file.stem());
        let stated = field::text(document.pointer("/metadata/zone").and_then(Value::as_str)).map(str::to_owned);
        if let (Some(stated), Some(named)) = (&stated, &named)
            && stated != named
        {
            let name = file.name();
            self.trace
                .note(format!("{name} says that its zone is {stated}, while its name says {named}: {stated} it is."));
        }
        let zone = stated.or(named);
        if zone.is_none() {
            self.trace.note(format!(
                "{} neither says its zone (metadata.zone) nor is named after one, so its samples have none.",
                file.name()
            ));
        }
        let key = format!("{}|{}", zone.as_deref().unwrap_or(""), instance.as_deref().unwrap_or(""));
        if !self.seen.is_new(&key) {
            self.trace.note(format!(
                "{} is of the same zone and accelerator as a file before it; their samples cannot be told apart by zone.",
                file.name()
            ));
        }
        if let Some(prices) = document.get("prices").and_then(Value::as_array)
            && prices.len() != self.counts.len()
        {
            let result = format!("prices has {} values, and data {}", prices.len(), self.counts.len());
            let remedy = "write a price for each sample, null where it is not known, or leave prices out";
            return Err(Error::format(file.name(), result, remedy));
        }
        let on_demand = listed(document).map_err(|result| {
            Error::format(file.name(), result, "write dollars an hour above 0, or leave on_demand_price out")
        })?;
        let bad = std::mem::take(&mut self.bad);
        for (ix, count) in std::mem::take(&mut self.counts).into_iter().enumerate() {
            let row = RowAudit::new(file.name(), ix as u64 + 1);
            let ts = seconds_to_ms(ix as f64 * gap_s).filter(|_| !count.is_nan());
            let Some(ts) = ts else {
                let text = bad.get(&ix).cloned().unwrap_or_else(|| count.to_string());
                self.trace.ledger.quarantine(&row, reason::MALFORMED, "data", &text);
                continue;
            };
            self.trace.availability.push(AvailabilityRow {
                zone: zone.as_deref().map(Into::into),
                instance: instance.as_deref().map(Into::into),
                ts: Some(ts),
                gap_s: Some(gap_s),
                count: Some(count),
            });
            self.trace.ledger.keep(row);
        }
        let label = PriceRow {
            zone: zone.as_deref().map(Into::into),
            instance: instance.as_deref().map(Into::into),
            ..PriceRow::default()
        };
        if let Some(usd_per_h) = on_demand {
            let kind = Some("ondemand".into());
            self.trace.prices.push(PriceRow { usd_per_h: Some(usd_per_h), kind, ..label.clone() });
        }
        self.prices(document, gap_s, &label);
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}

/// A price that can be one.
fn price(value: &Value) -> Option<f64> {
    value.as_f64().filter(|price| *price > 0.0 && price.is_finite())
}

/// On-demand price of a document, dollars an hour; `None` where there is none or it is null.
///
/// # Errors
/// The text in its place, if it is no price.
fn listed(document: &Value) -> std::result::Result<Option<f64>, String> {
    let at = ["/metadata/on_demand_price", "/metadata/price_info/on_demand_price"].map(|at| document.pointer(at));
    match at.into_iter().flatten().find(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => match price(value) {
            Some(usd_per_h) => Ok(Some(usd_per_h)),
            None => Err(format!("metadata.on_demand_price is {}, which is no price", shorten(&value.to_string()))),
        },
    }
}

impl Samples<'_> {
    /// Takes the spot prices of a document, if it has any; `label` says of what.
    fn prices(&mut self, document: &Value, gap_s: f64, label: &PriceRow) {
        let name = self.file.name();
        let Some(values) = document.get("prices").and_then(Value::as_array) else { return };
        let mut before = None;
        for (ix, value) in values.iter().enumerate() {
            let row = RowAudit::new(name, ix as u64 + 1);
            let (Some(usd_per_h), Some(ts)) = (price(value), seconds_to_ms(ix as f64 * gap_s)) else {
                self.trace.ledger.quarantine(&row, NO_PRICE, "prices", &shorten(&value.to_string()));
                continue;
            };
            self.trace.ledger.keep(row);
            if before != Some(usd_per_h) {
                let kind = Some("spot".into());
                self.trace.prices.push(PriceRow { ts: Some(ts), usd_per_h: Some(usd_per_h), kind, ..label.clone() });
            }
            before = Some(usd_per_h);
        }
    }
}

/// Zone and accelerators of a file name: `us-east-1a_v100_1.json` is (`us-east-1a`, `V100:1`).
fn place(stem: &str) -> (Option<String>, Option<String>) {
    let name = stem.strip_suffix(".json").unwrap_or(stem);
    let mut parts = name.split('_');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(zone), Some(gpu), Some(gpus), None) if !zone.is_empty() && gpus.parse::<u32>().is_ok() => {
            (Some(zone.to_owned()), Some(format!("{}:{gpus}", gpu.to_ascii_uppercase())))
        }
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_and_accelerator_come_from_the_name() {
        assert_eq!(place("us-east-1a_v100_1.json"), (Some("us-east-1a".to_owned()), Some("V100:1".to_owned())));
        assert_eq!(place("trace.json"), (None, None));
        assert_eq!(place("a_b_c.json"), (None, None));
    }
}
