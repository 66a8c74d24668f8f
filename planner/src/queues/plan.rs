//! The plan of a loaded trace, from what the [search](super::search) found: verdict, test, how sure
//! it is, and the [answer](super::answer).
//!
//! O(that of the search). Worked example: where a VC waits longer on the later jobs than on nodes
//! of its own, beyond its interval, the verdict is that a limit was missed.

use tracecast_analytics::Trace;
use tracecast_analytics::time::Zone;

use super::answer::{ObjectiveOutcome, QueuesAnswer, QueuesBody, QueuesTrial, SCHEMA, WorseVc, advise};
use super::journal::SearchRun;
use super::search::{QueuesRequest, SearchOutcome, VcOutcome, last_ms, search};
use super::{under_kueue, worth};
use crate::error::{Error, Result};
use crate::plan::answer::{Advice, Head, answer};
use crate::plan::forecast::Forecasting;
use crate::plan::verdict::Verdict;
use crate::plan::{Assurance, Confidence, WORTH};
use crate::replay::answer::KnownByRun;
use crate::replay::compare::IntervalEstimate;
use crate::replay::fidelity::Fidelity;
use crate::replay::input::Loaded;
use crate::sim::Group;

/// Plans the queues of a loaded trace.
///
/// # Errors
/// Errors of [`search`] and [`crate::sim::simulate`].
pub fn plan(
    trace: &Trace,
    loaded: &Loaded,
    title: String,
    request: &QueuesRequest,
    run: SearchRun<'_>,
) -> Result<QueuesAnswer> {
    let result = search(loaded, request, run)?;
    let (Some(today), Some(chosen), Some(ideal)) =
        (result.tried.first(), result.tried.get(result.chosen), result.tried.get(result.oracle))
    else {
        return Err(Error::defect("the chosen candidate was not tried".to_owned()));
    };
    let name = |vc: usize| loaded.cluster.vc_name(vc);
    let worse = worse(&result, &name);
    // On sizes that are not those of today nothing is to be changed.
    let verdict = if loaded.of_another_time.is_some() {
        Verdict::SizesUnknown
    } else if result.chosen == 0 {
        Verdict::NothingBetter
    } else if result.is_followed {
        Verdict::Advised
    } else if chosen.later.cannot_run > 0 || worse.iter().any(|worse| worse.beyond_interval) {
        Verdict::LimitMissed
    } else {
        Verdict::NoSaving
    };
    let is_advised = verdict == Verdict::Advised;
    let body = QueuesBody::new(loaded, request, &result, if is_advised { &chosen.setup } else { &today.setup })?;
    let zone = Zone::named(&trace.zone)?;
    let origin_ms = loaded.workload.origin_ms;
    let groups = || loaded.cluster.pools.iter().flat_map(|pool| &pool.groups);
    // Sizes from before the first job and after the last are not of the record.
    let (first, last) = (loaded.workload.submit_ms.first().copied().unwrap_or(0), last_ms(&loaded.workload));
    let changes = |group: &Group| {
        let other = |(from, nodes): &(i64, u32)| (first..=last).contains(from) && *nodes != group.nodes_at(first);
        group.sizes.iter().any(other)
    };
    let change = result.change.differences.first();
    let trial = QueuesTrial {
        eval_from: trace.moment(&zone, origin_ms + result.split_ms, origin_ms),
        fidelity: result.fidelity.clone(),
        today: today.later.waits.into(),
        recommended: chosen.later.waits.into(),
        private: result.private.into(),
        oracle: ideal.later.waits.into(),
        mean_wait_change_s: change.map(|change| change.mean_wait_s),
        p95_wait_change_s: change.map(|change| change.p95_wait_s),
        worse,
        nodes: loaded.cluster.nodes_at(last),
        nodes_change: groups().any(changes),
        nodes_instead: result.nodes_instead,
        cannot_run: chosen.later.cannot_run as u64,
        stopped: chosen.later.stopped as u64,
        lost_gpu_hours: chosen.later.lost_gpu_hours,
        objective: ObjectiveOutcome::new(today, chosen),
        under_kueue: if is_advised && request.under_kueue {
            under_kueue::replayed(&body, loaded, &request.today)?
        } else {
            None
        },
    };
    // What the ground lacks comes first: a replay may be far from the record for want of it.
    let cautions: Vec<String> =
        loaded.cautions.iter().cloned().chain(result.fidelity.reservation(&request.today)).collect();
    let base = today.later.waits.merit.mean_wait_s;
    let in_reach = |change: &IntervalEstimate| change.low <= -WORTH * base && change.high > 0.0;
    let unsure = match change {
        _ if !request.objective.is_of_waits() && is_advised => {
            Some("Of what was asked for there is no interval, so it may be chance.")
        }
        Some(change) if !is_advised && in_reach(&change.mean_wait_s) => Some(
            "The interval of the mean wait holds no change, and also a gain that would be worth it: more days may say otherwise.",
        ),
        _ => None,
    };
    let tested = if unsure.is_some() { Confidence::Low } else { Confidence::Medium };
    let sure = Assurance::lowered(tested, cautions.clone(), &tested_in_words(&result.fidelity, unsure));
    let head = Head {
        schema: SCHEMA,
        title,
        cautions,
        notes: loaded.notes.iter().cloned().chain(KnownByRun::note(&request.today, &loaded.workload)).collect(),
        forecasting: match run.runs {
            Some(runs) => worth::forecasting(loaded, &request.today, &result, runs)?,
            None => Forecasting::none("no predicted run times were compared"),
        },
        sources: trace.sources.clone(),
    };
    let advice = match (is_advised, change) {
        (false, _) => Advice::Stay(Some(sure)),
        (true, Some(change)) => Advice::Change(Box::new(advise::change(&trial, &body, sure, change, &result))),
        (true, None) => return Err(Error::defect("what is advised was not compared with today".to_owned())),
    };
    let action = advise::act(verdict, &trial, &body);
    Ok(answer(head, trial, body, (verdict, action), advice))
}

/// What the answer was tested on, and why it is `unsure` all the same; where the replay is not
/// close to what happened, a caution says so.
fn tested_in_words(fidelity: &Fidelity, unsure: Option<&str>) -> String {
    let close = fidelity.is_close().then(|| fidelity.sentence());
    let said = close.iter().map(String::as_str).chain(["One later stretch was tested."]).chain(unsure);
    said.collect::<Vec<_>>().join(" ")
}

/// VCs whose 95 % quantile is longer than on nodes of their own.
fn worse(result: &SearchOutcome, name: &dyn Fn(usize) -> String) -> Vec<WorseVc> {
    let of = |of: &VcOutcome| {
        let change = of.change.as_ref()?.p95_wait_s;
        (change.value > 0.0).then(|| WorseVc {
            vc: name(of.vc),
            jobs: of.chosen.jobs as u64,
            p95_wait_s: of.chosen.merit.p95_wait_s,
            private_p95_wait_s: of.private.merit.p95_wait_s,
            beyond_interval: of.is_wronged(),
        })
    };
    result.by_vc.iter().filter_map(of).collect()
}
