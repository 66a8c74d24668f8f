//! The search against the replay of every mix, by hand, and on later days.

use std::collections::BTreeMap;

use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use tracecast_analytics::facts::SizeClass;
use tracecast_analytics::time::DAY_MS;

use super::heldout::TestedMix;
use super::kinds::{KindStock, NodeKinds};
use super::queue::Level;
use super::rule::MixBy;
use super::search::{Bench, Mix};
use super::way::{PartKinds, Way};
use crate::capacity::heldout::tests::on_failing_nodes;
use crate::capacity::part::Part;
use crate::capacity::search::{Search, WaitTarget};
use crate::replay::input::Loaded;
use crate::sim::{Cluster, Group, Outage, Policy, Scan, Shape, Workload};

const HOUR_MS: i64 = 3_600_000;

fn target(all_s: f64) -> WaitTarget {
    WaitTarget { all_s, by_class: BTreeMap::new() }
}

fn skip() -> Policy {
    Policy { scan: Scan::Skip, ..Policy::default() }
}

/// Kinds by name, GPUs, price an hour and speed; those after the first have a GPU type of their own.
fn kinds(of: &[(&str, u32, f64, f64)]) -> NodeKinds {
    let text = of.iter().enumerate().map(|(at, (name, gpus, per_hour, speed))| {
        let gpu_type = if at == 0 { String::new() } else { format!("gpu_type = \"T{at}\"\n") };
        format!(
            "[[kind]]\nname = \"{name}\"\n{gpu_type}gpus_per_node = {gpus}\nper_hour = {per_hour}\nspeed = {speed}\n"
        )
    });
    NodeKinds::parse("k.toml", &text.collect::<String>()).unwrap()
}

/// What a bench of one draw finds from nodes in proportions that are enough.
fn cheapest(
    kinds: &NodeKinds,
    cluster: &Cluster,
    jobs: &Workload,
    with: (&Policy, &WaitTarget),
    days: i64,
) -> (f64, Option<Mix>) {
    let part = Part::all(cluster, 0).remove(0);
    let window = (0, days * DAY_MS);
    let fewest = Search::new(&part, jobs, with, window).unwrap().fewest(4).unwrap().unwrap();
    let bench =
        Bench::new(PartKinds::new(&part, kinds.of_part(&part).unwrap()), vec![jobs.clone()], with, window).unwrap();
    let [kept, _] = bench.cheapest(&[Some(bench.kinds.part.counts(fewest)), None]).unwrap();
    assert!(kept.complete);
    let mix = kept.mix.unwrap();
    // Feasible by a replay of its own, queue by queue.
    assert!(bench.test(&mix).unwrap().0);
    (bench.kinds.per_h(&bench.kinds.part.counts(fewest)), Some(mix))
}

#[test]
fn the_worked_number() {
    let mut jobs = Workload::default();
    (0..10).for_each(|_| jobs.push(0, HOUR_MS, Shape::whole(1)));
    (0..2).for_each(|_| jobs.push(0, HOUR_MS, Shape::whole(8)));
    let kinds = kinds(&[("eight", 8, 8.0, 1.0), ("four", 4, 3.0, 1.0)]);
    let cluster = Cluster::of_vcs(&[("a", 6, 8)]);
    let (same, mix) = cheapest(&kinds, &cluster, &jobs, (&skip(), &target(60.0)), 1);
    let mix = mix.unwrap();
    // Gangs of eight need a node that holds them, as today.
    assert_eq!((same, mix.per_h, mix.counts, mix.way), (32.0, 25.0, vec![2, 3], Way::OneQueue));
}

#[test]
fn jobs_that_ask_for_a_gpu_type_keep_it() {
    let mut cluster = Cluster::of_vcs(&[("a", 3, 8)]);
    cluster.gpu_types = vec!["V".to_owned()];
    cluster.pools[0].groups = vec![Group { gpu_type: Some(0), ..Group::fixed(6, 8) }];
    let mut jobs = Workload { gpu_types: cluster.gpu_types.clone(), ..Workload::default() };
    (0..8).for_each(|_| jobs.push(0, HOUR_MS, Shape { gpu_type: Some(0), ..Shape::whole(1) }));
    (0..16).for_each(|_| jobs.push(0, HOUR_MS, Shape::whole(1)));
    let text = "[[kind]]\nname = \"v\"\ngpu_type = \"v\"\ngpus_per_node = 8\nper_hour = 10\n\
                [[kind]]\nname = \"t\"\ngpu_type = \"T4\"\ngpus_per_node = 8\nper_hour = 1\n";
    let kinds = NodeKinds::parse("k.toml", text).unwrap();
    let (same, mix) = cheapest(&kinds, &cluster, &jobs, (&skip(), &target(60.0)), 1);
    // Typed jobs need the eight GPUs of a node that others may take first; a third of it is not cheaper otherwise.
    let mix = mix.unwrap();
    assert!(mix.counts[0] >= 1 && mix.per_h < same, "{mix:?}");
}

#[test]
fn a_faster_kind_for_all_and_apart_by_hand() {
    // Forty jobs of 8 GPUs and two hours, one each hour: two nodes of today at a time; of a kind twice as fast one.
    let mut jobs = Workload::default();
    (0..40).for_each(|at| jobs.push(at * HOUR_MS, 2 * HOUR_MS, Shape::whole(8)));
    let cluster = Cluster::of_vcs(&[("a", 4, 8)]);
    let with = (&skip(), &target(60.0));
    let of = |price: f64| cheapest(&kinds(&[("now", 8, 10.0, 1.0), ("fast", 8, price, 2.0)]), &cluster, &jobs, with, 2);
    let (same, mix) = of(15.0);
    let mix = mix.unwrap();
    assert_eq!((same, mix.way, mix.counts, mix.per_h), (20.0, Way::All(1), vec![0, 1], 15.0));
    assert_eq!(of(25.0).1.unwrap().way, Way::OneQueue);
    // Beside them forty jobs of one GPU that the fast kind does nothing for: it has the large ones alone.
    let mut both = Workload::default();
    for at in 0..40 {
        both.push(at * HOUR_MS, 2 * HOUR_MS, Shape::whole(8));
        (0..12).for_each(|_| both.push(at * HOUR_MS, HOUR_MS / 2, Shape::whole(1)));
    }
    let text = "[[kind]]\nname = \"now\"\ngpus_per_node = 8\nper_hour = 10\n\
                [[kind]]\nname = \"fast\"\ngpu_type = \"H\"\ngpus_per_node = 8\nper_hour = 15\nspeed = 2\nspeed_by_class = { \"1\" = 0.2 }\n";
    let kinds = NodeKinds::parse("k.toml", text).unwrap();
    let (same, mix) = cheapest(&kinds, &cluster, &both, with, 2);
    let mix = mix.unwrap();
    assert_eq!((same, mix.per_h, mix.counts), (40.0, 35.0, vec![2, 1]));
    assert!(matches!(mix.way, Way::Apart(1, classes) if classes == [SizeClass::Node, SizeClass::Many]));
}

/// Jobs at random over some days.
fn record(rng: &mut ChaCha8Rng, days: i64, gap_ms: f64) -> Workload {
    let mut jobs = Workload::default();
    let mut now = 0.0;
    while now < (days * DAY_MS) as f64 {
        let gpus = *[1u32, 1, 1, 2, 4, 4, 8].get(rng.random_range(0..7usize)).unwrap();
        jobs.push(now as i64, rng.random_range(60_000..10 * HOUR_MS), Shape::whole(gpus));
        now += -(1.0 - rng.random::<f64>()).ln() * gap_ms;
    }
    jobs
}

/// How the search does beside every mix that costs less than today's proportions: cases, those with a mix that does, those in which it missed a cheaper one, and how many
/// times as much the worst cost.
fn beside_all(
    seeds: std::ops::Range<u64>,
    case: &dyn Fn(u64) -> (NodeKinds, Cluster, Workload),
) -> (u32, u32, u32, f64) {
    let (mut cases, mut less, mut missed, mut worst) = (0, 0, 0, 1.0f64);
    for seed in seeds {
        let (kinds, cluster, jobs) = case(seed);
        let (policy, target) = (if seed % 2 == 0 { skip() } else { Policy::default() }, target(1800.0));
        let (with, window) = ((&policy, &target), (DAY_MS, 9 * DAY_MS));
        let part = Part::all(&cluster, 0).remove(0);
        let Some(fewest) = Search::new(&part, &jobs, with, window).unwrap().fewest(4).unwrap() else { continue };
        let of_part = PartKinds::new(&part, kinds.of_part(&part).unwrap());
        let bench = Bench::new(of_part, vec![jobs.clone()], with, window).unwrap();
        let known = bench.kinds.part.counts(fewest);
        let [kept, _] = bench.cheapest(&[Some(known.clone()), None]).unwrap();
        let result = kept.mix.unwrap();
        let same = bench.kinds.per_h(&known);
        assert!(result.per_h <= same && bench.test(&result).unwrap().0 && kept.complete);
        if result.way != Way::OneQueue {
            continue;
        }
        cases += 1;
        less += u32::from(result.per_h < same);
        let mut best = same;
        let mut left = vec![vec![]];
        while let Some(mut counts) = left.pop() {
            if counts.len() < bench.kinds.kinds.len() {
                counts.push(0);
                while bench.kinds.per_h(&counts) < best * (1.0 - 1e-9) {
                    left.push(counts.clone());
                    *counts.last_mut().unwrap() += 1;
                }
            } else if bench.kinds.per_h(&counts) < best * (1.0 - 1e-9) && bench.is_enough(&counts).unwrap() {
                best = bench.kinds.per_h(&counts);
            }
        }
        assert!(best <= result.per_h * (1.0 + 1e-9), "the search found what no replay does");
        if best < result.per_h * (1.0 - 1e-9) {
            missed += 1;
            worst = worst.max(result.per_h / best);
        }
    }
    (cases, less, missed, worst)
}

#[test]
fn the_search_beside_the_replay_of_every_mix() {
    let (cases, less, missed, worst) = beside_all(0..60, &|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let jobs = record(&mut rng, 9, 2.4e6);
        let mut prices = [8.0, 3.0 + 2.5 * rng.random::<f64>()];
        if seed % 3 == 0 {
            prices.shuffle(&mut rng);
        }
        let kinds = kinds(&[("eight", 8, prices[0], 1.0), ("four", 4, prices[1], 1.0)]);
        (kinds, Cluster::of_vcs(&[("a", 6, 8)]), jobs)
    });
    println!(
        "of {cases} cases of two kinds {less} cost less than proportions, {missed} missed a cheaper mix, the worst cost {worst:.3} times as much"
    );
    assert!(cases >= 40 && less >= 20 && missed * 5 <= cases && worst < 1.25, "{missed} of {cases}, {worst}");
    // Two kinds today, of which a fourth of the small jobs ask for one, and a third kind.
    let (cases, less, missed, worst) = beside_all(100..120, &|seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut jobs = record(&mut rng, 9, 4.8e6);
        jobs.gpu_types = vec!["T1".to_owned()];
        let typed: Vec<u16> = jobs
            .shapes
            .clone()
            .iter()
            .enumerate()
            .map(|(at, shape)| {
                let typed = Shape { gpu_type: (shape.gpus <= 4).then_some(0), ..*shape };
                jobs.shapes.push(typed);
                (jobs.shapes.len() - 1).max(at) as u16
            })
            .collect();
        for shape in &mut jobs.shape {
            if rng.random_range(0..4) == 0 {
                *shape = typed[usize::from(*shape)];
            }
        }
        let mut cluster = Cluster::of_vcs(&[("a", 4, 8)]);
        cluster.gpu_types = jobs.gpu_types.clone();
        cluster.pools[0].groups.push(Group { gpu_type: Some(0), ..Group::fixed(3, 4) });
        let four = 3.0 + 2.5 * rng.random::<f64>();
        (
            kinds(&[("eight", 8, 8.0, 1.0), ("four", 4, four, 1.0), ("two", 2, 1.5 + rng.random::<f64>(), 1.0)]),
            cluster,
            jobs,
        )
    });
    println!(
        "of {cases} cases of three kinds {less} cost less than proportions, {missed} missed a cheaper mix, the worst cost {worst:.3} times as much"
    );
    assert!(cases >= 10 && less >= 5 && missed * 3 <= cases && worst < 1.25, "{missed} of {cases}, {worst}");
}

#[test]
fn what_comes_after_a_window_begins_changes_nothing_that_is_chosen_for_it() {
    let (policy, target) = (skip(), target(1800.0));
    let kinds = kinds(&[("now", 8, 8.0, 1.0), ("four", 4, 3.0, 1.0), ("fast", 8, 14.0, 2.0)]);
    let begins = 30 * DAY_MS;
    let as_it_was = on_failing_nodes(record(&mut ChaCha8Rng::seed_from_u64(7), 40, 2.4e6));
    let mut otherwise = as_it_was.clone();
    for (run, submit) in otherwise.workload.run_ms.iter_mut().zip(&as_it_was.workload.submit_ms) {
        if *submit >= begins {
            *run = *run / 3 + 1;
        }
    }
    otherwise.cluster.outages.retain(|outage| outage.from_ms < begins);
    otherwise.cluster.outages.push(Outage { node: 3, from_ms: begins, to_ms: 39 * DAY_MS });
    let windows = |loaded: &Loaded| {
        let with = (&policy, &target);
        let windows = crate::capacity::heldout::test(loaded, with, (Some(begins), 40 * DAY_MS), &()).unwrap();
        super::heldout::test(loaded, &kinds, with, &windows, &()).unwrap()
    };
    let chosen = |loaded: &Loaded| -> Vec<TestedMix> {
        let windows = windows(loaded);
        let last = windows.last().unwrap();
        assert_eq!(last.from_ms, begins);
        let rules = last.parts.iter().flat_map(|(_, tested)| tested);
        // Whether it kept the target is what the later jobs tell.
        rules
            .filter(|tested| tested.by != MixBy::Oracle)
            .map(|tested| TestedMix { kept: false, ..tested.clone() })
            .collect()
    };
    assert_eq!(chosen(&as_it_was), chosen(&otherwise));
    // Hindsight always keeps it, and no rule in proportions is cheaper than the mix by the same measure.
    for window in windows(&as_it_was) {
        for (_, tested) in &window.parts {
            let of = |by: MixBy| tested.iter().find(|tested| tested.by == by).unwrap();
            let per_h = |by: MixBy| kinds.per_h_of_all(of(by).stock.iter());
            assert!(of(MixBy::Oracle).kept && per_h(MixBy::Cheapest) <= per_h(MixBy::Proportions));
            assert!(per_h(MixBy::Upper) <= per_h(MixBy::ProportionsUpper) * (1.0 + 1e-9) || !of(MixBy::Upper).kept);
        }
    }
}

#[test]
fn limits_are_kept_and_failures_are_taken_over() {
    let mut jobs = Workload::default();
    (0..16).for_each(|_| jobs.push(0, HOUR_MS, Shape::whole(4)));
    let text = "[[kind]]\nname = \"now\"\ngpus_per_node = 8\nper_hour = 8\nmost_per_pool = 5\n\
                [[kind]]\nname = \"four\"\ngpus_per_node = 4\nper_hour = 7\n";
    let kinds = NodeKinds::parse("k.toml", text).unwrap();
    let cluster = Cluster::of_vcs(&[("a", 2, 8)]);
    let (same, mix) = cheapest(&kinds, &cluster, &jobs, (&skip(), &target(60.0)), 1);
    let mix = mix.unwrap();
    // Eight nodes of 8 GPUs would cost 64; five can be had, and six of 4 GPUs beside them.
    assert_eq!((same, mix.counts, mix.per_h), (64.0, vec![5, 6], 82.0));
    // A kind without a record fails as today's nodes do: nodes 1 and 3 of the new kind as node 1 of two.
    let mut cluster = cluster;
    cluster.outages.push(Outage { node: 1, from_ms: 5, to_ms: 9 });
    let part = Part::all(&cluster, 0).remove(0);
    let of = PartKinds::new(&part, kinds.of_part(&part).unwrap());
    let failing: Vec<u32> = of.part.with_counts(&[1, 4]).outages.iter().map(|outage| outage.node).collect();
    assert_eq!(failing, [2, 4]);
}

/// The fewest nodes at both levels over draws that need so many nodes, on each of eight days.
fn over_draws(nodes: &[i64], days: i64) -> [Option<u32>; 2] {
    let cluster = Cluster::of_vcs(&[("a", 2, 8)]);
    let part = Part::all(&cluster, 0).remove(0);
    let (policy, target) = (skip(), target(60.0));
    let draw = |nodes: &i64| {
        let mut jobs = Workload::default();
        (0..days).for_each(|day| (0..*nodes).for_each(|_| jobs.push(day * DAY_MS, HOUR_MS, Shape::whole(8))));
        jobs
    };
    let draws: Vec<Workload> = nodes.iter().map(draw).collect();
    let search = |jobs| Search::new(&part, jobs, (&policy, &target), (0, days * DAY_MS)).unwrap();
    let mut queue = super::queue::Queue::new(&part, draws.iter().map(search).collect());
    let line = queue.proportions();
    Level::ALL.map(|level| queue.least(&line, level, (9, 20)).unwrap())
}

#[test]
fn a_level_over_draws_is_the_majority_or_the_days_of_all_together() {
    assert_eq!(over_draws(&[1, 2, 3, 4, 5], 8), [Some(3), Some(5)]);
    // Of one day there is no upper level.
    assert_eq!(over_draws(&[1, 2, 3, 4, 5], 1), [Some(3), None]);
}

/// Regression test: all draws had to keep the target, so that the worst of more draws bought more
/// nodes.
#[test]
fn more_draws_do_not_by_themselves_need_more_nodes() {
    let with_odd_ones = |odd: usize| -> Vec<i64> { (0..40).map(|draw| if draw < odd { 6 } else { 4 }).collect() };
    assert_eq!(over_draws(&[4; 4], 8), [Some(4), Some(4)]);
    // One draw of forty is 2.5 % of the days, two are more.
    assert_eq!(over_draws(&with_odd_ones(1), 8), [Some(4), Some(4)]);
    assert_eq!(over_draws(&with_odd_ones(2), 8), [Some(4), Some(6)]);
}

#[test]
fn nodes_that_one_pool_gives_up_serve_another() {
    let kinds = kinds(&[("now", 8, 8.0, 1.0), ("four", 4, 3.0, 1.0)]);
    let of = |there: u32, nodes: u32| KindStock { kind: "now".to_owned(), there, nodes };
    let there = kinds.per_h_of_all([of(12, 12), of(12, 12)].iter());
    // 12 to 20 and 12 to 2: 22 of the 24 that are there. 12 to 20 and 12 to 6: two are new.
    assert_eq!(kinds.per_h_of_all([of(12, 20), of(12, 2)].iter()), there * 22.0 / 24.0);
    let new = kinds.kinds[0].per_h;
    assert_eq!(kinds.per_h_of_all([of(12, 20), of(12, 6)].iter()), there + 2.0 * new);
}
