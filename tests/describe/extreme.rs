//! Tables no source should give: every column of every table drawn from values that trip arithmetic (the furthest
//! times, the largest and smallest numbers, none), few enough of them that rows meet. Nothing panics, the JSON fits its schema, every
//! renderer draws the report, and a trace folder gives back the same.
//!
//! Overflow only panics where it is checked: run this with
//! `cargo test --config \'profile.release.package.tracecast-analytics.overflow-checks=true\' --release --test describe extreme`.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tracecast_analytics::Trace;
use tracecast_analytics::describe::{Description, json_schema, tables};
use tracecast_analytics::report::{Block, html, markdown, plot, text};
use tracecast_analytics::schema::{ColumnKind, ColumnMut, MOST_NUMBER, Table};
use tracecast_analytics::storage;
use tracecast_analytics::time::{FARTHEST_MS, TimeBasis};

use crate::contract::conforms;

/// Around 2023-11-14, where most rows lie, and the ends of what a time can be.
const TIMES: [i64; 16] = [
    1_700_000_000_000,
    1_700_000_000_001,
    1_700_000_060_000,
    1_700_000_360_000,
    1_700_003_600_000,
    1_700_010_000_000,
    1_700_086_400_000,
    1_700_172_800_000,
    1_702_000_000_000,
    1_710_000_000_000,
    0,
    -1,
    1,
    -86_400_000,
    FARTHEST_MS - 1,
    1 - FARTHEST_MS,
];
const WHOLE: [i64; 12] = [0, 1, 2, 3, 8, 64, -1, i64::MIN, i64::MAX, 1 << 53, 86_399, 7];
const REAL: [f64; 18] = [
    0.0,
    -0.0,
    0.22,
    0.5,
    1.0,
    1.0,
    2.0,
    8.0,
    8.0,
    60.0,
    3_600.0,
    100_000.0,
    1e6,
    -1.0,
    1e-9,
    1e15,
    MOST_NUMBER,
    -MOST_NUMBER,
];
const WORDS: [&str; 10] = ["a", "b", "c", "", " ", "é|,\"<&>\n", "vc", "cluster", "0", "n[1-3]"];
const STATES: [&str; 8] =
    ["completed", "failed", "cancelled", "running", "pending", "timeout", "node_fail", "no such state"];
const KEYS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "n[1-3],m"];
const ZONES: [&str; 4] = ["UTC", "America/Los_Angeles", "Asia/Kathmandu", "no such zone"];

/// Fills `table` with `rows` rows; `next(n)` draws a number below n.
fn fill<T: Table>(table: &mut T, rows: usize, plain: bool, next: &mut impl FnMut(usize) -> usize) {
    // In half of the traces the values at the end of each list are left out: then more topics have data.
    let times = if plain { 10 } else { TIMES.len() };
    let reals = if plain { 12 } else { REAL.len() };
    let whole = if plain { 6 } else { WHOLE.len() };
    for (spec, column) in T::COLUMNS.iter().zip(table.columns_mut()) {
        // A column is empty, sparse or full.
        let known = [0, 3, 4, 4][next(4)];
        let some = |next: &mut dyn FnMut(usize) -> usize| next(4) < known;
        match column {
            ColumnMut::Text(text) => {
                for _ in 0..rows {
                    let known = spec.name.ends_with("key") || some(next);
                    text.push(known.then(|| KEYS[next(KEYS.len())]));
                }
            }
            ColumnMut::Label(label) => {
                let words: &[&str] = if matches!(spec.name, "state" | "end_reason") { &STATES } else { &WORDS };
                for _ in 0..rows {
                    label.push(some(next).then(|| words[next(words.len())]));
                }
            }
            ColumnMut::Num(num) => (0..rows).for_each(|_| num.push(some(next).then(|| REAL[next(reals)]))),
            ColumnMut::Int(int) => {
                for _ in 0..rows {
                    let value = match spec.kind {
                        ColumnKind::Time => TIMES[next(times)],
                        ColumnKind::Flag => next(2) as i64,
                        _ => WHOLE[next(whole)],
                    };
                    int.push(some(next).then_some(value));
                }
            }
        }
    }
    table.grow(rows);
}

fn trace(seed: u64) -> Trace {
    let mut state = seed | 1;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    let plain = next(2) == 0;
    let mut trace = Trace {
        basis: [TimeBasis::Utc, TimeBasis::Local, TimeBasis::Relative, TimeBasis::RelativeWeek][next(4)].clone(),
        zone: ZONES[next(ZONES.len())].to_owned(),
        counts_gpus: next(2) == 0,
        ..Trace::default()
    };
    let mut rows = |most: usize| if next(4) == 0 { 0 } else { next(most) };
    let [jobs, attempts, placements, nodes, capacity, activity, gpu, node, carbon, prices, availability] =
        [60, 20, 60, 8, 8, 20, 40, 40, 6, 6, 6].map(&mut rows);
    fill(&mut trace.jobs, jobs, plain, &mut next);
    fill(&mut trace.attempts, attempts, plain, &mut next);
    fill(&mut trace.placements, placements, plain, &mut next);
    fill(&mut trace.nodes, nodes, plain, &mut next);
    fill(&mut trace.capacity, capacity, plain, &mut next);
    fill(&mut trace.activity, activity, plain, &mut next);
    fill(&mut trace.gpu_samples, gpu, plain, &mut next);
    fill(&mut trace.node_samples, node, plain, &mut next);
    fill(&mut trace.carbon, carbon, plain, &mut next);
    fill(&mut trace.prices, prices, plain, &mut next);
    fill(&mut trace.availability, availability, plain, &mut next);
    trace.finish();
    trace
}

#[test]
fn nothing_panics_on_tables_no_source_should_give() {
    let config = Config { cases: 60, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let folder = tempfile::tempdir().unwrap();
    let schema = json_schema();
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
        .run(&any::<u64>(), |seed| {
            let trace = trace(seed);
            let description = Description::new(&trace);
            let json = serde_json::to_string(&description).unwrap();
            let value = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(conforms(&value, &schema, &schema, ""), Ok(()));
            let report = description.report("Extremes");
            prop_assert!(html::render(&report).unwrap().contains("Extremes"));
            prop_assert!(markdown::render(&report).contains("Extremes"));
            prop_assert!(text::render(&report, text::TextOptions::default()).contains("Extremes"));
            for block in report.available().into_iter().flat_map(|section| &section.blocks) {
                let Block::Chart(chart) = block else { continue };
                prop_assert!(plot::svg(chart, plot::SvgUse::Standalone).unwrap().starts_with("<svg"));
            }
            let out = folder.path().join(format!("{seed}"));
            tables::save(&trace, &description, &out.join("tables")).unwrap();
            storage::save(&trace, &out.join("trace")).unwrap();
            let back = storage::load(&out.join("trace")).unwrap();
            prop_assert_eq!(serde_json::to_string(&Description::new(&back)).unwrap(), json);
            std::fs::remove_dir_all(&out).unwrap();
            Ok(())
        })
        .unwrap();
}
