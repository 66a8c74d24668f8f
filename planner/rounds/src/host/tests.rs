#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::bound::HostBounds;
use super::divide::{Division, divided};
use super::tune::{Lying, tuned};
use super::*;
use crate::job::{DeadlineDraw, DrawnRuns, GangJob, JobDraw, UserDraw, draw};
use crate::node;
use crate::node::OpenNode;
use crate::policy::AllocationPolicy;
use crate::pool::tests::rate;
use crate::pool::{TypedFleet, pools};
use crate::replay::{AllocationReplay, RoundOptions, Stint, replay};

fn needs(cpus: f64, memory_gb: f64) -> HostNeeds {
    HostNeeds { cpus, memory_gb }
}

/// A job at full speed from so much on, and in proportion below.
fn wants(cpus: f64, memory_gb: f64) -> Sensitivity {
    Sensitivity::of("j", &[(cpus, 0.0, 0.5), (cpus, memory_gb, 1.0)]).unwrap()
}

/// Nodes of one type, tables, and jobs with GPUs and tables.
fn round(gpus: u32, per_node: u32, node: HostNeeds, tables: Vec<Sensitivity>) -> (HostFleet, GangRoom) {
    let fleet = HostFleet::new(per_node, vec![node], tables).unwrap();
    let room = GangRoom { gpus: vec![gpus], per_node: Some(per_node), host: Some(fleet.shares()) };
    (fleet, room)
}

fn speeds(fleet: &HostFleet, room: &GangRoom, jobs: &[Seated], how: Division) -> Vec<f64> {
    divided(fleet, room, 0, jobs, how).iter().map(|held| held.speed).collect()
}

#[test]
fn the_worked_example() {
    let (fleet, room) = round(2, 2, needs(6.0, 100.0), vec![wants(4.0, 10.0), wants(1.0, 10.0)]);
    let jobs = [0, 1].map(|table| Seated { gpus: 1, host: HostUse::Table(table) });
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Shares), [0.75, 1.0]);
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Tuned), [1.0, 1.0]);
    let held = divided(&fleet, &room, 0, &jobs, Division::Tuned);
    assert_eq!(held[0].needs.plus(held[1].needs), needs(5.0, 20.0));
}

#[test]
fn who_wants_much_lies_with_who_wants_little() {
    let (fleet, room) = round(4, 2, needs(6.0, 100.0), vec![wants(5.0, 10.0), wants(1.0, 10.0)]);
    let jobs = [0, 0, 1, 1].map(|table| Seated { gpus: 1, host: HostUse::Table(table) });
    let node = |lying: &Lying| lying.parts[0].0;
    let result = tuned(&fleet, &room, 0, &jobs);
    assert_eq!(result.iter().map(node).collect::<Vec<_>>(), [0, 1, 0, 1]);
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Shares)[..2], [0.6, 0.6]);
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Tuned), [1.0; 4]);
}

#[test]
fn who_holds_more_than_its_share_gives_it_back() {
    // One node of 4 GPUs and 8 processors: a takes its 6, b falls to its share of 2; c and d want 2 each and find none, so a falls back to 2 as well.
    let (fleet, room) = round(4, 4, needs(8.0, 100.0), vec![wants(6.0, 10.0), wants(2.0, 10.0)]);
    let of = |tables: &[usize]| {
        let jobs: Vec<Seated> = tables.iter().map(|table| Seated { gpus: 1, host: HostUse::Table(*table) }).collect();
        tuned(&fleet, &room, 0, &jobs).iter().map(|lying| lying.needs.cpus).collect::<Vec<f64>>()
    };
    assert_eq!(of(&[0, 0, 1, 1]), [2.0; 4]);
    assert_eq!(of(&[0, 0]), [6.0, 2.0]);
    // What is free in the end is given away: the second has the two that nobody else holds.
    assert_eq!(of(&[0, 1]), [6.0, 2.0]);
    let (wide, room) = round(4, 4, needs(10.0, 100.0), vec![wants(6.0, 10.0)]);
    let jobs = [Seated { gpus: 1, host: HostUse::Table(0) }; 2];
    let held: Vec<f64> = tuned(&wide, &room, 0, &jobs).iter().map(|lying| lying.needs.cpus).collect();
    assert_eq!(held, [6.0, 4.0]);
}

#[test]
fn a_gang_of_whole_nodes_has_their_share() {
    let (fleet, room) = round(12, 4, needs(8.0, 100.0), vec![wants(4.0, 10.0), wants(1.0, 10.0)]);
    let jobs = [Seated { gpus: 8, host: HostUse::Table(0) }, Seated { gpus: 4, host: HostUse::Table(1) }];
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Tuned), [0.5, 1.0]);
    assert_eq!(speeds(&fleet, &room, &jobs, Division::Best), [0.5, 1.0]);
}

#[test]
fn amounts_are_by_type() {
    assert_eq!(by_type("24", &["v100", "k80"]).unwrap(), [24.0, 24.0]);
    assert_eq!(by_type("k80=16, v100=24", &["v100", "k80"]).unwrap(), [24.0, 16.0]);
    for wrong in ["0", "-1", "NaN", "v100=24", "v100=24,v100=2", "v100=24,h100=2", "v100=24,k80=x", ""] {
        assert!(by_type(wrong, &["v100", "k80"]).is_err(), "{wrong}");
    }
}

/// Nodes and GPUs, and what each GPU has.
type Lies = (Vec<(usize, u32)>, HostNeeds);

/// The contract of [`super::tune`] word by word: what is free is counted anew each time, and whether all fit is always tried.
fn naive(fleet: &HostFleet, room: &GangRoom, jobs: &[Seated]) -> Vec<Lies> {
    let (share, k) = (room.share(0), room.gpus_of_node(0));
    let base = |job: &Seated| if let HostUse::Exactly(needs) = job.host { needs } else { share };
    let best = |job: &Seated| fleet.best(job.host, job.gpus, 0, room);
    let floor = |job: &Seated| if best(job).within(share) { best(job) } else { fleet.floor(job.host, share) };
    let all = node::nodes(room.gpus[0], k, share);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let key = |at: usize| {
        let job = &jobs[at];
        let all = best(job).times(f64::from(job.gpus));
        [f64::from(job.gpus), base(job).cpus, base(job).memory_gb, all.cpus, all.memory_gb]
    };
    order.sort_by(|a, b| key(*b).partial_cmp(&key(*a)).unwrap().then(a.cmp(b)));
    let mut lying: Vec<Option<Lies>> = vec![None; jobs.len()];
    let free = |lying: &[Option<Lies>], bases: bool| -> Vec<OpenNode> {
        let mut nodes = all.clone();
        for (job, held) in jobs.iter().zip(lying) {
            if let Some((parts, needs)) = held {
                parts.iter().for_each(|(at, gpus)| nodes[*at].take(*gpus, if bases { base(job) } else { *needs }));
            }
        }
        nodes
    };
    for (place, at) in order.iter().enumerate() {
        let job = &jobs[*at];
        if job.gpus >= k {
            let parts = node::put(&mut free(&lying, true), k, job.gpus, base(job)).unwrap();
            lying[*at] = Some((parts, best(job)));
            continue;
        }
        let rest_fits = |node: usize| {
            let mut nodes = free(&lying, true);
            if !nodes[node].has(job.gpus, base(job)) {
                return false;
            }
            nodes[node].take(job.gpus, base(job));
            order[place + 1..].iter().all(|at| node::put(&mut nodes, k, jobs[*at].gpus, base(&jobs[*at])).is_some())
        };
        let open = free(&lying, false);
        let mut nodes: Vec<usize> = (0..all.len()).filter(|node| rest_fits(*node)).collect();
        nodes.sort_by_key(|node| (open[*node].gpus, *node));
        let room_for = |needs: HostNeeds| nodes.iter().copied().find(|node| open[*node].has(job.gpus, needs));
        let (node, held) = match (room_for(best(job)), room_for(floor(job))) {
            (Some(node), _) => (node, best(job)),
            (None, Some(node)) => (node, floor(job)),
            (None, None) => (nodes[0], floor(job)),
        };
        while !free(&lying, false)[node].has(job.gpus, held) {
            let (has, asks) = (free(&lying, false)[node].host, held.times(f64::from(job.gpus)));
            let may = |other: &usize| {
                lying[*other].as_ref().is_some_and(|(parts, needs)| {
                    parts == &[(node, jobs[*other].gpus)] && *needs != floor(&jobs[*other])
                })
            };
            let key = |other: usize| {
                let (held, floor) = (lying[other].as_ref().unwrap().1, floor(&jobs[other]));
                let helps = (asks.cpus > has.cpus && held.cpus > floor.cpus)
                    || (asks.memory_gb > has.memory_gb && held.memory_gb > floor.memory_gb);
                [f64::from(u8::from(helps)), held.cpus, held.memory_gb]
            };
            let victim = (0..jobs.len()).filter(may).reduce(|a, b| if key(b) > key(a) { b } else { a }).unwrap();
            lying[victim].as_mut().unwrap().1 = floor(&jobs[victim]);
        }
        lying[*at] = Some((vec![(node, job.gpus)], held));
    }
    for at in 0..jobs.len() {
        let (parts, held) = lying[at].clone().unwrap();
        let Some(table) = fleet.table(jobs[at].host).filter(|_| jobs[at].gpus < k && held != best(&jobs[at])) else {
            continue;
        };
        let left = free(&lying, false)[parts[0].0].host.max(HostNeeds::default());
        let each = held.plus(left.times(1.0 / f64::from(jobs[at].gpus)));
        let more = table.least(each.min(best(&jobs[at]).max(held)));
        if table.speed(more) > table.speed(held) {
            lying[at].as_mut().unwrap().1 = more;
        }
    }
    lying.into_iter().map(Option::unwrap).collect()
}

fn tables() -> Vec<Sensitivity> {
    // The last is at full speed with less memory where processors are many.
    let odd = [(1.0, 10.0, 0.2), (1.0, 80.0, 0.5), (6.0, 10.0, 1.0), (6.0, 80.0, 1.0)];
    vec![
        wants(5.0, 70.0),
        wants(1.0, 10.0),
        wants(12.0, 120.0),
        wants(3.0, 100.0),
        Sensitivity::of("odd", &odd).unwrap(),
    ]
}

fn drawn_use() -> impl Strategy<Value = HostUse> {
    prop_oneof![
        6 => (0usize..5).prop_map(HostUse::Table),
        1 => Just(HostUse::Any),
        1 => (0.1f64..9.0, 1.0f64..150.0).prop_map(|(cpus, memory_gb)| HostUse::Exactly(needs(cpus, memory_gb))),
    ]
}

/// Jobs that are let into a round one by one, by what they need.
fn let_in(fleet: &HostFleet, room: &GangRoom, jobs: Vec<(u32, HostUse)>, best: bool) -> Vec<Seated> {
    let mut open = room.open();
    let fits =
        |(gpus, host): &(u32, HostUse)| open.take(0, JobAsks::new(fleet, *host, *gpus, room).gang(*gpus, 0, best));
    jobs.into_iter().filter(fits).map(|(gpus, host)| Seated { gpus, host }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn rounds_are_as_the_contract_says_and_nobody_is_slower(
        gpus in 1u32..25, per_node in 1u32..9, cpus in 4.0f64..40.0, memory_gb in 50.0f64..600.0,
        jobs in proptest::collection::vec((prop_oneof![Just(1u32), Just(2), Just(3), Just(4), Just(8)], drawn_use()), 1..20),
        even in any::<bool>(),
    ) {
        let jobs: Vec<(u32, HostUse)> = if even {
            // Sizes that divide each other, and shares: where the engine takes a short cut.
            jobs.into_iter().filter(|(gpus, host)| *gpus != 3 && !matches!(host, HostUse::Exactly(_))).collect()
        } else {
            jobs
        };
        let (fleet, room) = round(gpus, per_node, needs(cpus, memory_gb), tables());
        let seated = let_in(&fleet, &room, jobs.clone(), false);
        let result = tuned(&fleet, &room, 0, &seated);
        let expected = naive(&fleet, &room, &seated);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
        for (result, (parts, held)) in result.iter().zip(&expected) {
            prop_assert_eq!(&result.parts, parts);
            prop_assert!(close(result.needs.cpus, held.cpus) && close(result.needs.memory_gb, held.memory_gb), "{:?} {:?}", result, held);
        }
        // On no node is more held than there is, and everybody has its GPUs, on no more nodes than it must.
        let mut nodes = node::nodes(gpus, per_node, room.share(0));
        for (job, lying) in seated.iter().zip(&result) {
            prop_assert_eq!(lying.parts.iter().map(|(_, gpus)| gpus).sum::<u32>(), job.gpus);
            prop_assert!(lying.parts.len() as u32 <= job.gpus.div_ceil(per_node.min(gpus)));
            for (at, gpus) in &lying.parts {
                prop_assert!(nodes[*at].gpus >= *gpus);
                nodes[*at].take(*gpus, lying.needs);
            }
        }
        for node in &nodes {
            prop_assert!(HostNeeds::default().within(node.host), "{:?}", node);
        }
        let (fair, fast) = (speeds(&fleet, &room, &seated, Division::Shares), speeds(&fleet, &room, &seated, Division::Tuned));
        prop_assert!(fair.iter().zip(&fast).all(|(fair, fast)| fast >= fair), "{:?} {:?}", fair, fast);
        let sum = |speeds: &[f64]| seated.iter().zip(speeds).map(|(job, speed)| f64::from(job.gpus) * speed).sum::<f64>();
        let most = HostBounds::default().most(&fleet, &room, 0, &seated).unwrap();
        prop_assert!(sum(&fast) <= most + 1e-6, "{} {}", sum(&fast), most);
        // Who is let in by best demands is at least as fast as by shares, and all of it fits.
        let greedy = let_in(&fleet, &room, jobs, true);
        let (fair, fast) = (speeds(&fleet, &room, &greedy, Division::Shares), speeds(&fleet, &room, &greedy, Division::Best));
        prop_assert!(fair.iter().zip(&fast).all(|(fair, fast)| fast >= fair));
        let held = divided(&fleet, &room, 0, &greedy, Division::Best).iter().map(|held| held.needs).fold(HostNeeds::default(), HostNeeds::plus);
        prop_assert!(held.within(room.share(0).times(f64::from(gpus))));
    }
}

fn typed(host: Option<HostFleet>) -> TypedFleet {
    let mut rates = Vec::new();
    for (job, speeds) in [("a", [8.0, 4.0]), ("b", [3.0, 2.0])] {
        for (gpu, speed) in ["v100", "p100"].into_iter().zip(speeds) {
            rates.extend([1u32, 2, 4, 8].map(|gpus| rate(gpu, job, gpus, speed * f64::from(gpus).powf(0.9))));
        }
    }
    TypedFleet { host, ..TypedFleet::new(pools("v100=8,p100=6").unwrap(), &rates).unwrap() }
}

fn hosts(tables: Vec<Sensitivity>) -> HostFleet {
    HostFleet::new(4, vec![needs(12.0, 250.0), needs(16.0, 200.0)], tables).unwrap()
}

fn drawn(fleet: &TypedFleet, count: usize, seed: u64) -> Vec<GangJob> {
    let what = JobDraw {
        jobs: count,
        per_hour: Some(8.0),
        runs: DrawnRuns::Hours,
        users: Some(UserDraw { users: 3, burst: 2 }),
        deadlines: Some(DeadlineDraw { share: 0.5, runs: (1.2, 3.0) }),
        ..JobDraw::default()
    };
    draw(fleet, &what, seed).unwrap()
}

/// Jobs with tables, and some that need exact amounts.
fn with_uses(mut jobs: Vec<GangJob>) -> Vec<GangJob> {
    for (at, job) in jobs.iter_mut().enumerate() {
        job.host = match at % 7 {
            6 => HostUse::Exactly(needs(1.0 + (at % 4) as f64, 20.0)),
            5 => HostUse::Any,
            table => HostUse::Table(table),
        };
    }
    jobs
}

const OPTIONS: RoundOptions = RoundOptions {
    round_ms: 360_000,
    restart_ms: 30_000,
    reallocate_ms: 0,
    per_node: Some(4),
    alpha: 0.5,
    lease_rounds: 3,
    host_order: HostOrder::Las,
};

/// A job of so many GPUs that is there from the beginning.
fn listed(fleet: &TypedFleet, gpus: u32, host: HostUse) -> GangJob {
    let kind = fleet.kind("a", gpus).unwrap();
    GangJob { name: "j".to_owned(), kind, submit_ms: 0, steps: 20_000.0, weight: 1.0, user: None, due_ms: None, host }
}

#[test]
fn gpus_are_idle_for_want_of_processors_under_every_policy() {
    // Jobs that need 6 processors: two on a node of 4 GPUs, whatever the policy, and one on the last node of 2 GPUs and 8 processors.
    let fleet = typed(Some(hosts(tables())));
    let came = |host: HostUse, policy: AllocationPolicy| {
        replay(&fleet, &vec![listed(&fleet, 1, host); 20], policy, &OPTIONS).unwrap()
    };
    let idle = |result: &AllocationReplay| result.host.as_ref().unwrap().idle_gpu_ms;
    let exact = HostUse::Exactly(needs(6.0, 20.0));
    for policy in AllocationPolicy::ALL.into_iter().filter(|policy| *policy != AllocationPolicy::Allox) {
        assert!(idle(&came(exact, policy)) > 0.0, "{policy:?}");
        assert_eq!(idle(&came(HostUse::Any, policy)), 0.0, "{policy:?}");
    }
    // One schedule under two names has one figure.
    let [aware, proportional] =
        [AllocationPolicy::LasAware, AllocationPolicy::Proportional].map(|policy| came(exact, policy));
    assert_eq!(aware.stints, proportional.stints);
    assert_eq!(idle(&aware), idle(&proportional));
    // Seven of 14 GPUs run in the first round, while 20 jobs are there.
    assert!(idle(&aware) >= 7.0 * OPTIONS.round_ms as f64);
}

#[test]
fn in_order_of_submission_only_processors_and_memory_are_passed_over() {
    let fleet = TypedFleet {
        host: Some(HostFleet::new(4, vec![needs(12.0, 250.0)], vec![wants(5.0, 10.0), wants(1.0, 10.0)]).unwrap()),
        ..TypedFleet::new(pools("v100=4").unwrap(), &[1u32, 2, 4].map(|gpus| rate("v100", "a", gpus, f64::from(gpus))))
            .unwrap()
    };
    let fifo = RoundOptions { host_order: HostOrder::Fifo, ..OPTIONS };
    let begun = |jobs: &[(u32, HostUse)], policy: AllocationPolicy| {
        let jobs: Vec<GangJob> = jobs.iter().map(|(gpus, host)| listed(&fleet, *gpus, *host)).collect();
        let result = replay(&fleet, &jobs, policy, &fifo).unwrap();
        let first = |job: usize| result.stints.iter().find(|stint| stint.job == job).unwrap().from_ms;
        (0..jobs.len()).map(first).collect::<Vec<i64>>()
    };
    // The second finds too few GPUs, so the third waits for it.
    for policy in [AllocationPolicy::Proportional, AllocationPolicy::SynergyGreedy, AllocationPolicy::Synergy] {
        let begun = begun(&[(2, HostUse::Any), (4, HostUse::Any), (1, HostUse::Any)], policy);
        assert!(0 < begun[1] && begun[1] < begun[2], "{policy:?}: {begun:?}");
    }
    // The second finds 2 processors where it wants 5, and the third goes before it.
    let jobs = [(2, HostUse::Table(0)), (1, HostUse::Table(0)), (1, HostUse::Table(1))];
    let greedy = begun(&jobs, AllocationPolicy::SynergyGreedy);
    assert!(greedy[0] == 0 && greedy[1] > 0 && greedy[2] == 0, "{greedy:?}");
    assert_eq!(begun(&jobs, AllocationPolicy::Synergy), [0; 3]);
}

const ORDERS: [HostOrder; 3] = [HostOrder::Fifo, HostOrder::Las, HostOrder::Srtf];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn every_job_makes_its_steps_once(seed in any::<u64>(), count in 1usize..24) {
        let fleet = typed(Some(hosts(tables())));
        let jobs = with_uses(drawn(&fleet, count, seed));
        for policy in AllocationPolicy::ALL.into_iter().filter(|policy| *policy != AllocationPolicy::Allox) {
            for host_order in ORDERS.into_iter().take(if policy.by_host_order() { 3 } else { 1 }) {
                let result = replay(&fleet, &jobs, policy, &RoundOptions { host_order, ..OPTIONS }).unwrap();
                for (number, job) in jobs.iter().enumerate() {
                    let of: Vec<&Stint> = result.stints.iter().filter(|stint| stint.job == number).collect();
                    let steps: f64 = of.iter().map(|stint| stint.steps).sum();
                    prop_assert!((steps - job.steps).abs() <= 1e-6 * job.steps, "{:?}: {} of {}", policy, steps, job.steps);
                    prop_assert!(of.windows(2).all(|two| two[0].to_ms <= two[1].from_ms));
                    prop_assert!(of.iter().all(|stint| stint.from_ms >= job.submit_ms));
                    prop_assert_eq!(of.last().unwrap().to_ms, result.ends_ms[number]);
                }
                let tally = result.host.unwrap();
                prop_assert!(tally.fast_gpu_ms <= tally.held_gpu_ms * (1.0 + 1e-9));
                // Nobody is slower in any round than by shares, but where gangs lie by themselves that is no gain.
                prop_assert_eq!(tally.slower, 0, "{:?}", policy);
                if let Some((got, most)) = tally.got_and_most {
                    prop_assert!(got <= most * (1.0 + 1e-6));
                }
                prop_assert!(tally.users.iter().all(|(sum, rounds)| *sum <= *rounds as f64 * (1.0 + 1e-9)));
            }
        }
    }

    #[test]
    fn jobs_that_come_later_change_nothing_before(seed in any::<u64>(), cut in 4usize..16) {
        let fleet = typed(Some(hosts(tables())));
        let jobs = with_uses(drawn(&fleet, 20, seed));
        let from = jobs[cut].submit_ms;
        let cut = jobs.partition_point(|job| job.submit_ms < from);
        let later = drawn(&fleet, 20, seed ^ 1).into_iter().map(|job| GangJob { submit_ms: job.submit_ms + from, ..job });
        let other: Vec<GangJob> = jobs[..cut].iter().cloned().chain(later).collect();
        let policies = AllocationPolicy::ALL.into_iter().filter(|policy| policy.by_host());
        for (policy, host_order) in policies.flat_map(|policy| ORDERS.map(|order| (policy, order))) {
            let before = |jobs: &[GangJob]| {
                let result = replay(&fleet, jobs, policy, &RoundOptions { host_order, ..OPTIONS }).unwrap();
                let mut begun: Vec<(usize, usize, i64)> =
                    result.stints.iter().filter(|stint| stint.from_ms < from).map(|stint| (stint.job, stint.at, stint.from_ms)).collect();
                begun.sort_unstable();
                let ends: Vec<i64> = result.ends_ms.iter().take(cut).copied().filter(|end| *end <= from).collect();
                (begun, ends)
            };
            prop_assert_eq!(before(&jobs), before(&other), "{:?}", policy);
        }
    }

    #[test]
    fn tables_that_say_nothing_change_nothing(seed in any::<u64>(), count in 1usize..24) {
        let (without, with) = (typed(None), typed(Some(hosts(Vec::new()))));
        let jobs = drawn(&without, count, seed);
        prop_assert_eq!(&jobs, &drawn(&with, count, seed));
        let came = |fleet: &TypedFleet, policy: AllocationPolicy, host_order: HostOrder| {
            let result: AllocationReplay = replay(fleet, &jobs, policy, &RoundOptions { host_order, ..OPTIONS }).unwrap();
            (result.ends_ms, result.ratios, result.stints, result.restarts)
        };
        for policy in AllocationPolicy::ALL.into_iter().filter(|policy| *policy != AllocationPolicy::Allox) {
            prop_assert_eq!(came(&without, policy, HostOrder::Las), came(&with, policy, HostOrder::Las), "{:?}", policy);
        }
        // And the three divisions of one order are that order.
        let known = [(HostOrder::Fifo, AllocationPolicy::FifoAware), (HostOrder::Las, AllocationPolicy::LasAware)];
        for (order, policy) in known {
            for division in [AllocationPolicy::Proportional, AllocationPolicy::Synergy] {
                prop_assert_eq!(came(&without, policy, order), came(&with, division, order), "{:?}", division);
            }
        }
    }
}
