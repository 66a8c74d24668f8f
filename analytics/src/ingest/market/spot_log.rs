//! Logs of scripts that try to keep spot instances, and write what they got: those of MLCloudPrice's authors on AWS and on Google Cloud.
//!
//! | line | says |
//! |---|---|
//! | `[2020-03-01T10:11:21.000Z] Created instance i-0 with 8 GPU(s) of type v100 in zone us-east-1b` | an instance was got |
//! | `[…] Instance i-0 running in zone us-east-1b` | it is still there |
//! | `[…] Instance i-0 not running in zone us-east-1b` | it is gone, or could not be got |
//! | `[…] Instance with 8 GPU(s) of type k80 creation failed` | one was asked for in vain; the line names no zone |
//! | `[…] Instance i-0 creation failed`, `[…] Successfully deleted instance i-0` | nothing that other lines do not say |
//! | `Zone: us-west1-b, GPU type: nvidia-tesla-v100, Number of GPUs: 8, Price per hour: $6.808` | a price, of the moment in the file's name |
//!
//! Each of the first four is a sample of availability, 1 or 0, of a zone and of instances with so many GPUs of a type (`V100:8`). Samples are as far apart as the script took, so none has a gap. What an instance is, only its creation tells, wherever in the file that stands: one that was never created is of
//! unknown type. A failure without a zone counts for each zone in which instances of that type were lost and not got again; before any was, its sample has no zone.
//!
//! A row of the ledger is one line. O(lines). Worked example: created at 10:00, running at 10:11, not running at 10:22: 1, 1, 0.

use std::collections::{BTreeMap, HashMap};

use super::super::batch::line::{each_record, mostly_records};
use super::super::field;
use super::super::options::ReadOptions;
use super::super::reader::{Confidence, Reader};
use super::super::source::{Head, SourceFile};
use super::super::telemetry::moment_in_name;
use crate::error::Result;
use crate::quality::reason;
use crate::schema::{AvailabilityRow, PriceRow};
use crate::time::{Zone, parse_with_offset};
use crate::trace::Trace;

/// GPUs of a type: `V100:8`.
fn of_gpus(gpu: &str, gpus: &str) -> Option<(String, f64)> {
    let number: u32 = gpus.parse().ok().filter(|gpus| *gpus > 0)?;
    let gpu = gpu.strip_prefix("nvidia-tesla-").or_else(|| gpu.strip_prefix("nvidia-")).unwrap_or(gpu);
    (!gpu.is_empty()).then(|| (gpu.to_ascii_uppercase(), f64::from(number)))
}

/// Content of a line.
#[derive(Debug, Clone, PartialEq)]
enum Event {
    Created { name: String, gpus: String, zone: String },
    Running { name: String, zone: String },
    Gone { name: String, zone: String },
    Failed { gpus: String },
    Nothing,
    Price { zone: String, gpu: String, gpus: f64, usd_per_h: String },
}

/// A line, and its moment if it has one.
fn parse(line: &str) -> Option<(Option<i64>, Event)> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("Zone: ") {
        let mut parts = rest.split(", ");
        let zone = parts.next()?;
        let gpu = parts.next()?.strip_prefix("GPU type: ")?;
        let gpus = parts.next()?.strip_prefix("Number of GPUs: ")?;
        let usd_per_h = parts.next()?.strip_prefix("Price per hour: $")?.to_owned();
        let (gpu, gpus) = of_gpus(gpu, gpus)?;
        return Some((None, Event::Price { zone: zone.to_owned(), gpu, gpus, usd_per_h }));
    }
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let label = |gpu: &str, gpus: &str| of_gpus(gpu, gpus).map(|(gpu, gpus)| format!("{gpu}:{gpus}"));
    let said = match words.as_slice() {
        ["Created", "instance", name, "with", gpus, "GPU(s)", "of", "type", gpu, "in", "zone", zone] => {
            Event::Created { name: (*name).to_owned(), gpus: label(gpu, gpus)?, zone: (*zone).to_owned() }
        }
        ["Instance", name, "running", "in", "zone", zone] => {
            Event::Running { name: (*name).to_owned(), zone: (*zone).to_owned() }
        }
        ["Instance", name, "not", "running", "in", "zone", zone] => {
            Event::Gone { name: (*name).to_owned(), zone: (*zone).to_owned() }
        }
        ["Instance", "with", gpus, "GPU(s)", "of", "type", gpu, "creation", "failed"] => {
            Event::Failed { gpus: label(gpu, gpus)? }
        }
        ["Instance", _, "creation", "failed"] | ["Successfully", "deleted", "instance", _] => Event::Nothing,
        _ => return None,
    };
    Some((Some(parse_with_offset(time)?), said))
}

/// See the module.
pub(crate) struct SpotLog;

impl Reader for SpotLog {
    fn id(&self) -> &'static str {
        "spot-log"
    }

    fn describes(&self) -> &'static str {
        "logs of scripts that keep spot instances (MLCloudPrice's on AWS and Google Cloud)"
    }

    fn sniff(&self, head: &Head) -> Confidence {
        if mostly_records(head, |line| parse(line).is_some()) { Confidence::Sure } else { Confidence::No }
    }

    fn read(&self, files: &[SourceFile], options: &ReadOptions<'_>, trace: &mut Trace) -> Result<()> {
        let mut without_type = 0;
        for file in files {
            without_type += read_file(file, options, trace)?;
        }
        if without_type > 0 {
            trace.note(format!(
                "{without_type} samples of spot availability are of instances that were never created, so what they are is not known."
            ));
        }
        Ok(())
    }
}

/// Reads a file, and returns the number of its samples of an unknown type.
fn read_file(file: &SourceFile, options: &ReadOptions<'_>, trace: &mut Trace) -> Result<usize> {
    let named_ms = moment_in_name(&file.stem(), &Zone::utc());
    let mut types: HashMap<String, String> = HashMap::new();
    let mut samples: Vec<(i64, Option<String>, String, f64)> = Vec::new();
    // Whether the last instance of a type and zone is there.
    let mut is_up: BTreeMap<(String, String), bool> = BTreeMap::new();
    each_record(file, options, trace, |text, mut audit, trace| {
        let Some((ts, said)) = parse(text) else {
            trace.ledger.quarantine(&audit, reason::MALFORMED, "", text);
            return;
        };
        match (ts.or(named_ms), said) {
            (Some(ts), Event::Created { name, gpus, zone }) => {
                is_up.insert((gpus.clone(), zone.clone()), true);
                types.insert(name.clone(), gpus);
                samples.push((ts, Some(zone), name, 1.0));
            }
            (Some(ts), Event::Running { name, zone }) => samples.push((ts, Some(zone), name, 1.0)),
            (Some(ts), Event::Gone { name, zone }) => {
                if let Some(gpus) = types.get(&name) {
                    is_up.insert((gpus.clone(), zone.clone()), false);
                }
                samples.push((ts, Some(zone), name, 0.0));
            }
            (Some(ts), Event::Failed { gpus }) => {
                // Such a line names no instance: the type stands for it.
                types.insert(gpus.clone(), gpus.clone());
                let lost = is_up.iter().filter(|((of, _), up)| *of == gpus && !**up).map(|((_, zone), _)| zone.clone());
                let zones: Vec<String> = lost.collect();
                if zones.is_empty() {
                    samples.push((ts, None, gpus, 0.0));
                } else {
                    samples.extend(zones.into_iter().map(|zone| (ts, Some(zone), gpus.clone(), 0.0)));
                }
            }
            (_, Event::Price { zone, gpu, gpus, usd_per_h }) => {
                trace.prices.push(PriceRow {
                    provider: Some("gcp".into()),
                    zone: Some(zone.as_str().into()),
                    instance: Some(format!("{gpu}:{gpus}").as_str().into()),
                    gpu_type: Some(gpu.as_str().into()),
                    gpus: Some(gpus),
                    ts: named_ms,
                    usd_per_h: field::amount(Some(&usd_per_h), "Price per hour", &mut audit),
                    kind: Some("spot".into()),
                    ..PriceRow::default()
                });
            }
            (None, _) | (_, Event::Nothing) => {}
        }
        trace.ledger.keep(audit);
    })?;
    samples.sort_by_key(|(ts, ..)| *ts);
    let mut unknown = 0;
    for (ts, zone, name, count) in samples {
        let instance = types.get(&name);
        unknown += usize::from(instance.is_none());
        trace.availability.push(AvailabilityRow {
            zone: zone.as_deref().map(Into::into),
            instance: instance.map(|instance| instance.as_str().into()),
            ts: Some(ts),
            gap_s: None,
            count: Some(count),
        });
    }
    Ok(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_they_say() {
        let of = |line: &str| parse(line).map(|(_, said)| said);
        let gone = Event::Gone { name: "i-1".to_owned(), zone: "us-east-1c".to_owned() };
        assert_eq!(of("[2020-03-15T10:42:48.000Z] Instance i-1 not running in zone us-east-1c"), Some(gone));
        let failed = Event::Failed { gpus: "K80:8".to_owned() };
        assert_eq!(of("[2020-03-15T10:43:22.000Z] Instance with 8 GPU(s) of type k80 creation failed"), Some(failed));
        let price =
            Event::Price { zone: "z".to_owned(), gpu: "V100".to_owned(), gpus: 8.0, usd_per_h: "6.8".to_owned() };
        assert_eq!(of("Zone: z, GPU type: nvidia-tesla-v100, Number of GPUs: 8, Price per hour: $6.8"), Some(price));
        for odd in
            ["[soon] Instance i-1 running in zone z", "Instance i-1 running", "Zone: z", "[2020-03-15T10:43:22Z] Hello"]
        {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
