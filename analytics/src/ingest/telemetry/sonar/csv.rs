//! Sonar's free CSV: every value with its name, in any order.

use super::super::super::batch::line::{each_record, mostly_records};
use super::super::super::field::{self, Moment};
use super::super::super::options::ReadOptions;
use super::super::super::source::{Head, SourceFile};
use super::super::metric::GpuField;
use super::{FAILED, MOST_GPUS, Reading, Samples, job_key};
use crate::error::Result;
use crate::quality::{RowAudit, reason};
use crate::time::Zone;
use crate::trace::Trace;

/// Whether most lines are records of free CSV.
pub(super) fn is_csv(head: &Head) -> bool {
    mostly_records(head, |line| {
        let Some(pairs) = pairs(line) else { return false };
        let has = |name: &str| pairs.iter().any(|(key, _)| key == name);
        has("v") && (has("time") && has("host") || has("JobID") || has("error"))
    })
}

/// Reads a file of free CSV.
pub(super) fn read(
    file: &SourceFile,
    options: &ReadOptions<'_>,
    samples: &mut Samples,
    trace: &mut Trace,
) -> Result<()> {
    each_record(file, options, trace, |text, row, trace| record(text, row, samples, trace))
}

fn record(text: &str, mut row: RowAudit<'_>, samples: &mut Samples, trace: &mut Trace) {
    let Some(pairs) = pairs(text) else {
        trace.ledger.quarantine(&row, reason::MALFORMED, "", text);
        return;
    };
    let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if let Some(error) = get("error") {
        trace.ledger.quarantine(&row, FAILED, "error", error);
        return;
    }
    if get("JobID").is_some() {
        samples.jobs.take(get, text, row, &mut trace.ledger);
        return;
    }
    let Some(node) = field::text(get("host")) else {
        if get("hostname").is_some() {
            samples.others += 1;
            trace.ledger.keep(row);
        } else {
            trace.ledger.quarantine(&row, reason::NO_KEY, "host", text);
        }
        return;
    };
    let utc = Zone::utc();
    let Some(ts) = Moment::Local(&utc).read(get("time"), "time", &mut row) else {
        trace.ledger.quarantine(&row, reason::NOT_A_TIME, "time", text);
        return;
    };
    if let Some(gpus) = get("gpuinfo") {
        match pairs_of_gpus(gpus) {
            Some(gpus) => {
                for (index, readings) in (0..).zip(gpus) {
                    samples.gpu(node, index, ts, &readings, &mut row);
                }
            }
            None => row.repair(reason::MALFORMED, "gpuinfo", gpus),
        }
    }
    let key = get("job").and_then(|job| job_key(node, job, get("epoch")));
    // `none` and `unknown` are no numbers.
    let used = get("gpus").unwrap_or_default().split(',').filter_map(|gpu| gpu.trim().parse::<u64>().ok());
    if let Some(key) = key {
        for index in used.filter(|index| *index < MOST_GPUS) {
            samples.used_by(node, index, ts, &key);
        }
    }
    trace.ledger.keep(row);
}

/// Names of values in `gpuinfo`.
const GPU_VALUES: [(&str, GpuField); 5] = [
    ("cutil%", GpuField::Util),
    ("mutil%", GpuField::MemUtil),
    ("musekib", GpuField::MemUsed),
    ("poww", GpuField::Power),
    ("tempc", GpuField::Temp),
];

/// The readings of each GPU in `fan%=27|28,musekib=1014720|269696,…`. An empty place is 0. A name left out altogether is 0
/// for all GPUs or not measured: unknown, but for the utilisation. `None` if this is no such list.
fn pairs_of_gpus(text: &str) -> Option<Vec<Vec<Reading<'static>>>> {
    let pairs = pairs(text)?;
    let count = pairs.iter().map(|(_, values)| values.split('|').count()).max()?;
    if count as u64 > MOST_GPUS {
        return None;
    }
    let mut gpus: Vec<Vec<Reading<'static>>> = (0..count).map(|_| Vec::new()).collect();
    for (name, field) in GPU_VALUES {
        let values = pairs.iter().find(|(key, _)| key == name).map(|(_, values)| values.as_str());
        // Where no GPU does anything, the utilisation is left out.
        let values = values.or((field == GpuField::Util).then_some(""));
        let mut values = values.map(|values| values.split('|'));
        for gpu in &mut gpus {
            let value = values.as_mut().map(|values| values.next().unwrap_or(""));
            let value = value.and_then(|value| if value.is_empty() { Some(0.0) } else { value.parse().ok() });
            gpu.push(Reading { field, name, value });
        }
    }
    Some(gpus)
}

/// The values of a record by name: `name=value` between commas, the whole in quotes where it holds some; a quote within
/// quotes is doubled. `None` if some part has no name.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut field = String::new();
    let (mut quoted, mut chars) = (false, text.trim_end().chars().peekable());
    loop {
        let next = chars.next();
        match next {
            Some('"') if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            // A quote inside a bare value is one of its characters.
            Some('"') if quoted || field.is_empty() => quoted = !quoted,
            Some(',') if !quoted => {}
            Some(c) => {
                field.push(c);
                continue;
            }
            None => {}
        }
        if next == Some('"') {
            continue;
        }
        let (name, value) = field.split_once('=')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '_' | '-');
        if name.is_empty() || !name.chars().all(is_name) {
            return None;
        }
        pairs.push((name.to_owned(), value.to_owned()));
        field.clear();
        if next.is_none() {
            return Some(pairs);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_by_name_quoted_and_nested() {
        let of = |text: &str| {
            pairs(text)
                .map(|pairs| pairs.into_iter().map(|(name, value)| format!("{name}:{value}")).collect::<Vec<_>>())
        };
        assert_eq!(of("v=1,cmd=tmux: server,load=a'B|c").unwrap(), ["v:1", "cmd:tmux: server", "load:a'B|c"]);
        assert_eq!(of(r#"a="x","b=1,""2""",c="#).unwrap(), [r#"a:"x""#, r#"b:1,"2""#, "c:"]);
        assert_eq!((of("v=1,,x=2"), of("2023-01-01,host,8"), of("")), (None, None, None));
        let gpus = pairs_of_gpus("cutil%=78|58|,poww=209|x").unwrap();
        let of_gpu = |ix: usize| [0, 3].map(|at: usize| gpus[ix][at].value);
        assert_eq!([0, 1, 2].map(of_gpu), [[Some(78.0), Some(209.0)], [Some(58.0), None], [Some(0.0), Some(0.0)]]);
        let idle = pairs_of_gpus("poww=20").unwrap();
        assert_eq!((idle[0][0].value, idle[0][1].value, idle[0][3].value), (Some(0.0), None, Some(20.0)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z0-9=,|\"%é]{0,40}") {
            let _ = (pairs(&text), pairs_of_gpus(&text));
        }
    }
}
