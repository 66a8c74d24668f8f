//! Daily spot prices of Azure as tables of a region: a line a day, a column a VM size.
//!
//! `Date,NC6,NC6s v2,NC24rs v3,…` and `2/24/2020,$0.12276,$0.27241,…`: dollars an hour of a VM, month first, in the form in which the authors of *Analysis and exploitation
//! of dynamic pricing in the public cloud for ML training* (DISPA 2020) collected them. The region is the name of the file (`us_east.csv`). An empty cell is a size that the region does not sell. A price is a step: it
//! is taken to hold from the beginning of its day, UTC, until the next line.
//!
//! GPUs of a size are pinned here: NC are K80, NC v2 P100 and NC v3 V100, one for each six of the number. A row of the ledger is one line. O(cells).
//!
//! Worked example: `NC24rs v2` has four P100; at 1.19861 an hour a GPU costs 0.29965.

use super::super::delimited::{Delimited, Record};
use super::super::field::{self, GIB, Moment};
use super::super::options::ReadOptions;
use super::super::read::SeenKeys;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use crate::error::{Error, Result};
use crate::quality::reason;
use crate::schema::PriceRow;
use crate::time::Zone;
use crate::trace::Trace;

const REMEDY: &str = "write a column Date and one for each VM size, such as NC6s v3";

/// GPU model, GPUs and memory of one GPU (bytes) of a VM size of the NC series.
fn gpus_of(size: &str) -> Option<(&'static str, f64, f64)> {
    let (number, version) = size.strip_prefix("NC")?.split_once(' ').unwrap_or((size.strip_prefix("NC")?, ""));
    let gpus = match number.trim_end_matches(['r', 's']) {
        "6" => 1.0,
        "12" => 2.0,
        "24" => 4.0,
        _ => return None,
    };
    let (gpu, gib) = match version.trim() {
        "" => ("K80", 12.0),
        "v2" => ("P100", 16.0),
        "v3" => ("V100", 16.0),
        _ => return None,
    };
    Some((gpu, gpus, gib * GIB))
}

/// `2/24/2020` as `2020-02-24`; anything else as it is.
fn iso(date: &str) -> String {
    let mut parts = date.split('/').map(|part| part.trim().parse::<u16>().ok());
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(Some(month)), Some(Some(day)), Some(Some(year)), None) => format!("{year:04}-{month:02}-{day:02}"),
        _ => date.to_owned(),
    }
}

/// See the module.
pub(crate) struct AzureSpot;

impl Reader for AzureSpot {
    fn id(&self) -> &'static str {
        "azure-spot"
    }

    fn describes(&self) -> &'static str {
        "daily spot prices of an Azure region (CSV: Date and a column for each VM size)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let mut names = head.first_line().split(',').map(|name| name.trim().trim_matches('"'));
        let is_dated = names.next().is_some_and(|name| name.eq_ignore_ascii_case("date"));
        if is_dated && names.any(|name| gpus_of(name).is_some()) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut seen = SeenKeys::default();
        for file in files {
            read_file(file, options, &mut seen, trace)?;
        }
        trace.note(
            "Azure's spot prices are of days: each is taken to hold from midnight UTC until the next line. A price says \
             nothing of whether a VM could be had, nor of how often VMs are taken away.",
        );
        Ok(())
    }
}

fn read_file(file: &SourceFile, options: &ReadOptions<'_>, seen: &mut SeenKeys, trace: &mut Trace) -> Result<()> {
    let utc = Zone::utc();
    let mut table = Delimited::open(file, b',', options.observer)?;
    let header: Vec<String> = table.written_header().iter().map(|name| name.trim().to_owned()).collect();
    if !header.first().is_some_and(|name| name.eq_ignore_ascii_case("date")) || header.len() < 2 {
        return Err(Error::Format {
            file: file.name().to_owned(),
            line: Some(1),
            column: None,
            found: format!("the columns are {}", header.join(", ")),
            remedy: REMEDY.to_owned(),
        });
    }
    let stem = file.stem();
    let region = stem.strip_suffix(".csv").unwrap_or(&stem).to_owned();
    while let Some(mut record) = table.next_row(&mut trace.ledger) {
        let date = record.text(Some(0)).map(iso);
        let Some(ts) = Moment::Local(&utc).read(date.as_deref(), "Date", &mut record.audit) else {
            trace.ledger.quarantine(&record.audit, reason::NOT_A_TIME, "Date", record.raw());
            continue;
        };
        if !seen.is_new(&format!("{region}|{ts}")) {
            trace.ledger.quarantine(&record.audit, reason::DUPLICATE, "", record.raw());
            continue;
        }
        for (column, size) in header.iter().enumerate().skip(1) {
            let Some(usd_per_h) = price(&mut record, column, size) else { continue };
            let gpus = gpus_of(size);
            trace.prices.push(PriceRow {
                provider: Some("azure".into()),
                zone: Some(region.as_str().into()),
                instance: Some(size.as_str().into()),
                gpu_type: gpus.map(|(gpu, ..)| gpu.into()),
                gpus: gpus.map(|(_, gpus, _)| gpus),
                gpu_mem_bytes: gpus.map(|(.., bytes)| bytes),
                ts: Some(ts),
                usd_per_h: Some(usd_per_h),
                kind: Some("spot".into()),
            });
        }
        trace.ledger.keep(record.audit);
    }
    table.finish(&mut trace.ledger);
    Ok(())
}

/// The price in a cell; what is no amount of money is unknown, and noted.
fn price(record: &mut Record<'_>, column: usize, size: &str) -> Option<f64> {
    let text = record.text(Some(column))?;
    field::amount(Some(text.trim().trim_start_matches('$')), size, &mut record.audit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_gpus() {
        let of = |size| gpus_of(size).map(|(gpu, gpus, _)| (gpu, gpus));
        assert_eq!(of("NC6"), Some(("K80", 1.0)));
        assert_eq!(of("NC24rs v2"), Some(("P100", 4.0)));
        assert_eq!(of("NC12s v3"), Some(("V100", 2.0)));
        assert_eq!([of("NC8as T4"), of("D4s v3"), of("NC6 v9")], [None; 3]);
        assert_eq!([iso("2/24/2020"), iso("2020-02-24"), iso("2/24")], ["2020-02-24", "2020-02-24", "2/24"]);
    }
}
