//! Every rule on small states worked out by hand.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::{Ask, Placer};
use crate::sim::nodes::Nodes;
use crate::sim::{Group, HostNeed, HostRoom, Piece, Placement, Policy, Pool, Shape};

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
    /// Whatever is placed is free, complete and on nodes that take jobs; and `fits` says whether anything is.
    #[test]
    fn what_is_placed_can_be_taken(
        busy in prop::collection::vec((0u64..256, any::<bool>()), 1..7),
        gpus in 1u32..40,
        on in 0u16..4,
        part in 0u16..1000,
        rule in prop::sample::select(RULES.to_vec()),
        relaxed in any::<bool>(),
        asks in (0u32..4, 0u32..4),
    ) {
        let mut nodes = nodes(&busy.iter().map(|(gpus, _)| *gpus).collect::<Vec<_>>());
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
