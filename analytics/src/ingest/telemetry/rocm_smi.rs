//! `rocm-smi --json` saved to files: GPUs of AMD, one object each (`card0`), with texts as values.
//!
//! Which keys mean what, the table of metrics says; they changed from release to release. `N/A` is unknown. The answer has
//! no time and no node: the file's name tells them. O(bytes).

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::field;
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather};
use super::snapshot::Snapshots;
use super::table::MetricTable;
use crate::error::Result;
use crate::quality::Ledger;
use crate::trace::Trace;

/// See the module.
pub(crate) struct RocmSmi;

impl Reader for RocmSmi {
    fn id(&self) -> &'static str {
        "rocm-smi"
    }

    fn describes(&self) -> &'static str {
        "rocm-smi --json: use, power and memory of AMD GPUs, one or several snapshots a file"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let text = &head.text;
        let card = text.match_indices("\"card").any(|(at, word)| {
            text.get(at + word.len()..).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let table = MetricTable::bundled();
        let metric = text.split('"').skip(1).step_by(2).any(|word| word.contains('(') && table.knows(word));
        if text.trim_start().starts_with('{') && card && metric { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let (zone, table) = (options.zone_beside(trace)?, MetricTable::load(options)?);
        let (mut gather, mut scrape) = (Gather::default(), 0);
        for file in files {
            let snapshots = Snapshots::new(file, &zone);
            let mut cards =
                Cards { snapshots, scrape: &mut scrape, table: &table, gather: &mut gather, trace: &mut *trace };
            document::read(file, options, &[], "the JSON of rocm-smi", REMEDY, &mut cards)?;
            let Cards { snapshots, trace, .. } = cards;
            snapshots.finish("GPUs", REMEDY, trace)?;
        }
        gather.finish(trace);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

const REMEDY: &str = "run `rocm-smi --showuse --showpower --showmeminfo vram --json` again";

/// The cards in one file.
struct Cards<'a> {
    snapshots: Snapshots<'a>,
    scrape: &'a mut u32,
    table: &'a MetricTable,
    gather: &'a mut Gather,
    trace: &'a mut Trace,
}

impl Sink for Cards<'_> {
    fn element(&mut self, _: Value) {}

    fn document(&mut self, around: &Around) -> Result<()> {
        let when = self.snapshots.begin(None, self.scrape);
        let index =
            |name: &str| name.strip_prefix("card").filter(|index| index.parse::<u32>().is_ok()).map(str::to_owned);
        let all = around.rest.as_object().into_iter().flatten();
        for (index, card) in all.filter_map(|(name, card)| Some((index(name)?, card.as_object()?))) {
            let row = self.snapshots.row();
            let device = Device { node: self.snapshots.node.clone(), name: index };
            // Some releases write numbers as numbers.
            let texts: Vec<(&str, Option<String>)> =
                card.iter().map(|(key, value)| (key.as_str(), text(value))).collect();
            let model = ["card series", "device name", "card model"].iter().find_map(|name| {
                let result = texts.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                field::text(result.and_then(|(_, value)| value.as_deref()))
            });
            let id = self.gather.device(device.clone());
            if let Some(model) = model {
                self.gather.set_model(id, model);
            }
            let values = texts.iter().map(|(key, value)| (*key, value.as_deref()));
            self.snapshots.gpu((when, &device), values, (self.table, self.gather, self.trace), row);
        }
        Ok(())
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}

/// A text or a number as text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}
