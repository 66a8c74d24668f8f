//! Placement by least fragmentation (FGD; Weng et al., ATC 2023) on openb's pods and nodes, against the other rules.
//!
//! As published: pods are drawn with replacement and arrive one after another, none ends, until they ask for 130 % of the cluster's GPUs; a pod that does not
//! fit is passed over. What counts is the share of the GPUs that nobody holds then. It is done twice:
//!
//! * **by the engine**, in which processors and memory bound nothing, with pods that ask for GPUs;
//! * **with processors and memory bound**, as published, with all pods and nodes, by a naive program of this page that goes through all nodes for each pod.
//!
//! The naive program also places by dot product, which the engine does not know: the node on which Σ asked × free is the least, each over the most that a node of
//! the cluster has of it (Tetris' product, turned round as the authors have it). Their program takes processors and GPUs; here it is tried with memory, too. It cuts scores off
//! to whole percents, which is left out. Without bounds the product is of the processors and the memory that would be free, and nothing below none.
//!
//! Of the naive program: best fit has the least, most free the most of ½ processors + ½ GPUs left, each over the most of a node, as the authors' best fit. FGD weighs each
//! sort of pod by how often it is in the list; all that is left of a node's GPUs is of no use to a pod for which it has too few processors, nor to one that asks for none. On the node the
//! tightest GPU is taken, as in the engine. All ties go to the lowest node.

use std::collections::BTreeMap;

use tracecast_analytics::schema::Table as _;
use tracecast_planner::replay::input::{Options, load};
use tracecast_planner::sim::{Placement, Policy, Scan, Shape, Workload, simulate};
use tracecast_tests::{full_tier, read, real_trace};

/// GPUs asked for, over those of the cluster.
const ASKED: f64 = 1.3;
/// Thousandths in a GPU.
const WHOLE: i64 = 1_000;

/// A number that looks drawn (SplitMix64).
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Request of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pod {
    /// Thousandths of GPUs; a part of one GPU if below 1,000.
    gpu_milli: i64,
    cpu_milli: i64,
    memory_mib: i64,
}

/// Free resources of a node.
#[derive(Debug, Clone)]
struct Node {
    /// Free part of each GPU, thousandths.
    gpus: Vec<i64>,
    cpu_milli: i64,
    memory_mib: i64,
}

impl Node {
    fn gpu_milli(&self) -> i64 {
        self.gpus.iter().sum()
    }

    fn free(&self) -> i64 {
        self.gpus.iter().filter(|left| **left == WHOLE).count() as i64
    }

    fn has_rest(&self, pod: &Pod) -> bool {
        self.cpu_milli >= pod.cpu_milli && self.memory_mib >= pod.memory_mib
    }

    fn fits(&self, pod: &Pod) -> bool {
        if pod.gpu_milli < WHOLE {
            return pod.gpu_milli == 0 || self.gpus.iter().any(|left| *left >= pod.gpu_milli);
        }
        self.free() * WHOLE >= pod.gpu_milli
    }

    fn take(&mut self, pod: &Pod) {
        self.cpu_milli -= pod.cpu_milli;
        self.memory_mib -= pod.memory_mib;
        if pod.gpu_milli < WHOLE {
            let tightest = self.gpus.iter_mut().filter(|left| **left >= pod.gpu_milli).min_by_key(|left| **left);
            if let Some(left) = tightest {
                *left -= pod.gpu_milli;
            }
            return;
        }
        let needed = (pod.gpu_milli / WHOLE) as usize;
        self.gpus.iter_mut().filter(|left| **left == WHOLE).take(needed).for_each(|left| *left = 0);
    }

    /// Fragmentation: GPUs left that are of no use to a pod, over the sorts of pods and how many there are of each.
    fn waste(&self, sorts: &[(Pod, i64)]) -> i64 {
        let (all, free) = (self.gpu_milli(), self.free());
        let of = |pod: &Pod| {
            if pod.gpu_milli == 0 || !self.fits(pod) || self.cpu_milli < pod.cpu_milli {
                all
            } else if pod.gpu_milli < WHOLE {
                self.gpus.iter().filter(|left| **left < pod.gpu_milli).sum()
            } else {
                all - free * WHOLE
            }
        };
        sorts.iter().map(|(pod, count)| of(pod) * count).sum()
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    LeastFragmentation,
    BestFit,
    FirstFit,
    MostFree,
    Random,
    DotProduct { memory: bool },
}

/// Share of the GPUs that nobody holds after all pods have come.
fn left_over(empty: &[Node], pods: &[Pod], sorts: &[(Pod, i64)], rule: Rule, is_bound: bool, seed: u64) -> f64 {
    let mut nodes = empty.to_vec();
    let of_all = |what: fn(&Node) -> i64| empty.iter().map(what).max().unwrap().max(1) as f64;
    let (most_gpus, most_cpus, most_memory) =
        (of_all(Node::gpu_milli), of_all(|node| node.cpu_milli), of_all(|node| node.memory_mib));
    // The waste of a node, and by how much it would rise by sort of pod, until the node changes.
    let mut wastes: Vec<Option<i64>> = vec![None; nodes.len()];
    let mut rises: Vec<Vec<Option<i64>>> = vec![vec![None; sorts.len()]; nodes.len()];
    for (number, pod) in pods.iter().enumerate() {
        let sort = sorts.iter().position(|(sort, _)| sort == pod);
        let mut best: Option<(f64, usize)> = None;
        for (at, node) in nodes.iter().enumerate() {
            if !node.fits(pod) || (is_bound && !node.has_rest(pod)) {
                continue;
            }
            let left = || node.gpu_milli() as f64 / most_gpus / 2.0 + node.cpu_milli as f64 / most_cpus / 2.0;
            let score = match rule {
                Rule::FirstFit => 0.0,
                Rule::BestFit => left(),
                Rule::MostFree => -left(),
                Rule::Random => {
                    let mut state = seed ^ ((number as u64) << 32) ^ ((at as u64) << 16);
                    drawn(&mut state) as f64
                }
                Rule::DotProduct { memory } => {
                    let product = |asked: i64, left: i64, most: f64| asked as f64 * left.max(0) as f64 / most / most;
                    product(pod.gpu_milli, node.gpu_milli(), most_gpus)
                        + product(pod.cpu_milli, node.cpu_milli, most_cpus)
                        + if memory { product(pod.memory_mib, node.memory_mib, most_memory) } else { 0.0 }
                }
                Rule::LeastFragmentation => {
                    let before = *wastes[at].get_or_insert_with(|| node.waste(sorts));
                    let rise = &mut rises[at][sort.unwrap()];
                    *rise.get_or_insert_with(|| {
                        let mut after = node.clone();
                        after.take(pod);
                        after.waste(sorts) - before
                    }) as f64
                }
            };
            if best.is_none_or(|(least, _)| score < least) {
                best = Some((score, at));
                if rule == Rule::FirstFit {
                    break;
                }
            }
        }
        if let Some((_, at)) = best {
            nodes[at].take(pod);
            wastes[at] = None;
            rises[at].fill(None);
        }
    }
    let gpus = |nodes: &[Node]| nodes.iter().map(Node::gpu_milli).sum::<i64>() as f64;
    gpus(&nodes) / gpus(empty)
}

/// A rule's name, and what it left over on average.
struct Row {
    name: &'static str,
    share: f64,
}

fn mean(name: &'static str, of: impl Iterator<Item = f64>) -> Row {
    let shares: Vec<f64> = of.collect();
    let row = Row { name, share: shares.iter().sum::<f64>() / shares.len() as f64 };
    println!("{name}: {:.2} % left over, mean of {} draws", 100.0 * row.share, shares.len());
    row
}

#[test]
fn fewer_gpus_are_left_over_than_by_other_rules() {
    let draws_of_each = if full_tier() { 5 } else { 1 };
    let (Some(pods), Some(nodes)) =
        (real_trace("openb_2023/openb_pod_list_default.csv.gz"), real_trace("openb_2023/openb_node_list_all_node.csv"))
    else {
        return;
    };
    let trace = read(&[pods, nodes]).unwrap();
    let loaded = load(&trace, None, &Options::default()).unwrap();
    let [pool] = loaded.cluster.pools.as_slice() else { panic!("{} pools", loaded.cluster.pools.len()) };
    let gpus: u32 = pool.groups.iter().map(|group| group.most_nodes() * group.gpus_per_node).sum();
    assert_eq!(gpus, 6_212);
    // No pod of this list asks for a type, so nodes are alike but for what they have. The engine has them by group.
    assert!(loaded.workload.shapes.iter().all(|shape| shape.gpu_type.is_none()));
    let milli = |value: Option<f64>| (value.unwrap() * 1e3).round() as i64;
    let pod = |row: usize| Pod {
        gpu_milli: milli(trace.jobs.req_gpus.get(row)),
        cpu_milli: milli(trace.jobs.req_cpus.get(row)),
        memory_mib: trace.jobs.req_mem_bytes.get(row).unwrap() >> 20,
    };
    let node = |row: usize| Node {
        gpus: vec![WHOLE; trace.nodes.gpus.get(row).unwrap() as usize],
        cpu_milli: milli(trace.nodes.cpus.get(row)),
        memory_mib: trace.nodes.mem_bytes.get(row).unwrap() >> 20,
    };
    let all_nodes: Vec<Node> = (0..trace.nodes.len()).map(node).collect();
    let mut by_group: Vec<Node> = Vec::new();
    for group in &pool.groups {
        let gpu_type = group.gpu_type.map(|at| loaded.cluster.gpu_types[usize::from(at)].as_str());
        let rows = (0..trace.nodes.len()).filter(|row| {
            let gpus = trace.nodes.gpus.get(*row).unwrap() as u32;
            gpus == group.gpus_per_node && trace.nodes.gpu_type.get(*row) == gpu_type
        });
        by_group.extend(rows.map(node));
    }
    assert_eq!(by_group.iter().map(Node::gpu_milli).sum::<i64>(), i64::from(gpus) * WHOLE);

    // By the engine, and by dot product with nothing bound.
    let mut engine: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let rules = [
        ("least fragmentation", Placement::Fragmentation),
        ("best fit", Placement::BestFit),
        ("first fit", Placement::FirstFit),
        ("most free", Placement::WorstFit),
        ("random", Placement::Random),
    ];
    let products = [
        ("dot product", Rule::DotProduct { memory: false }),
        ("dot product with memory", Rule::DotProduct { memory: true }),
    ];
    for seed in 1..=draws_of_each {
        let mut state = seed;
        let mut workload = Workload { gpu_types: loaded.workload.gpu_types.clone(), ..Workload::default() };
        let (mut asked, mut chosen) = (0.0, Vec::new());
        while asked < ASKED * f64::from(gpus) {
            let at = usize::try_from(drawn(&mut state) % loaded.workload.len() as u64).unwrap();
            let shape: Shape = loaded.workload.shape_of(at);
            workload.push(i64::try_from(workload.len()).unwrap() * 1_000, 1_000_000_000_000, shape);
            asked += shape.as_gpus();
            chosen.push(pod(loaded.rows[at] as usize));
        }
        let last = *workload.submit_ms.last().unwrap();
        for (name, placement) in rules {
            let policy = Policy { placement, scan: Scan::Skip, seed, ..Policy::default() };
            let schedule = simulate(&workload, &loaded.cluster, &policy).unwrap();
            let held: f64 = schedule
                .segments
                .iter()
                .filter(|segment| segment.start_ms <= last)
                .map(|segment| workload.shape_of(segment.job as usize).as_gpus())
                .sum();
            engine.entry(name).or_default().push(1.0 - held / f64::from(gpus));
        }
        for (name, rule) in products {
            engine.entry(name).or_default().push(left_over(&by_group, &chosen, &[], rule, false, seed));
        }
        // The naive program does what the engine does.
        let first = left_over(&by_group, &chosen, &[], Rule::FirstFit, false, seed);
        assert!((first - engine["first fit"].last().unwrap()).abs() < 1e-9, "{first} {engine:?}");
    }
    println!("nothing but GPUs bound:");
    let names = rules.iter().map(|(name, _)| *name).chain(products.iter().map(|(name, _)| *name));
    let rows: Vec<Row> = names.map(|name| mean(name, engine[name].iter().copied())).collect();
    let [least, others @ ..] = rows.as_slice() else { panic!("no rules") };
    for other in others {
        assert!(least.share < other.share, "{} leaves fewer over", other.name);
    }

    // Processors and memory bound, all pods and nodes.
    let mut count: BTreeMap<Pod, i64> = BTreeMap::new();
    (0..trace.jobs.len()).for_each(|row| *count.entry(pod(row)).or_default() += 1);
    let sorts: Vec<(Pod, i64)> = count.into_iter().collect();
    let mut draws: Vec<Vec<Pod>> = Vec::new();
    for seed in 1..=draws_of_each {
        let (mut state, mut asked, mut chosen) = (seed, 0, Vec::new());
        while (asked as f64) < ASKED * f64::from(gpus) * WHOLE as f64 {
            let one = pod(usize::try_from(drawn(&mut state) % trace.jobs.len() as u64).unwrap());
            asked += one.gpu_milli;
            chosen.push(one);
        }
        draws.push(chosen);
    }
    println!("processors and memory bound:");
    let [products_only, with_memory] = products;
    let rows: Vec<Row> = [
        ("least fragmentation", Rule::LeastFragmentation),
        ("best fit", Rule::BestFit),
        ("first fit", Rule::FirstFit),
        ("most free", Rule::MostFree),
        ("random", Rule::Random),
        products_only,
        with_memory,
    ]
    .into_iter()
    .map(|(name, rule)| {
        let of = |(seed, pods): (u64, &Vec<Pod>)| left_over(&all_nodes, pods, &sorts, rule, true, seed);
        mean(name, (1..=draws_of_each).zip(&draws).map(of))
    })
    .collect();
    let [least, others @ ..] = rows.as_slice() else { panic!("no rules") };
    for other in others {
        assert!(least.share < other.share, "{} leaves fewer over", other.name);
    }
}
