//! What follows from the test: whether the plan is advised, and the recommendation.
//!
//! A plan is advised only if, on the later windows, it saved at least 5 % of what it is held against, the interval of that excludes none, no more than 5 % of the jobs of any GPU type, and of any of its size classes with at least 20, waited longer than
//! the target, and, if anybody waits, nobody waiting cost more. Otherwise the answer says which of these failed, and recommends no change.
//!
//! O(rows). Worked example: a plan that lets jobs wait for an hour and cost 900 on later weeks, where its number of nodes for nobody waiting cost 880: nodes for nobody waiting are planned in its place, and advised if they saved enough.

use tracecast_analytics::report::format;
use tracecast_analytics::time::to_the_minute;

use super::super::policy::WaitingFamily;
use super::{BurstBody, BurstPoolPlan, BurstTrial};
use crate::market::purchase::{BoughtAs, offers_in_words, to_come};
use crate::plan::answer::Change;
use crate::plan::money::money;
use crate::plan::tell;
use crate::plan::verdict::{Judged, TOO_SHORT, Verdict, confidence, unsaved_in_words};
use crate::plan::waits::{FEWEST_OF_CLASS, harmed};
use crate::plan::{Assurance, Basis, Effect};

impl BurstBody {
    /// Money, with its currency.
    pub(super) fn money(&self, amount: f64) -> String {
        money(amount, &self.currency)
    }

    /// Whether the plan to come lets anybody wait.
    pub(super) fn somebody_waits(&self) -> bool {
        self.pools.iter().any(|pool| pool.policy.family != WaitingFamily::Nobody)
    }

    /// Baseline in words.
    pub(super) fn against(&self) -> &'static str {
        if self.nodes_given.is_some() { "the same nodes with nobody waiting" } else { "all on demand" }
    }

    /// Inputs of the verdict beyond the trial.
    pub(super) fn judged(&self) -> Judged {
        let owns = self.nodes_given.is_none() && self.pools.iter().any(|pool| pool.nodes > 0);
        let waits = self.somebody_waits();
        Judged { changes: owns || waits, is_simplest: !waits, is_comparable: true, fewest_blocks: 2 }
    }

    /// The pool to come, in words.
    fn pool_in_words(&self, pool: &BurstPoolPlan) -> String {
        let gpu = if self.pools.len() > 1 { format!("{}: ", pool.gpu) } else { String::new() };
        if pool.nodes == 0 {
            return format!("{gpu}all on demand");
        }
        let verb = match (pool.how, self.nodes_given) {
            (_, Some(_)) => "keep",
            (BoughtAs::Reserved, _) => "reserve",
            _ => "have",
        };
        let nodes = offers_in_words(pool.nodes, &pool.offer, pool.how, pool.months);
        format!("{gpu}{verb} {nodes}, where {}", pool.policy.what)
    }
}

/// Recommended action, in a sentence.
pub(super) fn act(trial: &BurstTrial, body: &BurstBody, verdict: Verdict) -> String {
    if verdict == Verdict::Advised {
        let mut said = body.pools.iter().map(|pool| body.pool_in_words(pool)).collect::<Vec<_>>().join("; ");
        if let Some(first) = said.get(..1).map(str::to_uppercase).filter(|_| body.pools.len() == 1) {
            said.replace_range(..1, &first);
        }
        let rest = if body.somebody_waits() { "has not started by then" } else { "does not start at once" };
        return format!("**{said}**; what {rest} runs on demand.");
    }
    format!("**Change nothing**: {}.", why_not(trial, body, verdict))
}

/// Why the plan is not advised.
fn why_not(trial: &BurstTrial, body: &BurstBody, verdict: Verdict) -> String {
    let of = &trial.of;
    match verdict {
        Verdict::TooShort => TOO_SHORT.to_owned(),
        Verdict::LimitMissed => {
            let longest = body.sizes.iter().filter(|size| size.waits.all.jobs >= FEWEST_OF_CLASS as u64);
            let longest = longest.max_by(|a, b| a.waits.all.p95_s.total_cmp(&b.waits.all.p95_s));
            format!(
                "on the later windows the plan let more than 5 % of the jobs, or of those of a size, wait longer than {}: 95 %{} waited up to {}",
                format::duration(body.target_p95_s),
                longest.map_or_else(String::new, |size| format!(" of those of {} GPUs", size.size.id())),
                format::duration(of.plan.figures.p95_of_sizes_s)
            )
        }
        Verdict::SimplerAsGood => format!(
            "on the later windows the plan cost {} a month and nodes for nobody waiting {}, so waiting was worth nothing",
            body.money(of.plan.amount),
            body.money(of.simplest.amount)
        ),
        Verdict::NothingBetter => format!(
            "of what keeps the target, {} is the cheapest for this load at these prices; the table of other targets says what longer waits would cost",
            body.against()
        ),
        Verdict::Advised => format!(
            "on the later windows waiting added {} to nodes for nobody waiting, which may be chance",
            tell::beyond_simplest(trial)
        ),
        Verdict::NoSaving
        | Verdict::NothingToSave
        | Verdict::NotComparable
        | Verdict::NothingKeeps
        | Verdict::Untested
        | Verdict::SizesUnknown => unsaved_in_words(trial, "plan", body.against()),
    }
}

/// Why nobody waits where waiting was tested first.
pub(super) fn waiting_failed(trial: &BurstTrial, body: &BurstBody, verdict: Verdict) -> String {
    format!(
        "Waiting was tested first, and {}. So this is the plan in which nobody waits. It was turned to on what the later windows showed and is tested on the same, which flatters it a little.",
        why_not(trial, body, verdict)
    )
}

/// The recommendation.
pub(super) fn change(trial: &BurstTrial, body: &BurstBody) -> Change {
    // Nodes bind for long: some must have been chosen before the split as well, and each later window must have paid. So must waits, beyond chance. A window in which it cost more than what it is
    // held against says how wrong it may be.
    let tested = body.nodes_given.is_some() || trial.of.plan.figures.own_gpus > 0.0;
    let paid = !body.somebody_waits() || trial.beyond_simplest.low > 0.0;
    let unit = format!("{} a month", body.currency);
    let doubt = if trial.worst_saving < 0.0 {
        let more = format::percent(-trial.worst_saving);
        format!(
            "In the window from {} on it cost {more} more than {}.",
            to_the_minute(&trial.worst_window),
            body.against()
        )
    } else if !tested {
        "No nodes were chosen before the split, so none were tested.".to_owned()
    } else if !trial.is_long {
        "There were fewer than four later weeks to test it on.".to_owned()
    } else {
        String::new()
    };
    let sure = confidence(trial, tested && paid, !tested || trial.worst_saving < 0.0);
    Change {
        plan: "rent burst",
        effects: vec![
            trial.effect("Cost of the GPUs on the later windows"),
            Effect::new("Mean wait of the later jobs", "s", &body.mean_wait_s, &trial.interval),
            to_come("plan", unit, body.cost_per_month.value - body.baseline_per_month.value),
        ],
        against: body.against().to_owned(),
        basis: Basis::LaterDays,
        regret: trial.regret("the best nodes and waiting policy, chosen with hindsight on the later windows", &trial.of.naive.words),
        harmed: harmed(body.sizes.iter().map(|of| (of.size, of.waits.all))),
        sure: Assurance::lowered(sure, Vec::new(), &doubt),
        risk: trial.risk(""),
        assumed: vec!["The weeks to come are like those of the record; nodes are paid to their end whatever comes.".to_owned()],
        holds_until: "until load or prices change: make the plan again when the load of a month differs by a fifth, and before nodes are bought or a commitment ends.".to_owned(),
        apply: "Let the submission plugin or a job of your own send what has waited long enough to the partition or cluster in the cloud; the answer names who waits, and how long.".to_owned(),
        command: None,
        undo: "Who waits can be changed at any time; what is reserved is paid to its end, and nodes that are bought stay.",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{BurstAnswer, BurstRequest, plan};
    use super::*;
    use crate::burst::heldout::{BurstRule, BurstTerms};
    use crate::market::demand::tests::{OFFERS, trace};
    use crate::market::offers::Offers;
    use crate::plan::Confidence;
    use crate::plan::forecast::runs::RunForecast;
    use crate::plan::verdict::{is_simpler_next, judge};

    const TERMS: BurstTerms = BurstTerms {
        target_s: 3_600.0,
        most_ms: 86_400_000,
        nodes: None,
        nobody_waits: false,
        own: None,
        horizon_months: 12.0,
    };

    /// Nine days of two jobs of 4 GPUs at once every three hours; a node costs 5 an hour, and 4 GPUs in the cloud 10.
    fn answer(nodes: Option<u32>) -> BurstAnswer {
        let jobs: Vec<(i64, i64, i64, f64)> = (0..144)
            .map(|at| {
                let begin = at / 2 * 180;
                (begin, begin, begin + 60, 4.0)
            })
            .collect();
        let terms = BurstTerms { nodes, ..TERMS };
        let request = BurstRequest { eval_from_ms: None, terms, runs: RunForecast::Naive(String::new()) };
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        plan(&trace(&jobs), &offers, "jobs", &request).unwrap()
    }

    #[test]
    fn each_reason_not_to_change_is_told() {
        let good = answer(None);
        assert_eq!((good.verdict, good.recommendation.is_some()), (Verdict::Advised, true));
        assert_eq!(
            good.action,
            "**Reserve 1 × a for 1 year, where all jobs wait up to 1 h**; what has not started by then runs on demand."
        );
        let said = |verdict: Verdict, of: &dyn Fn(&mut BurstAnswer)| {
            let mut answer = good.clone();
            of(&mut answer);
            assert_eq!(judge(&answer.trial, &answer.body.judged()), verdict);
            act(&answer.trial, &answer.body, verdict)
        };
        let told = said(Verdict::LimitMissed, &|answer| {
            let plan = &mut answer.trial.of.plan;
            (plan.kept, plan.figures.p95_of_sizes_s) = (false, 7_200.0);
        });
        assert!(told.contains("wait longer than 1 h: 95 % of those of 2-4 GPUs waited up to 2 h"), "{told}");
        let told = said(Verdict::SimplerAsGood, &|answer| answer.trial.of.plan.amount *= 9.0);
        assert!(told.contains("waiting was worth nothing"), "{told}");
        let told = said(Verdict::NoSaving, &|answer| answer.trial.saving.low = -0.1);
        assert!(told.contains("may be chance"), "{told}");
        let told = said(Verdict::TooShort, &|answer| answer.trial.blocks = 1);
        assert!(told.contains("no evidence of others"), "{told}");
        let told = said(Verdict::NothingBetter, &|answer| answer.body.pools.clear());
        assert!(told.contains("all on demand is the cheapest"), "{told}");
        let mut lost = good.clone();
        lost.trial.worst_saving = -0.1;
        assert_eq!(change(&lost.trial, &lost.body).sure.confidence, Confidence::Low);
    }

    #[test]
    fn waits_that_may_be_chance_give_way_to_nobody_waiting() {
        let mut good = answer(None);
        good.trial.beyond_simplest.low = -0.01;
        assert!(is_simpler_next(&good.trial, &good.body.judged(), Verdict::Advised));
        let note = waiting_failed(&good.trial, &good.body, Verdict::Advised);
        assert!(note.contains("which may be chance. So this is the plan in which nobody waits"), "{note}");
        assert!(!is_simpler_next(&answer(None).trial, &good.body.judged(), Verdict::Advised));
    }

    #[test]
    fn where_waiting_fails_on_later_windows_nodes_for_nobody_waiting_are_planned() {
        // Every 90 min two jobs at once, which run for 40 min on eight days: one node serves both if the second waits. On four more days they run for 90 min, and one node serves one.
        let jobs: Vec<(i64, i64, i64, f64)> = (0..384)
            .map(|at| {
                let begin = at / 2 * 90;
                (begin, begin, begin + if at < 256 { 40 } else { 90 }, 4.0)
            })
            .collect();
        let request = |nobody_waits: bool| BurstRequest {
            eval_from_ms: None,
            terms: BurstTerms { nobody_waits, ..TERMS },
            runs: RunForecast::Naive(String::new()),
        };
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let planned = |nobody_waits| plan(&trace(&jobs), &offers, "jobs", &request(nobody_waits)).unwrap();
        let (answer, asked) = (planned(false), planned(true));
        assert_eq!((answer.verdict, answer.body.somebody_waits()), (Verdict::Advised, false), "{}", answer.action);
        assert_eq!((&answer.action, answer.body.pools[0].nodes), (&asked.action, 2));
        let note = answer.notes.iter().find(|note| note.starts_with("Waiting was tested first")).unwrap();
        assert!(note.contains("waiting was worth nothing") && note.contains("flatters"), "{note}");
        assert!(!asked.notes.iter().any(|note| note.starts_with("Waiting was tested first")));
    }

    #[test]
    fn nodes_that_are_there_are_held_against_nobody_waiting() {
        let one = answer(Some(1));
        assert_eq!((one.verdict, one.trial.roles.baseline), (Verdict::Advised, BurstRule::Nobody));
        // 5 an hour and 10 every third, or 5 alone.
        assert!((one.trial.saving.value - (1.0 - 15.0 / 25.0)).abs() < 1e-9, "{:?}", one.trial.saving);
        let two = answer(Some(2));
        assert_eq!((two.verdict, two.recommendation), (Verdict::NothingBetter, None));
    }
}
