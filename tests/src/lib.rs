//! Code shared by the tests: fixtures, the conformance kit every reader passes, and access to real
//! traces.
//!
//! Real traces lie outside the repository (`TRACECAST_TRACES`, or `../shared/traces` beside it). A test that needs one
//! calls [`real_trace`] and returns early when it is absent; the reason is printed, and the last test target sums up.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

pub mod bytes;
pub mod pairs;
pub mod reference;
pub mod skipped;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tracecast_analytics::Trace;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_analytics::schema::{ColumnKind, ColumnRef, Table};
use tracecast_analytics::storage;
use tracecast_analytics::time::format_utc;

/// The fixture at `path` below `tests/fixtures`.
pub fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(path)
}

/// The real trace at `path` below the traces folder, `None` (with a printed reason) where there is none.
pub fn real_trace(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("TRACECAST_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces"), PathBuf::from);
    let file = root.join(path);
    skipped::record(&file.display().to_string(), file.exists());
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is absent; set TRACECAST_TRACES to a folder with the public traces", file.display());
    None
}

/// Whether the long tier is run, which takes an hour: `TRACECAST_FULL=1`.
pub fn is_full() -> bool {
    std::env::var("TRACECAST_FULL").is_ok_and(|value| value == "1")
}

/// Whether the long tier is run, recorded for a test that belongs to it; the last test target says
/// how many were left out.
pub fn full_tier() -> bool {
    skipped::record(skipped::FULL, is_full());
    is_full()
}

/// Path of a real trace for a test of the long tier: one that takes a whole trace, of which small
/// cases are always run.
pub fn whole_trace(path: &str) -> Option<PathBuf> {
    full_tier().then(|| real_trace(path)).flatten()
}

/// Reads `paths` with sniffing.
///
/// # Errors
/// Errors of [`ingest::read`].
pub fn read(paths: &[PathBuf]) -> tracecast_analytics::Result<Trace> {
    ingest::read(&ingest::expand(paths)?, &ReadOptions::default())
}

/// The conformance kit: reads the fixtures `names` and checks what holds for every reader. Returns the trace.
///
/// * sniffing picks `reader` for every file;
/// * the ledger adds up and reading is repeatable;
/// * jobs are sorted by submit time and have keys;
/// * a trace folder gives back the same tables;
/// * cutting, doubling or garbling any fixture never panics, and the ledger still adds up.
pub fn conform(reader: &str, names: &[&str]) -> Trace {
    let paths: Vec<PathBuf> = names.iter().map(|name| fixture(name)).collect();
    for path in &paths {
        let file = SourceFile::new(path);
        let sniffed = ingest::sniff(&file).unwrap().map(tracecast_analytics::ingest::Reader::id);
        assert_eq!(sniffed, Some(reader), "sniffing {}", path.display());
    }
    let trace = read(&paths).unwrap();
    check(&trace);
    assert_eq!(render(&trace), render(&read(&paths).unwrap()), "reading twice gives the same");

    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("trace");
    storage::save(&trace, &folder).unwrap();
    let back = storage::load(&folder).unwrap();
    assert_eq!(render(&back), render(&trace), "a trace folder gives back the same tables");

    mangle(reader, &paths, dir.path());
    trace
}

/// Checks what holds for every trace.
pub fn check(trace: &Trace) {
    assert!(trace.ledger.balances(), "read = kept + repaired + quarantined: {:?}", trace.ledger);
    let submits: Vec<i64> = trace.jobs.submit.iter().map(|submit| submit.unwrap_or(i64::MAX)).collect();
    assert!(submits.is_sorted(), "jobs are sorted by submit time");
    assert!(trace.jobs.job_key.iter().all(|key| key.is_some()), "every job has a key");
    for ix in 0..trace.jobs.len() {
        if let (Some(start), Some(end)) = (trace.jobs.start.get(ix), trace.jobs.end.get(ix)) {
            assert!(start <= end, "job {ix} ends before it starts");
        }
        for gpus in [trace.jobs.req_gpus.get(ix), trace.jobs.alloc_gpus.get(ix)].into_iter().flatten() {
            assert!(gpus >= 0.0 && gpus.is_finite(), "job {ix} has {gpus} GPUs");
        }
    }
}

/// Damages each file in several deterministic ways and reads it: an error is fine, a panic is not.
fn mangle(reader: &str, paths: &[PathBuf], dir: &Path) {
    let options = || ReadOptions { reader: Some(reader.to_owned()), ..ReadOptions::default() };
    for path in paths {
        let whole = std::fs::read(path).unwrap();
        let target = dir.join(path.file_name().unwrap());
        let mut variants: Vec<Vec<u8>> = vec![Vec::new(), whole.repeat(2), whole.iter().rev().copied().collect()];
        for cut in [1, 7, whole.len() / 3, whole.len() / 2, whole.len().saturating_sub(3)] {
            variants.push(whole[..cut.min(whole.len())].to_vec());
        }
        // A small linear congruential generator: same damage on every run.
        let mut state = 0x2545_f491_u64;
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if bytes.is_empty() {
                    continue;
                }
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = [0, b'"', b',', b'\n', 0xff, b'-', b'9', b'{', b'|', b'='][(state >> 20) as usize % 10];
            }
            variants.push(bytes);
        }
        for bytes in variants {
            std::fs::write(&target, bytes).unwrap();
            if let Ok(trace) = ingest::read(&[SourceFile::new(&target)], &options()) {
                assert!(trace.ledger.balances(), "the ledger adds up on damaged {}", path.display());
            }
        }
    }
}

/// Every known cell of every table, one row a line: what golden tests compare.
pub fn render(trace: &Trace) -> String {
    let mut out = String::new();
    table(&trace.jobs, &mut out);
    table(&trace.attempts, &mut out);
    table(&trace.placements, &mut out);
    table(&trace.nodes, &mut out);
    table(&trace.capacity, &mut out);
    table(&trace.activity, &mut out);
    table(&trace.gpu_samples, &mut out);
    table(&trace.node_samples, &mut out);
    table(&trace.carbon, &mut out);
    table(&trace.prices, &mut out);
    table(&trace.availability, &mut out);
    let ledger = &trace.ledger;
    let _ = writeln!(
        out,
        "quality: read {} = kept {} + repaired {} + quarantined {}",
        ledger.read, ledger.kept, ledger.repaired, ledger.quarantined
    );
    for entry in &ledger.entries {
        let lines: Vec<String> = entry.examples.iter().map(|example| example.line.to_string()).collect();
        let _ = writeln!(out, "  {:?} {} × {} (lines {})", entry.outcome, entry.reason, entry.count, lines.join(", "));
    }
    for damage in &ledger.damage {
        let _ = writeln!(out, "  damaged after line {}", damage.after_line);
    }
    out
}

fn table<T: Table>(table: &T, out: &mut String) {
    if table.is_empty() {
        return;
    }
    let _ = writeln!(out, "{} ({} rows)", T::NAME, table.len());
    let columns = table.columns();
    for ix in 0..table.len() {
        out.push(' ');
        for (spec, column) in T::COLUMNS.iter().zip(&columns) {
            let cell = match column {
                ColumnRef::Text(text) => text.get(ix).map(str::to_owned),
                ColumnRef::Label(label) => label.get(ix).map(str::to_owned),
                ColumnRef::Num(num) => num.get(ix).map(|value| value.to_string()),
                ColumnRef::Int(int) if spec.kind == ColumnKind::Time => int.get(ix).map(format_utc),
                ColumnRef::Int(int) => int.get(ix).map(|value| value.to_string()),
            };
            if let Some(cell) = cell {
                let _ = write!(out, " {}={cell}", spec.name);
            }
        }
        out.push('\n');
    }
}
