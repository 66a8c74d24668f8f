//! Cases by hand: which jobs are kept, with what shape, when; files and what is said of wrong ones.

#![allow(clippy::unwrap_used)]

use tracecast_analytics::Trace;
use tracecast_analytics::schema::{AttemptRow, CapacityRow, JobRow, NodeRow};

use super::*;
use tracecast_sim::cluster::{Group, Outage};
use tracecast_sim::workload::{Shape, Warm};

const MINUTE: i64 = 60_000;
/// Noon of some day.
const NOON: i64 = 1_700_000_000_000 / 86_400_000 * 86_400_000 + 12 * 60 * MINUTE;

fn job<'a>(key: &'a str, gpus: f64, submit: i64, start: i64, end: i64) -> JobRow<'a> {
    JobRow {
        job_key: Some(key.into()),
        vc: Some("va".into()),
        user: Some("ada".into()),
        state: Some("completed".into()),
        req_gpus: Some(gpus),
        submit: Some(submit),
        start: Some(start),
        end: Some(end),
        run_s: Some((end - start) as f64 / 1000.0),
        ..JobRow::default()
    }
}

fn trace(rows: &[JobRow<'_>]) -> Trace {
    let mut trace = Trace::default();
    for row in rows {
        trace.jobs.push(row.clone());
    }
    trace
}

fn site() -> Site {
    Site::parse("cluster.toml", "[[vc]]\nname = \"va\"\nnodes = 2\n").unwrap()
}

fn loaded(trace: &Trace, options: &Options) -> Loaded {
    load(trace, Some(&site()), options).unwrap()
}

#[test]
fn a_window_takes_along_what_runs_and_waits() {
    let trace = trace(&[
        job("done before", 1.0, NOON - 60 * MINUTE, NOON - 60 * MINUTE, NOON - 30 * MINUTE),
        job("runs", 1.0, NOON - 10 * MINUTE, NOON - 10 * MINUTE, NOON + 10 * MINUTE),
        job("waits", 1.0, NOON - 5 * MINUTE, NOON + 5 * MINUTE, NOON + 6 * MINUTE),
        job("inside", 1.0, NOON + 2 * MINUTE, NOON + 2 * MINUTE, NOON + 5 * MINUTE),
        job("after", 1.0, NOON + 60 * MINUTE, NOON + 60 * MINUTE, NOON + 61 * MINUTE),
    ]);
    let window = Options { from_ms: Some(NOON), to_ms: Some(NOON + 60 * MINUTE), ..Options::default() };
    let result = loaded(&trace, &window);
    assert_eq!(result.keys, ["runs", "waits", "inside"]);
    assert_eq!(result.workload.origin_ms, NOON);
    assert_eq!(result.workload.submit_ms, [-10 * MINUTE, -5 * MINUTE, 2 * MINUTE]);
    // The first has 10 of its 20 min left, and starts nothing: it runs already.
    assert_eq!(result.workload.run_ms, [10 * MINUTE, MINUTE, 3 * MINUTE]);
    assert_eq!(result.workload.warm, [Warm { job: 0, start_ms: -10 * MINUTE }]);
    assert_eq!(result.recorded_start_ms, [Some(-10 * MINUTE), Some(5 * MINUTE), Some(2 * MINUTE)]);
    // History is what had ended: 1 GPU for 30 min.
    assert_eq!(result.workload.history_gpu_s, [1800.0]);
    let excluded: Vec<(&str, usize, &str)> =
        result.excluded.iter().map(|of| (of.reason.as_str(), of.jobs, of.example.as_str())).collect();
    assert_eq!(
        excluded,
        [("submitted after the window", 1, "after"), ("submitted before the window", 1, "done before")]
    );
    // As the Helios simulator has it nothing is there before the window.
    let plain = loaded(&trace, &Options { whole_seconds: true, ..window });
    assert_eq!((plain.keys, plain.workload.origin_ms), (vec!["inside".to_owned()], NOON + 2 * MINUTE));
}

#[test]
fn shapes_and_runs() {
    let given = |gpus: f64| JobRow { alloc_gpus: Some(gpus), ..job("given", 1.0, NOON, NOON, NOON + 1_500) };
    let trace = trace(&[
        job("part", 0.3334, NOON, NOON, NOON + 1_500),
        job("nearly", 0.9999, NOON, NOON, NOON + 1_500),
        job("odd", 2.5, NOON, NOON, NOON + 1_500),
        given(4.0),
        JobRow { alloc_nodes: Some(2), ..job("gang", 8.0, NOON, NOON, NOON + 1_500) },
        JobRow { reported_attempts_s: Some(1.0), ..job("attempts", 1.0, NOON, NOON, NOON + 90_000) },
        job("cpu", 0.0, NOON, NOON, NOON + 1_500),
        JobRow { end: None, run_s: None, censored: Some(true), ..job("running", 1.0, NOON, NOON, NOON) },
        JobRow { run_s: None, end: None, start: None, attempts: Some(0), ..job("never", 1.0, NOON, NOON, NOON) },
    ]);
    let options = Options { gangs_as_recorded: true, ..Options::default() };
    let result = loaded(&trace, &options);
    let shapes: Vec<Shape> = (0..result.workload.len()).map(|job| result.workload.shape_of(job)).collect();
    let gang = Shape { nodes: 2, ..Shape::whole(8) };
    // Parts are rounded down to thousandths, so that three thirds fit on a GPU, and what is nearly a whole GPU is one.
    assert_eq!(
        shapes,
        [Shape::part(333), Shape::whole(1), Shape::whole(3), Shape::whole(4), gang, Shape::whole(1), Shape::whole(1)]
    );
    assert!(result.notes.iter().any(|note| note.starts_with("1 job asks for more than one GPU but no whole number")));
    // What the source sums over attempts goes before the time from the first start to the last end.
    // What still ran did so at least until the last moment of the record, and holds its GPU for as long; it is not counted.
    assert_eq!(result.workload.run_ms, [1_500, 1_500, 1_500, 1_500, 1_500, 1_000, 90_000]);
    assert_eq!((result.workload.unfinished.as_slice(), result.keys[6].as_str()), (&[6][..], "running"));
    assert!(result.notes.iter().any(|note| note.starts_with("Still running when the record was taken: 1 job")));
    let reasons: Vec<&str> = result.excluded.iter().map(|of| of.reason.as_str()).collect();
    assert_eq!(reasons, ["it never started, so how long it would run is not known", "no GPU"]);
    assert_eq!(loaded(&trace, &Options::default()).workload.shape_of(4), Shape::whole(8));
    // Whole seconds are cut off, not rounded.
    let seconds = loaded(&trace, &Options { whole_seconds: true, ..options });
    assert_eq!(seconds.workload.run_ms, [1_000; 6]);
    let short = loaded(&trace, &Options { longest_ms: Some(1_000), ..Options::default() });
    assert_eq!(short.keys, ["attempts"]);
}

/// Of 99 GPU-minutes, 40 are of a job that names no VC and 50 of one whose VC is not there: a plan
/// with the rest has to begin with that.
#[test]
fn who_has_no_place_is_told_first() {
    // A cluster of one VC takes jobs that name none.
    let nodes = |name: &str| format!("[[vc]]\nname = \"{name}\"\nnodes = 2\n");
    let site = Site::parse("cluster.toml", &[nodes("va"), nodes("vb")].concat()).unwrap();
    let loaded = |trace: &Trace| load(trace, Some(&site), &Options::default()).unwrap();
    let minutes = |key, vc: Option<&'static str>, run: i64| JobRow {
        vc: vc.map(Into::into),
        ..job(key, 1.0, NOON, NOON, NOON + run * MINUTE)
    };
    let here = ["a", "b", "c"].map(|key| minutes(key, Some("va"), 3));
    let others =
        [minutes("nobody's", None, 40), minutes("gone", Some("vz"), 50), job("cpu", 0.0, NOON, NOON, NOON + MINUTE)];
    let result = loaded(&trace(&[&here[..], &others].concat()));
    assert_eq!(
        result.cautions,
        [
            "**What follows is of 9.1 % of the time of GPUs alone**: 2 of 5 jobs are left out (the VC is not in the cluster (1), the VC is unknown (1)), as if they had held nothing. It says little of the whole cluster: find out first whether the jobs and the nodes are of one cluster."
        ]
    );
    assert_eq!(loaded(&trace(&here)).cautions, [""; 0]);
    // One of 200 with as little time is told among the notes.
    let mut many: Vec<JobRow<'_>> = vec![minutes("some", Some("va"), 3); 199];
    many.push(minutes("nobody's", None, 3));
    let result = loaded(&trace(&many));
    assert!(
        result.cautions.is_empty() && result.notes.iter().any(|note| note.starts_with("**1 of 200 jobs are left out"))
    );
}

/// A cluster file that shares one name with the trace by chance takes 8 % of the GPU time, and the
/// answer says so first.
#[test]
fn an_answer_of_the_smaller_part_of_the_gpu_time_says_so_first() {
    let of = |vc: &'static str, key: &'static str, gpus: f64| JobRow {
        vc: Some(vc.into()),
        ..job(key, gpus, NOON, NOON, NOON + 10 * MINUTE)
    };
    let result = loaded(&trace(&[of("va", "1", 1.0), of("vb", "2", 9.0)]), &Options::default());
    let said = "**What follows is of 10.0 % of the time of GPUs alone**: 1 of 2 jobs are left out (the VC is not in the cluster (1))";
    assert!(result.cautions[0].starts_with(said), "{:?}", result.cautions);
    // Of the larger part the share that is left out is told.
    let result = loaded(&trace(&[of("va", "1", 9.0), of("vb", "2", 1.0)]), &Options::default());
    assert!(
        result.cautions[0].starts_with("**1 of 2 jobs are left out, with 10.0 % of the time"),
        "{:?}",
        result.cautions
    );
}

/// Sizes whose last day was months before the first job are named in a caution; a size of 0 GPUs
/// counts as known.
#[test]
fn sizes_of_another_time_and_of_nothing_are_told() {
    let size = |vc: &'static str, gpus: f64, to: i64| CapacityRow {
        scope: Some("vc".into()),
        name: Some(vc.into()),
        from: Some(NOON - 2000 * MINUTE),
        to: Some(to),
        gpus: Some(gpus),
        ..CapacityRow::default()
    };
    let mut with = trace(&[job("1", 1.0, NOON, NOON, NOON + 10 * MINUTE)]);
    with.jobs.push(JobRow { vc: Some("vb".into()), ..job("2", 1.0, NOON, NOON, NOON + 10 * MINUTE) });
    let mut before = with.clone();
    before.capacity.push(size("va", 16.0, NOON - 1000 * MINUTE));
    let result = load(&before, None, &Options::default()).unwrap();
    assert!(result.cautions.iter().any(|told| told.contains("of another time than the jobs")), "{:?}", result.cautions);
    // Sizes of the time of the jobs are no matter; one of 0 is known.
    with.capacity.push(size("va", 16.0, NOON + 1000 * MINUTE));
    with.capacity.push(size("vb", 0.0, NOON + 1000 * MINUTE));
    let result = load(&with, None, &Options::default()).unwrap();
    assert!(!result.cautions.iter().any(|told| told.contains("another time")), "{:?}", result.cautions);
    assert_eq!(result.excluded[0].reason, "the VC has 0 GPUs in the record");
}

#[test]
fn nodes_that_nobody_has_counted_are_told_first() {
    let of = |text: &str| {
        let site = Site::parse("cluster.toml", text).unwrap();
        load(&trace(&[job("a", 1.0, NOON, NOON, NOON + MINUTE)]), Some(&site), &Options::default()).unwrap().cautions
    };
    let nodes = "[[vc]]\nname = \"va\"\nnodes = 2\n";
    assert!(
        of(&format!("# INFERRED: nobody knows.\n{nodes}"))
            .concat()
            .starts_with("**The nodes of cluster.toml are a guess**")
    );
    assert!(of(&format!("# Was inferred, and is right.\n{nodes}")).is_empty());
}

#[test]
fn nodes_of_one_kind_stand_there_once() {
    let parse = |second: &str| {
        Site::parse(
            "cluster.toml",
            &format!("[[vc]]\nname = \"va\"\nnodes = 2\n\n[[vc]]\nname = \"{second}\nnodes = 3\n"),
        )
    };
    let said = parse("va\"").unwrap_err().to_string();
    assert!(said.contains("line 6") && said.contains("VC va stands there twice"), "{said}");
    for other in ["vb\"", "va\"\ngpus_per_node = 4", "va\"\ngpu_type = \"v100\""] {
        assert!(parse(other).is_ok(), "{other}");
    }
}

/// Two nodes of one VC. Node n1 fails at 10 min and is back at 20 min. On it a job of 8 GPUs ran from noon, and then again from 20 to 50
/// min; another ran until the failure and no more; on n2 one ran for 100 min.
#[test]
fn failures_of_the_trace_are_replayed() {
    let at = |minutes: i64| NOON + minutes * MINUTE;
    let mut trace = trace(&[
        JobRow { attempts: Some(2), run_s: Some(2_400.0), ..job("twice", 4.0, at(0), at(0), at(50)) },
        JobRow { state: Some("node_fail".into()), ..job("killed", 4.0, at(0), at(0), at(10)) },
        job("long", 8.0, at(0), at(0), at(100)),
    ]);
    for (number, from, to, reason) in [(1, 0, 10, "node_fail"), (2, 20, 50, "completed")] {
        trace.attempts.push(AttemptRow {
            job_key: Some("twice".into()),
            attempt: Some(number),
            start: Some(at(from)),
            end: Some(at(to)),
            end_reason: Some(reason.into()),
            nodes_hostlist: Some("n1".into()),
            ..AttemptRow::default()
        });
    }
    for name in ["n1", "n2"] {
        let (node, vc) = (Some(name.into()), Some("va".into()));
        trace.nodes.push(NodeRow { node, vc, gpus: Some(8.0), ..NodeRow::default() });
    }
    trace.capacity.push(CapacityRow {
        scope: Some("node".into()),
        name: Some("n1".into()),
        from: Some(at(10)),
        to: Some(at(20)),
        gpus: Some(0.0),
        nodes: Some(0.0),
        state: Some("down".into()),
        ..CapacityRow::default()
    });
    let result = load(&trace, None, &Options::default()).unwrap();
    assert_eq!(result.cluster.outages, [Outage { node: 0, from_ms: 10 * MINUTE, to_ms: 20 * MINUTE }]);
    // What the failure cut short is no part of what the job needs: the replay cuts it short again.
    assert_eq!(result.workload.run_ms, [30 * MINUTE, 10 * MINUTE, 100 * MINUTE]);
    let schedule =
        tracecast_sim::simulate(&result.workload, &result.cluster, &tracecast_sim::Policy::default()).unwrap();
    let ends: Vec<Option<i64>> = (0..3).map(|job| schedule.end_ms(job).map(|end| end / MINUTE)).collect();
    assert_eq!((ends, schedule.restarts.as_slice()), (vec![Some(50), Some(10), Some(100)], &[1, 0, 0][..]));
    assert!(result.notes.iter().any(|note| note.contains("The trace's 1 failure of a node is replayed")));
    // Where no failure is recorded, a job needs what its runs took together.
    trace.capacity = Default::default();
    let result = load(&trace, None, &Options::default()).unwrap();
    assert_eq!((result.cluster.outages.len(), result.workload.run_ms[0]), (0, 40 * MINUTE));
}

#[test]
fn jobs_of_one_moment_stay_in_the_order_of_the_trace() {
    let trace = trace(&[
        job("late", 1.0, NOON + 1, NOON + 1, NOON + 2),
        job("b", 1.0, NOON, NOON, NOON + 2),
        job("a", 1.0, NOON, NOON, NOON + 2),
    ]);
    let result = loaded(&trace, &Options::default());
    assert_eq!((result.keys, result.rows), (vec!["b".to_owned(), "a".to_owned(), "late".to_owned()], vec![1, 2, 0]));
}

#[test]
fn the_cluster_of_the_trace() {
    let jobs = [job("1", 1.0, NOON, NOON, NOON + MINUTE)];
    let size = |from: Option<i64>, gpus: Option<f64>, nodes: Option<f64>| CapacityRow {
        scope: Some("vc".into()),
        name: Some("va".into()),
        from,
        gpus,
        nodes,
        ..CapacityRow::default()
    };
    let with = |rows: &[CapacityRow<'_>]| {
        let mut trace = trace(&jobs);
        for row in rows {
            trace.capacity.push(row.clone());
        }
        load(&trace, None, &Options::default())
    };
    let groups = |result: Loaded| result.cluster.pools.first().unwrap().groups.clone();
    // 96 GPUs are 12 nodes of 8, and 32 from an hour on are 4.
    let hour = 60 * MINUTE;
    let result = with(&[size(None, Some(96.0), None), size(Some(NOON + hour), Some(32.0), None)]).unwrap();
    assert_eq!(groups(result), [Group { sizes: vec![(i64::MIN, 12), (hour, 4)], ..Group::fixed(0, 8) }]);
    // 16 GPUs on 4 nodes are 4 each.
    let result = with(&[size(None, Some(16.0), Some(4.0))]).unwrap();
    assert_eq!(groups(result), [Group { sizes: vec![(i64::MIN, 4)], ..Group::fixed(0, 4) }]);
    // Nodes alone are taken to have 8 each, and the reader is told.
    let result = with(&[size(None, None, Some(3.0))]).unwrap();
    assert!(
        result.notes.iter().any(|note| note.contains("How many GPUs a node has is not recorded: 8 each")),
        "{:?}",
        result.notes
    );
    assert_eq!(groups(result), [Group { sizes: vec![(i64::MIN, 3)], ..Group::fixed(0, 8) }]);
    // Nodes of no VC are shared by all.
    let mut inventory = trace(&jobs);
    for gpus in [4.0, 8.0, 8.0, 0.0] {
        inventory.nodes.push(NodeRow { gpus: Some(gpus), ..NodeRow::default() });
    }
    let result = load(&inventory, None, &Options::default()).unwrap();
    assert!(result.notes.iter().any(|note| note.contains("all VCs share")));
    assert_eq!(groups(result).iter().map(|of| (of.gpus_per_node, of.sizes[0].1)).collect::<Vec<_>>(), [(4, 1), (8, 2)]);
    // Nothing known: the command that infers a file to start from.
    let error = with(&[]).unwrap_err().to_string();
    assert!(error.contains("`tracecast cluster SOURCE --resource gpus --out cluster.toml`"), "{error}");
}

#[test]
fn a_cluster_file() {
    let text = "
[[vc]]
name = \"vision\"
nodes = 12
sizes = [{ at = \"2023-11-14T13:00:00Z\", nodes = 14 }, { at_s = 86400, nodes = 10 }]
[[pool]]
name = \"shared\"
nodes = 2
gpus_per_node = 4
gpu_type = \"A100\"
[[vc]]
name = \"speech\"
pool = \"shared\"
quota_gpus = 6.5
guaranteed_gpus = 4
[[vc]]
name = \"*\"
pool = \"shared\"
[[outage]]
of = \"shared\"
node = 1
at_s = 10
for_s = 5
";
    let site = Site::parse("c.toml", text).unwrap();
    let names = site.names(&["other".to_owned(), "speech".to_owned()]);
    assert_eq!(names, ["vision", "speech", "other"]);
    // 2023-11-14 is the day of `NOON`.
    let cluster = site.build(&names, NOON, 0).unwrap();
    // Pools come before VCs with nodes of their own.
    let vcs: Vec<(&str, u16)> = cluster.vcs.iter().map(|vc| (vc.name.as_str(), vc.pool)).collect();
    assert_eq!(vcs, [("vision", 1), ("speech", 0), ("other", 0)]);
    assert_eq!(cluster.vcs[1].quota_milli, [(i64::MIN, 6_500)]);
    assert_eq!((cluster.vcs[1].guarantee_at(0), cluster.vcs[2].guarantee_at(0)), (4_000, 0));
    let pool = &cluster.pools[1].groups;
    assert_eq!(pool[0].sizes, [(i64::MIN, 12), (60 * MINUTE, 14), (86_400_000, 10)]);
    assert_eq!(
        (cluster.pools[0].groups[0].gpu_type, cluster.gpu_types.as_slice()),
        (Some(0), &["A100".to_owned()][..])
    );
    assert_eq!(cluster.outages, [Outage { node: 1, from_ms: 10_000, to_ms: 15_000 }]);
    // A time 0 after which the moment lies behind the second one has no order.
    let error = site.build(&names, NOON - 3 * 86_400_000, 0).unwrap_err().to_string();
    assert!(error.contains("sizes must be in order of time"), "{error}");
}

#[test]
fn cells_of_a_cluster_file() {
    let with = |line: &str| {
        let text = format!("[[pool]]\nname = \"all\"\nnodes = 5\n[[vc]]\nname = \"speech\"\npool = \"all\"\n{line}\n");
        Site::parse("c.toml", &text)
    };
    let site = with("guaranteed_cells = { 8 = 3, \"4\" = 1, 1 = 2 }").unwrap();
    let cluster = site.build(&site.names(&[]), NOON, 0).unwrap();
    assert_eq!(
        (cluster.vcs[0].guarantee_cells.as_slice(), cluster.vcs[0].cell_gpus()),
        (&[(1, 2), (4, 1), (8, 3)][..], 30)
    );
    let said = |line: &str| with(line).unwrap_err().to_string();
    assert!(said("guaranteed_cells = { 8 = 6 }").contains("48 GPUs in all, and their pool has 40"));
    assert!(said("guaranteed_cells = { six = 1 }").contains("the key `six`"));
    assert!(said("guaranteed_cells = { 6 = 1 }").contains("no cell of 6 GPUs"));
    assert!(said("guaranteed_cells = { 8 = 1 }\nquota_gpus = 8").contains("none has a quota"));
    let own = "[[vc]]\nname = \"a\"\nnodes = 2\nguaranteed_cells = { 8 = 1 }\n";
    assert!(Site::parse("c.toml", own).unwrap_err().to_string().contains("its own nodes are both"));
}

/// A CSV for `--site` is refused as a table, and not only where TOML fails.
#[test]
fn a_table_in_place_of_a_cluster_file_is_told_as_one() {
    let told = |text: &str| Site::parse("nodes.csv", text).unwrap_err().to_string();
    let table = told("date,vcEwI,vcWoR,total\n2020-04-01,72,64,136\n");
    assert!(table.contains("a table with the columns date, vcEwI, vcWoR, total"), "{table}");
    assert!(table.contains("as a SOURCE") && table.contains("`tracecast cluster SOURCE` writes one"), "{table}");
    assert!(told("{\"nodes\": 3}").contains("this is JSON"), "{}", told("{\"nodes\": 3}"));
    // What is TOML, and wrong, is told as that.
    assert!(!told("vc = [1, 2]\n").contains("a table with"), "{}", told("vc = [1, 2]\n"));
}

#[test]
fn failures_are_drawn_as_often_as_asked_for() {
    let text = "[[vc]]\nname = \"va\"\nnodes = 100\n[failures]\nmtbf_h = 10\nrepair_h = 1\nseed = 7\n";
    let build = |text: &str| Site::parse("c", text).unwrap().build(&["va".to_owned()], 0, 1_000 * 3_600_000).unwrap();
    let cluster = build(text);
    // 100 nodes for 1,000 h, one failure every 11 h: 9,091, with a deviation of less than √9,091 = 95.
    let failures = cluster.outages.len() as f64;
    assert!((failures - 9_091.0).abs() < 5.0 * 95.0, "{failures}");
    let hours: i64 = cluster.outages.iter().map(|of| of.to_ms - of.from_ms).sum::<i64>() / 3_600_000;
    assert!((hours as f64 / failures - 1.0).abs() < 0.1, "{hours}");
    assert_eq!(build(text), cluster);
    assert_ne!(build(&text.replace("seed = 7", "seed = 8")), cluster);
}

#[test]
fn wrong_cluster_files_are_told_with_their_line() {
    for (text, line, words) in [
        ("", 1, "no [[vc]]"),
        ("[[vc]]\nname = \"a\"\nnodes = -1\n", 3, ""),
        ("[[vc]]\nname = \"a\"\n", 2, "either `nodes` of its own or a `pool`"),
        ("[[vc]]\nname = \"a\"\npool = \"p\"\n", 2, "no [[pool]] called `p`"),
        (
            "[[vc]]\nname = \"a\"\nnodes = 1\nquota_gpus = 3\n",
            2,
            "a quota or a guarantee is for a VC that shares a pool",
        ),
        ("[[vc]]\nname = \"a\"\nnodes = 1\ngpus_per_node = 65\n", 1, "1 to 64"),
        (
            "[[vc]]\nname = \"a\"\nnodes = 1\nsizes = [{ at_s = 5, nodes = 1 }, { at_s = 2, nodes = 3 }]\n",
            2,
            "order of time",
        ),
        ("[[vc]]\nname = \"a\"\nnodes = 1\nsizes = [{ at = \"noon\", nodes = 1 }]\n", 4, "`noon` is no moment"),
        ("[[vc]]\nname = \"a\"\nnodes = 1\n[[outage]]\nof = \"b\"\nnode = 0\nat_s = 1\nfor_s = 1\n", 5, "`b`"),
        ("[[vc]]\nname = \"a\"\nnodes = 1\n[[outage]]\nof = \"a\"\nnode = 1\nat_s = 1\nfor_s = 1\n", 5, "nodes 0 to 0"),
    ] {
        let error = Site::parse("c.toml", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("c.toml, line {line}: ")) && error.contains(words), "{text}\n{error}");
    }
}

#[test]
fn columns_meet_jobs_by_their_identifier() {
    let trace = trace(&[
        job("row-7", 1.0, NOON, NOON, NOON + 1),
        job("x", 1.0, NOON, NOON, NOON + 1),
        job("y", 1.0, NOON, NOON, NOON + 1),
    ]);
    let result = loaded(&trace, &Options::default());
    let parse = |text: &str| Column::parse("est.csv", "predicted_duration_s", false, text.as_bytes());
    // Any order, further columns, blanks; a job without an identifier of its own is known by its row.
    let column = parse("vc,job_id,predicted_duration_s\nva, y ,3.5\nva,7,1e2\nva,z,1\n").unwrap();
    let (values, matched) = column.of(&result).unwrap();
    assert_eq!(values, [Some(100.0), None, Some(3.5)]);
    assert_eq!(matched, Matched { jobs: 2, without: 1, unknown: 1 });
    let none = parse("job_id,predicted_duration_s\nz,1\n").unwrap().of(&result).unwrap_err().to_string();
    assert!(none.contains("the file has `z`, the trace `row-7`"), "{none}");
    for (text, line, words) in [
        ("job_id,duration\n", 1, "predicted_duration_s"),
        ("id,predicted_duration_s\n", 1, "`job_id`"),
        ("job_id,predicted_duration_s\nx,soon\n", 2, "`soon`"),
        ("job_id,predicted_duration_s\nx,-1\n", 2, "0 or more"),
        ("job_id,predicted_duration_s\nx,nan\n", 2, "`nan`"),
        ("job_id,predicted_duration_s\nx,1\nx,2\n", 3, "line 2"),
        ("job_id,predicted_duration_s\nx\n", 2, "1 cells"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("est.csv, line {line}: ")) && error.contains(words), "{text}\n{error}");
    }
    assert!(Column::parse("s.csv", "score", true, "job_id,score\nx,-1\n".as_bytes()).is_ok());
}

/// Where the first nodes of a site lie, by level.
fn lies(text: &str) -> Vec<Option<[u32; 2]>> {
    let site = Site::parse("cluster.toml", text).unwrap();
    let cluster = site.build(&site.names(&[]), 0, 0).unwrap();
    let topology = cluster.topology.unwrap();
    assert_eq!(topology.levels(), ["block", "rack"]);
    let of = |node: u32| Some([topology.domain(node, 0)?, topology.domain(node, 1)?]);
    (0..cluster.pools.iter().flat_map(|pool| &pool.groups).map(Group::most_nodes).sum()).map(of).collect()
}

#[test]
fn nodes_lie_in_racks_as_the_file_says() {
    // Racks of 2 nodes and blocks of 2 racks are filled in the order of the file, whoever has the nodes: pools first.
    let sized = "[topology]\nlevels = [\"block\", \"rack\"]\nsizes = [2, 2]\n[[vc]]\nname = \"a\"\nnodes = 3\n[[vc]]\nname = \"b\"\nnodes = 2\n";
    assert_eq!(lies(sized), [[0, 0], [0, 0], [0, 1], [0, 1], [1, 2]].map(Some));
    // Entry by entry: racks of one name in two blocks are two racks, and nodes of an entry that says nothing lie in none.
    let entry = |block: &str| {
        format!("[[pool]]\nname = \"p\"\nnodes = 1\ntopology = {{ block = \"{block}\", rack = \"r1\" }}\n")
    };
    let levels = "[topology]\nlevels = [\"block\", \"rack\"]\n";
    let rest = "[[pool]]\nname = \"p\"\nnodes = 1\n[[vc]]\nname = \"a\"\npool = \"p\"\n";
    let said = format!("{levels}{}{}{}{rest}", entry("b1"), entry("b2"), entry("b1"));
    let result = lies(&said);
    assert_eq!((result[0], result[3]), (result[2], None));
    assert!(result[0].unwrap()[0] != result[1].unwrap()[0] && result[0].unwrap()[1] != result[1].unwrap()[1]);
}

#[test]
fn a_topology_that_cannot_be_says_what_is_wrong() {
    let told = |text: &str| Site::parse("c.toml", text).unwrap_err().to_string();
    let vc = "[[vc]]\nname = \"a\"\nnodes = 3\n";
    for (topology, rest, what) in [
        ("levels = [\"rack\"]", "", "c.toml, line 2: [topology] needs `sizes`"),
        ("levels = [\"rack\"]\nsizes = [0]", "", "one size above 0"),
        ("levels = [\"rack\"]\nsizes = [2, 3]", "", "one size above 0"),
        ("levels = [\"node\"]\nsizes = [2]", "", "is called `node`"),
        (
            "levels = [\"rack\"]\nsizes = [2]",
            "topology = { rack = \"r1\" }\n",
            "c.toml, line 5: where nodes lie is said by",
        ),
        ("levels = [\"rack\"]", "topology = { rak = \"r1\" }\n", "`rak` is no level of [topology]; there are rack"),
        ("levels = [\"block\", \"rack\"]", "topology = { rack = \"r1\" }\n", "does not say which block"),
    ] {
        let message = told(&format!("[topology]\n{topology}\n{vc}{rest}"));
        assert!(message.contains(what), "{topology}: {message}");
    }
    assert!(
        told(&format!("{vc}topology = {{ rack = \"r1\" }}\n"))
            .contains("line 2: a `topology` of nodes needs the levels")
    );
    assert!(
        told("[[pool]]\nname = \"p\"\nnodes = 1\n[[vc]]\nname = \"a\"\npool = \"p\"\ntopology = { rack = \"r1\" }\n")
            .contains("described with the pool")
    );
}
