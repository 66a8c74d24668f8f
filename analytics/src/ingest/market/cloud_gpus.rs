//! Tables of what instances with GPUs cost at many clouds (`cloud-gpus.csv`), and of GPUs that are billed while they are used (`serverless-gpus.csv`).
//!
//! A row is an instance: its cloud, its GPUs, and dollars an hour of the **instance** on demand and as spot. Blank means that it is not known, and is not made up from the price of one GPU, as that column holds now one,
//! now the other. `GPU Type` names the memory of one GPU in brackets, `A100 (80 GB)`, which is taken as GiB. Clouds are told in small letters. Which instances differ only in what the table does not say is not told apart: each row
//! counts. A GPU that is billed while it is used is no instance: its price is of the kind `serverless`.
//!
//! Worked number: `A100 (80 GB)` is the model `A100` with 85,899,345,920 bytes. O(bytes).

use super::super::delimited::{Delimited, Record};
use super::super::field::GIB;
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::Reader;
use super::super::source::{SourceFile, TableHeaders};
use crate::error::Result;
use crate::quality::{Reason, reason};
use crate::schema::PriceRow;
use crate::trace::Trace;

/// Columns of the one table, and of the other.
const INSTANCES: [&str; 5] = ["cloud", "gpu type", "gpus", "on-demand", "spot"];
const SERVERLESS: [&str; 4] = ["vendor", "gpu type", "gpus", "per-hour"];

/// A row of which no price can be used.
const NO_PRICE: Reason = Reason {
    id: "no_hourly_price",
    what: "the instance has no price above 0 an hour, neither on demand nor as spot",
    remedy: "write under On-demand (or Per-Hour) what an hour of the whole instance costs",
};
/// A row that does not say how many GPUs.
const NO_GPUS: Reason = Reason {
    id: "no_gpus",
    what: "the row does not say which GPU the instance has, or how many",
    remedy: "write GPU Type, and under GPUs a number above 0",
};

/// See the module.
pub(crate) struct CloudGpus;

impl Reader for CloudGpus {
    fn id(&self) -> &'static str {
        "cloud-gpus"
    }

    fn describes(&self) -> &'static str {
        "prices of instances with GPUs at many clouds (cloud-gpus.csv, serverless-gpus.csv)"
    }

    fn columns(&self) -> TableHeaders {
        &[(',', &INSTANCES), (',', &SERVERLESS)]
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut seen = SeenKeys::default();
        for file in files {
            read_file(file, options, &mut seen, trace)?;
        }
        Ok(())
    }
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let mut table = Delimited::open(file, b',', options.observer)?;
    let (gpu, gpus) = (Some(table.require("gpu type")?), Some(table.require("gpus")?));
    let serverless = table.column("cloud").is_none();
    let (provider, hour, hour_name, hour_kind) = if serverless {
        (Some(table.require("vendor")?), Some(table.require("per-hour")?), "Per-Hour", "serverless")
    } else {
        (table.column("cloud"), Some(table.require("on-demand")?), "On-demand", "ondemand")
    };
    let (spot, name) = (table.column("spot"), table.column("name"));
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let raw = record.raw();
        if !seen.is_new(raw) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "", raw);
            continue;
        }
        let (model, gpu_mem_bytes) = record.text(gpu).map_or((None, None), |text| {
            let (model, bytes) = model(text);
            (Some(model), bytes)
        });
        let count = record.amount(gpus, "GPUs").filter(|count| *count > 0.0);
        if model.is_none() || count.is_none() {
            trace.ledger.quarantine(&record.audit, NO_GPUS, "GPUs", raw);
            continue;
        }
        let row = PriceRow {
            provider: record.text(provider).map(|text| text.to_ascii_lowercase().into()),
            instance: record.text(name).map(Into::into),
            gpu_type: model.map(Into::into),
            gpus: count,
            gpu_mem_bytes,
            ..PriceRow::default()
        };
        let price = |record: &mut Record<'_>, column, name| record.amount(column, name).filter(|price| *price > 0.0);
        let prices = [(price(&mut record, hour, hour_name), hour_kind), (price(&mut record, spot, "Spot"), "spot")];
        if prices.iter().all(|(price, _)| price.is_none()) {
            trace.ledger.quarantine(&record.audit, NO_PRICE, hour_name, raw);
            continue;
        }
        for (usd_per_h, kind) in prices {
            if usd_per_h.is_some() {
                trace.prices.push(PriceRow { usd_per_h, kind: Some(kind.into()), ..row.clone() });
            }
        }
        trace.ledger.keep(record.audit);
    }
    table.finish(&mut trace.ledger);
    Ok(())
}

/// `A100 (80 GB)` as the model and the bytes of one GPU; what is in brackets and no size belongs to the model.
fn model(text: &str) -> (&str, Option<f64>) {
    let size = |text: &str| -> Option<f64> {
        let gib: f64 = text.strip_suffix(')')?.trim_end().strip_suffix("GB")?.trim_end().parse().ok()?;
        (gib > 0.0 && gib.is_finite()).then_some(gib * GIB)
    };
    match text.rsplit_once('(').map(|(model, rest)| (model.trim_end(), size(rest))) {
        Some((model, Some(bytes))) if !model.is_empty() => (model, Some(bytes)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_gpu_is_in_brackets() {
        let gib = |count: f64| Some(count * GIB);
        for (text, of) in [
            ("A100 (80 GB)", ("A100", gib(80.0))),
            ("H100 HGX (80GB)", ("H100 HGX", gib(80.0))),
            ("A10", ("A10", None)),
            ("A100 (SXM)", ("A100 (SXM)", None)),
            ("A100 (0 GB)", ("A100 (0 GB)", None)),
            ("(80 GB)", ("(80 GB)", None)),
            ("A100 (80 GB", ("A100 (80 GB", None)),
        ] {
            assert_eq!(model(text), of, "{text}");
        }
    }
}
