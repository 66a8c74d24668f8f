//! Hostile inputs and uses: endless and swollen inputs, questions that go too far, signals in the
//! middle of a write, numbers that are none.

use std::time::{Duration, Instant};

use super::*;

/// Runs a command that must be refused within a minute: what it says on stderr.
fn refused(arguments: &[&str]) -> String {
    let begun = Instant::now();
    let output = tracecast(arguments);
    let said = stderr(&output);
    assert!(!output.status.success() && output.status.code().is_some(), "{arguments:?}: {:?} {said}", output.status);
    assert!(!said.contains("panicked") && !said.contains("memory allocation"), "{arguments:?}: {said}");
    assert!(begun.elapsed() < Duration::from_secs(60), "{arguments:?}: {:?}", begun.elapsed());
    said
}

#[test]
fn sources_without_an_end_are_refused() {
    let sample = "datasets/sample";
    for (arguments, told) in [
        (&["simulate", sample, "--predictions", "/dev/zero"][..], "16 MiB"),
        (&["query", sample, "select 1 as one from mine", "--with", "mine=/dev/zero"], "no regular file"),
        (&["query", sample, "select * from read_csv('/dev/zero')"], "no file"),
        (&["plan", "defer", sample, "--carbon", "/dev/zero"], ""),
        (&["describe", "/dev/zero"], ""),
        (&["describe", "/dev/urandom", "--reader", "sacct"], ""),
        (&["describe", "/dev/zero", "--reader", "swf"], ""),
        (&["simulate", sample, "--site", "/dev/zero"], "16 MiB"),
        (&["decide", "power", "--plan", "/dev/zero", "-"], "1 MiB"),
    ] {
        let said = refused(arguments);
        assert!(said.contains(told), "{arguments:?}: {said}");
    }
    for (command, option, number) in [
        ("model train duration datasets/sample --out", "--trees", "1000000000"),
        ("model train demand datasets/sample --out", "--trees", "1000000000"),
        ("describe datasets/sample --out", "--threads", "1000000000"),
    ] {
        let folder = Folder::new();
        let out = folder.path("out");
        let command: Vec<&str> = command.split(' ').chain([out.as_str(), option, number]).collect();
        assert!(refused(&command).contains("give a whole number from 1 to"), "{command:?}");
    }
}

/// An array that is small when packed, within the bound that the user allows, and too much for the memory when parsed.
#[test]
fn an_element_that_swells_is_refused() {
    let folder = Folder::new();
    let path = folder.path("bomb.json.gz");
    let mut packed = flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    packed.write_all(br#"{"meta":{"Slurm":{}},"jobs":[{"job_id":1,"x":["#).unwrap();
    let zeros = "0,".repeat(1 << 19);
    for _ in 0..140 {
        packed.write_all(zeros.as_bytes()).unwrap();
    }
    packed.write_all(b"0]}]}").unwrap();
    packed.finish().unwrap();
    let said = refused(&["describe", &path, "--reader", "sacct-json", "--max-expansion", "100000"]);
    assert!(said.contains("more than 128 MiB"), "{said}");
}

#[test]
fn questions_stay_on_this_machine_and_within_its_memory() {
    let asked = |sql: &str| refused(&["query", "datasets/sample", sql]);
    for address in ["http://127.0.0.1:1/x", "https://127.0.0.1:1/x.parquet", "s3://a/b.parquet", "hf://datasets/a"] {
        let said = asked(&format!("select * from read_parquet('{address}')"));
        assert!(said.contains("nothing is fetched from a network"), "{address}: {said}");
    }
    asked("select submit + interval '100000000 years' as far from jobs");
    // A far limit is one that the answer does not reach.
    for far in ["limit 99999999999999", "limit 18446744073709551615", "limit 99999999999999 offset 0"] {
        let sql = format!("select vc, count(*) as n from jobs group by vc order by n desc {far}");
        let output = tracecast(&["query", "datasets/sample", &sql, "--format", "csv"]);
        assert!(output.status.success() && stdout(&output).lines().count() > 3, "{far}: {}", stderr(&output));
    }
    let past = ["query", "datasets/sample", "select vc from jobs order by vc limit 1 offset 99999999999999", "--json"];
    assert_eq!(json(&stdout(&tracecast(&past))), serde_json::json!([]));
}

/// A shell that allows 6 GB of address space stands for a machine that has no more.
#[cfg(target_os = "linux")]
#[test]
fn a_question_that_takes_too_much_memory_is_ended_with_a_sentence() {
    let program = env!("CARGO_BIN_EXE_tracecast");
    let sql = "select a.*, b.* from jobs a join jobs b on 1=1";
    let script = format!("ulimit -v 6000000 && exec {program} query datasets/sample '{sql}' --format csv");
    let output = Command::new("sh").args(["-c", &script]).current_dir(root()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{:?} {said}", output.status);
    assert!(said.contains("the query holds") && said.contains("write a condition for each join"), "{said}");
}

/// Every column of every table can be asked for by its table's name, words of SQL among them, and predictions join with the jobs that they are of.
#[test]
fn columns_have_the_names_of_their_tables_before_them() {
    let listed = json(&stdout(&tracecast(&["query", "datasets/sample", "--json"])));
    for table in listed["tables"].as_array().unwrap() {
        let name = table["name"].as_str().unwrap();
        let columns =
            table["columns"].as_array().unwrap().iter().map(|of| format!("t.{}", of["name"].as_str().unwrap()));
        let sql = format!("select {} from {name} t limit 1", columns.collect::<Vec<_>>().join(", "));
        let output = tracecast(&["query", "datasets/sample", &sql, "--format", "csv"]);
        assert!(output.status.success(), "{sql}: {}", stderr(&output));
    }
    let folder = Folder::new();
    let own = folder.file("own.csv", "job_id,job_key,predicted_duration_s\n007,007,1.5\n2,2,60\n");
    let source = folder.file("cluster_log.csv", JOBS);
    let sql = "select j.user, p.predicted_duration_s from job_facts j join own p on j.job_key = p.job_key or j.job_key = p.job_id where j.user = 'ub'";
    let joined = |sql: &str| tracecast(&["query", &source, sql, "--with", &format!("own={own}"), "--format", "csv"]);
    let on_key = joined(&sql.replace(" or j.job_key = p.job_id", ""));
    assert_eq!(stdout(&on_key), "user,predicted_duration_s\nub,60.0\n", "{}", stderr(&on_key));
    let on_id = joined(&sql.replace("j.job_key = p.job_key or ", ""));
    assert_eq!(stdout(&on_id), "user,predicted_duration_s\nub,60.0\n", "{}", stderr(&on_id));
    assert_eq!(stdout(&joined("select job_key from own order by 1")), "job_key\n007\n2\n");
}

/// Wherever the signal comes, a folder is there whole or not at all, and nothing of a passing name.
#[cfg(unix)]
#[test]
fn a_signal_leaves_a_folder_whole_or_not_at_all() {
    let names = |path: &str| -> Option<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(path)
            .ok()?
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Some(names)
    };
    let folder = Folder::new();
    let ingest = |name: &str| {
        Command::new(env!("CARGO_BIN_EXE_tracecast"))
            .args(["ingest", "datasets/sample", "--out", &folder.path(name), "--quiet"])
            .current_dir(root())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let begun = Instant::now();
    assert!(ingest("whole").wait().unwrap().success());
    let takes = begun.elapsed();
    let whole = names(&folder.path("whole")).unwrap();
    for at in 0..40u32 {
        let mut child = ingest("t");
        std::thread::sleep(takes.mul_f64(0.6 + 0.012 * f64::from(at)));
        let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
        child.wait().unwrap();
        if let Some(found) = names(&folder.path("t")) {
            assert_eq!(found, whole, "after {at}");
            std::fs::remove_dir_all(folder.path("t")).unwrap();
        }
        assert_eq!(folder.names(), ["whole"], "after {at}");
    }
}
