//! `amd-smi metric --json` saved to files: a list of GPUs, or an object with the list `gpu_data`.
//!
//! A value is `{"value": 73, "unit": "%"}`, or bare; `"N/A"` is unknown. Which paths mean what, the table of metrics says.
//! With `--watch` each GPU has a `timestamp` (seconds since 1970); else the file's name tells time and node. O(bytes); one
//! GPU is in memory at a time.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::field;
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather, When};
use super::rocm_smi::text;
use super::snapshot::Snapshots;
use super::table::MetricTable;
use crate::error::Result;
use crate::quality::{Ledger, reason};
use crate::time::seconds_to_ms;
use crate::trace::Trace;

/// See the module.
pub(crate) struct AmdSmi;

const REMEDY: &str = "run `amd-smi metric --json` again";

impl Reader for AmdSmi {
    fn id(&self) -> &'static str {
        "amd-smi"
    }

    fn describes(&self) -> &'static str {
        "amd-smi metric --json: use, power and memory of AMD GPUs, as a list or in gpu_data"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let has = |word: &str| head.text.contains(word);
        let metric = ["\"gfx_activity\"", "\"socket_power\"", "\"used_vram\"", "\"total_vram\"", "\"mem_usage\""];
        let is_json = head.text.trim_start().starts_with(['[', '{']);
        if is_json && has("\"gpu\"") && metric.iter().any(|word| has(word)) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let (zone, table) = (options.zone_beside(trace)?, MetricTable::load(options)?);
        let (mut gather, mut scrape) = (Gather::default(), 0);
        for file in files {
            let snapshots = Snapshots::new(file, &zone);
            let mut gpus = Gpus {
                snapshots,
                scrape: &mut scrape,
                round: None,
                table: &table,
                gather: &mut gather,
                trace: &mut *trace,
            };
            document::read(file, options, &["gpu_data"], "the JSON of amd-smi", REMEDY, &mut gpus)?;
            let Gpus { snapshots, trace, .. } = gpus;
            snapshots.finish("GPUs", REMEDY, trace)?;
        }
        gather.finish(trace);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// The GPUs in one file.
struct Gpus<'a> {
    snapshots: Snapshots<'a>,
    scrape: &'a mut u32,
    /// GPUs of the present round, and its time: one that comes again begins another.
    round: Option<(When, BTreeSet<String>)>,
    table: &'a MetricTable,
    gather: &'a mut Gather,
    trace: &'a mut Trace,
}

impl Sink for Gpus<'_> {
    fn element(&mut self, gpu: Value) {
        let row = self.snapshots.row();
        let name = gpu.get("gpu").and_then(text);
        let Some(name) = name else {
            self.trace.ledger.quarantine(&row, reason::NO_KEY, "gpu", &gpu.to_string());
            return;
        };
        let own = gpu.get("timestamp").and_then(text).and_then(|time| seconds_to_ms(time.parse().ok()?));
        let again = own.is_some() || self.round.as_ref().is_none_or(|(_, seen)| seen.contains(&name));
        if again {
            self.round = Some((self.snapshots.begin(own, self.scrape), BTreeSet::new()));
        }
        let Some((when, seen)) = &mut self.round else { return };
        seen.insert(name.clone());
        let when = *when;
        let mut values: Vec<(String, String)> = Vec::new();
        flatten(&gpu, "", &mut values);
        let device = Device { node: self.snapshots.node.clone(), name };
        let model = ["asic/market_name", "board/product_name"].iter().find_map(|path| {
            let result = values.iter().find(|(have, _)| have == path);
            field::text(result.map(|(_, value)| value.as_str()))
        });
        let id = self.gather.device(device.clone());
        if let Some(model) = model {
            self.gather.set_model(id, model);
        }
        let values = values.iter().map(|(path, value)| (path.as_str(), Some(value.as_str())));
        self.snapshots.gpu((when, &device), values, (self.table, self.gather, self.trace), row);
    }

    fn document(&mut self, _: &Around) -> Result<()> {
        self.round = None;
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}

/// Paths and values of an object: `power/socket_power` with `142 W`.
fn flatten(value: &Value, path: &str, into: &mut Vec<(String, String)>) {
    let Some(object) = value.as_object() else {
        into.extend(text(value).map(|text| (path.to_owned(), text)));
        return;
    };
    if let Some(number) = object.get("value") {
        let unit = object.get("unit").and_then(Value::as_str).unwrap_or_default();
        into.extend(text(number).map(|number| (path.to_owned(), format!("{number} {unit}").trim_end().to_owned())));
        return;
    }
    for (key, inner) in object {
        let inner_path = if path.is_empty() { key.clone() } else { format!("{path}/{key}") };
        flatten(inner, &inner_path, into);
    }
}
