//! The mix of kinds as data.
//!
//! Pools that are not judged keep their nodes. Costs are of a month, of 730.5 hours. O(pools × kinds). Worked number: 10 nodes at 20 an hour cost 146,100 a month.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::Serialize;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::watch::Watch;

use super::heldout::{self, MixWindow};
use super::kinds::{KindStock, NodeKind, NodeKinds};
use super::rule::{MixBy, Planned};
use super::search::{Bench, Mix};
use super::way::{PartKinds, Way};
use crate::capacity::forward::SizedPart;
use crate::capacity::heldout::{TestedWindow, warmed_up};
use crate::capacity::part::Part;
use crate::capacity::search::WaitTarget;
use crate::capacity::tests_kept::{TestsKept, rolling};
use crate::error::Result;
use crate::plan::interval::average;
use crate::plan::money::MONTH_H;
use crate::plan::offered::OfferedTraffic;
use crate::plan::trial::{Priced, Roles, RuleOverWindows, Trial};
use crate::replay::input::Loaded;
use crate::sim::{Policy, Workload};

/// How many times as fast as said another kind is taken to be, to see what the plan makes of that.
const FASTER: [f64; 3] = [0.8, 1.0, 1.25];

/// A kind of nodes, as the file has it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KindOfNodes {
    /// Name of the kind.
    pub name: String,
    /// GPUs of a node.
    pub gpus_per_node: u32,
    /// GPU type of the nodes.
    pub gpu_type: Option<String>,
    /// Cost of an hour of a node that is yet to be had.
    pub per_hour: f64,
    /// Cost of an hour of a node that is there already.
    pub there_per_hour: f64,
    /// How fast jobs of each size class run; an assumption of the file.
    pub speed: Vec<SpeedOfClass>,
}

/// A speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpeedOfClass {
    /// Size class of the jobs.
    pub class: SizeClass,
    /// How fast they run.
    pub speed: f64,
}

/// How nodes of several kinds stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodesStand {
    /// In one queue.
    OneQueue,
    /// All are of a kind of another speed.
    AllOfOne,
    /// One kind has a queue of its own, for some size classes.
    OneApart,
}

/// Nodes of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NodesOfKind {
    /// The kind.
    pub kind: String,
    /// How many.
    pub nodes: u32,
}

/// Nodes by kind with their cost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PricedNodes {
    /// How the nodes stand.
    pub stand: NodesStand,
    /// The kind that stands apart.
    pub apart: Option<String>,
    /// Size classes that queue for it.
    pub classes: Vec<SizeClass>,
    /// Nodes, of kinds that there are any of.
    pub nodes: Vec<NodesOfKind>,
    /// Cost a month.
    pub per_month: f64,
}

/// A pool by kind.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MixOfPool {
    /// The pool.
    pub pool: String,
    /// Today's nodes.
    pub now: PricedNodes,
    /// Whether they are enough.
    pub enough_now: bool,
    /// The fewest that are enough in today's proportions; none where the pool is not judged.
    pub in_proportions: Option<PricedNodes>,
    /// The cheapest that are enough.
    pub cheapest: Option<PricedNodes>,
    /// The cheapest that are enough on 97.5 % of resampled days (under growth of those of all draws together); none where that is not known.
    pub upper: Option<PricedNodes>,
    /// Recommended stock.
    pub recommended: PricedNodes,
    /// Whether the search came to its end; else a cheaper mix may be there.
    pub complete: bool,
}

/// Cost of all pools a month by a rule.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CostByRule {
    /// The rule; there is no oracle.
    pub by: MixBy,
    /// The rule in words.
    pub what: String,
    /// Nodes.
    pub nodes: u64,
    /// Cost a month.
    pub per_month: f64,
}

/// All pools with nodes of one other kind alone.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct AnotherKind {
    /// The kind.
    pub kind: String,
    /// How many times as fast as the file says it was taken to be.
    pub faster: f64,
    /// Fewest nodes that are enough, in the pools where some number is.
    pub nodes: u64,
    /// Cost a month.
    pub per_month: f64,
    /// What the fewest of today's kinds cost in the same pools.
    pub today_per_month: f64,
    /// The price an hour of a node at which both cost the same; none without nodes.
    pub even_per_hour: Option<f64>,
    /// Pools where some number of it is enough.
    pub pools: u64,
    /// Judged pools.
    pub of: u64,
}

/// The test of the mixes on later days. Amounts are what the nodes cost a month, mean over windows.
pub type MixTrial = Trial<MixBy, TestsKept, MixInWindow>;

/// Figures of a mix in a window, beside its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MixInWindow {
    /// Nodes.
    pub nodes: u64,
    /// Pools that kept the target.
    pub pools_kept: u64,
    /// Pools that are judged.
    pub pools: u64,
}

/// The mix of kinds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MixAnswer {
    /// Currency of all costs.
    pub currency: String,
    /// Kinds.
    pub kinds: Vec<KindOfNodes>,
    /// Pools.
    pub pools: Vec<MixOfPool>,
    /// Cost of all pools by each rule.
    pub cost: Vec<CostByRule>,
    /// What another kind alone does.
    pub another: Vec<AnotherKind>,
    /// The test on later days.
    pub trial: MixTrial,
    /// Recommended action, in a sentence.
    pub action: String,
    /// Recommendation, as `emit` writes it.
    #[serde(skip)]
    #[schemars(skip)]
    pub(in crate::capacity) chosen: Vec<ChosenNodes>,
}

/// Recommendation for a part.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::capacity) struct ChosenNodes {
    /// The part with all kinds.
    pub(in crate::capacity) part: Part,
    /// Nodes in the queue of all, or of the rest.
    pub(in crate::capacity) counts: Vec<u32>,
    /// A kind apart: its position, nodes, name and classes.
    pub(in crate::capacity) apart: Option<(usize, u32, String, Vec<SizeClass>)>,
}

/// A kind alone in a part.
struct Alone {
    kind: String,
    faster: f64,
    /// Nodes, and what an hour of them costs; none if no number of it is enough.
    nodes: Option<(u32, f64)>,
}

/// A part, planned.
struct PlannedPart {
    /// Nodes by each rule.
    stock: Vec<(MixBy, Vec<KindStock>)>,
    answer: MixOfPool,
    chosen: ChosenNodes,
    /// Each other kind alone.
    alone: Vec<Alone>,
}

impl MixAnswer {
    /// The mixes of sized parts, tested on windows in which numbers were. `watch` is told after each part, and each part of each window.
    ///
    /// # Errors
    /// If a part has nodes that are no kind of the file, or as [`crate::sim::simulate`].
    pub(in crate::capacity) fn new(
        loaded: &Loaded,
        kinds: &NodeKinds,
        with: (&Policy, &WaitTarget),
        draws: &[Workload],
        (parts, windows, end): (&[SizedPart], &[TestedWindow], i64),
        (day, watch): (&dyn Fn(i64) -> String, &dyn Watch),
    ) -> Result<Self> {
        let windows = heldout::test(loaded, kinds, with, windows, watch)?;
        let planned: Vec<PlannedPart> = parts
            .par_iter()
            .map(|part| {
                let result = plan(part, kinds, draws, with, (&windows, end));
                watch.made();
                result
            })
            .collect::<Result<_>>()?;
        let mut answer = Self {
            currency: kinds.currency.clone(),
            kinds: kinds.kinds.iter().map(KindOfNodes::new).collect(),
            cost: MixBy::ALL
                .into_iter()
                .filter(|by| *by != MixBy::Oracle)
                .map(|by| cost(kinds, &planned, by))
                .collect(),
            another: another(kinds, &planned),
            trial: trial(kinds, &windows, day)?,
            action: String::new(),
            pools: Vec::new(),
            chosen: Vec::new(),
        };
        for part in planned {
            answer.pools.push(part.answer);
            answer.chosen.push(part.chosen);
        }
        answer.action = answer.act();
        Ok(answer)
    }

    /// Cost of all pools a month by a rule; 0 of the oracle, which is not planned.
    pub fn per_month(&self, by: MixBy) -> f64 {
        self.cost.iter().find(|cost| cost.by == by).map_or(0.0, |cost| cost.per_month)
    }

    /// Whether anything is to be changed.
    pub fn changes(&self) -> bool {
        self.pools.iter().any(|pool| pool.recommended != pool.now)
    }

    /// The rule in today's proportions that kept the target on later windows at least as often as the mix for no more money, if there is one: then the mix is not advised.
    pub fn beaten_by(&self) -> Option<&RuleOverWindows<MixBy, TestsKept>> {
        let mix = &self.trial.of.plan;
        let plain = [MixBy::Proportions, MixBy::ProportionsUpper].into_iter().filter_map(|by| self.trial.rule(by));
        plain.into_iter().find(|rule| rule.figures.pools_kept >= mix.figures.pools_kept && rule.amount <= mix.amount)
    }

    /// Whether the mix is what is recommended.
    pub fn is_advised(&self) -> bool {
        self.changes() && self.beaten_by().is_none()
    }
}

impl KindOfNodes {
    fn new(kind: &NodeKind) -> Self {
        let speed = |class: SizeClass| SpeedOfClass { class, speed: kind.speed(class) };
        Self {
            name: kind.name.clone(),
            gpus_per_node: kind.gpus_per_node,
            gpu_type: kind.gpu_type.clone(),
            per_hour: kind.per_h,
            there_per_hour: kind.there_per_h,
            speed: SizeClass::ALL.into_iter().filter(|class| *class != SizeClass::Cpu).map(speed).collect(),
        }
    }
}

fn priced(kinds: &PartKinds<'_>, mix: &Mix) -> PricedNodes {
    let of = |(kind, count): (&&NodeKind, &u32)| {
        (*count > 0).then(|| NodesOfKind { kind: kind.name.clone(), nodes: *count })
    };
    let (stand, apart, classes) = match &mix.way {
        Way::OneQueue => (NodesStand::OneQueue, None, Vec::new()),
        Way::All(_) => (NodesStand::AllOfOne, None, Vec::new()),
        Way::Apart(kind, classes) => {
            let named: Vec<SizeClass> = classes.iter().copied().filter(|class| *class != SizeClass::Cpu).collect();
            (NodesStand::OneApart, kinds.kinds.get(*kind).map(|kind| kind.name.clone()), named)
        }
    };
    let nodes = kinds.kinds.iter().zip(&mix.counts).filter_map(of).collect();
    PricedNodes { stand, apart, classes, nodes, per_month: mix.per_h * MONTH_H }
}

fn chosen(kinds: &PartKinds<'_>, mix: &Mix) -> ChosenNodes {
    let mut counts = mix.counts.clone();
    let apart = match &mix.way {
        Way::OneQueue | Way::All(_) => None,
        Way::Apart(kind, classes) => {
            let nodes = counts.get_mut(*kind).map_or(0, std::mem::take);
            let name = kinds.kinds.get(*kind).map_or_else(String::new, |kind| kind.name.clone());
            Some((*kind, nodes, name, classes.clone()))
        }
    };
    ChosenNodes { part: kinds.part.clone(), counts, apart }
}

fn plan(
    of: &SizedPart,
    kinds: &NodeKinds,
    draws: &[Workload],
    with: (&Policy, &WaitTarget),
    (windows, end): (&[MixWindow], i64),
) -> Result<PlannedPart> {
    let window = (warmed_up(end), end);
    let part_kinds = PartKinds::new(&of.part, kinds.of_part(&of.part)?);
    let jobs: Vec<Workload> = draws.iter().map(|draw| of.part.jobs(draw)).collect();
    let request = jobs.first().and_then(|jobs| OfferedTraffic::new(jobs, window));
    let Some((request, needed)) = request.zip(of.needed) else {
        let now = Mix {
            way: Way::OneQueue,
            per_h: part_kinds.per_h(part_kinds.part.now()),
            counts: part_kinds.part.now().to_vec(),
        };
        let priced = priced(&part_kinds, &now);
        let answer = MixOfPool {
            pool: of.part.name.clone(),
            now: priced.clone(),
            enough_now: false,
            in_proportions: None,
            cheapest: None,
            upper: None,
            recommended: priced,
            complete: true,
        };
        let stock = MixBy::ALL.map(|by| (by, part_kinds.stock(&now.counts))).to_vec();
        return Ok(PlannedPart { stock, answer, chosen: chosen(&part_kinds, &now), alone: Vec::new() });
    };
    let bench = Bench::new(part_kinds, jobs, with, window)?;
    let planned = Planned::of(&bench, Some(&needed), &request, heldout::earlier(windows, &of.part.name))?;
    let gpus = bench.kinds.part.gpus(needed.value);
    let mut alone = Vec::new();
    for (at, kind) in bench.kinds.kinds.iter().enumerate().filter(|(at, _)| !bench.kinds.is_own(*at)) {
        let guess = gpus as f64 / f64::from(kind.gpus_per_node) / bench.kinds.speed(at, SizeClass::One);
        // A kind as fast as today's is not said to be faster; it need not be seen what that would do.
        let faster = FASTER.into_iter().filter(|faster| *faster == 1.0 || !bench.kinds.in_one_queue(at));
        for faster in faster {
            let nodes = bench.alone(at, faster, (guess / faster).ceil() as u32)?;
            let nodes = nodes.map(|nodes| (nodes, bench.kinds.per_h(&bench.kinds.only(at, nodes))));
            alone.push(Alone { kind: kind.name.clone(), faster, nodes });
        }
    }
    let of_mix = |mix: &Mix| priced(&bench.kinds, mix);
    let [kept, upper] = &planned.cheapest;
    let answer = MixOfPool {
        pool: of.part.name.clone(),
        now: of_mix(&planned.now),
        enough_now: planned.enough_now,
        in_proportions: planned.proportions.as_ref().map(of_mix),
        cheapest: kept.mix.as_ref().map(of_mix),
        upper: upper.mix.as_ref().map(of_mix),
        recommended: of_mix(&planned.recommended),
        complete: kept.complete && upper.complete,
    };
    let chosen = chosen(&bench.kinds, &planned.recommended);
    let stock = MixBy::ALL.map(|by| (by, bench.kinds.stock(&planned.by(by).counts))).to_vec();
    Ok(PlannedPart { stock, answer, chosen, alone })
}

fn cost(kinds: &NodeKinds, parts: &[PlannedPart], by: MixBy) -> CostByRule {
    let stock = || parts.iter().flat_map(|part| &part.stock).filter(|(of, _)| *of == by).flat_map(|(_, stock)| stock);
    CostByRule {
        by,
        what: by.in_words().to_owned(),
        nodes: stock().map(|of| u64::from(of.nodes)).sum(),
        per_month: kinds.per_h_of_all(stock()) * MONTH_H,
    }
}

fn another(kinds: &NodeKinds, parts: &[PlannedPart]) -> Vec<AnotherKind> {
    let row = |(kind, faster): (&NodeKind, f64)| {
        let mut result = AnotherKind {
            kind: kind.name.clone(),
            faster,
            nodes: 0,
            per_month: 0.0,
            today_per_month: 0.0,
            even_per_hour: None,
            pools: 0,
            of: 0,
        };
        for part in parts {
            let of = part.alone.iter().find(|alone| alone.kind == kind.name && alone.faster == faster);
            let Some((alone, today)) = of.zip(part.answer.in_proportions.as_ref()) else { continue };
            result.of += 1;
            if let Some((nodes, per_h)) = alone.nodes {
                result.pools += 1;
                result.nodes += u64::from(nodes);
                result.per_month += per_h * MONTH_H;
                result.today_per_month += today.per_month;
            }
        }
        result.even_per_hour = (result.nodes > 0).then(|| result.today_per_month / MONTH_H / result.nodes as f64);
        result
    };
    let all = kinds.kinds.iter().flat_map(|kind| FASTER.map(|faster| (kind, faster)));
    all.map(row).filter(|row| row.of > 0).collect()
}

/// The test on later windows.
fn trial(kinds: &NodeKinds, windows: &[MixWindow], day: &dyn Fn(i64) -> String) -> Result<MixTrial> {
    let pools = |window: &MixWindow| window.parts.len() as u64;
    let priced = |by: MixBy| {
        let in_window = |window: &MixWindow| {
            let (per_h, nodes, pools_kept) = window.by(kinds, by);
            (per_h * MONTH_H, MixInWindow { nodes, pools_kept, pools: pools(window) })
        };
        let result: Vec<(f64, MixInWindow)> = windows.iter().map(in_window).collect();
        let figures = TestsKept {
            nodes: average(result.iter().map(|(_, of)| of.nodes as f64)),
            pools_kept: result.iter().map(|(_, of)| of.pools_kept).sum(),
            pools: windows.iter().map(pools).sum(),
        };
        Priced {
            id: by,
            words: by.in_words().to_owned(),
            kept: figures.pools_kept == figures.pools,
            blocks: result.iter().map(|(cost, _)| *cost).collect(),
            windows: result,
            figures,
        }
    };
    let roles = Roles {
        plan: MixBy::Recommended,
        baseline: MixBy::Static,
        simplest: MixBy::ProportionsUpper,
        naive: MixBy::Peak,
        oracle: MixBy::Oracle,
    };
    let spans = windows.iter().map(|window| (window.from_ms, window.to_ms));
    let stretches = rolling(spans, ("a month", windows.len().max(1) as f64), day);
    Trial::new(&kinds.currency, &MixBy::ALL.map(priced), roles, stretches)
}
