//! Placement by least fragmentation (FGD; Weng et al., ATC 2023) on openb's pods and nodes, against the other rules.
//!
//! As published: pods are drawn with replacement and arrive one after another, none ends, until they ask for 130 % of the cluster's GPUs; a pod that does not
//! fit is passed over. What counts is the share of the GPUs that nobody holds then. Here processors and memory bound nothing, where the authors' dot product, which
//! prefers the node on which what is asked and what is free fit least, is about best fit.

use tracecast_planner::replay::input::{Options, load};
use tracecast_planner::sim::{Placement, Policy, Scan, Shape, Workload, simulate};
use tracecast_tests::{read, real_trace};

/// GPUs asked for, over those of the cluster.
const ASKED: f64 = 1.3;
const DRAWS: u64 = 5;

/// A number that looks drawn (SplitMix64).
fn drawn(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[test]
fn fewer_gpus_are_left_over_than_by_other_rules() {
    let (Some(pods), Some(nodes)) =
        (real_trace("openb_2023/openb_pod_list_default.csv.gz"), real_trace("openb_2023/openb_node_list_all_node.csv"))
    else {
        return;
    };
    let loaded = load(&read(&[pods, nodes]).unwrap(), None, &Options::default()).unwrap();
    let [pool] = loaded.cluster.pools.as_slice() else { panic!("{} pools", loaded.cluster.pools.len()) };
    let gpus: u32 = pool.groups.iter().map(|group| group.most_nodes() * group.gpus_per_node).sum();
    assert_eq!(gpus, 6_212);
    let rules = [
        ("least fragmentation", Placement::Fragmentation),
        ("best fit", Placement::BestFit),
        ("first fit", Placement::FirstFit),
        ("most free", Placement::WorstFit),
        ("random", Placement::Random),
    ];
    let mut left = vec![0.0; rules.len()];
    for seed in 1..=DRAWS {
        let mut state = seed;
        let mut workload = Workload { gpu_types: loaded.workload.gpu_types.clone(), ..Workload::default() };
        let mut asked = 0.0;
        while asked < ASKED * f64::from(gpus) {
            let pod = usize::try_from(drawn(&mut state) % loaded.workload.len() as u64).unwrap();
            let shape: Shape = loaded.workload.shape_of(pod);
            let at = i64::try_from(workload.len()).unwrap() * 1_000;
            workload.push(at, 1_000_000_000_000, shape);
            asked += shape.as_gpus();
        }
        let last = *workload.submit_ms.last().unwrap();
        for ((name, placement), left) in rules.iter().zip(&mut left) {
            let policy = Policy { placement: *placement, scan: Scan::Skip, seed, ..Policy::default() };
            let schedule = simulate(&workload, &loaded.cluster, &policy).unwrap();
            let held: f64 = schedule
                .segments
                .iter()
                .filter(|segment| segment.start_ms <= last)
                .map(|segment| workload.shape_of(segment.job as usize).as_gpus())
                .sum();
            let share = 1.0 - held / f64::from(gpus);
            println!("draw {seed}, {name}: {:.2} % of the GPUs are left over", 100.0 * share);
            *left += share / DRAWS as f64;
        }
    }
    for ((name, _), left) in rules.iter().zip(&left) {
        println!("{name}: {:.2} % left over, mean of {DRAWS} draws", 100.0 * left);
    }
    let [least, others @ ..] = left.as_slice() else { panic!("no rules") };
    assert!(others.iter().all(|other| least < other), "{left:?}");
}
