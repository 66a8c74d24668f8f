//! Slurm's accounting as sites have it: broken lines, other separators and encodings, suspension, federations, numbers used
//! again, summaries of Jobstats. Every value was worked out by hand.

use tracecast_analytics::facts::JobFacts;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::{Result, Trace};
use tracecast_tests::{check, conform, read, real_trace, render};

fn of_bytes(bytes: &[u8]) -> Trace {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("export.txt");
    std::fs::write(&path, bytes).unwrap();
    let trace = read(&[path]).unwrap();
    check(&trace);
    trace
}

fn gpu_hours(trace: &Trace) -> f64 {
    (JobFacts::new(trace).total_gpu_s() / 3_600.0 * 1e6).round() / 1e6
}

/// Lines 2 to 4 are one row, as are 6 and 7. Job 12 was suspended for 10 of 30 minutes: it ran 20 and held two GPUs for 30, which is
/// 1 GPU-hour. 13 is what is left of a job that started on another cluster. 14 typed `--gres=gpu:2` and lists no GPU: unknown. Of 15
/// the list says two and one; what follows its script is the script's own. 16 had run for 2 h when the record was taken: until
/// 12:00:10. Line 12 is cut.
#[test]
fn text_of_users_and_what_stands_beside_it() {
    let trace = conform("sacct", &["sacct/free-text.txt"]);
    let ledger = &trace.ledger;
    assert_eq!((ledger.read, ledger.kept, ledger.repaired, ledger.quarantined), (8, 3, 4, 1));
    let counts = ["line_break_in_text", "revoked_sibling", "gpu_counts_contradict", "field_count"];
    assert_eq!(counts.map(|reason| ledger.count(reason)), [2, 1, 1, 1]);
    let jobs = &trace.jobs;
    let rows: Vec<_> = (0..jobs.job_key.iter().count())
        .map(|job| (jobs.job_key.get(job), jobs.name.get(job), jobs.user.get(job), jobs.alloc_gpus.get(job)))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("11"), Some("a|b"), Some("ana"), Some(1.0)),
            (Some("12"), Some(r"typed \n is no break"), Some("ben"), Some(2.0)),
            (Some("14"), Some("untracked"), Some("cem"), None),
            (Some("15"), Some("both"), Some("cem"), Some(2.0)),
            (Some("16"), Some("still there"), Some("cem"), Some(1.0)),
        ]
    );
    let facts = JobFacts::new(&trace);
    let of = |key: &str| (0..trace.jobs.job_key.len()).find(|job| trace.jobs.job_key.get(*job) == Some(key)).unwrap();
    assert_eq!((facts.run_s(of("12")), facts.gpu_s(of("12"))), (Some(1_200.0), Some(3_600.0)));
    assert_eq!((facts.run_s(of("16")), facts.is_censored(of("16"))), (Some(7_200.0), true));
    assert_eq!(facts.gpu_s(of("14")), None);
    // 1 + 1 + 2 × 0.5 + 2.
    assert_eq!(gpu_hours(&trace), 5.0);
    assert!(
        trace
            .notes
            .iter()
            .any(|note| note.starts_with("1 job asks for GPUs") && note.contains("AccountingStorageTRES"))
    );
}

/// Rows are read alike whatever separates their fields, and as a Windows shell saves them.
#[test]
fn separators_and_encodings() {
    let rows = [
        ["JobID", "JobName", "State", "Submit", "Start", "End", "AllocTRES", "NodeList"],
        [
            "1",
            "a",
            "COMPLETED",
            "2024-01-01T00:00:00",
            "2024-01-01T00:01:00",
            "2024-01-01T01:01:00",
            "cpu=1,gres/gpu=4,node=2",
            "n[1,3]",
        ],
        ["2_[1,3]", "größe", "PENDING", "2024-01-01T00:00:00", "Unknown", "Unknown", "", "None assigned"],
    ];
    let text = |separator: &str| rows.map(|row| row.join(separator) + "\r\n").concat();
    let expected = render(&of_bytes(text("|").as_bytes()));
    for separator in ["|#", "^|^", "&", ";", "\t", ",", "||", "~", "\u{1f}"] {
        assert_eq!(render(&of_bytes(text(separator).as_bytes())), expected, "{separator:?}");
    }
    for mark in ["\u{feff}", ""] {
        let units: Vec<u16> = format!("{mark}{}", text("|")).encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
        assert_eq!((render(&of_bytes(&little)), render(&of_bytes(&big))), (expected.clone(), expected.clone()));
    }
}

/// Open XDMoD's older orders: without a quality of service, and with GRES in the place of what was given.
#[test]
fn older_orders_without_a_header() {
    let start = "7|7|elm|gpu|lab|staff|10|ana|1001|2024-03-04T10:00:00|2024-03-04T10:00:00|2024-03-04T10:00:05|\
                 2024-03-04T10:01:05|00:01:00|0:0|COMPLETED|1|4|4|8G";
    let tres = "cpu=4,gres/gpu=2,mem=8G,node=1";
    for middle in [format!("{tres}|{tres}"), format!("gpu:2|{tres}")] {
        let trace = of_bytes(format!("{start}|{middle}|00:10:00|e1|a|b\n").as_bytes());
        assert_eq!((trace.jobs.name.get(0), trace.jobs.req_gpus.get(0)), (Some("a|b"), Some(2.0)), "{middle}");
        assert_eq!(trace.jobs.nodes_hostlist.get(0), Some("e1"));
    }
}

/// A job of 2017, one of 2026 of the same number, and one that was queued again on the day: three jobs.
#[test]
fn a_number_used_again_is_another_job() {
    let header = "JobID|User|State|Submit|Start|End|AllocTRES\n";
    let row = |id: u32, user: &str, state: &str, [submit, start, end]: [&str; 3]| {
        format!("{id}|{user}|{state}|{submit}:00|{start}:00|{end}:00|cpu=1,gres/gpu=1,node=1\n")
    };
    let text = [
        row(5, "ana", "COMPLETED", ["2017-10-03T17:30", "2017-10-03T17:39", "2017-10-03T18:39"]),
        row(5, "ben", "COMPLETED", ["2026-08-20T10:00", "2026-08-20T10:05", "2026-08-20T14:05"]),
        row(6, "ben", "REQUEUED", ["2026-08-20T11:00", "2026-08-20T11:05", "2026-08-20T12:05"]),
        row(6, "ben", "COMPLETED", ["2026-08-20T12:06", "2026-08-20T12:10", "2026-08-20T13:10"]),
        // Preempted, and the number given to somebody else the next hour.
        row(7, "ben", "PREEMPTED", ["2026-08-20T11:00", "2026-08-20T11:05", "2026-08-20T12:05"]),
        row(7, "cem", "COMPLETED", ["2026-08-20T13:00", "2026-08-20T13:05", "2026-08-20T14:05"]),
    ];
    let trace = of_bytes((header.to_owned() + &text.concat()).as_bytes());
    let keys: Vec<Option<&str>> = trace.jobs.job_key.iter().collect();
    assert_eq!(keys, [Some("5"), Some("5@1787220000"), Some("6"), Some("7"), Some("7@1787230800")]);
    assert_eq!((gpu_hours(&trace), trace.ledger.kept, trace.ledger.quarantined), (9.0, 6, 0));
}

/// `JS1:` and the gzip of `{"nodes": {"g1": {"gpu_utilization": {"0": 50, "1": 25}, …}}, "gpus": 2}`: 37.5 %, and two GPUs that the list
/// of resources does not name.
#[test]
fn jobstats_tell_how_gpus_were_used() {
    let blob = "JS1:H4sIAAAAAAACA6tWystPSS1WslKoVko3hFAFpfGlJZk5mVWJJZn5eWAxAyBpaqCjoARSYmRaC2SBlJXklyTmxOem5uYXVcLVGcGU1dZC1RWDeQA/GxaUawAAAA==";
    let row = |id: u32, comment: &str| {
        format!("{id}|COMPLETED|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00|cpu=1,node=1|{comment}\n")
    };
    let rows = [row(1, blob), row(2, "JS1:Short"), row(3, "JS1:None"), row(4, "JS1:H4sIAAAA"), row(5, "by hand")];
    let header = "JobID|State|Submit|Start|End|AllocTRES|AdminComment\n";
    let trace = of_bytes((header.to_owned() + &rows.concat()).as_bytes());
    assert_eq!(trace.jobs.reported_gpu_util_ratio.iter().collect::<Vec<_>>(), [Some(0.375), None, None, None, None]);
    assert_eq!(trace.jobs.alloc_gpus.iter().collect::<Vec<_>>(), [Some(2.0), None, None, None, None]);
    assert_eq!((trace.ledger.count("bad_jobstats"), trace.ledger.repaired), (1, 1));
}

/// Answers of Slurm that are no accounting.
#[test]
fn live_jobs_and_errors_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("answer.json");
    let answer = |text: &str| -> Result<Trace> {
        std::fs::write(&path, text).unwrap();
        let reader = Some("sacct-json".to_owned());
        ingest::read(&[SourceFile::new(&path)], &ReadOptions { reader, ..ReadOptions::default() })
    };
    for state in [r#""RUNNING""#, r#"["PENDING"]"#] {
        let text = format!(
            r#"{{"meta": {{"slurm": {{}}}}, "jobs": [{{"job_id": 7, "job_state": {state}, "submit_time": 5}}]}}"#
        );
        let refused = answer(&text).unwrap_err().to_string();
        assert!(refused.contains("squeue --json") && refused.contains("sacct --json"), "{refused}");
        // Without being told which reader it is for.
        assert!(read(std::slice::from_ref(&path)).unwrap_err().to_string().contains("squeue --json"));
    }
    let error = r#"{"description": "Unable to query JobId=134", "error_number": 1007, "error": "Protocol authentication error"}"#;
    let failed = format!(r#"{{"meta": {{"plugin": {{"data_parser": "v0.0.40"}}}}, "jobs": [], "errors": [{error}]}}"#);
    let said = answer(&failed).unwrap_err().to_string();
    assert!(said.contains("Unable to query JobId=134, Protocol authentication error, error 1007"), "{said}");
    // Without being told which reader it is for.
    let said = read(std::slice::from_ref(&path)).unwrap_err().to_string();
    assert!(said.contains("Protocol authentication error"), "{said}");
    let job = r#"{"job_id": 7, "state": {"current": "COMPLETED"}, "time": {"submission": 5, "start": 6, "end": 9}}"#;
    let both = answer(&format!(r#"{{"jobs": [{job}], "errors": [{error}]}}"#)).unwrap();
    assert_eq!((both.jobs.job_key.iter().count(), both.ledger.damage.len()), (1, 1));
    assert_eq!(answer(&format!(r#"{{"jobs": [{job}], "errors": []}}"#)).unwrap().ledger.damage.len(), 0);
}

/// The cases that were read wrongly, with their right answers.
#[test]
fn the_cases_have_their_right_answers() {
    let case = |name: &str| real_trace(&format!("cases/{name}")).map(|path| read(&[path]).unwrap());
    let jobs = |trace: &Trace| (trace.jobs.job_key.iter().count(), gpu_hours(trace), trace.ledger.quarantined);
    if let Some(trace) = case("sacct-free-text/firecrest-148.txt") {
        assert_eq!(jobs(&trace), (3, 2.0, 0));
        let names: Vec<Option<&str>> = trace.jobs.name.iter().collect();
        assert_eq!(names, [Some("crazy|name"), Some("plain"), Some("crazy|name")]);
    }
    if let Some(trace) = case("sacct-free-text/bar-in-name-and-newline.txt") {
        assert_eq!(jobs(&trace), (2, 2.0, 0));
    }
    if let Some(trace) = case("sacct-recycled-ids/sacct.txt") {
        assert_eq!(jobs(&trace), (3, 21.0, 0));
    }
    if let Some(trace) = case("sacct-het-federation/sacct.txt") {
        // Two components of 123 on c1; 123 and the job of the federation on c2.
        assert_eq!(jobs(&trace), (4, 9.5, 0));
        assert_eq!(trace.ledger.count("revoked_sibling"), 1);
    }
    if let Some(trace) = case("suspended/sacct.txt") {
        let facts = JobFacts::new(&trace);
        assert_eq!((facts.run_s(0), facts.gpu_s(0)), (Some(3.0 * 3_600.0), Some(16.0 * 3_600.0)));
        let held: f64 =
            facts.stretches.iter().filter(|of| of.job == 0).map(|of| of.gpus * (of.end - of.start) as f64).sum();
        assert_eq!(held, 16.0 * 3_600_000.0);
        let cores = trace.jobs.alloc_cpus.get(0).unwrap() * facts.run_s(0).unwrap() / 3_600.0;
        assert_eq!(cores, 24.0);
    }
    if let Some(trace) = case("jobstats-admincomment/sacct.txt") {
        let of = |key: &str| {
            let job = (0..trace.jobs.job_key.iter().count()).find(|job| trace.jobs.job_key.get(*job) == Some(key));
            job.and_then(|job| trace.jobs.reported_gpu_util_ratio.get(job)).map(|ratio| (ratio * 1e6).round() / 1e6)
        };
        // 29.4 % of one GPU; 3.2 to 3.8 % of four; with four more at 7.2 to 7.8 %, 5.5 %; unknown where one of two GPUs has no figure.
        let found = ["8197399", "8189521", "8189521@1715327940", "8205464", "46044267", "45352405"].map(of);
        assert_eq!(found, [Some(0.294), Some(0.035), Some(0.055), None, None, None]);
    }
    if let Some(path) = real_trace("cases/slurm-live/22.05/error.json") {
        let said = read(&[path]).unwrap_err().to_string();
        assert!(said.contains("Unable to query JobId=134"), "{said}");
    }
    for name in ["21.08/squeue_out.json", "22.05/jobs.json", "24.11/slurm-jobs.json.gz"] {
        let Some(path) = real_trace(&format!("cases/slurm-live/{name}")) else { continue };
        let options = ReadOptions { reader: Some("sacct-json".to_owned()), ..ReadOptions::default() };
        let refused = ingest::read(&[SourceFile::new(path)], &options).unwrap_err().to_string();
        assert!(refused.contains("squeue --json"), "{name}: {refused}");
    }
}
