//! What follows from the test: whether the mix is advised, and the recommendation.
//!
//! A mix is advised only if it saved at least 5 % of all on demand on the later windows, if the interval of that excludes none, if it left no more work without GPUs,
//! and if what it reserved cost no more there than reserving nothing. Where limits leave work without GPUs that the mix serves, the two do not do the same work, and the
//! answer says so in place of a comparison of money. Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a mix that reserves 20 GPUs and cost 900 on later weeks, where spot and on-demand alone cost 850: nothing is advised.

use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;

use super::super::rule::FleetRule;
use super::{FleetAnswer, FleetMixRow, FleetRuleOverWindows, FleetVerdict};
use crate::market::purchase::{BoughtAs, months_in_words, offers_in_words, to_come};
use crate::plan::money::{MONTH_H, money};
use crate::plan::{Basis, Confidence, Effect, Recommendation, Regret, WORTH, worth};

/// GPU-hours that wait by which rules may differ.
const SAME_WAITING: f64 = 1e-6;

impl FleetAnswer {
    /// Money, with its currency.
    pub(super) fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Whether the mix is advised.
    pub(super) fn judge(&self) -> FleetVerdict {
        let (Some(mix), Some(steady), Some(free)) =
            (self.rule(FleetRule::Mix), self.rule(FleetRule::OnDemand), self.rule(FleetRule::Uncommitted))
        else {
            return FleetVerdict::NothingBetter;
        };
        let rents_elsewhere = self.commits() || self.mix.iter().any(|row| row.how == BoughtAs::Spot);
        let saving = self.held_out.saving;
        if !rents_elsewhere {
            FleetVerdict::NothingBetter
        } else if mix.waiting_gpu_hours > steady.waiting_gpu_hours + SAME_WAITING {
            FleetVerdict::MoreWaits
        } else if steady.waiting_gpu_hours > mix.waiting_gpu_hours + SAME_WAITING {
            FleetVerdict::ServesMore
        } else if mix.committed_gpus > 0.0 && mix.cost_per_month > free.cost_per_month {
            FleetVerdict::ReservingLost
        } else if worth(saving.value, saving.low, 1.0) {
            FleetVerdict::Advised
        } else {
            FleetVerdict::NoSaving
        }
    }

    /// What the mix to come commits to.
    fn committed(&self) -> impl Iterator<Item = &FleetMixRow> {
        self.mix.iter().filter(|row| row.count.is_some_and(|count| count > 0))
    }

    /// Whether that is anything.
    fn commits(&self) -> bool {
        self.committed().next().is_some()
    }

    /// Months of the longest commitment of the mix to come, if that is more than the record has.
    fn outlasting_months(&self) -> Option<f64> {
        let longest = self.committed().filter_map(|row| row.months).fold(0.0, f64::max);
        (longest > self.held_out.months).then_some(longest)
    }

    /// How sure the advice is and, where a commitment binds for longer than the record says anything of, why not more.
    pub(super) fn confidence_in_words(&self, confidence: Confidence) -> String {
        let sure = format!("Confidence: {}", confidence.in_words());
        if self.recommendation.is_none() {
            let why = match (self.verdict, confidence) {
                (FleetVerdict::NothingBetter, _) => "no mix is cheaper at these prices, and prices may change",
                (FleetVerdict::MoreWaits, _) => "it rests on the windows after the split alone",
                (FleetVerdict::ReservingLost, Confidence::Low) => {
                    "the interval of what reserving adds reaches a gain, so a longer record may say otherwise"
                }
                (FleetVerdict::ReservingLost, _) => "the interval of what reserving adds holds no gain",
                (_, Confidence::Low) => {
                    "the interval of the saving reaches one that would be worth it, so a longer record may say otherwise"
                }
                _ => "the interval of the saving holds none that would be worth it",
            };
            return format!("{sure} that nothing should change: {why}.");
        }
        match self.outlasting_months() {
            None => format!("{sure}."),
            Some(months) => format!(
                "{sure}. A commitment binds for {}; the record is {} long and says nothing of what comes later.",
                months_in_words(months),
                format::duration(self.held_out.months * MONTH_H * 3_600.0)
            ),
        }
    }

    /// How sure the advice is, also where it is to change nothing; `None` where what may wait has to be decided first.
    pub(super) fn sure(&self) -> Option<Confidence> {
        if let Some(recommendation) = &self.recommendation {
            return Some(recommendation.confidence);
        }
        let held = &self.held_out;
        match self.verdict {
            FleetVerdict::ServesMore | FleetVerdict::Advised => None,
            // What reserving lost may be chance, too.
            FleetVerdict::ReservingLost if held.reserving.high > 0.0 => Some(Confidence::Low),
            FleetVerdict::NoSaving if held.saving.high >= WORTH => Some(Confidence::Low),
            FleetVerdict::NothingBetter | FleetVerdict::MoreWaits => Some(Confidence::Medium),
            FleetVerdict::ReservingLost | FleetVerdict::NoSaving => {
                Some(if held.drawn_weeks { Confidence::High } else { Confidence::Medium })
            }
        }
    }

    /// What nodes of one's own would change, and why they are in no advice; nothing where the offers have none.
    pub(super) fn buying_in_words(&self) -> Option<String> {
        let buying = self.buying.as_ref()?;
        let bought =
            || buying.mix.iter().filter(|row| row.how == BoughtAs::Owned && row.count.is_some_and(|count| count > 0));
        let nodes: u32 = bought().filter_map(|row| row.count).sum();
        if nodes == 0 {
            return Some("Where nodes can be bought, none is worth it for this load.".to_owned());
        }
        let life = bought().filter_map(|row| row.months).fold(0.0, f64::max);
        let binds =
            if life > 0.0 { format!("over its life of {}", months_in_words(life)) } else { "over its life".to_owned() };
        let later = match (self.rule(FleetRule::Buying), self.rule(FleetRule::Mix)) {
            (Some(own), Some(mix)) => format!(
                " Chosen before the split, it cost {} of all on demand on the later windows, where the mix cost {}.",
                format::percent(own.of_on_demand),
                format::percent(mix.of_on_demand)
            ),
            _ => String::new(),
        };
        Some(format!(
            "Where nodes can be bought, {} and the rest rented cost {} a month. **Buying is not part of the advice**: a node is paid for {binds}, and the record of {} says nothing of the load for so long.{later}",
            format::counted(u64::from(nodes), "node", "nodes"),
            self.money(buying.cost_per_month),
            format::duration(self.held_out.months * MONTH_H * 3_600.0)
        ))
    }

    /// What to do, in a sentence.
    pub(super) fn act(&self) -> String {
        let saving = self.held_out.saving;
        let interval = format!("{} to {}", format::percent(saving.low), format::percent(saving.high));
        let why = match self.verdict {
            FleetVerdict::Advised => {
                let named =
                    |row: &FleetMixRow| offers_in_words(row.count.unwrap_or(0), &row.offer, row.how, row.months);
                let committed: Vec<String> = self.committed().map(named).collect();
                let spot = self.mix.iter().any(|row| row.how == BoughtAs::Spot);
                let rest = if committed.is_empty() || spot {
                    "run what may be interrupted on spot, and the rest on demand"
                } else {
                    "run the rest on demand"
                };
                let reserve = if committed.is_empty() {
                    "Reserve nothing".to_owned()
                } else {
                    format!("Reserve {}", committed.join(", "))
                };
                return format!("**{reserve}**; {rest}.");
            }
            FleetVerdict::NoSaving => format!(
                "on the later windows the mix saved {} of all on demand ({interval}), which is too little or may be chance",
                format::percent(saving.value)
            ),
            FleetVerdict::ReservingLost => format!(
                "on the later windows what was reserved cost more than it saved: the mix cost {} a month, and nothing reserved {}",
                self.money(self.rule(FleetRule::Mix).map_or(0.0, |rule| rule.cost_per_month)),
                self.money(self.rule(FleetRule::Uncommitted).map_or(0.0, |rule| rule.cost_per_month))
            ),
            FleetVerdict::MoreWaits => {
                "on the later windows the mix left more work without GPUs than all on demand".to_owned()
            }
            FleetVerdict::ServesMore => {
                let waits = |by: FleetRule| self.rule(by).map_or(0.0, |rule| rule.waiting_gpu_hours);
                return format!(
                    "**Decide what may wait**: on the later windows the limits left {} GPU-hours without GPUs with all on demand, and {} with the mix, so their costs \
                     are not those of the same work; the mix to come costs {} a month.",
                    format::compact(waits(FleetRule::OnDemand)),
                    format::compact(waits(FleetRule::Mix)),
                    self.money(self.cost_per_month.value)
                );
            }
            FleetVerdict::NothingBetter => "at these prices all on demand is the cheapest mix for this load".to_owned(),
        };
        format!("**Change nothing**: {why}.")
    }

    /// What stays where nothing is to be changed, and what it costs, in a sentence.
    pub(super) fn standing_in_words(&self) -> Option<String> {
        let changes = matches!(self.verdict, FleetVerdict::Advised | FleetVerdict::ServesMore);
        let cost = self.on_demand_per_month;
        let none = if self.break_even.is_empty() {
            " The offers have neither reservations nor nodes to buy, so there is no use from which on one would be worth it."
        } else {
            ""
        };
        (!changes).then(|| {
            format!(
                "What stays is all on demand, for **{} a month** on all weeks of the record ({} to {}).{none}",
                self.money(cost.value),
                self.money(cost.low),
                self.money(cost.high)
            )
        })
    }

    /// The same as every plan recommends; `None` where the mix is not advised.
    pub(super) fn recommend(&self) -> Option<Recommendation> {
        if self.verdict != FleetVerdict::Advised {
            return None;
        }
        let held = &self.held_out;
        let (mix, best, naive) =
            (self.rule(FleetRule::Mix)?, self.rule(FleetRule::Hindsight)?, self.rule(FleetRule::Newsvendor)?);
        let steady = self.rule(FleetRule::OnDemand)?;
        let unit = format!("{} a month", self.currency);
        let cost = held.saving_per_month.negated();
        let effects = vec![
            Effect::of("Cost of the GPUs on the later windows", &unit, &cost, &held.interval),
            to_come("mix", unit, self.cost_per_month.value - self.on_demand_per_month.value),
        ];
        // What is reserved binds for long: it must have been tested, and have paid beyond chance. No record shows what comes after as much time as it has itself.
        let commits = self.commits();
        let paid = mix.committed_gpus > 0.0 && held.reserving.low > 0.0;
        let outlasts = self.outlasting_months().is_some();
        let sure = held.drawn_weeks && held.worst_saving >= WORTH && (!commits || paid) && !outlasts;
        let untested = commits && (mix.committed_gpus <= 0.0 || (outlasts && !held.drawn_weeks));
        let confidence = match (sure, untested) {
            (true, _) => Confidence::High,
            (false, true) => Confidence::Low,
            (false, false) => Confidence::Medium,
        };
        let mut assumptions = self.notes.clone();
        assumptions.push(
            "The weeks to come are like those of the record; what is reserved is paid to its end whatever comes."
                .to_owned(),
        );
        Some(Recommendation {
            plan: "fleet".to_owned(),
            action: self.action.clone(),
            effects,
            against: "all on demand".to_owned(),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "the best mix, chosen with hindsight on the later windows".to_owned(),
                oracle_change: best.cost_per_month - steady.cost_per_month,
                naive_change: Some(naive.cost_per_month - steady.cost_per_month),
                naive: Some(naive.what.clone()),
            }),
            harmed: Vec::new(),
            confidence,
            risk: format!(
                "Chosen on {} before {}, the mix cost {} more than the best with hindsight on the later windows; it saved least from {} on ({}).{}",
                held.chosen_on,
                to_the_minute(&held.split),
                format::percent(mix.regret),
                to_the_minute(&held.worst_window),
                format::percent(held.worst_saving),
                self.stress.first().map_or_else(String::new, |_| format!(" {}", self.stress_in_words()))
            ),
            assumptions,
            holds_until: format!(
                "until load or prices change: {}.",
                if self.mix.iter().any(|row| row.months.is_some()) {
                    "make the plan again before each commitment ends, and when the load of a month differs by a fifth"
                } else {
                    "make the plan again when the load of a month differs by a fifth"
                }
            ),
            apply: "`--emit-to FOLDER` writes the purchase list and node pools for Karpenter; buy the commitments with the provider.".to_owned(),
            command: None,
            undo: "What is rented by the hour ends with its hour; what is reserved is paid to its end, or sold on where the provider allows it.".to_owned(),
        })
    }

    /// Rules that knew no more than the mix and cost less on the later windows, in a sentence; nothing where none did. What is told elsewhere is not told again: all on demand, nodes
    /// that are bought, and nothing reserved where what was reserved lost.
    pub(super) fn cheaper_in_words(&self) -> Option<String> {
        let mix = self.rule(FleetRule::Mix)?;
        let is_told = |by: FleetRule| match by {
            FleetRule::OnDemand | FleetRule::Mix | FleetRule::Buying | FleetRule::Hindsight => true,
            FleetRule::Uncommitted => self.verdict == FleetVerdict::ReservingLost,
            FleetRule::Peak | FleetRule::Mean | FleetRule::Newsvendor | FleetRule::NewsvendorSpot => false,
        };
        let mut cheaper: Vec<&FleetRuleOverWindows> = self
            .held_out
            .by
            .iter()
            .filter(|rule| !is_told(rule.by) && rule.waiting_gpu_hours <= mix.waiting_gpu_hours + SAME_WAITING)
            .filter(|rule| rule.cost_per_month < mix.cost_per_month)
            // What is shown as the same is no cheaper.
            .filter(|rule| self.money(rule.cost_per_month) != self.money(mix.cost_per_month))
            .collect();
        cheaper.sort_by(|a, b| a.cost_per_month.total_cmp(&b.cost_per_month));
        let named: Vec<String> = cheaper
            .iter()
            .map(|rule| {
                format!(
                    "{}, {} ({} a month less)",
                    rule.by.alone_in_words(),
                    format::percent(rule.of_on_demand),
                    self.money(mix.cost_per_month - rule.cost_per_month)
                )
            })
            .collect();
        (!named.is_empty()).then(|| {
            format!(
                "**Cheaper than the mix** on the later windows, where it cost {} of all on demand: {}.",
                format::percent(mix.of_on_demand),
                named.join("; ")
            )
        })
    }

    /// What reserving adds, in a sentence; nothing where nothing is reserved.
    pub(super) fn reserving_in_words(&self) -> Option<String> {
        let reserving = self.held_out.reserving;
        let committed = self.rule(FleetRule::Mix).is_some_and(|mix| mix.committed_gpus > 0.0);
        if !committed && self.commits() {
            return Some(
                "Before the split nothing was worth reserving, so **what the mix to come reserves was not tested**; load that grows or falls is not foreseen."
                    .to_owned(),
            );
        }
        committed.then(|| {
            format!(
                "Of that, reserving adds {} points ({} to {}) to what spot and on-demand alone save{}.",
                format::float(100.0 * reserving.value, 1),
                format::float(100.0 * reserving.low, 1),
                format::float(100.0 * reserving.high, 1),
                if reserving.low > 0.0 { "" } else { ", which may be chance: a commitment binds for its whole term" }
            )
        })
    }

    /// The worst loss of a zone's spot, in a sentence: what makes most work wait, and of equals the dearest.
    pub(super) fn stress_in_words(&self) -> String {
        let worst = self.stress.iter().max_by(|a, b| {
            a.waiting_gpu_hours.total_cmp(&b.waiting_gpu_hours).then(a.extra_cost.total_cmp(&b.extra_cost))
        });
        worst.map_or_else(String::new, |loss| {
            format!(
                "If all spot{} were gone for {} h at the worst moment ({}), {} GPUs would go at once; {} GPU-hours would run elsewhere and {} wait, for {} more.",
                loss.zone.as_ref().map_or_else(String::new, |zone| format!(" in {zone}")),
                loss.hours,
                to_the_minute(&loss.from),
                format::compact(loss.gpus),
                format::compact(loss.moved_gpu_hours),
                format::compact(loss.waiting_gpu_hours),
                self.money(loss.extra_cost)
            )
        })
    }
}
