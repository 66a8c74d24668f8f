//! Tests that were not run: tests whose data or lab are absent leave a record here, and the last
//! test target (`summary`) prints them all, as the test runner keeps what a passing test says to
//! itself.
//!
//! Records lie in a folder beside the test programs, one a run of `cargo test`, which is told by its process: programs of one
//! run have the same parent.

use std::path::{Path, PathBuf};

/// Setting that tests of the long tier need.
pub const FULL: &str = "TRACECAST_FULL=1";

/// A record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Data or setting that the test needed.
    pub needs: String,
    /// Whether it was there.
    pub there: bool,
    /// The test.
    pub test: String,
}

/// The folder of all records, and that of this run.
fn folders() -> Option<(PathBuf, PathBuf)> {
    let program = std::env::current_exe().ok()?;
    let all = program.parent()?.join("tracecast-skipped");
    let run = all.join(std::os::unix::process::parent_id().to_string());
    Some((all, run))
}

/// Leaves a record that the running test needs `needs`, and whether that is there. Where no record can be left, the test is not
/// the worse for it.
pub fn record(needs: &str, there: bool) {
    let Some((_, run)) = folders() else { return };
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(Path::file_stem).map_or_else(String::new, |name| {
        let name = name.to_string_lossy();
        name.rsplit_once('-').map_or_else(|| name.to_string(), |(name, _)| name.to_owned())
    });
    let thread = std::thread::current().name().unwrap_or("a thread").to_owned();
    let plain = |text: &str| text.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let mut name = plain(&format!("{program}-{thread}-{needs}"));
    name.truncate(200);
    let text = format!("{needs}\n{there}\n{program} {thread}\n");
    let _ = std::fs::create_dir_all(&run).and_then(|()| std::fs::write(run.join(name), text));
}

/// Takes all records of this run, in order, and removes those of other runs.
pub fn take() -> Vec<Record> {
    let Some((all, run)) = folders() else { return Vec::new() };
    let mut records: Vec<Record> = std::fs::read_dir(&run)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.ok()?.path()).ok()?;
            let mut lines = text.lines().map(str::to_owned);
            Some(Record { needs: lines.next()?, there: lines.next()? == "true", test: lines.next()? })
        })
        .collect();
    let _ = std::fs::remove_dir_all(all);
    records.sort();
    records
}
