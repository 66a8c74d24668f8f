//! Damage is never silent: every command says what of its source is not there, and refuses what cannot be used; and what can be
//! told to be wrong is told before anything is read.

use super::*;

/// Jobs of which six in ten lack most of their fields.
fn damaged() -> String {
    let mut text =
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n".to_owned();
    for at in 0..500 {
        let (day, hour) = (1 + at / 24, at % 24);
        let time = |minute: u32| format!("2020-04-{day:02} {hour:02}:{minute:02}:00");
        if at % 10 < 6 {
            text += &format!("{at},ann,va\n");
        } else {
            text += &format!("{at},ann,va,1,4,1,COMPLETED,{},{},{},600,0\n", time(1), time(1), time(11));
        }
    }
    text
}

/// The first part of a gzip file of `text`: whole blocks of rows, and no end.
fn cut_off(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    encoder.write_all(text.as_bytes()).unwrap();
    let mut whole = encoder.finish().unwrap();
    whole.truncate(whole.len() * 2 / 3);
    whole
}

/// Every command that reads a trace, put to `source`.
fn commands(source: &str, folder: &Folder) -> Vec<Vec<String>> {
    let cluster = folder.file("nodes.toml", "[[vc]]\nname = \"va\"\nnodes = 2\ngpus_per_node = 8\n");
    let out = |name: &str| folder.path(name);
    let lines: [&[&str]; 9] = [
        &["describe", source],
        &["report", source, "--force", "--out", &out("report")],
        &["inspect", source],
        &["ingest", source, "--force", "--out", &out("trace")],
        &["simulate", source, "--site", &cluster],
        &["audit", source],
        &["model", "train", "duration", source, "--trees", "5", "--force", "--out", &out("model")],
        &["model", "backtest", "duration", source, "--trees", "5", "--methods", "running_mean"],
        &["plan", "power", source, "--slot", "30min"],
    ];
    let more: [&[&str]; 2] = [
        &["model", "train", "demand", source, "--methods", "persistence", "--force", "--out", &out("demand")],
        &["model", "backtest", "demand", source, "--methods", "persistence", "--slot", "30min", "--horizon", "2"],
    ];
    lines.into_iter().chain(more).map(|line| line.iter().map(|word| (*word).to_owned()).collect()).collect()
}

fn run(command: &[String], more: &[&str]) -> Output {
    let words: Vec<&str> = command.iter().map(String::as_str).chain(more.iter().copied()).collect();
    tracecast(&words)
}

#[test]
fn every_command_says_what_is_not_there() {
    let folder = Folder::new();
    let source = folder.file("cluster_log.csv", &damaged());
    for command in commands(&source, &folder) {
        let said = stderr(&run(&command, &["--quiet"]));
        assert!(said.contains("300 of 500 rows (60.0 %) could not be used"), "{command:?}: {said}");
        let strict = run(&command, &["--strict"]);
        assert_eq!(strict.status.code(), Some(3), "{command:?}: {}", stderr(&strict));
    }
    // A model is applied as loudly as it is trained, and so is a trace folder, which remembers.
    let (model, trace) = (folder.path("model"), folder.path("trace"));
    for command in [
        &["model", "predict", "duration", &source, "--model", &model][..],
        &["simulate", &trace, "--site", &folder.path("nodes.toml")],
        &["query", "--standard", &trace],
    ] {
        let said = stderr(&tracecast(command));
        assert!(said.contains("300 of 500 rows (60.0 %) could not be used"), "{command:?}: {said}");
        let strict = tracecast(&[command, &["--strict"]].concat());
        assert_eq!(strict.status.code(), Some(3), "{command:?}: {}", stderr(&strict));
    }
    // A jobs table as text.
    let table = folder.file("jobs.csv", "job_key,submit,start,end,req_gpus\n1,0,0,60000,1\n2,0\n");
    assert!(stderr(&tracecast(&["query", "--standard", &table])).contains("1 of 2 rows (50.0 %) could not be used"));
    assert_eq!(tracecast(&["query", "--standard", &table, "--strict"]).status.code(), Some(3));
    // Answers that are kept say so themselves.
    for command in commands(&source, &folder) {
        if ["simulate", "backtest", "plan"].iter().any(|verb| command[..2].iter().any(|word| word == verb)) {
            let kept = stdout(&run(&command, &["--format", "json"]));
            assert!(kept.contains("300 of 500 rows"), "{command:?}: {kept}");
        }
    }
}

#[test]
fn every_command_says_that_a_file_ends_early() {
    let folder = Folder::new();
    let source = folder.path("cluster_log.csv.gz");
    std::fs::write(&source, cut_off(&damaged())).unwrap();
    for command in commands(&source, &folder) {
        let said = stderr(&run(&command, &[]));
        assert!(said.contains("is damaged or ends early, after line"), "{command:?}: {said}");
        let strict = run(&command, &["--strict"]);
        assert_eq!(strict.status.code(), Some(3), "{command:?}: {}", stderr(&strict));
    }
}

#[test]
fn a_source_of_which_no_row_can_be_used_is_a_failure() {
    let folder = Folder::new();
    let header = damaged().lines().next().unwrap().to_owned();
    let source = folder.file("cluster_log.csv", &format!("{header}\n1,ann,va\n2,ann,va\n"));
    for command in commands(&source, &folder) {
        let output = run(&command, &[]);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("no row could be used: 2 × "), "{command:?}: {}", stderr(&output));
        // The ledger is the answer that there is.
        let shown = stdout(&output);
        assert_eq!(command[0] == "inspect", shown.contains("2 quarantined"), "{command:?}: {shown}");
    }
    assert_eq!(folder.names(), ["cluster_log.csv", "nodes.toml"], "nothing was written");
    let table = folder.file("jobs.csv", "job_key,submit,start,end,req_gpus\n1,0\n2,0\n");
    let rolled = tracecast(&["query", "--standard", &table]);
    assert_eq!(rolled.status.code(), Some(1), "{}", stderr(&rolled));
    assert!(stderr(&rolled).contains("no row could be used: 2 × "), "{}", stderr(&rolled));
}

#[test]
fn what_cannot_be_written_is_told_before_anything_is_read() {
    let folder = Folder::new();
    // There is no such source, and nobody looks: what is wrong first is where the answer should go.
    let source = folder.path("nowhere.csv");
    let file = folder.file("file", "");
    let here = folder.path("").trim_end_matches('/').to_owned();
    let below = format!("{file}/answer");
    let model = folder.path("model");
    let nodes = folder.file("nodes.toml", "[[vc]]\nname = \"va\"\nnodes = 2\ngpus_per_node = 8\n");
    for (command, told) in [
        (&["describe", &source, "--out", &here][..], "is a folder"),
        (&["describe", &source, "--tables", &file], "is a file and no folder"),
        (&["describe", &source, "--charts", &below], "is a file and no folder"),
        (&["report", &source, "--out", &below], "is a file and no folder"),
        (&["ingest", &source, "--out", &below], "is a file and no folder"),
        (&["inspect", &source, "--quarantine", &here], "is a folder"),
        (&["simulate", &source, "--schedule", &here], "is a folder"),
        (&["simulate", &source, "--predictions", &source], "open "),
        (&["audit", &source, "--manifest", &below], "is a file and no folder"),
        (&["model", "train", "duration", &source, "--out", &below], "is a file and no folder"),
        (&["model", "train", "demand", &source, "--out", &here], "is a folder"),
        (&["model", "predict", "duration", &source, "--model", &model, "--slurm", &file], "is a file and no folder"),
        (
            &[
                "model",
                "predict",
                "duration",
                &source,
                "--model",
                &model,
                "--slurm",
                &here,
                "--slurm-table",
                "here.txt",
            ],
            "--slurm-table",
        ),
        (&["model", "backtest", "duration", &source, "--out", &here], "is a folder"),
        (&["plan", "power", &source, "--emit-to", &file], "is a file and no folder"),
        (&["plan", "power", &source, "--host-list", "n[1-"], "is no host list"),
        (
            &["plan", "power", &source, "--force", "--emit-to", &here, "--slurm-version", "new"],
            "is no version of Slurm",
        ),
        (&["plan", "power", &source, "--site", &nodes, "--scan", "sideways"], "sideways"),
        (&["synth", &source, "--out", &below], "is a file and no folder"),
    ] {
        let output = tracecast(command);
        assert!([Some(1), Some(2)].contains(&output.status.code()), "{command:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(told), "{command:?}: {}", stderr(&output));
    }
    assert_eq!(folder.names(), ["file", "nodes.toml"]);
}

/// An inventory of one node, without dates, and a pod an hour for twenty days.
fn inventory(folder: &Folder) -> [String; 2] {
    let nodes = folder.file("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nnode-1,96000,1024,8,V100M32\n");
    let mut pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n".to_owned();
    for hour in 0..480 {
        let at = hour * 3600;
        pods += &format!("pod-{hour},4000,1024,1,1000,,LS,Succeeded,{at},{},{}\n", at + 1800, at + 10);
    }
    [folder.file("pods.csv", &pods), nodes]
}

#[test]
fn what_is_assumed_of_the_capacity_is_said_by_every_command_that_rests_on_it() {
    let folder = Folder::new();
    let [pods, nodes] = inventory(&folder);
    let assumed = "the inventory (1 node with GPUs) is taken to have been the same at all times";
    for command in [
        &["describe"][..],
        &["simulate"],
        &["plan", "power", "--slot", "1h"],
        &["model", "backtest", "demand", "--methods", "persistence", "--slot", "1h", "--horizon", "2"],
    ] {
        let output = tracecast(&[command, &[&pods, &nodes, "--format", "json"]].concat());
        assert!(output.status.success(), "{command:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(assumed), "{command:?}: {}", stdout(&output));
    }
    let out = folder.path("report");
    let report = tracecast(&["report", &pods, &nodes, "--out", &out]);
    assert!(report.status.success(), "{}", stderr(&report));
    let page = std::fs::read_to_string(Path::new(&out).join("report.html")).unwrap();
    assert!(page.contains(assumed));
    let model = folder.path("demand");
    let slots = ["--methods", "persistence", "--slot", "1h", "--horizon", "2"];
    let trained = tracecast(&[&["model", "train", "demand", &pods, &nodes, "--out", &model], &slots[..]].concat());
    assert!(stderr(&trained).contains(assumed), "{}", stderr(&trained));
    let forecast = tracecast(&["model", "predict", "demand", "--model", &model, &pods, &nodes]);
    assert!(stderr(&forecast).contains(assumed), "{}", stderr(&forecast));
}
