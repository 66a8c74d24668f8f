//! The command line as a user meets it: help, exit codes, streams, files. Runs the real binary.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tracecast_analytics::ingest::sha256;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fixture(path: &str) -> PathBuf {
    root().join("tests/fixtures").join(path)
}

/// Runs the command in the repository's root. Answers in text are whole, as with --details.
fn tracecast(arguments: &[&str]) -> Output {
    command(arguments).env("TRACECAST_DETAILS", "true").output().unwrap()
}

/// Runs the command as a user does.
fn tracecast_in_short(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tracecast"));
    command.args(arguments).current_dir(root()).env("NO_COLOR", "1").env_remove("COLUMNS");
    command
}

/// Asserts that an answer is the same, byte for byte, whatever the number of threads.
fn is_the_same_with_any_threads(arguments: &[&str]) {
    let with = |threads: &str| {
        let output = tracecast(&[arguments, &["--format", "json", "--threads", threads]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    assert!(with("1") == with("2"));
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// Three jobs worked out by hand, one row that cannot be used.
const JOBS: &str = "\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1,ua,va,1,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 01:00:10,3600,10
2,ub,va,8,32,1,FAILED,2020-04-01 00:10:00,2020-04-01 00:10:00,2020-04-01 02:10:00,7200,0
3,ua,vb,0,4,1,COMPLETED,2020-04-01 00:20:00,2020-04-01 00:20:00,2020-04-01 00:21:00,60,0
4,ua,vb,1,4
";

mod against;
mod allocation;
mod attack;
mod audit;
mod bill;
mod burst;
mod capacity;
mod cloud;
mod cluster;
mod damage;
mod defer;
mod demand;
mod fleet;
mod guide;
mod hostile;
mod hosts;
mod instances;
mod interference;
mod limits;
mod mig;
mod overwrite;
mod pairs;
mod pipes;
mod plan;
mod power;
mod predict;
mod promise;
mod published;
mod query;
mod questions;
mod queues;
mod quotas;
mod report;
mod schema;
mod serving;
mod settings;
mod sharing;
mod simulate;
mod simulate_sharing;
mod site;
mod spot;
mod tables;
mod topology;
mod utilisation;
mod when;
mod window;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Names in the folder, hidden ones included: leftovers show.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(self.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn formats_lists_every_reader() {
    insta::assert_snapshot!(stdout(&tracecast(&["formats"])));
}

#[test]
fn the_numbers_of_a_hand_worked_trace() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["describe", &source, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(found["schema"], "describe/3");
    // 1 GPU · 1 h + 8 GPUs · 2 h.
    assert_eq!((&found["summary"]["jobs"], &found["summary"]["gpu_jobs"]), (&3.into(), &2.into()));
    assert_eq!(found["summary"]["gpu_hours"], 17.0);
    let sizes = found["size"]["by_gpus"].as_array().unwrap();
    let of = |ix: usize, key: &str| sizes[ix][key].as_f64().unwrap();
    assert_eq!([of(0, "gpus"), of(0, "jobs"), of(0, "gpu_hours")], [1.0, 1.0, 1.0]);
    assert_eq!([of(1, "gpus"), of(1, "jobs"), of(1, "gpu_hours")], [8.0, 1.0, 16.0]);
    let quality = |key: &str| found["quality"][key].as_u64().unwrap();
    assert_eq!((quality("read"), quality("kept"), quality("repaired"), quality("quarantined")), (4, 3, 0, 1));
    assert_eq!(found["quality"]["entries"][0]["examples"][0]["line"], 5);
}

#[test]
fn a_trace_folder_answers_like_its_source() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let (trace, rows) = (folder.path("trace"), folder.path("bad.jsonl"));
    let output = tracecast(&["ingest", &source, "--out", &trace, "--quarantine", &rows]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).is_empty(), "data only on stdout");
    assert!(stderr(&output).contains("4 rows read = 3 kept + 0 repaired + 1 quarantined"));
    let row = json(std::fs::read_to_string(&rows).unwrap().lines().next().unwrap());
    assert_eq!((row["line"].as_u64(), row["row"].as_str()), (Some(5), Some("4,ua,vb,1,4")));
    let of = |what: &str| stdout(&tracecast(&["describe", what, "--format", "json"]));
    assert_eq!(of(&trace), of(&source));
    let title = |what: &str| stdout(&tracecast(&["describe", what])).lines().next().unwrap_or_default().to_owned();
    assert_eq!((title(&trace), title(&source)), ("trace".to_owned(), "cluster_log.csv".to_owned()));
    // Ingesting again replaces the folder only if asked to, with the same bytes.
    let jobs = std::fs::read(Path::new(&trace).join("jobs.parquet")).unwrap();
    let again = tracecast(&["ingest", &source, "--out", &trace]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert!(tracecast(&["ingest", &source, "--out", &trace, "--force"]).status.success());
    assert_eq!(std::fs::read(Path::new(&trace).join("jobs.parquet")).unwrap(), jobs);
    assert_eq!(folder.names(), ["bad.jsonl", "cluster_log.csv", "trace"]);
}

#[test]
fn exit_codes_are_the_documented_ones() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let code = |arguments: &[&str]| {
        let output = tracecast(arguments);
        (output.status.code().unwrap(), stderr(&output))
    };
    assert_eq!(code(&["describe", &source]).0, 0);
    assert_eq!(code(&["describe"]).0, 2);
    assert_eq!(code(&["frobnicate"]).0, 2);

    let (missing, message) = code(&["describe", &folder.path("no.csv")]);
    assert!(
        missing == 1 && message.contains("no.csv: No such file or directory (os error 2); check the path"),
        "{message}"
    );
    let (strict, message) = code(&["describe", &source, "--strict"]);
    assert!(strict == 3 && message.contains("line 5"), "{message}");
    let (unknown, message) = code(&["describe", &folder.file("poem.txt", "roses are red\n")]);
    assert!(unknown == 4 && message.contains("--mapping"), "{message}");
    assert!(message.contains("tracecast formats") && message.len() < 300, "no list of all readers: {message}");
    let (empty, message) = code(&["describe", &folder.file("empty.csv", "")]);
    assert!(empty == 1 && message.contains("empty"), "{message}");
    let (zone, message) = code(&["describe", &source, "--timezone", "Mars/Olympus"]);
    assert!(zone == 2 && message.contains("Mars/Olympus"), "{message}");
    let (reader, message) = code(&["describe", &source, "--reader", "nope"]);
    assert!(reader == 2 && message.contains("tracecast formats"), "{message}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A POSIX tar header of 512 bytes: the name first, `ustar` at byte 257; then the file, filled up to 512 bytes.
fn tar(name: &str, text: &str) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[257..262].copy_from_slice(b"ustar");
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().div_ceil(512) * 512, 0);
    bytes
}

#[test]
fn an_archive_is_told_as_one() {
    let folder = Folder::new();
    for (name, bytes, what) in [
        ("a.tar.gz", gzip(&tar("cluster_log.csv", JOBS)), "tar archive"),
        ("a.tar", tar("cluster_log.csv", JOBS), "tar archive"),
        ("a.zip", b"PK\x03\x04\x14\0\0\0".to_vec(), "zip archive"),
    ] {
        let path = folder.path(name);
        std::fs::write(&path, bytes).unwrap();
        for more in [&[][..], &["--reader", "helios"]] {
            let output = tracecast(&[&["describe", &path][..], more].concat());
            assert_eq!(output.status.code(), Some(4), "{name}");
            let message = stderr(&output);
            assert!(message.contains(what) && message.contains("name the folder"), "{message}");
        }
    }
    let output = tracecast(&["describe", &folder.path("")]);
    assert_eq!(output.status.code(), Some(4), "archives only");
    folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["describe", &folder.path(""), "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let found = json(&stdout(&output));
    assert_eq!(found["summary"]["jobs"], 3);
    assert!(found.to_string().contains("a.tar is a tar archive and was not read"), "{found}");
}

#[test]
fn a_truncated_file_is_damage_under_strict() {
    let folder = Folder::new();
    let path = folder.path("cluster_log.csv.gz");
    // Stored, so that half of the file is half of the rows.
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    let header = JOBS.lines().next().unwrap();
    writeln!(encoder, "{header}").unwrap();
    for job in 0..20_000 {
        let times = "2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 01:00:10,3600,10";
        writeln!(encoder, "{job},ua,va,1,4,1,COMPLETED,{times}").unwrap();
    }
    let whole = encoder.finish().unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let output = tracecast(&["describe", &path]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = tracecast(&["describe", &path, "--strict"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("ends early"), "{}", stderr(&output));
    // Too short for a reader to know it.
    for length in [12, 20] {
        std::fs::write(&path, &whole[..length]).unwrap();
        let output = tracecast(&["describe", &path]);
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains("truncated"), "{}", stderr(&output));
        assert_eq!(tracecast(&["describe", &path, "--strict"]).status.code(), Some(3));
    }
}

#[test]
fn quarantined_rows_are_written_before_strict_fails() {
    let folder = Folder::new();
    // A second reason: a row without a job id.
    let source = folder.file("cluster_log.csv", &format!("{JOBS},ua,va,1,4,1,COMPLETED,2020-04-01 00:00:00,,,,\n"));
    let (rows, out) = (folder.path("bad.jsonl"), folder.path("trace"));
    for command in [&["inspect", &source][..], &["ingest", &source, "--out", &out]] {
        let output = tracecast(&[command, &["--strict", "--quarantine", &rows]].concat());
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("1 other reason"), "{}", stderr(&output));
        assert_eq!(std::fs::read_to_string(&rows).unwrap().lines().count(), 2);
        std::fs::remove_file(&rows).unwrap();
    }
    assert_eq!(folder.names(), ["cluster_log.csv"]);
}

#[test]
fn binary_input_does_not_reach_the_terminal() {
    let folder = Folder::new();
    let path = folder.path("bin.dat");
    let bytes: Vec<u8> = (0..=255u8).cycle().take(4_096).collect();
    std::fs::write(&path, bytes).unwrap();
    for command in ["query --standard", "describe", "inspect"] {
        let words: Vec<&str> = command.split(' ').chain([path.as_str()]).collect();
        let output = tracecast(&words);
        assert_eq!(output.status.code(), Some(4), "{command}: {}", stderr(&output));
        let message = stderr(&output);
        assert!(!message.trim_end().chars().any(char::is_control) && message.len() < 1_000, "{command}: {message:?}");
    }
}

#[test]
fn a_trace_folder_and_a_file_are_one_trace() {
    let folder = Folder::new();
    let first = folder.file("cluster_log.csv", JOBS);
    let later =
        folder.file("later_log.csv", &JOBS.replace("\n1,", "\n11,").replace("\n2,", "\n12,").replace("\n3,", "\n13,"));
    let kept = folder.path("kept");
    assert!(tracecast(&["ingest", &first, "--out", &kept]).status.success());
    let output = tracecast(&["describe", &kept, &later, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    // Three usable jobs in each.
    assert_eq!(json(&stdout(&output))["summary"]["jobs"], 6);
}

#[test]
fn a_mapping_is_told_as_a_source() {
    let (data, mapping) = ("datasets/mappings/example/site.csv", "datasets/mappings/example/site.toml");
    let output = tracecast(&["inspect", data, "--mapping", mapping]);
    let text = stdout(&output);
    assert!(text.starts_with("site.csv\n"), "the title names the data, not the mapping: {text}");
    assert!(text.contains("mapping: site accounting"), "{text}");
    let output = tracecast(&["describe", data, "--mapping", mapping, "--format", "json"]);
    let found = json(&stdout(&output));
    let sources = found["sources"].as_array().unwrap();
    assert_eq!((sources.len(), sources[1]["reader"].as_str()), (2, Some("mapping file")));
    assert_eq!(sources[1]["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn parts_of_an_answer_its_width_and_json_in_short() {
    let sample = "datasets/sample";
    let whole = stdout(&tracecast(&["describe", sample]));
    let part = tracecast(&["describe", sample, "--section", "size,wait"]);
    assert!(part.status.success(), "{}", stderr(&part));
    let part = stdout(&part);
    assert!(part.contains("Job sizes") && part.contains("How long jobs wait"), "{part}");
    assert!(whole.contains("Load by VC") && !part.contains("Load by VC") && part.len() < whole.len() / 3, "{part}");
    assert!(whole.contains("Data quality") && !part.contains("Data quality"), "{part}");
    let ledger = stdout(&tracecast(&["describe", sample, "--section", "data-quality"]));
    assert!(ledger.contains("Data quality") && !ledger.contains("Job sizes"), "{ledger}");
    let unknown = tracecast(&["describe", sample, "--section", "sizes"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("no section `sizes`; it has ") && stderr(&unknown).contains("size"));
    assert_eq!(
        stdout(&tracecast(&["describe", sample, "--json"])),
        stdout(&tracecast(&["describe", sample, "--format", "json"]))
    );
    for refused in [["--json", "--section", "size"].as_slice(), &["--format", "json", "--section", "size"]] {
        let refused = tracecast(&[&["describe", sample], refused].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    }
    let narrow = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["describe", sample])
        .current_dir(root())
        .env("COLUMNS", "60")
        .output()
        .unwrap();
    let widest = stdout(&narrow).lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 60), "{widest:?}");
}

#[test]
fn a_header_without_rows_is_told_as_such() {
    let folder = Folder::new();
    let header = JOBS.lines().next().unwrap();
    let source = folder.file("cluster_log.csv", &format!("{header}\n"));
    let output = tracecast(&["describe", &source]);
    assert!(output.status.success());
    let message = stderr(&output);
    assert!(message.contains("no rows: ") && message.contains("a header and nothing else"), "{message}");
    let strict = tracecast(&["describe", &source, "--strict"]);
    assert_eq!(strict.status.code(), Some(1), "{}", stderr(&strict));
    assert!(stderr(&strict).contains("no rows"), "{}", stderr(&strict));
    assert!(stdout(&output).contains("the source holds no jobs"), "{}", stdout(&output));
}

#[test]
fn every_form_is_written_and_repeatable() {
    let folder = Folder::new();
    let source = fixture("openb").display().to_string();
    for (form, mark) in
        [("table", "The trace at a glance"), ("markdown", "# "), ("html", "<!DOCTYPE html>"), ("json", "{")]
    {
        let once = tracecast(&["describe", &source, "--format", form]);
        assert!(once.status.success(), "{}", stderr(&once));
        assert!(stdout(&once).to_lowercase().contains(&mark.to_lowercase()), "{form}");
        let threads = tracecast(&["--threads", "1", "describe", &source, "--format", form]);
        assert_eq!(once.stdout, threads.stdout, "{form}: the same bytes whatever the number of threads");
    }
    let (page, charts, tables) = (folder.path("page.html"), folder.path("charts"), folder.path("tables"));
    let output =
        tracecast(&["describe", &source, "--format", "html", "--out", &page, "--charts", &charts, "--tables", &tables]);
    assert!(output.status.success() && output.stdout.is_empty());
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(!html.contains("http://") || html.matches("http://").count() == html.matches("http://www.w3.org").count());
    assert!(!html.contains("<script"));
    let names = |path: &str| {
        std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let charts = names(&charts);
    assert!(charts.iter().any(|name| name == "size-cdf.svg") && charts.iter().any(|name| name == "size-cdf.png"));
    assert!(charts.iter().chain(&names(&tables)).all(|name| !name.ends_with("partial")));
    let size: Vec<u8> = std::fs::read(Path::new(&folder.path("tables")).join("size.by_gpus.parquet")).unwrap();
    assert_eq!(&size[..4], b"PAR1");
}

#[test]
fn report_without_an_argument_is_on_the_bundled_sample() {
    let folder = Folder::new();
    let out = folder.path("report");
    let output = tracecast(&["report", "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("Synthetic"), "the sample is stated to be synthetic: {text}");
    assert!(std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap().contains("Synthetic"));
    let data = json(&std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    assert!(data["summary"]["jobs"].as_u64().unwrap() > 1_000);
    // What one pool would do is shown by a replay, beside what the VCs as they stand do.
    let pooling = &data["pooling"];
    let waited = |of: &str| pooling["replays"][0][of]["gpu_hours"].as_f64().unwrap();
    assert!(data["pooling_missing"].is_null() && waited("apart") > waited("pooled"), "{pooling}");
    let html = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    let lines = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        html.contains("What one pool would do to the same jobs") && lines.contains("on one pool of the same"),
        "{text}"
    );
}

/// A trace without the nodes of its VCs gets one line that says so, and no verdict.
#[test]
fn a_report_without_capacity_says_why_it_replays_no_pool() {
    let folder = Folder::new();
    let (out, jobs) = (folder.path("report"), folder.path("cluster_log.csv"));
    std::fs::write(&jobs, JOBS).unwrap();
    let output = tracecast(&["report", &jobs, "--out", &out]);
    assert!(output.status.success(), "{}", stderr(&output));
    let data = json(&std::fs::read_to_string(Path::new(&out).join("report.json")).unwrap());
    assert_eq!(
        (&data["pooling"], data["pooling_missing"].as_str()),
        (&serde_json::Value::Null, Some("the source does not say how many GPUs its VCs have"))
    );
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tracecast"))
        .args(["describe", "datasets/sample", "--format", "html"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0u8; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    // The pipe is closed here, with most of the page unwritten.
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

#[test]
fn an_output_that_is_not_ours_is_left_alone() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let taken = folder.path("taken");
    std::fs::create_dir(&taken).unwrap();
    std::fs::write(Path::new(&taken).join("thesis.tex"), "precious").unwrap();
    let output = tracecast(&["ingest", &source, "--out", &taken]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no trace folder that tracecast wrote"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(Path::new(&taken).join("thesis.tex")).unwrap(), "precious");
    assert_eq!(folder.names(), ["cluster_log.csv", "taken"]);
}

#[test]
fn inspect_shows_and_writes_what_was_not_used() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let output = tracecast(&["inspect", &source, "--format", "json"]);
    let found = json(&stdout(&output));
    assert_eq!((found["read"].as_u64(), found["quarantined"].as_u64()), (Some(4), Some(1)));
    let text = stdout(&tracecast(&["inspect", &source]));
    assert!(text.contains("4 rows read = 3 kept + 0 repaired + 1 quarantined"), "{text}");
}

#[test]
fn rollup_and_describe_agree_on_what_both_say() {
    // The hand-worked trace has no running jobs, the sample has some: both count them until the end of the observation.
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", JOBS);
    let trace = folder.path("trace");
    assert!(tracecast(&["ingest", &source, "--out", &trace]).status.success());
    for source in ["datasets/sample", trace.as_str()] {
        let described = json(&stdout(&tracecast(&["describe", source, "--format", "json"])));
        let rolled = json(&stdout(&tracecast(&["query", "--standard", source, "--format", "json"])));
        assert_eq!(rolled["rows"], described["summary"]["jobs"]);
        for size in described["size"]["by_gpus"].as_array().unwrap() {
            let same = rolled["size"].as_array().unwrap().iter().find(|other| other["gpus"] == size["gpus"]).unwrap();
            assert_eq!(same["jobs"], size["jobs"]);
            let [rolled, described] = [same, size].map(|of| of["gpu_hours"].as_f64().unwrap());
            assert!((rolled - described).abs() <= 1e-6 * described, "{source}: {rolled} and {described} GPU-hours");
        }
    }
}

/// A fixture of the format, compressed and cut off: its rows are used, unless `--strict` says that all must be there.
#[test]
fn a_cut_off_file_is_used_but_not_strictly() {
    let folder = Folder::new();
    // Of a gzip member in one stored block: header, a block said to be 500 bytes long, and JOBS, which is shorter.
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1, 0xf4, 0x01, 0x0b, 0xfe];
    bytes.extend(JOBS.as_bytes());
    assert!(JOBS.len() < 500);
    let file = folder.path("cluster_log.csv.gz");
    std::fs::write(&file, bytes).unwrap();
    let output = tracecast(&["describe", &file, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(json(&stdout(&output))["quality"]["damage"].as_array().unwrap().len(), 1);
    let strict = tracecast(&["describe", &file, "--strict"]);
    assert_eq!(strict.status.code(), Some(3), "{}", stderr(&strict));
}

/// Schemas are printed by `tracecast schema`; `schemas.txt` holds a hash of each. Where this fails, either the change was not
/// meant, or it only adds and the hashes are written anew (`TRACECAST_WRITE=1 cargo test --release --test cli schemas`), or it
/// breaks readers and takes a new version.
#[test]
fn schemas_change_only_on_purpose() {
    let listed = stdout(&tracecast(&["schema", "--help"]));
    let names = listed.lines().filter_map(|line| line.strip_prefix("          - ")?.split(':').next());
    let mut hashes = String::new();
    for name in names {
        let mut output = tracecast(&["schema", name]);
        if stderr(&output).contains("add --example") {
            output = tracecast(&["schema", name, "--example"]);
        }
        assert!(output.status.success(), "{}", stderr(&output));
        hashes.push_str(&format!("{name} {}\n", &sha256(&output.stdout)[..16]));
    }
    assert!(hashes.lines().count() > 30, "{listed}");
    let path = root().join("tests/cli/schemas.txt");
    if std::env::var_os("TRACECAST_WRITE").is_some() {
        std::fs::write(&path, &hashes).unwrap();
    }
    let held = std::fs::read_to_string(&path).unwrap();
    let not_in = |lines: &str, others: &str| -> Vec<String> {
        lines.lines().filter(|line| !others.lines().any(|other| other == *line)).map(str::to_owned).collect()
    };
    assert!(hashes == held, "now {:?}, before {:?}", not_in(&hashes, &held), not_in(&held, &hashes));
}

/// The mapping that is printed reads the file that it was written for.
#[test]
fn the_example_of_a_mapping_works() {
    let folder = Folder::new();
    let mapping = folder.file("site.toml", &stdout(&tracecast(&["schema", "mapping", "--example"])));
    let source = "datasets/mappings/example/site.csv";
    let output = tracecast(&["describe", source, "--mapping", &mapping, "--format", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let refused = tracecast(&["schema", "describe", "--example"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
}

#[test]
fn completions_are_printed() {
    assert!(stdout(&tracecast(&["completions", "bash"])).contains("tracecast"));
}

#[test]
fn synth_does_not_replace_a_trace_folder_unless_told_to() {
    let folder = Folder::new();
    let out = folder.path("made");
    let made = tracecast(&["synth", "datasets/specs/sample.toml", "--out", &out]);
    assert!(made.status.success(), "{}", stderr(&made));
    let jobs = std::fs::read(Path::new(&out).join("jobs.parquet")).unwrap();
    let again = tracecast(&["synth", "datasets/specs/sample.toml", "--seed", "2", "--out", &out]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("--force"), "{}", stderr(&again));
    assert_eq!(std::fs::read(Path::new(&out).join("jobs.parquet")).unwrap(), jobs, "nothing was replaced");
    let forced = tracecast(&["synth", "datasets/specs/sample.toml", "--seed", "2", "--out", &out, "--force"]);
    assert!(forced.status.success(), "{}", stderr(&forced));
    assert_ne!(std::fs::read(Path::new(&out).join("jobs.parquet")).unwrap(), jobs);
}

/// `describe` and `simulate` define the nodes that run GPU jobs alike.
#[test]
fn describe_and_simulate_count_the_same_nodes() {
    let answer = |args: &[&str]| {
        let output = tracecast(args);
        assert!(output.status.success(), "{}", stderr(&output));
        json(&stdout(&output))
    };
    let described = answer(&["describe", "datasets/sample", "--format", "json"]);
    let replayed = answer(&["simulate", "datasets/sample", "--format", "json"]);
    assert_eq!(described["summary"]["gpu_nodes"], replayed["subject"]["nodes"]);
}

#[test]
fn rollup_and_synth_do_not_depend_on_the_number_of_threads() {
    let rolled = |threads: &str| {
        tracecast(&["--threads", threads, "query", "--standard", "datasets/sample", "--format", "json"]).stdout
    };
    assert_eq!(rolled("1"), rolled("4"));
    let folder = Folder::new();
    let made = |threads: &str| {
        let out = folder.path(threads);
        assert!(
            tracecast(&["--threads", threads, "synth", "datasets/specs/sample.toml", "--out", &out]).status.success()
        );
        let mut files: Vec<PathBuf> = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.iter().map(|file| std::fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    assert!(made("1") == made("4"), "the same bytes");
}
