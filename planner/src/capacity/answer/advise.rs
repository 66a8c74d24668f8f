//! What the answer of `plan nodes` tells its reader to do.
//!
//! Nodes are bought for pools that lack them, unless the VCs would need far fewer in one pool that wrongs none of them: then sharing comes first. A pool that `plan queues` would refuse is
//! told, with whom it wrongs, and not advised. Worked example: 50 nodes to buy for VCs apart, of which there are 40 today, and 42 enough in one pool: 2 against 50, so "Let the VCs share
//! nodes before you buy any".

use tracecast_analytics::report::format;

use super::{CapacityBody, CapacityTrial, NodesOfType, NotJudged, PoolTests};
use crate::capacity::forward::{self, SizedPart};
use crate::capacity::mix::{MixAnswer, MixBy};
use crate::capacity::tests_kept::TestsKept;
use crate::plan::answer::Change;
use crate::plan::{Assurance, Basis, Confidence, Effect, Harm, SIZES_UNKNOWN};

/// Share of the tests in which what was recommended has to have kept the target for the answer to be relied on.
const ENOUGH_KEPT: f64 = 0.8;

impl CapacityBody {
    /// Nodes that one pool of all VCs would need, if it wrongs none of them and buying for it takes at most half of the nodes of buying `buy` for the VCs.
    fn cheaper_in_one_pool(&self, buy: u64) -> Option<u64> {
        let pool = u64::from(self.in_all.needed_in_one_pool.filter(|_| self.wronged_in_one_pool.is_empty())?);
        self.is_far_fewer(pool, buy).then_some(pool)
    }

    /// Whether so many nodes of one pool are at most half of the nodes to buy for the VCs.
    fn is_far_fewer(&self, pool: u64, buy: u64) -> bool {
        buy > 0 && 2 * pool.saturating_sub(self.in_all.now) <= buy
    }

    /// Nodes to buy for the VCs; none where some can go as well.
    fn to_buy(&self) -> u64 {
        let more = |of: &NodesOfType| u64::from(of.recommended.saturating_sub(of.now));
        let less = self.nodes.iter().any(|of| of.recommended < of.now);
        if less { 0 } else { self.nodes.iter().map(more).sum() }
    }

    /// Nodes of the one pool, where the VCs are to share before any are bought.
    fn shared(&self) -> Option<u64> {
        self.cheaper_in_one_pool(self.to_buy())
    }

    /// Whether the VCs are to share nodes before any are bought.
    pub(in crate::capacity) fn shares_first(&self) -> bool {
        self.shared().is_some()
    }

    /// A sentence that sharing comes first, or that it is to be looked at first where later windows
    /// do not bear the pool out.
    fn sharing(&self, pool: u64) -> String {
        let now = self.in_all.now;
        if !self.pool_held() {
            let but = match &self.in_one_pool {
                None => "no later window tested it".to_owned(),
                Some(tests) if tests.windows_wronged > 0 => format!(
                    "on {} of {} later windows a VC waited longer in such a pool than on nodes of its own",
                    format::count(tests.windows_wronged),
                    format::count(tests.windows)
                ),
                Some(tests) => format!(
                    "such a pool kept it in {} of {} later windows only",
                    format::count(tests.kept),
                    format::count(tests.windows)
                ),
            };
            return format!(
                "**See whether the VCs can share nodes before you buy any**, with `plan queues`: one pool of {} keeps the target on the record, where there are {now}, but {but}.",
                format::counted(pool, "node", "nodes"),
            );
        }
        let more = pool.saturating_sub(now);
        let more =
            if more == 0 { String::new() } else { format!(", so {} would still be to buy", format::count(more)) };
        format!(
            "**Let the VCs share nodes before you buy any**: in one pool {} keep the target, and there are {now}{more}. By the jobs judged, no VC would wait longer there than on its own nodes; `plan queues` says how to share, and tests it on today's nodes.",
            format::counted(pool, "node", "nodes"),
        )
    }

    /// Nodes to buy where the VCs share what there is.
    fn pool_effect(&self, pool: u64) -> Effect {
        let why = "of the record that it was sized on; later windows say how often such a number kept the target";
        Effect::counted("Nodes to buy, in one pool", "", pool.saturating_sub(self.in_all.now) as f64, why)
    }

    /// What later windows say of the one pool, where sharing comes first: a sentence.
    fn of_pool(&self) -> Option<String> {
        self.shares_first().then(|| match &self.in_one_pool {
            None => "No later window tested the one pool; `plan queues` tests it on today's nodes.".to_owned(),
            Some(tests) => format!(
                "In one pool, the nodes that it needed before kept the target in {} of {} later windows, with {} nodes where {} would have been enough, {}; `plan queues` tests it on today's nodes.",
                format::count(tests.kept),
                format::count(tests.windows),
                format::float(tests.nodes, 1),
                format::float(tests.oracle, 1),
                match tests.windows_wronged {
                    0 => "and no VC waited longer than on its own".to_owned(),
                    windows => format!(
                        "and in {} {} waited longer than on nodes of their own",
                        format::count(windows),
                        tests.wronged.join(", ")
                    ),
                }
            ),
        })
    }

    /// Whether later windows bear the one pool out that is advised first, if one is.
    fn pool_held(&self) -> bool {
        let held =
            |tests: &PoolTests| tests.kept as f64 >= ENOUGH_KEPT * tests.windows as f64 && tests.windows_wronged == 0;
        !self.shares_first() || self.in_one_pool.as_ref().is_some_and(held)
    }

    /// A sentence that later windows do not bear out the one pool that needs far fewer nodes.
    fn pool_not_held(&self) -> Option<String> {
        (!self.pool_held()).then(|| {
            let of = self.of_pool().unwrap_or_default();
            format!("**One pool did not hold on later windows**: {of}")
        })
    }

    /// What one pool would need, and whom it wrongs, in a sentence; `None` where it was not sized, or the action has said so.
    pub(super) fn pooled(&self) -> Option<String> {
        let pool = self.in_all.needed_in_one_pool.filter(|_| !self.shares_first())?;
        let verdict = match self.wronged_in_one_pool.as_slice() {
            [] => "By the jobs judged, no VC would wait longer there than on the nodes that it has. `plan queues` says whether today's nodes can be shared so.".to_owned(),
            wronged => format!(
                "**It is not advised**: {} would wait longer there than on the nodes {}, so `plan queues` refuses it. {}",
                wronged.join(", "),
                if wronged.len() == 1 { "that it has" } else { "that they have" },
                if self.is_far_fewer(u64::from(pool), self.to_buy()) {
                    "Ask that plan for another way to share before you buy so many nodes."
                } else {
                    "That plan may know another way to share."
                }
            ),
        };
        Some(format!("One pool of all VCs, without shares, would need {}. {verdict}", format::count(u64::from(pool))))
    }

    /// Pools that are not judged, by name.
    fn not_judged(&self, why: NotJudged) -> Vec<&str> {
        let mut names: Vec<&str> =
            self.nodes.iter().filter(|of| of.not_judged == Some(why)).map(|of| of.name.as_str()).collect();
        names.dedup();
        names
    }

    /// What to do, with the pools of which nothing is said.
    pub(super) fn act(&self) -> String {
        if self.sizes_unknown {
            return format!("**Change nothing on this answer**: {SIZES_UNKNOWN}.");
        }
        let mut said = match &self.mix {
            // Sharing comes before any nodes, of whatever kind.
            Some(mix) if mix.is_advised() && self.shares_first() => {
                let pool = self.shared().unwrap_or_default();
                format!("{} If each VC keeps nodes of its own: {}", self.sharing(pool), mix.action)
            }
            Some(mix) if mix.is_advised() || !mix.changes() => mix.action.clone(),
            Some(mix) => format!("{} {}", self.changes(), mix.action),
            None => self.changes(),
        };
        if self.changes_anything() {
            said = self.fidelity.qualified(said);
            if let Some((passed, held_up)) = self.if_passed() {
                said = format!(
                    "**Find out first whether a job that does not fit holds up those behind it**, and name --scan: if others may pass it, {} are needed in all{}, else {}. If it does: {said}",
                    format::counted(passed, "node", "nodes"),
                    if passed <= self.in_all.now { ", so none would be to buy" } else { "" },
                    format::count(held_up)
                );
            }
        }
        let (none, few) = (self.not_judged(NotJudged::NoNumber), self.not_judged(NotJudged::TooFewJobs));
        if self.growth.is_some() && self.nodes.len() > 1 {
            said.push_str(
                " With more work, one pool of all VCs was not sized: without --scale and --add the answer says whether sharing needs far fewer nodes.",
            );
        }
        if !none.is_empty() {
            said.push_str(&format!(
                " **No number of nodes keeps the target in {}**: what its jobs wait for is not nodes, so its nodes stay as they are.",
                none.join(", ")
            ));
        }
        if !few.is_empty() {
            said.push_str(&format!(" Not judged, with fewer than 20 jobs: {}.", few.join(", ")));
        }
        said
    }

    /// Nodes that are needed in all if jobs may pass one that does not fit, and if not, where nothing says which it is and it is not the same.
    fn if_passed(&self) -> Option<(u64, u64)> {
        let all = self.in_all;
        let held_up = all.needed + all.not_judged;
        all.in_all_if_passed
            .filter(|passed| *passed != held_up && self.of_mix().is_none())
            .map(|passed| (passed, held_up))
    }

    /// Whether nodes are to be bought, or can go.
    fn changes_anything(&self) -> bool {
        let as_of_mix = self.of_mix().map(MixAnswer::changes);
        as_of_mix.unwrap_or_else(|| self.nodes.iter().any(|of| of.recommended != of.now))
    }

    /// Recommended changes, in a sentence.
    fn changes(&self) -> String {
        let changes = |more: bool| -> (u64, String) {
            let of =
                |nodes: &&NodesOfType| if more { nodes.recommended > nodes.now } else { nodes.recommended < nodes.now };
            let listed: Vec<(u64, &str)> = self
                .nodes
                .iter()
                .filter(of)
                .map(|nodes| (u64::from(nodes.recommended.abs_diff(nodes.now)), nodes.name.as_str()))
                .collect();
            let names: Vec<String> = listed.iter().map(|(nodes, name)| format!("{name} {nodes}")).collect();
            (listed.iter().map(|(nodes, _)| nodes).sum(), names.join(", "))
        };
        let ((buy, bought), (go, gone)) = (changes(true), changes(false));
        let count = |nodes: u64| format::counted(nodes, "node", "nodes");
        match (buy, go) {
            (0, 0) if self.nodes.iter().any(|of| of.not_judged.is_some()) => {
                "**Change nothing**: of the pools that are judged none clearly has too few nodes, and none clearly too many."
                    .to_owned()
            }
            (0, 0) => "**Change nothing**: no pool clearly has too few nodes, and none clearly too many.".to_owned(),
            (buy, 0) => match self.cheaper_in_one_pool(buy) {
                Some(pool) => {
                    format!("{} If each VC keeps nodes of its own, **buy {}**: {bought}.", self.sharing(pool), count(buy))
                }
                None => format!("**Buy {}**: {bought}.", count(buy)),
            },
            (0, go) => format!("**{} can go**: {gone}.", count(go)),
            (buy, go) => format!(
                "**Give {} to pools that lack them** ({bought}); **{} can go** from others ({gone}).",
                count(buy),
                count(go)
            ),
        }
    }

    /// The simple rule and what the plan recommended, where that rule kept the target on the later windows at least as often with no more nodes.
    pub(super) fn no_better_than_simple(trial: &CapacityTrial) -> Option<(&TestsKept, &TestsKept)> {
        let (simple, tested) = (&trial.of.simplest.figures, &trial.of.plan.figures);
        let no_worse = simple.pools_kept >= tested.pools_kept && simple.nodes <= tested.nodes && tested.pools > 0;
        // With nodes as they are and no need of any, the two may be one.
        let differ = simple.pools_kept > tested.pools_kept || simple.nodes < tested.nodes;
        (no_worse && differ).then_some((simple, tested))
    }

    /// The mix that the answer is of, if it is of one.
    pub(super) fn of_mix(&self) -> Option<&MixAnswer> {
        self.mix.as_ref().filter(|mix| mix.is_advised() || !mix.changes())
    }

    /// Tests (pools in windows) in which what was recommended kept the target, all of them, and windows.
    fn tests(&self, trial: &CapacityTrial) -> (u64, u64, u64) {
        let of = |kept: &TestsKept, windows: usize| (kept.pools_kept, kept.pools, windows as u64);
        match self.of_mix() {
            Some(mix) => of(&mix.trial.of.plan.figures, mix.trial.windows.len()),
            None => of(&trial.of.plan.figures, trial.windows.len()),
        }
    }

    /// What the test on later windows speaks against relying on the answer, a sentence each.
    pub(super) fn cautions_of_the_test(&self, trial: &CapacityTrial) -> Vec<String> {
        let simple = self.beside_simple(trial).filter(|_| self.of_mix().is_none());
        let of_pool = self.pool_not_held();
        self.kept_too_seldom(trial).into_iter().chain(simple).chain(of_pool).chain(self.unproven.clone()).collect()
    }

    /// A sentence that what was recommended was not tested, or kept the target in too few tests.
    fn kept_too_seldom(&self, trial: &CapacityTrial) -> Option<String> {
        let (kept, pools, _) = self.tests(trial);
        if pools == 0 {
            return Some("**What is recommended could not be tested** on later windows.".to_owned());
        }
        ((kept as f64) < ENOUGH_KEPT * pools as f64).then(|| {
            format!(
                "**What was recommended so before kept the target in {} of {} tests only** (a pool in a window), which is less than {} of them.",
                format::count(kept),
                format::count(pools),
                format::percent(ENOUGH_KEPT)
            )
        })
    }

    /// How sure the answer is, by how often what it recommends kept the target on later windows; `ground` are the cautions without those of the test.
    pub(super) fn assured(&self, trial: &CapacityTrial, ground: &[String]) -> Assurance {
        let (kept, pools, windows) = self.tests(trial);
        let of_pool = self.in_one_pool.as_ref().is_some_and(|tests| tests.kept == tests.windows);
        let always = kept == pools && (of_pool || !self.shares_first());
        let sure = if windows >= 3 && always { Confidence::High } else { Confidence::Medium };
        let of_test = self.cautions_of_the_test(trial);
        // Where a caution says so already, nobody has to read it twice.
        let of_kept = self.kept_too_seldom(trial).is_none().then(|| {
            format!(
                "What was recommended so before kept the target in {} of {} tests (a pool in a window).",
                format::count(kept),
                format::count(pools)
            )
        });
        let lowered_by = ground.iter().cloned().chain(of_test).collect();
        let close = self.fidelity.is_close().then(|| self.fidelity.sentence());
        let said: Vec<String> =
            [close, of_kept, self.of_pool().filter(|_| self.pool_held())].into_iter().flatten().collect();
        Assurance::lowered(sure, lowered_by, &said.join(" "))
    }

    /// What effects of buying for each VC are told beside where sharing comes first.
    fn apart(&self) -> &'static str {
        if self.shares_first() { ", each VC on its own" } else { "" }
    }

    /// Nodes to buy and to let go, with the interval of what is needed; `None` where none change.
    fn nodes_effect(&self, parts: &[SizedPart]) -> Option<Effect> {
        if parts.iter().all(|part| part.recommended == part.part.nodes()) {
            return None;
        }
        let sum = |of: &dyn Fn(&SizedPart) -> u32| {
            parts.iter().map(|part| f64::from(of(part)) - f64::from(part.part.nodes())).sum::<f64>()
        };
        // An end that is not known in one pool is not known in all.
        let end = |of: &dyn Fn(&SizedPart) -> Option<u32>| -> Option<f64> {
            let changed = parts.iter().filter(|part| part.recommended != part.part.nodes());
            changed.map(|part| Some(f64::from(of(part)?) - f64::from(part.part.nodes()))).sum()
        };
        let interval = match &self.growth {
            None => "the fewest in 2.5 % and in 97.5 % of resampled days or weeks, summed over the pools that change",
            Some(_) => {
                "the fewest in 2.5 % and in 97.5 % of resampled days of all draws of the grown work together, summed over the pools that change"
            }
        };
        Some(Effect {
            what: format!("Nodes{}", self.apart()),
            unit: String::new(),
            change: sum(&|part| part.recommended),
            low: end(&|part| part.needed?.low),
            high: end(&|part| part.needed?.high),
            interval: interval.to_owned(),
        })
    }

    /// A sentence that the nodes to buy or to let go may be none; `None` where their interval says
    /// otherwise, or there is none.
    pub(super) fn unproven(&self, parts: &[SizedPart]) -> Option<String> {
        // What can go is more than the upper end of what is needed, so that is shown.
        if self.of_mix().is_some() || parts.iter().any(|part| part.recommended < part.part.nodes()) {
            return None;
        }
        let Effect { low, high, .. } = self.nodes_effect(parts).filter(Effect::may_be_none)?;
        let end = |end: Option<f64>| end.map_or_else(|| "unknown".to_owned(), |end| format::float(end, 0));
        Some(format!(
            "**The interval of the change in nodes holds none at all** ({} to {}), so what was found may be chance.",
            end(low),
            end(high)
        ))
    }

    /// The recommendation; `None` where nothing is worth changing.
    pub(super) fn change(&self, trial: &CapacityTrial, parts: &[SizedPart], sure: Assurance) -> Option<Change> {
        if !self.changes_anything() {
            return None;
        }
        let mut effects: Vec<Effect> =
            self.shared().filter(|_| self.pool_held()).map(|pool| self.pool_effect(pool)).into_iter().collect();
        let mut assumed = vec!["Users submit the same jobs at the same times, whatever they wait.".to_owned()];
        let (regret, fewer, undo): (_, Vec<&str>, _) = if let Some(mix) = self.of_mix() {
            let why = "the nodes were chosen so that the waits are kept on days drawn anew; the windows say what it cost on later ones";
            let change = mix.per_month(MixBy::Recommended) - mix.per_month(MixBy::Static);
            effects.push(Effect::counted("Cost of the nodes", &format!("{} a month", mix.currency), change, why));
            assumed.push("The nodes are there from the first job of a replay on; those of a kind without a record fail as today's do.".to_owned());
            assumed.push(
                "Jobs run as fast on a kind as the file says, whatever they do: a job of several nodes as well."
                    .to_owned(),
            );
            let fewer = mix.pools.iter().filter(|pool| pool.recommended.per_month < pool.now.per_month);
            let oracle = "the cheapest mix that was enough in the windows, seen with hindsight";
            (
                mix.trial.regret(oracle, &mix.trial.of.naive.words),
                fewer.map(|pool| pool.pool.as_str()).collect(),
                "Put the nodes back, or drain those that were added; jobs are moved by neither. What was bought can be sold at a loss only.",
            )
        } else {
            let now = forward::together(parts, &|part| part.part.nodes())?;
            let then = forward::together(parts, &|part| part.recommended)?;
            effects.extend(self.nodes_effect(parts));
            if let (Some(before), Some(after)) = (now.p95_wait_s, then.p95_wait_s) {
                let what = format!("95 % quantile of the wait{}", self.apart());
                let why = "of the jobs that the number was chosen on; the windows say how it did on later ones";
                effects.push(Effect::counted(&what, "s", after - before, why));
            }
            assumed.push(
                "The nodes are there from the first job of a replay on, and new ones are like those of their pool."
                    .to_owned(),
            );
            let fewer = parts.iter().filter(|part| part.recommended < part.part.nodes());
            let oracle = "the fewest nodes that were enough in the windows, seen with hindsight";
            (
                trial.regret(oracle, &trial.of.naive.words),
                fewer.map(|part| part.part.name.as_str()).collect(),
                "Put the nodes back, or drain those that were added; jobs are moved by neither.",
            )
        };
        if self.growth.is_some() {
            assumed.push("Work grows as asked; on later days only what is without growth was tested.".to_owned());
        }
        assumed.extend(self.assumed.iter().cloned());
        let harmed = (!fewer.is_empty()).then(|| Harm {
            who: fewer.join(", "),
            how_much: "may wait longer than today, within the target on the record".to_owned(),
        });
        Some(Change {
            plan: "nodes",
            effects,
            against: format!("the nodes as they are, {}", self.policy),
            basis: Basis::LaterDays,
            regret,
            harmed: harmed.into_iter().collect(),
            risk: sure.risk.clone(),
            sure,
            assumed,
            holds_until: self.until_break.sentence(),
            apply: "Make the same plan with --emit cluster,slurm --emit-to FOLDER; `simulate --site FOLDER/cluster.toml` replays it."
                .to_owned(),
            command: None,
            undo,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use tracecast_analytics::facts::SizeClass;
    use tracecast_analytics::time::{DAY_MS, HOUR_MS};

    use super::super::{CapacityAnswer, of_ten_minutes, of_ten_minutes_under, report};
    use crate::replay::input::Loaded;
    use crate::sim::{Cluster, Policy, Scan, Shape, Workload};

    /// Forty days: a job of one GPU and half an hour each hour, and twice a day one of two nodes of 8 GPUs for five hours.
    fn loaded(nodes: u32) -> Loaded {
        let mut rows: Vec<(i64, i64, u32)> = (0..40 * 24).map(|hour| (hour * HOUR_MS, HOUR_MS / 2, 1)).collect();
        rows.extend((0..80).map(|half| (half * DAY_MS / 2 + 60_000, 5 * HOUR_MS, 16)));
        rows.sort_unstable();
        let mut workload = Workload::default();
        for (submit, run, gpus) in rows {
            workload.push(submit, run, Shape::whole(gpus));
        }
        Loaded {
            recorded_start_ms: workload.submit_ms.iter().map(|submit| Some(*submit)).collect(),
            cluster: Cluster::of_vcs(&[("a", nodes, 8)]),
            workload,
            ..Loaded::default()
        }
    }

    fn answer(nodes: u32) -> CapacityAnswer {
        of_ten_minutes(&loaded(nodes))
    }

    /// Regression test: 48 nodes were advised, and nothing said which jobs asked for them, nor that
    /// 28 by the simple rule had done better.
    #[test]
    fn which_jobs_ask_for_the_nodes_is_told_and_whether_the_simple_rule_did_no_worse() {
        let answer = answer(2);
        let of = &answer.body.nodes[0];
        // Two nodes hold the large jobs, which wait for the small ones that run on them.
        assert_eq!(of.needed.map(|needed| needed.value), Some(3), "{of:?}");
        let classes: Vec<Option<SizeClass>> = of.binding.iter().map(|jobs| jobs.class).collect();
        assert!(classes.contains(&Some(SizeClass::Many)), "{:?}", of.binding);
        let report = report(&answer);
        let binds = report.summary.iter().find(|said| said.starts_with("**What asks for so many nodes**"));
        assert!(binds.is_some_and(|said| said.contains("a by jobs of")), "{:?}", report.summary);
        // Theory stands with the theory.
        assert!(!report.summary.iter().any(|said| said.contains("theory")), "{:?}", report.summary);
        let theory = report.sections.iter().find(|section| section.id == "nodes-theory").unwrap();
        assert!(theory.finding.contains("Queueing theory and the replays"), "{}", theory.finding);
        // 16 GPUs for five of twelve hours, and one for half an hour of each, of 24 GPUs.
        let check = answer.body.theory.iter().find(|check| check.nodes == 3).unwrap();
        let by_hand = (16.0 * 5.0 / 12.0 + 0.5) / 24.0;
        assert!((check.load - by_hand).abs() < 0.01, "{check:?}");
    }

    /// Regression test: 26 nodes were to be bought by a strict order that nobody knew of, where
    /// none were by backfill.
    #[test]
    fn where_no_start_tells_the_order_the_other_stands_beside() {
        let mut loaded = loaded(3);
        loaded.recorded_start_ms.iter_mut().for_each(|start| *start = None);
        let skip = of_ten_minutes_under(&loaded, Scan::Skip);
        assert_eq!(skip.body.in_all.in_all_if_passed, None);
        let mut strict = of_ten_minutes_under(&loaded, Scan::Strict);
        assert_eq!(strict.body.in_all.in_all_if_passed, Some(skip.body.in_all.needed));
        // The caution leads where the other order needs another number and nodes would be bought or
        // go.
        strict.body.nodes[0].recommended = strict.body.nodes[0].now + 2;
        strict.body.in_all.in_all_if_passed = Some(strict.body.in_all.needed + 1);
        assert!(strict.body.act().starts_with("**Find out first") && strict.body.act().contains("If it does: **Buy 2"));
        strict.body.in_all.in_all_if_passed = Some(strict.body.in_all.needed);
        assert!(strict.body.act().starts_with("**Buy 2"), "{}", strict.body.act());
    }

    /// Regression test: figures stood in the imperative behind "far from what happened", and the
    /// confidence gave one test twice.
    #[test]
    fn on_a_replay_far_from_the_record_nothing_is_to_be_applied() {
        let mut loaded = loaded(2);
        let skip = Policy { scan: Scan::Skip, ..Policy::default() };
        let schedule = crate::sim::simulate(&loaded.workload, &loaded.cluster, &skip).unwrap();
        loaded.recorded_start_ms = (0..loaded.workload.len()).map(|job| schedule.start_ms(job)).collect();
        let near = of_ten_minutes(&loaded);
        assert!(near.action.starts_with("**Buy"), "{}", near.action);
        loaded.recorded_start_ms.iter_mut().flatten().for_each(|start| *start += 3 * HOUR_MS);
        let far = of_ten_minutes(&loaded);
        assert!(far.action.starts_with("**Apply nothing yet**") && far.action.contains("**Buy"), "{}", far.action);
        // How often it kept the target is told once, by the caution or by the test.
        let risk = near.assurance.unwrap().risk;
        assert_eq!(risk.matches("kept the target in").count(), 1, "{risk}");
    }

    #[test]
    fn every_job_is_judged_or_told_why_not() {
        let answer = answer(4);
        let of = answer.body.judged;
        assert_eq!((of.all, of.judged, of.while_filling), (1_040, 1_014, 26), "{of:?}");
        assert_eq!(of.judged + of.while_filling + of.impossible + of.unfinished, of.all);
        let report = report(&answer);
        let said = report.sections[0].definitions.iter().find(|said| said.starts_with("**Jobs**")).cloned();
        assert!(said.unwrap().contains("1,014 of 1,040 jobs are judged. Of the others 26 came before"));
    }

    /// Regression test: where the advice was to change nothing, nothing said how sure that was.
    #[test]
    fn an_answer_that_changes_nothing_says_how_sure_it_is() {
        let answer = answer(3);
        assert!(answer.recommendation.is_none() && answer.action.contains("Change nothing"), "{}", answer.action);
        let said = report(&answer).summary[2].clone();
        assert!(said.starts_with("Confidence: high. The replay repeats what happened"), "{said}");
        assert!(said.contains("tests (a pool in a window)"), "{said}");
    }
}
