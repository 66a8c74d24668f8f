//! A cloud plan as tasks of SkyPilot: one on spot, one on-demand, and in words when to go from one to the other.
//!
//! SkyPilot starts and recovers instances and knows no deadline, so the plan writes both tasks, which share their work through a checkpoint that
//! the job itself writes, and notes with the moments of the plan. A job over several zones names them in their order (`ordered`). Where the name of a zone tells whose it is (`infra`), the task asks for it. The notes name the zones
//! that it could not ask for. Karpenter gets the same moments, and the [purchase list](super::purchase) says what is bought. O(1).
//!
//! Worked example: of `us-central1-a` and `here`, in this order, the task names `gcp/us-central1/us-central1-a`, and the notes say that `here` is missing.

use serde_json::{Value, json};
use tracecast_analytics::report::format;

use super::answer::ZoneProbes;
use super::plan::CloudPlanAnswer;
use super::policy::CloudPolicy;
use super::rule::SLICES;
use crate::error::{Error, Result};
use crate::market::zone::infra;
use crate::plan::Emitted;
use crate::yaml::stream;

/// The cautions as files have them, without marks.
fn cautions_as_text(answer: &CloudPlanAnswer) -> Vec<String> {
    let plain = |caution: &String| caution.replace("**", "").replace(['`', '\r'], "").replace('\n', " ");
    answer.cautions.iter().map(plain).collect()
}

/// What the plan does, the cautions and the moments of it, for notes. `task` is what must run once on-demand is due.
pub(super) fn moments(answer: &CloudPlanAnswer, task: &str) -> Vec<String> {
    let hours = |seconds: f64| format!("{:.2} h", seconds / 3600.0);
    let work = match &answer.body.uncertain {
        None => format!("{} of work", hours(answer.body.work_s)),
        Some(of) => {
            let beyond = if of.beyond > 1e-9 {
                format!("; it is more with a chance of {}, of which nothing is promised", format::percent(of.beyond))
            } else {
                String::new()
            };
            format!(
                "work that is uncertain: {} at most, {} on the mean, and {} or less in half of the cases{beyond}",
                hours(of.top_s),
                hours(of.mean_s),
                hours(of.median_s)
            )
        }
    };
    let mut said = vec![answer.action.replace("**", "").replace('`', "")];
    said.extend(cautions_as_text(answer));
    said.extend([
        format!("Begin with {}.", answer.body.begin_with()),
        format!(
            "The deadline is {} after the start, for {}. Whatever happens, {task} must run once the time to the deadline is no more than the \
             work left{} and a changeover of {}: {} after the start if no work is done by then, and later by as much as is done.",
            hours(answer.body.deadline_s),
            work,
            if answer.body.uncertain.is_some() { " to the most that it may be" } else { "" },
            hours(answer.body.changeover_s),
            hours(answer.body.now.latest_on_demand_s)
        ),
    ]);
    said
}

/// What stands above a task or a pool: what it is, and the cautions of the plan, a line each.
pub(super) fn headed(answer: &CloudPlanAnswer, what: &str) -> String {
    std::iter::once(what.to_owned()).chain(cautions_as_text(answer)).collect::<Vec<_>>().join("\n")
}

/// When to go back from on-demand to spot: the rule of the policy, and what has to be asked again.
pub(super) fn back_to_spot(answer: &CloudPlanAnswer) -> String {
    let rule = match answer.trial.chosen {
        CloudPolicy::OnDemand => "stays on-demand.".to_owned(),
        CloudPolicy::Greedy => {
            "stays on-demand once it is begun, which is when no time is spare any more.".to_owned()
        }
        CloudPolicy::TimeSliced => format!(
            "cuts the time to the deadline into {SLICES} slices with an equal share of the work each: it goes back at the first sample with spot after the share of a slice is done."
        ),
        CloudPolicy::UniformProgress => format!(
            "goes back at the first sample with spot once the share of the work that is done is at least (hours since the start + {:.2}) / {:.2}: time has become spare again.",
            2.0 * answer.body.changeover_s / 3600.0,
            answer.body.deadline_s / 3600.0
        ),
        CloudPolicy::Markov | CloudPolicy::SemiMarkov | CloudPolicy::SkyNomad | CloudPolicy::Omniscient => {
            "weighs at every sample what spot would save against two changeovers, to spot and back, so it has no moment that could be told beforehand.".to_owned()
        }
    };
    // Nobody knows how much is left of work that is uncertain.
    let left = match answer.body.uncertain {
        None => "`--work`",
        Some(_) => {
            "`--work-quantiles` (leave out the amounts that are done; of each other amount subtract what is done, and make its chance (chance - d) / (1 - d), d the chance of no more than what is done)"
        }
    };
    format!(
        "Back to spot: the policy of this plan ({}) {rule} When spot can be had again, and more time is left than the work left and two changeovers ({:.2} h), ask `tracecast plan rent job` again: with {left} and \
         `--deadline` as what is left, and a trace that goes up to now. Go back if it says to hold spot. It counts a changeover for staying on-demand too, so at a narrow margin stay.",
        answer.trial.chosen.in_words(),
        2.0 * answer.body.changeover_s / 3600.0
    )
}

/// The purchase list: `cloud-purchases.csv`.
///
/// # Errors
/// If the plan is not followed, so that it buys nothing.
pub fn purchases(answer: &CloudPlanAnswer) -> Result<Emitted> {
    match &answer.body.purchases {
        Some(result) => result.list(answer.body.instance.as_deref(), &cautions_as_text(answer)),
        None => Err(Error::NotEmitted("the plan is not followed, so there is nothing to buy".to_owned())),
    }
}

/// The files of a plan: their names and contents.
pub fn sky_pilot(answer: &CloudPlanAnswer) -> Vec<Emitted> {
    let infra = |zone: &str| infra(None, zone);
    let place = answer.body.zone.as_deref().and_then(infra);
    // Several zones: spot in their order, on-demand where it is begun.
    let order: Vec<String> =
        answer.body.zones.iter().flat_map(|zones| &zones.order).filter_map(|zone| infra(zone)).collect();
    let list = answer.body.zones.as_ref().map(|zones| infra(&zones.on_demand_zone));
    let task = |name: &str, spot: bool, what: &str| {
        let mut resources = json!({ "use_spot": spot });
        if let Some(fields) = resources.as_object_mut() {
            if let Some(instance) = &answer.body.instance {
                fields.insert("accelerators".to_owned(), Value::from(instance.as_str()));
            }
            let place = if spot { place.clone() } else { list.clone().unwrap_or_else(|| place.clone()) };
            if spot && order.len() > 1 {
                let zones: Vec<Value> = order.iter().map(|place| json!({ "infra": place })).collect();
                fields.insert("ordered".to_owned(), Value::from(zones));
            } else if let Some(place) = place {
                fields.insert("infra".to_owned(), Value::from(place));
            }
            if spot {
                fields.insert("job_recovery".to_owned(), json!({ "strategy": "FAILOVER" }));
            }
        }
        let document = json!({
            "name": name,
            // An elastic job takes its nodes one by one, so that what becomes of one leaves the others.
            "num_nodes": if answer.body.elastic { 1 } else { answer.body.need },
            "resources": resources,
            "run": "# Put your command here. It must resume from its last checkpoint.",
        });
        (format!("{name}.yaml"), stream(&[(headed(answer, what), document)]))
    };
    let mut notes = moments(answer, "the task on-demand");
    notes.push(back_to_spot(answer));
    notes.extend([
        format!(
            "When spot is lost: cancel the task on spot, subtract what the checkpoint holds from the work{}, and ask `tracecast plan rent job` again with the work and the \
             time that are left, and with a trace that goes up to now.",
            if answer.body.uncertain.is_some() { " (each of its quantiles, as above)" } else { "" }
        ),
        "The tasks share their work through a checkpoint that the job writes to storage that outlives its instance."
            .to_owned(),
    ]);
    if let Some(zones) = &answer.body.zones
        && !zones.order.is_empty()
    {
        notes.push(format!(
            "Zones for spot, in order: {}. Each is for when those before it cannot be had or are lost; with none of them: {}. On-demand begins in {}.",
            zones.order.join(", "),
            zones.then.in_words(),
            zones.on_demand_zone
        ));
    }
    notes.extend(answer.body.probes.map(ZoneProbes::to_do));
    if let Some(nodes) = &answer.body.nodes {
        notes.push(format!(
            "The job is elastic: each task is one of its nodes, of which up to {} work at once. Launch and cancel as many of each as this says. Spot nodes {}.",
            answer.body.need,
            nodes.in_words()
        ));
    }
    let (mut unnamed, mut named): (Vec<&str>, Vec<&str>) =
        (Vec::new(), answer.body.zone.as_deref().into_iter().collect());
    if let Some(zones) = &answer.body.zones {
        named.extend(zones.order.iter().chain([&zones.on_demand_zone]).map(String::as_str));
    }
    named.into_iter().filter(|zone| infra(zone).is_none()).for_each(|zone| {
        if !unnamed.contains(&zone) {
            unnamed.push(zone);
        }
    });
    if !unnamed.is_empty() {
        notes.push(format!(
            "The tasks do not name {}, as the names are of no form that AWS, Google Cloud or Azure gives its zones: add `infra` yourself.",
            unnamed.join(", ")
        ));
    } else if place.is_none() {
        notes.push("The zone of the trace is not known, so the tasks name none: add `infra` yourself.".to_owned());
    }
    vec![
        task("deadline-spot", true, "The job on spot. Launch it with `sky jobs launch` while spot is to be had."),
        task(
            "deadline-on-demand",
            false,
            "The same job on-demand. Launch it when the notes say so, after you cancelled the task on spot.",
        ),
        ("NOTES.txt".to_owned(), notes.join("\n\n") + "\n"),
    ]
}
