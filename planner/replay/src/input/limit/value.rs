//! Values as Slurm writes them: amounts of trackable resources, lengths of time, whole numbers.
//!
//! Worked numbers: `gres/gpu=8,cpu=64` is 8 GPUs and 64 processors; `1-12:00:00` is a day and a half; `90` is 90 min where Slurm counts minutes.

use std::collections::BTreeSet;

use tracecast_analytics::schema::Resource;

use crate::scenario::parse_duration;
use tracecast_sim::limit::Stopped;

/// Flags of a QOS that are known and not replayed.
pub(super) const FLAGS_NOT_REPLAYED: [&str; 6] = [
    "enforceusagethreshold",
    "noreserve",
    "partitionmaxnodes",
    "partitionminnodes",
    "requiresreservation",
    "usagefactorsafe",
];
/// Words for no limit.
const NO_LIMIT: [&str; 4] = ["unlimited", "infinite", "none", "-1"];
/// The greatest amount.
const MOST: f64 = 1e12;
const SECOND_MS: i64 = 1000;

/// Whether a value says that there is no limit.
fn is_unlimited(value: &str) -> bool {
    NO_LIMIT.contains(&value.to_ascii_lowercase().as_str())
}

/// Amounts of what jobs may compete for, thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tres {
    gpus: Option<u64>,
    cpus: Option<u64>,
    nodes: Option<u64>,
}

impl Tres {
    /// Reads `gres/gpu=8,cpu=64`; what is of something else is added to `unheeded`.
    pub(super) fn parse(text: &str, key: &str, unheeded: &mut BTreeSet<String>) -> Result<Self, String> {
        let mut result = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let malformed = || format!("`{part}` is no limit of a resource; write gres/gpu=8");
            let (name, value) = part.split_once('=').ok_or_else(malformed)?;
            let amount = || -> Result<Option<u64>, String> {
                if is_unlimited(value) {
                    return Ok(None);
                }
                let value: f64 = value.trim().parse().map_err(|_| malformed())?;
                if !(0.0..=MOST).contains(&value) {
                    return Err(malformed());
                }
                Ok(Some((value * 1000.0).round() as u64))
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "gres/gpu" => result.gpus = amount()?,
                "cpu" => result.cpus = amount()?,
                "node" => result.nodes = amount()?,
                // Amounts of memory have units, such as 500G.
                "mem" | "billing" | "energy" | "license" | "pages" | "vmem" => {
                    unheeded.insert(format!("{key} of {name}"));
                }
                other if other.contains('/') => {
                    unheeded.insert(format!("{key} of {name}"));
                }
                _ => return Err(malformed()),
            }
        }
        Ok(result)
    }

    /// Returns the amount of a resource.
    pub(super) fn of(self, resource: Resource) -> Option<u64> {
        match resource {
            Resource::Gpus => self.gpus,
            Resource::Cpus => self.cpus,
            Resource::Nodes => self.nodes,
        }
    }
}

/// A whole number; `None` for no limit.
pub(super) fn whole(text: &str) -> Result<Option<u32>, String> {
    if is_unlimited(text) {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| format!("`{text}` is no whole number of 0 or more"))
}

/// A length of time as Slurm writes it where a bare number is minutes, or one with a unit such as `2h`; in milliseconds, `None` for no limit.
pub(super) fn minutes(text: &str) -> Result<Option<i64>, String> {
    length(text, 60)
}

/// Parses a length of time as Slurm writes it where a bare number is seconds; in milliseconds,
/// `None` for no limit.
pub(super) fn seconds(text: &str) -> Result<Option<i64>, String> {
    length(text, 1)
}

/// Parses the fate of a preempted job; `None` if the cluster's mode holds.
pub(super) fn mode(text: &str) -> Result<Option<Stopped>, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "" | "cluster" | "off" => Ok(None),
        "requeue" => Ok(Some(Stopped::Requeued)),
        "cancel" => Ok(Some(Stopped::Cancelled)),
        _ => Err(format!("PreemptMode `{text}` is not replayed; there are requeue and cancel")),
    }
}

fn length(text: &str, bare_s: i64) -> Result<Option<i64>, String> {
    let text = text.trim();
    if text.is_empty() || is_unlimited(text) {
        return Ok(None);
    }
    let wrong = || format!("`{text}` is no length of time; write 1-12:00:00, 12:00:00 or 36h");
    if text.ends_with(|last: char| last.is_ascii_alphabetic()) {
        return parse_duration(text).map(Some).map_err(|_| wrong());
    }
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(days), rest),
        None => (None, text),
    };
    let number =
        |part: &str| part.parse::<i64>().ok().filter(|number| (0..=100_000_000).contains(number)).ok_or_else(wrong);
    let parts = rest.split(':').map(number).collect::<Result<Vec<i64>, String>>()?;
    let seconds = match (days, parts.as_slice()) {
        (Some(days), [hours]) => number(days)? * 86_400 + hours * 3600,
        (Some(days), [hours, minutes]) => number(days)? * 86_400 + hours * 3600 + minutes * 60,
        (Some(days), [hours, minutes, seconds]) => number(days)? * 86_400 + hours * 3600 + minutes * 60 + seconds,
        (None, [bare]) => bare * bare_s,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (None, [hours, minutes, seconds]) => hours * 3600 + minutes * 60 + seconds,
        _ => return Err(wrong()),
    };
    Ok(Some(seconds * SECOND_MS))
}
