//! What follows from the test: whether the setting is advised, and the recommendation.
//!
//! A setting is advised only if it kept the target on the later half, and there either cost at least 5 % less than what it is told against (the reactive rule, with all of its
//! settings chosen in the same way; where that missed the target when it was chosen, the one with the defaults of Kubernetes), with an interval that excludes none, and less than a constant number that kept
//! it, or kept the target where that did not, and served a greater share in time by more than chance (the interval of the difference excludes 0). And
//! chosen anew on the whole log it must keep the target there with its reserve. Otherwise the answer says which of these failed.
//!
//! O(1). Worked example: a forecast that kept 96 % of 95 %, and cost 1.3 where the reactive rule cost 1.6 (a saving of 19 %, 10 to 25 %): advised.

use tracecast_analytics::report::format;

use super::super::choose::ServedStandard;
use super::super::heldout::ServingPolicy;
use super::super::rule::{ServingRule, SpotHedge};
use super::super::target::{ServingTarget, seconds_as_asked};
use super::{ServingBody, ServingLooser, ServingReferenceRow, ServingTrial};
use crate::plan::answer::Change;
use crate::plan::tell;
use crate::plan::verdict::{self, Judged, Verdict, confidence, unsaved_in_words};
use crate::plan::{Assurance, Basis, Effect};

/// A setting in words.
pub(super) fn setting(rule: &ServingRule, hedge: Option<SpotHedge>, slot_us: i64) -> String {
    let time = |slots: u32| format::duration(f64::from(slots) * slot_us as f64 / 1e6);
    let number = |value: f64| format::float(value, 2);
    let rule = match *rule {
        ServingRule::Constant { replicas } => format!("{replicas} at all times"),
        ServingRule::Reactive { target, least, hold_slots } => {
            format!("requests in flight / {target}, at least {least}, fewer after {}", time(hold_slots))
        }
        ServingRule::Forecast { window_slots, margin, root, use_share, guard, least, hold_slots, .. } => {
            let beyond = if root == 0.0 { margin } else { root };
            format!(
                "(mean load of {} {} {}{}) / {}{}, at least {least}, fewer after {}",
                time(window_slots),
                if beyond < 0.0 { "−" } else { "+" },
                number(beyond.abs()),
                if root == 0.0 { "" } else { " × its square root" },
                number(use_share),
                guard.map_or_else(String::new, |most| format!(", or requests in flight / {most} if that is more")),
                time(hold_slots)
            )
        }
    };
    match hedge {
        None => rule,
        Some(hedge) => format!("{rule}; {} more on spot, on demand for what spot does not serve", hedge.extra),
    }
}

/// An amount of money, or of hours of replicas.
pub(super) fn amount(trial: &ServingTrial, amount: f64) -> String {
    let digits = if amount.abs() >= 100.0 { 0 } else { 2 };
    format!("{} {}", format::float(amount, digits), trial.unit)
}

/// Inputs of the verdict beyond the trial.
pub(super) fn judged(trial: &ServingTrial) -> Judged {
    let is_simplest = trial.roles.plan == trial.roles.simplest;
    Judged { changes: true, is_simplest, is_comparable: true, fewest_blocks: 2 }
}

/// Whether the chosen policy kept the target and the baseline did not, by more than chance.
fn keeps_more(trial: &ServingTrial, beside: &[ServingReferenceRow]) -> bool {
    let of = &trial.of;
    let more = beside.iter().any(|row| row.by == of.baseline.id && row.more_in_time.low > 0.0);
    more && of.plan.kept && !of.baseline.kept
}

/// Whether the setting is advised; `is_kept_ahead` says whether, chosen anew on the whole log, it keeps the target there.
pub(super) fn judge(trial: &ServingTrial, beside: &[ServingReferenceRow], is_kept_ahead: bool) -> Verdict {
    let plan = &trial.of.plan;
    if plan.figures.kept_when_chosen != Some(true) || (plan.kept && !is_kept_ahead) {
        Verdict::NothingKeeps
    } else if keeps_more(trial, beside) {
        Verdict::Advised
    } else {
        verdict::judge(trial, &judged(trial))
    }
}

/// Recommended action, in a sentence.
pub(super) fn act(trial: &ServingTrial, body: &ServingBody, verdict: Verdict) -> String {
    if verdict == Verdict::Advised {
        let ahead = &body.ahead;
        let what = match ahead.by {
            ServingPolicy::Forecast => "Scale by a forecast of the load",
            ServingPolicy::Reactive => "Scale on the requests in flight",
            ServingPolicy::Spot => "Run the replicas on spot, with on-demand behind them",
            _ => return format!("{}{}", body.constant_in_words(trial), body.price_of_keeping(trial)),
        };
        return format!(
            "**{what}**: {}. At the end of the log that is {}.{}",
            ahead.setting,
            format::counted(u64::from(ahead.replicas_now), "replica", "replicas"),
            body.price_of_keeping(trial)
        );
    }
    let why = match verdict {
        Verdict::NothingKeeps => body.nothing_keeps(trial),
        _ => why_not(trial, body.target, verdict),
    };
    let hint = match (verdict, body.standard) {
        (Verdict::NoSaving | Verdict::SimplerAsGood, ServedStandard::Reactive) => {
            " `--standard target` looks for a cheaper setting that keeps the promise alone, also where reactive scaling serves more in time."
        }
        _ => "",
    };
    format!("**Change nothing**: {why}.{hint}")
}

/// Why a setting that kept the target where it was chosen is not advised, or a constant number in its place.
fn why_not(trial: &ServingTrial, target: ServingTarget, verdict: Verdict) -> String {
    let of = &trial.of;
    let chosen = format!("chosen setting ({})", of.plan.words);
    match verdict {
        Verdict::LimitMissed => format!(
            "on the later half the {chosen} served {} of the requests in time, and {} are promised",
            format::percent(of.plan.figures.later.attained),
            format::percent(target.share)
        ),
        Verdict::SimplerAsGood => format!(
            "on the later half the {chosen} cost {}, and a constant number that kept the target {}",
            amount(trial, of.plan.amount),
            amount(trial, of.simplest.amount)
        ),
        Verdict::Advised => format!(
            "on the later half the {chosen} saved {} more than a constant number, which may be chance",
            tell::beyond_simplest(trial)
        ),
        _ => unsaved_in_words(trial, &chosen, &against(trial)),
    }
}

/// Why a constant number is planned where scaling was tested first.
pub(super) fn scaling_failed(trial: &ServingTrial, target: ServingTarget, verdict: Verdict) -> String {
    format!(
        "Scaling was tested first, and {}. So this is the plan of a constant number. It was turned to on what the later half showed and is tested on the same, which flatters it a little.",
        why_not(trial, target, verdict)
    )
}

/// The baseline in words.
pub(super) fn against(trial: &ServingTrial) -> String {
    format!("what the policy “{}” cost", trial.of.baseline.words)
}

impl ServingBody {
    /// Why nothing keeps the target where settings are chosen: on the earlier half, or on the whole log.
    fn nothing_keeps(&self, trial: &ServingTrial) -> String {
        let plan = &trial.of.plan;
        let strict = self.target.with_reserve().share;
        let promised = || format::percent(strict);
        if plan.figures.kept_when_chosen == Some(true) {
            let good =
                if self.standard == ServedStandard::Reactive { ", and is as good as the reactive rule" } else { "" };
            return format!(
                "chosen anew on the whole log, the policy “{}” has no setting that serves {} of the requests in time, also if a fifth more came{good} (the nearest: {})",
                plan.words,
                promised(),
                format::percent(self.ahead.attained)
            );
        }
        let why = if plan.figures.earlier.is_some_and(|earlier| earlier.attained >= strict) {
            format!(
                "the cheapest setting served {} of the earlier requests in time, but none did if a fifth more came",
                promised()
            )
        } else if self.log.late_alone_share > 1.0 - strict {
            format!(
                "{} of the earlier requests are late even on a replica that has nothing else to do: {}",
                format::percent(self.log.late_alone_share),
                self.what_takes_longer()
            )
        } else {
            format!("no setting served {} of the earlier requests in time", promised())
        };
        format!("{why}; {}", self.what_could_be_promised())
    }

    /// A constant number that is advised: which is set, which was tested, and which were tried for both.
    fn constant_in_words(&self, trial: &ServingTrial) -> String {
        let ahead = &self.ahead;
        let tried = |tried: Option<[u32; 2]>| match tried {
            Some([fewest, most]) => format!(" from the numbers {fewest} to {most}"),
            None => String::new(),
        };
        format!(
            "**Keep the number of replicas constant**: {}, chosen on the whole log{}. Tested on the later half was {}, chosen in the same way on the earlier half{}.",
            ahead.setting,
            tried(ahead.constants_tried),
            trial.of.plan.figures.setting,
            tried(self.constants_tried)
        )
    }

    /// What could be promised instead, where nothing keeps the target.
    fn what_could_be_promised(&self) -> String {
        match &self.looser {
            Some(ServingLooser { written, advised: true, .. }) => format!(
                "give a looser target, of at least --target {written}, for which this log has a plan; or a faster replica, or a longer log"
            ),
            Some(ServingLooser { written, planned, .. }) => format!(
                "give a looser target, of at least --target {written}, which settings keep, though the later half then speaks for no change{}; or a faster replica, or a longer log",
                match planned.as_slice() {
                    [_, .., last] => format!(
                        ", as it does for each of {} that were planned, the last of them --target {last}",
                        format::counted(planned.len() as u64, "target", "targets")
                    ),
                    _ => String::new(),
                }
            ),
            None => "no target of up to five times these times was found that settings keep: take a faster replica, or a longer log".to_owned(),
        }
    }

    /// Where requests are late even alone: what takes longer than is promised.
    fn what_takes_longer(&self) -> String {
        let (target, log) = (self.target, &self.log);
        let tpot = (log.least_tpot_s > target.tpot_s).then(|| {
            format!(
                "further tokens are {} apart, and {} are promised",
                format::duration(log.least_tpot_s),
                seconds_as_asked(target.tpot_s)
            )
        });
        let ttft = (log.least_ttft_s > target.ttft_s).then(|| {
            format!(
                "the first token of {} of them takes up to {} there, and {} are promised",
                format::percent(target.with_reserve().share),
                format::duration(log.least_ttft_s),
                seconds_as_asked(target.ttft_s)
            )
        });
        ttft.into_iter().chain(tpot).collect::<Vec<_>>().join("; ")
    }

    /// What it costs that the target is kept where the baseline missed it, as a sentence; nothing where that kept it.
    fn price_of_keeping(&self, trial: &ServingTrial) -> String {
        let baseline = &trial.of.baseline;
        if !keeps_more(trial, &self.beside) {
            return String::new();
        }
        format!(
            " On the later half it cost {} ({}) {} than the policy “{}”, which served {} in time and so missed the target.",
            amount(trial, trial.saved.value.abs()),
            format::percent(trial.saving.value.abs()),
            if trial.saving.value < 0.0 { "more" } else { "less" },
            baseline.words,
            format::percent(baseline.figures.later.attained)
        )
    }
}

/// The recommendation.
pub(super) fn change(trial: &ServingTrial, body: &ServingBody) -> Change {
    let mut effects = vec![trial.effect("Cost of the replicas on the later half")];
    effects.extend(body.beside.iter().find(|row| row.by == trial.roles.baseline).map(|row| {
        let [change, low, high] =
            [row.more_in_time.value, row.more_in_time.low, row.more_in_time.high].map(|of| 100.0 * of);
        Effect {
            what: "Requests served in time on the later half".to_owned(),
            unit: "points".to_owned(),
            change,
            low: Some(low),
            high: Some(high),
            interval: trial.interval.clone(),
        }
    }));
    // Where the target is kept for the first time, that is the reason.
    if keeps_more(trial, &body.beside) {
        effects.reverse();
    }
    let grown = body.sensitivity.iter().find(|row| row.what.starts_with("20 %"));
    // A trace of spot begins with the log, so one hour of it was tried.
    let is_firm = body.ahead.hedge.is_none() && grown.is_some_and(|row| row.keeps);
    let doubt = format!(
        "The log is {} long: it says nothing of hours, days and weeks that it does not hold.{}",
        format::duration(body.log.hours * 3600.0),
        if body.ahead.hedge.is_some() { " Of the trace of spot, no more than that was tried." } else { "" }
    );
    Change {
        plan: "serving",
        effects,
        against: trial.of.baseline.words.clone(),
        basis: Basis::LaterDays,
        regret: trial
            .regret("the cheapest that was found to keep the target, with hindsight or without", &trial.of.naive.words),
        harmed: Vec::new(),
        sure: Assurance::lowered(confidence(trial, is_firm, !is_firm), Vec::new(), &doubt),
        risk: trial.risk(&doubt),
        assumed: vec!["The requests to come are like those of the log.".to_owned()],
        holds_until: format!(
            "until the service, the lengths of requests or the prices change: make the plan again then, and when the load leaves {} to {} replicas at full use.",
            format::float(body.log.mean_load / 1.5, 1),
            format::float(body.log.mean_load * 1.5, 1)
        ),
        apply:
            "`--emit-to FOLDER` writes it for KEDA and SkyServe; put in the names of the deployment and of its metrics."
                .to_owned(),
        command: None,
        undo: "`kubectl delete -f keda-scaledobject.yaml` leaves the deployment with the replicas that it has then; `kubectl scale` sets them. A SkyServe service goes back with `sky serve update` and the file that it had.",
    }
}
