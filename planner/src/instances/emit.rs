//! What to rent, for people and for SkyPilot.
//!
//! `instances.csv` has a line for each job. Each job with a way is a SkyPilot task that asks for its instances; the command is left to the reader. O(jobs). Worked example: two instances on spot are `num_nodes: 2` and
//! `use_spot: true`.

use serde_json::json;
use tracecast_analytics::report::format;

use super::answer::InstancesAnswer;
use super::option::RentMarket;
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::slug::slug;
use crate::yaml::stream;

/// The list: `instances.csv`.
///
/// # Errors
/// If no job has a way.
pub fn list(answer: &InstancesAnswer) -> Result<Emitted> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let broken = |error: csv::Error| Error::Defect(format!("the list of instances cannot be written: {error}"));
    let head =
        ["job", "type", "instance", "terms", "instances", "gpus_used", "expected_hours", "expected_cost", "currency"];
    writer.write_record(head).map_err(broken)?;
    let ways = answer.jobs.iter().filter_map(|job| Some((job, job.way.as_ref()?)));
    for (job, way) in ways {
        let row = [
            job.job.clone(),
            job.job_type.clone(),
            way.instance.clone(),
            way.market.in_words().to_owned(),
            way.instances.to_string(),
            way.gpus.to_string(),
            format!("{:.3}", way.time_s / 3600.0),
            format!("{:.2}", way.cost),
            answer.currency.clone(),
        ];
        writer.write_record(row).map_err(broken)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| Error::Defect(format!("the list of instances cannot be written: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Error::Defect(format!("the list of instances is no text: {error}")))?;
    Ok(("instances.csv".to_owned(), text))
}

/// A SkyPilot task for each job with a way.
///
/// # Errors
/// If two jobs have names that cannot be told apart in file names.
pub fn sky_pilot(answer: &InstancesAnswer) -> Result<Vec<Emitted>> {
    let mut found: Vec<Emitted> = Vec::new();
    for (at, job) in answer.jobs.iter().enumerate() {
        let Some(way) = &job.way else { continue };
        let name = slug(&job.job).unwrap_or_else(|| format!("job-{}", at + 1));
        let file = format!("{name}.yaml");
        if found.iter().any(|(other, _)| *other == file) {
            return Err(Error::NotEmitted(format!(
                "two jobs would be written as {file}; give each a name of its own in letters and digits"
            )));
        }
        let what = format!(
            "{}: {} at {:.4} steps a second, about {:.2} h and {:.2} {}.",
            job.job,
            job.job_type,
            way.steps_per_s,
            way.time_s / 3600.0,
            way.cost,
            answer.currency
        );
        let document = json!({
            "name": name,
            "num_nodes": way.instances,
            "resources": { "instance_type": way.instance, "use_spot": way.market == RentMarket::Spot },
            "run": format!("# Put your command here. It uses {}.\n", format::counted(u64::from(way.gpus), "GPU", "GPUs")),
        });
        let comment: String = what.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        found.push((file, stream(&[(comment, document)])));
    }
    Ok(found)
}
