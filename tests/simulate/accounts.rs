//! Limits of accounts: timelines worked out by hand, on one node of 8 GPUs.

use tracecast_planner::sim::limit::{Association, Limits, Partition, Qos};
use tracecast_planner::sim::{Cluster, Outcome, Policy, Scan, Workload, simulate};

use super::limits::{Row, jobs, starts};

/// Jobs of limits' rows, each with its association.
fn charged(rows: &[(Row, Option<u32>)]) -> Workload {
    let mut workload = jobs(&rows.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    workload.association = rows.iter().map(|(_, association)| *association).collect();
    workload
}

fn node(qos: &[Qos], accounts: &[Association]) -> Cluster {
    let limits = Limits::new(qos.to_vec(), vec![Partition::default()]).unwrap().under(accounts.to_vec()).unwrap();
    Cluster { limits: Some(limits), ..Cluster::of_vcs(&[("all", 1, 8)]) }
}

fn below(parent: Option<u32>) -> Association {
    Association { parent, ..Association::default() }
}

/// The root has 7 GPUs, dept 5, nlp 4; vision, a child of dept as nlp, and guest, a child of the root, have no limits of their own.
fn three_levels() -> [Association; 8] {
    let gpus = |milli, parent| Association { group_milli: Some(milli), ..below(parent) };
    let [root, dept, nlp] = [gpus(7_000, None), gpus(5_000, Some(0)), gpus(4_000, Some(1))];
    let [vision, ada, bob, cy, guest] = [Some(1), Some(2), Some(2), Some(3), Some(0)].map(below);
    [root, dept, nlp, vision, ada, bob, cy, guest]
}

/// Ada's job of nlp (3 GPUs, 0–100 s) leaves bob, of nlp, 1: his of 2 waits for its end. Cy's of vision (2 GPUs, 10–60 s) fills dept, so that cy's next (1 GPU) waits until 60 s. One of guest (3 GPUs) would be
/// within no limit but the root's: 3 + 2 + 3 is over 7, until 60 s, when it is 3 + 1 + 3. One that is charged to nobody starts at once. Nobody holds up who comes later.
#[test]
fn every_account_on_the_path_must_allow_a_job() {
    let workload = charged(&[
        ((0, 100, 3, 0, None, 100), Some(4)),
        ((5, 20, 2, 1, None, 20), Some(5)),
        ((10, 50, 2, 2, None, 50), Some(6)),
        ((20, 30, 1, 2, None, 30), Some(6)),
        ((30, 10, 3, 1, None, 10), Some(7)),
        ((40, 10, 1, 0, None, 10), None),
    ]);
    let cluster = node(&[], &three_levels());
    for scan in [Scan::Strict, Scan::Skip, Scan::Easy, Scan::Conservative, Scan::Slurm] {
        let policy = Policy { scan, ..Policy::default() };
        assert_eq!(starts(&workload, &cluster, &policy), [0, 100, 10, 60, 60, 40].map(Some), "{scan:?}");
    }
    let free = Cluster { limits: None, ..cluster };
    assert_eq!(starts(&workload, &free, &Policy::default()), [0, 5, 10, 20, 50, 60].map(Some));
}

/// Dept has MaxJobs 1, MaxTRES 4 and MaxWall 1 h; nlp below it MaxJobs 2; ada there MaxTRES 6; vision nothing. So ada runs two jobs at a time, of 6 GPUs as well; bob of vision one; cy's of 5 GPUs, and the one
/// that asks for 2 h, never start.
#[test]
fn the_nearest_account_that_sets_a_limit_counts() {
    let dept = Association { jobs: Some(1), job_milli: Some(4_000), wall_ms: Some(3_600_000), ..below(None) };
    let nlp = Association { jobs: Some(2), ..below(Some(0)) };
    let ada = Association { job_milli: Some(6_000), ..below(Some(1)) };
    let [vision, bob, cy] = [Some(0), Some(3), Some(3)].map(below);
    let cluster = node(&[], &[dept, nlp, ada, vision, bob, cy]);
    let workload = charged(&[
        ((0, 10, 1, 0, None, 10), Some(2)),
        ((0, 10, 1, 0, None, 10), Some(2)),
        ((0, 10, 1, 0, None, 10), Some(2)),
        ((0, 10, 1, 1, None, 10), Some(4)),
        ((0, 10, 1, 1, None, 10), Some(4)),
        ((0, 10, 5, 2, None, 10), Some(5)),
        ((0, 10, 1, 2, None, 7_200), Some(5)),
        ((1, 10, 6, 0, None, 10), Some(2)),
    ]);
    let expected = [Some(0), Some(0), Some(10), Some(0), Some(10), None, None, Some(10)];
    assert_eq!(starts(&workload, &cluster, &Policy::default()), expected);
}

/// Account nlp has 2 GPUs and its users one job each. A QOS that has 6 GPUs and two jobs a user lifts both; one with a number of another kind lifts neither. `DenyOnLimit` of a QOS rejects what is over the account's.
#[test]
fn a_limit_of_a_qos_comes_before_that_of_an_account() {
    let nlp = Association { group_milli: Some(2_000), jobs: Some(1), ..below(None) };
    let accounts = [nlp, below(Some(0)), below(Some(0))];
    let workload = charged(&[
        ((0, 10, 2, 0, Some(0), 10), Some(1)),
        ((0, 10, 2, 0, Some(0), 10), Some(1)),
        ((0, 10, 2, 1, Some(0), 10), Some(2)),
        ((0, 10, 4, 1, Some(0), 10), Some(2)),
    ]);
    let other = Qos { job_milli: Some(8_000), ..Qos::default() };
    let of = |qos: Qos| starts(&workload, &node(&[qos], &accounts), &Policy::default());
    assert_eq!(of(other.clone()), [Some(0), Some(10), Some(20), None]);
    // Two of ada, and bob's; his next is a second one, and 2 + 4 GPUs then.
    let both = Qos { group_milli: Some(6_000), user_jobs: Some(2), ..Qos::default() };
    assert_eq!(of(both.clone()), [0, 0, 0, 10].map(Some));
    // The GPUs alone: one job a user.
    assert_eq!(of(Qos { user_jobs: None, ..both }), [0, 10, 0, 10].map(Some));
    let denied = node(&[Qos { deny: true, ..other }], &accounts);
    let outcome = simulate(&workload, &denied, &Policy::default()).unwrap().outcome;
    assert_eq!(outcome[3], Outcome::Rejected);
}

/// 10 GPU-minutes that running jobs may still take. A job of 2 GPUs and 4 min (8 GPU-min) runs 0–180 s. One of 1 GPU and 4 min would be over while 2 × (240 − t) s + 240 s > 600 s, so until 60 s: it starts then under
/// an interval, and otherwise when something happens, at 180 s. One of 3 GPUs and 4 min is over it alone.
#[test]
fn gpu_time_that_running_jobs_may_take_is_limited() {
    let nlp = Association { group_time_milli: Some(10_000), ..below(None) };
    let workload = charged(&[
        ((0, 180, 2, 0, None, 240), Some(0)),
        ((10, 20, 1, 1, None, 240), Some(0)),
        ((20, 20, 3, 2, None, 240), Some(0)),
    ]);
    let cluster = node(&[], &[nlp]);
    let looking = Policy { interval_ms: Some(30_000), scan: Scan::Slurm, ..Policy::default() };
    assert_eq!(starts(&workload, &cluster, &looking), [Some(0), Some(60), None]);
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [Some(0), Some(180), None]);
    // A QOS has the same limit, and lifts the account's.
    let qos = Qos { group_time_milli: Some(12_000), ..Qos::default() };
    let mut of_qos = workload;
    of_qos.qos = vec![Some(0); 3];
    let accounts = cluster.limits.as_ref().unwrap().associations().to_vec();
    // 460 + 240 s at 10 s is 11.7 GPU-min; at 20 s there are 2 × 220 + 230 + 720 s, and 720 s when both are over.
    assert_eq!(starts(&of_qos, &node(&[qos], &accounts), &Policy::default()), [0, 10, 180].map(Some));
}

/// An account of two partitions on nodes of their own: its jobs count together.
#[test]
fn pools_share_the_limits_of_an_account() {
    let one = Association { group_jobs: Some(1), ..below(None) };
    let row = |submit, run, user| ((submit, run, 1, user, None, run), Some(0));
    let mut workload = charged(&[row(0, 50, 0), row(10, 10, 1), row(20, 20, 2)]);
    workload.vc = vec![0, 1, 0];
    let limits = Limits::new(Vec::new(), vec![Partition::default(); 2]).unwrap().under(vec![one]).unwrap();
    let cluster = Cluster { limits: Some(limits), ..Cluster::of_vcs(&[("a", 1, 8), ("b", 1, 8)]) };
    assert_eq!(starts(&workload, &cluster, &Policy::default()), [0, 50, 60].map(Some));
    workload.association[0] = Some(1);
    let message = simulate(&workload, &cluster, &Policy::default()).unwrap_err().to_string();
    assert!(message.contains("its association is not among the limits"), "{message}");
}
