//! Where jobs begin and when they move, for scripts and for SkyPilot.
//!
//! `moves.csv` has a line for each place of each job: its price now, and the price below which the job moves there. Each job is a SkyPilot task that asks for its place, in the names of its provider; a zone of AWS is left out if it is not named as AWS names its zones. O(places). Worked example: a place that costs 1.02 an hour and is worth a move below 0.88 is
//! `…,1.02,0.88`.

use serde_json::{Value, json};

use super::answer::{MovesAnswer, Place};
use crate::cloud::infra::infra;
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emitted::{table, task, task_names};

/// The list: `moves.csv`.
///
/// # Errors
/// If it cannot be written, which no input should bring about.
pub fn list(answer: &MovesAnswer) -> Result<Emitted> {
    let head = ["job", "begin_here", "provider", "zone", "instance", "gpus_used", "usd_per_h", "move_below_usd_per_h"];
    let rows = answer.jobs.iter().flat_map(|job| {
        let places = job.place.iter().map(|place| (true, place)).chain(job.others.iter().map(|place| (false, place)));
        places.map(|(begins, place)| {
            [
                job.job.clone(),
                begins.to_string(),
                place.provider.clone(),
                place.zone.clone(),
                place.instance.clone(),
                place.gpus.to_string(),
                format!("{:.4}", place.usd_per_h),
                place.move_below_usd_per_h.map_or_else(String::new, |price| format!("{price:.4}")),
            ]
        })
    });
    table("moves.csv", head, rows)
}

/// What a task of SkyPilot asks for, in the names of each provider.
fn resources(place: &Place) -> Value {
    let mut asked = match place.provider.as_str() {
        "azure" => {
            // Tables of prices write `NC6s v3`, Azure itself `Standard_NC6s_v3`.
            let size = place.instance.replace(' ', "_");
            let size = if size.starts_with("Standard_") { size } else { format!("Standard_{size}") };
            json!({ "instance_type": size, "use_spot": true })
        }
        // Google sells GPUs beside machines: the prices name the GPUs.
        "gcp" => json!({ "accelerators": place.instance, "use_spot": true }),
        _ => json!({ "instance_type": place.instance, "use_spot": true }),
    };
    if let (Some(infra), Some(fields)) = (infra(Some(&place.provider), &place.zone), asked.as_object_mut()) {
        fields.insert("infra".to_owned(), infra.into());
    }
    asked
}

/// A SkyPilot task for each job with a place.
///
/// # Errors
/// If two jobs have names that cannot be told apart in file names.
pub fn sky_pilot(answer: &MovesAnswer) -> Result<Vec<Emitted>> {
    let mut found: Vec<Emitted> = Vec::new();
    let with_place = || answer.jobs.iter().filter_map(|job| Some((job, job.place.as_ref()?)));
    for ((job, place), name) in with_place().zip(task_names(with_place().map(|(job, _)| job.job.as_str()))?) {
        let document = json!({
            "name": name,
            "resources": resources(place),
            "run": "# Put your command here. It must resume from its last checkpoint.\n",
        });
        let moves = job.others.iter().any(|other| other.move_below_usd_per_h.is_some());
        let what = format!(
            "{}: {} in {} at {:.4} {} an hour on {}; {}.",
            job.job,
            place.instance,
            place.zone,
            place.usd_per_h,
            answer.currency,
            answer.to,
            if moves { "moves.csv says when to move" } else { "it stays there to its end" }
        );
        found.push(task(&name, &what, document));
    }
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn places_have_the_names_of_their_providers() {
        let place = |provider: &str, zone: &str, instance: &str| {
            resources(&Place {
                provider: provider.to_owned(),
                zone: zone.to_owned(),
                instance: instance.to_owned(),
                gpu: "v100".to_owned(),
                gpus: 1,
                steps_per_s: 1.0,
                usd_per_h: 1.0,
                usd: 1.0,
                time_s: 1.0,
                move_below_usd_per_h: None,
            })
        };
        let spot = |mut asked: Value| {
            assert_eq!(asked.as_object_mut().unwrap().remove("use_spot"), Some(true.into()));
            asked
        };
        let azure = spot(place("azure", "us_north_central", "NC24rs v2"));
        assert_eq!(azure, json!({ "infra": "azure/northcentralus", "instance_type": "Standard_NC24rs_v2" }));
        let google = spot(place("gcp", "us-west1-b", "V100:8"));
        assert_eq!(google, json!({ "infra": "gcp/us-west1/us-west1-b", "accelerators": "V100:8" }));
        let amazon = spot(place("aws", "us-east-1a", "p3.2xlarge"));
        assert_eq!(amazon, json!({ "infra": "aws/us-east-1/us-east-1a", "instance_type": "p3.2xlarge" }));
    }
}
