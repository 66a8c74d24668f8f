//! Metrics of a few jobs, worked out by hand.

use proptest::prelude::*;

use super::*;
use tracecast_sim::cluster::{Group, Outage, Pool, Vc};
use tracecast_sim::policy::{Policy, Scan};
use tracecast_sim::simulate;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The walk and the engine keep books apart; no job may start on a node that the walk thinks is out of service.
    #[test]
    fn the_walk_knows_the_nodes_the_engine_uses(
        rows in prop::collection::vec((0i64..60, 1i64..30, 1u32..10), 1..30),
        sizes in prop::collection::vec((1i64..60, 0u32..5), 0..5),
        outages in prop::collection::vec((0u32..6, 0i64..50, 1i64..20), 0..4),
        skip in any::<bool>(),
    ) {
        let (mut rows, mut sizes) = (rows, sizes);
        rows.sort_by_key(|row| row.0);
        sizes.sort_by_key(|size| size.0);
        sizes.dedup_by_key(|size| size.0);
        let mut workload = Workload::default();
        for (submit, run, gpus) in rows {
            workload.push(submit * 1000, run * 1000, Shape::whole(gpus));
        }
        let mut group = Group::fixed(4, 4);
        group.sizes.extend(sizes.iter().map(|(from, nodes)| (from * 1000, *nodes)));
        let nodes = group.most_nodes() + 2;
        let mut cluster = Cluster::default();
        cluster.pools.push(Pool { groups: vec![group, Group::fixed(2, 4)] });
        cluster.vcs.push(Vc::new("all", 0));
        let outage = |(node, from, length): &(u32, i64, i64)| Outage {
            node: node % nodes,
            from_ms: from * 1000,
            to_ms: (from + length) * 1000,
        };
        cluster.outages.extend(outages.iter().map(outage));
        let scan = if skip { Scan::Skip } else { Scan::Strict };
        let schedule = simulate(&workload, &cluster, &Policy { scan, ..Policy::default() }).unwrap();
        let times = JobTimes::new(&workload, &schedule).unwrap();
        let mut walk = Walk::new(&workload, &cluster, &schedule, &times);
        for (at, event) in walk.events(&times) {
            if let Event::Start(segment) = event {
                for piece in schedule.pieces_of(&schedule.segments[segment as usize]) {
                    prop_assert!(walk.state.takes_jobs(piece.node), "node {} at {}", piece.node, at);
                }
            }
            walk.apply(event);
        }
        prop_assert_eq!(walk.state.held, 0);
    }
}
