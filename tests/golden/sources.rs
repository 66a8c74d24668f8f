//! Sources of rows: folders at every depth, links, FIFOs, pipes, old line ends, documents that blow
//! up, columns that come twice. Nothing is dropped without an entry.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use tracecast_analytics::ingest::{self, ReadOptions, SourceFile};
use tracecast_tests::{check, fixture, read, render};

fn read_as(reader: &str, path: &Path) -> tracecast_analytics::Result<tracecast_analytics::Trace> {
    let options = ReadOptions { reader: Some(reader.to_owned()), ..ReadOptions::default() };
    ingest::read(&[SourceFile::new(path)], &options)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const SWF: &str = "; UnixStartTime: 1000\n; MaxProcs: 8\n";

fn swf_line(job: u32) -> String {
    format!("{job} {} 5 30 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n", job * 10)
}

/// Two files three folders down, and two below a folder that a link leads back to; a link that leads nowhere and a FIFO
/// are named, and make the trace damaged: what was asked for was not read.
#[cfg(unix)]
#[test]
fn a_folder_is_read_at_every_depth_and_what_cannot_be_read_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("2024/05/logs");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("a.swf"), format!("{SWF}{}", swf_line(1))).unwrap();
    std::fs::write(dir.path().join("b.swf"), format!("{SWF}{}", swf_line(1))).unwrap();
    std::os::unix::fs::symlink(dir.path(), deep.join("up")).unwrap();
    std::os::unix::fs::symlink("nowhere", dir.path().join("gone.swf")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    let trace = read(&[dir.path().to_owned()]).unwrap();
    check(&trace);
    assert_eq!(trace.jobs.job_key.iter().collect::<Vec<_>>(), [Some("a/1"), Some("b/1")]);
    let damaged: Vec<&str> = trace.ledger.damage.iter().map(|damage| damage.file.rsplit('/').next().unwrap()).collect();
    assert_eq!(damaged, ["gone.swf", "pipe"]);
    assert_eq!(trace.skipped.len(), 2);
    assert!(trace.notes.iter().any(|note| note.contains("gone.swf was not read: it is a link that leads nowhere")));
    let strict = ReadOptions { strict: true, ..ReadOptions::default() };
    assert!(ingest::read(&ingest::expand(&[dir.path().to_owned()]).unwrap(), &strict).is_err());
}

/// A trace folder among the sources holds the same rows once more: it is named and left out.
#[test]
fn a_trace_folder_below_a_folder_of_sources_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.swf");
    std::fs::write(&source, format!("{SWF}{}", swf_line(1))).unwrap();
    let trace = read(&[source]).unwrap();
    tracecast_analytics::storage::save(&trace, &dir.path().join("tables")).unwrap();
    let again = read(&[dir.path().to_owned()]).unwrap();
    assert_eq!((again.jobs.submit.len(), again.ledger.damage.len(), again.skipped.len()), (1, 0, 1));
}

/// The whole file through a FIFO, many times larger than what is kept of its beginning: every row, and the hash of all
/// bytes, plain and compressed.
#[cfg(unix)]
#[test]
fn a_fifo_is_read_once_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let plain: String = SWF.to_owned() + &(0..20_000).map(swf_line).collect::<String>();
    for bytes in [plain.clone().into_bytes(), gzip(plain.as_bytes()), zstd_of(plain.as_bytes())] {
        let fifo = dir.path().join(format!("fifo-{}", bytes.len()));
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let (to, sent) = (fifo.clone(), bytes.clone());
        let writer = std::thread::spawn(move || std::fs::write(to, sent).unwrap());
        let trace = read(&[fifo]).unwrap();
        writer.join().unwrap();
        check(&trace);
        assert_eq!((trace.jobs.submit.len(), trace.ledger.read, trace.ledger.damage.len()), (20_000, 20_000, 0));
        let source = trace.sources.first().unwrap();
        assert_eq!((source.size_bytes, &source.sha256), (bytes.len() as u64, &ingest::sha256(&bytes)));
    }
}

/// zstd of `bytes`, by the program where there is one; else as they are.
#[expect(clippy::print_stdout)]
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let Ok(dir) = tempfile::tempdir() else { return bytes.to_vec() };
    let path = dir.path().join("a");
    std::fs::write(&path, bytes).unwrap();
    match Command::new("zstd").args(["-q", "-c"]).arg(&path).output() {
        Ok(output) if output.status.success() => output.stdout,
        _ => {
            println!("skipped: there is no zstd program, so zstd through a FIFO was not tried");
            bytes.to_vec()
        }
    }
}

/// A reader that stops early (a document that is none) leaves bytes in the pipe: they are hashed all the same, and the
/// writer ends.
#[cfg(unix)]
#[test]
fn what_no_reader_asked_for_is_hashed_too() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let text = std::fs::read_to_string(fixture("sacct-json/new.json")).unwrap() + "}" + &" x".repeat(500_000);
    let (to, sent) = (fifo.clone(), text.clone());
    let writer = std::thread::spawn(move || std::fs::write(to, sent).unwrap());
    let trace = read(&[fifo]).unwrap();
    writer.join().unwrap();
    assert_eq!((trace.ledger.read, trace.ledger.damage.len()), (4, 1));
    assert_eq!(trace.sources[0].sha256, ingest::sha256(text.as_bytes()));
}

/// Every text fixture with `\r` for its line ends reads as it does with `\n`.
#[test]
fn carriage_returns_alone_end_lines() {
    for (reader, name) in [
        ("sacct", "sacct/header.txt"),
        ("helios", "helios/cluster_log.csv"),
        ("pbs", "pbs/20240304"),
        ("lsf", "lsf/lsb.acct"),
        ("sge", "sge/accounting"),
        ("sge-json", "sge-json/accounting.jsonl"),
        ("htcondor", "htcondor/history"),
        ("sonar", "sonar/samples.csv"),
        ("swf", "swf/partial.swf"),
        ("openb", "openb/pods.csv"),
        ("supercloud", "supercloud/slurm-log.csv"),
    ] {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Path::new(name).file_name().unwrap());
        std::fs::write(&path, text.replace("\r\n", "\n").replace('\n', "\r")).unwrap();
        let sniffed = ingest::sniff(&SourceFile::new(&path)).unwrap().map(ingest::Reader::id);
        assert_eq!(sniffed, Some(reader), "{name}");
        assert_eq!(render(&read(&[path]).unwrap()), render(&read(&[fixture(name)]).unwrap()), "{name}");
    }
}

/// 18 MB of `1,` in 18 KB of gzip: 100 times that is 1.8 MB, and 16 MiB are always allowed. The error says so; with a bound
/// of 2,000 times, and as a plain file, it is read.
#[test]
fn a_document_that_blows_up_is_refused_with_its_bound() {
    let dir = tempfile::tempdir().unwrap();
    let (packed, plain) = (dir.path().join("a_v100_1.json.gz"), dir.path().join("b_v100_1.json"));
    let text = format!("{{\"metadata\": {{\"gap_seconds\": 1}}, \"data\": [{}1]}}", "1,".repeat(9_000_000));
    std::fs::write(&packed, gzip(text.as_bytes())).unwrap();
    let error = read(std::slice::from_ref(&packed)).unwrap_err().to_string();
    assert!(error.contains("expands beyond 16 MiB") && error.contains("--max-expansion"), "{error}");
    let options = ReadOptions { most_expansion: 2_000, ..ReadOptions::default() };
    let trace = ingest::read(&[SourceFile::new(&packed)], &options).unwrap();
    assert_eq!(trace.availability.ts.len(), 9_000_001);
    std::fs::write(&plain, &text).unwrap();
    assert_eq!(read(&[plain]).unwrap().availability.ts.len(), 9_000_001);

    // One job of `sacct --json` with a step of blanks: the bound is that of one job.
    let path = dir.path().join("jobs.json.gz");
    let job = |filler: usize| format!("{{\"job_id\": 1, \"name\": \"{}\"}}", "x".repeat(filler));
    std::fs::write(&path, gzip(format!("{{\"jobs\": [{}]}}", job(20 << 20)).as_bytes())).unwrap();
    assert!(read_as("sacct-json", &path).unwrap_err().to_string().contains("expands beyond 16 MiB"));
    // Large and honest: no single job is large.
    let jobs: Vec<String> = (0..40).map(|_| job(1 << 20)).collect();
    std::fs::write(&path, gzip(format!("{{\"jobs\": [{}]}}", jobs.join(",")).as_bytes())).unwrap();
    assert_eq!(read_as("sacct-json", &path).unwrap().ledger.read, 40);
}

/// Two columns called `gpu_num`: in row 2 they agree, in row 3 they do not, which is counted; the first is used.
#[test]
fn columns_of_one_name_that_disagree_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log.csv");
    let header = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,gpu_num";
    let times = "2020-04-01 00:00:00,2020-04-01 00:00:10,2020-04-01 01:00:10";
    let rows = format!("1,u,v,2,4,1,COMPLETED,{times},2\n2,u,v,2,4,1,COMPLETED,{times},8\n");
    std::fs::write(&path, format!("{header}\n{rows}")).unwrap();
    let trace = read(std::slice::from_ref(&path)).unwrap();
    assert_eq!(trace.jobs.req_gpus.iter().collect::<Vec<_>>(), [Some(2.0), Some(2.0)]);
    assert_eq!((trace.ledger.count("duplicate_column"), trace.ledger.kept, trace.ledger.repaired), (1, 1, 1));

    let row = |job: u32, state: &str| {
        format!("{job}|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|COMPLETED|{state}\n")
    };
    let text = format!("JobID|Submit|Start|End|State|State\n{}{}", row(1, "COMPLETED"), row(2, "FAILED"));
    std::fs::write(&path, text).unwrap();
    let trace = read(&[path]).unwrap();
    assert_eq!((trace.ledger.count("duplicate_column"), trace.ledger.read), (1, 2));
}
