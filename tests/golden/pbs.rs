//! PBS and Torque accounting logs: every value below was worked out by hand from the fixtures' lines.

use tracecast_analytics::Error;
use tracecast_analytics::ingest::{self, Confidence, ReadOptions, SourceFile};
use tracecast_analytics::time::{TimeBasis, Zone};
use tracecast_tests::{check, conform, fixture, read, real_trace, render};

/// The tables without the account of rows.
fn tables(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("20240304");
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    check(&trace);
    render(&trace).split("quality:").next().unwrap().to_owned()
}

/// Local time is UTC+1, as starts show. Job 100: 2 nodes of 8 cores and 4 GPUs, 64 GB asked for, limit 24 h, run 1 h; PBS
/// says that it used 0 GPUs, which it did not. 101: queued again after 30 s, then 60 s, on another node; its last line comes
/// twice. 102: deleted after 8 minutes in the queue, told by local time alone. Array 103: task 1 failed after 100 s, task 2
/// still runs, on parts of one host; the array itself is no job. 104: known from its end only; killed at its limit of 60 s
/// after 65 s; it names no GPUs in whole lists, so it has 0; it could first have started at 10:14. 105 waits, for an A100.
/// 106: SIGTERM after its deletion. 107: aborted as what it waited for failed. 108: its end is cut, so it still runs. A line
/// that is none; a licence and a reservation, which make no job.
#[test]
fn events_of_pbs_professional() {
    let trace = conform("pbs", &["pbs/20240304"]);
    assert!(trace.counts_gpus);
    assert_eq!((trace.basis.clone(), trace.zone.as_str()), (TimeBasis::Utc, "UTC"));
    assert!(trace.notes.iter().any(|note| note.contains("their offset is taken from the starts")), "{:?}", trace.notes);
    assert!(
        trace.notes.iter().any(|note| note.starts_with("No job is made of 2 records of reservations")),
        "{:?}",
        trace.notes
    );
    insta::assert_snapshot!(render(&trace), @r"
    jobs (10 rows)
      cluster=fir-pbs job_key=100 user=ana account=vision vc=gpu name=train state=completed reported_state=E 0 submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:05:00 end=2024-03-04 11:05:00 censored=0 attempts=1 req_nodes=2 req_cpus=16 req_mem_bytes=68719476736 req_gpus=8 alloc_nodes=2 alloc_cpus=16 alloc_gpus=8 nodes_hostlist=g[01-02] time_limit_s=86400 run_s=3600 reported_run_s=3600 exit_code=0
      cluster=fir-pbs job_key=101 user=ana account=vision vc=gpu name=again state=completed reported_state=E 0 submit=2024-03-04 10:01:00 eligible=2024-03-04 10:01:00 start=2024-03-04 10:10:00 end=2024-03-04 10:21:00 censored=0 attempts=2 req_nodes=1 req_cpus=2 req_gpus=2 alloc_nodes=1 alloc_cpus=2 alloc_gpus=2 nodes_hostlist=g04 time_limit_s=7200 run_s=90 reported_run_s=90 exit_code=0
      cluster=fir-pbs job_key=102 user=ben vc=gpu name=gone state=cancelled reported_state=D submit=2024-03-04 10:02:00 eligible=2024-03-04 10:02:00 end=2024-03-04 10:08:00 censored=0 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1
      cluster=fir-pbs job_key=103[1] parent_job=103[] user=ben account=vision vc=gpu name=sweep state=failed reported_state=E 1 submit=2024-03-04 10:03:00 eligible=2024-03-04 10:03:00 start=2024-03-04 10:12:00 end=2024-03-04 10:13:40 censored=0 attempts=1 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g03 time_limit_s=600 run_s=100 reported_run_s=100 exit_code=1
      cluster=fir-pbs job_key=103[2] parent_job=103[] user=ben account=vision vc=gpu name=sweep state=running reported_state=S submit=2024-03-04 10:03:00 eligible=2024-03-04 10:03:00 start=2024-03-04 10:14:00 censored=1 attempts=1 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g03 time_limit_s=600
      cluster=fir-pbs job_key=104 user=cem account=bio vc=cpu name=cpu state=timeout reported_state=E -29 submit=2024-03-04 10:04:00 eligible=2024-03-04 10:14:00 start=2024-03-04 10:15:00 end=2024-03-04 10:16:05 censored=0 attempts=1 req_nodes=1 req_cpus=4 req_gpus=0 alloc_nodes=1 alloc_cpus=4 alloc_gpus=0 nodes_hostlist=c01 time_limit_s=60 run_s=65 reported_run_s=65 exit_code=-29
      cluster=fir-pbs job_key=105 user=dee account=vision vc=gpu name=next gpu_type=a100 state=pending reported_state=Q submit=2024-03-04 10:22:00 eligible=2024-03-04 10:22:00 censored=1 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1
      cluster=fir-pbs job_key=106 user=dee account=vision vc=gpu name=killed state=cancelled reported_state=E 271 submit=2024-03-04 10:22:30 eligible=2024-03-04 10:22:30 start=2024-03-04 10:23:00 end=2024-03-04 10:23:11 censored=0 attempts=1 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g04 run_s=11 reported_run_s=11 exit_code=271
      cluster=fir-pbs job_key=107 user=dee account=vision vc=gpu name=after state=cancelled reported_state=A submit=2024-03-04 10:24:00 eligible=2024-03-04 10:24:00 end=2024-03-04 10:24:01 censored=0 attempts=0 req_nodes=1 req_cpus=1 req_gpus=1 depends_on=afterok:106.fir-pbs
      cluster=fir-pbs job_key=108 user=ana account=vision vc=gpu name=long state=running reported_state=S submit=2024-03-04 10:30:00 eligible=2024-03-04 10:30:00 start=2024-03-04 11:10:00 censored=1 attempts=1 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 alloc_gpus=1 nodes_hostlist=g01
    attempts (2 rows)
      job_key=101 attempt=1 start=2024-03-04 10:10:00 end=2024-03-04 10:10:30 censored=0 end_reason=cancelled nodes_hostlist=g03 alloc_gpus=2 alloc_cpus=2
      job_key=101 attempt=2 start=2024-03-04 10:20:00 end=2024-03-04 10:21:00 censored=0 end_reason=completed nodes_hostlist=g04 alloc_gpus=2 alloc_cpus=2
    placements (9 rows)
      job_key=100 attempt=1 node=g01 gpus=4
      job_key=100 attempt=1 node=g02 gpus=4
      job_key=101 attempt=1 node=g03 gpus=2
      job_key=101 attempt=2 node=g04 gpus=2
      job_key=103[1] attempt=1 node=g03 gpus=1
      job_key=103[2] attempt=1 node=g03 gpus=1
      job_key=104 attempt=1 node=c01 gpus=0
      job_key=106 attempt=1 node=g04 gpus=1
      job_key=108 attempt=1 node=g01 gpus=1
    quality: read 27 = kept 24 + repaired 0 + quarantined 3
      Quarantined cut_record × 1 (lines 27)
      Quarantined duplicate_row × 1 (lines 22)
      Quarantined malformed_row × 1 (lines 23)
    ");
}

/// Local time is New York's, UTC-5, as named. Job 200 went through a routing queue: 2 nodes of 8 slots and 2 GPUs each, named
/// by number. 201: `R` says neither start nor end, so the line's time ends the first run: 60 s, then 60 s. 202 waited
/// 10:04 to 10:12 and was deleted. 203-1: a task of an array, past its limit, without GPUs. 204: its first start failed at
/// a time nobody recorded. 205: GPUs and run time that are no numbers are unknown, not 0.
#[test]
fn events_of_torque() {
    conform("pbs", &["pbs/torque"]);
    let zone = Some(Zone::named("America/New_York").unwrap());
    let options = ReadOptions { zone, ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(fixture("pbs/torque"))], &options).unwrap();
    check(&trace);
    assert_eq!((trace.basis.clone(), trace.zone.as_str()), (TimeBasis::Local, "America/New_York"));
    insta::assert_snapshot!(render(&trace), @r"
    jobs (6 rows)
      cluster=elm.example job_key=200 user=ana vc=batch name=train state=completed reported_state=E 0 submit=2024-03-04 10:00:00 eligible=2024-03-04 10:00:00 start=2024-03-04 10:01:00 end=2024-03-04 11:01:00 censored=0 attempts=1 req_nodes=2 req_cpus=16 req_gpus=4 alloc_nodes=2 alloc_cpus=16 alloc_gpus=4 nodes_hostlist=e[1-2] time_limit_s=86400 run_s=3600 reported_run_s=3600 exit_code=0
      cluster=elm.example job_key=201 user=ben vc=batch name=again state=completed reported_state=E 0 submit=2024-03-04 10:01:30 eligible=2024-03-04 10:01:30 start=2024-03-04 10:02:00 end=2024-03-04 10:06:00 censored=0 attempts=2 req_nodes=1 req_cpus=2 req_gpus=1 alloc_nodes=1 alloc_cpus=2 nodes_hostlist=e4 run_s=120 exit_code=0
      cluster=elm.example job_key=202 vc=batch state=cancelled reported_state=D submit=2024-03-04 10:04:00 end=2024-03-04 10:12:00 censored=0 attempts=0
      cluster=elm.example job_key=203[1] parent_job=203[] user=cem vc=batch name=sweep state=timeout reported_state=E -11 submit=2024-03-04 10:10:00 eligible=2024-03-04 10:10:00 start=2024-03-04 10:19:00 end=2024-03-04 10:20:10 censored=0 attempts=1 req_nodes=1 req_cpus=1 req_gpus=0 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=e3 time_limit_s=60 run_s=70 reported_run_s=70 exit_code=-11
      cluster=elm.example job_key=204 user=dee vc=batch name=shy state=failed reported_state=E 2 submit=2024-03-04 10:20:00 eligible=2024-03-04 10:20:00 start=2024-03-04 10:21:00 end=2024-03-04 10:23:00 censored=0 attempts=2 req_nodes=1 req_cpus=1 req_gpus=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=e4 exit_code=2
      cluster=elm.example job_key=205 user=dee vc=batch name=odd state=completed reported_state=E 0 submit=2024-03-04 10:30:00 eligible=2024-03-04 10:30:00 start=2024-03-04 10:30:10 end=2024-03-04 10:31:00 censored=0 attempts=1 alloc_nodes=1 alloc_cpus=1 nodes_hostlist=e3 run_s=50 exit_code=0
    attempts (4 rows)
      job_key=201 attempt=1 start=2024-03-04 10:02:00 end=2024-03-04 10:03:00 censored=0 end_reason=cancelled nodes_hostlist=e3 alloc_cpus=2
      job_key=201 attempt=2 start=2024-03-04 10:05:00 end=2024-03-04 10:06:00 censored=0 end_reason=completed nodes_hostlist=e4 alloc_cpus=2
      job_key=204 attempt=1 start=2024-03-04 10:21:00 censored=0 nodes_hostlist=e3 alloc_cpus=1
      job_key=204 attempt=2 start=2024-03-04 10:22:00 end=2024-03-04 10:23:00 censored=0 end_reason=failed nodes_hostlist=e4 alloc_cpus=1
    placements (8 rows)
      job_key=200 attempt=1 node=e1 gpu_ids=0,1 gpus=2
      job_key=200 attempt=1 node=e2 gpu_ids=0,3 gpus=2
      job_key=201 attempt=1 node=e3
      job_key=201 attempt=2 node=e4
      job_key=203[1] attempt=1 node=e3
      job_key=204 attempt=1 node=e3
      job_key=204 attempt=2 node=e4
      job_key=205 attempt=1 node=e3
    quality: read 15 = kept 14 + repaired 1 + quarantined 0
      Repaired bad_resource × 2 (lines 14, 14)
    ");
    // Without a zone the starts tell the same offset, and so the same times.
    let guessed = read(&[fixture("pbs/torque")]).unwrap();
    assert_eq!(guessed.basis, TimeBasis::Utc);
    assert_eq!(render(&guessed), render(&trace));
}

#[test]
fn events_in_any_order_and_files_that_overlap_tell_the_same() {
    let text = std::fs::read_to_string(fixture("pbs/20240304")).unwrap();
    let reversed: Vec<&str> = text.lines().rev().collect();
    assert_eq!(tables(&reversed.join("\n")), tables(&text));
    assert_eq!(tables(&format!("{text}\n{text}")), tables(&text));
}

/// The number 7 is used again a day later: another job, whose key names its submission, 1000 s and 90000 s.
#[test]
fn a_number_used_again_is_another_job() {
    let line = |kind: &str, ctime: i64, rest: &str| {
        format!("01/01/1970 01:00:00;{kind};7.s;user=a ctime={ctime} qtime={ctime} {rest}\n")
    };
    let first = line("E", 1_000, "start=1010 end=1020 Exit_status=0");
    let second = line("S", 90_000, "start=90010");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, first + &second).unwrap();
    let trace = read(&[path]).unwrap();
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("7"), Some("7@90000")]);
    assert_eq!(trace.jobs.state.iter().collect::<Vec<_>>(), [Some("completed"), Some("running")]);
    assert_eq!(trace.jobs.req_gpus.iter().collect::<Vec<_>>(), [None, None]);
    assert!(!trace.counts_gpus);
}

/// Two servers have a job of the same number: their names come before it. A job without a line of its own but its deletion
/// has no submission. In the hour that came twice, the first is taken and said so.
#[test]
fn servers_deletions_alone_and_the_hour_that_comes_twice() {
    let text = "03/04/2024 10:00:00;Q;7.a;queue=q\n03/04/2024 10:00:00;Q;7.b;queue=q\n03/04/2024 11:00:00;D;8.a;requestor=x\n\
                11/03/2024 01:30:00;Q;9.a;queue=q\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, text).unwrap();
    let zone = Some(Zone::named("America/Los_Angeles").unwrap());
    let trace = ingest::read(&[SourceFile::new(&path)], &ReadOptions { zone, ..ReadOptions::default() }).unwrap();
    check(&trace);
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("a/7"), Some("b/7"), Some("a/9"), Some("a/8")]);
    assert_eq!((trace.jobs.submit.get(3), trace.jobs.state.get(3)), (None, Some("cancelled")));
    assert_eq!(trace.ledger.count("dst_fold"), 1);
    // 2024-11-03 01:30 at UTC-7.
    assert_eq!(trace.jobs.submit.get(2), Some(1_730_622_600_000));
}

#[test]
fn nothing_to_read_and_lines_that_are_no_records() {
    let read_as = |bytes: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        ingest::read(
            &[SourceFile::new(path)],
            &ReadOptions { reader: Some("pbs".to_owned()), ..ReadOptions::default() },
        )
    };
    assert!(matches!(read_as(b""), Err(Error::Empty { .. })));
    let trace = read_as(b"hello\n03/04/2024 99:00:00;Q;1.s;queue=q\n03/04/2024 10:00:00;Q;;queue=q\n").unwrap();
    assert_eq!((trace.ledger.read, trace.ledger.quarantined, trace.jobs.submit.len()), (3, 3, 0));
    let reasons: Vec<u64> = ["malformed_row", "not_a_time", "no_key"].map(|reason| trace.ledger.count(reason)).to_vec();
    assert_eq!(reasons, [1, 1, 1]);
}

/// Torque, where `nodect` repeats the request, the nodes name no GPUs and `neednodes` does, and generic resources of Moab, of which it is
/// not known whether they count by the task: unknown, as the log names GPUs elsewhere.
#[test]
fn gpus_wherever_torque_names_them() {
    let line = |id: u32, list: &str| {
        format!(
            "03/04/2024 12:00:00;E;{id}.srv;user=u queue=q ctime=1709546400 qtime=1709546400 etime=1709546400 start=1709550000 \
             exec_host=n1/0-3 {list} end=1709553600 Exit_status=0\n"
        )
    };
    let text = [
        line(1, "Resource_List.nodect=1:ppn=24:gpu=4"),
        line(2, "Resource_List.nodes=2:ppn=4:gpus=2:shared Resource_List.nodect=2"),
        line(3, "Resource_List.nodes=1:ppn=4 Resource_List.neednodes=1:ppn=4:gpus=3 Resource_List.nodect=1"),
        line(4, "Resource_List.gpus=5 Resource_List.nodect=1"),
        line(5, "Resource_List.gres=gpu:2 Resource_List.nodect=1"),
        line(6, "Resource_List.nodes=1:ppn=4:gpu Resource_List.nodect=1"),
    ]
    .concat();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("20240304");
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    let gpus: Vec<Option<f64>> = trace.jobs.req_gpus.iter().collect();
    // `gpu` alone is a property of nodes.
    assert_eq!(gpus, [Some(4.0), Some(4.0), Some(3.0), Some(5.0), None, Some(0.0)]);
    assert_eq!(trace.ledger.kept, 6);
}

/// No other reader is as sure of these logs, and this one claims no other fixture.
#[test]
fn the_logs_of_batch_systems_are_told_apart() {
    for (reader, names) in
        [("pbs", &["pbs/20240304", "pbs/torque"][..]), ("lsf", &["lsf/lsb.acct"]), ("sge", &["sge/accounting"])]
    {
        for name in names {
            let head = SourceFile::new(fixture(name)).head().unwrap();
            let sure = ingest::readers().iter().filter(|reader| reader.sniff(&head) == Confidence::Sure);
            assert_eq!(sure.map(|reader| reader.id()).collect::<Vec<_>>(), [reader], "{name}");
        }
    }
    for name in ["sacct/header.txt", "sacct/xdmod.txt", "swf/partial.swf", "helios/cluster_log.csv", "openb/pods.csv"] {
        let head = SourceFile::new(fixture(name)).head().unwrap();
        for reader in ingest::readers().iter().filter(|reader| ["pbs", "lsf", "sge"].contains(&reader.id())) {
            assert_eq!(reader.sniff(&head), Confidence::No, "{} of {name}", reader.id());
        }
    }
}

/// 1: suspended for 20 minutes while its processors alone were released: 4 GPUs for an hour, a third of it suspended. 2:
/// suspended without a list, so that everything was released for the same 20 minutes: two attempts. 3: suspended when the log
/// ends, and 4 deleted while it was.
#[test]
fn suspended_and_resumed() {
    let line = |time: &str, kind: &str, id: u32, rest: &str| format!("03/04/2024 {time};{kind};{id}.fir;{rest}\n");
    let job = "queue=gpu ctime=1709546400 start=1709546400 exec_vnode=(g1:ncpus=8:ngpus=4) Resource_List.ngpus=4";
    let started: String = (1..=4).map(|id| line("10:00:00", "S", id, job)).collect();
    let kept = "resources_used.walltime=00:10:00 resources_released=(g1:ncpus=8)";
    let whole = "resources_used.walltime=00:10:00";
    let released = [(1, kept), (2, whole), (3, kept), (4, whole)];
    let stopped: String = released.map(|(id, released)| line("10:10:00", "z", id, released)).concat();
    let resumed = [1, 2].map(|id| line("10:30:00", "r", id, "requestor=root@fir")).concat();
    let end = format!("{job} end=1709550000 Exit_status=0 resources_used.walltime=00:40:00");
    let ended = [1, 2, 4].map(|id| line("11:00:00", "E", id, &end)).concat();
    let told = tables(&[&*ended, &*resumed, &*started, &*stopped].concat());
    assert_eq!(
        told,
        tables(&[&*started, &*stopped, &*resumed, &*ended, &*stopped].concat()),
        "in any order, and twice"
    );
    insta::assert_snapshot!(told, @r"
    jobs (4 rows)
      cluster=fir job_key=1 vc=gpu state=completed reported_state=E 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:00:00 end=2024-03-04 11:00:00 censored=0 attempts=1 req_gpus=4 alloc_nodes=1 alloc_cpus=8 alloc_gpus=4 nodes_hostlist=g1 run_s=2400 suspended_s=1200 reported_run_s=2400 exit_code=0
      cluster=fir job_key=2 vc=gpu state=completed reported_state=E 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:00:00 end=2024-03-04 11:00:00 censored=0 attempts=2 req_gpus=4 alloc_nodes=1 alloc_cpus=8 alloc_gpus=4 nodes_hostlist=g1 run_s=2400 exit_code=0
      cluster=fir job_key=3 vc=gpu state=running reported_state=S submit=2024-03-04 10:00:00 start=2024-03-04 10:00:00 censored=1 attempts=1 req_gpus=4 alloc_nodes=1 alloc_cpus=8 alloc_gpus=4 nodes_hostlist=g1
      cluster=fir job_key=4 vc=gpu state=completed reported_state=E 0 submit=2024-03-04 10:00:00 start=2024-03-04 10:00:00 end=2024-03-04 11:00:00 censored=0 attempts=1 req_gpus=4 alloc_nodes=1 alloc_cpus=8 alloc_gpus=4 nodes_hostlist=g1 run_s=600 reported_run_s=2400 exit_code=0
    attempts (2 rows)
      job_key=2 attempt=1 start=2024-03-04 10:00:00 end=2024-03-04 10:10:00 censored=0 end_reason=cancelled nodes_hostlist=g1 alloc_gpus=4 alloc_cpus=8
      job_key=2 attempt=2 start=2024-03-04 10:30:00 end=2024-03-04 11:00:00 censored=0 end_reason=completed nodes_hostlist=g1 alloc_gpus=4 alloc_cpus=8
    placements (5 rows)
      job_key=1 attempt=1 node=g1 gpus=4
      job_key=2 attempt=1 node=g1 gpus=4
      job_key=2 attempt=2 node=g1 gpus=4
      job_key=3 attempt=1 node=g1 gpus=4
      job_key=4 attempt=1 node=g1 gpus=4
    ");
}

/// Job 7 holds 4 GPUs for 3 h, an hour of which it is suspended; 8 is queued again once.
#[test]
fn the_case_of_suspension_reads_as_its_readme_says() {
    let Some(path) = real_trace("cases/suspended/20250331") else { return };
    let jobs = read(&[path]).unwrap().jobs;
    assert_eq!(jobs.job_key.iter().collect::<Vec<_>>(), [Some("7"), Some("8")]);
    assert_eq!((jobs.run_s.get(0), jobs.suspended_s.get(0)), (Some(7_200.0), Some(3_600.0)));
    assert_eq!((jobs.run_s.get(1), jobs.attempts.get(1), jobs.suspended_s.get(1)), (Some(2_400.0), Some(2), None));
}
