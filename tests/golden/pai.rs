//! PAI 2020.

use std::fs;

use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::schema::Table;
use tracecast_analytics::time::TimeBasis;
use tracecast_tests::{conform, fixture, read, render};

const FILES: [&str; 8] = [
    // In an order that the reader cannot use as it is.
    "pai/pai_sensor_table.csv",
    "pai/pai_instance_table.csv",
    "pai/pai_task_table.csv",
    "pai/pai_task_table.header",
    "pai/pai_job_table.csv",
    "pai/pai_machine_spec.csv",
    "pai/pai_machine_metric.csv",
    "pai/pai_group_tag_table.csv",
];

/// Trap 14: no headers, percent of one unit. Job j-a has 3 × 50 % + 2 × 100 % = 3.5 GPUs (its ps plans a CPU and no
/// GPU), 3 × 6 + 2 × 1 + 1 × 2 = 22 cores, 90 + 16 + 4 = 110 GiB = 118,111,600,640 bytes; it starts with its chief at
/// 1030 s (00:17:10), ran 5000 − 1030 = 3970 s, and was seen on two GPUs at 20 % and 60 %, so 40 %. On m1 it has two
/// halves and the ps (1 GPU), on m2 a half and a whole. Trap 25: j-b runs, j-c waits. j-d plans nothing, so its GPUs are
/// unknown; trap 26: it ends before its task starts. Status `Melted` is not known. j-b's sensor shows 140 % of one GPU.
///
/// Read: 3 tags + 9 jobs + 8 tasks + 9 instances + 5 sensors + 3 machines = 37. machine_metric is passed over.
#[test]
fn all_tables() {
    let trace = conform("pai", &FILES);
    assert_eq!((trace.basis.clone(), trace.zone.as_str()), (TimeBasis::RelativeWeek, "Asia/Shanghai"));
    assert_eq!(trace.skipped.len(), 1);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (5 rows)
      job_key=j-a user=u1 name=g-1 job_type=bert gpu_type=T4 state=completed reported_state=Terminated submit=1970-01-01 00:16:40 start=1970-01-01 00:17:10 end=1970-01-01 01:23:20 censored=0 req_cpus=22 req_mem_bytes=118111600640 req_gpus=3.5 alloc_nodes=2 alloc_cpus=22 alloc_gpus=3.5 run_s=3970 reported_gpu_util_ratio=0.4
      job_key=j-b user=u2 name=g-2 gpu_type=P100 state=running reported_state=Running submit=1970-01-01 00:33:20 start=1970-01-01 00:41:40 censored=1 req_cpus=1 req_mem_bytes=10737418240 req_gpus=0.25 alloc_nodes=1 alloc_cpus=1 alloc_gpus=0.25
      job_key=j-c user=u1 name=g-3 gpu_type=V100 state=pending reported_state=Waiting submit=1970-01-01 00:50:00 censored=1 req_cpus=8 req_mem_bytes=42949672960 req_gpus=4
      job_key=j-d user=u3 state=failed reported_state=Failed submit=1970-01-01 01:06:40 start=1970-01-01 01:10:00 censored=0 alloc_nodes=1
      job_key=j-e user=u3 state=unknown reported_state=Melted submit=1970-01-01 01:15:00 end=1970-01-01 01:16:40
    placements (4 rows)
      job_key=j-a attempt=1 node=m1 gpus=1
      job_key=j-a attempt=1 node=m2 gpus=1.5
      job_key=j-b attempt=1 node=m2 gpus=0.25
      job_key=j-d attempt=1 node=m1
    nodes (2 rows)
      node=m1 gpu_type=T4 gpus=2 cpus=96 mem_bytes=549755813888
      node=m2 gpu_type=V100 gpus=8 cpus=96 mem_bytes=549755813888
    quality: read 37 = kept 25 + repaired 3 + quarantined 9
      Quarantined duplicate_row × 3 (lines 6, 8, 9)
      Quarantined repeated_key × 2 (lines 7, 3)
      Quarantined unknown_job × 2 (lines 7, 5)
      Quarantined no_key × 1 (lines 8)
      Quarantined no_submit × 1 (lines 9)
      Repaired end_before_start × 1 (lines 4)
      Repaired out_of_range × 1 (lines 4)
      Repaired unknown_state × 1 (lines 5)
    "#);
}

/// Files under other names are told by their number of columns, and give the same tables.
#[test]
fn renamed_files_are_told_by_their_width() {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<SourceFile> = FILES
        .iter()
        .filter(|name| name.ends_with(".csv"))
        .enumerate()
        .map(|(ix, name)| {
            let path = dir.path().join(format!("part-{ix}.csv"));
            fs::copy(fixture(name), &path).unwrap();
            SourceFile::new(path)
        })
        .collect();
    let options = ReadOptions { reader: Some("pai".to_owned()), ..ReadOptions::default() };
    let trace = ingest::read(&files, &options).unwrap();
    let named = read(&FILES.map(fixture)).unwrap();
    assert_eq!(render(&trace), render(&named));
}

/// The order of a `.header` file is believed over the published one, and a header within the file over both.
#[test]
fn headers_give_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let jobs = write("pai_job_table.csv", "u1,7.0,j-a,i-a,Terminated,9.0\n");
    let header = write("pai_job_table.header", "user,start_time,job_name,inst_id,status,end_time\n");
    let machines = write("pai_machine_spec.csv", "cap_gpu,machine,gpu_type,cap_cpu,cap_mem\n8,m1,T4,96,512\n");
    let trace = read(&[jobs, header, machines]).unwrap();
    assert_eq!((trace.jobs.job_key.get(0), trace.jobs.submit.get(0)), (Some("j-a"), Some(7_000)));
    assert_eq!((trace.nodes.node.get(0), trace.nodes.gpus.get(0), trace.nodes.len()), (Some("m1"), Some(8.0), 1));
    assert_eq!(trace.ledger.read, 2);
}

#[test]
fn tasks_without_jobs_are_an_error_that_says_what_to_add() {
    let error = read(&[fixture("pai/pai_task_table.csv")]).unwrap_err().to_string();
    assert!(error.contains("pai_job_table.csv"), "{error}");
}
