//! Files described by mappings: the built-in ones, and the worked example of the manual.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tracecast_analytics::Trace;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::schema::Table;
use tracecast_analytics::time::{TimeBasis, Zone, format_utc};
use tracecast_tests::{check, conform, read, real_trace, render};

fn datasets(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/mappings").join(path)
}

fn read_with(data: &Path, mapping: &Path) -> tracecast_analytics::Result<Trace> {
    let options = ReadOptions { mapping: Some(mapping.to_owned()), ..ReadOptions::default() };
    ingest::read(&[SourceFile::new(data)], &options)
}

/// Microseconds from 2020-09-01 00:00 in Shanghai, which is 2020-08-31 16:00 UTC: 5,835 s are 1 h 37 min 15 s. The
/// time limit repeats the duration and is not read. Trap 26: job 13's duration is negative.
#[test]
fn the_helios_slice() {
    let trace = conform("mapping", &["mapping/helios_slice.csv"]);
    assert_eq!((trace.basis.clone(), trace.zone.as_str()), (TimeBasis::Local, "Asia/Shanghai"));
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (3 rows)
      cluster=Venus job_key=11 user=ua vc=vc-1 state=completed reported_state=COMPLETED submit=2020-08-31 16:00:00 censored=0 req_nodes=1 req_gpus=8 reported_run_s=60
      cluster=Venus job_key=12 user=ub vc=vc-2 state=cancelled reported_state=CANCELED submit=2020-08-31 17:37:15 censored=0 req_nodes=2 req_gpus=16 reported_run_s=24.5
      cluster=Venus job_key=13 user=ua vc=vc-1 gpu_type=V100 state=node_fail reported_state=NODE_FAIL submit=2020-09-01 16:00:00 censored=0 req_nodes=1 req_gpus=1
    quality: read 3 = kept 2 + repaired 1 + quarantined 0
      Repaired negative_value × 1 (lines 7)
    "#);
}

/// Columns of another trace without a known window: 1,500,000 µs are 1.5 s since the trace began.
#[test]
fn a_slice_of_another_trace() {
    let trace = conform("mapping", &["mapping/other_slice.csv"]);
    assert_eq!(trace.basis, TimeBasis::Relative);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (1 rows)
      job_key=21 user=ua vc=vc-1 job_type=pretrain gpu_type=A100 state=failed reported_state=FAILED submit=1970-01-01 00:00:01.500 censored=0 req_nodes=1 req_gpus=8 reported_run_s=60
    quality: read 1 = kept 1 + repaired 0 + quarantined 0
    "#);
}

/// Berlin is UTC+1 until 2024-03-31 02:00 and UTC+2 after: job 1001 came at 11:00 UTC, waited 30 and ran 120 minutes;
/// job 1002 came at a time that never was (trap 9), moved to 03:30 local = 01:30 UTC, noted for each of its three
/// times. Job 1003 runs, 1004 waits (trap 25) and has an unknown number of GPUs; its second row is an exact repeat, its
/// third another job of the same name. 64 GiB = 68,719,476,736 bytes.
#[test]
fn the_worked_example() {
    let trace = read_with(&datasets("example/site.csv"), &datasets("example/site.toml")).unwrap();
    check(&trace);
    assert_eq!((trace.basis.clone(), trace.zone.as_str()), (TimeBasis::Local, "Europe/Berlin"));
    let note = "site accounting: jobs that were cancelled while waiting are not exported.";
    assert_eq!(trace.notes, ["mapping: site accounting", note]);
    let word = trace.ledger.entries.iter().find(|entry| entry.reason == "unknown_state").unwrap();
    assert!(word.remedy.contains("`values`"), "{}", word.remedy);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (5 rows)
      cluster=site-a job_key=1001 user=ada vc=vision state=completed reported_state=ok submit=2024-03-30 11:00:00 start=2024-03-30 11:30:00 end=2024-03-30 13:30:00 censored=0 req_mem_bytes=68719476736 req_gpus=4 run_s=7200
      cluster=site-a job_key=1002 user=ben vc=speech state=failed reported_state=crash submit=2024-03-31 01:30:00 start=2024-03-31 01:30:00 end=2024-03-31 01:35:00 censored=0 req_mem_bytes=34359738368 req_gpus=2 run_s=300
      cluster=site-a job_key=1003 user=ada vc=vision state=running reported_state=going submit=2024-04-01 06:00:00 start=2024-04-01 06:15:00 censored=1 req_mem_bytes=137438953472 req_gpus=8
      cluster=site-a job_key=1004 user=cyd vc=vision state=pending reported_state=queued submit=2024-04-01 07:00:00 censored=1 req_mem_bytes=17179869184
      cluster=site-a job_key=1006 user=dan vc=speech state=unknown reported_state=exploded submit=2024-04-01 09:00:00 start=2024-04-01 09:01:00 end=2024-04-01 09:03:00 req_mem_bytes=8589934592 req_gpus=1 run_s=120
    quality: read 8 = kept 3 + repaired 2 + quarantined 3
      Quarantined duplicate_row × 1 (lines 8)
      Quarantined no_submit × 1 (lines 10)
      Quarantined repeated_key × 1 (lines 9)
      Repaired dst_gap × 3 (lines 4, 4, 4)
      Repaired unknown_state × 1 (lines 11)
    "#);
}

#[test]
fn the_manual_shows_the_example_as_it_is() {
    let manual = std::fs::read_to_string(datasets("README.md")).unwrap();
    for file in ["example/site.toml", "example/site.csv"] {
        let text = std::fs::read_to_string(datasets(file)).unwrap();
        assert!(manual.contains(&text), "datasets/mappings/README.md shows {file}");
    }
}

/// Any table can be filled: a price list, tab separated, with the separator told from the header.
#[test]
fn a_price_list_by_tabs() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mapping) = (dir.path().join("p.tsv"), dir.path().join("p.toml"));
    std::fs::write(&data, "type\tcents\tgpus\tram\na.1\t250\t4\t16\na.2\t\t8\t16\n").unwrap();
    let text = "table = \"prices\"\n[columns]\ninstance = { column = \"type\" }\nkind = { constant = \"ondemand\" }\n\
                usd_per_h = { column = \"cents\", scale = 0.01 }\ngpus = { column = \"gpus\" }\n\
                gpu_mem_bytes = { column = \"ram\", unit = \"GB\" }\n";
    std::fs::write(&mapping, text).unwrap();
    let trace = read_with(&data, &mapping).unwrap();
    insta::assert_snapshot!(render(&trace), @r#"
    prices (1 rows)
      instance=a.1 gpus=4 gpu_mem_bytes=16000000000 usd_per_h=2.5 kind=ondemand
    quality: read 2 = kept 1 + repaired 0 + quarantined 1
      Quarantined no_value × 1 (lines 3)
    "#);
}

/// Decimal commas where the mapping says so: 0,5 GPUs for 1,5 h = 5,400 s. Berlin's clocks went back from 03:00 to 02:00
/// on 2024-10-27 (01:00 UTC): a job that started at 02:50 and ended at 02:10 ran from 00:50 to 01:10 UTC, 1,200 s.
#[test]
fn decimal_commas_and_the_second_pass_of_a_fold() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mapping) = (dir.path().join("j.csv"), dir.path().join("j.toml"));
    std::fs::write(
        &data,
        "id;at;from;to;gpus;hours\n1;2024-10-27 01:30:00;2024-10-27 02:50:00;2024-10-27 02:10:00;0,5;1,5\n",
    )
    .unwrap();
    let text = |decimal: &str| {
        format!(
            "table = \"jobs\"\n[source]\nzone = \"Europe/Berlin\"\n{decimal}\n[columns]\njob_key = {{ column = \"id\" }}\n\
             submit = {{ column = \"at\" }}\nstart = {{ column = \"from\" }}\nend = {{ column = \"to\" }}\n\
             req_gpus = {{ column = \"gpus\" }}\nreported_run_s = {{ column = \"hours\", unit = \"h\" }}\n"
        )
    };
    std::fs::write(&mapping, text("decimal = \",\"")).unwrap();
    let trace = read_with(&data, &mapping).unwrap();
    check(&trace);
    insta::assert_snapshot!(render(&trace), @r#"
    jobs (1 rows)
      job_key=1 submit=2024-10-26 23:30:00 start=2024-10-27 00:50:00 end=2024-10-27 01:10:00 req_gpus=0.5 run_s=1200 reported_run_s=5400
    quality: read 1 = kept 0 + repaired 1 + quarantined 0
      Repaired dst_fold × 1 (lines 2)
      Repaired dst_fold_later × 1 (lines 2)
    "#);
    std::fs::write(&mapping, text("")).unwrap();
    let trace = read_with(&data, &mapping).unwrap();
    assert!(trace.jobs.req_gpus.is_all_unknown());
    let comma = trace.ledger.entries.iter().find(|entry| entry.reason == "decimal_comma").unwrap();
    assert!(comma.count == 2 && comma.remedy.contains("decimal = \",\""), "{comma:?}");
}

/// Dates as people type them: refused with the key that would be right, and read with it. 14:05 in Berlin in winter is 13:05 UTC.
#[test]
fn dates_that_do_not_begin_with_their_year() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mapping) = (dir.path().join("a.csv"), dir.path().join("a.toml"));
    let read = |rows: &str, source: &str| {
        std::fs::write(&data, format!("id;when\n{rows}")).unwrap();
        let columns = "[columns]\njob_key = { column = \"id\" }\nsubmit = { column = \"when\" }\n";
        std::fs::write(&mapping, format!("table = \"jobs\"\n[source]\nzone = \"Europe/Berlin\"\n{source}\n{columns}"))
            .unwrap();
        read_with(&data, &mapping).unwrap()
    };
    for text in ["31.12.2025", "31/12/2025 14:05", "12/31/2025 2:05 PM", "1.2.25 14:05"] {
        let trace = read(&format!("1;{text}\n"), "");
        assert_eq!(trace.ledger.quarantined, 1, "{text}");
        let entry = &trace.ledger.entries[0];
        assert!(entry.reason == "date_order" && entry.remedy.contains("time_unit = \"dmy\""), "{entry:?}");
    }
    let times = |rows: &str, source: &str| -> Vec<String> {
        read(rows, source).jobs.submit.iter().map(|at| at.map_or_else(|| "?".to_owned(), format_utc)).collect()
    };
    let days =
        "1;31.12.2025\n2;31/12/2025 14:05\n3;31-12-25, 2:05:30 pm\n4;2025-12-31 14:05\n5;31.12.2025 14:05+00:00\n";
    assert_eq!(
        times(days, "time_unit = \"dmy\""),
        [
            "2025-12-30 23:00:00",
            "2025-12-31 13:05:00",
            "2025-12-31 13:05:00",
            "2025-12-31 13:05:30",
            "2025-12-31 14:05:00"
        ]
    );
    assert_eq!(times("1;12/31/2025 12:05 AM\n", "time_unit = \"mdy\""), ["2025-12-30 23:05:00"]);
    // There is no month 31, and no such word.
    assert_eq!(read("1;12/31/2025\n2;soon\n", "time_unit = \"dmy\"").ledger.count("not_a_time"), 2);
}

#[test]
fn a_column_that_is_not_there_is_named_with_those_that_are() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("p.csv");
    std::fs::write(&data, "job;owner\n1;ada\n").unwrap();
    let error = read_with(&data, &datasets("example/site.toml")).unwrap_err().to_string();
    assert!(error.contains("only job, owner") && error.contains("optional = true"), "{error}");
    std::fs::write(&data, "").unwrap();
    assert!(read_with(&data, &datasets("example/site.toml")).is_err());
}

/// The facts are counted with a plain CSV loop.
#[test]
fn the_real_helios_slice() {
    let Some(path) = real_trace("helios/helios_venus_2vc_sept.csv") else { return };
    let mut plain = csv::ReaderBuilder::new().comment(Some(b'#')).from_path(&path).unwrap();
    let (mut jobs, mut gpus, mut seconds, mut completed) = (0, 0.0, 0.0, 0);
    for row in plain.records() {
        let row = row.unwrap();
        jobs += 1;
        gpus += row[5].parse::<f64>().unwrap();
        seconds += row[8].parse::<f64>().unwrap();
        completed += usize::from(&row[10] == "COMPLETED");
    }
    let trace = read(&[path]).unwrap();
    assert_eq!((trace.jobs.len(), trace.ledger.kept), (jobs, 1_867));
    assert_eq!(trace.jobs.req_gpus.iter().flatten().sum::<f64>(), gpus);
    assert_eq!(trace.jobs.reported_run_s.iter().flatten().sum::<f64>(), seconds);
    assert_eq!(trace.jobs.state.iter().filter(|state| *state == Some("completed")).count(), completed);
    assert!(trace.jobs.time_limit_s.is_all_unknown());
    // The first job came 5,835 s after midnight of Tuesday 2020-09-01.
    let first = trace.jobs.submit.get(0).unwrap();
    assert_eq!(format_utc(first), "2020-08-31 17:37:15");
    let local = Zone::named(&trace.zone).unwrap().local(first);
    assert_eq!((local.weekday, local.hour), (1, 1));
}

/// Trap 28: a file with a header and nothing else is a trace without rows; a truncated gzip gives its whole rows.
#[test]
fn header_only_and_truncated_gzip() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("p.csv.gz");
    let whole = std::fs::read_to_string(datasets("example/site.csv")).unwrap();
    let header = whole.lines().take(2).collect::<Vec<_>>().join("\r\n");
    std::fs::write(&data, &header).unwrap();
    let trace = read_with(&data, &datasets("example/site.toml")).unwrap();
    assert_eq!((trace.jobs.len(), trace.ledger.read), (0, 0));

    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    writeln!(encoder, "{header}").unwrap();
    for job in 0..10_000 {
        writeln!(encoder, "2024-03-30 12:00:00;{job};ada;vision;4;64;30;120;ok").unwrap();
    }
    let bytes = encoder.finish().unwrap();
    std::fs::write(&data, &bytes[..bytes.len() / 2]).unwrap();
    let trace = read_with(&data, &datasets("example/site.toml")).unwrap();
    assert!(trace.jobs.len() > 1_000 && trace.jobs.len() < 10_000);
    assert_eq!((trace.ledger.kept, trace.ledger.damage.len()), (trace.jobs.len() as u64, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever stands below the header, nothing panics and every row is accounted for.
    #[test]
    fn any_rows_are_accounted_for(rows in prop::collection::vec("[0-9:; .,a-z\"#-]{0,60}|\\PC{0,40}", 0..12)) {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("p.csv");
        let text = format!("submitted;job;owner;pool;gpus;memory;waited;ran;outcome\n{}\n", rows.join("\n"));
        std::fs::write(&data, text).unwrap();
        let trace = read_with(&data, &datasets("example/site.toml")).unwrap();
        prop_assert!(trace.ledger.balances());
        prop_assert_eq!(trace.jobs.len() as u64, trace.ledger.kept + trace.ledger.repaired);
    }
}
