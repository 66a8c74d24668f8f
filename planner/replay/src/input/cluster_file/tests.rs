//! Files by hand, and that a replay on them takes the nodes of a replay without.

#![allow(clippy::unwrap_used)]

use tracecast_analytics::schema::{CapacityRow, JobRow, NodeRow};

use super::super::{Options, load};
use super::*;

/// 2020-09-13 12:26:40 UTC.
const BEGIN: i64 = 1_600_000_000_000;
const HOUR: i64 = 3_600_000;

fn job<'a>(key: &'a str, vc: &'a str, gpus: f64, from_h: i64, to_h: i64) -> JobRow<'a> {
    JobRow {
        job_key: Some(key.into()),
        vc: Some(vc.into()),
        state: Some("completed".into()),
        req_gpus: Some(gpus),
        submit: Some(BEGIN + from_h * HOUR),
        start: Some(BEGIN + from_h * HOUR),
        end: Some(BEGIN + to_h * HOUR),
        run_s: Some(((to_h - from_h) * 3_600) as f64),
        ..JobRow::default()
    }
}

fn trace(jobs: &[JobRow<'_>], capacity: &[CapacityRow<'_>], nodes: &[NodeRow<'_>]) -> Trace {
    let mut trace = Trace::default();
    jobs.iter().for_each(|row| trace.jobs.push(row.clone()));
    capacity.iter().for_each(|row| trace.capacity.push(row.clone()));
    nodes.iter().for_each(|row| trace.nodes.push(row.clone()));
    trace
}

fn size<'a>(scope: &'a str, name: &'a str, hours: Option<(i64, i64)>, gpus: f64) -> CapacityRow<'a> {
    CapacityRow {
        scope: Some(scope.into()),
        name: Some(name.into()),
        from: hours.map(|(from, _)| BEGIN + from * HOUR),
        to: hours.map(|(_, to)| BEGIN + to * HOUR),
        gpus: Some(gpus),
        ..CapacityRow::default()
    }
}

fn text(trace: &Trace, wanted: &Wanted) -> String {
    cluster_file(trace, "log", wanted).unwrap()
}

/// The nodes that a replay takes, with the file and without. The first size holds from the beginning, whatever its time.
fn both(trace: &Trace, text: &str) -> [Cluster; 2] {
    let site = Site::parse("cluster.toml", text).unwrap();
    [Some(&site), None].map(|site| {
        let mut cluster = load(trace, site, &Options::default()).unwrap().cluster;
        for group in cluster.pools.iter_mut().flat_map(|pool| &mut pool.groups) {
            group.sizes.first_mut().unwrap().0 = i64::MIN;
        }
        cluster
    })
}

fn over_time() -> Wanted {
    Wanted { over_time: true, ..Wanted::default() }
}

/// `va` has 96 GPUs in the first two hours and 100 from then on (13 nodes of 8 are 104); `vb` is gone after two hours; `vc` has no job.
fn sized() -> Trace {
    let jobs = [job("1", "va", 8.0, 0, 4), job("2", "vb", 8.0, 0, 1)];
    let capacity = [
        size("vc", "va", Some((0, 2)), 96.0),
        size("vc", "va", Some((2, 9)), 100.0),
        size("vc", "vb", Some((0, 2)), 16.0),
        size("vc", "vc", Some((0, 9)), 8.0),
    ];
    trace(&jobs, &capacity, &[])
}

#[test]
fn sizes_as_of_the_last_moment() {
    assert_eq!(
        text(&sized(), &Wanted::default()),
        "\
# The cluster of log as of 2020-09-13T16:26:40Z, for --site.
# Sizes of VCs over time are the trace's own; in the record every VC has its nodes to itself.
# How many GPUs a node has is not recorded: 8 each are assumed.
# The source does not say which GPU models they are: add gpu_type if jobs ask for types.
# Sizes changed during the record: these are of that moment, and --over-time writes all.

# The source says 100 GPUs.
[[vc]]
name = \"va\"
nodes = 13
gpus_per_node = 8

# Without nodes at that moment, and left out: vb.

# No job of the source is of these VCs. To have them too, take the marks away:
#
# [[vc]]
# name = \"vc\"
# nodes = 1
# gpus_per_node = 8
"
    );
    // An hour in, both are there.
    let early = text(&sized(), &Wanted { at_ms: Some(BEGIN + HOUR), ..Wanted::default() });
    assert!(early.contains("as of 2020-09-13T13:26:40Z"), "{early}");
    assert!(early.contains("name = \"va\"\nnodes = 12\n") && early.contains("name = \"vb\"\nnodes = 2\n"), "{early}");
    // Long after, the last sizes of the record stand; what was gone by then is.
    let late = text(&sized(), &Wanted { at_ms: Some(BEGIN + 99 * HOUR), ..Wanted::default() });
    assert!(late.contains("name = \"va\"\nnodes = 13\n") && late.contains("left out: vb."), "{late}");
}

#[test]
fn over_time_it_is_what_a_replay_without_a_file_takes() {
    let trace = sized();
    let text = text(&trace, &over_time());
    assert!(
        text.contains(
            "nodes = 12\ngpus_per_node = 8\nsizes = [\n    { at = \"2020-09-13T14:26:40Z\", nodes = 13 },\n]"
        ),
        "{text}"
    );
    let [with, without] = both(&trace, &text);
    assert_eq!(with, without);
}

// 13 GPUs of quota, and one of 0, which is no bound; nodes of two kinds.
#[test]
fn shared_nodes_have_their_quotas() {
    let node = |name: &'static str, gpus: f64, gpu_type: &'static str| NodeRow {
        node: Some(name.into()),
        gpus: Some(gpus),
        gpu_type: Some(gpu_type.into()),
        ..NodeRow::default()
    };
    let nodes = [node("a", 8.0, "A100"), node("b", 8.0, "A100"), node("c", 4.0, "T4")];
    let capacity = [size("vc", "va", None, 13.0), size("vc", "vb", None, 0.0), size("cluster", "k", None, 20.0)];
    let trace = trace(&[job("1", "va", 1.0, 0, 1), job("2", "vb", 2.0, 0, 1)], &capacity, &nodes);
    for wanted in [Wanted::default(), over_time()] {
        let text = text(&trace, &wanted);
        let tables: Vec<&str> = text.split("\n\n").skip(1).collect();
        assert_eq!(
            tables,
            [
                "[[pool]]\nname = \"cluster\"\nnodes = 1\ngpus_per_node = 4\ngpu_type = \"T4\"",
                "[[pool]]\nname = \"cluster\"\nnodes = 2\ngpus_per_node = 8\ngpu_type = \"A100\"",
                "[[vc]]\nname = \"va\"\npool = \"cluster\"\nquota_gpus = 13.0",
                "[[vc]]\nname = \"vb\"\npool = \"cluster\"\n",
            ],
            "{text}"
        );
        let [with, without] = both(&trace, &text);
        assert_eq!(with, without);
        assert_eq!(with.vcs.iter().map(|vc| vc.quota_milli.len()).collect::<Vec<_>>(), [1, 0]);
    }
}

// Node n1 of the inventory is out from hour 1 to hour 2.
#[test]
fn failures_are_outages() {
    let node = |name: &'static str| NodeRow {
        node: Some(name.into()),
        gpus: Some(8.0),
        vc: Some("va".into()),
        ..NodeRow::default()
    };
    let down = CapacityRow { state: Some("down".into()), gpus: None, ..size("node", "n1", Some((1, 2)), 0.0) };
    let trace = trace(&[job("1", "va", 8.0, 0, 1)], &[down], &[node("n0"), node("n1")]);
    let file = text(&trace, &over_time());
    assert!(
        file.ends_with("\n[[outage]]\nof = \"va\"\nnode = 1\nat = \"2020-09-13T13:26:40Z\"\nfor_s = 3600.0\n"),
        "{file}"
    );
    let [with, without] = both(&trace, &file);
    assert_eq!((with.outages.len(), &with), (1, &without));
    let file = text(&trace, &Wanted { at_ms: Some(BEGIN + HOUR), ..Wanted::default() });
    assert!(!file.contains("[[outage]]") && file.contains("1 failure of a node is recorded and left out"), "{file}");
    assert!(file.contains("Out at that moment: n1."), "{file}");
}

/// A log with starts for 3 % of its jobs makes VCs of what these ran, and the file says so.
#[test]
fn it_is_told_where_few_jobs_say_when_they_ran() {
    let unseen = ["2", "3"].map(|key| JobRow { start: None, ..job(key, "va", 1.0, 0, 4) });
    let [first, second] = unseen;
    let trace = trace(&[job("1", "va", 8.0, 0, 4), first, second], &[], &[]);
    let file = text(&trace, &Wanted::default());
    let words = file.replace("\n# ", " ");
    assert!(
        words.contains(
            "and only 1 of 3 jobs have a recorded start and end, so that it is not known what all of them ran at once"
        ),
        "{file}"
    );
    // All are submitted at one moment: 10 GPUs for the hours that they run.
    assert!(words.contains("GPUs taken at once: 8 at most; the largest job asked for 8; a load of"), "{file}");
    assert!(file.contains("a load of 0.7 takes 14.3 GPUs.\n[[vc]]\nname = \"va\"\nnodes = 2\n"), "{file}");
}

// `va` ran 8 + 4 GPUs at once, 12 in all: two nodes. `vb` never more than 1, and one job of 20 never started: three nodes.
#[test]
fn without_a_record_it_is_inferred_from_use_and_says_so() {
    let waits =
        JobRow { start: None, end: None, run_s: None, state: Some("pending".into()), ..job("5", "vb", 20.0, 0, 0) };
    let jobs = [
        job("1", "va", 8.0, 0, 4),
        job("2", "va", 4.0, 3, 5),
        job("3", "va", 8.0, 4, 6),
        job("4", "vb", 1.0, 0, 1),
        waits,
    ];
    let trace = trace(&jobs, &[], &[]);
    let file = text(&trace, &Wanted::default());
    assert!(file.contains("# INFERRED: the source does not say how many GPUs there are. These are the"), "{file}");
    assert!(!file.contains("is not counted"), "{file}");
    assert!(
        file.contains(
            "# GPUs taken at once: 12 at most; the largest job asked for 8.\n[[vc]]\nname = \"va\"\nnodes = 2\n"
        ),
        "{file}"
    );
    assert!(
        file.contains(
            "# GPUs taken at once: 1 at most; the largest job asked for 20.\n[[vc]]\nname = \"vb\"\nnodes = 3\n"
        ),
        "{file}"
    );
    assert!(
        cluster_file(&Trace::default(), "log", &Wanted::default())
            .unwrap_err()
            .to_string()
            .contains("no cluster to write")
    );
    // Processors: 12 + 1 at once, on one pool of nodes of 64.
    let mut cpus = Trace::default();
    for row in &jobs {
        cpus.jobs.push(JobRow { req_cpus: row.req_gpus, req_gpus: None, ..row.clone() });
    }
    let file = text(&cpus, &Wanted::default());
    assert!(file.contains("replay with --resource cpus"), "{file}");
    assert!(
        file.contains("[[pool]]\nname = \"cluster\"\nnodes = 1\ngpus_per_node = 64\n\n[[vc]]\nname = \"*\"\n"),
        "{file}"
    );
}

// Ten jobs of 8 GPUs and 100 s, one every 10 s, without starts: 8,000 GPU-seconds in the 100 s of the longest, which are more than
// the 90 s of submissions, are 80 GPUs at once, and 114 with a load of 0.7.
#[test]
fn without_starts_the_nodes_are_those_of_a_load() {
    let unknown = |(at, id): (i64, &'static str)| JobRow {
        submit: Some(at * 10_000),
        start: None,
        end: None,
        run_s: Some(100.0),
        ..job(id, "va", 8.0, 0, 1)
    };
    let ids = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    let jobs: Vec<JobRow> = (0..).zip(ids).map(unknown).collect();
    let file = text(&trace(&jobs, &[], &[]), &Wanted::default());
    // What ran at once is not known, so nothing is said of it.
    let words = file.replace("\n# ", " ");
    assert!(words.contains("none of 10 jobs has a recorded start and end"), "{file}");
    assert!(!file.contains("at the busiest moment") && !file.contains("taken at once"), "{file}");
    assert!(
        file.contains(
            "# The largest job asked for 8; a load of 0.7 takes 114 GPUs.\n[[vc]]\nname = \"va\"\nnodes = 15\n"
        ),
        "{file}"
    );
}

// n1 and n3 lie in rack r2, n2 and n4 in r1: in the file r1 comes first, so the failed n3, which is the third of the list, is the last.
#[test]
fn nodes_that_lie_together_are_an_entry_and_failures_follow_them() {
    let node = |name: &'static str, rack: &'static str| NodeRow {
        node: Some(name.into()),
        gpus: Some(8.0),
        vc: Some("va".into()),
        place: Some(rack.into()),
        ..NodeRow::default()
    };
    let down = CapacityRow { state: Some("down".into()), gpus: None, ..size("node", "n3", Some((1, 2)), 0.0) };
    let nodes = [node("n1", "rack=r2"), node("n2", "rack=r1"), node("n3", "rack=r2"), node("n4", "rack=r1")];
    let trace = trace(&[job("1", "va", 8.0, 0, 1)], &[down], &nodes);
    let file = text(&trace, &over_time());
    let entry = |rack: &str| {
        format!("[[vc]]\nname = \"va\"\nnodes = 2\ngpus_per_node = 8\ntopology = {{ rack = \"{rack}\" }}\n")
    };
    assert!(file.contains("[topology]\nlevels = [\"rack\"]\n"), "{file}");
    assert!(file.contains(&format!("{}\n{}", entry("r1"), entry("r2"))), "{file}");
    assert!(file.contains("[[outage]]\nof = \"va\"\nnode = 3\n"), "{file}");
    let [with, without] = both(&trace, &file);
    let rack = |cluster: &Cluster, node: u32| cluster.topology.as_ref().unwrap().domain(node, 0);
    let failed = |cluster: &Cluster| cluster.outages[0].node;
    // The failed node lies with the same others.
    assert_eq!((failed(&with), failed(&without)), (3, 2));
    assert_eq!((rack(&with, 2) == rack(&with, 3), rack(&without, 0) == rack(&without, 2)), (true, true));
}

// The VC has 16 GPUs, and 32 from hour 1 on: which of its four nodes there were first is not known.
#[test]
fn nodes_whose_number_changes_lie_nowhere_over_time() {
    let node = |name: &'static str, rack: &'static str| NodeRow {
        node: Some(name.into()),
        gpus: Some(8.0),
        vc: Some("va".into()),
        place: Some(rack.into()),
        ..NodeRow::default()
    };
    let nodes = [node("n1", "rack=r2"), node("n2", "rack=r1"), node("n3", "rack=r2"), node("n4", "rack=r1")];
    let sizes = [size("vc", "va", Some((0, 1)), 16.0), size("vc", "va", Some((1, 9)), 32.0)];
    let trace = trace(&[job("1", "va", 8.0, 0, 2)], &sizes, &nodes);
    let file = text(&trace, &over_time());
    assert!(file.contains("sizes = [") && !file.contains("[topology]"), "{file}");
    assert!(file.contains("it is not known which of them there were when"), "{file}");
    let now = text(&trace, &Wanted::default());
    assert!(now.contains("[topology]") && now.contains("topology = { rack = \"r1\" }"), "{now}");
}

#[test]
fn nodes_of_jobs_without_a_vc_are_there_for_all() {
    let on = |key, vc: Option<&'static str>, node: &'static str| JobRow {
        vc: vc.map(Into::into),
        nodes_hostlist: Some(node.into()),
        ..job(key, "", 4.0, 0, 1)
    };
    let jobs = [on("1", Some("va"), "n1"), on("2", Some("vb"), "n2"), on("3", None, "n3")];
    let places = NodePlaces::of_slurm("t.conf", "SwitchName=s0 Nodes=n[1-3]").unwrap();
    let wanted = Wanted { places: Some(places), ..Wanted::default() };
    let shared = text(&trace(&jobs, &[], &[]), &wanted);
    assert!(shared.contains("1 node ran jobs without a VC, so all VCs share all nodes: n3."), "{shared}");
    assert!(shared.contains("[[pool]]\nname = \"cluster\"\nnodes = 3\n"), "{shared}");
    let own = text(&trace(&jobs[..2], &[], &[]), &wanted);
    assert!(!own.contains("without a VC") && own.contains("name = \"va\"\nnodes = 1\n"), "{own}");
}

#[test]
fn places_of_nodes_that_are_counted_together_are_refused() {
    let nodes = [NodeRow { node: Some("n1".into()), gpus: Some(8.0), ..NodeRow::default() }];
    let places = NodePlaces::of_slurm("t.conf", "SwitchName=s0 Nodes=n1").unwrap();
    let wanted = Wanted { resource: Some(Resource::Nodes), places: Some(places), ..Wanted::default() };
    let failure = cluster_file(&trace(&[job("1", "va", 8.0, 0, 1)], &[], &nodes), "log", &wanted);
    let message = failure.unwrap_err().to_string();
    assert!(message.contains("t.conf") && message.contains("leave out --topology-file"), "{message}");
}
