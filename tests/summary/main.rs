//! The last of the test targets: says what was skipped, and why. With `TRACECAST_REQUIRE_TRACES` set, as `.ci/run` sets it where
//! the public traces are there, a test that did not find its trace, or no test that used one, is a failure.
#![allow(clippy::print_stdout, clippy::exit)]

use std::collections::BTreeMap;

use tracecast_tests::skipped::{self, Record};

fn main() {
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let (long, records): (Vec<Record>, Vec<Record>) =
        skipped::take().into_iter().partition(|record| record.needs == skipped::FULL);
    let (used, absent): (Vec<&Record>, Vec<&Record>) = records.iter().partition(|record| record.there);
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for record in &absent {
        tests.entry(&record.needs).or_default().push(&record.test);
    }
    println!("\nreal data: {} tests used theirs, {} were skipped as theirs is absent", count(&used), count(&absent));
    let left: Vec<&Record> = long.iter().filter(|record| !record.there).collect();
    if !left.is_empty() {
        println!("  {} tests are of the long tier, which {} runs", count(&left), skipped::FULL);
    }
    for (needs, tests) in &tests {
        println!("  skipped without {needs}: {}", tests.join(", "));
    }
    let lab = |record: &&&Record| record.needs.starts_with("a Slurm lab");
    let traces = absent.iter().filter(|record| !lab(record)).count();
    if std::env::var_os("TRACECAST_REQUIRE_TRACES").is_some() && (traces > 0 || used.is_empty()) {
        println!("the traces are there (TRACECAST_REQUIRE_TRACES), and not all tests used theirs: see above");
        std::process::exit(1);
    }
}

/// Tests among the records; one may need several things.
fn count(records: &[&Record]) -> usize {
    records.iter().map(|record| &record.test).collect::<std::collections::BTreeSet<_>>().len()
}
