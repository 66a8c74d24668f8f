//! A zone and a policy that a cloud plan chooses from, and the one of the least cost.
//!
//! O(windows). Worked example: 0.6 and 0.5 of all on-demand on the windows of choice are 0.55.

use schemars::JsonSchema;
use serde::Serialize;

use super::super::attempt::Attempt;
use super::super::policy::CloudPolicy;
use crate::plan::interval::mean;
use crate::replay::compare::IntervalEstimate;

/// A zone and a policy.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CloudCandidate {
    /// Name of the trace.
    pub trace: String,
    /// Policy of the candidate.
    pub policy: CloudPolicy,
    /// Whether it decides from the past alone.
    pub causal: bool,
    /// Windows it was chosen on.
    pub choose_windows: usize,
    /// Mean cost on them, as a share of all on-demand.
    pub choose_cost_ratio: f64,
    /// Windows it is reported on.
    pub report_windows: usize,
    /// Mean cost on them, as a share of all on-demand, with its interval.
    pub report_cost_ratio: IntervalEstimate,
    /// The dearest of them.
    pub report_worst: f64,
    /// Deadlines missed on the windows it was chosen on.
    pub choose_misses: usize,
    /// Deadlines missed on those it is reported on.
    pub report_misses: usize,
}

/// What a policy came to on windows of choice and on later ones; what it cost on the former is told.
pub(super) fn candidate(
    trace: &str,
    policy: CloudPolicy,
    choose_cost_ratio: f64,
    early: &[&Attempt],
    late: &[&Attempt],
) -> CloudCandidate {
    let shares: Vec<f64> = late.iter().map(|attempt| attempt.share(policy)).collect();
    let missed = |of: &[&Attempt]| of.iter().filter(|attempt| attempt.run(policy).missed).count();
    CloudCandidate {
        trace: trace.to_owned(),
        policy,
        causal: policy.causal(),
        choose_windows: early.len(),
        choose_cost_ratio,
        report_windows: late.len(),
        report_cost_ratio: mean(&shares),
        report_worst: shares.iter().copied().fold(0.0, f64::max),
        choose_misses: missed(early),
        report_misses: missed(late),
    }
}

/// The candidate of the least cost on the windows of choice without a miss. Of equals on-demand alone, which needs nobody to watch; else the policy that is listed first among `choices`, in the earlier zone.
pub(super) fn least<'a>(
    candidates: &'a [CloudCandidate],
    choices: &[CloudPolicy],
) -> Option<(usize, &'a CloudCandidate)> {
    let order = |policy: CloudPolicy| {
        let place = choices.iter().position(|of| *of == policy).unwrap_or(usize::MAX);
        if policy == CloudPolicy::OnDemand { 0 } else { place + 1 }
    };
    let allowed = candidates.iter().enumerate().filter(|(_, of)| of.causal && of.choose_misses == 0);
    allowed.min_by(|(_, a), (_, b)| {
        a.choose_cost_ratio.total_cmp(&b.choose_cost_ratio).then(order(a.policy).cmp(&order(b.policy)))
    })
}
