//! A trace: the canonical tables of one cluster (or several), where they came from, and the account of every row.

pub mod apart;
mod merge;
mod select;
pub mod stray;

pub use select::{Selected, Submitted};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quality::Ledger;
use crate::report::format::{counted, duration};
use crate::schema::{
    ActivityTable, AttemptTable, AvailabilityTable, CapacityTable, CarbonTable, ColumnKind, ColumnMut, GpuSampleTable,
    JobTable, MOST_NUMBER, NodeSampleTable, NodeTable, PlacementTable, PriceTable, Table,
};
use crate::time::{TimeBasis, Zone, within_reach};

/// A file a trace was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceRecord {
    /// The path as the user named it.
    pub name: String,
    /// Identifier of the reader.
    pub reader: String,
    /// Size on disk, bytes.
    pub size_bytes: u64,
    /// SHA-256 of the file as it lay on disk, hexadecimal.
    pub sha256: String,
}

/// The canonical tables with their provenance.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Reference of the times.
    pub basis: TimeBasis,
    /// IANA name of the cluster's own time zone, for calendar statistics.
    pub zone: String,
    /// Files it was read from.
    pub sources: Vec<SourceRecord>,
    /// Files in the request that no reader recognised.
    pub skipped: Vec<String>,
    /// Files that hold a header and nothing else.
    pub empty: Vec<String>,
    /// Notes of the reader on the source: what its fields mean, what it lacks.
    pub notes: Vec<String>,
    /// Whether the source counts GPUs at all. Where it does not, a missing GPU count is unknown, not zero.
    pub counts_gpus: bool,
    /// Selection that the trace was cut to, if any.
    pub selected: Option<Selected>,
    /// Account of every row.
    pub ledger: Ledger,
    /// Jobs, by submit time.
    pub jobs: JobTable,
    /// Attempts, where the source records them.
    pub attempts: AttemptTable,
    /// Placements of jobs on nodes.
    pub placements: PlacementTable,
    /// The inventory.
    pub nodes: NodeTable,
    /// Capacity over time.
    pub capacity: CapacityTable,
    /// Counts of activity of the cluster and its VCs, by the source.
    pub activity: ActivityTable,
    /// GPU telemetry.
    pub gpu_samples: GpuSampleTable,
    /// Node telemetry.
    pub node_samples: NodeSampleTable,
    /// Carbon intensity.
    pub carbon: CarbonTable,
    /// Instance prices.
    pub prices: PriceTable,
    /// Spot availability.
    pub availability: AvailabilityTable,
}

impl Trace {
    /// First and last moment that a record of a job or an attempt names, milliseconds since the
    /// Unix epoch. A job that was running when its record was taken names the moment up to which it
    /// had run by then. O(rows).
    pub fn observation(&self) -> Option<(i64, i64)> {
        let (jobs, attempts) = (&self.jobs, &self.attempts);
        let times = || {
            let of_jobs = jobs.submit.iter().chain(jobs.start.iter()).chain(jobs.end.iter());
            of_jobs.chain(attempts.start.iter()).chain(attempts.end.iter()).flatten()
        };
        let ran_until = (0..jobs.len()).filter_map(|job| jobs.ran_until(job)).max();
        Some((times().min()?, times().max().max(ran_until)?))
    }
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            basis: TimeBasis::Utc,
            zone: "UTC".to_owned(),
            sources: Vec::new(),
            skipped: Vec::new(),
            empty: Vec::new(),
            notes: Vec::new(),
            counts_gpus: true,
            selected: None,
            ledger: Ledger::default(),
            jobs: JobTable::default(),
            attempts: AttemptTable::default(),
            placements: PlacementTable::default(),
            nodes: NodeTable::default(),
            capacity: CapacityTable::default(),
            activity: ActivityTable::default(),
            gpu_samples: GpuSampleTable::default(),
            node_samples: NodeSampleTable::default(),
            carbon: CarbonTable::default(),
            prices: PriceTable::default(),
            availability: AvailabilityTable::default(),
        }
    }
}

/// Calls `$body` with `$table` bound to a reference to each table of `$trace` in turn.
#[macro_export]
macro_rules! each_table {
    (& $trace:ident, $table:ident => $body:expr) => {
        $crate::trace::each_table!(@each [&] $trace, $table, $body)
    };
    (&mut $trace:ident, $table:ident => $body:expr) => {
        $crate::trace::each_table!(@each [&mut] $trace, $table, $body)
    };
    (@each [$($by:tt)+] $trace:ident, $table:ident, $body:expr) => {
        { let $table = $($by)+ $trace.jobs; $body; }
        { let $table = $($by)+ $trace.attempts; $body; }
        { let $table = $($by)+ $trace.placements; $body; }
        { let $table = $($by)+ $trace.nodes; $body; }
        { let $table = $($by)+ $trace.capacity; $body; }
        { let $table = $($by)+ $trace.activity; $body; }
        { let $table = $($by)+ $trace.gpu_samples; $body; }
        { let $table = $($by)+ $trace.node_samples; $body; }
        { let $table = $($by)+ $trace.carbon; $body; }
        { let $table = $($by)+ $trace.prices; $body; }
        { let $table = $($by)+ $trace.availability; $body; }
    };
}
pub use each_table;

impl Trace {
    /// Adds a note once.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Sets to unknown, with a note, what no time and no number can be, where a reader let it through; sets apart rows with a
    /// time far from all others ([`stray`]); then brings tables into their order: jobs by submit time (unknown last), samples by time, rows that tie in the order they were read.
    /// O(n log n).
    pub fn finish(&mut self) {
        let mut notes = Vec::new();
        let trace = &mut *self;
        each_table!(&mut trace, table => bound(table, &mut notes));
        notes.into_iter().for_each(|note| self.note(note));
        stray::set_apart(self);
        let key = |times: &crate::schema::Numbers<i64>, ix: usize| times.get(ix).unwrap_or(i64::MAX);
        sort(&mut self.jobs, |jobs, ix| key(&jobs.submit, ix));
        sort(&mut self.activity, |activity, ix| key(&activity.ts, ix));
        sort(&mut self.gpu_samples, |samples, ix| key(&samples.ts, ix));
        sort(&mut self.node_samples, |samples, ix| key(&samples.ts, ix));
        sort(&mut self.capacity, |capacity, ix| key(&capacity.from, ix));
        sort(&mut self.carbon, |carbon, ix| key(&carbon.ts, ix));
        sort(&mut self.prices, |prices, ix| key(&prices.ts, ix));
        sort(&mut self.availability, |availability, ix| key(&availability.ts, ix));
        self.ledger.sort();
    }

    /// A moment as answers tell it: RFC 3339 in `zone`, or, where the trace has no dates, the time since `begins_ms`, such as `20 d 3 h after the beginning`.
    pub fn moment(&self, zone: &Zone, at_ms: i64, begins_ms: i64) -> String {
        if self.basis.has_dates() {
            return zone.rfc3339(at_ms);
        }
        format!("{} after the beginning", duration((at_ms - begins_ms) as f64 / 1e3))
    }

    /// Warnings on rows and files that are not in the trace, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.ledger.warnings();
        warnings.extend(stray::late_ends(self));
        if !self.skipped.is_empty() {
            let named: Vec<&str> = self.skipped.iter().take(5).map(String::as_str).collect();
            let more = if self.skipped.len() > named.len() { " …" } else { "" };
            warnings.push(format!(
                "{} no reader recognises and left out: {}{more}.",
                counted(self.skipped.len() as u64, "file that", "files that"),
                named.join(", ")
            ));
        }
        warnings
    }

    /// Rows of each table that has any, in the tables' order.
    pub fn row_counts(&self) -> Vec<(&'static str, usize)> {
        fn count<T: Table>(table: &T, counts: &mut Vec<(&'static str, usize)>) {
            if !table.is_empty() {
                counts.push((T::NAME, table.len()));
            }
        }
        let mut counts = Vec::new();
        let trace = self;
        each_table!(&trace, table => count(table, &mut counts));
        counts
    }
}

/// Values beyond [`FARTHEST_MS`](crate::time::FARTHEST_MS) and [`MOST_NUMBER`] become unknown; a note a column that had any.
fn bound<T: Table>(table: &mut T, notes: &mut Vec<String>) {
    for (spec, column) in T::COLUMNS.iter().zip(table.columns_mut()) {
        let beyond = match column {
            ColumnMut::Num(num) => num.forget(|value| !(-MOST_NUMBER..=MOST_NUMBER).contains(&value)),
            ColumnMut::Int(int) if spec.kind == ColumnKind::Time => int.forget(|ms| within_reach(ms).is_none()),
            _ => 0,
        };
        if beyond > 0 {
            let name = T::NAME;
            notes.push(format!(
                "{beyond} values of {} in {name} were beyond what is possible and are unknown.",
                spec.name
            ));
        }
    }
}

fn sort<T: Table>(table: &mut T, key: impl Fn(&T, usize) -> i64) {
    let rows = u32::try_from(table.len()).unwrap_or(u32::MAX);
    let keys: Vec<i64> = (0..table.len()).map(|ix| key(table, ix)).collect();
    if keys.is_sorted() {
        return;
    }
    let mut order: Vec<u32> = (0..rows).collect();
    order.sort_by_key(|ix| keys.get(*ix as usize).copied());
    table.permute(&order);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::JobRow;
    use crate::time::{FARTHEST_MS, to_the_minute};

    /// Moments of a trace without dates are not shown as days of 1970, as plans once did.
    #[test]
    fn moments_of_a_trace_without_dates_are_times_since_its_beginning() {
        let zone = Zone::named("Asia/Shanghai").unwrap();
        let mut trace = Trace { basis: TimeBasis::Relative, ..Trace::default() };
        let (begins_ms, at_ms) = (86_400_000, 86_400_000 * 21 + 3 * 3_600_000);
        assert_eq!(trace.moment(&zone, at_ms, begins_ms), "20 d 3 h after the beginning");
        assert_eq!(to_the_minute(&trace.moment(&zone, at_ms, begins_ms)), "20 d 3 h after the beginning");
        trace.basis = TimeBasis::Local;
        assert_eq!(trace.moment(&zone, at_ms, begins_ms), "1970-01-22T11:00:00+08:00");
        assert_eq!(to_the_minute(&trace.moment(&zone, at_ms, begins_ms)), "1970-01-22 11:00");
    }

    #[test]
    fn what_cannot_be_is_unknown_and_noted() {
        let mut trace = Trace::default();
        let job = |submit, cpus| JobRow { submit: Some(submit), req_cpus: Some(cpus), ..JobRow::default() };
        trace.jobs.push(job(FARTHEST_MS, f64::INFINITY));
        trace.jobs.push(job(i64::MIN, f64::NAN));
        trace.jobs.push(job(5, 1e20));
        trace.finish();
        assert_eq!(trace.jobs.submit.iter().collect::<Vec<_>>(), [Some(5), None, None]);
        assert_eq!(trace.jobs.req_cpus.iter().collect::<Vec<_>>(), [Some(1e20), None, None]);
        assert_eq!(
            trace.notes,
            [
                "2 values of submit in jobs were beyond what is possible and are unknown.",
                "2 values of req_cpus in jobs were beyond what is possible and are unknown."
            ]
        );
    }
}
