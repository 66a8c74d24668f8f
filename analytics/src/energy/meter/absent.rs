//! Why there is nothing to audit, and what would help: each reason by its own name.
//!
//! Worked example: readings from 15 to 17 March, audited for January: "no reading lies in the window …; readings go from …".

use super::{Options, Readings};
use crate::Trace;
use crate::energy::model::PowerModels;
use crate::error::Error;
use crate::report::format::{count, duration};
use crate::schema::Table as _;
use crate::time::format_utc;

fn empty(trace: Option<&Trace>, what: String, remedy: &str) -> Error {
    let names = trace.map(|trace| trace.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>());
    let named = match names.as_deref() {
        None | Some([]) => "the source".to_owned(),
        Some([one]) => (*one).to_owned(),
        Some([first, rest @ ..]) => format!("{first} and {} more", rest.len()),
    };
    Error::Empty { source_name: named, what, remedy: remedy.to_owned() }
}

/// A moment in words.
fn moment(trace: Option<&Trace>, ms: i64) -> String {
    if trace.is_none_or(|trace| trace.basis.has_dates()) {
        format!("{} UTC", format_utc(ms))
    } else {
        format!("{} after the trace began", duration(ms as f64 / 1_000.0))
    }
}

/// A window in words.
fn words(trace: Option<&Trace>, (from, to): (i64, i64)) -> String {
    match (from > i64::MIN, to < i64::MAX) {
        (true, true) => format!("from {} to {}", moment(trace, from), moment(trace, to)),
        (true, false) => format!("from {} on", moment(trace, from)),
        (false, true) => format!("before {}", moment(trace, to)),
        (false, false) => "of all times".to_owned(),
    }
}

/// No reading lies in the window.
pub(super) fn window(trace: Option<&Trace>, window: (i64, i64), (first, last): (i64, i64), counts: &Readings) -> Error {
    let at = |ms: i64| moment(trace, ms);
    let around = match (counts.last_before_ms, counts.first_after_ms) {
        (Some(before), Some(after)) => {
            format!(", the last before it at {} and the first after it at {}", at(before), at(after))
        }
        _ => String::new(),
    };
    let what = format!(
        "no reading lies in the window {}; readings go from {} to {}{around}",
        words(trace, window),
        at(first),
        at(last)
    );
    empty(trace, what, "choose a window that holds readings (--from, --to), or add the readings of this one")
}

/// No job runs in the window, and there are no readings.
pub(super) fn jobs(trace: &Trace, window: (i64, i64), (first, last): (i64, i64)) -> Error {
    let what = format!(
        "there are no readings, and no job runs in the window {}; jobs go from {} to {}",
        words(Some(trace), window),
        moment(Some(trace), first),
        moment(Some(trace), last)
    );
    empty(Some(trace), what, "choose a window in which jobs ran (--from, --to)")
}

/// Nothing has an energy.
pub(super) fn energy(trace: Option<&Trace>, counts: &Readings, models: &PowerModels, options: &Options) -> Error {
    let telemetry = "add telemetry with a time and power or energy (DCGM, nvidia-smi, IPMI, a meter's register)";
    let types: Vec<&str> = models.names.iter().flatten().map(String::as_str).collect();
    let types = if types.is_empty() { "a GPU type that is not told".to_owned() } else { types.join(", ") };
    let stated = "or state idle power and TDP of the type in the factor file ([meter.power.TYPE])";
    let Some(trace) = trace else {
        let what = match counts.rows {
            0 => "there is no reading of a GPU".to_owned(),
            rows if counts.without_time == rows => {
                format!("none of the {} readings has a time and a device", count(rows))
            }
            _ => {
                "the readings tell no energy: they have neither power nor a counter, or one reading a device".to_owned()
            }
        };
        return empty(None, what, telemetry);
    };
    let (gpus, nodes) = (&trace.gpu_samples, &trace.node_samples);
    let rows = gpus.len() + nodes.len();
    let timed = gpus.ts.known_count() + nodes.ts.known_count();
    let powered = gpus.power_w.known_count()
        + gpus.energy_j_cum.known_count()
        + nodes.power_w.known_count()
        + nodes.energy_j_cum.known_count();
    let all = count(rows as u64);
    if rows > 0 && timed == 0 {
        let what = format!("the {all} readings have no times, so that they are power at unknown moments and no energy");
        return empty(Some(trace), what, "export the time of each reading");
    }
    if rows > 0 && powered == 0 {
        let util = if gpus.util_ratio.is_all_unknown() {
            ""
        } else {
            ": they have utilisation, and the power of GPUs at it is not known"
        };
        let what = format!("the {all} readings have neither power nor energy{util} ({types})");
        return empty(Some(trace), what, &format!("add telemetry with power or energy, {stated}"));
    }
    if rows > 0 {
        let lone = if options.period_s.is_some() { "" } else { ", or say how long one stands for ([meter] period_s)" };
        let what =
            "no device has two readings of power or energy in the time audited: power at one moment is no energy"
                .to_owned();
        return empty(Some(trace), what, &format!("add readings, widen --from and --to{lone}"));
    }
    let jobs = &trace.jobs;
    let what = if jobs.is_empty() {
        "there are no readings of power or energy, and no jobs".to_owned()
    } else if jobs.start.is_all_unknown() && jobs.run_s.is_all_unknown() {
        "there are no readings of power or energy, and no job has a start".to_owned()
    } else if jobs.alloc_gpus.is_all_unknown() && jobs.req_gpus.is_all_unknown() {
        "there are no readings of power or energy, and no job has a number of GPUs".to_owned()
    } else {
        format!(
            "there are no readings of power or energy, and nothing is known of the power of the jobs' GPUs ({types})"
        )
    };
    empty(Some(trace), what, &format!("{telemetry}, {stated}"))
}
