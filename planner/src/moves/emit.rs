//! Where jobs begin and when they move, for scripts and for SkyPilot.
//!
//! `moves.csv` has a line for each place of each job: its price now, and the price below which the job moves there. Each job is a SkyPilot task that asks for its place, if the zone is named as AWS names its zones. O(places). Worked example: a place that costs 1.02 an hour and is worth a move below 0.88 is
//! `…,1.02,0.88`.

use serde_json::json;

use super::answer::MovesAnswer;
use crate::cloud::emit::infra;
use crate::error::Result;
use crate::plan::Emitted;
use crate::plan::emitted::{table, task_names};
use crate::yaml::stream;

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

/// A SkyPilot task for each job with a place.
///
/// # Errors
/// If two jobs have names that cannot be told apart in file names.
pub fn sky_pilot(answer: &MovesAnswer) -> Result<Vec<Emitted>> {
    let mut found: Vec<Emitted> = Vec::new();
    let with_place = || answer.jobs.iter().filter_map(|job| Some((job, job.place.as_ref()?)));
    for ((job, place), name) in with_place().zip(task_names(with_place().map(|(job, _)| job.job.as_str()))?) {
        let mut resources = json!({ "instance_type": place.instance, "use_spot": true });
        if let (Some(infra), Some(fields)) = (infra(&place.zone), resources.as_object_mut()) {
            fields.insert("infra".to_owned(), infra.into());
        }
        let document = json!({
            "name": name,
            "resources": resources,
            "run": "# Put your command here. It must resume from its last checkpoint.\n",
        });
        let what = format!(
            "{}: {} in {} at {:.4} {} an hour on {}; moves.csv says when to move.",
            job.job, place.instance, place.zone, place.usd_per_h, answer.currency, answer.to
        );
        let comment: String = what.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        found.push((format!("{name}.yaml"), stream(&[(comment, document)])));
    }
    Ok(found)
}
