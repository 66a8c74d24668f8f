use tracecast_analytics::schema::{CapacityRow, JobRow, NodeRow};

use super::*;
use crate::input::{Loaded, Options, Site, load};

const GIB: i64 = 1 << 30;

/// (GPUs, processors, GiB) of jobs that run one after another, and of nodes.
fn trace(jobs: &[(f64, Option<f64>, Option<i64>)], nodes: &[(f64, f64, i64)]) -> Trace {
    let mut trace = Trace::default();
    for (at, (gpus, cpus, gib)) in (0..).zip(jobs) {
        trace.jobs.push(JobRow {
            job_key: Some(format!("j{at}").into()),
            submit: Some(at * 1000),
            start: Some(at * 1000),
            end: Some(at * 1000 + 500),
            run_s: Some(0.5),
            state: Some("completed".into()),
            req_gpus: Some(*gpus),
            req_cpus: *cpus,
            req_mem_bytes: gib.map(|gib| gib * GIB),
            ..JobRow::default()
        });
    }
    for (at, (gpus, cpus, gib)) in nodes.iter().enumerate() {
        trace.nodes.push(NodeRow {
            node: Some(format!("n{at}").into()),
            gpus: Some(*gpus),
            cpus: Some(*cpus),
            mem_bytes: Some(gib * GIB),
            ..NodeRow::default()
        });
    }
    trace
}

fn loaded(trace: &Trace, site: Option<&str>, hosts: Hosts) -> Loaded {
    let site = site.map(|text| Site::parse("cluster.toml", text).unwrap());
    load(trace, site.as_ref(), &Options { hosts, ..Options::default() }).unwrap()
}

#[test]
fn amounts_are_of_each_gpu_and_rounded_down() {
    let jobs = [(8.0, Some(90.0), Some(500)), (3.0, Some(10.0), None), (0.3, Some(2.5), Some(7))];
    let trace = trace(&jobs, &[(8.0, 96.0, 512), (8.0, 64.0, 512)]);
    let result = loaded(&trace, None, Hosts::Usual);
    let of = |job: usize| result.workload.shape_of(job).host;
    assert_eq!(of(0), HostNeed { cores_milli: 11_250, memory_mib: 64_000 });
    assert_eq!(of(1), HostNeed { cores_milli: 3_333, memory_mib: 0 });
    assert_eq!(of(2), HostNeed { cores_milli: 2_500, memory_mib: 7 * 1024 });
    let hosts: Vec<Option<u32>> = result.cluster.pools[0].groups.iter().map(|of| of.host.cores_milli).collect();
    assert_eq!(hosts, [Some(64_000), Some(96_000)]);
    let notes = result.notes.join("\n");
    assert!(notes.contains("Processors and memory of nodes count"), "{notes}");
    assert!(notes.contains("1 job does not say how much memory"), "{notes}");
    // GPUs alone, as everywhere else.
    let alone = loaded(&trace, None, Hosts::Ignored);
    assert!(!alone.workload.asks_hosts() && !alone.cluster.has_hosts());
    assert_eq!(alone.cluster.pools[0].groups.len(), 1);
}

/// Slurm's record of a job with `--gres=gpu:3 --cpus-per-gpu=3 --mem-per-cpu=1000` on cores of two threads.
#[test]
fn what_was_given_counts_before_what_was_asked_for() {
    let mut trace = trace(&[(3.0, Some(1.0), None)], &[(8.0, 16.0, 512)]);
    trace.jobs.push(JobRow {
        job_key: Some("given".into()),
        submit: Some(9_000),
        start: Some(9_000),
        end: Some(9_500),
        run_s: Some(0.5),
        state: Some("completed".into()),
        req_gpus: Some(3.0),
        req_cpus: Some(1.0),
        alloc_cpus: Some(10.0),
        req_mem_bytes: Some(1_000 << 20),
        alloc_mem_bytes: Some(10_000 << 20),
        ..JobRow::default()
    });
    let result = loaded(&trace, None, Hosts::Usual);
    assert_eq!(result.workload.shape_of(1).host, HostNeed { cores_milli: 3_333, memory_mib: 3_333 });
}

#[test]
fn what_ran_and_fits_nowhere_takes_gpus_alone() {
    let jobs = [(1.0, Some(8.0), Some(4000)), (1.0, Some(80.0), Some(4))];
    let trace = trace(&jobs, &[(8.0, 96.0, 512)]);
    let result = loaded(&trace, None, Hosts::Usual);
    assert!(result.workload.shape_of(0).host.is_none() && !result.workload.shape_of(1).host.is_none());
    assert!(
        result.notes.join("\n").contains("**1 job ran although no node that they may use has"),
        "{:?}",
        result.notes
    );
    // On smaller nodes of a file what fitted the trace's own is not let off.
    let small = "[[vc]]\nname = \"*\"\nnodes = 1\ncpus_per_node = 64\nmemory_gib_per_node = 100\n";
    let result = loaded(&trace, Some(small), Hosts::Usual);
    assert_eq!(result.workload.shape_of(1).host.cores_milli, 80_000);
    assert_eq!(result.cluster.pools[0].groups[0].host.memory_mib, Some(102_400));
}

#[test]
fn what_never_decides_is_left_out() {
    let trace = trace(&[(1.0, Some(12.0), Some(64)), (0.5, Some(6.0), Some(32))], &[(8.0, 96.0, 512)]);
    assert!(!loaded(&trace, None, Hosts::Usual).workload.asks_hosts());
    let told = loaded(&trace, None, Hosts::AsRecorded);
    assert!(told.notes.join("\n").contains("GPUs alone decide"), "{:?}", told.notes);
    assert_eq!("none".parse::<Hosts>().unwrap(), Hosts::Ignored);
    assert!("both".parse::<Hosts>().is_err());
}

#[test]
fn nodes_are_those_of_gpus_alone_where_nothing_is_decided() {
    let jobs = [(4.0, Some(4.0), Some(4)), (4.0, Some(4.0), Some(4))];
    let mut trace = trace(&jobs, &[(8.0, 128.0, 512), (8.0, 96.0, 512), (8.0, 96.0, 512)]);
    trace.capacity.push(CapacityRow {
        scope: Some("node".into()),
        name: Some("n0".into()),
        state: Some("down".into()),
        from: Some(100),
        to: Some(200),
        ..CapacityRow::default()
    });
    let site = "[[pool]]\nname = \"p\"\nnodes = 2\ncpus_per_node = 64\n[[vc]]\nname = \"*\"\npool = \"p\"\n";
    for site in [None, Some(site)] {
        let [usual, told, alone] =
            [Hosts::Usual, Hosts::AsRecorded, Hosts::Ignored].map(|hosts| loaded(&trace, site, hosts));
        assert_eq!((&usual.cluster, &usual.recorded_cluster), (&alone.cluster, &alone.recorded_cluster));
        assert_eq!((&told.cluster, &told.recorded_cluster), (&alone.cluster, &alone.recorded_cluster));
        assert_eq!(usual.notes, alone.notes);
        let own = usual.nodes_of_record();
        assert_eq!((own.pools[0].groups.len(), own.outages[0].node), (1, 0));
    }
}

/// Nodes of 8 GPUs with 96 cores and so many MiB.
fn of_memory(mib: &[i64]) -> Trace {
    let mut trace = Trace::default();
    for (at, mib) in mib.iter().enumerate() {
        trace.nodes.push(NodeRow {
            node: Some(format!("n{at}").into()),
            gpus: Some(8.0),
            cpus: Some(96.0),
            mem_bytes: Some(mib << 20),
            ..NodeRow::default()
        });
    }
    trace
}

#[test]
fn nodes_that_are_alike_are_one_kind_with_the_least() {
    let of =
        |mib: &[i64]| -> Vec<u32> { rooms(&of_memory(mib)).into_iter().map(|room| room.memory_mib.unwrap()).collect() };
    assert_eq!(of(&[970_000, 985_000, 1_000_000, 990_000]), [970_000, 985_000, 985_000, 985_000]);
    assert_eq!(of(&[980_000, 1_000_000]), [980_000, 980_000]);
    assert_eq!(of(&[979_999, 1_000_000]), [979_999, 1_000_000]);
    assert_eq!(alike(&of_memory(&[980_000, 1_000_000]), None).memory_mib, Some(980_000));
    assert!(alike(&of_memory(&[970_000, 1_000_000]), None).is_unbounded());
    // Whole cores tell nodes apart, as do GPUs; what is unknown is like what is unknown.
    let mut trace = of_memory(&[1_000_000; 5]);
    for (row, cpus) in [Some(95.5), Some(95.9), Some(96.0), Some(95.5), None].into_iter().enumerate() {
        trace.nodes.cpus.set(row, cpus);
    }
    trace.nodes.gpus.set(3, Some(4.0));
    let cores: Vec<Option<u32>> = rooms(&trace).into_iter().map(|room| room.cores_milli).collect();
    assert_eq!(cores, [Some(95_500), Some(95_500), Some(96_000), Some(95_500), None]);
}

#[test]
fn the_outage_of_a_node_is_that_of_one_of_its_kind() {
    let nodes = [(8.0, 96.0, 512), (8.0, 64.0, 512), (8.0, 96.0, 511)];
    let mut trace = trace(&[(1.0, Some(80.0), Some(4))], &nodes);
    trace.capacity.push(CapacityRow {
        scope: Some("node".into()),
        name: Some("n2".into()),
        state: Some("down".into()),
        from: Some(100),
        to: Some(200),
        ..CapacityRow::default()
    });
    let cluster = loaded(&trace, None, Hosts::Usual).cluster;
    let groups: Vec<(u32, Option<u32>)> =
        cluster.pools[0].groups.iter().map(|group| (group.most_nodes(), group.host.memory_mib)).collect();
    assert_eq!(groups, [(1, Some(512 * 1024)), (2, Some(511 * 1024))]);
    assert_eq!(cluster.outages[0].node, 2);
    // What had all of the greater node is not told to be wrong.
    trace.jobs.req_mem_bytes.set(0, Some(512 * GIB));
    let result = loaded(&trace, None, Hosts::Usual);
    assert_eq!(result.workload.shape_of(0).host.memory_mib, 513_802);
    assert!(!result.notes.join("\n").contains("although"), "{:?}", result.notes);
}

#[test]
fn more_nodes_than_the_replay_gives_are_no_mistake_of_the_record() {
    let jobs = [(8.0, Some(128.0), Some(64)), (4.0, Some(64.0), Some(64))];
    let mut trace = trace(&jobs, &[(8.0, 96.0, 512); 3]);
    trace.jobs.alloc_nodes.set(0, Some(2));
    trace.jobs.alloc_nodes.set(1, Some(1));
    let result = loaded(&trace, None, Hosts::Usual);
    let notes = result.notes.join("\n");
    assert!(result.workload.shape_of(0).host.is_none() && !result.workload.shape_of(1).host.is_none());
    assert!(
        notes.contains("1 job had more nodes than the replay gives them") && !notes.contains("although"),
        "{notes}"
    );
    let options = Options { hosts: Hosts::Usual, gangs_as_recorded: true, ..Options::default() };
    let result = load(&trace, None, &options).unwrap();
    assert_eq!(result.workload.shape_of(0).host.cores_milli, 16_000);
    assert!(!result.notes.join("\n").contains("more nodes than"), "{:?}", result.notes);
}

#[test]
fn what_ran_is_held_against_the_nodes_it_may_use() {
    let jobs = [(8.0, Some(96.0), Some(64)), (8.0, Some(96.0), Some(64)), (4.0, Some(20.0), Some(64))];
    // By VC, or by the type of GPU that a job must have.
    let of_parts = |types: bool, jobs: &[(f64, Option<f64>, Option<i64>)], nodes: &[(f64, f64, i64)]| {
        let mut trace = trace(jobs, nodes);
        let Trace { jobs: table, nodes: list, .. } = &mut trace;
        let (of_jobs, of_nodes) =
            if types { (&mut table.gpu_type, &mut list.gpu_type) } else { (&mut table.vc, &mut list.vc) };
        (0..jobs.len()).for_each(|row| of_jobs.set(row, Some(if row == 0 { "v" } else { "w" })));
        (0..nodes.len()).for_each(|row| of_nodes.set(row, Some(if row == 0 { "v" } else { "w" })));
        trace
    };
    for types in [false, true] {
        let result = loaded(&of_parts(types, &jobs, &[(8.0, 96.0, 512), (8.0, 64.0, 512)]), None, Hosts::Usual);
        let asks: Vec<bool> = (0..3).map(|job| !result.workload.shape_of(job).host.is_none()).collect();
        assert_eq!(asks, [true, false, true], "{types}");
        assert!(result.notes.join("\n").contains("**1 job ran although no node that"), "{:?}", result.notes);
    }
    // The pieces are those of the VC's own nodes: 8 GPUs on two nodes of 4, with 64 cores each.
    let jobs = [(8.0, Some(64.0), Some(64)), (8.0, Some(128.0), Some(64)), (1.0, Some(64.0), None)];
    let trace = of_parts(false, &jobs, &[(8.0, 64.0, 512), (4.0, 64.0, 512), (4.0, 64.0, 512)]);
    let result = loaded(&trace, None, Hosts::Usual);
    assert_eq!(result.workload.shape_of(1).host.cores_milli, 16_000);
    assert!(!result.notes.join("\n").contains("although"), "{:?}", result.notes);
}

#[test]
fn many_amounts_become_few() {
    let jobs: Vec<_> = (0..3000).map(|at| (1.0, Some(4.0 + f64::from(at) / 1000.0), Some(40))).collect();
    let result = loaded(&trace(&jobs, &[(8.0, 32.0, 512)]), None, Hosts::Usual);
    assert!(result.workload.shapes.len() <= MOST_SHAPES);
    for (job, (_, cpus, _)) in jobs.iter().enumerate() {
        let (exact, result) = (cpus.unwrap() * 1000.0, f64::from(result.workload.shape_of(job).host.cores_milli));
        assert!(result < exact + 0.01 && result > exact * (1.0 - 1.0 / 256.0), "{exact} {result}");
    }
    assert!(result.notes.join("\n").contains("3,000 different combinations"), "{:?}", result.notes);
    assert_eq!([coarse(1000, 3), coarse(7, 3), coarse(0, 3), coarse(u32::MAX, 1)], [896, 7, 0, 1 << 31]);
}
