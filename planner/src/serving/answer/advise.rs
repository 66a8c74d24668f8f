//! What follows from the test: whether the setting is advised, and the recommendation.
//!
//! A setting is advised only if it kept the target on the later half, and there either cost at least 5 % less than what it is told against (the reactive rule, with all of its
//! settings chosen in the same way; where that missed the target when it was chosen, the one with the defaults of Kubernetes), with an interval that excludes none, or kept the target where that did not, and served a greater share in time by more than chance (the interval of the difference excludes 0). And
//! chosen anew on the whole log it must keep the target there with its reserve. Otherwise the answer says which of these failed.
//!
//! O(1). Worked example: a forecast that kept 96 % of 95 %, and cost 1.3 where the reactive rule cost 1.6 (a saving of 19 %, 10 to 25 %): advised.

use tracecast_analytics::report::format;

use super::super::choose::ServedStandard;
use super::super::heldout::ServingPolicy;
use super::super::rule::{ServingRule, SpotHedge};
use super::super::target::seconds_as_asked;
use super::{ServingAnswer, ServingHeldOut, ServingLooser, ServingVerdict};
use crate::plan::{Basis, Confidence, Effect, Recommendation, Regret, worth};

/// Hours of a later part from which on it holds days.
const DAYS_H: f64 = 24.0;

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

/// Whether the setting is advised; `is_kept_ahead` says whether, chosen anew on the whole log, it keeps the target there.
pub(super) fn judge(held: &ServingHeldOut, is_kept_ahead: bool) -> ServingVerdict {
    let (Some(best), Some(other)) = (held.policy(held.best), held.policy(held.against)) else {
        return ServingVerdict::NothingKeeps;
    };
    if best.kept_when_chosen != Some(true) {
        ServingVerdict::NothingKeeps
    } else if !best.keeps {
        ServingVerdict::TargetMissed
    } else if !is_kept_ahead {
        ServingVerdict::NothingKeepsNow
    } else if !other.keeps && held.more_in_time.low > 0.0 {
        ServingVerdict::KeepsTarget
    } else if worth(held.saving.value, held.saving.low, 1.0) {
        ServingVerdict::Advised
    } else {
        ServingVerdict::NoSaving
    }
}

impl ServingAnswer {
    /// An amount of money, or of hours of replicas.
    pub(super) fn amount(&self, amount: f64) -> String {
        let digits = if amount.abs() >= 100.0 { 0 } else { 2 };
        format!("{} {}", format::float(amount, digits), self.unit())
    }

    /// Whether the setting is advised.
    pub fn is_advised(&self) -> bool {
        self.verdict.is_advised()
    }

    /// What to do, in a sentence.
    pub(super) fn act(&self) -> String {
        let held = &self.held_out;
        let (promised, later) = (format::percent(self.target.share), self.policy(held.best));
        let attained = format::percent(later.map_or(0.0, |row| row.later.attained));
        let strict = self.target.with_reserve().share;
        let why = match self.verdict {
            ServingVerdict::Advised | ServingVerdict::KeepsTarget => {
                let ahead = &self.ahead;
                let what = match ahead.by {
                    ServingPolicy::Forecast => "Scale by a forecast of the load",
                    ServingPolicy::Reactive => "Scale on the requests in flight",
                    ServingPolicy::Spot => "Run the replicas on spot, with on-demand behind them",
                    _ => return format!("{}{}", self.constant_in_words(), self.price_of_keeping()),
                };
                return format!(
                    "**{what}**: {}. At the end of the log that is {}.{}",
                    ahead.setting,
                    format::counted(u64::from(ahead.replicas_now), "replica", "replicas"),
                    self.price_of_keeping()
                );
            }
            ServingVerdict::NothingKeeps
                if later.and_then(|row| row.earlier).is_some_and(|earlier| earlier.attained >= strict) =>
            {
                format!(
                    "the cheapest setting served {} of the earlier requests in time, but none did if a fifth more came; {}",
                    format::percent(strict),
                    self.what_could_be_promised()
                )
            }
            ServingVerdict::NothingKeeps if self.log.late_alone_share > 1.0 - strict => format!(
                "{} of the earlier requests are late even on a replica that has nothing else to do: {}; {}",
                format::percent(self.log.late_alone_share),
                self.what_takes_longer(),
                self.what_could_be_promised()
            ),
            ServingVerdict::NothingKeeps => format!(
                "no setting served {} of the earlier requests in time; {}",
                format::percent(strict),
                self.what_could_be_promised()
            ),
            ServingVerdict::NothingKeepsNow => format!(
                "chosen anew on the whole log, the policy “{}” has no setting that serves {} of the requests in time, also if a fifth more came{} (the nearest: {})",
                held.best.in_words(),
                format::percent(strict),
                if self.standard == ServedStandard::Reactive { ", and is as good as the reactive rule" } else { "" },
                format::percent(self.ahead.attained)
            ),
            ServingVerdict::TargetMissed => format!(
                "the setting chosen on the earlier half ({}) served {attained} of the later requests in time, and {promised} are promised",
                held.best.in_words()
            ),
            ServingVerdict::NoSaving if held.saving.value < 0.0 => format!(
                "on the later half the setting chosen on the earlier one ({}) cost {} more than the policy “{}” ({attained} in time, and {})",
                held.best.in_words(),
                format::percent(-held.saving.value),
                held.against.in_words(),
                format::percent(self.policy(held.against).map_or(0.0, |row| row.later.attained))
            ),
            ServingVerdict::NoSaving => format!(
                "on the later half the chosen setting ({}) saved {} of what the policy “{}” cost ({} to {}), which is too little or may be chance",
                held.best.in_words(),
                format::percent(held.saving.value),
                held.against.in_words(),
                format::percent(held.saving.low),
                format::percent(held.saving.high)
            ),
        };
        let hint = match (self.verdict, self.standard) {
            (ServingVerdict::NoSaving, ServedStandard::Reactive) => {
                " `--standard target` looks for a cheaper setting that keeps the promise alone, also where reactive scaling serves more in time."
            }
            _ => "",
        };
        format!("**Change nothing**: {why}.{hint}")
    }

    /// A constant number that is advised: which is set, which was tested, and which were tried for both.
    fn constant_in_words(&self) -> String {
        let (held, ahead) = (&self.held_out, &self.ahead);
        let tried = |tried: Option<[u32; 2]>| match tried {
            Some([fewest, most]) => format!(" from the numbers {fewest} to {most}"),
            None => String::new(),
        };
        let tested = self.policy(held.best).map_or("", |row| row.setting.as_str());
        format!(
            "**Keep the number of replicas constant**: {}, chosen on the whole log{}. Tested on the later half was {tested}, chosen in the same way on the earlier half{}.",
            ahead.setting,
            tried(ahead.constants_tried),
            tried(held.constants_tried)
        )
    }

    /// Rules that look at no later request, kept the target on the later half and cost less there than the constant number that is advised, in a sentence; nothing where another policy is.
    pub(super) fn cheaper_in_words(&self) -> Option<String> {
        let held = &self.held_out;
        let best = self.policy(held.best).filter(|_| self.is_advised() && held.best == ServingPolicy::Constant)?;
        let known = [ServingPolicy::ReactiveMatched, ServingPolicy::Hindsight];
        let cheaper: Vec<String> = held
            .by
            .iter()
            .filter(|row| row.by != held.best && !known.contains(&row.by))
            .filter(|row| row.keeps && row.later.cost < best.later.cost)
            .map(|row| {
                format!(
                    "{} ({} in time for {})",
                    row.what,
                    format::percent(row.later.attained),
                    self.amount(row.later.cost)
                )
            })
            .collect();
        Some(if cheaper.is_empty() {
            "No other rule that knows the past alone kept the target on the later half for less.".to_owned()
        } else {
            format!(
                "Cheaper on the later half, with the target kept: {}. What is advised was chosen before that half was looked at.",
                cheaper.join("; ")
            )
        })
    }

    /// What stays where nothing is to be changed, and what it costs, in a sentence; nothing where something is advised.
    pub(super) fn standing_in_words(&self) -> Option<String> {
        let row = self.policy(self.held_out.against).filter(|_| !self.is_advised())?;
        Some(format!(
            "What runs today stays; the policy “{}” ({}) stands for it here: {} an hour on the later half, with {} in time.",
            row.what,
            row.setting,
            self.amount(row.later.cost / self.later_hours()),
            format::percent(row.later.attained)
        ))
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

    /// What it costs that the target is kept where another policy missed it, as a sentence; nothing where it was advised for its cost.
    fn price_of_keeping(&self) -> String {
        let held = &self.held_out;
        let other = self.policy(held.against).filter(|_| self.verdict == ServingVerdict::KeepsTarget);
        other.map_or_else(String::new, |other| {
            format!(
                " On the later half it cost {} an hour ({}) {} than the policy “{}”, which served {} in time and so missed the target.",
                self.amount(held.saving_per_h.value.abs()),
                format::percent(held.saving.value.abs()),
                if held.saving.value < 0.0 { "more" } else { "less" },
                other.what,
                format::percent(other.later.attained)
            )
        })
    }

    /// The same as every plan recommends; `None` where it is not advised.
    pub(super) fn recommend(&self) -> Option<Recommendation> {
        if !self.is_advised() {
            return None;
        }
        let held = &self.held_out;
        let other = self.policy(held.against)?;
        let hours = self.later_hours();
        let unit = match self.replica.currency {
            Some(_) => format!("{} an hour", self.unit()),
            None => "replicas".to_owned(),
        };
        let cost = held.saving_per_h.negated();
        let mut effects = vec![
            Effect::of("Cost of the replicas on the later half", &unit, &cost, &held.interval),
            Effect {
                what: "Requests served in time on the later half".to_owned(),
                unit: "points".to_owned(),
                change: 100.0 * held.more_in_time.value,
                low: Some(100.0 * held.more_in_time.low),
                high: Some(100.0 * held.more_in_time.high),
                interval: held.interval.clone(),
            },
        ];
        if self.verdict == ServingVerdict::KeepsTarget {
            // The reason first.
            effects.reverse();
        }
        let grown = self.sensitivity.iter().find(|row| row.what.starts_with("20 %"));
        // A trace of spot begins with the log, so one hour of it was tried.
        let firm = self.ahead.hedge.is_none() && grown.is_some_and(|row| row.keeps);
        let confidence = match (firm, hours >= DAYS_H) {
            (true, true) => Confidence::High,
            (true, false) => Confidence::Medium,
            (false, _) => Confidence::Low,
        };
        let naive = self.policy(ServingPolicy::Peak);
        Some(Recommendation {
            plan: "serving".to_owned(),
            action: self.action.clone(),
            effects,
            against: other.what.clone(),
            basis: Basis::LaterDays,
            regret: held.least_found.map(|least| Regret {
                oracle: "the cheapest that was found to keep the target, with hindsight".to_owned(),
                oracle_change: (least - other.later.cost) / hours,
                naive_change: naive.map(|row| (row.later.cost - other.later.cost) / hours),
                naive: naive.map(|row| row.what.clone()),
            }),
            harmed: Vec::new(),
            confidence,
            risk: format!(
                "The log is {} long: it says nothing of hours, days and weeks that it does not hold.{}",
                format::duration(self.log.hours * 3600.0),
                if self.ahead.hedge.is_some() { " Of the trace of spot, no more than that was tried." } else { "" }
            ),
            assumptions: self.notes.clone(),
            holds_until: format!(
                "until the service, the lengths of requests or the prices change: make the plan again then, and when the load leaves {} to {} replicas at full use.",
                format::float(self.log.mean_load / 1.5, 1),
                format::float(self.log.mean_load * 1.5, 1)
            ),
            apply: "`--emit-to FOLDER` writes it for KEDA and SkyServe; put in the names of the deployment and of its metrics.".to_owned(),
            command: None,
            undo: "`kubectl delete -f keda-scaledobject.yaml` leaves the deployment with the replicas that it has then; `kubectl scale` sets them. A SkyServe service goes back with `sky serve update` and the file that it had.".to_owned(),
        })
    }

    /// Hours of the later half.
    pub(super) fn later_hours(&self) -> f64 {
        self.policy(self.held_out.best).map_or(1.0, |row| {
            let score = row.later;
            if score.mean_replicas > 0.0 { (score.on_demand_h + score.spot_h) / score.mean_replicas } else { 1.0 }
        })
    }

    /// What more requests do, in a sentence.
    pub(super) fn grown_in_words(&self) -> String {
        let rows = self.sensitivity.iter().filter(|row| row.what.ends_with("more requests"));
        let told: Vec<String> = rows
            .map(|row| {
                format!(
                    "with {}, {} are in time for {}",
                    row.what,
                    format::percent(row.attained),
                    self.amount(row.cost)
                )
            })
            .collect();
        format!("As it was set before the split: {}.", told.join("; "))
    }
}
