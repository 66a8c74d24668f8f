//! Power of a node as its management controller tells over Redfish, saved to files: `Power` of a chassis
//! (`PowerControl[].PowerConsumedWatts`), or `EnvironmentMetrics` (`PowerWatts.Reading`), which followed it.
//!
//! What is controlled may be the whole node or a part, such as its processors: a part keeps its own name, so that it is
//! not taken for the node. A controller that relates to several systems reads a chassis that they share. `null` is unknown.
//! The answer has no time and no node: the file's name tells them. `PowerSubsystem` holds capacities and links, no reading.
//! O(bytes).

use serde_json::Value;

use super::super::document::{self, Around, Sink};
use super::super::field;
use super::super::options::ReadOptions;
use super::super::reader::{Clock, Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::gather::{Device, Gather, Way};
use super::metric::{NodeField, node_power};
use super::rocm_smi::text;
use super::snapshot::Snapshots;
use crate::KWH_J;
use crate::error::{Error, Result};
use crate::quality::{Ledger, reason};
use crate::schema::sensor;
use crate::trace::Trace;

/// See the module.
pub(crate) struct Redfish;

const REMEDY: &str = "save /redfish/v1/Chassis/…/Power, or …/EnvironmentMetrics";

impl Reader for Redfish {
    fn id(&self) -> &'static str {
        "redfish"
    }

    fn describes(&self) -> &'static str {
        "node power from Redfish: Power (PowerControl) or EnvironmentMetrics of a chassis, as JSON"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let has = |word: &str| head.text.contains(word);
        let power = ["\"PowerConsumedWatts\"", "#Power.", "#EnvironmentMetrics.", "#PowerSubsystem."];
        let is_json = head.text.trim_start().starts_with(['[', '{']);
        if is_json && has("\"@odata.") && power.iter().any(|word| has(word)) {
            Confidence::Sure
        } else {
            Confidence::No
        }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let zone = options.zone_beside(trace)?;
        let (mut gather, mut scrape) = (Gather::default(), 0);
        for file in files {
            let snapshots = Snapshots::new(file, &zone);
            let mut answers = Answers { file, snapshots, scrape: &mut scrape, gather: &mut gather, trace: &mut *trace };
            document::read(file, options, &[], "the JSON of Redfish", REMEDY, &mut answers)?;
            let Answers { snapshots, trace, .. } = answers;
            snapshots.finish("reading of power", REMEDY, trace)?;
        }
        gather.finish(trace);
        Ok(())
    }

    fn clock(&self) -> Clock {
        Clock::Trace
    }
}

/// The answers in one file.
struct Answers<'a> {
    file: &'a SourceFile,
    snapshots: Snapshots<'a>,
    scrape: &'a mut u32,
    gather: &'a mut Gather,
    trace: &'a mut Trace,
}

impl Answers<'_> {
    fn answer(&mut self, answer: &Value) -> Result<()> {
        if let Some(error) = answer.get("error") {
            let told = error.get("message").and_then(Value::as_str).unwrap_or("no message");
            return Err(Error::format(self.file.name(), format!("the request failed: {told}"), REMEDY));
        }
        let controls = answer.get("PowerControl").and_then(Value::as_array);
        let metrics = answer.get("PowerWatts").or_else(|| answer.get("EnergykWh"));
        if controls.is_none() && metrics.is_none() {
            return Ok(());
        }
        let when = self.snapshots.begin(None, self.scrape);
        let mut put = |name: &str, field: NodeField, reading: Option<String>| {
            let mut row = self.snapshots.row();
            let value = field::amount(reading.as_deref(), name, &mut row);
            let reading = reading.unwrap_or_default();
            let value = match field {
                NodeField::Power => value.and_then(|watts| node_power(name, watts, name, &reading, &mut row)),
                NodeField::Energy => value.map(|kwh| kwh * KWH_J),
            };
            let device = Device { node: self.snapshots.node.clone(), name: name.to_owned() };
            let device = self.gather.device(device);
            let put = self.gather.node((when, device), field, Way::ONLY, value);
            put.account(row, &reading, &mut self.trace.ledger);
        };
        let alone = controls.is_some_and(|controls| controls.len() == 1);
        for control in controls.into_iter().flatten() {
            put(&meter(control, alone), NodeField::Power, control.get("PowerConsumedWatts").and_then(text));
        }
        let reading = |name: &str| answer.get(name).map(|sensor| sensor.get("Reading").and_then(text));
        for (name, field) in [("PowerWatts", NodeField::Power), ("EnergykWh", NodeField::Energy)] {
            if let Some(reading) = reading(name).filter(|_| controls.is_none()) {
                put(WHOLE, field, reading);
            }
        }
        Ok(())
    }
}

/// Name of the meter of a whole node, one of [`sensor::MAIN`].
const WHOLE: &str = "System Power";

/// The meter of a power control: the whole node if it is the only one or says so, a chassis if several systems share it,
/// else by its name.
fn meter(control: &Value, alone: bool) -> String {
    let related = control.get("RelatedItem").and_then(Value::as_array).into_iter().flatten();
    let systems = related.filter(|item| {
        let id = item.get("@odata.id").and_then(Value::as_str).unwrap_or_default();
        id.contains("/Systems/")
    });
    if systems.count() > 1 {
        return "Chassis Power".to_owned();
    }
    let word = |key: &str| control.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let (name, context) = (word("Name"), word("PhysicalContext"));
    let lower = name.to_lowercase();
    let of_whole = ["system power control", "server power control", "system power", "system input power"];
    let is_whole = of_whole.contains(&lower.as_str()) || sensor::rank(Some(name)).is_some() || context == "Chassis";
    if (alone && !lower.contains("cpu") && !lower.contains("memory")) || is_whole {
        return WHOLE.to_owned();
    }
    let id = word("MemberId");
    if name.is_empty() { format!("power control {id}") } else { name.to_owned() }
}

impl Sink for Answers<'_> {
    fn element(&mut self, answer: Value) {
        // An error within a list of answers is one of them.
        if let Err(error) = self.answer(&answer) {
            let row = self.snapshots.row();
            self.trace.ledger.quarantine(&row, reason::MALFORMED, "error", &error.to_string());
        }
    }

    fn document(&mut self, around: &Around) -> Result<()> {
        self.answer(&around.rest)
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.trace.ledger
    }
}
