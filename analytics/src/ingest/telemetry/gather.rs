//! Brings single readings (one metric, one device, one moment) together into rows (one device, one moment).
//!
//! A reading given twice is told from two readings that disagree. Rows come out by time, node and device, whatever the
//! order the readings came in. O(readings) to gather and O(rows log rows) to put out; one row is some 200 bytes.

use std::collections::{BTreeMap, HashMap};

use super::metric::{GPU_FIELDS, GpuField};
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::device::is_instance;
use crate::schema::{GpuSampleRow, NodeSampleRow};
use crate::trace::Trace;

/// Two readings of the same thing at the same moment.
pub(super) const CONFLICT: Reason = Reason {
    id: "conflicting_reading",
    what: "another value was already read for the same device, metric and moment; the first is used",
    remedy: "check whether two exporters watch the same device",
};

/// What became of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is new.
    New,
    /// It was known already.
    Same,
    /// Another value was known already, and stays.
    Conflict,
}

impl Put {
    /// Accounts for the row that held the reading; `raw` is its text.
    pub(super) fn account(self, row: RowAudit<'_>, raw: &str, ledger: &mut Ledger) {
        match self {
            Self::New => ledger.keep(row),
            Self::Same => ledger.quarantine(&row, reason::DUPLICATE, "", raw),
            Self::Conflict => ledger.quarantine(&row, CONFLICT, "", raw),
        }
    }
}

/// When a reading was taken. Readings without a time belong together if they are of the same scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct When {
    /// Milliseconds since the epoch, `None` if unknown.
    pub(super) ts: Option<i64>,
    /// Number of the scrape where `ts` is unknown, else 0.
    pub(super) scrape: u32,
}

impl When {
    /// At a known moment.
    pub(super) fn at(ts: i64) -> Self {
        Self { ts: Some(ts), scrape: 0 }
    }
}

/// A device: a GPU or a node's sensor.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Device {
    /// The node, if known.
    pub(super) node: Option<String>,
    /// The GPU or the sensor.
    pub(super) name: String,
}

#[derive(Debug)]
struct GpuReading {
    when: When,
    device: u32,
    jobs: Option<String>,
    /// Which fields were given, one bit each, known or not.
    given: u32,
    values: [Option<f64>; GPU_FIELDS],
}

/// Readings gathered so far.
#[derive(Debug, Default)]
pub(super) struct Gather {
    devices: Vec<Device>,
    models: Vec<Option<String>>,
    ids: HashMap<Device, u32>,
    gpus: Vec<GpuReading>,
    gpu_ix: HashMap<(When, u32), usize>,
    nodes: Vec<(When, u32, Option<f64>)>,
    node_ix: HashMap<(When, u32), usize>,
    passed: BTreeMap<String, u64>,
}

impl Gather {
    /// The number of a device.
    pub(super) fn device(&mut self, device: Device) -> u32 {
        if let Some(id) = self.ids.get(&device) {
            return *id;
        }
        // Four billion devices do not fit in memory long before this saturates.
        let id = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        self.devices.push(device.clone());
        self.models.push(None);
        self.ids.insert(device, id);
        id
    }

    /// Notes the model of a GPU.
    pub(super) fn set_model(&mut self, device: u32, model: &str) {
        if let Some(slot) = self.models.get_mut(device as usize) {
            slot.get_or_insert_with(|| model.to_owned());
        }
    }

    /// Counts `values` values of a metric that has no column.
    pub(super) fn pass_over(&mut self, metric: &str, values: u64) {
        *self.passed.entry(metric.to_owned()).or_default() += values;
    }

    /// Adds a reading of a GPU. Where GPUs are shared, the same reading comes once for each job; all are kept.
    pub(super) fn gpu(
        &mut self,
        when: When,
        device: u32,
        field: GpuField,
        value: Option<f64>,
        job: Option<&str>,
    ) -> Put {
        let ix = *self.gpu_ix.entry((when, device)).or_insert(self.gpus.len());
        if ix == self.gpus.len() {
            self.gpus.push(GpuReading { when, device, jobs: None, given: 0, values: [None; GPU_FIELDS] });
        }
        let Some(reading) = self.gpus.get_mut(ix) else { return Put::New };
        let mut another_job = false;
        if let Some(job) = job {
            match &mut reading.jobs {
                None => reading.jobs = Some(job.to_owned()),
                Some(jobs) if jobs.split(',').any(|known| known == job) => {}
                Some(jobs) => {
                    jobs.push(',');
                    jobs.push_str(job);
                    another_job = true;
                }
            }
        }
        let bit = 1_u32 << field as usize;
        let Some(slot) = reading.values.get_mut(field as usize) else { return Put::New };
        let given = reading.given & bit != 0;
        reading.given |= bit;
        match fill(slot, value, given) {
            Put::Same if another_job => Put::New,
            put => put,
        }
    }

    /// Adds a reading of a node's power meter, watts.
    pub(super) fn node(&mut self, when: When, device: u32, watts: Option<f64>) -> Put {
        let ix = *self.node_ix.entry((when, device)).or_insert(self.nodes.len());
        let given = ix < self.nodes.len();
        if !given {
            self.nodes.push((when, device, None));
        }
        self.nodes.get_mut(ix).map_or(Put::New, |(_, _, slot)| fill(slot, watts, given))
    }

    /// Puts all rows into the trace, by time, node and device, and notes what was passed over.
    pub(super) fn finish(mut self, trace: &mut Trace) {
        let devices = &self.devices;
        let place = |when: When, device: u32| (when, devices.get(device as usize));
        self.gpus.sort_by(|a, b| place(a.when, a.device).cmp(&place(b.when, b.device)));
        self.nodes.sort_by(|a, b| place(a.0, a.1).cmp(&place(b.0, b.1)));
        let mut by_engine = false;
        for reading in &self.gpus {
            let Some(device) = devices.get(reading.device as usize) else { continue };
            let get = |field: GpuField| reading.values.get(field as usize).copied().flatten();
            let (util, engine) = (get(GpuField::Util), get(GpuField::EngineActive));
            // On an instance `GPU_UTIL` is 0 whatever runs there: its engine tells, and a 0 says nothing.
            let is_instance = is_instance(&device.name);
            let util = util.filter(|util| !is_instance || (engine.is_none() && *util > 0.0));
            by_engine |= util.is_none() && engine.is_some();
            let total = get(GpuField::MemTotal).or_else(|| {
                // Older drivers count what they reserve as used and do not report it apart.
                Some(get(GpuField::MemUsed)? + get(GpuField::MemFree)? + get(GpuField::MemReserved).unwrap_or(0.0))
            });
            let of = |field: GpuField, by_driver: GpuField| get(field).or_else(|| get(by_driver));
            let sent = of(GpuField::PcieSent, GpuField::PcieSentByDriver);
            let received = of(GpuField::PcieReceived, GpuField::PcieReceivedByDriver);
            trace.gpu_samples.push(GpuSampleRow {
                ts: reading.when.ts,
                node: device.node.as_deref().map(Into::into),
                gpu: Some(device.name.as_str().into()),
                gpu_type: self.models.get(reading.device as usize).and_then(|model| model.as_deref()).map(Into::into),
                util_ratio: util.or(engine),
                mem_util_ratio: get(GpuField::MemUtil),
                sm_active_ratio: get(GpuField::SmActive),
                tensor_active_ratio: get(GpuField::TensorActive),
                dram_active_ratio: get(GpuField::DramActive),
                // One direction alone would be told as less than there was.
                pcie_bytes_per_s: sent.zip(received).map(|(sent, received)| sent + received),
                mem_used_bytes: get(GpuField::MemUsed),
                mem_total_bytes: total,
                power_w: get(GpuField::Power),
                energy_j_cum: get(GpuField::Energy),
                temp_c: get(GpuField::Temp),
                job_key: reading.jobs.as_deref().map(Into::into),
            });
        }
        for (when, device, watts) in &self.nodes {
            let Some(device) = devices.get(*device as usize) else { continue };
            trace.node_samples.push(NodeSampleRow {
                ts: when.ts,
                node: device.node.as_deref().map(Into::into),
                sensor: Some(device.name.as_str().into()),
                power_w: *watts,
                ..NodeSampleRow::default()
            });
        }
        if by_engine {
            trace.note(
                "Some GPUs (MIG instances) report no GPU utilisation; the share of time their compute engine was active \
                 stands in for it.",
            );
        }
        if !self.passed.is_empty() {
            let values: u64 = self.passed.values().sum();
            // The commonest first; ties by name.
            let mut passed: Vec<(&String, &u64)> = self.passed.iter().collect();
            passed.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
            let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).take(5).collect();
            let more = if self.passed.len() > names.len() { " …" } else { "" };
            trace.note(format!(
                "{values} values of {} other metrics were passed over: {}{more}.",
                self.passed.len(),
                names.join(", ")
            ));
        }
    }
}

fn fill(slot: &mut Option<f64>, value: Option<f64>, given: bool) -> Put {
    match (&slot, value) {
        (Some(known), Some(value)) if *known == value => Put::Same,
        (Some(_), Some(_)) => Put::Conflict,
        (Some(_), None) => Put::Same,
        (None, None) if given => Put::Same,
        (None, value) => {
            *slot = value;
            Put::New
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_one_moment_become_one_row_and_repeats_are_told_apart() {
        let mut gather = Gather::default();
        let gpu = gather.device(Device { node: Some("n1".to_owned()), name: "0".to_owned() });
        let now = When::at(1_000);
        assert_eq!(gather.gpu(now, gpu, GpuField::Power, Some(300.0), Some("a")), Put::New);
        assert_eq!(gather.gpu(now, gpu, GpuField::Power, Some(300.0), Some("a")), Put::Same);
        assert_eq!(gather.gpu(now, gpu, GpuField::Power, Some(300.0), Some("b")), Put::New);
        assert_eq!(gather.gpu(now, gpu, GpuField::Power, Some(301.0), Some("b")), Put::Conflict);
        // Unknown first, known later: not a conflict, and not the other way round either.
        assert_eq!(gather.gpu(now, gpu, GpuField::Temp, None, None), Put::New);
        assert_eq!(gather.gpu(now, gpu, GpuField::Temp, Some(40.0), None), Put::New);
        assert_eq!(gather.gpu(now, gpu, GpuField::Temp, None, None), Put::Same);
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let samples = &trace.gpu_samples;
        assert_eq!((samples.power_w.get(0), samples.temp_c.get(0)), (Some(300.0), Some(40.0)));
        assert_eq!((samples.job_key.get(0), samples.ts.iter().count()), (Some("a,b"), 1));
    }

    #[test]
    fn on_an_instance_the_engine_tells_and_no_utilisation_is_unknown() {
        let mut gather = Gather::default();
        let slice = gather.device(Device { node: None, name: "0/1g.10gb:3".to_owned() });
        let whole = gather.device(Device { node: None, name: "1".to_owned() });
        for gpu in [slice, whole] {
            gather.gpu(When::at(0), gpu, GpuField::Util, Some(0.0), None);
            gather.gpu(When::at(0), gpu, GpuField::EngineActive, Some(0.4), None);
            gather.gpu(When::at(1), gpu, GpuField::Util, Some(0.0), None);
        }
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let util: Vec<Option<f64>> = trace.gpu_samples.util_ratio.iter().collect();
        assert_eq!(util, [Some(0.4), Some(0.0), None, Some(0.0)]);
    }

    #[test]
    fn pcie_traffic_is_that_of_both_directions() {
        let mut gather = Gather::default();
        let gpu = gather.device(Device::default());
        for (at, field, value) in [
            (0, GpuField::PcieSent, 3e9),
            (0, GpuField::PcieReceived, 5e9),
            (1, GpuField::PcieSent, 3e9),
            (2, GpuField::PcieSent, 3e9),
            (2, GpuField::PcieSentByDriver, 1e9),
            (2, GpuField::PcieReceivedByDriver, 2e9),
        ] {
            gather.gpu(When::at(at), gpu, field, Some(value), None);
        }
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        assert_eq!(trace.gpu_samples.pcie_bytes_per_s.iter().collect::<Vec<_>>(), [Some(8e9), None, Some(5e9)]);
    }

    #[test]
    fn memory_there_is_needs_both_used_and_free() {
        let mut gather = Gather::default();
        let gpu = gather.device(Device::default());
        gather.gpu(When::at(0), gpu, GpuField::MemUsed, Some(3.0), None);
        gather.gpu(When::at(1), gpu, GpuField::MemUsed, Some(3.0), None);
        gather.gpu(When::at(1), gpu, GpuField::MemFree, Some(4.0), None);
        gather.gpu(When::at(1), gpu, GpuField::MemReserved, Some(1.0), None);
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        assert_eq!(trace.gpu_samples.mem_total_bytes.iter().collect::<Vec<_>>(), [None, Some(8.0)]);
    }
}
