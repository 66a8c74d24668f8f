//! The rollup at small scale: `cargo bench -p tracecast-analytics --bench rollup`.
//!
//! For changes to be seen while working on it; `benches/compare` has the comparison at full size.
#![allow(clippy::unwrap_used)]

use std::fmt::Write;
use std::path::PathBuf;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use tempfile::TempDir;
use tracecast_analytics::rollup::{Histogram, RollupOptions, run};
use tracecast_analytics::schema::{JobRow, JobTable};
use tracecast_analytics::storage::write_parquet;

const ROWS: usize = 200_000;

fn main() {
    divan::main();
}

/// Values of a made-up job: submit and end (milliseconds), GPUs, user. Multiplying by odd numbers scatters them.
fn job(row: usize) -> (i64, i64, u32, usize) {
    let scattered = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let submit = 1_502_753_220_000 + row as i64 * 60_000;
    (submit, submit + 1_000 + (scattered % 90_000_000) as i64, 1 << (scattered % 4), scattered % 300)
}

fn parquet_file() -> (TempDir, PathBuf) {
    let mut table = JobTable::default();
    for row in 0..ROWS {
        let (submit, end, gpus, user) = job(row);
        table.push(JobRow {
            submit: Some(submit),
            start: Some(submit),
            end: Some(end),
            req_gpus: Some(f64::from(gpus)),
            state: Some("completed".into()),
            user: Some(format!("user{user}").into()),
            ..JobRow::default()
        });
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.parquet");
    write_parquet(&table, &path).unwrap();
    (folder, path)
}

fn csv_file(time: fn(i64) -> String) -> (TempDir, PathBuf) {
    let mut text = "submit,start,end,req_gpus,state,user\n".to_owned();
    for row in 0..ROWS {
        let (submit, end, gpus, user) = job(row);
        let (submit, end) = (time(submit), time(end));
        writeln!(text, "{submit},{submit},{end},{gpus},completed,user{user}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.csv");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

fn bench_run(bencher: Bencher, threads: usize, (_folder, path): (TempDir, PathBuf)) {
    bencher.counter(ItemsCount::new(ROWS)).bench(|| run(&path, &RollupOptions { threads }).unwrap());
}

#[divan::bench(args = [1, 2])]
fn parquet(bencher: Bencher, threads: usize) {
    bench_run(bencher, threads, parquet_file());
}

#[divan::bench(args = [1, 2])]
fn csv_epoch_ms(bencher: Bencher, threads: usize) {
    bench_run(bencher, threads, csv_file(|ms| ms.to_string()));
}

#[divan::bench(args = [1, 2])]
fn csv_dates(bencher: Bencher, threads: usize) {
    bench_run(bencher, threads, csv_file(|ms| tracecast_analytics::time::format_utc(ms / 1_000 * 1_000)));
}

#[divan::bench]
fn histogram_add(bencher: Bencher) {
    let durations: Vec<u64> = (0..ROWS).map(|row| (job(row).1 - job(row).0) as u64).collect();
    bencher.counter(ItemsCount::new(ROWS)).bench(|| {
        let mut histogram = Histogram::default();
        durations.iter().for_each(|ms| histogram.add(black_box(*ms)));
        histogram
    });
}

#[divan::bench]
fn histogram_quantile(bencher: Bencher) {
    let mut histogram = Histogram::default();
    (0..ROWS).for_each(|row| histogram.add((job(row).1 - job(row).0) as u64));
    bencher.bench(|| black_box(&histogram).quantile_ms(black_box(99)));
}
