//! Demand as slots, from a trace: one [`Series`] a VC, and one of the pool.
//!
//! Two sources, in this order unless one is named: the **activity** the source itself counted (`sampled`: Philly's node sequence, Helios' VCs
//! by the minute), else the **jobs** (`jobs`: GPUs running and pending by an exact sweep, nodes from placements where they are known).
//!
//! * A slot begins on a whole multiple of its length after local midnight. Slots that the record covers in part, at its ends, are left out.
//! * Slots in which nothing was counted carry on the last count and say so ([`Slot::counted`]).
//! * A whole cluster that falls from busy to 0 from one sample to the next did not run out of jobs: it was off, or its counting failed. Such
//!   samples, of up to two days, count as not taken, in its VCs too, and how many is said, unless [`GatherOptions::outages_are_idle`].
//! * Demand is what is in use, or that and what waits ([`Asked`]).
//! * How many there are (`totals`) is what a caller gives ([`GivenNodes`]), else what the trace records, less nodes without GPUs and the VCs of which it has no job.
//! * The pool is the cluster's own series if there is one, else the sum of the VCs at each moment (not of their peaks).
//!
//! * Memory follows the rows. Of a record of few rows over many years the newest slots are gathered, which is told ([`GatherOptions::from_ms`]); one over
//!   generations is refused with the rows at its ends, or needs longer slots.
//!
//! Bare dates and hours are in the trace's zone, which each series carries. O(n log n) in samples or jobs. Worked example: VC `a` holds 3 GPUs
//! over a whole slot, `b` 5 over its first half and 0 then: peaks 3 and 5, means 3 and 2.5; the pool's peak is 8, its last count 3.

mod jobs;
mod sampled;
mod totals;

use tracecast_analytics::Trace;
use tracecast_analytics::report::format;
use tracecast_analytics::schema::Table as _;
use tracecast_analytics::time::{DAY_MS, Zone, format_utc};

use super::bound;
use crate::error::{Error, Result};
use tracecast_analytics::facts::demand::{Series, Slot, Unit};

pub use totals::GivenNodes;

/// Name of the pool where it has no name of its own.
pub const POOL: &str = "all VCs";

/// GPUs of a node where neither the trace nor the caller says.
const GPUS_PER_NODE: f64 = 8.0;

/// Slots of all series together that any source may have, and those that each of its rows allows more: memory follows the rows and not
/// the span of their times. Some 100 bytes a slot; ten minutes over ten years are half a million slots a series.
const SLOTS_ANYWAY: i64 = 4_000_000;
const SLOTS_A_ROW: i64 = 100;

/// Share of the rows in the newest slots below which a reader has to know that before any number is believed.
const FEW_ROWS: f64 = 0.5;

/// Definition of demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// Count in use.
    #[default]
    InUse,
    /// Count in use and waiting.
    WithPending,
    /// Count in use and waiting, at most the total there is.
    WithPendingUpToTotal,
}

/// Source of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// The activity the source counted, else the jobs.
    #[default]
    Any,
    /// The activity.
    Activity,
    /// The jobs.
    Jobs,
}

/// Options of gathering demand.
#[derive(Debug, Clone, PartialEq)]
pub struct GatherOptions {
    /// Length of a slot, milliseconds.
    pub slot_ms: i64,
    /// Unit of the counts; `None`: nodes where the source counts them, else GPUs.
    pub unit: Option<Unit>,
    /// Source of the counts.
    pub source: Source,
    /// Definition of demand.
    pub asked: Asked,
    /// GPUs of a node, where nodes are derived from GPUs; `None`: as the inventory has it, else 8.
    pub gpus_per_node: Option<f64>,
    /// Whether a whole cluster that falls from busy to 0 counts as idle, rather than off or failing
    /// to count.
    pub outages_are_idle: bool,
    /// Only these VCs (and the pool of them); empty: all.
    pub vcs: Vec<String>,
    /// The nodes there are, where they are not those that the trace records.
    pub nodes: Option<GivenNodes>,
    /// Gather from here on, milliseconds since the epoch; `None`: from the beginning, or, where rows are few for so many slots, the newest slots alone.
    pub from_ms: Option<i64>,
    /// The newest slots are counted back from here if it lies before the end, such as the beginning of a test.
    pub before_ms: Option<i64>,
}

impl Default for GatherOptions {
    /// Ten minutes, of whatever is counted, in use.
    fn default() -> Self {
        Self {
            slot_ms: 600_000,
            unit: None,
            source: Source::Any,
            asked: Asked::InUse,
            gpus_per_node: None,
            outages_are_idle: false,
            vcs: Vec::new(),
            nodes: None,
            from_ms: None,
            before_ms: None,
        }
    }
}

/// Demand gathered from a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Gathered {
    /// VCs by name, then the pool.
    pub series: Vec<Series>,
    /// Notes on the series for readers, cautions included.
    pub notes: Vec<String>,
    /// Notes to read before any number: what was recorded and is left out.
    pub cautions: Vec<String>,
    /// Cautions that put every answer in doubt: sizes of another time, or most of the GPU time left
    /// out.
    pub doubts: Vec<String>,
    /// Whether they come from jobs.
    pub from_jobs: bool,
    /// Names of the series of which nobody recorded how many there are: the most in use so far is taken.
    pub totals_unknown: Vec<String>,
}

/// Demand of each VC by name, then of the pool.
///
/// # Errors
/// If the trace has neither activity nor jobs, or not what was asked.
pub fn series(trace: &Trace, options: &GatherOptions) -> Result<Vec<Series>> {
    Ok(gather(trace, options)?.series)
}

/// Gathers the series of demand, with notes for readers.
///
/// # Errors
/// Errors of [`series`].
pub fn gather(trace: &Trace, options: &GatherOptions) -> Result<Gathered> {
    if options.slot_ms < 1_000 {
        return Err(Error::Setting(format!("a slot of {} ms is too short; a second is the least", options.slot_ms)));
    }
    if options.gpus_per_node.is_some_and(|gpus| !(gpus > 0.0 && gpus.is_finite())) {
        return Err(Error::Setting("a node has no such number of GPUs; name one above 0".to_owned()));
    }
    let zone = Zone::named(&trace.zone).unwrap_or_else(|_| Zone::utc());
    let counted = !trace.activity.is_empty();
    let mut gathered = match options.source {
        Source::Any if counted => sampled::gather(trace, options, &zone)?,
        Source::Activity => sampled::gather(trace, options, &zone)?,
        _ => jobs::gather(trace, options, &zone)?,
    };
    if gathered.series.is_empty() {
        return Err(Error::TooFew(format!(
            "nothing was counted for a whole slot of {} s; name a shorter one",
            options.slot_ms / 1_000
        )));
    }
    if options.asked != Asked::InUse && gathered.series.iter().any(|series| !series.counts_pending) {
        return Err(Error::NotRecorded(
            "the source does not say what waits, so demand with pending work is not known; leave --pending out"
                .to_owned(),
        ));
    }
    gathered.notes.splice(0..0, gathered.cautions.iter().cloned());
    gathered.notes.dedup();
    Ok(gathered)
}

/// The VCs asked for; an error names those there are.
fn check_vcs(options: &GatherOptions, known: &[&str]) -> Result<()> {
    match options.vcs.iter().find(|vc| !known.contains(&vc.as_str())) {
        Some(vc) => Err(Error::Unknown {
            what: "VC",
            found: vc.clone(),
            known: known.iter().map(ToString::to_string).collect(),
        }),
        None => Ok(()),
    }
}

/// A series' span of time, and the rows that give it its first and last moment.
#[derive(Debug, Clone)]
struct Span {
    from_ms: i64,
    to_ms: i64,
    first: String,
    last: String,
}

/// Refuses series of more slots than the rows that they come from allow.
fn check_slots(spans: &[Span], rows: usize, slot_ms: i64, zone: &Zone) -> Result<()> {
    let slots = |span: &Span| span.to_ms.saturating_sub(span.from_ms).max(0) / slot_ms.max(1);
    let all = spans.iter().fold(0i64, |all, span| all.saturating_add(slots(span)));
    let most = SLOTS_A_ROW.saturating_mul(i64::try_from(rows).unwrap_or(i64::MAX)).saturating_add(SLOTS_ANYWAY);
    let Some(longest) = spans.iter().max_by_key(|span| slots(span)).filter(|_| all > most) else { return Ok(()) };
    let local = |ms: i64| format!("{} {}", format_utc(ms.saturating_add(zone.offset_ms(ms))), zone.name());
    Err(Error::TooManySlots(format!(
        "from {} ({}) to {} ({}), slots of {} s would be {} in {}, more than {} rows can fill (at most {}); correct the dates, or name longer slots with --slot",
        local(longest.from_ms),
        longest.first,
        local(longest.to_ms),
        longest.last,
        slot_ms / 1_000,
        format::count(u64::try_from(all).unwrap_or(u64::MAX)),
        format::counted(spans.len() as u64, "series", "series"),
        format::count(rows as u64),
        format::count(u64::try_from(most).unwrap_or(u64::MAX)),
    )))
}

/// Time from which demand is gathered.
struct Newest {
    begin_ms: i64,
    /// Note for readers if this is later than the record begins, and whether it is a caution.
    told: Option<(String, bool)>,
}

impl Newest {
    /// Finds from when on a record from `from_ms` to `to_ms` is gathered. `later` counts the `rows` that tell of moments from a given one on; `what` they are.
    fn new(
        options: &GatherOptions,
        (from_ms, to_ms): (i64, i64),
        (rows, series): (usize, usize),
        (later, what): (&dyn Fn(i64) -> usize, &str),
        zone: &Zone,
    ) -> Self {
        let slots = i64::try_from(bound::most_slots(rows, series)).unwrap_or(i64::MAX);
        let end_ms = options.before_ms.map_or(to_ms, |before_ms| before_ms.min(to_ms));
        let newest_ms = || end_ms.saturating_sub(slots.saturating_mul(options.slot_ms));
        let begin_ms = options.from_ms.unwrap_or_else(newest_ms).clamp(from_ms, to_ms.max(from_ms));
        let is_cut = options.from_ms.is_none() && begin_ms > from_ms;
        let told = is_cut.then(|| {
            let later = later(begin_ms);
            let days = |ms: i64| format::count(u64::try_from(ms / DAY_MS).unwrap_or(0));
            let said = format!(
                "**Demand is gathered from {} on**, the newest {} of the {} days of the record, as the rows are few for so many slots of {}. {} of its {} {what} lie there. Longer slots (--slot) reach back farther.",
                zone.show_short(begin_ms),
                days(to_ms - begin_ms),
                days(to_ms - from_ms),
                format::duration(options.slot_ms as f64 / 1000.0),
                format::count(later as u64),
                format::count(rows as u64),
            );
            (said, (later as f64) < FEW_ROWS * rows as f64)
        });
        Self { begin_ms, told }
    }

    /// Says it among the cautions or the notes.
    fn tell(self, cautions: &mut Vec<String>, notes: &mut Vec<String>) {
        if let Some((said, first)) = self.told {
            if first { cautions } else { notes }.push(said);
        }
    }
}

impl Asked {
    /// Demand, given what is in use, what waits and how many there are.
    fn of(self, used: f64, pending: f64, total: f64) -> f64 {
        match self {
            Self::InUse => used,
            Self::WithPending => used + pending,
            // What is in use is there, whatever the total says.
            Self::WithPendingUpToTotal => (used + pending).min(total).max(used),
        }
    }
}

/// Sets totals to the most in use so far, where a trace does not record them.
fn most_so_far(slots: &mut [Slot]) {
    let mut most = 0f64;
    for slot in slots {
        most = most.max(slot.peak);
        slot.total = most;
    }
}

/// Note on the series whose totals are unknown.
fn unknown_totals(names: &[impl AsRef<str>]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let all = names.join(", ");
    (!names.is_empty()).then(|| format!("How many there are is not known of {all}: the most in use so far is taken."))
}

#[cfg(test)]
mod tests;
