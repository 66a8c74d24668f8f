//! `sacct` text: every value below was worked out by hand from the fixture's lines.

use proptest::prelude::*;
use tracecast_analytics::Error;
use tracecast_analytics::describe::Description;
use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::time::{Zone, format_utc};
use tracecast_tests::{check, conform, fixture, read, render};

/// Traps by line of the fixture: 2 (6) a name with bars and multibyte text, (4) generic and typed GPUs, not added,
/// (11) padding kept; 3 and 4 (7) steps, of which one says 300 % over 4 GPUs = 0.75, the other nothing; 5 (1)
/// `CANCELLED by 1001`, (3) `Unknown`, (4) two types without the generic entry: 2 + 1, (5) 3000Mc × 8 cores =
/// 25,165,824,000 bytes, (10) `UNLIMITED`; 6 (1) `CANCELLED+` with start = end: it never started, (5) 48000Mn × 1 node,
/// (10) `Partition_Limit`; 7 (4) only gpumem and gpuutil: 0 GPUs, (5) `0n`, a negative energy; 8 and 9 (8) requeued:
/// one job, run 30 + 60 s; 10 (7) five waiting tasks; 11 (25) still running; 12 a list of tasks cut short; 13 (7) het,
/// (11) two brackets, 4 GPUs on 3 nodes cannot be shared out; 14 (8) an identifier used again half a year later, key
/// `103@1725148800`; 15 a relative time, an end before the start, a state nobody knows; 16 too few fields; 17 line 13
/// again.
#[test]
fn a_file_with_a_header() {
    let trace = conform("sacct", &["sacct/header.txt"]);
    assert!(trace.counts_gpus);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (15 rows)
      cluster=fir job_key=100 user=ana account=vision vc=gpu qos=normal name=train|größe|v2 gpu_type=a100 state=completed reported_state=COMPLETED submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:05:00 end=2024-03-04 11:05:00 censored=0 attempts=1 req_nodes=2 req_cpus=16 req_mem_bytes=68719476736 req_gpus=8 alloc_nodes=2 alloc_cpus=16 alloc_gpus=8 alloc_mem_bytes=68719476736 nodes_hostlist=d09n04s[01-02] time_limit_s=86400 run_s=3600 reported_run_s=3600 reported_energy_j=3600000 reported_gpu_util_ratio=0.75 exit_code=0
      cluster=fir job_key=101 user=ben account=vision vc=gpu qos=normal name=two types gpu_type=a100+v100 state=cancelled reported_state=CANCELLED by 1001 submit=2024-03-04 10:01:00 eligible=2024-03-04 10:01:00 end=2024-03-04 10:09:00 censored=0 attempts=0 req_nodes=1 req_cpus=8 req_mem_bytes=25165824000 req_gpus=3 exit_code=0
      cluster=fir job_key=102 user=ben account=vision vc=gpu qos=normal name=gone before it began state=cancelled reported_state=CANCELLED+ submit=2024-03-04 10:02:00 eligible=2024-03-04 10:02:00 end=2024-03-04 10:08:00 censored=0 attempts=0 req_nodes=1 req_cpus=4 req_mem_bytes=50331648000 req_gpus=1 exit_code=0
      cluster=fir job_key=103 user=cem account=bio vc=cpu qos=normal name=cpu only state=failed reported_state=FAILED submit=2024-03-04 10:03:00 eligible=2024-03-04 10:03:00 start=2024-03-04 10:03:30 end=2024-03-04 10:04:00 censored=0 attempts=1 req_nodes=1 req_cpus=4 req_mem_bytes=8589934592 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 alloc_mem_bytes=8589934592 nodes_hostlist=d13n03 time_limit_s=3600 run_s=30 reported_run_s=30 exit_code=2
      cluster=fir job_key=104 user=ana account=vision vc=gpu qos=normal name=again state=completed reported_state=COMPLETED submit=2024-03-04 10:04:00 eligible=2024-03-04 10:04:00 start=2024-03-04 10:10:00 end=2024-03-04 10:21:00 censored=0 attempts=2 req_nodes=1 req_cpus=2 req_gpus=2 alloc_nodes=1 alloc_cpus=2 alloc_gpus=2 nodes_hostlist=d13n07 time_limit_s=7200 run_s=90 reported_run_s=90 exit_code=0
      cluster=fir job_key=105_0 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=running reported_state=RUNNING submit=2024-03-04 10:05:00 eligible=2024-03-04 10:05:00 start=2024-03-04 10:30:00 censored=1 attempts=1 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 alloc_mem_bytes=4194304000 nodes_hostlist=d13n[08] time_limit_s=600 reported_run_s=120 exit_code=0
      cluster=fir job_key=105_1 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=pending reported_state=PENDING submit=2024-03-04 10:05:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=105_2 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=pending reported_state=PENDING submit=2024-03-04 10:05:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=105_3 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=pending reported_state=PENDING submit=2024-03-04 10:05:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=105_4 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=pending reported_state=PENDING submit=2024-03-04 10:05:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=105_5 parent_job=105 user=ana account=vision vc=gpu qos=normal name=sweep gpu_type=a100_3g.20gb state=pending reported_state=PENDING submit=2024-03-04 10:05:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=106_[1,3,...] parent_job=106 user=ana account=vision vc=gpu qos=normal name=long sweep state=pending reported_state=PENDING submit=2024-03-04 10:06:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_mem_bytes=4194304000 req_gpus=1 time_limit_s=600 exit_code=0
      cluster=fir job_key=107+1 parent_job=107 user=ben account=vision vc=gpu qos=high name=het state=out_of_memory reported_state=OUT_OF_MEMORY submit=2024-03-04 10:07:00 eligible=2024-03-04 10:07:00 start=2024-03-04 10:40:00 end=2024-03-04 10:41:40 censored=0 attempts=1 req_nodes=3 req_cpus=3 req_mem_bytes=314572800 req_gpus=4 alloc_nodes=3 alloc_cpus=3 alloc_gpus=4 nodes_hostlist=r[1-2]n08,r3n01 time_limit_s=600 run_s=100 reported_run_s=100 exit_code=0
      cluster=fir job_key=103@1725148800 user=dee account=vision vc=gpu qos=normal name=numbers begin again state=completed reported_state=COMPLETED submit=2024-09-01 00:00:00 eligible=2024-09-01 00:00:00 start=2024-09-01 00:00:10 end=2024-09-01 00:00:12 censored=0 attempts=1 req_nodes=1 req_cpus=1 req_mem_bytes=1073741824 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 alloc_mem_bytes=1073741824 nodes_hostlist=d13n03 time_limit_s=600 run_s=2 reported_run_s=2 exit_code=0
      cluster=fir job_key=108 user=dee account=vision vc=gpu qos=normal name=clocks state=unknown reported_state=BANANA start=2024-03-04 12:00:00 attempts=1 req_nodes=1 req_cpus=1 req_mem_bytes=1073741824 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 alloc_mem_bytes=1073741824 nodes_hostlist=d13n03 reported_run_s=2 exit_code=0
    attempts (2 rows)
      job_key=104 attempt=1 start=2024-03-04 10:10:00 end=2024-03-04 10:10:30 censored=0 end_reason=cancelled nodes_hostlist=d13n05 alloc_gpus=2 alloc_cpus=2
      job_key=104 attempt=2 start=2024-03-04 10:20:00 end=2024-03-04 10:21:00 censored=0 end_reason=completed nodes_hostlist=d13n07 alloc_gpus=2 alloc_cpus=2
    placements (11 rows)
      job_key=100 attempt=1 node=d09n04s01 gpus=4
      job_key=100 attempt=1 node=d09n04s02 gpus=4
      job_key=103 attempt=1 node=d13n03 gpus=0
      job_key=103@1725148800 attempt=1 node=d13n03 gpus=1
      job_key=104 attempt=1 node=d13n05 gpus=2
      job_key=104 attempt=2 node=d13n07 gpus=2
      job_key=105_0 attempt=1 node=d13n08 gpus=1
      job_key=107+1 attempt=1 node=r1n08
      job_key=107+1 attempt=1 node=r2n08
      job_key=107+1 attempt=1 node=r3n01
      job_key=108 attempt=1 node=d13n03 gpus=1
    quality: read 16 = kept 11 + repaired 3 + quarantined 2
      Quarantined duplicate_row × 1 (lines 17)
      Quarantined field_count × 1 (lines 16)
      Repaired cut_task_list × 1 (lines 12)
      Repaired end_before_start × 1 (lines 15)
      Repaired energy_glitch × 1 (lines 7)
      Repaired relative_time × 1 (lines 15)
      Repaired unknown_state × 1 (lines 15)
    ");
}

/// Open XDMoD's order; (6) a bar in the name; the second line has epoch seconds and resources by number, of which 1001
/// is the site's own: its GPUs are unknown, not 0.
#[test]
fn no_header_in_open_xdmods_order() {
    let trace = conform("sacct", &["sacct/xdmod.txt"]);
    insta::assert_snapshot!(render(&trace), @r"
    jobs (2 rows)
      cluster=elm job_key=7 user=ana account=lab vc=gpu qos=normal name=a|b state=completed reported_state=COMPLETED submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:00:05 end=2024-03-04 10:01:05 censored=0 attempts=1 req_nodes=1 req_cpus=4 req_mem_bytes=8589934592 req_gpus=2 alloc_nodes=1 alloc_cpus=4 alloc_gpus=2 alloc_mem_bytes=8589934592 nodes_hostlist=e1 time_limit_s=600 run_s=60 reported_run_s=60 exit_code=0
      cluster=elm job_key=8 user=ana account=lab vc=gpu qos=normal name=numbers state=completed reported_state=COMPLETED submit=2024-03-04 10:01:00 eligible=2024-03-04 10:01:00 start=2024-03-04 10:01:05 end=2024-03-04 10:02:05 censored=0 attempts=1 req_nodes=1 req_cpus=4 req_mem_bytes=8589934592 alloc_nodes=1 alloc_cpus=4 alloc_mem_bytes=8589934592 nodes_hostlist=e1 time_limit_s=600 run_s=60 reported_run_s=60 exit_code=0
    placements (2 rows)
      job_key=7 attempt=1 node=e1 gpus=2
      job_key=8 attempt=1 node=e1
    quality: read 2 = kept 2 + repaired 0 + quarantined 0
    ");
}

/// (9) 01:30 happened twice on 2024-11-03: the first is UTC-7. 02:30 never happened on 2024-03-10: it is read as
/// UTC-8. Offsets in the text win. (26) Job 2 ran no time. (28) CRLF, and the bar that `-p` adds.
#[test]
fn local_times_of_a_zone_with_summer_time() {
    conform("sacct", &["sacct/dst.txt"]);
    let options = ReadOptions { zone: Some(Zone::named("America/Los_Angeles").unwrap()), ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(fixture("sacct/dst.txt"))], &options).unwrap();
    assert!(!trace.counts_gpus, "no column names GPUs");
    insta::assert_snapshot!(render(&trace), @r"
    jobs (3 rows)
      job_key=2 state=completed reported_state=COMPLETED submit=2024-03-10 10:30:00 start=2024-03-10 11:00:00 end=2024-03-10 11:00:00 censored=0 attempts=1 run_s=0
      job_key=1 state=timeout reported_state=TIMEOUT submit=2024-11-03 08:30:00 start=2024-11-03 11:00:00 end=2024-11-03 11:00:10 censored=0 attempts=1 run_s=10
      job_key=3 state=node_fail reported_state=NODE_FAIL submit=2024-11-03 08:30:00 start=2024-11-03 11:00:00 censored=0 attempts=1
    quality: read 3 = kept 1 + repaired 2 + quarantined 0
      Repaired dst_fold × 1 (lines 2)
      Repaired dst_gap × 1 (lines 3)
    ");
}

fn text(bytes: &[u8]) -> tracecast_analytics::Result<tracecast_analytics::Trace> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sacct.txt");
    std::fs::write(&path, bytes).unwrap();
    ingest::read(&[SourceFile::new(path)], &ReadOptions { reader: Some("sacct".to_owned()), ..ReadOptions::default() })
}

/// Jobs on shards are jobs on parts of a GPU, where it is known how many a GPU holds; else their GPUs are unknown and not 0. A GPU holds 4 here: 1 shard is 0.25 GPUs, 6 of one type are 1.5 on
/// two nodes, which cannot be shared out. Job 4 asked for a shard, and its list of what was given names none; job 5 has whole GPUs, job 6 none.
#[test]
fn shards_are_parts_of_gpus() {
    let header = "JobID|State|Submit|Start|End|NNodes|NCPUS|NodeList|ReqTRES|AllocTRES\n";
    let times = "COMPLETED|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00";
    let rows = [
        "1|1|n1|cpu=1,gres/shard=1|cpu=1,gres/shard=1,node=1",
        "2|4|n[1-2]|cpu=4,gres/shard:a100=6|cpu=4,gres/shard=6,gres/shard:a100=6,node=2",
        "1|1|n1|cpu=1,gres/shard=2|cpu=1,gres/gpu=0,gres/shard=2,node=1",
        "1|1|n1|cpu=1,gres/shard=1|cpu=1,node=1",
        "1|8|n2|cpu=8,gres/gpu=2|cpu=8,gres/gpu=2,node=1",
        "1|8|n2|cpu=8|cpu=8,node=1",
    ];
    let rows: String = (1..).zip(rows).map(|(id, row)| format!("{id}|{times}|{row}\n")).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shards.txt");
    std::fs::write(&path, header.to_owned() + &rows).unwrap();
    let read = |shards_per_gpu: Option<u32>| {
        let options = ReadOptions { shards_per_gpu, ..ReadOptions::default() };
        ingest::read(&[SourceFile::new(&path)], &options).unwrap()
    };
    let told = read(Some(4));
    let given = |trace: &tracecast_analytics::Trace| trace.jobs.alloc_gpus.iter().collect::<Vec<Option<f64>>>();
    let asked = |trace: &tracecast_analytics::Trace| trace.jobs.req_gpus.iter().collect::<Vec<Option<f64>>>();
    assert_eq!(given(&told), [Some(0.25), Some(1.5), Some(0.5), None, Some(2.0), Some(0.0)]);
    assert_eq!(asked(&told), [Some(0.25), Some(1.5), Some(0.5), Some(0.25), Some(2.0), Some(0.0)]);
    assert_eq!(told.jobs.gpu_type.get(1), Some("a100"));
    let placed: Vec<Option<f64>> = told.placements.gpus.iter().collect();
    assert_eq!(placed, [Some(0.25), None, None, Some(0.5), None, Some(2.0), Some(0.0)]);
    assert_eq!(JobFacts::new(&told).gpus(3), Some(0.25));
    let note = |trace: &tracecast_analytics::Trace, words: &str| trace.notes.iter().any(|note| note.contains(words));
    assert!(
        note(&told, "4 records name shards of GPUs (gres/shard); they are taken for parts of a GPU that holds 4"),
        "{:?}",
        told.notes
    );
    let unknown = read(None);
    assert_eq!(given(&unknown), [None, None, None, None, Some(2.0), Some(0.0)]);
    assert_eq!(asked(&unknown), [None, None, None, None, Some(2.0), Some(0.0)]);
    assert!(
        note(&unknown, "4 records name shards") && note(&unknown, "unknown, not 0. Say it with --shards-per-gpu"),
        "{:?}",
        unknown.notes
    );
    assert_eq!(told.ledger.repaired, 0);
}

/// Regression test: typed shards beside typed GPUs made GPUs of the type `a100+a100`. Covers
/// requests and allocations, with the generic entries and without.
#[test]
fn a_type_that_gpus_and_shards_share_is_told_once() {
    let header = "JobID|State|Submit|Start|End|NNodes|NCPUS|NodeList|ReqTRES|AllocTRES\n";
    let times = "COMPLETED|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00";
    let rows = [
        "1|4|n1|cpu=4,gres/gpu:a100=2,gres/shard:a100=3|cpu=4,gres/gpu:a100=2,gres/shard:a100=3,node=1",
        "1|4|n1|cpu=4,gres/gpu=2,gres/shard=3|cpu=4,gres/gpu=2,gres/gpu:a100=2,gres/shard=3,gres/shard:a100=3,node=1",
        "1|4|n1|cpu=4,gres/gpu:a100=1,gres/shard:t4=1|cpu=4,gres/gpu:a100=1,gres/shard:t4=1,node=1",
    ];
    let rows: String = (1..).zip(rows).map(|(id, row)| format!("{id}|{times}|{row}\n")).collect();
    let trace = text((header.to_owned() + &rows).as_bytes()).unwrap();
    let kinds: Vec<Option<&str>> = (0..3).map(|row| trace.jobs.gpu_type.get(row)).collect();
    assert_eq!(kinds, [Some("a100"), Some("a100"), Some("a100+t4")]);
    // Whole GPUs, of which the shards are part.
    let gpus = [&trace.jobs.req_gpus, &trace.jobs.alloc_gpus].map(|of| of.iter().collect::<Vec<Option<f64>>>());
    assert_eq!(gpus, [vec![Some(2.0), Some(2.0), Some(1.0)], vec![Some(2.0), Some(2.0), Some(1.0)]]);
}

/// Regression test: cut and unreadable lists of resources gave 0 GPUs. The part after the cut is
/// unknown, so the request is used.
#[test]
fn gpus_of_cut_lists_are_those_asked_for() {
    let header = "JobID|State|Submit|Start|End|NNodes|NCPUS|ReqTRES|AllocTRES\n";
    let times = "COMPLETED|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00|1|8";
    let lists = [
        "billing=8,cpu=8,gre+",
        "billing=8,cpu=8,gres/g",
        "billing=8,cpu=8,gres/gpu=",
        "cpu=8,gres/gpu=four",
        "cpu=8,gres/gpu:a100=-1",
        "cpu=8,gres/gpu=2,me+",
    ];
    let rows: String = (1..).zip(lists).map(|(id, list)| format!("{id}|{times}|cpu=8,gres/gpu=4|{list}\n")).collect();
    let of_cpus = format!("7|{times}|cpu=8|cpu=8\n8|{times}|cpu=8,gr+|cpu=8,gr+\n");
    let trace = text(format!("{header}{rows}{of_cpus}").as_bytes()).unwrap();
    let given: Vec<Option<f64>> = trace.jobs.alloc_gpus.iter().collect();
    assert_eq!(given, [None, None, None, None, None, Some(2.0), Some(0.0), None]);
    let facts = JobFacts::new(&trace);
    let gpus: Vec<Option<f64>> = (0..8).map(|job| facts.gpus.get(job).copied().flatten()).collect();
    assert_eq!(gpus, [Some(4.0), Some(4.0), Some(4.0), Some(4.0), Some(4.0), Some(2.0), Some(0.0), None]);
    let warnings = trace.warnings().join("\n");
    assert!(warnings.contains("In 5 of 8 rows AllocTRES is cut") && warnings.contains("sacct -P"), "{warnings}");
    assert!(warnings.contains("In 1 of 8 rows ReqTRES is cut"), "{warnings}");
    assert_eq!(trace.ledger.count("bad_tres"), 2);
}

/// Rows as Slurm 22.05 printed them, on cores of two threads: `--cpus-per-gpu=3` with
/// `--mem-per-cpu=1000`, with `--mem-per-gpu=1000` and with `--mem=7000`; `-c5` with
/// `--mem-per-cpu=1000`; `-n7 --gpus=5` on two nodes; and `--mem=0`. Requests do not record
/// processors by the GPU.
#[test]
fn processors_and_memory_are_those_given() {
    const MIB: i64 = 1 << 20;
    let header = "JobID|State|Submit|Start|End|NNodes|NCPUS|ReqCPUS|ReqMem|ReqTRES|AllocTRES\n";
    let times = "COMPLETED|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00";
    let rows: String = [
        "1|10|1|1000M|billing=1,cpu=1,gres/gpu=3,mem=1000M,node=1|billing=10,cpu=10,gres/gpu=3,mem=10000M,node=1",
        "1|10|1|3000M|billing=1,cpu=1,gres/gpu=3,mem=3000M,node=1|billing=10,cpu=10,gres/gpu=3,mem=3000M,node=1",
        "1|4|1|7000M|billing=1,cpu=1,gres/gpu=1,mem=7000M,node=1|billing=4,cpu=4,gres/gpu=1,mem=7000M,node=1",
        "1|6|5|5000M|billing=5,cpu=5,gres/gpu=3,mem=5000M,node=1|billing=6,cpu=6,gres/gpu=3,mem=6000M,node=1",
        "2|8|7|70M|billing=7,cpu=7,gres/gpu=5,mem=70M,node=2|billing=8,cpu=8,gres/gpu=5,mem=80M,node=2",
        "1|2|1|62.50G|billing=1,cpu=1,gres/gpu=1,mem=62.50G,node=1|billing=2,cpu=2,gres/gpu=1,mem=62.50G,node=1",
    ]
    .iter()
    .enumerate()
    .map(|(id, row)| format!("{id}|{times}|{row}\n"))
    .collect();
    let trace = text(format!("{header}{rows}").as_bytes()).unwrap();
    let jobs = &trace.jobs;
    let found = |row: usize| {
        let mib = |bytes: Option<i64>| bytes.unwrap() / MIB;
        let (asked, given) = (jobs.req_cpus.get(row).unwrap(), jobs.alloc_cpus.get(row).unwrap());
        (asked, mib(jobs.req_mem_bytes.get(row)), given, mib(jobs.alloc_mem_bytes.get(row)))
    };
    let expected = [
        (1.0, 1_000, 10.0, 10_000),
        (1.0, 3_000, 10.0, 3_000),
        (1.0, 7_000, 4.0, 7_000),
        (5.0, 5_000, 6.0, 6_000),
        (7.0, 70, 8.0, 80),
        (1.0, 64_000, 2.0, 64_000),
    ];
    assert_eq!([0, 1, 2, 3, 4, 5].map(found), expected);
}

/// (28) An empty file is said to be empty; a header alone is a trace without jobs; a missing column is named.
#[test]
fn nothing_to_read_and_columns_that_are_missing() {
    assert!(matches!(text(b""), Err(Error::Empty { .. })));
    assert_eq!(text(b"\xef\xbb\xbfJobID|Submit|State\n").unwrap().jobs.submit.len(), 0);
    let Err(Error::Format { column, .. }) = text(b"JobID|State\n1|COMPLETED\n") else { unreachable!() };
    assert_eq!(column.as_deref(), Some("Submit"));
}

/// An export taken while a job ran and one taken after it ended, read together: one job, the later record's.
#[test]
fn overlapping_exports_give_each_job_once() {
    let header = "JobID|Submit|Start|End|State|AllocTRES\n";
    let early = "5|2024-01-01T00:00:00|2024-01-01T00:01:00|Unknown|RUNNING|cpu=1,gres/gpu=1\n";
    let late = "5|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|cpu=1,gres/gpu=1\n";
    for order in [[early, late], [late, early]] {
        let trace = text(format!("{header}{}{header}{}{}", order[0], order[1], order[1]).as_bytes()).unwrap();
        assert_eq!(trace.jobs.run_s.iter().collect::<Vec<_>>(), [Some(60.0)]);
        assert_eq!(trace.jobs.censored.get(0), Some(0));
        assert_eq!((trace.ledger.read, trace.ledger.count("duplicate_row")), (3, 1));
    }
}

/// A job queued again that has not started again waits: its first attempt is over, the job is not.
#[test]
fn a_requeued_job_that_waits_is_censored_and_keeps_its_attempt() {
    let trace = text(
        b"JobID|Submit|Start|End|State|AllocTRES\n\
          6|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|NODE_FAIL|gres/gpu=1\n\
          6|2024-01-01T00:02:00|Unknown|Unknown|PENDING|\n",
    )
    .unwrap();
    assert_eq!(trace.jobs.submit.len(), 1);
    assert_eq!((trace.jobs.end.get(0), trace.jobs.censored.get(0)), (None, Some(1)));
    assert_eq!((trace.jobs.attempts.get(0), trace.jobs.run_s.get(0)), (Some(1), Some(60.0)));
    assert_eq!(trace.attempts.end_reason.get(0), Some("node_fail"));
}

/// Equal job numbers on two clusters are two jobs, and a cluster that lists no GPUs has unknown
/// counts beside one that does.
#[test]
fn clusters_are_kept_apart() {
    let trace = text(
        b"JobID|Cluster|Submit|Start|End|State|AllocTRES\n\
          1|a|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|cpu=1,gres/gpu=1\n\
          1|b|2024-01-01T00:00:01|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|cpu=1\n",
    )
    .unwrap();
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("a/1"), Some("b/1")]);
    assert_eq!(trace.jobs.alloc_gpus.iter().collect::<Vec<_>>(), [Some(1.0), None]);
    assert!(trace.notes.iter().any(|note| note.starts_with("No record of b names GPUs")), "{:?}", trace.notes);
}

/// Rows of steps alone are kept, and the report says that their jobs are missing. A second step that says something
/// makes the job's utilisation ambiguous.
#[test]
fn steps_without_their_job_and_steps_that_disagree() {
    let header = "JobID|Submit|Start|End|State|AllocTRES|TRESUsageInTot\n";
    let job = "1|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|gres/gpu=1|\n";
    let step = |id: &str| {
        let time = "2024-01-01T00:01:00";
        format!("{id}|{time}|{time}|2024-01-01T00:02:00|COMPLETED|gres/gpu=1|gres/gpuutil=40,gres/gpumem=5G\n")
    };
    let trace = text(format!("{header}{job}{}{}", step("1.batch"), step("2.0")).as_bytes()).unwrap();
    assert_eq!(trace.jobs.reported_gpu_util_ratio.get(0), Some(0.4));
    assert_eq!((trace.jobs.submit.len(), trace.ledger.kept), (1, 3));
    assert!(trace.notes.iter().any(|note| note.starts_with("1 jobs are known from their steps only")));
    let trace = text(format!("{header}{job}{}{}", step("1.batch"), step("1.0")).as_bytes()).unwrap();
    assert_eq!(trace.jobs.reported_gpu_util_ratio.get(0), None);
}

/// A GRES configured with `no_consume` is listed as 0 however many were used: unknown, not 0.
#[test]
fn zero_given_where_gpus_were_asked_for_is_unknown() {
    let trace = text(
        b"JobID|Submit|Start|End|State|ReqTRES|AllocTRES\n\
          1|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|gres/gpu=2|cpu=1,gres/gpu=0\n",
    )
    .unwrap();
    assert_eq!((trace.jobs.req_gpus.get(0), trace.jobs.alloc_gpus.get(0)), (Some(2.0), None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn arbitrary_bytes_never_panic(rows in proptest::collection::vec(
        "[0-9_+.\\[\\]%-]{0,8}\\|[0-9T:U-]{0,20}\\|[0-9T:-]{0,20}\\|[A-Z]{0,9}\\|[a-z/:=,0-9]{0,20}\\|[^\n]{0,9}", 0..8
    )) {
        let whole = format!("JobID|Submit|Start|State|AllocTRES|JobName\n{}\n", rows.join("\n"));
        check(&text(whole.as_bytes()).unwrap());
    }
}

/// Any of the fixtures together, in one request.
#[test]
fn several_files_are_one_trace() {
    let trace = read(&[fixture("sacct/header.txt"), fixture("sacct/xdmod.txt")]).unwrap();
    check(&trace);
    // 15 jobs of fir and 2 of elm, told apart by their keys.
    assert_eq!(trace.jobs.submit.len(), 17);
    assert!(trace.jobs.job_key.iter().flatten().all(|key| key.starts_with("fir/") || key.starts_with("elm/")));
}

/// Jobs that never left the queue, as Slurm writes them: the moment of their end as start and end, no node, no time. Only
/// 1 and 5 (which had a node for less than a second) started: waits of 100 and 10 s. 2 was cancelled, though resources
/// are listed for it; 3 missed its deadline; 4 failed and 6 did not boot, without a node; 7 has its start after its end.
#[test]
fn jobs_that_ended_in_the_queue_never_started() {
    let trace = text(
        b"JobID|Submit|Start|End|Elapsed|State|ReqTRES|AllocTRES|NodeList|Planned\n\
          1|2024-01-01T00:00:00|2024-01-01T00:01:40|2024-01-01T00:02:40|00:01:00|COMPLETED|gres/gpu=1|gres/gpu=1|n1|00:01:40\n\
          2|2024-01-01T00:00:00|2024-01-01T01:00:00|2024-01-01T01:00:00|00:00:00|CANCELLED by 7|gres/gpu=1|billing=1,cpu=1|None assigned|01:00:00\n\
          3|2024-01-01T00:00:00|2024-01-01T02:00:00|2024-01-01T02:00:00|00:00:00|DEADLINE|gres/gpu=1||None assigned|02:00:00\n\
          4|2024-01-01T00:00:00|2024-01-01T00:30:00|2024-01-01T00:30:00|00:00:00|FAILED|gres/gpu=1||None assigned|00:30:00\n\
          5|2024-01-01T00:00:00|2024-01-01T00:00:10|2024-01-01T00:00:10|00:00:00|CANCELLED|gres/gpu=1|gres/gpu=1|n1|00:00:10\n\
          6|2024-01-01T00:00:00|2024-01-01T00:20:00|2024-01-01T00:20:00|00:00:00|BOOT_FAIL|gres/gpu=1||None assigned|00:20:00\n\
          7|2024-01-01T00:00:00|2024-01-01T05:00:00|2024-01-01T00:40:00|00:00:00|CANCELLED|gres/gpu=1||None assigned|\n",
    )
    .unwrap();
    check(&trace);
    let jobs = &trace.jobs;
    let hour = 3_600.0;
    let vain: Vec<Option<f64>> = (0..7).map(|ix| jobs.waited_in_vain_s(ix)).collect();
    let expected =
        [None, Some(hour), Some(2.0 * hour), Some(0.5 * hour), None, Some(hour / 3.0), Some(hour * 2.0 / 3.0)];
    assert_eq!(vain, expected);
    for (ix, waited) in expected.iter().enumerate() {
        let ran = (jobs.start.get(ix).is_some(), jobs.run_s.get(ix).is_some(), jobs.attempts.get(ix) == Some(1));
        assert_eq!(ran, (waited.is_none(), waited.is_none(), waited.is_none()), "row {ix}");
        assert!(jobs.end.get(ix).is_some(), "row {ix}");
    }
    // What was listed as given to job 2 was never used.
    assert_eq!((jobs.alloc_gpus.get(1), jobs.alloc_cpus.get(1)), (None, None));
    assert!(trace.notes.iter().any(|note| note.starts_with("5 jobs ended while waiting")), "{:?}", trace.notes);
    assert_eq!(trace.ledger.kept, 7);
    // Half of the two who started waited at most 10 s: the five who gave up are no starts, but still waiting until then.
    let waits = Description::new(&trace).wait.unwrap().all;
    assert_eq!((waits.started_s.count, waits.started_s.max, waits.waiting), (2, 100.0, 5));
}

/// Without the columns of nodes or resources, a cancelled job that took no time never started; one
/// that failed at once may have.
#[test]
fn without_nodes_only_cancelled_jobs_are_known_to_have_waited() {
    let trace = text(
        b"JobID|Submit|Start|End|State\n\
          1|2024-01-01T00:00:00|2024-01-01T00:01:40|2024-01-01T00:01:40|CANCELLED\n\
          2|2024-01-01T00:00:00|2024-01-01T00:01:40|2024-01-01T00:01:40|FAILED\n",
    )
    .unwrap();
    assert_eq!((trace.jobs.waited_in_vain_s(0), trace.jobs.waited_in_vain_s(1)), (Some(100.0), None));
    assert_eq!(trace.jobs.run_s.get(1), Some(0.0));
}

/// Los Angeles, 2024-11-03: 01:00 to 02:00 came twice, first as 08:00 to 09:00 UTC. Job 1 ran two hours from 00:30 (07:30
/// UTC), so it ended at the second 01:30 (09:30 UTC); job 2 one hour until 02:30 (10:30 UTC), so it began at the second;
/// job 3 two hours until then, so at the first. Job 4 waited 10 minutes for its start at 02:05 (10:05 UTC), so it was
/// submitted at the second 01:55 (09:55 UTC). Of job 5 both are of the hour, and half an hour fits twice: the first stays.
#[test]
fn elapsed_tells_which_of_two_hours_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sacct.txt");
    let row = |job: u32, times: [&str; 3], elapsed: &str, planned: &str| {
        let [submit, start, end] = times.map(|time| format!("2024-11-03T{time}:00"));
        format!("{job}|{submit}|{submit}|{start}|{end}|{elapsed}|COMPLETED|{planned}\n")
    };
    let rows = [
        row(1, ["00:30", "00:30", "01:30"], "02:00:00", "00:00:00"),
        row(2, ["00:10", "01:30", "02:30"], "01:00:00", ""),
        row(3, ["00:10", "01:30", "02:30"], "02:00:00", ""),
        row(4, ["01:55", "02:05", "02:30"], "00:25:00", "00:10:00"),
        row(5, ["00:10", "01:10", "01:40"], "00:30:00", ""),
    ];
    std::fs::write(&path, format!("JobID|Submit|Eligible|Start|End|Elapsed|State|Planned\n{}", rows.concat())).unwrap();
    let options = ReadOptions { zone: Some(Zone::named("America/Los_Angeles").unwrap()), ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(&path)], &options).unwrap();
    check(&trace);
    let jobs = &trace.jobs;
    let of = |job: &str| {
        let ix = (0..5).find(|ix| jobs.job_key.get(*ix) == Some(job)).unwrap();
        let clock = |ms: Option<i64>| format_utc(ms.unwrap())[11..16].to_owned();
        ([clock(jobs.submit.get(ix)), clock(jobs.start.get(ix)), clock(jobs.end.get(ix))], jobs.run_s.get(ix))
    };
    let expect = |times: [&str; 3], run_s: f64| (times.map(str::to_owned), Some(run_s));
    assert_eq!(of("1"), expect(["07:30", "07:30", "09:30"], 7_200.0));
    assert_eq!(of("2"), expect(["07:10", "09:30", "10:30"], 3_600.0));
    assert_eq!(of("3"), expect(["07:10", "08:30", "10:30"], 7_200.0));
    assert_eq!(of("4"), expect(["09:55", "10:05", "10:30"], 1_500.0));
    assert_eq!(of("5"), expect(["07:10", "08:10", "08:40"], 1_800.0));
    // Submission and eligibility of job 4 are two values.
    assert_eq!((trace.ledger.count("dst_fold_told"), trace.ledger.count("dst_fold")), (5, 2));
}

/// The second attempt begins ten minutes before the first ended: both are kept, and the ledger says so.
#[test]
fn attempts_that_overlap_are_noted() {
    let trace = text(
        b"JobID|Submit|Start|End|State|AllocTRES\n\
          6|2024-01-01T00:00:00|2024-01-01T00:10:00|2024-01-01T00:30:00|NODE_FAIL|gres/gpu=1\n\
          6|2024-01-01T00:15:00|2024-01-01T00:20:00|2024-01-01T00:40:00|COMPLETED|gres/gpu=1\n",
    )
    .unwrap();
    check(&trace);
    assert_eq!((trace.jobs.attempts.get(0), trace.jobs.run_s.get(0)), (Some(2), Some(2_400.0)));
    let entry = &trace.ledger.entries[0];
    assert_eq!((entry.reason.as_str(), entry.count, entry.examples[0].line), ("overlapping_attempts", 1, 3));
    assert_eq!((trace.ledger.kept, trace.ledger.repaired), (1, 1));
}

/// `Reason` is why a job was last blocked, and stays when it has started: only what waits has it. `None` is unknown. The third was queued
/// again after its node failed.
#[test]
fn the_reason_of_what_waits_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.txt");
    let text = "JobID|Submit|Start|End|State|Reason\n\
        1|2024-03-04T10:00:00|Unknown|Unknown|PENDING|QOSMaxGRESPerUser\n\
        2|2024-03-04T10:00:01|2024-03-04T10:10:00|Unknown|RUNNING|Resources\n\
        3|2024-03-04T10:00:02|2024-03-04T10:10:00|2024-03-04T10:20:00|NODE_FAIL|None\n\
        3|2024-03-04T10:20:00|Unknown|Unknown|PENDING|Priority\n\
        4|2024-03-04T10:00:03|Unknown|Unknown|PENDING|None\n";
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    check(&trace);
    let reasons: Vec<Option<&str>> = trace.jobs.pending_reason.iter().collect();
    assert_eq!(reasons, [Some("QOSMaxGRESPerUser"), None, Some("Priority"), None]);
}
