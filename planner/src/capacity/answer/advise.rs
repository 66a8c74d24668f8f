//! What the answer of `plan capacity` tells its reader to do.
//!
//! Nodes are bought for pools that lack them, unless the VCs would need far fewer in one pool that wrongs none of them: then sharing comes first. A pool that `plan queues` would refuse is
//! told, with whom it wrongs, and not advised. Worked example: 50 nodes to buy for VCs apart, of which there are 40 today, and 42 enough in one pool: 2 against 50, so "Let the VCs share
//! nodes before you buy any".

use tracecast_analytics::report::format;

use super::{CapacityAnswer, NodesOfType, NotJudged};
use crate::capacity::forward::{self, SizedPart};
use crate::capacity::heldout::NodesBy;
use crate::capacity::mix::{MixAnswer, MixBy};
use crate::plan::{Basis, Confidence, Effect, Harm, Recommendation, Regret};

impl CapacityAnswer {
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

    /// Whether the VCs are to share nodes before any are bought.
    pub(in crate::capacity) fn shares_first(&self) -> bool {
        self.cheaper_in_one_pool(self.to_buy()).is_some()
    }

    /// That sharing comes first, in a sentence.
    fn sharing(&self, pool: u64) -> String {
        format!(
            "**Let the VCs share nodes before you buy any**: in one pool {} keep the target, and there are {}. No VC would wait longer there than on its own nodes; `plan queues` says how to share, and tests it on today's nodes.",
            format::counted(pool, "node", "nodes"),
            self.in_all.now
        )
    }

    /// What one pool would need, and whom it wrongs, in a sentence; `None` where it was not sized, or the action has said so.
    pub(super) fn pooled(&self) -> Option<String> {
        let pool = self.in_all.needed_in_one_pool.filter(|_| !self.shares_first())?;
        let verdict = match self.wronged_in_one_pool.as_slice() {
            [] => "No VC would wait longer there than on the nodes that it has. `plan queues` says whether today's nodes can be shared so.".to_owned(),
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
        let mut said = match &self.mix {
            // Sharing comes before any nodes, of whatever kind.
            Some(mix) if mix.is_advised() && self.shares_first() => {
                let pool = self.in_all.needed_in_one_pool.map_or(0, u64::from);
                format!("{} If each VC keeps nodes of its own: {}", self.sharing(pool), mix.action)
            }
            Some(mix) if mix.is_advised() || !mix.changes() => mix.action.clone(),
            Some(mix) => format!("{} {}", self.changes(), mix.action),
            None => self.changes(),
        };
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

    /// What to change, in a sentence.
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

    /// How sure a rule is that kept the target in this share of the tests.
    fn confidence(&self, share: f64, windows: u64) -> Confidence {
        if !self.fidelity.is_close() || !self.cautions.is_empty() || share < 0.8 {
            Confidence::Low
        } else if windows >= 3 && share >= 1.0 {
            Confidence::High
        } else {
            Confidence::Medium
        }
    }

    /// The mix of kinds as every plan recommends; `None` where nothing is worth changing.
    fn recommend_mix(&self, mix: &MixAnswer) -> Option<Recommendation> {
        if !mix.changes() {
            return None;
        }
        let change = |by: MixBy| mix.per_month(by) - mix.per_month(MixBy::Static);
        let tested = |by: MixBy| mix.rule(by);
        let (recommended, oracle) = (tested(MixBy::Recommended)?, tested(MixBy::Oracle)?);
        let (stays, naive) = (tested(MixBy::Static)?, tested(MixBy::Peak)?);
        let share = recommended.pools_kept as f64 / recommended.pools.max(1) as f64;
        let fewer = mix.pools.iter().filter(|pool| pool.recommended.per_month < pool.now.per_month);
        let fewer: Vec<&str> = fewer.map(|pool| pool.pool.as_str()).collect();
        let mut assumptions = vec![
            "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
            "The nodes are there from the first job of a replay on; those of a kind without a record fail as today's do.".to_owned(),
            "Jobs run as fast on a kind as the file says, whatever they do: a job of several nodes as well.".to_owned(),
        ];
        if self.growth.is_some() {
            assumptions.push("Work grows as asked; on later days only the mix without growth was tested.".to_owned());
        }
        Some(Recommendation {
            plan: "capacity".to_owned(),
            action: self.action.clone(),
            effects: vec![Effect {
                what: "Cost of the nodes".to_owned(),
                unit: format!("{} a month", mix.currency),
                change: change(MixBy::Recommended),
                low: None,
                high: None,
                interval: "none: the nodes were chosen so that the waits are kept on days drawn anew; the windows say what it cost on later ones".to_owned(),
            }],
            against: format!("the nodes as they are, {}", self.policy),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "the cheapest mix that was enough in the windows, seen with hindsight".to_owned(),
                oracle_change: oracle.per_month - stays.per_month,
                naive_change: Some(naive.per_month - stays.per_month),
                naive: Some(naive.what.clone()),
            }),
            harmed: match fewer.as_slice() {
                [] => Vec::new(),
                fewer => vec![Harm {
                    who: fewer.join(", "),
                    how_much: "may wait longer than today, within the target on the record".to_owned(),
                }],
            },
            confidence: self.confidence(share, mix.windows),
            risk: format!(
                "{} What was recommended so before kept the target in {} of {} tests (a pool in a window).",
                self.fidelity.sentence(),
                format::count(recommended.pools_kept),
                format::count(recommended.pools)
            ),
            assumptions,
            holds_until: self.until_break.sentence(),
            apply: "Make the same plan with --emit cluster,slurm --emit-to FOLDER.".to_owned(),
            command: None,
            undo: "Put the nodes back, or drain those that were added; jobs are moved by neither. What was bought can be sold at a loss only.".to_owned(),
        })
    }

    /// The same as every plan recommends; `None` where nothing is worth changing.
    pub(super) fn recommend(&self, parts: &[SizedPart]) -> Option<Recommendation> {
        if let Some(mix) = self.mix.as_ref().filter(|mix| mix.is_advised() || !mix.changes()) {
            return self.recommend_mix(mix);
        }
        if parts.iter().all(|part| part.recommended == part.part.nodes()) {
            return None;
        }
        let (now, then) =
            (forward::together(parts, &|part| part.part.nodes())?, forward::together(parts, &|part| part.recommended)?);
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
        let mut effects = vec![Effect {
            what: "Nodes".to_owned(),
            unit: String::new(),
            change: sum(&|part| part.recommended),
            low: end(&|part| part.needed?.low),
            high: end(&|part| part.needed?.high),
            interval: interval.to_owned(),
        }];
        let told = "of the jobs that the number was chosen on: no interval; the windows say how it did on later ones";
        if let (Some(before), Some(after)) = (now.p95_wait_s, then.p95_wait_s) {
            effects.push(Effect {
                what: "95 % quantile of the wait".to_owned(),
                unit: "s".to_owned(),
                change: after - before,
                low: None,
                high: None,
                interval: told.to_owned(),
            });
        }
        let rule = |by: NodesBy| self.rule(by);
        let (tested, oracle) = (rule(NodesBy::Recommended)?, rule(NodesBy::Oracle)?);
        let (stays, naive) = (rule(NodesBy::Static)?, rule(NodesBy::Mean80)?);
        let share = tested.pools_kept as f64 / tested.pools.max(1) as f64;
        let confidence = self.confidence(share, self.held_out.windows.len() as u64);
        let fewer: Vec<&str> = parts
            .iter()
            .filter(|part| part.recommended < part.part.nodes())
            .map(|part| part.part.name.as_str())
            .collect();
        let harmed = if fewer.is_empty() {
            Vec::new()
        } else {
            vec![Harm {
                who: fewer.join(", "),
                how_much: "wait longer than today, within the target on the record".to_owned(),
            }]
        };
        let mut assumptions = vec![
            "Users submit the same jobs at the same times, whatever they wait.".to_owned(),
            "The nodes are there from the first job of a replay on, and new ones are like those of their pool."
                .to_owned(),
        ];
        if self.growth.is_some() {
            assumptions
                .push("Work grows as asked; on later days only the number without growth was tested.".to_owned());
        }
        Some(Recommendation {
            plan: "capacity".to_owned(),
            action: self.action.clone(),
            effects,
            against: format!("the nodes as they are, {}", self.policy),
            basis: Basis::LaterDays,
            regret: Some(Regret {
                oracle: "the fewest nodes that were enough in the windows, seen with hindsight".to_owned(),
                oracle_change: oracle.nodes - stays.nodes,
                naive_change: Some(naive.nodes - stays.nodes),
                naive: Some(naive.what.clone()),
            }),
            harmed,
            confidence,
            risk: format!(
                "{} What was recommended so before kept the target in {} of {} tests (a pool in a window).{}",
                self.fidelity.sentence(),
                format::count(tested.pools_kept),
                format::count(tested.pools),
                self.held_out.apart().map_or_else(String::new, |apart| format!(" {apart}"))
            ),
            assumptions,
            holds_until: self.until_break.sentence(),
            apply: "Make the same plan with --emit cluster,slurm --emit-to FOLDER; `simulate --cluster FOLDER/cluster.toml` replays it."
                .to_owned(),
            command: None,
            undo: "Put the nodes back, or drain those that were added; jobs are moved by neither.".to_owned(),
        })
    }
}
