//! What to rent, for people and for SkyPilot.
//!
//! `instances.csv` has a line for each job. Each job with a way is a SkyPilot task that asks for its instances, in the offer's zone if that is named as AWS names its zones; the command is left to the reader. O(jobs). Worked example: two instances on spot are `num_nodes: 2` and
//! `use_spot: true`.

use serde_json::json;
use tracecast_analytics::report::format;

use super::answer::InstancesAnswer;
use super::option::RentMarket;
use crate::cloud::emit::infra;
use crate::error::{Error, Result};
use crate::plan::Emitted;
use crate::plan::slug::slug;
use crate::yaml::stream;

/// The list: `instances.csv`, with a line for each job, one that has no way among them.
///
/// # Errors
/// If it cannot be written, which no input should bring about.
pub fn list(answer: &InstancesAnswer) -> Result<Emitted> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let broken = |what: String| Error::Defect(format!("the list of instances cannot be written: {what}"));
    let head = [
        "job",
        "type",
        "steps",
        "deadline_hours",
        "instance",
        "zone",
        "terms",
        "instances",
        "gpus_used",
        "throughput",
        "expected_hours",
        "expected_cost",
        "currency",
    ];
    writer.write_record(head).map_err(|error| broken(error.to_string()))?;
    for job in &answer.jobs {
        let hours = |seconds: f64| format!("{:.3}", seconds / 3600.0);
        let own = [
            job.job.clone(),
            job.job_type.clone(),
            job.steps.to_string(),
            job.deadline_s.map_or_else(String::new, hours),
        ];
        let way = match &job.way {
            None => ["none", "", "", "", "", "", "", "", ""].map(str::to_owned),
            Some(way) => [
                way.instance.clone(),
                way.zone.clone().unwrap_or_default(),
                way.option.market.in_words().to_owned(),
                way.option.instances.to_string(),
                way.option.gpus.to_string(),
                way.option.basis.in_words().to_owned(),
                hours(way.option.time_s),
                format!("{:.2}", way.option.cost),
                answer.currency.clone(),
            ],
        };
        writer.write_record(own.into_iter().chain(way)).map_err(|error| broken(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| broken(error.to_string()))?;
    Ok(("instances.csv".to_owned(), String::from_utf8(bytes).map_err(|error| broken(error.to_string()))?))
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
            "{}: {} at {:.4} steps a second ({}), about {:.2} h and {:.2} {}.",
            job.job,
            job.job_type,
            way.option.steps_per_s,
            way.option.basis.in_words(),
            way.option.time_s / 3600.0,
            way.option.cost,
            answer.currency
        );
        let mut resources = json!({ "instance_type": way.instance, "use_spot": way.option.market == RentMarket::Spot });
        if let (Some(place), Some(fields)) = (way.zone.as_deref().and_then(infra), resources.as_object_mut()) {
            fields.insert("infra".to_owned(), place.into());
        }
        let document = json!({
            "name": name,
            "num_nodes": way.option.instances,
            "resources": resources,
            "run": format!("# Put your command here. It uses {}.\n", format::counted(u64::from(way.option.gpus), "GPU", "GPUs")),
        });
        let comment: String = what.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        found.push((file, stream(&[(comment, document)])));
    }
    Ok(found)
}
