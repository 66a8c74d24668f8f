//! What to rent, for people and for SkyPilot.
//!
//! `instances.csv` has a line for each job. Each job with a way is a SkyPilot task that asks for its instances, in the offer's zone if its name tells whose it is; the command is left to the reader, as is an instance type that the offers do not tell. O(jobs). Worked example: two instances on spot are `num_nodes: 2` and
//! `use_spot: true`.

use serde_json::json;
use tracecast_analytics::report::format;

use super::answer::InstancesAnswer;
use super::option::RentMarket;
use crate::error::Result;
use crate::market::zone::infra;
use crate::plan::Emitted;
use crate::plan::emit::karpenter::FILL_IN;
use crate::plan::emit::{table, task, task_names};

/// The list: `instances.csv`, with a line for each job, one that has no way among them.
///
/// # Errors
/// If it cannot be written, which no input should bring about.
pub fn list(answer: &InstancesAnswer) -> Result<Emitted> {
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
    let rows = answer.jobs.iter().map(|job| {
        let hours = |seconds: f64| format!("{:.3}", seconds / 3600.0);
        let [name, job_type, steps, deadline] = [
            job.job.clone(),
            job.job_type.clone(),
            job.steps.to_string(),
            job.deadline_s.map_or_else(String::new, hours),
        ];
        let [instance, zone, terms, instances, gpus, basis, time, cost, currency] = match &job.way {
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
        [name, job_type, steps, deadline, instance, zone, terms, instances, gpus, basis, time, cost, currency]
    });
    table("instances.csv", head, rows)
}

/// A SkyPilot task for each job with a way.
///
/// # Errors
/// If two jobs have names that cannot be told apart in file names.
pub fn sky_pilot(answer: &InstancesAnswer) -> Result<Vec<Emitted>> {
    let mut result: Vec<Emitted> = Vec::new();
    let with_way = || answer.jobs.iter().filter_map(|job| Some((job, job.way.as_ref()?)));
    for ((job, way), name) in with_way().zip(task_names(with_way().map(|(job, _)| job.job.as_str()))?) {
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
        let untold = format!(
            " IT CANNOT BE LAUNCHED YET: the offers tell no instance type of {}. Put what your provider calls it in place of {FILL_IN}.",
            way.instance
        );
        let (instance_type, untold) = match &way.instance_type {
            Some(told) => (told.as_str(), ""),
            None => (FILL_IN, untold.as_str()),
        };
        let what = what + untold;
        let mut resources =
            json!({ "instance_type": instance_type, "use_spot": way.option.market == RentMarket::Spot });
        if let (Some(place), Some(fields)) =
            (way.zone.as_deref().and_then(|zone| infra(way.provider.as_deref(), zone)), resources.as_object_mut())
        {
            fields.insert("infra".to_owned(), place.into());
        }
        let document = json!({
            "name": name,
            "num_nodes": way.option.instances,
            "resources": resources,
            "run": format!("# Put your command here. It uses {}.\n", format::counted(u64::from(way.option.gpus), "GPU", "GPUs")),
        });
        result.push(task(&name, &what, document));
    }
    Ok(result)
}
