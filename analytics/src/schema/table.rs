//! The tables themselves. Each is declared once: its row, its columns, their types, units and meaning come from the
//! same lines, and the schema in the documentation and in `manifest.json` is generated from them.

use std::borrow::Cow;

use super::column::{Label, Numbers, Text};
use super::state::JobState;
use crate::time::{seconds_to_ms, within_reach};

/// Type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// Text with many distinct values.
    Text,
    /// Text with few distinct values.
    Label,
    /// Milliseconds since the Unix epoch, UTC (or since the trace began, where its time basis is relative).
    Time,
    /// A whole number.
    Int,
    /// A real number.
    Num,
    /// 1 for yes, 0 for no.
    Flag,
}

/// One column of a table.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct ColumnSpec {
    /// Name, with its unit as a suffix.
    pub name: &'static str,
    /// Type of the values.
    pub kind: ColumnKind,
    /// Meaning, one sentence.
    pub doc: &'static str,
}

/// A column to read, whatever its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum ColumnRef<'a> {
    Text(&'a Text),
    Label(&'a Label),
    Int(&'a Numbers<i64>),
    Num(&'a Numbers<f64>),
}

/// A column to fill, whatever its type.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum ColumnMut<'a> {
    Text(&'a mut Text),
    Label(&'a mut Label),
    Int(&'a mut Numbers<i64>),
    Num(&'a mut Numbers<f64>),
}

/// Interface of a table for storage and frames, whatever its columns.
pub trait Table: Default {
    /// Name; the Parquet file is `<name>.parquet`.
    const NAME: &'static str;
    /// Columns in order.
    const COLUMNS: &'static [ColumnSpec];
    /// Rows.
    fn len(&self) -> usize;
    /// Whether there are no rows.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The columns, in the order of [`Table::COLUMNS`].
    fn columns(&self) -> Vec<ColumnRef<'_>>;
    /// The columns, in the order of [`Table::COLUMNS`], to append to; call [`Table::grow`] with the rows appended.
    fn columns_mut(&mut self) -> Vec<ColumnMut<'_>>;
    /// Notes that `rows` rows were appended to every column.
    fn grow(&mut self, rows: usize);
    /// Brings rows into the order `order` names them.
    fn permute(&mut self, order: &[u32]);
}

macro_rules! row_type {
    ($a:lifetime text) => { Option<Cow<$a, str>> };
    ($a:lifetime label) => { Option<Cow<$a, str>> };
    ($a:lifetime time) => { Option<i64> };
    ($a:lifetime int) => { Option<i64> };
    ($a:lifetime num) => { Option<f64> };
    ($a:lifetime flag) => { Option<bool> };
}
macro_rules! column_type {
    (text) => { Text };
    (label) => { Label };
    (time) => { Numbers<i64> };
    (int) => { Numbers<i64> };
    (num) => { Numbers<f64> };
    (flag) => { Numbers<i64> };
}
macro_rules! kind {
    (text) => {
        ColumnKind::Text
    };
    (label) => {
        ColumnKind::Label
    };
    (time) => {
        ColumnKind::Time
    };
    (int) => {
        ColumnKind::Int
    };
    (num) => {
        ColumnKind::Num
    };
    (flag) => {
        ColumnKind::Flag
    };
}
macro_rules! push {
    (text, $column:expr, $value:expr) => {
        $column.push($value.as_deref())
    };
    (label, $column:expr, $value:expr) => {
        $column.push($value.as_deref())
    };
    (flag, $column:expr, $value:expr) => {
        $column.push($value.map(i64::from))
    };
    ($other:ident, $column:expr, $value:expr) => {
        $column.push($value)
    };
}
macro_rules! as_ref {
    (text, $column:expr) => {
        ColumnRef::Text($column)
    };
    (label, $column:expr) => {
        ColumnRef::Label($column)
    };
    (num, $column:expr) => {
        ColumnRef::Num($column)
    };
    ($other:ident, $column:expr) => {
        ColumnRef::Int($column)
    };
}
macro_rules! as_mut {
    (text, $column:expr) => {
        ColumnMut::Text($column)
    };
    (label, $column:expr) => {
        ColumnMut::Label($column)
    };
    (num, $column:expr) => {
        ColumnMut::Num($column)
    };
    ($other:ident, $column:expr) => {
        ColumnMut::Int($column)
    };
}

macro_rules! tables {
    ($( #[doc = $doc:literal] $name:literal $row:ident $table:ident { $( #[doc = $cdoc:literal] $field:ident: $kind:ident, )* } )*) => {
        $(
            #[doc = concat!("A row of `", $name, "`: ", $doc)]
            #[derive(Debug, Clone, Default, PartialEq)]
            pub struct $row<'a> {
                $( #[doc = $cdoc] pub $field: row_type!('a $kind), )*
            }

            #[doc = concat!("Table `", $name, "`: ", $doc)]
            #[derive(Debug, Clone, Default)]
            pub struct $table {
                len: usize,
                $( #[doc = $cdoc] pub $field: column_type!($kind), )*
            }

            impl $table {
                /// Appends a row. Amortised O(columns).
                #[allow(clippy::needless_pass_by_value)]
                pub fn push(&mut self, row: $row<'_>) {
                    self.len += 1;
                    $( push!($kind, self.$field, row.$field); )*
                }
            }

            impl Table for $table {
                const NAME: &'static str = $name;
                const COLUMNS: &'static [ColumnSpec] = &[
                    $( ColumnSpec { name: stringify!($field), kind: kind!($kind), doc: $cdoc }, )*
                ];
                fn len(&self) -> usize {
                    self.len
                }
                fn columns(&self) -> Vec<ColumnRef<'_>> {
                    vec![ $( as_ref!($kind, &self.$field), )* ]
                }
                fn columns_mut(&mut self) -> Vec<ColumnMut<'_>> {
                    vec![ $( as_mut!($kind, &mut self.$field), )* ]
                }
                fn grow(&mut self, rows: usize) {
                    self.len += rows;
                }
                fn permute(&mut self, order: &[u32]) {
                    $( self.$field = self.$field.permuted(order); )*
                    self.len = order.len();
                }
            }
        )*

        /// Name and columns of every table.
        pub fn all_specs() -> Vec<(&'static str, &'static [ColumnSpec])> {
            vec![ $( ($name, <$table as Table>::COLUMNS), )* ]
        }
    };
}

tables! {
    #[doc = "one row a job, with what is known of it as a whole."]
    "jobs" JobRow JobTable {
        #[doc = "Cluster the job ran on."]
        cluster: label,
        #[doc = "Identifier, unique within the trace."]
        job_key: text,
        #[doc = "Array or heterogeneous job this one belongs to."]
        parent_job: text,
        #[doc = "Who submitted it."]
        user: label,
        #[doc = "Account or project it is charged to."]
        account: label,
        #[doc = "Virtual cluster, partition or queue: the pool whose quota it waits for."]
        vc: label,
        #[doc = "Quality of service or priority class."]
        qos: label,
        #[doc = "Name as given by the user (some sources give a hash)."]
        name: label,
        #[doc = "Kind of work (pretrain, evaluation, notebook …) where the source says."]
        job_type: label,
        #[doc = "GPU model asked for."]
        gpu_type: label,
        #[doc = "Canonical state, one of the words of `JobState`."]
        state: label,
        #[doc = "The source's own word for the state."]
        reported_state: label,
        #[doc = "Why it still waited when the record was taken, in the source's own words; unknown of a job that does not wait."]
        pending_reason: text,
        #[doc = "When it was submitted."]
        submit: time,
        #[doc = "When it could first have started (dependencies met)."]
        eligible: time,
        #[doc = "Start of its first attempt."]
        start: time,
        #[doc = "End of its last attempt; unknown while running."]
        end: time,
        #[doc = "Whether it was still running or waiting when the record was taken."]
        censored: flag,
        #[doc = "Attempts made; 0 for a job that ended while it waited, whose wait is then only known to be longer than from submission to end."]
        attempts: int,
        #[doc = "Nodes asked for."]
        req_nodes: int,
        #[doc = "CPU cores asked for."]
        req_cpus: num,
        #[doc = "Memory asked for, bytes, whole job."]
        req_mem_bytes: int,
        #[doc = "GPUs asked for; fractions are natural."]
        req_gpus: num,
        #[doc = "Pods with GPUs that it is made of, where the source has pods; several may share a node."]
        pods: int,
        #[doc = "How near to each other its pods asked to lie: `required:LABEL`, `preferred:LABEL` or `unconstrained`, perhaps with `:slices=LABEL/PODS`."]
        topology: label,
        #[doc = "Nodes given."]
        alloc_nodes: int,
        #[doc = "CPU cores given."]
        alloc_cpus: num,
        #[doc = "GPUs given."]
        alloc_gpus: num,
        #[doc = "Memory given over all nodes, bytes."]
        alloc_mem_bytes: int,
        #[doc = "Nodes it ran on last, in Slurm's host list notation."]
        nodes_hostlist: text,
        #[doc = "Time limit in force, seconds."]
        time_limit_s: num,
        #[doc = "Time its attempts ran, seconds, from their timestamps; time in which it was suspended is not in it."]
        run_s: num,
        #[doc = "Time it was suspended within its attempts, seconds: it held its GPUs and did not run."]
        suspended_s: num,
        #[doc = "Run time as the source reports it, seconds."]
        reported_run_s: num,
        #[doc = "Time its attempts ran, summed by the source, seconds; gaps between attempts are not in it."]
        reported_attempts_s: num,
        #[doc = "Wait as the source reports it, seconds."]
        reported_wait_s: num,
        #[doc = "Energy as the source reports it, joules."]
        reported_energy_j: num,
        #[doc = "GPU utilisation over its life as the source reports it, 0 to 1."]
        reported_gpu_util_ratio: num,
        #[doc = "Exit code."]
        exit_code: int,
        #[doc = "Jobs it waits for, as the source writes them."]
        depends_on: label,
    }
    #[doc = "one row an attempt, where the source records attempts; a job without rows here had one, its own start to end."]
    "attempts" AttemptRow AttemptTable {
        #[doc = "The job."]
        job_key: text,
        #[doc = "1 for the first."]
        attempt: int,
        #[doc = "When it started."]
        start: time,
        #[doc = "When it ended; unknown while running."]
        end: time,
        #[doc = "Whether it was still running when the record was taken."]
        censored: flag,
        #[doc = "Canonical state it ended in."]
        end_reason: label,
        #[doc = "Nodes, in Slurm's host list notation."]
        nodes_hostlist: text,
        #[doc = "GPUs given."]
        alloc_gpus: num,
        #[doc = "CPU cores given."]
        alloc_cpus: num,
        #[doc = "Memory given, bytes."]
        alloc_mem_bytes: int,
    }
    #[doc = "one row a job, attempt and node: where it ran."]
    "placements" PlacementRow PlacementTable {
        #[doc = "The job."]
        job_key: text,
        #[doc = "1 for the first."]
        attempt: int,
        #[doc = "The node."]
        node: label,
        #[doc = "GPU identifiers on the node, comma separated."]
        gpu_ids: text,
        #[doc = "GPUs used on the node."]
        gpus: num,
    }
    #[doc = "one row a node: the inventory."]
    "nodes" NodeRow NodeTable {
        #[doc = "The node."]
        node: text,
        #[doc = "GPU model."]
        gpu_type: label,
        #[doc = "GPUs on it."]
        gpus: num,
        #[doc = "Memory of one GPU, bytes."]
        gpu_mem_bytes: int,
        #[doc = "CPU cores."]
        cpus: num,
        #[doc = "Memory, bytes."]
        mem_bytes: int,
        #[doc = "Virtual cluster or partition it belongs to."]
        vc: label,
        #[doc = "Where it lies, the widest level first: `LEVEL=DOMAIN`, joined by commas."]
        place: text,
        #[doc = "Power when idle, watts."]
        idle_w: num,
        #[doc = "Power at full load, watts."]
        max_w: num,
        #[doc = "Time to boot, seconds."]
        boot_s: num,
        #[doc = "Energy to boot, joules."]
        boot_j: num,
    }
    #[doc = "one row an interval in which a VC, node or cluster had a given capacity."]
    "capacity" CapacityRow CapacityTable {
        #[doc = "What is meant: `vc`, `node` or `cluster`."]
        scope: label,
        #[doc = "Name of the VC, node or cluster."]
        name: label,
        #[doc = "From (inclusive)."]
        from: time,
        #[doc = "To (exclusive); unknown if open."]
        to: time,
        #[doc = "GPUs."]
        gpus: num,
        #[doc = "CPU cores (processors)."]
        cpus: num,
        #[doc = "Nodes."]
        nodes: num,
        #[doc = "`up`, `down` (failed: what ran there ended), `drained` or `powered_down`."]
        state: label,
    }
    #[doc = "one row a moment: what a cluster or VC was doing, as the source counted it."]
    "activity" ActivityRow ActivityTable {
        #[doc = "What is meant: `vc` or `cluster`."]
        scope: label,
        #[doc = "Name of the VC or cluster."]
        name: label,
        #[doc = "When."]
        ts: time,
        #[doc = "Jobs running."]
        jobs_running: num,
        #[doc = "Jobs waiting."]
        jobs_pending: num,
        #[doc = "GPUs there are."]
        gpus_total: num,
        #[doc = "GPUs in use."]
        gpus_running: num,
        #[doc = "GPUs that waiting jobs ask for."]
        gpus_pending: num,
        #[doc = "GPUs not in use."]
        gpus_idle: num,
        #[doc = "Nodes with at least one GPU in use."]
        nodes_active: num,
        #[doc = "Nodes there are."]
        nodes_total: num,
        #[doc = "Utilisation as the source reports it, 0 to 1."]
        reported_util_ratio: num,
    }
    #[doc = "one row a GPU and moment."]
    "gpu_samples" GpuSampleRow GpuSampleTable {
        #[doc = "When."]
        ts: time,
        #[doc = "The node."]
        node: label,
        #[doc = "The GPU (index or UUID), with its MIG instance if any."]
        gpu: label,
        #[doc = "GPU model."]
        gpu_type: label,
        #[doc = "Share of time a kernel was resident, 0 to 1."]
        util_ratio: num,
        #[doc = "Share of time the memory interface was busy, 0 to 1."]
        mem_util_ratio: num,
        #[doc = "Share of SMs active, 0 to 1."]
        sm_active_ratio: num,
        #[doc = "Share of cycles the tensor pipes were active, 0 to 1."]
        tensor_active_ratio: num,
        #[doc = "Share of cycles DRAM was active, 0 to 1."]
        dram_active_ratio: num,
        #[doc = "PCIe traffic of both directions, bytes a second."]
        pcie_bytes_per_s: num,
        #[doc = "GPU memory in use, bytes."]
        mem_used_bytes: num,
        #[doc = "GPU memory there is, bytes."]
        mem_total_bytes: num,
        #[doc = "Board power, watts."]
        power_w: num,
        #[doc = "Energy counter, joules since the driver was loaded."]
        energy_j_cum: num,
        #[doc = "Temperature, degrees Celsius."]
        temp_c: num,
        #[doc = "Job (or pod) it was working for."]
        job_key: label,
    }
    #[doc = "one row a node, sensor and moment."]
    "node_samples" NodeSampleRow NodeSampleTable {
        #[doc = "When."]
        ts: time,
        #[doc = "The node."]
        node: label,
        #[doc = "Which meter (`Sys Power`, `CPU Power`, `PSU 1` …)."]
        sensor: label,
        #[doc = "Power, watts."]
        power_w: num,
        #[doc = "Energy counter or register of the meter, joules."]
        energy_j_cum: num,
        #[doc = "CPU utilisation, 0 to 1."]
        cpu_util_ratio: num,
        #[doc = "Memory in use, bytes."]
        mem_used_bytes: num,
    }
    #[doc = "one row a grid zone and hour."]
    "carbon" CarbonRow CarbonTable {
        #[doc = "Grid zone."]
        zone: label,
        #[doc = "Beginning of the hour."]
        ts: time,
        #[doc = "Carbon intensity, grams of CO2 equivalent per kWh."]
        g_per_kwh: num,
        #[doc = "`direct`, `lca` or `marginal`."]
        method: label,
        #[doc = "Whether the value is an estimate."]
        estimated: flag,
    }
    #[doc = "one row an instance type, zone and moment."]
    "prices" PriceRow PriceTable {
        #[doc = "Cloud."]
        provider: label,
        #[doc = "Zone or region."]
        zone: label,
        #[doc = "Instance type."]
        instance: label,
        #[doc = "GPU model."]
        gpu_type: label,
        #[doc = "GPUs in the instance."]
        gpus: num,
        #[doc = "GPU memory of one GPU, bytes."]
        gpu_mem_bytes: num,
        #[doc = "From when the price holds; unknown for a list price."]
        ts: time,
        #[doc = "Price of the instance, US dollars per hour."]
        usd_per_h: num,
        #[doc = "`ondemand`, `spot` or `reserved`, all of a whole instance; `accelerator` and `accelerator_spot` of its GPUs without their host; `serverless` of GPUs that are billed while they are used."]
        kind: label,
    }
    #[doc = "one row a zone and moment: spot instances to be had."]
    "availability" AvailabilityRow AvailabilityTable {
        #[doc = "Zone."]
        zone: label,
        #[doc = "Instance type."]
        instance: label,
        #[doc = "When."]
        ts: time,
        #[doc = "Time between samples, seconds."]
        gap_s: num,
        #[doc = "Instances to be had, up to the number asked for."]
        count: num,
    }
}

impl JobTable {
    /// Until when a job that was running when the record was taken had run by then, milliseconds: its start and the run and the
    /// suspension that the source reports. The time between attempts is in none of these, so that it may be later.
    pub fn ran_until(&self, ix: usize) -> Option<i64> {
        let running = self.end.get(ix).is_none() && self.state.get(ix) == Some(JobState::Running.id());
        let (start, run_s) = self.start.get(ix).filter(|_| running).zip(self.reported_run_s.get(ix))?;
        let held_ms = seconds_to_ms(run_s.max(0.0) + self.suspended_s.get(ix).unwrap_or(0.0).max(0.0))?;
        within_reach(start.saturating_add(held_ms))
    }

    /// Time that a job which ended without ever having started had waited, seconds: its wait is
    /// censored there.
    /// `None` for every other job, and where the submission or the end is unknown.
    pub fn waited_in_vain_s(&self, ix: usize) -> Option<f64> {
        let over = self.state.get(ix).is_some_and(|state| JobState::from_id(state).is_final());
        if !over || self.start.get(ix).is_some() || self.attempts.get(ix) != Some(0) {
            return None;
        }
        let (submit, end) = self.submit.get(ix).zip(self.end.get(ix))?;
        (end >= submit).then(|| (end - submit) as f64 / 1_000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pushed_row_is_read_back_and_unknowns_stay_unknown() {
        let mut jobs = JobTable::default();
        jobs.push(JobRow { job_key: Some("a".into()), req_gpus: Some(0.22), ..JobRow::default() });
        jobs.push(JobRow { job_key: Some("b".into()), req_gpus: Some(0.0), censored: Some(true), ..JobRow::default() });
        jobs.permute(&[1, 0]);
        assert_eq!(jobs.job_key.iter().collect::<Vec<_>>(), [Some("b"), Some("a")]);
        assert_eq!((jobs.req_gpus.get(0), jobs.req_gpus.get(1)), (Some(0.0), Some(0.22)));
        assert_eq!((jobs.censored.get(0), jobs.censored.get(1)), (Some(1), None));
        assert_eq!(jobs.columns().len(), JobTable::COLUMNS.len());
    }
}
