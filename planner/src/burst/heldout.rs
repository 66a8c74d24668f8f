//! Nodes and a waiting policy that were chosen on earlier weeks, priced on later ones.
//!
//! Every [rule](BurstRule) chooses on the weeks before the split, with the jobs as they were known then: those that had started, their runs cut off at that moment. All jobs are then replayed
//! from the first on, so that the later ones meet the pool as it was left, and the later hours are billed. GPU types are planned one by one, and put together.
//!
//! Beside the plan stand everything on demand, nodes for the earlier peak and the newsvendor's
//! number of `plan rent fleet` with nobody waiting, each family of
//! policies with the best of its thresholds and numbers of nodes, families that know the runs, and the best of all, chosen with hindsight on the later weeks.
//!
//! O(rules × replay + two searches) a GPU type. Worked example: three weeks, of which the last is priced: what costs least on the two before has 16 nodes and lets all wait for an hour; on the third it
//! costs 900 where everything on demand costs 1,400.

use schemars::JsonSchema;
use serde::Serialize;

use super::part::{BurstPart, BurstSetup, BurstSpent, WaitedJob};
use super::policy::{RunsFrom, WaitingFamily, WaitingPolicy, candidates};
use super::search::{BurstAim, BurstSearch, tried};
use crate::error::{Error, Result};
use crate::market::demand::{HourDemand, PoolDemand, PoolJobs};
use crate::market::levels::{levels, newsvendor};
use crate::market::offers::Offers;
use crate::market::predicted::DrivenOutcome;
use crate::market::supply::{Commitment, PoolSupply, SupplyOptions, Term};
use crate::plan::checkpoint::CheckpointCosts;
use crate::plan::weeks::{WeekSplit, blocks, hours, whole};

/// Where a number of nodes and a policy come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BurstRule {
    /// Everything on demand.
    OnDemand,
    /// Nodes for the earlier peak; nobody waits.
    Peak,
    /// The newsvendor's number of nodes; nobody waits.
    Newsvendor,
    /// Nobody waits.
    Nobody,
    /// All wait without limit.
    Everybody,
    /// All wait for some time.
    UpTo,
    /// Jobs of many GPUs wait.
    Wide,
    /// Jobs of few GPUs wait.
    Narrow,
    /// Jobs that are predicted to be long wait.
    Long,
    /// Jobs that are predicted to be short wait.
    Short,
    /// Jobs whose wait is foreseen to be short wait.
    ShortWaits,
    /// Long jobs wait, and jobs whose wait is foreseen to be short.
    LongOrShortWaits,
    /// `long` with runs known.
    LongKnown,
    /// `short` with runs known.
    ShortKnown,
    /// `short_waits` with runs known.
    ShortWaitsKnown,
    /// `long_or_short_waits` with runs known.
    LongOrShortWaitsKnown,
    /// The best of the families that limit waits and know no run.
    Plan,
    /// The best of all that limit waits, chosen on the later weeks.
    Hindsight,
}

impl BurstRule {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 18] = [
        Self::OnDemand,
        Self::Peak,
        Self::Newsvendor,
        Self::Nobody,
        Self::Everybody,
        Self::UpTo,
        Self::Wide,
        Self::Narrow,
        Self::Long,
        Self::Short,
        Self::ShortWaits,
        Self::LongOrShortWaits,
        Self::LongKnown,
        Self::ShortKnown,
        Self::ShortWaitsKnown,
        Self::LongOrShortWaitsKnown,
        Self::Plan,
        Self::Hindsight,
    ];

    /// Name in words.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::OnDemand => "all on demand",
            Self::Peak => "nodes for the earlier peak, nobody waits",
            Self::Newsvendor => "newsvendor's nodes, nobody waits",
            Self::Nobody => "nobody waits (NJW)",
            Self::Everybody => "all wait, without limit (AJW)",
            Self::UpTo => "all wait for some time",
            Self::Wide => "jobs of many GPUs wait",
            Self::Narrow => "jobs of few GPUs wait",
            Self::Long => "long jobs wait (LJW)",
            Self::Short => "short jobs wait",
            Self::ShortWaits => "short waits wait (SWW)",
            Self::LongOrShortWaits => "long jobs or short waits (compound)",
            Self::LongKnown => "LJW, runs known",
            Self::ShortKnown => "short jobs wait, runs known",
            Self::ShortWaitsKnown => "SWW, runs known",
            Self::LongOrShortWaitsKnown => "compound, runs known",
            Self::Plan => "the plan",
            Self::Hindsight => "the best, with hindsight",
        }
    }

    /// The family whose best threshold and number of nodes it takes.
    fn family(self) -> Option<(WaitingFamily, RunsFrom)> {
        let (family, runs) = match self {
            Self::OnDemand | Self::Peak | Self::Newsvendor | Self::Plan | Self::Hindsight => return None,
            Self::Nobody => (WaitingFamily::Nobody, RunsFrom::Predicted),
            Self::Everybody => (WaitingFamily::Everybody, RunsFrom::Predicted),
            Self::UpTo => (WaitingFamily::UpTo, RunsFrom::Predicted),
            Self::Wide => (WaitingFamily::Wide, RunsFrom::Predicted),
            Self::Narrow => (WaitingFamily::Narrow, RunsFrom::Predicted),
            Self::Long => (WaitingFamily::Long, RunsFrom::Predicted),
            Self::Short => (WaitingFamily::Short, RunsFrom::Predicted),
            Self::ShortWaits => (WaitingFamily::ShortWaits, RunsFrom::Predicted),
            Self::LongOrShortWaits => (WaitingFamily::LongOrShortWaits, RunsFrom::Predicted),
            Self::LongKnown => (WaitingFamily::Long, RunsFrom::Recorded),
            Self::ShortKnown => (WaitingFamily::Short, RunsFrom::Recorded),
            Self::ShortWaitsKnown => (WaitingFamily::ShortWaits, RunsFrom::Recorded),
            Self::LongOrShortWaitsKnown => (WaitingFamily::LongOrShortWaits, RunsFrom::Recorded),
        };
        Some((family, runs))
    }
}

/// What the nodes of the pool are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnNodes {
    /// Nodes that are bought.
    Bought,
    /// Nodes that are reserved.
    Reserved,
}

/// Target and limits of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstTerms {
    /// The wait that 95 % of the jobs, and of those of each size class, are not to exceed, seconds.
    pub target_s: f64,
    /// The longest wait, ms.
    pub most_ms: i64,
    /// Nodes that there are; `None` where their number is to be chosen.
    pub nodes: Option<u32>,
    /// Whether nobody is to wait, and only the number of nodes is chosen.
    pub nobody_waits: bool,
    /// Kind of the nodes; bought where the offers have such, if `None`.
    pub own: Option<OwnNodes>,
    /// Months that are planned for: a longer commitment counts as paid to its end within them.
    pub horizon_months: f64,
}

impl BurstTerms {
    /// Returns the target of the search.
    pub fn aim(&self) -> BurstAim {
        BurstAim { target_s: self.target_s, nodes: self.nodes }
    }

    /// Nobody waits, for the nodes that there are.
    pub fn unwaited(&self) -> BurstSetup {
        BurstSetup::unwaited(self.nodes.unwrap_or(0))
    }

    /// What the plan chooses from.
    pub fn candidates(&self) -> Vec<(WaitingFamily, RunsFrom)> {
        let all = candidates().into_iter();
        all.filter(|(family, _)| !self.nobody_waits || *family == WaitingFamily::Nobody).collect()
    }
}

/// What the plan chooses of what was tried: the least cost of the candidates that keep the target. `None` if nobody waiting was not tried.
pub fn plan_of(search: &BurstSearch, terms: &BurstTerms) -> Option<BurstSetup> {
    let candidates = terms.candidates();
    let may = |setup: &BurstSetup| candidates.contains(&(setup.policy.family(), setup.runs));
    search.best(|tried| may(&tried.setup) && tried.judged_s <= terms.target_s).map(|best| best.setup)
}

/// The pool of each GPU type that has jobs: its position, the nodes, and what can be rented.
#[derive(Debug, Clone)]
pub struct BurstSupply {
    /// Position of the pool in the offers.
    pub pool: usize,
    /// Nodes of the pool.
    pub own: Commitment,
    /// On-demand.
    pub supply: PoolSupply,
}

/// What each GPU type with jobs can run on.
///
/// # Errors
/// If nothing can be owned or reserved of a type, all its instances on demand are limited, or `--nodes` is given and there are several types.
pub fn supplies(jobs: &PoolJobs<'_>, offers: &Offers, terms: &BurstTerms) -> Result<Vec<BurstSupply>> {
    let wrong = |what: String| Error::file(offers.file.clone(), 1, what);
    let mut with_jobs: Vec<usize> = jobs.unwaited(i64::MAX).iter().map(|job| job.pool).collect();
    with_jobs.sort_unstable();
    with_jobs.dedup();
    if with_jobs.is_empty() {
        return Err(Error::no_jobs("no job ever held a GPU, so there is nothing to run".to_owned()));
    }
    if let (Some(nodes), [_, _, ..]) = (terms.nodes, with_jobs.as_slice()) {
        return Err(Error::malformed(
            "number of nodes for jobs of several GPU types",
            nodes.to_string(),
            "leave --nodes out, or name sources whose jobs ask for one type".to_owned(),
        ));
    }
    let of = |at: usize| {
        let pool = offers.pools.get(at).ok_or_else(|| Error::defect("a job has no pool".to_owned()))?;
        // Nothing runs on spot, so what checkpoints cost there is nothing.
        let costs = CheckpointCosts { checkpoint_s: 0.0, restart_s: 0.0 };
        let options = SupplyOptions { horizon_months: terms.horizon_months, buy: true, costs };
        let supply = PoolSupply::new(offers, pool, &PoolDemand::default(), &options).without_spot();
        let cheapest = |bought: bool| supply.cheapest(|term| (term == Term::Owned) == bought).map(|(_, of)| of.clone());
        let own = match terms.own {
            Some(OwnNodes::Bought) => cheapest(true),
            Some(OwnNodes::Reserved) => cheapest(false),
            None => cheapest(true).or_else(|| cheapest(false)),
        };
        let own = own.ok_or_else(|| {
            let key = match terms.own {
                Some(OwnNodes::Bought) => "an [[owned]] node",
                Some(OwnNodes::Reserved) => "`reserved` prices",
                None => "an [[owned]] node, or `reserved` prices",
            };
            wrong(format!("nothing is said of what a GPU of one's own costs of the type `{}`; add {key} to the offers file (one beside a table of prices, if there is none)", pool.gpu))
        })?;
        if supply.on_demand.iter().all(|rental| rental.limit.is_finite()) {
            return Err(wrong(format!(
                "all instances on demand with the GPU `{}` are limited, and what does not wait must find room there; leave on_demand_limit out of one",
                pool.gpu
            )));
        }
        Ok(BurstSupply { pool: at, own, supply })
    };
    with_jobs.into_iter().map(of).collect()
}

/// One rule on the later weeks.
#[derive(Debug, Clone, PartialEq)]
pub struct TestedBurst {
    /// The rule.
    pub rule: BurstRule,
    /// Choices, by GPU type.
    pub setups: Vec<BurstSetup>,
    /// Cost of each window.
    pub windows: Vec<BurstSpent>,
    /// Cost of each block that intervals resample.
    pub blocks: Vec<BurstSpent>,
    /// Later jobs.
    pub waits: Vec<WaitedJob>,
    /// The wait that 95 % of the later jobs of a GPU type did not exceed, nor those of one of its size classes, seconds; the longest of these.
    pub p95_s: f64,
}

impl TestedBurst {
    fn new(rule: BurstRule, split: &WeekSplit) -> Self {
        Self {
            rule,
            setups: Vec::new(),
            windows: vec![BurstSpent::default(); hours(&split.after).len()],
            blocks: vec![BurstSpent::default(); blocks(&split.after).len()],
            waits: Vec::new(),
            p95_s: 0.0,
        }
    }

    /// All windows together.
    pub fn spent(&self) -> BurstSpent {
        self.windows.iter().sum()
    }

    /// Adds what a setup makes of a GPU type.
    fn add(&mut self, part: &BurstPart, setup: BurstSetup, split: &WeekSplit) -> Result<()> {
        let times = part.replay(&setup)?;
        let later = whole(&split.after);
        for (into, ranges) in [(&mut self.windows, hours(&split.after)), (&mut self.blocks, blocks(&split.after))] {
            let result = part.account(&setup, &times, later, &ranges);
            into.iter_mut().zip(&result).for_each(|(sum, result)| sum.add(result));
        }
        self.waits.extend(part.waits(&times, later));
        self.p95_s = self.p95_s.max(part.p95_s(&times, later));
        self.setups.push(setup);
        Ok(())
    }
}

/// Replaces the results of the plan by those of `Nobody`, for where the plan is that nobody waits.
pub(super) fn planned_unwaited(mut tested: Vec<TestedBurst>) -> Vec<TestedBurst> {
    let nobody = tested.iter().find(|tested| tested.rule == BurstRule::Nobody).cloned();
    if let (Some(nobody), Some(plan)) = (nobody, tested.iter_mut().find(|tested| tested.rule == BurstRule::Plan)) {
        *plan = TestedBurst { rule: BurstRule::Plan, ..nobody };
    }
    tested
}

/// What the rules chose from and were priced on.
#[derive(Debug, Clone, Copy)]
pub struct BurstCase<'a> {
    /// Jobs.
    pub jobs: &'a PoolJobs<'a>,
    /// Offers.
    pub offers: &'a Offers,
    /// Predicted run of each row of the trace, seconds.
    pub predicted_s: &'a [f64],
    /// The request.
    pub terms: &'a BurstTerms,
}

impl BurstCase<'_> {
    /// The jobs of a GPU type as they were known at a moment, and what they need over a stretch.
    pub fn part(&self, of: &BurstSupply, stretch: (i64, i64), known_ms: i64) -> (BurstPart, PoolDemand) {
        let gpu = self.offers.pools.get(of.pool).map_or("", |pool| pool.gpu.as_str());
        let (own, supply) = (of.own.clone(), of.supply.clone());
        let jobs = self.jobs.unwaited(known_ms);
        let part = BurstPart::new((gpu, of.pool), &jobs, self.predicted_s, (own, supply), self.terms.most_ms);
        let demand = self.jobs.demand(stretch, known_ms).into_iter().nth(of.pool).unwrap_or_default();
        (part, demand)
    }

    /// Every rule: chosen before the split with what was known then, priced after it.
    ///
    /// # Errors
    /// Errors of [`BurstPart::replay`].
    pub fn test(&self, supplies: &[BurstSupply], split: &WeekSplit) -> Result<Vec<TestedBurst>> {
        let nodes = self.terms.nodes;
        // Where the nodes are there, how many there might have been is no question.
        let request = |rule: &BurstRule| {
            nodes.is_none() || !matches!(rule, BurstRule::OnDemand | BurstRule::Peak | BurstRule::Newsvendor)
        };
        let mut result: Vec<TestedBurst> =
            BurstRule::ALL.into_iter().filter(request).map(|rule| TestedBurst::new(rule, split)).collect();
        for supply in supplies {
            self.test_type(supply, split, &mut result)?;
        }
        Ok(result)
    }

    /// The plan alone: the cost of the weeks that it is chosen on, and of each block of the later
    /// weeks.
    ///
    /// # Errors
    /// Errors of [`BurstPart::replay`].
    pub(crate) fn planned(&self, supplies: &[BurstSupply], split: &WeekSplit) -> Result<DrivenOutcome> {
        let stretch = whole(&split.before);
        let mut tested = TestedBurst::new(BurstRule::Plan, split);
        let mut earlier = 0.0;
        for supply in supplies {
            let (before, need) = self.part(supply, stretch, split.split_ms());
            let search = BurstSearch::new(&before, &need, stretch, &self.terms.candidates(), &self.terms.aim())?;
            let setup = plan_of(&search, self.terms).unwrap_or(self.terms.unwaited());
            earlier += tried(&before, setup, stretch)?.cost;
            let (after, _) = self.part(supply, whole(&split.after), i64::MAX);
            tested.add(&after, setup, split)?;
        }
        Ok(DrivenOutcome { earlier, later: tested.blocks.iter().map(BurstSpent::cost).collect() })
    }

    fn test_type(&self, supply: &BurstSupply, split: &WeekSplit, result: &mut [TestedBurst]) -> Result<()> {
        let (aim, target_s) = (self.terms.aim(), self.terms.target_s);
        let (earlier, later) = (whole(&split.before), whole(&split.after));
        let (before, need) = self.part(supply, earlier, split.split_ms());
        let families: Vec<(WaitingFamily, RunsFrom)> =
            BurstRule::ALL.into_iter().filter_map(BurstRule::family).collect();
        let search = BurstSearch::new(&before, &need, earlier, &families, &aim)?;
        let fallback = self.terms.unwaited();
        let most = supply.own.limit.unwrap_or(u32::MAX);
        let (after, need_after) = self.part(supply, later, i64::MAX);
        let mut chosen: Vec<BurstSetup> = Vec::new();
        for tested in result.iter_mut() {
            let setup = match tested.rule {
                BurstRule::OnDemand => BurstSetup::unwaited(0),
                BurstRule::Peak => {
                    let peak = HourDemand::most(&need.hours);
                    BurstSetup::unwaited(((peak / supply.own.gpus).ceil().min(1e6) as u32).min(most))
                }
                BurstRule::Newsvendor => {
                    let levels = levels(&supply.supply, need.hours.iter().copied());
                    let count = newsvendor(&supply.supply, &levels, &supply.own);
                    BurstSetup::unwaited(count.min(most))
                }
                BurstRule::Plan => plan_of(&search, self.terms).unwrap_or(fallback),
                BurstRule::Hindsight => self.oracle((&after, &need_after), later, &families, &chosen)?,
                // With the nodes that are there, what all wait without limit is worth is told even if it breaks the target.
                BurstRule::Everybody if aim.nodes.is_some() => {
                    BurstSetup { policy: WaitingPolicy::Everybody, ..fallback }
                }
                rule => {
                    let best = rule.family().and_then(|family| search.best_of(family, target_s));
                    best.map_or(fallback, |best| best.setup)
                }
            };
            chosen.push(setup);
            tested.add(&after, setup, split)?;
        }
        Ok(())
    }

    /// The least cost of all that keeps the target on the later weeks, and limits waits; what the other rules chose is among it.
    fn oracle(
        &self,
        (part, need): (&BurstPart, &PoolDemand),
        later: (i64, i64),
        families: &[(WaitingFamily, RunsFrom)],
        chosen: &[BurstSetup],
    ) -> Result<BurstSetup> {
        let limited: Vec<(WaitingFamily, RunsFrom)> =
            families.iter().copied().filter(|(family, _)| *family != WaitingFamily::Everybody).collect();
        let mut search = BurstSearch::new(part, need, later, &limited, &self.terms.aim())?;
        for setup in chosen.iter().filter(|setup| setup.policy.family() != WaitingFamily::Everybody) {
            search.tried.push(tried(part, *setup, later)?);
        }
        let best = search.best(|tried| tried.p95_s <= self.terms.target_s);
        Ok(best.map_or(self.terms.unwaited(), |best| best.setup))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use tracecast_analytics::facts::JobFacts;
    use tracecast_analytics::time::{DAY_MS, HOUR_MS};

    use super::*;
    use crate::market::demand::tests::{Drawn, OFFERS, changed_after_the_split, changes, drawn, nine_days};
    use crate::market::demand::{DemandTimes, Flexible};
    use crate::market::predicted::last_two_by_row;

    const TERMS: BurstTerms = BurstTerms {
        target_s: 3_600.0,
        most_ms: 24 * HOUR_MS,
        nodes: None,
        nobody_waits: false,
        own: None,
        horizon_months: 12.0,
    };

    fn rules(drawn: &Drawn, terms: &BurstTerms) -> Vec<TestedBurst> {
        let trace = nine_days(drawn);
        let facts = JobFacts::new(&trace);
        let offers = Offers::parse("o.toml", OFFERS).unwrap();
        let jobs = PoolJobs::new(&facts, &offers, DemandTimes::Unwaited, &Flexible::Nobody).unwrap();
        let all = jobs.unwaited(i64::MAX);
        let predicted_s = last_two_by_row(&facts, &all);
        let split = WeekSplit::new((0, 9 * DAY_MS), Some(6 * DAY_MS)).unwrap();
        let case = BurstCase { jobs: &jobs, offers: &offers, predicted_s: &predicted_s, terms };
        case.test(&supplies(&jobs, &offers, terms).unwrap(), &split).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn what_happens_after_the_split_changes_no_decision(jobs in drawn(), changes in changes()) {
            let other = changed_after_the_split(&jobs, changes);
            let (one, two) = (rules(&jobs, &TERMS), rules(&other, &TERMS));
            for (one, two) in one.iter().zip(&two).filter(|(one, _)| one.rule != BurstRule::Hindsight) {
                prop_assert_eq!(&one.setups, &two.setups, "{:?}", one.rule);
            }
        }

        #[test]
        fn hindsight_is_the_best_of_all_that_was_tried_and_accounts_add_up(jobs in drawn(), nodes in prop::option::of(1u32..6)) {
            let terms = BurstTerms { nodes, ..TERMS };
            let tested = rules(&jobs, &terms);
            let of = |rule: BurstRule| tested.iter().find(|tested| tested.rule == rule);
            let best = of(BurstRule::Hindsight).unwrap().spent().cost();
            for rule in &tested {
                let cost = rule.spent().cost();
                let keeps = rule.p95_s <= terms.target_s && rule.rule != BurstRule::Everybody;
                prop_assert!(!keeps || cost >= best * (1.0 - 1e-9), "{:?}", rule.rule);
                let sum = |parts: &[BurstSpent]| parts.iter().map(BurstSpent::cost).sum::<f64>();
                prop_assert!((sum(&rule.windows) - sum(&rule.blocks)).abs() < 1e-6 * (1.0 + best));
                let longest = rule.waits.iter().map(|job| job.wait_ms).max().unwrap_or(0);
                prop_assert!(rule.rule == BurstRule::Everybody || longest <= terms.most_ms);
                prop_assert!(nodes.is_none() || rule.setups.iter().all(|setup| Some(setup.nodes) == nodes));
            }
            // Where nobody waits, the same work is done whatever is owned.
            let work = |rule: BurstRule| of(rule).map(|tested| tested.spent().own_gpu_h + tested.spent().cloud_gpu_h);
            if let (Some(steady), Some(peak)) = (work(BurstRule::OnDemand), work(BurstRule::Peak)) {
                prop_assert!((steady - peak).abs() < 1e-6 * (1.0 + steady));
            }
        }
    }
}
