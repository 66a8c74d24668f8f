//! Grid Engine's accounting file in its JSON form: Open and Gridware Cluster Scheduler since 9.0.
//!
//! `$SGE_ROOT/$SGE_CELL/common/accounting.jsonl` has an object a line, for each job (or array task) that ended. Source:
//! `sge_accounting(5)` of the Open Cluster Scheduler. What the values mean is as in the [old form](super::sge), into whose
//! places they are put; what differs:
//!
//! * Times are microseconds.
//! * The parallel environment stands in the category only (`-pe NAME 8`).
//! * `pe_task_id` is there for tasks of tightly integrated parallel jobs, `deleted_by` for deleted jobs.
//! * Usage lies in `usage.rusage` and beside it, from version to version in another place.
//!
//! Worked number: `start_time` 1714982460000000 and `end_time` 1714986060000000 with `-l gpu=2`: 1 h, 2 GPU-hours.
//! O(bytes + n log n).

use serde_json::Value;

use super::line::mostly_records;
use super::sge::{self, Accounting, Fields};
use crate::error::Result;
use crate::ingest::{Confidence, Head, ReadOptions, Reader, SourceFile};
use crate::quality::{RowAudit, reason};
use crate::trace::Trace;

/// Keys of a record, and the places of their values in the old form.
const PLACES: [(&str, usize); 14] = [
    ("qname", sge::QNAME),
    ("hostname", sge::HOSTNAME),
    ("owner", sge::OWNER),
    ("job_name", sge::JOB_NAME),
    ("job_number", sge::JOB_NUMBER),
    ("account", sge::ACCOUNT),
    ("submission_time", sge::SUBMISSION),
    ("start_time", sge::START),
    ("end_time", sge::END),
    ("failed", sge::FAILED),
    ("exit_status", sge::EXIT_STATUS),
    ("project", sge::PROJECT),
    ("slots", sge::SLOTS),
    ("task_number", sge::TASK_NUMBER),
];
/// Places of the run's length in seconds, by version.
const WALLCLOCK: [&str; 5] = [
    "/usage/rusage/ru_wallclock",
    "/usage/usage/wallclock",
    "/usage/ru_wallclock",
    "/usage/eusage/wallclock",
    "/eusage/wallclock",
];
/// Place of the field after the category.
const AFTER: usize = sge::CATEGORY + 1;

/// Reads the JSON form of Grid Engine's accounting file.
#[derive(Debug)]
pub(crate) struct SgeJson;

impl Reader for SgeJson {
    fn id(&self) -> &'static str {
        "sge-json"
    }

    fn describes(&self) -> &'static str {
        "Grid Engine accounting file in JSON (accounting.jsonl of Open and Gridware Cluster Scheduler)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        let keys = ["\"job_number\"", "\"submission_time\"", "\"qname\""];
        let is_record = |line: &str| line.starts_with('{') && keys.iter().all(|key| line.contains(key));
        if mostly_records(head, is_record) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        sge::read_records(files, options, trace, record)
    }
}

fn record(accounting: &mut Accounting, text: &str, row: RowAudit<'_>, trace: &mut Trace) {
    let record = match serde_json::from_str::<Value>(text) {
        Ok(record) if record.is_object() => record,
        _ => {
            trace.ledger.quarantine(&row, reason::MALFORMED, "", text);
            return;
        }
    };
    let places = places(&record);
    let fields = Fields {
        fields: places.iter().map(String::as_str).collect(),
        category: places.get(sge::CATEGORY).map_or("", String::as_str),
        after: AFTER,
    };
    accounting.take(&fields, text, row, trace);
}

/// The values of a record, each in its place of the old form.
fn places(record: &Value) -> Vec<String> {
    let mut places = vec![String::new(); sge::FIELDS.max(AFTER + sge::QDEL_INFO + 1)];
    let mut put = |at: usize, value: Option<&Value>| {
        let text = match value {
            Some(Value::String(text)) => text.clone(),
            Some(number @ Value::Number(_)) => number.to_string(),
            _ => return,
        };
        if let Some(place) = places.get_mut(at) {
            *place = text;
        }
    };
    for (key, at) in PLACES {
        put(at, record.get(key));
    }
    put(sge::CATEGORY, record.get("category"));
    put(sge::WALLCLOCK, WALLCLOCK.iter().find_map(|path| record.pointer(path)));
    put(AFTER + sge::PE_TASKID, record.get("pe_task_id").or_else(|| record.get("pe_taskid")));
    put(AFTER + sge::QDEL_INFO, record.get("deleted_by"));
    put(sge::GRANTED_PE, record.get("granted_pe"));
    let category = record.get("category").and_then(Value::as_str).unwrap_or_default();
    let mut words = category.split_whitespace().skip_while(|word| *word != "-pe").skip(1);
    if let Some((name, place)) = words.next().zip(places.get_mut(sge::GRANTED_PE))
        && place.is_empty()
    {
        name.clone_into(place);
    }
    places
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_take_their_places_whatever_their_version() {
        let of = |record: Value| {
            let places = places(&record);
            [sge::JOB_NUMBER, sge::WALLCLOCK, sge::GRANTED_PE, AFTER + sge::PE_TASKID].map(|at| places[at].clone())
        };
        let usage = json!({"rusage": {"ru_wallclock": 60.0}});
        let record = json!({"job_number": 7, "category": "-l gpu=1 -pe smp 8", "usage": usage, "pe_task_id": "1.n1"});
        assert_eq!(of(record), ["7", "60.0", "smp", "1.n1"]);
        assert_eq!(of(json!({"job_number": "7", "eusage": {"wallclock": 1}, "category": "-pe"})), ["7", "1", "", ""]);
        assert_eq!(of(json!({"job_number": null})), ["", "", "", ""]);
    }
}
