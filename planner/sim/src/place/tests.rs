//! Every rule on small states worked out by hand.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;

use super::{Ask, Placer};
use crate::nodes::Nodes;
use crate::topology::{Domains, Topology};
use crate::{Group, HostNeed, HostRoom, Piece, Placement, Policy, Pool, Shape};

const RULES: [Placement; 9] = [
    Placement::Consolidate,
    Placement::FirstFit,
    Placement::BestFit,
    Placement::WorstFit,
    Placement::Spread,
    Placement::Random,
    Placement::Fragmentation,
    Placement::Buddy,
    Placement::Locality(10),
];

/// Nodes of 8 of which the given GPUs are busy.
fn nodes(busy: &[u64]) -> Nodes {
    // What is busy takes none of it, so that GPUs alone decide unless a job asks for more than 2 cores or 50 MiB for each.
    let host = HostRoom { cores_milli: Some(16_000), memory_mib: Some(400) };
    let group = Group { host, ..Group::fixed(busy.len() as u32, 8) };
    let mut nodes = Nodes::new(&Pool { groups: vec![group] }, 0);
    for (node, gpus) in (0u32..).zip(busy) {
        if *gpus != 0 {
            nodes.take(&Piece::whole(node, *gpus)).unwrap();
        }
    }
    nodes
}

fn placer(rule: Placement) -> Placer {
    Placer::new(&Policy { placement: rule, ..Policy::default() }, &[Shape::whole(1), Shape::whole(8)])
}

/// (node, GPUs) of each piece; none if it does not fit.
fn placed(rule: Placement, nodes: &Nodes, shape: Shape, relaxed: bool) -> Vec<(u32, u64)> {
    let mut pieces = Vec::new();
    if !placer(rule).place(nodes, Ask { job: 0, shape, relaxed }, &mut pieces) {
        return Vec::new();
    }
    pieces.iter().map(|piece| (piece.node, piece.gpus)).collect()
}

/// 3, 8 and 5 free: GPUs 0–4, none, 0–2 busy.
#[test]
fn one_piece() {
    let nodes = nodes(&[0b1_1111, 0, 0b111]);
    let three = |rule| placed(rule, &nodes, Shape::whole(3), false);
    assert_eq!(three(Placement::FirstFit), [(0, 0b1110_0000)]);
    assert_eq!(three(Placement::BestFit), [(0, 0b1110_0000)]);
    assert_eq!(three(Placement::WorstFit), [(1, 0b111)]);
    assert_eq!(three(Placement::Consolidate), [(0, 0b1110_0000)]);
    // A cell of 4 is free on node 1 and as GPUs 4–7 of node 2; the latter is its own home.
    assert_eq!(three(Placement::Buddy), [(2, 0b0111_0000)]);
    // The most free give one each: node 1 from 8 to 5, level with node 2.
    assert_eq!(three(Placement::Spread), [(1, 0b111)]);
    assert_eq!(placed(Placement::Spread, &nodes, Shape::whole(5), false), [(1, 0b1111), (2, 0b1000)]);
    assert_eq!(placed(Placement::Locality(10), &nodes, Shape::whole(10), true), [(1, 0xff), (2, 0b1_1000)]);
    assert!(placed(Placement::Locality(10), &nodes, Shape::whole(14), false).is_empty());
}

/// Racks of two nodes, of which the second is in use on node 2 and the third is free: a small job keeps the free rack whole, and a job of two nodes takes it.
#[test]
fn cells_go_on_above_the_node() {
    let topology = Topology::regular(vec!["block".into(), "rack".into()], &[2, 2], 8).unwrap();
    let domains = Arc::new(Domains::new(&topology, 0, 8));
    // Nodes 0 and 1 are a rack of which node 0 is full; 2 and 3 one of which node 2 is; the rest of the second block is free.
    let of = |busy: &[u64]| nodes(busy).within(Some(Arc::clone(&domains)));
    let on = |nodes: &Nodes, gpus: u32| -> Vec<u32> {
        placed(Placement::Buddy, nodes, Shape::whole(gpus), false).iter().map(|(node, _)| *node).collect()
    };
    let half = of(&[0xff, 0, 0, 0, 0, 0, 0, 0]);
    // Node 1 is a home of 8, nodes 2 and 3 one of 16, the second block one of 32.
    assert_eq!(on(&half, 8), [1]);
    // Two nodes: the free rack of the block that is in use already.
    assert_eq!(on(&half, 16), [2, 3]);
    // Three nodes: no rack has them, and of the blocks the first just has.
    assert_eq!(on(&half, 24), [1, 2, 3]);
    assert_eq!(on(&half, 32), [4, 5, 6, 7]);
    // Five nodes are in no block: the smallest homes.
    assert_eq!(on(&half, 40), [1, 2, 3, 4, 5]);
    // A node that takes no jobs makes its rack a home no more: node 5 is one of 8, and nodes 6 and 7 one of 16 as 2 and 3 are.
    let mut drained = of(&[0xff, 0xff, 0, 0, 0, 0, 0, 0]);
    drained.set_eligible(4, false);
    assert_eq!((on(&drained, 1), on(&drained, 16)), (vec![5], vec![2, 3]));
    // A rack of smaller nodes is free and takes no job of a node and a half.
    let pool = Pool { groups: vec![Group::fixed(2, 4), Group::fixed(2, 8)] };
    let domains = Domains::new(&Topology::regular(vec!["rack".into()], &[2], 4).unwrap(), 0, 4);
    let mixed = Nodes::new(&pool, 0).within(Some(Arc::new(domains)));
    assert_eq!((on(&mixed, 12), on(&mixed, 4)), (vec![2, 3], vec![0]));
    // Without domains nodes are filled in order.
    assert_eq!(on(&nodes(&[0xff, 0, 0, 0]), 16), [1, 2]);
}

/// 12 GPUs are a node and 4: the rest goes to the free node 3 where consolidated, to the 4 of node 0 by best fit.
#[test]
fn a_rest_is_consolidated_on_a_free_node() {
    let nodes = nodes(&[0b1111, 0b1, 0, 0]);
    let twelve = |rule| placed(rule, &nodes, Shape::whole(12), false);
    assert_eq!(twelve(Placement::Consolidate), [(2, 0xff), (3, 0b1111)]);
    assert_eq!(twelve(Placement::BestFit), [(2, 0xff), (0, 0b1111_0000)]);
    // Without a second free node the most free counts: node 1 with 7.
    let nodes = self::nodes(&[0b1111, 0b1, 0]);
    assert_eq!(placed(Placement::Consolidate, &nodes, Shape::whole(12), false), [(2, 0xff), (1, 0b1_1110)]);
    // 12 on two nodes are 6 and 6.
    let two = Shape { nodes: 2, ..Shape::whole(12) };
    assert_eq!(placed(Placement::BestFit, &nodes, two, false), [(1, 0b111_1110), (2, 0b11_1111)]);
}

/// The worked number of the rule: with jobs of 1 and of 8 about, 2 GPUs go to the node with 4 free rather than break a whole one.
#[test]
fn whole_nodes_are_kept_for_those_that_need_them() {
    let nodes = nodes(&[0, 0b1111]);
    let mut placer = placer(Placement::Fragmentation);
    let mut pieces = Vec::new();
    let ask = Ask { job: 0, shape: Shape::whole(2), relaxed: false };
    // Nothing known yet: all alike, the lowest.
    assert!(placer.place(&nodes, ask, &mut pieces));
    assert_eq!(pieces[0].node, 0);
    (0..9).for_each(|_| placer.submitted(0));
    placer.submitted(1);
    assert!(placer.place(&nodes, ask, &mut pieces));
    assert_eq!(pieces[0].node, 1);
}

#[test]
fn parts_go_to_the_tightest_gpu_that_has_room() {
    let mut nodes = nodes(&[0, 0]);
    for (gpu, milli) in [(0, 500), (1, 600)] {
        nodes.take(&Piece { milli, ..Piece::whole(0, 1 << gpu) }).unwrap();
    }
    assert_eq!(placed(Placement::BestFit, &nodes, Shape::part(300), false), [(0, 0b10)]);
    assert_eq!(placed(Placement::BestFit, &nodes, Shape::part(450), false), [(0, 0b01)]);
    assert_eq!(placed(Placement::BestFit, &nodes, Shape::part(700), false), [(0, 0b100)]);
    assert_eq!(placed(Placement::WorstFit, &nodes, Shape::part(300), false), [(1, 0b1)]);
}

proptest! {
    /// Placed pieces are free, complete and on nodes that take jobs; and `fits` says whether there
    /// are any.
    #[test]
    fn what_is_placed_can_be_taken(
        busy in prop::collection::vec((0u64..256, any::<bool>()), 1..7),
        gpus in 1u32..40,
        on in 0u16..4,
        part in 0u16..1000,
        rule in prop::sample::select(RULES.to_vec()),
        relaxed in any::<bool>(),
        asks in (0u32..4, 0u32..4),
        rack in 0u32..4,
    ) {
        let mut nodes = nodes(&busy.iter().map(|(gpus, _)| *gpus).collect::<Vec<_>>());
        if rack > 0 {
            let topology = Topology::regular(vec!["rack".into()], &[rack], nodes.len()).unwrap();
            let domains = Domains::new(&topology, 0, nodes.len());
            nodes = nodes.within(Some(Arc::new(domains)));
        }
        for (node, (_, eligible)) in (0u32..).zip(&busy) {
            nodes.set_eligible(node, *eligible || node == 0);
        }
        let shape = if part > 500 { Shape::part(part - 500) } else { Shape { nodes: on.min(gpus as u16), ..Shape::whole(gpus) } };
        let host = HostNeed { cores_milli: asks.0 * 1000, memory_mib: asks.1 * 30 };
        let ask = Ask { job: 7, shape: Shape { host, ..shape }, relaxed };
        let placer = placer(rule);
        let mut pieces = Vec::new();
        let placed = placer.place(&nodes, ask, &mut pieces);
        prop_assert_eq!(placer.fits(&nodes, ask), placed);
        if placed {
            prop_assert_eq!(pieces.iter().map(|piece| piece.amount()).sum::<u64>(), shape.amount());
            for piece in &pieces {
                prop_assert!(nodes.take(piece).is_ok());
            }
        }
    }
}
