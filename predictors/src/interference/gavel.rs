//! Gavel's measured throughputs (`simulation_throughputs.json`, OSDI 2020): steps a second of job types alone and in pairs on one GPU.
//!
//! The file is an object of GPU types; each holds job types named `('ResNet-18 (batch size 16)', 1)`, whose last number is how many GPUs the job has;
//! each of those holds `null`, its steps a second alone, and for every other job type that shares its GPU a list of both jobs' steps a second. 0 says
//! that the pair did not fit. [`read`] takes jobs of one GPU, [`alone`] what gangs of any size make alone. A normalised speed is the steps a second in the pair over those alone on that GPU type. GPU types
//! that end in `_unconsolidated` have each GPU of a gang on a server of its own: [`alone`] reads that of gangs, and their figures of one GPU, which repeat the others, are passed over. The batch size is what the name says.
//!
//! O(bytes). Worked number: alone 4.795 steps/s and beside its like 2.408 on a K80 give 0.502.

use serde_json::{Map, Value};

use super::table::{JobProfile, Quantity, SharedPair, SharingTable, Speeds, batch_of_name};
use crate::error::{Error, Result};

/// Most GPUs of a gang.
const MOST_GPUS: u32 = 4_096;
/// Suffix of the name of a GPU type where each GPU is on a server of its own.
const APART: &str = "_unconsolidated";

/// Steps a second of a gang alone on one GPU type.
#[derive(Debug, Clone, PartialEq)]
pub struct GangRate {
    /// GPU type.
    pub gpu: String,
    /// Job type.
    pub job: String,
    /// GPUs of the gang.
    pub gpus: u32,
    /// Steps a second of the whole gang on one machine, or on as few as it takes; 0 where it does not run.
    pub steps_per_s: f64,
    /// Steps a second with each GPU on a machine of its own; unknown where that was not measured,
    /// and for one GPU.
    pub apart_steps_per_s: Option<f64>,
}

/// Name and GPUs of a key such as `('A3C', 1)`.
fn key(text: &str) -> Option<(&str, u32)> {
    let inner = text.strip_prefix("('")?.strip_suffix(')')?;
    let (name, gpus) = inner.rsplit_once("', ")?;
    Some((name, gpus.parse().ok().filter(|gpus| (1..=MOST_GPUS).contains(gpus))?))
}

/// Error about a file, with the line if that is known.
fn wrong(file: &str, line: Option<u64>, found: String) -> Error {
    let remedy = "name Gavel's simulation_throughputs.json, or a CSV of the form in the guide".to_owned();
    Error::Measured { file: file.to_owned(), line, found, remedy }
}

/// The object of GPU types that a text holds.
fn types(file: &str, text: &str) -> Result<Map<String, Value>> {
    let whole = serde_json::from_str(text)
        .map_err(|error| wrong(file, Some(error.line() as u64), format!("it is no JSON: {error}")))?;
    match whole {
        Value::Object(types) => Ok(types),
        _ => Err(wrong(file, None, "it holds no object of GPU types".to_owned())),
    }
}

/// Steps a second of gangs alone, by GPU type.
///
/// # Errors
/// If it is no JSON of this form, or a gang has no steps a second of at least 0.
pub fn alone(file: &str, text: &str) -> Result<Vec<GangRate>> {
    let mut result = Vec::new();
    let types = types(file, text)?;
    for (gpu, jobs) in types.iter().filter(|(name, _)| !name.ends_with(APART)) {
        let apart_type = format!("{gpu}{APART}");
        let rate = |gpu: &str, job_key: &str, shared: &Value| {
            let rate = shared.get("null").and_then(Value::as_f64).filter(|rate| rate.is_finite() && *rate >= 0.0);
            rate.ok_or_else(|| wrong(file, None, format!("`{gpu}` `{job_key}` holds no steps a second alone")))
        };
        let at = |what: &str| wrong(file, None, format!("`{gpu}` {what}"));
        for (job_key, shared) in jobs.as_object().ok_or_else(|| at("holds no object of job types"))? {
            let (job, gpus) = key(job_key).ok_or_else(|| at(&format!("has a job type `{job_key}`")))?;
            let apart = types.get(&apart_type).and_then(|jobs| jobs.get(job_key)).filter(|_| gpus > 1);
            result.push(GangRate {
                gpu: gpu.clone(),
                job: job.to_owned(),
                gpus,
                steps_per_s: rate(gpu, job_key, shared)?,
                apart_steps_per_s: apart.map(|apart| rate(&apart_type, job_key, apart)).transpose()?,
            });
        }
    }
    Ok(result)
}

/// Adds what the text of a file holds to a table.
///
/// # Errors
/// If it is no JSON of this form.
pub fn read(file: &str, text: &str, table: &mut SharingTable) -> Result<()> {
    let wrong = |line: Option<u64>, result: String| wrong(file, line, result);
    let types = types(file, text)?;
    let mut result = Vec::new();
    let mut of_several = 0u64;
    for (gpu_name, jobs) in types.iter().filter(|(name, _)| !name.ends_with(APART)) {
        let at = |what: &str| format!("`{gpu_name}` {what}");
        let jobs = jobs.as_object().ok_or_else(|| wrong(None, at("holds no object of job types")))?;
        let gpu = table.gpu_type(gpu_name);
        let alone = |job: &str| jobs.get(job)?.get("null")?.as_f64().filter(|rate| *rate > 0.0);
        for (job_key, shared) in jobs {
            let (name, gpus) = key(job_key).ok_or_else(|| wrong(None, at(&format!("has a job type `{job_key}`"))))?;
            if gpus != 1 {
                of_several += 1;
                continue;
            }
            let shared = shared.as_object().ok_or_else(|| wrong(None, at(&format!("`{job_key}` holds no object"))))?;
            let a = table.job(name);
            let mut profile = JobProfile::default();
            profile.set(Quantity::StepsPerS, alone(job_key));
            profile.set(Quantity::Batch, batch_of_name(name));
            table.set_profile(gpu, a, &profile);
            for (other, rates) in shared.iter().filter(|(other, _)| *other != "null") {
                let (other_name, other_gpus) =
                    key(other).ok_or_else(|| wrong(None, at(&format!("`{job_key}` shares with `{other}`"))))?;
                if other_gpus != 1 {
                    of_several += 1;
                    continue;
                }
                let rate = |at: usize| rates.get(at).and_then(Value::as_f64).filter(|rate| rate.is_finite());
                let (Some(rate_a), Some(rate_b)) = (rate(0), rate(1)) else {
                    return Err(wrong(None, at(&format!("`{job_key}` beside `{other}` has no two numbers"))));
                };
                let b = table.job(other_name);
                let (Some(alone_a), Some(alone_b)) = (alone(job_key), alone(other)) else { continue };
                let ran = rate_a > 0.0 && rate_b > 0.0;
                let speeds = ran.then(|| Speeds { a: rate_a / alone_a, b: rate_b / alone_b });
                result.push(SharedPair { gpu, a, b, speeds });
            }
        }
    }
    if of_several > 0 {
        table
            .notes
            .push(format!("{of_several} entries of jobs on several GPUs are passed over: sharing is of one GPU."));
    }
    table.add_pairs(result);
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"k80": {
        "('A (batch size 16)', 1)": {"null": 4.0, "('A (batch size 16)', 1)": [2.0, 2.0], "('B', 1)": [3.0, 0.5]},
        "('B', 1)": {"null": 1.0, "('A (batch size 16)', 1)": [0.5, 3.0], "('B', 1)": [0.0, 0.0]},
        "('B', 4)": {"null": 3.0, "('B', 1)": [1.0, 1.0]}, "('C', 1)": {"null": 2.0, "('B', 4)": [1.0, 1.0]}}, "k80_unconsolidated": {"('B', 1)": {"null": 9.0}}}"#;

    #[test]
    fn a_small_file_is_read() {
        let mut table = SharingTable::new();
        read("g.json", TEXT, &mut table).unwrap();
        assert_eq!((table.gpu_types().len(), table.jobs().len(), table.pairs().len()), (1, 3, 3));
        let pair = |at: usize| table.pairs()[at].speeds.map(|speeds| (speeds.a, speeds.b));
        assert_eq!([pair(0), pair(1), pair(2)], [Some((0.5, 0.5)), Some((0.75, 0.5)), None]);
        let a = table.profile(0, 0);
        assert_eq!((a.steps_per_s(), a.get(Quantity::Batch)), (Some(4.0), Some(16.0)));
        assert!(table.notes[0].starts_with("2 entries of jobs on several GPUs"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        let told = |text: &str| read("g.json", text, &mut SharingTable::new()).unwrap_err().to_string();
        assert!(told("{\n\"k80\": ").contains("g.json, line 2: it is no JSON"));
        assert!(told("{\"k80\": 7}").contains("`k80` holds no object of job types"));
        assert!(told("{\"k80\": {\"A\": {}}}").contains("job type `A`"));
        let broken = TEXT.replace("[3.0, 0.5]", "[3.0]");
        assert!(told(&broken).contains("has no two numbers"));
    }
}
