//! What follows from the test: whether the mix is advised, and the recommendation.
//!
//! A mix is advised only if it saved at least 5 % of all on demand on the later windows, if the interval of that excludes none, if it left no more work without GPUs,
//! and if what it reserved cost no more there than reserving nothing. Where limits leave work without GPUs that the mix serves, the two do not do the same work, and the
//! answer says so in place of a comparison of money. Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a mix that reserves 20 GPUs and cost 900 on later weeks, where spot and on-demand alone cost 850: a mix that reserves nothing is planned in its place, and advised if it saved enough.

use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;

use super::super::rule::FleetRule;
use super::{FleetBody, FleetMixRow, FleetTrial, SAME_WAITING};
use crate::market::purchase::{BoughtAs, months_in_words, offers_in_words, to_come};
use crate::plan::answer::Change;
use crate::plan::money::{MONTH_H, money};
use crate::plan::tell;
use crate::plan::verdict::{Judged, TOO_SHORT, Verdict, confidence, unsaved_in_words};
use crate::plan::{Assurance, Basis};

impl FleetBody {
    /// Money, with its currency.
    pub(super) fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Inputs of the verdict beyond the trial.
    pub(super) fn judged(&self, trial: &FleetTrial) -> Judged {
        let [mix, steady] = [&trial.of.plan, &trial.of.baseline].map(|rule| &rule.figures);
        Judged {
            changes: self.commits() || self.mix.iter().any(|row| row.how == BoughtAs::Spot),
            is_simplest: mix.committed_gpus <= 0.0,
            is_comparable: steady.waiting_gpu_hours <= mix.waiting_gpu_hours + SAME_WAITING,
            fewest_blocks: 1,
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
        (longest > self.record_months).then_some(longest)
    }

    /// The length of the record, in words.
    fn record_in_words(&self) -> String {
        format::duration(self.record_months * MONTH_H * 3_600.0)
    }

    /// What nodes of one's own would change, and why they are in no advice; nothing where the offers have none.
    pub(super) fn buying_in_words(&self, trial: &FleetTrial) -> Option<String> {
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
        let later = trial.rule(FleetRule::Buying).map_or_else(String::new, |own| {
            format!(
                " Chosen before the split, it cost {} of all on demand on the later windows, where the mix cost {}.",
                format::percent(own.of_baseline),
                format::percent(trial.of.plan.of_baseline)
            )
        });
        Some(format!(
            "Where nodes can be bought, {} and the rest rented cost {} a month. **Buying is not part of the advice**: a node is paid for {binds}, and the record of {} says nothing of the load for so long.{later}",
            format::counted(u64::from(nodes), "node", "nodes"),
            self.money(buying.cost_per_month),
            self.record_in_words()
        ))
    }

    /// What stays where nothing is to be changed, and what it costs, in a sentence.
    pub(super) fn standing_in_words(&self, verdict: Verdict) -> Option<String> {
        let changes = matches!(verdict, Verdict::Advised | Verdict::NotComparable);
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

/// Recommended action, in a sentence.
pub(super) fn act(trial: &FleetTrial, body: &FleetBody, verdict: Verdict) -> String {
    match verdict {
        Verdict::Advised => {
            let named = |row: &FleetMixRow| offers_in_words(row.count.unwrap_or(0), &row.offer, row.how, row.months);
            let committed: Vec<String> = body.committed().map(named).collect();
            let spot = body.mix.iter().any(|row| row.how == BoughtAs::Spot);
            let rest = if committed.is_empty() || spot {
                "run what may be interrupted on spot, and the rest on demand"
            } else {
                "run the rest on demand"
            };
            let reserve = if committed.is_empty() { "nothing".to_owned() } else { committed.join(", ") };
            format!("**Reserve {reserve}**; {rest}.")
        }
        Verdict::NotComparable => format!(
            "**Decide what may wait**: on the later windows the limits left {} GPU-hours without GPUs with all on demand, and {} with the mix, so their costs \
             are not those of the same work; the mix to come costs {} a month.",
            format::compact(trial.of.baseline.figures.waiting_gpu_hours),
            format::compact(trial.of.plan.figures.waiting_gpu_hours),
            body.money(body.cost_per_month.value)
        ),
        _ => format!("**Change nothing**: {}.", why_not(trial, body, verdict)),
    }
}

/// Why the mix is not advised.
fn why_not(trial: &FleetTrial, body: &FleetBody, verdict: Verdict) -> String {
    match verdict {
        Verdict::SimplerAsGood => format!(
            "on the later windows what was reserved cost more than it saved: the mix cost {} a month, and nothing reserved {}",
            body.money(trial.of.plan.amount),
            body.money(trial.of.simplest.amount)
        ),
        Verdict::LimitMissed => {
            "on the later windows the mix left more work without GPUs than all on demand".to_owned()
        }
        Verdict::NothingBetter => "at these prices all on demand is the cheapest mix for this load".to_owned(),
        Verdict::TooShort => TOO_SHORT.to_owned(),
        Verdict::Advised => format!(
            "on the later windows reserving added {} to what spot and on-demand alone save, which may be chance",
            tell::beyond_simplest(trial)
        ),
        Verdict::NoSaving
        | Verdict::NothingToSave
        | Verdict::NotComparable
        | Verdict::NothingKeeps
        | Verdict::Untested
        | Verdict::SizesUnknown => unsaved_in_words(trial, "mix", "all on demand"),
    }
}

/// Why nothing is reserved where reserving was tested first.
pub(super) fn reserving_failed(trial: &FleetTrial, body: &FleetBody, verdict: Verdict) -> String {
    format!(
        "Reserving was tested first, and {}. So this is the mix that reserves nothing. It was turned to on what the later windows showed and is tested on the same, which flatters it a little.",
        why_not(trial, body, verdict)
    )
}

/// The recommendation.
pub(super) fn change(trial: &FleetTrial, body: &FleetBody) -> Change {
    // What is reserved binds for long: it must have been tested, and have paid beyond chance. No record shows what comes after as much time as it has itself.
    let (commits, outlasts) = (body.commits(), body.outlasting_months());
    let tested = trial.of.plan.figures.committed_gpus > 0.0;
    let paid = tested && trial.beyond_simplest.low > 0.0;
    let is_untested = commits && (!tested || (outlasts.is_some() && !trial.is_long));
    let doubt = outlasts.map_or_else(String::new, |months| {
        format!(
            "A commitment binds for {}; the record is {} long and says nothing of what comes later.",
            months_in_words(months),
            body.record_in_words()
        )
    });
    let again = if body.mix.iter().any(|row| row.months.is_some()) { "before each commitment ends, and " } else { "" };
    let sure = confidence(trial, (!commits || paid) && outlasts.is_none(), is_untested);
    Change {
        plan: "rent fleet",
        effects: vec![
            trial.effect("Cost of the GPUs on the later windows"),
            to_come(
                "mix",
                format!("{} a month", body.currency),
                body.cost_per_month.value - body.on_demand_per_month.value,
            ),
        ],
        against: "all on demand".to_owned(),
        basis: Basis::LaterDays,
        regret: trial.regret("the best mix, chosen with hindsight on the later windows", &trial.of.naive.words),
        harmed: Vec::new(),
        sure: Assurance::lowered(sure, Vec::new(), &doubt),
        risk: trial.risk(&body.stress_in_words()),
        assumed: vec!["The weeks to come are like those of the record; what is reserved is paid to its end whatever comes.".to_owned()],
        holds_until: format!(
            "until load or prices change: make the plan again {again}when the load of a month differs by a fifth."
        ),
        apply: "`--emit-to FOLDER` writes the purchase list and node pools for Karpenter; buy the commitments with the provider.".to_owned(),
        command: None,
        undo: "What is rented by the hour ends with its hour; what is reserved is paid to its end, or sold on where the provider allows it.",
    }
}

/// Rules that knew no more than the mix and cost less on the later windows, in a sentence; nothing where none did. What is told elsewhere is not told again: all on demand, nodes
/// that are bought, and nothing reserved where what was reserved lost.
pub(super) fn cheaper_in_words(trial: &FleetTrial, body: &FleetBody, verdict: Verdict) -> Option<String> {
    let mix = &trial.of.plan;
    let is_told = |by: FleetRule| match by {
        FleetRule::OnDemand | FleetRule::Mix | FleetRule::Buying | FleetRule::Hindsight => true,
        FleetRule::Uncommitted => verdict == Verdict::SimplerAsGood,
        FleetRule::Peak | FleetRule::Mean | FleetRule::Newsvendor | FleetRule::NewsvendorSpot => false,
    };
    let most = mix.figures.waiting_gpu_hours + SAME_WAITING;
    let mut cheaper: Vec<_> = trial
        .rules
        .iter()
        .filter(|rule| !is_told(rule.id) && rule.figures.waiting_gpu_hours <= most)
        .filter(|rule| rule.amount < mix.amount)
        // What is shown as the same is no cheaper.
        .filter(|rule| body.money(rule.amount) != body.money(mix.amount))
        .collect();
    cheaper.sort_by(|a, b| a.amount.total_cmp(&b.amount));
    let named: Vec<String> = cheaper
        .iter()
        .map(|rule| {
            format!(
                "{}, {} ({} a month less)",
                rule.id.alone_in_words(),
                format::percent(rule.of_baseline),
                body.money(mix.amount - rule.amount)
            )
        })
        .collect();
    (!named.is_empty()).then(|| {
        format!(
            "**Cheaper than the mix** on the later windows, where it cost {} of all on demand: {}.",
            format::percent(mix.of_baseline),
            named.join("; ")
        )
    })
}

/// What reserving adds, in a sentence; nothing where nothing is reserved.
pub(super) fn reserving_in_words(trial: &FleetTrial, body: &FleetBody) -> Option<String> {
    let committed = trial.of.plan.figures.committed_gpus > 0.0;
    if !committed && body.commits() {
        return Some(
            "Before the split nothing was worth reserving, so **what the mix to come reserves was not tested**; load that grows or falls is not foreseen."
                .to_owned(),
        );
    }
    committed.then(|| {
        format!(
            "Of that, reserving adds {} to what spot and on-demand alone save{}.",
            tell::beyond_simplest(trial),
            if trial.beyond_simplest.low > 0.0 {
                ""
            } else {
                ", which may be chance: a commitment binds for its whole term"
            }
        )
    })
}
