//! Brings single readings (one metric, one device, one moment) together into rows (one device, one moment).
//!
//! A reading given twice is told from two readings that disagree. Rows come out by time, node and device, whatever the
//! order the readings came in. O(readings) to gather and O(rows log rows) to put out; one row is some 200 bytes.

use std::collections::{BTreeMap, HashMap};

use super::metric::{GpuField, NodeField, QueueField};
use crate::error::{Error, Result};
use crate::ingest::source::SourceFile;
use crate::quality::{Ledger, Reason, RowAudit, reason};
use crate::schema::device::is_instance;
use crate::schema::{ActivityRow, GpuSampleRow, NodeSampleRow};
use crate::trace::Trace;

/// Two readings of the same thing at the same moment.
pub(super) const CONFLICT: Reason = Reason {
    id: "conflicting_reading",
    what: "another value was already read for the same device, metric and moment; the first is used",
    remedy: "check whether two exporters watch the same device",
};

/// Outcome of adding a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// New reading.
    New,
    /// Known reading, of another job on the same GPU.
    Shared,
    /// Known reading.
    Same,
    /// Conflict: another value was known already, and stays.
    Conflict,
}

impl Put {
    /// Accounts for the row that held the reading; `raw` is its text.
    pub(super) fn account(self, row: RowAudit<'_>, raw: &str, ledger: &mut Ledger) {
        match self {
            Self::New | Self::Shared => ledger.keep(row),
            Self::Same => ledger.quarantine(&row, reason::DUPLICATE, "", raw),
            Self::Conflict => ledger.quarantine(&row, CONFLICT, "", raw),
        }
    }

    /// Combines the outcomes of two readings of a row: a conflict if either is one, else new if
    /// either is.
    pub(super) fn and(self, other: Self) -> Self {
        let rank = |put: Self| match put {
            Self::Same => 0,
            Self::Shared => 1,
            Self::New => 2,
            Self::Conflict => 3,
        };
        if rank(other) > rank(self) { other } else { self }
    }
}

/// Time of a reading. Readings without a time belong together if they are of the same scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct When {
    /// Milliseconds since the epoch, `None` if unknown.
    pub(super) ts: Option<i64>,
    /// Number of the scrape where `ts` is unknown, else 0.
    pub(super) scrape: u32,
}

impl When {
    /// A known moment.
    pub(super) fn at(ts: i64) -> Self {
        Self { ts: Some(ts), scrape: 0 }
    }
}

/// A device: a GPU or a node's meter; of counts, the scope and the name of what they count.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Device {
    /// The node, if known.
    pub(super) node: Option<String>,
    /// The GPU or the meter.
    pub(super) name: String,
}

/// Rank of a metric among those of a quantity, and whether they are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    /// The lower counts.
    pub(super) rank: u32,
    /// Whether the metric is a part, to be added to the others.
    pub(super) part: bool,
}

impl Way {
    /// Setting of a reader that has one meter for each quantity.
    pub(super) const ONLY: Self = Self { rank: 0, part: false };
}

/// A value given for a quantity, known or not.
#[derive(Debug)]
struct Cell {
    field: u8,
    way: Way,
    /// Jobs of the row that gave the value, one bit each.
    jobs: u32,
    value: Option<f64>,
}

/// Readings of one device at one moment.
#[derive(Debug)]
struct Reading {
    when: When,
    device: u32,
    jobs: Vec<u32>,
    cells: Vec<Cell>,
}

impl Reading {
    /// The known value of a quantity: the sum of its parts, else that of the lowest rank.
    fn get(&self, field: u8) -> Option<f64> {
        let given = || self.cells.iter().filter(move |cell| cell.field == field);
        if given().any(|cell| cell.way.part) {
            return given().filter(|cell| cell.way.part).map(|cell| cell.value).sum();
        }
        given().filter(|cell| cell.value.is_some()).min_by_key(|cell| cell.way.rank)?.value
    }

    /// The bit of a job.
    fn bit(&mut self, job: u32) -> u32 {
        let at = self.jobs.iter().position(|known| *known == job).unwrap_or(self.jobs.len());
        if at == self.jobs.len() {
            self.jobs.push(job);
        }
        // A GPU that more than 32 jobs share has one bit for those beyond.
        1 << at.min(31)
    }
}

/// Readings by device and moment.
#[derive(Debug, Default)]
struct Readings {
    rows: Vec<Reading>,
    places: HashMap<(When, u32), usize>,
}

impl Readings {
    fn row(&mut self, when: When, device: u32) -> Option<&mut Reading> {
        let ix = *self.places.entry((when, device)).or_insert(self.rows.len());
        if ix == self.rows.len() {
            self.rows.push(Reading { when, device, jobs: Vec::new(), cells: Vec::new() });
        }
        self.rows.get_mut(ix)
    }

    fn put(&mut self, at: (When, u32), field: u8, way: Way, value: Option<f64>, job: Option<u32>) -> Put {
        let Some(row) = self.row(at.0, at.1) else { return Put::New };
        let bit = job.map_or(0, |job| row.bit(job));
        let Some(cell) = row.cells.iter_mut().find(|cell| cell.field == field && cell.way == way) else {
            row.cells.push(Cell { field, way, jobs: bit, value });
            return Put::New;
        };
        let of_another = bit != 0 && cell.jobs != 0 && cell.jobs & bit == 0;
        cell.jobs |= bit;
        match (cell.value, value) {
            (Some(known), Some(value)) if known != value => Put::Conflict,
            (None, Some(_)) => {
                cell.value = value;
                Put::New
            }
            _ if of_another => Put::Shared,
            _ => Put::Same,
        }
    }
}

/// Readings gathered so far.
#[derive(Debug, Default)]
pub(super) struct Gather {
    devices: Vec<Device>,
    models: Vec<Option<String>>,
    ids: HashMap<Device, u32>,
    jobs: Vec<String>,
    job_ids: HashMap<String, u32>,
    gpus: Readings,
    nodes: Readings,
    queues: Readings,
    passed: BTreeMap<String, u64>,
    shared: u64,
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

    /// The number of a job.
    pub(super) fn job_id(&mut self, job: &str) -> u32 {
        if let Some(id) = self.job_ids.get(job) {
            return *id;
        }
        let id = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.jobs.push(job.to_owned());
        self.job_ids.insert(job.to_owned(), id);
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

    /// Adds a reading of a GPU. Where jobs share a GPU, the same reading comes once for each.
    pub(super) fn gpu(
        &mut self,
        at: (When, u32),
        field: GpuField,
        way: Way,
        value: Option<f64>,
        job: Option<u32>,
    ) -> Put {
        let put = self.gpus.put(at, field as u8, way, value, job);
        self.shared += u64::from(put == Put::Shared);
        put
    }

    /// Notes the job on a GPU.
    pub(super) fn gpu_job(&mut self, at: (When, u32), job: u32) -> Put {
        let Some(row) = self.gpus.row(at.0, at.1) else { return Put::New };
        if row.jobs.contains(&job) {
            return Put::New;
        }
        row.bit(job);
        Put::New
    }

    /// Adds a reading of a node's meter: watts, or joules.
    pub(super) fn node(&mut self, at: (When, u32), field: NodeField, way: Way, value: Option<f64>) -> Put {
        self.nodes.put(at, field as u8, way, value, None)
    }

    /// Adds a count of jobs, GPUs or nodes.
    pub(super) fn queue(&mut self, at: (When, u32), field: QueueField, way: Way, value: Option<f64>) -> Put {
        self.queues.put(at, field as u8, way, value, None)
    }

    /// Makes it an error if nothing of `files` says anything that has a column, and nothing else was read beside them.
    ///
    /// # Errors
    /// Where that is so.
    pub(super) fn check_known(&self, files: &[SourceFile], trace: &Trace) -> Result<()> {
        let none = [&self.gpus, &self.nodes, &self.queues].iter().all(|readings| readings.rows.is_empty());
        let Some(file) = files.first().filter(|_| none && !self.passed.is_empty() && trace.row_counts().is_empty())
        else {
            return Ok(());
        };
        Err(Error::format(
            file.name(),
            format!("none of its metrics is known: {}", self.passed_names()),
            "say in a table of metrics what they measure (--metrics FILE, see cli/guide/formats.md)",
        ))
    }

    /// Names of what was passed over, the commonest first, ties by name.
    fn passed_names(&self) -> String {
        let mut passed: Vec<(&String, &u64)> = self.passed.iter().collect();
        passed.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let names: Vec<&str> = passed.iter().map(|(name, _)| name.as_str()).take(5).collect();
        let more = if self.passed.len() > names.len() { " …" } else { "" };
        format!("{}{more}", names.join(", "))
    }

    /// Puts all rows into the trace, by time, node and device, and notes what was passed over.
    pub(super) fn finish(mut self, trace: &mut Trace) {
        let devices = &self.devices;
        for readings in [&mut self.gpus, &mut self.nodes, &mut self.queues] {
            readings.rows.sort_by(|a, b| {
                let place = |of: &Reading| (of.when, devices.get(of.device as usize));
                place(a).cmp(&place(b))
            });
        }
        let mut by_engine = false;
        for reading in &self.gpus.rows {
            let Some(device) = devices.get(reading.device as usize) else { continue };
            let get = |field: GpuField| reading.get(field as u8);
            let (util, engine) = (get(GpuField::Util), get(GpuField::EngineActive));
            // On an instance `GPU_UTIL` is 0 whatever runs there: its engine tells, and a 0 says nothing.
            let is_instance = is_instance(&device.name);
            let util = util.filter(|util| !is_instance || (engine.is_none() && *util > 0.0));
            by_engine |= util.is_none() && engine.is_some();
            let total = get(GpuField::MemTotal).or_else(|| {
                // Older drivers count what they reserve as used and do not report it apart.
                Some(get(GpuField::MemUsed)? + get(GpuField::MemFree)? + get(GpuField::MemReserved).unwrap_or(0.0))
            });
            let used = get(GpuField::MemUsed).or_else(|| Some(get(GpuField::MemUsedShare)? * total?));
            let names: Vec<&str> =
                reading.jobs.iter().filter_map(|job| self.jobs.get(*job as usize)).map(String::as_str).collect();
            let jobs = names.join(",");
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
                pcie_bytes_per_s: get(GpuField::PcieSent)
                    .zip(get(GpuField::PcieReceived))
                    .map(|(sent, received)| sent + received),
                mem_used_bytes: used,
                mem_total_bytes: total,
                power_w: get(GpuField::Power),
                energy_j_cum: get(GpuField::Energy),
                temp_c: get(GpuField::Temp),
                job_key: Some(jobs.as_str()).filter(|jobs| !jobs.is_empty()).map(Into::into),
            });
        }
        for reading in &self.nodes.rows {
            let Some(device) = devices.get(reading.device as usize) else { continue };
            trace.node_samples.push(NodeSampleRow {
                ts: reading.when.ts,
                node: device.node.as_deref().map(Into::into),
                sensor: Some(device.name.as_str().into()),
                power_w: reading.get(NodeField::Power as u8),
                energy_j_cum: reading.get(NodeField::Energy as u8),
                ..NodeSampleRow::default()
            });
        }
        for reading in &self.queues.rows {
            let Some(of) = devices.get(reading.device as usize) else { continue };
            let get = |field: QueueField| reading.get(field as u8);
            trace.activity.push(ActivityRow {
                scope: of.node.as_deref().map(Into::into),
                name: Some(of.name.as_str().into()),
                ts: reading.when.ts,
                jobs_running: get(QueueField::JobsRunning),
                jobs_pending: get(QueueField::JobsPending),
                gpus_total: get(QueueField::GpusTotal),
                gpus_running: get(QueueField::GpusRunning),
                gpus_pending: get(QueueField::GpusPending),
                gpus_idle: get(QueueField::GpusIdle),
                nodes_total: get(QueueField::NodesTotal),
                ..ActivityRow::default()
            });
        }
        if by_engine {
            trace.note(
                "Some GPUs (MIG instances) report no GPU utilisation; the share of time their compute engine was active \
                 stands in for it.",
            );
        }
        if self.shared > 0 {
            trace.note(format!(
                "{} readings of shared GPUs are the same reading, once for each pod or job on the GPU; each counts once.",
                self.shared
            ));
        }
        if !self.passed.is_empty() {
            let values: u64 = self.passed.values().sum();
            trace.note(format!(
                "{values} values of {} other metrics were passed over: {}.",
                self.passed.len(),
                self.passed_names()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(gather: &mut Gather, name: &str) -> u32 {
        gather.device(Device { node: Some("n1".to_owned()), name: name.to_owned() })
    }

    fn put(gather: &mut Gather, at: (i64, u32), field: GpuField, value: impl Into<Option<f64>>, job: &str) -> Put {
        let job = (!job.is_empty()).then(|| gather.job_id(job));
        gather.gpu((When::at(at.0), at.1), field, Way::ONLY, value.into(), job)
    }

    #[test]
    fn readings_of_one_moment_become_one_row_and_repeats_are_told_apart() {
        let mut gather = Gather::default();
        let at = (1_000, gpu(&mut gather, "0"));
        assert_eq!(put(&mut gather, at, GpuField::Power, 300.0, "a"), Put::New);
        assert_eq!(put(&mut gather, at, GpuField::Power, 300.0, "a"), Put::Same);
        assert_eq!(put(&mut gather, at, GpuField::Power, 300.0, "b"), Put::Shared);
        assert_eq!(put(&mut gather, at, GpuField::Power, 300.0, "b"), Put::Same);
        assert_eq!(put(&mut gather, at, GpuField::Power, 301.0, "b"), Put::Conflict);
        // Unknown first, known later: not a conflict, and not the other way round either.
        assert_eq!(put(&mut gather, at, GpuField::Temp, None, ""), Put::New);
        assert_eq!(put(&mut gather, at, GpuField::Temp, 40.0, ""), Put::New);
        assert_eq!(put(&mut gather, at, GpuField::Temp, None, ""), Put::Same);
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let samples = &trace.gpu_samples;
        assert_eq!((samples.power_w.get(0), samples.temp_c.get(0)), (Some(300.0), Some(40.0)));
        assert_eq!((samples.job_key.get(0), samples.ts.iter().count()), (Some("a,b"), 1));
    }

    /// Two metrics on a GPU that three pods share are six readings, of which four repeat: today two of them were
    /// quarantined, as the pods were known from the first metric.
    #[test]
    fn a_reading_shared_by_three_pods_is_kept_for_each_of_its_metrics() {
        let mut gather = Gather::default();
        let at = (0, gpu(&mut gather, "0"));
        let mut puts = Vec::new();
        for (field, value) in [(GpuField::Power, 68.5), (GpuField::Util, 0.71)] {
            for pod in ["a", "b", "c"] {
                puts.push(put(&mut gather, at, field, value, pod));
            }
        }
        assert_eq!(puts, [Put::New, Put::Shared, Put::Shared].repeat(2));
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        assert_eq!(trace.gpu_samples.job_key.get(0), Some("a,b,c"));
        assert!(trace.notes.iter().any(|note| note.starts_with("4 readings")), "{:?}", trace.notes);
    }

    #[test]
    fn the_first_metric_of_a_quantity_counts_and_parts_add_up() {
        let mut gather = Gather::default();
        let meter = gpu(&mut gather, "Node Power");
        let of = |rank: u32, part: bool| Way { rank, part };
        for (at, way, watts) in [
            (0, of(5, false), Some(1.0)),
            (0, of(2, false), Some(2.0)),
            (1, of(5, false), Some(1.0)),
            (1, of(2, false), None),
            (2, of(0, true), Some(30.0)),
            (2, of(1, true), Some(12.0)),
            (3, of(0, true), Some(30.0)),
            (3, of(1, true), None),
        ] {
            assert_eq!(gather.node((When::at(at), meter), NodeField::Power, way, watts), Put::New);
        }
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let power: Vec<Option<f64>> = trace.node_samples.power_w.iter().collect();
        assert_eq!(power, [Some(2.0), Some(1.0), Some(42.0), None]);
    }

    #[test]
    fn on_an_instance_the_engine_tells_and_no_utilisation_is_unknown() {
        let mut gather = Gather::default();
        let (slice, whole) = (gpu(&mut gather, "0/1g.10gb:3"), gpu(&mut gather, "1"));
        for gpu in [slice, whole] {
            put(&mut gather, (0, gpu), GpuField::Util, 0.0, "");
            put(&mut gather, (0, gpu), GpuField::EngineActive, 0.4, "");
            put(&mut gather, (1, gpu), GpuField::Util, 0.0, "");
        }
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let util: Vec<Option<f64>> = trace.gpu_samples.util_ratio.iter().collect();
        assert_eq!(util, [Some(0.4), Some(0.0), None, Some(0.0)]);
    }

    #[test]
    fn pcie_traffic_is_that_of_both_directions() {
        let mut gather = Gather::default();
        let gpu = gpu(&mut gather, "0");
        for (at, field, value) in
            [(0, GpuField::PcieSent, 3e9), (0, GpuField::PcieReceived, 5e9), (1, GpuField::PcieSent, 3e9)]
        {
            put(&mut gather, (at, gpu), field, value, "");
        }
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        assert_eq!(trace.gpu_samples.pcie_bytes_per_s.iter().collect::<Vec<_>>(), [Some(8e9), None]);
    }

    #[test]
    fn memory_there_is_needs_used_and_free_and_a_share_needs_what_there_is() {
        let mut gather = Gather::default();
        let gpu = gpu(&mut gather, "0");
        put(&mut gather, (0, gpu), GpuField::MemUsed, 3.0, "");
        put(&mut gather, (1, gpu), GpuField::MemUsed, 3.0, "");
        put(&mut gather, (1, gpu), GpuField::MemFree, 4.0, "");
        put(&mut gather, (1, gpu), GpuField::MemReserved, 1.0, "");
        put(&mut gather, (2, gpu), GpuField::MemUsedShare, 0.25, "");
        put(&mut gather, (3, gpu), GpuField::MemUsedShare, 0.25, "");
        put(&mut gather, (3, gpu), GpuField::MemTotal, 8.0, "");
        let mut trace = Trace::default();
        gather.finish(&mut trace);
        let samples = &trace.gpu_samples;
        assert_eq!(samples.mem_total_bytes.iter().collect::<Vec<_>>(), [None, Some(8.0), None, Some(8.0)]);
        assert_eq!(samples.mem_used_bytes.iter().collect::<Vec<_>>(), [Some(3.0), Some(3.0), None, Some(2.0)]);
    }
}
