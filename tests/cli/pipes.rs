//! Sources that come through a pipe: a shell's `<(…)`, `/dev/stdin`, `-`. Each is read once and whole.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::{json, root, stderr, stdout};

/// A log of 20,000 jobs, 1 MB: far more than what a pipe or a buffer holds.
fn log() -> String {
    let line = |job: u32| format!("{job} {} 5 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n", job * 10);
    "; UnixStartTime: 1000\n; MaxProcs: 8\n".to_owned() + &(1..=20_000).map(line).collect::<String>()
}

fn bash(script: &str) -> Output {
    Command::new("bash").args(["-c", script]).env("TRACECAST", env!("CARGO_BIN_EXE_tracecast")).output().unwrap()
}

fn piped(arguments: &[&str], bytes: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    // A command that fails early does not read to the end.
    let _ = writer.join().unwrap();
    output
}

fn jobs_of(output: &Output) -> u64 {
    assert!(output.status.success(), "{}", stderr(output));
    json(&stdout(output))["quality"]["read"].as_u64().unwrap()
}

#[cfg(unix)]
#[test]
fn a_process_substitution_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.swf");
    std::fs::write(&path, log()).unwrap();
    let file = path.display();
    let direct = bash(&format!("$TRACECAST describe --format json {file}"));
    for script in [
        format!("$TRACECAST describe --reader swf --format json <(cat {file})"),
        format!("$TRACECAST describe --reader swf --format json <(gzip -c {file})"),
        format!("cat {file} | $TRACECAST describe --reader swf --format json /dev/stdin"),
        format!("cat {file} | $TRACECAST describe --reader swf --format json -"),
        format!("$TRACECAST describe --reader swf --format json - < {file}"),
        format!("$TRACECAST describe --reader swf --format json /dev/stdin < {file}"),
        format!(
            "mkfifo {file}.fifo; cat {file} > {file}.fifo & $TRACECAST describe --reader swf --format json {file}.fifo"
        ),
    ] {
        let output = bash(&script);
        assert_eq!((jobs_of(&output), jobs_of(&direct)), (20_000, 20_000), "{script}");
        let hash = |output: &Output| json(&stdout(output))["sources"][0]["sha256"].clone();
        if !script.contains("gzip") {
            assert_eq!(hash(&output), hash(&direct), "{script}");
        }
    }
}

#[test]
fn standard_input_is_recognised_without_being_named() {
    let output = piped(&["inspect", "-"], log().as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("20,000"), "{}", stdout(&output));
}

#[test]
fn rollup_reads_a_pipe_once() {
    let rows: String = (0..200_000).map(|job| format!("{},1,60\n", job * 1_000)).collect();
    let output =
        piped(&["query", "--standard", "--format", "json", "-"], format!("submit,alloc_gpus,run_s\n{rows}").as_bytes());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&stdout(&output))["rows"], 200_000);
}

/// An offers file that is named by no name is known by what it says, and said only once.
#[test]
fn offers_through_a_pipe_are_read_once() {
    let (offers, sample) = (root().join("datasets/offers/example.toml"), root().join("datasets/sample"));
    let offers = std::fs::read(offers).unwrap();
    let asked =
        ["plan", "rent", "fleet", sample.to_str().unwrap(), "--offers", "/dev/stdin", "--quiet", "--format", "json"];
    let output = piped(&asked, &offers);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(json(&stdout(&output))["mix"].as_array().is_some_and(|mix| !mix.is_empty()));
}

/// A table of prices is read once through a pipe, beside an offers file that comes from another
/// pipe.
#[cfg(unix)]
#[test]
fn a_table_of_prices_through_a_pipe_is_read_once() {
    let dir = tempfile::tempdir().unwrap();
    let (table, own) = (dir.path().join("cloud-gpus.csv"), dir.path().join("own"));
    let head = "Cloud,GPU Type,GPU Arch,GPUs,GPU RAM,vCPUs,RAM,On-demand,Per-GPU,Spot,Name\n";
    let types = ["A100-80GB", "V100", "RTX-3090", "T4", "H100", "A100", "A10", "P100"];
    let row = |gpu: &&str| format!("AWS,{gpu},Ampere,8,640,96,1152,40.97,5.12,,{gpu}.24xlarge\n");
    std::fs::write(&table, head.to_owned() + &types.iter().map(row).collect::<String>()).unwrap();
    std::fs::write(&own, "[[owned]]\nname = \"own\"\ngpu = \"T4\"\ngpus = 8\nprice = 90000\nyears = 5\n").unwrap();
    let (table, own, sample) = (table.display(), own.display(), root().join("datasets/sample"));
    let asked = format!("$TRACECAST plan rent fleet {} --quiet --format json --offers", sample.display());
    let mix = |script: String| {
        let output = bash(&script);
        assert!(output.status.success(), "{script}: {}", stderr(&output));
        json(&stdout(&output))["mix"].clone()
    };
    let direct = mix(format!("{asked} {table} --offers {own}"));
    assert!(direct.as_array().is_some_and(|mix| !mix.is_empty()));
    for script in [
        format!("{asked} <(cat {table}) --offers {own}"),
        format!("{asked} /dev/stdin --offers {own} < {table}"),
        format!("cat {table} | {asked} /dev/stdin --offers <(cat {own})"),
    ] {
        assert_eq!(mix(script.clone()), direct, "{script}");
    }
}

#[test]
fn parquet_through_a_pipe_is_refused_as_that() {
    let output = piped(&["query", "--standard", "-"], &[b"PAR1".as_slice(), &[0; 100]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("save it to a file"), "{}", stderr(&output));
}

/// Damage that the Parquet library trips over is told in one line, without its panic.
#[test]
fn a_damaged_parquet_file_prints_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("log.swf");
    std::fs::write(&source, log()).unwrap();
    let folder = dir.path().join("trace");
    let made = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["ingest", "--quiet", source.to_str().unwrap(), "--out", folder.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let table = folder.join("jobs.parquet");
    let whole = std::fs::read(&table).unwrap();
    // What the file says of itself stands at its end.
    for at in (whole.len().saturating_sub(12_000)..whole.len()).step_by(199) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5a;
        std::fs::write(&table, bytes).unwrap();
        for command in [&["inspect"][..], &["query", "--standard"]] {
            let output = Command::new(env!("CARGO_BIN_EXE_tracecast")).args(command).arg(&folder).output().unwrap();
            let told = stderr(&output);
            assert!(!told.contains("panicked") && !told.contains("RUST_BACKTRACE"), "byte {at}: {told}");
        }
    }
}
