use std::collections::BTreeSet;

use proptest::prelude::*;
use tracecast_analytics::state::Reservation;

use super::super::live::tests::{job, node};
use super::*;

const HOUR: i64 = 3_600_000;

fn ask(state: &ClusterState, id: &str, scan: Scan) -> WhyAnswer {
    WhyRequest { state, history: None, job: id, scan, draws: 14, seed: 1 }.answer().unwrap()
}

/// The kind of the cause, and whether it is proven.
fn cause(state: &ClusterState, id: &str) -> (CauseKind, bool) {
    let cause = ask(state, id, Scan::Strict).cause.unwrap();
    (cause.kind, cause.proven)
}

/// Two nodes, the second of which takes jobs or not, and job 3 of 8 GPUs that waits.
fn state(usable: bool, jobs: Vec<LiveJob>) -> ClusterState {
    let jobs = jobs.into_iter().chain([job("3", Phase::Pending, 8.0, &[])]).collect();
    let nodes = vec![node("n1", true, &["gpu"]), node("n2", usable, &["gpu"])];
    ClusterState { now_ms: Some(HOUR), nodes, jobs, ..ClusterState::default() }
}

#[test]
fn the_worked_example() {
    let drained = state(
        false,
        vec![
            job("1", Phase::Running, 8.0, &["n1"]),
            LiveJob { priority: Some(0.0), ..job("2", Phase::Pending, 1.0, &[]) },
        ],
    );
    let answer = ask(&drained, "3", Scan::Strict);
    let cause = answer.cause.unwrap();
    assert_eq!((cause.kind, cause.proven), (CauseKind::Drained, true));
    assert!(cause.text.contains("n2"));
    let tried = |kind| cause.tried.iter().find(|of| of.kind == kind).unwrap().starts_now;
    assert!(tried(CauseKind::Drained) && !tried(CauseKind::Order) && tried(CauseKind::Capacity));
    // Job 1 ends within its limit an hour from now; job 2 comes after job 3.
    assert_eq!((answer.ahead[0].job.as_str(), answer.ahead[0].until.as_deref()), ("1", Some("1970-01-01T02:00:00Z")));
}

#[test]
fn each_cause_by_hand() {
    let run = |id: &str, gpus: f64, on: &str| job(id, Phase::Running, gpus, &[on]);
    let first = LiveJob { priority: Some(9.0), ..job("2", Phase::Pending, 16.0, &[]) };
    assert_eq!(cause(&state(true, vec![run("1", 8.0, "n1"), first]), "3"), (CauseKind::Order, true));
    let full = state(true, vec![run("1", 8.0, "n1"), run("2", 8.0, "n2")]);
    assert_eq!(cause(&full, "3"), (CauseKind::Capacity, true));
    let halves = state(true, vec![run("1", 4.0, "n1"), run("2", 4.0, "n2")]);
    assert_eq!(cause(&halves, "3"), (CauseKind::Fragmentation, true));
    assert_eq!(cause(&state(true, Vec::new()), "3"), (CauseKind::Nothing, false));
    let reserved = Reservation { name: "r".to_owned(), nodes: vec!["n2".to_owned()], span_ms: (0, 2 * HOUR) };
    let kept = ClusterState { reservations: vec![reserved], ..state(true, vec![run("1", 8.0, "n1")]) };
    assert_eq!(cause(&kept, "3"), (CauseKind::Reservation, true));
    let large = edited(&full, "3", |job| job.gpus = Some(24.0));
    assert_eq!(cause(&large, "3"), (CauseKind::TooLarge, true));
    for (blocked, kind) in [
        (Blocked::Held, CauseKind::Held),
        (Blocked::Begins(Some(9 * HOUR)), CauseKind::BeginTime),
        (Blocked::Depends("afterok:1".to_owned()), CauseKind::Dependency),
        (Blocked::Licences, CauseKind::Licences),
        (Blocked::Limit("QOSMaxGRESPerUser".to_owned()), CauseKind::Limit),
    ] {
        let block = |state: &ClusterState| edited(state, "3", |job| job.blocked = Some(blocked.clone()));
        // Where it would wait for room without that, that alone does not let it start.
        assert_eq!(cause(&block(&state(true, Vec::new())), "3"), (kind, true));
        assert_eq!(cause(&block(&full), "3"), (kind, false));
    }
}

/// What the scheduler names is proven only where it makes a difference.
#[test]
fn what_a_scheduler_names() {
    let blocked = |state: &ClusterState, by: Blocked| edited(state, "3", |job| job.blocked = Some(by.clone()));
    // The replay does not hold a task whose array is at its limit.
    assert_eq!(cause(&blocked(&state(true, Vec::new()), Blocked::ArrayLimit), "3"), (CauseKind::ArrayLimit, false));
    let busy = vec![job("1", Phase::Running, 8.0, &["n1"])];
    assert_eq!(cause(&blocked(&state(false, busy.clone()), Blocked::Nodes), "3"), (CauseKind::Drained, true));
    assert_eq!(cause(&blocked(&state(true, busy), Blocked::Nodes), "3"), (CauseKind::Drained, false));
}

/// Neither more GPUs nor less fragmentation: no GPU is free in its partition, and a node of another is.
#[test]
fn nodes_of_other_partitions_are_not_its_room() {
    let mut shared = state(true, vec![job("1", Phase::Running, 8.0, &["n1"])]);
    shared.nodes[0].partitions.push("debug".to_owned());
    shared.jobs[1].partition = Some("debug".to_owned());
    assert_eq!(cause(&shared, "3").0, CauseKind::Capacity);
    // Two nodes of four GPUs hold a job of eight, whatever the nodes of other partitions.
    let mut small = state(true, Vec::new());
    small.nodes.iter_mut().for_each(|node| node.gpus = 4);
    small.nodes.push(node("n9", true, &["big"]));
    assert_eq!(cause(&small, "3"), (CauseKind::Nothing, false));
}

/// Half as many GPUs fit beside job 1 now, and harm the job behind it, which had these.
#[test]
fn fewer_gpus_start_sooner_and_others_later() {
    let mut full = state(true, vec![job("1", Phase::Running, 4.0, &["n1"]), job("2", Phase::Running, 8.0, &["n2"])]);
    full.jobs.push(LiveJob { priority: Some(0.0), limit_s: Some(600.0), ..job("4", Phase::Pending, 4.0, &[]) });
    let answer = ask(&full, "3", Scan::Easy);
    let half = answer.sooner.iter().find(|of| of.change.starts_with("4 GPUs")).unwrap();
    assert_eq!(half.start.p50.as_deref(), Some("1970-01-01T01:00:00Z"));
    assert_eq!(half.harmed.jobs, 1);
}

/// Nodes in use, out of service or reserved, and jobs that wait by their nodes, the first first.
#[derive(Debug, Clone)]
struct Drawn {
    nodes: Vec<(bool, bool, bool)>,
    waiting: Vec<usize>,
    place: usize,
}

impl Drawn {
    fn state(&self) -> ClusterState {
        let name = |at: usize| format!("n{at}");
        let nodes = self.nodes.iter().enumerate().map(|(at, of)| node(&name(at), !of.1, &["gpu"])).collect();
        let busy = (0..self.nodes.len()).filter(|at| self.nodes[*at].0);
        let running = busy.map(|at| job(&format!("r{at}"), Phase::Running, 8.0, &[&name(at)]));
        let waiting = self.waiting.iter().enumerate().map(|(at, nodes)| LiveJob {
            priority: Some(100.0 - at as f64),
            nodes: Some(*nodes as u32),
            ..job(&format!("w{at}"), Phase::Pending, 8.0 * *nodes as f64, &[])
        });
        let reserved: Vec<String> = (0..self.nodes.len()).filter(|at| self.nodes[*at].2).map(name).collect();
        let of = Reservation { name: "r".to_owned(), nodes: reserved.clone(), span_ms: (0, 9 * HOUR) };
        ClusterState {
            now_ms: Some(HOUR),
            nodes,
            jobs: running.chain(waiting).collect(),
            reservations: if reserved.is_empty() { Vec::new() } else { vec![of] },
            ..ClusterState::default()
        }
    }

    /// Whether the job starts now by counting nodes, with some things taken away.
    fn starts(&self, gone: &BTreeSet<CauseKind>) -> bool {
        let gone = |kind| gone.contains(&kind);
        let is_free = |of: &&(bool, bool, bool)| {
            !of.0 && (!of.1 || gone(CauseKind::Drained)) && (!of.2 || gone(CauseKind::Reservation))
        };
        let mut free = self.nodes.iter().filter(is_free).count();
        let is_there = |of: &&(bool, bool, bool)| is_free(&&(false, of.1, of.2));
        let there = self.nodes.iter().filter(is_there).count();
        let first = if gone(CauseKind::Order) { self.place } else { 0 };
        // Who never fits keeps nobody else from starting.
        for nodes in self.waiting[first..self.place].iter().filter(|nodes| **nodes <= there) {
            if *nodes > free {
                return false;
            }
            free -= nodes;
        }
        self.waiting[self.place] <= free
    }

    fn cause(&self) -> (CauseKind, bool) {
        if self.waiting[self.place] > self.nodes.len() {
            return (CauseKind::TooLarge, true);
        }
        if self.starts(&BTreeSet::new()) {
            return (CauseKind::Nothing, false);
        }
        let alone = |kind: &CauseKind| self.starts(&BTreeSet::from([*kind]));
        let kinds = [CauseKind::Drained, CauseKind::Reservation, CauseKind::Order];
        let found: Vec<CauseKind> = kinds.into_iter().filter(alone).collect();
        let there = self.nodes.iter().filter(|of| !of.1 && !of.2).count();
        if found.is_empty() && self.waiting[self.place] > there {
            let is_drained = self.nodes.iter().any(|of| of.1);
            return (if is_drained { CauseKind::Drained } else { CauseKind::Reservation }, false);
        }
        let is_alone = !found.is_empty() || !self.starts(&BTreeSet::from(kinds));
        (found.first().copied().unwrap_or(CauseKind::Capacity), found.len() <= 1 && is_alone)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// The cause that is named is the one that counting nodes finds.
    #[test]
    fn the_cause_is_the_true_one(
        nodes in prop::collection::vec((any::<bool>(), prop::bool::weighted(0.3), prop::bool::weighted(0.2)), 1..5),
        waiting in prop::collection::vec(1usize..4, 1..4),
        place in 0usize..4,
    ) {
        let drawn = Drawn { place: place % waiting.len(), nodes, waiting };
        let answer = ask(&drawn.state(), &format!("w{}", drawn.place), Scan::Strict);
        let cause = answer.cause.unwrap();
        prop_assert_eq!((cause.kind, cause.proven), drawn.cause(), "{:?}", cause);
    }
}
